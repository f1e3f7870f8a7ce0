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

from cinder_k2.array import host_identity
from cinder_k2.driver.operations import kept
from cinder_k2 import rest
from tests.unit.driver import doubles

VOLUME, OTHER = rest.Ref('volumes', 6), rest.Ref('volumes', 7)


def mapping(mappable, *initiators):
    return kept.Mapping('v1', mappable, host_identity.Sought(initiators))


class KeptTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.kept = kept.Kept()

    def test_empty(self):
        self.assertEqual([], self.kept.every())
        self.assertEqual([], self.kept.of(VOLUME))

    def test_mapping_is_added_once(self):
        self.kept.add(mapping(VOLUME, 'a', 'b'))
        self.kept.add(mapping(VOLUME, 'a', 'b'))
        found, = self.kept.every()
        self.assertEqual(['a', 'b'], found.initiators)

    def test_mappings_of_a_volume(self):
        here, there = mapping(VOLUME, 'a'), mapping(VOLUME, 'b')
        for one in (here, there, mapping(OTHER, 'a')):
            self.kept.add(one)
        self.assertCountEqual([here, there], self.kept.of(VOLUME))

    def test_drop(self):
        here, there = mapping(VOLUME, 'a'), mapping(VOLUME, 'b')
        self.kept.add(here)
        self.kept.add(there)
        self.kept.drop(here)
        self.kept.drop(here)
        self.assertEqual([there], self.kept.every())
