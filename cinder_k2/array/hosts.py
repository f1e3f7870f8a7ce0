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

A host is found by its initiators (section 5.3 of the API rules). If the array
does not search for initiators, the host is found by its name, as in the
in-tree driver. If the array then refuses its initiators because another host
has them, that host is looked for among the mapped hosts with similar names,
whose initiators the array may show.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Set
import dataclasses

from cinder_k2.array import host_identity
from cinder_k2.array import initiators
from cinder_k2.array import known_hosts
from cinder_k2.array import named_hosts
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

#: Type of a host if the operator does not choose one (section 5.1).
TYPE = 'Linux'


class Hosts:
    """Hosts of one transport.

    :param kind: the kind of their initiators
    :param host_type: type of the hosts that are created
    :ivar records: the array's records of their initiators
    """

    def __init__(self, client: rest.Client,
                 kind: host_identity.InitiatorKind,
                 host_type: str = TYPE) -> None:
        self._client = client
        self._type = host_type
        self._known = known_hosts.KnownHosts(client)
        self.records = initiators.Initiators(client, kind, self._known)
        self._named = named_hosts.NamedHosts(client, self.records,
                                             self._known)

    def locate(self, sought: host_identity.Sought
               ) -> host_identity.HostInitiators:
        """Find a host by its initiators. One call.

        They are searched for as given, in lower case, and as the array was
        seen to write them: it keeps the spelling that it was given (INI-5),
        and its search is case-sensitive (QRY-5). An array that does not search
        for initiators is searched for the host's names, in a call for each.

        :raises HostConflict: they belong to more than one host
        """
        found = self.records.search(sought.initiators)
        if found is not None:
            return dataclasses.replace(self._describe(sought, found),
                                       searched=True)
        former = self._known.has_former_name(sought.initiators)
        named = self._named.locate(sought, (
            *sought.names, *(sought.former if former else ())))
        if named.host is not None:
            return named
        return self._describe(sought, self.records.at_hosts(
            sought.initiators, self._named.seen_before(sought)))

    def locate_taken(self, sought: host_identity.Sought
                     ) -> host_identity.HostInitiators:
        """Find the host of initiators that the array refused as in use.

        ``locate`` has not found it. The array has the initiators in another
        spelling; or it does not search for them, and they are at a host with
        the in-tree driver's name, a former name or a similar one.

        :raises HostConflict: they belong to more than one host
        """
        found = self.records.in_any_case(sought.initiators)
        if found is not None:
            return self._describe(sought, found)
        if not self.records.several:
            # An empty host with the driver's own name, which has been deleted
            # since, took precedence over this one.
            named = self._named.locate(sought, sought.names[1:])
            if named.host is not None:
                return named
        named = self._named.locate(sought, sought.former)
        if named.host is not None:
            self._known.put_former_name(sought.initiators)
            return named
        return self._describe(sought, self._named.by_similar_name(sought))

    def owners(self, sought: host_identity.Sought, also: Iterable[int] = ()
               ) -> dict[int, dict[str, int]] | None:
        """Hosts that have some of these initiators, and which they have.

        :param also: ids of hosts to compare as well, where the array does not
            show whose these initiators are
        :returns: by id of the host: its initiators as the array has them, with
            the ids of their records; empty where the array does not show
            these. None if it does not show whose these initiators are, and no
            host is found by name
        """
        shown = self._owners_shown(sought)
        if shown is not None:
            return shown
        named = self._named.owners(sought)
        others = {*also, *(() if named else self._named.seen_before(sought))}
        return named | self._others(sought, others - named.keys()) or None

    def candidates(self, sought: host_identity.Sought) -> Set[int] | None:
        """Ids of hosts that may be this one; None if any host may be.

        Where the array does not show whose the initiators are: all hosts that
        have one of its names, since a killed service may have left the first.
        """
        shown = self._owners_shown(sought)
        if shown is not None:
            return shown.keys()
        named = {host.id: has for host, has in self._named.candidates(
            sought, (*sought.names, *sought.former))}
        if any(has != {} for has in named.values()):
            return named.keys()
        return self._others(
            sought, self._named.seen_before(sought)).keys() or None

    def _owners_shown(self, sought: host_identity.Sought
                      ) -> dict[int, dict[str, int]] | None:
        """As ``owners``, as far as the array shows whose initiators are."""
        found = self.records.search(sought.initiators)
        if found is not None and not found:
            found = self.records.in_any_case(sought.initiators)
        return None if found is None else self.records.by_host(found)

    def similar(self, sought: host_identity.Sought) -> set[int]:
        """Mapped hosts of similar names that have some of its initiators.

        No call if a host has only one initiator (iSCSI). Else one call, one
        for each mapped host that was not seen lately, and one for each host
        whose initiators are compared.
        """
        return set(self.records.by_host(self._named.by_similar_name(sought)))

    def _others(self, sought: host_identity.Sought, hosts: Iterable[int]
                ) -> dict[int, dict[str, int]]:
        """Select the hosts that are the sought one. One call for each."""
        if self.records.several:
            return self.records.by_host(
                self.records.at_hosts(sought.initiators, hosts))
        return {host: {} for host in sorted(hosts) if self.named(host) in (
            *sought.names, *sought.former)}

    def _describe(self, sought: host_identity.Sought,
                  records: list[initiators.Initiator]
                  ) -> host_identity.HostInitiators:
        owners = {r.host.id for r in records if r.host is not None}
        if len(owners) > 1:
            raise exceptions.HostConflict(self._conflict(records))
        name = self.records.name
        has = {name(record).lower() for record in records}
        return host_identity.HostInitiators(
            host=owners.pop() if owners else None,
            loose={name(r): r.id for r in records if r.host is None},
            missing=tuple(i for i in sought.initiators
                          if i.lower() not in has))

    def _conflict(self, records: list[initiators.Initiator]) -> str:
        owned = ', '.join(
            f'{self.records.name(r)} to {self._known.get(r.host.id).name}'
            for r in records if r.host is not None)
        return ('The initiators of one host belong to several hosts on the '
                f'array: {owned}. Give them all to one host on the array.')

    def initiators(self, host: int) -> dict[str, int]:
        """The host's initiators: name as the array has it, record id.

        Empty if the array does not show them. One call.
        """
        return self.records.of_host(host) or {}

    def initiators_of(self, hosts: Iterable[int]
                      ) -> dict[int, dict[str, int]]:
        """As ``initiators``, for hosts that have any. One call."""
        return self.records.of_hosts(hosts) or {}

    def ours(self, host: int) -> rest.Host | None:
        """The host if this driver named it and so may delete it. One call.

        The id may have become another host's.

        :raises NotFound: it is gone
        """
        found = self._known.read(host)
        return found if naming.is_our_host(found.name) else None

    def named(self, host: int) -> str:
        """The current name of a host; '' if it is gone. One call."""
        try:
            return self._known.read(host).name
        except rest.NotFound:
            return ''

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
        self._known.put(host)
        return host.id

    def _created(self, name: str) -> rest.Host:
        found = self._client.hosts.find(name=name)
        if found is None:
            raise rest.BadReply(
                f'the reply to the creation of host {name} is about another',
                rest.errors.Place(self._client.address), status=200)
        return found

    def verify(self, host: int, sought: host_identity.Sought) -> None:
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
            raise self._other(sought.name, host)

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
            raise self._other(host.name, host.id)

    def _other(self, name: str, id: int) -> rest.OtherObject:
        return rest.OtherObject(
            f'host {name} does not have id {id} any more',
            rest.errors.Place(self._client.address))

    def clear(self, found: host_identity.HostInitiators
              ) -> host_identity.HostInitiators:
        """Delete a host that was found by name and may lack its initiators.

        The caller creates it again: while it exists, an initiator that the
        array refuses may be its own or another host's.

        :returns: what the array has of the host afterwards
        """
        if not found.by_name or found.host is None:
            return found
        try:
            self.delete(self._known.get(found.host))
        except rest.Refused:
            return found
        return host_identity.HostInitiators(None, missing=found.missing)

    def delete(self, host: rest.Host, outcome: rest.OutcomeCheck | None = None,
               refusal: rest.Refused | None = None) -> None:
        """Delete a host that has no mappings.

        An array that does not delete initiators deletes them with the host.
        One call, and one before it that looks the host up by its name if the
        id is uncertain (OBJ-7).

        :param outcome: whether replies were lost since the host was seen
        :param refusal: the array's refusal to delete the initiators first; if
            the host can be deleted with them, the array is taken not to delete
            initiators
        """
        was_there = self._client.hosts.delete(host.id, outcome=outcome,
                                              name=host.name)
        self._known.drop(host.id)
        if was_there and refusal is not None:
            self.records.note_undeletable(refusal)

    def delete_whole(self, host: rest.Host,
                     one_by_one: Callable[[rest.OutcomeCheck], None]) -> None:
        """Delete a host that has initiators but no mappings (HST-3).

        :param one_by_one: deletes the initiators, then the host; its argument
            is whether the reply to a deletion of all was lost
        """
        outcome = rest.OutcomeCheck()
        self._client.attempts.prefer(
            rest.capability_names.WHOLE_HOSTS,
            lambda: self.delete(host, outcome),
            lambda: one_by_one(outcome))
