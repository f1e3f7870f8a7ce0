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

"""The objects on an array, as the driver sees them."""

import dataclasses
import functools
from unittest import mock

import ddt

from cinder_k2.array import inventory
from cinder_k2 import exceptions
from cinder_k2.flows import manage
from cinder_k2 import rest
from tests.unit import lost
from tests.unit import simulated

GIB = simulated.GIB


class WithVolumeTest(simulated.SimulatedTest):
    """Has a volume in a group of its own."""

    def setUp(self):
        super().setUp()
        self.group = self.client.volume_groups.create(name='db', quota=0,
                                                      is_dedup=True)
        self.volume = self.client.volumes.create(
            name='data', size=GIB, volume_group=self.group.ref)

    def found(self):
        return self.array.inventory.examine_volume(
            self.client.volumes.get(self.volume.id))


@ddt.ddt
class InventoryTest(WithVolumeTest):

    def taken(self):
        policy = self.client.retention_policies.find(
            name='Best_Effort_Retention')
        made = self.client.snapshots.create(
            short_name='s', source=self.group.ref,
            retention_policy=policy.ref, is_auto_deleteable=False)
        return self.array.inventory.snapshot(
            inventory.Reference(id=made.id), self.group.id)

    def test_plain_volume_is_manageable(self):
        self.assertEqual([], self.found().reasons())
        self.assertEqual([self.found()], self.array.inventory.volumes())

    def test_replication_under_both_names_of_the_field(self):
        """Section 14: newer arrays have another field, of unknown form."""
        found = self.found()
        session = rest.Ref('replication/sessions', 1)
        for group, replicated in (
                ({'replication_session': session}, True),
                ({'replication_sessions': [{'ref': str(session)}]}, True),
                ({'replication_sessions': {'hits': [1]}}, True),
                ({'replication_sessions': []}, False)):
            other = dataclasses.replace(
                found, group=dataclasses.replace(found.group, **group))
            self.assertEqual(replicated, 'replicated' in str(
                other.reasons()), str(group))

    def test_unreadable_objects_are_not_manageable(self):
        """Unmanaging could not restore the name or the description."""
        found = self.found()
        self.assertEqual([], found.reasons())
        for part, change, word in (
                ('volume', {'name': ''}, 'name'),
                ('group', {'name': ''}, 'name'),
                ('volume', {'unread': frozenset({'description'})},
                 'description'),
                ('group', {'unread': frozenset({'volumes_count'})},
                 'volumes_count')):
            other = dataclasses.replace(found, **{
                part: dataclasses.replace(getattr(found, part), **change)})
            self.assertIn(f'does not show its {word}',
                          str(other.reasons()), str(change))

    def test_names_with_brackets_are_not_manageable(self):
        """The tags with the original names are in brackets."""
        for volume, group, fit in (('data', 'db', True), ('XML', 'X', True),
                                   ('a[0', 'db', False),
                                   ('data', 'db]', False)):
            found = self.found()
            found = dataclasses.replace(
                found, volume=dataclasses.replace(found.volume, name=volume),
                group=dataclasses.replace(found.group, name=group))
            self.assertIs(fit, found.can_be_noted)
            self.assertEqual(fit, 'square brackets' not in str(
                found.reasons()))

    def test_read_only_volume_is_not_manageable(self):
        self.client.volumes.update(self.volume.id, read_only=True)
        self.assertIn('it is read-only', str(self.found().reasons()))

    def test_view_is_not_manageable(self):
        """Hosts can write to it."""
        found = self.taken()
        self.assertIn('it is a view', str(dataclasses.replace(
            found, snapshot=dataclasses.replace(
                found.snapshot, is_exposable=True)).reasons()))

    def test_missing_description_is_not_manageable(self):
        """The tag with the original name would overwrite it."""
        found = self.found()
        for part, kind in (('volume', rest.Volume),
                           ('group', rest.VolumeGroup)):
            told = {name: value for name, value in dataclasses.asdict(
                getattr(found, part)).items() if name != 'description'}
            other = dataclasses.replace(found, **{part: kind.from_json(told)})
            self.assertIn('does not show its description',
                          str(other.reasons()), part)

    @ddt.data(
        ({}, True), ({'replication_session': None}, False),
        ({'replication_sessions': []}, False))
    @ddt.unpack
    def test_group_without_replication_fields(self, told, asked):
        """Section 14: the sessions are searched instead."""
        told = {'id': self.group.id, 'name': 'db', 'description': None,
                'volumes_count': 1, **told}
        session = rest.ReplicationSession(1, 's')
        for found, replicated in (([session], asked), ([], False),
                                  (rest.NotFound('no such path'), False)):
            with mock.patch.object(
                    self.client.volume_groups, 'get', autospec=True,
                    return_value=rest.VolumeGroup.from_json(told)), \
                mock.patch.object(
                    self.client.replication_sessions, 'search', autospec=True,
                    side_effect=[found]) as search:
                self.assertEqual(replicated, 'it is replicated' in str(
                    self.found().reasons()), str(found))
            self.assertEqual([mock.call(local_volume_group=self.group.ref)]
                             if asked else [], search.mock_calls)

    def test_newer_replication_field_is_read(self):
        read = rest.VolumeGroup.from_json({
            'id': 1, 'name': 'g', 'replication_sessions': [{'ref': 'x'}]})
        self.assertEqual([{'ref': 'x'}], read.replication_sessions)

    def test_plain_snapshot_is_manageable(self):
        found = self.taken()
        self.assertEqual([], found.reasons())
        self.assertEqual(GIB, found.size)
        self.assertEqual([found], self.array.inventory.snapshots())

    def test_snapshots_that_the_array_may_delete(self):
        """SNP-4: it may also do so if the field is missing."""
        found = self.taken()
        for value, safe in ((False, True), (True, False), (None, False)):
            snapshot = dataclasses.replace(found.snapshot,
                                           is_auto_deleteable=value)
            self.assertEqual(safe, not dataclasses.replace(
                found, snapshot=snapshot).reasons(), str(value))

    def test_snapshots_of_replication(self):
        found = self.taken()
        for name, value, replicated in (
                ('generation_number', 0, True),
                ('is_locked_by_replication', True, True),
                ('is_locked_by_replication', False, False),
                ('unread', frozenset({'generation_number'}), True),
                ('unread', frozenset({'is_locked_by_replication'}), True),
                ('unread', frozenset({'source'}), False),
                ('replication_session',
                 rest.Ref('replication/sessions', 1), True)):
            snapshot = dataclasses.replace(found.snapshot, **{name: value})
            self.assertEqual(replicated, 'replication' in str(
                dataclasses.replace(found, snapshot=snapshot).reasons()))

    def test_deleted_snapshot_is_not_manageable(self):
        """QRY-10: it may still be listed, and readable by its id."""
        found = self.taken()
        gone = dataclasses.replace(found.snapshot, is_deleted=True)
        with mock.patch.object(self.client.snapshots, 'get', autospec=True,
                               return_value=gone):
            self.assertRaises(exceptions.NotManageable,
                              self.array.inventory.snapshot,
                              inventory.Reference(id=gone.id), self.group.id)

    def test_sizes_are_rounded_up(self):
        for kib, gib in ((0, 0), (None, 0), (1, 1), (GIB, 1), (GIB + 1, 2)):
            self.assertEqual(gib, inventory.gib(kib))


