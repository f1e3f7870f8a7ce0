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

"""Changing names of the array's objects."""

from cinder_k2 import rest


class Names:
    """Renames volumes and their groups, even while mapped (VG-9)."""

    def __init__(self, client: rest.Client) -> None:
        self._client = client

    def set_volume(self, volume: int, name: str, former: str) -> None:
        """Rename a volume.

        :param former: its current name
        :raises Refused: another volume has the name (VOL-1)
        """
        self._client.volumes.update(volume, names=[former, name], name=name)

    def set_group(self, group: int, name: str, former: str) -> None:
        """Rename a volume group; names of its snapshots follow (VG-9).

        :param former: its current name
        :raises Refused: another group has the name (VG-1)
        """
        self._client.volume_groups.update(group, names=[former, name],
                                          name=name)
