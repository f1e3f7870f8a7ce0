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

"""Connections: the time limit of a reply, and hosts with many addresses."""

import http.client
import io
import socket
import time
import unittest
from unittest import mock

import ddt
import urllib3.exceptions
import urllib3.util.connection

from cinder_k2.rest import connections

PIN = 'ab' * 32
REPLY = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'
CHUNKED = (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
           b'2\r\n{}\r\n0\r\n\r\n')


class Trickle(io.RawIOBase):
    """Gives one byte a second."""

    def __init__(self, clock, data):
        self._clock = clock
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        self._clock.return_value += 1
        return self._data.readinto(memoryview(buffer)[:1])


class Socket:
    """A socket that remembers the timeouts that it was given."""

    def __init__(self, received, timeout):
        self._received = received
        self.timeouts = [timeout]

    def makefile(self, mode):
        assert mode == 'rb'
        return self._received

    def gettimeout(self):
        return self.timeouts[-1]

    def settimeout(self, seconds):
        self.timeouts.append(seconds)


@ddt.ddt
class ResponseTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        patcher = mock.patch.object(time, 'monotonic', autospec=True,
                                    return_value=1000.0)
        self.clock = patcher.start()
        self.addCleanup(patcher.stop)

    def reply(self, data, timeout=60):
        self.socket = Socket(io.BufferedReader(Trickle(self.clock, data)),
                             timeout)
        pool = connections.Adapter(1, None).poolmanager.connection_from_url(
            'https://k2.example.org')
        return pool.ConnectionCls.response_class(self.socket, method='GET')

    @staticmethod
    def body(reply):
        reply.begin()
        return reply.read()

    @ddt.data(REPLY, CHUNKED)
    def test_in_time(self, data):
        with connections.until(1000 + len(data) + 1):
            self.assertEqual(b'{}', self.body(self.reply(data)))

    @ddt.data(*range(1, len(REPLY), 3))
    def test_late(self, seconds):
        """Status, headers or body: it makes no difference."""
        with connections.until(1000 + seconds):
            reply = self.reply(REPLY)
            self.assertRaises(TimeoutError, self.body, reply)
        self.assertEqual(1000 + seconds, self.clock.return_value)

    @ddt.data(*range(1, len(CHUNKED), 7))
    def test_late_in_chunks(self, seconds):
        with connections.until(1000 + seconds):
            reply = self.reply(CHUNKED)
            self.assertRaises(TimeoutError, self.body, reply)

    @ddt.data((3, [2, 3, 1, 3]), (1, [1, 1, 1, 1]), (None, [2, None, 1, None]))
    @ddt.unpack
    def test_wait_for_one_byte(self, timeout, expected):
        """It ends at the limit at the latest; then the timeout is restored."""
        with connections.until(1002):
            reply = self.reply(REPLY, timeout)
            self.assertRaises(TimeoutError, reply.begin)
        self.assertEqual([timeout, *expected], self.socket.timeouts)

    def test_wait_that_ends_in_an_error(self):
        with connections.until(1002):
            reply = self.reply(REPLY, 3)
        with mock.patch.object(Trickle, 'readinto', autospec=True,
                               side_effect=TimeoutError):
            self.assertRaises(TimeoutError, reply.begin)
        self.assertEqual(3, self.socket.gettimeout())

    def test_limit_of_the_request_that_was_sent(self):
        """It includes the body, and does not apply to other requests."""
        with connections.until(1005):
            limited = self.reply(REPLY)
        unlimited = self.reply(REPLY)
        self.assertRaises(TimeoutError, self.body, limited)
        self.assertEqual(b'{}', self.body(unlimited))
        self.assertEqual([60], self.socket.timeouts)

    def test_limits_within_limits(self):
        with connections.until(1005):
            with connections.until(2000):
                self.assertEqual(b'{}', self.body(self.reply(REPLY)))
            self.assertRaises(TimeoutError, self.body, self.reply(REPLY))

    def test_cut_short(self):
        with connections.until(2000):
            self.assertRaises(http.client.IncompleteRead, self.body,
                              self.reply(REPLY[:-1]))

    def test_closed_with_the_reply(self):
        with connections.until(2000):
            reply = self.reply(REPLY)
        received = self.socket.makefile('rb')
        self.body(reply)
        self.assertTrue(received.closed)


