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

"""Faults by object, latency, probability, delays in seconds, outages."""

import json
import time

import ddt
import fixtures
from hypothesis import given
from hypothesis import strategies as st
import testtools

import k2_sim
from k2_sim.faults import latency
from k2_sim.faults import random_streams
from tests import base
from tests import pairs


class FaultsTest(base.ArrayTest):

    def exchange(self, method='GET', path='volumes', body=None):
        path, _, query = path.partition('?')
        data = b'' if body is None else json.dumps(body).encode()
        with self.array.exchange(
                method, f'/api/v2/{path}', query,
                {**base.authorization(), 'Content-Type': base.JSON},
                data) as exchange:
            return exchange


@ddt.ddt
class TestObjects(FaultsTest):

    def setUp(self):
        super().setUp()
        self.first = self.group('cvg-1')
        self.other = self.group('other')
        self.volume(self.first, 'cv-1')
        self.volume(self.other, 'vol-2')

    def _is_triggered(self, where, method, path, body=None):
        self.control.clear_faults()
        rule = self.control.add_fault(kind='status', where=where)
        self.exchange(method, path, body)
        return rule.triggered == 1

    @ddt.data(
        ({'name': 'cv-*'}, 'GET', 'volumes/31', None),
        ({'id': '31'}, 'DELETE', 'volumes/31', None),
        ({'volume_group': '/volume_groups/14'}, 'GET', 'volumes/31', None),
        ({'name': 'cv-*'}, 'GET', 'volumes?name=cv-1', None),
        ({'name': 'cv-1'}, 'GET', 'volumes?name__in=x,cv-1', None),
        ({'name': 'cv-1'}, 'GET', 'volumes?name__m_eq=x,cv-1', None),
        ({'name': 'a,cv-1'}, 'GET', 'volumes?name__contains=a,cv-1', None),
        ({'volume_group': '*/14'}, 'GET',
         'volumes?volume_group.ref__m_eq=/volume_groups/14,/x/1', None),
        ({'volume_group': '*/14'}, 'GET',
         'volumes?volume_group.ref=/volume_groups/14', None),
        ({'__limit': '0'}, 'GET', 'volumes?__limit=0', None),
        ({'name': 'cv-*', 'size': '1'}, 'POST', 'volumes',
         {'name': 'cv-9', 'size': 1}),
        ({'volume_group': '/volume_groups/14'}, 'POST', 'volumes',
         {'name': 'x', 'volume_group': {'ref': '/volume_groups/14'}}),
        ({'is_dedup': 'true'}, 'POST', 'volume_groups',
         {'name': 'x', 'is_dedup': True}),
        ({'name': 'b'}, 'POST', 'host_groups/__bulk',
         [{'name': 'a'}, {'name': 'b'}]),
        ({'name': 'cv-1'}, 'PATCH', 'volumes/__bulk',
         [{'id': 32}, {'id': 31, 'description': 'd'}]),
        ({'name': 'new'}, 'PATCH', 'volumes/31', {'name': 'new'}),
        ({'name': 'cv-1'}, 'PATCH', 'volumes/31', {'name': 'new'}))
    @ddt.unpack
    def test_triggered(self, where, method, path, body):
        self.assertTrue(self._is_triggered(where, method, path, body))

    @ddt.data(
        ({'name': 'cv-*'}, 'GET', 'volumes/32', None),
        ({'name': 'cv-*'}, 'GET', 'volumes/99', None),
        ({'name': 'cv-*'}, 'GET', 'volumes', None),
        ({'name': 'cv-*'}, 'GET', 'nothing/31', None),
        ({'name': 'cv-*'}, 'GET', 'volumes?name=CV-1', None),
        ({'name': 'cv-*', 'size': '2'}, 'POST', 'volumes',
         {'name': 'cv-9', 'size': 1}),
        ({'colour': '*'}, 'GET', 'volumes/31', None),
        ({'name': '*'}, 'POST', 'volumes', 5))
    @ddt.unpack
    def test_spared(self, where, method, path, body):
        self.assertFalse(self._is_triggered(where, method, path, body))

    def test_a_body_that_is_no_json_names_nothing(self):
        rule = self.control.add_fault(kind='busy', where={'name': '*'})
        self.array.handle('POST', '/api/v2/volumes', '', {
            **base.authorization(), 'Content-Type': base.JSON}, b'{"name')
        self.assertEqual(0, rule.matched)

    def test_counts_are_of_these_objects(self):
        """after and times count only matching requests."""
        rule = self.control.add_fault(
            kind='busy', where={'name': 'cv-*'}, after=1, times=1)
        statuses = [self.exchange('GET', path).response.status
                    for path in ('volumes/32', 'volumes/31', 'volumes/32',
                                 'volumes/31', 'volumes/31')]
        self.assertEqual([200, 200, 200, 400, 200], statuses)
        self.assertEqual((3, 1), (rule.matched, rule.triggered))

    @ddt.data({'where': 'x'}, {'where': {'name': 5}}, {'where': []})
    def test_without_sense(self, fields):
        self.assertRaises(k2_sim.ApiError, self.control.add_fault,
                          kind='busy', **fields)


