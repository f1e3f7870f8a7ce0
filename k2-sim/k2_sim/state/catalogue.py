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

Those of replication are in the module of that name, and those that a
block-storage driver does not need in the module hardware_resources.
"""

from k2_sim.state.fields import boolean
from k2_sim.state.fields import ID
from k2_sim.state.fields import integer
from k2_sim.state.fields import number
from k2_sim.state.fields import ref
from k2_sim.state.fields import text
from k2_sim.state import hardware_resources
from k2_sim.state import replication
from k2_sim.state.schema import ALL
from k2_sim.state.schema import Field
from k2_sim.state.schema import Resource

HOST_TYPES = ('Linux', 'Windows', 'ESX', 'AIX', 'Solaris')
CONNECTIVITY = ('FC', 'iSCSI', 'NVME')

VOLUMES = Resource('volumes', ALL, (
    ID,
    text('name', 'required', True),
    # Required, except for a thin clone, whose size is its source's (CLN-1).
    integer('size', 'optional', True),
    ref('volume_group', 'volume_groups', create='required', patch=True),
    text('description', 'optional', True, null=True),
    # Without defaults, like the description: a thin clone takes none of the
    # three (CLN-1).
    Field('read_only', 'bool', 'optional', True),
    Field('vmware_support', 'bool', 'optional',
          patch_feature='vmware_support_patch'),
    Field('source_snapshot', 'ref', 'optional', refs=('snapshots',),
          write_only=True, feature='thin_clones'),
    Field('source_volume', 'ref', 'optional', refs=('volumes',),
          write_only=True, feature='thin_clones'),
    Field('is_thin_clone', 'bool', 'optional', write_only=True,
          feature='thin_clones'),
    boolean('is_dedup'),
    text('scsi_sn'),
    integer('scsi_suffix'),
    text('iscsi_tgt_converted_name'),
    number('creation_time'),
    number('logical_capacity'),
    number('snapshots_logical_capacity'),
    number('stream_avg_compressed_size_in_bytes'),
    number('avg_compressed_ratio', null=True),
    Field('avg_compressed_ratio_timestamp', 'number', patch=True),
    integer('dedup_source', null=True),
    integer('dedup_target', null=True),
    integer('no_dedup', null=True),
    ref('current_stats', 'stats/volumes'),
    ref('current_replication_stats', 'replication/stats/volumes',
        null=True),
    ref('replication_peer_volume', 'replication/peer_volumes', null=True),
    ref('last_restored_from', 'snapshots', 'volsnaps', null=True),
    number('last_restored_time', null=True),
    boolean('is_new'),
    boolean('marked_for_deletion'),
    integer('node_id'),
), indexed=('name', 'volume_group', 'clone_snapshot', 'clone_volume',
            'scsi_sn'))

VOLUME_GROUPS = Resource('volume_groups', ALL, (
    ID,
    text('name', 'required', True),
    integer('quota', 'required', True, null=True),
    Field('is_dedup', 'bool', 'optional', default=True,
          patch_feature='dedup_patch'),
    ref('capacity_policy', 'vg_capacity_policies', create='optional',
        patch=True, null=True),
    text('description', 'optional', True, null=True),
    ref('last_restored_from', 'snapshots', patch=True),
    number('last_restored_time', null=True),
    number('last_snapshot_creation_time', null=True),
    number('creation_time'),
    boolean('is_default'),
    text('capacity_state'),
    text('snapshots_overhead_state'),
    text('iscsi_tgt_converted_name'),
    integer('volumes_count'),
    integer('snapshots_count'),
    integer('views_count'),
    integer('mapped_hosts_count'),
    number('logical_capacity'),
    number('volumes_logical_capacity'),
    number('snapshots_logical_capacity'),
    integer('volumes_provisioned_capacity'),
    Field('replication_session', 'ref', null=True,
          refs=('replication/sessions',),
          feature='!plural_session_field'),
    Field('replication_sessions', 'ref', null=True,
          refs=('replication/sessions',), feature='plural_session_field'),
    ref('replication_peer_volume_group',
        'replication/peer_volume_groups', null=True),
    ref('replication_rpo_history', 'replication/rpo_history', null=True),
    # The Go SDK, and so Terraform, sends this field in each POST and PATCH.
), indexed=('name', 'capacity_policy'), passed_over=('capacityPolicy',))

SNAPSHOTS = Resource('snapshots', ALL, (
    ID,
    # short_name, source and retention_policy are required, except for a
    # replication snapshot (SNP-3).
    text('short_name', 'optional', True),
    text('name', patch=True),
    ref('source', 'volume_groups', 'snapshots', create='optional'),
    ref('retention_policy', 'retention_policies', create='optional',
        patch=True),
    boolean('is_auto_deleteable', 'optional', True, default=True),
    boolean('is_exposable', 'optional'),
    ref('replication_session', 'replication/sessions', create='optional',
        null=True),
    Field('is_application_consistent', 'bool', 'optional', null=True),
    ref('volume_group', 'volume_groups'),
    integer('generation_number', null=True),
    text('description', null=True),
    number('creation_time'),
    number('data_creation_time', null=True),
    number('last_exposed_time', null=True),
    boolean('is_deleted'),
    boolean('is_exist_on_peer'),
    Field('is_originating_from_peer', 'bool', null=True),
    Field('is_external', 'bool', null=True),
    text('iscsi_tgt_converted_name'),
    text('triggered_by'),
    integer('volsnaps_provisioned_capacity'),
    text('wwn', null=True),
    Field('num_of_clones', 'int', feature='thin_clones'),
    Field('is_locked_by_replication', 'bool', feature='thin_clones'),
), indexed=('name', 'short_name', 'source', 'volume_group',
            'retention_policy', 'is_auto_deleteable',
            'replication_session'))

VOLSNAPS = Resource('volsnaps', ('GET',), (
    ID,
    text('name'),
    text('short_name'),
    ref('snapshot', 'snapshots'),
    ref('source', 'volumes'),
    boolean('is_exposable'),
    boolean('is_deleted'),
    number('creation_time'),
    text('scsi_sn'),
    integer('scsi_suffix'),
    text('iscsi_tgt_converted_name'),
), indexed=('name', 'snapshot', 'source', 'scsi_sn'))

MAPPINGS = Resource('mappings', ALL, (
    ID,
    ref('host', 'hosts', 'host_groups', create='required', patch=True),
    ref('volume', 'volumes', 'snapshots', 'volsnaps', create='required'),
    # Chosen by the array; POST with it is refused (MAP-10).
    integer('lun', patch=True),
    boolean('unique_target', 'optional'),
), indexed=('host', 'volume', 'view_entry'))

HOSTS = Resource('hosts', ALL, (
    ID,
    text('name', 'required', True),
    Field('type', 'string', 'required', True, values=HOST_TYPES),
    ref('host_group', 'host_groups', create='optional', patch=True,
        null=True),
    Field('connectivity_type', 'string', 'optional', null=True,
          values=CONNECTIVITY),
    Field('map_auth_profiles_names', 'string', patch=True, null=True,
          write_only=True),
    Field('host_auth_profile', 'string', patch=True, null=True,
          write_only=True, feature='host_auth_profile'),
    boolean('is_part_of_group'),
    integer('volumes_count'),
    integer('views_count'),
), indexed=('name', 'host_group', 'auth_profile'))

HOST_GROUPS = Resource('host_groups', ALL, (
    ID,
    text('name', 'required', True),
    text('description', 'optional', True, null=True),
    boolean('allow_different_host_types', 'optional', True),
    Field('connectivity_type', 'string', 'optional', null=True,
          write_only=True, values=CONNECTIVITY),
    integer('hosts_count'),
    integer('volumes_count'),
    integer('views_count'),
), indexed=('name',))

HOST_IQNS = Resource('host_iqns', ALL, (
    ID,
    text('iqn', 'required', True),
    ref('host', 'hosts', create='optional', patch=True, null=True),
), indexed=('iqn', 'host', 'identity'))

HOST_FC_PORTS = Resource('host_fc_ports', ALL, (
    ID,
    text('pwwn', 'required', True),
    ref('host', 'hosts', create='optional', patch=True, null=True),
), indexed=('pwwn', 'host', 'identity'))

HOST_AUTH_PROFILES = Resource('host_auth_profiles', ALL, (
    ID,
    text('name', 'required'),
    Field('type', 'string', 'required', values=('CHAP',)),
    text('username', 'required'),
    Field('password', 'string', 'required', write_only=True),
    Field('new_username', 'string', patch=True, write_only=True),
    Field('new_password', 'string', patch=True, write_only=True),
    integer('hosts_count'),
    integer('host_groups_count'),
), indexed=('name', 'username'))

RETENTION_POLICIES = Resource('retention_policies', ALL, (
    ID,
    text('name', 'required', True),
    integer('num_snapshots', 'required', True),
    integer('weeks', 'required', True),
    integer('days', 'required', True),
    integer('hours', 'required', True),
    integer('snapshots_usage_count'),
), indexed=('name',))

VG_CAPACITY_POLICIES = Resource('vg_capacity_policies', ALL, (
    ID,
    text('name', 'required', True),
    integer('warning_threshold', 'required', True),
    integer('error_threshold', 'required', True),
    integer('critical_threshold', 'required', True),
    integer('full_threshold', 'optional', True),
    integer('snapshot_overhead_threshold', 'required', True),
    integer('num_snapshots', 'optional', True, null=True),
    boolean('is_default'),
    # The names that the Go SDK uses for the thresholds in PATCH.
), indexed=('name',), passed_over=(
    'warningthreshold', 'errorthreshold', 'criticalthreshold',
    'fullthreshold', 'snapshotoverheadthreshold'))

SYSTEM_STATE = Resource('system/state', ('GET', 'PATCH'), (
    ID,
    text('state'),
    text('next_state'),
    boolean('is_system_functionality_degraded'),
    text('rest_api_version'),
    text('system_version'),
    text('system_id'),
    text('system_name', patch=True),
    text('system_connectivity_type'),
    text('iscsi_qualified_target_name'),
    number('system_time'),
    number('last_online_time'),
    text('system_tz'),
    text('system_tz_short'),
    text('current_user_role'),
    Field('replication_default_target_exposure', 'string', patch=True,
          values=replication.EXPOSURES),
    integer('replication_protocol_version'),
    integer('replication_min_protocol_version'),
    text('sra_protocol_version'),
    Field('send_callhome', 'bool', patch=True, write_only=True),
    Field('send_test_event', 'bool', patch=True, write_only=True),
), singleton=True)

SYSTEM_CAPACITY = Resource('system/capacity', ('GET',), (
    ID,
    text('state'),
    integer('total'),
    integer('free'),
    integer('reserved'),
    integer('allocated'),
    integer('allocated_volumes'),
    integer('allocated_snapshots_and_views'),
    integer('provisioned'),
    integer('provisioned_volumes'),
    integer('provisioned_snapshots'),
    integer('provisioned_views'),
    integer('logical'),
    integer('physical'),
    integer('curr_dt_chunk'),
    boolean('is_reclamation_in_progress'),
), singleton=True)

NET_IPS = Resource('system/net_ips', ('GET', 'POST', 'DELETE'), (
    ID,
    text('ip_address', 'required'),
    text('network_mask', 'required'),
    Field('service', 'string', 'required', write_only=True,
          values=('iscsi', 'Replication')),
    Field('interface', 'ref', 'required', write_only=True,
          refs=('system/net_ports', 'system/net_portchannels',
                'system/net_vlans')),
    ref('net_port', 'system/net_ports', null=True),
    ref('net_portchannel', 'system/net_portchannels', null=True),
    ref('net_vlan', 'system/net_vlans', null=True),
    ref('wan_port', 'system/wan_ports', null=True),
    ref('nvme_port', null=True),
), indexed=('ip_address', 'net_port', 'net_portchannel', 'net_vlan'))

NET_PORTS = Resource('system/net_ports', ('GET', 'PATCH'), (
    ID,
    text('name'),
    text('port_type'),
    text('mac_addr'),
    text('mtu', patch=True, null=True),
    Field('flow_control', 'bool', patch=True, null=True),
    Field('auto_negotiation', 'bool', null=True),
    ref('server', 'system/servers'),
    ref('contained_in', 'system/servers'),
    ref('link_state', 'system/hardware_states'),
    ref('speed_state', 'system/hardware_states'),
    boolean('is_fru'),
), indexed=('server',))

NET_PORTCHANNELS = Resource('system/net_portchannels', ALL, (
    ID,
    text('name'),
    text('eth_name'),
    Field('knode', 'string', 'required', write_only=True),
    Field('mtu', 'string', 'optional', True, '1500'),
    Field('mode', 'string', 'optional', True, write_only=True),
    Field('hash_key_type', 'string', 'optional', True, write_only=True),
    ref('net_port1', 'system/net_ports'),
    ref('net_port2', 'system/net_ports'),
    ref('server', 'system/servers'),
    text('type'),
), indexed=('server', 'net_port1', 'net_port2'))

NET_VLANS = Resource('system/net_vlans', ('GET', 'POST', 'DELETE'), (
    ID,
    text('name'),
    text('eth_name'),
    Field('interface', 'ref', 'required', write_only=True,
          refs=('system/net_ports', 'system/net_portchannels')),
    Field('tag', 'string', 'required', write_only=True),
    ref('net_port', 'system/net_ports', null=True),
    ref('net_portchannel', 'system/net_portchannels', null=True),
    ref('vlan', 'system/vlans'),
), indexed=('net_port', 'net_portchannel'))

FC_PORTS = Resource('system/fc_ports', ('GET',), (
    ID,
    text('name'),
    text('pwwn'),
    ref('server', 'system/servers'),
    ref('speed_state', 'system/hardware_states'),
    text('status'),
))

# Its fields are not documented; a name is sufficient.
WAN_PORTS = Resource('system/wan_ports', ('GET',), (ID, text('name')))

# Rows have no id (STA-1).
_FIGURES = (
    integer('timestamp'), integer('resolution'), integer('iops_avg'),
    integer('iops_max'), integer('throughput_avg'), integer('throughput_max'),
    number('latency_inner'), number('latency_outer'),
    Field('rw', 'string', values=('r', 'w')),
    Field('bs', 'string',
          values=('lt8k', '8k_64k', '64k_256k', 'gt256k')))
SYSTEM_STATS = Resource('stats/system', ('GET',), _FIGURES, paged=False)
VOLUME_STATS = Resource('stats/volumes', ('GET',), (
    *_FIGURES, ref('volume', 'volumes'), text('volume_name'),
    text('peer_k2_name', null=True)), paged=False)

_SERVED = (
    VOLUMES, VOLUME_GROUPS, SNAPSHOTS, VOLSNAPS, MAPPINGS, HOSTS,
    HOST_GROUPS, HOST_IQNS, HOST_FC_PORTS, HOST_AUTH_PROFILES,
    RETENTION_POLICIES, VG_CAPACITY_POLICIES, SYSTEM_STATE,
    SYSTEM_CAPACITY, NET_IPS, NET_PORTS, NET_PORTCHANNELS, NET_VLANS,
    FC_PORTS, WAN_PORTS, SYSTEM_STATS, VOLUME_STATS)

RESOURCES: dict[str, Resource] = {
    resource.name: resource
    for resource in (
        *_SERVED, *replication.RESOURCES, *hardware_resources.RESOURCES)}


def index() -> dict[str, object]:
    """The reply to GET /api/v2 (DIS-1 to DIS-3)."""
    return {'resources': {
        name: {'url': f'/{name}'} for name in RESOURCES}}
