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
"""The version of the next release is the same in all files."""

import configparser
import re
import unittest

from tools import run_tests

ROOT = run_tests.ROOT
# Files that contain the name of a wheel.
PAGES = ('juju-charm/README.md', 'juju-charm/bundle.yaml',
         'doc/source/charm/deploy.rst', 'doc/source/charm/upgrade.rst',
         'doc/source/operator/sunbeam.rst',
         'packaging/openstack-ansible/user_variables.yml')


class ReleaseTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        setup = configparser.ConfigParser()
        setup.read(ROOT / 'setup.cfg')
        self.release = setup['metadata']['version']

    def found(self, pattern, name):
        """Return the group of a pattern from a file."""
        found = re.findall(pattern, (ROOT / name).read_text())
        self.assertTrue(found, name)
        return found

    def test_drivers(self):
        self.assertEqual([self.release], self.found(
            r"\n    VERSION = '(.*)'", 'cinder_k2/driver/base.py'))
        for name in ('iscsi', 'fc'):
            self.assertEqual(self.release, self.found(
                r'\n    \* (\d+\.\d+\.\d+): ',
                f'cinder_k2/driver/{name}.py')[-1])

    def test_names_of_wheels(self):
        for name in PAGES:
            # A page on upgrading also names a later one.
            self.assertIn(self.release, self.found(
                r'cinder_k2-([0-9][^-]*)-py3', name), name)

    def test_how_to_release(self):
        """The instructions name each file that has the version."""
        page = (ROOT / 'RELEASING.rst').read_text()
        for name in ('setup.cfg', 'cinder_k2/driver/base.py',
                     'k2-sim/pyproject.toml', *PAGES):
            self.assertIn(name, page)