class TestRules(FaultsTest):
    """Fault rules, one by one."""

    def setUp(self):
        super().setUp()
        for status in (500, 502):
            self.sim(200, 'POST', 'faults',
                     {'kind': 'status', 'status': status})

    def _status(self):
        return self.exchange().response.status

    def test_ids(self):
        self.assertEqual([1, 2], [
            rule['id'] for rule in self.sim(200, 'GET', 'faults')['hits']])
        self.assertEqual(502, self.sim(200, 'GET', 'faults/2')['status'])
        self.control.clear_faults()
        self.assertEqual(1, self.control.add_fault(kind='busy').id)

    def test_change(self):
        """The live rule changes; its position and counts stay."""
        rule = self.control.fault(1)
        self.assertEqual(500, self._status())
        changed = self.sim(200, 'PATCH', 'faults/1', {
            'status': 503, 'times': 2})
        self.assertEqual((1, 503, 2, 1), (
            changed['id'], changed['status'], changed['times'],
            changed['triggered']))
        self.assertEqual([503, 502], [self._status(), self._status()])
        self.assertEqual(2, rule.triggered)
        self.sim(200, 'PATCH', 'faults/2', {'enabled': False})
        self.assertEqual(200, self._status())

    def test_another_kind_has_its_own_commit(self):
        self.assertEqual('before', self.control.fault(1).commit)
        changed = self.sim(200, 'PATCH', 'faults/1', {'kind': 'garbage'})
        self.assertEqual('after', changed['commit'])

    def test_change_without_sense(self):
        before = self.control.faults()
        for body in ({'kind': 'fire'}, {'id': 5}, {'triggered': 0},
                     {'struck': 0}, {'x': 1}, {'regexp': '('}, {'times': 'x'},
                     {'number': 1}, {'self': 1}, []):
            self.sim(400, 'PATCH', 'faults/1', body)
        self.assertEqual(before, self.control.faults())

    def test_remove(self):
        self.sim(204, 'DELETE', 'faults/1')
        self.assertEqual(502, self._status())
        for method in ('GET', 'PATCH', 'DELETE'):
            self.sim(404, method, 'faults/1', {})
        self.sim(405, 'POST', 'faults/2', {})
        for name in ('faults/0', 'faults/x', 'faults/N', 'faults/2/2',
                     'journal/1'):
            self.sim(404, 'GET', name)


