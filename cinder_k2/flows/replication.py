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

"""Beginning, changing and ending the replication of a volume group.

``here`` is the array where Cinder has the volumes, ``there`` the one that
they are copied to; after a failover ``here`` is the one that took over.
What is here stays, whatever happens; only copies there are deleted, and
none that is mapped. Data is never copied to ``here``: a session is started
or resumed only while that is its source.

Each function may be called again after it was cut short. Names are taken
with the mark of a copy (``naming.peer``) or without it: copies have it if
the session was made here, and have it not if it was made there.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2.flows import deletion
from cinder_k2.flows import engine
from cinder_k2 import naming
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

_RUNNING = (replication.IN_SYNC, replication.SUSPENDED)
# What a lost array, or a proxy in front of it, answers.
_LOST = (rest.Unreachable, rest.ServerError, rest.BadReply)

#: Unmaps volumes of an array from hosts that have no business there.
Release = Callable[[Array, Collection[int]], None]
#: Raises if what was to be done must not be done any more.
Confirm = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Link:
    """Two arrays, one of which is to copy to the other.

    :ivar peer_address: management address of ``there``, as ``here`` may
        know it
    :ivar backend_id: name of ``there``, should it not
    :ivar rpo: seconds, 60 or a multiple of 300 (REP-4)
    """

    here: Array
    there: Array
    peer_address: str
    backend_id: str
    rpo: int

    def number(self) -> int:
        """Id of the record that ``here`` has of ``there``. No call mostly.

        :raises ArrayUnsuitable: it has none
        """
        return self.here.replication.peer(self.peer_address, self.backend_id)

    def is_number(self, number: int) -> bool:
        """Whether that is the id of the record. No call mostly."""
        try:
            return number == self.number()
        except exceptions.ArrayUnsuitable:
            return False


@dataclasses.dataclass(frozen=True)
class Member:
    """A volume of the group.

    :ivar volume: its id here
    :ivar size: KiB
    """

    volume: int
    name: str
    size: int


def _unmarked(name: str) -> str:
    return name.removeprefix(naming.peer(''))


def _copy_name(marked: bool, name: str) -> str:
    """Name of the copy of something."""
    return naming.peer(_unmarked(name)) if marked else _unmarked(name)


@contextlib.contextmanager
def _time(*arrays: Array | None) -> Iterator[None]:
    """The deadline of each array; it counts for its own calls only."""
    with contextlib.ExitStack() as stack:
        for array in arrays:
            if array is not None:
                stack.enter_context(array.deadline())
        yield


def _each(*actions: Callable[[], object]) -> None:
    """Do all, even if some fail.

    :raises: what the first of those raised
    """
    errors: list[Exception] = []
    for action in actions:
        try:
            action()
        except (rest.RestError, exceptions.K2Error) as error:
            errors.append(error)
    if errors:
        raise errors[0]


# Both halves of a session


@dataclasses.dataclass(frozen=True)
class _Half:
    """One array's record of a session, as it was seen last."""

    array: Array
    session: replication.Session

    @property
    def state(self) -> str:
        return self.session.state

    @property
    def is_source(self) -> bool:
        return self.session.role == replication.SOURCE

    def to(self, state: str) -> '_Half':
        """Bring it to a state (10.4). One call, none if it is there."""
        if self.state == state:
            return self
        session = self.array.replication.command(self.session.id, state)
        if session.state != state:
            return self.wait(state)
        return dataclasses.replace(self, session=session)

    def wait(self, state: str) -> '_Half':
        """Wait until it follows the other half (REP-8). One call mostly.

        :raises ReplicationTimeout: it does not
        """
        return dataclasses.replace(self, session=self.array.replication.wait(
            self.session.id, state))

    def delete(self) -> None:
        self.array.replication.delete(self.session.id)


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Both arrays' records of a session; either may be missing.

    :ivar near: that of the array where Cinder has the volumes
    """

    near: _Half | None
    far: _Half | None

    def __str__(self) -> str:
        return f'{_words(self.near)} here, {_words(self.far)} there'

    @property
    def halves(self) -> list[_Half]:
        """Those that there are, the target first (REP-15)."""
        return sorted((h for h in (self.near, self.far) if h is not None),
                      key=lambda half: half.is_source)

    @property
    def may_run(self) -> bool:
        """Whether it copies from here to there, or could."""
        return bool(self.near and self.near.is_source
                    and self.far and not self.far.is_source
                    and self.far.state == self.near.state)

    def start(self) -> None:
        """Start or resume it, if it may run. One call."""
        if self.near and self.may_run:
            self.near.to(replication.IN_SYNC)

    def suspend(self) -> '_Pair':
        """Suspend it if it copies from here. Two calls."""
        return _Pair(*_suspend(self.near, self.far)) if self.near else self

    def stop(self) -> '_Pair':
        """Bring both to idle, from whatever state. Four calls if it runs."""
        pair = self._take_over()
        near, far = pair.near, pair.far
        if near and near.is_source:
            return _Pair(*_stop_source(near, far))
        if far and far.is_source:
            far, near = _stop_source(far, near)
        return _Pair(near, far)

    def _take_over(self) -> '_Pair':
        """Bring targets to idle that no source brings there.

        What is here is opened to hosts before (REP-16), and what has lost
        its source cannot be stopped but by a failover (rows 6, 8).
        """
        near, far = self.near, self.far
        if near and not near.is_source:
            if near.state in _RUNNING:
                near = near.to(replication.FAILED_OVER)
            near = near.to(replication.IDLE)
        if far and not far.is_source:
            if far.state in _RUNNING and near is None:
                far = far.to(replication.FAILED_OVER)
            if far.state == replication.FAILED_OVER:
                far = far.to(replication.IDLE)
        return _Pair(near, far)


def _stop_source(source: _Half, target: _Half | None
                 ) -> tuple[_Half, _Half | None]:
    """Rows 4 and 5, with the waits of REP-15."""
    source, target = _suspend(source, target)
    if source.state == replication.SUSPENDED:
        source = source.to(replication.IDLE)
        target = _follow(target, replication.IDLE)
    return source, target


def _suspend(source: _Half, target: _Half | None
             ) -> tuple[_Half, _Half | None]:
    if source.state == replication.IN_SYNC:
        source = source.to(replication.SUSPENDED)
        if target and target.state == replication.IN_SYNC:
            target = _follow(target, replication.SUSPENDED)
    return source, target


def _follow(half: _Half | None, state: str) -> _Half | None:
    """Wait until a half follows the other; None if there is none."""
    if half is None or half.state == state:
        return half
    try:
        return half.wait(state)
    except rest.NotFound:
        return None


@dataclasses.dataclass(frozen=True)
class _Finder:
    """Finds the halves of a session.

    :ivar names: both, that of the array where it was made first
    :ivar group: id of the volume group here. An array may be its own peer,
        and then has both halves (REP-21).
    """

    here: Array
    there: Array | None
    names: Sequence[str]
    group: int

    def near(self) -> _Half | None:
        """The half here. One call."""
        found = self.here.replication.find_many(self.names).values()
        return next((_Half(self.here, session) for session in found
                     if session.group == self.group), None)

    def far(self, near: _Half | None) -> _Half | None:
        """The half there. No call if the other one runs, else one."""
        if self.there is None:
            return None
        found = near and near.session
        if (found and found.role == replication.SOURCE and found.peer_session
                and found.state == replication.IN_SYNC):
            # Then it is a target and in sync, too (10.4).
            return _Half(self.there, dataclasses.replace(
                found, id=found.peer_session, peer_session=found.id,
                group=None, role=replication.TARGET))
        other = self.there.replication.find(*[
            name for name in self.names if not found or name != found.name])
        return None if other is None else _Half(self.there, other)

    def pair(self) -> _Pair:
        """Both halves. One call or two."""
        near = self.near()
        return _Pair(near, self.far(near))

    def running(self, near: _Half | None) -> _Pair:
        """Both halves of a session that copies from here to there.

        No call if it runs, else one.

        :raises ReplicationError: it does not, and could not
        """
        pair = _Pair(near, self.far(near))
        if not pair.may_run:
            raise exceptions.ReplicationError(
                f'Replication session {self.names[0]} is '
                f'{_words(pair.near)} on the array at {self.here.address} '
                f'and {_words(pair.far)} on its peer. It must run from the '
                'first to the second.')
        return pair

    def is_marked(self, pair: _Pair, group_name: str) -> bool:
        """Whether copies have the mark. No call while there is a half."""
        if pair.near:
            return pair.near.session.name == self.names[0]
        if pair.far:
            return pair.far.session.name != self.names[0]
        return self.here.volumes.find_group(
            _unmarked(group_name)) == self.group


def _words(half: _Half | None) -> str:
    return f'{half.state} as {half.session.role}' if half else 'missing'


# Copies


@dataclasses.dataclass(frozen=True)
class _Copies:
    """The copies of volumes on the peer, and the group they are in.

    :ivar group_name: name of the group there
    :ivar names: of the copies
    :ivar volumes: those that there are, by name: id, and id of the group
    """

    array: Array
    group_name: str
    names: Sequence[str]
    volumes: Mapping[str, tuple[int, int]]

    def __str__(self) -> str:
        return (f'volume group {self.group_name} with volumes '
                f'{", ".join(self.names)}')

    @classmethod
    def look(cls, there: Array, marked: bool, group_name: str,
             volume_names: Collection[str], release: Release | None
             ) -> '_Copies':
        """See what there is. One call, and three for each volume.

        :param release: is tried where one is mapped
        :raises StillMapped, ObjectInUse: one cannot go
        """
        names = [_copy_name(marked, name) for name in volume_names]
        found = there.replication.volumes_of(names)
        copies = cls(there, _copy_name(marked, group_name), names, found)
        copies.check_unneeded()
        try:
            copies.check_unmapped()
        except exceptions.StillMapped:
            if release is None:
                raise
            release(there, [volume for volume, _ in found.values()])
            copies.check_unmapped()
        return copies

    def check_unneeded(self) -> None:
        """See that no snapshot but replication's holds a copy. One call.

        :raises ObjectInUse: some do; the text names them
        """
        for group in {group for _, group in self.volumes.values()}:
            _check_none(f'Volume group {self.group_name}, the copy on the '
                        f'array at {self.array.address},',
                        self.array.replication.snapshots_beside(group))

    def check_unmapped(self) -> None:
        """See that no copy is mapped. One call for each.

        :raises StillMapped: one is; the text names hosts
        """
        for name, (volume, group) in self.volumes.items():
            with _in_words(self.array, name):
                self.array.volumes.check_unmapped(Backing(group=group,
                                                          volume=volume))

    def find_group(self) -> int | None:
        """The group of that name. One call."""
        return self.array.volumes.find_group(self.group_name)

    def delete(self, group: int | None) -> None:
        """Delete the copies with their group.

        :param group: the group, if it is known
        :raises StillMapped, ObjectInUse: the peer must keep one
        :raises ReplicationError: something is left; the text names it
        """
        try:
            if group is None:
                group = self.find_group()
            _delete_snapshots(self.array, group)
            _delete_volumes(self.array, self.volumes)
            if group is not None:
                deletion.delete_own_group(self.array, group)
        except rest.RestError as error:
            raise exceptions.ReplicationError(
                f'The replication has ended, but {self} may be left on the '
                f'array at {self.array.address}. Try again. {error}'
            ) from error


@contextlib.contextmanager
def _in_words(array: Array, name: str) -> Iterator[None]:
    """Tell of a copy that cannot go by its name, and where it is."""
    try:
        yield
    except exceptions.ObjectInUse as error:
        raise type(error)(
            f'Volume {name}, the copy on the array at {array.address},',
            error.why) from error


def _check_none(what: str, names: Sequence[str]) -> None:
    if names:
        raise exceptions.ObjectInUse(
            what, f'has snapshots or views: {", ".join(names)}. Delete them '
            'first, and what was made from them, in Cinder if it has them.')


def _delete_volumes(array: Array, volumes: Mapping[str, tuple[int, int]]
                    ) -> None:
    for name, (volume, _) in volumes.items():
        with _in_words(array, name):
            array.volumes.delete(volume)


def _delete_snapshots(array: Array, group: int | None) -> None:
    """Delete what replication took of a group.

    :raises ReplicationError: the array must keep some
    """
    if group is None:
        return
    try:
        array.replication.delete_snapshots(group)
    except rest.Refused as refusal:
        raise exceptions.ReplicationError(
            f'The replication has stopped, but the array at {array.address} '
            'keeps snapshots of it. Delete views, clones and snapshots that '
            f'somebody made of those, then try again. {refusal}'
        ) from refusal


# Beginning


@dataclasses.dataclass(frozen=True)
class Order:
    """What is to be replicated: a volume group with all its volumes.

    :ivar session_name: its name here: without the mark if copies are to
        have it; with it if the volumes are copies themselves, which took
        over
    :ivar group: id of the volume group
    :ivar members: all volumes in it
    """

    link: Link
    session_name: str
    group: int
    group_name: str
    members: Sequence[Member]

    @property
    def marked(self) -> bool:
        """Whether copies get the mark."""
        return self.session_name == _unmarked(self.session_name)

    @property
    def finder(self) -> _Finder:
        made, copy = self.session_name, self.peer_session_name
        return _Finder(self.link.here, self.link.there,
                       (made, copy) if self.marked else (copy, made),
                       self.group)

    @property
    def peer_session_name(self) -> str:
        return _copy_name(self.marked, self.session_name)

    @property
    def peer_group_name(self) -> str:
        return _copy_name(self.marked, self.group_name)


class CreateSession(engine.Step):
    """Make the session, with a group and a session on the peer (REP-1)."""

    default_provides = 'session'

    def execute(self, array: Array, there: Array, order: Order,
                peer: int) -> int:
        return array.replication.create_session(
            order.session_name, peer=peer, group=order.group,
            rpo=order.link.rpo, peer_group_name=order.peer_group_name,
            peer_session_name=order.peer_session_name)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        here, there = inputs['array'], inputs['there']
        order: Order = inputs['order']
        with there.grace():
            _each(lambda: _delete_session(there, order.peer_session_name),
                  lambda: _delete_session(here, order.session_name,
                                          order.group),
                  lambda: _delete_empty_group(there, order.peer_group_name))


def _delete_session(array: Array, name: str, group: int | None = None
                    ) -> None:
    """Delete an idle session by its name, if there is one.

    :param group: leave that of any other group alone
    """
    found = array.replication.find(name)
    if found is not None and group in (None, found.group):
        array.replication.delete(found.id)


def _delete_empty_group(array: Array, name: str) -> None:
    group = array.volumes.find_group(name)
    if group is not None:
        array.groups.delete_if_empty(group)


class AddPeerVolumes(engine.Step):
    """Let the peer make a volume for each member. One call each.

    :param marked: whether copies get the mark
    """

    always_doubtful = True

    def __init__(self, marked: bool) -> None:
        super().__init__()
        self._marked = marked
        self._tried: dict[str, Member] = {}

    def execute(self, array: Array, there: Array, session: int,
                members: Sequence[Member]) -> None:
        for member in members:
            name = _copy_name(self._marked, member.name)
            self._tried[name] = member
            try:
                array.replication.add_volume(session, member.volume, name)
            except rest.Refused:
                # What has the name there is not of our making.
                del self._tried[name]
                raise

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        calls, there = inputs['array'].replication, inputs['there']
        with there.grace():
            _each(*[functools.partial(calls.remove_volume, member.volume)
                    for member in self._tried.values()],
                  lambda: _delete_volumes(
                      there, there.replication.volumes_of(self._tried)))


class Start(engine.Step):
    """Start the session: the first copy begins (REP-6)."""

    # It starts later, maybe after nobody waits for it any more.
    always_doubtful = True

    def execute(self, array: Array, there: Array, session: int,
                finder: _Finder) -> None:
        _Half(array, replication.Session(
            id=session, name=finder.names[0], group=finder.group,
            role=replication.SOURCE, state=replication.IDLE)
        ).to(replication.IN_SYNC)

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        with inputs['there'].grace():
            for half in inputs['finder'].pair().stop().halves:
                _delete_snapshots(half.array, half.session.group)


def protect(order: Order, release: Release | None = None) -> None:
    """Replicate a volume group with all its volumes (10.3).

    Two calls and one for each volume, two more at first. What an earlier
    replication of the group has left on the peer is deleted.

    :param release: is tried on what an earlier one has left, if it is mapped
    :raises ArrayUnsuitable: the arrays are no peers
    :raises PeerUnreachable: the array here does not reach the other
        (REP-19)
    :raises StillMapped, ObjectInUse: what an earlier replication has left
        on the peer is in use
    """
    link = order.link
    with _time(link.here, link.there):
        peer = link.number()
        try:
            _protect(order, peer)
        except rest.Refused:
            if not _clear_leftovers(order, release):
                raise
            _protect(order, peer)


def may_be_begun(order: Order) -> bool:
    """Whether a failed attempt has left something. Up to four calls.

    So it may, if an array does not say.
    """
    link = order.link
    try:
        with link.here.grace(), link.there.grace():
            return order.finder.near() is not None or _is_anything_left(
                link.there, order.peer_session_name, order.peer_group_name,
                [_copy_name(order.marked, one.name)
                 for one in order.members])
    except rest.RestError:
        return True


def _is_anything_left(there: Array, session_name: str, group_name: str,
                      names: Collection[str]) -> bool:
    return bool(there.replication.find(session_name)
                or there.replication.volumes_of(names)
                or there.volumes.find_group(group_name))


def _protect(order: Order, peer: int) -> None:
    flow = linear_flow.Flow('protect').add(
        CreateSession(), AddPeerVolumes(order.marked), Start())
    engine.run(flow, array=order.link.here, there=order.link.there,
               order=order, peer=peer, members=order.members,
               finder=order.finder)


def _clear_leftovers(order: Order, release: Release | None) -> bool:
    """Delete what an earlier replication has left on the peer.

    It could not be reached then.

    :returns: whether another attempt makes sense. An array that is its own
        peer (REP-21) has no leftovers, but may have Cinder's own volume
        under such a name. And nothing makes sense while it cannot be reached.
    """
    here, there = order.link.here, order.link.there
    try:
        if (here.replication.of_group(order.group) is not None
                or here.system.id == there.system.id):
            return False
        # Without leftovers, too: a session of an earlier attempt may have
        # been taken over that had lost its other half. It was deleted with
        # this attempt.
        sweep(there, order.marked, order.session_name, order.group_name,
              [member.name for member in order.members], release)
    except rest.RestError as error:
        LOG.warning('What an earlier replication of %(group)s may have left '
                    'on the array at %(address)s stays there: %(error)s', {
                        'group': order.group_name, 'error': error,
                        'address': there.address})
        return False
    return True


def sweep(there: Array, marked: bool, session_name: str, group_name: str,
          volume_names: Collection[str], release: Release | None = None
          ) -> None:
    """Delete what is left on a peer, where the other side is gone.

    Names are those of what was to be replicated.

    :param marked: whether copies have the mark
    :param release: is tried on the copies if one is mapped
    :raises StillMapped, ObjectInUse: a copy is needed there
    :raises ReplicationError: something is left; the text names it
    """
    session = there.replication.find(_copy_name(marked, session_name))
    copies = _Copies.look(there, marked, group_name, volume_names, release)
    if session is None and not copies.volumes and not copies.find_group():
        return
    LOG.warning('An earlier replication of %(group)s has left %(what)s, or '
                'a part of that, on the array at %(address)s. It is deleted.',
                {'address': there.address, 'what': copies,
                 'group': group_name})
    if session is not None:
        for half in _Pair(None, _Half(there, session)).stop().halves:
            half.delete()
    copies.delete(session.group if session else None)


# Ending


class StopSession(engine.Step):
    """Bring both halves to idle."""

    default_provides = 'stopped'
    always_doubtful = True

    def execute(self, array: Array, there: Array | None, pair: _Pair,
                finder: _Finder, confirm: Confirm) -> _Pair:
        confirm()
        if pair.may_run:
            # Waiting for the peer may have taken long.
            pair = pair.suspend()
            confirm()
        return pair.stop()

    def undo_doubtful(self, **inputs: typing.Any) -> None:
        if inputs['pair'].may_run:
            with inputs['there'].grace():
                inputs['finder'].pair().start()


class DeleteSessions(engine.Step):
    """Delete both halves, the target's first (REP-15)."""

    def execute(self, array: Array, stopped: _Pair) -> None:
        for half in stopped.halves:
            half.delete()


