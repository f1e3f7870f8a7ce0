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

"""Deadlines, and the pauses between two tries of one call."""

import copy
import random

from cinder_k2 import polling
from cinder_k2.rest import errors

# Longest first pause, and longest pause of all, in seconds.
BASE = 0.1
CAP = 5.0
# A 500 or a reply that is no JSON rarely recovers by itself: retrying for
# minutes is useless. Outages and busy arrays do recover, so those are retried
# until the deadline.
PERSISTENT_TRIES = 8


class Deadline:
    """The time limit of a call with all its retries.

    :ivar outage: seconds without a connection to the array after which a
        call ends; None: as many as the deadline allows
    """

    def __init__(self, seconds: float, clock: polling.Clock,
                 outage: float | None = None) -> None:
        self.seconds = seconds
        self.outage = outage
        self._clock = clock
        self._end = clock.monotonic() + seconds

    def during(self, outage: float | None) -> 'Deadline':
        """A copy with the same end, but another ``outage``."""
        same = copy.copy(self)
        same.outage = outage
        return same

    def left(self) -> float:
        """Seconds left; 0 after the deadline."""
        return max(0.0, self._end - self._clock.monotonic())


class Retry:
    """Paces the tries of one logical call: full jitter, doubling (ERR-2).

    :param most: tries for one bad object, where the call is about several;
        None: as many as the deadline allows
    :param once: no second try, whatever the error
    :param awaits_turn: a busy reply does not count as a try for ``once``
    :param most_failures: maximum of tries that end with 5xx or a dropped
        connection
    """

    def __init__(self, deadline: Deadline, clock: polling.Clock,
                 most: int | None = None, *, once: bool = False,
                 awaits_turn: bool = False,
                 most_failures: int | None = None) -> None:
        self._deadline = deadline
        self._clock = clock
        self._most = most
        self._once = once
        self._awaits_turn = awaits_turn
        self._most_failures = most_failures
        self._failures = 0
        self._bad = 0
        self._persistent = 0
        self._last: errors.RestError | None = None
        # When the array was last reached, or the call began.
        self._reached = clock.monotonic()
        self.tries = 0

    def pause(self, error: errors.RestError) -> None:
        """Sleep until the next try is due.

        :raises errors.RestError: if there is no next try: ``error``, or the
            one before if that is more useful
        """
        self.tries += 1
        self._persistent += _is_persistent(error)
        self._bad += is_of_an_object(error)
        self._failures += errors.is_server_failure(error)
        if not isinstance(error, errors.NotConnected):
            self._reached = self._clock.monotonic()
        # Only spreads load: nothing secret depends on it.
        delay = random.uniform(  # nosec B311
            0, min(CAP, BASE * 2 ** min(self.tries - 1, 10)))
        if self._is_last(error):
            raise error
        if (not error.retryable
                or self._persistent >= PERSISTENT_TRIES
                or self._bad == self._most
                or delay >= self._deadline.left()
                or self._is_outage(error, delay)):
            raise self._to_raise(error)
        self._last = error
        self._clock.sleep(delay)

    def _is_last(self, error: errors.RestError) -> bool:
        if self._most_failures and self._failures >= self._most_failures:
            return True
        return self._once and not (
            self._awaits_turn and isinstance(error, errors.Busy))

    def _is_outage(self, error: errors.RestError, delay: float) -> bool:
        """Whether the outage will be too long by the time of the next try."""
        outage = self._deadline.outage
        if outage is None or not isinstance(error, errors.NotConnected):
            return False
        return self._clock.monotonic() + delay >= self._reached + outage

    def _to_raise(self, error: errors.RestError) -> errors.RestError:
        # The last try may have been cut off by the deadline: then the error
        # before is more useful. An array that drops connections is not slow.
        if self._last and (isinstance(error, errors.OutOfTime) or (
                isinstance(error, errors.Unreachable)
                and not isinstance(self._last, errors.Unreachable)) or (
                isinstance(error, errors.NoReply)
                and type(self._last) is errors.Unreachable)):
            return self._last
        return error


def is_of_an_object(error: errors.RestError) -> bool:
    """Whether one object may be the reason: a busy code, or 500."""
    return error.code is not None or error.status == 500


def _is_persistent(error: errors.RestError) -> bool:
    return isinstance(error, errors.BadReply) or error.status in (500, 501)
