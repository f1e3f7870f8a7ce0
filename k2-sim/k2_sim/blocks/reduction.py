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

"""Data reduction: the space for all volumes on the array (CAP-4).

A file consists of blocks of 4 KiB. A block of zeros takes no space. In a
volume group with deduplication a block is stored once on the whole array.
Without it, a block is stored once per location: only a volume, its snapshots
and its thin clones share common blocks. Stored blocks are compressed; an
incompressible one takes its full size.

Only files that have changed are read again, and of these only their data.
"""

from array import array
import collections
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import time

import zstandard

from k2_sim.blocks import contents

BLOCK = contents.BLOCK
_ZEROS = bytes(BLOCK)
_CHUNK = 256 * BLOCK
# File systems advance their clocks every few milliseconds: a file that was
# just written may be written again without a new modification time.
_FRESH_NS = 100_000_000


@dataclasses.dataclass(frozen=True)
class Image:
    """One volume, or its image in a snapshot or view, that has data.

    key: the key of its figures. lineage: the id of the original volume, whose
    descendants share locations.
    """

    key: tuple[str, int]
    token: str
    lineage: int
    is_volume: bool


@dataclasses.dataclass(frozen=True)
class Group:
    """A volume group and its content, the oldest images first."""

    is_dedup: bool
    images: tuple[Image, ...]


@dataclasses.dataclass(frozen=True)
class Figures:
    """The figures of all groups, in bytes.

    logical: by key; the data of a volume, or the data of an image that neither
    the volumes of its group nor an older image has. average: by key,
    the mean size of a compressed block, 0 if there is none. physical: the
    space after reduction.
    """

    logical: dict[tuple[str, int], int]
    average: dict[tuple[str, int], float]
    physical: int

    @functools.cached_property
    def measured(self) -> int:
        """The data of all volumes and images, before reduction."""
        return sum(self.logical.values())

    def differing(self, other: 'Figures | None') -> set[tuple[str, int]]:
        """The keys whose figures differ in other, or are missing there."""
        if other is None:
            return set(self.logical)
        return {key for key, size in self.logical.items()
                if other.logical.get(key) != size
                or other.average[key] != self.average[key]}


class Blocks:
    """The blocks of a file that are not zero, in order.

    Three columns: the number of the block in the file, the hash of its
    data, and its compressed size.
    """

    def __init__(self) -> None:
        self.places = array('Q')
        self.hashes = array('Q')
        self.sizes = array('H')

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: int, digest: int, size: int) -> None:
        """Append a block."""
        self.places.append(place)
        self.hashes.append(digest)
        self.sizes.append(size)

    def keys(self, lineage: int | None) -> Iterator[int]:
        """The identity of each block.

        That is its hash alone or, if a lineage is given, a hash of the
        lineage, its number in the file, and its hash.
        """
        if lineage is None:
            return iter(self.hashes)
        return (hash((lineage, place, digest)) for place, digest
                in zip(self.places, self.hashes))

    @functools.cached_property
    def average(self) -> float:
        """The mean size of a compressed block, in bytes; 0 without any."""
        return sum(self.sizes) / len(self) if self.sizes else 0.0


def read(path: pathlib.Path, before: Blocks) -> Blocks:
    """The blocks of a file; unchanged ones are not compressed again.

    A missing file has none.
    """
    found = Blocks()
    sizes = dict(zip(before.hashes, before.sizes))
    compressed = _compressor()
    for place, block in _blocks(path):
        digest = int.from_bytes(
            hashlib.blake2b(block, digest_size=8).digest(), 'big')
        size = sizes.get(digest)
        if size is None:
            size = sizes[digest] = compressed(block)
        found.add(place, digest, size)
    return found


def reduced(data: bytes) -> int:
    """The size of data, with each block compressed separately."""
    compressed = _compressor()
    return sum(compressed(block) for _, block in _placed(data, 0))


def _compressor() -> Callable[[bytes], int]:
    """A function that returns the compressed size of a block."""
    compress = zstandard.ZstdCompressor(level=1).compress
    return lambda block: min(len(compress(block)), BLOCK)


def _blocks(path: pathlib.Path) -> Iterator[tuple[int, bytes]]:
    """The blocks that are not zero, with their numbers."""
    with contextlib.suppress(FileNotFoundError), path.open('rb', 0) as file:
        for start, end in _extents(file.fileno()):
            for offset in range(start, end, _CHUNK):
                yield from _placed(os.pread(
                    file.fileno(), min(_CHUNK, end - offset), offset), offset)


