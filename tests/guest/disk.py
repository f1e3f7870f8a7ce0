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

"""Direct I/O to a disk, which bypasses the page cache."""

import contextlib
import fcntl
import hashlib
import mmap
import os
import random
import struct

MIB = 2 ** 20
GIB = 2 ** 30
_BLKDISCARD = 0x1277


def pattern(seed, length=MIB):
    """Return ``length`` pseudorandom bytes, the same for the same seed."""
    return random.Random(str(seed)).randbytes(length)


def checksum(data):
    """Return a digest to compare, as data itself is too long to print."""
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _opened(path, flags):
    descriptor = os.open(path, flags | os.O_DIRECT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(path, offset, data):
    """Write at an offset in bytes; it and the length are whole blocks."""
    with _opened(path, os.O_WRONLY) as descriptor, \
            mmap.mmap(-1, len(data)) as buffer:
        buffer[:] = data
        if os.pwritev(descriptor, [buffer], offset) != len(data):
            raise AssertionError(f'{path}: short write')


def read(path, offset, length=MIB):
    """Read at an offset in bytes; it and the length are whole blocks."""
    with _opened(path, os.O_RDONLY) as descriptor, \
            mmap.mmap(-1, length) as buffer:
        if os.preadv(descriptor, [buffer], offset) != length:
            raise AssertionError(f'{path}: short read')
        return buffer[:]


def size(path):
    """Return the size of a disk in bytes, as the kernel knows it."""
    with _opened(path, os.O_RDONLY) as descriptor:
        return os.lseek(descriptor, 0, os.SEEK_END)


def discard(path, offset, length):
    """Discard blocks (UNMAP); offset and length are in bytes."""
    with _opened(path, os.O_WRONLY) as descriptor:
        fcntl.ioctl(descriptor, _BLKDISCARD,
                    struct.pack('QQ', offset, length))
