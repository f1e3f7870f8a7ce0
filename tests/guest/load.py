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

"""Load generators, which write continuously until they are stopped."""

import contextlib
import itertools
import os
import struct
import threading

from tests.guest import disk
from tools.guest import node

BLOCK = 4096
FILE = 65536


class _Load:
    """Writes increasing numbers within the context ``running``.

    :ivar written: the last number that was written
    """

    def __init__(self):
        self.written = 0
        self._enough = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run)

    def write(self, number):
        raise NotImplementedError

    def _run(self):
        try:
            for number in itertools.count(1):
                self.write(number)
                self.written = number
                if self._enough.is_set():
                    return
        except Exception as exc:
            self._error = exc

    def wait_for_more(self, count=5):
        """Wait until ``count`` more numbers have been written."""
        goal = self.written + count
        node.wait_until(lambda: self._error or self.written >= goal,
                        'a write')
        if self._error:
            raise self._error

    @contextlib.contextmanager
    def running(self):
        """Write within the context; raises the errors of the writes."""
        self._thread.start()
        try:
            self.wait_for_more()
            yield self
        finally:
            self._enough.set()
            self._thread.join(node.LIMIT)
        if self._thread.is_alive():
            raise AssertionError(f'a write hangs after {self.written}')
        if self._error:
            raise self._error


class Writer(_Load):
    """Writes numbers to disks in step, from the first to the last.

    Each number is on one disk before it is written to the next one, so a disk
    never has a higher number than the disk before it.
    """

    def __init__(self, *paths):
        super().__init__()
        self._paths = paths

    def write(self, number):
        for path in self._paths:
            disk.write(path, place(number), block(number))
            disk.write(path, 0, block(number))


class Files(_Load):
    """Writes files, each of which is synced before the next is written."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder

    def write(self, number):
        with open(self._folder / str(number), 'wb') as stream:
            stream.write(disk.pattern(number, FILE))
            os.fsync(stream.fileno())

    @staticmethod
    def check(folder, number):
        """Raise AssertionError unless files up to a number are complete."""
        for one in range(1, number + 1):
            if (folder / str(one)).read_bytes() != disk.pattern(one, FILE):
                raise AssertionError(f'file {one} of {number} is incomplete')


def place(number):
    """Return the second offset at which a number is written."""
    return disk.MIB + number % 1024 * BLOCK


def block(number):
    """Return a block filled with its number."""
    return struct.pack('<Q', number) * (BLOCK // 8)


def last(path):
    """Return the number in the first block of a disk."""
    data = disk.read(path, 0, BLOCK)
    number, = struct.unpack('<Q', data[:8])
    if data != block(number):
        raise AssertionError(f'a torn block on {path}: {data[:16]!r}')
    return number


def check(path):
    """Check the last 1000 numbers of a disk; return the last one."""
    number = last(path)
    for one in range(max(1, number - 1000), number + 1):
        if disk.read(path, place(one), BLOCK) != block(one):
            raise AssertionError(f'{path} has {number}, but not {one}')
    return number