class DeleteCopies(engine.Step):
    """Delete what a session leaves in place (REP-15)."""

    def execute(self, array: Array, stopped: _Pair, finder: _Finder,
                copies: _Copies | None, confirm: Confirm) -> None:
        confirm()
        actions: list[Callable[[], object]] = [functools.partial(
            _delete_snapshots, array, finder.group)]
        if copies is not None:
            actions.append(functools.partial(
                copies.delete,
                stopped.far.session.group if stopped.far else None))
        _each(*actions)


def unprotect(here: Array, link: Link | None, names: Sequence[str], *,
              group: int, group_name: str, volume_names: Collection[str],
              release: Release | None = None,
              confirm: Confirm = lambda: None) -> None:
    """End the replication of a volume group, from whatever state (REP-15).

    What is here stays, open to hosts; the copies and their group go. While
    one of them is mapped, or has a snapshot, the replication goes on.

    :param link: to the other array; None if it is known to be lost. If that
        cannot be reached, or the session is with yet another one, only what
        is here is cleaned, and the log tells what is left there.
    :param names: of the session, as ``naming.session_names`` tells them
    :param group: id of the volume group here
    :param release: is tried on the copies if one is mapped
    :param confirm: is called before anything is stopped, and before copies
        are deleted; raises if those serve by now
    :raises StillMapped, ObjectInUse: a copy is needed there
    :raises ReplicationTimeout: the session does not stop
    :raises ReplicationError: copies may be left; the text names them
    """
    with _time(here, link.there if link else None):
        finder, near = _find(here, link, names, group)
        _check_none(f'Volume group {group_name}', near and
                    here.replication.views_of_taken(group) or ())
        pair, copies = _look_there(finder, near, group_name, volume_names,
                                   release)
        flow = linear_flow.Flow('unprotect').add(
            StopSession(), DeleteSessions(), DeleteCopies())
        # A peer that is lost may have taken most of the time there was.
        with here.deadline(fresh=True):
            engine.run(flow, array=here, there=copies and finder.there,
                       pair=pair, finder=finder, copies=copies,
                       confirm=confirm)


