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

"""The check of the lock order, which all functional tests use."""

import contextlib
import re
import unittest
from unittest import mock

from cinder_k2.driver import locks
from tests import contexts
from tests.functional import lock_order


class WatchTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        contexts.enter(self, mock.patch.object(
            locks, '_lock', lambda *how: contextlib.nullcontext()))
        self.watch = lock_order.Watch()
        contexts.enter(self, self.watch.installed())

    def test_the_order_is_the_documented_one(self):
        kinds = {'host_groups': 'volume'}
        documented = re.findall(r'^``(\w+)`` ', locks.__doc__, re.M)
        self.assertEqual(
            [kind for kind in lock_order.RANKS if kind != 'copy'],
            [kinds.get(name, name) for name in documented])

    def test_in_order(self):
        with locks.flattening('v', 20), locks.group('x', 1), \
                locks.snapshot('s'), \
                locks.host('x', ['b', 'a']), locks.host_groups('v'):
            pass
        self.assertEqual([], self.watch.wrong)
        self.assertLessEqual(
            {('flattening', 'group'), ('group', 'snapshot'),
             ('host', 'host'), ('host', 'volume')},
            self.watch.nested)

    def test_one_after_the_other(self):
        """Only locks that are still held count."""
        for lock in (locks.host('x', ['a']), locks.group('x', 2),
                     locks.group('x', 1)):
            with lock:
                pass
        self.assertEqual([], self.watch.wrong)

    def test_out_of_order(self):
        for wrong, outer, inner in (
                (2, locks.host('x', ['a']), locks.group('x', 1)),
                (1, locks.group('x', 1), locks.flattening('v')),
                (1, locks.flattening('v'), locks.flattening('w')),
                (2, locks.host_groups('v'), locks.host('x', ['a'])),
                (2, locks.host('x', ['a']), locks.snapshot('s')),
                (3, locks.host('x', ['b']), locks.host('x', ['a'])),
                (3, locks.host('x', ['a']), locks.host('x', ['a'])),
                (2, locks.mapping('v', ['a'], 5), locks.host('x', ['a'])),
                (1, locks.mapping('v', ['a'], 5),
                 locks.mapping('v', ['a'], 5)),
                (1, locks.group('x', 1), locks.group('x', 2)),
                (1, locks.snapshot('s'), locks.snapshot('t'))):
            self.watch.wrong.clear()
            with outer, inner:
                pass
            self.assertEqual(wrong, len(self.watch.wrong))
