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

"""Replies wait for the disk, and share its commits."""

import threading

import fixtures

import k2_sim
from k2_sim.state import disk
from tests import base
from tests import pairs


class TestCommits(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.start_array(self.state_path)
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.written = []
        write = disk.Disk.write

        def slow(this, changes):
            self.entered.set()
            self.gate.wait()
            self.written.append(changes)
            write(this, changes)

        self.useFixture(fixtures.MockPatchObject(disk.Disk, 'write', slow))
        self.addCleanup(self.gate.set)

    def exchange(self, method, path, body=b''):
        """One exchange as an adapter gets it, before it has settled."""
        with self.array.exchange(method, path, headers={
                **base.authorization(), 'Content-Type': base.JSON},
                body=body) as exchange:
            return exchange

    def create(self, name):
        return self.exchange('POST', '/api/v2/host_groups',
                             b'{"name": "%s"}' % name.encode())

    def test_nothing_is_told_before_it_is_kept(self):
        """The write, a read that sees it, a refusal caused by it."""
        self.assertIsNone(self.exchange(
            'GET', '/api/v2/host_groups').commit)
        made = self.create('a')
        seen = self.exchange('GET', '/api/v2/host_groups')
        refused = self.create('a')
        dumped = self.exchange('GET', '/sim/v1/state')
        self.assertEqual(
            [201, 200, 400, 200],
            [exchange.response.status for exchange
             in (made, seen, refused, dumped)])
        for exchange in (made, seen, refused, dumped):
            self.assertFalse(exchange.commit.done())
        self.gate.set()
        for exchange in (made, seen, refused, dumped):
            self.assertIs(exchange, exchange.settled())
            self.assertTrue(exchange.commit.done())

    def test_many_share_a_commit(self):
        first = self.create('a')
        self.entered.wait()
        rest = [self.create(name) for name in 'bcdefgh']
        self.assertEqual(1, len({exchange.commit for exchange in rest}))
        self.assertIsNot(first.commit, rest[0].commit)
        self.gate.set()
        rest[0].settled()
        # Each group comes with its event.
        self.assertEqual([2, 14], [len(changes.objects)
                                   for changes in self.written])

    def test_close_keeps_what_is_queued(self):
        self.create('a')
        self.gate.set()
        self.array.close()
        late = self.create('b').settled().response
        self.assertEqual(500, late.status)
        self.assertIn('is closed', late.json()['error_msg'])
        self.start_array(self.state_path)
        self.assertEqual(1, self.get('host_groups')['total'])

    def test_what_was_queued_behind_a_failure_fails_too(self):
        first = self.create('a')
        self.entered.wait()
        second = self.create('b')
        self.useFixture(fixtures.MockPatchObject(
            disk.Disk, '_write_objects',
            side_effect=disk.sqlite3.OperationalError('disk full')))
        self.gate.set()
        for exchange in (first, second, self.create('c')):
            settled = exchange.settled()
            self.assertEqual(500, settled.response.status)
            self.assertIn('disk full', settled.response.json()['error_msg'])
        self.assertEqual(1, len(self.written))

    def test_memory_needs_no_disk(self):
        self.array = k2_sim.Array(clock=self.clock)
        self.assertIsNone(self.create('a').commit)


class TestPeers(pairs.PairTest):

    def make(self, name):
        return super().make(name, self.directory / f'{name}.db')

    def test_a_peer_hears_only_what_is_kept(self):
        self.start()
        write = disk.Disk.write
        broken = self.a.array.store._disk

        def refuse(this, changes):
            if this is broken:
                raise k2_sim.StateError('disk full')
            write(this, changes)

        self.useFixture(fixtures.MockPatchObject(disk.Disk, 'write', refuse))
        reply = self.a.call('PATCH', self.source_path(),
                            {'state': 'suspended'})
        self.assertEqual((500, 'disk full'),
                         (reply.status, reply.json()['error_msg']))
        self.assertEqual('in_sync', self.over_there()['state'])
