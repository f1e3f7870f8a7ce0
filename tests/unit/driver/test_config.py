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

"""Options in cinder.conf, read by oslo.config and checked by the driver."""

import itertools
import os
import tempfile
import traceback

from cinder import exception
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume import manager
import ddt
from oslo_config import cfg
from oslotest import base

from cinder_k2.driver import config

SECRET = 'Secr3t-zebra'
# Valid; other values differ from it in one key.
GOOD = 'backend_id:b,san_ip:10.0.0.2,login:repl,password:' + SECRET

_numbers = itertools.count()


@ddt.ddt
class ReplicationTargetsTest(base.BaseTestCase):

    def _configuration(self, *devices, **options):
        options = {'san_ip': '10.0.0.1', 'san_login': 'admin',
                   'san_password': 'another', 'driver_ssl_cert_verify': 'yes',
                   **options}
        section = f'k2-{next(_numbers)}'
        handle, path = tempfile.mkstemp(suffix='.conf')
        self.addCleanup(os.unlink, path)
        with os.fdopen(handle, 'w') as stream:
            stream.write('\n'.join([
                f'[{section}]', *(f'{k} = {v}' for k, v in options.items()),
                *(f'replication_device = {device}' for device in devices)]))
        cfg.CONF([], default_config_files=[path])
        self.addCleanup(cfg.CONF.reset)
        made = configuration.Configuration(
            [*manager.volume_backend_opts, *driver.volume_opts,
             *driver.image_opts, *driver.fqdn_opts], section)
        config.register(made)
        return made

    def _targets(self, *devices, **options):
        made = self._configuration(*devices, **options)
        config.rest_settings(made)
        return config.replication_targets(made)

    def _refused(self, *devices, **options):
        """Return the one-line error, which must not contain secrets."""
        made = self._configuration(*devices, **options)
        error = self.assertRaises(exception.InvalidInput, lambda: (
            config.rest_settings(made), config.replication_targets(made)))
        shown = ''.join(traceback.format_exception(error))
        self.assertNotIn('Secr3t', shown)
        self.assertNotIn('zebra', shown)
        self.assertIn('replication_device', str(error))
        self.assertIn('cinder.conf', str(error))
        self.assertNotIn('\n', str(error))
        return str(error)

    def test_no_targets(self):
        self.assertEqual((), self._targets())

    def test_all_keys(self):
        target, = self._targets(
            GOOD + ',rpo:600,port:8443,tls_fingerprint:' + 'AB:' * 31 + 'AB',
            k2_read_timeout='7', k2_connect_timeout='3',
            k2_retry_timeout='50', k2_max_concurrent_writes='9')
        self.assertEqual(('b', 600, '10.0.0.2:8443'), (
            target.backend_id, target.rpo, target.address))
        made = target.settings
        self.assertEqual(
            ('10.0.0.2', 8443, 'repl', SECRET, 'ab' * 32, True, 7, 3, 50, 9,
             'b', None),
            (made.address, made.port, made.login, made.password, made.pin,
             made.verify, made.read_timeout, made.connect_timeout,
             made.deadline, made.max_writes, made.device, made.sdp_id))
        self.assertNotIn(SECRET, repr(target))

    def test_backend_id_alone(self):
        """It is the address, as with the in-tree driver."""
        target, = self._targets('backend_id:10.0.0.2',
                                k2_replication_password='x')
        self.assertEqual(('10.0.0.2', 300, '10.0.0.2'), (
            target.backend_id, target.rpo, target.address))
        self.assertEqual(('admin', 'x', None), (
            target.settings.login, target.settings.password,
            target.settings.pin))

    def test_targets_keep_their_order(self):
        self.assertEqual(['z', 'b'], [
            target.backend_id for target in self._targets(
                'backend_id:z,san_ip:10.0.0.3,password:x', GOOD)])

    @ddt.data(('[fd00::2]', '[fd00::2]'), ('fd00::2', '[fd00::2]'),
              ('[fd00::2]:8443', '[fd00::2]:8443'),
              ('k2-b.example.org:8443', 'k2-b.example.org:8443'))
    @ddt.unpack
    def test_ipv6_addresses_and_ports(self, address, wanted):
        target, = self._targets(f'backend_id:b,san_ip:{address},password:x')
        self.assertEqual(wanted, target.address)

    @ddt.data((r'a,b:c="d"$$\'#', r'a,b:c="d"$\'#'), ('" x "', ' x '),
              (r'\$1', '$1'), ('a:b', 'a:b'), ('\u00e4\u4e2d', '\u00e4\u4e2d'))
    @ddt.unpack
    def test_special_characters_in_the_password(self, written, read):
        """As documented in the help of k2_replication_password."""
        target, = self._targets('backend_id:b',
                                k2_replication_password=written)
        self.assertEqual(read, target.settings.password)

    def test_password_with_a_colon(self):
        target, = self._targets('backend_id:b,password:a:b')
        self.assertEqual('a:b', target.settings.password)

    def test_own_password_takes_precedence(self):
        target, = self._targets(GOOD, k2_replication_password='x')
        self.assertEqual(SECRET, target.settings.password)

    def test_password_of_the_primary_is_not_used(self):
        for device in ('backend_id:b', 'backend_id:b,password:'):
            why = self._refused(device)
            self.assertIn('k2_replication_password', why)
            self.assertIn(' b in section [k2-', why)

    @ddt.data('rpo', 'tls_fingerprint', 'port', 'san_ip')
    def test_empty_value_is_ignored(self, key):
        devices = [f'backend_id:10.0.0.2,password:x{more}'
                   for more in ('', f',{key}:')]
        self.assertEqual(*[self._targets(device) for device in devices])

    @ddt.data(
        (GOOD[len('backend_id:b,'):], 'number 1', 'backend_id'),
        ('backend_id:,password:x', 'number 1', 'backend_id'),
        ('backend_id:default,password:x', '"default"', 'choose another'),
        ('backend_id:Default,password:x', '"Default"', 'choose another'),
        (GOOD + ',rpo:61', '"61"', '60 or a multiple of 300'),
        (GOOD + ',rpo:0', '"0"', '60 or a multiple of 300'),
        (GOOD + ',rpo:5m', '"5m"', '60 or a multiple of 300'),
        (GOOD + ',port:0', 'port', '1 to 65535'),
        (GOOD + ',port:70000', 'port', '1 to 65535'),
        (GOOD + ',port:https', '"https"', '1 to 65535'),
        ('backend_id:b,san_ip:10.0.0.2:1,port:2,password:x',
         'names port 1 and port is 2', 'set one of them'),
        ('backend_id:b,san_ip:https://x/,password:x', 'https://x/',
         'it has no scheme'),
        ('backend_id:two words,password:x', 'two words', 'san_ip'),
        (GOOD + ',tls_fingerprint:ab', ' tls_fingerprint must', 'SHA-256'),
        ('backend_id:b,login:a:b,password:x', 'login without', 'colon'),
        ('backend_id:b,san_ip:10.0.0.1,password:x', '10.0.0.1',
         'that of san_ip already'),
        ('backend_id:10.0.0.1:443,password:x', '10.0.0.1',
         'that of san_ip already'),
        # Without a password, the message may list the unknown keys.
        ('backend_id:b,user:repl', 'unknown: user;', 'san_ip, port, login'),
        ('backend_id:b,Rpo:60,iqn:x', 'unknown: Rpo, iqn;', 'san_ip, port'))
    @ddt.unpack
    def test_invalid_values(self, device, *words):
        why = self._refused(device)
        for word in words:
            self.assertIn(word, why)

    # Cinder itself refuses a last item without a colon.
    @ddt.data(GOOD + ',zebra,rpo:60', GOOD + ',zebra:x',
              'password:Secr3t,a:zebra,backend_id:b')
    def test_password_with_a_comma_is_not_shown(self, device):
        self.assertIn('k2_replication_password', self._refused(device))

    @ddt.data((GOOD, GOOD.replace('0.2', '0.3')),
              (GOOD, 'backend_id:c,san_ip:10.0.0.3,password:x',
               GOOD.replace('0.2', '0.4')))
    def test_duplicate_backend_id(self, devices):
        self.assertIn('the same backend_id', self._refused(*devices))

    def test_duplicate_address(self):
        self.assertIn('10.0.0.2 is b already', self._refused(
            GOOD, GOOD.replace(':b,', ':c,')))

    def test_no_login(self):
        self.assertIn('login', self._refused(
            'backend_id:b,password:x', san_login='', san_password='',
            k2_sdp_id='s', k2_app_token='t'))

    def test_warning_without_certificate_verification(self):
        with self.assertLogs('cinder_k2.driver.config', 'WARNING') as caught:
            self._targets(GOOD, driver_ssl_cert_verify='no')
        self.assertEqual(2, len(caught.output))
        self.assertIn('10.0.0.2', caught.output[1])
        self.assertIn('tls_fingerprint in replication_device',
                      caught.output[1])

    def test_no_warning_with_a_pinned_certificate(self):
        with self.assertNoLogs('cinder_k2.driver.config', 'WARNING'):
            self._targets(GOOD + ',tls_fingerprint:' + 'ab' * 32,
                          driver_ssl_cert_verify='no',
                          k2_tls_fingerprint='cd' * 32)

    def test_empty_retention_policy(self):
        made = self._configuration(GOOD, k2_replication_retention_policy='')
        error = self.assertRaises(exception.InvalidInput,
                                  config.rest_settings, made)
        self.assertIn('k2_replication_retention_policy', str(error))

    def test_options_of_the_driver(self):
        from cinder_k2.driver import K2ISCSIDriver
        names = [option.name for option in K2ISCSIDriver.get_driver_options()]
        self.assertIn('replication_device', names)
        self.assertIn('k2_replication_password', names)
        self.assertEqual(len(names), len(set(names)))
