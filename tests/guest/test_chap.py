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

"""Hosts that must log in with CHAP."""

import subprocess

from tests.guest import base
from tests.guest import disk
from tests import iscsi
from tools.guest import node


class TestChap(base.GuestTest):

    options = {'use_chap_auth': True}

    def test_right_password(self):
        """The kernel logs in with the driver's connection properties."""
        volume = self.backend.create_volume(1)
        attached = self.attach(volume)
        self.assertEqual('CHAP', attached.row.connection_info['auth_method'])
        shown = node.run('iscsiadm', '-m', 'session', '-P', '2')
        self.assertIn(attached.row.connection_info['auth_username'], shown)
        self.fill(attached.path, 0)
        attached.detach()
        again = self.attach(volume, multipath=True)
        self.assert_filled(again.path, 0)

    def test_wrong_password(self):
        volume = self.backend.create_volume(1)
        row, paths = self.attach_to_other(volume)
        path = paths[0]
        path.io('write -P 0x66 0 1M')
        for wrong in iscsi.strangers(path):
            error = self.assertRaises(subprocess.CalledProcessError,
                                      wrong.io, 'length')
            self.assertIn('uthentication', error.stderr)
        self.backend.detach(row)
        attached = self.attach(volume)
        self.assert_bytes(b'\x66' * disk.MIB, attached.path, 0)
