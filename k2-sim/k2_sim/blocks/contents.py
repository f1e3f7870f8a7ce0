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

"""The data of tokens: one sparse file for each, in one directory.

A token stands for the data of a volume, or of its image in a snapshot or
view. It is globally unique: the same token on two arrays is the same data.
This module does not know which rows have which token. On Btrfs each file is
in a subvolume of its own, so that a copy takes the same time for any size.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import re
import threading
import time
import uuid

from k2_sim.blocks import btrfs
from k2_sim import errors

# Of linux/fs.h and linux/falloc.h.
_FICLONE = 0x40049409
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
# The errors of a file system that lacks one of these.
_UNABLE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY, errno.EXDEV,
           errno.ENOSYS)
FORM = r'\A[0-9a-f]{32}\Z'
_MODE = 0o600
_CHUNK = 2 ** 20
BLOCK = 4096
# The file of a token in its subvolume.
_DATA = 'data'
# flush() writes to disk up to this many times, as there are new writes
# meanwhile, and ends after a pass that took less than this many seconds.
_FLUSHES = 4
_QUICK = 0.03

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64,
                            ctypes.c_int64)


class Contents:
    """The files in a directory, which is made if it is missing.

    All sizes and offsets are in bytes. shown: the directory's name in
    messages, if that is another one. is_new: whether it was missing. live:
    tokens of files that change without a call of this class, because
    initiators write to them. busy: tokens of files with a write in
    progress. pause: returns a context in which initiators do not write; the
    data plane sets it.

    Raises StateError when a file or the directory cannot be used.
    """

    def __init__(self, directory: str | os.PathLike[str],
                 shown: pathlib.Path | None = None) -> None:
        self.directory = pathlib.Path(directory)
        self.shown = shown or self.directory
        self.live: set[str] = set()
        self.busy: set[str] = set()
        self.pause: Callable[
            [], contextlib.AbstractContextManager[object]
        ] = contextlib.nullcontext
        # Held while a call changes a file that initiators could change.
        self.writing = threading.RLock()
        self._changed_lock = threading.Lock()
        self._changed: set[str] = set()
        self._were_live: set[str] = set()
        with self._explained('use'):
            self.is_new = not self.directory.exists()
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._has_subvolumes = btrfs.is_on(self.directory)
            self._tokens = set(self._found())
        # Unused, and not deleted yet.
        self._removing: set[str] = set()

    @contextlib.contextmanager
    def _explained(self, wanted: str) -> Iterator[None]:
        """Turn errors of the file system into StateError."""
        try:
            yield
        except (OSError, OverflowError) as exc:
            reason = getattr(exc, 'strerror', None) or exc
            if getattr(exc, 'errno', None) == errno.EROFS:
                reason = (f'{reason}; after an error, as of a full disk, free'
                          ' space and start k2-sim again')
            raise errors.StateError(f'cannot {wanted} contents in'
                                    f' {self.shown}: {reason}') from exc

    def _found(self) -> Iterator[str]:
        """The tokens that have a file."""
        for place in self.directory.iterdir():
            if not re.fullmatch(FORM, place.name):
                continue
            if place.is_dir() and not (place / _DATA).exists():
                # Left by a process that was killed, or by a snapshot of the
                # directory, which does not include subvolumes.
                with contextlib.suppress(OSError):
                    place.rmdir()
            else:
                yield place.name

    def tokens(self) -> set[str]:
        """All tokens that have a file."""
        return set(self._tokens)

    def has(self, token: str) -> bool:
        """Whether a token has a file."""
        return token in self._tokens

    def is_being_removed(self, token: str) -> bool:
        """Whether a token must wait, as its old file is being removed."""
        return token in self._removing

    def is_changing(self, token: str) -> bool:
        """Whether initiators write to a file now, or may at any time."""
        return token in self.live or token in self.busy

    @contextlib.contextmanager
    def quiesced(self) -> Iterator[None]:
        """Pause all writes of initiators within the context."""
        with self.writing, self.pause():
            yield

    def path(self, token: str) -> pathlib.Path:
        """The file of a token, whether it is there or not.

        Raises ValueError for an invalid token.
        """
        place = self._place(token)
        return place / _DATA if place.is_dir() else place

    def _place(self, token: str) -> pathlib.Path:
        """The file of a token, or the subvolume that it is in."""
        if not re.fullmatch(FORM, token):
            raise ValueError(f'no token of a file: {token!r}')
        return self.directory / token

    @contextlib.contextmanager
    def _open(self, token: str, flags: int) -> Iterator[int]:
        descriptor = os.open(self.path(token), flags | os.O_CLOEXEC, _MODE)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
            if flags & (os.O_WRONLY | os.O_RDWR):
                with self._changed_lock:
                    self._changed.add(token)

    def changed(self) -> set[str]:
        """The files that may have changed since the last call.

        Only one caller may use it, as each call starts a new list. Files
        that were live at the last call are included; before initiators write
        to another one, a call of this class changes it.
        """
        with self._changed_lock:
            found, self._changed = self._changed | self._were_live, set()
            self._were_live = set(self.live)
        return found

    def read(self, token: str, offset: int, length: int) -> bytes:
        """Read data; zeros beyond the end, and for the token ''."""
        if not token:
            return bytes(length)
        with self._explained('read'), self._open(token, os.O_RDONLY) as file:
            return _read(file, offset, length)

    def write(self, token: str, offset: int, data: bytes) -> None:
        """Write data; it is on disk when the call returns."""
        with self._explained('write'), \
                self._open(token, os.O_WRONLY) as file:
            _write(file, offset, data)
            os.fdatasync(file)

    def patch(self, token: str, runs: Iterable[tuple[int, bytes]]) -> None:
        """Write data at several offsets; zeros become holes.

        The data is on disk only after rename().
        """
        with self._explained('write'), self._open(token, os.O_RDWR) as file:
            for offset, data in runs:
                if data.count(0) == len(data):
                    _punch(file, offset, len(data))
                else:
                    _write(file, offset, data)

    def discard(self, token: str, offset: int, length: int) -> None:
        """Discard data: it reads as zeros, and its space is freed."""
        with self._explained('write'), \
                self._open(token, os.O_RDWR) as file:
            end = min(offset + length, os.fstat(file).st_size)
            if offset < end:
                _punch(file, offset, end - offset)
                os.fdatasync(file)

    def resize(self, token: str, size: int) -> None:
        """Extend a file, unless it is longer already (VOL-2)."""
        with self._explained('grow'), self._open(token, os.O_RDWR) as file:
            _grow(file, size)

    def size(self, token: str) -> int:
        """The size of a file."""
        with self._explained('read'):
            return self.path(token).stat().st_size

    def used(self, token: str) -> int:
        """The disk space of a file."""
        with self._explained('read'):
            return self.path(token).stat().st_blocks * 512

    def flush(self, tokens: Collection[str]) -> None:
        """Write files to disk, so that little is left to do for clone().

        Initiators continue to write meanwhile.
        """
        with self._explained('write'):
            for _ in range(_FLUSHES):
                begin = time.monotonic()
                self._sync(tokens)
                if time.monotonic() - begin < _QUICK:
                    return

    def _sync(self, tokens: Collection[str]) -> None:
        if self._has_subvolumes:
            # The metadata, too.
            btrfs.sync(self.directory)
            return
        for token in filter(self.has, tokens):
            with self._open(token, os.O_RDONLY) as file:
                os.fdatasync(file)

    def clone(self, token: str, size: int = 0) -> str:
        """Copy the file of a token, on disk; returns the new token.

        token '' is an empty file. The copy has at least that size. It shares
        the blocks if the file system can; otherwise all data except holes is
        copied.
        """
        new = uuid.uuid4().hex
        with self._explained('copy'):
            try:
                if token and self._has_subvolumes \
                        and self._place(token).is_dir():
                    self._branch(new, token, size)
                else:
                    self._fill(new, token, size)
            except BaseException:
                self._delete(new)
                raise
        self._tokens.add(new)
        return new

    def _branch(self, new: str, token: str, size: int) -> None:
        """Copy a subvolume."""
        btrfs.snapshot(self._place(token), self._place(new))
        with self._changed_lock:
            self._changed.add(new)
        if self.path(new).stat().st_size < size:
            with self._open(new, os.O_RDWR) as target:
                _grow(target, size)
                os.fsync(target)

    def _fill(self, new: str, token: str, size: int) -> None:
        """Copy a file."""
        if self._has_subvolumes:
            btrfs.create(self._place(new))
        with self._open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL) as target:
            if token:
                with self._open(token, os.O_RDONLY) as source:
                    _copy(source, target)
            _grow(target, size)
            os.fsync(target)
        self._sync_directory()

    def _delete(self, token: str) -> None:
        """Delete the file of a token, and its subvolume, if they exist."""
        place = self._place(token)
        if place.is_dir():
            (place / _DATA).unlink(missing_ok=True)
            # An empty one is removed like any directory.
            place.rmdir()
        else:
            place.unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, token: str) -> str:
        """Create a second token for a file, on disk, and return it.

        Returns '' if the file is in a subvolume or cannot have a second link.
        The caller must remove the other token, as a write to one is in both.
        """
        new = uuid.uuid4().hex
        with self._explained('rename'):
            if self._place(token).is_dir():
                return ''
            try:
                os.link(self.path(token), self.path(new))
            except OSError as exc:
                if exc.errno not in (*_UNABLE, errno.EPERM, errno.EMLINK):
                    raise
                return ''
            self._sync_directory()
        self._tokens.add(new)
        return new

    def rename(self, old: str, new: str) -> None:
        """Give a complete file the token that it has elsewhere."""
        with self._explained('write'):
            with self._open(old, os.O_RDWR) as file:
                os.fsync(file)
            self._place(old).rename(self._place(new))
            self._sync_directory()
        self._tokens.discard(old)
        self._tokens.add(new)

    def forget(self, token: str) -> None:
        """Mark the file of a token as unused; remove() deletes it."""
        self._removing.add(token)
        self._tokens.discard(token)

    def remove(self, token: str) -> None:
        """Delete a file, if it exists."""
        self.forget(token)
        with self._explained('remove'):
            self._delete(token)
        self._removing.discard(token)

    def changes(self, token: str, base: str) -> Iterator[tuple[int, bytes]]:
        """Yield the runs of blocks in which a file differs from another one.

        base '' is all zeros. Each run is an offset and its data. Offsets go
        up; a run has at most 1 MiB, and none goes beyond the end of the file.
        """
        size = self.size(token)
        for start in sorted(self._chunks(token) | self._chunks(base)):
            length = min(_CHUNK, size - start)
            if length > 0:
                yield from _runs(start, self.read(token, start, length),
                                 self.read(base, start, length))

    def _chunks(self, token: str) -> set[int]:
        """The offsets of the chunks of a file with data."""
        if not token:
            return set()
        with self._explained('read'), self._open(token, os.O_RDONLY) as file:
            return {chunk * _CHUNK for start, end in extents(file)
                    for chunk in range(start // _CHUNK, -(-end // _CHUNK))}


def _read(file: int, offset: int, length: int) -> bytes:
    parts, end = [], offset + length
    while offset < end:
        part = os.pread(file, end - offset, offset)
        if not part:
            parts.append(bytes(end - offset))
            break
        parts.append(part)
        offset += len(part)
    return b''.join(parts)


def _write(file: int, offset: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        done = os.pwrite(file, rest, offset)
        rest, offset = rest[done:], offset + done


def _grow(file: int, size: int) -> None:
    if os.fstat(file).st_size < size:
        os.ftruncate(file, size)


def _punch(file: int, offset: int, length: int) -> None:
    """Make a hole, or write zeros if the file system has no holes."""
    if _LIBC.fallocate(file, _KEEP_SIZE_PUNCH_HOLE, offset, length) == 0:
        return
    number = ctypes.get_errno()
    if number not in _UNABLE:
        raise OSError(number, os.strerror(number))
    for start in range(offset, offset + length, _CHUNK):
        _write(file, start, bytes(min(_CHUNK, offset + length - start)))


def _copy(source: int, target: int) -> None:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as exc:
        if exc.errno not in _UNABLE:
            raise
        for start, end in extents(source):
            _copy_range(source, target, start, end)
        os.ftruncate(target, os.fstat(source).st_size)


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    """Copy in the kernel; an unsupported file system may return 0, too."""
    while start < end:
        try:
            done = os.copy_file_range(
                source, target, end - start, start, start)
        except OSError as exc:
            if exc.errno not in _UNABLE:
                raise
            done = 0
        if not done:
            _copy_by_hand(source, target, start, end)
            return
        start += done


def _copy_by_hand(source: int, target: int, start: int, end: int) -> None:
    for offset in range(start, end, _CHUNK):
        _write(target, offset, _read(
            source, offset, min(_CHUNK, end - offset)))


def extents(file: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each range with data, without holes."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


def _runs(start: int, new: bytes, old: bytes) -> Iterator[tuple[int, bytes]]:
    """The blocks of a chunk that differ, adjacent ones merged."""
    if new == old:
        return
    begin = None
    for at in range(0, len(new) + BLOCK, BLOCK):
        differs = new[at:at + BLOCK] != old[at:at + BLOCK]
        if differs and begin is None:
            begin = at
        elif not differs and begin is not None:
            yield start + begin, new[begin:at]
            begin = None
