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

from cinder_k2.array import backing as backings
from cinder_k2.array import cache
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import rest


class Snapshots:
    """Snapshots of groups and views, and what is made from them."""

    def __init__(self, client: rest.Client, retention_policy: str) -> None:
        self._client = client
        self._policy_name = retention_policy
        self._cache = cache.Cache()

    def check(self) -> None:
        """Look the retention policy up. One call.

        :raises ArrayUnsuitable: the array has no policy of that name
        """
        self._policy()

    def create(self, name: str,
               source: backings.Backing) -> backings.SnapshotBacking:
        """Take a snapshot of what backs a volume. One call.

        The array is told not to delete it by itself (SNP-4).
        """
        snapshot = self._create(name, source.snapshot_source, view=False)
        return backings.SnapshotBacking(snapshot=snapshot.id,
                                        group=source.group)

    def create_view(self, name: str, snapshot: backings.SnapshotBacking,
                    volume: int | None) -> backings.Backing:
        """Make a writable view of a snapshot to back a volume (SNP-5).

        :param volume: id of the volume the snapshot is of, if not a view
        """
        view = self._create(name, snapshot.ref, view=True)
        try:
            return volumes.view_backing(self._client, view, volume=volume)
        except Exception:
            self.delete(view.id)
            raise

    def create_thin_clone(self, name: str,
                          snapshot: backings.SnapshotBacking,
                          volume: int) -> rest.Volume:
        """Make a thin clone of a volume in a snapshot (CLN-1, CLN-2).

        :param volume: id of the volume the snapshot was taken of
        :raises Refused: among others, the array knows no thin clones
            (CLN-5)
        """
        return self._client.volumes.create(
            name=name, is_thin_clone=True,
            volume_group=self._client.volume_groups.ref(snapshot.group),
            source_snapshot=snapshot.ref,
            source_volume=self._client.volumes.ref(volume))

    def find(self, name: str) -> backings.SnapshotBacking | None:
        """The snapshot of that short name.

        :returns: None if the array has none
        """
        snapshot = self._client.snapshots.find(short_name=name,
                                               is_exposable=False)
        if snapshot is None or snapshot.volume_group is None:
            return None
        return backings.SnapshotBacking(snapshot=snapshot.id,
                                        group=snapshot.volume_group.id)

    def delete(self, snapshot: int) -> bool:
        """Delete a snapshot or a view; False if it was gone.

        :raises ObjectInUse: views or thin clones of it live, or it is a
            view that is mapped (SNP-9, CLN-4); the text names them
        """
        try:
            return self._client.snapshots.delete(snapshot)
        except rest.Refused as refusal:
            self._explain(snapshot, refusal)
            raise

    def is_imaged(self, volume: int) -> bool:
        """Whether some live snapshot or view holds the volume (VOL-7)."""
        return bool(self._client.volsnaps.search(
            source=self._client.volumes.ref(volume)))

    def _create(self, name: str, source: rest.Ref,
                view: bool) -> rest.Snapshot:
        return self._client.snapshots.create(
            short_name=name, source=source, is_exposable=view,
            is_auto_deleteable=False,
            retention_policy=self._client.retention_policies.ref(
                self._policy()))

    def _policy(self) -> int:
        return self._cache.get('policy', self._find_policy)

    def _find_policy(self) -> int:
        policy = self._client.retention_policies.find(name=self._policy_name)
        if policy is None:
            raise exceptions.ArrayUnsuitable(
                f'The array at {self._client.address} has no retention '
                f'policy "{self._policy_name}"; correct k2_retention_policy '
                'or make the policy on the array.')
        return policy.id

    def _explain(self, snapshot: int, refusal: rest.Refused) -> None:
        ref = self._client.snapshots.ref(snapshot)
        children = self._client.snapshots.search(source=ref)
        if children:
            names = ', '.join(sorted(c.name or '' for c in children))
            raise exceptions.ObjectInUse(
                f'Snapshot {snapshot}', f'is needed by: {names}.')
        if self._client.mappings.search(volume=ref):
            raise exceptions.ObjectInUse(f'View {snapshot}', 'is mapped.')
        if self._clones_of(snapshot):
            raise exceptions.ObjectInUse(f'Snapshot {snapshot}',
                                         'is needed by thin clones.')

    def _clones_of(self, snapshot: int) -> int:
        return self._client.snapshots.get(snapshot).num_of_clones or 0
