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

import yaml

from tests.charm import CHARM
from tools.releases import table


class BundleTest(unittest.TestCase):
    """The example uses existing options, relations and files."""

    def setUp(self):
        super().setUp()
        self.bundle = yaml.safe_load((CHARM / 'bundle.yaml').read_text())
        self.about = yaml.safe_load((CHARM / 'charmcraft.yaml').read_text())

    def test_our_options(self):
        options = self.bundle['applications']['cinder-k2']['options']
        self.assertLessEqual(options.keys(),
                             self.about['config']['options'].keys())

    def test_our_relations(self):
        ours = {**self.about['provides'], **self.about['requires']}
        ends = [end.split(':') for relation in self.bundle['relations']
                for end in relation]
        self.assertIn(['cinder-k2', 'storage-backend'], ends)
        for application, endpoint in ends:
            self.assertIn(application, self.bundle['applications'])
            if application == 'cinder-k2':
                self.assertIn(endpoint, ours)

    def test_openstack_is_that_of_ubuntu(self):
        """The versions of its packages are in tools/releases/ubuntu.yaml."""
        self.assertEqual('ubuntu@24.04/stable', self.bundle['default-base'])
        for name in ('keystone', 'cinder'):
            application = self.bundle['applications'][name]
            self.assertEqual(f'{table.ubuntu().release}/stable',
                             application['channel'])
            self.assertEqual('distro',
                             application['options']['openstack-origin'])

    def test_the_charm_is_the_output_of_make_charm(self):
        platform, = self.about['platforms']
        self.assertEqual(
            '../dist/cinder-k2_{0}-{2}.charm'.format(
                *platform.rpartition(':')),
            self.bundle['applications']['cinder-k2']['charm'])
