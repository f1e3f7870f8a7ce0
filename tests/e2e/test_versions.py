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
"""One version number everywhere, in clones with and without a release tag."""

import ast
import configparser
import pathlib
import sys
import tempfile
import unittest
import venv

from packaging import version

from tests.e2e import test_distributions

ROOT = test_distributions.ROOT
run = test_distributions.run
# Prints the release that Sphinx reads from a conf.py.
_DOCS = ('import runpy, sys\n'
         'print(runpy.run_path(sys.argv[1])["release"])')
_PACKAGE = 'from cinder_k2 import version\nprint(version.version())'


def _assigned(path, name):
    """Return the value assigned to a name in a Python file, at any depth."""
    value, = [node.value for node in ast.walk(ast.parse(path.read_text()))
              if isinstance(node, ast.Assign)
              and ast.unparse(node.targets[0]) == name]
    return value


class VersionsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        self.clone = self.place / 'clone'
        run('git', 'clone', '--quiet', ROOT, self.clone)
        for tag in self.git('tag').split():
            self.git('tag', '--delete', tag)
        setup = configparser.ConfigParser()
        setup.read(self.clone / 'setup.cfg')
        self.release = setup['metadata']['version']

    def git(self, *arguments):
        return run('git', '-C', self.clone, '-c', 'user.name=test',
                   '-c', 'user.email=test@localhost', *arguments)

    def wheel(self):
        run(sys.executable, '-m', 'pip', 'wheel',
            '--quiet', '--no-deps', '--wheel-dir', self.place, self.clone)
        path, = self.place.glob('cinder_k2-*.whl')
        return path

    def told(self, wheel):
        """Install the wheel; return the version that each part reports."""
        venv.create(self.place / 'env', with_pip=True)
        programs = self.place / 'env' / 'bin'
        run(programs / 'python', '-m', 'pip', 'install', '--quiet',
            '--disable-pip-version-check', '--no-deps', '--no-index', wheel)
        charm = ast.literal_eval(run(
            sys.executable, '-c',
            'import driver\nprint(repr(driver._PRINT_VERSION))',
            env={'PYTHONPATH': self.clone / 'juju-charm' / 'src'}))
        admin = run(programs / 'k2-admin', '--version').split()
        self.assertEqual('k2-admin', admin[0])
        # -I: the installed package counts, not one in this directory.
        return {'wheel': wheel.name.split('-')[1], 'k2-admin': admin[1]} | {
            part: run(programs / 'python', '-I', '-c', *command).strip()
            for part, command in {
                'package': (_PACKAGE,), 'charm': (charm,),
                'docs': (_DOCS, self.clone / 'doc/source/conf.py'),
                'release notes': (
                    _DOCS, self.clone / 'releasenotes/source/conf.py'),
            }.items()}

    def test_tagged(self):
        """All parts report the version of the tag."""
        self.git('tag', '--annotate', self.release, '--message', 'release')
        told = self.told(self.wheel())
        self.assertEqual({self.release}, {*told.values()}, told)
        self.assertEqual(self.release, self.driver())

    def test_not_tagged(self):
        """All parts report the same development version of one release."""
        told = self.told(self.wheel())
        found, = {*told.values()}
        self.assertRegex(found, r'\.dev\d+$')
        self.assertEqual(self.release, version.Version(found).base_version)
        self.assertEqual(self.release, self.driver())

    def test_after_a_release(self):
        """A build after a release needs a higher version in setup.cfg."""
        self.git('tag', '--annotate', self.release, '--message', 'release')
        self.git('commit', '--quiet', '--allow-empty', '--message', 'next')
        with self.assertRaisesRegex(AssertionError, 'target version'):
            self.wheel()
        path = self.clone / 'setup.cfg'
        following = '.'.join([*self.release.split('.')[:2], '99'])
        path.write_text(path.read_text().replace(
            f'\nversion = {self.release}\n', f'\nversion = {following}\n'))
        self.assertIn(f'-{following}.dev1-', self.wheel().name)

    def driver(self):
        """Return the version that the driver reports to Cinder."""
        return ast.literal_eval(_assigned(
            self.clone / 'cinder_k2' / 'driver' / 'base.py', 'VERSION'))
