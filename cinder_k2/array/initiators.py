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

"""Initiators as the array records them (section 5.3 of the API rules).

IQNs and WWPNs are compared without regard to case (INI-4, INI-5). Not every
array searches for initiators, lists them, or deletes them.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from cinder_k2.array import cache
from cinder_k2.array import host_identity
from cinder_k2.array import known_hosts
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

Initiator = rest.HostIqn | rest.HostFcPort


class Initiators:
    """The array's records of the initiators of one kind.

    :param known: cache of the hosts that were given initiators
    :ivar field: the field that identifies an initiator
    :ivar several: a host has several of them; see ``InitiatorKind``
    """

    def __init__(self, client: rest.Client, kind: host_identity.InitiatorKind,
                 known: known_hosts.KnownHosts) -> None:
        self._client = client
        self._known = known
        self.field = kind.field
        self.several = kind.several
        self._records: rest.Collection[Initiator] = (
            getattr(client, kind.resource))
        self._spellings = cache.Cache()

    def search(self, initiators: Sequence[str]) -> list[Initiator] | None:
        """Records of initiators; None if the array cannot show them.

        One call. They are searched for as given, in lower case, and as the
        array was seen to write them (QRY-5).
        """
        spellings = {s for i in initiators for s in (
            i, i.lower(), self._spellings.peek(i.lower()) or i)}
        try:
            return self._ours(initiators, self._records.search(
                rest.query.one_of(self.field, sorted(spellings))))
        except (rest.NotOffered, rest.Incomplete):
            listed = self.listed()
            return None if listed is None else self._ours(initiators, listed)

    def listed(self) -> list[Initiator] | None:
        """Records of all initiators; None if the array cannot list them."""
        try:
            return self._records.search()
        except (rest.NotOffered, rest.Incomplete):
            return None

    def in_any_case(self, initiators: Sequence[str]
                    ) -> list[Initiator] | None:
        """Records of initiators in any spelling, which is remembered.

        One call. None if the array cannot list initiators.
        """
        listed = self.listed()
        if listed is None:
            return None
        records = self._ours(initiators, listed)
        for record in records:
            self._spellings.put(self.name(record).lower(), self.name(record))
        return records

    def at_hosts(self, initiators: Sequence[str], hosts: Iterable[int]
                 ) -> list[Initiator]:
        """Records of initiators at these hosts. One call for each host.

        Empty, without a call, if a host has only one initiator (iSCSI).
        """
        if not self.several:
            return []
        return self._ours(initiators, [
            record for host in sorted(hosts)
            for record in self._records_of([host]) or ()])

    def of_host(self, host: int) -> dict[str, int] | None:
        """The initiators of a host: name as the array has it, record id.

        One call. None if the array does not show them.
        """
        found = self._records_of([host])
        return None if found is None else self.by_host(found).get(host, {})

    def of_hosts(self, hosts: Iterable[int]
                 ) -> dict[int, dict[str, int]] | None:
        """As ``of_host``, by id of the host; hosts without any are left out.

        One call for all.
        """
        found = self._records_of(hosts)
        return None if found is None else self.by_host(found)

    def _records_of(self, hosts: Iterable[int]) -> list[Initiator] | None:
        """Records of hosts' initiators; None if the array cannot show them."""
        refs = [self._client.hosts.ref(host) for host in hosts]
        try:
            return self._records.search(rest.query.one_of('host', refs))
        except (rest.NotOffered, rest.Incomplete):
            listed = self.listed()
        return None if listed is None else [
            r for r in listed if r.host in refs]

    def by_host(self, records: Iterable[Initiator]
                ) -> dict[int, dict[str, int]]:
        """Sort records by id of the host; those without one are left out."""
        found: dict[int, dict[str, int]] = {}
        for record in records:
            if record.host is not None:
                found.setdefault(record.host.id, {})[
                    self.name(record)] = record.id
        return found

    def name(self, record: Initiator) -> str:
        """The IQN or WWPN of a record, as the array has it."""
        return str(getattr(record, self.field))

    def _ours(self, initiators: Sequence[str],
              records: list[Initiator]) -> list[Initiator]:
        """Compare again: a foreign record would lead to another host."""
        names = {i.lower() for i in initiators}
        return [r for r in records if self.name(r).lower() in names]

    def adopt(self, host: int, record: int, name: str,
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
            self._records.create_many(
                [{self.field: name, 'host': self._client.hosts.ref(host)}],
                verify=verify, needs_ids=False)

    def add(self, host: int, names: Sequence[str],
            verify: Callable[[], object]) -> dict[str, int]:
        """Give a host initiators that the array does not know (INI-2).

        One call if the array offers bulk calls, else one for each. After an
        error some may be there (BLK-4).

        :param verify: as for ``adopt``
        :returns: by name: ids of their records, where the array shows them
        :raises OtherObject: the host is another by now
        """
        ref = self._client.hosts.ref(host)
        made = self._records.create_many(
            [{self.field: name, 'host': ref} for name in names],
            verify=verify, needs_ids=False)
        self._known.put_registered(self._known.get(host))
        self._records.prove(**{self.field: names[0]})
        return {name: record.id for name, record
                in zip(names, made, strict=True) if record.id}

    def release(self, host: int, name: str) -> None:
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
        return next(iter(self.search([name]) or ()), None)

    def _verify_record(self, host: int, record: int, name: str) -> None:
        """Check that a record is still that of an initiator.

        It must belong to the host already, or to none.

        :raises OtherObject: it is not (OBJ-7), or the array cannot show it
        """
        if not any(found.id == record
                   and found.host in (None, self._client.hosts.ref(host))
                   for found in self._verified([name])):
            raise rest.OtherObject(
                f'{self.field} {name} does not have id {record} any more',
                rest.errors.Place(self._client.address))

    def _verified(self, initiators: Sequence[str]) -> list[Initiator]:
        """Records of initiators, after a lost reply.

        :raises OtherObject: the array cannot show it
        """
        found = self.search(initiators)
        if found is None:
            raise rest.OtherObject(
                f'which records {", ".join(initiators)} have now cannot be '
                'looked up', rest.errors.Place(self._client.address))
        return found

    def remove(self, host: int, records: Mapping[str, int],
               outcome: rest.OutcomeCheck | None = None
               ) -> rest.Refused | None:
        """Delete the records of a host's initiators.

        As many calls as to add them. If the array does not delete initiators
        they stay, and the host is deleted with them, as in the in-tree driver.
        After a lost reply, records that may be another host's or another
        initiator's by now (OBJ-7) stay, too.

        :param records: ids of the records, by name of the initiator
        :param outcome: whether replies were lost since the initiators were
            seen; open afterwards if one was
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

    def note_undeletable(self, refusal: rest.Refused) -> None:
        """Store that the array does not delete initiators.

        :param refusal: as returned by ``remove``
        """
        self._client.capabilities.refuse(self._records.deletion, refusal)

    def still_new(self, host: int, made: Mapping[str, int | None]
                  ) -> dict[str, int]:
        """Records of initiators that a host has just been given. One call.

        One that does not show yet (OBJ-6), or never does, is identified by the
        id in the reply, unless that is seen to be another's (OBJ-7). This
        takes one more call for each.

        :param made: by name: the id in the reply, None without a reply
        """
        shown = {name.lower(): record
                 for name, record in (self.of_host(host) or {}).items()}
        found = {name: shown.get(name.lower(), record)
                 for name, record in made.items()}
        return {name: record for name, record in found.items()
                if record is not None and (
                    name.lower() in shown
                    or self._may_be(record, name))}

    def _may_be(self, record: int, name: str) -> bool:
        """Whether a record may be that of an initiator, as far as it shows."""
        try:
            found = self.name(self._records.get(record))
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
