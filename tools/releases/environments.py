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

"""Virtual environments with older releases of Cinder than that in ``.venv``.

They are in ``.venvs``, by release. As in ``.venv``, the project's own packages
are installed in editable mode.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess  # nosec B404
import sys

from tools.releases import table
from tools import uv

FOLDER = table.ROOT / '.venvs'
# The environment of the lowest versions that the driver's requirements allow.
LOWEST = 'lowest'
# The same for k2-sim, which has no package of OpenStack.
LOWEST_SIMULATOR = 'lowest-k2-sim'
# The environment of the versions that Ubuntu 24.04 has.
UBUNTU = 'ubuntu-24.04'
REQUIREMENTS = ('requirements.txt', 'test-requirements.txt',
                'tools/cloud/requirements.txt',
                'tools/tempest/requirements.txt')
# What environments are built from.
_INPUTS = (*REQUIREMENTS, 'setup.cfg', 'setup.py', 'pyproject.toml',
           'k2-sim/pyproject.toml', 'tools/releases/environments.py',
           'tools/releases/ubuntu.yaml')
_SECONDS = 1200.0
_NAME = re.compile(r'[A-Za-z0-9._-]+')


class BuildError(Exception):
    """An environment cannot be built; the message says what to do."""


def python_of(name: str) -> pathlib.Path:
    """Return the interpreter of a release's environment."""
    return FOLDER / name / 'bin' / 'python'


def of(release: table.Release) -> pathlib.Path:
    """Return the interpreter of a release's environment, built if needed.

    :raises BuildError: it cannot be built
    """
    if release == table.load()[-1]:
        return pathlib.Path(sys.executable)
    return build(release)


def of_ubuntu() -> pathlib.Path:
    """Return the interpreter of Ubuntu's environment, built if needed.

    It has the versions of ``ubuntu.yaml``, in place of the release's.

    :raises BuildError: it cannot be built, such as if its Python is missing
    """
    ubuntu = table.ubuntu()
    release = dataclasses.replace(table.find(ubuntu.release),
                                  python=[ubuntu.python])
    return build(release, pins=ubuntu.versions)


def build(release: table.Release, *, lowest: bool = False,
          pins: Mapping[str, str] | None = None) -> pathlib.Path:
    """Build an environment, or bring it up to date; return its interpreter.

    :param lowest: with the lowest versions that ``requirements.txt`` allows
        on this release
    :param pins: versions of Ubuntu's packages, by name
    :raises BuildError: there is no interpreter, or an installation failed
    """
    folder = FOLDER / (LOWEST if lowest else
                       UBUNTU if pins else release.name)
    python = python_of(folder.name)
    stamp = folder / 'inputs'
    wanted = _fingerprint(release, lowest)
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _run('venv', '--quiet', '--python',
         str(interpreter(release, lowest=lowest)), str(folder))
    _install(release, folder, lowest=False, what=[
        *_arguments(release),
        *(f'{name}=={version}' for name, version in (pins or {}).items())],
        free=pins or ())
    if lowest:
        _install(release, folder, lowest=True, what=[
            f'cinder=={release.cinder}',
            '--requirement', str(table.ROOT / 'requirements.txt'),
            *(f'--upgrade-package={name}' for name in _required())])
    stamp.write_text(wanted)
    return python


def build_simulator(release: table.Release) -> pathlib.Path:
    """Build the environment of k2-sim alone; return its interpreter.

    It has the lowest versions that k2-sim allows, also for its tests, and the
    oldest Python of a release.

    :raises BuildError: there is no interpreter, or an installation failed
    """
    python = python_of(LOWEST_SIMULATOR)
    shutil.rmtree(FOLDER / LOWEST_SIMULATOR, ignore_errors=True)
    _run('venv', '--quiet', '--python', str(interpreter(release, lowest=True)),
         str(FOLDER / LOWEST_SIMULATOR))
    _run('pip', 'install', '--quiet', '--python', str(python),
         '--resolution', 'lowest-direct',
         '--editable', f'{table.ROOT / "k2-sim"}[test]')
    return python


