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
"""Sections 9 and 6.3: events, and snapshots at regular times."""

import ddt

from k2_sim.rules import events
from tests import base


class TestEvents(base.ArrayTest):

    def latest(self):
        return self.hits('events?__sort=id&__sort_order=desc&__limit=1')[0]

    def test_what_is_known(self):
        """EVT-2: 249 VG_CREATED, 28 the deletion of a volume."""
        group = self.group()
        number = group['id']
        self.assertEqual({
            'id': 1, 'event_id': 249, 'name': 'VG_CREATED', 'level': 'INFO',
            'labels': 'VG, CONFIGURE', 'user': 'admin',
            'message': f'volume_groups/{number} (vg-a) was created',
            'timestamp': self.clock.time()}, self.latest())
        self.delete(f'volumes/{self.volume(group)["id"]}')
        self.assertEqual(28, self.latest()['event_id'])

    def test_searches(self):
        """EVT-1."""
        self.group('one')
        self.host()
        for query, total in (('level=INFO', 2), ('event_id__in=249', 1),
                             ('message__contains=one', 1), ('', 2),
                             ('name=HOST_CREATED', 1)):
            self.assertEqual(total, self.get(f'events?{query}')['total'])

    def test_no_such_event(self):
        """EVT-3."""
        self.host()
        self.refused('GET', 'events/0', status=404)
        self.get('events/1')

    def test_order(self):
        """EVT-4: newest events have the highest id; one for each row."""
        self.post('host_groups/__bulk', [{'name': 'a'}, {'name': 'b'}])
        self.patch('host_groups/5', {'description': 'x'})
        self.refused('POST', 'host_groups', {'name': 'a'})
        self.assertEqual(
            ['HOST_GROUP_CHANGED', 'HOST_GROUP_CREATED',
             'HOST_GROUP_CREATED'],
            [row['name'] for row in self.hits(
                'events?__sort=id&__sort_order=desc')])

    def test_retired_snapshots(self):
        """RET-2: the array reports what it removed by itself."""
        policy = self.post('retention_policies', {
            'name': 'short', 'num_snapshots': 0, 'weeks': 0, 'days': 0,
            'hours': 1})
        group = self.group()
        self.volume(group)
        self.snapshot(group, is_auto_deleteable=True,
                      retention_policy=base.ref(
                          'retention_policies', policy))
        self.clock.advance(3601)
        self.get('snapshots')
        event = self.latest()
        self.assertEqual(('SNAPSHOT_RETIRED', 'WARNING', None), (
            event['name'], event['level'], event['user']))

    def test_retired_by_number(self):
        """RET-2: at once, also when the number is lowered."""
        policy = self.post('retention_policies', {
            'name': 'few', 'num_snapshots': 3, 'weeks': 0, 'days': 0,
            'hours': 0})
        group = self.group()
        self.volume(group)
        for name in 'abcd':
            self.snapshot(group, name, is_auto_deleteable=True,
                          retention_policy=base.ref(
                              'retention_policies', policy))
        self.patch(f'retention_policies/{policy["id"]}',
                   {'num_snapshots': 1})
        self.assertEqual(['d'], [
            row['short_name'] for row in self.hits('snapshots')])
        self.assertEqual([None] * 3, [
            row['user'] for row in self.hits('events')
            if row['name'] == 'SNAPSHOT_RETIRED'])

    def test_the_oldest_go(self):
        with self.array.store.transaction():
            self.array.store.reserve('events', events.KEPT - 1)
        for name in 'abc':
            self.post('host_groups', {'name': name})
        self.assertEqual([events.KEPT, events.KEPT + 1, events.KEPT + 2],
                         [row['id'] for row in self.hits('events')])
        with self.array.store.transaction():
            self.array.store.reserve('events', 2 * events.KEPT - 1)
        self.post('host_groups', {'name': 'd'})
        self.refused('GET', f'events/{events.KEPT}', status=404)


