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

"""Snapshots at regular times: section 6.3."""

import re

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import snapshots
from k2_sim.state import hardware_resources
from k2_sim.state.schema import Row

SCHEDULERS = hardware_resources.SCHEDULERS.name
SCHEDULES = hardware_resources.SCHEDULES.name
_MINUTE = 60


def _minutes(criteria: str) -> int:
    """The length of "15m:01h:00d" in minutes."""
    match = re.fullmatch('([0-9]{1,4})m:([0-9]{1,4})h:([0-9]{1,4})d',
                         criteria)
    minutes = 0 if match is None else (
        int(match[1]) + 60 * int(match[2]) + 1440 * int(match[3]))
    if not minutes:
        raise errors.refused(
            'time_criteria must be <minutes>m:<hours>h:<days>d')
    return minutes


class SchedulerRules(base.Rules):
    """Schedulers. In POST the field for the name is scheduler_name."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a scheduler."""
        name = values.pop('scheduler_name')
        self._check_name(scope, name)
        minutes = _minutes(values.pop('time_criteria'))
        return super().create(scope, {
            **values, 'name': name, 'time_interval_min': minutes})

    def _check_name(self, scope: Scope, name: str, own_id: int = 0) -> None:
        base.check_name(name, scope.behaviors.name_limit)
        base.check_unique(
            scope, self.name, 'name', name, 'Scheduler', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename or describe a scheduler, change its times or its policy."""
        if 'name' in values:
            self._check_name(scope, values['name'], row['id'])
        if 'time_criteria' in values:
            values['time_interval_min'] = _minutes(
                values.pop('time_criteria'))
        return super().update(scope, row, values)

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a scheduler that has no volume groups."""
        if scope.store.count(
                SCHEDULES, 'snapshot_scheduler', self.ref(row)):
            raise errors.refused(f'Scheduler {row["name"]} is in use')
        super().delete(scope, row)


class ScheduleRules(base.Rules):
    """Schedules: the volume groups that a scheduler takes snapshots of."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Add a group to a scheduler, once."""
        for row in scope.store.find(
                self.name, 'volume_group', values['volume_group']):
            if row['snapshot_scheduler'] == values['snapshot_scheduler']:
                raise errors.refused('The scheduler has this volume group')
        return super().create(scope, {
            **values, 'since': scope.now, 'last_successful_time': None,
            'status': None})


def due(scope: Scope) -> list[Row]:
    """The schedules that have a snapshot due."""
    table = scope.store.tables[SCHEDULES]
    return [table.rows[number] for number in table.numbers
            if scope.now >= _next(scope, table.rows[number])]


def _next(scope: Scope, row: Row) -> float:
    """When the next snapshot of a schedule is due."""
    scheduler = scope.store.at(row['snapshot_scheduler'])
    if not scheduler['is_enabled']:
        return float('inf')
    begin = max(row['since'], scheduler['start_time'] or 0)
    return float(begin + scheduler['time_interval_min'] * _MINUTE)


def run(scope: Scope, row: Row) -> None:
    """Take the snapshot of a schedule; several missed ones become one."""
    scheduler = scope.store.at(row['snapshot_scheduler'])
    rules = snapshots.RULES[0]
    number = scope.store.next_number(SCHEDULES + '/snapshots')
    status: Row = {'status': 'ok', 'last_successful_time': scope.now}
    try:
        rules.create(scope, {
            'short_name': f'sched-{number}', 'source': row['volume_group'],
            'retention_policy': scheduler['retention_policy'],
            'is_auto_deleteable': True, 'is_exposable': False,
            'replication_session': None,
            'is_application_consistent': None})
    except errors.ApiError as exc:
        status = {'status': exc.message}
    scope.store.update(SCHEDULES, row['id'], since=scope.now, **status)


RULES: tuple[base.Rules, ...] = (
    SchedulerRules(hardware_resources.SCHEDULERS),
    ScheduleRules(hardware_resources.SCHEDULES))
