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
"""Files behind tokens, on several kinds of file systems."""

import errno
import itertools
import os
import shutil
from unittest import mock

import ddt
import fixtures

import k2_sim
from k2_sim.blocks import contents
from tests import base

BLOCK = contents.BLOCK
MIB = 2 ** 20
# From linux/fs.h: copy by sharing all blocks.
_FICLONE = 0x40049409


class ContentsTest(base.DirectoryTest):
    """A directory, and one file with two pieces of data and a hole."""

    def setUp(self):
        super().setUp()
        self.contents = k2_sim.Contents(self.directory)
        self.data = b'a' * BLOCK + bytes(3 * MIB) + b'b' * 5
        self.token = self.contents.clone('', len(self.data))
        self.contents.write(self.token, 0, b'a' * BLOCK)
        self.contents.write(self.token, len(self.data) - 5, b'b' * 5)

    def assert_copy(self, token):
        """A separate file, as sparse as the first."""
        path = self.contents.path(token)
        self.assertEqual(self.data, path.read_bytes())
        self.assertLess(self.contents.used(token), MIB)
        self.contents.write(token, 0, b'c')
        self.assertEqual(b'a', self.contents.read(self.token, 0, 1))


@ddt.ddt
class TestCopies(ContentsTest):

    def patch(self, target, name, action):
        return self.useFixture(fixtures.MockPatchObject(
            target, name, autospec=True, side_effect=action)).mock

    def test_flush(self):
        """What was written is on disk; a missing file does not matter."""
        sync = self.patch(os, 'fdatasync', lambda file: None)
        self.contents.flush([self.token, 'd' * 32])
        sync.assert_called_once()

    def test_by_sharing_blocks(self):
        """From the old file to the new one, and nothing else is copied."""
        asked = []

        def share(target, request, source):
            asked.append((request, *(
                os.path.basename(os.readlink(f'/proc/self/fd/{file}'))
                for file in (source, target))))
            os.pwrite(target, self.data, 0)
            os.posix_fallocate(target, 0, len(self.data))
            return 0

        self.patch(contents.fcntl, 'ioctl', share)
        copied = self.patch(contents.os, 'copy_file_range', None)
        new = self.contents.clone(self.token)
        self.assertEqual([(_FICLONE, self.token, new)], asked)
        self.assertEqual(self.data, self.contents.path(new).read_bytes())
        copied.assert_not_called()

    @ddt.data(errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EXDEV,
              errno.ENOSYS)
    def test_where_blocks_cannot_be_shared(self, number):
        self.patch(contents.fcntl, 'ioctl', OSError(number, 'no'))
        self.assert_copy(self.contents.clone(self.token))

    def test_hole_at_the_end(self):
        """A copy has the wanted size, like the file."""
        self.patch(contents.fcntl, 'ioctl', OSError(errno.ENOTTY, 'no'))
        self.contents.resize(self.token, 9 * MIB)
        self.contents.resize(self.token, 8 * MIB)
        for size, expected in ((0, 9 * MIB), (10 * MIB, 10 * MIB)):
            new = self.contents.clone(self.token, size)
            self.assertEqual(expected, self.contents.size(new))

    def test_no_room_for_a_copy(self):
        """Another refusal is an error, and leaves nothing."""
        self.patch(contents.fcntl, 'ioctl', OSError(errno.ENOSPC, 'full'))
        error = self.assertRaises(
            k2_sim.StateError, self.contents.clone, self.token)
        self.assertIn('cannot copy contents in', str(error))
        self.assertEqual([self.token], os.listdir(self.directory))

    @ddt.data(lambda *args: 0, OSError(errno.EXDEV, 'no'),
              OSError(errno.ENOSYS, 'no'))
    def test_where_the_kernel_copies_nothing(self, action):
        self.patch(contents.fcntl, 'ioctl', OSError(errno.ENOTTY, 'no'))
        self.patch(contents.os, 'copy_file_range', action)
        self.assert_copy(self.contents.clone(self.token))

    def test_where_the_kernel_copies_in_parts(self):
        self.patch(contents.fcntl, 'ioctl', OSError(errno.ENOTTY, 'no'))
        copy = os.copy_file_range
        self.patch(
            contents.os, 'copy_file_range',
            lambda source, target, count, start, end: copy(
                source, target, min(count, 1000), start, end))
        self.assert_copy(self.contents.clone(self.token))

    def test_the_kernel_fails(self):
        self.patch(contents.fcntl, 'ioctl', OSError(errno.ENOTTY, 'no'))
        self.patch(contents.os, 'copy_file_range',
                   OSError(errno.EIO, 'broken'))
        self.assertRaises(
            k2_sim.StateError, self.contents.clone, self.token)
        self.assertEqual([self.token], os.listdir(self.directory))


