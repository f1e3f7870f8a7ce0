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

"""Which file system is chosen, with fakes; tests/e2e has the real ones."""

import contextlib
import errno
import os
import pathlib
import subprocess
from unittest import mock

import ddt
import fixtures

import k2_sim
from k2_sim.blocks import filesystem
from tests import base

MIB = 2 ** 20


@ddt.ddt
class TestFilesystem(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.plain = self.directory / 'content'
        self.image = self.directory / 'content.btrfs'
        self.run_program = self.useFixture(fixtures.MockPatchObject(
            subprocess, 'run', autospec=True)).mock
        self.btrfs = self.useFixture(fixtures.MockPatchObject(
            filesystem, 'btrfs', autospec=True)).mock
        self.btrfs.is_on.return_value = False
        self.top = self.directory.parent / f'{self.directory.name}-top'
        self.top.mkdir()
        self.addCleanup(os.rmdir, self.top)
        self.btrfs.mounted.side_effect = lambda device: os.open(
            self.top, os.O_RDONLY)
        self.devices = self.useFixture(fixtures.MockPatchObject(
            filesystem.loop_devices, 'shared', autospec=True,
            side_effect=self.device)).mock
        self.which = self.useFixture(fixtures.MockPatch(
            'shutil.which', autospec=True, return_value='/x')).mock

    @contextlib.contextmanager
    def device(self, path):
        self.assertTrue(path.exists())
        with open(os.devnull, 'rb') as file:
            yield file.fileno()

    def place(self, is_served=True):
        return filesystem.place(self.directory, is_served, self.stack)

    def left(self):
        return sorted(os.listdir(self.directory))

    def assert_plain(self, drawback, place=None):
        """Files are in a directory, and nothing of an attempt is left."""
        place = place or self.place()
        self.assertEqual((self.plain, self.plain, drawback), place)
        self.assertLessEqual(set(self.left()), {'content'})

    def test_new(self):
        place = self.place()
        self.assertEqual((self.image, ''), place[1:])
        self.assertEqual(['content.btrfs'], self.left())
        status = self.image.stat()
        self.assertEqual((0o600, 0),
                         (status.st_mode & 0o777, status.st_blocks))
        free = os.statvfs(self.directory)
        self.assertAlmostEqual(
            0.9, status.st_size / free.f_bavail / free.f_frsize, 1)
        self.assertEqual(
            ['/x', '--quiet', '--metadata', 'single',
             self.directory / 'content.new'],
            self.run_program.call_args.args[0])
        self.btrfs.mounted.assert_called_once_with(os.devnull)
        # It is new: rows may name files that somebody has removed.
        self.assertFalse(place.directory.exists())
        self.assertTrue(os.path.samefile(self.top, place.directory.parent))
        self.stack.close()
        self.assertFalse(place.directory.parent.exists())

    def test_not_served(self):
        """Nobody writes while a snapshot is made."""
        self.assert_plain('', self.place(is_served=False))
        self.run_program.assert_not_called()

    def test_on_btrfs(self):
        self.btrfs.is_on.return_value = True
        self.assert_plain('')
        self.btrfs.is_on.assert_called_once_with(self.directory)

    def test_content_on_btrfs(self):
        self.plain.mkdir()
        self.btrfs.is_on.side_effect = lambda path: path == self.plain
        self.assert_plain('')

    def test_directory_of_before(self):
        """Also if it is empty: what is on it may not be mounted now."""
        self.plain.mkdir()
        self.assert_plain(
            f'{self.plain} is not on Btrfs; begin with a new state directory,'
            ' or move the files to a Btrfs that is mounted there')

    def test_link_to_what_is_not_mounted(self):
        self.plain.symlink_to(self.directory / 'none' / 'content')
        self.assertIn('is not on Btrfs', self.place().drawback)
        self.btrfs.is_on.assert_called_once_with(self.directory)
        self.plain.unlink()
        self.image.symlink_to(self.directory / 'none' / 'content.btrfs')
        self.devices.side_effect = FileNotFoundError(
            errno.ENOENT, 'No such file or directory')
        error = self.assertRaises(k2_sim.StateError, self.place)
        self.assertEqual(f'cannot mount {self.image}: No such file or'
                         ' directory', str(error))
        self.assertTrue(self.image.is_symlink())

    def test_link_in_the_path(self):
        """Paths are real ones; messages have what the user knows."""
        link = self.directory / 'link'
        state = self.directory / 'state'
        state.mkdir()
        link.symlink_to(state)
        self.assertEqual(
            (state / 'content', link / 'content', ''),
            filesystem.place(link, False, self.stack))
        self.assertEqual(link / 'content.btrfs', filesystem.place(
            link, True, self.stack).shown)
        self.assertTrue((state / 'content.btrfs').exists())

    def test_missing_program(self):
        self.which.return_value = None
        self.assert_plain('mkfs.btrfs is not installed; install the package'
                          ' btrfs-progs')

    @ddt.data((subprocess.TimeoutExpired('x', 60),
               'mkfs.btrfs did not end within 60 s'),
              (subprocess.CalledProcessError(1, 'x', stderr='no\n\nroom\n'),
               'mkfs.btrfs failed: no room'),
              (subprocess.CalledProcessError(3, 'x', stderr=''),
               'mkfs.btrfs failed: status 3'))
    @ddt.unpack
    def test_program_that_fails(self, error, text):
        self.run_program.side_effect = error
        self.assert_plain(text)

    def free(self, size):
        self.useFixture(fixtures.MockPatch(
            'os.statvfs', autospec=True, return_value=mock.Mock(
                f_bavail=size // 4096, f_frsize=4096)))

    def test_little_space(self):
        self.free(4096 * MIB)
        self.assert_plain(f'{self.directory} has less than 4.5 GiB of free'
                          ' space for a Btrfs')

    def test_much_space(self):
        """More than one file of ext4 can have."""
        self.free(2 ** 60)
        truncate = self.useFixture(fixtures.MockPatch(
            'pathlib.Path.open', mock.mock_open())).mock
        truncate.return_value.fileno.return_value = 0
        self.useFixture(fixtures.MockPatch('os.fchmod'))
        self.useFixture(fixtures.MockPatch('pathlib.Path.rename'))
        self.useFixture(fixtures.MockPatch('pathlib.Path.unlink'))
        self.devices.side_effect = None
        self.devices.return_value = self.device(pathlib.Path('/'))
        self.place()
        truncate.return_value.truncate.assert_called_once_with(15 * 2 ** 40)

    @ddt.data((OSError(errno.ENODEV, 'No such device'),
               'cannot mount a Btrfs: this kernel has no Btrfs'),
              (PermissionError(errno.EPERM, 'Operation not permitted'),
               'cannot mount a Btrfs: Operation not permitted'))
    @ddt.unpack
    def test_mount_is_refused(self, error, text):
        self.btrfs.mounted.side_effect = error
        self.assert_plain(text)

    def test_no_loop_device(self):
        self.devices.side_effect = PermissionError(
            errno.EACCES, 'Permission denied', '/dev/loop-control')
        self.assert_plain('cannot mount a Btrfs: /dev/loop-control:'
                          ' Permission denied')

    def test_attempt_of_before(self):
        """Of a process that was killed in the middle."""
        (self.directory / 'content.new').write_bytes(b'x')
        self.place()
        self.assertEqual(['content.btrfs'], self.left())
        self.assertNotEqual(1, self.image.stat().st_size)

    @ddt.data(True, False)
    def test_existing(self, is_served):
        """Also if nobody is served: the volumes are in there."""
        self.image.touch()
        place = self.place(is_served)
        self.addCleanup(os.rmdir, self.top / 'files')
        self.assertEqual((self.image, ''), place[1:])
        # It is not new: the state names no files that are not there.
        self.assertTrue(place.directory.is_dir())
        self.run_program.assert_not_called()

    @ddt.data((PermissionError(errno.EPERM, 'Operation not permitted'),
               'Operation not permitted; start k2-sim as root'),
              (OSError(errno.EEXIST, 'File exists'),
               'File exists; a copy of it is in use, stop that first'),
              (OSError(errno.ENODEV, 'No such device'),
               'this kernel has no Btrfs'),
              (OSError(errno.EINVAL, 'Invalid argument'),
               'Invalid argument; if it is damaged, restore it from a copy'))
    @ddt.unpack
    def test_existing_that_cannot_be_mounted(self, error, text):
        self.image.touch()
        self.btrfs.mounted.side_effect = error
        found = self.assertRaises(k2_sim.StateError, self.place, False)
        self.assertEqual(f'cannot mount {self.image}: {text}', str(found))
        self.assertEqual(['content.btrfs'], self.left())

    def test_both(self):
        """As after a return to a version that does not know Btrfs."""
        self.image.touch()
        self.plain.mkdir()
        self.place()
        self.addCleanup(os.rmdir, self.top / 'files')
        (self.plain / 'file').touch()
        self.stack.close()
        error = self.assertRaises(k2_sim.StateError, self.place)
        self.assertEqual(f'both {self.plain} and {self.image} have volumes:'
                         ' move away what does not belong there', str(error))

    def test_rename_that_fails(self):
        self.useFixture(fixtures.MockPatch(
            'pathlib.Path.rename', side_effect=OSError(
                errno.EIO, 'Input/output error')))
        before = os.listdir('/proc/self/fd')
        self.assertRaises(k2_sim.StateError, self.place)
        self.assertEqual(len(before), len(os.listdir('/proc/self/fd')))
        self.assertEqual([], self.left())


class TestLock(base.DirectoryTest):

    def test_in_use(self):
        with contextlib.ExitStack() as mine, contextlib.ExitStack() as other:
            filesystem.lock(self.directory, mine)
            error = self.assertRaises(
                k2_sim.StateError, filesystem.lock, self.directory, other)
        self.assertEqual(f'state directory {self.directory} is in use by'
                         ' another process', str(error))
        with contextlib.ExitStack() as later:
            filesystem.lock(self.directory, later)

    def test_no_locks(self):
        """As on some network file systems."""
        self.useFixture(fixtures.MockPatch('fcntl.flock', side_effect=OSError(
            errno.ENOLCK, 'No locks available')))
        with contextlib.ExitStack() as stack:
            filesystem.lock(self.directory, stack)
