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

"""The management address of an array, in every form an operator types."""

import dataclasses
import ipaddress
import re

from cinder_k2.rest import errors

HTTPS_PORT = 443
_LABEL = re.compile(r'[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?')


@dataclasses.dataclass(frozen=True)
class Address:
    """The address of the REST service of an array.

    ``host`` is a name in lower case or an IP address in its shortest form,
    never in brackets.
    """

    host: str
    port: int = HTTPS_PORT

    def __str__(self) -> str:
        host = f'[{self.host}]' if ':' in self.host else self.host
        return host if self.port == HTTPS_PORT else f'{host}:{self.port}'


def parse(text: str, port: int | None = None) -> Address:
    """Read ``san_ip``: a name, IPv4 or IPv6 address, perhaps with a port.

    An IPv6 address with a port needs brackets, ``[fd00::1]:8443``; without a
    port they may be left out. ``port`` is the value of san_api_port.

    :raises errors.InvalidSettings: the text has another form, the port is out
        of range, or san_ip and san_api_port differ in it
    """
    host, own = _split(text.strip())
    if port is not None and own is not None and port != own:
        raise errors.InvalidSettings(
            f'san_ip {text!r} names port {own} and san_api_port is {port}; '
            'set one of them')
    chosen = own if port is None else port
    return Address(_host(host, text),
                   HTTPS_PORT if chosen is None else _port(chosen, text))


def _split(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r'\[([^\[\]]*)\](?::([0-9]{1,5}))?', text)
    if match and ':' in match[1]:
        return match[1], int(match[2]) if match[2] else None
    if text.count(':') == 1:
        host, _, digits = text.partition(':')
        if not re.fullmatch('[0-9]{1,5}', digits):
            raise _refuse(text)
        return host, int(digits)
    return text, None


def _port(port: int, text: str) -> int:
    if not 0 < port < 65536:
        raise errors.InvalidSettings(
            f'the port of san_ip {text!r} must be 1 to 65535, not {port}')
    return port


def _host(host: str, text: str) -> str:
    if ':' in host or re.fullmatch(r'[0-9]+', host.rpartition('.')[2]):
        return _ip(host, text)
    labels = host.removesuffix('.').split('.')
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise _refuse(text)
    return host.lower()


def _ip(host: str, text: str) -> str:
    # A zone (fe80::1%eth0) would need an encoding of its own in a URL, and
    # no array is managed over a link-local address.
    if '%' in host:
        raise _refuse(text)
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise _refuse(text) from None


def _refuse(text: str) -> errors.InvalidSettings:
    return errors.InvalidSettings(
        f'san_ip {text!r} is no name, IPv4 or IPv6 address with or without '
        'a port (10.0.0.1, k2.example.com:8443, [fd00::1]:8443); it has no '
        'scheme and no path')
