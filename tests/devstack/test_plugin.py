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

"""stack.sh, unstack.sh and clean.sh with the plugin."""

import shutil
import stat
import subprocess  # nosec B404

from oslo_config import cfg
from oslo_config import types
import requests

from tests.devstack import harness
from tools import run_tests

HOST_FILES = run_tests.ROOT / 'cinder_k2' / 'host_files'
TWO = ('CINDER_ENABLED_BACKENDS=k2:k2-iscsi,k2:k2-fc',
       'K2_BACKEND_k2_fc_protocol=FC')


class Devices(cfg.MultiOpt):
    """replication_device with Cinder's type."""

    def __init__(self, name):
        super().__init__(name, item_type=types.Dict())


@harness.every_devstack
class LifeTest(harness.Case):
    """From an empty machine to a configured cloud, and back."""

    def answer(self, port):
        """Return the status of a request with the back end's password."""
        reply = requests.get(
            f'https://127.0.0.1:{port}/api/v2/system/state', timeout=30,
            auth=('admin', self.stack.option('k2-iscsi', 'san_password')),
            verify=str(self.stack.state / 'ca.crt'))
        return reply.status_code

    def test_the_default(self):
        """enable_plugin alone configures one back end on one array."""
        self.stack.local()
        self.stack.check_run('stack')
        self.assertEqual('k2-iscsi', self.stack.default('enabled_backends'))
        self.assertEqual('k2-iscsi', self.stack.default('default_volume_type'))
        self.assertEqual('cinder_k2.driver.K2ISCSIDriver',
                         self.stack.option('k2-iscsi', 'volume_driver'))
        self.assertEqual('k2-iscsi',
                         self.stack.option('k2-iscsi', 'volume_backend_name'))
        self.assertEqual('True', self.stack.option(
            'k2-iscsi', 'image_volume_cache_enabled'))
        self.assertEqual('True', self.stack.option(
            'k2-iscsi', 'driver_ssl_cert_verify'))
        self.assertEqual(['k2-sim-1'], self.stack.running())
        self.assertEqual(200, self.answer(self.stack.ports[0]))
        checkout = f'{self.stack.dest}/cinder-k2'
        self.assertIn(f'setup_develop {checkout}\n'
                      f'pip_install -e {checkout}/k2-sim\n',
                      self.stack.log('machine'))
        self.stack.check_run('clean')
        self.assertEqual([], self.stack.arrays() + self.stack.left())

    def test_everything_twice(self):
        """Two protocols, one replicated; every script is run twice."""
        self.stack.local(*TWO, 'K2_BACKEND_k2_fc_replication=True')
        for _ in range(2):
            self.stack.check_run('stack')
            self.assertEqual(2, len(self.stack.arrays()))
            self.assertEqual([200, 200], [
                self.answer(port) for port in self.stack.ports])
        self.check_two_back_ends()
        self.check_types()
        self.check_secrecy()
        self.stack.check_run('unstack')
        self.assertEqual([], self.stack.arrays())
        self.assertFalse(self.stack.secrets.exists())
        self.assertTrue(self.stack.state.exists())
        self.stack.check_run('unstack', 'clean', 'clean')
        self.assertEqual([], self.stack.left())

    def check_two_back_ends(self):
        self.assertEqual('k2-iscsi,k2-fc',
                         self.stack.default('enabled_backends'))
        self.assertEqual('cinder_k2.driver.K2FCDriver',
                         self.stack.option('k2-fc', 'volume_driver'))
        self.assertEqual([], self.stack.option(
            'k2-iscsi', 'replication_device', Devices) or [])
        device, = self.stack.option('k2-fc', 'replication_device', Devices)
        self.assertEqual(('k2-sim-2', str(self.stack.ports[1])),
                         (device['backend_id'], device['port']))
        self.assertEqual(
            self.stack.option('k2-iscsi', 'san_password'),
            self.stack.option('k2-fc', 'k2_replication_password'))
        for array, other in (harness.ARRAYS, harness.ARRAYS[::-1]):
            self.assertIn(f' --peer {other}=127.0.0.1:',
                          self.stack.command(array))

    def check_types(self):
        made = [line.split()[-1] for line in
                self.stack.log('openstack').splitlines()
                if ' create ' in line]
        # DevStack creates its own each time, the plugin only missing ones.
        self.assertEqual(1, made.count('k2-iscsi-nodedup'))
        self.assertEqual(1, made.count('k2-fc-replicated'))
        self.assertNotIn('k2-iscsi-replicated', made)
        self.assertIn('multiattach', made)

    def check_secrecy(self):
        """Check that no trace and no readable file has a password."""
        holders = self.holders(self.stack.option('k2-iscsi', 'san_password'))
        self.assertIn(self.stack.secrets, holders)
        for array in harness.ARRAYS:
            file = self.stack.state / array / 'control.password'
            self.assertEqual([file], self.holders(file.read_text().strip()))

    def holders(self, password):
        """Return the files with a password, which others must not read."""
        self.assertEqual(0, self.stack.output.count(password), 'traced')
        self.assertIn('+ ', self.stack.output)
        paths = [path for top in ('data', 'etc', 'home', 'logs')
                 for path in (self.stack.dest / top).rglob('*')
                 if path.is_file()]
        self.assertIn(self.stack.conf, paths)
        holders = [path for path in paths
                   if password.encode() in path.read_bytes()]
        for path in holders:
            self.assertEqual(0, stat.S_IMODE(path.stat().st_mode) & 0o077,
                             path)
        return holders

    def test_tempest(self):
        self.stack.local(*TWO, 'K2_CHECK=False',
                         'TEMPEST_VOLUME_MANAGE_SNAPSHOT=False')
        self.stack.check_run('stack')
        tempest = self.stack.tempest()
        self.assertLessEqual({
            ('volume', 'manage_volume_ref'): 'source-name,cv-%s',
            ('volume', 'manage_snapshot_ref'): 'source-name,cs-%s',
            ('volume', 'vendor_name'): 'Kaminario',
            ('volume', 'storage_protocol'): 'iSCSI',
            ('volume-feature-enabled', 'consistency_group'): 'True',
            ('volume-feature-enabled', 'manage_volume'): 'True',
            ('volume-feature-enabled', 'manage_snapshot'): 'False',
            ('volume-feature-enabled', 'volume_revert'): 'True',
            ('volume-feature-enabled', 'extend_attached_volume'): 'True',
        }.items(), tempest.items())