def _install(release: table.Release, folder: pathlib.Path, *, lowest: bool,
             what: Iterable[str], free: Iterable[str] = ()) -> None:
    """Install with the release's constraints, or lower where allowed.

    :param free: packages without a constraint
    """
    constraints = folder / 'constraints.txt'
    constraints.write_text(''.join(_constraints(release, lowest, free)))
    _run('pip', 'install', '--quiet', '--python', str(python_of(folder.name)),
         '--constraint', str(constraints),
         *(['--resolution', 'lowest-direct'] if lowest else []),
         *what)


def interpreter(release: table.Release, *, lowest: bool = False
                ) -> pathlib.Path:
    """Find an interpreter that a release supports.

    :param lowest: the oldest rather than the usual one
    :raises BuildError: there is none
    """
    for version in sorted(release.python, key=_minor) if lowest else (
            release.python):
        for folder in _places(version):
            path = folder / f'python{version}'
            if _is_version(path, version):
                return path
    raise BuildError(
        f'{release.name} needs Python {" or ".join(release.python)}, which '
        'is not on PATH or among the versions of pyenv. Install one, for '
        'example with pyenv.')


def _minor(version: str) -> int:
    """Return the minor version of a version of Python."""
    return int(version.partition('.')[2])


def _places(version: str) -> Iterable[pathlib.Path]:
    """Yield folders that may have an interpreter of a version, PATH first."""
    for place in os.environ.get('PATH', '').split(os.pathsep):
        yield pathlib.Path(place)
    root = pathlib.Path(os.environ.get('PYENV_ROOT') or
                        pathlib.Path.home() / '.pyenv')
    yield from sorted((root / 'versions').glob(f'{version}.*/bin'))


def _is_version(path: pathlib.Path, version: str) -> bool:
    """Return whether a program is an interpreter of a version, not a stub."""
    if not path.exists():
        return False
    done = subprocess.run(  # nosec B603
        [path, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() == version


def _arguments(release: table.Release) -> list[str]:
    """Return the arguments of "uv pip install" that say what to install."""
    return [*[word for file in REQUIREMENTS[1:]
              for word in ('--requirement', str(table.ROOT / file))],
            *release.also,
            '--editable', str(table.ROOT),
            '--editable', str(table.ROOT / 'k2-sim')]


def _constraints(release: table.Release, lowest: bool,
                 more: Iterable[str] = ()) -> Iterable[str]:
    """Yield the release's constraints, without packages that must be newer.

    :param more: further packages without a constraint
    """
    free = {_name(line) for line in [
        *(table.ROOT / 'test-requirements.txt').read_text().splitlines(),
        *release.also, *more]}
    if lowest:
        free |= _required()
    for line in release.constraints.read_text().splitlines(keepends=True):
        if _name(line) not in free:
            yield line
    for name in ('cinder', 'glance', 'keystone'):
        if name not in free:
            yield f'{name}=={getattr(release, name)}\n'


def _required() -> set[str]:
    """Return the names of the packages that the driver requires."""
    text = (table.ROOT / 'requirements.txt').read_text()
    return {_name(line) for line in text.splitlines()} - {''}


def _name(line: str) -> str:
    """Return the name of a requirement in PyPI's normalized form."""
    found = _NAME.match(line)
    return re.sub('[-_.]+', '-', found[0]).lower() if found else ''


def _fingerprint(release: table.Release, lowest: bool) -> str:
    """Return a digest that changes when the environment must be rebuilt."""
    base = interpreter(release, lowest=lowest)
    digest = hashlib.sha256(
        f'{release} {lowest} {table.ROOT} {base}'.encode())
    for file in (*(table.ROOT / name for name in _INPUTS),
                 release.constraints):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _run(*command: str) -> None:
    """Run uv.

    :raises BuildError: it failed
    """
    done = subprocess.run(  # nosec B603
        [str(uv.PROGRAM), *command], env=uv.variables(),
        capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise BuildError(f'uv {command[0]} failed:\n{done.stderr}')
