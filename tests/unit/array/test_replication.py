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

import dataclasses
import unittest

import ddt
import requests

from cinder_k2 import array
from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests import offered
from tests.unit.rest import scripted

LOST = requests.ConnectionError('Connection aborted')
NO = scripted.refusal('no')
POLICY = scripted.hits({'id': 5, 'name': 'Replication_Retention'})


def raw(id, **fields):
    """A session as the array sends it."""
    return {'id': id, 'name': f'ssn-{id}', 'state': 'in_sync',
            'current_role': 'source', 'current_snapshot_id': None,
            'current_snapshot_progress': 100, 'generation_number': 7,
            'suspend_reason': '', 'rpo': 300,
            'local_volume_group': {'ref': f'/volume_groups/{id + 100}'},
            'replication_peer_k2array': {
                'ref': '/replication/peer_k2arrays/1'},
            'remote_replication_session_id': id + 200} | fields


def session(id, **fields):
    """The same session, as callers see it."""
    return dataclasses.replace(replication.Session(
        id=id, name=f'ssn-{id}', group=id + 100, role='source',
        state='in_sync', generation=7, progress=100,
        peer_session=id + 200, peer=1, rpo=300), **fields)


def peer(id, name, host, state='ok'):
    return {'id': id, 'name': name, 'mgmt_host': host,
            'mgmt_connectivity_state': state}


class Case(unittest.TestCase):

    def make(self, *script, works=offered.names('sdp')):
        self.client, self.array, self.clock = scripted.client(
            *script, works=works)
        self.addCleanup(lambda: self.assertEqual([], self.array.script))
        self.replication = array.Array(self.client, 'any').replication
        return self.replication

    def bodies(self, method):
        return [self.array.body(n)
                for n, request in enumerate(self.array.requests)
                if request.method == method]


@ddt.ddt
class SessionTest(unittest.TestCase):

    @ddt.data(({}, True),
              ({'copying': True}, False),
              ({'progress': 99}, False),
              ({'progress': None}, False),
              ({'generation': None}, False),
              ({'generation': 6}, False),
              # Later generations include all earlier ones.
              ({'generation': 8, 'progress': 10, 'copying': True}, True))
    @ddt.unpack
    def test_has_arrived(self, fields, arrived):
        """REP-14."""
        self.assertIs(arrived, session(1, **fields).has_arrived(7))

    @ddt.data((201, 1, True), (None, 1, True), (201, None, True),
              (None, None, True), (202, 1, False), (201, 2, False))
    @ddt.unpack
    def test_is_half_of(self, seen_here, seen_there, expected):
        """A peer session that is not shown does not count against it."""
        here = session(1, peer_session=seen_here)
        there = session(201, peer_session=seen_there)
        self.assertIs(expected, here.is_half_of(there))
        self.assertIs(expected, there.is_half_of(here))


@ddt.ddt
class PeerTest(Case):

    PEERS = (peer(1, 'k2-b', '10.0.0.2'), peer(2, 'k2-c', 'fd00:0::3'),
             peer(3, 'k2-d', '10.0.0.4:8443'),
             peer(4, 'k2-e', '10.0.0.4:8444'), peer(5, 'k2-f', None),
             peer(6, 'k2-g', '?'))

    @ddt.data(('10.0.0.2', 'x', 1), ('10.0.0.2:444', 'x', 1),
              ('[fd00::3]:444', 'x', 2), ('10.0.0.4:8444', 'x', 4),
              ('10.0.0.4', 'k2-e', 4), ('10.0.0.9', 'k2-f', 5))
    @ddt.unpack
    def test_found_by_address_or_name(self, address, name, wanted):
        self.make(*[scripted.hits(*self.PEERS)] * 2)
        for _ in range(2):
            self.assertEqual(wanted, self.replication.peer(address, name))

    @ddt.data((PEERS[:1], 'k2-b (10.0.0.2)'), ((), 'none'))
    @ddt.unpack
    def test_peer_not_found(self, peers, known):
        self.make(*[scripted.hits(*peers)] * 2)
        with self.assertRaises(exceptions.ArrayNotSupported) as caught:
            self.replication.peer('10.0.0.9', 'other')
        for word in ('10.0.0.1 ', '10.0.0.9', 'other', known,
                     'replication_device'):
            self.assertIn(word, str(caught.exception))


