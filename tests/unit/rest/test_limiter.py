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

import threading
import unittest

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import polling
from cinder_k2.rest import limiter

TIMEOUT = 10.0


class Worker:
    """A thread that enters the limiter and stays until go() is called."""

    def __init__(self, a_limiter):
        self.inside = threading.Event()
        self.leave = threading.Event()
        self._limiter = a_limiter
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with self._limiter.enter(TIMEOUT) as entered:
            if entered:
                self.inside.set()
                self.leave.wait(TIMEOUT)

    def go(self):
        self.leave.set()
        self._thread.join(TIMEOUT)


class RequestLimiterTest(unittest.TestCase):

    def _through(self, a_limiter, what='succeeded', times=1):
        for _ in range(times):
            with a_limiter.enter(0) as entered:
                getattr(entered, what)()

    def _limits(self, a_limiter, times):
        """The limit after each of several windows of successes."""
        seen = []
        for _ in range(times):
            before = a_limiter.limit
            self._through(a_limiter, times=before - 1)
            self.assertEqual(before, a_limiter.limit)
            self._through(a_limiter)
            seen.append(a_limiter.limit)
        return seen

    def test_doubles_until_the_first_busy(self):
        a_limiter = limiter.RequestLimiter(100)
        self.assertEqual(4, a_limiter.limit)
        self.assertEqual([8, 16, 32], self._limits(a_limiter, 3))
        self._through(a_limiter, 'congested')
        self.assertEqual(16, a_limiter.limit)
        self.assertEqual([17, 18, 19], self._limits(a_limiter, 3))

    def test_doubles_up_to_the_ceiling(self):
        a_limiter = limiter.RequestLimiter(10)
        self.assertEqual([8, 10], self._limits(a_limiter, 2))

    def test_never_above_the_ceiling(self):
        a_limiter = limiter.RequestLimiter(6)
        self._through(a_limiter, times=1000)
        self.assertEqual(6, a_limiter.limit)
        self.assertEqual(2, limiter.RequestLimiter(2).limit)

    def test_halves_down_to_one(self):
        """ERR-4: fewer writes at a time while the array is busy."""
        a_limiter = limiter.RequestLimiter(32, start=9)
        seen = []
        for _ in range(5):
            self._through(a_limiter, 'congested')
            seen.append(a_limiter.limit)
        self.assertEqual([4, 2, 1, 1, 1], seen)

    def test_halving_resets_the_count_of_successes(self):
        a_limiter = limiter.RequestLimiter(32)
        self._through(a_limiter, times=3)
        self._through(a_limiter, 'congested')
        self._through(a_limiter)
        self.assertEqual(2, a_limiter.limit)

    def test_concurrent_busy_replies_halve_once(self):
        a_limiter = limiter.RequestLimiter(32, start=8)
        with a_limiter.enter(0) as one, a_limiter.enter(0) as two:
            one.congested()
            two.congested()
            with a_limiter.enter(0) as three:
                self.assertEqual(4, a_limiter.limit)
                three.congested()
        self.assertEqual(2, a_limiter.limit)

    def test_each_group_of_busy_replies_halves_once(self):
        a_limiter = limiter.RequestLimiter(64, start=32)
        limits = []
        for _ in range(3):
            with a_limiter.enter(0) as one, a_limiter.enter(0) as two:
                one.congested()
                two.congested()
            limits.append(a_limiter.limit)
        self.assertEqual([16, 8, 4], limits)

    def test_no_slot_in_time(self):
        a_limiter = limiter.RequestLimiter(1)
        with a_limiter.enter(0):
            for timeout in (0, 0.01):
                with a_limiter.enter(timeout) as entered:
                    self.assertIsNone(entered)
        with a_limiter.enter(0) as entered:
            self.assertIsNotNone(entered)

    def test_an_exception_frees_the_slot(self):
        a_limiter = limiter.RequestLimiter(1)
        with self.assertRaises(KeyError), a_limiter.enter(0):
            raise KeyError
        with a_limiter.enter(0) as entered:
            self.assertIsNotNone(entered)

    def test_next_enters_when_one_leaves(self):
        a_limiter = limiter.RequestLimiter(2)
        first = [Worker(a_limiter), Worker(a_limiter)]
        for worker in first:
            self.assertTrue(worker.inside.wait(TIMEOUT))
        late = Worker(a_limiter)
        self.assertFalse(late.inside.is_set())
        first[0].go()
        self.assertTrue(late.inside.wait(TIMEOUT))
        first[1].go()
        late.go()

    def test_waiter_enters_when_the_limit_rises(self):
        a_limiter = limiter.RequestLimiter(32, start=1)
        with a_limiter.enter(0) as entered:
            late = Worker(a_limiter)
            polling.wait_until(
                lambda: len(a_limiter._changed._waiters) == 1, TIMEOUT,
                what='the worker at the limiter', interval=0.001)
            entered.succeeded()
            self.assertTrue(late.inside.wait(TIMEOUT))
        late.go()

    def test_lowered_limit_lets_active_requests_finish(self):
        a_limiter = limiter.RequestLimiter(4)
        with a_limiter.enter(0) as one, a_limiter.enter(0), a_limiter.enter(0):
            one.congested()
            with a_limiter.enter(0) as entered:
                self.assertIsNone(entered)
        with a_limiter.enter(0) as entered:
            self.assertIsNotNone(entered)

    def test_many_threads_never_exceed_the_limit(self):
        a_limiter = limiter.RequestLimiter(3)
        lock = threading.Lock()
        inside, most = 0, 0

        def work():
            nonlocal inside, most
            for _ in range(50):
                with a_limiter.enter(TIMEOUT) as entered:
                    with lock:
                        inside += 1
                        most = max(most, inside)
                    entered.succeeded()
                    with lock:
                        inside -= 1

        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        self.assertEqual(0, inside)
        self.assertLessEqual(most, 3)

    @given(st.integers(1, 40), st.lists(st.booleans(), max_size=300))
    def test_the_limit_stays_within_its_bounds(self, ceiling, outcomes):
        a_limiter = limiter.RequestLimiter(ceiling)
        doubles = True
        for good in outcomes:
            before = a_limiter.limit
            self._through(a_limiter, 'succeeded' if good else 'congested')
            self.assertTrue(1 <= a_limiter.limit <= ceiling)
            doubles &= good
            if not good:
                self.assertEqual(max(1, before // 2), a_limiter.limit)
            else:
                most = 2 * before if doubles else before + 1
                self.assertIn(a_limiter.limit, (before, min(most, ceiling)))
