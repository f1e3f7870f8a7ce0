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

"""How uvicorn reads requests: URLs of any length, but not without bounds."""

import asyncio
from typing import Any
import urllib.parse

from uvicorn.protocols.http import httptools_impl

# Longer URLs the parser cannot take apart.
_LONGEST_PARSED = 2 ** 16 - 1
#: Bytes of a request before its body, URL included.
LONGEST_HEAD = 2 ** 20
#: Seconds in which a whole request must arrive, from its first byte on, or
#: from the start of the connection.
REQUEST_SECONDS = 60.0


class BoundedProtocol(httptools_impl.HttpToolsProtocol):
    """Ends connections whose request is endless, or does not come.

    Leaves it to the application to refuse long URLs (QRY-1).
    """

    _timer: asyncio.TimerHandle | None = None
    # Bytes of a request whose headers are not complete, None after that.
    _head: int | None = 0

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
        if self._timer is None:
            self._wait()
        if self._head is not None:
            if self._head > LONGEST_HEAD:
                self.send_400_response(
                    f'A request has at most {LONGEST_HEAD} bytes before its '
                    'body.')
                return
            self._head += len(data)
        super().data_received(data)

    def on_message_complete(self) -> None:
        """End a request; the next one may take its time again."""
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
        self._head = None
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
