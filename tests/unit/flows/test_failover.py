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

"""Failover and failback of many volumes, on a pair of simulated arrays.

Volumes are made on ``one``; ``two`` is the other array.
"""

import collections
import contextlib
import dataclasses
import itertools
import logging
from unittest import mock

import ddt
from oslotest import base
import requests

from cinder_k2 import array
from cinder_k2.flows import failover
from cinder_k2 import rest
from cinder_k2 import simulator

GIB = 1 << 20
IN_SYNC, SUSPENDED, IDLE = 'in_sync', 'suspended', 'idle'
FAILED_OVER = 'failed_over'
NAME = 'cinder_k2.flows.failover'


class Killed(BaseException):
    """The service ends here."""


class Wire(simulator.RequestsAdapter):
    """The way to one array, on which things happen at a certain call.

    :ivar sent: calls so far, as far as the caller knows
    :ivar before: called with the number of each call before it is sent
    :ivar after: likewise, when it was carried out
    :ivar dead: nothing gets through
    """

    numbers = itertools.count(1)

    def __init__(self, sim):
        super().__init__(sim)
        self.dead = False
        self.before = self.after = None

    def send(self, request, **settings):
        if self.before or self.after:
            number = next(self.numbers)
        if self.before:
            self.before(number)
        if self.dead:
            raise requests.exceptions.ConnectionError('no route to host')
        reply = super().send(request, **settings)
        if self.after:
            self.after(number)
        return reply


class Place:
    """One array as a test needs it."""

    def __init__(self, name, clock):
        self.sim = simulator.Array('sdp', clock=clock, name=name)
        self.control = self.sim.control
        self.wire = Wire(self.sim)
        self.client = rest.Client(rest.Settings(
            address=f'{name}.example.org', login='admin', password='admin'),
            adapter=self.wire, clock=clock)
        self.array = array.Array(self.client, 'Best_Effort_Retention')
        self.host = self.client.hosts.create(name='host', type='Linux')

    def lose(self):
        self.wire.dead = True
        self.control.cut_link()

    def find_again(self):
        self.wire.dead = False
        self.control.mend_link()

    def attach(self, volumes):
        for volume in volumes:
            self.client.mappings.create(
                host=self.host.ref, volume=self.client.volumes.ref(volume))

    def mapped(self):
        return {m.volume.id for m in self.client.mappings.search()}

    def session(self, unit):
        return self.array.replication.find(*unit.sessions)

    def state(self, unit):
        found = self.session(unit)
        return found and f'{found.role} {found.state}'

    def command(self, unit, state):
        self.array.replication.command(self.session(unit).id, state)

    def volumes(self, unit):
        """Ids here of the volumes of a unit."""
        found = self.array.replication.volumes_of(
            [prefix + name for name in unit.volumes for prefix in ('', 'r')])
        return [ids[0] for ids in found.values()]

    def calls(self):
        """How many calls of each kind there were."""
        return collections.Counter(
            f'{e.method} {e.path.removeprefix("/api/v2/")}'
            for e in self.control.journal())

    def asked_for(self):
        """Replication snapshots that somebody asked for."""
        return [s for s in self.client.snapshots.search()
                if s.triggered_by in ('api', 'Replication_API')]


class _Stale:
    """Shows old states for two looks after each command."""

    def __init__(self, find_many, command_many):
        self._find, self._command = find_many, command_many
        self._old = []

    def find_many(self, names):
        if self._old:
            return self._old.pop()
        self._last = self._find(names)
        return self._last

    def command_many(self, sessions, state):
        self._old = [self._last] * 2
        return self._command(sessions, state)


class PairTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.clock = simulator.FakeClock()
        self.one, self.two = (Place(name, self.clock)
                              for name in ('one', 'two'))
        for place in (self.one, self.two):
            self.addCleanup(place.sim.close)
            self.addCleanup(place.client.close)
        simulator.connect(self.one.sim, self.two.sim)
        self.tokens = {}
        self.units = []
        self.reserved = set()

    def make(self, key, source=None, volumes=1):
        """A unit whose volumes are copied from ``source``."""
        source = source or self.one
        other = self.two if source is self.one else self.one
        unit = failover.Unit(key, (f'ssn-{key}', f'rssn-{key}'), tuple(
            f'cv-{key}-{n}' for n in range(volumes)))
        sessions = source.array.replication
        group = source.client.volume_groups.create(
            name=f'cvg-{key}', quota=0, is_dedup=True)
        session = sessions.create_session(
            f'ssn-{key}', peer=sessions.peer(other.client.address, 'any'),
            group=group.id, rpo=300, peer_group_name=f'rcvg-{key}',
            peer_session_name=f'rssn-{key}')
        for name in unit.volumes:
            volume = source.client.volumes.create(
                name=name, size=GIB, volume_group=group.ref)
            sessions.add_volume(session, volume.id, f'r{name}')
        sessions.command(session, IN_SYNC)
        self.write(source, unit, f'{key} first')
        self.units.append(unit)
        return unit

    def several(self, count):
        for number in range(count):
            self.make(f'{number:03}')
        self.clock.advance(600)

    def write(self, place, unit, token):
        for volume in place.volumes(unit):
            place.control.write(volume, token)
        self.tokens[unit.key] = token

    def write_all(self, place, token):
        for unit in self.units:
            self.write(place, unit, f'{unit.key} {token}')

    def attach_all(self, place):
        for unit in self.units:
            place.attach(place.volumes(unit))

    def over(self, *units):
        return failover.fail_over(self.two.array, units or self.units,
                                  self.clock)

    def back(self, *units, timeout=3600, unmap=None):
        """As a caller does whose rows keep what is reserved."""
        outcomes = failover.fail_back(
            self.two.array, self.one.array, [
                dataclasses.replace(unit, reserved=unit.key in self.reserved)
                for unit in units or self.units], timeout=timeout,
            unmap=unmap or self.unmap, reserve=self.reserve,
            clock=self.clock)
        self.reserved -= {key for key, outcome in outcomes.items()
                          if outcome.served_by == failover.HERE
                          and not outcome.in_doubt}
        return outcomes

    def reserve(self, keys):
        """A row that says that no host may have it; all can."""
        self.reserved |= set(keys)
        return keys

    def unmap(self, there, volumes):
        place = self.one if there is self.one.array else self.two
        found = place.client.mappings.search(rest.query.one_of('volume', [
            place.client.volumes.ref(ids[0]) for ids in volumes.values()]))
        place.client.mappings.delete_many([mapping.id for mapping in found])

    @contextlib.contextmanager
    def late(self, *places):
        """What a command did shows at the third look only."""
        with contextlib.ExitStack() as stack:
            for place in places:
                part = place.array.replication
                stale = _Stale(part.find_many, part.command_many)
                stack.enter_context(mock.patch.object(
                    part, 'find_many', stale.find_many))
                stack.enter_context(mock.patch.object(
                    part, 'command_many', stale.command_many))
            yield

    def assert_served(self, place, outcomes, units=None):
        """All is at ``place``: outcomes, roles, data."""
        for unit in units or self.units:
            outcome = outcomes[unit.key]
            self.assertEqual((failover.THERE, True, ''), (
                outcome.served_by, outcome.ok, outcome.reason))
            self.assertEqual(set(unit.volumes), set(outcome.volumes))
            for volume, group in outcome.volumes.values():
                found = place.client.volumes.get(volume)
                self.assertEqual(group, found.volume_group.id)
                self.assertFalse(found.read_only)
                self.assertEqual(self.tokens[unit.key],
                                 place.control.read(volume))

    def assert_home(self, outcomes, units=None):
        self.assert_served(self.one, outcomes, units)
        for unit in units or self.units:
            self.assertEqual('source in_sync', self.one.state(unit))
            self.assertEqual('target in_sync', self.two.state(unit))
        self.assertEqual([], self.one.asked_for() + self.two.asked_for())

    def assert_stays(self, outcome, *words):
        self.assertEqual((failover.HERE, False, {}), (
            outcome.served_by, outcome.ok, outcome.volumes))
        for word in words:
            self.assertIn(word, outcome.reason)


