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

"""Data that Cinder's own host copies: images, and backups."""

import io
import tempfile
from unittest import mock

from cinder.backup import api as backup_api
from cinder.backup import manager as backup_manager
from cinder.backup import rpcapi as backup_rpcapi
from cinder import objects
from oslo_config import cfg

from tests.functional import cinder_env
from tests.functional import images
from tests.functional import test_backups
from tests.guest import base
from tests.guest import disk


class TestImages(base.GuestTest):

    def setUp(self):
        super().setUp()
        self.glance = images.glance()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, value in (
                ('glance_api_servers', [self.glance.url]),
                ('auth_strategy', 'noauth'),
                ('image_conversion_dir', folder.name),
                ('cinder_internal_tenant_project_id', cinder_env.PROJECT),
                ('cinder_internal_tenant_user_id', 'c' * 32)):
            cfg.CONF.set_override(name, value)
            self.addCleanup(cfg.CONF.clear_override, name)

    def image(self, data):
        """Create a raw image of these bytes."""
        made = self.glance.images.create(
            name='image', disk_format='raw', container_format='bare')
        self.addCleanup(self.glance.images.delete, made.id)
        self.glance.images.upload(made.id, io.BytesIO(data))
        return self.glance.images.get(made.id)

    def test_to_a_volume_and_back(self):
        data = disk.pattern('image', 8 * disk.MIB)
        volume = self.backend.volume_from_image(self.image(data))
        attached = self.attach(volume)
        self.assert_bytes(data, attached.path, 0)
        self.assert_zeros(attached.path, 8)
        self.fill(attached.path, 9, 1023)
        attached.detach()
        image_id = self.backend.upload(volume, 'qcow2')
        self.addCleanup(self.glance.images.delete, image_id)
        again = self.attach(self.backend.volume_from_image(
            self.glance.images.get(image_id)))
        self.assert_bytes(data, again.path, 0)
        self.assert_filled(again.path, 9, 1023)


class Bus(test_backups.Bus):
    """A bus that runs ``meanwhile`` before an attached device is read."""

    def meanwhile(self):
        raise NotImplementedError

    def continue_backup(self, ctxt, backup, device):
        self.meanwhile()
        super().continue_backup(ctxt, backup, device)


class TestBackup(base.GuestTest):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bus = Bus(self.backend.manager)
        for patch in (
                mock.patch.object(test_backups.Head, 'folder', folder.name),
                mock.patch.object(backup_rpcapi, 'BackupAPI',
                                  lambda: self.bus)):
            patch.start()
            self.addCleanup(patch.stop)
        cfg.CONF.set_override('backup_driver',
                              f'{test_backups.__name__}.Head')
        self.addCleanup(cfg.CONF.clear_override, 'backup_driver')
        self.manager = backup_manager.BackupManager()
        self.manager.setup_backup_backend(self.backend.context)
        self.bus.manager = self.manager
        self.manager.volume_rpcapi = self.bus

    def test_attached_volume(self):
        """The backup reads an attached snapshot; a new volume is restored."""
        volume = self.backend.create_volume(1)
        attached = self.attach(volume)
        self.fill(attached.path, 0, 7)
        self.bus.meanwhile = lambda: self.fill(attached.path, 1)
        context = self.backend.context
        api = backup_api.API()
        api.scheduler_rpcapi = self.bus
        made = api.create(context, 'name', 'text', volume.id, None,
                          force=True)
        backup = objects.Backup.get_by_id(context, made.id)
        self.assertEqual('available', backup.status, backup.fail_reason)
        self.assertTrue(self.bus.devices[0].is_snapshot)
        self.assert_filled(attached.path, 0, 1, 7)
        restored = self.backend.create_volume(1)
        restored.update({'status': 'restoring-backup'})
        restored.save()
        backup.update({'status': 'restoring'})
        backup.save()
        self.manager.restore_backup(context, backup, restored.id, False)
        copy = self.attach(self.backend.volume(restored.id))
        self.assert_filled(copy.path, 0, 7)
        self.assert_zeros(copy.path, 1)
