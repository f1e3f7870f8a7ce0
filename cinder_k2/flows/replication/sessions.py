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

"""A replication session, as both arrays show it, and its commands."""

from collections.abc import Sequence
import dataclasses

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2.flows.replication.target import copy_name
from cinder_k2.flows.replication.target import unmarked
from cinder_k2 import rest

RUNNING = (replication.IN_SYNC, replication.SUSPENDED)


@dataclasses.dataclass(frozen=True)
class ArraySession:
    """One array's record of a session, as last seen."""

    array: Array
    session: replication.Session

    @property
    def names(self) -> tuple[str, str]:
        """Its possible names: it has the mark if the peer created it."""
        return (copy_name(True, self.session.name),
                copy_name(False, self.session.name))

    @property
    def state(self) -> str:
        """Its last known state (10.4)."""
        return self.session.state

    @property
    def is_source(self) -> bool:
        """Whether it was the source when last seen."""
        return self.session.role == replication.SOURCE

    def to(self, state: str) -> 'ArraySession':
        """Bring it to a state (10.4). One call, none if it has that state."""
        if self.state == state:
            return self
        session = self.array.replication.command(
            self.session.id, state, names=self.names)
        if session.state != state:
            return self.wait(state)
        return dataclasses.replace(self, session=session)

    def wait(self, state: str) -> 'ArraySession':
        """Wait until it follows the other side (REP-8). Usually one call.

        :raises ReplicationTimeout: it is not in that state in time
        """
        return dataclasses.replace(self, session=self.array.replication.wait(
            self.session.id, state, names=self.names))

    def delete(self, look_first: bool = False) -> None:
        """Delete it; it must be idle (10.4). One call.

        :param look_first: check by its name that the id is still its own
            (OBJ-7), in one more call
        """
        self.array.replication.delete(self.session, look_first=look_first)


@dataclasses.dataclass(frozen=True)
class SessionPair:
    """Both arrays' records of a session; either may be missing.

    :ivar local: that of ``source_array``, which has Cinder's volumes
    :ivar remote: that of ``target_array``
    """

    local: ArraySession | None
    remote: ArraySession | None

    def __str__(self) -> str:
        return f'{_words(self.local)} here, {_words(self.remote)} there'

    @property
    def sessions(self) -> list[ArraySession]:
        """The existing sessions, the target first (REP-15)."""
        return sorted((h for h in (self.local, self.remote) if h is not None),
                      key=lambda side: side.is_source)

    @property
    def may_run(self) -> bool:
        """Whether it copies from local to remote, or could be started."""
        return bool(self.local and self.local.is_source
                    and self.remote and not self.remote.is_source
                    and self.remote.state == self.local.state)

    @property
    def is_open(self) -> bool:
        """Whether hosts may be using the copies on ``target_array``."""
        return bool(self.remote
                    and self.remote.state == replication.FAILED_OVER)

    def start(self) -> None:
        """Start or resume it, if it may run. One call."""
        if self.local and self.may_run:
            self.local.to(replication.IN_SYNC)

    def suspend(self) -> 'SessionPair':
        """Suspend it if the local side is in sync. Two calls."""
        return SessionPair(*_suspend(self.local,
                                     self.remote)) if self.local else self

    def stop(self) -> 'SessionPair':
        """Bring both sides to idle, from any state. Four calls if it runs."""
        pair = self._take_over()
        local, remote = pair.local, pair.remote
        if local and local.is_source:
            return SessionPair(*_stop_source(local, remote))
        if remote and remote.is_source:
            remote, local = _stop_source(remote, local)
        return SessionPair(local, remote)

    def _take_over(self) -> 'SessionPair':
        """Bring to idle the targets that no source brings there.

        A local target is failed over first, which opens its volumes to hosts
        (REP-16). A remote target without a source can be stopped only by a
        failover (rows 6 and 8 of section 10.4).
        """
        local, remote = self.local, self.remote
        if local and not local.is_source:
            if local.state in RUNNING:
                local = local.to(replication.FAILED_OVER)
            local = local.to(replication.IDLE)
        if remote and not remote.is_source:
            if remote.state in RUNNING and local is None:
                remote = remote.to(replication.FAILED_OVER)
            if remote.state == replication.FAILED_OVER:
                remote = remote.to(replication.IDLE)
        return SessionPair(local, remote)


