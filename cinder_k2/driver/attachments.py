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

"""Attach and detach."""

from collections.abc import Set
import dataclasses
import typing

from cinder import objects
from oslo_log import log as logging

from cinder_k2.array import Backing
from cinder_k2.driver import errors
from cinder_k2.driver import locks
from cinder_k2.driver import lookup
from cinder_k2 import exceptions
from cinder_k2.flows import hosts
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Disconnected:
    """What a detach did.

    :ivar shared: another attachment needs the mapping; it stays
    :ivar idle: initiators of hosts that have no volumes now
    """

    shared: bool = False
    idle: Set[str] = frozenset()


class AttachmentsMixin(lookup.LookupMixin):
    """Connections between volumes and hosts.

    Each host is locked by its initiators while it is looked up and changed,
    so hosts never wait for each other.
    """

    _transport: transport.Transport

    def validate_connector(self, connector: transport.Connector) -> None:
        """See that a connector has initiators of this back end's kind.

        :raises InvalidConnectorException: it has none
        """
        self._initiators(connector)

    @errors.translated
    def _initiators(self, connector: transport.Connector) -> list[str]:
        return self._transport.initiators(connector)

    def _connect(self, volume: typing.Any, connector: transport.Connector
                 ) -> dict[str, typing.Any]:
        """Map a volume to a host; what os-brick needs to reach it.

        Two calls; two more, and one for each initiator, if the array does
        not know the host.
        """
        initiators = self._initiators(connector)
        backing = self._backing(volume)
        registry = self._transport.hosts(self._array)
        with locks.hosts(self._array.system.id, initiators):
            lun = hosts.attach(
                self._array, registry, backing,
                found=registry.locate(initiators),
                name=naming.host(connector.get('host', ''), initiators),
                look_first=self._users_at(volume, initiators) > 0)
        return self._transport.properties(self._array, lun, initiators)

    def _disconnect(self, volume: typing.Any,
                    connector: transport.Connector | None) -> Disconnected:
        """Unmap a volume from a host, from all hosts without a connector.

        Three calls; more if the host, left without volumes, is removed.
        """
        try:
            backing = self._backing(volume)
        except exceptions.ObjectMissing as error:
            LOG.warning('Nothing to unmap for volume %(id)s: %(error)s',
                        {'id': volume.id, 'error': error})
            return Disconnected()
        if connector is None:
            return self._disconnect_all(backing)
        initiators = self._initiators(connector)
        with locks.hosts(self._array.system.id, initiators):
            if self._users_at(volume, initiators) > 1:
                return Disconnected(shared=True)
            return self._disconnect_host(
                backing, initiators, shared=len(self._users(volume)) > 1)

    def _disconnect_host(self, backing: Backing, initiators: list[str],
                         shared: bool) -> Disconnected:
        """Unmap from one host, which is locked."""
        registry = self._transport.hosts(self._array)
        host = (registry.locate(initiators).host
                or registry.locate_in_any_case(initiators).host)
        if host is not None and self._revoke(backing, host, shared):
            return Disconnected()
        return Disconnected(idle=set(initiators))

    def _disconnect_all(self, backing: Backing) -> Disconnected:
        """Unmap a volume from every host and host group."""
        registry = self._transport.hosts(self._array)
        idle: set[str] = set()
        for host in self._array.access.revoke_groups(backing):
            initiators = set(registry.initiators(host))
            with locks.hosts(self._array.system.id, initiators):
                if not self._revoke(backing, host):
                    idle |= initiators
        return Disconnected(idle=idle)

    def _revoke(self, backing: Backing, host: int,
                shared: bool = False) -> bool:
        """Unmap; whether the host still has volumes. The host is locked."""
        busy = self._array.access.revoke(backing, host, shared=shared)
        if not busy:
            self._remove_idle(host)
        return busy

    def _remove_idle(self, host: int) -> None:
        """Remove a host without volumes, if the driver once made it."""
        registry = self._transport.hosts(self._array)
        try:
            if registry.is_ours(host):
                hosts.remove(registry, host)
        except rest.RestError as error:
            # The volume is unmapped, which is what Cinder asked for.
            LOG.warning('Host %(host)s has no volumes left but stays on the '
                        'array: %(error)s', {'host': host, 'error': error})

    def _users_at(self, volume: typing.Any, initiators: list[str]) -> int:
        """How many attachments the volume has at the host of these."""
        names = _folded(initiators)
        return sum(not names.isdisjoint(user)
                   for user in self._users(volume))

    def _users(self, volume: typing.Any) -> list[set[str]]:
        """The initiators of each attachment of the volume, case folded.

        Read from the database: the row in hand may be older than the lock.
        """
        users = []
        for attachment in objects.VolumeAttachmentList.get_all_by_volume_id(
                volume._context, volume.id):
            try:
                users.append(_folded(self._transport.initiators(
                    attachment.connector or {})))
            except transport.NoInitiators:
                continue
        return users


def _folded(initiators: list[str]) -> set[str]:
    """For comparison: initiators have no case (INI-4, INI-5)."""
    return {initiator.lower() for initiator in initiators}
