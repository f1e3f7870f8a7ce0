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

"""Checks of replication for other rules: objects in sessions, and roles.

A session is one row on each side. In addition to the fields in replies it
has:

epoch: the number of role swaps; the side with the higher one is right
    about the roles.
opened: the target has failed over, and may have been made idle after that.
version, peer_version: count the changes of this row, and of the peer's as
    far as they are known here, so that old messages are ignored.
last_generation: the highest number given out or received.
queue: the transfers to the peer, see transfers.
next_round: when the next round starts. pending: a delayed change.
confirmed: false on a target until the source has stored its own row.
"""

import math
from typing import Any

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

SESSIONS = replication.SESSIONS.name
PEERS = replication.PEER_K2ARRAYS.name
PAIRS = replication.PEER_VOLUMES.name
PEER_GROUPS = replication.PEER_VOLUME_GROUPS.name
IDLE, IN_SYNC = 'idle', 'in_sync'
SUSPENDED, FAILED_OVER = 'suspended', 'failed_over'
SOURCE, TARGET = 'source', 'target'
Item = dict[str, Any]


def session_ref(row: Row) -> str:
    """The reference to a session."""
    return schema.make_ref(SESSIONS, row['id'])


def history_ref(row: Row) -> str:
    """The reference to a session's history."""
    return schema.make_ref(replication.RPO_HISTORY.name, row['id'])


def session_of(scope: Scope, group: str | None) -> Row | None:
    """The one session of a volume group, if it has one (REP-5)."""
    found = scope.store.find(SESSIONS, 'local_volume_group', group)
    return found[0] if found else None


def sessions_with(scope: Scope, peer: int) -> list[Row]:
    """The sessions with a peer."""
    return scope.store.find(SESSIONS, 'replication_peer_k2array',
                            schema.make_ref(PEERS, peer))


def is_closed(session: Row | None) -> bool:
    """Whether a session is a target that has not failed over."""
    return (session is not None and session['current_role'] == TARGET
            and not session['opened'])


def pair_of(scope: Scope, volume: str) -> Row | None:
    """The record of a volume's counterpart on the peer."""
    found = scope.store.find(PAIRS, 'local_volume', volume)
    return found[0] if found else None


def pairs_of(scope: Scope, session: Row) -> list[Row]:
    """The peer volumes of a session."""
    return scope.store.find(
        PAIRS, 'replication_session', session_ref(session))


def uses_policy(scope: Scope, policy: str) -> bool:
    """Whether a session names a retention policy."""
    return any(scope.store.count(SESSIONS, field, policy) for field
               in ('retention_policy', 'external_retention_policy'))


def change(scope: Scope, row: Row, **changes: Any) -> Row:
    """Change a session and raise its version; returns the new row."""
    return scope.store.update(
        SESSIONS, row['id'], **changes, version=row['version'] + 1)


def _check_idle(session: Row) -> None:
    if session['state'] != IDLE:
        raise errors.refused(f'Session {session["name"]} is not idle')


def check_new_member(scope: Scope, group: str) -> None:
    """Refuse to add a volume while it would be copied (REP-5)."""
    session = session_of(scope, group)
    if session is None:
        return
    _check_idle(session)
    if is_closed(session):
        raise errors.refused(
            f'Session {session["name"]} creates the volumes of its group')


def check_removal(scope: Scope, volume: Row) -> None:
    """Refuse to remove a volume that has a peer volume (REP-5).

    While a session is not idle all its volumes have one.
    """
    if pair_of(scope, schema.make_ref('volumes', volume['id'])):
        raise errors.refused(f'Volume {volume["name"]} has a peer volume')


def check_unbound(scope: Scope, *group_refs: str) -> None:
    """Refuse changes of a group in a session (VG-6, VOL-10)."""
    for group in group_refs:
        session = session_of(scope, group)
        if session is not None:
            name = scope.store.at(group)['name']
            raise errors.refused(f'Volume group {name} is in session'
                                 f' {session["name"]}')


