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

"""The sections of cinder.conf, split into public and secret options.

Public options go over the relation to the cinder charm, which writes them to
cinder.conf; secret ones go to the charm's own file, which oslo.config also
reads. cinder.conf takes precedence, so no option is in both.
"""

from collections.abc import Iterator
from collections.abc import Mapping

import backend as backends
import credentials
import options
import oslo
import replication

#: A section: pairs of key and value, because a key may repeat.
Pairs = list[tuple[str, str]]

_DRIVERS = {backends.ISCSI: 'cinder_k2.driver.K2ISCSIDriver',
            backends.FC: 'cinder_k2.driver.K2FCDriver'}


class TooManyPasswords(oslo.InvalidText):
    """Two or more passwords need k2_replication_password, which holds one."""


def public(settings: options.Settings, ca_paths: Mapping[str, str]
           ) -> dict[str, Pairs]:
    """Return the options that are not secret, by section.

    :param ca_paths: the file with the certificates, by back end name
    """
    sections = {one.name: _public(one, ca_paths.get(one.name, ''))
                for one in settings.backends}
    if settings.cluster:
        sections['DEFAULT'] = [('cluster', oslo.value(settings.cluster))]
    return sections


def secret(settings: options.Settings,
           logins: Mapping[str, credentials.Logins]) -> dict[str, Pairs]:
    """Return the secret options, by section.

    :raises oslo.InvalidText: a password cannot be represented
    """
    sections = {one.name: list(_secret(one, logins[one.name]))
                for one in settings.backends}
    if settings.coordination_url:
        # The URL may contain a password.
        sections['coordination'] = [
            ('backend_url', oslo.value(settings.coordination_url))]
    return sections


def render(sections: Mapping[str, Pairs]) -> str:
    """Render sections as a configuration file."""
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
    """Return the password for k2_replication_password; '' for none.

    It is safer there: Cinder shows each replication_device to administrators.
    This option can hold any text, so a password that replication_device
    cannot hold takes precedence.

    :raises TooManyPasswords: replication_device cannot hold two or more
    """
    passwords = dict.fromkeys(login.password for login in logins.values())
    unfit = [text for text in passwords if not oslo.fits_device(text)]
    if len(unfit) > 1:
        raise TooManyPasswords(
            f'{name}: the passwords of two arrays in replication-devices '
            'have a comma, or a leading or trailing space; cinder.conf can '
            'hold only one of these, so change the other')
    return next(iter([*unfit, *passwords]), '')


def _device_fields(device: replication.Device, login: credentials.Login,
                   with_password: bool) -> dict[str, str]:
    fields = {'backend_id': device.backend_id, 'san_ip': device.san_ip,
              'port': device.port, 'login': login.user,
              'password': login.password if with_password else '',
              'rpo': device.rpo, 'tls_fingerprint': device.tls_fingerprint}
    return {key: text for key, text in fields.items() if text}
