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

"""Failover to another array."""

from unittest import mock

import ddt
import requests

from cinder_k2 import exceptions
from cinder_k2.flows import failover
from cinder_k2 import rest
from tests.unit.flows.failover import pair


@ddt.ddt
class FailOverTest(pair.PairTest):

    def setUp(self):
        super().setUp()
        self.several(3)
        self.odd = self.units[1]

    def test_all(self):
        outcomes = self.over()
        self.assert_served(self.two, outcomes)
        self.assertEqual({False}, {o.copied for o in outcomes.values()})
        self.assertEqual({'target failed_over'},
                         {self.two.state(unit) for unit in self.units})

    def test_no_requests_to_the_other_array(self):
        """REP-9: it may be lost."""
        self.one.lose()
        self.one.control.clear_journal()
        self.assert_served(self.two, self.over())
        self.assertEqual([], self.one.control.journal())

    @ddt.data((pair.SUSPENDED,), ())
    def test_states_that_can_be_failed_over(self, commands):
        for command in commands:
            self.one.command(self.odd, command)
        self.assert_served(self.two, self.over())

    def test_repeated_failover(self):
        """Sessions that are failed over already get no command."""
        self.over(self.odd)
        self.write(self.two, self.odd, 'later')
        self.assert_served(self.two, self.over())
        self.two.control.clear_journal()
        self.assert_served(self.two, self.over())
        self.assertEqual({'GET'}, {e.method for e in
                                   self.two.control.journal()})

    @ddt.data(pair.IN_SYNC, pair.SUSPENDED)
    def test_source_needs_no_failover(self, state):
        unit = self.make('made', source=self.two)
        if state == pair.SUSPENDED:
            self.two.command(unit, pair.SUSPENDED)
        outcomes = self.over()
        self.assert_served(self.two, outcomes)
        self.assertEqual({unit.key: state == pair.IN_SYNC, '000': False},
                         {key: outcomes[key].copied
                          for key in (unit.key, '000')})
        self.assertEqual(f'source {state}', self.two.state(unit))

    def test_idle(self):
        self.one.command(self.odd, pair.SUSPENDED)
        self.one.command(self.odd, pair.IDLE)
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key),
                          'rssn-001 on the array at two.example.org is idle')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_idle_source(self):
        """It is unknown which array has the current data."""
        unit = self.make('made', source=self.two)
        self.two.command(unit, pair.SUSPENDED)
        self.two.command(unit, pair.IDLE)
        outcome = self.over(unit)['made']
        self.assert_stays(outcome, 'is idle as source')
        self.assertFalse(outcome.copied)

    def test_no_session(self):
        for command in (pair.SUSPENDED, pair.IDLE):
            self.one.command(self.odd, command)
        self.two.array.replication.delete(self.two.session(self.odd))
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key), 'two.example.org has '
                          'no replication session for it')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_missing_volume(self):
        """A unit without any of its volumes is not failed over."""
        lost = failover.ReplicationUnit(
            'lost', self.odd.sessions, ('cv-lost',))
        self.assert_stays(self.over(self.units[0], lost)['lost'],
                          'no replicated volume cv-lost')
        self.assertEqual('target in_sync', self.two.state(self.odd))

    def test_missing_volume_of_a_group(self):
        """The others are failed over, but the outcome is not ok."""
        lost = failover.ReplicationUnit('lost', self.odd.sessions,
                                        (*self.odd.volumes, 'cv-lost'))
        outcome = self.over(lost)['lost']
        self.assertEqual((failover.DESTINATION, False, set(self.odd.volumes)),
                         (
            outcome.served_by, outcome.ok, set(outcome.volumes)))
        self.assertIn('no replicated volume cv-lost.', outcome.reason)

    def test_volumes_in_another_group_are_ignored(self):
        self.make('made', source=self.two)
        group = self.two.client.volume_groups.create(
            name='other', quota=0, is_dedup=True)
        for name in ('cv-000-0', 'rcv-made-0'):
            self.two.client.volumes.create(name=name, size=pair.GIB,
                                           volume_group=group.ref)
        for outcome in self.over().values():
            for volume, in_group in outcome.volumes.values():
                self.assertNotEqual(group.id, in_group)
        self.assertTrue(all(o.ok for o in self.over().values()))

    def test_a_group_of_volumes(self):
        self.make('many', volumes=3)
        self.clock.advance(600)
        self.assert_served(self.two, self.over())

    def test_one_unit_is_refused(self):
        self.two.control.set_behaviors(failed_over_from=pair.IN_SYNC)
        self.one.command(self.odd, pair.SUSPENDED)
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key), 'HTTP 400')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_command_has_no_effect(self):
        """The state that the array shows counts, not its reply."""
        honest = self.two.array.replication.command_many

        def lie(sessions, state):
            return honest({id: name for id, name in sessions.items()
                           if id != self.two.session(self.odd).id}, state)

        with mock.patch.object(self.two.array.replication, 'command_many',
                               lie):
            outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key),
                          'is in_sync as target')
        self.assert_served(self.two, outcomes, self.units[::2])

    @ddt.data(True, False)
    def test_no_reply_to_the_command(self, carried_out):
        """The outcome depends on whether it was carried out."""
        real = self.two.array.replication.command_many

        def command(sessions, state):
            if carried_out:
                real(sessions, state)
            raise rest.ServerError('who knows')

        with mock.patch.object(self.two.array.replication, 'command_many',
                               command):
            outcomes = self.over()
        if carried_out:
            self.assert_served(self.two, outcomes)
        else:
            for outcome in outcomes.values():
                self.assert_stays(outcome, 'who knows')

    @ddt.data(True, False)
    def test_late_reply_to_the_command(self, is_bulk):
        """The array takes over a moment after its time is up."""
        replication = self.two.array.replication
        with self.late(self.two):
            real = replication.command_many

            def command(sessions, state):
                real(sessions, state)
                error = rest.errors.NoReply('no reply')
                if is_bulk:
                    raise error
                return dict.fromkeys(sessions, error)

            with mock.patch.object(replication, 'command_many', command):
                self.assert_served(self.two, self.over())

    @ddt.data((1, 'MC_ERR_INPROGRESS'), (1, 'cannot fail over now'),
              (3, 'cannot fail over now'))
    @ddt.unpack
    def test_late_takeover(self, number, text):
        """No reply in time; then the array is busy, or refuses another."""
        wire = pair.SlowWire(self.two, self.clock, carried_out=25)
        units = self.units[:number]
        with wire.losing_replies(lambda request, is_command: (
                pair.refused(request, text) if is_command else None)):
            outcomes = self.over(*units)
        self.assertTrue(wire.is_done)
        self.assert_served(self.two, outcomes, units)

    def test_late_takeover_while_the_array_cannot_be_reached(self):
        wire = pair.SlowWire(self.two, self.clock, carried_out=25)
        back = self.clock.monotonic() + 22

        def cut(request, is_command):
            if self.clock.monotonic() < back:
                raise requests.exceptions.ConnectTimeout('no connection')

        with wire.losing_replies(cut):
            outcomes = self.over(self.odd)
        self.assertTrue(wire.is_done)
        self.assert_served(self.two, outcomes, [self.odd])

    def test_one_is_busy_after_another_was_commanded(self):
        """The state of the first shows late (REP-8)."""
        with self.late(self.two), self.busy_after_one(self.two):
            outcomes = self.over()
        self.assert_served(self.two, outcomes, [self.units[0]])
        for unit in self.units[1:]:
            self.assert_stays(outcomes[unit.key], 'overloaded')

    def test_state_shows_late(self):
        """REP-8."""
        begun = self.clock.monotonic()
        with self.late(self.two):
            self.assert_served(self.two, self.over())
        self.assertEqual(2, self.clock.monotonic() - begun)

    def test_state_never_shows(self):
        """After a minute, the state that the array shows counts."""
        begun = self.clock.monotonic()
        with mock.patch.object(self.two.array.replication, 'command_many',
                               autospec=True, return_value={}):
            for outcome in self.over().values():
                self.assert_stays(outcome, 'is in_sync as target')
        self.assertEqual(60, self.clock.monotonic() - begun)

    def test_refused_units_are_not_waited_for(self):
        begun = self.clock.monotonic()
        with mock.patch.object(
                self.two.array.replication, 'command_many', autospec=True,
                side_effect=lambda sessions, state: dict.fromkeys(
                    sessions, rest.Refused('no'))):
            for outcome in self.over().values():
                self.assertIn('no', outcome.reason)
        self.assertEqual(begun, self.clock.monotonic())

    def test_array_is_lost_after_the_command(self):
        """It may serve what it was told to take over, and nothing else."""
        for state in (pair.SUSPENDED, pair.IDLE):
            self.one.command(self.odd, state)
        honest = self.two.array.replication.command_many

        def command(sessions, state):
            refused = honest(sessions, state)
            self.two.lose()
            return refused

        with mock.patch.object(self.two.array.replication, 'command_many',
                               command):
            error = self.assertRaises(exceptions.FailoverOutcomeUnknown,
                                      self.over)
        self.assertEqual({'000', '002'}, error.keys)
        self.assertIn('The array at two.example.org was told to take over, '
                      'and did not report the result. ', str(error))
        self.assertIn('no route to host', str(error))
        self.two.find_again()
        outcomes = self.over()
        outcomes.pop(self.odd.key)
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_unreachable_array(self):
        self.two.lose()
        self.assertRaises(rest.Unreachable, self.over)

    def test_without_bulk_calls(self):
        self.two.control.set_behaviors(bulk=())
        self.assert_served(self.two, self.over())

    def test_no_units(self):
        self.assertEqual({}, failover.fail_over(self.two.array, [],
                                                self.clock))
