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


"""Starting replication, with faults at each call."""

import ddt

from tests.unit.flows.replication import pair


@ddt.ddt
class ProtectTest(pair.PairTest):

    @ddt.data(*[name for name in pair.FAULTS if name not in pair.TYPICAL])
    def test_trouble_at_each_call(self, fault):
        self.protect_with(fault)

    def test_several(self):
        self.members += [self.make_member(f'cv-{n}') for n in range(2)]
        for error in self.each(self.protect, fault=pair.FORBIDDEN):
            self.assertIsNotNone(error)
            self.assert_bare()
        self.assert_replicated()
        self.unprotect()
        self.assert_bare()

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.protect, kill=when):
            self.protect()
            self.assert_replicated()
            self.unprotect()
            self.assert_bare()

    @ddt.data('before', 'after')
    def test_killed_and_given_up(self, when):
        for _ in self.each(self.protect, kill=when):
            self.unprotect()
            self.assert_bare()
