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

"""k2-sim-ctl against an array over HTTPS."""

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import textwrap

import ddt
import fixtures

import k2_sim
from k2_sim.cmd import ctl
from k2_sim.state import disk
from tests import base
from tests import contexts

JSON = base.JSON


@ddt.ddt
class TestCommand(base.ServedTest):

    @classmethod
    def make_array(cls, place):
        return k2_sim.Array(
            clock=k2_sim.FakeClock(),
            contents=k2_sim.Contents(f'{place}/content'),
            control_user=k2_sim.User('control', 'admin'))

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable(
            'K2_SIM_PASSWORD', 'admin'))

    def replay(self, *words, **expected):
        """With the account of the array, since a replay uses its API."""
        return self.run_it('recorder', 'replay', *words, **expected, options=(
            '--url', self.url, '--ca', self.authority, '--login', 'admin'))

    def run_it(self, *words, expected=0, options=None):
        """Run it and check the exit status; returns output and errors."""
        output, errors = io.StringIO(), io.StringIO()
        if options is None:
            options = ('--url', self.url, '--ca', self.authority)
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            try:
                status = ctl.main([*options, *words])
            except SystemExit as exc:
                status = exc.code
        self.assertEqual(expected, status, errors.getvalue())
        return output.getvalue(), errors.getvalue()

    def json(self, *words):
        return json.loads(self.run_it(*words)[0])

    def quiet(self, *words):
        self.assertEqual(('', ''), self.run_it(*words))

    def complaint(self, *words, expected=1, options=None):
        output, errors = self.run_it(*words, expected=expected,
                                     options=options)
        self.assertEqual('', output)
        return errors

    def call(self, method='GET', path='volumes', body=b''):
        return self.array.handle(
            method, f'/api/v2/{path}', '',
            {**base.authorization(), 'Content-Type': JSON}, body)

    def test_faults(self):
        added = self.json(
            'faults', 'add', 'status', 'status=502', 'method=GET',
            'where.name=cv-*', 'where.id=31', 'probability=0.5', 'times=2')
        self.assertEqual(
            (1, 'status', 502, {'name': 'cv-*', 'id': '31'}, 0.5, 2),
            tuple(added[name] for name in (
                'id', 'kind', 'status', 'where', 'probability', 'times')))
        changed = self.json('faults', 'change', '1', 'times=null',
                            'where={}', 'probability=1')
        self.assertEqual((None, {}), (changed['times'], changed['where']))
        self.assertEqual(502, self.call().status)
        listed, = self.json('faults', 'list')['hits']
        self.assertEqual(1, listed['triggered'])
        self.json('faults', 'add', 'busy')
        self.json('faults', 'add', 'latency', 'latency.kind=pareto',
                  'latency.minimum=2', 'latency.shape=1.5')
        self.quiet('faults', 'remove', '1', '2')
        self.assertEqual('latency', self.control.faults()[0]['kind'])
        self.quiet('faults', 'clear')
        self.assertEqual([], self.control.faults())

    def test_latency(self):
        self.json('latency', 'set', 'ms=5')
        self.assertEqual({'kind': 'constant', 'ms': 5.0},
                         self.json('latency', 'show'))
        shown = self.json('latency', 'set', 'kind=lognormal', 'median=2',
                          'sigma=1', 'longest=9')
        self.assertEqual(shown, self.control.latency.shown())

    def test_seed_behaviors_clock(self):
        self.assertEqual({'seed': 7}, self.json('chance', 'set', '7'))
        self.assertEqual({'seed': 7}, self.json('chance', 'show'))
        self.json('behaviors', 'set', 'full=true', 'state=OFFLINE',
                  'bulk=["snapshots"]')
        shown = self.json('behaviors', 'show')
        # The deprecated name.
        self.assertEqual(shown, self.json('switches', 'show'))
        self.assertEqual((True, 'OFFLINE', ['snapshots']), (
            shown['full'], shown['state'], shown['bulk']))
        before = self.array.clock.time()
        self.quiet('clock', 'advance', '3600')
        self.assertEqual(3600, self.array.clock.time() - before)

    def test_more_objects(self):
        self.quiet('state', 'seed', 'hosts=2')
        self.assertEqual(2, len(self.control.leftovers()['hosts']))
        self.assertIn('one of volumes', self.complaint(
            'state', 'seed', 'things=2'))

    def test_ports_and_link(self):
        self.json('ports', 'down', '/system/fc_ports/2')
        down = [hit['port'] for hit in self.json('ports', 'list')['hits']
                if not hit['up']]
        self.assertEqual(['/system/fc_ports/2'], down)
        self.json('ports', 'up', '/system/fc_ports/2')
        self.assertTrue(all(hit['up'] for hit in self.control.ports()))
        for verb, cut in (('cut', True), ('show', True), ('restore', False),
                          ('cut', True), ('mend', False)):
            self.assertEqual({'cut': cut}, self.json('link', verb))

    def test_data(self):
        """In several requests if there is much data."""
        self.call('POST', 'volume_groups', b'{"name": "a", "quota": 0}')
        self.call('POST', 'volumes', json.dumps({
            'name': 'v', 'size': 20 * 1024, 'volume_group':
            {'ref': '/volume_groups/14'}}).encode())
        source, copy = (self.directory / name for name in ('in', 'out'))
        data = bytes(range(256)) * 2 ** 12 * 9
        source.write_bytes(data)
        self.quiet('data', 'write', 'volumes/31', str(source),
                   '--offset', '5')
        self.quiet('data', 'read', 'volumes/31', str(copy))
        self.assertEqual(
            b'\0' * 5 + data + bytes(20 * 2 ** 20 - 5 - len(data)),
            copy.read_bytes())
        self.quiet('data', 'discard', 'volumes/31', '--offset', '10',
                   '--length', '100')
        self.quiet('data', 'read', 'volumes/31', str(copy),
                   '--offset', '9', '--length', '102')
        self.assertEqual(data[4:5] + bytes(100) + data[105:106],
                         copy.read_bytes())
        self.quiet('data', 'discard', 'volumes/31')
        self.assertEqual(b'', self.array.control.data.read(
            'volumes', 31, 0, 2 ** 24).strip(b'\0'))

    def test_data_that_is_refused(self):
        """The previous contents of the file stay."""
        copy = self.directory / 'copy'
        copy.write_text('kept')
        self.assertIn('No such object', self.complaint(
            'data', 'read', 'volumes/31', str(copy)))
        self.assertEqual('kept', copy.read_text())
        self.quiet('state', 'seed', 'volumes=1')
        for verb in ('write', 'read'):
            self.assertIn('cannot use', self.complaint(
                'data', verb, 'volumes/31', str(self.directory)))

    def test_journal_state_contents(self):
        self.call()
        self.assertEqual(1, self.json('journal', 'show')['total'])
        self.quiet('journal', 'clear')
        self.assertEqual(0, len(self.control.journal()))
        group = self.call('POST', 'volume_groups',
                          b'{"name": "g", "quota": 0}').json()
        volume = self.call('POST', 'volumes', json.dumps({
            'name': 'v', 'size': 1, 'volume_group': base.ref(
                'volume_groups', group)}).encode()).json()
        self.quiet('contents', 'write', str(volume['id']), 'abc')
        self.assertEqual({'31': 'abc'}, self.json('contents', 'show'))
        self.assertEqual({'volumes', 'volume_groups'},
                         set(self.json('state', 'leftovers')))
        self.assertIn('objects', self.json('state', 'show'))
        self.quiet('state', 'reset')
        self.assertEqual({}, self.control.leftovers())

    def record(self):
        self.json('recorder', 'start', '--kib', '100')
        self.call('POST', 'host_groups', b'{"name": "hg"}')
        self.call('GET', 'host_groups')
        status = self.json('recorder', 'stop')
        self.assertEqual((False, 2, 100), (
            status['running'], status['records'], status['kib']))
        path = self.directory / 'recording.har'
        self.quiet('recorder', 'export', '--output', str(path))
        return path

    def test_recorder(self):
        path = self.record()
        self.assertEqual(json.loads(path.read_text()),
                         self.json('recorder', 'export'))
        self.assertEqual(2, self.json('recorder', 'show')['records'])
        self.quiet('recorder', 'clear')
        self.assertEqual([], self.control.recorder.records())

    def test_replay(self):
        path = str(self.record())
        self.quiet('state', 'reset')
        self.assertEqual(
            ('2 requests sent, 2 replies compared, 0 differ,'
             ' 0 refusals not sent\n', ''),
            self.replay(path))
        output, _ = self.replay(path, expected=1)
        self.assertIn('1: POST /api/v2/host_groups: status was 201, is 400',
                      output)
        self.assertIn('1 differ', output)
        self.quiet('state', 'reset')
        self.json('behaviors', 'set', 'page_size=5')
        self.replay(path, '--ignore', 'limit')

    def test_what_cannot_be_replayed(self):
        path = self.directory / 'x.har'
        self.assertIn('x.har', self.complaint(
            'recorder', 'replay', str(path)))
        for text in ('{', '{}'):
            path.write_text(text)
            self.assertIn('cannot use', self.complaint(
                'recorder', 'replay', str(path)))
        path = self.record()
        self.assertIn('cannot reach', self.complaint(
            'recorder', 'replay', str(path),
            options=('--url', 'https://127.0.0.1:1')))

    def test_refusals(self):
        """The array's own text, in one line."""
        self.assertEqual(
            'k2-sim-ctl: error: Fault rule: unknown field colour\n',
            self.complaint('faults', 'add', 'busy', 'colour=1'))
        self.assertIn('No such object', self.complaint(
            'faults', 'remove', '9'))

    @ddt.data('x', '=5', 'where.=5', '.x=5')
    def test_what_is_no_field(self, item):
        self.assertIn('not FIELD=VALUE', self.complaint(
            'faults', 'add', 'busy', item))

    def test_a_field_with_fields_and_a_value(self):
        self.assertIn('fields and a value', self.complaint(
            'faults', 'add', 'busy', 'where=5', 'where.name=x'))

    @ddt.data((), ('faults',), ('faults', 'add'), ('fires', 'list'),
              ('clock', 'advance', 'soon'), ('faults', 'change', '1'))
    def test_usage(self, words):
        self.assertIn('usage: k2-sim-ctl',
                      self.complaint(*words, expected=2))

    def test_help(self):
        for words in ([], *([noun, verb] for noun, (_, verbs)
                            in ctl.COMMANDS.items() for verb in verbs)):
            output, _ = self.run_it(*words, '--help')
            self.assertIn('usage: k2-sim-ctl', output)

    def test_password(self):
        """From a file or the environment, never on the command line."""
        secret = self.directory / 'password'
        options = ('--url', self.url, '--ca', self.authority,
                   '--password-file', str(secret))
        self.assertIn('cannot read', self.complaint(
            'chance', 'show', options=options))
        for text, expected in (('wrong\n', 'login is refused'),
                               ('', 'is empty')):
            secret.write_text(text)
            self.assertIn(expected, self.complaint(
                'chance', 'show', options=options))
        secret.write_text('admin\nnot this\n')
        self.run_it('chance', 'show', options=options)
        self.useFixture(fixtures.EnvironmentVariable('K2_SIM_PASSWORD'))
        self.assertIn('K2_SIM_PASSWORD', self.complaint('chance', 'show'))
        self.run_it('chance', 'show', options=options)

    def test_password_beyond_latin_1(self):
        """The array reads UTF-8 (RFC 7617), and so do password files."""
        text = '\u20ac-geheim-\u00e4'
        array = k2_sim.Array(control_user=k2_sim.User('control', text))
        self.addCleanup(array.close)
        server = contexts.enter(self, k2_sim.Server(array))
        secret = self.directory / 'password'
        secret.write_text(f'{text}\n', encoding='utf-8')
        options = ('--url', server.url)
        self.run_it('chance', 'show', options=(
            *options, '--password-file', str(secret)))
        self.useFixture(fixtures.EnvironmentVariable(
            'K2_SIM_PASSWORD', text))
        self.run_it('chance', 'show', options=options)
        self.useFixture(fixtures.EnvironmentVariable(
            'K2_SIM_PASSWORD', os.fsdecode(b'\xff')))
        self.assertIn('login is refused', self.complaint(
            'chance', 'show', options=options))

    @ddt.data(('clock', 'advance', 'nan'), ('clock', 'advance', 'inf'),
              ('latency', 'set', 'ms=NaN'), ('latency', 'set', 'ms=1e999'))
    def test_numbers_that_json_has_not(self, words):
        self.assertIn('a value cannot be sent as JSON', self.complaint(*words))

    def test_certificates(self):
        self.assertRegex(self.complaint(
            'chance', 'show', options=('--url', self.url)),
            r'not trusted \([^()]*certificate[^()]*\): name .* with --ca\n')
        self.assertIn('there is no file', self.complaint(
            'chance', 'show', options=('--ca', str(self.directory / 'x'))))

    def test_an_array_without_tls(self):
        # The server's log is not part of the command's output.
        self.useFixture(fixtures.FakeLogger())
        with k2_sim.Server(self.array) as server:
            url = server.url.replace('http', 'https')
            self.assertEqual(
                f'k2-sim-ctl: error: {url} speaks no TLS; try http://\n',
                self.complaint('chance', 'show', options=('--url', url)))

    def test_certificates_that_are_none(self):
        path = self.directory / 'ca.crt'
        path.write_text('x')
        self.assertEqual(
            f'k2-sim-ctl: error: {path} holds no certificate that can be'
            ' read\n', self.complaint('chance', 'show', options=(
                '--url', self.url, '--ca', str(path))))

    def test_an_array_with_tls(self):
        url = self.url.replace('https', 'http')
        complaint = self.complaint(
            'chance', 'show', options=('--url', url))
        self.assertIn(f'cannot reach {url}: ', complaint)

    def test_version(self):
        output, _ = self.run_it('--version')
        self.assertRegex(output, r'\Ak2-sim-ctl \S+\n\Z')

    def test_save_and_restore(self):
        path = self.directory / 'saved.json'
        self.call('POST', 'host_groups', b'{"name": "hg"}')
        self.quiet('state', 'save', str(path))
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.quiet('state', 'reset')
        self.assertEqual({}, self.json('state', 'leftovers'))
        self.quiet('state', 'restore', str(path))
        self.assertEqual(['hg'], [row['name'] for row in self.json(
            'state', 'leftovers')['host_groups']])
        path.write_text('{}')
        self.assertIn('not a saved state', self.complaint(
            'state', 'restore', str(path)))
        for words in (('restore', f'{path}x'), ('save', f'{path}/x')):
            self.assertRegex(self.complaint('state', *words),
                             'cannot (use|write) ')
        path.write_text('{')
        self.assertIn('cannot use', self.complaint(
            'state', 'restore', str(path)))

    @ddt.data('-5', 'x', '1.5', '\u0661')
    def test_what_is_no_offset(self, text):
        self.assertIn('must be a whole number from 0', self.complaint(
            'data', 'read', 'volumes/31', '-', f'--offset={text}',
            expected=2))

    def test_who_reads_goes_away(self):
        """As with k2-sim-ctl ... | head -1."""
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, '-m', 'k2_sim.cmd.ctl', '--url', self.url,
             '--ca', self.authority, 'state', 'show'], stdout=writer,
            stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        self.assertEqual((141, b''), (done.returncode, done.stderr))

    def test_interrupted(self):
        self.useFixture(fixtures.MockPatch(
            'k2_sim.cmd.ctl_client.Client.call',
            side_effect=KeyboardInterrupt))
        self.assertEqual(('', ''), self.run_it(
            'chance', 'show', expected=130))

    def test_array_that_does_not_run(self):
        url = 'https://127.0.0.1:1'
        self.assertEqual(
            f'k2-sim-ctl: error: cannot reach {url}: Connection refused; is'
            ' k2-sim running?\n',
            self.complaint('chance', 'show', options=('--url', url)))

    def test_nobody_there(self):
        for url in ('https://127.0.0.1:1', 'nonsense', 'http://[::1',
                    f'http://{64 * "a"}.example', 'http://\u00e4..b'):
            self.assertIn('cannot reach', self.complaint(
                'chance', 'show', options=('--url', url)))


