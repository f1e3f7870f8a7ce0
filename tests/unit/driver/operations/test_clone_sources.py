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

"""Sources of clones: marks in their rows, and requests to the clone flow."""

import dataclasses
from unittest import mock

import ddt
from oslotest import base

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.flows import clones
from cinder_k2 import naming
from tests.unit.driver import autospec
from tests.unit.driver import rows

CLONE_ID = '99999999-eeee-4eee-8eee-999999999999'
DATA_ID = '88888888-eeee-4eee-8eee-888888888888'
NODEDUP = {'kaminario:thin_prov_type': 'nodedup'}
KIB_PER_GIB = 1024 * 1024


@ddt.ddt
class CloneSourcesTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.array = autospec.array(autospec.Journal(), 'snapshots')
        self.resolver = autospec.Double(resolver.Resolver)
        self.replication = autospec.Double(replication.Replication)
        self.replication.link_for_new.return_value = None
        self.snapshot = rows.snapshot()
        self.sources = clone_sources.CloneSources(
            self.array, self.resolver, self.replication, ('thin', 'copy'))

    def taken(self, found, source=None):
        self.resolver.resolve_snapshot.return_value = found
        self.resolver.resolve.return_value = source
        return self.sources.taken(self.snapshot)

    def test_snapshot_with_the_id_of_its_volume(self):
        found = ArraySnapshot(snapshot=3, group=5, volume=6)
        self.assertIs(found, self.taken(found))
        self.resolver.resolve_snapshot.assert_called_once_with(self.snapshot)
        self.resolver.resolve.assert_not_called()

    @ddt.data((ArrayVolume(group=5, volume=6), 6),
              (ArrayVolume(group=5, view=8, origin=7), 7),
              (ArrayVolume(group=5, volume=6, origin=7), 6))
    @ddt.unpack
    def test_volume_id_from_the_volume_of_the_snapshot(self, source, volume):
        found = ArraySnapshot(snapshot=3, group=5)
        self.assertEqual(dataclasses.replace(found, volume=volume),
                         self.taken(found, source))
        self.resolver.resolve.assert_called_once_with(self.snapshot.volume)

    @ddt.data((False, False), (True, False), (False, True))
    @ddt.unpack
    def test_snapshot_may_contain_other_volumes(self, by_itself, by_source):
        found = ArraySnapshot(snapshot=3, group=5, shared=by_itself)
        self.assertIs(
            by_itself or by_source,
            self.taken(found, ArrayVolume(group=5, volume=6, shared=by_source)
                       ).shared)

    def test_volume_was_moved_out_of_the_group_of_the_snapshot(self):
        found = ArraySnapshot(snapshot=3, group=5)
        self.assertIs(found, self.taken(
            found, ArrayVolume(group=50, volume=6, shared=True)))

    def test_mark_row(self):
        noted = self.sources.marked(self.snapshot, mock.sentinel.find)
        self.assertIs(self.resolver.rewrite.return_value, noted)
        row, find, change = self.resolver.rewrite.call_args.args
        self.assertEqual((self.snapshot, mock.sentinel.find), (row, find))
        self.assertEqual(
            ArraySnapshot(snapshot=3, group=5, named='x', has_clones=True),
            change(ArraySnapshot(snapshot=3, group=5, named='x')))

    def test_clone_request(self):
        volume = rows.volume(id=CLONE_ID, name_id=DATA_ID, size=3)
        self.assertEqual(
            clones.CloneRequest(
                name=naming.volume(DATA_ID),
                group_name=naming.volume_group(DATA_ID),
                view_name=naming.temporary_view(DATA_ID),
                size=3 * KIB_PER_GIB, dedup=True,
                source_size=2 * KIB_PER_GIB, source_dedup=True),
            self.sources.request(volume, rows.volume(), 2,
                                 ArrayVolume(group=5, volume=6)))
        self.replication.link_for_new.assert_called_once_with(volume)

    def test_dedup_of_clone_and_source(self):
        kind = rows.volume_type(NODEDUP)
        backing = ArrayVolume(group=5, volume=6)
        for volume, source, expected in [
                (kind, None, (False, True)), (None, kind, (True, False))]:
            request = self.sources.request(
                rows.volume(volume_type=volume),
                rows.volume(volume_type=source), 2, backing)
            self.assertEqual(expected, (request.dedup, request.source_dedup))

    def test_replication_of_clone_and_source(self):
        self.replication.link_for_new.return_value = mock.sentinel.link
        request = self.sources.request(rows.volume(), rows.volume(), 2,
                                       ArrayVolume(group=5, volume=6))
        self.assertEqual((True, False),
                         (request.replicated, request.source_replicated))
        self.replication.link_for_new.return_value = None
        request = self.sources.request(
            rows.volume(), rows.volume(), 2,
            ArrayVolume(group=5, volume=6, replicated=True))
        self.assertEqual((False, True),
                         (request.replicated, request.source_replicated))

    def test_strategies(self):
        self.assertEqual(('thin', 'copy'),
                         self.sources.strategies(rows.volume()))
        kind = rows.volume_type({'kaminario:clone_strategy': 'view'})
        self.assertEqual(('view',), self.sources.strategies(
            rows.volume(volume_type=kind)))


class FindTest(base.BaseTestCase):
    """Look up the parents of clones on an array."""

    def setUp(self):
        super().setUp()
        self.array = autospec.array(autospec.Journal(), 'snapshots')
        self.shown = ArraySnapshot(snapshot=3, group=5)
        self.hidden = ArraySnapshot(snapshot=4, group=6)
        self.clone = rows.volume(id=CLONE_ID, name_id=DATA_ID,
                                 snapshot_id=rows.SNAPSHOT_ID)

    def find(self, **found):
        self.array.snapshots.find_many.return_value = {
            {'shown': naming.snapshot(rows.SNAPSHOT_ID),
             'hidden': naming.clone_source(DATA_ID)}[name]: backing
            for name, backing in found.items()}
        return clone_sources.find(self.array, [self.clone])

    def test_names_of_a_clone_of_a_snapshot(self):
        self.assertEqual({}, self.find())
        self.array.snapshots.find_many.assert_called_once_with([
            naming.snapshot(rows.SNAPSHOT_ID), naming.clone_source(DATA_ID)])

    def test_names_of_a_clone_of_a_volume(self):
        self.clone.snapshot_id = None
        self.find()
        self.array.snapshots.find_many.assert_called_once_with([
            naming.clone_source(DATA_ID)])

    def test_parent_is_the_snapshot_in_cinder(self):
        self.assertEqual(
            {CLONE_ID: clone_sources.Parent(self.shown, False)},
            self.find(shown=self.shown))

    def test_hidden_snapshot_takes_precedence(self):
        self.assertEqual(
            {CLONE_ID: clone_sources.Parent(self.hidden, True)},
            self.find(shown=self.shown, hidden=self.hidden))

    def test_add_parent_to_the_ids_of_a_clone(self):
        self.assertEqual(
            ArrayVolume(group=1, volume=2, parent=4, parent_group=6,
                        hidden_parent=True),
            clone_sources.Parent(self.hidden, True).of(
                ArrayVolume(group=1, volume=2)))
        self.assertIs(False, clone_sources.Parent(self.shown, False).of(
            ArrayVolume(group=1, volume=2)).hidden_parent)
