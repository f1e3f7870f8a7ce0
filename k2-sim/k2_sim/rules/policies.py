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

"""Retention and capacity policies: sections 6.1 and 6.2."""

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.rules import snapshots
from k2_sim.state import catalogue
from k2_sim.state import hardware_resources
from k2_sim.state.schema import Row

BUILT_IN = ('CDP', 'Backup', 'Best_Effort_Retention',
            'Replication_Retention')
_AGES = ('num_snapshots', 'weeks', 'days', 'hours')
_OVERHEAD = range(1, 98)


class RetentionRules(base.Rules):
    """RET-1 to RET-4."""

    computed = {
        'snapshots_usage_count': lambda scope, row: scope.store.count(
            'snapshots', 'retention_policy',
            f'/retention_policies/{row["id"]}'),
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a policy."""
        self._check(scope, values)
        return super().create(scope, values)

    def _check(self, scope: Scope, values: Row, own_id: int = 0) -> None:
        if 'name' in values:
            base.check_name(values['name'], scope.behaviors.name_limit)
            base.check_unique(scope, self.name, 'name', values['name'],
                              'Retention policy', own_id)
        if any(values.get(name, 0) < 0 for name in _AGES):
            raise errors.refused('A retention cannot be negative')

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Change a policy; built-in ones keep their names."""
        self._check(scope, values, row['id'])
        if values.get('name', row['name']) != row['name']:
            _check_own(row)
        changed = super().update(scope, row, values)
        ref = self.ref(row)
        snapshots.retire(scope, ref, snapshots.groups_with(scope, ref))
        return changed

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a user's policy that no snapshot uses (RET-3)."""
        if (self.value(scope, row, 'snapshots_usage_count')
                or replicas.uses_policy(scope, self.ref(row))
                or scope.store.count(hardware_resources.SCHEDULERS.name,
                                     'retention_policy', self.ref(row))):
            raise errors.refused(
                f'Retention policy {row["name"]} is in use')
        _check_own(row)
        super().delete(scope, row)


def _check_own(row: Row) -> None:
    """Refuse to rename or remove a built-in policy (RET-1)."""
    if row['name'] in BUILT_IN:
        raise errors.refused(f'Retention policy {row["name"]} is built in')


class CapacityPolicyRules(base.Rules):
    """VCP-1 and VCP-2."""

    computed = {'full_threshold': lambda scope, row: 100}

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a policy; it is never the default one."""
        if (scope.behaviors.full_threshold_required
                and values['full_threshold'] is None):
            raise errors.refused('Missing required field: full_threshold')
        return self._checked(scope, super().create(
            scope, {**values, 'full_threshold': 100, 'is_default': False}))

    def _checked(self, scope: Scope, row: Row) -> Row:
        base.check_name(row['name'], scope.behaviors.name_limit)
        base.check_unique(scope, self.name, 'name', row['name'],
                          'Capacity policy', row['id'])
        if row['snapshot_overhead_threshold'] not in _OVERHEAD:
            raise errors.refused(
                'snapshot_overhead_threshold must be between 1 and 97')
        levels = (0, row['warning_threshold'], row['error_threshold'],
                  row['critical_threshold'], 100)
        if not all(low < high for low, high in zip(levels, levels[1:])):
            raise errors.refused(
                'Thresholds must rise: warning, error, critical, 100')
        return row

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Change a policy; full_threshold stays 100 (VCP-1)."""
        values = {**values, 'full_threshold': 100}
        return self._checked(scope, super().update(scope, row, values))

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a policy that no group uses, never the default."""
        if row['is_default'] or scope.store.count(
                'volume_groups', 'capacity_policy', self.ref(row)):
            raise errors.refused(
                f'Capacity policy {row["name"]} is in use')
        super().delete(scope, row)


RULES: tuple[base.Rules, ...] = (
    RetentionRules(catalogue.RETENTION_POLICIES),
    CapacityPolicyRules(catalogue.VG_CAPACITY_POLICIES))
