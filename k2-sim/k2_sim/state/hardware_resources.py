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

"""Resources that a block-storage driver does not need.

They are those of sections 6.3, 7.3, 9 and 11, and the small ones of sections
5.3 and 7.4. Resources of section 11 are read-only: writes are answered with
405, although some pages of the vendor's documentation describe them.
"""

from k2_sim.state.fields import ID
from k2_sim.state.fields import ref
from k2_sim.state.schema import Field
from k2_sim.state.schema import Resource


def _texts(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name) for name in names)


def _ints(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, 'int') for name in names)


def _flags(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, 'bool') for name in names)


def _read(name: str, *fields: Field, singleton: bool = False) -> Resource:
    return Resource(name, ('GET',), (ID, *fields), singleton)


def _part(name: str, *fields: Field) -> Resource:
    """A piece of hardware."""
    return _read(name, Field('name'), *fields, *_flags(
        'is_fru', 'is_phased_out', 'is_expansion_in_progress'),
        Field('ndu_state'))


_STATES = 'system/hardware_states'
_CONNECTED = ref('connectivity_state', _STATES)
_IN_SERVER = ref('contained_in', 'system/servers')
_IN_JBOD = ref('contained_in', 'system/jbods')
_IN_PAIR = ref('contained_in', 'system/pairs')

HOST_NQNS = Resource('host_nqns', ('GET', 'POST', 'DELETE'), (
    ID, Field('nqn', 'string', 'required'),
    Field('host', 'ref', 'optional', null=True, refs=('hosts',))),
    indexed=('nqn', 'host', 'identity'))

SCHEDULERS = Resource(
    'snapshot_scheduler', ('GET', 'POST', 'PATCH', 'DELETE'), (
        ID,
        Field('scheduler_name', 'string', 'required', write_only=True),
        Field('name', 'string', patch=True),
        Field('time_criteria', 'string', 'required', True,
              write_only=True),
        Field('time_interval_min', 'int'),
        Field('retention_policy', 'ref', 'required', True,
              refs=('retention_policies',)),
        Field('description', 'string', 'optional', True, null=True),
        Field('start_time', 'number', 'optional', True, null=True),
        Field('is_enabled', 'bool', 'optional', True, True)),
    indexed=('name', 'retention_policy'))

SCHEDULES = Resource(
    'snapshot_scheduler_mapping', ('GET', 'POST', 'DELETE'), (
        ID,
        Field('snapshot_scheduler', 'ref', 'required',
              refs=('snapshot_scheduler',)),
        Field('volume_group', 'ref', 'required', refs=('volume_groups',)),
        Field('last_successful_time', 'number', null=True),
        Field('status', 'string', null=True)),
    indexed=('snapshot_scheduler', 'volume_group'))

EVENTS = Resource('events', ('GET',), (
    ID, Field('event_id', 'int'),
    *_texts('name', 'level', 'labels', 'message'),
    Field('timestamp', 'number'), Field('user', null=True)),
    indexed=('name',))

ENCRYPTION = _read('system/encryption', *_ints(
    'active_index', 'index_0_date', 'index_1_date', 'index_2_date',
    'index_3_date'), singleton=True)

FC_LOGINS = Resource('system/fc_connection_mapper', ('GET',), (
    ID, ref('host_fc_port', 'host_fc_ports'),
    ref('server', 'system/servers'),
    ref('server_fc_port', 'system/fc_ports')), indexed=('host_fc_port',))

CAPACITY_POLICY = _read('system/capacity_policy', *_ints(
    'warning_threshold', 'error_threshold', 'critical_threshold',
    'full_threshold', 'num_snapshots'),
    Field('reset_to_factory_defaults', 'bool', write_only=True),
    singleton=True)

EXPANSION = _read(
    'system/expansion', *_texts('state', 'stage'),
    Field('type', null=True), Field('progress', 'int'),
    Field('estimated_time', 'int', null=True),
    Field('reserved_dm_chunks_percentage'), singleton=True)

NDU = _read(
    'system/ndu', *_texts('ndu_state', 'operation'),
    Field('old_version', null=True), Field('new_version', null=True),
    Field('background_fw_update', 'bool'), singleton=True)

