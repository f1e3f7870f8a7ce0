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
from cinder_k2 import rest
from tests.unit.array import simulated_hosts
from tests.unit import lost

IQN = simulated_hosts.IQN
OTHER = simulated_hosts.OTHER
PORTS = simulated_hosts.PORTS


def records_of(test, kind=host_identity.IQN):
    """Return the initiator records of a test's array; sets test.known."""
    test.known = known_hosts.KnownHosts(test.client)
    return initiators.Initiators(test.client, kind, test.known)


class SearchTest(simulated_hosts.IscsiHostsTest):

    def setUp(self):
        super().setUp()
        self.records = records_of(self)
        self.host = self.make('theirs', IQN)
        self.make('other', OTHER)

    def names(self, records):
        return [self.records.name(record) for record in records]

    def test_in_lower_case(self):
        """INI-5."""
        self.assertEqual([IQN], self.names(self.records.search(
            [IQN.upper(), 'iqn.none'])))

    def test_in_another_spelling(self):
        """QRY-5: once found, it is searched for in that spelling."""
        spelling = IQN.replace('node1', 'Node3')
        self.make('c', spelling)
        sought = [spelling.lower()]
        self.assertEqual([], self.records.search(sought))
        self.assertEqual([spelling], self.names(
            self.records.in_any_case(sought)))
        self.assertEqual([spelling], self.names(self.records.search(sought)))

    def test_foreign_records_are_left_out(self):
        """The array may ignore the condition."""
        everything = self.client.host_iqns.search()
        with mock.patch.object(self.client.host_iqns, 'search',
                               autospec=True, return_value=everything):
            self.assertEqual([IQN], self.names(self.records.search([IQN])))

    def test_by_host(self):
        loose = self.client.host_iqns.create(iqn='iqn.loose')
        found = self.records.by_host(self.records.listed())
        self.assertIn(loose, self.records.listed())
        self.assertEqual({IQN: mock.ANY}, found[self.host])
        self.assertEqual(2, len(found))

    def test_a_host_has_one_iqn(self):
        """No call is made."""
        self.sim.control.clear_journal()
        self.assertEqual([], self.records.at_hosts([IQN], [self.host]))
        self.assertEqual([], self.calls())


class UnsearchedTest(simulated_hosts.UnsearchedTest):
    """Arrays that cannot search for initiators."""

    def setUp(self):
        super().setUp()
        self.records = records_of(self)

    def test_listed_initiators_are_compared(self):
        self.make('theirs', IQN.upper())
        self.make('other', OTHER)
        found, = self.records.search([IQN])
        self.assertEqual(IQN.upper(), self.records.name(found))

    def test_not_listed(self):
        self.blind = True
        host = self.make('theirs', IQN)
        self.assertIsNone(self.records.search([IQN]))
        self.assertIsNone(self.records.listed())
        self.assertIsNone(self.records.in_any_case([IQN]))
        self.assertIsNone(self.records.of_host(host))

    def test_initiators_of_hosts(self):
        hosts = [self.make('a', IQN), self.make('b', OTHER), self.make('c')]
        self.assertEqual({hosts[0]: {IQN: mock.ANY}},
                         self.records.of_hosts(hosts[::2]))
        self.assertEqual({}, self.records.of_host(hosts[2]))
        self.blind = True
        self.assertIsNone(self.records.of_hosts(hosts))


class SeveralTest(simulated_hosts.FCHostsTest):
    """Hosts with several WWPNs."""

    def test_at_hosts(self):
        """One call for each host."""
        records = records_of(self, host_identity.PWWN)
        both = [self.make(name, *PORTS[number:number + 2], mapped=False)
                for number, name in ((0, 'a'), (2, 'b'))]
        self.sim.control.clear_journal()
        found = records.at_hosts([PORTS[0].upper(), PORTS[3]], both)
        self.assertEqual([PORTS[0], PORTS[3]],
                         [records.name(record) for record in found])
        self.assertEqual(2, len(self.calls()), self.calls())


