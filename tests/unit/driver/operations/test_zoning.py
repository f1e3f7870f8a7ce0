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

"""Calls to Cinder's zone manager."""

from unittest import mock

from cinder.zonemanager import utils as fczm_utils
from oslotest import base

from cinder_k2.driver.operations import zoning
from cinder_k2.transport import fc
from tests.unit.driver import autospec

ARRAY = mock.sentinel.array
UNZONING = {'driver_volume_type': 'fibre_channel',
            'data': {'target_wwn': ['50'],
                     'initiator_target_map': {'10': ['50']}}}


class NoZoningTest(base.BaseTestCase):

    def test_no_zoning(self):
        zones = zoning.NoZoning()
        self.assertIsNone(zones.connected({'data': {}}))
        self.assertIsNone(zones.now_idle(['iqn.a']))
        self.assertIs(False, zones.report({'iqn.a'}))


class FabricZoningTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.add = autospec.patched(self, fczm_utils, 'add_fc_zone')
        self.remove = autospec.patched(self, fczm_utils, 'remove_fc_zone')
        self.transport = autospec.Double(fc.FCTransport)
        self.transport.former_targets.return_value = fc.Targets(
            ('50',), {'10': ['50']})
        self.zoning = zoning.FabricZoning(ARRAY, self.transport)

    def test_zones_are_added_when_a_volume_is_attached(self):
        self.zoning.connected(mock.sentinel.connection)
        self.add.assert_called_once_with(mock.sentinel.connection)
        self.remove.assert_not_called()

    def test_zones_of_an_idle_host_are_removed(self):
        self.zoning.now_idle(['10', '20'])
        self.remove.assert_called_once_with(UNZONING)
        self.transport.former_targets.assert_called_once_with(
            ARRAY, ['10', '20'])
        self.add.assert_not_called()

    def test_removed_zones_are_reported(self):
        """They were removed before, while the host was locked."""
        self.assertEqual(UNZONING, self.zoning.report(
            dict.fromkeys(['20', '10', '30']).keys()))
        self.transport.former_targets.assert_called_once_with(
            ARRAY, ['10', '20', '30'])
        self.remove.assert_not_called()

    def test_kept_zones_are_not_reported(self):
        self.assertEqual({'driver_volume_type': 'fibre_channel', 'data': {}},
                         self.zoning.report(frozenset()))
        self.transport.former_targets.assert_not_called()
