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

"""Users of a volume on each host, from Cinder's attachment rows. Read-only.

Several attachments of a volume to one host share a mapping, which must be
removed with the last of them. Cinder removes the row of an attachment after
the driver is done, and stores the connector of a new one after the driver has
mapped: so two concurrent detaches may each see the other's row, and a row may
not yet show its host. Both count as users here; mappings that stay for no
other reason are removed by ``cinder_k2.driver.operations.reconciliation``.

Rows are read while the host is held, with the lock of the volume's mapping
if others may be inside.
"""

import typing

from cinder import objects

from cinder_k2 import transport as transports

Row = typing.Any


class Attachments:
    """The users of volumes through one transport."""

    def __init__(self, transport: transports.Transport) -> None:
        self._transport = transport

    def at(self, volume: typing.Any, initiators: list[str]) -> int:
        """The number of a volume's attachments to a host, by initiators."""
        return self._placed(_rows(volume), initiators)

    def using(self, volume: typing.Any, initiators: list[str]) -> int:
        """The number of attachments that use a volume on that host, or may.

        For multiattach volumes, rows without a connector count as well:
        reservations, and attaches whose connector Cinder is about to store.
        For other volumes, such a row is a reservation for another host, to
        which the volume is about to move.
        """
        rows = _rows(volume)
        unplaced = self._unplaced(rows) if volume.multiattach else 0
        return self._placed(rows, initiators) + unplaced

    def may_use(self, volume: typing.Any, initiators: list[str]) -> bool:
        """Whether any attachment may use the volume on that host."""
        rows = _rows(volume)
        return bool(self._placed(rows, initiators) or self._unplaced(rows))

    def coming(self, volume: typing.Any) -> int:
        """The number of rows that do not show their host."""
        return self._unplaced(_rows(volume))

    def elsewhere(self, volume: typing.Any, initiators: list[str]
                  ) -> list[transports.Connector]:
        """The connector of each attachment to another host."""
        wanted = _folded(initiators)
        return [row.connector for row in _rows(volume)
                if (names := self._initiators(row))
                and wanted.isdisjoint(_folded(names))]

    def _placed(self, rows: list[Row], initiators: list[str]) -> int:
        wanted = _folded(initiators)
        return sum(not wanted.isdisjoint(_folded(self._initiators(row)))
                   for row in rows)

    def _unplaced(self, rows: list[Row]) -> int:
        return sum(not self._initiators(row) for row in rows)

    def _initiators(self, row: Row) -> list[str]:
        """The initiators of a row; none if it does not show them."""
        try:
            return self._transport.initiators(row.connector or {})
        except transports.NoInitiators:
            return []


def _rows(volume: typing.Any) -> list[Row]:
    """The current rows: those of ``volume`` may be older than the lock."""
    return list(objects.VolumeAttachmentList.get_all_by_volume_id(
        volume._context, volume.id))


def _folded(initiators: list[str]) -> set[str]:
    """Normalized: initiators are case-insensitive (INI-4, INI-5)."""
    return {initiator.lower() for initiator in initiators}
