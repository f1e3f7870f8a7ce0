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

from cinder_k2.array import backing as backings
from cinder_k2 import exceptions
from cinder_k2 import rest


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

    def revoke(self, volume: backings.Backing, host: int, *,
               shared: bool = False) -> bool:
        """Take a volume from a host; whether the host has others left.

        All mappings of the pair are removed. Two calls where nothing is
        odd.

        :param shared: other hosts still use the volume; a mapping to a host
            group then stays
        """
        mappings = self._client.mappings.search(
            host=self._client.hosts.ref(host))
        ours = [m for m in mappings if m.volume == volume.mappable]
        for mapping in ours:
            self._client.mappings.delete(mapping.id)
        if not ours:
            return self._revoke_from_group(volume, host, shared) or bool(
                mappings)
        # Entries of a view's volsnaps go with the view's own (MAP-4).
        return any(m.volume not in (volume.mappable, volume.lun_holder)
                   for m in mappings)

    def revoke_groups(self, volume: backings.Backing) -> set[int]:
        """Take a volume from all host groups.

        :returns: ids of the single hosts that it is mapped to
        """
        hosts = set()
        for mapping in self._client.mappings.search(volume=volume.mappable):
            if mapping.host is None or mapping.host.resource != 'hosts':
                self._client.mappings.delete(mapping.id)
            else:
                hosts.add(mapping.host.id)
        return hosts

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

    def _revoke_from_group(self, volume: backings.Backing, host: int,
                           shared: bool) -> bool:
        """Whether the host is in a group, so that it must stay."""
        group = self._client.hosts.get(host).host_group
        if group is None:
            return False
        if not shared:
            for mapping in self._client.mappings.search(
                    host=group, volume=volume.mappable):
                self._client.mappings.delete(mapping.id)
        return True

    def _lun(self, volume: backings.Backing, mapping: rest.Mapping) -> int:
        if mapping.lun is not None and volume.view is None:
            return mapping.lun
        entry = None
        if mapping.host is not None:
            entry = self._client.mappings.find(host=mapping.host,
                                               volume=volume.lun_holder)
        if entry is None or entry.lun is None:
            raise exceptions.ObjectMissing(
                f'The array shows no LUN for mapping {mapping.id} of '
                f'{volume.mappable}.')
        return entry.lun