@ddt.ddt
class TestSchedulers(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.of_array = self.group()
        self.volume(self.of_array)

    def scheduler(self, criteria='15m:01h:00d', **fields):
        return self.post('snapshot_scheduler', {
            'scheduler_name': 'hourly', 'time_criteria': criteria,
            'retention_policy': {'ref': base.RETENTION}, **fields})

    def schedule(self, scheduler):
        return self.post('snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', scheduler),
            'volume_group': base.ref('volume_groups', self.of_array)})

    def test_fields(self):
        """Section 6.3: scheduler_name is the name; criteria add up."""
        made = self.scheduler()
        self.assertEqual({
            'id': 1, 'name': 'hourly', 'time_interval_min': 75,
            'retention_policy': {'ref': base.RETENTION},
            'description': None, 'start_time': None, 'is_enabled': True},
            made)
        self.assertEqual(1440, self.patch('snapshot_scheduler/1', {
            'time_criteria': '00m:00h:01d', 'name': 'daily'})[
                'time_interval_min'])

    @ddt.data('0m:0h:0d', '15m', '', 'x', '15m:1h:0d:')
    def test_wrong_times(self, criteria):
        self.refused('POST', 'snapshot_scheduler', {
            'scheduler_name': 'x', 'time_criteria': criteria,
            'retention_policy': {'ref': base.RETENTION}})

    def test_snapshots(self):
        """Section 6.3: at each interval, with the scheduler's policy."""
        self.schedule(self.scheduler())
        self.clock.advance(75 * 60 - 1)
        self.assertEqual([], self.hits('snapshots'))
        self.clock.advance(1)
        snapshot, = self.hits('snapshots')
        self.assertEqual('vg-a:sched-1', snapshot['name'])
        self.assertEqual({'ref': base.RETENTION},
                         snapshot['retention_policy'])
        mapping = self.get('snapshot_scheduler_mapping/1')
        self.assertEqual((self.clock.time(), 'ok'), (
            mapping['last_successful_time'], mapping['status']))
        self.check_renderings()
        self.clock.advance(10 * 75 * 60)
        self.assertEqual(2, self.get('snapshots')['total'])
        self.patch('snapshot_scheduler/1', {'is_enabled': False})
        self.clock.advance(75 * 60)
        self.assertEqual(2, self.get('snapshots')['total'])

    def test_start_time(self):
        self.schedule(self.scheduler(start_time=self.clock.time() + 600))
        self.clock.advance(75 * 60)
        self.assertEqual(0, self.get('snapshots')['total'])
        self.clock.advance(600)
        self.assertEqual(1, self.get('snapshots')['total'])

    def test_what_cannot_be_done(self):
        """SNP-12: an empty group has none; the status says why."""
        self.schedule(self.scheduler())
        self.delete('volumes/31')
        self.clock.advance(75 * 60)
        self.assertEqual(0, self.get('snapshots')['total'])
        mapping = self.get('snapshot_scheduler_mapping/1')
        self.assertIsNone(mapping['last_successful_time'])
        self.assertNotIn(mapping['status'], (None, 'ok'))

    def test_in_use(self):
        """RET-3: scheduler and policy stay while they are in use."""
        policy = self.post('retention_policies', {
            'name': 'mine', 'num_snapshots': 1, 'weeks': 0, 'days': 0,
            'hours': 0})
        scheduler = self.scheduler(retention_policy=base.ref(
            'retention_policies', policy))
        path = f'retention_policies/{policy["id"]}'
        self.refused('DELETE', path)
        made = self.schedule(scheduler)
        self.refused('POST', 'snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', scheduler),
            'volume_group': base.ref('volume_groups', self.of_array)})
        self.refused('DELETE', 'snapshot_scheduler/1')
        self.refused('PATCH', f'snapshot_scheduler_mapping/{made["id"]}', {},
                     status=405)
        self.delete(f'snapshot_scheduler_mapping/{made["id"]}')
        self.delete('snapshot_scheduler/1')
        self.delete(path)

    def test_a_group_takes_its_schedules_along(self):
        self.schedule(self.scheduler())
        self.delete('volumes/31')
        self.delete(f'volume_groups/{self.of_array["id"]}')
        self.assertEqual([], self.hits('snapshot_scheduler_mapping'))