class ChangeTest(simulated_hosts.IscsiHostsTest):

    def setUp(self):
        super().setUp()
        self.records = records_of(self)

    def test_release_and_adopt(self):
        """INI-2."""
        host = self.make('a', IQN)
        record = self.records.of_host(host)[IQN]
        self.records.release(host, IQN)
        loose, = self.records.search([IQN])
        self.assertEqual((record, None), (loose.id, loose.host))
        other = self.make('b')
        self.records.adopt(other, record, IQN, self.fail)
        self.assertEqual({IQN: record}, self.records.of_host(other))

    def test_release_of_another_hosts(self):
        """OBJ-7: an initiator of another host is not released."""
        host = self.make('a', IQN)
        before = self.records.of_host(host)
        self.records.release(self.make('b'), IQN)
        self.records.release(host, OTHER)
        self.assertEqual(before, self.records.of_host(host))

    def test_added_initiator_is_not_shown(self):
        """INI-2: the id of its record is unknown then."""
        host = self.make('a')
        self.sim.control.set_behaviors(create_reply='empty',
                                       refuse_unlisted='400',
                                       refuse_only=['GET host_iqns *'])
        self.assertEqual({}, self.records.add(host, [IQN], self.fail))
        record, = self.sim.control.leftovers()['host_iqns']
        self.assertEqual(IQN, record['iqn'])

    def lose_reply(self, act=lambda: None, sent=False):
        """Lose the reply to a change of a record."""
        return lost.on_request('PATCH', '/host_iqns', sent=sent, act=act,
                               error=rest.Unreachable)

    def test_adopt_after_a_lost_reply(self):
        """Whether or not the array has carried the request out."""
        for sent, name in ((True, IQN), (False, OTHER)):
            host = self.make(f'host-{sent}')
            record = self.client.host_iqns.create(iqn=name).id
            verify = mock.Mock()
            with self.lose_reply(sent=sent):
                self.records.adopt(host, record, name, verify)
            self.assertEqual({name: record}, self.records.of_host(host))
            verify.assert_called_with()

    def test_adopt_what_is_another_hosts_by_now(self):
        """OBJ-7: it stays with that host."""
        host, other = self.make('a'), self.make('b')
        record = self.client.host_iqns.create(iqn=IQN).id
        with self.lose_reply(lambda: self.client.host_iqns.update(
                record, host=self.client.hosts.ref(other))):
            self.assertRaises(rest.OtherObject, self.records.adopt, host,
                              record, IQN, mock.Mock())
        self.assertEqual({IQN: record}, self.records.of_host(other))

    def test_adopt_what_has_another_id_by_now(self):
        """OBJ-7: the id may be another initiator's."""
        host = self.make('a')
        record = self.client.host_iqns.create(iqn=IQN).id

        def replace():
            self.client.host_iqns.delete(record)
            self.client.host_iqns.create(iqn=IQN)
        with self.lose_reply(replace):
            error = self.assertRaises(
                rest.OtherObject, self.records.adopt, host, record, IQN,
                mock.Mock())
        self.assertIn(f'{IQN} does not have id {record}', str(error))
        self.assertEqual('k2.example.org', error.address)
        self.assertEqual({}, self.records.of_host(host))

    def test_adopt_for_a_host_that_is_another_by_now(self):
        host = self.make('a')
        record = self.client.host_iqns.create(iqn=IQN).id
        with self.lose_reply():
            self.assertRaises(rest.OtherObject, self.records.adopt, host,
                              record, IQN,
                              mock.Mock(side_effect=rest.OtherObject('a')))
        self.assertEqual({}, self.records.of_host(host))

    def test_release_after_a_lost_reply(self):
        """OBJ-7: another host may have been given it meanwhile."""
        host, other = self.make('a', IQN), self.make('b')
        record = self.records.of_host(host)[IQN]

        def give():
            for owner in (None, self.client.hosts.ref(other)):
                self.client.host_iqns.update(record, host=owner)
        with self.lose_reply(give):
            self.assertRaises(rest.OtherObject, self.records.release, host,
                              IQN)
        self.assertEqual({IQN: record}, self.records.of_host(other))
        with self.lose_reply():
            self.records.release(other, IQN)
        self.assertEqual({}, self.records.of_host(other))

    def test_adopt_by_name(self):
        """If the array refuses to change records of initiators."""
        host = self.make('a')
        with mock.patch.object(self.client.host_iqns, 'update',
                               autospec=True,
                               side_effect=rest.Refused('no')):
            self.records.adopt(host, 999, IQN, self.fail)
        self.assertEqual([IQN], list(self.records.of_host(host)))

    def test_adopt_by_name_after_a_lost_reply(self):
        """OBJ-7: the host's id may be another host's by then."""
        host = self.make('a')
        another = mock.Mock(side_effect=rest.OtherObject('another'))
        with mock.patch.object(
                self.client.host_iqns, 'update', autospec=True,
                side_effect=rest.Refused('no')), lost.on_request(
                    'POST', '/host_iqns', sent=False, act=lambda: None,
                    error=rest.Unreachable):
            self.assertRaises(rest.OtherObject, self.records.adopt, host,
                              999, IQN, another)
        another.assert_called_once_with()
        self.assertEqual({}, self.records.of_host(host))

    def test_host_that_was_given_initiators(self):
        """It counts as having them as long as it keeps its name."""
        host = self.make(self.name)
        self.assertFalse(self.known.is_registered(self.known.get(host)))
        made = self.records.add(host, [IQN], self.fail)
        self.assertEqual(made, self.records.of_host(host))
        self.assertTrue(self.known.is_registered(self.known.get(host)))
        self.assertFalse(self.known.is_registered(rest.Host(host, 'a')))

    def test_remove(self):
        host = self.make('a', IQN)
        self.assertIsNone(self.records.remove(
            host, self.records.of_host(host)))
        self.assertEqual([], self.records.listed())

    def test_remove_is_refused(self):
        """The refusal is noted only if the caller says so."""
        host = self.make('a', IQN)
        known = self.client.capabilities
        # A new version clears the verdicts.
        known.note_version('before')
        known.note_version('now')
        with mock.patch.object(self.client.host_iqns, 'delete_many',
                               autospec=True,
                               side_effect=rest.Refused('never')):
            refusal = self.records.remove(host, self.records.of_host(host))
        self.assertIn('never', str(refusal))
        self.assertEqual('unknown',
                         known.verdict('deletions:host_iqns').state)
        self.records.note_undeletable(refusal)
        verdict = known.verdict('deletions:host_iqns')
        self.assertEqual('refused', verdict.state)
        self.assertIn('never', verdict.words)

    def test_remove_after_a_lost_reply(self):
        """OBJ-7: an initiator that is another host's by now stays."""
        host, other = self.make('a', IQN), self.make('b')
        records = self.records.of_host(host)

        def act():
            for owner in (None, self.client.hosts.ref(other)):
                self.client.host_iqns.update(records[IQN], host=owner)
        with lost.on_request('DELETE', '/host_iqns', sent=False, act=act,
                             error=rest.Unreachable):
            self.assertIsNone(self.records.remove(host, records))
        self.assertEqual(records, self.records.of_host(other))

    def test_remove_where_no_record_can_be_verified(self):
        """The initiators stay, and a warning says so."""
        host = self.make('a', IQN)
        records = self.records.of_host(host)
        with mock.patch.object(
                self.client.host_iqns, 'search', autospec=True,
                side_effect=rest.NotOffered('no')), lost.on_request(
                    'DELETE', '/host_iqns', sent=False, act=lambda: None,
                    error=rest.Unreachable), self.assertLogs(
                        initiators.LOG.logger, 'WARNING') as logs:
            self.assertIsNone(self.records.remove(host, records))
        self.assertIn(IQN, logs.output[0])
        self.assertEqual(records, self.records.of_host(host))

    def test_still_new(self):
        """OBJ-7: the id in a reply counts unless another initiator has it."""
        host = self.make('a', IQN)
        shown = self.records.of_host(host)[IQN]
        foreign = self.client.host_iqns.create(iqn=OTHER).id
        self.assertEqual(
            {IQN.upper(): shown, 'iqn.late': 999},
            self.records.still_new(host, {
                IQN.upper(): None, 'iqn.late': 999, 'iqn.lost': None,
                'iqn.foreign': foreign}))
