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

"""Reverting volumes to snapshots."""

import typing

from cinder import exception
from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.db import writes
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import snapshot_connections
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi


class Revert:
    """Reverts volumes on the array where it can, else by copying.

    The array restores whole volume groups only (RST-5), and only to the sizes
    they have (RST-2). Cinder's own copying has a safeguard snapshot only if
    one is taken before each revert, even where none is needed.

    :param driver: Cinder's, which takes the safeguard snapshot
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 sources: clone_sources.CloneSources,
                 snapshots: snapshot_connections.SnapshotConnections,
                 copies: host_copy.HostCopy, deletions: deletion.Deletion,
                 driver: typing.Any) -> None:
        self._array = array
        self._resolver = known
        self._sources = sources
        self._snapshot_connections = snapshots
        self._host_copy = copies
        self._deletion = deletions
        self._driver = driver

    def revert_to_snapshot(self, context: typing.Any, volume: typing.Any,
                           snapshot: typing.Any) -> None:
        """Revert a volume to a snapshot. Three calls if the array can.

        A view is locked while it is overwritten: otherwise flattening could
        copy data from before and from after the revert.

        :raises ObjectInUse: it is being flattened, or failed back
        """
        with self._resolver.held(volume):
            self._resolver.check_free(volume)
            backing = self._resolver.resolve(volume)
            if not self._restore(volume, backing, snapshot):
                self._copy_back(context, volume, snapshot)

    def _restore(self, volume: typing.Any, backing: ArrayVolume,
                 snapshot: typing.Any) -> bool:
        """Restore a volume on the array; returns whether it could.

        The snapshot is verified by name, and so is its group. Only by the
        group's earlier state can it be seen whether the array has done it.
        """
        taken = self._sources.taken(snapshot)
        if (backing.volume is None or backing.shared
                or taken.view is not None or taken.group != backing.group):
            return False
        with locks.group_on(self._array, backing.group):
            seen, before = self._array.concurrently(
                lambda: self._resolver.confirm_snapshot(snapshot, taken),
                lambda: self._array.volumes.group(taken.group))
            if seen.group != before.id:
                return False
            try:
                self._array.volumes.restore(seen, before)
                if volume.size != snapshot.volume_size:
                    # In case the array has given it the snapshot's size.
                    self._array.volumes.grow(
                        self._resolver.confirm(volume, backing).volume_ref.id,
                        volume.size * _KIB_PER_GIB,
                        self._resolver.names_of(volume, backing))
            except rest.Refused as refusal:
                LOG.info('The array does not restore volume %(id)s, so the '
                         'data is copied: %(why)s',
                         {'id': volume.id, 'why': refusal})
                return False
        return True

    def _copy_back(self, context: typing.Any, volume: typing.Any,
                   snapshot: typing.Any) -> None:
        """Copy a snapshot over its volume, with a snapshot as a safeguard."""
        safeguard = self._driver._create_temp_snapshot(context, volume)
        try:
            self._overwrite_from(snapshot, volume)
        except Exception:
            LOG.error('Volume %(volume)s is neither what it was nor what '
                      'its snapshot %(snapshot)s holds. Make a volume from '
                      'snapshot %(safeguard)s, which holds the data from '
                      'before; or delete that snapshot and revert again.',
                      {'volume': volume.id, 'snapshot': snapshot.id,
                       'safeguard': safeguard.id})
            raise
        self._discard_safeguard(safeguard)

    def _overwrite_from(self, snapshot: typing.Any, volume: typing.Any
                        ) -> None:
        with locks.snapshot(snapshot.id):
            with self._array.deadline(fresh=True):
                view = self._snapshot_connections.temporary_view(snapshot)
            try:
                volume.refresh()
                self._resolver.check_free(volume)
                backing = self._resolver.find(volume)
                self._host_copy.overwrite(
                    NamedVolume(view, [naming.temporary_view(snapshot.id)]),
                    NamedVolume(backing,
                                self._resolver.names_of(volume, backing)),
                    snapshot.volume_size * _KIB_PER_GIB,
                    volume.size * _KIB_PER_GIB)
            finally:
                self._snapshot_connections.drop_quietly(view, snapshot)

    def _discard_safeguard(self, safeguard: typing.Any) -> None:
        try:
            with errors.translated(), self._array.deadline(fresh=True):
                self._deletion.delete_snapshot(safeguard)
            writes.remove_snapshot(safeguard)
        except exception.CinderException as error:
            LOG.warning('The volume was reverted; snapshot %(id)s of what '
                        'it was before stays and can be deleted: %(error)s',
                        {'id': safeguard.id, 'error': error})