def _find(here: Array, link: Link | None, names: Sequence[str], group: int
          ) -> tuple[_Finder, _Half | None]:
    """The half of a session that is here, and what finds the other one.

    That of a session with another array than the link's is not looked for:
    the link's array may have another one with its id.
    """
    near = _Finder(here, None, names, group).near()
    number = near.session.peer if near else None
    if link is None or number is not None and not link.is_number(number):
        return _Finder(here, None, names, group), near
    return _Finder(here, link.there, names, group), near


def has_ended(here: Array, names: Sequence[str], group: int) -> bool:
    """Whether a group has no session that copies, or could. One call.

    :param names: of the session, as ``naming.session_names`` tells them
    """
    near = _Finder(here, None, names, group).near()
    return near is None or near.state == replication.IDLE


def _look_there(finder: _Finder, near: _Half | None, group_name: str,
                volume_names: Collection[str], release: Release | None
                ) -> tuple[_Pair, _Copies | None]:
    """See what is on the peer; no copies if it is lost.

    :raises StillMapped, ObjectInUse: a copy cannot go
    """
    there, why = finder.there, 'it is no replication_device'
    if there is not None:
        try:
            with there.grace():
                pair = _Pair(near, finder.far(near))
                return pair, _Copies.look(
                    there, finder.is_marked(pair, group_name), group_name,
                    volume_names, release)
        except _LOST as error:
            why = str(error)
    pair = _Pair(near, None)
    marked = finder.is_marked(pair, group_name)
    LOG.warning('The replication of %(group)s ends on one side only. When '
                'the other array%(address)s is back, delete there what is '
                'left of replication session %(session)s, volumes %(volumes)s'
                ' and volume group %(copy)s: %(why)s', {
                    'group': group_name,
                    'address': f' at {there.address}' if there else '',
                    'session': _copy_name(marked, finder.names[0]),
                    'volumes': ', '.join(_copy_name(marked, name)
                                         for name in volume_names),
                    'copy': _copy_name(marked, group_name), 'why': why})
    return pair, None


