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

"""Reads and writes of volumes and views as by hosts, without initiators."""

from collections.abc import Iterator
import contextlib

from k2_sim import core as core_module
from k2_sim.data import data_store as data_store_module
from k2_sim.data import null
from k2_sim import errors
from k2_sim.protocol import messages
from k2_sim.rules import base
from k2_sim.rules import replicas
from k2_sim.rules import system
from k2_sim.rules import volumes
from k2_sim.state.schema import Row


# The most bytes that one request reads or writes.
_LARGEST = messages.LARGEST_BODY
# Bytes of a text at the start of a volume, with the zero byte after it. The
# smallest volume has room for them.
_TEXT = 1024


class Data:
    """The bytes of one array. resource is volumes or volsnaps.

    Offsets and lengths are in bytes. Raises ApiError: 404 for a volume or
    image that does not exist, 416 for a range that is not in it, 400 for a
    write that a host could not do, and for an array without contents.
    """

    def __init__(self, core: core_module.Core) -> None:
        self._core = core

    @property
    def _data_store(self) -> data_store_module.DataStore | null.NullDataStore:
        return self._core.data_store

    def size(self, resource: str, number: int) -> int:
        """The size of a volume or image in bytes."""
        with self._core.lock:
            return int(self._row(resource, number)['size']
                       ) * data_store_module.KIB

    def _row(self, resource: str, number: int) -> Row:
        row = self._core.store.get(resource, number)
        if row is None or (resource, number) == (
                data_store_module.VOLUMES, volumes.CTRL_ID):
            raise errors.missing(f'/{resource}/{number}')
        return row

    def read(self, resource: str, number: int, offset: int, length: int
             ) -> bytes:
        """Read data; it is zeros where nothing was written."""
        if length > _LARGEST:
            raise errors.refused(
                f'One request reads at most {_LARGEST} bytes: give a Range')
        self._check_range(resource, number, offset, length)
        with self._data_store.pinned(lambda: replicas.content(
                self._row(resource, number))) as token, \
                self._counted(resource, number, length, reads=1):
            return self._data_store.contents.read(token, offset, length)

    @contextlib.contextmanager
    def _counted(self, resource: str, number: int, size: int, reads: int = 0,
                 writes: int = 0) -> Iterator[None]:
        """Add the I/O within the context to the statistics of a volume.

        size: bytes read or written. I/O of volsnaps is not counted.
        """
        began = self._core.clock.monotonic()
        yield
        if resource == data_store_module.VOLUMES:
            self._core.io.note(number, reads, writes, size,
                               self._core.clock.monotonic() - began)

    def _check_range(self, resource: str, number: int, offset: int,
                     length: int) -> None:
        size = self.size(resource, number)
        if offset < 0 or length < 0 or offset + length > size:
            raise errors.ApiError(
                416, f'/{resource}/{number} has {size} bytes')

    def write(self, resource: str, number: int, offset: int, data: bytes
              ) -> None:
        """Write as a host does (CAP-3); the data is on disk afterwards."""
        self._check_range(resource, number, offset, len(data))
        self.check_writable(resource, number)
        with self._data_store.writing(resource, number) as token, \
                self._counted(resource, number, len(data), writes=1):
            self._data_store.contents.write(token, offset, data)

    def discard(self, resource: str, number: int, offset: int, length: int
                ) -> None:
        """Discard a range, as UNMAP does: it reads as zeros afterwards."""
        self._check_range(resource, number, offset, length)
        self._check_open(resource, number)
        with self._data_store.writing(resource, number) as token:
            self._data_store.contents.discard(token, offset, length)

    def check_writable(self, resource: str, number: int) -> None:
        """Refuse what a host could not write now (CAP-3)."""
        self._check_open(resource, number)
        system.check_space(base.Scope(
            self._core.store, self._core.behaviors, self._core.clock))

    def _check_open(self, resource: str, number: int) -> None:
        """Refuse plain snapshots (SNP-5) and read-only replicas (REP-16)."""
        with self._core.lock:
            row = self._row(resource, number)
            if not (row['is_exposable']
                    if resource == data_store_module.VOLSNAPS
                    else not row['read_only']):
                raise errors.refused(f'{row["name"]} is read-only')

    def write_text(self, resource: str, number: int, text: str) -> None:
        """Write a text, and a zero byte after it, at the start of the data.

        Without files the text is the token that stands for the data.
        """
        if not self._data_store.has_files:
            self._set_token(resource, number, text)
            return
        data = text.encode() + b'\0'
        if len(data) > _TEXT:
            raise errors.refused(f'A token has at most {_TEXT - 1} bytes')
        self.write(resource, number, 0, data)

    def _set_token(self, resource: str, number: int, token: str) -> None:
        array = self._core
        with array.lock, array.store.transaction():
            self.check_writable(resource, number)
            array.store.update(resource, number, content=token)

    def read_text(self, row: Row) -> str:
        """What write_text() wrote to a row, under the array's lock."""
        if not self._data_store.has_files:
            return replicas.content(row)
        data = self._data_store.contents.read(replicas.content(row), 0, _TEXT)
        return data.partition(b'\0')[0].decode(errors='replace')
