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

"""Replication sessions on a pair of simulated arrays."""

import functools
import itertools
import urllib.parse

import ddt
from oslotest import base

from cinder_k2 import array
from cinder_k2.array.replication import FAILED_OVER
from cinder_k2.array.replication import IDLE
from cinder_k2.array.replication import IN_SYNC
from cinder_k2.array.replication import SOURCE
from cinder_k2.array.replication import SUSPENDED
from cinder_k2.array.replication import TARGET
from cinder_k2 import exceptions
from cinder_k2 import rest
import k2_sim
from tests import offered
from tests.unit import lost

GIB = 1 << 20
HOSTS = ('k2-a.example.org', 'k2-b.example.org')


class PairTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.a, self.b = [
            k2_sim.Array('sdp', clock=self.clock, name=f'sim-k2-{letter}')
            for letter in 'ab']
        k2_sim.connect(self.a, self.b, hosts=HOSTS)
        self.here, self.there = [
            self._array(sim, host)
            for sim, host in zip((self.a, self.b), HOSTS, strict=True)]

    def _array(self, sim, host):
        self.addCleanup(sim.close)
        client = rest.Client(
            rest.Settings(address=host, login='admin', password='admin'),
            adapter=k2_sim.RequestsAdapter(sim), clock=self.clock)
        self.addCleanup(client.close)
        for name in offered.names('sdp'):
            client.capabilities.found(name)
        return array.Array(client, 'Best_Effort_Retention')

    def make(self, number, start=True):
        """Create replicated volumes; return their sessions on ``here``."""
        return [self.make_one(n, start) for n in range(1, number + 1)]

    def make_one(self, n, start=True):
        made = self.here.replication
        group = self.here.volumes.create_group(f'cvg-{n}', True)
        volume = self.here.volumes.create(f'cv-{n}', GIB, group)
        id = self.create_session(n, group)
        made.add_volume(id, volume, f'rcv-{n}')
        if not start:
            return made.get(id)
        made.command(id, IN_SYNC)
        return made.wait(id, IN_SYNC, role=SOURCE)

    def create_session(self, n, group, rpo=300):
        return self.here.replication.create_session(
            f'ssn-{n}', group=group, rpo=rpo,
            peer=self.here.replication.peer(HOSTS[1], 'b'),
            peer_group_name=f'rcvg-{n}', peer_session_name=f'rssn-{n}')

    def peer_of(self, session):
        """The current state of the peer of a session."""
        return self.there.replication.get(session.peer_session)

    def calls(self, sim):
        return [f'{e.method} {e.path.removeprefix("/api/v2/")}'
                for e in sim.control.journal()]


