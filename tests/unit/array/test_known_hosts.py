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

from cinder_k2.array import known_hosts
from cinder_k2 import rest
from tests.unit import simulated


class KnownHostsTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.known = known_hosts.KnownHosts(self.client)
        self.host = self.client.hosts.create(name='a', type='Linux').id
        self.sim.control.clear_journal()

    def test_name_is_read_once(self):
        for _ in range(2):
            self.assertEqual('a', self.known.get(self.host).name)
        self.assertEqual([f'GET hosts/{self.host}'], self.calls())

    def test_read_shows_the_present_name(self):
        """The name that was read replaces the cached one."""
        self.known.get(self.host)
        self.client.hosts.update(self.host, name='b')
        self.assertEqual('a', self.known.get(self.host).name)
        self.assertEqual('b', self.known.read(self.host).name)
        self.sim.control.clear_journal()
        self.assertEqual('b', self.known.get(self.host).name)
        self.assertEqual([], self.calls())

    def test_host_that_a_call_has_shown(self):
        self.known.put(rest.Host(self.host, 'shown'))
        self.assertEqual('shown', self.known.get(self.host).name)
        self.assertEqual([], self.calls())

    def test_deleted_host(self):
        self.known.get(self.host)
        self.client.hosts.delete(self.host)
        self.known.drop(self.host)
        for read in (self.known.get, self.known.read):
            self.assertRaises(rest.NotFound, read, self.host)

    def test_registered_by_id_and_name(self):
        """The id may become another host's."""
        host = rest.Host(self.host, 'a')
        self.assertFalse(self.known.is_registered(host))
        self.known.put_registered(host)
        self.assertTrue(self.known.is_registered(host))
        self.assertFalse(self.known.is_registered(rest.Host(host.id, 'b')))
        self.assertFalse(self.known.is_registered(rest.Host(999, 'a')))

    def test_similar(self):
        self.assertIsNone(self.known.similar('a'))
        self.known.put_similar('a', self.host)
        self.assertEqual(self.host, self.known.similar('a'))
        self.assertIsNone(self.known.similar('b'))

    def test_former_name(self):
        self.known.put_former_name(('iqn.1', 'iqn.2'))
        self.assertTrue(self.known.has_former_name(('iqn.1', 'iqn.2')))
        self.assertFalse(self.known.has_former_name(('iqn.1',)))
