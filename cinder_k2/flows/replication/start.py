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

"""Starting the replication of a volume group."""

from collections.abc import Collection
from collections.abc import Sequence
import dataclasses
import functools
import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.flows import engine
from cinder_k2.flows.replication.copies import Copies
from cinder_k2.flows.replication.copies import delete_snapshots
from cinder_k2.flows.replication.copies import delete_volumes
from cinder_k2.flows.replication.sessions import ArraySession
from cinder_k2.flows.replication.sessions import Finder
from cinder_k2.flows.replication.sessions import SessionPair
from cinder_k2.flows.replication.target import copy_name
from cinder_k2.flows.replication.target import deadlines
from cinder_k2.flows.replication.target import each
from cinder_k2.flows.replication.target import Link
from cinder_k2.flows.replication.target import Member
from cinder_k2.flows.replication.target import Release
from cinder_k2.flows.replication.target import unmarked
from cinder_k2 import rest

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class SessionRequest:
    """The volume group to be replicated, with all its volumes.

    :ivar session_name: name of the session on ``source_array``: without the
        mark if copies get it; with the mark if the volumes are former copies
        that were failed over to
    :ivar group: id of the volume group on ``source_array``
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
        return self.session_name == unmarked(self.session_name)

    @property
    def finder(self) -> Finder:
        made, copy = self.session_name, self.peer_session_name
        return Finder(self.link.source_array, self.link.target_array,
                      (made, copy) if self.marked else (copy, made),
                      self.group)

    @property
    def peer_session_name(self) -> str:
        return copy_name(self.marked, self.session_name)

    @property
    def peer_group_name(self) -> str:
        return copy_name(self.marked, self.group_name)


class CreateSession(engine.Step):
    """Create the session, with a group and a session on the peer (REP-1)."""

    default_provides = 'session'

    def execute(self, array: Array, target_array: Array,
                request: SessionRequest,
                peer: int) -> int:
        return array.replication.create_session(
            request.session_name, peer=peer, group=request.group,
            rpo=request.link.rpo, peer_group_name=request.peer_group_name,
            peer_session_name=request.peer_session_name)

    def undo_unknown(self, **inputs: typing.Any) -> None:
        source_array, target_array = inputs['array'], inputs['target_array']
        request: SessionRequest = inputs['request']
        with target_array.cleanup_deadline():
            each(lambda: _delete_session(target_array,
                                         request.peer_session_name),
                 lambda: _delete_session(source_array, request.session_name,
                                         request.group),
                 lambda: _delete_empty_group(target_array,
                                             request.peer_group_name))


def _delete_session(array: Array, name: str, group: int | None = None
                    ) -> None:
    """Delete an idle session by its name, if there is one.

    :param group: id of its volume group; a session of another group stays
    """
    found = array.replication.find(name)
    if found is not None and (None in (group, found.group)
                              or group == found.group):
        array.replication.delete(found)


def _delete_empty_group(array: Array, name: str) -> None:
    group = array.volumes.find_group(name)
    if group is not None:
        array.groups.delete_if_empty(group, name)


class AddPeerVolumes(engine.Step):
    """Let the peer create a volume for each member. One call each."""

    always_unknown = True

    def __init__(self, request: SessionRequest) -> None:
        super().__init__()
        self._request = request
        self._tried: dict[str, Member] = {}

    def execute(self, array: Array, target_array: Array, session: int,
                members: Sequence[Member]) -> None:
        for member in members:
            name = copy_name(self._request.marked, member.name)
            self._tried[name] = member
            try:
                array.replication.add_volume(session, member.volume, name)
            except rest.Refused as refusal:
                if not refusal.repeats:
                    # The object with that name on the peer is foreign.
                    del self._tried[name]
                raise

    def undo_unknown(self, **inputs: typing.Any) -> None:
        calls = inputs['array'].replication
        with inputs['target_array'].cleanup_deadline():
            each(*[functools.partial(calls.remove_volume, member.volume)
                   for member in self._tried.values()],
                 self._delete_copies)

    def _delete_copies(self) -> None:
        """Delete the copies in the group that came with the session (REP-1).

        A volume of that name in another group was there before, even if a
        reply was lost.
        """
        copies = Copies.in_group(self._request.link,
                                 self._request.peer_group_name, self._tried)
        copies.check_unneeded()
        copies.check_unmapped()
        delete_volumes(copies.array, copies.volumes)


class Start(engine.Step):
    """Start the session: the first copy begins (REP-6)."""

    # It may start after the caller has stopped waiting for it.
    always_unknown = True

    def execute(self, array: Array, target_array: Array, session: int,
                finder: Finder) -> None:
        ArraySession(array, replication.Session(
            id=session, name=finder.names[0], group=finder.group,
            role=replication.SOURCE, state=replication.IDLE)
        ).to(replication.IN_SYNC)

    def undo_unknown(self, **inputs: typing.Any) -> None:
        with inputs['target_array'].cleanup_deadline():
            for side in inputs['finder'].pair().stop().sessions:
                delete_snapshots(side.array, side.session.group)


def protect(request: SessionRequest, release: Release | None = None) -> None:
    """Replicate a volume group with all its volumes (10.3).

    Two calls and one for each volume, and two more the first time. Leftovers
    of an earlier replication of the group on the peer are deleted.

    :param release: tried on leftovers if they are mapped
    :raises ArrayNotSupported: the arrays are not peers, or ``source_array``
        lacks the retention policy
    :raises Refused: ``source_array`` creates no session, for example because
        it does not reach the other array (REP-19)
    :raises StillMapped, ObjectInUse: leftovers of an earlier replication on
        the peer are in use
    """
    link = request.link
    with deadlines(link.source_array, link.target_array):
        peer = link.number()
        try:
            _protect(request, peer)
        except rest.Refused:
            if not _clear_leftovers(request, release):
                raise
            _protect(request, peer)


def may_be_begun(request: SessionRequest) -> bool:
    """Whether a failed start may have left something. Up to four calls.

    True if an array does not reply.
    """
    link = request.link
    try:
        with link.source_array.cleanup_deadline(), \
                link.target_array.cleanup_deadline():
            return request.finder.local() is not None or _is_anything_left(
                link.target_array, request.peer_session_name,
                request.peer_group_name,
                [copy_name(request.marked, one.name)
                 for one in request.members])
    except rest.RestError:
        return True


def _is_anything_left(target_array: Array, session_name: str, group_name: str,
                      names: Collection[str]) -> bool:
    return bool(target_array.replication.find(session_name)
                or target_array.replication.volumes_of(names)
                or target_array.volumes.find_group(group_name))


def _protect(request: SessionRequest, peer: int) -> None:
    flow = linear_flow.Flow('protect').add(
        CreateSession(), AddPeerVolumes(request), Start())
    engine.run(flow, array=request.link.source_array,
               target_array=request.link.target_array,
               request=request, peer=peer, members=request.members,
               finder=request.finder)


def _clear_leftovers(request: SessionRequest, release: Release | None) -> bool:
    """Delete leftovers of an earlier replication on the peer.

    The peer could not be reached when that replication ended.

    :returns: whether another attempt makes sense. It does not while the peer
        cannot be reached. An array that is its own peer (REP-21) has no
        leftovers, but may have a volume of Cinder with the name of a copy.
    """
    source_array = request.link.source_array
    target_array = request.link.target_array
    try:
        if (source_array.replication.of_group(request.group) is not None
                or request.link.is_own_peer):
            return False
        # Another attempt makes sense without leftovers, too: this one may have
        # taken over a session of an earlier attempt that had lost its other
        # side; the undo has deleted it.
        sweep(target_array, request.marked, request.session_name,
              request.group_name,
              [member.name for member in request.members], release)
    except rest.RestError as error:
        LOG.warning('What an earlier replication of %(group)s may have left '
                    'on the array at %(address)s stays there: %(error)s', {
                        'group': request.group_name, 'error': error,
                        'address': target_array.address})
        return False
    return True


def sweep(target_array: Array, marked: bool, session_name: str,
          group_name: str,
          volume_names: Collection[str], release: Release | None = None
          ) -> None:
    """Delete what an earlier replication has left on a peer.

    Its session on the other array is gone. The names are those of the
    replicated objects, from which the names of the copies follow.

    :param marked: whether copies have the mark
    :param release: tried on the copies if one is mapped
    :raises StillMapped, ObjectInUse: a copy is in use on the peer
    :raises ReplicationError: something is left; the text names it
    """
    session = target_array.replication.find(copy_name(marked, session_name))
    copies = Copies.look(target_array, marked, group_name,
                         volume_names, release)
    if session is None and not copies.volumes and not copies.find_group():
        return
    LOG.warning('An earlier replication of %(group)s has left %(what)s, or '
                'a part of that, on the array at %(address)s. It is deleted.',
                {'address': target_array.address, 'what': copies,
                 'group': group_name})
    if session is not None:
        for side in SessionPair(None, ArraySession(target_array,
                                                   session)).stop().sessions:
            side.delete()
    copies.delete(session.group if session else None)
