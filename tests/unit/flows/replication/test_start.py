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

"""Replication is started, with faults at any call."""

import dataclasses
from unittest import mock

import ddt

from cinder_k2 import exceptions
from cinder_k2.flows import replication
from cinder_k2 import rest
from tests.unit.flows.replication import pair
from tests.unit.flows.replication.pair import leftovers


@ddt.ddt
class ProtectTest(pair.PairTest):

    def test_calls(self):
        self.protect()
        cold = self.trouble.calls[:]
        self.unprotect()
        self.trouble.plan()
        self.protect()
        self.assertEqual(
            ['a POST replication/sessions', 'a POST replication/peer_volumes',
             'a PATCH replication/sessions/*'], self.trouble.calls)
        self.assertEqual(['a GET replication/peer_k2arrays',
                          'a GET retention_policies', *self.trouble.calls],
                         cold)

    def test_all_there(self):
        self.protect()
        self.assert_replicated()

    def test_repeated_start(self):
        for _ in range(2):
            self.protect()
            self.assert_replicated()

    @ddt.data(*pair.TYPICAL)
    def test_fault_at_each_call(self, fault):
        self.protect_with(fault)

    @ddt.data({'start_seconds': 20}, {'copy_seconds': 1e6},
              {'session_policies_required': True}, {'repeat_commands': True})
    def test_other_arrays(self, behaviors):
        """Replication is started and stopped on variants of arrays."""
        for sim in (self.a, self.b):
            sim.control.set_behaviors(**behaviors)
        self.protect()
        self.assert_replicated()
        for _ in range(2):
            self.unprotect()
            self.assert_bare()

    def test_no_start(self):
        """REP-6."""
        self.a.control.set_behaviors(start_seconds=120)
        error = self.assertRaises(rest.Busy, self.protect)
        self.assertIn('MC_ERR_START_TIMEOUT', str(error))
        self.assert_bare()

    def test_array_is_lost_after_creating_the_session(self):
        """Objects on the peer are deleted."""
        self.a.control.add_fault(method='POST', path='*', **pair.NEVER_A_REPLY)
        self.a.control.add_fault(kind='reset', path='*', after=2)
        self.assertRaises(rest.Unreachable, self.protect)
        self.assertEqual({}, leftovers(self.b))
        self.clear_faults()
        self.unprotect()
        self.assert_bare()

    def test_start_of_unknown_outcome(self):
        """It was started, but the array does not show that."""
        path = 'replication/sessions/*'
        self.a.control.add_fault(method='PATCH', path=path, **pair.LOST_REPLY)
        self.a.control.add_fault(method='GET', path=path, **pair.FORBIDDEN)
        self.assertRaises(rest.Forbidden, self.protect)
        self.assert_bare()

    def test_stopped_while_it_starts(self):
        self.a.control.set_behaviors(start_seconds=20)
        self.trouble.plan(5, kill='after')
        self.assertRaises(pair.Killed, self.protect)
        self.unprotect()
        self.wait()
        self.assert_bare()

    def test_arrays_are_disconnected(self):
        """REP-19."""
        self.b.control.cut_link()
        error = self.assertRaises(rest.Refused, self.protect)
        self.assertIn('a.example.org', str(error))
        self.assertIn('is disconnected, not ok', str(error))
        self.assert_bare()

    def test_copy_is_created_and_then_refused(self):
        """The first try got no reply; the copy that it made is deleted."""
        add = self.here.replication.add_volume
        refusal = rest.Refused('there is one')
        refusal.repeats = True

        def add_twice(*args):
            add(*args)
            raise refusal
        with mock.patch.object(self.here.replication, 'add_volume',
                               add_twice):
            self.assertRaises(rest.Refused, self.protect)
        self.assert_bare()

    def test_name_is_taken_and_no_try_gets_a_reply(self):
        """The volume stays, as this attempt has not created it."""
        self.there.volumes.create(
            pair.COPY, pair.GIB, self.there.volumes.create_group('old', True))
        self.a.control.add_fault(
            method='POST', path='replication/peer_volumes', kind='reset',
            commit='before')
        self.assertRaises(rest.Unreachable, self.protect)
        self.assertEqual({'volumes': [pair.COPY], 'volume_groups': ['old']},
                         leftovers(self.b))

    def test_copy_is_in_use(self):
        """It is not deleted, even if the array would not refuse that."""
        self.protect()
        self.tell(self.there, 'failed_over')
        client = self.there.client
        client.mappings.create(
            host=client.hosts.create(name='h', type='Linux').ref,
            volume=client.volumes.find(name=pair.COPY).ref)
        self.trouble.plan()
        self.assertRaises(exceptions.StillMapped, self.protect)
        self.assertNotIn('b DELETE volumes/*', self.trouble.calls)
        self.assertEqual([pair.COPY], leftovers(self.b)['volumes'])

    def test_group_has_another_session(self):
        """That session must not be deleted."""
        self.here.replication.create_session(
            'other', peer=1, group=self.group, rpo=300,
            peer_group_name=pair.COPY_GROUP, peer_session_name=pair.NAMES[1])
        self.assertRaises(rest.Refused, self.protect)
        self.assertEqual([pair.COPY_GROUP], leftovers(self.b)['volume_groups'])
        self.assertEqual('other', self.here.replication.of_group(
            self.group).name)

    def test_only_the_group_is_left(self):
        """The group of a former replication is deleted, and created again."""
        self.there.volumes.create_group(pair.COPY_GROUP, True)
        self.protect()
        self.assert_replicated()

    def test_name_of_the_copy_is_taken(self):
        """The foreign volume stays, and nothing else."""
        self.there.volumes.create(
            pair.COPY, pair.GIB, self.there.volumes.create_group('old', True))
        before = leftovers(self.b)
        volume = self.there.volumes.find(pair.COPY)
        client = self.there.client
        client.mappings.create(
            host=client.hosts.create(name='h', type='Linux').ref,
            volume=client.volumes.ref(volume.volume))
        self.assertRaises(exceptions.StillMapped, self.protect)
        left = leftovers(self.b)
        self.assertEqual(before, {kind: left[kind] for kind in before})
        self.assertEqual([None, None], self.sessions())

    def refuse(self):
        """Let a group of a foreign volume prevent the session."""
        group = self.there.volumes.create_group(pair.COPY_GROUP, True)
        self.there.volumes.create('theirs', pair.GIB, group)

    def test_name_of_the_group_is_taken(self):
        """Creation is tried twice, and the foreign volume stays."""
        self.refuse()
        self.assertRaises(rest.Refused, self.protect)
        self.assertEqual(
            2, self.trouble.calls.count('a POST replication/sessions'))
        self.assertEqual({'volumes': ['theirs'],
                          'volume_groups': [pair.COPY_GROUP]},
                         leftovers(self.b))

    def test_name_is_taken_on_an_array_without_replies(self):
        """Creation is not tried again, as nothing there could be deleted."""
        self.refuse()
        self.b.control.add_fault(kind='reset', path='*')
        error = self.assertRaises(rest.Refused, self.protect)
        self.assertIn('a.example.org', str(error))
        self.assertEqual(
            1, self.trouble.calls.count('a POST replication/sessions'))
        self.clear_faults()
        self.assert_just(self.here)

    def test_no_peers(self):
        self.link = dataclasses.replace(
            self.link, peer_address='elsewhere', backend_id='nobody')
        self.assertRaises(exceptions.ArrayNotSupported, self.protect)
        self.assert_bare()


