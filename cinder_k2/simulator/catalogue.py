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

"""Every resource of the API: the tables of sections 4 to 11 as data.

Those that a block-storage driver does not need are in the module further.
"""

from cinder_k2.simulator import further
from cinder_k2.simulator import schema
from cinder_k2.simulator.schema import Field
from cinder_k2.simulator.schema import Resource

ALL = ('GET', 'POST', 'PATCH', 'DELETE')
ID = Field('id', 'int')
HOST_TYPES = ('Linux', 'Windows', 'ESX', 'AIX', 'Solaris')
CONNECTIVITY = ('FC', 'iSCSI', 'NVME')
# Of the volumes on a target (REP-17).
EXPOSURES = ('unmapped', 'Read Only', 'Mapped - Not Exposed')


def _text(name: str, create: str = 'no', patch: bool = False,
          null: bool = False) -> Field:
    return Field(name, 'string', create, patch, null=null)


def _int(name: str, create: str = 'no', patch: bool = False,
         null: bool = False) -> Field:
    return Field(name, 'int', create, patch, null=null)


def _number(name: str, null: bool = False) -> Field:
    return Field(name, 'number', null=null)


def _bool(name: str, create: str = 'no', patch: bool = False,
          default: bool = False) -> Field:
    return Field(name, 'bool', create, patch, default)


def _ref(name: str, *refs: str, create: str = 'no', patch: bool = False,
         null: bool = False) -> Field:
    return Field(name, 'ref', create, patch, null=null, refs=refs)


VOLUMES = Resource('volumes', ALL, (
    ID,
    _text('name', 'required', True),
    # Required, except for a thin clone, whose size is its source's (CLN-1).
    _int('size', 'optional', True),
    _ref('volume_group', 'volume_groups', create='required', patch=True),
    _text('description', 'optional', True, null=True),
    # No defaults here: a thin clone takes none of these three (CLN-1).
    Field('read_only', 'bool', 'optional', True),
    Field('vmware_support', 'bool', 'optional',
          patch_feature='vmware_support_patch'),
    Field('source_snapshot', 'ref', 'optional', refs=('snapshots',),
          write_only=True, feature='thin_clones'),
    Field('source_volume', 'ref', 'optional', refs=('volumes',),
          write_only=True, feature='thin_clones'),
    Field('is_thin_clone', 'bool', 'optional', write_only=True,
          feature='thin_clones'),
    _bool('is_dedup'),
    _text('scsi_sn'),
    _int('scsi_suffix'),
    _text('iscsi_tgt_converted_name'),
    _number('creation_time'),
    _number('logical_capacity'),
    _number('snapshots_logical_capacity'),
    _number('stream_avg_compressed_size_in_bytes'),
    _number('avg_compressed_ratio', null=True),
    Field('avg_compressed_ratio_timestamp', 'number', patch=True),
    _int('dedup_source', null=True),
    _int('dedup_target', null=True),
    _int('no_dedup', null=True),
    _ref('current_stats', 'stats/volumes'),
    _ref('current_replication_stats', 'replication/stats/volumes',
         null=True),
    _ref('replication_peer_volume', 'replication/peer_volumes', null=True),
    _ref('last_restored_from', 'snapshots', 'volsnaps', null=True),
    _number('last_restored_time', null=True),
    _bool('is_new'),
    _bool('marked_for_deletion'),
    _int('node_id'),
), indexed=('name', 'volume_group', 'clone_snapshot', 'clone_volume',
            'scsi_sn'))

VOLUME_GROUPS = Resource('volume_groups', ALL, (
    ID,
    _text('name', 'required', True),
    _int('quota', 'required', True, null=True),
    Field('is_dedup', 'bool', 'optional', default=True,
          patch_feature='dedup_patch'),
    _ref('capacity_policy', 'vg_capacity_policies', create='optional',
         patch=True, null=True),
    _text('description', 'optional', True, null=True),
    _ref('last_restored_from', 'snapshots', patch=True),
    _number('last_restored_time', null=True),
    _number('last_snapshot_creation_time', null=True),
    _number('creation_time'),
    _bool('is_default'),
    _text('capacity_state'),
    _text('snapshots_overhead_state'),
    _text('iscsi_tgt_converted_name'),
    _int('volumes_count'),
    _int('snapshots_count'),
    _int('views_count'),
    _int('mapped_hosts_count'),
    _number('logical_capacity'),
    _number('volumes_logical_capacity'),
    _number('snapshots_logical_capacity'),
    _int('volumes_provisioned_capacity'),
    Field('replication_session', 'ref', null=True,
          refs=('replication/sessions',),
          feature='!plural_session_field'),
    Field('replication_sessions', 'ref', null=True,
          refs=('replication/sessions',), feature='plural_session_field'),
    _ref('replication_peer_volume_group',
         'replication/peer_volume_groups', null=True),
    _ref('replication_rpo_history', 'replication/rpo_history', null=True),
), indexed=('name', 'capacity_policy'))

