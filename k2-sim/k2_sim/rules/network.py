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

"""Addresses, port channels and VLANs: section 7.4."""

from collections.abc import Iterable
import ipaddress
import itertools
import re

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.state import catalogue
from k2_sim.state import hardware_resources
from k2_sim.state import schema
from k2_sim.state.schema import Row

NET_IPS = catalogue.NET_IPS.name
PORTS = catalogue.NET_PORTS.name
CHANNELS = catalogue.NET_PORTCHANNELS.name
VLANS = catalogue.NET_VLANS.name
# The role of ports for hosts and for replication (NET-3).
DATA = 'dataport'
_SERVERS = hardware_resources.SERVERS.name
_WAN_PORTS = catalogue.WAN_PORTS.name
_TAGS = range(1, 4095)
# The field that refers to an interface, by the interface's resource.
_ON = {PORTS: 'net_port', CHANNELS: 'net_portchannel', VLANS: 'net_vlan'}


def placed_on(interface: str) -> Row:
    """The fields by which an address or a VLAN refers to its interface."""
    resource, _ = schema.split_ref(interface)
    return {field: interface if name == resource else None
            for name, field in _ON.items()}


def net_ip(address: str, mask: str, interface: str,
           wan_port: str | None = None) -> Row:
    """The row of one address."""
    return {'ip_address': address, 'network_mask': mask,
            **placed_on(interface), 'wan_port': wan_port}


def add_wan_port(scope: Scope) -> str:
    """Add a WAN port with the first free name; returns its reference."""
    number = _free_number(scope.store.rows(_WAN_PORTS), 'wan')
    row = scope.store.insert(_WAN_PORTS, {'name': f'wan{number:02d}'})
    return schema.make_ref(_WAN_PORTS, row['id'])


def _free_number(rows: Iterable[Row], prefix: str) -> int:
    """The first number that makes an unused name with a prefix."""
    taken = {row['name'] for row in rows}
    return next(number for number in itertools.count(1)
                if f'{prefix}{number:02d}' not in taken)


def add_channel(scope: Scope, ports: tuple[Row, Row], **values: object
                ) -> Row:
    """Combine two ports of a node into one interface."""
    server = ports[0]['server']
    name = scope.store.at(server)['name']
    number = _free_number(scope.store.rows(CHANNELS), f'{name}-pc')
    refs = [schema.make_ref(PORTS, port['id']) for port in ports]
    return scope.store.insert(CHANNELS, {
        'name': f'{name}-pc{number:02d}', 'eth_name': f'bond{number - 1}',
        'net_port1': refs[0], 'net_port2': refs[1], 'server': server,
        **values})


def add_vlan(scope: Scope, interface: str, tag: int, **values: object
             ) -> Row:
    """Create a VLAN on a port or a port channel."""
    lower = scope.store.at(interface)
    eth_name = lower.get('eth_name', lower['name'])
    vlan = scope.store.insert('system/vlans', {'tag': tag})
    return scope.store.insert(VLANS, {
        'name': f'{lower["name"]}.{tag}', 'eth_name': f'{eth_name}.{tag}',
        'tag': str(tag), **placed_on(interface),
        'vlan': schema.make_ref('system/vlans', vlan['id']), **values})


def _carries(scope: Scope, interface: str) -> bool:
    """Whether addresses, VLANs or a port channel use an interface."""
    resource, _ = schema.split_ref(interface)
    return any(scope.store.count(name, field, interface) for name, field in (
        (NET_IPS, _ON[resource]), (VLANS, _ON[resource]),
        (CHANNELS, 'net_port1'), (CHANNELS, 'net_port2'))
        if name != resource)


def _check_own(scope: Scope, interface: str) -> None:
    """Refuse a port that is in a port channel, or is not a data port."""
    resource, _ = schema.split_ref(interface)
    port = scope.store.at(interface)
    if resource == PORTS and port['port_type'] != DATA:
        raise errors.refused(f'Port {port["name"]} is not a data port')
    for field in ('net_port1', 'net_port2'):
        for channel in scope.store.find(CHANNELS, field, interface):
            raise errors.refused(
                f'The port belongs to port channel {channel["name"]}')


class NetIpRules(base.Rules):
    """Addresses of the data ports and of replication (NET-1)."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Add an address; one for replication gets a WAN port."""
        address = _address(values['ip_address'])
        try:
            ipaddress.ip_network(f'{address}/{values["network_mask"]}',
                                 strict=False)
        except ValueError as exc:
            raise errors.refused('Not a network mask') from exc
        base.check_unique(
            scope, self.name, 'ip_address', address, 'Address')
        _check_own(scope, values['interface'])
        wan_port = None
        if values['service'] == 'Replication':
            wan_port = add_wan_port(scope)
        return super().create(scope, net_ip(
            address, values['network_mask'], values['interface'], wan_port))

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove an address, and with a replication address its WAN port."""
        super().delete(scope, row)
        if row['wan_port'] is not None:
            scope.store.remove(*schema.split_ref(row['wan_port']))


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as exc:
        raise errors.refused(f'Not an IP address: {text}') from exc


class ChannelRules(base.Rules):
    """Port channels: two free ports of a node as one interface.

    Which ports a node uses is not documented: here, the first two unused ones.
    """

    def create(self, scope: Scope, values: Row) -> Row:
        """Combine the first two free data ports of a node."""
        servers = scope.store.find(_SERVERS, 'name', values['knode'])
        if not servers:
            raise errors.refused(f'No such node: {values["knode"]}')
        server = schema.make_ref(_SERVERS, servers[0]['id'])
        free = [row for row in scope.store.find(PORTS, 'server', server)
                if row['port_type'] == DATA and not _carries(
                    scope, schema.make_ref(PORTS, row['id']))]
        if len(free) < 2:
            raise errors.refused(
                f'Node {values["knode"]} has no two free ports')
        return add_channel(
            scope, (free[0], free[1]), type='iscsi',
            mtu=values['mtu'], mode=values['mode'],
            hash_key_type=values['hash_key_type'])

    def delete(self, scope: Scope, row: Row) -> None:
        """Separate the ports again, if nothing needs the channel."""
        if _carries(scope, self.ref(row)):
            raise errors.refused(
                f'Port channel {row["name"]} has addresses or VLANs')
        super().delete(scope, row)


class VlanRules(base.Rules):
    """VLANs on ports and port channels; tags are unique per interface."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Add a VLAN."""
        tag, interface = values['tag'], values['interface']
        if not re.fullmatch('[0-9]{1,4}', tag) or int(tag) not in _TAGS:
            raise errors.refused('tag must be from 1 to 4094')
        _check_own(scope, interface)
        field = _ON[schema.split_ref(interface)[0]]
        for other in scope.store.find(self.name, field, interface):
            if other['tag'] == str(int(tag)):
                raise errors.refused(f'VLAN {other["name"]} already exists')
        return add_vlan(scope, interface, int(tag))

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a VLAN without addresses."""
        if _carries(scope, self.ref(row)):
            raise errors.refused(f'VLAN {row["name"]} has addresses')
        super().delete(scope, row)
        scope.store.remove(*schema.split_ref(row['vlan']))


RULES: tuple[base.Rules, ...] = (
    NetIpRules(catalogue.NET_IPS),
    ChannelRules(catalogue.NET_PORTCHANNELS),
    VlanRules(catalogue.NET_VLANS))
