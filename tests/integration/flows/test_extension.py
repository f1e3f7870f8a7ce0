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

"""Extending volumes, with faults at each call."""

import ddt

from tests.unit.flows.replication import pair


@ddt.ddt
class ExtendTest(pair.Tidy, pair.PairTest):

    @ddt.data('before', 'after')
    def test_killed_at_each_call(self, when):
        for _ in self.each(self.extend_more, kill=when):
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    gib = 1

    def extend_more(self):
        self.gib += 1
        self.extend(self.gib)

    @ddt.data(*pair.FAULTS)
    def test_trouble_at_each_call(self, fault):
        for error in self.each(self.extend_more, fault=pair.FAULTS[fault]):
            if self.sessions()[0] != ('in_sync', 'source'):
                self.assertIn('is not replicated until it is extended',
                              str(error))
            else:
                self.assert_replicated(self.gib - bool(error))
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    @ddt.data('b', 'a')
    def test_an_array_that_wants_it_idle(self, letter):
        """VOL-4 as written, on either array: the session must be idle."""
        getattr(self, letter).control.set_behaviors(grow_suspended=False)
        for _ in self.each(self.extend_more, kill='after'):
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    @ddt.data('before', 'after')
    def test_killed_where_the_array_grows_copies(self, when):
        """VOL-4: the volume is extended first; the array extends the copy."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        for _ in self.each(self.extend_more, kill=when):
            self.extend(self.gib)
            self.assert_replicated(self.gib)

    @ddt.data(*pair.FAULTS)
    def test_trouble_where_the_array_grows_copies(self, fault):
        self.b.control.set_behaviors(grow_copies_at_start=True)
        for error in self.each(self.extend_more, fault=pair.FAULTS[fault]):
            if self.sessions()[0] == ('in_sync', 'source'):
                self.assertIn(self.sizes(), [[self.gib] * 2,
                                             [self.gib - 1] * 2])
            else:
                # If no session can be read, its state is unknown.
                self.assertRegex(
                    str(error), 'is not replicated until it is extended'
                    '|GET /replication/sessions')
            self.extend(self.gib)
            self.assert_replicated(self.gib)
