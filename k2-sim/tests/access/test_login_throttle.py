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

"""Wrong passwords by address: counted, answered with a delay, forgotten."""

import ddt
import testtools

import k2_sim
from k2_sim.access import login_throttle
from tests import base

STRANGER, OWNER = '192.0.2.1', '192.0.2.2'


@ddt.ddt
class LoginThrottleTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = k2_sim.FakeClock()
        self.throttle = login_throttle.LoginThrottle(self.clock)

    def fail_often(self, address=STRANGER, times=login_throttle.TRIES):
        return [self.throttle.fail(address) for _ in range(times)]

    def test_delays(self):
        self.assertEqual({0.0}, set(self.fail_often()))
        self.assertEqual([1, 2, 4, 4], self.fail_often(times=4))
        self.assertEqual([4.0] * 30, self.fail_often(times=30))

    def test_each_address_has_its_own_count(self):
        self.fail_often()
        self.assertTrue(self.throttle.is_exhausted(STRANGER))
        self.assertFalse(self.throttle.is_exhausted(OWNER))
        self.assertEqual(0, self.throttle.fail(OWNER))

    @ddt.data(('2001:db8::1', '2001:db8::ffff:1', True),
              ('2001:db8::1', '2001:db8:0:1::1', False),
              ('fe80::1%eth0', 'fe80::1%eth1', True),
              ('192.0.2.1', '192.0.2.3', False),
              ('::ffff:192.0.2.1', '::ffff:192.0.2.3', False),
              ('::ffff:192.0.2.1', '192.0.2.1', True),
              ('', '', True), ('', 'a', False))
    @ddt.unpack
    def test_addresses_of_one_machine(self, first, second, are_one):
        self.fail_often(first)
        self.assertEqual(are_one, self.throttle.is_exhausted(second))

    def test_after_a_while(self):
        self.fail_often()
        self.clock.advance(login_throttle.TRIES_SECONDS - 1)
        self.assertTrue(self.throttle.is_exhausted(STRANGER))
        self.clock.advance(1)
        self.assertFalse(self.throttle.is_exhausted(STRANGER))
        self.assertEqual(0, self.throttle.fail(STRANGER))

    def test_the_first_address_is_forgotten(self):
        self.fail_often()
        for number in range(1000):
            self.throttle.fail(f'198.51.{number // 250}.{number % 250}')
        self.assertFalse(self.throttle.is_exhausted(STRANGER))


class ThrottledRequestTest(base.ArrayTest):
    """Requests with a wrong password, to the API and the control API."""

    def delay(self, path='/api/v2', address=STRANGER, password='no'):
        """Status and delay of a reply."""
        headers = {} if password is None else base.authorization(
            password=password)
        with self.array.exchange('GET', path, headers=headers,
                                 address=address) as exchange:
            return exchange.response.status, exchange.delay

    def test_held_back(self):
        for path in ('/api/v2', '/sim/v1/state') * 5:
            self.assertEqual((401, 0), self.delay(path))
        self.assertEqual((401, 1), self.delay())
        self.assertEqual((401, 2), self.delay('/sim/v1/state'))

    def test_other_arrays_are_held_back_for_less(self):
        """They wait 5 seconds for each other."""
        for _ in range(20):
            self.delay()
        self.assertEqual((401, 1), self.delay('/sim/v1/peer'))

    def test_others_are_not(self):
        """Neither another address, nor this one with the right password."""
        for _ in range(20):
            self.delay()
        self.assertEqual((401, 0), self.delay(address=OWNER))
        self.assertEqual((200, 0), self.delay(password='admin'))

    def test_requests_without_a_password_are_not(self):
        for path in ('/api/v2', '/sim/v1/state') * 10:
            self.assertEqual((401, 0), self.delay(path, password=None))

    def test_a_page_without_a_session_is_not(self):
        """The console asks each second, and its logins count for it."""
        for _ in range(20):
            self.assertEqual((401, 0), self.delay('/console/feed/overview'))
        self.assertEqual((401, 0), self.delay())
