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

"""The tests that run on every release, in its environment."""

from collections.abc import Mapping
import os
import pathlib
import subprocess  # nosec B404

from tools.releases import table
from tools import run_tests

SUITES = ('unit', 'integration', 'functional')
# The releases have different versions of urllib3.
PEERS = r'tests\.integration\.test_peers\.'
# A slice of the functional tests, in two minutes: the most common operations
# over both transports, also on an array that accepts only known requests.
SLICE = (r'tests\.functional\.test_(volumes|snapshots|attach_iscsi|attach_fc'
         r'|known|images)\.')
# Two services that work on the same objects at the same time.
CLUSTER = r'tests\.faults\.test_cluster\.'
_WORKFLOW_SECONDS = 900.0
_IMPORT_SECONDS = 120.0


def check_imports(python: pathlib.Path) -> run_tests.Tally:
    """Import all modules of the driver; an error counts as a failed test."""
    print('== imports', flush=True)
    tally = run_tests.Tally()
    try:
        done = subprocess.run(  # nosec B603
            [python, '-W', 'ignore', '-m', 'tools.releases.imports'],
            cwd=table.ROOT, env=_variables('unit'), capture_output=True,
            text=True, timeout=_IMPORT_SECONDS)
    except subprocess.TimeoutExpired as error:
        tally.fail(str(error))
        return tally
    if done.returncode:
        tally.fail(done.stderr)
    else:
        print(done.stdout, end='', flush=True)
    return tally


def run(release: table.Release, python: pathlib.Path, *, is_slice: bool
        ) -> dict[str, run_tests.Tally]:
    """Run the suites on a release.

    :param is_slice: of the functional tests, only ``SLICE``
    :returns: the results by suite
    """
    chosen = {'integration': [PEERS], 'functional': [SLICE] * is_slice}
    return {suite: _run(f'{release.name}-{suite}', release, python, suite,
                        chosen.get(suite, []), {})
            for suite in SUITES}


def run_simulator(python: pathlib.Path) -> run_tests.Tally:
    """Run the tests of k2-sim in a separate environment."""
    suite = run_tests.SIMULATOR
    results = table.ROOT / '.venvs' / 'results' / suite
    results.mkdir(parents=True, exist_ok=True)
    path = f'{python.parent}:{os.environ.get("PATH", "")}'
    tally = run_tests.run_command(
        f'lowest-{suite}', [
            str(python), '-m', 'stestr', '--repo-url', str(results),
            *run_tests.RUNNERS[suite][1:]],
        table.ROOT / suite, {**_variables(suite), 'PATH': path})
    run_tests.keep(f'lowest-{suite}', tally.failures)
    return tally


def check_workflow(release: table.Release, python: pathlib.Path) -> bool:
    """Return whether the main workflow succeeds on both back ends."""
    print(f'== {release.name}-workflow', flush=True)
    try:
        return not subprocess.run(  # nosec B603
            [python, '-m', 'tools.cloud', '--check'], cwd=table.ROOT,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            timeout=_WORKFLOW_SECONDS).returncode
    except subprocess.TimeoutExpired as error:
        print(error, flush=True)
        return False


def run_cluster(release: table.Release, python: pathlib.Path,
                other: table.Release, other_python: pathlib.Path
                ) -> run_tests.Tally:
    """Run the tests of a cluster, one of whose services has another Cinder."""
    return _run(f'{release.name}-with-{other.name}', release, python,
                'faults', [CLUSTER], {'OTHER_PYTHON': str(other_python)})


def _run(name: str, release: table.Release, python: pathlib.Path, suite: str,
         chosen: list[str], more: Mapping[str, str]) -> run_tests.Tally:
    """Run a suite, or the chosen tests of it."""
    tally = run_tests.run_command(
        name, [str(python), '-m', 'stestr', '--repo-url',
               str(_repository(release)),
               *run_tests.RUNNERS.get(suite, run_tests.STESTR)[1:],
               *chosen],
        table.ROOT, {**_variables(suite), **more})
    run_tests.keep(name, tally.failures)
    return tally


def _repository(release: table.Release) -> pathlib.Path:
    """Return the directory of stestr's results, apart from "make test"."""
    folder = table.ROOT / '.venvs' / 'results' / release.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _variables(suite: str) -> Mapping[str, str]:
    """Return the environment variables of a suite, without PATH of .venv."""
    return {**os.environ, 'PYTHONWARNINGS': 'ignore',
            'OS_TEST_PATH': f'./tests/{suite}'}