class CreateTest(Case):

    def _create(self, *script, **wanted):
        self.make(*script)
        return self.replication.create_session(
            **({'name': 'ssn-9', 'peer': 1, 'group': 109, 'rpo': 300,
                'peer_group_name': 'rcvg-9',
                'peer_session_name': 'rssn-9'} | wanted))

    def test_two_calls_the_first_time(self):
        self.assertEqual(9, self._create(
            POLICY, scripted.Reply(201, raw(9, state='idle'))))
        policy = {'ref': '/retention_policies/5'}
        self.assertEqual([{
            'name': 'ssn-9', 'rpo': 300,
            'replication_peer_k2array': {
                'ref': '/replication/peer_k2arrays/1'},
            'local_volume_group': {'ref': '/volume_groups/109'},
            'replication_peer_volume_group_name': 'rcvg-9',
            'remote_replication_session_name': 'rssn-9',
            'auto_configure_peer_volumes': 'False',
            'retention_policy': policy,
            'external_retention_policy': policy}], self.bodies('POST'))

    def test_no_policy(self):
        for check in (self._create, lambda *script: self.make(
                *script).check()):
            with self.assertRaises(exceptions.ArrayNotSupported) as caught:
                check(scripted.hits())
            self.assertIn('correct k2_replication_retention_policy or',
                          str(caught.exception))
            self.assertIn('Replication_Retention', str(caught.exception))

    def test_leftover_is_taken_over(self):
        self.assertEqual(9, self._create(POLICY, NO, scripted.hits(raw(9))))

    def test_leftover_with_another_rpo(self):
        self.assertEqual(9, self._create(
            POLICY, NO, scripted.hits(raw(9, rpo=60)),
            scripted.Reply(200, raw(9))))
        self.assertEqual([{'name': 'ssn-9', 'rpo': 300}],
                         self.bodies('PATCH'))

    def test_session_of_another_group_or_peer_is_not_taken_over(self):
        for wanted in ({'group': 5}, {'peer': 2}):
            with self.assertRaisesRegex(rest.Refused, 'no'):
                self._create(POLICY, NO, scripted.hits(raw(9)),
                             scripted.Reply(200, peer(1, 'k2-b', '10.0.0.2')),
                             **wanted)

    def test_error_names_an_unreachable_peer(self):
        """REP-19. States other than "ok" are only added to the message."""
        for word in ('disconnected', 'Fine'):
            with self.assertRaises(rest.Refused) as caught:
                self._create(POLICY, NO, scripted.hits(), scripted.Reply(
                    200, peer(1, 'k2-b', '10.0.0.2', word)))
            for part in ('10.0.0.1:', ' no', 'k2-b', '10.0.0.2', word):
                self.assertIn(part, str(caught.exception))

    def test_error_does_not_name_a_reachable_peer(self):
        for word in ('ok', 'OK', None, 5):
            with self.assertRaises(rest.Refused) as caught:
                self._create(POLICY, NO, scripted.hits(), scripted.Reply(
                    200, peer(1, 'k2-b', '10.0.0.2', word)))
            self.assertNotIn('k2-b', str(caught.exception))

    def test_array_that_does_not_show_its_peers(self):
        with self.assertRaisesRegex(rest.Refused, 'no'):
            self._create(POLICY, NO, scripted.hits(),
                         scripted.refusal('gone', 404))

    def test_policy_was_recreated(self):
        """Its id is looked up again after a refusal."""
        ok = scripted.Reply(200, peer(1, 'k2-b', '10.0.0.2'))
        with self.assertRaises(rest.Refused):
            self._create(POLICY, NO, scripted.hits(), ok)
        self.array.script[:] = [scripted.hits({
            'id': 6, 'name': 'Replication_Retention'}),
            scripted.Reply(201, raw(9))]
        self.replication.create_session(
            'ssn-9', peer=1, group=109, rpo=300, peer_group_name='rcvg-9',
            peer_session_name='rssn-9')
        self.assertEqual({'ref': '/retention_policies/6'},
                         self.bodies('POST')[-1]['retention_policy'])


