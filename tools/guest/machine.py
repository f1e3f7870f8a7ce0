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

"""Boot a guest on the files of this machine, and run a command in it.

The kernel is Debian's user-mode-linux: a normal process of any user. The
guest sees all files of this machine, and may write anywhere, but its changes
stay in its memory and are lost when it ends. Only /out in the guest is a
directory of the host.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess  # nosec B404
import threading
from typing import BinaryIO

from tools.cloud import children
from tools.guest import packages
from tools.guest import processor
from tools.guest import scratch

HERE = pathlib.Path(__file__).parent
#: The guest's path of the directory that is kept.
OUT = '/out'
CONSOLE = 'console.log'
KERNEL = 'dmesg'
LOGS = (CONSOLE, KERNEL)
SECONDS = 600.0
# Creating namespaces takes milliseconds.
_NAMESPACE_SECONDS = 30.0
MEMORY = '2G'
#: Exit statuses of a guest that has no status of its own.
TIMED_OUT, PANICKED, NO_VERDICT, NO_BOOT = 124, 134, 70, 1
# Offset of the exit status that a shell reports for a signal.
_SIGNAL = 128
_SCRIPTS = ('init.sh', 'system.sh')
#: Variables of the environment that are passed to the command.
_PASSED = re.compile('PATH|LANG|(PYTHON|OS_|K2_).*')
_PANIC = re.compile(r'Kernel panic - not syncing: (.*)')
# The last message of the guest's kernel.
_DOWN = 'reboot: Power down'
# The kernel's message when its memory is exhausted, on either console.
_FULL = 'Bus error - the host /dev/shm'
_NO_ROOM = ('/dev/shm of this machine is full; make it larger, as'  # nosec
            ' with: mount -o remount,size=24G /dev/shm')


class GuestError(Exception):
    """The guest has no result; the text says why.

    :ivar status: the corresponding exit status
    """

    def __init__(self, text: str, status: int) -> None:
        """Store the text and the exit status."""
        super().__init__(text)
        self.status = status


def run(command: Sequence[str], out: pathlib.Path | None = None, *,
        seconds: float = SECONDS, memory: str = MEMORY,
        tap: str = '', echo: BinaryIO | None = None) -> int:
    """Run a command as root in a new guest; return its exit status.

    The command starts in the current working directory. Its output is in
    console.log in the out directory, and the kernel's messages in dmesg.

    :param out: the directory that the guest sees as /out; a temporary one if
        none is given
    :param seconds: time limit of the guest
    :param memory: such as "2G"; it also holds what the guest writes
    :param tap: the network device of this machine that is the other end of
        the guest's vec0; the guest has no network if none is given
    :param echo: what else to write the output to, as it comes
    :raises GuestError: it took too long, its kernel panicked, or it was
        switched off before the command ended; or it cannot boot
    """
    with scratch.directory() as work:
        _furnish(work, out, command)
        out = work / 'out'
        with open(out / CONSOLE, 'wb') as console, \
                open(out / KERNEL, 'wb') as kernel, \
                _booted(work, memory, tap, kernel) as process:
            in_time = _follow(process, seconds, [console, *filter(
                None, [echo])])
        if not in_time:
            raise GuestError(
                f'the guest did not end within {seconds:g} s', TIMED_OUT)
        return _verdict(process.returncode, work, out)


def script(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a shell script that runs a command as if it ran here."""
    kept = {name: value for name, value in environment.items()
            if _PASSED.fullmatch(name)}
    lines = [f'export {name}={shlex.quote(value)}'
             for name, value in sorted({**kept, 'HOME': '/root'}.items())]
    return '\n'.join([*lines, f'cd {shlex.quote(os.getcwd())} || exit 70',
                      f'exec {shlex.join(command)}', ''])


def _furnish(work: pathlib.Path, out: pathlib.Path | None,
             command: Sequence[str]) -> None:
    """Write the files for the guest, which gets the path of one directory."""
    for name in _SCRIPTS:
        shutil.copy(HERE / name, work)
    if out is None:
        (work / 'out').mkdir()
    else:
        out.mkdir(parents=True, exist_ok=True)
        (work / 'out').symlink_to(out.resolve())
    (work / 'command').write_text(
        script(command, {**os.environ, 'PATH': packages.path()}))


