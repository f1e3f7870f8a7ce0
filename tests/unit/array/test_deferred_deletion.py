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
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2.array import deferred_deletion
from cinder_k2 import exceptions
from cinder_k2.flows import volumes
from cinder_k2 import rest
from tests.unit import simulated

GIB = simulated.GIB

ids = st.frozensets(st.integers(min_value=1, max_value=10 ** 9), max_size=5)


class DeferredIdsTest(unittest.TestCase):

    @given(ids, ids, ids)
    def test_str_round_trip(self, volumes_, snapshots, homes):
        marks = deferred_deletion.DeferredIds(volumes_, snapshots, homes)
        self.assertEqual(
            marks, deferred_deletion.DeferredIds.parse(str(marks)))

    @given(st.text())
    def test_any_text_can_be_parsed(self, text):
        deferred_deletion.DeferredIds.parse(text)

    def test_ids_among_other_words(self):
        self.assertEqual(
            deferred_deletion.DeferredIds(snapshots=frozenset({7})),
            deferred_deletion.DeferredIds.parse('very old, s7 sold x9 s v1a'))

    def test_snapshots_recorded_without_digests(self):
        """OBJ-7: earlier versions deferred only snapshots of Cinder's."""
        ids = deferred_deletion.DeferredIds.parse('v6 s7')
        for id, name, named in ((7, 'cs-1', True), (7, 'cv-1', True),
                                (7, 'theirs', False), (7, None, False),
                                (6, 'cs-1', False)):
            self.assertIs(named, ids.names(rest.Snapshot(
                id, short_name=name)), name)


class DeferredDeletionTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.array.snapshots.check()
        self.before = self.leftovers()
        self.source = volumes.create(self.array, name='cv-1',
                                     group_name='cvg-1', size=GIB,
                                     dedup=True)
        self.snapshot = self.array.snapshots.create('ccs-2', self.source)
        self.view = self.array.snapshots.create_view('cv-2', self.snapshot,
                                                     lasting=True)

    def defer(self):
        self.array.deferred.defer_volume(
            self.source, self.array.deferred.needs_of_volume(self.source))

    def delete_clone(self):
        """Delete the clone, and the snapshot made for it."""
        self.array.snapshots.delete(self.view.view, self.view.group)
        self.array.snapshots.delete(self.snapshot.snapshot,
                                    self.snapshot.group)

    def test_deferred_and_purged(self):
        self.defer()
        name = f'cdel-{self.source.volume}'
        self.assertEqual([name], self.leftovers()['volumes'])
        self.assertFalse(self.array.deferred.purge(self.source.group).gone)
        self.delete_clone()
        self.assertTrue(self.array.deferred.purge(self.source.group).empty)
        self.array.volumes.delete_group(self.source.group, [])
        self.assertEqual(self.before, self.leftovers())
        # Another service purges the same group afterwards.
        self.assertTrue(self.array.deferred.purge(self.source.group).gone)

    def test_deferring_twice(self):
        self.defer()
        self.defer()
        [found] = self.array.deferred.groups()
        self.assertEqual({self.source.volume}, found.ids.volumes)
        self.assertEqual('cvg-1', found.group.name)

    def test_volume_with_foreign_snapshot_stays(self):
        """A snapshot that is not Cinder's keeps the volume."""
        self.defer()
        self.array.snapshots.create('theirs', self.source)
        self.delete_clone()
        self.assertFalse(self.array.deferred.purge(self.source.group).gone)
        self.assertEqual(1, len(self.leftovers()['snapshots']))
        self.assertEqual({self.source.volume},
                         self.array.deferred.groups()[0].ids.volumes)

    def test_volume_without_a_name_stays_recorded(self):
        """OBJ-7: its id might be another's, so it is purged next time."""
        self.defer()
        self.delete_clone()
        nameless = [rest.Volume(id=self.source.volume)]
        with mock.patch.object(self.client.volumes, 'search', autospec=True,
                               return_value=nameless):
            self.assertEqual(deferred_deletion.Purged(),
                             self.array.deferred.purge(self.source.group))
        self.assertEqual({self.source.volume},
                         self.array.deferred.groups()[0].ids.volumes)
        self.assertTrue(self.array.deferred.purge(self.source.group).empty)

    def test_error_names_foreign_snapshot(self):
        self.array.snapshots.create('theirs', self.source)
        error = self.assertRaises(exceptions.ObjectInUse,
                                  self.array.deferred.needs_of_volume,
                                  self.source)
        self.assertIn('cvg-1:theirs', str(error))
        self.assertNotIn('ccs-2', str(error))

    def test_view_whose_source_is_null(self):
        """A view always has a source: null is like a missing field."""
        view, = self.client.snapshots.search(short_name='cv-2')
        views = [dataclasses.replace(view, source=None)]
        with mock.patch.object(self.client.snapshots, 'search', autospec=True,
                               return_value=views):
            self.assertIsNone(
                self.array.deferred.needs_of_volume(self.source))
        self.assertTrue(
            self.array.deferred.is_snapshot_needed(self.snapshot, views))

    def test_unreadable_record_is_not_overwritten(self):
        """Otherwise other deferred objects would never be deleted."""
        told = {'id': self.source.group, 'name': 'cvg-1'}
        for odd in (told, {**told, 'description': ['a']}):
            self.sim.control.clear_journal()
            self.assertRaises(
                exceptions.ObjectInUse, self.array.deferred.defer_volume,
                self.source, deferred_deletion.Needs(
                    rest.VolumeGroup.from_json(odd), []))
            self.assertEqual([], self.calls())

    def test_nothing_deferred_costs_one_call(self):
        self.sim.control.clear_journal()
        self.assertEqual(deferred_deletion.Purged(),
                         self.array.deferred.purge(self.source.group))
        self.assertEqual(1, len(self.calls()))

    def test_record(self):
        """Three calls; the snapshots stay until nothing needs them."""
        other = self.array.snapshots.create('ccs-3', self.source)
        self.sim.control.clear_journal()
        self.array.deferred.record(
            self.source.group, deferred_deletion.DeferredIds(
                snapshots=frozenset({self.snapshot.snapshot,
                                     other.snapshot})))
        self.assertEqual(3, len(self.calls()), self.calls())
        self.array.deferred.purge(self.source.group)
        self.assertEqual(['ccs-2'], self.leftovers()['snapshots'])
        [found] = self.array.deferred.groups()
        self.assertEqual({self.snapshot.snapshot}, found.ids.snapshots)
        self.array.snapshots.delete(self.view.view, self.view.group)
        self.array.deferred.purge(self.source.group)
        self.assertNotIn('snapshots', self.leftovers())
        self.assertEqual([], self.array.deferred.groups())

    def test_refused_record_changes_nothing(self):
        self.sim.control.add_fault(
            method='PATCH', path='volume_groups/*', kind='status',
            status=400, times=99)
        error = self.assertRaises(exceptions.ObjectInUse, self.defer)
        self.assertIn('cvg-1', str(error))
        self.assertIn('HTTP 400', str(error))
        self.assertEqual(['cv-1'], self.leftovers()['volumes'])
        self.assertEqual([], self.array.deferred.groups())

    def test_snapshot_that_is_being_read(self):
        """The error names the temporary view."""
        self.array.snapshots.create_view('cview-9', self.snapshot,
                                         lasting=False)
        error = self.assertRaises(
            exceptions.StillRead, self.array.deferred.is_snapshot_needed,
            self.snapshot, self.array.snapshots.of_group(self.source.group))
        self.assertIn('cview-9', str(error))

    def test_refused_deletion_is_repeated_by_the_next_purge(self):
        """The volume stays recorded until then."""
        self.defer()
        self.delete_clone()
        self.sim.control.add_fault(
            method='DELETE', path='volumes/*', kind='status', status=400,
            times=99)
        self.assertEqual(deferred_deletion.Purged(),
                         self.array.deferred.purge(self.source.group))
        self.assertEqual([f'cdel-{self.source.volume}'],
                         self.leftovers()['volumes'])
        self.sim.control.clear_faults()
        self.assertEqual(
            deferred_deletion.Purged(empty=True, name='cvg-1'),
            self.array.deferred.purge(self.source.group))

    def hide_thin_clone(self):
        """Defer the deletion of a volume, and of a thin clone in its group."""
        self.array.snapshots.delete(self.view.view, self.view.group)
        clone = self.array.snapshots.create_thin_clone(
            'cv-3', self.snapshot, self.source.volume).id
        both = {'cv-1': self.source.volume, 'cv-3': clone}
        for name, volume in both.items():
            self.array.names.set_volume(volume, f'cdel-{volume}', name)
        self.array.deferred.record(
            self.source.group, deferred_deletion.DeferredIds(
                frozenset(both.values()),
                frozenset({self.snapshot.snapshot})))

    def test_thin_clone_in_the_group_of_its_source(self):
        """CLN-4: the clone goes first, then the snapshot and its source."""
        self.hide_thin_clone()
        self.assertTrue(self.array.deferred.purge(self.source.group).empty)
        self.assertEqual({'volume_groups': ['cvg-1']}, self.leftovers())

    def test_images_cannot_be_searched(self):
        """It is not known which volume is the clone, so both stay."""
        self.hide_thin_clone()
        before = self.leftovers()
        with mock.patch.object(self.client.volsnaps, 'search', autospec=True,
                               side_effect=rest.NotOffered('no')):
            self.assertEqual(deferred_deletion.Purged(),
                             self.array.deferred.purge(self.source.group))
        self.assertEqual(before, self.leftovers())
