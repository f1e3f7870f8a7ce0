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

"""Messages between arrays, and how they get there.

The same message goes to an array of this process, to one of another and
to the array itself; the login of the peer is checked in each case.
"""

import base64
import http.client
import pathlib
import ssl
from typing import Any
from typing import TYPE_CHECKING
from typing import TypeVar

import msgspec

from cinder_k2.simulator.conversation import Address
from cinder_k2.simulator import errors
from cinder_k2.simulator import messages
from cinder_k2.simulator.messages import Response

if TYPE_CHECKING:
    from cinder_k2.simulator import array as array_module

PATH = '/sim/v1/peer'
# Real seconds.
_TIMEOUT = 5.0

Fields = dict[str, Any]
R = TypeVar('R', 'Answers', 'Reply')


class LinkDownError(Exception):
    """The peer cannot be reached; the text says why."""


class Sender(msgspec.Struct, frozen=True):
    """Who speaks; address is where it can be reached, or ''."""

    system_id: str
    name: str
    address: str


class Ask(msgspec.Struct, tag='ask'):
    """Questions, each a kind and its fields."""

    sender: Sender
    questions: list[tuple[str, Fields]]


class Answers(msgspec.Struct):
    """For each question what was asked for, or the text of a refusal."""

    answers: list[tuple[Fields, str]]


class News(msgspec.Struct, tag='news'):
    """How sessions stand with the sender, all of them if full.

    next_in: seconds until there is something new by itself.
    """

    sender: Sender
    views: list[Fields]
    full: bool
    next_in: float


class Reply(msgspec.Struct):
    """How sessions stand here; unknown ones have no match here.

    about: what the array tells about itself, if the news were full.
    """

    views: list[Fields]
    unknown: list[int]
    next_in: float
    about: Fields


Message = Ask | News


def read(body: object) -> Message:
    """A message that came in; raises ApiError (400) if it is none."""
    try:
        message: Message = msgspec.convert(body, Message)
    except msgspec.ValidationError as exc:
        raise errors.refused('Not a message of a peer') from exc
    return message


class Wire:
    """The way from one array to its peers.

    network: arrays in the same process by the address they are known by;
    all others are spoken to over HTTPS, verified with the certificates in
    the file ca, or over HTTP if plain. cut: nothing goes out.
    """

    def __init__(self) -> None:
        self.network: dict[str, array_module.Array] = {}
        self.ca: pathlib.Path | None = None
        self.plain = False
        self.cut = False

    def send(self, address: Address, message: Message,
             kind: type[R]) -> R:
        """One message and its reply; raises LinkDownError."""
        if self.cut:
            raise LinkDownError('the link is cut')
        token = base64.b64encode(
            f'{address.login}:{address.password}'.encode()).decode()
        headers = {'Authorization': f'Basic {token}',
                   'Content-Type': messages.JSON_TYPE}
        body = msgspec.json.encode(message)
        array = self.network.get(address.host)
        response = self._post(address.host, headers, body) \
            if array is None else array.handle(
                'POST', PATH, headers=headers, body=body)
        return _checked(response, kind)

    def _post(self, host: str, headers: dict[str, str],
              body: bytes) -> Response:
        connection = None
        try:
            connection = self._connection(host)
            connection.request('POST', PATH, body, headers)
            response = connection.getresponse()
            return Response(response.status, {}, response.read())
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise LinkDownError(str(exc) or type(exc).__name__) from exc
        finally:
            if connection is not None:
                connection.close()

    def _connection(self, host: str) -> http.client.HTTPConnection:
        if self.plain:
            return http.client.HTTPConnection(host, timeout=_TIMEOUT)
        # Read each time: the file may come, or change, later.
        context = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(
            host, timeout=_TIMEOUT, context=context)


def _checked(response: Response, kind: type[R]) -> R:
    if response.status == 401:
        raise LinkDownError('the login is refused')
    if response.status != 200:
        raise LinkDownError(f'status {response.status}')
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise LinkDownError('the reply is not understood') from exc
