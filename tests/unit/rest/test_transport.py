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


import base64
import gzip
import io
import json
import logging
import time
import unittest
from unittest import mock

import ddt
import requests
import urllib3
import urllib3.exceptions

from cinder_k2 import rest
from cinder_k2.rest import connections
from cinder_k2.rest import transport
from tests.unit.rest import scripted

GET = transport.Request('GET', '/volumes', 'name=v')
POST = transport.Request('POST', '/volumes', body={'name': 'v'},
                         sequence='k2-1=1')
PIN = 'ab' * 32


class Adapter(scripted.Adapter):
    """Records the options of each request."""

    def __init__(self, *script):
        super().__init__(*script)
        self.options = []

    def send(self, request, **options):
        self.options.append(options)
        return super().send(request, **options)


class BrokenBody(urllib3.HTTPResponse):
    """The body of a reply that fails after its first bytes."""

    def __init__(self, error):
        super().__init__(io.BytesIO(b'{"id"'), preload_content=False)
        self._error = error

    def read(self, *args, **kwargs):
        raise self._error


class Case(unittest.TestCase):

    def make(self, *script, **settings):
        settings = {'address': '10.0.0.1', 'login': 'admin',
                    'password': 'Secr3t-word'} | settings
        self.array = Adapter(*script)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        return transport.Transport(rest.Settings(**settings), self.array)

    def sent(self):
        """The one request that was sent."""
        (request,) = self.array.requests
        return request

    def fails(self, kind, words, failure, **settings):
        made = self.make(failure, **settings)
        with self.assertRaisesRegex(kind, words) as caught:
            made.exchange(GET, 5, 1)
        self.assertIs(kind, type(caught.exception))
        self.assertEqual(('10.0.0.1', 'GET', '/volumes'), (
            caught.exception.address, caught.exception.method,
            caught.exception.path))
        return caught.exception


@ddt.ddt
class RequestTest(Case):

    def test_a_read(self):
        made = self.make(scripted.Reply(200, {'id': 1}))
        self.assertEqual(b'{"id": 1}', made.exchange(GET, 5, 1))
        sent = self.sent()
        self.assertEqual(
            ('GET', 'https://10.0.0.1/api/v2/volumes?name=v', None),
            (sent.method, sent.url, sent.body))
        self.assertEqual('application/json', sent.headers['Accept'])
        self.assertEqual('application/json', sent.headers['Content-Type'])
        self.assertEqual('Basic ' + base64.b64encode(
            b'admin:Secr3t-word').decode(), sent.headers['Authorization'])
        self.assertNotIn('X-K2-Sequence', sent.headers)

    def test_a_write(self):
        made = self.make(scripted.Reply(201, {'id': 1}))
        made.exchange(POST, 5, 1)
        sent = self.sent()
        self.assertEqual(('POST', 'https://10.0.0.1/api/v2/volumes'),
                         (sent.method, sent.url))
        self.assertEqual({'name': 'v'}, json.loads(sent.body))
        self.assertEqual('k2-1=1', sent.headers['X-K2-Sequence'])

    def test_an_empty_list_is_a_body(self):
        made = self.make(scripted.Reply(200))
        made.exchange(transport.Request('DELETE', '/x', body=[]), 5, 1)
        self.assertEqual(b'[]', self.sent().body)

    def test_a_token(self):
        """CON-3."""
        made = self.make(scripted.Reply(200), sdp_id='s1', token='t0k',
                         login='', password='')
        made.exchange(GET, 5, 1)
        self.assertEqual('Bearer t0k', self.sent().headers['Authorization'])
        self.assertEqual(
            'https://10.0.0.1/rest/sdps/s1/api/v2/volumes?name=v',
            self.sent().url)

    @ddt.data((1, (1, 1)), (5, (3, 5)), (60, (3, 9)))
    @ddt.unpack
    def test_timeouts(self, timeout, expected):
        made = self.make(*[scripted.Reply(200)] * 2, connect_timeout=3,
                         read_timeout=9)
        made.exchange(GET, timeout, 1)
        made.reply(GET, timeout, 1)
        self.assertEqual([expected] * 2, [
            options['timeout'] for options in self.array.options])

    @ddt.data(({}, False), ({'verify': True}, True),
              ({'verify': True, 'ca_path': '/'}, '/'),
              ({'ca_path': '/'}, False),
              ({'verify': True, 'fingerprint': PIN}, False))
    @ddt.unpack
    def test_request_options(self, settings, verify):
        """No proxies, and bodies are streamed."""
        made = self.make(scripted.Reply(200), **settings)
        made.exchange(GET, 5, 1)
        options = self.array.options[0]
        self.assertEqual((verify, {}, True), (
            options['verify'], options['proxies'], options['stream']))

    def test_environment_is_ignored(self):
        made = self.make()
        self.assertIs(False, made._http.trust_env)

    def test_connection_pool(self):
        made = transport.Transport(rest.Settings(
            address='10.0.0.1', login='a', password='b', fingerprint=PIN,
            pool_size=3), None)
        self.addCleanup(made.close)
        adapter = made._http.get_adapter('https://10.0.0.1/')
        self.assertIsInstance(adapter, connections.Adapter)
        options = adapter.poolmanager.connection_pool_kw
        self.assertEqual((PIN, 3), (options['assert_fingerprint'],
                                    options['maxsize']))


