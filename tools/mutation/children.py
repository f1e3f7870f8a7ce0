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


"""Child processes that run one function each and then end."""

from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterable
import contextlib
import ctypes
import dataclasses
import os
import select
import signal
import sys
import time
from typing import Generic
from typing import NoReturn
from typing import TypeVar

T = TypeVar('T')
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Task(Generic[T]):
    """The task of a process.

    :ivar subject: identifies the task in results
    :ivar run: the function; its result is the exit status
    :ivar seconds: how long it may take
    """

    subject: T
    run: Callable[[], int]
    seconds: float


class Child:
    """A fork of this process that leads a process group and runs a function.

    It ends with this process, even if that is killed.
    """

    def __init__(self, task: Task[T]) -> None:
        """Start it."""
        sys.stdout.flush()
        self._pid = os.fork()
        if not self._pid:
            _run(task.run)
        # Both processes do this, because either may run first.
        with contextlib.suppress(OSError):
            os.setpgid(self._pid, self._pid)
        self.handle = os.pidfd_open(self._pid)
        self.deadline = time.monotonic() + task.seconds

    def end(self) -> int | None:
        """Kill its group; return its exit status, or None if it was running.

        A negative status means that a signal ended it.
        """
        ended = bool(select.select([self.handle], [], [], 0)[0])
        os.killpg(self._pid, signal.SIGKILL)
        os.close(self.handle)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return status if ended else None


def _run(function: Callable[[], int]) -> NoReturn:
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)
        # The output of the tests is not needed.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        status = function()
    finally:
        # Skip the cleanup: threads left by tests may block it.
        os._exit(status)


def run(tasks: Iterable[Task[T]], jobs: int
        ) -> Generator[tuple[T, int | None], None, None]:
    """Run tasks concurrently; yield the subject and exit status of each.

    The status is None if it took too long. If the generator is not read to its
    end, close it, so that nothing is left running.
    """
    waiting = iter(tasks)
    running: dict[int, tuple[T, Child]] = {}
    try:
        while True:
            while len(running) < jobs and (task := next(waiting, None)):
                child = Child(task)
                running[child.handle] = task.subject, child
            if not running:
                return
            for handle in _ended(running):
                subject, child = running.pop(handle)
                yield subject, child.end()
    finally:
        for _, child in running.values():
            child.end()


def _ended(running: dict[int, tuple[T, Child]]) -> list[int]:
    """Wait until a child has ended or must be killed."""
    first = min(child.deadline for _, child in running.values())
    ready = select.select(list(running), [], [],
                          max(0.0, first - time.monotonic()))[0]
    now = time.monotonic()
    return ready or [handle for handle, (_, child) in running.items()
                     if child.deadline <= now]
