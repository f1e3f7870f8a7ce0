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

"""The system and its capacity: sections 7.1 and 7.2."""

from collections.abc import Iterable

from cinder_k2.simulator import catalogue
from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules.base import Scope
from cinder_k2.simulator.rules import volumes
from cinder_k2.simulator.schema import Row

# What hosts wrote takes a quarter of the space (CAP-2).
REDUCTION = 4


class StateRules(base.Rules):
    """system/state: one object, id 1."""

    computed = {
        'state': lambda scope, row: scope.switches.state,
        'next_state': lambda scope, row: 'None',
        'is_system_functionality_degraded':
            lambda scope, row: (scope.switches.degraded
                                or scope.switches.state != 'ONLINE'),
        'rest_api_version':
            lambda scope, row: scope.switches.rest_api_version,
        'system_version': lambda scope, row: 'sim-1',
        'system_time': lambda scope, row: scope.now,
        'system_tz': lambda scope, row: 'UTC',
        'system_tz_short': lambda scope, row: 'UTC',
        'current_user_role': lambda scope, row: scope.role,
        'replication_protocol_version': lambda scope, row: 2,
        'replication_min_protocol_version': lambda scope, row: 1,
        'sra_protocol_version': lambda scope, row: '1.2',
    }

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename the system; the two actions have no effect here."""
        kept = {name: value for name, value in values.items()
                if not self.resource.known[name].write_only}
        if 'system_name' in kept:
            base.check_name(kept['system_name'], scope.switches.name_limit)
        return super().update(scope, row, kept)


def _sum(rows: Iterable[Row], field: str) -> int:
    return int(sum(row[field] for row in rows))


def _user_volumes(scope: Scope) -> list[Row]:
    return [row for row in scope.store.rows('volumes')
            if row['id'] != volumes.CTRL_ID]


class CapacityRules(base.Rules):
    """CAP-1 to CAP-4: sums over the other resources."""

    def render(self, scope: Scope, row: Row,
               wanted: frozenset[str] = frozenset()) -> Row:
        """The reply, its sums made once."""
        return super().render(scope, {**row, **_sums(scope, row)}, wanted)

    def value(self, scope: Scope, row: Row, field: str) -> object:
        """One value, for searches."""
        return {**row, **_sums(scope, row)}[field]


def _sums(scope: Scope, row: Row) -> Row:
    written = _sum(_user_volumes(scope), 'logical_capacity')
    provisioned = {
        'provisioned_volumes': _sum(_user_volumes(scope), 'size'),
        'provisioned_snapshots': _images(scope, False),
        'provisioned_views': _images(scope, True)}
    return {
        **provisioned, 'provisioned': sum(provisioned.values()),
        **_space(scope, row, written), 'allocated_volumes': written,
        'allocated_snapshots_and_views': 0,
        'logical': written, 'physical': written // REDUCTION}


def _space(scope: Scope, row: Row, written: int) -> Row:
    """What is left (CAP-3); of a full array others have taken the rest."""
    usable = row['total'] - row['reserved']
    if scope.switches.full:
        return {'state': 'full', 'free': 0, 'allocated': usable}
    return {'free': usable - written, 'allocated': written}


def _images(scope: Scope, exposable: bool) -> int:
    return _sum((row for row in scope.store.rows('volsnaps')
                 if row['is_exposable'] is exposable), 'size')


RULES: tuple[base.Rules, ...] = (
    StateRules(catalogue.SYSTEM_STATE),
    CapacityRules(catalogue.SYSTEM_CAPACITY))