@ddt.ddt
class ReplyTest(Case):

    @ddt.data(200, 201, 204, 299)
    def test_success(self, status):
        self.assertEqual(b'x', self.make(
            scripted.Reply(status, b'x')).exchange(GET, 5, 1))

    @ddt.data((300, rest.BadReply), (199, rest.BadReply),
              (404, rest.NotFound), (429, rest.Busy))
    @ddt.unpack
    def test_failure(self, status, kind):
        error = self.fails(kind, 'the words',
                           scripted.refusal('the words', status))
        self.assertEqual(status, error.status)

    @ddt.data(200, 302, 500)
    def test_reply_of_any_status(self, status):
        made = self.make(scripted.Reply(status, b'x'))
        reply, body = made.reply(POST, 5, 1)
        self.assertEqual((status, b'x'), (reply.status_code, body))
        self.assertEqual(b'{"name": "v"}', self.sent().body)

    def read(self, raw, timeout=60, call='exchange'):
        made = self.make(scripted.Reply(200))
        send = self.array.send

        def streamed(request, **options):
            reply = send(request, **options)
            reply._content, reply.raw = False, raw
            return reply
        self.array.send = streamed
        return getattr(made, call)(GET, timeout, 1)

    def test_a_body_in_parts(self):
        text = b'0123456789' * 20000
        self.assertEqual(text, self.read(urllib3.HTTPResponse(
            io.BytesIO(text), preload_content=False)))

    def test_compressed_body(self):
        self.assertEqual(b'{"id": 1}', self.read(urllib3.HTTPResponse(
            io.BytesIO(gzip.compress(b'{"id": 1}')), preload_content=False,
            headers={'Content-Encoding': 'gzip'})))

    @ddt.data('exchange', 'reply')
    def test_time_for_the_whole_reply(self, call):
        """It begins with the request."""
        raw = BrokenBody(urllib3.exceptions.ReadTimeoutError(None, '/', 'x'))
        with mock.patch.object(time, 'monotonic', autospec=True,
                               return_value=1000.0), \
                mock.patch.object(connections, 'until', autospec=True
                                  ) as until:
            self.assertRaises(rest.errors.NoReply, self.read, raw, 5, call)
        until.assert_called_once_with(1005)
        # It ends after the body was read.
        until.return_value.__exit__.assert_called_once_with(
            requests.ReadTimeout, mock.ANY, mock.ANY)

    def test_body_stops(self):
        with self.assertRaisesRegex(rest.errors.NoReply,
                                    'no reply in time'):
            self.read(BrokenBody(urllib3.exceptions.ReadTimeoutError(
                None, '/', 'no more')))

    def test_truncated_body(self):
        with self.assertRaisesRegex(rest.BadReply, 'was truncated') as caught:
            self.read(BrokenBody(urllib3.exceptions.ProtocolError('cut')))
        self.assertEqual('/volumes', caught.exception.path)

    def test_json(self):
        made = self.make()
        self.assertEqual({'id': 1}, made.decode(GET, b'{"id": 1}'))
        for body, words in ((b'', 'the reply is empty'),
                            (b'<html>', 'the reply is no JSON'),
                            (b'[' * 100000, 'the reply is no JSON')):
            with self.assertRaises(rest.BadReply) as caught:
                made.decode(GET, body)
            self.assertEqual((words, 200, '/volumes'), (
                caught.exception.message, caught.exception.status,
                caught.exception.path))

    def test_place(self):
        """It names the replication device whose options are concerned."""
        self.assertEqual(
            rest.errors.Place('10.0.0.1:444', 'POST', '/volumes', 'second'),
            self.make(device='second', port=444).place(POST))


