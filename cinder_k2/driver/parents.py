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

"""What clones were made from, on an array where their rows do not say so.

A row has the ids of one array. When its volume comes to the other one, by a
failover or failback, that may be the array where it was made as a clone.
"""

from collections.abc import Collection
import dataclasses
import typing

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import SnapshotBacking
from cinder_k2 import naming


@dataclasses.dataclass(frozen=True)
class Parent:
    """The snapshot that a clone may have been made from.

    :ivar hidden: it was made for this clone alone
    """

    snapshot: SnapshotBacking
    hidden: bool

    def of(self, backing: Backing) -> Backing:
        """What backs a clone, with its parent."""
        return dataclasses.replace(
            backing, parent=self.snapshot.snapshot,
            parent_group=self.snapshot.group, hidden_parent=self.hidden)


def find(array: Array, volumes: Collection[typing.Any]) -> dict[str, Parent]:
    """The parents that an array has, by id of the volume. Few calls.

    A full copy may get the snapshot with its data, which does no harm.
    """
    found = array.snapshots.find_many([
        name for volume in volumes for name in _names(volume)])
    # The hidden one is the last, and the clone's own.
    return {volume.id: Parent(found[name], naming.is_hidden_snapshot(name))
            for volume in volumes for name in _names(volume)
            if name in found}


def _names(volume: typing.Any) -> list[str]:
    shown = ([naming.snapshot(volume.snapshot_id)] if volume.snapshot_id
             else [])
    return [*shown, naming.clone_source(volume.name_id)]
