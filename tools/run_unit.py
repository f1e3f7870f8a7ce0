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


"""Run the unit tests on all processors, importing them only once.

``stestr run`` imports them, and with them most of Cinder, in each worker and
once more to list them. Here one process imports them and forks the workers.
The results are stored in stestr's repository, as usual.
"""

import collections
from collections.abc import Sequence
import functools
import gc
import os
import pathlib
import sys
import tempfile
from typing import Any
import unittest

from stestr.commands import load
import subunit
from subunit import test_results
import testtools

from tools.mutation import children
from tools import signals

FOLDER = 'tests/unit'
WORKERS = os.cpu_count() or 1
# A worker that hangs is killed. Generous: the machine may be busy.
SECONDS = 900.0
# Size, in bytes, of the number of a class in the queue of the workers.
_NUMBER = 2


def classes(folder: str) -> list[unittest.TestSuite]:
    """Load the tests below a folder, by class, the largest class first.

    A module that cannot be imported becomes a test that fails.
    """
    found: dict[str, list[unittest.TestCase]] = collections.defaultdict(list)
    for test in testtools.iterate_tests(
            unittest.TestLoader().discover(folder, top_level_dir='.')):
        found[test.id().rpartition('.')[0]].append(test)
    return [unittest.TestSuite(tests) for tests
            in sorted(found.values(), key=len, reverse=True)]


def queue(count: int) -> int:
    """Return the reading end of a pipe that has the numbers below count.

    Its writing end is closed, so that it ends after the last number.
    """
    reader, writer = os.pipe()
    with os.fdopen(writer, 'wb') as stream:
        for number in range(count):
            stream.write(number.to_bytes(_NUMBER, 'big'))
    return reader


def work(suites: Sequence[unittest.TestSuite], numbers: int,
         file: pathlib.Path) -> int:
    """Run suites from a queue until it is empty; write a subunit stream."""
    with file.open('wb', buffering=0) as stream:
        result: Any = test_results.AutoTimingTestResultDecorator(
            testtools.ExtendedToStreamDecorator(
                subunit.StreamResultToBytes(stream)))
        result.startTestRun()
        while number := os.read(numbers, _NUMBER):
            suites[int.from_bytes(number, 'big')].run(result)
        result.stopTestRun()
    return 0


def run(folder: str = FOLDER, workers: int = WORKERS) -> int:
    """Run the tests below a folder; return the exit status."""
    suites = classes(folder)
    # Exclude existing objects from garbage collection.
    gc.freeze()
    numbers = queue(len(suites))
    with tempfile.TemporaryDirectory() as place:
        files = [pathlib.Path(place, str(number))
                 for number in range(workers)]
        failed = [file for file, status in children.run([
            children.Task(
                file, functools.partial(work, suites, numbers, file), SECONDS)
            for file in files], workers) if status != 0]
        status: int = load.load(
            force_init=True, pretty_out=True,
            in_streams=[('subunit', file.open('rb')) for file in files
                        if file.exists()])
    if failed:
        print(f'{len(failed)} of {workers} workers did not end.')
    return status or int(bool(failed))


if __name__ == '__main__':
    sys.exit(signals.run(run))
