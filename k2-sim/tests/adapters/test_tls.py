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

"""Certificates that expire, or do not match."""

import datetime
import pathlib
import ssl

from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives import serialization
from cryptography import x509
import fixtures

from k2_sim.adapters import tls
from tests import base


def _ago(days):
    now = datetime.datetime.now(datetime.timezone.utc)
    return now - datetime.timedelta(days)


class CertificatesTest(base.DirectoryTest):

    def ensure(self, *hosts):
        return tls.ensure(self.directory, hosts)

    def read(self, name):
        return x509.load_pem_x509_certificate(
            (self.directory / name).read_bytes())

    def take(self, other, name):
        """Replace our file by one of another directory."""
        (self.directory / name).write_bytes((other / name).read_bytes())

    def other(self):
        """Another directory with all files."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        tls.ensure(directory, ())
        return directory

    def refused(self, text):
        before = {path.name: path.read_bytes()
                  for path in self.directory.iterdir()}
        error = self.assertRaises(ValueError, self.ensure)
        self.assertIn(text, str(error))
        self.assertEqual(before, {path.name: path.read_bytes()
                                  for path in self.directory.iterdir()})


class TestRenewal(CertificatesTest):

    def test_nothing_to_tell(self):
        self.assertEqual((), self.ensure().renewals)
        self.assertEqual((), self.ensure().renewals)

    def test_one_that_ends_soon(self):
        """Not only an expired one: a service runs for long."""
        authority = tls.make_authority(self.directory)
        for start, days in ((40, 30), (10, 39)):
            tls.issue(authority, (), self.directory, start=_ago(start),
                      days=days)
            end = _ago(start - days)
            found = self.ensure()
            self.assertEqual((
                'server.crt renewed, the old one ends on'
                f' {end:%Y-%m-%d}',), found.renewals)
            self.assertGreater(
                self.read('server.crt').not_valid_after_utc, _ago(-800))
            self.assertEqual((), self.ensure().renewals)
        tls.issue(authority, (), self.directory, start=_ago(10), days=41)
        self.assertEqual((), self.ensure().renewals)

    def test_an_authority_that_ends(self):
        """It keeps name and key: the certificates it issued stay valid."""
        for start, days in ((40, 30), (10, 39)):
            authority = tls.make_authority(
                self.directory, start=_ago(start), days=days)
            certificate = tls.issue(authority, (), self.directory)
            fingerprint, old = certificate.fingerprint, self.read('ca.crt')
            key = authority.key_path.read_bytes()
            found = self.ensure()
            self.assertEqual((
                'ca.crt renewed, the old one ends on'
                f' {_ago(start - days):%Y-%m-%d}: give clients the new'
                f' {authority.path}',), found.renewals)
            new = self.read('ca.crt')
            self.assertGreater(new.not_valid_after_utc, _ago(-3600))
            self.assertEqual(old.subject, new.subject)
            self.assertEqual(key, authority.key_path.read_bytes())
            self.assertEqual(fingerprint, found.fingerprint)
            for issuer in (old, new):
                self.read('server.crt').verify_directly_issued_by(issuer)

    def test_one_that_has_not_begun(self):
        """As when the machine's clock was set back."""
        tls.issue(tls.make_authority(self.directory), (), self.directory,
                  start=_ago(-5))
        self.assertIn('the old one begins on', self.ensure().renewals[0])

    def test_other_names(self):
        self.ensure()
        self.assertEqual(
            ('server.crt renewed, the old one is not for k2.example',),
            self.ensure('k2.example').renewals)
        self.assertEqual((), self.ensure('k2.example').renewals)

    def test_an_address_with_a_zone(self):
        self.ensure('fe80::1%eth0')
        self.assertEqual((), self.ensure('fe80::1%eth0').renewals)

    def assert_fits(self, certificate):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate.path, certificate.key_path)

    def test_a_key_that_does_not_fit(self):
        """Also what a start leaves behind that was killed in between."""
        self.ensure()
        self.take(self.other(), 'server.key')
        found = self.ensure()
        self.assertEqual(('server.crt renewed, the old one is not for the key'
                          ' in server.key',), found.renewals)
        self.assert_fits(found)

    def test_a_key_that_is_missing(self):
        self.ensure()
        (self.directory / 'server.key').unlink()
        found = self.ensure()
        self.assertEqual(('server.crt renewed, the old one has no key',),
                         found.renewals)
        self.assert_fits(found)

    def test_one_without_names(self):
        """Browsers do not accept it."""
        self.ensure()
        for kind in ('crt', 'key'):
            (self.directory / f'server.{kind}').write_bytes(
                (self.directory / f'ca.{kind}').read_bytes())
        self.assertEqual(('server.crt renewed, the old one is not for'
                          ' localhost',), self.ensure().renewals)

    def test_one_of_another_authority(self):
        self.ensure()
        for name in ('ca.crt', 'ca.key'):
            self.take(self.other(), name)
        (self.directory / 'ca.crt').unlink()
        self.assertEqual(('server.crt renewed, the old one was not issued by'
                          ' ca.crt',), self.ensure().renewals)


class TestOfOthers(CertificatesTest):
    """An authority whose key is stored elsewhere."""

    def test_used_as_it_is(self):
        first = self.ensure().fingerprint
        (self.directory / 'ca.key').unlink()
        found = self.ensure()
        self.assertEqual((first, ()), (found.fingerprint, found.renewals))

    def test_ends(self):
        authority = tls.make_authority(self.directory, start=_ago(9), days=30)
        tls.issue(authority, (), self.directory, start=_ago(9), days=20)
        authority.key_path.unlink()
        self.assertEqual((
            f'ca.crt ends on {_ago(-21):%Y-%m-%d}; without ca.key it is not'
            ' renewed here',
            f'server.crt ends on {_ago(-11):%Y-%m-%d}; without ca.key it is'
            ' not renewed here'), self.ensure().renewals)

    def test_cannot_issue(self):
        self.ensure()
        (self.directory / 'ca.key').unlink()
        (self.directory / 'server.crt').unlink()
        self.refused('ca.key is missing; put it there, or remove ca.crt so'
                     ' that another authority is made')

    def test_wrong_key(self):
        self.ensure()
        self.take(self.other(), 'ca.key')
        (self.directory / 'server.crt').unlink()
        self.refused('ca.key is not the key of ca.crt; put the right one'
                     ' there, or remove both so that another authority is'
                     ' made')


class TestUnreadable(CertificatesTest):

    def test_no_certificate(self):
        for name in ('server.crt', 'ca.crt'):
            self.ensure()
            (self.directory / name).write_text('x')
            self.refused(f'{name} is unreadable, remove it: ')
            (self.directory / name).unlink()

    def test_no_key(self):
        self.ensure()
        key = serialization.load_pem_private_key(
            (self.directory / 'server.key').read_bytes(), None)
        other = ed25519.Ed25519PrivateKey.generate()
        for content, text in (
                (b'x', 'unreadable, remove it'),
                (_pem(key, serialization.BestAvailableEncryption(b'geheim')),
                 'unreadable, remove it'),
                (_pem(other, serialization.NoEncryption()),
                 'a key of another kind than RSA or EC, remove it')):
            (self.directory / 'server.key').write_bytes(content)
            self.refused(text)


def _pem(key, encryption):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        encryption)
