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
import unittest
from unittest import mock

from cinder_k2.driver import locks


class LocksTest(unittest.TestCase):

    def test_initiators_are_locked_in_one_order_for_all(self):
        """Two attaches that share initiators must not wait in a circle."""
        taken = []

        @contextlib.contextmanager
        def lock(name):
            taken.append(name)
            yield

        with mock.patch.object(locks, '_lock', lock):
            for initiators in (['B', 'a', 'c'], ['c', 'b', 'A']):
                with locks.hosts('sys', initiators):
                    pass
        self.assertEqual(['k2-sys-host-a', 'k2-sys-host-b', 'k2-sys-host-c']
                         * 2, taken)

    def test_names_become_no_paths(self):
        with mock.patch.object(
                locks, '_lock', return_value=contextlib.nullcontext(),
                autospec=True) as lock:
            with locks.hosts('sys', ['iqn.x:../../etc/passwd']):
                pass
        self.assertNotIn('/', lock.call_args.args[0])
