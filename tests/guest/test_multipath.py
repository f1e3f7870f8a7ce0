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

"""Disks with several paths, and what happens when one is lost."""

import contextlib
import json
import pathlib
import subprocess
import sys

from tests.guest import base
from tests.guest import disk
from tests.guest import load
from tools.guest import node


class TestMultipath(base.GuestTest):

    def setUp(self):
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.attached = self.attach(self.volume, multipath=True)

    def states(self):
        """Return the states of the paths in dm-multipath, sorted."""
        return sorted(state[0] for state
                      in self.attached.disk.paths().values())

    def lost(self, number):
        """Lose one path within the context."""
        return self.transport.lost(self.array, number)

    def test_a_path_for_each_port(self):
        self.assertTrue(self.attached.path.startswith('/dev/dm-'))
        self.assertEqual(
            self.transport.paths(self.array), self.transport.used())
        node.wait_until(lambda: self.states() == ['active', 'active'],
                        'two paths')
        self.fill(self.attached.path, 0, 1023)
        self.assert_filled(self.attached.path, 0, 1023)

    def test_a_lost_path(self):
        """Writes continue, and the path is used again once it is back."""
        with load.Writer(self.attached.path).running() as writer:
            with self.lost(0):
                node.wait_until(lambda: 'failed' in self.states(),
                                'the loss of a path')
                writer.wait_for_more(20)
                self.assertEqual(['active', 'failed'], self.states())
            node.wait_until(lambda: self.states() == ['active', 'active'],
                            'the return of a path')
            writer.wait_for_more(20)
        self.assertEqual(writer.written, load.check(self.attached.path))

    def test_extended_after_a_loss(self):
        """All paths have the new size, including the one that was lost."""
        self.fill(self.attached.path, 0)
        with self.lost(1):
            node.wait_until(lambda: 'failed' in self.states(),
                            'the loss of a path')
            self.fill(self.attached.path, 1)
        node.wait_until(lambda: self.states() == ['active', 'active'],
                        'the return of a path')
        self.backend.extend_volume(self.volume, 2)
        self.assertEqual(2 * disk.GIB, self.attached.disk.extend())
        for name in self.attached.disk.paths():
            self.assertEqual(2 * disk.GIB, disk.size(f'/dev/{name}'))
        self.fill(self.attached.path, 2047)
        self.assert_filled(self.attached.path, 0, 1, 2047)


# SCSI vendor and product of arrays, oldest first (VOL-15).
PRODUCTS = ('KMNRIO K2', 'KMNRIO KDP', 'SILK KDP', 'SILK SDP')
_BLOCK = pathlib.Path('/sys/block')
_CONTROL_LUN = 255


def scheduler(name):
    """Return the I/O schedulers of a device; brackets mark the active one."""
    return (_BLOCK / name / 'queue/scheduler').read_text()


def requests(name):
    """Return the number of reads and writes that a path has served."""
    counts = (_BLOCK / name / 'stat').read_text().split()
    return int(counts[0]) + int(counts[4])


class TestProducts(base.GuestTest):
    """Host settings of the product only, with each of its SCSI names."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.array.control, 'PATCH', 'behaviors',
                        scsi_product=PRODUCTS[-1])
        self.enterContext(node.product_alone())
        self.attached = list(map(self.attach_product, PRODUCTS))

    def attach_product(self, product):
        """Attach a disk with this vendor and product."""
        self.array.control('PATCH', 'behaviors', scsi_product=product)
        return self.attach(self.backend.create_volume(1), multipath=True)

    def active(self):
        """Return the number of active paths of each disk."""
        return [sum(state[0] == 'active'
                    for state in attached.disk.paths().values())
                for attached in self.attached]

    def test_all_paths_at_work(self):
        """VOL-15: one path group; writes continue when a path is lost."""
        for attached, product in zip(self.attached, PRODUCTS):
            self.check(attached, product)
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(
                load.Writer(attached.path).running())
                for attached in self.attached]
            with self.transport.lost(self.array, 0):
                node.wait_until(lambda: self.active() == [1] * 4,
                                'the loss of a path')
                self.go_on(writers)
            node.wait_until(lambda: self.active() == [2] * 4,
                            'the return of a path')
            self.go_on(writers)
        for attached, writer in zip(self.attached, writers):
            self.assertEqual(writer.written, load.check(attached.path))

    def go_on(self, writers):
        """Wait until all of them have written more."""
        for writer in writers:
            writer.wait_for_more(5)

    def check(self, attached, product):
        """Check that the product's settings apply, and all paths carry I/O."""
        name = attached.path.removeprefix('/dev/')
        paths = attached.disk.paths()
        self.assertEqual(2, len(paths))
        for path in paths:
            device = _BLOCK / path / 'device'
            self.assertEqual(product, ' '.join(
                (device / field).read_text().strip()
                for field in ('vendor', 'model')))
        table = node.run('dmsetup', 'table', attached.path)
        self.assertIn(' multipath 0 0 1 1 queue-length 0 2 1 ', table)
        before = {path: requests(path) for path in paths}
        self.fill(attached.path, *range(8))
        self.assert_filled(attached.path, *range(8))
        for path in paths:
            self.assertGreater(requests(path), before[path] + 1)
        self.check_schedulers(name, *paths)

    def check_schedulers(self, *names):
        """Check that the udev rule replaces another scheduler."""
        for name in names:
            (_BLOCK / name / 'queue/scheduler').write_text('mq-deadline')
            self.assertIn('[mq-deadline]', scheduler(name))
        node.run('udevadm', 'trigger', '--settle', '--action=change',
                 *(f'--name-match=/dev/{name}' for name in names))
        for name in names:
            self.assertIn('[none]', scheduler(name))


