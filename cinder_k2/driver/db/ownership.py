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

"""The array's objects that belong to Cinder, from the rows of its database.

A row owns the object in its provider_id; without one that is valid here, the
object with its name. Rows of every back end count.
"""

from collections.abc import Iterable
import typing

from cinder import context
from cinder import objects

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.db import provider_id
from cinder_k2 import naming
from cinder_k2 import rest

Row = typing.Any


class Ownership:
    """Cinder's ids by their objects on one array."""

    def __init__(self) -> None:
        self._by_ref: dict[rest.Ref, str] = {}
        self._by_name: dict[str, str] = {}

    def of(self, ref: rest.Ref, *names: str | None) -> str | None:
        """Cinder's id of that object, or of one with one of the names."""
        found = self._by_ref.get(ref)
        for name in names:
            found = found or self._by_name.get(name or '')
        return found

    def add(self, row: Row, ref: rest.Ref | None, names: Iterable[str]
            ) -> None:
        """Add a row; names count only if it has no object here."""
        if ref is not None:
            self._by_ref[ref] = row.id
        else:
            self._by_name.update((name, row.id) for name in names)


def volumes(system_id: str, rows: Iterable[Row] = (), *,
            having: tuple[str, str | int] | None = None,
            names: Iterable[str | None] = ()) -> Ownership:
    """The owners of volumes and views of an array.

    :param rows: rows that are already known
    :param having: what provider_id must contain for more rows to be read from
        the database; those of the whole array if not given
    :param names: names of objects, whose rows are read, too
    """
    owners = Ownership()
    ids = _ids(names)
    read = objects.VolumeList.get_all
    for row in [*rows, *_read(read, _pattern(system_id, having)),
                *_read(read, {'id': ids}), *_read(read, {'_name_id': ids})]:
        made = provider_id.decode(ArrayVolume, system_id, row.provider_id,
                                  row.name_id)
        owners.add(row, made.mappable if made else None, [
            either for key in {row.id, row.name_id}
            for name in (naming.volume(key), naming.volume_group(key))
            for either in (name, naming.peer(name))])
    return owners


def snapshots(system_id: str, rows: Iterable[Row] = (), *,
              having: tuple[str, str | int] | None = None,
              names: Iterable[str | None] = ()) -> Ownership:
    """The owners of snapshots of an array; see ``volumes``."""
    owners = Ownership()
    read = objects.SnapshotList.get_all
    # Cinder cannot search for several ids of snapshots at once.
    named = [row for key in _ids(names) for row in _read(read, {'id': key})]
    for row in [*rows, *_read(read, _pattern(system_id, having)), *named]:
        made = provider_id.decode(ArraySnapshot, system_id, row.provider_id)
        owners.add(row, made.ref if made else None,
                   [naming.snapshot(row.id)])
    return owners


def _ids(names: Iterable[str | None]) -> list[str]:
    return [found for found in map(naming.cinder_id, names) if found]


def _pattern(system_id: str, having: tuple[str, str | int] | None
             ) -> dict[str, typing.Any]:
    # A tilde searches for rows that contain the text.
    return {'provider_id~': provider_id.fragment(
        *(having or ('system', system_id)))}


def _read(read: typing.Any, filters: dict[str, typing.Any]) -> list[Row]:
    if not all(filters.values()):
        return []
    return list(read(context.get_admin_context(), filters=filters))