@contextlib.contextmanager
def _booted(work: pathlib.Path, memory: str, tap: str, kernel: BinaryIO
            ) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of the guest's kernel, which ends with the block.

    Its child processes end with its PID namespace, even if this process is
    killed. The kernel prints to the first console, programs to the second.
    """
    parent = os.getpid()
    network = [f'vec0:transport=tap,ifname={tap},depth=128,gro=1']
    with subprocess.Popen(  # nosec B603
            [*namespace(),
             'linux.uml', f'mem={memory}', f'uml_dir={work}', 'umid=guest',
             'noreboot', 'panic=-1', 'root=/dev/root', 'rootfstype=hostfs',
             'ro', f'init={work}/init.sh', 'con=null', 'con0=null,fd:2',
             'con1=null,fd:1', 'ssl=null', f'GUEST_WORK={work}',
             *(network if tap else [])],
            env=_environment(work),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=kernel, start_new_session=True,
            preexec_fn=lambda: children.die_with_parent(parent)) as process:
        try:
            yield process
        finally:
            _kill(process)


def _environment(work: pathlib.Path) -> dict[str, str]:
    """Return the environment of the kernel, whose memory is in /dev/shm."""
    kept = {name: value for name, value in os.environ.items()
            if name != 'TMPDIR'}
    if not processor.is_newer():
        return kept
    try:
        return {**kept, **processor.environment(work)}
    except processor.BuildError as exc:
        raise GuestError(str(exc), NO_BOOT) from exc


def namespace() -> list[str]:
    """Return a command that runs another one, and ends all its processes.

    Without root, this needs a user namespace. When the kernel panics, it kills
    itself with a signal, which the first process of a namespace cannot do:
    therefore the first process is a shell.
    """
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    return ['unshare', *user, '--pid', '--fork', '--mount-proc',
            '--kill-child=KILL', 'sh', '-c', '"$@"; exit $?', 'guest']


def unavailable() -> str:
    """Return why no guest can boot here, or ''."""
    return packages.missing() or refused()


def refused() -> str:
    """Return why namespaces cannot be created here, or ''."""
    done = subprocess.run(  # nosec B603
        [*namespace(), 'true'], capture_output=True, text=True,
        timeout=_NAMESPACE_SECONDS)
    if not done.returncode:
        return ''
    return ('needs namespaces, which this machine refuses:'
            f' {done.stderr.strip()}')


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill its process group, unless it has ended: PIDs are reused."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _follow(process: subprocess.Popen[bytes], seconds: float,
            targets: Sequence[BinaryIO]) -> bool:
    """Copy the guest's output until it ends; return whether in time."""
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        assert process.stdout is not None  # nosec B101
        for line in process.stdout:
            for target in targets:
                target.write(line.replace(b'\r\n', b'\n'))
                target.flush()
        process.wait()
    finally:
        timer.cancel()
    return not late.is_set()


def _verdict(status: int, work: pathlib.Path, out: pathlib.Path) -> int:
    """Return the command's exit status; raises GuestError without one."""
    said = (out / KERNEL).read_text(errors='replace')
    panic = _PANIC.search(said)
    verdict = work / 'verdict'
    # A panic can leave the file empty.
    text = verdict.read_text().strip() if verdict.exists() else ''
    found = int(text) if text else None
    if found is not None and not panic and _DOWN in said:
        # On a busy machine the kernel sometimes aborts after powering down.
        return found
    # If nothing failed, the kernel's own status is that of the command.
    if panic or status > _SIGNAL and status != found:
        what = panic[1] if panic else f'signal {status - _SIGNAL}'
        if any(_FULL in (out / name).read_text(errors='replace')
               for name in LOGS):
            what = _NO_ROOM
        raise GuestError(f"the guest's kernel panicked: {what}", PANICKED)
    if found is None:
        raise GuestError('the guest was switched off before the command'
                         f' ended; its last line: {_last_line(out)}',
                         NO_VERDICT)
    return found


def last_lines(out: pathlib.Path, name: str, most: int) -> list[str]:
    """Return the last lines of one of LOGS; nothing if it does not exist.

    :param out: the directory that the guest sees as /out
    """
    path = out / name
    said = path.read_text(errors='replace').rstrip() if path.exists() else ''
    return said.split('\n')[-most:] if said else []


def _last_line(out: pathlib.Path) -> str:
    """Return the last line of the programs, or else of the kernel."""
    for name in LOGS:
        if said := last_lines(out, name, 1):
            return said[0]
    return 'it printed nothing'
