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


import os
import ssl
import tempfile
import unittest
import warnings

import ddt
import requests
import requests.certs
import urllib3.exceptions

from cinder_k2 import rest
from cinder_k2.rest import tls

PIN = 'ab' * 32


def untrusted(code, message='it is no good'):
    """What requests raises if OpenSSL does not trust a certificate."""
    error = ssl.SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED')
    error.verify_code, error.verify_message = code, message
    return wrapped(urllib3.exceptions.SSLError(error))


def wrapped(reason):
    return requests.exceptions.SSLError(
        urllib3.exceptions.MaxRetryError(None, '/api/v2', reason))


@ddt.ddt
class FingerprintTest(unittest.TestCase):

    @ddt.data(None, '', '  ')
    def test_none(self, text):
        self.assertIsNone(tls.normal_fingerprint(text))

    @ddt.data(PIN, PIN.upper(), ':'.join(['AB'] * 32),
              ' ' + '-'.join(['ab'] * 32) + '\n')
    def test_in_any_form(self, text):
        self.assertEqual(PIN, tls.normal_fingerprint(text))

    @ddt.data(PIN[1:], PIN + 'a', 'g' + PIN[1:], 'x')
    def test_no_fingerprint(self, text):
        with self.assertRaisesRegex(
                rest.InvalidSettings,
                r'^k2_tls_fingerprint must be the SHA-256 of the certificate, '
                r'64 hex digits \(openssl'):
            tls.normal_fingerprint(text)


class AuthorityTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_valid_paths(self):
        """OpenSSL reads a directory only when it verifies."""
        tls.check_authority(self.folder)
        tls.check_authority(requests.certs.where())

    def test_no_file(self):
        path = os.path.join(self.folder, 'ca.pem')
        with self.assertRaisesRegex(
                rest.InvalidSettings,
                "^driver_ssl_cert_path '.*/ca.pem' cannot be read by the user "
                'of cinder-volume: No such file'):
            tls.check_authority(path)

    def test_no_certificates(self):
        path = os.path.join(self.folder, 'ca.pem')
        with open(path, 'w') as stream:
            stream.write('nothing')
        with self.assertRaisesRegex(rest.InvalidSettings,
                                    'holds no certificates: .'):
            tls.check_authority(path)


class HushTest(unittest.TestCase):

    def test_one_host_only(self):
        hosts = ('10.0.0.1', '10.0.0.2', '10a0b0c1')
        with warnings.catch_warnings(record=True) as warned:
            warnings.resetwarnings()
            tls.hush('10.0.0.1')
            for host in hosts:
                warnings.warn(
                    f'Unverified HTTPS request is being made to host '
                    f"'{host}'. Adding certificate verification is strongly "
                    'advised.', urllib3.exceptions.InsecureRequestWarning)
            warnings.warn("Unverified HTTPS request to host '10.0.0.1'")
        self.assertEqual(3, len(warned))
        for host, warning in zip(hosts[1:], warned):
            self.assertIn(f"'{host}'", str(warning.message))


class CertificateError(ValueError):
    """That of urllib3 1.26, whose module differs between versions."""


@ddt.ddt
class ProblemTest(unittest.TestCase):

    @ddt.data(*[(code, 'renew the certificate of the array, or set the '
                 'clocks') for code in (9, 10)],
              *[(code, 'set driver_ssl_cert_path to the certificate '
                 'authority of the array (a directory needs openssl rehash), '
                 'or pin the certificate with k2_tls_fingerprint')
                for code in (18, 19, 20, 21)],
              *[(code, 'set san_ip to a name or address that the '
                 'certificate has') for code in (62, 64)],
              (1, rest.CertificateError.hint))
    @ddt.unpack
    def test_not_trusted(self, code, hint):
        self.assertEqual(
            ('its certificate is not trusted: it is no good', hint),
            tls.problem(untrusted(code)))

    def test_other_name_with_urllib3_1(self):
        """urllib3 1 compares the names itself."""
        self.assertEqual(
            ('its certificate is not trusted: not for this host',
             'set san_ip to a name or address that the certificate has'),
            tls.problem(wrapped(CertificateError('not for this host'))))

    def test_unreadable_authority(self):
        with tempfile.NamedTemporaryFile() as file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            with self.assertRaises(ssl.SSLError) as caught:
                context.load_verify_locations(file.name)
        message, advice = tls.problem(wrapped(caught.exception))
        self.assertRegex(message, '^driver_ssl_cert_path cannot be used: .')
        self.assertEqual(rest.CertificateError.hint, advice)

    @ddt.data(('expected "aa", got "bb"', 'bb'), ('no more', r'\?'))
    @ddt.unpack
    def test_fingerprint_mismatch(self, words, found):
        message, advice = tls.problem(wrapped(urllib3.exceptions.SSLError(
            f'Fingerprints did not match. {words}')))
        self.assertRegex(
            message, f'^its certificate has the SHA-256 {found}, not the one '
            'of k2_tls_fingerprint$')
        self.assertIn('set k2_tls_fingerprint to it', advice)

    @ddt.data(requests.ConnectionError('refused'), OSError(2, 'no'),
              wrapped(ssl.SSLError(1, 'WRONG_VERSION_NUMBER')))
    def test_other_errors(self, error):
        self.assertIsNone(tls.problem(error))


class CausesTest(unittest.TestCase):

    REFUSED = ConnectionRefusedError(111, 'Connection refused')

    def test_reason_attribute(self):
        error = wrapped(self.REFUSED)
        self.assertEqual('Connection refused', tls.innermost(error))
        self.assertTrue(tls.caused_by(error, (ConnectionRefusedError,)))
        self.assertTrue(tls.caused_by(error, (ValueError, requests.Timeout,
                                              OSError)))
        self.assertFalse(tls.caused_by(error, (ValueError,)))

    def test_exception_argument(self):
        error = requests.ConnectionError('x', OSError(self.REFUSED))
        self.assertEqual('Connection refused', tls.innermost(error))

    def test_cause_and_context(self):
        for kind in ('__cause__', '__context__'):
            error = OSError('no')
            setattr(error, kind, self.REFUSED)
            self.assertEqual('Connection refused', tls.innermost(error))
            self.assertTrue(tls.caused_by(error, (ConnectionRefusedError,)))

    def test_error_without_strerror(self):
        self.assertEqual('inner', tls.innermost(
            ValueError('outer', ValueError('inner'))))

    def test_name_of_an_error_under_eventlet(self):
        self.assertEqual('Connection refused', tls.innermost(
            wrapped(ConnectionRefusedError(111, 'ECONNREFUSED'))))

    def test_innermost_strerror_wins(self):
        error = OSError(1, 'outer')
        error.__cause__ = OSError(2, 'inner')
        self.assertEqual('inner', tls.innermost(error))

    def test_cyclic_causes(self):
        error = OSError('no')
        error.__context__ = ValueError(error)
        self.assertEqual(str(error.__context__), tls.innermost(error))