class ChoicesTest(harness.Case, harness.unittest.TestCase):
    """The effects of variables, on the minimal functions only."""

    def test_fibre_channel_first(self):
        self.stack.local('CINDER_ENABLED_BACKENDS=k2:fc',
                         'K2_ALL_protocol=fc', 'K2_CHECK=False',
                         'TEMPEST_VOLUME_VENDOR=Silk')
        self.stack.check_run('stack')
        self.assertEqual('FC', self.stack.tempest()[
            'volume', 'storage_protocol'])
        self.assertNotIn(('volume', 'vendor_name'), self.stack.tempest())

    def test_multipath(self):
        self.stack.local('K2_MULTIPATH=True', 'K2_CHECK=False')
        self.stack.check_run('stack')
        self.assertEqual('True', self.stack.option(
            'k2-iscsi', 'use_multipath_for_image_xfer'))
        self.assertMultipath('install_package multipath-tools\n')
        self.assertIn('volume_use_multipath = True',
                      (self.stack.dest / 'etc' / 'nova.conf').read_text())

    def test_multipath_on_fedora(self):
        self.stack.local('K2_MULTIPATH=True', 'K2_CHECK=False')
        self.stack.check_run('stack', OS_FAMILY='fedora')
        self.assertMultipath('install_package device-mapper-multipath\n'
                             'mpathconf --enable --user_friendly_names n\n')

    def assertMultipath(self, first):
        """Packages first, then the settings, then the service."""
        said = self.stack.log('machine').replace(
            f'{self.stack.dest}/cinder-k2/cinder_k2/host_files/', '')
        self.assertIn(
            f'{first}'
            'install -D -m 644 multipath.conf '
            '/etc/multipath/conf.d/cinder-k2.conf\n'
            'install -D -m 644 98-cinder-k2.rules '
            '/etc/udev/rules.d/98-cinder-k2.rules\n'
            'start_service multipathd\nmultipathd reconfigure\n', said)
        for name in ('multipath.conf', '98-cinder-k2.rules'):
            self.assertTrue((HOST_FILES / name).is_file())

    def test_without_extras(self):
        self.stack.local('K2_MULTIATTACH=no', 'K2_VOLUME_TYPES=0',
                         'K2_CHECK=False')
        self.stack.check_run('stack')
        self.assertNotIn('multiattach', self.stack.log('openstack'))
        self.assertNotIn('nodedup', self.stack.log('openstack'))
        self.assertNotIn('start_service', self.stack.log('machine'))

    def test_next_to_another_back_end(self):
        self.stack.local('CINDER_ENABLED_BACKENDS=lvm:lvm-1,k2:k2.a',
                         'K2_CHECK=False', 'K2_BACKEND_k2_a_san_login=x')
        self.stack.check_run('stack')
        self.assertEqual('x', self.stack.option('k2.a', 'san_login'))
        self.assertEqual(['k2-sim-1'], self.stack.running())

    def test_a_compute_node(self):
        """Only what is needed to attach volumes."""
        self.stack.local('disable_service c-vol c-api c-sch tempest key',
                         'CINDER_ENABLED_BACKENDS=')
        self.stack.check_run('stack')
        self.assertEqual('', self.stack.log('machine'))
        self.assertEqual([], self.stack.arrays())

    def test_options_of_the_simulator(self):
        self.stack.local('K2_SIM_OPTIONS="--size 512GiB --seed volumes=3"',
                         'K2_SIM_PROFILE=k2', 'K2_CHECK=False')
        self.stack.check_run('stack')
        self.assertIn('--size 512GiB --seed volumes=3',
                      self.stack.command('k2-sim-1'))
        self.assertIn('--profile k2 ', self.stack.command('k2-sim-1'))

    def test_an_array_starts_empty(self):
        """Like Cinder's database."""
        self.stack.local('K2_CHECK=False')
        self.stack.check_run('stack')
        mark = self.stack.state / 'k2-sim-1' / 'mark'
        mark.write_text('')
        self.stack.check_run('stack')
        self.assertFalse(mark.exists())

    def test_after_an_interrupted_stack(self):
        """Its arrays still run, because unstack.sh was not called."""
        self.stack.local('K2_CHECK=False')
        # A variable of k2-sim-ctl, which may be in the environment.
        self.stack.check_run('stack', 'stack', K2_SIM_PASSWORD='x')
        self.assertEqual(1, len(self.stack.arrays()))


