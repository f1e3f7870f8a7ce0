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
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import dataclasses
import typing

from cinder import exception
from cinder.objects import fields
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import replication as array_replication
from cinder_k2.driver import lookup
from cinder_k2.driver import membership
from cinder_k2.driver import provider
from cinder_k2.driver import replication
from cinder_k2.driver.side import Side
from cinder_k2.driver import sides
from cinder_k2 import exceptions
from cinder_k2.flows import failover
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_STATUS = fields.ReplicationStatus
# Characters of a text in Cinder's database.
_LONGEST = 255

Volumes = Sequence[typing.Any]
Update = dict[str, typing.Any]
Outcomes = Mapping[str, failover.Outcome]

# What is saved before Cinder does so, too.
_SAVED = ('provider_id', 'replication_status', 'replication_extended_status')
_SPLIT = ('Its group was failed over, or back, in part: call failover-host '
          'once more with the target, then with "default".')
# Of what Cinder has a row of, and no array a volume.
_UNMADE = failover.Outcome(failover.HERE, {}, 'It was never made.')


def units(volumes: Volumes) -> list[failover.Unit]:
    """What has a session each: volumes, and consistency groups.

    A volume that was never made is none of its group's.
    """
    return [failover.Unit(key, naming.session_names(key), tuple(
        naming.volume(one.name_id) for one in its), _are_reserved(its))
        for key, its in _members(volumes).items()]


def _members(volumes: Volumes) -> dict[str, list[typing.Any]]:
    """The volumes that were made, by the id in their session's name."""
    members = collections.defaultdict(list)
    for volume in volumes:
        if volume.launched_at is not None:
            members[_key(volume)].append(volume)
    return members


def fail_over(volumes: Volumes, there: Side, every: sides.Sides[Side]
              ) -> Mapping[str, Update]:
    """Let a replication target serve; no call to the primary.

    Also what its rows say is there may have been closed again, by a failback
    that was cut short. What another target serves stays there, as it is.

    :returns: the update of each volume, by its id
    :raises RestError, K2Error: it does not answer; nothing is to be said of
        any volume
    """
    others = _systems([side for name in every.targets
                       if (side := every.named(name)) is not there])
    elsewhere = {v.id: {'replication_status': v.replication_status}
                 for v in volumes if _is_elsewhere(
                     v, there.array.system.id, others)}
    wanted = [v for v in volumes if v.id not in elsewhere]
    try:
        outcomes = {**dict.fromkeys(map(_key, wanted), _UNMADE),
                    **failover.fail_over(there.array, units(wanted))}
    except exceptions.TakeoverUnknown as unknown:
        for volume in wanted:
            if _key(volume) in unknown.keys:
                volume.conditional_update(refused(str(unknown)), {})
        raise
    updates = {v.id: _failed_over(v, there.array, outcomes[_key(v)])
               for v in wanted}
    return {**_saved(wanted, updates), **elsewhere}


def _systems(those: Sequence[Side]) -> frozenset[str]:
    """Who arrays are, as far as they say. No call for those met before."""
    found = set()
    for side in those:
        try:
            with side.array.glance():
                found.add(side.array.system.known_id or side.array.system.id)
        except rest.RestError as error:
            LOG.warning('What the array at %(address)s has is not known: '
                        '%(error)s', {'address': side.array.address,
                                      'error': error})
    return frozenset(found)


def fail_back(volumes: Volumes, home: Side, every: sides.Sides[Side],
              timeout: float) -> Mapping[str, Update]:
    """Bring volumes home from wherever they are.

    :param timeout: seconds for their data to arrive
    :returns: the update of each volume, by its id
    :raises RestError, K2Error: ``home`` cannot serve; nothing was done
    """
    home.check()
    plain = [v for v in volumes if _is_plain(v, home)]
    updates = {v.id: {**_mended(v), **replication.VOLUME_DISABLED}
               for v in plain}
    away = [v for v in volumes if v.id not in updates]
    for side, its in _places(away, every, updates).items():
        if side is home:
            found = _at_home(its, home, every)
        else:
            found = _bring_home(its, side, home, timeout)
        updates.update(_saved(its, found))
    return updates


def _places(volumes: Volumes, every: sides.Sides[Side],
            updates: dict[str, Update]) -> dict[Side, list[typing.Any]]:
    """Which array has which volumes.

    :param updates: gets those of volumes whose array does not answer
    """
    by_system = collections.defaultdict(list)
    for volume in volumes:
        by_system[provider.system_of(volume.provider_id)].append(volume)
    places: dict[Side, list[typing.Any]] = collections.defaultdict(list)
    for its in by_system.values():
        try:
            places[every.of(its[0])] += its
        except (rest.RestError, exceptions.K2Error) as error:
            updates.update((v.id, refused(str(error))) for v in its)
    return _without_split(places, updates)


