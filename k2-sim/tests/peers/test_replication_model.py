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

"""Anything on two arrays in any order: invariants that always hold."""

import hypothesis
from hypothesis import stateful
from hypothesis import strategies

import k2_sim
from k2_sim.rules import transfers
from k2_sim.state import catalogue
from tests import base
from tests import pairs

SIDES = strategies.sampled_from('ab')
# Sessions by their order on an array, and all their volumes.
NUMBERS = strategies.integers(0, 1)
COMMANDS = strategies.sampled_from(
    ('in_sync', 'suspended', 'idle', 'failed_over'))
DELAYS = strategies.sampled_from((0.0, 0.0, 7.0, 100.0))
# These refer to no object, or to one that may be deleted.
_LOOSE = ('current_stats', 'current_replication_stats',
          'replication_rpo_history', 'last_restored_from')


class TwoArrays(stateful.RuleBasedStateMachine):
    """Arrays a and b with up to two sessions, created on a."""

    def __init__(self):
        super().__init__()
        self.clock = k2_sim.FakeClock()
        self.sides = {name: pairs.talk(k2_sim.Array(
            clock=self.clock, name=f'k2-{name}')) for name in 'ab'}
        k2_sim.connect(self.sides['a'].array, self.sides['b'].array,
                       hosts=pairs.HOSTS)
        self.written = 0
        for number in range(2):
            group = self.sides['a'].group(f'vg-{number}')
            self.sides['a'].volume(group, f'vol-{number}')
            self.make_session(number)
            self.call('a', 'PATCH', f'{pairs.SESSIONS}/{9 + number}',
                      {'state': 'in_sync'})

    def call(self, side, method, path, body=None):
        """Carried out or refused, and a refusal changes nothing."""
        test = self.sides[side]
        test.control.tick()
        before = test.control.dump()
        reply = test.call(method, path, body)
        test.assertIn(reply.status, (200, 201, 204, 400, 404), reply.body)
        if reply.status >= 400:
            test.assertEqual(before, test.control.dump())
        return reply

    def sessions(self, side):
        return self.sides[side].array.store.rows(pairs.SESSIONS)

    def pick(self, side, number):
        rows = self.sessions(side)
        return rows[number % len(rows)]['id'] if rows else 0

    @stateful.rule(number=NUMBERS)
    def make_session(self, number):
        group = {'id': 14 + number, 'name': f'vg-{number}'}
        body = pairs.session_body(group, f'ssn-{number}', rpo=60,
                                  auto_configure_peer_volumes='true')
        self.call('a', 'POST', pairs.SESSIONS, body)

    @stateful.rule(side=SIDES, number=NUMBERS, state=COMMANDS)
    def command(self, side, number, state):
        self.call(side, 'PATCH',
                  f'{pairs.SESSIONS}/{self.pick(side, number)}',
                  {'state': state})

    @stateful.rule(side=SIDES, state=COMMANDS)
    def command_all(self, side, state):
        self.call(side, 'PATCH', f'{pairs.SESSIONS}/__bulk', [
            {'id': row['id'], 'state': state}
            for row in self.sessions(side)])

    @stateful.rule(side=SIDES, number=NUMBERS)
    def delete_session(self, side, number):
        self.call(side, 'DELETE',
                  f'{pairs.SESSIONS}/{self.pick(side, number)}')

    @stateful.rule(side=SIDES, number=NUMBERS)
    def take_snapshot(self, side, number):
        self.call(side, 'POST', 'snapshots', {
            'replication_session': base.ref(
                pairs.SESSIONS, self.pick(side, number) or 1)})

    @stateful.rule(side=SIDES, number=NUMBERS)
    def delete_snapshot(self, side, number):
        rows = self.sides[side].array.store.rows('snapshots')
        if rows:
            self.call(side, 'DELETE',
                      f'snapshots/{rows[number % len(rows)]["id"]}')

    @stateful.rule(side=SIDES, number=NUMBERS)
    def delete_volume(self, side, number):
        rows = self.sides[side].array.store.rows('volumes')[1:]
        if rows and side == 'b':
            self.call(side, 'DELETE',
                      f'volumes/{rows[number % len(rows)]["id"]}')

    @stateful.rule(number=NUMBERS)
    def delete_group(self, number):
        rows = self.sides['b'].array.store.rows('volume_groups')
        if rows:
            self.call('b', 'DELETE',
                      f'volume_groups/{rows[number % len(rows)]["id"]}')

    @stateful.rule(side=SIDES, number=NUMBERS)
    def write(self, side, number):
        rows = self.sides[side].array.store.rows('volumes')[1:]
        if not rows:
            return
        row = rows[number % len(rows)]
        self.written += 1
        try:
            self.sides[side].control.write(row['id'], f't{self.written}')
        except k2_sim.ApiError:
            self.sides[side].assertTrue(row['read_only'])

    @stateful.rule(seconds=strategies.sampled_from((1, 5, 59, 60, 1000)))
    def advance(self, seconds):
        self.clock.advance(seconds)

    @stateful.rule(side=SIDES, cut=strategies.booleans())
    def link(self, side, cut):
        control = self.sides[side].control
        (control.cut_link if cut else control.restore_link)()

    @stateful.rule(side=SIDES, name=strategies.sampled_from(
        ('copy_seconds', 'round_seconds', 'snapshot_seconds',
         'start_seconds', 'follow_seconds')), seconds=DELAYS)
    def delay(self, side, name, seconds):
        self.sides[side].control.set_behaviors(**{name: seconds})

    @stateful.invariant()
    def roles(self):
        """Never two sources for each other; epochs decide."""
        for row in self.sessions('a'):
            other = self.other('a', row)
            if other is not None:
                self.sides['a'].assertFalse(
                    {row['current_role'], other['current_role']}
                    == {'source'} and {row['state'], other['state']}
                    == {'in_sync'} and row['epoch'] == other['epoch'])

    def other(self, side, row):
        there = self.sides['b' if side == 'a' else 'a']
        return there.array.store.get(
            pairs.SESSIONS, row['remote_replication_session_id'] or 0)

    @stateful.invariant()
    def read_only(self):
        """REP-16: exactly the volumes of targets that did not take over."""
        for side, test in self.sides.items():
            for row in self.sessions(side):
                closed = (row['current_role'] == 'target'
                          and not row['opened'])
                for volume in test.array.store.find(
                        'volumes', 'volume_group',
                        row['local_volume_group']):
                    test.assertEqual(closed, volume['read_only'])

    @stateful.invariant()
    def numbers(self):
        for side, test in self.sides.items():
            for row in self.sessions(side):
                test.assertLessEqual(
                    row['generation_number'] or 0, row['last_generation'])
                test.assertLessEqual(len(transfers.history(
                    test.control._scope(), row)), transfers.HISTORY_KEPT)
                if row['state'] != 'in_sync':
                    test.assertIsNone(row['next_round'])
                    test.assertTrue(all(
                        item['user'] for item in row['queue']))

    @stateful.invariant()
    def references(self):
        """No reply refers to a deleted object."""
        for test in self.sides.values():
            for resource in catalogue.RESOURCES.values():
                if not resource.known.get('id') or not (
                        test.array.store.tables[resource.name].rows):
                    continue
                for row in test.hits(f'{resource.name}?__limit=999'):
                    for name, value in row.items():
                        if isinstance(value, dict) and name not in _LOOSE:
                            test.assertTrue(test.array.store.exists(
                                value['ref']), (name, value))

    @stateful.invariant()
    def renderings(self):
        for test in self.sides.values():
            test.check_renderings()

    @stateful.invariant()
    def indexes(self):
        for test in self.sides.values():
            test.check_indexes()

    def teardown(self):
        """After all faults end, both sides agree and data arrives."""
        for test in self.sides.values():
            test.control.restore_link()
            for name in ('copy_seconds', 'round_seconds', 'start_seconds',
                         'snapshot_seconds', 'follow_seconds'):
                test.control.set_behaviors(**{name: 0.0})
        for _ in range(3):
            self.clock.advance(1000)
            for test in self.sides.values():
                test.control.tick()
        for side in 'ab':
            for row in self.sessions(side):
                if row['state'] == 'in_sync' and (
                        row['current_role'] == 'source'):
                    self.agree(side, row)
        for test in self.sides.values():
            test.array.close()

    def agree(self, side, row):
        test, other = self.sides[side], self.other(side, row)
        test.assertIsNotNone(other)
        test.assertEqual(
            ('target', 'in_sync', row['epoch'], row['generation_number']),
            (other['current_role'], other['state'], other['epoch'],
             other['generation_number']))
        test.assertEqual([], row['queue'])
        there = self.sides['b' if side == 'a' else 'a']
        for pair in test.array.store.find(
                pairs.PAIRS, 'replication_session',
                f'/{pairs.SESSIONS}/{row["id"]}'):
            number = int(pair['local_volume'].rpartition('/')[2])
            test.assertEqual(
                test.control.read(number),
                there.control.read(pair['remote_volume_id']))


TestTwoArrays = TwoArrays.TestCase
TestTwoArrays.settings = hypothesis.settings(
    max_examples=hypothesis.settings.default.max_examples // 4,
    stateful_step_count=30,
    suppress_health_check=list(hypothesis.HealthCheck))
