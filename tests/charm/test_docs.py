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

"""The pages on the charm are consistent with the charm."""

import pathlib
import re
import unittest

from tests.charm import fakes

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / 'doc' / 'source' / 'charm'
OPTIONS = set(fakes.META['config']['options'])


class DocsTest(unittest.TestCase):

    def test_actions(self):
        page = (PAGES / 'actions.rst').read_text()
        self.assertEqual(set(fakes.META['actions']), set(
            re.findall(r'^   \* - ``([a-z-]+)``', page, re.M)))

    def test_options_in_commands_exist(self):
        text = ''.join(path.read_text() for path in [
            *PAGES.glob('*.rst'), fakes.CHARM / 'README.md'])
        commands = re.findall(
            r'juju config (?:cinder-k2|kaminario-cinder) ((?:.*\\\n)*.*)',
            text)
        found = re.findall(r'(?:^|\s)([a-z_-]+)=', ' '.join(commands))
        self.assertGreater(len(found), 10)
        self.assertEqual(set(), set(found) - OPTIONS)

    def test_every_option_has_a_description(self):
        for name, option in fakes.META['config']['options'].items():
            self.assertIn(option['type'],
                          ('string', 'boolean', 'int', 'secret'))
            self.assertGreater(len(option['description']), 40, name)

    def test_files_for_charmhub(self):
        icon = (fakes.CHARM / 'icon.svg').read_text()
        self.assertIn('width="100" height="100"', icon)
        self.assertTrue((fakes.CHARM / 'LICENSE').is_file())
