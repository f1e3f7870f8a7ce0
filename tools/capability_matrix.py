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

"""Writes the page on what works on arrays that lack one capability.

    python -m tools.capability_matrix [--last]

Runs the tests in tests/matrix and writes the page from what they attach to
their results; with ``--last`` from the results of the last run. If a test
failed, which means that an operation of the in-tree driver did, or if the run
was stopped, the page stays as it was and the exit status is 1.
"""

import argparse
import collections
from collections.abc import Iterable
import json
import operator
import pathlib
import sys
import textwrap
import time
from typing import Any

from tools import run_tests
from tools import signals

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / 'doc' / 'source' / 'operator' / 'capability-matrix.rst'
# The tests take half an hour on two idle processors.
RUN_SECONDS = 2 * 3600
INTRODUCTION = """\
.. Written by make capability-matrix from the results of its tests.

=================
Capability matrix
=================

What the driver does on an array that lacks one capability and has all others.
The page is generated from tests on the simulated array: each operation runs
twice, and the REST calls of the second run are compared with those on an array
that lacks nothing. Operations that are not named take the same calls.

The array refuses a capability with a status, by dropping the connection, or
silently: *no hits* finds nothing, *ignored* ignores what the array does not
know. ``k2-admin capabilities`` shows the capabilities found on an array.
"""

Found = dict[str, Any]


def render(found: Iterable[Found]) -> str:
    """Return the text of the page."""
    lines = [INTRODUCTION]
    scripts: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
    for one in found:
        table = scripts.setdefault((one['script'], one['protocol']), {})
        table.setdefault((one['capability'], _effect(one)), []).append(
            one['refusal'].replace('_', ' '))
    for (script, protocol), table in sorted(scripts.items()):
        title = f'{script.capitalize()} ({protocol.upper()})'.replace(
            'ISCSI', 'iSCSI').replace('Chap', 'CHAP')
        lines += [title, '=' * len(title), '', '.. list-table::',
                  '   :header-rows: 1', '   :widths: 25 20 55', '']
        rows = [('Capability', 'Refused by', 'What works then'), *(
            (f'``{name}``', ', '.join(refusals), effect)
            for (name, effect), refusals in sorted(table.items()))]
        for row in rows:
            lines += _row(row)
        lines.append('')
    return '\n'.join(lines)


def _effect(one: Found) -> str:
    """Return the operations that differ, or that there are none."""
    by_outcome: dict[str, list[str]] = collections.defaultdict(list)
    for operation, outcome in one['outcomes'].items():
        by_outcome[outcome].append(operation)
    fast = len(by_outcome.pop('as fast', ()))
    texts = [f'{", ".join(names)}: {outcome}'
             for outcome, names in by_outcome.items()]
    texts += [f'{number} {resource} stay on the array'
              for resource, number in one.get('left', {}).items()]
    if not texts:
        return 'all as fast'
    return '; '.join([f'{fast} operations as fast', *texts])


def _row(cells: Iterable[str]) -> list[str]:
    lines = []
    for number, cell in enumerate(cells):
        lines += textwrap.wrap(
            cell.replace('*', r'\*') if number == 2 else cell, 79,
            initial_indent='     - ' if number else '   * - ',
            subsequent_indent='       ', break_long_words=False,
            break_on_hyphens=False)
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the tests and write the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='capability_matrix',
        description='Write what works without each capability.')
    parser.add_argument('--last', action='store_true',
                        help='use the results of the last run')
    begin = time.monotonic()
    complete = True
    if not parser.parse_args(arguments).last:
        complete = not run_tests.run_suite(
            'matrix', seconds=RUN_SECONDS).failed
    tests = sorted(run_tests.last_tests(), key=operator.itemgetter('id'))
    found = [json.loads(test['details']['matrix'].as_text())
             for test in tests if 'matrix' in test['details']]
    failed = sum(test['status'] not in run_tests.MARKS for test in tests)
    minutes = (time.monotonic() - begin) / 60
    # A run that was stopped has no failed tests, but lacks rows.
    if failed or not (complete and found):
        print(f'{PAGE.relative_to(ROOT)} stays as it was: {failed} tests '
              f'failed, {len(found)} rows in {minutes:.1f} minutes')
        return 1
    PAGE.write_text(render(found))
    print(f'wrote {PAGE.relative_to(ROOT)}, 0 tests failed, '
          f'{minutes:.1f} minutes')
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
