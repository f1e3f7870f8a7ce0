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

"""Moving volumes into consistency groups, and out of them."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups as array_groups
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import deletion
from cinder_k2.flows import groups
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_BROKEN = (rest.RestError, exceptions.K2Error)

Updates = list[resolver.ModelUpdate]
Moving = Sequence[tuple[typing.Any, ArrayVolume]]
#: By name: the array's ids of volume and volume group.
Seen = Mapping[str, tuple[int, int | None]]


class GroupUpdate:
    """Moves all volumes of a request to another volume group, or none.

    Meanwhile their rows are marked: if a service is killed, the next operation
    asks the array where the volume is.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 flattening: flatten.Flattening) -> None:
        self._array = array
        self._resolver = known
        self._flattening = flattening

    def update_group(self, context: typing.Any, group: typing.Any,
                     add_volumes: Sequence[typing.Any] | None = None,
                     remove_volumes: Sequence[typing.Any] | None = None
                     ) -> tuple[None, Updates, Updates]:
        """Move volumes into the group's volume group, and out of it.

        One call finds the group and one the volumes; two for each volume look
        for its snapshots and move it, and one deletes or creates its own
        group. A volume that a view backs is flattened first.

        :raises GroupNotSupported: the array keeps a volume where it is, the
            deduplication of a volume differs from the group's, or one of them
            is replicated; nothing was moved
        """
        name = naming.consistency_group(group.id)
        target = self._array.groups.ensure(name, placement.dedup_of(group))
        if add_volumes:
            placement.check_unreplicated(group)
        joining = [(v, self._joining(v, name, target))
                   for v in add_volumes or ()]
        seen = self._see([*(add_volumes or ()), *(remove_volumes or ())])
        joining = [(v, self._as_seen(v, backing, seen))
                   for v, backing in joining]
        leaving = [(v, backing) for v in remove_volumes or ()
                   if (backing := self._leaving(v, target, seen)) is not None]
        if leaving:
            placement.check_unreplicated(group)
        moves = [*self._joins(joining, name, target),
                 *self._leaves(leaving, target)]
        places = self._regroup([*joining, *leaving], moves)
        for volume, backing in joining:
            self._drop_former(volume, backing, target.id)
        joined, left = [[self._arrive(v, b, target.id, places)
                         for v, b in some]
                        for some in (joining, leaving)]
        return None, joined, left

    def _joining(self, volume: typing.Any, name: str,
                 target: array_groups.Group) -> ArrayVolume:
        """The array volume that is to join a group; never a view."""
        placement.check_dedup(volume, name, target,
                              volume_types.of(volume).dedup)
        # Flattening another volume of the request may have taken long.
        with self._array.deadline(fresh=True):
            if self._resolver.resolve(volume).replicated:
                raise exceptions.GroupNotSupported(
                    f'volume {volume.id} is replicated by itself. Retype it '
                    'to a type without replication first.')
        return self._flattening.full(
            volume, 'which cannot join a consistency group')

    def _see(self, volumes: Sequence[typing.Any]) -> Seen:
        """Find volumes by their names. One call, none for a single one.

        A single one is verified when its turn comes.
        """
        if len(volumes) < 2:
            return {}
        return self._array.replication.volumes_of(
            [naming.volume(volume.name_id) for volume in volumes])

    def _as_seen(self, volume: typing.Any, stored: ArrayVolume, seen: Seen
                 ) -> ArrayVolume:
        """The array volume, verified again if necessary."""
        if seen.get(naming.volume(volume.name_id)) == (
                stored.volume, stored.group):
            return stored
        return self._resolver.confirm(volume, stored)

    def _leaving(self, volume: typing.Any, target: array_groups.Group,
                 seen: Seen) -> ArrayVolume | None:
        """The array volume that is to leave a group.

        This includes volumes in error; until they have left the group they
        cannot be deleted.

        :returns: None if the array has none
        """
        try:
            backing = self._resolver.resolve(volume)
            if volume.status.startswith('error') or (
                    backing.shared and backing.group != target.id):
                backing = self._resolver.settled(backing)
            backing = self._as_seen(volume, backing, seen)
        except (exceptions.ObjectMissing, rest.NotFound):
            LOG.warning('Volume %(id)s is not on the array and just leaves '
                        'its group in Cinder.', {'id': volume.id})
            writes.set_if_unmoved(volume, {'provider_id': None})
            return None
        return backing

    def _regroup(self, moving: Moving, moves: Sequence[groups.Move]
                 ) -> dict[int, int]:
        """Move volumes, and correct their rows if that fails."""
        for volume, backing in moving:
            self._resolver.note(volume, backing, regrouping=True)
        try:
            return groups.regroup(self._array, moves, functools.partial(
                locks.group_on, self._array))
        except Exception:
            for volume, backing in moving:
                self._settle(volume, backing)
            raise

    def _settle(self, volume: typing.Any, backing: ArrayVolume) -> None:
        try:
            with self._array.deadline(fresh=True):
                self._resolver.note(
                    volume, self._resolver.settled(backing), regrouping=False)
        except _BROKEN as error:
            LOG.warning('The array does not say in which volume group '
                        'volume %(id)s is; it is asked again when that '
                        'matters: %(error)s',
                        {'id': volume.id, 'error': error})

    def _drop_former(self, volume: typing.Any, backing: ArrayVolume,
                     target: int) -> None:
        """Delete the group that a volume has left."""
        with self._array.deadline(fresh=True):
            if backing.group != target:
                deletion.delete_own_group(
                    self._array, backing.group,
                    list(map(naming.group_of_volume,
                             self._resolver.names_of(volume, backing))))
                locks.forget_group(self._array.system.id, backing.group)
            else:
                # It was moved before, by a service that was killed.
                deletion.delete_own_group_by_name(
                    self._array, naming.volume_group(volume.name_id))

    def _arrive(self, volume: typing.Any, backing: ArrayVolume, target: int,
                places: dict[int, int]) -> resolver.ModelUpdate:
        """Save a volume's new location in its row; returns the update."""
        group = places.get(backing.volume_ref.id, backing.group)
        self._resolver.note(volume, backing, group=group,
                            shared=group == target,
                            regrouping=False)
        return {'id': volume.id, 'provider_id': volume.provider_id}

    def _joins(self, joining: Moving, name: str, target: array_groups.Group
               ) -> Iterator[groups.Move]:
        """The moves into a group, except those already done."""
        for volume, backing in joining:
            if backing.group != target.id:
                yield groups.Move(
                    f'Volume {volume.id}',
                    self._resolver.names_of(volume, backing),
                    backing.volume_ref.id, backing.group, target.id, name,
                    target.dedup is not False)

    def _leaves(self, leaving: Moving, target: array_groups.Group
                ) -> Iterator[groups.Move]:
        """The moves out of a group, except those already done."""
        for volume, backing in leaving:
            if backing.group == target.id:
                yield groups.Move(
                    f'Volume {volume.id}',
                    self._resolver.names_of(volume, backing),
                    backing.volume_ref.id, target.id, None,
                    naming.volume_group(volume.name_id),
                    target.dedup is not False)
