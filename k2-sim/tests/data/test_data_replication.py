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

"""Replication that carries data."""

import contextlib
import os

import msgspec

import k2_sim
from k2_sim.protocol import messages
from k2_sim.protocol import peering
from tests import base
from tests import pairs

BLOCK = 4096
MIB = 2 ** 20


class Line:
    """The link to an array, which breaks at a message with data."""

    def __init__(self, array):
        self.array = array
        self.left = None
        self.carried = 0
        self.meanwhile = lambda: None

    def __getattr__(self, name):
        return getattr(self.array, name)

    def handle(self, method, path, **options):
        if path == peering.DATA_PATH:
            if self.left == 0:
                return messages.refusal(502, 'broken')
            if self.left is not None:
                self.left -= 1
            self.carried += len(options['body'])
            self.meanwhile()
        return self.array.handle(method, path, **options)


class DataPairTest(pairs.PairTest):

    def make(self, name, store=None):
        array = k2_sim.Array(
            store=self.directory / f'{name}.db', clock=self.clock,
            name=f'k2-{name}',
            contents=k2_sim.Contents(self.directory / name))
        self.addCleanup(array.close)
        return pairs.talk(array)

    def lay(self):
        """Set up the link from a to b."""
        line = Line(self.b.array)
        self.a.array.links.transport.network = {
            pairs.HOSTS[0]: self.a.array, pairs.HOSTS[1]: line}
        return line

    def put(self, offset, data, side=None):
        side, number = (self.a, self.volume['id']) if side is None \
            else (side, self.remote)
        side.control.data.write('volumes', number, offset, data)

    def look(self):
        for side in (self.a, self.b, self.a):
            side.control.tick()

    def bytes_at(self, offset, length):
        """The bytes on both sides at an offset."""
        self.look()
        return tuple(
            side.control.data.read('volumes', number, offset, length)
            for side, number in ((self.a, self.volume['id']),
                                 (self.b, self.remote)))

    def assertSame(self, data, offset=0):
        self.assertEqual((data, data), self.bytes_at(offset, len(data)))

    def assertTidy(self):
        """No file without a row, and no row without its file."""
        self.look()
        for side in (self.a, self.b):
            named = {row['content'] for name in ('volumes', 'volsnaps')
                     for row in side.array.store.rows(name)
                     if row.get('content')}
            self.assertEqual(named, {path.name for path in (
                side.array.core.contents.directory.iterdir())})

    def sent(self, side):
        """Bytes of each round in the history."""
        session = self.session if side is self.a else self.there
        return [row['bytes_transmitted_logical'] for row in side.hits(
            f'replication/rpo_history/{session["id"]}')]


