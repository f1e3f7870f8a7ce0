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

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.state import aggregates
from k2_sim.state import catalogue
from k2_sim.state.schema import Row

# Data that is not measured is taken to need a quarter of its size (CAP-2).
REDUCTION = 4


class StateRules(base.Rules):
    """system/state: one object, id 1."""

    computed = {
        'state': lambda scope, row: scope.behaviors.state,
        'next_state': lambda scope, row: 'None',
        'is_system_functionality_degraded':
            lambda scope, row: (scope.behaviors.degraded
                                or not scope.behaviors.serves),
        'rest_api_version':
            lambda scope, row: scope.behaviors.rest_api_version,
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
        """Change the name or the default exposure; actions have no effect.

        The actions are send_callhome and send_test_event.
        """
        kept = {name: value for name, value in values.items()
                if not self.resource.known[name].write_only}
        if 'system_name' in kept:
            base.check_name(kept['system_name'], scope.behaviors.name_limit)
        return super().update(scope, row, kept)


class CapacityRules(base.Rules):
    """CAP-1 to CAP-4: sums over volumes and their images."""

    def render(self, scope: Scope, row: Row,
               wanted: frozenset[str] = frozenset()) -> Row:
        """The reply; its sums are calculated once."""
        values = {**row, **_sums(scope)}
        return {field.name: values[field.name]
                for field in self.resource.fields
                if not wanted or field.name in wanted}

    def value(self, scope: Scope, row: Row, field: str) -> object:
        """One value, for searches."""
        return {**row, **_sums(scope)}[field]


def _sums(scope: Scope) -> Row:
    volumes, snapshots, views = map(scope.store.sums, aggregates.RESOURCES)
    images = snapshots.written + views.written
    provisioned = {
        'provisioned_volumes': volumes.provisioned,
        'provisioned_snapshots': snapshots.provisioned,
        'provisioned_views': views.provisioned}
    written = volumes.written + images
    return {
        **provisioned, 'provisioned': sum(provisioned.values()),
        **_space(scope, written), 'allocated_volumes': volumes.written,
        'allocated_snapshots_and_views': images,
        'logical': written, 'physical': _physical(scope, written)}


def _physical(scope: Scope, written: int) -> int:
    """The space that all data takes, in KiB.

    It is estimated for data that was not measured. Some of the measured data
    may have been deleted since.
    """
    row = scope.store.at('/system/capacity/1')
    supposed = max(0, written - row.get('measured', 0))
    found = int(row.get('reduced', 0) + supposed // REDUCTION)
    return min(found, written, usable(scope))


def _space(scope: Scope, written: int) -> Row:
    """The free space (CAP-3); a full array has none.

    Initiators may write more than the capacity: then free is 0.
    """
    all_of_it = usable(scope)
    if scope.behaviors.full or written >= all_of_it:
        return {'state': 'full', 'free': 0, 'allocated': all_of_it}
    return {'state': 'ok', 'free': all_of_it - written, 'allocated': written}


def usable(scope: Scope) -> int:
    """The capacity that can be allocated, in KiB (CAP-3)."""
    row = scope.store.at('/system/capacity/1')
    return int(row['total'] - row['reserved'])


def free(scope: Scope) -> int:
    """The capacity that is not allocated, in KiB (CAP-3).

    Negative if initiators have written more than the capacity.
    """
    if scope.behaviors.full:
        return 0
    return usable(scope) - scope.store.written()


def check_space(scope: Scope) -> None:
    """Refuse writes while the array has no free space (CAP-3)."""
    if free(scope) <= 0:
        raise errors.refused('No space is left on the array')


RULES: tuple[base.Rules, ...] = (
    StateRules(catalogue.SYSTEM_STATE),
    CapacityRules(catalogue.SYSTEM_CAPACITY))
