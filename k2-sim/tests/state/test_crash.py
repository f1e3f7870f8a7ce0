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

"""kill -9 during writes, to a k2-sim with many writers."""

from concurrent import futures
import http.client
import itertools
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading


from k2_sim.state import catalogue
from tests import base

_ROUNDS = 20
_WRITERS = 4
_ANSWERS = 60
_MOST = 20


class Writer:
    """The writes of one connection in its own group, and their results.

    known: the descriptions of the volumes by name, according to the replies.
    attempt: the same after the request that has no reply yet, and its
    sequence number, if it has one.
    """

    def __init__(self, number):
        self.prefix = f'w{number}'
        self.random = random.Random(number)
        self.group = None
        self.known = {}
        self.ids = {}
        self.sequence = 0
        self.attempt = None
        self._names = (f'{self.prefix}-{n}' for n in itertools.count())
        self._connection = None
        self.heard = None
        self.answered = []

    def connect(self, port, context):
        self._connection = http.client.HTTPSConnection(
            '127.0.0.1', port, timeout=60, context=context)
        self._connection.connect()
        # A lost connection is the end of the round.
        self._connection.auto_open = False

    def call(self, method, path, body=None, **headers):
        data = b'' if body is None else json.dumps(body).encode()
        status, text = self.send(method, path, data, {
            'Content-Type': base.JSON, **headers})
        return status, json.loads(text) if text else None

    def send(self, method, path, data, headers):
        login = 'control' if path.startswith('/sim/') else 'admin'
        self._connection.request(method, path, data, {
            **base.authorization(login), **headers})
        reply = self._connection.getresponse()
        return reply.status, reply.read()

    def storm(self, heard):
        """Write until the array is gone; call heard after each reply."""
        self.heard = heard
        try:
            while True:
                self._write(*self._next())
        except (OSError, http.client.HTTPException):
            self._connection.close()

    def _next(self):
        """Method, path, body, and the resulting state."""
        kind = self.random.choice(
            ('make', 'make', 'makes', 'change', 'drop', 'drops'))
        names = sorted(self.known)
        self.random.shuffle(names)
        if len(names) > _MOST:
            kind = 'drops'
        if kind in ('make', 'makes') or len(names) < 3:
            return self._make(3 if kind == 'makes' else 1)
        if kind == 'change':
            text = f'text {self.random.random()}'
            return ('PATCH', f'volumes/{self.ids[names[0]]}',
                    {'description': text}, {**self.known, names[0]: text})
        gone = names[:2] if kind == 'drops' else names[:1]
        left = {name: text for name, text in self.known.items()
                if name not in gone}
        if kind == 'drop':
            return 'DELETE', f'volumes/{self.ids[gone[0]]}', None, left
        return ('DELETE', 'volumes/__bulk',
                [{'id': self.ids[name]} for name in gone], left)

    def _make(self, count):
        bodies = [{'name': next(self._names), 'size': 1024,
                   'volume_group': self.group} for _ in range(count)]
        then = {**self.known, **{body['name']: None for body in bodies}}
        if count == 1:
            return 'POST', 'volumes', bodies[0], then
        return 'POST', 'volumes/__bulk', bodies, then

    def _write(self, method, path, body, then):
        headers, sequence = {}, self.sequence
        if self.random.random() < 0.5:
            sequence += 1
            headers['X-K2-Sequence'] = f'{self.prefix}={sequence}'
        self.attempt = then, sequence
        status, reply = self.call(method, f'/api/v2/{path}', body, **headers)
        if status != {'POST': 201, 'PATCH': 200, 'DELETE': 204}[method]:
            raise AssertionError(f'{method} {path}: {status} {reply}')
        if method == 'POST':
            hits = reply['hits'] if 'hits' in reply else [reply]
            self.answered += [hit['id'] for hit in hits]
            self.ids.update((hit['name'], hit['id']) for hit in hits)
        self.known, self.sequence = then, sequence
        self.attempt = None
        self.heard()


