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

"""The REST client connects to peers that are no array.

These tests run with each release of OpenStack, as each has another urllib3.
"""

import contextlib
import shutil
import socket
import ssl
import tempfile
import threading
import time
import unittest

import ddt

from cinder_k2 import polling
from cinder_k2 import rest
from k2_sim.adapters import tls as simulator_tls
from tests.unit.rest import scripted


@ddt.ddt
class PeerTest(unittest.TestCase):
    """Peers that are no array."""

    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.socket = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(self.socket.close)
        self.done = threading.Event()

    def _serve(self, talk, tls=True):
        authority = simulator_tls.make_authority(self.directory)
        certificate = simulator_tls.issue(authority, (), self.directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path, certificate.key_path)

        def accept():
            with contextlib.suppress(OSError):
                while not self.done.is_set():
                    peer, _ = self.socket.accept()
                    with contextlib.suppress(OSError):
                        if tls:
                            peer = context.wrap_socket(
                                peer, server_side=True)
                        with peer:
                            peer.recv(65536)
                            talk(peer)

        thread = threading.Thread(target=accept)
        thread.start()
        self.addCleanup(thread.join, 10)
        self.addCleanup(self.socket.shutdown, socket.SHUT_RDWR)
        self.addCleanup(self.done.set)

    def _fails(self, kind, *words, clock=None, **fields):
        if 'address' not in fields:
            host, port = self.socket.getsockname()
            fields['address'] = f'{host}:{port}'
        client = rest.Client(rest.Settings(**{
            'login': 'admin', 'password': 'Secr3t-word', 'deadline': 3.0}
            | fields), clock=clock or scripted.FakeClock())
        self.addCleanup(client.close)
        started = time.monotonic()
        with self.assertRaises(kind) as caught:
            client.system_state()
        self.assertLess(time.monotonic() - started, 30)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_nobody_listens(self):
        port = self.socket.getsockname()[1]
        self.socket.close()
        self._fails(rest.Unreachable, 'Connection refused', 'san_ip',
                    address=f'127.0.0.1:{port}')

    def test_an_unknown_name(self):
        self._fails(rest.Unreachable, 'san_ip',
                    address='no-such-array.invalid')

    def test_no_reply(self):
        self._serve(lambda peer: self.done.wait(1))
        self._fails(rest.Unreachable, 'in time', clock=polling.Clock(),
                    read_timeout=0.2, deadline=0.3)

    def test_no_tls(self):
        self._serve(lambda peer: peer.sendall(
            b'HTTP/1.0 400 Bad Request\r\n\r\n'), tls=False)
        self._fails(rest.Unreachable, 'san_api_port')

    def test_a_web_page(self):
        page = (b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n'
                b'Connection: close\r\n\r\n<html>')
        self._serve(lambda peer: peer.sendall(page))
        self._fails(rest.BadReply, 'no JSON', 'K2 array')

    def test_cut_short(self):
        reply = b'HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n{"hits"'
        self._serve(lambda peer: peer.sendall(reply))
        self._fails(rest.BadReply, 'truncated')

    def test_no_http(self):
        self._serve(lambda peer: peer.sendall(b'SSH-2.0-OpenSSH\r\n'))
        self._fails(rest.Unreachable, '127.0.0.1')

    @ddt.data(b'HTTP/1.1 200 ',
              b'HTTP/1.1 200 OK\r\nServer: ',
              b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
              b'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n')
    def test_trickle(self, begin):
        """The deadline applies, whichever part of the reply is slow."""
        def talk(peer):
            peer.sendall(begin)
            for _ in range(2000):
                peer.sendall(b'0')
                if self.done.wait(0.05):
                    return
        self._serve(talk)
        self._fails(rest.Unreachable, 'in time', clock=polling.Clock(),
                    read_timeout=0.2, deadline=0.3)
