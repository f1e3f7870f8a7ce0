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

import dataclasses
from unittest import mock
from unittest.mock import call

from cinder import exception
import ddt

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import deferred_deletion
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import purge
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import unmanaging
from cinder_k2 import exceptions
from cinder_k2.flows import deletion as flows
from cinder_k2 import rest
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM

PLAIN = ArrayVolume(group=5, volume=31)
THIN = ArrayVolume(group=5, volume=31, parent=8, parent_group=6)
HIDING = dataclasses.replace(THIN, hidden_parent=True)
VIEW = ArrayVolume(group=6, view=40, origin=30, parent=8, hidden_parent=True)
TAKEN = ArraySnapshot(snapshot=8, group=6, volume=30)

GROUP = rest.VolumeGroup(5, name='cvg-v1')
# A volume with a clone, and one whose last clone has just been deleted.
NEEDED = deferred_deletion.Needs(
    GROUP, [rest.Snapshot(7, short_name='ccs-v2', num_of_clones=1)])
LEFT = deferred_deletion.Needs(GROUP, [])

IN_USE = exceptions.ObjectInUse('cv-v1', 'is needed')
MAPPED = exceptions.StillMapped('cv-v1', 'is mapped')


class DeletionTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.known = self.double('resolver', resolver.Resolver)
        self.known.known.return_value = PLAIN
        self.known.held.side_effect = self.held
        self.known.names_of.side_effect = (
            lambda volume, known: [f'cv-{volume.name_id}'])
        self.known.names.side_effect = (
            lambda volume, name_id: [f'cv-{name_id}', f'rcv-{name_id}'])
        self.known.name_ids.side_effect = lambda volume: [volume.name_id]
        self.known.snapshot_names.side_effect = lambda row: [f'cs-{row.id}']
        self.known.settled.side_effect = lambda known: known
        self.known.may_be_replicated.return_value = False
        self.known.may_be_copy.return_value = False
        self.hosts = self.double('detach', detach.Detach)
        self.sessions = self.double('replication', replication.Replication)
        self.others = self.double('unmanaging', unmanaging.Unmanaging)
        self.try_volume = self.function(flows, 'try_delete_volume')
        self.try_volume.return_value = True
        self.retire = self.function(flows, 'retire_volume')
        self.retire.return_value = None
        self.try_snapshot = self.function(flows, 'try_delete_snapshot')
        self.retire_snapshot = self.function(flows, 'retire_snapshot')
        self.own_group = self.function(flows, 'delete_own_group_by_name')
        self.function(flows, 'delete_parent')
        self.function(flows, 'hide_parent')
        self.function(purge, 'run', 'purge')
        self.array.identity.volume.side_effect = lambda known, names: known
        for find in ('find', 'find_view'):
            getattr(self.array.snapshots, find).return_value = None
            getattr(self.array.volumes, find).return_value = None
        self.array.volumes.check_unmapped.return_value = None
        self.array.deferred.needs_of_volume.return_value = None
        self.volume = doubles.a_volume()
        self.deletion = deletion.Deletion(
            self.array, self.known, self.hosts, self.sessions, self.others)

    def has(self, backing):
        """Set the ids in the row of the volume."""
        self.known.known.return_value = backing

    def done(self):
        """Return the calls without mere lookups."""
        looks = ('resolver.', 'released', 'array.identity.',
                 'array.snapshots.find',
                 'array.snapshots.is_hidden', 'array.snapshots.of_group',
                 'array.volumes.find')
        return [each for each in self.calls()
                if not each[0].startswith(looks)]


