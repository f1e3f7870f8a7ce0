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

"""Failback of volumes from another array (REP-11, REP-12, REP-14)."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Set

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.array.replication import FAILED_OVER
from cinder_k2.array.replication import IN_SYNC
from cinder_k2.array.replication import SUSPENDED
from cinder_k2 import exceptions
from cinder_k2.flows.failover.failback_items import FailbackItem
from cinder_k2.flows.failover.failback_items import FailbackItems
from cinder_k2.flows.failover.failback_items import Phase
from cinder_k2.flows.failover.units import DESTINATION
from cinder_k2.flows.failover.units import Ids
from cinder_k2.flows.failover.units import lacking
from cinder_k2.flows.failover.units import look
from cinder_k2.flows.failover.units import may_be_commanded
from cinder_k2.flows.failover.units import ORIGIN
from cinder_k2.flows.failover.units import Outcome
from cinder_k2.flows.failover.units import PATIENCE
from cinder_k2.flows.failover.units import ReplicationUnit
from cinder_k2.flows.failover.units import sessions_of
from cinder_k2.flows.failover.units import trouble
from cinder_k2.flows.failover.units import volumes_of
from cinder_k2 import naming
from cinder_k2 import polling
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

#: Unmaps volumes of an array from all hosts: ids of volume and group by name.
Unmap = Callable[[Array, Mapping[str, Ids]], None]
#: Keeps hosts from attaching units until their failback is complete, even if
#: it is interrupted; returns the keys of the units that could be reserved.
Reserve = Callable[[Collection[str]], Collection[str]]

# Seconds for copying the last changes, during which all hosts have to wait.
_LAST_CHANGES = 600.0
# Seconds between two reads, at first and at most.
_FIRST_PAUSE = 1.0
_LAST_PAUSE = 10.0
# Seconds between two progress lines in the log, and how many of the waiting
# units each names.
_REPORT = 60.0
_MOST_NAMES = 3
# Replication snapshots for one copy, if the link keeps breaking.
_MOST_SNAPSHOTS = 5

# Phases of units that another attempt may still fail back.
_NOT_YET = (Phase.FAILING_BACK, Phase.PAUSED, Phase.TRANSITIONING,
            Phase.TAKEN_OVER)

# Phases of units whose takeover was not carried out yet.
_BEFORE_TAKEOVER = (Phase.FAILING_BACK, Phase.PAUSED)

_ANEW = ('Turn its replication off and on again, by its type or its group: '
         'a new copy is made then.')


def fail_back(origin: Array, destination: Array,
              units: Iterable[ReplicationUnit], *,
              timeout: float, unmap: Unmap, reserve: Reserve,
              clock: polling.Clock | None = None) -> dict[str, Outcome]:
    """Fail back units from ``origin`` (REP-11, REP-12, REP-14).

    May be called again however the last call ended: each unit continues from
    the states of its two sessions. Units that are not failed back stay usable
    on ``origin``, with a reason.

    :param origin: the array to which the units were failed over
    :param destination: the array that is to become active
    :param timeout: seconds for the data to arrive; the last changes, for which
        the hosts of all units have to wait, get ten minutes
    :param unmap: called with ``destination`` before its volumes are
        overwritten, and with ``origin`` when all data except the last changes
        has arrived
    :param reserve: called before volumes are unmapped on ``origin``
    :returns: by key of the unit; errors of the arrays are not raised
    """
    failback = _Failback({ORIGIN: origin, DESTINATION: destination}, units,
                         timeout,
                         unmap,
                         reserve, clock or polling.Clock())
    failback.run(_MOVES)
    return failback.outcomes()


def protect_again(origin: Array, destination: Array,
                  units: Iterable[ReplicationUnit],
                  *,
                  unmap: Unmap, clock: polling.Clock | None = None
                  ) -> dict[str, str]:
    """Resume the replication of units from ``origin`` to ``destination``.

    For units that are on their primary, and whose failback or link was
    interrupted: the data on ``destination`` is overwritten.

    :param unmap: called with ``destination`` before its data is overwritten
    :returns: by key of the unit: why it is not replicated; empty if it is,
        missing where ``destination`` has no session of it
    """
    failback = _Failback({ORIGIN: origin, DESTINATION: destination}, units,
                         PATIENCE,
                         unmap,
                         lambda keys: keys, clock or polling.Clock())
    failback.run(_MOVES_AT_HOME)
    return failback.reasons()


class _Failback:
    """The units being failed back, and the steps for them."""

    def __init__(self, arrays: dict[str, Array],
                 units: Iterable[ReplicationUnit],
                 timeout: float, unmap: Unmap, reserve: Reserve,
                 clock: polling.Clock) -> None:
        self._arrays = arrays
        self._all = [FailbackItem(unit) for unit in units]
        self._unmap = unmap
        self._reserve = reserve
        self._clock = clock
        self._told = clock.monotonic()
        self._end = self._told + timeout

    def run(self, moves: 'Moves') -> None:
        """Advance each unit until it is done, or has a ``reason`` not to."""
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
        """The outcomes of the units, as the arrays last showed them."""
        return {one.unit.key: self._outcome(one) for one in self._all}

    def reasons(self) -> dict[str, str]:
        """Why units are not replicated, of those that both arrays have."""
        return {one.unit.key: '' if one.phase is Phase.FAILING_BACK else
                one.reason or self._states(one) for one in self._all
                if one.is_paired}

    # Reading the arrays

    def _prepare(self) -> None:
        self._insist(self._all,
                     lambda one: one.phase is not Phase.TRANSITIONING,
                     PATIENCE)
        self._spare([one for one in self._all
                     if not one.unit.failback_in_progress
                     and one.phase is Phase.TAKEN_OVER])
        units = [one.unit for one in self._all]
        for side, array in self._arrays.items():
            sessions = {one.unit.key: session for one in self._all
                        if (session := one.sessions[side])}
            found = volumes_of(array, units, sessions)
            for one in self._all:
                one.volumes[side] = found[one.unit.key]
        for one in self._all:
            # Volumes with other names on origin could not be unmapped from
            # their hosts.
            for side, array in self._arrays.items():
                self._drop([one], lacking(array, one.unit,
                                          one.volumes[side]))

    def _spare(self, batch: FailbackItems) -> None:
        """Drop units that hosts could attach on ``origin`` after they moved.

        A side that was failed over cannot be made to follow again.
        """
        origin, destination = self._arrays.values()
        for one in batch:
            one.disputed = True
            self._drop([one], (
                f'The array at {destination.address} has taken over, too, but '
                f'what hosts wrote since is on the array at {origin.address}. '
                f'{_ANEW}'))

    def _look(self) -> None:
        units = [one.unit for one in self._all]
        for side, array in self._arrays.items():
            self._keep(side, look(array, units))

    def _keep(self, side: str, found: Mapping[str, replication.Session]
              ) -> None:
        now = self._clock.monotonic()
        for one in self._all:
            one.see(side, found.get(one.unit.key))
            if side == DESTINATION and now - one.commanded >= PATIENCE:
                # It would show by now.
                one.outcome_unknown = False

    def _in(self, phase: Phase) -> FailbackItems:
        return [one for one in self._all
                if one.phase is phase and not one.reason]

    def _wait(self, batch: FailbackItems, done: Callable[[FailbackItem], bool],
              timeout: float, push: Callable[[FailbackItems],
                                             None] | None = None
              ) -> FailbackItems:
        """Read the arrays until something is true of all units of a batch.

        :param done: whether it is true of a unit
        :param push: called before each read; advances the units
        :returns: the units of which it is not true after ``timeout`` seconds
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
            self._log(late, len(batch))
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, _LAST_PAUSE)
        return late

    def _insist(self, batch: FailbackItems, done: Callable[[FailbackItem],
                                                           bool],
                timeout: float,
                push: Callable[[FailbackItems], None] | None = None) -> None:
        """As ``_wait``; units that take longer do not continue."""
        self._drop_late(self._wait(batch, done, timeout, push), timeout)

    def _drop_late(self, batch: FailbackItems, timeout: float) -> None:
        for one in batch:
            self._drop([one], f'After {timeout:.0f} seconds it is not ready: '
                       f'{self._states(one)}')

    def _log(self, late: FailbackItems, total: int) -> None:
        now = self._clock.monotonic()
        if now - self._told >= _REPORT:
            self._told = now
            others = len(late) - _MOST_NAMES
            LOG.info('Failback to the array at %(address)s: %(done)d of '
                     '%(total)d volumes or groups have arrived, not yet '
                     '%(late)s%(others)s.', {
                         'address': self._arrays[DESTINATION].address,
                         'done': total - len(late), 'total': total,
                         'late': ', '.join(one.unit.key for one
                                           in late[:_MOST_NAMES]),
                         'others': f' and {others} more' if others > 0
                         else ''})

    # The transitions

    def _reverse(self, batch: FailbackItems) -> None:
        """Let ``destination`` receive the data of ``origin`` (REP-11)."""
        self._let_meet(batch)
        self._detach(batch, DESTINATION)
        self._level(batch)
        self._command(batch, ORIGIN, IN_SYNC)
        self._leave(batch, Phase.FAILED_OVER)

    def _resume(self, batch: FailbackItems) -> None:
        """Continue the copy to ``destination`` after a broken link."""
        self._command(batch, ORIGIN, IN_SYNC)
        self._leave(batch, Phase.PAUSED)

    def _catch_up(self, batch: FailbackItems) -> None:
        """Copy most of the data; hosts may write to it meanwhile."""
        self._copy(batch, self._left())

    def _hand_over(self, batch: FailbackItems) -> None:
        """Copy the last changes and let ``destination`` take over (REP-12)."""
        batch = self._hold(batch)
        self._detach(batch, ORIGIN)
        self._end = self._clock.monotonic() + _LAST_CHANGES
        self._take_over(batch)

    def _hand_over_late(self, batch: FailbackItems) -> None:
        """Hand over units that were still listed as mapped (QRY-10).

        The other units replicate to ``origin`` by now, so they are safe in the
        meantime. Units that came back into this phase by themselves are left
        out: they are not reserved, and hosts may have them.
        """
        batch = [one for one in batch if one.detached]
        total, pause = len(batch), _FIRST_PAUSE
        while batch and (left := self._left()) > 0:
            self._log(batch, total)
            self._clock.sleep(min(pause, left))
            pause = min(pause * 1.5, _LAST_PAUSE)
            why = ''
            try:
                self._try_late(batch)
            except (rest.RestError, exceptions.K2Error) as error:
                # Arrays may be busy, or lost, for a while.
                why = str(error)
            for one in batch:
                one.obstacle = why or one.obstacle
            self._leave_behind([one for one in batch if not one.moved
                                and one.copies >= _MOST_SNAPSHOTS])
            batch = [one for one in batch
                     if one.phase in _NOT_YET and not one.reason]
        self._leave_behind(batch)

    def _leave_behind(self, batch: FailbackItems) -> None:
        for one in batch:
            self._drop([one], (one.obstacle or self._states(one)) + (
                '' if one.moved else ' Fail back again.'))

    def _try_late(self, batch: FailbackItems) -> None:
        """Try once more; sets the obstacle of those that do not move."""
        self._look()
        here = [one for one in batch if not one.moved]
        ids = self._mapped(here)
        free = []
        for one in here:
            if one.is_any_of(ids):
                one.obstacle = (
                    'It is still mapped on the array at '
                    f'{self._arrays[ORIGIN].address}: unmap it there from '
                    'hosts that Cinder does not know.')
            else:
                one.copies += 1
                free.append(one)
        self._take_over(free)
        self._protect(self._in(Phase.TAKEN_OVER))

    def _left(self) -> float:
        """Seconds left of the current limit."""
        return max(0.0, self._end - self._clock.monotonic())

    def _take_over(self, batch: FailbackItems) -> None:
        """Copy what is left, and let ``destination`` take over.

        Units that seem to be mapped since they were copied stay as they are:
        what their hosts wrote would be lost.
        """
        self._copy(batch, max(self._left(), PATIENCE))
        batch = [one for one in batch if one.has_arrived() and not one.reason]
        ids = self._mapped(batch)
        free = [one for one in batch if not one.is_any_of(ids)]
        self._command_takeover(free)

    def _command_takeover(self, batch: FailbackItems) -> None:
        """Command ``destination`` to take over, and wait until it has.

        Without a clear reply, the command may be carried out late.

        :raises RestError: it failed, and not all have taken over
        """
        failure, failed = None, dict[int, rest.RestError]()
        before = [(one.outcome_unknown, one.commanded) for one in batch]
        for one in batch:
            one.outcome_unknown = True
        try:
            if batch:
                failed = self._tell_all(DESTINATION, batch, FAILED_OVER)
        except rest.RestError as error:
            failure = error
        may_move = failure is None or may_be_commanded(failure, batch)
        for one, earlier in zip(batch, before):
            one.commanded = self._clock.monotonic()
            why = failed.get(one.session(DESTINATION).id)
            one.promised = failure is None and why is None
            refused = why is not None and not rest.errors.may_be_done(why)
            if refused or not may_move:
                # An earlier command may still be carried out.
                one.outcome_unknown, one.commanded = earlier
            if refused:
                self._drop([one], str(why))
        late = self._wait(batch, lambda one: one.phase not in (
            *_BEFORE_TAKEOVER, Phase.TRANSITIONING),
            PATIENCE if may_move else 0.0)
        if late and failure is not None:
            raise failure
        self._drop_late(late, PATIENCE)

    def _protect(self, batch: FailbackItems) -> None:
        """Let ``origin`` receive the data of ``destination`` again (REP-12).

        No host has their volumes on ``origin``: the units are reserved.
        """
        self._wait(batch, lambda one: one.phase is not Phase.TAKEN_OVER
                   or one.session(ORIGIN).state == SUSPENDED, PATIENCE)
        batch = self._in(Phase.TAKEN_OVER)
        self._command(batch, DESTINATION, IN_SYNC)
        self._leave(batch, Phase.TAKEN_OVER)

    def _resume_home(self, batch: FailbackItems) -> None:
        """Resume replication to ``origin`` after a broken link."""
        self._command(batch, DESTINATION, IN_SYNC)
        self._leave(batch, Phase.SUSPENDED)

    # Parts of the transitions

    def _let_meet(self, batch: FailbackItems) -> None:
        """Wait until ``destination`` shows that the other side has taken over.

        An array that was lost shows its earlier state until it has reached its
        peer again, and cannot be reversed before (REP-9). If it never shows
        the new state, its reply to the command to reverse decides.
        """
        def have_met(one: FailbackItem) -> bool:
            return (one.phase is not Phase.FAILED_OVER
                    or one.session(DESTINATION).state == SUSPENDED)

        self._wait([one for one in batch if not have_met(one)], have_met,
                   PATIENCE)

    def _hold(self, batch: FailbackItems) -> FailbackItems:
        """Reserve units against hosts; returns those that were reserved."""
        held = self._reserve([one.unit.key for one in batch])
        for one in batch:
            if one.unit.key not in held:
                self._drop([one], 'It was changed meanwhile; try again.')
        return [one for one in batch if not one.reason]

    def _mapped(self, batch: FailbackItems) -> Set[int]:
        """Ids of the units' volumes mapped on ``origin``. One call."""
        if not batch:
            return frozenset()
        origin = self._arrays[ORIGIN]
        with origin.deadline(fresh=True):
            return origin.mappings.mapped([
                ids[0] for one in batch
                for ids in one.volumes[ORIGIN].values()])

    def _detach(self, batch: FailbackItems, side: str) -> None:
        """Unmap the volumes of units on one array from all hosts.

        If that fails, unit by unit, unless the array is lost.
        """
        batch = [one for one in batch if not one.reason]
        try:
            self._unmap(self._arrays[side], {
                name: ids for one in batch
                for name, ids in one.volumes[side].items()})
        except (rest.Refused, rest.Busy, rest.NotFound,
                exceptions.K2Error) as error:
            if len(batch) == 1:
                self._drop(batch, str(error))
                return
            for one in batch:
                self._detach([one], side)
            return
        except Exception as error:
            self._drop(batch, str(error))
        for one in batch:
            one.detached = one.detached or side == ORIGIN

    def _level(self, batch: FailbackItems) -> None:
        """Grow volumes on ``destination`` that were grown on ``origin``.

        This comes before the reversal (row 7 of section 10.4). Few calls.
        """
        sizes = {}
        for side, array in self._arrays.items():
            with array.deadline(fresh=True):
                sizes[side] = array.replication.sizes_of(
                    [either for one in batch for name in one.volumes[side]
                     for either in (name, naming.peer(name))])
        for one in batch:
            for name, (volume, _) in one.volumes[ORIGIN].items():
                copy = one.volumes[DESTINATION].get(name, (0, 0))[0]
                size = sizes[ORIGIN].get(volume, 0)
                if sizes[DESTINATION].get(copy, size) < size:
                    self._grow(one, name, copy, size)

    def _grow(self, one: FailbackItem, name: str, volume: int, size: int
              ) -> None:
        """Grow a volume on ``destination``.

        If that requires an idle session (VOL-4), the unit does not continue:
        an idle session cannot be reversed (10.4).
        """
        array = self._arrays[DESTINATION]
        try:
            with array.deadline(fresh=True):
                array.volumes.grow(volume, size, [name, naming.peer(name)])
        except rest.Refused as refusal:
            self._drop([one], f'It has grown, and its copy cannot: {refusal} '
                       f'{_ANEW}')
        except rest.Busy as busy:
            self._drop([one], f'It has grown, and its copy cannot now: {busy}')

    def _command(self, batch: FailbackItems, side: str, state: str
                 ) -> FailbackItems:
        """Send a command to the sessions; returns those that accepted it."""
        told = {one.session(side).id: one for one in batch if not one.reason}
        if not told:
            return []
        for id, why in self._tell_all(side, told.values(), state).items():
            self._drop([told[id]], str(why))
        return [one for one in told.values() if not one.reason]

    def _tell_all(self, side: str, batch: Iterable[FailbackItem], state: str
                  ) -> dict[int, rest.RestError]:
        array = self._arrays[side]
        sessions = [one.session(side) for one in batch]
        with array.deadline(fresh=True):
            return array.replication.command_many(
                {session.id: session.name for session in sessions}, state)

    def _leave(self, batch: FailbackItems, *phases: Phase) -> None:
        """Wait until both arrays show that a command was carried out."""
        self._insist(batch, lambda one: one.phase not in (
            *phases, Phase.TRANSITIONING), PATIENCE)

    def _copy(self, batch: FailbackItems, timeout: float) -> None:
        """Copy the current data (REP-13, REP-14)."""
        for one in batch:
            one.generation, one.snapshots = None, 0
        self._insist(batch, lambda one: one.has_arrived() or one.phase not in (
            Phase.FAILING_BACK, Phase.PAUSED, Phase.TRANSITIONING), timeout,
            self._push)

    def _push(self, batch: FailbackItems) -> None:
        """Start the copy, also again after a broken link."""
        broken = {one.session(ORIGIN).id: one for one in batch
                  if one.phase is Phase.PAUSED}
        # Refused ones are retried: the link may still be down.
        refused = self._tell_all(
            ORIGIN, broken.values(), IN_SYNC) if broken else {}
        for number, one in broken.items():
            if number not in refused:
                one.generation = None
        self._take([one for one in batch if one.phase is Phase.FAILING_BACK
                    and one.generation is None])

    def _take(self, batch: FailbackItems) -> None:
        if not batch:
            return
        array = self._arrays[ORIGIN]
        with array.deadline(fresh=True):
            taken = array.replication.take_snapshots(
                [one.session(ORIGIN) for one in batch])
        for one in batch:
            one.snapshots += 1
            if snapshot := taken.get(one.session(ORIGIN).id):
                one.generation = snapshot.generation
            elif one.snapshots >= _MOST_SNAPSHOTS:
                self._drop([one], f'The array at {array.address} takes no '
                           'replication snapshot; see the log.')

    def _drop(self, batch: FailbackItems, reason: str) -> None:
        for one in batch:
            one.reason = one.reason or reason

    # Completion

    def _conclude(self) -> None:
        """Read the states once more, and delete replication snapshots."""
        for side, array in self._arrays.items():
            try:
                if any(one.phase is not Phase.FAILED_BACK
                       for one in self._all):
                    with array.cleanup_deadline():
                        self._keep(side, sessions_of(array, [
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

    def _states(self, one: FailbackItem) -> str:
        told = [trouble(array, one.sessions[side])
                for side, array in self._arrays.items()]
        if all(one.sessions.values()) and not one.is_paired:
            told.insert(0, 'Its two sessions do not belong together: see '
                        'which one is with another array, or of an earlier '
                        'replication.')
        return ' '.join(told)

    def _outcome(self, one: FailbackItem) -> Outcome:
        destination = self._arrays[DESTINATION]
        volumes = one.volumes[DESTINATION]
        if one.phase is Phase.FAILED_BACK:
            return Outcome(DESTINATION, volumes,
                           lacking(destination, one.unit, volumes))
        reason = one.reason or self._states(one)
        if one.phase is Phase.UNKNOWN and one.is_paired:
            reason = f'{reason.removesuffix(_ANEW).rstrip()} {_ANEW}'
        if ((one.moved or one.promised) and not one.disputed
                and one.sessions[DESTINATION] is not None):
            return Outcome(DESTINATION, volumes, (
                f'The array at {destination.address} serves it again, but '
                f'does not replicate it: {reason} Fail back again.'))
        return Outcome(ORIGIN, {}, self._warning(one) + reason,
                       one.outcome_unknown)

    def _warning(self, one: FailbackItem) -> str:
        """The warning for a unit that stays on ``origin``; '' if none."""
        address = self._arrays[ORIGIN].address
        if one.outcome_unknown:
            return ('The other array may have taken over: do not attach it '
                    f'on the array at {address} before another failback. ')
        if one.detached:
            return (f'Hosts have lost it on the array at {address}: attach '
                    'it again. ')
        return ''


Moves = tuple[tuple[Phase, Callable[[_Failback, FailbackItems], None]], ...]

# The steps for all units in a phase, in this order: no host is unmapped before
# most of the data of all units has arrived, and so not for longer than it
# takes to copy the last changes.
_MOVES: Moves = (
    (Phase.FAILED_OVER, _Failback._reverse),
    (Phase.PAUSED, _Failback._resume),
    (Phase.FAILING_BACK, _Failback._catch_up),
    (Phase.FAILING_BACK, _Failback._hand_over),
    (Phase.TAKEN_OVER, _Failback._protect),
    (Phase.SUSPENDED, _Failback._resume_home),
    (Phase.FAILING_BACK, _Failback._hand_over_late),
    (Phase.SUSPENDED, _Failback._resume_home),
)
# The same for units on their primary that only have to be replicated again.
_MOVES_AT_HOME: Moves = (
    (Phase.FAILED_OVER, _Failback._reverse),
    (Phase.PAUSED, _Failback._resume),
)