SNAPSHOTS = Resource('snapshots', ALL, (
    ID,
    # These three are required, except for a replication snapshot (SNP-3).
    _text('short_name', 'optional', True),
    _text('name', patch=True),
    _ref('source', 'volume_groups', 'snapshots', create='optional'),
    _ref('retention_policy', 'retention_policies', create='optional',
         patch=True),
    _bool('is_auto_deleteable', 'optional', True, default=True),
    _bool('is_exposable', 'optional'),
    _ref('replication_session', 'replication/sessions', create='optional',
         null=True),
    Field('is_application_consistent', 'bool', 'optional', null=True),
    _ref('volume_group', 'volume_groups'),
    _int('generation_number', null=True),
    _text('description', null=True),
    _number('creation_time'),
    _number('data_creation_time', null=True),
    _number('last_exposed_time', null=True),
    _bool('is_deleted'),
    _bool('is_exist_on_peer'),
    Field('is_originating_from_peer', 'bool', null=True),
    Field('is_external', 'bool', null=True),
    _text('iscsi_tgt_converted_name'),
    _text('triggered_by'),
    _int('volsnaps_provisioned_capacity'),
    _text('wwn', null=True),
    Field('num_of_clones', 'int', feature='thin_clones'),
    Field('is_locked_by_replication', 'bool', feature='thin_clones'),
), indexed=('name', 'short_name', 'source', 'volume_group',
            'retention_policy',
            'replication_session'))

VOLSNAPS = Resource('volsnaps', ('GET',), (
    ID,
    _text('name'),
    _text('short_name'),
    _ref('snapshot', 'snapshots'),
    _ref('source', 'volumes'),
    _bool('is_exposable'),
    _bool('is_deleted'),
    _number('creation_time'),
    _text('scsi_sn'),
    _int('scsi_suffix'),
    _text('iscsi_tgt_converted_name'),
), indexed=('name', 'snapshot', 'source', 'scsi_sn'))

MAPPINGS = Resource('mappings', ALL, (
    ID,
    _ref('host', 'hosts', 'host_groups', create='required', patch=True),
    _ref('volume', 'volumes', 'snapshots', 'volsnaps', create='required'),
    # Chosen by the array; POST with it is refused (MAP-10).
    _int('lun', patch=True),
    _bool('unique_target', 'optional'),
), indexed=('host', 'volume', 'view_entry'))

HOSTS = Resource('hosts', ALL, (
    ID,
    _text('name', 'required', True),
    Field('type', 'string', 'required', True, values=HOST_TYPES),
    _ref('host_group', 'host_groups', create='optional', patch=True,
         null=True),
    Field('connectivity_type', 'string', 'optional', null=True,
          values=CONNECTIVITY),
    Field('map_auth_profiles_names', 'string', patch=True, null=True,
          write_only=True),
    Field('host_auth_profile', 'string', patch=True, null=True,
          write_only=True, feature='host_auth_profile'),
    _bool('is_part_of_group'),
    _int('volumes_count'),
    _int('views_count'),
), indexed=('name', 'host_group', 'auth_profile'))

HOST_GROUPS = Resource('host_groups', ALL, (
    ID,
    _text('name', 'required', True),
    _text('description', 'optional', True, null=True),
    _bool('allow_different_host_types', 'optional', True),
    Field('connectivity_type', 'string', 'optional', null=True,
          write_only=True, values=CONNECTIVITY),
    _int('hosts_count'),
    _int('volumes_count'),
    _int('views_count'),
), indexed=('name',))

HOST_IQNS = Resource('host_iqns', ALL, (
    ID,
    _text('iqn', 'required', True),
    _ref('host', 'hosts', create='optional', patch=True, null=True),
), indexed=('iqn', 'host', 'identity'))

HOST_FC_PORTS = Resource('host_fc_ports', ALL, (
    ID,
    _text('pwwn', 'required', True),
    _ref('host', 'hosts', create='optional', patch=True, null=True),
), indexed=('pwwn', 'host', 'identity'))

