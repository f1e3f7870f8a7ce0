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

from oslotest import base
import requests

from cinder_k2 import array
from cinder_k2.flows import failover
from cinder_k2 import rest
import k2_sim
from tests import offered
from tests.unit.rest import scripted

GIB = 1 << 20
IN_SYNC, SUSPENDED, IDLE = 'in_sync', 'suspended', 'idle'
FAILED_OVER = 'failed_over'
NAME = 'cinder_k2.flows.failover'


class Killed(BaseException):
    """The service is killed here."""


class Wire(k2_sim.RequestsAdapter):
    """The connection to one array, with hooks at each call.

    :ivar before: called with the number of each call before it is sent
    :ivar after: called with the number of each call after its reply
    :ivar dead: whether the array is unreachable
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


def is_takeover(request):
    """Whether a request commands sessions to take over."""
    return request.method == 'PATCH' and b'failed_over' in (request.body
                                                            or b'')


def refused(request, text, status=400):
    """Return a reply that refuses a request."""
    return scripted.Adapter(scripted.refusal(text, status)).send(request)


class SlowWire:
    """Loses the first reply to failed_over, and carries that out later.

    :param carried_out: seconds from then
    :ivar is_done: whether it was carried out
    """

    def __init__(self, place, clock, carried_out):
        self._wire, self._clock = place.wire, clock
        self._carried_out = carried_out
        self._lost, self._due = None, 0.0
        self._send = self._wire.send
        self.is_done = False

    @contextlib.contextmanager
    def losing_replies(self, then=None, *, always=False):
        """Lose the reply inside.

        :param then: called with each later request, and whether it is such a
            command; returns a reply, or None to send the request
        :param always: lose the replies to all later commands, too
        """
        def send(request, **settings):
            if self._lost is not None and self._clock.monotonic() >= self._due:
                self._carry_out(settings)
            is_command = is_takeover(request)
            if is_command and (always or self._lost is None
                               and not self.is_done):
                if self._lost is None:
                    self._lost = request.copy()
                    self._due = self._clock.monotonic() + self._carried_out
                self._clock.advance(21 if always else 2)
                raise requests.exceptions.ReadTimeout('no reply')
            reply = None
            if then and self._lost is not None:
                reply = then(request, is_command)
            # An unsuccessful reply is false.
            return (self._send(request, **settings) if reply is None
                    else reply)

        with mock.patch.object(self._wire, 'send', send):
            yield

    def _carry_out(self, settings):
        if not self.is_done:
            # Only the array's own later tries are told apart by their number.
            for header in [name for name in self._lost.headers
                           if 'equence' in name]:
                del self._lost.headers[header]
            self._send(self._lost, **settings)
            self.is_done = True


class Place:
    """One array, with helpers for tests."""

    def __init__(self, name, clock):
        self.sim = k2_sim.Array('sdp', clock=clock, name=name)
        self.control = self.sim.control
        self.wire = Wire(self.sim)
        self.client = rest.Client(rest.Settings(
            address=f'{name}.example.org', login='admin', password='admin',
            deadline=20),
            adapter=self.wire, clock=clock)
        for capability in offered.names('sdp'):
            self.client.capabilities.found(capability)
        self.array = array.Array(self.client, 'Best_Effort_Retention')
        self.host = self.client.hosts.create(name='host', type='Linux')

    def lose(self):
        self.wire.dead = True
        self.control.cut_link()

    def find_again(self):
        self.wire.dead = False
        self.control.restore_link()

    def attach(self, volumes):
        self.client.mappings.create_many([
            {'host': self.host.ref, 'volume': self.client.volumes.ref(volume)}
            for volume in volumes])

    def mapped(self):
        return {m.volume.id for m in self.client.mappings.search()}

    def session(self, unit):
        return self.array.replication.find(*unit.sessions)

    def state(self, unit):
        return self.states([unit])[0]

    def states(self, units):
        """Role and state of each unit's session, in one call."""
        found = self.array.replication.find_many(
            [name for unit in units for name in unit.sessions])
        sessions = [next((found[name] for name in unit.sessions
                          if name in found), None) for unit in units]
        return [s and f'{s.role} {s.state}' for s in sessions]

    def command(self, unit, state):
        self.array.replication.command(self.session(unit).id, state)

    def volumes(self, unit):
        """Ids of the volumes of a unit on this array, without a call."""
        return [row['id'] for name in unit.volumes for prefix in ('', 'r')
                for row in self.sim.store.find(
                    'volumes', 'name', prefix + name)]

    def calls(self):
        """The number of calls of each kind."""
        return collections.Counter(
            f'{e.method} {e.path.removeprefix("/api/v2/")}'
            for e in self.control.journal())

    def asked_for(self):
        """Replication snapshots that were taken on request."""
        return [s for s in self.client.snapshots.search()
                if s.triggered_by in ('api', 'Replication_API')]


