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

from unittest import mock

from cinder_k2.array import deferred_deletion
from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2.flows import deletion
from cinder_k2 import rest
from tests.unit.driver import doubles
from tests.unit import simulated

VOLUME = objects.ArrayVolume(group=3, volume=7)
VIEW = objects.ArrayVolume(group=3, view=9, volsnap=8)
SNAPSHOT = objects.ArraySnapshot(snapshot=5, group=3)
FOUND = objects.ArraySnapshot(snapshot=6, group=4)
USED = exceptions.ObjectInUse('Volume 7', 'is needed by: x.')
MAPPED = exceptions.StillMapped('Volume 7', 'is mapped to host h.')


class DeleteVolumeTest(doubles.TestCase):
    """A volume or view is deleted, or its deletion is deferred."""

    DELETE_VOLUME = mock.call.array.volumes.delete(7, 3, ['cv-1', 'cv-2'])
    DELETE_GROUP = mock.call.array.volumes.delete_group(3, ['cvg-1', 'cvg-2'])
    DELETE_VIEW = mock.call.array.snapshots.delete(9, 3, ['cv-1', 'cv-2'])

    def delete(self, volume):
        deletion.delete_volume(self.array, volume, ['cv-1', 'cv-2'])

    def retire(self, volume):
        return deletion.retire_volume(self.array, volume, ['cv-1', 'cv-2'])

    def needed(self, mapped_hosts=1):
        """Return what the volume is needed for, from now on.

        :param mapped_hosts: as its volume group counts them; None if it does
            not
        """
        needs = deferred_deletion.Needs(
            rest.VolumeGroup(3, mapped_hosts_count=mapped_hosts), [])
        self.array.deferred.needs_of_volume.return_value = needs
        return needs

    def attempt(self, volume):
        return deletion.try_delete_volume(self.array, volume,
                                          ['cv-1', 'cv-2'])

    def test_a_volume(self):
        self.delete(VOLUME)
        self.assertEqual([self.DELETE_VOLUME, self.DELETE_GROUP],
                         self.calls())

    def test_a_volume_of_a_consistency_group(self):
        self.delete(objects.ArrayVolume(group=3, volume=7, shared=True))
        self.assertEqual([self.DELETE_VOLUME], self.calls())

    def test_a_view(self):
        self.delete(VIEW)
        self.assertEqual([self.DELETE_VIEW], self.calls())

    def test_group_with_foreign_objects(self):
        self.array.volumes.delete_group.side_effect = rest.Refused('no')
        with self.assertLogs('cinder_k2.flows.deletion', 'WARNING'):
            self.delete(VOLUME)
        self.assertEqual([self.DELETE_VOLUME, self.DELETE_GROUP],
                         self.calls())

    def test_retire_unneeded_volume(self):
        self.array.deferred.needs_of_volume.return_value = None
        self.assertIsNone(self.retire(VOLUME))
        self.assertEqual(
            [mock.call.array.deferred.needs_of_volume(VOLUME),
             self.DELETE_VOLUME, self.DELETE_GROUP], self.calls())

    def test_retire_volume_with_clones(self):
        needs = self.needed()
        self.assertIs(needs, self.retire(VOLUME))
        self.assertEqual(
            [mock.call.array.deferred.needs_of_volume(VOLUME),
             mock.call.array.volumes.check_unmapped(VOLUME),
             mock.call.array.deferred.defer_volume(
                 VOLUME, needs, ['cv-1', 'cv-2'])], self.calls())

    def test_retire_volume_with_clones_of_group_without_count(self):
        self.needed(None)
        self.retire(VOLUME)
        self.assertEqual([mock.call.array.volumes.check_unmapped(VOLUME)],
                         self.calls('array.volumes.check_unmapped'))

    def test_retire_volume_with_clones_of_group_without_mappings(self):
        needs = self.needed(0)
        self.assertIs(needs, self.retire(VOLUME))
        self.assertEqual(
            [mock.call.array.deferred.needs_of_volume(VOLUME),
             mock.call.array.deferred.defer_volume(
                 VOLUME, needs, ['cv-1', 'cv-2'])], self.calls())

    def test_mapped_volume_with_clones_is_not_hidden(self):
        self.needed()
        self.array.volumes.check_unmapped.side_effect = MAPPED
        self.assertIs(MAPPED, self.raised(exceptions.StillMapped,
                                          self.retire, VOLUME))
        self.assertEqual([], self.calls('array.deferred.defer_volume'))

    def test_try(self):
        self.assertIs(True, self.attempt(VOLUME))
        self.assertEqual([self.DELETE_VOLUME, self.DELETE_GROUP],
                         self.calls())

    def test_try_while_needed(self):
        self.array.volumes.delete.side_effect = USED
        self.assertIs(False, self.attempt(VOLUME))

    def test_try_while_mapped(self):
        self.array.volumes.delete.side_effect = MAPPED
        self.assertIs(MAPPED, self.raised(exceptions.StillMapped,
                                          self.attempt, VOLUME))


