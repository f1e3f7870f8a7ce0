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

"""All locks of the driver, on one screen.

They are Cinder's coordination locks and so hold across every cinder-volume
of a cluster. In the order in which they may be taken:

=================  ========================================================
``flattening``     one Cinder volume that a view backs: it is either copied
                   to a volume of its own, or attached, detached, reverted,
                   migrated, deleted or unmanaged
``group``          one volume group: a snapshot of it must not catch a thin
                   clone that is about to leave it (VOL-10), and its note
                   of what is hidden is read and written in one piece
``snapshot``       the attachments of one Cinder snapshot, which share a view
``hosts``          one host, by its initiators: finding, making, mapping,
                   unmapping and removing it are one piece; threads of one
                   service may share it, see ``driver.operations.host_holds``
``host_groups``    host groups as far as they have one volume: whether it
                   leaves a group depends on attachments to all its members
=================  ========================================================

Nothing is held when ``flattening`` is taken: it is the outermost. No two
volumes are held by it at once, nor two groups, and no group is taken while a
host is held.
Cinder's manager locks the source of most clones against deletion, but not of
those for its image cache and of members of groups: such a source may be hidden
while it is cloned. Statistics take no lock, but that of a host to remove a
mapping that nothing needs, for which they wait a few seconds only.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import re

from cinder import coordination
from tooz import coordination as tooz

from cinder_k2.array import Array
from cinder_k2 import exceptions

# Longer than an operation may take with k2_retry_timeout at its default,
# including its cleanup; short enough for callers to notice a problem.
LOCK_TIMEOUT = 600
# For attaches: their callers wait for the reply of Cinder, and may repeat the
# request.
ATTACH_LOCK_TIMEOUT = 20


@contextlib.contextmanager
def hosts(system_id: str, initiators: Iterable[str],
          timeout: float | None = None) -> Iterator[None]:
    """Hold the host that has these initiators.

    Operations on hosts that share an initiator exclude each other.

    :param timeout: seconds to wait for each lock; default as for other locks
    :raises LockTimeout: another operation held it too long
    """
    with contextlib.ExitStack() as held:
        # Connectors are external input, and lock names become file names.
        for name in sorted({re.sub(r'[^0-9a-z.:-]', '_', i.lower())
                            for i in initiators}):
            held.enter_context(_lock(f'k2-{system_id}-host-{name}',
                                     timeout))
        yield


@contextlib.contextmanager
def flattening(volume_id: str, timeout: float | None = None
               ) -> Iterator[None]:
    """Hold a Cinder volume to flatten it, or to prevent that.

    :param timeout: seconds to wait for it; LOCK_TIMEOUT if None
    :raises ObjectInUse: another operation held it for longer, usually to copy
        the data
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(_lock(_flattening_name(volume_id), timeout))
        except exceptions.LockTimeout as error:
            raise exceptions.ObjectInUse(
                f'Volume {volume_id}', 'is being copied; try again.'
            ) from error
        yield


@contextlib.contextmanager
def group(system_id: str, group_id: int) -> Iterator[None]:
    """Hold a volume group of the array.

    :raises LockTimeout: another operation held it too long
    """
    with _lock(_group_name(system_id, group_id)):
        yield


@contextlib.contextmanager
def group_on(array: Array, group_id: int) -> Iterator[None]:
    """Hold a volume group; the array's deadline begins after that.

    :raises LockTimeout: another operation held it too long
    """
    with group(array.system.id, group_id), array.deadline(fresh=True):
        yield


@contextlib.contextmanager
def snapshot(snapshot_id: str) -> Iterator[None]:
    """Hold the attachments of a Cinder snapshot.

    :raises LockTimeout: another operation held it too long
    """
    with _lock(_snapshot_name(snapshot_id)):
        yield


@contextlib.contextmanager
def host_groups(volume_id: str) -> Iterator[None]:
    """Hold the mappings of a Cinder volume to host groups.

    :raises LockTimeout: another operation held it too long
    """
    with _lock(_volume_name(volume_id)):
        yield


def forget_group(system_id: str, group_id: int) -> None:
    """Remove the lock file of a deleted volume group."""
    coordination.synchronized_remove(_group_name(system_id, group_id))


def forget_volume(volume_id: str) -> None:
    """Remove the lock files of a deleted Cinder volume."""
    coordination.synchronized_remove(_volume_name(volume_id))
    coordination.synchronized_remove(_flattening_name(volume_id))


def forget_snapshot(snapshot_id: str) -> None:
    """Remove the lock file of a deleted Cinder snapshot."""
    coordination.synchronized_remove(_snapshot_name(snapshot_id))


def _group_name(system_id: str, group_id: int) -> str:
    return f'k2-{system_id}-group-{group_id}'


def _volume_name(volume_id: str) -> str:
    return f'k2-volume-{volume_id}'


def _flattening_name(volume_id: str) -> str:
    return f'k2-flattening-{volume_id}'


def _snapshot_name(snapshot_id: str) -> str:
    return f'k2-snapshot-{snapshot_id}'


@contextlib.contextmanager
def _lock(name: str, timeout: float | None = None) -> Iterator[None]:
    timeout = LOCK_TIMEOUT if timeout is None else timeout
    lock = coordination.COORDINATOR.get_lock(name)
    try:
        taken = lock.acquire(blocking=timeout)
    except tooz.LockAcquireFailed:
        taken = False
    if not taken:
        raise exceptions.LockTimeout(
            f'Waited {timeout:g} seconds for lock {name}; another operation '
            'on the same object hangs.')
    try:
        yield
    finally:
        lock.release()
