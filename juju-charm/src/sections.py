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

"""What stands in cinder.conf: what all may read, and what is secret.

The first goes through the relation to the cinder charm, which writes it into
cinder.conf; the second into a file of ours that oslo.config reads besides.
Where both have a key, cinder.conf wins, so they never share one.
"""

from collections.abc import Iterator
from collections.abc import Mapping

import backend as backends
import credentials
import options
import oslo
import replication

#: A section as it is written: pairs, for a key may repeat.
Pairs = list[tuple[str, str]]

_DRIVERS = {backends.ISCSI: 'cinder_k2.driver.K2ISCSIDriver',
            backends.FC: 'cinder_k2.driver.K2FCDriver'}


class TooManyPasswords(oslo.InvalidText):
    """Passwords of several arrays need the one place that takes any text."""


def public(settings: options.Settings, ca_paths: Mapping[str, str]
           ) -> dict[str, Pairs]:
    """The sections that are not secret, by their names.

    :param ca_paths: where the certificates of a back end are, by its name
    """
    sections = {one.name: _public(one, ca_paths.get(one.name, ''))
                for one in settings.backends}
    if settings.cluster:
        sections['DEFAULT'] = [('cluster', oslo.value(settings.cluster))]
    return sections


def secret(settings: options.Settings,
           logins: Mapping[str, credentials.Logins]) -> dict[str, Pairs]:
    """The sections that are secret, by their names.

    :raises oslo.InvalidText: a password cannot be carried
    """
    sections = {one.name: list(_secret(one, logins[one.name]))
                for one in settings.backends}
    if settings.coordination_url:
        # It can hold a password, too.
        sections['coordination'] = [
            ('backend_url', oslo.value(settings.coordination_url))]
    return sections


def render(sections: Mapping[str, Pairs]) -> str:
    """Write sections as a configuration file."""
    return '\n'.join(
        '\n'.join([f'[{name}]', *(f'{key} = {text}' for key, text in pairs),
                   ''])
        for name, pairs in sections.items())


def _public(one: backends.Backend, ca_path: str) -> Pairs:
    pairs = [('volume_driver', _DRIVERS[one.protocol]),
             *((key, oslo.value(text)) for key, text in one.values.items())]
    if ca_path:
        pairs.append(('driver_ssl_cert_path', oslo.value(ca_path)))
    return pairs


def _secret(one: backends.Backend, logins: credentials.Logins
            ) -> Iterator[tuple[str, str]]:
    if logins.own.user:
        yield 'san_login', oslo.value(logins.own.user)
    yield 'san_password', oslo.value(logins.own.password)
    shared = _shared_password(one.name, logins.devices)
    if shared:
        yield 'k2_replication_password', oslo.value(shared)
    for device in one.devices:
        login = logins.devices[device.backend_id]
        yield 'replication_device', oslo.device(
            _device_fields(device, login, login.password != shared))


def _shared_password(name: str, logins: Mapping[str, credentials.Login]
                     ) -> str:
    """The password that stands outside of replication_device; '' for none.

    It is safer there: Cinder shows administrators each replication_device.
    And it can hold any text, so one that a device cannot hold goes first.

    :raises TooManyPasswords: two passwords need the place
    """
    passwords = dict.fromkeys(login.password for login in logins.values())
    odd = [text for text in passwords if not oslo.fits_device(text)]
    if len(odd) > 1:
        raise TooManyPasswords(
            f'{name}: the passwords of two arrays in replication-devices '
            'have a comma or a blank at an end; cinder.conf can hold one '
            'such, so change the other')
    return next(iter([*odd, *passwords]), '')


def _device_fields(device: replication.Device, login: credentials.Login,
                   with_password: bool) -> dict[str, str]:
    fields = {'backend_id': device.backend_id, 'san_ip': device.san_ip,
              'port': device.port, 'login': login.user,
              'password': login.password if with_password else '',
              'rpo': device.rpo, 'tls_fingerprint': device.tls_fingerprint}
    return {key: text for key, text in fields.items() if text}
