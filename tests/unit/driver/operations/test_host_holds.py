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

import collections
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
_HOST, _MAPS = 'k2-sys-host-a', 'k2-sys-maps-a'


class Locks:
    """The locks of a cluster, in this process.

    :ivar taken: the names of all locks that were taken, in order
    """

    def __init__(self):
        self.taken = []
        self._locks = collections.defaultdict(threading.Lock)

    @contextlib.contextmanager
    def lock(self, name, timeout=None):
        timeout = _TIMEOUT if timeout is None else timeout
        if not (self._locks[name].acquire(timeout=timeout) if timeout
                else self._locks[name].acquire(blocking=False)):
            raise exceptions.LockTimeout(name)
        self.taken.append(name)
        try:
            yield
        finally:
            self._locks[name].release()

    def held(self):
        """Names of the locks that are held."""
        return {name for name, lock in list(self._locks.items())
                if lock.locked()}


class _HoldsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.locks = Locks()
        patcher = mock.patch.object(locks, '_lock', self.locks.lock)
        patcher.start()
        self.addCleanup(patcher.stop)
        self.holds = host_holds.HostHolds()
        self.log = []

    def times_held(self):
        """Return how often the host was locked."""
        return self.locks.taken.count(_HOST)

    def hold(self, what=None, initiators=('a',), holds=None, alone=False):
        return (holds or self.holds).hold('sys', initiators, _subject(what),
                                          alone=alone)

    def start(self, what, inside=None, holds=None, alone=False):
        """Start a thread that holds the host until it is told to leave."""
        entered, may_leave = threading.Event(), threading.Event()

        def run():
            with self.hold(what, holds=holds, alone=alone) as hold:
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

    def wait_for_waiting(self, number, holds=None):
        """Wait until this many operations wait to share the hold."""
        held, = (holds or self.holds)._rounds.values()
        for _ in range(2000):
            if len(held.waiting) == number:
                return
            threading.Event().wait(0.005)
        self.fail(f'{len(held.waiting)} wait, not {number}')


class HostHoldsTest(_HoldsTest):

    def test_one_without_a_subject_is_not_shared(self):
        """Another operation on the same volume could enter it."""
        with self.hold() as hold:
            entered, _, thread = self.start('v')
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(hold.is_alone)
            self.assertFalse(entered.wait(0.05))
        self.assertTrue(entered.wait(_TIMEOUT))

    def test_the_time_to_wait_does_not_start_again(self):
        """Notifications in the meantime do not extend the timeout."""
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
        self.assertEqual([_HOST, _MAPS], self.locks.taken)
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
        self.assertEqual(1, self.times_held())

    def test_all_that_wait_share_a_hold_that_ends_at_once(self):
        """Otherwise each would get an exclusive hold, one after the other."""
        with self.hold('v') as hold:
            started = [self.start(what) for what in 'wxy']
            self.wait_for_waiting(3)
            hold.share()
            for _, may_leave, _ in started:
                may_leave.set()
        self.assertEqual(set('wxy'), {*self.log})
        self.assertEqual(1, self.times_held())

    def test_one_of_a_subject_follows_the_other(self):
        """It enters the same hold once the first one has left."""
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
        self.assertEqual(1, self.times_held())

    def test_only_another_on_the_same_volume_waits(self):
        """That one could not enter, so the hold stays exclusive."""
        with self.hold('v') as hold:
            entered, _, thread = self.start('v')
            self.wait_for_waiting(1)
            hold.share()
            self.assertTrue(hold.is_alone)
            self.assertFalse(entered.is_set())
        self.assertTrue(entered.wait(_TIMEOUT))

    def test_operation_that_comes_while_it_is_open(self):
        with self.hold('v') as hold:
            _, leave_first, _ = self.start('w')
            self.wait_for_waiting(1)
            hold.share()
            later, leave_later, _ = self.start('x')
            self.assertTrue(later.wait(_TIMEOUT))
            leave_first.set()
            leave_later.set()
        self.assertEqual(1, self.times_held())

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
        self.assertEqual(set(), self.locks.held())

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
        self.assertEqual(2, self.times_held())

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
        self.assertEqual(2, self.times_held())

    def test_different_hosts_are_held_independently(self):
        with self.hold('v'), self.hold('v', ('b',)):
            self.assertEqual(2, len(self.holds._rounds))
        self.assertEqual({}, self.holds._rounds)

    def test_hold_is_released_on_error(self):
        for _ in range(2):
            with self.assertRaises(KeyError), self.hold('v'):
                raise KeyError
        self.assertEqual({}, self.holds._rounds)

    def test_lock_timeout(self):
        with mock.patch.object(locks, 'host', autospec=True,
                               side_effect=exceptions.LockTimeout('late')):
            with self.assertRaises(exceptions.LockTimeout), self.hold('v'):
                self.fail('it was not had')
        self.assertEqual({}, self.holds._rounds)

    def test_hold_that_is_not_released_in_time(self):
        with mock.patch.object(locks, 'LOCK_TIMEOUT', 0.05), self.hold('v'):
            with self.assertRaisesRegex(exceptions.LockTimeout, 'hangs'), \
                    self.hold('w'):
                self.fail('it was held')

    def test_timeout_for_other_locks(self):
        for timeout in None, 5.0:
            with self.holds.hold('sys', ['a'], None, timeout) as hold:
                self.assertEqual(timeout, hold.timeout)

    def test_shorter_timeout(self):
        """It applies to threads of this service and to the lock."""
        with self.hold('v'), self.assertRaisesRegex(
                exceptions.LockTimeout, 'Waited 0.05 seconds'), \
                self.holds.hold('sys', ['a'], None, 0.05):
            self.fail('it was held')
        with mock.patch.object(locks, 'host', autospec=True) as lock:
            with self.holds.hold('sys', ['a'], None, 0.05):
                pass
        lock.assert_called_once_with('sys', frozenset('a'), 0.05, alone=True)

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


