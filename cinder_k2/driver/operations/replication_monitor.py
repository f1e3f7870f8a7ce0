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
"""Monitoring of replication sessions.

A session that is suspended as source copies nothing. It stays suspended after
the array has lost its peer (REP-19), or when a service was killed while it
extended a volume. For volumes that are here and not in any operation, such
sessions are resumed, or reported to Cinder. Volumes that have no session any
more, or an idle one, are reported as well.
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

#: Link states already logged: address, peer and state.
TOLD = once.Once()

Updates = list[resolver.ModelUpdate]
Session = sessions.Session

_WORKING = ('available', 'in-use')
# "failed-over" is left to a failback.
_WATCHED = (statuses.Replication.ENABLED, statuses.Replication.ERROR)
# Seconds after which every operation has resumed the session it suspended.
_LONG = 900
_UNMOVED = (None, 'error', 'success')


class ReplicationMonitor:
    """Resumes suspended sessions, and reports those that stay suspended."""

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
        # Names of sessions, and ids, already logged.
        self._troubled: frozenset[str] = frozenset()
        self._refused: frozenset[int] = frozenset()
        # Addresses of peers without a reply, already logged.
        self._silent: frozenset[str] = frozenset()
        # Counts the checks of links that are not "ok".
        self._link_tries = 0
        # The ids in the names of sessions that were not idle at the last
        # check, None if all rows have to be checked; and the time of that
        # check.
        self._active: frozenset[str] | None = None
        self._compared = 0.0

    def get_replication_error_status(
            self, context: typing.Any, groups: Iterable[typing.Any]
    ) -> tuple[Updates, Updates]:
        """Return the replication errors of groups and volumes. Few calls.

        :param groups: the replicated groups
        :returns: updates of groups in error, and of volumes, in groups or not
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

    # Monitoring

    def watch_replication(self) -> bool:
        """Resume suspended sessions where possible. One call if all is well.

        Rows in error whose session runs again are corrected.

        :returns: whether the replication of any volume here is suspended
        :raises RestError: the array does not reply
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

        Sessions without rows, and those whose volumes are in an operation,
        which may suspend on purpose, are left out; the latter only for a
        while, because the service may have been killed. None are returned
        during a failover or failback of the back end.
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
                    # It was never created.
                    continue
                for owner in owners & {row.name_id, row.group_id}:
                    found.setdefault(owner, {})[row.id] = row
        return {owner: list(rows.values()) for owner, rows in found.items()}

    def _is_here(self, volume: typing.Any) -> bool:
        """Whether this array has a volume, as far as its row shows."""
        return provider_id.system_of(volume.provider_id) in (
            None, self._array.system.id)

    def _may_run(self, volume: typing.Any) -> bool:
        """Whether the row allows the session of a volume to run.

        While a failback is in progress, the session is left to it.
        """
        known = self._resolver.known(volume)
        return (self._is_here(volume) and volume.status in _WORKING
                and not (known and known.failback_in_progress))

    def _resume(self, paused: Sequence[Session]) -> bool:
        """Resume sessions where possible; whether one was resumed."""
        self._refused &= {session.id for session in paused}
        return any([self._resume_over(link, ready)
                    for link, ready in self._ready(paused) if ready])

    def _resume_over(self, link: rest.PeerArray, ready: Sequence[Session]
                     ) -> bool:
        """Resume sessions of one peer; whether one was resumed.

        If the link is not "ok", one session is tried, and the others only if
        the array resumes that one: it refuses all if the peer cannot be
        reached, and no state of a link is known to mean that (REP-19).
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
                'means is not known, so suspended sessions are resumed '
                'nevertheless.', {'address': self._array.address,
                                  'peer': link.name, 'word': word})

    def _let_run(self, sessions_: Sequence[Session]) -> bool:
        """Resume sessions of a peer that can be reached; whether one was."""
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
        """Sessions whose peer replies and has not taken over, by peer.

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
        """The sessions whose volumes the peer has not taken over.

        Resuming the others would discard what hosts have written there.
        """
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
        """Log once that a session is suspended, and once that it is over."""
        for name in broken.keys() - self._troubled:
            LOG.error('%s: nothing is copied.', self._label(broken[name]))
        for name in self._troubled - broken.keys():
            LOG.info('Replication session %(name)s on the array at '
                     '%(address)s is not suspended any more.', {
                         'name': name, 'address': self._array.address})
        self._troubled = frozenset(broken)

    def _set_right(self, found: Sequence[Session]) -> None:
        """Set rows in error back to enabled if their session runs. No call.

        It has to run with this array as source.
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

    # Volumes without a session

    def _miss(self, found: Sequence[Session]) -> None:
        """Save in rows that their sessions are gone, or idle.

        The rows are compared at the first run, when a session has gone, and
        every quarter of an hour. One call then, if a volume has no session.
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
            # Compare again at each run, until none of them are left.
            self._active = None
        for row in self._without_session(rows):
            self._tell_missing(row)

    def _should_run(self, volume: typing.Any) -> bool:
        """Whether a volume is here that Cinder lists as replicated.

        Also if the ids in its row are no longer marked as replicated: then the
        service was killed before Cinder saved the new status.
        """
        known = self._resolver.known(volume)
        return known is not None and not known.failback_in_progress

    def _without_session(self, rows: Sequence[typing.Any]
                         ) -> list[typing.Any]:
        """Volumes whose session is missing or idle for no known reason.

        While an operation runs on one volume of a session, none of its volumes
        are returned: an array may require the session to be idle while one of
        them grows. Their rows are read after the session.
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
    """Whether no operation of Cinder runs on a replicated volume.

    :param seconds: how long, at least, its session has been suspended
    """
    return (volume.replication_status in _WATCHED
            and volume.migration_status in _UNMOVED
            and (volume.status in _WORKING
                 or volume.status.startswith('error')
                 or seconds >= _LONG))
