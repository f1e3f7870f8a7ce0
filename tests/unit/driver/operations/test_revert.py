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

"""Reverting to snapshots: restored by the array, or copied by this host."""

import contextlib
from unittest import mock

from cinder import exception
import ddt
from oslotest import base

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import revert
from cinder_k2.driver.operations import snapshot_connections
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import rows

KIB_PER_GIB = 1024 * 1024
BACKING = ArrayVolume(group=5, volume=6)
FOUND = ArrayVolume(group=5, volume=6, has_clones=True)
TAKEN = ArraySnapshot(snapshot=3, group=5)
SEEN = ArraySnapshot(snapshot=3, group=5, volume=6)
BEFORE = rest.VolumeGroup(id=5, name='cvg-1')
VIEW = ArrayVolume(group=5, view=12)
CONTEXT = mock.sentinel.context
FRESH = '+deadline fresh=True'


def held(*events):
    return ['check_free', 'resolve', '+group sys-1 5', FRESH, *events,
            '-deadline', '-group']


class RevertCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.journal.record_locks(self)
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'volumes')
        self.resolver = autospec.Double(resolver.Resolver)
        self.sources = autospec.Double(clone_sources.CloneSources)
        self.snapshots = autospec.Double(
            snapshot_connections.SnapshotConnections)
        self.copies = autospec.Double(host_copy.HostCopy)
        self.deletion = autospec.Double(deletion.Deletion)
        self.driver = mock.Mock(spec_set=['_create_temp_snapshot'])
        self.remove = autospec.patched(self, writes, 'remove_snapshot')
        self.volume = rows.volume(size=2)
        self.snapshot = rows.snapshot(self.volume)
        self.safeguard = rows.snapshot(self.volume, id='safeguard')
        self.resolver.held.side_effect = (
            lambda volume, timeout=None: contextlib.nullcontext())
        self._record()
        self.revert = revert.Revert(
            self.array, self.resolver, self.sources,
            self.snapshots, self.copies, self.deletion, self.driver)

    def _record(self):
        for double, name in [
                (self.resolver.check_free, 'check_free'),
                (self.resolver.resolve, 'resolve'),
                (self.resolver.find, 'find'),
                (self.resolver.confirm_snapshot, 'confirm'),
                (self.array.volumes.group, 'group?'),
                (self.array.volumes.restore, 'restore'),
                (self.array.volumes.grow, 'grow'),
                (self.driver._create_temp_snapshot, 'safeguard'),
                (self.snapshots.temporary_view, 'view'),
                (self.volume.refresh, 'refresh'),
                (self.copies.overwrite, 'overwrite'),
                (self.snapshots.drop_quietly, 'drop'),
                (self.deletion.delete_snapshot, 'delete'),
                (self.remove, 'remove')]:
            self.journal.record(double, name)
        self.resolver.resolve.return_value = BACKING
        self.resolver.find.return_value = FOUND
        self.resolver.confirm_snapshot.return_value = SEEN
        self.sources.taken.return_value = TAKEN
        self.array.volumes.group.return_value = BEFORE
        self.driver._create_temp_snapshot.return_value = self.safeguard
        self.snapshots.temporary_view.return_value = VIEW

    def start(self):
        return self.revert.revert_to_snapshot(CONTEXT, self.volume,
                                              self.snapshot)


#: The events of copying a snapshot back.
COPIED = ['safeguard', f'+snapshot {rows.SNAPSHOT_ID}', FRESH, 'view',
          '-deadline', 'refresh', 'check_free', 'find', 'overwrite', 'drop',
          '-snapshot', FRESH, 'delete', '-deadline', 'remove']


