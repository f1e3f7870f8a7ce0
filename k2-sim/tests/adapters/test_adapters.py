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

"""The array behind requests, behind a thread, behind uvicorn."""

import asyncio
from concurrent import futures
import contextlib
import datetime
import http.client
import json
import os
import socket
import ssl
import stat
import threading
import time

import fixtures
import requests
import testtools
import urllib3
import uvicorn

import k2_sim
from k2_sim.adapters import tls
from k2_sim.adapters import uvicorn_options
from k2_sim.protocol import messages
from k2_sim.state import disk
from k2_sim.state import store
from tests import base
from tests import contexts

BASE = 'https://k2.example'


class Transport(testtools.TestCase):
    """Sends requests to an adapter; tests set self.array and self.url."""

    def setUp(self):
        super().setUp()
        self.session = requests.Session()
        self.addCleanup(self.session.close)
        self.session.trust_env = False
        self.session.auth = ('admin', 'admin')
        self.clock = k2_sim.Clock()
        self.array = None
        self.url = None

    def call(self, method, path, **options):
        return self.session.request(
            method, f'{self.url}/api/v2/{path}', timeout=60, **options)


class Conversation:
    """The tests of every adapter."""

    def test_conversation(self):
        made = self.call('POST', 'volume_groups',
                         json={'name': 'a b&c', 'quota': 0})
        self.assertEqual(201, made.status_code)
        self.assertEqual('application/json', made.headers['Content-Type'])
        path = f'volume_groups/{made.json()["id"]}'
        self.assertEqual('d', self.call(
            'PATCH', path, json={'description': 'd'}).json()['description'])
        found = self.call('GET', 'volume_groups',
                          params={'name': 'a b&c', '__limit': 5})
        self.assertEqual(1, found.json()['total'])
        gone = self.call('DELETE', path)
        self.assertEqual((204, b''), (gone.status_code, gone.content))
        self.assertEqual(404, self.call('GET', path).status_code)
        self.assertEqual(405, self.call('PUT', 'volumes').status_code)

    def test_unchanged_page(self):
        """A 304 has no body, so that it has no length either."""
        page = f'{self.url}/console/'
        reply = self.session.get(page, timeout=60)
        self.assertEqual(200, reply.status_code)
        again = self.session.get(page, timeout=60, headers={
            'If-None-Match': reply.headers['ETag']})
        self.assertEqual((304, b''), (again.status_code, again.content))
        self.assertNotIn('Content-Length', again.headers)
        self.assertEqual(200, self.call('GET', '').status_code)

    def test_wrong_password(self):
        self.session.auth = ('admin', 'no')
        self.assertEqual(401, self.call('GET', '').status_code)

    def test_body_that_is_no_json(self):
        reply = self.call('POST', 'volumes', data=b'{',
                          headers={'Content-Type': 'application/json'})
        self.assertEqual(400, reply.status_code)

    def test_long_query(self):
        """QRY-1: many values."""
        names = ','.join(f'v{number:036d}' for number in range(700))
        self.assertEqual(1, self.call(
            'GET', f'volumes?name__in={names},CTRL').json()['total'])

    def test_longest_urls(self):
        """QRY-1: 64 KiB are accepted; 414 in JSON beyond, then as before."""
        start = '/api/v2/volumes?name__in=CTRL,'
        for more, status in ((0, 200), (1, 414), (70000, 414),
                             (3 * messages.LONGEST_URL, 414), (-1, 200)):
            url = start.ljust(messages.LONGEST_URL + more, 'x')
            reply = self.session.get(self.url + url, timeout=60)
            self.assertEqual((status, 'application/json'), (
                reply.status_code, reply.headers['Content-Type']), more)
            self.assertEqual(
                ['hits', 'limit', 'offset', 'total'] if status == 200
                else ['error_msg'], sorted(reply.json()))
        self.assertEqual(414, self.call(
            'POST', 'volumes?' + 'x' * 65536, json={'name': 'v'}).status_code)
        self.assertEqual(200, self.call('GET', '').status_code)

    def test_reset(self):
        for commit, made in (('before', 0), ('after', 1)):
            self.array.control.add_fault(
                kind='reset', commit=commit, method='POST', times=1)
            self.assertRaises(
                requests.exceptions.ConnectionError, self.call,
                'POST', 'host_groups', json={'name': 'hg'})
            self.assertEqual(made, self.call(
                'GET', 'host_groups').json()['total'])

    def test_truncated(self):
        self.array.control.add_fault(kind='truncated', times=1)
        self.assert_truncated('GET', 'volumes')
        self.assertEqual(200, self.call('GET', 'volumes').status_code)

    def assert_truncated(self, method, path, **options):
        """urllib3 before 2.0 does not notice that something is missing."""
        body = None
        with contextlib.suppress(requests.exceptions.ChunkedEncodingError,
                                 requests.exceptions.ConnectionError):
            body = self.call(method, path, **options).content
        if body is not None:
            self.assertTrue(urllib3.__version__.startswith('1.'))
            self.assertRaises(ValueError, json.loads, body)

    def test_garbage_and_empty(self):
        self.array.control.add_fault(kind='garbage', times=1)
        self.assertRaises(ValueError, self.call('GET', 'volumes').json)
        self.array.control.add_fault(kind='empty', times=1)
        reply = self.call('GET', 'volumes')
        self.assertEqual((200, b''), (reply.status_code, reply.content))

    def test_body_before_the_commit(self):
        """A refusal with the rule's status, by default 503, is damaged."""
        for status in (503, 502):
            fields = {} if status == 503 else {'status': status}
            for kind in ('garbage', 'empty', 'slow_loris', 'truncated'):
                self.array.control.add_fault(
                    kind=kind, commit='before', times=1, method='POST',
                    rate=5000 if kind == 'slow_loris' else 0, **fields)
            garbage, empty, slow = [self.call(
                'POST', 'host_groups', json={'name': 'hg'})
                for _ in range(3)]
            self.assertEqual([status] * 3, [
                reply.status_code for reply in (garbage, empty, slow)])
            self.assertRaises(ValueError, garbage.json)
            self.assertEqual(b'', empty.content)
            self.assertIn('error_msg', slow.json())
            self.assert_truncated('POST', 'host_groups', json={'name': 'hg'})
        self.assertEqual(0, self.call('GET', 'host_groups').json()['total'])

    def test_hang(self):
        self.array.control.add_fault(
            kind='hang', seconds=0.5, method='POST', times=1)
        self.assertRaises(
            requests.exceptions.ReadTimeout, self.session.post,
            f'{self.url}/api/v2/host_groups', json={'name': 'hg'},
            timeout=(1, 0.05))
        self.assertEqual(1, self.call('GET', 'host_groups').json()['total'])

    def test_slow_loris(self):
        """The body comes slowly, and no read time-out is long enough."""
        self.array.control.add_fault(
            kind='slow_loris', rate=50000, times=1)
        self.assertEqual(1, self.call('GET', 'volumes').json()['total'])
        self.array.control.add_fault(kind='slow_loris', rate=2, times=1)
        self.assertRaises(
            requests.exceptions.ConnectionError, self.session.get,
            f'{self.url}/api/v2/volumes', timeout=(1, 0.05))
        self.assertEqual(200, self.call('GET', 'volumes').status_code)

    def test_what_is_not_kept_does_not_leave(self):
        """A reply waits for the disk, and is a 500 if that fails."""
        commit = futures.Future()
        self.useFixture(fixtures.MockPatchObject(
            store.Store, 'commit', commit))
        later = threading.Timer(0.05, commit.set_exception, [
            k2_sim.StateError('disk full')])
        later.start()
        self.addCleanup(later.join)
        reply = self.call('POST', 'host_groups', json={'name': 'hg'})
        self.assertEqual((500, {'error_msg': 'disk full'}),
                         (reply.status_code, reply.json()))
        self.assertEqual(500, self.session.get(
            f'{self.url}/sim/v1/state').status_code)

    def test_control(self):
        reply = self.session.post(f'{self.url}/sim/v1/faults',
                                  json={'kind': 'busy', 'times': 1})
        self.assertEqual(200, reply.status_code)
        self.assertEqual('MC_ERR_BUSY', self.call(
            'POST', 'volumes', json={}).json()['error_msg'])


