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

"""A recorder of requests and replies, with secrets masked."""

import collections
import dataclasses
import threading
from typing import Any

import msgspec

from k2_sim import errors
from k2_sim.protocol.messages import Exchange
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response
from k2_sim.recording.journal import Entry
from k2_sim.recording import masking

KIB = 65536
_LARGEST_KIB = 4 * 2 ** 20
# The approximate size of a record besides its texts, in bytes.
_OVERHEAD = 500


@dataclasses.dataclass(frozen=True)
class Record:
    """One request and its reply, masked.

    started: seconds since the epoch; seconds: how long it took, both on the
    array's clock. response: status 0 if the connection was broken. fault:
    its fault kind, or ''. carried_out: False if the fault prevented it.
    """

    started: float
    seconds: float
    request: Request
    response: Response
    fault: str
    carried_out: bool

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        texts = (self.request.path, self.request.query, self.request.body,
                 self.response.body, *self.request.headers.values(),
                 *self.response.headers.values())
        return _OVERHEAD + sum(map(len, texts))


class Recorder:
    """The latest requests since start(), safe for threads.

    Those of the control API are not recorded.
    """

    def __init__(self) -> None:
        self.is_running = False
        self._lock = threading.Lock()
        self._begin(KIB)

    def _begin(self, kib: int) -> None:
        self._limit = kib * 1024
        self._records: collections.deque[Record] = collections.deque()
        self._bytes = 0
        self._dropped = 0

    def start(self, kib: int = KIB) -> None:
        """Start a new recording, which keeps the latest records.

        kib: their total size. Raises ApiError (400) for a limit below 1 KiB
        or above 4 GiB.
        """
        if type(kib) is not int or not 1 <= kib <= _LARGEST_KIB:
            raise errors.refused(
                f'kib must be a whole number from 1 to {_LARGEST_KIB}')
        with self._lock:
            self._begin(kib)
            self.is_running = True

    def stop(self) -> None:
        """Stop recording; the recording is kept until the next start."""
        self.is_running = False

    def clear(self) -> None:
        """Stop, and discard the recording."""
        self.stop()
        with self._lock:
            self._begin(KIB)

    def add(self, request: Request, exchange: Exchange, entry: Entry,
            now: float) -> None:
        """Record a request that has ended at that time."""
        seconds = (entry.ended or entry.started) - entry.started
        record = Record(now - seconds, seconds, _asked(request),
                        _answered(exchange), entry.fault, entry.carried_out)
        with self._lock:
            self._records.append(record)
            self._bytes += record.size
            while self._bytes > self._limit:
                self._bytes -= self._records.popleft().size
                self._dropped += 1

    def records(self) -> list[Record]:
        """The records, oldest first."""
        with self._lock:
            return list(self._records)

    def status(self) -> dict[str, Any]:
        """The size of the recording, and the number of dropped records."""
        with self._lock:
            return {'running': self.is_running,
                    'records': len(self._records),
                    'dropped': self._dropped, 'bytes': self._bytes,
                    'kib': self._limit // 1024}


def _asked(request: Request) -> Request:
    return msgspec.structs.replace(
        request, query=masking.query(request.query),
        headers=masking.headers(request.headers),
        body=masking.body(request.body))


def _answered(exchange: Exchange) -> Response:
    """The reply as the caller saw it."""
    if exchange.cut == 'reset':
        return Response(0)
    sent = b''.join(piece for piece, _ in exchange.pieces())
    response = exchange.response
    return Response(response.status, masking.headers(response.headers),
                    masking.body(sent))