HOST_AUTH_PROFILES = Resource('host_auth_profiles', ALL, (
    ID,
    _text('name', 'required'),
    Field('type', 'string', 'required', values=('CHAP',)),
    _text('username', 'required'),
    Field('password', 'string', 'required', write_only=True),
    Field('new_username', 'string', patch=True, write_only=True),
    Field('new_password', 'string', patch=True, write_only=True),
    _int('hosts_count'),
    _int('host_groups_count'),
), indexed=('name', 'username'))

RETENTION_POLICIES = Resource('retention_policies', ALL, (
    ID,
    _text('name', 'required', True),
    _int('num_snapshots', 'required', True),
    _int('weeks', 'required', True),
    _int('days', 'required', True),
    _int('hours', 'required', True),
    _int('snapshots_usage_count'),
), indexed=('name',))

VG_CAPACITY_POLICIES = Resource('vg_capacity_policies', ALL, (
    ID,
    _text('name', 'required', True),
    _int('warning_threshold', 'required', True),
    _int('error_threshold', 'required', True),
    _int('critical_threshold', 'required', True),
    _int('full_threshold', 'optional', True),
    _int('snapshot_overhead_threshold', 'required', True),
    _int('num_snapshots', 'optional', True, null=True),
    _bool('is_default'),
), indexed=('name',))

SYSTEM_STATE = Resource('system/state', ('GET', 'PATCH'), (
    ID,
    _text('state'),
    _text('next_state'),
    _bool('is_system_functionality_degraded'),
    _text('rest_api_version'),
    _text('system_version'),
    _text('system_id'),
    _text('system_name', patch=True),
    _text('system_connectivity_type'),
    _text('iscsi_qualified_target_name'),
    _number('system_time'),
    _number('last_online_time'),
    _text('system_tz'),
    _text('system_tz_short'),
    _text('current_user_role'),
    _text('replication_default_target_exposure', patch=True),
    _int('replication_protocol_version'),
    _int('replication_min_protocol_version'),
    _text('sra_protocol_version'),
    Field('send_callhome', 'bool', patch=True, write_only=True),
    Field('send_test_event', 'bool', patch=True, write_only=True),
), singleton=True)

SYSTEM_CAPACITY = Resource('system/capacity', ('GET',), (
    ID,
    _text('state'),
    _int('total'),
    _int('free'),
    _int('reserved'),
    _int('allocated'),
    _int('allocated_volumes'),
    _int('allocated_snapshots_and_views'),
    _int('provisioned'),
    _int('provisioned_volumes'),
    _int('provisioned_snapshots'),
    _int('provisioned_views'),
    _int('logical'),
    _int('physical'),
    _int('curr_dt_chunk'),
    _bool('is_reclamation_in_progress'),
), singleton=True)

NET_IPS = Resource('system/net_ips', ('GET', 'POST', 'DELETE'), (
    ID,
    _text('ip_address', 'required'),
    _text('network_mask', 'required'),
    Field('service', 'string', 'required', write_only=True,
          values=('iscsi', 'Replication')),
    Field('interface', 'ref', 'required', write_only=True,
          refs=('system/net_ports', 'system/net_portchannels',
                'system/net_vlans')),
    _ref('net_port', 'system/net_ports', null=True),
    _ref('net_portchannel', 'system/net_portchannels', null=True),
    _ref('net_vlan', 'system/net_vlans', null=True),
    _ref('wan_port', 'system/wan_ports', null=True),
    _ref('nvme_port', null=True),
), indexed=('ip_address', 'net_port', 'net_portchannel', 'net_vlan'))

NET_PORTS = Resource('system/net_ports', ('GET', 'PATCH'), (
    ID,
    _text('name'),
    _text('port_type'),
    _text('mac_addr'),
    _text('mtu', patch=True, null=True),
    Field('flow_control', 'bool', patch=True, null=True),
    Field('auto_negotiation', 'bool', null=True),
    _ref('server', 'system/servers'),
    _ref('contained_in', 'system/servers'),
    _ref('link_state', 'system/hardware_states'),
    _ref('speed_state', 'system/hardware_states'),
    _bool('is_fru'),
), indexed=('server',))

NET_PORTCHANNELS = Resource('system/net_portchannels', ALL, (
    ID,
    _text('name'),
    _text('eth_name'),
    Field('knode', 'string', 'required', write_only=True),
    Field('mtu', 'string', 'optional', True, '1500'),
    Field('mode', 'string', 'optional', True, write_only=True),
    Field('hash_key_type', 'string', 'optional', True, write_only=True),
    _ref('net_port1', 'system/net_ports'),
    _ref('net_port2', 'system/net_ports'),
    _ref('server', 'system/servers'),
    _text('type'),
), indexed=('server', 'net_port1', 'net_port2'))

