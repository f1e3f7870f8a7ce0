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

"""Failback, from any state and with faults."""

import contextlib
import dataclasses
import itertools
import logging
from unittest import mock

import ddt
import fixtures

from cinder_k2 import exceptions
from cinder_k2.flows import failover
from cinder_k2.flows.failover import failback
from cinder_k2 import rest
from tests.unit.flows.failover import pair

ANEW = ('Turn its replication off and on again, by its type or its group: a '
        'new copy is made then.')


@ddt.ddt
class FailBackTest(pair.AwayTest):

    def test_all(self):
        self.attach_all(self.one)
        self.away()
        self.assert_home(self.back())
        self.assertEqual(set(), self.one.mapped() | self.two.mapped())

    def test_first_array_was_lost(self):
        self.one.lose()
        self.away()
        self.one.find_again()
        self.assert_home(self.back())

    def test_repeated_failover_and_failback(self):
        for turn in range(3):
            self.away()
            self.write_all(self.two, f'turn {turn}')
            self.assert_home(self.back())
            self.assert_home(self.back())
            self.attach_all(self.one)
            self.write_all(self.one, f'at home {turn}')
            self.clock.advance(600)

    def test_writes_until_hosts_are_detached_arrive(self):
        self.one.control.set_behaviors(snapshot_seconds=30.0)
        self.two.control.set_behaviors(snapshot_seconds=30.0)
        self.away()

        def unmap(array, volumes):
            if array is self.two.array:
                self.assertEqual({1}, {len(self.arrived(unit))
                                       for unit in self.units})
                self.write_all(self.two, 'last words')
            self.unmap(array, volumes)

        self.assert_home(self.back(unmap=unmap))

    def arrived(self, unit):
        """Contents of the replication snapshots on ``one``."""
        volume = self.one.volumes(unit)[0]
        return [self.one.control.read(volume, snapshot.id)
                for snapshot in self.one.asked_for()
                if snapshot.volume_group.id == self.one.session(unit).group]

    def test_no_host_is_detached_before_all_data_arrived(self):
        """The others wait for a slow unit, with their hosts attached."""
        self.two.control.set_behaviors(snapshot_seconds=30.0)
        self.away()
        slow = self.two.session(self.odd).id
        take = self.two.array.replication.take_snapshots
        detached = []

        def late(sessions):
            if self.clock.monotonic() < begun + 200:
                sessions = [s for s in sessions if s.id != slow]
            return take(sessions)

        def unmap(array, volumes):
            if array is self.two.array:
                detached.append((self.clock.monotonic() - begun,
                                 len(volumes)))
            self.unmap(array, volumes)

        begun = self.clock.monotonic()
        with mock.patch.object(failback, '_MOST_SNAPSHOTS', 100), \
                mock.patch.object(self.two.array.replication,
                                  'take_snapshots', late):
            self.assert_home(self.back(unmap=unmap))
        [(when, volumes)] = detached
        self.assertEqual(3, volumes)
        self.assertGreater(when, 200)

    @contextlib.contextmanager
    def no_contact(self, seconds, refusal=''):
        """Let the first array show states from before it was lost (REP-9).

        Yields a list of when, in seconds, commands were sent to the other.

        :param seconds: for how long the first array shows them
        :param refusal: the error of commands to the other array until then;
            empty if it carries them out
        """
        one, two = (place.array.replication for place in (self.one, self.two))
        find, command = one.find_many, two.command_many
        begun, told = self.clock.monotonic(), []

        def passed():
            return self.clock.monotonic() - begun

        def outdated(names):
            return {name: dataclasses.replace(session, state='in_sync')
                    if passed() < seconds and not (told and not refusal)
                    else session for name, session in find(names).items()}

        def turn(sessions, state):
            told.append(passed())
            if refusal and passed() < seconds:
                return dict.fromkeys(sessions, refusal)
            return command(sessions, state)

        with mock.patch.object(one, 'find_many', outdated), \
                mock.patch.object(two, 'command_many', turn):
            yield told

    def test_array_has_just_come_back(self):
        self.away()
        with self.no_contact(20, 'HTTP 400: has not met it'):
            self.assert_home(self.back())

    def test_array_never_shows_the_failover(self):
        self.away()
        with self.no_contact(1e6) as told:
            self.assert_home(self.back())
        self.assertGreaterEqual(told[0], 60)

    def test_volumes_to_be_overwritten_are_detached_first(self):
        """Row 7 of section 10.4: the array would refuse to overwrite them."""
        self.attach_all(self.one)
        self.away()
        unmapped = []

        def unmap(array, volumes):
            unmapped.append((array is self.one.array, set(volumes), {
                place.state(self.odd) for place in (self.one, self.two)}))
            self.unmap(array, volumes)

        self.assert_home(self.back(unmap=unmap))
        names = {name for unit in self.units for name in unit.volumes}
        self.assertEqual([
            (True, names, {'source suspended', 'target failed_over'}),
            (False, names, {'source in_sync', 'target in_sync'})], unmapped)

    def test_ids_are_those_of_the_array(self):
        self.away()
        given = {}

        def unmap(array, volumes):
            given.setdefault(array.address, {}).update(volumes)

        self.back(unmap=unmap)
        for place in (self.one, self.two):
            self.assertEqual(
                {ids[0] for ids in given[place.client.address].values()},
                {place.volumes(unit)[0] for unit in self.units})

    # From any state

    @ddt.data('two failed_over', 'two in_sync', 'two suspended',
              'one failed_over', 'one in_sync', 'one suspended')
    def test_from_every_intermediate_state(self, last):
        """One unit has already got all commands up to this one."""
        self.away()
        for step in ('two failed_over', 'two in_sync', 'two suspended',
                     'one failed_over', 'one in_sync', 'one suspended'):
            place = getattr(self, step.partition(' ')[0])
            if step == 'one failed_over':
                self.reserve([self.odd.key])
                self.unmap(self.two.array, self.ids(self.two, self.odd))
                self.two.command(self.odd, pair.IN_SYNC)
                self.clock.advance(600)
            if step != 'two failed_over':
                place.command(self.odd, step.partition(' ')[2])
            if step == last:
                break
        self.assert_home(self.back())

    def test_created_after_the_failover(self):
        """Its session has the other name and the other role."""
        self.away()
        unit = self.make('made', source=self.two)
        self.two.attach(self.two.volumes(unit))
        self.write(self.two, unit, 'newer')
        self.assert_home(self.back())
        self.assert_served(self.two, self.over())

    def test_array_follows_late(self):
        """REP-8. Snapshots that it still needs are deleted later."""
        for place in (self.one, self.two):
            place.control.set_behaviors(
                follow_seconds=7.0, start_seconds=4.0, round_seconds=90.0,
                snapshot_seconds=5.0)
        self.away()
        self.clock.advance(60)
        outcomes = self.back()
        self.assertEqual(3, len(self.one.asked_for()))
        self.assertEqual(0, self.refusals('DELETE'))
        self.clock.advance(90)
        self.assert_served(self.one, outcomes)
        self.assert_home(self.back())

    def test_interrupted_while_the_other_array_follows(self):
        self.away()
        self.one.control.set_behaviors(follow_seconds=7.0)
        self.two.command(self.odd, pair.IN_SYNC)
        self.assertEqual('source suspended', self.one.state(self.odd))
        self.assert_home(self.back(self.odd), [self.odd])

    def test_link_has_just_broken(self):
        """REP-8: the first array has yet to follow, before and after."""
        self.away()
        self.two.command(self.odd, pair.IN_SYNC)
        self.one.control.set_behaviors(follow_seconds=7.0)
        self.two.command(self.odd, pair.SUSPENDED)
        self.assertEqual('target in_sync', self.one.state(self.odd))
        self.clock.advance(7)
        self.assertEqual('target suspended', self.one.state(self.odd))
        self.assert_home(self.back())

    @ddt.data(0, 7)
    def test_replication_at_home_was_suspended(self, seconds):
        """It is resumed as soon as both arrays show that it is suspended."""
        self.away()
        self.assert_home(self.back())
        self.two.control.set_behaviors(follow_seconds=7.0)
        self.one.command(self.odd, pair.SUSPENDED)
        self.clock.advance(seconds)
        self.assertEqual('target suspended' if seconds else 'target in_sync',
                         self.two.state(self.odd))
        self.assert_home(self.back())

    def refusals(self, method):
        return sum(e.method == method and e.status >= 400
                   for place in (self.one, self.two)
                   for e in place.control.journal())

    @ddt.data(('one',), ('two',), ('one', 'two'))
    def test_state_shows_late(self, names):
        self.away()
        with self.late(*(getattr(self, name) for name in names)):
            self.assert_home(self.back())

    def test_a_group_of_volumes(self):
        self.make('many', volumes=3)
        self.clock.advance(600)
        self.away()
        self.assert_home(self.back())

    # Units that cannot be failed back

    def all_but_odd(self, *words, state):
        """Fail back all units but one, which is still served by ``two``."""
        outcomes = self.back()
        self.assert_stays(outcomes.pop(self.odd.key), *words)
        self.assertEqual(state, self.two.state(self.odd))
        self.assertEqual(set(self.two.volumes(self.odd)), self.two.mapped())
        self.assert_home(outcomes, self.units[::2])

    def test_session_missing_on_the_first_array(self):
        self.away()
        self.one.command(self.odd, pair.IDLE)
        self.one.array.replication.delete(self.one.session(self.odd))
        self.all_but_odd('one.example.org has no replication session',
                         state='target failed_over')

    def test_session_missing_on_the_second_array(self):
        self.away()
        self.two.command(self.odd, pair.IDLE)
        self.two.array.replication.delete(self.two.session(self.odd))
        self.all_but_odd('two.example.org has no replication session',
                         state=None)

    def test_sessions_that_do_not_belong_together(self):
        """Someone created a session on each array, with the former names."""
        self.away()
        places = {self.two: self.one, self.one: self.two}
        groups = {place: place.session(self.odd).group for place in places}
        for place in places:
            place.command(self.odd, pair.IDLE)
        for place in places:
            place.array.replication.delete(place.session(self.odd))
        for place, other in places.items():
            sessions = place.array.replication
            number = sessions.create_session(
                'ssn-001' if place is self.one else 'rssn-001',
                peer=sessions.peer(other.client.address, 'any'),
                group=groups[place], rpo=300, peer_group_name='elsewhere',
                peer_session_name='elsewhere')
            sessions.add_volume(number, place.volumes(self.odd)[0],
                                'elsewhere')
            sessions.command(number, pair.IN_SYNC)
        begun = self.clock.monotonic()
        self.all_but_odd(
            'Its two sessions do not belong together: see which one is with '
            'another array, or of an earlier replication. Replication '
            'session rssn-001 on the array at two.example.org is in_sync as '
            'source.', state='source in_sync')
        self.assertLess(self.clock.monotonic() - begun, 60)

    def test_session_was_created_anew_meanwhile(self):
        """The new session has another copy, to which nothing has arrived."""
        self.away()
        take = self.two.array.replication.take_snapshots

        def replace_one(sessions):
            taken = take(sessions)
            find = self.two.array.replication.find_many
            self.useFixture(fixtures.MockPatchObject(
                self.two.array.replication, 'find_many', lambda names: {
                    name: dataclasses.replace(
                        session, id=session.id + 100 * (
                            name in self.odd.sessions))
                    for name, session in find(names).items()}))
            return taken

        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               replace_one):
            outcomes = self.back()
        self.assert_stays(outcomes.pop(self.odd.key),
                          'Its replication was started again meanwhile; try '
                          'again.')
        self.assertEqual(set(self.two.volumes(self.odd)), self.two.mapped())

    def test_idle(self):
        self.away()
        self.two.command(self.odd, pair.IDLE)
        own = self.automatic_snapshots()
        self.all_but_odd('rssn-001 on the array at two.example.org is idle',
                         ANEW, state='target idle')
        self.assertEqual(own, self.automatic_snapshots())

    def automatic_snapshots(self):
        """Snapshots of one unit that replication takes on its own."""
        group = self.two.client.volume_groups.find(name='rcvg-001')
        found = self.two.client.snapshots.search(volume_group=group.ref)
        self.assertNotEqual([], found)
        return found

    def test_volume_missing_on_the_first_array(self):
        self.away()
        self.one.client.volumes.update(self.one.volumes(self.odd)[0],
                                       name='cv-other')
        self.all_but_odd('one.example.org has no replicated volume '
                         'cv-001-0', state='target failed_over')

    def test_refused_session(self):
        """The caller has not detached its host on the first array."""
        self.away()
        self.one.attach(self.one.volumes(self.odd))

        def unmap(array, volumes):
            if array is self.two.array:
                self.unmap(array, volumes)

        outcomes = self.back(unmap=unmap)
        self.assert_stays(outcomes.pop(self.odd.key), 'HTTP 400')
        self.assert_home(outcomes, self.units[::2])

    def test_broken_link(self):
        self.away()
        self.one.control.cut_link()
        for outcome in self.back().values():
            self.assert_stays(outcome, 'HTTP 400')
            self.assertNotIn('attach', outcome.reason)
        self.assertEqual(3, len(self.two.mapped()))
        self.one.control.restore_link()
        self.assert_home(self.back())

    @ddt.data(1, 2)
    def test_link_breaks_while_data_is_copied(self, round):
        for place in (self.one, self.two):
            place.control.set_behaviors(snapshot_seconds=30.0,
                                        follow_seconds=3.0)
        self.away()
        self.clock.advance(60)
        taken = itertools.count(1)
        take = self.two.array.replication.take_snapshots

        def take_and_break(sessions):
            try:
                return take(sessions)
            finally:
                if next(taken) == round:
                    self.one.control.cut_link()
                    self.assertEqual('source suspended',
                                     self.two.state(self.odd))
                    self.one.control.restore_link()

        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               take_and_break):
            self.assert_home(self.back())
        self.assertEqual(4, next(taken))

    def test_data_does_not_arrive_in_time(self):
        """Hosts stay attached; the next failback continues."""
        self.two.control.set_behaviors(snapshot_seconds=5000.0)
        self.away()
        begun = self.clock.monotonic()
        for outcome in self.back(timeout=300).values():
            self.assert_stays(outcome, 'After 300 seconds')
            self.assertNotIn('attach', outcome.reason)
        self.assertLess(self.clock.monotonic() - begun, 330)
        self.assertEqual(3, len(self.two.mapped()))
        self.assertEqual(set(), self.reserved)
        self.two.control.set_behaviors(snapshot_seconds=0.0)
        self.clock.advance(20000)
        self.assert_home(self.back())

    def test_last_changes_do_not_arrive_in_time(self):
        """They get ten minutes, even if less is left of the timeout."""
        self.away()
        begun = self.clock.monotonic()

        def unmap(array, volumes):
            if array is self.two.array:
                self.two.control.set_behaviors(snapshot_seconds=5000.0)
            self.unmap(array, volumes)

        for outcome in self.back(timeout=30, unmap=unmap).values():
            self.assert_stays(
                outcome, 'After 600 seconds', 'Hosts have lost it on the '
                'array at two.example.org: attach it again.')
        self.assertLess(self.clock.monotonic() - begun, 630)
        self.two.control.set_behaviors(snapshot_seconds=0.0)
        self.clock.advance(20000)
        self.assert_home(self.back())

    def test_pauses_between_reads(self):
        """One second at first, and ten at most."""
        self.two.control.set_behaviors(snapshot_seconds=5000.0)
        self.away()
        with mock.patch.object(self.clock, 'sleep',
                               wraps=self.clock.sleep) as sleep:
            self.back(timeout=200)
        pauses = [call.args[0] for call in sleep.mock_calls]
        self.assertEqual([1.0, 1.5, 2.25], pauses[:3])
        self.assertEqual((10.0, 200.0), (max(pauses), sum(pauses)))
        self.assertLess(pauses[-1], 10)

    def test_progress_is_logged(self):
        """Once a minute, with the first three units that are late."""
        for number in range(3, 6):
            self.make(f'{number:03}')
        self.clock.advance(600)
        self.away()
        self.two.control.set_behaviors(snapshot_seconds=5000.0)
        logging.disable(logging.NOTSET)
        with self.assertLogs(pair.NAME, 'INFO') as told:
            self.back(timeout=200)
        lines = [record.getMessage() for record in told.records
                 if record.levelno == logging.INFO]
        self.assertEqual(3, len(lines))
        for line in lines:
            for words in ('one.example.org', '0 of 6', '000, 001, 002 and 3'):
                self.assertIn(words, line)
            self.assertNotIn('003', line)

    @ddt.data('one', 'two')
    def test_hosts_cannot_be_detached(self, name):
        self.away()

        def unmap(array, volumes):
            if array is getattr(self, name).array:
                raise ValueError('a host holds on')
            self.unmap(array, volumes)

        for outcome in self.back(unmap=unmap).values():
            self.assert_stays(outcome, 'a host holds on')
        self.assert_home(self.back())

    @ddt.data('one', 'two')
    def test_host_of_one_unit_cannot_be_detached(self, name):
        """The others are unmapped one by one, and fail back."""
        self.away()
        calls = []

        def unmap(array, volumes):
            if array is getattr(self, name).array:
                calls.append(sorted(volumes))
                if set(volumes) & set(self.odd.volumes):
                    raise exceptions.StillMapped('Volume 1', 'is in use.')
            self.unmap(array, volumes)

        outcomes = self.back(unmap=unmap)
        outcome = outcomes.pop(self.odd.key)
        self.assert_stays(outcome, 'Volume 1 is in use.')
        self.assertNotIn('attach', outcome.reason)
        names = [list(unit.volumes) for unit in self.units]
        self.assertEqual([[name for name, in names], *names], calls)
        self.assertEqual(set(self.two.volumes(self.odd)), self.two.mapped())
        self.assert_served(self.one, outcomes, self.units[::2])
        self.assert_home(self.back())

    def test_array_is_lost_while_hosts_are_detached(self):
        """Volumes are not unmapped one by one: no request would succeed."""
        self.away()
        calls = []

        def unmap(array, volumes):
            calls.append(sorted(volumes))
            raise rest.Unreachable('no route to host')

        for outcome in self.back(unmap=unmap).values():
            self.assert_stays(outcome, 'no route to host')
        self.assertEqual([[unit.volumes[0] for unit in self.units]], calls)

    def test_unit_that_cannot_be_reserved(self):
        """Its row has changed meanwhile: its hosts stay attached."""
        self.away()
        reserve = self.reserve
        with mock.patch.object(self, 'reserve', lambda keys: reserve(
                [key for key in keys if key != self.odd.key])):
            outcomes = self.back()
        outcome = outcomes.pop(self.odd.key)
        self.assert_stays(outcome)
        self.assertEqual('It was changed meanwhile; try again.',
                         outcome.reason)
        self.assertEqual(set(self.two.volumes(self.odd)), self.two.mapped())
        self.assertEqual('source in_sync', self.two.state(self.odd))
        self.assert_served(self.one, outcomes, self.units[::2])
        self.assert_home(self.back())

    # Volumes that have grown while they were failed over

    def grow_away(self, gib=3):
        """Grow one volume on ``two`` while the first array is lost."""
        self.one.control.set_behaviors(grow_suspended=True)
        self.one.lose()
        self.away()
        self.two.array.volumes.grow(
            self.two.volumes(self.odd)[0], gib * pair.GIB, ())
        self.one.find_again()

    def sizes(self, place):
        """GiB of the volumes of all units."""
        return [place.client.volumes.get(place.volumes(unit)[0]).size
                // pair.GIB for unit in self.units]

    def test_volume_that_has_grown(self):
        """VOL-4: its copy grows before the replication is reversed."""
        self.grow_away()
        self.assert_home(self.back())
        for place in (self.one, self.two):
            self.assertEqual([1, 3, 1], self.sizes(place))

    def test_volumes_of_equal_size_are_not_grown(self):
        self.away()
        self.one.control.clear_journal()
        self.assert_home(self.back())
        self.assertFalse([call for call in self.one.calls()
                          if call.startswith('PATCH volumes')])

    def test_copy_larger_than_its_volume(self):
        """VOL-2: it cannot shrink, so it is left alone."""
        self.away()
        self.one.control.set_behaviors(grow_suspended=True)
        volume = self.one.volumes(self.odd)[0]
        self.one.array.volumes.grow(volume, 3 * pair.GIB, ())
        self.one.control.clear_journal()
        self.back()
        self.assertEqual(0, self.one.calls()[f'PATCH volumes/{volume}'])

    def test_copy_that_cannot_grow(self):
        """The unit is not failed back: the array would not reverse it."""
        self.grow_away()
        self.one.control.set_behaviors(grow_suspended=False)
        self.all_but_odd('It has grown, and its copy cannot: ', 'HTTP 400',
                         ANEW, state='target failed_over')
        self.assertEqual([1, 1, 1], self.sizes(self.one))
        self.one.control.set_behaviors(grow_suspended=True)
        self.assert_home(self.back())

    def test_copy_that_cannot_grow_now(self):
        """The reason does not advise a new copy: another try may succeed."""
        self.grow_away()
        volume = self.one.volumes(self.odd)[0]
        self.one.control.add_fault(kind='busy', method='PATCH',
                                   path=f'volumes/{volume}')
        outcomes = self.back()
        outcome = outcomes.pop(self.odd.key)
        self.assert_stays(outcome, 'It has grown, and its copy cannot now: ')
        self.assertNotIn(ANEW, outcome.reason)
        self.assert_home(outcomes, self.units[::2])
        self.one.control.clear_faults()
        self.assert_home(self.back())
        self.assertEqual([1, 3, 1], self.sizes(self.one))

    # The last command

    @contextlib.contextmanager
    def last_command(self, raises=None):
        """Lose the first array once it has taken over.

        :param raises: the error to raise in place of its reply
        """
        honest = self.one.array.replication.command_many

        def command(sessions, state):
            refused = honest(sessions, state)
            if state == pair.FAILED_OVER:
                self.one.lose()
                if raises:
                    raise raises
            return refused

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command):
            yield
        self.one.find_again()

    def test_array_is_lost_with_the_reply_to_the_last_command(self):
        """Hosts must not write to ``two``, as ``one`` may have taken over."""
        self.away()
        with self.last_command(rest.Unreachable('no route to host')):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assertTrue(outcome.outcome_unknown)
            self.assert_stays(
                outcome, 'The other array may have taken over: do not attach '
                'it on the array at two.example.org before another failback. '
                'K2 array ', 'no route to host')
            self.assertNotIn('attach it again', outcome.reason)
        self.assertEqual({unit.key for unit in self.units}, self.reserved)
        self.assert_home(self.back())

    def test_array_is_lost_after_the_last_command(self):
        """Its reply proves that it serves all units."""
        self.away()
        with self.last_command():
            outcomes = self.back()
        for unit in self.units:
            outcome = outcomes[unit.key]
            self.assertEqual((failover.DESTINATION, set(unit.volumes), False),
                             (outcome.served_by, set(outcome.volumes),
                              outcome.outcome_unknown))
            self.assertIn('does not replicate it: ', outcome.reason)
            self.assertEqual(1, outcome.reason.count('Fail back again.'))
        self.assert_home(self.back())

    def test_last_command_has_no_effect(self):
        """It is accepted, but nothing happens."""
        self.away()
        honest = self.one.array.replication.command_many

        def lie(sessions, state):
            return {} if state == pair.FAILED_OVER else honest(sessions, state)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               lie):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'is in_sync as target',
                              'attach it again')
        self.assert_home(self.back())

    def test_no_reply_to_the_last_command(self):
        """It was carried out, which a later read shows."""
        self.away()
        honest = self.one.array.replication.command_many

        def command(sessions, state):
            refused = honest(sessions, state)
            if state == pair.FAILED_OVER:
                raise rest.ServerError('who knows')
            return refused

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command):
            self.assert_home(self.back())

    def test_late_takeover(self):
        """The array carries the command out after the time for a reply."""
        self.away()
        wire = pair.SlowWire(self.one, self.clock, carried_out=25)
        with wire.losing_replies(always=True):
            begun = self.clock.monotonic()
            self.assert_home(self.back())
        self.assertTrue(wire.is_done)
        self.assertLess(self.clock.monotonic() - begun, 120)

    def test_one_is_busy_after_another_was_commanded(self):
        """The first moves, although its state shows late (REP-8)."""
        self.away()
        with self.late(self.one), self.busy_after_one(self.one):
            outcomes = self.back()
        first, *others = (outcomes[unit.key] for unit in self.units)
        self.assertEqual(failover.DESTINATION, first.served_by)
        for outcome in others:
            self.assert_stays(outcome, 'overloaded', 'attach it again')
        self.assert_home(self.back())

    def test_late_command_without_a_reply(self):
        """It was not carried out, and is repeated."""
        self.away()
        commands, told = self.one.array.replication.command_many, []

        def command(sessions, state):
            if state == pair.FAILED_OVER:
                told.append(state)
                if len(told) == 2:
                    raise rest.errors.NoReply('no reply')
            return commands(sessions, state)

        with self.listed(30), mock.patch.object(
                self.one.array.replication, 'command_many', command):
            self.assert_home(self.back())
        self.assertEqual(3, len(told))

    @staticmethod
    def is_read(request):
        return (request.method == 'GET'
                and 'replication/sessions' in request.url)

    def test_lost_reply_and_failing_reads(self):
        """One read that does not show it yet proves nothing."""
        self.away()
        wire, reads = pair.SlowWire(self.one, self.clock, carried_out=50), []

        def fail(request, is_command):
            if is_command:
                return pair.refused(request, 'overloaded', 503)
            if self.is_read(request) and not wire.is_done:
                reads.append(request)
                if len(reads) > 2:
                    return pair.refused(request, 'internal', 500)
            return None

        with wire.losing_replies(fail):
            outcomes = self.back()
            self.clock.advance(60)
            self.one.states(self.units)
        self.assertTrue(wire.is_done)
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'may have taken over')
            self.assertTrue(outcome.outcome_unknown)
        self.assert_home(self.back())

    def test_accepted_command_and_failing_reads_of_the_other_array(self):
        """One read of the primary that does not show it yet frees nothing."""
        self.away()
        commands, told = self.one.array.replication.command_many, []
        real = self.two.wire.send

        def command(sessions, state):
            told.append(state)
            return commands(sessions, state)

        def send(request, **settings):
            if pair.FAILED_OVER in told and self.is_read(request):
                return pair.refused(request, 'internal', 500)
            return real(request, **settings)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command), self.late(self.one), \
                mock.patch.object(self.two.wire, 'send', send):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'may have taken over')
            self.assertTrue(outcome.outcome_unknown)
        self.assert_home(self.back())

    def test_accepted_command_without_effect(self):
        """After a minute a read shows that nothing moved, failures or not."""
        self.away()
        commands, told = self.one.array.replication.command_many, []
        real, failures = self.one.wire.send, []

        def command(sessions, state):
            told.append(state)
            return ({} if state == pair.FAILED_OVER
                    else commands(sessions, state))

        def send(request, **settings):
            if (pair.FAILED_OVER in told and self.is_read(request)
                    and len(failures) < 2):
                failures.append(request)
                return pair.refused(request, 'MC_ERR_BUSY')
            return real(request, **settings)

        with self.listed(30), mock.patch.object(
                self.one.array.replication, 'command_many', command), \
                mock.patch.object(self.one.wire, 'send', send):
            outcomes = self.back()
        self.assertEqual(2, len(failures))
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'attach it again')
            self.assertFalse(outcome.outcome_unknown)
        self.assert_home(self.back())

    def test_lost_reply_to_a_command_with_a_name(self):
        """Section 14: the array requires it, and refuses another try."""
        self.away()
        wire = pair.SlowWire(self.one, self.clock, carried_out=15)

        def require(request, **settings):
            body = request.body or b''
            if b'failed_over' in body and b'"name"' not in body:
                return pair.refused(request, 'name is required')
            return send(request, **settings)

        with wire.losing_replies(lambda request, is_command: (
                pair.refused(request, 'in transition') if is_command
                else None)):
            send = self.one.wire.send
            with mock.patch.object(self.one.wire, 'send', require):
                self.assert_home(self.back(self.odd), [self.odd])
        self.assertTrue(wire.is_done)

    def test_no_takeover_and_no_reply(self):
        """After a minute more it counts as not carried out."""
        self.away()
        wire = pair.SlowWire(self.one, self.clock, carried_out=10 ** 6)
        with wire.losing_replies(always=True):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'no reply', 'attach it again')
        self.assertFalse(wire.is_done)
        self.assert_home(self.back())

    def test_array_takes_no_snapshots(self):
        self.away()
        begun = self.clock.monotonic()
        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               autospec=True, return_value={}) as take:
            for outcome in self.back().values():
                self.assert_stays(outcome, 'takes no replication snapshot')
                self.assertNotIn('attach', outcome.reason)
        self.assertEqual(5, take.call_count)
        self.assertLess(self.clock.monotonic() - begun, 60)
        self.assert_home(self.back())

    def test_failed_back_but_not_replicated(self):
        self.away()
        honest = self.one.array.replication.command_many

        def refuse(sessions, state):
            if state == pair.IN_SYNC:
                return dict.fromkeys(sessions, 'no')
            return honest(sessions, state)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               refuse):
            outcomes = self.back()
        for unit in self.units:
            outcome = outcomes[unit.key]
            self.assertEqual((failover.DESTINATION, False), (outcome.served_by,
                                                             outcome.ok))
            self.assertEqual(set(unit.volumes), set(outcome.volumes))
            self.assertIn('does not replicate it: no', outcome.reason)
        self.assert_home(self.back())

    def test_failed_back_and_still_not_replicated(self):
        """Replication that stops later does not fail it over again."""
        self.away()
        self.assert_home(self.back())
        self.one.command(self.odd, pair.SUSPENDED)
        honest = self.one.array.replication.command_many

        def refuse(sessions, state):
            return (dict.fromkeys(sessions, 'no') if state == pair.IN_SYNC
                    else honest(sessions, state))

        with mock.patch.object(self.one.array.replication, 'command_many',
                               refuse):
            outcome = self.back(self.odd)[self.odd.key]
        self.assertEqual((failover.DESTINATION, set(self.odd.volumes)), (
            outcome.served_by, set(outcome.volumes)))
        self.assertIn('does not replicate it: no', outcome.reason)
        self.assert_home(self.back())

    def test_host_is_attached_again_at_the_last_moment(self):
        """What it writes after the last copy would be lost."""
        self.away()
        taken = itertools.count(1)
        take = self.two.array.replication.take_snapshots

        def take_and_attach(sessions):
            if next(taken) == 2:
                self.two.attach(self.two.volumes(self.odd))
            return take(sessions)

        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               take_and_attach):
            outcomes = self.back()
        self.assert_stays(
            outcomes.pop(self.odd.key), 'It is still mapped on the array '
            'at two.example.org: unmap it there from hosts that Cinder does '
            'not know. Fail back again.')
        self.assertEqual('source in_sync', self.two.state(self.odd))
        self.assert_served(self.one, outcomes, self.units[::2])
        self.assert_served(self.one, self.back())

    def test_host_has_it_for_a_moment(self):
        """What the host wrote is copied before the volume moves."""
        self.away()
        taken = itertools.count(1)
        take, sleep = (self.two.array.replication.take_snapshots,
                       self.clock.sleep)

        def take_and_attach(sessions):
            if next(taken) == 2:
                self.two.attach(self.two.volumes(self.odd))
            return take(sessions)

        def write_and_detach(seconds):
            if self.two.mapped():
                # The others are replicated already.
                self.assertEqual({'source in_sync'}, {
                    self.one.state(unit) for unit in self.units[::2]})
                self.write(self.two, self.odd, 'at the last moment')
                self.two.client.mappings.delete_many({
                    mapping.id: {} for mapping
                    in self.two.client.mappings.search()})
            sleep(seconds)

        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               take_and_attach), \
                mock.patch.object(self.clock, 'sleep', write_and_detach):
            outcomes = self.back()
        self.assert_home(outcomes)
        self.assertEqual('at the last moment', self.one.control.read(
            self.one.volumes(self.odd)[0]))

    @contextlib.contextmanager
    def listed(self, seconds, error=None):
        """One unit is listed as mapped although it was unmapped (QRY-10).

        Yields the times, in seconds, at which the list was read.

        :param seconds: how long the unit stays listed
        :param error: raised by the third and the fourth read
        """
        read, begun = self.two.array.mappings.mapped, None
        times, volumes = [], set(self.two.volumes(self.odd))

        def mapped(wanted):
            nonlocal begun
            wanted = {*wanted}
            begun = self.clock.monotonic() if begun is None else begun
            times.append(self.clock.monotonic() - begun)
            if error and len(times) in (3, 4):
                raise error
            return read(wanted) | (
                volumes & wanted if times[-1] < seconds else set())

        with mock.patch.object(self.two.array.mappings, 'mapped', mapped):
            yield times

    @contextlib.contextmanager
    def snapshots(self, number):
        """Check how often the second array takes replication snapshots."""
        taker = self.two.array.replication
        with mock.patch.object(taker, 'take_snapshots',
                               wraps=taker.take_snapshots) as taken:
            yield
        self.assertEqual(number, taken.call_count, taken.call_args_list)

    def test_mappings_that_stay_listed(self):
        self.away()
        with self.listed(30), self.snapshots(3):
            begun = self.clock.monotonic()
            self.assert_home(self.back())
        self.assertLess(self.clock.monotonic() - begun, 60)

    def test_no_reply_to_a_late_command(self):
        """It was carried out, so nothing is copied again."""
        self.away()

        def lose_the_reply():
            raise rest.Busy('no reply', rest.errors.Place('one'))

        with self.listed(30), self.snapshots(3), self.after_command(
                2, pair.FAILED_OVER, lose_the_reply):
            self.assert_home(self.back())

    @contextlib.contextmanager
    def after_command(self, number, wanted, act):
        """Call ``act`` after ``wanted`` was sent to ``one`` so many times."""
        commands = self.one.array.replication.command_many
        told = itertools.count(1)

        def command(sessions, state):
            result = commands(sessions, state)
            if state == wanted and next(told) == number:
                act()
            return result

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command):
            yield

    @contextlib.contextmanager
    def busy_after(self, number, wanted, most=1000):
        """Let ``one`` be busy after ``wanted`` was sent to it so many times.

        :param number: so many times it is not busy
        :param most: so many times it is busy after that
        """
        commands = self.one.array.replication.command_many
        told = itertools.count(1)

        def command(sessions, state):
            if state == wanted and number < next(told) <= number + most:
                raise rest.Busy('busy', rest.errors.Place('one'))
            return commands(sessions, state)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command):
            yield

    def test_late_commands_that_fail(self):
        """Data is not copied again and again, for ten minutes each time."""
        self.away()
        begun = self.clock.monotonic()
        with self.listed(30), self.snapshots(7), self.busy_after(
                1, pair.FAILED_OVER):
            outcomes = self.back()
        self.assertLess(self.clock.monotonic() - begun, 120)
        self.assert_stays(outcomes.pop(self.odd.key), 'busy',
                          'attach it again', 'Fail back again.')
        self.assert_served(self.one, outcomes, self.units[::2])

    def test_late_unit_is_protected_at_the_second_try(self):
        self.away()
        with self.listed(30), self.busy_after(1, pair.IN_SYNC, most=1):
            self.assert_home(self.back())

    def test_late_unit_that_is_not_protected(self):
        """The unit moves late, and the array never lets it be replicated."""
        self.away()
        with self.listed(30), self.busy_after(1, pair.IN_SYNC):
            outcomes = self.back()
        outcome = outcomes.pop(self.odd.key)
        self.assertEqual((failover.DESTINATION, set(self.odd.volumes)),
                         (outcome.served_by, set(outcome.volumes)))
        self.assertIn('does not replicate it: ', outcome.reason)
        self.assertIn('busy', outcome.reason)
        self.assertEqual(1, outcome.reason.count('Fail back again.'))
        self.assert_served(self.one, outcomes, self.units[::2])
        self.assert_home(self.back())

    def test_link_that_fails_after_a_late_command(self):
        """The replication of all units is resumed."""
        self.away()

        def blink():
            self.clock.advance(30)
            self.one.control.cut_link()
            self.one.control.restore_link()

        with self.listed(30), self.after_command(2, pair.IN_SYNC, blink):
            self.assert_home(self.back())

    def test_unit_that_was_not_reserved(self):
        """Its link was broken when the other units were reserved.

        The link works again. No host has the unit, but one may get it at any
        time.
        """
        self.away()
        self.unmap(self.two.array, self.ids(self.two, self.odd))
        protect = failback._Failback._protect

        def resume(failing, batch):
            self.two.command(self.odd, pair.IN_SYNC)
            self.clock.advance(60)
            protect(failing, batch)

        def catch_up(failing, batch):
            failing._copy(batch, 600)
            self.two.command(self.odd, pair.SUSPENDED)
            self.clock.advance(5)
            failing._look()

        moves = list(failback._MOVES)
        moves[2], moves[4] = ((moves[2][0], catch_up), (moves[4][0], resume))
        with mock.patch.object(failback, '_MOVES', tuple(moves)), \
                mock.patch.object(self, 'reserve',
                                  wraps=self.reserve) as reserve:
            outcomes = self.back()
        reserve.assert_called_once_with([
            unit.key for unit in self.units[::2]])
        outcome = outcomes.pop(self.odd.key)
        self.assertEqual(failover.ORIGIN, outcome.served_by)
        self.assertNotIn('attach', outcome.reason)
        self.assertEqual('source in_sync', self.two.state(self.odd))

    def test_list_that_fails_meanwhile(self):
        """The list is read again, and all units are failed back in the end."""
        self.away()
        with self.listed(30, rest.Busy('busy', rest.errors.Place('two'))):
            self.assert_home(self.back())

    def test_array_that_is_lost_meanwhile(self):
        """The others are failed back, and replicated by the next failback."""
        self.away()
        with self.listed(30) as times, mock.patch.object(
                self.clock, 'sleep', self.losing(times)):
            outcomes = self.back()
        self.assert_stays(outcomes.pop(self.odd.key), 'attach it again',
                          'Fail back again.')
        for outcome in outcomes.values():
            self.assertEqual(failover.DESTINATION, outcome.served_by)
            self.assertIn('Peer cannot be reached', outcome.reason)
        self.two.find_again()
        self.assert_home(self.back())

    def losing(self, times):
        """Return a sleep that loses the second array once a list was read."""
        sleep = self.clock.sleep

        def lose_and_sleep(seconds):
            if times:
                self.two.lose()
            sleep(seconds)
        return lose_and_sleep

    def test_how_long_hosts_wait(self):
        """Ten minutes, however slowly the last changes arrive."""
        self.away()

        def unmap(array, volumes):
            if array is self.two.array:
                self.two.control.set_behaviors(snapshot_seconds=550.0)
                unmapped.append(self.clock.monotonic())
            self.unmap(array, volumes)

        unmapped = []
        with self.listed(40):
            outcomes = self.back(unmap=unmap)
        self.assertLess(self.clock.monotonic() - unmapped[0], 720)
        self.assert_stays(outcomes.pop(self.odd.key), 'After 60 seconds',
                          'attach it again')
        self.assert_served(self.one, outcomes, self.units[::2])

    def test_data_written_since_is_not_overwritten(self):
        """A service was killed after the failback, before it updated rows."""
        self.away()
        self.two.command(self.odd, pair.IN_SYNC)
        self.clock.advance(600)
        self.one.command(self.odd, pair.FAILED_OVER)
        self.write(self.two, self.odd, 'hosts went on')
        self.all_but_odd('The array at one.example.org has taken over, too, '
                         'but what hosts wrote since is on the array at '
                         f'two.example.org. {ANEW}', state='source suspended')
        self.assertEqual('hosts went on', self.two.control.read(
            self.two.volumes(self.odd)[0]))

    def test_data_written_since_takes_precedence(self):
        """Even over missing volumes: rows must not be updated."""
        self.away()
        self.two.command(self.odd, pair.IN_SYNC)
        self.clock.advance(600)
        self.one.command(self.odd, pair.FAILED_OVER)
        with mock.patch.object(self.one.array.replication, 'volumes_of',
                               autospec=True, return_value={}):
            outcome = self.back()[self.odd.key]
        self.assert_stays(outcome, 'what hosts wrote since is on the array '
                          'at two.example.org')

    def ids(self, place, unit):
        return {unit.volumes[0]: (place.volumes(unit)[0], 0)}

    # Faults

    @ddt.data('one', 'two')
    def test_array_is_lost_from_the_start(self, name):
        """It costs the time of one call, and half a minute at the end."""
        self.away()
        begun = self.clock.monotonic()
        getattr(self, name).lose()
        for outcome in self.back().values():
            self.assert_stays(outcome, 'no route to host')
            self.assertNotIn('attach', outcome.reason)
        self.assertLess(self.clock.monotonic() - begun, 180 + 30 + 10)
        getattr(self, name).find_again()
        self.assert_home(self.back())

    def test_without_bulk_calls(self):
        for place in (self.one, self.two):
            place.control.set_behaviors(bulk=())
        self.away()
        self.assert_home(self.back())

    def test_no_units(self):
        self.assertEqual({}, failover.fail_back(
            self.two.array, self.one.array, [], timeout=60,
            unmap=self.unmap, reserve=self.reserve, clock=self.clock))

    def test_snapshots_of_others_stay(self):
        policy = self.two.client.retention_policies.find(
            name='Best_Effort_Retention')
        self.two.client.snapshots.create(
            short_name='cs-1', source=self.two.client.volume_groups.find(
                name='other') or self.group().ref,
            retention_policy=policy.ref)
        self.away()
        taken = self.two.client.snapshots.create(
            short_name='cs-2', retention_policy=policy.ref,
            source=self.two.client.volume_groups.ref(
                self.two.session(self.odd).group))
        self.back()
        self.assertEqual(['cs-1', 'cs-2'], sorted(
            s.short_name for s in self.two.asked_for()))
        self.assertEqual('cs-2', self.two.client.snapshots.get(
            taken.id).short_name)

    def group(self):
        group = self.two.client.volume_groups.create(
            name='other', quota=0, is_dedup=True)
        self.two.client.volumes.create(name='other', size=pair.GIB,
                                       volume_group=group.ref)
        return group


