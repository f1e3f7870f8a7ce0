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

"""Replication sessions of one array (section 10).

Each side of a pair has its own session; nothing here knows the other array.
``state`` in a call is a command, and in a session its result.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import logging
import typing

from cinder_k2.array import cache
from cinder_k2.array import policies
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import polling
from cinder_k2 import rest
from cinder_k2.rest import address as rest_address
from cinder_k2.rest import records

LOG = logging.getLogger(__name__)

SOURCE = 'source'
TARGET = 'target'
IDLE = 'idle'
IN_SYNC = 'in_sync'
SUSPENDED = 'suspended'
FAILED_OVER = 'failed_over'

#: Name of the retention policy if the operator does not choose one (REP-2).
POLICY = 'Replication_Retention'

# Trigger texts: of the copies of replication snapshots on the other array
# (SNP-14), and of the snapshots themselves if take_snapshots took them.
_COPIED = 'Replication_API'
_BY_API = 'api'
_TAKEN = (_BY_API, _COPIED)

# Booleans in replication are sent as text, as the in-tree driver does.
_FALSE = 'False'

# For more names than this, all objects whose names begin alike are read.
_FEW = 200
# Seconds for calls in addition to the time waited.
_MARGIN = 60.0

R = typing.TypeVar('R', rest.Volume, rest.ReplicationSession)


@dataclasses.dataclass(frozen=True)
class Session:
    """One side of the replication of a volume group.

    :ivar group: the volume group on this array
    :ivar role: SOURCE or TARGET
    :ivar state: IDLE, IN_SYNC, SUSPENDED or FAILED_OVER
    :ivar why: why it is suspended; empty if the array gives no reason
    :ivar generation: the last generation that arrived
    :ivar progress: percent of the snapshot that is being copied
    :ivar copying: whether a snapshot is being copied, or may be (REP-14)
    :ivar peer_session: id of the session on the other array
    :ivar peer: id of this array's record of the other one
    :ivar rpo: seconds between two copies
    """

    id: int
    name: str
    group: int | None
    role: str
    state: str
    why: str = ''
    generation: int | None = None
    progress: int | None = None
    copying: bool = False
    peer_session: int | None = None
    peer: int | None = None
    rpo: int | None = None

    def has_arrived(self, generation: int) -> bool:
        """Whether a replication snapshot is on the other array (REP-14).

        Snapshots arrive in order, so it is if a later one has arrived.
        """
        if self.generation is None or self.generation < generation:
            return False
        return self.generation > generation or (
            self.progress == 100 and not self.copying)

    def is_half_of(self, other: 'Session') -> bool:
        """Whether a session of the other array is the other side of this one.

        As far as the ids of their peers show. Names do not prove it: a former
        target may still have its side of an earlier session.
        """
        return (self.peer_session in (None, other.id)
                and other.peer_session in (None, self.id))


@dataclasses.dataclass(frozen=True)
class ReplicationSnapshot:
    """A snapshot to be copied to the other array (REP-13)."""

    id: int
    generation: int


@dataclasses.dataclass(frozen=True)
class Copy:
    """A volume that receives the data of another.

    :ivar size: KiB when it was read; None if the array did not show it
    """

    volume: int
    name: str
    size: int | None


class Replication:
    """The sessions of one array, and their policies and peers.

    :param retention_policy: name of the policy for their snapshots (REP-2)
    :ivar grows_copies: whether the array was seen to grow a copy on request;
        some may only grow it with its source (VOL-4)
    """

    def __init__(self, client: rest.Client, retention_policy: str) -> None:
        self._client = client
        self.grows_copies = False
        self._policy_name = retention_policy
        self._cache = cache.Cache()
        self._names = cache.Cache()
        self._peers = cache.Cache()

    def check(self) -> None:
        """Look up the retention policy. One call.

        :raises ArrayNotSupported: the array has no policy of that name
        """
        self._policy()

    # Parts of a session

    def peer(self, address: str, backend_id: str) -> int:
        """Id of this array's record of another one. One call, then none.

        :param address: the other's management address
        :param backend_id: the other's name, by which it is found if this array
            does not know the address
        :raises ArrayNotSupported: the arrays do not know each other
        """
        return self._cache.get(('peer', address, backend_id),
                               lambda: self._find_peer(address, backend_id))

    def link_trouble(self, peer: int) -> str:
        """What the array reports of its link to another one. One call.

        It explains a failure, and is no reason not to try: no state but "ok"
        is documented (REP-19).

        :returns: a clause about the array; empty if the link is "ok"
        """
        known: rest.PeerArray | None = self._peers.peek(peer)
        found = self._client.peer_arrays.get(peer, **(
            {'mgmt_host': known.mgmt_host}
            if known and known.mgmt_host else {}))
        return '' if found.is_connected else (
            'says that the link to its replication peer '
            f'{found.name} at {found.mgmt_host} is '
            f'{found.mgmt_connectivity_state:.60}, not ok')

    def create_session(self, name: str, *, peer: int, group: int, rpo: int,
                       peer_group_name: str, peer_session_name: str) -> int:
        """Create an idle session, and with it a group on the peer (REP-1).

        One of that name for the same group, which a killed service left, is
        taken over.

        :param peer: as ``peer`` returns it
        :param group: id of the volume group on this array
        :param rpo: seconds, 60 or a multiple of 300 (REP-4)
        :returns: the session's id
        :raises Refused: the array creates none, for example because it does
            not reach the other (REP-19)
        """
        fields: dict[str, typing.Any] = {
            'name': name, 'rpo': rpo,
            'replication_peer_k2array': self._client.peer_arrays.ref(peer),
            'local_volume_group': self._client.volume_groups.ref(group)}
        policy = self._client.retention_policies.ref(self._policy())
        try:
            return self._seen(self._client.replication_sessions.create(
                **fields, replication_peer_volume_group_name=peer_group_name,
                remote_replication_session_name=peer_session_name,
                auto_configure_peer_volumes=_FALSE,
                # The other array has to reply, too.
                slow=True,
                optional={'retention_policy': policy,
                          'external_retention_policy': policy})).id
        except rest.Refused as refusal:
            # The cached values may be out of date.
            self._cache.clear()
            found = self._client.replication_sessions.find(name=name)
            if not found or not records.matches(found, {
                    **fields, 'rpo': found.rpo}):
                self._explain(refusal, peer)
                raise
        if found.rpo not in (None, rpo):
            self._client.replication_sessions.update(
                found.id, names=[name], name=name, rpo=rpo)
        return self._seen(found).id

    def add_volume(self, session: int, volume: int, peer_name: str) -> int:
        """Let the peer create the copy of a volume.

        One that a killed service created is taken over.

        :param session: id of the session
        :param volume: id of the volume on this array
        :param peer_name: name of the copy on the peer
        :returns: id of the pair in ``/replication/peer_volumes``; 0 where the
            array does not show it
        """
        ref = self._client.volumes.ref(volume)
        try:
            return self._client.peer_volumes.create(
                name=peer_name, local_volume=ref, needs_id=False,
                replication_session=(
                    self._client.replication_sessions.ref(session))).id
        except rest.NotOffered:
            raise
        except rest.Refused as refusal:
            return self._taken_over(peer_name, ref, refusal)

    def remove_volume(self, volume: int) -> bool:
        """Remove the pair of a volume and its copy; the copy stays.

        :returns: False if there was no pair
        """
        ref = self._client.volumes.ref(volume)
        return any([
            self._client.peer_volumes.delete(found.id, names=[found.name],
                                             local_volume=ref)
            for found in self._client.peer_volumes.search(local_volume=ref)])

    def _taken_over(self, peer_name: str, volume: rest.Ref,
                    refusal: rest.Refused) -> int:
        try:
            found = self._client.peer_volumes.find(name=peer_name,
                                                   local_volume=volume)
        except rest.NotOffered:
            raise refusal from None
        if found is None:
            raise refusal
        return found.id

    def _explain(self, refusal: rest.Refused, peer: int) -> None:
        """Add the state of the link to a refusal, if it is not "ok"."""
        try:
            trouble = self.link_trouble(peer)
        except (rest.NotOffered, rest.NotFound):
            LOG.debug('whether peer %s can be reached is not known', peer)
            return
        if trouble:
            refusal.advice = f'the array {trouble}'

    # Searching

    def find(self, *names: str) -> Session | None:
        """The session of the first existing name. One call."""
        found = self.find_many(names)
        return next((found[name] for name in names if name in found), None)

    def find_many(self, names: Collection[str]) -> dict[str, Session]:
        """Sessions by name, in few calls for any number."""
        return {found.name: self._seen(found) for found in self._named(
            self._client.replication_sessions, names)}

    def of_group(self, group: int) -> Session | None:
        """The session of a volume group. One call."""
        found = self._client.replication_sessions.find(
            local_volume_group=self._client.volume_groups.ref(group))
        return None if found is None else self._seen(found)

    def get(self, session: int) -> Session:
        """The current state of a session. One call.

        :raises NotFound: it is gone
        """
        return self._seen(self._client.replication_sessions.get(session))

    def _get_named(self, session: int, names: Collection[str]) -> Session:
        """As ``get``, if the session has one of the names."""
        found = self.get(session)
        if names and found.name not in names:
            raise rest.NotFound(
                f'replication session {session} is {found.name} now, not '
                f'{" or ".join(names)} any more',
                rest.errors.Place(self._client.address))
        return found

    def get_many(self, sessions: Collection[int]) -> dict[int, Session]:
        """The sessions that exist, by id. Few calls."""
        return {found.id: self._seen(found) for found in
                self._client.replication_sessions.search(
                    rest.query.one_of('id', sessions))}

    def all(self) -> list[Session]:
        """All sessions of the array. One call, more for a long list."""
        return [self._seen(found) for found in
                self._client.replication_sessions.search()]

    def volumes_of(self, names: Collection[str]
                   ) -> dict[str, tuple[int, int | None]]:
        """Volumes by name: id, and that of the group. Few calls.

        The group is None if the array does not show it.
        """
        return {found.name: (found.id, found.volume_group.id
                             if found.volume_group else None)
                for found in self._named(self._client.volumes, names)}

    def sizes_of(self, names: Collection[str]) -> dict[int, int]:
        """Sizes in KiB of volumes, by id, as far as shown. Few calls.

        :param names: names of the volumes; an array that serves only known
            requests finds them by these, but not by their ids
        """
        return {found.id: found.size
                for found in self._named(self._client.volumes, names)
                if found.size is not None}

    def find_copy(self, name: str) -> Copy | None:
        """The copy with that name. One call."""
        found = self._client.volumes.find(name=name)
        return None if found is None else Copy(found.id, name, found.size)

    def grow_copy(self, copy: Copy, size: int, names: Sequence[str]
                  ) -> None:
        """Grow a copy to ``size`` KiB while nothing is copied (VOL-4).

        No call if it has that size. It cannot shrink (VOL-2).

        :param names: names that it may have
        """
        if copy.size is not None and copy.size >= size:
            return
        self._client.volumes.update(copy.volume, names=names, size=size)
        self.grows_copies = self.grows_copies or copy.size is not None

    # Commands

    def command(self, session: int, state: str, *,
                names: Collection[str] = ()) -> Session:
        """Send a command to a session (10.4). One call.

        :param names: names that it may have, any if empty. After a lost reply
            or a refusal, the command is not repeated if the id has another
            name: it is another's by then (OBJ-7).
        :returns: the session; the other side follows later (REP-8)
        :raises Refused: its state and role do not allow it
        """
        try:
            return self._seen(self._client.replication_sessions.update(
                session, names=list(names), state=state))
        except rest.Refused as refusal:
            # Some arrays may not apply OBJ-14 to commands.
            found = self.get(session)
            if names and found.name not in names:
                raise
            if found.state == state:
                return found
            return self._command_by_name(found, state, refusal)

    def _command_by_name(self, session: Session, state: str,
                         refusal: rest.Refused) -> Session:
        """Send a command with the name, which may be required (section 14)."""
        try:
            return self._seen(self._client.replication_sessions.update(
                session.id, names=[session.name], name=session.name,
                state=state))
        except rest.Refused as again:
            refusal.repeats |= again.repeats
            raise refusal from None

    def command_many(self, sessions: Mapping[int, str], state: str
                     ) -> dict[int, rest.RestError]:
        """Send a command to many sessions, in few calls.

        After a lost reply or a refusal, it is not repeated for an id with
        another name: that is another's by then (OBJ-7).

        :param sessions: by id: the name
        :returns: by id: why it failed; without those that succeeded
        """
        refused = self._client.replication_sessions.update_many(
            {session: {'state': state} for session in sessions}, sessions)
        return {session: still for session, error in refused.items()
                if (still := self._still_refused(session, sessions[session],
                                                 state, error))}

    def _still_refused(self, session: int, name: str, state: str,
                       error: rest.RestError) -> rest.RestError | None:
        """Why a session does not execute a command; None if it does."""
        if (not isinstance(error, rest.Refused)
                or isinstance(error, rest.OtherObject)):
            return error
        try:
            self._command_by_name(self._get_named(session, [name]), state,
                                  error)
        except rest.RestError as still:
            still.repeats |= error.repeats
            return still
        return None

    def set_rpo(self, session: Session, rpo: int) -> None:
        """Change how often a session copies. One call.

        :param rpo: seconds, 60 or a multiple of 300 (REP-4)
        """
        self._client.replication_sessions.update(
            session.id, names=[session.name], name=session.name, rpo=rpo)

    def delete(self, session: Session, *, look_first: bool = False) -> bool:
        """Delete a session that is idle; False if it was gone.

        :param look_first: its id may be another's by now (OBJ-7), so that its
            name is checked first
        """
        return self._client.replication_sessions.delete(
            session.id, names=[session.name],
            outcome=rest.OutcomeCheck(unseen=look_first))

    # Waiting for states

    def insist(self, command: Callable[[], None], timeout: float = 60) -> None:
        """Repeat a command every five seconds while the array refuses it.

        :raises Refused: it still does after ``timeout`` seconds
        """
        with self._client.deadline(timeout + _MARGIN, fresh=True):
            volumes.patiently(self._client, command, timeout, interval=5.0)

    def wait(self, session: int, state: str, *, names: Collection[str] = (),
             role: str | None = None, timeout: float = 60) -> Session:
        """Wait until a session is in a state (REP-8).

        :param names: names that it may have, any if empty
        :param role: wait for this role, too
        :raises NotFound: it is gone, and its id may be another's (OBJ-7)
        :raises ReplicationTimeout: it is not in that state after ``timeout``
            seconds
        """
        wanted = state if role is None else f'{state} as {role}'
        last: list[Session] = []

        def reached() -> Session | None:
            last[:] = [self._get_named(session, names)]
            there = last[0].state == state and role in (None, last[0].role)
            return last[0] if there else None

        try:
            with self._client.deadline(timeout + _MARGIN, fresh=True):
                return polling.wait_until(reached, timeout, what=wanted,
                                          clock=self._client.clock)
        except polling.WaitTimeout:
            raise exceptions.ReplicationTimeout(
                f'{_label(self._client, last[0])} and not {wanted} after '
                f'{timeout:g} seconds.') from None

    def await_size(self, name: str, size: int, timeout: float = 60) -> bool:
        """Wait until the array has grown a copy. Usually one call.

        :param name: name of the copy on this array
        :param size: KiB
        :returns: False if it is still smaller after ``timeout`` seconds
        """
        def has_grown() -> bool:
            return any(found >= size
                       for found in self.sizes_of([name]).values())

        try:
            with self._client.deadline(timeout + _MARGIN, fresh=True):
                return polling.wait_until(
                    has_grown, timeout, interval=5.0, what='larger copy',
                    clock=self._client.clock)
        except polling.WaitTimeout:
            return False

    # Snapshots

    def take_snapshots(self, sessions: Collection[Session]
                       ) -> dict[int, ReplicationSnapshot]:
        """Take a replication snapshot of each session, in few calls.

        :param sessions: sessions that are in sync, with role SOURCE
        :returns: by id of the session (REP-13); those that the array refuses
            are missing, and logged
        """
        return {session.id: self._taken(session, snapshot)
                for session, snapshot in self._take(list(sessions))}

    def delete_snapshots(self, group: int) -> None:
        """Delete the replication snapshots of a group, but not Cinder's.

        For a group whose session is gone. Two calls.
        """
        self._client.snapshots.delete_many(
            *_identities(self._snapshots([group])))

    def delete_taken(self, groups: Collection[int]) -> None:
        """Delete what take_snapshots took, or its copies. Few calls.

        Snapshots that the array takes by itself stay, and those that it needs.

        :param groups: volume groups whose sessions may run
        """
        self._client.snapshots.delete_unheld(*_identities(
            found for found in self._snapshots(groups)
            if found.triggered_by in _TAKEN
            and not found.is_locked_by_replication))

    def snapshots_beside(self, group: int) -> list[str]:
        """Names of a group's snapshots and views that no session took.

        One call.
        """
        return sorted(found.name or str(found.ref)
                      for found in self._all_snapshots([group])
                      if not is_of_replication(found))

    def views_of_taken(self, group: int) -> list[str]:
        """Names of the views of a group's replication snapshots.

        One call.
        """
        snapshots = self._all_snapshots([group])
        taken = {found.ref for found in snapshots if is_of_replication(found)}
        return sorted(found.name or str(found.ref) for found in snapshots
                      if found.source in taken)

    def _snapshots(self, groups: Collection[int]) -> list[rest.Snapshot]:
        return [found for found in self._all_snapshots(groups)
                if is_of_replication(found)]

    def _all_snapshots(self, groups: Collection[int]) -> list[rest.Snapshot]:
        refs = [self._client.volume_groups.ref(group) for group in groups]
        return self._client.snapshots.search(
            rest.query.one_of('volume_group', refs))

    # Internal

    def _seen(self, found: rest.ReplicationSession) -> Session:
        self._names.put(found.id, found.name)
        return _session(found)

    def _find_peer(self, address: str, backend_id: str) -> int:
        try:
            peers = self._client.peer_arrays.search(mgmt_host=address)
        except rest.BadReply:
            # It shows others, too, and one of them without an address.
            peers = []
        if len(peers) != 1:
            peers = self._all_peers() or peers
        for matches in (
                lambda peer: _host(peer.mgmt_host, True) == _host(address,
                                                                  True),
                lambda peer: _host(peer.mgmt_host) == _host(address),
                lambda peer: peer.name == backend_id):
            found = [peer for peer in peers if matches(peer)]
            if len(found) == 1:
                self._peers.put(found[0].id, found[0])
                return found[0].id
        known = ', '.join(f'{p.name} ({p.mgmt_host})' for p in peers)
        raise exceptions.ArrayNotSupported(
            f'The array at {self._client.address} has no replication peer '
            f'at {address} or named {backend_id}; connect the two arrays, or '
            'correct replication_device. Its peers are: '
            f'{known or "none"}.')

    def _all_peers(self) -> list[rest.PeerArray]:
        """All peers, as far as the array lists them."""
        try:
            return self._client.peer_arrays.search()
        except rest.NotOffered:
            return []

    def _policy(self) -> int:
        return self._cache.get('policy', lambda: policies.find(
            self._client, self._policy_name,
            'k2_replication_retention_policy'))

    def _named(self, collection: rest.Collection[R],
               names: Collection[str]) -> Iterable[R]:
        """Objects that have one of the names.

        Many names need many requests, so all objects whose names begin alike
        are read then.
        """
        if len(names) > _FEW:
            with contextlib.suppress(rest.NotOffered, rest.Incomplete):
                return self._beginning_alike(collection, names)
        return collection.search(rest.query.one_of('name', names))

    @staticmethod
    def _beginning_alike(collection: rest.Collection[R],
                         names: Collection[str]) -> list[R]:
        wanted = frozenset(names)
        begins = sorted({name.partition('-')[0] + '-' for name in names})
        unproven: list[str] = []
        found: list[R] = []
        for begin in begins:
            try:
                found += collection.search(rest.query.prefix('name', begin))
            except rest.Unproven:
                unproven.append(begin)
        # A search for another prefix may have proved by now that such searches
        # work, so that an empty result counts.
        for begin in unproven:
            found += collection.search(rest.query.prefix('name', begin))
        return [each for each in found if each.name in wanted]

    def _take(self, sessions: Sequence[Session]
              ) -> list[tuple[Session, rest.Snapshot]]:
        """Take snapshots; halve the list until the refused ones are found."""
        try:
            return list(zip(sessions, self._post(sessions), strict=True))
        except (rest.Refused, rest.NotFound) as refusal:
            if len(sessions) < 2:
                LOG.warning('No replication snapshot of session %(name)s: '
                            '%(why)s', {'name': sessions[0].name,
                                        'why': refusal})
                return []
        half = len(sessions) // 2
        return self._take(sessions[:half]) + self._take(sessions[half:])

    def _post(self, sessions: Sequence[Session]) -> list[rest.Snapshot]:
        """Take one of each session. After a lost reply, look for it first."""
        items: list[dict[str, typing.Any]] = [{
            'replication_session':
                self._client.replication_sessions.ref(session.id),
            'is_application_consistent': _FALSE} for session in sessions]
        before = self._generations(sessions)
        finds = [functools.partial(self._later, session, before)
                 for session in sessions]
        try:
            return self._client.snapshots.create_many(items, finds)
        except rest.BadReply:
            # A snapshot may exist but does not show; one more does no harm.
            return self._client.snapshots.create_many(items, finds)

    def _generations(self, sessions: Sequence[Session]) -> dict[int, int]:
        """The latest generation of each group. One call.

        Empty if the array does not show all of them.
        """
        latest = {session.group: session.generation or 0
                  for session in sessions if session.group is not None}
        try:
            for found in self._all_snapshots(latest):
                if 'generation_number' in found.unread or (
                        found.generation_number and not found.volume_group):
                    return {}
                if found.volume_group and found.generation_number:
                    group = found.volume_group.id
                    latest[group] = max(latest[group],
                                        found.generation_number)
        except rest.RestError as error:
            LOG.debug('generations are not known: %s', error)
            return {}
        return latest

    def _later(self, session: Session, before: Mapping[int, int]
               ) -> rest.Snapshot | None:
        """Find a later snapshot that was taken on request. One call.

        It holds everything that was written before the request. Snapshots
        that the array takes by itself do not count: one may be older and have
        shown late (OBJ-6).

        :param before: as ``_generations`` returns it
        """
        if session.group is None or session.group not in before:
            return None
        return max((found for found in self._all_snapshots([session.group])
                    if found.generation_number is not None
                    and found.generation_number > before[session.group]
                    and found.triggered_by in (None, _BY_API)),
                   key=lambda found: found.generation_number or 0,
                   default=None)

    def _taken(self, session: Session, snapshot: rest.Snapshot
               ) -> ReplicationSnapshot:
        if snapshot.generation_number is None and session.group is not None:
            snapshot = self._client.snapshots.get(
                snapshot.id,
                volume_group=self._client.volume_groups.ref(session.group))
        if snapshot.generation_number is None:
            raise exceptions.ReplicationError(
                f'The array at {self._client.address} does not number '
                f'replication snapshot {snapshot.id} (REP-13).')
        return ReplicationSnapshot(snapshot.id, snapshot.generation_number)


def _session(found: rest.ReplicationSession) -> Session:
    group, peer = found.local_volume_group, found.replication_peer_k2array
    return Session(
        id=found.id, name=found.name, group=group.id if group else None,
        role=found.current_role or '', state=found.state or '',
        why=found.suspend_reason or '',
        generation=found.generation_number,
        progress=found.current_snapshot_progress,
        copying=found.may_be_copying,
        peer_session=found.remote_replication_session_id,
        peer=peer.id if peer else None, rpo=found.rpo)


def _label(client: rest.Client, session: Session) -> str:
    """A session for a message, with its state."""
    why = f' ({session.why})' if session.why else ''
    return (f'Replication session {session.name} on the array at '
            f'{client.address} is {session.state} as {session.role}{why}')


def _host(address: str | None, port: bool = False) -> str:
    """An address in a normal form, with or without its port."""
    try:
        parsed = rest_address.parse(address or '')
    except rest.InvalidSettings:
        return address or ''
    return str(parsed) if port else parsed.host


def _identities(snapshots: Iterable[rest.Snapshot]
                ) -> tuple[dict[int, dict[str, rest.Ref | None]],
                           dict[int, str]]:
    """By id: what distinguishes snapshots, and their short names."""
    found = list(snapshots)
    return ({each.id: {'volume_group': each.volume_group} for each in found},
            {each.id: each.short_name or '' for each in found})


def is_of_replication(snapshot: rest.Snapshot) -> bool:
    """Whether a session created it, on either side (REP-13, SNP-14)."""
    return not naming.is_snapshot(snapshot.short_name) and bool(
        snapshot.replication_session
        or snapshot.generation_number is not None
        or snapshot.triggered_by == _COPIED)