class TestVerify(base.DirectoryTest):
    """The state of a stopped array is checked, and not changed."""

    def setUp(self):
        super().setUp()
        array = k2_sim.Array('sdp', self.state_path)
        for path, body in (
                ('volume_groups', {'name': 'a', 'quota': 0}),
                ('volumes', {'name': 'v', 'size': base.GIB,
                             'volume_group': base.ref('volume_groups', 14)})):
            reply = array.handle(
                'POST', f'/api/v2/{path}', '',
                {**base.authorization(), 'Content-Type': JSON},
                json.dumps(body).encode())
            self.assertEqual(201, reply.status, reply.body)
        array.close()

    def verify(self, expected=0):
        output, errors = io.StringIO(), io.StringIO()
        before = self.content()
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(errors):
            status = ctl.main(['verify', str(self.directory)])
        self.assertEqual(expected, status, errors.getvalue())
        self.assertEqual(before, self.content())
        return output.getvalue() + errors.getvalue()

    def content(self):
        return {path.name: path.read_bytes()
                for path in self.directory.iterdir()}

    def change(self, statement):
        with contextlib.closing(sqlite3.connect(self.state_path)) as database:
            database.execute(statement)
            database.commit()

    def test_sound(self):
        self.assertRegex(self.verify(), fr'\Astate {self.state_path}: [0-9]+ '
                         'objects, no damage found\n\\Z')

    def test_changed_row(self):
        self.change("UPDATE objects SET body=replace(body, 'x', 'y')")
        error = self.verify(1)
        self.assertRegex(error, r'\Ak2-sim-ctl: error: [^\n]+\n\Z')
        self.assertIn(f'state {self.state_path} is damaged: objects ', error)

    def test_removed_row(self):
        """Others refer to it."""
        self.change("DELETE FROM objects WHERE resource='volume_groups'")
        self.assertRegex(self.verify(1), 'is damaged: it has volumes [0-9]+ '
                         "with a bad volume_group: '/volume_groups/14'; ")

    def test_no_state(self):
        self.state_path.unlink()
        self.assertIn('No such file', self.verify(1))

    def test_emptied_state(self):
        """Nothing is made of it, so that it is refused at the start, too."""
        (self.directory / 'state.made').touch()
        self.state_path.write_bytes(b'')
        self.assertIn('is empty, but an array has been', self.verify(1))

    def test_removed_system(self):
        self.change("DELETE FROM objects WHERE resource='system/state'")
        self.assertIn('is damaged: it has no system/state', self.verify(1))

    def test_secrets_are_not_shown(self):
        with contextlib.closing(sqlite3.connect(self.state_path)) as database:
            number, body = database.execute(
                'SELECT id, body FROM objects WHERE resource=\'volumes\''
                ' ORDER BY -id').fetchone()
            row = ('volumes', number, json.dumps({
                **json.loads(body), 'description': ['secret']}).encode())
            database.execute(
                'INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)',
                disk._with_sum(row))
            database.commit()
        error = self.verify(1)
        self.assertIn(f'volumes {number} with a bad description: a list',
                      error)
        self.assertNotIn('secret', error)

    def test_state_of_a_killed_array(self):
        """What is only in the log counts; both stay as they are."""
        log = self.directory / 'state.db-wal'
        done = subprocess.run([sys.executable, '-c', textwrap.dedent(f"""
            import os, k2_sim
            array = k2_sim.Array('sdp', {str(self.state_path)!r})
            array.control.advance(1000)
            array.store.flush()
            os._exit(0)
            """)], check=False)
        self.assertEqual(0, done.returncode)
        self.assertTrue(log.stat().st_size)
        self.assertIn('no damage found', self.verify())

    def test_state_in_use(self):
        code = textwrap.dedent(f"""
            import k2_sim
            array = k2_sim.Array('sdp', {str(self.state_path)!r})
            print('ready', flush=True)
            input()
            """)
        with subprocess.Popen(
                [sys.executable, '-c', code], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            self.assertEqual('ready\n', process.stdout.readline())
            self.assertIn('in use by another process', self.verify(1))
            process.communicate('\n')
        self.assertIn('no damage found', self.verify())
