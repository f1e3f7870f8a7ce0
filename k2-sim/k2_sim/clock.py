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

"""The time of an array: real, shifted, or set by a test."""

import threading
import time

#: The end of time for arrays: the first second of the year 9999, as dates
#: after that year cannot be formatted.
END = 253370764800.0


class Clock:
    """Real time, plus what advance() added to it.

    It never goes back, whatever the machine's clock does.
    """

    def __init__(self) -> None:
        self._shift = 0.0
        self._setback = 0.0
        self._latest = 0.0
        self._lock = threading.Lock()

    def time(self) -> float:
        """Seconds since the epoch, UTC."""
        with self._lock:
            now = time.time() + self._shift + self._setback
            if now < self._latest:
                self._setback += self._latest - now
                now = self._latest
            self._latest = now
            return now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic() + self._shift

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time of the array."""
        with self._lock:
            self._shift += seconds

    def not_before(self, moment: float) -> None:
        """Advance the clock to a moment, unless that has passed already.

        moment: seconds since the epoch.
        """
        behind = moment - self.time()
        if behind > 0:
            self.advance(behind)


class FakeClock(Clock):
    """Time that changes only by sleep() and advance()."""

    def __init__(self, start: float = 1767225600.0) -> None:
        super().__init__()
        self._start = start
        self._passed = 0.0
        self._lock = threading.Lock()

    def time(self) -> float:
        """Seconds since the epoch: the start plus what has passed."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds passed since the clock was made."""
        return self._passed

    def sleep(self, seconds: float) -> None:
        """Return at once; the time has passed."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        with self._lock:
            self._passed += seconds
