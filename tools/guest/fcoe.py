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

"""Build fcoe.ko, which turns network interfaces into Fibre Channel ports.

    python -m tools.guest.fcoe

prints its path. Debian's user-mode-linux has all modules for Fibre Channel
except this one. It is built once, from the source of the installed kernel, and
kept in the user's cache; it is never shipped. In the same directory is
tcm_fc.ko, the kernel's own module with a bug fixed (tools/guest/tcm_fc.py).
"""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import fcntl
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess  # nosec B404
import sys
import tempfile
import time
from typing import BinaryIO

from tools.cloud import children
from tools.guest import packages
from tools.guest import tcm_fc

#: The package of Debian that each program is in.
PROGRAMS = {
    'apt-get': 'apt', 'bc': 'bc', 'bison': 'bison', 'dpkg-deb': 'dpkg',
    'flex': 'flex', 'gcc': 'gcc', 'linux.uml': 'user-mode-linux',
    'make': 'make', 'tar': 'tar', 'xz': 'xz-utils'}
FILES = {'/usr/include/stdio.h': 'libc6-dev'}
#: Time limit of the build, including waiting for that of another process.
SECONDS = 900.0
MODULE = 'fcoe.ko'
#: In the same directory.
TARGET_MODULE = 'tcm_fc.ko'
_CONFIGURATION = pathlib.Path('/usr/share/doc/user-mode-linux/config.gz')
_INSTALLED = pathlib.Path('/usr/src')
# Large parts that are not needed. All Kconfig files are needed.
_LEFT_OUT = ('Documentation/[a-z]*', 'drivers/gpu/*.[ch]',
             'drivers/media/*.[ch]', 'drivers/net/*.[ch]', 'sound/*.[ch]')
_PARTS = ('fcoe.c', 'fcoe.h', 'libfcoe.h')
# Structures of the kernel have fields for FCoE offload by network cards only
# if it was configured with the module. This one was not, and no card of a
# guest supports offload.
_HOOK = re.compile(r'\b(?:\w+->)+(?=ndo_fcoe_|fcoe_ddp_xid)')
_TYPE = re.compile(r'^struct netdev_fcoe_hbainfo \{.*?^\};\n', re.M | re.S)
_NO_HOOKS = """
static const struct {
    int (*ndo_fcoe_enable)(), (*ndo_fcoe_disable)();
    int (*ndo_fcoe_ddp_setup)(), (*ndo_fcoe_ddp_target)();
    int (*ndo_fcoe_ddp_done)(), (*ndo_fcoe_get_hbainfo)();
    int fcoe_ddp_xid;
} no_hooks;
"""
_MAKEFILE = """\
obj-m := fcoe.o tcm_fc.o
tcm_fc-y := tfc_cmd.o tfc_conf.o tfc_io.o tfc_sess.o
ccflags-y := -Wno-strict-prototypes
"""
_LAST_INCLUDE = '#include "fcoe.h"\n'
# Variables that make passes to child processes.
_OF_MAKE = ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'MAKEOVERRIDES')
_LOOK_SECONDS = 0.2


class BuildError(Exception):
    """The module is not available; the text says why, in one line."""


def module(cache: pathlib.Path | None = None, seconds: float = SECONDS
           ) -> pathlib.Path:
    """Return the path of the installed kernel's module; build it if missing.

    :param cache: where modules are stored; the user's cache if None
    :raises BuildError: it cannot be built, or not in time
    """
    reason = packages.missing(PROGRAMS, FILES)
    if reason:
        raise BuildError(f'{MODULE} {reason}')
    try:
        return _module(cache or _cache(), time.monotonic() + seconds)
    except (OSError, subprocess.SubprocessError) as exc:
        raise BuildError(f'{MODULE} cannot be built: {exc}') from exc


def _module(cache: pathlib.Path, deadline: float) -> pathlib.Path:
    version = _version()
    folder = cache / f'{version}-{_recipe()}'
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / 'lock', deadline):
        if not (folder / MODULE).exists():
            _Build(folder, version, deadline).run()
    return folder / MODULE


def _cache() -> pathlib.Path:
    """Return the cache directory of the XDG specification."""
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return pathlib.Path(home) / 'cinder-k2' / 'fcoe'


def _version() -> str:
    """Return which version of linux-source the kernel was built from."""
    shown = _query('${Built-Using}', 'user-mode-linux')
    found = re.search(r'\blinux \(= ([^)]+)\)', shown)
    if not found:
        raise BuildError('the package user-mode-linux does not say which'
                         f' source it was built from: {shown!r}')
    return found[1]


def _query(field: str, package: str) -> str:
    """Return a field of a package, or nothing if it is not installed."""
    return subprocess.run(  # nosec B603 B607
        ['dpkg-query', '--show', f'--showformat={field}', package],
        capture_output=True, text=True, check=False, timeout=60).stdout


def _recipe() -> str:
    """Return a digest of the build, so that no outdated module is used."""
    texts = [pathlib.Path(place).read_bytes()
             for place in (__file__, tcm_fc.__file__)]
    return hashlib.sha256(b''.join(texts)).hexdigest()[:8]


