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


"""What ``make unit`` runs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class RunUnitTest(unittest.TestCase):

    def run_tests(self, **modules):
        """Run modules in a temporary folder; return the status and output."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        folder = pathlib.Path(place.name, 'tests', 'unit')
        folder.mkdir(parents=True)
        for package in (folder.parent, folder):
            (package / '__init__.py').touch()
        for name, source in modules.items():
            (folder / f'test_{name}.py').write_text(
                'import os\nimport unittest\n' + textwrap.dedent(source))
        done = subprocess.run(
            [sys.executable, '-m', 'tools.run_unit'], cwd=place.name,
            env={**os.environ, 'PYTHONPATH': str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        return done.returncode, done.stdout

    GOOD = '''
        class {0}Test(unittest.TestCase):

            @classmethod
            def setUpClass(cls):
                cls.there = True

            def test_a(self):
                self.assertTrue(self.there)

            def test_b(self):
                self.assertTrue(self.there)
        '''

    def test_all_pass(self):
        status, output = self.run_tests(**{
            name: self.GOOD.format(name) for name in ('One', 'Two', 'Three')})
        self.assertIn('Ran: 6 tests', output)
        self.assertEqual(0, status, output)

    def test_one_fails(self):
        status, output = self.run_tests(
            one=self.GOOD.format('One'), bad='''
            class BadTest(unittest.TestCase):

                def test_it(self):
                    self.assertEqual('a', 'b')
            ''')
        self.assertEqual(1, status, output)
        self.assertIn('tests.unit.test_bad.BadTest.test_it', output)
        self.assertIn('Ran: 3 tests', output)

    def test_one_cannot_be_imported(self):
        status, output = self.run_tests(
            one=self.GOOD.format('One'), bad='import nowhere.to.be.found')
        self.assertEqual(1, status, output)
        self.assertIn("No module named 'nowhere'", output)

    def test_a_worker_dies(self):
        """The other one continues; missing tests count as failures."""
        status, output = self.run_tests(
            one=self.GOOD.format('One'), bad='''
            class BadTest(unittest.TestCase):

                def test_it(self):
                    os._exit(0)
            ''')
        self.assertEqual(1, status, output)
        self.assertIn('tests.unit.test_bad.BadTest.test_it', output)
