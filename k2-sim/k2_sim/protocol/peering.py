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
    """The array that sends; address is where it can be reached, or ''.

    has_data: whether its tokens have files.
    """

    system_id: str
    name: str
    address: str
    has_data: bool = False


class Requests(msgspec.Struct, tag='ask'):
    """Requests to a peer, each a kind and its fields."""

    sender: Sender
    requests: list[tuple[str, Fields]] = msgspec.field(name='questions')


class Replies(msgspec.Struct):
    """For each request the fields that it returns, or an error message."""

    replies: list[tuple[Fields, str]] = msgspec.field(name='answers')


class SessionUpdate(msgspec.Struct, tag='news'):
    """The state of sessions on the sender, all of them if full.

    next_in: seconds until the next change that is due by the clock.
    """

    sender: Sender
    views: list[Fields]
    full: bool
    next_in: float


class UpdateReply(msgspec.Struct):
    """The state of sessions on the receiver of an update.

    unknown: ids of the sender's sessions without a match on the receiver.
    about: the description of the receiver, if the update was full. wanted:
    tokens whose data the receiver lacks, each with one that it has as a
    base, or ''. whole: False while the receiver is creating objects on a
    peer: then views and unknown do not yet take them into account.
    """

    views: list[Fields]
    unknown: list[int]
    next_in: float
    about: Fields
    wanted: dict[str, str]
    whole: bool = True


class Piece(msgspec.Struct):
    """Runs of a file's data, as (offset, bytes).

    token: the one that the file gets once it is complete. base: the token
    of the file that the runs change, '' for an empty one. size: that of the
    file in bytes, used only in the first piece, which begins the file. The
    last piece completes it.
    """

    token: Annotated[str, msgspec.Meta(pattern=contents.FORM)]
    base: str
    size: _Natural
    runs: list[tuple[_Natural, bytes]]
    first: bool = False
    last: bool = False


class Taken(msgspec.Struct):
    """The reply to a piece: whether it was taken, and the file is complete.

    If a piece does not fit, the file must be sent from the start.
    """

    fits: bool
    whole: bool


Message = Requests | SessionUpdate


def read(body: object) -> Message:
    """Parse a message; raises ApiError (400) if it is invalid."""
    try:
        message: Message = msgspec.convert(body, Message)
    except msgspec.ValidationError as exc:
        raise errors.refused('Not a message of a peer') from exc
    return message


def read_piece(body: bytes) -> Piece:
    """Parse a piece; raises ApiError (400) if it is invalid."""
    try:
        return msgspec.msgpack.decode(body, type=Piece)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise errors.refused('Not data of a peer') from exc
