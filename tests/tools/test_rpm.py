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

import configparser
import contextlib
import io
import pathlib
from unittest import mock

from tests.tools import test_dist
from tools.packages import dist
from tools.packages import programs
from tools.packages import rpm
from tools.releases import table


class SpecTest(test_dist.FolderTestCase):

    def test_version(self):
        """The spec begins and ends with the next release."""
        setup = configparser.ConfigParser()
        setup.read(table.ROOT / 'setup.cfg')
        version = setup['metadata']['version']
        text = (rpm.OURS / f'{rpm.NAME}.spec').read_text()
        self.assertIn(f'%global pypi_version {version}\n', text)
        self.assertRegex(text, rf'(?m)^Version: +{version}$')
        self.assertIn(f' - {version}-1\n', text)
        self.assertIn('packaging/rpm/python-cinder-k2.spec',
                      (table.ROOT / 'RELEASING.rst').read_text())

    def test_spec(self):
        spec = rpm.write_spec(self.write_sdist('1.2.0.dev3'), self.folder)
        text = spec.read_text()
        self.assertEqual('python-cinder-k2.spec', spec.name)
        self.assertIn('%global pypi_version 1.2.0.dev3\n', text)
        self.assertIn('\nVersion:        1.2.0~dev3\n', text)
        self.assertEqual(
            (rpm.OURS / spec.name).read_text().count('\n'),
            text.count('\n'))


class RpmTest(test_dist.FolderTestCase):

    def run_command(self):
        with contextlib.redirect_stderr(io.StringIO()) as error, \
                contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.object(dist, 'DIST', self.folder / 'dist'):
            return rpm.main(), out.getvalue(), error.getvalue()

    def fake(self, *command, variables=None):
        """Act like rpmbuild and rpmlint."""
        if command[0] == 'rpmbuild':
            folder = command[-1].parent
            (folder / 'python-cinder-k2-2-1.src.rpm').write_text('new')
            return ''
        self.assertIn('--strict', command)
        if self.found:
            raise programs.PackageError('rpmlint failed')
        return 'python-cinder-k2.spec\n 1 packages checked\n'

    def test_result(self):
        old = self.folder / 'dist' / 'python-cinder-k2-1-1.src.rpm'
        old.parent.mkdir()
        old.write_text('old')
        sdist = pathlib.Path('cinder_k2-2.tar.gz')
        with mock.patch('shutil.which', lambda name: name), \
                mock.patch.object(programs, 'run', self.fake), \
                mock.patch.object(dist, 'build_driver', autospec=True,
                                  return_value=sdist):
            self.found = False
            self.assertEqual(
                (0, 'dist/python-cinder-k2-2-1.src.rpm\n'
                 'rpmlint: 1 packages checked\n', ''), self.run_command())
            self.assertEqual(['python-cinder-k2-2-1.src.rpm'],
                             [path.name for path in old.parent.iterdir()])
            self.found = True
            self.assertEqual((1, '', 'make rpm: rpmlint failed\n'),
                             self.run_command())

    def test_needs_programs(self):
        with mock.patch('shutil.which', lambda name: None):
            status, _, error = self.run_command()
        self.assertEqual(1, status)
        self.assertTrue(error.startswith('make rpm: '))
        self.assertTrue(error.endswith(': apt-get install rpm rpmlint\n'))
