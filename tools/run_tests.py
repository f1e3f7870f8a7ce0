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

"""Runs all checks: lint, and each suite of ``SUITES``.

With --faults, runs only tests/faults, which takes longer.

Prints each failure when it happens, at the end why tests were skipped, and as
its last line `N passed, N failed, N skipped`, totalled over all suites. A
failed lint, a suite that cannot be run and an outdated page, such as the table
of rules or the support matrix, count as one failure each, so the line never
says `0 failed` when the exit status is not 0. The failures of a suite are kept
in artifacts/failures, in a file with its name. `stestr last` and `stestr
failing` work as usual.
"""

import argparse
import collections
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import io
import os
import pathlib
import shlex
import signal
import subprocess  # nosec B404
import sys
import tempfile
import time
from typing import Any
from typing import cast
from typing import IO

import subunit
from subunit import test_results
import testtools

from tools import signals

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(sys.executable).parent
FAILURES = ROOT / 'artifacts' / 'failures'
SIMULATOR = 'k2-sim'
BROWSER = 'browser'
SUITES = ('unit', 'tools', 'integration', SIMULATOR, 'charm', 'functional')
# Twice as many workers as processors: on a new machine stestr does not know
# how long tests take, and tests spend some of their time waiting.
STESTR = ('stestr', 'run', '--subunit',
          '--concurrency', str(2 * (os.cpu_count() or 1)))
# Unit tests wait for nothing, and each worker imports most of Cinder.
UNIT = (*STESTR[:-1], str(os.cpu_count() or 1))
# Commands of suites that do not use stestr's defaults. Browsers need the
# machine for themselves.
RUNNERS = {'unit': UNIT,
           SIMULATOR: (*STESTR, '--exclude-regex', r'^tests\.browser\.'),
           BROWSER: ('tests.browser', 'discover', '-t', '.', 'tests/browser')}
# Generated pages and their generators; the last uses the functional tests.
PAGES = (('rules of the API', 'tools.rule_table'),
         ('options of the charm', 'tools.charm_options'),
         ('support matrix', 'tools.support_matrix'))
# Timeout for a suite that hangs; generous, because the machine may be busy.
SUITE_SECONDS = 3600
# Grace period for a suite after SIGTERM.
END_SECONDS = 20.0
# Exit statuses of timeout(1): the suite ended after SIGTERM, or was killed.
TOO_LONG = (124, -signal.SIGKILL)
PER_LINE = 72
# Lines to show of a suite's stderr, which are mostly third-party warnings.
CHATTER_LINES = 50
NEVER_ENDED = 'began and never ended'
# Results other than failures, and the characters that show them.
MARKS = {'success': '.', 'xfail': 'x', 'skip': 's'}


class Tally:
    """Counts tests and shows their results."""

    def __init__(self) -> None:
        """Start with zero counts."""
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.reasons: set[str] = set()
        self.failures: list[str] = []
        self._column = 0

    def read(self, stream: IO[bytes]) -> None:
        """Count the tests of a subunit stream; print other output in it."""
        result = testtools.StreamResultRouter(
            testtools.StreamToDict(self.take))
        result.add_rule(test_results.CatFiles(sys.stdout), 'test_id',
                        test_id=None)
        replay(stream, result)
        self._newline()
        if not self.passed + self.failed + self.skipped:
            self.fail('no test was run')

    def take(self, test: Mapping[str, Any]) -> None:
        """Count one test in the format of testtools.StreamToDict.

        A worker that dies leaves its current test in progress.
        """
        status = test['status']
        if status == 'exists':
            return
        texts = {name: b''.join(content.iter_bytes()).decode(errors='replace')
                 for name, content in test['details'].items()}
        self._mark(MARKS.get(status, 'F'))
        if status == 'skip':
            self.skipped += 1
            self.reasons.add(texts.get('reason', 'no reason given'))
        elif status in MARKS:
            self.passed += 1
        else:
            self._newline()
            outcome = NEVER_ENDED if status == 'inprogress' else status
            self.fail('\n'.join(['=' * PER_LINE, f'{test["id"]}: {outcome}',
                                 *texts.values()]))

    def fail(self, text: str) -> None:
        """Count a failure, and print it."""
        self.failed += 1
        self.failures.append(text)
        print(text, flush=True)

    def _mark(self, character: str) -> None:
        print(character, end='', flush=True)
        self._column += 1
        if self._column == PER_LINE:
            self._newline()

    def _newline(self) -> None:
        if self._column:
            print(flush=True)
        self._column = 0


def replay(stream: IO[bytes], result: testtools.StreamResult) -> None:
    """Feed a subunit stream to a collector of tests."""
    result.startTestRun()
    subunit.ByteStreamToStreamResult(
        stream, non_subunit_name='stdout').run(result)
    # Reports tests that have not finished.
    result.stopTestRun()


def environment(suite: str) -> dict[str, str]:
    """Return our environment, with our programs first on PATH."""
    return {**os.environ,
            'PATH': f'{BIN}:{os.environ.get("PATH", "")}',
            'PYTHONWARNINGS': 'ignore',
            'OS_TEST_PATH': f'./tests/{suite}'}


