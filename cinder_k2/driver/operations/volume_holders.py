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

"""Which host has a volume, where the array does not show the initiators."""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import typing

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import hosts as array_hosts
from cinder_k2 import exceptions
from cinder_k2 import rest


class VolumeHolders:
    """Looks among the hosts and host groups that have a volume.

    For a detach on an array that does not show which host an initiator belongs
    to, or which group a host belongs to: a host that cannot be identified may
    have the volume.
    """

    def __init__(self, array: Array, registry: array_hosts.Hosts) -> None:
        self._array = array
        self._registry = registry

    def owners(self, backing: ArrayVolume | None, sought: host_identity.Sought,
               others: Iterable[host_identity.Sought] = ()
               ) -> Mapping[int, Mapping[str, int]]:
        """Find a host among those that have a volume.

        For a host that was not found by its names, or was found without the
        volume: an empty host may have the first of them. It is identified by
        the initiators that the array shows for those that have the volume,
        else by their names. One call, and up to two for each of them.

        :param others: hosts that have it for other attachments
        :returns: as ``Hosts.owners``; nothing if it does not have the volume
        :raises HostUnknown: it may have it
        """
        if backing is None:
            return {}
        holders = self._holders(backing)
        shown = self._registry.initiators_of(
            holder.id for holder in holders if _is_host(holder))
        owners = {host: initiators for host, initiators in shown.items()
                  if sought.has_any(initiators)}
        return owners or self._by_name(backing, sought, [
            holder for holder in holders
            if not (_is_host(holder) and holder.id in shown)], others)

    def group_of(self, host: int, backing: ArrayVolume | None
                 ) -> rest.Ref | None:
        """The host group through which a host may have a volume.

        One call more if the array does not show the host's group.

        :raises HostUnknown: it does not, and some group has the volume
        """
        try:
            return self._array.mappings.group_of(host)
        except exceptions.HostUnknown as error:
            if backing is not None and any(
                    holder is None or holder.resource == 'host_groups'
                    for holder in self._holders(backing)):
                self._check_unmapped(backing, str(error))
            return None

    def _by_name(self, backing: ArrayVolume, sought: host_identity.Sought,
                 holders: Iterable[rest.Ref | None],
                 others: Iterable[host_identity.Sought]
                 ) -> Mapping[int, Mapping[str, int]]:
        """Find a host by its names, those of this driver first.

        One call for each host that has the volume, and two or more for this
        and each other one if a host group has it.

        :param holders: the hosts and host groups that have it, except hosts
            that the array shows to have other initiators
        :raises HostUnknown: it may have it
        """
        holders, others = list(holders), list(others)
        named = {self._registry.named(holder.id): holder
                 for holder in holders if _is_host(holder)}
        theirs = {name for other in others
                  for name in (*other.names, *other.former)}
        for name in (*sought.names[:1], *sought.former, *sought.names[1:]):
            if name in named and name not in theirs:
                return {named[name].id: {}}
        groups = {holder for holder in holders if not _is_host(holder)}
        for host, group in self._groups(sought).items() if groups else ():
            if group in groups:
                return {host: {}}
        of_others = {group for other in others if groups
                     for group in self._groups(other).values()}
        if not (named.keys() <= theirs and groups <= of_others):
            self._check_unmapped(backing, (
                f'The array at {self._array.address} does not show which '
                f'host has {", ".join(sought.initiators)}, and none is named '
                f'{" or ".join(sought.names)}.'))
        return {}

    def _groups(self, sought: host_identity.Sought) -> dict[int, rest.Ref]:
        """By id of each host that may be this one: its host group, if any."""
        found = {}
        for host in self._registry.candidates(sought) or ():
            with contextlib.suppress(exceptions.HostUnknown):
                group = self._array.mappings.group_of(host)
                if group is not None:
                    found[host] = group
        return found

    def _holders(self, backing: ArrayVolume) -> list[rest.Ref | None]:
        """The hosts and host groups that have a volume. One call."""
        return [mapping.host for mapping in
                self._array.mappings.of_volumes(backing.mappable)]

    def _check_unmapped(self, backing: ArrayVolume, why: str) -> None:
        """Check that a volume is not left mapped to what may be the host.

        :param why: why the host is not known, for the error
        :raises HostUnknown: it may be
        """
        try:
            self._array.volumes.check_unmapped(backing)
        except exceptions.StillMapped as mapped:
            raise exceptions.HostUnknown(
                f'{why} {mapped} It stays mapped. A forced detach unmaps it '
                'from all hosts and host groups.') from mapped


def _is_host(holder: rest.Ref | None) -> typing.TypeGuard[rest.Ref]:
    """Whether what has a volume is a host and not a host group."""
    return holder is not None and holder.resource == 'hosts'
