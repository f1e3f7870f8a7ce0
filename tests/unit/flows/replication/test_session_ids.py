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

"""Lost replies while ids of sessions are reused (OBJ-7)."""

import contextlib
import itertools

import ddt

from cinder_k2.array import replication
from cinder_k2 import rest
from tests.unit.flows.replication import pair
from tests.unit import lost

CASES = list(itertools.product((True, False), lost.KINDS))


@ddt.ddt
class SessionIdsTest(pair.Tidy, pair.PairTest):

    def make_array(self, sim, letter):
        self.theirs = []
        sim.control.set_behaviors(reuse_ids=True)
        return super().make_array(sim, letter)

    def take_session(self, start=True):
        """Reuse the id of the session, on both arrays, for a foreign one.

        :param start: whether the foreign session is started
        """
        before = {each[0] for each in self.sessions()}
        here, there = self.here.client, self.there.client
        mine, = here.replication_sessions.search()
        for state in ('suspended', 'idle'):
            if mine.state not in (state, 'idle'):
                here.replication_sessions.update(mine.id, state=state)
                self.pass_time()
        for side in (there, here):
            for session in side.replication_sessions.search():
                side.replication_sessions.delete(session.id)
        group = self.here.volumes.create_group('payroll', True)
        volume = self.here.volumes.create('payroll-1', pair.GIB, group)
        number = self.here.replication.create_session(
            'payroll', peer=self.link.number(), group=group, rpo=300,
            peer_group_name='rpayroll', peer_session_name='rpayroll')
        self.here.replication.add_volume(number, volume, 'rpayroll-1')
        if start:
            here.replication_sessions.update(number, state='in_sync')
            self.pass_time()
        self.theirs = self.sessions()
        self.assertEqual(before, {each[0] for each in self.theirs})

    def pass_time(self):
        """Let the other array follow, without reaching a deadline."""
        self.clock.advance(2)
        self.a.control.tick()

    def sessions(self):
        return [(each.id, each.name, each.state, each.rpo)
                for side in (self.here, self.there)
                for each in side.client.replication_sessions.search()]

    def assert_theirs_stay(self):
        self.assertTrue(self.theirs)
        self.assertEqual(self.theirs, self.sessions())

    @ddt.data(*[(*case, after) for case in CASES for after in (0, 1)])
    @ddt.unpack
    def test_stop(self, sent, error, after):
        """A repeat would suspend or stop the foreign session."""
        with lost.on_request(
                'PATCH', '/replication/sessions', sent=sent, error=error,
                after=after, act=self.take_session):
            self.assertRaises(pair.ERRORS, self.unprotect)
        self.assert_theirs_stay()

    @ddt.data(*CASES)
    @ddt.unpack
    def test_delete(self, sent, error):
        with lost.on_request(
                'DELETE', '/replication/sessions', sent=sent, error=error,
                act=self.take_session), contextlib.suppress(*pair.ERRORS):
            self.unprotect()
        self.assert_theirs_stay()

    @ddt.data(*CASES)
    @ddt.unpack
    def test_interval(self, sent, error):
        """A repeat would also rename the foreign session."""
        session = self.here.replication.find(*pair.NAMES)
        with lost.on_request(
                'PATCH', '/replication/sessions', sent=sent, error=error,
                act=self.take_session):
            self.assertRaises(rest.OtherObject,
                              self.here.replication.set_rpo, session, 600)
        self.assert_theirs_stay()

    def test_wait(self):
        """The state of the foreign session does not count."""
        session = self.there.replication.find(*pair.NAMES)
        self.take_session()
        for state in (replication.IN_SYNC, replication.IDLE):
            self.assertRaises(
                rest.NotFound, self.there.replication.wait, session.id,
                state, names=[session.name])
        self.assert_theirs_stay()

    def test_peer_session_while_it_stops(self):
        """The foreign session is idle, which is the expected state."""
        with lost.on_request(
                'GET', '/replication/sessions/', sent=False, error=rest.Busy,
                act=lambda: self.take_session(start=False), after=1), \
                contextlib.suppress(*pair.ERRORS):
            self.unprotect()
        self.assert_theirs_stay()

    @ddt.data(replication.IN_SYNC, replication.SUSPENDED)
    def test_refused_command(self, state):
        """It is not repeated with the name of the foreign session."""
        session = self.here.replication.find(*pair.NAMES)
        with lost.on_request(
                'PATCH', '/replication/sessions', sent=False,
                error=rest.Refused, act=self.take_session):
            self.assertRaises(
                rest.Refused, self.here.replication.command, session.id,
                state, names=[session.name])
        self.assert_theirs_stay()

    def replace_copy(self):
        """Reuse the id of the former source for a foreign volume."""
        self.tell(self.there, 'idle')
        self.there.replication.delete(
            self.there.replication.find(*pair.NAMES))
        copy = self.there.volumes.find(pair.VOLUME)
        self.there.replication.delete_snapshots(copy.group)
        self.there.volumes.delete(copy.volume, copy.group, [pair.VOLUME])
        self.assertEqual(copy.volume, self.there.volumes.create(
            'payroll', pair.GIB, copy.group))

    @ddt.data(*lost.KINDS)
    def test_extension_after_a_failover(self, error):
        """A repeat would grow the foreign volume (OBJ-7)."""
        self.tell(self.there, 'failed_over')
        self.swap()
        with lost.on_request('PATCH', '/volumes', sent=False, error=error,
                             act=self.replace_copy, after=1):
            self.extend()
        self.assertEqual(
            pair.GIB, self.there.client.volumes.find(name='payroll').size)