class ReferenceTest(WithVolumeTest):
    """Objects that an operator refers to by name or id."""

    def setUp(self):
        super().setUp()
        self.inventory = self.array.inventory
        self.other = self.client.volume_groups.create(name='web', quota=0,
                                                      is_dedup=True)
        self.client.volumes.create(name='pages', size=GIB,
                                   volume_group=self.other.ref)

    def take(self, name, source=None, **more):
        policy = self.client.retention_policies.find(
            name='Best_Effort_Retention')
        return self.client.snapshots.create(
            short_name=name, source=source or self.group.ref,
            retention_policy=policy.ref, is_auto_deleteable=False, **more)

    def volume_of(self, **reference):
        """Return the id of the referenced volume, and the number of calls."""
        self.sim.control.clear_journal()
        found = self.inventory.volume(inventory.Reference(**reference))
        return found.id, len(self.calls())

    def snapshot_of(self, **reference):
        """Return the id of a snapshot, as referenced from the group "db"."""
        return self.inventory.snapshot(inventory.Reference(
            **reference), self.group.id).snapshot.id

    def refused(self, call, *args, **more):
        """Return why a call considers an object not manageable."""
        return str(self.assertRaises(exceptions.NotManageable, call, *args,
                                     **more))

    def test_volume(self):
        for reference in ({'name': 'data'}, {'id': self.volume.id}):
            self.assertEqual((self.volume.id, 1),
                             self.volume_of(**reference))

    def test_no_such_volume(self):
        for reference in ({'name': 'date'}, {'id': 999}):
            self.assertIn('no such volume',
                          self.refused(self.volume_of, **reference))

    def test_snapshot_is_no_volume(self):
        """Only the error about a view says what can be done."""
        snapshot = self.take('s')
        self.take('w', snapshot.ref, is_exposable=True)
        self.assertIn('no such volume', self.refused(self.volume_of,
                                                     name='s'))
        self.assertIn('w is a view', self.refused(self.volume_of, name='w'))

    def test_internal_volume(self):
        """VOL-14, and volumes whose deletion is deferred."""
        self.client.volumes.create(name='cdel-7', size=GIB,
                                   volume_group=self.group.ref)
        for reference in ({'name': 'CTRL'}, {'name': 'cdel-7'}):
            self.assertIn(f'volume {reference["name"]} is internal',
                          self.refused(self.volume_of, **reference))

    def test_volume_is_unchanged(self):
        self.sim.control.clear_journal()
        self.inventory.check_named(self.volume)
        self.assertEqual(['GET volumes'], self.calls())
        with mock.patch.object(
                self.client.volumes, 'find', autospec=True,
                return_value=dataclasses.replace(self.volume,
                                                 volume_group=None)):
            self.inventory.check_named(self.volume)

    def assert_changed(self, volume):
        self.assertIn(f'no volume {volume.name} with id', self.refused(
            self.inventory.check_named, volume))

    def test_volume_was_renamed(self):
        """OBJ-7: whether or not another volume has the name now."""
        self.client.volumes.update(self.volume.id, name='date')
        self.assert_changed(self.volume)
        self.client.volumes.create(name='data', size=GIB,
                                   volume_group=self.group.ref)
        self.assert_changed(self.volume)

    def test_volume_was_moved(self):
        self.array.volumes.move(self.volume.id, self.other.id, [])
        self.assert_changed(self.volume)

    def test_snapshot_by_id(self):
        """Of the volume's own group, or of another one."""
        ids = [self.take('s', group.ref).id
               for group in (self.group, self.other)]
        self.assertEqual(ids, [self.snapshot_of(id=id) for id in ids])

    def test_snapshot_by_name(self):
        """SNP-1: short names are those of the volume's own group."""
        theirs, own = [self.take('s', group.ref).id
                       for group in (self.other, self.group)]
        self.assertEqual([own, own, theirs], [
            self.snapshot_of(name=name) for name in ('s', 'db:s', 'web:s')])

    def test_no_such_snapshot(self):
        self.take('theirs', self.other.ref)
        for reference in ({'id': 999}, {'name': 'x'}, {'name': 'theirs'},
                          {'name': 'db:theirs'}, {'name': 'db:'}):
            self.assertIn('no such snapshot',
                          self.refused(self.snapshot_of, **reference))

    def test_snapshot_without_a_group(self):
        snapshot = dataclasses.replace(self.take('s'), volume_group=None)
        with mock.patch.object(self.client.snapshots, 'find', autospec=True,
                               return_value=snapshot):
            self.assertIn('group of snapshot s', self.refused(
                self.snapshot_of, name='s'))

    def test_snapshot_kept_for_clones(self):
        """Cinder has deleted it, and the group's note says so."""
        kept, other = self.take('s'), self.take('t')
        self.client.volume_groups.update(
            self.group.id, description=f'[cinder deleted: s{kept.id}]')
        for snapshot, internal in ((kept, True), (other, False)):
            found = self.inventory.snapshot(
                inventory.Reference(id=snapshot.id), self.group.id)
            self.assertEqual(internal, 'internal' in str(found.reasons()))
        self.assertEqual([other.id], [each.snapshot.id for each
                                      in self.inventory.snapshots()])

    def test_snapshot_of_several_volumes(self):
        """SNP-11: Cinder would revert all of them."""
        self.client.volumes.create(name='more', size=2 * GIB,
                                   volume_group=self.group.ref)
        found = self.inventory.snapshot(
            inventory.Reference(id=self.take('s').id), self.group.id)
        self.assertIn('it holds 2 volumes', str(found.reasons()))
        self.assertEqual(2, len(found.images))