class TestRegexps(FaultsTest):
    """The time of regexps is limited: other requests wait for them."""

    def test_found(self):
        rule = self.control.add_fault(kind='busy', regexp='^vol.*s$')
        for path in ('volumes', 'volume_groups', 'hosts'):
            self.exchange('GET', path)
        self.assertEqual(2, rule.triggered)

    def test_one_that_takes_too_long(self):
        """The rule is disabled, the request gets its reply, the log has it."""
        log = self.useFixture(fixtures.FakeLogger())
        rule = self.control.add_fault(kind='busy', regexp='(a|aa)+$')
        began = time.process_time()
        path = f'volumes/{"a" * 200}b'
        self.assertEqual(404, self.exchange('GET', path).response.status)
        self.assertLess(time.process_time() - began, 5)
        self.assertFalse(self.control.fault(rule.id).enabled)
        self.assertIn('fault rule 1 is disabled: its regexp (a|aa)+$ takes'
                      ' too long for a path', log.output)
        self.control.change_fault(rule.id, regexp='a$', enabled=True)
        self.exchange('GET', 'volumes/a')
        self.assertEqual(1, rule.triggered)

    def test_without_sense(self):
        for regexp in ('(', 'a' * 1001, '(?P<', '*', 'a{100001}',
                       '((a{100}){100}){100}', '(a{0,999}){,999}',
                       '((((a{100}){100}){100}){100}){0}',
                       'a{99999999999999999999}'):
            self.assertRaises(k2_sim.ApiError, self.control.add_fault,
                              kind='busy', regexp=regexp)


class TestLatencies(FaultsTest):

    def _delays(self, count=400):
        return [self.exchange().delay for _ in range(count)]

    def test_constant(self):
        self.control.set_latency({'kind': 'constant', 'ms': 5})
        self.assertEqual([0.005] * 3, self._delays(3))

    def test_normal(self):
        self.sim(200, 'POST', 'latency', {
            'kind': 'normal', 'mean': 20, 'deviation': 10})
        delays = sorted(self._delays())
        self.assertTrue(0.018 < sum(delays) / 400 < 0.022)
        self.assertTrue(0.006 < delays[63] < 0.014, delays[63])
        self.assertEqual(0, delays[0])

    def test_long_tails(self):
        """Half of the values are near the median, and some far longer."""
        for value, median in (
                ({'kind': 'lognormal', 'median': 10, 'sigma': 1}, 0.01),
                ({'kind': 'pareto', 'minimum': 10, 'shape': 1.2}, 0.0178)):
            self.control.set_latency(value)
            delays = sorted(self._delays())
            self.assertTrue(
                0.8 * median < delays[200] < 1.25 * median, delays[200])
            self.assertGreater(delays[-1], 8 * median)

    def test_longest(self):
        self.control.set_latency({
            'kind': 'pareto', 'minimum': 10, 'shape': 1, 'longest': 30})
        delays = self._delays(60)
        self.assertEqual(0.03, max(delays))
        self.assertLessEqual(0.01, min(delays))

    def test_shown_as_it_was_set(self):
        value = {'kind': 'lognormal', 'median': 2.0, 'sigma': 0.5,
                 'longest': 900.0}
        self.assertEqual(value, self.sim(200, 'PATCH', 'latency', value))
        self.assertEqual(value, self.sim(200, 'GET', 'latency'))
        self.assertEqual(value, self.control.latency.shown())

    def test_without_sense(self):
        for value in ({'kind': 'x'}, {'kind': 'normal'}, {'ms': -1}, {},
                      {'kind': 'normal', 'mean': 1, 'deviation': 'x'},
                      {'ms': 1, 'mean': 1}, {'ms': 1, 'longest': 5},
                      {'kind': 'normal', 'mean': 1, 'deviation': 1,
                       'longest': True},
                      {'kind': 'pareto', 'minimum': 1, 'shape': 0},
                      {'kind': 'lognormal', 'median': 0, 'sigma': 1}):
            self.sim(400, 'POST', 'latency', value)

    def test_rule(self):
        """A rule's latency replaces the array's."""
        self.control.set_latency(1)
        self.control.add_fault(kind='latency', method='POST',
                               latency={'ms': 7000})
        self.assertEqual(1, self.exchange().delay)
        slow = self.exchange('POST', 'host_groups', {'name': 'hg'})
        self.assertEqual((7, 201), (slow.delay, slow.response.status))

    def test_rule_goes_along_with_another(self):
        self.control.add_fault(kind='latency', latency={'ms': 2000})
        self.control.add_fault(kind='status', status=502)
        exchange = self.exchange()
        self.assertEqual((2, 502), (exchange.delay,
                                    exchange.response.status))
        self.assertEqual('status', self.control.journal()[-1].fault)

    def test_rule_without_sense(self):
        for fields in ({}, {'latency': {}}, {'latency': 5},
                       {'latency': {'ms': 1}, 'commit': 'before'}):
            self.assertRaises(k2_sim.ApiError, self.control.add_fault,
                              kind='latency', **fields)

    @given(st.sampled_from(sorted(latency.KINDS)),
           st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 50)),
           st.floats(0, 1e7), st.integers(0))
    def test_bounds(self, kind, parameters, longest, seed):
        """Every latency is within its bounds, whatever the parameters."""
        names = latency.KINDS[kind]
        value = dict(zip(names, parameters), kind=kind)
        if kind != 'constant':
            value['longest'] = longest
        stream = random_streams.RandomStreams(seed).stream('')
        drawn = latency.read(value).draw(stream)
        if kind == 'constant':
            longest = parameters[0]
        self.assertTrue(0 <= drawn <= longest / 1000)