@ddt.ddt
class FailOverTest(PairTest):

    def setUp(self):
        super().setUp()
        self.several(3)
        self.odd = self.units[1]

    def test_all(self):
        self.assert_served(self.two, self.over())
        self.assertEqual({'target failed_over'},
                         {self.two.state(unit) for unit in self.units})

    def test_the_other_array_is_not_asked(self):
        """REP-9: it may be dead."""
        self.one.lose()
        self.one.control.clear_journal()
        self.assert_served(self.two, self.over())
        self.assertEqual([], self.one.control.journal())

    @ddt.data((SUSPENDED,), ())
    def test_states_that_can_take_over(self, commands):
        for command in commands:
            self.one.command(self.odd, command)
        self.assert_served(self.two, self.over())

    def test_again(self):
        """What has taken over already is not told to."""
        self.over(self.odd)
        self.write(self.two, self.odd, 'later')
        self.assert_served(self.two, self.over())
        self.two.control.clear_journal()
        self.assert_served(self.two, self.over())
        self.assertEqual({'GET'}, {e.method for e in
                                   self.two.control.journal()})

    @ddt.data(IN_SYNC, SUSPENDED)
    def test_a_source_serves_already(self, state):
        unit = self.make('made', source=self.two)
        if state == SUSPENDED:
            self.two.command(unit, SUSPENDED)
        self.assert_served(self.two, self.over())
        self.assertEqual(f'source {state}', self.two.state(unit))

    def test_idle(self):
        self.one.command(self.odd, SUSPENDED)
        self.one.command(self.odd, IDLE)
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key),
                          'rssn-001 on the array at two.example.org is idle')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_an_idle_source_does_not_serve(self):
        """Nobody knows which side has the data."""
        unit = self.make('made', source=self.two)
        self.two.command(unit, SUSPENDED)
        self.two.command(unit, IDLE)
        self.assert_stays(self.over(unit)['made'], 'is idle as source')

    def test_no_session(self):
        for command in (SUSPENDED, IDLE):
            self.one.command(self.odd, command)
        self.two.array.replication.delete(self.two.session(self.odd).id)
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key), 'two.example.org has '
                          'no replication session for it')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_a_missing_volume(self):
        """A unit without any is left as it is."""
        lost = failover.Unit('lost', self.odd.sessions, ('cv-lost',))
        self.assert_stays(self.over(self.units[0], lost)['lost'],
                          'no replicated volume cv-lost')
        self.assertEqual('target in_sync', self.two.state(self.odd))

    def test_a_missing_volume_of_a_group(self):
        """The others are served; that one is not all well is told."""
        lost = failover.Unit('lost', self.odd.sessions,
                             (*self.odd.volumes, 'cv-lost'))
        outcome = self.over(lost)['lost']
        self.assertEqual((failover.THERE, False, set(self.odd.volumes)), (
            outcome.served_by, outcome.ok, set(outcome.volumes)))
        self.assertIn('no replicated volume cv-lost.', outcome.reason)

    def test_volumes_in_another_group_are_not_the_ones(self):
        self.make('made', source=self.two)
        group = self.two.client.volume_groups.create(
            name='other', quota=0, is_dedup=True)
        for name in ('cv-000-0', 'rcv-made-0'):
            self.two.client.volumes.create(name=name, size=GIB,
                                           volume_group=group.ref)
        for outcome in self.over().values():
            for volume, in_group in outcome.volumes.values():
                self.assertNotEqual(group.id, in_group)
        self.assertTrue(all(o.ok for o in self.over().values()))

    def test_a_group_of_volumes(self):
        self.make('many', volumes=3)
        self.clock.advance(600)
        self.assert_served(self.two, self.over())

    def test_refusals_one_by_one(self):
        self.two.control.set_switches(failed_over_from=IN_SYNC)
        self.one.command(self.odd, SUSPENDED)
        outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key), 'HTTP 400')
        self.assert_served(self.two, outcomes, self.units[::2])

    def test_a_promise_that_is_not_kept(self):
        """What the array shows counts."""
        honest = self.two.array.replication.command_many

        def lie(sessions, state):
            return honest([s for s in sessions
                           if s != self.two.session(self.odd).id], state)

        with mock.patch.object(self.two.array.replication, 'command_many',
                               lie):
            outcomes = self.over()
        self.assert_stays(outcomes.pop(self.odd.key),
                          'is in_sync as target')
        self.assert_served(self.two, outcomes, self.units[::2])

    @ddt.data(True, False)
    def test_no_answer_to_the_command(self, carried_out):
        """Whatever became of it, that is what is told."""
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
        self.assertLess(self.clock.monotonic(), 610)

    def test_an_array_that_shows_it_late(self):
        """REP-8."""
        with self.late(self.two):
            self.assert_served(self.two, self.over())
        self.assertLess(self.clock.monotonic(), 610)

    @ddt.data(('busy', 'before'), ('reset', 'after'), ('garbage', 'after'),
              ('status', 'before'))
    @ddt.unpack
    def test_bad_weather_at_every_call(self, kind, commit):
        for after in range(30):
            fault = self.two.control.add_fault(
                kind=kind, commit=commit, times=1, after=after)
            self.assert_served(self.two, self.over())
            self.two.control.clear_faults()
            if not fault.struck:
                break
            self.assert_home(self.back())
        self.assertGreater(after, 4)

    def test_an_array_that_does_not_answer(self):
        self.two.lose()
        self.assertRaises(rest.Unreachable, self.over)

    def test_without_bulk_calls(self):
        self.two.control.set_switches(bulk=())
        self.assert_served(self.two, self.over())

    def test_no_units(self):
        self.assertEqual({}, failover.fail_over(self.two.array, [],
                                                self.clock))


