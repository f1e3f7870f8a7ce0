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

"""Users of the array: HTTP Basic, or a token of Flex (CON-2, CON-3)."""

import base64
import binascii
from collections.abc import Iterable
import dataclasses
import hmac

from k2_sim.access import roles
from k2_sim import errors
from k2_sim import memoize


# The login of requests through the cloud manager.
FLEX = 'flex'
# How many valid headers are cached.
_HEADERS = 64


@dataclasses.dataclass(frozen=True)
class User:
    """An account; role as system/state shows it to its owner.

    Raises ValueError for a role that the array does not have.
    """

    login: str
    password: str = dataclasses.field(repr=False)
    role: str = 'admin'

    def __post_init__(self) -> None:
        if self.role not in roles.NAMES:
            raise ValueError(f'role must be one of {", ".join(roles.NAMES)},'
                             f' not {self.role!r}')


class Users:
    """The accounts of one array."""

    def __init__(self, users: Iterable[User]) -> None:
        self._users = {user.login: user for user in users}
        # Clients send the same header with each request.
        self._known = memoize.short(_HEADERS)(self._authenticate)

    def authenticate(self, header: str) -> User:
        """The user of an Authorization header; raises ApiError (401)."""
        return self._known(header)

    def _authenticate(self, header: str) -> User:
        scheme, _, token = header.partition(' ')
        login, _, password = _decoded(token.strip()).partition(':')
        if scheme.lower() != 'basic':
            raise _unknown()
        return self.check(login, password)

    def check(self, login: str, password: str) -> User:
        """The user with a password; raises ApiError (401)."""
        user = self._users.get(login)
        if user is None or not hmac.compare_digest(
                user.password.encode(), password.encode()):
            raise _unknown()
        return user

    def roles(self) -> dict[str, str]:
        """The role of each account by its login."""
        return {user.login: user.role for user in self._users.values()}


def _unknown() -> errors.ApiError:
    return errors.ApiError(401, 'Authentication required')


@dataclasses.dataclass(frozen=True)
class Flex:
    """Access to the array through the cloud manager (CON-3).

    sdp: the id of the array there. token: used by applications instead of
    an account; it has this role. Raises ValueError for a role that the
    array does not have.
    """

    sdp: str
    token: str = dataclasses.field(repr=False)
    role: str = 'admin'

    def __post_init__(self) -> None:
        self.user()

    @property
    def base(self) -> str:
        """The base path of the resources."""
        return f'/rest/sdps/{self.sdp}/api/v2'

    def user(self) -> User:
        """The user of requests with the token."""
        return User(FLEX, '', self.role)

    def authenticate(self, header: str) -> User:
        """The user of an Authorization header; raises ApiError (401)."""
        scheme, _, token = header.partition(' ')
        if scheme.lower() != 'bearer' or not hmac.compare_digest(
                self.token.encode(), token.strip().encode()):
            raise errors.ApiError(401, 'Authentication required')
        return self.user()


def _decoded(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ''
