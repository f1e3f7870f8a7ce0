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

"""iSCSI: one target name, many portals (NET-1, NET-2)."""

from collections.abc import Sequence
import dataclasses
import ipaddress
import typing

from cinder_k2.array import Array
from cinder_k2.array import hosts
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import transport

PORT = 3260


@dataclasses.dataclass(frozen=True)
class Targets:
    """The portals of an array, as address and port, and its IQN."""

    iqn: str
    portals: tuple[str, ...]

    def properties(self, lun: int) -> dict[str, typing.Any]:
        """Connection information with every portal, always.

        Hosts without multipath log in to the first portal, so it is chosen by
        the LUN: the load is spread over all of them.
        """
        first = lun % len(self.portals)
        portals = [*self.portals[first:], *self.portals[:first]]
        return {'driver_volume_type': 'iscsi',
                'data': {'target_discovered': False,
                         'target_portal': portals[0],
                         'target_iqn': self.iqn,
                         'target_lun': lun,
                         'target_portals': portals,
                         'target_iqns': [self.iqn] * len(portals),
                         'target_luns': [lun] * len(portals)}}


class ISCSITransport:
    """iSCSI connections.

    :param cidrs: networks of the portals to use, in CIDR notation
    :raises ValueError: one of them is no network
    """

    def __init__(self, cidrs: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(c.strip(), strict=False)
                          for c in cidrs]

    def hosts(self, array: Array) -> hosts.Hosts:
        """Hosts by their IQNs."""
        return array.iscsi_hosts

    def check(self, array: Array) -> None:
        """Check that there are portals and a target name. One call.

        :raises ArrayNotSupported: there is no usable portal
        """
        self.targets(array, [])

    def initiators(self, connector: transport.Connector) -> list[str]:
        """The connector's IQN, as given there.

        :raises NoInitiators: it has none
        """
        iqn = connector.get('initiator')
        if not iqn:
            raise transport.NoInitiators('initiator')
        return [str(iqn)]

    def host_names(self, connector: transport.Connector, unique: bool
                   ) -> list[str]:
        """As in the protocol: by its IQN alone where names are not unique.

        On an array that does not search for IQNs, a host is found by its name
        on the array only, and must be found whatever its host name is.
        """
        iqn, = self.initiators(connector)
        names = [naming.host(connector.get('host', ''), [iqn]),
                 naming.host_of_iqn(iqn)]
        return names if unique else names[::-1]

    def targets(self, array: Array, initiators: list[str]) -> Targets:
        """The usable portals, and the target name they share.

        :raises ArrayNotSupported: there is none
        """
        return Targets(iqn=array.system.target_iqn(),
                       portals=tuple(self._portals(array)))

    def _portals(self, array: Array) -> list[str]:
        portals = [_portal(a) for a in array.system.iscsi_addresses()
                   if self._allowed(ipaddress.ip_address(a))]
        if not portals:
            raise exceptions.ArrayNotSupported(
                f'The array at {array.address} has no iSCSI portal within '
                f'{", ".join(map(str, self._networks))}; correct '
                'k2_iscsi_cidrs or set up iSCSI addresses on the array.')
        return portals

    def _allowed(self, address: ipaddress.IPv4Address
                 | ipaddress.IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _portal(address: str) -> str:
    return (f'[{address}]:{PORT}' if ':' in address
            else f'{address}:{PORT}')
