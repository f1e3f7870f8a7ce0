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
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from tools import pack_charm


class PackTest(unittest.TestCase):

    def missing(self, programs=(), root=True, bindings=True):
        """Return the message on a machine that has these programs."""
        done = subprocess.CompletedProcess([], int(not bindings))
        with mock.patch.multiple(shutil, which=programs.__contains__), \
                mock.patch.multiple(os, geteuid=lambda: int(not root)), \
                mock.patch.multiple(pack_charm, PYTHON='/bin/sh'), \
                mock.patch.multiple(subprocess, run=lambda *_, **__: done):
            return pack_charm.missing()

    def test_missing_requirements(self):
        self.assertEqual('', self.missing({'charmcraft': 1}, root=False))
        self.assertEqual('', self.missing({'unshare': 1}))
        self.assertTrue(self.missing({'unshare': 1}, root=False).endswith(
            'as root on Debian or Ubuntu: apt-get install python3-apt '
            'python3-venv'))
        self.assertTrue(self.missing({'unshare': 1}, bindings=False).endswith(
            'install python3-apt python3-venv'))
        self.assertTrue(self.missing().endswith('apt-get install util-linux'))

    def main(self, **parts):
        with mock.patch.multiple(pack_charm, **parts), \
                mock.patch('sys.argv', ['pack_charm']), \
                contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as error:
            return pack_charm.main(), out.getvalue(), error.getvalue()

    def test_missing_tools(self):
        self.assertEqual(
            (1, '', 'pack_charm: charmcraft is missing\n'),
            self.main(missing=lambda: 'charmcraft is missing'))

    def test_deploy_command_is_printed(self):
        status, out, _ = self.main(
            pack=lambda: pathlib.Path('a.charm'),
            build_wheel=lambda: pathlib.Path('b.whl'))
        self.assertEqual((0, 'juju deploy ./dist/a.charm \\\n    --resource '
                          'driver=./dist/b.whl\n'), (status, out))

    def test_the_package_replaces_older_ones(self):
        with tempfile.TemporaryDirectory() as place:
            dist = pathlib.Path(place, 'dist')
            dist.mkdir()
            for name in ('k2_old.charm', 'k2.charm', 'k2.whl'):
                (dist / name).write_text('old')

            def run(*command, cwd):
                if 'pack' in command:
                    (cwd / 'k2.charm').write_text('new')
                return ''

            parts = {'missing': lambda: '', 'find': lambda: None,
                     'run': run, 'DIST': dist}
            with mock.patch.multiple(pack_charm, **parts), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(dist / 'k2.charm', pack_charm.pack())
            self.assertEqual({'k2.charm': 'new', 'k2.whl': 'old'}, {
                path.name: path.read_text() for path in dist.iterdir()})

    def test_host_settings_are_included(self):
        """Units may not have the driver's package, which contains them."""
        shipped = pack_charm.ROOT / 'cinder_k2' / 'host_files'
        with pack_charm.copy() as charm:
            packed = charm / 'src' / 'host_files'
            self.assertFalse(packed.is_symlink())
            self.assertEqual(
                {path.name: path.read_text() for path in shipped.iterdir()},
                {path.name: path.read_text() for path in packed.iterdir()})

    def test_a_program_that_fails(self):
        with self.assertRaisesRegex(pack_charm.CannotPack,
                                    'sh -c .* failed:\nwhy'):
            pack_charm.run('sh', '-c', 'echo why >&2; exit 3')
        with mock.patch.object(pack_charm, 'SECONDS', 0.1), \
                self.assertRaisesRegex(pack_charm.CannotPack, 'within 0 s'):
            pack_charm.run('sleep', '60')
