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

"""Deleting volumes and snapshots."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import contextlib
import dataclasses
import typing

from cinder import exception
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import deferred_deletion
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import purge
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import unmanaging
from cinder_k2 import exceptions
from cinder_k2.flows import deletion
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class Deletion:
    """Deletes volumes and snapshots at any time, even with clones.

    What the array must keep for clones is hidden there, and purged when the
    last of them is deleted (``cinder_k2.array.deferred_deletion``).
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 detaching: detach.Detach,
                 sessions: replication.Replication,
                 others: unmanaging.Unmanaging) -> None:
        self._array = array
        self._resolver = known
        self._detach = detaching
        self._replication = sessions
        self._unmanaging = others

    def delete_volume(self, volume: typing.Any, *, seen: bool = False
                      ) -> None:
        """Delete a volume; a missing one is no error.

        Three calls.

        :param seen: the caller has just verified it by name; one call less
            then
        :raises VolumeIsBusy: foreign snapshots need it, it is mapped to hosts
            that the driver did not create, or it is being flattened
        :raises VolumeBackendAPIException: the same, for a volume whose
            creation was not completed
        """
        if volume.status == unmanaging.FAILED:
            # The array's volume is not Cinder's, though it may have been given
            # Cinder's name already.
            self._unmanaging.end(volume)
            return
        try:
            # Refused for a view that is being flattened.
            with self._resolver.held(volume):
                self._delete_held(volume, seen)
        except exceptions.ObjectInUse as error:
            LOG.error('Cannot delete volume %(id)s: %(why)s',
                      {'id': volume.id, 'why': error})
            if volume.launched_at is None:
                # If reported as busy, an incomplete volume would become
                # available.
                raise exception.VolumeBackendAPIException(
                    data=str(error)) from error
            raise errors.busy_volume(error, volume.name) from error

    def delete_snapshot(self, snapshot: typing.Any) -> None:
        """Delete a snapshot; a missing one is no error. Two calls.

        :raises SnapshotIsBusy: foreign views need it
        """
        try:
            self._delete_snapshot(snapshot)
        except exceptions.ObjectInUse as error:
            LOG.error('Cannot delete snapshot %(id)s: %(why)s',
                      {'id': snapshot.id, 'why': error})
            raise errors.busy_snapshot(error, snapshot.name) from error

    def _delete_held(self, volume: typing.Any, seen: bool) -> None:
        known = self._resolver.known(volume)
        if known is not None:
            self._delete_known(volume, known, seen)
        else:
            self._delete_by_name(volume)

    def _delete_known(self, volume: typing.Any, known: ArrayVolume, seen: bool
                      ) -> None:
        as_noted, known = self._look_before_deletion(volume, known, seen)
        if not as_noted:
            self._delete_by_name(volume)
            if known.parent is not None:
                # An interrupted deletion may have left the parent.
                self._leave_parent(
                    known, self._resolver.names_of(volume, known))
            return
        if known.replicated:
            known = self._end_replication(volume, known, volume.name_id)
        # If the other array does not reply, ending the replication uses up the
        # deadline.
        with self._array.deadline(fresh=True):
            self._delete_single(volume, known)

    def _moves_as_noted(self, volume: typing.Any, known: ArrayVolume) -> bool:
        """Whether a volume is gone, or is the one that was being moved."""
        try:
            return self._is_as_noted(volume, self._resolver.settled(known))
        except rest.NotFound:
            return True

    def _look_before_deletion(self, volume: typing.Any, known: ArrayVolume,
                              seen: bool) -> tuple[bool, ArrayVolume]:
        """Verify by name the objects to be deleted.

        :returns: whether the row is right about the volume; and its array
            volume, without its hidden parent if that is gone
        """
        def look() -> bool:
            if known.regrouping:
                return self._moves_as_noted(volume, known)
            return seen or self._is_as_noted(volume, known)

        parent = known.parent
        if parent is None or not known.hidden_parent:
            return look(), known
        if known.view is not None and not known.regrouping:
            # A view is in the group of its parent, so one call shows both.
            siblings = self._array.snapshots.of_group(known.source_group)
            as_noted = seen or self._array.identity.is_view_among(
                known, self._resolver.names_of(volume, known),
                siblings) or look()
            is_hidden = self._array.snapshots.is_hidden_among(parent, siblings)
        else:
            as_noted, is_hidden = self._array.concurrently(
                look,
                lambda: self._array.snapshots.is_hidden(parent,
                                                        known.source_group))
        return as_noted, known if is_hidden else dataclasses.replace(
            known, hidden_parent=False)

    def _is_as_noted(self, volume: typing.Any, known: ArrayVolume) -> bool:
        """Whether the array's object is the one whose ids the row has.

        It may be hidden already, by a deletion that was interrupted.

        :raises ObjectRenamed: it was renamed on the array
        """
        names = self._resolver.names_of(volume, known)
        if known.volume is not None:
            names.append(naming.kept_volume(known.volume))
        found = self._array.identity.volume(known, names)
        if found is None:
            self._resolver.check_not_renamed(volume, known)
        return found == known

    def _delete_single(self, volume: typing.Any, known: ArrayVolume) -> None:
        """Delete a volume that is no longer replicated."""
        if known.regrouping:
            known = self._delete_moving(volume, known)
        else:
            self.delete_backing(known, self._resolver.names_of(volume, known))
        if known.shared and volume.group_id is None:
            # The service was killed while Cinder put it into a group, which
            # may have been deleted since.
            with contextlib.suppress(rest.NotFound):
                shared = self._array.volumes.group(known.group)
                if naming.is_own_group(shared.name):
                    self.drop_if_empty(known.group, shared.name)
        if known.flattening:
            self.drop_unfinished(volume.name_id)
            self._delete_former_view(volume.name_id)

    def _end_replication(self, volume: typing.Any, known: ArrayVolume,
                         name_id: str) -> ArrayVolume:
        """Delete the copy on the peer, if nothing keeps this volume.

        A volume that has to stay must not lose its protection.

        :raises StillMapped, ObjectInUse: it has to stay
        """
        self.check_deletable(known)
        self._replication.unprotect(volume, known, name_id)
        return dataclasses.replace(known, replicated=False)

    def release_copies(self, volumes: Iterable[int]) -> None:
        """Unmap copies from hosts that this driver created.

        For copies that are to be deleted, of volumes that are now on another
        array.

        :param volumes: ids of the copies on this array
        """
        for volume in volumes:
            self._detach.disconnect_ours(
                ArrayVolume(group=0, volume=volume))

    def leave_copies(self, volumes: Collection[typing.Any]) -> None:
        """Purge deleted objects that only deleted copies needed.

        For copies, deleted by now, of volumes that are on another array. One
        call, and more for clones.

        :param volumes: the rows of the volumes
        """
        for parent in clone_sources.find(self._array, volumes).values():
            self._leave_parent(parent.of(ArrayVolume(group=0, volume=0)), [])

    def check_deletable(self, known: ArrayVolume) -> None:
        """Check that nothing keeps a volume. Two calls.

        :raises StillMapped, ObjectInUse: it has to stay
        """
        with locks.group_on(self._array, known.group):
            try:
                self._array.volumes.check_unmapped(known)
            except exceptions.StillMapped:
                self._detach.disconnect_ours(known)
                self._array.volumes.check_unmapped(known)
            self._array.deferred.needs_of_volume(known)

    def _delete_moving(self, volume: typing.Any,
                       known: ArrayVolume) -> ArrayVolume:
        """Delete a volume that was being moved, wherever it is.

        Its own group is deleted, too.

        :returns: the array volume, as last seen
        """
        try:
            known = self._resolver.settled(known)
            self.delete_backing(known, self._resolver.names_of(volume, known))
        except rest.NotFound:
            pass
        self._delete_own_group_by_name(volume.name_id)
        return known

    def drop_if_empty(self, group: int, name: str) -> None:
        """Delete a shared group without volumes."""
        with locks.group_on(self._array, group):
            gone = self._array.groups.delete_if_empty(group, name)
        if gone:
            locks.forget_group(self._array.system.id, group)

    def delete_backing(self, backing: ArrayVolume,
                       names: Sequence[str]) -> bool:
        """Delete an array volume, and objects that only it needed.

        :param names: names that it may have
        :returns: whether it is gone; otherwise clones need it and it is hidden
        """
        try:
            needs = self._retire(backing, names)
        except exceptions.StillMapped:
            self._detach.disconnect_ours(backing)
            needs = self._retire(backing, names)
        if needs is None:
            self._forget_group(backing)
            self._leave_parent(backing, names)
            return True
        if backing.source_group != backing.group:
            self._hide_parent(backing)
        if not needs.will_be_purged:
            purge.run(self._array, backing.group)
        return False

    def _delete_former_view(self, name_id: str) -> None:
        """Delete the view that backed a volume before it was flattened."""
        view = self._array.volumes.find_view(naming.volume(name_id))
        parent = self._array.snapshots.find(naming.clone_source(name_id))
        if view is not None:
            self.give_up(dataclasses.replace(
                view, hidden_parent=parent is not None))
        elif parent is not None:
            purge.run(self._array, parent.group)

    def drop_unfinished(self, name_id: str) -> None:
        """Delete the volume that a view was being copied to."""
        name = naming.unfinished_volume(name_id)
        made = self._array.volumes.find(name)
        if made is not None:
            self._detach.disconnect_all(made)
            self.delete_backing(made, [name, naming.volume(name_id)])
        else:
            self._delete_own_group_by_name(name_id)

    def give_up(self, view: ArrayVolume) -> None:
        """Delete a view that backs no volume now, and what only it needed.

        There may be snapshots of it, so it is first recorded as hidden.
        """
        own = [view.view, view.parent if view.hidden_parent else None]
        with locks.group_on(self._array, view.group):
            self._array.deferred.record(
                view.group, deferred_deletion.DeferredIds(
                    snapshots=frozenset(i for i in own if i is not None)))
        purge.run(self._array, view.group)

    def _retire(self, backing: ArrayVolume, names: Sequence[str]
                ) -> deferred_deletion.Needs | None:
        """Delete or hide an array volume; None if it is gone."""
        if (not backing.has_clones
                and deletion.try_delete_volume(self._array, backing, names)):
            return None
        with locks.group_on(self._array, backing.group):
            return deletion.retire_volume(self._array, backing, names)

    def _leave_parent(self, backing: ArrayVolume, names: Sequence[str]
                      ) -> None:
        """Release the snapshot that a volume, now gone, was made from.

        :param names: names that the volume may have had
        """
        if backing.parent is None:
            return
        with locks.group_on(self._array, backing.source_group):
            deletion.delete_parent(self._array, backing, names)
        purge.run(self._array, backing.source_group)

    def _hide_parent(self, backing: ArrayVolume) -> None:
        """Hide the snapshot in another group that a hidden clone needs.

        The clone may have been purged since it was hidden.
        """
        with locks.group_on(self._array, backing.source_group):
            deletion.hide_parent(self._array, backing)
        purge.run(self._array, backing.source_group)

    def _forget_group(self, backing: ArrayVolume) -> None:
        if backing.volume is not None and not backing.shared:
            locks.forget_group(self._array.system.id, backing.group)

    def _delete_snapshot(self, snapshot: typing.Any) -> None:
        # A service that created a volume from the snapshot may have marked it
        # since the row was read. By now, Cinder's lock prevents that.
        snapshot.refresh()
        self._resolver.check_here(snapshot)
        known = self._resolver.known_snapshot(snapshot)
        if (known is not None and known.has_clones
                and self._retire_taken(known, [snapshot])):
            return
        found = (self._array.snapshots.find(naming.snapshot(snapshot.id))
                 if known is None else self._array.identity.snapshot(
                     known, self._resolver.snapshot_names(snapshot)))
        if found is not None:
            self.delete_taken(found, [snapshot])

    def delete_taken(self, found: ArraySnapshot,
                     snapshots: Collection[typing.Any]) -> None:
        """Delete or hide an array snapshot, or all those of a group."""
        if found.has_clones or not deletion.try_delete_snapshot(
                self._array, found, self._names_of_taken(snapshots)):
            self._retire_taken(found, snapshots)
        elif found.view is not None:
            # It may have been the last snapshot that needed a hidden view.
            purge.run(self._array, found.group)

    def _retire_taken(self, found: ArraySnapshot,
                      snapshots: Collection[typing.Any]) -> bool:
        """Delete or hide a snapshot that may have clones.

        :returns: whether it existed
        """
        def retire() -> bool:
            with locks.group_on(self._array, found.group):
                return deletion.retire_snapshot(
                    self._array, found, self._names_of_taken(snapshots))
        try:
            was_there = retire()
        except exceptions.StillRead:
            for snapshot in snapshots:
                self._drop_temporary_view(snapshot.id)
            was_there = retire()
        if was_there and found.view is not None:
            purge.run(self._array, found.group)
        return was_there

    def _names_of_taken(self, snapshots: Collection[typing.Any]
                        ) -> list[str]:
        return [name for snapshot in snapshots
                for name in self._resolver.snapshot_names(snapshot)]

    def _delete_by_name(self, volume: typing.Any) -> None:
        """Delete everything a volume may have left, where no ids are known.

        That is a volume of the in-tree driver, or one whose creation was
        interrupted at any point.

        :raises ArrayNotActive: another array has it
        """
        self._resolver.check_here(volume)
        name_id, found = self._found_by_name(volume)
        parent = self._array.snapshots.find(naming.clone_source(name_id))
        origin = parent or self._origin(volume)
        if found is not None:
            if volume.launched_at is None:
                # It was to be filled with data, so any mapping can be removed.
                self._detach.disconnect_all(found)
            if self._resolver.may_be_replicated(volume):
                found = self._end_replication(volume, found, name_id)
            # The group of an incomplete clone may be that of its source. A
            # volume with the name of a copy has its own group, which also has
            # the name of one.
            found = dataclasses.replace(
                found, has_clones=True,
                shared=not self._resolver.may_be_copy(volume))
            if origin is not None:
                found = dataclasses.replace(
                    found, parent=origin.snapshot, parent_group=origin.group,
                    hidden_parent=parent is not None)
            with self._array.deadline(fresh=True):
                deleted = self.delete_backing(
                    found, self._resolver.names(volume, name_id))
            if not deleted:
                return
        elif self._resolver.may_be_replicated(volume):
            self._replication.sweep(volume, name_id)
        # An array that does not reply, or the deletion, may have used up the
        # deadline.
        with self._array.deadline(fresh=True):
            self._drop_remains(name_id, parent)

    def _drop_remains(self, name_id: str, parent: ArraySnapshot | None
                      ) -> None:
        """Delete the objects with names of a volume that is gone itself."""
        self._delete_own_group_by_name(name_id)
        self._drop_temporary_view(name_id)
        if parent is not None:
            with locks.group_on(self._array, parent.group):
                self._array.snapshots.delete_parent(
                    parent.snapshot, parent.group,
                    [naming.clone_source(name_id)])
            purge.run(self._array, parent.group)

    def _origin(self, volume: typing.Any) -> ArraySnapshot | None:
        """The snapshot that a volume was to be made from.

        It may be hidden by now, and the array does not show the snapshot of a
        thin clone (CLN-4).
        """
        if not volume.snapshot_id:
            return None
        return self._array.snapshots.find(
            naming.snapshot(volume.snapshot_id))

    def _delete_own_group_by_name(self, name_id: str) -> None:
        gone = deletion.delete_own_group_by_name(
            self._array, naming.volume_group(name_id))
        if gone is not None:
            locks.forget_group(self._array.system.id, gone)

    def _found_by_name(self, volume: typing.Any
                       ) -> tuple[str, ArrayVolume | None]:
        """The id in a volume's names, and the objects with these names."""
        for name_id in self._resolver.name_ids(volume):
            found = self._array.volumes.find(
                *self._resolver.names(volume, name_id))
            if found is not None:
                return name_id, found
        return volume.name_id, None

    def _drop_temporary_view(self, owner_id: str) -> None:
        """Remove the view of an operation that was interrupted."""
        name = naming.temporary_view(owner_id)
        view = self._array.snapshots.find_view(name)
        if view is not None:
            self._detach.disconnect_all(
                ArrayVolume(group=view[1], view=view[0]))
            self._array.snapshots.delete(*view, [name])
