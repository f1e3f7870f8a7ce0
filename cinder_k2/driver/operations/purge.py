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

"""Deleting deferred objects that nothing needs any more."""

from cinder_k2.array import Array
from cinder_k2.driver import locks


def run(array: Array, group: int) -> None:
    """Purge a volume group, and those that were waiting for it.

    Each is locked while it is purged, never two at once. If this fails, it
    can be called again with the same group.

    :raises LockTimeout: another operation held one too long
    """
    _run(array, group, set())


def _run(array: Array, group: int, emptied: set[int]) -> None:
    """Purge a group, and its source groups if nothing needs them then.

    Source groups mostly form a tree, from clones to the group of the first
    source. But a clone may be moved to another group (CLN-7), and an id may be
    another group's by now (OBJ-7), so two groups may be each other's source.
    Each purge of a group leaves less to purge, unless it is empty: then it
    keeps its note until its source groups are purged.

    :param emptied: groups that were found empty, which are not purged again
    """
    with locks.group(array.system.id, group), array.deadline(fresh=True):
        done = array.deferred.purge(group)
    if done.empty:
        emptied.add(group)
    for source_group in done.source_groups:
        if source_group not in emptied:
            _run(array, source_group, emptied)
    if done.empty:
        with locks.group(array.system.id, group), \
                array.deadline(fresh=True):
            array.volumes.delete_group(group, [done.name])
    if done.empty or done.gone:
        locks.forget_group(array.system.id, group)