@ddt.ddt
class LifeCycleTest(PairTest):

    def test_set_up(self):
        session, = self.make(1)
        self.assertEqual((SOURCE, IN_SYNC, 'ssn-1', ''), (
            session.role, session.state, session.name, session.why))
        other = self.there.replication.find('ssn-1', 'rssn-1')
        self.assertEqual((TARGET, IN_SYNC, session.peer_session, session.id),
                         (other.role, other.state, other.id,
                          other.peer_session))
        volumes = self.there.replication.volumes_of(['cv-1', 'rcv-1'])
        self.assertEqual({'rcv-1': (volumes['rcv-1'][0], other.group)},
                         volumes)
        self.assertEqual(other, self.there.replication.of_group(other.group))
        self.assertEqual([session], self.here.replication.all())

    @ddt.data('session_name_required', 'session_policies_required',
              'repeat_commands')
    def test_undocumented_variants(self, switch):
        """Section 14: points on which the sources disagree."""
        for sim in (self.a, self.b):
            sim.control.set_behaviors(**{switch: True})
        session, = self.make(1)
        here, there = self.here.replication, self.there.replication
        here.set_rpo(session, 60)
        for state in (SUSPENDED, SUSPENDED, IN_SYNC, SUSPENDED, IDLE, IDLE):
            self.assertEqual(state, here.command(session.id, state).state)
            there.wait(session.peer_session, state, role=TARGET)
        self.assertTrue(there.delete(there.get(session.peer_session)))
        self.assertTrue(here.delete(session))
        self.assertFalse(here.delete(session))

    def test_leftovers_of_a_killed_service_are_taken_over(self):
        group = self.here.volumes.create_group('cvg-1', True)
        volume = self.here.volumes.create('cv-1', GIB, group)
        found = []
        for rpo in (300, 300, 60):
            id = self.create_session(1, group, rpo)
            found.append((id, self.here.replication.add_volume(
                id, volume, 'rcv-1')))
        self.assertEqual(1, len(set(found)))
        self.assertEqual(60, self.here._client.replication_sessions.get(
            id).rpo)

    def test_session_of_another_group_is_refused(self):
        self.make(1, start=False)
        group = self.here.volumes.create_group('cvg-2', True)
        self.assertRaises(rest.Refused, self.create_session, 1, group)

    def test_refused_rpo(self):
        group = self.here.volumes.create_group('cvg-1', True)
        error = self.assertRaises(rest.Refused, self.create_session, 1,
                                  group, 61)
        self.assertIn('rpo', str(error))

    def test_unreachable_peer(self):
        """REP-19."""
        self.a.control.cut_link()
        group = self.here.volumes.create_group('cvg-1', True)
        error = self.assertRaises(rest.Refused,
                                  self.create_session, 1, group)
        self.assertIn(f'{HOSTS[1]} is disconnected, not ok', str(error))
        self.a.control.restore_link()
        self.create_session(1, group)

    def test_unknown_peer(self):
        self.assertRaises(exceptions.ArrayNotSupported,
                          self.here.replication.peer, '192.0.2.9', 'x')
        self.assertEqual(
            self.here.replication.peer(HOSTS[1], 'x'),
            self.here.replication.peer('192.0.2.9', 'sim-k2-b'))

    def test_peer_that_is_not_read_by_its_id(self):
        """It is searched for by its address instead."""
        peer = self.here.replication.peer(HOSTS[1], 'b')
        self.a.control.set_behaviors(
            refuse_unlisted='400',
            refuse_only=['GET replication/peer_k2arrays/#',
                         'GET replication/peer_k2arrays id'])
        self.assertEqual('', self.here.replication.link_trouble(peer))
        self.a.control.cut_link()
        self.a.control.clear_journal()
        self.assertIn(f'{HOSTS[1]} is disconnected',
                      self.here.replication.link_trouble(peer))
        self.assertEqual({'mgmt_host'}, {
            key for entry in self.a.control.journal()
            for key in urllib.parse.parse_qs(entry.query)
            if not key.startswith('__')})

    @ddt.data(0, 5, 50)
    def test_slow_start(self, seconds):
        """REP-6."""
        self.a.control.set_behaviors(start_seconds=seconds)
        session, = self.make(1)
        self.assertEqual(IN_SYNC, session.state)

    def test_start_timeout(self):
        self.a.control.set_behaviors(start_seconds=61)
        error = self.assertRaises(rest.Busy, self.make, 1)
        self.assertEqual('MC_ERR_START_TIMEOUT', error.code)

    def test_peer_that_follows_late(self):
        """REP-8."""
        self.b.control.set_behaviors(follow_seconds=20)
        session, = self.make(1)
        wait = functools.partial(self.there.replication.wait,
                                 session.peer_session, IN_SYNC, role=TARGET)
        error = self.assertRaises(exceptions.ReplicationTimeout, wait,
                                  timeout=5)
        self.assertIn('is idle as target and not in_sync as target after 5',
                      str(error))
        wait()

    def test_removal_leaves_nothing(self):
        """REP-15."""
        session, = self.make(1)
        self.here.replication.take_snapshots([session])
        for state in (SUSPENDED, IDLE):
            self.here.replication.command(session.id, state)
        self.assertTrue(self.here.replication.remove_volume(
            self.here.replication.volumes_of(['cv-1'])['cv-1'][0]))
        other = self.peer_of(session)
        for side, one, name in ((self.there, other, 'rcv-1'),
                                (self.here, session, 'cv-1')):
            side.replication.delete(one)
            side.replication.delete_snapshots(one.group)
            side.volumes.delete(*side.replication.volumes_of([name])[name])
            side.volumes.delete_group(one.group, [])
        self.assertEqual({}, self.a.control.leftovers())
        self.assertEqual({}, self.b.control.leftovers())

    def test_removal_keeps_snapshots_of_cinder(self):
        session, = self.make(1)
        backing = self.here.volumes.find('cv-1')
        snapshot = self.here.snapshots.create('cs-1', backing)
        self.here.replication.take_snapshots([session])
        for state in (SUSPENDED, IDLE):
            self.here.replication.command(session.id, state)
        self.here.replication.delete(session)
        self.here.replication.delete_snapshots(session.group)
        self.assertEqual([snapshot.snapshot], [
            s.id for s in self.here._client.snapshots.search()])


