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
of the rows, and the manager, which calls the driver. Between the two stands
a direct call where a cloud has its message bus.
"""

from collections.abc import Callable
import contextlib
import functools
import itertools
from typing import Any
import uuid

from cinder.cmd import volume as cmd_volume
from cinder import exception
from cinder import objects
from cinder import service
from cinder.volume import api as volume_api
from cinder.volume import volume_types
from oslo_config import cfg

from tests.functional import cinder_env

DRIVERS = {'iscsi': 'cinder_k2.driver.K2ISCSIDriver',
           'fc': 'cinder_k2.driver.K2FCDriver'}

_numbers = itertools.count(1)


class OperationFailed(Exception):
    """An operation ended badly.

    ``row`` is the object as the database has it now (None when it is gone),
    ``cause`` what the manager raised, None where it only set a state.
    """

    def __init__(self, what: str, row: Any, cause: BaseException | None
                 ) -> None:
        status = row.status if row is not None else 'gone'
        super().__init__(f'{what}: row is {status}; {cause!r}')
        self.row = row
        self.status = status
        self.cause = cause


class _Bus:
    """In place of the message bus: calls the manager, at once.

    Casts keep the manager's exception for whoever looks, as a cloud's log
    does; calls let it through, as the bus does.
    """

    def __init__(self, manager: Any, pool: str) -> None:
        self.manager = manager
        self.pool = pool
        self.errors: dict[str, BaseException] = {}

    def _cast(self, row: Any, method: str, *args: Any) -> None:
        try:
            getattr(self.manager, method)(*args)
        except Exception as error:
            self.errors[row.id] = error

    def create_volume(self, ctxt: Any, volume: Any, snapshot_id: Any = None,
                      image_id: Any = None, request_spec: Any = None,
                      filter_properties: Any = None, backup_id: Any = None
                      ) -> None:
        """Stand in for the scheduler, too: there is only one back end."""
        volume.host = self.pool
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
    :param options: further options of the section; None leaves one out
    """

    def __init__(self, address: str, port: int | None, protocol: str,
                 **options: Any) -> None:
        self.meter: Callable[[str], Any] = (
            lambda operation: contextlib.nullcontext())
        self.cinder = cinder_env.cinder()
        self.context = self.cinder.context()
        self.name = f'k2-{next(_numbers)}'
        self.host = f'{cinder_env.HOST}@{self.name}'
        section = {
            'volume_driver': DRIVERS.get(protocol, protocol),
            'volume_backend_name': self.name, 'san_ip': address,
            'san_api_port': port, **options}
        self.cinder.add_section(
            self.name, {k: v for k, v in section.items() if v is not None})
        cfg.CONF.register_opt(cmd_volume.host_opt, group=self.name)
        self._types: dict[Any, Any] = {}
        self._load()

    def _load(self) -> None:
        self._service = service.Service.create(
            host=self.host, service_name=self.name, binary='cinder-volume')
        self.manager = self._service.manager
        self._bus = _Bus(self.manager, f'{self.host}#{self.name}')
        self._api = volume_api.API()
        self._api.volume_rpcapi = self._bus
        self._api.scheduler_rpcapi = self._bus

    def start(self) -> bool:
        """Start as cinder-volume does; whether the back end is up.

        The manager's reports to the scheduler are stopped afterwards: they
        ask for statistics at times that no test can foresee.
        """
        self.manager.init_host(service_id=self._service.service_id)
        self.manager.init_host_with_rpc()
        self.manager.publish_service_capabilities = lambda context: None
        return bool(self.driver.initialized)

    def restart(self) -> bool:
        """Stop and start cinder-volume; whether the back end is up."""
        self._load()
        return self.start()

    def change_driver(self, protocol: str) -> bool:
        """Let the section name another driver, and restart."""
        self.cinder.add_section(self.name, {
            'volume_driver': DRIVERS.get(protocol, protocol)})
        return self.restart()

    @property
    def driver(self) -> Any:
        """The driver object that the manager loaded."""
        return self.manager.driver

    def stats(self) -> dict[str, Any]:
        """What the driver reports to the scheduler, fresh."""
        result: dict[str, Any] = self.driver.get_volume_stats(refresh=True)
        return result

    # Volumes

    @metered
    def create_volume(self, size: int = 1, **specs: str) -> Any:
        """A new volume of ``size`` GiB; ``specs`` are extra specs.

        In the names of extra specs ``__`` stands for a colon.
        """
        return self._create(size, volume_type=self.volume_type(**specs))

    @metered
    def volume_from_snapshot(self, snapshot: Any, size: int | None = None,
                             **specs: str) -> Any:
        """A new volume from a snapshot, of its size if none is given."""
        return self._create(
            size or snapshot.volume_size, snapshot=snapshot,
            volume_type=self.volume_type(**specs) if specs else None)

    @metered
    def clone(self, volume: Any, size: int | None = None, **specs: str
              ) -> Any:
        """A new volume from a volume, of its size if none is given."""
        volume = self.volume(volume.id)
        return self._create(
            size or volume.size, source_volume=volume,
            volume_type=self.volume_type(**specs) if specs else None)

    def _create(self, size: int, **kwargs: Any) -> Any:
        volume = self._api.create(self.context, size, 'name', 'text',
                                  **kwargs)
        return self._outcome('create volume', self.volume(volume.id),
                             'available', volume.id)

    def volume(self, volume_id: str) -> Any:
        """The volume as the database has it now."""
        return objects.Volume.get_by_id(self.context, volume_id)

    def volumes(self) -> list[Any]:
        """All volumes of this back end, oldest first."""
        return list(objects.VolumeList.get_all(
            self.context, sort_keys=['created_at'], sort_dirs=['asc'],
            filters={'host': self._bus.pool}))

    @metered
    def delete_volume(self, volume: Any, **kwargs: Any) -> None:
        """Delete; raises OperationFailed when the row stays."""
        self._api.delete(self.context, self.volume(volume.id), **kwargs)
        self._gone('delete volume', self.volume, volume.id)

    @metered
    def extend_volume(self, volume: Any, size: int) -> Any:
        """Grow to ``size`` GiB, attached or not."""
        volume = self.volume(volume.id)
        before = volume.status
        if before == 'in-use':
            self._api.extend_attached_volume(self.context, volume, size)
        else:
            self._api.extend(self.context, volume, size)
        return self._outcome('extend volume', self.volume(volume.id),
                             before, volume.id)

    def volume_type(self, **specs: str) -> Any:
        """A volume type with these extra specs, made when first asked."""
        key = tuple(sorted(specs.items()))
        if key not in self._types:
            extra = {'volume_backend_name': self.name, **{
                k.replace('__', ':'): v for k, v in specs.items()}}
            row = volume_types.create(self.context, str(uuid.uuid4()), extra)
            self._types[key] = objects.VolumeType.get_by_id(self.context,
                                                            row['id'])
        return self._types[key]

    # Snapshots

    @metered
    def create_snapshot(self, volume: Any) -> Any:
        """A snapshot, also of an attached volume."""
        snapshot = self._api.create_snapshot_force(
            self.context, self.volume(volume.id), 'name', 'text')
        return self._outcome('create snapshot', self.snapshot(snapshot.id),
                             'available', snapshot.id)

    def snapshot(self, snapshot_id: str) -> Any:
        """The snapshot as the database has it now."""
        return objects.Snapshot.get_by_id(self.context, snapshot_id)

    def snapshots(self) -> list[Any]:
        """All snapshots of this back end, oldest first."""
        return list(objects.SnapshotList.get_all(
            self.context, {'host': self._bus.pool}))

    @metered
    def delete_snapshot(self, snapshot: Any) -> None:
        """Delete; raises OperationFailed when the row stays."""
        self._api.delete_snapshot(
            self.context, self.snapshot(snapshot.id), force=True)
        self._gone('delete snapshot', self.snapshot, snapshot.id)

    # Attachments

    @metered
    def attach(self, volume: Any, connector: dict[str, Any],
               instance: str | None = None) -> Any:
        """Attach as nova does; ``connection_info`` has the properties.

        A second attachment of a volume needs the same ``instance`` (live
        migration).
        """
        attachment = self._api.attachment_create(
            self.context, self.volume(volume.id), instance,
            connector=dict(connector))
        return self._complete(attachment)

    def _complete(self, attachment: Any) -> Any:
        """Do what the API does when nova says that the guest has it."""
        attachment.attach_status = 'attached'
        attachment.save()
        volume = self.volume(attachment.volume_id)
        volume.update({'status': 'in-use', 'attach_status': 'attached'})
        volume.save()
        return self.attachment(attachment.id)

    def attachment(self, attachment_id: str) -> Any:
        """The attachment as the database has it now."""
        return objects.VolumeAttachment.get_by_id(self.context,
                                                  attachment_id)

    @metered
    def detach(self, attachment: Any) -> None:
        """End one attachment."""
        self._api.attachment_delete(self.context,
                                    self.attachment(attachment.id))

    @metered
    def force_detach(self, volume: Any) -> None:
        """End all attachments without a connector, as an operator may."""
        volume = self.volume(volume.id)
        self._api.terminate_connection(self.context, volume, None,
                                       force=True)
        for attachment in volume.volume_attachment:
            self._api.detach(self.context, self.volume(volume.id),
                             attachment.id)

    # Clearing up

    def delete_everything(self) -> None:
        """Delete what the database still has, in any order that works.

        Raises OperationFailed when something cannot be deleted at all.
        """
        for volume in self.volumes():
            for attachment in volume.volume_attachment:
                self.detach(attachment)
        failures: list[OperationFailed] = []
        left = -1
        while len(self._rows()) != left:
            left = len(self._rows())
            failures = [f for f in map(self._try_to_delete, self._rows())
                        if f is not None]
        if failures:
            raise failures[0]

    def _rows(self) -> list[Any]:
        return [*self.snapshots(), *self.volumes()]

    def _try_to_delete(self, row: Any) -> OperationFailed | None:
        try:
            if isinstance(row, objects.Snapshot):
                self.delete_snapshot(row)
            else:
                self.delete_volume(row, force=True)
        except OperationFailed as failure:
            return failure
        except exception.InvalidVolume as error:
            # The volume has a snapshot that could not be deleted.
            return OperationFailed('delete volume', row, error)
        return None

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
