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

"""Detaches from one host that share one check of whether it has volumes.

This can be checked only while no other operation maps to the host. When a
hypervisor shuts down fifty instances, each of fifty detaches would have to
wait for those before it. Instead, the first one checks for all that wait when
its check begins: their volumes are unmapped by then. If the check fails, the
others repeat it by themselves.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import threading
import typing

from cinder_k2.array import host_identity
from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_access

T = typing.TypeVar('T')


@dataclasses.dataclass
class _Round(typing.Generic[T]):
    """Detaches that share one check.

    :ivar waiting: what each of them did
    :ivar is_over: whether the check has ended
    :ivar found: its result; None if it failed
    """

    waiting: list[T] = dataclasses.field(default_factory=list)
    is_over: bool = False
    found: bool | None = None


class Settling(typing.Generic[T]):
    """The detaches of this service that wait to check a host.

    :param hosts: holds hosts
    """

    def __init__(self, hosts: host_access.HostAccess) -> None:
        self._hosts = hosts
        self._changed = threading.Condition()
        self._rounds: dict[host_identity.Sought, _Round[T]] = {}

    def settle(self, sought: host_identity.Sought, done: T,
               look: Callable[[Sequence[T]], bool]) -> bool:
        """Check a host while nobody else uses it, or wait for such a check.

        :param done: what this detach did
        :param look: the check; called while the host is held, by one of those
            that wait, with what all of them did
        :returns: what ``look`` returned
        :raises LockTimeout: others held the host too long
        """
        mine, is_first = self._join(sought, done)
        if is_first:
            return self._look(sought, mine, look)
        with self._changed:
            self._changed.wait_for(lambda: mine.is_over, locks.LOCK_TIMEOUT)
        if mine.found is not None:
            return mine.found
        # The other one failed, which it reports itself, or it takes too long.
        with self._hosts.held(sought.initiators):
            return look([done])

    def _join(self, sought: host_identity.Sought, done: T
              ) -> tuple[_Round[T], bool]:
        """Join those that wait for a host; whether it is the first."""
        with self._changed:
            is_first = sought not in self._rounds
            mine = self._rounds.setdefault(sought, _Round())
            mine.waiting.append(done)
            return mine, is_first

    def _look(self, sought: host_identity.Sought, mine: _Round[T],
              look: Callable[[Sequence[T]], bool]) -> bool:
        """Check for all that have joined by the time the host is held."""
        try:
            with self._hosts.held(sought.initiators):
                self._close(sought, mine)
                mine.found = look(mine.waiting)
        finally:
            self._close(sought, mine)
            with self._changed:
                mine.is_over = True
                self._changed.notify_all()
        return mine.found

    def _close(self, sought: host_identity.Sought, mine: _Round[T]) -> None:
        """Let those that come from now on wait for another check."""
        with self._changed:
            if self._rounds.get(sought) is mine:
                del self._rounds[sought]
