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

from collections.abc import Iterable
import dataclasses

from cinder_k2.array import backing as backings
from cinder_k2 import rest
from cinder_k2 import waiting

# Seconds within which the array shows the LUN of what it mapped.
_PATIENCE = 10.0


@dataclasses.dataclass(frozen=True)
class Revoked:
    """What there was to take from a host.

    :ivar found: the volume was mapped to the host itself
    :ivar busy: other volumes are
    """

    found: bool
    busy: bool


class Access:
    """Mappings of volumes and views to hosts and host groups."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def grant(self, volume: backings.Backing, host: int, *,
              look_first: bool = False) -> int:
        """Map a volume to a host; the LUN. One call where nothing is odd.

        A host that is a member of a host group gets it through the group
        (MAP-6).

        :param look_first: the mapping is probably there already, so search
            before asking for it (MAP-8)
        """
        ref = self._client.hosts.ref(host)
        if look_first:
            found = self._find(volume, host)
            if found is not None:
                return self._lun(volume, found)
        try:
            return self._lun(volume, self._map(volume, ref))
        except rest.Refused:
            found = self._find(volume, host) or self._map_to_group(volume,
                                                                   host)
            if found is None:
                raise
            return self._lun(volume, found)

    def revoke(self, volume: backings.Backing | None, host: int) -> Revoked:
        """Take a volume from a host. Two calls where nothing is odd.

        All mappings of the pair are removed.

        :param volume: None if the array has lost it, so that only the rest
            of the answer matters
        """
        mappings = self._client.mappings.search(
            host=self._client.hosts.ref(host))
        ours = [m for m in mappings if volume and m.volume == volume.mappable]
        for mapping in ours:
            self._client.mappings.delete(mapping.id)
        # Entries of a view's volsnaps go with the view's own (MAP-4), and
        # where they are others', so is that.
        return Revoked(found=bool(ours), busy=any(
            m not in ours and m.volume is not None
            and m.volume.resource != 'volsnaps' for m in mappings))

    def is_mapped(self, host: int) -> bool:
        """Whether anything is mapped to the host itself."""
        return bool(self._client.mappings.search(
            host=self._client.hosts.ref(host)))

    def group_of(self, host: int) -> rest.Ref | None:
        """The host group that a host is a member of."""
        return self._client.hosts.get(host).host_group

    def revoke_group(self, volume: backings.Backing, group: rest.Ref) -> None:
        """Take a volume from a host group."""
        for mapping in self._client.mappings.search(
                host=group, volume=volume.mappable):
            self._client.mappings.delete(mapping.id)

    def holders(self, *mappable: rest.Ref, revoke_groups: bool = False
                ) -> dict[int, list[int]]:
        """The single hosts that volumes or views are mapped to. One call.

        :param revoke_groups: take them from host groups, in one more call
        :returns: by id of the host: ids of its mappings of them
        """
        hosts: dict[int, list[int]] = {}
        of_groups = []
        for mapping in self._client.mappings.search(
                rest.query.one_of('volume', mappable)):
            if mapping.volume not in mappable:
                # An array may overlook a condition (QRY-2).
                continue
            if mapping.host and mapping.host.resource == 'hosts':
                hosts.setdefault(mapping.host.id, []).append(mapping.id)
            else:
                of_groups.append(mapping.id)
        if revoke_groups:
            self._client.mappings.delete_many(of_groups)
        return hosts

    def mapped(self, volumes: Iterable[int]) -> set[int]:
        """Those of the volumes that a host or host group has. One call."""
        refs = {self._client.volumes.ref(volume) for volume in volumes}
        return {mapping.volume.id for mapping in self._client.mappings.search(
            rest.query.one_of('volume', refs))
            if mapping.volume in refs and mapping.volume is not None}

    def unmap(self, mappings: Iterable[int]) -> None:
        """Remove mappings; those that are gone already are fine."""
        self._client.mappings.delete_many(list(mappings))

    def busy(self, hosts: Iterable[int]) -> set[int]:
        """Those of the hosts that have volumes. One call."""
        refs = [self._client.hosts.ref(host) for host in hosts]
        return {m.host.id for m in self._client.mappings.search(
            rest.query.one_of('host', refs)) if m.host}

    def _map(self, volume: backings.Backing, host: rest.Ref) -> rest.Mapping:
        return self._client.mappings.create(host=host, volume=volume.mappable)

    def _find(self, volume: backings.Backing,
              host: int) -> rest.Mapping | None:
        return self._client.mappings.find(host=self._client.hosts.ref(host),
                                          volume=volume.mappable)

    def _map_to_group(self, volume: backings.Backing,
                      host: int) -> rest.Mapping | None:
        group = self._client.hosts.get(host).host_group
        if group is None:
            return None
        return (self._client.mappings.find(host=group, volume=volume.mappable)
                or self._map(volume, group))

    def _lun(self, volume: backings.Backing, mapping: rest.Mapping) -> int:
        """The LUN; that of a view is on another entry, maybe not at once."""
        if mapping.lun is not None and volume.view is None:
            return mapping.lun

        def entry_lun() -> int | None:
            entry = mapping.host and self._client.mappings.find(
                host=mapping.host, volume=volume.lun_holder)
            return entry.lun if isinstance(entry, rest.Mapping) else None

        return waiting.wait_until(
            entry_lun, _PATIENCE, clock=self._client.clock,
            what=f'LUN of {volume.mappable} in mapping {mapping.id}')
