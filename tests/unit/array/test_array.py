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


"""Deadlines of an array that does not reply."""

import contextlib

from cinder_k2 import rest
from tests.unit import simulated


class DeadlineTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.sim.control.add_fault(kind='hang', seconds=7200.0, times=9999)

    def spent(self, deadline):
        """Return the seconds after which a call within the deadline fails."""
        begin = self.clock.monotonic()
        with deadline:
            self.assertRaises(rest.RestError, self.array.volumes.find_group,
                              'g')
        return self.clock.monotonic() - begin

    @contextlib.contextmanager
    def no_time_left(self):
        """A deadline that has passed."""
        with self.array.deadline():
            self.spent(contextlib.nullcontext())
            yield

    def test_calls_share_a_deadline(self):
        whole = self.spent(contextlib.nullcontext())
        self.assertGreater(whole, 5)
        with self.array.deadline():
            self.assertEqual(whole, self.spent(self.array.deadline()))
            self.assertEqual(0, self.spent(self.array.deadline()))
            self.assertEqual(whole, self.spent(
                self.array.deadline(fresh=True)))

    def test_cleanup_has_its_own_time(self):
        with self.no_time_left():
            self.assertEqual(0, self.spent(contextlib.nullcontext()))
            self.assertEqual(30, self.spent(self.array.cleanup_deadline()))

    def test_probe_has_little_time(self):
        with self.no_time_left():
            self.assertEqual(5, self.spent(self.array.probe_deadline()))


class ReadTest(simulated.SimulatedTest):

    def test_concurrent_reads(self):
        group = self.array.volumes.create_group('g', True)
        self.assertEqual((group, None), self.array.concurrently(
            lambda: self.array.volumes.find_group('g'),
            lambda: self.array.volumes.find_group('h')))

    def test_new_object_shows_late(self):
        """OBJ-6: it is searched for until it shows."""
        late = [None, None]

        def find():
            return late.pop() if late else self.array.volumes.find_group('g')
        self.assertIsNone(self.array.shown(find))
        late[:] = [None, None]
        group = self.array.volumes.create_group('g', True)
        self.assertEqual(group, self.array.shown(find))
