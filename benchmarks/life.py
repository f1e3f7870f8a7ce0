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

"""The operations that are measured, in the order of a volume's life cycle."""

from collections.abc import Callable
from collections.abc import Iterator
from concurrent import futures
import dataclasses
import time
from typing import Any

from benchmarks import drivers
from benchmarks import peer as peers


@dataclasses.dataclass(frozen=True)
class Measure:
    """The cost of one batch of one operation.

    :ivar calls: REST calls for each single operation
    :ivar wall: seconds for the whole batch
    :ivar in_flight: the maximum number of concurrent requests
    """

    calls: float
    wall: float
    in_flight: int


class Runner:
    """Runs batches of operations of one driver and measures them.

    :param array: see ``benchmarks.array.Array``
    :param at_once: how many operations run at the same time
    :param peer: the second service of a cluster
    """

    def __init__(self, array: Any, at_once: int, driver: Any,
                 peer: peers.Peer) -> None:
        self.driver = driver
        self.peer = peer
        self.array = array
        self.at_once = at_once
        self._pool = futures.ThreadPoolExecutor(at_once)

    def run(self, action: Callable[[Any], object], items: list[Any]
            ) -> None:
        """Run the action for every item."""
        for _ in self._pool.map(action, items):
            pass

    def measure(self, action: Callable[[Any], object], items: list[Any],
                peer: peers.Peer | None = None, count: int = 0) -> Measure:
        """Like ``run``, but return the cost.

        :param peer: a service that has prepared other operations, and runs
            them at the same time
        :param count: number of operations of both; by default that of items
        """
        self.array.clear_journal()
        start = time.perf_counter()
        if peer is not None:
            peer.begin()
        self.run(action, items)
        if peer is not None:
            peer.end()
        wall = time.perf_counter() - start
        calls, in_flight = self.array.journal()
        return Measure(calls / (count or len(items)), wall, in_flight)


Measures = Iterator[tuple[str, Measure]]


class Life:
    """Runs ``count`` volumes through their life cycle, in batches."""

    def __init__(self, runner: Runner, count: int) -> None:
        self._runner = runner
        self._driver = runner.driver
        self._count = count

    def plain(self) -> Measures:
        """Volumes without copies, each on a different host."""
        driver = self._driver
        rows = self._rows()
        hosts = [drivers.connector(f'compute-{n}')
                 for n in range(self._count)]
        pairs = list(zip(rows, hosts, strict=True))
        yield self._batch('create volume', self._create, rows)
        yield self._batch('extend volume', self._extend, rows)
        yield self._batch('attach, a host each',
                          lambda pair: driver.initialize_connection(*pair),
                          pairs)
        yield self._batch('detach',
                          lambda pair: driver.terminate_connection(*pair),
                          pairs)
        yield self._batch('statistics',
                          lambda _: driver.get_volume_stats(refresh=True),
                          rows)
        yield self._batch('delete volume', driver.delete_volume, rows)

    def one_host(self) -> Measures:
        """Volumes that come to one host and leave it, as instances move."""
        host = drivers.connector('hypervisor')
        for name, pairs in self._moves('one host'):
            yield self._batch(name, self._on(host), pairs)

    def two_services(self) -> Measures:
        """As ``one_host``, half each on two services of a cluster."""
        host, runner = drivers.connector('shared-hypervisor'), self._runner
        for name, pairs in self._moves('two services'):
            half = len(pairs) // 2
            runner.peer.prepare(pairs[half:], host, runner.at_once)
            yield name, runner.measure(self._on(host), pairs[:half],
                                       runner.peer, len(pairs))

    def _moves(self, where: str) -> Iterator[tuple[str, list[Any]]]:
        """Batches of methods of the driver with volumes, by name.

        In the second batch each volume comes as another one leaves, so it has
        twice as many operations.
        """
        rows, others = self._rows(), self._rows()
        self._runner.run(self._create, [*rows, *others])
        attach, detach = 'initialize_connection', 'terminate_connection'
        yield f'attach, {where}', [(attach, row) for row in rows]
        yield f'both, {where}', [
            each for row, other in zip(rows, others, strict=True)
            for each in ((detach, row), (attach, other))]
        yield f'detach, {where}', [(detach, row) for row in others]
        self._runner.run(self._driver.delete_volume, [*rows, *others])

    def _on(self, host: dict[str, Any]) -> Callable[[Any], object]:
        """An action that calls the method of a pair with its volume."""
        return lambda pair: getattr(self._driver, pair[0])(pair[1], host)

    def copies(self) -> Measures:
        """Snapshots, and volumes made from snapshots and volumes."""
        driver = self._driver
        rows = self._rows()
        self._runner.run(self._create, rows)
        snapshots = [drivers.snapshot(row) for row in rows]
        yield self._batch('create snapshot', self._snapshot, snapshots)
        restored = list(zip(self._rows(), snapshots, strict=True))
        clones = list(zip(self._rows(), rows, strict=True))
        with drivers.without_copies(driver):
            yield self._batch('volume from snapshot', self._restore,
                              restored)
            yield self._batch('clone volume', self._clone, clones)
        self._runner.run(driver.delete_volume, [row for row, _ in restored])
        yield self._batch('delete snapshot', driver.delete_snapshot,
                          snapshots)
        yield self._batch('delete, with a clone', driver.delete_volume, rows)
        self._runner.run(driver.delete_volume, [row for row, _ in clones])

    def _rows(self) -> list[Any]:
        return [drivers.volume() for _ in range(self._count)]

    def _batch(self, name: str, action: Callable[[Any], object],
               items: list[Any]) -> tuple[str, Measure]:
        return name, self._runner.measure(action, items)

    def _create(self, row: Any) -> None:
        drivers.keep(row, self._driver.create_volume(row))

    def _extend(self, row: Any) -> None:
        self._driver.extend_volume(row, row.size + 1)

    def _snapshot(self, row: Any) -> None:
        drivers.keep(row, self._driver.create_snapshot(row))

    def _restore(self, pair: Any) -> None:
        drivers.keep(pair[0],
                     self._driver.create_volume_from_snapshot(*pair))

    def _clone(self, pair: Any) -> None:
        drivers.keep(pair[0], self._driver.create_cloned_volume(*pair))