class CrashTest(base.DirectoryTest):
    """A k2-sim that is killed while the writers send it requests."""

    def setUp(self):
        super().setUp()
        self.state = self.directory / 'state'
        self.secret = self.directory / 'password'
        self.secret.write_text('admin')

    def run_rounds(self, rounds, answers):
        """Prepare once, then kill it repeatedly; check the state."""
        for number in range(rounds):
            process, port = self._start()
            self._connect(port)
            if number:
                self._check()
            else:
                self._prepare()
            self._storm(process, answers + number)

    def _start(self):
        process = subprocess.Popen(
            [sys.executable, '-m', 'k2_sim.cmd.serve', '--listen',
             '127.0.0.1:0', '--state-dir', str(self.state),
             '--password-file', str(self.secret),
             '--control-password-file', str(self.secret)],
            stdout=subprocess.PIPE, text=True, env={**os.environ})
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        for line in process.stdout:
            _, found, rest = line.partition(' listens on https://127.0.0.1:')
            if found:
                return process, int(rest.partition(',')[0])
        self.fail('k2-sim did not start')

    def _connect(self, port):
        context = ssl.create_default_context(cafile=self.state / 'ca.crt')
        for writer in self.writers:
            writer.connect(port, context)

    def _storm(self, process, answers):
        """Kill the array after so many replies, while all write."""
        heard = threading.Semaphore(0)
        with futures.ThreadPoolExecutor(len(self.writers)) as pool:
            storms = [pool.submit(writer.storm, heard.release)
                      for writer in self.writers]
            for _ in range(answers):
                self.assertTrue(heard.acquire(timeout=60))
            process.send_signal(signal.SIGKILL)
        for storm in storms:
            storm.result()


class TestCrash(CrashTest):

    def test_kill_9(self):
        """What was answered exists, and at most what was in flight."""
        self.writers = [Writer(number) for number in range(_WRITERS)]
        self.run_rounds(_ROUNDS, _ANSWERS)
        ids = [item for writer in self.writers for item in writer.answered]
        self.assertGreaterEqual(len(ids), _ROUNDS * _ANSWERS // 4)
        # OBJ-7: no id twice, lost creations included.
        self.assertEqual(len(ids), len(set(ids)))

    def _prepare(self):
        for writer in self.writers:
            _, group = writer.call('POST', '/api/v2/volume_groups', {
                'name': f'{writer.prefix}-group', 'quota': 0})
            writer.group = base.ref('volume_groups', group)

    def _check(self):
        status, state = self.writers[0].call('GET', '/sim/v1/state')
        self.assertEqual(200, status)
        objects = state['objects']
        there = {writer.prefix: {} for writer in self.writers}
        for row in objects['volumes'][1:]:
            there[row['name'].partition('-')[0]][row['name']] = row
        for writer in self.writers:
            self._check_writer(
                writer, there[writer.prefix],
                state['sequences'].get(writer.prefix, 0))
        self._check_references(objects)
        self.assertGreaterEqual(
            state['counters']['volumes'],
            max(item for writer in self.writers for item in writer.answered))
        suffixes = [row['scsi_suffix'] for row in objects['volumes']]
        self.assertEqual(len(suffixes), len(set(suffixes)))
        self.assertGreaterEqual(
            state['counters']['scsi_suffix'], max(suffixes))

    def _check_writer(self, writer, rows, sequence):
        """All of the unanswered request, its sequence too, or nothing."""
        found = {name: row['description'] for name, row in rows.items()}
        answered = writer.known, writer.sequence
        self.assertIn((found, sequence), (answered, writer.attempt))
        writer.known, writer.sequence = found, sequence
        writer.ids = {name: row['id'] for name, row in rows.items()}
        writer.attempt = None

    def _check_references(self, objects):
        there = {f'/{name}/{row["id"]}'
                 for name, rows in objects.items() for row in rows}
        for name, rows in objects.items():
            fields = [field.name for field
                      in catalogue.RESOURCES[name].fields
                      if field.kind == 'ref']
            for row in rows:
                for field in fields:
                    self.assertIn(row.get(field), {*there, None})
