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

"""An own certificate authority, and certificates of the array from it."""

import dataclasses
import datetime
import hashlib
import ipaddress
import os
import pathlib
import ssl

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from cryptography.x509 import oid

_AUTHORITY_DAYS = 3650
_DAYS = 825
_LOCAL = ('localhost', '127.0.0.1', '::1')


@dataclasses.dataclass(frozen=True)
class Authority:
    """A certificate authority: the files of its certificate and key."""

    path: pathlib.Path
    key_path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A server's certificate, its key, and who issued it."""

    path: pathlib.Path
    key_path: pathlib.Path
    authority_path: pathlib.Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, hex pairs with colons."""
        der = ssl.PEM_cert_to_DER_cert(self.path.read_text())
        return hashlib.sha256(der).digest().hex(':').upper()

    def server_context(self) -> ssl.SSLContext:
        """What a server needs to show this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, self.key_path)
        return context


def make_authority(directory: str | os.PathLike[str],
                   name: str = 'k2-sim') -> Authority:
    """Make an authority in ca.crt and ca.key of a directory.

    Raises OSError if they cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f'{name} certificate authority')
    start = _now() - datetime.timedelta(days=1)
    builder = _builder(subject, subject, key.public_key(), start,
                       _AUTHORITY_DAYS)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    authority = Authority(pathlib.Path(directory, 'ca.crt'),
                          pathlib.Path(directory, 'ca.key'))
    _write_key(authority.key_path, key)
    _write(authority.path, builder.sign(key, hashes.SHA256()))
    return authority


def issue(authority: Authority, hosts: tuple[str, ...],
          directory: str | os.PathLike[str], *,
          start: datetime.datetime | None = None,
          days: int = _DAYS) -> Certificate:
    """Issue a certificate into server.crt and server.key of a directory.

    hosts: names and addresses besides those of the local machine. start:
    the beginning of its time (yesterday if None), days: its length; both
    make an expired one possible. Raises OSError.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = serialization.load_pem_private_key(
        authority.key_path.read_bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority.path.read_bytes())
    builder = _builder(
        _name(hosts[0] if hosts else 'localhost'), issuer.subject,
        key.public_key(), start or _now() - datetime.timedelta(days=1), days)
    builder = _for_server(builder, issuer, hosts)
    certificate = Certificate(
        pathlib.Path(directory, 'server.crt'),
        pathlib.Path(directory, 'server.key'), authority.path)
    _write_key(certificate.key_path, key)
    _write(certificate.path,
           builder.sign(issuer_key, hashes.SHA256()))  # type: ignore
    return certificate


def ensure(directory: str | os.PathLike[str],
           hosts: tuple[str, ...]) -> Certificate:
    """The certificate in a directory, made or renewed where needed.

    The authority stays the same as long as its files do, so that clients
    need not be told again. Raises OSError, and ValueError for files that
    are no certificates.
    """
    authority = Authority(pathlib.Path(directory, 'ca.crt'),
                          pathlib.Path(directory, 'ca.key'))
    if not authority.path.exists() or not authority.key_path.exists():
        authority = make_authority(directory)
    found = Certificate(pathlib.Path(directory, 'server.crt'),
                        pathlib.Path(directory, 'server.key'),
                        authority.path)
    if _serves(found, authority, hosts):
        return found
    return issue(authority, hosts, directory)


def _serves(found: Certificate, authority: Authority,
            hosts: tuple[str, ...]) -> bool:
    """Whether a certificate is there, ours, for these hosts, and lasts."""
    if not found.path.exists() or not found.key_path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(found.path.read_bytes())
    issuer = x509.load_pem_x509_certificate(authority.path.read_bytes())
    names = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName).value
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:
        return False
    left = certificate.not_valid_after_utc - _now()
    return (left > datetime.timedelta(days=1)
            and all(name in list(names) for name in _alternatives(hosts)))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(
        oid.NameOID.COMMON_NAME, text[:64])])


def _builder(subject: x509.Name, issuer: x509.Name,
             key: ec.EllipticCurvePublicKey, start: datetime.datetime,
             days: int) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), start,
        start + datetime.timedelta(days=days))
    return builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _for_server(builder: x509.CertificateBuilder, issuer: x509.Certificate,
                hosts: tuple[str, ...]) -> x509.CertificateBuilder:
    key = issuer.extensions.get_extension_for_class(
        x509.SubjectKeyIdentifier).value
    authority = x509.AuthorityKeyIdentifier
    builder = builder.add_extension(
        authority.from_issuer_subject_key_identifier(key), critical=False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]),
        critical=False)
    return builder.add_extension(
        x509.SubjectAlternativeName(_alternatives(hosts)), critical=False)


def _alternatives(hosts: tuple[str, ...]) -> list[x509.GeneralName]:
    return [_alternative(host) for host in dict.fromkeys((*_LOCAL, *hosts))]


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority,
        encipher_only=False, decipher_only=False)


def _write_key(path: pathlib.Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that only its owner can read."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption())
    path.unlink(missing_ok=True)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, 'wb') as file:
        file.write(text)


def _write(path: pathlib.Path, certificate: x509.Certificate) -> None:
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM))
