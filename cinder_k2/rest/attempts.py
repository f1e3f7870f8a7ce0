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

"""Trying capabilities of one array, and using those that work.

A verdict of refusal (``cinder_k2.rest.capabilities``) needs evidence: the
array must carry out the same call without the capability. Ambiguous failures
(5xx, a lost connection) count only if they occur twice, with a successful
known read between them. Where no such call exists, they count only after three
times in a row, each at least a minute after the one before.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import dataclasses
import time
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest.capabilities import ASK_AGAIN
from cinder_k2.rest.capabilities import Capabilities
from cinder_k2.rest.capabilities import PAUSE
from cinder_k2.rest.capabilities import Progress
from cinder_k2.rest.capabilities import STRIKES
from cinder_k2.rest.capability_names import describe
from cinder_k2.rest import errors
from cinder_k2.rest.verdicts import DISABLED
from cinder_k2.rest.verdicts import REFUSED
from cinder_k2.rest.verdicts import UNKNOWN
from cinder_k2.rest.verdicts import WORKS

T = TypeVar('T')
#: Starts the steps of an operation; called once for each try.
Act = Callable[[], calls.Steps[T]]

# Seconds for all requests that are sent only to learn something, and for the
# reply to a request that may be abandoned.
_SECONDS = 3.0


class Prober(Protocol):
    """How requests are sent while a capability is learned."""

    def trial(self, seconds: float | None = None, *,
              reply: float | None = None, awaits_turn: bool = False
              ) -> contextlib.AbstractContextManager[object]:
        """Send each request of this thread in the context only once.

        :param seconds: for all of them together
        :param reply: seconds for the reply to each
        :param awaits_turn: a request that the array answers with busy does not
            count as sent
        """

    def deadline(self, seconds: float | None = None
                 ) -> contextlib.AbstractContextManager[object]:
        """Limit the calls of this thread in the context to ``seconds``."""

    def limited_retries(self) -> contextlib.AbstractContextManager[object]:
        """Let a read of this thread fail at its second server failure."""

    @property
    def in_trial(self) -> bool:
        """Whether this thread is learning a capability already."""

    def answers(self) -> calls.Steps[bool]:
        """Whether the array replies to a known read, sent once."""

    def run(self, steps: calls.Steps[T]) -> T:
        """Carry out steps."""


@dataclasses.dataclass(frozen=True)
class _Outcome(Generic[T]):
    """The outcome of a trial: one result, or an error.

    :ivar clear: the error is about the capability, provided that the fallback
        works
    """

    results: tuple[T, ...] = ()
    error: errors.RestError | None = None
    clear: bool = False


class Attempts:
    """Carries out calls with a capability of the array, or without it.

    Operations are given as steps (``rest.calls``), and each public method but
    ``prefer`` and ``learn`` yields the calls to be sent. Thread-safe.

    :param known: the verdicts, which the attempts add to
    """

    def __init__(self, known: Capabilities, prober: Prober) -> None:
        self._known = known
        self._prober = prober

    def prefer(self, name: str, novel: Callable[[], T],
               older: Callable[[], T]) -> T:
        """As ``preferring``, for functions that send their own calls."""
        return self._prober.run(self.preferring(
            name, calls.plain(novel), calls.plain(older)))

    def learn(self, name: str, novel: Callable[[], T],
              proves: Callable[[T], Any]) -> T | None:
        """As ``learning``, for a function that sends its own calls."""
        steps = self.learning(name, calls.plain(novel), proves)
        return self._prober.run(steps)

    def preferring(self, name: str, novel: Act[T], older: Act[T], *,
                   has_own_path: bool = False, is_unique: bool = False,
                   proves: Callable[[T], calls.Steps[bool | None]] | None
                   = None) -> calls.Steps[T]:
        """Carry out a write with a capability, or without it.

        :param novel: the write with the capability. If its outcome is unknown,
            it must look for a result before it raises the error
        :param older: the fallback without the capability
        :param has_own_path: the capability has a path of its own, so 404 and
            405 are about the capability
        :param is_unique: the array carries out at most one of the two, so
            ``older`` need not wait for the end of ``novel``
        :param proves: steps that tell whether the array did what the first
            result says. False is a silent refusal; None is no evidence, and
            the result counts
        :raises errors.RestError: what ``older`` raises, or ``novel`` where the
            capability is known to work
        """
        state = self._known.verdict(name).state
        if state == WORKS:
            use = self._use if has_own_path else self._use_of_object
            return (yield from use(name, novel, older))
        if state == UNKNOWN:
            with self._learner(name) as mine:
                if mine:
                    return (yield from self._try(name, novel, older,
                                                 is_unique, proves))
        return (yield from older())

    def reading(self, names: Collection[str], novel: Act[T], older: Act[T]
                ) -> calls.Steps[T]:
        """Read with capabilities that are known to work, or without.

        ``older`` is used if the array refuses ``novel``, or twice answers it
        with 5xx or drops the connection while it replies to a known read.
        After three such failures in a row the capabilities count as refused.

        :param names: capabilities that ``novel`` uses
        :raises errors.RestError: what ``older`` raises, or ``novel`` where the
            error may be about anything
        """
        try:
            with self._prober.limited_retries():
                result = yield from novel()
        except errors.RestError as error:
            if not (errors.is_refusal(error)
                    or errors.is_server_failure(error)):
                raise
            refusal = error
        else:
            for name in names:
                self._known.found(name)
            return result
        if errors.is_server_failure(refusal) and not (
                yield from self._answers()):
            return (yield from novel())
        result = yield from older()
        for name in names:
            self._known.failed(name, refusal)
        return result

    def requiring(self, name: str, novel: Act[T], *,
                  of_object: bool = False, is_read: bool = False,
                  slow: bool = False, may_recover: bool = False,
                  confirm: Callable[[T], object] | None = None
                  ) -> calls.Steps[T]:
        """Carry out a call that has no fallback.

        Without a fallback, it is unknown whether 5xx and lost connections are
        about the capability: each blocks the call for a minute, and three in a
        row count as a refusal.

        :param of_object: a 404 may be about an object as well as about the
            capability; the 404 is then the ``__cause__`` of the error
        :param is_read: the call is a read, which is refused only for its form
        :param slow: the call must not be sent again while the array may be
            working on it
        :param may_recover: a 5xx may be about the state of the array (ERR-6)
            and only blocks the call for a minute
        :param confirm: raises errors.PassedOver if the first result does not
            show that the array carried out the call
        :raises errors.NotOffered: the array lacks the capability
        :raises errors.RestError: the call failed
        """
        self._check_offered(name)
        if self._known.works(name) or self._prober.in_trial:
            return (yield from novel())
        # There is no alternative while the array is busy.
        outcome = yield from self._tried(
            novel, reply=_SECONDS if is_read else None, awaits_turn=True)
        outcome = self._confirmed(confirm, outcome)
        for result in outcome.results:
            self._known.found(name)
            return result
        error = outcome.error
        if error is not None and outcome.clear:
            if may_recover and errors.is_lost(error):
                self._put_off(name, error)
                raise error
            raise (yield from self._judged(
                name, error, of_object, is_read)) from error
        if error is not None and errors.may_go_on(error):
            if slow:
                raise error
            if (yield from self._answers_in_time()):
                if is_read:
                    self._hangs(name, error)
                    raise self._known.not_offered(
                        name, error.message) from error
                return (yield from self._go_on(name, novel))
        return (yield from novel())

    def _check_offered(self, name: str) -> None:
        verdict = self._known.verdict(name)
        if verdict.state in (REFUSED, DISABLED):
            raise self._known.not_offered(name, verdict.words)
        failing = self._known.progress(name).failing
        if (failing is not None and verdict.state == UNKNOWN
                and time.monotonic() < failing[0]):
            raise self._known.not_offered(name, failing[1].message)

    @staticmethod
    def _confirmed(confirm: Callable[[T], object] | None,
                   outcome: _Outcome[T]) -> _Outcome[T]:
        """Apply ``confirm`` to a result; its PassedOver becomes the error.

        This is not done in the trial, because it may take many calls.
        """
        if confirm is None:
            return outcome
        try:
            for result in outcome.results:
                confirm(result)
        except errors.PassedOver as error:
            return _Outcome(error=error, clear=True)
        return outcome

    def _answers(self) -> calls.Steps[bool]:
        """Whether the array replies to a known read."""
        return (yield from self._prober.answers())

    def _answers_in_time(self) -> calls.Steps[bool]:
        """Whether the array is not slow in general."""
        with self._prober.trial(_SECONDS):
            return (yield from self._answers())

    def _put_off(self, name: str, error: errors.RestError) -> None:
        """Block further calls for a while."""
        self._known.progress(name).failing = time.monotonic() + PAUSE, error

    def _hangs(self, name: str, error: errors.RestError) -> None:
        """Record a call that hangs while the array replies to others."""
        progress = self._known.progress(name)
        progress.unanswered += 1
        if progress.unanswered >= STRIKES:
            self._known.set_refused(name, error)

    def _go_on(self, name: str, novel: Act[T]) -> calls.Steps[T]:
        """Carry out a write that hangs while the array replies to others.

        Three seconds are not enough, because there is no fallback: an object
        that the array creates late would be orphaned. So the write gets a
        minute. After that its outcome is unknown, the caller looks for the
        result, and such writes are not sent for another minute.
        """
        try:
            with self._prober.deadline(PAUSE):
                return (yield from novel())
        except errors.RestError as error:
            if errors.may_go_on(error):
                self._hangs(name, error)
                self._put_off(name, error)
            raise

    def _judged(self, name: str, error: errors.RestError, of_object: bool,
                is_read: bool) -> calls.Steps[errors.RestError]:
        """The error for a refusal without a fallback.

        A missing permission of the user proves nothing about the array, but
        the caller still has to do without the capability.
        """
        if isinstance(error, errors.NotOffered):
            return error
        if not is_read and isinstance(error, errors.Forbidden):
            refusal = self._known.not_offered(name, error.message)
            refusal.advice = error.advice
            return refusal
        if not is_read and isinstance(error, errors.Refused):
            # The array may have refused only this object.
            error.advice = error.advice or (
                f'or it does not offer {describe(name)[0]}: capability {name}')
            return error
        if isinstance(error, errors.NotFound) and of_object:
            return self._known.not_offered(name, error.message)
        if not (yield from self._answers()):
            return error
        if errors.is_lost(error):
            self._put_off(name, error)
            self._known.failed(name, error)
        else:
            self._known.set_refused(name, error)
        return self._known.not_offered(name, error.message)

    def learning(self, name: str, novel: Act[T],
                 proves: Callable[[T], Any]) -> calls.Steps[T | None]:
        """Try a read whose fallback has just worked.

        :param proves: whether a result shows that the capability works, or
            steps to tell that. False is a silent refusal, None is no evidence
        :returns: the result if it shows that, else None
        """
        if self._known.verdict(name).state != UNKNOWN:
            return None
        with self._learner(name) as mine:
            if not mine:
                return None
            outcome = yield from self._tried(novel, _SECONDS)
            for result in outcome.results:
                proof = yield from calls.value(proves(result))
                if proof:
                    self._known.found(name)
                    return result
                if proof is None:
                    return None
            self._conclude(name, outcome)
            return None

    def _use(self, name: str, novel: Act[T],
             older: Act[T]) -> calls.Steps[T]:
        try:
            result = yield from novel()
        except (errors.NotFound, errors.MethodNotAllowed) as error:
            result = yield from older()
            self._known.failed(name, error)
            return result
        self._known.progress(name).strikes = 0
        return result

    def _use_of_object(self, name: str, novel: Act[T],
                       older: Act[T]) -> calls.Steps[T]:
        """Use a capability where a refusal is usually about the object.

        If the array has refused every such call for a minute, the fallback
        shows whether the refusals are about the capability.
        """
        progress = self._known.progress(name)
        try:
            result = yield from novel()
        except errors.RestError as error:
            now = time.monotonic()
            progress.refused = progress.refused or now
            if not errors.is_refusal(error) or now < progress.refused + PAUSE:
                raise
            result = yield from self._instead(progress, older)
            self._known.failed(name, error)
            return result
        progress.refused, progress.strikes = None, 0
        return result

    @staticmethod
    def _instead(progress: Progress, older: Act[T]) -> calls.Steps[T]:
        try:
            return (yield from older())
        except errors.RestError:
            # The refusals were about the object.
            progress.refused = time.monotonic()
            raise

    def _try(self, name: str, novel: Act[T], older: Act[T], is_unique: bool,
             proves: Callable[[T], calls.Steps[bool | None]] | None
             ) -> calls.Steps[T]:
        """Learn with a write.

        The array may carry out an interrupted write after the fallback. Where
        it would carry out both, and for example delete another object that has
        the id by then (OBJ-7), the write gets the full time for a reply, and
        one hang is a refusal.
        """
        begin = time.monotonic()
        outcome = yield from self._tried(
            novel, reply=_SECONDS if is_unique else None)
        for result in outcome.results:
            # Not in the trial, as in _confirmed.
            proof = True if proves is None else (yield from proves(result))
            if proof:
                self._known.found(name)
            if proof is not False:
                return result
        middle = time.monotonic()
        result = yield from older()
        faster = time.monotonic() - middle <= middle - begin
        self._conclude_write(name, outcome, faster,
                             STRIKES if is_unique else 1)
        return result

    def _tried(self, novel: Act[T], seconds: float | None = None,
               *, reply: float | None = None, awaits_turn: bool = False
               ) -> calls.Steps[_Outcome[T]]:
        """Try once, and once more if the outcome is unknown."""
        end = time.monotonic() + (seconds or reply or ASK_AGAIN)
        with self._prober.trial(seconds, reply=reply,
                                awaits_turn=awaits_turn):
            outcome = yield from _once(novel)
            if (outcome.error is None or not errors.is_lost(outcome.error)
                    or time.monotonic() > end
                    or not (yield from self._answers())):
                return outcome
            again = yield from _once(novel)
            return dataclasses.replace(
                again, clear=again.error is not None and (
                    again.clear or errors.is_lost(again.error)))

    def _conclude(self, name: str, outcome: _Outcome[T]) -> None:
        """Record the verdict after the fallback has worked."""
        if outcome.error is None or outcome.clear:
            self._known.set_refused(name, outcome.error)
        else:
            self._known.progress(name).paused = time.monotonic() + PAUSE

    def _conclude_write(self, name: str, outcome: _Outcome[T], faster: bool,
                        most: int) -> None:
        """As ``_conclude``, for a write; repeated hangs become a refusal.

        :param faster: the fallback took no longer, so the array is not slow in
            general
        :param most: number of hangs in a row that are a refusal
        """
        progress = self._known.progress(name)
        hangs = outcome.error is not None and not outcome.clear and (
            faster and errors.may_go_on(outcome.error))
        progress.unanswered = progress.unanswered + 1 if hangs else 0
        if hangs and progress.unanswered >= most:
            self._known.set_refused(name, outcome.error)
        else:
            self._conclude(name, outcome)

    @contextlib.contextmanager
    def _learner(self, name: str) -> Iterator[bool]:
        """Whether this caller is the one that learns."""
        progress = self._known.progress(name)
        mine = (not self._prober.in_trial
                and time.monotonic() >= progress.paused
                and progress.learning.acquire(blocking=False))
        try:
            yield mine and self._known.verdict(name).state == UNKNOWN
        finally:
            if mine:
                progress.learning.release()


def _once(novel: Act[T]) -> calls.Steps[_Outcome[T]]:
    try:
        return _Outcome(((yield from novel()),))
    except errors.OtherObject:
        # The fallback would do the same to the wrong object.
        raise
    except errors.RestError as error:
        return _Outcome(error=error, clear=errors.is_refusal(error))
