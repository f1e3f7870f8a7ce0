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

"""An array behind a threading HTTP server of the standard library."""

import contextlib
import http.server
import logging
import socket
import ssl
import struct
import threading
from typing import Any
from typing import Self
from typing import TYPE_CHECKING

from k2_sim import array as array_module
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Exchange

if TYPE_CHECKING:
    # Plain HTTP shall do without the library behind it.
    from k2_sim.adapters import tls as tls_module

LOG = logging.getLogger(__name__)
_HANDSHAKE_TIMEOUT = 10.0
_PART = 2 ** 16
# Of a request: more than the longest URL needs beside method and version.
_LONGEST_LINE = 2 * messages.LONGEST_URL
# Close sends a reset at once: linger on, for no time.
_RESET = struct.pack('ii', 1, 0)


class ThreadedServer:
    """Serves an array on a socket while the context lasts.

    tls: a certificate of tls.issue(), or None for plain HTTP. port 0 takes
    a free one. url and port are known inside the context.
    """

    def __init__(self, array: array_module.Array,
                 tls: 'tls_module.Certificate | None' = None,
                 host: str = '127.0.0.1', port: int = 0) -> None:
        context = None if tls is None else tls.server_context()
        self._server = _Server(array, context, (host, port))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.host = host
        self.port = int(self._server.server_address[1])
        scheme = 'http' if tls is None else 'https'
        shown = f'[{host}]' if ':' in host else host
        self.url = f'{scheme}://{shown}:{self.port}'

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and break the connections that are left."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.break_connections()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    # Threads that sleep out a latency must not hold up the end.
    block_on_close = False

    def __init__(self, array: array_module.Array,
                 context: ssl.SSLContext | None,
                 address: tuple[str, int]) -> None:
        if ':' in address[0]:
            self.address_family = socket.AF_INET6
        self.array = array
        self._context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, in a thread of its own."""
        connection = request
        if self._context is not None:
            connection.settimeout(_HANDSHAKE_TIMEOUT)
            connection = self._context.wrap_socket(
                request, server_side=True)
            connection.settimeout(None)
        with self._lock:
            self._open.add(connection)
        try:
            _Handler(connection, client_address, self)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Callers that break off are no news here."""
        LOG.debug('connection from %s broke', client_address, exc_info=True)

    def break_connections(self) -> None:
        """Shut down what is still open."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    # One packet per reply; without it Nagle's algorithm costs 40 ms each.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        """Serve a request, or wait for its end; any method, any URL.

        The library answers longer URLs itself, and not in JSON.
        """
        self.raw_requestline = self._request_line()
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            self._serve()

    def _request_line(self) -> bytes:
        """The line; of one that is too long a part that still is."""
        line = self.rfile.readline(_LONGEST_LINE)
        if len(line) < _LONGEST_LINE or line.endswith(b'\n'):
            return line
        rest = line
        while rest and not rest.endswith(b'\n'):
            rest = self.rfile.readline(_PART)
        return line + b' HTTP/1.1\r\n'

    def _serve(self) -> None:
        length = self.headers.get('Content-Length', '0')
        if not length.isdecimal() or 'Transfer-Encoding' in self.headers:
            self.send_error(400)
            return
        if int(length) > messages.LARGEST_BODY:
            self._drop_body(int(length))
            self._reply(Exchange(messages.too_large()))
            return
        path, _, query = self.path.partition('?')
        with self.server.array.exchange(
                self.command, path, query, dict(self.headers),
                self.rfile.read(int(length))) as exchange:
            exchange = exchange.settled()
            if exchange.delay:
                self.server.array.clock.sleep(exchange.delay)
            if exchange.cut == 'reset':
                self._reset()
            else:
                self._reply(exchange)

    def _drop_body(self, length: int) -> None:
        """Read what is not kept, so that the caller hears of it."""
        while length and (part := self.rfile.read(min(length, _PART))):
            length -= len(part)

    def _reply(self, exchange: Exchange) -> None:
        response = exchange.response
        self.send_response_only(response.status)
        for name, value in response.sized_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if exchange.cut == 'truncated':
            self.close_connection = True
        if self.command != 'HEAD':
            self._send_body(exchange)
        self.wfile.flush()

    def _send_body(self, exchange: Exchange) -> None:
        for piece, seconds in exchange.pieces():
            if seconds:
                self.wfile.flush()
                self.server.array.clock.sleep(seconds)
            self.wfile.write(piece)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """The journal has it all."""
