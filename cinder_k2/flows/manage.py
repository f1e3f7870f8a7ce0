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

"""Giving Cinder's names to a managed volume."""

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import inventory
from cinder_k2.flows import undo


def take(array: Array, found: inventory.FoundVolume, *, name: str,
         group_name: str, size: int) -> ArrayVolume:
    """Rename a volume and its group. Two calls, three if it must grow.

    If one is refused, both get their old names back.

    :param found: the volume, as examined before
    :param size: KiB to which a smaller volume is grown
    """
    group, volume = found.group, found.volume

    def give_group_back() -> None:
        # Its id may be another group's by now (OBJ-7).
        if array.volumes.find_group(group_name) == group.id:
            array.original_names.undo_group(group, group_name)

    def give_volume_back() -> None:
        if array.volumes.find_volume(name) == volume.id:
            array.original_names.undo_volume(volume, name)

    with undo.Undo(array) as steps:
        with steps.step('take over volume group', give_group_back):
            array.original_names.adopt_group(group, group_name)
        steps.on_failure('take over volume group', give_group_back)
        # The array may refuse the size after it has accepted the name.
        with steps.step('take over volume', give_volume_back,
                        always_unknown=True):
            array.original_names.adopt_volume(volume, name, size)
    # Foreign snapshots and clones of the volume may exist.
    return ArrayVolume(group=found.group.id, volume=found.volume.id,
                       has_clones=True)
