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

from cinder_k2.array import hosts
from cinder_k2 import exceptions
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit import simulated

IQN = 'iqn.1994-05.com.example:node1'
OTHER = 'iqn.1994-05.com.example:node2'
PORTS = [f'21:00:00:24:ff:00:00:0{digit}' for digit in 'abcd']


class HostsTest(simulated.SimulatedTest):

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
        return hosts.Sought(initiators or (IQN,), (self.name, *names))

    def found(self, host, missing=(), by_name=False):
        return hosts.HostInitiators(host, missing=missing, by_name=by_name)


class ByNameTest(HostsTest):
    """Arrays that cannot search for initiators."""

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

    def test_listed_initiators_are_compared(self):
        host = self.make('theirs', IQN.upper())
        self.make(self.name, OTHER)
        self.assertEqual(host, self.hosts.locate(self.sought()).host)
        self.assertEqual({host: {IQN.upper(): mock.ANY}},
                         self.hosts.owners(self.sought()))

    def test_initiators_of_hosts(self):
        hosts_ = [self.make('a', IQN), self.make('b', OTHER),
                  self.make('c')]
        self.assertEqual({hosts_[0]: {IQN: mock.ANY}},
                         self.hosts.initiators_of(hosts_[::2]))
        self.assertEqual({}, self.hosts.initiators(hosts_[2]))
        self.blind = True
        self.assertEqual({}, self.hosts.initiators_of(hosts_))

    def test_no_host_of_the_name(self):
        self.blind = True
        self.make('theirs', IQN)
        self.assertEqual(self.found(None, (IQN,)),
                         self.hosts.locate(self.sought()))
        self.assertIsNone(self.hosts.owners(self.sought()))

    def test_verify_by_name(self):
        """The id is the host's only if the name shows that."""
        self.blind = True
        host = self.make('theirs', IQN)
        self.assertRaises(rest.OtherObject, self.hosts.verify, host,
                          self.sought())
        self.hosts.verify(self.make(self.name), self.sought())

    def test_no_host_has_the_initiators(self):
        """This is certain, since the array lists them."""
        self.assertEqual({}, self.hosts.owners(self.sought()))

    def test_foreign_host_found_by_name(self):
        """Its administrator has chosen its initiators."""
        self.blind = True
        host = self.make('theirs')
        self.assertEqual(
            self.found(host, by_name=True),
            self.hosts.locate(self.sought(names=['theirs'])))
        self.assertEqual({host: {}}, self.hosts.owners(
            self.sought(names=['theirs'])))

    def test_host_of_a_former_name(self):
        """Only looked for to detach, or if the initiators are refused."""
        self.blind = True
        host = self.make(naming.host('former', [IQN]))
        sought = hosts.Sought((IQN,), (self.name, 'theirs'),
                              (naming.host('former', [IQN]),))
        self.assertEqual(self.found(None, (IQN,)), self.hosts.locate(sought))
        self.assertEqual({host: {}}, self.hosts.owners(sought))
        self.assertEqual(host, self.hosts.locate_taken(sought).host)
        # It is looked for at once from now on.
        self.assertEqual(host, self.hosts.locate(sought).host)

    def test_candidates_beside_an_empty_host(self):
        """The array does not show that it has no initiators."""
        self.blind = True
        both = {self.make(self.name), self.make('theirs', IQN)}
        self.assertEqual(both, self.hosts.candidates(
            self.sought(names=['theirs'])))

    def test_candidates_where_none_has_the_name(self):
        self.blind = True
        self.assertIsNone(self.hosts.candidates(self.sought()))

    def test_candidates_that_the_array_shows(self):
        self.assertEqual(set(), self.hosts.candidates(self.sought()))
        host = self.make('theirs', IQN)
        self.make(self.name)
        self.assertEqual({host}, self.hosts.candidates(self.sought()))

    def test_host_of_the_name_with_other_initiators(self):
        """A host that has only other initiators does not count."""
        self.blind = self.by_host = True
        host = self.make('theirs', OTHER)
        sought = self.sought(IQN, names=['theirs'])
        self.assertEqual(self.found(None, (IQN,)), self.hosts.locate(sought))
        self.assertEqual(self.found(host, (IQN,)), self.hosts.locate(
            self.sought(IQN, OTHER.upper(), names=['theirs'])))

    def test_host_without_initiators_needs_our_name(self):
        self.blind = self.by_host = True
        self.make('theirs')
        sought = self.sought(names=['theirs'])
        self.assertEqual(self.found(None, (IQN,)), self.hosts.locate(sought))
        host = self.make(self.name)
        self.assertEqual(self.found(host, (IQN,)), self.hosts.locate(sought))

    def test_our_host_may_lack_initiators(self):
        """Until a volume is mapped, which is the last step."""
        self.blind = True
        host = self.make(self.name)
        self.assertEqual(self.found(host, (IQN,), by_name=True),
                         self.hosts.locate(self.sought()))
        volume = volumes.create(self.array, name='v', group_name='g',
                                size=simulated.GIB, dedup=True)
        self.array.mappings.map(volume, host)
        for calls in (2, 1):
            self.sim.control.clear_journal()
            self.assertEqual(self.found(host, by_name=True),
                             self.hosts.locate(self.sought()))
            self.assertEqual(calls, len(self.calls()), self.calls())

    def test_our_host_just_created(self):
        self.blind = True
        host = self.hosts.create(self.name)
        with mock.patch.object(self.client.host_iqns, 'prove',
                               autospec=True):
            self.hosts.add_initiators(host, [IQN], self.fail)
        self.assertEqual(self.found(host, by_name=True),
                         self.hosts.locate(self.sought()))

    def test_unverified_host_is_logged_once(self):
        self.blind = True
        self.make('theirs')
        with mock.patch.object(hosts.LOG, 'warning', autospec=True) as tell:
            for _ in range(2):
                self.hosts.locate(self.sought(names=['theirs']))
        self.assertEqual(1, tell.call_count)

    def test_clear(self):
        """The host is deleted, as its initiators may be another host's."""
        host = self.make(self.name)
        self.assertEqual(
            self.found(None, (IQN,)),
            self.hosts.clear(self.found(host, (IQN,), by_name=True)))
        self.assertIsNone(self.client.hosts.find(name=self.name))

    def test_clear_does_not_delete(self):
        """One found by initiators, or whose deletion is refused."""
        for by_name, initiators in ((False, []), (True, [OTHER])):
            host = self.make(f'host{len(initiators)}', *initiators)
            found = self.found(host, (IQN,), by_name=by_name)
            self.assertEqual(found, self.hosts.clear(found))
            self.assertEqual(host, self.client.hosts.get(host).id)


