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

"""Loop devices: files as block devices, until their last user closes them.

So none is left behind, however a process ends.
"""

from collections.abc import Iterator
import contextlib
import errno
import fcntl
import os
import pathlib
import struct

LOOP_CONTROL = pathlib.Path('/dev/loop-control')
# From linux/loop.h.
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LOOP_GET_STATUS64 = 0x4C05
_AUTOCLEAR = 4
_DIRECT_IO = 16
# struct loop_config: fd, block_size, loop_info64 with lo_flags, reserved.
_LOOP_CONFIG = struct.Struct('=II 5Q 3I I 64s 64s 32s 2Q 64x')
# struct loop_info64: lo_device, lo_inode, lo_offset, lo_sizelimit, lo_flags.
_LOOP_INFO = struct.Struct('=2Q 8x 2Q 12x I 176x')
_READ_ONLY = 1
# Errors of devices that were released meanwhile, or that only others may use.
_NOT_OURS = (errno.ENXIO, errno.ENOENT, errno.ENODEV, errno.EBUSY,
             errno.EPERM, errno.EACCES)
_SECTOR = 512
# Another process may take the free device first.
_LOOP_TRIES = 100


@contextlib.contextmanager
def attached(path: pathlib.Path, is_direct: bool = False) -> Iterator[int]:
    """A descriptor of a new loop device of a file. Raises OSError.

    is_direct: do not cache the file, as the user of the device does that.
    """
    for _ in range(_LOOP_TRIES):
        with opened(LOOP_CONTROL) as control:
            free = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
        with opened(f'/dev/loop{free}') as device:
            if _is_attached(device, path, is_direct):
                yield device
                return
    raise OSError(errno.EBUSY, 'there is no free loop device')


@contextlib.contextmanager
def shared(path: pathlib.Path) -> Iterator[int]:
    """As attached(), but use the device that the file already has, if any.

    Two devices for one file system would damage it. Not thread-safe.
    """
    status = os.stat(path)
    for found in pathlib.Path('/sys/block').glob('loop*/loop'):
        place = f'/dev/{found.parent.name}'
        try:
            # Not for writing: others may have mounted it.
            device = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as exc:
            if exc.errno not in _NOT_OURS:
                raise
            continue
        try:
            if _is_of(device, status):
                yield device
                return
        finally:
            os.close(device)
    with attached(path, is_direct=True) as device:
        yield device


def _is_of(device: int, status: os.stat_result) -> bool:
    """Whether a loop device is attached to a file.

    Raises OSError, also if it covers only a part of the file, or is
    read-only.
    """
    info = bytearray(_LOOP_INFO.size)
    try:
        fcntl.ioctl(device, _LOOP_GET_STATUS64, info)
    except OSError as exc:
        if exc.errno not in _NOT_OURS:
            raise
        return False
    number, inode, offset, limit, flags = _LOOP_INFO.unpack(info)
    if (number, inode) != (status.st_dev, status.st_ino):
        return False
    if offset or limit or flags & _READ_ONLY:
        name = os.readlink(f'/proc/self/fd/{device}')
        raise OSError(errno.EBUSY, f'it is attached to {name}; detach that'
                      ' first')
    return True


def _is_attached(device: int, path: pathlib.Path, is_direct: bool) -> bool:
    """Attach a loop device to a file, unless another process has taken it."""
    flags = _AUTOCLEAR | (_DIRECT_IO if is_direct else 0)
    with opened(path) as file:
        try:
            fcntl.ioctl(device, _LOOP_CONFIGURE, _LOOP_CONFIG.pack(
                file, _SECTOR, *[0] * 5, *[0] * 3, flags,
                os.fsencode(path.name)[:63], b'', b'', 0, 0))
        except OSError as exc:
            if exc.errno != errno.EBUSY:
                raise
            return False
    return True


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a file or device. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