# Changing


class SuspendSession(StopSession):
    """Suspend it; undone by resuming it."""

    def execute(self, array: Array, there: Array | None, pair: _Pair,
                finder: _Finder, confirm: Confirm) -> _Pair:
        return pair.suspend()


class GrowCopy(engine.Step):
    """Grow the copy, while nothing is copied. It cannot shrink (VOL-2)."""

    def execute(self, array: Array, there: Array, copy: int, size: int
                ) -> None:
        there.volumes.grow(copy, size)


class Grow(engine.Step):
    """Grow the volume."""

    def execute(self, array: Array, volume: int, size: int) -> None:
        array.volumes.grow(volume, size)


class Resume(engine.Step):
    """Let the session run again."""

    def execute(self, array: Array, stopped: _Pair) -> None:
        stopped.start()


def extend(here: Array, link: Link | None, names: Sequence[str], *,
           group: int, member: Member) -> None:
    """Grow a volume and its copy to ``member.size`` KiB. Seven calls.

    The copy grows first: if the volume cannot, it still has the size that
    Cinder knows, and a copy may be larger. An array that refuses while the
    session is suspended (VOL-4) is asked again while it is idle, after
    which all is copied anew. After a failover the volume alone matters, and
    the other array may be lost.

    :param link: to the other array; None if it is known to be lost
    :raises RestError: also if the peer of a running session is lost
    :raises ReplicationError: the session cannot run from here to there
    """
    with _time(here, link.there if link else None):
        finder, near = _find(here, link, names, group)
        if near is None:
            here.volumes.grow(member.volume, member.size)
        elif near.is_source or near.state in _RUNNING:
            _extend_both(finder, near, member)
        else:
            here.volumes.grow(member.volume, member.size)
            _try_extend_copy(finder, near, member)


