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

"""Sessions of the console pages."""

import dataclasses
import hmac
import secrets
import threading

from k2_sim.access import login_throttle
from k2_sim.access import users as users_module
from k2_sim import clock as clock_module
from k2_sim import errors

# Seconds of the array's clock.
LIFE = 8 * 3600.0
KEPT = 100
_BYTES = 32


@dataclasses.dataclass(frozen=True)
class Login:
    """One session. token: its cookie; proof: required for its writes.

    A foreign site can make a browser send the cookie, but not the proof.
    ends: the array's monotonic seconds.
    """

    user: users_module.User
    token: str = dataclasses.field(repr=False)
    proof: str = dataclasses.field(repr=False)
    ends: float

    def check(self, proof: str) -> None:
        """Refuse (403) a write without the right proof."""
        if not hmac.compare_digest(self.proof.encode(), proof.encode()):
            raise errors.ApiError(
                403, 'This request did not come from the page; reload it')


class Logins:
    """The sessions of one page; thread-safe."""

    def __init__(self, users: users_module.Users,
                 clock: clock_module.Clock) -> None:
        self._users = users
        self._clock = clock
        self._logins: dict[str, Login] = {}
        self._throttle = login_throttle.LoginThrottle(clock)
        self._lock = threading.Lock()

    def open(self, login: str, password: str, address: str) -> Login:
        """A new session; the oldest is dropped if there are too many.

        Raises ApiError: 401 for a wrong password, 429 after too many from
        this address.
        """
        user = self._check(login, password, address)
        now = self._clock.monotonic()
        with self._lock:
            if len(self._logins) == KEPT:
                del self._logins[next(iter(self._logins))]
            made = Login(user, secrets.token_urlsafe(_BYTES),
                         secrets.token_urlsafe(_BYTES), now + LIFE)
            self._logins[made.token] = made
        return made

    def _check(self, login: str, password: str, address: str
               ) -> users_module.User:
        if self._throttle.is_exhausted(address):
            raise errors.ApiError(
                429, 'Too many wrong passwords; try again in a minute')
        try:
            return self._users.check(login, password)
        except errors.ApiError as exc:
            self._throttle.fail(address)
            raise errors.ApiError(
                401, 'Login or password is wrong') from exc

    def find(self, token: str) -> Login:
        """The session of a cookie; raises ApiError (401)."""
        with self._lock:
            found = self._logins.get(token)
            if found is not None and found.ends > self._clock.monotonic():
                return found
            self._logins.pop(token, None)
        raise errors.ApiError(401, 'Log in first')

    def close(self, login: Login) -> None:
        """End a session."""
        with self._lock:
            self._logins.pop(login.token, None)