@ddt.ddt
class DeleteVolumeTest(DeletionTestCase):

    def delete(self, **more):
        self.assertIsNone(self.deletion.delete_volume(self.volume, **more))
        return self.done()

    def test_volume_is_held_during_the_deletion(self):
        """It cannot be flattened; its row is read while it is held."""
        self.delete()
        calls = self.calls()
        self.assertEqual([call.resolver.held(self.volume),
                          call.resolver.known(self.volume)], calls[:2])
        self.assertEqual(call.released(self.volume), calls[-1])

    def test_volume_being_flattened_is_busy(self):
        self.known.held.side_effect = IN_USE
        error = self.raised(exception.VolumeIsBusy,
                            self.deletion.delete_volume, self.volume)
        self.assertIn('cv-v1 is needed', str(error))
        self.assertEqual([], self.done())

    def test_volume_and_the_lock_of_its_group_are_deleted(self):
        """Lookups do not count toward the deadline of the deletion."""
        self.assertEqual([
            call.deadline(fresh=True),
            call.try_delete_volume(self.array, PLAIN, ['cv-v1']),
            call.forget_group(SYSTEM, 5)], self.delete())
        self.array.identity.volume.assert_called_once_with(
            PLAIN, ['cv-v1', 'cdel-31'])
        self.assertEqual([call.resolver.known(self.volume),
                          call.resolver.names_of(self.volume, PLAIN)],
                         self.calls()[1:3])

    def test_view_is_not_looked_up_by_the_name_of_a_hidden_volume(self):
        self.has(dataclasses.replace(VIEW, parent=None, hidden_parent=False))
        self.delete()
        self.assertEqual(['cv-v1'],
                         self.array.identity.volume.call_args.args[1])
        self.assertEqual([], self.calls('forget_group'))

    def test_volume_seen_by_the_caller_is_not_looked_up(self):
        self.assertEqual(3, len(self.delete(seen=True)))
        self.assertEqual([], self.calls('array.identity'))

    def test_lock_of_a_shared_group_is_not_deleted(self):
        self.has(dataclasses.replace(PLAIN, shared=True))
        self.volume.group_id = 'g'
        self.delete()
        self.assertEqual([], self.calls('forget_group', 'array.volumes'))

    def test_volume_that_could_not_be_managed_stays_on_the_array(self):
        self.volume.status = 'error_managing_deleting'
        self.assertEqual([call.unmanaging.end(self.volume)], self.delete())

    def test_volume_in_use_is_busy(self):
        self.try_volume.side_effect = IN_USE
        error = self.raised(exception.VolumeIsBusy,
                            self.deletion.delete_volume, self.volume)
        self.assertIn('volume-v1', str(error))
        self.assertIn('is needed', str(error))

    def test_incomplete_volume_in_use_is_an_error(self):
        """If it were reported as busy, it would become available."""
        self.volume.launched_at = None
        self.try_volume.side_effect = IN_USE
        error = self.raised(exception.VolumeBackendAPIException,
                            self.deletion.delete_volume, self.volume)
        self.assertIn('is needed', str(error))

    def test_renamed_volume_is_not_deleted(self):
        self.array.identity.volume.side_effect = None
        self.array.identity.volume.return_value = None
        self.known.check_not_renamed.side_effect = exceptions.ObjectRenamed
        self.assertRaises(exceptions.ObjectRenamed,
                          self.deletion.delete_volume, self.volume)
        self.known.check_not_renamed.assert_called_once_with(
            self.volume, PLAIN)
        self.assertEqual([], self.done())

    @ddt.data(None, ArrayVolume(group=5, volume=32))
    def test_ids_of_another_volume_delete_nothing(self, found):
        self.array.identity.volume.side_effect = None
        self.array.identity.volume.return_value = found
        self.delete()
        self.assertEqual([], self.calls('try_delete_volume', 'retire_volume',
                                        'delete_parent'))
        self.own_group.assert_called_once_with(self.array, 'cvg-v1')
        self.assertEqual(found is None,
                         bool(self.known.check_not_renamed.call_count))

    def test_missing_volume_releases_its_parent(self):
        self.has(THIN)
        self.array.identity.volume.side_effect = None
        self.array.identity.volume.return_value = None
        self.assertEqual([
            call.hold(6), call.delete_parent(self.array, THIN, ['cv-v1']),
            call.free(6), call.purge(self.array, 6)],
            self.delete()[-4:])

    # Replication

    def test_replication_is_stopped_first(self):
        """Unless the volume cannot be deleted: it must keep its replica."""
        replicated = dataclasses.replace(PLAIN, replicated=True)
        self.has(replicated)
        self.assertEqual([
            call.hold(5), call.array.volumes.check_unmapped(replicated),
            call.array.deferred.needs_of_volume(replicated), call.free(5),
            call.replication.unprotect(self.volume, replicated, 'v1'),
            call.deadline(fresh=True),
            call.try_delete_volume(self.array, PLAIN, ['cv-v1']),
            call.forget_group(SYSTEM, 5)], self.delete())

    def test_replication_is_not_stopped_if_the_volume_is_needed(self):
        self.has(dataclasses.replace(PLAIN, replicated=True))
        self.array.deferred.needs_of_volume.side_effect = IN_USE
        self.assertRaises(exception.VolumeIsBusy,
                          self.deletion.delete_volume, self.volume)
        self.assertEqual([], self.calls('replication', 'try_delete_volume'))

    # Clones

    def test_volume_with_clones_is_hidden(self):
        cloned = dataclasses.replace(PLAIN, has_clones=True)
        self.has(cloned)
        self.retire.return_value = NEEDED
        self.assertEqual([
            call.deadline(fresh=True), call.hold(5),
            call.retire_volume(self.array, cloned, ['cv-v1']), call.free(5)],
            self.delete())

    def test_group_of_a_hidden_volume_that_nobody_will_purge_is_purged(self):
        self.has(dataclasses.replace(PLAIN, has_clones=True))
        self.retire.return_value = LEFT
        self.assertEqual([call.free(5), call.purge(self.array, 5)],
                         self.delete()[-2:])

    def test_volume_whose_clones_are_gone_is_deleted(self):
        self.has(dataclasses.replace(PLAIN, has_clones=True))
        self.retire.return_value = None
        self.assertEqual([call.free(5), call.forget_group(SYSTEM, 5)],
                         self.delete()[-2:])

    def test_clones_that_are_not_recorded_in_the_row(self):
        self.try_volume.return_value = False
        self.retire.return_value = NEEDED
        self.assertEqual([
            call.deadline(fresh=True),
            call.try_delete_volume(self.array, PLAIN, ['cv-v1']),
            call.hold(5),
            call.retire_volume(self.array, PLAIN, ['cv-v1']), call.free(5)],
            self.delete())

    def test_volume_is_unmapped_from_hosts_of_the_driver(self):
        self.try_volume.side_effect = [MAPPED, True]
        attempt = call.try_delete_volume(self.array, PLAIN, ['cv-v1'])
        self.assertEqual([
            call.deadline(fresh=True), attempt,
            call.detach.disconnect_ours(PLAIN), attempt,
            call.forget_group(SYSTEM, 5)], self.delete())

    def test_volume_mapped_to_other_hosts_is_busy(self):
        self.try_volume.side_effect = MAPPED
        self.assertRaises(exception.VolumeIsBusy,
                          self.deletion.delete_volume, self.volume)
        self.assertEqual(2, self.try_volume.call_count)

    # Parents of clones

    def test_hidden_parent_is_deleted_with_the_clone(self):
        self.has(HIDING)
        self.array.snapshots.is_hidden.return_value = True
        self.assertEqual([
            call.deadline(fresh=True),
            call.try_delete_volume(self.array, HIDING, ['cv-v1']),
            call.forget_group(SYSTEM, 5),
            call.hold(6), call.delete_parent(self.array, HIDING, ['cv-v1']),
            call.free(6), call.purge(self.array, 6)], self.delete())
        self.array.snapshots.is_hidden.assert_called_once_with(8, 6)

    def test_missing_parent_is_not_deleted(self):
        """Its id may now belong to another snapshot (OBJ-7)."""
        self.has(HIDING)
        self.array.snapshots.is_hidden.return_value = False
        self.delete()
        self.try_volume.assert_called_once_with(self.array, THIN, ['cv-v1'])

    def test_volume_without_a_parent(self):
        self.has(dataclasses.replace(PLAIN, hidden_parent=True))
        self.delete()
        self.assertEqual([], self.calls('array.snapshots'))

    def test_parent_that_is_a_snapshot_in_cinder_is_not_looked_up(self):
        self.has(THIN)
        self.delete()
        self.assertEqual([], self.calls('array.snapshots.is_hidden'))

    def test_parent_of_a_hidden_clone_is_hidden_too(self):
        cloned = dataclasses.replace(HIDING, has_clones=True)
        self.has(cloned)
        self.array.snapshots.is_hidden.return_value = True
        self.retire.return_value = NEEDED
        # The clone may have been purged since its deletion was deferred.
        self.assertEqual([call.hold(6), call.hide_parent(self.array, cloned),
                          call.free(6), call.purge(self.array, 6)],
                         self.delete()[4:])

    def test_parent_of_a_hidden_view_is_hidden_with_it(self):
        """Both are in one group, which has one note."""
        self.has(dataclasses.replace(VIEW, has_clones=True))
        self.retire.return_value = NEEDED
        self.delete()
        self.assertEqual([], self.calls('hide_parent', 'purge'))

    def test_view_being_regrouped_is_looked_up_alone(self):
        self.has(dataclasses.replace(VIEW, regrouping=True))
        self.array.snapshots.is_hidden.return_value = True
        self.delete()
        self.assertEqual([], self.calls('array.snapshots.of_group'))

    def test_one_call_finds_the_parent_of_a_view_that_was_seen(self):
        self.has(VIEW)
        self.array.snapshots.of_group.return_value = []
        self.delete(seen=True)
        self.assertEqual([], self.calls('array.identity'))

    @ddt.data((True, 0), (False, 1))
    @ddt.unpack
    def test_one_call_finds_a_view_and_its_parent(self, among, looks):
        self.has(VIEW)
        siblings = [rest.Snapshot(id=8)]
        snapshots = self.array.snapshots
        snapshots.of_group.return_value = siblings
        snapshots.is_hidden_among.return_value = False
        self.array.identity.is_view_among.return_value = among
        self.delete()
        snapshots.of_group.assert_called_once_with(6)
        self.array.identity.is_view_among.assert_called_once_with(
            VIEW, ['cv-v1'], siblings)
        snapshots.is_hidden_among.assert_called_once_with(8, siblings)
        self.assertEqual(looks, self.array.identity.volume.call_count)
        self.try_volume.assert_called_once_with(
            self.array, dataclasses.replace(VIEW, hidden_parent=False),
            ['cv-v1'])

    def test_view_with_another_name_is_not_deleted(self):
        self.has(VIEW)
        self.array.snapshots.of_group.return_value = []
        self.array.identity.is_view_among.return_value = False
        self.array.identity.volume.side_effect = None
        self.array.identity.volume.return_value = None
        self.delete()
        self.assertEqual([], self.calls('try_delete_volume'))

    # After interrupted operations

    def test_volume_is_deleted_in_the_group_it_was_moved_to(self):
        moving = dataclasses.replace(PLAIN, regrouping=True)
        there = dataclasses.replace(moving, group=9, shared=True)
        self.has(moving)
        self.known.settled.side_effect = lambda known: there
        self.own_group.return_value = 5
        self.volume.group_id = 'g'
        self.assertEqual([
            call.deadline(fresh=True),
            call.try_delete_volume(self.array, there, ['cv-v1']),
            call.delete_own_group_by_name(self.array, 'cvg-v1'),
            call.forget_group(SYSTEM, 5)], self.delete(seen=True))
        self.array.identity.volume.assert_called_once_with(
            there, ['cv-v1', 'cdel-31'])

    def test_own_group_of_a_missing_moved_volume_is_deleted(self):
        self.has(dataclasses.replace(PLAIN, regrouping=True))
        self.known.settled.side_effect = rest.NotFound('gone')
        self.assertEqual([
            call.deadline(fresh=True),
            call.delete_own_group_by_name(self.array, 'cvg-v1')],
            self.delete())
        self.assertEqual(
            [call(dataclasses.replace(PLAIN, regrouping=True))] * 2,
            self.known.settled.call_args_list)

    def test_moved_volume_with_the_id_of_another(self):
        self.has(dataclasses.replace(PLAIN, regrouping=True))
        self.array.identity.volume.side_effect = None
        self.array.identity.volume.return_value = PLAIN
        self.delete()
        self.assertEqual([], self.calls('try_delete_volume'))

    @ddt.data(('ccg-g', 1, 1), ('ccg-g', 0, 1), ('somebodys', 1, 0))
    @ddt.unpack
    def test_group_that_the_volume_only_joined_on_the_array(
            self, name, gone, asked):
        self.has(dataclasses.replace(PLAIN, shared=True))
        self.array.volumes.group.return_value = rest.VolumeGroup(
            id=5, name=name)
        self.array.groups.delete_if_empty.return_value = bool(gone)
        self.delete()
        expected = [call.hold(5),
                    call.array.groups.delete_if_empty(5, name), call.free(5)]
        self.assertEqual(expected * asked, self.calls(
            'hold', 'free', 'array.groups'))
        self.assertEqual([call.forget_group(SYSTEM, 5)] * gone * asked,
                         self.calls('forget_group'))

    def test_group_that_the_volume_joined_is_gone(self):
        self.has(dataclasses.replace(PLAIN, shared=True))
        self.array.volumes.group.side_effect = rest.NotFound('gone')
        self.delete()
        self.array.volumes.group.assert_called_once_with(5)

    def test_leftovers_of_an_interrupted_flattening(self):
        """The unfinished copy, and the view that was to be deleted."""
        self.has(dataclasses.replace(PLAIN, flattening=True))
        self.array.volumes.find_view.return_value = dataclasses.replace(
            VIEW, hidden_parent=False)
        self.array.snapshots.find.return_value = TAKEN
        done = self.delete()[3:]
        self.assertEqual([
            call.delete_own_group_by_name(self.array, 'cvg-v1'),
            call.hold(6), call.array.deferred.record(
                6, deferred_deletion.DeferredIds(
                    snapshots=frozenset({40, 8}))), call.free(6),
            call.purge(self.array, 6)], done)
        self.array.volumes.find.assert_called_once_with('cnew-v1')
        self.array.volumes.find_view.assert_called_once_with('cv-v1')
        self.array.snapshots.find.assert_called_once_with('ccs-v1')

    @ddt.data((TAKEN, 1), (None, 0))
    @ddt.unpack
    def test_interrupted_flattening_whose_view_is_gone(self, parent, count):
        self.has(dataclasses.replace(PLAIN, flattening=True))
        self.array.snapshots.find.return_value = parent
        self.delete()
        self.assertEqual([call.purge(self.array, 6)] * count,
                         self.calls('purge', 'array.deferred'))

    def test_no_lookup_of_leftovers_without_a_flattening(self):
        self.delete()
        self.assertEqual([], self.calls('array.volumes', 'array.snapshots'))


