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

"""Deleting volumes and snapshots, or deferring that for their clones.

Each function may be called again after an interruption: missing objects are
skipped.
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
    """Delete an array volume. Two calls, one for a view.

    :param names: names that it may have
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
                  ) -> deferred_deletion.Needs | None:
    """Delete an array volume, or defer that if clones need it.

    Three calls if none do, else four; one less for a view. One more if hosts
    are mapped into its group, and more in the cases of ``needs_of_volume``.
    The caller holds the lock of the group.

    :param names: names that it may have
    :returns: what needs it; None if it was deleted
    :raises StillMapped: it is mapped
    :raises ObjectInUse: foreign objects need it
    """
    needs = array.deferred.needs_of_volume(backing)
    if needs is None:
        delete_volume(array, backing, names)
        return None
    # VG-8 is an assumption, and a host group without hosts does not count. A
    # volume that is hidden while it is mapped loses nothing: the array does
    # not delete it before it is unmapped (VOL-6).
    if needs.group.mapped_hosts_count != 0:
        array.volumes.check_unmapped(backing)
    array.deferred.defer_volume(backing, needs, names)
    return needs


def retire_snapshot(array: Array, stored: ArraySnapshot,
                    names: Sequence[str]) -> bool:
    """Delete a snapshot, or defer that if volumes made from it need it.

    Two calls if nothing does. The caller holds the lock of its group.

    :param names: short names that it may have
    :returns: whether it existed
    :raises StillRead: there is a temporary view of it
    :raises ObjectInUse: foreign objects need it
    :raises Refused: something needs it, and the array does not list the
        contents of its group
    """
    try:
        siblings = array.snapshots.of_group(stored.group)
    except rest.Incomplete:
        return _delete_unless_needed(array, stored, names)
    found = array.identity.snapshot_among(stored, names, siblings)
    if found is None:
        return False
    if array.deferred.is_snapshot_needed(found, siblings):
        array.deferred.defer_snapshot(found, siblings)
        return True
    try:
        array.snapshots.delete(found.snapshot, found.group, names)
    except rest.Refused:
        if _tells_clones(found, siblings):
            raise
        # It has thin clones (CLN-4), which the array does not count.
        array.deferred.defer_snapshot(found, siblings)
    return True


def _delete_unless_needed(array: Array, stored: ArraySnapshot,
                          names: Sequence[str]) -> bool:
    """Let the array decide whether a snapshot is needed (SNP-9, CLN-4).

    A deferred snapshot could not be found again in an incomplete list.
    """
    found = array.identity.snapshot(stored, names)
    return found is not None and array.snapshots.delete(
        found.snapshot, found.group, names)


def _tells_clones(found: ArraySnapshot, siblings: list[rest.Snapshot]
                  ) -> bool:
    """Whether the array shows how many thin clones a snapshot has."""
    return all(each.tells('num_of_clones') for each in siblings
               if each.id == found.snapshot)


def hide_parent(array: Array, backing: ArrayVolume) -> None:
    """Defer the deletion of a clone's hidden snapshot.

    For a clone whose deletion is deferred, too, or whose hidden snapshot has
    foreign views. No call if it has none. The caller holds the lock of the
    snapshot's group.
    """
    if backing.hidden_parent and backing.parent is not None:
        array.deferred.record(
            backing.source_group, deferred_deletion.DeferredIds(
                snapshots=frozenset({backing.parent})))


def delete_parent(array: Array, backing: ArrayVolume, names: Sequence[str]
                  ) -> None:
    """Delete the hidden snapshot of a clone that is gone.

    The caller holds the lock of the snapshot's group.

    :param names: names that the clone may have had
    """
    if backing.hidden_parent and backing.parent is not None:
        try:
            array.snapshots.delete_parent(
                backing.parent, backing.source_group,
                list(map(naming.clone_source_of, names)))
        except rest.Refused:
            # There is a foreign view of it.
            hide_parent(array, backing)


def delete_own_group(array: Array, group: int, names: Sequence[str]) -> bool:
    """Delete the former group of a volume; False if it is not empty.

    :param names: names that the group may have
    """
    try:
        array.volumes.delete_group(group, names)
    except rest.Refused as refusal:
        # The volume is deleted, as Cinder requested; its group has foreign
        # objects.
        LOG.warning('Volume group %(group)s is not empty and stays on the '
                    'array: %(reason)s', {'group': group, 'reason': refusal})
        return False
    return True


def delete_own_group_by_name(array: Array, name: str) -> int | None:
    """Delete the empty group of a volume whose creation was interrupted.

    :returns: the id of the deleted group
    """
    group = array.volumes.find_group(name)
    if group is None or not delete_own_group(array, group, [name]):
        return None
    return group


def try_delete_volume(array: Array, backing: ArrayVolume, names: Sequence[str]
                      ) -> bool:
    """Delete an array volume; False if something on the array needs it.

    :param names: names that it may have
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