class PeerVolumeTest(Case):

    RAW = {'id': 12, 'name': 'rcv-3', 'local_volume': {'ref': '/volumes/3'}}

    def test_add(self):
        self.make(scripted.Reply(201, self.RAW))
        self.assertEqual(12, self.replication.add_volume(9, 3, 'rcv-3'))
        self.assertEqual([{
            'name': 'rcv-3', 'local_volume': {'ref': '/volumes/3'},
            'replication_session': {'ref': '/replication/sessions/9'}}],
            self.bodies('POST'))

    def test_leftover_is_taken_over(self):
        self.make(NO, scripted.hits(self.RAW))
        self.assertEqual(12, self.replication.add_volume(9, 3, 'rcv-3'))

    def test_other_refusals(self):
        self.make(NO, scripted.hits())
        with self.assertRaises(rest.Refused):
            self.replication.add_volume(9, 3, 'rcv-3')

    def test_lost_reply_and_created(self):
        self.make(LOST, scripted.hits(self.RAW))
        self.assertEqual(12, self.replication.add_volume(9, 3, 'rcv-3'))

    def test_created_and_not_shown(self):
        """No later step needs its id."""
        self.make(scripted.Reply(201), NO)
        self.assertEqual(0, self.replication.add_volume(9, 3, 'rcv-3'))

    def test_remove(self):
        self.make(scripted.hits(self.RAW), scripted.Reply(204))
        self.assertTrue(self.replication.remove_volume(3))
        self.assertEqual('DELETE /replication/peer_volumes/12',
                         self.array.calls[-1])

    def test_remove_missing_volume(self):
        self.make(scripted.hits(self.RAW), scripted.refusal('', 404))
        self.assertFalse(self.replication.remove_volume(3))
        self.make(scripted.hits())
        self.assertFalse(self.replication.remove_volume(3))