@ddt.ddt
class FailBackTest(PairTest):

    def setUp(self):
        super().setUp()
        self.several(3)
        self.odd = self.units[1]

    def away(self):
        """Everything was failed over, hosts are on ``two``."""
        self.over()
        self.attach_all(self.two)
        self.write_all(self.two, 'away')

    def test_all(self):
        self.attach_all(self.one)
        self.away()
        self.assert_home(self.back())
        self.assertEqual(set(), self.one.mapped() | self.two.mapped())

    def test_the_first_array_was_dead(self):
        self.one.lose()
        self.away()
        self.one.find_again()
        self.assert_home(self.back())

    def test_again_and_again(self):
        for turn in range(3):
            self.away()
            self.write_all(self.two, f'turn {turn}')
            self.assert_home(self.back())
            self.assert_home(self.back())
            self.attach_all(self.one)
            self.write_all(self.one, f'at home {turn}')
            self.clock.advance(600)

    def test_what_hosts_write_until_they_are_detached_arrives(self):
        self.one.control.set_switches(snapshot_seconds=30.0)
        self.two.control.set_switches(snapshot_seconds=30.0)
        self.away()

        def unmap(array, volumes):
            if array is self.two.array:
                self.assertEqual({1}, {len(self.arrived(unit))
                                       for unit in self.units})
                self.write_all(self.two, 'last words')
            self.unmap(array, volumes)

        self.assert_home(self.back(unmap=unmap))

    def arrived(self, unit):
        """Contents that replication snapshots brought to ``one``."""
        volume = self.one.volumes(unit)[0]
        return [self.one.control.read(volume, snapshot.id)
                for snapshot in self.one.asked_for()
                if snapshot.volume_group.id == self.one.session(unit).group]

    def test_nobody_is_detached_before_all_has_arrived(self):
        """One that takes long keeps the others, but not their hosts."""
        self.two.control.set_switches(snapshot_seconds=30.0)
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
        with mock.patch.object(failover, '_MOST_SNAPSHOTS', 100), \
                mock.patch.object(self.two.array.replication,
                                  'take_snapshots', late):
            self.assert_home(self.back(unmap=unmap))
        [(when, volumes)] = detached
        self.assertEqual(3, volumes)
        self.assertGreater(when, 200)

    def test_the_volumes_that_are_overwritten_are_detached_first(self):
        """Row 7 of section 10.4: the array would refuse it."""
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
    def test_from_every_half_way_state(self, last):
        """All commands up to the last one were given to one unit."""
        self.away()
        for step in ('two failed_over', 'two in_sync', 'two suspended',
                     'one failed_over', 'one in_sync', 'one suspended'):
            place = getattr(self, step.partition(' ')[0])
            if step == 'one failed_over':
                self.reserve([self.odd.key])
                self.unmap(self.two.array, self.ids(self.two, self.odd))
                self.two.command(self.odd, IN_SYNC)
                self.clock.advance(600)
            if step != 'two failed_over':
                place.command(self.odd, step.partition(' ')[2])
            if step == last:
                break
        self.assert_home(self.back())

    def test_made_after_the_failover(self):
        """Its session has the other name, and the other role, from birth."""
        self.away()
        unit = self.make('made', source=self.two)
        self.two.attach(self.two.volumes(unit))
        self.write(self.two, unit, 'newer')
        self.assert_home(self.back())
        self.assert_served(self.two, self.over())

    def test_an_array_that_follows_late(self):
        """REP-8. Snapshots that it needs for a while stay for a while."""
        for place in (self.one, self.two):
            place.control.set_switches(
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
        self.one.control.set_switches(follow_seconds=7.0)
        self.two.command(self.odd, IN_SYNC)
        self.assertEqual('source suspended', self.one.state(self.odd))
        self.assert_home(self.back(self.odd), [self.odd])

    def refusals(self, method):
        return sum(e.method == method and e.status >= 400
                   for place in (self.one, self.two)
                   for e in place.control.journal())

    @ddt.data(('one',), ('two',), ('one', 'two'))
    def test_an_array_that_shows_it_late(self, names):
        self.away()
        with self.late(*(getattr(self, name) for name in names)):
            self.assert_home(self.back())

    def test_a_group_of_volumes(self):
        self.make('many', volumes=3)
        self.clock.advance(600)
        self.away()
        self.assert_home(self.back())

    # Those that cannot come home

    def but_the_odd(self, *words, state):
        """All come home but one, which is served as it was."""
        outcomes = self.back()
        self.assert_stays(outcomes.pop(self.odd.key), *words)
        self.assertEqual(state, self.two.state(self.odd))
        self.assertEqual(set(self.two.volumes(self.odd)), self.two.mapped())
        self.assert_home(outcomes, self.units[::2])

    def test_missing_at_home(self):
        self.away()
        self.one.command(self.odd, IDLE)
        self.one.array.replication.delete(self.one.session(self.odd).id)
        self.but_the_odd('one.example.org has no replication session',
                         state='target failed_over')

    def test_missing_where_it_is_served(self):
        self.away()
        self.two.command(self.odd, IDLE)
        self.two.array.replication.delete(self.two.session(self.odd).id)
        self.but_the_odd('two.example.org has no replication session',
                         state=None)

    def test_idle(self):
        self.away()
        self.two.command(self.odd, IDLE)
        own = self.of_the_array()
        self.but_the_odd('rssn-001 on the array at two.example.org is idle',
                         state='target idle')
        self.assertEqual(own, self.of_the_array())

    def of_the_array(self):
        """Snapshots that replication takes by itself of one unit."""
        group = self.two.client.volume_groups.find(name='rcvg-001')
        found = self.two.client.snapshots.search(volume_group=group.ref)
        self.assertNotEqual([], found)
        return found

    def test_its_volume_is_missing_at_home(self):
        self.away()
        self.one.client.volumes.update(self.one.volumes(self.odd)[0],
                                       name='cv-other')
        self.but_the_odd('one.example.org has no replicated volume '
                         'cv-001-0', state='target failed_over')

    def test_its_session_is_refused(self):
        """Its host at home is not detached, whatever the caller believes."""
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
        self.one.control.mend_link()
        self.assert_home(self.back())

    @ddt.data(1, 2)
    def test_a_link_that_breaks_while_data_is_copied(self, round):
        for place in (self.one, self.two):
            place.control.set_switches(snapshot_seconds=30.0,
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
                    self.one.control.mend_link()

        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               take_and_break):
            self.assert_home(self.back())
        self.assertEqual(4, next(taken))

    def test_data_that_does_not_arrive_in_time(self):
        """Hosts keep what they have; the next try goes on."""
        self.two.control.set_switches(snapshot_seconds=5000.0)
        self.away()
        begun = self.clock.monotonic()
        for outcome in self.back(timeout=300).values():
            self.assert_stays(outcome, 'After 300 seconds')
            self.assertNotIn('attach', outcome.reason)
        self.assertLess(self.clock.monotonic() - begun, 330)
        self.assertEqual(3, len(self.two.mapped()))
        self.two.control.set_switches(snapshot_seconds=0.0)
        self.clock.advance(20000)
        self.assert_home(self.back())

    def test_last_changes_that_do_not_arrive_in_time(self):
        """They get ten minutes, whatever is left of the time."""
        self.away()
        begun = self.clock.monotonic()

        def unmap(array, volumes):
            if array is self.two.array:
                self.two.control.set_switches(snapshot_seconds=5000.0)
            self.unmap(array, volumes)

        for outcome in self.back(timeout=30, unmap=unmap).values():
            self.assert_stays(
                outcome, 'After 600 seconds', 'Hosts have lost it on the '
                'array at two.example.org: attach it again.')
        self.assertLess(self.clock.monotonic() - begun, 630)
        self.two.control.set_switches(snapshot_seconds=0.0)
        self.clock.advance(20000)
        self.assert_home(self.back())

    @ddt.data('one', 'two')
    def test_hosts_that_cannot_be_detached(self, name):
        self.away()

        def unmap(array, volumes):
            if array is getattr(self, name).array:
                raise ValueError('a host holds on')
            self.unmap(array, volumes)

        for outcome in self.back(unmap=unmap).values():
            self.assert_stays(outcome, 'a host holds on')
        self.assert_home(self.back())

    def test_a_promise_that_is_not_kept(self):
        """The last command of all is accepted, and nothing happens."""
        self.away()
        honest = self.one.array.replication.command_many

        def lie(sessions, state):
            return {} if state == FAILED_OVER else honest(sessions, state)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               lie):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assert_stays(outcome, 'is in_sync as target',
                              'attach it again')
        self.assert_home(self.back())

    def test_no_answer_to_the_last_command(self):
        """It was carried out: that is seen in the end."""
        self.away()
        honest = self.one.array.replication.command_many

        def command(sessions, state):
            refused = honest(sessions, state)
            if state == FAILED_OVER:
                raise rest.ServerError('who knows')
            return refused

        with mock.patch.object(self.one.array.replication, 'command_many',
                               command):
            outcomes = self.back()
        for outcome in outcomes.values():
            self.assertEqual(failover.THERE, outcome.served_by)
            self.assertIn('does not replicate it: K2 array', outcome.reason)
        self.assert_home(self.back())

    def test_snapshots_that_the_array_does_not_take(self):
        self.away()
        begun = self.clock.monotonic()
        with mock.patch.object(self.two.array.replication, 'take_snapshots',
                               autospec=True, return_value={}):
            for outcome in self.back().values():
                self.assert_stays(outcome, 'takes no replication snapshot')
                self.assertNotIn('attach', outcome.reason)
        self.assertLess(self.clock.monotonic() - begun, 60)
        self.assert_home(self.back())

    def test_home_but_not_protected(self):
        self.away()
        honest = self.one.array.replication.command_many

        def refuse(sessions, state):
            if state == IN_SYNC:
                return dict.fromkeys(sessions, 'no')
            return honest(sessions, state)

        with mock.patch.object(self.one.array.replication, 'command_many',
                               refuse):
            outcomes = self.back()
        for unit in self.units:
            outcome = outcomes[unit.key]
            self.assertEqual((failover.THERE, False), (outcome.served_by,
                                                       outcome.ok))
            self.assertEqual(set(unit.volumes), set(outcome.volumes))
            self.assertIn('does not replicate it: no', outcome.reason)
        self.assert_home(self.back())

    def test_what_hosts_wrote_since_is_not_overwritten(self):
        """A service was killed when the data had moved; rows had not."""
        self.away()
        self.two.command(self.odd, IN_SYNC)
        self.clock.advance(600)
        self.one.command(self.odd, FAILED_OVER)
        self.write(self.two, self.odd, 'hosts went on')
        self.but_the_odd('The array at one.example.org has taken over, too, '
                         'but what hosts wrote since is on the array at '
                         'two.example.org', state='source suspended')
        self.assertEqual('hosts went on', self.two.control.read(
            self.two.volumes(self.odd)[0]))

    def test_that_comes_before_what_is_missing(self):
        """Rows must not say that it is at home."""
        self.away()
        self.two.command(self.odd, IN_SYNC)
        self.clock.advance(600)
        self.one.command(self.odd, FAILED_OVER)
        with mock.patch.object(self.one.array.replication, 'volumes_of',
                               autospec=True, return_value={}):
            outcome = self.back()[self.odd.key]
        self.assert_stays(outcome, 'what hosts wrote since is on the array '
                          'at two.example.org')

    def ids(self, place, unit):
        return {unit.volumes[0]: (place.volumes(unit)[0], 0)}

    # Bad weather

    def count_from_now(self):
        Wire.numbers = itertools.count(1)

    @contextlib.contextmanager
    def at_call(self, number, act, when):
        """Do something before or after a certain call to either array."""
        self.count_from_now()

        def watch(place):
            def see(current):
                if current == number:
                    act(place)
            return see

        for place in (self.one, self.two):
            setattr(place.wire, when, watch(place))
        try:
            yield
        finally:
            for place in (self.one, self.two):
                setattr(place.wire, when, None)

    def slowly(self):
        for place in (self.one, self.two):
            place.control.set_switches(snapshot_seconds=2.0)

    @ddt.data('before', 'after')
    def test_a_service_that_is_killed_at_every_call(self, when):
        """The next call brings all home; so do all failovers after it."""
        self.slowly()

        def kill(place):
            raise Killed

        for number in range(1, 100):
            self.away()
            self.write_all(self.two, f'turn {number}')
            try:
                with self.at_call(number, kill, when):
                    self.assert_home(self.back())
                break
            except Killed:
                self.assert_home(self.back())
        self.assertIn(number, range(25, 60))

    @ddt.data(('one', 'before'), ('one', 'after'), ('two', 'before'),
              ('two', 'after'))
    @ddt.unpack
    def test_an_array_that_is_lost_at_every_call(self, name, when):
        self.slowly()
        lost, reasons = getattr(self, name), ''
        for number in range(1, 100):
            self.away()
            self.write_all(self.two, f'turn {number}')
            with self.at_call(number, lambda place: lost.lose(), when):
                outcomes = self.back()
            was_lost = lost.wire.dead
            lost.find_again()
            if not was_lost:
                self.assert_home(outcomes)
                break
            self.assert_truthful(outcomes)
            reasons += outcomes[self.odd.key].reason
            self.assert_home(self.back())
        self.assertIn(number, range(25, 60))
        self.assertIn('attach it again', reasons)
        self.assertIn('serves it again, but does not replicate', reasons)
        self.assertEqual(name == 'one', 'do not attach it on' in reasons)

    def assert_truthful(self, outcomes):
        """Each unit is where its outcome says it is."""
        for unit in self.units:
            outcome, one = outcomes[unit.key], self.one.state(unit)
            two = self.two.state(unit)
            self.assertNotEqual(outcome.ok, bool(outcome.reason))
            if one == 'target failed_over' or one.startswith('source') and (
                    two in ('target in_sync', 'target suspended')):
                self.assertEqual(failover.THERE, outcome.served_by, (
                    one, two, outcome))
            else:
                self.assert_stays(outcome)

    @ddt.data(('busy', 'before'), ('reset', 'before'), ('reset', 'after'),
              ('garbage', 'after'), ('status', 'before'))
    @ddt.unpack
    def test_bad_weather_at_every_call(self, kind, commit):
        for place in (self.one, self.two):
            for after in range(40):
                self.away()
                self.write_all(self.two, f'at call {after}')
                fault = place.control.add_fault(
                    kind=kind, commit=commit, times=1, after=after)
                self.assert_home(self.back())
                place.control.clear_faults()
                if not fault.struck:
                    break
            self.assertIn(after, range(10, 39))

    @ddt.data('one', 'two')
    def test_an_array_that_is_dead_from_the_start(self, name):
        """One call's time is spent on it, and half a minute at the end."""
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
            place.control.set_switches(bulk=())
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
        self.two.client.volumes.create(name='other', size=GIB,
                                       volume_group=group.ref)
        return group


