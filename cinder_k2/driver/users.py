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
with the last of them. Cinder says which connector to terminate but not
whose attachment that was, and removes the row after the driver is done. So
the driver marks a row of that host as released, whichever: they are alike.
Rows are read and marked under the host's lock.
"""

import time
import typing

from cinder import objects

from cinder_k2 import transport as transports
from cinder_k2 import waiting

# Where a row's connector says when it was released. A mark counts for a
# time only: if Cinder fails after the driver, the row lives on.
_RELEASED = 'k2_released'
_MARK_LASTS = 120.0

# Cinder notes an attachment's connector just after the driver has mapped
# the volume: what is about to be noted counts. Only volumes that several
# may attach can meet this; others are reserved without connector for long.
_NOTE_TAKES = 5.0


class Users:
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

    def release(self, volume: typing.Any, initiators: list[str]) -> bool:
        """Release one attachment; whether others need the mapping."""
        rows = self._rows_at(volume, initiators)
        if len(rows) < 2 and volume.multiattach:
            self._let_cinder_note(volume)
            rows = self._rows_at(volume, initiators)
        if len(rows) < 2:
            return False
        _mark(rows[0])
        return True

    def mark(self, volume: typing.Any, initiators: list[str]) -> None:
        """Mark what was released, for those who look from other hosts."""
        for row in self._rows_at(volume, initiators)[:1]:
            _mark(row)

    def _rows_at(self, volume: typing.Any,
                 initiators: list[str]) -> list[typing.Any]:
        here = _folded(initiators)
        return [row for row, names in self._rows(volume)
                if not here.isdisjoint(_folded(names))]

    def _rows(self, volume: typing.Any
              ) -> list[tuple[typing.Any, list[str]]]:
        rows = []
        for row in _all_rows(volume):
            try:
                names = self._transport.initiators(row.connector or {})
            except transports.NoInitiators:
                continue
            if not _is_marked(row):
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


def _all_rows(volume: typing.Any) -> list[typing.Any]:
    """The rows as they are now: those in hand may be older than the lock."""
    return list(objects.VolumeAttachmentList.get_all_by_volume_id(
        volume._context, volume.id))


def _mark(row: typing.Any) -> None:
    row.connector = {**row.connector, _RELEASED: str(time.time())}
    row.save()


def _is_marked(row: typing.Any) -> bool:
    when = (row.connector or {}).get(_RELEASED)
    return when is not None and time.time() - float(when) < _MARK_LASTS


def _folded(initiators: list[str]) -> set[str]:
    """For comparison: initiators have no case (INI-4, INI-5)."""
    return {initiator.lower() for initiator in initiators}
