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

"""Passwords of accounts: read from a file, or generated into one.

A generated password stays in the state directory, in a file that only its
owner can read (as the keys and the state there are), so that other programs
of the same user can log in and a restart changes nothing.
"""

import os
import pathlib
import secrets

from k2_sim.access.users import Flex
from k2_sim.access.users import FLEX
from k2_sim.access.users import User
from k2_sim.config import password_strength
from k2_sim.config.settings import Account
from k2_sim.config.settings import Settings
from k2_sim.config.settings import SettingsError

_BYTES = 18


class Passwords:
    """The passwords of all accounts of one service.

    Raises SettingsError for a file that cannot be used.
    """

    def __init__(self, settings: Settings, directory: pathlib.Path) -> None:
        self._settings = settings
        self._new: dict[str, pathlib.Path] = {}
        self._texts = {
            account.login: self._ensure(account, directory)
            for account in self._accounts()}

    def _accounts(self) -> tuple[Account, ...]:
        settings = self._settings
        logins = [user.login for user in settings.users]
        for login in logins:
            if logins.count(login) > 1:
                raise SettingsError(f'login {login} is that of two users;'
                                    ' give one of them another')
        if settings.control.login in logins:
            raise SettingsError(
                f'login {settings.control.login} is that of the control API;'
                ' give one of them another')
        accounts = (*settings.users, settings.control)
        flex = settings.flex
        if flex is None:
            return accounts
        if FLEX in (account.login for account in accounts):
            raise SettingsError(
                f'login {FLEX} is that of the cloud manager; give the account'
                ' another')
        return (*accounts, Account(FLEX, flex.role, flex.token_file))

    def _ensure(self, account: Account, directory: pathlib.Path) -> str:
        """The password of an account, generated at its first use."""
        if account.password_file is not None:
            return _read(account.password_file)
        path = directory / f'{account.login}.password'
        if os.path.lexists(path):
            return _read(path)
        text = secrets.token_urlsafe(_BYTES)
        _write(path, text)
        self._new[account.login] = path
        return text

    def users(self) -> list[User]:
        """The accounts of the array, its own first."""
        return [User(user.login, self._texts[user.login], user.role)
                for user in self._settings.users]

    def controller(self) -> User:
        """The account of the control API."""
        login = self._settings.control.login
        return User(login, self._texts[login])

    def flex(self) -> Flex | None:
        """Access through the cloud manager, if there is any."""
        flex = self._settings.flex
        return None if flex is None else Flex(
            flex.sdp, self._texts[FLEX], flex.role)

    def of_peers(self) -> str:
        """The password that the array has on its peers."""
        peers = self._settings.peers
        if peers.password_file is not None:
            return _read(peers.password_file)
        if peers.login not in [user.login for user in self._settings.users]:
            raise SettingsError(
                f'no password for {peers.login} on the peers; give it with'
                ' --peer-password-file')
        return self._texts[peers.login]

    def find_weak(self) -> str:
        """Why a password is too weak, or ''."""
        for login, text in self._texts.items():
            flaw = password_strength.flaw(text, self._texts)
            if flaw:
                return f'the password of {login} {flaw}'
        return ''

    def messages(self) -> list[str]:
        """A line for each password that has just been generated."""
        return [f'k2-sim: password of {login}: {self._texts[login]}'
                f' (kept in {path})' for login, path in self._new.items()]


def _write(path: pathlib.Path, text: str) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, 'w', encoding='utf-8') as file:
            file.write(f'{text}\n')
    except OSError as exc:
        raise SettingsError(
            f'cannot write password file {path}: {exc.strerror}') from exc


def _read(path: pathlib.Path) -> str:
    """The first line of a file."""
    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except OSError as exc:
        raise SettingsError(f'cannot read password file {path}:'
                            f' {exc.strerror}') from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f'password file {path} is not UTF-8') from exc
    if not lines or not lines[0]:
        raise SettingsError(f'password file {path} is empty')
    return lines[0]