@ddt.ddt
class ManyTest(PairTest):

    def _fail_over(self, sessions):
        return self.there.replication.command_many(
            {s.peer_session: f'r{s.name}' for s in sessions}, FAILED_OVER)

    def test_one_call_for_all(self):
        sessions = self.make(10)
        self.b.control.clear_journal()
        self.there.replication.find_many(
            [f'rssn-{n}' for n in range(1, 11)])
        self.assertEqual({}, self._fail_over(sessions))
        self.assertEqual(['GET replication/sessions',
                          'PATCH replication/sessions/__bulk'],
                         self.calls(self.b))
        self.assertEqual({FAILED_OVER}, {
            s.state for s in self.there.replication.all()})

    def test_one_session_is_refused(self):
        sessions = self.make(8)
        bad = sessions[4]
        for state in (SUSPENDED, IDLE):
            self.here.replication.command(bad.id, state)
        refused = self._fail_over(sessions)
        self.assertEqual([bad.peer_session], list(refused))
        self.assertIn('rssn-5', str(refused[bad.peer_session]))
        self.assertEqual({FAILED_OVER: 7, IDLE: 1}, self._states())

    def _states(self):
        states = [s.state for s in self.there.replication.all()]
        return {state: states.count(state) for state in set(states)}

    def test_array_without_bulk(self):
        self.b.control.set_behaviors(bulk=())
        sessions = self.make(8)
        self.assertEqual({}, self._fail_over(sessions))
        self.assertEqual({FAILED_OVER: 8}, self._states())

    def test_repeated_command(self):
        """Sessions that are in the state already are not refused."""
        sessions = self.make(3)
        for bulk in (('*',), ()):
            self.b.control.set_behaviors(bulk=bulk)
            self.assertEqual({}, self._fail_over(sessions))

    def test_one_session_is_missing(self):
        sessions = self.make(4)
        gone = sessions[1]
        for state in (SUSPENDED, IDLE):
            self.here.replication.command(gone.id, state)
        self.there.replication.delete(
            self.there.replication.get(gone.peer_session))
        self.assertEqual([gone.peer_session], list(self._fail_over(sessions)))
        self.assertEqual({FAILED_OVER: 3}, self._states())

    def test_lost_reply(self):
        sessions = self.make(3)
        for sequences in (True, False):
            self.b.control.set_behaviors(sequences=sequences)
            for fault in ({'kind': 'reset', 'commit': 'after'},
                          {'kind': 'status', 'status': 502},
                          {'kind': 'busy'}):
                self.b.control.add_fault(fault | {
                    'method': 'PATCH', 'times': 1})
                self.assertEqual({}, self._fail_over(sessions))
            self.assertEqual({FAILED_OVER: 3}, self._states())

    @ddt.data(*itertools.product(
        ('known', 'learnt', 'refused'), lost.KINDS, (True, False)))
    @ddt.unpack
    def test_lost_reply_and_reused_id(self, bulk, error, sent):
        """OBJ-7: that session gets no command; the others get it again."""
        name = 'bulk:replication/sessions:update'
        known = self.there._client.capabilities
        if bulk != 'known':
            known._verdicts.pop(name)
        if bulk == 'refused':
            known.refuse(name, rest.Refused('no'))
        sessions = self.make(3)
        other = sessions[0].peer_session

        def rename():
            self.there._client.replication_sessions.update(
                other, name='payroll')
        with lost.on_request('PATCH', '/replication/sessions', act=rename,
                             sent=sent, error=error):
            refused = self._fail_over(sessions)
        self.assertEqual([other], list(refused))
        self.assertIn('rssn-1', str(refused[other]))
        self.assertIn('any more', str(refused[other]))
        self.assertIn(f'K2 array {self.there.address}: ', str(refused[other]))
        states = {s.name: s.state for s in self.there.replication.all()}
        self.assertEqual(FAILED_OVER if sent else IN_SYNC, states['payroll'])
        self.assertEqual({FAILED_OVER}, {
            states[f'rssn-{n}'] for n in (2, 3)})

    def test_refused_and_reused_id(self):
        sessions = self.make(3)
        other = sessions[0].peer_session
        self.there._client.replication_sessions.update(
            other, name='payroll')
        for state in (SUSPENDED, IDLE):
            self.here.replication.command(sessions[0].id, state)
        self.assertIn('payroll now, not of rssn-1 any more',
                      str(self._fail_over(sessions)[other]))

    def test_failback(self):
        """REP-11, REP-12, REP-14."""
        here, there = self.here.replication, self.there.replication
        sessions = self.make(3)
        away = {s.peer_session: f'r{s.name}' for s in sessions}
        home = {s.id: s.name for s in sessions}
        self.assertEqual({}, self._fail_over(sessions))
        self.a.control.set_behaviors(snapshot_seconds=30)
        self.b.control.set_behaviors(snapshot_seconds=3)
        self.assertEqual({}, there.command_many(away, IN_SYNC))
        for session in home:
            here.wait(session, IN_SYNC, role=TARGET)
        for _ in range(2):
            taken = there.take_snapshots(list(
                there.get_many(away).values()))
            self.assertEqual(set(away), set(taken))

            def arrived(session):
                return session.has_arrived(taken[session.id].generation)

            self.assertFalse(any(map(arrived, there.all())))
            self.b.control.advance(600)
            self.assertTrue(all(map(arrived, there.all())))
        self.assertEqual({}, here.command_many(home, FAILED_OVER))
        there.wait(next(iter(away)), SUSPENDED, role=SOURCE)
        self.assertEqual({}, here.command_many(home, IN_SYNC))
        for session in sessions:
            self.assertEqual((IN_SYNC, SOURCE, IN_SYNC, TARGET), (
                here.get(session.id).state, here.get(session.id).role,
                self.peer_of(session).state, self.peer_of(session).role))

    def test_no_snapshot_of_a_suspended_session(self):
        sessions = self.make(4)
        self.here.replication.command(sessions[2].id, SUSPENDED)
        taken = self.here.replication.take_snapshots(sessions)
        self.assertEqual([s.id for s in sessions if s is not sessions[2]],
                         list(taken))

    def _snapshots(self):
        return {s.id for s in self.here._client.snapshots.search()
                if s.triggered_by == 'api'}

    def test_snapshots_with_a_lost_reply(self):
        """They are found by their generation, not taken again."""
        sessions = self.make(2)
        for sequences in (True, False):
            before = self._snapshots()
            self.a.control.set_behaviors(sequences=sequences)
            self.a.control.add_fault(method='POST', kind='reset', times=1,
                                     commit='after')
            taken = self.here.replication.take_snapshots(sessions)
            self.assertEqual(2, len(taken))
            for id, snapshot in taken.items():
                self.assertTrue(self.here.replication.get(id).has_arrived(
                    snapshot.generation))
            self.assertEqual({each.id for each in taken.values()},
                             self._snapshots() - before)

    def test_delete_taken(self):
        """On both arrays, while the sessions run."""
        sessions = self.make(3)
        for _ in range(3):
            self.here.replication.take_snapshots(sessions)
        for side, groups in (
                (self.here, [s.group for s in sessions]),
                (self.there, [self.peer_of(s).group for s in sessions])):
            search = side._client.snapshots.search
            before = len(search())
            side.replication.delete_taken(groups)
            side.replication.delete_taken(groups)
            self.assertEqual(before - 6, len(search()))
        for session in sessions:
            self.assertEqual(IN_SYNC,
                             self.here.replication.get(session.id).state)

    def test_lost_peer(self):
        """REP-19: the session shows a reason; the peer can fail over."""
        session, = self.make(1)
        self.a.control.cut_link()
        session = self.here.replication.get(session.id)
        self.assertEqual(SUSPENDED, session.state)
        self.assertTrue(session.why)
        self.assertRaises(rest.Refused, self.here.replication.command,
                          session.id, IN_SYNC)
        self.assertEqual({}, self._fail_over([session]))
        self.assertEqual(FAILED_OVER, self.there.replication.get(
            session.peer_session).state)


