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

from unittest import mock

from cinder_k2.array import groups
from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit import simulated

GIB = simulated.GIB


class GroupsTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.group = self.array.groups.create('ccg-1', True)
        self.sim.control.clear_journal()

    def test_created_group(self):
        self.assertIs(True, self.group.dedup)
        self.assertEqual(0, self.group.volumes)
        self.assertEqual(self.group, self.array.groups.find('ccg-1'))

    def test_other_group(self):
        made = self.array.volumes.create_group('ccg-2', False)
        self.sim.control.clear_journal()
        self.assertEqual(groups.Group(made, False, 0),
                         self.array.groups.ensure('ccg-2', True))
        self.assertEqual(['GET volume_groups'], self.calls())

    def test_group_that_is_gone(self):
        self.array.volumes.delete_group(self.group.id, [])
        self.assertIsNone(self.array.groups.find('ccg-1'))

    def test_missing_group_is_created_again(self):
        self.array.volumes.delete_group(self.group.id, [])
        made = self.array.groups.ensure('ccg-1', True)
        self.assertNotEqual(self.group.id, made.id)
        self.assertEqual(made, self.array.groups.find('ccg-1'))

    def test_group_created_by_another_service(self):
        """It has a volume already, so creating it again is refused."""
        find, early = self.array.groups.find, [None]
        self.array.volumes.create('theirs', GIB, self.group.id)
        self.array.groups.find = lambda name: (
            early.pop() if early else find(name))
        self.assertEqual(self.group.id,
                         self.array.groups.ensure('ccg-1', True).id)

    def test_other_refusals_are_raised(self):
        self.assertRaises(rest.Refused, self.array.groups.ensure,
                          'x' * 50, True)

    def test_only_an_empty_group_is_deleted(self):
        volume = self.array.volumes.create('v', GIB, self.group.id)
        self.sim.control.clear_journal()
        self.assertFalse(self.array.groups.delete_if_empty(
            self.group.id, 'ccg-1'))
        self.assertEqual(['GET volumes'], self.calls())
        self.array.volumes.delete(volume, self.group.id)
        self.assertTrue(self.array.groups.delete_if_empty(
            self.group.id, 'ccg-1'))
        self.assertTrue(self.array.groups.delete_if_empty(
            self.group.id, 'ccg-1'))
        self.assertEqual({}, self.leftovers())

    def test_group_without_a_name_may_be_shared(self):
        """If taken for a volume's own, it would be deleted with it."""
        nameless = rest.VolumeGroup(id=self.group.id)
        with mock.patch.object(self.client.volume_groups, 'get',
                               autospec=True, return_value=nameless):
            self.assertRaises(exceptions.GroupNotSupported,
                              self.array.groups.is_shared, self.group.id)

    def test_group_of_a_volume(self):
        volume = self.array.volumes.create('v', GIB, self.group.id)
        self.assertEqual(self.group.id, self.array.groups.group_of(volume))
        self.assertTrue(self.array.groups.is_shared(self.group.id))
        own = self.array.volumes.create_group('cvg-1', True)
        self.assertFalse(self.array.groups.is_shared(own))
        self.assertRaises(exceptions.GroupNotSupported,
                          self.array.groups.group_of, 1)
        self.assertRaises(rest.NotFound, self.array.groups.group_of, 999)

    def test_volume_with_snapshots_is_not_movable(self):
        """VOL-10: the error names those that hold this volume."""
        self.array.snapshots.check()
        first = self.array.volumes.create('v', GIB, self.group.id)
        backing = objects.ArrayVolume(group=self.group.id, volume=first)
        self.array.groups.check_movable('v', first, self.group.id)
        for name in ('s2', 's1'):
            self.array.snapshots.create(name, backing)
        second = self.array.volumes.create('w', GIB, self.group.id)
        error = self.assertRaises(
            exceptions.GroupNotSupported, self.array.groups.check_movable,
            'Volume v', first, self.group.id)
        self.assertIn('Volume v has snapshots', str(error))
        self.assertIn('ccg-1:s1, ccg-1:s2.', str(error))
        self.array.groups.check_movable('w', second, self.group.id)

    def test_refusal_because_the_group_is_full(self):
        refusal = rest.Refused('no')
        groups.check_room('ccg-1', groups.Group(1, True, 31), refusal)
        error = self.assertRaises(
            exceptions.GroupNotSupported, groups.check_room, 'ccg-1',
            groups.Group(1, True, 32), refusal)
        self.assertIn('ccg-1 holds 32 volumes', str(error))
