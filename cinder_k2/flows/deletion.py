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

"""Deleting volumes and snapshots, and hiding what clones need.

Each function may be called again after an interruption: what is gone
already is passed over.
"""

from collections.abc import Sequence

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import deferred_deletion
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


def delete_volume(array: Array, backing: ArrayVolume, names: Sequence[str]
                  ) -> None:
    """Delete what backs a volume. Two calls, one for a view.

    :param names: those that it may have
    :raises StillMapped, ObjectInUse: the array must keep it; nothing was
        deleted
    """
    if backing.view is not None:
        array.snapshots.delete(backing.view, backing.group, names)
    elif backing.volume is not None:
        array.volumes.delete(backing.volume, backing.group, names)
        if not backing.shared:
            delete_own_group(array, backing.group,
                             list(map(naming.group_of_volume, names)))


def retire_volume(array: Array, backing: ArrayVolume, names: Sequence[str]
                  ) -> bool:
    """Delete what backs a volume, or hide it if clones need it.

    The caller holds its group.

    :param names: those that it may have
    :returns: whether it is gone
    :raises StillMapped: it is mapped
    :raises ObjectInUse: somebody else's objects need it
    """
    if array.deferred.is_volume_needed(backing):
        array.volumes.check_unmapped(backing)
        array.deferred.defer_volume(backing, names)
        return False
    delete_volume(array, backing, names)
    return True


def retire_snapshot(array: Array, stored: ArraySnapshot,
                    names: Sequence[str]) -> bool:
    """Delete a snapshot, or hide it if volumes made from it need it.

    Two calls if nothing does. The caller holds its group.

    :param names: short names that it may have
    :returns: whether it was there
    :raises StillRead: there is a temporary view of it
    :raises ObjectInUse: somebody else's objects need it
    :raises Refused: something needs it, and the array does not list what its
        group has
    """
    try:
        siblings = array.snapshots.of_group(stored.group)
    except rest.Incomplete:
        return _delete_unless_needed(array, stored, names)
    found = array.identity.snapshot_among(stored, names, siblings)
    if found is None:
        return False
    if array.deferred.is_snapshot_needed(found, siblings):
        array.deferred.defer_snapshot(found)
        return True
    try:
        array.snapshots.delete(found.snapshot, found.group, names)
    except rest.Refused:
        if _tells_clones(found, siblings):
            raise
        # Thin clones of it live (CLN-4), which the array does not count.
        array.deferred.defer_snapshot(found)
    return True


def _delete_unless_needed(array: Array, stored: ArraySnapshot,
                          names: Sequence[str]) -> bool:
    """Leave it to the array whether a snapshot is needed (SNP-9, CLN-4).

    What hides one could not be found again in a list that is cut off.
    """
    found = array.identity.snapshot(stored, names)
    return found is not None and array.snapshots.delete(
        found.snapshot, found.group, names)


def _tells_clones(found: ArraySnapshot, siblings: list[rest.Snapshot]
                  ) -> bool:
    """Whether the array says how many thin clones a snapshot has."""
    return all(each.tells('num_of_clones') for each in siblings
               if each.id == found.snapshot)


def hide_parent(array: Array, backing: ArrayVolume) -> None:
    """Hide the snapshot that was made for a clone which is hidden now.

    The caller holds the group of the snapshot.
    """
    if backing.hidden_parent and backing.parent is not None:
        array.deferred.record(
            backing.source_group, deferred_deletion.DeferredIds(
                snapshots=frozenset({backing.parent})))


def delete_parent(array: Array, backing: ArrayVolume, names: Sequence[str]
                  ) -> None:
    """Delete the snapshot that was made for a clone which is gone now.

    The caller holds the group of the snapshot.

    :param names: those that the clone may have had
    """
    if backing.hidden_parent and backing.parent is not None:
        try:
            array.snapshots.delete_parent(
                backing.parent, backing.source_group,
                list(map(naming.clone_source_of, names)))
        except rest.Refused:
            # Somebody made a view of it.
            hide_parent(array, backing)


def delete_own_group(array: Array, group: int, names: Sequence[str]) -> bool:
    """Delete the group that held a volume; False if others use it.

    :param names: those that the group may have
    """
    try:
        array.volumes.delete_group(group, names)
    except rest.Refused as refusal:
        # The volume is gone, as Cinder asked; somebody else put objects
        # into its group.
        LOG.warning('Volume group %(group)s is not empty and stays on the '
                    'array: %(reason)s', {'group': group, 'reason': refusal})
        return False
    return True


def delete_own_group_by_name(array: Array, name: str) -> int | None:
    """Delete the empty group of a volume whose creation was interrupted.

    :returns: the id of what was deleted
    """
    group = array.volumes.find_group(name)
    if group is None or not delete_own_group(array, group, [name]):
        return None
    return group


def try_delete_volume(array: Array, backing: ArrayVolume, names: Sequence[str]
                      ) -> bool:
    """Delete what backs a volume; False if something there needs it.

    :param names: those that it may have
    :raises StillMapped: it is mapped
    """
    try:
        delete_volume(array, backing, names)
    except exceptions.StillMapped:
        raise
    except exceptions.ObjectInUse:
        return False
    return True


def try_delete_snapshot(array: Array, found: ArraySnapshot,
                        names: Sequence[str]) -> bool:
    """Delete a snapshot; False if something on the array needs it.

    :param names: short names that it may have
    """
    try:
        array.snapshots.delete(found.snapshot, found.group, names)
    except exceptions.ObjectInUse:
        return False
    return True
