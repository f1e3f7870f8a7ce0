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

"""Invalid settings in local.conf stop stack.sh with one message."""

import os
import unittest

from tests.devstack import harness

REAL = ('K2_SIMULATOR=False', 'K2_CHECK=False')


@harness.every_devstack
class InvalidSettingsTest(harness.Case):
    """Reported before anything is changed, unless the check needs Cinder."""

    def refuse(self, lines, *parts):
        self.stack.local(*lines)
        self.assert_refused(*parts)

    def test_an_unknown_variable(self):
        self.refuse(['K2_SIMULATR=True'], 'no variable K2_SIMULATR',
                    'K2_SIMULATOR ', 'K2_BACKEND_<back end>_<option>')
        self.assertEqual('', self.stack.log('machine'))

    def test_an_option_of_an_unknown_back_end(self):
        self.refuse(['K2_BACKEND_iscsi_san_ip=x'],
                    'K2_BACKEND_iscsi_san_ip does not belong to a back end',
                    'CINDER_ENABLED_BACKENDS=k2:k2-iscsi')

    def test_unknown_options(self):
        """Both are reported at once, and no section is written."""
        self.refuse(['CINDER_ENABLED_BACKENDS=k2:a,k2:b',
                     'K2_BACKEND_a_san_logn=x', 'K2_BACKEND_b_pool=x'],
                    'back end a: unknown option san_logn; did you mean '
                    'san_login?', 'back end b: unknown option pool')
        self.assertEqual(2, len(self.stack.message.splitlines()))
        self.assertFalse(self.stack.conf.exists() and
                         '[a]' in self.stack.conf.read_text())

    def test_an_invalid_value(self):
        self.refuse(['K2_ALL_k2_read_timeout=soon'],
                    'back end k2-iscsi: k2_read_timeout has an invalid value',
                    'soon')

    def test_an_array_that_is_not_usable(self):
        """Checked before cinder-volume starts; the message says what to do."""
        self.refuse(['K2_ALL_k2_retention_policy=none-such'],
                    'array of the back end k2-iscsi is not usable')
        self.assertRegex(self.stack.output,
                         r'(?m)^  problem .*k2_retention_policy')

    def test_a_port_in_use(self):
        port = self.stack.ports[1]
        with harness.listening('127.0.0.1', port):
            self.refuse(['K2_ALL_replication=True'],
                        f'Port {port} of 127.0.0.1 is in use', 'K2_SIM_PORT_2')

    def test_a_simulator_that_does_not_start(self):
        self.refuse(['K2_SIM_OPTIONS=--no-such', 'SERVICE_TIMEOUT=2'],
                    'k2-sim-1 does not respond',
                    'journalctl -u devstack@k2-sim-1')


class InvalidValuesTest(harness.Case, unittest.TestCase):
    """The same for other settings, on the minimal functions only."""

    def refuse(self, lines, *parts):
        self.stack.local(*lines)
        self.assert_refused(*parts)
        self.assertEqual('', self.stack.log('machine'))

    def test_a_real_array_without_an_address(self):
        self.refuse(REAL, 'k2-iscsi has no array',
                    'K2_BACKEND_k2_iscsi_san_ip', 'K2_SIMULATOR=True')

    def test_a_real_array_without_a_password(self):
        self.refuse([*REAL, 'K2_ALL_san_ip=192.0.2.1'],
                    'no password', 'K2_BACKEND_k2_iscsi_san_password_file')

    def test_replication_of_a_real_array(self):
        self.refuse([*REAL, 'K2_ALL_san_ip=192.0.2.1',
                     'K2_ALL_replication=True'],
                    'K2_BACKEND_k2_iscsi_replication_device')

    def test_an_unknown_protocol(self):
        self.refuse(['K2_ALL_protocol=nvme'], '"nvme"; use iSCSI or FC')

    def test_invalid_booleans(self):
        self.refuse(['K2_ALL_replication=sync'], 'use True or False')
        for name in ('SIMULATOR', 'CHECK', 'MULTIATTACH', 'MULTIPATH',
                     'VOLUME_TYPES'):
            self.refuse([f'K2_{name}=Flase'], f'K2_{name}=Flase',
                        'use one of: True False')

    def test_invalid_choices(self):
        self.refuse(['K2_DATA_PLANE=scst'], 'auto none tgt lio')
        self.refuse(['K2_SIM_PROFILE=k3'], 'use one of: k2 sdp known')

    def test_invalid_addresses(self):
        for host in ('::1', 'https://k2'):
            self.refuse([f'K2_SIM_HOST={host}'], 'IPv4')

    def test_invalid_ports(self):
        for port in ('0', '65536', 'https', '-1', '08443'):
            self.refuse([f'K2_SIM_PORT={port}'], f'K2_SIM_PORT={port} is not')
        self.refuse(['K2_SIM_PORT=1', 'K2_SIM_PORT_2=1'], 'must differ')

    def test_invalid_portals(self):
        for portal in ('localhost', '127.0.0.300', '127.0.0.11:3260'):
            self.refuse([f'K2_SIM_PORTALS=127.0.0.12,{portal}'],
                        f'portal "{portal}" is not an IP address')
        self.refuse(['K2_SIM_PORTALS_2=127.0.0.13,127.0.0.11'],
                    'both have 127.0.0.11')

    def test_another_volume_backend_name(self):
        """DevStack's volume type would not match the back end."""
        for option in ('K2_ALL_', 'K2_BACKEND_k2_iscsi_'):
            self.refuse([f'{option}volume_backend_name=other'],
                        'volume_backend_name "other"', 'volume type')

    def test_invalid_names(self):
        self.refuse(["CINDER_ENABLED_BACKENDS='k2:a/b'"],
                    'name "a/b" is invalid')
        self.refuse(['CINDER_ENABLED_BACKENDS=k2:a-b,k2:a.b'],
                    'K2_BACKEND_a_b_<option>', 'rename a.b')

    def test_a_service_that_is_disabled(self):
        self.stack.local()
        with (self.stack.dest / 'localrc').open('a') as file:
            file.write('function enable_service { :; }\n')
        self.assert_refused('service k2-sim-1 is disabled')

    def test_nothing_to_do(self):
        """A warning only, because there may be other back ends."""
        self.stack.local('CINDER_ENABLED_BACKENDS=lvm:lvm')
        self.stack.check_run('stack')
        self.assertIn('[WARNING] cinder-k2 does nothing', self.stack.output)


class PasswordFileTest(harness.Case, unittest.TestCase):
    """A real array, which is not checked, because nothing listens there."""

    def local(self, path, *lines):
        self.stack.local(*REAL, 'K2_ALL_san_ip=192.0.2.1',
                         f'K2_ALL_san_password_file={path}', *lines)

    def test_first_line(self):
        path = self.stack.dest / 'password'
        path.write_text('Sesame 1\nnot this\n')
        self.local(path)
        self.stack.check_run('stack')
        self.assertEqual('Sesame 1',
                         self.stack.option('k2-iscsi', 'san_password'))
        self.assertNotIn('Sesame', self.stack.output)
        self.assertNotIn('Sesame', self.stack.conf.read_text())
        self.assertEqual([], self.stack.arrays())
        self.assertIsNone(
            self.stack.option('k2-iscsi', 'driver_ssl_cert_path'))

    def test_one_that_cannot_be_read(self):
        self.local(self.stack.dest / 'none')
        self.assert_refused('san_password_file', 'No such file or directory')

    def test_an_empty_one(self):
        self.local(os.devnull)
        self.assert_refused('the first line of /dev/null is empty')
