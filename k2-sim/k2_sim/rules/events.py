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

"""Events: section 9. Each successful write records one, newest last.

Two numbers are known (EVT-2); those of the other kinds, from 999, are specific
to this simulator.
"""

from collections.abc import Iterable

from k2_sim.rules.base import Scope
from k2_sim.state import hardware_resources
from k2_sim.state.schema import Row

NAME = hardware_resources.EVENTS.name
KEPT = 10000
_SUBJECTS = (
    ('volumes', 'VOLUME'), ('volume_groups', 'VG'),
    ('snapshots', 'SNAPSHOT'), ('mappings', 'MAPPING'), ('hosts', 'HOST'),
    ('host_groups', 'HOST_GROUP'), ('host_iqns', 'HOST_IQN'),
    ('host_fc_ports', 'HOST_FC_PORT'), ('host_nqns', 'HOST_NQN'),
    ('host_auth_profiles', 'AUTH_PROFILE'),
    ('retention_policies', 'RETENTION_POLICY'),
    ('vg_capacity_policies', 'CAPACITY_POLICY'),
    ('snapshot_scheduler', 'SCHEDULER'),
    ('snapshot_scheduler_mapping', 'SCHEDULE'),
    ('system/state', 'SYSTEM'), ('system/net_ips', 'NET_IP'),
    ('system/net_ports', 'NET_PORT'),
    ('system/net_portchannels', 'NET_PORTCHANNEL'),
    ('system/net_vlans', 'NET_VLAN'),
    ('replication/peer_k2arrays', 'PEER'),
    ('replication/peer_volume_groups', 'PEER_VG'),
    ('replication/peer_volumes', 'PEER_VOLUME'),
    ('replication/peer_wan_ports', 'PEER_WAN_PORT'),
    ('replication/sessions', 'REPLICATION_SESSION'))
_VERBS = {'POST': 'CREATED', 'PATCH': 'CHANGED', 'DELETE': 'DELETED'}
_KINDS = {
    (resource, method): (1001 + 10 * number + place,
                         f'{subject}_{verb}', f'{subject}, CONFIGURE')
    for number, (resource, subject) in enumerate(_SUBJECTS)
    for place, (method, verb) in enumerate(_VERBS.items())}
_KINDS |= {
    ('volume_groups', 'POST'): (249, 'VG_CREATED', 'VG, CONFIGURE'),
    ('volumes', 'DELETE'): (28, 'VOLUME_DELETED', 'VOLUME, CONFIGURE')}
_RECLAIMED = (999, 'SNAPSHOT_RECLAIMED', 'SNAPSHOT, CAPACITY')
_RETIRED = (1000, 'SNAPSHOT_RETIRED', 'SNAPSHOT, RETENTION')


def record_write(scope: Scope, method: str, resource: str,
                 rows: Iterable[Row]) -> None:
    """Record an event for each row that a request wrote or deleted."""
    number, name, labels = _KINDS[resource, method]
    done = _VERBS[method].lower()
    for row in rows:
        _record(scope, number, name, labels,
                f'{_titled(resource, row)} was {done}')


def record_retired(scope: Scope, row: Row) -> None:
    """Record a snapshot that its retention policy has expired (RET-2)."""
    _record(scope, *_RETIRED, f'{_titled("snapshots", row)} was removed,'
            ' its retention has ended', level='WARNING')


def record_reclaimed(scope: Scope, row: Row) -> None:
    """Record a snapshot that was deleted to free space (SNP-4)."""
    _record(scope, *_RECLAIMED, f'{_titled("snapshots", row)} was removed,'
            ' no space was left', level='WARNING')


def _titled(resource: str, row: Row) -> str:
    title = row.get('name') or row['id']
    return f'{resource}/{row["id"]} ({title})'


def _record(scope: Scope, number: int, name: str, labels: str,
            message: str, level: str = 'INFO') -> None:
    row = scope.store.insert(NAME, {
        'event_id': number, 'name': name, 'level': level, 'labels': labels,
        'message': message, 'timestamp': scope.now,
        'user': scope.login or None})
    old = row['id'] - KEPT
    if scope.store.get(NAME, old) is not None:
        scope.store.remove(NAME, old)
