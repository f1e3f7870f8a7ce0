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

"""Writes the page about supported releases from the last results on each."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import datetime
import json
import pathlib

from tools.releases import table
from tools import run_tests

PAGE = table.ROOT / 'doc' / 'source' / 'operator' / 'releases.rst'
# Committed with the page, because releases are tested on different days.
RESULTS = PAGE.with_suffix('')
_INTRODUCTION = """\
.. Written by make matrix from the results of its tests.

==================
Supported releases
==================

The driver runs on Cinder of each of these releases of OpenStack, on Python
3.10 to 3.13; Python 3.9, as in Enterprise Linux 9, is not supported. The
table shows the last run of all unit and functional tests on each: Cinder and
its database, with the upper constraints of the release, and REST calls to a
simulated array. "Threads" are those of the release's ``cinder-volume``.
"Workflow" is the main workflow through Cinder's API, over iSCSI and Fibre
Channel, as with ``make cloud CHECK=1`` (:doc:`quick-start`).

.. list-table::
   :header-rows: 1
   :widths: 13 13 13 14 14 11 11 11 16

"""
_HEADING = ('Release', 'Cinder', 'Python', 'Threads', 'Workflow', 'Passed',
            'Failed', 'Skipped', 'Date')
_SKIPPED = """\

What was skipped, and why:

"""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of all tests on a release, and of the main workflow."""

    release: str
    cinder: str
    python: str
    threads: str
    passed: int
    failed: int
    skipped: int
    reasons: list[str]
    workflow: bool
    date: str

    def save(self) -> None:
        """Store it for the page."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f'{self.release}.json').write_text(
            json.dumps(dataclasses.asdict(self), indent=1) + '\n')


def result_of(release: table.Release, python: str, threads: str,
              tallies: Mapping[str, run_tests.Tally],
              workflow: bool) -> Result:
    """Return the sum of the results of the suites, dated today."""
    every = tallies.values()
    return Result(release.name, release.cinder, python, threads,
                  sum(tally.passed for tally in every),
                  sum(tally.failed for tally in every),
                  sum(tally.skipped for tally in every),
                  sorted(set().union(*[tally.reasons for tally in every])),
                  workflow, datetime.date.today().isoformat())


def load(releases: Iterable[table.Release]) -> list[Result]:
    """Read the last results of the releases that have one."""
    files = [RESULTS / f'{release.name}.json' for release in releases]
    return [Result(**json.loads(file.read_text())) for file in files
            if file.exists()]


def render(results: Iterable[Result]) -> str:
    """Return the text of the page."""
    results = list(results)
    text = _INTRODUCTION + _row(_HEADING)
    for one in results:
        text += _row((one.release, one.cinder, one.python, one.threads,
                      'works' if one.workflow else 'fails', str(one.passed),
                      str(one.failed), str(one.skipped), one.date))
    reasons = [f'* {one.release}: {reason}\n' for one in results
               for reason in one.reasons]
    return text + (_SKIPPED + ''.join(reasons) if reasons else '')


def write(page: pathlib.Path = PAGE) -> None:
    """Write the page from the last results."""
    page.write_text(render(load(table.load())))


def _row(cells: Iterable[str]) -> str:
    first, *rest = cells
    return ''.join([f'   * - {first}\n', *(f'     - {c}\n' for c in rest)])