class TestTravel(DataPairTest):

    def test_only_what_differs_is_sent(self):
        """REP-14: blocks that differ from what the target has."""
        self.prepare()
        self.put(0, b'a' * BLOCK * 4)
        self.put(700 * MIB, b'b')
        self.write('in_sync')
        self.assertSame(b'a' * BLOCK * 4)
        self.assertSame(b'b' + bytes(9), 700 * MIB)
        for data in (b'c', b'a'):
            self.put(BLOCK * 2 + 5, data)
            self.clock.advance(300)
            self.assertSame(b'aaaaa' + data + b'aaa', BLOCK * 2)
        self.clock.advance(300)
        self.look()
        # The edges of a block belong to it.
        for offset in (BLOCK * 2 - 1, BLOCK * 2):
            self.put(offset, b'd')
            self.clock.advance(300)
            self.assertSame(b'd', offset)
        expected = [5 * BLOCK, BLOCK, BLOCK, 0, BLOCK, BLOCK]
        self.assertEqual(expected, self.sent(self.a))
        self.assertEqual(expected, self.sent(self.b))
        self.assertTidy()

    def test_discards_travel(self):
        """Zeroed data takes no space on the target."""
        self.prepare()
        self.put(0, b'a' * 3 * MIB)
        self.write('in_sync')
        self.assertSame(b'a' * 3 * MIB)
        self.a.control.data.discard('volumes', self.volume['id'], 0, 3 * MIB)
        self.clock.advance(300)
        self.assertSame(bytes(3 * MIB))
        row = self.b.array.store.get('volumes', self.remote)
        self.assertEqual(0, self.b.array.core.contents.used(row['content']))

    def test_what_is_served_travels_frozen(self):
        """A round of a volume that initiators write to."""
        self.prepare()
        token = self.a.array.own('volumes', self.volume['id'], live=True)
        file = self.a.array.core.contents.path(token)
        file.write_bytes(b'one')
        self.write('in_sync')
        file.write_bytes(b'two')
        self.assertEqual((b'two', b'one'), self.bytes_at(0, 3))
        self.clock.advance(300)
        self.assertSame(b'two')
        self.assertTidy()

    def test_snapshot_of_a_user(self):
        """REP-13, SNP-14: the target's image is that of this moment."""
        self.prepare()
        self.put(0, b'one')
        self.write('in_sync')
        self.take(self.a, self.session)
        self.put(0, b'two')
        self.look()
        there = self.b.hits('snapshots')[-1]
        image, = self.b.array.store.find(
            'volsnaps', 'snapshot', f'/snapshots/{there["id"]}')
        self.assertEqual(b'one', self.b.control.data.read(
            'volsnaps', image['id'], 0, 3))

    def test_failover_and_back(self):
        """REP-10, REP-11: bytes on both sides, and only the new ones."""
        self.prepare()
        self.put(0, b'a' * 10 * BLOCK)
        self.write('in_sync')
        self.look()
        self.put(0, b'late')
        self.write_there('failed_over')
        self.assertEqual((b'latea', b'aaaaa'), self.bytes_at(0, 5))
        self.put(BLOCK, b'there', self.b)
        self.write_there('in_sync')
        self.assertSame(b'aaaaa')
        self.assertSame(b'there', BLOCK)
        self.assertEqual(BLOCK, self.sent(self.b)[-1])
        self.write('failed_over')
        self.put(2 * BLOCK, b'again')
        self.write('in_sync')
        self.assertSame(b'again', 2 * BLOCK)
        self.assertTidy()

    def test_target_is_read_only(self):
        """REP-16."""
        self.prepare()
        self.put(0, b'a')
        self.write('in_sync')
        error = self.assertRaises(
            k2_sim.ApiError, self.put, 0, b'b', self.b)
        self.assertIn('read-only', error.message)

    def test_own_peer(self):
        """Nothing is sent to the array that already has it."""
        self.b = self.a
        self.a.array.links.transport.network.clear()
        self.a.control.reset()
        k2_sim.connect(self.a.array)
        peer = self.a.hits(pairs.PEERS)[-1]
        self.prepare(replication_peer_k2array=base.ref(
            pairs.PEERS, peer))
        self.put(0, b'a')
        self.write('in_sync')
        self.assertSame(b'a')
        self.assertTidy()


