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

"""HTTPS connections to an array, on which a whole reply has a time limit.

The timeout of a socket starts again with each byte: an array that sends a byte
of the headers or the body now and then would block its caller for hours.
Here each read from the socket waits at most until the end of the request.
"""

from collections.abc import Iterator
import contextlib
import contextvars
import http.client
import io
import socket
import time
from typing import Any

import requests.adapters
import urllib3
import urllib3.connection
import urllib3.exceptions

#: When the reply to the current request must be complete; None: no limit.
_END: contextvars.ContextVar[float | None] = contextvars.ContextVar(
    'end of the request', default=None)


_NO_CONNECTION = (urllib3.exceptions.NewConnectionError,
                  urllib3.exceptions.ConnectTimeoutError)
# Connect timeout in seconds when no time is left; with 0 no connection would
# succeed.
_LEAST = 0.1


@contextlib.contextmanager
def until(end: float) -> Iterator[None]:
    """Limit the time for replies to requests sent in the context.

    A read from the socket after ``end`` raises TimeoutError.

    :param end: a time of ``time.monotonic``
    """
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


class Adapter(requests.adapters.HTTPAdapter):
    """Connections to one array, with its certificate pinned if configured."""

    def __init__(self, pool_size: int, pin: str | None) -> None:
        self._pin = pin
        super().__init__(pool_connections=1, pool_maxsize=pool_size)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Pass the pin to urllib3, which checks it before it sends."""
        if self._pin:
            kwargs['assert_fingerprint'] = self._pin
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {'https': _Pool}


class _Socket(io.RawIOBase):
    """The data received by a socket, with a time limit for all reads."""

    def __init__(self, received: io.BufferedReader, sock: socket.socket
                 ) -> None:
        self._received = received
        self._socket = sock
        self._end = _END.get()
        # Timeout of a single read, in seconds.
        self._timeout = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._end is None:
            return self._received.readinto1(buffer)
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError('the end of the reply is missing')
        self._socket.settimeout(
            left if self._timeout is None else min(left, self._timeout))
        try:
            return self._received.readinto1(buffer)
        finally:
            # The next request is sent with this timeout.
            self._socket.settimeout(self._timeout)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Response(http.client.HTTPResponse):

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any
                 ) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Socket(self.fp, sock))


class _Connection(urllib3.connection.HTTPSConnection):
    response_class = _Response

    def _new_conn(self) -> socket.socket:
        """Connect, with one time limit for all addresses of the host.

        urllib3 gives each of them the whole time.
        """
        host, timeout = self._dns_host, self.timeout
        addresses = _addresses(host, self.port)
        if len(addresses) < 2 or not isinstance(timeout, (int, float)):
            # Also if there are none: the error of urllib3 says why.
            return super()._new_conn()
        end = time.monotonic() + timeout
        *others, last = addresses
        try:
            for tried, address in enumerate(others):
                with contextlib.suppress(*_NO_CONNECTION):
                    return self._connected(
                        address, end, len(addresses) - tried)
            return self._connected(last, end)
        finally:
            # The certificate is checked against the host, not the address.
            self._dns_host, self.timeout = host, timeout

    def _connected(self, address: str, end: float, share: int = 1
                   ) -> socket.socket:
        """Connect to one address, in a part of the time that is left."""
        self._dns_host = address
        self.timeout = max((end - time.monotonic()) / share, _LEAST)
        return super()._new_conn()


class _Pool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Connection


def _addresses(host: str, port: int | None) -> list[str]:
    """The addresses of a host, in the order to try; none if it is unknown."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
