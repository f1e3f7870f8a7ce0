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

from cinder_k2.array import deferred_deletion
from cinder_k2.array import deferred_report
from cinder_k2.flows import volumes
from tests.unit import simulated

GIB = simulated.GIB


class DeferredReportTest(simulated.SimulatedTest):

    profile = 'sdp'

    def setUp(self):
        super().setUp()
        self.array.snapshots.check()
        self.source = self.make('cv-1')
        self.snapshot = self.array.snapshots.create('cs-1', self.source)

    def make(self, name):
        return volumes.create(self.array, name=name, group_name=f'g-{name}',
                              size=GIB, dedup=True)

    def hide(self, source):
        """Defer the deletion of a volume or view."""
        self.array.deferred.defer_volume(source, deferred_deletion.Needs(
            self.array.volumes.group(source.group),
            self.array.snapshots.of_group(source.group)))

    def hide_snapshot(self):
        """Defer the deletion of the snapshot."""
        self.array.deferred.defer_snapshot(
            self.snapshot,
            self.array.snapshots.of_group(self.snapshot.group))

    def report(self):
        return deferred_report.read(self.client, self.array.deferred.groups())

    def test_nothing_is_deferred(self):
        self.assertEqual(deferred_report.DeferredReport((), ()), self.report())

    def test_volume(self):
        """With its own snapshots, and none of other volumes."""
        self.array.snapshots.create('cs-2', self.source)
        view = self.array.snapshots.create_view('cv-2', self.snapshot,
                                                lasting=True)
        self.array.snapshots.create('cs-3', self.make('cv-3'))
        self.array.volumes.create('cv-4', GIB, self.source.group)
        self.hide(self.source)
        self.assertEqual(deferred_report.DeferredReport((deferred_report.Item(
            'volume', self.source.volume, f'cdel-{self.source.volume}',
            'g-cv-1', GIB, ('cs-1', 'cs-2')),), (self.source.group,)),
            self.report())
        self.assertIsNotNone(view.view)

    def test_snapshot_and_view(self):
        """The view needs the snapshot; nothing needs the view."""
        view = self.array.snapshots.create_view('cv-2', self.snapshot,
                                                lasting=True)
        self.hide_snapshot()
        self.hide(view)
        found = self.report()
        self.assertEqual((self.source.group,), found.groups)
        self.assertCountEqual([
            ('snapshot', self.snapshot.snapshot, 'cs-1', 'g-cv-1', GIB,
             ('cv-2',)),
            ('view', view.view, 'cv-2', 'g-cv-1', GIB, ())],
            [(item.kind, item.id, item.name, item.group, item.size,
              item.needed_by) for item in found.items])

    def test_short_names_are_not_shown(self):
        view = self.array.snapshots.create_view('cv-2', self.snapshot,
                                                lasting=True)
        self.hide_snapshot()
        groups = self.array.deferred.groups()
        nameless = [dataclasses.replace(each, short_name=None)
                    for each in self.client.snapshots.search()]
        with mock.patch.object(self.client.snapshots, 'search',
                               autospec=True, return_value=nameless):
            item, = deferred_report.read(self.client, groups).items
        self.assertEqual(
            (self.snapshot.snapshot, '', (f'/snapshots/{view.view}',)),
            (item.id, item.name, item.needed_by))

    def test_thin_clones_are_counted(self):
        """CLN-4: the array does not name them."""
        self.hide_snapshot()
        for name, text in (('cv-2', '1 thin clone'), ('cv-3',
                                                      '2 thin clones')):
            self.array.snapshots.create_thin_clone(
                name, self.snapshot, self.source.volume)
            item, = self.report().items
            self.assertEqual((text,), item.needed_by)
