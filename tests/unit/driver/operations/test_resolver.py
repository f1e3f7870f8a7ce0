# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import contextlib
import dataclasses
import datetime
import json
from unittest import mock
from unittest.mock import call

import ddt

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM

FOUND = ArrayVolume(group=5, volume=31)
VIEW = ArrayVolume(group=6, view=40, origin=30)
TAKEN = ArraySnapshot(snapshot=8, group=6)
DIGEST = 'c0ffee00'


def ids(backing, name_id='', system=SYSTEM):
    return provider_id.encode(system, backing, name_id)


def a_type(**specs):
    return mock.Mock(extra_specs={
        f'kaminario:{key}': value for key, value in specs.items()})


class ResolverTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.other = doubles.ArrayDouble(self, 'other', 'moon')
        self.peers = {}
        self.resolver = resolver.Resolver(self.array, self.peers)
        self.volume = doubles.a_volume(provider_id=ids(FOUND, 'v1'))
        self.snapshot = doubles.a_snapshot(provider_id=ids(TAKEN))
        for row in (self.volume, self.snapshot):
            row.refresh = lambda: self.log.refresh()
        self.write = self.function(writes, 'set_if_unmoved')
        self.write.return_value = True

    def has_peer(self):
        """Add another array as a peer."""
        self.peers['moon'] = resolver.Peer(
            'moon', self.other, 'moon.example.org', 300, None, None)


