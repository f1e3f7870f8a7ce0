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

"""TLS trust: verification, CA path, pinned certificate (CON-4)."""

import errno
import os
import re
import ssl
import warnings

import urllib3.exceptions

from cinder_k2.rest import errors

# X509_V_ERR_*: the error of OpenSSL, and the remedy.
_EXPIRED = 'renew the certificate of the array, or set the clocks'
_UNKNOWN_ISSUER = (
    'set driver_ssl_cert_path to the certificate authority of the array (a '
    'directory needs openssl rehash), or pin the certificate with '
    'k2_tls_fingerprint')
_OTHER_NAME = 'set san_ip to a name or address that the certificate has'
_HINTS = {9: _EXPIRED, 10: _EXPIRED, 18: _UNKNOWN_ISSUER,
          19: _UNKNOWN_ISSUER, 20: _UNKNOWN_ISSUER, 21: _UNKNOWN_ISSUER,
          62: _OTHER_NAME, 64: _OTHER_NAME}


def normal_fingerprint(text: str | None) -> str | None:
    """A SHA-256 fingerprint as 64 lower-case hex digits; None for none.

    :raises errors.InvalidSettings: not 64 hex digits with colons, blanks and
        dashes between them
    """
    if text is None or not text.strip():
        return None
    digits = re.sub(r'[:\s-]', '', text).lower()
    if not re.fullmatch('[0-9a-f]{64}', digits):
        raise errors.InvalidSettings(
            'k2_tls_fingerprint must be the SHA-256 of the certificate, 64 '
            'hex digits (openssl x509 -noout -fingerprint -sha256)')
    return digits


def check_authority(path: str) -> None:
    """Check that ``path`` can be used to verify certificates.

    A directory is not checked: OpenSSL reads it only when it verifies a
    certificate.

    :raises errors.InvalidSettings: it cannot be read, or has no certificates
    """
    if os.path.isdir(path):
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise errors.InvalidSettings(
            f'driver_ssl_cert_path {path!r} holds no certificates: '
            f'{error.strerror or error}') from error
    except OSError as error:
        raise errors.InvalidSettings(
            f'driver_ssl_cert_path {path!r} cannot be read by the user of '
            f'cinder-volume: {error.strerror or error}') from error


def hush(host: str) -> None:
    """Suppress urllib3's warnings that ``host`` is unverified.

    The operator chose this, and the driver warns once; calls of other code to
    other hosts still warn.
    """
    warnings.filterwarnings(
        'ignore', category=urllib3.exceptions.InsecureRequestWarning,
        message=f"Unverified HTTPS request .* host '{re.escape(host)}'")


def problem(error: BaseException) -> tuple[str, str] | None:
    """Message and hint if ``error`` is about the array's certificate."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (f'its certificate is not trusted: {cause.verify_message}',
                    _HINTS.get(cause.verify_code,
                               errors.CertificateError.hint))
        # urllib3 1.26 compares the names itself. Each of its versions has the
        # class in another module.
        if type(cause).__name__ == 'CertificateError':
            return f'its certificate is not trusted: {cause}', _OTHER_NAME
        if getattr(cause, 'library', None) == 'X509':
            return (f'driver_ssl_cert_path cannot be used: {cause.args[-1]}',
                    errors.CertificateError.hint)
        if 'Fingerprints did not match' in str(cause.args[:1]):
            return _wrong_pin(cause)
    return None


def _wrong_pin(cause: BaseException) -> tuple[str, str]:
    found = re.search('got "([0-9a-f]+)"', str(cause))
    return (f'its certificate has the SHA-256 {found[1] if found else "?"}, '
            'not the one of k2_tls_fingerprint',
            'if the array got a new certificate, set k2_tls_fingerprint to '
            'it; if not, the connection may be intercepted')


def caused_by(error: BaseException,
              kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether one of ``kinds`` is ``error`` or wrapped in it."""
    return any(isinstance(cause, kinds) for cause in _causes(error))


def innermost(error: BaseException) -> str:
    """The innermost reason of a failed connection."""
    for cause in reversed(_causes(error)):
        if isinstance(cause, OSError) and cause.strerror:
            # Under eventlet a refused connection is just ECONNREFUSED.
            if errno.errorcode.get(cause.errno or 0) == cause.strerror:
                return os.strerror(cause.errno or 0)
            return cause.strerror
    return str(_causes(error)[-1])


def _causes(error: BaseException) -> list[BaseException]:
    """``error`` and all errors wrapped in it, the innermost last."""
    found = []
    queue: list[object] = [error]
    while queue:
        cause = queue.pop(0)
        if isinstance(cause, BaseException) and cause not in found:
            found.append(cause)
            queue += [*cause.args, getattr(cause, 'reason', None),
                      cause.__cause__, cause.__context__]
    return found
