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

"""Back ends that cannot start: they report one clear error, in time."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import logging
import socket
import ssl
import time
from typing import Any

from cinder import exception
from cryptography.hazmat.primitives import hashes
from cryptography import x509
import ddt

from k2_sim.adapters import tls
from tests import arrays
from tests.functional import backend
from tests.functional import base

# Short timeouts in seconds, so that a back end gives up soon.
IMPATIENT: dict[str, Any] = {
    'k2_connect_timeout': 0.5, 'k2_read_timeout': 0.5, 'k2_retry_timeout': 2}
# Seconds that a start with these may take on a loaded machine.
LONGEST = 5


# A bound socket that never listens, so that no other test gets its port.
_CLOSED = socket.socket()
_CLOSED.bind(('127.0.0.1', 0))
CLOSED_PORT: int = _CLOSED.getsockname()[1]


@ddt.ddt
class SetupErrorsTest(base.FunctionalTest):

    def _fingerprint(self) -> str:
        pem = ssl.get_server_certificate((self.array.address,
                                          self.array.port))
        certificate = x509.load_pem_x509_certificate(pem.encode())
        return certificate.fingerprint(hashes.SHA256()).hex()

    def _down(self, *words: str, **options: Any) -> None:
        """Start a back end, which must stay down with one clear error.

        :param words: words that the error contains
        """
        broken = self.new_backend('iscsi', **{**IMPATIENT, **options})
        self._stays_down(broken, *words)

    def _stays_down(self, broken: backend.Backend, *words: str) -> None:
        started = time.monotonic()
        self.assertFalse(broken.start())
        self.assertLess(time.monotonic() - started, LONGEST)
        errors = self.log.messages(logging.ERROR, 'cinder_k2')
        self.assertEqual(1, len(errors), str(errors))
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn('\n', errors[0])
        self.assertNotIn(arrays.PASSWORD, self.log.text())
        self.assertRaises(exception.DriverNotInitialized,
                          broken.manager.attachment_delete,
                          broken.context, 'any', None)

    @contextlib.contextmanager
    def _other_server(self, **listening: Any) -> Iterator[int]:
        """Serve the array on another port; yield the port.

        :param listening: such as an address or another certificate
        """
        port = self.array.listen(**listening)
        try:
            yield port
        finally:
            self.array.stop_listening(port)

    def test_good_options(self) -> None:
        """The back end starts with the options that other tests change."""
        self.assertTrue(self.new_backend('iscsi', **IMPATIENT).start())
        self.assertEqual([], self.log.messages(logging.WARNING, 'cinder_k2'))

    def test_wrong_password(self) -> None:
        self._down('san_password', san_password='not-' + 'this')
        self.assertNotIn('not-this', self.log.text())

    def test_wrong_login(self) -> None:
        self._down('san_login', san_login='nobody')

    def test_unreachable(self) -> None:
        port = CLOSED_PORT
        self._down('san_ip', f'127.0.0.1:{port}', san_api_port=port)

    def test_no_such_name(self) -> None:
        self._down('san_ip', 'no-such-array.invalid',
                   san_ip='no-such-array.invalid')

    def test_silent(self) -> None:
        """A server that accepts the connection and sends nothing."""
        with socket.create_server(('127.0.0.1', 0)) as sock:
            self._down('san_ip', san_api_port=sock.getsockname()[1])

    def test_slow(self) -> None:
        self.array.control.set_latency(1.5)
        self._down('in time')

    def test_hanging(self) -> None:
        self.fault('hang', 'GET', '*', seconds=1.5, times=99)
        self._down('in time')

    def test_not_an_array(self) -> None:
        self.fault('garbage', 'GET', '*', times=999)
        self._down('JSON', 'san_ip')

    def test_truncated_replies(self) -> None:
        self.fault('truncated', 'GET', '*', times=999)
        self._down('san_ip')

    def test_empty_replies(self) -> None:
        self.fault('empty', 'GET', '*', times=999)
        self._down('san_ip')

    @ddt.data(403, 500, 502, 503)
    def test_status(self, status: int) -> None:
        self.fault('status', 'GET', '*', status=status, times=999)
        self._down(str(status))

    def test_role_without_rights(self) -> None:
        self.fault('status', 'GET', '*', status=403, times=999)
        self._down('role')

    @ddt.data('2.1.9', '1.0.0', '2')
    def test_old_rest_api(self, version: str) -> None:
        self.switch(rest_api_version=version)
        self._down('2.2.0')

    @ddt.data('2.2.0', '2.2.1', '2.2', '2.10.0', '3.0.0', '', 'new')
    def test_new_rest_api(self, version: str) -> None:
        self.switch(rest_api_version=version)
        self.assertTrue(self.new_backend('iscsi', **IMPATIENT).start())

    def test_no_retention_policy(self) -> None:
        self._down('k2_retention_policy', 'No_Such_Policy',
                   k2_retention_policy='No_Such_Policy')

    def test_no_portal_left(self) -> None:
        self._down('k2_iscsi_cidrs', k2_iscsi_cidrs='203.0.113.0/24')

    # TLS

    def test_another_authority(self) -> None:
        other = tls.ensure(arrays.folder(), ())
        self._down('certificate', 'driver_ssl_cert_path',
                   driver_ssl_cert_path=other.authority_path)

    def test_no_authority(self) -> None:
        self._down('certificate', driver_ssl_cert_path=None)

    def test_expired_certificate(self) -> None:
        with self._other_server(has_expired=True) as port:
            self._down('certificate', 'expired', san_api_port=port)

    def test_certificate_of_another_machine(self) -> None:
        with self._other_server(host='127.0.0.2') as port:
            self._down('certificate', san_ip='127.0.0.2', san_api_port=port)

    def test_no_tls(self) -> None:
        with self._other_server(has_tls=False) as port:
            self._down('san_ip', san_api_port=port)

    def test_authority_file_is_missing(self) -> None:
        self._down('driver_ssl_cert_path', '/no/such/file',
                   driver_ssl_cert_path='/no/such/file')

    def test_authority_file_is_none(self) -> None:
        """A file that holds no certificate."""
        self._down('driver_ssl_cert_path', __file__,
                   driver_ssl_cert_path=__file__)

    def test_unverified_with_a_warning(self) -> None:
        with self._other_server(has_expired=True) as port:
            self.assertTrue(self.new_backend(
                'iscsi', san_api_port=port, driver_ssl_cert_verify=None,
                driver_ssl_cert_path=None).start())
        warnings = self.log.messages(logging.WARNING, 'cinder_k2')
        self.assertEqual(1, len(warnings), str(warnings))
        self.assertIn('driver_ssl_cert_verify', warnings[0])

    @ddt.data(str, str.upper,
              lambda f: ':'.join(f[i:i + 2] for i in range(0, 64, 2)))
    def test_pinned_certificate(self, spell: Callable[[str], str]) -> None:
        self.assertTrue(self.new_backend(
            'iscsi', driver_ssl_cert_verify=None, driver_ssl_cert_path=None,
            k2_tls_fingerprint=spell(self._fingerprint())).start())
        self.assertEqual([], self.log.messages(logging.WARNING, 'cinder_k2'))

    def test_another_pinned_certificate(self) -> None:
        self._down('k2_tls_fingerprint', driver_ssl_cert_verify=None,
                   k2_tls_fingerprint='ab' * 32)

    # Options

    @ddt.data('san_ip', 'san_login', 'san_password')
    def test_missing(self, name: str) -> None:
        self._down(name, **{name: None})

    def test_empty_password(self) -> None:
        self._down('san_password', san_password='')

    @ddt.data({'san_ip': '127.0.0.1:444', 'san_api_port': 443},
              {'san_ip': 'https://127.0.0.1/'},
              {'san_ip': '127.0.0.1:port', 'san_api_port': None},
              {'san_ip': '[::1', 'san_api_port': None})
    def test_bad_address(self, options: dict[str, Any]) -> None:
        self._down('san_ip', **options)

    @ddt.data('abc', 'x' * 64, 'ab' * 31)
    def test_bad_fingerprint(self, value: str) -> None:
        self._down('k2_tls_fingerprint', k2_tls_fingerprint=value)

    def test_bad_network(self) -> None:
        self._down('k2_iscsi_cidrs', 'everywhere',
                   k2_iscsi_cidrs='everywhere')

    def test_bad_strategy(self) -> None:
        self._down('k2_clone_strategies', k2_clone_strategies='magic')

    def test_bad_number(self) -> None:
        self._down('k2_read_timeout', k2_read_timeout='-1')

    @ddt.data(('driver_ssl_cert_verify', 'maybe'),
              ('reserved_percentage', '-5'),
              ('max_over_subscription_ratio', 'x'))
    @ddt.unpack
    def test_bad_value_of_an_option_of_cinder(self, option: str,
                                              value: str) -> None:
        self._down(option, **{option: value})

    @ddt.data({'k2_sdp_id': 'sdp-7'}, {'k2_app_token': 'abc'})
    def test_half_of_a_cloud_manager(self, options: dict[str, str]) -> None:
        self._down('k2_sdp_id', **options)

    @ddt.data('k2_retention_policy', 'k2_clone_strategies', 'k2_iscsi_cidrs',
              'k2_replication_retention_policy')
    def test_an_option_left_empty(self, option: str) -> None:
        self._down(option, **{option: ''})

    # Replication

    @ddt.data(
        ('san_ip:10.0.0.2,password:x', 'number 1', 'backend_id'),
        ('backend_id:default,password:x', 'default', 'another backend_id'),
        ('backend_id:b,password:x,rpo:61', ' b ', '60 or a multiple of 300'),
        ('backend_id:b,password:x,port:0', ' b ', 'port'),
        ('backend_id:b,password:x,san_ip:http://b', ' b ', 'san_ip'),
        ('backend_id:b,password:x,tls_fingerprint:ab', 'tls_fingerprint'),
        ('backend_id:b', ' b ', 'k2_replication_password'),
        ('backend_id:b,user:x', ' b ', 'unknown: user', 'login'),
        ('backend_id:b,password:x\nreplication_device = '
         'backend_id:b,password:x,san_ip:c', ' b ', 'the same backend_id'),
        (f'backend_id:b,password:x,{arrays.PASSWORD}:x',
         'k2_replication_password'),
        (f'backend_id:b,password:x,{arrays.PASSWORD},rpo:60',
         'k2_replication_password'))
    @ddt.unpack
    def test_bad_replication_device(self, device: str, *words: str) -> None:
        self._down('replication_device', 'cinder.conf', *words,
                   replication_device=device)

    @ddt.data(({'san_password': 'not-' + 'this'}, 'check san_login and'),
              ({'san_api_port': CLOSED_PORT}, 'san_ip'),
              ({'driver_ssl_cert_path': None}, 'certificate'),
              ({'k2_retention_policy': 'No_Such'}, 'No_Such'),
              ({'k2_iscsi_cidrs': '203.0.113.0/24'}, 'k2_iscsi_cidrs'))
    @ddt.unpack
    def test_with_a_target_it_starts_all_the_same(
            self, options: dict[str, Any], word: str) -> None:
        """One error line states why the active array is not usable."""
        self.assertTrue(self.new_backend('iscsi', **{
            **IMPATIENT, 'replication_device': 'backend_id:b,password:x',
            **options}).start())
        line, *more = self.log.messages(logging.ERROR, 'cinder_k2')
        self.assertIn('Active array is not usable: ', line)
        self.assertTrue(all('reported as down' in one for one in more))
        self.assertIn(word, line)
        self.assertNotIn('\n', line)
        self.assertNotIn('not-this', self.log.text())

    def test_the_array_as_its_own_replica(self) -> None:
        self._down('replication_device', 'san_ip', replication_device=(
            f'backend_id:b,password:x,san_ip:{self.array.address},'
            f'port:{self.array.port}'))

    def test_port_in_the_address(self) -> None:
        self.assertTrue(self.new_backend(
            'iscsi', san_ip=f'127.0.0.1:{self.array.port}',
            san_api_port=None).start())
        self.assertTrue(self.new_backend(
            'iscsi', san_ip=f'127.0.0.1:{self.array.port}',
            san_api_port=self.array.port).start())

    @ddt.data('::1', '[::1]')
    def test_ipv6(self, address: str) -> None:
        with self._other_server(host='::1') as port:
            self.assertTrue(self.new_backend(
                'iscsi', san_ip=address, san_api_port=port).start())
            self.assertTrue(self.new_backend(
                'iscsi', san_ip=f'[::1]:{port}',
                san_api_port=None).start())

    def test_a_name(self) -> None:
        self.assertTrue(self.new_backend(
            'iscsi', san_ip='localhost').start())

    def test_options_of_the_driver_inside_cinder(self) -> None:
        self.assertTrue(self.new_backend(
            'iscsi', disable_discovery=True, unique_fqdn_network=False,
            auto_calc_max_oversubscription_ratio=True).start())

    def test_recovers_when_the_cause_is_gone(self) -> None:
        self.fault('status', 'GET', '*', status=503, times=9999)
        broken = self.new_backend('iscsi', **IMPATIENT)
        self.assertFalse(broken.start())
        self.array.control.clear_faults()
        self.assertTrue(broken.restart())
