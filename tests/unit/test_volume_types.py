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

import unittest

import ddt

from cinder_k2 import volume_types


@ddt.ddt
class VolumeTypesTest(unittest.TestCase):

    @ddt.data(({}, True),
              ({'kaminario:thin_prov_type': 'dedup'}, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False),
              ({'kaminario:thin_prov_type': ' NoDedup '}, False),
              ({'volume_backend_name': 'k2', 'hw:other': 'x'}, True))
    @ddt.unpack
    def test_deduplication(self, specs, dedup):
        self.assertEqual(dedup, volume_types.parse(specs).dedup)

    @ddt.data(({}, ()),
              ({'kaminario:clone_strategy': 'view'}, ('view',)),
              ({'kaminario:clone_strategy': 'View, thin'},
               ('view', 'thin')))
    @ddt.unpack
    def test_clone_strategy(self, specs, wanted):
        self.assertEqual(wanted, volume_types.parse(specs).clone_strategies)

    @ddt.data(({'kaminario:thin_prov_type': 'thick'},
               'kaminario:thin_prov_type is "thick"'),
              ({'kaminario:clone_strategy': 'magic'}, 'thin, view'),
              ({'kaminario:clone_strategy': ' '}, 'thin, view'),
              ({'kaminario:replication': 'enabled'}, 'replicat'))
    @ddt.unpack
    def test_a_wrong_value_is_named(self, specs, text):
        with self.assertRaisesRegex(volume_types.InvalidExtraSpec, text):
            volume_types.parse(specs)

    def test_replication_switched_off_is_accepted(self):
        volume_types.parse({'kaminario:replication': 'disabled'})