@ddt.ddt
class ReadTest(Case):

    def test_get(self):
        self.make(scripted.Reply(200, raw(9)), scripted.Reply(200, {
            'id': 9, 'name': 's', 'state': 'suspended',
            'current_role': 'target', 'suspend_reason': 'by user',
            'current_snapshot_id': 4, 'current_snapshot_progress': 40}))
        self.assertEqual(session(9), self.replication.get(9))
        self.assertEqual(
            replication.Session(
                id=9, name='s', group=None, role=replication.TARGET,
                state=replication.SUSPENDED, why='by user', progress=40,
                copying=True), self.replication.get(9))

    @ddt.data(({}, False),
              ({'current_snapshot': None}, False),
              ({'current_snapshot': {}}, False),
              ({'current_snapshot': {'ref': '/snapshots/4'}}, False),
              ({'current_snapshot_id': '4'}, True),
              ({'current_snapshot_id': 'snapshot-4'}, True),
              ({'current_snapshot_id': {'ref': '/snapshots/4'}}, True),
              ({'current_snapshot_id': ['4'], 'current_snapshot': None},
               True))
    @ddt.unpack
    def test_copying(self, fields, copying):
        """REP-14: the id shows it, in any form."""
        self.make(scripted.Reply(200, raw(9, **fields)))
        self.assertIs(copying, self.replication.get(9).copying)

    @ddt.data(({}, True), ({'current_snapshot': None}, False),
              ({'current_snapshot': {'ref': '/snapshots/4'}}, True),
              ({'current_snapshot': ['4']}, True))
    @ddt.unpack
    def test_missing_snapshot_id(self, fields, copying):
        """REP-14: a missing field does not mean that all has arrived."""
        sent = raw(9, **fields)
        del sent['current_snapshot_id']
        self.make(scripted.Reply(200, sent))
        self.assertIs(copying, self.replication.get(9).copying)

    def test_first_name_wins(self):
        both = scripted.hits(raw(1, name='rssn-x'), raw(2, name='ssn-x'))
        self.make(both, both, scripted.hits())
        self.assertEqual(2, self.replication.find('ssn-x', 'rssn-x').id)
        self.assertEqual('ssn-x,rssn-x', self.array.query(0)['name__in'])
        self.assertEqual(1, self.replication.find('rssn-x', 'ssn-x').id)
        self.assertIsNone(self.replication.find('ssn-x', 'rssn-x'))

    def test_of_a_group(self):
        self.make(scripted.hits(raw(9)), scripted.hits())
        self.assertEqual(session(9), self.replication.of_group(109))
        self.assertEqual('/volume_groups/109', self.array.query(0)[
            'local_volume_group.ref'])
        self.assertIsNone(self.replication.of_group(109))

    def test_find_many_takes_few_calls(self):
        names = [f'{kind}-{n}' for n in range(500)
                 for kind in ('ssn', 'rssn')]
        self.make(scripted.hits(raw(1, name='rssn-3'),
                                raw(2, name='rssn-999')),
                  scripted.hits(raw(3, name='ssn-7')))
        self.assertEqual({'rssn-3': 1, 'ssn-7': 3}, {
            name: found.id for name, found in
            self.replication.find_many(names).items()})
        self.assertEqual(['rssn-', 'ssn-'], [
            self.array.query(n)['name__prefix'] for n in range(2)])

    def test_few_names_are_searched_for(self):
        """Of more than 200, all sessions with their prefixes are read."""
        for number, field in ((200, 'name__in'), (201, 'name__prefix')):
            self.make(*[scripted.hits()] * 2)
            self.replication.find_many([f'ssn-{n}' for n in range(number)])
            self.assertEqual({field}, {
                key for n in range(len(self.array.requests))
                for key in self.array.query(n) if key.startswith('name')})
            self.array.script.clear()

    def test_find_many_without_hits_for_the_first_prefix(self):
        """Hits for one prefix show that no hits for another are correct."""
        names = [f'{kind}-{n}' for n in range(500)
                 for kind in ('ssn', 'rssn')]
        self.make(scripted.hits(), scripted.hits(raw(3, name='ssn-7')),
                  *[scripted.hits()] * 3, works=())
        for found in ({'ssn-7'}, set()):
            self.assertEqual(found, set(self.replication.find_many(names)))
        self.assertEqual(['rssn-', 'ssn-', 'rssn-'], [
            self.array.query(n)['name__prefix'] for n in range(3)])

    def test_no_names_take_no_call(self):
        self.make()
        self.assertEqual({}, self.replication.find_many([]))
        self.assertEqual({}, self.replication.get_many([]))
        self.assertEqual({}, self.replication.volumes_of([]))

    def test_all(self):
        self.make(scripted.hits(raw(1), raw(2)))
        self.assertEqual([session(1), session(2)], self.replication.all())

    def test_volumes(self):
        self.make(scripted.hits(
            {'id': 3, 'name': 'rcv-1', 'size': 1,
             'volume_group': {'ref': '/volume_groups/8'}},
            {'id': 4, 'name': 'cv-1', 'size': 1, 'volume_group': None}))
        self.assertEqual({'rcv-1': (3, 8), 'cv-1': (4, None)},
                         self.replication.volumes_of(['cv-1', 'rcv-1']))

    def test_sizes(self):
        """By name, since a search by ids is not a known request."""
        self.make(scripted.hits({'id': 3, 'name': 'rcv-1', 'size': 1},
                                {'id': 4, 'name': 'cv-1'},
                                {'id': 5, 'name': 'cv-2', 'size': 9}))
        self.assertEqual({3: 1}, self.replication.sizes_of(['cv-1', 'rcv-1']))
        self.assertIn('name', self.array.requests[-1].url)


