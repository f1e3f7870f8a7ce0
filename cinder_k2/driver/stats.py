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

import typing

from cinder.volume import volume_utils
from oslo_log import log as logging
from oslo_utils import units

from cinder_k2.array.system import Usage
from cinder_k2.driver import lookup
from cinder_k2 import exceptions
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi


class StatsMixin(lookup.LookupMixin):
    """Statistics: two calls to the array, however many volumes it has."""

    VENDOR = 'Kaminario'
    VERSION: str
    configuration: typing.Any
    _protocol: str
    # Without volume_backend_name the driver inside Cinder reports its class,
    # and Cinder's rows carry that name as their pool.
    _default_name: str
    _stats: dict[str, typing.Any]

    def _update_volume_stats(self) -> None:
        """Refresh ``self._stats``; a lost array is reported as down."""
        try:
            with self.deadline():
                usage = self._array.system.usage()
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.error('No statistics from the array at %(address)s: '
                      '%(error)s', {'address': self._array.address,
                                    'error': error})
            # The capacity that was known last stays, so that nothing but
            # the state keeps the scheduler away.
            self._stats = {**self._head('down'),
                           'pools': (self._stats or {}).get('pools', [])}
            return
        self._stats = {**self._head('up'), 'pools': [self._pool(usage)]}

    def _head(self, state: str) -> dict[str, typing.Any]:
        return {'volume_backend_name': self._backend_name(),
                'vendor_name': self.VENDOR,
                'driver_version': self.VERSION,
                'storage_protocol': self._protocol,
                'backend_state': state}

    def _pool(self, usage: Usage) -> dict[str, typing.Any]:
        conf = self.configuration
        capacity = usage.capacity
        return {'pool_name': self._backend_name(),
                'total_capacity_gb': capacity.total / _KIB_PER_GIB,
                'free_capacity_gb': capacity.free / _KIB_PER_GIB,
                'provisioned_capacity_gb':
                    (capacity.provisioned_volumes or 0) / _KIB_PER_GIB,
                'max_over_subscription_ratio': self._ratio(capacity),
                'reserved_percentage': conf.reserved_percentage,
                'thin_provisioning_support': True,
                'thick_provisioning_support': False,
                'sparse_copy_volume': True,
                'online_extend_support': True,
                'multiattach': True,
                'QoS_support': False,
                'replication_enabled': False,
                'total_volumes': usage.volumes,
                'kaminario:thin_prov_type': ['dedup', 'nodedup'],
                'filter_function':
                    self.get_filter_function(),  # type: ignore[attr-defined]
                'goodness_function':
                    self.get_goodness_function()}  # type: ignore[attr-defined]

    def _ratio(self, capacity: rest.Capacity) -> float | str:
        used = capacity.total - capacity.free
        if (self.configuration.auto_calc_max_oversubscription_ratio
                and used > 0 and capacity.provisioned_volumes):
            # The scheduler takes no ratio below one.
            return max(capacity.provisioned_volumes / used, 1.0)
        ratio: float | str = volume_utils.get_max_over_subscription_ratio(
            self.configuration.max_over_subscription_ratio,
            supports_auto=True)
        return ratio

    def _backend_name(self) -> str:
        return str(self.configuration.safe_get('volume_backend_name')
                   or self._default_name)
