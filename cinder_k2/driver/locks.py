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

"""All locks of the driver.

They are Cinder's coordination locks, which all cinder-volume services of a
cluster share. In the order in which they may be taken:

=================  ========================================================
``flattening``     one Cinder volume that a view backs: it is either copied
                   to a volume of its own, or attached, detached, reverted,
                   migrated, deleted or unmanaged
``group``          one volume group: a snapshot of it must not include a
                   thin clone that is about to leave it (VOL-10), and its
                   note of hidden objects is read and rewritten atomically
``snapshot``       the attachments of one Cinder snapshot, which share a view
``host``           one host, by its initiators: a service that holds this
                   lock and the next one may create, change and remove it
``maps``           the mappings of one host, by its initiators: a service
                   that holds this lock or ``host`` may map to it and unmap
                   from it, see ``HostLocks``
``mapping``        one Cinder volume on one host, while it is mapped or
                   unmapped there and another service uses the host: the
                   volume's attachments to that host share a mapping
``host_groups``    the mappings of one Cinder volume to host groups: whether
                   one is removed depends on the attachments to all members
                   of the group
=================  ========================================================

No lock is held when ``flattening`` is taken. No operation holds ``flattening``
for two volumes at once, or ``group`` for two groups, and none takes ``group``
while it holds a host.
Cinder's manager locks the source of most clones against deletion, but not that
of a clone for its image cache or of a member of a group: such a source may be
deleted, and so hidden, while it is cloned. Statistics take locks only to
remove a mapping that nothing needs, and wait one second for each of those of
its host.
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

# Seconds. Longer than an operation may take with k2_retry_timeout at its
# default, including its cleanup; short enough for callers to notice a problem.
LOCK_TIMEOUT = 600
# The same for attaches: their callers wait for Cinder's reply, and may repeat
# the request.
ATTACH_LOCK_TIMEOUT = 20
# MySQL allows 64 characters, of which Cinder takes 7 ("cinder-").
_LONGEST_NAME = 57


class HostLocks:
    """The two locks of one host, the host's own and that of its mappings.

    An operation that holds both may create, change and remove the host; with
    one of them it may map volumes to the host, and unmap them. Two services of
    a cluster can therefore do that at the same time, while neither of them
    changes the host. A third one waits until the one with the host's own lock
    has finished.

    :ivar is_alone: whether both were free when they were taken, so that
        nobody else uses the host before ``share``
    """

    def __init__(self, own: contextlib.ExitStack, is_alone: bool) -> None:
        self._own = own
        self.is_alone = is_alone

    def share(self) -> None:
        """Let another service map to the host.

        The caller no longer changes the host.

        An operation that is not alone keeps its lock: the other service has
        the other lock already.
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
    # The host's own locks are released last, so that the next operation to
    # get them is alone.
    with contextlib.ExitStack() as own, contextlib.ExitStack() as mappings:
        for name in names:
            own.enter_context(
                _lock(_short(f'k2-{system_id}-host-{name}'), timeout))
        is_alone = True
        try:
            for name in names:
                mappings.enter_context(_lock(
                    _short(f'k2-{system_id}-maps-{name}'),
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
    """Hold the mapping of a volume to a host that another service may use.

    :param volume_id: Cinder's id of the volume
    :param initiators: those of the host
    :param timeout: seconds to wait for all locks together
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
def host_groups(volume_id: str, timeout: float | None = None
                ) -> Iterator[None]:
    """Hold the mappings of a Cinder volume to host groups.

    :param timeout: seconds to wait for it; LOCK_TIMEOUT if None
    :raises LockTimeout: another operation held it too long
    """
    with _lock(_volume_name(volume_id), timeout):
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
    return _short(f'k2-{system_id}-group-{group_id}')


def _volume_name(volume_id: str) -> str:
    return f'k2-volume-{volume_id}'


def _mapping_name(volume_id: str, initiator: str) -> str:
    """The name for ``mapping``; short, as MySQL allows 64 characters."""
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return f'k2-mapping-{volume_id}-{digest[:8]}'


def _flattening_name(volume_id: str) -> str:
    return f'k2-flattening-{volume_id}'


def _snapshot_name(snapshot_id: str) -> str:
    return f'k2-snapshot-{snapshot_id}'


def _names(initiators: Iterable[str]) -> list[str]:
    """Parts of lock names, in the order in which the locks are taken.

    Connectors are external input, and lock names become file names.
    """
    return sorted({re.sub(r'[^0-9a-z.:-]', '_', initiator.lower())
                   for initiator in initiators})


def _short(name: str) -> str:
    """Shorten a name that contains names of others; it stays unique."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f'{name[:_LONGEST_NAME - 17]}-{digest}'


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
        # When the time is up, some drivers of tooz, such as the one for etcd,
        # raise an exception of the library by which they retry.
        if not timeout or time.monotonic() < end:
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
