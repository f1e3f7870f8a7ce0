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

"""Ending replication, with a fault at each call of the flow."""

import contextlib

import ddt

from tests.unit.flows.replication import pair
from tests.unit.flows.replication import test_stop


@ddt.ddt
class UnprotectTest(pair.Tidy, pair.PairTest):

    @ddt.data(*pair.FAULTS)
    def test_trouble_at_each_call(self, fault):
        for error in self.each(self.unprotect, fault=pair.FAULTS[fault]):
            self.unprotect()
            self.assert_bare()
            self.protect()
            self.wait()

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.unprotect, kill=when):
            self.unprotect()
            self.assert_bare()
            self.protect()
            self.wait()


@ddt.ddt
class StatesTest(test_stop.States, pair.Tidy, pair.PairTest):

    # Stopping in these states passes through the other ones.
    @ddt.data('running', 'failed_over_there', 'taken_over', 'reversed',
              'going_back', 'gone_back')
    def test_killed_at_each_call(self, state):
        done = 0
        while True:
            getattr(self, state)()
            self.trouble.plan(done + 1, kill='after')
            with contextlib.suppress(pair.Killed):
                self.unprotect()
            came = self.trouble.came
            self.clear_faults()
            self.unprotect()
            self.assert_bare()
            if not came:
                break
            self.build()
            done += 1
        self.assertGreater(done, 3)