def _placed(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The blocks of data that are not zero, with their numbers."""
    for at in range(0, len(data), BLOCK):
        block = data[at:at + BLOCK].ljust(BLOCK, b'\0')
        if block != _ZEROS:
            yield (offset + at) // BLOCK, block


def _extents(file: int) -> Iterator[tuple[int, int]]:
    """The ranges of a file with data, in whole blocks."""
    done = 0
    for start, end in contents.extents(file):
        start = max(done, start // BLOCK * BLOCK)
        done = -(-end // BLOCK) * BLOCK
        yield start, done


class Ledger:
    """The reference counts of blocks, and their total size in bytes."""

    def __init__(self) -> None:
        self.physical = 0
        self._uses: collections.Counter[int] = collections.Counter()

    def add(self, blocks: Blocks, lineage: int | None) -> None:
        """Count the blocks of a file; lineage: see Blocks.keys()."""
        for key, size in zip(blocks.keys(lineage), blocks.sizes):
            self._uses[key] += 1
            if self._uses[key] == 1:
                self.physical += size

    def remove(self, blocks: Blocks, lineage: int | None) -> None:
        """Remove a file that was counted."""
        for key, size in zip(blocks.keys(lineage), blocks.sizes):
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key]
                self.physical -= size


@dataclasses.dataclass
class _File:
    """A file as it was read: its signature then, and its blocks."""

    stamp: tuple[int, ...] = ()
    blocks: Blocks = dataclasses.field(default_factory=Blocks)


class Reduction:
    """The figures of all files, kept up to date. Not thread-safe.

    path: returns the path of a token's file. changed: returns the tokens
    whose files may have changed since it was called last; without it, every
    file is checked each time.
    """

    def __init__(self, path: Callable[[str], pathlib.Path],
                 changed: Callable[[], Collection[str]] | None = None
                 ) -> None:
        self._path = path
        self._changed = changed
        self._files: dict[str, _File] = {}
        # Files to check.
        self._suspects: set[str] = set()
        self._seen: Collection[Group] = ()
        self._figures: Figures | None = None
        self._ledger = Ledger()
        self._counted: dict[tuple[str, int | None], Blocks] = {}
        self._groups: dict[Group, tuple[list[Blocks], list[int]]] = {}

    def measure(self, groups: Collection[Group]) -> Figures:
        """Read changed files, and return the figures.

        groups is the complete list. The result is the same object as before
        if nothing has changed.
        """
        if groups != self._seen:
            self._figures = None
            self._take({image.token for group in groups
                        for image in group.images})
            self._seen = groups
        self._suspects.update(
            self._files if self._changed is None else self._changed())
        self._suspects.intersection_update(self._files)
        for token in list(self._suspects):
            self._read(token)
        if self._figures is None:
            self._figures = self._compute(groups)
        return self._figures

    def _take(self, tokens: set[str]) -> None:
        """Keep these files only."""
        for gone in self._files.keys() - tokens:
            del self._files[gone]
        for token in tokens - self._files.keys():
            self._files[token] = _File()
            self._suspects.add(token)

    def _read(self, token: str) -> None:
        """Read a file if it has changed."""
        file, stamp = self._files[token], _stamp(self._path(token))
        if not stamp or stamp != file.stamp:
            self._figures = None
            file.blocks = read(self._path(token), file.blocks)
            file.stamp = stamp
        if stamp:
            self._suspects.discard(token)

    def _compute(self, groups: Collection[Group]) -> Figures:
        images = [image for group in groups for image in group.images]
        self._count(groups)
        self._groups = {group: self._logical(group) for group in groups}
        return Figures(
            {image.key: BLOCK * blocks
             for group, (_, sums) in self._groups.items()
             for image, blocks in zip(group.images, sums)},
            {image.key: self._blocks(image).average for image in images},
            self._ledger.physical)

    def _blocks(self, image: Image) -> Blocks:
        return self._files[image.token].blocks

    def _count(self, groups: Collection[Group]) -> None:
        """Update the ledger from the files."""
        wanted = {
            (image.token, None if group.is_dedup else image.lineage):
                self._blocks(image)
            for group in groups for image in group.images}
        for key, blocks in list(self._counted.items()):
            if wanted.get(key) is not blocks:
                self._ledger.remove(self._counted.pop(key), key[1])
        for key, blocks in wanted.items():
            if key not in self._counted:
                self._ledger.add(blocks, key[1])
                self._counted[key] = blocks

    def _logical(self, group: Group) -> tuple[list[Blocks], list[int]]:
        """The blocks of each image, and how many of them it adds."""
        blocks = [self._blocks(image) for image in group.images]
        known = self._groups.get(group)
        if known is not None and known[0] == blocks:
            return known
        held = {key for image, found in zip(group.images, blocks)
                if image.is_volume for key in found.keys(image.lineage)}
        sums = []
        for image, found in zip(group.images, blocks):
            if image.is_volume:
                sums.append(len(found))
            else:
                before = len(held)
                held.update(found.keys(image.lineage))
                sums.append(len(held) - before)
        return blocks, sums


def _stamp(path: pathlib.Path) -> tuple[int, ...]:
    """The signature of a file; () if it might not show a later change."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0,)
    if abs(time.time_ns() - status.st_mtime_ns) < _FRESH_NS:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_blocks