@ddt.ddt
class DeleteByNameTest(DeletionTestCase):
    """Volumes whose rows have no ids."""

    def setUp(self):
        super().setUp()
        self.has(None)

    def finds(self, *, parent=None, shown=None, volume=None):
        """Let lookups by name find a parent, a snapshot or the volume."""
        self.array.snapshots.find.side_effect = {
            'ccs-v1': parent, 'cs-s1': shown}.get
        self.array.volumes.find.side_effect = (
            lambda *names: volume if 'cv-v1' in names else None)

    def delete(self):
        self.deletion.delete_volume(self.volume)
        return self.done()

    def test_nothing_found(self):
        self.assertEqual([
            call.deadline(fresh=True),
            call.delete_own_group_by_name(self.array, 'cvg-v1')],
            self.delete())
        self.known.check_here.assert_called_once_with(self.volume)
        self.array.snapshots.find_view.assert_called_once_with('cview-v1')

    def test_nothing_is_deleted_if_the_volume_is_on_another_array(self):
        self.known.check_here.side_effect = exceptions.ArrayNotActive
        self.assertRaises(exceptions.ArrayNotActive,
                          self.deletion.delete_volume, self.volume)
        self.assertEqual([], self.calls('array', 'delete_own_group_by_name'))

    def test_leftovers_without_a_volume(self):
        """Its own group, a temporary view and the hidden parent."""
        self.finds(parent=TAKEN)
        self.own_group.return_value = 5
        self.array.snapshots.find_view.return_value = (41, 6)
        self.assertEqual([
            call.deadline(fresh=True),
            call.delete_own_group_by_name(self.array, 'cvg-v1'),
            call.forget_group(SYSTEM, 5),
            call.detach.disconnect_all(ArrayVolume(group=6, view=41)),
            call.array.snapshots.delete(41, 6, ['cview-v1']),
            call.hold(6),
            call.array.snapshots.delete_parent(8, 6, ['ccs-v1']),
            call.free(6), call.purge(self.array, 6)], self.delete())

    def test_replicas_are_swept(self):
        self.known.may_be_replicated.return_value = True
        self.assertEqual(call.replication.sweep(self.volume, 'v1'),
                         self.delete()[0])
        self.known.may_be_replicated.assert_called_once_with(self.volume)

    def test_found_volume_may_have_clones_and_a_shared_group(self):
        self.finds(volume=PLAIN)
        self.retire.return_value = None
        expected = dataclasses.replace(PLAIN, has_clones=True, shared=True)
        self.assertEqual([
            call.deadline(fresh=True), call.hold(5),
            call.retire_volume(self.array, expected, ['cv-v1', 'rcv-v1']),
            call.free(5), call.deadline(fresh=True),
            call.delete_own_group_by_name(self.array, 'cvg-v1')],
            self.delete())

    def test_hidden_volume_keeps_its_group_and_parent(self):
        self.finds(volume=PLAIN, parent=TAKEN)
        self.retire.return_value = NEEDED
        self.delete()
        self.assertEqual([], self.calls(
            'delete_own_group_by_name', 'array.snapshots.delete_parent'))

    def test_replica_has_its_own_group(self):
        self.finds(volume=PLAIN)
        self.known.may_be_copy.return_value = True
        self.delete()
        self.assertFalse(self.retire.call_args.args[1].shared)

    @ddt.data(('then', []),
              (None, [call.detach.disconnect_all(PLAIN)]))
    @ddt.unpack
    def test_incomplete_volume_is_unmapped_from_all_hosts(
            self, launched_at, expected):
        self.volume.launched_at = launched_at
        self.finds(volume=PLAIN)
        self.delete()
        self.assertEqual(expected, self.calls('detach'))

    def test_replication_is_stopped_first(self):
        self.finds(volume=PLAIN)
        self.known.may_be_replicated.return_value = True
        done = self.delete()
        self.known.may_be_replicated.assert_called_once_with(self.volume)
        ended = call.replication.unprotect(self.volume, PLAIN, 'v1')
        self.assertIn(ended, done)
        self.assertLess(done.index(ended), done.index(
            call.retire_volume(self.array, dataclasses.replace(
                PLAIN, has_clones=True, shared=True), ['cv-v1', 'rcv-v1'])))
        self.assertEqual([], self.calls('replication.sweep'))

    @ddt.data((TAKEN, None, True), (None, TAKEN, False), (
        TAKEN, ArraySnapshot(snapshot=1, group=2), True))
    @ddt.unpack
    def test_parent(self, parent, shown, hides):
        """A hidden snapshot takes precedence over the snapshot in Cinder."""
        self.volume.snapshot_id = 's1'
        self.finds(volume=PLAIN, parent=parent, shown=shown)
        self.delete()
        backing = self.retire.call_args.args[1]
        self.assertEqual((8, 6, hides), (
            backing.parent, backing.parent_group, backing.hidden_parent))

    def test_name_of_a_migrated_volume(self):
        """Its name on the array may contain either id."""
        self.known.name_ids.side_effect = lambda volume: ['v0', 'v1']
        self.volume.name_id = 'v0'
        self.finds(volume=PLAIN)
        self.retire.return_value = None
        self.delete()
        self.retire.assert_called_once_with(
            self.array, mock.ANY, ['cv-v1', 'rcv-v1'])
        self.own_group.assert_called_once_with(self.array, 'cvg-v1')

    def test_own_group_is_named_by_the_name_id(self):
        self.volume.name_id = 'v0'
        self.delete()
        self.own_group.assert_called_once_with(self.array, 'cvg-v0')


