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

"""Letting the other array serve, and bringing everything home again.

For many volumes at once: each look and each command is a few calls for all
of them. What an array shows is what counts, never what a command promised,
so both functions may be called again whatever became of the last call.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import enum

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.array.replication import FAILED_OVER
from cinder_k2.array.replication import IDLE
from cinder_k2.array.replication import IN_SYNC
from cinder_k2.array.replication import SOURCE
from cinder_k2.array.replication import SUSPENDED
from cinder_k2.array.replication import TARGET
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import waiting

LOG = logging.getLogger(__name__)

#: The array that had the data, and the one that is to have it.
HERE = 'here'
THERE = 'there'

Ids = tuple[int, int]
#: Takes volumes of an array from all hosts: ids of volume and group by name.
Unmap = Callable[[Array, Mapping[str, Ids]], None]
#: Keeps units from hosts until the failback is over, also if that is cut
#: short; gives back the keys of those that it could.
Reserve = Callable[[Collection[str]], Collection[str]]

# Seconds that a command may take to show on both arrays (REP-6, REP-8).
_PATIENCE = 60.0
# Seconds for the last changes, for which the hosts of all have to wait.
_LAST_CHANGES = 600.0
# Seconds between two looks, at first and at last.
_FIRST_PAUSE = 1.0
_LAST_PAUSE = 10.0
# Seconds between two lines of progress in the log.
_REPORT = 60.0
# Replication snapshots for one copying, if the link keeps breaking.
_MOST_SNAPSHOTS = 5

_RUNNING = (IN_SYNC, SUSPENDED)
_ANEW = ('Turn its replication off and on again, by its type or its group: '
         'its copy is made anew then.')


@dataclasses.dataclass(frozen=True)
class Unit:
    """What has a replication session: a volume, or a consistency group.

    :ivar key: the caller's name of it
    :ivar sessions: names that its session may have on either array
    :ivar volumes: names of its volumes; an array has each under this name,
        or under that which naming.peer makes of it
    :ivar reserved: no host can have got it since an earlier failback was
        about to hand it over
    """

    key: str
    sessions: tuple[str, ...]
    volumes: tuple[str, ...]
    reserved: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Where a unit is in the end.

    :ivar served_by: HERE or THERE: the array with its newest data
    :ivar volumes: if that is THERE, ids there of volume and volume group,
        by the names in Unit.volumes; those are left out that are missing
    :ivar reason: what did not become as it should; empty if all did
    :ivar in_doubt: the array that was to take over may have done so
    :ivar copied: THERE copies it to the other array
    """

    served_by: str
    volumes: Mapping[str, Ids]
    reason: str = ''
    in_doubt: bool = False
    copied: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is served by THERE, and as it should be."""
        return not self.reason


class Phase(enum.Enum):
    """How far a unit is on its way home."""

    AWAY = enum.auto()
    PASSING = enum.auto()
    PAUSED = enum.auto()
    RETURNING = enum.auto()
    TAKEN_OVER = enum.auto()
    HALTED = enum.auto()
    HOME = enum.auto()
    LOST = enum.auto()


# What the sessions here and there read, and what that means (10.4). While a
# unit is PASSING one array has yet to show what the other does (REP-8).
_TABLE = {
    ('target failed_over', 'source in_sync'): Phase.AWAY,
    ('target failed_over', 'source suspended'): Phase.AWAY,
    ('target failed_over', 'target in_sync'): Phase.PASSING,
    ('source in_sync', 'source in_sync'): Phase.PASSING,
    ('source in_sync', 'source suspended'): Phase.PASSING,
    ('source in_sync', 'target suspended'): Phase.PASSING,
    ('source suspended', 'target in_sync'): Phase.PAUSED,
    ('source suspended', 'target suspended'): Phase.PAUSED,
    ('source in_sync', 'target in_sync'): Phase.RETURNING,
    ('source in_sync', 'target failed_over'): Phase.TAKEN_OVER,
    ('source suspended', 'target failed_over'): Phase.TAKEN_OVER,
    ('source suspended', 'source in_sync'): Phase.PASSING,
    ('target in_sync', 'target failed_over'): Phase.PASSING,
    ('target suspended', 'source in_sync'): Phase.PASSING,
    ('target in_sync', 'source suspended'): Phase.HALTED,
    ('target suspended', 'source suspended'): Phase.HALTED,
    ('target in_sync', 'source in_sync'): Phase.HOME,
}


def fail_over(there: Array, units: Collection[Unit],
              clock: waiting.Clock | None = None) -> dict[str, Outcome]:
    """Let an array serve units; the other one is not asked (REP-9).

    What it does not show afterwards did not happen.

    :param there: the array that is to serve
    :returns: by key of the unit; served_by is HERE where it is not served
        by ``there``
    :raises RestError: the array does not answer; nothing was done
    :raises TakeoverUnknown: it does not any more
    """
    sessions = _look(there, units)
    volumes = _volumes(there, units, sessions)
    asked = {session.id for key, session in sessions.items()
             if volumes[key] and _can_take_over(session)}
    refused = _ask(there, asked, FAILED_OVER) if asked else {}
    if asked:
        told = frozenset(key for key, session in sessions.items()
                         if session.id in asked)
        try:
            sessions = _await_takeover(there, units, asked - set(refused),
                                       clock)
        except rest.RestError as error:
            raise exceptions.TakeoverUnknown(
                f'The array at {there.address} was told to take over, and '
                f'does not say whether it did. {error}', told) from error
    return {unit.key: _taken_over(there, unit, sessions.get(unit.key),
                                  volumes[unit.key], refused)
            for unit in units}


def _can_take_over(session: replication.Session) -> bool:
    return session.role == TARGET and session.state in _RUNNING


def _serves(session: replication.Session) -> bool:
    return (session.state == FAILED_OVER if session.role == TARGET
            else session.role == SOURCE and session.state != IDLE)


def _ask(array: Array, sessions: Collection[int], state: str
         ) -> dict[int, str]:
    """Tell sessions what to do; those that may not have, and why."""
    try:
        with array.deadline(fresh=True):
            return array.replication.command_many(sessions, state)
    except rest.RestError as error:
        return dict.fromkeys(sessions, str(error))


def _await_takeover(there: Array, units: Collection[Unit], asked: set[int],
                    clock: waiting.Clock | None
                    ) -> dict[str, replication.Session]:
    """Look until all that were asked have taken over, or time is up."""
    sessions: dict[str, replication.Session] = {}

    def all_serve() -> bool:
        sessions.update(_look(there, units))
        return all(_serves(session) for session in sessions.values()
                   if session.id in asked)

    try:
        waiting.wait_until(all_serve, _PATIENCE, what='failover',
                           clock=clock)
    except waiting.WaitTimeout as late:
        LOG.warning('Array at %(address)s: %(late)s',
                    {'address': there.address, 'late': late})
    return sessions


def _taken_over(there: Array, unit: Unit,
                session: replication.Session | None,
                volumes: Mapping[str, Ids], refused: Mapping[int, str]
                ) -> Outcome:
    missing = _missing(there, unit, volumes)
    if session and _serves(session):
        return Outcome(THERE, volumes, missing, copied=(
            session.role, session.state) == (SOURCE, IN_SYNC))
    why = refused.get(session.id, '') if session else ''
    if session and _can_take_over(session):
        why = why or missing
    return Outcome(HERE, {}, why or _trouble(there, session))


def _sessions(array: Array, units: Iterable[Unit]
              ) -> dict[str, replication.Session]:
    """The sessions of units on an array, by key."""
    units = list(units)
    found = array.replication.find_many(
        [name for unit in units for name in unit.sessions])
    return {unit.key: found[name] for unit in units
            for name in unit.sessions if name in found}


def _look(array: Array, units: Iterable[Unit]
          ) -> dict[str, replication.Session]:
    """The same, with all the time that calls may take."""
    with array.deadline(fresh=True):
        return _sessions(array, units)


def _volumes(array: Array, units: Iterable[Unit],
             sessions: Mapping[str, replication.Session]
             ) -> dict[str, dict[str, Ids]]:
    """Ids of the volumes of units that are in the groups of the sessions."""
    units = list(units)
    with array.deadline(fresh=True):
        found = array.replication.volumes_of(
            [either for unit in units for name in unit.volumes
             for either in (name, naming.peer(name))])
    groups = {key: session.group for key, session in sessions.items()}
    return {unit.key: {
        name: found[either] for name in unit.volumes
        for either in (name, naming.peer(name))
        if either in found
        and groups.get(unit.key) in (None, found[either][1])}
        for unit in units}


def _missing(array: Array, unit: Unit, volumes: Mapping[str, Ids]) -> str:
    """That an array lacks volumes of a unit; empty if it has them."""
    names = [name for name in unit.volumes if name not in volumes]
    return names and (
        f'The array at {array.address} has no replicated volume '
        f'{", ".join(names)}.') or ''


def _trouble(array: Array, session: replication.Session | None) -> str:
    """Why a unit cannot be served, as the array shows its session."""
    if session is None:
        return f'The array at {array.address} has no replication session ' \
               'for it.'
    why = f' ({session.why})' if session.why else ''
    return (f'Replication session {session.name} on the array at '
            f'{array.address} is {session.state} as {session.role}{why}.')


def fail_back(here: Array, there: Array, units: Iterable[Unit], *,
              timeout: float, unmap: Unmap, reserve: Reserve,
              clock: waiting.Clock | None = None) -> dict[str, Outcome]:
    """Bring units that are served here home (REP-11, REP-12, REP-14).

    May be called again after whatever ended the last call: each unit goes
    on from where its two sessions are. What does not get home stays served
    here, with a reason.

    :param timeout: seconds for the data to arrive; the last changes, for
        which the hosts of all units have to wait, get ten minutes
    :param unmap: called with ``there`` before its volumes are overwritten,
        and with ``here`` when the data has arrived but for the last changes
    :param reserve: called before that
    :returns: by key of the unit; none of the errors of an array is raised
    """
    journey = _Journey({HERE: here, THERE: there}, units, timeout, unmap,
                       reserve, clock or waiting.Clock())
    journey.run(_MOVES)
    return journey.outcomes()


def protect_again(here: Array, there: Array, units: Iterable[Unit], *,
                  unmap: Unmap, clock: waiting.Clock | None = None
                  ) -> dict[str, str]:
    """Let what is served here be copied there again.

    For units that are where they belong, and whose failback or link was cut
    short: what ``there`` has is overwritten.

    :param unmap: called with ``there`` before that
    :returns: by key of the unit: why it is not copied; empty if it is, and
        missing where ``there`` has no session of it
    """
    journey = _Journey({HERE: here, THERE: there}, units, _PATIENCE, unmap,
                       lambda keys: keys, clock or waiting.Clock())
    journey.run(_MOVES_AT_HOME)
    return journey.reasons()


class _Traveller:
    """A unit on its way home.

    :ivar sessions: its sessions by side
    :ivar volumes: ids of its volumes by side and name
    :ivar generation: what has to arrive, None if there is nothing yet
    :ivar snapshots: how many times that was tried
    :ivar detached: hosts lost it here
    :ivar moved: its newest data is there
    :ivar in_doubt: ``there`` was told to take over, and not seen since
    :ivar promised: and it said that it did
    :ivar disputed: both arrays may have data that the other has not
    :ivar reason: why it does not get any further
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.sessions: dict[str, replication.Session | None] = {
            HERE: None, THERE: None}
        self.volumes: dict[str, dict[str, Ids]] = {HERE: {}, THERE: {}}
        self.generation: int | None = None
        self.snapshots = 0
        self.detached = False
        self.moved = False
        self.in_doubt = False
        self.promised = False
        self.disputed = False
        self.reason = ''

    @property
    def phase(self) -> Phase:
        """What the table says."""
        here, there = (session and f'{session.role} {session.state}'
                       for session in self.sessions.values())
        return _TABLE.get((here or '', there or ''), Phase.LOST)

    def see(self, side: str, session: replication.Session | None) -> None:
        """Keep what an array shows.

        Newest data that is there once does not come back here.
        """
        self.sessions[side] = session
        self.moved = self.moved or self._is_there()
        if side == THERE:
            self.in_doubt = self.promised = False

    def _is_there(self) -> bool:
        """Whether ``there`` has taken over; two sources tell nothing."""
        here, there = self.sessions[HERE], self.sessions[THERE]
        if there is None or here and here.state == FAILED_OVER:
            return False
        return there.state == FAILED_OVER or (
            there.role == SOURCE and here is not None
            and here.role == TARGET and here.state in _RUNNING)

    def session(self, side: str) -> replication.Session:
        """Its session, of which some phase says that it is there."""
        session = self.sessions[side]
        if session is None:
            raise exceptions.ReplicationError(
                f'The replication session of {self.unit.key} has gone.')
        return session

    def has_arrived(self) -> bool:
        """Whether its data has, up to the snapshot (REP-14)."""
        here = self.sessions[HERE]
        return (self.phase is Phase.RETURNING and here is not None
                and self.generation is not None
                and here.has_arrived(self.generation))


