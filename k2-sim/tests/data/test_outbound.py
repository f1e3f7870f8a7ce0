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
"""Data sent to another array, in pieces of a sensible size."""

import os

from k2_sim.data import null
from k2_sim.data import outbound
from k2_sim.protocol import peering
from tests.data import test_data

MIB = 2 ** 20


class TestOutbound(test_data.DataTest):

    def setUp(self):
        super().setUp()
        self.pieces = []
        self.token = self.contents.clone('', 100 * MIB)
        self.noise = os.urandom(9 * MIB)
        self.contents.write(self.token, MIB, self.noise)

    def send(self, token, known='', taken=(True, False)):
        def push(piece):
            self.pieces.append(piece)
            return peering.Taken(*taken)
        return outbound.send(self.array.core.data_store, token, known, push)

    def test_pieces(self):
        """The first has the size, the last has the end, none is large."""
        sent = self.send(self.token)
        self.assertEqual((len(self.noise), len(self.noise)), sent)
        self.assertEqual(
            [(100 * MIB, True, False), (0, False, False), (0, False, False),
             (0, False, True)],
            [(piece.size, piece.first, piece.last) for piece in self.pieces])
        sizes = [sum(len(data) for _, data in piece.runs)
                 for piece in self.pieces]
        self.assertEqual([0, 4 * MIB, 4 * MIB, MIB], sizes)
        self.assertEqual(self.noise, b''.join(
            data for piece in self.pieces for _, data in piece.runs))

    def test_difference(self):
        other = self.contents.clone(self.token)
        self.contents.write(other, 5 * MIB, b'x' * 4096)
        self.assertEqual(4096, self.send(other, self.token).logical)
        self.assertEqual({self.token}, {piece.base for piece in self.pieces})
        [(offset, _)] = self.pieces[-1].runs
        self.assertEqual(5 * MIB, offset)

    def test_what_the_other_one_knows_and_this_one_does_not(self):
        """Then everything is sent."""
        self.send(self.token, 'b' * 32)
        self.assertEqual({''}, {piece.base for piece in self.pieces})
        self.assertEqual(4, len(self.pieces))

    def test_what_is_there_already(self):
        self.assertEqual((0, 0), self.send(self.token, taken=(True, True)))
        self.assertEqual(1, len(self.pieces))

    def test_what_is_not_taken(self):
        self.assertEqual((0, 0), self.send(self.token, taken=(False, False)))
        self.assertEqual(1, len(self.pieces))

    def test_nothing_to_send(self):
        self.assertEqual((0, 0), self.send('b' * 32))
        self.assertEqual((0, 0), outbound.send(
            null.NullDataStore(), self.token, '', self.pieces.append))
        self.assertEqual([], self.pieces)