class CommandTest(Case):

    def test_one_session(self):
        suspended = raw(9, state='suspended')
        self.make(scripted.hits(raw(9)), scripted.Reply(200, suspended))
        self.replication.find('ssn-9')
        self.assertEqual(
            session(9, state='suspended'),
            self.replication.command(9, replication.SUSPENDED))
        self.assertEqual([{'state': 'suspended'}], self.bodies('PATCH'))

    def test_session_of_unknown_name(self):
        """Section 16: only the state is sent."""
        ok = scripted.Reply(200, raw(9))
        self.make(ok, ok)
        for _ in range(2):
            self.replication.command(9, replication.IN_SYNC)
        self.assertEqual([{'state': 'in_sync'}] * 2,
                         self.bodies('PATCH'))

    def test_new_session(self):
        ok = scripted.Reply(200, raw(9))
        self.make(POLICY, scripted.Reply(201, raw(9)), ok)
        self.replication.command(self.replication.create_session(
            'ssn-9', peer=1, group=109, rpo=300, peer_group_name='rcvg-9',
            peer_session_name='rssn-9'), replication.IN_SYNC)
        self.assertEqual([{'state': 'in_sync'}], self.bodies('PATCH'))

    def test_missing_session(self):
        self.make(scripted.hits(), scripted.refusal('gone', 404))
        with self.assertRaises(rest.NotFound):
            self.replication.command(9, replication.IDLE)
        self.assertEqual([{'state': 'idle'}], self.bodies('PATCH'))

    def test_session_already_in_that_state(self):
        idle = scripted.Reply(200, raw(9, state='idle'))
        self.make(NO, idle, NO, idle, NO)
        self.assertEqual(session(9, state='idle'),
                         self.replication.command(9, replication.IDLE))
        with self.assertRaisesRegex(rest.Refused, 'no'):
            self.replication.command(9, replication.SUSPENDED)

    def test_set_rpo(self):
        self.make(scripted.hits(raw(9)), scripted.Reply(200, raw(9, rpo=60)))
        self.replication.set_rpo(self.replication.find('ssn-9'), 60)
        self.assertEqual([{'name': 'ssn-9', 'rpo': 60}],
                         self.bodies('PATCH'))

    def test_several_sessions(self):
        idle = scripted.Reply(200, raw(2, state='idle'))
        self.make(NO, scripted.Reply(200, raw(1)),
                  scripted.refusal('session 2 is idle'), idle, idle, NO)
        refused = self.replication.command_many(
            {1: 'ssn-1', 2: 'ssn-2'}, replication.FAILED_OVER)
        self.assertEqual([2], list(refused))
        self.assertIn('session 2 is idle', str(refused[2]))
        self.assertEqual(
            [{'id': id, 'state': 'failed_over'} for id in (1, 2)],
            self.bodies('PATCH')[0])
        # The array may require the name as well.
        self.assertEqual({'name': 'ssn-2', 'state': 'failed_over'},
                         self.bodies('PATCH')[-1])


class CopyTest(Case):
    """Copies that are grown."""

    RAW = {'id': 3, 'name': 'rcv-1', 'size': 5}
    COPY = replication.Copy(3, 'rcv-1', 5)

    def test_find(self):
        self.make(scripted.hits(self.RAW), scripted.hits())
        self.assertEqual(self.COPY, self.replication.find_copy('rcv-1'))
        self.assertIsNone(self.replication.find_copy('rcv-1'))

    def test_large_enough(self):
        """VOL-2: it does not shrink."""
        self.make()
        for size in (5, 4):
            self.replication.grow_copy(self.COPY, size, ['rcv-1'])
        self.assertFalse(self.replication.grows_copies)

    def test_grow(self):
        """VOL-4: a copy known to be too small that was grown shows it."""
        grown = scripted.Reply(200, {**self.RAW, 'size': 6})
        self.make(grown, grown, grown)
        for size, known in ((None, False), (5, True), (None, True)):
            self.replication.grow_copy(
                dataclasses.replace(self.COPY, size=size), 6, ['rcv-1'])
            self.assertIs(known, self.replication.grows_copies)
        self.assertEqual([{'size': 6}] * 3, self.bodies('PATCH'))

    def test_refused(self):
        self.make(NO)
        with self.assertRaises(rest.Refused):
            self.replication.grow_copy(self.COPY, 6, ['rcv-1'])
        self.assertFalse(self.replication.grows_copies)

    def test_await_size(self):
        self.make(*[scripted.hits({**self.RAW, **fields}) for fields in (
            {'size': 5}, {'size': None}, {'size': 6})])
        self.assertTrue(self.replication.await_size('rcv-1', 6))
        self.assertEqual([5.0, 5.0], self.clock.sleeps)

    def test_size_never_shows(self):
        self.make(*[scripted.hits(self.RAW)] * 3)
        with self.client.deadline(2):
            self.assertFalse(self.replication.await_size('rcv-1', 6,
                                                         timeout=10))
        self.assertEqual([5.0, 5.0], self.clock.sleeps)


