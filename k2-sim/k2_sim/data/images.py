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

"""The volumes and images that have data, by volume group."""

from k2_sim.blocks import reduction
from k2_sim.data.data_store import VOLSNAPS
from k2_sim.data.data_store import VOLUMES
from k2_sim.rules import replicas
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

GROUPS = catalogue.VOLUME_GROUPS.name
SNAPSHOTS = catalogue.SNAPSHOTS.name
Key = tuple[str, int]


class Images:
    """The images of one array; callers must hold its lock."""

    def __init__(self, store: store_module.Store) -> None:
        self._store = store
        # Groups by the id of the volume group; that id by image.
        self._groups: dict[int, reduction.Group] = {}
        self._homes: dict[Key, int] = {}
        self._listed: list[reduction.Group] = []
        # Changed groups, and changed images of any group.
        self._outdated = {row['id'] for row in store.rows(GROUPS)}
        self._moved: set[Key] = set()
        store.listeners.append(self._changed)

    def _changed(self, resource: schema.Resource, old: Row | None,
                 new: Row | None) -> None:
        row = new or old or {}
        if _concerns(old) == _concerns(new):
            return
        if resource.name == GROUPS:
            self._outdated.add(row['id'])
        elif resource.name in (VOLUMES, VOLSNAPS):
            self._moved.add((resource.name, row['id']))

    def groups(self) -> list[reduction.Group]:
        """All groups that have data.

        Unchanged ones are the same objects as before.
        """
        for key in self._moved:
            self._outdated.update(
                number for number in (self._homes.get(key), self._home(key))
                if number is not None)
        self._moved.clear()
        if self._outdated:
            for number in self._outdated:
                self._look_up(number)
            self._outdated.clear()
            self._listed = [self._groups[number]
                            for number in sorted(self._groups)]
        return self._listed

    def _home(self, key: Key) -> int | None:
        """The id of the volume group of a volume or image, if it exists."""
        row = self._store.get(*key)
        if row is not None and key[0] == VOLSNAPS:
            row = self._store.at(row['snapshot'])
        if row is None or row['volume_group'] is None:
            return None
        return schema.split_ref(row['volume_group'])[1]

    def _look_up(self, number: int) -> None:
        """Update a group from its rows."""
        before = self._groups.pop(number, None)
        for image in before.images if before else ():
            if self._homes.get(image.key) == number:
                del self._homes[image.key]
        row = self._store.get(GROUPS, number)
        group = None if row is None else self._group(row)
        if group is not None and group.images:
            self._groups[number] = group
            self._homes.update((image.key, number) for image in group.images)

    def _group(self, row: Row) -> reduction.Group:
        ref = schema.make_ref(GROUPS, row['id'])
        volumes = self._store.find(VOLUMES, 'volume_group', ref)
        snapshots = self._store.find(SNAPSHOTS, 'volume_group', ref)
        images = [image for snapshot in snapshots
                  for image in self._store.find(
                      VOLSNAPS, 'snapshot',
                      schema.make_ref(SNAPSHOTS, snapshot['id']))]
        return reduction.Group(row['is_dedup'], tuple(
            reduction.Image((name, row['id']), replicas.content(row),
                            self._lineage(row), name == VOLUMES)
            for name, rows in ((VOLUMES, volumes), (VOLSNAPS, images))
            for row in rows if replicas.content(row)))

    def _lineage(self, row: Row) -> int:
        """The volume that a volume, or the volume of an image, comes from."""
        parent = row.get('source') or row.get('clone_volume')
        while parent is not None:
            row = self._store.at(parent)
            parent = row.get('clone_volume')
        return int(row['id'])


def _concerns(row: Row | None) -> tuple[object, ...]:
    """The fields of a row that the figures depend on."""
    return () if row is None else tuple(map(row.get, (
        'content', 'volume_group', 'is_dedup')))
