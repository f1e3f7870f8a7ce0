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

"""The child processes of make cloud, which end when it ends."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import ctypes
import errno
import os
import pathlib
import signal
import socket
import subprocess  # nosec B404
import time

from tools.cloud import errors
from tools.cloud import settings

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
STOP_SECONDS = 15.0


def die_with_parent(parent: int,
                    number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent dies.

    Runs in the child between fork and exec, so that even a kill -9 of the
    parent leaves nothing running.

    :param number: the signal, in case the process has to clean up first
    """
    LIBC.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def check_port(port: int, variable: str) -> None:
    """Check that a port of the loopback interface is free.

    :raises CloudError: it is not; the text says what to do
    """
    try:
        socket.create_server((settings.HOST, port)).close()
    except OSError as error:
        reason = {errno.EADDRINUSE: 'is in use',
                  errno.EACCES: 'needs root'}.get(error.errno or 0,
                                                  f'is not free ({error})')
        other = port + 10000 if port < 55536 else port - 10000
        raise errors.CloudError(
            f'port {port} of {settings.HOST} {reason}: stop what uses it, '
            f'or choose another: make cloud {variable}={other}') from None


class Child:
    """A program and its log file."""

    def __init__(self, name: str, argv: Sequence[str], log: pathlib.Path,
                 environ: Mapping[str, str], cwd: pathlib.Path) -> None:
        """Start the program in a new session.

        Ctrl-C in the terminal then reaches only this process, which stops
        its children in order.
        """
        self.name = name
        self.log = log
        parent = os.getpid()
        with log.open('wb') as output:
            self._process = subprocess.Popen(  # nosec B603
                argv, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=dict(environ), cwd=cwd,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent))

    def _error(self, reason: str) -> errors.CloudError:
        return errors.CloudError(
            f'{self.name}: {reason}\n  its log {self.log} ends:\n'
            f'{errors.tail(self.log)}')

    def check(self) -> None:
        """Check that it is running.

        :raises CloudError: it has ended
        """
        status = self._process.poll()
        if status is not None:
            raise self._error(errors.given_reason(self.log)
                              or f'it ended with status {status}')

    def is_running(self) -> bool:
        """Return whether it is still running."""
        return self._process.poll() is None

    def wait_ready(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until it is ready.

        :raises CloudError: it ended, or did not answer in time
        """
        end = time.monotonic() + seconds
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise self._error(
                    f'it did not answer within {seconds:.0f} s')
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it immediately, as in a power failure."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it and its child processes; does nothing if it has ended."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


@contextlib.contextmanager
def stopping(children: list[Child]) -> Iterator[None]:
    """Stop the children at the end, the last started first.

    A second Ctrl-C is ignored, so that none is left behind.
    """
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for child in reversed(children):
            child.stop()
