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

"""Values of settings, from the command line and from YAML.

Each function returns the parsed value. For an invalid one it raises
ValueError, whose text says what is allowed.
"""

from collections.abc import Callable
import ipaddress
import math
import os
import pathlib
import re
from typing import Any

from k2_sim import equipment

_NAME_LIMIT = 42
_LABEL = re.compile('[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?')
_UNITS = {'GiB': 2 ** 20, 'TiB': 2 ** 30}
_LARGEST_KIB = 2 ** 50


def text(value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError('a text that is not empty')
    return value


def _written(value: object) -> str:
    """The value if it is a text, or else ''."""
    return value if isinstance(value, str) else ''


def path(value: object) -> pathlib.Path:
    """A path, which may begin with ~ or ~USER."""
    found = text(value)
    try:
        # A path that no file system can have raises ValueError.
        expanded = pathlib.Path(found).expanduser()
        if b'\0' not in os.fsencode(expanded):
            return expanded
    except (RuntimeError, ValueError):
        pass
    raise ValueError('a path, without NUL and without the ~ of a user whom'
                     ' this machine does not know')


def flag(value: object) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise ValueError('true or false')
    return value


def one_of(*allowed: str) -> Callable[[object], str]:
    """Return a reader that accepts one of the allowed words."""
    def read(value: object) -> str:
        if value not in allowed:
            raise ValueError(f'one of {", ".join(allowed)}')
        return str(value)

    return read


def whole(low: int, high: int) -> Callable[[object], int]:
    """Return a reader that accepts a whole number from low to high."""
    def read(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f'a whole number from {low} to {high}')
        return value

    return read


def natural(value: object) -> int:
    """A whole number from 0, however large."""
    number = int(value) if isinstance(value, str) and re.fullmatch(
        '[0-9]{1,19}', value) else value
    if type(number) is not int or number < 0:
        raise ValueError('a whole number from 0')
    return number


def seconds(value: object) -> float:
    """A number from 0, less than a day of seconds."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = math.nan
    if (isinstance(value, bool) or not isinstance(value, (int, float))
            or not 0 <= value < 86400):
        raise ValueError('a number from 0, below 86400')
    return float(value)


def name(value: object) -> str:
    """The name of an array (section 12)."""
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LIMIT \
            or not value.isprintable():
        raise ValueError(f'a name of 1 to {_NAME_LIMIT} characters that can'
                         ' be printed')
    return value


def login(value: object) -> str:
    """The name of an account; files are named after it."""
    if not isinstance(value, str) or not re.fullmatch(
            '[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}', value):
        raise ValueError('a login of 1 to 64 letters, digits and _.@-,'
                         ' of which the first is a letter, digit or _')
    return value


def host(value: object) -> str:
    """An IP address, or a host name as DNS has it."""
    found = text(value)
    try:
        ipaddress.ip_address(found)
    except ValueError:
        labels = found.removesuffix('.').split('.')
        if not all(map(_LABEL.fullmatch, labels)):
            raise ValueError(
                'an IP address or a host name of ASCII letters, digits and -'
                ' (other letters in their xn-- form)') from None
    return found


def tls_name(value: object) -> str:
    """A name in a certificate: a host, or *.DOMAIN for all hosts below one."""
    found = text(value)
    host(found.removeprefix('*.'))
    return found


def endpoint(value: object) -> tuple[str, int]:
    """HOST:PORT, or [HOST]:PORT for IPv6."""
    place, _, port = _written(value).rpartition(':')
    place = place.removeprefix('[').removesuffix(']')
    if not place or not re.fullmatch('[0-9]{1,5}', port) \
            or int(port) > 65535:
        raise ValueError('HOST:PORT with a port up to 65535,'
                         ' and [HOST]:PORT for IPv6')
    return host(place), int(port)


def shown(host: str, port: int) -> str:
    """HOST:PORT, or [HOST]:PORT for IPv6, of an endpoint."""
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def address(value: object) -> str:
    """An IP address, with a prefix length or without."""
    try:
        equipment.net_of(text(value))
    except ValueError:
        raise ValueError('an IP address such as 192.0.2.11 or'
                         ' 192.0.2.11/24') from None
    return str(value)


def plain_address(value: object) -> str:
    """An IP address without prefix length."""
    try:
        return str(ipaddress.ip_address(text(value)))
    except ValueError:
        raise ValueError('an IP address') from None


def wwpn(value: object) -> str:
    """The name of a Fibre Channel port, in lower case with colons."""
    found = _written(value).lower()
    if not re.fullmatch('[0-9a-f]{2}(:[0-9a-f]{2}){7}', found):
        raise ValueError('a port name such as 50:02:4f:00:00:01:00:00')
    return found


def size(value: object) -> int:
    """A capacity such as 100 TiB, in KiB."""
    match = re.fullmatch(
        '([1-9][0-9]{0,8}) ?(GiB|TiB)', _written(value))
    if match is None or not (
            kib := int(match[1]) * _UNITS[match[2]]) <= _LARGEST_KIB:
        raise ValueError('a size such as 512 GiB or 100 TiB')
    return kib


def counted(value: object) -> tuple[str, Any]:
    """KIND=NUMBER, as the command line has it."""
    kind, _, number = str(value).partition('=')
    if not kind or not re.fullmatch('[0-9]{1,7}', number):
        raise ValueError('KIND=NUMBER')
    return kind, int(number)