@ddt.ddt
class RowsTest(ResolverTestCase):
    """Ids in rows: reading and writing them."""

    def test_ids(self):
        """Asking for the id of the array has its own deadline."""
        self.assertEqual({'provider_id': ids(FOUND, 'v1')},
                         self.resolver.ids(FOUND, 'v1'))
        self.assertEqual([call.deadline(fresh=True)], self.calls())

    def test_ids_of_a_snapshot_do_not_contain_the_id_of_the_row(self):
        self.assertNotIn('of', json.loads(
            self.resolver.ids(TAKEN)['provider_id']))

    def test_known(self):
        self.assertEqual(FOUND, self.resolver.known(self.volume))

    @ddt.data(FOUND, None)
    def test_volume_is_free(self, found):
        self.volume.provider_id = found and ids(found, 'v1')
        self.resolver.check_free(self.volume)
        self.assertEqual([], self.calls())

    def test_volume_being_failed_back_is_not_free(self):
        self.volume.provider_id = ids(dataclasses.replace(
            FOUND, failback_in_progress=True), 'v1')
        with self.assertRaisesRegex(exceptions.ObjectInUse,
                                    f'{self.volume.id}.*failover-host'):
            self.resolver.check_free(self.volume)

    @ddt.data(None, ids(FOUND, 'v1', 'moon'), ids(FOUND, 'v2'))
    def test_unknown_ids(self, value):
        self.volume.provider_id = value
        self.assertIsNone(self.resolver.known(self.volume))

    def test_creation_time_of_a_snapshot(self):
        """It is in UTC, though Cinder's value has no time zone."""
        self.snapshot.created_at = datetime.datetime(1970, 1, 1, 0, 1)
        found = self.resolver.known_snapshot(self.snapshot)
        self.assertEqual((TAKEN, 60.0), (found, found.since))

    def test_snapshot_without_a_creation_time(self):
        found = self.resolver.known_snapshot(self.snapshot)
        self.assertEqual((TAKEN, None), (found, found.since))

    def test_snapshot_without_ids(self):
        self.snapshot.provider_id = None
        self.snapshot.created_at = datetime.datetime(1970, 1, 1)
        self.assertIsNone(self.resolver.known_snapshot(self.snapshot))

    # Holding volumes that may be flattened

    def hold(self, backing, **how):
        """Hold the volume; return the calls, and the ids while held."""
        self.volume.provider_id = backing and ids(backing, 'v1')
        self.volume.obj_reset_changes = lambda names: None
        with self.resolver.held(self.volume, **how):
            known = self.resolver.known(self.volume)
        return self.calls(), known

    def current_ids(self, now):
        """Log the lock, and set the ids of the row in the database."""
        @contextlib.contextmanager
        def flattening(volume_id, timeout=None):
            self.log.flattening(volume_id, timeout)
            yield
            self.log.released()
        self.replace(locks, 'flattening', flattening)
        current = self.function(writes, 'current')
        current.return_value = doubles.a_volume(provider_id=ids(now, 'v1'))

    @ddt.data(VIEW, None)
    def test_view_is_held(self, in_hand):
        """So is a volume without ids, which may be a view."""
        self.current_ids(now=FOUND)
        self.assertEqual(([
            call.flattening('v1', 20), call.deadline(fresh=True),
            call.current(self.volume), call.released()], FOUND),
            self.hold(in_hand, timeout=20))

    def test_volume_that_is_no_view_is_not_held(self):
        self.current_ids(now=VIEW)
        self.assertEqual(([], FOUND), self.hold(FOUND))

    # Marks in rows

    def test_note(self):
        self.resolver.note(self.volume, FOUND, regrouping=True)
        self.assertEqual([call.set_if_unmoved(self.volume, {
            'provider_id': ids(dataclasses.replace(FOUND, regrouping=True),
                               'v1')})], self.calls('set_if_unmoved'))

    @ddt.data((True, False), (False, True))
    @ddt.unpack
    def test_has_clones_is_never_reset(self, in_row, in_hand):
        self.volume.provider_id = ids(dataclasses.replace(
            FOUND, has_clones=in_row), 'v1')
        self.resolver.note(self.volume, dataclasses.replace(
            FOUND, has_clones=in_hand), regrouping=True)
        self.assertIn('"has_clones":true',
                      self.write.call_args.args[1]['provider_id'])

    def test_note_in_a_row_without_ids(self):
        self.volume.provider_id = None
        self.resolver.note(self.volume, FOUND)
        self.write.assert_called_once_with(
            self.volume, {'provider_id': ids(FOUND, 'v1')})

    def test_unchanged_ids_are_not_written(self):
        self.resolver.note(self.volume, FOUND)
        self.assertEqual([], self.calls('set_if_unmoved'))

    def rewrite(self, find=None, change=None):
        return self.resolver.rewrite(
            self.volume, find or self.resolver.known, change or (
                lambda found: dataclasses.replace(found, has_clones=True)))

    def test_concurrent_update(self):
        """The row is read again, and its new values are kept."""
        moved = dataclasses.replace(FOUND, group=9)
        self.write.side_effect = [False, True]

        def refresh():
            self.log.refresh()
            self.volume.provider_id = ids(moved, 'v1')

        self.volume.refresh = refresh
        expected = dataclasses.replace(moved, has_clones=True)
        self.assertEqual(expected, self.rewrite())
        first = dataclasses.replace(FOUND, has_clones=True)
        self.assertEqual([
            call.set_if_unmoved(self.volume, {
                'provider_id': ids(first, 'v1')}), call.refresh(),
            call.set_if_unmoved(self.volume, {
                'provider_id': ids(expected, 'v1')})],
            self.calls('set_if_unmoved', 'refresh'))

    def test_row_that_changes_repeatedly(self):
        self.write.return_value = False
        error = self.raised(exceptions.ConcurrentUpdate, self.rewrite)
        self.assertEqual('The row of v1 changes all the time; try again.',
                         str(error))
        self.assertEqual(5, self.write.call_count)

    def test_row_that_was_failed_over(self):
        self.has_peer()
        self.write.return_value = False

        def refresh():
            self.volume.provider_id = ids(FOUND, 'v1', 'moon')

        self.volume.refresh = refresh
        self.assertRaises(exceptions.ArrayNotActive, self.rewrite)
        self.assertEqual(1, self.write.call_count)

    def test_rewrite_without_a_change(self):
        self.assertEqual(FOUND, self.rewrite(change=lambda found: found))
        self.assertEqual([], self.calls('set_if_unmoved', 'refresh'))

    def test_rewrite_ids_of_a_snapshot(self):
        self.resolver.rewrite(
            self.snapshot, self.resolver.known_snapshot,
            lambda found: dataclasses.replace(found, has_clones=True))
        self.assertNotIn('of', json.loads(
            self.write.call_args.args[1]['provider_id']))

    # The array of a volume

    @ddt.data(None, 'junk', ids(FOUND, 'v1'), ids(FOUND, 'v2'))
    def test_volume_on_this_array(self, value):
        self.has_peer()
        self.volume.provider_id = value
        self.resolver.check_here(self.volume)

    def test_volume_on_another_array(self):
        self.has_peer()
        self.volume.provider_id = ids(FOUND, 'v1', 'moon')
        error = self.raised(exceptions.ArrayNotActive,
                            self.resolver.check_here,
                            self.volume)
        self.assertEqual(
            'v1 is on the array with system id moon, not on that at '
            f'{self.array.address}. If it was failed over, or back, '
            'meanwhile, try again. If that array does not serve, fail over, '
            'or back, to it first. If its replication_device is gone from '
            'cinder.conf, put it back.', str(error))

    @ddt.data((True, 'v1', True), (False, 'v1', False), (True, 'v2', False))
    @ddt.unpack
    def test_volume_on_an_unknown_array(self, replicated, owner, raises):
        """A replicated volume may have a replica of its name here."""
        self.volume.provider_id = ids(dataclasses.replace(
            FOUND, replicated=replicated), owner, 'mars')
        if raises:
            self.assertRaises(exceptions.ArrayNotActive,
                              self.resolver.check_here, self.volume)
        else:
            self.resolver.check_here(self.volume)

    def test_snapshot_on_another_array(self):
        self.has_peer()
        self.snapshot.provider_id = ids(TAKEN, system='moon')
        self.assertRaises(exceptions.ArrayNotActive, self.resolver.check_here,
                          self.snapshot)


