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

"""The equipment of an array: its name, size, ports and addresses."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import hashlib
import ipaddress

# Addresses that no network has (RFC 5737).
PORTALS = ('192.0.2.11', '192.0.2.12', '192.0.2.13', '192.0.2.14')
# Addresses that every Linux machine has, for initiators on the same one.
LOCAL_PORTALS = ('127.0.0.11', '127.0.0.12', '127.0.0.13', '127.0.0.14')
WAN_ADDRESSES = ('198.51.100.11', '198.51.100.12')
CAPACITY_KIB = 100 * 2 ** 30
NODES = 2
_PREFIXES = {4: 24, 6: 64}


@dataclasses.dataclass(frozen=True)
class Vlan:
    """A VLAN on an interface; addresses as in Interface."""

    tag: int
    addresses: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Interface:
    """A data port of a node, or two of them as a link aggregate (lag).

    addresses: IP addresses, each with or without a prefix length; net_of()
    has the default. node counts from 1, mtu is in bytes.
    """

    node: int
    addresses: tuple[str, ...] = ()
    lag: bool = False
    mtu: int = 1500
    vlans: tuple[Vlan, ...] = ()

    def all_addresses(self) -> Iterator[str]:
        """The addresses of the interface and of its VLANs."""
        yield from self.addresses
        for vlan in self.vlans:
            yield from vlan.addresses


@dataclasses.dataclass(frozen=True)
class Equipment:
    """The equipment of an array; capacity in KiB.

    iscsi: interfaces of the portals; wan: those of replication; fc_ports:
    the number of Fibre Channel ports per node, or the names (WWPN) of all,
    which alternate between the nodes.
    """

    name: str = 'sim-k2-a'
    iscsi: tuple[Interface, ...] = ()
    wan: tuple[Interface, ...] = ()
    fc_ports: int | tuple[str, ...] = 2
    capacity: int = CAPACITY_KIB

    @property
    def system_id(self) -> str:
        """Four hex digits derived from the name."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:4]

    def fc_ports_of(self, node: int) -> Sequence[str]:
        """The names of a node's Fibre Channel ports; node counts from 1."""
        if not isinstance(self.fc_ports, int):
            return self.fc_ports[node - 1::NODES]
        first, last = self.system_id[:2], self.system_id[2:]
        return [f'50:02:4f:{first}:{last}:{node:02x}:00:{port:02x}'
                for port in range(self.fc_ports)]


def alternate(addresses: Sequence[str], before: int = 0
              ) -> tuple[Interface, ...]:
    """One port for each address, alternating between the nodes.

    before: the number of ports that were placed earlier.
    """
    return tuple(Interface(1 + number % NODES, (address,)) for number, address
                 in enumerate(addresses, before))


def following(*groups: Sequence[Interface]) -> list[tuple[Interface, ...]]:
    """The same ports with unused addresses.

    All addresses are increased by the same number.
    """
    taken = {ipaddress.ip_interface(address).ip for ports in groups
             for port in ports for address in port.all_addresses()}
    steps = 1
    while any(address + steps in taken for address in taken):
        steps += 1
    return [tuple(_moved(port, steps) for port in ports) for ports in groups]


def _moved(port: Interface, steps: int) -> Interface:
    return dataclasses.replace(
        port, addresses=_further(port.addresses, steps), vlans=tuple(
            dataclasses.replace(
                vlan, addresses=_further(vlan.addresses, steps))
            for vlan in port.vlans))


def _further(addresses: Sequence[str], steps: int) -> tuple[str, ...]:
    """Addresses increased by a number, with their prefix lengths."""
    parts = [address.partition('/') for address in addresses]
    return tuple(f'{ipaddress.ip_address(place) + steps}{slash}{length}'
                 for place, slash, length in parts)


def simple(name: str, portals: Sequence[str], wan_addresses: Sequence[str],
           capacity: int) -> Equipment:
    """An array with one port per address, alternating between the nodes."""
    return Equipment(
        name, alternate(portals), alternate(wan_addresses, len(portals)),
        capacity=capacity)


def repeated(interfaces: Iterable[Interface]) -> str:
    """The first repeated address, or ''."""
    seen: set[str] = set()
    for interface in interfaces:
        for text in interface.all_addresses():
            address, _ = net_of(text)
            if address in seen:
                return address
            seen.add(address)
    return ''


def net_of(address: str) -> tuple[str, str]:
    """IP address and network mask, as system/net_ips shows them.

    The default prefix length is 24 for IPv4 and 64 for IPv6. Raises
    ValueError for an invalid address.
    """
    if '/' not in address:
        version = ipaddress.ip_address(address).version
        address = f'{address}/{_PREFIXES[version]}'
    found = ipaddress.ip_interface(address)
    return str(found.ip), str(found.netmask)
