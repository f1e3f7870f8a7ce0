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

"""Faults, latency, rate limit, journal and leftovers."""

import json
import threading

import ddt
import fixtures
import msgspec

import k2_sim
from k2_sim.faults import fault_rules
from k2_sim.faults import latency
from k2_sim import profiles
from tests import base

BODY = {'name': 'hg'}


@ddt.ddt
class TestFaults(base.ArrayTest):

    def _post(self):
        with self.array.exchange(
                'POST', '/api/v2/host_groups', '',
                {**base.authorization(), 'Content-Type': base.JSON},
                json.dumps(BODY).encode()) as exchange:
            return exchange

    def _made(self):
        return self.get('host_groups')['total'] == 1

    @ddt.data(*fault_rules.BUSY_CODES)
    def test_busy(self, code):
        """ERR-1: the bare code, for so many writes."""
        rule = self.control.add_fault(
            kind='busy', code=code, method='write', times=2)
        self.get('host_groups')
        for _ in range(2):
            self.assertEqual(code, self.refused(
                'POST', 'host_groups', BODY))
        self.post('host_groups', BODY)
        self.assertEqual((2, 3), (rule.triggered, rule.matched))

    @ddt.data(401, 403, 429, 500, 502, 503)
    def test_status_before(self, status):
        """Section 3: the request is not carried out."""
        self.control.add_fault(kind='status', status=status, times=1,
                               method='POST')
        text = self.refused('POST', 'host_groups', BODY, status)
        self.assertTrue(text)
        self.post('host_groups', BODY)

    @ddt.data(('status', 503, ''), ('reset', 201, 'reset'),
              ('truncated', 201, 'truncated'), ('garbage', 201, ''),
              ('empty', 201, ''))
    @ddt.unpack
    def test_after_the_write(self, kind, status, cut):
        """OBJ-6: carried out, and only the reply is affected."""
        self.control.add_fault(kind=kind, commit='after', times=1)
        exchange = self._post()
        self.assertEqual((status, cut),
                         (exchange.response.status, exchange.cut))
        self.assertTrue(self._made())

    @ddt.data('status', 'reset', 'truncated', 'garbage', 'empty', 'hang')
    def test_before_the_write(self, kind):
        self.control.add_fault(kind=kind, commit='before', times=1,
                               seconds=9)
        exchange = self._post()
        self.assertFalse(self._made())
        if kind == 'hang':
            self.assertEqual((9, 'reset'), (exchange.delay, exchange.cut))

    def test_bodies(self):
        self.control.add_fault(kind='garbage', times=1)
        self.assertRaises(msgspec.DecodeError, self._post().response.json)
        self.control.add_fault(kind='empty', times=1)
        self.assertEqual(b'', self._post().response.body)

    def test_hang(self):
        self.control.set_latency(1)
        self.control.add_fault(kind='hang', seconds=90, times=1)
        self.assertEqual(91, self._post().delay)
        self.assertEqual(1, self._post().delay)

    def test_late_and_empty(self):
        """OBJ-6: an empty reply, and the object shows later."""
        self.control.add_fault(kind='empty', method='POST')
        self.control.add_fault(kind='late', method='POST', reads=2)
        self.assertEqual(b'', self.call('POST', 'host_groups', BODY).body)
        self.assertEqual([], self.hits('host_groups?name=none'))
        self.assertEqual([], self.hits('host_groups?name=hg'))
        self.refused('GET', 'host_groups/5', status=404)
        self.assertEqual(1, len(self.hits('host_groups?name=hg')))

    def test_late_is_about_what_is_made(self):
        self.control.add_fault(k2_sim.FaultRule('late', reads=1))
        made = self.post('host_groups', BODY)
        path = f'host_groups/{made["id"]}'
        self.refused('GET', path, status=404)
        self.patch(path, {'description': 'd'})
        self.get(path)

    def test_reset_forgets_what_is_late(self):
        self.control.add_fault(kind='late', reads=9)
        self.post('host_groups', BODY)
        self.control.reset()
        self.post('host_groups', BODY)
        self.assertTrue(self._made())

    @ddt.data(({'path': 'host_groups'}, True), ({'path': 'hosts'}, False),
              ({'path': 'host*'}, True), ({'path': '/api/v2/host*'}, True),
              ({'path': 'host_groups/*'}, False),
              ({'regexp': '^host_g'}, True), ({'regexp': 'volumes'}, False),
              ({'method': 'POST'}, True), ({'method': 'GET,PATCH'}, False),
              ({'method': 'GET,POST'}, True), ({'enabled': False}, False),
              ({'after': 1}, False), ({'probability': 0.0}, False),
              ({'times': 0}, False))
    @ddt.unpack
    def test_matching(self, fields, triggers):
        self.control.add_fault({'kind': 'status', **fields})
        self.assertEqual(triggers, self._post().response.status == 503)

    def test_chance_is_repeatable(self):
        def counts():
            array = k2_sim.Array(seed=5)
            rule = array.control.add_fault(kind='busy', probability=0.5)
            found = []
            for _ in range(40):
                array.handle('GET', '/api/v2/volumes',
                             headers=base.authorization())
                found.append(rule.triggered)
            return found

        first = counts()
        self.assertEqual(first, counts())
        self.assertTrue(5 < first[-1] < 35)

    def test_first_rule_wins(self):
        self.control.add_fault(kind='status', status=500, times=1)
        self.control.add_fault(kind='status', status=502, times=1)
        self.assertEqual(500, self._post().response.status)
        self.assertEqual(502, self._post().response.status)
        self.assertEqual(201, self._post().response.status)

    def test_clearing(self):
        self.control.add_fault(kind='reset')
        self.assertEqual(1, len(self.control.faults()))
        self.control.clear_faults()
        self.assertEqual('', self._post().cut)

    @ddt.data({}, {'kind': 'fire'}, {'kind': 'busy', 'code': 'X'},
              {'kind': 'status', 'status': 418}, {'kind': 'busy', 'x': 1},
              {'kind': 'busy', 'commit': 'never'},
              {'kind': 'busy', 'times': '1'}, {'kind': 'busy', 'regexp': '('},
              {'kind': 'busy', 'triggered': 0}, {'kind': 5},
              {'kind': 'busy', 'enabled': 1})
    def test_rules_without_sense(self, rule):
        self.assertRaises(k2_sim.ApiError, self.control.add_fault, rule)

    def test_no_faults_for_strangers_or_the_control(self):
        rule = self.control.add_fault(kind='busy')
        self.assertEqual(
            401, self.array.handle('GET', '/api/v2').status)
        self.assertEqual(200, self.array.handle(
            'GET', '/sim/v1/faults', headers=base.authorization()).status)
        self.assertEqual(0, rule.triggered)


