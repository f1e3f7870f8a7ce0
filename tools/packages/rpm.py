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

"""Build the source RPM into dist/, and check it with rpmlint.

    python -m tools.packages.rpm

rpmbuild makes it from packaging/rpm and the sdist. The binary package cannot
be built here, because that needs the macros of Fedora or EL.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile

from tools.packages import dist
from tools.packages import programs
from tools.releases import table
from tools import signals

OURS = table.ROOT / 'packaging' / 'rpm'
NAME = 'python-cinder-k2'
# The package of Debian that each program is in.
PROGRAMS = {'rpmbuild': 'rpm', 'rpmlint': 'rpmlint'}
# rpmlint of Debian runs with Debian's Python, without our modules.
_PYTHON = {'PYTHONPATH': '', 'PATH': f'/usr/bin:{os.environ.get("PATH", "")}'}


def write_spec(sdist: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Write the spec for an sdist of the driver; return the file."""
    text = (OURS / f'{NAME}.spec').read_text()
    for pattern, version in (
            (r'^(%global pypi_version ).*', dist.version_of(sdist)),
            (r'^(Version: *).*', dist.distribution_version(sdist))):
        text = re.sub(pattern, rf'\g<1>{version}', text, flags=re.M)
    spec = folder / f'{NAME}.spec'
    spec.write_text(text)
    return spec


def build(folder: pathlib.Path) -> tuple[pathlib.Path, str]:
    """Build the source RPM in a folder; return it, and rpmlint's summary.

    :raises PackageError: a step failed, or rpmlint found something
    """
    spec = write_spec(dist.build_driver(folder), folder)
    programs.run('rpmbuild', '-bs', *(
        word for name in ('_topdir', '_sourcedir', '_srcrpmdir')
        for word in ('--define', f'{name} {folder}')), spec)
    package, = folder.glob('*.src.rpm')
    said = programs.run('rpmlint', '--strict', '--config',
                        OURS / 'rpmlint.toml', spec, package,
                        variables=_PYTHON)
    return package, said.strip().splitlines()[-1].strip()


def main() -> int:
    """Build and check; return the exit status."""
    reason = programs.missing(PROGRAMS)
    if reason:
        print(f'make rpm: {reason}', file=sys.stderr)
        return 1
    try:
        with tempfile.TemporaryDirectory() as place:
            package, summary = build(pathlib.Path(place))
            dist.DIST.mkdir(exist_ok=True)
            for old in dist.DIST.glob(f'{NAME}-*.src.rpm'):
                old.unlink()
            shutil.copy(package, dist.DIST)
    except programs.PackageError as error:
        print(f'make rpm: {error}', file=sys.stderr)
        return 1
    print(f'dist/{package.name}\nrpmlint: {summary}')
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
