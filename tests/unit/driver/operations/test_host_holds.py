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

from concurrent import futures
import contextlib
import threading
import time
import unittest
from unittest import mock

from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_holds
from cinder_k2 import exceptions
from cinder_k2.flows import hosts

_TIMEOUT = 20


class HostHoldsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.taken = []
        self.locked = threading.Lock()
        patcher = mock.patch.object(locks, 'hosts', self._lock)
        patcher.start()
        self.addCleanup(patcher.stop)
        self.holds = host_holds.HostHolds()
        self.log = []

    @contextlib.contextmanager
    def _lock(self, system_id, initiators, timeout):
        """Replace locks.hosts; fail if it is held twice."""
        self.assertTrue(self.locked.acquire(blocking=False))
        self.taken.append((system_id, set(initiators)))
        try:
            yield
        finally:
            self.locked.release()

    def hold(self, what=None, initiators=('a',)):
        return self.holds.hold('sys', initiators, what)

    def start(self, what, inside=None):
        """Start a thread that holds the host until it is told to leave."""
        entered, may_leave = threading.Event(), threading.Event()

        def run():
            with self.hold(what) as hold:
                self.log.append(what)
                if inside:
                    inside(hold)
                entered.set()
                may_leave.wait(_TIMEOUT)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, _TIMEOUT)
        self.addCleanup(may_leave.set)
        return entered, may_leave, thread

    def wait_for_waiting(self, number):
        """Wait until this many operations wait to share the hold."""
        held, = self.holds._rounds.values()
        for _ in range(2000):
            if len(held.waiting) == number:
                return
            threading.Event().wait(0.005)
        self.fail(f'{len(held.waiting)} wait, not {number}')

    def test_one_without_a_subject_is_not_shared(self):
        """Another on the same volume could enter it."""
        with self.hold() as hold:
            entered, _, thread = self.start('v')
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(hold.is_alone)
            self.assertFalse(entered.wait(0.05))
        self.assertTrue(entered.wait(_TIMEOUT))

    def test_the_time_to_wait_does_not_start_again(self):
        """Others come and go meanwhile."""
        with self.hold('v') as hold, futures.ThreadPoolExecutor() as pool:
            hold.share()
            waiting = pool.submit(self.enter, 0.1)
            end = time.monotonic() + _TIMEOUT
            while not waiting.done() and time.monotonic() < end:
                with self.holds._changed:
                    self.holds._changed.notify_all()
                time.sleep(0.01)
            self.assertRaises(exceptions.LockTimeout, waiting.result)

    def enter(self, timeout):
        with self.holds.hold('sys', ['a'], None, timeout):
            pass

    def test_exclusive_hold(self):
        with self.hold('v') as hold:
            hold.share()
            self.assertTrue(hold.is_alone)
            hold.claim()
        self.assertEqual([('sys', {'a'})], self.taken)
        self.assertEqual({}, self.holds._rounds)

    def test_shared_hold(self):
        with self.hold('v') as hold:
            entered, may_leave, thread = self.start('w')
            self.wait_for_waiting(1)
            self.assertFalse(entered.is_set())
            hold.share()
            self.assertTrue(entered.wait(_TIMEOUT))
            self.assertFalse(hold.is_alone)
            self.assertRaises(hosts.MustBeAlone, hold.claim)
            may_leave.set()
            thread.join(_TIMEOUT)
        self.assertEqual(1, len(self.taken))

    def test_all_that_wait_share_a_hold_that_ends_at_once(self):
        """Otherwise each would be the first of the next hold, alone."""
        with self.hold('v') as hold:
            started = [self.start(what) for what in 'wxy']
            self.wait_for_waiting(3)
            hold.share()
            for _, may_leave, _ in started:
                may_leave.set()
        self.assertEqual(set('wxy'), {*self.log})
        self.assertEqual(1, len(self.taken))

    def test_one_of_a_subject_follows_the_other(self):
        """In the same hold, as long as that is open."""
        with self.hold('v') as hold:
            first, leave_first, _ = self.start('w')
            self.wait_for_waiting(1)
            second, leave_second, thread = self.start('w')
            self.wait_for_waiting(2)
            hold.share()
            self.assertTrue(first.wait(_TIMEOUT))
            self.assertFalse(second.is_set())
            leave_first.set()
            self.assertTrue(second.wait(_TIMEOUT))
            leave_second.set()
            thread.join(_TIMEOUT)
        self.assertEqual(['w', 'w'], self.log)
        self.assertEqual(1, len(self.taken))

    def test_operation_that_comes_while_it_is_open(self):
        with self.hold('v') as hold:
            _, leave_first, _ = self.start('w')
            self.wait_for_waiting(1)
            hold.share()
            later, leave_later, _ = self.start('x')
            self.assertTrue(later.wait(_TIMEOUT))
            leave_first.set()
            leave_later.set()
        self.assertEqual(1, len(self.taken))

    def test_operation_that_shares_a_hold_cannot_claim_it(self):
        claims = []

        def claim(hold):
            try:
                hold.claim()
            except hosts.MustBeAlone:
                claims.append('refused')
        with self.hold('v') as hold:
            entered, may_leave, _ = self.start('w', claim)
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(entered.wait(_TIMEOUT))
            may_leave.set()
        self.assertEqual(['refused'], claims)

    def test_lock_is_kept_until_all_have_left(self):
        with self.hold('v') as hold:
            entered, may_leave, _ = self.start('w')
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(entered.wait(_TIMEOUT))
            threading.Timer(0.05, may_leave.set).start()
        self.assertTrue(may_leave.is_set())
        self.assertFalse(self.locked.locked())

    def test_same_volume_does_not_share_a_hold(self):
        """Attachments of one volume share a mapping."""
        with self.hold('v') as hold:
            same, leave_same, _ = self.start('v')
            other, leave_other, _ = self.start('w')
            self.wait_for_waiting(2)
            hold.share()
            self.assertTrue(other.wait(_TIMEOUT))
            self.assertFalse(same.is_set())
            leave_other.set()
        self.assertTrue(same.wait(_TIMEOUT))
        leave_same.set()
        self.assertEqual(2, len(self.taken))

    def test_operation_without_a_volume_does_not_share_a_hold(self):
        with self.hold('v') as hold:
            alone, leave_alone, _ = self.start(None)
            other, leave_other, _ = self.start('w')
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(other.wait(_TIMEOUT))
            self.assertFalse(alone.is_set())
            leave_other.set()
        self.assertTrue(alone.wait(_TIMEOUT))
        leave_alone.set()

    def test_hold_is_not_shared_without_share(self):
        with self.hold('v'):
            other, leave, _ = self.start('w')
            self.wait_for_waiting(1)
            self.assertFalse(other.is_set())
        self.assertTrue(other.wait(_TIMEOUT))
        leave.set()
        self.assertEqual(2, len(self.taken))

    def test_different_hosts_are_held_independently(self):
        @contextlib.contextmanager
        def lock(system_id, initiators, timeout):
            yield
        with mock.patch.object(locks, 'hosts', lock), \
                self.hold('v'), self.hold('v', ('b',)):
            self.assertEqual(2, len(self.holds._rounds))
        self.assertEqual({}, self.holds._rounds)

    def test_hold_is_released_on_error(self):
        for _ in range(2):
            with self.assertRaises(KeyError), self.hold('v'):
                raise KeyError
        self.assertEqual({}, self.holds._rounds)

    def test_lock_timeout(self):
        with mock.patch.object(locks, 'hosts', autospec=True,
                               side_effect=exceptions.LockTimeout('late')):
            with self.assertRaises(exceptions.LockTimeout), self.hold('v'):
                self.fail('it was not had')
        self.assertEqual({}, self.holds._rounds)

    def test_hold_that_is_not_released_in_time(self):
        with mock.patch.object(locks, 'LOCK_TIMEOUT', 0.05), self.hold('v'):
            with self.assertRaisesRegex(exceptions.LockTimeout, 'hangs'), \
                    self.hold('w'):
                self.fail('it was held')

    def test_shorter_timeout(self):
        """It applies to threads of this service and to the lock."""
        with self.hold('v'), self.assertRaisesRegex(
                exceptions.LockTimeout, 'Waited 0.05 seconds'), \
                self.holds.hold('sys', ['a'], None, 0.05):
            self.fail('it was held')
        with mock.patch.object(locks, 'hosts', autospec=True,
                               return_value=contextlib.nullcontext()) as lock:
            with self.holds.hold('sys', ['a'], None, 0.05):
                pass
        lock.assert_called_once_with('sys', frozenset('a'), 0.05)

    def test_shared_hold_that_is_not_released_in_time(self):
        with self.assertLogs(host_holds.LOG.logger, 'ERROR') as logs, \
                mock.patch.object(locks, 'LOCK_TIMEOUT', 0.05):
            with self.hold('v') as hold:
                with mock.patch.object(locks, 'LOCK_TIMEOUT', _TIMEOUT):
                    entered, _, _ = self.start('w')
                    self.wait_for_waiting(1)
                    hold.share()
                    self.assertTrue(entered.wait(_TIMEOUT))
        self.assertIn('host of a hang', logs.output[0])
