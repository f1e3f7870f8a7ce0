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

"""The array as a whole: identity, target ports, capacity."""

from oslo_log import log as logging
from oslo_utils import versionutils

from cinder_k2.array import cache
from cinder_k2.array import meter
from cinder_k2 import exceptions
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

MIN_REST_VERSION = '2.2.0'


class System:
    """State, capacity and ports of the array."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client
        self._cache = cache.Cache()
        self._meter = meter.Meter(client)
        # As heard last; empty before anything was.
        self.known_id = ''

    def check(self) -> None:
        """See whether the array can serve at all. One call.

        :raises ArrayUnsuitable: its REST API is older than 2.2.0
        """
        state = self._client.system_state()
        self._remember(state)
        if not _identity(state):
            raise exceptions.ArrayUnsuitable(
                f'The array at {self._client.address} tells neither its '
                'system id nor its target name, so it cannot be told from '
                'another.')
        if not _is_at_least(state.rest_api_version, MIN_REST_VERSION):
            raise exceptions.ArrayUnsuitable(
                f'The array at {self._client.address} offers REST API '
                f'{state.rest_api_version}; the driver needs '
                f'{MIN_REST_VERSION} or later. Upgrade the array.')
        if state.state != 'ONLINE':
            LOG.warning('The array at %(address)s is in state %(state)s, '
                        'not ONLINE; changes may fail until it is.',
                        {'address': self._client.address,
                         'state': state.state})

    @property
    def id(self) -> str:
        """The array's own id; ids of objects have a meaning only with it."""
        return _identity(self._state())

    def target_iqn(self) -> str:
        """The iSCSI name that all portals share (NET-2).

        :raises ArrayUnsuitable: the array names none
        """
        iqn = self._state().iscsi_qualified_target_name
        if not iqn:
            raise exceptions.ArrayUnsuitable(
                f'The array at {self._client.address} has no iSCSI target '
                'name; set up iSCSI on it, or use the FC driver.')
        return iqn

    def iscsi_addresses(self) -> list[str]:
        """Addresses of the iSCSI portals; WAN addresses left out (NET-1)."""
        return [ip.ip_address for ip in self._cache.get(
            'net_ips', self._client.net_ips.search)
            if ip.wan_port is None and ip.nvme_port is None]

    def fc_wwpns(self) -> list[str]:
        """WWPNs of the FC target ports, as the array writes them."""
        return [port.pwwn for port in self.fc_ports()]

    def healthy_fc_wwpns(self) -> list[str]:
        """Those of the ports in order; of all if none says that it is."""
        ports = self.fc_ports()
        return [port.pwwn for port in ports
                if (port.status or '').lower() == 'ok'] or self.fc_wwpns()

    def fc_ports(self) -> list[rest.FcPort]:
        """The FC target ports, with what the array says of each."""
        return self._cache.get('fc_ports', self._client.fc_ports.search)

    def usage(self) -> meter.Usage:
        """How full and busy the array is. Two calls, now and then seven.

        :raises rest.RestError: the array tells no capacity
        :raises ArrayUnsuitable: it tells one that makes no sense
        """
        measured = self._meter.read()
        if measured.state is not None and _identity(measured.state):
            # So no other operation has to ask who the array is.
            self._remember(measured.state)
        return measured

    def _remember(self, state: rest.SystemState) -> None:
        self._cache.put('state', state)
        self.known_id = _identity(state)

    def _state(self) -> rest.SystemState:
        return self._cache.get('state', self._client.system_state)


def _identity(state: rest.SystemState) -> str:
    return state.system_id or state.iscsi_qualified_target_name or ''


def _is_at_least(version: str, minimum: str) -> bool:
    try:
        return (versionutils.convert_version_to_tuple(version)
                >= versionutils.convert_version_to_tuple(minimum))
    except ValueError:
        return False