class OwnGroupTest(doubles.TestCase):
    """The group of one volume."""

    def setUp(self):
        super().setUp()
        self.array.volumes.find_group.return_value = 3

    def delete(self):
        return deletion.delete_own_group_by_name(self.array, 'cvg-1')

    def test_by_name(self):
        self.assertEqual(3, self.delete())
        self.assertEqual(
            [mock.call.array.volumes.find_group('cvg-1'),
             mock.call.array.volumes.delete_group(3, ['cvg-1'])],
            self.calls())

    def test_no_such_group(self):
        self.array.volumes.find_group.return_value = None
        self.assertIsNone(self.delete())
        self.assertEqual([mock.call.array.volumes.find_group('cvg-1')],
                         self.calls())

    def test_group_is_not_empty(self):
        self.array.volumes.delete_group.side_effect = rest.Refused('no')
        self.assertIsNone(self.delete())


class RetireSnapshotTest(doubles.TestCase):
    """A snapshot is deleted, or its deletion is deferred."""

    LOOK = [mock.call.array.snapshots.of_group(3),
            mock.call.array.identity.snapshot_among(
                SNAPSHOT, ['cs-1'], mock.sentinel.siblings)]
    DELETE = mock.call.array.snapshots.delete(6, 4, ['cs-1'])

    @property
    def hide(self):
        return mock.call.array.deferred.defer_snapshot(FOUND, self.siblings)

    def setUp(self):
        super().setUp()
        self.siblings = mock.sentinel.siblings
        self.array.identity.snapshot_among.return_value = FOUND
        self.array.identity.snapshot.return_value = FOUND
        self.array.deferred.is_snapshot_needed.return_value = False
        self.array.snapshots.of_group.side_effect = (
            lambda group: self.siblings)

    def retire(self):
        return deletion.retire_snapshot(self.array, SNAPSHOT, ['cs-1'])

    def test_unneeded_snapshot(self):
        self.assertIs(True, self.retire())
        self.assertEqual(
            [*self.LOOK, mock.call.array.deferred.is_snapshot_needed(
                FOUND, mock.sentinel.siblings), self.DELETE], self.calls())

    def test_missing_snapshot(self):
        self.array.identity.snapshot_among.return_value = None
        self.assertIs(False, self.retire())
        self.assertEqual(self.LOOK, self.calls())

    def test_snapshot_needed_by_volumes(self):
        self.array.deferred.is_snapshot_needed.return_value = True
        self.assertIs(True, self.retire())
        self.assertEqual(
            [*self.LOOK, mock.call.array.deferred.is_snapshot_needed(
                FOUND, mock.sentinel.siblings), self.hide], self.calls())

    def test_number_of_clones_is_not_shown(self):
        """CLN-4: then a refusal means that it has clones."""
        self.siblings = [
            rest.Snapshot(6, unread=frozenset({'num_of_clones'})),
            rest.Snapshot(5)]
        self.array.snapshots.delete.side_effect = rest.Refused('no')
        self.assertIs(True, self.retire())
        self.assertEqual([self.DELETE, self.hide], self.calls()[-2:])

    def test_number_of_clones_is_zero(self):
        """The refusal has another reason; other snapshots do not count."""
        self.siblings = [
            rest.Snapshot(5, unread=frozenset({'num_of_clones'})),
            rest.Snapshot(6, num_of_clones=0)]
        refusal = rest.Refused('no')
        self.array.snapshots.delete.side_effect = refusal
        self.assertIs(refusal, self.raised(rest.Refused, self.retire))
        self.assertEqual(self.DELETE, self.calls()[-1])

    def test_incomplete_list(self):
        self.array.snapshots.of_group.side_effect = rest.Incomplete('more')
        self.array.snapshots.delete.return_value = True
        self.assertIs(True, self.retire())
        self.assertEqual(
            [mock.call.array.snapshots.of_group(3),
             mock.call.array.identity.snapshot(SNAPSHOT, ['cs-1']),
             self.DELETE], self.calls())

    def test_incomplete_list_and_snapshot_vanishes(self):
        self.array.snapshots.of_group.side_effect = rest.Incomplete('more')
        self.array.snapshots.delete.return_value = False
        self.assertIs(False, self.retire())

    def test_incomplete_list_and_missing_snapshot(self):
        self.array.snapshots.of_group.side_effect = rest.Incomplete('more')
        self.array.identity.snapshot.return_value = None
        self.assertIs(False, self.retire())
        self.assertNotIn(self.DELETE, self.calls())

    def test_try(self):
        self.assertIs(True, deletion.try_delete_snapshot(
            self.array, FOUND, ['cs-1']))
        self.assertEqual([self.DELETE], self.calls())

    def test_try_while_needed(self):
        self.array.snapshots.delete.side_effect = USED
        self.assertIs(False, deletion.try_delete_snapshot(
            self.array, FOUND, ['cs-1']))


