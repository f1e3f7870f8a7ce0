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

"""Runs tests in a browser, in a guest, and others that need a whole machine.

The latter include the DevStack plugin, which starts arrays and their daemons.

Prints each failure when it happens, and as its last line
`N passed, N failed, N skipped`. A test whose requirements the machine lacks is
skipped, with the reason above that line. Screenshots of each view are in
artifacts/; with --docs, those that the documentation shows are copied there.
"""

import argparse
from collections.abc import Sequence
import pathlib
import shutil
import sys

from tools.guest import machine
from tools import run_tests
from tools import signals

ROOT = run_tests.ROOT
ARTIFACTS = ROOT / 'artifacts'
PICTURES = ROOT / 'doc' / 'source' / 'simulator' / 'images'
#: Pictures that the documentation shows.
SHOWN = ('overview-light', 'volumes-light', 'replication-light',
         'requests-dark', 'control-light')
LARGEST = 200000
E2E = 'e2e'
GUEST = 'guest'
SUITES = (run_tests.BROWSER, E2E, 'devstack', GUEST)
RUNNERS = {E2E: ('tests.e2e', 'discover', '-t', '.', 'tests/e2e'),
           GUEST: ('tools.guest.suites',)}


class PictureError(Exception):
    """A picture is unsuitable for the documentation; the text says why."""


def copy_pictures(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copy the pictures of the documentation; raises PictureError."""
    target.mkdir(exist_ok=True)
    for name in SHOWN:
        picture = source / f'{name}.png'
        if not picture.exists():
            raise PictureError(f'{picture} was not made; see the tests above')
        if picture.stat().st_size > LARGEST:
            raise PictureError(f'{picture} is larger than {LARGEST} bytes')
        shutil.copyfile(picture, target / picture.name)


def run_guests() -> run_tests.Tally:
    """Run the guest tests; one skipped test if no guest can boot."""
    reason = machine.unavailable()
    if not reason:
        return run_tests.run_suite(GUEST, RUNNERS[GUEST])
    tally = run_tests.Tally()
    tally.skipped, tally.reasons = 1, {f'the tests in a guest: {reason}'}
    return tally


def run_suite(suite: str) -> run_tests.Tally:
    """Run one of ``SUITES``."""
    if suite == GUEST:
        return run_guests()
    return run_tests.run_suite(suite, RUNNERS.get(suite, ()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--docs', action='store_true',
                        help='copy pictures into the documentation')
    parser.add_argument('suites', nargs='*', metavar='SUITE',
                        help=f'{", ".join(SUITES)} (default: all)')
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.suites) - set(SUITES))
    if unknown:
        parser.error(f'no such suite: {", ".join(unknown)};'
                     f' there are {", ".join(SUITES)}')
    tallies = [run_suite(suite) for suite in options.suites or SUITES]
    run_tests.tell_reasons(tallies)
    failed = sum(one.failed for one in tallies)
    if options.docs:
        try:
            copy_pictures(ARTIFACTS, PICTURES)
        except PictureError as exc:
            print(exc)
            failed += 1
    passed = sum(one.passed for one in tallies)
    skipped = sum(one.skipped for one in tallies)
    print(f'{passed} passed, {failed} failed, {skipped} skipped', flush=True)
    return int(failed > 0)


if __name__ == '__main__':
    sys.exit(signals.run(main))
