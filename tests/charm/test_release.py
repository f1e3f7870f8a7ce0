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

"""The release of Cinder: how it is found, what is refused, and upgrades."""

import configparser
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import ddt
from ops import testing
from packaging import requirements

import machine
import packages
import release
from tests.charm import fakes
from tools.releases import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = (r'is not supported: the driver needs Cinder 24 \(2024\.1\) or '
          r'later, and Python 3\.10 or later; upgrade OpenStack')


class ReleaseCase(fakes.UnitCase):

    def assertNothingPublished(self, state):
        self.assertTrue(self.published(state).keys().isdisjoint(
            {'backend_name', 'subordinate_configuration', 'stateless',
             'releases-packages-map'}))


class TableTest(fakes.UnitCase):
    """The charm supports what the project does."""

    def test_releases(self):
        self.assertEqual(
            {int(one.cinder.partition('.')[0]): one.name
             for one in table.load()}, release.TESTED)

    def test_oldest_python(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / 'setup.cfg')
        self.assertEqual(
            f'>={".".join(map(str, release.OLDEST_PYTHON))}',
            setup['metadata']['python_requires'])


class UbuntuTest(fakes.UnitCase):
    """The driver, installed from a wheel, works with Ubuntu's packages."""

    def setUp(self):
        super().setUp()
        self.ubuntu = table.ubuntu()

    def test_table_has_what_the_charm_installs(self):
        self.assertEqual(
            {'python3-cinder', 'python3-pip', *packages.OF_DRIVER},
            {f'python3-{name}' for name in self.ubuntu.packages})

    def test_versions(self):
        versions = self.ubuntu.versions
        self.assertEqual(self.ubuntu.packages.keys(), versions.keys())
        self.assertEqual('9.4.0', versions['oslo.config'])
        self.assertEqual('2.31.0', versions['requests'])

    def test_requirements_allow_them(self):
        """pip does not check: it installs the wheel without dependencies."""
        lines = (ROOT / 'requirements.txt').read_text().splitlines()
        wanted = [requirements.Requirement(line.partition('#')[0])
                  for line in lines if not line.startswith('#')]
        self.assertEqual(len(packages.OF_DRIVER), len(wanted))
        for one in wanted:
            found = self.ubuntu.versions[one.name]
            self.assertTrue(one.specifier.contains(found), f'{one}: {found}')

    def test_cinder_and_python(self):
        cinder = release.Cinder(self.ubuntu.versions['cinder'],
                                self.ubuntu.python)
        self.assertTrue(cinder.is_supported)
        self.assertEqual('', cinder.warning)


class PathMachine(fakes.FakeMachine):
    """A machine whose Python finds packages in its own directories only."""

    def run(self, *command, seconds, **variables):
        done = subprocess.run(
            [sys.executable, '-S', *command[1:]], text=True, check=False,
            capture_output=True, timeout=seconds, env={
                'PYTHONPATH': f'{self.path("/local")}:{self.path("/usr")}'})
        return machine.Result(done.returncode, done.stdout, done.stderr)


class FindTest(fakes.UnitCase):
    """The version that Cinder's Python finds."""

    def setUp(self):
        super().setUp()
        self.machine = PathMachine(self.root / 'root')

    def add(self, place, version, file='PKG-INFO'):
        """Install a package as Debian does: with an egg-info directory."""
        self.machine.write(f'{place}/cinder-{version}.egg-info/{file}',
                           f'Name: cinder\nVersion: {version}\n')

    def found(self):
        return release.find(self.machine).version

    def test_none(self):
        self.machine.write('/usr/cinder_k2-1.0.egg-info/PKG-INFO',
                           'Name: cinder-k2\nVersion: 1.0\n')
        self.assertEqual('', self.found())

    def test_package(self):
        self.add('/usr', '24.2.0')
        self.assertEqual('24.2.0', self.found())

    def test_first_on_the_path(self):
        """Python loads that one."""
        self.add('/usr', '24.2.0')
        self.add('/local', '26.0.0')
        self.assertEqual('26.0.0', self.found())

    def test_package_that_is_being_replaced(self):
        """Its files are unpacked under other names, and then renamed."""
        self.add('/usr', '24.2.0')
        self.add('/usr', '26.0.0', 'PKG-INFO.dpkg-new')
        self.assertEqual('24.2.0', self.found())
        self.add('/usr', '26.0.0')
        self.assertEqual('', self.found())

    def test_real_python(self):
        found = release.find(machine.Machine(self.root))
        major, minor = map(int, found.python.split('.'))
        self.assertGreaterEqual((major, minor), release.OLDEST_PYTHON)
        # Where the tests' own Python is first on PATH, it has Cinder.
        self.assertIn(found.version,
                      ('', importlib.metadata.version('cinder')))

    def test_python_that_cannot_be_run(self):
        self.machine = fakes.FakeMachine(self.root / 'root')
        self.context = self.new_context(fakes.APP)
        self.machine.failing['python3 -c'] = machine.Failed(
            'python3 did not finish within 30 seconds')
        self.assertStatus('blocked', '^python3 did not finish',
                          self.run_event())


