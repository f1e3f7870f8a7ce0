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

"""Calls to peers, and copies of files, during one request.

The rules of a request run under the array's lock, which must never be held
while waiting for another array. If a rule needs a reply from a peer that has
not been called yet, the request is rolled back, the peer is called without
the lock, and the request starts again with the reply. Files that are being
written to are copied in the same way.
"""

from collections.abc import Callable
from collections.abc import Iterable
import contextlib
import dataclasses
from typing import Any
from typing import TypeVar

import msgspec

from k2_sim.blocks import contents as contents_module
from k2_sim import errors


T = TypeVar('T')


class PendingError(Exception):
    """The request needs the reply of a peer, or a copy of a file, first."""


@dataclasses.dataclass(frozen=True)
class Address:
    """The address of a peer and the login there."""

    host: str
    login: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class PeerRequest:
    """One call to the peer at an address."""

    address: Address
    kind: str
    fields: dict[str, Any]

    @property
    def key(self) -> bytes:
        """A key that is equal for equal requests."""
        return msgspec.json.encode(
            (self.address.host, self.kind, self.fields), order='sorted')


@dataclasses.dataclass(frozen=True)
class PeerReply:
    """The fields that a call returned, or the text of a refusal."""

    request: PeerRequest
    fields: dict[str, Any]
    refusal: str = ''


class RequestContext:
    """The calls, copies and side effects of one request.

    contents: the array's files, if it has any. pending: calls without a
    reply. replies: those received, by key. touched: ids of the sessions
    that the request changed and that must be sent to their peers. unfrozen:
    tokens to copy. copies: the token of each copy, by that of its original;
    all are from the same moment. wanted: tokens of a peer whose data is
    missing here, each with one that is here, or ''. is_flushed: whether
    files were written to disk for copies.
    """

    def __init__(self, contents: contents_module.Contents | None = None
                 ) -> None:
        self.contents = contents
        self.replies: dict[bytes, PeerReply] = {}
        self.copies: dict[str, str] = {}
        self.is_flushed = False
        self.begin()

    def begin(self) -> None:
        """Start the request, or start it again."""
        self.pending: dict[bytes, PeerRequest] = {}
        self.unfrozen: set[str] = set()
        self.touched: set[int] = set()
        self.wanted: dict[str, str] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a reply or a copy is missing."""
        return bool(self.pending or self.unfrozen)

    def call(self, address: Address, kind: str, **fields: Any
             ) -> dict[str, Any]:
        """The fields of the peer's reply to a call.

        Raises PendingError if the call was not made yet, and ApiError (400)
        with the reason if the peer refused it or cannot be reached.
        """
        request = PeerRequest(address, kind, fields)
        reply = self.replies.get(request.key)
        if reply is None:
            self.pending[request.key] = request
            raise PendingError(kind)
        if reply.refusal:
            raise errors.refused(reply.refusal)
        return reply.fields

    def frozen(self, tokens: Iterable[str]) -> dict[str, str]:
        """By token, a token with the same data that does not change.

        Raises PendingError if copies must be made for that first.
        """
        found = {token: token for token in tokens}
        # A copied file may have changed before it stopped changing.
        changing = {token for token in found if self.contents is not None
                    and (token in self.copies
                         or self.contents.is_changing(token))}
        if changing - self.copies.keys():
            # Copy all again: they must be from the same moment.
            self.unfrozen |= changing
            raise PendingError('a copy')
        return {**found, **{token: self.copies[token] for token in changing}}

    def for_each(self, items: Iterable[T],
                 carry_out: Callable[[T], object]) -> None:
        """Carry out an action for each item, for all or none.

        Raises PendingError once the calls and copies for all are known.
        """
        for item in items:
            with contextlib.suppress(PendingError):
                carry_out(item)
        if self.is_pending:
            raise PendingError('several')
