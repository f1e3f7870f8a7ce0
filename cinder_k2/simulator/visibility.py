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

Both are counted in reads and kept in memory only: they model a moment.
"""

from typing import Any

from cinder_k2.simulator.schema import Row


class Ghost:
    """A deleted record that is still listed, as replies showed it."""

    def __init__(self, reply: Row, reads: int) -> None:
        self.reply = reply
        self.reads = reads

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

    def __init__(self) -> None:
        self._hidden: dict[tuple[str, int], int] = {}
        self._ghosts: dict[tuple[str, int], Ghost] = {}

    @property
    def is_clear(self) -> bool:
        """Whether reads show what is there, and nothing else."""
        return not self._hidden and not self._ghosts

    def hide(self, resource: str, number: int, reads: int) -> None:
        """Leave an object out of the next so many reads of it."""
        if reads > 0:
            self._hidden[(resource, number)] = reads

    def linger(self, resource: str, reply: Row, reads: int) -> None:
        """Show a deleted record in the next so many reads of it."""
        if reads > 0:
            self._ghosts[(resource, reply['id'])] = Ghost(reply, reads)

    def shows(self, resource: str, number: int) -> bool:
        """Whether a read shows the object; counts as one read of it."""
        reads = self._hidden.pop((resource, number), 0)
        if reads > 1:
            self._hidden[(resource, number)] = reads - 1
        return reads == 0

    def ghosts(self, resource: str) -> list[Ghost]:
        """The deleted records of a resource; counts nothing."""
        return [ghost for (name, _), ghost in self._ghosts.items()
                if name == resource]

    def ghost(self, resource: str, number: int) -> Ghost | None:
        """One deleted record; counts nothing."""
        return self._ghosts.get((resource, number))

    def seen(self, resource: str, ghost: Ghost) -> None:
        """Count one read of a deleted record."""
        ghost.reads -= 1
        if ghost.reads <= 0:
            self._ghosts.pop((resource, ghost.reply['id']), None)

    def clear(self) -> None:
        """Show what is there, and nothing else."""
        self._hidden.clear()
        self._ghosts.clear()
