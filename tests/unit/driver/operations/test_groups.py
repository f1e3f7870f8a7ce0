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
from cinder_k2.array import groups as array_groups
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import groups
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import purge
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import deletion as deletion_flows
from cinder_k2.flows import groups as flows
from cinder_k2 import rest
from tests.unit.driver import doubles

FIRST = ArrayVolume(group=5, volume=31, shared=True)
SECOND = ArrayVolume(group=5, volume=32, shared=True)
TAKEN = ArraySnapshot(snapshot=8, group=5)
IN_USE = exceptions.ObjectInUse('cv-v1', 'is needed')


@dataclasses.dataclass(frozen=True)
class Request:
    """Stands for a CloneRequest."""

    source: object
    group: int | None = None


class GroupsTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.objects = {'v1': FIRST, 'v2': SECOND}
        self.known = self.double('resolver', resolver.Resolver)
        self.known.peers = {}
        for name in ('known', 'resolve'):
            getattr(self.known, name).side_effect = (
                lambda volume: self.objects[volume.id])
        self.known.names_of.side_effect = (
            lambda volume, backing: [f'cv-{volume.name_id}'])
        self.known.ids.side_effect = (
            lambda made, name_id='': {'provider_id': (made, name_id)})
        self.known.snapshot_names.side_effect = lambda row: ['cgs-gs']
        self.sources = self.double('sources', clone_sources.CloneSources)
        self.sources.marked.side_effect = lambda row, find: find(row)
        self.sources.request.side_effect = lambda *args: Request(args)
        self.sources.strategies.side_effect = lambda volume: ['thin']
        self.cloner = self.double('cloner', clones.Cloner)
        self.deletion = self.double('deletion', deletion.Deletion)
        self.function(placement, 'check_consistent')
        self.function(placement, 'dedup_of').return_value = True
        self.purge = self.function(purge, 'run', 'purge')
        self.make = self.function(flows, 'make')
        self.array.volumes.names_in.return_value = {
            31: 'cv-v1', 32: 'cv-v2'}
        self.array.snapshots.create.return_value = TAKEN
        self.group = doubles.Row(id='g', source_group_id=None,
                                 group_snapshot_id=None)
        self.volumes = [doubles.a_volume('v1', group_id='g'),
                        doubles.a_volume('v2', group_id='g')]
        self.groups = groups.Groups(
            self.array, self.known, self.sources, self.cloner, self.deletion)


class CreateTest(GroupsTestCase):

    def test_create(self):
        self.assertEqual({'status': 'available'},
                         self.groups.create_group(None, self.group))
        self.assertEqual([
            call.check_consistent(self.group), call.dedup_of(self.group),
            call.array.groups.create('ccg-g', True)], self.calls())

    def test_generic_group_is_left_to_cinder(self):
        self.replace(placement, 'check_consistent', mock.Mock(
            side_effect=NotImplementedError))
        self.assertRaises(NotImplementedError, self.groups.create_group,
                          None, self.group)
        self.assertEqual([], self.calls('array'))


