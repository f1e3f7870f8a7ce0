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


"""Block devices on files, on a fake kernel.

The real one is tested in tests/e2e.
"""

import pathlib

import fixtures
import testtools

from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import block_devices
from tests import base
from tests.data_planes import fake_blocks

MIB = 2 ** 20
_MODULE = 'k2_sim.data_planes.block_devices'
_LOOPS = 'k2_sim.blocks.loop_devices'


class DisksTest(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        self.kernel = fake_blocks.Kernel()
        for name in (f'{_MODULE}.os', f'{_MODULE}.fcntl', f'{_MODULE}.time',
                     f'{_LOOPS}.os', f'{_LOOPS}.fcntl'):
            self.useFixture(fixtures.MonkeyPatch(name, self.kernel))
        self.disks = block_devices.Disks('x-')

    def file(self, name='file', size=MIB):
        path = self.directory / name
        with open(path, 'ab') as stream:
            stream.truncate(size)
        return path

    def put(self, name='x-1', file='file', size=MIB):
        self.disks.put(name, self.file(file, size), size)

    def assert_disk(self, name, file, size):
        self.assertEqual((str(self.directory / file), size),
                         self.kernel.disk(name))

    def assert_nothing(self):
        self.assertEqual(({}, {}), (self.kernel.devices, self.kernel.loops))


class TestPut(DisksTest):

    def test_new(self):
        self.put()
        self.put('x-2', 'other', 2 * MIB)
        self.assert_disk('x-1', 'file', MIB)
        self.assert_disk('x-2', 'other', 2 * MIB)
        self.assertEqual({'x-1', 'x-2'}, self.disks.names())
        self.assertEqual(pathlib.Path('/dev/dm-1'),
                         self.disks.device('x-2'))

    def test_first_bytes(self):
        self.disks.put('x-1', self.file(size=2 * MIB), MIB)
        self.assert_disk('x-1', 'file', MIB)

    def test_as_it_is(self):
        """An unchanged disk is not touched."""
        self.put()
        before = self.kernel.calls
        self.put()
        self.assertEqual(before, self.kernel.calls)

    def test_growth(self):
        """The device stays, with a new loop device below."""
        self.put()
        device = self.disks.device('x-1')
        self.put(size=2 * MIB)
        self.assert_disk('x-1', 'file', 2 * MIB)
        self.assertEqual(device, self.disks.device('x-1'))
        self.assertEqual(1, len(self.kernel.loops))

    def test_another_file(self):
        self.put()
        self.put(file='other')
        self.assert_disk('x-1', 'other', MIB)
        self.assertEqual(1, len(self.kernel.loops))

    def test_file_that_is_not_there(self):
        error = self.assertRaises(
            data_planes.DataPlaneError, self.disks.put, 'x-1',
            self.directory / 'none', MIB)
        self.assertEqual(
            'cannot make block device x-1: No such file or directory',
            str(error))
        self.assert_nothing()

    def test_file_that_is_too_short(self):
        self.assertRaises(data_planes.DataPlaneError, self.disks.put, 'x-1',
                          self.file(size=1024), MIB)
        self.assert_nothing()

    def test_failure_of_one_that_is_there(self):
        """It stays unchanged, and gets the new table later."""
        self.put()
        self.assertRaises(data_planes.DataPlaneError, self.disks.put, 'x-1',
                          self.directory / 'none', MIB)
        self.assert_disk('x-1', 'file', MIB)
        self.put(file='none')
        self.assert_disk('x-1', 'none', MIB)

    def test_loop_devices_that_others_take(self):
        self.kernel.contested = 3
        self.put()
        self.assert_disk('x-1', 'file', MIB)
        self.assertEqual(4, len(self.kernel.loops))

    def test_no_loop_device(self):
        self.kernel.contested = 1000
        error = self.assertRaises(data_planes.DataPlaneError, self.put)
        self.assertIn('there is no free loop device', str(error))
        self.assertEqual({}, self.kernel.devices)


class TestNames(DisksTest):

    def test_those_of_others(self):
        block_devices.Disks('y-').put('y-1', self.file(), MIB)
        self.put()
        self.assertEqual({'x-1'}, self.disks.names())
        self.assertRaises(KeyError, self.disks.device, 'y-1')

    def test_those_of_a_process_that_was_killed(self):
        self.put()
        later = block_devices.Disks('x-')
        self.assertEqual({'x-1'}, later.names())
        later.remove('x-1')
        self.assert_nothing()

    def test_none(self):
        self.assertEqual(set(), self.disks.names())

    def test_more_than_one_answer_has_room_for(self):
        many = {f'x-{number:0>100}' for number in range(600)}
        for number, name in enumerate(many):
            self.kernel.devices[name] = fake_blocks.Device(number)
        self.assertEqual(many, self.disks.names())

    def test_kernel_that_does_not_answer(self):
        self.kernel.failing.add((2, ''))
        error = self.assertRaises(data_planes.DataPlaneError, self.disks.names)
        self.assertEqual('cannot list block devices: Input/output error',
                         str(error))


class TestRemove(DisksTest):

    def test_with_its_loop_device(self):
        self.put()
        self.disks.remove('x-1')
        self.assert_nothing()
        self.put()
        self.assert_disk('x-1', 'file', MIB)

    def test_one_that_is_gone(self):
        self.disks.remove('x-1')
        self.assertEqual(0, self.kernel.now)

    def test_somebody_looks_at_it(self):
        self.put()
        device = self.kernel.devices['x-1']
        device.users = 3
        self.kernel.on_sleep = lambda: setattr(
            device, 'users', device.users - 1)
        self.disks.remove('x-1')
        self.assert_nothing()

    def test_in_use(self):
        """It is still known, and may be removed later."""
        self.put()
        self.kernel.devices['x-1'].users = 1
        error = self.assertRaises(
            data_planes.DataPlaneError, self.disks.remove, 'x-1')
        self.assertEqual('block device x-1 is in use', str(error))
        self.assertLess(self.kernel.now, 30)
        self.assert_disk('x-1', 'file', MIB)

    def test_failure(self):
        self.put()
        self.kernel.failing.add((4, 'x-1'))
        error = self.assertRaises(
            data_planes.DataPlaneError, self.disks.remove, 'x-1')
        self.assertEqual(
            'cannot remove block device x-1: Input/output error', str(error))


class TestHeld(DisksTest):

    def setUp(self):
        super().setUp()
        self.put()
        self.put('x-2', 'other')

    def suspended(self):
        return {name for name, device in self.kernel.devices.items()
                if device.is_suspended}

    def test_writes_wait(self):
        block_devices.Disks('y-').put('y-1', self.file(), MIB)
        with self.disks.held():
            self.assertEqual({'x-1', 'x-2'}, self.suspended())
        self.assertEqual(set(), self.suspended())
        self.assert_disk('x-1', 'file', MIB)

    def test_failure_inside(self):
        with testtools.ExpectedException(ZeroDivisionError):
            with self.disks.held():
                raise ZeroDivisionError
        self.assertEqual(set(), self.suspended())

    def test_failure_halfway(self):
        self.kernel.failing.add((6, 'x-2'))
        error = self.assertRaises(data_planes.DataPlaneError, self.hold)
        self.assertEqual('cannot suspend block devices: Input/output error',
                         str(error))
        self.assertEqual(set(), self.suspended())

    def hold(self):
        with self.disks.held():
            self.fail('they are not held')

    def test_what_a_killed_process_held(self):
        self.kernel.devices['x-1'].is_suspended = True
        block_devices.Disks('x-').release()
        self.assertEqual(set(), self.suspended())


class TestCounts(DisksTest):

    def setUp(self):
        super().setUp()
        self.shown = {}
        self.useFixture(fixtures.MonkeyPatch(
            'pathlib.Path.read_text', lambda path: self.text(str(path))))
        self.put()
        self.put('x-2', 'other')

    def text(self, path):
        """A file of the kernel; those of removed disks are missing."""
        try:
            return self.shown[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def test_reads_and_writes(self):
        """Merged requests and milliseconds are ignored."""
        self.shown = {
            '/sys/dev/block/253:0/stat': ' 3 9 24 9 5 9 80 9 9 9 9 0 0 0 0\n',
            '/sys/dev/block/253:1/stat': ' 0 0 0 0 1 0 1 0 0 0 0 0 0 0 0\n'}
        self.assertEqual({'x-1': (3, 24 * 512, 5, 80 * 512),
                          'x-2': (0, 0, 1, 512)}, self.disks.counts())

    def test_one_that_has_gone_meanwhile(self):
        self.shown = {
            '/sys/dev/block/253:1/stat': '0 0 0 0 1 0 1 0 0 0 0 0 0 0 0\n'}
        self.assertEqual({'x-2': (0, 0, 1, 512)}, self.disks.counts())
