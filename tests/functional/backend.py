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

"""One back end: cinder-volume's manager with our driver, and Cinder's API.

Every operation goes through ``cinder.volume.api.API``, which sets the states
of the rows, and the manager, which calls the driver. A direct call replaces
the message bus between the two.
"""

from collections.abc import Callable
import contextlib
import functools
import itertools
from typing import Any
import uuid

from cinder.cmd import volume as cmd_volume
from cinder.db import api as db_api
from cinder import exception
from cinder.group import api as group_api
from cinder import objects
from cinder import service
from cinder.volume import api as volume_api
from cinder.volume import group_types
from cinder.volume import volume_types
from oslo_config import cfg

from cinder_k2.driver import base
from tests.functional import cinder_env
from tests.functional import cloud

DRIVERS = {'iscsi': 'cinder_k2.driver.K2ISCSIDriver',
           'fc': 'cinder_k2.driver.K2FCDriver'}

# A group type with consistent snapshots.
CONSISTENT = {'consistent_group_snapshot_enabled': '<is> True'}

# Names of closed back ends are reused, because Cinder never forgets a section
# of cinder.conf that it has loaded.
_numbers = itertools.count(1)
_free_names: list[str] = []


class OperationFailed(Exception):
    """An operation failed.

    :ivar row: the object's current row; None if it was deleted
    :ivar status: the status of the row; ``gone`` without a row
    :ivar cause: what the manager raised; None if it only set a status
    """

    def __init__(self, what: str, row: Any, cause: BaseException | None
                 ) -> None:
        status = row.status if row is not None else 'gone'
        super().__init__(f'{what}: row is {status}; {cause!r}')
        self.row = row
        self.status = status
        self.cause = cause


