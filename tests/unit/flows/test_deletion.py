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

from cinder_k2.array import backing
from cinder_k2.flows import deletion
from cinder_k2 import rest
from tests.unit import simulated


class LongListTest(simulated.SimulatedTest):
    """Snapshots of a group that the array does not list as a whole."""

    def setUp(self):
        super().setUp()
        group = self.array.volumes.create_group('cvg-1', True)
        self.volume = self.array.volumes.create('cv-1', simulated.GIB, group)
        self.source = backing.Backing(volume=self.volume, group=group)
        self.snapshots = {
            name: self.array.snapshots.create(name, self.source)
            for name in ('cs-1', 'cs-2', 'cs-3')}
        self.sim.control.set_switches(page_size=2, refuse_unlisted=400,
                                      refuse_only=['GET snapshots __limit'])
        self.client.capabilities._verdicts.pop('paging')
        self.assertRaises(rest.Incomplete, self.array.snapshots.of_group,
                          group)
        self.sim.control.clear_journal()

    def retire(self, name):
        return deletion.retire_snapshot(self.array, self.snapshots[name],
                                        [name])

    def test_one_that_nothing_needs(self):
        self.assertTrue(self.retire('cs-3'))
        self.assertEqual(['cs-1', 'cs-2'], self.leftovers()['snapshots'])
        self.assertEqual(1, sum(call.startswith('DELETE')
                                for call in self.calls()))

    def test_one_whose_id_is_anothers(self):
        """The name counts."""
        self.snapshots['cs-3'] = self.snapshots['cs-1']
        self.assertTrue(self.retire('cs-3'))
        self.assertEqual(['cs-1', 'cs-2'], self.leftovers()['snapshots'])

    def test_one_that_a_thin_clone_needs(self):
        """It stays, and is not noted as what may go later."""
        self.array.snapshots.create_thin_clone(
            'cv-2', self.snapshots['cs-3'], self.volume)
        error = self.assertRaises(rest.Refused, self.retire, 'cs-3')
        self.assertIn('clone', str(error))
        self.assertEqual(['cs-1', 'cs-2', 'cs-3'],
                         self.leftovers()['snapshots'])
        self.assertFalse(self.array.volumes.group(
            self.source.group).description)
