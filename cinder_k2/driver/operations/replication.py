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
"""Replication of volumes: enabling, disabling, and changes while it runs.

A session between two arrays belongs to a volume group. The row of a volume
says ``replicated`` before any part of its session is created, and until all of
it is gone, so a deletion of the volume looks for leftovers of a killed
service.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import typing

from oslo_log import log as logging
from oslo_utils import excutils
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as array_replication
from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import replication
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

_KIB_PER_GIB = units.Mi

ENABLED = {'replication_status': statuses.Replication.ENABLED}
DISABLED = {'replication_status': statuses.Replication.DISABLED}
ERROR = {'replication_status': statuses.Replication.ERROR}
# The same for volumes, without the reason of an earlier status.
VOLUME_ENABLED = {**ENABLED, 'replication_extended_status': None}
VOLUME_DISABLED = {**DISABLED, 'replication_extended_status': None}

# Maximum length of a text in Cinder's database.
_LONGEST = 255


def in_error(why: str) -> resolver.ModelUpdate:
    """The update of a volume whose replication is in error, and the reason."""
    return {**ERROR, 'replication_extended_status': shortened(why)}


def shortened(text: str) -> str:
    """A text shortened for Cinder's database."""
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST - 3]}...'


class Replication:
    """Replicates volumes of this array to one of its peers.

    :ivar primary: the Replication of the primary, if this array is a target
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 rows: backend_rows.BackendRows) -> None:
        self._array = array
        self._resolver = known
        self._backend_rows = rows
        self.primary: Replication | None = None

    def link(self, spec: volume_types.TypeSpec) -> replication.Link:
        """The link for replicating a volume of a type.

        :raises InvalidExtraSpec: this back end does not have its target
        """
        return self.link_to(self.peer_for(spec.target), spec.rpo)

    def link_to(self, peer: resolver.Peer, rpo: int | None = None
                ) -> replication.Link:
        """The link to a peer, with the peer's rpo if none is given."""
        return replication.Link(
            source_array=self._array, target_array=peer.array,
            peer_address=peer.address,
            backend_id=peer.backend_id, rpo=rpo or peer.rpo)

    def peer_for(self, target: str | None) -> resolver.Peer:
        """The peer that a type names as target; the first for None.

        :raises InvalidExtraSpec: there is none
        """
        # The only peer of a target is the primary, whatever types specify.
        if not self._resolver.peers:
            raise volume_types.InvalidExtraSpec(
                f'{volume_types.REPLICATION.key} is "enabled", but this back '
                'end has no replication_device in cinder.conf.')
        if target is None or config.PRIMARY_ID in self._resolver.peers:
            return next(iter(self._resolver.peers.values()))
        if target not in self._resolver.peers:
            raise volume_types.InvalidExtraSpec(
                f'{volume_types.TARGET.key} is "{target}", which is no '
                'backend_id of a replication_device; use one of: '
                f'{", ".join(self._resolver.peers)}.')
        return self._resolver.peers[target]

    def check_target(self, target: str | None) -> None:
        """Check that a type does not specify another target than this one.

        :param target: backend_id in the type; None for the first target
        :raises ReplicationError: it does
        :raises InvalidExtraSpec: there is none of that name
        """
        if (self.primary is not None
                and self.primary.peer_for(target).array is not self._array):
            raise exceptions.ReplicationError(
                'The new type wants another replication target than the one '
                f'at {self._array.address}, which serves the volume: fail '
                'back first.')

    def link_for_new(self, volume: typing.Any) -> replication.Link | None:
        """The replication target of a new volume; None without replication.

        Volumes of a consistency group are replicated if the group is.
        """
        spec = volume_types.of(volume)
        if not spec.replicated or (volume.group_id and
                                   placement.is_consistent(volume.group)):
            return None
        return self.link(spec)

    # One volume, alone in its group

    def start(self, volume: typing.Any, backing: ArrayVolume,
              link: replication.Link) -> ArrayVolume:
        """Create a volume's session, and its copy on the peer. Three calls.

        Three more for the first session that the service creates.

        :returns: its array volume after that
        :raises ReplicationError, Refused: the arrays refuse; nothing is left
        """
        target = link.target()
        self.begin([volume], self._request_of(
            volume, backing, link, naming.session(volume.name_id)))
        return dataclasses.replace(backing, replicated=True, target=target)

    def _request_of(self, volume: typing.Any, backing: ArrayVolume,
                    link: replication.Link,
                    name: str) -> replication.SessionRequest:
        return replication.SessionRequest(
            link, name, backing.group, naming.volume_group(volume.name_id),
            [self.member(volume, backing)])

    def begin(self, rows: Iterable[typing.Any],
              request: replication.SessionRequest
              ) -> None:
        """Create a session; leftovers of an earlier one are unmapped first."""
        replication.protect(request, functools.partial(self._release, rows))

    def protect(self, volume: typing.Any, backing: ArrayVolume,
                link: replication.Link) -> None:
        """Replicate a volume that was not replicated, and update its row."""
        request = self._request_of(volume, backing, link, self.session_name(
            volume.name_id, backing.group,
            naming.volume_group(volume.name_id)))
        with self.noted([(volume, backing)], request):
            self.begin([volume], request)

    @contextlib.contextmanager
    def noted(self, pairs: Sequence[tuple[typing.Any, ArrayVolume]],
              request: replication.SessionRequest) -> Iterator[None]:
        """Mark rows as replicated while their session is created.

        They stay marked if that fails, unless nothing is left of it: an
        operation that deletes the volumes, or ends their replication, has to
        look for leftovers.
        """
        target = request.link.target()
        for volume, backing in pairs:
            self._resolver.note(volume, backing, replicated=True,
                                target=target)
        try:
            yield
        except Exception as error:
            with excutils.save_and_reraise_exception(), \
                    self._array.deadline(fresh=True):
                self._resolve_outcome(pairs, request, error)

    def _resolve_outcome(self, pairs: Sequence[tuple[typing.Any, ArrayVolume]],
                         request: replication.SessionRequest,
                         error: Exception) -> None:
        if replication.may_be_begun(request):
            LOG.error('Something of replication session %(name)s between the '
                      'arrays at %(source_array)s and %(target_array)s may be '
                      'left. It is removed '
                      'when the replication of %(group)s is tried again or '
                      'ended, or when that is deleted: %(error)s', {
                          'name': request.session_name, 'error': error,
                          'source_array': request.link.source_array.address,
                          'target_array': request.link.target_array.address,
                          'group': request.group_name})
            return
        for volume, backing in pairs:
            self.note_unreplicated(volume, backing)

    def session_name(self, owner: str, group: int, group_name: str) -> str:
        """Name of the session of a volume that may have been a copy. One call.

        Copies keep their names after a failover, so the copies on the other
        array must then get the names without the mark (``r``, REP-21).

        :param owner: the id in the name
        :param group: id of the volume group
        :param group_name: its name, if it was created here
        """
        name = naming.session(owner)
        marked = self._array.volumes.find_group(naming.peer(group_name))
        return naming.peer(name) if marked == group else name

    def unprotect(self, volume: typing.Any, backing: ArrayVolume,
                  name_id: str) -> None:
        """End the replication of a volume; its copy is deleted.

        A peer that cannot be reached keeps its objects.

        :param name_id: the id in the names of the volume
        :raises ObjectInUse: the copy is mapped, or has snapshots
        """
        self.end(name_id, backing.group, naming.volume_group(name_id),
                 {name_id: volume})

    def end(self, owner: str, group: int, group_name: str,
            rows: Mapping[str, typing.Any]) -> None:
        """End the session of a volume group.

        :param owner: the id in its name
        :param rows: all volumes in the group, by the ids in their names
        """
        sessions = naming.session_names(owner)
        try:
            for link in self._links(sessions):
                if replication.unprotect(
                        self._array, link, sessions, group=group,
                        group_name=group_name,
                        volume_names=list(map(naming.volume, rows)),
                        release=functools.partial(self._release,
                                                  rows.values()),
                        confirm=functools.partial(self._check_unmoved,
                                                  rows.values())):
                    self._leave(link, rows.values())
        except Exception as error:
            with excutils.save_and_reraise_exception():
                if self._has_ended(sessions, group):
                    self.tell_unprotected(rows.values(), error)

    def _check_unmoved(self, rows: Iterable[typing.Any], opened: bool
                       ) -> None:
        """Check that volumes are still here, and will stay. No call.

        :param opened: the other array has made its copies accessible; rows are
            about to show it, unless the service was killed then
        :raises ArrayNotActive: one was failed over, or back, meanwhile
        :raises ConcurrentUpdate: one is about to be
        """
        for row in rows:
            current = writes.current(row)
            self._resolver.check_here(current)
            known = self._resolver.known(current)
            reserved = known is not None and known.failback_in_progress
            if (opened or reserved) and self._backend_rows.is_moving(current):
                raise exceptions.ConcurrentUpdate(
                    f'Volume {row.id} is being failed over, or back; try '
                    'again.')

    def _release(self, rows: Iterable[typing.Any], target_array: Array,
                 volumes: Collection[int]) -> None:
        """Unmap copies from hosts to which this driver has mapped them.

        Such mappings are left from before a failover, when a detach could not
        reach the array. None are removed while one of the volumes is attached:
        its guest may still be using the copy.
        """
        if not any(row.volume_attachment for row in rows):
            for peer in self._resolver.peers.values():
                if peer.array is target_array:
                    peer.release(volumes)

    def _leave(self, link: replication.Link | None,
               rows: Collection[typing.Any]) -> None:
        """Let the peer delete objects that only deleted copies needed."""
        for peer in self._resolver.peers.values():
            if link is not None and peer.array is link.target_array:
                with peer.array.deadline(fresh=True):
                    peer.leave(rows)

    def _has_ended(self, sessions: Sequence[str], group: int) -> bool:
        """Whether a session no longer copies, nor could, as far as known."""
        try:
            with self._array.cleanup_deadline():
                return replication.has_ended(self._array, sessions, group)
        except rest.RestError as error:
            LOG.warning('Whether replication session %(name)s has ended is '
                        'not known: %(error)s', {'name': sessions[0],
                                                 'error': error})
            return False

    def tell_unprotected(self, rows: Iterable[typing.Any],
                         error: Exception) -> None:
        """Set rows to error because their volumes are not replicated now.

        :param error: why they are not, or why the session was not removed
        """
        for row in rows:
            LOG.error('Volume %(id)s is not replicated any more: %(error)s',
                      {'id': row.id, 'error': error})
            writes.set_replication(row, ERROR)

    def unprotect_for_good(self, volume: typing.Any,
                           backing: ArrayVolume) -> None:
        """Disable the replication of a volume, and save that in its row."""
        self.unprotect(volume, backing, volume.name_id)
        with self._array.deadline(fresh=True):
            self.note_unreplicated(volume, backing)

    def note_unreplicated(self, volume: typing.Any,
                          backing: ArrayVolume) -> None:
        """Save in a row that its volume has no session."""
        self._resolver.note(volume, backing, replicated=False,
                            failback_in_progress=False,
                            target=None)

    def grow(self, volume: typing.Any, backing: ArrayVolume,
             size: int) -> None:
        """Grow a volume to ``size`` KiB, on its peer too if it has one."""
        if not backing.replicated:
            self._array.volumes.grow(backing.volume_ref.id, size,
                                     self._resolver.names_of(volume, backing))
        elif backing.shared:
            # The group has one session, which is suspended meanwhile.
            with locks.group_on(self._array, backing.group):
                self._grow_both(str(volume.group_id), volume, backing, size)
        else:
            self._grow_both(volume.name_id, volume, backing, size)

    def _grow_both(self, owner: str, volume: typing.Any, backing: ArrayVolume,
                   size: int) -> None:
        sessions = naming.session_names(owner)
        replication.extend(
            self._array, self._links(sessions)[0], sessions,
            group=backing.group, member=self.member(volume, backing, size))

    def sweep(self, volume: typing.Any, name_id: str) -> None:
        """Delete the leftover copies of a volume that is not here.

        They may be on any peer; if the volume was never created, here, too:
        before a failover it may have been about to be copied here. Three calls
        to each array.

        :param name_id: the id in its names
        """
        arrays = [peer.array for peer in self._resolver.peers.values()]
        if volume.launched_at is None:
            arrays.append(self._array)
        for array in arrays:
            try:
                with array.cleanup_deadline():
                    replication.sweep(
                        array, True, naming.session(name_id),
                        naming.volume_group(name_id),
                        [naming.volume(name_id)])
            except (rest.RestError, exceptions.K2Error) as error:
                LOG.warning('Whether something of volume %(id)s is left on '
                            'the array at %(address)s is not known: '
                            '%(error)s', {
                                'id': name_id, 'error': error,
                                'address': array.address})

    # Helpers

    def member(self, volume: typing.Any, backing: ArrayVolume, size: int = 0
               ) -> replication.Member:
        """A volume as a member of a session.

        :param size: KiB; 0 for the size in the volume's row
        """
        return replication.Member(
            backing.volume_ref.id, naming.volume(volume.name_id),
            size or volume.size * _KIB_PER_GIB)

    def is_replicated(self, volume: typing.Any) -> bool:
        """Whether a volume may have a session. No call."""
        known = self._resolver.known(volume)
        return (self._resolver.may_be_replicated(volume) if known is None
                else known.replicated)

    def _links(self, sessions: Sequence[str]
               ) -> Sequence[replication.Link | None]:
        """Links to the arrays that may have the other end of a session.

        One call, none if there is only one possibility. All of them for a
        session that is gone, and None for one with an array that is no longer
        in cinder.conf.
        """
        links = [self.link_to(peer) for peer in self._resolver.peers.values()]
        if len(links) > 1:
            found = self._array.replication.find(*sessions)
            if found is not None and found.peer is not None:
                return [self.link_with(found)]
        return links or [None]

    def link_with(self, session: array_replication.Session
                  ) -> replication.Link | None:
        """Link to a session's other array, with its rpo. Usually no call."""
        links = [self.link_to(peer, session.rpo)
                 for peer in self._resolver.peers.values()]
        return next((link for link in links if session.peer is not None
                     and link.is_number(session.peer)), None)
