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


"""REST calls that defer a deletion, and carry it out later."""

from unittest import mock

from cinder_k2.array import deferred_deletion
from cinder_k2.array import objects
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.array import recorded

GROUP = rest.Ref('volume_groups', 3)
ONE = naming.digest('cs-1')
SNAPSHOT = rest.Snapshot(5, name='vg:cs-1', short_name='cs-1', source=GROUP,
                         volume_group=GROUP)
TAKEN = objects.ArraySnapshot(snapshot=5, group=3)


def a_group(note=''):
    """Group 3, with its record of deferred deletions."""
    return rest.VolumeGroup(3, name='cvg-1', description=(
        f'mine [cinder deleted: {note}]' if note else 'mine'))


class RecordedDeferredTest(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.groups = self.client.volume_groups
        self.groups.get.return_value = a_group()
        self.groups.update.side_effect = self.update
        self.deferred = deferred_deletion.DeferredDeletion(
            self.client, volumes.Volumes(self.client))
        self.client.volumes.some.return_value = ([], True)
        self.client.snapshots.search.side_effect = lambda **_: self.live
        self.live = []

    def update(self, id, names, description):
        """Accept the description."""
        return rest.VolumeGroup(id, name='cvg-1', description=description)

    def assert_recorded(self, note):
        """The group records this, and keeps the rest of its text."""
        self.groups.update.assert_called_once_with(
            3, names=['cvg-1'], description=a_group(note).description)

    def test_defer_a_volume(self):
        self.deferred.defer_volume(
            objects.ArrayVolume(group=3, volume=7), ['cv-1'])
        self.assert_recorded('v7')
        self.client.volumes.update.assert_called_once_with(
            7, names=['cv-1', 'cdel-7'], name='cdel-7')

    def test_defer_a_volume_of_any_name(self):
        self.deferred.defer_volume(objects.ArrayVolume(group=3, volume=7))
        self.client.volumes.update.assert_called_once_with(
            7, names=[], name='cdel-7')

    def test_defer_a_clone(self):
        """Its group records the group of its source."""
        self.deferred.defer_volume(objects.ArrayVolume(
            group=3, volume=7, parent=1, parent_group=4))
        self.assert_recorded('v7 g4')

    def test_defer_a_view(self):
        self.live = [SNAPSHOT]
        self.deferred.defer_volume(objects.ArrayVolume(
            group=3, view=5, volsnap=1, parent=2))
        self.assert_recorded(f's5={ONE}')

    def test_defer_one_more_snapshot(self):
        self.groups.get.return_value = a_group('v9 s4')
        self.live = [rest.Snapshot(4, short_name='cs-0'), SNAPSHOT]
        self.deferred.defer_snapshot(TAKEN)
        self.assert_recorded(f'v9 s4 s5={ONE}')

    def test_truncated_record(self):
        self.groups.update.side_effect = None
        self.groups.update.return_value = a_group()
        error = self.raised(exceptions.ObjectInUse, self.deferred.defer_volume,
                            objects.ArrayVolume(group=3, volume=7))
        self.assertEqual(
            'Volume group cvg-1 has clones, and the array accepts no note in'
            ' its description that the source is deleted: it cuts it off',
            str(error))
        self.assertEqual([], self.calls('volumes'))

    def test_purge_all(self):
        self.groups.get.return_value = a_group(f'v7 s5={ONE} g4')
        self.live = [SNAPSHOT]
        self.client.volumes.search.return_value = [
            rest.Volume(7, name='cdel-7')]
        self.assertEqual(
            deferred_deletion.Purged(empty=True, name='cvg-1',
                                     source_groups=frozenset({4})),
            self.deferred.purge(3))
        self.assertEqual(
            [mock.call.snapshots.delete(5, names=['cs-1'],
                                        volume_group=GROUP),
             mock.call.volumes.delete(7, names=['cdel-7'],
                                      volume_group=GROUP),
             mock.call.volumes.some(volume_group=GROUP)], self.calls()[-3:])

    def test_purge_while_other_volumes_stay(self):
        """The source may be purged only if the clone is gone."""
        self.client.volumes.some.return_value = ([mock.sentinel.other], True)
        self.groups.get.return_value = a_group('v7 g4')
        for needed, source_groups in ((), {4}), ({7}, ()):
            self.assertEqual(
                deferred_deletion.Purged(
                    source_groups=frozenset(source_groups)),
                self.deferred.purge(3, frozenset(needed)))

    def test_purge_a_snapshot_among_several(self):
        """One of the ids now belongs to a snapshot of another name (OBJ-7)."""
        self.groups.get.return_value = a_group(f's4={ONE} s5={ONE} s6')
        self.live = [rest.Snapshot(4, short_name='other'), SNAPSHOT,
                     rest.Snapshot(6, short_name='cs-6', num_of_clones=1)]
        self.assertEqual(deferred_deletion.Purged(), self.deferred.purge(3))
        self.assertEqual([mock.call.snapshots.delete(
            5, names=['cs-1'], volume_group=GROUP)],
            self.calls('snapshots.delete'))
        self.assert_recorded(f's4={ONE} s6')

    def test_snapshot_with_views(self):
        """Cinder's views need it; views of others are an error."""
        view = rest.Snapshot(6, name='vg:cv-2', short_name='cv-2',
                             source=SNAPSHOT.ref)
        self.assertIs(True, self.deferred.is_snapshot_needed(
            TAKEN, [SNAPSHOT, view]))
        self.assertIs(False, self.deferred.is_snapshot_needed(
            TAKEN, [SNAPSHOT]))
        theirs = rest.Snapshot(8, name='vg:theirs', short_name='theirs',
                               source=SNAPSHOT.ref)
        error = self.raised(
            exceptions.ObjectInUse, self.deferred.is_snapshot_needed, TAKEN,
            [SNAPSHOT, view, theirs])
        self.assertEqual(
            f'{TAKEN.ref} is needed by objects that Cinder did not make, or '
            'has given up: vg:theirs. Delete them on the array first.',
            str(error))
