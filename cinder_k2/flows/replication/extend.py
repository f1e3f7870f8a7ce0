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

"""Extending a replicated volume."""

from collections.abc import Sequence
import contextlib

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2.flows import engine
from cinder_k2.flows.replication.sessions import ArraySession
from cinder_k2.flows.replication.sessions import Finder
from cinder_k2.flows.replication.sessions import RUNNING
from cinder_k2.flows.replication.sessions import SessionPair
from cinder_k2.flows.replication.stop import find
from cinder_k2.flows.replication.stop import StopSession
from cinder_k2.flows.replication.target import Confirm
from cinder_k2.flows.replication.target import copy_name
from cinder_k2.flows.replication.target import deadlines
from cinder_k2.flows.replication.target import Link
from cinder_k2.flows.replication.target import Member
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


class SuspendSession(StopSession):
    """Suspend the session; undone by resuming it."""

    def execute(self, array: Array, target_array: Array | None,
                pair: SessionPair,
                finder: Finder, confirm: Confirm) -> SessionPair:
        return pair.suspend()


class GrowCopy(engine.Step):
    """Grow the copy, while nothing is copied. It cannot shrink (VOL-2)."""

    def execute(self, array: Array, target_array: Array,
                copy: replication.Copy, size: int, names: Sequence[str]
                ) -> None:
        target_array.replication.grow_copy(copy, size, names)


class Grow(engine.Step):
    """Grow the volume."""

    def execute(self, array: Array, volume: int, size: int,
                names: Sequence[str]) -> None:
        array.volumes.grow(volume, size, names)


class Resume(engine.Step):
    """Resume the session."""

    def execute(self, array: Array, stopped: SessionPair) -> None:
        stopped.start()


class GrowIdleCopy(engine.Step):
    """Grow the copy, or leave that to the array (VOL-4).

    :returns: whether it is left to the array
    """

    default_provides = 'left'

    def execute(self, array: Array, target_array: Array,
                copy: replication.Copy, size: int, names: Sequence[str]
                ) -> bool:
        try:
            target_array.replication.grow_copy(copy, size, names)
        except rest.OtherObject:
            raise
        except rest.Refused:
            # The volume could not shrink again if its copy did not follow.
            if (target_array.replication.grows_copies
                    or not target_array.volumes.has_room(copy.name)):
                raise
            return True
        return False


class GrowOnce(engine.Step):
    """Grow the volume, unless an earlier extension did."""

    def execute(self, array: Array, volume: int, size: int,
                names: Sequence[str], finder: Finder) -> None:
        if array.volumes.size(volume, finder.group) != size:
            array.volumes.grow(volume, size, names)


class StartIdle(engine.Step):
    """Start the session, and wait if the array has to grow the copy.

    In that case a refused start is repeated for a while: the volume cannot
    shrink again (VOL-2).

    :raises ReplicationError: the session runs, but the copy has not grown
    """

    def execute(self, array: Array, target_array: Array, finder: Finder,
                stopped: SessionPair, left: bool, size: int,
                copy: replication.Copy) -> None:
        if not left:
            stopped.start()
            return

        def start() -> None:
            with target_array.deadline(fresh=True):
                finder.running(finder.local()).start()

        array.replication.insist(start)
        if not target_array.replication.await_size(copy.name, size):
            raise exceptions.ReplicationError(
                f'Volume {copy.name} on the array at {target_array.address} '
                f'has not grown to {size} KiB with its source: a failover '
                'would truncate it. Extend it again.')


def extend(source_array: Array, link: Link | None, names: Sequence[str], *,
           group: int, member: Member) -> None:
    """Grow a volume and its copy to ``member.size`` KiB. Seven calls.

    The copy grows first: if the volume cannot, it still has the size that
    Cinder knows, and a copy may be larger. If an array refuses while the
    session is suspended (VOL-4), the request is repeated while it is idle,
    after which everything is copied again. If the array does not grow the copy
    even then, only the volume is grown, and the array grows the copy when the
    session starts. After a failover only the volume matters, and the other
    array may be lost.

    :param link: to the other array; None if it is known to be lost
    :param names: of the session, from ``naming.session_names``
    :param group: id of the volume group on ``source_array``
    :param member: the volume, with its new size
    :raises RestError: also if the peer of a running session is lost
    :raises ReplicationError: the session cannot copy from ``source_array`` to
        the other array, or the copy is missing or has not grown
    """
    with deadlines(source_array, link.target_array if link else None):
        finder, local = find(source_array, link, names, group)
        if local is None:
            _grow(source_array, member)
        elif local.is_source or local.state in RUNNING:
            _extend_both(finder, local, member)
        else:
            _grow(source_array, member)
            _try_extend_copy(finder, local, member)