def _without_split(places: dict[Side, list[typing.Any]],
                   updates: dict[str, Update]
                   ) -> dict[Side, list[typing.Any]]:
    """Leave out groups whose rows say that they are in two places.

    The service was killed when it saved them, and hosts may have either.
    """
    sides_of = collections.defaultdict(set)
    for side, its in places.items():
        for volume in its:
            sides_of[_key(volume)].add(side)
    split = {key for key, found in sides_of.items() if len(found) > 1}
    updates.update((v.id, refused(_SPLIT)) for its in places.values()
                   for v in its if _key(v) in split)
    return {side: [v for v in its if _key(v) not in split]
            for side, its in places.items()}


def _bring_home(volumes: Volumes, side: Side, home: Side, timeout: float
                ) -> dict[str, Update]:
    outcomes = failover.fail_back(
        side.array, home.array, units(volumes), timeout=timeout,
        unmap=_Unmapper(side, home), reserve=_Reserver(volumes, side.array))
    return {v.id: _failed_back(v, side.array, home.array,
                               outcomes.get(_key(v), _UNMADE))
            for v in volumes}


def _at_home(volumes: Volumes, home: Side, every: sides.Sides[Side]
             ) -> dict[str, Update]:
    """What is to be said of volumes that never left, or are back already.

    Their replication is taken up again where it rests.
    """
    wanted = units(volumes)
    reasons = _resting(home.array, wanted)
    for name in every.targets:
        left = [unit for unit in wanted if reasons[unit.key]]
        if left:
            reasons.update(_protected_again(home, every.named(name), left))
    return {v.id: {**_mended(v), **_said(reasons.get(
        _key(v), _UNMADE.reason))} for v in volumes}


def _protected_again(home: Side, target: Side,
                     wanted: Sequence[failover.Unit]) -> dict[str, str]:
    try:
        target.check()
    except (rest.RestError, exceptions.K2Error) as error:
        LOG.warning('What rests is not replicated again: %s', error)
        return {}
    return failover.protect_again(home.array, target.array, wanted,
                                  unmap=_Unmapper(target, home))


def _resting(array: Array, wanted: Sequence[failover.Unit]
             ) -> dict[str, str]:
    """Why an array does not replicate units; empty where it does."""
    names = [name for unit in wanted for name in unit.sessions]
    found = array.replication.find_many(names) if names else {}
    return {unit.key: _why_resting(next(
        (found[name] for name in unit.sessions if name in found), None))
        for unit in wanted}


def _why_resting(session: array_replication.Session | None) -> str:
    if session is None:
        return 'It has no replication session.'
    if (session.role, session.state) == (array_replication.SOURCE,
                                         array_replication.IN_SYNC):
        return ''
    return (f'Replication session {session.name} is {session.state} as '
            f'{session.role}. {session.why}').strip()


def _said(reason: str) -> Update:
    return refused(reason) if reason else {
        'replication_status': _STATUS.ENABLED,
        'replication_extended_status': None}


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


class _Reserver:
    """Has rows say that no host may get their volumes."""

    def __init__(self, volumes: Volumes, array: Array) -> None:
        self._array = array
        self._members = _members(volumes)

    def __call__(self, keys: Collection[str]) -> list[str]:
        return [key for key in keys
                if all([self._reserve(one) for one in self._members[key]])]

    def _reserve(self, volume: typing.Any) -> bool:
        known = _known(volume) or self._find(volume)
        if known is None:
            return False
        ids = _dumped(volume, self._array, dataclasses.replace(
            known, reserved=True))
        return bool(_rewrite(volume, ids))

    def _find(self, volume: typing.Any) -> Backing | None:
        """What backs a volume whose row does not tell."""
        name = naming.volume(volume.name_id)
        found = self._array.volumes.find(name, naming.peer(name))
        return found and dataclasses.replace(
            found, replicated=True, shared=_key(volume) != volume.name_id)


def _key(volume: typing.Any) -> str:
    """The id in the name of a volume's session."""
    in_group = volume.group_id and membership.is_consistent(volume.group)
    return str(volume.group_id if in_group else volume.name_id)


def _is_elsewhere(volume: typing.Any, there: str, others: Set[str]) -> bool:
    """Whether another target serves a volume.

    One that does not answer is known by the status of the row alone.
    """
    system = provider.system_of(volume.provider_id)
    return system in others - {there} or (
        volume.replication_status == _STATUS.FAILED_OVER
        and system not in (None, there))