@ddt.ddt
class VolumesTest(ResolverTestCase):

    def test_known_ids_need_no_call(self):
        self.assertEqual(FOUND, self.resolver.resolve(self.volume))
        self.assertEqual([], self.calls())

    def test_volume_being_moved_is_looked_up(self):
        self.volume.provider_id = ids(dataclasses.replace(
            FOUND, regrouping=True), 'v1')
        self.array.groups.group_of.return_value = 9
        self.array.groups.is_shared.return_value = True
        self.assertEqual(
            dataclasses.replace(FOUND, regrouping=True, group=9, shared=True),
            self.resolver.resolve(self.volume))
        self.assertEqual([call.array.groups.group_of(31),
                          call.array.groups.is_shared(9)], self.calls())

    def test_volume_without_ids_is_found_by_name(self):
        self.volume.provider_id = None
        self.array.volumes.find.return_value = FOUND
        self.assertEqual(FOUND, self.resolver.resolve(self.volume))
        self.array.volumes.find.assert_called_once_with('cv-v1')
        self.assertEqual([], self.calls('array.groups'))

    @ddt.data(True, False)
    def test_group_member_without_ids(self, shared):
        self.volume.provider_id, self.volume.group_id = None, 'g'
        self.array.volumes.find.return_value = FOUND
        self.array.groups.is_shared.return_value = shared
        self.assertEqual(shared, self.resolver.resolve(self.volume).shared)
        self.array.groups.is_shared.assert_called_once_with(5)

    def test_volume_without_ids_may_be_replicated(self):
        self.has_peer()
        self.volume.provider_id = None
        self.volume.replication_status = 'enabled'
        self.array.volumes.find.return_value = FOUND
        self.assertTrue(self.resolver.resolve(self.volume).replicated)

    def test_missing_volume(self):
        self.volume.provider_id = None
        error = self.raised(exceptions.ObjectMissing, self.resolver.resolve,
                            self.volume)
        self.assertEqual(f'The array at {self.array.address} has no volume '
                         'or view cv-v1.', str(error))

    def test_volume_on_another_array_is_not_looked_up(self):
        """What has its name here may be an outdated replica."""
        self.has_peer()
        self.volume.provider_id = ids(FOUND, 'v1', 'moon')
        self.assertRaises(exceptions.ArrayNotActive, self.resolver.resolve,
                          self.volume)
        self.assertEqual([], self.calls('array.volumes'))

    def test_names_of_a_migrated_replicated_volume(self):
        self.volume.provider_id, self.volume.name_id = None, 'n1'
        self.volume.replication_status = 'failed-over'
        self.array.volumes.find.return_value = FOUND
        self.resolver.resolve(self.volume)
        self.array.volumes.find.assert_called_once_with(
            'cv-n1', 'rcv-n1', 'cv-v1', 'rcv-v1')

    # Verification by name

    def test_volume_is_confirmed_by_name(self):
        moved = dataclasses.replace(FOUND, group=9)
        self.array.identity.volume.return_value = moved
        self.assertEqual(moved, self.resolver.find(self.volume))
        self.array.identity.volume.assert_called_once_with(FOUND, ['cv-v1'])

    def test_additional_names(self):
        self.array.identity.volume.return_value = FOUND
        self.resolver.confirm(self.volume, FOUND, 'a', 'b')
        self.array.identity.volume.assert_called_once_with(
            FOUND, ['cv-v1', 'a', 'b'])

    def test_no_object_has_the_name(self):
        self.array.identity.name_now.return_value = ('', '')
        error = self.raised(exceptions.ObjectMissing, self.resolver.confirm,
                            self.volume, FOUND)
        self.assertEqual(f'The array at {self.array.address} has no volume '
                         'or view cv-v1.', str(error))

    def test_renamed_volume(self):
        self.array.identity.name_now.return_value = ('mine', 'cvg-v1')
        error = self.raised(exceptions.ObjectRenamed, self.resolver.confirm,
                            self.volume, FOUND)
        self.assertEqual(
            f'Volume cv-v1 on the array at {self.array.address} is called '
            'mine now. Give it back its name there, then try again.',
            str(error))
        self.array.identity.name_now.assert_called_once_with(FOUND)

    @ddt.data(('mine', 'theirs'), ('', 'cvg-v1'))
    def test_volume_is_gone_and_not_renamed(self, now):
        self.array.identity.name_now.return_value = now
        self.resolver.check_not_renamed(self.volume, FOUND)

    # Names

    def names(self, **more):
        return self.resolver.names_of(
            self.volume, dataclasses.replace(FOUND, **more))

    def test_name_without_a_peer(self):
        self.assertEqual(['cv-v1'], self.names())

    @ddt.data(('enabled', ['cv-v1', 'rcv-v1']),
              ('failed-over', ['rcv-v1', 'cv-v1']))
    @ddt.unpack
    def test_names_of_replicas(self, status, expected):
        self.has_peer()
        self.volume.replication_status = status
        self.assertEqual(expected, self.names())

    def test_name_while_it_is_flattened(self):
        self.assertEqual(['cv-v1', 'cnew-v1'], self.names(flattening=True))

    def test_names_of_a_migrated_volume(self):
        self.volume.name_id = 'n1'
        self.assertEqual(['cv-n1', 'cv-v1'], self.names())
        self.assertEqual(['cv-n1', 'cnew-n1', 'cv-v1'],
                         self.names(flattening=True))

    @ddt.data(('failed-over', ['cv-x', 'rcv-x']), ('enabled', ['cv-x']))
    @ddt.unpack
    def test_names_for_an_id(self, status, expected):
        self.volume.replication_status = status
        self.assertEqual(expected, self.resolver.names(self.volume, 'x'))

    @ddt.data(
        (None, None, ['n1', 'v1']), (None, 'deleting', ['n1']),
        (ids(FOUND, 'n1'), None, ['n1']))
    @ddt.unpack
    def test_name_ids_of_a_migrated_volume(self, value, status, expected):
        """A row deleted by a migration has the id of the volume that stays."""
        self.volume.provider_id, self.volume.name_id = value, 'n1'
        self.volume.migration_status = status
        self.assertEqual(expected, self.resolver.name_ids(self.volume))

    def test_name_id(self):
        self.volume.provider_id = None
        self.assertEqual(['v1'], self.resolver.name_ids(self.volume))

    # Replication

    @ddt.data(
        (False, 'enabled', 'enabled', False), (True, 'enabled', 'no', True),
        (True, 'disabled', 'enabled', True), (True, 'disabled', 'no', False),
        (True, None, 'no', False), (True, 'not-capable', 'no', False),
        (True, 'disabled', 'nonsense', True))
    @ddt.unpack
    def test_may_be_replicated(self, peer, status, word, expected):
        if peer:
            self.has_peer()
        self.volume.replication_status = status
        self.volume.volume_type = a_type(replication=word)
        self.assertIs(expected,
                      self.resolver.may_be_replicated(self.volume))

    @ddt.data(('failed-over', True), ('enabled', False), (None, False))
    @ddt.unpack
    def test_may_be_copy(self, status, expected):
        self.volume.replication_status = status
        self.assertIs(expected, self.resolver.may_be_copy(self.volume))


