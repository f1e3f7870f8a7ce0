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

"""Mappings: which host sees which volume, under which LUN."""

from collections.abc import Callable
from collections.abc import Iterable
import dataclasses

from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2 import polling
from cinder_k2 import rest

# Seconds within which the array shows the LUN of a new mapping.
_PATIENCE = 10.0


@dataclasses.dataclass(frozen=True)
class Unmapped:
    """What unmapping a volume from a host has found.

    :ivar found: the volume was mapped to the host itself, not to its group
    :ivar busy: other volumes are still mapped to the host itself
    """

    found: bool
    busy: bool


class Mappings:
    """Mappings of volumes and views to hosts and host groups."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def map(self, volume: objects.ArrayVolume, host: int, *,
            look_first: bool = False,
            verify: Callable[[], object] | None = None) -> int:
        """Map a volume to a host; returns the LUN. Usually one call.

        A host that is a member of a host group gets it through the group
        (MAP-6).

        :param look_first: the mapping probably exists already, so search
            before requesting it (MAP-8)
        :param verify: called when the reply is lost; raises rest.OtherObject
            if the id is another host's by now (OBJ-7)
        :raises WaitTimeout: the array shows no LUN within ten seconds
        """
        ref = self._client.hosts.ref(host)
        if look_first:
            found = self._find(volume, ref)
            if found is not None:
                return self._lun(volume, found, ref)
        try:
            return self._lun(volume, self._client.mappings.create(
                host=ref, volume=volume.mappable, verify=verify), ref)
        except rest.OtherObject:
            raise
        except rest.Refused:
            found = self._find(volume, ref)
            if found is not None:
                return self._lun(volume, found, ref)
            group = self._client.hosts.get(host).host_group
            if group is None:
                raise
            return self._lun(
                volume, self._find(volume, group)
                or self._client.mappings.create(
                    host=group, volume=volume.mappable, verify=verify), group)

    def unmap(self, volume: objects.ArrayVolume | None, host: int, *,
              shared: bool = False) -> Unmapped:
        """Unmap a volume from a host. Two calls in the normal case.

        All mappings of the volume to the host are removed.

        :param volume: None if the array no longer has it; then only ``busy``
            of the result matters
        :param shared: concurrent operations unmap other volumes from the host,
            so ``busy`` is determined at the end, in one more call
        """
        ref = self._client.hosts.ref(host)
        mappings, complete = self._client.mappings.some(host=ref)
        ours = [m for m in mappings if volume and m.volume == volume.mappable]
        if volume and not ours and not (complete and all(
                m.volume for m in mappings)):
            ours = self._client.mappings.search(host=ref,
                                                volume=volume.mappable)
        if volume:
            self._delete(ours, ref, volume)
        # Entries of volsnaps do not count: those of this view are removed with
        # its own entry (MAP-4), and another view has an entry of its own.
        gone = {m.id for m in ours}
        others = [m for m in mappings if m.id not in gone]
        busy = not complete or any(
            m.volume and m.volume.resource != 'volsnaps' for m in others)
        if not busy and any(m.volume is None for m in others):
            # The array does not show whether these entries were removed with
            # that of the view.
            busy = self.is_mapped(host)
        if busy and shared:
            busy = self.is_mapped(host)
        return Unmapped(found=bool(ours), busy=busy)

    def is_mapped(self, host: int) -> bool:
        """Whether anything is mapped to the host itself."""
        return self._may_have_mapping('host', self._client.hosts.ref(host))

    def group_of(self, host: int) -> rest.Ref | None:
        """The host group that a host is a member of, None without one.

        :raises HostUnknown: the array does not show it
        """
        found = self._client.hosts.get(host)
        if not found.tells('host_group'):
            raise exceptions.HostUnknown(
                f'The array at {self._client.address} does not show whether '
                f'host {found.name} is in a host group.')
        return found.host_group

    def unmap_from_group(self, volume: objects.ArrayVolume,
                         group: rest.Ref) -> None:
        """Unmap a volume from a host group."""
        self._delete(self._client.mappings.search(
            host=group, volume=volume.mappable), group, volume)

    def of_volumes(self, *mappable: rest.Ref) -> list[rest.Mapping]:
        """The mappings of volumes or views. One call."""
        found = self._client.mappings.search(
            rest.query.one_of('volume', mappable))
        # Add the volume, where the array does not show it.
        return [dataclasses.replace(mapping, volume=mappable[0])
                if mapping.volume is None and len(mappable) == 1 else mapping
                for mapping in found]

    def by_host(self, mappings: Iterable[rest.Mapping], *,
                groups_too: bool = True) -> dict[int, list[rest.Mapping]]:
        """Sort mappings by their hosts.

        :param groups_too: delete the mappings of host groups, in one more call
        :returns: by id of the host: its mappings
        """
        hosts: dict[int, list[rest.Mapping]] = {}
        of_groups = []
        for mapping in mappings:
            if mapping.host and mapping.host.resource == 'hosts':
                hosts.setdefault(mapping.host.id, []).append(mapping)
            else:
                of_groups.append(mapping)
        if groups_too:
            self.delete(of_groups)
        return hosts

    def mapped(self, volumes: Iterable[int]) -> set[int]:
        """The volumes that are mapped to a host or host group. One call.

        All of them if the array does not show which.
        """
        return self._mapped('volume', map(self._client.volumes.ref, volumes))

    def delete(self, mappings: Iterable[rest.Mapping]) -> None:
        """Delete mappings; those already deleted are no error."""
        self._client.mappings.delete_many({
            mapping.id: {'host': mapping.host, 'volume': mapping.volume}
            for mapping in mappings})

    def hosts_in_use(self, hosts: Iterable[int]) -> set[int]:
        """The hosts to which something is mapped. One call.

        All of them if the array does not show which.
        """
        return self._mapped('host', map(self._client.hosts.ref, hosts))

    def _mapped(self, field: str, refs: Iterable[rest.Ref]) -> set[int]:
        """The values that a field of some mapping has, or may have.

        One call, and one more for each value missing from a partial list.
        """
        refs = set(refs)
        mappings, complete = self._client.mappings.some(
            rest.query.one_of(field, refs))
        found = {getattr(mapping, field) for mapping in mappings}
        return {ref.id for ref in refs
                if ref in found or None in found
                or not complete and self._may_have_mapping(field, ref)}

    def _may_have_mapping(self, field: str, ref: rest.Ref) -> bool:
        """Whether there is a mapping of that host or volume. One call."""
        found, complete = self._client.mappings.some(**{field: ref})
        return bool(found) or not complete

    def _delete(self, mappings: Iterable[rest.Mapping], host: rest.Ref,
                volume: objects.ArrayVolume) -> None:
        """Remove mappings of a volume to a host or host group.

        After a lost reply they are looked up by host and volume, whether or
        not the array has shown both: an id may be another mapping's by then
        (OBJ-7).
        """
        for mapping in mappings:
            self._client.mappings.delete(mapping.id, host=host,
                                         volume=volume.mappable)

    def _find(self, volume: objects.ArrayVolume, host: rest.Ref
              ) -> rest.Mapping | None:
        return self._client.mappings.find(host=host, volume=volume.mappable)

    def _lun(self, volume: objects.ArrayVolume, mapping: rest.Mapping,
             host: rest.Ref) -> int:
        """The LUN of a mapping; that of a view is in another entry (MAP-3).

        That entry may show later (OBJ-6).

        :param host: the host or host group that was mapped to
        :raises WaitTimeout: the array shows no LUN within ten seconds
        """
        if mapping.lun is not None and volume.view is None:
            return mapping.lun

        def entry_lun() -> int | None:
            entry = self._client.mappings.find(host=host,
                                               volume=volume.lun_holder)
            return None if entry is None else entry.lun

        return polling.wait_until(
            entry_lun, _PATIENCE, clock=self._client.clock,
            what=f'LUN of {volume.mappable} in mapping {mapping.id}')
