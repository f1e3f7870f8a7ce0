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

"""Connects arrays of one process as peers."""

from k2_sim import array as array_module
from k2_sim.initial import factory
from k2_sim.protocol.request_context import Address


# How far apart the ids of two arrays in one process begin.
_APART = 1000


def connect(first: array_module.Array,
            second: array_module.Array | None = None, *,
            hosts: tuple[str, str] = ('', '')) -> None:
    """Make two arrays of this process peers; one alone is its own peer.

    hosts: the addresses by which the peers know them (mgmt_host), by
    default the array's name with .example.org. The peers' records belong to
    the equipment; arrays that are peers already are reconnected.
    """
    other = second or first
    network = first.links.transport.network or other.links.transport.network
    for array, host in ((first, hosts[0]), (other, hosts[-1])):
        network[host or f'{array.name}.example.org'] = array
    for array in dict.fromkeys((first, other)):
        array.links.transport.network = network
        array.links.address = next(
            host for host, found in network.items() if found is array)
    for array, peer in dict.fromkeys(((first, other), (other, first))):
        array.links.add_peer(peer.name, Address(
            peer.links.address, *peer.login))
    if other is not first:
        _part_ids(other)
    for array in dict.fromkeys((first, other)):
        array.links.sync()


def _part_ids(array: array_module.Array) -> None:
    """Make ids differ, so that mixed-up ids do not match by accident."""
    with array.lock, array.store.transaction():
        for name, number in factory.LAST_IDS.items():
            array.store.reserve(name, number + _APART)
