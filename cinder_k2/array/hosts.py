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
driver does, and if the array then refuses its initiators, among the mapped
hosts of similar names, whose initiators the array may show.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
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
    """One of the array's initiator resources and its identifying field.

    :ivar several: a host has several of them, and may connect with others
        than it was registered with
    """

    resource: str
    field: str
    several: bool


IQN = InitiatorKind('host_iqns', 'iqn', several=False)
PWWN = InitiatorKind('host_fc_ports', 'pwwn', several=True)
#: What a host is unless the operator says otherwise (section 5.1).
TYPE = 'Linux'


@dataclasses.dataclass(frozen=True)
class Sought:
    """A host to look for.

    :ivar initiators: all of its initiators
    :ivar names: names that it may have on the array, the driver's own first
    :ivar former: those that it may have been given under other settings
    """

    initiators: tuple[str, ...]
    names: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that this driver gives it."""
        return self.names[0]

    def may_have(self, name: str) -> bool:
        """Whether it may be a host that this driver gave another name."""
        return any(naming.may_be_same_host(name, own)
                   for own in (*self.names, *self.former))

    def has_any(self, initiators: Iterable[str]) -> bool:
        """Whether any of these is one of its own (INI-4, INI-5)."""
        own = {initiator.lower() for initiator in self.initiators}
        return any(initiator.lower() in own for initiator in initiators)


@dataclasses.dataclass(frozen=True)
class HostInitiators:
    """The array's records of the initiators of one host.

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
        self._several = kind.several
        self._records: rest.Collection[Initiator] = (
            getattr(client, kind.resource))
        self._cache = cache.Cache()
        self._told = False

    def locate(self, sought: Sought) -> HostInitiators:
        """Find a host by its initiators. One call.

        They are searched for as given, in lower case, and as the array was
        seen to write them: it keeps what it was given (INI-5), and its
        search minds the case (QRY-5). An array that does not search for
        initiators is asked for the host's names, in a call for each.

        :raises HostConflict: they belong to more than one host
        """
        found = self._by_spelling(sought.initiators)
        if found is None:
            former = self._cache.peek(('former', sought.initiators))
            named = self._by_name(sought, (
                *sought.names, *(sought.former if former else ())))
            if named.host is not None:
                return named
            found = self._of_hosts(sought, self._seen_before(sought))
        return self._describe(sought.initiators, found)

    def locate_taken(self, sought: Sought) -> HostInitiators:
        """Find a host whose initiators the array has although none was found.

        In another spelling, or, where the array does not search for them, at
        a host of the in-tree driver's, a former or a similar name.

        :raises HostConflict: they belong to more than one host
        """
        listed = self._listed()
        if listed is not None:
            return self._describe(sought.initiators, self._in_any_case(
                sought.initiators, listed))
        if not self._several:
            # An empty host of its own name, deleted since, hid that one.
            named = self._by_name(sought, sought.names[1:])
            if named.host is not None:
                return named
        named = self._by_name(sought, sought.former)
        if named.host is not None:
            self._cache.put(('former', sought.initiators), True)
            return named
        return self._describe(sought.initiators, self._by_similar_name(sought))

    def owners(self, sought: Sought, also: Iterable[int] = ()
               ) -> dict[int, dict[str, int]] | None:
        """Hosts that have some of these initiators, and which they have.

        :param also: hosts to compare as well, where the array does not show
            whose these initiators are
        :returns: by id of the host: name as the array has it, record id;
            none where the array does not show these. None if it does not
            show whose these initiators are, and no host is found by name
        """
        shown = self._owners_shown(sought)
        if shown is not None:
            return shown
        named = self._named_owners(sought)
        others = {*also, *(() if named else self._seen_before(sought))}
        return named | self._others(sought, others - named.keys()) or None

    def candidates(self, sought: Sought) -> Set[int] | None:
        """Hosts that may be this one; None if others may be, too.

        All that have one of its names, where the array does not show whose
        the initiators are: the first may be what a killed service left.
        """
        shown = self._owners_shown(sought)
        if shown is not None:
            return shown.keys()
        named = {host.id: initiators for host, initiators
                 in self._named(sought, (*sought.names, *sought.former))}
        if any(initiators != {} for initiators in named.values()):
            return named.keys()
        return self._others(sought, self._seen_before(sought)).keys() or None

    def _owners_shown(self, sought: Sought
                      ) -> dict[int, dict[str, int]] | None:
        """As ``owners``, as far as the array shows whose initiators are."""
        found = self._by_spelling(sought.initiators)
        if found is not None and not found:
            listed = self._listed()
            found = None if listed is None else self._in_any_case(
                sought.initiators, listed)
        return None if found is None else self._by_host(found)

    def similar(self, sought: Sought) -> set[int]:
        """Mapped hosts of similar names that have some of its initiators.

        No call where a host has only one; else as ``_by_similar_name``.
        """
        return set(self._by_host(self._by_similar_name(sought)))

    def _named_owners(self, sought: Sought) -> dict[int, dict[str, int]]:
        """The host of one of the names.

        Also an empty one of its own name, which a killed service left, if
        another one has the initiators.
        """
        owners: dict[int, dict[str, int]] = {}
        for host, shown in self._named(sought,
                                       (*sought.names, *sought.former)):
            owners[host.id] = shown or {}
            if shown != {}:
                break
        return owners

    def _others(self, sought: Sought, hosts: Iterable[int]
                ) -> dict[int, dict[str, int]]:
        """Those of other hosts that are this one. One call for each."""
        if self._several:
            return self._by_host(self._of_hosts(sought, hosts))
        return {host: {} for host in sorted(hosts) if self.named(host) in (
            *sought.names, *sought.former)}

    def _by_spelling(self, initiators: Sequence[str]
                     ) -> list[Initiator] | None:
        """Records of initiators; None if the array cannot show them."""
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

    def _by_name(self, sought: Sought, names: Iterable[str]
                 ) -> HostInitiators:
        """Find a host by the names that drivers give to hosts.

        Its initiators are compared where the array shows them; an empty one
        of its own name is found only if no other one has them.
        """
        empty: HostInitiators | None = None
        for host, shown in self._named(sought, names):
            if shown is None:
                return empty or self._as_named(sought, host)
            known = {initiator.lower() for initiator in shown}
            found = HostInitiators(host.id, missing=tuple(
                i for i in sought.initiators if i.lower() not in known))
            if shown:
                return found
            empty = found
        return empty or HostInitiators(None, missing=tuple(sought.initiators))

    def _named(self, sought: Sought, names: Iterable[str]
               ) -> Iterator[tuple[rest.Host, dict[str, int] | None]]:
        """Hosts of these names that are not seen to be others.

        With their initiators, None where the array does not show them.
        """
        for name in names:
            host = self._client.hosts.find(name=name)
            if host is None:
                continue
            self._cache.put(host.id, host)
            shown = self._shown(host.id)
            if shown is None:
                self._warn_unverified()
            if (shown is None or sought.has_any(shown)
                    or not shown and name == sought.name):
                yield host, shown

    def _by_similar_name(self, sought: Sought) -> list[Initiator]:
        """Records of its initiators at hosts whose names differ in the digest.

        Such a host was registered with other initiators (HST-1). Only mapped
        ones are found, by their mappings: not every array lists hosts. One
        call, one for each mapped host that was not seen lately, and one for
        each whose initiators are compared.
        """
        if not self._several:
            return []
        found = self._of_hosts(sought, self._similar(sought))
        for host in self._by_host(found):
            self._cache.put(('similar', sought.name), host)
        return found

    def _seen_before(self, sought: Sought) -> list[int]:
        """A host that was found by a similar name lately."""
        host = sought.names and self._cache.peek(('similar', sought.name))
        return [host] if host else []

    def _of_hosts(self, sought: Sought, hosts: Iterable[int]
                  ) -> list[Initiator]:
        """Records of its initiators at these hosts. One call for each."""
        if not self._several:
            return []
        return self._ours(sought.initiators, [
            record for host in sorted(hosts)
            for record in self._records_of([host]) or ()])

    def _similar(self, sought: Sought) -> set[int]:
        """Mapped hosts that may be the one, by their names."""
        if not sought.names:
            return set()
        mapped = {mapping.host for mapping
                  in self._client.mappings.some()[0]}
        return {ref.id for ref in mapped
                if ref is not None and ref.resource == 'hosts'
                and sought.may_have(self._last_name(ref.id))}

    def _last_name(self, host: int) -> str:
        """The name of a host when it was last seen; none if it is gone."""
        try:
            return self._get(host).name
        except rest.NotFound:
            return ''

    def _as_named(self, sought: Sought, host: rest.Host) -> HostInitiators:
        """A host of which the array shows the name only.

        If it is this driver's and mapped, it has its initiators: mapping is
        the last step. If it is not mapped, some may be missing, since a
        service may have been killed.
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

        It is to be created again: an initiator that the array then refuses
        could be another host's as well.

        :returns: the records after it
        """
        if not found.by_name or found.host is None:
            return found
        try:
            self.delete(self._get(found.host))
        except rest.Refused:
            return found
        return HostInitiators(None, missing=found.missing)

    def _shown(self, host: int) -> dict[str, int] | None:
        """The initiators of a host; None if the array does not show them."""
        found = self._initiators_of([host])
        return None if found is None else found.get(host, {})

    def _warn_unverified(self) -> None:
        if not self._told:
            self._told = True
            LOG.warning(
                'The array at %(address)s does not search for %(field)ss: '
                'hosts are found only by name, which could not be'
                ' verified. Make sure that every host has a unique name.',
                {'address': self._client.address, 'field': self._field})

    def _in_any_case(self, initiators: Sequence[str],
                     listed: list[Initiator]) -> list[Initiator]:
        records = self._ours(initiators, listed)
        for record in records:
            self._cache.put(self._name(record).lower(), self._name(record))
        return records

    def _ours(self, initiators: Sequence[str],
              records: list[Initiator]) -> list[Initiator]:
        """Compare again: a foreign record would map to another host."""
        names = {i.lower() for i in initiators}
        return [r for r in records if self._name(r).lower() in names]

    def create(self, name: str) -> int:
        """Create a host (HST-1), or take over one of this driver's.

        The name contains a digest of the initiators, so a host of that name
        without them is one whose registration was interrupted. A reply that
        shows another name does not prove that the id in it is the host's
        (OBJ-7): then it is looked up, in one more call.

        :returns: the host's id
        :raises BadReply: the array has not created such a host
        """
        try:
            host = self._client.hosts.create(name=name, type=self._type)
        except rest.Refused:
            found = self._client.hosts.find(name=name)
            if found is None:
                raise
            host = found
        if host.name != name:
            host = self._created(name)
        self._cache.put(host.id, host)
        return host.id

    def _created(self, name: str) -> rest.Host:
        found = self._client.hosts.find(name=name)
        if found is None:
            raise rest.BadReply(
                f'the reply to the creation of host {name} is about another',
                rest.errors.Place(self._client.address), status=200)
        return found

    def verify(self, host: int, sought: Sought) -> None:
        """Check that an id is not another host's by now (OBJ-7).

        By its name, or by its initiators where an administrator named it. A
        host that was just created may not show yet (OBJ-6). One to three
        calls.

        :raises OtherObject: it is
        """
        named = self._client.hosts.find(name=sought.name)
        if named is not None and named.id == host:
            return
        if host not in (self.owners(sought, [host]) or ()) and (
                named is not None or self._now(host) is not None):
            raise self._other(f'host {sought.name}', host)

    def is_anothers(self, host: rest.Host) -> bool:
        """Whether the id of a host just created belongs to another host.

        A host that does not show yet (OBJ-6) does not. One or two calls.
        """
        found = self._client.hosts.find(name=host.name) or self._now(host.id)
        return found is not None and (found.id, found.name) != (
            host.id, host.name)

    def _now(self, host: int) -> rest.Host | None:
        """The current object with an id."""
        try:
            return self._client.hosts.get(host)
        except rest.NotFound:
            return None

    def is_there(self, host: rest.Host) -> bool:
        """Whether the host of that name still has its id. One call."""
        found = self._client.hosts.find(name=host.name)
        return found is not None and found.id == host.id

    def verify_named(self, host: rest.Host) -> None:
        """As ``verify``, of a host that was seen by its id. One call."""
        if not self.is_there(host):
            raise self._other(f'host {host.name}', host.id)

    def _other(self, what: str, id: int) -> rest.OtherObject:
        return rest.OtherObject(
            f'{what} does not have id {id} any more',
            rest.errors.Place(self._client.address))

    def delete(self, host: rest.Host, outcome: rest.OutcomeCheck | None = None,
               refusal: rest.Refused | None = None) -> None:
        """Delete a host that has no mappings.

        With its initiators, where the array does not delete those. One call,
        and one before it that looks the host up by its name if the id is
        uncertain (OBJ-7).

        :param outcome: whether replies were lost since the host was seen
        :param refusal: that of deleting its initiators before it: the array
            does not delete any, if it now deletes them with their host
        """
        was_there = self._client.hosts.delete(host.id, outcome=outcome,
                                              name=host.name)
        self._cache.drop(host.id)
        if was_there and refusal is not None:
            self._client.capabilities.refuse(self._records.deletion, refusal)

    def delete_whole(self, host: rest.Host,
                     one_by_one: Callable[[rest.OutcomeCheck], None]) -> None:
        """Delete a host that has initiators but no mappings (HST-3).

        :param one_by_one: deletes the initiators, then the host; its argument
            is whether the reply to a deletion of all was lost
        """
        outcome = rest.OutcomeCheck()
        self._client.capabilities.prefer(
            rest.capabilities.WHOLE_HOSTS, lambda: self.delete(host, outcome),
            lambda: one_by_one(outcome))

    def adopt_initiator(self, host: int, record: int, name: str,
                        verify: Callable[[], object]) -> None:
        """Give a host an initiator that the array has seen (INI-2).

        :param verify: checks that the id is still the host's; called when a
            reply is lost
        :raises OtherObject: the host, or the initiator, is another by now
        """
        def verify_both() -> None:
            verify()
            self._verify_record(host, record, name)
        try:
            self._records.update(record, host=self._client.hosts.ref(host),
                                 verify=verify_both)
        except rest.OtherObject:
            raise
        except rest.Refused:
            self._register(host, name, verify)

    def add_initiators(self, host: int, names: Sequence[str],
                       verify: Callable[[], object]) -> dict[str, int]:
        """Give a host initiators that the array does not know (INI-2).

        One call if the array offers bulk calls, else one for each. After an
        error some may be there (BLK-4).

        :param verify: as for ``adopt_initiator``
        :returns: by name: ids of their records, where the array shows them
        :raises OtherObject: the host is another by now
        """
        ref = self._client.hosts.ref(host)
        made = self._records.create_many(
            [{self._field: name, 'host': ref} for name in names],
            verify=verify, needs_ids=False)
        self._cache.put(('registered', host), self._get(host).name)
        self._records.prove(**{self._field: names[0]})
        return {name: record.id for name, record
                in zip(names, made, strict=True) if record.id}

    def _register(self, host: int, name: str, verify: Callable[[], object]
                  ) -> None:
        self._records.create_many([{
            self._field: name, 'host': self._client.hosts.ref(host)}],
            verify=verify, needs_ids=False)

    def release_initiator(self, host: int, name: str) -> None:
        """Remove an initiator from a host but keep its record.

        Only if it is still that host's. One call, and one before it that looks
        the initiator up (OBJ-7).
        """
        found = self._record(name)
        if found is not None and found.host == self._client.hosts.ref(host):
            self._records.update(
                found.id, host=None, verify=lambda: self._verify_record(
                    host, found.id, name))

    def _record(self, name: str) -> Initiator | None:
        """The record of an initiator. One call where it is searched for."""
        return next(iter(self._by_spelling([name]) or ()), None)

    def _verify_record(self, host: int, record: int, name: str) -> None:
        """Check that a record is still that of an initiator, and free.

        It may be the host's already.

        :raises OtherObject: it is not (OBJ-7), or the array cannot show it
        """
        if not any(found.id == record
                   and found.host in (None, self._client.hosts.ref(host))
                   for found in self._verified([name])):
            raise self._other(f'{self._field} {name}', record)

    def _verified(self, initiators: Sequence[str]) -> list[Initiator]:
        """Records of initiators, after a lost reply.

        :raises OtherObject: the array cannot show it
        """
        found = self._by_spelling(initiators)
        if found is None:
            raise rest.OtherObject(
                f'which records {", ".join(initiators)} have now cannot be '
                'looked up', rest.errors.Place(self._client.address))
        return found

    def remove_initiators(self, host: int, records: Mapping[str, int],
                          outcome: rest.OutcomeCheck | None = None
                          ) -> rest.Refused | None:
        """Delete records of a host's initiators, by name.

        As many calls as to add them. Where the array does not delete them they
        stay, and the host is deleted with them, as the in-tree driver does. So
        do those that may be another host's, or another initiator's, since a
        reply was lost (OBJ-7).

        :param outcome: whether replies were lost since the initiators were
            seen; unknown afterwards if one was
        :returns: the array's refusal, if it refused
        """
        try:
            self._records.delete_many(
                {record: {} for record in records.values()}, outcome=outcome,
                find=lambda: self._still_of(host, records))
        except rest.OtherObject as error:
            LOG.warning('Initiators of host %(host)s stay on the array: '
                        '%(error)s', {'host': host, 'error': error})
        except rest.Refused as refusal:
            return refusal
        return None

    def still_new(self, host: int, made: Mapping[str, int | None]
                  ) -> dict[str, int]:
        """Records of initiators that a host has just been given. One call.

        One that does not show yet (OBJ-6), or never does, is known by the id
        in the reply, unless that is seen to be another's (OBJ-7), in one more
        call for each.

        :param made: by name: that id, if there was a reply
        """
        shown = {name.lower(): record
                 for name, record in self.initiators(host).items()}
        found = {name: shown.get(name.lower(), record)
                 for name, record in made.items()}
        return {name: record for name, record in found.items()
                if record is not None and (
                    name.lower() in shown
                    or self._may_be(record, name))}

    def _may_be(self, record: int, name: str) -> bool:
        """Whether a record may be that of an initiator, as far as it shows."""
        try:
            found = self._name(self._records.get(record))
            return found.lower() == name.lower()
        except (rest.NotFound, rest.NotOffered, rest.Incomplete):
            return True

    def _still_of(self, host: int, records: Mapping[str, int]) -> set[int]:
        """Those of the records that are these initiators of a host.

        :raises OtherObject: the array cannot show it
        """
        ref = self._client.hosts.ref(host)
        return {record.id for record in self._verified(list(records))
                if record.host == ref}

    def initiators(self, host: int) -> dict[str, int]:
        """The host's initiators: name as the array has it, record id.

        None where the array does not show them.
        """
        return self._shown(host) or {}

    def initiators_of(self, hosts: Iterable[int]
                      ) -> dict[int, dict[str, int]]:
        """As ``initiators``, for hosts that have any. One call."""
        return self._initiators_of(hosts) or {}

    def _initiators_of(self, hosts: Iterable[int]
                       ) -> dict[int, dict[str, int]] | None:
        """By id of the host; None if the array has no way to tell."""
        found = self._records_of(hosts)
        return None if found is None else self._by_host(found)

    def _records_of(self, hosts: Iterable[int]) -> list[Initiator] | None:
        """Records of their initiators; None if the array does not tell."""
        refs = [self._client.hosts.ref(host) for host in hosts]
        try:
            return self._records.search(rest.query.one_of('host', refs))
        except (rest.NotOffered, rest.Incomplete):
            listed = self._listed()
        return None if listed is None else [
            r for r in listed if r.host in refs]

    def ours(self, host: int) -> rest.Host | None:
        """The host if this driver named it and so may delete it. One call.

        The id may have become another host's.
        """
        found = self._read(host)
        return found if naming.is_our_host(found.name) else None

    def named(self, host: int) -> str:
        """The present name of a host; none if it is gone. One call."""
        try:
            return self._read(host).name
        except rest.NotFound:
            return ''

    def _read(self, host: int) -> rest.Host:
        found = self._client.hosts.get(host)
        self._cache.put(host, found)
        return found

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