class ListTest(WithVolumeTest):

    def test_volumes(self):
        """Internal volumes are left out; the mappings of each are counted."""
        other = self.client.volumes.create(name='more', size=GIB,
                                           volume_group=self.group.ref)
        self.client.volumes.create(name='cdel-7', size=GIB,
                                   volume_group=self.group.ref)
        for name in ('one', 'two'):
            self.client.mappings.create(
                host=self.client.hosts.create(name=name, type='Linux').ref,
                volume=other.ref)
        self.sim.control.clear_journal()
        found = {each.volume.id: each
                 for each in self.array.inventory.volumes()}
        self.assertEqual(3, len(self.calls()), self.calls())
        self.assertEqual({self.volume.id: 0, other.id: 2}, {
            id: each.mappings for id, each in found.items()})
        for id, word in ((self.volume.id, 'holds 3 volumes'),
                         (other.id, 'mapped to 2 hosts')):
            self.assertIn(word, str(found[id].reasons()))
            self.assertEqual(found[id],
                             self.array.inventory.examine_volume(
                                 self.client.volumes.get(id)))

    def test_number_of_volumes_is_not_shown(self):
        """Then the volumes of the group are counted, in one more call."""
        self.client.volumes.create(name='more', size=GIB,
                                   volume_group=self.group.ref)
        for count in (2, None):
            shown = dataclasses.replace(
                self.client.volume_groups.get(self.group.id),
                volumes_count=count)
            with mock.patch.object(self.client.volume_groups, 'get',
                                   autospec=True, return_value=shown):
                self.assertIn('holds 2 volumes', str(self.found().reasons()))

    def test_snapshots(self):
        """Without views and snapshots that the driver made."""
        policy = self.client.retention_policies.find(
            name='Best_Effort_Retention').ref
        taken, _ = [self.client.snapshots.create(
            short_name=name, source=self.group.ref, retention_policy=policy)
            for name in ('s', 'ccs-1')]
        self.client.snapshots.create(short_name='w', source=taken.ref,
                                     retention_policy=policy,
                                     is_exposable=True)
        self.sim.control.clear_journal()
        found, = self.array.inventory.snapshots()
        self.assertEqual(3, len(self.calls()), self.calls())
        self.assertEqual((taken.id, [self.volume.ref]), (
            found.snapshot.id, [each.source for each in found.images]))


