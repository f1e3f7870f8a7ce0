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

import ddt
import requests
import urllib3.exceptions

from cinder_k2 import rest
from cinder_k2.rest import raw
from tests.unit.rest import scripted


def answer(value=None, **fields):
    return raw.Answer(200, value, **fields)


@ddt.ddt
class AnswerTest(unittest.TestCase):

    ONE = {'id': 4, 'name': 'v'}

    def test_empty(self):
        """The answer for a request without a reply."""
        empty = raw.Answer(error=rest.RestError('gone'))
        self.assertEqual((None, None, '', 0, ''), (
            empty.status, empty.value, empty.content_type, empty.size,
            empty.form))
        self.assertEqual(('gone', False, [], 0, None), (
            empty.words, empty.ok, empty.hits, empty.total, empty.id))

    def test_words(self):
        self.assertEqual('HTTP 200', answer().words)
        self.assertEqual('HTTP 404: gone', raw.Answer(
            404, error=rest.NotFound('gone')).words)

    @ddt.data(({'hits': [ONE, 5, None]}, [ONE]), ({'hits': []}, []),
              ({'hits': {'id': 4}}, []), ({}, []), ([ONE], []), (None, []))
    @ddt.unpack
    def test_hits(self, value, hits):
        self.assertEqual(hits, answer(value).hits)

    @ddt.data(({'hits': []}, True), ({'hits': [5]}, True), ({}, False),
              ({'hits': None}, False), ([], False), (None, False))
    @ddt.unpack
    def test_is_list(self, value, is_list):
        self.assertIs(is_list, answer(value).is_list)
        self.assertFalse(answer(value, error=rest.Refused('no')).is_list)

    @ddt.data(({'hits': [ONE], 'total': 7}, 7), ({'hits': [ONE]}, 1),
              ({'hits': [ONE], 'total': '7'}, 1), ([], 0), (None, 0))
    @ddt.unpack
    def test_total(self, value, total):
        self.assertEqual(total, answer(value).total)

    @ddt.data((ONE, 'v'), ({'hits': [ONE]}, 'v'),
              ({'hits': [], 'name': 'w'}, 'w'), ({'id': 4}, None),
              ([], None), (None, None))
    @ddt.unpack
    def test_field(self, value, name):
        self.assertEqual(name, answer(value).field('name'))

    def test_id(self):
        self.assertEqual(4, answer(self.ONE).id)
        self.assertIsNone(answer({'hits': [self.ONE]}).id)


@ddt.ddt
class IdOfTest(unittest.TestCase):

    @ddt.data((4, 4), ('4', 4), (4.0, 4), (1, 1), (0, None), (-1, None),
              (True, None), ('x', None), (None, None), ([4], None),
              (float('inf'), None), (float('nan'), None))
    @ddt.unpack
    def test_id_of(self, id, expected):
        self.assertEqual(expected, raw.id_of({'id': id}))

    @ddt.data({}, [], None, 4)
    def test_no_object(self, value):
        self.assertIsNone(raw.id_of(value))


@ddt.ddt
class FormTest(unittest.TestCase):

    @ddt.data((('GET', 'volumes'), 'GET volumes'),
              (('PATCH', 'volumes', 4, ['size', 'name']),
               'PATCH volumes/# name size'),
              (('DELETE', 'volumes', 0), 'DELETE volumes/#'),
              (('GET', 'volumes', '/'), 'GET volumes/'),
              (('POST', 'volumes', '__bulk'), 'POST volumes/__bulk'),
              (('GET', 'volumes', 'x/'), 'GET volumes/x'))
    @ddt.unpack
    def test_form(self, request, form):
        self.assertEqual(form, raw.form(*request))


