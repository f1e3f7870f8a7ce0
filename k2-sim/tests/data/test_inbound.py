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
"""Data that arrives from another array, piece by piece."""

import msgspec

from k2_sim.data import inbound
from k2_sim.protocol import peering
from tests.data import test_data

TOKEN = 'a' * 32
SIZE = 8192


class TestInbound(test_data.DataTest):

    def give(self, *runs, token=TOKEN, base='', **fields):
        return self.control.receive_data(msgspec.msgpack.encode(
            peering.Piece(token, base, SIZE, list(runs), **fields)))

    def held(self, token=TOKEN):
        return self.contents.path(token).read_bytes()

    def test_a_file(self):
        """As long as the existing one, whatever was sent of it."""
        for piece in ({'first': True}, {}):
            self.assertEqual(peering.Taken(True, False), self.give(**piece))
            self.assertFalse(self.contents.has(TOKEN))
        self.give((1, b'x'))
        self.assertEqual(peering.Taken(True, True), self.give(last=True))
        self.assertEqual(b'\0x'.ljust(SIZE, b'\0'), self.held())

    def test_on_top_of_another_one(self):
        self.give((0, b'old'), first=True, last=True)
        other = 'b' * 32
        self.give((1, b'L'), token=other, base=TOKEN, first=True, last=True)
        self.assertEqual((b'old', b'oLd'), (
            self.held()[:3], self.held(other)[:3]))

    def test_what_is_complete_does_not_change(self):
        self.give((0, b'one'), first=True, last=True)
        for fields in ({'first': True}, {}, {'last': True}):
            self.assertEqual(peering.Taken(True, True),
                             self.give((0, b'two'), **fields))
        self.assertEqual(b'one', self.held()[:3])
        self.assertEqual({TOKEN}, self.contents.tokens())

    def test_what_takes_its_time(self):
        """Each piece shows that there is more to come."""
        self.give(first=True)
        for number in range(3):
            self.clock.advance(inbound.KEPT_SECONDS - 1)
            self.control.tick()
            self.assertTrue(self.give((number, b'x')).fits)
        self.assertTrue(self.give(last=True).whole)
        self.clock.advance(inbound.KEPT_SECONDS - 1)
        self.control.tick()
        self.assertEqual(b'xxx', self.held()[:3])
        self.clock.advance(1)
        self.assertEqual(set(), self.files())
