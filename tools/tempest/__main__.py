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
"""Run Tempest on real Cinder, keystone and glance, and two simulated arrays.

    python -m tools.tempest [--quick] [--debug] [REGEX]

Prints each failure when it happens, and `N passed, N failed, N skipped` as the
last line. A test that is skipped for an unexpected reason counts as failed. If
the machine lacks a requirement, the result is one skipped test, with the
reason above that line. The logs of all services are in artifacts/tempest; no
other files remain.
"""

import argparse
from collections.abc import Sequence
import os
import pathlib
import secrets
import shutil
import signal
import subprocess  # nosec B404
import sys

from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions
import pymysql
import requests

from tools.cloud import children
from tools.cloud import console
from tools.cloud import errors
from tools.guest import packages
from tools.guest import scratch
from tools import run_tests
from tools import signals
from tools.tempest import layout
from tools.tempest import network
from tools.tempest import servers
from tools.tempest import stack
from tools.tempest import tempest

LOGS = run_tests.ROOT / 'artifacts' / 'tempest'
INSIDE = '--inside'
SECONDS = 3 * 3600.0
# Errors of a service or program that fails or hangs.
NO_ANSWER = (exceptions.ClientException, cinder_exceptions.ClientException,
             requests.RequestException, pymysql.Error,
             subprocess.TimeoutExpired)


def main(arguments: Sequence[str]) -> int:
    """Run the requested tests; return the exit status."""
    options = parse(arguments)
    reason = '' if options.inside else missing()
    try:
        if reason:
            return show(skipped(reason))
        if not options.inside:
            return isolated(arguments)
        return show(run(options, options.inside))
    except errors.CloudError as error:
        return show(broken(str(error)))
    except NO_ANSWER as error:
        return show(broken(
            f'{type(error).__name__}: {error}\n  logs are in {options.logs}'))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog='python -m tools.tempest',
        description=(__doc__ or '').partition('\n')[0])
    parser.add_argument(
        '--debug', action='store_true', help='enable debug logs of Cinder')
    parser.add_argument(
        '--workers', type=int, default=3, metavar='N',
        help='concurrent tests (default: %(default)s)')
    parser.add_argument(
        '--quick', action='store_true',
        help='skip most of the tests that take minutes')
    parser.add_argument(
        '--logs', type=pathlib.Path, default=LOGS, metavar='DIRECTORY',
        help='where the logs go; what is there is deleted (default: '
        'artifacts/tempest)')
    parser.add_argument(
        'regex', nargs='?', metavar='REGEX', default=tempest.ALL,
        help='the tests to run (default: all that need no nova)')
    parser.add_argument(
        INSIDE, type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def missing() -> str:
    """Return why this machine cannot run tempest, or ''."""
    return packages.missing(
        {**packages.PROGRAMS, **servers.PROGRAMS},
        {**packages.FILES, **servers.FILES}) or network.missing()


def skipped(reason: str) -> run_tests.Tally:
    """Return the results if nothing can run."""
    tally = run_tests.Tally()
    tally.skipped, tally.reasons = 1, {f'tempest: {reason}'}
    return tally


def broken(reason: str) -> run_tests.Tally:
    """Return the results if a service does not start."""
    tally = run_tests.Tally()
    tally.fail(f'tempest: {reason}')
    return tally


def isolated(arguments: Sequence[str]) -> int:
    """Run this program in a separate network; return the exit status.

    The directory of the run belongs to this process, so that it is removed
    even if the child process has to be killed.

    :raises CloudError: tempest cannot be installed
    """
    tempest.install()
    parent = os.getpid()
    with scratch.directory() as place, subprocess.Popen(  # nosec B603
            [*network.namespace(), sys.executable, '-m', 'tools.tempest',
             INSIDE, str(place), *arguments],
            cwd=run_tests.ROOT, start_new_session=True, env={
                **os.environ, 'PATH': packages.path(), 'TMPDIR': str(place)},
            preexec_fn=lambda: children.die_with_parent(parent)) as process:
        try:
            return process.wait()
        finally:
            # After a second Ctrl-C the directory would be removed too early.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            run_tests.end(process)


def run(options: argparse.Namespace, place: pathlib.Path) -> run_tests.Tally:
    """Start everything, run the tests, stop everything.

    :param place: an empty directory for the files of the services
    :raises CloudError: something does not start
    """
    shutil.rmtree(options.logs, ignore_errors=True)
    options.logs.mkdir(parents=True)
    started: list[children.Child] = []
    network.set_up()
    with children.stopping(started):
        house = layout.Layout(place, options.logs, secrets.token_hex(16))
        house.etc.mkdir()
        house.password_file.write_text(f'{house.secret}\n')
        stack.start(house, SECONDS, options.debug, started)
        with console.step('images for tempest'):
            images = tempest.make_images(house)
        left_out = (*tempest.LEFT_OUT,
                    *(tempest.LONG if options.quick else ()))
        tally = tempest.run(
            tempest.write_settings(house, images, left_out),
            options.regex, options.workers)
        look_around(house, started, tally)
        stack.stop_guest(house, started[-1])
        return tally


def look_around(house: layout.Layout, started: Sequence[children.Child],
                tally: run_tests.Tally) -> None:
    """Count ended services and leftovers on the arrays as failures."""
    for child in started:
        try:
            child.check()
        except errors.CloudError as error:
            tally.fail(str(error))
    # A failed test may leave something behind.
    for name, left in ({} if tally.failures
                       else stack.leftovers(house)).items():
        tally.fail(f'{name} still has {left}')


def show(tally: run_tests.Tally) -> int:
    """Print the totals and store failures; return the exit status."""
    run_tests.keep('tempest', tally.failures)
    for reason in sorted(tally.reasons):
        print(f'skipped: {reason}')
    print(f'{tally.passed} passed, {tally.failed} failed,'
          f' {tally.skipped} skipped')
    return int(tally.failed > 0)


if __name__ == '__main__':
    sys.exit(signals.run(lambda: main(sys.argv[1:])))
