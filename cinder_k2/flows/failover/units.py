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

"""Units of failover, their outcomes, and an array's state of them."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.array.replication import IN_SYNC
from cinder_k2.array.replication import SUSPENDED
from cinder_k2 import naming
from cinder_k2 import rest

#: The array that had the newest data, and the one that is to have it.
ORIGIN = 'origin'
DESTINATION = 'destination'

#: Ids of a volume and of its volume group.
Ids = tuple[int, int]

# Seconds that a command may take to show on both arrays (REP-6, REP-8).
PATIENCE = 60.0

RUNNING = (IN_SYNC, SUSPENDED)


@dataclasses.dataclass(frozen=True)
class ReplicationUnit:
    """A unit with a replication session: a volume, or a consistency group.

    :ivar key: the caller's key of it
    :ivar sessions: names that its session may have on either array
    :ivar volumes: names of its volumes; an array has each under this name, or
        under that which naming.peer makes of it
    :ivar failback_in_progress: an earlier failback reserved it, so no host can
        have attached it since
    """

    key: str
    sessions: tuple[str, ...]
    volumes: tuple[str, ...]
    failback_in_progress: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Where a unit is in the end.

    :ivar served_by: ORIGIN or DESTINATION: the array with its newest data
    :ivar volumes: if that is DESTINATION, the ids of its volumes on it, by
        the names in ReplicationUnit.volumes; missing volumes are left out
    :ivar reason: what failed; empty if nothing did
    :ivar outcome_unknown: the array that was to take over may have done so
    :ivar copied: DESTINATION replicates it to the other array
    """

    served_by: str
    volumes: Mapping[str, Ids]
    reason: str = ''
    outcome_unknown: bool = False
    copied: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is served by DESTINATION, and nothing failed."""
        return not self.reason


def sessions_of(array: Array, units: Iterable[ReplicationUnit]
                ) -> dict[str, replication.Session]:
    """The sessions of units on an array, by key."""
    units = list(units)
    found = array.replication.find_many(
        [name for unit in units for name in unit.sessions])
    return {unit.key: found[name] for unit in units
            for name in unit.sessions if name in found}


def look(array: Array, units: Iterable[ReplicationUnit]
         ) -> dict[str, replication.Session]:
    """As ``sessions_of``, with a new deadline."""
    with array.deadline(fresh=True):
        return sessions_of(array, units)


def may_be_commanded(error: rest.RestError, sessions: Collection[object]
                     ) -> bool:
    """Whether some sessions may carry out a command that ended in an error.

    An error that ends a command to several sessions may come after some of
    them have accepted it.
    """
    return len(sessions) > 1 or rest.errors.may_be_done(error)


def volumes_of(array: Array, units: Iterable[ReplicationUnit],
               sessions: Mapping[str, replication.Session]
               ) -> dict[str, dict[str, Ids]]:
    """Ids of the units' volumes that are in the groups of their sessions.

    :returns: by key of the unit: by name in ReplicationUnit.volumes: the ids
    """
    units = list(units)
    with array.deadline(fresh=True):
        found = array.replication.volumes_of(
            [either for unit in units for name in unit.volumes
             for either in (name, naming.peer(name))])
    groups = {key: session.group for key, session in sessions.items()}
    return {unit.key: {
        name: (found[either][0], group) for name in unit.volumes
        for either in (name, naming.peer(name)) if either in found
        and (group := _same(groups.get(unit.key), found[either][1]))}
        for unit in units}


def _same(first: int | None, second: int | None) -> int | None:
    """The id if both agree or only one is known; None if they differ."""
    if None in (first, second):
        return first or second
    return first if first == second else None


def lacking(array: Array, unit: ReplicationUnit, volumes: Mapping[str,
                                                                  Ids]) -> str:
    """The text for volumes of a unit that an array lacks; empty if none."""
    names = [name for name in unit.volumes if name not in volumes]
    return names and (
        f'The array at {array.address} has no replicated volume '
        f'{", ".join(names)}.') or ''


def trouble(array: Array, session: replication.Session | None) -> str:
    """Why a unit is not usable, from the array's state of its session."""
    if session is None:
        return f'The array at {array.address} has no replication session ' \
               'for it.'
    why = f' ({session.why})' if session.why else ''
    return (f'Replication session {session.name} on the array at '
            f'{array.address} is {session.state} as {session.role}{why}.')
