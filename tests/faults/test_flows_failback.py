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

"""Failback flows with a killed service, a lost array or faults."""

import contextlib
import itertools

import ddt

from cinder_k2.flows import failover
from tests.unit.flows.failover import pair


@ddt.ddt
class FailBackTest(pair.AwayTest):

    @contextlib.contextmanager
    def at_call(self, number, act, when):
        """Run ``act`` before or after the call of that number."""
        pair.Wire.numbers = itertools.count(1)

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
            place.control.set_behaviors(snapshot_seconds=2.0)

    @ddt.data('before', 'after')
    def test_a_service_that_is_killed_at_every_call(self, when):
        """The next failback completes everything, in every round."""
        self.slowly()

        def kill(place):
            raise pair.Killed

        for number in range(1, 100):
            self.away()
            self.write_all(self.two, f'turn {number}')
            try:
                with self.at_call(number, kill, when):
                    self.assert_home(self.back())
                break
            except pair.Killed:
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
        """Check that each unit is on the array that its outcome names."""
        for unit, one, two in zip(self.units, self.one.states(self.units),
                                  self.two.states(self.units)):
            outcome = outcomes[unit.key]
            self.assertNotEqual(outcome.ok, bool(outcome.reason))
            if one == 'target failed_over' or one.startswith('source') and (
                    two in ('target in_sync', 'target suspended')):
                self.assertEqual(failover.DESTINATION, outcome.served_by, (
                    one, two, outcome))
            else:
                self.assert_stays(outcome)

    @ddt.data(('busy', 'before'), ('reset', 'before'), ('reset', 'after'),
              ('garbage', 'after'), ('status', 'before'))
    @ddt.unpack
    def test_faults_at_every_call(self, kind, commit):
        for place in (self.one, self.two):
            for after in range(40):
                self.away()
                self.write_all(self.two, f'at call {after}')
                fault = place.control.add_fault(
                    kind=kind, commit=commit, times=1, after=after)
                self.assert_home(self.back())
                place.control.clear_faults()
                if not fault.triggered:
                    break
            self.assertIn(after, range(10, 39))
