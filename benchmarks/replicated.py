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

"""Failover of many replicated volumes at once, and failback.

Each driver gets two new arrays with the same volumes on them. The result is
checked on the arrays, not by what the driver reports.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import tempfile
import threading
import time
from typing import Any
from unittest import mock

from oslo_utils import timeutils

from benchmarks import array as arrays
from benchmarks import drivers
from benchmarks import site as sites

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Move:
    """The cost of moving volumes from one array to the other.

    :ivar count: how many volumes
    :ivar calls: REST calls to both arrays
    :ivar wall: seconds
    :ivar paused: how many of these seconds the driver slept
    """

    count: int
    calls: int
    wall: float
    paused: float

    def scaled(self, count: int) -> 'Move':
        """Return the cost for more volumes, scaled linearly."""
        factor = count / self.count
        return Move(count, round(self.calls * factor), self.wall * factor,
                    self.paused * factor)


@dataclasses.dataclass(frozen=True)
class Contender:
    """A driver, and how it differs from the other one.

    :ivar home: the target to pass for failback
    :ivar status: the replication status of volumes that it has failed back
    :ivar keeps_ids: whether rows have the ids of the array and its volumes
    """

    path: str
    section: str
    home: str | None
    status: str
    keeps_ids: bool


OURS = Contender(drivers.OURS, 'ours_replicated', 'default', 'enabled', True)
# It does not accept "default" for the primary array, and reports volumes as
# not replicated after failback.
INTREE = Contender(drivers.INTREE, 'intree_replicated', None, 'disabled',
                   False)


def measure(contender: Contender, profile: str, latency: float, count: int,
            back: int, say: Say) -> dict[str, Move]:
    """Let a driver fail volumes over and back.

    :param latency: seconds that each request takes
    :param count: how many volumes are failed over
    :param back: how many of them are failed back
    :param say: receives progress messages
    :returns: "failover" and "failback"
    :raises WrongStateError: the driver did not move the volumes
    """
    with tempfile.TemporaryDirectory(prefix='k2-bench-') as folder, \
            arrays.pair(folder, profile) as pair:
        say(f'{contender.section}: {count} replicated volumes')
        trial = _Trial(contender, sites.Site(*pair), latency)
        trial.fill(count)
        say(f'{contender.section}: failover of {count}')
        over = trial.fail_over()
        say(f'{contender.section}: failback of {back}')
        return {'failover': over, 'failback': trial.fail_back(back)}


class _Trial:
    """A driver and its back end on two arrays of its own."""

    def __init__(self, contender: Contender, site: sites.Site,
                 latency: float) -> None:
        self._contender = contender
        self._site = site
        self._latency = latency
        self._host = f'bench@{contender.section}'
        self._service = drivers.service(self._host)
        self._driver = drivers.load(contender.path, contender.section,
                                    **site.options())

    def fill(self, count: int) -> None:
        """Create volumes on the array, and their rows."""
        self._site.fill([
            drivers.volume(host=self._host, replication_status='enabled',
                           launched_at=timeutils.utcnow())
            for _ in range(count)])

    def fail_over(self) -> Move:
        """Fail all of them over to the secondary array."""
        move = self._move(self._rows(), self._site.secondary.host)
        rows = self._rows()
        self._site.check({row.id for row in rows}, sites.AWAY)
        self._check_rows(rows, 'failed-over', self._site.secondary)
        return move

    def fail_back(self, count: int) -> Move:
        """Fail some of them back, with data written on the secondary array."""
        self._site.write_away()
        home = self._rows()[:count]
        move = self._move(home, self._contender.home)
        ids = {row.id for row in home}
        self._site.check(ids, sites.HOME)
        self._site.check_data(ids)
        self._check_rows([row for row in self._rows() if row.id in ids],
                         self._contender.status, self._site.primary)
        return move

    def _rows(self) -> list[Any]:
        return list(drivers.volumes(self._host))

    def _check_rows(self, rows: Sequence[Any], status: str,
                    array: arrays.Array) -> None:
        wrong = [row.id for row in rows if row.replication_status != status]
        if wrong:
            raise sites.WrongStateError(
                f'{len(wrong)} rows are not {status}')
        if self._contender.keeps_ids:
            self._site.check_places(rows, array)

    def _move(self, rows: list[Any], target: str | None) -> Move:
        """Move volumes, and save the driver's updates of their rows."""
        self._site.clear_journals()
        with self._site.slow(self._latency), _slept() as naps:
            start = time.perf_counter()
            active, updates, _ = self._driver.failover_host(
                drivers.context(), rows, secondary_id=target, groups=[])
            wall = time.perf_counter() - start
        move = Move(len(rows), self._site.calls(), wall, sum(naps))
        drivers.keep(self._service, {'active_backend_id': active})
        known = {row.id: row for row in rows}
        for update in updates:
            drivers.keep(known[update['volume_id']], update['updates'])
        return move


@contextlib.contextmanager
def _slept() -> Iterator[list[float]]:
    """Record how long this thread sleeps each time."""
    naps: list[float] = []
    sleep, own = time.sleep, threading.get_ident()

    def counted(seconds: float) -> None:
        if threading.get_ident() == own:
            naps.append(seconds)
        sleep(seconds)

    with mock.patch.object(time, 'sleep', counted):
        yield naps
