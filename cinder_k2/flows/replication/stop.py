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

"""Ending the replication of a volume group."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
import functools
import typing

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from cinder_k2.array import Array
from cinder_k2.array import replication
from cinder_k2.flows import engine
from cinder_k2.flows.replication.copies import check_none
from cinder_k2.flows.replication.copies import Copies
from cinder_k2.flows.replication.copies import delete_snapshots
from cinder_k2.flows.replication.sessions import ArraySession
from cinder_k2.flows.replication.sessions import Finder
from cinder_k2.flows.replication.sessions import SessionPair
from cinder_k2.flows.replication.target import Confirm
from cinder_k2.flows.replication.target import copy_name
from cinder_k2.flows.replication.target import deadlines
from cinder_k2.flows.replication.target import each
from cinder_k2.flows.replication.target import Link
from cinder_k2.flows.replication.target import Release
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

# The replies of a lost array, or of a proxy in front of it.
_LOST = (rest.Unreachable, rest.ServerError, rest.BadReply)


class StopSession(engine.Step):
    """Bring both sessions to idle."""

    default_provides = 'stopped'
    always_unknown = True

    def execute(self, array: Array, target_array: Array | None,
                pair: SessionPair,
                finder: Finder, confirm: Confirm) -> SessionPair:
        confirm(pair.is_open)
        if pair.may_run:
            # Waiting for the peer may have taken long.
            pair = pair.suspend()
            confirm(pair.is_open)
        return pair.stop()

    def undo_unknown(self, **inputs: typing.Any) -> None:
        if inputs['pair'].may_run:
            with inputs['target_array'].cleanup_deadline():
                inputs['finder'].pair().start()


class DeleteSessions(engine.Step):
    """Delete both sessions, the target's first (REP-15)."""

    def execute(self, array: Array, pair: SessionPair,
                stopped: SessionPair) -> None:
        # Whatever deleted one side while it stopped may have deleted the
        # other.
        vanished = pair.remote is not None and stopped.remote is None
        for side in stopped.sessions:
            side.delete(look_first=vanished)


class DeleteCopies(engine.Step):
    """Delete the objects that a session leaves (REP-15)."""

    def execute(self, array: Array, pair: SessionPair, stopped: SessionPair,
                finder: Finder, copies: Copies | None, confirm: Confirm
                ) -> None:
        confirm(pair.is_open)
        actions: list[Callable[[], object]] = [functools.partial(
            delete_snapshots, array, finder.group)]
        if copies is not None:
            actions.append(functools.partial(
                copies.delete,
                stopped.remote.session.group if stopped.remote else None))
        each(*actions)


def unprotect(source_array: Array, link: Link | None, names: Sequence[str], *,
              group: int, group_name: str, volume_names: Collection[str],
              release: Release | None = None,
              confirm: Confirm = lambda opened: None) -> bool:
    """End the replication of a volume group, from any state (REP-15).

    The volumes on ``source_array`` stay, open to hosts; the copies and their
    group are deleted. If a copy is mapped or has a foreign snapshot, the
    replication continues.

    :param link: to the other array; None if it is known to be lost. If that
        array cannot be reached, or the session is with a third one, only
        ``source_array`` is cleaned up, and the leftovers are logged.
    :param names: of the session, from ``naming.session_names``
    :param group: id of the volume group on ``source_array``
    :param group_name: name of that group
    :param volume_names: names of all volumes in it
    :param release: tried on the copies if one is mapped
    :param confirm: called before anything is stopped, and before copies are
        deleted; raises if the copies are active by now
    :returns: whether the other array was cleaned up, too
    :raises StillMapped, ObjectInUse: a copy is in use, or views were made from
        replication snapshots on ``source_array``
    :raises ReplicationTimeout: the session does not stop
    :raises ReplicationError: copies may be left; the text names them
    """
    with deadlines(source_array, link.target_array if link else None):
        finder, local = find(source_array, link, names, group)
        check_none(f'Volume group {group_name}', local and
                   source_array.replication.views_of_taken(group) or ())
        pair, copies = _look_there(finder, local, group_name, volume_names,
                                   release)
        flow = linear_flow.Flow('unprotect').add(
            StopSession(), DeleteSessions(), DeleteCopies())
        # A lost peer may have used up most of the time.
        with source_array.deadline(fresh=True):
            engine.run(flow, array=source_array,
                       target_array=copies and finder.target_array,
                       pair=pair, finder=finder, copies=copies,
                       confirm=confirm)
    return copies is not None


def find(source_array: Array, link: Link | None, names: Sequence[str],
         group: int
         ) -> tuple[Finder, ArraySession | None]:
    """A finder of a session, and its side on ``source_array``.

    The finder looks for the other side only if the session is with the array
    of the link. Otherwise that array may have another session with its id.
    """
    local = Finder(source_array, None, names, group).local()
    number = local.session.peer if local else None
    if link is None or number is not None and not link.is_number(number):
        return Finder(source_array, None, names, group), local
    return Finder(source_array, link.target_array, names, group), local


def has_ended(source_array: Array, names: Sequence[str], group: int) -> bool:
    """Whether a group has no session, or an idle one. One call.

    :param names: of the session, from ``naming.session_names``
    """
    local = Finder(source_array, None, names, group).local()
    return local is None or local.state == replication.IDLE


def _look_there(finder: Finder, local: ArraySession | None, group_name: str,
                volume_names: Collection[str], release: Release | None
                ) -> tuple[SessionPair, Copies | None]:
    """Find both sessions, and the copies on the peer; None if it is lost.

    :raises StillMapped, ObjectInUse: a copy cannot be deleted
    """
    target_array, why = finder.target_array, 'it is no replication_device'
    if target_array is not None:
        try:
            with target_array.cleanup_deadline():
                pair = SessionPair(local, finder.remote(local))
                return pair, Copies.look(
                    target_array, finder.is_marked(
                        pair, group_name), group_name,
                    volume_names, release)
        except _LOST as error:
            why = str(error)
    pair = SessionPair(local, None)
    marked = finder.is_marked(pair, group_name)
    LOG.warning('The replication of %(group)s ends on one side only. When '
                'the other array%(address)s is back, delete there what is '
                'left of replication session %(session)s, volumes %(volumes)s'
                ' and volume group %(copy)s: %(why)s', {
                    'group': group_name,
                    'address': (f' at {target_array.address}' if target_array
                                else ''),
                    'session': copy_name(marked, finder.names[0]),
                    'volumes': ', '.join(copy_name(marked, name)
                                         for name in volume_names),
                    'copy': copy_name(marked, group_name), 'why': why})
    return pair, None
