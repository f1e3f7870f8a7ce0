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
import signal
import socket
import subprocess
import sys

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

    def start(self, *options):
        """Start the service; gives process, ready line match, lines."""
        process = subprocess.Popen(
            [sys.executable, '-m', 'cinder_k2.cmd.sim', '--listen',
             '127.0.0.1:0', '--state-dir', str(self.state), *options],
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

    def get(self, url, path='volumes', password='admin', **options):
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f'{url}/api/v2/{path}', timeout=5,
                               auth=('admin', password), **options)


class TestService(SimTest):

    def test_life(self):
        """Start, TLS, a write, stop, start again, Ctrl-C."""
        process, ready, lines = self.start('--name', 'k2-x')
        name, profile, url, authority = ready.groups()
        self.assertEqual(('k2-x', 'sdp'), (name, profile))
        self.assertEqual(str(self.state / 'ca.crt'), authority)
        self.assertEqual(2, len(lines))
        certificate = tls.Certificate(self.state / 'server.crt', None, None)
        self.assertIn(certificate.fingerprint, lines[0])
        reply = requests.post(
            f'{url}/api/v2/host_groups', json={'name': 'hg'},
            auth=('admin', 'admin'), verify=authority, timeout=5)
        self.assertEqual(201, reply.status_code)
        self.stop(process)
        process, ready, again = self.start('--portal', '192.0.2.77')
        self.assertEqual('k2-x', ready[1])
        self.assertEqual(lines[0], again[0])
        self.assertEqual(1, self.get(
            ready[3], 'host_groups', verify=authority).json()['total'])
        self.stop(process, signal.SIGINT)

    def test_options(self):
        secret = self.directory / 'password'
        secret.write_text('geheim\n')
        process, ready, lines = self.start(
            '--no-tls', '--profile', 'k2', '--password-file', str(secret),
            '--portal', '192.0.2.77', '--rate-limit', '0.001')
        url = ready[3]
        self.assertEqual((1, None, 'k2'), (len(lines), ready[4], ready[2]))
        self.assertTrue(url.startswith('http://127.0.0.1:'))
        self.assertEqual(401, self.get(url).status_code)
        hits = self.get(url, 'system/net_ips', 'geheim').json()['hits']
        self.assertEqual('192.0.2.77', hits[0]['ip_address'])
        statuses = {self.get(url, '', 'geheim').status_code
                    for _ in range(52)}
        self.assertEqual({200, 429}, statuses)
        self.assertFalse((self.state / 'ca.crt').exists())
        self.stop(process)

    def test_stop_does_not_wait_for_hung_requests(self):
        process, ready, _ = self.start('--no-tls', '--latency', '600')
        with socket.create_connection(
                ('127.0.0.1', int(ready[3].rpartition(':')[2]))) as raw:
            raw.sendall(b'GET /api/v2 HTTP/1.1\r\nHost: x\r\n\r\n')
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(timeout=20))


@ddt.ddt
class TestRefusals(SimTest):

    def run_main(self, *options):
        """Exit status and error text of a start that does not succeed."""
        error = io.StringIO()
        arguments = ['--listen', '127.0.0.1:0', '--state-dir',
                     str(self.state), *options]
        with contextlib.redirect_stderr(error):
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

    def test_package_missing(self):
        self.useFixture(fixtures.MonkeyPatch(
            'cinder_k2.cmd.sim._NEEDED', ('no_such_package',)))
        self.refused('install the extra "simulator"')

    @ddt.data(('--listen', 'x'), ('--listen', ':1'), ('--listen', 'x:y'),
              ('--listen', 'h:99999'), ('--profile', 'k3'),
              ('--latency', '-1'), ('--latency', 'x'),
              ('--rate-limit', 'nan'), ('--portal', 'x'),
              ('--name', ''), ('--nothing',))
    def test_arguments_without_sense(self, options):
        """Exit status 2 and the usage, as for any command."""
        status, error = self.run_main(*options)
        self.assertEqual(2, status)
        self.assertIn(f'argument {options[0]}' if len(options) > 1
                      else 'unrecognized arguments', error)

    def test_help(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            error = self.assertRaises(SystemExit, sim.main, ['--help'])
        self.assertEqual(0, error.code)
        for word in ('--listen', '--state-dir', '/api/v2', 'ca.crt'):
            self.assertIn(word, output.getvalue())
