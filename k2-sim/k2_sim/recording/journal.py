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

"""The latest requests to the array, and how many were concurrent."""

import collections
from collections.abc import Callable
import itertools
import threading

import msgspec

from k2_sim.recording import masking

# The most requests kept, and the most characters of their texts.
KEPT = 20000
_KEPT_TEXT = 2 ** 24


# It has no reference cycles: the garbage collector can skip the many
# entries that are kept.
class Entry(msgspec.Struct, gc=False):
    """One request. Times are the array's monotonic seconds.

    in_flight: how many requests, this one included, the array had not yet
    answered when it came. status: None while it runs, 0 if a fault broke
    the connection. fault: the kind of the fault, or ''. carried_out: False
    if the fault prevented it.
    """

    method: str
    path: str
    query: str
    sequence: str
    started: float
    in_flight: int
    ended: float | None = None
    status: int | None = None
    fault: str = ''
    carried_out: bool = True

    @property
    def length(self) -> int:
        """The number of characters of the texts that the caller chose."""
        return (len(self.method) + len(self.path) + len(self.query)
                + len(self.sequence))


class Journal:
    """The latest requests since the last clear, safe for threads."""

    def __init__(self) -> None:
        self._entries: collections.deque[Entry] = collections.deque()
        self._length = 0
        self._lock = threading.Lock()
        self._in_flight = 0
        self._most = 0
        self._count = 0

    def enter(self, method: str, path: str, query: str, sequence: str,
              now: float) -> Entry:
        """Add a request that starts; secrets in its query are masked."""
        with self._lock:
            self._in_flight += 1
            self._count += 1
            self._most = max(self._most, self._in_flight)
            entry = Entry(method, path, masking.query(query), sequence, now,
                          self._in_flight)
            self._entries.append(entry)
            self._length += entry.length
            while len(self._entries) > KEPT or self._length > _KEPT_TEXT:
                self._length -= self._entries.popleft().length
        return entry

    def leave(self, entry: Entry, status: int, now: float) -> None:
        """Record that a request has been answered."""
        with self._lock:
            self._in_flight -= 1
            entry.status, entry.ended = status, now

    def entries(self) -> list[Entry]:
        """The latest requests since the last clear, oldest first."""
        with self._lock:
            return [msgspec.structs.replace(entry) for entry in self._entries]

    def newest(self, most: int, wanted: Callable[[Entry], bool]
               ) -> list[Entry]:
        """At most this many of the wanted requests, the newest first."""
        with self._lock:
            found = filter(wanted, reversed(self._entries))
            return [msgspec.structs.replace(entry)
                    for entry in itertools.islice(found, most)]

    @property
    def count(self) -> int:
        """How many requests came since the last clear."""
        return self._count

    @property
    def max_in_flight(self) -> int:
        """The most concurrent requests since the last clear."""
        return self._most

    def clear(self) -> None:
        """Remove the requests; those in progress still count as concurrent."""
        with self._lock:
            self._entries.clear()
            self._length = 0
            self._count = 0
            self._most = self._in_flight
