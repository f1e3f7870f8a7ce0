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

import dataclasses
import itertools

from oslo_log import log as logging
from oslo_utils import versionutils

from cinder_k2.array import array_usage
from cinder_k2.array import cache
from cinder_k2 import exceptions
from cinder_k2 import once
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

MIN_REST_VERSION = '2.2.0'

#: Messages already logged for arrays: address, field and value.
TOLD = once.Once()


class System:
    """State, capacity and ports of the array."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client
        self._cache = cache.Cache()
        self._meter = array_usage.UsageReader(client)
        # The array's id as ``check`` or ``usage`` last read it; empty before.
        self.known_id = ''
        self._named: rest.SystemState | None = None

    def check(self) -> None:
        """Check whether the array is usable at all. One call.

        :raises ArrayNotSupported: its REST API is older than 2.2.0, or it
            reports neither its system id nor its target name
        """
        state = self._remember(self._client.system_state())
        if not _identity(state):
            raise exceptions.ArrayNotSupported(
                f'The array at {self._client.address} reports neither its'
                ' system id nor its target name, so it cannot be identified.')
        self._check_version(state.rest_api_version)
        self._log_state(state)

    @property
    def id(self) -> str:
        """The array's own id; ids of objects are valid only with it."""
        return _identity(self._state())

    def target_iqn(self) -> str:
        """The iSCSI name that all portals share (NET-2).

        :raises ArrayNotSupported: the array reports none
        """
        iqn = self._state().iscsi_qualified_target_name
        if not iqn:
            raise exceptions.ArrayNotSupported(
                f'The array at {self._client.address} has no iSCSI target '
                'name; set up iSCSI on it, or use the FC driver.')
        return iqn

    def iscsi_addresses(self) -> list[str]:
        """Addresses of the iSCSI portals; WAN addresses left out (NET-1)."""
        return [ip.ip_address for ip in self._cache.get(
            'net_ips', self._client.net_ips.search)
            if ip.ip_address and ip.wan_port is None
            and ip.nvme_port is None]

    def fc_wwpns(self) -> list[str]:
        """WWPNs of the FC target ports, in the array's format."""
        return [port.pwwn for port in self.fc_ports()]

    def healthy_fc_wwpns(self) -> list[str]:
        """WWPNs of the healthy FC ports, in order; of all ports if none is.

        A port with a status other than "ok" is logged once.
        """
        ports = self.fc_ports()
        for port in ports:
            if not port.is_healthy:
                self._log_port(port)
        return [port.pwwn for port in ports
                if port.is_healthy] or [port.pwwn for port in ports]

    def fc_ports(self) -> list[rest.FcPort]:
        """The FC target ports, with their reported states."""
        return [port for port in self._cache.get(
            'fc_ports', self._client.fc_ports.search) if port.pwwn]

    def usage(self) -> array_usage.ArrayUsage:
        """Capacity and load of the array. Two calls, occasionally seven.

        :raises rest.RestError: the array reports no capacity
        :raises ArrayNotSupported: it reports an invalid one
        """
        measured = self._meter.read()
        if measured.state is not None:
            self._log_state(measured.state)
            if _identity(measured.state):
                # So that no other operation has to ask for the array's id.
                self._remember(measured.state)
        return measured

    def _check_version(self, version: str | None) -> None:
        """Refuse an old REST API; an unreadable version is accepted.

        :raises ArrayNotSupported: it reads as older than 2.2.0
        """
        numbers = _numbers(version)
        if numbers is None:
            if TOLD.is_first((self._client.address, 'version', version)):
                LOG.warning(
                    'The array at %(address)s reports its REST API version as '
                    '%(version)s, which cannot be read; the driver needs '
                    '%(minimum)s or later. The array is used nevertheless.',
                    {'address': self._client.address,
                     'version': f'{version!r:.60}',
                     'minimum': MIN_REST_VERSION})
        elif numbers < (_numbers(MIN_REST_VERSION) or ()):
            raise exceptions.ArrayNotSupported(
                f'The array at {self._client.address} offers REST API '
                f'{version}; the driver needs {MIN_REST_VERSION} or later. '
                'Upgrade the array.')

    def _log_state(self, state: rest.SystemState) -> None:
        """Log an unknown state once; none is known to be bad."""
        if not array_usage.is_online(state) and TOLD.is_first(
                (self._client.address, 'state', state.state)):
            LOG.warning(
                'The array at %(address)s is in state %(state)s, not ONLINE. '
                'What that means is not known, so the array is used '
                'nevertheless. If it refuses changes, look at its state and '
                'events.',
                {'address': self._client.address,
                 'state': f'{state.state:.60}'})

    def _log_port(self, port: rest.FcPort) -> None:
        """Log an undocumented status, once for each port."""
        if TOLD.is_first((self._client.address, port.pwwn, port.status)):
            LOG.warning(
                'FC port %(port)s of the array at %(address)s has status '
                '%(status)s, not ok. What that means is not known; the port '
                'is offered to hosts only while no port is ok.',
                {'port': port.pwwn, 'address': self._client.address,
                 'status': f'{port.status:.60}'})

    def _remember(self, state: rest.SystemState) -> rest.SystemState:
        state = self._completed(state)
        self._cache.put('state', state)
        self.known_id = _identity(state)
        self._named = state
        return state

    def _completed(self, state: rest.SystemState) -> rest.SystemState:
        """Add the previous system id if the same array now omits it.

        The id is stored with objects, and must not change because of one odd
        reply.
        """
        known = self._named
        if (known is None or state.system_id
                or not state.iscsi_qualified_target_name
                or state.iscsi_qualified_target_name
                != known.iscsi_qualified_target_name):
            return state
        return dataclasses.replace(state, system_id=known.system_id)

    def _state(self) -> rest.SystemState:
        return self._cache.get(
            'state', lambda: self._completed(self._client.system_state()))


def _identity(state: rest.SystemState) -> str:
    return state.system_id or state.iscsi_qualified_target_name or ''


def _numbers(version: str | None) -> tuple[int, ...] | None:
    """2.2 as (2, 2, 0) for comparisons; None if it cannot be parsed."""
    try:
        found = versionutils.convert_version_to_tuple(version or '')
    except ValueError:
        return None
    return tuple(itertools.islice(
        itertools.chain(found, itertools.repeat(0)), max(len(found), 3)))
