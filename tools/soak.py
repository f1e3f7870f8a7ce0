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

"""Runs random operations on random arrays until an error is found.

    python -m tools.soak [--minutes N] [--seed N] [--round N]

Each round draws the behaviors and refusals of two simulated arrays, creates
foreign objects on them, runs random operations of the driver through Cinder's
volume manager, deletes everything through Cinder, and checks that nothing is
left and that no foreign object has changed. An operation may fail with an
error. Prints a line per round, and a summary. It stops after the first round
that fails, prints how to repeat it, and exits with status 1.
"""

import argparse
import importlib
import secrets
import sys
import time
import unittest

from tools import signals

MINUTES = 60.0


def run_round(seed: int, number: int) -> tuple[str, str]:
    """Run one round; return a summary line and the errors."""
    # The tests are not fully typed.
    case = importlib.import_module('tests.soak.rounds').test_case(
        seed, number)
    result = unittest.TestResult()
    begin = time.monotonic()
    case.run(result)
    counts = ', '.join(f'{count} {what}'
                       for what, count in case.counts.items())
    line = (f'round {number}: {case.protocol} {case.profile}, {counts}, '
            f'{time.monotonic() - begin:.0f} s')
    wrong = [text for _, text in (*result.errors, *result.failures)]
    if not wrong:
        return line, ''
    return line, '\n'.join([*wrong, f'behaviors: {case.behaviors}',
                            'operations that failed:', *case.errors])


def run(seed: int, first: int, deadline: float | None) -> int:
    """Run rounds until the deadline, or just one; return the exit status.

    :param first: number of the first round
    :param deadline: on the monotonic clock; None for a single round
    """
    begin, number = time.monotonic(), first
    while True:
        line, wrong = run_round(seed, number)
        print(line, flush=True)
        if wrong:
            print(f'{wrong}\nfailed. To repeat: make soak SEED={seed} '
                  f'ROUND={number}')
            return 1
        if deadline is None or time.monotonic() >= deadline:
            break
        number += 1
    print(f'seed {seed}: {number - first + 1} rounds in '
          f'{(time.monotonic() - begin) / 60:.1f} minutes, nothing left, no '
          'foreign object changed')
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the requested rounds; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='soak', description='Run random operations on random arrays.')
    parser.add_argument('--minutes', type=float, default=MINUTES)
    parser.add_argument('--seed', type=int,
                        help='seed of all randomness; random by default')
    parser.add_argument('--round', type=int, help='run only this round')
    options = parser.parse_args(arguments)
    seed = (secrets.randbelow(10 ** 6) if options.seed is None
            else options.seed)
    print(f'seed {seed}', flush=True)
    return run(seed, options.round or 1, None if options.round else
               time.monotonic() + options.minutes * 60)


if __name__ == '__main__':
    sys.exit(signals.run(main))
