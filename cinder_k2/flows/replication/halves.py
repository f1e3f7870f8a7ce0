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

"""A replication session: what both arrays show of it, and tell it."""

from collections.abc import Sequence
import dataclasses

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2.flows.replication.links import copy_name
from cinder_k2.flows.replication.links import unmarked
from cinder_k2 import rest

RUNNING = (replication.IN_SYNC, replication.SUSPENDED)


@dataclasses.dataclass(frozen=True)
class Half:
    """One array's record of a session, as it was seen last."""

    array: Array
    session: replication.Session

    @property
    def names(self) -> tuple[str, str]:
        """Those that it may have: what was made there has the mark here."""
        return (copy_name(True, self.session.name),
                copy_name(False, self.session.name))

    @property
    def state(self) -> str:
        """What it read last (10.4)."""
        return self.session.state

    @property
    def is_source(self) -> bool:
        """Whether it copied from its array then."""
        return self.session.role == replication.SOURCE

    def to(self, state: str) -> 'Half':
        """Bring it to a state (10.4). One call, none if it is there."""
        if self.state == state:
            return self
        session = self.array.replication.command(
            self.session.id, state, names=self.names)
        if session.state != state:
            return self.wait(state)
        return dataclasses.replace(self, session=session)

    def wait(self, state: str) -> 'Half':
        """Wait until it follows the other half (REP-8). One call mostly.

        :raises ReplicationTimeout: it does not
        """
        return dataclasses.replace(self, session=self.array.replication.wait(
            self.session.id, state, names=self.names))

    def delete(self, look_first: bool = False) -> None:
        """Delete it; it must be idle (10.4). One call.

        :param look_first: see by its name that the id is still its own
            (OBJ-7), in one more call
        """
        self.array.replication.delete(self.session, look_first=look_first)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Both arrays' records of a session; either may be missing.

    :ivar near: that of the array where Cinder has the volumes
    """

    near: Half | None
    far: Half | None

    def __str__(self) -> str:
        return f'{_words(self.near)} here, {_words(self.far)} there'

    @property
    def halves(self) -> list[Half]:
        """Those that there are, the target first (REP-15)."""
        return sorted((h for h in (self.near, self.far) if h is not None),
                      key=lambda half: half.is_source)

    @property
    def may_run(self) -> bool:
        """Whether it copies from here to there, or could."""
        return bool(self.near and self.near.is_source
                    and self.far and not self.far.is_source
                    and self.far.state == self.near.state)

    @property
    def is_open(self) -> bool:
        """Whether hosts could have what is there."""
        return bool(self.far and self.far.state == replication.FAILED_OVER)

    def start(self) -> None:
        """Start or resume it, if it may run. One call."""
        if self.near and self.may_run:
            self.near.to(replication.IN_SYNC)

    def suspend(self) -> 'Pair':
        """Suspend it if it copies from here. Two calls."""
        return Pair(*_suspend(self.near, self.far)) if self.near else self

    def stop(self) -> 'Pair':
        """Bring both to idle, from whatever state. Four calls if it runs."""
        pair = self._take_over()
        near, far = pair.near, pair.far
        if near and near.is_source:
            return Pair(*_stop_source(near, far))
        if far and far.is_source:
            far, near = _stop_source(far, near)
        return Pair(near, far)

    def _take_over(self) -> 'Pair':
        """Bring targets to idle that no source brings there.

        What is here is opened to hosts before (REP-16), and what has lost
        its source cannot be stopped but by a failover (rows 6, 8).
        """
        near, far = self.near, self.far
        if near and not near.is_source:
            if near.state in RUNNING:
                near = near.to(replication.FAILED_OVER)
            near = near.to(replication.IDLE)
        if far and not far.is_source:
            if far.state in RUNNING and near is None:
                far = far.to(replication.FAILED_OVER)
            if far.state == replication.FAILED_OVER:
                far = far.to(replication.IDLE)
        return Pair(near, far)


def _stop_source(source: Half, target: Half | None
                 ) -> tuple[Half, Half | None]:
    """Rows 4 and 5, with the waits of REP-15."""
    source, target = _suspend(source, target)
    if source.state == replication.SUSPENDED:
        source = source.to(replication.IDLE)
        target = _follow(target, replication.IDLE)
    return source, target


def _suspend(source: Half, target: Half | None
             ) -> tuple[Half, Half | None]:
    if source.state == replication.IN_SYNC:
        source = source.to(replication.SUSPENDED)
        if target and target.state == replication.IN_SYNC:
            target = _follow(target, replication.SUSPENDED)
    return source, target


def _follow(half: Half | None, state: str) -> Half | None:
    """Wait until a half follows the other; None if there is none."""
    if half is None or half.state == state:
        return half
    try:
        return half.wait(state)
    except rest.NotFound:
        return None


@dataclasses.dataclass(frozen=True)
class Finder:
    """Finds the halves of a session.

    :ivar names: both, that of the array where it was made first
    :ivar group: id of the volume group here. An array may be its own peer,
        and then has both halves (REP-21).
    """

    here: Array
    there: Array | None
    names: Sequence[str]
    group: int

    def near(self) -> Half | None:
        """The half here. One call.

        One whose group the array does not tell is known by its name, if
        there is one only.
        """
        found = list(self.here.replication.find_many(self.names).values())
        mine = [session for session in found if session.group == self.group]
        if not mine and len(found) == 1 and found[0].group is None:
            mine = [dataclasses.replace(found[0], group=self.group)]
        return Half(self.here, mine[0]) if mine else None

    def far(self, near: Half | None) -> Half | None:
        """The half there. No call if the other one runs, else one.

        :raises ReplicationError: what has its name there is none of this
        """
        if self.there is None:
            return None
        found = near and near.session
        if (found and found.role == replication.SOURCE and found.peer_session
                and found.state == replication.IN_SYNC):
            # Then it is a target and in sync, too (10.4).
            return Half(self.there, dataclasses.replace(
                found, id=found.peer_session, peer_session=found.id,
                group=None, role=replication.TARGET))
        other = self.there.replication.find(*[
            name for name in self.names if not found or name != found.name])
        if other and found and not other.is_half_of(found):
            raise exceptions.ReplicationError(
                f'Replication session {found.name} on the array at '
                f'{self.here.address} and {other.name} on that at '
                f'{self.there.address} do not belong together: one of them '
                'is with another array, or of an earlier replication. '
                'See which one, and delete it there.')
        return None if other is None else Half(self.there, other)

    def pair(self) -> Pair:
        """Both halves. One call or two."""
        near = self.near()
        return Pair(near, self.far(near))

    def running(self, near: Half | None) -> Pair:
        """Both halves of a session that copies from here to there.

        No call if it runs, else one.

        :raises ReplicationError: it does not, and could not
        """
        pair = Pair(near, self.far(near))
        if not pair.may_run:
            raise exceptions.ReplicationError(
                f'Replication session {self.names[0]} is '
                f'{_words(pair.near)} on the array at {self.here.address} '
                f'and {_words(pair.far)} on its peer. It must run from the '
                'first to the second.')
        return pair

    def is_marked(self, pair: Pair, group_name: str) -> bool:
        """Whether copies have the mark. No call while there is a half."""
        if pair.near:
            return pair.near.session.name == self.names[0]
        if pair.far:
            return pair.far.session.name != self.names[0]
        return self.here.volumes.find_group(
            unmarked(group_name)) == self.group


def _words(half: Half | None) -> str:
    return f'{half.state} as {half.session.role}' if half else 'missing'
