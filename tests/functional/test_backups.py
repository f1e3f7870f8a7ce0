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

"""Attaching snapshots, as a real cinder-backup does for backups."""

import os
import tempfile
from typing import Any
from unittest import mock

from cinder.backup import api as backup_api
from cinder.backup import driver as backup_driver
from cinder.backup import manager as backup_manager
from cinder.backup import rpcapi as backup_rpcapi
from cinder import objects
from oslo_config import cfg

from tests.functional import base
from tests.functional import disks

MIB = 1 << 20
_HEAD = 8 * MIB


class Head(backup_driver.BackupDriver):
    """A backup driver that stores the beginning of a volume."""

    folder = ''

    def backup(self, backup: Any, volume_file: Any,
               backup_metadata: bool = False) -> None:
        """Save the beginning of the volume."""
        with open(os.path.join(self.folder, backup.id), 'wb') as stream:
            stream.write(volume_file.read(_HEAD))

    def restore(self, backup: Any, volume_id: str, volume_file: Any,
                volume_is_new: bool) -> None:
        """Write it back."""
        with open(os.path.join(self.folder, backup.id), 'rb') as stream:
            volume_file.write(stream.read())

    def delete_backup(self, backup: Any) -> None:
        """Delete the stored data."""
        os.unlink(os.path.join(self.folder, backup.id))

    def check_for_setup_error(self) -> None:
        """Nothing to check."""


class Bus:
    """Replaces the message bus between API, cinder-backup and volume."""

    manager: Any = None

    def __init__(self, volume_manager: Any) -> None:
        self.volumes = volume_manager
        self.devices: list[Any] = []

    def create_backup(self, ctxt: Any, backup: Any) -> None:
        """Replace the scheduler, too."""
        backup.host = self.manager.host
        backup.save()
        self.manager.create_backup(ctxt, backup)

    def continue_backup(self, ctxt: Any, backup: Any, device: Any) -> None:
        self.devices.append(device)
        self.manager.continue_backup(ctxt, backup, device)

    def get_backup_device(self, ctxt: Any, backup: Any, volume: Any) -> None:
        self.volumes.get_backup_device(ctxt, backup, want_objects=True,
                                       async_call=True)

    def delete_snapshot(self, ctxt: Any, snapshot: Any, *args: Any) -> None:
        self.volumes.delete_snapshot(ctxt, snapshot)

    def initialize_connection_snapshot(self, ctxt: Any, snapshot: Any,
                                       connector: Any) -> Any:
        return self.volumes.initialize_connection_snapshot(
            ctxt, snapshot.id, connector)

    def terminate_connection_snapshot(self, ctxt: Any, snapshot: Any,
                                      connector: Any, force: bool = False
                                      ) -> None:
        self.volumes.terminate_connection_snapshot(ctxt, snapshot.id,
                                                   connector, force=force)

    def remove_export_snapshot(self, ctxt: Any, snapshot: Any,
                               sync: bool = False) -> None:
        self.volumes.remove_export_snapshot(ctxt, snapshot.id)

    def initialize_connection(self, ctxt: Any, volume: Any, connector: Any
                              ) -> Any:
        return self.volumes.initialize_connection(ctxt, volume, connector)

    def terminate_connection(self, ctxt: Any, volume: Any, connector: Any,
                             force: bool = False) -> None:
        self.volumes.terminate_connection(ctxt, volume.id, connector, force)

    def remove_export(self, ctxt: Any, volume: Any, sync: bool = False
                      ) -> None:
        self.volumes.remove_export(ctxt, volume.id)

    def secure_file_operations_enabled(self, ctxt: Any, volume: Any) -> Any:
        return self.volumes.secure_file_operations_enabled(ctxt, volume)


