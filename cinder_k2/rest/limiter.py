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

"""Limits concurrent requests of a kind to an array (ERR-4, ERR-5).

The limit starts low, and doubles after each window of successes until the
array first replies that it is busy or gets too many requests (429). From then
on it is additive increase, multiplicative decrease: one slot more for each
window of successes, half as many slots after each further reply of that kind.
"""

from collections.abc import Iterator
import contextlib
import threading

START = 4


class Slot:
    """The permission to send one request; reports its result."""

    def __init__(self, limiter: 'RequestLimiter', era: int) -> None:
        self._limiter = limiter
        self._era = era

    def succeeded(self) -> None:
        """The array carried the request out."""
        self._limiter._opened()

    def congested(self) -> None:
        """The array replied that it is busy, or with 429."""
        self._limiter._narrowed(self._era)


class RequestLimiter:
    """Allows a varying number of concurrent requests, at most ``ceiling``."""

    def __init__(self, ceiling: int, start: int = START) -> None:
        self.ceiling = ceiling
        self._limit = min(start, ceiling)
        self._inside = 0
        self._successes = 0
        self._doubles = True
        # Concurrent requests hit the same congestion: only the first of them
        # may halve the limit.
        self._era = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """The current limit of concurrent requests."""
        return self._limit

    @contextlib.contextmanager
    def enter(self, timeout: float) -> Iterator[Slot | None]:
        """Wait ``timeout`` seconds for a slot; None if none became free."""
        with self._changed:
            free = self._changed.wait_for(self._has_room, timeout)
            if free:
                self._inside += 1
            era = self._era
        if not free:
            yield None
            return
        try:
            yield Slot(self, era)
        finally:
            self._leave()

    def _has_room(self) -> bool:
        return self._inside < self._limit

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify()

    def _opened(self) -> None:
        with self._changed:
            self._successes += 1
            if self._successes >= self._limit < self.ceiling:
                more = self._limit if self._doubles else 1
                self._limit = min(self._limit + more, self.ceiling)
                self._successes = 0
                self._changed.notify(more)

    def _narrowed(self, era: int) -> None:
        with self._changed:
            if era == self._era:
                self._limit = max(1, self._limit // 2)
                self._successes = 0
                self._doubles = False
                self._era += 1
