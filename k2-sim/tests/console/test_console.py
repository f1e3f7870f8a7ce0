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

"""The web console without a browser: login, sessions, contents of views."""

import json
import re
import threading
from unittest import mock

import ddt
import fixtures

import k2_sim
from k2_sim.access import login_throttle
from k2_sim.console import history
from k2_sim.console import logins
from tests import base
from tests import pairs

HOSTILE = '<img src=x onerror=alert(1)>'


class Visitor:
    """A browser user: keeps the cookie and sends the CSRF token."""

    def __init__(self, array, page='/console', origin='https://k2'):
        self.array = array
        self.page = page
        self.origin = origin
        self.address = ''
        self.cookie = ''
        self.proof = ''

    def ask(self, method, path, body=None, **headers):
        """A request below the page."""
        path, _, query = path.partition('?')
        sent = {'Cookie': self.cookie, 'Origin': self.origin,
                'Content-Type': base.JSON, 'X-Console-Proof': self.proof,
                **headers}
        data = b'' if body is None else json.dumps(body).encode()
        with self.array.exchange(method, f'{self.page}/{path}', query, sent,
                                 data, self.address) as exchange:
            return exchange.settled().response

    def log_in(self, login='admin', password='admin'):
        reply = self.ask('POST', 'session',
                         {'login': login, 'password': password})
        if reply.status == 200:
            self.cookie = reply.headers['Set-Cookie'].partition(';')[0]
            self.proof = reply.json()['proof']
        return reply

    def feed(self, path):
        reply = self.ask('GET', f'feed/{path}')
        assert reply.status == 200, reply.body
        return reply.json()


