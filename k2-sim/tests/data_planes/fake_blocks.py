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

"""A fake of the kernel's loop devices and device mapper.

They behave as linux/loop.h and linux/dm-ioctl.h describe.
"""

import errno
import os
import pathlib
import struct

LOOP_CONTROL = '/dev/loop-control'
MAPPER_CONTROL = '/dev/mapper/control'
_LOOP, _MAPPER = 7, 253
_GET_FREE, _CONFIGURE = 0x4C82, 0x4C0A
_HEAD = struct.Struct('<3I I I I i I I I Q 128s 129s 7s')
_LIST, _CREATE, _REMOVE, _SUSPEND, _LOAD = 2, 3, 4, 6, 9
_SUSPENDED, _FULL = 2, 256
_SECTOR = 512


class Device:
    """A device of the device mapper.

    :ivar table: the active table: number of the loop device, size in bytes
    :ivar loaded: the table that becomes active next
    :ivar users: number of processes that have it open, besides this one
    """

    def __init__(self, number):
        self.number = number
        self.table = self.loaded = None
        self.is_suspended = False
        self.users = 0


class Kernel:
    """Replaces the modules os, fcntl and time.

    :ivar loops: the file of each loop device that has one
    :ivar devices: the devices of the device mapper, by name
    :ivar calls: how often the device mapper was called
    :ivar contested: how many loop devices another process takes first
    :ivar failing: calls of the device mapper that fail once, each as the
        command and the name of the device
    :ivar now: the time of monotonic(), in seconds
    :ivar on_sleep: called by sleep() after the time has passed
    """

    O_RDWR, O_CLOEXEC = os.O_RDWR, os.O_CLOEXEC
    PathLike, fsencode = os.PathLike, staticmethod(os.fsencode)
    major, minor = staticmethod(os.major), staticmethod(os.minor)

    def __init__(self):
        self.loops, self.devices = {}, {}
        self._opened = {}
        self.calls = self.contested = 0
        self.failing = set()
        self.now = 0.0
        self.on_sleep = lambda: None

    # The module os

    def open(self, path, flags):
        path = str(path)
        if path.startswith('/dev/'):
            descriptor = os.open(os.devnull, flags)
        else:
            descriptor = os.open(path, flags)
        self._opened[descriptor] = path
        return descriptor

    def close(self, descriptor):
        os.close(descriptor)
        del self._opened[descriptor]
        self._collect()

    def fstat(self, descriptor):
        number = int(self._opened[descriptor].removeprefix('/dev/loop'))
        return os.stat_result((0,) * 10, {
            'st_rdev': os.makedev(_LOOP, number)})

    # The module time

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep()

    # The module fcntl

    def ioctl(self, descriptor, request, argument=0):
        path = self._opened[descriptor]
        if path == LOOP_CONTROL:
            assert request == _GET_FREE
            return next(number for number in range(1000)
                        if number not in self.loops)
        if path == MAPPER_CONTROL:
            return self._map(request, argument)
        assert request == _CONFIGURE
        return self._configure(int(path.removeprefix('/dev/loop')), argument)

    def _configure(self, number, argument):
        if self.contested:
            self.contested -= 1
            self.loops[number] = 'of somebody else'
        if number in self.loops:
            raise OSError(errno.EBUSY, 'Device or resource busy')
        assert len(argument) == 304
        descriptor, block, _, _, _, offset, limit = struct.unpack_from(
            '<2I 5Q', argument)
        flags, = struct.unpack_from('<I', argument, 8 + 5 * 8 + 3 * 4)
        assert (block, offset, limit, flags) == (_SECTOR, 0, 0, 4)
        self.loops[number] = self._opened[descriptor]
        return 0

    def _collect(self):
        """Detach unused loop devices, as the kernel does."""
        used = {f'/dev/loop{device.table[0]}'
                for device in self.devices.values() if device.table}
        used |= set(self._opened.values())
        for number, path in list(self.loops.items()):
            if path.startswith('/') and f'/dev/loop{number}' not in used:
                del self.loops[number]

    def _map(self, request, buffer):
        self.calls += 1
        command = request - 0xC138FD00
        major, _, _, length, start, targets, _, flags, _, _, _, name, *_ = (
            _HEAD.unpack_from(buffer))
        assert (major, length, start) == (4, len(buffer), _HEAD.size)
        name = name.rstrip(b'\0').decode()
        if (command, name) in self.failing:
            self.failing.remove((command, name))
            raise OSError(errno.EIO, 'Input/output error')
        if command == _LIST:
            self._list(buffer)
        elif command == _CREATE:
            self._create(name)
        elif name not in self.devices:
            raise OSError(errno.ENXIO, 'No such device or address')
        elif command == _LOAD:
            assert targets == 1
            self.devices[name].loaded = self._table(buffer, start)
        elif command == _SUSPEND:
            self._suspend(self.devices[name], bool(flags & _SUSPENDED))
        else:
            assert command == _REMOVE
            self._remove(name)
        return 0

    def _create(self, name):
        if name in self.devices:
            raise OSError(errno.EBUSY, 'Device or resource busy')
        taken = {device.number for device in self.devices.values()}
        self.devices[name] = Device(next(
            number for number in range(1000) if number not in taken))

    def _table(self, buffer, start):
        first, sectors, _, following, kind = struct.unpack_from(
            '<Q Q i I 16s', buffer, start)
        text = buffer[start + 40:start + following].rstrip(b'\0').decode()
        device, offset = text.split()
        major, number = map(int, device.split(':'))
        assert (first, offset, kind.rstrip(b'\0')) == (0, '0', b'linear')
        assert major == _LOOP and number in self.loops
        if pathlib.Path(self.loops[number]).stat().st_size < (
                sectors * _SECTOR):
            raise OSError(errno.EINVAL, 'Invalid argument')
        return number, sectors * _SECTOR

    def _suspend(self, device, is_wanted):
        device.is_suspended = is_wanted
        if not is_wanted and device.loaded:
            device.table, device.loaded = device.loaded, None

    def _remove(self, name):
        if self.devices[name].users:
            raise OSError(errno.EBUSY, 'Device or resource busy')
        del self.devices[name]
        self._collect()

    def _list(self, buffer):
        entries = [
            struct.pack('<Q I', os.makedev(_MAPPER, device.number), 0)
            + name.encode() + b'\0' for name, device in self.devices.items()]
        entries = [entry + bytes(-len(entry) % 8) for entry in entries]
        for index, entry in enumerate(entries[:-1]):
            entries[index] = (entry[:8] + struct.pack('<I', len(entry))
                              + entry[12:])
        data = b''.join(entries)
        if _HEAD.size + len(data) > len(buffer):
            struct.pack_into('<I', buffer, 28, _FULL)
            return
        buffer[_HEAD.size:_HEAD.size + len(data)] = data

    # Queries for tests

    def disk(self, name):
        """The file of a disk, and its size in bytes."""
        device = self.devices[name]
        number, size = device.table
        return self.loops[number], size