class TestRateLimit(base.ArrayTest):

    def test_bucket(self):
        """ERR-5: a burst, then so many per second."""
        self.control.set_behaviors(rate_limit=10, rate_burst=5)
        for _ in range(5):
            self.get('volumes')
        self.assertEqual('Too many requests',
                         self.refused('GET', 'volumes', status=429))
        self.clock.advance(0.1)
        self.get('volumes')
        self.refused('GET', 'volumes', status=429)
        self.clock.advance(60)
        for _ in range(5):
            self.get('volumes')
        self.refused('POST', 'host_groups', BODY, status=429)

    def test_all_users_share_it(self):
        """ERR-5: a busy user slows down the others."""
        array = k2_sim.Array(users=[
            k2_sim.User('other', 'other', 'read-only')])
        array.control.set_behaviors(rate_limit=0.001, rate_burst=1)
        for login, status in (('other', 200), ('admin', 429)):
            self.assertEqual(status, array.handle(
                'GET', '/api/v2',
                headers=base.authorization(login, login)).status)

    def test_root_is_free(self):
        """ERR-5: the limit does not apply to the role root."""
        array = k2_sim.Array(users=[
            k2_sim.User('root', 'root', 'root')])
        array.control.set_behaviors(rate_limit=1, rate_burst=1)
        for _ in range(5):
            self.assertEqual(200, array.handle(
                'GET', '/api/v2',
                headers=base.authorization('root', 'root')).status)