class ParentTest(doubles.TestCase):
    """The snapshot that was made for one clone."""

    CLONE = objects.ArrayVolume(group=3, volume=7, parent=5, parent_group=4,
                                hidden_parent=True)
    DELETE = mock.call.array.snapshots.delete_parent(
        5, 4, ['ccs-1', 'ccs-2'])
    HIDE = mock.call.array.deferred.record(
        4, deferred_deletion.DeferredIds(snapshots=frozenset({5})))

    def delete(self, clone):
        deletion.delete_parent(self.array, clone, ['cv-1', 'cv-2'])

    def test_delete(self):
        self.delete(self.CLONE)
        self.assertEqual([self.DELETE], self.calls())

    def test_parent_still_needed(self):
        self.array.snapshots.delete_parent.side_effect = rest.Refused('no')
        self.delete(self.CLONE)
        self.assertEqual([self.DELETE, self.HIDE], self.calls())

    def test_hide(self):
        deletion.hide_parent(self.array, self.CLONE)
        self.assertEqual([self.HIDE], self.calls())

    def test_a_snapshot_of_cinder(self):
        clone = objects.ArrayVolume(group=3, volume=7, parent=5)
        self.delete(clone)
        deletion.hide_parent(self.array, clone)
        self.assertEqual([], self.calls())

    def test_no_snapshot(self):
        volume = objects.ArrayVolume(group=3, volume=7, hidden_parent=True)
        self.delete(volume)
        deletion.hide_parent(self.array, volume)
        self.assertEqual([], self.calls())


class LongListTest(simulated.SimulatedTest):
    """The array lists only some of the snapshots of a group."""

    def setUp(self):
        super().setUp()
        group = self.array.volumes.create_group('cvg-1', True)
        self.volume = self.array.volumes.create('cv-1', simulated.GIB, group)
        self.source = objects.ArrayVolume(volume=self.volume, group=group)
        self.snapshots = {
            name: self.array.snapshots.create(name, self.source)
            for name in ('cs-1', 'cs-2', 'cs-3')}
        self.sim.control.set_behaviors(page_size=2, refuse_unlisted=400,
                                       refuse_only=['GET snapshots __limit'])
        self.client.capabilities._verdicts.pop('paging')
        self.assertRaises(rest.Incomplete, self.array.snapshots.of_group,
                          group)
        self.sim.control.clear_journal()

    def retire(self, name):
        return deletion.retire_snapshot(self.array, self.snapshots[name],
                                        [name])

    def test_unneeded_snapshot(self):
        self.assertTrue(self.retire('cs-3'))
        self.assertEqual(['cs-1', 'cs-2'], self.leftovers()['snapshots'])
        self.assertEqual(1, sum(call.startswith('DELETE')
                                for call in self.calls()))

    def test_reused_id(self):
        """The snapshot is identified by its name."""
        self.snapshots['cs-3'] = self.snapshots['cs-1']
        self.assertTrue(self.retire('cs-3'))
        self.assertEqual(['cs-1', 'cs-2'], self.leftovers()['snapshots'])

    def test_snapshot_needed_by_a_thin_clone(self):
        """It stays, and its deletion is not deferred."""
        self.array.snapshots.create_thin_clone(
            'cv-2', self.snapshots['cs-3'], self.volume)
        error = self.assertRaises(rest.Refused, self.retire, 'cs-3')
        self.assertIn('clone', str(error))
        self.assertEqual(['cs-1', 'cs-2', 'cs-3'],
                         self.leftovers()['snapshots'])
        self.assertFalse(self.array.volumes.group(
            self.source.group).description)