class _Bus:
    """Replaces the message bus: calls the manager directly.

    A cast stores the manager's exception in ``errors``; a call raises it, as
    on a message bus.
    """

    def __init__(self, manager: Any, pool: str, cluster: str | None) -> None:
        self.manager = manager
        self.pool = pool
        self._cluster = cluster
        self.errors: dict[str, BaseException] = {}

    def _cast(self, row: Any, method: str, *args: Any) -> None:
        try:
            getattr(self.manager, method)(*args)
        except Exception as error:
            self.errors[row.id] = error
        cloud.deliver()

    def create_volume(self, ctxt: Any, volume: Any, snapshot_id: Any = None,
                      image_id: Any = None, request_spec: Any = None,
                      filter_properties: Any = None, backup_id: Any = None
                      ) -> None:
        """Replace the scheduler, too: there is only one back end."""
        volume.host = self.pool
        volume.cluster_name = self._cluster
        volume.save()
        self._cast(volume, 'create_volume', ctxt, volume, request_spec,
                   filter_properties, False)

    def delete_volume(self, ctxt: Any, volume: Any, unmanage_only: bool,
                      cascade: bool) -> None:
        self._cast(volume, 'delete_volume', ctxt, volume, unmanage_only,
                   cascade)

    def extend_volume(self, ctxt: Any, volume: Any, new_size: int,
                      reservations: Any, request_spec: Any = None) -> None:
        self._cast(volume, 'extend_volume', ctxt, volume, new_size,
                   reservations)

    def create_snapshot(self, ctxt: Any, volume: Any, snapshot: Any,
                        backend: Any = None, request_spec: Any = None,
                        filter_properties: Any = None) -> None:
        self._cast(snapshot, 'create_snapshot', ctxt, snapshot)

    def delete_snapshot(self, ctxt: Any, snapshot: Any,
                        unmanage_only: bool = False) -> None:
        self._cast(snapshot, 'delete_snapshot', ctxt, snapshot,
                   unmanage_only)

    def copy_volume_to_image(self, ctxt: Any, volume: Any, image_meta: Any
                             ) -> None:
        self._cast(volume, 'copy_volume_to_image', ctxt, volume.id,
                   image_meta)

    def reimage(self, ctxt: Any, volume: Any, image_meta: Any,
                **image_snap: Any) -> None:
        """Reimage; Cinder 24 (2024.1) does not pass ``image_snap``."""
        self._cast(volume, 'reimage', ctxt, volume, image_meta,
                   *image_snap.values())

    def migrate_volume(self, ctxt: Any, volume: Any, backend: str,
                       force_copy: bool, request_spec: Any) -> None:
        """Replace the scheduler, too, which accepts everything."""
        self._cast(volume, 'migrate_volume', ctxt, volume,
                   cloud.destination(cloud.backend_of(backend)), force_copy)

    def retype(self, ctxt: Any, volume: Any, request_spec: Any,
               filter_properties: Any) -> None:
        """Replace the scheduler, too: the type names the back end."""
        kind = request_spec['volume_type']
        self._cast(volume, 'retype', ctxt, volume, kind.id,
                   cloud.destination(cloud.named(
                       kind.extra_specs['volume_backend_name'])),
                   request_spec['migration_policy'] or 'never')

    def migrate_volume_completion(self, ctxt: Any, volume: Any,
                                  new_volume: Any, error: bool) -> Any:
        kept = self.manager.migrate_volume_completion(ctxt, volume,
                                                      new_volume, error)
        cloud.deliver()
        return kept

    def manage_existing(self, ctxt: Any, volume: Any, request_spec: Any
                        ) -> None:
        """Replace the scheduler, too."""
        volume.host = self.pool
        volume.save()
        self._cast(volume, 'manage_existing', ctxt, volume,
                   request_spec['ref'])

    def manage_existing_snapshot(self, ctxt: Any, volume: Any, snapshot: Any,
                                 ref: Any, request_spec: Any) -> None:
        """Replace the scheduler, too."""
        self._cast(snapshot, 'manage_existing_snapshot', ctxt, snapshot, ref)

    def get_manageable_volumes(self, ctxt: Any, service: Any, *page: Any
                               ) -> Any:
        return self.manager.get_manageable_volumes(ctxt, *page,
                                                   want_objects=True)

    def get_manageable_snapshots(self, ctxt: Any, service: Any, *page: Any
                                 ) -> Any:
        return self.manager.get_manageable_snapshots(ctxt, *page,
                                                     want_objects=True)

    def revert_to_snapshot(self, ctxt: Any, volume: Any, snapshot: Any
                           ) -> None:
        self._cast(volume, 'revert_to_snapshot', ctxt, volume, snapshot)

    def create_group(self, ctxt: Any, group: Any, **specs: Any) -> None:
        """Replace the scheduler, too."""
        group.host = self.pool
        group.save()
        self._cast(group, 'create_group', ctxt, group)

    def validate_host_capacity(self, ctxt: Any, backend: str,
                               request_spec: Any) -> bool:
        """Replace the scheduler."""
        return True

    def create_group_from_src(self, ctxt: Any, group: Any,
                              group_snapshot: Any = None,
                              source_group: Any = None) -> None:
        self._cast(group, 'create_group_from_src', ctxt, group,
                   group_snapshot, source_group)

    def delete_group(self, ctxt: Any, group: Any) -> None:
        self._cast(group, 'delete_group', ctxt, group)

    def update_group(self, ctxt: Any, group: Any, add_volumes: Any = None,
                     remove_volumes: Any = None) -> None:
        self._cast(group, 'update_group', ctxt, group, add_volumes,
                   remove_volumes)

    def create_group_snapshot(self, ctxt: Any, group_snapshot: Any) -> None:
        self._cast(group_snapshot, 'create_group_snapshot', ctxt,
                   group_snapshot)

    def delete_group_snapshot(self, ctxt: Any, group_snapshot: Any) -> None:
        self._cast(group_snapshot, 'delete_group_snapshot', ctxt,
                   group_snapshot)

    def determine_rpc_version_cap(self) -> str:
        return '3.19'

    def failover(self, ctxt: Any, service: Any,
                 secondary_backend_id: str | None = None) -> None:
        self.manager.failover(ctxt, secondary_backend_id)

    def enable_replication(self, ctxt: Any, group: Any) -> None:
        self._cast(group, 'enable_replication', ctxt, group)

    def disable_replication(self, ctxt: Any, group: Any) -> None:
        self._cast(group, 'disable_replication', ctxt, group)

    def failover_replication(self, ctxt: Any, group: Any,
                             allow_attached_volume: bool = False,
                             secondary_backend_id: str | None = None
                             ) -> None:
        self._cast(group, 'failover_replication', ctxt, group,
                   allow_attached_volume, secondary_backend_id)

    def list_replication_targets(self, ctxt: Any, group: Any) -> Any:
        return self.manager.list_replication_targets(ctxt, group)

    def attachment_update(self, ctxt: Any, volume: Any, connector: Any,
                          attachment_id: str) -> Any:
        return self.manager.attachment_update(ctxt, volume, connector,
                                              attachment_id)

    def attachment_delete(self, ctxt: Any, attachment_id: str,
                          volume: Any) -> None:
        self.manager.attachment_delete(ctxt, attachment_id, volume)

    def terminate_connection(self, ctxt: Any, volume: Any, connector: Any,
                             force: bool = False) -> None:
        self.manager.terminate_connection(ctxt, volume.id, connector, force)

    def detach_volume(self, ctxt: Any, volume: Any, attachment_id: Any
                      ) -> None:
        self.manager.detach_volume(ctxt, volume.id, attachment_id, volume)


