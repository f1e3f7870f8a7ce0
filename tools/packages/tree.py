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

"""A tree of Debian 13 with Debian's own Cinder, in .venvs/trixie.

It is created by mmdebstrap, from the mirror that this machine's apt uses, and
stays unchanged: changes are made in an overlay.
"""

import pathlib
import shutil

from tools.packages import programs
from tools.releases import environments

SUITE = 'trixie'
FOLDER = environments.FOLDER / SUITE
BASE = FOLDER / 'tree'
# To build and check a package, and Cinder with the services that it needs.
PACKAGES = (
    'build-essential', 'debhelper', 'dh-sequence-python3', 'help2man',
    'lintian',
    'pybuild-plugin-pyproject', 'python3-all', 'python3-pbr',
    'python3-setuptools',
    'cinder-api', 'cinder-scheduler', 'cinder-volume', 'iproute2',
    'mariadb-server', 'python3-pymysql', 'rabbitmq-server')
# The package of Debian that each program is in.
PROGRAMS = {'mmdebstrap': 'mmdebstrap', 'unshare': 'util-linux',
            'apt-get': 'apt'}
# The settings of apt that say how to reach a mirror, and what to accept.
_SETTINGS = ('Acquire::http', 'Acquire::Check-', 'Acquire::Retries')
MOUNTS = pathlib.Path('/proc/self/mounts')
_SECONDS = 3600.0


def make() -> pathlib.Path:
    """Return the tree, created if it is missing or outdated.

    :raises PackageError: it cannot be created
    """
    stamp, source = FOLDER / 'packages', mirror()
    wanted = f'{source} {" ".join(PACKAGES)}'
    if stamp.exists() and stamp.read_text() == wanted and BASE.is_dir():
        return BASE
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    new = FOLDER / 'tree.new'
    for old in (new, BASE):
        remove(old)
    settings = FOLDER / 'apt.conf'
    settings.write_text(apt_settings())
    # The mounts of mmdebstrap must end with it.
    programs.run(
        'unshare', '--mount', '--pid', '--fork', '--kill-child', '--',
        'mmdebstrap', '--mode=root', '--variant=apt',
        f'--aptopt={settings}', '--dpkgopt=force-unsafe-io',
        f'--include={",".join(PACKAGES)}', SUITE, new, source,
        seconds=_SECONDS)
    new.rename(BASE)
    stamp.write_text(wanted)
    return BASE


def mirror() -> str:
    """Return the address that this machine gets Debian's packages from.

    :raises PackageError: it has none
    """
    found = programs.run(
        'apt-get', 'indextargets', '--format', '$(REPO_URI)',
        'Created-By: Packages', 'Origin: Debian', 'Label: Debian').split()
    if not found:
        raise programs.PackageError(
            'apt knows no mirror of Debian: use a Debian system, and run '
            'apt-get update first')
    return found[0]


def apt_settings() -> str:
    """Return this machine's settings of apt that the tree needs as well."""
    lines = programs.run('apt-config', 'dump').splitlines(keepends=True)
    return ''.join(line for line in lines if line.startswith(_SETTINGS)
                   and not line.endswith(' "";\n'))


def remove(folder: pathlib.Path) -> None:
    """Remove a folder with all its files, but nothing that is mounted.

    :raises PackageError: something is mounted in it
    """
    check_unmounted(folder)
    if folder.exists():
        shutil.rmtree(folder)


def check_unmounted(folder: pathlib.Path) -> None:
    """Check that nothing is mounted in a folder.

    :raises PackageError: something is
    """
    for line in MOUNTS.read_text().splitlines():
        place = pathlib.Path(line.split()[1])
        if folder in (place, *place.parents):
            raise programs.PackageError(
                f'{place} is still mounted: umount --recursive {place}')
