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

"""Objects that a new array has from the start."""

from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules import groups
from cinder_k2.simulator.rules import hosts
from cinder_k2.simulator.rules import initiators
from cinder_k2.simulator.rules import snapshots
from cinder_k2.simulator.rules import volumes
from cinder_k2.simulator.schema import make_ref
from cinder_k2.simulator.schema import Row
from cinder_k2.simulator.settings import Seed

_GIB = 2 ** 20
_RETENTION = 'Best_Effort_Retention'


def plant(scope: base.Scope, seed: Seed) -> None:
    """Make what is asked for, inside a transaction and by the rules."""
    made = _groups(scope, seed)
    for number in range(seed.volumes):
        _volume(scope, number, made[number // seed.volumes_per_group])
    for number in range(seed.hosts):
        _host(scope, number)
    for number in range(seed.snapshots):
        _snapshot(scope, number, made[number % len(made)])
    for number in range(seed.internal_groups):
        _group(scope, f'INDEPENDENT_{number:05d}')


def _groups(scope: base.Scope, seed: Seed) -> list[str]:
    """References to the volume groups that the volumes need."""
    needed = -(-seed.volumes // seed.volumes_per_group)
    return [_group(scope, f'seed-vg-{number:05d}')
            for number in range(needed)]


def _group(scope: base.Scope, name: str) -> str:
    rules, = groups.RULES
    row = rules.create(scope, {
        'name': name, 'quota': 0, 'is_dedup': True, 'description': None,
        'capacity_policy': None})
    return make_ref('volume_groups', row['id'])


def _volume(scope: base.Scope, number: int, group: str) -> None:
    rules, = volumes.RULES
    rules.create(scope, {
        'name': f'seed-vol-{number:05d}', 'size': _GIB,
        'volume_group': group, 'description': None, 'read_only': None,
        'vmware_support': None})


def _host(scope: base.Scope, number: int) -> None:
    host_rules, iqn_rules = hosts.RULES[0], initiators.RULES[0]
    row: Row = host_rules.create(scope, {
        'name': f'seed-host-{number:05d}', 'type': 'Linux',
        'host_group': None, 'connectivity_type': None})
    iqn_rules.create(scope, {
        'iqn': f'iqn.2004-10.org.example:seed-host-{number:05d}',
        'host': make_ref('hosts', row['id'])})


def _snapshot(scope: base.Scope, number: int, group: str) -> None:
    policy, = scope.store.find('retention_policies', 'name', _RETENTION)
    snapshots.RULES[0].create(scope, {
        'short_name': f'seed-snap-{number:05d}', 'source': group,
        'retention_policy': make_ref('retention_policies', policy['id']),
        'is_auto_deleteable': False, 'is_exposable': False,
        'replication_session': None, 'is_application_consistent': None})