class TestSeed(testtools.TestCase):
    """The same seed and the same requests cause the same faults."""

    def array(self, seed=None):
        array = k2_sim.Array(clock=k2_sim.FakeClock(), seed=seed)
        self.addCleanup(array.close)
        array.control.add_fault(kind='busy', method='POST', probability=0.4)
        array.control.add_fault(kind='reset', probability=0.2)
        array.control.add_fault(
            kind='latency', path='volumes', probability=0.5,
            latency={'kind': 'pareto', 'minimum': 1, 'shape': 1})
        array.control.set_latency({
            'kind': 'lognormal', 'median': 3, 'sigma': 1})
        return array

    def run_through(self, array):
        seen = []
        for number in range(60):
            method, path = (('GET', 'volumes'), ('GET', 'hosts'),
                            ('POST', 'host_groups'))[number % 3]
            with array.exchange(
                    method, f'/api/v2/{path}', '', {
                        **base.authorization(), 'Content-Type': base.JSON},
                    b'{"name": "hg%d"}' % number) as exchange:
                seen.append((exchange.response.status, exchange.cut,
                             exchange.delay))
        return seen

    def test_repeatable(self):
        first = self.run_through(self.array(7))
        self.assertEqual(first, self.run_through(self.array(7)))
        self.assertNotEqual(first, self.run_through(self.array(8)))
        self.assertEqual(60, len({delay for _, _, delay in first}))

    def test_made_up_seed_can_be_used_again(self):
        array = self.array()
        first = self.run_through(array)
        self.assertEqual(first, self.run_through(self.array(
            array.control.seed)))

    def test_by_control(self):
        """Setting it restarts, counts included; so does a reset."""
        array = self.array()
        array.control.set_seed(7)
        first = self.run_through(array)
        self.assertEqual(first, self.run_through(self.array(7)))
        rules = array.control.faults()
        array.control.set_seed(7)
        self.assertEqual({(0, 0)}, {(rule['matched'], rule['triggered'])
                                    for rule in array.control.faults()})
        array.control.reset()
        array.control.set_latency({
            'kind': 'lognormal', 'median': 3, 'sigma': 1})
        for rule in rules:
            array.control.add_fault({
                name: value for name, value in rule.items()
                if name not in ('id', 'matched', 'triggered', 'struck')})
        self.assertEqual(first, self.run_through(array))

    def test_rules_do_not_disturb_each_other(self):
        """The draws of one rule depend only on its own requests."""
        plain, more = self.array(7), self.array(7)
        more.control.add_fault(kind='garbage', path='x', probability=0.5)
        for _ in range(3):
            more.handle('GET', '/api/v2/x', headers=base.authorization())
        more.control.remove_fault(2)
        plain.control.remove_fault(2)
        self.assertEqual(
            [seen[0] for seen in self.run_through(plain)],
            [seen[0] for seen in self.run_through(more)])

    def test_triggers_shift_nothing(self):
        """Triggered or disabled, a rule does not shift the others' numbers."""
        def run(**changes):
            array = self.array(7)
            array.control.change_fault(1, **changes)
            seen = self.run_through(array)
            return seen, [rule['matched'] for rule in array.control.faults()]

        often, matched = run(probability=0.9)
        seldom, also = run(probability=0.1)
        self.assertEqual(matched, also)
        delays, others = ([delay for _, _, delay in seen]
                          for seen in (often, seldom))
        self.assertEqual(delays, others)
        spared = [place for place, (status, _, _) in enumerate(often)
                  if status != 400]
        self.assertTrue(20 < len(spared) < 60)
        for place in spared:
            self.assertEqual(often[place], seldom[place])
        self.assertEqual(delays, [delay for _, _, delay
                                  in run(enabled=False)[0]])

    def test_a_latency_that_triggers_shifts_nothing(self):
        """Neither for the array nor for another rule of the same kind."""
        def run(probability):
            array = self.array(7)
            array.control.add_fault(
                kind='latency', path='volumes', latency={
                    'kind': 'normal', 'mean': 900000, 'deviation': 1,
                    'longest': 86400000})
            array.control.change_fault(3, probability=probability)
            return [delay for _, _, delay in self.run_through(array)]

        never, often = run(0), run(0.7)
        same = [one == other for one, other in zip(never, often)]
        self.assertEqual([True, True], [
            all(same[place::3]) for place in (1, 2)])
        self.assertTrue(0 < sum(same[::3]) < 20)

    def test_without_sense(self):
        array = self.array()
        for seed in (-1, 'x', True, 1.5):
            self.assertRaises(k2_sim.ApiError,
                              array.control.set_seed, seed)
        seeds = set()
        for _ in range(4):
            array.control.set_seed(None)
            seeds.add(array.control.seed)
        self.assertGreater(len(seeds), 1)


