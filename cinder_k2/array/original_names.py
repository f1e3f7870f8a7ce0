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

"""The names that volumes had before Cinder managed them.

They are stored in tags in the descriptions of the volume and its group.
"""

from oslo_log import log as logging

from cinder_k2.array import description_tags
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_NOTE = 'original name'


class OriginalNames:
    """Renames volumes and groups, and restores their names.

    The caller holds the lock of the group: its description has other tags.
    """

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def adopt_group(self, group: rest.VolumeGroup, name: str) -> None:
        """Rename a group, and store its original name.

        :raises Refused: another group has the name (VG-1)
        """
        self._client.volume_groups.update(
            group.id, names=[group.name, name], name=name,
            optional={'description': _noted(group)})

    def undo_group(self, group: rest.VolumeGroup, name: str) -> None:
        """Undo ``adopt_group``.

        :param name: the name that ``adopt_group`` gave it
        """
        self._client.volume_groups.update(
            group.id, names=[name, group.name], name=group.name,
            optional={'description': group.description})

    def adopt_volume(self, volume: rest.Volume, name: str, size: int) -> None:
        """Rename a volume, store its original name, and grow it.

        One call, two if it must grow.

        :param size: KiB; it never shrinks (VOL-2)
        :raises Refused: another volume has the name (VOL-1), or the quota
            of its group does not allow the size (VOL-11)
        """
        self._client.volumes.update(
            volume.id, names=[volume.name, name], name=name,
            optional={'description': _noted(volume)})
        if size > (volume.size or 0):
            self._client.volumes.update(volume.id, names=[name], size=size)

    def undo_volume(self, volume: rest.Volume, name: str) -> None:
        """Undo ``adopt_volume``, except for the size.

        :param name: the name that ``adopt_volume`` gave it
        """
        self._client.volumes.update(
            volume.id, names=[name, volume.name], name=volume.name,
            optional={'description': volume.description})

    def restore(self, name: str, group_name: str) -> None:
        """Restore the original names of the volume and the group.

        An object without a tag keeps its name. So does one whose original
        name another object has by now; this is logged as a warning. Four
        calls.

        :param name: current name of the volume
        :param group_name: current name of the group
        """
        volume = self._client.volumes.find(name=name)
        if volume is not None:
            self._restore(self._client.volumes, volume)
        group = self._client.volume_groups.find(name=group_name)
        if group is not None:
            self._restore(self._client.volume_groups, group)

    @staticmethod
    def _restore(collection: rest.Collection[rest.Volume]
                 | rest.Collection[rest.VolumeGroup],
                 found: rest.Volume | rest.VolumeGroup) -> None:
        original = description_tags.read(found.description, _NOTE)
        if not original:
            return
        try:
            collection.update(
                found.id, names=[found.name, original], name=original,
                description=description_tags.write(
                    found.description, _NOTE, '')
                or None)
        except rest.Refused as refusal:
            LOG.warning('%(name)s cannot have its original name '
                        '%(original)s back: %(reason)s. Rename it on the '
                        'array.', {'name': found.name, 'original': original,
                                   'reason': refusal})


def _noted(found: rest.Volume | rest.VolumeGroup) -> str:
    """The description with the original name added."""
    original = description_tags.read(found.description, _NOTE) or found.name
    return description_tags.write(found.description, _NOTE, original)
