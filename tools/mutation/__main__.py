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


"""Change the driver in small ways, and check whether its tests fail.

    python -m tools.mutation [--sample N] [--seed N] [--package NAME]
        [--changed REV] [--minutes N] [--full]

Takes a sample of all mutants of the packages, or of the lines that were
changed since a revision. Each is tested by the unit tests that run the line.
Prints the survivors and the share of killed mutants. Timeouts are not counted;
mutants that no test runs count as survived.

With --full, functional tests are run on a fixed sample of the survivors of the
unit tests. This takes hours and can be split with --minutes: results for the
same sources are kept in artifacts/mutation and not repeated.

The exit status is 1 if too few mutants of changed lines are killed, or if
tests fail without any change. If time runs out, chance decides which ones were
tried: the share may then be lower by two standard deviations.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import math
import pathlib
import re
import subprocess  # nosec B404
import sys
import time

from tools.mutation import children
from tools.mutation import mutants
from tools.mutation import settings
from tools.mutation import suite
from tools import signals

UNIT = 'tests/unit'
FUNCTIONAL = 'tests/functional'
KILLED, SURVIVED = 'killed', 'survived'
TIMED_OUT, NOT_COVERED = 'timed out', 'not covered'
_HUNK = re.compile(r'@@ .*\+(\d+)(?:,(\d+))? @@')
_FILE = '+++ b/'


def digest(root: pathlib.Path) -> str:
    """Return a digest of everything that results depend on."""
    found = hashlib.sha256()
    for folder in settings.SOURCES:
        for path in sorted((root / folder).rglob('*.py')):
            found.update(path.relative_to(root).as_posix().encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


class Results:
    """The results of mutants, stored in a file."""

    def __init__(self, file: pathlib.Path) -> None:
        """Read the file, if it exists."""
        self._file = file
        self._known: dict[tuple[str, str], str] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            for line in file.read_text().splitlines():
                folder, key, verdict = json.loads(line)
                self._known[folder, key] = verdict

    def get(self, folder: str, mutant: mutants.Mutant) -> str | None:
        """Return the result of a folder's tests for a mutant, if stored."""
        return self._known.get((folder, mutant.key))

    def add(self, folder: str, mutant: mutants.Mutant, verdict: str) -> None:
        """Store a result."""
        self._known[folder, mutant.key] = verdict
        with self._file.open('a') as stream:
            stream.write(json.dumps([folder, mutant.key, verdict]) + '\n')


def load_suite(root: pathlib.Path, folder: str, name: str) -> suite.Suite:
    """Return a suite with the lines that its tests run.

    :param name: digest of the sources; coverage is stored under this name
    """
    file = settings.KEPT / f'{pathlib.Path(folder).name}-{name}.json'
    if not file.exists():
        print(f'Running {folder}, to see which lines each test runs.',
              flush=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(suite.trace(root, folder, settings.JOBS)))
    return suite.Suite(root, json.loads(file.read_text()))


class Run:
    """Tests mutants until the time limit."""

    def __init__(self, root: pathlib.Path, minutes: float) -> None:
        """Start the time limit."""
        self._until = time.monotonic() + minutes * 60
        self._root = root
        self._name = digest(root)
        self.results = Results(settings.KEPT / f'results-{self._name}.jsonl')

    def verdicts(self, folder: str, sample: Sequence[mutants.Mutant]
                 ) -> list[tuple[mutants.Mutant, str]]:
        """Test mutants that have no result; return all that have one by then.

        :param folder: of the tests to run
        """
        if any(self.results.get(folder, mutant) is None for mutant in sample):
            self._try(folder, sample)
        return [(mutant, verdict) for mutant in sample
                if (verdict := self.results.get(folder, mutant))]

    def _try(self, folder: str, sample: Sequence[mutants.Mutant]) -> None:
        begin = time.monotonic()
        tests = load_suite(self._root, folder, self._name)
        # The time limit applies only to testing mutants.
        self._until += time.monotonic() - begin
        with contextlib.closing(children.run(
                self._tasks(tests, folder, sample), settings.JOBS)) as ended:
            for mutant, status in ended:
                self.results.add(
                    folder, mutant, TIMED_OUT if status is None
                    else KILLED if status else SURVIVED)

    def _tasks(self, tests: suite.Suite, folder: str,
               sample: Sequence[mutants.Mutant]
               ) -> Iterator[children.Task[mutants.Mutant]]:
        for mutant in sample:
            if self.results.get(folder, mutant):
                continue
            if time.monotonic() >= self._until:
                return
            covering = tests.covering(mutant)
            if not covering:
                self.results.add(folder, mutant, NOT_COVERED)
                continue
            yield children.Task(
                mutant, functools.partial(tests.try_out, mutant, covering),
                settings.SECONDS + settings.SLOWER * sum(
                    test.seconds for test in covering))


def share(verdicts: Sequence[str]) -> float:
    """Return the share of killed mutants, without timeouts."""
    counted = [verdict for verdict in verdicts if verdict != TIMED_OUT]
    return counted.count(KILLED) / len(counted) if counted else 1.0


def margin(bar: float, tried: int) -> float:
    """Return by how much the share of killed mutants may be lower by chance.

    Two standard deviations, if all mutants together would just meet the bar.

    :param bar: the required share
    :param tried: number of mutants that were tested
    """
    return 2 * math.sqrt(bar * (1 - bar) / tried)


