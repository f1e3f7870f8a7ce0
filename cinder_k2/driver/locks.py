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
``host``           one host, by its initiators: finding, making, mapping,
                   unmapping and removing it are one piece
``maps``           what is mapped to one host, by its initiators: a service
                   that holds this lock or the one above may map, see
                   ``HostLocks``
``mapping``        one Cinder volume on one host, while it is mapped or
                   unmapped there and another service uses the host: the
                   volume's attachments to that host share a mapping
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
import hashlib
import re
import time

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


class HostLocks:
    """The two locks of one host, the host's own and that of its mappings.

    An operation that holds both may create, change and remove the host; with
    one of them it may map volumes to the host, and unmap them. So two services
    of a cluster do that at the same time, and neither changes the host
    meanwhile. A third one waits until the one with the host's own lock has
    finished.

    :ivar is_alone: whether both were free when they were taken, so that
        nobody else uses the host before ``share``
    """

    def __init__(self, own: contextlib.ExitStack, is_alone: bool) -> None:
        self._own = own
        self.is_alone = is_alone

    def share(self) -> None:
        """Let another service map to the host, which is not changed any more.

        One that is not alone keeps its lock: the other service maps already.
        """
        if self.is_alone:
            self._own.close()


@contextlib.contextmanager
def host(system_id: str, initiators: Iterable[str],
         timeout: float | None = None, *, alone: bool = True
         ) -> Iterator[HostLocks]:
    """Hold the host that has these initiators.

    Operations on hosts that share an initiator exclude each other, too.

    :param timeout: seconds to wait for each lock; default as for other locks
    :param alone: whether to wait until nobody else uses the host
    :raises LockTimeout: another operation held it too long
    """
    names = _names(initiators)
    # The own locks are released last: the next one with them is then alone.
    with contextlib.ExitStack() as own, contextlib.ExitStack() as mappings:
        for name in names:
            own.enter_context(_lock(f'k2-{system_id}-host-{name}', timeout))
        is_alone = True
        try:
            for name in names:
                mappings.enter_context(_lock(
                    f'k2-{system_id}-maps-{name}',
                    timeout if alone else 0))
        except exceptions.LockTimeout:
            if alone:
                raise
            mappings.close()
            is_alone = False
        yield HostLocks(own, is_alone)


@contextlib.contextmanager
def mapping(volume_id: str, initiators: Iterable[str], timeout: float
            ) -> Iterator[None]:
    """Hold the mapping of a Cinder volume to a host that others use, too.

    :param initiators: those of the host
    :param timeout: seconds to wait for it
    :raises LockTimeout: another operation held it too long
    """
    end = time.monotonic() + timeout
    with contextlib.ExitStack() as held:
        for name in sorted({_mapping_name(volume_id, initiator)
                            for initiator in _names(initiators)}):
            held.enter_context(_lock(name, max(end - time.monotonic(), 0)))
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
    for name in (_volume_name(volume_id), _flattening_name(volume_id),
                 f'k2-mapping-{volume_id}-*'):
        coordination.synchronized_remove(name)


def forget_snapshot(snapshot_id: str) -> None:
    """Remove the lock file of a deleted Cinder snapshot."""
    coordination.synchronized_remove(_snapshot_name(snapshot_id))


def _group_name(system_id: str, group_id: int) -> str:
    return f'k2-{system_id}-group-{group_id}'


def _volume_name(volume_id: str) -> str:
    return f'k2-volume-{volume_id}'


def _mapping_name(volume_id: str, initiator: str) -> str:
    """Short: MySQL allows 64 characters."""
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return f'k2-mapping-{volume_id}-{digest[:8]}'


def _flattening_name(volume_id: str) -> str:
    return f'k2-flattening-{volume_id}'


def _snapshot_name(snapshot_id: str) -> str:
    return f'k2-snapshot-{snapshot_id}'


def _names(initiators: Iterable[str]) -> list[str]:
    """Parts of names, in the order in which the locks are taken.

    Connectors are external input, and lock names become file names.
    """
    return sorted({re.sub(r'[^0-9a-z.:-]', '_', initiator.lower())
                   for initiator in initiators})


@contextlib.contextmanager
def _lock(name: str, timeout: float | None = None) -> Iterator[None]:
    timeout = LOCK_TIMEOUT if timeout is None else timeout
    end = time.monotonic() + timeout
    lock = coordination.COORDINATOR.get_lock(name)
    try:
        taken = lock.acquire(blocking=timeout or False)
    except tooz.LockAcquireFailed:
        taken = False
    except Exception as error:
        # When the time is up, some drivers of tooz, such as that of etcd,
        # raise what the library raises with which they repeat the request.
        if time.monotonic() < end:
            raise
        raise exceptions.LockTimeout(
            f'Waited {timeout:g} seconds for lock {name}: {error}') from error
    if not taken:
        raise exceptions.LockTimeout(
            f'Waited {timeout:g} seconds for lock {name}; another operation '
            'on the same object is slow, or hangs.')
    try:
        yield
    finally:
        lock.release()