@ddt.ddt
class FailureTest(Case):

    @ddt.data(
        (requests.ConnectTimeout('x'), rest.errors.NotConnected,
         'no connection in time'),
        (requests.ReadTimeout('x'), rest.errors.NoReply, 'no reply in time'),
        (requests.ConnectionError('aborted'), rest.Unreachable, 'aborted'),
        (requests.ConnectionError(urllib3.exceptions.NewConnectionError(
            None, 'refused')), rest.errors.NotConnected, 'refused'),
        (requests.ConnectionError(urllib3.exceptions.ConnectTimeoutError(
            'slow')), rest.errors.NotConnected, 'slow'),
        (requests.exceptions.ChunkedEncodingError('x'), rest.BadReply,
         'the reply was truncated'),
        (requests.exceptions.ContentDecodingError('x'), rest.BadReply,
         'the reply was truncated'),
        (OSError('no CA bundle'), rest.CertificateError, 'no CA bundle'))
    @ddt.unpack
    def test_error_classes(self, failure, kind, words):
        error = self.fails(kind, words, failure)
        # Messages of urllib3 begin with the connection.
        self.assertRegex(error.message, f'^(None: )?{words}$')
        self.assertIs(failure, error.__cause__)

    def test_a_certificate(self):
        error = self.fails(
            rest.CertificateError, 'has the SHA-256 bb',
            requests.exceptions.SSLError(urllib3.exceptions.SSLError(
                'Fingerprints did not match. got "bb"')))
        self.assertIn('the connection may be intercepted', error.advice)


class LogTest(Case):

    def logged(self, call, *script, request=GET, timeout=5):
        made = self.make(*script)
        with self.assertLogs('cinder_k2.rest.transport',
                             logging.DEBUG) as logs:
            try:
                getattr(made, call)(request, timeout, 3)
            except rest.RestError:
                pass
        (record,) = logs.records
        self.assertEqual(logging.DEBUG, record.levelno)
        return record.getMessage()

    def test_outcomes(self):
        line = r'GET https://10.0.0.1/api/v2/volumes\?name=v: '
        end = r', \d+ ms, attempt 3$'
        for call in ('exchange', 'reply'):
            for step, outcome in ((scripted.Reply(200), '200'),
                                  (scripted.Reply(500), '500'),
                                  (requests.ReadTimeout(), 'no reply')):
                self.assertRegex(self.logged(call, step),
                                 f'^{line}{outcome}{end}')
        self.assertRegex(
            self.logged('exchange', scripted.Reply(201), request=POST),
            f'^POST https://10.0.0.1/api/v2/volumes: 201{end}')
