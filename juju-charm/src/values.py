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

"""What a single value may be: each function reads one kind.

They take a text, as an operator wrote it, and return it as the driver wants
it. What they refuse they refuse with the rule, as a request.
"""

import ipaddress
import re
import ssl

import oslo

STRATEGIES = ('thin', 'view', 'copy')
_TRUE = ('true', 'yes', 'on', '1')
_FALSE = ('false', 'no', 'off', '0')
_PROTOCOLS = {'iscsi': 'iSCSI', 'fc': 'FC', 'fibrechannel': 'FC'}
_LABEL = re.compile(r'[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?')
_CERTIFICATE = re.compile(
    r'-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+'
    r'-----END CERTIFICATE-----')
_OWN_ID = 'default'


class Wrong(ValueError):
    """A value is not what it must be; the message is the rule."""


def text(given: str) -> str:
    """Read a text that can stand in cinder.conf.

    :raises Wrong: it cannot
    """
    try:
        oslo.value(given)
    except oslo.Refused as error:
        raise Wrong(str(error)) from None
    return given


def boolean(given: str) -> str:
    """Read True or False, in the words that YAML and Cinder know.

    :raises Wrong: it is neither
    """
    word = given.strip().lower()
    if word not in _TRUE + _FALSE:
        raise Wrong('use true or false')
    return str(word in _TRUE)


def whole(given: str) -> str:
    """Read a whole number of at least 0.

    :raises Wrong: it is none
    """
    if not re.fullmatch('[0-9]{1,9}', given.strip()):
        raise Wrong('use a whole number of at least 0')
    return str(int(given))


def no_path_retry(given: str) -> str:
    """Read what happens to requests when the last path is gone.

    :raises Wrong: multipath-tools does not know it
    """
    word = given.strip().lower()
    if word in ('fail', 'queue'):
        return word
    if not re.fullmatch('[1-9][0-9]{0,5}', word):
        raise Wrong('use fail, queue, or a number of at least 1')
    return word


def sessions(given: str) -> str:
    """Read a number of iSCSI sessions.

    :raises Wrong: it is none
    """
    if not re.fullmatch('[0-9]{1,2}', given) or not 0 < int(given) < 33:
        raise Wrong('use 1 to 32')
    return str(int(given))


def port(given: str) -> str:
    """Read the number of a port.

    :raises Wrong: it is none
    """
    if not re.fullmatch('[0-9]{1,5}', given) or not 0 < int(given) < 65536:
        raise Wrong('use 1 to 65535')
    return str(int(given))


def percentage(given: str) -> str:
    """Read a percentage.

    :raises Wrong: it is none
    """
    if not re.fullmatch('[0-9]{1,3}', given) or int(given) > 100:
        raise Wrong('use 0 to 100')
    return str(int(given))


def ratio(given: str) -> str:
    """Read an over-subscription ratio: a number, or auto.

    :raises Wrong: it is neither, or below 1: no volume would fit then
    """
    word = given.strip().lower()
    if word == 'auto':
        return word
    if not re.fullmatch(r'[0-9]{1,9}(\.[0-9]{1,9})?', word) or float(word) < 1:
        raise Wrong('use auto, or a number of at least 1')
    return word


def rpo(given: str) -> str:
    """Read the seconds between two copies.

    :raises Wrong: the array cannot do that
    """
    if not re.fullmatch('[0-9]{1,9}', given) or not _is_rpo(int(given)):
        raise Wrong('use 60 or a multiple of 300')
    return str(int(given))


def _is_rpo(seconds: int) -> bool:
    return seconds == 60 or seconds > 0 and seconds % 300 == 0


def protocol(given: str) -> str:
    """Read iSCSI or FC, as the charm of old and people write them.

    :raises Wrong: it is neither
    """
    word = re.sub('[ _-]', '', given.lower())
    if word not in _PROTOCOLS:
        raise Wrong('use iscsi or fc')
    return _PROTOCOLS[word]


def address(given: str) -> str:
    """Read a management address: name or IP address, perhaps with a port.

    :raises Wrong: it is none
    """
    match = (re.fullmatch(r'\[([^\[\]]*:[^\[\]]*)\](?::([0-9]+))?', given)
             or re.fullmatch(r'([^:]+)(?::([0-9]+))?', given))
    host, number = match.groups() if match else (given, None)
    if not _is_host(host):
        raise Wrong('use a name or an address, with no scheme and no path, '
                    'such as k2.example.com, 10.1.2.3 or [fd00::1]:8443')
    if number is not None:
        port(number)
    return given


