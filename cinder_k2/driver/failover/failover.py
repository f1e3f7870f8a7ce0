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
"""Failover and failback: choice of the array, and updates for Cinder.

Each row names the array that has its volume. So the rows show what failed over
and what did not, whatever Cinder's state of the back end.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import typing

from cinder import exception
from cinder.i18n import _
from oslo_log import log as logging

from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver.failover import arrays
from cinder_k2.driver.failover import volumes as volume_failover
from cinder_k2.driver.operations import ArrayOperations
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_BROKEN = (rest.RestError, exceptions.K2Error)

_STATUS = statuses.Replication
_BAD = (_STATUS.FAILOVER_ERROR, _STATUS.ERROR)

Update = dict[str, typing.Any]
Updates = list[Update]


class Failover:
    """Implements ``cinder failover-host`` and failover of groups.

    Cinder's contract: doc/source/contributor/replication.rst of Cinder.

    :param timeout: seconds in which data must arrive at a failback
    """

    def __init__(self, known: arrays.ArraySet[ArrayOperations],
                 rows: backend_rows.BackendRows, timeout: float) -> None:
        self._arrays = known
        self._backend_rows = rows
        self._timeout = timeout

    def failover_host(self, context: typing.Any,
                      volumes: Sequence[typing.Any],
                      secondary_id: str | None = None,
                      groups: Sequence[typing.Any] | None = None
                      ) -> tuple[str, Updates, Updates]:
        """Fail over to another array; "default" fails everything back.

        It can be called again for volumes that were not moved.

        :param volumes: volumes that Cinder lists as replicated
        :param secondary_id: backend_id of a replication_device; None: the one
            that has most of the volumes
        :returns: the active array; the updates of volumes, of groups
        :raises InvalidReplicationTarget: there is no such target; none was
            given, and the back end is failed over already; or the array is not
            usable, or stopped replying. After any other exception Cinder would
            accept no further failover request.
        """
        moved = self.failover(context, volumes, secondary_id, groups)
        self.failover_completed(context, moved[0])
        return moved

    def failover(self, context: typing.Any, volumes: Sequence[typing.Any],
                 secondary_id: str | None = None,
                 groups: Sequence[typing.Any] | None = None
                 ) -> tuple[str, Updates, Updates]:
        """As ``failover_host``, without making the array active.

        In a cluster, Cinder then calls ``failover_completed`` in each service.
        """
        backend_id = self._target(secondary_id, volumes)
        updates = self._move(volumes, backend_id)
        return backend_id, [
            {'volume_id': volume.id, 'updates': updates[volume.id]}
            for volume in volumes], [
            {'group_id': group.id, 'updates': _saved(group, [
                updates[v.id] for v in volumes if v.group_id == group.id])}
            for group in groups or ()]

    def failover_completed(self, context: typing.Any,
                           active_backend_id: str | None = None) -> None:
        """Use the array that is active from now on. No call.

        :raises InvalidReplicationTarget: cinder.conf does not have it
        """
        try:
            self._arrays.activate(active_backend_id)
        except KeyError:
            raise self._no_target(active_backend_id) from None

    def failover_replication(self, context: typing.Any, group: typing.Any,
                             volumes: Sequence[typing.Any],
                             secondary_backend_id: str | None = None
                             ) -> tuple[Update, Updates]:
        """Fail over one group to another array; "default" fails it back.

        Volumes that could not be moved stay usable where they were, so their
        status stays.

        :returns: the updates of the group, and of its volumes
        """
        try:
            if self._backend_rows.is_failing_over():
                # It may be about to move the same volumes in the other
                # direction.
                raise _unusable(_(
                    'a failover, or failback, of the back end is in '
                    'progress; try again when it has ended'))
            moved = self._move(volumes, self._target(secondary_backend_id,
                                                     volumes))
        except exception.InvalidReplicationTarget as error:
            # If this raised, Cinder would set all volumes to error.
            LOG.error('Group %(id)s: %(why)s', {'id': group.id, 'why': error})
            moved = {volume.id: replication.in_error(str(error))
                     for volume in volumes}
        updates = {key: _of_group(update) for key, update in moved.items()}
        return _group_update(group, list(updates.values())), [
            {'id': volume.id, **updates[volume.id]} for volume in volumes]

    # Choice of the target

    def _target(self, wanted: str | None,
                volumes: Sequence[typing.Any]) -> str:
        active, targets = self._arrays.active_id, self._arrays.targets
        if not targets:
            raise _unusable(_('the back end has no replication_device in '
                              'cinder.conf'))
        if wanted is None and active != config.PRIMARY_ID:
            raise _unusable(_(
                'the back end was failed over to %s; name a target for '
                'volumes that were left, or "default" to fail back')
                % active)
        if wanted is None:
            return self._fullest(volumes)
        if wanted != config.PRIMARY_ID and wanted not in targets:
            raise self._no_target(wanted)
        return wanted

    def _no_target(self, wanted: str | None
                   ) -> exception.InvalidReplicationTarget:
        return _unusable(_(
            '%(wanted)s is no backend_id of a replication_device; use one '
            'of: %(known)s, or "default" to fail back') % {
                'wanted': wanted, 'known': ', '.join(self._arrays.targets)})

    def _fullest(self, volumes: Sequence[typing.Any]) -> str:
        """The target that has most of the volumes."""
        def sessions(backend_id: str) -> int:
            array = self._arrays.named(backend_id).array
            try:
                return len(array.replication.find_many([
                    name for unit in volume_failover.units(
                        volume_failover.copied_to(array.system.id, volumes))
                    for name in unit.sessions]))
            except _BROKEN as error:
                LOG.warning('Replication target %(id)s does not answer: '
                            '%(error)s', {'id': backend_id, 'error': error})
                return -1

        targets = self._arrays.targets
        return targets[0] if len(targets) == 1 else max(targets, key=sessions)

    # Moving volumes

    def _move(self, volumes: Sequence[typing.Any],
              backend_id: str) -> Mapping[str, Update]:
        """Move volumes to an array; returns the update of each, by id."""
        target = self._arrays.named(backend_id)
        LOG.info('%(count)d volumes are to be served by the array at '
                 '%(address)s.', {'count': len(volumes),
                                  'address': target.array.address})
        try:
            if backend_id != config.PRIMARY_ID:
                self._check_another(target)
                updates = volume_failover.fail_over(
                    volumes, target, self._arrays)
            else:
                updates = volume_failover.fail_back(
                    volumes, target, self._arrays, self._timeout)
        except _BROKEN as error:
            raise _unusable(_(
                'the array at %(address)s cannot take over; try again when '
                'it can: %(error)s') % {
                    'address': target.array.address, 'error': error}
            ) from error
        for volume in volumes:
            _log(volume, updates[volume.id])
        return updates

    def _check_another(self, target: ArrayOperations) -> None:
        """Check that a target is not the primary under another address.

        No call to the primary.

        :raises InvalidReplicationTarget: it is
        """
        primary = self._arrays.named(config.PRIMARY_ID).array
        if target.array.system.id == primary.system.known_id:
            raise _unusable(_(
                'the array at %(target)s is that at %(primary)s; correct '
                'replication_device') % {'target': target.array.address,
                                         'primary': primary.address})


def _unusable(reason: str) -> exception.InvalidReplicationTarget:
    return exception.InvalidReplicationTarget(reason=reason)


def _group_update(group: typing.Any, volumes: Sequence[Update]) -> Update:
    """The update of a group: that of its worst volume."""
    found = [update['replication_status'] for update in volumes]
    worst = next((status for status in _BAD if status in found), None)
    if worst is not None:
        return {'replication_status': worst}
    if not found and group.replication_status in resolver.UNREPLICATED:
        return {'replication_status': _STATUS.DISABLED}
    repaired = (group.status == statuses.Group.ERROR
                and group.replication_status == _STATUS.FAILOVER_ERROR)
    # Cinder replaces "failed over" by the right status at failback.
    return {'replication_status': found[0] if found else _STATUS.FAILED_OVER,
            **({'status': statuses.Group.AVAILABLE} if repaired else {})}


def _saved(group: typing.Any, volumes: Sequence[Update]) -> Update:
    """Save the update of a group in its row at once, and return it.

    Cinder saves it after those of all volumes, and not at all if a volume is
    deleted meanwhile. A group without volumes gets the status of the back end.
    """
    update = _group_update(group, volumes)
    try:
        if volumes:
            writes.set_replication(group, update)
    except Exception as error:
        # Errors of the database; Cinder saves it, too.
        LOG.error('The row of group %(id)s was not changed: %(error)s',
                  {'id': group.id, 'error': error})
    return update


def _of_group(update: Update) -> Update:
    """The update of a volume whose group was to fail over on its own.

    Cinder takes every status but "error" for success then.
    """
    if update['replication_status'] != _STATUS.FAILOVER_ERROR:
        return update
    return replication.in_error(update['replication_extended_status'])


def _log(volume: typing.Any, update: Update) -> None:
    why = update.get('replication_extended_status')
    if why:
        LOG.error('Volume %(id)s: %(why)s', {'id': volume.id, 'why': why})