class TestVisibility(FaultsTest):

    def test_late_by_the_clock(self):
        """OBJ-6: however often it is read, until the time is over."""
        self.control.add_fault(kind='late', method='POST', seconds=30)
        made = self.post('host_groups', {'name': 'hg'})
        path = f'host_groups/{made["id"]}'
        for _ in range(5):
            self.clock.advance(5)
            self.assertEqual([], self.hits('host_groups?name=hg'))
            self.refused('GET', path, status=404)
        self.clock.advance(5)
        self.get(path)
        self.assertEqual(1, len(self.hits('host_groups')))

    def test_nothing_is_kept_for_ever(self):
        """OBJ-6, QRY-10: even if it is never read again."""
        self.control.add_fault(kind='late', method='POST', seconds=30)
        self.control.add_fault(kind='linger', method='DELETE', seconds=30)
        group = self.group()
        self.volume(group)
        known = self.array._visibility
        for number in range(150):
            snapshot = self.snapshot(group, f's{number}')
            self.expect(204, 'DELETE', f'snapshots/{snapshot["id"]}')
            self.clock.advance(60)
        self.assertLess(len(known._hidden) + len(known._deleted), 110)

    def test_linger(self):
        """QRY-10: by a rule on one snapshot, by reads."""
        group = self.group()
        self.volume(group)
        taken = [self.snapshot(group, name) for name in ('s1', 's2')]
        self.control.add_fault(kind='linger', method='DELETE', reads=2,
                               where={'short_name': 's1'})
        for snapshot in taken:
            self.delete(f'snapshots/{snapshot["id"]}')
        for _ in range(2):
            hit, = self.hits('snapshots')
            self.assertEqual(('s1', True), (hit['short_name'],
                                            hit['is_deleted']))
        self.assertEqual([], self.hits('snapshots'))

    def test_linger_by_the_clock(self):
        """QRY-10, by the behavior, in seconds."""
        self.control.set_behaviors(linger_seconds=10)
        group = self.group()
        self.volume(group)
        path = f'snapshots/{self.snapshot(group)["id"]}'
        self.delete(path)
        for _ in range(3):
            self.clock.advance(3)
            self.assertEqual(1, len(self.hits('snapshots')))
            self.assertTrue(self.get(path)['is_deleted'])
        self.clock.advance(1)
        self.assertEqual([], self.hits('snapshots'))
        self.refused('GET', path, status=404)


