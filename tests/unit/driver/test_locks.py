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

import contextlib
import time
import unittest
from unittest import mock

from cinder_k2.driver import locks
from cinder_k2 import exceptions

VOLUME = '11111111-aaaa-4aaa-8aaa-111111111111'


class LocksTest(unittest.TestCase):

    def test_initiators_are_locked_in_sorted_order(self):
        """Two attaches that share initiators must not deadlock."""
        taken = []

        @contextlib.contextmanager
        def lock(name, timeout):
            taken.append(name)
            yield

        with mock.patch.object(locks, '_lock', lock):
            for initiators in (['B', 'a', 'c'], ['c', 'b', 'A']):
                with locks.host('sys', initiators):
                    pass
        self.assertEqual([f'k2-sys-{kind}-{name}' for kind
                          in ('host', 'maps') for name in 'abc'] * 2,
                         taken)

    def test_lock_name_contains_no_slash(self):
        with mock.patch.object(
                locks, '_lock', return_value=contextlib.nullcontext(),
                autospec=True) as lock:
            with locks.host('sys', ['iqn.x:../../etc/passwd']):
                pass
        self.assertNotIn('/', lock.call_args.args[0])

    def test_lock_names_fit_into_mysql(self):
        """Of its 64 characters Cinder takes 7; long names stay different."""
        with mock.patch.object(
                locks, '_lock', return_value=contextlib.nullcontext(),
                autospec=True) as lock:
            for number in range(2):
                with locks.host('iqn.2009-01.com.kaminario:storage.k2.12345',
                                [f'iqn.1993-08.org.debian:01:{number:012}']):
                    pass
                with locks.group(f'iqn.2009-01.com.{"x" * 60}', number):
                    pass
        names = [call.args[0] for call in lock.mock_calls]
        self.assertEqual(6, len(set(names)))
        self.assertGreaterEqual(57, max(map(len, names)))
        self.assertLess(35, min(map(len, names)))


