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

"""Finding and locking the host of a connector on one array."""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import typing

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import hosts as array_hosts
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import zoning as zones
from cinder_k2.flows import chap
from cinder_k2 import naming
from cinder_k2 import transport

#: Key in the connectors of connections over which Cinder itself copies data:
#: these have no attachment row.
INTERNAL = 'k2_internal'


class Fabric(typing.NamedTuple):
    """How hosts reach one array.

    :ivar zoning: zone manager calls
    :ivar protection: CHAP of hosts, None over Fibre Channel
    """

    transport: transport.Transport
    zoning: zones.Zoning
    protection: chap.Chap | None


class HostAccess:
    """Finds and holds the hosts of connectors on one array.

    Each host is locked by its initiators while it is looked up and changed, so
    operations on different hosts never wait for each other. Volumes of one
    host are mapped and unmapped concurrently, see ``host_holds``.

    :param initiators: the transport, which finds the initiators in connectors
    :param unique_fqdn_network: the option of Cinder with this name
    """

    def __init__(self, array: Array, initiators: transport.Transport,
                 unique_fqdn_network: bool) -> None:
        self._array = array
        self._transport = initiators
        self._unique_fqdn_network = unique_fqdn_network
        self._holds = host_holds.HostHolds()

    @property
    def registry(self) -> array_hosts.Hosts:
        """The hosts of the array, as this transport sees them."""
        return self._transport.hosts(self._array)

    def sought(self, connector: transport.Connector) -> host_identity.Sought:
        """The host of a connector to look for, by initiators and names.

        Both this driver and the in-tree driver name hosts according to
        ``unique_fqdn_network``.
        """
        initiators = self._transport.initiators(connector)
        first = connector.get('initiator') or (
            connector.get('wwnns') or [''])[0]
        other = (connector.get('host', first) if self._unique_fqdn_network
                 else first[::-1])
        own, *former = self._transport.host_names(connector,
                                                  self._unique_fqdn_network)
        return host_identity.Sought(
            tuple(initiators),
            tuple(filter(None, (own, naming.in_tree_host(other)))),
            tuple(former))

    @contextlib.contextmanager
    def held(self, initiators: Iterable[str],
             what: host_holds.Subject | None = None,
             timeout: float | None = None, *, alone: bool = False
             ) -> Iterator[host_holds.Hold]:
        """Hold a host; the array's deadline begins when it is held.

        :param what: as for ``HostHolds.hold``
        :param timeout: as for ``HostHolds.hold``. If given, something waits
            for the caller, so the array's deadline is short, too.
        :param alone: as for ``HostHolds.hold``
        :raises LockTimeout: others held it too long
        """
        with self._holds.hold(
                self._array.system.id, list(initiators), what, timeout,
                alone=alone
        ) as hold, (self._array.deadline(fresh=True) if timeout is None
                    else self._array.probe_deadline()):
            yield hold


def subject(volume: typing.Any, backing: ArrayVolume | None = None
            ) -> host_holds.Subject | None:
    """The subject of an attach or detach; None without volume and backing.

    Operations on the same subject exclude each other, because attachments of
    one volume to one host share a mapping.
    """
    if volume is not None:
        return host_holds.Subject(str(volume.id), has_row=True)
    if backing is None:
        return None
    return host_holds.Subject(str(backing.mappable), has_row=False)