class TestOutages(FaultsTest):

    def test_full(self):
        """CAP-3: what needs space is refused, everything else works."""
        group = self.group()
        volume = self.volume(group)
        taken = self.snapshot(group)
        self.control.set_behaviors(full=True)
        capacity = self.get('system/capacity/1')
        self.assertEqual(('full', 0), (capacity['state'], capacity['free']))
        self.assertEqual(capacity['total'], capacity['allocated'])
        self.assertEqual(1, len(self.hits('system/capacity?state=full')))
        own = base.ref('volume_groups', group)
        for method, path, body in (
                ('POST', 'volumes', {'name': 'v', 'size': 1,
                                     'volume_group': own}),
                ('POST', 'volumes', self.clone_body(group, taken, volume)),
                ('POST', 'snapshots', self.snapshot_body(own, 's2')),
                ('POST', 'snapshots', self.snapshot_body(
                    base.ref('snapshots', taken), 'v', is_exposable=True)),
                ('PATCH', f'volumes/{volume["id"]}',
                 {'size': volume['size'] + 1}),
                ('PATCH', f'volume_groups/{group["id"]}',
                 {'last_restored_from': base.ref('snapshots', taken)})):
            self.assertEqual('No space is left on the array',
                             self.refused(method, path, body))
        self.assertRaises(k2_sim.ApiError, self.control.write,
                          volume['id'], 'token')
        self.map(self.host(), volume)
        self.patch(f'volumes/{volume["id"]}', {'description': 'd'})
        self.delete(f'snapshots/{taken["id"]}')
        self.control.set_behaviors(full=False)
        self.snapshot(group)
        self.assertEqual('ok', self.get('system/capacity/1')['state'])

    def test_data_port_down(self):
        """NET-3, section 7.4: link_state shows it."""
        port = '/system/net_ports/2'
        self.sim(200, 'POST', 'ports', {'port': port, 'up': False})
        self.assertEqual('down', self._link('system/net_ports/2'))
        self.assertEqual('ok', self._link('system/net_ports/1'))
        self.assertEqual([port], [
            hit['port'] for hit in self.sim(200, 'GET', 'ports')['hits']
            if not hit['up']])
        self.sim(200, 'PATCH', 'ports', {'port': port, 'up': True})
        self.assertEqual('ok', self._link('system/net_ports/2'))

    def _link(self, path):
        port = self.get(path)
        self.assertEqual(port['link_state'], port['speed_state'])
        return self.get(port['link_state']['ref'][1:])['status']

    def test_fc_port_down(self):
        self.control.set_port('/system/fc_ports/3', False)
        self.control.set_port('/system/fc_ports/1', False)
        self.assertEqual(['down', 'ok', 'down', 'ok'], [
            hit['status'] for hit in self.hits('system/fc_ports')])
        self.assertEqual(2, len(self.hits('system/hardware_states')))
        self.control.reset()
        self.assertEqual(4, len(self.hits('system/fc_ports?status=ok')))

    def test_what_is_no_port(self):
        for body in ({'port': '/volumes/1', 'up': False}, {},
                     {'port': '/system/net_ports/99', 'up': True},
                     {'port': 'x', 'up': True},
                     {'port': '/system/net_ports/1', 'up': 'no'}):
            self.sim(400, 'POST', 'ports', body)


