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

"""k2-sim as a user starts it: ready line, refusals, restart, stop."""

import contextlib
import io
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import ddt
import fixtures
import requests

import k2_sim
from k2_sim.adapters import server
from k2_sim.adapters import tls
from k2_sim.cmd import serve
from tests import base

_READY = re.compile(
    r'k2-sim: array (\S+) \((\w+)\) listens on (\S+?)'
    r'(?:, CA certificate (\S+))?\n')
# More than one message between arrays can carry.
_PLENTY = bytes(range(256)) * 2 ** 12 * 9


class SimTest(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        self.state = self.directory / 'state'

    def start(self, *options, listen='127.0.0.1:0', state=None,
              program=('-m', 'k2_sim.cmd.main')):
        """Start the service; returns process, ready line match, lines."""
        process = subprocess.Popen(
            [sys.executable, *program, '--listen', listen,
             '--state-dir', str(state or self.state), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ})
        self.addCleanup(self._end, process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            ready = _READY.fullmatch(line)
            if ready:
                return process, ready, lines
        self.fail(process.stderr.read())

    def _end(self, process):
        process.kill()
        process.communicate()

    def stop(self, process, number=signal.SIGTERM):
        """End the service and check that it exited cleanly."""
        process.send_signal(number)
        output, error = process.communicate(timeout=60)
        self.assertEqual((0, '', ''), (process.returncode, output, error))

    def password(self, login='admin'):
        """The password that the service generated for an account."""
        return (self.state / f'{login}.password').read_text().rstrip('\n')

    def get(self, url, path='volumes', password='', login='admin',
            **options):
        account = login, password or self.password(login)
        if not path.startswith('sim/'):
            path = f'api/v2/{path}'
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f'{url}/{path}', timeout=60, auth=account,
                               **options)


class TestService(SimTest):

    def test_life(self):
        """Start, TLS, a write, stop, start again, Ctrl-C."""
        process, ready, lines = self.start('--name', 'k2-x')
        name, profile, url, authority = ready.groups()
        self.assertEqual(('k2-x', 'sdp'), (name, profile))
        self.assertEqual(str(self.state / 'ca.crt'), authority)
        self.assertEqual(4, len(lines))
        certificate = tls.Certificate(self.state / 'server.crt', None, None)
        self.assertIn(certificate.fingerprint, lines[2])
        reply = requests.post(
            f'{url}/api/v2/host_groups', json={'name': 'hg'},
            auth=('admin', self.password()), verify=authority, timeout=60)
        self.assertEqual(201, reply.status_code)
        self.stop(process)
        process, ready, again = self.start('--portal', '192.0.2.77')
        self.assertEqual('k2-x', ready[1])
        self.assertEqual(lines[2:3], again[:-1])
        self.assertEqual(1, self.get(
            ready[3], 'host_groups', verify=authority).json()['total'])
        self.stop(process, signal.SIGINT)

    def test_limit_of_open_files(self):
        """As many connections as the system allows."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE,
                        resource.getrlimit(resource.RLIMIT_NOFILE))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        process, _, _ = self.start('--no-tls')
        soft, _ = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(min(hard, 2 ** 20), soft)

    def test_restore(self):
        """One service starts with what another one saved."""
        process, ready, lines = self.start('--no-tls', '--name', 'k2-x')
        with requests.Session() as session:
            session.trust_env = False
            session.post(f'{ready[3]}/api/v2/host_groups',
                         json={'name': 'hg'}, timeout=60,
                         auth=('admin', self.password()))
        saved = self.get(ready[3], 'sim/v1/save', login='control')
        self.stop(process)
        path = self.directory / 'saved.json'
        path.write_bytes(saved.content)
        self.state = self.directory / 'other'
        process, ready, lines = self.start(
            '--no-tls', '--restore', str(path))
        self.assertEqual('k2-x', ready[1])
        self.assertEqual(1, self.get(
            ready[3], 'host_groups').json()['total'])
        self.stop(process)

    def test_full_disk(self):
        """Only stored writes are confirmed; the exit message says why."""
        process, ready, lines = self.start('--no-tls')
        log = self.state / 'state.db-wal'
        limit = log.stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        reply = requests.post(
            f'{ready[3]}/api/v2/host_groups', json={'name': 'hg'},
            auth=('admin', self.password()), timeout=60)
        self.assertEqual(500, reply.status_code)
        output, error = process.communicate(timeout=60)
        self.assertEqual(1, process.returncode)
        self.assertEqual(
            f'k2-sim: error: {reply.json()["error_msg"]}\n', error)
        self.assertIn('cannot write state', error)
        process, ready, lines = self.start('--no-tls')
        self.assertEqual(0, self.get(
            ready[3], 'host_groups').json()['total'])
        self.stop(process)

    def test_options(self):
        secret = self.directory / 'password'
        secret.write_text('geheim\n')
        process, ready, lines = self.start(
            '--no-tls', '--profile', 'k2', '--password-file', str(secret),
            '--portal', '192.0.2.77', '--rate-limit', '0.001')
        url = ready[3]
        self.assertEqual((2, None, 'k2'), (len(lines), ready[4], ready[2]))
        self.assertTrue(url.startswith('http://127.0.0.1:'))
        self.assertEqual(401, self.get(url, password='x').status_code)
        hits = self.get(url, 'system/net_ips', 'geheim').json()['hits']
        self.assertEqual('192.0.2.77', hits[0]['ip_address'])
        statuses = {self.get(url, '', 'geheim').status_code
                    for _ in range(52)}
        self.assertEqual({200, 429}, statuses)
        self.assertFalse((self.state / 'ca.crt').exists())
        self.stop(process)

    def test_no_websockets(self):
        """An upgrade request gets the reply to a normal request."""
        _, ready, _ = self.start('--no-tls')
        self.assertEqual(0, self.get(ready[3], 'hosts', headers={
            'Connection': 'Upgrade', 'Upgrade': 'websocket',
            'Sec-WebSocket-Version': '13',
            'Sec-WebSocket-Key': 'AA=='}).json()['total'])

    def test_latency(self):
        process, ready, _ = self.start('--no-tls', '--latency', '0.05')
        self.assertEqual({'kind': 'constant', 'ms': 50.0}, self.get(
            ready[3], 'sim/v1/latency', login='control').json())
        self.stop(process)

    def test_a_certificate_that_ends(self):
        """It is renewed, and the user is notified."""
        self.state.mkdir()
        tls.issue(tls.make_authority(self.state), (), self.state, days=10)
        old = tls.Certificate(
            self.state / 'server.crt', None, None).fingerprint
        process, ready, lines = self.start()
        self.assertRegex(lines[2], r'\Ak2-sim: server.crt renewed, the old'
                         r' one ends on \d{4}-\d\d-\d\d\n\Z')
        self.assertNotIn(old, lines[3])
        self.assertEqual(200, self.get(ready[3], verify=ready[4]).status_code)
        self.stop(process)

    def test_nobody_reads_what_it_says(self):
        """As with k2-sim ... | head -1."""
        reader, writer = os.pipe()
        os.close(reader)
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, '-m', 'k2_sim.cmd.serve', '--no-tls',
             '--listen', f'127.0.0.1:{port}', '--state-dir',
             str(self.state)], stdout=writer, stderr=subprocess.PIPE,
            text=True, env={**os.environ})
        os.close(writer)
        self.addCleanup(self._end, process)
        deadline = time.monotonic() + 60
        while True:
            try:
                reply = self.get(f'http://127.0.0.1:{port}')
                break
            except (OSError, requests.ConnectionError):
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        self.assertEqual(200, reply.status_code)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        self.assertEqual((0, ''), (process.returncode, error))

    def test_random_seed(self):
        process, ready, _ = self.start('--no-tls', '--random-seed', '7')
        self.assertEqual({'seed': 7}, self.get(
            ready[3], 'sim/v1/chance', login='control').json())
        self.stop(process)

    def test_generated_passwords(self):
        """Each is printed once, stored for its owner only, and required."""
        process, ready, lines = self.start('--no-tls')
        for line, login in zip(lines, ('admin', 'control')):
            self.assertEqual(
                f'k2-sim: password of {login}: {self.password(login)}'
                f' (kept in {self.state}/{login}.password)\n', line)
            mode = (self.state / f'{login}.password').stat().st_mode
            self.assertEqual(0o600, mode & 0o777)
        self.assertNotEqual(self.password(), self.password('control'))
        for path, login, status in (
                ('volumes', 'admin', 200), ('volumes', 'control', 401),
                ('sim/v1', 'control', 200), ('sim/v1', 'admin', 401)):
            self.assertEqual(status, self.get(
                ready[3], path, login=login).status_code)
        self.stop(process)
        process, ready, lines = self.start('--no-tls')
        self.assertEqual(1, len(lines))
        self.assertEqual(200, self.get(ready[3]).status_code)
        self.stop(process)

    def test_file_and_options(self):
        """Options override the file; the seed is there from the start.

        --switch is the deprecated name of --behavior.
        """
        secret = self.directory / 'secret'
        secret.write_text('geheim\n')
        config = self.directory / 'k2.yaml'
        config.write_text(
            'name: from-file\nprofile: k2\nsize: 5 TiB\n'
            'tls: {enabled: false}\nseed: {volumes: 3, hosts: 2}\n'
            'users:\n- {login: boss, password_file: secret}\n'
            '- {login: eve, role: read-only, password_file: secret}\n'
            'behaviors: {page_size: 2, snapshot_patch: false}\n'
            'faults:\n- {kind: latency, latency: {kind: constant, ms: 0}}\n'
            'control: {login: puppeteer, password_file: secret}\n')
        process, ready, lines = self.start(
            '--config', str(config), '--profile', 'sdp', '--seed',
            'volumes=4', '--login', 'chief', '--behavior', 'page_size=3',
            '--switch', 'create_reply=empty')
        self.assertEqual(1, len(lines))
        self.assertEqual(('from-file', 'sdp'), ready.groups()[:2])
        for path, login, total in (('volumes', 'chief', 5),
                                   ('hosts', 'eve', 2)):
            self.assertEqual(total, self.get(
                ready[3], path, 'geheim', login).json()['total'])
        self.assertEqual(5 * 2 ** 30, self.get(
            ready[3], 'system/capacity/1', 'geheim', 'eve').json()['total'])
        self.assertEqual(403, requests.delete(
            f'{ready[3]}/api/v2/volumes/31', auth=('eve', 'geheim'),
            timeout=60).status_code)
        behaviors, faults = (requests.get(
            f'{ready[3]}/sim/v1/{name}', auth=('puppeteer', 'geheim'),
            timeout=60).json() for name in ('behaviors', 'faults'))
        self.assertEqual((3, False, 'empty'), (
            behaviors['page_size'], behaviors['snapshot_patch'],
            behaviors['create_reply']))
        self.assertEqual(['latency'],
                         [rule['kind'] for rule in faults['hits']])
        self.stop(process)

    def test_through_the_cloud_manager(self):
        """CON-3: the token is printed once, like a password."""
        config = self.directory / 'k2.yaml'
        config.write_text('tls: {enabled: false}\nflex: {sdp: sdp-7}\n')
        process, ready, lines = self.start('--config', str(config))
        self.assertIn(f'password of flex: {self.password("flex")} ',
                      lines[2])
        reply = requests.get(
            f'{ready[3]}/rest/sdps/sdp-7/api/v2/volumes', timeout=60,
            headers={'Authorization': f'Bearer {self.password("flex")}'})
        self.assertEqual(1, reply.json()['total'])
        self.stop(process)

    def test_stop_does_not_wait_for_hung_requests(self):
        process, ready, _ = self.start('--no-tls', '--latency', '600')
        with socket.create_connection(
                ('127.0.0.1', int(ready[3].rpartition(':')[2]))) as raw:
            raw.sendall(b'GET /api/v2 HTTP/1.1\r\nHost: x\r\n\r\n')
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(timeout=60))


class TestReplication(SimTest):
    """Two services that replicate over TLS on the local machine."""

    def setUp(self):
        super().setUp()
        with contextlib.ExitStack() as stack:
            self.hosts = ['127.0.0.1:%d' % stack.enter_context(
                socket.create_server(('127.0.0.1', 0))).getsockname()[1]
                for _ in range(2)]
        secret = self.directory / 'password'
        secret.write_text('geheim\n')
        self.options = ('--login', 'repl', '--password-file', str(secret),
                        '--peer-login', 'repl',
                        '--control-password-file', str(secret))

    def serve(self, number):
        """Start one of the two; its state outlives it."""
        other = 1 - number
        return self.start(
            *self.options, '--name', f'k2-{number}',
            '--peer', f'k2-{other}={self.hosts[other]}', '--peer-ca',
            str(self.directory / f'state{other}' / 'ca.crt'),
            listen=self.hosts[number],
            state=self.directory / f'state{number}')[0]

    def call(self, number, method, path, body=None, **headers):
        login = 'control' if path.startswith('sim/') else 'repl'
        kind = 'data' if isinstance(body, bytes) else 'json'
        with requests.Session() as session:
            session.trust_env = False
            reply = session.request(
                method, f'https://{self.hosts[number]}/{path}',
                auth=(login, 'geheim'), timeout=60, headers=headers,
                verify=self.directory / f'state{number}' / 'ca.crt',
                **{kind: body})
        self.assertLess(reply.status_code, 300, reply.text)
        if reply.headers.get('Content-Type') == 'application/octet-stream':
            return reply.content
        return reply.json() if reply.content else None

    def api(self, number, method, path, body=None):
        return self.call(number, method, f'api/v2/{path}', body)

    def patch(self, number, state):
        self.api(number, 'PATCH', 'replication/sessions/9',
                 {'state': state})

    def session(self, number):
        row = self.api(number, 'GET', 'replication/sessions/9')
        return row['state'], row['current_role']

    def wait_for(self, number, *wanted):
        self.poll(lambda: self.session(number), wanted)

    def poll(self, look, wanted):
        """The services poll each other once a second."""
        deadline = time.monotonic() + 60
        while look() != wanted:
            self.assertLess(time.monotonic(), deadline, look())
            time.sleep(0.1)

    def connectivity(self):
        """Whether the first service has connected to the second."""
        return self.api(0, 'GET', 'replication/peer_k2arrays/1')[
            'mgmt_connectivity_state']

    def set_up(self):
        self.poll(self.connectivity, 'ok')
        group = self.api(0, 'POST', 'volume_groups',
                         {'name': 'vg', 'quota': 0})
        self.api(0, 'POST', 'volumes', {
            'name': 'vol', 'size': 4 + len(_PLENTY) // 1024,
            'volume_group': {
                'ref': f'/volume_groups/{group["id"]}'}})
        self.api(0, 'POST', 'replication/sessions', {
            'name': 's', 'rpo': 60, 'local_volume_group': {
                'ref': f'/volume_groups/{group["id"]}'},
            'replication_peer_k2array': {
                'ref': '/replication/peer_k2arrays/1'}})
        self.write(0, 'one')
        self.patch(0, 'in_sync')

    def write(self, number, token):
        self.call(number, 'POST', 'sim/v1/contents',
                  {'volume': 31, 'token': token})

    def read(self, number):
        return self.call(number, 'GET', 'sim/v1/contents')['31']

    def data(self, method, number, body=None, **headers):
        """What the volume holds behind its first KiB."""
        return self.call(number, method, 'sim/v1/data/volumes/31', body,
                         **headers)

    def test_disaster_and_return(self):
        processes = [self.serve(number) for number in range(2)]
        self.set_up()
        self.assertEqual(('in_sync', 'target'), self.session(1))
        self.write(0, 'two')
        self.data('PUT', 0, _PLENTY, **{
            'Content-Range': f'bytes 4096-{4095 + len(_PLENTY)}/*'})
        self.call(0, 'POST', 'sim/v1/clock', {'advance': 60})
        self.assertEqual('two', self.read(1))
        self.assertEqual(_PLENTY, self.data('GET', 1, Range='bytes=4096-'))
        processes[0].kill()
        processes[0].communicate()
        self.patch(1, 'failed_over')
        self.write(1, 'three')
        processes[0] = self.serve(0)
        self.wait_for(0, 'suspended', 'source')
        self.patch(1, 'in_sync')
        self.wait_for(0, 'in_sync', 'target')
        # The data is sent at the source's next poll.
        self.call(1, 'POST', 'sim/v1/clock', {'advance': 0})
        self.assertEqual('three', self.read(0))
        self.call(1, 'POST', 'sim/v1/link', {'cut': True})
        self.assertEqual(('suspended', 'source'), self.session(1))
        for process in processes:
            self.stop(process)


# Replaces the server: prints whether the cyclic GC ignores the rows.
_FROZEN = ('-c', 'import gc, sys; from k2_sim.adapters import server;'
           ' from k2_sim.cmd import serve; server.Server.run = lambda *_:'
           ' print(gc.get_freeze_count() > 1000); sys.exit(serve.main())')


class TestGarbage(SimTest):

    def test_what_was_loaded_is_left_alone(self):
        done = subprocess.run(
            [sys.executable, *_FROZEN, '--no-tls', '--listen', '127.0.0.1:0',
             '--state-dir', str(self.state)], capture_output=True, text=True,
            timeout=60)
        self.assertEqual((0, 'True'), (
            done.returncode, done.stdout.splitlines()[-1]), done.stderr)


# A user who is not root; on many machines tests run as root.
_AS_USER = ('-c', 'import os, sys; os.geteuid = lambda: 1000;'
            ' from k2_sim.cmd import serve; sys.exit(serve.main())')


@ddt.ddt
class TestDataPlane(SimTest):
    """Without root or tgt; with both see tests/e2e."""

    @ddt.data('tgt', 'lio')
    def test_api_alone(self, data_plane):
        process, ready, _ = self.start(
            '--no-tls', '--data-plane', data_plane, program=_AS_USER)
        self.assertEqual(1, self.get(ready[3]).json()['total'])
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        self.assertEqual(0, process.returncode)
        self.assertRegex(error, r'\Ak2-sim: no data plane, only the API is'
                         r' served: [^\n]+(tgt|as root)[^\n]+\n\Z')

    def test_switch_of_the_data_plane(self):
        """Without it, each host has its own LUNs."""
        _, ready, _ = self.start(
            '--no-tls', '--data-plane', 'tgt', program=_AS_USER)
        behaviors = self.get(ready[3], 'sim/v1/behaviors', login='control')
        self.assertIs(False, behaviors.json()['one_lun_map'])


@ddt.ddt
class TestRefusals(SimTest):

    def setUp(self):
        super().setUp()
        self.output = io.StringIO()
        self.useFixture(fixtures.MockPatchObject(
            server.Server, 'run',
            side_effect=AssertionError('it has started')))

    def run_main(self, *options):
        """Exit status and error text of a start that fails."""
        error = io.StringIO()
        arguments = ['--listen', '127.0.0.1:0', '--state-dir',
                     str(self.state), *options]
        with contextlib.redirect_stderr(error), \
                contextlib.redirect_stdout(self.output):
            try:
                status = serve.main(arguments)
            except SystemExit as exc:
                status = exc.code
        return status, error.getvalue()

    def refused(self, text, *options):
        """One clear line, exit status 1."""
        status, error = self.run_main(*options)
        self.assertEqual(1, status)
        self.assertRegex(error, r'\Ak2-sim: error: [^\n]+\n\Z')
        self.assertIn(text, error)

    def test_port_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
            self.refused(
                f'cannot listen on 127.0.0.1 port {port}: Address already'
                ' in use; choose another with --listen',
                '--listen', f'127.0.0.1:{port}')

    @ddt.data(('tgt', 'tgt'), ('lio', 'root'))
    @ddt.unpack
    def test_data_plane_required(self, data_plane, text):
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        self.refused(text, '--data-plane', data_plane, '--require-data-plane')

    def test_unknown_host(self):
        self.refused('cannot listen on 203.0.113.1 port 1',
                     '--listen', '203.0.113.1:1')

    def test_state_directory(self):
        self.state.write_text('a file')
        self.refused('cannot make state directory')
        self.refused('cannot make state directory', '--state-dir',
                     str(self.state / 'below'))

    def test_unreadable_state(self):
        self.state.mkdir()
        (self.state / 'state.db').write_bytes(b'x' * 5000)
        self.refused('not a database')

    def test_state_that_was_emptied(self):
        """An array has been there: it is not replaced by a new one."""
        process, _, _ = self.start('--no-tls')
        self.stop(process)
        state = self.state / 'state.db'
        text = (f'state {state} is empty, but an array has been in'
                f' {self.state}: restore it from a copy, or remove the'
                ' whole directory to begin with a new array')
        state.write_bytes(b'')
        self.refused(text)
        self.assertEqual(0, state.stat().st_size)
        with contextlib.closing(sqlite3.connect(state)) as database:
            database.execute('CREATE TABLE objects (id)')
        self.refused(text)
        # As a first start that was killed leaves it.
        (self.state / 'state.made').unlink()
        state.write_bytes(b'')
        self.stop(self.start('--no-tls')[0])

    def test_state_of_another_profile(self):
        process, _, _ = self.start('--no-tls')
        self.refused('in use by another process')
        self.stop(process)
        self.refused('is of profile sdp, not k2', '--profile', 'k2')

    def test_saved_state_that_is_none(self):
        """No state was loaded yet, so nothing remains of the attempt."""
        saved = self.directory / 'saved.json'
        self.refused(f'cannot restore {saved}: No such file',
                     '--restore', str(saved))
        saved.write_text('{"format": "other"}')
        self.refused(f'cannot restore {saved}: not a saved state',
                     '--restore', str(saved))
        self.assertFalse((self.state / 'state.db').exists())

    def test_certificate_that_is_none(self):
        self.state.mkdir()
        for name in ('ca.crt', 'ca.key', 'server.crt', 'server.key'):
            (self.state / name).write_text('x')
        self.refused('ca.crt is unreadable, remove it')

    def test_an_authority_without_its_key(self):
        self.state.mkdir()
        tls.make_authority(self.state)
        (self.state / 'ca.key').unlink()
        self.refused(f'cannot use the certificates in {self.state}: ca.key is'
                     ' missing; put it there, or remove ca.crt')

    def test_password_file(self):
        secret = self.directory / 'password'
        self.refused('cannot read password file', '--password-file',
                     str(secret))
        for content in (b'', b'\nx', b'\xff\xfe'):
            secret.write_bytes(content)
            self.refused(f'password file {secret} is', '--password-file',
                         str(secret))

    def test_passwords_that_everybody_tries(self):
        """Beyond the loopback they are refused, for every account."""
        secret = self.directory / 'password'
        for options, text, login, flaw in (
                (('--password-file',), 'admin', 'admin',
                 'has fewer than 8 characters'),
                (('--login', 'operations', '--password-file'), 'Operations1',
                 'operations', 'is one that everybody tries first'),
                (('--control-password-file',), 'password', 'control',
                 'is one that everybody tries first')):
            secret.write_text(text)
            self.refused(
                f'the password of {login} {flaw}, and 0.0.0.0 can be reached'
                ' from other machines; give another password, or listen on'
                ' 127.0.0.1', '--listen', '0.0.0.0:0', *options, str(secret))

    def test_a_new_password_is_told_also_when_the_start_fails(self):
        self.state.mkdir()
        (self.state / 'state.db').write_bytes(b'x' * 5000)
        self.refused('not a database')
        self.assertIn(self.password('control'), self.output.getvalue())

    def test_accounts_that_clash(self):
        self.refused('login admin is that of the control API; give one of'
                     ' them another', '--control-login', 'admin')

    def test_logins_of_two_users(self):
        config = self.directory / 'k2.yaml'
        config.write_text('users: [{login: admin}, {login: cinder}]\n')
        self.refused('login cinder is that of two users; give one of them'
                     ' another', '--config', str(config), '--login', 'cinder')

    def test_a_new_state_that_is_refused(self):
        """By the same rules as requests; nothing of it remains."""
        self.useFixture(fixtures.MockPatch(
            'k2_sim.initial.seeding.create',
            side_effect=k2_sim.ApiError(400, 'No space is left')))
        self.refused('cannot make the new state: No space is left')

    def test_interrupted(self):
        """Ctrl-C while a large new state is being created."""
        self.useFixture(fixtures.MockPatch(
            'k2_sim.initial.seeding.create',
            side_effect=KeyboardInterrupt))
        self.assertEqual((130, ''), self.run_main())

    def test_an_address_that_is_there_twice(self):
        for options, address in (
                (('--portal', '192.0.2.77', '--portal', '192.0.2.77'),
                 '192.0.2.77'),
                (('--portal', '198.51.100.11'), '198.51.100.11'),
                (('--portal', '2001:db8::1', '--portal', '2001:DB8:0::1'),
                 '2001:db8::1')):
            status, error = self.run_main(*options)
            self.assertEqual(2, status)
            self.assertIn(f'error: address {address} is given twice; of all',
                          error)
        self.assertFalse(self.state.exists())

    def test_peer_without_password(self):
        self.refused('no password for other on the peers; give it with'
                     ' --peer-password-file', '--no-tls', '--peer',
                     'x=127.0.0.1:1', '--peer-login', 'other')

    def test_password_file_that_cannot_be_made(self):
        (self.state / 'admin.password').mkdir(parents=True)
        self.refused('cannot read password file')

    def test_file(self):
        config = self.directory / 'k2.yaml'
        self.refused(f'cannot read {config}: No such file or directory',
                     '--config', str(config))
        config.write_text('colour: red\n')
        self.refused(f'{config}: colour: unknown; allowed are state_dir,',
                     '--config', str(config))

    @ddt.data(('--listen', 'x'), ('--listen', ':1'), ('--listen', 'x:y'),
              ('--listen', 'h:99999'), ('--profile', 'k3'),
              ('--latency', '-1'), ('--latency', 'x'),
              ('--rate-limit', 'nan'), ('--portal', 'x'), ('--fc-port', 'x'),
              ('--fc-port', '50:02:4f:00:00:01:00:0a',
               '--fc-port', '50:02:4F:00:00:01:00:0A'),
              ('--name', ''), ('--peer', 'x'), ('--peer', '=h:1'),
              ('--peer', 'x=h'), ('--login', 'a/b'), ('--size', '5'),
              ('--listen', 'k\u00e4se.example:1'),
              ('--listen', f'{64 * "a"}:1'),
              ('--tls-name', 'k\u00e4se.example'), ('--tls-name', ''),
              ('--state-dir', '~nosuchuser/k2'), ('--state-dir', ''),
              ('--config', '~nosuchuser/k2.yaml'), ('--name', 'a\nb'),
              ('--seed', 'volumes=100001'), ('--seed', 'volumes=9999999'),
              ('--seed', 'volumes=1', '--seed', 'volumes=2'),
              ('--behavior', 'page_size=1', '--behavior', 'page_size=2'),
              ('--peer', 'a=h:1', '--peer', 'a=h:2'),
              ('--seed', 'volumes'), ('--seed', 'x=1'),
              ('--seed', 'snapshots=1'), ('--seed', 'volumes=-1'),
              ('--behavior', 'page_size'), ('--behavior', 'page_size=x'),
              ('--behavior', 'nothing=1'), ('--behavior', 'rate_limit=1'),
              ('--nothing',))
    def test_arguments_without_sense(self, options):
        """Exit status 2 and the usage, as for any command."""
        status, error = self.run_main(*options)
        self.assertEqual(2, status)
        self.assertIn(f'argument {options[0]}' if len(options) > 1
                      else 'unrecognized arguments', error)

    def test_no_state_directory(self):
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            exit = self.assertRaises(SystemExit, serve.main, [])
        self.assertEqual(2, exit.code)
        self.assertIn('give a state directory with --state-dir',
                      error.getvalue())

    def test_version(self):
        status, error = self.run_main('--version')
        self.assertEqual((0, ''), (status, error))
        self.assertRegex(self.output.getvalue(), r'\Ak2-sim \S+\n\Z')

    def test_help(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            error = self.assertRaises(SystemExit, serve.main, ['--help'])
        self.assertEqual(0, error.code)
        for word in ('--listen', '--state-dir', '--config', '/api/v2',
                     'ca.crt'):
            self.assertIn(word, output.getvalue())
