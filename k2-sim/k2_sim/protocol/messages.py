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

"""Requests and replies without any transport."""

from collections.abc import Iterator
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import msgspec

from k2_sim import errors
from k2_sim.state import commits

# Exactly this value, without a charset (CON-6).
JSON_TYPE = 'application/json'
LARGEST_BODY = 16 * 2 ** 20
# The limit of path and query as they are sent, in bytes (QRY-1).
LONGEST_URL = 2 ** 16
# Seconds that a reply waits for the data plane, which may have to copy.
PUBLICATION_LIMIT = 300.0
# Replies with these statuses have no body, and so no length.
_BODILESS = (204, 304)
_PIECES_A_SECOND = 10


class Request(msgspec.Struct, frozen=True):
    """One request; header names in lower case, query as it was sent.

    role, login: of the user, empty before authentication. address: the
    caller's, empty if the request did not come over a network. may_pause:
    whether other requests may be served during a long read.
    """

    method: str
    path: str
    query: str = ''
    headers: Mapping[str, str] = {}
    body: bytes = b''
    role: str = ''
    login: str = ''
    address: str = ''
    may_pause: bool = False

    def json(self) -> Any:
        """The body, which POST and PATCH must declare as JSON (CON-5).

        Raises ApiError (400) if it is not declared as JSON, or is not JSON.
        """
        kind = self.headers.get('content-type', '').partition(';')[0]
        if kind.strip().lower() != JSON_TYPE:
            raise errors.refused(f'Content-Type must be {JSON_TYPE}')
        return self.any_json()

    def any_json(self) -> Any:
        """The body as JSON, whatever it is declared to be.

        Raises ApiError (400) if it is not JSON.
        """
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError,
                RecursionError) as exc:
            raise errors.refused('The body is not JSON') from exc


class Response(msgspec.Struct, frozen=True):
    """One reply."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b''

    @property
    def sized_headers(self) -> dict[str, str]:
        """The headers, with the length of the body if it can have one."""
        if self.status in _BODILESS:
            return self.headers
        return {**self.headers, 'Content-Length': str(len(self.body))}

    def json(self) -> Any:
        """The body read as JSON, for callers without a transport."""
        return msgspec.json.decode(self.body)


class Exchange(msgspec.Struct, frozen=True):
    """A reply and how it is delivered.

    delay: seconds that the caller waits for it. cut: '' for a whole reply,
    'reset' for a connection that breaks before it, 'truncated' for one that
    breaks in the middle of the body. pace: bytes of the body per second, 0
    for all at once. commit: the changes that must be on disk before the
    reply is sent. publication: the exports that must be in effect by then.
    """

    response: Response
    delay: float = 0.0
    cut: str = ''
    pace: float = 0.0
    commit: commits.Commit | None = None
    publication: commits.Commit | None = None

    def pieces(self) -> Iterator[tuple[bytes, float]]:
        """The pieces of the body to send, and seconds before each."""
        body = self.response.body
        if self.cut == 'truncated':
            body = body[:len(body) // 2]
        if not self.pace:
            yield body, 0.0
            return
        size = max(1, int(self.pace / _PIECES_A_SECOND))
        for start in range(0, len(body), size):
            piece = body[start:start + size]
            yield piece, len(piece) / self.pace

    def settled(self, limit: float = PUBLICATION_LIMIT) -> 'Exchange':
        """The exchange to send, after waiting for commit and publication.

        It is a 500 if the disk or the data plane has failed, or the data
        plane takes longer than limit, in seconds.
        """
        try:
            if self.commit is not None:
                self.commit.result()
            if self.publication is not None:
                self.publication.result(limit)
        except futures.TimeoutError:
            return Exchange(refusal(
                500, 'The data plane does not serve the change yet'))
        except Exception as exc:
            return Exchange(refusal(500, str(exc)))
        return self


def reply(status: int, value: object, pretty: bool = False) -> Response:
    """A JSON reply."""
    body = msgspec.json.encode(value)
    if pretty:
        body = msgspec.json.format(body, indent=2)
    return Response(status, {'Content-Type': JSON_TYPE}, body)


def refusal(status: int, text: str) -> Response:
    """An error reply (section 3)."""
    return reply(status, {'error_msg': text})


def url_too_long() -> Response:
    """The reply to a URL beyond LONGEST_URL (QRY-1)."""
    return refusal(414, f'A URL has at most {LONGEST_URL} bytes')


def too_large(limit: int) -> Response:
    """The reply to a body of more bytes than a limit."""
    return refusal(413, f'A request has at most {limit} bytes')