class AddressesTest(unittest.TestCase):
    """A host with several addresses, some of which do not reply."""

    def setUp(self):
        super().setUp()
        self.addresses = ['192.0.2.1', '192.0.2.2', '2001:db8::3']
        self.silent, self.refusing, self.asked = set(), set(), []
        for target, name, options in (
                (time, 'monotonic', {'return_value': 1000.0}),
                (socket, 'getaddrinfo', {'side_effect': self.look_up}),
                (urllib3.util.connection, 'create_connection',
                 {'side_effect': self.connect})):
            patcher = mock.patch.object(target, name, autospec=True, **options)
            setattr(self, name, patcher.start())
            self.addCleanup(patcher.stop)
        self.connection = connections.Adapter(
            1, None).poolmanager.connection_from_url(
                'https://k2.example.org')._new_conn()
        self.connection.timeout = 9

    def look_up(self, host, port, **options):
        self.assertEqual(('k2.example.org', 443), (host, port))
        # getaddrinfo may return an address more than once.
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, '', (address, port))
                for address in self.addresses for _ in range(2)]

    def connect(self, address, timeout, **options):
        self.asked.append((address[0], timeout))
        if address[0] in self.silent:
            self.monotonic.return_value += timeout
            raise socket.timeout
        if address[0] in self.refusing:
            raise ConnectionRefusedError
        return mock.sentinel.socket

    def new(self):
        return self.connection._new_conn()

    def unchanged(self):
        """Assert that the certificate and later connections are the host's."""
        self.assertEqual('k2.example.org', self.connection.host)
        self.assertEqual(9, self.connection.timeout)

    def test_first_is_silent(self):
        self.silent = {'192.0.2.1'}
        self.assertIs(mock.sentinel.socket, self.new())
        self.assertEqual([('192.0.2.1', 3), ('192.0.2.2', 3)], self.asked)
        self.unchanged()

    def test_others_have_the_time_that_is_left(self):
        self.refusing = {'192.0.2.1'}
        self.silent = {'192.0.2.2'}
        self.assertIs(mock.sentinel.socket, self.new())
        self.assertEqual(
            [('192.0.2.1', 3), ('192.0.2.2', 4.5), ('2001:db8::3', 4.5)],
            self.asked)

    def test_all_are_silent(self):
        self.silent = set(self.addresses)
        self.assertRaises(urllib3.exceptions.ConnectTimeoutError, self.new)
        self.assertEqual(1009, self.monotonic.return_value)
        self.assertEqual(3, len(self.asked))
        self.unchanged()

    def test_time_is_used_up(self):
        """Each address is tried nevertheless, for a tenth of a second."""
        self.silent = set(self.addresses)
        self.connection.timeout = 0.03
        self.assertRaises(urllib3.exceptions.ConnectTimeoutError, self.new)
        self.assertEqual([0.1] * 3, [timeout for _, timeout in self.asked])

    def test_all_refuse(self):
        self.refusing = set(self.addresses)
        self.assertRaises(urllib3.exceptions.NewConnectionError, self.new)
        self.assertEqual(3, len(self.asked))

    def test_one_address(self):
        """The connection is left to urllib3."""
        self.addresses = ['192.0.2.1']
        self.new()
        self.assertEqual([('k2.example.org', 9)], self.asked)

    def test_unknown_name(self):
        self.getaddrinfo.side_effect = socket.gaierror
        self.new()
        self.assertEqual([('k2.example.org', 9)], self.asked)


class AdapterTest(unittest.TestCase):

    @staticmethod
    def options(pin):
        adapter = connections.Adapter(7, pin)
        return (adapter.poolmanager.connection_pool_kw,
                adapter.poolmanager.pools._maxsize)

    def test_pin(self):
        options, pools = self.options(PIN)
        self.assertEqual((PIN, 7, 1), (options['assert_fingerprint'],
                                       options['maxsize'], pools))

    def test_no_pin(self):
        self.assertNotIn('assert_fingerprint', self.options(None)[0])