@ddt.ddt
class DeleteTest(GroupsTestCase):

    GONE = [{'id': 'v1', 'status': 'deleted'},
            {'id': 'v2', 'status': 'deleted'}]

    def setUp(self):
        super().setUp()
        self.array.groups.find.return_value = array_groups.Group(id=5)

    def delete(self, seen=('v1',)):
        return self.groups.delete(self.group, self.volumes, seen)

    def test_volumes_are_deleted_before_the_group(self):
        self.assertEqual(({'status': 'deleted'}, self.GONE), self.delete())
        self.assertEqual([
            call.deletion.delete_volume(self.volumes[0], seen=True),
            call.deletion.delete_volume(self.volumes[1], seen=False),
            call.deadline(fresh=True), call.array.groups.find('ccg-g'),
            call.deletion.drop_if_empty(5, 'ccg-g')],
            self.calls('deletion', 'array', 'deadline'))
        self.assertEqual([], self.calls('sources'))

    @ddt.data((exception.VolumeIsBusy('busy'), 'available'),
              (IN_USE, 'error_deleting'),
              (rest.Unreachable('lost'), 'error_deleting'),
              (exception.VolumeBackendAPIException(data=''),
               'error_deleting'))
    @ddt.unpack
    def test_volume_that_cannot_be_deleted(self, error, status):
        """The other volumes are deleted; the group is kept."""
        self.deletion.delete_volume.side_effect = [error, None]
        self.assertEqual(
            ({'status': 'error'}, [{'id': 'v1', 'status': status},
                                   self.GONE[1]]), self.delete())
        self.assertEqual([], self.calls('array.groups'))

    @ddt.data(rest.Unreachable('lost'), exceptions.LockTimeout('held'))
    def test_volume_group_that_cannot_be_deleted(self, error):
        self.deletion.drop_if_empty.side_effect = error
        self.assertEqual(({'status': 'error'}, self.GONE), self.delete())

    def test_all_rows_are_marked_if_one_volume_has_clones(self):
        """A snapshot of the group that a clone needs has all volumes."""
        self.objects['v2'] = dataclasses.replace(SECOND, has_clones=True)
        self.delete()
        self.assertEqual([
            call.sources.marked(self.volumes[0], self.known.resolve),
            call.sources.marked(self.volumes[1], self.known.resolve)],
            self.calls('sources'))
        order = [each[0] for each in self.calls()]
        self.assertLess(order.index('sources.marked'),
                        order.index('deletion.delete_volume'))

    def test_unknown_or_moving_volumes_are_not_marked(self):
        self.objects = {
            'v1': None, 'v2': dataclasses.replace(
                SECOND, has_clones=True, regrouping=True)}
        self.delete()
        self.assertEqual([], self.calls('sources'))

    def test_missing_volume_group(self):
        self.array.groups.find.return_value = None
        self.assertEqual(({'status': 'deleted'}, self.GONE), self.delete())
        self.assertEqual([], self.calls('deletion.drop_if_empty'))

    def test_replicated_group_on_the_target_is_deleted(self):
        self.known.peers = {'moon': None}
        self.array.groups.find.side_effect = [
            None, array_groups.Group(id=9)]
        self.groups.drop_group(self.group)
        self.assertEqual([
            call.array.groups.find('ccg-g'), call.array.groups.find('rccg-g'),
            call.deletion.drop_if_empty(9, 'rccg-g')], self.calls())

    @ddt.data(TAKEN, None)
    def test_hidden_snapshot_of_the_source_group_is_retired(self, left):
        self.group.source_group_id = 'g0'
        self.array.groups.find.return_value = None
        self.array.snapshots.find.return_value = left
        self.groups.drop_group(self.group)
        self.array.snapshots.find.assert_called_once_with('ccs-g')
        self.assertEqual([
            call.hold(5), call.array.deferred.record(
                5, deferred_deletion.DeferredIds(
                    snapshots=frozenset({8}))), call.free(5),
            call.purge(self.array, 5)] if left else [],
            self.calls('hold', 'array.deferred', 'free', 'purge'))

    @ddt.data(TAKEN, None)
    def test_group_of_the_source_snapshot_is_purged(self, left):
        self.group.group_snapshot_id = 'gs'
        self.array.snapshots.find.return_value = left
        self.groups.drop_group(self.group)
        self.array.snapshots.find.assert_called_once_with('cgs-gs')
        self.assertEqual([call.purge(self.array, 5)] if left else [],
                         self.calls('hold', 'array.deferred', 'purge'))

    def test_group_without_a_source(self):
        self.groups.drop_group(self.group)
        self.assertEqual([], self.calls('array.snapshots'))


