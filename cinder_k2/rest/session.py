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

"""One logical call to an array, with its repeats and lookups of its outcome.

Section 3 of the API rules says after which replies to repeat a request. A
write without a reply is repeated only after a lookup has shown no effect of
it, and with the same X-K2-Sequence number where the array accepts that header
(SEQ-1), so that a lost reply never leads to two objects or to none.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import threading
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar

import requests.adapters

from cinder_k2 import polling
from cinder_k2.rest import attempts
from cinder_k2.rest import calls
from cinder_k2.rest import capabilities
from cinder_k2.rest import capability_names
from cinder_k2.rest import errors
from cinder_k2.rest import limiter
from cinder_k2.rest import retry
from cinder_k2.rest import sequence
from cinder_k2.rest import settings as rest_settings
from cinder_k2.rest import transport
from cinder_k2.rest import verdicts

T = TypeVar('T')
T_co = TypeVar('T_co', covariant=True)

# Lookups of an object that must exist but may become visible late (OBJ-6), and
# seconds before the second one; each further pause is twice as long.
_LOOKS = 5
_FIRST_PAUSE = 0.2
# Tries of a read with a fallback that end with 5xx or a dropped connection.
_FAILURES = 2


class Write(Protocol[T_co]):
    """One write, and how to look up its outcome."""

    @property
    def request(self) -> transport.Request:
        """The request, without its sequence number."""

    def accept(self, reply: bytes) -> 'T_co | calls.Steps[T_co]':
        """Read the reply of a write that was carried out.

        :raises errors.BadReply: the reply does not show the result
        """

    def look(self, certain: bool) -> 'calls.Steps[T_co | None]':
        """Look up the result of the write; None if none is visible (yet).

        :param certain: the array reports that the write was carried out
        """


@dataclasses.dataclass
class OutcomeCheck:
    """What is known of the outcome of a write, and how to check it.

    Several writes share one instance if each replaces the one before.

    :ivar numbers: the X-K2-Sequence numbers that may have reached the array
    :ivar open: the outcome of one of the writes is or was unknown
    :ivar unseen: the outcome has not been looked up since
    :ivar replaces: the outcome of an earlier request, of which this write
        repeats a part, is or was unknown
    :ivar slow: the array may still be working on the write when the time for a
        reply is up, so the write is not sent again then
    :ivar is_unique: the array refuses to carry out two of the writes
    :ivar verify: checks that the ids in the write still belong to the intended
        objects (OBJ-7); called before each lookup, and raises
        errors.OtherObject if they do not
    """

    numbers: set[str | None] = dataclasses.field(default_factory=set)
    open: bool = False
    unseen: bool = False
    replaces: bool = False
    slow: bool = False
    is_unique: bool = False
    verify: Callable[[], object] | None = None


class _Local(threading.local):
    deadline: retry.Deadline | None = None
    trial: bool = False
    reply: float | None = None
    awaits_turn: bool = False
    most_failures: int | None = None


class Session:
    """Makes the calls of one client, from any number of threads."""

    def __init__(self, settings: rest_settings.Settings,
                 adapter: requests.adapters.BaseAdapter | None = None,
                 clock: polling.Clock | None = None) -> None:
        self._settings = settings
        self.clock = clock or polling.Clock()
        self.transport = transport.Transport(settings, adapter)
        self.read_limiter = limiter.RequestLimiter(settings.pool_size)
        self.write_limiter = limiter.RequestLimiter(settings.max_writes)
        # urllib3 would throw surplus connections away, with a warning.
        self._connections = threading.BoundedSemaphore(settings.pool_size)
        self._sequences = sequence.Sequences()
        self._local = _Local()
        address = self.transport.address
        self.capabilities = capabilities.Capabilities(
            address, verdicts.File(settings.verdicts, settings.array)
            if settings.verdicts else None, settings.disabled_capabilities)
        self.attempts = attempts.Attempts(self.capabilities, self)

    @contextlib.contextmanager
    def deadline(self, seconds: float | None = None, *, fresh: bool = False,
                 outage: float | None = None) -> Iterator[retry.Deadline]:
        """Limit the calls of this thread in the context to ``seconds``.

        Without ``seconds`` the deadline of the settings applies. Of nested
        deadlines the shorter one wins, unless the inner one is ``fresh``. A
        call ends when no connection could be made for ``outage`` seconds; of
        nested values the lower one applies. A try that is under way is not
        interrupted by an outage.
        """
        if seconds is None:
            seconds = self._settings.deadline
        outer = self._local.deadline
        if outer and outer.outage is not None:
            outage = min(outer.outage, outage or outer.outage)
        inner = retry.Deadline(seconds, self.clock, outage)
        if outer and not fresh and outer.left() < inner.left():
            inner = outer.during(outage)
        self._local.deadline = inner
        try:
            yield inner
        finally:
            self._local.deadline = outer

    @contextlib.contextmanager
    def trial(self, seconds: float | None = None, *,
              reply: float | None = None, awaits_turn: bool = False
              ) -> Iterator[None]:
        """Send each request of this thread in the context only once.

        :param seconds: for all of them together
        :param reply: seconds for the reply to each
        :param awaits_turn: a request that the array answers with busy does not
            count as sent
        """
        local = self._local
        before = local.trial, local.reply, local.awaits_turn
        local.trial, local.awaits_turn = True, awaits_turn
        local.reply = reply or local.reply
        try:
            with self.deadline(seconds):
                yield
        finally:
            local.trial, local.reply, local.awaits_turn = before

    @contextlib.contextmanager
    def limited_retries(self) -> Iterator[None]:
        """Let a read of this thread fail at its second server failure."""
        local = self._local
        before, local.most_failures = local.most_failures, _FAILURES
        try:
            yield
        finally:
            local.most_failures = before

    @property
    def in_trial(self) -> bool:
        """Whether this thread is learning a capability of the array."""
        return self._local.trial

    def answers(self) -> calls.Steps[bool]:
        """Whether the array replies to a known read, sent once."""
        try:
            with self.trial(awaits_turn=True):
                yield from self.get('/system/state')
        except errors.RestError:
            return False
        return True

    def run(self, steps: calls.Steps[T]) -> T:
        """Carry out steps: send what they yield, return their result.

        :raises errors.RestError: what they raise
        """
        reply: bytes = b''
        failure: errors.RestError | None = None
        try:
            call = next(steps)
            while True:
                try:
                    with self._turn(call) as timeout:
                        reply = self.transport.exchange(
                            call.request, timeout, call.tries + 1)
                except errors.RestError as error:
                    failure = error
                # Outside of the handler: each error would become the context
                # of the next.
                if failure is None:
                    call = steps.send(reply)
                else:
                    thrown, failure = failure, None
                    call = steps.throw(thrown)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def get(self, path: str, query: str = '') -> calls.Steps[Any]:
        """Read ``path``, repeating the request if that may help.

        :returns: the JSON value of the reply
        :raises errors.RestError: the array refuses the read, or gives no
            usable reply before the deadline
        """
        request = transport.Request('GET', path, query)
        with self.deadline() as deadline:
            pace = self._pace(deadline)
            while True:
                try:
                    reply = yield calls.Call(request, self.read_limiter,
                                             deadline, pace.tries)
                    return self.transport.decode(request, reply)
                except errors.RestError as error:
                    failure = error
                pace.pause(failure)

    def write(self, write: Write[T], most: int | None = None,
              outcome: OutcomeCheck | None = None) -> calls.Steps[T]:
        """Carry out a write exactly once, even if replies are lost.

        :param most: maximum of tries that fail with a busy code or 500, where
            one of several objects may stay busy for long
        :param outcome: that of earlier writes which this one replaces
        :raises errors.RestError: the write was refused, or its outcome could
            not be established before the deadline
        """
        with self.deadline() as deadline, \
                self._sequences.next() as number:
            left = outcome or OutcomeCheck()

            def run(number: str | None) -> calls.Steps[T]:
                return _WriteCall(self, write, deadline, self._pace(
                    deadline, most), number, left).run()
            if not (left.is_unique or self.capabilities.works(
                    capability_names.SEQUENCE)):
                # Learning with this write could carry it out twice.
                return (yield from run(None))
            return (yield from self.attempts.preferring(
                capability_names.SEQUENCE, lambda: run(number),
                lambda: run(None), is_unique=left.is_unique))

    def _pace(self, deadline: retry.Deadline, most: int | None = None
              ) -> retry.Retry:
        return retry.Retry(deadline, self.clock, most,
                           once=self._local.trial,
                           awaits_turn=self._local.awaits_turn,
                           most_failures=self._local.most_failures)

    @contextlib.contextmanager
    def _turn(self, call: calls.Call) -> Iterator[float]:
        """Wait for a slot and a connection; yield the seconds for the call.

        :raises errors.RestError: one of them did not become free in time
        """
        place = self.transport.place(call.request)
        left = call.deadline.left()
        with call.limited_by.enter(left) as entered:
            if entered is None:
                raise errors.NoTurn(
                    f'no turn within {round(left, 2):g} s, the array takes '
                    f'{call.limited_by.limit} such requests at once', place)
            try:
                with self._connection(call.deadline, place):
                    self.pause()
                    left = call.deadline.left() or 0.001
                    yield min(left, self._local.reply or left)
            except errors.Busy as error:
                if not isinstance(error, errors.NoTurn):
                    entered.congested()
                raise
            entered.succeeded()

    @contextlib.contextmanager
    def _connection(self, deadline: retry.Deadline, place: errors.Place
                    ) -> Iterator[None]:
        """Reserve one of the connections.

        :raises errors.RestError: none became free in time
        """
        if not deadline.left():
            raise errors.OutOfTime(
                f'the deadline of {deadline.seconds:g} s has passed', place)
        if not self._connections.acquire(timeout=deadline.left()):
            raise errors.NoTurn('no free connection in time', place)
        try:
            yield
        finally:
            self._connections.release()

    def pause(self) -> None:
        """Sleep before a request if the settings have a pause."""
        if self._settings.pause:
            self.clock.sleep(self._settings.pause)


class _WriteCall(Generic[T]):
    """One write, with its tries and the lookups of its outcome.

    :param number: for X-K2-Sequence, None to send none
    """

    def __init__(self, session: Session, write: Write[T],
                 deadline: retry.Deadline, pace: retry.Retry,
                 number: str | None, outcome: OutcomeCheck) -> None:
        self._session = session
        self._write = write
        self._deadline = deadline
        self._pace = pace
        self._number = number
        self._outcome = outcome

    @property
    def _request(self) -> transport.Request:
        return dataclasses.replace(self._write.request,
                                   sequence=self._number)

    def run(self) -> calls.Steps[T]:
        """Try until the write is carried out or refused, or time is up."""
        try:
            return (yield from self._try())
        except errors.RestError as error:
            # Whatever ends the tries, an earlier one may have been carried
            # out. A refusal may be that of a lookup, and is marked below.
            error.repeats |= self._outcome.replaces or (
                self._outcome.open and not isinstance(error, errors.Refused))
            raise

    def _try(self) -> calls.Steps[T]:
        if self._outcome.unseen:
            seen = yield from self._look_first()
            if seen is not None:
                return seen
        while True:
            try:
                reply = yield calls.Call(
                    self._request, self._session.write_limiter, self._deadline,
                    self._pace.tries)
                result: T = yield from calls.value(self._write.accept(reply))
                return result
            except errors.RestError as error:
                failure = error
            found = yield from self._resolve(failure)
            if found is not None:
                return found
            self._pace.pause(failure)

    def _look_first(self) -> calls.Steps[T | None]:
        """Look up the result of the write that this one is to replace."""
        try:
            return (yield from self._look())
        except errors.RestError as failure:
            if not self._session.in_trial:
                raise
            # The write is not sent, so the trial shows nothing about it.
            raise errors.NoTurn(
                'not sent: the outcome of the earlier request is unknown',
                self._session.transport.place(self._request)) from failure

    def _resolve(self, error: errors.RestError) -> calls.Steps[T | None]:
        """The result of a failed try; None if the write may be repeated."""
        if isinstance(error, errors.SequenceUsed):
            return (yield from self._carried_out(error))
        if self._outcome.open and isinstance(error, errors.NotFound):
            # The 404 may mean that the array does not offer such calls.
            return (yield from self._look())
        if self._outcome.open and isinstance(error, errors.Refused):
            error.repeats = True
            # An array that ignores the sequence refuses a duplicate of
            # what the first try created (ERR-8).
            return (yield from self._look(times=_LOOKS))
        if not isinstance(error, errors.NotConnected):
            self._outcome.numbers.add(self._request.sequence)
        self._outcome.open |= error.outcome_unknown
        if not error.outcome_unknown:
            return None
        self._outcome.unseen = True
        if self._outcome.slow and errors.may_go_on(error):
            raise error
        try:
            return (yield from self._look(
                times=_LOOKS if error.status == 200 else 1))
        except errors.OtherObject:
            raise
        except errors.RestError as failure:
            if self._session.in_trial or isinstance(
                    failure, errors.OutOfTime):
                # The outcome of the write is unknown, so its own error
                # counts.
                raise error from failure
            raise

    def _carried_out(self, error: errors.SequenceUsed) -> calls.Steps[T]:
        """The result of an earlier try, if that used the number."""
        number = self._request.sequence
        if number is None or number not in self._outcome.numbers:
            refusal = errors.refused(error)
            refusal.repeats = self._outcome.open
            raise refusal from error
        result = yield from self._look(times=_LOOKS, certain=True)
        if result is None:
            raise errors.BadReply(
                'the array reports it as done, but does not show the result',
                error.place) from error
        return result

    def _look(self, times: int = 1, certain: bool = False
              ) -> calls.Steps[T | None]:
        looks = 0
        while looks < times:
            if looks:
                self._session.clock.sleep(
                    min(_FIRST_PAUSE * 2 ** (looks - 1),
                        self._deadline.left()))
            failure = None
            try:
                if self._outcome.verify is not None:
                    self._outcome.verify()
                result = yield from self._write.look(certain)
            except (errors.NotOffered, errors.Incomplete):
                # The outcome cannot be looked up: the write may be repeated.
                self._outcome.unseen = False
                return None
            except errors.RestError as error:
                failure, result = error, None
            if failure is not None:
                # The write may not be repeated before a lookup succeeds.
                # Outside of the handler: each error would become the context
                # of the next.
                self._pace.pause(failure)
                continue
            self._outcome.unseen = False
            if result is not None:
                return result
            looks += 1
        return None
