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

"""Btrfs: its subvolumes, and mounting it for this process alone.

A subvolume is a directory that can be copied as a whole. That takes as long
for a large or fragmented file as for a small one; a reflink, on Btrfs as on
XFS, takes longer the more extents the file has.
"""

from collections.abc import Iterator
import contextlib
import ctypes
import fcntl
import os
import pathlib
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
# Of linux/magic.h.
_MAGIC = 0x9123683E
# Of linux/btrfs.h: struct btrfs_ioctl_vol_args has a file and a name.
_SNAP_CREATE, _SUBVOL_CREATE = 0x50009401, 0x5000940E
_ARGUMENTS = struct.Struct('=q4088s')
# Larger than struct statfs, which begins with the type.
_STATFS_BYTES = 512
# System calls, the same on all machines, and linux/mount.h.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC = 1
_SET_STRING, _CREATE = 1, 6
_NOSUID, _NODEV, _NOEXEC, _NOATIME = 0x2, 0x4, 0x8, 0x10


def is_on(path: pathlib.Path) -> bool:
    """Whether a directory is on Btrfs. Raises OSError."""
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    _check(_LIBC.statfs(os.fsencode(path), found))
    return ctypes.c_ulong.from_buffer(found).value & 0xFFFFFFFF == _MAGIC


def create(path: pathlib.Path) -> None:
    """Create an empty subvolume. Raises OSError."""
    _make(_SUBVOL_CREATE, path, 0)


def snapshot(source: pathlib.Path, path: pathlib.Path) -> None:
    """Create a writable copy of a subvolume, on disk. Raises OSError."""
    with _opened(source) as descriptor:
        _make(_SNAP_CREATE, path, descriptor)


def _make(request: int, path: pathlib.Path, source: int) -> None:
    with _opened(path.parent) as parent:
        fcntl.ioctl(parent, request, bytearray(
            _ARGUMENTS.pack(source, os.fsencode(path.name))))


def sync(path: pathlib.Path) -> None:
    """Write all of a file system to disk. Raises OSError."""
    with _opened(path) as descriptor:
        _check(_LIBC.syncfs(descriptor))


@contextlib.contextmanager
def _opened(directory: pathlib.Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def mounted(device: str) -> int:
    """Mount a block device without a mount point. Raises OSError.

    Returns a descriptor of the root directory: the file system is mounted
    until that is closed and no file is open. Other processes find it below
    /proc/PID/fd.
    """
    context = _call(_FSOPEN, b'btrfs', _CLOEXEC)
    try:
        for key, value in (('source', device), ('discard', 'async')):
            _call(_FSCONFIG, context, _SET_STRING, key.encode(),
                  os.fsencode(value), 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _CLOEXEC,
                     _NOSUID | _NODEV | _NOEXEC | _NOATIME)
    finally:
        os.close(context)


def _call(number: int, *arguments: int | bytes | None) -> int:
    return _check(_LIBC.syscall(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
