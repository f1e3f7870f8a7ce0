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

"""A certificate authority of the array's own, and certificates from it."""

from collections.abc import Iterator
import dataclasses
import datetime
import hashlib
import ipaddress
import os
import pathlib
import ssl

from cryptography import exceptions
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from cryptography.x509 import oid

_AUTHORITY_DAYS = 3650
_DAYS = 825
# Certificates that expire sooner are renewed at the next start.
_MARGIN = datetime.timedelta(days=30)
_LOCAL = ('localhost', '127.0.0.1', '::1')
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclasses.dataclass(frozen=True)
class Authority:
    """A certificate authority: the files of its certificate and key."""

    path: pathlib.Path
    key_path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A server's certificate, its key, and who issued it.

    renewals: messages on what has just been renewed, and why.
    """

    path: pathlib.Path
    key_path: pathlib.Path
    authority_path: pathlib.Path
    renewals: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, hex pairs with colons."""
        der = ssl.PEM_cert_to_DER_cert(self.path.read_text())
        return hashlib.sha256(der).digest().hex(':').upper()


def make_authority(directory: str | os.PathLike[str],
                   name: str = 'k2-sim', *,
                   start: datetime.datetime | None = None,
                   days: int = _AUTHORITY_DAYS) -> Authority:
    """Make an authority in ca.crt and ca.key of a directory.

    start and days: as for issue(). Raises OSError if the files cannot be
    written.
    """
    authority = Authority(pathlib.Path(directory, 'ca.crt'),
                          pathlib.Path(directory, 'ca.key'))
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(authority.key_path, key)
    _self_sign(authority, key, _name(f'{name} certificate authority'),
               start or _yesterday(), days)
    return authority


