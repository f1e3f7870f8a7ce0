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

"""Every check: lint, and unit, k2-sim, charm and functional tests.

With --weather, what takes longer in place of these: tests/weather.

Prints each failure when it happens, at the end why tests were skipped, and as
its last line `N passed, N failed, N skipped`, totalled over all suites. A lint
that fails, a suite that cannot be run, a table of rules that does not fit the
tests and a support matrix that does not say what they showed count as one
failure each, so the line never says `0 failed` when the exit status is not 0.
The failures of a suite stay in artifacts/failures, in a file with its name.
What stestr keeps of the runs (`stestr last`, `stestr failing`) is there as
usual.
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
import threading
import time
from typing import Any

import subunit

from tools import signals

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(sys.executable).parent
FAILURES = ROOT / 'artifacts' / 'failures'
SIMULATOR = 'k2-sim'
SUITES = ('unit', SIMULATOR, 'charm', 'functional')
# Twice as many workers as processors: stestr cannot know, on a machine where
# it never ran, how long tests take, and some of their time they wait.
STESTR = ('stestr', 'run', '--subunit',
          '--concurrency', str(2 * (os.cpu_count() or 1)))
# Pages that are made, and by what; the last from the functional tests.
PAGES = (('rules of the API', 'tools.rule_table'),
         ('options of the charm', 'tools.charm_options'),
         ('support matrix', 'tools.support_matrix'))
# For what hangs; a machine may be busy with other things.
SUITE_SECONDS = 3600.0
# For a suite that was told to end.
END_SECONDS = 20.0
PER_LINE = 72
# Of what a suite wrote to stderr: mostly warnings of others.
CHATTER_LINES = 50
PASSED = {'success': '.', 'xfail': 'x'}
SKIPPED = {'skip': 's'}
FAILED = {'fail': 'F', 'uxsuccess': 'F'}


class Tally:
    """Counts test results and shows them as they come.

    It is handed the events of a subunit stream, like any StreamResult.
    """

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.reasons: set[str] = set()
        self.failures: list[str] = []
        self._running: set[str | None] = set()
        self._details: dict[str | None, list[str]] = {}
        self._column = 0

    def status(self, test_id: str | None = None,
               test_status: str | None = None, **event: Any) -> None:
        """Take one event of the stream."""
        data = event.get('file_bytes')
        if data:
            text = bytes(data).decode(errors='replace')
            if event.get('file_name') == 'reason':
                self.reasons.add(text)
            else:
                self._details.setdefault(test_id, []).append(text)
        if test_status in PASSED:
            self.passed += 1
            self._mark(PASSED[test_status])
        elif test_status in SKIPPED:
            self.skipped += 1
            self._mark(SKIPPED[test_status])
        elif test_status in FAILED:
            self._mark(FAILED[test_status])
            self._newline()
            self.fail('\n'.join([
                '=' * PER_LINE, f'{test_id}: {test_status}',
                ''.join(self._details.get(test_id, []))]))
        if test_status == 'inprogress':
            self._running.add(test_id)
        elif test_status not in (None, 'exists'):
            self._running.discard(test_id)
            self._details.pop(test_id, None)

    def finish(self) -> None:
        """Count what never ended; show what was printed outside of tests.

        A worker that dies takes its current test with it without a result.
        """
        self._newline()
        for text in self._details.pop(None, []):
            print(text, end='')
        for test_id in sorted(map(str, self._running)):
            self.fail(f'{test_id}: began and never ended')
        if not self.passed + self.failed + self.skipped:
            self.fail('no test was run')

    def fail(self, text: str) -> None:
        """Count a failure, and tell of it."""
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
    """Compare a page that is made with what it is made from.

    :param title: what to call it
    :param module: what makes it, and knows --check
    :returns: the number of failures, 0 or 1
    """
    print(f'== {title}', flush=True)
    done = subprocess.run(  # nosec B603
        [sys.executable, '-m', module, '--check'],
        cwd=ROOT, env=environment('functional'))
    return int(done.returncode != 0)


def follow(process: subprocess.Popen[bytes], tally: Tally) -> None:
    """Count what stestr writes until it ends or its time is up."""
    def too_long() -> None:
        tally.fail(f'\nstopped after {SUITE_SECONDS:.0f} s')
        end(process)

    timer = threading.Timer(SUITE_SECONDS, too_long)
    timer.start()
    try:
        subunit.ByteStreamToStreamResult(
            process.stdout, non_subunit_name='stdout').run(tally)
        process.wait()
    except KeyboardInterrupt:
        end(process)
        raise
    finally:
        timer.cancel()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a suite that leads a group of processes, and all of the group.

    It is asked first: a suite may have to clean up.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)


def run_suite(suite: str, runner: Sequence[str] = STESTR) -> Tally:
    """Run one suite and count its results.

    The end of what the tests wrote to stderr is shown if one has failed.

    :param suite: the directory below tests
    :param runner: a module, and arguments, that writes a subunit stream
    """
    # k2-sim is a project of its own, with its own tests and settings.
    place = ROOT / SIMULATOR if suite == SIMULATOR else ROOT
    tally = run_command(suite, [sys.executable, '-m', *runner], place,
                        environment(suite))
    keep(suite, tally.failures)
    return tally


def run_command(suite: str, command: Sequence[str], place: pathlib.Path,
                variables: Mapping[str, str]) -> Tally:
    """Run a command that writes a subunit stream, and count the results.

    :param suite: what to call it
    :param place: the directory to run it in
    :param variables: the environment of the command
    """
    print(f'== {suite} tests', flush=True)
    tally = Tally()
    begin = time.monotonic()
    with tempfile.TemporaryFile('w+', errors='replace') as chatter:
        with subprocess.Popen(  # nosec B603
                command, cwd=place, env=variables, stdout=subprocess.PIPE,
                stderr=chatter, start_new_session=True) as process:
            follow(process, tally)
        tally.finish()
        if process.returncode and not tally.failed:
            tally.fail(f'{shlex.join(command)} ended with status'
                       f' {process.returncode}')
        if tally.failed:
            chatter.seek(0)
            print(*collections.deque(chatter, CHATTER_LINES), sep='')
    print(f'{suite}: {tally.passed} passed, {tally.failed} failed, '
          f'{tally.skipped} skipped in {time.monotonic() - begin:.0f} s')
    return tally


def replay(results: Any) -> None:
    """Hand over the events of the last run that stestr keeps.

    :param results: has a method status(), as a StreamResult has
    """
    stream = subprocess.run(  # nosec B603
        [sys.executable, '-m', 'stestr', 'last', '--subunit'], cwd=ROOT,
        stdout=subprocess.PIPE).stdout
    subunit.ByteStreamToStreamResult(
        io.BytesIO(stream), non_subunit_name='stdout').run(results)


def keep(suite: str, failures: Sequence[str]) -> None:
    """Keep what failed, in place of that of the last run."""
    FAILURES.mkdir(parents=True, exist_ok=True)
    report = FAILURES / f'{suite}.txt'
    report.unlink(missing_ok=True)
    if failures:
        report.write_text('\n'.join([f'== {suite} tests', *failures, '']))


def run_all() -> list[Tally]:
    """Run everything but bad weather; return what came of it."""
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
    """Run what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument(
        '--weather', action='store_true',
        help='run the tests of bad weather in place of everything else')
    options = parser.parse_args(arguments)
    tallies = [run_suite('weather')] if options.weather else run_all()
    tell_reasons(tallies)
    passed = sum(tally.passed for tally in tallies)
    failed = sum(tally.failed for tally in tallies)
    skipped = sum(tally.skipped for tally in tallies)
    print(f'{passed} passed, {failed} failed, {skipped} skipped', flush=True)
    return int(failed > 0)


if __name__ == '__main__':
    sys.exit(signals.run(main))