class ConsoleTest(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.visitor = Visitor(self.array)
        self.visitor.log_in()

    def names(self, query=''):
        return [node['name']
                for node in self.visitor.feed(f'volumes?{query}')['nodes']]

    def levels(self, query):
        return [f'{node["level"]} {node["kind"]} {node["name"]}'
                for node in self.visitor.feed(f'volumes?{query}')['nodes']]


@ddt.ddt
class TestDoors(ConsoleTest):

    @ddt.data(('/', '/console/'), ('/console', '/console/'),
              ('/console/control', '/console/control/'))
    @ddt.unpack
    def test_the_address_leads_to_the_page(self, path, where):
        reply = self.array.handle('GET', path)
        self.assertEqual((302, where),
                         (reply.status, reply.headers['Location']))

    @ddt.data('', 'control/')
    def test_pages(self, path):
        """They contain no data of the array, so they need no login."""
        reply = self.array.handle('GET', f'/console/{path}')
        self.assertEqual(200, reply.status)
        self.assertEqual('text/html; charset=utf-8',
                         reply.headers['Content-Type'])
        for name in re.findall(rb'(?:src|href)="/console/(static/[^"]+)"',
                               reply.body):
            self.assertEqual(200, self.array.handle(
                'GET', f'/console/{name.decode()}').status, name)
        for harm in (rb'<script(?! type="module" src=)', rb' on\w+=',
                     rb' style=', rb'https?://(?!www\.w3\.org)'):
            self.assertIsNone(re.search(harm, reply.body), harm)

    def test_modules(self):
        """Each module that a page loads, at once or later, exists."""
        known, new = set(), {'page.js'}
        while new:
            name = new.pop()
            known.add(name)
            reply = self.array.handle('GET', f'/console/static/{name}')
            self.assertEqual(200, reply.status, name)
            new |= set(re.findall(
                r"'\./([a-z]+\.js)'", reply.body.decode())) - known
        self.assertLess({'app.js', 'control.js', 'shell.js'}, known)

    @ddt.data('', 'static/icon.svg', 'session', 'feed/overview', 'nothing')
    def test_what_browsers_are_told(self, path):
        headers = self.visitor.ask('GET', path).headers
        policy = headers['Content-Security-Policy']
        self.assertIn("default-src 'none'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertNotIn('unsafe', policy)
        self.assertEqual('nosniff', headers['X-Content-Type-Options'])

    @ddt.data('static/', 'static/../feed.py', 'static/index.py',
              'shell.html', 'static/static/icon.svg')
    def test_no_other_files(self, path):
        self.assertIn(self.array.handle(
            'GET', f'/console/{path}').status, (401, 404))

    @ddt.data('feed/overview', 'feed/none', 'session', 'control/feed',
              'control/api/faults', 'control/session', 'nothing')
    def test_nothing_without_a_session(self, path):
        for cookie in ('', 'k2_console=guessed', 'k2_control=guessed',
                       'k2_console=; ]['):
            self.assertEqual(401, self.array.handle(
                'GET', f'/console/{path}', headers={'Cookie': cookie}).status)

    def test_it_is_not_the_api(self):
        """Not in the journal, not rate limited, not subject to faults."""
        self.control.set_behaviors(rate_limit=1.0, rate_burst=1)
        self.control.add_fault(kind='status', status=503)
        for _ in range(3):
            self.visitor.feed('overview')
        self.assertEqual([], self.control.journal())

    def test_unchanged(self):
        self.group()
        reply = self.visitor.ask('GET', 'feed/volumes')
        tag = {'If-None-Match': reply.headers['ETag']}
        again = self.visitor.ask('GET', 'feed/volumes', **tag)
        self.assertEqual((304, b''), (again.status, again.body))
        self.group('vg-b')
        self.assertEqual(200, self.visitor.ask(
            'GET', 'feed/volumes', **tag).status)

    @ddt.data('offset=-1', 'offset=x', 'since=x', f'open={"x" * 20001}')
    def test_nonsense(self, query):
        self.assertEqual(400, self.visitor.ask(
            'GET', f'feed/volumes?{query}').status)
        self.assertEqual(405, self.visitor.ask(
            'POST', 'feed/volumes').status)


@ddt.ddt
class TestSessions(ConsoleTest):

    def test_the_cookie(self):
        for origin, secure in (('https://k2', True), ('http://k2', False),
                               ('', True)):
            cookie = Visitor(self.array, origin=origin).log_in().headers[
                'Set-Cookie']
            self.assertEqual(secure, 'Secure' in cookie)
            for part in ('HttpOnly', 'SameSite=Strict', 'Path=/console;',
                         'Max-Age=28800'):
                self.assertIn(part, cookie)

    def test_each_account_may_look(self):
        array = k2_sim.Array(users=[
            k2_sim.User('eve', 'secret', 'read-only')])
        self.addCleanup(array.close)
        self.assertEqual('read-only', Visitor(array).log_in(
            'eve', 'secret').json()['role'])

    @ddt.data(('admin', 'wrong'), ('nobody', 'admin'), ('', ''))
    @ddt.unpack
    def test_wrong_password(self, login, password):
        reply = Visitor(self.array).log_in(login, password)
        self.assertEqual((401, 'Login or password is wrong'),
                         (reply.status, reply.json()['error_msg']))
        self.assertNotIn('Set-Cookie', reply.headers)

    @ddt.data([], {}, {'login': 'admin'}, {'login': 1, 'password': 2})
    def test_no_login(self, body):
        self.assertEqual(400, self.visitor.ask(
            'POST', 'session', body).status)

    def test_a_form_of_a_foreign_site(self):
        """It can neither send JSON nor the CSRF token."""
        reply = self.visitor.ask(
            'POST', 'session', {'login': 'admin', 'password': 'admin'},
            **{'Content-Type': 'text/plain'})
        self.assertEqual(400, reply.status)
        self.visitor.proof = 'guessed'
        self.assertEqual(403, self.visitor.ask('DELETE', 'session').status)
        self.visitor.feed('overview')

    def test_tries(self):
        visitor = Visitor(self.array)
        for _ in range(login_throttle.TRIES):
            self.assertEqual(401, visitor.log_in('admin', 'no').status)
        self.assertEqual(429, visitor.log_in().status)
        self.visitor.feed('overview')
        self.clock.advance(login_throttle.TRIES_SECONDS)
        self.assertEqual(200, visitor.log_in().status)

    def test_tries_of_a_stranger(self):
        """They do not lock anybody out who comes from elsewhere."""
        visitor = Visitor(self.array)
        visitor.address = '192.0.2.1'
        for _ in range(login_throttle.TRIES):
            self.assertEqual(401, visitor.log_in('admin', 'no').status)
        self.assertEqual(429, visitor.log_in().status)
        visitor.address = '192.0.2.2'
        self.assertEqual(200, visitor.log_in().status)

    def test_a_session_ends(self):
        self.clock.advance(logins.LIFE - 1)
        self.visitor.feed('overview')
        self.clock.advance(1)
        self.assertEqual(401, self.visitor.ask(
            'GET', 'feed/overview').status)

    def test_the_oldest_session_gives_way(self):
        for _ in range(logins.KEPT):
            last = Visitor(self.array)
            last.log_in()
        self.assertEqual(401, self.visitor.ask('GET', 'session').status)
        self.assertEqual(200, last.ask('GET', 'session').status)

    def test_log_out(self):
        reply = self.visitor.ask('DELETE', 'session')
        self.assertEqual(204, reply.status)
        self.assertIn('Max-Age=0', reply.headers['Set-Cookie'])
        self.assertEqual(401, self.visitor.ask('GET', 'session').status)

    def test_who_it_is(self):
        self.assertEqual(
            {'login': 'admin', 'role': 'admin', 'proof': self.visitor.proof},
            self.visitor.ask('GET', 'session').json())


class TestTree(ConsoleTest):

    def setUp(self):
        super().setUp()
        self.a = self.group('vg-a')
        self.one = self.volume(self.a, 'one')
        self.taken = self.snapshot(self.a, 'snap')
        self.seen = self.view(self.taken, 'view')
        self.clone = self.post('volumes', self.clone_body(
            self.a, self.taken, self.one, 'clone'))
        self.volume(self.group('vg-b'), 'two')

    def opened(self, *items):
        return 'open=' + ','.join(f'/{resource}/{record["id"]}'
                                  for resource, record in items)

    def test_closed(self):
        self.assertEqual(['1 group vg-a', '1 group vg-b'], self.levels(''))

    def test_opened(self):
        self.assertEqual(
            ['1 group vg-a', '2 volume one', '2 snapshot snap',
             '3 clone clone', '3 view view', '1 group vg-b'],
            self.levels(self.opened(
                ('volume_groups', self.a), ('snapshots', self.taken))))

    def test_a_clone_that_has_moved(self):
        """CLN-7: it is shown in its current group."""
        self.control.set_behaviors(clones_movable=True)
        self.patch(f'volumes/{self.clone["id"]}', {
            'volume_group': base.ref('volume_groups', self.group('vg-c'))})
        self.assertEqual(['1 group vg-c', '2 clone clone'],
                         self.levels('search=clone'))

    def test_search(self):
        """Results are shown with their parents, and nothing else."""
        self.assertEqual(
            ['1 group vg-a', '2 snapshot snap', '3 view view'],
            self.levels('search=VIE'))
        self.assertEqual(['1 group vg-b'], self.levels('search=vg-b'))
        self.group('Upper')
        self.assertEqual(['1 group Upper'], self.levels('search=upper'))
        self.assertEqual([], self.levels('search=CTRL'))

    def test_facts(self):
        self.map(self.host('node1'), self.one)
        self.control.set_written(self.one['id'], 77)
        group, volume, *_ = self.visitor.feed(
            f'volumes?{self.opened(("volume_groups", self.a))}')['nodes']
        self.assertEqual((['node1'], 10 * base.GIB, 77), (
            volume['mapped'], volume['size'], volume['written']))
        self.assertEqual((2, 2, 20 * base.GIB), (
            group['volumes'], group['snapshots'], group['size']))

    def test_pages(self):
        self.control.seed_objects({'volumes': 120})
        found = self.visitor.feed('volumes?search=seed-vg&offset=100')
        self.assertEqual((120, 20), (found['total'], len(found['nodes'])))

    def test_an_object(self):
        path = f'volumes/{self.one["id"]}'
        self.assertEqual(self.get(path), self.visitor.feed(
            f'object?ref=/{path}')['fields'])
        for ref in ('/volumes/999', '/volumes/x', 'volumes/31', '/none/1'):
            self.assertIn(self.visitor.ask(
                'GET', f'feed/object?ref={ref}').status, (400, 404))


class TestViews(ConsoleTest):

    def test_overview(self):
        group = self.group()
        self.volume(group)
        self.view(self.snapshot(group))
        found = self.visitor.feed('overview')
        self.assertEqual(
            {'volume_groups': 1, 'volumes': 1, 'snapshots': 1, 'views': 1,
             'hosts': 0, 'host_groups': 0, 'mappings': 0,
             'replication/sessions': 0}, found['counts'])
        self.assertEqual(self.hits('system/capacity'), [found['capacity']])
        self.assertEqual('SNAPSHOT_CREATED', found['events'][0]['name'])
        self.assertEqual('sim-k2-a', found['system']['system_name'])

    def test_history(self):
        """A sample every five seconds, for an hour."""
        self.visitor.feed('overview')
        self.control.set_performance(iops_avg=500)
        self.clock.advance(history.STEP - 1)
        self.get('volumes')
        self.control.tick()
        self.clock.advance(1)
        found = self.visitor.feed('overview')
        points = [dict(zip(found['columns'], sample))
                  for sample in found['samples']]
        self.assertEqual([(0, 0), (500, 0.2)], [
            (point['iops'], point['requests']) for point in points])
        self.assertEqual(100 * 2 ** 30, points[1]['total'])
        self.assertEqual([], self.visitor.feed(
            f'overview?since={points[1]["time"]}')['samples'])
        for _ in range(history.KEPT + 1):
            self.clock.advance(history.STEP)
            self.control.tick()
        self.assertEqual(history.KEPT, len(
            self.visitor.feed('overview')['samples']))
        self.clock.advance(history.STEP * history.KEPT)
        self.assertEqual(1, len(self.visitor.feed('overview')['samples']))

    def test_a_look_while_a_view_is_read(self):
        """Neither waits for the other's lock."""
        looking = threading.Thread(target=self.control.tick, daemon=True)

        def view():
            with self.array.lock:
                looking.start()
                self.visitor.feed('overview')

        viewing = threading.Thread(target=view, daemon=True)
        viewing.start()
        for thread in (viewing, looking):
            thread.join(5)
            self.assertFalse(thread.is_alive())

    def test_a_journal_that_was_cleared(self):
        """Requests are counted from 0 again, and never below."""
        for _ in range(9):
            self.get('hosts')
        self.visitor.feed('overview')
        self.control.clear_journal()
        self.get('hosts')
        self.clock.advance(history.STEP)
        self.assertEqual(
            0.2, self.visitor.feed('overview')['samples'][-1][-1])

    def test_hosts(self):
        group = self.post('host_groups', {'name': 'cluster'})
        host = self.host('node1', host_group=base.ref('host_groups', group))
        self.host('other')
        self.post('host_iqns', {'iqn': 'iqn.2000-01.org:a',
                                'host': base.ref('hosts', host)})
        volume = self.volume(self.group(), 'vol')
        self.map(group, volume, host_kind='host_groups')
        path = f'hosts?search=NODE&open=/hosts/{host["id"]}'
        found = self.visitor.feed(path)
        self.assertEqual([{
            'ref': f'/hosts/{host["id"]}', 'name': 'node1', 'type': 'Linux',
            'group': 'cluster', 'initiators': ['iqn.2000-01.org:a'],
            'count': 1, 'mappings': [{
                'lun': 1, 'name': 'vol', 'kind': 'volumes',
                'through': 'host_groups'}]}], found['hosts'])
        self.assertEqual(
            [{'name': 'cluster', 'hosts': ['node1'], 'count': 1}],
            found['groups'])

    def test_events(self):
        self.group(HOSTILE)
        found = self.visitor.feed('events?search=vg_created')['events']
        self.assertEqual(1, len(found))
        self.assertIn(HOSTILE, found[0]['message'])
        self.assertEqual([], self.visitor.feed(
            'events?kind=WARNING')['events'])

    def test_requests(self):
        self.control.add_fault(kind='busy', method='POST', times=1)
        self.get('volumes?name=a')
        self.clock.advance(3)
        self.refused('POST', 'host_groups', {'name': 'a'})
        newest, first = self.visitor.feed('requests')['requests']
        self.assertEqual(
            {'time': 1767225603.0, 'method': 'POST', 'status': 400,
             'path': '/api/v2/host_groups', 'query': '', 'ms': 0.0,
             'fault': 'busy', 'carried_out': False}, newest)
        for kind, expected in (('errors', [newest]), ('faults', [newest]),
                               ('writes', [newest]), ('', [newest, first])):
            self.assertEqual(expected, self.visitor.feed(
                f'requests?kind={kind}')['requests'])
        self.assertEqual([first], self.visitor.feed(
            'requests?search=NAME=A')['requests'])

    def test_a_broken_connection_is_an_error(self):
        self.control.add_fault(kind='reset')
        self.call('GET', 'volumes')
        found, = self.visitor.feed('requests?kind=errors')['requests']
        self.assertEqual(0, found['status'])

    def test_system(self):
        found = self.visitor.feed('system')
        self.assertEqual({'admin': 'admin'}, found['users'])
        self.assertEqual(self.control.ports(), found['ports'])
        self.assertIn({'address': '192.0.2.11', 'mask': '255.255.255.0',
                       'service': 'iSCSI', 'interface': 'node01-data01'},
                      found['addresses'])
        self.assertEqual('sdp', found['profile'])

    def test_no_secret_is_shown(self):
        self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'secret-of-chap'})
        for name in ('overview', 'system', 'events', 'requests', 'hosts',
                     'object?ref=/host_auth_profiles/1'):
            self.assertNotIn(b'secret-of-chap', self.visitor.ask(
                'GET', f'feed/{name}').body)


