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

"""Data sent from one array to another.

The target names the tokens whose data is missing, each with one that it
has: the source sends the blocks in which they differ.
"""

from collections.abc import Callable
from collections.abc import Iterator
from typing import NamedTuple

from k2_sim.blocks import contents as contents_module
from k2_sim.blocks import reduction
from k2_sim.data import data_store as data_store_module
from k2_sim.data import null
from k2_sim.protocol import peering

# Bytes of one message; the last run may exceed it.
_PIECE = 4 * 2 ** 20


class Sent(NamedTuple):
    """How many bytes were sent, before and after compression."""

    logical: int = 0
    physical: int = 0


def send(data_store: data_store_module.DataStore | null.NullDataStore,
         token: str,
         known: str, push: Callable[[peering.Piece], peering.Taken]) -> Sent:
    """Send a file as the difference from one that the target has.

    token: of the file; known: of the one that the target has, or ''. push:
    sends one piece. Returns how much was sent: 0 bytes if there is nothing to
    send, or the target did not accept it.
    """
    if not data_store.has_files:
        return Sent()
    contents, sent = data_store.contents, Sent()
    with data_store.pinned(lambda: token), data_store.pinned(lambda: known):
        if not contents.has(token):
            return Sent()
        for piece in _pieces(
                contents, token, known if contents.has(known) else ''):
            taken = push(piece)
            if not taken.fits:
                return Sent()
            sent = _added(sent, piece)
            if taken.whole:
                break
    return sent


def _added(sent: Sent, piece: peering.Piece) -> Sent:
    runs = [data for _, data in piece.runs]
    return Sent(sent.logical + sum(map(len, runs)),
                sent.physical + sum(map(reduction.reduced, runs)))


def _pieces(contents: contents_module.Contents, token: str, base: str
            ) -> Iterator[peering.Piece]:
    """Yield the pieces that turn the file of base into that of token."""
    yield peering.Piece(token, base, contents.size(token), [], first=True)
    runs: list[tuple[int, bytes]] = []
    size = 0
    for offset, data in contents.changes(token, base):
        runs.append((offset, data))
        size += len(data)
        if size >= _PIECE:
            yield peering.Piece(token, base, 0, runs)
            runs, size = [], 0
    yield peering.Piece(token, base, 0, runs, last=True)