@ddt.ddt
class RestoreTest(RevertCase):

    def assert_copied_back(self):
        self.start()
        self.assertEqual(COPIED, self.events[-len(COPIED):])
        self.assertNotIn('grow', self.events)

    def test_volume_is_held_during_the_revert(self):
        """It cannot be flattened; its row is read while it is held."""
        self.resolver.held.side_effect = self.journal.context('held')
        self.start()
        self.assertEqual(['+held', 'check_free'],
                         [self.events[0].split()[0], self.events[1]])
        self.assertEqual('-held', self.events[-1])
        self.resolver.held.assert_called_once_with(self.volume)

    def test_restore(self):
        self.assertIsNone(self.start())
        self.assertEqual(held('confirm', 'group?', 'restore'), self.events)
        self.resolver.check_free.assert_called_once_with(self.volume)
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.sources.taken.assert_called_once_with(self.snapshot)
        self.resolver.confirm_snapshot.assert_called_once_with(
            self.snapshot, TAKEN)
        self.array.volumes.group.assert_called_once_with(5)
        self.array.volumes.restore.assert_called_once_with(SEEN, BEFORE)
        self.assertEqual(1, self.array.concurrently.call_count)

    def test_extended_volume_keeps_its_size(self):
        self.volume.size = 3
        self.resolver.confirm.return_value = ArrayVolume(group=5, volume=66)
        self.resolver.names_of.return_value = mock.sentinel.names
        self.start()
        self.assertEqual(held('confirm', 'group?', 'restore', 'grow'),
                         self.events)
        self.array.volumes.grow.assert_called_once_with(
            66, 3 * KIB_PER_GIB, mock.sentinel.names)
        self.resolver.confirm.assert_called_once_with(self.volume, BACKING)
        self.resolver.names_of.assert_called_once_with(self.volume, BACKING)

    def test_volume_being_failed_back(self):
        self.resolver.check_free.side_effect = exceptions.ObjectInUse(
            'Volume', 'is being failed back')
        self.assertRaises(exceptions.ObjectInUse, self.start)
        self.array.volumes.restore.assert_not_called()
        self.driver._create_temp_snapshot.assert_not_called()

    @ddt.data(ArrayVolume(group=5, view=8), ArrayVolume(group=50, volume=6),
              ArrayVolume(group=5, volume=6, shared=True))
    def test_volume_that_the_array_cannot_restore(self, backing):
        self.resolver.resolve.return_value = backing
        self.assert_copied_back()
        self.array.volumes.restore.assert_not_called()

    def test_snapshot_of_a_view(self):
        self.sources.taken.return_value = ArraySnapshot(
            snapshot=3, group=5, view=8)
        self.assert_copied_back()
        self.array.volumes.restore.assert_not_called()

    def test_snapshot_in_another_group(self):
        self.resolver.confirm_snapshot.return_value = ArraySnapshot(
            snapshot=3, group=50)
        self.assert_copied_back()
        self.array.volumes.restore.assert_not_called()
        self.assertIn('-group', self.events[:-len(COPIED)])

    def test_array_refuses_to_restore(self):
        self.volume.size = 3
        self.journal.record(self.array.volumes.restore, 'restore',
                            rest.Refused('no'))
        self.assert_copied_back()

    def test_array_refuses_the_size(self):
        self.volume.size = 3
        self.array.volumes.grow.side_effect = rest.Refused('no')
        self.assert_copied_back()

    @ddt.data(rest.Unreachable('lost'), exceptions.RestoreUnsettled('?'))
    def test_outcome_of_the_restore_is_unknown(self, error):
        """The data may be correct, so nothing is copied over it."""
        self.array.volumes.restore.side_effect = error
        self.assertRaises(type(error), self.start)
        self.driver._create_temp_snapshot.assert_not_called()


@ddt.ddt
class CopyBackTest(RevertCase):

    def setUp(self):
        super().setUp()
        self.resolver.resolve.return_value = ArrayVolume(group=5, view=8)
        self.resolver.names_of.return_value = ['found']
        self.volume.size = 3

    def test_copy_back(self):
        self.start()
        self.assertEqual(['check_free', 'resolve', *COPIED], self.events)
        self.driver._create_temp_snapshot.assert_called_once_with(
            CONTEXT, self.volume)
        self.snapshots.temporary_view.assert_called_once_with(self.snapshot)
        self.copies.overwrite.assert_called_once_with(
            NamedVolume(VIEW, [naming.temporary_view(self.snapshot.id)]),
            NamedVolume(FOUND, ['found']), 2 * KIB_PER_GIB, 3 * KIB_PER_GIB)
        self.resolver.names_of.assert_called_once_with(self.volume, FOUND)
        self.snapshots.drop_quietly.assert_called_once_with(
            VIEW, self.snapshot)
        self.resolver.find.assert_called_once_with(self.volume)
        self.assertEqual([mock.call(self.volume)] * 2,
                         self.resolver.check_free.mock_calls)
        self.deletion.delete_snapshot.assert_called_once_with(self.safeguard)
        self.remove.assert_called_once_with(self.safeguard)

    def test_safeguard_cannot_be_created(self):
        self.driver._create_temp_snapshot.side_effect = exception.QuotaError
        self.assertRaises(exception.QuotaError, self.start)
        self.copies.overwrite.assert_not_called()

    def fails(self, error):
        """Assert that the safeguard is kept, and the log names it."""
        with self.assertLogs(revert.LOG.logger, 'ERROR') as logs:
            self.assertIs(error, self.assertRaises(type(error), self.start))
        for row in (self.volume, self.snapshot, self.safeguard):
            self.assertIn(row.id, logs.output[0])
        self.deletion.delete_snapshot.assert_not_called()
        self.remove.assert_not_called()

    def test_copy_fails(self):
        error = exceptions.CopyTimeout('late')
        self.journal.record(self.copies.overwrite, 'overwrite', error)
        self.fails(error)
        self.assertEqual(COPIED[:11], self.events[2:])

    def fails_with(self, double, error):
        double.side_effect = error
        self.fails(error)
        self.copies.overwrite.assert_not_called()

    def test_view_cannot_be_created(self):
        self.fails_with(self.snapshots.temporary_view, rest.Refused('no'))
        self.snapshots.drop_quietly.assert_not_called()

    def test_volume_is_gone(self):
        self.fails_with(self.resolver.find, exceptions.ObjectMissing('gone'))
        self.snapshots.drop_quietly.assert_called_once_with(
            VIEW, self.snapshot)

    def test_failback_started(self):
        self.resolver.check_free.side_effect = [
            None, exceptions.ObjectInUse('Volume', 'is being failed back')]
        self.assertRaises(exceptions.ObjectInUse, self.start)
        self.copies.overwrite.assert_not_called()

    @ddt.data(exception.SnapshotIsBusy(snapshot_name='s'),
              rest.Unreachable('lost'), exceptions.LockTimeout('late'))
    def test_safeguard_cannot_be_deleted(self, error):
        """The revert succeeds nevertheless."""
        self.deletion.delete_snapshot.side_effect = error
        with self.assertLogs(revert.LOG.logger, 'WARNING') as logs:
            self.start()
        self.assertIn(self.safeguard.id, logs.output[0])
        self.remove.assert_not_called()
        self.assertEqual('-deadline', self.events[-1])
