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

"""Failover to the other array (REP-9)."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Set

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.array.replication import FAILED_OVER
from cinder_k2.array.replication import IDLE
from cinder_k2.array.replication import IN_SYNC
from cinder_k2.array.replication import SOURCE
from cinder_k2.array.replication import TARGET
from cinder_k2 import exceptions
from cinder_k2.flows.failover.units import DESTINATION
from cinder_k2.flows.failover.units import Ids
from cinder_k2.flows.failover.units import lacking
from cinder_k2.flows.failover.units import look
from cinder_k2.flows.failover.units import may_be_commanded
from cinder_k2.flows.failover.units import ORIGIN
from cinder_k2.flows.failover.units import Outcome
from cinder_k2.flows.failover.units import PATIENCE
from cinder_k2.flows.failover.units import ReplicationUnit
from cinder_k2.flows.failover.units import RUNNING
from cinder_k2.flows.failover.units import trouble
from cinder_k2.flows.failover.units import volumes_of
from cinder_k2 import polling
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


def fail_over(target_array: Array, units: Collection[ReplicationUnit],
              clock: polling.Clock | None = None) -> dict[str, Outcome]:
    """Fail over units to an array; the other one is not called (REP-9).

    The states that it shows afterwards decide the outcomes.

    :param target_array: the array that is to become active
    :returns: by key of the unit; served_by is ORIGIN for those not on
        ``target_array``
    :raises RestError: the array does not reply; nothing was done
    :raises FailoverOutcomeUnknown: it did not reply after the command
    """
    sessions = look(target_array, units)
    volumes = volumes_of(target_array, units, sessions)
    asked = {session.id: session.name for key, session in sessions.items()
             if volumes[key] and _can_take_over(session)}
    failed: Mapping[int, rest.RestError] = {}
    if asked:
        failed, awaited = _ask(target_array, asked, FAILED_OVER)
        told = frozenset(key for key, session in sessions.items()
                         if session.id in asked)
        try:
            sessions = _await_takeover(target_array, units, awaited, clock)
        except rest.RestError as error:
            raise exceptions.FailoverOutcomeUnknown(
                f'The array at {target_array.address} was told to take over, '
                f'and did not report the result. {error}', told) from error
    return {unit.key: _taken_over(target_array, unit, sessions.get(unit.key),
                                  volumes[unit.key], failed)
            for unit in units}


def _can_take_over(session: replication.Session) -> bool:
    return session.role == TARGET and session.state in RUNNING


def _serves(session: replication.Session) -> bool:
    return (session.state == FAILED_OVER if session.role == TARGET
            else session.role == SOURCE and session.state != IDLE)


def _ask(array: Array, sessions: Mapping[int, str], state: str
         ) -> tuple[dict[int, rest.RestError], Set[int]]:
    """Send a command to sessions.

    :param sessions: by id: the name
    :returns: those that failed, and why; and those that may carry it out, some
        of them although there was no reply in time
    """
    try:
        with array.deadline(fresh=True):
            failed = array.replication.command_many(sessions, state)
    except rest.RestError as error:
        return (dict.fromkeys(sessions, error),
                sessions.keys() if may_be_commanded(error, sessions)
                else frozenset())
    return failed, sessions.keys() - {
        session for session, error in failed.items()
        if not rest.errors.may_be_done(error)}


def _await_takeover(target_array: Array, units: Collection[ReplicationUnit],
                    asked: Set[int],
                    clock: polling.Clock | None
                    ) -> dict[str, replication.Session]:
    """Wait until all sessions have taken over, or time is up.

    :param asked: ids of the sessions that may carry out the command
    """
    sessions: dict[str, replication.Session] = {}

    def all_serve() -> bool:
        sessions.update(look(target_array, units))
        return all(_serves(session) for session in sessions.values()
                   if session.id in asked)

    try:
        polling.wait_until(all_serve, PATIENCE, what='failover',
                           clock=clock)
    except polling.WaitTimeout as late:
        LOG.warning('Array at %(address)s: %(late)s',
                    {'address': target_array.address, 'late': late})
    return sessions


def _taken_over(target_array: Array, unit: ReplicationUnit,
                session: replication.Session | None,
                volumes: Mapping[str, Ids],
                failed: Mapping[int, rest.RestError]) -> Outcome:
    missing = lacking(target_array, unit, volumes)
    if session and _serves(session):
        return Outcome(DESTINATION, volumes, missing, copied=(
            session.role, session.state) == (SOURCE, IN_SYNC))
    error = failed.get(session.id) if session else None
    why = str(error or '')
    if session and _can_take_over(session):
        why = why or missing
    return Outcome(ORIGIN, {}, why or trouble(target_array, session))