class DataPlaneTest(harness.Case, harness.unittest.TestCase):
    """The data plane that is chosen, and its user; tests/e2e runs it."""

    PORTALS = 'K2_SIM_PORTALS=127.104.7.1,127.104.7.2'

    def plane(self, *lines, **environ):
        """Run stack.sh and return the user and command of the first array."""
        self.stack.local(self.PORTALS, 'SERVICE_TIMEOUT=0', *lines)
        self.stack.run('stack', **environ)
        return self.stack.command('k2-sim-1')

    def test_automatic_choice(self):
        """tgt if it is installed and the portals are free."""
        command = self.plane('K2_DATA_PLANE=auto')
        user, plane = 'root', 'tgt'
        if shutil.which('tgtd') is None:
            user, plane = subprocess.run(
                ['whoami'], capture_output=True, text=True,
                check=True).stdout.strip(), 'none'
        self.assertTrue(command.startswith(f'{user} '), command)
        self.assertIn(f'--data-plane {plane} ', command)
        self.assertNotIn('--require-data-plane', command)

    def test_requested_data_plane(self):
        command = self.plane('K2_DATA_PLANE=lio')
        self.assertIn('--data-plane lio --require-data-plane', command)

    def test_not_for_fibre_channel(self):
        command = self.plane('K2_DATA_PLANE=auto', 'K2_ALL_protocol=FC')
        self.assertIn('--data-plane none', command)

    def test_next_to_the_tgt_of_cinder(self):
        """It will bind to all addresses."""
        helper = 'CINDER_TARGET_HELPER=tgtadm'
        self.assertIn('--data-plane none',
                      self.plane('K2_DATA_PLANE=auto', helper))
        self.stack.local(self.PORTALS, 'K2_DATA_PLANE=tgt', helper)
        self.assert_refused('CINDER_TARGET_HELPER=lioadm')

    def test_a_portal_in_use(self):
        with harness.listening('127.104.7.2', 3260):
            self.assertIn('--data-plane none',
                          self.plane('K2_DATA_PLANE=auto'))
            self.stack.local(self.PORTALS, 'K2_DATA_PLANE=tgt')
            self.assert_refused('127.104.7.2', 'K2_SIM_PORTALS',
                                'K2_DATA_PLANE=none')

    def test_tgt_is_installed(self):
        """Its service, which would bind to all addresses, is disabled."""
        for family, package, service in (
                ('debian', 'tgt', 'tgt'),
                ('fedora', 'scsi-target-utils', 'tgtd')):
            self.plane('K2_DATA_PLANE=auto', OS_FAMILY=family, INSTALLED='-')
            self.assertIn(f'install_package {package}\n'
                          f'stop_service {service}\n'
                          f'systemctl disable {service}\n',
                          self.stack.log('machine'))

    def test_tgt_cannot_be_installed(self):
        """This is an error if tgt was requested, also for Fibre Channel."""
        for protocol in ('iSCSI', 'FC'):
            self.stack.local(self.PORTALS, 'K2_DATA_PLANE=tgt',
                             f'K2_ALL_protocol={protocol}')
            self.assertEqual(1, self.stack.run(
                'stack', INSTALLED='-', INSTALLABLE='False'))
            self.assertIn('needs the package tgt', self.stack.errors[0])


class FilesTest(harness.unittest.TestCase):

    def test_packages(self):
        """DevStack's get_packages expects the name of the plugin."""
        for kind in ('debs', 'rpms'):
            path = (harness.ROOT / 'devstack' / 'files' / kind / 'cinder-k2')
            self.assertIn('iscsi', path.read_text())

    def test_shell_syntax(self):
        devstack = harness.ROOT / 'devstack'
        for path in (devstack / 'settings', devstack / 'override-defaults',
                     devstack / 'plugin.sh', *(devstack / 'lib').iterdir()):
            subprocess.run(['/bin/bash', '-n', str(path)], check=True)