def tell(title: str, verdicts: Sequence[str]) -> None:
    """Print a line of counts."""
    counts = ', '.join(f'{verdicts.count(verdict)} {verdict}' for verdict in (
        KILLED, SURVIVED, NOT_COVERED, TIMED_OUT))
    print(f'{title}: {share(verdicts):.0%} ({counts})')


def report(root: pathlib.Path,
           tried: Sequence[tuple[mutants.Mutant, str]]) -> float:
    """Print survivors and counts; return the share of killed mutants."""
    for mutant, verdict in sorted(
            tried, key=lambda one: (one[0].path, one[0].begin)):
        if verdict != KILLED:
            print(f'{verdict}: {mutant.diff(root)}')
    for package in settings.PACKAGES:
        verdicts = [verdict for mutant, verdict in tried
                    if mutant.package == package]
        if verdicts:
            tell(package, verdicts)
    verdicts = [verdict for _, verdict in tried]
    tell('all', verdicts)
    return share(verdicts)


def changed_lines(root: pathlib.Path, revision: str) -> set[tuple[str, int]]:
    """Return files and lines that were changed since a revision."""
    done = subprocess.run(  # nosec B603, B607
        ['git', 'diff', '--unified=0', '--no-renames', '--no-color',
         '--no-ext-diff', '--src-prefix=a/', '--dst-prefix=b/',
         revision, '--', 'cinder_k2'],
        cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    found, path = set(), ''
    for line in done.stdout.splitlines():
        if line.startswith(_FILE):
            path = line.removeprefix(_FILE)
        elif match := _HUNK.match(line):
            first, count = int(match[1]), int(match[2] or 1)
            found |= {(path, number) for number in range(first, first + count)}
    return found


def load_mutants(root: pathlib.Path, packages: Sequence[str],
                 revision: str | None) -> list[mutants.Mutant]:
    """Return all mutants of packages, or only those of changed lines."""
    paths = list(mutants.files(root, packages))
    if not revision:
        return _find(root, paths)
    lines = changed_lines(root, revision)
    touched = {path for path, _ in lines}
    return [mutant for mutant in _find(
        root, [path for path in paths if path in touched])
        if (mutant.path, mutant.line) in lines]


def _find(root: pathlib.Path, paths: Sequence[str]) -> list[mutants.Mutant]:
    with futures.ProcessPoolExecutor(settings.JOBS) as pool:
        return list(itertools.chain.from_iterable(
            pool.map(functools.partial(mutants.find_in, root), paths)))


def run_sample(root: pathlib.Path, run: Run,
               sample: Sequence[mutants.Mutant], bar: float) -> int:
    """Run the unit tests on mutants; return the exit status."""
    tried = run.verdicts(UNIT, sample)
    reached = report(root, tried)
    if len(tried) < len(sample):
        print(f'{len(sample) - len(tried)} of {len(sample)} were not tried '
              'for lack of time.')
        if not tried:
            return 1
        bar -= margin(bar, len(tried))
    if reached < bar:
        print(f'Less than {bar:.0%} of the mutants were killed.')
    return int(reached < bar)


def run_full(root: pathlib.Path, run: Run,
             all_mutants: Sequence[mutants.Mutant]) -> int:
    """Run functional tests on survivors of the unit tests.

    Takes the first survivors in the order of the sample, and reports whether
    all of them were tested.
    """
    survivors: list[mutants.Mutant] = []
    for begin in range(0, len(all_mutants), settings.SAMPLE):
        part = all_mutants[begin:begin + settings.SAMPLE]
        tried = run.verdicts(UNIT, part)
        survivors += [mutant for mutant, verdict in tried
                      if verdict in (SURVIVED, NOT_COVERED)]
        if len(tried) < len(part) or len(survivors) >= settings.SURVIVORS:
            break
    survivors = survivors[:settings.SURVIVORS]
    tried = run.verdicts(FUNCTIONAL, survivors)
    report(root, tried)
    print(f'{len(tried)} of {settings.SURVIVORS} survivors of the unit tests '
          'were given to functional tests.')
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested tests; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='mutation', description=__doc__.partition('\n')[0])
    parser.add_argument('--sample', type=int, default=settings.SAMPLE)
    parser.add_argument('--seed', type=int, default=settings.SEED)
    parser.add_argument('--package', choices=settings.PACKAGES)
    parser.add_argument('--changed', metavar='REV')
    parser.add_argument('--minutes', type=float, default=settings.MINUTES)
    parser.add_argument('--full', action='store_true')
    options = parser.parse_args(arguments)
    root = settings.ROOT
    found = mutants.shuffled(load_mutants(
        root, [options.package] if options.package else settings.PACKAGES,
        options.changed), options.seed)
    print(f'{len(found)} mutants, seed {options.seed}', flush=True)
    for name in settings.PRELOADED:
        importlib.import_module(name)
    run = Run(root, options.minutes)
    try:
        if options.full:
            return run_full(root, run, found)
        return run_sample(root, run, found[:options.sample],
                          settings.BAR if options.changed else 0.0)
    except suite.TestsFailed as exc:
        print(exc)
        return 1


if __name__ == '__main__':
    sys.exit(signals.run(main))
