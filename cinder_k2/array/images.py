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

"""Which snapshots and views hold an image of a volume."""

from cinder_k2 import rest


def holders(client: rest.Client, volume: int, group: int
            ) -> list[rest.Snapshot]:
    """The snapshots and views of a group that hold an image of a volume.

    One call if the group has no snapshots, else one more; or one more for
    each snapshot on an array that cannot search for several values at once.

    :param group: id of the volume group that the volume is in
    """
    snapshots = client.snapshots.search(
        volume_group=client.volume_groups.ref(group))
    return holding(client, volume, snapshots)


def holding(client: rest.Client, volume: int, snapshots: list[rest.Snapshot]
            ) -> list[rest.Snapshot]:
    """Select the snapshots and views that hold an image of a volume.

    One call, or one for each snapshot on an array that cannot search for
    several values at once; no call if the list is empty.
    """
    if not snapshots:
        return []
    images = client.volsnaps.search(
        rest.query.one_of('snapshot', [each.ref for each in snapshots]),
        source=client.volumes.ref(volume))
    # Where an image does not show its snapshot, any may hold it.
    held = {image.snapshot for image in images}
    return [each for each in snapshots if each.ref in held or None in held]
