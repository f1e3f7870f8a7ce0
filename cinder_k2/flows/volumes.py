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

"""Creating volumes, in their own or in existing groups."""

import typing

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.flows import engine
from cinder_k2.flows import undo


class CreateGroup(engine.Step):
    """Create the volume group."""

    default_provides = 'group'

    def execute(self, array: Array, group_name: str, dedup: bool) -> int:
        return array.volumes.create_group(group_name, dedup)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        # A copy may have taken hours: the id can be another's (OBJ-7).
        self.undo_unknown(**inputs)

    def undo_unknown(self, **inputs: typing.Any) -> None:
        _drop_group(inputs['array'], inputs['group_name'])


class CreateVolume(engine.Step):
    """Create the volume in its group."""

    default_provides = 'volume'

    def execute(self, array: Array, name: str, size: int, group: int) -> int:
        return array.volumes.create(name, size, group)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        # As for the group.
        self.undo_unknown(**inputs)

    def undo_unknown(self, **inputs: typing.Any) -> None:
        drop_volume(inputs['array'], inputs['name'], inputs['group'])


def create(array: Array, *, name: str, group_name: str, size: int,
           dedup: bool) -> ArrayVolume:
    """Create a volume of ``size`` KiB, alone in a new group. Two calls."""
    with undo.Undo(array) as steps:
        with steps.step('create volume group',
                        lambda: _drop_group(array, group_name)):
            group = array.volumes.create_group(group_name, dedup)
        steps.on_failure('create volume group', lambda:
                         array.volumes.delete_group(group, [group_name]))
        with steps.step('create volume',
                        lambda: drop_volume(array, name, group)):
            volume = array.volumes.create(name, size, group)
    return ArrayVolume(group=group, volume=volume)


def create_member(array: Array, *, name: str, size: int,
                  group: int) -> ArrayVolume:
    """Create a volume of ``size`` KiB in an existing group. One call."""
    with undo.Undo(array).step('create volume',
                               lambda: drop_volume(array, name, group)):
        volume = array.volumes.create(name, size, group)
    return ArrayVolume(group=group, volume=volume, shared=True)


def _drop_group(array: Array, name: str) -> None:
    """Delete by its name a group that may have been created (OBJ-7)."""
    group = array.shown(lambda: array.volumes.find_group(name))
    if group is not None:
        array.volumes.delete_group(group, [name])


def drop_volume(array: Array, name: str, group: int) -> None:
    """Delete by its name a volume that may have been created in a group."""
    made = array.shown(lambda: array.volumes.find_volume(name))
    if made is not None:
        array.volumes.delete(made, group, [name])
