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

"""Creating volumes and snapshots, and extending volumes."""

from collections.abc import Callable
import dataclasses
import functools
import typing

from oslo_log import log as logging
from oslo_utils import excutils
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.driver import locks
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi
_ATTEMPTS = 5


class Volumes:
    """Creates volumes completely as their type requires, or not at all."""

    def __init__(self, array: Array, known: resolver.Resolver,
                 places: placement.Placement,
                 sources: clone_sources.CloneSources, cloner: clones.Cloner,
                 sessions: replication.Replication,
                 deletions: deletion.Deletion,
                 flattening: flatten.Flattening) -> None:
        self._array = array
        self._resolver = known
        self._placement = places
        self._sources = sources
        self._cloner = cloner
        self._replication = sessions
        self._deletion = deletions
        self._flattening = flattening

    def create_volume(self, volume: typing.Any) -> resolver.ModelUpdate:
        """Create a volume in its own volume group. Two calls.

        A member of a consistency group is created in the group's volume group,
        which is looked up by its name first: two calls, too, and one more if
        it has to be created.
        """
        return self._create(
            volume, functools.partial(self._make_volume, volume))

    def create_volume_from_snapshot(
            self, volume: typing.Any, snapshot: typing.Any
    ) -> resolver.ModelUpdate:
        """Create a volume from a snapshot."""
        source = snapshot.volume
        taken = self._resolver.confirm_snapshot(
            snapshot, self._sources.marked(snapshot, self._sources.taken))
        order = self._sources.request(
            volume, source, snapshot.volume_size,
            self._sources.marked(source, self._resolver.resolve))
        return self._create(
            volume, lambda group: self._cloner.from_snapshot(
                dataclasses.replace(order, group=group), taken,
                self._sources.strategies(volume)))

    def create_cloned_volume(self, volume: typing.Any,
                             src_vref: typing.Any) -> resolver.ModelUpdate:
        """Create a clone of a volume."""
        backing = self._resolver.confirm(
            src_vref, self._sources.marked(src_vref, self._resolver.resolve))
        order = self._sources.request(volume, src_vref, src_vref.size, backing)
        return self._create(
            volume, lambda group: self._cloner.from_volume(
                dataclasses.replace(order, group=group), backing,
                naming.clone_source(volume.name_id),
                self._sources.strategies(volume)))

    def extend_volume(self, volume: typing.Any, new_size: int) -> None:
        """Grow a volume to ``new_size`` GiB, attached or not. Two calls.

        A replicated volume grows on both arrays, while its session is
        suspended.

        A volume that a view backs is flattened first (VSN-4); it must be
        detached for that.

        :raises ObjectInUse: it is not
        """
        backing = self._flattening.full(
            volume, 'which the array cannot grow (VSN-4)')
        # The copy may have used up the deadline.
        with self._array.deadline(fresh=True):
            self._replication.grow(
                volume, self._resolver.confirm(volume, backing),
                new_size * _KIB_PER_GIB)

    def create_snapshot(self, snapshot: typing.Any) -> resolver.ModelUpdate:
        """Take a snapshot. Two calls.

        A view that is being flattened can have one as well: nothing writes to
        it then. Its volume group is locked until the snapshot exists;
        flattening takes the same lock to release the view, which then stays as
        long as the snapshot.

        :raises ConcurrentUpdate: the volume keeps moving between groups
        """
        volume = snapshot.volume
        for _ in range(_ATTEMPTS):
            group = self._resolver.resolve(volume).group
            with locks.group_on(self._array, group):
                # The volume may have joined or left a consistency group before
                # the lock was taken.
                volume.refresh()
                backing = self._resolver.find(volume)
                if backing.group == group:
                    return self._resolver.ids(self._array.snapshots.create(
                        naming.snapshot(snapshot.id), backing))
        raise exceptions.ConcurrentUpdate(
            f'Volume {volume.id} is moved between groups; try again.')

    def _make_volume(self, volume: typing.Any,
                     group: int | None) -> ArrayVolume:
        name, size = naming.volume(volume.name_id), volume.size * _KIB_PER_GIB
        if group is not None:
            return volumes.create_member(self._array, name=name, size=size,
                                         group=group)
        return volumes.create(
            self._array, name=name, size=size,
            group_name=naming.volume_group(volume.name_id),
            dedup=volume_types.of(volume).dedup)

    def _create(self, volume: typing.Any,
                make: Callable[[int | None],
                               ArrayVolume]) -> resolver.ModelUpdate:
        """Create a volume in the right volume group; returns its row's update.

        :param make: as for ``into_group``
        """
        link = self._replication.link_for_new(volume)
        made = self._placement.into_group(volume, make)
        if link is None:
            return {**self._resolver.ids(made, volume.name_id),
                    **replication.DISABLED}
        try:
            with self._array.deadline(fresh=True):
                started = self._replication.start(volume, made, link)
        except Exception:
            with excutils.save_and_reraise_exception():
                self._unmake(volume, made)
        return {**self._resolver.ids(started, volume.name_id),
                **replication.ENABLED}

    def _unmake(self, volume: typing.Any, made: ArrayVolume) -> None:
        try:
            with self._array.deadline(fresh=True):
                names = self._resolver.names_of(volume, made)
                # The attempt may have taken long, and the id may be another
                # volume's by now (OBJ-7).
                found = self._array.identity.volume(made, names)
                if found is not None:
                    self._deletion.delete_backing(found, names)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('A volume that could not be replicated stays on the '
                        'array until it is deleted in Cinder: %s', error)
