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

import contextlib
import io
import unittest

from tools.cloud import console
from tools.cloud import scenario


class DescribeTest(unittest.TestCase):

    def test_iscsi_shows_every_portal(self):
        text = scenario.describe({
            'driver_volume_type': 'iscsi', 'target_portal': '192.0.2.1:3260',
            'target_portals': ['192.0.2.1:3260', '192.0.2.2:3260'],
            'target_iqn': 'iqn.x', 'target_iqns': ['iqn.x', 'iqn.x'],
            'target_lun': 4, 'target_luns': [4, 4]})
        self.assertEqual('iscsi: portals 192.0.2.1:3260 192.0.2.2:3260; '
                         'iqn.x; lun 4', text)

    def test_paths_that_disagree_are_shown(self):
        text = scenario.describe({
            'driver_volume_type': 'fibre_channel', 'target_wwn': ['1', '2'],
            'target_lun': 1, 'target_luns': [1, 2]})
        self.assertEqual('fibre_channel: ports 1 2; lun 1 2', text)


class StepTest(unittest.TestCase):

    def test_a_step_is_one_line_with_its_time(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            with console.step('create'):
                pass
        self.assertRegex(out.getvalue(), r'^  create +\d+\.\d\d s\n$')

    def test_a_step_that_fails_says_so_and_raises(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            with self.assertRaises(ValueError), console.step('create'):
                raise ValueError
        self.assertIn('failed after', out.getvalue())
