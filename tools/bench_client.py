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

"""A client that keeps a server busy with little CPU time of its own."""

import asyncio
from collections.abc import Callable
import pathlib
import ssl
import time
from typing import Any

CONNECTIONS = 16

# Returns the next complete request.
Source = Callable[[], bytes]


class Client(asyncio.Protocol):
    """A connection that sends the next request after each response."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._data = b''
        self._asked = 0.0
        self.end = 0.0
        self.seconds: list[float] = []
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Store the connection."""
        self._transport: asyncio.Transport = transport

    def ask(self) -> None:
        """Send the next request."""
        self._asked = time.perf_counter()
        self._transport.write(self._source())

    def data_received(self, data: bytes) -> None:
        """Send the next request after a full response, until time is up."""
        self._data += data
        head, blank, body = self._data.partition(b'\r\n\r\n')
        if not blank:
            return
        if len(body) < int(head.partition(b'content-length: ')[2]
                           .partition(b'\r\n')[0]):
            return
        if head[9:11] != b'20':
            self.closed.set_exception(RuntimeError(self._data.decode()))
            self._transport.close()
            return
        self._data = b''
        now = time.perf_counter()
        self.seconds.append(now - self._asked)
        if now < self.end:
            self.ask()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish, unless an error was reported before."""
        if not self.closed.done():
            self.closed.set_result(None)


async def ask(url: str, authority: pathlib.Path, seconds: float,
              source: Source, connections: int = CONNECTIONS) -> list[float]:
    """Send requests for this many seconds; return the time of each reply."""
    host, port = url.removeprefix('https://').split(':')
    context = ssl.create_default_context(cafile=authority)
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(
        lambda: Client(source), host, int(port), ssl=context))[1]
        for _ in range(connections)]
    for client in clients:
        client.end = time.perf_counter() + seconds
        client.ask()
    await asyncio.gather(*(client.closed for client in clients))
    return [item for client in clients for item in client.seconds]
