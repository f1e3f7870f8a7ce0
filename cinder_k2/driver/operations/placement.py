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

"""Choice of the volume group for a new volume."""

from collections.abc import Callable
import typing

from cinder.volume import volume_utils

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

_CONSISTENT_REPLICATION = 'consistent_group_replication_enabled'

# Errors that may mean that a volume group is gone, or full.
_NO_ROOM = (rest.Refused, rest.NotFound, exceptions.CloneNotSupported)


class Placement:
    """Puts members of a consistency group into its volume group at once.

    All other volumes, those of generic groups without consistent snapshots
    included, get their own volume group.
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    def into_group(self, volume: typing.Any,
                   make: Callable[[int | None], ArrayVolume]) -> ArrayVolume:
        """Create a volume in the right volume group.

        The volume group of a consistency group is looked up by its name, and
        created if it is missing. If it has another id when the creation of the
        volume fails, that is retried.

        :param make: creates the volume in the volume group with the given id,
            or in its own group for None; leaves nothing behind on failure
        :raises GroupNotSupported: the group is full, or its deduplication
            differs
        """
        if not volume.group_id or not is_consistent(volume.group):
            return make(None)
        check_unreplicated(volume.group)
        self._check_replication(volume)
        name = naming.consistency_group(volume.group_id)
        dedup = volume_types.of(volume).dedup
        group = self._array.groups.ensure(name, dedup)
        check_dedup(volume, name, group, dedup)
        try:
            return make(group.id)
        except _NO_ROOM as refusal:
            with self._array.deadline(fresh=True):
                found = self._array.groups.ensure(name, dedup)
            if found.id != group.id:
                return make(found.id)
            groups.check_room(name, found, refusal)
            raise

    def _check_replication(self, volume: typing.Any) -> None:
        """Check that no single volume of a group is to be replicated.

        :raises GroupNotSupported: it is
        """
        if (volume_types.of(volume).replicated and not
                volume_utils.is_group_a_type(volume.group,
                                             _CONSISTENT_REPLICATION)):
            raise exceptions.GroupNotSupported(
                f'the type of volume {volume.id} asks for replication, but a '
                'consistency group is replicated as a whole. Use a type '
                f'without it, or a group type with {_CONSISTENT_REPLICATION}.'
            )


def check_dedup(volume: typing.Any, name: str, group: groups.Group,
                dedup: bool) -> None:
    """Check that a volume's type fits a volume group.

    :raises GroupNotSupported: it does not (VG-4)
    """
    words = volume_types.DEDUP_WORDS
    if group.dedup not in (None, dedup):
        raise exceptions.GroupNotSupported(
            f'the type of volume {volume.id} has '
            f'{volume_types.DEDUP.key} {words[dedup]}, but volume group '
            f'{name} on the array was made with {words[not dedup]}, which '
            'holds for all volumes in it. Use another type or group.')


def check_consistent(row: typing.Any) -> None:
    """Check that the driver handles a group or group snapshot.

    :raises NotImplementedError: Cinder does
    """
    if not is_consistent(row):
        raise NotImplementedError


def check_unreplicated(group: typing.Any) -> None:
    """Check that volumes may join and leave a consistency group.

    :raises GroupNotSupported: it is replicated (REP-5)
    """
    if group.replication_status not in resolver.UNREPLICATED:
        raise exceptions.GroupNotSupported(
            f'group {group.id} is replicated, so its volumes cannot change. '
            'Disable its replication, change it, and enable it again.')


def dedup_of(group: typing.Any) -> bool:
    """Whether a group's volumes are deduplicated.

    :raises GroupNotSupported: its types differ in that (VG-4)
    """
    kinds = {volume_types.parse(kind.extra_specs or {}).dedup
             for kind in group.volume_types}
    if len(kinds) > 1:
        raise exceptions.GroupNotSupported(
            f'its volume types differ in {volume_types.DEDUP.key}, which is '
            'one for all volumes of a consistency group. Make a group for '
            'those with dedup and another for those with nodedup.')
    return False not in kinds


def is_consistent(row: typing.Any) -> bool:
    """Whether all volumes of a group share one volume group of the array."""
    return bool(volume_utils.is_group_a_cg_snapshot_type(row)
                or volume_utils.is_group_a_type(row,
                                                _CONSISTENT_REPLICATION))
