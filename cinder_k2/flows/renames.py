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

"""Giving a volume and its group other names."""

import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.flows import engine


class RenameGroup(engine.Step):
    """Rename the volume group."""

    def execute(self, array: Array, group: int, group_name: str,
                old_group_name: str) -> None:
        array.names.set_group(group, group_name, old_group_name)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        array, group = inputs['array'], inputs['group']
        if array.volumes.find_group(inputs['group_name']) == group:
            array.names.set_group(group, inputs['old_group_name'],
                                  inputs['group_name'])


class RenameVolume(engine.Step):
    """Rename the volume."""

    def execute(self, array: Array, volume: int, name: str,
                old_name: str) -> None:
        array.names.set_volume(volume, name, old_name)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        array, volume = inputs['array'], inputs['volume']
        if array.volumes.find_volume(inputs['name']) == volume:
            array.names.set_volume(volume, inputs['old_name'],
                                   inputs['name'])


def rename(array: Array, backing: Backing, *, name: str, group_name: str,
           old_name: str, old_group_name: str) -> None:
    """Rename a volume and the group that holds just it. Two calls.

    If one is refused, both have their old names again.
    """
    flow = linear_flow.Flow('rename').add(RenameGroup(), RenameVolume())
    engine.run(flow, array=array, group=backing.group,
               volume=backing.volume_ref.id, name=name,
               group_name=group_name, old_name=old_name,
               old_group_name=old_group_name)
