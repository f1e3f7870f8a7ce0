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
"""Watching over what is replicated.

A session that is suspended as source copies nothing. The array leaves it so
when it has lost its peer (REP-19), and a service that was killed while it
extended a volume, too. Of volumes that are here and that nobody works on, such
sessions are resumed, or Cinder hears of them. It also hears of volumes that
have no session any more, or an idle one.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import replication as sessions
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.db import statuses
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import naming
from cinder_k2 import once
from cinder_k2 import rest

LOG = logging.getLogger(__name__)

#: What was told of links: address, peer and word.
TOLD = once.Once()

Updates = list[resolver.ModelUpdate]
Session = sessions.Session

_WORKING = ('available', 'in-use')
# "failed-over" is for a failback to deal with.
_WATCHED = (statuses.Replication.ENABLED, statuses.Replication.ERROR)
# Seconds in which every operation has let a session run again.
_LONG = 900
_UNMOVED = (None, 'error', 'success')


class ReplicationMonitor:
    """Resumes what was left suspended, and tells of what stays so."""

    def __init__(self, array: Array, client: rest.Client,
                 known: resolver.Resolver,
                 sessions_: replication.Replication,
                 rows: backend_rows.BackendRows) -> None:
        self._array = array
        self._client = client
        self._resolver = known
        self._replication = sessions_
        self._backend_rows = rows
        # When sessions were first seen suspended, by the ids in their names.
        self._since: Mapping[str, float] = {}
        # Names of sessions, and ids, that the log has told of.
        self._troubled: frozenset[str] = frozenset()
        self._refused: frozenset[int] = frozenset()
        # Addresses of peers that did not answer, of which the log has told.
        self._silent: frozenset[str] = frozenset()
        # Counts the looks at links that are not "ok".
        self._link_tries = 0
        # The ids in the names of sessions that were not idle at the last
        # look, None if all rows have to be looked at; and when they were.
        self._active: frozenset[str] | None = None
        self._compared = 0.0

    def get_replication_error_status(
            self, context: typing.Any, groups: Iterable[typing.Any]
    ) -> tuple[Updates, Updates]:
        """What is wrong with the replication of volumes. Few calls.

        :param groups: those that are replicated
        :returns: updates of those in error; of volumes in groups or not
        """
        broken = [(row, session) for session, rows in self._paused(
            self._array.replication.all())
            for row in rows if self._is_here(row)]
        wrong = {row.group_id for row, _ in broken}
        return [{'group_id': group.id, **replication.ERROR}
                for group in groups if group.id in wrong], [
            {'volume_id': row.id,
             **replication.in_error(self._label(session))}
            for row, session in broken]

    # Watching

    def watch_replication(self) -> bool:
        """Resume what is suspended and can go on. One call if all is well.

        Rows in error whose session runs again are set right.

        :returns: whether the replication of some volume here is suspended
        :raises RestError: the array does not answer
        """
        found = self._array.replication.all()
        paused = self._paused(found)
        if self._resume([session for session, rows in paused
                         if all(map(self._may_run, rows))]):
            found = self._array.replication.all()
            paused = self._paused(found)
        broken = {session.name: session for session, rows in paused
                  if any(map(self._is_here, rows))}
        self._log_transitions(broken)
        self._set_right(found)
        self._miss(found)
        return bool(broken)

    def _paused(self, found: Sequence[Session]
                ) -> list[tuple[Session, list[typing.Any]]]:
        """Sessions that are suspended as source, with their rows.

        Those without rows, and those whose volumes are in some operation,
        which may suspend on purpose, are left out; the latter for a while,
        for the service may have been killed.
        """
        by_owner = {_owner(session): session for session in found
                    if session.role == sessions.SOURCE
                    and session.state == sessions.SUSPENDED}
        if not by_owner or self._backend_rows.is_failing_over():
            return []
        now = self._client.clock.monotonic()
        self._since = {owner: self._since.get(owner, now)
                       for owner in by_owner}
        return [(by_owner[owner], rows)
                for owner, rows in self._rows_of(by_owner.keys()).items()
                if all(_is_at_rest(row, now - self._since[owner])
                       for row in rows)]

    def _rows_of(self, owners: Set[str]) -> dict[str, list[typing.Any]]:
        """The volumes of sessions, by the ids in the sessions' names."""
        found: dict[str, dict[str, typing.Any]] = {}
        for key in ('id', '_name_id', 'group_id'):
            for row in self._backend_rows.volumes({key: list(owners)}):
                if row.launched_at is None:
                    # It was never made.
                    continue
                for owner in owners & {row.name_id, row.group_id}:
                    found.setdefault(owner, {})[row.id] = row
        return {owner: list(rows.values()) for owner, rows in found.items()}

    def _is_here(self, volume: typing.Any) -> bool:
        """Whether this array has a volume, as far as its row says."""
        return provider_id.system_of(volume.provider_id) in (
            None, self._array.system.id)

    def _may_run(self, volume: typing.Any) -> bool:
        """Whether the session of a volume may run, for all its row says.

        That of a reserved one is for a failback to deal with.
        """
        known = self._resolver.known(volume)
        return (self._is_here(volume) and volume.status in _WORKING
                and not (known and known.failback_in_progress))

    def _resume(self, paused: Sequence[Session]) -> bool:
        """Let sessions run that can; whether one of them does."""
        self._refused &= {session.id for session in paused}
        return any([self._resume_over(link, ready)
                    for link, ready in self._ready(paused) if ready])

    def _resume_over(self, link: rest.PeerArray, ready: Sequence[Session]
                     ) -> bool:
        """The same for sessions of one peer.

        If the link is not "ok", they follow one that the array resumes:
        it refuses all if the peer is out of reach, and no word is known to
        mean that (REP-19).
        """
        if link.is_connected:
            return self._let_run(ready)
        self._log_link(link)
        self._link_tries += 1
        first = self._link_tries % len(ready)
        if not self._let_run([ready[first]]):
            return False
        self._let_run([*ready[:first], *ready[first + 1:]])
        return True

    def _log_link(self, link: rest.PeerArray) -> None:
        word = f'{link.mgmt_connectivity_state:.60}'
        if TOLD.is_first((self._array.address, link.id, word)):
            LOG.warning(
                'The array at %(address)s says that the link to its '
                'replication peer %(peer)s is %(word)s, not ok. What that '
                'means is not known, so suspended sessions are resumed all '
                'the same.', {'address': self._array.address,
                              'peer': link.name, 'word': word})

    def _let_run(self, sessions_: Sequence[Session]) -> bool:
        """Let sessions of a peer that is there run; whether one does."""
        ready = {session.id: session for session in sessions_}
        refused = self._array.replication.command_many(
            {number: session.name for number, session in ready.items()},
            sessions.IN_SYNC) if ready else {}
        for number, session in ready.items():
            details = {'session': self._label(session),
                       'why': refused.get(number)}
            if number not in refused:
                LOG.info('%(session)s. It is resumed.', details)
            elif number not in self._refused:
                LOG.warning('%(session)s, and cannot be resumed: %(why)s',
                            details)
        self._refused = self._refused - ready.keys() | refused.keys()
        return len(refused) < len(ready)

    def _ready(self, paused: Sequence[Session]
               ) -> list[tuple[rest.PeerArray, list[Session]]]:
        """Those whose peer is there and has not taken over, by peer.

        One call, and one to each peer; none without sessions.
        """
        if not paused:
            return []
        found = self._client.peer_arrays.search()
        return [(record, self._not_taken_over(peer, [
            one for one in paused if one.peer == record.id]))
            for peer in self._resolver.peers.values() for record in found
            if self._replication.link_to(peer).is_number(record.id)]

    def _not_taken_over(self, peer: resolver.Peer,
                        paused: Sequence[Session]) -> list[Session]:
        """To resume others would throw away what the peer's hosts wrote."""
        if not paused:
            return []
        try:
            with peer.array.probe_deadline():
                halves = peer.array.replication.find_many(
                    [naming.peer(session.name) for session in paused])
        except rest.RestError as error:
            if peer.address not in self._silent:
                LOG.warning('Suspended sessions are not resumed: %s', error)
            self._silent |= {peer.address}
            return []
        self._silent -= {peer.address}
        return [session for session in paused
                if (half := halves.get(naming.peer(session.name)))
                and half.is_half_of(session)
                and half.role == sessions.TARGET
                and half.state in (sessions.IN_SYNC, sessions.SUSPENDED)]

    def _log_transitions(self, broken: Mapping[str, Session]) -> None:
        """Say once that a session is suspended, and once that it is over."""
        for name in broken.keys() - self._troubled:
            LOG.error('%s: nothing is copied.', self._label(broken[name]))
        for name in self._troubled - broken.keys():
            LOG.info('Replication session %(name)s on the array at '
                     '%(address)s is not suspended any more.', {
                         'name': name, 'address': self._array.address})
        self._troubled = frozenset(broken)

    def _set_right(self, found: Sequence[Session]) -> None:
        """Have rows in error say that they are replicated. No call.

        Those whose session runs from here.
        """
        running = {_owner(session) for session in found
                   if session.role == sessions.SOURCE
                   and session.state == sessions.IN_SYNC}
        rows = [row for row in
                self._backend_rows.volumes(dict(replication.ERROR))
                if not running.isdisjoint({row.name_id, row.group_id})
                and self._may_run(row)]
        if not rows or self._backend_rows.is_failing_over():
            return
        for row in rows:
            writes.set_if_at_rest(row, replication.VOLUME_ENABLED,
                                  replication.ERROR)
        for group in {row.group_id: row.group for row in rows
                      if row.group_id}.values():
            writes.repair_group(group, replication.ENABLED, replication.ERROR)

    # Without a session

    def _miss(self, found: Sequence[Session]) -> None:
        """Have rows say that their sessions are gone, or idle.

        Looks at rows only at first, when some session has gone, and each
        quarter of an hour. One call then, if there is one without a session.
        """
        before, now = self._active, self._client.clock.monotonic()
        self._active = frozenset(map(_owner, filter(_is_active, found)))
        if (before is not None and before <= self._active
                and now - self._compared < _LONG):
            return
        self._compared = now
        rows = [row for row in
                self._backend_rows.volumes(dict(replication.ENABLED))
                if self._active.isdisjoint({row.name_id, row.group_id})
                and self._should_run(row)]
        if rows:
            # Till all of them are explained.
            self._active = None
        for row in self._without_session(rows):
            self._tell_missing(row)

    def _should_run(self, volume: typing.Any) -> bool:
        """Whether a volume is here that Cinder believes to be replicated.

        Also if its ids say that it is not any more: the service was killed
        then before Cinder saved so.
        """
        known = self._resolver.known(volume)
        return known is not None and not known.failback_in_progress

    def _without_session(self, rows: Sequence[typing.Any]
                         ) -> list[typing.Any]:
        """Those whose session was not made just now, or is idle.

        One that an array wants idle while a volume grows is no trouble of
        the others in its group, so all rows of a session count, as they are
        after the look at it.
        """
        resting = [row for row in rows if _is_at_rest(row, 0)]
        if not resting or self._backend_rows.is_failing_over():
            return []
        owners = {self._owner_of(row) for row in resting}
        owners -= set(map(_owner, filter(_is_active, (
            self._array.replication.find_many([
                name for owner in owners
                for name in naming.session_names(owner)]).values()))))
        quiet = {owner for owner, its in self._rows_of(owners).items()
                 if all(_is_at_rest(row, 0) for row in its)}
        return [row for row in resting if self._owner_of(row) in quiet]

    def _owner_of(self, volume: typing.Any) -> str:
        """The id in the name of a volume's session."""
        known = self._resolver.known(volume)
        return str(volume.group_id if known and known.shared
                   else volume.name_id)

    def _tell_missing(self, row: typing.Any) -> None:
        why = (f'The array at {self._array.address} has no replication '
               'session for it, or an idle one. Turn its replication off and '
               'on again, by its type or its group.')
        if writes.set_if_at_rest(row, replication.in_error(why),
                                 replication.ENABLED):
            LOG.error('Volume %(id)s is not replicated: %(why)s',
                      {'id': row.id, 'why': why})
            if row.group_id:
                writes.replace_replication(row.group, replication.ERROR,
                                           replication.ENABLED)

    def _label(self, session: Session) -> str:
        why = f' ({session.why})' if session.why else ''
        return (f'Replication session {session.name} on the array at '
                f'{self._array.address} is suspended{why}')


def _owner(session: Session) -> str:
    """The id of the volume or group in the name of a session."""
    return session.name.partition('-')[2]


def _is_active(session: Session) -> bool:
    return session.state != sessions.IDLE


def _is_at_rest(volume: typing.Any, seconds: float) -> bool:
    """Whether Cinder does nothing to a volume that is replicated.

    :param seconds: for so long its session has been suspended at least
    """
    return (volume.replication_status in _WATCHED
            and volume.migration_status in _UNMOVED
            and (volume.status in _WORKING
                 or volume.status.startswith('error')
                 or seconds >= _LONG))
