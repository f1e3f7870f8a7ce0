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

import pathlib
import unittest

from tools.cloud import errors
from tools.cloud import settings

ROOT = pathlib.Path('/checkout')


def parse(*argv, **environ):
    return settings.parse(argv, environ, ROOT)


class ParseTest(unittest.TestCase):

    def test_a_cloud_has_predictable_ports_and_directory(self):
        run = parse()
        self.assertEqual((8776, 8443), (run.cinder_port, run.sim_port))
        self.assertEqual(ROOT / 'cloud/up', run.state)
        self.assertFalse(run.check or run.keep)

    def test_a_check_runs_beside_a_cloud(self):
        run = parse(CHECK='1')
        self.assertTrue(run.check)
        self.assertEqual(ROOT / 'cloud/check', run.state)
        self.assertNotIn(run.cinder_port, (8776, 8443, run.sim_port))

    def test_variables_override_defaults_in_a_check_too(self):
        run = parse('--check', PORT='18776', SIM_PORT='18443',
                    STATE_DIR='elsewhere', KEEP='yes')
        self.assertEqual((18776, 18443), (run.cinder_port, run.sim_port))
        self.assertEqual(ROOT / 'elsewhere', run.state)
        self.assertTrue(run.keep)

    def test_a_second_array_to_replicate_to(self):
        self.assertEqual([8443], [site.port for site in parse().sites])
        run = parse(REPLICATION='1')
        self.assertEqual([8443, 8444], [site.port for site in run.sites])
        self.assertEqual(2, len({site.name for site in run.sites}))
        self.assertEqual(2, len({site.state for site in run.sites}))
        self.assertEqual(18444, parse('--replication', SECOND_PORT='18444')
                         .second_port)
        checked = parse('--replication', '--check')
        self.assertNotIn(checked.second_port, (8444, checked.sim_port, None))

    def test_a_switch_can_be_off(self):
        for text in ('', '0', 'no', 'False', ' off '):
            self.assertFalse(parse(CHECK=text).check, text)

    def test_a_port_must_be_valid(self):
        for text in ('x', '0', '65536', '-1', '8776.0'):
            with self.assertRaisesRegex(errors.CloudError, f'PORT={text} '):
                parse(PORT=text)
