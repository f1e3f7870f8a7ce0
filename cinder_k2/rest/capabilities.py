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

"""Capabilities of one array beyond the requests that every array supports.

A capability is a kind of request, or a part of one, that is not in
``cinder_k2.rest.forms``. It is tried, and the verdict is stored: it works, or
it was refused. A verdict of refusal needs evidence: the array must carry out
the same call without the capability. Ambiguous failures (5xx, a lost
connection) count only if they occur twice, with a successful known read
between them; and three times a minute apart where there is no such call.
Refused capabilities are tried again after a day, and all of them after the
array's version changes.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import dataclasses
import logging
import threading
import time
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar

from cinder_k2.rest import calls
from cinder_k2.rest import errors
from cinder_k2.rest import verdicts
from cinder_k2.rest.verdicts import DISABLED
from cinder_k2.rest.verdicts import REFUSED
from cinder_k2.rest.verdicts import UNKNOWN
from cinder_k2.rest.verdicts import Verdict
from cinder_k2.rest.verdicts import WORKS

LOG = logging.getLogger(__name__)
T = TypeVar('T')
#: Begins steps.
Act = Callable[[], calls.Steps[T]]

PAGING = 'paging'
FIELDS = 'fields'
VALUE_LISTS = 'value-lists'
SEQUENCE = 'sequence'
STATISTICS = 'statistics'
WHOLE_HOSTS = 'deletions:hosts:with_initiators'
RESTORE = 'updates:volume_groups:last_restored_from'

# Seconds after which a refused capability is tried again.
ASK_AGAIN = 86400.0
# Seconds without a try after an inconclusive one, such as a time-out.
PAUSE = 60.0
# Seconds for all requests that are sent only to learn something, and for the
# reply to a request that may be cut off.
_SECONDS = 3.0
# Failures in a row after which a capability counts as refused, where a single
# one proves nothing.
_STRIKES = 3

#: What a capability is, and how operations work without it: by name, or by as
#: much of the name as its colons allow.
CAPABILITIES: dict[str, tuple[str, str]] = {
    PAGING: (
        'lists read page by page, sorted (__sort, __offset, __limit)',
        'operations that need a list longer than one page fail'),
    FIELDS: (
        'replies with the fields asked for only (__fields)',
        'replies are larger'),
    VALUE_LISTS: (
        'searches for several values at once (__in, .ref__m_eq)',
        'objects are looked up one by one'),
    SEQUENCE: (
        'the header X-K2-Sequence on writes',
        'a write without a reply is looked for by name before it is '
        'repeated, and nothing keeps it from being carried out late'),
    STATISTICS: (
        'figures of IOPS, throughput and latency',
        'the scheduler gets no figures of performance'),
    'reads': (
        'objects read by id',
        'objects are looked up by name or in a list'),
    'lists': (
        'lists of all objects of a kind',
        'k2-admin and lists of manageable objects lack them'),
    'searches': (
        'searches by fields that the in-tree driver does not search by',
        'a wider search is made and its result is filtered here'),
    'searches:host_iqns': (
        'hosts found by their iSCSI initiators',
        'hosts are found by name, and cannot be verified'),
    'searches:host_fc_ports': (
        'hosts found by their Fibre Channel initiators',
        'hosts are found by name, then verified'),
    'creations': (
        'fields of new objects that the in-tree driver does not send',
        'objects are made without them'),
    'creations:snapshots:is_auto_deleteable': (
        'views that the array may not delete on its own (SNP-4)',
        'no view backs a volume: clones are copied by this host'),
    'creations:volumes:is_thin_clone': (
        'thin clones',
        'clones are views of a snapshot, or copied by this host'),
    'creations:replication/sessions': (
        'retention policies of replication sessions (REP-2)',
        'the array chooses them'),
    'creations:host_auth_profiles': (
        'CHAP profiles',
        'attachments fail if use_chap_auth is set'),
    'updates': (
        'changes of fields that the in-tree driver does not change',
        'operations that need them fail'),
    RESTORE: (
        'restoring a volume group to a snapshot in one call',
        'volumes are reverted by copying their data'),
    'updates:volume_groups:description': (
        'notes in descriptions of volume groups',
        'sources of clones that depend on them cannot be deleted first, '
        'and original names of managed volumes are not kept'),
    'updates:volumes:description': (
        'notes in descriptions of volumes',
        'original names of managed volumes are not kept'),
    'updates:volumes:volume_group': (
        'moving volumes between volume groups',
        'volumes cannot join or leave consistency groups'),
    'updates:hosts:map_auth_profiles_names': (
        'CHAP for hosts',
        'attachments fail if use_chap_auth is set'),
    'deletions': (
        'deleting objects that the in-tree driver does not delete',
        'they stay on the array'),
    WHOLE_HOSTS: (
        'deleting a host together with its initiators (HST-3)',
        'initiators are deleted before their host, with one more call'),
    'deletions:host_iqns': (
        'deleting iSCSI initiators',
        'a host is deleted together with its initiators'),
    'deletions:host_fc_ports': (
        'deleting Fibre Channel initiators',
        'a host is deleted together with its initiators'),
    'bulk': (
        'writing several objects in one call (__bulk)',
        'objects are written one by one'),
}


class Prober(Protocol):
    """How requests are sent while a capability is learned."""

    def trial(self, seconds: float | None = None, *,
              reply: float | None = None, awaits_turn: bool = False
              ) -> contextlib.AbstractContextManager[object]:
        """Send each request of this thread in the context only once.

        :param seconds: for all of them together
        :param reply: seconds for the reply to each
        :param awaits_turn: a busy reply does not count as sent
        """

    def deadline(self, seconds: float | None = None
                 ) -> contextlib.AbstractContextManager[object]:
        """Give the calls of this thread so many seconds."""

    def limited_retries(self) -> contextlib.AbstractContextManager[object]:
        """Let a read of this thread fail at its second server failure."""

    @property
    def in_trial(self) -> bool:
        """Whether this thread is learning a capability already."""

    def answers(self) -> calls.Steps[bool]:
        """Whether the array replies to a known read, sent once."""

    def run(self, steps: calls.Steps[T]) -> T:
        """Carry out steps."""


class Store(Protocol):
    """Where verdicts are stored."""

    def load(self) -> tuple[str, dict[str, Verdict]]:
        """The version of the array that was seen last, and the verdicts."""

    def save(self, version: str, verdicts: dict[str, Verdict]) -> None:
        """Store them."""


@dataclasses.dataclass(frozen=True)
class _Outcome(Generic[T]):
    """The outcome of a trial: one result, or an error.

    :ivar clear: the error is about the capability, if the fallback works
    """

    results: tuple[T, ...] = ()
    error: errors.RestError | None = None
    clear: bool = False


@dataclasses.dataclass
class _Progress:
    """The in-memory state of one capability.

    :ivar learning: held by the one caller that tries it
    :ivar paused: the time on the monotonic clock until which it is not tried
    :ivar strikes: failures in a row since it worked last
    :ivar refused: the time on the monotonic clock of the first refusal since
        it worked last, of a call that the array may refuse for other reasons
    :ivar unanswered: tries in a row without a reply in time, where the
        fallback worked
    :ivar failing: the time on the monotonic clock until which a call without a
        fallback is not sent, and the error that caused this
    """

    learning: threading.Lock = dataclasses.field(
        default_factory=threading.Lock)
    paused: float = 0.0
    strikes: int = 0
    refused: float | None = None
    unanswered: int = 0
    failing: tuple[float, errors.RestError] | None = None


class Capabilities:
    """The verdicts on one array; may be used by any thread.

    A name may have a suffix after a colon, such as a resource:
    "bulk:snapshots".

    :param address: management address of the array, for the log
    :param disabled: names, or beginnings of names up to a colon, of the
        capabilities that the operator has disabled
    """

    def __init__(self, address: str, prober: Prober,
                 store: Store | None = None,
                 disabled: Collection[str] = ()) -> None:
        self._address = address
        self._prober = prober
        self._store = store or verdicts.Memory()
        self._disabled = frozenset(disabled)
        self._lock = threading.Lock()
        self._progress: dict[str, _Progress] = {}
        self._version, self._verdicts = self._store.load()

    # State

    def verdict(self, name: str) -> Verdict:
        """What is known of a capability."""
        if any(part in self._disabled for part in _beginnings(name)):
            return Verdict(DISABLED)
        found = self._verdicts.get(name, Verdict())
        # A wrong clock may have left a time in the future.
        age = time.time() - found.time
        if found.state == REFUSED and not -PAUSE <= age <= ASK_AGAIN:
            return Verdict()
        return found

    def all(self) -> dict[str, Verdict]:
        """The verdicts on all capabilities that were tried, by name."""
        return {name: self.verdict(name)
                for name in sorted({*self._verdicts, *self._disabled})}

    def works(self, name: str) -> bool:
        """Whether a capability was seen to work."""
        return self.verdict(name).state == WORKS

    def refused(self, name: str) -> bool:
        """Whether a capability is not to be used."""
        return self.verdict(name).state in (REFUSED, DISABLED)

    def note_version(self, version: str) -> None:
        """Forget all verdicts if the array's version has changed."""
        if version == self._version:
            return
        with self._lock:
            if self._version:
                LOG.info('The array at %(address)s has version %(version)s, '
                         'not %(before)s as before: what it can do is found '
                         'out again.',
                         {'address': self._address, 'version': version,
                          'before': self._version})
                self._verdicts.clear()
            self._version = version
            self._store.save(self._version, self._verdicts)

    # Using capabilities. What is tried are steps (``rest.calls``); each
    # method yields the calls to be sent.

    def prefer(self, name: str, novel: Callable[[], T],
               older: Callable[[], T]) -> T:
        """As ``preferring``, what carries out calls of its own."""
        return self._prober.run(self.preferring(
            name, calls.plain(novel), calls.plain(older)))

    def learn(self, name: str, novel: Callable[[], T],
              proves: Callable[[T], Any]) -> T | None:
        """As ``learning``, what carries out calls of its own."""
        steps = self.learning(name, calls.plain(novel), proves)
        return self._prober.run(steps)

    def preferring(self, name: str, novel: Act[T], older: Act[T], *,
                   has_own_path: bool = False, is_unique: bool = False,
                   proves: Callable[[T], calls.Steps[bool | None]] | None
                   = None) -> calls.Steps[T]:
        """Carry out a write with a capability, or without it.

        :param novel: does it with the capability; what it raises after an
            unclear outcome is raised after it has looked for a result
        :param older: the fallback without it
        :param has_own_path: 404 and 405 are about the capability
        :param is_unique: the array carries out one of the two at most, so
            ``older`` need not wait for the end of ``novel``
        :param proves: steps that tell whether the array did what a first
            result says. False is a silent refusal; None is no evidence, and
            the result counts
        :raises errors.RestError: what ``older`` raises, or ``novel`` where the
            capability is known to work
        """
        state = self.verdict(name).state
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

        Without if the array refuses that, or twice replies with 5xx or not at
        all while it replies to a known read. After three times in a row the
        capability counts as refused.

        :param names: capabilities that ``novel`` uses
        :raises errors.RestError: what ``older`` raises, or ``novel`` where the
            error may be about anything
        """
        try:
            with self._prober.limited_retries():
                result = yield from novel()
        except errors.RestError as error:
            if not (is_refusal(error) or errors.is_server_failure(error)):
                raise
            refusal = error
        else:
            for name in names:
                self.found(name)
            return result
        if errors.is_server_failure(refusal) and not (
                yield from self._answers()):
            return (yield from novel())
        result = yield from older()
        for name in names:
            self.failed(name, refusal)
        return result

    def requiring(self, name: str, novel: Act[T], *,
                  of_object: bool = False, is_read: bool = False,
                  slow: bool = False, may_recover: bool = False,
                  confirm: Callable[[T], object] | None = None
                  ) -> calls.Steps[T]:
        """Carry out a call that has no fallback.

        Then it is unknown whether 5xx and lost connections are about the
        capability: they postpone it for a minute, and are a refusal after
        three times in a row.

        :param of_object: a 404 may be about an object as well as about the
            capability; it is the cause of the error then
        :param is_read: it is a read, which is refused only for its form
        :param slow: it must not be sent again while the array may be working
            on it
        :param may_recover: 5xx is about the state of the array (ERR-6)
        :param confirm: raises errors.PassedOver if a first result does not
            show that the array carried it out
        :raises errors.NotOffered: the array lacks the capability
        :raises errors.RestError: the call failed
        """
        self._check_offered(name)
        if self.works(name) or self._prober.in_trial:
            return (yield from novel())
        # There is no alternative while the array is busy.
        outcome = yield from self._tried(
            novel, reply=_SECONDS if is_read else None, awaits_turn=True)
        outcome = self._confirmed(confirm, outcome)
        for result in outcome.results:
            self.found(name)
            return result
        error = outcome.error
        if error is not None and outcome.clear:
            if may_recover and is_lost(error):
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
                    raise self._not_offered(name, error.message) from error
                return (yield from self._go_on(name, novel))
        return (yield from novel())

    def _check_offered(self, name: str) -> None:
        verdict = self.verdict(name)
        if verdict.state in (REFUSED, DISABLED):
            raise self._not_offered(name, verdict.words)
        failing = self._of(name).failing
        if (failing is not None and verdict.state == UNKNOWN
                and time.monotonic() < failing[0]):
            raise self._not_offered(name, failing[1].message)

    @staticmethod
    def _confirmed(confirm: Callable[[T], object] | None,
                   outcome: _Outcome[T]) -> _Outcome[T]:
        """Not in the trial: it may need many calls to wait."""
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
        self._of(name).failing = time.monotonic() + PAUSE, error

    def _hangs(self, name: str, error: errors.RestError) -> None:
        """Record a call that hangs while the array replies to others."""
        progress = self._of(name)
        progress.unanswered += 1
        if progress.unanswered >= _STRIKES:
            self._refuse(name, error)

    def _go_on(self, name: str, novel: Act[T]) -> calls.Steps[T]:
        """Carry out a write that hangs while the array replies to others.

        Three seconds are not enough, because there is no fallback: an object
        that the array creates late would be orphaned. A minute is; after that
        its outcome is unknown, so the caller looks for it, and it is not sent
        for as long.
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
        the caller has to do without it as well.
        """
        if isinstance(error, errors.NotOffered):
            return error
        if not is_read and isinstance(error, errors.Forbidden):
            refusal = self._not_offered(name, error.message)
            refusal.advice = error.advice
            return refusal
        if not is_read and isinstance(error, errors.Refused):
            # The array may have refused only this object.
            error.advice = error.advice or (
                f'or it does not offer {describe(name)[0]}: capability {name}')
            return error
        if isinstance(error, errors.NotFound) and of_object:
            return self._not_offered(name, error.message)
        if not (yield from self._answers()):
            return error
        if is_lost(error):
            self._put_off(name, error)
            self.failed(name, error)
        else:
            self._refuse(name, error)
        return self._not_offered(name, error.message)

    def learning(self, name: str, novel: Act[T],
                 proves: Callable[[T], Any]) -> calls.Steps[T | None]:
        """Try a read whose fallback has just worked.

        :param proves: whether a result shows that the capability works, or
            steps to tell that; one that does not is a silent refusal, None is
            no evidence
        :returns: the result, if it does
        """
        if self.verdict(name).state != UNKNOWN:
            return None
        with self._learner(name) as mine:
            if not mine:
                return None
            outcome = yield from self._tried(novel, _SECONDS)
            for result in outcome.results:
                proof = yield from calls.value(proves(result))
                if proof:
                    self.found(name)
                    return result
                if proof is None:
                    return None
            self._conclude(name, outcome)
            return None

    def found(self, name: str) -> None:
        """Record that a capability works."""
        progress = self._of(name)
        progress.strikes = progress.unanswered = 0
        if self.verdict(name).state == UNKNOWN:
            self._note(name, Verdict(WORKS, time=time.time()))

    def failed(self, name: str, error: errors.RestError) -> None:
        """Record a failure that may be about the capability or not.

        That is a refusal of what once worked where the fallback works, or 5xx
        where there is none.
        """
        progress = self._of(name)
        progress.strikes += 1
        if progress.strikes >= _STRIKES:
            self._refuse(name, error)

    def refuse(self, name: str, error: errors.RestError) -> None:
        """Record a refusal of a call whose fallback has just worked."""
        if self.verdict(name).state == UNKNOWN:
            self._refuse(name, error)

    # Internal

    def _use(self, name: str, novel: Act[T],
             older: Act[T]) -> calls.Steps[T]:
        try:
            result = yield from novel()
        except (errors.NotFound, errors.MethodNotAllowed) as error:
            result = yield from older()
            self.failed(name, error)
            return result
        self._of(name).strikes = 0
        return result

    def _use_of_object(self, name: str, novel: Act[T],
                       older: Act[T]) -> calls.Steps[T]:
        """Use what works, where a refusal is mostly about the object.

        After a minute of refusals only, the fallback shows which it is.
        """
        progress = self._of(name)
        try:
            result = yield from novel()
        except errors.RestError as error:
            now = time.monotonic()
            progress.refused = progress.refused or now
            if not is_refusal(error) or now < progress.refused + PAUSE:
                raise
            result = yield from self._instead(progress, older)
            self.failed(name, error)
            return result
        progress.refused, progress.strikes = None, 0
        return result

    @staticmethod
    def _instead(progress: _Progress, older: Act[T]) -> calls.Steps[T]:
        try:
            return (yield from older())
        except errors.RestError:
            # It was the object.
            progress.refused = time.monotonic()
            raise

    def _try(self, name: str, novel: Act[T], older: Act[T], is_unique: bool,
             proves: Callable[[T], calls.Steps[bool | None]] | None
             ) -> calls.Steps[T]:
        """Learn with a write.

        An interrupted one may be carried out after the fallback. Where the
        array would do both, such as delete an object whose id is another's by
        then (OBJ-7), it gets the full time for a reply, but only once.
        """
        begin = time.monotonic()
        outcome = yield from self._tried(
            novel, reply=_SECONDS if is_unique else None)
        for result in outcome.results:
            # Not in the trial, as in _confirmed.
            proof = True if proves is None else (yield from proves(result))
            if proof:
                self.found(name)
            if proof is not False:
                return result
        middle = time.monotonic()
        result = yield from older()
        faster = time.monotonic() - middle <= middle - begin
        self._conclude_write(name, outcome, faster,
                             _STRIKES if is_unique else 1)
        return result

    def _tried(self, novel: Act[T], seconds: float | None = None,
               *, reply: float | None = None, awaits_turn: bool = False
               ) -> calls.Steps[_Outcome[T]]:
        """Try once, and once more if the outcome is unknown."""
        end = time.monotonic() + (seconds or reply or ASK_AGAIN)
        with self._prober.trial(seconds, reply=reply,
                                awaits_turn=awaits_turn):
            outcome = yield from _once(novel)
            if (outcome.error is None or not is_lost(outcome.error)
                    or time.monotonic() > end
                    or not (yield from self._answers())):
                return outcome
            again = yield from _once(novel)
            return dataclasses.replace(
                again, clear=again.error is not None and (
                    again.clear or is_lost(again.error)))

    def _conclude(self, name: str, outcome: _Outcome[T]) -> None:
        """The fallback has worked after the capability failed."""
        if outcome.error is None or outcome.clear:
            self._refuse(name, outcome.error)
        else:
            self._of(name).paused = time.monotonic() + PAUSE

    def _conclude_write(self, name: str, outcome: _Outcome[T], faster: bool,
                        most: int) -> None:
        """The same; repeated hangs become a refusal.

        :param faster: the fallback took no longer: the array is not slow in
            general
        :param most: that many hangs in a row are a refusal
        """
        progress = self._of(name)
        hangs = outcome.error is not None and not outcome.clear and (
            faster and errors.may_go_on(outcome.error))
        progress.unanswered = progress.unanswered + 1 if hangs else 0
        if hangs and progress.unanswered >= most:
            self._refuse(name, outcome.error)
        else:
            self._conclude(name, outcome)

    def _refuse(self, name: str, error: errors.RestError | None) -> None:
        words = 'no error, but nothing was done' if error is None else (
            f'HTTP {error.status}: {error.message}' if error.status
            else error.message)
        self._of(name).strikes = 0
        known = self._verdicts.get(name, Verdict()).state == REFUSED
        self._note(name, Verdict(REFUSED, words, time.time()))
        if known:
            # Another thread has found out meanwhile, or nothing has changed.
            return
        what, without = describe(name)
        LOG.warning(
            'The array at %(address)s does not offer %(what)s (capability '
            '%(name)s): %(without)s. It answered: %(words)s',
            {'address': self._address, 'what': what, 'name': name,
             'without': without, 'words': words})

    def _note(self, name: str, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts[name] = verdict
            self._store.save(self._version, self._verdicts)

    def _of(self, name: str) -> _Progress:
        with self._lock:
            return self._progress.setdefault(name, _Progress())

    @contextlib.contextmanager
    def _learner(self, name: str) -> Iterator[bool]:
        """Whether this caller is the one that learns."""
        progress = self._of(name)
        mine = (not self._prober.in_trial
                and time.monotonic() >= progress.paused
                and progress.learning.acquire(blocking=False))
        try:
            yield mine and self.verdict(name).state == UNKNOWN
        finally:
            if mine:
                progress.learning.release()

    def _not_offered(self, name: str, words: str) -> errors.NotOffered:
        what, _ = describe(name)
        why = f': {words}' if words else ' (k2_disabled_capabilities)'
        return errors.NotOffered(
            f'it does not offer {what} (capability {name}){why}',
            errors.Place(self._address))


def _once(novel: Act[T]) -> calls.Steps[_Outcome[T]]:
    try:
        return _Outcome(((yield from novel()),))
    except errors.OtherObject:
        # The fallback would do the same to the wrong object.
        raise
    except errors.RestError as error:
        return _Outcome(error=error, clear=is_refusal(error))


def describe(name: str) -> tuple[str, str]:
    """What a capability is, and how operations work without it."""
    for part in reversed(list(_beginnings(name))):
        if part in CAPABILITIES:
            return CAPABILITIES[part]
    return name, 'operations that need it fail'


def is_refusal(error: errors.RestError) -> bool:
    """Whether a request was clearly refused, possibly for its form."""
    return isinstance(error, (
        errors.Refused, errors.NotFound, errors.MethodNotAllowed,
        errors.Forbidden, errors.PassedOver))


def is_lost(error: errors.RestError) -> bool:
    """Whether a request was answered with 5xx, or its connection dropped.

    A time-out proves nothing: the array may just be slow.
    """
    return error.outcome_unknown and not errors.may_go_on(error)


def _beginnings(name: str) -> Iterator[str]:
    """The name up to each of its colons, and the name."""
    parts = name.split(':')
    for end in range(1, len(parts) + 1):
        yield ':'.join(parts[:end])
