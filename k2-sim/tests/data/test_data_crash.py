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

"""kill -9 while data is written and snapshots are taken of it."""

import os

from k2_sim.state import schema
from tests import base
from tests.state import test_crash

_ROUNDS = 6
_WRITERS = 3
_ANSWERS = 30
_BLOCK = 4096
_BLOCKS = 8
_MOST = 5


class Writer(test_crash.Writer):
    """Writes blocks of its own volume, and takes snapshots of it.

    held: what the volume and its snapshots hold, by name, according to the
    replies. attempt: the same after the request that has no reply yet.
    """

    def __init__(self, number):
        super().__init__(number)
        self.held = {self.prefix: bytes(_BLOCK * _BLOCKS)}
        self.count = 0

    def prepare(self):
        _, group = self.call('POST', '/api/v2/volume_groups', {
            'name': self.prefix, 'quota': 0})
        self.group = base.ref('volume_groups', group)
        _, volume = self.call('POST', '/api/v2/volumes', {
            'name': self.prefix, 'volume_group': self.group,
            'size': _BLOCK * _BLOCKS // 1024})
        self.volume = volume['id']

    def _next(self):
        """The next request, with its arguments, and the state after it."""
        self.count += 1
        kind = self.random.choice(('write', 'write', 'write', 'take', 'drop'))
        taken = sorted(self.ids)
        if kind == 'write' or kind == 'drop' and not taken:
            return self._next_write()
        if kind == 'drop' or len(taken) >= _MOST:
            name = self.random.choice(taken)
            return self._drop, (name,), {
                key: data for key, data in self.held.items() if key != name}
        name = f'{self.prefix}-{self.count}'
        return self._take, (name,), {
            **self.held, name: self.held[self.prefix]}

    def _next_write(self):
        at = self.random.randrange(_BLOCKS) * _BLOCK
        data = f'{self.prefix} {self.count:08}'.encode().ljust(_BLOCK, b'.')
        before = self.held[self.prefix]
        return self._put, (at, data), {
            **self.held,
            self.prefix: before[:at] + data + before[at + _BLOCK:]}

    def _put(self, at, data):
        return self.send(
            'PUT', f'/sim/v1/data/volumes/{self.volume}', data,
            {'Content-Range': f'bytes {at}-{at + _BLOCK - 1}/*'})[0]

    def _take(self, name):
        status, reply = self.call('POST', '/api/v2/snapshots', {
            'short_name': name, 'source': self.group,
            'retention_policy': {'ref': base.RETENTION},
            'is_auto_deleteable': False})
        self.ids[name] = reply.get('id')
        return status

    def _drop(self, name):
        return self.call(
            'DELETE', f'/api/v2/snapshots/{self.ids.pop(name)}')[0]

    def _write(self, action, arguments, then):
        self.attempt = then
        status = action(*arguments)
        if status not in (201, 204):
            raise AssertionError(f'{action} {arguments}: {status}')
        self.held, self.attempt = then, None
        self.heard()

    def found(self, objects):
        """What the array has."""
        self.ids = {row['short_name']: row['id']
                    for row in objects.get('snapshots', ())
                    if row['volume_group'] == self.group['ref']}
        names = {number: name for name, number in self.ids.items()}
        places = {self.prefix: f'volumes/{self.volume}'}
        for row in objects.get('volsnaps', ()):
            number = schema.split_ref(row['snapshot'])[1]
            if number in names:
                places[names[number]] = f'volsnaps/{row["id"]}'
        return {name: self.send('GET', f'/sim/v1/data/{path}', b'', {})[1]
                for name, path in places.items()}


class TestDataCrash(test_crash.CrashTest):

    def test_kill_9(self):
        """Blocks and snapshots are as answered, or as last requested."""
        self.writers = [Writer(number) for number in range(_WRITERS)]
        self.run_rounds(_ROUNDS, _ANSWERS)

    def _prepare(self):
        for writer in self.writers:
            writer.prepare()

    def _check(self):
        status, state = self.writers[0].call('GET', '/sim/v1/state')
        self.assertEqual(200, status)
        objects = state['objects']
        for writer in self.writers:
            found = writer.found(objects)
            self.assertIn(found, (writer.held, writer.attempt))
            writer.held, writer.attempt = found, None
        named = {row['content'] for name in ('volumes', 'volsnaps')
                 for row in objects.get(name, ()) if row.get('content')}
        self.assertEqual(named, set(os.listdir(self.state / 'content')))
