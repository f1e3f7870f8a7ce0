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

"""Build the Debian package into dist/, and try it with Debian's own Cinder.

    python -m tools.packages.deb

Builds the source and the binary package of packaging/debian in a tree of
Debian 13, checks them with lintian, installs the package with Debian's
cinder-volume, and runs the main workflow on k2-sim. All of that happens in
separate namespaces, without network: see tools/packages/trial.py.
"""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess  # nosec B404
import sys

from tools.cloud import children
from tools.cloud import console
from tools.packages import dist
from tools.packages import programs
from tools.packages import tree
from tools.releases import table
from tools import signals

OURS = table.ROOT / 'packaging' / 'debian'
NAME = 'cinder-k2'
WORK = tree.FOLDER / 'work'
# The folder in WORK where packages are built.
BUILD = 'build'


def missing() -> str:
    """Return why the package cannot be built here; '' if it can."""
    if os.geteuid():
        return 'root is needed, for chroot and mounts'
    return programs.missing(tree.PROGRAMS)


def unpack(sdist: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Lay out the source package in a folder; return the source tree.

    :param sdist: of the driver
    :raises PackageError: it cannot be unpacked
    """
    version = dist.distribution_version(sdist)
    original = folder / f'{NAME}_{version}.orig.tar.gz'
    shutil.copy(sdist, original)
    programs.run('tar', '--extract', '--no-same-owner', '--file', original,
                 cwd=folder)
    source = folder / sdist.name.removesuffix('.tar.gz')
    shutil.copytree(OURS, source / 'debian')
    changelog = source / 'debian' / 'changelog'
    changelog.write_text(re.sub(r'\(.*?(?=-)', f'({version}',
                                changelog.read_text(), count=1))
    return source


def enter(source: str) -> None:
    """Build and try the package in separate namespaces.

    :param source: the name of the source tree
    :raises PackageError: a step failed; its output says why
    """
    parent = os.getpid()
    done = subprocess.run(  # nosec B603 B607
        ['unshare', '--mount', '--mount-proc', '--net', '--uts', '--ipc',
         '--pid', '--fork', '--kill-child', '--', sys.executable, '-m',
         'tools.packages.trial', source],
        cwd=table.ROOT, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: children.die_with_parent(parent))
    if done.returncode:
        raise programs.PackageError('the package was not accepted, see above')


def collect() -> list[pathlib.Path]:
    """Copy the packages to dist/, in place of older ones; return them."""
    dist.DIST.mkdir(exist_ok=True)
    patterns = (f'{NAME}_*', f'python3-{NAME}_*.deb')
    for pattern in patterns:
        for old in dist.DIST.glob(pattern):
            if old.suffix != '.charm':
                old.unlink()
    return [pathlib.Path(shutil.copy(path, dist.DIST))
            for pattern in patterns
            for path in sorted((WORK / BUILD).glob(pattern))]


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Prevent other runs within the block.

    :raises PackageError: another run is in progress
    """
    tree.FOLDER.mkdir(parents=True, exist_ok=True)
    with (tree.FOLDER / 'lock').open('a') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise programs.PackageError(
                f'another make deb is running in {tree.FOLDER}') from None
        yield


def run() -> None:
    """Build, try and collect the packages.

    :raises PackageError: a step failed
    """
    with locked():
        tree.remove(WORK)
        (WORK / BUILD).mkdir(parents=True)
        with console.step(f'tree of Debian {tree.SUITE}') as line:
            line.note = str(tree.make())
        with console.step('sdist') as line:
            sdist = dist.build_driver(WORK)
            line.note = sdist.name
        enter(unpack(sdist, WORK / BUILD).name)
        for path in collect():
            console.say(f'  dist/{path.name}')


def main() -> int:
    """Run all steps; return the exit status."""
    reason = missing()
    if reason:
        print(f'make deb: {reason}', file=sys.stderr)
        return 1
    try:
        run()
    except programs.PackageError as error:
        print(f'make deb: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