@ddt.ddt
class TestHoles(ContentsTest):

    def refuse(self, number):
        """Simulate a file system that cannot punch holes, for this reason."""
        libc = self.useFixture(fixtures.MockPatchObject(
            contents, '_LIBC', mock.Mock(spec_set=['fallocate']))).mock
        libc.fallocate.return_value = -1
        self.useFixture(fixtures.MockPatchObject(
            contents.ctypes, 'get_errno', lambda: number))

    @ddt.data(errno.EOPNOTSUPP, errno.ENOSYS)
    def test_file_system_without_holes(self, number):
        """Zeros are written, and nothing around them."""
        self.refuse(number)
        self.contents.discard(self.token, 100, 2 * MIB)
        self.contents.discard(self.token, len(self.data) - 1, 2)
        self.contents.patch(self.token, [(len(self.data) - 5, bytes(3))])
        self.assertEqual(
            b'a' * 100 + bytes(len(self.data) - 102) + b'b\0',
            self.contents.path(self.token).read_bytes())

    def test_file_system_that_fails(self):
        self.refuse(errno.EIO)
        self.assertRaises(k2_sim.StateError, self.contents.discard,
                          self.token, 0, BLOCK)
        self.assertEqual(b'a', self.contents.read(self.token, 0, 1))

    def test_not_beyond_the_end(self):
        self.contents.discard(self.token, len(self.data) - 2, MIB)
        self.contents.discard(self.token, len(self.data) + 2, MIB)
        self.assertEqual(self.data[:-2] + bytes(2),
                         self.contents.path(self.token).read_bytes())


class TestNames(ContentsTest):

    def test_another_name_for_the_same_file(self):
        new = self.contents.link(self.token)
        self.contents.write(new, 0, b'c')
        self.assertEqual(b'c', self.contents.read(self.token, 0, 1))
        self.contents.remove(self.token)
        self.assertEqual({new}, self.contents.tokens())
        self.assertEqual(b'c', self.contents.read(new, 0, 1))

    def test_file_system_with_one_name_for_each_file(self):
        for number in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            with mock.patch.object(contents.os, 'link', autospec=True,
                                   side_effect=OSError(number, 'no')):
                self.assertEqual('', self.contents.link(self.token))

    def test_name_that_cannot_be_made(self):
        with mock.patch.object(contents.os, 'link', autospec=True,
                               side_effect=OSError(errno.ENOSPC, 'full')):
            self.assertRaises(
                k2_sim.StateError, self.contents.link, self.token)

    def test_what_is_no_token(self):
        for text in ('../state.db', '', 'A' * 32, 'a' * 31, 'a' * 32 + '/'):
            self.assertRaises(ValueError, self.contents.path, text)

    def test_leaving(self):
        self.contents.forget(self.token)
        self.assertTrue(self.contents.is_being_removed(self.token))
        self.assertFalse(self.contents.has(self.token))
        self.contents.remove(self.token)
        self.assertFalse(self.contents.is_being_removed(self.token))
        self.assertEqual([], os.listdir(self.directory))

    def test_new_directory(self):
        again = k2_sim.Contents(self.directory)
        self.assertEqual({self.token}, again.tokens())
        self.assertFalse(again.is_new)
        self.assertTrue(k2_sim.Contents(self.directory / 'new').is_new)


class TestChanges(ContentsTest):

    def changes(self, base=''):
        return list(self.contents.changes(self.token, base))

    def test_against_nothing(self):
        """No more than exists, also of the last block."""
        self.assertEqual(
            [(0, b'a' * BLOCK), (BLOCK + 3 * MIB, b'b' * 5)],
            self.changes())

    def test_against_another_one(self):
        """Data that only the other has becomes zeros."""
        other = self.contents.clone(self.token)
        self.contents.write(other, MIB + 5, b'x')
        self.assertEqual([(MIB, bytes(BLOCK))], self.changes(other))

    def test_against_a_longer_one(self):
        other = self.contents.clone(self.token, 9 * MIB)
        self.contents.write(other, 8 * MIB, b'x')
        self.assertEqual([], self.changes(other))


class TestMedium(ContentsTest):
    """What is on the medium when a call returns, and in which order."""

    def setUp(self):
        super().setUp()
        self.synced = []
        for name in ('fsync', 'fdatasync'):
            self.useFixture(fixtures.MockPatchObject(
                contents.os, name, autospec=True, side_effect=self.note))

    def note(self, file):
        self.synced.append(os.readlink(f'/proc/self/fd/{file}'))

    def assert_synced(self, *names):
        """Files, and '' for the directory."""
        self.assertEqual(
            [str(self.directory / name) for name in names], self.synced)

    def test_write(self):
        self.contents.write(self.token, 0, b'x')
        self.assert_synced(self.token)

    def test_discard(self):
        self.contents.discard(self.token, 0, BLOCK)
        self.assert_synced(self.token)

    def test_copy(self):
        self.assert_synced(self.contents.clone(self.token), '')

    def test_other_name(self):
        self.contents.link(self.token)
        self.assert_synced('')

    def test_what_has_arrived(self):
        self.contents.rename(self.token, 'a' * 32)
        self.assert_synced(self.token, '')


