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

"""Zoning of hosts with their first volume, and after their last.

Both happen while the host is locked, so a zone is never removed while another
attachment needs it.
"""

from collections.abc import Set
import typing

from cinder.zonemanager import utils as fczm_utils

from cinder_k2.array import Array
from cinder_k2.transport import fc


class Zoning(typing.Protocol):
    """The zones between hosts and one array."""

    def connected(self, connection: dict[str, typing.Any]) -> None:
        """Add the zones of a host that was given a volume."""

    def now_idle(self, initiators: list[str]) -> None:
        """Remove the zones of a host that has no volumes any more."""

    def report(self, idle: Set[str]) -> dict[str, typing.Any] | bool:
        """The connection properties that a detach returns.

        :param idle: initiators of hosts that have no volumes any more
        """


class NoZoning:
    """For iSCSI, which has no zones."""

    def connected(self, connection: dict[str, typing.Any]) -> None:
        """Nothing to do."""

    def now_idle(self, initiators: list[str]) -> None:
        """Nothing to do."""

    def report(self, idle: Set[str]) -> dict[str, typing.Any] | bool:
        """Nothing to report."""
        return False


class FabricZoning:
    """Zones by Cinder's zone manager, if one is configured."""

    def __init__(self, array: Array, transport: fc.FCTransport) -> None:
        self._array = array
        self._transport = transport

    def connected(self, connection: dict[str, typing.Any]) -> None:
        """Add the zones of a host that was given a volume."""
        fczm_utils.add_fc_zone(connection)

    def now_idle(self, initiators: list[str]) -> None:
        """Remove the zones of a host that has no volumes any more."""
        fczm_utils.remove_fc_zone(self._unzoning(initiators))

    def report(self, idle: Set[str]) -> dict[str, typing.Any] | bool:
        """The zones that were removed."""
        if not idle:
            return {'driver_volume_type': 'fibre_channel', 'data': {}}
        return self._unzoning(sorted(idle))

    def _unzoning(self, initiators: list[str]) -> dict[str, typing.Any]:
        return self._transport.former_targets(
            self._array, initiators).unzoning()