class MayBeBegunTest(pair.PairTest):
    """Whether a failed attempt has left something."""

    def may_be_begun(self):
        return replication.may_be_begun(replication.SessionRequest(
            self.link, pair.NAMES[0], self.group, pair.GROUP, self.members))

    def test_nothing(self):
        self.assertFalse(self.may_be_begun())
        self.assertEqual(
            ['a GET replication/sessions', 'b GET replication/sessions',
             'b GET volumes', 'b GET volume_groups'], self.trouble.calls)

    def test_killed_at_each_call(self):
        """The answer depends on what is left on the arrays."""
        for error in self.each(self.protect, kill='after'):
            if error:
                left = leftovers(self.b) or 'session' in str(leftovers(self.a))
                self.assertEqual(bool(left), self.may_be_begun())
        self.assertTrue(self.may_be_begun())

    def test_session_on_this_array(self):
        """One call suffices then."""
        self.protect()
        self.trouble.plan()
        self.assertTrue(self.may_be_begun())
        self.assertEqual(['a GET replication/sessions'], self.trouble.calls)

    def test_each_leftover_on_the_peer(self):
        """The session, its group, and a copy in another group."""
        self.protect()
        client = self.there.client
        for side in (self.here, self.there):
            session = side.replication.find(*pair.NAMES)
            if side is self.here:
                for state in ('suspended', 'idle'):
                    side.replication.command(session.id, state)
                side.replication.delete(session)
        self.assertTrue(self.may_be_begun())
        group = self.there.volumes.find_group(pair.COPY_GROUP)
        self.there.replication.delete(
            self.there.replication.find(*pair.NAMES))
        self.assertTrue(self.may_be_begun())
        client.volume_groups.update(group, name='renamed')
        self.assertTrue(self.may_be_begun())
        client.volumes.update(self.there.volumes.find_volume(pair.COPY),
                              name='renamed')
        self.assertFalse(self.may_be_begun())

    def test_array_that_does_not_reply(self):
        for sim in (self.a, self.b):
            sim.control.add_fault(kind='reset', path='*')
            self.assertTrue(self.may_be_begun())
            self.clear_faults()