def _extend_both(finder: _Finder, near: _Half, member: Member) -> None:
    pair = finder.running(near)
    name, copy = _find_copy(finder, pair, member)
    if copy is None:
        raise exceptions.ReplicationError(
            f'The peer of the array at {finder.here.address} has no volume '
            f'{name}, the copy of {member.name}.')
    inputs = {'array': finder.here, 'there': finder.there, 'finder': finder,
              'copy': copy, 'volume': member.volume, 'size': member.size,
              'confirm': lambda: None}
    try:
        try:
            engine.run(_extension(SuspendSession()), pair=pair, **inputs)
        except rest.Refused:
            engine.run(_extension(StopSession()),
                       pair=finder.running(finder.near()), **inputs)
    except rest.RestError as error:
        if not _came_true(finder, member, error):
            raise


def _came_true(finder: _Finder, member: Member, error: rest.RestError
               ) -> bool:
    """Whether all is well after an extension of which some call failed.

    :raises ReplicationError: the session has not started again, because the
        copy has grown alone and cannot shrink (VOL-2), or the array is busy
    """
    with contextlib.suppress(rest.RestError), finder.here.grace():
        near = finder.near()
        if near and near.state != replication.IN_SYNC:
            raise exceptions.ReplicationError(
                f'Volume {member.name} is not replicated until it is '
                f'extended to {member.size} KiB: its copy may have grown '
                f'already, and session {near.session.name} on the array at '
                f'{finder.here.address} is {near.state}. {error}') from error
        return finder.here.volumes.size(member.volume) == member.size
    return False


def _extension(pause: engine.Step) -> linear_flow.Flow:
    return linear_flow.Flow('extend').add(pause, GrowCopy(), Grow(),
                                          Resume())


def _try_extend_copy(finder: _Finder, near: _Half, member: Member) -> None:
    """Grow the volume that a failback will write to, if that is possible."""
    there = finder.there
    try:
        if there is not None:
            with there.grace():
                copy = _find_copy(finder, _Pair(near, None), member)[1]
                if copy is not None:
                    there.volumes.grow(copy, member.size)
    except rest.RestError as error:
        LOG.warning('Volume %(name)s has grown, but not yet what a failback '
                    'will copy it to: %(error)s',
                    {'name': member.name, 'error': error})


def _find_copy(finder: _Finder, pair: _Pair, member: Member
               ) -> tuple[str, int | None]:
    """Name and id of the copy of a volume. One call."""
    name = _copy_name(finder.is_marked(pair, ''), member.name)
    if finder.there is None:
        return name, None
    return name, finder.there.volumes.find_volume(name)
