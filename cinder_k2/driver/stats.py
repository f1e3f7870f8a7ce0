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

"""What the scheduler hears of a back end."""

import dataclasses
import typing

from cinder.objects import fields
from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array import meter
from cinder_k2.driver import location
from cinder_k2.driver.side import Side
from cinder_k2.driver import sides
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi

# Cinder's evaluator minds the first two terms only of "a and b and c", and
# cuts the figures off behind the point: hence the brackets, and whole
# microseconds below. While an array is down its capacity is reported as 0.
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

# What Cinder takes for an array without data.
_FIRST_RATIO = 20.0
_LARGEST = 1 << 60
# What a nearly empty array measures of its data says nothing.
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


class StatsMixin:
    """Statistics: few calls to the array, however many volumes it has."""

    VENDOR = 'Kaminario'
    VERSION: str
    _sides: sides.Sides[Side]
    configuration: typing.Any
    protocol: str
    # Without volume_backend_name the driver inside Cinder reports its class,
    # and Cinder's rows carry that name as their pool.
    _default_name: str
    _stats: dict[str, typing.Any]
    _set_property: typing.Callable[..., None]
    get_filter_function: typing.Callable[[], str | None]
    get_goodness_function: typing.Callable[[], str | None]

    # What was known last of the array.
    _usage = meter.Usage()

    def get_default_filter_function(self) -> str:
        """No new volumes for an array that is down, degraded or full."""
        return FILTER_FUNCTION

    def get_default_goodness_function(self) -> str:
        """The share of the array that is free; 0 if it is degraded."""
        return GOODNESS_FUNCTION

    def _init_vendor_properties(self
                                ) -> tuple[dict[str, typing.Any], str]:
        """The extra specs, for get-capabilities."""
        defaults = {volume_types.STRATEGY.key: ','.join(
            self.configuration.k2_clone_strategies)}
        properties: dict[str, typing.Any] = {}
        for spec in volume_types.EXTRA_SPECS:
            enum = {'enum': list(spec.values)} if spec.values else {}
            self._set_property(
                properties, spec.key, spec.title, spec.description, 'string',
                default=defaults.get(spec.key, spec.default), **enum)
        return properties, volume_types.PREFIX

    def _update_volume_stats(self) -> None:
        """Refresh ``self._stats``; an array that is lost is down."""
        self._usage, why = self._measure()
        state = 'down' if why else 'up'
        self._tell_of_change(state, why)
        self._stats = {
            'volume_backend_name': self._backend_name(),
            'vendor_name': self.VENDOR,
            'driver_version': self.VERSION,
            'storage_protocol': self.protocol,
            'backend_state': state,
            **self._replication(), **self._replication_status(state),
            'pools': [self._pool(self._usage, state)]}

    def _measure(self) -> tuple[meter.Usage, str]:
        """The usage of the array, and why it is down if it is.

        Down is what does not answer or refuses the login, whatever word the
        array has for its state. What is down has no capacity: no filter of
        Cinder's looks at its state.
        """
        try:
            return self._sides.serving.array.system.usage(), ''
        except (rest.RestError, exceptions.K2Error) as error:
            return dataclasses.replace(
                self._usage, state=None, capacity=meter.NOTHING), str(error)

    def _tell_of_change(self, state: str, why: str) -> None:
        """Say once that the array went down, and once that it is back."""
        if state == (self._stats or {}).get('backend_state', 'up'):
            return
        details = {'address': self._sides.serving.array.address, 'why': why}
        if state == 'down':
            LOG.error('The array at %(address)s is reported as down: %(why)s',
                      details)
        else:
            LOG.info('The array at %(address)s is up again.', details)

    def _pool(self, usage: meter.Usage, state: str
              ) -> dict[str, typing.Any]:
        return {
            'pool_name': self._backend_name(),
            # From here it gets into "openstack volume service list".
            'backend_state': state,
            'location_info': location.info(
                self._sides.serving.array.system.known_id, self.protocol),
            'reserved_percentage': self.configuration.reserved_percentage,
            'max_over_subscription_ratio': self._ratio(usage),
            **_FEATURES, **self._replication(), **_capacity(usage),
            **_health(usage), **_load(usage.performance), **_counts(usage),
            volume_types.DEDUP.key: list(volume_types.DEDUP.values),
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function()}

    def _replication_status(self, state: str) -> dict[str, str]:
        """Whether the array has stopped replicating something. One call.

        What can go on is resumed. Cinder asks for what is left then.
        """
        if not self._sides.targets or state != 'up':
            return {}
        serving = self._sides.serving
        try:
            with serving.deadline():
                broken = serving.watch_replication()
        except rest.RestError as error:
            LOG.warning('The state of replication is not known: %s', error)
            return {}
        return {'replication_status': fields.ReplicationStatus.ERROR if broken
                else fields.ReplicationStatus.ENABLED}

    def _replication(self) -> dict[str, typing.Any]:
        targets = self._sides.targets
        return {'replication_enabled': bool(targets),
                'replication_type': ['async'] if targets else [],
                'replication_count': len(targets),
                'replication_targets': targets}

    def _ratio(self, usage: meter.Usage) -> float:
        """``max_over_subscription_ratio``, from the array where asked."""
        conf, capacity = self.configuration, usage.capacity
        used = capacity.total - capacity.free
        if (conf.auto_calc_max_oversubscription_ratio
                and used > 0 and capacity.provisioned_volumes):
            # The scheduler takes no ratio below one.
            return max(capacity.provisioned_volumes / used, 1.0)
        if conf.max_over_subscription_ratio != 'auto':
            return float(conf.max_over_subscription_ratio)
        if used < _LEAST_USE * capacity.total:
            return _FIRST_RATIO
        return usage.data_reduction or _FIRST_RATIO

    def _backend_name(self) -> str:
        return str(self.configuration.safe_get('volume_backend_name')
                   or self._default_name)


def _gib(kib: int | None) -> float:
    return round((kib or 0) / _KIB_PER_GIB, 2)


def _capacity(usage: meter.Usage) -> dict[str, typing.Any]:
    """CAP-1, CAP-2."""
    capacity = usage.capacity
    return {'total_capacity_gb': _gib(capacity.total),
            'free_capacity_gb': _gib(capacity.free),
            'provisioned_capacity_gb': _gib(capacity.provisioned_volumes),
            'data_reduction_ratio': round(usage.data_reduction or 1.0, 2),
            'total_reduction_ratio': round(usage.total_reduction or 1.0, 2)}


def _health(usage: meter.Usage) -> dict[str, typing.Any]:
    word = usage.state and usage.state.state
    return {'array_state': word or 'unknown',
            'capacity_state': usage.capacity.state or 'unknown',
            'degraded': usage.degraded}


def _load(found: rest.Performance | None) -> dict[str, typing.Any]:
    """STA-5. Figures that are missing are 0: None upsets the evaluator."""
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


def _counts(usage: meter.Usage) -> dict[str, typing.Any]:
    return {'total_volumes': usage.volumes,
            'total_snapshots': usage.snapshots,
            'total_views': usage.views,
            'total_hosts': usage.hosts}
