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

"""Snapshots, views and thin clones."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
import contextlib

from cinder_k2.array import cache
from cinder_k2.array import images
from cinder_k2.array import objects
from cinder_k2.array import policies
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest


_SNAPSHOT = 'snapshot'
_LASTING_VIEW = 'lasting view'
_TEMPORARY_VIEW = 'temporary view'


class Snapshots:
    """Snapshots of groups and views, and their views and thin clones."""

    def __init__(self, client: rest.Client, retention_policy: str) -> None:
        self._client = client
        self._policy_name = retention_policy
        self._cache = cache.Cache()

    def check(self) -> None:
        """Look up the retention policy. One call.

        :raises ArrayNotSupported: the array has no policy of that name
        """
        self._policy()

    def create(self, name: str,
               source: objects.ArrayVolume) -> objects.ArraySnapshot:
        """Take a snapshot of an array volume or view. One call.

        It is protected from deletion by the array (SNP-4).
        """
        snapshot = self._create(name, source.snapshot_source, _SNAPSHOT)
        return objects.ArraySnapshot(
            snapshot=snapshot.id, group=source.group, view=source.view,
            volume=source.volume or source.origin, shared=source.shared)

    def create_view(self, name: str, snapshot: objects.ArraySnapshot,
                    *, lasting: bool) -> objects.ArrayVolume:
        """Make a writable view of a snapshot (SNP-5).

        :param lasting: it will back a volume, so the array must not delete it
            by itself (SNP-4); otherwise it is a temporary view
        :raises Refused: the array does not create the view, or does not accept
            ``is_auto_deleteable``
        :raises StrategyUnknown: the array ignores that field, so it may delete
            a lasting view by itself; the view is deleted
        :raises ObjectMissing: the view has no volsnap of the volume; the view
            is deleted
        """
        view = self._create(name, snapshot.ref, (
            _LASTING_VIEW if lasting else _TEMPORARY_VIEW))
        try:
            if lasting and view.is_auto_deleteable is not False:
                raise exceptions.StrategyUnknown(
                    'the array may delete views on its own')
            return volumes.view_backing(
                self._client, view, volume=snapshot.volume,
                group=snapshot.group, parent=snapshot.snapshot)
        except Exception:
            self.delete(view.id, snapshot.group, [name])
            raise

    def create_thin_clone(self, name: str,
                          snapshot: objects.ArraySnapshot,
                          volume: int) -> rest.Volume:
        """Create a thin clone of a volume in a snapshot (CLN-1, CLN-2).

        :param volume: id of that volume
        :raises Refused: among others, the array does not support thin clones
            (CLN-5)
        """
        return self._client.volumes.create(
            name=name, is_thin_clone=True,
            volume_group=self._client.volume_groups.ref(snapshot.group),
            source_snapshot=snapshot.ref,
            source_volume=self._client.volumes.ref(volume))

    def find(self, name: str) -> objects.ArraySnapshot | None:
        """The snapshot of that short name.

        :returns: None if the array has none
        """
        found = self._client.snapshots.find(short_name=name)
        return None if found is None else _snapshot_backing(found)

    def find_many(self, names: Collection[str]
                  ) -> dict[str, objects.ArraySnapshot]:
        """The snapshots that exist, by short name. Few calls."""
        return {snapshot.short_name: _snapshot_backing(snapshot)
                for snapshot in self._client.snapshots.search(
                    rest.query.one_of('short_name', names))
                if snapshot.short_name}

    def view_of(self, snapshot: objects.ArraySnapshot, name: str
                ) -> objects.ArrayVolume | None:
        """The view of a snapshot with this short name."""
        view = self._client.snapshots.find(short_name=name,
                                           source=snapshot.ref)
        return None if view is None else volumes.view_backing(
            self._client, view, volume=snapshot.volume,
            parent=snapshot.snapshot)

    def of_group(self, group: int) -> list[rest.Snapshot]:
        """All snapshots and views of a group. One call."""
        return self._client.snapshots.search(
            volume_group=self._client.volume_groups.ref(group))

    def find_id(self, name: str) -> int | None:
        """The id of the snapshot or view of that short name. One call."""
        found = self._client.snapshots.find(short_name=name)
        return None if found is None else found.id

    def find_view(self, name: str) -> tuple[int, int] | None:
        """The view of that short name: its id, and its group's."""
        view = self._client.snapshots.find(short_name=name)
        return None if view is None else (view.id, _group_of(view))

    def delete(self, snapshot: int, group: int, names: Sequence[str] = ()
               ) -> bool:
        """Delete a snapshot or a view of a group; False if it was gone.

        :param names: short names that it may have, if known
        :raises StillMapped: it is a view, and mapped (SNP-9)
        :raises ObjectInUse: there are views, snapshots or thin clones of it
            (SNP-9, CLN-4); the text names them
        """
        try:
            return self._delete(snapshot, group, names)
        except rest.Refused:
            with contextlib.suppress(rest.Incomplete):
                self.check_unused(snapshot, group)
            raise

    def delete_parent(self, snapshot: int, group: int,
                      names: Sequence[str] = ()) -> bool:
        """Delete the hidden snapshot of a clone that was just deleted.

        The array may still be deleting the clone (VOL-17), so a refused
        deletion is retried for ten seconds.

        :param names: as for ``delete``
        """
        return volumes.patiently(
            self._client, lambda: self._delete(snapshot, group, names))

    def is_hidden(self, snapshot: int, group: int) -> bool:
        """Whether an id is that of a hidden snapshot. One call.

        The id may be another object's by now (OBJ-7).
        """
        return self.is_hidden_among(snapshot, self.of_group(group))

    @staticmethod
    def is_hidden_among(snapshot: int, siblings: Iterable[rest.Snapshot]
                        ) -> bool:
        """As ``is_hidden``, among all snapshots of its group. No call."""
        return any(s.id == snapshot and naming.is_hidden_snapshot(
            s.short_name) for s in siblings)

    def check_unused(self, snapshot: int, group: int) -> None:
        """Check that nothing on the array needs a snapshot or view of a group.

        :raises StillMapped: it is a view, and mapped
        :raises ObjectInUse: there are views, snapshots or thin clones of it
        """
        ref = self._client.snapshots.ref(snapshot)
        volumes.check_unmapped(self._client, ref)
        siblings = self._client.snapshots.search(
            volume_group=self._client.volume_groups.ref(group))
        children = [s for s in siblings if s.source == ref]
        if children:
            names = ', '.join(sorted(c.name or '' for c in children))
            raise exceptions.ObjectInUse(
                f'Snapshot {snapshot}', f'is needed by: {names}.')
        if any(s.id == snapshot and s.num_of_clones for s in siblings):
            raise exceptions.ObjectInUse(f'Snapshot {snapshot}',
                                         'is needed by thin clones.')

    def size(self, snapshot: objects.ArraySnapshot) -> int | None:
        """Size in KiB of all volumes in a snapshot, as it was taken."""
        return self._client.snapshots.get(
            snapshot.snapshot, volume_group=self._client.volume_groups.ref(
                snapshot.group)).volsnaps_provisioned_capacity

    def is_imaged(self, volume: int, group: int) -> bool:
        """Whether a snapshot or view of a group holds a volume (VOL-7)."""
        return bool(images.holders(self._client, volume, group))

    def _delete(self, snapshot: int, group: int, names: Sequence[str]
                ) -> bool:
        return self._client.snapshots.delete(
            snapshot, names=names,
            volume_group=self._client.volume_groups.ref(group))

    def _create(self, name: str, source: rest.Ref, kind: str
                ) -> rest.Snapshot:
        policy = self._policy()
        try:
            return self._post(name, source, kind, policy)
        except rest.Refused:
            # The policy may have been deleted and created again.
            self._cache.drop('policy')
            if self._policy() == policy:
                raise
            return self._post(name, source, kind, self._policy())

    def _post(self, name: str, source: rest.Ref, kind: str, policy: int
              ) -> rest.Snapshot:
        ref = self._client.retention_policies.ref(policy)
        if kind == _TEMPORARY_VIEW:
            return self._client.snapshots.create(
                short_name=name, source=source, retention_policy=ref,
                is_exposable=True, optional={'is_auto_deleteable': False})
        return self._client.snapshots.create(
            short_name=name, source=source, retention_policy=ref,
            is_exposable=True if kind == _LASTING_VIEW else None,
            is_auto_deleteable=False)

    def _policy(self) -> int:
        return self._cache.get('policy', lambda: policies.find(
            self._client, self._policy_name, 'k2_retention_policy'))


def _snapshot_backing(snapshot: rest.Snapshot) -> objects.ArraySnapshot:
    """Describe a snapshot that was found by its name.

    It is not known whether volumes were made from it.
    """
    source = snapshot.source
    return objects.ArraySnapshot(
        snapshot=snapshot.id, group=_group_of(snapshot),
        view=(source.id if source and source.resource == 'snapshots'
              else None), has_clones=True)


def _group_of(snapshot: rest.Snapshot) -> int:
    """The volume group of a snapshot or view.

    :raises ObjectMissing: the array does not show it
    """
    if snapshot.volume_group is None:
        raise exceptions.ObjectMissing(
            f'The array does not show the volume group of snapshot '
            f'{snapshot.short_name}.')
    return snapshot.volume_group.id
