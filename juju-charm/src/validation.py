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

"""Validation of the options.

Each function at the end reads one kind of value: it takes a string from the
operator and returns it in the form that the driver needs, or raises
``InvalidValue`` with the rule. ``Validator`` collects these errors instead of
stopping at the first one.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import ipaddress
import re
import ssl
from typing import Any

import machine as machines
import oslo
import yaml_option

STRATEGIES = ('thin', 'view', 'copy')
_TRUE = ('true', 'yes', 'on', '1')
_FALSE = ('false', 'no', 'off', '0')
_PROTOCOLS = {'iscsi': 'iSCSI', 'fc': 'FC', 'fibrechannel': 'FC'}
_LABEL = re.compile(r'[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?')
_CERTIFICATE = re.compile(
    r'-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+'
    r'-----END CERTIFICATE-----')
_OWN_ID = 'default'
_LONGEST = 40
# These may contain a password, possibly by mistake.
_NOT_SHOWN = ('san_password', 'credentials', 'replication-credentials',
              'coordination-url', 'driver-key')
_SECRETS = ('san_user', 'san_password', 'username', 'password')


class InvalidValue(ValueError):
    """A value is invalid; the message is the rule."""


@dataclasses.dataclass(frozen=True)
class GivenOptions:
    """Options before validation: strings, and in YAML also dicts and lists.

    :ivar own: options of one back end or array
    :ivar prefix: prefix of these options in messages
    :ivar shared: defaults for options that ``own`` does not have
    """

    own: Mapping[str, Any]
    prefix: str = ''
    shared: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get(self, option: str) -> Any:
        """Return the value of an option; '' if it is not set."""
        return self.own.get(option, self.shared.get(option, ''))

    def label(self, option: str) -> str:
        """Return the name of an option in messages."""
        shared = option in self.shared and option not in self.own
        return option if shared else f'{self.prefix}{option}'


class Validator:
    """Reads options, and collects errors and warnings.

    :ivar errors: one sentence for each
    :ivar warnings: settings that work but should be changed
    """

    def __init__(self) -> None:
        """Start without errors and warnings."""
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def error(self, text: str) -> None:
        """Add an error, unless it is a duplicate."""
        if text not in self.errors:
            self.errors.append(text)

    def warn(self, text: str) -> None:
        """Add a warning, unless it is a duplicate."""
        if text not in self.warnings:
            self.warnings.append(text)

    def read(self, given: GivenOptions, option: str,
             reader: Callable[[str], str]) -> str:
        """Read one option; '' if it is not set, or invalid."""
        value = given.get(option)
        label = given.label(option)
        if not isinstance(value, str):
            self.error(f'{label}: write one value after the colon')
        elif value:
            with self.collecting(label, _shown(option, value)):
                return reader(value)
        return ''

    def yaml(self, label: str, text: str) -> Any:
        """Parse an option in YAML; '' if it is invalid."""
        try:
            return yaml_option.parse(text)
        except yaml_option.InvalidYaml as error:
            self.error(f'{label}: {error}')
            return ''

    def check_names(self, given: GivenOptions, allowed: tuple[str, ...]
                    ) -> None:
        """Add an error for each option that is not allowed."""
        for option in given.own:
            if option in _SECRETS:
                self.error(f'{given.prefix}{option} is not allowed here; '
                           'use a secret: "credentials: secret:..."')
            elif option not in allowed:
                self.error(f'{given.prefix}{option} is unknown; use one of '
                           f'{", ".join(sorted(allowed))}')

    @contextlib.contextmanager
    def collecting(self, label: str, shown: str) -> Iterator[None]:
        """Turn an invalid value in the block into an error.

        :param shown: the value as shown in the message
        """
        try:
            yield
        except (InvalidValue, oslo.InvalidText) as error:
            self.error(f'{label}{shown}: {error}')


def _shown(option: str, value: str) -> str:
    """Return a value for a message: one line, shortened, without secrets."""
    if option in _NOT_SHOWN:
        return ''
    line = machines.mask_logins(' '.join(value.split()))
    if len(line) > _LONGEST:
        line = f'{line[:_LONGEST]}...'
    return f' is "{line}"'


def text(given: str) -> str:
    """Read a text for cinder.conf.

    :raises InvalidValue: cinder.conf cannot hold it
    """
    try:
        oslo.value(given)
    except oslo.InvalidText as error:
        raise InvalidValue(str(error)) from None
    return given


def boolean(given: str) -> str:
    """Read True or False, in any spelling that YAML and Cinder accept.

    :raises InvalidValue: it is neither
    """
    word = given.strip().lower()
    if word not in _TRUE + _FALSE:
        raise InvalidValue('use true or false')
    return str(word in _TRUE)


def integer(given: str) -> str:
    """Read a whole number of at least 0.

    :raises InvalidValue: it is not
    """
    if not re.fullmatch('[0-9]{1,9}', given.strip()):
        raise InvalidValue('use a whole number of at least 0')
    return str(int(given))


def no_path_retry(given: str) -> str:
    """Read no_path_retry of multipath-tools.

    :raises InvalidValue: multipath-tools does not accept it
    """
    word = given.strip().lower()
    if word in ('fail', 'queue'):
        return word
    if not re.fullmatch('[1-9][0-9]{0,5}', word):
        raise InvalidValue('use fail, queue, or a number of at least 1')
    return word


def sessions(given: str) -> str:
    """Read a number of iSCSI sessions.

    :raises InvalidValue: it is not from 1 to 32
    """
    if not re.fullmatch('[0-9]{1,2}', given) or not 0 < int(given) < 33:
        raise InvalidValue('use 1 to 32')
    return str(int(given))


def port(given: str) -> str:
    """Read a port number.

    :raises InvalidValue: it is not from 1 to 65535
    """
    if not re.fullmatch('[0-9]{1,5}', given) or not 0 < int(given) < 65536:
        raise InvalidValue('use 1 to 65535')
    return str(int(given))


def percentage(given: str) -> str:
    """Read a percentage.

    :raises InvalidValue: it is not from 0 to 100
    """
    if not re.fullmatch('[0-9]{1,3}', given) or int(given) > 100:
        raise InvalidValue('use 0 to 100')
    return str(int(given))


def ratio(given: str) -> str:
    """Read an over-subscription ratio: a number, or auto.

    :raises InvalidValue: it is neither, or below 1
    """
    word = given.strip().lower()
    if word == 'auto':
        return word
    if not re.fullmatch(r'[0-9]{1,9}(\.[0-9]{1,9})?', word) or float(word) < 1:
        raise InvalidValue('use auto, or a number of at least 1')
    return word


def rpo(given: str) -> str:
    """Read a recovery point objective in seconds.

    :raises InvalidValue: the array does not support it
    """
    if not re.fullmatch('[0-9]{1,9}', given) or not _is_rpo(int(given)):
        raise InvalidValue('use 60 or a multiple of 300')
    return str(int(given))


def _is_rpo(seconds: int) -> bool:
    return seconds == 60 or seconds > 0 and seconds % 300 == 0


def protocol(given: str) -> str:
    """Read iSCSI or FC, also in the spellings of the original charm.

    :raises InvalidValue: it is neither
    """
    word = re.sub('[ _-]', '', given.lower())
    if word not in _PROTOCOLS:
        raise InvalidValue('use iscsi or fc')
    return _PROTOCOLS[word]


def address(given: str) -> str:
    """Read a management address: name or IP address, optionally with a port.

    :raises InvalidValue: it is not
    """
    match = (re.fullmatch(r'\[([^\[\]]*:[^\[\]]*)\](?::([0-9]+))?', given)
             or re.fullmatch(r'([^:]+)(?::([0-9]+))?', given))
    host, number = match.groups() if match else (given, None)
    if not _is_host(host):
        raise InvalidValue('use a name or an address, with no scheme and no '
                           'path, such as k2.example.com, 10.1.2.3 or '
                           '[fd00::1]:8443')
    if number is not None:
        port(number)
    return given


def _is_host(host: str) -> bool:
    if ':' in host or re.fullmatch('[0-9]+', host.rpartition('.')[2]):
        # A URL cannot contain a zone, as in fe80::1%eth0.
        return '%' not in host and _is_ip(host)
    labels = host.removesuffix('.').split('.')
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels))


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def cidrs(given: str) -> str:
    """Read networks in CIDR notation, separated by commas or spaces.

    :raises InvalidValue: one of them is invalid
    """
    networks = []
    for word in re.split(r'[,\s]+', given.strip(', \t\n')):
        try:
            networks.append(str(ipaddress.ip_network(word)))
        except ValueError as error:
            raise InvalidValue(f'{error}; use networks such as 10.20.0.0/24, '
                               'separated by commas') from None
    return ','.join(networks)


def strategies(given: str) -> str:
    """Read clone strategies, in order, separated by commas.

    :raises InvalidValue: one is unknown or repeated
    """
    words = [word.strip().lower() for word in given.split(',')]
    if len(set(words)) < len(words) or set(words) - set(STRATEGIES):
        raise InvalidValue(f'use {", ".join(STRATEGIES)}, each at most once')
    return ','.join(words)


def fingerprint(given: str) -> str:
    """Read the SHA-256 fingerprint of a certificate.

    :raises InvalidValue: it is not
    """
    digits = re.sub(r'[:\s-]', '', given).lower()
    if not re.fullmatch('[0-9a-f]{64}', digits):
        raise InvalidValue('use 64 hexadecimal digits, as openssl x509 -noout '
                           '-fingerprint -sha256 prints them')
    return digits


def certificates(given: str) -> str:
    """Read certificates in PEM format, with no other text around them.

    :raises InvalidValue: there is none, one is damaged, or there is other
        text, such as a private key
    """
    pem = given.strip()
    if not pem or _CERTIFICATE.sub('', pem).strip():
        raise InvalidValue('use certificates in PEM format and nothing else, '
                           'from -----BEGIN CERTIFICATE----- to the end')
    try:
        # As in the driver, which does not start with a damaged certificate.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=pem)
    except (ssl.SSLError, TypeError):
        raise InvalidValue('a certificate is damaged or incomplete; '
                           'copy it again') from None
    return pem + '\n'


def pool(given: str) -> str:
    """Read a volume_backend_name, which is also the name of the pool.

    :raises InvalidValue: it has a separator of the host of a volume
    """
    if '#' in given or '@' in given:
        raise InvalidValue('do not use # or @')
    return text(given)


def backend_id(given: str) -> str:
    """Read the backend_id of a replication target.

    :raises InvalidValue: it is reserved or has invalid characters
    """
    if given.lower() == _OWN_ID:
        raise InvalidValue('this is reserved for the array at san_ip; '
                           'choose another one')
    return plain_name(given)


def plain_name(given: str) -> str:
    """Read a name that needs no escaping anywhere.

    :raises InvalidValue: it is too long or has other characters
    """
    if not re.fullmatch('[A-Za-z0-9][A-Za-z0-9._-]{0,99}', given):
        raise InvalidValue('use at most 100 letters, digits, dots, dashes and '
                           'underscores, the first one a letter or digit')
    return given


def secret_id(given: str) -> str:
    """Read the id of a Juju secret.

    :raises InvalidValue: it is not
    """
    if not re.fullmatch('secret:[A-Za-z0-9/-]+', given):
        raise InvalidValue('use the id of a Juju secret, secret:..., as juju '
                           'add-secret prints it')
    return given


def lock_server(given: str) -> str:
    """Read the URL of a lock server for tooz.

    :raises InvalidValue: it is not
    """
    if not re.fullmatch(r'[a-z][a-z0-9+.-]*://\S+', given):
        raise InvalidValue('use an address such as '
                           'etcd3+http://10.1.2.10:2379')
    return text(given)


def apt_source(given: str) -> str:
    """Read the apt source of the driver.

    :raises InvalidValue: it is not a PPA, a line for one archive or "distro"
    """
    if not re.fullmatch(r'distro|ppa:[a-z0-9.+-]+/[a-z0-9.+-]+'
                        r'|deb https?://[^\s\[\]]+ \S+( \S+)*', given):
        raise InvalidValue('use ppa:OWNER/NAME, "deb URL SUITE COMPONENT" '
                           'without options in brackets, or distro')
    return given


def public_key(given: str) -> str:
    """Read an OpenPGP public key in ASCII armor.

    :raises InvalidValue: it is not
    """
    key = given.strip()
    if not (key.startswith('-----BEGIN PGP PUBLIC KEY BLOCK-----')
            and key.endswith('-----END PGP PUBLIC KEY BLOCK-----')):
        raise InvalidValue('use a public key as gpg --armor --export '
                           'prints it')
    return key + '\n'
