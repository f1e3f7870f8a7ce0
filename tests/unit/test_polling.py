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

import unittest

from cinder_k2 import polling
from tests.unit.rest import scripted


class WaitUntilTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = scripted.FakeClock()
        self.asked = 0

    def _answers(self, *answers):
        def predicate():
            self.asked += 1
            return answers[min(self.asked, len(answers)) - 1]
        return predicate

    def _wait(self, predicate, timeout=10.0, **kwargs):
        return polling.wait_until(predicate, timeout, what='the peer',
                                  clock=self.clock, **kwargs)

    def test_immediate_result_needs_no_sleep(self):
        self.assertEqual('yes', self._wait(self._answers('yes')))
        self.assertEqual([], self.clock.sleeps)

    def test_none_and_false_mean_not_yet(self):
        self.assertIs(True, self._wait(self._answers(None, False, True)))
        self.assertEqual([1.0, 1.0], self.clock.sleeps)

    def test_zero_and_empty_are_results(self):
        self.assertEqual(0, self._wait(self._answers(0)))
        self.assertEqual([], self._wait(self._answers([])))

    def test_timeout_message(self):
        with self.assertRaises(polling.WaitTimeout) as caught:
            self._wait(self._answers(None), timeout=10.0, interval=4.0)
        self.assertEqual('the peer: not within 10 seconds',
                         str(caught.exception))
        self.assertEqual(('the peer', 10.0),
                         (caught.exception.what, caught.exception.timeout))
        # The last sleep ends at the deadline, and one more check follows.
        self.assertEqual([4.0, 4.0, 2.0], self.clock.sleeps)
        self.assertEqual(4, self.asked)

    def test_zero_timeout_still_asks_once(self):
        self.assertEqual(7, self._wait(self._answers(7), timeout=0))
        with self.assertRaises(polling.WaitTimeout):
            self._wait(self._answers(None), timeout=0)
        self.assertEqual([], self.clock.sleeps)

    def test_errors_of_the_predicate_are_raised(self):
        with self.assertRaises(KeyError):
            self._wait(lambda: {}['x'])

    def test_real_clock(self):
        clock = polling.Clock()
        before = clock.monotonic()
        clock.sleep(0.001)
        self.assertGreater(clock.monotonic(), before)
