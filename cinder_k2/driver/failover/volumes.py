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
"""Moving volumes between arrays, and the updates of their rows."""

import collections
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import dataclasses
import typing

from cinder import exception
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as array_replication
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver.failover import arrays
from cinder_k2.driver.operations import ArrayOperations
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2 import exceptions
from cinder_k2.flows import failover
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_STATUS = statuses.Replication
_ATTEMPTS = 5

Volumes = Sequence[typing.Any]
Update = dict[str, typing.Any]
Outcomes = Mapping[str, failover.Outcome]

# Columns that are saved here before Cinder saves them.
_SAVED = ('provider_id', 'replication_status', 'replication_extended_status')
_SPLIT = ('Its group was failed over, or back, in part: call failover-host'
          ' again with the target, then with "default".')
_IN_PART = ('It is not replicated, but others of its group are. Turn the '
            'replication of the group off and on again.')
# The outcome of volumes with a row in Cinder, but no object on an array.
_UNMADE = failover.Outcome(failover.ORIGIN, {}, 'It was never made.')


def units(volumes: Volumes) -> list[failover.ReplicationUnit]:
    """The units with one session each: volumes, and consistency groups.

    A volume that was never created is not part of its group.
    """
    return [failover.ReplicationUnit(key, naming.session_names(key), tuple(
        naming.volume(one.name_id) for one in its), _are_reserved(its))
        for key, its in _members(volumes).items()]


def _members(volumes: Volumes) -> dict[str, list[typing.Any]]:
    """The created volumes, by the id in their session's name."""
    members = collections.defaultdict(list)
    for volume in volumes:
        if volume.launched_at is not None:
            members[_key(volume)].append(volume)
    return members


def fail_over(volumes: Volumes, target: ArrayOperations,
              every: arrays.ArraySet[ArrayOperations]
              ) -> Mapping[str, Update]:
    """Fail over to a replication target; no call to the primary.

    Volumes that are already there by their rows are failed over as well: a
    failback that was interrupted may have made them inaccessible. Volumes on
    another target stay there, unchanged.

    :param every: all arrays of the back end
    :returns: the update of each volume, by its id
    :raises RestError, K2Error: the target does not reply; there are no updates
        of volumes
    """
    others = _systems([operations for name in every.targets
                       if (operations := every.named(name)) is not target])
    elsewhere = {v.id: {'replication_status': v.replication_status}
                 for v in volumes if _is_elsewhere(
                     v, target.array.system.id, others)}
    wanted = [v for v in volumes if v.id not in elsewhere]
    _repair_names(target.array, wanted)
    made_from = clone_sources.find(target.array, wanted)
    ready = copied_to(target.array.system.id, wanted)
    try:
        outcomes = {**dict.fromkeys(map(_key, wanted), _UNMADE),
                    **_strays(wanted, ready, target.array),
                    **failover.fail_over(target.array, units(ready))}
    except exceptions.FailoverOutcomeUnknown as unknown:
        for volume in wanted:
            if _key(volume) in unknown.keys:
                writes.set_replication(
                    volume, replication.in_error(str(unknown)))
        raise
    return {**_saved(wanted, lambda v: _failed_over(
        v, target.array, outcomes[_key(v)], made_from.get(v.id))), **elsewhere}


def copied_to(system: str, volumes: Volumes) -> Volumes:
    """Volumes that an array has, or is to have copies of, by their rows.

    Of other volumes, it may have copies that are years old: they were left
    when the replication to it ended while it could not be reached.

    :param system: system id of the array
    """
    strays = {_key(v) for v in volumes if _is_stray(v, system)}
    return [v for v in volumes if _key(v) not in strays]


def _is_stray(volume: typing.Any, system: str) -> bool:
    """Whether a row names another array as the one with the copy."""
    known = _known(volume)
    return (known is not None and known.target not in (None, system)
            and provider_id.system_of(volume.provider_id) != system)


def _strays(volumes: Volumes, ready: Volumes, target: Array
            ) -> dict[str, failover.Outcome]:
    """The outcomes of volumes that are replicated to another array."""
    stray = failover.Outcome(failover.ORIGIN, {}, (
        f'It is not replicated to the array at {target.address}. Fail over to '
        'the one that it is replicated to.'))
    return dict.fromkeys({_key(v) for v in volumes}
                         - {_key(v) for v in ready}, stray)


def _repair_names(array: Array, volumes: Volumes) -> None:
    """Correct name_id in the rows of volumes that the in-tree driver migrated.

    It names them by the id of the row, and leaves another name_id there. One
    call if there are any.
    """
    migrated = [v for v in volumes
                if v.provider_id is None and v.id != v.name_id]
    found = array.replication.find_many([
        name for v in migrated for owner in (v.id, v.name_id)
        for name in naming.session_names(owner)]) if migrated else {}
    for volume in migrated:
        own, other = (any(name in found for name in
                          naming.session_names(owner))
                      for owner in (volume.id, volume.name_id))
        if own and not other:
            _rewrite(volume, {'_name_id': None})


