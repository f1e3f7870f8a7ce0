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

"""Clones, and volumes from snapshots."""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import typing

from oslo_utils import units

from cinder_k2.array import Backing
from cinder_k2.array import SnapshotBacking
from cinder_k2.driver import creation
from cinder_k2.driver import errors
from cinder_k2.driver import lookup
from cinder_k2.flows import clones
from cinder_k2 import naming

_KIB_PER_GIB = units.Mi

T = typing.TypeVar('T', Backing, SnapshotBacking)


class CopiesMixin(creation.CreationMixin):
    """New volumes with the data of others, attached or not."""

    configuration: typing.Any
    _cloner: clones.Cloner

    @errors.operation
    def create_volume_from_snapshot(
            self, volume: typing.Any,
            snapshot: typing.Any) -> lookup.ModelUpdate:
        """Make a volume from a snapshot."""
        source = snapshot.volume
        taken = self._confirmed_snapshot(
            snapshot, self._marked(snapshot, self._taken))
        order = self._order(volume, source, snapshot.volume_size,
                            self._marked(source, self._backing))
        return self._create(
            volume, lambda group: self._cloner.from_snapshot(
                dataclasses.replace(order, group=group), taken,
                self._strategies(volume)))

    @errors.operation
    def create_cloned_volume(self, volume: typing.Any,
                             src_vref: typing.Any) -> lookup.ModelUpdate:
        """Make a clone of a volume."""
        backing = self._confirmed(
            src_vref, self._marked(src_vref, self._backing))
        order = self._order(volume, src_vref, src_vref.size, backing)
        return self._create(
            volume, lambda group: self._cloner.from_volume(
                dataclasses.replace(order, group=group), backing,
                naming.clone_source(volume.name_id),
                self._strategies(volume)))

    def _taken(self, snapshot: typing.Any) -> SnapshotBacking:
        """What backs a snapshot, with the volume that it was taken of."""
        found = self._snapshot_backing(snapshot)
        if found.volume is None:
            source = self._backing(snapshot.volume)
            if source.group == found.group:
                found = dataclasses.replace(
                    found, volume=source.volume or source.origin,
                    shared=found.shared or source.shared)
        return found

    def _marked(self, row: typing.Any, find: Callable[[typing.Any], T]
                ) -> T:
        """What backs a source, once its row notes that it has clones.

        The array may then hold objects under it that Cinder does not show.
        Another operation may give the row another backing meanwhile, so
        the note replaces what was read and nothing else.

        :raises RowChanged: the row changes all the time
        """
        return self._rewrite(row, find, lambda found: dataclasses.replace(
            found, has_clones=True))

    def _order(self, volume: typing.Any, source: typing.Any,
               source_gib: int, backing: Backing) -> clones.Order:
        return clones.Order(
            name=naming.volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            view_name=naming.temporary_view(volume.name_id),
            size=volume.size * _KIB_PER_GIB,
            dedup=self._type_spec(volume).dedup,
            source_size=source_gib * _KIB_PER_GIB,
            source_dedup=self._type_spec(source).dedup,
            replicated=self._link_for(volume) is not None,
            source_replicated=backing.replicated)

    def _strategies(self, volume: typing.Any) -> Sequence[str]:
        return (self._type_spec(volume).clone_strategies
                or self.configuration.k2_clone_strategies)
