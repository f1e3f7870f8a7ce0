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

"""Changes of state and role of sessions and their volumes."""

from typing import Any

from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.rules import transfers
from k2_sim.state import schema
from k2_sim.state.schema import Row

_NO_REASON = {'suspend_reason': '', 'suspend_reason_code': 'none'}
UNREACHABLE = ('Peer cannot be reached', 'peer_unreachable')
PEER_FAILED_OVER = ('Peer failed over', 'peer_failed_over')
PEER_MISSING = ('Peer has no such session', 'peer_session_missing')
BY_USER = ('', 'user')


def to(state: str, reason: tuple[str, str] | None = None,
       **more: Any) -> dict[str, Any]:
    """The changes that lead to a state, for apply()."""
    changes = {**_NO_REASON, 'state': state,
               'stopped': state == replicas.IDLE, **more}
    if reason is not None:
        changes['suspend_reason'], changes['suspend_reason_code'] = reason
    return changes


def apply(scope: Scope, row: Row, changes: dict[str, Any]) -> Row:
    """Carry out a change of state, with all its effects."""
    closes = changes.get('current_role') == replicas.TARGET
    row = replicas.change(scope, row, pending=None, **changes)
    if closes:
        set_read_only(scope, row, True)
    if row['state'] != replicas.IN_SYNC or closes:
        row = transfers.abort(
            scope, row, closes or row['state'] == replicas.IDLE)
    return row


def set_read_only(scope: Scope, row: Row, value: bool) -> None:
    """Make the volumes of a target read-only for hosts, or not (REP-16)."""
    for volume in scope.store.find(
            'volumes', 'volume_group', row['local_volume_group']):
        scope.store.update('volumes', volume['id'], read_only=value)


def start(scope: Scope, row: Row, seconds: float) -> Row:
    """Start copying; seconds: the duration of the first transfer."""
    row = apply(scope, row, to(replicas.IN_SYNC))
    return transfers.begin(scope, row, seconds)


def settle(scope: Scope) -> None:
    """Carry out the delayed changes and start the rounds that are due.

    Sessions that change are marked as touched. Raises PendingError if copies
    must be made first.
    """
    scope.context.for_each(
        (row for row in scope.store.rows(replicas.SESSIONS)
         if row['pending'] is not None
         and row['pending']['due'] <= scope.now),
        lambda row: _carry_out(scope, row, row['pending']))
    transfers.settle(scope)


def _carry_out(scope: Scope, row: Row, pending: dict[str, Any]) -> None:
    scope.context.touched.add(row['id'])
    if pending['own']:
        start(scope, row, pending['seconds'])
    else:
        apply(scope, row, pending['changes'])


def suspend_all(scope: Scope, peer: int) -> None:
    """Suspend the sources of sessions with a lost peer (REP-19)."""
    for row in replicas.sessions_with(scope, peer):
        if (row['current_role'], row['state']) == (
                replicas.SOURCE, replicas.IN_SYNC):
            apply(scope, row, to(replicas.SUSPENDED, UNREACHABLE))


def remove(scope: Scope, row: Row) -> None:
    """Remove one side's record of a session, with its pairs.

    Volumes, groups and snapshots stay (REP-15).
    """
    for snapshot in scope.store.find(
            'snapshots', 'replication_session', replicas.session_ref(row)):
        scope.store.update(
            'snapshots', snapshot['id'], replication_session=None)
    for pair in replicas.pairs_of(scope, row):
        scope.store.remove(replicas.PAIRS, pair['id'])
    for line in transfers.history(scope, row):
        scope.store.remove('replication/rpo_history', line['id'])
    _, number = schema.split_ref(row['replication_peer_volume_group'])
    scope.store.remove(replicas.PEER_GROUPS, number)
    scope.store.remove(replicas.SESSIONS, row['id'])