@ddt.ddt
class RawTest(unittest.TestCase):

    def make(self, *script, **settings):
        client, self.array, self.clock = scripted.client(*script, **settings)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        return client.raw

    def test_a_write(self):
        asked = self.make(scripted.Reply(
            201, b'{"id": 4}', {'Content-Type': 'application/json'})).ask(
                'POST', 'volumes', body={'size': 3, 'name': 'v'},
                sequence='k2-1=1')
        self.assertEqual(raw.Answer(
            201, {'id': 4}, 'application/json', 9, None,
            'POST volumes X-K2-Sequence name size'), asked)
        self.assertEqual(['POST /volumes'], self.array.calls)
        self.assertEqual({'size': 3, 'name': 'v'}, self.array.body(0))
        self.assertEqual(['k2-1=1'], self.array.sequences())

    def test_a_list_of_objects(self):
        asked = self.make(scripted.Reply(204)).ask(
            'DELETE', 'volumes', '__bulk', body=[{'id': 4}])
        self.assertEqual('DELETE volumes/__bulk', asked.form)
        self.assertEqual([{'id': 4}], self.array.body(0))

    def test_a_query(self):
        """Text that is already percent-encoded is left alone."""
        asked = self.make(scripted.hits()).ask(
            'GET', 'volumes', query=iter([('name', 'a b&c%20'),
                                          ('__limit', '1')]))
        self.assertEqual('GET volumes __limit name', asked.form)
        self.assertTrue(self.array.requests[0].url.endswith(
            '/volumes?name=a+b%26c%20&__limit=1'))

    @ddt.data((('', ''), ''), (('', '/'), '/'), (('volumes', ''), '/volumes'),
              (('volumes', '/'), '/volumes/'), (('volumes', 4), '/volumes/4'),
              (('volumes', 0), '/volumes/0'))
    @ddt.unpack
    def test_paths(self, where, path):
        self.make(scripted.Reply(200)).ask('GET', *where)
        self.assertEqual('https://10.0.0.1/api/v2' + path,
                         self.array.requests[0].url)

    def test_a_refusal(self):
        asked = self.make(scripted.refusal('no such object', 404)).ask(
            'GET', 'volumes', 4)
        self.assertIsInstance(asked.error, rest.NotFound)
        self.assertEqual(('/volumes/4', 404, 'GET volumes/#'), (
            asked.error.path, asked.status, asked.form))
        self.assertEqual({'error_msg': 'no such object'}, asked.value)

    @ddt.data((200, True), (299, True), (300, False), (199, False))
    @ddt.unpack
    def test_statuses(self, status, fine):
        asked = self.make(scripted.Reply(status)).ask('GET', 'volumes')
        self.assertEqual((fine, None, '', 0), (
            asked.ok, asked.value, asked.content_type, asked.size))

    @ddt.data(b'<html>', b'[' * 100000)
    def test_invalid_json(self, body):
        asked = self.make(scripted.Reply(200, body)).ask('GET', 'volumes')
        self.assertEqual((None, len(body)), (asked.value, asked.size))

    def test_no_reply(self):
        """It is not sent again."""
        asked = self.make(requests.ReadTimeout(), read_timeout=100).ask(
            'GET', 'volumes')
        self.assertEqual('no reply in time', asked.words)
        self.assertEqual([(10, 60)], self.array.timeouts)

    @ddt.data(
        (scripted.refusal('who?', 401), rest.AuthenticationFailed),
        (requests.exceptions.SSLError(urllib3.exceptions.SSLError(
            'Fingerprints did not match.')), rest.CertificateError),
        (requests.ConnectTimeout(), rest.errors.NotConnected))
    @ddt.unpack
    def test_errors_that_are_raised(self, step, kind):
        with self.assertRaises(kind) as caught:
            self.make(step).ask('GET', 'volumes')
        self.assertEqual('/volumes', caught.exception.path)

    def test_pause_before_the_request(self):
        self.make(scripted.Reply(200), pause=2.0).ask('GET', 'volumes')
        self.assertEqual([2.0], self.clock.sleeps)