@ddt.ddt
class NotSupportedTest(ReleaseCase):
    """A release that the driver does not support is refused."""

    @ddt.data(('23.1.0', '3.12'), ('24.2.0', '3.9'), ('0.0.0', '3.12'))
    @ddt.unpack
    def test_nothing_is_installed_or_published(self, version, python):
        self.machine.cinder, self.machine.python = [version], python
        state = self.run_event()
        self.assertStatus(
            'blocked', rf'^Cinder {re.escape(version)} (\(2024\.1\) )?on '
            rf'Python {re.escape(python)} {NEEDED}$', state)
        self.assertEqual([], self.machine.ran('python3 -m pip'))
        self.assertNotIn('python3-taskflow', self.machine.installed)
        self.assertNothingPublished(state)
        self.assertIsNone(self.machine.read(fakes.SECRETS))

    def test_driver_that_is_there_already_is_not_published(self):
        self.machine.cinder, self.machine.version = ['23.1.0'], '1.2.3'
        self.assertNothingPublished(self.run_event())

    def test_a_working_back_end_stays_as_it_is(self):
        before = self.run_event()
        secrets = self.machine.read(fakes.SECRETS)
        self.machine.cinder = ['23.1.0']
        fakes.write_wheel(self.wheel, version='1.3.0')
        after = self.again(before, config={
            **self.config, 'san_ip': '10.0.0.9'})
        self.assertStatus('blocked', f'^Cinder 23.1.0 on .* {NEEDED}$', after)
        self.assertEqual(self.published(before), self.published(after))
        self.assertEqual(secrets, self.machine.read(fakes.SECRETS))
        self.assertEqual('1.2.3', self.machine.version)
        self.machine.cinder = ['24.2.0']
        state = self.again(after, self.context.on.update_status())
        self.assertEqual('10.0.0.9', self.pairs(state)['san_ip'])
        self.assertStatus('active', 'k2a', state)

    def test_invalid_options_are_reported_too(self):
        self.machine.cinder = ['23.1.0']
        self.config['protocol'] = 'nfs'
        self.assertStatus('blocked', f'{NEEDED}; protocol is "nfs"',
                          self.run_event())

    def test_other_units_need_no_cinder(self):
        self.machine.cinder = []
        self.relation = testing.SubordinateRelation(
            'juju-info', remote_app_name='nova-compute')
        self.assertStatus('active', 'can reach volumes', self.run_event())


@ddt.ddt
class UpgradeTest(ReleaseCase):
    """Cinder is not installed yet, or is being upgraded."""

    def test_waiting_for_cinder(self):
        self.machine.cinder = []
        state = self.run_event()
        self.assertStatus('waiting', '^waiting for Cinder to be installed on '
                          'this unit$', state)
        self.assertNothingPublished(state)
        self.assertEqual([], self.machine.ran('python3 -m pip'))
        self.machine.cinder = ['24.2.0']
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('active', 'k2a', state)

    def test_upgrade_to_a_supported_release(self):
        before = self.run_event()
        nonce = testing.SubordinateRelation(
            'storage-backend', id=self.relation.id, remote_app_name='cinder',
            local_unit_data=self.published(before),
            remote_unit_data={'upgrade_nonce': 'abc'})
        event = self.context.on.relation_changed(nonce, remote_unit=0)
        self.machine.cinder = ['24.2.0', '26.0.0']
        during = self.again(before, event, relations=[nonce])
        self.assertStatus('waiting', 'waiting for Cinder', during)
        self.assertEqual(self.published(before), self.published(during))
        self.assertEqual(1, len(self.machine.ran('python3 -m pip')))
        self.machine.cinder = ['26.0.0']
        after = self.again(during, self.context.on.update_status())
        self.assertStatus('active', 'portals$', after)
        self.assertEqual(2, len(self.machine.ran('python3 -m pip')))

    @ddt.data('25.0.0', '30.0.0.0rc1', '31.1.0')
    def test_untested_releases_work_with_a_warning(self, version):
        self.machine.cinder = [version]
        state = self.run_event()
        warning = (f'the driver was not tested with Cinder {version}, only '
                   'with 24, 26, 27, 28, 29')
        self.assertStatus('active', f'portals; {re.escape(warning)}$', state)
        self.assertEqual('k2a', self.published(state)['backend_name'])
        self.assertEqual([warning], [
            line.message for line in self.context.juju_log
            if line.level == 'WARNING'])

    @ddt.data('24.0.0', '26.3.0', '29.0.0.0rc1')
    def test_tested_releases_work_without_one(self, version):
        self.machine.cinder = [version]
        self.assertStatus('active', 'portals$', self.run_event())
