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

"""Bringing a volume that somebody made under Cinder's names."""

import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import inventory
from cinder_k2.flows import engine
from cinder_k2 import rest


class TakeGroup(engine.Step):
    """Give the volume group Cinder's name."""

    def execute(self, array: Array, group: rest.VolumeGroup,
                group_name: str) -> None:
        array.originals.take_group(group, group_name)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        # Its id may be another group's by now (OBJ-7).
        array, group = inputs['array'], inputs['group']
        if array.volumes.find_group(inputs['group_name']) == group.id:
            array.originals.undo_group(group, inputs['group_name'])


class TakeVolume(engine.Step):
    """Give the volume Cinder's name and size."""

    # The array may refuse the size when it has given the name.
    always_doubtful = True

    def execute(self, array: Array, volume: rest.Volume, name: str,
                size: int) -> None:
        array.originals.take_volume(volume, name, size)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        array, volume = inputs['array'], inputs['volume']
        if array.volumes.find_volume(inputs['name']) == volume.id:
            array.originals.undo_volume(volume, inputs['name'])


def take(array: Array, found: inventory.FoundVolume, *, name: str,
         group_name: str, size: int) -> Backing:
    """Rename a volume and its group. Two calls.

    If one is refused, both have their own names again.

    :param size: KiB to which a smaller volume is grown
    """
    flow = linear_flow.Flow('manage').add(TakeGroup(), TakeVolume())
    engine.run(flow, array=array, group=found.group, volume=found.volume,
               name=name, group_name=group_name, size=size)
    # Somebody may have made snapshots and clones of it.
    return Backing(group=found.group.id, volume=found.volume.id,
                   has_clones=True)
