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

"""Attaching snapshots: a view exists while hosts read it."""

import ddt
from oslotest import base

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import snapshot_connections
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import rows

TAKEN = ArraySnapshot(snapshot=8, group=5)
CONFIRMED = ArraySnapshot(snapshot=9, group=5)
VIEW = ArrayVolume(group=5, view=12)
CONNECTOR = {'initiator': 'iqn.a'}
NAME = naming.temporary_view(rows.SNAPSHOT_ID)
DONE = detach.Disconnected(idle={'iqn.a'})


def held(*events):
    return [f'+snapshot {rows.SNAPSHOT_ID}', '+deadline fresh=True', *events,
            '-deadline', '-snapshot']


@ddt.ddt
class SnapshotConnectionsTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.journal.record_locks(self)
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'snapshots')
        self.resolver = autospec.Double(resolver.Resolver)
        self.resolver.confirm_snapshot.return_value = CONFIRMED
        self.sources = autospec.Double(clone_sources.CloneSources)
        self.sources.taken.return_value = TAKEN
        self.attaching = autospec.Double(attach.Attach)
        self.detaching = autospec.Double(detach.Detach)
        for double, name in [
                (self.array.snapshots.view_of, 'view_of'),
                (self.array.snapshots.create_view, 'create_view'),
                (self.array.snapshots.find_view, 'find_view'),
                (self.array.snapshots.delete, 'delete'),
                (self.attaching.connect_backing, 'connect'),
                (self.detaching.disconnect_backing, 'disconnect'),
                (self.detaching.disconnect_all, 'disconnect_all'),
                (self.detaching.report, 'report')]:
            self.journal.record(double, name)
        self.array.snapshots.view_of.return_value = None
        self.array.snapshots.create_view.return_value = VIEW
        self.array.snapshots.find_view.return_value = (12, 5)
        self.attaching.connect_backing.return_value = {'data': 1}
        self.detaching.disconnect_backing.return_value = DONE
        self.detaching.disconnect_all.return_value = DONE
        self.detaching.report.return_value = {'zones': 1}
        self.snapshot = rows.snapshot()
        self.connections = snapshot_connections.SnapshotConnections(
            self.array, self.resolver, self.sources, self.attaching,
            self.detaching)

    def attach(self):
        return self.connections.initialize_connection_snapshot(
            self.snapshot, CONNECTOR)

    def detach(self, connector=CONNECTOR):
        return self.connections.terminate_connection_snapshot(
            self.snapshot, connector)

    def test_first_host(self):
        self.assertEqual({'data': 1}, self.attach())
        self.assertEqual(held('view_of', 'create_view', 'connect'),
                         self.events)
        self.sources.taken.assert_called_once_with(self.snapshot)
        self.resolver.confirm_snapshot.assert_called_once_with(
            self.snapshot, TAKEN)
        self.array.snapshots.view_of.assert_called_once_with(CONFIRMED, NAME)
        self.array.snapshots.create_view.assert_called_once_with(
            NAME, CONFIRMED, lasting=False)
        self.attaching.connect_backing.assert_called_once_with(
            NamedVolume(VIEW, [NAME]), CONNECTOR)

    def test_another_host(self):
        there = ArrayVolume(group=5, view=13)
        self.array.snapshots.view_of.return_value = there
        self.attach()
        self.array.snapshots.create_view.assert_not_called()
        self.attaching.connect_backing.assert_called_once_with(
            NamedVolume(there, [NAME]), CONNECTOR)

    def test_view_is_deleted_when_the_attach_fails(self):
        self.journal.record(self.attaching.connect_backing, 'connect',
                            rest.Unreachable('lost'))
        self.assertRaises(rest.Unreachable, self.attach)
        self.assertEqual(held('view_of', 'create_view', 'connect',
                              '+cleanup_deadline',
                              'delete', '-cleanup_deadline'), self.events)
        self.array.snapshots.delete.assert_called_once_with(12, 5, [NAME])

    def test_view_in_use_by_another_host_is_not_deleted(self):
        """The array refuses to delete a mapped view."""
        self.attaching.connect_backing.side_effect = rest.Unreachable('lost')
        self.array.snapshots.delete.side_effect = exceptions.StillMapped(
            'view', 'is mapped')
        with self.assertNoLogs(snapshot_connections.LOG.logger, 'WARNING'):
            self.assertRaises(rest.Unreachable, self.attach)

    @ddt.data(rest.Unreachable('array'), exceptions.ObjectInUse('view', 'x'))
    def test_original_error_is_raised_when_the_view_cannot_be_deleted(
            self, error):
        self.attaching.connect_backing.side_effect = rest.NotFound('host')
        self.array.snapshots.delete.side_effect = error
        with self.assertLogs(snapshot_connections.LOG.logger,
                             'WARNING') as logs:
            self.assertRaises(rest.NotFound, self.attach)
        self.assertIn('View 12 may be left', logs.output[0])

    def test_missing_snapshot(self):
        self.resolver.confirm_snapshot.side_effect = (
            exceptions.ObjectMissing('gone'))
        self.assertRaises(exceptions.ObjectMissing, self.attach)
        self.array.snapshots.create_view.assert_not_called()

    def test_detach(self):
        self.assertEqual({'zones': 1}, self.detach())
        self.assertEqual(held('find_view', 'disconnect', 'delete', 'report'),
                         self.events)
        self.array.snapshots.find_view.assert_called_once_with(NAME)
        self.detaching.disconnect_backing.assert_called_once_with(
            VIEW, CONNECTOR)
        self.array.snapshots.delete.assert_called_once_with(12, 5, [NAME])
        self.detaching.report.assert_called_once_with(DONE)

    @ddt.data(None, {})
    def test_detach_from_all_hosts(self, connector):
        self.assertEqual({'zones': 1}, self.detach(connector))
        self.assertEqual(
            held('find_view', 'disconnect_all', 'delete', 'report'),
            self.events)
        self.detaching.disconnect_all.assert_called_once_with(VIEW)

    def test_detach_without_a_view(self):
        self.array.snapshots.find_view.return_value = None
        self.assertIs(False, self.detach())
        self.assertEqual(held('find_view'), self.events)

    def test_detach_while_another_host_reads_the_view(self):
        self.array.snapshots.delete.side_effect = exceptions.StillMapped(
            'view', 'is mapped')
        self.assertEqual({'zones': 1}, self.detach())

    def test_detach_fails_if_the_view_cannot_be_deleted(self):
        self.array.snapshots.delete.side_effect = rest.Unreachable('lost')
        self.assertRaises(rest.Unreachable, self.detach)
