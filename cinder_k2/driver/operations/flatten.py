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

"""Flattening: converting a volume that a view backs into a full volume."""

import typing

from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi


# Statuses in which a volume gets no new attachments. Cinder sets the latter
# two before it requests an operation that may flatten the volume.
_CALM = ('available', 'extending', 'retyping')
# Migration statuses without a migration, which attaches a volume although its
# status is "available".
_NOT_MIGRATING = (None, 'error', 'success')


class Flattening:
    """Flattens volumes for operations that views do not support.

    Flattening copies the data, so the volume must be detached. Cinder does not
    know of it, since most operations that need it set no volume status. So the
    volume is locked (``locks.flattening``): an operation that maps, unmaps,
    changes or deletes a view takes the same lock (``resolver.Resolver.held``),
    and then reads the current array volume from the row. Meanwhile, snapshots
    and clones are taken of the view, to which nothing writes.

    Snapshots of the view keep it on the array, hidden, until they are gone.
    If the service is killed, the lock is free: the row still has the view and
    says ``unfinished``, or has the volume.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 detaching: detach.Detach,
                 deletions: deletion.Deletion,
                 copies: host_copy.HostCopy) -> None:
        self._array = array
        self._resolver = known
        self._detach = detaching
        self._deletion = deletions
        self._host_copy = copies

    def full(self, volume: typing.Any, what: str) -> ArrayVolume:
        """The array volume; a volume that a view backs is flattened first.

        :param what: why a view is not enough, as a relative clause for the
            error: "which the array cannot grow"
        :raises ObjectInUse: the volume is attached, or another operation runs
        """
        with self._array.deadline(fresh=True):
            backing = self._resolver.resolve(volume)
            if backing.volume is not None:
                return backing
        with locks.flattening(volume.id), self._array.deadline(fresh=True):
            now = writes.renew(volume)
            backing = self._resolver.resolve(volume)
            if backing.volume is not None:
                # Another operation has flattened it meanwhile.
                return backing
            return self._flatten(volume, now, backing, what)

    def _flatten(self, volume: typing.Any, now: typing.Any, view: ArrayVolume,
                 what: str) -> ArrayVolume:
        """Flatten a volume; returns its array volume.

        The row is updated as soon as the data is there. Leftovers of an
        interrupted attempt are removed first.

        :param now: the row as read under the lock
        """
        view = self._resolver.confirm(volume, view)
        self._check_detached(now, view, what)
        self._deletion.drop_unfinished(volume.name_id)
        # From now on, a deletion of the volume looks for leftovers.
        self._resolver.note(volume, view, flattening=True)
        made = clones.promote(
            self._array, self._host_copy.copy, view=NamedVolume(
                view, self._resolver.names_of(volume, view)),
            name=naming.unfinished_volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            size=volume.size * _KIB_PER_GIB,
            dedup=volume_types.of(volume).dedup)
        with self._array.deadline(fresh=True):
            self._resolver.note(volume, made, flattening=True)
            self._finish_promotion(volume, view, made)
        return self._resolver.resolve(volume)

    def _check_detached(self, now: typing.Any, view: ArrayVolume, what: str
                        ) -> None:
        """Check that no attachment uses a volume, or is about to.

        Cinder creates the row of an attachment before it requests it. When it
        attaches a volume itself, to copy data, there is no row, but the volume
        has a status that shows it.

        :raises ObjectInUse: it is attached, or may be
        """
        if now.volume_attachment:
            raise exceptions.ObjectInUse(
                f'Volume {now.id}', 'is backed by a view of a snapshot, '
                f'{what}. Detach it first: then its data is copied to a '
                'volume of its own.')
        if (now.status not in _CALM
                or now.migration_status not in _NOT_MIGRATING):
            raise exceptions.ObjectInUse(
                f'Volume {now.id}', 'is being worked on; try again.')
        try:
            self._array.volumes.check_unmapped(view)
        except exceptions.StillMapped:
            # Left behind by a killed service.
            self._detach.disconnect_ours(view)
            self._array.volumes.check_unmapped(view)

    def _finish_promotion(self, volume: typing.Any, view: ArrayVolume,
                          made: ArrayVolume) -> None:
        """Rename the volume, and release the view.

        If that fails, the view is deleted with the volume.
        """
        try:
            self._array.names.set_volume(
                made.volume_ref.id, naming.volume(volume.name_id),
                naming.unfinished_volume(volume.name_id))
            self._deletion.give_up(view)
            self._resolver.note(volume, made, flattening=False)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Volume %(id)s has its own data now; cleaning up '
                        'after the copy failed: %(error)s',
                        {'id': volume.id, 'error': error})