class RealTime:
    """The tests of the adapters with sockets."""

    def test_requests_overlap(self):
        self.array.control.set_latency(0.2)
        threads = [threading.Thread(
            target=requests.get, args=(f'{self.url}/api/v2',),
            kwargs={'verify': self.session.verify, 'timeout': 5,
                    'auth': self.session.auth}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreater(self.array.control.max_in_flight, 2)

    def test_body_that_is_too_large(self):
        """The client gets a reply, and can continue."""
        reply = self.call('POST', 'volumes', data=bytes(2 ** 24 + 1))
        self.assertEqual(
            (413, 'A request has at most 16777216 bytes'),
            (reply.status_code, reply.json()['error_msg']))
        self.assertEqual(200, self.call('GET', 'volumes').status_code)

    def test_body_of_a_stranger(self):
        """However large it is, a 401; then the client can continue."""
        self.session.auth = ('admin', 'no')
        self.assertEqual(401, self.call(
            'POST', 'volumes', data=bytes(2 ** 24)).status_code)
        self.session.auth = ('admin', 'admin')
        self.assertEqual(200, self.call('GET', 'volumes').status_code)

    def test_body_of_a_login_that_is_too_large(self):
        reply = self.session.post(
            f'{self.url}/console/session', data=bytes(2 ** 16 + 1))
        self.assertEqual(413, reply.status_code)

    def test_connections_are_kept(self):
        connection = http.client.HTTPConnection(
            self.url.rpartition('/')[2], timeout=60)
        connection.connect()
        self.addCleanup(connection.close)
        # From here on a closed connection is an error.
        connection.auto_open = False
        headers = base.authorization()
        for method, path in (('GET', '/'), ('POST', '/volumes'),
                             ('HEAD', '/volumes'), ('GET', '/volumes'),
                             ('DELETE', '/host_groups/5'), ('GET', '/x')):
            connection.request(method, f'/api/v2{path}', b'', headers)
            connection.getresponse().read()


class TestRequestsAdapter(Conversation, Transport):

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.array = k2_sim.Array(clock=self.clock)
        self.session.mount(BASE, k2_sim.RequestsAdapter(self.array))
        self.url = BASE

    def test_time_is_the_arrays(self):
        """A read timeout passes on the array's clock, not for real."""
        self.array.control.set_latency(3)
        before = self.clock.monotonic()
        self.call('GET', '')
        self.assertEqual(3, self.clock.monotonic() - before)
        self.array.control.set_latency(3600)
        for timeout in (60, (5, 60)):
            before = self.clock.monotonic()
            self.assertRaises(requests.exceptions.ReadTimeout,
                              self.session.get, f'{BASE}/api/v2',
                              timeout=timeout)
            self.assertEqual(60, self.clock.monotonic() - before)
        self.session.get(f'{BASE}/api/v2', timeout=None)


class TestServer(RealTime, Conversation, Transport):

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array()
        self.url = contexts.enter(self, k2_sim.Server(self.array)).url

    def test_bad_length(self):
        with socket.create_connection(
                ('127.0.0.1', int(self.url.rpartition(':')[2]))) as raw:
            raw.sendall(b'POST /api/v2 HTTP/1.1\r\n'
                        b'Content-Length: x\r\n\r\n')
            self.assertIn(b' 400 ', raw.recv(100))

    def connect(self):
        """A connection without anything that helps."""
        raw = socket.create_connection(
            ('127.0.0.1', int(self.url.rpartition(':')[2])), timeout=20)
        self.addCleanup(raw.close)
        return raw

    @staticmethod
    def all_of(raw):
        """What comes until the end of a connection."""
        received = b''
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while part := raw.recv(2 ** 16):
                received += part
        return received

    def test_endless_head(self):
        """In headers as in the URL, one value or many."""
        for start, more in ((b'GET /', b'a'), (b'GET / HTTP/1.1\r\na: ', b'a'),
                            (b'GET / HTTP/1.1\r\n', b'a: b\r\n')):
            raw = self.connect()
            raw.sendall(start)
            sent = 0
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                while sent < 64 * uvicorn_options.LONGEST_HEAD:
                    sent += raw.send(more * 10000)
            self.assertLess(sent, 64 * uvicorn_options.LONGEST_HEAD)
        self.assertEqual(200, self.call('GET', '').status_code)

    def test_head_of_the_largest_size(self):
        """More than one piece, and refused by none but the application."""
        url = '/api/v2/volumes?x='.ljust(
            uvicorn_options.LONGEST_HEAD - 1000, 'x')
        self.assertEqual(414, self.session.get(
            self.url + url, timeout=60).status_code)

    def test_requests_that_do_not_come(self):
        """Their connections end; one that waits for its reply does not."""
        self.useFixture(fixtures.MockPatchObject(
            uvicorn_options, 'REQUEST_SECONDS', 1.0))
        token = base.authorization()['Authorization'].encode()
        head = (b'POST /api/v2/volumes HTTP/1.1\r\nHost: a\r\n'
                b'Content-Length: 100\r\n')
        parts = (b'', b'POST /api', head, head + b'\r\n' + b'x' * 50,
                 head + b'Authorization: ' + token + b'\r\n\r\n', b'\r\n')
        held = [self.connect() for _ in parts]
        for raw, part in zip(held, parts, strict=True):
            raw.sendall(part)
        for raw, part in zip(held, parts, strict=True):
            self.assertNotIn(b' 200 ', self.all_of(raw), part)
        self.array.control.set_latency(1.5)
        self.assertEqual(200, self.call('GET', '').status_code)

    def test_idle_connections_end(self):
        """Also after bytes of no request, or of a pipelined one."""
        self.useFixture(fixtures.MockPatchObject(
            uvicorn_options, 'REQUEST_SECONDS', 1.0))
        get = b'GET /console/app.js HTTP/1.1\r\nHost: a\r\n\r\n'
        post = (b'POST /console/session HTTP/1.1\r\nHost: a\r\n'
                b'Content-Length: 10\r\n\r\n12')
        held = [self.connect() for _ in range(3)]
        for raw, first, second in zip(held, (get, get, get + post),
                                      (b'', b'\r\n', b''), strict=True):
            raw.sendall(first)
            if second:
                raw.recv(100)
                raw.sendall(second)
        # No end within 20 seconds is a TimeoutError.
        for raw in held:
            self.all_of(raw)

    def test_trailers_are_bounded(self):
        raw = self.connect()
        raw.sendall(b'POST /console/session HTTP/1.1\r\nHost: a\r\n'
                    b'Transfer-Encoding: chunked\r\n\r\n0\r\n')
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 64 * uvicorn_options.LONGEST_HEAD:
                sent += raw.send(b'a: b\r\n' * 10000)
        self.assertLess(sent, 64 * uvicorn_options.LONGEST_HEAD)

    def test_stray_bytes_do_not_end_a_slow_reply(self):
        self.useFixture(fixtures.MockPatchObject(
            uvicorn_options, 'REQUEST_SECONDS', 1.0))
        self.array.control.set_latency(2)
        raw = self.connect()
        raw.sendall(b'GET /api/v2 HTTP/1.1\r\nHost: a\r\n'
                    b'Authorization: ' + base.authorization()[
                        'Authorization'].encode() + b'\r\n\r\n')
        time.sleep(0.2)
        raw.sendall(b'\r\n')
        self.assertIn(b' 200 ', raw.recv(100))

    def test_time_begins_anew_with_each_request(self):
        self.useFixture(fixtures.MockPatchObject(
            uvicorn_options, 'REQUEST_SECONDS', 2.0))
        with k2_sim.Server(self.array) as server:
            self.url = server.url
            raw = self.connect()
            for _ in range(4):
                raw.sendall(b'GET /console/app.js HTTP/1.1\r\n')
                time.sleep(0.6)
                raw.sendall(b'Host: a\r\n\r\n')
                self.assertIn(b'HTTP/1.1 ', raw.recv(2 ** 20))

    def test_stop_breaks_what_is_open(self):
        with k2_sim.Server(self.array) as server:
            self.session.get(f'{server.url}/api/v2')
            url = server.url
        self.assertRaises(requests.exceptions.ConnectionError,
                          self.session.get, f'{url}/api/v2')


class TestTls(Conversation, Transport):

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array()
        directory = self.useFixture(fixtures.TempDir()).path
        self.certificate = tls.ensure(directory, ('sim.example',))
        self.server = contexts.enter(
            self, k2_sim.Server(self.array, self.certificate))
        self.url = self.server.url
        self.session.verify = str(self.certificate.authority_path)

    def test_names(self):
        """Valid for this machine by name and by address."""
        self.session.get(f'https://localhost:{self.server.port}/api/v2')
        context = ssl.create_default_context(
            cafile=self.certificate.authority_path)
        for name in ('sim.example', '::1', '127.0.0.1'):
            with socket.create_connection(
                    ('127.0.0.1', self.server.port)) as raw:
                context.wrap_socket(raw, server_hostname=name).close()

    def test_unknown_authority(self):
        """CON-4: it is the array's own; disabling verification helps."""
        self.session.verify = True
        self.assertRaises(requests.exceptions.SSLError, self.call,
                          'GET', '')
        self.session.verify = False
        self.assertEqual(200, self.call('GET', '').status_code)

    def test_plain_text_does_not_hurt(self):
        with socket.create_connection(
                ('127.0.0.1', self.server.port)) as raw:
            raw.sendall(b'GET / HTTP/1.1\r\n\r\n')
            with contextlib.suppress(ConnectionResetError):
                raw.recv(100)
        self.assertEqual(200, self.call('GET', '').status_code)


class TestAsgi(testtools.TestCase):
    """The application without a server."""

    def test_body_of_a_stranger_is_not_kept(self):
        """It is read to its end, so that the caller hears of the 401."""
        array = k2_sim.Array()
        self.addCleanup(array.close)
        sent, left, kept = [], [], []
        exchange = array.exchange

        def spying(*arguments, **options):
            kept.append(arguments[4])
            return exchange(*arguments, **options)

        self.useFixture(fixtures.MockPatchObject(array, 'exchange', spying))

        async def send(message):
            sent.append(message)

        async def receive():
            body = left.pop()
            return {'type': 'http.request', 'body': body,
                    'more_body': bool(left)}

        for path in ('/api/v2/volumes', '/sim/v1/restore', '/nowhere'):
            left += [bytes(2 ** 16)] * 3
            asyncio.run(k2_sim.asgi_app(array)({
                'type': 'http', 'method': 'POST', 'path': path,
                'query_string': b'', 'headers': [], 'client': None},
                receive, send))
            self.assertEqual((401, [b''], []), (
                sent.pop(0)['status'], kept, left))
            sent.clear()
            kept.clear()

    def test_a_caller_that_goes_away(self):
        """Sending stops as soon as the client disconnects."""
        asyncio.run(self._go_away())

    async def _go_away(self):
        array = k2_sim.Array()
        self.addCleanup(array.close)
        array.control.add_fault(kind='slow_loris', rate=20, times=1)
        messages = asyncio.Queue()
        messages.put_nowait({'type': 'http.request', 'body': b''})
        sent = []

        async def send(message):
            sent.append(message)
            if len(sent) == 3:
                messages.put_nowait({'type': 'http.disconnect'})

        await asyncio.wait_for(k2_sim.asgi_app(array)({
            'type': 'http', 'method': 'GET', 'path': '/api/v2/volumes',
            'query_string': b'', 'headers': [
                (name.lower().encode(), value.encode())
                for name, value in base.authorization().items()]},
            messages.get, send), 20)
        self.assertEqual(
            ['http.response.start', 'http.response.body',
             'http.response.body'], [message['type'] for message in sent])
        self.assertTrue(sent[-1]['more_body'])


class TestCommits(base.ArrayTest):
    """Requests that wait for the disk in an ASGI application."""

    def setUp(self):
        super().setUp()
        self.start_array(self.state_path)
        self.gate = threading.Event()
        write = disk.Disk.write
        self.failures = []

        def slow(this, changes):
            self.gate.wait()
            for failure in self.failures:
                raise failure
            write(this, changes)

        self.useFixture(fixtures.MockPatchObject(disk.Disk, 'write', slow))
        self.addCleanup(self.gate.set)
        self.application = k2_sim.asgi_app(self.array)

    async def status(self, name=''):
        """The status of the reply to a POST, or without a name to a GET."""
        sent = []

        async def receive():
            body = b'{"name": "%s"}' % name.encode() if name else b''
            return {'type': 'http.request', 'body': body}

        async def send(message):
            sent.append(message)

        await self.application({
            'type': 'http', 'method': 'POST' if name else 'GET',
            'path': '/api/v2/host_groups', 'query_string': b'',
            'headers': [
                (header.lower().encode(), value.encode())
                for header, value in {
                    'Content-Type': 'application/json',
                    **base.authorization()}.items()]}, receive, send)
        return sent[0]['status']

    async def statuses(self):
        """The statuses of a POST, a GET and a POST that all wait for the disk.

        One more POST, the first, is cancelled meanwhile.
        """
        tasks = [asyncio.create_task(self.status(name))
                 for name in ('a', 'b', '', 'c')]
        for _ in range(10):
            await asyncio.sleep(0)
        self.assertFalse(any(task.done() for task in tasks))
        tasks[0].cancel()
        self.gate.set()
        done, _ = await asyncio.wait(tasks, timeout=20)
        self.assertEqual(len(tasks), len(done))
        self.assertTrue(tasks.pop(0).cancelled())
        return [task.result() for task in tasks]

    def test_all_are_woken(self):
        self.assertEqual([201, 200, 201], asyncio.run(self.statuses()))
        # Another loop, as a test client may have one for each request.
        self.assertEqual(201, asyncio.run(self.status('d')))

    def test_all_hear_of_a_failure(self):
        self.failures.append(k2_sim.StateError('disk full'))
        self.assertEqual([500, 500, 500], asyncio.run(self.statuses()))
        self.assertEqual(500, asyncio.run(self.status()))


class TestUvicornH11(RealTime, Conversation, Transport):
    """For users who serve the application with another HTTP parser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = k2_sim.Array()
        cls.listener = socket.create_server(('127.0.0.1', 0))
        cls.server = uvicorn.Server(uvicorn.Config(
            k2_sim.asgi_app(cls.shared), log_level='critical',
            timeout_graceful_shutdown=1, **{
                **uvicorn_options.OPTIONS, 'http': 'h11'}))
        cls.thread = threading.Thread(
            target=cls.server.run, kwargs={'sockets': [cls.listener]})
        cls.thread.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.should_exit = True
        cls.thread.join()
        cls.listener.close()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.array = self.shared
        self.array.control.reset()
        self.url = 'http://127.0.0.1:%d' % self.listener.getsockname()[1]


class TestCertificates(base.DirectoryTest):

    def _mode(self, name):
        path = os.path.join(self.directory, name)
        return stat.S_IMODE(os.stat(path).st_mode)

    def test_keys_are_private(self):
        certificate = tls.ensure(self.directory, ())
        self.assertEqual(0o600, self._mode('ca.key'))
        self.assertEqual(0o600, self._mode('server.key'))
        self.assertRegex(certificate.fingerprint,
                         '^([0-9A-F]{2}:){31}[0-9A-F]{2}$')

    def test_kept_as_long_as_it_serves(self):
        first = tls.ensure(self.directory, ())
        authority = first.authority_path.read_bytes()
        fingerprint = first.fingerprint
        self.assertEqual(fingerprint,
                         tls.ensure(self.directory, ()).fingerprint)
        other = tls.ensure(self.directory, ('192.0.2.1',))
        self.assertNotEqual(fingerprint, other.fingerprint)
        self.assertEqual(authority, other.authority_path.read_bytes())

    def test_expired_one_is_renewed(self):
        authority = tls.make_authority(self.directory)
        old = tls.issue(
            authority, (), self.directory, days=30,
            start=datetime.datetime.now(datetime.timezone.utc)
            - datetime.timedelta(days=60))
        fingerprint = old.fingerprint
        self.assertNotEqual(fingerprint,
                            tls.ensure(self.directory, ()).fingerprint)

    def test_another_authority_means_another_certificate(self):
        fingerprint = tls.ensure(self.directory, ()).fingerprint
        tls.make_authority(self.directory)
        self.assertNotEqual(fingerprint,
                            tls.ensure(self.directory, ()).fingerprint)
