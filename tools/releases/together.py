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

"""Two releases of Cinder at once on one array, as in a rolling upgrade.

    python -m tools.releases.together

For each two consecutive releases between which Cinder supports a rolling
upgrade, two services of one cluster share database, locks and array; the
database has the tables of the newer release. Both carry out random operations
on the same objects, and one is killed. Ends with status 1 if a test failed, or
an environment could not be built.
"""

from collections.abc import Iterator
import itertools
import sys

from tools.releases import environments
from tools.releases import suites
from tools.releases import table
from tools import run_tests
from tools import signals


def pairs(releases: list[table.Release]
          ) -> Iterator[tuple[table.Release, table.Release]]:
    """Yield the older and the newer release of each rolling upgrade.

    Cinder supports none that skips a release, so the major versions of the
    two differ by one.
    """
    for older, newer in itertools.pairwise(releases):
        if _number(newer) == _number(older) + 1:
            yield older, newer


def _number(release: table.Release) -> int:
    return int(release.cinder.partition('.')[0])


def main() -> int:
    """Run the tests for each two releases; return the exit status."""
    tallies = []
    try:
        for older, newer in pairs(table.load()):
            tallies.append(suites.run_cluster(
                newer, environments.of(newer), older,
                environments.of(older)))
    except environments.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    run_tests.tell_reasons(tallies)
    return int(any(tally.failed for tally in tallies))


if __name__ == '__main__':
    sys.exit(signals.run(main))
