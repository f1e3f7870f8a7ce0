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

"""The rate limit: a token bucket, off by default (ERR-5)."""

import threading

from k2_sim import clock as clock_module
from k2_sim import errors
from k2_sim import profiles


class Limiter:
    """Allows a number of requests per second, and a burst."""

    def __init__(self, behaviors: profiles.Behaviors,
                 clock: clock_module.Clock) -> None:
        self._behaviors = behaviors
        self._clock = clock
        self._spent = 0.0
        self._last = clock.monotonic()
        self._lock = threading.Lock()

    def take(self, role: str) -> None:
        """Count a request; raises ApiError (429) beyond the limit."""
        rate, burst = self._behaviors.rate_limit, self._behaviors.rate_burst
        if rate <= 0 or role == 'root':
            return
        with self._lock:
            now = self._clock.monotonic()
            self._spent = max(0.0, self._spent - (now - self._last) * rate)
            self._last = now
            if self._spent + 1 > burst:
                raise errors.ApiError(429, 'Too many requests')
            self._spent += 1
