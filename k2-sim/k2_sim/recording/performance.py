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

"""I/O of hosts, counted second by second (section 8).

The components that transfer data add to the counters; statistics sum them
up over a window of time. They are in memory only, and kept for an hour.
"""

from collections.abc import Iterator
import dataclasses
import threading

from k2_sim import clock as clock_module

KEPT_SECONDS = 3600
# Size classes of the breakdown: name, and the size of a request in bytes
# below which it is in the class.
_SIZES = (('lt8k', 2 ** 13), ('8k_64k', 2 ** 16), ('64k_256k', 2 ** 18))
_LARGEST = 'gt256k'
# Stands for deleted volumes: ids begin at 1.
_NOBODY = 0
# The fields rw and bs of stats/system.
Kind = tuple[str, str]


@dataclasses.dataclass
class Load:
    """Requests, their total bytes, and their total seconds.

    busiest: the most requests, and the most bytes, in one second.
    """

    requests: float = 0.0
    size: float = 0.0
    seconds: float = 0.0
    busiest: tuple[float, float] = (0.0, 0.0)

    def add(self, other: 'Load', factor: float = 1.0) -> None:
        """Add another load times a factor, except for its busiest second."""
        self.requests += factor * other.requests
        self.size += factor * other.size
        self.seconds += factor * other.seconds


_Second = dict[int, dict[Kind, Load]]


class Performance:
    """The counters of one array, safe for threads."""

    def __init__(self, clock: clock_module.Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By second, the oldest first; then by volume.
        self._seconds: dict[int, _Second] = {}

    def note(self, volume: int, reads: int, writes: int, size: int,
             seconds: float) -> None:
        """Count requests to a volume, by its id, that have just ended.

        size: total bytes. seconds: total duration.
        """
        requests = reads + writes
        if requests <= 0:
            return
        size_class = next((name for name, limit in _SIZES
                           if size < limit * requests), _LARGEST)
        load = Load(requests, size, seconds)
        with self._lock:
            kinds = self._now().setdefault(volume, {})
            for rw, count in (('r', reads), ('w', writes)):
                if count:
                    kinds.setdefault((rw, size_class), Load()).add(
                        load, count / requests)

    def _now(self) -> _Second:
        """The counters of this second; those too old are dropped."""
        now = int(self._clock.time())
        if now not in self._seconds:
            for second in list(self._seconds):
                if now - KEPT_SECONDS < second <= now:
                    break
                del self._seconds[second]
            self._seconds[now] = {}
        return self._seconds[now]

    def volumes(self, end: int, seconds: int) -> set[int]:
        """Ids of the volumes with requests in the seconds up to a time.

        end: that time, in seconds since the epoch. seconds: how many. The
        id 0 stands for deleted volumes.
        """
        with self._lock:
            return {volume for second in self._between(end, seconds)
                    for volume in second}

    def load(self, end: int, seconds: int, volume: int | None = None,
             rw: str = '', bs: str = '') -> Load:
        """The I/O in a number of seconds up to a time.

        end: that time, in seconds since the epoch. volume: the id, if only
        of one volume. rw, bs: only in this class.
        """
        whole = Load()
        with self._lock:
            for second in self._between(end, seconds):
                part = Load()
                for kinds in (second.values() if volume is None
                              else (second.get(volume, {}),)):
                    for kind, load in kinds.items():
                        if rw in ('', kind[0]) and bs in ('', kind[1]):
                            part.add(load)
                whole.add(part)
                whole.busiest = (max(whole.busiest[0], part.requests),
                                 max(whole.busiest[1], part.size))
        return whole

    def _between(self, end: int, seconds: int) -> Iterator[_Second]:
        """The counters of the seconds after end - seconds, up to end."""
        oldest = next(iter(self._seconds), end + 1)
        for second in range(max(oldest, end - seconds + 1), end + 1):
            if second in self._seconds:
                yield self._seconds[second]

    def retire(self, volume: int) -> None:
        """Detach the counters from an id that another volume gets.

        They still count for the whole array.
        """
        with self._lock:
            for second in self._seconds.values():
                for kind, load in second.pop(volume, {}).items():
                    second.setdefault(_NOBODY, {}).setdefault(
                        kind, Load()).add(load)

    def clear(self) -> None:
        """Remove all counters."""
        with self._lock:
            self._seconds.clear()