class OwnPeerTest(base.BaseTestCase):

    def test_an_array_that_is_its_own_peer(self):
        """REP-21: the names distinguish source and target."""
        clock = k2_sim.FakeClock()
        sim = k2_sim.Array('sdp', clock=clock)
        self.addCleanup(sim.close)
        k2_sim.connect(sim, hosts=HOSTS[:1])
        client = rest.Client(
            rest.Settings(address=HOSTS[0], login='admin',
                          password='admin'),
            adapter=k2_sim.RequestsAdapter(sim), clock=clock)
        self.addCleanup(client.close)
        for name in offered.names('sdp'):
            client.capabilities.found(name)
        made = array.Array(client, 'Best_Effort_Retention')
        group = made.volumes.create_group('cvg-1', True)
        volume = made.volumes.create('cv-1', GIB, group)
        session = made.replication.create_session(
            'ssn-1', peer=made.replication.peer(HOSTS[0], 'x'), group=group,
            rpo=300, peer_group_name='rcvg-1', peer_session_name='rssn-1')
        made.replication.add_volume(session, volume, 'rcv-1')
        made.replication.command(session, IN_SYNC)
        found = made.replication.find_many(['ssn-1', 'rssn-1'])
        self.assertEqual({'ssn-1': SOURCE, 'rssn-1': TARGET}, {
            name: one.role for name, one in found.items()})
        self.assertEqual({IN_SYNC},
                         {one.state for one in found.values()})
