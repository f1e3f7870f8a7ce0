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

"""The machine below the charm: its files, programs and network.

Everything that the charm does to the unit goes through ``Machine``, with a
time limit. Tests replace only this class.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess  # nosec B404
import tempfile
import time

#: Environment variable with the root of all files, if not / (for testing).
ROOT_VARIABLE = 'CINDER_K2_ROOT'
# Variables of the charm's own Python, which are not passed to programs.
_OWN_VARIABLES = ('PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV')
_LONGEST_REASON = 200
_LONGEST_LOG = 4000
#: How long to wait for a killed process, which may hang in the kernel.
KILLED_SECONDS = 5.0
_LOG = logging.getLogger(__name__)
# Up to the last @, because a password may contain any other character.
_LOGIN = re.compile(r'//\S*@')


def mask_logins(text: str) -> str:
    """Mask users and passwords in the URLs of a text."""
    return _LOGIN.sub('//***@', text)


class Failed(Exception):
    """An operation on the machine failed; the message says which and why."""

    def __init__(self, text: str) -> None:
        """Store the message without logins; the status shows it."""
        super().__init__(mask_logins(text))


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a program.

    :ivar status: exit status
    :ivar output: standard output
    :ivar errors: standard error
    """

    status: int
    output: str = ''
    errors: str = ''

    @property
    def reason(self) -> str:
        """The last line of its output, which usually says why it failed."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        # Masked before truncation, which could make a URL unrecognizable.
        return (mask_logins(lines[-1])[:_LONGEST_REASON] if lines
                else 'no output')


def failure(program: str, done: Result) -> Failed:
    """Return the error for a failed program, with its last line of output.

    The full output is logged, because the status has no room for it.
    """
    output = mask_logins(f'{done.output}{done.errors}'.strip())
    _LOG.error('%s ended with status %d: %s', program, done.status,
               output[-_LONGEST_LOG:])
    return Failed(f'{program} failed: {done.reason}')


class Machine:
    """The unit's machine."""

    def __init__(self, root: str | None = None) -> None:
        """Use a directory as root; by default, ``ROOT_VARIABLE`` or /."""
        self.root = pathlib.Path(root or os.environ.get(ROOT_VARIABLE, '/'))

    def path(self, name: str) -> pathlib.Path:
        """Return the path of a file from its absolute name."""
        return self.root / name.lstrip('/')

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if it does not exist.

        :raises Failed: it cannot be read
        """
        try:
            return self.path(name).read_text('utf-8', 'replace')
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failed(f'{name} cannot be read: {error.strerror}') from None

    def write(self, name: str, text: str, mode: int = 0o644,
              group: str = 'root') -> None:
        """Write a file atomically, creating missing directories.

        :raises Failed: it cannot be written, or the group does not exist
        """
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # mkstemp gives mode 0600, so secrets are never readable.
            handle, temporary = tempfile.mkstemp(dir=path.parent,
                                                 prefix=f'.{path.name}.')
        except OSError as error:
            raise Failed(f'{name} cannot be written: {error.strerror}'
                         ) from None
        try:
            with os.fdopen(handle, 'w', encoding='utf-8') as file:
                file.write(text)
            self.own(pathlib.Path(temporary), group)
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except (OSError, LookupError) as error:
            raise Failed(f'{name} cannot be written: {error}') from None
        finally:
            pathlib.Path(temporary).unlink(missing_ok=True)

    @contextlib.contextmanager
    def copy(self, path: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
        """Copy a file to a new name for the duration of the block.

        :raises Failed: it cannot be copied
        """
        with contextlib.ExitStack() as stack:
            try:
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                copied = shutil.copyfile(path, pathlib.Path(directory, name))
            except OSError as error:
                raise Failed(f'{name} cannot be copied: {error.strerror}'
                             ) from None
            yield copied

    def own(self, path: pathlib.Path, group: str) -> None:
        """Change the owner of a file to root, and its group.

        Does nothing if the root directory is not /.
        """
        if self.root == pathlib.Path('/'):
            shutil.chown(path, 'root', group)

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with its contents, if it exists.

        Errors in a directory are ignored.

        :raises Failed: a file cannot be removed
        """
        path = self.path(name)
        try:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise Failed(f'{name} cannot be removed: {error.strerror}'
                         ) from None

    def run(self, *command: str, seconds: float, **variables: str) -> Result:
        """Run a program and wait for it.

        :param seconds: timeout, after which its process group is killed
        :param variables: additional environment variables
        :raises Failed: it is missing, cannot be run, or timed out
        """
        environment = {name: value for name, value in os.environ.items()
                       if name not in _OWN_VARIABLES}
        try:
            process = subprocess.Popen(  # nosec B603
                command, env={**environment, **variables}, text=True,
                errors='replace', stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True)
        except FileNotFoundError:
            raise Failed(f'{command[0]} is not installed on this unit'
                         ) from None
        except OSError as error:
            raise Failed(f'{command[0]} cannot be run: {error.strerror}'
                         ) from None
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise Failed(f'{command[0]} did not finish within '
                         f'{seconds:.0f} seconds') from None
        return Result(process.returncode, output, errors)

    def must(self, *command: str, seconds: float, **variables: str) -> str:
        """Run a program that must succeed; return its standard output.

        :raises Failed: as ``run``, or the program failed; with its last line
            of output
        """
        done = self.run(*command, seconds=seconds, **variables)
        if done.status:
            raise failure(command[0], done)
        return done.output

    def connects(self, host: str, port: int, seconds: float) -> bool:
        """Return whether this machine can open a TCP connection."""
        try:
            with socket.create_connection((host, port), seconds):
                return True
        # The last two for an invalid host name or port.
        except (OSError, ValueError, OverflowError):
            return False

    def sleep(self, seconds: float) -> None:
        """Wait before a retry."""
        time.sleep(seconds)

    def host(self) -> str:
        """Return the host name, which Cinder uses by default."""
        return socket.gethostname()


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process group of a program and wait ``KILLED_SECONDS``."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_SECONDS)
    # Not read to the end: a surviving process may keep them open.
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