def _is_host(host: str) -> bool:
    if ':' in host or re.fullmatch('[0-9]+', host.rpartition('.')[2]):
        # A zone, as in fe80::1%eth0, cannot stand in a URL.
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
    """Read networks, separated by commas or blanks.

    :raises Wrong: one of them is none
    """
    networks = []
    for word in re.split(r'[,\s]+', given.strip(', \t\n')):
        try:
            networks.append(str(ipaddress.ip_network(word)))
        except ValueError as error:
            raise Wrong(f'{error}; use networks such as 10.20.0.0/24, '
                        'separated by commas') from None
    return ','.join(networks)


def strategies(given: str) -> str:
    """Read ways to make a clone, in order, separated by commas.

    :raises Wrong: one is unknown or there twice
    """
    words = [word.strip().lower() for word in given.split(',')]
    if len(set(words)) < len(words) or set(words) - set(STRATEGIES):
        raise Wrong(f'use {", ".join(STRATEGIES)}, each at most once')
    return ','.join(words)


def fingerprint(given: str) -> str:
    """Read the SHA-256 of a certificate.

    :raises Wrong: it is none
    """
    digits = re.sub(r'[:\s-]', '', given).lower()
    if not re.fullmatch('[0-9a-f]{64}', digits):
        raise Wrong('use 64 hexadecimal digits, as openssl x509 -noout '
                    '-fingerprint -sha256 prints them')
    return digits


def certificates(given: str) -> str:
    """Read certificates in PEM format, and nothing else beside them.

    :raises Wrong: they are none, one is damaged, or a private key is among
        them
    """
    pem = given.strip()
    if not pem or _CERTIFICATE.sub('', pem).strip():
        raise Wrong('use certificates in PEM format and nothing else, from '
                    '-----BEGIN CERTIFICATE----- to the end')
    try:
        # As the driver does, which does not start with one that is damaged.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
            cadata=pem)
    except (ssl.SSLError, TypeError):
        raise Wrong('a certificate is damaged or not there as a whole; copy '
                    'it again') from None
    return pem + '\n'


def pool(given: str) -> str:
    """Read a volume_backend_name, which is also the name of the pool.

    :raises Wrong: Cinder would not find it again in the host of a volume
    """
    if '#' in given or '@' in given:
        raise Wrong('use no # and no @')
    return text(given)


def backend_id(given: str) -> str:
    """Read what Cinder is to call an array that is replicated to.

    :raises Wrong: it cannot be that
    """
    if given.lower() == _OWN_ID:
        raise Wrong('Cinder calls the array of san_ip so; choose another one')
    return plain_name(given)


def plain_name(given: str) -> str:
    """Read a name that needs no escaping anywhere.

    :raises Wrong: it is none
    """
    if not re.fullmatch('[A-Za-z0-9][A-Za-z0-9._-]{0,99}', given):
        raise Wrong('use at most 100 letters, digits, dots, dashes and '
                    'underscores, the first one a letter or digit')
    return given


def secret_id(given: str) -> str:
    """Read the id of a Juju secret.

    :raises Wrong: it is none
    """
    if not re.fullmatch('secret:[A-Za-z0-9/-]+', given):
        raise Wrong('use the id of a Juju secret, secret:..., as juju '
                    'add-secret prints it')
    return given


def lock_server(given: str) -> str:
    """Read the address of a lock server, as tooz has it.

    :raises Wrong: it is none
    """
    if not re.fullmatch(r'[a-z][a-z0-9+.-]*://\S+', given):
        raise Wrong('use an address such as etcd3+http://10.1.2.10:2379')
    return text(given)


def apt_source(given: str) -> str:
    """Read where apt finds the driver.

    :raises Wrong: it is no PPA, no line of one archive and not "distro"
    """
    if not re.fullmatch(r'distro|ppa:[a-z0-9.+-]+/[a-z0-9.+-]+'
                        r'|deb https?://[^\s\[\]]+ \S+( \S+)*', given):
        raise Wrong('use ppa:OWNER/NAME, "deb URL SUITE COMPONENT" without '
                    'options in brackets, or distro')
    return given


def public_key(given: str) -> str:
    """Read an OpenPGP public key in ASCII armour.

    :raises Wrong: it is none
    """
    key = given.strip()
    if not (key.startswith('-----BEGIN PGP PUBLIC KEY BLOCK-----')
            and key.endswith('-----END PGP PUBLIC KEY BLOCK-----')):
        raise Wrong('use a public key as gpg --armor --export prints it')
    return key + '\n'