class TestIdentity(base.GuestTest):
    """The WWIDs of disks."""

    def wwid(self, attached):
        """Return the WWID of a multipath device."""
        name = attached.path.removeprefix('/dev/')
        return (_BLOCK / name / 'dm/uuid').read_text().strip()

    def check_bytes(self, attached):
        """Check that data can be written and read."""
        self.fill(attached.path, 0, 1023)
        self.assert_filled(attached.path, 0, 1023)

    def serial(self, volume):
        """Return the scsi_sn of a volume."""
        found, = [row for row in self.array.hits('volumes')
                  if row['name'].endswith(volume.id)]
        return found['scsi_sn']

    def test_eui_64(self):
        """VOL-15: the form that real arrays use."""
        volume = self.backend.create_volume(1)
        attached = self.attach(volume, multipath=True)
        self.assertEqual(f'mpath-20024f400{self.serial(volume)}',
                         self.wwid(attached))
        self.check_bytes(attached)

    def test_naa(self):
        """The other form of a WWID, which the udev rule matches, too."""
        with node.naa():
            attached = self.attach(self.backend.create_volume(1),
                                   multipath=True)
            self.assertIn('mpath-360024f4', self.wwid(attached))
            self.check_bytes(attached)
            names = [attached.path.removeprefix('/dev/'),
                     *attached.disk.paths()]
            self.assertEqual(3, len(names))
            for name in names:
                self.assertIn('[none]', scheduler(name))
            attached.detach()


class TestControlLun(base.GuestTest):
    """VOL-14: the array's own LUN, which hosts do not use."""

    def setUp(self):
        super().setUp()
        self.array.control('PATCH', 'behaviors', control_lun=True)
        self.addCleanup(self.forget)

    def forget(self):
        """Remove the disks of the control LUN, which no detach removes."""
        self.array.control('PATCH', 'behaviors', control_lun=False)
        for name in self.control_disks():
            (_BLOCK / name / 'device/delete').write_text('1')
        if node.sessions():
            node.run('iscsiadm', '-m', 'node', '--logout')

    def control_disks(self):
        """Return the names of the disks of the array's own LUN."""
        return sorted(
            path.parts[3] for path in _BLOCK.glob('sd*/device')
            if path.resolve().name.endswith(f':{_CONTROL_LUN}'))

    def test_is_left_alone(self):
        """It is no part of a multipath device, and a detach leaves it."""
        first = self.attach(self.backend.create_volume(1), multipath=True)
        self.transport.scan()
        node.wait_until(lambda: len(self.control_disks()) >= 2,
                        'the disks of the control LUN')
        node.run('udevadm', 'settle')
        controls = self.control_disks()
        self.assertEqual(2, len(first.disk.paths()))
        for name in controls:
            self.assertEqual([], list((_BLOCK / name / 'holders').iterdir()))
            self.assertIn('[none]', scheduler(name))
        second = self.attach(self.backend.create_volume(1), multipath=True)
        for attached in (first, second):
            self.fill(attached.path, 0, 1023)
            self.assert_filled(attached.path, 0, 1023)
            attached.detach()
        self.assertEqual(controls, node.disks())


class TestCheckHost(base.GuestTest):
    """The report of k2-admin on this host."""

    def check(self):
        """Run check-host; return status and pairs of subject and state."""
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'cinder_k2.cmd.admin',
             'check-host', '--json'], capture_output=True, text=True,
            timeout=node.LIMIT)
        self.assertEqual('', done.stderr)
        return done.returncode, [
            (found['subject'], found['state'])
            for found in json.loads(done.stdout)['host']]

    def test_check_host(self):
        """All is well with the product's settings, and not without them."""
        self.attach(self.backend.create_volume(1), multipath=True)
        status, found = self.check()
        self.assertEqual(4, found.count(('multipath', 'ok')), found)
        self.assertIn(('udev rule', 'ok'), found)
        self.assertIn(('scheduler', 'ok'), found)
        self.assertIn(('iSCSI', 'ok'), found)
        self.assertEqual(0, status, found)
        with node.without_product():
            status, found = self.check()
        self.assertEqual((1, 4), (
            status, found.count(('multipath', 'missing'))), found)
