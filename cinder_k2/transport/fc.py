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

"""Fibre Channel: WWPNs on both sides, and zones between them."""

import dataclasses
import re
import typing

from cinder_k2.array import Array
from cinder_k2.array import hosts
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import transport

TargetMap = dict[str, list[str]]


class Lookup(typing.Protocol):
    """Cinder's FC SAN lookup service: the ports seen by the fabrics."""

    def get_device_mapping_from_network(
            self, initiators: list[str],
            targets: list[str]) -> dict[str, dict[str, list[str]]]:
        """By fabric: the initiators and targets that it sees."""


@dataclasses.dataclass(frozen=True)
class Targets:
    """Target WWPNs without colons, and which initiator sees which."""

    wwpns: tuple[str, ...]
    zones: TargetMap

    def properties(self, lun: int) -> dict[str, typing.Any]:
        """Connection information with the map for the zone manager."""
        return {'driver_volume_type': 'fibre_channel',
                'data': {'target_discovered': True,
                         'target_lun': lun,
                         'target_wwn': list(self.wwpns),
                         'target_luns': [lun] * len(self.wwpns),
                         'initiator_target_map': self.zones}}

    def unzoning(self) -> dict[str, typing.Any]:
        """Connection properties for the removal of the zones."""
        return {'driver_volume_type': 'fibre_channel',
                'data': {'target_wwn': list(self.wwpns),
                         'initiator_target_map': self.zones}}


class FCTransport:
    """Fibre Channel connections.

    :param lookup: returns the ports that the fabrics see; None assumes that
        every initiator sees every target
    """

    def __init__(self, lookup: Lookup | None) -> None:
        self._lookup = lookup

    def hosts(self, array: Array) -> hosts.Hosts:
        """Hosts by their WWPNs."""
        return array.fc_hosts

    def check(self, array: Array) -> None:
        """Check that there are target ports. One call.

        :raises ArrayNotSupported: there are none
        """
        if not array.system.fc_wwpns():
            raise exceptions.ArrayNotSupported(
                f'The array at {array.address} has no Fibre Channel target '
                'port; check its ports, or use the iSCSI driver.')

    def initiators(self, connector: transport.Connector) -> list[str]:
        """The connector's WWPNs in the array's form (INI-4).

        :raises NoInitiators: it has none
        """
        wwpns = connector.get('wwpns')
        if not wwpns:
            raise transport.NoInitiators('wwpns')
        if isinstance(wwpns, str):
            wwpns = [wwpns]
        return sorted({_with_colons(wwpn) for wwpn in wwpns})

    def host_names(self, connector: transport.Connector, unique: bool
                   ) -> list[str]:
        """As in the protocol: by its first WWNN where names are not unique.

        On an array that does not search for WWPNs, the host is compared only
        with hosts whose names differ from these in nothing but the digest.
        """
        wwpns = self.initiators(connector)
        names = [naming.host(connector.get('host', ''), wwpns)]
        node = (connector.get('wwnns') or [''])[0]
        if node:
            names.append(naming.host(_without_colons(node), wwpns))
        return names if unique else names[::-1]

    def targets(self, array: Array, initiators: list[str]) -> Targets:
        """The healthy target ports that these initiators see.

        :raises ArrayNotSupported: the array has no port at all
        """
        self.check(array)
        return self._seen(array.system.healthy_fc_wwpns(), initiators)

    def former_targets(self, array: Array, initiators: list[str]) -> Targets:
        """All target ports that these initiators may be zoned with."""
        return self._seen(array.system.fc_wwpns(), initiators)

    def _seen(self, wwpns: list[str], initiators: list[str]) -> Targets:
        wwpns, zones = self._zones([_without_colons(w) for w in wwpns],
                                   initiators)
        return Targets(tuple(wwpns), zones)

    def _zones(self, targets: list[str],
               initiators: list[str]) -> tuple[list[str], TargetMap]:
        """The targets that the initiators see, and who sees which."""
        names = [_without_colons(i) for i in initiators]
        if self._lookup is None:
            return targets, {name: list(targets) for name in names}
        zones: TargetMap = {}
        for fabric in self._lookup.get_device_mapping_from_network(
                names, targets).values():
            for name in fabric['initiator_port_wwn_list']:
                seen = zones.setdefault(_without_colons(name), [])
                seen.extend(_without_colons(t)
                            for t in fabric['target_port_wwn_list'])
        seen_by_any = {t for seen in zones.values() for t in seen}
        return [t for t in targets if t in seen_by_any], zones


def _without_colons(wwpn: str) -> str:
    return wwpn.replace(':', '').lower()


def _with_colons(wwpn: str) -> str:
    return ':'.join(re.findall('..', _without_colons(wwpn)))