@ddt.ddt
class CreateFromSourceTest(GroupsTestCase):

    def setUp(self):
        super().setUp()
        self.new = [doubles.a_volume('n1', name_id='m1'),
                    doubles.a_volume('n2', name_id='m2')]
        self.made = [ArrayVolume(group=7, volume=41),
                     ArrayVolume(group=7, volume=42)]
        self.cloner.from_snapshot.side_effect = list(self.made)
        self.make.side_effect = lambda array, *, group_name, dedup, members: [
            member(7) for member in members.values()]
        self.result = ({'status': 'available'}, [
            {'id': 'n1', 'status': 'available',
             'replication_status': 'disabled',
             'provider_id': (self.made[0], 'm1')},
            {'id': 'n2', 'status': 'available',
             'replication_status': 'disabled',
             'provider_id': (self.made[1], 'm2')}])

    def copy(self, **source):
        return self.groups.create_group_from_src(None, self.group, self.new,
                                                 **source)

    def cloned(self, number, source, size, backing, taken):
        """Return the calls that clone one volume of the new group."""
        order = Request((self.new[number], source, size, backing), 7)
        return [call.sources.request(*order.source),
                call.sources.strategies(self.new[number]),
                call.cloner.from_snapshot(order, taken, ['thin'])]

    def test_create_from_a_group_snapshot(self):
        second = doubles.a_snapshot('s2', volume=self.volumes[1],
                                    volume_size=3)
        rows = [doubles.a_snapshot('s1', volume=self.volumes[0]), second]
        stored = {'s1': dataclasses.replace(TAKEN, volume=31),
                  's2': dataclasses.replace(TAKEN, volume=32)}
        self.sources.taken.side_effect = lambda row: stored[row.id]
        seen = dataclasses.replace(TAKEN, snapshot=9, group=6)
        self.known.confirm_snapshot.return_value = seen
        self.assertEqual(self.result, self.copy(snapshots=rows))
        expected = [
            *self.cloned(0, self.volumes[0], 1, FIRST,
                         dataclasses.replace(seen, volume=31)),
            *self.cloned(1, self.volumes[1], 3, SECOND,
                         dataclasses.replace(seen, volume=32))]
        self.assertEqual(expected, self.calls(
            'sources.request', 'sources.strategies', 'cloner'))
        # The last row is used to confirm the snapshot that all rows share.
        self.known.confirm_snapshot.assert_called_once_with(
            second, stored['s2'])
        self.assertEqual([
            call.sources.marked(rows[0], self.sources.taken),
            call.sources.marked(rows[1], self.sources.taken),
            call.sources.marked(self.volumes[0], self.known.resolve),
            call.sources.marked(self.volumes[1], self.known.resolve)],
            self.calls('sources.marked'))
        kept = self.make.call_args.kwargs
        self.assertEqual(('ccg-g', True, ['cv-m1', 'cv-m2']), (
            kept['group_name'], kept['dedup'], list(kept['members'])))

    def retired(self):
        """Return the calls that mark the hidden snapshot for deletion."""
        return [call.hold(5), call.array.deferred.record(
                5, deferred_deletion.DeferredIds(
                    snapshots=frozenset({8}))), call.free(5),
                call.purge(self.array, 5)]

    def test_create_from_a_group(self):
        """The rows are marked before the hidden snapshot is taken."""
        self.volumes[1].size = 3
        self.assertEqual(self.result, self.copy(source_vols=self.volumes))
        self.assertEqual([
            call.sources.marked(self.volumes[0], self.known.resolve),
            call.sources.marked(self.volumes[1], self.known.resolve),
            call.hold(5), call.array.volumes.names_in(5),
            call.array.snapshots.create('ccs-g', FIRST), call.free(5),
            *self.cloned(0, self.volumes[0], 1, FIRST,
                         dataclasses.replace(TAKEN, volume=31)),
            *self.cloned(1, self.volumes[1], 3, SECOND,
                         dataclasses.replace(TAKEN, volume=32)),
            *self.retired()],
            self.calls('hold', 'free', 'array', 'sources', 'cloner',
                       'purge'))

    def test_failed_clone_retires_the_hidden_snapshot(self):
        self.cloner.from_snapshot.side_effect = ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.copy,
                          source_vols=self.volumes)
        self.assertEqual(self.retired(), self.calls()[-4:])

    @ddt.data(None, rest.Refused('a clone needs it'))
    def test_array_that_cannot_store_the_mark(self, error):
        """The snapshot is deleted at once, unless a clone needs it."""
        retire = self.function(deletion_flows, 'retire_snapshot')
        retire.side_effect = error
        self.array.deferred.record.side_effect = exceptions.ObjectInUse(
            'Volume group 5', 'takes no notes')
        self.assertEqual(self.result, self.copy(source_vols=self.volumes))
        self.assertEqual([
            call.hold(5), call.array.deferred.record(
                5, deferred_deletion.DeferredIds(snapshots=frozenset({8}))),
            call.retire_snapshot(self.array, TAKEN, ['ccs-g']),
            call.free(5)], [one for one in self.calls()
                            if one != call.purge(self.array, 5)][-4:])

    @ddt.data(rest.Unreachable('lost'), exceptions.LockTimeout('held'))
    def test_failed_purge_is_ignored(self, error):
        self.purge.side_effect = error
        self.assertEqual(self.result, self.copy(source_vols=self.volumes))

    def test_volumes_in_different_volume_groups(self):
        self.array.volumes.names_in.return_value = {31: 'cv-v1'}
        self.assertRaises(exceptions.GroupNotSupported, self.copy,
                          source_vols=self.volumes)
        self.assertEqual([], self.calls('array.snapshots', 'make'))

    def test_source_without_volumes(self):
        self.assertRaises(exceptions.GroupNotSupported, self.copy)


