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

"""Run the tests of the driver and k2-sim with the lowest allowed versions.

    python -m tools.releases.lowest

Builds an environment of the oldest release in which the packages of
requirements.txt have the lowest version that is allowed there, checks that
this is the stated one, and runs the unit tests and a slice of the functional
tests. Does the same for k2-sim alone, with all its tests but those in a
browser. Ends with status 1 if something differs or fails.
"""

from collections.abc import Mapping
import json
import pathlib
import re
import subprocess  # nosec B404
import sys

from tools.releases import environments
from tools.releases import suites
from tools.releases import table
from tools import run_tests
from tools import signals

_BOUND = re.compile(r'^ *"?([A-Za-z0-9._-]+)>=([0-9.]+)', re.M)
_SHOW = ('import importlib.metadata as m, json, sys;'
         'print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))')


def bounds(text: str) -> dict[str, str]:
    """Read the lowest version of each package from requirements.

    :param text: of a requirements.txt or a pyproject.toml
    """
    return dict(_BOUND.findall(text))


def differences(file: str, wanted: Mapping[str, str],
                found: Mapping[str, str]) -> list[str]:
    """Return a line for each package whose version is not the lowest.

    :param file: the file that allows these versions
    :param wanted: the lowest allowed versions, by package
    :param found: the installed versions, by package
    """
    return [f'{name}: {file} allows {version}, but the lowest that can be '
            f'installed is {found[name]}'
            for name, version in wanted.items() if found[name] != version]


def main() -> int:
    """Build, compare, run; return the exit status."""
    release = table.load()[0]
    try:
        python = environments.build(release, lowest=True)
        simulator = environments.build_simulator(release)
    except environments.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    wrong = [*_differences('requirements.txt', python),
             *_differences('k2-sim/pyproject.toml', simulator)]
    for line in wrong:
        print(line)
    tallies = [suites.check_imports(python),
               *suites.run(release, python, is_slice=True).values(),
               suites.run_simulator(simulator)]
    run_tests.tell_reasons(tallies)
    return int(bool(wrong) or any(tally.failed for tally in tallies))


def _differences(file: str, python: pathlib.Path) -> list[str]:
    """Compare what a file allows with what an environment has."""
    wanted = bounds((table.ROOT / file).read_text())
    return differences(file, wanted, _versions(python, list(wanted)))


def _versions(python: pathlib.Path, names: list[str]) -> dict[str, str]:
    """Return the versions of packages in an environment."""
    done = subprocess.run(  # nosec B603
        [python, '-c', _SHOW, *names], check=True, stdout=subprocess.PIPE,
        text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


if __name__ == '__main__':
    sys.exit(signals.run(main))
