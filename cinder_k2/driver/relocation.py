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
"""Moving volumes from array to array, and what their rows say then."""

import collections
from collections.abc import Mapping
from collections.abc import Sequence
import typing

from cinder.objects import fields
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import replication as array_replication
from cinder_k2.driver import membership
from cinder_k2.driver import provider
from cinder_k2.driver.side import Side
from cinder_k2.driver import sides
from cinder_k2.flows import failover
from cinder_k2 import naming

LOG = logging.getLogger(__name__)

_STATUS = fields.ReplicationStatus
# Characters of a text in Cinder's database.
_LONGEST = 255

Volumes = Sequence[typing.Any]
Update = dict[str, typing.Any]
Outcomes = Mapping[str, failover.Outcome]

# Where a session at home may rest, and can go on.
_RESTING = ((array_replication.SOURCE, array_replication.SUSPENDED),
            (array_replication.TARGET, array_replication.FAILED_OVER))
# Of what Cinder has a row of, and no array a volume.
_UNMADE = failover.Outcome(failover.HERE, {}, 'It was never made.')


def units(volumes: Volumes) -> list[failover.Unit]:
    """What has a session each: volumes, and consistency groups.

    A volume that was never made is none of its group's.
    """
    members = collections.defaultdict(list)
    for volume in volumes:
        if volume.launched_at is not None:
            members[_key(volume)].append(naming.volume(volume.name_id))
    return [failover.Unit(key, naming.session_names(key), tuple(names))
            for key, names in members.items()]


def fail_over(volumes: Volumes, there: Side) -> Mapping[str, Update]:
    """Let a replication target serve; no call to any other array.

    :returns: the update of each volume, by its id
    :raises RestError, K2Error: it does not answer; nothing is to be said of
        any volume
    """
    away = _not_on(there.array, volumes)
    outcomes = {**dict.fromkeys(map(_key, away), _UNMADE),
                **failover.fail_over(there.array, units(away))}
    return {volume.id: _failed_over(volume, there.array, outcomes.get(
        _key(volume))) for volume in volumes}


def fail_back(volumes: Volumes, home: Side, every: sides.Sides[Side],
              timeout: float) -> Mapping[str, Update]:
    """Bring volumes home from wherever they are.

    :param timeout: seconds for their data to arrive
    :returns: the update of each volume, by its id
    :raises RestError, K2Error: ``home`` cannot serve; nothing was done
    """
    home.check()
    away = _not_on(home.array, volumes)
    places = collections.defaultdict(list)
    for volume in away:
        places[every.of(volume)].append(volume)
    outcomes: dict[str, failover.Outcome] = {}
    for side, its in places.items():
        outcomes.update(failover.fail_back(
            side.array, home.array, units(its), timeout=timeout,
            unmap=_Unmapper(side, home)))
    states = _resumed(home.array, [volume for volume in volumes
                                   if _key(volume) not in outcomes])
    return {volume.id: _at_home(volume, states)
            if _key(volume) not in outcomes
            else _failed_back(volume, home.array, outcomes[_key(volume)])
            for volume in volumes}


def refused(reason: str) -> Update:
    """The update of a volume that stays what and where it is."""
    return {'replication_status': _STATUS.ERROR,
            'replication_extended_status': _short(reason)}


class _Unmapper:
    """Takes volumes of either array from all hosts."""

    def __init__(self, *known: Side) -> None:
        self._sides = known

    def __call__(self, array: Array, volumes: Mapping[str, failover.Ids]
                 ) -> None:
        for side in self._sides:
            if side.array is array:
                side.disconnect_volumes([ids[0] for ids in volumes.values()])


def _key(volume: typing.Any) -> str:
    """The id in the name of a volume's session."""
    in_group = volume.group_id and membership.is_consistent(volume.group)
    return str(volume.group_id if in_group else volume.name_id)


def _not_on(array: Array, volumes: Volumes) -> list[typing.Any]:
    system = array.system.id
    return [volume for volume in volumes
            if provider.system_of(volume.provider_id) != system]


def _failed_over(volume: typing.Any, there: Array,
                 outcome: failover.Outcome | None) -> Update:
    done: Update = {'replication_status': _STATUS.FAILED_OVER,
                    'replication_extended_status': None, **_mended(volume)}
    if outcome is None:
        return done
    name = naming.volume(volume.name_id)
    if outcome.served_by == failover.THERE and name in outcome.volumes:
        return {**done, **_ids(volume, there, outcome)}
    return {'replication_status': _STATUS.FAILOVER_ERROR, 'status': 'error',
            'replication_extended_status': _short(
                outcome.reason or _UNMADE.reason)}


def _failed_back(volume: typing.Any, home: Array, outcome: failover.Outcome
                 ) -> Update:
    """What is to be said of a volume that was to be brought home.

    One that could not be is served as before, so its status stays; Cinder
    would take a status of "failed over" for home.
    """
    known = (_ids(volume, home, outcome) if naming.volume(volume.name_id)
             in outcome.volumes else {})
    if outcome.ok and known:
        return {**known, **_mended(volume),
                'replication_status': _STATUS.ENABLED,
                'replication_extended_status': None}
    return {**known, **refused(outcome.reason or _UNMADE.reason)}


def _at_home(volume: typing.Any,
             states: Mapping[str, array_replication.Session]) -> Update:
    """What is to be said of a volume that never left, or is back already."""
    found = states.get(_key(volume))
    if found is None or found.role != array_replication.SOURCE or (
            found.state != array_replication.IN_SYNC):
        why = (f'Replication session is {found.state} as {found.role}. '
               f'{found.why}' if found else 'It has no replication session.')
        return {**refused(why), **_mended(volume)}
    return {'replication_status': _STATUS.ENABLED,
            'replication_extended_status': None, **_mended(volume)}


def _resumed(array: Array, volumes: Volumes
             ) -> dict[str, array_replication.Session]:
    """The sessions of volumes at home, once those that rest go on.

    The array leaves them suspended after it has lost its peer (REP-19), and
    an earlier failback may have ended when it had just taken over (REP-12).
    An array refuses what would overwrite data that its peer took over.
    """
    names = [name for unit in units(volumes) for name in unit.sessions]
    found = array.replication.find_many(names) if names else {}
    resting = [session.id for session in found.values()
               if (session.role, session.state) in _RESTING]
    if resting:
        array.replication.command_many(resting, array_replication.IN_SYNC)
        found = array.replication.find_many(names)
    return {unit.key: found[name] for unit in units(volumes)
            for name in unit.sessions if name in found}


def _mended(volume: typing.Any) -> Update:
    """The status of a volume that an earlier failover had left behind."""
    if (volume.status != 'error'
            or volume.replication_status != _STATUS.FAILOVER_ERROR):
        return {}
    return {'status': 'in-use' if volume.volume_attachment else 'available'}


def _ids(volume: typing.Any, array: Array, outcome: failover.Outcome
         ) -> Update:
    number, group = outcome.volumes[naming.volume(volume.name_id)]
    return {'provider_id': provider.dump(
        array.system.id,
        Backing(group=group, volume=number, replicated=True,
                shared=_key(volume) != volume.name_id), volume.name_id)}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST - 3]}...'