class AdoptTest(WithVolumeTest):
    """Names of a volume and its group, adopted and restored."""

    def take(self, name):
        return manage.take(self.array, self.found(), name=name,
                           group_name=f'{name}-group', size=2 * GIB)

    def names(self):
        found = self.found()
        return found.volume.name, found.group.name

    def descriptions(self):
        found = self.found()
        return found.volume.description, found.group.description

    def test_original_names_are_restored(self):
        self.client.volumes.update(self.volume.id, description='for Ann')
        backing = self.take('cv-1')
        self.assertEqual((self.volume.id, self.group.id, True), (
            backing.volume, backing.group, backing.has_clones))
        self.take('cv-2')
        self.assertEqual(('cv-2', 'cv-2-group'), self.names())
        self.assertEqual(2 * GIB, self.found().volume.size)
        self.array.original_names.restore('cv-2', 'cv-2-group')
        self.assertEqual(('data', 'db'), self.names())
        self.assertEqual(('for Ann', None), self.descriptions())

    def test_quota_too_small_changes_nothing(self):
        """VOL-11: the array refuses to grow the volume."""
        self.client.volume_groups.update(self.group.id, quota=GIB)
        self.assertRaises(rest.Refused, self.take, 'cv-1')
        self.assertEqual(('data', 'db'), self.names())
        self.assertEqual((None, None), self.descriptions())

    def adopted(self):
        """The volume and its group before and after their adoption."""
        before = self.found()
        self.take('cv-1')
        return before, self.found()

    def test_undo(self):
        before, _ = self.adopted()
        names = self.array.original_names
        names.undo_group(before.group, 'cv-1-group')
        names.undo_volume(before.volume, 'cv-1')
        self.assertEqual(('data', 'db'), self.names())
        self.assertEqual((None, None), self.descriptions())

    def test_undo_after_a_lost_reply(self):
        """OBJ-7: the ids may be others' by then."""
        before, after = self.adopted()
        names = self.array.original_names
        for collection, id, undo in (
                (self.client.volumes, after.volume.id,
                 lambda: names.undo_volume(before.volume, 'cv-1')),
                (self.client.volume_groups, after.group.id,
                 lambda: names.undo_group(before.group, 'cv-1-group'))):
            rename = functools.partial(collection.update, id, name='theirs')
            with lost.on_request('PATCH', collection.path, act=rename,
                                 sent=False, error=rest.Unreachable):
                self.assertRaises(rest.OtherObject, undo)
        self.assertEqual(('theirs', 'theirs'), self.names())

    def test_large_enough_volume_is_adopted_in_one_call(self):
        for size, calls in ((GIB, 1), (GIB + 1, 2)):
            self.sim.control.clear_journal()
            self.array.original_names.adopt_volume(
                self.found().volume, 'cv-1', size)
            self.assertEqual(calls, len([
                call for call in self.calls() if call.startswith('PATCH')]))

    def test_volume_of_whole_gib_is_not_grown(self):
        self.client.volumes.update(self.volume.id, size=3 * GIB)
        self.take('cv-1')
        self.assertEqual(3 * GIB, self.found().volume.size)

    def test_where_original_names_are_stored(self):
        """Later versions of the driver read them."""
        self.client.volumes.update(self.volume.id, description='for Ann')
        self.take('cv-1')
        self.assertEqual(('for Ann [cinder original name: data]',
                          '[cinder original name: db]'), self.descriptions())

    def test_original_name_is_taken(self):
        """VOL-1: the volume keeps its name and its tag."""
        self.take('cv-1')
        self.client.volumes.create(name='data', size=GIB,
                                   volume_group=self.group.ref)
        before = self.descriptions()
        self.array.original_names.restore('cv-1', 'cv-1-group')
        self.assertEqual(('cv-1', 'db'), self.names())
        self.assertEqual((before[0], None), self.descriptions())

    def test_without_original_names(self):
        """Nothing is changed; missing objects are not an error."""
        self.sim.control.clear_journal()
        for names in (('data', 'db'), ('gone', 'gone-too')):
            self.array.original_names.restore(*names)
        self.assertEqual(4, len(self.calls()), self.calls())
        self.assertEqual(('data', 'db'), self.names())
