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

"""The state of an array fresh from the factory."""

from collections.abc import Iterable

from k2_sim import clock as clock_module
from k2_sim import equipment as equipment_module
from k2_sim.equipment import Equipment
from k2_sim.equipment import Interface
from k2_sim.initial import hardware_inventory
from k2_sim import profiles
from k2_sim.rules import base
from k2_sim.rules import network
from k2_sim.rules import policies
from k2_sim.rules import volumes
from k2_sim.state import schema
from k2_sim.state import store as store_module

_CTRL_KIB = 51200
# Ids differ from resource to resource, as on an array with a history, so
# that a mixed-up id is not right by chance.
LAST_IDS = {
    'hosts': 6, 'host_groups': 4, 'volume_groups': 13, 'host_iqns': 20,
    'volumes': 30, 'host_fc_ports': 40, 'snapshots': 50, 'mappings': 60,
    'volsnaps': 70, 'replication/sessions': 8,
    'replication/peer_volume_groups': 1, 'replication/peer_volumes': 11}
_RETENTION = {
    'CDP': (24, 0, 1, 0), 'Backup': (0, 4, 0, 0),
    'Best_Effort_Retention': (0, 0, 0, 0),
    'Replication_Retention': (2, 0, 0, 0)}


def build(store: store_module.Store, equipment: Equipment,
          clock: clock_module.Clock) -> None:
    """Fill an empty state, inside a transaction."""
    scope = base.Scope(store, profiles.Behaviors(), clock)
    _build_system(scope, equipment)
    _build_nodes(scope, equipment)
    hardware_inventory.populate(store)
    _build_interfaces(scope, equipment)
    _build_own_ports(scope)
    _build_policies(scope)
    control = volumes.new_row(scope, {
        'name': 'CTRL', 'size': _CTRL_KIB, 'volume_group': None})
    store.insert_as('volumes', volumes.CTRL_ID,
                    {**control, **base.scsi(scope, 0)})
    for name, number in LAST_IDS.items():
        store.reserve(name, number)


def _build_system(scope: base.Scope, equipment: Equipment) -> None:
    number = int(equipment.system_id, 16)
    scope.store.insert_as('system/state', 1, {
        'system_id': equipment.system_id, 'system_name': equipment.name,
        'system_connectivity_type': 'iSCSI',
        'iscsi_qualified_target_name':
            f'iqn.2009-01.com.kaminario:storage.k2.{number}',
        'last_online_time': scope.now,
        'replication_default_target_exposure': 'unmapped'})
    scope.store.insert_as('system/capacity', 1, {
        'state': 'ok', 'total': equipment.capacity, 'reserved': 0,
        'curr_dt_chunk': 0, 'is_reclamation_in_progress': False})


def _build_nodes(scope: base.Scope, equipment: Equipment) -> None:
    state = scope.store.insert('system/hardware_states', {
        'name': 'link', 'status': 'ok', 'severity': 'INFO',
        'status_msg': '', 'real_value': 'up', 'is_valid': True,
        'parent': None, 'is_expansion_in_progress': False})
    speed = f'/system/hardware_states/{state["id"]}'
    for node in range(1, equipment_module.NODES + 1):
        name = f'node{node:02d}'
        scope.store.insert('system/servers', {
            'name': name, 'display_name': name, 'status': 'ok'})
        for port, pwwn in enumerate(equipment.fc_ports_of(node), 1):
            scope.store.insert('system/fc_ports', {
                'name': f'{name}-fc{port:02d}', 'pwwn': pwwn,
                'server': f'/system/servers/{node}',
                'speed_state': speed, 'status': 'ok'})


def _build_interfaces(scope: base.Scope, equipment: Equipment) -> None:
    """The data ports of the nodes with their addresses (NET-3)."""
    for interface in equipment.iscsi:
        _build_interface(scope, interface, wan=False)
    for interface in equipment.wan:
        _build_interface(scope, interface, wan=True)


def _build_interface(scope: base.Scope, interface: Interface,
                     wan: bool) -> None:
    port = _build_port(scope, interface)
    ref = f'/{network.PORTS}/{port["id"]}'
    if interface.lag:
        channel = network.add_channel(
            scope, (port, _build_port(scope, interface)),
            type='replication' if wan else 'iscsi',
            mtu=str(interface.mtu), is_factory=True)
        ref = f'/{network.CHANNELS}/{channel["id"]}'
    _build_addresses(scope, ref, interface.addresses, wan)
    for vlan in interface.vlans:
        row = network.add_vlan(scope, ref, vlan.tag, is_factory=True)
        _build_addresses(
            scope, f'/{network.VLANS}/{row["id"]}', vlan.addresses, wan)


def _build_addresses(scope: base.Scope, interface: str,
                     addresses: Iterable[str], wan: bool) -> None:
    for address in addresses:
        wan_port = network.add_wan_port(scope) if wan else None
        scope.store.insert(network.NET_IPS, {
            **network.net_ip(*equipment_module.net_of(address), interface,
                             wan_port), 'is_factory': True})


def _build_own_ports(scope: base.Scope) -> None:
    """Ports that carry no data: for management, and between the nodes."""
    for node in range(1, equipment_module.NODES + 1):
        port = _insert_port(scope, node, 'mgmt01', 'mgmtport', 1500)
        _insert_port(scope, node, 'ib01', 'ib', 2044)
        scope.store.update('system/net_interfaces', node,
                           port=f'/{network.PORTS}/{port["id"]}')


def _build_port(scope: base.Scope, interface: Interface) -> schema.Row:
    server = f'/system/servers/{interface.node}'
    place = 1 + scope.store.count(network.PORTS, 'server', server)
    return _insert_port(scope, interface.node, f'data{place:02d}',
                        network.DATA, interface.mtu)


def _insert_port(scope: base.Scope, node: int, name: str, role: str,
                 mtu: int) -> schema.Row:
    server = f'/system/servers/{node}'
    number = len(scope.store.rows(network.PORTS))
    return scope.store.insert(network.PORTS, {
        'name': f'node{node:02d}-{name}', 'port_type': role,
        'mac_addr': f'02:00:00:00:{number // 256:02x}:{number % 256:02x}',
        'mtu': str(mtu), 'flow_control': True,
        'auto_negotiation': True, 'server': server, 'contained_in': server,
        'link_state': '/system/hardware_states/1',
        'speed_state': '/system/hardware_states/1', 'is_fru': False})


def _build_policies(scope: base.Scope) -> None:
    for name in policies.BUILT_IN:
        number, weeks, days, hours = _RETENTION[name]
        scope.store.insert('retention_policies', {
            'name': name, 'num_snapshots': number, 'weeks': weeks,
            'days': days, 'hours': hours})
    scope.store.insert('vg_capacity_policies', {
        'name': 'default_vg_capacity_policy', 'warning_threshold': 75,
        'error_threshold': 85, 'critical_threshold': 95,
        'full_threshold': 100, 'snapshot_overhead_threshold': 50,
        'num_snapshots': None, 'is_default': True})