class TestJournal(base.ArrayTest):

    def test_entries(self):
        self.control.add_fault(kind='reset', method='POST')
        self.get('volumes?name=x')
        self.expect(400, 'PATCH', 'volumes/1', {},
                    **{'X-K2-Sequence': 'a=1'})
        self.call('POST', 'host_groups', BODY)
        self.assertEqual(
            [('GET', '/api/v2/volumes', 'name=x', 200, '', ''),
             ('PATCH', '/api/v2/volumes/1', '', 400, 'a=1', ''),
             ('POST', '/api/v2/host_groups', '', 0, '', 'reset')],
            [(entry.method, entry.path, entry.query, entry.status,
              entry.sequence, entry.fault)
             for entry in self.control.journal()])
        self.control.clear_journal()
        self.assertEqual([], self.control.journal())
        self.assertEqual(0, self.control.max_in_flight)

    def test_in_flight(self):
        """Requests overlap while the adapter sleeps."""
        self.control.set_latency(5)
        barrier = threading.Barrier(4, timeout=10)

        def request():
            with self.array.exchange(
                    'GET', '/api/v2', '', base.authorization()) as exchange:
                barrier.wait()
                self.clock.sleep(exchange.delay)

        threads = [threading.Thread(target=request) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.get('')
        entries = self.control.journal()
        self.assertEqual(4, self.control.max_in_flight)
        self.assertEqual([1, 2, 3, 4, 1],
                         [entry.in_flight for entry in entries])
        self.assertTrue(all(entry.ended - entry.started >= 5
                            for entry in entries[:4]))

    def test_request_that_breaks_off_is_noted(self):
        try:
            with self.array.exchange('GET', '/api/v2'):
                raise KeyError('caller gone')
        except KeyError:
            pass
        self.assertEqual(401, self.control.journal()[0].status)
        with self.array.exchange('GET', '/api/v2'):
            self.assertEqual(1, self.control.journal()[-1].in_flight)

    def test_long_queries(self):
        """Unauthenticated requests cannot fill the memory."""
        for number in range(400):
            self.array.handle('GET', f'/api/v2/{number}', 'x' * 60000)
        entries = self.control.journal()
        self.assertEqual('/api/v2/399', entries[-1].path)
        self.assertLess(sum(len(entry.query) for entry in entries), 2 ** 24)
        self.assertGreater(len(entries), 200)


class TestLeftovers(base.ArrayTest):

    def test_clean_and_not(self):
        self.assertEqual({}, self.control.leftovers())
        group = self.group()
        volume = self.volume(group)
        view = self.view(self.snapshot(group))
        host = self.host()
        self.map(host, volume)
        self.control.log_in('host_iqns', 'iqn.a')
        self.control.log_in('host_fc_ports', '1' * 16)
        found = self.control.leftovers()
        self.assertEqual({
            'volumes', 'volume_groups', 'snapshots', 'views', 'mappings',
            'hosts', 'host_iqns', 'host_fc_ports'}, set(found))
        self.assertEqual([view['id']],
                         [record['id'] for record in found['views']])
        self.assertEqual([self.get('volumes/31')], found['volumes'])

    def test_policies(self):
        self.post('retention_policies', {
            'name': 'x', 'num_snapshots': 0, 'weeks': 0, 'days': 0,
            'hours': 0})
        self.assertEqual({'retention_policies'},
                         set(self.control.leftovers()))

    def test_reset(self):
        fresh = self.control.dump()
        self.volume(self.group())
        self.expect(201, 'POST', 'host_groups', BODY,
                    **{'X-K2-Sequence': 'a=1'})
        self.control.set_behaviors(thin_clones=False, state='OFFLINE')
        self.control.set_latency(3)
        self.control.add_fault(kind='busy')
        self.control.reset()
        self.assertEqual(fresh, self.control.dump())
        self.assertEqual(14, self.group()['id'])
        self.assertTrue(self.control.behaviors()['thin_clones'])
        self.assertEqual(latency.Latency(), self.control.latency)
        self.assertEqual(1, len(self.control.journal()))

    def test_written_data_has_its_limits(self):
        volume = self.volume(self.group(), size=10)
        for number, kib in ((volume['id'], 11), (volume['id'], -1),
                            (99, 1)):
            self.assertRaises(k2_sim.ApiError, self.control.set_written,
                              number, kib)
        self.control.set_written(volume['id'], 10)


@ddt.ddt
class TestControlApi(base.ArrayTest):

    @ddt.data(('behaviors', {'self': 1}), ('performance', {'self': 1}),
              ('latency', {'kind': []}),
              ('faults', {'kind': 'latency', 'latency': {'kind': []}}),
              ('faults', {'kind': 'busy', 'regexp': 'a{%s}' % (10 ** 20)}),
              ('faults', {'kind': 'busy', 'regexp': '(' * 5000}))
    @ddt.unpack
    def test_odd_bodies(self, name, body):
        self.sim(400, 'POST', name, body)

    def test_whatever_happens_there_is_a_reply(self):
        def fail(*args):
            raise KeyError('defect')

        self.useFixture(fixtures.FakeLogger())
        self.useFixture(fixtures.MockPatchObject(
            self.array.core.faults, 'plan', fail))
        self.useFixture(fixtures.MockPatchObject(
            self.control, 'save', fail))
        self.assertEqual({'error_msg': 'Internal error'},
                         self.expect(500, 'GET', 'volumes'))
        self.assertEqual({'error_msg': 'Internal error'},
                         self.sim(500, 'GET', 'save'))

    def test_huge_id_and_a_rule_for_some_objects(self):
        self.control.add_fault(kind='busy', method='DELETE',
                               where={'name': 'x'})
        self.expect(404, 'DELETE', 'volumes/__bulk', [{'id': '9' * 5000}])

    @ddt.data({'page_size': -5}, {'create_status': 7}, {'rate_burst': -1},
              {'bulk': ['volumes', 3]}, {'linger_seconds': -4.0},
              {'linger_seconds': 1e300})
    def test_invalid_behaviors(self, body):
        self.sim(400, 'POST', 'behaviors', body)
        self.assertRaises(k2_sim.ApiError, self.control.set_behaviors,
                          rate_limit=float('nan'))

    @ddt.data({'times': -1}, {'after': -3}, {'probability': 7},
              {'probability': -1}, {'seconds': -5}, {'method': 'POTS'},
              {'method': 'post'}, {'reads': -2})
    def test_faults_without_meaning(self, fields):
        self.sim(400, 'POST', 'faults', {'kind': 'busy', **fields})

    @ddt.data(
        ('behaviors', {'page_size': True}, 'Behavior page_size must be of type'
         ' int'),
        ('behaviors', {'sequences': 1}, 'Behavior sequences must be of type'
         ' bool'),
        ('behaviors', {'name_limit': 1.0},
         'Behavior name_limit must be of type'
         ' int'),
        ('behaviors', {'rate_limit': '1'},
         'Behavior rate_limit must be of type'
         ' float'),
        ('behaviors', {'bulk': ['volumes', 3]},
         'Behavior bulk must be a list of'
         ' names'),
        ('faults', {'kind': 'busy', 'times': True}, 'Fault rule: wrong value'
         ' for times'),
        ('faults', {'kind': 'busy', 'where': {'name': 1}}, 'Fault rule: wrong'
         ' value for where'),
        ('faults', {'kind': 'busy', 'enabled': 0}, 'Fault rule: wrong value'
         ' for enabled'),
        ('faults', {'kind': 5}, 'Fault rule: wrong value for kind'),
        ('faults', {'kind': 'busy', 'id': 5}, 'Fault rule: unknown field'
         ' id'))
    @ddt.unpack
    def test_values_of_another_type(self, name, body, message):
        self.assertEqual(message, self.sim(400, 'POST', name, body)[
            'error_msg'])

    def test_former_names_of_methods(self):
        """mend_link, look and survey still work."""
        self.control.cut_link()
        self.control.mend_link()
        self.assertFalse(self.control.is_cut)
        self.control.look()
        self.control.survey()

    def test_former_name_of_triggered(self):
        """struck has the same count, in replies and in Python."""
        added = self.sim(200, 'POST', 'faults', {'kind': 'busy'})
        rule = self.control.fault(added['id'])
        self.refused('POST', 'host_groups', BODY)
        for shown in (self.sim(200, 'GET', 'faults')['hits'][0],
                      self.sim(200, 'GET', 'faults/1'),
                      self.sim(200, 'PATCH', 'faults/1', {'times': 5}),
                      self.control.faults()[0]):
            self.assertEqual(
                (1, 1), (shown['triggered'], shown['struck']))
        self.assertEqual((0, 1), (added['struck'], rule.struck))

    def test_numbers_without_a_point(self):
        self.assertEqual(5.0, self.sim(
            200, 'PATCH', 'behaviors', {'rate_limit': 5})['rate_limit'])
        self.assertEqual(0, self.sim(200, 'POST', 'faults', {
            'kind': 'busy', 'times': None, 'seconds': 0})['seconds'])

    def test_needs_credentials(self):
        self.assertEqual(401, self.array.handle(
            'GET', '/sim/v1/journal').status)

    def test_index_and_unknown(self):
        names = self.sim(200, 'GET', '')['resources']
        self.assertIn('faults', names)
        self.sim(404, 'GET', 'nothing')
        self.sim(405, 'DELETE', 'reset')

    def test_faults(self):
        self.sim(200, 'POST', 'faults', {'kind': 'busy', 'times': 1})
        self.refused('POST', 'host_groups', BODY)
        self.assertEqual(1, self.sim(200, 'GET', 'faults')['hits'][0][
            'triggered'])
        self.sim(204, 'DELETE', 'faults')
        self.assertEqual([], self.control.faults())
        self.sim(400, 'POST', 'faults', {'kind': 'x'})
        self.sim(400, 'POST', 'faults', [])

    def test_latency(self):
        shown = {'kind': 'constant', 'ms': 500.0}
        self.assertEqual(shown, self.sim(
            200, 'POST', 'latency', {'seconds': 0.5}))
        self.assertEqual(shown, self.sim(200, 'GET', 'latency'))
        for value in (-1, 'x', None, True, 1e6):
            self.sim(400, 'POST', 'latency', {'seconds': value})
        self.sim(400, 'POST', 'latency', {'minutes': 1})

    def test_journal(self):
        self.get('volumes')
        journal = self.sim(200, 'GET', 'journal')
        self.assertEqual((1, 1), (journal['total'],
                                  journal['max_in_flight']))
        self.assertEqual('/api/v2/volumes', journal['hits'][0]['path'])
        self.sim(204, 'DELETE', 'journal')
        self.assertEqual(0, self.sim(200, 'GET', 'journal')['total'])

    def test_behaviors(self):
        changed = self.sim(200, 'PATCH', 'behaviors', {
            'page_size': 5, 'bulk': ['snapshots'], 'rate_limit': 1000})
        self.assertEqual((5, ['snapshots']), (
            changed['page_size'], changed['bulk']))
        self.assertEqual(changed, self.sim(200, 'GET', 'behaviors'))
        # The deprecated name.
        self.assertEqual(changed, self.sim(200, 'GET', 'switches'))
        for body in ({'page_size': '5'}, {'colour': 1}, {'bulk': '*'},
                     {'sequences': 1, 'page_size': 7}):
            self.sim(400, 'PATCH', 'behaviors', body)
        self.assertEqual(5, self.get('volumes')['limit'])

    def test_clock_initiators_state(self):
        self.sim(204, 'POST', 'clock', {'advance': 60})
        self.assertEqual(1767225660.0, self.get('system/state/1')[
            'system_time'])
        self.sim(400, 'POST', 'clock', {'advance': -1})
        record = self.sim(200, 'POST', 'initiators', {
            'resource': 'host_iqns', 'identifier': 'iqn.a'})
        self.assertEqual([record], self.sim(200, 'GET', 'leftovers')[
            'host_iqns'])
        self.sim(404, 'POST', 'initiators', {
            'resource': 'hosts', 'identifier': 'x'})
        self.sim(400, 'POST', 'initiators', {'resource': 'host_iqns'})
        state = self.sim(200, 'GET', 'state')
        self.assertEqual('sdp', state['profile'])
        self.assertEqual('iqn.a', state['objects']['host_iqns'][0]['iqn'])
        self.sim(204, 'POST', 'reset')
        self.assertEqual({}, self.sim(200, 'GET', 'leftovers'))


class TestProfiles(base.ArrayTest):

    def test_unknown_profile(self):
        self.assertRaises(ValueError, k2_sim.Array, 'k3')

    def test_how_profiles_differ(self):
        k2, sdp, known = (vars(profiles.behaviors_of(name))
                          for name in profiles.NAMES)
        self.assertEqual({'thin_clones', 'page_size', 'scsi_product'},
                         {name for name in k2 if k2[name] != sdp[name]})
        self.assertEqual({'refuse_unlisted', 'delete_host_with_initiators'},
                         {name for name in k2 if k2[name] != known[name]})
