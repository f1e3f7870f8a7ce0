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

"""Waiting with a deadline: the only place where the driver sleeps."""

from collections.abc import Callable
import time
from typing import TypeVar

T = TypeVar('T')


class Clock:
    """The machine's monotonic clock; tests replace it."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never decreases."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``."""
        time.sleep(seconds)


class WaitTimeout(Exception):
    """A condition did not become true within ``timeout`` seconds."""

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(f'{what}: not within {timeout:g} seconds')
        self.what = what
        self.timeout = timeout


def wait_until(predicate: Callable[[], T | None], timeout: float, *,
               what: str, interval: float = 1.0,
               clock: Clock | None = None) -> T:
    """Call ``predicate`` until its result is neither None nor False.

    It is called at least once, then every ``interval`` seconds, and a last
    time when ``timeout`` seconds have passed. Returns its result.

    :raises WaitTimeout: it never became true; ``what`` begins the message
    """
    clock = clock or Clock()
    end = clock.monotonic() + timeout
    while True:
        answer = predicate()
        if answer is not None and answer is not False:
            return answer
        left = end - clock.monotonic()
        if left <= 0:
            raise WaitTimeout(what, timeout)
        clock.sleep(min(interval, left))
