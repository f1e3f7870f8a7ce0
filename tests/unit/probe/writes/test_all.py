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

"""The list of k2-admin probe checks that create objects on the array."""

import pkgutil
import unittest

from cinder_k2.probe import writes
from cinder_k2.probe.writes import base
from cinder_k2.probe.writes import removals


class AllTest(unittest.TestCase):

    def test_list_is_complete(self):
        modules = {f'{writes.__name__}.{each.name}' for each
                   in pkgutil.iter_modules(writes.__path__)
                   if each.name not in ('base', 'forms')}
        self.assertEqual(modules, {each.__module__ for each in writes.ALL})
        self.assertEqual(set(base.Checks.__subclasses__()), set(writes.ALL))

    def test_removals_run_last(self):
        self.assertIs(removals.Removals, writes.ALL[-1])