PROXY = _read(
    'proxy_secure_ssh', Field('ip_address'),
    *(Field(name, 'int', null=True) for name in (
        'https_port', 'pmc_ssh_port', 'smc_ssh_port', 'time_remaining')),
    Field('pmc_comments', null=True), Field('smc_comments', null=True),
    Field('status'), Field('auto_enable', 'bool'),
    Field('proxy_ip_address', write_only=True),
    Field('proxy_status', write_only=True),
    Field('connection_timeout', 'int', write_only=True),
    Field('recreate_keys', 'bool', write_only=True), singleton=True)

HARDWARE_STATES = _read(
    _STATES, *_texts('name', 'status', 'severity', 'status_msg',
                     'real_value'),
    Field('is_valid', 'bool'), Field('parent', null=True),
    Field('is_expansion_in_progress', 'bool'))

SERVERS = Resource('system/servers', ('GET',), (
    ID, Field('name'), _IN_PAIR, *_texts('display_name', 'fru_type'),
    Field('is_phasing_in', 'bool'), Field('status'), *_flags(
        'is_fru', 'is_phased_out', 'is_expansion_in_progress'),
    Field('ndu_state')), indexed=('name',))

_POPULATED = (
    _read('system/net_interfaces',
          *_texts('name', 'eth_name', 'if_ip', 'if_mask'),
          ref('port', 'system/net_ports', null=True), Field('port_type'),
          ref('server', 'system/servers'), Field('status'),
          Field('is_expansion_in_progress', 'bool')),
    _part('system/batteries', _CONNECTED,
          ref('charge_level_state', _STATES), _IN_SERVER,
          Field('remove_module', 'bool', write_only=True)),
    _part('system/bmcs', _IN_SERVER),
    _read('system/disk_groups', *_texts('name', 'raid_level'),
          Field('rebuild_progress_percentage', 'int'),
          Field('is_expansion_in_progress', 'bool')),
    _part('system/expanders', _CONNECTED, _IN_JBOD),
    _part('system/jbods', Field('is_identification_on', 'bool'),
          _CONNECTED, _IN_PAIR),
    _part('system/local_storage_devs', _CONNECTED, _IN_SERVER,
          Field('remove_module', 'bool', write_only=True)),
    _read('system/ntp', Field('ntp_server_ip', write_only=True),
          Field('server'), *_flags('is_sync', 'reached', 'force_local'),
          Field('offset', 'number')),
    _part('system/nvdimms'),
    _part('system/psus', _CONNECTED, _IN_JBOD,
          Field('remove_module', 'bool', write_only=True)),
    _part('system/sas_hbas', _IN_SERVER, ref('speed_state', _STATES)),
    _read('system/software_states',
          *_texts('name', 'status', 'severity', 'status_msg')),
    _part('system/ssd_devs', _CONNECTED, _IN_JBOD,
          ref('jbod', 'system/jbods'),
          ref('disk_group', 'system/disk_groups'),
          *_ints('size', 'srl_health'), Field('encryption_support', 'bool'),
          Field('remove_module', 'bool', write_only=True)),
    _read('system/partial_system_parameters', Field('dns_server1')),
    _read('system/pairs'))

_EMPTY = (
    _read('events/targets', *_texts('name', 'type', 'data')),
    _read('events/target_filters', *_texts('label', 'level'),
          Field('target_id', 'int')),
    _read('system/server_jbod_connection_ssd_dev_maps',
          ref('server_jbod_connection', 'system/server_jbod_connections'),
          ref('ssd_dev', 'system/ssd_devs'),
          Field('is_expansion_in_progress', 'bool')),
    _read('system/syslog_servers', Field('address'), Field('port', 'int'),
          Field('type'), *_flags('use_tcp', 'report_audit',
                                 'is_connected')),
    _read('static_routes', *_texts('destination_subnet_ip',
                                   'destination_subnet_mask', 'gateway_ip'),
          Field('knode', null=True)),
    # The fields of these are not documented.
    *(_read(name) for name in (
        'host_auth_profile_mappers', 'system/server_jbod_connections',
        'system/server_jbod_expander_connections',
        'system/static_route_iscsi_port_mapper',
        'system/static_route_net_interface_port_mapper',
        'system/static_route_wan_port_mapper', 'system/switches',
        'system/vlans', 'system/wan_connections')))

RESOURCES = (
    HOST_NQNS, SCHEDULERS, SCHEDULES, EVENTS, ENCRYPTION, FC_LOGINS,
    CAPACITY_POLICY, EXPANSION, NDU, PROXY, HARDWARE_STATES, SERVERS,
    *_POPULATED, *_EMPTY)