@ddt.ddt
class ProtectAgainTest(pair.AwayTest):
    """Units on their primary whose replication was interrupted."""

    def again(self, *units):
        return failover.protect_again(
            self.one.array, self.two.array, units or self.units,
            unmap=self.unmap, clock=self.clock)

    def assert_again(self, reasons):
        self.assertEqual(dict.fromkeys(
            (unit.key for unit in self.units), ''), reasons)
        for place, state in ((self.one, 'source in_sync'),
                             (self.two, 'target in_sync')):
            self.assertEqual([state] * len(self.units),
                             place.states(self.units))
        self.clock.advance(3600)
        self.two.control.tick()
        self.assert_served(self.two, self.over())

    def test_replication_runs(self):
        """Nothing is written then."""
        for place in (self.one, self.two):
            place.control.clear_journal()
        reasons = self.again()
        self.assertEqual({'GET'}, {
            entry.method for place in (self.one, self.two)
            for entry in place.control.journal()})
        self.assert_again(reasons)

    def test_replication_was_suspended(self):
        self.one.command(self.odd, pair.SUSPENDED)
        self.write_all(self.one, 'meanwhile')
        self.assert_again(self.again())

    def test_primary_took_over(self):
        """A failback ended there: what the other array has is overwritten."""
        self.away()
        self.two.command(self.odd, pair.IN_SYNC)
        self.clock.advance(600)
        self.back(*self.units[::2])
        self.one.command(self.odd, pair.FAILED_OVER)
        self.write_all(self.one, 'at home')
        self.assertEqual({self.two.volumes(self.odd)[0]}, self.two.mapped())
        self.assert_again(self.again())
        self.assertEqual(set(), self.two.mapped())

    def test_volumes_that_hosts_use(self):
        """They are not unmapped from hosts of the primary."""
        self.attach_all(self.one)
        self.one.command(self.odd, pair.SUSPENDED)
        self.again()
        self.assertEqual(3, len(self.one.mapped()))

    def test_link_is_broken(self):
        self.one.control.cut_link()
        for reason in self.again().values():
            self.assertIn('HTTP 400', reason)
        self.one.control.restore_link()
        self.assert_again(self.again())

    def test_other_array_is_lost(self):
        """A unit of which it shows no session is left out."""
        self.two.lose()
        self.assertEqual({}, self.again())
        self.two.find_again()
        self.assert_again(self.again())

    def test_session_is_missing(self):
        for state in (pair.SUSPENDED, pair.IDLE):
            self.one.command(self.odd, state)
        self.two.array.replication.delete(self.two.session(self.odd))
        self.assertEqual({'000': '', '002': ''}, self.again())

    def test_session_is_idle(self):
        for state in (pair.SUSPENDED, pair.IDLE):
            self.one.command(self.odd, state)
        reasons = self.again()
        self.assertIn('ssn-001 on the array at one.example.org is idle as '
                      'source', reasons.pop('001'))
        self.assertEqual({'000': '', '002': ''}, reasons)
