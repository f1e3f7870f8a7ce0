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

"""The messages between arrays that replicate."""

from typing import Annotated
from typing import Any

import msgspec

from k2_sim.blocks import contents
from k2_sim import errors

PATH = '/sim/v1/peer'
DATA_PATH = f'{PATH}/data'

Fields = dict[str, Any]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class Sender(msgspec.Struct, frozen=True):
    """Who speaks; address is where it can be reached, or ''.

    has_data: whether its tokens have files.
    """

    system_id: str
    name: str
    address: str
    has_data: bool = False


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
    wanted: tokens whose data is missing here, each with one that is here,
    or ''. whole: false while a session is made, which has no match yet.
    """

    views: list[Fields]
    unknown: list[int]
    next_in: float
    about: Fields
    wanted: dict[str, str]
    whole: bool = True


class Piece(msgspec.Struct):
    """Runs of data of a file, as (offset, bytes).

    base: the token of the file that they change. The first piece begins a
    file of that size, the last one completes it.
    """

    token: Annotated[str, msgspec.Meta(pattern=contents.FORM)]
    base: str
    size: _Natural
    runs: list[tuple[_Natural, bytes]]
    first: bool = False
    last: bool = False


class Taken(msgspec.Struct):
    """Whether a piece fitted to what is there, and the file is whole."""

    fits: bool
    whole: bool


Message = Ask | News


def read(body: object) -> Message:
    """A message that came in; raises ApiError (400) if it is none."""
    try:
        message: Message = msgspec.convert(body, Message)
    except msgspec.ValidationError as exc:
        raise errors.refused('Not a message of a peer') from exc
    return message


def read_piece(body: bytes) -> Piece:
    """A piece that came in; raises ApiError (400) if it is none."""
    try:
        return msgspec.msgpack.decode(body, type=Piece)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise errors.refused('Not data of a peer') from exc
