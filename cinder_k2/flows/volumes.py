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

"""Making volumes, in groups of their own or those of others."""

import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.flows import engine


class CreateGroup(engine.Step):
    """Make the volume group."""

    default_provides = 'group'

    def execute(self, array: Array, group_name: str, dedup: bool) -> int:
        return array.volumes.create_group(group_name, dedup)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete_group(done, [inputs['group_name']])

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        volumes = inputs['array'].volumes
        group = volumes.find_group(inputs['group_name'])
        if group is not None:
            volumes.delete_group(group, [inputs['group_name']])


class CreateVolume(engine.Step):
    """Make the volume in its group."""

    default_provides = 'volume'

    def execute(self, array: Array, name: str, size: int, group: int) -> int:
        return array.volumes.create(name, size, group)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete(done, inputs['group'],
                                       [inputs['name']])

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        volumes = inputs['array'].volumes
        made = volumes.find(inputs['name'])
        if made is not None and made.volume is not None:
            volumes.delete(made.volume, made.group, [inputs['name']])


def create(array: Array, *, name: str, group_name: str, size: int,
           dedup: bool) -> Backing:
    """Make a volume of ``size`` KiB, alone in a new group. Two calls."""
    flow = linear_flow.Flow('create-volume').add(CreateGroup(),
                                                 CreateVolume())
    made = engine.run(flow, array=array, name=name, group_name=group_name,
                      size=size, dedup=dedup)
    return Backing(group=made['group'], volume=made['volume'])


def create_member(array: Array, *, name: str, size: int,
                  group: int) -> Backing:
    """Make a volume of ``size`` KiB in the group of others. One call."""
    flow = linear_flow.Flow('create-member').add(CreateVolume())
    made = engine.run(flow, array=array, name=name, size=size, group=group)
    return Backing(group=group, volume=made['volume'], shared=True)
