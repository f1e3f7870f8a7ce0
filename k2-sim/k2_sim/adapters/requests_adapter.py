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

"""An array as a transport of the library requests: no socket, no thread."""

from collections.abc import Mapping
import io
from typing import Any
import urllib.parse

import requests
import requests.adapters
import urllib3

from k2_sim import array as array_module
from k2_sim.protocol.messages import Exchange

Timeout = float | tuple[float | None, float | None] | None


class RequestsAdapter(requests.adapters.HTTPAdapter):
    """Passes the requests of a requests.Session directly to an array.

    Mount it on the session for the array's base URL.

    Waiting is done on the array's clock. Faults raise what requests raises
    over a real connection: ConnectionError for a reset, ReadTimeout for a
    reply later than the caller's read timeout, ConnectionError for a body
    that pauses longer, ChunkedEncodingError when a truncated body is read.
    """

    def __init__(self, array: array_module.Array) -> None:
        super().__init__()
        self._array = array

    def send(self, request: requests.PreparedRequest, stream: bool = False,
             timeout: Any = None, verify: bool | str = True,
             cert: Any = None, proxies: Mapping[str, str] | None = None
             ) -> requests.Response:
        """Pass one request to the array, and return its reply."""
        url = urllib.parse.urlsplit(request.url or '')
        with self._array.exchange(
                request.method or 'GET', url.path, url.query,
                request.headers, _body(request)) as exchange:
            exchange = exchange.settled()
            limit = _read_timeout(timeout)
            if limit is not None and exchange.delay > limit:
                self._array.clock.sleep(limit)
                raise requests.exceptions.ReadTimeout(
                    f'no reply within {limit} s', request=request)
            if exchange.delay:
                self._array.clock.sleep(exchange.delay)
            if exchange.cut == 'reset':
                raise requests.exceptions.ConnectionError(
                    ConnectionResetError('reset by the simulated array'),
                    request=request)
            self._wait_for_body(request, exchange, limit)
            return self.build_response(request, _raw(request, exchange))

    def _wait_for_body(self, request: requests.PreparedRequest,
                       exchange: Exchange, limit: float | None) -> None:
        """Wait as long as a body in pieces takes.

        Raises ConnectionError if one of them takes longer than limit, in
        seconds.
        """
        for _, seconds in exchange.pieces():
            if limit is not None and seconds > limit:
                self._array.clock.sleep(limit)
                raise requests.exceptions.ConnectionError(
                    f'no more of the body within {limit} s', request=request)
            if seconds:
                self._array.clock.sleep(seconds)


def _body(request: requests.PreparedRequest) -> bytes:
    body = request.body or b''
    return body.encode() if isinstance(body, str) else body


def _read_timeout(timeout: Timeout) -> float | None:
    if isinstance(timeout, tuple):
        return timeout[1]
    return timeout


def _raw(request: requests.PreparedRequest,
         exchange: Exchange) -> urllib3.HTTPResponse:
    response = exchange.response
    body = b''.join(piece for piece, _ in exchange.pieces())
    return urllib3.HTTPResponse(
        io.BytesIO(body), headers=response.sized_headers,
        status=response.status,
        preload_content=False, enforce_content_length=True,
        request_method=request.method, request_url=request.url)
