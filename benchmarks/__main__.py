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

"""``python -m benchmarks``: compare this driver with the in-tree driver.

Both run on the same simulated array in the same run, with a fixed latency per
request: first on an array with all capabilities, then on one that serves only
known requests. For replication each driver gets a pair of arrays.
"""

import argparse
from collections.abc import Iterator
import contextlib
import itertools
import sys
import tempfile
from typing import Any

from benchmarks import array as arrays
from benchmarks import drivers
from benchmarks import life
from benchmarks import peer as peers
from benchmarks import replicated
from benchmarks import report
from benchmarks import site


# The profile that serves what the in-tree driver is known to send.
_KNOWN = 'known'


def main() -> int:
    """Run and print; return 1 if objects are left on an array, else 0."""
    options = _options()
    results = report.Results(vars(options))
    known = report.Results({**vars(options), 'profile': _KNOWN})
    trouble = ''
    if options.only in (None, 'operations'):
        trouble += _operations(options, results)
    if options.only in (None, _KNOWN):
        trouble += _operations(options, known)
    if options.only in (None, 'replication'):
        try:
            _replication(options, results)
        except site.WrongStateError as error:
            trouble += f'Replication: {error}\n'
    _say('')
    print(results.table())
    print(known.known_table())
    if options.json:
        results.write(options.json, known.rows())
    if trouble:
        print(trouble, file=sys.stderr)
    return 1 if trouble else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks',
        description='Compares the driver with the in-tree driver on the same '
                    'simulated array: REST calls, time, and requests in '
                    'flight.')
    parser.add_argument('--latency', type=float, default=50, metavar='MS',
                        help='latency of each request (default: %(default)s)')
    parser.add_argument('--parallel', type=int, default=20, metavar='N',
                        help='concurrent operations (default: %(default)s)')
    parser.add_argument('--rounds', type=int, default=2, metavar='N',
                        help='rounds, of which the median is reported '
                             '(default: %(default)s)')
    parser.add_argument('--profile', choices=('k2', 'sdp'), default='sdp',
                        help='kind of array (default: %(default)s, which '
                             'has thin clones)')
    parser.add_argument('--volumes', type=int, default=500, metavar='N',
                        help='replicated volumes that are failed over and '
                             'back (default: %(default)s)')
    parser.add_argument('--replication-latency', type=float, default=20,
                        metavar='MS', help='latency of each request for '
                                           'replicated volumes '
                                           '(default: %(default)s)')
    parser.add_argument('--failback', type=int, default=10, metavar='N',
                        help='how many of the replicated volumes the in-tree '
                             'driver fails back, at five seconds each; its '
                             'figures are scaled (default: %(default)s)')
    parser.add_argument('--only',
                        choices=('operations', 'known', 'replication'),
                        help='measure only one part')
    parser.add_argument('--json', metavar='FILE',
                        help='also write the figures to a file')
    return parser.parse_args()


def _operations(options: argparse.Namespace, results: report.Results
                ) -> str:
    """Measure single operations; return what is left on the array."""
    with tempfile.TemporaryDirectory(prefix='k2-bench-') as folder, \
            arrays.running(folder, results.settings['profile']) as array:
        # The in-tree driver deletes hosts with initiators (HST-3).
        array.switch(delete_host_with_initiators=True)
        _measure(array, options, results)
        left = array.leftovers()
    return f'Left on the array: {left}\n' if left else ''


def _replication(options: argparse.Namespace, results: report.Results
                 ) -> None:
    """Measure failover and failback.

    :raises WrongStateError: a driver did not move the volumes
    """
    for column, contender, back in (
            ('ours', replicated.OURS, options.volumes),
            ('intree', replicated.INTREE,
             min(options.failback, options.volumes))):
        results.add_moves(column, replicated.measure(
            contender, options.profile, options.replication_latency / 1000,
            options.volumes, back, _say))


def _measure(array: arrays.Array, options: argparse.Namespace,
             results: report.Results) -> None:
    login = {'san_login': arrays.LOGIN, 'san_password': arrays.PASSWORD}
    ours = {**login, 'san_ip': array.address, 'san_api_port': array.port,
            'driver_ssl_cert_verify': True,
            'driver_ssl_cert_path': array.authority}
    intree = {**login, 'san_ip': f'{array.address}:{array.port}'}
    with _services(drivers.OURS, 'ours', ours) as both_of_ours, \
            _services(drivers.INTREE, 'intree', intree) as both_of_intree:
        # Some batches have two operations for each volume.
        many = 2 * options.parallel
        _measure_all(array, options, results, {
            'ours': life.Runner(array, many, *both_of_ours),
            'serial': life.Runner(array, 1, *both_of_ours),
            'intree': life.Runner(array, many, *both_of_intree)})


@contextlib.contextmanager
def _services(path: str, section: str, options: dict[str, Any]
              ) -> Iterator[tuple[Any, peers.Peer]]:
    """A driver, and the same one in the second service of a cluster."""
    peer = peers.Peer(path, section, options)
    try:
        yield drivers.load(path, section, **options), peer
    finally:
        peer.stop()


def _measure_all(array: arrays.Array, options: argparse.Namespace,
                 results: report.Results, runners: dict[str, life.Runner]
                 ) -> None:
    count = options.parallel
    _warm_up(runners, count)
    array.set_latency(options.latency / 1000)
    # Slow requests use more connections at a time than fast ones.
    _warm_up({'ours': runners['ours']}, count)
    for number, (column, runner) in itertools.product(
            range(options.rounds), runners.items()):
        for operation, measure in _life(runner, count, column, number):
            _say(f'round {number + 1} of {options.rounds}: {column}: '
                 f'{operation}')
            results.add(operation, column, measure)


def _life(runner: life.Runner, count: int, column: str, number: int
          ) -> life.Measures:
    lives = life.Life(runner, count)
    if column != 'ours' and number:
        # These take up to half a minute each, without variation.
        return lives.plain()
    return itertools.chain(lives.plain(), lives.one_host(),
                           lives.two_services(), lives.copies())


def _warm_up(runners: dict[str, life.Runner], count: int) -> None:
    """Fill caches and pools.

    Our driver also adapts to the number of writes that the array can handle.
    """
    for column in ('ours', 'intree'):
        if column in runners:
            _say(f'warm-up: {column}')
            for _ in _life(runners[column], count, column, 0):
                pass


def _say(text: str) -> None:
    """Show the progress, on terminals only."""
    if sys.stderr.isatty():
        print(f'\r\x1b[K{text}', end='', file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