@ddt.ddt
class GroupSnapshotTest(GroupsTestCase):

    def setUp(self):
        super().setUp()
        self.group_snapshot = doubles.Row(id='gs')
        self.rows = [doubles.a_snapshot(f's{number}', volume=volume)
                     for number, volume in enumerate(self.volumes, 1)]
        for volume in self.volumes:
            volume.refresh = lambda: self.log.refresh()
        self.stored = dict.fromkeys(('s1', 's2'), TAKEN)
        self.known.known_snapshot.side_effect = (
            lambda row: self.stored[row.id])
        self.array.identity.snapshot.side_effect = (
            lambda stored, names: stored)

    def take(self):
        return self.groups.create_group_snapshot(
            None, self.group_snapshot, self.rows)

    def delete(self):
        return self.groups.delete_group_snapshot(
            None, self.group_snapshot, self.rows)

    def test_create(self):
        """Rows are read again once the lock prevents moves of volumes."""
        self.assertEqual(({'status': 'available'}, [
            {'id': 's1', 'status': 'available', 'provider_id': (
                dataclasses.replace(TAKEN, volume=31), '')},
            {'id': 's2', 'status': 'available', 'provider_id': (
                dataclasses.replace(TAKEN, volume=32), '')}]), self.take())
        self.assertEqual([
            call.resolver.resolve(self.volumes[0]), call.hold(5),
            call.refresh(), call.refresh(),
            call.resolver.resolve(self.volumes[0]),
            call.resolver.resolve(self.volumes[1]),
            call.array.volumes.names_in(5),
            call.array.snapshots.create('cgs-gs', FIRST), call.free(5)],
            self.calls('resolver.resolve', 'hold', 'refresh', 'free',
                       'array'))

    def test_create_with_a_renamed_volume(self):
        self.array.volumes.names_in.return_value = {
            31: 'cv-v1', 32: 'renamed'}
        error = self.raised(exceptions.GroupNotSupported, self.take)
        self.assertIn('cv-v2, now called renamed', str(error))
        self.assertNotIn('cv-v1', str(error))
        self.assertEqual([], self.calls('array.snapshots'))

    def test_delete(self):
        for row in self.rows:
            row.refresh = lambda: self.log.refresh()
        self.assertEqual(({'status': 'deleted'}, [
            {'id': 's1', 'status': 'deleted'},
            {'id': 's2', 'status': 'deleted'}]), self.delete())
        self.array.identity.snapshot.assert_called_once_with(
            TAKEN, ['cgs-gs'])
        self.assertEqual([call.deletion.delete_taken(TAKEN, self.rows)],
                         self.calls('deletion'))
        self.assertEqual([call.refresh(), call.refresh()], self.calls()[:2])

    def rows_stay(self):
        for row in self.rows:
            row.refresh = lambda: None

    def test_delete_with_clones_of_any_volume(self):
        self.rows_stay()
        cloned = self.stored['s2'] = dataclasses.replace(
            TAKEN, has_clones=True)
        self.delete()
        self.deletion.delete_taken.assert_called_once_with(cloned, self.rows)

    def test_delete_by_name_without_ids(self):
        self.rows_stay()
        self.stored = dict.fromkeys(('s1', 's2'))
        self.array.snapshots.find.return_value = TAKEN
        self.delete()
        self.array.snapshots.find.assert_called_once_with('cgs-gs')
        self.deletion.delete_taken.assert_called_once_with(TAKEN, self.rows)

    def test_ids_in_one_row_are_enough(self):
        self.rows_stay()
        self.stored['s1'] = None
        self.delete()
        self.deletion.delete_taken.assert_called_once_with(TAKEN, self.rows)

    def test_delete_a_missing_snapshot(self):
        self.rows_stay()
        self.array.identity.snapshot.side_effect = None
        self.assertEqual({'status': 'deleted'}, self.delete()[0])
        self.assertEqual([], self.calls('deletion'))

    def test_delete_a_snapshot_in_use(self):
        self.rows_stay()
        self.deletion.delete_taken.side_effect = IN_USE
        self.assertEqual(({'status': 'error'}, [
            {'id': 's1', 'status': 'available'},
            {'id': 's2', 'status': 'available'}]), self.delete())


