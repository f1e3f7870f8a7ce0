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

"""The deferred objects of an array, and what keeps each of them."""

from collections.abc import Iterable
import dataclasses

from cinder_k2.array import deferred_deletion
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Item:
    """An object whose deletion is deferred.

    :ivar kind: "volume", "snapshot" or "view"
    :ivar id: the array's id of the object; views are snapshots
    :ivar name: its name; without that of its group for snapshots and views
    :ivar group: name of its volume group
    :ivar size: provisioned size in KiB, None if the array does not show it
    :ivar needed_by: names of the objects on the array that need it; empty if
        the next purge removes it
    """

    kind: str
    id: int
    name: str
    group: str
    size: int | None
    needed_by: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class DeferredReport:
    """The deferred objects of an array at one time.

    :ivar items: the objects, by group
    :ivar groups: ids of the volume groups with notes of deferred objects
    """

    items: tuple[Item, ...]
    groups: tuple[int, ...]


def read(client: rest.Client,
         groups: Iterable[deferred_deletion.DeferredGroup]) -> DeferredReport:
    """Describe the existing objects that the groups' notes name.

    :param groups: as ``DeferredDeletion.groups`` returns them
    """
    groups = list(groups)
    return DeferredReport(
        items=tuple(item for found in groups
                    for item in _items(client, found)),
        groups=tuple(found.group.id for found in groups))


def _items(client: rest.Client,
           found: deferred_deletion.DeferredGroup) -> list[Item]:
    group, ids = found.group, found.ids
    volumes = client.volumes.search(volume_group=group.ref)
    snapshots = client.snapshots.search(volume_group=group.ref)
    return [
        *(Item('volume', v.id, v.name, group.name, v.size,
               _names(s for s in snapshots if s.source == group.ref))
          for v in volumes if v.id in ids.volumes),
        *(Item('view' if s.is_exposable else 'snapshot', s.id,
               s.short_name or '', group.name,
               s.volsnaps_provisioned_capacity,
               _names(c for c in snapshots if c.source == s.ref)
               + _thin_clones(s))
          for s in snapshots if s.id in ids.snapshots)]


def _names(snapshots: Iterable[rest.Snapshot]) -> tuple[str, ...]:
    return tuple(sorted(s.short_name or str(s.ref) for s in snapshots))


def _thin_clones(snapshot: rest.Snapshot) -> tuple[str, ...]:
    """A text for thin clones, which the array counts but does not name."""
    count = snapshot.num_of_clones or 0
    return (f'{count} thin clone{"s" * (count > 1)}',) if count else ()