@contextlib.contextmanager
def _alone(path: pathlib.Path, deadline: float) -> Iterator[None]:
    """Hold the lock of a build within the block.

    :raises BuildError: another process holds it until the deadline
    """
    with open(path, 'w') as lock:
        while not _locked(lock.fileno()):
            if time.monotonic() > deadline:
                raise BuildError(f'{MODULE} is being built by another'
                                 f' process, which has {path}')
            time.sleep(_LOOK_SECONDS)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Build:
    """Builds the module in a temporary directory.

    :param folder: where to put the module and the log
    :param version: of the source, such as "6.1.176-1"
    :param deadline: on the clock time.monotonic
    """

    def __init__(self, folder: pathlib.Path, version: str, deadline: float
                 ) -> None:
        self._folder = folder
        self._version = version
        self._deadline = deadline
        # Such as "linux-source-6.1".
        self._package = 'linux-source-' + '.'.join(version.split('.')[:2])
        self._log = folder / 'build.log'

    def run(self) -> None:
        """Build it; raises BuildError."""
        self._log.write_bytes(b'')
        with tempfile.TemporaryDirectory(
                prefix='work-', dir=self._folder) as name:
            work = pathlib.Path(name)
            self._unpack(self._archive(work), work)
            tree = work / self._package
            self._configure(tree)
            made = self._compile(tree, work / 'module')
            # MODULE comes last: if it exists, so does TARGET_MODULE.
            for name in (TARGET_MODULE, MODULE):
                os.replace(made / name, self._folder / name)

    def _archive(self, work: pathlib.Path) -> pathlib.Path:
        """Return the archive of the source, installed or downloaded."""
        name = f'{self._package}.tar.xz'
        if _query('${Version}', self._package) == self._version:
            return _INSTALLED / name
        self._do(['apt-get', '--quiet', '-o', 'Acquire::Retries=1',
                  '-o', 'Acquire::http::Timeout=30', 'download',
                  f'{self._package}={self._version}'], work)
        package, = work.glob('*.deb')
        self._do(['dpkg-deb', '--extract', package.name, '.'], work)
        return work / 'usr' / 'src' / name

    def _unpack(self, archive: pathlib.Path, work: pathlib.Path) -> None:
        self._do(['tar', '--extract', '--xz', f'--file={archive}',
                  *(f'--exclude=*/{name}' for name in _LEFT_OUT)], work)

    def _configure(self, tree: pathlib.Path) -> None:
        """Configure it like the installed kernel, for compatible modules."""
        (tree / '.config').write_bytes(
            gzip.decompress(_CONFIGURATION.read_bytes()))
        self._make(tree, 'olddefconfig', 'modules_prepare')
        found = (tree / 'include/config/kernel.release').read_text().strip()
        if found != self._version.partition('-')[0]:
            raise BuildError(f'{MODULE} would be for a kernel {found}, and'
                             f' that of {self._version} is installed')

    def _compile(self, tree: pathlib.Path, place: pathlib.Path
                 ) -> pathlib.Path:
        """Compile outside of the source tree, which would not build it."""
        place.mkdir()
        for part in _PARTS:
            shutil.copy(tree / 'drivers' / 'scsi' / 'fcoe' / part, place)
        source, header = place / 'fcoe.c', tree / 'include/linux/netdevice.h'
        source.write_text(without_hooks(
            source.read_text(), header.read_text()))
        for part in tcm_fc.PARTS:
            found = (tree / 'drivers' / 'target' / 'tcm_fc' / part).read_text()
            (place / part).write_text(_fixed(part, found))
        (place / 'Makefile').write_text(_MAKEFILE)
        # The symbols of the kernel are unknown, because it was not built here.
        self._make(tree, f'M={place}', 'KBUILD_MODPOST_WARN=1', 'modules')
        return place

    def _make(self, tree: pathlib.Path, *targets: str) -> None:
        self._do(['make', f'-j{os.cpu_count()}', 'ARCH=um', *targets], tree)

    def _do(self, command: Sequence[str], folder: pathlib.Path) -> None:
        """Run a program in a directory, with its output in the log.

        :raises BuildError: it fails, or does not end before the deadline
        """
        with open(self._log, 'ab') as log, _started(
                command, folder, log) as process:
            try:
                status = process.wait(self._deadline - time.monotonic())
            except subprocess.TimeoutExpired as exc:
                raise self._error(command, 'does not end in time') from exc
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if status:
            raise self._error(command, f'ends with status {status}')

    def _error(self, command: Sequence[str], what: str) -> BuildError:
        return BuildError(f'{MODULE} cannot be built: {command[0]}'
                          f' {command[-1]} {what}; see {self._log}')


def _started(command: Sequence[str], folder: pathlib.Path, log: BinaryIO
             ) -> subprocess.Popen[bytes]:
    """Start a program in a new process group that ends with this process."""
    parent = os.getpid()
    return subprocess.Popen(  # nosec B603
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        start_new_session=True,
        env={name: value for name, value in os.environ.items()
             if name not in _OF_MAKE},
        preexec_fn=lambda: children.die_with_parent(parent))


def without_hooks(source: str, header: str) -> str:
    """Return fcoe.c for cards without FCoE offload.

    :param header: netdevice.h, which hides a type from this kernel
    :raises BuildError: the sources are not the expected ones
    """
    edited, count = _HOOK.subn('no_hooks.', source)
    hidden = _TYPE.search(header)
    if not count or not hidden or edited.count(_LAST_INCLUDE) != 1:
        raise _unknown(MODULE)
    return edited.replace(
        _LAST_INCLUDE, _LAST_INCLUDE + hidden[0] + _NO_HOOKS)


def _fixed(part: str, source: str) -> str:
    """Return a file of tcm_fc with the bug fixed; raises BuildError."""
    try:
        return tcm_fc.fixed(part, source)
    except tcm_fc.UnknownSource as exc:
        raise _unknown(TARGET_MODULE) from exc


def _unknown(module: str) -> BuildError:
    return BuildError(f'{module} cannot be built: its source in this kernel'
                      ' is not the expected one')


def main() -> int:
    """Print the path of the module, or an error; return the exit status."""
    try:
        print(module())
    except BuildError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