class InsistTest(Case):

    def test_repeated_until_accepted(self):
        self._suspend(scripted.Reply(200, raw(9, state='suspended')))
        self.assertEqual([5.0], self.clock.sleeps)

    def _suspend(self, *last, timeout=60):
        """Suspend a session, which the array refuses at first."""
        refused = [NO, scripted.Reply(200, raw(9)), NO]
        self.make(*refused, *(last or refused * 2))
        self.replication.insist(lambda: self.replication.command(
            9, replication.SUSPENDED), timeout)

    def test_refused_until_the_end(self):
        with self.assertRaises(rest.Refused):
            self._suspend(timeout=10)
        self.assertEqual([5.0, 5.0], self.clock.sleeps)


class WaitTest(Case):

    def test_until_state_and_role_match(self):
        self.make(*[scripted.Reply(200, raw(9, **fields)) for fields in (
            {'state': 'suspended'}, {'current_role': 'target'}, {})])
        self.assertEqual(session(9), self.replication.wait(
            9, replication.IN_SYNC, role=replication.SOURCE))
        self.assertEqual([1.0, 1.0], self.clock.sleeps)

    def test_timeout(self):
        self.make(*[scripted.Reply(200, raw(
            9, state='suspended', suspend_reason='peer is lost'))] * 6)
        with self.assertRaises(exceptions.ReplicationTimeout) as caught:
            self.replication.wait(9, replication.IN_SYNC, timeout=5,
                                  role=replication.TARGET)
        for word in ('ssn-9', '10.0.0.1 ', 'suspended as source',
                     'peer is lost', 'in_sync as target', '5 seconds'):
            self.assertIn(word, str(caught.exception))

    def test_session_of_another_name(self):
        """OBJ-7: the id is another session's by now."""
        names = ('rssn-9', 'ssn-9')
        self.make(scripted.Reply(200, raw(9)),
                  scripted.Reply(200, raw(9, name='theirs')))
        self.replication.wait(9, replication.IN_SYNC, names=names)
        with self.assertRaises(rest.NotFound) as caught:
            self.replication.wait(9, replication.IN_SYNC, names=names)
        self.assertIn('session 9 is theirs now, not rssn-9 or ssn-9',
                      str(caught.exception))

    def test_timeout_in_any_role(self):
        self.make(*[scripted.Reply(200, raw(9, state='idle'))] * 2)
        with self.assertRaisesRegex(exceptions.ReplicationTimeout,
                                    'and not in_sync after 1 seconds'):
            self.replication.wait(9, replication.IN_SYNC, timeout=1)

    def test_longer_than_the_deadline_around_it(self):
        self.make(*[scripted.Reply(200, raw(9, state='idle'))] * 30,
                  scripted.Reply(200, raw(9)))
        with self.client.deadline(10):
            self.assertEqual(session(9), self.replication.wait(
                9, replication.IN_SYNC, timeout=60))


