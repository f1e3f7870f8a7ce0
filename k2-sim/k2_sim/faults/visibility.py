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

"""Stale reads: new objects missing (OBJ-6), deleted ones listed (QRY-10).

Both last for a number of reads, or for a number of seconds on the array's
clock, and are kept in memory only.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

from k2_sim import clock as clock_module
from k2_sim.state.schema import Row


# Expired entries are purged when the number of entries has doubled since the
# last purge and is at least _FEW; then at most _MOST of each kind are kept.
_FEW, _MOST = 100, 10000


class StaleWindow(NamedTuple):
    """How long reads do not see a change: in seconds if not 0, or in reads."""

    reads: int = 0
    seconds: float = 0.0


class StaleReads(NamedTuple):
    """How long reads do not see one write.

    late: of the object that a POST creates. linger: of the deletion of a
    snapshot; None: as the behaviors linger_reads and linger_seconds say.
    """

    late: StaleWindow = StaleWindow()
    linger: StaleWindow | None = None


@dataclasses.dataclass
class Countdown:
    """What is left of a stale window: a number of reads, or a time.

    until: seconds since the epoch; None if reads are counted.
    """

    reads: int
    until: float | None

    def is_over(self, now: float) -> bool:
        """Whether reads see the change at that time."""
        return self.reads <= 0 if self.until is None else now >= self.until


class DeletedRecord:
    """A deleted record that is still listed, as replies showed it."""

    def __init__(self, reply: Row, left: Countdown) -> None:
        self.reply = reply
        self.left = left

    def value(self, field: str) -> Any:
        """The value of a field, references as text."""
        value = self.reply.get(field)
        return value['ref'] if isinstance(value, dict) else value

    def shown(self, wanted: frozenset[str]) -> Row:
        """The record as a reply shows it; wanted empty: every field."""
        return {name: value for name, value in self.reply.items()
                if not wanted or name in wanted}


class Visibility:
    """The new objects that reads omit, and the deleted ones they list."""

    def __init__(self, clock: clock_module.Clock) -> None:
        self._clock = clock
        self._hidden: dict[tuple[str, int], Countdown] = {}
        self._deleted: dict[tuple[str, int], DeletedRecord] = {}
        self._limit = _FEW

    @property
    def is_clear(self) -> bool:
        """Whether no read is stale."""
        return not self._hidden and not self._deleted

    def hide(self, resource: str, number: int, window: StaleWindow) -> None:
        """Omit an object from reads for a while."""
        if any(window):
            self._hidden[(resource, number)] = self._countdown(window)
            self._purge()

    def forget(self, resource: str, number: int) -> None:
        """Stop omitting an id, as its object was deleted."""
        self._hidden.pop((resource, number), None)

    def linger(self, resource: str, reply: Row, window: StaleWindow) -> None:
        """List a deleted record in reads for a while."""
        if any(window):
            self._deleted[(resource, reply['id'])] = DeletedRecord(
                reply, self._countdown(window))
            self._purge()

    def _purge(self) -> None:
        """Remove expired entries, and the oldest beyond the limit."""
        if len(self._hidden) + len(self._deleted) < self._limit:
            return
        now = self._clock.time()
        self._hidden = dict([
            item for item in self._hidden.items()
            if not item[1].is_over(now)][-_MOST:])
        self._deleted = dict([
            item for item in self._deleted.items()
            if not item[1].left.is_over(now)][-_MOST:])
        self._limit = max(
            _FEW, 2 * (len(self._hidden) + len(self._deleted)))

    def _countdown(self, window: StaleWindow) -> Countdown:
        until = self._clock.time() + window.seconds
        return Countdown(window.reads, until if window.seconds else None)

    def shows(self, resource: str, number: int) -> bool:
        """Whether a read shows the object; counts as one read of it."""
        if not self._hidden:
            return True
        left = self._hidden.get((resource, number))
        if left is None:
            return True
        if left.is_over(self._clock.time()):
            del self._hidden[(resource, number)]
            return True
        left.reads -= 1
        return False

    def deleted_records(self, resource: str) -> list[DeletedRecord]:
        """The deleted records of a resource; does not count as a read."""
        now = self._clock.time()
        return [record for (name, _), record in self._deleted.items()
                if name == resource and not record.left.is_over(now)]

    def deleted_record(self, resource: str, number: int
                       ) -> DeletedRecord | None:
        """One deleted record, or None; does not count as a read."""
        found = self._deleted.get((resource, number))
        if found is None or found.left.is_over(self._clock.time()):
            return None
        return found

    def knows(self, resource: str, number: int) -> bool:
        """Whether reads of this id may still be stale."""
        left = self._hidden.get((resource, number))
        return (self.deleted_record(resource, number) is not None
                or left is not None and not left.is_over(self._clock.time()))

    def count_read(self, resource: str, record: DeletedRecord) -> None:
        """Count one read of a deleted record."""
        record.left.reads -= 1
        if record.left.is_over(self._clock.time()):
            self._deleted.pop((resource, record.reply['id']), None)

    def clear(self) -> None:
        """End all stale reads."""
        self._hidden.clear()
        self._deleted.clear()
