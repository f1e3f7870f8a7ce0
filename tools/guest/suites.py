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

"""Run the tests that need a guest, in one guest per suite.

Writes a single subunit stream. The logs of each guest are in artifacts/guest,
in the directory of its suite.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import io
import os
import shlex
import shutil
import subprocess  # nosec B404
import sys
import time

import subunit

from tools.cloud import children
from tools.guest import fcoe
from tools.guest import machine
from tools import run_tests
from tools import signals

ROOT = run_tests.ROOT
ARTIFACTS = ROOT / 'artifacts' / 'guest'
#: Modules of tests/guest; each suite has its own guest, all in parallel.
SUITES = {
    'hosts': ('test_attach', 'test_images'),
    'lio': ('test_data_plane', 'test_chap', 'test_copies', 'test_multipath'),
    'data': ('test_moves', 'test_replication'),
    # The last: it may have to build a module first.
    'fc': ('test_fc',),
}
#: The data plane of a suite, if not tgt; K2_PLANE overrides it.
PLANES = {'lio': 'lio'}
# Time limit of all guests, including the build of the module: four times what
# they need on two idle processors, because other tests may run in parallel.
SECONDS = 2400.0
# Some tests fill a volume of 1 GiB on each array.
MEMORY = '5G'
STOP_SECONDS = 10.0
# Number of lines to show of the output of a failed guest and of its kernel.
LAST_LINES = 20
RESULTS = 'results.subunit'


def command(suite: str, seconds: float) -> list[str]:
    """Return the command that runs a suite in a new guest.

    :param seconds: time limit of the guest
    """
    tests = shlex.join([sys.executable, '-W', 'ignore', '-m', 'subunit.run',
                        *(f'tests.guest.{module}'
                          for module in SUITES[suite])])
    return [sys.executable, '-m', 'tools.guest', f'--seconds={seconds:.0f}',
            f'--memory={MEMORY}', f'--out={ARTIFACTS / suite}', '--',
            'sh', '-c', f'exec {tests} >{machine.OUT}/{RESULTS}']


def environment(suite: str) -> dict[str, str]:
    """Return our environment, with a suite's data plane if K2_PLANE is unset.

    :raises BuildError: a suite needs Fibre Channel, which is not available
    """
    if suite == 'fc':
        return {**os.environ, 'K2_TRANSPORT': 'fc', 'K2_PLANE': 'lio',
                'K2_FCOE': str(fcoe.module())}
    plane = {'K2_PLANE': PLANES[suite]} if suite in PLANES else {}
    return {**plane, **os.environ}


@contextlib.contextmanager
def started(suite: str, deadline: float
            ) -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a guest, which is stopped at the end.

    Ctrl-C in a terminal does not reach it, so it is stopped only here.

    :param deadline: of the guest, on the clock time.monotonic
    :raises BuildError: see environment()
    """
    shutil.rmtree(ARTIFACTS / suite, ignore_errors=True)
    parent = os.getpid()
    variables = environment(suite)
    left = max(0.0, deadline - time.monotonic())
    with subprocess.Popen(  # nosec B603
            command(suite, left), cwd=ROOT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=variables, start_new_session=True,
            preexec_fn=lambda: children.die_with_parent(parent)) as process:
        try:
            yield process
        finally:
            stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a guest that is still running."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def complaint(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a guest; return its error, or nothing."""
    _, said = process.communicate()
    if process.returncode and not said:
        return f'ended with status {process.returncode}'
    return said.strip()


def last_words(suite: str) -> list[str]:
    """Return the last lines of a guest's programs and of its kernel."""
    return [f'{suite}: {name}: {line}' for name in machine.LOGS
            for line in machine.last_lines(ARTIFACTS / suite, name,
                                           LAST_LINES)]


def skipped(suite: str, reason: str) -> bytes:
    """Return the subunit stream of a suite that cannot run: one test."""
    stream = io.BytesIO()
    subunit.StreamResultToBytes(stream).status(
        test_id=f'tests.guest.test_{suite}', test_status='skip',
        file_name='reason', file_bytes=reason.encode(), eof=True,
        mime_type='text/plain;charset=utf8')
    return stream.getvalue()


def results(suite: str) -> bytes:
    """Return the subunit stream of a suite that has run."""
    path = ARTIFACTS / suite / RESULTS
    return path.read_bytes() if path.exists() else b''


def write(stream: bytes) -> None:
    """Write a part of the subunit stream."""
    sys.stdout.buffer.write(stream)
    sys.stdout.buffer.flush()


def chosen(arguments: Sequence[str]) -> Sequence[str]:
    """Return the suites of a command line; exit if it is invalid."""
    parser = argparse.ArgumentParser(
        prog='python -m tools.guest.suites',
        description=__doc__.partition('\n')[0])
    parser.add_argument('suites', nargs='*', metavar='SUITE',
                        help=f'{", ".join(SUITES)} (default: all)')
    suites: list[str] = parser.parse_args(arguments).suites
    unknown = sorted(set(suites) - set(SUITES))
    if unknown:
        parser.error(f'no such suite: {", ".join(unknown)};'
                     f' there are {", ".join(SUITES)}')
    return suites or list(SUITES)


def main(arguments: Sequence[str]) -> int:
    """Run suites; return the exit status."""
    complaints, guests = [], {}
    deadline = time.monotonic() + SECONDS
    with contextlib.ExitStack() as stack:
        for suite in chosen(arguments):
            try:
                guests[suite] = stack.enter_context(started(suite, deadline))
            except fcoe.BuildError as exc:
                write(skipped(suite, str(exc)))
        for suite, process in guests.items():
            wrong = complaint(process)
            if wrong:
                complaints += [*last_words(suite), f'{suite}: {wrong}']
            write(results(suite))
    print('\n'.join(complaints), file=sys.stderr)
    return int(bool(complaints))


if __name__ == '__main__':
    sys.exit(signals.run(lambda: main(sys.argv[1:])))
