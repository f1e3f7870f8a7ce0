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

from cinder_k2.array import host_identity
from cinder_k2 import naming

IQN = 'iqn.1994-05.com.example:node1'
OTHER = 'iqn.1994-05.com.example:node2'


class SoughtTest(unittest.TestCase):

    def test_name_is_the_first(self):
        self.assertEqual('own', host_identity.Sought(
            (IQN,), ('own', 'in-tree'), ('former',)).name)

    def test_initiators_in_any_case(self):
        """INI-4, INI-5."""
        sought = host_identity.Sought((IQN.upper(),))
        self.assertTrue(sought.has_any([OTHER, IQN]))
        self.assertFalse(sought.has_any([OTHER]))
        self.assertFalse(sought.has_any([]))

    def test_similar_names(self):
        """A host registered with other initiators (HST-1)."""
        name, former = (naming.host(host, [IQN])
                        for host in ('node1', 'node2'))
        sought = host_identity.Sought((IQN,), (name, 'in-tree'), (former,))
        for host in ('node1', 'node2'):
            self.assertTrue(sought.may_have(naming.host(host, [OTHER])))
        for other in (naming.host('node3', [OTHER]), 'in-tree', ''):
            self.assertFalse(sought.may_have(other), other)
        self.assertFalse(host_identity.Sought((IQN,)).may_have(name))


class HostInitiatorsTest(unittest.TestCase):

    def test_complete(self):
        self.assertTrue(host_identity.HostInitiators(1).complete)
        self.assertTrue(
            host_identity.HostInitiators(1, by_name=True).complete)

    def test_incomplete(self):
        for found in (host_identity.HostInitiators(None),
                      host_identity.HostInitiators(1, loose={IQN: 2}),
                      host_identity.HostInitiators(1, missing=(IQN,))):
            self.assertFalse(found.complete, found)
