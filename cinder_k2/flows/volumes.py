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

"""Making a volume in a group of its own, and deleting both."""

import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.flows import engine
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class CreateGroup(engine.Step):
    """Make the volume group."""

    default_provides = 'group'

    def execute(self, array: Array, group_name: str, dedup: bool) -> int:
        return array.volumes.create_group(group_name, dedup)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete_group(done)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        volumes = inputs['array'].volumes
        group = volumes.find_group(inputs['group_name'])
        if group is not None:
            volumes.delete_group(group)


class CreateVolume(engine.Step):
    """Make the volume in its group."""

    default_provides = 'volume'

    def execute(self, array: Array, name: str, size: int, group: int) -> int:
        return array.volumes.create(name, size, group)

    def undo(self, done: typing.Any, **inputs: typing.Any) -> None:
        inputs['array'].volumes.delete(done)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        volumes = inputs['array'].volumes
        made = volumes.find(inputs['name'])
        if made is not None and made.volume is not None:
            volumes.delete(made.volume)


def create(array: Array, *, name: str, group_name: str, size: int,
           dedup: bool) -> Backing:
    """Make a volume of ``size`` KiB, alone in a new group. Two calls."""
    flow = linear_flow.Flow('create-volume').add(CreateGroup(),
                                                 CreateVolume())
    made = engine.run(flow, array=array, name=name, group_name=group_name,
                      size=size, dedup=dedup)
    return Backing(group=made['group'], volume=made['volume'])


def delete(array: Array, backing: Backing) -> None:
    """Delete what backs a volume, then what only it needed.

    May be called again after it was cut short: what is gone already is
    passed over.

    :raises StillMapped, ObjectInUse: the array must keep it; nothing was
        deleted
    :raises Refused: the volume is gone, its hidden snapshot is not
    """
    if backing.view is not None:
        if backing.has_clones:
            array.snapshots.check_unused(backing.view)
        array.snapshots.delete(backing.view)
    elif backing.volume is not None:
        if backing.has_clones:
            array.volumes.check_unused(backing.volume)
        array.volumes.delete(backing.volume)
        _delete_own_group(array, backing.group)
    if backing.clone_source is not None:
        array.snapshots.delete_hidden(backing.clone_source)


def delete_by_name(array: Array, name: str, group_name: str,
                   hidden_name: str) -> None:
    """Delete whatever a volume may have left, where no ids are known.

    That is a volume of the driver inside Cinder, or one whose creation was
    cut short anywhere.

    :raises StillMapped, ObjectInUse: the array must keep it
    """
    found = array.volumes.find_volume(name)
    if found is not None:
        array.volumes.check_unused(found)
        array.volumes.delete(found)
    view = array.snapshots.find_view(name)
    if view is not None:
        array.snapshots.check_unused(view)
        array.snapshots.delete(view)
    # Not the volume's group, which is its source's for a clone half made.
    group = array.volumes.find_group(group_name)
    if group is not None:
        _delete_own_group(array, group)
    hidden = array.snapshots.find(hidden_name)
    if hidden is not None:
        array.snapshots.delete_hidden(hidden.snapshot)


def _delete_own_group(array: Array, group: int) -> None:
    try:
        array.volumes.delete_group(group)
    except rest.Refused as refusal:
        # The volume is gone, as Cinder asked; somebody else put objects
        # into its group.
        LOG.warning('Volume group %(group)s is not empty and stays on the '
                    'array: %(reason)s', {'group': group, 'reason': refusal})
