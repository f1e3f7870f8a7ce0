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

"""Simulated arrays in a separate process.

Where Cinder runs on eventlet, the test process is patched, and the threads
and the event loop of a simulated array do not work in it. As a program, this
module serves arrays until its standard input ends; ``ArrayProcess`` is its
client.

Both sides exchange pickled tuples, each preceded by its length. A request has
the name of a method of ``_Arrays``, and its arguments: to get or call an
attribute, these are the name of an array and the name of an attribute of it or
of one of its parts (``control.journal``). The reply is an exception or None,
and a result.
"""

import atexit
from collections.abc import Callable
import functools
import os
import pathlib
import pickle  # nosec B403  both sides are tests
import struct
import subprocess  # nosec B404
import sys
import threading
from typing import Any
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Attributes of an array that are objects in its process.
_PARTS = ('admin', 'control', 'disk_files')
_LENGTH = struct.Struct('>Q')


class Remote:
    """An array in the other process, or one of its parts.

    Has the attributes of ``tests.arrays.Served`` and of its parts, unless
    their values cannot be pickled.
    """

    def __init__(self, process: 'ArrayProcess', name: str, path: str = ''
                 ) -> None:
        self._process = process
        self._name = name
        self._path = path

    def __getattr__(self, attribute: str) -> Any:
        path = f'{self._path}{attribute}'
        found: Any
        if not self._path and attribute in _PARTS:
            found = Remote(self._process, self._name, f'{path}.')
        elif self._process.ask('is_method', self._name, path):
            found = functools.partial(
                self._process.ask, 'call', self._name, path)
        else:
            return self._process.ask('get', self._name, path)
        # Neither parts nor methods change.
        self.__dict__[attribute] = found
        return found


class ArrayProcess:
    """The process with the arrays, which ends with ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(  # nosec B603
            [sys.executable, '-W', 'ignore', '-m', 'tests.array_process'],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self._end)

    def start(self, *args: Any) -> Remote:
        """Start an array; the arguments are those of ``Served``."""
        return Remote(self, self.ask('start', *args))

    def connect(self, *served: Remote) -> None:
        """Let arrays replicate; see ``tests.arrays.connect``."""
        self.ask('connect', *(one._name for one in served))

    def ask(self, what: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method of ``_Arrays`` there; raise what it raises."""
        with self._lock:
            _send(self._process.stdin, (what, args, kwargs))
            error, result = _receive(self._process.stdout)
        if error is not None:
            raise error
        return result

    def _end(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


class _Arrays:
    """The arrays of this process, by name."""

    def __init__(self) -> None:
        # Not at module level, because tests.arrays imports this module.
        from tests import arrays
        self._arrays = arrays
        self._served: dict[str, Any] = {}

    def start(self, *args: Any) -> str:
        name = f'array-{len(self._served)}'
        self._served[name] = self._arrays.Served(*args)
        return name

    def connect(self, *names: str) -> None:
        self._arrays.connect(*(self._served[name] for name in names))

    def is_method(self, name: str, path: str) -> bool:
        return callable(self.get(name, path))

    def call(self, name: str, path: str, /, *args: Any, **kwargs: Any) -> Any:
        method: Callable[..., Any] = self.get(name, path)
        return method(*args, **kwargs)

    def get(self, name: str, path: str) -> Any:
        return functools.reduce(getattr, path.split('.'), self._served[name])


def _send(stream: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """Read one message; EOFError at the end."""
    length, = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return pickle.loads(_read(stream, length))  # nosec B301


def _read(stream: IO[bytes], size: int) -> bytes:
    """Read that many bytes: eventlet's pipes may return fewer at once."""
    data = b''
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _reply(served: _Arrays, what: str, args: Any, kwargs: Any
           ) -> tuple[Exception | None, Any]:
    try:
        return None, getattr(served, what)(*args, **kwargs)
    except Exception as error:
        return error, None


def main() -> None:
    """Serve arrays until the standard input ends."""
    # Anything printed must not get into the replies.
    replies = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    served = _Arrays()
    while True:
        try:
            request = _receive(sys.stdin.buffer)
        except EOFError:
            return
        reply = _reply(served, *request)
        try:
            _send(replies, reply)
        except Exception as error:
            _send(replies, (TypeError(f'{request[1]}: {error}'), None))


if __name__ == '__main__':
    main()
    # Threads of arrays would keep the process alive.
    os._exit(0)
