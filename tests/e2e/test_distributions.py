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
"""The two distributions of this repository: the driver and k2-sim."""

import configparser
import email
import io
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import tomllib
import unittest
import venv
import zipfile

from tools.packages import dist

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SECONDS = 600
# Names of distributions of OpenStack.
_OPENSTACK = re.compile(
    r'^(oslo|cinder|os[-_]|pbr|taskflow|tooz|keystone|stevedore)')
_COMMANDS = ('k2-sim', 'k2-sim-ctl')
# k2-sim has its own version number, independent of the driver's.
_SIMULATOR = tomllib.loads(
    (ROOT / 'k2-sim' / 'pyproject.toml').read_text())['project']['version']


def run(*command, **options):
    """Run a command; return its output, or raise with it."""
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=_SECONDS, **options)
    if done.returncode:
        raise AssertionError(f'{command} failed:\n{done.stdout}')
    return done.stdout


def old_wheel(folder):
    """Make a wheel like those of cinder-k2 that still included k2-sim.

    Only the names of its files and commands are real.
    """
    path = folder / 'cinder_k2-0.0.1-py3-none-any.whl'
    info = 'cinder_k2-0.0.1.dist-info'
    files = {
        'cinder_k2/__init__.py': '',
        'cinder_k2/simulator/__init__.py': 'def main():\n    print("old")\n',
        f'{info}/METADATA':
            'Metadata-Version: 2.1\nName: cinder-k2\nVersion: 0.0.1\n',
        f'{info}/WHEEL': 'Wheel-Version: 1.0\nGenerator: by hand\n'
                         'Root-Is-Purelib: true\nTag: py3-none-any\n',
        f'{info}/entry_points.txt': '[console_scripts]\n' + ''.join(
            f'{name} = cinder_k2.simulator:main\n' for name in _COMMANDS)}
    with zipfile.ZipFile(path, 'w') as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f'{info}/RECORD', ''.join(
            f'{name},,\n' for name in [*files, f'{info}/RECORD']))
    return path


class DistributionsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        cls.built = dist.build(cls.folder)
        cls.driver, = cls.folder.glob('cinder_k2-*.whl')
        cls.simulator, = cls.folder.glob('k2_sim-*.whl')

    def environment(self):
        """Create an empty virtual environment; return its bin directory."""
        place = self.enterContext(tempfile.TemporaryDirectory())
        venv.create(place, with_pip=True)
        return pathlib.Path(place, 'bin')

    def install(self, programs, *what):
        run(programs / 'python', '-m', 'pip', 'install', '--quiet',
            '--disable-pip-version-check',
            '-c', ROOT / 'constraints' / '2026.2.txt', *what)

    def test_the_driver_and_nothing_else(self):
        with zipfile.ZipFile(self.driver) as archive:
            names = archive.namelist()
            point, = [name for name in names
                      if name.endswith('entry_points.txt')]
            points = configparser.ConfigParser(delimiters='=')
            points.read_file(io.StringIO(archive.read(point).decode()))
        self.assertEqual({'cinder_k2', point.partition('/')[0]},
                         {name.partition('/')[0] for name in names})
        self.assertEqual([], [name for name in names if 'simulat' in name])
        self.assertEqual(['k2-admin'], list(points['console_scripts']))
        programs = self.environment()
        self.install(programs, '--no-deps', self.driver)
        self.assertEqual([], [name for name in _COMMANDS
                              if (programs / name).exists()])
        self.assertTrue((programs / 'k2-admin').exists())

    def test_the_sdist_of_the_driver(self):
        path, = self.folder.glob('cinder_k2-*.tar.gz')
        with tarfile.open(path) as archive:
            names = [name.partition('/')[2] for name in archive.getnames()]
        self.assertIn('cinder_k2/driver/base.py', names)
        self.assertEqual([], [name for name in names
                              if name.startswith('k2-sim')])

    def test_reproducible(self):
        """Folder, time and umask of the build make no difference."""
        self.addCleanup(os.umask, os.umask(0o077))
        self.assertEqual([], dist.check(dist.digests(self.built)))

    def test_metadata(self):
        for wheel, package in ((self.driver, 'cinder_k2'),
                               (self.simulator, 'k2_sim')):
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                path, = [one for one in names if one.endswith('/METADATA')]
                about = email.message_from_bytes(archive.read(path))
            self.assertIn(f'{package}/py.typed', names)
            self.assertTrue([one for one in names
                             if one.endswith('/licenses/LICENSE')], names)
            self.assertEqual(
                ['Third-party CI, https://wiki.openstack.org/wiki/'
                 'ThirdPartySystems/Cinder_K2_CI'],
                about.get_all('Project-URL'))
            self.assertEqual('>=3.10', about['Requires-Python'])

    def test_k2_sim_alone(self):
        """It installs and runs without any package of OpenStack."""
        programs = self.environment()
        self.install(programs, self.simulator)
        found = run(programs / 'python', '-m', 'pip', 'list',
                    '--format=freeze').splitlines()
        self.assertIn(f'k2-sim=={_SIMULATOR}', found)
        self.assertEqual([], list(filter(_OPENSTACK.match, found)))
        self.assertEqual(f'k2-sim {_SIMULATOR}\n',
                         run(programs / 'k2-sim', '--version'))
        self.assertEqual('https://127.0.0.1\n', run(
            programs / 'k2-sim', 'run', '--pair', '--', 'sh', '-c',
            'echo "${K2_URL%:*}"'))

    def test_upgrade_in_place(self):
        """The commands stay if k2-sim is installed after the driver's upgrade.

        In the opposite order pip removes them with the old driver, and
        k2-sim has to be installed again.
        """
        programs = self.environment()
        old = old_wheel(self.folder)
        self.install(programs, '--no-deps', old)
        self.assertEqual('old\n', run(programs / 'k2-sim'))
        self.install(programs, '--no-deps', self.driver)
        self.assertFalse((programs / 'k2-sim').exists())
        self.install(programs, self.simulator)
        self.assert_new(programs)
        self.install(programs, '--no-deps', '--force-reinstall', old)
        self.install(programs, '--no-deps', '--force-reinstall',
                     self.simulator)
        self.install(programs, '--no-deps', self.driver)
        self.assertFalse((programs / 'k2-sim').exists())
        self.install(programs, '--no-deps', '--force-reinstall',
                     self.simulator)
        self.assert_new(programs)

    def assert_new(self, programs):
        self.assertEqual(f'k2-sim {_SIMULATOR}\n',
                         run(programs / 'k2-sim', '--version'))
        self.assertIn('usage:', run(programs / 'k2-sim-ctl', '--help'))
        self.assertEqual([], list(
            programs.parent.glob('lib/*/site-packages/cinder_k2/simulator')))
