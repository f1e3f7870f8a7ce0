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

"""Failover and failback, with the data on both arrays."""

import contextlib
import signal

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
            'replication_device': self.arrays[1].device(TARGET, RPO)}
        super().setUp()
        # The end of the test checks that both arrays are empty.
        self.used.append((self.backend, self.arrays[1]))

    def let_copy(self):
        """Let one round of replication pass."""
        for array in self.arrays:
            array.control('POST', 'clock', advance=RPO + 1)

    def protected(self):
        """Create a volume with replicated data; return it and its disk."""
        volume = self.backend.create_volume(1, **REPLICATED)
        attached = self.attach(volume)
        self.fill(attached.path, 0, 1023)
        self.let_copy()
        return volume, attached

    def failed_over(self, volume):
        """Fail over; return the volume's disk from the other array."""
        self.backend.beat()
        service = self.backend.fail_over(TARGET)
        self.assertEqual('failed-over', service.replication_status)
        there = self.attach(volume)
        self.assert_on(self.arrays[1], there)
        self.assert_filled(there.path, 0, 1023)
        return there

    def failed_back(self, volume):
        """Fail back; return the volume's disk from the first array."""
        self.backend.beat()
        service = self.backend.fail_back()
        self.assertEqual('enabled', service.replication_status)
        back = self.attach(volume)
        self.assert_on(self.arrays[0], back)
        return back

    def assert_on(self, array, attached):
        """Check that a disk is from this array, not from the other one."""
        self.assertTrue(self.transport.is_of(
            attached.row.connection_info, array))

    @contextlib.contextmanager
    def dead(self, array):
        """Kill an array; start it again at the end of the context."""
        self.transport.disconnect(array)
        array.stop(signal.SIGKILL)
        try:
            yield
        finally:
            array.start()
            self.transport.connect(array)

    def test_there_and_back(self):
        volume, attached = self.protected()
        attached.detach()
        there = self.failed_over(volume)
        self.fill(there.path, 1)
        disk.write(there.path, 0, disk.pattern('there'))
        there.detach()
        back = self.failed_back(volume)
        self.assert_filled(back.path, 1, 1023)
        self.assert_bytes(disk.pattern('there'), back.path, 0)

    def test_dead_array(self):
        """Replicated data is on the other array; later writes are lost."""
        volume, attached = self.protected()
        self.fill(attached.path, 1)
        attached.detach()
        with self.dead(self.arrays[0]):
            there = self.failed_over(volume)
            self.assert_zeros(there.path, 1)
            self.fill(there.path, 2)
            there.detach()
        back = self.failed_back(volume)
        self.assert_filled(back.path, 0, 2, 1023)
        self.assert_zeros(back.path, 1)
