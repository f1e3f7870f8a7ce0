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

import dataclasses
import unittest
from unittest import mock

import ddt

from cinder_k2.array import deferred_deletion
from cinder_k2.array import objects
from cinder_k2.array import snapshots
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


class DeferredTestCase(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.groups = self.client.volume_groups
        self.groups.get.return_value = a_group()
        self.groups.update.side_effect = self.update
        self.deferred = deferred_deletion.DeferredDeletion(
            self.client, volumes.Volumes(self.client),
            snapshots.Snapshots(self.client, 'policy'))
        self.client.volumes.some.return_value = ([], True)
        self.client.snapshots.search.side_effect = lambda **_: self.live
        self.live = []

    def update(self, id, names, description):
        """Accept the description."""
        return rest.VolumeGroup(id, name='cvg-1', description=description)


@ddt.ddt
class RecordedDeferredTest(DeferredTestCase):

    def assert_recorded(self, note):
        """Assert that the group has this note, and keeps its other text."""
        self.groups.update.assert_called_once_with(
            3, names=['cvg-1'], description=a_group(note).description)

    def defer(self, names=(), **backing):
        """Defer the deletion of a volume or view of group 3."""
        self.deferred.defer_volume(
            objects.ArrayVolume(group=3, **backing),
            deferred_deletion.Needs(a_group(), self.live), names)

    def test_defer_a_volume(self):
        self.defer(['cv-1'], volume=7)
        self.assert_recorded('v7')
        self.client.volumes.update.assert_called_once_with(
            7, names=['cv-1', 'cdel-7'], name='cdel-7')

    def test_defer_a_volume_of_any_name(self):
        self.defer(volume=7)
        self.client.volumes.update.assert_called_once_with(
            7, names=[], name='cdel-7')

    @ddt.data(False, True)
    def test_defer_a_clone(self, hidden):
        """Its group records the group of its source."""
        self.defer(volume=7, parent=1, parent_group=4, hidden_parent=hidden)
        self.assert_recorded('v7 g4')

    def test_defer_a_view(self):
        self.live = [SNAPSHOT]
        self.defer(view=5, volsnap=1, parent=2)
        self.assert_recorded(f's5={ONE}')
        self.assertEqual([], self.calls('volumes', 'snapshots'))

    def test_defer_a_view_with_the_snapshot_made_for_it(self):
        """One note has both."""
        self.live = [rest.Snapshot(2, short_name='ccs-1'), SNAPSHOT]
        self.defer(view=5, volsnap=1, parent=2, hidden_parent=True)
        self.assert_recorded(f's2={naming.digest("ccs-1")} s5={ONE}')

    def test_defer_one_more_snapshot(self):
        self.groups.get.return_value = a_group('v9 s4')
        self.live = [rest.Snapshot(4, short_name='cs-0'), SNAPSHOT]
        self.deferred.defer_snapshot(TAKEN, self.live)
        self.assertEqual([], self.calls('snapshots'))
        self.assert_recorded(f'v9 s4 s5={ONE}')

    def test_truncated_record(self):
        self.groups.update.side_effect = None
        self.groups.update.return_value = a_group()
        error = self.raised(exceptions.ObjectInUse, self.defer, volume=7)
        self.assertEqual(
            'Volume group cvg-1 has clones, and the array accepts no note in'
            ' its description that the source is deleted: it truncates the '
            'note',
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
        kept = [rest.Volume(7, name='cdel-7')]
        for live, source_groups in ([], {4}), (kept, ()):
            self.client.volumes.search.return_value = live
            self.client.volumes.delete.side_effect = rest.Refused('needed')
            self.assertEqual(
                deferred_deletion.Purged(
                    source_groups=frozenset(source_groups)),
                self.deferred.purge(3))

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
            'no longer manages: vg:theirs. Delete them on the array first.',
            str(error))
        self.groups.get.assert_called_once_with(3)

    def test_snapshot_with_a_deleted_view(self):
        """A managed one: only the note shows that Cinder deleted it."""
        theirs = rest.Snapshot(8, name='vg:theirs', short_name='theirs',
                               source=SNAPSHOT.ref)
        self.groups.get.return_value = a_group(
            f's8={naming.digest("theirs")}')
        self.assertIs(True, self.deferred.is_snapshot_needed(
            TAKEN, [SNAPSHOT, theirs]))
        self.groups.get.assert_called_once_with(3)


@ddt.ddt
class NeedsTest(unittest.TestCase):
    """What the array shows of a group in which something has clones."""

    @ddt.data(
        ('', rest.Snapshot(6, short_name='cv-2'), True),
        ('', rest.Snapshot(6, short_name='ccs-2', num_of_clones=1), True),
        ('', rest.Snapshot(6, short_name='ccs-2', num_of_clones=0), False),
        (f's6={naming.digest("cv-2")}', rest.Snapshot(6, short_name='cv-2'),
         False),
        ('', rest.Snapshot(6, short_name='theirs'), False))
    @ddt.unpack
    def test_will_be_purged(self, note, sibling, will):
        """The deletion of a clone that still exists will purge the group."""
        needs = deferred_deletion.Needs(
            a_group(note), [rest.Snapshot(5, short_name='ccs-1'), sibling])
        self.assertIs(will, bool(needs.will_be_purged))

    def test_a_view_is_not_its_own_clone(self):
        live = [SNAPSHOT, rest.Snapshot(6, short_name='cv-2')]
        self.assertFalse(deferred_deletion.Needs(
            a_group(), live, 6).will_be_purged)


@ddt.ddt
class NeedsOfVolumeTest(DeferredTestCase):

    OWN = objects.ArrayVolume(group=3, volume=7)
    SHARED = objects.ArrayVolume(group=3, volume=7, shared=True)
    HIDDEN = rest.Snapshot(5, name='vg:ccs-2', short_name='ccs-2',
                           source=GROUP, volume_group=GROUP)
    THEIRS = rest.Snapshot(6, name='vg:theirs', short_name='theirs',
                           source=GROUP, volume_group=GROUP)

    def setUp(self):
        super().setUp()
        self.has(volumes_count=1)
        self.images = []
        self.client.volsnaps.search.side_effect = (
            lambda *_, **__: self.images)

    def has(self, **counts):
        """Set the counts of the group."""
        self.group = dataclasses.replace(a_group(), **counts)
        self.groups.get.return_value = self.group

    def holds(self, *snapshots):
        """Set the snapshots that have an image of the volume."""
        self.images = [rest.Volsnap(1, snapshot=each.ref)
                       for each in snapshots]

    def look(self, backing):
        """Return what the volume is needed for, and the requests."""
        found = self.deferred.needs_of_volume(backing)
        return found, [each[0] for each in self.calls()]

    @ddt.data('OWN', 'SHARED')
    def test_no_snapshots(self, kind):
        found, calls = self.look(getattr(self, kind))
        self.assertIsNone(found)
        self.assertEqual(['snapshots.search'], calls)

    def test_only_volume_of_its_group(self):
        self.live = [self.HIDDEN]
        found, calls = self.look(self.OWN)
        self.assertEqual(
            deferred_deletion.Needs(self.group, self.live), found)
        self.assertEqual(['snapshots.search', 'volume_groups.get'], calls)

    @ddt.data(None, 2)
    def test_one_of_several_volumes_of_its_group(self, count):
        """A clone may still be where the array created it (CLN-7)."""
        self.has(volumes_count=count)
        self.live = [self.HIDDEN]
        self.assertIsNone(self.look(self.OWN)[0])
        self.assertEqual(1, len(self.calls('volsnaps')))
        self.holds(self.HIDDEN)
        self.assertIsNotNone(self.look(self.OWN)[0])

    def test_volume_of_a_shared_group(self):
        self.live = [self.HIDDEN]
        found, calls = self.look(self.SHARED)
        self.assertIsNone(found)
        self.assertEqual(['snapshots.search', 'volsnaps.search'], calls)
        self.holds(self.HIDDEN)
        self.assertIsNotNone(self.look(self.SHARED)[0])

    @ddt.data('OWN', 'SHARED')
    def test_foreign_snapshot(self, kind):
        self.live = [self.HIDDEN, self.THEIRS]
        self.holds(*self.live)
        error = self.raised(
            exceptions.ObjectInUse, self.deferred.needs_of_volume,
            getattr(self, kind))
        self.assertIn('vg:theirs', str(error))
        self.assertNotIn('ccs-2', str(error))

    def test_foreign_snapshot_without_an_image(self):
        """It was taken before the volume was moved into the group."""
        self.live = [self.HIDDEN, self.THEIRS]
        self.holds(self.HIDDEN)
        self.assertIsNotNone(self.look(self.OWN)[0])
        self.live = [self.THEIRS]
        self.assertIsNone(self.look(self.OWN)[0])

    def test_view(self):
        """Its snapshots have it as their source."""
        view = rest.Snapshot(9, short_name='cv-1', source=self.HIDDEN.ref,
                             volume_group=GROUP)
        backing = objects.ArrayVolume(group=3, view=9, parent=5)
        self.live = [self.HIDDEN, view]
        taken = rest.Snapshot(10, short_name='ccs-3', source=view.ref,
                              volume_group=GROUP)
        self.live = [self.HIDDEN, view, taken]
        found, calls = self.look(backing)
        self.assertEqual((self.live, 9), (found.siblings, found.view))
        self.assertEqual(['snapshots.search', 'volume_groups.get'], calls)
        self.live = [self.HIDDEN, view]
        self.assertIsNone(self.look(backing)[0])

    def test_view_where_the_array_shows_no_sources(self):
        """The array is then queried for snapshots of this view."""
        backing = objects.ArrayVolume(group=3, view=9, parent=5)
        hidden = dataclasses.replace(self.HIDDEN, source=None)
        self.client.snapshots.search.side_effect = (
            lambda source=None, volume_group=None:
            [] if source else [hidden])
        self.assertIsNone(self.look(backing)[0])
        self.assertEqual(
            mock.call.snapshots.search(source=rest.Ref('snapshots', 9),
                                       volume_group=GROUP),
            self.calls('snapshots')[-1])
