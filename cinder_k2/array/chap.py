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

"""CHAP profiles: what a host needs to log in over iSCSI.

The array authenticates the host, never the reverse (CHP-1).
"""

from collections.abc import Callable
import dataclasses

from cinder_k2.array import cache
from cinder_k2 import naming
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Login:
    """What a host logs in with.

    :ivar name: name of the profile, and username in it
    :ivar password: 12 to 16 characters (CHP-5)
    """

    name: str
    password: str = dataclasses.field(repr=False)


class Profiles:
    """The CHAP profiles of an array, and the hosts that use them."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client
        self._records = client.host_auth_profiles
        # Hosts do not show their profile (CHP-6), so profiles that were seen
        # to be assigned are cached here.
        self._given = cache.Cache()

    def find(self, name: str) -> rest.HostAuthProfile | None:
        """The profile of that name. One call.

        One more where the search is not known to work: an empty result then
        proves nothing (QRY-2).

        :raises NotOffered: the array does not show its profiles
        """
        try:
            return self._records.find(name=name)
        except rest.NotOffered:
            return next((profile for profile in self._records.search()
                         if profile.name == name), None)

    def ensure(self, login: Login) -> tuple[rest.HostAuthProfile, bool]:
        """Create a profile, or find the existing one.

        One call in the normal case.

        :returns: the profile, and whether it has the password of ``login``:
            not certain if it existed before
        :raises Refused: the array has no such profile and accepts none
        """
        try:
            made = self._records.create(
                name=login.name, type='CHAP', username=login.name,
                password=login.password)
            self._records.prove(name=login.name)
            return made, True
        except rest.NotOffered:
            raise
        except rest.Refused:
            found = self.find(login.name)
            if found is None:
                raise
            return found, False

    def set_password(self, profile: rest.HostAuthProfile, password: str
                     ) -> None:
        """Change a password (CHP-3); live sessions then cannot be renewed."""
        self._records.update(profile.id, names=[profile.name],
                             new_password=password)

    def discard(self, name: str, made: int | None = None) -> None:
        """Delete a profile that no host uses (CHP-4). Two calls.

        :param made: its id if it was created in this operation: one call then.
            An array that ignores profiles may not show them either.
        """
        if made is not None:
            self._records.delete(made, name=name)
            return
        found = self.find(name)
        if found is not None and not found.in_use:
            self._records.delete(found.id, name=name)

    def give(self, host: int, name: str, *,
             verify: Callable[[], object] | None = None) -> None:
        """Assign a profile to a host, which then must log in with it (CHP-2).

        One call. One more until the array has shown that it supports this: no
        field of a host shows its profile (CHP-6).

        :param verify: called when the reply is lost; raises rest.OtherObject
            if the id is another host's by now (OBJ-7)
        :raises NotOffered: also where the array ignores the profile, and where
            nothing shows that it does not
        """
        self._client.hosts.update(host, map_auth_profiles_names=name,
                                  shows=lambda _: self._is_in_use(name),
                                  verify=verify)
        self.note_given(host, name)

    def _is_in_use(self, name: str) -> bool:
        """Whether the array shows that a host uses a profile.

        Otherwise a host could be given a password that the array does not ask
        for.
        """
        try:
            found = self.find(name)
        except (rest.NotOffered, rest.Incomplete):
            return False
        return found is not None and bool(found.hosts_count)

    def take(self, host: int, *, verify: Callable[[], object]) -> None:
        """Let a host log in without CHAP, after a failure.

        :param verify: as for ``give``; also called first
        """
        self._given.drop(host)
        verify()
        self._client.hosts.update(host, map_auth_profiles_names=None,
                                  verify=verify)

    def note_given(self, host: int, name: str) -> None:
        """Remember that a host uses a profile."""
        self._given.put(host, name)

    def was_given(self, host: int, name: str) -> bool:
        """Whether a host is known to use a profile. No call."""
        return bool(self._given.peek(host) == name)

    def of_others(self) -> list[str]:
        """Names of used profiles that this driver has not created."""
        return [profile.name for profile in self._records.search()
                if profile.in_use
                and not naming.is_our_chap_profile(profile.name)]
