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

"""Links: to which array another one replicates."""

import dataclasses

from cinder_k2 import exceptions
from tests.unit.flows.replication import pair


class LinkTest(pair.PairTest):
    """The link from one array to another."""

    def test_target(self):
        self.assertEqual(self.there.system.id, self.link.target())
        self.trouble.plan()
        self.assertEqual(self.there.system.id, self.link.target())
        self.assertEqual([], self.trouble.calls)

    def test_target_does_not_reply(self):
        """It is probed for a short time only."""
        self.b.control.add_fault(kind='reset', path='*')
        begun = self.clock.monotonic()
        error = self.assertRaises(exceptions.PeerUnreachable,
                                  self.link.target)
        self.assertLess(self.clock.monotonic() - begun, 20)
        self.assertIn('The array at b.example.org, the replication target, '
                      'does not answer: ', str(error))

    def unknown(self):
        return dataclasses.replace(self.link, peer_address='elsewhere',
                                   backend_id='nobody')

    def test_target_without_a_record(self):
        """No request is sent to it."""
        self.assertRaises(exceptions.ArrayNotSupported, self.unknown().target)
        self.assertEqual({'a'}, {call[0] for call in self.trouble.calls})

    def test_number(self):
        number = self.link.number()
        self.assertTrue(self.link.is_number(number))
        self.assertFalse(self.link.is_number(number + 1))
        self.assertFalse(self.unknown().is_number(number))

    def test_is_own_peer(self):
        """REP-21."""
        self.assertFalse(self.link.is_own_peer)
        self.assertTrue(dataclasses.replace(
            self.link, target_array=self.here).is_own_peer)
