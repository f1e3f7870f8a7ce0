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

"""Run the driver's tests on the releases of OpenStack that it supports.

    python -m tools.releases [--slice | --imports] [RELEASE ...]

Builds the environment of each release, imports the driver there, and runs the
unit and functional tests and the main workflow as in "make cloud"; writes the
results to the page of releases, unless only a part of this is requested. Ends
with status 1 if a test failed, or an environment could not be built.
"""

import argparse
from collections.abc import Sequence
import json
import pathlib
import subprocess  # nosec B404
import sys
import time

from tools.releases import environments
from tools.releases import report
from tools.releases import suites
from tools.releases import table
from tools import run_tests
from tools import signals

# Prints the version of Python, and whether eventlet has replaced the threads
# of a process that is prepared like cinder-volume.
_SHOW = ('import json, sys; from tools.cloud import threads; threads.use();'
         'print(json.dumps([sys.version.split()[0], threads.are_patched()]))')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on the requested releases; return the exit status."""
    options = _options(arguments)
    try:
        # The suites of "make test" have run in full on the newest.
        releases = ([table.find(name) for name in options.releases]
                    or table.load()[:-1 if _is_part(options) else None])
    except table.UnknownReleaseError as error:
        print(error, file=sys.stderr)
        return 2
    status = [_run(release, options) for release in releases]
    if not _is_part(options):
        report.write()
        print(f'Written: {report.PAGE.relative_to(table.ROOT)}')
    return max(status)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m tools.releases',
        description="Runs the driver's tests on the releases of OpenStack "
                    'that it supports.')
    parser.add_argument('releases', nargs='*', metavar='RELEASE',
                        help='such as 2025.1 (default: all; with --slice '
                             'or --imports all but the newest)')
    part = parser.add_mutually_exclusive_group()
    part.add_argument('--slice', action='store_true',
                      help='only a slice of the functional tests, in two '
                           'minutes, and leave the page alone')
    part.add_argument('--imports', action='store_true',
                      help='only import the driver, and leave the page alone')
    return parser.parse_args(arguments)


def _is_part(options: argparse.Namespace) -> bool:
    return bool(options.slice or options.imports)


def _run(release: table.Release, options: argparse.Namespace) -> int:
    """Test one release; return 1 if something failed, else 0."""
    begin = time.monotonic()
    print(f'== {release.name}: Cinder {release.cinder}', flush=True)
    try:
        python = environments.of(release)
    except environments.BuildError as error:
        print(error, flush=True)
        return 1
    print(f'environment: {time.monotonic() - begin:.0f} s', flush=True)
    tallies = [suites.check_imports(python)]
    works = True
    if options.slice:
        tallies += suites.run(release, python, is_slice=True).values()
    elif not options.imports:
        results = suites.run(release, python, is_slice=False)
        tallies += results.values()
        works = suites.check_workflow(release, python)
        version, are_patched = _shown(python)
        report.result_of(release, version,
                         'eventlet' if are_patched else 'native',
                         results, works).save()
    print(f'== {release.name}: {time.monotonic() - begin:.0f} s', flush=True)
    run_tests.tell_reasons(tallies)
    return int(not works or any(tally.failed for tally in tallies))


def _shown(python: pathlib.Path) -> tuple[str, bool]:
    """Return the version of an interpreter, and whether Cinder patches it."""
    done = subprocess.run(  # nosec B603
        [python, '-W', 'ignore', '-c', _SHOW], cwd=table.ROOT, check=True,
        stdout=subprocess.PIPE, text=True)
    version, are_patched = json.loads(done.stdout.splitlines()[-1])
    return version, are_patched


if __name__ == '__main__':
    sys.exit(signals.run(main))
