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

"""Credentials for the arrays, from Juju secrets or deprecated options."""

from collections.abc import Mapping
import dataclasses

import ops

import backend as backends
import options
import oslo
import replication

_OPTION = 'credentials'
_REPLICATION_OPTION = 'replication-credentials'


class CredentialsError(Exception):
    """Credentials are missing or invalid; the message says what to do.

    :ivar texts: a sentence for each
    """

    def __init__(self, texts: list[str]) -> None:
        """Store the texts."""
        super().__init__('; '.join(texts))
        self.texts = texts


@dataclasses.dataclass(frozen=True)
class Login:
    """A user of an array."""

    user: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Logins:
    """The logins of one back end.

    :ivar own: for the array at san_ip
    :ivar devices: for its replication targets, by backend_id
    """

    own: Login
    devices: Mapping[str, Login] = dataclasses.field(default_factory=dict)


class Source:
    """Reads credentials, fetching each secret once."""

    def __init__(self, model: ops.Model, application: str) -> None:
        """Store the model and the name of the application."""
        self._model = model
        self._application = application
        self._logins: dict[str, Login | None] = {}
        self._errors: list[str] = []

    def get(self, settings: options.Settings) -> dict[str, Logins]:
        """Return the credentials of all back ends, by name.

        :raises CredentialsError: some are missing or invalid
        """
        found = {one.name: self._of_backend(settings, one)
                 for one in settings.backends}
        if self._errors:
            raise CredentialsError(self._errors)
        return {name: logins for name, logins in found.items() if logins}

    def _of_backend(self, settings: options.Settings, one: backends.Backend
                    ) -> Logins | None:
        own = (self._secret(_OPTION, one.credentials) if one.credentials
               else Login(settings.san_user, settings.san_password))
        devices = {device.backend_id: self._of_device(one, device)
                   for device in one.devices}
        if own is None or None in devices.values():
            return None
        return Logins(own, {name: login for name, login in devices.items()
                            if login})

    def _of_device(self, one: backends.Backend, device: replication.Device
                   ) -> Login | None:
        login = self._secret(_REPLICATION_OPTION, device.credentials
                             or one.replication_credentials)
        if login and not oslo.fits_device(login.user):
            self._refuse(f'{_REPLICATION_OPTION}: the username for '
                         f'{device.backend_id} has a comma, or a leading or '
                         'trailing space, which cinder.conf cannot hold; '
                         'rename the user')
        return login

    def _secret(self, option: str, secret_id: str) -> Login | None:
        if secret_id not in self._logins:
            self._logins[secret_id] = self._fetch(option, secret_id)
        return self._logins[secret_id]

    def _fetch(self, option: str, secret_id: str) -> Login | None:
        try:
            content = self._model.get_secret(id=secret_id).get_content(
                refresh=True)
        except (ops.SecretNotFoundError, ops.ModelError):
            self._refuse(f'{option}: {secret_id} does not exist or is not '
                         f'granted; run: juju grant-secret {secret_id} '
                         f'{self._application}, then wait for the next '
                         'update-status, up to five minutes')
            return None
        return self._read(f'{option}: {secret_id}', content)

    def _read(self, label: str, content: Mapping[str, str]) -> Login | None:
        missing = [key for key in ('username', 'password')
                   if not content.get(key)]
        if missing:
            self._refuse(f'{label} has no {" and no ".join(missing)}; run: '
                         'juju update-secret')
            return None
        try:
            for key in ('username', 'password'):
                oslo.value(content[key])
        except oslo.InvalidText as error:
            self._refuse(f'{label}: {key}: {error}')
            return None
        if ':' in content['username']:
            self._refuse(f'{label}: the username has a colon, which the '
                         'array does not allow')
            return None
        return Login(content['username'], content['password'])

    def _refuse(self, text: str) -> None:
        if text not in self._errors:
            self._errors.append(text)
