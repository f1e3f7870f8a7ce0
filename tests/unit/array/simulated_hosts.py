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

"""Test cases with hosts on a simulated array, to test how they are found."""

from unittest import mock

from cinder_k2.array import host_identity
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
OTHER = 'iqn.1994-05.com.example:node2'
PORTS = [f'21:00:00:24:ff:00:00:0{digit}' for digit in 'abcd']


class IscsiHostsTest(simulated.SimulatedTest):
    """Hosts with IQNs."""

    def setUp(self):
        super().setUp()
        self.hosts = self.array.iscsi_hosts
        self.name = naming.host('node1', [IQN])

    def make(self, name, *initiators):
        host = self.client.hosts.create(name=name, type='Linux').id
        for initiator in initiators:
            self.client.host_iqns.create(iqn=initiator,
                                         host=self.client.hosts.ref(host))
        return host

    def sought(self, *initiators, names=()):
        return host_identity.Sought(initiators or (IQN,), (self.name, *names))

    def found(self, host, missing=(), by_name=False):
        return host_identity.HostInitiators(host, missing=missing,
                                            by_name=by_name)


class UnsearchedTest(IscsiHostsTest):
    """Arrays that cannot search for initiators.

    :ivar blind: whether the array does not list all initiators, either
    :ivar by_host: whether it lists the initiators of a given host
    """

    def setUp(self):
        super().setUp()
        search = self.client.host_iqns.search

        # All initiators can be listed, unless a test says otherwise.
        def listed(*conditions):
            if self.by_host and conditions and conditions[0].field == 'host':
                return search(*conditions)
            if conditions or self.blind:
                raise rest.NotOffered('no such search')
            return search()
        self.blind = self.by_host = False
        patch = mock.patch.object(self.client.host_iqns, 'search',
                                  autospec=True, side_effect=listed)
        patch.start()
        self.addCleanup(patch.stop)


class FCHostsTest(simulated.SimulatedTest):
    """Hosts with WWPNs, which the array shows but does not search for."""

    profile = 'known'

    def setUp(self):
        super().setUp()
        self.hosts = self.array.fc_hosts
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        # Find out what the array does not offer.
        for registry in (self.hosts, self.array.iscsi_hosts):
            registry.locate(host_identity.Sought((PORTS[0],)))

    def make(self, name, *ports, mapped=True):
        host = self.client.hosts.create(name=name, type='Linux')
        for port in ports:
            self.client.host_fc_ports.create(pwwn=port, host=host.ref)
        if mapped:
            self.array.mappings.map(self.backing, host.id)
        return host.id

    def registered(self, *ports, name='node1', **more):
        """Create a host as attaching these WWPNs does; return its id."""
        return self.make(naming.host(name, ports), *ports, **more)

    def hosts_gone(self):
        """Answer each read of a host by its id with 404."""
        return mock.patch.object(
            self.client.hosts, 'get', autospec=True,
            side_effect=rest.NotFound('gone', mock.Mock(), status=404))

    def mapped_to_a_group(self, id):
        """Show a mapping to the host group of this id, and one to nothing."""
        return mock.patch.object(
            self.client.mappings, 'some', autospec=True,
            return_value=([rest.Mapping(1, host, self.backing.mappable)
                           for host in (rest.Ref('host_groups', id), None)],
                          True))

    def sought(self, *ports):
        return host_identity.Sought(
            ports, (naming.host('node1', ports), 'node1'))
