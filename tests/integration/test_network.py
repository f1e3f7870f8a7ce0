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

"""The REST client over real sockets: TLS and connections."""

import base64
import contextlib
import datetime
import hashlib
import logging
import os
import pathlib
import shutil
import socket
import ssl
import tempfile
import threading
import traceback
import unittest
from unittest import mock
import warnings

from cryptography import x509
import ddt
import urllib3.exceptions

from cinder_k2 import rest
import k2_sim
from k2_sim.adapters import tls as simulator_tls
from tests.unit.rest import scripted

YESTERDAY = datetime.datetime.now(datetime.timezone.utc) - (
    datetime.timedelta(days=2))


class Case(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.authority = simulator_tls.make_authority(cls.directory)
        cls.certificate = cls.issue()
        cls.array = k2_sim.Array('sdp')

    @classmethod
    def issue(cls, **times):
        directory = tempfile.mkdtemp(dir=cls.directory)
        return simulator_tls.issue(cls.authority, (), directory, **times)

    def serve(self, certificate=None, host='127.0.0.1'):
        server = k2_sim.Server(
            self.array, certificate or self.certificate, host)
        server.start()
        self.addCleanup(server.stop)
        return server

    def client(self, port, host='127.0.0.1', clock=None, **fields):
        client = rest.Client(rest.Settings(**{
            'address': host, 'port': port, 'login': 'admin',
            'password': 'admin', 'deadline': 60.0} | fields), clock=clock)
        self.addCleanup(client.close)
        return client

    def refused(self, client, *words):
        with self.assertRaises(rest.CertificateError) as caught:
            client.system_state()
        line = str(caught.exception)
        for word in ('K2 array', client.address, *words):
            self.assertIn(word, line)
        self.assertNotIn('\n', line)


@ddt.ddt
class TrustTest(Case):

    def test_an_unknown_authority_is_refused(self):
        self.refused(self.client(self.serve().port, verify=True),
                     'driver_ssl_cert_path', 'k2_tls_fingerprint')

    def test_refused_at_once(self):
        clock = scripted.FakeClock()
        self.refused(self.client(self.serve().port, clock=clock, verify=True))
        self.assertEqual([], clock.sleeps)

    def test_the_authority_in_a_file(self):
        client = self.client(self.serve().port, verify=True,
                             ca_path=str(self.authority.path))
        self.assertEqual('ONLINE', client.system_state().state)

    def test_the_authority_in_a_directory(self):
        directory = tempfile.mkdtemp(dir=self.directory)
        subject = x509.load_pem_x509_certificate(
            self.authority.path.read_bytes()).subject
        hashed = f'{_openssl_hash(subject):08x}.0'
        port = self.serve().port
        self.refused(self.client(port, verify=True, ca_path=directory),
                     'openssl rehash')
        shutil.copy(self.authority.path, pathlib.Path(directory, hashed))
        client = self.client(port, verify=True, ca_path=directory)
        self.assertEqual('ONLINE', client.system_state().state)

    def test_another_authority(self):
        other = simulator_tls.make_authority(
            tempfile.mkdtemp(dir=self.directory))
        self.refused(self.client(self.serve().port, verify=True,
                                 ca_path=str(other.path)),
                     'driver_ssl_cert_path')

    def test_the_authority_goes_away(self):
        directory = tempfile.mkdtemp(dir=self.directory)
        path = simulator_tls.make_authority(directory).path
        port = self.serve().port
        one, two = [self.client(port, verify=True, ca_path=str(path))
                    for _ in range(2)]
        path.write_text('no certificate')
        self.refused(one, 'driver_ssl_cert_path')
        path.unlink()
        self.refused(two, 'driver_ssl_cert_path')

    def test_expired(self):
        server = self.serve(self.issue(start=YESTERDAY, days=1))
        self.refused(
            self.client(server.port, verify=True,
                        ca_path=str(self.authority.path)),
            'certificate has expired', 'renew')

    def test_another_name(self):
        # Every address of the loopback network reaches the server.
        server = self.serve(host='127.0.0.2')
        self.refused(
            self.client(server.port, '127.0.0.2', verify=True,
                        ca_path=str(self.authority.path)),
            'IP address mismatch', 'san_ip')

    def test_without_verification(self):
        server = self.serve(self.issue(start=YESTERDAY, days=1))
        self.assertEqual('ONLINE', self.client(
            server.port).system_state().state)

    @ddt.data({}, {'verify': True}, {'verify': True, 'ca_path': os.sep})
    def test_the_right_fingerprint_is_enough(self, fields):
        client = self.client(self.serve().port, **fields,
                             fingerprint=self.certificate.fingerprint)
        self.assertEqual('ONLINE', client.system_state().state)

    def test_the_wrong_fingerprint(self):
        other = self.issue()
        for fields in ({}, {'verify': True,
                            'ca_path': str(self.authority.path)}):
            self.refused(
                self.client(self.serve(other).port, **fields,
                            fingerprint=self.certificate.fingerprint),
                other.fingerprint.lower().replace(':', ''),
                'k2_tls_fingerprint')

    def test_nothing_is_sent_to_the_wrong_array(self):
        server = self.serve(self.issue())
        self.array.control.clear_journal()
        self.refused(self.client(server.port, verify=True))
        self.refused(self.client(
            server.port, fingerprint=self.certificate.fingerprint))
        self.assertEqual([], self.array.control.journal())

    def test_the_environment_does_not_matter(self):
        bundle = {'REQUESTS_CA_BUNDLE': '/no/such',
                  'CURL_CA_BUNDLE': '/no/such',
                  'HTTPS_PROXY': 'http://127.0.0.1:9',
                  'https_proxy': 'http://127.0.0.1:9'}
        with mock.patch.dict(os.environ, bundle):
            client = self.client(self.serve().port)
            self.assertEqual('ONLINE', client.system_state().state)

    def test_a_netrc_does_not_replace_the_login(self):
        netrc = pathlib.Path(self.directory, 'netrc')
        netrc.write_text('machine 127.0.0.1 login x password y\n')
        with mock.patch.dict(os.environ, {'NETRC': str(netrc)}):
            self.client(self.serve().port).system_state()


class WarningsTest(Case):

    def test_only_this_array_is_not_warned_of(self):
        port = self.serve().port
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            self.client(port).system_state()
            self.assertEqual([], caught)
            pool = urllib3.HTTPSConnectionPool(
                'localhost', port, cert_reqs='CERT_NONE')
            with contextlib.closing(pool):
                pool.request('GET', '/api/v2')
            self.assertEqual(
                [urllib3.exceptions.InsecureRequestWarning],
                [warning.category for warning in caught])

    def test_ipv6(self):
        try:
            server = self.serve(host='::1')
        except OSError:
            self.skipTest('no IPv6 on this machine')
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            client = self.client(server.port, '::1')
            self.assertEqual('ONLINE', client.system_state().state)
        self.client(server.port, '[::1]', verify=True,
                    ca_path=str(self.authority.path)).system_state()


class ConnectionsTest(Case):

    def test_one_is_kept_and_used_again(self):
        client = self.client(self.serve().port)
        with mock.patch.object(
                ssl.SSLContext, 'wrap_socket', autospec=True,
                side_effect=ssl.SSLContext.wrap_socket) as wrap:
            for _ in range(5):
                client.system_state()
                client.volumes.delete(999)
                group = client.volume_groups.create(name='g', quota=0)
                client.volume_groups.delete(group.id)
        self.assertEqual(1, wrap.call_count)

    def silent(self, host, port):
        """Let an address neither accept nor refuse connections."""
        listener = socket.create_server((host, port), backlog=0)
        self.addCleanup(listener.close)
        for _ in range(2):
            # Pending connections fill the backlog, so no others are accepted.
            waiting = socket.socket()
            self.addCleanup(waiting.close)
            waiting.setblocking(False)
            waiting.connect_ex((host, port))

    def test_an_address_of_several_is_silent(self):
        """The next address has its share of the time; TLS checks the name."""
        port = self.serve().port
        self.silent('127.0.0.9', port)
        really = socket.getaddrinfo

        def look_up(host, *args, **options):
            found = really(host, *args, **options)
            return [(*one[:4], (address, port)) for one in found[:1]
                    for address in ('127.0.0.9', '127.0.0.1')
                    ] if host == 'localhost' else found

        with mock.patch('socket.getaddrinfo', autospec=True,
                        side_effect=look_up):
            client = self.client(
                port, 'localhost', verify=True, connect_timeout=1.0,
                ca_path=str(self.authority.path))
            self.assertEqual('ONLINE', client.system_state().state)
        other = self.client(port, '127.0.0.9', connect_timeout=0.2,
                            deadline=0.5)
        self.assertRaises(rest.Unreachable, other.system_state)

    def test_64_at_once(self):
        self._at_once(64)

    def test_more_than_the_pool_holds_wait(self):
        self._at_once(12, pool_size=4)
        self.assertLessEqual(self.array.control.max_in_flight, 4)

    def _at_once(self, number, **fields):
        client = self.client(self.serve().port, **fields)
        self.array.control.clear_journal()
        self.array.control.set_latency(0.02)
        self.addCleanup(self.array.control.set_latency, 0)
        states, start = [], threading.Barrier(number)

        def read():
            start.wait(60)
            for _ in range(2):
                states.append(client.system_state().state)

        with self.assertNoLogs('urllib3', logging.WARNING):
            threads = [threading.Thread(target=read) for _ in range(number)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        self.assertEqual(['ONLINE'] * 2 * number, states)

    def test_a_wrong_password_is_not_repeated_nor_told(self):
        client = self.client(self.serve().port, password='Wr0ng-word')
        self.array.control.clear_journal()
        with self.assertLogs(level=logging.DEBUG) as logs, \
                self.assertRaises(rest.AuthenticationFailed) as caught:
            client.system_state()
        self.assertEqual(1, len(self.array.control.journal()))
        text = '\n'.join(
            [*logs.output, *traceback.format_exception(caught.exception)])
        token = base64.b64encode(b'admin:Wr0ng-word').decode()
        for secret in ('Wr0ng-word', token, 'Authorization'):
            self.assertNotIn(secret, text)
        self.assertIn('san_password', str(caught.exception))

    def test_a_restarted_array_is_found_again(self):
        server = self.serve()
        client = self.client(server.port)
        client.system_state()
        server.stop()
        with self.assertRaises(rest.Unreachable), client.deadline(0.2):
            client.system_state()
        again = k2_sim.Server(
            self.array, self.certificate, port=server.port)
        with again:
            self.assertEqual('ONLINE', client.system_state().state)


def _openssl_hash(name):
    """Return the hash by which OpenSSL finds a CA in a directory.

    It hashes the subject in lower case, without the outer DER header.
    """
    lower = x509.Name([x509.NameAttribute(part.oid, part.value.lower())
                       for part in name])
    digest = hashlib.sha1(lower.public_bytes()[2:]).digest()
    return int.from_bytes(digest[:4], 'little')
