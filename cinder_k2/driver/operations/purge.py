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

"""Deleting what an array hides and nothing needs any more."""

from collections.abc import Set

from cinder_k2.array import Array
from cinder_k2.driver import locks


def run(array: Array, group: int, needed: Set[int] = frozenset()) -> None:
    """Reclaim a volume group, and those that were waiting for it.

    Each is held while it is worked on, never two at once. Groups form a
    tree, so this ends at the group of the first source. Where it is cut
    short, it can be called again with the same group.

    :param needed: volumes that were seen to be needed just now; whoever
        deletes what needs them reclaims them
    :raises LockTimeout: another operation held one too long
    """
    with locks.group(array.system.id, group), array.deadline(fresh=True):
        done = array.deferred.purge(group, needed)
    for home in done.homes:
        run(array, home)
    if done.empty:
        with locks.group(array.system.id, group), \
                array.deadline(fresh=True):
            array.volumes.delete_group(group, [done.name])
    if done.empty or done.gone:
        locks.forget_group(array.system.id, group)