def check_restore(scope: Scope, group: str) -> None:
    """Refuse to restore a group whose session is not idle (RST-3)."""
    session = session_of(scope, group)
    if session is not None:
        _check_idle(session)


def check_growth(scope: Scope, group: str) -> None:
    """Refuse to grow a volume that is being copied (VOL-4)."""
    session = session_of(scope, group)
    behaviors = scope.behaviors
    if session is None or behaviors.grow_in_session:
        return
    if behaviors.grow_copies_at_start and is_closed(session):
        raise errors.refused(
            f'Session {session["name"]} sets the size of its copies')
    allowed = {IDLE, FAILED_OVER}
    if behaviors.grow_suspended:
        allowed.add(SUSPENDED)
    if session['state'] not in allowed:
        raise errors.refused(
            f'Session {session["name"]} is {session["state"]}')


def check_writable(scope: Scope, volume: Row) -> None:
    """Refuse to make a target's volume writable before failover (REP-16)."""
    if is_closed(session_of(scope, volume['volume_group'])):
        raise errors.refused(
            f'Volume {volume["name"]} is the target of a session')


def check_mapping(scope: Scope, volume: Row) -> None:
    """Refuse to map a target's volume that is not exposed (REP-16)."""
    session = session_of(scope, volume['volume_group'])
    if (session is not None and is_closed(session)
            and session['target_exposure'] == replication.EXPOSURES[0]):
        raise errors.refused(f'Volume {volume["name"]} is not exposed by'
                             f' session {session["name"]}')


def check_snapshot(scope: Scope, group: str) -> None:
    """Refuse new snapshots of a target's group (SNP-13)."""
    if is_closed(session_of(scope, group)):
        name = scope.store.at(group)['name']
        raise errors.refused(f'Volume group {name} is a target')


def is_locked(scope: Scope, snapshot: Row) -> bool:
    """Whether a session needs a snapshot: in transfer, or the last one."""
    ref = snapshot.get('replication_session')
    if ref is None:
        return False
    session = scope.store.at(ref)
    last = session['latest_replicated_snapshot']
    return (any(item['snapshot'] == snapshot['id']
                for item in session['queue'])
            or session['state'] != IDLE
            and last == schema.make_ref('snapshots', snapshot['id']))


def free_at(session: Row, now: float) -> float:
    """The time when all transfers will have arrived, at least now."""
    ends: list[float] = [item['ends'] for item in session['queue'][-1:]]
    return max([now, *ends])


def enqueue(scope: Scope, session: Row, snapshot: Row, seconds: float,
            **item: Any) -> Row:
    """Queue a snapshot behind all current transfers."""
    began = free_at(session, item.get('began', scope.now))
    new = {'snapshot': snapshot['id'], 'user': False, 'rounds': 1,
           'generation': snapshot['generation_number'], **item,
           'began': began, 'ends': began + seconds}
    return change(scope, session, queue=[*session['queue'], new],
                  last_generation=snapshot['generation_number'])


def progress(scope: Scope, item: Item) -> int:
    """The progress of a running transfer in percent."""
    length: float = item['ends'] - item['began']
    if length <= 0:
        return 99
    done: float = max(0.0, scope.now - item['began']) / length
    return min(99, math.floor(100 * done))


def live(scope: Scope, ref: str | None) -> str | None:
    """A reference, or None if its object was deleted."""
    return ref if ref is not None and scope.store.exists(ref) else None


def content(row: Row) -> str:
    """The token of the data of a volume or volsnap."""
    return str(row.get('content') or '')


def is_mapped_group(scope: Scope, group: str) -> bool:
    """Whether a volume of a group is mapped."""
    return any(
        base.is_mapped(scope, schema.make_ref('volumes', row['id']))
        for row in scope.store.find('volumes', 'volume_group', group))
