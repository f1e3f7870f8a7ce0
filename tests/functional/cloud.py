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

"""Simulated parts of a cloud between back ends: bus, scheduler, nova.

Managers call each other through ``Rpc``, which replaces Cinder's own class as
soon as this module is imported. As on a bus, objects are passed as copies.
"""

from collections.abc import Callable
import copy
import functools
import subprocess  # nosec B404
from typing import Any
from unittest import mock

from cinder import compute
from cinder import objects
from cinder.objects import base as objects_base
from cinder.scheduler import host_manager
from cinder.volume import rpcapi
from cinder.volume import volume_utils
from oslo_log import log as logging
from oslo_utils import timeutils

LOG = logging.getLogger(__name__)

# The back ends of the process, by host.
backends: dict[str, Any] = {}

_undelivered: list[Callable[[], None]] = []


def backend_of(place: str) -> Any:
    """Return the back end of a host, which may include the pool."""
    return backends[volume_utils.extract_host(place)]


def deliver() -> None:
    """Process pending casts between managers."""
    while _undelivered:
        _undelivered.pop(0)()


def named(name: str) -> Any:
    """Return the back end with that volume_backend_name."""
    return next(b for b in backends.values() if b.name == name)


class Rpc(rpcapi.VolumeAPI):  # type: ignore[misc]
    """Replaces Cinder's RPC client for managers.

    Managers poll until a volume is created, so creations run at once;
    deletions wait for ``deliver``. Methods that are not overridden do not
    work, as there is no bus.
    """

    def __init__(self) -> None:
        pass

    def create_volume(self, ctxt: Any, volume: Any, request_spec: Any,
                      filter_properties: Any, allow_reschedule: bool = True
                      ) -> None:
        self._cast(volume.service_topic_queue, 'create_volume', ctxt, volume,
                   request_spec, filter_properties, allow_reschedule)

    def delete_volume(self, ctxt: Any, volume: Any,
                      unmanage_only: bool = False, cascade: bool = False
                      ) -> None:
        _undelivered.append(functools.partial(
            self._cast, volume.service_topic_queue, 'delete_volume', ctxt,
            _sent(ctxt, volume), unmanage_only, cascade))

    def initialize_connection(self, ctxt: Any, volume: Any, connector: Any
                              ) -> Any:
        return self._call(volume.service_topic_queue,
                          'initialize_connection', ctxt, volume, connector)

    def terminate_connection(self, ctxt: Any, volume: Any, connector: Any,
                             force: bool = False) -> None:
        self._call(volume.service_topic_queue, 'terminate_connection', ctxt,
                   volume.id, connector, force)

    def remove_export(self, ctxt: Any, volume: Any, sync: bool = False
                      ) -> None:
        self._cast(volume.service_topic_queue, 'remove_export', ctxt,
                   volume.id)

    def update_migrated_volume(self, ctxt: Any, volume: Any, new_volume: Any,
                               original_volume_status: str) -> None:
        self._call(new_volume.service_topic_queue, 'update_migrated_volume',
                   ctxt, volume, new_volume, original_volume_status)

    def failover_completed(self, ctxt: Any, service: Any, updates: Any
                           ) -> None:
        """Notify all members of a cluster."""
        for backend in list(backends.values()):
            if (backend.manager.service_topic_queue
                    == service.service_topic_queue):
                backend.manager.failover_completed(ctxt, updates)

    def get_capabilities(self, ctxt: Any, backend_id: str, discover: bool
                         ) -> Any:
        return self._call(backend_id, 'get_capabilities', ctxt, discover)

    def _call(self, place: str, method: str, ctxt: Any, *args: Any) -> Any:
        return getattr(backend_of(place).manager, method)(
            ctxt, *[_sent(ctxt, value) for value in args])

    def _cast(self, place: str, method: str, ctxt: Any, *args: Any) -> None:
        try:
            self._call(place, method, ctxt, *args)
        except Exception:
            LOG.exception('A cast failed; its sender is not notified.')


def _sent(ctxt: Any, value: Any) -> Any:
    """Return a value as received over a message bus."""
    serializer = objects_base.CinderObjectSerializer()
    return serializer.deserialize_entity(
        ctxt, serializer.serialize_entity(ctxt, value))


rpcapi.VolumeAPI = Rpc


def destination(backend: Any) -> dict[str, Any]:
    """Describe a back end as the scheduler does to a manager."""
    state = host_manager.BackendState(backend.host, None)
    stats = copy.deepcopy(backend.driver.get_volume_stats())
    stats['timestamp'] = timeutils.utcnow()
    state.update_from_volume_capability(stats)
    pool = state.pools[volume_utils.extract_host(backend.pool, 'pool')]
    return {'host': pool.host, 'cluster_name': pool.cluster_name,
            'capabilities': pool.capabilities}


class Nova:
    """Nova's part in the migration of an attached volume.

    Like nova, it accepts a request at once and carries it out later, in
    ``swap``.

    :param disks: the data, an object of ``tests.functional.disks.Disks``
    :param connector: connector properties of the compute host
    """

    def __init__(self, disks: Any, connector: dict[str, Any]) -> None:
        self._disks = disks
        self._connector = connector
        self._requests: list[tuple[Any, str, str, str]] = []

    def install(self, testcase: Any) -> None:
        """Replace nova for Cinder until the test ends."""
        patch = mock.patch.object(compute, 'API', lambda: self)
        patch.start()
        testcase.addCleanup(patch.stop)

    def update_server_volume(self, context: Any, server_id: str,
                             src_volid: str, new_volume_id: str) -> None:
        """Accept a request to swap volumes."""
        self._requests.append((context, server_id, src_volid, new_volume_id))

    def swap(self, guest: Callable[[str], None] = lambda path: None) -> None:
        """Switch each guest from its old volume to the new one.

        :param guest: called with the new disk as soon as the guest has it
        """
        while self._requests:
            old, new, attached, made = self._begin(*self._requests.pop())
            self._copy(attached, made)
            guest(self._path(made))
            backend_of(old.host).detach(attached)
            self._complete(old, new, error=False)

    def fail(self) -> None:
        """Fail all requests: guests keep their old volumes."""
        while self._requests:
            old, new, _, made = self._begin(*self._requests.pop())
            backend_of(old.host).api.roll_detaching(old._context, old)
            backend_of(new.host).detach(made)
            self._complete(old, new, error=True)

    def _begin(self, context: Any, instance: str, old_id: str, new_id: str
               ) -> tuple[Any, Any, Any, Any]:
        """Attach the new volume; return volumes and attachments."""
        old, new = [objects.Volume.get_by_id(context, key)
                    for key in (old_id, new_id)]
        attached = next(row for row in old.volume_attachment
                        if row.instance_uuid == instance)
        backend_of(old.host).api.begin_detaching(context, old)
        made = backend_of(new.host).attach(new, self._connector, instance)
        return old, new, attached, made

    def _copy(self, source: Any, target: Any) -> None:
        """Copy the data, as libvirt does while the guest runs."""
        subprocess.run(  # nosec B603 B607
            ['cp', '--sparse=always', self._path(source),
             self._path(target)], check=True)

    def _path(self, attachment: Any) -> str:
        found: str = self._disks.find(attachment.connection_info,
                                      self._connector)
        return found

    @staticmethod
    def _complete(old: Any, new: Any, error: bool) -> None:
        context = old._context
        backend_of(old.host).api.migrate_volume_completion(
            context, objects.Volume.get_by_id(context, old.id),
            objects.Volume.get_by_id(context, new.id), error)
