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

"""Many volumes in few calls."""

import logging

from tests.unit.flows.failover import pair


class ScaleTest(pair.PairTest):

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

    def told_of(self, count):
        """Fail back so many units slowly; return the log lines on progress."""
        self.several(count)
        self.over()
        self.two.control.set_behaviors(snapshot_seconds=290.0)
        self.write_all(self.two, 'away')
        logging.disable(logging.NOTSET)
        with self.assertLogs(pair.NAME, 'INFO') as logs:
            self.assert_home(self.back())
        return [line for line in logs.output if 'arrived' in line]

    def test_progress(self):
        """Progress is logged at most once a minute."""
        told = self.told_of(2)
        self.assertIn('0 of 2 volumes or groups have arrived, not yet ',
                      told[0])
        for one in self.units:
            self.assertIn(one.key, told[0])
        self.assertNotIn('more', told[0])
        self.assertIn(len(told), range(4, 11))

    def test_progress_of_many(self):
        """The log names some of the units."""
        told = self.told_of(5)[0]
        self.assertIn(' and 2 more.', told)
        self.assertEqual(3, sum(one.key in told for one in self.units))
