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

"""Writes the support matrix of the documentation from test results.

    python -m tools.support_matrix [--check]

Reads the results of the last run of the functional tests (``stestr last``)
and writes the page, or with ``--check`` reports whether the page is up to
date. The exit status is 1 if it is not, or if the last run was incomplete.

A test counts for the ``feature`` of its class in two columns: that of the
class's protocol, and that of its array profile. A feature works in a column if
all of its tests passed.
"""

import argparse
import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import pathlib
import sys
import textwrap
from typing import Any
import unittest

from tools import run_tests

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / 'doc' / 'source' / 'operator' / 'support-matrix.rst'
TESTS = ROOT / 'tests' / 'functional'

COLUMNS = {'iscsi': 'iSCSI', 'fc': 'FC', 'k2': 'K2', 'sdp': 'SDP'}

# The rows of Cinder's own matrix, and the features that each depends on.
CINDER: dict[str, tuple[str, ...]] = {
    'Supported: all that Cinder requires of a driver': (
        'create and delete volumes', 'extend volumes', 'snapshots',
        'volumes from snapshots', 'clones', 'attach and detach', 'images',
        'host-assisted migration'),
    'Extend an attached volume': ('extend attached volumes',),
    'QoS': (),
    'Volume replication': ('replication',),
    'Consistency groups': (
        'consistency groups', 'group snapshots', 'group from group snapshot',
        'group from group'),
    'Thin provisioning': ('thin provisioning',),
    'Storage-assisted volume migration': ('migrate between back ends',),
    'Multi-attach': ('multiattach',),
    'Revert to snapshot': ('revert to snapshot',),
    'Active-active': ('active-active cluster',)}
# Why no test can cover a row.
IMPOSSIBLE = {'QoS': 'The array has no QoS.'}

INTRODUCTION = """\
.. Written by make support-matrix from the results of the tests. A change by
   hand makes make test fail.

==============
Support matrix
==============

This page is generated from the results of the functional tests, which run
Cinder's own volume manager against the simulated array. ``make test`` fails if
it does not match the results.

* *yes*, and a number: this many tests of the feature ran, and all of them
  passed.
* *no*: a test failed or was skipped, or there is none.

The columns are the transport and the kind of array; each test counts in one
column of each. *K2* is an array without thin clones; *SDP* is a newer one that
has them, see :doc:`clones`. The tests have not run on a real array yet, see
:doc:`limits`.
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """One functional test.

    :ivar test: its id, as stestr has it
    :ivar feature: the row it counts for
    :ivar columns: where it ran: protocol and profile
    """

    test: str
    feature: str
    columns: tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Cell:
    """The test results of a feature in one column.

    :ivar tests: how many there are
    :ivar passed: how many of them passed
    """

    tests: int = 0
    passed: int = 0

    @property
    def works(self) -> bool:
        """Whether there are tests and all of them passed."""
        return 0 < self.tests == self.passed

    def __str__(self) -> str:
        """Return the cell's text in the table."""
        return f'yes ({self.tests})' if self.works else 'no'

    def __add__(self, other: 'Cell') -> 'Cell':
        """Combine two cells; the result works only if both do."""
        if not self.works or not other.works:
            return Cell()
        return Cell(self.tests + other.tests, self.passed + other.passed)


Row = dict[str, Cell]


class CannotTell(Exception):
    """The results are incomplete; the text says why."""


def load_cases(folder: pathlib.Path = TESTS) -> list[Case]:
    """Find every test below a folder whose class names a feature.

    :raises CannotTell: a module cannot be imported, or a class names a
        protocol or profile for which there is no column
    """
    loader = unittest.TestLoader()
    suite = loader.discover(str(folder), top_level_dir=str(ROOT))
    if loader.errors:
        raise CannotTell(loader.errors[0])
    cases = [Case(test.id(), feature, (test.protocol, test.profile))
             for test in _flat(suite)
             if (feature := getattr(test, 'feature', ''))]
    for case in cases:
        for column in case.columns:
            if column not in COLUMNS:
                raise CannotTell(f'{case.test}: no column for {column}.')
    return cases