@ddt.ddt
class SnapshotsTest(ResolverTestCase):

    def test_known_ids_need_no_call(self):
        self.assertEqual(TAKEN, self.resolver.resolve_snapshot(
            self.snapshot))
        self.assertEqual([], self.calls())

    def test_snapshot_without_ids_is_found_by_name(self):
        self.snapshot.provider_id = None
        self.array.snapshots.find.return_value = TAKEN
        self.assertEqual(TAKEN, self.resolver.resolve_snapshot(
            self.snapshot))
        self.array.snapshots.find.assert_called_once_with('cs-s1')

    def test_group_snapshot_without_ids(self):
        self.snapshot.provider_id = None
        self.snapshot.group_snapshot_id = 'gs'
        self.array.snapshots.find.side_effect = {'cgs-gs': TAKEN}.get
        self.assertEqual(TAKEN, self.resolver.resolve_snapshot(
            self.snapshot))
        self.assertEqual([call('cs-s1'), call('cgs-gs')],
                         self.array.snapshots.find.call_args_list)

    def test_missing_snapshot(self):
        self.snapshot.provider_id = None
        error = self.raised(exceptions.ObjectMissing,
                            self.resolver.resolve_snapshot, self.snapshot)
        self.assertEqual(f'The array at {self.array.address} has no '
                         'snapshot cs-s1.', str(error))
        self.assertEqual(1, self.array.snapshots.find.call_count)

    def test_snapshot_on_another_array_is_not_looked_up(self):
        self.has_peer()
        self.snapshot.provider_id = ids(TAKEN, system='moon')
        self.assertRaises(exceptions.ArrayNotActive,
                          self.resolver.resolve_snapshot, self.snapshot)
        self.assertEqual([], self.calls('array.snapshots'))

    @ddt.data((None, ['cs-s1']), ('gs', ['cgs-gs', 'cs-s1']))
    @ddt.unpack
    def test_names(self, group_snapshot, expected):
        self.snapshot.group_snapshot_id = group_snapshot
        self.assertEqual(expected,
                         self.resolver.snapshot_names(self.snapshot))

    def test_source_names_of_a_managed_snapshot(self):
        """OBJ-7: the names of its volume, and of all possible groups."""
        self.snapshot.provider_id = ids(dataclasses.replace(
            TAKEN, named=DIGEST))
        self.snapshot.volume = self.volume
        source = self.resolver.known_snapshot(self.snapshot).source
        self.assertEqual(('cv-v1',), source.volumes)
        self.assertEqual({'cvg-v1', 'rcvg-v1'}, set(source.groups))
        self.volume.group_id = 'g'
        source = self.resolver.known_snapshot(self.snapshot).source
        self.assertEqual({'cvg-v1', 'rcvg-v1', 'ccg-g', 'rccg-g'},
                         set(source.groups))

    def test_snapshot_is_confirmed_by_name(self):
        self.array.identity.snapshot.return_value = TAKEN
        self.assertEqual(TAKEN, self.resolver.confirm_snapshot(
            self.snapshot, TAKEN))
        self.array.identity.snapshot.assert_called_once_with(
            TAKEN, ['cs-s1'])
        self.assertEqual([], self.calls('set_if_unmoved'))

    def test_no_object_has_the_name(self):
        error = self.raised(exceptions.ObjectMissing,
                            self.resolver.confirm_snapshot, self.snapshot,
                            TAKEN)
        self.assertEqual(
            f'The array at {self.array.address} has no snapshot cs-s1 with '
            'the id that Cinder noted for it, 8.', str(error))

    def test_digest_of_a_managed_snapshot_is_saved(self):
        """Once it is confirmed; other marks in the row are kept."""
        managed = dataclasses.replace(TAKEN, named=DIGEST)
        self.array.identity.snapshot.return_value = managed
        self.snapshot.provider_id = ids(dataclasses.replace(
            TAKEN, has_clones=True))
        self.assertEqual(managed, self.resolver.confirm_snapshot(
            self.snapshot, TAKEN))
        self.write.assert_called_once_with(self.snapshot, {
            'provider_id': ids(dataclasses.replace(
                managed, has_clones=True))})


class SettledTest(ResolverTestCase):

    def test_missing_volume(self):
        self.array.groups.group_of.side_effect = rest.NotFound('gone')
        self.assertRaises(rest.NotFound, self.resolver.settled, FOUND)
