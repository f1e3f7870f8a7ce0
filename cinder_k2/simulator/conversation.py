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

"""What one request has to say to the peers, and what they answered.

Rules of one request run under the array's lock, which must never be held
while another array is waited for. A rule that needs an answer of the peer
asks for it; if it is not there yet, the request is undone, the question is
asked without the lock, and the request starts anew with the answer.
"""

import dataclasses
from typing import Any

import msgspec

from cinder_k2.simulator import errors


class UnansweredError(Exception):
    """The request needs an answer of a peer first."""


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


class Conversation:
    """The questions and answers of one request.

    touched: ids of the sessions that the request changed, of which their
    peers must hear.
    """

    def __init__(self) -> None:
        self.answers: dict[bytes, Answer] = {}
        self.open: dict[bytes, Question] = {}
        self.touched: set[int] = set()

    def begin(self) -> None:
        """The request starts, for the first time or anew."""
        self.open = {}
        self.touched = set()

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
