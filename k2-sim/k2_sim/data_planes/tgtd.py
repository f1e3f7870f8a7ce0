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

"""A process of tgtd, the iSCSI target from Debian's package tgt.

It is a child process that ends when this process does, however that ends, and
has its own control socket, so other tgtd processes are never touched.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess  # nosec B404
import time

from k2_sim.data_planes import base
from k2_sim.data_planes import portals as portals_module

_PROGRAMS = {'tgtd': 'tgt', 'tgtadm': 'tgt', 'setpriv': 'util-linux'}
# Seconds. A command takes milliseconds, if the machine is not loaded.
_COMMAND_LIMIT = 20.0
_START_LIMIT = 20.0
_PAUSE_LIMIT = 20.0
_LOOK_AGAIN = 0.01
# Number of I/O threads per LUN.
_THREADS = 4
# Relative to the directory: the path of a socket has a short limit.
_SOCKET = 'control'
_LOG = 'tgtd.log'


class CommandError(base.DataPlaneError):
    """tgtd has refused a command, or does not reply."""


def check() -> None:
    """Raise UnavailableError when tgtd cannot run here."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=_path()) is None:
            raise base.UnavailableError(
                f'{program} is not installed; install the package {package},'
                f' as with: apt-get install {package}')
    if os.geteuid() != 0:
        raise base.UnavailableError(
            'tgtd accepts commands from root only; start k2-sim as root, or in'
            ' a user namespace of its own (unshare --user --map-root-user)')


def _path() -> str:
    """The search path; sbin directories are not in every user's PATH."""
    return f'{os.environ.get("PATH", os.defpath)}:/usr/sbin:/sbin'


class Tgtd:
    """One tgtd process, started and stopped here.

    directory: its working directory, with its socket and log.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ, 'TGT_IPC_SOCKET': _SOCKET, 'PATH': _path()}

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not exited."""
        return self._process is not None and self._process.poll() is None

    def start(self, portals: Sequence[str]) -> None:
        """Start it with only portals; without any, it would use all addresses.

        Raises DataPlaneError when it does not come up.
        """
        for address in portals:
            portals_module.check(address)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.directory / _LOG, 'wb') as log:
            self._process = subprocess.Popen(  # nosec
                ['setpriv', '--pdeathsig', 'KILL', 'tgtd', '--foreground',
                 '--nr_iothreads', str(_THREADS), '--iscsi', ','.join(
                     f'portal={portals_module.name(address)}'
                     for address in portals)],
                cwd=self.directory, env=self._environment, stdout=log,
                stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            self._wait_for_answer()
        except BaseException:
            self.stop()
            raise

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _START_LIMIT
        while True:
            try:
                self.command('show', 'portal')
                return
            except CommandError as exc:
                if not self.is_running or time.monotonic() > deadline:
                    raise base.DataPlaneError(
                        'tgtd does not start; see'
                        f' {self.directory / _LOG}') from exc
            time.sleep(_LOOK_AGAIN)

    def command(self, operation: str, mode: str, *arguments: object) -> str:
        """Run tgtadm; returns its output. Arguments may be secret.

        Raises CommandError.
        """
        what = f'tgtadm --op {operation} --mode {mode}'
        try:
            done = subprocess.run(  # nosec B603, B607
                ['tgtadm', '--lld', 'iscsi', '--op', operation, '--mode',
                 mode, *map(str, arguments)], cwd=self.directory,
                env=self._environment, capture_output=True, text=True,
                timeout=_COMMAND_LIMIT)
        except subprocess.TimeoutExpired as exc:
            # Not chained: the command line is in it.
            raise CommandError(f'{what}: no answer within'
                               f' {exc.timeout:.0f} s') from None
        if done.returncode:
            raise CommandError(f'{what}: {done.stderr.strip()}')
        return done.stdout

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all of its threads in the context. Raises DataPlaneError."""
        process = self._process
        if process is None or process.poll() is not None:
            yield
            return
        process.send_signal(signal.SIGSTOP)
        try:
            self._wait_until_stopped(process)
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def _wait_until_stopped(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the kernel reports that the last thread has stopped."""
        deadline = time.monotonic() + _PAUSE_LIMIT
        while process.poll() is None and not os.waitid(
                os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG):
            if time.monotonic() > deadline:
                raise base.DataPlaneError(
                    f'tgtd did not stop within {_PAUSE_LIMIT:.0f} s')
            time.sleep(_LOOK_AGAIN)

    def stop(self) -> None:
        """Kill it; it ignores all other signals."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
