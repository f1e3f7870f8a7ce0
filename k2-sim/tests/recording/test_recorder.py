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

"""What the recorder stores, what it omits, and its HTTP Archive."""

import datetime
import json
import re

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
import jsonschema
import testtools

from k2_sim.recording import masking
from tests import base
from tests.faults import test_faults

SECRET = 'very-secret-1'
# The structure of HTTP Archive 1.2; fields of our own begin with "_".
_PAIRS = {'type': 'array', 'items': {
    'type': 'object', 'required': ['name', 'value'],
    'properties': {'name': {'type': 'string'}, 'value': {'type': 'string'}},
    'additionalProperties': False}}
_SIZE = {'type': 'integer', 'minimum': -1}
_TIME = {'type': 'number', 'minimum': 0}


def _object(required, **optional):
    return {'type': 'object', 'required': list(required),
            'properties': {**required, **optional},
            'patternProperties': {'^_': {}}, 'additionalProperties': False}


_TEXT = {'type': 'string'}
_REQUEST = _object(
    {'method': _TEXT, 'url': {'type': 'string', 'pattern': '^https?://'},
     'httpVersion': _TEXT, 'cookies': {'type': 'array'}, 'headers': _PAIRS,
     'queryString': _PAIRS, 'headersSize': _SIZE, 'bodySize': _SIZE},
    postData=_object({'mimeType': _TEXT, 'text': _TEXT}))
_RESPONSE = _object(
    {'status': {'type': 'integer'}, 'statusText': _TEXT,
     'httpVersion': _TEXT, 'cookies': {'type': 'array'}, 'headers': _PAIRS,
     'content': _object({'size': {'type': 'integer'}, 'mimeType': _TEXT},
                        text=_TEXT),
     'redirectURL': _TEXT, 'headersSize': _SIZE, 'bodySize': _SIZE})
_ENTRY = _object(
    {'startedDateTime': _TEXT, 'time': _TIME, 'request': _REQUEST,
     'response': _RESPONSE, 'cache': {'type': 'object'},
     'timings': _object({'send': _TIME, 'wait': _TIME, 'receive': _TIME})})
HAR = _object({'log': _object({
    'version': {'const': '1.2'},
    'creator': _object({'name': _TEXT, 'version': _TEXT}),
    'entries': {'type': 'array', 'items': _ENTRY}})})


class TestRecorder(test_faults.FaultsTest):

    def setUp(self):
        super().setUp()
        self.sim(200, 'POST', 'recorder', {'running': True})

    def entries(self):
        archive = self.sim(200, 'GET', 'recorder/har')
        jsonschema.validate(archive, HAR)
        return archive['log']['entries']

    def test_entry(self):
        self.control.set_latency(0.25)
        self.clock.advance(3600)
        headers = {**base.authorization(), 'Content-Type': base.JSON,
                   'Host': 'k2.example:8443'}
        with self.array.exchange('POST', '/api/v2/host_groups', '__pretty&a=b',
                                 headers, b'{"name": "hg"}') as exchange:
            self.clock.sleep(exchange.delay)
        entry, = self.entries()
        self.assertEqual(250, entry['time'])
        self.assertEqual(
            datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.timezone.utc),
            datetime.datetime.fromisoformat(entry['startedDateTime']))
        asked, answered = entry['request'], entry['response']
        self.assertEqual('https://k2.example:8443/api/v2/host_groups'
                         '?__pretty&a=b', asked['url'])
        self.assertEqual({'name': 'hg'}, json.loads(
            asked['postData']['text']))
        self.assertIn({'name': 'a', 'value': 'b'}, asked['queryString'])
        self.assertEqual((201, 'Created', 5), (
            answered['status'], answered['statusText'],
            json.loads(answered['content']['text'])['id']))

    def test_starts_and_stops(self):
        self.get('volumes')
        self.sim(200, 'POST', 'recorder', {'running': False})
        self.get('hosts')
        self.assertEqual(1, len(self.entries()))
        status = self.sim(200, 'PATCH', 'recorder', {'running': True})
        self.assertEqual((True, 0), (status['running'], status['records']))
        self.get('hosts')
        self.assertTrue(self.entries()[0]['request']['url'].endswith('hosts'))
        self.sim(204, 'DELETE', 'recorder')
        self.assertEqual([], self.entries())
        self.assertFalse(self.sim(200, 'GET', 'recorder')['running'])

    def test_reset_forgets(self):
        self.get('volumes')
        self.control.reset()
        self.get('volumes')
        self.assertEqual([], self.entries())

    def test_bounds(self):
        """The newest entries stay within the size limit."""
        self.sim(200, 'POST', 'recorder', {'running': True, 'kib': 16})
        for number in range(60):
            self.get(f'volumes?name={number}')
        status = self.sim(200, 'GET', 'recorder')
        self.assertLessEqual(status['bytes'], 16 * 1024)
        self.assertGreater(status['records'], 5)
        self.assertEqual(60, status['records'] + status['dropped'])
        self.assertTrue(self.entries()[-1]['request']['url'].endswith('=59'))
        self.get('__full')
        self.assertLessEqual(self.sim(200, 'GET', 'recorder')['bytes'],
                             16 * 1024)

    def test_without_sense(self):
        for body in ({}, {'running': 1}, {'running': True, 'kib': 0},
                     {'running': True, 'kib': 'x'}, {'x': 1},
                     {'running': False, 'kib': 5},
                     {'running': True, 'kib': 2 ** 30}):
            self.sim(400, 'POST', 'recorder', body)

    def test_faults(self):
        """What the client saw is recorded, not what was carried out."""
        for kind in ('reset', 'truncated', 'garbage'):
            self.control.add_fault(kind=kind, times=1)
        self.control.add_fault(kind='reset', times=1, commit='after')
        for _ in range(4):
            self.exchange()
        found = self.entries()
        self.assertEqual(
            [('reset', False, 0), ('truncated', True, 200),
             ('garbage', True, 200), ('reset', True, 0)],
            [(entry['_fault'], entry['_carriedOut'],
              entry['response']['status']) for entry in found])
        self.assertIn('no JSON', found[1]['response']['content']['text'])

    def test_no_secrets(self):
        """Login, CHAP secrets, passwords of peers: found nowhere."""
        for path, body in (
                ('host_auth_profiles', {
                    'name': 'c', 'type': 'CHAP', 'username': 'user',
                    'password': SECRET}),
                ('host_auth_profiles/__bulk', [{
                    'name': 'd', 'type': 'CHAP', 'username': 'other',
                    'password': SECRET}]),
                ('replication/peer_k2arrays', {
                    'name': 'p', 'password': SECRET,
                    'local_password': SECRET})):
            self.call('POST', path, body)
        self.call('PATCH', 'host_auth_profiles/1', {'new_password': SECRET})
        self.call('GET', f'volumes?password={SECRET}&name=x')
        self.call('POST', 'hosts', {'deep': [{'Chap_Secret': SECRET}]})
        self.array.handle('POST', '/api/v2/volumes', '', {
            **base.authorization(), 'Content-Type': base.JSON,
            'Cookie': SECRET, 'X-Auth-Token': SECRET, 'X-Api-Key': SECRET,
            'X-Vault': SECRET, 'Referer': f'https://x/?t={SECRET}'},
            f'{{"password": "{SECRET}'.encode())
        self.call('GET', f'volumes?api_key={SECRET}')
        self.call('POST', 'hosts', {
            'apiKey': SECRET, 'Credentials': {'x': SECRET},
            'passphrase': SECRET, 'private_key': SECRET})
        text = json.dumps(self.entries())
        self.assertNotIn(SECRET, text)
        self.assertNotIn(base.authorization()['Authorization'][6:], text)
        self.assertIn(masking.MASK, text)
        self.assertIn('other', text)

    def test_journal(self):
        """It shows queries, also to users of the console."""
        self.call('GET', f'volumes?password={SECRET}&name=x')
        self.assertNotIn(SECRET, str(self.control.journal()))
        self.assertIn('name=x', self.control.journal()[0].query)

    def test_the_end_of_all_dates(self):
        """The clock does not reach it; one of a test can."""
        self.assertEqual('Time ends with the year 9998', self.sim(
            400, 'POST', 'clock', {'advance': 260000000000})['error_msg'])
        for _ in range(2):
            self.sim(400, 'POST', 'clock', {'advance': float('1e300')})
        self.clock.advance(253402300800 - self.clock.time())
        self.exchange()
        self.assertEqual(
            'An archive has no dates beyond the year 9999',
            self.sim(400, 'GET', 'recorder/har')['error_msg'])

    def test_far_away(self):
        self.sim(204, 'POST', 'clock', {'advance': 251603539199 - 100})
        self.exchange()
        self.assertEqual('9998-12-31', self.entries()[0][
            'startedDateTime'][:10])

    def test_control_is_not_recorded(self):
        self.sim(200, 'GET', 'journal')
        self.assertEqual([], self.entries())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items))


