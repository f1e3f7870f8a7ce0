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

A host is found by its initiators (section 5.3 of the API rules). Only where
the array does not search for these is it found by name, as the in-tree
driver does.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from oslo_log import log as logging

from cinder_k2.array import cache
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

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
class Sought:
    """A host that is looked for.

    :ivar initiators: all that it has
    :ivar names: those that it may have on the array, the driver's own first
    """

    initiators: tuple[str, ...]
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that this driver gives it."""
        return self.names[0]


@dataclasses.dataclass(frozen=True)
class HostInitiators:
    """How the array knows the initiators of one host.

    IQNs and WWPNs are compared without regard to case (INI-4, INI-5).

    :ivar host: id of the host they belong to, None if they have none yet
    :ivar loose: initiators that the array has seen but that have no host
        (INI-1), with the ids of their records
    :ivar missing: initiators that the array does not know
    :ivar by_name: the host was found by its name; which initiators it has
        is not known
    """

    host: int | None
    loose: Mapping[str, int] = dataclasses.field(default_factory=dict)
    missing: tuple[str, ...] = ()
    by_name: bool = False

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
        self._told = False
        self._refusal: rest.RestError | None = None

    def locate(self, sought: Sought) -> HostInitiators:
        """Find a host by its initiators. One call.

        They are searched for as given, in lower case, and as the array was
        seen to write them: it keeps what it was given (INI-5), and its
        search minds the case (QRY-5). An array that does not search for
        initiators is asked for the host's names, in up to two more calls.

        :raises HostConflict: they belong to more than one host
        """
        found = self._by_spelling(sought.initiators)
        if found is None:
            return self._by_name(sought)
        return self._describe(sought.initiators, found)

    def locate_in_any_case(self, initiators: Sequence[str]
                           ) -> HostInitiators:
        """Find the host however the array spells its initiators.

        Reads the records of all initiators, so it is for those that
        ``locate`` missed and the array yet knows.
        """
        return self._describe(initiators, self._in_any_case(initiators))

    def owners(self, sought: Sought) -> dict[int, dict[str, int]]:
        """Hosts that have some of these initiators, and which they have.

        :returns: by id of the host: name as the array has it, record id;
            none where the array does not show these
        """
        found = self._by_spelling(sought.initiators)
        if found is None:
            named = self._by_name(sought)
            return {} if named.host is None else {
                named.host: self.initiators(named.host)}
        return self._by_host(found or self._in_any_case(sought.initiators))

    def _by_spelling(self, initiators: Sequence[str]
                     ) -> list[Initiator] | None:
        """Records of initiators; None if the array has no way to tell."""
        spellings = {s for i in initiators for s in (
            i, i.lower(), self._cache.peek(i.lower()) or i)}
        try:
            return self._ours(initiators, self._records.search(
                rest.query.one_of(self._field, sorted(spellings))))
        except (rest.NotOffered, rest.Incomplete):
            listed = self._listed()
            return None if listed is None else self._ours(initiators, listed)

    def _listed(self) -> list[Initiator] | None:
        """The records of all initiators; None if the array lists none."""
        try:
            return self._records.search()
        except (rest.NotOffered, rest.Incomplete):
            return None

    def _by_name(self, sought: Sought) -> HostInitiators:
        """Find a host by the names that drivers give it.

        Its initiators are compared where the array shows them.
        """
        for name in sought.names:
            host = self._client.hosts.find(name=name)
            if host is None:
                continue
            self._cache.put(host.id, host)
            shown = self._shown(host.id)
            if shown is None:
                self._tell_unverified()
                return self._as_named(sought, host)
            known = {initiator.lower() for initiator in shown}
            wanted = {i.lower() for i in sought.initiators}
            if known & wanted or not known and name == sought.name:
                return HostInitiators(host.id, missing=tuple(
                    i for i in sought.initiators if i.lower() not in known))
        return HostInitiators(None, missing=tuple(sought.initiators))

    def _as_named(self, sought: Sought, host: rest.Host) -> HostInitiators:
        """A host of which the array shows the name only.

        One of this driver's that is mapped has its initiators: mapping is
        the last step. One that is not may lack them, for a service was
        killed.
        """
        if (self._cache.peek(('registered', host.id)) == host.name
                or not naming.is_our_host(host.name)):
            return HostInitiators(host.id, by_name=True)
        if self._client.mappings.some(host=host.ref)[0]:
            self._cache.put(('registered', host.id), host.name)
            return HostInitiators(host.id, by_name=True)
        return HostInitiators(host.id, missing=sought.initiators,
                              by_name=True)

    def clear(self, found: HostInitiators) -> HostInitiators:
        """Delete a host that was found by name and may lack its initiators.

        It is to be made anew: an initiator that the array then refuses
        could be another host's as well.

        :returns: what is there after it
        """
        if not found.by_name or found.host is None:
            return found
        try:
            self.delete(found.host)
        except rest.Refused:
            return found
        return HostInitiators(None, missing=found.missing)

    def _shown(self, host: int) -> dict[str, int] | None:
        """The initiators of a host; None if the array does not show them."""
        found = self._initiators_of([host])
        return None if found is None else found.get(host, {})

    def _tell_unverified(self) -> None:
        if not self._told:
            self._told = True
            LOG.warning(
                'The array at %(address)s does not search for %(field)ss: '
                'hosts are found by their names alone, which could not be '
                'verified. See that every host has a name of its own.',
                {'address': self._client.address, 'field': self._field})

    def _in_any_case(self, initiators: Sequence[str]) -> list[Initiator]:
        records = self._ours(initiators, self._listed() or [])
        for record in records:
            self._cache.put(self._name(record).lower(), self._name(record))
        return records

    def _ours(self, initiators: Sequence[str],
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
        """Delete a host that has no mappings.

        With its initiators, where the array does not delete those.
        """
        self._client.hosts.delete(host, name=self._get(host).name)
        self._cache.drop(host)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            self._client.capabilities.refuse(self._records.deletion, refusal)

    def delete_whole(self, host: int, one_by_one: Callable[[], None]
                     ) -> None:
        """Delete a host that has initiators but no mappings (HST-3).

        :param one_by_one: deletes the initiators, then the host
        """
        self._client.capabilities.prefer(
            rest.capabilities.WHOLE_HOSTS, lambda: self.delete(host),
            one_by_one)

    def adopt_initiator(self, host: int, record: int, name: str) -> None:
        """Give a host an initiator that the array has seen (INI-2)."""
        try:
            self._records.update(record, host=self._client.hosts.ref(host))
        except rest.Refused:
            self._register(host, name)

    def add_initiators(self, host: int, names: Sequence[str]) -> list[int]:
        """Give a host initiators that the array does not know (INI-2).

        One call if the array offers bulk calls, else one for each. After an
        error some may be there (BLK-4).

        :returns: ids of their records
        """
        ref = self._client.hosts.ref(host)
        made = self._records.create_many(
            [{self._field: name, 'host': ref} for name in names])
        self._cache.put(('registered', host), self._get(host).name)
        self._records.prove(**{self._field: names[0]})
        return [record.id for record in made]

    def _register(self, host: int, name: str) -> None:
        self._records.create_many([{
            self._field: name, 'host': self._client.hosts.ref(host)}])

    def release_initiator(self, record: int) -> None:
        """Take an initiator from its host but keep its record."""
        self._records.update(record, host=None)

    def remove_initiators(self, records: Mapping[str, int]) -> None:
        """Delete records of initiators, by name. Calls as to add them.

        Where the array does not delete them they stay, and the host is
        deleted with them, as the in-tree driver does.
        """
        try:
            self._records.delete_many({
                record: {self._field: name}
                for name, record in records.items()})
        except rest.Refused as refusal:
            self._refusal = refusal

    def initiators(self, host: int) -> dict[str, int]:
        """The host's initiators: name as the array has it, record id.

        None where the array does not show them.
        """
        return self._shown(host) or {}

    def initiators_of(self, hosts: Iterable[int]
                      ) -> dict[int, dict[str, int]]:
        """As ``initiators``, of those hosts that have any. One call."""
        return self._initiators_of(hosts) or {}

    def _initiators_of(self, hosts: Iterable[int]
                       ) -> dict[int, dict[str, int]] | None:
        """By id of the host; None if the array has no way to tell."""
        refs = [self._client.hosts.ref(host) for host in hosts]
        try:
            return self._by_host(self._records.search(
                rest.query.one_of('host', refs)))
        except (rest.NotOffered, rest.Incomplete):
            listed = self._listed()
        if listed is None:
            return None
        return self._by_host([r for r in listed if r.host in refs])

    def is_ours(self, host: int) -> bool:
        """Whether this driver named the host and so may delete it. One call.

        The id may be another host's since it was read last.
        """
        found = self._client.hosts.get(host)
        self._cache.put(host, found)
        return naming.is_our_host(found.name)

    def _get(self, host: int) -> rest.Host:
        return self._cache.get(host, lambda: self._client.hosts.get(host))

    def _describe(self, initiators: Sequence[str],
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
