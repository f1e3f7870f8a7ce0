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

"""Units being failed back, and their progress."""

from collections.abc import Set
import enum

from cinder_k2.array import replication
from cinder_k2.array.replication import FAILED_OVER
from cinder_k2.array.replication import SOURCE
from cinder_k2.array.replication import TARGET
from cinder_k2 import exceptions
from cinder_k2.flows.failover.units import DESTINATION
from cinder_k2.flows.failover.units import Ids
from cinder_k2.flows.failover.units import ORIGIN
from cinder_k2.flows.failover.units import ReplicationUnit
from cinder_k2.flows.failover.units import RUNNING


class Phase(enum.Enum):
    """The progress of the failback of a unit, by the states of its sessions.

    :cvar FAILED_OVER: ``origin`` has the data, and ``destination`` does not
        receive it yet
    :cvar TRANSITIONING: one array does not show yet what the other did (REP-8)
    :cvar PAUSED: as FAILING_BACK, but the session is suspended
    :cvar FAILING_BACK: ``origin`` replicates to ``destination``
    :cvar TAKEN_OVER: ``destination`` has failed over, and does not replicate
        to ``origin`` yet
    :cvar SUSPENDED: as FAILED_BACK, but the session is suspended
    :cvar FAILED_BACK: ``destination`` replicates to ``origin``
    :cvar UNKNOWN: the sessions show none of these
    """

    FAILED_OVER = enum.auto()
    TRANSITIONING = enum.auto()
    PAUSED = enum.auto()
    FAILING_BACK = enum.auto()
    TAKEN_OVER = enum.auto()
    SUSPENDED = enum.auto()
    FAILED_BACK = enum.auto()
    UNKNOWN = enum.auto()


# The states of the sessions on origin and destination, and what they mean
# (10.4).
_TABLE = {
    ('target failed_over', 'source in_sync'): Phase.FAILED_OVER,
    ('target failed_over', 'source suspended'): Phase.FAILED_OVER,
    ('target failed_over', 'target in_sync'): Phase.TRANSITIONING,
    ('source in_sync', 'source in_sync'): Phase.TRANSITIONING,
    ('source in_sync', 'source suspended'): Phase.TRANSITIONING,
    ('source in_sync', 'target suspended'): Phase.TRANSITIONING,
    ('source suspended', 'target in_sync'): Phase.PAUSED,
    ('source suspended', 'target suspended'): Phase.PAUSED,
    ('source in_sync', 'target in_sync'): Phase.FAILING_BACK,
    ('source in_sync', 'target failed_over'): Phase.TAKEN_OVER,
    ('source suspended', 'target failed_over'): Phase.TAKEN_OVER,
    ('source suspended', 'source in_sync'): Phase.TRANSITIONING,
    ('target in_sync', 'target failed_over'): Phase.TRANSITIONING,
    ('target suspended', 'source in_sync'): Phase.TRANSITIONING,
    ('target in_sync', 'source suspended'): Phase.SUSPENDED,
    ('target suspended', 'source suspended'): Phase.SUSPENDED,
    ('target in_sync', 'source in_sync'): Phase.FAILED_BACK,
}


_BEGUN_ANEW = 'Its replication was started again meanwhile; try again.'


class FailbackItem:
    """A unit being failed back.

    :ivar sessions: its sessions by side
    :ivar volumes: ids of its volumes by side and name
    :ivar generation: generation of the replication snapshot that has to
        arrive, None before one is taken
    :ivar snapshots: attempts to take that snapshot
    :ivar copies: attempts to copy and move it after hosts had lost it
    :ivar detached: it is unmapped on ``origin``
    :ivar moved: its newest data is on ``destination``
    :ivar outcome_unknown: ``destination`` was commanded to take over, and may
        still do so
    :ivar commanded: when it was, in seconds of the clock
    :ivar promised: ``destination`` accepted that command, and has not been
        read since
    :ivar disputed: both arrays may have data that the other does not have
    :ivar obstacle: why it has to wait
    :ivar reason: why it does not continue; empty if it does
    """

    def __init__(self, unit: ReplicationUnit) -> None:
        self.unit = unit
        self.sessions: dict[str, replication.Session | None] = {
            ORIGIN: None, DESTINATION: None}
        self.volumes: dict[str, dict[str, Ids]] = {ORIGIN: {}, DESTINATION: {}}
        self.generation: int | None = None
        self.snapshots = 0
        self.copies = 0
        self.detached = False
        self.moved = False
        self.outcome_unknown = False
        self.commanded = 0.0
        self.promised = False
        self.disputed = False
        self.obstacle = ''
        self.reason = ''
        self._numbers: dict[str, int] = {}

    @property
    def phase(self) -> Phase:
        """The phase, from the table."""
        origin, destination = (session and f'{session.role} {session.state}'
                               for session in self.sessions.values())
        return (_TABLE.get((origin or '', destination or ''), Phase.UNKNOWN)
                if self.is_paired else Phase.UNKNOWN)

    @property
    def is_paired(self) -> bool:
        """Whether both arrays have their side of one session."""
        origin, destination = self.sessions.values()
        return bool(origin and destination and origin.is_half_of(destination))

    def is_any_of(self, volumes: Set[int]) -> bool:
        """Whether one of its volumes on ``origin`` has one of these ids."""
        return not volumes.isdisjoint(
            ids[0] for ids in self.volumes[ORIGIN].values())

    def see(self, side: str, session: replication.Session | None) -> None:
        """Record what an array shows.

        Once the newest data is on ``destination``, it does not come back to
        ``origin``. A unit whose session is not the one seen first does not
        continue: its replication was started again, with another copy.

        :param side: ORIGIN or DESTINATION
        :param session: the session on that array, None without one
        """
        self.sessions[side] = session
        if session is not None and session.id != self._numbers.setdefault(
                side, session.id):
            self.reason = self.reason or _BEGUN_ANEW
            self.outcome_unknown = False
        self.moved = self.moved or self._is_there()
        self.outcome_unknown = self.outcome_unknown and not self.moved
        if side == DESTINATION:
            self.promised = False

    def _is_there(self) -> bool:
        """Whether ``destination`` took over; two sources prove nothing."""
        origin, destination = self.sessions[ORIGIN], self.sessions[DESTINATION]
        if destination is None or origin and (origin.state == FAILED_OVER
                                              or not self.is_paired):
            return False
        return destination.state == FAILED_OVER or (
            destination.role == SOURCE and origin is not None
            and origin.role == TARGET and origin.state in RUNNING)

    def session(self, side: str) -> replication.Session:
        """Its session on an array, where its phase implies one.

        :raises ReplicationError: it has none
        """
        session = self.sessions[side]
        if session is None:
            raise exceptions.ReplicationError(
                f'The replication session of {self.unit.key} has gone.')
        return session

    def has_arrived(self) -> bool:
        """Whether its data has arrived, up to its ``generation`` (REP-14)."""
        origin = self.sessions[ORIGIN]
        return (self.phase is Phase.FAILING_BACK and origin is not None
                and self.generation is not None
                and origin.has_arrived(self.generation))


FailbackItems = list[FailbackItem]
