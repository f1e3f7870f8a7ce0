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

"""Numbers for X-K2-Sequence (SEQ-1, SEQ-2).

It is not documented how long an array remembers the ids, so there are few: one
for each write that is under way at the same time. A number is used by one
write and all its repeats. The next write with the same id has a higher number,
which also keeps an earlier write with that id from being carried out late.
"""

import collections
from collections.abc import Iterator
import contextlib
import dataclasses
import os
import uuid


@dataclasses.dataclass
class _Slot:
    id: str
    pid: int
    number: int = 0


class Sequences:
    """The sequence ids of this process; may be used by any thread."""

    def __init__(self) -> None:
        # append() and pop() are atomic. A lock could stay held in a fork.
        self._free: collections.deque[_Slot] = collections.deque()

    @contextlib.contextmanager
    def next(self) -> Iterator[str]:
        """The header of one write; no other write uses its id meanwhile."""
        slot = self._take()
        slot.number += 1
        try:
            yield f'{slot.id}={slot.number}'
        finally:
            self._free.append(slot)

    def _take(self) -> _Slot:
        while self._free:
            try:
                slot = self._free.pop()
            except IndexError:
                break
            # In a forked process, the slots of the parent are not used.
            if slot.pid == os.getpid():
                return slot
        return _Slot(f'k2-{uuid.uuid4().hex}', os.getpid())
