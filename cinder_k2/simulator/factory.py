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

from collections.abc import Sequence
import dataclasses
import hashlib

from cinder_k2.simulator import clock as clock_module
from cinder_k2.simulator import profiles
from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules import policies
from cinder_k2.simulator.rules import system
from cinder_k2.simulator.rules import volumes
from cinder_k2.simulator import store as store_module

# Addresses that no network has (RFC 5737).
PORTALS = ('192.0.2.11', '192.0.2.12', '192.0.2.13', '192.0.2.14')
WAN_ADDRESSES = ('198.51.100.11', '198.51.100.12')
CAPACITY_KIB = 100 * 2 ** 30
_MASK = '255.255.255.0'
_MASK_V6 = 'ffff:ffff:ffff:ffff::'
_CTRL_KIB = 51200
_FC_PORTS_PER_NODE = 2
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


@dataclasses.dataclass(frozen=True)
class Equipment:
    """What an array is made with; capacity in KiB."""

    name: str = 'sim-k2-a'
    portals: Sequence[str] = PORTALS
    wan_addresses: Sequence[str] = WAN_ADDRESSES
    capacity: int = CAPACITY_KIB

    @property
    def system_id(self) -> str:
        """Four hex digits that follow from the name."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:4]


def build(store: store_module.Store, equipment: Equipment,
          clock: clock_module.Clock) -> None:
    """Fill an empty state, inside a transaction."""
    scope = base.Scope(store, profiles.Switches(), clock)
    _build_system(scope, equipment)
    _build_nodes(scope, equipment.system_id)
    _build_addresses(scope, equipment)
    _build_policies(scope)
    store.insert_as('volumes', volumes.CTRL_ID, volumes.new_row(scope, {
        'name': 'CTRL', 'size': _CTRL_KIB, 'volume_group': None}))
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


def _build_nodes(scope: base.Scope, system_id: str) -> None:
    state = scope.store.insert('system/hardware_states', {
        'name': 'link', 'status': 'ok', 'severity': 'INFO',
        'status_msg': ''})
    speed = f'/system/hardware_states/{state["id"]}'
    for node in range(1, volumes.NODES + 1):
        name = f'node{node:02d}'
        scope.store.insert('system/servers', {
            'name': name, 'display_name': name, 'status': 'ok'})
        for port in range(_FC_PORTS_PER_NODE):
            scope.store.insert('system/fc_ports', {
                'name': f'{name}-fc{port + 1:02d}',
                'pwwn': f'50:02:4f:{system_id[:2]}:{system_id[2:]}'
                        f':{node:02x}:00:{port:02x}',
                'server': f'/system/servers/{node}',
                'speed_state': speed, 'status': 'ok'})


def _build_addresses(scope: base.Scope, equipment: Equipment) -> None:
    """One data port per address, on the nodes in turn (NET-3)."""
    wan = set(equipment.wan_addresses)
    for number, address in enumerate(
            (*equipment.portals, *equipment.wan_addresses)):
        port = _build_port(scope, number)
        wan_port = system.add_wan_port(scope) if address in wan else None
        mask = _MASK_V6 if ':' in address else _MASK
        scope.store.insert('system/net_ips', system.net_ip(
            address, mask, port, wan_port))


def _build_port(scope: base.Scope, number: int) -> str:
    node = 1 + number % volumes.NODES
    server = f'/system/servers/{node}'
    row = scope.store.insert('system/net_ports', {
        'name': f'node{node:02d}-data{number // volumes.NODES + 1:02d}',
        'port_type': 'dataport', 'mac_addr': f'02:00:00:00:00:{number:02x}',
        'mtu': '1500', 'flow_control': True, 'auto_negotiation': True,
        'server': server, 'contained_in': server,
        'link_state': '/system/hardware_states/1',
        'speed_state': '/system/hardware_states/1', 'is_fru': False})
    return f'/system/net_ports/{row["id"]}'


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