@ddt.ddt
class OtherMethodsTest(DeletionTestCase):
    """Methods that other operations use."""

    def test_replicas_are_unmapped(self):
        self.deletion.release_copies([1, 2])
        self.assertEqual(
            [call.detach.disconnect_ours(ArrayVolume(group=0, volume=1)),
             call.detach.disconnect_ours(ArrayVolume(group=0, volume=2))],
            self.done())

    def test_parents_of_replicas_are_released(self):
        find = self.function(clone_sources, 'find')
        find.return_value = {'v1': clone_sources.Parent(TAKEN, True)}
        self.deletion.leave_copies([self.volume])
        copy = ArrayVolume(group=0, volume=0, parent=8, parent_group=6,
                           hidden_parent=True)
        self.assertEqual([
            call.find(self.array, [self.volume]), call.hold(6),
            call.delete_parent(self.array, copy, []), call.free(6),
            call.purge(self.array, 6)], self.done())

    def test_volume_mapped_by_the_driver_is_deletable(self):
        self.array.volumes.check_unmapped.side_effect = [MAPPED, None]
        self.deletion.check_deletable(PLAIN)
        look = call.array.volumes.check_unmapped(PLAIN)
        self.assertEqual([
            call.hold(5), look, call.detach.disconnect_ours(PLAIN),
            look, call.array.deferred.needs_of_volume(PLAIN), call.free(5)],
            self.done())

    def test_volume_mapped_by_others_is_not_deletable(self):
        self.array.volumes.check_unmapped.side_effect = MAPPED
        self.assertRaises(exceptions.StillMapped,
                          self.deletion.check_deletable, PLAIN)
        self.assertEqual(call.free(5), self.done()[-1])

    def test_delete_backing_returns_whether_it_is_gone(self):
        for backing, gone in (
                (PLAIN, True),
                (dataclasses.replace(PLAIN, has_clones=True), False)):
            self.retire.return_value = NEEDED
            self.assertIs(gone, self.deletion.delete_backing(
                backing, ['cv-v1']))

    def test_drop_unfinished_copy(self):
        self.array.volumes.find.return_value = PLAIN
        self.deletion.drop_unfinished('v1')
        self.assertEqual([
            call.detach.disconnect_all(PLAIN),
            call.try_delete_volume(self.array, PLAIN, ['cnew-v1', 'cv-v1']),
            call.forget_group(SYSTEM, 5)], self.done())

    @ddt.data((True, {40, 8}), (False, {40}))
    @ddt.unpack
    def test_give_up_view(self, hides, marked):
        """Its deletion is deferred, as snapshots may depend on it."""
        self.deletion.give_up(dataclasses.replace(VIEW, hidden_parent=hides))
        self.assertEqual([
            call.hold(6), call.array.deferred.record(
                6, deferred_deletion.DeferredIds(
                    snapshots=frozenset(marked))), call.free(6),
            call.purge(self.array, 6)], self.done())