class TestLoss(DataPairTest):

    def test_cut_when_all_was_due(self):
        """Data that was due before has arrived."""
        self.prepare()
        self.a.array.core.has_maintenance = True
        self.put(0, b'a')
        self.write('in_sync')
        self.a.control.cut_link()
        self.assertEqual(b'a', self.bytes_at(0, 1)[1])

    def test_link_breaks_in_the_middle(self):
        """The target keeps the last complete copy, and applies the next."""
        self.prepare()
        self.put(0, b'old')
        self.write('in_sync')
        self.assertSame(b'old')
        self.put(0, b'a' * 10 * MIB)
        line = self.lay()
        line.left = 2
        self.clock.advance(300)
        self.look()
        self.assertEqual('suspended', self.here()['state'])
        self.assertGreater(line.carried, 4 * MIB)
        self.assertEqual(b'old' + bytes(9), self.bytes_at(0, 12)[1])
        line.left = None
        self.look()
        self.write('in_sync')
        self.assertSame(b'a' * 10 * MIB)
        self.assertTidy()

    def test_link_breaks_and_the_target_takes_over(self):
        """The received part of a round that never ends is discarded."""
        self.prepare()
        self.put(0, b'old')
        self.write('in_sync')
        self.look()
        self.put(0, b'a' * 10 * MIB)
        self.lay().left = 2
        self.clock.advance(300)
        self.look()
        self.write_there('failed_over')
        self.assertEqual(b'old', self.bytes_at(0, 3)[1])
        self.clock.advance(600)
        self.assertTidy()

    def test_target_restarts_in_the_middle(self):
        self.prepare()
        self.put(0, b'a' * 10 * MIB)
        line = self.lay()
        line.left = 2
        self.write('in_sync')
        self.b.array.close()
        self.b = self.make('b')
        self.join()
        self.write('in_sync')
        self.assertSame(b'a' * 10 * MIB)
        self.assertTidy()

    def test_source_restarts_before_the_news(self):
        """Data that has already arrived is not sent again."""
        self.prepare()
        self.a.control.set_behaviors(copy_seconds=60)
        self.put(0, b'a')
        self.write('in_sync')
        image = self.a.array.store.rows('volsnaps')[-1]
        for piece in (peering.Piece(image['content'], '', 2 ** 30, [],
                                    first=True),
                      peering.Piece(image['content'], '', 0, [(0, b'a')],
                                    last=True)):
            self.b.control.receive_data(msgspec.msgpack.encode(piece))
        self.clock.advance(60)
        line = self.lay()
        self.assertSame(b'a')
        self.assertEqual(0, line.carried)

    def test_news_while_data_is_sent(self):
        """What was requested twice is sent once."""
        self.prepare()
        self.put(0, b'a' * 5 * MIB)
        line = self.lay()
        line.meanwhile = self.a.array.links.sync
        self.write('in_sync')
        self.assertSame(b'a' * 5 * MIB)
        self.assertLess(line.carried, 6 * MIB)
        self.assertEqual([5 * MIB], self.sent(self.b))


class DeafLine(Line):
    """Passes updates on only until it has passed data on."""

    def handle(self, method, path, **options):
        if path == peering.PATH and self.carried:
            return messages.refusal(502, 'broken')
        return super().handle(method, path, **options)


class TestTokens(DataPairTest):
    """Data that one array rewrote is never mistaken for the other's."""

    def test_written_after_a_loss_behind_the_data(self):
        self.prepare()
        self.put(0, b'old')
        line = DeafLine(self.b.array)
        self.a.array.links.transport.network = {
            pairs.HOSTS[0]: self.a.array, pairs.HOSTS[1]: line}
        self.write('in_sync')
        self.look()
        self.assertEqual('suspended', self.here()['state'])
        self.put(0, b'new')
        self.lay()
        self.look()
        self.write('in_sync')
        self.assertSame(b'new')
        self.clock.advance(600)
        self.assertTidy()

    def test_written_between_two_sessions(self):
        """REP-15: the target's volume keeps what it had."""
        self.prepare()
        self.put(0, b'old')
        self.write('in_sync')
        self.assertSame(b'old')
        for state in ('suspended', 'idle'):
            self.write(state)
        for snapshot in self.a.hits('snapshots'):
            self.a.delete(f'snapshots/{snapshot["id"]}')
        self.put(0, b'new')
        self.assertEqual((b'new', b'old'), self.bytes_at(0, 3))
        self.write('in_sync')
        self.assertSame(b'new')
        self.assertTidy()


