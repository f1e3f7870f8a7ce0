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

"""The resources of replication: the tables of section 10 as data."""

from k2_sim.state.fields import boolean
from k2_sim.state.fields import ID
from k2_sim.state.fields import integer
from k2_sim.state.fields import ref
from k2_sim.state.fields import text
from k2_sim.state.schema import ALL
from k2_sim.state.schema import Field
from k2_sim.state.schema import Resource

# How the volumes of a target are exposed (REP-17).
EXPOSURES = ('unmapped', 'Read Only', 'Mapped - Not Exposed')
CAPACITIES = (
    'allocated', 'allocated_snapshots_and_views', 'allocated_volumes',
    'free', 'physical', 'provisioned', 'provisioned_snapshots',
    'provisioned_views', 'provisioned_volumes', 'reserved', 'total')

PEER_K2ARRAYS = Resource('replication/peer_k2arrays', ALL, (
    ID,
    text('name', 'required', True),
    text('mgmt_host', 'required', True),
    text('username', 'required', True),
    Field('password', 'string', 'required', True, write_only=True),
    Field('local_username', 'string', 'required', write_only=True),
    Field('local_password', 'string', 'required', write_only=True),
    integer('bandwidth_limit', 'optional', True, null=True),
    Field('logical_bandwidth_limit', 'int', 'optional', True,
          write_only=True),
    text('system_id'),
    text('mgmt_connectivity_state'),
    *(integer(f'capacity_{name}') for name in CAPACITIES),
    text('capacity_state'),
), indexed=('name', 'mgmt_host', 'system_id'))

PEER_VOLUME_GROUPS = Resource(
    'replication/peer_volume_groups', ('GET', 'PATCH', 'DELETE'), (
        ID,
        text('name', patch=True),
        text('fullname'),
        ref('local_volume_group', 'volume_groups'),
        integer('remote_volume_group_id'),
        ref('replication_peer_k2array', 'replication/peer_k2arrays'),
        ref('replication_session', 'replication/sessions'),
        integer('replication_session_id'),
        text('capacity_state'),
        integer('logical_capacity'),
        integer('snapshots_logical_capacity'),
        integer('volumes_logical_capacity'),
    ), indexed=('name', 'local_volume_group'))

PEER_VOLUMES = Resource('replication/peer_volumes', ALL, (
    ID,
    text('name', 'required', True),
    ref('local_volume', 'volumes', create='required'),
    Field('replication_session', 'ref', 'required',
          refs=('replication/sessions',), write_only=True),
    integer('remote_volume_id', null=True),
    ref('replication_peer_volume_group',
        'replication/peer_volume_groups'),
), indexed=('name', 'local_volume', 'replication_session'))

PEER_WAN_PORTS = Resource(
    'replication/peer_wan_ports', ('GET', 'POST', 'DELETE'), (
        ID,
        ref('replication_peer_k2array', 'replication/peer_k2arrays',
            create='required'),
        text('remote_wan_port_ip_address'),
        text('remote_wan_port_name'),
    ), indexed=('replication_peer_k2array',))

SESSIONS = Resource('replication/sessions', ALL, (
    ID,
    text('name', 'required', True),
    ref('replication_peer_k2array', 'replication/peer_k2arrays',
        create='required'),
    ref('local_volume_group', 'volume_groups', create='required'),
    integer('rpo', 'required', True),
    ref('retention_policy', 'retention_policies', create='optional',
        patch=True, null=True),
    ref('external_retention_policy', 'retention_policies',
        create='optional', patch=True, null=True),
    Field('replication_peer_volume_group_name', 'string', 'optional',
          write_only=True),
    text('remote_replication_session_name', 'optional'),
    Field('auto_configure_peer_volumes', 'bool', 'optional', default=True,
          write_only=True),
    Field('target_exposure', 'string', 'optional', True,
          values=EXPOSURES),
    Field('state', 'string', patch=True,
          values=('idle', 'in_sync', 'suspended', 'failed_over')),
    Field('snapshot_wwn', 'string', patch=True, write_only=True),
    Field('offline_initial_sync', 'bool', patch=True, write_only=True),
    ref('restored_snapshot', 'snapshots', patch=True, null=True),
    text('current_role'),
    boolean('primary'),
    boolean('stopped'),
    text('suspend_reason'),
    text('suspend_reason_code'),
    ref('current_snapshot', 'snapshots', null=True),
    integer('current_snapshot_id', null=True),
    integer('current_snapshot_progress'),
    integer('estimated_remaining_time', null=True),
    integer('generation_number', null=True),
    ref('next_snapshot', 'snapshots', null=True),
    ref('latest_replicated_snapshot', 'snapshots', null=True),
    integer('common_snapshots_count'),
    integer('remote_replication_session_id'),
    ref('replication_peer_volume_group',
        'replication/peer_volume_groups'),
    ref('replication_rpo_history', 'replication/rpo_history'),
), indexed=('name', 'local_volume_group', 'replication_peer_k2array',
            'retention_policy', 'external_retention_policy'))

# No reply shows the id of a row.
RPO_HISTORY = Resource('replication/rpo_history', ('GET',), (
    ref('session', 'replication/sessions'),
    integer('generation_number'),
    text('role'),
    integer('round_start'),
    integer('round_end'),
    integer('target_rpo'),
    integer('bytes_transmitted_logical'),
    integer('bytes_transmitted_physical'),
), paged=False, indexed=('session',))

_TRAFFIC = (
    integer('logical_in'), integer('logical_out'), integer('physical_in'),
    integer('physical_out'), integer('resolution'), integer('timestamp'))
_TRAFFIC_OF_VOLUME = (
    *_TRAFFIC, ref('volume', 'volumes'), text('volume_name'))

STATS = Resource('replication/stats', ('GET',), (
    *_TRAFFIC_OF_VOLUME, text('peer_k2_name', null=True)), paged=False)
SYSTEM_STATS = Resource(
    'replication/stats/system', ('GET',), _TRAFFIC, paged=False)
VOLUME_STATS = Resource(
    'replication/stats/volumes', ('GET',), _TRAFFIC_OF_VOLUME, paged=False)

RESOURCES = (
    PEER_K2ARRAYS, PEER_VOLUME_GROUPS, PEER_VOLUMES, PEER_WAN_PORTS,
    SESSIONS, RPO_HISTORY, STATS, SYSTEM_STATS, VOLUME_STATS)
