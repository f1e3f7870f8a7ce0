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

"""Capacity and load of the array in the last hour."""

import collections
from typing import NamedTuple

from k2_sim import core as core_module
from k2_sim.protocol import query
from k2_sim.rules import base
from k2_sim.rules import registry
from k2_sim.rules import statistics
from k2_sim.state import catalogue


# Seconds between two samples, and how many are kept.
STEP = 5.0
KEPT = 720
_CAPACITIES = ('total', 'free', 'allocated', 'provisioned', 'logical',
               'physical')
_FIGURES = ('iops_avg', 'throughput_avg', 'latency_inner', 'latency_outer')


class Sample(NamedTuple):
    """One moment.

    time: seconds since the epoch. Capacities are in KiB, as in
    system/capacity; throughput in bytes per second, latencies in
    milliseconds, as in stats/system (STA-5). requests: to the REST API,
    per second since the sample before.
    """

    time: float
    total: int
    free: int
    allocated: int
    provisioned: int
    logical: int
    physical: int
    iops: float
    throughput: float
    latency_inner: float
    latency_outer: float
    requests: float


class History:
    """The samples of one array, in memory.

    They are protected by the array's lock: a separate lock would be taken
    in both orders, by views and by sampling.
    """

    def __init__(self, core: core_module.Core) -> None:
        self._core = core
        self._samples: collections.deque[Sample] = collections.deque(
            maxlen=KEPT)
        self._counted = 0

    def sample(self) -> None:
        """Take a sample if one is due."""
        with self._core.lock:
            now = self._core.clock.time()
            last = self._samples[-1].time if self._samples else None
            # Time that was set back begins a new step, too.
            if last is None or not 0 <= now - last < STEP:
                self._samples.append(self._sample(now, last))

    def since(self, time: float) -> list[Sample]:
        """The samples of the last hour after a moment, oldest first.

        All of them for a time in the future: the caller has samples from
        before the clock was set back.
        """
        now = self._core.clock.time()
        begin = max(time if time <= now else 0.0, now - STEP * KEPT)
        with self._core.lock:
            return [sample for sample in self._samples
                    if sample.time > begin]

    def _sample(self, now: float, last: float | None) -> Sample:
        core = self._core
        scope = base.Scope(core.store, core.behaviors, core.clock)
        capacity = registry.shown(
            scope, catalogue.SYSTEM_CAPACITY.name,
            core.store.at('/system/capacity/1'))
        point = next(statistics.rows(scope, core.io, query.Query()))
        return Sample._make((
            now, *(capacity[name] for name in _CAPACITIES),
            *(point[name] for name in _FIGURES), self._rate(now, last)))

    def _rate(self, now: float, last: float | None) -> float:
        """Requests per second; restarts after the journal was cleared."""
        count = self._core.journal.count
        new = count - self._counted if count >= self._counted else count
        self._counted = count
        if last is None or now <= last:
            return 0.0
        return round(new / (now - last), 1)