def _systems(those: Sequence[ArrayOperations]) -> frozenset[str]:
    """The ids of arrays, as far as they reply. No call for known ones."""
    found = set()
    for array in (operations.array for operations in those):
        try:
            with array.probe_deadline():
                found.add(array.system.known_id or array.system.id)
        except rest.RestError as error:
            LOG.warning('What the array at %(address)s has is not known: '
                        '%(error)s', {'address': array.address,
                                      'error': error})
    return frozenset(found)


def fail_back(volumes: Volumes, primary: ArrayOperations,
              every: arrays.ArraySet[ArrayOperations],
              timeout: float) -> Mapping[str, Update]:
    """Fail volumes back from the arrays that they are on.

    :param every: all arrays of the back end
    :param timeout: seconds for their data to arrive
    :returns: the update of each volume, by its id
    :raises RestError, K2Error: ``primary`` cannot serve; nothing was done
    """
    primary.check()
    updates = _of_plain(volumes, primary)
    away = [v for v in volumes if v.id not in updates]
    for operations, its in _places(away, every, updates).items():
        updates.update(
            _on_primary(its, primary, every) if operations is primary
            else _fail_back_from(its, operations, primary, timeout))
    return updates


def _of_plain(volumes: Volumes, primary: ArrayOperations) -> dict[str, Update]:
    """The updates of volumes without a session.

    It is an error if their groups are replicated in part because the service
    was killed while it enabled or disabled replication. Cinder disables the
    replication of a group only while no volume has the status "disabled".
    """
    plain = {v.id: v for v in volumes if _is_plain(v, primary)}
    in_part = {v.group_id for v in volumes if v.id not in plain
               and v.group_id and v.group.is_replicated}
    return {v.id: {**_repaired(v), **(
        replication.in_error(_IN_PART) if v.group_id in in_part
        else replication.VOLUME_DISABLED)} for v in plain.values()}


def _places(volumes: Volumes, every: arrays.ArraySet[ArrayOperations],
            updates: dict[str, Update]
            ) -> dict[ArrayOperations, list[typing.Any]]:
    """The volumes on each array.

    :param updates: receives those of volumes whose array does not reply
    """
    by_system: dict[typing.Any, list[typing.Any]] = (
        collections.defaultdict(list))
    for volume in volumes:
        # Locating one without ids takes no call.
        by_system[provider_id.system_of(volume.provider_id)
                  or every.of(volume)].append(volume)
    places: dict[ArrayOperations, list[typing.Any]] = (
        collections.defaultdict(list))
    for its in by_system.values():
        try:
            places[every.of(its[0])] += its
        except (rest.RestError, exceptions.K2Error) as error:
            updates.update((v.id, replication.in_error(str(error)))
                           for v in its)
    return _without_split(places, updates)


def _without_split(places: dict[ArrayOperations, list[typing.Any]],
                   updates: dict[str, Update]
                   ) -> dict[ArrayOperations, list[typing.Any]]:
    """Leave out groups whose rows are on two arrays.

    The service was killed while it saved them, and hosts may use either array.
    """
    places_of = collections.defaultdict(set)
    for operations, its in places.items():
        for volume in its:
            places_of[_key(volume)].add(operations)
    split = {key for key, found in places_of.items() if len(found) > 1}
    updates.update((v.id, replication.in_error(_SPLIT))
                   for its in places.values()
                   for v in its if _key(v) in split)
    return {operations: [v for v in its if _key(v) not in split]
            for operations, its in places.items()}


def _fail_back_from(volumes: Volumes, active: ArrayOperations,
                    primary: ArrayOperations, timeout: float
                    ) -> dict[str, Update]:
    _repair_names(active.array, volumes)
    made_from = clone_sources.find(primary.array, volumes)
    outcomes = failover.fail_back(
        active.array, primary.array, units(volumes), timeout=timeout,
        unmap=_Unmapper(active, primary),
        reserve=_Reserver(volumes, active.array))
    return _saved(volumes, lambda v: _failed_back(
        v, active.array, primary.array, outcomes.get(_key(v), _UNMADE),
        made_from.get(v.id)))


