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

"""What both drivers share: Cinder's volume and snapshot operations."""

from collections.abc import Sequence
import dataclasses
import typing

from cinder.volume import driver
from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.driver import attachments
from cinder_k2.driver import config
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver import lookup
from cinder_k2.driver import stats
from cinder_k2.driver import users
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi


class K2Driver(stats.StatsMixin, attachments.AttachmentsMixin,
               driver.VolumeDriver):
    """Volumes and snapshots on one array.

    Methods are Cinder's driver interface (cinder.interface); ``volume`` and
    ``snapshot`` are Cinder's versioned objects, sizes in them GiB. They
    raise Cinder's exceptions only, see ``cinder_k2.driver.errors``.
    """

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'Cinder_K2_CI'

    _protocol: str
    _transport: transport.Transport

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        config.register(self.configuration)

    @classmethod
    def get_driver_options(cls) -> list[typing.Any]:
        """Every option that the driver reads."""
        return config.driver_options(cls._get_oslo_driver_opts)

    # Setup

    @errors.reported_at_start
    def do_setup(self, context: typing.Any) -> None:
        """Read the options; nothing is sent yet.

        :raises InvalidInput: an option is missing or wrong
        """
        self._client = self._make_client(
            config.rest_settings(self.configuration))
        self._array = Array(self._client,
                            self.configuration.k2_retention_policy)
        self._transport = self._make_transport()
        self._users = users.Users(self._transport)
        self._cloner = clones.Cloner(self._array)

    @errors.reported_at_start
    def check_for_setup_error(self) -> None:
        """See whether the array can serve this back end. Three calls."""
        conf = self.configuration
        with self._client.deadline(conf.k2_connect_timeout
                                   + conf.k2_read_timeout):
            self._array.system.check()
            self._array.snapshots.check()
            self._transport.check(self._array)

    def _make_client(self, settings: rest.Settings) -> rest.Client:
        return rest.Client(settings)

    def _make_transport(self) -> transport.Transport:
        raise NotImplementedError

    # Volumes

    @errors.operation
    def create_volume(self, volume: typing.Any) -> lookup.ModelUpdate:
        """Make a volume in a group of its own. Two calls."""
        return self._ids(volumes.create(
            self._array,
            name=naming.volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            size=volume.size * _KIB_PER_GIB,
            dedup=_type_spec(volume).dedup))

    @errors.operation
    def delete_volume(self, volume: typing.Any) -> None:
        """Delete a volume; one that is gone already is no error. Two calls.

        :raises VolumeIsBusy: the array must keep it
        """
        try:
            self._delete(volume)
        except exceptions.ObjectInUse as error:
            LOG.error('Volume %(id)s stays: %(why)s',
                      {'id': volume.id, 'why': error})
            raise errors.busy_volume(error, volume.name) from error

    def _delete(self, volume: typing.Any) -> None:
        try:
            self._delete_once(volume)
        except exceptions.StillMapped:
            self._disconnect_ours(self._backing(volume))
            self._delete_once(volume)

    def _delete_once(self, volume: typing.Any) -> None:
        backing = self._known_backing(volume)
        if backing is None:
            self._delete_by_name(volume)
        else:
            volumes.delete(self._array, backing)

    @errors.operation
    def extend_volume(self, volume: typing.Any, new_size: int) -> None:
        """Grow a volume to ``new_size`` GiB, attached or not. One call."""
        backing = self._backing(volume)
        if backing.volume is None:
            raise exceptions.ObjectInUse(
                f'Volume {volume.id}', 'is backed by a view of a snapshot, '
                'which the array cannot grow.')
        self._array.volumes.grow(backing.volume, new_size * _KIB_PER_GIB)

    @errors.operation
    def create_volume_from_snapshot(
            self, volume: typing.Any,
            snapshot: typing.Any) -> lookup.ModelUpdate:
        """Make a volume from a snapshot without copying data."""
        source = snapshot.volume
        taken = self._snapshot_backing(snapshot)
        with locks.group(source.id), self.deadline(fresh=True):
            backing = self._backing(source)
            self._mark_source(source, backing)
            made = self._cloner.from_snapshot(
                self._order(volume, source, backing, snapshot.volume_size),
                taken, self._strategies(volume))
        return self._ids(made)

    @errors.operation
    def create_cloned_volume(self, volume: typing.Any,
                             src_vref: typing.Any) -> lookup.ModelUpdate:
        """Make a clone of a volume, attached or not, without copying."""
        with locks.group(src_vref.id), self.deadline(fresh=True):
            backing = self._backing(src_vref)
            self._mark_source(src_vref, backing)
            made = self._cloner.from_volume(
                self._order(volume, src_vref, backing, src_vref.size),
                naming.clone_source(volume.name_id),
                self._strategies(volume))
        return self._ids(made)

    # Snapshots

    @errors.operation
    def create_snapshot(self, snapshot: typing.Any) -> lookup.ModelUpdate:
        """Take a snapshot. One call."""
        volume = snapshot.volume
        with locks.group(volume.id), self.deadline(fresh=True):
            return self._ids(self._array.snapshots.create(
                naming.snapshot(snapshot.id), self._backing(volume)))

    @errors.operation
    def delete_snapshot(self, snapshot: typing.Any) -> None:
        """Delete a snapshot; one that is gone is no error. One call.

        :raises SnapshotIsBusy: volumes made from it still need it
        """
        found = self._known_snapshot(snapshot) or self._array.snapshots.find(
            naming.snapshot(snapshot.id))
        try:
            if found is not None:
                self._array.snapshots.delete(found.snapshot)
        except exceptions.ObjectInUse as error:
            LOG.error('Snapshot %(id)s stays: %(why)s',
                      {'id': snapshot.id, 'why': error})
            raise errors.busy_snapshot(error, snapshot.name) from error

    # Exports are made when a host connects, and nothing needs to be done
    # to them when the service starts.

    def ensure_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: mappings outlive the service."""

    def create_export(self, context: typing.Any, volume: typing.Any,
                      connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection."""

    def remove_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: see terminate_connection."""

    @classmethod
    def clean_volume_file_locks(cls, volume_id: str) -> None:
        """Remove the lock files of a volume that Cinder has forgotten."""
        locks.forget_group(volume_id)

    def _delete_by_name(self, volume: typing.Any) -> None:
        name_id = self._name_ids(volume)[0]
        for candidate in self._name_ids(volume):
            name = naming.volume(candidate)
            if (self._array.volumes.find_volume(name) is not None
                    or self._array.snapshots.find_view(name) is not None):
                name_id = candidate
                break
        volumes.delete_by_name(self._array, naming.volume(name_id),
                               naming.volume_group(name_id),
                               naming.clone_source(name_id))

    def _mark_source(self, source: typing.Any, backing: Backing) -> None:
        """Note on a source's row that it has clones, before it has.

        The array may then hold objects under it that Cinder does not show.
        """
        if not backing.has_clones:
            source.update(self._ids(dataclasses.replace(backing,
                                                        has_clones=True)))
            source.save()

    def _order(self, volume: typing.Any, source: typing.Any,
               backing: Backing, source_gib: int) -> clones.Order:
        return clones.Order(
            name=naming.volume(volume.name_id),
            group_name=naming.volume_group(volume.name_id),
            size=volume.size * _KIB_PER_GIB,
            dedup=_type_spec(volume).dedup,
            source=backing,
            source_size=source_gib * _KIB_PER_GIB,
            source_dedup=_type_spec(source).dedup)

    def _strategies(self, volume: typing.Any) -> Sequence[str]:
        return (_type_spec(volume).clone_strategies
                or self.configuration.k2_clone_strategies)


def _type_spec(volume: typing.Any) -> volume_types.TypeSpec:
    kind = volume.volume_type
    return volume_types.parse((kind and kind.extra_specs) or {})