def _grow(source_array: Array, member: Member) -> None:
    source_array.volumes.grow(member.volume, member.size, _names(member))


def _names(member: Member) -> list[str]:
    """Names that a volume, or its copy on the peer, may have."""
    return [copy_name(marked, member.name) for marked in (False, True)]


def _extend_both(finder: Finder, local: ArraySession, member: Member) -> None:
    pair = finder.running(local)
    copy = _copy(finder, pair, member)
    try:
        if not _extend_suspended(finder, pair, copy, member):
            pair = finder.running(finder.local())
            # Undoing the refused extension may have changed its size.
            copy = _copy(finder, pair, member)
            _run(finder, pair, copy, member, StopSession(), GrowIdleCopy(),
                 GrowOnce(), StartIdle())
    except rest.RestError as error:
        if not _came_true(finder, member, copy.name, error):
            raise


def _extend_suspended(finder: Finder, pair: SessionPair,
                      copy: replication.Copy, member: Member) -> bool:
    """Extend while the session is suspended; False if that is refused."""
    try:
        _run(finder, pair, copy, member, SuspendSession(), GrowCopy(), Grow(),
             Resume())
    except rest.Refused:
        return False
    return True


def _run(finder: Finder, pair: SessionPair, copy: replication.Copy,
         member: Member, *steps: engine.Step) -> None:
    engine.run(linear_flow.Flow('extend').add(*steps), **{
        'array': finder.source_array, 'target_array': finder.target_array,
        'finder': finder, 'pair': pair, 'copy': copy,
        'volume': member.volume, 'size': member.size,
        'names': _names(member), 'confirm': lambda opened: None})


def _copy(finder: Finder, pair: SessionPair, member: Member
          ) -> replication.Copy:
    """The copy of a volume. One call.

    :raises ReplicationError: there is none
    """
    name, copy = _find_copy(finder, pair, member)
    if copy is None:
        raise exceptions.ReplicationError(
            f'The peer of the array at {finder.source_array.address} has no '
            f'volume {name}, the copy of {member.name}.')
    return copy


def _came_true(finder: Finder, member: Member, copy: str,
               error: rest.RestError) -> bool:
    """Whether an extension has the right result although a call failed.

    :param copy: name of the copy
    :raises ReplicationError: the session has not started again, because only
        the volume or only its copy has grown and cannot shrink (VOL-2), or
        because the array is busy
    """
    source, target = finder.source_array, finder.target_array
    with contextlib.suppress(rest.RestError), source.cleanup_deadline():
        local = finder.local()
        if local and local.state != replication.IN_SYNC:
            sizes = _size(source, *_names(member)), _size(target, copy)
            raise exceptions.ReplicationError(
                f'Volume {member.name} is not replicated until it is '
                f'extended to {max(member.size, *sizes)} KiB: it has '
                f'{sizes[0] or "?"} KiB, its copy {sizes[1] or "?"} KiB, and '
                f'session {local.session.name} on the array at '
                f'{source.address} is {local.state}. {error}') from error
        if source.volumes.size(member.volume, finder.group) != member.size:
            return False
        # A copy that the array grows on request was grown first.
        return (target is not None and target.replication.grows_copies
                or _size(target, copy) >= member.size)
    return False


def _size(array: Array | None, *names: str) -> int:
    """The size in KiB of a volume with such a name; 0 if it is not known."""
    if array is not None:
        with contextlib.suppress(rest.RestError), array.cleanup_deadline():
            return max(array.replication.sizes_of(names).values(), default=0)
    return 0


def _try_extend_copy(finder: Finder, local: ArraySession,
                     member: Member) -> None:
    """Grow the volume that a failback will write to, if that is possible."""
    target_array = finder.target_array
    try:
        if target_array is not None:
            with target_array.cleanup_deadline():
                copy = _find_copy(finder, SessionPair(local, None), member)[1]
                if copy is not None:
                    target_array.volumes.grow(
                        copy.volume, member.size, _names(member))
    except rest.RestError as error:
        LOG.warning('Volume %(name)s has grown, but not yet the volume that a '
                    'failback will copy it to: %(error)s',
                    {'name': member.name, 'error': error})


def _find_copy(finder: Finder, pair: SessionPair, member: Member
               ) -> tuple[str, replication.Copy | None]:
    """The name of the copy of a volume, and the copy. One call."""
    name = copy_name(finder.is_marked(pair, ''), member.name)
    if finder.target_array is None:
        return name, None
    return name, finder.target_array.replication.find_copy(name)