def _on_primary(volumes: Volumes, primary: ArrayOperations,
                every: arrays.ArraySet[ArrayOperations]) -> dict[str, Update]:
    """The updates of volumes that never left, or are already back.

    Their suspended replication is resumed.
    """
    _repair_names(primary.array, volumes)
    wanted = units(volumes)
    reasons = _resting(primary.array, wanted)
    for name in every.targets:
        left = [unit for unit in wanted if reasons[unit.key]]
        if left:
            reasons.update(_protected_again(primary, every.named(name), left))
    return _saved(volumes, lambda v: {**_repaired(v), **_said(
        reasons.get(_key(v), _UNMADE.reason))})


def _protected_again(primary: ArrayOperations, target: ArrayOperations,
                     wanted: Sequence[failover.ReplicationUnit]) -> dict[str,
                                                                         str]:
    try:
        target.check()
    except (rest.RestError, exceptions.K2Error) as error:
        LOG.warning('Suspended sessions are not resumed: %s', error)
        return {}
    return failover.protect_again(primary.array, target.array, wanted,
                                  unmap=_Unmapper(target, primary))


def _resting(array: Array, wanted: Sequence[failover.ReplicationUnit]
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
    return replication.in_error(reason) if reason else {
        'replication_status': _STATUS.ENABLED,
        'replication_extended_status': None}


class _Unmapper:
    """Unmaps volumes of either array from all hosts."""

    def __init__(self, *known: ArrayOperations) -> None:
        self._arrays = known

    def __call__(self, array: Array, volumes: Mapping[str, failover.Ids]
                 ) -> None:
        for operations in self._arrays:
            if operations.array is array:
                operations.detach.disconnect_volumes(
                    [ids[0] for ids in volumes.values()])


class _Reserver:
    """Marks rows so that no host can attach their volumes."""

    def __init__(self, volumes: Volumes, array: Array) -> None:
        self._array = array
        self._members = _members(volumes)

    def __call__(self, keys: Collection[str]) -> list[str]:
        return [key for key in keys
                if all([self._reserve(one) for one in self._members[key]])]

    def _reserve(self, volume: typing.Any) -> bool:
        for _ in range(_ATTEMPTS):
            known = _known(volume) or self._find(volume)
            if known is None:
                return False
            done = _rewrite(volume, _dumped(
                volume, self._array,
                dataclasses.replace(known, failback_in_progress=True)))
            if done is not False or not _is_as_before(volume):
                return bool(done)
        return False

    def _find(self, volume: typing.Any) -> ArrayVolume | None:
        """The array volume of a row without ids, if the array has one."""
        name = naming.volume(volume.name_id)
        try:
            found = self._array.volumes.find(name, naming.peer(name))
        except exceptions.GroupNotSupported:
            return None
        return found and dataclasses.replace(
            found, replicated=True, shared=_key(volume) != volume.name_id)


def _key(volume: typing.Any) -> str:
    """The id in the name of a volume's session."""
    in_group = volume.group_id and placement.is_consistent(volume.group)
    return str(volume.group_id if in_group else volume.name_id)


def _is_elsewhere(volume: typing.Any, target: str, others: Set[str]) -> bool:
    """Whether another target has a volume.

    For one that does not reply, the status in the row alone decides.
    """
    system = provider_id.system_of(volume.provider_id)
    return system in others - {target} or (
        volume.replication_status == _STATUS.FAILED_OVER
        and system not in (None, target))


def _is_plain(volume: typing.Any, operations: ArrayOperations) -> bool:
    """Whether a volume has no session by its ids or type, not its status."""
    known = _known(volume)
    if known is not None:
        return not known.replicated
    return not operations.resolver.asks_for_replication(volume)


def _are_reserved(volumes: Volumes) -> bool:
    """Whether a failback is in progress for all the volumes."""
    return all(known and known.failback_in_progress for known in map(_known,
                                                                     volumes))


def _known(volume: typing.Any) -> ArrayVolume | None:
    system = provider_id.system_of(volume.provider_id)
    return None if system is None else provider_id.decode(
        ArrayVolume, system, volume.provider_id, volume.name_id)


def _saved(volumes: Volumes, tell: Callable[[typing.Any], Update]
           ) -> dict[str, Update]:
    """Save the results of volumes in their rows at once.

    Cinder saves the updates too, but only after everything is done, and none
    after one that fails.

    :param tell: the update of a volume, by its row as it is
    :returns: the updates, by id of the volume, without saved ids: Cinder saves
        later, and they may have changed by then
    """
    # One after the other within a group.
    return {volume.id: _save(volume, tell)
            for volume in sorted(volumes, key=_key)}


def _save(volume: typing.Any, tell: Callable[[typing.Any], Update]
          ) -> Update:
    for _ in range(_ATTEMPTS):
        update = tell(volume)
        done = _rewrite(volume, {key: update[key] for key in _SAVED
                                 if key in update})
        if done:
            update.pop('provider_id', None)
        if done is not False:
            break
        if not _is_as_before(volume):
            return _overtaken(volume)
    return update


def _is_as_before(volume: typing.Any) -> bool:
    """Read a row again; whether it still has the same volume and session.

    An operation that creates a clone changes the row of the source.
    """
    before, system = _known(volume), provider_id.system_of(volume.provider_id)
    try:
        volume.refresh()
    except exception.VolumeNotFound:
        return False
    now = _known(volume)
    if before is None or now is None:
        return before is None and (now is None or now.replicated)
    return (system == provider_id.system_of(volume.provider_id)
            and before == dataclasses.replace(
                now, has_clones=before.has_clones))


def _overtaken(volume: typing.Any) -> Update:
    """The update of a volume on which another operation ran meanwhile."""
    known = _known(volume)
    LOG.warning('Volume %(id)s was changed while it was failed over, or back.',
                {'id': volume.id})
    if known is not None and not known.replicated:
        return dict(replication.VOLUME_DISABLED)
    return replication.in_error(
        'It was changed while it was failed over, or back. See where it is, '
        'and call failover-host again.')


def _rewrite(volume: typing.Any, update: Update) -> bool | None:
    """Change a row; False if its ids have changed.

    None if the database failed.
    """
    try:
        return writes.set_if_unmoved(volume, update)
    except Exception as error:
        # Errors of the database; the other rows, and Cinder's updates,
        # continue.
        LOG.error('The row of volume %(id)s was not changed: %(error)s', {
            'id': volume.id, 'error': error})
        return None


def _failed_over(volume: typing.Any, target: Array, outcome: failover.Outcome,
                 parent: clone_sources.Parent | None) -> Update:
    name = naming.volume(volume.name_id)
    if outcome.served_by == failover.DESTINATION and name in outcome.volumes:
        # A volume that was created there, and is replicated from there, keeps
        # its status.
        stays = outcome.copied and (volume.replication_status
                                    == _STATUS.ENABLED)
        return {'replication_status': (_STATUS.ENABLED if stays
                                       else _STATUS.FAILED_OVER),
                'replication_extended_status': None, **_repaired(volume),
                **_ids(volume, target, outcome.volumes[name], parent)}
    if provider_id.system_of(volume.provider_id) == target.system.id:
        return {**replication.in_error(outcome.reason), **_repaired(volume)}
    return {'replication_status': _STATUS.FAILOVER_ERROR, 'status': 'error',
            'replication_extended_status': replication.shortened(
                outcome.reason or _UNMADE.reason)}


def _failed_back(volume: typing.Any, active: Array, primary: Array,
                 outcome: failover.Outcome, parent: clone_sources.Parent | None
                 ) -> Update:
    """Return the update of a volume whose failback was requested.

    One that failed stays usable where it was, so its status stays; Cinder
    would take a status of "failed over" to mean the primary. Hosts may attach
    it again, unless it is unknown whether the other array has taken over.
    """
    name = naming.volume(volume.name_id)
    if name in outcome.volumes:
        return {**_ids(volume, primary, outcome.volumes[name], parent),
                **(_repaired(volume) if outcome.ok else {}),
                **_said(outcome.reason)}
    known = _known(volume)
    freed: Update = {}
    if (known is not None and known.failback_in_progress
            and not outcome.outcome_unknown):
        freed = _dumped(volume, active,
                        dataclasses.replace(known, failback_in_progress=False))
    return {**freed, **_repaired(volume),
            **replication.in_error(outcome.reason or _UNMADE.reason)}


def _repaired(volume: typing.Any) -> Update:
    """The status of a volume that an earlier failover had left behind."""
    if (volume.status != 'error'
            or volume.replication_status != _STATUS.FAILOVER_ERROR):
        return {}
    return {'status': 'in-use' if volume.volume_attachment else 'available'}


def _ids(volume: typing.Any, array: Array, ids: failover.Ids,
         parent: clone_sources.Parent | None) -> Update:
    number, group = ids
    known = _known(volume)
    if (known is not None and known.volume == number and array.system.id
            == provider_id.system_of(volume.provider_id)):
        return _dumped(volume, array, dataclasses.replace(
            known, replicated=True, failback_in_progress=False))
    made = ArrayVolume(group=group, volume=number, replicated=True,
                       shared=_key(volume) != volume.name_id,
                       has_clones=known is not None and known.has_clones,
                       target=provider_id.system_of(volume.provider_id))
    return _dumped(volume, array, parent.of(made) if parent else made)


def _dumped(volume: typing.Any, array: Array, backing: ArrayVolume) -> Update:
    return {'provider_id': provider_id.encode(array.system.id, backing,
                                              volume.name_id)}