@ddt.ddt
class TestOutageRules(FaultsTest):
    """Outages that begin and end by a rule."""

    PORT = '/system/net_ports/2'

    def _is_up(self):
        port, = [hit for hit in self.control.ports()
                 if hit['port'] == self.PORT]
        return port['up']

    def test_offline_for_one_request(self):
        """ERR-6: writes are answered with 503, and nothing changes."""
        self.control.add_fault(kind='offline', method='write', times=1,
                               state='SHUTDOWN')
        self.assertEqual('System is not online', self.refused(
            'POST', 'host_groups', {'name': 'hg'}, status=503))
        self.assertEqual('ONLINE', self.get('system/state/1')['state'])
        self.post('host_groups', {'name': 'hg'})

    def test_offline_for_a_while(self):
        """ERR-6: statistics, too, until the time is over."""
        self.control.add_fault(kind='offline', seconds=30, after=1, times=1,
                               state='SHUTDOWN')
        self.get('stats/system')
        self.assertEqual('SHUTDOWN', self.get('system/state/1')['state'])
        self.clock.advance(29.9)
        self.refused('GET', 'stats/system', status=503)
        self.assertEqual('offline', self.control.journal()[1].fault)
        self.clock.advance(0.1)
        self.get('stats/system')
        self.assertEqual('ONLINE', self.get('system/state/1')['state'])

    def test_an_outage_goes_on(self):
        """Each trigger restarts its seconds."""
        rule = self.control.add_fault(kind='full', seconds=10)
        for _ in range(2):
            self.clock.advance(9)
            self.assertEqual(
                'full', self.get('system/capacity/1')['state'])
        self.control.change_fault(rule.id, enabled=False)
        self.clock.advance(9)
        self.assertEqual('full', self.get('system/capacity/1')['state'])
        self.clock.advance(1)
        self.assertEqual('ok', self.get('system/capacity/1')['state'])

    def test_two_requests_at_once(self):
        """An outage begun by one does not end under the other."""
        rule = self.control.add_fault(kind='full')
        with self.array.outages.during([rule]):
            self.get('volumes')
            self.assertTrue(self.control.behaviors()['full'])
        self.assertFalse(self.control.behaviors()['full'])

    def test_full(self):
        """SNP-4, CAP-3: for the one volume that the rule matches."""
        group = self.group()
        self.volume(group)
        self.snapshot(group, 'kept')
        self.snapshot(group, 'gone', is_auto_deleteable=True)
        self.control.add_fault(kind='full', where={'name': 'big'})
        body = {'name': 'big', 'size': 1,
                'volume_group': base.ref('volume_groups', group)}
        self.assertEqual('No space is left on the array', self.expect(
            400, 'POST', 'volumes', body)['error_msg'])
        self.assertEqual(['kept'], [
            hit['short_name'] for hit in self.hits('snapshots')])
        self.post('volumes', {**body, 'name': 'small'})

    def test_port_down(self):
        """NET-3: until the array runs maintenance after its time."""
        self.control.add_fault(
            kind='port_down', port=self.PORT, seconds=60, times=1)
        self.get('volumes')
        self.assertFalse(self._is_up())
        self.control.advance(59)
        self.assertFalse(self._is_up())
        self.control.advance(1)
        self.assertTrue(self._is_up())

    def test_what_was_wrong_before_stays_so(self):
        self.control.set_port(self.PORT, False)
        self.control.set_behaviors(full=True, state='UPGRADE')
        self.control.add_fault(kind='port_down', port=self.PORT)
        self.control.add_fault(kind='full')
        self.control.add_fault(kind='offline')
        self.assertEqual('OFFLINE', self.get('system/state/1')['state'])
        self.control.clear_faults()
        self.assertEqual('full', self.get('system/capacity/1')['state'])
        self.assertEqual('UPGRADE', self.get('system/state/1')['state'])
        self.assertFalse(self._is_up())

    def test_the_end_of_all_faults(self):
        saved = self.control.save()
        for end in (self.control.clear_faults, self.control.reset,
                    lambda: self.array.restore(saved)):
            self.control.add_fault(
                kind='port_down', port=self.PORT, seconds=60)
            self.control.add_fault(kind='full', seconds=60)
            self.get('volumes')
            self.assertFalse(self._is_up())
            end()
            self.assertTrue(self._is_up())
            self.assertFalse(self.control.behaviors()['full'])
            self.control.clear_faults()

    def test_with_others(self):
        """A rule of another kind can spoil the same reply."""
        self.control.add_fault(kind='offline')
        self.control.add_fault(kind='status', status=502, commit='after')
        self.control.set_latency(0.5)
        self.assertEqual(502, self.call('GET', 'stats/system').status)
        self.assertEqual('status', self.control.journal()[0].fault)

    def test_one_scenario(self):
        """Random faults throughout, and the same twice."""
        rules = [
            {'kind': 'offline', 'probability': 0.2},
            {'kind': 'full', 'probability': 0.2, 'seconds': 3},
            {'kind': 'port_down', 'port': self.PORT, 'probability': 0.1,
             'seconds': 2},
            {'kind': 'busy', 'method': 'write', 'probability': 0.1}]

        def run():
            self.control.reset()
            for rule in rules:
                self.control.add_fault(rule)
            seen = []
            for number in range(60):
                self.clock.advance(1)
                seen.append((self.call(
                    'POST', 'volume_groups',
                    {'name': f'g{number}', 'quota': 0}).status,
                    self.get('system/capacity/1')['state'], self._is_up()))
            return seen

        first = run()
        self.assertEqual(first, run())
        for place, values in enumerate((
                {201, 400, 503}, {'ok', 'full'}, {True, False})):
            self.assertEqual(values, {item[place] for item in first})

    @ddt.data({'kind': 'port_down'}, {'kind': 'full', 'port': PORT},
              {'kind': 'port_down', 'port': '/volumes/1'},
              {'kind': 'port_down', 'port': '/system/net_ports/99'},
              {'kind': 'offline', 'state': 'ONLINE'},
              {'kind': 'offline', 'commit': 'before'})
    def test_without_sense(self, rule):
        self.assertRaises(
            k2_sim.ApiError, self.control.add_fault, rule)
        self.assertEqual([], self.control.faults())


