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
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.array import simulated_hosts

IQN = simulated_hosts.IQN
OTHER = simulated_hosts.OTHER
PORTS = simulated_hosts.PORTS


class ByNameTest(simulated_hosts.UnsearchedTest):
    """Arrays that cannot search for initiators."""

    def test_listed_initiators_are_compared(self):
        host = self.make('theirs', IQN.upper())
        self.make(self.name, OTHER)
        self.assertEqual(host, self.hosts.locate(self.sought()).host)
        self.assertEqual({host: {IQN.upper(): mock.ANY}},
                         self.hosts.owners(self.sought()))

    def test_initiators_of_hosts(self):
        hosts = [self.make('a', IQN), self.make('b', OTHER), self.make('c')]
        self.assertEqual({hosts[0]: {IQN: mock.ANY}},
                         self.hosts.initiators_of(hosts[::2]))
        self.assertEqual({}, self.hosts.initiators(hosts[2]))
        self.blind = True
        self.assertEqual({}, self.hosts.initiators_of(hosts))
        self.assertEqual({}, self.hosts.initiators(hosts[0]))

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
        """It needs no initiators: its administrator has chosen them."""
        self.blind = True
        host = self.make('theirs')
        self.assertEqual(
            self.found(host, by_name=True),
            self.hosts.locate(self.sought(names=['theirs'])))
        self.assertEqual({host: {}}, self.hosts.owners(
            self.sought(names=['theirs'])))

    def test_host_of_a_former_name(self):
        """Looked for only to detach, or if the initiators are refused."""
        self.blind = True
        host = self.make(naming.host('former', [IQN]))
        sought = host_identity.Sought((IQN,), (self.name, 'theirs'),
                                      (naming.host('former', [IQN]),))
        self.assertEqual(self.found(None, (IQN,)), self.hosts.locate(sought))
        self.assertEqual({host: {}}, self.hosts.owners(sought))
        self.assertEqual(host, self.hosts.locate_taken(sought).host)
        # From now on the host is found at once.
        self.assertEqual(host, self.hosts.locate(sought).host)

    def test_candidates_beside_an_empty_host(self):
        """Initiators are not shown, so either host may be the one."""
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

    def test_clear(self):
        """The host is deleted, as its initiators may be another host's."""
        host = self.make(self.name)
        self.assertEqual(
            self.found(None, (IQN,)),
            self.hosts.clear(self.found(host, (IQN,), by_name=True)))
        self.assertIsNone(self.client.hosts.find(name=self.name))

    def test_clear_does_not_delete(self):
        """One found by its initiators, or that the array does not delete."""
        for by_name, initiators in ((False, []), (True, [OTHER])):
            host = self.make(f'host{len(initiators)}', *initiators)
            found = self.found(host, (IQN,), by_name=by_name)
            self.assertEqual(found, self.hosts.clear(found))
            self.assertEqual(host, self.client.hosts.get(host).id)

    def test_our_host_just_created(self):
        self.blind = True
        host = self.hosts.create(self.name)
        with mock.patch.object(self.client.host_iqns, 'prove',
                               autospec=True):
            self.hosts.records.add(host, [IQN], self.fail)
        self.assertEqual(self.found(host, by_name=True),
                         self.hosts.locate(self.sought()))


