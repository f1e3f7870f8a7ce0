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


"""Runs tests on mutants, selected by the lines that they cover."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import time
import types
from typing import Any
import unittest

import coverage

from tools.mutation import children
from tools.mutation import mutants

# For lines that ran while modules were imported or classes were set up.
_NO_TEST = ''
# The tests of a suite are run once, in a few processes.
_TRACE_SECONDS = 3600.0
KILLED, SURVIVED = 1, 0


class TestsFailed(Exception):
    """Tests fail on the unchanged sources."""


@dataclasses.dataclass(frozen=True)
class Test:
    """One test.

    :ivar id: its dotted name
    :ivar module: where it is loaded from
    :ivar seconds: how long it took
    """

    id: str
    module: str
    seconds: float

    @property
    def group(self) -> str:
        """Its class, whose setup is shared by all its tests."""
        return self.id.rpartition('.')[0]


class Suite:
    """The tests of a folder, and the lines that each of them runs."""

    def __init__(self, root: pathlib.Path, traces: Sequence[Any]) -> None:
        """Store the results of ``trace``."""
        self._root = root
        self._tests: dict[str, Test] = {}
        self._lines: dict[str, dict[int, set[str]]] = {}
        for trace in traces:
            tests = [Test(*fields) for fields in trace['tests']]
            self._tests.update({test.id: test for test in tests})
            names = [*(test.id for test in tests), _NO_TEST]
            for path, lines in trace['lines'].items():
                known = self._lines.setdefault(path, {})
                for line, numbers in lines.items():
                    known.setdefault(int(line), set()).update(
                        names[number] for number in numbers)

    def covering(self, mutant: mutants.Mutant) -> list[Test]:
        """Return the tests that run the changed statement.

        Those of the fastest class come first. A statement that runs before any
        test, such as a constant, is covered by each test that runs a line of
        the file: coverage sometimes attributes it to individual tests, too.
        """
        lines = self._lines.get(mutant.path, {})
        first, last = mutant.lines
        found = set().union(*[lines.get(line, ())
                              for line in range(first, last + 1)])
        if _NO_TEST in found:
            found = set().union(*lines.values())
        tests = [self._tests[name] for name in found - {_NO_TEST}]
        groups: dict[str, float] = {}
        for test in tests:
            groups[test.group] = groups.get(test.group, 0.0) + test.seconds
        return sorted(tests, key=lambda test: (groups[test.group], test.group,
                                               test.id))

    def try_out(self, mutant: mutants.Mutant,
                tests: Sequence[Test]) -> int:
        """Run tests on a mutant in this process; return the exit status."""
        _replace_source(self._root, mutant)
        result = unittest.TestResult()
        result.failfast = True
        _load(tests).run(result)
        return SURVIVED if result.wasSuccessful() else KILLED


class _Loader(importlib.machinery.SourceFileLoader):
    """Load a module from a source that is not in its file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile the source, without reading or writing a cache."""
        return self.source_to_code(self._source.encode(), self.path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module; the other finders handle the rest."""

    def __init__(self, spec: importlib.machinery.ModuleSpec) -> None:
        self._spec = spec

    def find_spec(self, name: str, path: Any, target: Any = None
                  ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the module, if it is requested."""
        return self._spec if name == self._spec.name else None


def _replace_source(root: pathlib.Path, mutant: mutants.Mutant) -> None:
    """Import a module with the source of a mutant."""
    parts = pathlib.PurePath(mutant.path).with_suffix('').parts
    is_package = parts[-1] == '__init__'
    name = '.'.join(parts[:-1] if is_package else parts)
    path = str(root / mutant.path)
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_Loader(name, path, mutant.source(root)),
        submodule_search_locations=(
            [str(pathlib.Path(path).parent)] if is_package else None))
    if spec:
        sys.meta_path.insert(0, _Finder(spec))


def _load(tests: Sequence[Test]) -> unittest.TestSuite:
    """Load tests, in their order."""
    found = {}
    for module in dict.fromkeys(test.module for test in tests):
        loaded = unittest.defaultTestLoader.loadTestsFromName(module)
        found.update({case.id(): case for case in _cases(loaded)})
    return unittest.TestSuite(found[test.id] for test in tests)


def _cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _cases(test)
        else:
            yield test


class _TracedResult(unittest.TestResult):
    """Times tests, and records which lines each runs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        super().__init__()
        self.tests: list[tuple[str, float]] = []
        self._measured = measured
        self._begin = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._measured.switch_context(test.id())
        self._begin = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        self.tests.append((test.id(), time.monotonic() - self._begin))
        self._measured.switch_context(_NO_TEST)
        super().stopTest(test)


def _trace(root: pathlib.Path, modules: Sequence[str],
           file: pathlib.Path) -> int:
    """Run test modules in this process and write the input of ``Suite``."""
    measured = coverage.Coverage(
        data_file=None, config_file=False, source=[str(root / 'cinder_k2')])
    # Newer cores of coverage do not support contexts.
    measured.set_option('run:core', 'ctrace')
    result = _TracedResult(measured)
    tests = []
    measured.start()
    for module in modules:
        result.tests.clear()
        unittest.defaultTestLoader.loadTestsFromName(module).run(result)
        tests += [(name, module, seconds) for name, seconds in result.tests]
    measured.stop()
    file.write_text(json.dumps({
        'tests': tests,
        'lines': _lines(root, measured.get_data(),
                        [name for name, _, _ in tests]),
        'failures': [text for _, text in (*result.errors, *result.failures)]}))
    return 0


def _lines(root: pathlib.Path, data: coverage.CoverageData,
           tests: Sequence[str]) -> dict[str, dict[int, list[int]]]:
    """Return the numbers of the tests that run each line; -1 is no test."""
    numbers = {name: number for number, name in enumerate(tests)}
    return {pathlib.Path(path).relative_to(root).as_posix(): {
        line: [numbers.get(name, -1) for name in names]
        for line, names in data.contexts_by_lineno(path).items()}
        for path in data.measured_files()}


def trace(root: pathlib.Path, folder: str, jobs: int) -> list[Any]:
    """Run all tests of a folder once; return the input of ``Suite``.

    :param folder: relative to the root, such as tests/unit
    :raises TestsFailed: some fail, or do not end
    """
    modules = sorted('.'.join(path.relative_to(root).with_suffix('').parts)
                     for path in (root / folder).rglob('test_*.py'))
    groups = [modules[place::4 * jobs] for place in range(4 * jobs)]
    with tempfile.TemporaryDirectory() as place:
        files = [pathlib.Path(place, str(number))
                 for number in range(len(groups))]
        tasks = (children.Task(file, functools.partial(
            _trace, root, group, file), _TRACE_SECONDS)
            for group, file in zip(groups, files) if group)
        for file, status in children.run(tasks, jobs):
            if status != 0:
                raise TestsFailed(f'The tests of {folder} did not end.')
        traces = [json.loads(file.read_text()) for file in files
                  if file.exists()]
    failures = [text for one in traces for text in one['failures']]
    if failures:
        raise TestsFailed('\n'.join(failures))
    return traces
