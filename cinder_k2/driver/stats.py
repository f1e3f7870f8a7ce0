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

"""Statistics of a back end for the scheduler."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import time
import typing

from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import array_usage
from cinder_k2.driver.db import statuses
from cinder_k2.driver.failover import arrays
from cinder_k2.driver import location
from cinder_k2.driver.operations import ArrayOperations
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi
# Seconds. Statistics must be complete within ten seconds, even if the array
# stops replying after its usage was read. After this time, nothing is started
# that may take as long as a probe of the array.
_QUICK = 3.0

# Cinder's evaluator handles only the first two terms of "a and b and c", and
# truncates figures to integers: hence the parentheses, and whole microseconds
# below. While an array is down its capacity is reported as 0.
FILTER_FUNCTION = (
    '((capabilities.degraded == 0) and '
    '(capabilities.capacity_state != "full")) and '
    '(capabilities.free_capacity_gb * 100 > '
    'capabilities.total_capacity_gb * '
    'max(capabilities.reserved_percentage, 5))')
GOODNESS_FUNCTION = (
    '((capabilities.degraded == 0) and '
    '(capabilities.total_capacity_gb > 0)) ? '
    '100 * capabilities.free_capacity_gb / capabilities.total_capacity_gb '
    ': 0')

# The ratio to report for an array without data.
_FIRST_RATIO = 20.0
_LARGEST = 1 << 60
# The data reduction of a nearly empty array is meaningless.
_LEAST_USE = 0.01

_FEATURES: dict[str, typing.Any] = {
    'thin_provisioning_support': True,
    'thick_provisioning_support': False,
    'sparse_copy_volume': True,
    'online_extend_support': True,
    'multiattach': True,
    'consistent_group_snapshot_enabled': True,
    'consistencygroup_support': True,
    'QoS_support': False,
}


class Statistics:
    """Statistics, in few calls to the array for any number of volumes.

    :param known: the arrays of the back end
    :param configuration: the options of the back end
    :param name: name of the back end
    :param fixed: properties of the driver that never change
    """

    def __init__(self, known: arrays.ArraySet[ArrayOperations],
                 configuration: typing.Any, name: str,
                 fixed: Mapping[str, str]) -> None:
        self._arrays = known
        self._configuration = configuration
        self._name = name
        self._fixed = fixed
        self._state = 'up'
        # The last known values of the array.
        self._usage = array_usage.ArrayUsage()

    def read(self, functions: Mapping[str, str | None]
             ) -> dict[str, typing.Any]:
        """Read the current statistics; an array that does not reply is down.

        :param functions: the filter and goodness functions, by their keys in
            the statistics
        """
        self._usage, why = self._measure()
        # The time counts from here, so that the rest is not skipped each time
        # for an array that is always slow to report its usage.
        end = time.monotonic() + _QUICK
        state = 'down' if why else 'up'
        self._log_change(state, why)
        # Otherwise further calls would only be waited for.
        responds = state == 'up' and self._usage.current
        if responds:
            self._reconcile(end)
        is_quick = time.monotonic() < end
        return {
            'volume_backend_name': self._name, **self._fixed,
            'backend_state': state, **self._replication(),
            **self._replication_status(responds and is_quick),
            'pools': [{**self._pool(self._usage, state), **functions}]}

    def _measure(self) -> tuple[array_usage.ArrayUsage, str]:
        """The usage of the array, and why it is down; empty if it is up.

        An array is down if its usage cannot be read, usually because it does
        not reply or refuses the login. The state that it reports does not
        matter. Its capacity is then 0: no filter of Cinder's looks at
        ``backend_state``.
        """
        try:
            return self._arrays.active.array.system.usage(), ''
        except (rest.RestError, exceptions.K2Error) as error:
            return dataclasses.replace(
                self._usage, state=None,
                capacity=array_usage.NOTHING), str(error)

    def _log_change(self, state: str, why: str) -> None:
        """Log once that the array went down, and once that it is back."""
        if state == self._state:
            return
        self._state = state
        details = {'address': self._arrays.active.array.address, 'why': why}
        if state == 'down':
            LOG.error('The array at %(address)s is reported as down: %(why)s',
                      details)
        else:
            LOG.info('The array at %(address)s is up again.', details)

    def _pool(self, usage: array_usage.ArrayUsage, state: str
              ) -> dict[str, typing.Any]:
        return {
            'pool_name': self._name,
            # From here it gets into "openstack volume service list".
            'backend_state': state,
            'location_info': location.info(
                self._arrays.active.array.system.known_id,
                self._fixed['storage_protocol']),
            'reserved_percentage': self._configuration.reserved_percentage,
            'max_over_subscription_ratio': self._ratio(usage),
            **_FEATURES, **self._replication(), **_capacity(usage),
            **_health(usage), **_load(usage.performance), **_counts(usage),
            volume_types.DEDUP.key: list(volume_types.DEDUP.values)}

    def _reconcile(self, end: float) -> None:
        """Remove unused mappings. Usually no call.

        :param end: monotonic time after which no further array is checked
        """
        for one in self._arrays.others(()):
            if time.monotonic() < end:
                one.reconciliation.run()

    def _replication_status(self, responds: bool) -> dict[str, str]:
        """Whether the array has stopped replicating something.

        One call if all is well. Sessions are resumed where possible. If some
        stay suspended, Cinder calls ``get_replication_error_status``.
        """
        if not self._arrays.targets or not responds:
            return {}
        active = self._arrays.active
        try:
            with active.array.probe_deadline():
                broken = active.monitor.watch_replication()
        except rest.RestError as error:
            LOG.warning('The state of replication is not known: %s', error)
            return {}
        return {'replication_status': statuses.Replication.ERROR if broken
                else statuses.Replication.ENABLED}

    def _replication(self) -> dict[str, typing.Any]:
        targets = self._arrays.targets
        return {'replication_enabled': bool(targets),
                'replication_type': ['async'] if targets else [],
                'replication_count': len(targets),
                'replication_targets': targets}

    def _ratio(self, usage: array_usage.ArrayUsage) -> float:
        """The ``max_over_subscription_ratio`` to report.

        From the array's figures if it is "auto", or with
        ``auto_calc_max_oversubscription_ratio``.
        """
        conf, capacity = self._configuration, usage.capacity
        used = capacity.total - capacity.free
        if (conf.auto_calc_max_oversubscription_ratio
                and used > 0 and capacity.provisioned_volumes):
            # The scheduler accepts no ratio below one.
            return max(capacity.provisioned_volumes / used, 1.0)
        if conf.max_over_subscription_ratio != 'auto':
            return float(conf.max_over_subscription_ratio)
        if used < _LEAST_USE * capacity.total:
            return _FIRST_RATIO
        return usage.data_reduction or _FIRST_RATIO


def extra_specs(strategies: Sequence[str]
                ) -> Iterator[tuple[volume_types.ExtraSpec, str | None]]:
    """The extra specs, and the default of each.

    :param strategies: clone strategies of this back end
    """
    for spec in volume_types.EXTRA_SPECS:
        yield spec, (','.join(strategies) if spec is volume_types.STRATEGY
                     else spec.default)


def _gib(kib: int | None) -> float:
    return round((kib or 0) / _KIB_PER_GIB, 2)


def _capacity(usage: array_usage.ArrayUsage) -> dict[str, typing.Any]:
    """Capacity in GiB, and reduction ratios (CAP-1, CAP-2)."""
    capacity = usage.capacity
    return {'total_capacity_gb': _gib(capacity.total),
            'free_capacity_gb': _gib(capacity.free),
            'provisioned_capacity_gb': _gib(capacity.provisioned_volumes),
            'data_reduction_ratio': round(usage.data_reduction or 1.0, 2),
            'total_reduction_ratio': round(usage.total_reduction or 1.0, 2)}


def _health(usage: array_usage.ArrayUsage) -> dict[str, typing.Any]:
    word = usage.state and usage.state.state
    return {'array_state': word or 'unknown',
            'capacity_state': usage.capacity.state or 'unknown',
            'degraded': usage.degraded}


def _load(found: rest.Performance | None) -> dict[str, typing.Any]:
    """Load (STA-5). Missing figures are 0: None breaks Cinder's evaluator."""
    figures = found or rest.Performance()
    values = {
        'iops': figures.iops_avg,
        'iops_max': figures.iops_max,
        'bandwidth_bytes_per_sec': figures.throughput_avg,
        'bandwidth_max_bytes_per_sec': figures.throughput_max,
        'latency_inner_usec': (figures.latency_inner or 0) * 1000,
        'latency_outer_usec': (figures.latency_outer or 0) * 1000}
    return {'performance_known': found is not None,
            **{key: round(min(max(value or 0, 0), _LARGEST))
               for key, value in values.items()}}


def _counts(usage: array_usage.ArrayUsage) -> dict[str, typing.Any]:
    return {'total_volumes': usage.volumes,
            'total_snapshots': usage.snapshots,
            'total_views': usage.views,
            'total_hosts': usage.hosts}
