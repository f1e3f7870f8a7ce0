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

"""``python -m benchmarks.cpu``: CPU time of a create and of an attach.

Both drivers run one after the other in this process, on one simulated array
without latency in a separate process. Our driver has learned the array's
capabilities before. The figures are those of the calling thread, and of all
threads of the process, in milliseconds; the ratio is that of the former.
"""

import argparse
from collections.abc import Callable
import statistics
import sys
import tempfile
import time
from typing import Any

from benchmarks import array as arrays
from benchmarks import drivers

#: The limit relative to the in-tree driver.
GOAL = 1.5

Times = tuple[float, float]


def main() -> int:
    """Measure and print; return 1 if --check finds the goal missed."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix='k2-cpu-') as folder, \
            arrays.running(folder, 'k2') as array:
        # The in-tree driver deletes hosts with initiators (HST-3).
        array.switch(delete_host_with_initiators=True)
        figures = {name: _of_driver(driver, options)
                   for name, driver in _both(array).items()}
    return _print(figures, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.cpu',
        description='CPU time of create_volume and initialize_connection, '
                    'for this driver and the in-tree driver.')
    parser.add_argument('--rounds', type=int, default=5, metavar='N',
                        help='rounds, of which the median is reported '
                             '(default: %(default)s)')
    parser.add_argument('--operations', type=int, default=200, metavar='N',
                        help='operations of a round (default: %(default)s)')
    parser.add_argument('--check', action='store_true',
                        help='exit with 1 if an operation takes more than '
                             f'{GOAL} times the CPU time of the in-tree '
                             'driver')
    return parser.parse_args()


def _both(array: arrays.Array) -> dict[str, Any]:
    login = {'san_login': arrays.LOGIN, 'san_password': arrays.PASSWORD}
    return {
        'ours': drivers.load(
            drivers.OURS, 'ours', san_ip=array.address,
            san_api_port=array.port, driver_ssl_cert_verify=True,
            driver_ssl_cert_path=array.authority, **login),
        'in-tree': drivers.load(drivers.INTREE, 'intree', **login,
                                san_ip=f'{array.address}:{array.port}')}


def _of_driver(driver: Any, options: argparse.Namespace
               ) -> dict[str, Times]:
    # Learn capabilities, and fill caches.
    _round(driver, 5)
    rounds = [_round(driver, options.operations)
              for _ in range(options.rounds)]
    return {name: (statistics.median(one[name][0] for one in rounds),
                   statistics.median(one[name][1] for one in rounds))
            for name in ('create', 'attach')}


def _round(driver: Any, count: int) -> dict[str, Times]:
    rows = [drivers.volume(host=driver.host) for _ in range(count)]
    made: list[Any] = []
    create = _measure(lambda row: made.append(driver.create_volume(row)),
                      rows)
    for row, update in zip(rows, made, strict=True):
        drivers.keep(row, update)
    host = drivers.connector('cpu')
    for row in rows:
        driver.create_export(drivers.context(), row, host)
    attach = _measure(lambda row: driver.initialize_connection(row, host),
                      rows)
    for row in rows:
        driver.terminate_connection(row, host)
        driver.delete_volume(row)
        row.destroy()
    return {'create': create, 'attach': attach}


def _measure(act: Callable[[Any], object], rows: list[Any]) -> Times:
    """Return the CPU time of each in ms: of this thread, of all threads."""
    thread, process = time.thread_time(), time.process_time()
    for row in rows:
        act(row)
    return tuple((now - before) * 1000 / len(rows) for now, before in (
        (time.thread_time(), thread), (time.process_time(), process)))


def _print(figures: dict[str, dict[str, Times]],
           options: argparse.Namespace) -> int:
    print(f'CPU of one operation in ms, median of {options.rounds} rounds of '
          f'{options.operations}: calling thread (all threads)')
    worst = 0.0
    for name in ('create', 'attach'):
        ours, theirs = figures['ours'][name], figures['in-tree'][name]
        ratio = ours[0] / theirs[0]
        worst = max(worst, ratio)
        print(f'{name:8} ours {ours[0]:.2f} ({ours[1]:.2f})  in-tree '
              f'{theirs[0]:.2f} ({theirs[1]:.2f})  ratio {ratio:.2f}, '
              f'goal {GOAL}')
    return 1 if options.check and worst > GOAL else 0


if __name__ == '__main__':
    sys.exit(main())
