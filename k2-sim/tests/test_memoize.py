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

"""No text that clients send fills up the memory."""

import base64
import unittest

from k2_sim.access import users
from k2_sim import errors
from k2_sim import memoize
from k2_sim.protocol import query
from k2_sim.state import schema


class RememberedTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.asked = []

        @memoize.short(2)
        def count(text):
            self.asked.append(text)
            if not text:
                raise ValueError
            return len(self.asked)

        self.count = count

    def test_short_texts(self):
        self.assertEqual([1, 1, 2, 1], [
            self.count(text) for text in ('a', 'a', 'b', 'a')])

    def test_the_last_ones(self):
        for text in ('a', 'b', 'c', 'a'):
            self.count(text)
        self.assertEqual(['a', 'b', 'c', 'a'], self.asked)

    def test_long_texts(self):
        for _ in range(2):
            self.count('x' * 1000)
        self.assertEqual(2, len(self.asked))

    def test_refusals(self):
        for _ in range(2):
            self.assertRaises(ValueError, self.count, '')
        self.assertEqual(2, len(self.asked))


class MemoryTest(unittest.TestCase):
    """Users of the cache do not store long texts."""

    def test_queries(self):
        self.assertIs(query.parse('name=a'), query.parse('name=a'))
        text = 'name=' + 'a' * 1000
        self.assertIsNot(query.parse(text), query.parse(text))

    def test_references(self):
        """One that is refused later may be as long as a body."""
        self.assertIs(schema.split_ref('/volumes/7'),
                      schema.split_ref('/volumes/7'))
        ref = f'/{"a" * 1000}/7'
        self.assertIsNot(schema.split_ref(ref), schema.split_ref(ref))

    def test_headers(self):
        accounts = users.Users([users.User('admin', 'x' * 1000)])
        for password, good in (('x' * 1000, True), ('x' * 999, False)):
            header = 'Basic ' + base64.b64encode(
                f'admin:{password}'.encode()).decode()
            if good:
                self.assertEqual('admin',
                                 accounts.authenticate(header).login)
            else:
                self.assertRaises(errors.ApiError, accounts.authenticate,
                                  header)
