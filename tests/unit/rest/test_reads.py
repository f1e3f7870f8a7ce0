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


import unittest
from unittest import mock

import ddt

from cinder_k2 import once
from cinder_k2 import rest
from cinder_k2.rest import overlooked
from cinder_k2.rest import query
from cinder_k2.rest import transport
from tests import contexts
from tests.unit.rest import scripted

ONE = {'id': 4, 'name': 'one'}
TWO = {'id': 3, 'name': 'two'}
POST = transport.Request('POST', '/volume_groups')


class Case(unittest.TestCase):

    def make(self, *script, works=()):
        self.client, self.array, self.clock = scripted.client(
            *script, works=works)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        return self.client.volume_groups

    def place(self, error):
        return error.address, error.method, error.path


class GetTest(Case):

    def test_path(self):
        groups = self.make()
        self.assertEqual('/volume_groups', groups.path)
        self.assertEqual(rest.Ref('volume_groups', 4), groups.ref(4))

    def test_found(self):
        groups = self.make(scripted.Reply(200, ONE))
        self.assertEqual('one', groups.get(4).name)
        self.assertEqual(['GET /volume_groups/4'], self.array.calls)

    def test_gone(self):
        groups = self.make(scripted.refusal('gone', 404))
        with self.assertRaisesRegex(rest.NotFound,
                                    'no such object') as caught:
            groups.get(4)
        self.assertEqual(('10.0.0.1', 'GET', '/volume_groups/4'),
                         self.place(caught.exception))

    def test_hint_is_compared(self):
        groups = self.make(scripted.Reply(200, ONE))
        with self.assertRaises(rest.NotFound):
            groups.get(4, name='two')

    def test_hint_is_the_search_condition(self):
        self.make(scripted.hits(
            {'id': 5, 'short_name': 's'}, {'id': 6, 'short_name': 's'}))
        self.assertEqual(6, self.client.snapshots.get(
            6, short_name='s').id)
        self.assertEqual('s', self.array.query(0)['short_name'])

    def test_first(self):
        groups = self.make(scripted.hits(ONE, TWO))
        self.assertEqual(4, groups.first(('__resolution', '5m')).id)
        self.assertEqual({'__resolution': '5m'}, self.array.query(0))
        self.assertEqual(['GET /volume_groups'], self.array.calls)


class SearchTest(Case):

    def test_sorted_by_id(self):
        groups = self.make(*[scripted.hits(
            {'id': 4, 'name': 'one'}, {'id': 3, 'name': 'one'})] * 3)
        self.assertEqual([3, 4], [each.id for each in groups.search(
            name='one')])
        self.assertEqual(3, groups.find(name='one').id)
        self.assertEqual('one', self.array.query(0)['name'])
        self.assertEqual([3, 4], [each.id for each in groups.search(
            query.equal('name', 'one'))])
        self.assertEqual('one', self.array.query(2)['name'])

    def test_none(self):
        groups = self.make(*[scripted.hits()] * 3)
        self.assertIsNone(groups.find(name='one'))
        self.assertEqual([], groups.search(name='one'))
        self.assertEqual(([], True), groups.some(name='one'))

    def test_some(self):
        groups = self.make(scripted.hits(ONE), scripted.hits(ONE))
        for found, complete in (groups.some(name='one'), groups.some(
                query.equal('name', 'one'))):
            self.assertEqual(([4], True),
                             ([each.id for each in found], complete))
        self.assertEqual(['one'] * 2, [
            self.array.query(number)['name'] for number in (0, 1)])

    def test_count(self):
        groups = self.make(*[scripted.hits(ONE, total=1)] * 2)
        self.assertEqual(1, groups.count(name='one'))
        self.assertEqual(1, groups.count(query.equal('name', 'one')))
        self.assertEqual(['one'] * 2, [
            self.array.query(number)['name'] for number in (0, 1)])

    def test_no_time_left(self):
        """No read starts once the deadline has passed."""
        groups = self.make()
        for ask in (groups.count, groups.find, groups.search):
            with self.client.deadline(0), self.assertRaises(
                    rest.Unreachable):
                ask(name='one')
        with self.client.deadline(0), self.assertRaises(rest.Unreachable):
            groups.get(4)


@ddt.ddt
class IncompleteTest(Case):
    """The array lists a part of its objects, and refuses more pages."""

    def setUp(self):
        super().setUp()
        # The refusal is logged.
        contexts.enter(self, self.assertLogs('cinder_k2.rest.capabilities'))

    def part(self, *objects):
        def reply(request):
            return (scripted.refusal('no pages') if '__offset' in request.url
                    else scripted.hits(*objects, total=100))
        groups = self.make()
        self.array.script = _Endless(reply)
        self.addCleanup(lambda: setattr(self.array, 'script', []))
        return groups

    def test_object_in_the_incomplete_list(self):
        self.assertEqual(4, self.part(ONE).find(name='one').id)

    @ddt.data('find', 'search')
    def test_object_not_in_the_incomplete_list(self, ask):
        groups = self.part(TWO)
        with self.assertRaisesRegex(
                rest.errors.Incomplete,
                'a part of the list only, and gives no further '
                'pages.*: HTTP 400: no pages') as caught:
            getattr(groups, ask)(name='one')
        self.assertEqual(('10.0.0.1', 'GET', '/volume_groups'),
                         self.place(caught.exception))

    def test_some(self):
        found, complete = self.part(ONE, TWO).some(name='one')
        self.assertEqual(([4], False), ([each.id for each in found],
                                        complete))

    def test_get(self):
        self.part({'id': 4, 'short_name': 's'})
        with self.assertRaises(rest.errors.Incomplete):
            self.client.snapshots.get(5, short_name='s')


class _Endless(list):

    def __init__(self, reply):
        super().__init__()
        self._reply = reply

    def pop(self, index=0):
        return self._reply


@ddt.ddt
class ReplyTest(Case):

    @ddt.data(ONE, {'hits': [ONE]}, {'hits': [ONE, TWO]})
    def test_one_object(self, data):
        """OBJ-2."""
        self.assertEqual('one', self.make().one(data, POST).name)

    @ddt.data({'hits': []}, {'hits': None}, {'name': 'one'}, [ONE], None)
    def test_no_object(self, data):
        with self.assertRaises(rest.BadReply) as caught:
            self.make().one(data, POST)
        self.assertEqual(('10.0.0.1', 'POST', '/volume_groups'),
                         self.place(caught.exception))
        self.assertEqual(200, caught.exception.status)

    def test_message_says_why(self):
        with self.assertRaisesRegex(rest.BadReply,
                                    "unusable reply: its id is 'x'"):
            self.make().one({'id': 'x'}, POST)

    def test_hits(self):
        groups = self.make()
        self.assertEqual([ONE, 5], groups.hits({'hits': [ONE, 5]}, POST))
        for data in ({}, {'hits': {}}, [ONE], None):
            with self.assertRaisesRegex(rest.BadReply,
                                        'the reply has no hits') as caught:
                groups.hits(data, POST)
            self.assertEqual('POST', caught.exception.method)

    def test_field_of_another_type(self):
        """OBJ-10: it is logged once."""
        contexts.enter(self, mock.patch.object(
            overlooked, 'TOLD', once.Once()))
        groups = self.make()
        with self.assertLogs('cinder_k2.rest.overlooked') as logs:
            self.assertIsNone(groups.one(
                {'id': 4, 'quota': 'much'}, POST).quota)
        self.assertEqual(1, len(logs.output))
        for word in ('10.0.0.1', 'quota', 'much'):
            self.assertIn(word, logs.output[0])
