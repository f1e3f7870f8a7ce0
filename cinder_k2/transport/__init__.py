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

"""How hosts reach the array: iSCSI and Fibre Channel.

Each transport handles the initiators of a connector, the target ports of an
array, and the connection properties for os-brick. Nothing else.
"""

from collections.abc import Mapping
import typing

from cinder_k2.array import Array
from cinder_k2.array import hosts

Connector = Mapping[str, typing.Any]


class NoInitiators(ValueError):
    """The connector lacks what the transport needs.

    :ivar missing: the key of the connector
    """

    def __init__(self, missing: str) -> None:
        super().__init__(f'The connector has no "{missing}".')
        self.missing = missing


class Targets(typing.Protocol):
    """Target ports of an array, as seen by certain initiators."""

    def properties(self, lun: int) -> dict[str, typing.Any]:
        """Connection properties for os-brick, as Cinder returns them."""


class Transport(typing.Protocol):
    """The interface of transports."""

    def hosts(self, array: Array) -> hosts.Hosts:
        """The array's hosts as seen through this transport."""

    def check(self, array: Array) -> None:
        """Check that the array has target ports. One call.

        :raises ArrayNotSupported: it has no usable ones
        """

    def initiators(self, connector: Connector) -> list[str]:
        """Initiators of a connector, sorted.

        :raises NoInitiators: it has none
        """

    def host_names(self, connector: Connector, unique: bool) -> list[str]:
        """Names that this driver gives a host, that of a new one first.

        The others are names of hosts that were created with the other value of
        ``unique``.

        :param unique: whether host names are unique: no two hosts use the same
            one, and no host uses several
        :raises NoInitiators: the connector has no initiators
        """

    def targets(self, array: Array, initiators: list[str]) -> Targets:
        """The target ports for these initiators.

        :raises ArrayNotSupported: the array has no usable ones
        """
