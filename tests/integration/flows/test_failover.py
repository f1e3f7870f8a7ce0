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


"""A failover, with faults at each call."""

import ddt

from tests.unit.flows.failover import pair


@ddt.ddt
class FailOverTest(pair.PairTest):

    def setUp(self):
        super().setUp()
        self.several(3)

    @ddt.data(('busy', 'before'), ('reset', 'after'), ('garbage', 'after'),
              ('status', 'before'))
    @ddt.unpack
    def test_a_fault_at_every_call(self, kind, commit):
        for after in range(30):
            fault = self.two.control.add_fault(
                kind=kind, commit=commit, times=1, after=after)
            self.assert_served(self.two, self.over())
            self.two.control.clear_faults()
            if not fault.triggered:
                break
            self.assert_home(self.back())
        self.assertGreater(after, 4)
