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

"""What one request has to ask for, and what came of it.

Rules of one request run under the array's lock, which must never be held
while another array is waited for. A rule that needs an answer of the peer
asks for it; if it is not there yet, the request is undone, the question is
asked without the lock, and the request starts anew with the answer. Copies
of files that change are asked for in the same way.
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


class UnansweredError(Exception):
    """The request needs an answer of a peer, or a copy, first."""


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a peer is, and how to log in there."""

    host: str
    login: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Question:
    """Something asked of the peer at an address."""

    address: Address
    kind: str
    fields: dict[str, Any]

    @property
    def key(self) -> bytes:
        """Equal for equal questions."""
        return msgspec.json.encode(
            (self.address.host, self.kind, self.fields), order='sorted')


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back: fields, or the text of a refusal."""

    question: Question
    fields: dict[str, Any]
    refusal: str = ''


class RequestContext:
    """The questions and answers of one request.

    contents: the array's files, if it has some. touched: ids of the
    sessions that the request changed, of which their peers must hear.
    unfrozen: tokens of which copies are asked for. copies: the tokens of
    those by that of what was copied, all of one moment. wanted: tokens of
    a peer whose data is missing here, each with one that is here, or ''.
    """

    def __init__(self, contents: contents_module.Contents | None = None
                 ) -> None:
        self.contents = contents
        self.answers: dict[bytes, Answer] = {}
        self.copies: dict[str, str] = {}
        self.begin()

    def begin(self) -> None:
        """The request starts, for the first time or anew."""
        self.open: dict[bytes, Question] = {}
        self.unfrozen: set[str] = set()
        self.touched: set[int] = set()
        self.wanted: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether something was asked that has no answer yet."""
        return bool(self.open or self.unfrozen)

    def ask(self, address: Address, kind: str, **fields: Any
            ) -> dict[str, Any]:
        """The peer's answer.

        Raises UnansweredError if it was not asked yet, and ApiError (400)
        with the reason if it refused or cannot be reached.
        """
        question = Question(address, kind, fields)
        answer = self.answers.get(question.key)
        if answer is None:
            self.open[question.key] = question
            raise UnansweredError(kind)
        if answer.refusal:
            raise errors.refused(answer.refusal)
        return answer.fields

    def frozen(self, tokens: Iterable[str]) -> dict[str, str]:
        """By token, one with the same data that does not change.

        Raises UnansweredError if copies must be made for that first.
        """
        found = {token: token for token in tokens}
        # What does not change any more may have, since it was copied.
        changing = {token for token in found if self.contents is not None
                    and (token in self.copies
                         or self.contents.is_changing(token))}
        if changing - self.copies.keys():
            # All anew: they must be of the same moment.
            self.unfrozen |= changing
            raise UnansweredError('a copy')
        return {**found, **{token: self.copies[token] for token in changing}}

    def for_each(self, items: Iterable[T],
                 carry_out: Callable[[T], object]) -> None:
        """Do something with each item, all or none.

        Raises UnansweredError with what all of them ask for together.
        """
        for item in items:
            with contextlib.suppress(UnansweredError):
                carry_out(item)
        if self.is_open:
            raise UnansweredError('several')
