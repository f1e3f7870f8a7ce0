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

"""Sources of clones."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
import dataclasses
import typing

from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.flows import clones
from cinder_k2 import naming
from cinder_k2 import volume_types

_KIB_PER_GIB = units.Mi

T = typing.TypeVar('T', ArrayVolume, ArraySnapshot)


class CloneSources:
    """Sources of clones, and the requests to the array for a clone.

    :param strategies: clone strategies for types that specify none
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 sessions: replication.Replication,
                 strategies: Sequence[str]) -> None:
        self._array = array
        self._resolver = known
        self._replication = sessions
        self._strategies = strategies

    def taken(self, snapshot: typing.Any) -> ArraySnapshot:
        """The array's snapshot, with the volume that it was taken of."""
        found = self._resolver.resolve_snapshot(snapshot)
        if found.volume is None:
            source = self._resolver.resolve(snapshot.volume)
            if source.group == found.group:
                found = dataclasses.replace(
                    found, volume=source.volume or source.origin,
                    shared=found.shared or source.shared)
        return found

    def marked(self, row: typing.Any, find: Callable[[typing.Any], T]) -> T:
        """Mark the row of a source as having clones.

        The array may then hold objects of the source that Cinder does not
        show. Another operation may change the row meanwhile, so the mark
        replaces only the value that was read.

        :param find: returns the array volume or snapshot of the current row
        :returns: the same, with the mark
        :raises ConcurrentUpdate: the row keeps changing
        """
        return self._resolver.rewrite(
            row, find,
            lambda found: dataclasses.replace(found, has_clones=True))

    def request(self, volume: typing.Any, source: typing.Any,
                source_gib: int, backing: ArrayVolume) -> clones.CloneRequest:
        """The request for a clone of the array volume of ``source``.

        :param volume: the row of the clone
        :param source_gib: the size of the data to clone, in GiB
        :param backing: the array volume
        """
        return clones.CloneRequest(
            name=naming.volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            view_name=naming.temporary_view(volume.name_id),
            size=volume.size * _KIB_PER_GIB,
            dedup=volume_types.of(volume).dedup,
            source_size=source_gib * _KIB_PER_GIB,
            source_dedup=volume_types.of(source).dedup,
            replicated=self._replication.link_for_new(volume) is not None,
            source_replicated=backing.replicated)

    def strategies(self, volume: typing.Any) -> Sequence[str]:
        """Clone strategies for a new volume, from its type or cinder.conf."""
        return volume_types.of(volume).clone_strategies or self._strategies


@dataclasses.dataclass(frozen=True)
class Parent:
    """The snapshot that a clone may have been made from.

    :ivar hidden: it was made only for this clone
    """

    snapshot: ArraySnapshot
    hidden: bool

    def of(self, backing: ArrayVolume) -> ArrayVolume:
        """The array volume of a clone, with its parent."""
        return dataclasses.replace(
            backing, parent=self.snapshot.snapshot,
            parent_group=self.snapshot.group, hidden_parent=self.hidden)


def find(array: Array, volumes: Collection[typing.Any]) -> dict[str, Parent]:
    """Find the parents that an array has, by id of the volume. Few calls.

    A full copy may be given the snapshot that it was copied from, which does
    no harm.
    """
    found = array.snapshots.find_many([
        name for volume in volumes for name in _names(volume)])
    # A hidden snapshot belongs to the clone. Its name comes last, so it
    # replaces one of Cinder's.
    return {volume.id: Parent(found[name], naming.is_hidden_snapshot(name))
            for volume in volumes for name in _names(volume)
            if name in found}


def _names(volume: typing.Any) -> list[str]:
    shown = ([naming.snapshot(volume.snapshot_id)] if volume.snapshot_id
             else [])
    return [*shown, naming.clone_source(volume.name_id)]
