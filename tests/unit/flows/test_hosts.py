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

import ddt

from cinder_k2 import exceptions
from cinder_k2.flows import hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
PORTS = ['21:00:00:24:ff:00:00:01', '21:00:00:24:ff:00:00:02']


@ddt.ddt
class HostsTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        self.before = self.leftovers()

    def attach(self, registry, initiators, backing=None):
        return hosts.attach(
            self.array, registry, backing or self.backing,
            found=registry.locate(initiators),
            name=naming.host('node1', initiators), look_first=False)

    def detach(self, registry, initiators):
        host = registry.locate(initiators).host
        self.assertFalse(self.array.access.revoke(self.backing, host).busy)
        hosts.remove(self.array, registry, host)
        self.assertEqual(self.before, self.leftovers())

    def test_new_iscsi_host(self):
        self.assertEqual(1, self.attach(self.array.iscsi_hosts, [IQN]))
        self.assertEqual([IQN], self.leftovers()['host_iqns'])
        self.detach(self.array.iscsi_hosts, [IQN])

    def test_new_fc_host_adopts_ports_that_the_fabric_showed(self):
        """INI-1, INI-2."""
        self.sim.control.log_in('host_fc_ports', PORTS[0])
        self.attach(self.array.fc_hosts, PORTS)
        self.assertEqual(PORTS, self.leftovers()['host_fc_ports'])
        self.detach(self.array.fc_hosts, PORTS)

    def test_known_host_gets_its_second_port(self):
        self.attach(self.array.fc_hosts, PORTS[:1])
        self.assertEqual(1, self.attach(self.array.fc_hosts, PORTS))
        self.assertEqual(1, len(self.leftovers()['hosts']))
        self.detach(self.array.fc_hosts, PORTS)

    def test_iqns_are_compared_without_case(self):
        """INI-5."""
        host = self.client.hosts.create(name='admins', type='Linux')
        self.client.host_iqns.create(iqn=IQN.lower(), host=host.ref)
        found = self.array.iscsi_hosts.locate([IQN.upper()])
        self.assertEqual(host.id, found.host)
        self.assertTrue(found.complete)

    def test_initiators_of_two_hosts_are_refused(self):
        for number, port in enumerate(PORTS):
            host = self.client.hosts.create(name=f'h{number}', type='Linux')
            self.client.host_fc_ports.create(pwwn=port, host=host.ref)
        error = self.assertRaises(exceptions.HostConflict,
                                  self.array.fc_hosts.locate, PORTS)
        for text in (*PORTS, 'h0', 'h1'):
            self.assertIn(text, str(error))

    # Each write fails once, whether it was carried out or not.
    @ddt.data(*[(path, commit, status)
                for path in ('hosts', 'host_fc_ports', 'mappings')
                for commit, status in (('before', 403), ('after', 500))])
    @ddt.unpack
    def test_whatever_fails_nothing_is_left(self, path, commit, status):
        self.sim.control.log_in('host_fc_ports', PORTS[0])
        loose = self.leftovers()
        fault = self.sim.control.add_fault(
            kind='status', status=status, commit=commit, method='write',
            path=f'{path}*', times=1)
        try:
            self.attach(self.array.fc_hosts, PORTS)
        except rest.RestError:
            self.assertEqual(1, fault.struck)
            self.assertEqual(loose, self.leftovers())
        else:
            self.detach(self.array.fc_hosts, PORTS)

    def test_a_host_that_stays_keeps_its_initiators(self):
        """HST-3: the array refuses to delete a host mapped meanwhile."""
        self.attach(self.array.iscsi_hosts, [IQN])
        host = self.array.iscsi_hosts.locate([IQN]).host
        self.assertRaises(rest.Refused, hosts.remove, self.array,
                          self.array.iscsi_hosts, host)
        self.assertEqual(
            host, self.array.iscsi_hosts.locate([IQN]).host)
        self.detach(self.array.iscsi_hosts, [IQN])

    def test_members_of_a_host_group_are_mapped_through_it(self):
        """MAP-6."""
        group = self.client.host_groups.create(name='cluster')
        host = self.client.hosts.create(name='admins', type='Linux',
                                        host_group=group.ref)
        self.client.host_iqns.create(iqn=IQN, host=host.ref)
        lun = self.attach(self.array.iscsi_hosts, [IQN])
        self.assertEqual(lun, self.attach(self.array.iscsi_hosts, [IQN]))
        mapping = self.client.mappings.find(host=group.ref,
                                            volume=self.backing.mappable)
        self.assertEqual(lun, mapping.lun)
        self.assertFalse(
            self.array.access.revoke(self.backing, host.id).found)
        self.array.access.revoke_group(
            self.backing, self.array.access.group_of(host.id))
        self.assertEqual(0, self.client.mappings.count())