class TestMasking(testtools.TestCase):

    def test_queries(self):
        """However the name is written; others stay as they are."""
        for text in ('', 'name=a%2Cb&x', '__limit=5&name__in=a,b', 'a=&b'):
            self.assertEqual(text, masking.query(text))
        for name in ('password', 'pass%77ord', 'New_Token', 'api%5fkey'):
            masked = masking.query(f'{name}={SECRET}&name=x')
            self.assertNotIn(SECRET, masked)
            self.assertIn('name=x', masked)

    def test_headers(self):
        """In any case, those of a reply, too; unknown ones as well."""
        kept = {'Content-Type': 'x', 'USER-AGENT': 'x', 'host': 'x',
                'X-K2-Sequence': 'a=1'}
        hidden = ('Set-Cookie', 'AUTHORIZATION', 'X-Auth-Token', 'x-api-key',
                  'Proxy-Authorization', 'X-Anything', 'Referer')
        self.assertEqual(
            {**kept, **dict.fromkeys(hidden, masking.MASK)},
            masking.headers({**kept, **dict.fromkeys(hidden, SECRET)}))

    @given(JSON,
           st.sampled_from((
               'password', 'New_Password', 'secret', 'chap_secret',
               'app_token', 'api_key', 'ApiKey', 'credentials',
               'Authorization')),
           st.sampled_from((SECRET, [SECRET], {'x': SECRET}, 5)))
    def test_anywhere(self, value, name, secret):
        """However deep it is, and whatever its type; all else stays."""
        hypothesis.assume(not re.search(
            'pass|secret|token|credential|key|authorization',
            json.dumps(value), re.IGNORECASE))
        body = json.dumps({'outer': [value, {name: secret}]}).encode()
        self.assertEqual({'outer': [value, {name: masking.MASK}]},
                         json.loads(masking.body(body)))

    @given(st.binary(min_size=1))
    def test_whatever_is_sent(self, data):
        """Of bodies that are not JSON, only the length remains."""
        try:
            expected = json.loads(data)
        except ValueError:
            self.assertEqual(b'(%d bytes that are no JSON)' % len(data),
                             masking.body(data))
        else:
            self.assertEqual(str(expected),
                             str(json.loads(masking.body(data))))

    def test_numbers_beyond_all_bounds(self):
        body = b'[1e999, %d]' % 10 ** 40
        self.assertEqual(10 ** 40, json.loads(masking.body(body))[1])