class LockTest(unittest.TestCase):
    """Names, order and timeout of the locks that are taken."""

    def setUp(self):
        super().setUp()
        self.log = mock.Mock()
        self.log.acquire.return_value = True
        coordinator = mock.patch.object(
            locks.coordination, 'COORDINATOR', spec_set=['get_lock'])
        coordinator.start().get_lock.side_effect = self.get_lock
        self.addCleanup(coordinator.stop)
        remove = mock.patch.object(
            locks.coordination, 'synchronized_remove', autospec=True)
        self.log.attach_mock(remove.start(), 'remove')
        self.addCleanup(remove.stop)

    def get_lock(self, name):
        return mock.Mock(
            acquire=lambda blocking: self.log.acquire(name, blocking),
            release=lambda: self.log.release(name))

    @contextlib.contextmanager
    def deadline(self, *, fresh=False):
        self.log.deadline(fresh=fresh)
        yield

    def held(self, *names, timeout=600):
        """Return the calls while these locks are held, in that order."""
        return [*[mock.call.acquire(name, timeout) for name in names],
                mock.call.inside(),
                *[mock.call.release(name) for name in reversed(names)]]

    def check(self, lock, *names):
        with lock:
            self.log.inside()
        self.assertEqual(self.held(*names), self.log.mock_calls)

    def test_hosts(self):
        """Locked in alphabetical order, once each, ignoring case."""
        self.check(locks.host('sys', [*reversed('abcdefghij'), 'B', 'X']),
                   *[f'k2-sys-{kind}-{name}' for kind in ('host', 'maps')
                     for name in 'abcdefghijx'])

    def test_host_lock_timeout(self):
        """Locks that were already taken are released."""
        self.log.acquire.side_effect = [True, False]
        with self.assertRaises(exceptions.LockTimeout):
            with locks.host('sys', ['a', 'b']):
                self.log.inside()
        self.assertEqual([
            mock.call.acquire('k2-sys-host-a', 600),
            mock.call.acquire('k2-sys-host-b', 600),
            mock.call.release('k2-sys-host-a')], self.log.mock_calls)

    def test_host_lock_with_a_shorter_timeout(self):
        self.log.acquire.return_value = False
        with self.assertRaisesRegex(exceptions.LockTimeout, 'Waited 5 sec'):
            with locks.host('sys', ['a'], 5.0):
                self.log.inside()
        self.assertEqual([mock.call.acquire('k2-sys-host-a', 5.0)],
                         self.log.mock_calls)

    def test_host_that_another_service_maps_to(self):
        """The operation waits for it, as nobody else may use the host."""
        self.log.acquire.side_effect = [True, False]
        with self.assertRaisesRegex(exceptions.LockTimeout, 'Waited 5 sec'):
            with locks.host('sys', ['a'], 5.0):
                self.log.inside()
        self.assertEqual([
            mock.call.acquire('k2-sys-host-a', 5.0),
            mock.call.acquire('k2-sys-maps-a', 5.0),
            mock.call.release('k2-sys-host-a')], self.log.mock_calls)

    def test_service_that_is_not_alone(self):
        """It keeps the host's own lock, and no lock of mappings."""
        self.log.acquire.side_effect = [True, True, True, False]
        with locks.host('sys', ['a', 'b'], 5.0, alone=False) as held:
            self.assertFalse(held.is_alone)
            held.share()
            self.log.inside()
        self.assertEqual([
            mock.call.acquire('k2-sys-host-a', 5.0),
            mock.call.acquire('k2-sys-host-b', 5.0),
            mock.call.acquire('k2-sys-maps-a', False),
            mock.call.acquire('k2-sys-maps-b', False),
            mock.call.release('k2-sys-maps-a'),
            mock.call.inside(),
            mock.call.release('k2-sys-host-b'),
            mock.call.release('k2-sys-host-a')], self.log.mock_calls)

    def test_shared_host(self):
        """The next service gets the host's own lock, and maps, too."""
        with locks.host('sys', ['a'], alone=False) as held:
            self.assertTrue(held.is_alone)
            held.share()
            self.log.inside()
        self.assertEqual([
            mock.call.acquire('k2-sys-host-a', 600),
            mock.call.acquire('k2-sys-maps-a', False),
            mock.call.release('k2-sys-host-a'),
            mock.call.inside(),
            mock.call.release('k2-sys-maps-a')], self.log.mock_calls)

    def test_mapping_lock(self):
        """One time limit for all; MySQL allows 64 characters."""
        first, second = (f'k2-mapping-{VOLUME}-{digest}'
                         for digest in ('3e23e816', 'ca978112'))
        with mock.patch.object(time, 'monotonic', autospec=True,
                               side_effect=[0, 0, 0, 2, 2]), \
                locks.mapping(VOLUME, ['B', 'a'], 5):
            self.log.inside()
        self.assertEqual([
            mock.call.acquire(first, 5), mock.call.acquire(second, 3),
            mock.call.inside(), mock.call.release(second),
            mock.call.release(first)], self.log.mock_calls)
        self.assertLessEqual(len('cinder-' + first), 64)

    def test_flattening_lock(self):
        self.check(locks.flattening('v1'), 'k2-flattening-v1')

    def test_flattening_lock_with_a_shorter_timeout(self):
        with locks.flattening('v1', 20):
            self.log.inside()
        self.assertEqual(self.held('k2-flattening-v1', timeout=20),
                         self.log.mock_calls)

    def test_volume_being_flattened_is_in_use(self):
        self.log.acquire.return_value = False
        with self.assertRaises(exceptions.ObjectInUse) as caught:
            with locks.flattening('v1', 20):
                self.log.inside()
        self.assertEqual('Volume v1 is being copied; try again.',
                         str(caught.exception))
        self.assertEqual([mock.call.acquire('k2-flattening-v1', 20)],
                         self.log.mock_calls)

    def test_timeout_of_a_nested_lock_is_not_translated(self):
        self.log.acquire.side_effect = [True, False]
        with self.assertRaises(exceptions.LockTimeout):
            with locks.flattening('v1'), locks.group('sys', 5):
                self.log.inside()
        self.assertEqual(mock.call.release('k2-flattening-v1'),
                         self.log.mock_calls[-1])

    def test_group_lock(self):
        self.check(locks.group('sys', 5), 'k2-sys-group-5')

    def test_snapshot_lock(self):
        self.check(locks.snapshot('s1'), 'k2-snapshot-s1')

    def test_host_groups_lock(self):
        self.check(locks.host_groups('v1'), 'k2-volume-v1')

    def test_group_on_starts_the_deadline_after_locking(self):
        array = mock.Mock(deadline=self.deadline)
        array.system.id = 'sys'
        with locks.group_on(array, 5):
            self.log.inside()
        taken, *rest = self.held('k2-sys-group-5')
        self.assertEqual([taken, mock.call.deadline(fresh=True), *rest],
                         self.log.mock_calls)

    def test_lock_is_released_on_error(self):
        with self.assertRaises(ZeroDivisionError):
            with locks.group('sys', 5):
                raise ZeroDivisionError
        self.assertEqual(mock.call.release('k2-sys-group-5'),
                         self.log.mock_calls[-1])

    def test_lock_timeout_and_acquire_failure(self):
        for effect in ([False], locks.tooz.LockAcquireFailed('')):
            self.log.acquire.side_effect = effect
            with self.assertRaises(exceptions.LockTimeout) as caught:
                with locks.group('sys', 5):
                    self.log.inside()
            self.assertIn('k2-sys-group-5', str(caught.exception))
        self.assertNotIn(mock.call.inside(), self.log.mock_calls)
        self.assertFalse(self.log.release.called)

    def test_driver_of_tooz_with_errors_of_its_own(self):
        """The driver for etcd repeats its requests until the timeout."""
        def wait(name, timeout):
            time.sleep(0.01)
            raise KeyError('RetryError')
        self.log.acquire.side_effect = wait
        with self.assertRaisesRegex(exceptions.LockTimeout,
                                    "k2-sys-host-a: 'RetryError'"):
            self.enter(locks.host('sys', ['a'], 0.01))
        self.assertRaises(KeyError, self.enter, locks.group('sys', 5))

    def test_error_of_tooz_without_a_timeout(self):
        """It does not mean that another service uses the host."""
        self.log.acquire.side_effect = [True, KeyError('no connection')]
        with self.assertRaisesRegex(KeyError, 'no connection'):
            self.enter(locks.host('sys', ['a'], alone=False))
        self.assertEqual([
            mock.call.acquire('k2-sys-host-a', 600),
            mock.call.acquire('k2-sys-maps-a', False),
            mock.call.release('k2-sys-host-a')], self.log.mock_calls)

    def enter(self, lock):
        with lock:
            self.log.inside()

    def test_lock_files_of_deleted_objects_are_removed(self):
        locks.forget_group('sys', 5)
        locks.forget_volume('v1')
        locks.forget_snapshot('s1')
        self.assertEqual([
            mock.call.remove('k2-sys-group-5'),
            mock.call.remove('k2-volume-v1'),
            mock.call.remove('k2-flattening-v1'),
            mock.call.remove('k2-mapping-v1-*'),
            mock.call.remove('k2-snapshot-s1')], self.log.mock_calls)