class ServicesTest(_HoldsTest):
    """Two services of a cluster, and a third one."""

    def setUp(self):
        super().setUp()
        self.others = host_holds.HostHolds()
        self.third = host_holds.HostHolds()

    @contextlib.contextmanager
    def shared(self, what='v', other='w'):
        """A hold of the first service that two of its threads share."""
        with self.hold(what) as hold:
            _, leave, thread = self.start(other)
            self.wait_for_waiting(1)
            hold.share()
            leave.set()
            thread.join(_TIMEOUT)
            yield hold

    def test_both_map_at_the_same_time(self):
        """Neither is alone, so neither removes a host without volumes."""
        with self.shared() as hold, self.hold('x', holds=self.others) as other:
            self.assertFalse(hold.is_alone)
            self.assertFalse(other.is_alone)
            self.assertRaises(hosts.MustBeAlone, other.claim)
            other.share()
            self.assertEqual({_HOST, _MAPS, _mapping('v'), _mapping('x')},
                             self.locks.held())
        self.assertEqual(set(), self.locks.held())

    def test_threads_of_the_second_service(self):
        """They share its hold, each with the lock of its volume."""
        with self.shared(), self.hold('x', holds=self.others) as other:
            entered, leave, thread = self.start('y', holds=self.others)
            self.wait_for_waiting(1, self.others)
            other.share()
            self.assertTrue(entered.wait(_TIMEOUT))
            self.assertEqual({_HOST, _MAPS, *map(_mapping, 'vxy')},
                             self.locks.held())
            leave.set()

    def test_threads_that_come_to_the_second_service_later(self):
        with self.shared(), self.hold('x', holds=self.others) as other:
            with self.assertNoLogs(host_holds.LOG.logger, 'WARNING'):
                other.share()
            entered, leave, _ = self.start('y', holds=self.others)
            self.assertTrue(entered.wait(_TIMEOUT))
            leave.set()

    def test_one_that_must_be_alone_waits_for_the_end(self):
        """It cannot enter a hold of which another service uses the host."""
        with contextlib.ExitStack() as first:
            first.enter_context(self.shared())
            with self.hold('x', holds=self.others) as other:
                other.share()
                alone, leave, _ = self.start(
                    'y', host_holds.Hold.claim, self.others, alone=True)
                self.assertFalse(alone.wait(0.05))
            self.assertFalse(alone.wait(0.05))
        self.assertTrue(alone.wait(_TIMEOUT))
        leave.set()

    def test_hold_without_another_service_is_shared_by_threads(self):
        """For example to create a host for which many threads wait."""
        with self.shared():
            alone, leave_alone, _ = self.start(
                'x', self.claim_and_share, self.others, alone=True)
            self.wait_for_lock(_HOST)
            entered, leave, _ = self.start('y', holds=self.others)
            self.assertFalse(alone.wait(0.05))
        self.assertTrue(entered.wait(_TIMEOUT))
        self.assertTrue(alone.wait(_TIMEOUT))
        leave.set()
        leave_alone.set()

    def claim_and_share(self, hold):
        """Claim a hold, and share it with the operation that waits for it."""
        hold.claim()
        self.wait_for_waiting(1, self.others)
        hold.share()

    def test_exclusive_hold_waits_for_both(self):
        """Operations that come later wait for it."""
        with self.shared():
            entered, leave, _ = self.start(None, holds=self.others)
            self.wait_for_lock(_HOST)
            self.assertFalse(entered.wait(0.05))
            later, leave_later, _ = self.start('x', holds=self.third)
            self.assertFalse(later.wait(0.05))
        self.assertTrue(entered.wait(_TIMEOUT))
        self.assertFalse(later.is_set())
        leave.set()
        self.assertTrue(later.wait(_TIMEOUT))
        leave_later.set()

    def test_third_service_waits_for_the_second(self):
        """The second one keeps the host's own lock when the first has left."""
        with contextlib.ExitStack() as second:
            with self.shared():
                other = second.enter_context(self.hold('x',
                                                       holds=self.others))
                entered, leave, _ = self.start('y', holds=self.third)
                self.assertFalse(entered.wait(0.05))
            self.assertFalse(entered.wait(0.05))
            self.assertFalse(other.is_alone)
        self.assertTrue(entered.wait(_TIMEOUT))
        leave.set()

    def test_volume_of_both(self):
        """Attachments of one volume share a mapping."""
        with self.shared():
            same, leave, _ = self.start('v', holds=self.others)
            self.assertFalse(same.wait(0.05))
        self.assertTrue(same.wait(_TIMEOUT))
        leave.set()

    def test_volume_of_a_later_thread(self):
        """The thread enters the hold, and waits for the lock of the volume."""
        with self.shared():
            first, leave_first, _ = self.start('x', holds=self.others)
            self.assertTrue(first.wait(_TIMEOUT))
            same, leave_same, _ = self.start('x')
            self.assertFalse(same.wait(0.05))
            leave_first.set()
            self.assertTrue(same.wait(_TIMEOUT))
            leave_same.set()

    def test_hold_that_none_of_this_service_waits_for(self):
        """The hold stays exclusive, which needs fewer calls."""
        with self.hold('v') as hold:
            entered, leave, _ = self.start('x', holds=self.others)
            hold.share()
            self.assertTrue(hold.is_alone)
            self.assertFalse(entered.wait(0.05))
        self.assertTrue(entered.wait(_TIMEOUT))
        leave.set()

    def test_objects_without_a_row_have_no_lock(self):
        """Only this service maps them."""
        view = host_holds.Subject('/snapshots/5', has_row=False)
        with self.holds.hold('sys', ['a'], view) as hold:
            _, leave, _ = self.start('w')
            self.wait_for_waiting(1)
            hold.share()
            leave.set()
            self.assertNotIn(_HOST, self.locks.held())
        self.assertEqual({_HOST, _MAPS, _mapping('w')},
                         {*self.locks.taken})

    def test_lock_that_fails_when_a_hold_is_shared(self):
        """It is only logged: the caller has mapped the volume by then."""
        with self.assertLogs(host_holds.LOG.logger, 'WARNING') as logs, \
                self.locks.lock(_mapping('v')), self.shared() as hold:
            self.assertFalse(hold.is_alone)
            self.assertIn(_HOST, self.locks.held())
        self.assertIn('the host of a longer', logs.output[0])
        self.assertEqual(set(), self.locks.held())

    def test_lock_of_a_volume_that_is_not_obtained_in_time(self):
        with self.shared(), self.locks.lock(_mapping('x')), \
                mock.patch.object(host_holds, '_MAPPING_TIMEOUT', 0.05):
            with self.assertRaises(exceptions.LockTimeout), \
                    self.hold('x', holds=self.others):
                self.fail('it was held')
        self.assertEqual(set(), self.locks.held())
        self.assertEqual({}, self.others._rounds)

    def test_sharing_twice(self):
        """An operation on the same volume waits; all others have entered."""
        with self.shared() as hold, \
                self.assertNoLogs(host_holds.LOG.logger, 'WARNING'):
            same, leave, _ = self.start('v')
            self.wait_for_waiting(1)
            hold.share()
            self.assertFalse(same.is_set())
            leave.set()
        self.assertTrue(same.wait(_TIMEOUT))

    def wait_for_lock(self, name):
        """Wait until a lock is held."""
        for _ in range(2000):
            if name in self.locks.held():
                return
            threading.Event().wait(0.005)
        self.fail(f'{name} is free')


def _mapping(what):
    return locks._mapping_name(what, 'a')


def _subject(what):
    return None if what is None else host_holds.Subject(what, has_row=True)
