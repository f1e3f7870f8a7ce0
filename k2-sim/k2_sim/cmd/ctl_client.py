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

"""The control API of a simulated array, as called by k2-sim-ctl."""

import os
import pathlib
import re
import ssl
from typing import Any

import requests
from urllib3.exceptions import HTTPError

#: The environment variable that can have the password.
PASSWORD = 'K2_SIM_PASSWORD'  # nosec B105
_TIMEOUT = 60
_UNTRUSTED = re.compile(r'certificate verify failed: (.*?)\.? \(_ssl')


class CommandError(Exception):
    """The command cannot be carried out; the text is one line."""


class Client:
    """The control API of one array. Methods raise CommandError."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self.session = session
        self.url = url.rstrip('/')

    def call(self, method: str, name: str, body: object = None) -> Any:
        """Send one request below /sim/v1; returns the JSON of the reply."""
        reply = self._request(method, name, json=body)
        try:
            return reply.json() if reply.content else None
        except ValueError as exc:
            raise CommandError(f'{self.url} is not a simulated array'
                               ) from exc

    def data(self, method: str, place: str, headers: dict[str, str],
             body: bytes = b'') -> requests.Response:
        """Send one request for the data of a place, such as volumes/31."""
        return self._request(
            method, f'data/{place}', headers=headers, data=body)

    def _request(self, method: str, name: str, **options: Any
                 ) -> requests.Response:
        try:
            reply = self.session.request(
                method, f'{self.url}/sim/v1/{name}', timeout=_TIMEOUT,
                **options)
        except requests.exceptions.InvalidJSONError as exc:
            raise CommandError(f'a value cannot be sent as JSON: {exc}'
                               ) from exc
        except (requests.RequestException, HTTPError, OSError) as exc:
            raise unreachable(self.url, exc) from exc
        if not reply.ok:
            raise CommandError(_reason(reply))
        return reply


def unreachable(url: str, exc: Exception) -> CommandError:
    """The error for an array that cannot be reached."""
    untrusted = _UNTRUSTED.search(str(exc))
    if untrusted is not None:
        return CommandError(
            f'the certificate of {url} is not trusted ({untrusted[1]}): name'
            ' the ca.crt of its state directory with --ca')
    if 'WRONG_VERSION_NUMBER' in str(exc):
        return CommandError(f'{url} speaks no TLS; try http://')
    if 'Connection refused' in str(exc):
        return CommandError(
            f'cannot reach {url}: Connection refused; is k2-sim running?')
    hint = '; try https://' if (
        url.startswith('http://') and 'RemoteDisconnected' in str(exc)) else ''
    return CommandError(f'cannot reach {url}: {exc}{hint}')


def _reason(reply: requests.Response) -> str:
    if reply.status_code == 401:
        return 'the login is refused: see --login and --password-file'
    try:
        return str(reply.json()['error_msg'])
    except (ValueError, KeyError, TypeError):
        return f'status {reply.status_code}, which is not a reply of k2-sim'


def open_session(login: str, password_file: pathlib.Path | None,
                 ca: pathlib.Path | None) -> requests.Session:
    """A session with credentials; raises CommandError.

    ca: certificates to verify the array with, or None for those of the
    machine.
    """
    session = requests.Session()
    # Connect directly: ignore proxies and .netrc.
    session.trust_env = False
    session.auth = (_as_sent(login), _as_sent(_password(password_file)))
    if ca is not None:
        if not ca.is_file():
            raise CommandError(f'there is no file {ca}')
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as exc:
            raise CommandError(
                f'{ca} holds no certificate that can be read') from exc
        session.verify = str(ca)
    return session


def _as_sent(text: str) -> str:
    """Prepare a text: the library sends Latin-1, but an array reads UTF-8."""
    return text.encode(errors='surrogateescape').decode('latin-1')


def _password(path: pathlib.Path | None) -> str:
    """The first line of a file, or the value in the environment."""
    if path is None:
        if PASSWORD not in os.environ:
            raise CommandError('the password is missing: name a file with'
                               f' --password-file, or set {PASSWORD}')
        return os.environ[PASSWORD]
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise CommandError(f'cannot read {path}: {exc}') from exc
    if not lines or not lines[0]:
        raise CommandError(f'password file {path} is empty')
    return lines[0]
