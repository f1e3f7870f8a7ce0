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

"""Extending a volume that is replicated."""

from collections.abc import Sequence
import contextlib
import typing

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

    def execute(self, array: Array, target_array: Array, copy: int, size: int,
                names: Sequence[str]) -> None:
        target_array.volumes.grow(copy, size, names)


class Grow(engine.Step):
    """Grow the volume."""

    def execute(self, array: Array, volume: int, size: int,
                names: Sequence[str]) -> None:
        array.volumes.grow(volume, size, names)


class Resume(engine.Step):
    """Resume the session."""

    def execute(self, array: Array, stopped: SessionPair) -> None:
        stopped.start()


class GrowAlone(engine.Step):
    """Grow the volume before its copy, unless an earlier try did."""

    def execute(self, array: Array, volume: int, size: int,
                names: Sequence[str], finder: Finder) -> None:
        if array.volumes.size(volume, finder.group) != size:
            array.volumes.grow(volume, size, names)


class StartToGrow(engine.Step):
    """Start the session, with which the array grows the copy.

    The volume cannot shrink again (VOL-2), so a refusal is not final.

    :raises ReplicationError: it runs, and the copy has not grown
    """

    def execute(self, array: Array, target_array: Array, finder: Finder,
                size: int, copy_name: str) -> None:
        def start() -> None:
            with target_array.deadline(fresh=True):
                finder.running(finder.local()).start()

        array.replication.insist(start)
        if not target_array.replication.await_size(copy_name, size):
            raise exceptions.ReplicationError(
                f'Volume {copy_name} on the array at {target_array.address} '
                f'has not grown to {size} KiB with its source: a failover '
                'would cut it off. Extend it again.')


def extend(source_array: Array, link: Link | None, names: Sequence[str], *,
           group: int, member: Member) -> None:
    """Grow a volume and its copy to ``member.size`` KiB. Seven calls.

    The copy grows first: if the volume cannot, it still has the size that
    Cinder knows, and a copy may be larger. If an array refuses while the
    session is suspended (VOL-4), the request is repeated while it is idle,
    after which everything is copied again. If the copy cannot be grown at all,
    the volume is, and the array grows the copy when the session starts. After
    a failover only the volume matters, and the other array may be lost.

    :param link: to the other array; None if it is known to be lost
    :raises RestError: also if the peer of a running session is lost
    :raises ReplicationError: the session cannot run from here to there
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
    """Names that a volume may have here, and its copy on the peer."""
    return [copy_name(marked, member.name) for marked in (False, True)]


def _extend_both(finder: Finder, local: ArraySession, member: Member) -> None:
    pair = finder.running(local)
    name, copy = _find_copy(finder, pair, member)
    if copy is None:
        raise exceptions.ReplicationError(
            f'The peer of the array at {finder.source_array.address} has no '
            f'volume {name}, the copy of {member.name}.')
    inputs = {'array': finder.source_array,
              'target_array': finder.target_array, 'finder': finder,
              'copy': copy, 'copy_name': name,
              'volume': member.volume, 'size': member.size,
              'names': _names(member),
              'confirm': lambda opened: None}
    try:
        try:
            engine.run(_extension(SuspendSession()), pair=pair, **inputs)
        except rest.Refused:
            _extend_idle(finder, name, inputs)
    except rest.RestError as error:
        if not _came_true(finder, member, name, error):
            raise


def _extend_idle(finder: Finder, copy_name: str,
                 inputs: dict[str, typing.Any]) -> None:
    """Extend while the session is idle, the copy first or the volume alone."""
    try:
        engine.run(_extension(StopSession()),
                   pair=finder.running(finder.local()), **inputs)
    except rest.Refused:
        # One that lacks room would not grow when the session starts, either.
        if not inputs['target_array'].volumes.has_room(copy_name):
            raise
        engine.run(linear_flow.Flow('extend').add(
            StopSession(), GrowAlone(), StartToGrow()),
            pair=finder.running(finder.local()), **inputs)


def _came_true(finder: Finder, member: Member, copy: str,
               error: rest.RestError) -> bool:
    """Whether the result is right after an extension with a failed call.

    :param copy: name of the copy
    :raises ReplicationError: the session has not started again, because one
        of the two has grown alone and cannot shrink (VOL-2), or the array is
        busy
    """
    with contextlib.suppress(rest.RestError), \
            finder.source_array.cleanup_deadline():
        local = finder.local()
        size = finder.source_array.volumes.size(member.volume, finder.group)
        if local and local.state != replication.IN_SYNC:
            raise exceptions.ReplicationError(
                f'Volume {member.name} is not replicated until it is '
                f'extended to {member.size} KiB: it has {size} KiB, its copy '
                f'{_size_of_copy(finder, copy)}, and session '
                f'{local.session.name} on the array at '
                f'{finder.source_array.address} is {local.state}. {error}'
            ) from error
        return size == member.size
    return False


def _size_of_copy(finder: Finder, name: str) -> str:
    """The size of a copy, in words."""
    if finder.target_array is not None:
        with contextlib.suppress(rest.RestError), \
                finder.target_array.cleanup_deadline():
            for size in finder.target_array.replication.sizes_of(
                    [name]).values():
                return f'{size} KiB'
    return 'an unknown size'


def _extension(pause: engine.Step) -> linear_flow.Flow:
    return linear_flow.Flow('extend').add(pause, GrowCopy(), Grow(),
                                          Resume())


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
                        copy, member.size, _names(member))
    except rest.RestError as error:
        LOG.warning('Volume %(name)s has grown, but not yet what a failback '
                    'will copy it to: %(error)s',
                    {'name': member.name, 'error': error})


def _find_copy(finder: Finder, pair: SessionPair, member: Member
               ) -> tuple[str, int | None]:
    """Name and id of the copy of a volume. One call."""
    name = copy_name(finder.is_marked(pair, ''), member.name)
    if finder.target_array is None:
        return name, None
    return name, finder.target_array.volumes.find_volume(name)
