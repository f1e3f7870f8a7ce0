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

"""Holding a host, alone or together with others.

Creating and deleting a host need exclusive access. Mapping volumes to an
existing host, and unmapping them, run concurrently: a hypervisor that boots
fifty instances must not wait fifty times.

So the operation that has the locks of a host may share it. Other threads of
this service do not take the locks; they are released when all have left.
Another service of the cluster gets one of the two (``locks.HostLocks``) and
shares it with its own threads. No two operations inside have the same subject:
those of this service wait for each other here, and each has the lock of its
mapping while another service may be inside.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Set
import contextlib
import dataclasses
import threading
import time
import typing

from oslo_log import log as logging

from cinder_k2.driver import locks
from cinder_k2 import exceptions
from cinder_k2.flows import hosts

LOG = logging.getLogger(__name__)

_Host = tuple[str, frozenset[str]]
# Seconds to wait for another service that maps the same volume to the host.
# The first operation waits longer for those that have entered after it.
_MAPPING_TIMEOUT = locks.LOCK_TIMEOUT / 2


class Subject(typing.NamedTuple):
    """What an operation maps or unmaps.

    Operations on the same subject exclude each other.

    :ivar name: id of a Cinder volume, or the reference of another object
    :ivar has_row: whether it is a volume in Cinder. Other services may map
        those, too; other objects belong to one service, or are locked.
    """

    name: str
    has_row: bool

    def locked(self, initiators: Iterable[str], timeout: float
               ) -> contextlib.AbstractContextManager[None]:
        """Exclude other services that map it to a host, or unmap it.

        :param initiators: those of the host
        :param timeout: seconds to wait for them
        :raises LockTimeout: another service held it too long
        """
        if not self.has_row:
            return contextlib.nullcontext()
        return locks.mapping(self.name, initiators, timeout)


@dataclasses.dataclass(eq=False)
class _Waiter:
    """An operation that waits to share a hold.

    :ivar alone: whether no other service may use the host
    :ivar is_inside: whether it shares it by now
    """

    what: Subject | None
    alone: bool = False
    is_inside: bool = False


@dataclasses.dataclass
class _Round:
    """One period in which a host is held.

    :ivar inside: subjects of the operations inside, all different
    :ivar waiting: operations that wait to share it
    :ivar is_open: whether they may enter
    :ivar is_alone: whether no other service used the host when it began
    """

    inside: set[Subject | None]
    waiting: list[_Waiter] = dataclasses.field(default_factory=list)
    is_open: bool = False
    is_alone: bool = True

    @property
    def has_others(self) -> bool:
        """Whether an operation waits that can enter."""
        return any(map(self._can_enter, self.waiting))

    def _can_enter(self, waiter: _Waiter) -> bool:
        return (waiter.what not in self.inside
                and (self.is_alone or not waiter.alone))

    def admit(self) -> None:
        """Let in those that wait, but only one of each subject.

        At once, not when they wake up: the first operation may have left by
        then, and each of them would have to be the first of the next round.
        """
        for waiter in self.waiting:
            waiter.is_inside = self._can_enter(waiter)
            if waiter.is_inside:
                self.inside.add(waiter.what)
        self.waiting = [waiter for waiter in self.waiting
                        if not waiter.is_inside]


class Hold:
    """The hold of one thread on a host.

    :param held: the period to which it belongs
    :param own: its locks, released in reverse order
    :param lock: those of the host; None if another operation has taken them
    :ivar timeout: seconds to wait for each lock; None for the default
    """

    def __init__(self, changed: threading.Condition, held: _Round,
                 initiators: Set[str], what: Subject | None,
                 own: contextlib.ExitStack, lock: locks.HostLocks | None,
                 timeout: float | None) -> None:
        self.timeout = timeout
        self._changed = changed
        self._round = held
        self._initiators = initiators
        self._what = what
        self._own = own
        self._lock = lock

    @property
    def is_alone(self) -> bool:
        """Whether no other operation is inside, or can enter."""
        return (self._lock is not None and self._lock.is_alone
                and not self._round.is_open)

    def claim(self) -> None:
        """Ensure exclusive access.

        :raises hosts.MustBeAlone: another operation may be inside
        """
        if not self.is_alone:
            raise hosts.MustBeAlone

    def share(self) -> None:
        """Share the hold with waiting operations; the host stays as it is.

        A hold without a subject stays exclusive, since any other operation may
        be on the same volume. If no thread of this service waits, other
        services keep waiting until this operation ends: alone it needs fewer
        calls.
        """
        if self._lock is None or self._what is None:
            return
        if not self._open(self._lock.is_alone) or not self._lock.is_alone:
            return
        try:
            self._own.enter_context(self._what.locked(self._initiators, 0))
            self._lock.share()
        except Exception as error:
            # What the caller has done must not be undone because of this.
            LOG.warning('Other services wait for the host of %(host)s longer '
                        'than they need: %(error)s', {
                            'host': ', '.join(sorted(self._initiators)),
                            'error': error})

    def _open(self, only_for_waiting: bool) -> bool:
        """Admit operations that wait, and those that come later.

        :param only_for_waiting: only if one waits that can enter
        :returns: whether it has done so
        """
        with self._changed:
            if self._round.is_open or (only_for_waiting
                                       and not self._round.has_others):
                return False
            self._round.is_open = True
            self._round.admit()
            self._changed.notify_all()
            return True


class HostHolds:
    """The hosts that the threads of this service hold."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rounds: dict[_Host, _Round] = {}

    @contextlib.contextmanager
    def hold(self, system_id: str, initiators: Iterable[str],
             what: Subject | None = None, timeout: float | None = None, *,
             alone: bool = False) -> Iterator[Hold]:
        """Hold the host that has these initiators.

        :param what: the subject, if the operation can run concurrently with
            those on other subjects; without it the hold is exclusive
        :param timeout: seconds to wait for it and for each lock; default as
            for locks
        :param alone: whether to wait until no other service uses the host;
            threads of this service may still share the hold
        :raises LockTimeout: others held it too long
        """
        host = system_id, frozenset(i.lower() for i in initiators)
        held, is_first = self._enter(
            host, what, locks.LOCK_TIMEOUT if timeout is None else timeout,
            alone)
        try:
            with contextlib.ExitStack() as own:
                lock = own.enter_context(self._locked(
                    host, held, what, timeout, alone)) if is_first else None
                if what is not None and not (lock and lock.is_alone):
                    own.enter_context(what.locked(host[1], _MAPPING_TIMEOUT))
                yield Hold(self._changed, held, host[1], what, own, lock,
                           timeout)
        finally:
            self._leave(host, held, what, is_first)

    def _enter(self, host: _Host, what: Subject | None, timeout: float,
               alone: bool) -> tuple[_Round, bool]:
        """Join a shared hold, or be the first of a new one.

        :param timeout: seconds to wait for operations that do not share
        :returns: the hold, and whether this is its first operation
        """
        end = time.monotonic() + timeout
        with self._changed:
            while (held := self._rounds.get(host)) is not None:
                if self._share(host, held, what, end, alone):
                    return held, False
                if time.monotonic() >= end:
                    raise exceptions.LockTimeout(
                        f'Waited {timeout:g} seconds for a host; another '
                        'operation on it is slow, or hangs.')
            held = self._rounds[host] = _Round({what})
            return held, True

    def _share(self, host: _Host, held: _Round, what: Subject | None,
               end: float, alone: bool) -> bool:
        """Wait to share a hold; False if the hold, or the time, ends first."""
        mine = _Waiter(what, alone)
        if what is not None:
            held.waiting.append(mine)
            if held.is_open:
                held.admit()
        self._changed.wait_for(
            lambda: mine.is_inside or self._rounds.get(host) is not held,
            end - time.monotonic())
        if mine in held.waiting:
            held.waiting.remove(mine)
        return mine.is_inside

    @contextlib.contextmanager
    def _locked(self, host: _Host, held: _Round, what: Subject | None,
                timeout: float | None, alone: bool
                ) -> Iterator[locks.HostLocks]:
        """Hold the locks until the last operation that entered has left."""
        with locks.host(*host, timeout, alone=alone or what is None) as lock:
            held.is_alone = lock.is_alone
            try:
                yield lock
            finally:
                with self._changed:
                    held.is_open = False
                    if not self._changed.wait_for(
                            lambda: held.inside == {what}, locks.LOCK_TIMEOUT):
                        LOG.error('Operations on the host of %(host)s hang; '
                                  'others do not wait for them any more.',
                                  {'host': ', '.join(sorted(host[1]))})

    def _leave(self, host: _Host, held: _Round, what: Subject | None,
               is_first: bool) -> None:
        with self._changed:
            held.inside.discard(what)
            if held.is_open:
                held.admit()
            if is_first:
                del self._rounds[host]
            self._changed.notify_all()