@ddt.ddt
class SnapshotTest(Case):

    def _made(self, *ids):
        return scripted.hits(*[{'id': id, 'generation_number': id + 10}
                               for id in ids])

    def _of(self, *generations, **fields):
        """Snapshots of groups 101, 102 ..., by generation."""
        return scripted.hits(*[{
            'id': generation + 50, 'generation_number': generation,
            'volume_group': {'ref': f'/volume_groups/{group}'},
            'triggered_by': 'api', **fields}
            for group, generation in generations])

    NONE = scripted.hits()

    def _take(self, number, *script):
        self.make(*script)
        return {id: (taken.id, taken.generation) for id, taken in
                self.replication.take_snapshots([
                    session(id) for id in range(1, number + 1)]).items()}

    def test_two_calls(self):
        """SNP-3: they have neither name nor policy."""
        self.assertEqual({1: (51, 61), 2: (52, 62)},
                         self._take(2, self.NONE, self._made(51, 52)))
        self.assertEqual(['GET /snapshots', 'POST /snapshots/__bulk'],
                         self.array.calls)
        self.assertEqual([{
            'replication_session': {'ref': f'/replication/sessions/{id}'},
            'is_application_consistent': 'False'} for id in (1, 2)],
            self.array.body(1))

    def test_no_sessions(self):
        self.assertEqual({}, self._take(0))

    def test_one_session_is_refused(self):
        self.make(
            self.NONE, NO, self.NONE, self._made(51, 52), self.NONE, NO,
            self.NONE, scripted.refusal('session 3 is suspended'),
            self.NONE, scripted.Reply(201, {'id': 54,
                                            'generation_number': 8}))
        with self.assertLogs('cinder_k2.array.replication',
                             'WARNING') as caught:
            made = self.replication.take_snapshots(
                [session(id) for id in (1, 2, 3, 4)])
        self.assertEqual([1, 2, 4], list(made))
        self.assertIn('ssn-3', caught.output[0])
        self.assertIn('session 3 is suspended', caught.output[0])

    def test_lost_reply_and_taken(self):
        """Recognized by a generation later than all before."""
        self.assertEqual({1: (59, 9), 2: (60, 10)}, self._take(
            2, self._of((101, 8), (102, 9)), LOST,
            self._of((101, 8), (101, 9)), self._of((102, 9), (102, 10))))
        self.assertEqual(1, self.array.calls.count('POST /snapshots/__bulk'))

    def test_lost_reply_and_several_taken(self):
        """The latest counts: it holds all that was written before."""
        self.assertEqual({1: (61, 11)}, self._take(
            1, self._of((101, 8)), LOST,
            self._of((101, 9), (101, 11), (101, 10), (101, 8))))

    def test_lost_reply_and_not_taken(self):
        """Older snapshots, and those of the array itself, do not count."""
        self.assertEqual({1: (70, 80)}, self._take(
            1, self._of((101, 8)), LOST, self._of(
                (101, 8), (101, 9), triggered_by='Replication'),
            self._made(70)))

    def test_lost_reply_and_the_first_snapshot(self):
        """No generation has arrived yet."""
        self.make(self.NONE, LOST, self._of((101, 1)))
        taken = self.replication.take_snapshots(
            [session(1, generation=None)])
        self.assertEqual(1, taken[1].generation)

    def test_lost_reply_and_unknown_generations(self):
        """Then no snapshot can be recognized as a later one."""
        for before in (self._of((101, 8), generation_number={}),
                       self._of((101, 8), volume_group=None), NO, NO):
            self.assertEqual({1: (70, 80)}, self._take(
                1, before, LOST, self._made(70)))

    def test_lost_reply_and_never_shown(self):
        """Taking another snapshot does no harm."""
        self.assertEqual({1: (51, 61), 2: (52, 62)}, self._take(
            2, self.NONE, LOST, self.NONE, self.NONE,
            scripted.refusal('seen', 409), *[self.NONE] * 10,
            self._made(51, 52)))

    def test_generation_shows_late(self):
        self.assertEqual({1: (5, 8)}, self._take(
            1, self.NONE, scripted.Reply(201, {'id': 5}),
            scripted.hits({'id': 5, 'generation_number': 8})))

    def test_generation_never_shows(self):
        with self.assertRaisesRegex(exceptions.ReplicationError, 'REP-13'):
            self._take(1, self.NONE, scripted.Reply(201, {'id': 5}),
                       scripted.hits({'id': 5}))

    def test_only_snapshots_of_replication_are_deleted(self):
        ref = {'ref': '/replication/sessions/9'}
        found = (
            {'id': 1, 'short_name': 'repl-1', 'replication_session': ref},
            {'id': 2, 'short_name': 'repl-2', 'generation_number': 4},
            {'id': 3, 'short_name': 'x', 'triggered_by': 'Replication_API'},
            {'id': 4, 'short_name': 'theirs', 'triggered_by': 'api',
             'is_locked_by_replication': True},
            {'id': 5, 'short_name': 'cs-1', 'generation_number': 4},
            {'id': 6, 'generation_number': 4})
        self.make(scripted.hits(*[snapshot | {
            'volume_group': {'ref': '/volume_groups/8'}}
            for snapshot in found]), scripted.Reply(204))
        self.replication.delete_snapshots(8)
        self.assertEqual('/volume_groups/8',
                         self.array.query(0)['volume_group.ref__m_eq'])
        self.assertEqual([{'id': id} for id in (1, 2, 3, 6)],
                         self.array.body(1))

    def test_snapshots_beside_those_of_replication(self):
        """And views of replication snapshots, by name if one is shown."""
        def snapshot(id, **fields):
            return {'id': id, 'volume_group': {'ref': '/volume_groups/8'},
                    'source': {'ref': '/volume_groups/8'}, **fields}
        self.make(*[scripted.hits(
            snapshot(1, generation_number=4),
            snapshot(2, name='g:z', source={'ref': '/snapshots/1'}),
            snapshot(3, source={'ref': '/snapshots/1'}),
            snapshot(4, name='g:a'),
            snapshot(5, name='g:b', source={'ref': '/snapshots/4'}))] * 2)
        self.assertEqual(['/snapshots/3', 'g:a', 'g:b', 'g:z'],
                         self.replication.snapshots_beside(8))
        self.assertEqual(['/snapshots/3', 'g:z'],
                         self.replication.views_of_taken(8))
        self.assertEqual(['/volume_groups/8'] * 2, [
            self.array.query(n)['volume_group.ref__m_eq'] for n in range(2)])

    def _snapshot(self, id, group, generation, **fields):
        return {'id': id, 'generation_number': generation,
                'triggered_by': 'api',
                'volume_group': {'ref': f'/volume_groups/{group}'}} | fields

    def _delete_taken(self, *script):
        self.make(scripted.hits(
            self._snapshot(1, 8, 4),
            self._snapshot(3, 8, 5, triggered_by='Replication_API'),
            self._snapshot(4, 8, 3, triggered_by='Replication'),
            self._snapshot(5, 8, 2, is_locked_by_replication=True),
            self._snapshot(6, 9, 7), self._snapshot(8, 9, None),
            self._snapshot(9, 9, 1, short_name='cs-1')), *script)
        self.replication.delete_taken([8, 9])

    def test_delete_taken(self):
        self._delete_taken(scripted.Reply(204))
        self.assertEqual('/volume_groups/8,/volume_groups/9',
                         self.array.query(0)['volume_group.ref__m_eq'])
        self.assertEqual([{'id': id} for id in (1, 3, 6)],
                         self.array.body(1))

    def test_delete_taken_with_one_refused(self):
        gone = scripted.refusal('', 404)
        self._delete_taken(NO, NO, gone, gone, scripted.Reply(204))
        self.assertEqual(['1', '__bulk', '3', '6'], [
            call.rpartition('/')[2] for call in self.array.calls[2:]])

    @ddt.data(True, False)
    def test_lost_reply_and_reused_id(self, one):
        """OBJ-7: a snapshot that Cinder took meanwhile stays."""
        mine = [self._snapshot(id, 8, 4, short_name=f'repl-{id}')
                for id in (1, 2)][:1 if one else 2]
        theirs = self._snapshot(1, 8, None, short_name='cs-9')
        self.make(scripted.hits(*mine), LOST, *[scripted.hits(theirs)] * 2)
        self.array.script[3 if one else 4:] = []
        self.replication.delete_snapshots(8)
        self.assertEqual(1, sum(call.startswith('DELETE')
                                for call in self.array.calls))

    def test_delete_taken_without_groups(self):
        self.make()
        self.replication.delete_taken([])
