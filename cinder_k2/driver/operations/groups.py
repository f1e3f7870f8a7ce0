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

"""Generic volume groups with consistent snapshots.

All volumes of such a group are in one volume group of the array. For other
groups (see ``placement.is_consistent``) the driver raises NotImplementedError,
and Cinder works volume by volume.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import typing

from cinder import exception
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import deferred_deletion
from cinder_k2.driver.db import statuses
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import purge
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import deletion as deletion_flows
from cinder_k2.flows import groups
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_AVAILABLE = {'status': statuses.Group.AVAILABLE}
_ERROR = {'status': statuses.Group.ERROR}
_DELETED = {'status': statuses.Group.DELETED}
_BROKEN = (rest.RestError, exceptions.K2Error)

Updates = list[resolver.ModelUpdate]


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a volume of a new group.

    :ivar volume: Cinder's volume
    :ivar size: GiB that it had in the snapshot
    :ivar taken: the snapshot
    :ivar backing: what backs ``volume``
    """

    volume: typing.Any
    size: int
    taken: ArraySnapshot
    backing: ArrayVolume


class Groups:
    """Creates, copies, snapshots and deletes consistency groups."""

    def __init__(self, array: Array, known: resolver.Resolver,
                 sources: clone_sources.CloneSources, cloner: clones.Cloner,
                 deletions: deletion.Deletion) -> None:
        self._array = array
        self._resolver = known
        self._sources = sources
        self._cloner = cloner
        self._deletion = deletions

    # Groups

    def create_group(self, context: typing.Any, group: typing.Any
                     ) -> resolver.ModelUpdate:
        """Create the volume group. One call.

        :raises GroupNotSupported: its volume types differ in deduplication
        :raises NotImplementedError: it is not a consistency group
        """
        placement.check_consistent(group)
        self._array.groups.create(naming.consistency_group(group.id),
                                  placement.dedup_of(group))
        return dict(_AVAILABLE)

    def delete(self, group: typing.Any, volumes: Sequence[typing.Any],
               seen: Collection[str]
               ) -> tuple[resolver.ModelUpdate, Updates]:
        """Delete a group and its volumes; missing ones are no error.

        Sources of clones are hidden. One call for each volume and four for the
        group, without clones.

        :param seen: as ``seen`` returns it
        :returns: if something stays, the group is in error and each volume
            "deleted", "available" (the array must keep it) or "error_deleting"
        """
        self._mark_together(volumes)
        updates = [self._delete_member(volume, volume.id in seen)
                   for volume in volumes]
        if any(u['status'] != _DELETED['status'] for u in updates):
            return dict(_ERROR), updates
        try:
            with self._array.deadline(fresh=True):
                self._delete_volume_group(group)
        except _BROKEN as error:
            LOG.error('Volume group %(name)s of group %(id)s stays on the '
                      'array: %(error)s',
                      {'name': naming.consistency_group(group.id),
                       'id': group.id, 'error': error})
            return dict(_ERROR), updates
        return dict(_DELETED), updates

    def drop_group(self, group: typing.Any) -> None:
        """Delete the volume group of a deleted group. Two calls.

        For a group whose volumes were not here, or that had none. A volume
        group that is not empty stays.
        """
        self._delete_volume_group(group)

    def create_group_from_src(
            self, context: typing.Any, group: typing.Any,
            volumes: Sequence[typing.Any],
            group_snapshot: typing.Any = None,
            snapshots: Sequence[typing.Any] | None = None,
            source_group: typing.Any = None,
            source_vols: Sequence[typing.Any] | None = None
    ) -> tuple[resolver.ModelUpdate, Updates]:
        """Make a group with the data of a group snapshot or of a group.

        Each volume is a thin clone, or a copy. If the source is a group, one
        snapshot of it is taken, which is hidden and deleted with the last
        clone. Nothing stays if one volume fails.
        """
        if snapshots:
            return self._copy_group(group, volumes,
                                    self._taken_from(snapshots))
        with self._hidden_snapshot(group, source_vols or []) as sources:
            return self._copy_group(group, volumes, sources)

    # Snapshots of groups

    def create_group_snapshot(
            self, context: typing.Any, group_snapshot: typing.Any,
            snapshots: Sequence[typing.Any]
    ) -> tuple[resolver.ModelUpdate, Updates]:
        """Take one snapshot of all volumes at one instant. One call.

        :raises GroupNotSupported: the volumes are not in one volume group
        """
        group = self._resolver.resolve(snapshots[0].volume).group
        with locks.group_on(self._array, group):
            # An update of the group may have come first.
            for snapshot in snapshots:
                snapshot.volume.refresh()
            members = self.members([s.volume for s in snapshots])
            self.check_together([s.volume for s in snapshots], members)
            made = self._array.snapshots.create(
                naming.group_snapshot(group_snapshot.id), members[0])
        return dict(_AVAILABLE), [
            {'id': snapshot.id, 'status': statuses.Snapshot.AVAILABLE,
             **self._resolver.ids(
                 dataclasses.replace(made, volume=member.volume))}
            for snapshot, member in zip(snapshots, members, strict=True)]

    def delete_group_snapshot(
            self, context: typing.Any, group_snapshot: typing.Any,
            snapshots: Sequence[typing.Any]
    ) -> tuple[resolver.ModelUpdate, Updates]:
        """Delete a group snapshot. One call.

        It is hidden while volumes made from it exist.

        :returns: if foreign objects need it, all its snapshots are "available"
            and the group snapshot is in error
        """
        found = self._taken_together(group_snapshot, snapshots)
        try:
            if found is not None:
                self._deletion.delete_taken(found, snapshots)
        except exceptions.ObjectInUse as error:
            LOG.error('Cannot delete group snapshot %(id)s: %(why)s',
                      {'id': group_snapshot.id, 'why': error})
            return dict(_ERROR), all_alike(snapshots, _AVAILABLE)
        return dict(_DELETED), all_alike(snapshots, _DELETED)

    def _taken_together(self, group_snapshot: typing.Any,
                        snapshots: Sequence[typing.Any]
                        ) -> ArraySnapshot | None:
        """The array snapshot behind all snapshots of a group snapshot.

        :returns: None if it is gone
        """
        for snapshot in snapshots:
            # Volumes may have been made from it since the rows were read.
            snapshot.refresh()
        known = [k for k in map(self._resolver.known_snapshot, snapshots) if k]
        if not known:
            return self._array.snapshots.find(
                naming.group_snapshot(group_snapshot.id))
        return self._array.identity.snapshot(dataclasses.replace(
            known[0], has_clones=any(k.has_clones for k in known)),
            self._resolver.snapshot_names(snapshots[0]))

    # Copies of groups

    def _copy_group(self, group: typing.Any, volumes: Sequence[typing.Any],
                    sources: Sequence[Source]
                    ) -> tuple[resolver.ModelUpdate, Updates]:
        """Create a group; ``sources`` are in the order of ``volumes``."""
        made = groups.make(
            self._array, dedup=placement.dedup_of(group),
            group_name=naming.consistency_group(group.id),
            members={
                naming.volume(volume.name_id): functools.partial(
                    self._copy_member, volume, source)
                for volume, source in zip(volumes, sources, strict=True)})
        return dict(_AVAILABLE), [
            {'id': volume.id, 'status': 'available', **replication.DISABLED,
             **self._resolver.ids(backing, volume.name_id)}
            for volume, backing in zip(volumes, made, strict=True)]

    def _copy_member(self, volume: typing.Any, source: Source, group: int
                     ) -> ArrayVolume:
        order = self._sources.request(volume, source.volume, source.size,
                                      source.backing)
        return self._cloner.from_snapshot(
            dataclasses.replace(order, group=group), source.taken,
            self._sources.strategies(volume))

    def _taken_from(self, snapshots: Sequence[typing.Any]) -> list[Source]:
        """The sources of a copy, verified by the name of their one snapshot.

        One call, if all rows name the same one.
        """
        taken = [self._sources.marked(each, self._sources.taken)
                 for each in snapshots]
        seen = {each.snapshot: self._resolver.confirm_snapshot(row, each)
                for each, row in {t.snapshot: (t, row) for t, row in zip(
                    taken, snapshots, strict=True)}.values()}
        return [Source(
            row.volume, row.volume_size, dataclasses.replace(
                each, snapshot=seen[each.snapshot].snapshot,
                group=seen[each.snapshot].group),
            self._sources.marked(row.volume, self._resolver.resolve))
            for each, row in zip(taken, snapshots, strict=True)]

    @contextlib.contextmanager
    def _hidden_snapshot(self, group: typing.Any,
                         volumes: Sequence[typing.Any]
                         ) -> Iterator[list[Source]]:
        """Take a snapshot of a group for clones of its volumes. One call."""
        members = self.members(volumes)
        for volume in volumes:
            self._sources.marked(volume, self._resolver.resolve)
        with locks.group_on(self._array, members[0].group):
            self.check_together(volumes, members)
            made = self._array.snapshots.create(
                naming.clone_source(group.id), members[0])
        try:
            yield [
                Source(volume, volume.size,
                       dataclasses.replace(made, volume=member.volume),
                       member)
                for volume, member in zip(volumes, members, strict=True)]
        finally:
            self._leave_to_purge(made, naming.clone_source(group.id))

    def _leave_to_purge(self, made: ArraySnapshot, name: str) -> None:
        """Leave a hidden snapshot to be purged with the last of its clones.

        It is deleted now if there are none, or if the array stores no notes
        and nothing needs it.
        """
        ids = deferred_deletion.DeferredIds(snapshots=frozenset({
            made.snapshot}))
        try:
            with locks.group_on(self._array, made.group):
                try:
                    self._array.deferred.record(made.group, ids)
                except exceptions.ObjectInUse as refusal:
                    LOG.debug('Hidden snapshot %(id)s is deleted at once: '
                              '%(why)s', {'id': made.snapshot,
                                          'why': refusal})
                    deletion_flows.retire_snapshot(self._array, made, [name])
            purge.run(self._array, made.group)
        except _BROKEN as error:
            LOG.warning('Hidden snapshot %(id)s stays on the array until '
                        'its volumes are deleted: %(error)s',
                        {'id': made.snapshot, 'error': error})

    # Members

    def members(self, volumes: Sequence[typing.Any]) -> list[ArrayVolume]:
        """The array volumes of a group.

        :raises GroupNotSupported: they are not in one volume group
        """
        found = [self._resolver.resolve(volume) for volume in volumes]
        strays = [volume.id for volume, backing in zip(volumes, found)
                  if not backing.shared or backing.group != found[-1].group]
        if strays or not found:
            raise exceptions.GroupNotSupported(
                'the array does not have all its volumes in one volume '
                f'group: {", ".join(strays)}. Remove these from the group '
                'and add them again.')
        return found

    def seen(self, volumes: Iterable[typing.Any]) -> set[str]:
        """The volumes of a group whose rows are right, verified by name.

        One call for all that are in one volume group.

        :returns: the ids of their rows
        """
        known = [(volume, backing) for volume in volumes
                 if (backing := self._resolver.known(volume)) is not None
                 and backing.volume is not None and not backing.regrouping]
        names = {group: self._array.volumes.names_in(group)
                 for group in {backing.group for _, backing in known}}
        return {volume.id for volume, backing in known
                if names[backing.group].get(backing.volume)
                in self._resolver.names_of(volume, backing)}

    def check_together(self, volumes: Sequence[typing.Any],
                       members: Sequence[ArrayVolume]) -> None:
        """Check by name that volumes are in one volume group. One call.

        :raises GroupNotSupported: one is not
        """
        names = self._array.volumes.names_in(members[0].group)
        strays = [
            naming.volume(volume.name_id) + (f', now called {name},'
                                             if name else '')
            for volume, member in zip(volumes, members)
            if (name := names.get(member.volume))
            not in self._resolver.names_of(volume, member)]
        if strays:
            raise exceptions.GroupNotSupported(
                'the array does not have all its volumes in its volume '
                f'group: {", ".join(strays)}. Remove these from the group '
                'and add them again.')

    def _mark_together(self, volumes: Iterable[typing.Any]) -> None:
        """Mark all rows of a group if one of its volumes has clones.

        The snapshots that the clones were made from hold all volumes.
        """
        known = [(volume, backing) for volume in volumes
                 if (backing := self._resolver.known(volume)) is not None
                 and not backing.regrouping]
        if any(backing.has_clones for _, backing in known):
            for volume, _ in known:
                self._sources.marked(volume, self._resolver.resolve)

    def _delete_member(self, volume: typing.Any, seen: bool
                       ) -> resolver.ModelUpdate:
        status = _DELETED['status']
        try:
            with errors.translated():
                self._deletion.delete_volume(volume, seen=seen)
        except exception.VolumeIsBusy:
            status = 'available'
        except exception.CinderException as error:
            LOG.error('Volume %(id)s was not deleted: %(error)s',
                      {'id': volume.id, 'error': error})
            status = 'error_deleting'
        return {'id': volume.id, 'status': status}

    def _delete_volume_group(self, group: typing.Any) -> None:
        """Delete the volume group, or leave it to the last clone."""
        own = naming.consistency_group(group.id)
        # After a failover, the volume group may be a former copy.
        for name in [own, naming.peer(own)] if self._resolver.peers else [own]:
            found = self._array.groups.find(name)
            if found is not None:
                self._deletion.drop_if_empty(found.id, name)
        self._leave_sources(group)

    def _leave_sources(self, group: typing.Any) -> None:
        """Release the snapshot that a group was made from.

        Deleting its volumes has done so, unless the service was killed while
        it created the group.
        """
        if group.source_group_id is not None:
            name = naming.clone_source(group.id)
            left = self._array.snapshots.find(name)
            if left is not None:
                self._leave_to_purge(left, name)
        elif group.group_snapshot_id is not None:
            left = self._array.snapshots.find(
                naming.group_snapshot(group.group_snapshot_id))
            if left is not None:
                purge.run(self._array, left.group)


def all_alike(rows: Iterable[typing.Any], update: resolver.ModelUpdate
              ) -> Updates:
    """The same update for each row."""
    return [{'id': row.id, **update} for row in rows]
