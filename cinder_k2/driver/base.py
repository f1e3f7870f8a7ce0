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

"""Cinder's driver interface: which array each call goes to.

Each method chooses the array, and calls the part of
``cinder_k2.driver.operations`` that handles it.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import typing

from cinder import exception
from cinder.i18n import _
from cinder.volume import driver
from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver import errors
from cinder_k2.driver.failover import arrays
from cinder_k2.driver.failover import failover
from cinder_k2.driver import locks
from cinder_k2.driver.operations import ArrayOperations
from cinder_k2.driver.operations import Fabric
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import resolver
from cinder_k2.driver import stats
from cinder_k2.driver import unknown_options
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import transport
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

Updates = list[resolver.ModelUpdate]
Row = typing.Any
OnArray = contextlib.AbstractContextManager[ArrayOperations]


class K2Driver(driver.VolumeDriver):
    """Dispatches each of Cinder's calls to the array it concerns."""

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'Cinder_K2_CI'
    SUPPORTS_ACTIVE_ACTIVE = True

    VENDOR = 'Kaminario'

    #: As in statistics: iSCSI or FC.
    protocol: str
    # Without volume_backend_name the in-tree driver reports the name of its
    # class, and Cinder's rows carry that name as their pool.
    _default_name: str

    def __init__(self, *args: typing.Any,
                 active_backend_id: str | None = None,
                 **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        config.register(self.configuration)
        self._active_id = active_backend_id
        self._backend_rows = backend_rows.BackendRows(self)

    @classmethod
    def get_driver_options(cls) -> list[typing.Any]:
        """Every option that the driver reads."""
        return config.driver_options(cls._get_oslo_driver_opts)

    # Setup

    @errors.reported_at_start
    def do_setup(self, context: typing.Any) -> None:
        """Read the options. No call.

        :raises InvalidInput: an option is missing or wrong
        """
        for text in unknown_options.texts(self.configuration.config_group):
            LOG.warning('%s', text)
        settings = config.rest_settings(self.configuration)
        primary = self._operations(settings)
        targets: dict[str, ArrayOperations] = {}
        for target in config.replication_targets(self.configuration):
            other = targets[target.backend_id] = self._operations(
                target.settings)
            primary.meet(_peer(target.backend_id, other, target.address,
                               target.rpo))
            other.replication.primary = primary.replication
            other.meet(_peer(config.PRIMARY_ID, primary,
                             str(settings.endpoint), target.rpo))
        self._use(primary, targets)

    def _use(self, primary: ArrayOperations,
             targets: Mapping[str, ArrayOperations]) -> None:
        """Use these arrays from now on.

        :raises InvalidInput: the active one is not among them
        """
        conf = self.configuration
        try:
            self._arrays = arrays.ArraySet(primary, targets, self._active_id)
        except KeyError:
            raise exception.InvalidInput(reason=_(
                'The back end was failed over to %(id)s, but section '
                '[%(section)s] of cinder.conf has no replication_device '
                'with that backend_id; put it back.') % {
                    'id': self._active_id,
                    'section': conf.config_group}) from None
        self._failover = failover.Failover(
            self._arrays, self._backend_rows, conf.k2_failback_timeout)
        self._statistics = stats.Statistics(
            self._arrays, conf, str(
                self.configuration.safe_get('volume_backend_name')
                or self._default_name),
            {'vendor_name': self.VENDOR, 'driver_version': self.VERSION,
             'storage_protocol': self.protocol})

    def _operations(self, settings: rest.Settings) -> ArrayOperations:
        client = rest.Client(dataclasses.replace(
            settings, verdicts=config.verdicts_directory()))
        return ArrayOperations(self, client, self._fabric)

    @errors.reported_at_start
    def check_for_setup_error(self) -> None:
        """Check that the active array is usable. Three calls.

        If it is not, and there is another array, the service still starts: it
        is needed for the failover.
        """
        try:
            self._arrays.active.check()
        except (rest.RestError, exceptions.ArrayNotSupported) as error:
            if not self._arrays.targets:
                raise
            LOG.error('Active array is not usable: %(error)s. Fix the '
                      'problem, or fail over to one of: %(targets)s',
                      {'targets': ', '.join(self._arrays.targets),
                       'error': str(error).removesuffix('.')})

    def _fabric(self, array: Array) -> Fabric:
        """How hosts reach an array."""
        raise NotImplementedError

    # Volumes

    def create_volume(self, volume: Row) -> resolver.ModelUpdate:
        """Create a volume on the active array."""
        with self._on_active() as active:
            self._check_group(volume)
            return active.volumes.create_volume(volume)

    def create_volume_from_snapshot(self, volume: Row, snapshot: Row
                                    ) -> resolver.ModelUpdate:
        """Create a volume from a snapshot, on the active array."""
        with self._on_active_with(snapshot) as active:
            self._check_group(volume)
            return active.volumes.create_volume_from_snapshot(volume, snapshot)

    def create_cloned_volume(self, volume: Row, src_vref: Row
                             ) -> resolver.ModelUpdate:
        """Create a clone of a volume, on the active array."""
        with self._on_active_with(src_vref) as active:
            self._check_group(volume)
            return active.volumes.create_cloned_volume(volume, src_vref)

    def extend_volume(self, volume: Row, new_size: int) -> None:
        """Grow a volume to ``new_size`` GiB, attached or not."""
        with self._on_current_array_of(volume) as array:
            array.volumes.extend_volume(volume, new_size)

    def delete_volume(self, volume: Row) -> None:
        """Delete a volume on the array that has it.

        A volume that was never created may have left objects on an array that
        was active before a failover or failback.

        :raises VolumeIsBusy: the array must keep it
        """
        with errors.translated():
            place = self._current_array_of(volume)
            if (volume.launched_at is None
                    and provider_id.system_of(volume.provider_id) is None):
                self._on_others([place], f'volume {volume.id}',
                                lambda other: other.deletion.delete_volume(
                                    volume))
            with place.array.deadline():
                place.deletion.delete_volume(volume)

    def revert_to_snapshot(self, context: typing.Any, volume: Row,
                           snapshot: Row) -> None:
        """Revert a volume to a snapshot."""
        with self._on_current_array_of(volume) as array:
            array.revert.revert_to_snapshot(context, volume, snapshot)

    def snapshot_revert_use_temp_snapshot(self) -> bool:
        """Whether Cinder is to take a snapshot before each revert.

        A restore on the array is atomic; where the driver copies the data
        instead, it takes the snapshot itself.
        """
        return False

    # Snapshots

    def create_snapshot(self, snapshot: Row) -> resolver.ModelUpdate:
        """Take a snapshot of a volume."""
        with self._on_current_array_of(snapshot) as array:
            return array.volumes.create_snapshot(snapshot)

    def delete_snapshot(self, snapshot: Row) -> None:
        """Delete a snapshot on the array that has it.

        A snapshot whose row has no ids may be on another array than its
        volume. The in-tree driver took snapshots on the primary, where they
        stay when their volume is failed over. A snapshot that was never
        created may have left objects on an array where its volume was before.

        :raises SnapshotIsBusy: the array must keep it
        """
        with errors.translated():
            places = [self._arrays.of(snapshot)]
            if provider_id.system_of(snapshot.provider_id) is None:
                places.append(self._arrays.named(config.PRIMARY_ID))
                if provider_id.is_replicated(snapshot.volume.provider_id):
                    self._on_others(
                        places, f'snapshot {snapshot.id}',
                        lambda other: other.deletion.delete_snapshot(
                            snapshot))
            for place in dict.fromkeys(places):
                with place.array.deadline():
                    place.deletion.delete_snapshot(snapshot)

    # Type and location

    def retype(self, context: typing.Any, volume: Row, new_type: Row,
               diff: Mapping[str, typing.Any],
               host: Mapping[str, typing.Any]
               ) -> bool | tuple[bool, resolver.ModelUpdate]:
        """Retype a volume in place, if the array can."""
        with self._on_current_array_of(volume) as array:
            return array.migration.retype(context, volume, new_type, diff,
                                          host)

    def migrate_volume(self, context: typing.Any, volume: Row,
                       host: Mapping[str, typing.Any]
                       ) -> tuple[bool, resolver.ModelUpdate | None]:
        """Transfer a detached volume to a back end on the same array."""
        with self._on_current_array_of(volume) as array:
            return array.migration.migrate_volume(context, volume, host)

    def update_migrated_volume(self, ctxt: typing.Any, volume: Row,
                               new_volume: Row, original_volume_status: str
                               ) -> resolver.ModelUpdate:
        """Return the update that makes ``volume``'s row use ``new_volume``."""
        with self._on_array_of(new_volume) as array:
            return array.migration.update_migrated_volume(
                ctxt, volume, new_volume, original_volume_status)

    # Connections

    def validate_connector(self, connector: transport.Connector) -> None:
        """Check that a connector has initiators for this back end.

        :raises InvalidConnectorException: it has none
        """
        with self._on_active() as active:
            active.transport.initiators(connector)

    def initialize_connection(self, volume: Row,
                              connector: transport.Connector,
                              **kwargs: typing.Any) -> dict[str, typing.Any]:
        """Map a volume to a host; returns its connection properties."""
        with self._on_current_array_of(volume) as array:
            return array.attach.initialize_connection(volume, connector)

    def terminate_connection(self, volume: Row,
                             connector: transport.Connector | None,
                             **kwargs: typing.Any
                             ) -> dict[str, typing.Any] | bool:
        """Unmap a volume from a host; without a connector, from all hosts."""
        with self._on_array_of(volume) as array:
            return array.detach.terminate_connection(volume, connector)

    def initialize_connection_snapshot(
            self, snapshot: Row, connector: transport.Connector,
            **kwargs: typing.Any) -> dict[str, typing.Any]:
        """Map a snapshot to a host; returns its connection properties."""
        with self._on_array_of(snapshot) as array:
            return (array.snapshot_connections
                    .initialize_connection_snapshot(snapshot, connector))

    def terminate_connection_snapshot(
            self, snapshot: Row, connector: transport.Connector | None,
            **kwargs: typing.Any) -> dict[str, typing.Any] | bool:
        """Unmap a snapshot from a host; without a connector, from all."""
        with self._on_array_of(snapshot) as array:
            return (array.snapshot_connections
                    .terminate_connection_snapshot(snapshot, connector))

    def backup_use_temp_snapshot(self) -> bool:
        """Whether volumes in use are backed up from a snapshot: always."""
        return True

    def _detach_volume(self, context: typing.Any, attach_info: typing.Any,
                       volume: Row, properties: dict[str, typing.Any],
                       *args: typing.Any, **kwargs: typing.Any) -> None:
        """Detach a volume from this host after Cinder has copied its data.

        The connector is marked: such a connection has no attachment row.
        """
        super()._detach_volume(
            context, attach_info, volume,
            {**properties, host_access.INTERNAL: True}, *args, **kwargs)

    # Management

    def manage_existing_get_size(self, volume: Row,
                                 existing_ref: manage.Reference) -> int:
        """Size in GiB, rounded up, of a volume to be managed."""
        with self._on_array_of(volume) as array:
            return array.manage.manage_existing_get_size(volume, existing_ref)

    def manage_existing(self, volume: Row, existing_ref: manage.Reference
                        ) -> resolver.ModelUpdate:
        """Manage an existing volume."""
        with self._on_array_of(volume) as array:
            return array.manage.manage_existing(volume, existing_ref)

    def unmanage(self, volume: Row) -> None:
        """Stop managing a volume; it stays on the array."""
        with self._on_array_of(volume) as array:
            array.unmanaging.unmanage(volume)

    def get_manageable_volumes(
            self, cinder_volumes: Iterable[Row], marker: typing.Any,
            limit: int | None, offset: int | None, sort_keys: list[str],
            sort_dirs: list[str]) -> manage.Entries:
        """Volumes of the active array, and reasons against managing each."""
        with self._on_active() as active:
            return active.manage.get_manageable_volumes(
                cinder_volumes, marker, limit, offset, sort_keys, sort_dirs)

    def manage_existing_snapshot_get_size(
            self, snapshot: Row, existing_ref: manage.Reference) -> int:
        """Size in GiB, rounded up, of a snapshot to be managed."""
        with self._on_array_of(snapshot) as array:
            return array.manage.manage_existing_snapshot_get_size(
                snapshot, existing_ref)

    def manage_existing_snapshot(
            self, snapshot: Row, existing_ref: manage.Reference
    ) -> resolver.ModelUpdate:
        """Manage an existing snapshot."""
        with self._on_array_of(snapshot) as array:
            return array.manage.manage_existing_snapshot(snapshot,
                                                         existing_ref)

    def unmanage_snapshot(self, snapshot: Row) -> None:
        """Stop managing a snapshot; it stays on the array. No call."""

    def get_manageable_snapshots(
            self, cinder_snapshots: Iterable[Row], marker: typing.Any,
            limit: int | None, offset: int | None, sort_keys: list[str],
            sort_dirs: list[str]) -> manage.Entries:
        """Snapshots of the active array, and reasons against managing each."""
        with self._on_active() as active:
            return active.manage.get_manageable_snapshots(
                cinder_snapshots, marker, limit, offset, sort_keys, sort_dirs)

    # Groups. The array has no objects for those without consistent snapshots:
    # Cinder works volume by volume when NotImplementedError is raised.

    def create_group(self, context: typing.Any, group: Row
                     ) -> resolver.ModelUpdate:
        """Create the volume group of a consistency group."""
        with self._on_active() as active:
            return active.groups.create_group(context, group)

    def update_group(self, context: typing.Any, group: Row,
                     add_volumes: Sequence[Row] | None = None,
                     remove_volumes: Sequence[Row] | None = None
                     ) -> tuple[None, Updates, Updates]:
        """Move volumes into a group's volume group, and out of it."""
        placement.check_consistent(group)
        with self._on_common_array_of(_changed(
                group, add_volumes, remove_volumes)) as array:
            return array.group_update.update_group(
                context, group, add_volumes, remove_volumes)

    def create_group_from_src(
            self, context: typing.Any, group: Row, volumes: Sequence[Row],
            group_snapshot: Row = None,
            snapshots: Sequence[Row] | None = None, source_group: Row = None,
            source_vols: Sequence[Row] | None = None
    ) -> tuple[resolver.ModelUpdate, Updates]:
        """Create a group with the data of a group snapshot or of a group."""
        placement.check_consistent(group)
        source = next(iter([*(snapshots or ()), *(source_vols or ())]), None)
        with self._on_active_with(source) as active:
            return active.groups.create_group_from_src(
                context, group, volumes, group_snapshot, snapshots,
                source_group, source_vols)

    def create_group_snapshot(
            self, context: typing.Any, group_snapshot: Row,
            snapshots: Sequence[Row]) -> tuple[resolver.ModelUpdate, Updates]:
        """Take one snapshot of all volumes of a group at one instant."""
        placement.check_consistent(group_snapshot)
        with self._on_array_of(next(iter(snapshots), None)) as array:
            return array.groups.create_group_snapshot(
                context, group_snapshot, snapshots)

    def delete_group_snapshot(
            self, context: typing.Any, group_snapshot: Row,
            snapshots: Sequence[Row]) -> tuple[resolver.ModelUpdate, Updates]:
        """Delete a group snapshot."""
        placement.check_consistent(group_snapshot)
        with self._on_array_of(next(iter(snapshots), None)) as array:
            return array.groups.delete_group_snapshot(
                context, group_snapshot, snapshots)

    def delete_group(self, context: typing.Any, group: Row,
                     volumes: Sequence[Row]
                     ) -> tuple[resolver.ModelUpdate, Updates]:
        """Delete a group and its volumes, on all arrays that have them.

        Another array may still have the group's volume group, from the time
        when that array was active.
        """
        placement.check_consistent(group)
        with errors.translated():
            told, updates = self._on_each(
                group, volumes, lambda array, rows:
                array.group_replication.delete_group(context, group, rows))
            if told['status'] == statuses.Group.DELETED:
                self._on_others([self._arrays.of(row) for row in volumes]
                                or [self._arrays.active],
                                f'group {group.id}',
                                lambda other: other.groups.drop_group(group))
            return told, updates

    # Replication

    def enable_replication(self, context: typing.Any, group: Row,
                           volumes: Sequence[Row]
                           ) -> tuple[resolver.ModelUpdate, Updates]:
        """Replicate all volumes of a group."""
        with self._on_common_array_of(volumes) as array:
            return array.group_replication.enable_replication(
                context, group, volumes)

    def disable_replication(self, context: typing.Any, group: Row,
                            volumes: Sequence[Row]
                            ) -> tuple[resolver.ModelUpdate, Updates]:
        """End the replication of volumes, on all arrays that have them."""
        with errors.translated():
            return self._on_each(
                group, volumes, lambda array, rows:
                array.group_replication.disable_replication(
                    context, group, rows))

    def get_replication_error_status(
            self, context: typing.Any, groups: Iterable[Row]
    ) -> tuple[Updates, Updates]:
        """Return the replication errors of groups and volumes."""
        with self._on_active() as active:
            return active.monitor.get_replication_error_status(context, groups)

    def failover_host(self, context: typing.Any, volumes: Sequence[Row],
                      secondary_id: str | None = None,
                      groups: Sequence[Row] | None = None
                      ) -> tuple[str, Updates, Updates]:
        """Make another array active; "default" fails back.

        :raises InvalidReplicationTarget: as for ``Failover.failover_host``
        """
        return self._failover.failover_host(context, volumes, secondary_id,
                                            groups)

    def failover(self, context: typing.Any, volumes: Sequence[Row],
                 secondary_id: str | None = None,
                 groups: Sequence[Row] | None = None
                 ) -> tuple[str, Updates, Updates]:
        """Fail over or back in a cluster.

        Cinder then calls ``failover_completed`` in each of its services.
        """
        return self._failover.failover(context, volumes, secondary_id, groups)

    def failover_completed(self, context: typing.Any,
                           active_backend_id: str | None = None) -> None:
        """Use the array that is active from now on."""
        self._failover.failover_completed(context, active_backend_id)

    def failover_replication(self, context: typing.Any, group: Row,
                             volumes: Sequence[Row],
                             secondary_backend_id: str | None = None
                             ) -> tuple[resolver.ModelUpdate, Updates]:
        """Fail over one group to another array; "default" fails it back."""
        return self._failover.failover_replication(
            context, group, volumes, secondary_backend_id)

    # Statistics

    def get_default_filter_function(self) -> str:
        """Keep new volumes off an array that is down, degraded or full."""
        return stats.FILTER_FUNCTION

    def get_default_goodness_function(self) -> str:
        """The free percentage of the array; 0 if it is down or degraded."""
        return stats.GOODNESS_FUNCTION

    def _init_vendor_properties(self) -> tuple[dict[str, typing.Any], str]:
        """Return the extra specs and their prefix, for get-capabilities."""
        properties: dict[str, typing.Any] = {}
        for spec, default in stats.extra_specs(
                self.configuration.k2_clone_strategies):
            enum = {'enum': list(spec.values)} if spec.values else {}
            self._set_property(
                properties, spec.key, spec.title, spec.description, 'string',
                default=default, **enum)
        return properties, volume_types.PREFIX

    def _update_volume_stats(self) -> None:
        """Refresh ``self._stats``; an array that does not reply is down."""
        self._stats = self._statistics.read({
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function()})

    # Exports are made when a host connects, and nothing needs to be done for
    # them when the service starts.

    def ensure_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: mappings outlive the service."""

    def create_export(self, context: typing.Any, volume: typing.Any,
                      connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection."""

    def remove_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: see terminate_connection."""

    def create_export_snapshot(self, context: typing.Any,
                               snapshot: typing.Any,
                               connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection_snapshot."""

    def remove_export_snapshot(self, context: typing.Any,
                               snapshot: typing.Any) -> None:
        """Nothing to do: see terminate_connection_snapshot."""

    @classmethod
    def clean_volume_file_locks(cls, volume_id: str) -> None:
        """Remove the lock files of a volume that Cinder has deleted."""
        locks.forget_volume(volume_id)

    def clean_snapshot_file_locks(self, snapshot_id: str) -> None:
        """Remove the lock files of a snapshot that Cinder has deleted."""
        locks.forget_snapshot(snapshot_id)

    # Choice of the array

    @contextlib.contextmanager
    def _on(self, choose: Callable[[], ArrayOperations]
            ) -> Iterator[ArrayOperations]:
        """Run one of Cinder's operations on the chosen array.

        :param choose: returns the array; its errors are translated, too
        """
        with errors.translated():
            chosen = choose()
        with errors.operation(chosen.array):
            yield chosen

    def _on_active(self) -> OnArray:
        """Run on the array where new objects are created."""
        return self._on(lambda: self._arrays.active)

    def _on_active_with(self, source: Row) -> OnArray:
        """Run on the active array, for an object made from a row.

        :param source: the row; None for an object that is not made from one
        :raises VolumeBackendAPIException: another array has the row
        """
        return self._on(lambda: self._arrays.active if source is None
                        else self._arrays.with_source(source))

    def _on_array_of(self, row: Row) -> OnArray:
        """Run on the array that has a row; on the active one for None."""
        return self._on(lambda: self._arrays.active if row is None
                        else self._arrays.of(row))

    def _on_current_array_of(self, row: Row) -> OnArray:
        """Run on the array that has a row, after reading the row again."""
        return self._on(lambda: self._current_array_of(row))

    def _on_common_array_of(self, rows: Iterable[Row]) -> OnArray:
        """Run on the array that has all rows, after reading them again.

        :raises InvalidGroup: several arrays have them
        """
        return self._on(lambda: self._common_array_of(rows))

    def _current_array_of(self, row: Row) -> ArrayOperations:
        """The array that has a row, after reading it again.

        The caller may have read the row before a failover.
        """
        self._renew(row)
        return self._arrays.of(row)

    def _common_array_of(self, rows: Iterable[Row]) -> ArrayOperations:
        """The array that has all rows.

        :raises GroupNotSupported: several arrays have them
        """
        found = self._by_array(rows)
        if len(found) > 1:
            places = ', '.join(each.array.address for each in found)
            raise exceptions.GroupNotSupported(
                f'its volumes are on different arrays: {places}. Fail '
                'them over, or back, to one of them first.')
        return next(iter(found), self._arrays.active)

    def _on_each(self, group: Row, volumes: Sequence[Row],
                 act: Callable[[ArrayOperations, list[Row]], tuple[
                     resolver.ModelUpdate, Updates]]
                 ) -> tuple[resolver.ModelUpdate, Updates]:
        """Run on each array that has volumes of a group.

        :returns: the update of the group, one with an error if there is one;
            and those of the volumes
        :raises GroupNotSupported: several arrays have volumes of a replicated
            consistency group
        """
        found = self._by_array(volumes) or {self._arrays.active: []}
        if len(found) > 1 and placement.is_consistent(group) and any(
                provider_id.is_replicated(row.provider_id) for row in volumes):
            raise exceptions.GroupNotSupported(
                'its volumes are on different arrays; fail them over, or '
                'back, to one of them first.')
        done = []
        for chosen, rows in found.items():
            with chosen.array.deadline():
                done.append(act(chosen, rows))
        worst = next((one for one, _ in done if 'error' in (
            one.get('status'), one.get('replication_status'))), done[0][0])
        return worst, [update for _, rows in done for update in rows]

    def _on_others(self, those: Collection[ArrayOperations], what: str,
                   clear: Callable[[ArrayOperations], None]) -> None:
        """Clean up on all arrays but those, as far as possible.

        :param what: the row whose objects are removed, for the log
        :param clear: removes them from one array
        """
        for other in self._arrays.others(those):
            try:
                with errors.translated(), other.array.cleanup_deadline():
                    clear(other)
            except exception.CinderException as error:
                LOG.warning('Whether something of %(what)s is left on the '
                            'array at %(address)s is not known: %(error)s', {
                                'what': what, 'error': error,
                                'address': other.array.address})

    def _by_array(self, rows: Iterable[Row]
                  ) -> dict[ArrayOperations, list[Row]]:
        """Rows by the array that has them now."""
        found: dict[ArrayOperations, list[Row]] = {}
        for row in rows:
            found.setdefault(self._current_array_of(row), []).append(row)
        return found

    def _renew(self, row: Row) -> None:
        """Update the array ids in a row; the rest stays as it is."""
        if self._arrays.targets:
            writes.renew(row)

    def _check_group(self, volume: Row) -> None:
        """Check that the active array has a new volume's group.

        :raises GroupNotSupported: another one has volumes of it
        """
        if not (self._arrays.targets and volume.group_id
                and placement.is_consistent(volume.group)):
            return
        active = self._arrays.active
        for row in volume.group.volumes:
            other = self._arrays.of(row)
            if other is not active:
                raise exceptions.GroupNotSupported(
                    f'its volumes are on the array at {other.array.address}, '
                    'and new ones are made on that at '
                    f'{active.array.address}. Fail the back end over to the '
                    'first, or back, and try again.')


def _peer(backend_id: str, other: ArrayOperations, address: str, rpo: int
          ) -> resolver.Peer:
    """An array, as seen by another one."""
    return resolver.Peer(backend_id, other.array, address, rpo,
                         other.deletion.release_copies,
                         other.deletion.leave_copies)


def _changed(group: Row, added: Sequence[Row] | None,
             removed: Sequence[Row] | None) -> list[Row]:
    """Rows that show on which array a group is updated.

    Volumes that leave may be on another array than the rest of the group, if
    none join; those that were never created are on none. Volumes that join
    must be on the array of the group.
    """
    leaving = [row for row in removed or () if row.provider_id]
    if leaving and not added:
        return leaving
    return [*(added or ()), *leaving, *(row for row in group.volumes
                                        if row.provider_id)]
