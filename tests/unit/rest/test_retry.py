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
from unittest import mock

from cinder_k2 import rest
from cinder_k2.rest import errors
from cinder_k2.rest import retry
from tests.unit.rest import scripted


class RetryTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = scripted.FakeClock()

    def _pace(self, seconds=180.0, most=None, **settings):
        return retry.Retry(retry.Deadline(seconds, self.clock), self.clock,
                           most, **settings)

    def _until_given_up(self, pace, error):
        with self.assertRaises(type(error)) as caught:
            for _ in range(100000):
                pace.pause(error)
        self.assertIs(error, caught.exception)

    def test_pauses_double_up_to_the_cap_with_full_jitter(self):
        """ERR-2."""
        with mock.patch('random.uniform', autospec=True,
                        side_effect=lambda a, b: b) as uniform:
            self._until_given_up(self._pace(), rest.Busy('busy'))
        self.assertEqual({0}, {call.args[0]
                               for call in uniform.call_args_list})
        self.assertEqual([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0],
                         self.clock.sleeps[:8])
        self.assertEqual({5.0}, set(self.clock.sleeps[8:]))

    def test_busy_is_retried_until_the_deadline(self):
        """ERR-2, ERR-3: within the driver's own limits."""
        self._until_given_up(self._pace(60), rest.Busy('busy'))
        self.assertTrue(55 <= self.clock.now - 1000 < 60)

    def test_no_connection_is_retried_until_the_deadline(self):
        """ERR-3: within the driver's own limits."""
        self._until_given_up(self._pace(60), rest.Unreachable('gone'))
        self.assertGreaterEqual(self.clock.now - 1000, 55)

    def test_permanent_errors_are_not_retried(self):
        for error in (rest.Refused('no'), rest.AuthenticationFailed('who'),
                      rest.CertificateError('whose'), rest.NotFound('what')):
            self._until_given_up(self._pace(), error)
        self.assertEqual([], self.clock.sleeps)

    def test_500_and_bad_replies_are_retried_seven_times(self):
        for error in (rest.ServerError('x', status=500), rest.BadReply('x')):
            self.clock.sleeps.clear()
            self._until_given_up(self._pace(), error)
            self.assertEqual(7, len(self.clock.sleeps))

    def test_once(self):
        for error in (rest.Busy('busy'), rest.ServerError('x', status=500)):
            self._until_given_up(self._pace(once=True), error)
        self.assertEqual([], self.clock.sleeps)

    def test_once_with_awaits_turn_retries_busy_replies(self):
        pace = self._pace(once=True, awaits_turn=True)
        pace.pause(rest.Busy('busy'))
        for error in (rest.ServerError('x', status=500),
                      rest.Unreachable('x')):
            self._until_given_up(pace, error)
        self.assertEqual(1, len(self.clock.sleeps))

    def test_most_limits_the_tries_for_a_bad_object(self):
        for error in (rest.ServerError('x', status=500),
                      rest.Busy('x', code='MC_ERR_BUSY')):
            self.clock.sleeps.clear()
            self._until_given_up(self._pace(most=3), error)
            self.assertEqual(2, len(self.clock.sleeps))

    def test_most_failures_limits_server_failures(self):
        """Busy replies do not count."""
        for error in (rest.ServerError('x', status=500),
                      rest.ServerError('x', status=502),
                      rest.Unreachable('x')):
            pace = self._pace(most_failures=2)
            self.clock.sleeps.clear()
            pace.pause(rest.Busy('busy', status=429))
            pace.pause(error)
            pace.pause(rest.Busy('busy', status=429))
            self._until_given_up(pace, error)
            self.assertEqual(3, len(self.clock.sleeps))

    def test_most_does_not_limit_tries_on_a_busy_array(self):
        self._until_given_up(self._pace(60, most=3),
                             rest.Busy('x', status=429))
        self.assertGreater(len(self.clock.sleeps), 8)

    def test_502_is_retried_until_the_deadline(self):
        self._until_given_up(self._pace(60),
                             rest.ServerError('x', status=502))
        self.assertGreater(len(self.clock.sleeps), 8)

    def test_busy_is_raised_after_one_lost_reply(self):
        pace = self._pace(5)
        busy, cut = rest.Busy('busy'), rest.Unreachable('no reply')
        pace.pause(busy)
        self.clock.sleep(5)
        with self.assertRaises(rest.Busy) as caught:
            pace.pause(cut)
        self.assertIs(busy, caught.exception)

    def test_dropped_connections_are_told_when_out_of_time(self):
        """An array that drops them is down; one that is silent may be slow."""
        dropped, cut = rest.Unreachable('reset'), errors.NoReply('1 ms')
        for last, raised in ((dropped, dropped), (errors.NoReply('5 s'), cut),
                             (errors.NotConnected('refused'), cut)):
            pace = self._pace(5)
            pace.pause(last)
            self.clock.now += 5
            with self.assertRaises(rest.Unreachable) as caught:
                pace.pause(cut)
            self.assertIs(raised, caught.exception)

    def test_last_error_is_raised_when_out_of_time(self):
        pace = self._pace(5)
        silent = rest.Unreachable('no reply')
        pace.pause(silent)
        self.clock.sleep(5)
        with self.assertRaises(rest.Unreachable) as caught:
            pace.pause(errors.OutOfTime('the 5 seconds have passed'))
        self.assertIs(silent, caught.exception)

    def test_unreachable_is_raised_after_two_lost_replies(self):
        pace = self._pace(5)
        pace.pause(rest.Busy('busy'))
        pace.pause(rest.Unreachable('no reply'))
        self.clock.sleep(5)
        with self.assertRaises(rest.Unreachable):
            pace.pause(rest.Unreachable('no reply'))


class DeadlineTest(unittest.TestCase):

    def test_left(self):
        clock = scripted.FakeClock()
        deadline = retry.Deadline(5, clock)
        clock.sleep(2)
        self.assertEqual(3, deadline.left())
        clock.sleep(9)
        self.assertEqual(0, deadline.left())
