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

"""Objects that show late (OBJ-6) and deleted ones that linger (QRY-10).

Both last for some reads, or for some time, and are kept in memory only:
they model a moment.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

from k2_sim import clock as clock_module
from k2_sim.state.schema import Row


# What is over is thrown away when there are twice as many as were left the
# last time, and at least so many; more than the second number never stay.
_FEW, _MOST = 100, 10000


class Spell(NamedTuple):
    """How long reads do not see a change: so many seconds, else reads."""

    reads: int = 0
    seconds: float = 0.0


class Weather(NamedTuple):
    """What reads do not see of one write.

    late: what a POST makes. linger: that a snapshot is deleted; None
    leaves it to the behaviors.
    """

    late: Spell = Spell()
    linger: Spell | None = None


@dataclasses.dataclass
class Countdown:
    """What is left of a spell; until is None if reads are counted."""

    reads: int
    until: float | None

    def is_over(self, now: float) -> bool:
        """Whether reads see the change at that time."""
        return self.reads <= 0 if self.until is None else now >= self.until


class Ghost:
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
    """Which objects reads do not show yet, and which they still show."""

    def __init__(self, clock: clock_module.Clock) -> None:
        self._clock = clock
        self._hidden: dict[tuple[str, int], Countdown] = {}
        self._ghosts: dict[tuple[str, int], Ghost] = {}
        self._limit = _FEW

    @property
    def is_clear(self) -> bool:
        """Whether reads show what is there, and nothing else."""
        return not self._hidden and not self._ghosts

    def hide(self, resource: str, number: int, spell: Spell) -> None:
        """Leave an object out of reads for a while."""
        if any(spell):
            self._hidden[(resource, number)] = self._countdown(spell)
            self._purge()

    def forget(self, resource: str, number: int) -> None:
        """An object that may have been left out of reads is gone."""
        self._hidden.pop((resource, number), None)

    def linger(self, resource: str, reply: Row, spell: Spell) -> None:
        """Show a deleted record to reads for a while."""
        if any(spell):
            self._ghosts[(resource, reply['id'])] = Ghost(
                reply, self._countdown(spell))
            self._purge()

    def _purge(self) -> None:
        """Throw away what is over, and the oldest of far too many."""
        if len(self._hidden) + len(self._ghosts) < self._limit:
            return
        now = self._clock.time()
        self._hidden = dict([
            item for item in self._hidden.items()
            if not item[1].is_over(now)][-_MOST:])
        self._ghosts = dict([
            item for item in self._ghosts.items()
            if not item[1].left.is_over(now)][-_MOST:])
        self._limit = max(
            _FEW, 2 * (len(self._hidden) + len(self._ghosts)))

    def _countdown(self, spell: Spell) -> Countdown:
        until = self._clock.time() + spell.seconds
        return Countdown(spell.reads, until if spell.seconds else None)

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

    def ghosts(self, resource: str) -> list[Ghost]:
        """The deleted records of a resource; counts nothing."""
        now = self._clock.time()
        return [ghost for (name, _), ghost in self._ghosts.items()
                if name == resource and not ghost.left.is_over(now)]

    def ghost(self, resource: str, number: int) -> Ghost | None:
        """One deleted record; counts nothing."""
        found = self._ghosts.get((resource, number))
        if found is None or found.left.is_over(self._clock.time()):
            return None
        return found

    def knows(self, resource: str, number: int) -> bool:
        """Whether reads still have to do with what had this id."""
        left = self._hidden.get((resource, number))
        return (self.ghost(resource, number) is not None
                or left is not None and not left.is_over(self._clock.time()))

    def seen(self, resource: str, ghost: Ghost) -> None:
        """Count one read of a deleted record."""
        ghost.left.reads -= 1
        if ghost.left.is_over(self._clock.time()):
            self._ghosts.pop((resource, ghost.reply['id']), None)

    def clear(self) -> None:
        """Show what is there, and nothing else."""
        self._hidden.clear()
        self._ghosts.clear()