class BackupTest(disks.DisksTest):
    """A cinder-backup next to the back end."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='cinder-k2-backup-')
        self.addCleanup(folder.cleanup)
        self.bus = Bus(self.backend.manager)
        for patch in (
                mock.patch.object(Head, 'folder', folder.name),
                mock.patch.object(backup_rpcapi, 'BackupAPI',
                                  lambda: self.bus)):
            patch.start()
            self.addCleanup(patch.stop)
        cfg.CONF.set_override('backup_driver', f'{__name__}.Head')
        self.addCleanup(cfg.CONF.clear_override, 'backup_driver')
        self.volume = self.backend.create_volume(1)
        self.manager = backup_manager.BackupManager()
        self.manager.setup_backup_backend(self.backend.context)
        self.bus.manager = self.manager
        self.manager.volume_rpcapi = self.bus
        self.disks.write(self.volume, MIB, b'worth keeping')

    def backup(self, snapshot: Any = None) -> Any:
        """Back up the volume; return the row of the backup."""
        api = backup_api.API()
        api.scheduler_rpcapi = self.bus
        made = api.create(
            self.backend.context, 'name', 'text', self.volume.id, None,
            force=True, snapshot_id=snapshot and snapshot.id)
        return objects.Backup.get_by_id(self.backend.context, made.id)

    def saved(self, backup: Any) -> bytes:
        """Return the stored data of a backup."""
        with open(os.path.join(Head.folder, backup.id), 'rb') as stream:
            return stream.read()


@base.pairwise_variants
class EverywhereTest(BackupTest):

    feature = 'backups of volumes in use, and of snapshots'

    def test_volume_in_use(self) -> None:
        """The backup reads a snapshot; nothing is copied on the array."""
        attachment = self.backend.attach(self.volume, self.host())
        before = self.left()
        backup = self.backup()
        self.assertEqual('available', backup.status, backup.fail_reason)
        self.assertTrue(self.bus.devices[0].is_snapshot)
        self.assertEqual(b'worth keeping', self.saved(backup)[MIB:MIB + 13])
        self.assertEqual(1, self.disks.total)
        self.assertEqual(before, self.left())
        self.assertEqual([], self.backend.snapshots())
        self.backend.detach(attachment)

    def test_snapshot(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        self.disks.write(self.volume, MIB, b'changed later')
        backup = self.backup(snapshot)
        self.assertEqual('available', backup.status, backup.fail_reason)
        self.assertEqual(b'worth keeping', self.saved(backup)[MIB:MIB + 13])
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)

    def test_snapshot_of_a_view(self) -> None:
        self.volume = self.backend.clone(self.volume,
                                         kaminario__clone_strategy='view')
        attachment = self.backend.attach(self.volume, self.host())
        backup = self.backup()
        self.assertEqual(b'worth keeping', self.saved(backup)[MIB:MIB + 13])
        self.backend.detach(attachment)

    def test_two_hosts_read_one_snapshot(self) -> None:
        """The view is removed when the second host disconnects."""
        snapshot = self.backend.create_snapshot(self.volume)
        driver, hosts = self.backend.driver, [self.host(), self.host()]
        found = self.together(*[
            lambda host=host: driver.initialize_connection_snapshot(
                snapshot, host) for host in hosts])
        for host, connection in zip(hosts, found, strict=True):
            with open(self.disks.find(connection['data'], host),
                      'rb') as stream:
                stream.seek(MIB)
                self.assertEqual(b'worth keeping', stream.read(13))
        self.assertEqual(1, self.left()['views'])
        driver.terminate_connection_snapshot(snapshot, hosts[0])
        self.assertEqual(1, self.left()['views'])
        driver.terminate_connection_snapshot(snapshot, hosts[1])
        driver.terminate_connection_snapshot(snapshot, hosts[1])
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)

    def test_forced(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        driver = self.backend.driver
        for _ in range(2):
            driver.initialize_connection_snapshot(snapshot, self.host())
        driver.terminate_connection_snapshot(snapshot, None)
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)


class FaultsTest(BackupTest):

    keeps_budgets = False

    def test_failures_leave_nothing(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        before = self.left()
        for after in range(6):
            self.fault('status', 'POST,PATCH', '*', status=403, after=after)
            result = self.together(
                lambda: self.backend.driver.initialize_connection_snapshot(
                    snapshot, self.host()))[0]
            self.array.control.clear_faults()
            if not isinstance(result, Exception):
                break
            self.assertEqual(before, self.left(), str(after))
        self.assertGreater(after, 2)
        self.backend.driver.terminate_connection_snapshot(snapshot, None)

    def test_view_that_shows_late(self) -> None:
        """OBJ-6: the snapshot can be read nevertheless."""
        snapshot = self.backend.create_snapshot(self.volume)
        self.fault('late', 'POST', 'snapshots', reads=3)
        backup = self.backup(snapshot)
        self.assertEqual('available', backup.status, backup.fail_reason)
        self.assertEqual(b'worth keeping', self.saved(backup)[MIB:MIB + 13])
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)

    def test_left_behind_by_a_killed_backup(self) -> None:
        """A snapshot with such a view can still be deleted."""
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.driver.initialize_connection_snapshot(snapshot,
                                                           self.host())
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)