def _self_sign(authority: Authority, key: _Key, subject: x509.Name,
               start: datetime.datetime, days: int) -> None:
    builder = _builder(subject, subject, key.public_key(), start, days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    _write(authority.path, builder.sign(key, hashes.SHA256()))


def issue(authority: Authority, hosts: tuple[str, ...],
          directory: str | os.PathLike[str], *,
          start: datetime.datetime | None = None,
          days: int = _DAYS) -> Certificate:
    """Issue a certificate into server.crt and server.key of a directory.

    hosts: names and addresses besides those of the local machine. start: the
    beginning of its validity (yesterday if None); days: how long it is valid;
    with both, an expired one can be issued. Raises OSError, and ValueError
    for files of the authority that cannot be used.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_key = _read_key(authority.key_path)
    issuer = _read(authority.path)
    builder = _builder(
        _name(hosts[0] if hosts else 'localhost'), issuer.subject,
        key.public_key(), start or _yesterday(), days)
    builder = _for_server(builder, issuer, hosts)
    certificate = Certificate(
        pathlib.Path(directory, 'server.crt'),
        pathlib.Path(directory, 'server.key'), authority.path)
    _write_key(certificate.key_path, key)
    _write(certificate.path, builder.sign(issuer_key, hashes.SHA256()))
    return certificate


def ensure(directory: str | os.PathLike[str],
           hosts: tuple[str, ...]) -> Certificate:
    """The certificate in a directory, made or renewed if needed.

    The authority's key stays the same as long as its files do, so clients
    need a new CA certificate only when that one expires. Raises OSError, and
    ValueError for files that cannot be used.
    """
    authority = Authority(pathlib.Path(directory, 'ca.crt'),
                          pathlib.Path(directory, 'ca.key'))
    if not authority.path.exists():
        make_authority(directory)
    found = Certificate(pathlib.Path(directory, 'server.crt'),
                        pathlib.Path(directory, 'server.key'),
                        authority.path)
    return dataclasses.replace(found, renewals=(
        *_renew_authority(authority), *_renew(found, authority, hosts)))


def _renew_authority(authority: Authority) -> Iterator[str]:
    """Renew the authority's certificate if needed; yields messages.

    The key stays the same: certificates that it issued remain valid.
    """
    ending = _ending(_read(authority.path))
    if ending and not authority.key_path.exists():
        yield _not_renewed(authority.path, ending, authority)
    elif ending:
        _check_authority(authority)
        _self_sign(authority, _read_key(authority.key_path),
                   _read(authority.path).subject, _yesterday(),
                   _AUTHORITY_DAYS)
        yield (f'{authority.path.name} renewed, the old one {ending}: give'
               f' clients the new {authority.path}')


def _renew(found: Certificate, authority: Authority, hosts: tuple[str, ...]
           ) -> Iterator[str]:
    """Issue or renew the certificate if needed; yields messages."""
    is_new = not found.path.exists()
    flaw = 'is missing' if is_new else _flaw(found, authority, hosts)
    ending = '' if is_new else _ending(_read(found.path))
    if ending and not flaw and not authority.key_path.exists():
        yield _not_renewed(found.path, ending, authority)
    elif flaw or ending:
        _check_authority(authority)
        issue(authority, hosts, found.path.parent)
        if not is_new:
            yield (f'{found.path.name} renewed, the old one'
                   f' {flaw or ending}')


def _not_renewed(path: pathlib.Path, ending: str, authority: Authority
                 ) -> str:
    return (f'{path.name} {ending}; without {authority.key_path.name} it is'
            ' not renewed here')


def _check_authority(authority: Authority) -> None:
    """Raise ValueError for an authority that cannot issue anything."""
    if not authority.key_path.exists():
        raise ValueError(
            f'{authority.key_path.name} is missing; put it there, or remove'
            f' {authority.path.name} so that another authority is made')
    if not _fits(_read_key(authority.key_path), _read(authority.path)):
        raise ValueError(
            f'{authority.key_path.name} is not the key of'
            f' {authority.path.name}; put the right one there, or remove'
            ' both so that another authority is made')


def _flaw(found: Certificate, authority: Authority,
          hosts: tuple[str, ...]) -> str:
    """Why a certificate cannot be used, apart from its dates, or ''."""
    if not found.key_path.exists():
        return 'has no key'
    certificate = _read(found.path)
    try:
        certificate.verify_directly_issued_by(_read(authority.path))
    except (ValueError, TypeError, exceptions.InvalidSignature):
        return f'was not issued by {authority.path.name}'
    if not _fits(_read_key(found.key_path), certificate):
        return f'is not for the key in {found.key_path.name}'
    names = _names_in(certificate)
    missing = [name.value for name in _alternatives(hosts)
               if name not in names]
    return f'is not for {missing[0]}' if missing else ''


def _names_in(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _ending(certificate: x509.Certificate) -> str:
    """When a certificate begins or ends, if it must be renewed, or ''."""
    begin = certificate.not_valid_before_utc
    end = certificate.not_valid_after_utc
    if begin > _now():
        return f'begins on {begin:%Y-%m-%d}'
    return f'ends on {end:%Y-%m-%d}' if end - _now() < _MARGIN else ''


def _fits(key: _Key, certificate: x509.Certificate) -> bool:
    return key.public_key() == certificate.public_key()


def _read(path: pathlib.Path) -> x509.Certificate:
    """A certificate; raises OSError, and ValueError for anything else."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as exc:
        raise ValueError(
            f'{path.name} is unreadable, remove it: {exc}') from exc


def _read_key(path: pathlib.Path) -> _Key:
    """A private key of type RSA or EC; raises the errors of _read()."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm) as exc:
        raise ValueError(
            f'{path.name} is unreadable, remove it: {exc}') from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f'{path.name} is a key of another kind than RSA or'
                         ' EC, remove it')
    return key


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _yesterday() -> datetime.datetime:
    return _now() - datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(
        oid.NameOID.COMMON_NAME, text[:64])])


def _builder(subject: x509.Name, issuer: x509.Name,
             key: _PublicKey, start: datetime.datetime,
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
        return x509.IPAddress(ipaddress.ip_address(host.partition('%')[0]))
    except ValueError:
        return x509.DNSName(host)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority,
        encipher_only=False, decipher_only=False)


def _write_key(path: pathlib.Path, key: _Key) -> None:
    """Write a private key that only its owner can read."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption())
    _replace(path, text, 0o600)


def _write(path: pathlib.Path, certificate: x509.Certificate) -> None:
    _replace(path, certificate.public_bytes(serialization.Encoding.PEM),
             0o644)


def _replace(path: pathlib.Path, text: bytes, mode: int) -> None:
    """Replace a file atomically."""
    new = path.with_name(f'{path.name}.new')
    new.unlink(missing_ok=True)
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(number, 'wb') as file:
        file.write(text)
    new.replace(path)
