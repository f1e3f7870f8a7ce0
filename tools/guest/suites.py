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

"""Run the tests that need a guest, in guests that they share.

Writes one subunit stream for all of them. The logs of each guest are in
artifacts/guest, in the directory of its suite.
"""

from collections.abc import Sequence
import concurrent.futures
import pathlib
import shlex
import shutil
import sys

from tools.guest import machine
from tools import run_tests

ROOT = run_tests.ROOT
ARTIFACTS = ROOT / 'artifacts' / 'guest'
#: Modules of tests/guest; the suites have a guest each, at the same time.
SUITES = {
    'hosts': ('test_attach', 'test_chap', 'test_copies', 'test_multipath'),
    'lio': ('test_data_plane',),
    'data': ('test_images', 'test_moves', 'test_replication'),
}
# Less than the limit of make e2e; a machine may be busy with other things.
SECONDS = 1700.0
# Some tests fill a volume of 1 GiB on each array.
MEMORY = '5G'
RESULTS = 'results.subunit'


def run(suite: str, modules: Sequence[str]) -> str:
    """Run the modules in a guest; return what else is to be told."""
    out = ARTIFACTS / suite
    shutil.rmtree(out, ignore_errors=True)
    command = shlex.join([
        sys.executable, '-W', 'ignore', '-m', 'subunit.run',
        *(f'tests.guest.{module}' for module in modules)])
    try:
        status = machine.run(
            ['sh', '-c', f'exec {command} >{machine.OUT}/{RESULTS}'], out,
            seconds=SECONDS, memory=MEMORY)
    except machine.GuestError as exc:
        return f'{suite}: {exc}'
    return f'{suite}: ended with status {status}' if status else ''


def results(suite: str) -> bytes:
    """Return the subunit stream of a suite that has run."""
    path: pathlib.Path = ARTIFACTS / suite / RESULTS
    return path.read_bytes() if path.exists() else b''


def main(suites: Sequence[str]) -> int:
    """Run suites, all if none is named; return the exit status."""
    wanted = {name: SUITES[name] for name in suites or SUITES}
    complaints = []
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        for suite, complaint in zip(
                wanted, pool.map(run, wanted, wanted.values()), strict=True):
            sys.stdout.buffer.write(results(suite))
            sys.stdout.buffer.flush()
            complaints += [complaint] if complaint else []
    print('\n'.join(complaints), file=sys.stderr)
    return int(bool(complaints))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