class TestSizes(DataPairTest):

    def test_a_part_of_a_block(self):
        """VOL-1: sizes are in KiB, and the target's file has the same."""
        self.prepare(size=5)
        self.put(0, b'a' * 5 * 1024)
        self.write('in_sync')
        self.assertSame(b'a' * 5 * 1024)
        row = self.b.array.store.get('volumes', self.remote)
        self.assertEqual(
            5 * 1024, self.b.array.core.contents.size(row['content']))

    def test_compression(self):
        """Physical is the space of the blocks that are sent (section 10.5)."""
        self.prepare()
        noise = os.urandom(3 * BLOCK)
        self.put(0, noise + bytes(BLOCK) + b'a' * 5 * BLOCK)
        self.write('in_sync')
        self.assertSame(noise)
        self.clock.advance(1)
        for side, session, way in ((self.a, self.session, 'out'),
                                   (self.b, self.there, 'in')):
            done, = side.hits(f'replication/rpo_history/{session["id"]}')
            self.assertEqual(8 * BLOCK, done['bytes_transmitted_logical'])
            physical = done['bytes_transmitted_physical']
            self.assertLess(3 * BLOCK, physical)
            self.assertLess(physical, 4 * BLOCK)
            for path in ('system', 'volumes'):
                point, = side.hits(
                    f'replication/stats/{path}?__resolution=5m')
                self.assertEqual(
                    (8 * BLOCK // 300, physical // 300),
                    (point[f'logical_{way}'], point[f'physical_{way}']))

    def test_many_sessions_at_once(self):
        """Rounds of exported volumes share one pause."""
        pauses = []

        @contextlib.contextmanager
        def pause():
            pauses.append(1)
            yield

        for number in range(6):
            self.prepare(str(number))
            self.put(0, b'a')
            self.a.array.own('volumes', self.volume['id'], live=True)
            self.write('in_sync')
        self.a.array.core.contents.pause = pause
        self.clock.advance(300)
        self.look()
        self.assertEqual([1], pauses)
        for session in self.b.hits('replication/sessions'):
            self.assertEqual(2, len(self.b.hits(
                f'replication/rpo_history/{session["id"]}')))


class TestRefusals(DataPairTest):

    def give(self, status=200, **fields):
        piece = {'token': 'a' * 32, 'base': '', 'size': BLOCK, 'runs': [],
                 **fields}
        reply = self.b.array.handle(
            'POST', peering.DATA_PATH, headers=base.authorization(),
            body=msgspec.msgpack.encode(piece))
        self.assertEqual(status, reply.status, reply.body)
        return reply.json()

    def test_pieces_that_do_not_fit(self):
        self.assertFalse(self.give(runs=[(0, b'x')])['fits'])
        self.assertFalse(self.give(first=True, base='b' * 32)['fits'])
        self.assertEqual({'fits': True, 'whole': False},
                         self.give(first=True))
        for fields in ({'last': True}, {'first': True},
                       {'runs': [(0, b'x')]}):
            self.assertEqual({'fits': True, 'whole': True},
                             self.give(**fields))
        self.assertEqual(bytes(1), self.b.array.core.contents.read(
            'a' * 32, 0, 1))

    def test_no_piece_at_all(self):
        self.give(400, runs=5)
        self.give(400, token='../state.db', first=True)
        reply = self.b.array.handle(
            'POST', peering.DATA_PATH, headers=base.authorization(),
            body=b'\xc1')
        self.assertEqual(400, reply.status)

    def test_nobody_else_sends_data(self):
        """Only users who may replicate; the login is checked first."""
        reply = self.b.array.handle('POST', peering.DATA_PATH, body=b'\xc1')
        self.assertEqual(401, reply.status)

    def test_cut(self):
        self.b.control.cut_link()
        self.give(503, first=True)

    def test_what_waits_too_long_goes(self):
        for token in ('a' * 32, 'b' * 32):
            self.give(token=token, first=True)
        self.clock.advance(599)
        self.give(token='b' * 32, runs=[(0, b'x')], last=True)
        self.clock.advance(2)
        self.b.control.tick()
        self.assertEqual({'b' * 32}, self.b.array.core.contents.tokens())
        self.assertFalse(self.give(last=True)['fits'])
        self.clock.advance(600)
        self.assertTidy()

    def test_array_without_data(self):
        """In neither direction; the text says what to do."""
        other = k2_sim.Array(clock=self.clock, name='k2-c')
        self.addCleanup(other.close)
        k2_sim.connect(self.a.array, other, hosts=(
            pairs.HOSTS[0], 'k2-c.example.org'))
        group = self.a.group()
        for side, number in ((self.a, 2), (pairs.talk(other), 1)):
            group = side.group('vg-mixed')
            text = side.refused('POST', pairs.SESSIONS, {
                **pairs.session_body(group), 'replication_peer_k2array':
                base.ref(pairs.PEERS, number)})
            self.assertIn('use two of a kind', text)
