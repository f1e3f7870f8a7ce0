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

"""What is hidden on an array, and what keeps it there."""

from collections.abc import Iterable
import dataclasses

from cinder_k2.array import hidden
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Item:
    """A hidden object.

    :ivar kind: "volume", "snapshot" or "view"
    :ivar id: the array's id of it among those of its kind; views are
        snapshots
    :ivar name: its name; without that of its group for snapshots and views
    :ivar group: name of its volume group
    :ivar size: provisioned size in KiB, None if the array does not tell
    :ivar needed_by: names of what needs it on the array; empty for what the
        next reclaim removes
    """

    kind: str
    id: int
    name: str
    group: str
    size: int | None
    needed_by: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Survey:
    """What an array hides at one time.

    :ivar items: the objects, by group
    :ivar groups: ids of the volume groups with notes of hidden objects
    """

    items: tuple[Item, ...]
    groups: tuple[int, ...]


def take(client: rest.Client, marked: Iterable[hidden.Marked]) -> Survey:
    """Describe what the groups' notes name and the array still has.

    :param marked: as ``hidden.Hidden.marked`` gives them
    """
    marked = list(marked)
    return Survey(
        items=tuple(item for found in marked
                    for item in _items(client, found)),
        groups=tuple(found.group.id for found in marked))


def _items(client: rest.Client, found: hidden.Marked) -> list[Item]:
    group, marks = found.group, found.marks
    volumes = client.volumes.search(volume_group=group.ref)
    snapshots = client.snapshots.search(volume_group=group.ref)
    return [
        *(Item('volume', v.id, v.name, group.name, v.size,
               _names(s for s in snapshots if s.source == group.ref))
          for v in volumes if v.id in marks.volumes),
        *(Item('view' if s.is_exposable else 'snapshot', s.id,
               s.short_name or '', group.name,
               s.volsnaps_provisioned_capacity,
               _names(c for c in snapshots if c.source == s.ref)
               + _thin_clones(s))
          for s in snapshots if s.id in marks.snapshots)]


def _names(snapshots: Iterable[rest.Snapshot]) -> tuple[str, ...]:
    return tuple(sorted(s.short_name or str(s.ref) for s in snapshots))


def _thin_clones(snapshot: rest.Snapshot) -> tuple[str, ...]:
    """The array counts them but does not name them (CLN-4)."""
    count = snapshot.num_of_clones or 0
    return (f'{count} thin clone{"s" * (count > 1)}',) if count else ()