NET_VLANS = Resource('system/net_vlans', ('GET', 'POST', 'DELETE'), (
    ID,
    _text('name'),
    _text('eth_name'),
    Field('interface', 'ref', 'required', write_only=True,
          refs=('system/net_ports', 'system/net_portchannels')),
    Field('tag', 'string', 'required', write_only=True),
    _ref('net_port', 'system/net_ports', null=True),
    _ref('net_portchannel', 'system/net_portchannels', null=True),
    _ref('vlan', 'system/vlans'),
), indexed=('net_port', 'net_portchannel'))

FC_PORTS = Resource('system/fc_ports', ('GET',), (
    ID,
    _text('name'),
    _text('pwwn'),
    _ref('server', 'system/servers'),
    _ref('speed_state', 'system/hardware_states'),
    _text('status'),
))

# Its fields are unknown; a name is the least that serves.
WAN_PORTS = Resource('system/wan_ports', ('GET',), (ID, _text('name')))

# Rows have no id (STA-1).
_FIGURES = (
    _int('timestamp'), _int('resolution'), _int('iops_avg'),
    _int('iops_max'), _int('throughput_avg'), _int('throughput_max'),
    _number('latency_inner'), _number('latency_outer'),
    Field('rw', 'string', values=('r', 'w')),
    Field('bs', 'string',
          values=('lt8k', '8k_64k', '64k_256k', 'gt256k')))
SYSTEM_STATS = Resource('stats/system', ('GET',), _FIGURES, paged=False)
VOLUME_STATS = Resource('stats/volumes', ('GET',), (
    *_FIGURES, _ref('volume', 'volumes'), _text('volume_name'),
    _text('peer_k2_name', null=True)), paged=False)

CAPACITIES = (
    'allocated', 'allocated_snapshots_and_views', 'allocated_volumes',
    'free', 'physical', 'provisioned', 'provisioned_snapshots',
    'provisioned_views', 'provisioned_volumes', 'reserved', 'total')

PEER_K2ARRAYS = Resource('replication/peer_k2arrays', ALL, (
    ID,
    _text('name', 'required', True),
    _text('mgmt_host', 'required', True),
    _text('username', 'required', True),
    Field('password', 'string', 'required', True, write_only=True),
    Field('local_username', 'string', 'required', write_only=True),
    Field('local_password', 'string', 'required', write_only=True),
    _int('bandwidth_limit', 'optional', True, null=True),
    Field('logical_bandwidth_limit', 'int', 'optional', True,
          write_only=True),
    _text('system_id'),
    _text('mgmt_connectivity_state'),
    *(_int(f'capacity_{name}') for name in CAPACITIES),
    _text('capacity_state'),
), indexed=('name', 'mgmt_host', 'system_id'))

PEER_VOLUME_GROUPS = Resource(
    'replication/peer_volume_groups', ('GET', 'PATCH', 'DELETE'), (
        ID,
        _text('name', patch=True),
        _text('fullname'),
        _ref('local_volume_group', 'volume_groups'),
        _int('remote_volume_group_id'),
        _ref('replication_peer_k2array', 'replication/peer_k2arrays'),
        _ref('replication_session', 'replication/sessions'),
        _int('replication_session_id'),
        _text('capacity_state'),
        _int('logical_capacity'),
        _int('snapshots_logical_capacity'),
        _int('volumes_logical_capacity'),
    ), indexed=('name', 'local_volume_group'))

PEER_VOLUMES = Resource('replication/peer_volumes', ALL, (
    ID,
    _text('name', 'required', True),
    _ref('local_volume', 'volumes', create='required'),
    Field('replication_session', 'ref', 'required',
          refs=('replication/sessions',), write_only=True),
    _int('remote_volume_id', null=True),
    _ref('replication_peer_volume_group',
         'replication/peer_volume_groups'),
), indexed=('name', 'local_volume', 'replication_session'))

PEER_WAN_PORTS = Resource(
    'replication/peer_wan_ports', ('GET', 'POST', 'DELETE'), (
        ID,
        _ref('replication_peer_k2array', 'replication/peer_k2arrays',
             create='required'),
        _text('remote_wan_port_ip_address'),
        _text('remote_wan_port_name'),
    ), indexed=('replication_peer_k2array',))

