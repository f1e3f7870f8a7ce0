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

"""How uvicorn reads requests: it accepts long URLs, but no endless heads."""

import asyncio
from typing import Any
import urllib.parse

from uvicorn.protocols.http import httptools_impl

# The parser cannot split longer URLs.
_LONGEST_PARSED = 2 ** 16 - 1
#: Bytes of a request besides its body: URL, headers, chunk sizes, trailers.
LONGEST_HEAD = 2 ** 20
#: Seconds in which a whole request must arrive, from its first byte on, or
#: from the start of the connection.
REQUEST_SECONDS = 60.0


class BoundedProtocol(httptools_impl.HttpToolsProtocol):
    """Ends connections whose request is endless, or does not arrive in time.

    Leaves it to the application to refuse long URLs (QRY-1).
    """

    _timer: asyncio.TimerHandle | None = None
    # Bytes of the current request that are not of its body.
    _head = 0

    def connection_made(self, transport: asyncio.Transport  # type: ignore
                        ) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self.transport.is_closing():
            return
        if self._head > LONGEST_HEAD:
            self.send_400_response(
                f'A request has at most {LONGEST_HEAD} bytes besides its '
                'body.')
            return
        self._head += len(data)
        super().data_received(data)
        if (self._timer is None and self.cycle is not None
                and self.cycle.response_complete
                and not self.transport.is_closing()):
            # An empty line, or the rest of a body after its reply, has ended
            # the wait for the next request.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        """Begin a request, maybe in the data that ended the previous one."""
        super().on_message_begin()
        self._stop_waiting()
        self._wait()

    def on_body(self, body: bytes) -> None:
        """Read a part of a body."""
        self._head -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; the next one has limits of its own."""
        super().on_message_complete()
        self._head = 0
        self._stop_waiting()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(
            REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_headers_complete(self) -> None:
        """Begin the request; the application runs after this."""
        url = self.url
        if len(url) <= _LONGEST_PARSED:
            super().on_headers_complete()
            return
        self.url = b'/'
        super().on_headers_complete()
        path, _, query = url.partition(b'?')
        self.scope['raw_path'] = path
        self.scope['query_string'] = query
        self.scope['path'] = urllib.parse.unquote(path.decode('latin-1'))


#: Arguments of uvicorn.Config.
OPTIONS: dict[str, Any] = {
    'http': BoundedProtocol, 'h11_max_incomplete_event_size': LONGEST_HEAD}