class _Stale:
    """Shows the old states in two reads after each command."""

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
        self.clock = k2_sim.FakeClock()
        self.one, self.two = (Place(name, self.clock)
                              for name in ('one', 'two'))
        for place in (self.one, self.two):
            self.addCleanup(place.sim.close)
            self.addCleanup(place.client.close)
        k2_sim.connect(self.one.sim, self.two.sim)
        self.tokens = {}
        self.units = []
        self.reserved = set()

    def make(self, key, source=None, volumes=1):
        """Create a unit whose volumes are replicated from ``source``."""
        source = source or self.one
        other = self.two if source is self.one else self.one
        unit = failover.ReplicationUnit(key, (f'ssn-{key}', f'rssn-{key}'),
                                        tuple(
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
        place.attach([volume for unit in self.units
                      for volume in place.volumes(unit)])

    def over(self, *units):
        return failover.fail_over(self.two.array, units or self.units,
                                  self.clock)

    def back(self, *units, timeout=3600, unmap=None):
        """Fail back, as a caller that stores reservations in rows."""
        outcomes = failover.fail_back(
            self.two.array, self.one.array, [
                dataclasses.replace(
                    unit, failback_in_progress=unit.key in self.reserved)
                for unit in units or self.units], timeout=timeout,
            unmap=unmap or self.unmap, reserve=self.reserve,
            clock=self.clock)
        self.reserved -= {key for key, outcome in outcomes.items()
                          if outcome.served_by == failover.ORIGIN
                          and not outcome.outcome_unknown}
        return outcomes

    def reserve(self, keys):
        """Reserve these units, so that no host may attach them."""
        self.reserved |= set(keys)
        return keys

    def unmap(self, there, volumes):
        place = self.one if there is self.one.array else self.two
        found = place.client.mappings.search(rest.query.one_of('volume', [
            place.client.volumes.ref(ids[0]) for ids in volumes.values()]))
        place.client.mappings.delete_many({
            mapping.id: {'host': mapping.host, 'volume': mapping.volume}
            for mapping in found})

    @contextlib.contextmanager
    def late(self, *places):
        """Show the effect of a command only at the third read."""
        with contextlib.ExitStack() as stack:
            for place in places:
                part = place.array.replication
                stale = _Stale(part.find_many, part.command_many)
                stack.enter_context(mock.patch.object(
                    part, 'find_many', stale.find_many))
                stack.enter_context(mock.patch.object(
                    part, 'command_many', stale.command_many))
            yield

    @contextlib.contextmanager
    def busy_after_one(self, place):
        """Let one session accept failed_over; the array is busy then.

        It offers no bulk calls.
        """
        place.control.set_behaviors(bulk=())
        real, commands = place.wire.send, []

        def send(request, **settings):
            if is_takeover(request) and '__bulk' not in request.url:
                commands.append(request)
                if len(commands) > 1:
                    return refused(request, 'overloaded', 503)
            return real(request, **settings)

        with mock.patch.object(place.wire, 'send', send):
            yield

    def assert_served(self, place, outcomes, units=None):
        """``place`` serves all units: outcomes, roles, data."""
        there = {found.id: found for found in place.client.volumes.search()}
        for unit in units or self.units:
            outcome = outcomes[unit.key]
            self.assertEqual((failover.DESTINATION, True, ''), (
                outcome.served_by, outcome.ok, outcome.reason))
            self.assertEqual(set(unit.volumes), set(outcome.volumes))
            for volume, group in outcome.volumes.values():
                self.assertEqual(group, there[volume].volume_group.id)
                self.assertFalse(there[volume].read_only)
                self.assertEqual(self.tokens[unit.key],
                                 place.control.read(volume))

    def assert_home(self, outcomes, units=None):
        units = units or self.units
        self.assert_served(self.one, outcomes, units)
        for place, state in ((self.one, 'source in_sync'),
                             (self.two, 'target in_sync')):
            self.assertEqual([state] * len(units), place.states(units))
        self.assertEqual([], self.one.asked_for() + self.two.asked_for())

    def assert_stays(self, outcome, *words):
        self.assertEqual((failover.ORIGIN, False, {}), (
            outcome.served_by, outcome.ok, outcome.volumes))
        for word in words:
            self.assertIn(word, outcome.reason)


class AwayTest(PairTest):
    """Three units that can be failed over; ``odd`` is one of them."""

    def setUp(self):
        super().setUp()
        self.several(3)
        self.odd = self.units[1]

    def away(self):
        """Fail everything over, and attach hosts on ``two``."""
        self.over()
        self.attach_all(self.two)
        self.write_all(self.two, 'away')
