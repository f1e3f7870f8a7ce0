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

"""The loss of an array, with the bytes on both."""

from tests.guest import base
from tests.guest import disk

TARGET = 'array-b'
RPO = 60
REPLICATED = {'kaminario__replication': 'enabled'}


class TestFailover(base.GuestTest):

    def setUp(self):
        self.arrays = [base.array(letter) for letter in 'ab']
        self.options = {
            'driver_ssl_cert_path': base.authorities(),
            'replication_device': self.device(self.arrays[1])}
        super().setUp()
        # What Cinder has must be gone from both.
        self.used.append((self.backend, self.arrays[1]))

    def device(self, array):
        found = {'backend_id': TARGET, 'san_ip': array.address,
                 'port': array.port, 'login': 'admin',
                 'password': array.password(), 'rpo': RPO}
        return ','.join(f'{key}:{value}' for key, value in found.items())

    def let_copy(self):
        """A round of replication passes."""
        for array in self.arrays:
            array.control('POST', 'clock', advance=RPO + 1)

    def test_there_and_back(self):
        volume = self.backend.create_volume(1, **REPLICATED)
        attached = self.attach(volume)
        self.fill(attached.path, 0, 1023)
        self.let_copy()
        attached.detach()
        self.backend.beat()
        service = self.backend.fail_over(TARGET)
        self.assertEqual('failed-over', service.replication_status)
        there = self.attach(volume)
        self.assertEqual(self.arrays[1].iqn,
                         there.row.connection_info['target_iqn'])
        self.assert_filled(there.path, 0, 1023)
        self.fill(there.path, 1)
        disk.write(there.path, 0, disk.pattern('there'))
        there.detach()
        self.backend.beat()
        service = self.backend.fail_back()
        self.assertEqual('enabled', service.replication_status)
        back = self.attach(volume)
        self.assertEqual(self.arrays[0].iqn,
                         back.row.connection_info['target_iqn'])
        self.assert_filled(back.path, 1, 1023)
        self.assert_bytes(disk.pattern('there'), back.path, 0)
