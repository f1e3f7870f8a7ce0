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

"""Data that arrives from other arrays.

It arrives in pieces (see outbound). A file gets its token only when it is
complete.
"""

from collections.abc import Callable
import contextlib
import threading

from k2_sim.blocks import contents as contents_module
from k2_sim import clock as clock_module
from k2_sim.protocol import peering


Pinned = Callable[[Callable[[], str]],
                  contextlib.AbstractContextManager[str]]
# Seconds that a file waits for a row, or for its next piece.
KEPT_SECONDS = 600.0


class Inbound:
    """The files that arrive at one array.

    pinned and release: of the data store, for the base of a file.
    """

    def __init__(self, contents: contents_module.Contents,
                 pinned: Pinned, release: Callable[[str], object],
                 clock: clock_module.Clock) -> None:
        self._contents = contents
        self._pinned = pinned
        self._release = release
        self._clock = clock
        # Files that have no token yet, by the one that they will get.
        self._parts: dict[str, str] = {}
        # Files without rows, and when they expire.
        self._until: dict[str, float] = {}
        self._turn = threading.Lock()

    def take(self, piece: peering.Piece) -> peering.Taken:
        """Take a piece; call it without the array's lock.

        A piece that does not match is dropped: then the file must be sent
        from the start.
        """
        with self._turn:
            fits = self._contents.has(piece.token) or self._add(piece)
            return peering.Taken(fits, self._contents.has(piece.token))

    def _add(self, piece: peering.Piece) -> bool:
        """Write a piece to its file; returns whether there is one."""
        if piece.first and not self._begin(piece):
            return False
        part = self._parts.get(piece.token)
        if part is None:
            return False
        self._contents.patch(part, piece.runs)
        self._keep(part)
        if piece.last:
            self._contents.rename(part, piece.token)
            del self._parts[piece.token], self._until[part]
            self._keep(piece.token)
        return True

    def _begin(self, piece: peering.Piece) -> bool:
        """Start a file, or start it again; returns whether its base exists.

        A token whose old file is being removed cannot be started, either.
        """
        if self._contents.is_being_removed(piece.token):
            return False
        before = self._parts.pop(piece.token, None)
        if before is not None:
            self._drop(before)
        with self._pinned(lambda: piece.base if self._contents.has(
                piece.base) else '') as base:
            if base != piece.base:
                return False
            part = self._contents.clone(base, piece.size)
        self._keep(part)
        self._parts[piece.token] = part
        return True

    def _keep(self, token: str) -> None:
        self._until[token] = self._clock.monotonic() + KEPT_SECONDS

    def _drop(self, token: str) -> None:
        del self._until[token]
        self._release(token)

    def expire(self) -> None:
        """Drop expired files."""
        with self._turn:
            now = self._clock.monotonic()
            late = {token for token, until in self._until.items()
                    if until <= now}
            self._parts = {token: part for token, part
                           in self._parts.items() if part not in late}
            for token in late:
                self._drop(token)
