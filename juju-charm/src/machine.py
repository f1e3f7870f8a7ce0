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

Everything that the charm does to the unit goes through here, with a limit of
time, so that one object stands for the machine in tests.
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

#: What directories all files are below, if not / (for trials).
ROOT_VARIABLE = 'CINDER_K2_ROOT'
# Those of the charm's own Python, which others must not see.
_OWN_VARIABLES = ('PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV')
_LONGEST_REASON = 200
_LONGEST_LOG = 4000
#: How long to wait for what was killed: in the kernel it may hang for ever.
KILLED_SECONDS = 5.0
_LOG = logging.getLogger(__name__)
# Up to the last @, for a password may hold any other character raw.
_LOGIN = re.compile(r'//\S*@')


def mask_logins(text: str) -> str:
    """Take users and passwords out of the URLs of a text."""
    return _LOGIN.sub('//***@', text)


class Failed(Exception):
    """Something could not be done on the machine; the message says what."""

    def __init__(self, text: str) -> None:
        """Keep what to tell: everybody may read it in the status."""
        super().__init__(mask_logins(text))


@dataclasses.dataclass(frozen=True)
class Result:
    """What a program that ended has to say.

    :ivar status: its exit status
    :ivar output: what it wrote to standard output
    :ivar errors: what it wrote to standard error
    """

    status: int
    output: str = ''
    errors: str = ''

    @property
    def reason(self) -> str:
        """The last line that it wrote, which tells why it failed."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        # Masked before it is cut: half a URL would not be known as one.
        return (mask_logins(lines[-1])[:_LONGEST_REASON] if lines
                else 'it said nothing')


def failure(program: str, done: Result) -> Failed:
    """What to raise for a program that failed, with its last line.

    A status has no place for more; all that it wrote goes into the log.
    """
    told = mask_logins(f'{done.output}{done.errors}'.strip())
    _LOG.error('%s ended with status %d: %s', program, done.status,
               told[-_LONGEST_LOG:])
    return Failed(f'{program} failed: {done.reason}')


class Machine:
    """The unit's machine."""

    def __init__(self, root: str | None = None) -> None:
        """Work below a directory; on the whole machine if none is named."""
        self.root = pathlib.Path(root or os.environ.get(ROOT_VARIABLE, '/'))

    def path(self, name: str) -> pathlib.Path:
        """Where a file of the machine is, by its absolute name."""
        return self.root / name.lstrip('/')

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none.

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
        """Put a text in place of a file, at once and as a whole.

        Directories are made where they are missing.

        :raises Failed: it cannot be written, or there is no such group
        """
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Made for its owner alone, so that no secret shows meanwhile.
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
        """A file under another name, as long as the block lasts.

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
        """Give a file to root and a group.

        Below another root it stays with whoever runs this.
        """
        if self.root == pathlib.Path('/'):
            shutil.chown(path, 'root', group)

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it, if there.

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
        """Run a program to its end.

        :param seconds: when to kill it, and whatever it has started
        :param variables: what else to put into its environment
        :raises Failed: it is missing, cannot be run, or was killed
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
            raise Failed(f'{command[0]} is missing on this unit') from None
        except OSError as error:
            raise Failed(f'{command[0]} cannot be run: {error.strerror}'
                         ) from None
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise Failed(f'{command[0]} did not end within '
                         f'{seconds:.0f} seconds') from None
        return Result(process.returncode, output, errors)

    def must(self, *command: str, seconds: float, **variables: str) -> str:
        """Run a program that must succeed; return its standard output.

        :raises Failed: as ``run``, and if it fails; with its last line
        """
        done = self.run(*command, seconds=seconds, **variables)
        if done.status:
            raise failure(command[0], done)
        return done.output

    def connects(self, host: str, port: int, seconds: float) -> bool:
        """Whether a TCP connection can be made from here."""
        try:
            with socket.create_connection((host, port), seconds):
                return True
        # What is no host name or no port never gets as far as the network.
        except (OSError, ValueError, OverflowError):
            return False

    def sleep(self, seconds: float) -> None:
        """Wait before something is tried again."""
        time.sleep(seconds)

    def host(self) -> str:
        """The name that Cinder has for the machine."""
        return socket.gethostname()


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a program with what it has started, and wait for a short time."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_SECONDS)
    # Not read to their ends: whoever lives on may hold them open.
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
