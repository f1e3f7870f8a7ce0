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

"""Build the sdists and wheels of the driver and of k2-sim into dist/.

    python -m tools.packages.dist [--check]

Two builds of one commit are equal, byte for byte. The last commit is built, in
a temporary clone, with the build tools of ``packaging/build.txt`` and the date
of the commit. Wheels are built from the sdists.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
import gzip
import hashlib
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile

from tools.packages import programs
from tools.releases import table
from tools import signals
from tools import uv

DIST = table.ROOT / 'dist'
CONSTRAINTS = table.ROOT / 'packaging' / 'build.txt'
# The folder of each project, and the pattern of its files.
PROJECTS = {'.': 'cinder_k2-', 'k2-sim': 'k2_sim-'}
_ENDINGS = ('.tar.gz', '.whl')
_PRERELEASE = re.compile(r'\.?(dev|rc|a|b)(?=\d)')


def build(folder: pathlib.Path, projects: Iterable[str] = tuple(PROJECTS)
          ) -> list[pathlib.Path]:
    """Build the sdist and wheel of each project; return the files.

    Those of other versions are removed from the folder.

    :raises PackageError: a step failed
    """
    with tempfile.TemporaryDirectory() as place:
        clone, made = pathlib.Path(place, 'clone'), pathlib.Path(place, 'made')
        programs.run('git', 'clone', '--quiet', table.ROOT, clone)
        epoch = int(programs.run('git', 'log', '-1', '--format=%ct',
                                 cwd=clone))
        for project in projects:
            _build(clone / project, made, epoch)
        folder.mkdir(parents=True, exist_ok=True)
        for old in _files(folder):
            old.unlink()
        return [pathlib.Path(shutil.copy(path, folder))
                for path in _files(made)]


def build_driver(folder: pathlib.Path) -> pathlib.Path:
    """Build the sdist of the driver alone into a folder; return the file.

    :raises PackageError: a step failed
    """
    with tempfile.TemporaryDirectory() as place:
        sdist, = (path for path in build(pathlib.Path(place), ('.',))
                  if path.name.endswith('.tar.gz'))
        return pathlib.Path(shutil.copy(sdist, folder))


def version_of(sdist: pathlib.Path) -> str:
    """Return the version in the name of the driver's sdist."""
    return sdist.name.removeprefix(PROJECTS['.']).removesuffix('.tar.gz')


def distribution_version(sdist: pathlib.Path) -> str:
    """Return the version for dpkg and rpm: 1.0.0~dev7 precedes 1.0.0."""
    return _PRERELEASE.sub(r'~\1', version_of(sdist))


def _build(project: pathlib.Path, made: pathlib.Path, epoch: int) -> None:
    """Build the sdist of one project, and from it the wheel."""
    before = set(_files(made))
    _uv('--sdist', project, made, epoch)
    sdist, = set(_files(made)) - before
    repack(sdist, epoch)
    _uv('--wheel', sdist, made, epoch)


def _uv(kind: str, source: pathlib.Path, made: pathlib.Path, epoch: int
        ) -> None:
    """Run uv build.

    :raises PackageError: it failed
    """
    programs.run(
        uv.PROGRAM, 'build', '--quiet', '--python', sys.executable,
        '--build-constraints', CONSTRAINTS, '--out-dir', made, kind, source,
        cwd=made.parent,
        variables={**uv.variables(), 'SOURCE_DATE_EPOCH': str(epoch)})


def repack(sdist: pathlib.Path, epoch: int) -> None:
    """Remove from an sdist what differs between builds.

    setuptools, unlike hatchling, records when files were made, and by whom:
    https://github.com/pypa/setuptools/issues/2133

    :param epoch: the time to record, in seconds since 1970
    """
    with tarfile.open(sdist) as archive:
        members = [(member, archive.extractfile(member))
                   for member in archive.getmembers()]
        # The name of the file would be recorded in the header otherwise.
        with sdist.with_suffix('.new').open('wb') as stream, \
                gzip.GzipFile('', 'wb', 9, stream, epoch) as packed, \
                tarfile.open(fileobj=packed, mode='w',
                             format=tarfile.PAX_FORMAT) as result:
            for member, content in sorted(members,
                                          key=lambda pair: pair[0].name):
                result.addfile(_anonymous(member, epoch), content)
    sdist.with_suffix('.new').replace(sdist)


def _anonymous(member: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    """Return a member with a fixed date and mode, and without an owner."""
    wanted = tarfile.TarInfo(member.name)
    wanted.type, wanted.linkname = member.type, member.linkname
    wanted.size, wanted.mtime = member.size, epoch
    executable = member.isdir() or member.mode & 0o100
    wanted.mode = 0o755 if executable else 0o644
    return wanted


def _files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield our sdists and wheels in a folder, in the order of their names."""
    for path in sorted(folder.glob('*')):
        if (path.name.startswith(tuple(PROJECTS.values()))
                and path.name.endswith(_ENDINGS)):
            yield path


def digests(files: list[pathlib.Path]) -> dict[str, str]:
    """Return the SHA-256 digest of each file, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files}


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return the names of files that two builds do not share."""
    return sorted({name for name, _ in first.items() ^ second.items()})


def check(built: dict[str, str]) -> list[str]:
    """Build again elsewhere; return the names of files that differ.

    :param built: digests of the first build
    :raises PackageError: a step failed
    """
    with tempfile.TemporaryDirectory() as place:
        return differences(built, digests(build(pathlib.Path(place))))


def main() -> int:
    """Build, print the digests, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--check', action='store_true',
                        help='build twice and compare')
    arguments = parser.parse_args()
    try:
        built = digests(build(DIST))
        differing = check(built) if arguments.check else []
    except programs.PackageError as error:
        print(error, file=sys.stderr)
        return 1
    for name, digest in built.items():
        print(f'{digest}  dist/{name}')
    if differing:
        print('A second build differs in', *differing, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