class TestReplicationView(pairs.PairTest):

    def test_sessions(self):
        self.start()
        visitor = Visitor(self.a.array)
        visitor.log_in()
        self.clock.advance(40)
        found = visitor.feed('replication')
        session, = found['sessions']
        self.assertEqual(
            ('ssn-1', 'in_sync', 'source', 300, 'k2-b', 'vg-1', 40),
            tuple(session[name] for name in (
                'name', 'state', 'current_role', 'rpo', 'peer', 'group',
                'lag')))
        self.assertEqual(1, len(session['rounds']))
        self.assertEqual('k2-b', found['peers'][0]['name'])


class TestControlPage(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array(
            clock=self.clock, control_user=k2_sim.User('boss', 'pw'))
        self.addCleanup(self.array.close)
        self.control = self.array.control
        self.boss = Visitor(self.array, '/console/control')
        self.boss.log_in('boss', 'pw')

    def api(self, method, path, body=None, status=200):
        reply = self.boss.ask(method, f'api/{path}', body)
        self.assertEqual(status, reply.status, reply.body)
        return reply.json() if reply.body else None

    def test_its_own_password(self):
        visitor = Visitor(self.array, '/console/control')
        self.assertEqual(401, visitor.log_in().status)
        self.assertEqual(401, Visitor(self.array).log_in(
            'boss', 'pw').status)
        viewer = Visitor(self.array)
        viewer.log_in()
        viewer.page = '/console/control'
        self.assertEqual(401, viewer.ask('GET', 'feed').status)
        self.assertEqual(401, viewer.ask('POST', 'api/reset').status)

    def test_a_write_needs_the_proof(self):
        self.group()
        self.boss.proof = ''
        self.api('POST', 'reset', status=403)
        self.assertEqual(1, self.get('volume_groups')['total'])

    def test_what_it_shows(self):
        self.control.add_fault(kind='busy')
        self.control.set_port('/system/net_ports/1', False)
        found = self.boss.ask('GET', 'feed').json()
        self.assertEqual('busy', found['faults'][0]['kind'])
        self.assertFalse(found['ports'][0]['up'])
        self.assertIn('slow_loris', found['kinds'])
        self.assertEqual({'kind': 'constant', 'ms': 0.0}, found['latency'])

    def test_faults(self):
        rule = self.api('POST', 'faults', {'kind': 'busy', 'method': 'write'})
        self.refused('POST', 'host_groups', {'name': 'hg'})
        self.api('DELETE', f'faults/{rule["id"]}', status=204)
        self.post('host_groups', {'name': 'hg'})
        self.api('POST', 'faults', {'kind': 'none'}, status=400)

    def test_the_rest(self):
        self.api('POST', 'latency', {'kind': 'constant', 'ms': 5})
        self.api('POST', 'link', {'cut': True})
        self.api('POST', 'behaviors', {'state': 'OFFLINE'})
        self.assertEqual((0.005, True, 'OFFLINE'), (
            self.array.core.faults.delay(), self.control.is_cut,
            self.array.behaviors.state))
        self.api('POST', 'reset', status=204)
        self.assertFalse(self.control.is_cut)

    def test_no_other_control(self):
        for name in ('state', 'save', 'peer', 'clock', '', 'nothing'):
            self.api('GET', name, status=404)

    def test_seeding(self):
        """More of them each time, in new groups."""
        for _ in range(2):
            self.api('POST', 'seed', {
                'volumes': 3, 'volumes_per_group': 2, 'hosts': 2,
                'snapshots': 1, 'internal_groups': 1}, status=204)
        self.assertEqual(
            [f'seed-vol-{number:05d}' for number in range(6)],
            [row['name'] for row in self.hits('volumes?name__contains=seed')])
        self.assertEqual((6, 4, 2), tuple(
            self.get(name)['total'] for name in (
                'volume_groups', 'hosts', 'snapshots')))
        for body in ({'volumes': 10001}, {'volumes': 'x'}, {'none': 1},
                     {'volumes': -1}, {'snapshots': 1},
                     {'volumes': 1, 'volumes_per_group': 33}):
            self.api('POST', 'seed', body, status=400)
        self.assertEqual(6, self.get('volume_groups')['total'])


class TestSeveralArrays(ConsoleTest):
    """On one machine, with one set of cookies."""

    def test_a_cookie_for_each_port(self):
        other = k2_sim.Array(clock=self.clock)
        self.addCleanup(other.close)
        jar = {}
        for array, port in ((self.array, 8443), (other, 8444)):
            reply = self.ask(array, port, 'POST', 'session', jar)
            name, _, value = reply.headers['Set-Cookie'].partition(
                ';')[0].partition('=')
            jar[name] = value
        for array, port in ((self.array, 8443), (other, 8444)):
            self.assertEqual(200, self.ask(
                array, port, 'GET', 'session', jar).status)
        self.assertEqual(401, self.ask(
            other, 8443, 'GET', 'session', jar).status)

    def ask(self, array, port, method, path, jar):
        visitor = Visitor(array)
        visitor.cookie = '; '.join('='.join(item) for item in jar.items())
        body = {'login': 'admin', 'password': 'admin'} \
            if method == 'POST' else None
        return visitor.ask(method, path, body, Host=f'127.0.0.1:{port}')


class TestTime(ConsoleTest):

    def test_page_from_before_time_was_set_back(self):
        """As after a restart of an array whose clock was advanced."""
        self.control.tick()
        ahead = self.clock.time() + 10 ** 6
        self.assertEqual(
            self.visitor.feed('overview')['samples'],
            self.visitor.feed(f'overview?since={ahead}')['samples'])

    def test_what_is_due_is_left_to_who_tends_the_array(self):
        """A page must not keep other requests waiting meanwhile."""
        self.array.core.has_maintenance = True
        with mock.patch.object(self.array, 'run_maintenance',
                               autospec=True) as run_maintenance:
            self.visitor.feed('overview')
            run_maintenance.assert_not_called()
            self.array.core.has_maintenance = False
            self.visitor.feed('overview')
            run_maintenance.assert_called_once_with()

    def test_what_goes_wrong_has_a_reply(self):
        self.useFixture(fixtures.FakeLogger())
        journal = self.array.core.journal
        with mock.patch.object(journal, 'newest', autospec=True,
                               side_effect=RuntimeError('bug')):
            reply = self.visitor.ask('GET', 'feed/requests')
        self.assertEqual((500, {'error_msg': 'Internal error'}),
                         (reply.status, reply.json()))
        self.assertIn('Content-Security-Policy', reply.headers)

    def test_an_id_that_no_computer_counts_to(self):
        number = '9' * 5000
        reply = self.visitor.ask('GET', f'feed/object?ref=/volumes/{number}')
        self.assertEqual(400, reply.status)
        self.assertIn('Not a reference', self.refused('POST', 'mappings', {
            'host': {'ref': f'/hosts/{number}'},
            'volume': {'ref': '/volumes/31'}}))
