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

"""Turning a volume that a view backs into a full volume."""

from collections.abc import Iterator
import contextlib
import typing

from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import connections
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi


class Flattening:
    """For what the array does with volumes only, not with views.

    It copies the data, which needs the volume to be detached. Snapshots of
    the view keep it on the array, hidden, until they are gone.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 volumes: connections.Connections,
                 deletions: deletion.Deletion,
                 copies: host_copy.HostCopy) -> None:
        self._array = array
        self._resolver = known
        self._connections = volumes
        self._deletion = deletions
        self._host_copy = copies

    def full(self, volume: typing.Any, what: str) -> Backing:
        """What backs a volume; one that a view backs is copied first.

        :param what: as for ``flatten``
        :raises ObjectInUse: that is attached, or being worked on
        """
        with self._array.deadline(fresh=True):
            backing = self._resolver.resolve(volume)
            if backing.volume is not None:
                return backing
            with self._reserved(volume):
                return self.flatten(volume, backing, volume.size, what)

    def flatten(self, volume: typing.Any, view: Backing, size: int,
                what: str) -> Backing:
        """Give a volume its own data, at ``size`` GiB; what backs it then.

        The row says so as soon as the data is there. What is left over of
        an attempt that was cut short is removed first.

        :param what: what cannot be done with a view, for the error
        :raises ObjectInUse: the volume is attached
        """
        view = self._resolver.confirm(volume, view)
        self._check_detached(volume, view, what)
        self._deletion.drop_unfinished(volume.name_id)
        # Whoever deletes the volume from now on looks for what is left.
        self._resolver.note(volume, view, unfinished=True)
        made = clones.promote(
            self._array, self._host_copy.copy, view=view,
            name=naming.unfinished_volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            size=size * _KIB_PER_GIB, old_size=volume.size * _KIB_PER_GIB,
            dedup=volume_types.of(volume).dedup)
        with self._array.deadline(fresh=True):
            self._resolver.note(volume, made, unfinished=True)
            self._finish_promotion(volume, view, made)
        return self._resolver.resolve(volume)

    @contextlib.contextmanager
    def _reserved(self, volume: typing.Any) -> Iterator[None]:
        """Keep Cinder from an available volume while it is copied.

        Cinder itself does so for what it calls by a state of its own.

        :raises ObjectInUse: another operation has begun with it
        """
        if volume.status != 'available':
            yield
            return
        if not writes.begin_maintenance(volume):
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'is being worked on; try again.')
        try:
            yield
        finally:
            writes.end_maintenance(volume)

    def _check_detached(self, volume: typing.Any, view: Backing,
                        what: str) -> None:
        if volume.volume_attachment:
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'is backed by a view of a snapshot, '
                f'{what}. Detach it first: then its data is copied to a '
                'volume of its own.')
        try:
            self._array.volumes.check_unmapped(view)
        except exceptions.StillMapped:
            self._connections.disconnect_ours(view)
            self._array.volumes.check_unmapped(view)

    def _finish_promotion(self, volume: typing.Any, view: Backing,
                          made: Backing) -> None:
        """Give it its name, and let go of the view.

        If that fails, the view goes when the volume is deleted.
        """
        try:
            self._array.names.set_volume(
                made.volume_ref.id, naming.volume(volume.name_id),
                naming.unfinished_volume(volume.name_id))
            self._deletion.give_up(view)
            self._resolver.note(volume, made, unfinished=False)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Volume %(id)s has its own data now; clearing up '
                        'behind it failed: %(error)s',
                        {'id': volume.id, 'error': error})
