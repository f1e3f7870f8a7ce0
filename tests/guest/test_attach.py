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

"""The life of a volume, as hosts see it."""

import dataclasses
import subprocess

from tests.guest import base
from tests.guest import disk
from tests.guest import second
from tests import iscsi
from tools.guest import node

MIB = disk.MIB


class TestAttach(base.GuestTest):

    def test_two_hosts_in_turn(self):
        """Each host reads what the other one has written."""
        volume = self.backend.create_volume(1)
        first = self.attach(volume)
        self.assertEqual(disk.GIB, disk.size(first.path))
        self.assert_zeros(first.path, 0)
        self.fill(first.path, 0, 500, 1023)
        disk.write(first.path, 7 * MIB, b'\x5a' * MIB)
        first.detach()
        row, paths = self.attach_to_other(volume)
        self.assertEqual(2, len(paths))
        for path in paths:
            path.io('read -P 0x5a 7M 1M')
        paths[0].io('write -P 0xa5 8M 1M')
        self.backend.detach(row)
        again = self.attach(volume)
        self.assert_filled(again.path, 0, 500, 1023)
        self.assert_bytes(b'\xa5' * MIB, again.path, 8)

    def test_who_is_not_mapped_sees_nothing(self):
        volume = self.backend.create_volume(1)
        attached = self.attach(volume)
        lun = attached.row.connection_info['target_lun']
        self.assertEqual('', self.other.luns())
        self.assertRaises(subprocess.CalledProcessError, self.other.io, lun,
                          'length')
        self.fill(attached.path, 0)
        self.assert_filled(attached.path, 0)

    def test_two_hosts_at_once(self):
        volume = self.backend.create_volume(
            1, multiattach='<is> True')
        here = self.attach(volume)
        there, paths = self.attach_to_other(volume)
        disk.write(here.path, 3 * MIB, b'\x11' * MIB)
        paths[1].io('read -P 0x11 3M 1M', 'write -P 0x22 4M 1M')
        self.assert_bytes(b'\x22' * MIB, here.path, 4)
        self.backend.detach(there)
        self.fill(here.path, 5)
        self.assert_filled(here.path, 5)
        self.assert_bytes(b'\x22' * MIB, here.path, 4)

    def test_force_detach(self):
        """A host that no longer responds loses access to the volume."""
        volume = self.backend.create_volume(1)
        row, paths = self.attach_to_other(volume)
        session = iscsi.Session(self.other, paths[0].lun)
        self.addCleanup(session.close)
        session.io('write -P 0x33 1M 1M')
        self.backend.force_detach(volume)
        self.assertEqual('available', self.backend.volume(volume.id).status)
        self.assertRaises(subprocess.CalledProcessError, paths[0].io,
                          'read 1M 1M')
        session.send('write -P 0x44 1M 1M')
        attached = self.attach(volume)
        self.assert_bytes(b'\x33' * MIB, attached.path, 1)

    def test_discard(self):
        """Blocks that a host discards are freed on the array."""
        attached = self.attach(self.backend.create_volume(1))
        before = self.taken()
        self.fill(attached.path, *range(16))
        self.assertEqual(16 * MIB, self.taken() - before)
        disk.discard(attached.path, 0, 12 * MIB)
        self.assertEqual(4 * MIB, self.taken() - before)
        self.assert_zeros(attached.path, 0)
        self.assert_filled(attached.path, *range(12, 16))

    def taken(self):
        """Return the bytes allocated on the array, for all volumes."""
        self.array.control('POST', 'survey')
        capacity, = self.array.hits('system/capacity')
        return capacity['allocated'] * 1024


class TestExtend(base.GuestTest):

    def extend(self, multipath):
        volume = self.backend.create_volume(1)
        attached = self.attach(volume, multipath)
        self.fill(attached.path, 0, 1023)
        self.backend.extend_volume(volume, 2)
        self.assertEqual(2 * disk.GIB, attached.disk.extend())
        self.assertEqual(2 * disk.GIB, disk.size(attached.path))
        self.fill(attached.path, 1024, 2047)
        self.assert_filled(attached.path, 0, 1023, 1024, 2047)

    def test_single_path(self):
        self.extend(multipath=False)

    def test_multipath(self):
        self.extend(multipath=True)


class TestIscsi(base.GuestTest):
    """Cases that exist only on iSCSI."""

    def test_two_initiators_of_the_kernel(self):
        """Two hosts, each with its own disk of one volume."""
        volume = self.backend.create_volume(1, multiattach='<is> True')
        here = self.attach(volume)
        row, paths = self.attach_to_other(volume)
        path, = [path for path in paths if path.portal
                 != here.row.connection_info['target_portal']]
        with second.disk(path) as there:
            self.assertNotEqual(here.path, there)
            self.assertEqual(2, len(node.sessions()))
            self.fill(here.path, 0, 1023)
            self.assert_filled(there, 0, 1023)
            self.fill(there, 5)
            self.assert_filled(here.path, 5)
        self.backend.detach(row)
        self.fill(here.path, 6)
        self.assert_filled(here.path, 0, 5, 6, 1023)

    def test_fields_of_one_path(self):
        """The fields for one path work, too; os-brick prefers the lists."""
        row, paths = self.attach_to_other(self.backend.create_volume(1))
        info = row.connection_info
        one = dataclasses.replace(
            paths[0], portal=info['target_portal'],
            target=info['target_iqn'], lun=info['target_lun'])
        paths[1].io('write -P 0x77 1M 1M')
        one.io('read -P 0x77 1M 1M', 'write -P 0x78 2M 1M')
        paths[0].io('read -P 0x78 2M 1M')