def run_lint() -> int:
    """Run the static checks; return the number of failures, 0 or 1."""
    print('== lint', flush=True)
    done = subprocess.run(  # nosec B603
        [str(ROOT / 'tools' / 'lint')], cwd=ROOT, env=environment('unit'))
    return int(done.returncode != 0)


def check_page(title: str, module: str) -> int:
    """Check that a generated page is up to date.

    :param title: its title in the output
    :param module: its generator, which accepts --check
    :returns: the number of failures, 0 or 1
    """
    print(f'== {title}', flush=True)
    done = subprocess.run(  # nosec B603
        [sys.executable, '-m', module, '--check'],
        cwd=ROOT, env=environment('functional'))
    return int(done.returncode != 0)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a suite and its process group.

    It gets SIGTERM first, because a suite may have to clean up.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)


def run_suite(suite: str, runner: Sequence[str] = (),
              seconds: float = SUITE_SECONDS) -> Tally:
    """Run one suite and count its results.

    If a test has failed, the last lines of stderr are shown.

    :param suite: the directory below tests
    :param runner: a module that writes a subunit stream, with its arguments;
        by default, that of the suite
    :param seconds: time limit, after which the suite is stopped
    """
    # k2-sim is a separate project with its own tests and settings.
    place = ROOT / SIMULATOR if suite in (SIMULATOR, BROWSER) else ROOT
    tally = run_command(
        suite, [sys.executable, '-m', *(
            runner or RUNNERS.get(suite, STESTR))], place, environment(suite),
        seconds=seconds)
    keep(suite, tally.failures)
    return tally


def run_command(suite: str, command: Sequence[str], place: pathlib.Path,
                variables: Mapping[str, str],
                seconds: float = SUITE_SECONDS) -> Tally:
    """Run a command that writes a subunit stream, and count the results.

    :param suite: its name in the output
    :param place: the directory to run it in
    :param variables: the environment of the command
    :param seconds: time limit, after which the command is stopped
    """
    print(f'== {suite} tests', flush=True)
    tally = Tally()
    begin = time.monotonic()
    with tempfile.TemporaryFile('w+', errors='replace') as chatter:
        with subprocess.Popen(  # nosec B603
                ['timeout', f'--kill-after={END_SECONDS}', str(seconds),
                 *command], cwd=place, env=variables, stdout=subprocess.PIPE,
                stderr=chatter, start_new_session=True) as process:
            try:
                tally.read(cast(IO[bytes], process.stdout))
                process.wait()
            except KeyboardInterrupt:
                end(process)
                raise
        if process.returncode in TOO_LONG:
            tally.fail(f'stopped after {seconds} s')
        if process.returncode and not tally.failed:
            tally.fail(f'{shlex.join(command)} ended with status'
                       f' {process.returncode}')
        if tally.failed:
            chatter.seek(0)
            print(*collections.deque(chatter, CHATTER_LINES), sep='')
    print(f'{suite}: {tally.passed} passed, {tally.failed} failed, '
          f'{tally.skipped} skipped in {time.monotonic() - begin:.0f} s')
    return tally


def last_tests() -> list[dict[str, Any]]:
    """Return the tests of the last run from stestr's repository.

    Each is what testtools.StreamToDict makes of it: id, status, details.
    """
    stream = subprocess.run(  # nosec B603
        [sys.executable, '-m', 'stestr', 'last', '--subunit'], cwd=ROOT,
        stdout=subprocess.PIPE).stdout
    tests: list[Any] = []
    replay(io.BytesIO(stream), testtools.StreamToDict(tests.append))
    return [test for test in tests if test['status'] != 'exists']


def keep(suite: str, failures: Sequence[str]) -> None:
    """Store the failed tests, replacing those of the last run."""
    FAILURES.mkdir(parents=True, exist_ok=True)
    report = FAILURES / f'{suite}.txt'
    report.unlink(missing_ok=True)
    if failures:
        report.write_text('\n'.join([f'== {suite} tests', *failures, '']))


def run_all() -> list[Tally]:
    """Run everything except tests/faults; return the tallies."""
    checks = Tally()
    checks.failed = run_lint()
    if checks.failed:
        print('lint: FAILED, see above')
    tallies = [run_suite(suite) for suite in SUITES]
    checks.failed += sum(check_page(*page) for page in PAGES)
    return [checks, *tallies]


def tell_reasons(tallies: Sequence[Tally]) -> None:
    """Print why tests were skipped, each reason once."""
    for reason in sorted(set().union(*[one.reasons for one in tallies])):
        print(f'skipped: {reason}')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested tests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument(
        '--faults', action='store_true',
        help='run only the tests with injected faults')
    options = parser.parse_args(arguments)
    tallies = [run_suite('faults')] if options.faults else run_all()
    tell_reasons(tallies)
    passed = sum(tally.passed for tally in tallies)
    failed = sum(tally.failed for tally in tallies)
    skipped = sum(tally.skipped for tally in tallies)
    print(f'{passed} passed, {failed} failed, {skipped} skipped', flush=True)
    return int(failed > 0)


if __name__ == '__main__':
    sys.exit(signals.run(main))
