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

import dataclasses
import itertools
from unittest import mock

import ddt

from cinder_k2.flows import volumes
from cinder_k2 import rest
from tests.unit import simulated


@ddt.ddt
class VolumesTest(simulated.SimulatedTest):
    """A volume and its group are both created, or neither is."""

    def setUp(self):
        super().setUp()
        self.before = self.leftovers()

    def create(self):
        return volumes.create(self.array, name='v', group_name='g',
                              size=simulated.GIB, dedup=True)

    def test_in_a_group_of_its_own(self):
        made = self.create()
        self.assertEqual({**self.before, 'volume_groups': ['g'],
                          'volumes': ['v']}, self.leftovers())
        self.assertFalse(made.shared)

    def test_in_a_shared_group(self):
        group = self.create().group
        made = volumes.create_member(self.array, name='w', group=group,
                                     size=simulated.GIB)
        self.assertEqual((group, True), (made.group, made.shared))

    @ddt.data(*itertools.product(('volume_groups', 'volumes'), (403, 500)))
    @ddt.unpack
    def test_failed_write(self, path, status):
        self.sim.control.add_fault(kind='status', status=status,
                                   commit='before', method='POST', path=path)
        self.assertRaises(rest.RestError, self.create)
        self.assertEqual(self.before, self.leftovers())

    def lose_reply(self, method):
        """Have a write carried out, but lose its reply."""
        do = getattr(self.array.volumes, method)

        def act(*args):
            do(*args)
            raise rest.Unreachable('the link is cut')
        return mock.patch.object(self.array.volumes, method, act)

    @ddt.data('create_group', 'create')
    def test_write_of_unknown_outcome(self, method):
        with self.lose_reply(method):
            self.assertRaises(rest.Unreachable, self.create)
        self.assertEqual(self.before, self.leftovers())

    @ddt.data(('create_group', 'volume_groups'), ('create', 'volumes'))
    @ddt.unpack
    def test_write_of_unknown_outcome_that_shows_late(self, method, path):
        """OBJ-6: what is not found at once may have been made."""
        self.sim.control.add_fault(kind='late', method='POST', path=path,
                                   seconds=3)
        with self.lose_reply(method):
            self.assertRaises(rest.Unreachable, self.create)
        self.assertEqual(self.before, self.leftovers())

    def test_member_of_unknown_outcome_is_deleted(self):
        group = self.create().group
        with self.lose_reply('create'):
            self.assertRaises(
                rest.Unreachable, volumes.create_member, self.array,
                name='w', group=group, size=simulated.GIB)
        self.assertEqual(['v'], self.leftovers()['volumes'])
        self.assertEqual(['g'], self.leftovers()['volume_groups'])

    def test_member_of_unknown_outcome_whose_group_is_not_shown(self):
        group = self.create().group
        untold = dataclasses.replace(
            self.client.volumes.find(name='v'), volume_group=None,
            unread=frozenset({'volume_group'}))

        def find(name):
            return dataclasses.replace(untold, id=find_known(name=name).id)
        find_known = self.client.volumes.find
        with self.lose_reply('create'), mock.patch.object(
                self.client.volumes, 'find', find):
            self.assertRaises(
                rest.Unreachable, volumes.create_member, self.array,
                name='w', group=group, size=simulated.GIB)
        self.assertEqual(['v'], self.leftovers()['volumes'])
