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

"""Hosts that are found by name.

Where the array does not search for initiators, a host is found by the names
that drivers give it, as the in-tree driver does. Its initiators are compared
where the array shows those of a host.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from oslo_log import log as logging

from cinder_k2.array import host_identity
from cinder_k2.array import initiators
from cinder_k2.array import known_hosts
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class NamedHosts:
    """Hosts by their names and by similar names.

    :param records: the array's records of their initiators
    :param known: cache of the hosts that are found
    """

    def __init__(self, client: rest.Client, records: initiators.Initiators,
                 known: known_hosts.KnownHosts) -> None:
        self._client = client
        self._records = records
        self._known = known
        self._told = False

    def locate(self, sought: host_identity.Sought, names: Iterable[str]
               ) -> host_identity.HostInitiators:
        """Find a host by the names that drivers give to hosts.

        Its initiators are compared if the array shows them. A host with its
        own name but without initiators is found only if no other host has
        them. Calls as for ``candidates``, and one more if the array shows only
        the name of a host of this driver.
        """
        empty: host_identity.HostInitiators | None = None
        for host, shown in self.candidates(sought, names):
            if shown is None:
                return empty or self._as_named(sought, host)
            has = {initiator.lower() for initiator in shown}
            found = host_identity.HostInitiators(host.id, missing=tuple(
                i for i in sought.initiators if i.lower() not in has))
            if shown:
                return found
            empty = found
        return empty or host_identity.HostInitiators(
            None, missing=tuple(sought.initiators))

    def owners(self, sought: host_identity.Sought
               ) -> dict[int, dict[str, int]]:
        """Find the host with one of the names, and its initiators, if shown.

        A host with its own name but without initiators, which a killed
        service left, is included, and the search continues. Calls as for
        ``candidates``.
        """
        owners: dict[int, dict[str, int]] = {}
        for host, shown in self.candidates(sought,
                                           (*sought.names, *sought.former)):
            owners[host.id] = shown or {}
            if shown != {}:
                break
        return owners

    def candidates(self, sought: host_identity.Sought, names: Iterable[str]
                   ) -> Iterator[tuple[rest.Host, dict[str, int] | None]]:
        """Yield hosts with these names, except those seen to be other hosts.

        With their initiators, None if the array does not show them. One call
        for each name, and one for each host that has it.
        """
        for name in names:
            host = self._client.hosts.find(name=name)
            if host is None:
                continue
            self._known.put(host)
            shown = self._records.of_host(host.id)
            if shown is None:
                self._warn_unverified()
            if (shown is None or sought.has_any(shown)
                    or not shown and name == sought.name):
                yield host, shown

    def _as_named(self, sought: host_identity.Sought, host: rest.Host
                  ) -> host_identity.HostInitiators:
        """Describe a host of which the array shows only the name.

        If it is this driver's and mapped, it has its initiators: mapping is
        always the last step. If it is not mapped, some may be missing, since a
        service may have been killed.
        """
        if (self._known.is_registered(host)
                or not naming.is_our_host(host.name)):
            return host_identity.HostInitiators(host.id, by_name=True)
        if self._client.mappings.some(host=host.ref)[0]:
            self._known.put_registered(host)
            return host_identity.HostInitiators(host.id, by_name=True)
        return host_identity.HostInitiators(
            host.id, missing=sought.initiators, by_name=True)

    def _warn_unverified(self) -> None:
        if not self._told:
            self._told = True
            LOG.warning(
                'The array at %(address)s does not search for %(field)ss: '
                'hosts are found only by name, which could not be'
                ' verified. Make sure that every host has a unique name.',
                {'address': self._client.address,
                 'field': self._records.field})

    def by_similar_name(self, sought: host_identity.Sought
                        ) -> list[initiators.Initiator]:
        """Records of its initiators at hosts whose names differ in the digest.

        Such a host was registered with other initiators (HST-1). Only mapped
        ones are found, by their mappings: not every array lists hosts. One
        call, one for each mapped host that was not seen lately, and one for
        each whose initiators are compared. No call where a host has only one
        initiator.
        """
        if not self._records.several:
            return []
        found = self._records.at_hosts(sought.initiators,
                                       self._similar(sought))
        for host in self._records.by_host(found):
            self._known.put_similar(sought.name, host)
        return found

    def seen_before(self, sought: host_identity.Sought) -> list[int]:
        """A host that was found by a similar name lately. No call."""
        host = sought.names and self._known.similar(sought.name)
        return [host] if host else []

    def _similar(self, sought: host_identity.Sought) -> set[int]:
        """Mapped hosts that may be the one, by their names."""
        if not sought.names:
            return set()
        mapped = {mapping.host for mapping
                  in self._client.mappings.some()[0]}
        return {ref.id for ref in mapped
                if ref is not None and ref.resource == 'hosts'
                and sought.may_have(self._last_name(ref.id))}

    def _last_name(self, host: int) -> str:
        """The name of a host when it was last seen; '' if it is gone."""
        try:
            return self._known.get(host).name
        except rest.NotFound:
            return ''
