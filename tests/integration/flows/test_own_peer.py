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

"""REP-21: an array that is its own peer."""

import contextlib
import dataclasses
from unittest import mock

import ddt

from cinder_k2.flows import replication
from cinder_k2 import rest
import k2_sim
from tests.unit.flows.replication import pair
from tests.unit.flows.replication.pair import leftovers


@ddt.ddt
class OwnPeerTest(pair.PairTest):
    """REP-21: one array has volume and copy; either may be Cinder's."""

    def build(self):
        super().build()
        k2_sim.connect(self.a)
        self.there = self.here
        self.link = dataclasses.replace(
            self.link, target_array=self.here, peer_address='a.example.org')

    def take_over(self):
        """Fail over to the copy."""
        session = self.here.replication.find(pair.NAMES[1])
        self.here.replication.command(session.id, 'failed_over')
        self.swap()

    def assert_one(self, volume, group):
        found = leftovers(self.a)
        self.assertEqual(([volume], [group]), (
            found.pop('volumes'), found.pop('volume_groups')))
        self.assertEqual({}, found)

    @ddt.data(False, True)
    def test_ends(self, taken_over):
        self.protect()
        if taken_over:
            self.take_over()
        self.unprotect()
        self.assert_one(*((pair.COPY, pair.COPY_GROUP) if taken_over
                          else (pair.VOLUME, pair.GROUP)))

    @ddt.data(False, True)
    def test_killed_at_each_call(self, taken_over):
        for at in range(1, 16):
            self.build()
            self.protect()
            if taken_over:
                self.take_over()
            self.trouble.plan(at, kill='after')
            with contextlib.suppress(pair.Killed):
                self.unprotect()
            self.trouble.kill = None
            self.unprotect()
            self.assert_one(*((pair.COPY, pair.COPY_GROUP) if taken_over
                              else (pair.VOLUME, pair.GROUP)))

    def test_the_copy_is_no_leftover(self):
        """A new session is refused; the copy, which is Cinder's, stays."""
        self.end_after_takeover()
        self.assertRaises(rest.Refused, self.protect)
        self.assert_one(pair.COPY, pair.COPY_GROUP)

    def end_after_takeover(self):
        """Fail over and end replication: only the copy is left."""
        self.protect()
        self.take_over()
        self.unprotect()

    def assert_in_the_way(self, error):
        """Check the refusal of a new copy, whose name is in use."""
        raised = self.assertRaises(
            error, replication.protect, replication.SessionRequest(
                self.link, 'ssn-9', self.group, 'ccg-9', self.members))
        self.assertIn('peer_volumes', str(raised))
        self.assert_one(pair.COPY, pair.COPY_GROUP)

    def add_fault(self, **fault):
        """Let requests to create a copy fail without being carried out."""
        self.a.control.add_fault(
            method='POST', path='replication/peer_volumes', commit='before',
            **fault)

    def test_the_copy_is_in_the_way(self):
        self.end_after_takeover()
        self.assert_in_the_way(rest.Refused)

    @ddt.data((rest.Refused, {'kind': 'reset', 'times': 1}),
              (rest.Refused, {'kind': 'status', 'status': 502, 'times': 1}),
              (rest.Unreachable, {'kind': 'reset'}))
    @ddt.unpack
    def test_the_copy_is_in_the_way_and_a_reply_is_lost(self, error, fault):
        """A lost reply does not prove that this attempt created the copy."""
        self.end_after_takeover()
        self.add_fault(**fault)
        self.assert_in_the_way(error)

    def test_the_group_of_the_copy_is_not_shown(self):
        self.end_after_takeover()
        self.add_fault(kind='reset', times=1)
        volumes_of = self.here.replication.volumes_of
        with mock.patch.object(
                self.here.replication, 'volumes_of', lambda names: {
                    name: (volume, None)
                    for name, (volume, _) in volumes_of(names).items()}):
            self.assert_in_the_way(rest.Refused)

    def test_extend(self):
        self.protect()
        self.extend()
        self.assertEqual([2, 2], [
            self.here.client.volumes.find(name=name).size // pair.GIB
            for name in (pair.VOLUME, pair.COPY)])