class SimilarNameTest(simulated_hosts.FCHostsTest):
    """Arrays that list the WWPNs of a host, but cannot search by WWPN."""

    def assert_not_found(self, *ports):
        sought = self.sought(*ports)
        for locate in (self.hosts.locate, self.hosts.locate_taken):
            self.assertEqual(host_identity.HostInitiators(None, missing=ports),
                             locate(sought))
        self.assertIsNone(self.hosts.owners(sought))

    def test_host_registered_with_more_wwpns(self):
        """It is not looked for before its WWPNs are known to be taken."""
        host = self.registered(*PORTS[:2])
        sought = self.sought(PORTS[0].upper())
        self.assertIsNone(self.hosts.locate(sought).host)
        self.assertEqual(host_identity.HostInitiators(host),
                         self.hosts.locate_taken(sought))
        self.hosts.verify(host, sought)

    def test_found_lately(self):
        host = self.registered(*PORTS[:2])
        sought = self.sought(PORTS[0])
        self.hosts.locate_taken(sought)
        self.assertEqual(host_identity.HostInitiators(host),
                         self.hosts.locate(sought))
        self.assertEqual({host: {PORTS[0]: mock.ANY}},
                         self.hosts.owners(sought))
        self.assertIsNone(self.hosts.locate(self.sought(PORTS[1])).host)

    def test_missing_wwpns(self):
        host = self.registered(*PORTS[:2])
        self.assertEqual(
            host_identity.HostInitiators(host, missing=(PORTS[2],)),
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
        self.assertEqual(host, self.hosts.locate_taken(host_identity.Sought(
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
        with self.hosts_gone():
            self.assert_not_found(PORTS[0])

    def test_mappings_of_host_groups(self):
        """They name a group or nothing, never the host."""
        same_id = self.registered(*PORTS[:2], mapped=False)
        with self.mapped_to_a_group(same_id):
            self.assert_not_found(PORTS[0])

    def test_without_names(self):
        """As in a reconciliation: no call is made."""
        self.registered(*PORTS[:2])
        sought = host_identity.Sought((PORTS[0],))
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
        sought = host_identity.Sought(
            (IQN,), (naming.host('node1', [IQN]), 'node1'))
        for locate in (self.array.iscsi_hosts.locate,
                       self.array.iscsi_hosts.locate_taken):
            self.assertIsNone(locate(sought).host)
        self.assertNotIn('GET mappings', self.calls())


class ChangeTest(simulated_hosts.IscsiHostsTest):

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

    def test_initiator_without_a_host(self):
        """INI-1."""
        record = self.client.host_iqns.create(iqn=IQN).id
        self.assertEqual(
            host_identity.HostInitiators(None, loose={IQN: record},
                                         searched=True),
            self.hosts.locate(self.sought()))

    def test_known_in_another_spelling(self):
        """INI-5: once found, it is searched for in that spelling."""
        spelling = IQN.replace('node', 'Node')
        host = self.make('theirs', spelling)
        self.assertIsNone(self.hosts.locate(self.sought()).host)
        self.assertEqual(host, self.hosts.locate_taken(self.sought()).host)
        self.assertEqual(host, self.hosts.locate(self.sought()).host)

    def test_owners(self):
        """One call, unless no initiator is found in this spelling."""
        host = self.make('theirs', IQN)
        for sought, found, calls in (
                (self.sought(), {host: {IQN: mock.ANY}}, 1),
                (self.sought(OTHER), {}, 2)):
            self.sim.control.clear_journal()
            self.assertEqual(found, self.hosts.owners(sought))
            self.assertEqual(calls, len(self.calls()), self.calls())

    def test_initiators_of_two_hosts(self):
        """The error says which host has which."""
        self.make('one', IQN)
        self.make('two', OTHER)
        error = self.assertRaises(exceptions.HostConflict, self.hosts.locate,
                                  self.sought(IQN, OTHER))
        for owned in (f'{IQN} to one', f'{OTHER} to two'):
            self.assertIn(owned, str(error))


class HostIdTest(simulated_hosts.IscsiHostsTest):
    """OBJ-7: the id of a host may become another host's."""

    def setUp(self):
        super().setUp()
        self.sim.control.set_behaviors(reuse_ids=True)
        self.host = self.client.hosts.get(self.hosts.create(self.name))
        self.sim.control.clear_journal()

    def replace(self):
        """Give the id to another host."""
        self.client.hosts.delete(self.host.id)
        self.assertEqual(self.host.id, self.make('theirs'))
        self.sim.control.clear_journal()

    def assert_calls(self, number):
        self.assertEqual(number, len(self.calls()), self.calls())
        self.sim.control.clear_journal()

    def reply_with(self, host):
        """Have each reply to a creation show this host."""
        return mock.patch.object(self.client.hosts, 'create', autospec=True,
                                 return_value=host)

    def test_created_with_the_reply_of_another(self):
        """The host is found by its name."""
        other = self.client.hosts.get(self.make('theirs'))
        with self.reply_with(other):
            self.assertEqual(self.host.id, self.hosts.create(self.name))
        self.assertEqual(self.name, self.hosts.ours(self.host.id).name)

    def test_not_created_with_the_reply_of_another(self):
        with self.reply_with(self.host):
            error = self.assertRaises(rest.BadReply, self.hosts.create,
                                      'other')
        self.assertIn('creation of host other', str(error))
        self.assertEqual(('k2.example.org', 200),
                         (error.address, error.status))

    def test_creation_is_refused(self):
        """HST-1: no host of an invalid name exists."""
        self.assertRaises(rest.Refused, self.hosts.create, 'x' * 99)

    def test_created_host_is_not_read_again(self):
        found = self.found(self.host.id, (IQN,), by_name=True)
        self.assertIsNone(self.hosts.clear(found).host)
        self.assertEqual([f'DELETE hosts/{self.host.id}'], self.calls())

    def test_verify(self):
        self.hosts.verify(self.host.id, self.sought())
        self.assert_calls(1)
        self.hosts.verify_named(self.host)
        self.assert_calls(1)
        self.assertTrue(self.hosts.is_there(self.host))
        self.assertFalse(self.hosts.is_anothers(self.host))

    def test_verify_by_initiators(self):
        """An administrator has chosen its name."""
        host = self.make('theirs', IQN)
        self.client.hosts.delete(self.host.id)
        self.hosts.verify(host, self.sought())
        self.assertRaises(rest.OtherObject, self.hosts.verify,
                          self.make('other', OTHER), self.sought())

    def test_another_host_with_the_id(self):
        self.replace()
        for verify, argument in (
                (self.hosts.verify, self.sought()),
                (lambda _, host: self.hosts.verify_named(host), self.host)):
            error = self.assertRaises(rest.OtherObject, verify, self.host.id,
                                      argument)
            self.assertIn(self.name, str(error))
        self.assertFalse(self.hosts.is_there(self.host))
        self.assertTrue(self.hosts.is_anothers(self.host))
        self.assertIsNone(self.hosts.ours(self.host.id))

    def test_host_with_another_id(self):
        """It was deleted, and another service has created it again."""
        self.sim.control.set_behaviors(reuse_ids=False)
        self.client.hosts.delete(self.host.id)
        self.client.hosts.create(name=self.name, type='Linux')
        self.assertRaises(rest.OtherObject, self.hosts.verify, self.host.id,
                          self.sought())
        self.assertFalse(self.hosts.is_there(self.host))
        self.assertTrue(self.hosts.is_anothers(self.host))

    def test_host_that_does_not_show(self):
        """OBJ-6: it may have just been created."""
        self.client.hosts.delete(self.host.id)
        self.sim.control.clear_journal()
        self.hosts.verify(self.host.id, self.sought())
        self.assert_calls(4)
        self.assertFalse(self.hosts.is_anothers(self.host))
        self.assert_calls(2)
        self.assertFalse(self.hosts.is_there(self.host))


class DeleteTest(simulated_hosts.IscsiHostsTest):

    def whole(self, host):
        """Delete a host with its initiators, one by one if need be."""
        def one_by_one(outcome):
            self.hosts.records.remove(host.id, self.hosts.initiators(host.id),
                                      outcome)
            self.hosts.delete(host, outcome)
        self.sim.control.clear_journal()
        self.hosts.delete_whole(host, one_by_one)

    def test_initiators_first(self):
        """HST-3: the array refuses to delete a host that has some."""
        host = self.client.hosts.get(self.make('a', IQN))
        self.assertRaises(rest.Refused, self.hosts.delete, host)
        self.whole(host)
        self.assertEqual({}, self.leftovers())

    def test_at_once(self):
        """HST-3: the array deletes them with their host."""
        self.sim.control.set_behaviors(delete_host_with_initiators=True)
        host = self.client.hosts.get(self.make('a', IQN))
        self.whole(host)
        self.assertEqual([f'DELETE hosts/{host.id}'], self.calls())
        self.assertEqual({}, self.leftovers())

    def test_deleted_host_is_forgotten(self):
        """OBJ-7: its id may be another host's later."""
        self.sim.control.set_behaviors(reuse_ids=True)
        host = self.client.hosts.get(self.hosts.create(self.name))
        self.hosts.delete(host)
        self.assertEqual(host.id, self.make('theirs', IQN))
        self.make('other', OTHER)
        error = self.assertRaises(exceptions.HostConflict, self.hosts.locate,
                                  self.sought(IQN, OTHER))
        self.assertIn(f'{IQN} to theirs', str(error))

    def test_array_that_does_not_delete_initiators(self):
        """Known once a host was deleted with them, and only then."""
        known = self.client.capabilities
        # A new version clears the verdicts.
        known.note_version('before')
        known.note_version('now')
        host = self.client.hosts.get(self.make('a'))
        self.client.hosts.delete(host.id)
        for state in ('unknown', 'refused'):
            self.hosts.delete(host, refusal=rest.Refused('never'))
            self.assertEqual(
                state, known.verdict('deletions:host_iqns').state)
            host = self.client.hosts.get(self.make('a'))