@ddt.ddt
class MembersTest(GroupsTestCase):

    def test_all_in_one_volume_group(self):
        self.assertEqual([FIRST, SECOND], self.groups.members(self.volumes))

    @ddt.data(dataclasses.replace(FIRST, shared=False),
              dataclasses.replace(FIRST, group=6))
    def test_volume_in_another_group(self, backing):
        self.objects['v1'] = backing
        error = self.raised(exceptions.GroupNotSupported, self.groups.members,
                            self.volumes)
        self.assertEqual(
            'the array does not have all its volumes in one volume group: '
            'v1. Remove these from the group and add them again.',
            str(error))

    def test_no_volumes(self):
        self.assertRaises(exceptions.GroupNotSupported, self.groups.members,
                          [])

    def test_volumes_seen_on_the_array(self):
        """One call per volume group; volumes being moved are left out."""
        self.objects.update(
            v3=dataclasses.replace(FIRST, volume=33), v4=None,
            v5=dataclasses.replace(FIRST, volume=35, regrouping=True),
            v6=ArrayVolume(group=6, view=40))
        rows = [doubles.a_volume(f'v{number}') for number in range(1, 7)]
        self.array.volumes.names_in.return_value = {
            31: 'cv-v1', 32: 'other', 35: 'cv-v5'}
        self.assertEqual({'v1'}, self.groups.seen(rows))
        self.array.volumes.names_in.assert_called_once_with(5)

    @ddt.data(({31: 'cv-v1'}, 'cv-v2.'), ({32: 'cv-v2'}, 'cv-v1.'))
    @ddt.unpack
    def test_missing_volume(self, names, missing):
        self.array.volumes.names_in.return_value = names
        error = self.raised(
            exceptions.GroupNotSupported, self.groups.check_together,
            self.volumes, [FIRST, SECOND])
        self.assertEqual(
            'the array does not have all its volumes in its volume group: '
            f'{missing} Remove these from the group and add them again.',
            str(error))

    def test_no_missing_volume(self):
        self.groups.check_together(self.volumes, [FIRST, SECOND])
        self.array.volumes.names_in.assert_called_once_with(5)
        self.assertEqual([
            call.resolver.names_of(self.volumes[0], FIRST),
            call.resolver.names_of(self.volumes[1], SECOND)],
            self.calls('resolver'))
