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

"""Which loop device a file system gets; the kernel is a fake."""

import contextlib
import errno
import fcntl
import os
import pathlib

import ddt
import fixtures

from k2_sim.blocks import loop_devices
from tests import base

_GET_STATUS64 = 0x4C05


@ddt.ddt
class TestShared(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        self.image = self.directory / 'image'
        self.image.touch()
        status = self.image.stat()
        self.file = (status.st_dev, status.st_ino)
        # What each loop device says of itself: an error, or its fields.
        self.infos = []
        self.useFixture(fixtures.MockPatch(
            'pathlib.Path.glob', side_effect=lambda pattern: [
                pathlib.Path('/sys/block', f'null{number}', 'loop')
                for number, _ in enumerate(self.infos)]))
        self.opened = []
        really_open = os.open
        self.useFixture(fixtures.MockPatch(
            'os.open', side_effect=lambda path, flags: (
                self.opened.append((path, flags)),
                really_open(os.devnull, flags))[1]))
        self.useFixture(fixtures.MockPatch(
            'fcntl.ioctl', side_effect=self.answer))
        self.attached = self.useFixture(fixtures.MockPatchObject(
            loop_devices, 'attached', autospec=True,
            side_effect=lambda *args, **kwargs: contextlib.nullcontext(-7))
        ).mock

    def answer(self, device, request, info):
        self.assertEqual((_GET_STATUS64, 232), (request, len(info)))
        found = self.infos[len(self.opened) - 1]
        if isinstance(found, Exception):
            raise found
        (device, inode), offset, limit, flags = found
        for at, value, size in ((0, device, 8), (8, inode, 8),
                                (24, offset, 8), (32, limit, 8),
                                (52, flags, 4)):
            info[at:at + size] = value.to_bytes(size, 'little')
        return 0

    def shared(self):
        with loop_devices.shared(self.image) as device:
            if device >= 0:
                # It stays while it is used.
                fcntl.fcntl(device, fcntl.F_GETFD)
            return device

    def test_none_yet(self):
        self.infos = [((1, 1), 0, 0, 4), OSError(errno.ENXIO, 'free')]
        self.assertEqual(-7, self.shared())
        self.attached.assert_called_once_with(self.image, is_direct=True)

    @ddt.data(0, 4)
    def test_that_of_a_process_that_was_killed(self, flags):
        """Never two devices of one file."""
        self.infos = [((1, 1), 0, 0, 4), (self.file, 0, 0, flags)]
        self.assertGreaterEqual(self.shared(), 0)
        self.attached.assert_not_called()

    def test_another_file_of_the_disk(self):
        self.infos = [((self.file[0], self.file[1] + 1), 0, 0, 4)]
        self.assertEqual(-7, self.shared())

    def test_those_of_others_are_not_opened_for_writing(self):
        self.infos = [((1, 1), 0, 0, 4)]
        self.shared()
        (path, flags), = self.opened
        self.assertEqual('/dev/null0', path)
        self.assertEqual(os.O_RDONLY, flags & os.O_ACCMODE)

    @ddt.data((1024, 0, 4), (0, 512, 4), (0, 0, 5))
    @ddt.unpack
    def test_part_of_the_file(self, offset, limit, flags):
        self.infos = [(self.file, offset, limit, flags)]
        error = self.assertRaises(OSError, self.shared)
        self.assertEqual(errno.EBUSY, error.errno)
        self.assertIn('detach that first', error.strerror)

    def test_error(self):
        self.infos = [OSError(errno.EIO, 'broken')]
        self.assertRaises(OSError, self.shared)