class SimilarNameTest(simulated.SimulatedTest):
    """Arrays that list the WWPNs of a host, but cannot search by WWPN."""

    profile = 'known'

    def setUp(self):
        super().setUp()
        self.hosts = self.array.fc_hosts
        self.backing = volumes.create(self.array, name='v', group_name='g',
                                      size=simulated.GIB, dedup=True)
        # Find out what the array does not offer.
        for registry in (self.hosts, self.array.iscsi_hosts):
            registry.locate(hosts.Sought((PORTS[0],)))

    def make(self, name, *ports, mapped=True):
        host = self.client.hosts.create(name=name, type='Linux')
        for port in ports:
            self.client.host_fc_ports.create(pwwn=port, host=host.ref)
        if mapped:
            self.array.mappings.map(self.backing, host.id)
        return host.id

    def registered(self, *ports, name='node1', **more):
        """A host that was registered when it connected with these WWPNs."""
        return self.make(naming.host(name, ports), *ports, **more)

    def sought(self, *ports):
        return hosts.Sought(ports, (naming.host('node1', ports), 'node1'))

    def assert_not_found(self, *ports):
        sought = self.sought(*ports)
        for locate in (self.hosts.locate, self.hosts.locate_taken):
            self.assertEqual(hosts.HostInitiators(None, missing=ports),
                             locate(sought))
        self.assertIsNone(self.hosts.owners(sought))

    def test_host_registered_with_more_wwpns(self):
        """It is not looked for before its WWPNs are known to be taken."""
        host = self.registered(*PORTS[:2])
        sought = self.sought(PORTS[0].upper())
        self.assertIsNone(self.hosts.locate(sought).host)
        self.assertEqual(hosts.HostInitiators(host),
                         self.hosts.locate_taken(sought))
        self.hosts.verify(host, sought)

    def test_found_lately(self):
        host = self.registered(*PORTS[:2])
        sought = self.sought(PORTS[0])
        self.hosts.locate_taken(sought)
        self.assertEqual(hosts.HostInitiators(host),
                         self.hosts.locate(sought))
        self.assertEqual({host: {PORTS[0]: mock.ANY}},
                         self.hosts.owners(sought))
        self.assertIsNone(self.hosts.locate(self.sought(PORTS[1])).host)

    def test_missing_wwpns(self):
        host = self.registered(*PORTS[:2])
        self.assertEqual(hosts.HostInitiators(host, missing=(PORTS[2],)),
                         self.hosts.locate_taken(self.sought(*PORTS[1:3])))

    def test_number_of_requests(self):
        """Names that were read recently are not read again."""
        self.registered(*PORTS[:2])
        self.make('theirs', PORTS[2])
        for locate, calls in ((self.hosts.locate, 2),
                              (self.hosts.locate_taken, 1 + 2 + 1),
                              (self.hosts.locate_taken, 1 + 1),
                              (self.hosts.locate, 2 + 1)):
            self.sim.control.clear_journal()
            locate(self.sought(PORTS[0]))
            self.assertEqual(calls, len(self.calls()), self.calls())
            self.assertEqual([], [each for each in self.sim.control.journal()
                                  if each.status >= 400])

    def test_hosts_that_do_not_match(self):
        """Of another name, with other WWPNs, or without a volume."""
        self.registered(PORTS[0], name='node2')
        self.make('cinder-node1', PORTS[1])
        self.registered(PORTS[2])
        self.registered(PORTS[3], mapped=False)
        self.registered()
        self.assert_not_found(PORTS[0], PORTS[1], PORTS[3])

    def test_host_with_a_former_name(self):
        host = self.registered(*PORTS[:2])
        self.assertEqual(host, self.hosts.locate_taken(hosts.Sought(
            (PORTS[0],), (naming.host('2000aa', [PORTS[0]]), 'aa0002'),
            (naming.host('node1', [PORTS[0]]),))).host)

    def test_hosts_known_to_the_caller(self):
        host = self.registered(PORTS[0], name='node2', mapped=False)
        self.assertEqual({host: {PORTS[0]: mock.ANY}}, self.hosts.owners(
            self.sought(*PORTS[:2]), [host]))

    def test_empty_host_is_no_candidate_alone(self):
        """A host of a similar name may have the initiators."""
        sought = self.sought(*PORTS[:2])
        self.make(sought.name, mapped=False)
        self.assertIsNone(self.hosts.candidates(sought))
        host = self.registered(PORTS[1], PORTS[2])
        self.hosts.locate_taken(sought)
        self.assertEqual({host}, self.hosts.candidates(sought))

    def test_two_hosts_with_its_initiators(self):
        both = {self.registered(port): {port: mock.ANY} for port in PORTS[:2]}
        sought = self.sought(*PORTS[:2])
        self.assertRaises(exceptions.HostConflict, self.hosts.locate_taken,
                          sought)
        self.assertEqual(both, self.hosts.owners(sought, both))

    def test_host_deleted_meanwhile(self):
        self.registered(*PORTS[:2])
        with mock.patch.object(
                self.client.hosts, 'get', autospec=True,
                side_effect=rest.NotFound('gone', mock.Mock(), status=404)):
            self.assert_not_found(PORTS[0])

    def test_mappings_of_host_groups(self):
        """They name a group or nothing, never the host."""
        same_id = self.registered(*PORTS[:2], mapped=False)
        with mock.patch.object(
                self.client.mappings, 'some', autospec=True,
                return_value=([rest.Mapping(1, host, self.backing.mappable)
                               for host in (rest.Ref('host_groups', same_id),
                                            None)], True)):
            self.assert_not_found(PORTS[0])

    def test_without_names(self):
        """As in a reconciliation: no call is made."""
        self.registered(*PORTS[:2])
        sought = hosts.Sought((PORTS[0],))
        self.sim.control.clear_journal()
        self.assertIsNone(self.hosts.owners(sought))
        self.assertEqual([], self.calls())
        self.assertFalse(sought.may_have(naming.host('node1', PORTS)))

    def test_over_iscsi(self):
        """A host has only one IQN; another IQN means another host."""
        host = self.client.hosts.create(name=naming.host('node1', [OTHER]),
                                        type='Linux')
        self.client.host_iqns.create(iqn=OTHER, host=host.ref)
        self.array.mappings.map(self.backing, host.id)
        self.sim.control.clear_journal()
        sought = hosts.Sought((IQN,), (naming.host('node1', [IQN]), 'node1'))
        for locate in (self.array.iscsi_hosts.locate,
                       self.array.iscsi_hosts.locate_taken):
            self.assertIsNone(locate(sought).host)
        self.assertNotIn('GET mappings', self.calls())


