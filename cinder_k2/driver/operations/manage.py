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

"""Bringing existing objects of the array under Cinder's management."""

from collections.abc import Iterable
import typing

from cinder import context
from cinder.volume import volume_types
from cinder.volume import volume_utils
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import cache
from cinder_k2.array import inventory
from cinder_k2.driver.db import ownership
from cinder_k2.driver.db import writes
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver.operations import manageable
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import manage
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types as extra_specs

_KIB_PER_GIB = units.Mi

Reference = dict[str, typing.Any]
Entries = list[dict[str, typing.Any]]


class Manage:
    """Manages existing objects, and lists manageable ones.

    References are ``{'source-name': <name>}`` or ``{'source-id': <the
    array's id>}``.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 sessions: replication.Replication) -> None:
        self._array = array
        self._resolver = known
        self._replication = sessions
        # Cinder asks for the size, and then at once for the rest: caching the
        # result saves searching again.
        self._found = cache.Cache()

    # Volumes

    def manage_existing_get_size(self, volume: typing.Any,
                                 existing_ref: Reference) -> int:
        """Size in GiB, rounded up, of a volume to be managed. One call.

        :raises ManageExistingInvalidReference: there is no such volume
        """
        with errors.managing(f'Volume {volume.id}', existing_ref):
            found = self._array.inventory.volume(
                manageable.reference(existing_ref))
            self._found.put(volume.id, found)
            return inventory.gib(found.size)

    def manage_existing(self, volume: typing.Any, existing_ref: Reference
                        ) -> resolver.ModelUpdate:
        """Manage an existing volume. Four calls after the one for its size.

        The volume and its group are renamed, and the volume is grown to whole
        GiB, and replicated if its type says so.

        :raises ManageExistingAlreadyManaged: Cinder has it
        :raises ManageExistingVolumeTypeMismatch: its type asks for other
            deduplication
        :raises ManageExistingInvalidReference: it cannot be managed; the text
            has every reason
        """
        with errors.managing(f'Volume {volume.id}', existing_ref):
            found = self._found.peek(volume.id) or (
                self._array.inventory.volume(
                    manageable.reference(existing_ref)))
            self._found.drop(volume.id)
            return self._manage(volume, found)

    def _manage(self, volume: typing.Any, found: rest.Volume
                ) -> resolver.ModelUpdate:
        spec = extra_specs.of(volume)
        link = self._replication.link(spec) if spec.replicated else None
        group = typing.cast(rest.Ref, found.volume_group)
        with locks.group_on(self._array, group.id):
            candidate = self._array.inventory.examine_volume(found)
            self._check_volume(volume, candidate)
            # It was found when Cinder asked for the size, and its id may be
            # another volume's by now.
            self._array.inventory.check_named(found)
            taken = manage.take(
                self._array, candidate, name=naming.volume(volume.name_id),
                group_name=naming.volume_group(volume.name_id),
                size=inventory.gib(found.size) * _KIB_PER_GIB)
        if link is None:
            return {**self._resolver.ids(taken, volume.name_id),
                    **replication.DISABLED}
        with self._array.deadline(fresh=True):
            started = self._replication.start(volume, taken, link)
        return {**self._resolver.ids(started, volume.name_id),
                **replication.ENABLED}

    def _check_volume(self, volume: typing.Any,
                      candidate: inventory.FoundVolume) -> None:
        """Check that Cinder may manage a volume.

        :raises NotManageable: it may not
        """
        found, group = candidate.volume, candidate.group
        # If another request for the same volume came first, the group already
        # has its new name, while the volume was read before that.
        names = (found.name, group.name)
        owner = ownership.volumes(
            self._array.system.id, names=names,
            having=('volume', found.id)).of(found.ref, *names)
        if owner is not None:
            raise exceptions.AlreadyManaged(owner)
        manageable.check(candidate.reasons())
        self._check_type(volume, group)

    def _check_type(self, volume: typing.Any, group: rest.VolumeGroup
                    ) -> None:
        """Check that a volume matches its type.

        :raises VolumeTypeMismatch: it does not
        """
        if volume_types.is_encrypted(context.get_admin_context(),
                                     volume.volume_type_id):
            # Cinder does not check this, and os-brick would format the volume.
            raise exceptions.VolumeTypeMismatch('the type asks for encryption')
        dedup = extra_specs.of(volume).dedup
        words = extra_specs.DEDUP_WORDS
        if group.is_dedup is not None and group.is_dedup != dedup:
            raise exceptions.VolumeTypeMismatch(
                f'volume group {group.name} has {extra_specs.DEDUP.key} '
                f'{words[group.is_dedup]}, the type asks for '
                f'{words[dedup]}')

    def get_manageable_volumes(
            self, cinder_volumes: Iterable[typing.Any], marker: typing.Any,
            limit: int | None, offset: int | None, sort_keys: list[str],
            sort_dirs: list[str]) -> Entries:
        """Volumes of the array, and reasons against managing each.

        Three calls, and more for more than 1000 objects.
        """
        found = self._array.inventory.volumes()
        owners = ownership.volumes(self._array.system.id, cinder_volumes,
                                   names=[f.volume.name for f in found])
        return _page([manageable.volume_entry(f, owners) for f in found],
                     marker, limit, offset, sort_keys, sort_dirs)

    # Snapshots

    def manage_existing_snapshot_get_size(
            self, snapshot: typing.Any, existing_ref: Reference) -> int:
        """Size in GiB, rounded up, of a snapshot to be managed. Four calls.

        It is the size that the volume had when the snapshot was taken.

        :raises ManageExistingInvalidReference: it cannot be managed
        """
        with errors.managing(f'Snapshot {snapshot.id}', existing_ref):
            found = self._find_snapshot(snapshot, existing_ref)
            self._found.put(snapshot.id, found)
            return inventory.gib(found.size) or int(snapshot.volume.size)

    def manage_existing_snapshot(self, snapshot: typing.Any,
                                 existing_ref: Reference
                                 ) -> resolver.ModelUpdate:
        """Manage an existing snapshot. No call after those for its size.

        It keeps its name, since snapshots cannot be renamed (SNP-10).

        :raises ManageExistingAlreadyManaged: Cinder has it
        :raises ManageExistingInvalidReference: it cannot be managed; the text
            has every reason
        """
        with errors.managing(f'Snapshot {snapshot.id}', existing_ref):
            found = self._found.peek(snapshot.id) or self._find_snapshot(
                snapshot, existing_ref)
            self._found.drop(snapshot.id)
            backing = self._check_snapshot(snapshot, found)
            with locks.group_on(self._array, backing.group):
                self._check_unowned(found.snapshot)
                update = self._resolver.ids(backing)
                # Saved now, before another request for the same snapshot.
                writes.set_if_unmoved(snapshot, update)
            return update

    def _find_snapshot(self, snapshot: typing.Any, existing_ref: Reference
                       ) -> inventory.FoundSnapshot:
        stored = self._resolver.resolve(snapshot.volume)
        # The group that is stored may be another's by now (OBJ-7).
        volume, found = self._array.concurrently(
            lambda: self._resolver.confirm(snapshot.volume, stored),
            lambda: self._array.inventory.snapshot(
                manageable.reference(existing_ref), stored.group))
        if volume != stored:
            raise exceptions.NotManageable(
                f'volume {snapshot.volume_id} has other ids on the array '
                'than its row says: unmanage it, and manage it again')
        self._check_unowned(found.snapshot)
        self._check_snapshot(snapshot, found)
        return found

    def _check_snapshot(self, snapshot: typing.Any,
                        found: inventory.FoundSnapshot) -> ArraySnapshot:
        """Check that Cinder may manage a snapshot.

        :raises NotManageable: it may not
        """
        volume = self._resolver.resolve(snapshot.volume)
        other = [] if found.snapshot.source == volume.snapshot_source else [
            f'it is no snapshot of volume {snapshot.volume_id}']
        manageable.check([*other, *found.reasons()])
        # There may be foreign views and clones of it.
        return ArraySnapshot(
            snapshot=found.snapshot.id, group=volume.group,
            volume=volume.volume or volume.origin, view=volume.view,
            has_clones=True,
            named=naming.digest(found.snapshot.short_name or ''))

    def _check_unowned(self, found: rest.Snapshot) -> None:
        owner = ownership.snapshots(
            self._array.system.id, names=[found.short_name],
            having=('snapshot', found.id)).of(found.ref, found.short_name)
        if owner is not None:
            raise exceptions.AlreadyManaged(owner)

    def get_manageable_snapshots(
            self, cinder_snapshots: Iterable[typing.Any], marker: typing.Any,
            limit: int | None, offset: int | None, sort_keys: list[str],
            sort_dirs: list[str]) -> Entries:
        """Snapshots of the array, and reasons against managing each.

        Three calls, and more for more than 1000 objects.
        """
        system = self._array.system.id
        found = self._array.inventory.snapshots()
        sources = ownership.volumes(system, names=[
            i.short_name for f in found for i in f.images])
        owners = ownership.snapshots(system, cinder_snapshots, names=[
            f.snapshot.short_name for f in found
            if manageable.is_of_ours(f, sources)])
        return _page(
            [manageable.snapshot_entry(f, owners, sources) for f in found],
            marker, limit, offset, sort_keys, sort_dirs)


def _page(entries: Entries, marker: typing.Any, limit: int | None,
          offset: int | None, sort_keys: list[str] | None,
          sort_dirs: list[str] | None) -> Entries:
    page: Entries = volume_utils.paginate_entries_list(
        entries, marker, len(entries) if limit is None else limit, offset,
        sort_keys or [], sort_dirs or [])
    return page
