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

"""Objects on the array that Cinder could manage, and reasons against it.

Listing takes as many calls as there are kinds of objects, and one more for
each full page of them.
"""

import collections
import dataclasses
import typing

from cinder_k2.array import deferred_deletion
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2.rest import records

R = typing.TypeVar('R', bound=rest.Record)

_KIB_PER_GIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Reference:
    """How an operator names an object: by exactly one of these."""

    name: str | None = None
    id: int | None = None


def gib(kib: int | None) -> int:
    """KiB as GiB, rounded up."""
    return -(-(kib or 0) // _KIB_PER_GIB)


@dataclasses.dataclass(frozen=True)
class FoundVolume:
    """A volume, and what decides whether Cinder may manage it.

    :ivar group: its volume group
    :ivar mappings: how many hosts and host groups it is mapped to
    """

    volume: rest.Volume
    group: rest.VolumeGroup
    mappings: int

    def reasons(self) -> list[str]:
        """All reasons against managing it; empty if Cinder may manage it."""
        volumes = self.group.volumes_count or 0
        checks = (
            (naming.is_internal(self.volume.name), 'it is internal'),
            (self.mappings, f'it is mapped to {self.mappings} hosts or host '
             'groups: unmap it'),
            (volumes > 1, f'its volume group {self.group.name} holds '
             f'{volumes} volumes: move it into a group of its own'),
            (naming.is_foreign_group(self.group.name),
             f'its volume group {self.group.name} is not for a single '
             'volume: move it into a group of its own'),
            (self.is_replicated, 'it is replicated: remove the replication '
             f'session of its volume group {self.group.name}'),
            (self.volume.read_only, 'it is read-only: make it writable'),
            (self._untold, f'the array does not show its {self._untold}, or '
             'shows it in a form that cannot be read'),
            (not self.can_be_noted, 'its name, or that of its volume group, '
             'has square brackets: rename it'))
        return [reason for against, reason in checks if against]

    @property
    def is_replicated(self) -> bool:
        """Whether its group has a session (section 14: by either name)."""
        return bool(self.group.replication_session
                    or self.group.replication_sessions)

    @property
    def _untold(self) -> str:
        """Required facts that the array does not show."""
        unread = ({'description', 'read_only'} & self.volume.unread
                  | {'description', 'volumes_count'} & self.group.unread)
        if not (self.volume.name and self.group.name):
            unread |= {'name'}
        return ', '.join(sorted(unread))

    @property
    def can_be_noted(self) -> bool:
        """Whether its names, and its group's, can be stored in tags."""
        return not set('[]') & set(self.volume.name + self.group.name)


@dataclasses.dataclass(frozen=True)
class FoundSnapshot:
    """A snapshot, and what decides whether Cinder may manage it.

    :ivar images: its volsnaps, one for each volume that it holds (SNP-11)
    :ivar is_kept: its deletion is deferred
    """

    snapshot: rest.Snapshot
    images: tuple[rest.Volsnap, ...]
    is_kept: bool = False

    def reasons(self) -> list[str]:
        """All reasons against managing it; empty if Cinder may manage it."""
        checks = (
            (self.is_internal, 'it is internal'),
            (self.snapshot.is_exposable, 'it is a view, which hosts can '
             'write to: take a snapshot of it'),
            (len(self.images) != 1,
             f'it holds {len(self.images)} volumes, not one'),
            (self.is_of_replication, 'it belongs to a replication session'),
            (self.snapshot.is_auto_deleteable is not False,
             'the array may delete it by itself: set is_auto_deleteable to '
             'false on the array, or take another snapshot'))
        return [reason for against, reason in checks if against]

    @property
    def is_internal(self) -> bool:
        """Whether it is internal to the driver."""
        return self.is_kept or naming.is_internal(self.snapshot.short_name)

    @property
    def is_of_replication(self) -> bool:
        """Whether a session created it or needs it."""
        return bool(self.snapshot.replication_session
                    or self.snapshot.generation_number is not None
                    or self.snapshot.is_locked_by_replication
                    or {'generation_number', 'is_locked_by_replication'}
                    & self.snapshot.unread)

    @property
    def size(self) -> int | None:
        """KiB of each volume in it, at the time of the snapshot (VSN-4)."""
        total = self.snapshot.volsnaps_provisioned_capacity
        return total // len(self.images) if total and self.images else None


class Inventory:
    """All volumes and snapshots of an array, including foreign ones."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def volumes(self) -> list[FoundVolume]:
        """All volumes but internal ones. Three calls, more for long lists."""
        groups = {g.ref: g for g in self._client.volume_groups.search()}
        mapped = collections.Counter(
            m.volume for m in self._client.mappings.search())
        return [FoundVolume(volume, groups[volume.volume_group],
                            mapped[volume.ref])
                for volume in self._client.volumes.search()
                if volume.volume_group in groups
                and not naming.is_internal(volume.name)]

    def snapshots(self) -> list[FoundSnapshot]:
        """All snapshots but internal ones. Calls as for ``volumes``."""
        kept = {g.ref: deferred_deletion.ids_of(g).snapshots
                for g in self._client.volume_groups.search()}
        images = collections.defaultdict(list)
        for image in self._client.volsnaps.search():
            images[image.snapshot].append(image)
        found = [FoundSnapshot(snapshot, tuple(images[snapshot.ref]),
                               snapshot.id in kept.get(group, ()))
                 for snapshot in self._client.snapshots.search()
                 if not snapshot.is_exposable
                 and (group := snapshot.volume_group) is not None]
        return [snapshot for snapshot in found if not snapshot.is_internal]

    def volume(self, reference: Reference) -> rest.Volume:
        """The volume that an operator refers to. One call.

        :raises NotManageable: there is none, or it is internal
        """
        found = _live(self._client.volumes, reference.id) if (
            reference.id is not None) else self._client.volumes.find(
                name=reference.name or '')
        if found is None:
            raise exceptions.NotManageable(self._why_no_volume(reference))
        if found.volume_group is None or naming.is_internal(found.name):
            raise exceptions.NotManageable(
                f'volume {found.name} is internal')
        return found

    def check_named(self, volume: rest.Volume) -> None:
        """Check that a volume still has its name and group. One call.

        :raises NotManageable: it is gone, or has others
        """
        found = self._client.volumes.find(name=volume.name)
        if (found is None or found.id != volume.id or found.volume_group
                not in (None, volume.volume_group)):
            raise exceptions.NotManageable(
                f'the array has no volume {volume.name} with id {volume.id} '
                f'in {volume.volume_group} any more')

    def examine_volume(self, volume: rest.Volume) -> FoundVolume:
        """Collect reasons against managing a volume. Two calls.

        One more for what its group does not show: its volumes, or whether it
        is replicated (section 14).

        :param volume: one that has a volume group
        """
        group = volume.volume_group
        found = self._client.volume_groups.get(group.id if group else 0)
        if not found.tells_replication:
            found = dataclasses.replace(
                found, replication_session=self._session_of(found))
        if found.volumes_count is None:
            found = dataclasses.replace(found, volumes_count=len(
                self._client.volumes.search(volume_group=found.ref)))
        return FoundVolume(
            volume, found,
            len(self._client.mappings.search(volume=volume.ref)))

    def _session_of(self, group: rest.VolumeGroup) -> rest.Ref | None:
        try:
            found = self._client.replication_sessions.search(
                local_volume_group=group.ref)
        except rest.NotFound:
            # An array without replication.
            return None
        return found[0].ref if found else None

    def snapshot(self, reference: Reference, group: int) -> FoundSnapshot:
        """The snapshot that an operator refers to. Three calls.

        :param group: id of the volume group in which a short name counts
        :raises NotManageable: there is none, or the array does not show its
            volume group
        """
        ref = self._client.volume_groups.ref(group)
        found = self._snapshot_numbered(reference.id, ref) if (
            reference.id is not None) else self._snapshot_named(
                reference.name or '', ref)
        if found is None:
            raise exceptions.NotManageable(
                'the array has no such snapshot; give its id, its full name '
                '<volume group>:<snapshot>, or its short name if it is of '
                'the volume\'s own group')
        if found.volume_group is None:
            raise exceptions.NotManageable(
                'the array does not show the volume group of snapshot '
                f'{found.short_name}')
        return FoundSnapshot(
            found, tuple(self._client.volsnaps.search(snapshot=found.ref)),
            found.id in deferred_deletion.ids_of(
                self._client.volume_groups.get(found.volume_group.id)
            ).snapshots)

    def _snapshot_numbered(self, number: int, group: rest.Ref
                           ) -> rest.Snapshot | None:
        """Find it by id, also in another group if the array reads by id."""
        return (_live(self._client.snapshots, number, volume_group=group)
                or _live(self._client.snapshots, number))

    def _snapshot_named(self, name: str, group: rest.Ref
                        ) -> rest.Snapshot | None:
        """Find it by name; full names have a colon (SNP-1), short ones may."""
        short = name.rpartition(':')[2]
        full = next((s for s in self._client.snapshots.search(
            short_name=short) if s.name == name), None) if (
                short and short != name) else None
        return full or self._client.snapshots.find(short_name=name,
                                                   volume_group=group)

    def _why_no_volume(self, reference: Reference) -> str:
        if reference.name and any(
                s.is_exposable for s in self._client.snapshots.search(
                    short_name=reference.name)):
            return (f'{reference.name} is a view of a snapshot, not a '
                    'volume: copy its data into a volume')
        return 'the array has no such volume'


def _live(collection: rest.Collection[R], key: int,
          **hints: rest.Ref) -> R | None:
    """The object with that id, unless it is deleted or being deleted."""
    try:
        found = collection.get(key, **hints)
    except (rest.NotFound, rest.NotOffered):
        return None
    return None if records.is_going(found) else found
