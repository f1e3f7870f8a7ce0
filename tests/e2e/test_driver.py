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

"""What the driver returns, given to a real initiator."""

import dataclasses
import subprocess

from tests.e2e import iscsi
from tests.functional import backend
from tests.functional import cinder_env

IQN = 'iqn.1994-05.com.example:e2e'


class DriverTests:
    """The driver under Cinder's manager, and k2-sim with a data plane."""

    def setUp(self):
        super().setUp()
        self.simulator.start()
        self.addCleanup(self.simulator.kill)
        cinder_env.cinder().forget_everything()
        self.addCleanup(cinder_env.cinder().forget_everything)

    def start(self, **options):
        address, port = self.simulator.url.split('/')[2].split(':')
        self.backend = backend.Backend(
            address, int(port), 'iscsi', san_login='admin',
            san_password=self.simulator.password(),
            driver_ssl_cert_verify=True,
            driver_ssl_cert_path=str(self.simulator.authority), **options)
        self.assertTrue(self.backend.start())

    def attach(self, volume):
        """The attachment, and the LUN on each portal as the driver says."""
        attachment = self.backend.attach(volume, {
            'host': 'compute-1', 'ip': '127.0.0.1', 'initiator': IQN,
            'multipath': True, 'os_type': 'linux', 'platform': 'x86_64',
            'do_local_attach': False})
        info = attachment.connection_info
        paths = list(zip(info['target_portals'], info['target_iqns'],
                         info['target_luns'], strict=True))
        account = info.get('auth_username') and (
            info['auth_username'], info['auth_password'])
        return attachment, [
            iscsi.Path(portal, target, lun, IQN, account)
            for portal, target, lun in paths]

    def test_life_of_a_volume(self):
        """Each step through all paths that the driver has named."""
        self.start()
        self._live()

    def test_life_of_a_volume_with_chap(self):
        self.start(use_chap_auth=True)
        paths = self._live()
        self.assertTrue(all(path.account for path in paths))

    def _live(self):
        """Gives the paths of the last volume."""
        volume = self.backend.create_volume(1)
        attachment, paths = self.attach(volume)
        self.assertEqual(2, len(paths))
        for number, path in enumerate(paths, 1):
            path.io(f'write -P {number} {number}M 1M')
        for path in paths:
            path.io('read -P 1 1M 1M', 'read -P 2 2M 1M')
        snapshot = self.backend.create_snapshot(volume)
        paths[0].io('write -P 3 1M 1M')
        copy, copied = self.attach(
            self.backend.volume_from_snapshot(snapshot))
        copied[0].io('read -P 1 1M 1M', 'read -P 2 2M 1M',
                     'write -P 4 1M 1M')
        self.backend.extend_volume(self.backend.volume(volume.id), 2)
        paths[1].io('read -P 3 1M 1M', 'write -P 5 2047M 1M')
        self.backend.detach(attachment)
        gone = dataclasses.replace(copied[0], lun=paths[0].lun)
        self.assertRaises(subprocess.CalledProcessError, gone.io, 'length')
        copied[1].io('read -P 4 1M 1M')
        self.backend.detach(copy)
        error = self.assertRaises(
            subprocess.CalledProcessError, copied[1].io, 'length')
        self.assertIn(self.plane.refusal, error.stderr)
        return copied


class TestTgtDriver(DriverTests, iscsi.SimulatorTest):
    plane = iscsi.TGT


class TestLioDriver(DriverTests, iscsi.SimulatorTest):
    plane = iscsi.LIO