@ddt.ddt
class DeleteSnapshotTest(DeletionTestCase):

    def setUp(self):
        super().setUp()
        self.snapshot = doubles.a_snapshot()
        # Another service may have recorded a clone.
        self.snapshot.refresh = lambda: self.log.refresh()
        self.known.known_snapshot.return_value = TAKEN
        self.array.identity.snapshot.side_effect = (
            lambda stored, names: stored)
        self.try_snapshot.return_value = True

    def delete(self):
        self.deletion.delete_snapshot(self.snapshot)
        return self.done()

    def test_delete_snapshot(self):
        self.assertEqual([
            call.refresh(),
            call.try_delete_snapshot(self.array, TAKEN, ['cs-s1'])],
            self.delete())
        self.array.identity.snapshot.assert_called_once_with(
            TAKEN, ['cs-s1'])
        self.assertEqual(
            [call.refresh(), call.resolver.check_here(self.snapshot),
             call.resolver.known_snapshot(self.snapshot)], self.calls()[:3])

    def test_nothing_is_deleted_if_it_is_on_another_array(self):
        self.known.check_here.side_effect = exceptions.ArrayNotActive
        self.assertRaises(exceptions.ArrayNotActive,
                          self.deletion.delete_snapshot, self.snapshot)
        self.assertEqual([call.refresh()], self.done())

    def test_missing_snapshot(self):
        self.array.identity.snapshot.side_effect = None
        self.array.identity.snapshot.return_value = None
        self.assertEqual([call.refresh()], self.delete())

    def test_snapshot_without_ids_is_found_by_name(self):
        self.known.known_snapshot.return_value = None
        self.array.snapshots.find.return_value = TAKEN
        self.assertEqual(
            call.try_delete_snapshot(self.array, TAKEN, ['cs-s1']),
            self.delete()[-1])
        self.array.snapshots.find.assert_called_once_with('cs-s1')

    def test_group_of_a_hidden_view_is_purged(self):
        taken = dataclasses.replace(TAKEN, view=40)
        self.known.known_snapshot.return_value = taken
        self.assertEqual([
            call.refresh(),
            call.try_delete_snapshot(self.array, taken, ['cs-s1']),
            call.purge(self.array, 6)], self.delete())

    def test_snapshot_with_clones(self):
        """It is verified while its group is locked, which saves a call."""
        cloned = dataclasses.replace(TAKEN, has_clones=True)
        self.known.known_snapshot.return_value = cloned
        self.retire_snapshot.return_value = True
        self.assertEqual([
            call.refresh(), call.hold(6),
            call.retire_snapshot(self.array, cloned, ['cs-s1']),
            call.free(6)], self.delete())
        self.assertEqual([], self.calls('array.identity'))

    def test_snapshot_with_clones_in_another_group(self):
        cloned = dataclasses.replace(TAKEN, has_clones=True)
        moved = dataclasses.replace(cloned, group=7)
        self.known.known_snapshot.return_value = cloned
        self.array.identity.snapshot.side_effect = (
            lambda stored, names: moved)
        self.retire_snapshot.side_effect = [False, True]
        self.delete()
        self.assertEqual([
            call(self.array, cloned, ['cs-s1']),
            call(self.array, moved, ['cs-s1'])],
            self.retire_snapshot.call_args_list)
        self.assertEqual([], self.calls('try_delete_snapshot'))

    @ddt.data((True, 1), (False, 0))
    @ddt.unpack
    def test_clones_that_are_not_recorded_in_the_row(self, was_there, count):
        taken = dataclasses.replace(TAKEN, view=40)
        self.known.known_snapshot.return_value = taken
        self.try_snapshot.return_value = False
        self.retire_snapshot.return_value = was_there
        self.assertEqual([
            call.hold(6),
            call.retire_snapshot(self.array, taken, ['cs-s1']),
            call.free(6), *[call.purge(self.array, 6)] * count],
            self.delete()[2:])

    def test_temporary_view_of_a_killed_service_is_deleted(self):
        """As long as the view exists, the snapshot counts as being read."""
        self.try_snapshot.return_value = False
        self.retire_snapshot.side_effect = [
            exceptions.StillRead('cs-s1', 'is read'), True]
        self.array.snapshots.find_view.return_value = (41, 6)
        held = [call.hold(6),
                call.retire_snapshot(self.array, TAKEN, ['cs-s1']),
                call.free(6)]
        self.assertEqual([
            *held, call.detach.disconnect_all(ArrayVolume(group=6,
                                                          view=41)),
            call.array.snapshots.delete(41, 6, ['cview-s1']), *held],
            self.delete()[2:])
        self.array.snapshots.find_view.assert_called_once_with('cview-s1')

    def test_snapshot_in_use_is_busy(self):
        self.try_snapshot.return_value = False
        self.retire_snapshot.side_effect = IN_USE
        error = self.raised(
            exception.SnapshotIsBusy, self.deletion.delete_snapshot,
            self.snapshot)
        self.assertIn('snapshot-s1', str(error))

    def test_group_snapshot(self):
        self.deletion.delete_taken(TAKEN, [
            self.snapshot, doubles.a_snapshot('s2')])
        self.try_snapshot.assert_called_once_with(
            self.array, TAKEN, ['cs-s1', 'cs-s2'])
