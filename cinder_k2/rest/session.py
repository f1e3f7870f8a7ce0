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

"""One logical call to an array: sent, repeated, resolved.

Section 3 of the API rulebook tells which replies to repeat; a write is
repeated under one X-K2-Sequence only (SEQ-1), so that a lost reply never
makes two objects or loses one.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import threading
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar
import uuid

import requests.adapters

from cinder_k2.rest import errors
from cinder_k2.rest import gate
from cinder_k2.rest import retry
from cinder_k2.rest import settings as rest_settings
from cinder_k2.rest import transport
from cinder_k2 import waiting

T = TypeVar('T')
T_co = TypeVar('T_co', covariant=True)

# How often, and at first after how many seconds, to look for an object
# that must be there but may show late (OBJ-6).
_LOOKS = 5
_FIRST_PAUSE = 0.2


class Write(Protocol[T_co]):
    """One write, and how to find out what became of it."""

    @property
    def request(self) -> transport.Request:
        """What to send, but for the sequence."""

    def accept(self, reply: bytes) -> T_co:
        """Read the reply of a write that was carried out.

        :raises errors.BadReply: it does not tell what the write made
        """

    def look(self, certain: bool) -> T_co | None:
        """See what the write came to; None when nothing shows (yet).

        ``certain``: the array says that it was carried out.
        """


class _Local(threading.local):
    deadline: retry.Deadline | None = None


class Session:
    """Makes the calls of one client, from any number of threads."""

    def __init__(self, settings: rest_settings.Settings,
                 adapter: requests.adapters.BaseAdapter | None = None,
                 clock: waiting.Clock | None = None) -> None:
        self._settings = settings
        self.clock = clock or waiting.Clock()
        self.transport = transport.Transport(settings, adapter)
        self.gate = gate.Gate(settings.max_writes)
        # urllib3 would throw surplus connections away, with a warning.
        self._connections = threading.BoundedSemaphore(settings.pool_size)
        self._local = _Local()

    @contextlib.contextmanager
    def deadline(self, seconds: float | None = None, *, fresh: bool = False
                 ) -> Iterator[retry.Deadline]:
        """Give the calls of this thread ``seconds``; the shorter wins.

        Without ``seconds`` the deadline of the settings holds. A ``fresh``
        one counts whatever is left of those around it.
        """
        if seconds is None:
            seconds = self._settings.deadline
        outer = self._local.deadline
        inner = retry.Deadline(seconds, self.clock)
        if outer and not fresh and outer.left() < inner.left():
            inner = outer
        self._local.deadline = inner
        try:
            yield inner
        finally:
            self._local.deadline = outer

    def get(self, path: str, query: str = '') -> Any:
        """Read ``path``, again and again until there is an answer.

        :returns: the JSON value of the reply
        :raises errors.RestError: no answer before the deadline
        """
        request = transport.Request('GET', path, query)
        with self.deadline() as deadline:
            pace = retry.Retry(deadline, self.clock)
            while True:
                try:
                    return self.transport.decode(
                        request, self.send(request, deadline, pace.tries))
                except errors.RestError as error:
                    pace.pause(error)

    def write(self, write: Write[T], most: int | None = None) -> T:
        """Carry a write out exactly once, whatever happens to replies.

        :param most: tries, where one of several objects may be busy for
            long
        :raises errors.RestError: refused, or no certainty in time
        """
        with self.deadline() as deadline:
            return _WriteCall(self, write, deadline, most).run()

    def send(self, request: transport.Request, deadline: retry.Deadline,
             tries: int) -> bytes:
        """Send ``request`` once, after ``tries`` others.

        :raises errors.RestError: it failed, or there was no time for it
        """
        place = self.transport.place(request)
        if not deadline.left():
            raise errors.OutOfTime(
                f'the {deadline.seconds:g} seconds for it have passed', place)
        if not self._connections.acquire(timeout=deadline.left()):
            raise errors.Busy('no free connection in time', place)
        try:
            return self.transport.exchange(
                request, deadline.left() or 0.001, tries + 1)
        finally:
            self._connections.release()


class _WriteCall(Generic[T]):
    """The life of one write: its tries, and what they left in doubt."""

    def __init__(self, session: Session, write: Write[T],
                 deadline: retry.Deadline, most: int | None) -> None:
        self._session = session
        self._write = write
        self._deadline = deadline
        self._pace = retry.Retry(deadline, session.clock, most)
        # SEQ-2: nobody says how long ids are remembered.
        self._request = dataclasses.replace(
            write.request, sequence=f'k2-{uuid.uuid4().hex}=1')
        self._sent = False
        self._doubt = False

    def run(self) -> T:
        """Try until it is carried out, refused, or too late."""
        while True:
            try:
                return self._write.accept(self._send())
            except errors.RestError as error:
                result = self._resolve(error)
                if result is not None:
                    return result
                self._pace.pause(error)

    def _send(self) -> bytes:
        session, left = self._session, self._deadline.left()
        with session.gate.enter(left) as entered:
            if entered is None:
                raise errors.Busy(
                    f'no turn within {left:g} s, the array takes '
                    f'{session.gate.limit} writes at once',
                    session.transport.place(self._request))
            try:
                reply = session.send(
                    self._request, self._deadline, self._pace.tries)
            except errors.Busy:
                entered.congested()
                raise
            entered.succeeded()
            return reply

    def _resolve(self, error: errors.RestError) -> T | None:
        """What the write came to; None when it may be tried again."""
        if isinstance(error, errors.SequenceUsed):
            return self._carried_out(error)
        if self._doubt and isinstance(error, errors.NotFound):
            # Of a bulk call it may mean that the array has none.
            return self._look(
                certain=not self._request.path.endswith('/__bulk'))
        if self._doubt and isinstance(error, errors.Refused):
            # An array that ignores the sequence refuses a duplicate of
            # what our first try made (ERR-8).
            return self._look(times=_LOOKS)
        self._sent |= not isinstance(error, errors.NotConnected)
        self._doubt |= error.in_doubt
        if not error.in_doubt:
            return None
        return self._look(times=_LOOKS if error.status == 200 else 1)

    def _carried_out(self, error: errors.SequenceUsed) -> T:
        if not self._sent:
            raise errors.refused(error) from error
        result = self._look(times=_LOOKS, certain=True)
        if result is None:
            raise errors.BadReply(
                'the array says that it did it, but does not show the result',
                error.place) from error
        return result

    def _look(self, times: int = 1, certain: bool = False) -> T | None:
        for n in range(times):
            if n:
                self._session.clock.sleep(
                    min(_FIRST_PAUSE * 2 ** (n - 1), self._deadline.left()))
            try:
                result = self._write.look(certain)
            except errors.RestError as error:
                if not error.retryable:
                    raise
                continue
            if result is not None:
                return result
        return None
