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

"""Volumes and the volume groups that hold them."""

from cinder_k2.array import backing as backings
from cinder_k2 import exceptions
from cinder_k2 import rest


class Volumes:
    """Volumes, each alone in a volume group of its own."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def create_group(self, name: str, dedup: bool) -> int:
        """Make a group without quota (VG-2), or take over an empty one.

        An empty group of that name is what a killed service left behind.

        :returns: the group's id
        """
        try:
            return self._client.volume_groups.create(
                name=name, quota=0, is_dedup=dedup).id
        except rest.Refused:
            group = self._client.volume_groups.find(name=name)
            if (group is None or group.volumes_count != 0
                    or group.is_dedup != dedup):
                raise
            return group.id

    def create(self, name: str, size: int, group: int) -> int:
        """Make a volume of ``size`` KiB in a group; its id."""
        return self._client.volumes.create(
            name=name, size=size,
            volume_group=self._client.volume_groups.ref(group)).id

    def grow(self, volume: int, size: int) -> None:
        """Grow a volume to ``size`` KiB, mapped or not (VOL-3)."""
        self._client.volumes.update(volume, size=size)

    def move(self, volume: int, group: int) -> None:
        """Move a volume into another group (VOL-9, VOL-10)."""
        self._client.volumes.update(
            volume, volume_group=self._client.volume_groups.ref(group))

    def find(self, name: str) -> backings.Backing | None:
        """The volume of that name, else the view of that name.

        :returns: None if the array has neither
        """
        volume = self._client.volumes.find(name=name)
        if volume is not None and volume.volume_group is not None:
            return backings.Backing(volume=volume.id,
                                    group=volume.volume_group.id)
        view = self._client.snapshots.find(short_name=name,
                                           is_exposable=True)
        return None if view is None else view_backing(self._client, view)

    def find_group(self, name: str) -> int | None:
        """Id of the group of that name."""
        group = self._client.volume_groups.find(name=name)
        return None if group is None else group.id

    def delete(self, volume: int) -> bool:
        """Delete a volume; False if it was gone.

        :raises ObjectInUse: it is mapped (VOL-6), or snapshots, views or
            clones need it (VOL-7); the text names them
        """
        try:
            return self._client.volumes.delete(volume)
        except rest.Refused:
            self.check_unused(volume)
            raise

    def delete_group(self, group: int) -> bool:
        """Delete an empty group (VG-5, VG-6); False if it was gone."""
        return self._client.volume_groups.delete(group)

    def check_unused(self, volume: int) -> None:
        """See that nothing on the array needs the volume.

        :raises ObjectInUse: something does; the text names it
        """
        name = f'Volume {volume}'
        mappings = self._client.mappings.search(
            volume=self._client.volumes.ref(volume))
        if mappings:
            hosts = ', '.join(sorted(str(m.host) for m in mappings))
            raise exceptions.ObjectInUse(name, f'is mapped to {hosts}.')
        images = self._client.volsnaps.search(
            source=self._client.volumes.ref(volume))
        if images:
            names = ', '.join(sorted(i.name or '' for i in images))
            raise exceptions.ObjectInUse(
                name, f'is needed by snapshots or clones: {names}.')


def view_backing(client: rest.Client, view: rest.Snapshot, *,
                 volume: int | None = None,
                 clone_source: int | None = None) -> backings.Backing:
    """Describe a view that backs a volume.

    :param volume: id of the source volume, to choose its image where the
        group holds several volumes (VSN-3)
    :raises ObjectMissing: the view holds no image of that volume
    """
    images = client.volsnaps.search(snapshot=view.ref)
    if len(images) > 1:
        images = [i for i in images if i.source is not None
                  and i.source.id == volume]
    if len(images) != 1 or view.volume_group is None:
        raise exceptions.ObjectMissing(
            f'View {view.name} does not hold exactly one image of the '
            'volume; see its volsnaps on the array.')
    return backings.Backing(group=view.volume_group.id, view=view.id,
                            volsnap=images[0].id, clone_source=clone_source)