class ChangeTest(HostsTest):

    def test_create_takes_over_host_of_that_name(self):
        """HST-1: a killed service may have left it."""
        host = self.hosts.create(self.name)
        self.assertEqual(host, self.hosts.create(self.name))
        self.assertEqual('Linux', self.client.hosts.get(host).type)

    def test_our_host(self):
        host = self.hosts.ours(self.make(self.name))
        self.assertEqual(self.name, host.name)
        self.assertIsNone(self.hosts.ours(self.make('theirs')))

    def test_name(self):
        host = self.make('theirs')
        self.assertEqual('theirs', self.hosts.named(host))
        self.client.hosts.delete(host)
        self.assertEqual('', self.hosts.named(host))

    def test_known_in_another_spelling(self):
        """INI-5: once found, it is searched for in that spelling."""
        spelling = IQN.replace('node', 'Node')
        host = self.make('theirs', spelling)
        self.assertIsNone(self.hosts.locate(self.sought()).host)
        self.assertEqual(host, self.hosts.locate_taken(self.sought()).host)
        self.assertEqual(host, self.hosts.locate(self.sought()).host)

    def test_release_and_adopt(self):
        """INI-2."""
        host = self.make('a', IQN)
        record = self.hosts.initiators(host)[IQN]
        self.hosts.release_initiator(host, IQN)
        self.assertEqual(hosts.HostInitiators(None, loose={IQN: record}),
                         self.hosts.locate(self.sought()))
        other = self.make('b')
        self.hosts.adopt_initiator(other, record, IQN, self.fail)
        self.assertEqual({IQN: record}, self.hosts.initiators(other))

    def test_added_initiator_is_not_shown(self):
        """INI-2: the id of its record is unknown then."""
        host = self.make('a')
        self.sim.control.set_behaviors(create_reply='empty',
                                       refuse_unlisted='400',
                                       refuse_only=['GET host_iqns *'])
        self.assertEqual({}, self.hosts.add_initiators(
            host, [IQN], self.fail))
        record, = self.sim.control.leftovers()['host_iqns']
        self.assertEqual(IQN, record['iqn'])

    def test_adopt_by_name(self):
        """If the array refuses to change records of initiators."""
        host = self.make('a')
        with mock.patch.object(self.client.host_iqns, 'update',
                               autospec=True,
                               side_effect=rest.Refused('no')):
            self.hosts.adopt_initiator(host, 999, IQN, self.fail)
        self.assertEqual([IQN], list(self.hosts.initiators(host)))