SESSIONS = Resource('replication/sessions', ALL, (
    ID,
    _text('name', 'required', True),
    _ref('replication_peer_k2array', 'replication/peer_k2arrays',
         create='required'),
    _ref('local_volume_group', 'volume_groups', create='required'),
    _int('rpo', 'required', True),
    _ref('retention_policy', 'retention_policies', create='optional',
         patch=True, null=True),
    _ref('external_retention_policy', 'retention_policies',
         create='optional', patch=True, null=True),
    Field('replication_peer_volume_group_name', 'string', 'optional',
          write_only=True),
    _text('remote_replication_session_name', 'optional'),
    Field('auto_configure_peer_volumes', 'bool', 'optional', default=True,
          write_only=True),
    Field('target_exposure', 'string', 'optional', True,
          values=EXPOSURES),
    Field('state', 'string', patch=True,
          values=('idle', 'in_sync', 'suspended', 'failed_over')),
    Field('snapshot_wwn', 'string', patch=True, write_only=True),
    Field('offline_initial_sync', 'bool', patch=True, write_only=True),
    _ref('restored_snapshot', 'snapshots', patch=True, null=True),
    _text('current_role'),
    _bool('primary'),
    _bool('stopped'),
    _text('suspend_reason'),
    _text('suspend_reason_code'),
    _ref('current_snapshot', 'snapshots', null=True),
    _int('current_snapshot_id', null=True),
    _int('current_snapshot_progress'),
    _int('estimated_remaining_time', null=True),
    _int('generation_number', null=True),
    _ref('next_snapshot', 'snapshots', null=True),
    _ref('latest_replicated_snapshot', 'snapshots', null=True),
    _int('common_snapshots_count'),
    _int('remote_replication_session_id'),
    _ref('replication_peer_volume_group',
         'replication/peer_volume_groups'),
    _ref('replication_rpo_history', 'replication/rpo_history'),
), indexed=('name', 'local_volume_group', 'replication_peer_k2array',
            'retention_policy', 'external_retention_policy'))

# No reply shows the id of a row.
RPO_HISTORY = Resource('replication/rpo_history', ('GET',), (
    _ref('session', 'replication/sessions'),
    _int('generation_number'),
    _text('role'),
    _int('round_start'),
    _int('round_end'),
    _int('target_rpo'),
    _int('bytes_transmitted_logical'),
    _int('bytes_transmitted_physical'),
), paged=False, indexed=('session',))

_TRAFFIC = (
    _int('logical_in'), _int('logical_out'), _int('physical_in'),
    _int('physical_out'), _int('resolution'), _int('timestamp'))
_TRAFFIC_OF_VOLUME = (
    *_TRAFFIC, _ref('volume', 'volumes'), _text('volume_name'))

REPLICATION_STATS = Resource('replication/stats', ('GET',), (
    *_TRAFFIC_OF_VOLUME, _text('peer_k2_name', null=True)), paged=False)
REPLICATION_SYSTEM_STATS = Resource(
    'replication/stats/system', ('GET',), _TRAFFIC, paged=False)
REPLICATION_VOLUME_STATS = Resource(
    'replication/stats/volumes', ('GET',), _TRAFFIC_OF_VOLUME, paged=False)

_SERVED = (
    VOLUMES, VOLUME_GROUPS, SNAPSHOTS, VOLSNAPS, MAPPINGS, HOSTS,
    HOST_GROUPS, HOST_IQNS, HOST_FC_PORTS, HOST_AUTH_PROFILES,
    RETENTION_POLICIES, VG_CAPACITY_POLICIES, SYSTEM_STATE,
    SYSTEM_CAPACITY, NET_IPS, NET_PORTS, NET_PORTCHANNELS, NET_VLANS,
    FC_PORTS, WAN_PORTS, SYSTEM_STATS, VOLUME_STATS, PEER_K2ARRAYS,
    PEER_VOLUME_GROUPS, PEER_VOLUMES, PEER_WAN_PORTS, SESSIONS,
    RPO_HISTORY, REPLICATION_STATS, REPLICATION_SYSTEM_STATS,
    REPLICATION_VOLUME_STATS)

RESOURCES: dict[str, Resource] = {
    resource.name: resource
    for resource in (*_SERVED, *further.RESOURCES)}


def index() -> dict[str, object]:
    """The reply to GET /api/v2 (DIS-1 to DIS-3)."""
    return {'resources': {
        name: {'url': f'/{name}'} for name in RESOURCES}}


def resource_of(ref: str) -> str:
    """The resource that a reference points into."""
    return schema.split_ref(ref)[0]