def _stop_source(source: ArraySession, target: ArraySession | None
                 ) -> tuple[ArraySession, ArraySession | None]:
    """Stop a session from its source, with the waits of REP-15.

    Rows 4 and 5 of section 10.4.
    """
    source, target = _suspend(source, target)
    if source.state == replication.SUSPENDED:
        source = source.to(replication.IDLE)
        target = _follow(target, replication.IDLE)
    return source, target


def _suspend(source: ArraySession, target: ArraySession | None
             ) -> tuple[ArraySession, ArraySession | None]:
    if source.state == replication.IN_SYNC:
        source = source.to(replication.SUSPENDED)
        if target and target.state == replication.IN_SYNC:
            target = _follow(target, replication.SUSPENDED)
    return source, target


def _follow(side: ArraySession | None, state: str) -> ArraySession | None:
    """Wait until a side follows the other; None if it does not exist."""
    if side is None or side.state == state:
        return side
    try:
        return side.wait(state)
    except rest.NotFound:
        return None


@dataclasses.dataclass(frozen=True)
class Finder:
    """Finds both arrays' records of a session.

    :ivar names: both names, first the one on the array that created it
    :ivar group: id of the volume group on ``source_array``; needed because an
        array that is its own peer has both records (REP-21)
    """

    source_array: Array
    target_array: Array | None
    names: Sequence[str]
    group: int

    def local(self) -> ArraySession | None:
        """The session on ``source_array``. One call.

        A session whose group the array does not show counts if no other
        session has one of the names.
        """
        found = list(self.source_array.replication.find_many(
            self.names).values())
        mine = [session for session in found if session.group == self.group]
        if not mine and len(found) == 1 and found[0].group is None:
            mine = [dataclasses.replace(found[0], group=self.group)]
        return ArraySession(self.source_array, mine[0]) if mine else None

    def remote(self, local: ArraySession | None) -> ArraySession | None:
        """The session on ``target_array``.

        No call if the local one is a source in sync, else one.

        :param local: what ``local`` returned
        :raises ReplicationError: the session with its name on that array does
            not belong to the local one
        """
        if self.target_array is None:
            return None
        found = local and local.session
        if (found and found.role == replication.SOURCE and found.peer_session
                and found.state == replication.IN_SYNC):
            # Then it is a target and in sync, too (10.4).
            return ArraySession(self.target_array, dataclasses.replace(
                found, id=found.peer_session, peer_session=found.id,
                group=None, role=replication.TARGET))
        other = self.target_array.replication.find(*[
            name for name in self.names if not found or name != found.name])
        if other and found and not other.is_half_of(found):
            raise exceptions.ReplicationError(
                f'Replication session {found.name} on the array at '
                f'{self.source_array.address} and {other.name} on that at '
                f'{self.target_array.address} do not belong together: one of '
                'them is with another array, or of an earlier replication. '
                'See which one, and delete it there.')
        return None if other is None else ArraySession(self.target_array,
                                                       other)

    def pair(self) -> SessionPair:
        """Both sides of the session. One call or two."""
        local = self.local()
        return SessionPair(local, self.remote(local))

    def running(self, local: ArraySession | None) -> SessionPair:
        """Both sides of a session that copies from local to remote.

        No call if the local one is a source in sync, else one.

        :raises ReplicationError: it does not copy, and could not be started
        """
        pair = SessionPair(local, self.remote(local))
        if not pair.may_run:
            raise exceptions.ReplicationError(
                f'Replication session {self.names[0]} is '
                f'{_words(pair.local)} on the array at '
                f'{self.source_array.address} and {_words(pair.remote)} on '
                'its peer. It must run from the first to the second.')
        return pair

    def is_marked(self, pair: SessionPair, group_name: str) -> bool:
        """Whether copies have the mark. One call if there is no session."""
        if pair.local:
            return pair.local.session.name == self.names[0]
        if pair.remote:
            return pair.remote.session.name != self.names[0]
        return self.source_array.volumes.find_group(
            unmarked(group_name)) == self.group


def _words(side: ArraySession | None) -> str:
    return f'{side.state} as {side.session.role}' if side else 'missing'
