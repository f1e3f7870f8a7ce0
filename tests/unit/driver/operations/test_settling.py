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

from cinder_k2.array import host_identity
from cinder_k2.driver import locks
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import settling
from cinder_k2 import exceptions
from tests.unit.driver import autospec

HOST = host_identity.Sought(('iqn.a',), ('a',))
OTHER = host_identity.Sought(('iqn.b',), ('b',))
_TIMEOUT = 20


class SettlingTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.hosts = autospec.Double(host_access.HostAccess)
        self.hosts.held.side_effect = self.held
        self.may_hold, self.may_look = threading.Event(), threading.Event()
        self.may_hold.set()
        self.may_look.set()
        self.log, self.errors = [], []
        self.locks = {each.initiators: threading.Lock()
                      for each in (HOST, OTHER)}
        self.settling = settling.Settling(self.hosts)
        self.pool = futures.ThreadPoolExecutor(9)
        self.addCleanup(self.pool.shutdown)

    @contextlib.contextmanager
    def held(self, initiators):
        self.log.append(f'wait {initiators[0]}')
        self.assertTrue(self.may_hold.wait(_TIMEOUT))
        if self.errors:
            raise self.errors.pop()
        with self.locks[initiators]:
            self.log.append('held')
            yield
            self.log.append('free')

    def look(self, waiting):
        self.log.append(list(waiting))
        self.assertTrue(self.may_look.wait(_TIMEOUT))
        return waiting != ['busy']

    def settle(self, done, sought=HOST):
        return self.settling.settle(sought, done, self.look)

    def start(self, *done):
        """Start detaches of one host; return when all of them wait."""
        found = []
        for each in done:
            found.append(self.pool.submit(self.settle, each))
            self.until(lambda: each in self.waiting())
        return found

    def waiting(self):
        """Return what the detaches that wait for a look at the host did."""
        mine = self.settling._rounds.get(HOST)
        return mine.waiting if mine else []

    def until(self, is_so):
        deadline = time.monotonic() + _TIMEOUT
        while not is_so():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)

    def test_one_detach(self):
        self.assertIs(True, self.settle('one'))
        self.assertIs(False, self.settle('busy'))
        self.assertEqual(['wait iqn.a', 'held', ['one'], 'free',
                          'wait iqn.a', 'held', ['busy'], 'free'], self.log)
        self.assertEqual({}, self.settling._rounds)

    def test_those_that_wait_share_one_look(self):
        self.may_hold.clear()
        found = self.start(1, 2, 3)
        self.may_hold.set()
        self.assertEqual([True] * 3, [f.result(_TIMEOUT) for f in found])
        self.assertEqual(['wait iqn.a', 'held', [1, 2, 3], 'free'], self.log)

    def test_one_that_comes_during_a_look_gets_another(self):
        """Its volume may still have been mapped during the first look."""
        self.may_look.clear()
        first = self.pool.submit(self.settle, 1)
        self.until(lambda: [1] in self.log)
        second, third = self.start(2, 3)
        self.assertFalse(second.done())
        self.may_look.set()
        for each in first, second, third:
            self.assertIs(True, each.result(_TIMEOUT))
        self.assertEqual([[1], [2, 3]], [each for each in self.log
                                         if isinstance(each, list)])

    def test_other_hosts_do_not_wait(self):
        self.may_look.clear()
        first = self.pool.submit(self.settle, 1)
        self.until(lambda: [1] in self.log)
        other = self.pool.submit(self.settle, 2, OTHER)
        self.until(lambda: [2] in self.log)
        self.may_look.set()
        self.assertIs(True, first.result(_TIMEOUT))
        self.assertIs(True, other.result(_TIMEOUT))

    def test_those_that_waited_for_a_look_that_fails_look_themselves(self):
        """Only the detach that looked gets the error of the lock or look."""
        def broken(waiting):
            raise TimeoutError

        for errors, look, expected in (
                ([exceptions.LockTimeout('slow')], self.look,
                 exceptions.LockTimeout),
                ([], broken, TimeoutError)):
            self.errors = errors
            self.may_hold.clear()
            with mock.patch.object(self, 'look', look):
                first, = self.start(1)
            second, = self.start(2)
            self.log.clear()
            self.may_hold.set()
            self.assertRaises(expected, first.result, _TIMEOUT)
            self.assertIs(True, second.result(_TIMEOUT))
            self.assertIn([2], self.log)
            self.assertEqual({}, self.settling._rounds)

    def test_a_look_that_takes_too_long(self):
        """A detach that has waited long enough looks at the host itself."""
        self.may_look.clear()
        first = self.pool.submit(self.settle, 1)
        self.until(lambda: [1] in self.log)
        self.may_hold.clear()
        second, = self.start(2)
        with mock.patch.object(locks, 'LOCK_TIMEOUT', 0.01):
            third = self.pool.submit(self.settle, 3)
            self.until(lambda: self.log.count('wait iqn.a') == 3)
        self.may_hold.set()
        self.may_look.set()
        for each in first, second, third:
            self.assertIs(True, each.result(_TIMEOUT))
        self.assertIn([3], self.log)
