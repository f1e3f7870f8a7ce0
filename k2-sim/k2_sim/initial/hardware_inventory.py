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

"""The hardware of an array, and its description: section 11."""

from typing import Any

from k2_sim import equipment
from k2_sim.state.schema import make_ref
from k2_sim.state import store as store_module

_SSDS = 24
_SSD_GB = 1920
# The addresses of the management ports (RFC 5737), by node.
_MANAGEMENT = '192.0.2.{}'
_PIECE = {'is_fru': True, 'is_phased_out': False,
          'is_expansion_in_progress': False, 'ndu_state': 'Idle'}
_THERE = '/system/hardware_states/1'
_SINGLE: dict[str, dict[str, Any]] = {
    'system/capacity_policy': {
        'warning_threshold': 80, 'error_threshold': 90,
        'critical_threshold': 96, 'full_threshold': 100,
        'num_snapshots': 3},
    'system/encryption': {
        'active_index': -1, **{f'index_{n}_date': 0 for n in range(4)}},
    'system/expansion': {
        'state': 'Idle', 'stage': 'None', 'type': None, 'progress': 0,
        'estimated_time': None, 'reserved_dm_chunks_percentage': '0'},
    'system/ndu': {
        'ndu_state': 'Idle', 'operation': 'None', 'old_version': None,
        'new_version': None, 'background_fw_update': False},
    'proxy_secure_ssh': {
        'ip_address': '', 'https_port': None, 'pmc_ssh_port': None,
        'smc_ssh_port': None, 'time_remaining': None,
        'pmc_comments': None, 'smc_comments': None, 'status': 'Disabled',
        'auto_enable': False},
    'system/ntp': {
        'server': '', 'is_sync': False, 'reached': False,
        'force_local': True, 'offset': 0.0},
    'system/partial_system_parameters': {'dns_server1': ''},
    'system/software_states': {
        'name': 'storage', 'status': 'ok', 'severity': 'INFO',
        'status_msg': ''},
    'system/pairs': {},
    'system/disk_groups': {
        'name': 'dg01', 'raid_level': 'K-RAID',
        'rebuild_progress_percentage': 0,
        'is_expansion_in_progress': False},
}


def is_missing(store: store_module.Store) -> bool:
    """Whether a state was created by a version without these objects."""
    return not store.tables['system/encryption'].rows


def populate(store: store_module.Store) -> None:
    """Add the hardware to a state with nodes, inside a transaction."""
    for name, values in _SINGLE.items():
        store.insert_as(name, 1, values)
    for node in range(1, equipment.NODES + 1):
        _add_node(store, node)
    _add_shelf(store)


def _add_node(store: store_module.Store, node: int) -> None:
    server, name = make_ref('system/servers', node), f'node{node:02d}'
    store.update('system/servers', node, **_PIECE, fru_type='server',
                 contained_in='/system/pairs/1', is_phasing_in=False)
    for resource, kind, more in (
            ('system/bmcs', 'bmc', {}),
            ('system/batteries', 'battery', {
                'connectivity_state': _THERE, 'charge_level_state': _THERE}),
            ('system/local_storage_devs', 'local', {
                'connectivity_state': _THERE}),
            ('system/nvdimms', 'nvdimm', {}),
            ('system/sas_hbas', 'hba', {'speed_state': _THERE})):
        store.insert(resource, {'name': f'{name}-{kind}01', **_PIECE,
                                'contained_in': server, **more})
    store.insert('system/net_interfaces', {
        'name': f'{name}-mgmt', 'eth_name': 'mgmt0', 'port': None,
        'if_ip': _MANAGEMENT.format(node), 'if_mask': '255.255.255.0',
        'port_type': 'netif-mgmt', 'server': server, 'status': 'ok',
        'is_expansion_in_progress': False})


def _add_shelf(store: store_module.Store) -> None:
    store.insert('system/jbods', {
        'name': 'shelf01', 'is_identification_on': False,
        'connectivity_state': _THERE, 'contained_in': '/system/pairs/1',
        **_PIECE})
    shelf = {'connectivity_state': _THERE,
             'contained_in': '/system/jbods/1', **_PIECE}
    for number in (1, 2):
        store.insert('system/psus',
                     {'name': f'shelf01-psu{number:02d}', **shelf})
        store.insert('system/expanders',
                     {'name': f'shelf01-exp{number:02d}', **shelf})
    for number in range(1, _SSDS + 1):
        store.insert('system/ssd_devs', {
            'name': f'shelf01-ssd{number:02d}', **shelf,
            'jbod': '/system/jbods/1', 'size': _SSD_GB,
            'disk_group': '/system/disk_groups/1', 'srl_health': 100,
            'encryption_support': True})
