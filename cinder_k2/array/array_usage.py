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

"""How full and how busy the array is, in few calls."""

from collections.abc import Callable
import dataclasses
import typing

from oslo_log import log as logging

from cinder_k2 import exceptions
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

T = typing.TypeVar('T')

# Seconds. Cinder waits for statistics, and requests them again in a minute.
_PATIENCE = 9.5
_PATIENCE_FOR_CAPACITY = 8.0
# For each other figure: one that the array does not report must not use up the
# time for all others.
_PATIENCE_FOR_MORE = 2.0
# If capacity and state took longer, the other figures are not read: most would
# get no time, and be missing for five minutes.
_SLOW = 2.5
# Seconds between two readings of the other figures.
_LIFETIME = 300.0
# Seconds for which an old capacity may be reported: an array that was slow
# once is not down.
_LIFETIME_OF_CAPACITY = 150.0

# A capacity beyond this many KiB is a wrong value.
_LARGEST = 1 << 60

NOTHING = rest.Capacity(id=0, total=0, free=0)


@dataclasses.dataclass(frozen=True)
class ArrayUsage:
    """The latest measurements.

    ``capacity`` in KiB, all its figures from 0 to ``_LARGEST``. ``state`` and
    ``performance`` are None where they are not known, the counts 0.
    ``snapshots`` does not count views. ``current`` is False if the array did
    not report its capacity in time, so that ``capacity`` is the last
    one known.
    """

    capacity: rest.Capacity = NOTHING
    current: bool = True
    state: rest.SystemState | None = None
    performance: rest.Performance | None = None
    volumes: int = 0
    snapshots: int = 0
    views: int = 0
    hosts: int = 0

    @property
    def online(self) -> bool:
        """Whether the array reports to be online; True if it reports nothing.

        Other states do not prevent its use: their meaning is not known.
        """
        return self.state is None or is_online(self.state)

    @property
    def degraded(self) -> bool:
        """Whether the array reports a loss of some of its functions."""
        return bool(self.state
                    and self.state.is_system_functionality_degraded)

    @property
    def data_reduction(self) -> float | None:
        """The ratio of deduplication and compression (CAP-2).

        None while the array is empty.
        """
        return _share(self.capacity.allocated, self.capacity.physical)

    @property
    def total_reduction(self) -> float | None:
        """The same, thin provisioning included (CAP-2)."""
        return _share(self.capacity.provisioned, self.capacity.physical)


def _seen(collection: rest.Collection[rest.Snapshot], **equal: bool) -> int:
    """The count; 0 where the array never showed any."""
    try:
        return collection.count(**equal)
    except rest.Unproven:
        return 0


def _share(whole: int | None, part: int | None) -> float | None:
    return max(whole / part, 1.0) if whole and part else None


def is_online(state: rest.SystemState) -> bool:
    """Whether an array reports to be online, or nothing (section 7.1)."""
    return (state.state or 'ONLINE').strip().upper() == 'ONLINE'


class _Figure(typing.Generic[T]):
    """A figure whose reading must not hold up the others.

    ``value`` is the last one known, ``current`` is whether the last attempt to
    read it succeeded.
    """

    def __init__(self, what: str, load: Callable[[], T], value: T) -> None:
        self._what = what
        self._load = load
        self.value = value
        self.current = True

    def read(self, client: rest.Client) -> T:
        """Try to read it. One warning, until it can be read again."""
        try:
            with client.deadline(_PATIENCE_FOR_MORE):
                self.value = self._load()
            self.current = True
        except rest.RestError as error:
            log = LOG.warning if self.current else LOG.debug
            log('The statistics lack %(what)s: %(error)s',
                {'what': self._what, 'error': error})
            self.current = False
        return self.value


class UsageReader:
    """Measures one array; two calls, and five more every five minutes."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client
        self._due = client.clock.monotonic()
        self._capacity: rest.Capacity | None = None
        self._known_at = self._due
        self._state: _Figure[rest.SystemState | None] = _Figure(
            'the state of the system', client.system_state, None)
        self._performance: _Figure[rest.Performance | None] = _Figure(
            'figures of performance', client.performance, None)
        snapshots = client.snapshots
        counters: dict[str, Callable[[], int]] = {
            # The array's internal CTRL volume does not count (VOL-14).
            'volumes': lambda: client.volumes.count() - 1,
            'snapshots': lambda: _seen(snapshots, is_exposable=False),
            'views': lambda: _seen(snapshots, is_exposable=True),
            'hosts': client.hosts.count}
        self._counts = {
            name: _Figure(f'the number of {name}', load, 0)
            for name, load in counters.items()}

    def read(self) -> ArrayUsage:
        """Measure now, within ten seconds.

        Counts and performance may be five minutes old, and older if the array
        is slow.

        :raises rest.RestError: the array reports no capacity
        :raises ArrayNotSupported: it reports an invalid one
        """
        began = self._client.clock.monotonic()
        with self._client.deadline(_PATIENCE):
            capacity, current = self._read_capacity()
            self._state.read(self._client)
            now = self._client.clock.monotonic()
            if now - began < _SLOW and now >= self._due:
                self._read_more()
        return self._usage(capacity, current)

    def _read_capacity(self) -> tuple[rest.Capacity, bool]:
        """The capacity, and whether it is the current one.

        :raises rest.RestError: there is none, not even one of the last 150
            seconds
        :raises ArrayNotSupported: it is invalid
        """
        now = self._client.clock.monotonic()
        try:
            with self._client.deadline(_PATIENCE_FOR_CAPACITY):
                capacity = self._client.capacity()
        except rest.RestError as error:
            if (not (isinstance(error, rest.Busy)
                     or rest.errors.may_go_on(error))
                    or self._capacity is None
                    or now - self._known_at > _LIFETIME_OF_CAPACITY):
                raise
            LOG.warning('The statistics have an old capacity: %s', error)
            return self._capacity, False
        if not 0 < capacity.total <= _LARGEST:
            raise exceptions.ArrayNotSupported(
                f'The array at {self._client.address} reports an invalid'
                ' capacity.')
        self._capacity, self._known_at = _within_bounds(capacity), now
        return self._capacity, True

    def _read_more(self) -> None:
        for count in self._counts.values():
            count.read(self._client)
        self._performance.read(self._client)
        self._due = self._client.clock.monotonic() + _LIFETIME

    def _usage(self, capacity: rest.Capacity, current: bool) -> ArrayUsage:
        performance = self._performance
        return ArrayUsage(
            capacity, current, self._state.value,
            # An old latency is of no use.
            performance.value if performance.current else None,
            **{name: max(figure.value, 0)
               for name, figure in self._counts.items()})


def _within_bounds(capacity: rest.Capacity) -> rest.Capacity:
    """Limit figures to 0 to ``_LARGEST``, and free space to the total."""
    figures: dict[str, typing.Any] = {
        name: min(max(value, 0), _LARGEST)
        for name, value in vars(capacity).items() if isinstance(value, int)}
    figures['free'] = min(figures['free'], capacity.total)
    return dataclasses.replace(capacity, **figures)