def _is_plain(volume: typing.Any, side: Side) -> bool:
    """Whether a volume never had a session, whatever Cinder believes."""
    known = _known(volume)
    return not (side.asks_for_replication(volume) if known is None
                else known.replicated)


def _are_reserved(volumes: Volumes) -> bool:
    """Whether an earlier failback has kept hosts from volumes."""
    return all(known and known.reserved for known in map(_known, volumes))


def _known(volume: typing.Any) -> Backing | None:
    system = provider.system_of(volume.provider_id)
    return None if system is None else provider.load(
        Backing, system, volume.provider_id, volume.name_id)


def _saved(volumes: Volumes, updates: Mapping[str, Update]
           ) -> dict[str, Update]:
    """Have rows say at once what became of volumes.

    Cinder saves the updates too, but all of them after all is done, and none
    after one that fails.

    :returns: the updates; of a row that somebody else changed meanwhile what
        it says by now
    """
    # Those of a group one after the other.
    return {volume.id: _save(volume, updates[volume.id])
            for volume in sorted(volumes, key=_key)}


def _save(volume: typing.Any, update: Update) -> Update:
    if _rewrite(volume, {key: update[key] for key in _SAVED
                         if key in update}) is not False:
        return update
    try:
        found = lookup.current(volume)
    except exception.VolumeNotFound:
        return update
    LOG.warning('Volume %(id)s was changed while it was failed over, or back: '
                'its replication is %(status)s.', {
                    'id': volume.id, 'status': found.replication_status})
    return {key: found[key] for key in ('replication_status',
                                        'provider_id')}


def _rewrite(volume: typing.Any, update: Update) -> bool | None:
    """Change a row; False if it has other ids by now.

    None if the database failed.
    """
    try:
        return bool(volume.conditional_update(
            update, {'provider_id': volume.provider_id}))
    except Exception as error:
        # The database's own; the other rows, and Cinder's, go on.
        LOG.error('The row of volume %(id)s was not changed: %(error)s', {
            'id': volume.id, 'error': error})
        return None


def _failed_over(volume: typing.Any, there: Array,
                 outcome: failover.Outcome) -> Update:
    name = naming.volume(volume.name_id)
    if outcome.served_by == failover.THERE and name in outcome.volumes:
        # What was made there is as it was.
        stays = outcome.copied and (volume.replication_status
                                    == _STATUS.ENABLED)
        return {'replication_status': (_STATUS.ENABLED if stays
                                       else _STATUS.FAILED_OVER),
                'replication_extended_status': None, **_mended(volume),
                **_ids(volume, there, *outcome.volumes[name])}
    if provider.system_of(volume.provider_id) == there.system.id:
        return {**refused(outcome.reason), **_mended(volume)}
    return {'replication_status': _STATUS.FAILOVER_ERROR, 'status': 'error',
            'replication_extended_status': _short(
                outcome.reason or _UNMADE.reason)}


def _failed_back(volume: typing.Any, side: Array, home: Array,
                 outcome: failover.Outcome) -> Update:
    """What is to be said of a volume that was to be brought home.

    One that could not be is served as before, so its status stays; Cinder
    would take a status of "failed over" for home. Hosts may have it again,
    unless nobody knows whether the other array has taken over.
    """
    name = naming.volume(volume.name_id)
    if name in outcome.volumes:
        return {**_ids(volume, home, *outcome.volumes[name]),
                **(_mended(volume) if outcome.ok else {}),
                **_said(outcome.reason)}
    known = _known(volume)
    freed: Update = {}
    if known is not None and known.reserved and not outcome.in_doubt:
        freed = _dumped(volume, side,
                        dataclasses.replace(known, reserved=False))
    return {**freed, **_mended(volume),
            **refused(outcome.reason or _UNMADE.reason)}


def _mended(volume: typing.Any) -> Update:
    """The status of a volume that an earlier failover had left behind."""
    if (volume.status != 'error'
            or volume.replication_status != _STATUS.FAILOVER_ERROR):
        return {}
    return {'status': 'in-use' if volume.volume_attachment else 'available'}


def _ids(volume: typing.Any, array: Array, number: int, group: int
         ) -> Update:
    known = _known(volume)
    if (known is not None and known.volume == number and array.system.id
            == provider.system_of(volume.provider_id)):
        return _dumped(volume, array, dataclasses.replace(
            known, replicated=True, reserved=False))
    return _dumped(volume, array, Backing(
        group=group, volume=number, replicated=True,
        shared=_key(volume) != volume.name_id))


def _dumped(volume: typing.Any, array: Array, backing: Backing) -> Update:
    return {'provider_id': provider.dump(array.system.id, backing,
                                         volume.name_id)}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST - 3]}...'