class TestPeerLost(pairs.PairTest):

    def test_by_a_rule(self):
        """REP-19: lost at the request that triggers it, and back on time."""
        self.start()
        self.a.control.add_fault(kind='peer_lost', method='GET',
                                 path='volumes', times=1, seconds=30)
        self.a.get('volumes')
        self.assertTrue(self.a.control.is_cut)
        here = self.here()
        self.assertEqual(('suspended', 'peer_unreachable'), (
            here['state'], here['suspend_reason_code']))
        self.clock.advance(30)
        self.write('in_sync')
        self.assertFalse(self.a.control.is_cut)
        self.assertEqual('in_sync', self.here()['state'])

    def test_by_a_rule_for_one_request(self):
        """REP-19: no session is created while the peer is lost."""
        self.prepare()
        group = self.a.group('vg-x')
        self.a.control.add_fault(
            kind='peer_lost', method='POST', times=1)
        body = pairs.session_body(group, 'ssn-x')
        self.assertIn('cannot be reached', self.a.expect(
            400, 'POST', pairs.SESSIONS, body)['error_msg'])
        self.a.post(pairs.SESSIONS, body)

    def test_cut_and_mended(self):
        """Section 10.4: a session whose peer is lost is suspended."""
        self.start()
        self.a.control.cut_link()
        self.assertEqual('suspended', self.here()['state'])
        self.a.control.restore_link()
        self.write('in_sync')
        self.assertEqual('in_sync', self.here()['state'])


class TestPieces(testtools.TestCase):
    """A slow loris: the body arrives piece by piece."""

    def test_pieces(self):
        body = bytes(range(250))
        for pace, size in ((0, 250), (5, 1), (400, 40), (1e6, 250)):
            exchange = k2_sim.Exchange(
                k2_sim.Response(200, {}, body), pace=pace)
            pieces = list(exchange.pieces())
            self.assertEqual(body, b''.join(piece for piece, _ in pieces))
            self.assertEqual(size, len(pieces[0][0]))
            total = sum(seconds for _, seconds in pieces)
            self.assertAlmostEqual(250 / pace if pace else 0, total)

    def test_rule_without_sense(self):
        array = k2_sim.Array()
        for fields in ({}, {'rate': 0}, {'rate': -1}, {'rate': 'x'}):
            self.assertRaises(k2_sim.ApiError, array.control.add_fault,
                              kind='slow_loris', **fields)
