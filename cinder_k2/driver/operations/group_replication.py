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
"""Enabling and disabling the replication of groups of volumes.

A consistency group has one session, and all its volumes fail over at one
instant. Volumes of other groups have one session each. The members of a
consistency group cannot change while it is replicated (REP-5).
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import groups
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import replication as flows
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_IN_PART = ('Its replication has ended, that of others of its group has not: '
            'disable the replication of the group again.')

Updates = list[resolver.ModelUpdate]
Pairs = Sequence[tuple[typing.Any, ArrayVolume]]


class GroupReplication:
    """Enables and disables the replication of groups."""

    def __init__(self, array: Array, known: resolver.Resolver,
                 made: groups.Groups, sessions: replication.Replication,
                 deletions: deletion.Deletion,
                 flattening: flatten.Flattening) -> None:
        self._array = array
        self._resolver = known
        self._groups = made
        self._replication = sessions
        self._deletion = deletions
        self._flattening = flattening

    def enable_replication(self, context: typing.Any, group: typing.Any,
                           volumes: Sequence[typing.Any]
                           ) -> tuple[resolver.ModelUpdate, Updates]:
        """Replicate all volumes of a group.

        In a consistency group, all or none; in other groups, those that can
        be.

        :returns: the updates of the group, and of its volumes
        :raises GroupNotSupported: the types of its volumes specify different
            targets; or the volumes of a consistency group are not in one
            volume group
        """
        link = self._link_of(volumes)
        if link is not None and not placement.is_consistent(group):
            failed = self._of_each(volumes, functools.partial(
                self._start_one, link))
            return dict(replication.ERROR if failed else replication.ENABLED
                        ), _told(volumes, failed, replication.VOLUME_ENABLED)
        if link is not None:
            self._start_group(group, volumes, link)
        return dict(replication.ENABLED), groups.all_alike(
            volumes, replication.VOLUME_ENABLED)

    def disable_replication(self, context: typing.Any, group: typing.Any,
                            volumes: Sequence[typing.Any]
                            ) -> tuple[resolver.ModelUpdate, Updates]:
        """End the replication of a group; its copies are deleted."""
        if not placement.is_consistent(group):
            failed = self._of_each(volumes, self._end_one)
            # Cinder accepts no second request after "disabled".
            return dict(replication.ERROR if failed else replication.DISABLED
                        ), _told(volumes, failed, replication.in_error(
                            _IN_PART) if failed
                            else replication.VOLUME_DISABLED)
        self._end_group(group, volumes)
        return dict(replication.DISABLED), groups.all_alike(
            volumes, replication.VOLUME_DISABLED)

    def _of_each(self, volumes: Sequence[typing.Any],
                 act: Callable[[typing.Any], None]) -> dict[str, str]:
        """Call ``act`` for each volume of a group.

        If an array does not reply, no further volumes are tried.

        :returns: the errors, by id of the volume. If they were raised, Cinder
            would set all volumes to error.
        """
        failed, lost = {}, None
        for volume in volumes:
            try:
                if lost is not None:
                    raise lost
                with self._array.deadline(fresh=True):
                    act(volume)
            except (rest.RestError, exceptions.K2Error) as error:
                LOG.error('Volume %(id)s: %(why)s',
                          {'id': volume.id, 'why': error})
                lost = error if isinstance(error, rest.Unreachable) else None
                failed[volume.id] = str(error)
        return failed

    # Enabling

    def _link_of(self, volumes: Sequence[typing.Any]) -> flows.Link | None:
        """The target to which the volumes of a group are to be replicated.

        :returns: None without volumes
        :raises GroupNotSupported: their types specify different ones
        """
        links = {self._replication.link(volume_types.of(volume))
                 for volume in volumes}
        if len(links) > 1:
            raise exceptions.GroupNotSupported(
                'the types of its volumes differ in '
                f'{volume_types.TARGET.key} or {volume_types.RPO.key}, which '
                'are one for all volumes of a replicated group.')
        return next(iter(links), None)

    def _start_group(self, group: typing.Any, volumes: Sequence[typing.Any],
                     link: flows.Link) -> None:
        members = self._groups.members(volumes)
        if all(backing.replicated for backing in members):
            return
        self._groups.check_together(volumes, members)
        pairs = list(zip(volumes, members, strict=True))
        number, name = members[0].group, naming.consistency_group(group.id)
        order = flows.SessionRequest(
            link, self._replication.session_name(group.id, number, name),
            number, name,
            [self._replication.member(*pair) for pair in pairs])
        with self._replication.noted(pairs, order):
            self._replication.begin(volumes, order)

    def _start_one(self, link: flows.Link, volume: typing.Any) -> None:
        backing = self._resolver.confirm(volume, self._flattening.full(
            volume, 'which the array cannot replicate'))
        if not backing.replicated:
            self._replication.protect(volume, backing, link)

    # Disabling

    def _end_one(self, volume: typing.Any) -> None:
        backing = self._made(volume)
        if backing and backing.replicated:
            self._replication.unprotect_for_good(
                volume, self._resolver.confirm(volume, backing))

    def _end_group(self, group: typing.Any, volumes: Sequence[typing.Any]
                   ) -> None:
        known = [(volume, backing) for volume in volumes
                 if (backing := self._made(volume)) and backing.replicated]
        if known:
            self._check_seen(known)
            self._end_session(group, volumes, known)

    def _made(self, volume: typing.Any) -> ArrayVolume | None:
        """The array volume; None for a volume that was never created."""
        try:
            return self._resolver.resolve(volume)
        except exceptions.ObjectMissing:
            return None

    def _check_seen(self, known: Pairs) -> None:
        """Check that a volume group still contains the volumes. One call.

        :raises ObjectMissing: it has none of them, so its id may be another
            group's by now (OBJ-7)
        """
        volumes = [volume for volume, _ in known]
        if not self._groups.seen(volumes):
            raise exceptions.ObjectMissing(
                f'The array at {self._array.address} has none of the volumes '
                f'{", ".join(naming.volume(v.name_id) for v in volumes)} in '
                f'volume group {known[0][1].group}, where they were.')

    def _end_session(self, group: typing.Any, volumes: Sequence[typing.Any],
                     known: Pairs) -> None:
        """End the session of a consistency group, and update its rows."""
        self._replication.end(group.id, known[0][1].group,
                              naming.consistency_group(group.id),
                              {volume.name_id: volume for volume in volumes})
        with self._array.deadline(fresh=True):
            for volume, backing in known:
                self._replication.note_unreplicated(volume, backing)

    # Deleting

    def delete_group(self, context: typing.Any, group: typing.Any,
                     volumes: Sequence[typing.Any]
                     ) -> tuple[resolver.ModelUpdate, Updates]:
        """Delete a group and its volumes, after ending their replication.

        A group with a volume that has to stay remains replicated.

        :returns: as ``Groups.delete``
        """
        known = [(volume, backing) for volume in volumes if (
            backing := self._resolver.known(volume)) and backing.replicated]
        seen = self._groups.seen(volumes)
        known = [(volume, backing) for volume, backing in known
                 if volume.id in seen]
        if not known:
            return self._groups.delete(group, volumes, seen)
        try:
            for _, backing in known:
                self._deletion.check_deletable(backing)
            self._end_session(group, volumes, known)
        except exceptions.ObjectInUse as error:
            LOG.error('Cannot delete group %(id)s: %(why)s',
                      {'id': group.id, 'why': error})
            return {'status': 'error'}, groups.all_alike(
                volumes, {'status': 'available'})
        of_group, of_volumes = self._groups.delete(group, volumes, seen)
        return {**of_group, **replication.DISABLED}, [
            {**update, **replication.DISABLED} for update in of_volumes]


def _told(rows: Iterable[typing.Any], failed: Mapping[str, str],
          others: resolver.ModelUpdate) -> Updates:
    return [{'id': row.id, **(replication.in_error(failed[row.id])
                              if row.id in failed else others)}
            for row in rows]
