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
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time

import ddt
import fixtures
import requests
import testtools

from cinder_k2.cmd import sim
from cinder_k2.simulator import tls

_READY = re.compile(
    r'k2-sim: array (\S+) \((\w+)\) listens on (\S+?)'
    r'(?:, CA certificate (\S+))?\n')


class SimTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.state = self.directory / 'state'

    def start(self, *options, listen='127.0.0.1:0', state=None):
        """Start the service; gives process, ready line match, lines."""
        process = subprocess.Popen(
            [sys.executable, '-m', 'cinder_k2.cmd.sim', '--listen', listen,
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
        """End the service and check that it ended well."""
        process.send_signal(number)
        output, error = process.communicate(timeout=20)
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
            return session.get(f'{url}/{path}', timeout=5, auth=account,
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
            auth=('admin', self.password()), verify=authority, timeout=5)
        self.assertEqual(201, reply.status_code)
        self.stop(process)
        process, ready, again = self.start('--portal', '192.0.2.77')
        self.assertEqual('k2-x', ready[1])
        self.assertEqual(lines[2:3], again[:-1])
        self.assertEqual(1, self.get(
            ready[3], 'host_groups', verify=authority).json()['total'])
        self.stop(process, signal.SIGINT)

    def test_restore(self):
        """What one service saved another begins with."""
        process, ready, lines = self.start('--no-tls', '--name', 'k2-x')
        with requests.Session() as session:
            session.trust_env = False
            session.post(f'{ready[3]}/api/v2/host_groups',
                         json={'name': 'hg'}, timeout=5,
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
        """Nothing is answered that is not kept; the end says why."""
        process, ready, lines = self.start('--no-tls')
        log = self.state / 'state.db-wal'
        limit = log.stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        reply = requests.post(
            f'{ready[3]}/api/v2/host_groups', json={'name': 'hg'},
            auth=('admin', self.password()), timeout=5)
        self.assertEqual(500, reply.status_code)
        output, error = process.communicate(timeout=20)
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

    def test_random_seed(self):
        process, ready, _ = self.start('--no-tls', '--random-seed', '7')
        self.assertEqual({'seed': 7}, self.get(
            ready[3], 'sim/v1/chance', login='control').json())
        self.stop(process)

    def test_generated_passwords(self):
        """Each is printed once, kept for its owner alone, and needed."""
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
        """Options win over the file; the seed is there from the start."""
        secret = self.directory / 'secret'
        secret.write_text('geheim\n')
        config = self.directory / 'k2.yaml'
        config.write_text(
            'name: from-file\nprofile: k2\nsize: 5 TiB\n'
            'tls: {enabled: false}\nseed: {volumes: 3, hosts: 2}\n'
            'users:\n- {login: boss, password_file: secret}\n'
            '- {login: eve, role: read-only, password_file: secret}\n'
            'control: {login: puppeteer, password_file: secret}\n')
        process, ready, lines = self.start(
            '--config', str(config), '--profile', 'sdp', '--seed',
            'volumes=4', '--login', 'chief')
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
            timeout=5).status_code)
        self.assertEqual(200, self.get(
            ready[3], 'sim/v1', 'geheim', 'puppeteer').status_code)
        self.stop(process)

    def test_stop_does_not_wait_for_hung_requests(self):
        process, ready, _ = self.start('--no-tls', '--latency', '600')
        with socket.create_connection(
                ('127.0.0.1', int(ready[3].rpartition(':')[2]))) as raw:
            raw.sendall(b'GET /api/v2 HTTP/1.1\r\nHost: x\r\n\r\n')
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(timeout=20))


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
        """One of the two; its state outlives it."""
        other = 1 - number
        return self.start(
            *self.options, '--name', f'k2-{number}',
            '--peer', f'k2-{other}={self.hosts[other]}', '--peer-ca',
            str(self.directory / f'state{other}' / 'ca.crt'),
            listen=self.hosts[number],
            state=self.directory / f'state{number}')[0]

    def call(self, number, method, path, body=None):
        login = 'control' if path.startswith('sim/') else 'repl'
        with requests.Session() as session:
            session.trust_env = False
            reply = session.request(
                method, f'https://{self.hosts[number]}/{path}', json=body,
                auth=(login, 'geheim'), timeout=20,
                verify=self.directory / f'state{number}' / 'ca.crt')
        self.assertLess(reply.status_code, 300, reply.text)
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
        """The services look at each other once in a second."""
        deadline = time.monotonic() + 20
        while self.session(number) != wanted:
            self.assertLess(time.monotonic(), deadline,
                            self.session(number))
            time.sleep(0.1)

    def set_up(self):
        group = self.api(0, 'POST', 'volume_groups',
                         {'name': 'vg', 'quota': 0})
        self.api(0, 'POST', 'volumes', {
            'name': 'vol', 'size': 1024, 'volume_group': {
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

    def test_disaster_and_return(self):
        processes = [self.serve(number) for number in range(2)]
        self.set_up()
        self.assertEqual(('in_sync', 'target'), self.session(1))
        self.write(0, 'two')
        self.call(0, 'POST', 'sim/v1/clock', {'advance': 60})
        self.assertEqual('two', self.read(1))
        processes[0].kill()
        processes[0].communicate()
        self.patch(1, 'failed_over')
        self.write(1, 'three')
        processes[0] = self.serve(0)
        self.wait_for(0, 'suspended', 'source')
        self.patch(1, 'in_sync')
        self.wait_for(0, 'in_sync', 'target')
        self.assertEqual('three', self.read(0))
        self.call(1, 'POST', 'sim/v1/link', {'cut': True})
        self.assertEqual(('suspended', 'source'), self.session(1))
        for process in processes:
            self.stop(process)


@ddt.ddt
class TestRefusals(SimTest):

    def setUp(self):
        super().setUp()
        self.output = io.StringIO()

    def run_main(self, *options):
        """Exit status and error text of a start that does not succeed."""
        error = io.StringIO()
        arguments = ['--listen', '127.0.0.1:0', '--state-dir',
                     str(self.state), *options]
        with contextlib.redirect_stderr(error), \
                contextlib.redirect_stdout(self.output):
            try:
                status = sim.main(arguments)
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

    def test_state_of_another_profile(self):
        process, _, _ = self.start('--no-tls')
        self.refused('in use by another process')
        self.stop(process)
        self.refused('is of profile sdp, not k2', '--profile', 'k2')

    def test_saved_state_that_is_none(self):
        """Before there is a state, so nothing is left of the attempt."""
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
        self.refused('unreadable, remove it')

    def test_password_file(self):
        secret = self.directory / 'password'
        self.refused('cannot read password file', '--password-file',
                     str(secret))
        for content in (b'', b'\nx', b'\xff\xfe'):
            secret.write_bytes(content)
            self.refused(f'password file {secret} is', '--password-file',
                         str(secret))

    def test_passwords_that_everybody_tries(self):
        """Beyond the loopback they are refused, whose ever they are."""
        secret = self.directory / 'password'
        for options, text, login in (
                (('--password-file',), 'admin', 'admin'),
                (('--login', 'k2user', '--password-file'), 'K2User',
                 'k2user'),
                (('--control-password-file',), 'password', 'control')):
            secret.write_text(text)
            self.refused(
                f'the password of {login} is one that everybody tries first,'
                ' and 0.0.0.0 can be reached from other machines; give'
                ' another password, or listen on 127.0.0.1',
                '--listen', '0.0.0.0:0', *options, str(secret))

    def test_a_new_password_is_told_also_when_the_start_fails(self):
        self.state.mkdir()
        (self.state / 'state.db').write_bytes(b'x' * 5000)
        self.refused('not a database')
        self.assertIn(self.password('control'), self.output.getvalue())

    def test_accounts_that_clash(self):
        self.refused('login admin is that of the control API; give one of'
                     ' them another', '--control-login', 'admin')

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

    def test_package_missing(self):
        self.useFixture(fixtures.MonkeyPatch(
            'cinder_k2.cmd.sim._NEEDED', ('no_such_package',)))
        self.refused('install the extra "simulator"')

    @ddt.data(('--listen', 'x'), ('--listen', ':1'), ('--listen', 'x:y'),
              ('--listen', 'h:99999'), ('--profile', 'k3'),
              ('--latency', '-1'), ('--latency', 'x'),
              ('--rate-limit', 'nan'), ('--portal', 'x'),
              ('--name', ''), ('--peer', 'x'), ('--peer', '=h:1'),
              ('--peer', 'x=h'), ('--login', 'a/b'), ('--size', '5'),
              ('--seed', 'volumes'), ('--seed', 'x=1'),
              ('--seed', 'snapshots=1'), ('--seed', 'volumes=-1'),
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
            exit = self.assertRaises(SystemExit, sim.main, [])
        self.assertEqual(2, exit.code)
        self.assertIn('give a state directory with --state-dir',
                      error.getvalue())

    def test_help(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            error = self.assertRaises(SystemExit, sim.main, ['--help'])
        self.assertEqual(0, error.code)
        for word in ('--listen', '--state-dir', '--config', '/api/v2',
                     'ca.crt'):
            self.assertIn(word, output.getvalue())
