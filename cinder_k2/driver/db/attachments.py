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

"""Who uses a volume from where, by Cinder's attachment rows.

Several attachments of a volume to one host share a mapping, which must go
with the last of them. Cinder removes the row of an attachment after the
driver is done, so the driver marks the row as released: it counts no more.

Cinder does not say whose attachment it ends, but gives the connector of its
row, which has a tag that the driver put there when the host connected.
Rows of other drivers have none: of these the driver marks any, and the mark
is void as soon as one that it could have been meant for is gone.

Rows are read and marked under the host's lock.
"""

from collections.abc import Iterable
from collections.abc import Set
import math
import time
import typing
import uuid

from cinder import objects

from cinder_k2 import transport as transports
from cinder_k2 import waiting

_TAG = 'k2_attachment'
_RELEASED = 'k2_released'
# Seconds that a mark is valid which may be on another's row, in case that
# Cinder fails and keeps the row.
_MARK_LASTS = 120.0

# Cinder notes an attachment's connector just after the driver has mapped
# the volume: what is about to be noted counts. Only volumes that several
# may attach can meet this; others are reserved without connector for long.
_NOTE_TAKES = 5.0

Row = typing.Any


def add_tag(connector: transports.Connector) -> None:
    """Have the row, in which Cinder puts this connector, be told apart."""
    typing.cast(dict[str, typing.Any], connector)[_TAG] = uuid.uuid4().hex


class Attachments:
    """The users of volumes through one transport."""

    def __init__(self, transport: transports.Transport) -> None:
        self._transport = transport

    def at(self, volume: typing.Any, initiators: list[str]) -> int:
        """How many attachments use the volume at the host of these."""
        return len(self._rows_at(volume, initiators))

    def elsewhere(self, volume: typing.Any,
                  initiators: list[str]) -> list[list[str]]:
        """The initiators of each attachment to another host."""
        here = _folded(initiators)
        return [names for row, names in self._rows(volume)
                if here.isdisjoint(_folded(names))]

    def release(self, volume: typing.Any, initiators: list[str],
                connector: transports.Connector) -> bool:
        """Release one attachment; whether others need the mapping.

        :param connector: that of its row
        """
        tag = connector.get(_TAG)
        rows = self._rows_at(volume, initiators)
        if not _staying(rows, tag) and volume.multiattach:
            self._let_cinder_note(volume)
            rows = self._rows_at(volume, initiators)
        if not _staying(rows, tag):
            return False
        if tag is None:
            _mark_any(rows)
        for row in rows:
            if tag is not None and _tag(row) == tag:
                _mark(row, math.inf)
        return True

    def mark(self, volume: typing.Any, initiators: list[str]) -> None:
        """Mark what was released, for those who look from other hosts."""
        rows = self._rows_at(volume, initiators)
        if rows:
            _mark_any(rows)

    def _rows_at(self, volume: typing.Any,
                 initiators: list[str]) -> list[Row]:
        here = _folded(initiators)
        return [row for row, names in self._rows(volume)
                if not here.isdisjoint(_folded(names))]

    def _rows(self, volume: typing.Any) -> list[tuple[Row, list[str]]]:
        rows = []
        every = _all_rows(volume)
        ids = {row.id for row in every}
        for row in every:
            try:
                names = self._transport.initiators(row.connector or {})
            except transports.NoInitiators:
                continue
            if not _is_marked(row, ids):
                rows.append((row, names))
        return rows

    def _let_cinder_note(self, volume: typing.Any) -> None:
        try:
            waiting.wait_until(
                lambda: all(row.connector for row in _all_rows(volume)),
                _NOTE_TAKES, interval=0.1, what='connectors')
        except waiting.WaitTimeout:
            # A reservation that nobody is connecting yet.
            pass


def _all_rows(volume: typing.Any) -> list[Row]:
    """The rows as they are now: those in hand may be older than the lock."""
    return list(objects.VolumeAttachmentList.get_all_by_volume_id(
        volume._context, volume.id))


def _tag(row: Row) -> str | None:
    found: str | None = (row.connector or {}).get(_TAG)
    return found


def _staying(rows: list[Row], tag: str | None) -> list[Row]:
    """Without the one that leaves; which one of many, nobody may know."""
    if tag is None:
        return rows[1:]
    return [row for row in rows if _tag(row) != tag]


def _mark_any(rows: list[Row]) -> None:
    """Mark one of the rows that could be the one that leaves."""
    candidates = [row for row in rows if _tag(row) is None] or rows
    _mark(candidates[0], time.time() + _MARK_LASTS, candidates)


def _mark(row: Row, until: float, candidates: Iterable[Row] = ()) -> None:
    row.connector = {**row.connector, _RELEASED: ' '.join(
        [str(until), *(each.id for each in candidates)])}
    row.save()


def _is_marked(row: Row, ids: Set[str]) -> bool:
    mark = (row.connector or {}).get(_RELEASED)
    if mark is None:
        return False
    until, *candidates = mark.split()
    return float(until) > time.time() and ids >= set(candidates)


def _folded(initiators: list[str]) -> set[str]:
    """For comparison: initiators have no case (INI-4, INI-5)."""
    return {initiator.lower() for initiator in initiators}