def _flat(suite: Iterable[Any]) -> Iterator[Any]:
    for member in suite:
        if isinstance(member, unittest.TestSuite):
            yield from _flat(member)
        else:
            yield member


def last_results() -> dict[str, str]:
    """Return the status of each test in stestr's last run."""
    return {test['id']: test['status'] for test in run_tests.last_tests()}


def check_complete(cases: Iterable[Case], results: Mapping[str, str]) -> None:
    """Check that every test was in the run.

    :raises CannotTell: some were left out
    """
    ids = [case.test for case in cases]
    missing = [test for test in ids if test not in results]
    if missing or not ids:
        raise CannotTell(
            f'The last run of the tests left out {len(missing)} of the '
            f'{len(ids)} that count, such as {(missing or ["all"])[0]}.')


def features(cases: Iterable[Case], results: Mapping[str, str]
             ) -> dict[str, Row]:
    """Return the results of each feature, in each column."""
    counts: dict[tuple[str, str], list[bool]] = (
        collections.defaultdict(list))
    for case in cases:
        for column in case.columns:
            counts[case.feature, column].append(
                results.get(case.test) == 'success')
    names = sorted({feature for feature, _ in counts})
    return {name: {column: Cell(len(counts[name, column]),
                                sum(counts[name, column]))
                   for column in COLUMNS} for name in names}


def cinder_row(wanted: Iterable[str], rows: Mapping[str, Row]) -> Row:
    """Return a row of Cinder's matrix: each of its features must work."""
    found = [rows.get(name, {}) for name in wanted]
    result: Row = {}
    for column in COLUMNS:
        cells = [row.get(column, Cell()) for row in found]
        result[column] = sum(cells[1:], cells[0]) if cells else Cell()
    return result


def render(rows: Mapping[str, Row]) -> str:
    """Return the text of the page."""
    own = [[name, *map(str, row.values())] for name, row in rows.items()]
    cinders = [[name, *map(str, cinder_row(wanted, rows).values()),
                _shown_by(name, wanted)] for name, wanted in CINDER.items()]
    columns = list(COLUMNS.values())
    return '\n'.join([
        INTRODUCTION,
        *_heading('Features'),
        *_table(['Feature', *columns], own),
        '',
        *_heading("Cinder's own matrix"),
        "Cinder's documents compare drivers by these ten rows.", '',
        *_table(['Row', *columns, 'Shown by'], cinders), ''])


def _shown_by(name: str, wanted: Iterable[str]) -> str:
    return IMPOSSIBLE.get(name) or ', '.join(wanted)


def _heading(text: str) -> list[str]:
    return [text, '=' * len(text), '']


def _table(heading: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = ['.. list-table::', '   :header-rows: 1', '']
    for row in [heading, *rows]:
        for number, cell in enumerate(row):
            lines += textwrap.wrap(
                cell, 79, initial_indent='     - ' if number else '   * - ',
                subsequent_indent='       ')
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='support_matrix',
        description='Write the support matrix from the last run of the '
                    'functional tests.')
    parser.add_argument('--check', action='store_true',
                        help='only report whether the page is up to date')
    check = parser.parse_args(arguments).check
    try:
        cases = load_cases()
        results = last_results()
        check_complete(cases, results)
    except CannotTell as why:
        print(f'support matrix: {why} Run: make test')
        return 1
    text = render(features(cases, results))
    name = PAGE.relative_to(ROOT)
    if not check:
        PAGE.write_text(text)
        print(f'support matrix: wrote {name}')
    elif not PAGE.is_file() or PAGE.read_text() != text:
        print(f'support matrix: {name} does not match the results of '
              'the tests. Once they pass: make support-matrix')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
