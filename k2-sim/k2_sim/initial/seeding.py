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

"""Bulk creation of objects: initially, or on request."""

from collections.abc import Iterator
import itertools

from k2_sim.config.settings import Seed
from k2_sim.rules import base
from k2_sim.rules import groups
from k2_sim.rules import hosts
from k2_sim.rules import initiators
from k2_sim.rules import snapshots
from k2_sim.rules import volumes
from k2_sim.state.schema import make_ref
from k2_sim.state.schema import Row

_GIB = 2 ** 20
_GROUP, _VOLUME, _INTERNAL = 'seed-vg-', 'seed-vol-', 'INDEPENDENT_'
_HOST, _SNAPSHOT = 'seed-host-', 'seed-snap-'
_RETENTION = 'Best_Effort_Retention'


def create(scope: base.Scope, seed: Seed) -> None:
    """Create the objects of a seed by the rules, inside a transaction.

    Raises ApiError if a rule refuses one.
    """
    made = _groups(scope, seed)
    numbers = _numbers(scope, 'volumes', _VOLUME)
    for place, number in zip(range(seed.volumes), numbers):
        _volume(scope, number, made[place // seed.volumes_per_group])
    numbers = _numbers(scope, 'hosts', _HOST)
    for _, number in zip(range(seed.hosts), numbers):
        _host(scope, number)
    numbers = _numbers(scope, 'snapshots', _SNAPSHOT, 'short_name')
    for place, number in zip(range(seed.snapshots), numbers):
        _snapshot(scope, number, made[place % len(made)])
    numbers = _numbers(scope, 'volume_groups', _INTERNAL)
    for _, number in zip(range(seed.internal_groups), numbers):
        _group(scope, f'{_INTERNAL}{number:05d}')


def _numbers(scope: base.Scope, resource: str, prefix: str,
             field: str = 'name') -> Iterator[int]:
    """Numbers for new names with a prefix, after the highest one in use."""
    names = [str(row[field]) for row in scope.store.rows(resource)]
    used = (name.removeprefix(prefix) for name in names
            if name.startswith(prefix))
    return itertools.count(1 + max(
        (int(text) for text in used if text.isdecimal()), default=-1))


def _groups(scope: base.Scope, seed: Seed) -> list[str]:
    """References to the volume groups that the volumes need."""
    needed = -(-seed.volumes // seed.volumes_per_group)
    numbers = _numbers(scope, 'volume_groups', _GROUP)
    return [_group(scope, f'{_GROUP}{number:05d}')
            for _, number in zip(range(needed), numbers)]


def _group(scope: base.Scope, name: str) -> str:
    rules, = groups.RULES
    row = rules.create(scope, {
        'name': name, 'quota': 0, 'is_dedup': True, 'description': None,
        'capacity_policy': None})
    return make_ref('volume_groups', row['id'])


def _volume(scope: base.Scope, number: int, group: str) -> None:
    rules, = volumes.RULES
    rules.create(scope, {
        'name': f'{_VOLUME}{number:05d}', 'size': _GIB,
        'volume_group': group, 'description': None, 'read_only': None,
        'vmware_support': None})


def _host(scope: base.Scope, number: int) -> None:
    host_rules, iqn_rules = hosts.RULES[0], initiators.RULES[0]
    row: Row = host_rules.create(scope, {
        'name': f'{_HOST}{number:05d}', 'type': 'Linux',
        'host_group': None, 'connectivity_type': None})
    iqn_rules.create(scope, {
        'iqn': f'iqn.2004-10.org.example:{_HOST}{number:05d}',
        'host': make_ref('hosts', row['id'])})


def _snapshot(scope: base.Scope, number: int, group: str) -> None:
    policy, = scope.store.find('retention_policies', 'name', _RETENTION)
    snapshots.RULES[0].create(scope, {
        'short_name': f'{_SNAPSHOT}{number:05d}', 'source': group,
        'retention_policy': make_ref('retention_policies', policy['id']),
        'is_auto_deleteable': False, 'is_exposable': False,
        'replication_session': None, 'is_application_consistent': None})
