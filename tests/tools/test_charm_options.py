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
import pathlib
import tempfile
import unittest
from unittest import mock

from tools import charm_options

OPTIONS = {
    'plain': {'type': 'string', 'default': '',
              'description': 'Says\nmuch_ about *it*.\n'},
    'flag': {'type': 'boolean', 'default': False, 'description': 'On or off.'},
    'none': {'type': 'int', 'description': 'Has no default.'}}


class RenderTest(unittest.TestCase):

    def test_a_row_for_each_option(self):
        self.assertIn("""\
   * - ``plain``
     - string
     -
     - Says much\\_ about \\*it\\*.
   * - ``flag``
     - boolean
     - ``false``
     - On or off.
   * - ``none``
     - int
     -
     - Has no default.
""", charm_options.render(OPTIONS))


class MainTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.page = pathlib.Path(directory.name, 'options.rst')
        self.enterContext(mock.patch.multiple(
            charm_options, PAGE=self.page,
            ROOT=pathlib.Path(directory.name)))

    def run_it(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = charm_options.main(list(arguments))
        return status, out.getvalue()

    def test_a_missing_or_outdated_page_is_reported(self):
        for change in (lambda: None, lambda: self.page.write_text('old')):
            change()
            status, text = self.run_it('--check')
            self.assertEqual(1, status)
            self.assertIn('Run: make charm-options', text)

    def test_a_written_page_passes_the_check(self):
        self.assertEqual((0, 'charm options: wrote options.rst\n'),
                         self.run_it())
        self.assertEqual((0, ''), self.run_it('--check'))
