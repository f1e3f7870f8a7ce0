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

"""CHAP logins: one profile for each host, named after its IQN.

The password is stored outside of the array, which never returns it (CHP-1),
and is used again whenever the host comes back. A profile is assigned to a
host, and a password is changed, only while the host has no volumes: live iSCSI
sessions present the password when they are renewed after a network failure,
and could not be renewed with another.
"""

from collections.abc import Callable
from collections.abc import Iterable
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import chap
from cinder_k2.array import hosts
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class Secrets(typing.Protocol):
    """The store of passwords; a stored password never changes.

    Its methods may raise SecretsUnavailable.
    """

    def find(self, initiator: str) -> str | None:
        """The password of an initiator, None if it has none."""

    def keep(self, initiator: str, secret: str) -> str:
        """Store a password if there is none; returns the stored one."""

    def generate(self) -> str:
        """Generate a password of 12 to 16 characters (CHP-5)."""


class Chap:
    """CHAP on one array.

    :param registry: the hosts of the array
    :param required: new hosts get a profile; otherwise only hosts that have
        one keep it, and need it to log in
    """

    def __init__(self, array: Array, registry: hosts.Hosts,
                 secrets: Secrets, required: bool) -> None:
        self.array = array
        self.registry = registry
        self.secrets = secrets
        self.required = required

    def guard(self, initiators: list[str]) -> 'Guard':
        """CHAP of the host with this single initiator."""
        initiator, = initiators
        return Guard(self, initiator)

    def forget(self, initiators: Iterable[str]) -> None:
        """Delete the profiles of a deleted host. Two calls each.

        No call for those that never had one. Passwords stay.
        """
        for initiator in initiators:
            name = naming.chap_profile(initiator)
            try:
                if self.required or self.secrets.find(initiator):
                    self.array.chap.discard(name)
            except (rest.RestError, exceptions.K2Error) as error:
                LOG.warning('CHAP profile %(name)s may stay on the array: '
                            '%(error)s', {'name': name, 'error': error})


class Guard:
    """CHAP of one host, whose lock is held."""

    def __init__(self, owner: Chap, initiator: str) -> None:
        self._array = owner.array
        self._registry = owner.registry
        self._secrets = owner.secrets
        self._initiator = initiator
        self.required = owner.required
        self.name = naming.chap_profile(initiator)
        # Id of the profile, if it was just created for this host.
        self._made: int | None = None

    def login(self, host: int, claim: Callable[[], None]
              ) -> chap.Login | None:
        """The login of a host of the array; None without CHAP.

        No call if it was seen in the last ten minutes, else one. Three more if
        the password is lost and the host has no volumes: it gets a new one.

        :param claim: called before the password is changed; raises if other
            operations may use the host
        :raises ChapSecretLost: the host has volumes, and the password is lost
        """
        kept = self._secrets.find(self._initiator)
        if kept is None and not self.required:
            return None
        if kept is None or not self._array.chap.was_given(host, self.name):
            profile = self._array.chap.find(self.name)
            if profile is None or not profile.in_use:
                return None
            if kept is None:
                claim()
                kept = self._renew(profile, host).password
            self._array.chap.note_given(host, self.name)
        return chap.Login(self.name, kept)

    def make(self) -> chap.Login:
        """Create the profile, before a host gets it. One call.

        One that a killed service has left is taken over.

        :raises ChapSecretLost: a host uses it, and the password is lost
        """
        kept = self._secrets.find(self._initiator)
        login = chap.Login(self.name, kept or self._secrets.generate())
        profile, right = self._array.chap.ensure(login)
        self._made = profile.id if right else None
        if profile.in_use and kept is None:
            raise self._lost()
        return self._settle(profile, login, right or profile.in_use)

    def discard(self) -> None:
        """Delete the profile after a failure, unless a host has it."""
        self._array.chap.discard(self.name, self._made)

    def may_give(self, host: int) -> bool:
        """Whether a profile may be assigned to a host. At most four calls."""
        if not self.required:
            return False
        hindrance = self._hindrance(host)
        if hindrance:
            LOG.warning('Host with initiator %(initiator)s logs in without '
                        'CHAP: %(hindrance)s.',
                        {'initiator': self._initiator,
                         'hindrance': hindrance})
        return not hindrance

    def _hindrance(self, host: int) -> str | None:
        if self._array.mappings.is_mapped(host):
            return 'it has volumes, so it cannot be given a CHAP profile now'
        if self._array.mappings.group_of(host) is not None:
            return 'it is a member of a host group'
        names = {name.lower() for name in self._registry.initiators(host)}
        if names != {self._initiator.lower()}:
            return 'its record on the array has other initiators, too'
        others = self._array.chap.of_others()
        if others:
            return ('it may have a foreign CHAP profile: '
                    + ', '.join(others))
        return None

    def _renew(self, profile: rest.HostAuthProfile, host: int
               ) -> chap.Login:
        """Give a profile a new password, because the old one was lost."""
        if (self._array.mappings.is_mapped(host)
                or self._array.mappings.group_of(host) is not None):
            raise self._lost()
        login = chap.Login(self.name, self._secrets.generate())
        self._array.chap.set_password(profile, login.password)
        return self._settle(profile, login, right=True)

    def _settle(self, profile: rest.HostAuthProfile, login: chap.Login,
                right: bool) -> chap.Login:
        """Store the password, and set the stored one on the array.

        It is stored first, because another service may use it as soon as it is
        stored; the array has it by then, or gets it before a host has the
        profile.

        :param right: whether the profile has the password of ``login``
        """
        kept = self._secrets.keep(self._initiator, login.password)
        if not right or kept != login.password:
            self._array.chap.set_password(profile, kept)
        return chap.Login(self.name, kept)

    def _lost(self) -> exceptions.ChapSecretLost:
        return exceptions.ChapSecretLost(
            f'Initiator {self._initiator} logs in to the array at '
            f'{self._array.address} by CHAP profile {self.name}, but '
            'Cinder\'s database has no password for it. It gets a new one '
            'when no volume is mapped to its host: detach them all, then try '
            'again.')