class TestSubvolumes(base.DirectoryTest):
    """Subvolumes on a fake Btrfs."""

    def setUp(self):
        super().setUp()
        self.calls = []
        self.useFixture(fixtures.MockPatchObject(
            contents.btrfs, 'is_on', autospec=True, return_value=True))
        for name, action in (('create', os.mkdir),
                             ('snapshot', shutil.copytree),
                             ('sync', lambda path: None)):
            self.useFixture(fixtures.MockPatchObject(
                contents.btrfs, name, autospec=True,
                side_effect=self.noted(name, action)))
        # It is not copied in any other way.
        self.copy = self.useFixture(fixtures.MockPatchObject(
            contents, '_copy', autospec=True,
            side_effect=AssertionError)).mock
        self.contents = k2_sim.Contents(self.directory)
        self.token = self.contents.clone('', 2 * MIB)
        self.contents.write(self.token, MIB, b'old')

    def noted(self, name, action):
        def play(*paths):
            self.calls.append(name)
            action(*paths)
        return play

    def test_one_for_each_file(self):
        self.assertEqual(['create'], self.calls)
        self.assertEqual(self.directory / self.token / 'data',
                         self.contents.path(self.token))

    def test_copy(self):
        self.contents.changed()
        new = self.contents.clone(self.token)
        self.assertEqual(['create', 'snapshot'], self.calls)
        self.assertEqual({new}, self.contents.changed())
        self.contents.write(new, MIB, b'new')
        self.assertEqual(b'old', self.contents.read(self.token, MIB, 3))
        self.assertEqual(2 * MIB, self.contents.size(new))

    def test_copy_that_is_larger(self):
        new = self.contents.clone(self.token, 5 * MIB)
        self.assertEqual(5 * MIB, self.contents.size(new))
        self.assertEqual(b'old', self.contents.read(new, MIB, 3))

    def test_copy_that_fails(self):
        """Nothing is left of it."""
        self.useFixture(fixtures.MockPatchObject(
            contents, '_grow', autospec=True,
            side_effect=OSError(errno.ENOSPC, 'No space left on device')))
        for token in (self.token, ''):
            self.assertRaises(k2_sim.StateError, self.contents.clone, token,
                              5 * MIB)
        self.assertEqual([self.token], os.listdir(self.directory))
        self.assertEqual({self.token}, self.contents.tokens())

    def test_file_of_before(self):
        """A file without a subvolume is copied into one."""
        plain = 'a' * 32
        (self.directory / plain).write_bytes(b'plain')
        self.copy.side_effect = None
        again = k2_sim.Contents(self.directory)
        self.assertEqual({self.token, plain}, again.tokens())
        self.assertEqual(b'plain', again.read(plain, 0, 5))
        new = again.clone(plain, MIB)
        self.copy.assert_called_once()
        self.assertEqual('data', again.path(new).name)
        again.remove(plain)
        self.assertEqual({self.token, new}, set(os.listdir(self.directory)))

    def test_no_second_name(self):
        """A copy costs nothing, so none is needed."""
        self.assertEqual('', self.contents.link(self.token))
        self.assertEqual([self.token], os.listdir(self.directory))

    def test_rename(self):
        new = 'b' * 32
        self.contents.rename(self.token, new)
        self.assertEqual(b'old', self.contents.read(new, MIB, 3))
        self.assertEqual([new], os.listdir(self.directory))

    def test_removal(self):
        self.contents.remove(self.token)
        self.assertEqual([], os.listdir(self.directory))
        self.contents.remove(self.token)

    def test_half_a_file(self):
        """As a crash leaves it."""
        (self.directory / ('c' * 32)).mkdir()
        again = k2_sim.Contents(self.directory)
        self.assertEqual({self.token}, again.tokens())
        self.assertEqual([self.token], os.listdir(self.directory))

    def test_read_only(self):
        """As Btrfs becomes after an error."""
        self.useFixture(fixtures.MockPatch('os.pwrite', side_effect=OSError(
            errno.EROFS, 'Read-only file system')))
        shown = k2_sim.Contents(self.directory, '/shown')
        error = self.assertRaises(
            k2_sim.StateError, shown.write, self.token, 0, b'x')
        self.assertEqual(
            'cannot write contents in /shown: Read-only file system; after an'
            ' error, as of a full disk, free space and start k2-sim again',
            str(error))

    def test_flush(self):
        """Until little is left to do, but not for ever."""
        times = iter([0, 1, 1, 1.5, 2, 2.01])
        self.useFixture(fixtures.MockPatch(
            'time.monotonic', side_effect=lambda: next(times)))
        self.contents.flush({self.token})
        self.assertEqual(['create', 'sync', 'sync', 'sync'], self.calls)
        times = itertools.count()
        self.contents.flush({self.token})
        self.assertEqual(3 + 4, self.calls.count('sync'))
