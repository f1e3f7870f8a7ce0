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


"""Ending replication, with faults at each call."""

from tests.unit.flows.replication import pair


class UnprotectTest(pair.Tidy, pair.PairTest):

    def test_the_peer_is_lost_in_between(self):
        for _ in self.each(self.unprotect, fault={
                'kind': 'status', 'status': 500}):
            self.unprotect()
            self.assert_bare()
            self.protect()

    def test_what_fails_leaves_it_running_or_gone(self):
        for error in self.each(self.unprotect, fault=pair.FORBIDDEN):
            self.assertIn(self.sessions(), (
                [('in_sync', 'source'), ('in_sync', 'target')],
                [None, ('idle', 'target')], [('idle', 'source'), None],
                [None, None]))
            self.unprotect()
            self.protect()
            self.wait()
