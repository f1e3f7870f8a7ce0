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

"""Volume groups that hold all volumes of a consistency group.

A snapshot of the group holds all of them at one instant (SNP-11).
"""

import dataclasses

from cinder_k2.array import images
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

# VG-7. The array enforces the limit; this only distinguishes a full group from
# other reasons for a refusal.
MOST_VOLUMES = 32


@dataclasses.dataclass(frozen=True)
class Group:
    """A volume group.

    :ivar dedup: whether its volumes are deduplicated; None if not known
    :ivar volumes: number of its volumes when the group was looked up
    """

    id: int
    dedup: bool | None = None
    volumes: int = 0


class Groups:
    """Volume groups by name; the names do not change."""

    def __init__(self, client: rest.Client,
                 own_groups: volumes.Volumes) -> None:
        self._client = client
        self._own_groups = own_groups

    def create(self, name: str, dedup: bool) -> Group:
        """Create a group, or take over an empty one of that name.

        One call in the normal case.

        :raises Refused: also if a group with volumes has the name
        """
        return Group(self._own_groups.create_group(name, dedup), dedup)

    def ensure(self, name: str, dedup: bool) -> Group:
        """The group of a name, created if missing. One or two calls.

        The driver or an administrator may have deleted it while it was empty.
        """
        found = self.find(name)
        if found is None:
            try:
                return self.create(name, dedup)
            except rest.Refused:
                # Another service created it first.
                found = self.find(name)
                if found is None:
                    raise
        return found

    def find(self, name: str) -> Group | None:
        """The group of a name, None if the array has none. One call."""
        found = self._client.volume_groups.find(name=name)
        if found is None:
            return None
        return Group(found.id, found.is_dedup, found.volumes_count or 0)

    def is_shared(self, group: int) -> bool:
        """Whether a group is not for a single volume.

        It is that of a consistency group, or the array's own (VG-10). One
        call.

        :raises GroupNotSupported: the array does not show its name
        """
        name = self._client.volume_groups.get(group).name
        if not name:
            raise exceptions.GroupNotSupported(
                f'The array at {self._client.address} does not show the name'
                f' of volume group {group}, so it may be a shared one.')
        return naming.is_foreign_group(name)

    def group_of(self, volume: int) -> int:
        """Id of the group that a volume is in.

        :raises NotFound: there is no such volume
        :raises GroupNotSupported: the array does not show it
        """
        group = self._client.volumes.get(volume).volume_group
        if group is None:
            raise exceptions.GroupNotSupported(
                f'The array at {self._client.address} does not show the'
                f' volume group of volume {volume}, which was being moved.')
        return group.id

    def check_movable(self, label: str, volume: int, group: int) -> None:
        """Check that no snapshot or clone keeps a volume in its group.

        :param label: name of the volume in the error message
        :param group: id of the volume group that the volume is in
        :raises GroupNotSupported: a snapshot or clone does (VOL-10); the text
            names it
        """
        found = images.holders(self._client, volume, group)
        if found:
            names = ', '.join(sorted(i.name or str(i.ref) for i in found))
            raise exceptions.GroupNotSupported(
                f'{label} has snapshots, or clones were made from it, and '
                f'the array keeps it where those are (VOL-10): {names}. '
                'Delete them first.')

    def delete_if_empty(self, group: int, name: str) -> bool:
        """Delete a group if it has no volumes; returns whether it is gone.

        The check is made here and not left to the array (VG-5).
        """
        if not self._own_groups.is_empty(group):
            return False
        self._own_groups.delete_group(group, [name])
        return True


def check_room(name: str, group: Group, refusal: Exception) -> None:
    """Replace a refusal by a specific error if the volume group is full.

    :param name: name of the group, for the error message
    :param refusal: the array's refusal of another volume
    :raises GroupNotSupported: the group is full
    """
    if group.volumes >= MOST_VOLUMES:
        raise exceptions.GroupNotSupported(
            f'volume group {name} holds {group.volumes} volumes, and an '
            f'array takes {MOST_VOLUMES} at most (VG-7), including deleted '
            'volumes that are kept for clones. Create another group. '
            f'{refusal}') from refusal