Travellers = list[_Traveller]


class _Journey:
    """All units on their way home, and what is done for them."""

    def __init__(self, arrays: dict[str, Array], units: Iterable[Unit],
                 timeout: float, unmap: Unmap, reserve: Reserve,
                 clock: waiting.Clock) -> None:
        self._arrays = arrays
        self._all = [_Traveller(unit) for unit in units]
        self._unmap = unmap
        self._reserve = reserve
        self._clock = clock
        self._told = clock.monotonic()
        self._end = self._told + timeout

    def run(self, moves: 'Moves') -> None:
        """Go as far as each unit gets; what stops it is its reason."""
        try:
            self._prepare()
            for phase, move in moves:
                batch = self._in(phase)
                if batch:
                    move(self, batch)
        except (rest.RestError, exceptions.K2Error) as error:
            self._drop(self._all, str(error))
        self._conclude()

    def outcomes(self) -> dict[str, Outcome]:
        """What became of the units, as the arrays showed it last."""
        return {one.unit.key: self._outcome(one) for one in self._all}

    def reasons(self) -> dict[str, str]:
        """Why units are not copied, of those that both arrays know."""
        return {one.unit.key: '' if one.phase is Phase.RETURNING else
                one.reason or self._states(one) for one in self._all
                if all(one.sessions.values())}

    # Looking

    def _prepare(self) -> None:
        self._insist(self._all, lambda one: one.phase is not Phase.PASSING,
                     _PATIENCE)
        self._spare([one for one in self._all if not one.unit.reserved
                     and one.phase is Phase.TAKEN_OVER])
        units = [one.unit for one in self._all]
        for side, array in self._arrays.items():
            sessions = {one.unit.key: session for one in self._all
                        if (session := one.sessions[side])}
            found = _volumes(array, units, sessions)
            for one in self._all:
                one.volumes[side] = found[one.unit.key]
        for one in self._all:
            self._drop([one], _missing(self._arrays[THERE], one.unit,
                                       one.volumes[THERE]))

    def _spare(self, batch: Travellers) -> None:
        """Leave alone what hosts could get here after it had moved.

        The array has no way to let one that took over follow again.
        """
        here, there = self._arrays.values()
        for one in batch:
            one.disputed = True
            self._drop([one], (
                f'The array at {there.address} has taken over, too, but what '
                f'hosts wrote since is on the array at {here.address}. '
                f'{_ANEW}'))

    def _look(self) -> None:
        units = [one.unit for one in self._all]
        for side, array in self._arrays.items():
            self._keep(side, _look(array, units))

    def _keep(self, side: str, found: Mapping[str, replication.Session]
              ) -> None:
        for one in self._all:
            one.see(side, found.get(one.unit.key))

    def _in(self, phase: Phase) -> Travellers:
        return [one for one in self._all
                if one.phase is phase and not one.reason]

    def _wait(self, batch: Travellers, done: Callable[[_Traveller], bool],
              timeout: float, push: Callable[[Travellers], None] | None = None
              ) -> Travellers:
        """Look until something is true of all of a batch.

        :param push: does before each look what they need to get on
        :returns: those of which it is not within ``timeout`` seconds
        """
        end, pause = self._clock.monotonic() + timeout, _FIRST_PAUSE
        late = [one for one in batch if not one.reason]
        while late:
            if push:
                push(late)
            self._look()
            late = [one for one in late if not (one.reason or done(one))]
            left = end - self._clock.monotonic()
            if not late or left <= 0:
                break
            self._tell(len(batch) - len(late), len(batch))
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, _LAST_PAUSE)
        return late

    def _insist(self, batch: Travellers, done: Callable[[_Traveller], bool],
                timeout: float,
                push: Callable[[Travellers], None] | None = None) -> None:
        """Wait likewise; those that take longer get no further."""
        for one in self._wait(batch, done, timeout, push):
            self._drop([one], f'After {timeout:.0f} seconds it is not ready: '
                       f'{self._states(one)}')

    def _tell(self, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if now - self._told >= _REPORT:
            self._told = now
            LOG.info('Failback to the array at %(address)s: %(done)d of '
                     '%(total)d volumes or groups have arrived.', {
                         'address': self._arrays[THERE].address,
                         'done': done, 'total': total})

    # The moves

    def _reverse(self, batch: Travellers) -> None:
        """Let ``there`` get the data of ``here`` (REP-11)."""
        self._detach(batch, THERE)
        self._level(batch)
        self._command(batch, HERE, IN_SYNC)
        self._leave(batch, Phase.AWAY)

    def _resume(self, batch: Travellers) -> None:
        """Go on after a broken link."""
        self._command(batch, HERE, IN_SYNC)
        self._leave(batch, Phase.PAUSED)

    def _catch_up(self, batch: Travellers) -> None:
        """Copy the bulk of the data; hosts may write to it meanwhile."""
        self._copy(batch, self._end - self._clock.monotonic())

    def _hand_over(self, batch: Travellers) -> None:
        """Copy the last changes and let ``there`` take over (REP-12)."""
        batch = self._hold(batch)
        self._detach(batch, HERE)
        self._copy(batch, _LAST_CHANGES)
        batch = self._without_hosts([one for one in batch
                                     if one.has_arrived()])
        for one in batch:
            one.in_doubt = True
        for one in self._command(batch, THERE, FAILED_OVER):
            one.promised = True
        self._leave(batch, Phase.RETURNING, Phase.PAUSED)

    def _protect(self, batch: Travellers) -> None:
        """Let ``here`` get the data of ``there`` again (REP-12).

        No host has it here: it is reserved.
        """
        self._wait(batch, lambda one: one.phase is not Phase.TAKEN_OVER
                   or one.session(HERE).state == SUSPENDED, _PATIENCE)
        batch = self._in(Phase.TAKEN_OVER)
        self._command(batch, THERE, IN_SYNC)
        self._leave(batch, Phase.TAKEN_OVER)

    def _resume_home(self, batch: Travellers) -> None:
        """Go on after a broken link, when all are home."""
        self._command(batch, THERE, IN_SYNC)
        self._leave(batch, Phase.HALTED)

    # What they are made of

    def _hold(self, batch: Travellers) -> Travellers:
        """Keep units from hosts; those of which that can be said."""
        held = self._reserve([one.unit.key for one in batch])
        for one in batch:
            if one.unit.key not in held:
                self._drop([one], 'It was changed meanwhile; try again.')
        return [one for one in batch if not one.reason]

    def _without_hosts(self, batch: Travellers) -> Travellers:
        """Those that no host has got after all."""
        here = self._arrays[HERE]
        with here.deadline(fresh=True):
            mapped = here.access.mapped([
                ids[0] for one in batch for ids in one.volumes[HERE].values()])
        for one in batch:
            if not mapped.isdisjoint(
                    ids[0] for ids in one.volumes[HERE].values()):
                self._drop([one], 'A host has got it again on the array at '
                           f'{here.address}; detach it and fail back again.')
        return [one for one in batch if not one.reason]

    def _detach(self, batch: Travellers, side: str) -> None:
        """Take the volumes from all hosts.

        One by one if one of them cannot; not if the array is lost.
        """
        batch = [one for one in batch if not one.reason]
        try:
            self._unmap(self._arrays[side], {
                name: ids for one in batch
                for name, ids in one.volumes[side].items()})
        except (rest.Refused, rest.NotFound, exceptions.K2Error) as error:
            if len(batch) == 1:
                self._drop(batch, str(error))
                return
            for one in batch:
                self._detach([one], side)
            return
        except Exception as error:
            self._drop(batch, str(error))
        for one in batch:
            one.detached = one.detached or side == HERE

    def _level(self, batch: Travellers) -> None:
        """Grow there what has grown here meanwhile (row 7). Few calls."""
        sizes = {}
        for side, array in self._arrays.items():
            with array.deadline(fresh=True):
                sizes[side] = array.replication.sizes_of(
                    [ids[0] for one in batch
                     for ids in one.volumes[side].values()])
        for one in batch:
            for name, (volume, _) in one.volumes[HERE].items():
                copy = one.volumes[THERE].get(name, (0, 0))[0]
                size = sizes[HERE].get(volume, 0)
                if sizes[THERE].get(copy, size) < size:
                    self._grow(one, copy, size)

    def _grow(self, one: _Traveller, volume: int, size: int) -> None:
        """Grow a volume there.

        An array that wants its session idle for that (VOL-4) could not let
        it turn round afterwards (10.4).
        """
        array = self._arrays[THERE]
        try:
            with array.deadline(fresh=True):
                array.volumes.grow(volume, size)
        except rest.Refused as refusal:
            self._drop([one], f'It has grown, and its copy cannot: {refusal} '
                       f'{_ANEW}')

    def _command(self, batch: Travellers, side: str, state: str
                 ) -> Travellers:
        """Tell the sessions what to do; those that said they did."""
        told = {one.session(side).id: one for one in batch if not one.reason}
        if not told:
            return []
        for id, why in self._tell_all(side, told, state).items():
            self._drop([told[id]], why)
        return [one for one in told.values() if not one.reason]

    def _tell_all(self, side: str, sessions: Collection[int], state: str
                  ) -> dict[int, str]:
        array = self._arrays[side]
        with array.deadline(fresh=True):
            return array.replication.command_many(sessions, state)

    def _leave(self, batch: Travellers, *phases: Phase) -> None:
        """Wait until both arrays show that a command was carried out."""
        self._insist(batch, lambda one: one.phase not in (
            *phases, Phase.PASSING), _PATIENCE)

    def _copy(self, batch: Travellers, timeout: float) -> None:
        """Copy what there is now (REP-13, REP-14)."""
        for one in batch:
            one.generation, one.snapshots = None, 0
        self._insist(batch, lambda one: one.has_arrived() or one.phase not in (
            Phase.RETURNING, Phase.PAUSED, Phase.PASSING), timeout, self._push)

    def _push(self, batch: Travellers) -> None:
        """Begin the copying, also again after a broken link."""
        broken = {one.session(HERE).id: one for one in batch
                  if one.phase is Phase.PAUSED}
        # What is refused is tried again: the link may be down still.
        refused = self._tell_all(HERE, broken, IN_SYNC) if broken else {}
        for number, one in broken.items():
            if number not in refused:
                one.generation = None
        self._take([one for one in batch if one.phase is Phase.RETURNING
                    and one.generation is None])

    def _take(self, batch: Travellers) -> None:
        if not batch:
            return
        array = self._arrays[HERE]
        with array.deadline(fresh=True):
            taken = array.replication.take_snapshots(
                [one.session(HERE) for one in batch])
        for one in batch:
            one.snapshots += 1
            if snapshot := taken.get(one.session(HERE).id):
                one.generation = snapshot.generation
            elif one.snapshots >= _MOST_SNAPSHOTS:
                self._drop([one], f'The array at {array.address} takes no '
                           'replication snapshot; see the log.')

    def _drop(self, batch: Travellers, reason: str) -> None:
        for one in batch:
            one.reason = one.reason or reason

    # The end

    def _conclude(self) -> None:
        """Look at what is in doubt, and tidy up."""
        for side, array in self._arrays.items():
            try:
                if any(one.phase is not Phase.HOME for one in self._all):
                    with array.grace():
                        self._keep(side, _sessions(array, [
                            one.unit for one in self._all]))
                with array.deadline(fresh=True):
                    array.replication.delete_taken([
                        session.group for one in self._all
                        if (session := one.sessions[side])
                        and session.group is not None])
            except (rest.RestError, exceptions.K2Error) as error:
                LOG.warning('Failback left replication snapshots on the '
                            'array at %(address)s: %(error)s',
                            {'address': array.address, 'error': error})

    def _states(self, one: _Traveller) -> str:
        return ' '.join(_trouble(array, one.sessions[side])
                        for side, array in self._arrays.items())

    def _outcome(self, one: _Traveller) -> Outcome:
        there = self._arrays[THERE]
        volumes = one.volumes[THERE]
        if one.phase is Phase.HOME:
            return Outcome(THERE, volumes,
                           _missing(there, one.unit, volumes))
        reason = one.reason or self._states(one)
        if one.phase is Phase.LOST and all(one.sessions.values()):
            reason = f'{reason.removesuffix(_ANEW).rstrip()} {_ANEW}'
        if ((one.moved or one.promised) and not one.disputed
                and one.sessions[THERE] is not None):
            return Outcome(THERE, volumes, (
                f'The array at {there.address} serves it again, but does '
                f'not replicate it: {reason} Fail back once more.'))
        return Outcome(HERE, {}, self._warning(one) + reason, one.in_doubt)

    def _warning(self, one: _Traveller) -> str:
        """What a unit that stays here has lost; first of what is told."""
        address = self._arrays[HERE].address
        if one.in_doubt:
            return ('The other array may have taken over: do not attach it '
                    f'on the array at {address} before another failback. ')
        if one.detached:
            return (f'Hosts have lost it on the array at {address}: attach '
                    'it again. ')
        return ''


Moves = tuple[tuple[Phase, Callable[[_Journey, Travellers], None]], ...]

# What is done for all units in a phase, in this order: nobody is detached
# before the bulk of the data of all has arrived, and so not for longer than
# it takes to copy the last changes.
_MOVES: Moves = (
    (Phase.AWAY, _Journey._reverse),
    (Phase.PAUSED, _Journey._resume),
    (Phase.RETURNING, _Journey._catch_up),
    (Phase.RETURNING, _Journey._hand_over),
    (Phase.TAKEN_OVER, _Journey._protect),
    (Phase.HALTED, _Journey._resume_home),
)
# The same for what is where it belongs, and only has to be copied again.
_MOVES_AT_HOME: Moves = (
    (Phase.AWAY, _Journey._reverse),
    (Phase.PAUSED, _Journey._resume),
)
