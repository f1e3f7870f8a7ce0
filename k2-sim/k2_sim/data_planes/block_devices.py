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

"""Files as block devices whose file can change and whose I/O can be suspended.

A loop device turns a file into a block device. A device-mapper device on top
of it stays the same while the loop device below changes: when the file grows,
or another one replaces it. It can also be suspended: then new writes wait, and
those in flight have reached the file.

A loop device is detached with the mapper device that uses it, however this
process ends. The device mapper is called through ioctls, not through dmsetup:
that would wait for udev, which a container may not have.
"""

from collections.abc import Iterator
import contextlib
import errno
import fcntl
import os
import pathlib
import struct
import time

from k2_sim.blocks import loop_devices
from k2_sim.data_planes import base
from k2_sim.data_planes import counters

MAPPER_CONTROL = pathlib.Path('/dev/mapper/control')
_SECTOR = 512
# From linux/dm-ioctl.h; struct dm_ioctl and struct dm_target_spec.
_HEAD = struct.Struct('=3I I I I i I I 4x Q 128s 129s 7x')
_TARGET = struct.Struct('=Q Q i I 16s')
# struct dm_name_list: device, and offset of the next; a name follows.
_LISTED = struct.Struct('=Q I')
_VERSION = (4, 0, 0)
_IOCTL = 0xC0000000 | _HEAD.size << 16 | 0xFD << 8
_LIST, _CREATE, _REMOVE, _SUSPEND, _LOAD = 2, 3, 4, 6, 9
_SUSPEND_FLAG = 1 << 1
_BUFFER_FULL_FLAG = 1 << 8
# Bytes; enough for some hundreds of names.
_ANSWER = 2 ** 16
# There is no mounted file system to freeze.
_SKIP_LOCKFS_FLAG = 1 << 10
# Seconds that a device may stay in use, for example by a udev probe.
_IN_USE_LIMIT = 20.0
_LOOK_AGAIN = 0.05


class Disks:
    """The block devices of one owner: their names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        # File and size in bytes of each device, as far as known.
        self._files: dict[str, tuple[pathlib.Path, int]] = {}

    def names(self) -> set[str]:
        """The names of all devices, including those of a killed process."""
        return set(self._devices())

    def _devices(self) -> dict[str, int]:
        """Device numbers by name."""
        with _explained('list block devices'):
            return {name: number for name, number in _listed()
                    if name.startswith(self._prefix)}

    def counts(self) -> dict[str, counters.Counts]:
        """What was read from and written to each device since its creation.

        Raises DataPlaneError.
        """
        found = {}
        for name, number in self._devices().items():
            place = f'{os.major(number)}:{os.minor(number)}'
            # It may have been removed meanwhile.
            with contextlib.suppress(OSError):
                found[name] = _counted(pathlib.Path(
                    '/sys/dev/block', place, 'stat').read_text())
        return found

    def device(self, name: str) -> pathlib.Path:
        """The path of a disk in /dev. Raises KeyError if there is none."""
        return pathlib.Path(f'/dev/dm-{os.minor(self._devices()[name])}')

    def put(self, name: str, path: pathlib.Path, size: int) -> None:
        """Map a disk to the first bytes of a file; create it if missing.

        Users of the disk are not interrupted. size is in bytes. Raises
        DataPlaneError.
        """
        if self._files.get(name) == (path, size):
            return
        is_new = name not in self._files
        with _explained(f'make block device {name}'):
            if is_new:
                _call(_CREATE, name)
            try:
                with loop_devices.attached(path) as device:
                    _call(_LOAD, name, table=_linear(device, size))
                    _call(_SUSPEND, name)
            except BaseException:
                if is_new:
                    _is_removed(name)
                raise
        self._files[name] = path, size

    def remove(self, name: str) -> None:
        """Remove an unused disk. Raises DataPlaneError."""
        deadline = time.monotonic() + _IN_USE_LIMIT
        with _explained(f'remove block device {name}'):
            while not _is_removed(name):
                if time.monotonic() > deadline:
                    raise base.DataPlaneError(f'block device {name} is in use')
                time.sleep(_LOOK_AGAIN)
        self._files.pop(name, None)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Suspend writes to all files within the context.

        Raises DataPlaneError.
        """
        try:
            with _explained('suspend block devices'):
                for name in self._files:
                    _call(_SUSPEND, name, _SUSPEND_FLAG | _SKIP_LOCKFS_FLAG)
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Resume writes. Raises DataPlaneError."""
        with _explained('resume block devices'):
            for name in self.names():
                _call(_SUSPEND, name)


def _counted(shown: str) -> counters.Counts:
    """Parse a stat file from below /sys/dev/block.

    Its fields are, for reads and again for writes: requests, merged requests,
    sectors, and milliseconds.
    """
    numbers = list(map(int, shown.split()))
    return (numbers[0], numbers[2] * _SECTOR,
            numbers[4], numbers[6] * _SECTOR)


@contextlib.contextmanager
def _explained(wanted: str) -> Iterator[None]:
    """Convert errors of the kernel to DataPlaneError."""
    try:
        yield
    except OSError as exc:
        raise base.DataPlaneError(f'cannot {wanted}: {exc.strerror}') from exc


def _linear(device: int, size: int) -> bytes:
    """The table of a device that maps the first bytes of another one."""
    number = os.fstat(device).st_rdev
    text = f'{os.major(number)}:{os.minor(number)} 0\0'.encode()
    text += bytes(-len(text) % 8)
    return _TARGET.pack(0, size // _SECTOR, 0, _TARGET.size + len(text),
                        b'linear') + text


def _call(command: int, name: str = '', flags: int = 0, table: bytes = b'',
          room: int = 0) -> bytearray:
    """Call the device mapper; without flags, _SUSPEND resumes.

    room: bytes reserved for the reply, which is returned.
    """
    request = bytearray(_HEAD.pack(
        *_VERSION, _HEAD.size + len(table) + room, _HEAD.size, bool(table),
        0, flags, 0, 0, name.encode(), b'') + table + bytes(room))
    with loop_devices.opened(MAPPER_CONTROL) as control:
        fcntl.ioctl(control, _IOCTL | command, request)
    return request


def _listed() -> Iterator[tuple[str, int]]:
    """Name and number of each device-mapper device."""
    room, is_full = _ANSWER, True
    while is_full:
        answer = _call(_LIST, room=room)
        head = _HEAD.unpack_from(answer)
        start, is_full = head[4], bool(head[7] & _BUFFER_FULL_FLAG)
        room *= 2
    number, distance = _LISTED.unpack_from(answer, start)
    while number:
        begin = start + _LISTED.size
        yield answer[begin:answer.index(0, begin)].decode(), number
        if not distance:
            return
        start += distance
        number, distance = _LISTED.unpack_from(answer, start)


def _is_removed(name: str) -> bool:
    """Remove a device; returns False if it is in use."""
    try:
        _call(_REMOVE, name)
    except OSError as exc:
        if exc.errno == errno.ENXIO:
            return True
        if exc.errno != errno.EBUSY:
            raise
        return False
    return True