def metered(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``Backend.meter`` count the REST calls of an operation."""
    @functools.wraps(operation)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.meter(operation.__name__):
            return operation(self, *args, **kwargs)
    return run


class Backend:
    """A back end of cinder.conf on one array.

    :param address: ``san_ip``
    :param port: ``san_api_port``
    :param protocol: "iscsi" or "fc", or the path of a driver class
    :param cluster: the cluster that this cinder-volume is a member of
    :param options: further options of the section; None leaves one out
    """

    def __init__(self, address: str, port: int | None, protocol: str,
                 cluster: str | None = None, **options: Any) -> None:
        self.meter: Callable[[str], Any] = (
            lambda operation: contextlib.nullcontext())
        self.cinder = cinder_env.cinder()
        self.context = self.cinder.context()
        self.name = (_free_names.pop() if _free_names
                     else f'k2-{next(_numbers)}')
        self.host = f'{self.cinder.host}@{self.name}'
        self.cluster = cluster and f'{cluster}@{self.name}'
        section = {
            'volume_driver': DRIVERS.get(protocol, protocol),
            'volume_backend_name': self.name, 'san_ip': address,
            'san_api_port': port, **options}
        self.cinder.set_section(
            self.name, {k: v for k, v in section.items() if v is not None})
        cfg.CONF.register_opt(cmd_volume.host_opt, group=self.name)
        self._managers: list[Any] = []
        self._at_first: tuple[Any, ...] = ()
        self._works: frozenset[str] = frozenset()
        self._types: dict[Any, Any] = {}
        self._group_types: dict[Any, str] = {}
        self._load()
        cloud.backends[self.host] = self

    def _load(self) -> None:
        self._service = service.Service.create(
            host=self.host, service_name=self.name, binary='cinder-volume',
            cluster=self.cluster)
        self.manager = self._service.manager
        self._managers.append(self.manager)
        self._bus = _Bus(self.manager, f'{self.host}#{self.name}',
                         self.cluster and f'{self.cluster}#{self.name}')
        self._api = volume_api.API()
        self._api.volume_rpcapi = self._bus
        self._api.scheduler_rpcapi = self._bus
        self._group_api = group_api.API()
        self._group_api.volume_rpcapi = self._bus
        self._group_api.scheduler_rpcapi = self._bus
        self._group_api.volume_api = self._api
        if self.manager.image_volume_cache is not None:
            self.manager.image_volume_cache.volume_api = self._api

    def start(self) -> bool:
        """Start like cinder-volume; return whether the back end is up.

        The manager's reports to the scheduler are disabled afterwards,
        because they request statistics at unpredictable times.
        """
        self.manager.init_host(
            added_to_cluster=self._service.added_to_cluster,
            service_id=self._service.service_id)
        self.manager.init_host_with_rpc()
        self.manager.publish_service_capabilities = lambda context: None
        self._at_first = self._at_first or self._condition()
        self._works = self._works or self._verdicts('works')
        return bool(self.driver.initialized)

    def restart(self) -> bool:
        """Restart cinder-volume; return whether the back end is up."""
        self._load()
        return self.start()

    def close(self) -> None:
        """Stop, and remove the back end from Cinder."""
        for manager in self._managers:
            _finish(manager)
        del cloud.backends[self.host]
        self.cinder.forget_backend(self.name, [
            *(kind.id for kind in self._types.values()),
            *self._group_types.values()])
        _free_names.append(self.name)

    def change_driver(self, protocol: str) -> bool:
        """Set another driver in the section, and restart."""
        return self.change(volume_driver=DRIVERS.get(protocol, protocol))

    def change(self, **options: Any) -> bool:
        """Set options in the section, and restart."""
        self.cinder.set_section(self.name, options)
        return self.restart()

    @property
    def driver(self) -> Any:
        """The driver object that the manager loaded."""
        return self.manager.driver

    @property
    def side(self) -> Any:
        """The driver's operations on the active array."""
        return self.driver._arrays.active

    def beat(self) -> None:
        """Count a report of the service, by which Cinder sees it alive."""
        row = objects.Service.get_by_args(self.context, self.host,
                                          'cinder-volume')
        row.report_count += 1
        row.save()

    @property
    def api(self) -> Any:
        """Cinder's API, to simulate other services."""
        return self._api

    @property
    def service_id(self) -> int:
        """The id of the service's row."""
        return int(self._service.origin_service_id)

    def report(self) -> None:
        """Report that the service is up, which is valid for a minute."""
        # Cinder supports one service per process: the last one started.
        service.Service.service_id = self.service_id
        self._service.report_state()

    @property
    def pool(self) -> str:
        """The host column of rows of this back end: host@section#pool."""
        return self._bus.pool

    def stats(self) -> dict[str, Any]:
        """Return fresh statistics, as reported to the scheduler."""
        result: dict[str, Any] = self.driver.get_volume_stats(refresh=True)
        return result

    # Volumes

    @metered
    def create_volume(self, size: int = 1, group: Any = None, **specs: str
                      ) -> Any:
        """Create a volume of ``size`` GiB.

        :param group: the group in which to create it
        :param specs: extra specs; ``__`` in names stands for a colon
        :raises OperationFailed: the volume is not available
        """
        return self._create(size, volume_type=self.volume_type(**specs),
                            **self._in_group(group))

    def _in_group(self, group: Any) -> dict[str, Any]:
        return {'group': self.group(group.id)} if group else {}

    @metered
    def volume_from_snapshot(self, snapshot: Any, size: int | None = None,
                             group: Any = None, **specs: str) -> Any:
        """Create a volume from a snapshot, by default of the same size."""
        return self._create(
            size or snapshot.volume_size, snapshot=snapshot,
            volume_type=self.volume_type(**specs) if specs or group else None,
            **self._in_group(group))

    @metered
    def clone(self, volume: Any, size: int | None = None,
              group: Any = None, **specs: str) -> Any:
        """Clone a volume, by default with the same size."""
        volume = self.volume(volume.id)
        return self._create(
            size or volume.size, source_volume=volume,
            volume_type=self.volume_type(**specs) if specs or group else None,
            **self._in_group(group))

    def _create(self, size: int, **kwargs: Any) -> Any:
        volume = self._api.create(self.context, size, 'name', 'text',
                                  **kwargs)
        return self._outcome('create volume', self.volume(volume.id),
                             'available', volume.id)

    def volume(self, volume_id: str) -> Any:
        """Return the current row of a volume."""
        return objects.Volume.get_by_id(self.context, volume_id)

    def volumes(self) -> list[Any]:
        """Return all volumes of this back end or its cluster, oldest first."""
        return list(objects.VolumeList.get_all(
            self.context, sort_keys=['created_at'], sort_dirs=['asc'],
            filters=self._ours))

    @metered
    def delete_volume(self, volume: Any, **kwargs: Any) -> None:
        """Delete a volume; raises OperationFailed if its row stays."""
        self._api.delete(self.context, self.volume(volume.id), **kwargs)
        self._gone('delete volume', self.volume, volume.id)

    @metered
    def extend_volume(self, volume: Any, size: int) -> Any:
        """Extend a volume to ``size`` GiB, attached or not."""
        volume = self.volume(volume.id)
        before = volume.status
        if before == 'in-use':
            self._api.extend_attached_volume(self.context, volume, size)
        else:
            self._api.extend(self.context, volume, size)
        return self._outcome('extend volume', self.volume(volume.id),
                             before, volume.id)

    @metered
    def migrate(self, volume: Any, to: 'Backend', *, force_copy: bool = False,
                lock: bool = False) -> Any:
        """Migrate a volume to another back end.

        The migration of an attached volume is still in progress when this
        returns; nova completes it.
        """
        volume = self.volume(volume.id)
        before = volume.status
        to.beat()
        self._api.migrate_volume(self.context, volume, to.pool, None,
                                 force_copy, lock)
        return self._moved('migrate', volume, before)

    @metered
    def retype(self, volume: Any, policy: str = 'never',
               to: 'Backend | None' = None, **specs: str) -> Any:
        """Retype a volume to a type with these extra specs.

        If an attached volume has to be migrated, the migration is still in
        progress when this returns.

        :param policy: the migration policy, ``never`` or ``on-demand``
        :param to: the back end that the type names, by default this one
        """
        volume = self.volume(volume.id)
        before = volume.status
        self._api.retype(self.context, volume,
                         (to or self).volume_type(**specs).id, policy)
        return self._moved('retype', volume, before)

    def _moved(self, what: str, volume: Any, before: str) -> Any:
        row = self.volume(volume.id)
        waiting = bool(row.volume_attachment) and (
            row.migration_status == 'migrating')
        return self._outcome(what, row, row.status if waiting else before,
                             volume.id)

    def volume_type(self, **specs: str) -> Any:
        """Return a volume type with these extra specs, created on first use.

        ``encryption`` is not an extra spec, but the encryption provider, such
        as "luks".
        """
        key = tuple(sorted(specs.items()))
        provider = specs.pop('encryption', None)
        if key not in self._types:
            extra = {'volume_backend_name': self.name, **{
                k.replace('__', ':'): v for k, v in specs.items()}}
            row = volume_types.create(self.context, str(uuid.uuid4()), extra)
            if provider:
                db_api.volume_type_encryption_create(
                    self.context, row['id'], {
                        'control_location': 'front-end', 'key_size': 256,
                        'cipher': 'aes-xts-plain64', 'provider': provider})
            self._types[key] = objects.VolumeType.get_by_id(self.context,
                                                            row['id'])
        return self._types[key]

    # Images

    @metered
    def volume_from_image(self, image: Any, size: int = 1, **specs: str
                          ) -> Any:
        """Create a volume from an image."""
        return self._create(size, image_id=image.id,
                            volume_type=self.volume_type(**specs))

    @metered
    def upload(self, volume: Any, disk_format: str) -> str:
        """Upload a volume, attached or not, to an image; return its id."""
        volume = self.volume(volume.id)
        before = volume.status
        image_id = self._api.copy_volume_to_image(
            self.context, volume, {
                'name': 'image', 'disk_format': disk_format,
                'container_format': 'bare'}, force=True)['image_id']
        self._outcome('upload', self.volume(volume.id), before, volume.id)
        return str(image_id)

    @metered
    def reimage(self, volume: Any, image: Any) -> Any:
        """Write another image over a volume."""
        self._api.reimage(self.context, self.volume(volume.id), image.id)
        return self._outcome('reimage', self.volume(volume.id), 'available',
                             volume.id)

    # Snapshots

    @metered
    def create_snapshot(self, volume: Any) -> Any:
        """Create a snapshot of a volume, attached or not."""
        snapshot = self._api.create_snapshot_force(
            self.context, self.volume(volume.id), 'name', 'text')
        return self._outcome('create snapshot', self.snapshot(snapshot.id),
                             'available', snapshot.id)

    def snapshot(self, snapshot_id: str) -> Any:
        """Return the current row of a snapshot."""
        return objects.Snapshot.get_by_id(self.context, snapshot_id)

    def snapshots(self) -> list[Any]:
        """Return all snapshots of this back end or cluster, oldest first."""
        return list(objects.SnapshotList.get_all(self.context, self._ours))

    @property
    def _ours(self) -> dict[str, str]:
        if self.cluster:
            return {'cluster_name': self.cluster}
        return {'host': self._bus.pool}

    @metered
    def delete_snapshot(self, snapshot: Any) -> None:
        """Delete a snapshot; raises OperationFailed if its row stays."""
        self._api.delete_snapshot(
            self.context, self.snapshot(snapshot.id), force=True)
        self._gone('delete snapshot', self.snapshot, snapshot.id)

    @metered
    def revert(self, volume: Any, snapshot: Any) -> Any:
        """Revert a volume to its snapshot.

        Cinder's REST API refuses this after an extend, although the manager
        supports it.
        """
        self._api.revert_to_snapshot(
            self.context, self.volume(volume.id), self.snapshot(snapshot.id))
        return self._outcome('revert', self.volume(volume.id), 'available',
                             volume.id)

    # Groups

    @metered
    def create_group(self, *types: Any, **specs: str) -> Any:
        """Create a group for volumes of these types, by default a plain type.

        :param specs: the specs of its group type; by default those for
            consistent snapshots
        """
        group = self._group_api.create(
            self.context, 'name', 'text', self.group_type(**specs),
            [t.id for t in types or (self.volume_type(),)])
        return self._outcome('create group', self.group(group.id),
                             'available', group.id)

    def group_type(self, **specs: str) -> str:
        """Return the id of a group type with these specs, created once."""
        specs = specs or CONSISTENT
        key = tuple(sorted(specs.items()))
        if key not in self._group_types:
            self._group_types[key] = group_types.create(
                self.context, str(uuid.uuid4()), specs)['id']
        return self._group_types[key]

    def group(self, group_id: str) -> Any:
        """Return the current row of a group."""
        return objects.Group.get_by_id(self.context, group_id)

    def groups(self) -> list[Any]:
        """Return all groups of this back end."""
        return list(objects.GroupList.get_all(
            self.context, filters={'host': self._bus.pool}))

    def members(self, group: Any) -> list[Any]:
        """Return the volumes of a group, oldest first."""
        return [v for v in self.volumes() if v.group_id == group.id]

    @metered
    def delete_group(self, group: Any) -> None:
        """Delete a group with all its volumes."""
        self._group_api.delete(self.context, self.group(group.id),
                               delete_volumes=True)
        self._gone('delete group', self.group, group.id)

    @metered
    def update_group(self, group: Any, add: Any = (), remove: Any = ()
                     ) -> Any:
        """Add volumes to a group, and remove others."""
        self._group_api.update(
            self.context, self.group(group.id), None, None,
            ','.join(v.id for v in add), ','.join(v.id for v in remove))
        return self._outcome('update group', self.group(group.id),
                             'available', group.id)

    @metered
    def group_from(self, source: Any) -> Any:
        """Create a group from a group or a group snapshot."""
        kind = ('source_group_id' if isinstance(source, objects.Group)
                else 'group_snapshot_id')
        group = self._group_api.create_from_src(
            self.context, 'name', 'text', **{kind: source.id})
        return self._outcome('create group', self.group(group.id),
                             'available', group.id)

    @metered
    def create_group_snapshot(self, group: Any) -> Any:
        """Create a snapshot of all volumes of a group."""
        made = self._group_api.create_group_snapshot(
            self.context, self.group(group.id), 'name', 'text')
        return self._outcome('create group snapshot',
                             self.group_snapshot(made.id), 'available',
                             made.id)

    def group_snapshot(self, group_snapshot_id: str) -> Any:
        """Return the current row of a group snapshot."""
        return objects.GroupSnapshot.get_by_id(self.context,
                                               group_snapshot_id)

    def group_snapshots(self) -> list[Any]:
        """Return all group snapshots of this back end."""
        return _snapshots_of(self.groups())

    @metered
    def delete_group_snapshot(self, group_snapshot: Any) -> None:
        """Delete a group snapshot with its snapshots."""
        self._group_api.delete_group_snapshot(
            self.context, self.group_snapshot(group_snapshot.id))
        self._gone('delete group snapshot', self.group_snapshot,
                   group_snapshot.id)

    # Attachments

    @metered
    def attach(self, volume: Any, connector: dict[str, Any],
               instance: str | None = None) -> Any:
        """Attach a volume as nova does; return the attachment.

        Its ``connection_info`` has the connection properties. A second
        attachment needs the same ``instance`` (live migration), unless the
        volume is multiattach.
        """
        attachment = self._api.attachment_create(
            self.context, self.volume(volume.id), instance,
            connector=dict(connector))
        return self._complete(attachment)

    def _complete(self, attachment: Any) -> Any:
        """Complete an attachment, as nova does once the guest has it."""
        attachment.attach_status = 'attached'
        attachment.save()
        volume = self.volume(attachment.volume_id)
        volume.update({'status': 'in-use', 'attach_status': 'attached'})
        volume.save()
        return self.attachment(attachment.id)

    def attachment(self, attachment_id: str) -> Any:
        """Return the current row of an attachment."""
        return objects.VolumeAttachment.get_by_id(self.context,
                                                  attachment_id)

    @metered
    def detach(self, attachment: Any) -> None:
        """Delete one attachment."""
        self._api.attachment_delete(self.context,
                                    self.attachment(attachment.id))

    @metered
    def force_detach(self, volume: Any) -> None:
        """End all attachments, without a connector, as an operator may."""
        volume = self.volume(volume.id)
        self._api.terminate_connection(self.context, volume, None,
                                       force=True)
        for attachment in volume.volume_attachment:
            self._api.detach(self.context, self.volume(volume.id),
                             attachment.id)

    # Existing objects on the array

    @metered
    def manage(self, reference: dict[str, Any], **specs: str) -> Any:
        """Manage a volume of the array."""
        self.report()
        kind = volume_types.get_volume_type(
            self.context, self.volume_type(**specs).id)
        volume = self._api.manage_existing(self.context, self.host, None,
                                           reference, 'name', 'text', kind)
        return self._outcome('manage', self.volume(volume.id), 'available',
                             volume.id)

    @metered
    def unmanage(self, volume: Any) -> None:
        """Unmanage a volume."""
        self._api.delete(self.context, self.volume(volume.id),
                         unmanage_only=True)
        self._gone('unmanage', self.volume, volume.id)

    @metered
    def manage_snapshot(self, volume: Any, reference: dict[str, Any]) -> Any:
        """Manage a snapshot of a volume."""
        self.report()
        snapshot = self._api.manage_existing_snapshot(
            self.context, reference, self.volume(volume.id), 'name', 'text')
        return self._outcome('manage snapshot', self.snapshot(snapshot.id),
                             'available', snapshot.id)

    @metered
    def unmanage_snapshot(self, snapshot: Any) -> None:
        """Unmanage a snapshot."""
        self._api.delete_snapshot(
            self.context, self.snapshot(snapshot.id), unmanage_only=True)
        self._gone('unmanage snapshot', self.snapshot, snapshot.id)

    @metered
    def manageable(self, **page: Any) -> list[Any]:
        """Return Cinder's list of the array's volumes, as one page."""
        return self._manageable(self._api.get_manageable_volumes, page)

    @metered
    def manageable_snapshots(self, **page: Any) -> list[Any]:
        """Return Cinder's list of the array's snapshots, as one page."""
        return self._manageable(self._api.get_manageable_snapshots, page)

    def _manageable(self, ask: Any, page: dict[str, Any]) -> list[Any]:
        self.report()
        # The web server always passes all of these.
        return list(ask(self.context, self.host, None, **{
            'limit': 1000, 'sort_keys': ['reference'], 'sort_dirs': ['asc'],
            **page}))

    # Cleanup

    def delete_everything(self) -> None:
        """Delete all objects of this back end, in any order that works.

        :raises OperationFailed: an object cannot be deleted
        """
        for volume in self.volumes():
            for attachment in volume.volume_attachment:
                self.detach(attachment)
        rows, idle = self._rows(), 0
        while rows and idle < 3:
            failures = [f for f in map(self._try_to_delete, rows)
                        if f is not None]
            before, rows = rows, self._rows()
            # A failed deletion of a group may have deleted members on the
            # array, although Cinder keeps their rows.
            idle = 0 if len(rows) < len(before) else idle + 1
        if rows:
            raise failures[0]

    def _rows(self) -> list[Any]:
        groups = self.groups()
        return [*_snapshots_of(groups),
                *[s for s in self.snapshots() if not s.group_snapshot_id],
                *groups,
                *[v for v in self.volumes() if not v.group_id]]

    def _try_to_delete(self, row: Any) -> OperationFailed | None:
        try:
            if isinstance(row, objects.Volume):
                self.delete_volume(row, force=True)
            else:
                self._delete[type(row)](self, row)
        except OperationFailed as failure:
            return failure
        except (exception.InvalidVolume, exception.InvalidGroup) as error:
            # It has a snapshot that could not be deleted.
            return OperationFailed('delete', row, error)
        return None

    _delete = {objects.Snapshot: delete_snapshot,
               objects.GroupSnapshot: delete_group_snapshot,
               objects.Group: delete_group}

    # Replication

    @metered
    def fail_over(self, target: str | None = None) -> Any:
        """Run "cinder failover-host"; return the row of the service."""
        self._api.failover(self.context, None if self.cluster else self.host,
                           self.cluster, target)
        return self.service()

    def fail_back(self) -> Any:
        """Fail the back end back to its primary."""
        return self.fail_over('default')

    def enable(self) -> None:
        """Run "cinder service-enable": a failover disables the service."""
        row = self.service()
        row.update({'disabled': False, 'disabled_reason': None})
        row.save()

    def service(self) -> Any:
        """Return the row of the service."""
        return objects.Service.get_by_args(self.context, self.host,
                                           'cinder-volume')

    @metered
    def enable_replication(self, group: Any) -> Any:
        """Replicate a group."""
        return self._replicate(group, 'enable_replication', 'enabled')

    @metered
    def disable_replication(self, group: Any) -> Any:
        """End the replication of a group."""
        return self._replicate(group, 'disable_replication', 'disabled')

    @metered
    def failover_group(self, group: Any, target: str | None = None, *,
                       attached: bool = False) -> Any:
        """Fail over a group."""
        return self._replicate(
            group, 'failover_replication',
            'enabled' if target == 'default' else 'failed-over', attached,
            target)

    def _replicate(self, group: Any, what: str, good: str, *args: Any) -> Any:
        getattr(self._group_api, what)(self.context, self.group(group.id),
                                       *args)
        row = self.group(group.id)
        cause = self._bus.errors.pop(group.id, None)
        if cause is not None or row.replication_status != good:
            raise OperationFailed(what, row, cause)
        return row

    def replication_targets(self, group: Any) -> Any:
        """Return Cinder's list of replication targets for a group."""
        return self._group_api.list_replication_targets(
            self.context, self.group(group.id))['replication_targets']

    def is_settled(self) -> bool:
        """Return whether the service is in its initial state.

        That includes the verdicts: if faults of a test led to a refusal, the
        number of calls would differ in later tests.
        """
        refused = self._verdicts('refused')
        return (self._condition() == self._at_first
                and self._works.isdisjoint(refused))

    def _verdicts(self, state: str) -> frozenset[str]:
        """Return the capabilities with this verdict in the service."""
        if not (self.driver.initialized
                and isinstance(self.driver, base.K2Driver)):
            return frozenset()
        known = self.side._client.capabilities
        return frozenset(name for name, verdict in known.all().items()
                         if verdict.state == state)

    def _condition(self) -> tuple[Any, ...]:
        row = self.service()
        return (row.active_backend_id, row.replication_status, row.disabled,
                row.frozen)

    # Outcomes

    def _outcome(self, what: str, row: Any, good: str, key: str) -> Any:
        cause = self._bus.errors.pop(key, None)
        if cause is not None or row.status != good:
            raise OperationFailed(what, row, cause)
        return row

    def _gone(self, what: str, get: Any, key: str) -> None:
        cause = self._bus.errors.pop(key, None)
        try:
            row = get(key)
        except exception.NotFound:
            row = None
        if cause is not None or row is not None:
            raise OperationFailed(what, row, cause)


def _snapshots_of(groups: list[Any]) -> list[Any]:
    return [s for group in groups for s in group.group_snapshots]


def _finish(manager: Any) -> None:
    """Wait for the background tasks of a manager."""
    executor = getattr(manager, '_tpe', None)
    if executor is None:
        manager._tp.waitall()
        return
    # Do not wait for idle threads to end, which takes most of a second.
    executor._work_queue.join()
    executor.shutdown(wait=False)
