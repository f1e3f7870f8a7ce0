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

"""Transport of messages between arrays.

The same messages go to arrays of this process, to those of other processes
and to the array itself; the receiver always checks the login.
"""

import base64
from collections.abc import Mapping
import http.client
import pathlib
import ssl
from typing import Protocol
from typing import TypeVar

import msgspec

from k2_sim.protocol import messages
from k2_sim.protocol.messages import Response
from k2_sim.protocol import peering
from k2_sim.protocol.request_context import Address


# Timeouts in real seconds. The peer may have to copy a file before it can
# take data.
_TIMEOUTS = {peering.PATH: 5.0, peering.DATA_PATH: 60.0}
R = TypeVar('R', peering.Replies, peering.UpdateReply, peering.Taken)


class Neighbor(Protocol):
    """An array of the same process."""

    @property
    def is_open(self) -> bool:
        """Whether peers can reach it."""

    def handle(self, method: str, path: str, query: str = '',
               headers: Mapping[str, str] | None = None,
               body: bytes = b'') -> Response:
        """The reply to one request, at once."""


class LinkDownError(Exception):
    """The peer cannot be reached; the text says why."""


class Transport:
    """Sends messages of one array to its peers.

    network: arrays of the same process by address; all others are reached
    over HTTPS, verified with the certificates in the file ca (None: those
    of the system), or over HTTP if plain. cut: nothing is sent.
    """

    def __init__(self) -> None:
        self.network: dict[str, Neighbor] = {}
        self.ca: pathlib.Path | None = None
        self.plain = False
        self.cut = False

    def send(self, address: Address, message: peering.Message,
             kind: type[R]) -> R:
        """Send a message; returns the reply, which must be of this kind.

        Raises LinkDownError.
        """
        body = msgspec.json.encode(message)
        return _checked(self._carry(address, peering.PATH, body), kind)

    def push(self, address: Address, piece: peering.Piece) -> peering.Taken:
        """Send a piece of data; returns the reply. Raises LinkDownError."""
        body = msgspec.msgpack.encode(piece)
        return _checked(
            self._carry(address, peering.DATA_PATH, body), peering.Taken)

    def _carry(self, address: Address, path: str, body: bytes) -> Response:
        if self.cut:
            raise LinkDownError('the link is cut')
        token = base64.b64encode(
            f'{address.login}:{address.password}'.encode()).decode()
        headers = {'Authorization': f'Basic {token}',
                   'Content-Type': messages.JSON_TYPE}
        array = self.network.get(address.host)
        if array is None:
            return self._post(address.host, path, headers, body)
        return array.handle('POST', path, headers=headers, body=body)

    def _post(self, host: str, path: str, headers: dict[str, str],
              body: bytes) -> Response:
        connection = None
        try:
            connection = self._connection(host, _TIMEOUTS[path])
            connection.request('POST', path, body, headers)
            response = connection.getresponse()
            return Response(response.status, {}, response.read())
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise LinkDownError(str(exc) or type(exc).__name__) from exc
        finally:
            if connection is not None:
                connection.close()

    def _connection(self, host: str, timeout: float
                    ) -> http.client.HTTPConnection:
        if self.plain:
            return http.client.HTTPConnection(host, timeout=timeout)
        # Read each time: the file may be created or changed later.
        context = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(
            host, timeout=timeout, context=context)


def _checked(response: Response, kind: type[R]) -> R:
    if response.status == 401:
        raise LinkDownError('the login is refused')
    if response.status != 200:
        raise LinkDownError(f'status {response.status}')
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise LinkDownError('the reply is not understood') from exc
