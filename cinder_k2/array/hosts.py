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

"""Hosts and their initiators.

A host is found by its initiators, never by its name (rulebook 5.3).
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from cinder_k2.array import cache
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

Initiator = rest.HostIqn | rest.HostFcPort


@dataclasses.dataclass(frozen=True)
class InitiatorKind:
    """One of the array's initiator resources and its identifying field."""

    resource: str
    field: str


IQN = InitiatorKind('host_iqns', 'iqn')
PWWN = InitiatorKind('host_fc_ports', 'pwwn')
#: What a host is unless the operator says otherwise (section 5.1).
TYPE = 'Linux'


@dataclasses.dataclass(frozen=True)
class HostInitiators:
    """How the array knows the initiators of one host.

    IQNs and WWPNs are compared without regard to case (INI-4, INI-5).

    :ivar host: id of the host they belong to, None if they have none yet
    :ivar loose: initiators that the array has seen but that have no host
        (INI-1), with the ids of their records
    :ivar missing: initiators that the array does not know
    """

    host: int | None
    loose: Mapping[str, int] = dataclasses.field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the host exists with every one of the initiators."""
        return self.host is not None and not (self.loose or self.missing)


class Hosts:
    """Hosts of one transport.

    :param host_type: type of hosts that are created
    """

    def __init__(self, client: rest.Client, kind: InitiatorKind,
                 host_type: str = TYPE) -> None:
        self._client = client
        self._type = host_type
        self._field = kind.field
        self._records: rest.Collection[Initiator] = (
            getattr(client, kind.resource))
        self._cache = cache.Cache()

    def locate(self, initiators: list[str]) -> HostInitiators:
        """Find the host that has these initiators. One call.

        They are searched for as given, in lower case, and as the array was
        seen to write them: it keeps what it was given (INI-5), and its
        search minds the case (QRY-5).

        :raises HostConflict: they belong to more than one host
        """
        return self._describe(initiators, self._by_spelling(initiators))

    def locate_in_any_case(self, initiators: list[str]) -> HostInitiators:
        """Find the host however the array spells its initiators.

        Reads the records of all initiators, so it is for those that
        ``locate`` missed and the array yet knows.
        """
        return self._describe(initiators, self._in_any_case(initiators))

    def owners(self, initiators: list[str]) -> dict[int, dict[str, int]]:
        """Hosts that have some of these initiators, and which they have.

        :returns: by id of the host: name as the array has it, record id
        """
        return self._by_host(self._by_spelling(initiators)
                             or self._in_any_case(initiators))

    def _by_spelling(self, initiators: list[str]) -> list[Initiator]:
        spellings = {s for i in initiators for s in (
            i, i.lower(), self._cache.peek(i.lower()) or i)}
        return self._ours(initiators, self._records.search(
            rest.query.one_of(self._field, sorted(spellings))))

    def _in_any_case(self, initiators: list[str]) -> list[Initiator]:
        records = self._ours(initiators, self._records.search())
        for record in records:
            self._cache.put(self._name(record).lower(), self._name(record))
        return records

    def _ours(self, initiators: list[str],
              records: list[Initiator]) -> list[Initiator]:
        """Compare again: a stranger's record would map to his host."""
        names = {i.lower() for i in initiators}
        return [r for r in records if self._name(r).lower() in names]

    def create(self, name: str) -> int:
        """Make a host (HST-1), or take over one of our making.

        The name carries a digest of the initiators, so a host of that name
        without them is one whose registration was cut short.

        :returns: the host's id
        """
        try:
            host = self._client.hosts.create(name=name, type=self._type)
        except rest.Refused:
            found = self._client.hosts.find(name=name)
            if found is None:
                raise
            host = found
        self._cache.put(host.id, host)
        return host.id

    def delete(self, host: int) -> None:
        """Delete a host that has neither mappings nor initiators."""
        self._cache.drop(host)
        self._client.hosts.delete(host)

    def adopt_initiator(self, host: int, record: int) -> None:
        """Give a host an initiator that the array has seen (INI-2)."""
        self._records.update(record, host=self._client.hosts.ref(host))

    def add_initiators(self, host: int, names: Sequence[str]) -> list[int]:
        """Give a host initiators that the array does not know (INI-2).

        One call if the array offers bulk calls, else one for each. After an
        error some may be there (BLK-4).

        :returns: ids of their records
        """
        ref = self._client.hosts.ref(host)
        return [record.id for record in self._records.create_many(
            [{self._field: name, 'host': ref} for name in names])]

    def release_initiator(self, record: int) -> None:
        """Take an initiator from its host but keep its record."""
        self._records.update(record, host=None)

    def remove_initiators(self, records: Iterable[int]) -> None:
        """Delete records of initiators. Calls as to add them."""
        self._records.delete_many(list(records))

    def initiators(self, host: int) -> dict[str, int]:
        """The host's initiators: name as the array has it, record id."""
        return self.initiators_of([host]).get(host, {})

    def initiators_of(self, hosts: Iterable[int]
                      ) -> dict[int, dict[str, int]]:
        """As ``initiators``, of those hosts that have any. One call."""
        return self._by_host(self._records.search(rest.query.one_of(
            'host', [self._client.hosts.ref(host) for host in hosts])))

    def is_ours(self, host: int) -> bool:
        """Whether this driver named the host and so may delete it."""
        return naming.is_our_host(self._get(host).name)

    def _get(self, host: int) -> rest.Host:
        return self._cache.get(host, lambda: self._client.hosts.get(host))

    def _describe(self, initiators: list[str],
                  records: list[Initiator]) -> HostInitiators:
        owners = {r.host.id for r in records if r.host is not None}
        if len(owners) > 1:
            raise exceptions.HostConflict(self._conflict(records))
        known = {self._name(record).lower() for record in records}
        return HostInitiators(
            host=owners.pop() if owners else None,
            loose={self._name(r): r.id for r in records if r.host is None},
            missing=tuple(i for i in initiators if i.lower() not in known))

    def _by_host(self, records: list[Initiator]
                 ) -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for record in records:
            if record.host is not None:
                found.setdefault(record.host.id, {})[
                    self._name(record)] = record.id
        return found

    def _name(self, record: Initiator) -> str:
        return str(getattr(record, self._field))

    def _conflict(self, records: list[Initiator]) -> str:
        owned = ', '.join(
            f'{self._name(r)} to {self._get(r.host.id).name}'
            for r in records if r.host is not None)
        return ('The initiators of one host belong to several hosts on the '
                f'array: {owned}. Give them all to one host on the array.')
