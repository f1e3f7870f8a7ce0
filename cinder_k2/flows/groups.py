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

"""Moving volumes between groups, and copying whole groups.

All or nothing: after a failure, the completed steps are undone.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import typing

from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import deletion
from cinder_k2.flows import engine
from cinder_k2.flows import volumes
from cinder_k2 import rest


@dataclasses.dataclass(frozen=True)
class Move:
    """A volume that joins or leaves a consistency group.

    :ivar label: name of the volume in error messages
    :ivar names: names that it may have on the array
    :ivar volume: the array's id of it
    :ivar source: id of the volume group it is in
    :ivar target: id of the group it moves to; None for its own group
    :ivar target_name: name of that group
    :ivar dedup: whether both groups are deduplicated
    """

    label: str
    names: Sequence[str]
    volume: int
    source: int
    target: int | None
    target_name: str
    dedup: bool


class MoveVolume(engine.Step):
    """Move one volume (VOL-9, VOL-10); provides its new group.

    No snapshot of it may be taken between the check and the move.
    """

    # The volume's own group may have been created before the refusal.
    always_unknown = True

    def __init__(self, move: Move, hold: clones.Hold) -> None:
        super().__init__(name=f'move-{move.volume}',
                         provides=f'group-of-{move.volume}')
        self._move = move
        self._hold = hold

    def execute(self, array: Array) -> int:
        with self._hold(self._move.source):
            array.groups.check_movable(self._move.label, self._move.volume,
                                       self._move.source)
            return self._go(array)

    def _go(self, array: Array) -> int:
        move = self._move
        target = move.target or array.volumes.create_group(move.target_name,
                                                           move.dedup)
        try:
            array.volumes.move(move.volume, target, move.names)
        except rest.Refused as refusal:
            found = move.target and array.groups.find(move.target_name)
            if isinstance(found, groups.Group):
                groups.check_room(move.target_name, found, refusal)
            raise exceptions.GroupNotSupported(
                f'{move.label} cannot change its volume group on the array. '
                f'{refusal}') from refusal
        return target

    def undo_unknown(self, **inputs: typing.Any) -> None:
        array, move = inputs['array'], self._move
        try:
            # Its id may be another volume's by now (OBJ-7).
            if move.volume in map(array.volumes.find_volume, move.names):
                array.volumes.move(move.volume, move.source, move.names)
        finally:
            # Also if that fails: an array that does not move volumes has not
            # moved this one.
            own = (None if move.target
                   else array.volumes.find_group(move.target_name))
            if own is not None:
                array.groups.delete_if_empty(own, move.target_name)


def regroup(array: Array, moves: Sequence[Move], hold: clones.Hold
            ) -> dict[int, int]:
    """Move volumes to other groups; if one is refused, move all back.

    Two calls for each, three for one that moves to its own group.

    :param hold: takes the lock of a volume group
    :returns: ids of their new groups, by id of the volume
    :raises GroupNotSupported: the array refused; the text says why
    """
    flow = linear_flow.Flow('regroup').add(
        *[MoveVolume(move, hold) for move in moves])
    made = engine.run(flow, array=array)
    return {move.volume: made[f'group-of-{move.volume}'] for move in moves}


class MakeMember(engine.Step):
    """Create one volume in the group."""

    def __init__(self, name: str, make: Callable[[int], ArrayVolume]) -> None:
        super().__init__(name=f'member-{name}', provides=name)
        self._name = name
        self._make = make

    def execute(self, array: Array, group: int) -> ArrayVolume:
        with array.deadline(fresh=True):
            return self._make(group)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        deletion.delete_volume(inputs['array'], done, [self._name])


def make(array: Array, *, group_name: str, dedup: bool,
         members: Mapping[str, Callable[[int],
                                        ArrayVolume]]) -> list[ArrayVolume]:
    """Create a group with members, in order; nothing remains if one fails.

    :param members: by name of the volume: a function that creates it in the
        group with the given id
    """
    flow = linear_flow.Flow('make-group').add(
        volumes.CreateGroup(),
        *[MakeMember(name, member) for name, member in members.items()])
    made = engine.run(flow, array=array, group_name=group_name, dedup=dedup)
    return [made[name] for name in members]
