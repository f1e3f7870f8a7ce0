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

from unittest import mock

from cinder_k2.array import host_identity
from cinder_k2.array import initiators
from cinder_k2.array import known_hosts
from cinder_k2.array import named_hosts
from cinder_k2.flows import volumes
from cinder_k2 import naming
from tests.unit.array import simulated_hosts
from tests.unit import simulated

IQN = simulated_hosts.IQN
OTHER = simulated_hosts.OTHER
PORTS = simulated_hosts.PORTS


class ByNameTest(simulated_hosts.UnsearchedTest):
    """Arrays that cannot search for initiators."""

    def setUp(self):
        super().setUp()
        self.known = known_hosts.KnownHosts(self.client)
        self.records = initiators.Initiators(
            self.client, host_identity.IQN, self.known)
        self.named = named_hosts.NamedHosts(self.client, self.records,
                                            self.known)

    def locate(self, sought):
        return self.named.locate(sought, sought.names)

    def test_host_of_the_name_with_other_initiators(self):
        """A host that has only other initiators does not count."""
        self.blind = self.by_host = True
        host = self.make('theirs', OTHER)
        sought = self.sought(IQN, names=['theirs'])
        self.assertEqual(self.found(None, (IQN,)), self.locate(sought))
        self.assertEqual(self.found(host, (IQN,)), self.locate(
            self.sought(IQN, OTHER.upper(), names=['theirs'])))

    def test_host_without_initiators_needs_our_name(self):
        self.blind = self.by_host = True
        self.make('theirs')
        sought = self.sought(names=['theirs'])
        self.assertEqual(self.found(None, (IQN,)), self.locate(sought))
        host = self.make(self.name)
        self.assertEqual(self.found(host, (IQN,)), self.locate(sought))

    def test_our_host_may_lack_initiators(self):
        """Until a volume is mapped, the last step, it counts as incomplete."""
        self.blind = True
        host = self.make(self.name)
        self.assertEqual(self.found(host, (IQN,), by_name=True),
                         self.locate(self.sought()))
        volume = volumes.create(self.array, name='v', group_name='g',
                                size=simulated.GIB, dedup=True)
        self.array.mappings.map(volume, host)
        for calls in (2, 1):
            self.sim.control.clear_journal()
            self.assertEqual(self.found(host, by_name=True),
                             self.locate(self.sought()))
            self.assertEqual(calls, len(self.calls()), self.calls())

    def test_host_that_was_found_is_known(self):
        """Later lookups of the host send no request."""
        self.blind = True
        host = self.make(self.name)
        self.locate(self.sought())
        self.sim.control.clear_journal()
        self.assertEqual(self.name, self.known.get(host).name)
        self.assertEqual([], self.calls())

    def test_our_host_was_given_its_initiators(self):
        self.blind = True
        host = self.make(self.name)
        with mock.patch.object(self.client.host_iqns, 'prove',
                               autospec=True):
            self.records.add(host, [IQN], self.fail)
        self.assertEqual(self.found(host, by_name=True),
                         self.locate(self.sought()))

    def test_unverified_host_is_logged_once(self):
        self.blind = True
        self.make('theirs')
        with mock.patch.object(named_hosts.LOG, 'warning',
                               autospec=True) as tell:
            for _ in range(2):
                self.locate(self.sought(names=['theirs']))
        self.assertEqual(1, tell.call_count)

    def test_only_the_given_names(self):
        self.blind = True
        self.make('theirs')
        sought = self.sought(names=['theirs'])
        self.assertIsNone(self.named.locate(sought, [self.name]).host)
        self.assertEqual([], list(self.named.candidates(sought, [])))

    def test_owners_beside_an_empty_host(self):
        """A killed service left the empty one; the other has initiators."""
        self.blind = self.by_host = True
        empty = self.make(self.name)
        host = self.make('theirs', IQN)
        self.make('former', OTHER)
        sought = host_identity.Sought((IQN,), (self.name, 'theirs'),
                                      ('former',))
        self.assertEqual({empty: {}, host: {IQN: mock.ANY}},
                         self.named.owners(sought))
        self.assertEqual(self.found(host), self.locate(sought))
        self.assertEqual(
            [(empty, {}), (host, {IQN: mock.ANY})],
            [(found.id, shown) for found, shown
             in self.named.candidates(sought, sought.names)])

    def test_first_owner_that_is_not_shown(self):
        """The array does not show whether the others are the host, too."""
        self.blind = True
        host = self.make('theirs')
        self.make('former')
        self.assertEqual({host: {}}, self.named.owners(host_identity.Sought(
            (IQN,), (self.name, 'theirs'), ('former',))))

    def test_similar_name_over_iscsi(self):
        """A host has only one IQN, so no call is made."""
        self.sim.control.clear_journal()
        self.assertEqual([], self.named.by_similar_name(self.sought()))
        self.assertEqual([], self.calls())


class SimilarNameTest(simulated_hosts.FCHostsTest):
    """Arrays that list the WWPNs of a host, but cannot search by WWPN."""

    def setUp(self):
        super().setUp()
        known = known_hosts.KnownHosts(self.client)
        self.records = initiators.Initiators(
            self.client, host_identity.PWWN, known)
        self.named = named_hosts.NamedHosts(self.client, self.records, known)

    def test_host_registered_with_more_wwpns(self):
        """Afterwards the host is found without a call."""
        host = self.registered(*PORTS[:2])
        self.registered(PORTS[2], name='node2')
        sought = self.sought(*PORTS[1:3])
        self.assertEqual([], self.named.seen_before(sought))
        found, = self.named.by_similar_name(sought)
        self.assertEqual((PORTS[1], host),
                         (self.records.name(found), found.host.id))
        self.assertEqual([host], self.named.seen_before(sought))
        self.assertEqual([], self.named.seen_before(self.sought(PORTS[0])))

    def test_number_of_requests(self):
        """Names that were read recently are not read again."""
        self.registered(*PORTS[:2])
        self.make('theirs', PORTS[2])
        for calls in (1 + 2 + 1, 1 + 1):
            self.sim.control.clear_journal()
            self.named.by_similar_name(self.sought(PORTS[0]))
            self.assertEqual(calls, len(self.calls()), self.calls())

    def test_host_deleted_meanwhile(self):
        self.registered(*PORTS[:2])
        with self.hosts_gone():
            self.assertEqual([], self.named.by_similar_name(
                self.sought(PORTS[0])))

    def test_mappings_of_host_groups(self):
        """They name a group or nothing, never the host."""
        same_id = self.registered(*PORTS[:2], mapped=False)
        with self.mapped_to_a_group(same_id):
            self.assertEqual([], self.named.by_similar_name(
                self.sought(PORTS[0])))

    def test_without_names(self):
        """As in a reconciliation: no call is made."""
        self.registered(*PORTS[:2])
        sought = host_identity.Sought((PORTS[0],))
        self.sim.control.clear_journal()
        self.assertEqual([], self.named.by_similar_name(sought))
        self.assertEqual([], self.named.seen_before(sought))
        self.assertEqual([], self.calls())

    def test_host_with_a_former_name(self):
        host = self.registered(*PORTS[:2])
        found, = self.named.by_similar_name(host_identity.Sought(
            (PORTS[0],), (naming.host('2000aa', [PORTS[0]]), 'aa0002'),
            (naming.host('node1', [PORTS[0]]),)))
        self.assertEqual(host, found.host.id)
