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

"""Disks with several paths, and what happens when one is lost."""

from tests.guest import base
from tests.guest import disk
from tests.guest import load
from tools.guest import node


class TestMultipath(base.GuestTest):

    def setUp(self):
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.attached = self.attach(self.volume, multipath=True)

    def states(self):
        """Of the paths, as dm-multipath has them."""
        return sorted(state[0] for state
                      in self.attached.disk.paths().values())

    def lost(self, number):
        """One path leads nowhere, inside."""
        return self.transport.lost(self.array, number)

    def test_a_path_for_each_port(self):
        self.assertTrue(self.attached.path.startswith('/dev/dm-'))
        self.assertEqual(
            self.transport.paths(self.array), self.transport.used())
        node.wait_until(lambda: self.states() == ['active', 'active'],
                        'two paths')
        self.fill(self.attached.path, 0, 1023)
        self.assert_filled(self.attached.path, 0, 1023)

    def test_a_lost_path(self):
        """Who writes does not notice, and the path comes back."""
        with load.Writer(self.attached.path).running() as writer:
            with self.lost(0):
                node.wait_until(lambda: 'failed' in self.states(),
                                'the loss of a path')
                writer.wait_for_more(20)
                self.assertEqual(['active', 'failed'], self.states())
            node.wait_until(lambda: self.states() == ['active', 'active'],
                            'the return of a path')
            writer.wait_for_more(20)
        self.assertEqual(writer.written, load.check(self.attached.path))

    def test_extended_after_a_loss(self):
        """All paths have the new size, also the one that was lost."""
        self.fill(self.attached.path, 0)
        with self.lost(1):
            node.wait_until(lambda: 'failed' in self.states(),
                            'the loss of a path')
            self.fill(self.attached.path, 1)
        node.wait_until(lambda: self.states() == ['active', 'active'],
                        'the return of a path')
        self.backend.extend_volume(self.volume, 2)
        self.assertEqual(2 * disk.GIB, self.attached.disk.extend())
        for name in self.attached.disk.paths():
            self.assertEqual(2 * disk.GIB, disk.size(f'/dev/{name}'))
        self.fill(self.attached.path, 2047)
        self.assert_filled(self.attached.path, 0, 1, 2047)
