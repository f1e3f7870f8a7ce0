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

"""What a host is found by, and what the array knows of its initiators."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses

from cinder_k2 import naming


@dataclasses.dataclass(frozen=True)
class InitiatorKind:
    """One of the array's initiator resources and its identifying field.

    :ivar several: a host has several of them, and may connect with others
        than it was registered with
    """

    resource: str
    field: str
    several: bool


IQN = InitiatorKind('host_iqns', 'iqn', several=False)
PWWN = InitiatorKind('host_fc_ports', 'pwwn', several=True)


@dataclasses.dataclass(frozen=True)
class Sought:
    """A host to look for.

    :ivar initiators: all of its initiators
    :ivar names: names that it may have on the array, the driver's own first
    :ivar former: names that it may have been given under other settings
    """

    initiators: tuple[str, ...]
    names: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that this driver gives it."""
        return self.names[0]

    def may_have(self, name: str) -> bool:
        """Whether it may be the host that this driver has given this name."""
        return any(naming.may_be_same_host(name, own)
                   for own in (*self.names, *self.former))

    def has_any(self, initiators: Iterable[str]) -> bool:
        """Whether any of these is one of its own (INI-4, INI-5)."""
        own = {initiator.lower() for initiator in self.initiators}
        return any(initiator.lower() in own for initiator in initiators)


@dataclasses.dataclass(frozen=True)
class HostInitiators:
    """The array's records of the initiators of one host.

    IQNs and WWPNs are compared without regard to case (INI-4, INI-5).

    :ivar host: id of the host they belong to, None if they have none yet
    :ivar loose: initiators that the array has seen but that have no host
        (INI-1), with the ids of their records
    :ivar missing: initiators that the array does not know
    :ivar by_name: the host was found by its name; which initiators it has
        is not known
    :ivar searched: the array was searched for the initiators, so a host that
        is given them can be found by them
    """

    host: int | None
    loose: Mapping[str, int] = dataclasses.field(default_factory=dict)
    missing: tuple[str, ...] = ()
    by_name: bool = False
    searched: bool = False

    @property
    def complete(self) -> bool:
        """Whether the host exists with every one of the initiators."""
        return self.host is not None and not (self.loose or self.missing)