class ScaleTest(PairTest):

    COUNT = 120

    def test_few_calls(self):
        self.several(self.COUNT)
        for place in (self.one, self.two):
            place.control.clear_journal()
        self.assert_served_quickly()
        self.assertEqual(0, sum(self.one.calls().values()))
        self.assertLessEqual(sum(self.two.calls().values()), 10)
        for place in (self.one, self.two):
            place.control.clear_journal()
        outcomes = self.back()
        calls = self.one.calls() + self.two.calls()
        looks = calls.pop('GET replication/sessions')
        self.assertTrue(all(o.ok for o in outcomes.values()))
        self.assertLessEqual(looks, 40)
        self.assertLessEqual(sum(calls.values()), 30, calls)
        self.assertEqual(3, calls['PATCH replication/sessions/__bulk'])
        self.assertEqual(2, calls['POST snapshots/__bulk'])
        self.assertLessEqual(self.clock.monotonic(), 700)

    def assert_served_quickly(self):
        outcomes = self.over()
        self.assertEqual(self.COUNT, sum(o.ok for o in outcomes.values()))

    def test_progress(self):
        """It is told at most once a minute."""
        self.several(2)
        self.over()
        self.two.control.set_switches(snapshot_seconds=290.0)
        self.write_all(self.two, 'away')
        logging.disable(logging.NOTSET)
        with self.assertLogs(NAME, 'INFO') as logs:
            self.assert_home(self.back())
        told = [line for line in logs.output if 'arrived' in line]
        self.assertIn('0 of 2 volumes or groups have arrived', told[0])
        self.assertIn(len(told), range(4, 11))
