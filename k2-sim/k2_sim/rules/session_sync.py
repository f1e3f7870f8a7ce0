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

"""Session updates between arrays.

An update has views of sessions: each array sends the state of its own record,
and the other one follows where the rules require it (section 10.4, right-hand
columns).
"""

from collections.abc import Iterable
from typing import Any

from k2_sim.rules.base import Scope
from k2_sim.rules import pairing
from k2_sim.rules import replicas
from k2_sim.rules import states
from k2_sim.rules import transfers
from k2_sim.state import schema
from k2_sim.state.schema import Row

View = dict[str, Any]


def view(scope: Scope, row: Row) -> View:
    """The state of a session on this array, for the peer."""
    group = scope.store.at(row['local_volume_group'])
    return {
        **{name: row[name] for name in (
            'id', 'state', 'epoch', 'version', 'opened', 'stopped', 'name',
            'rpo', 'target_exposure', 'generation_number')},
        'role': row['current_role'], 'group_name': group['name'],
        'remote': row['remote_replication_session_id'],
        'pairs': [_pair_view(scope, pair)
                  for pair in replicas.pairs_of(scope, row)],
        'parcels': transfers.parcels(scope, row)}


def _pair_view(scope: Scope, pair: Row) -> list[Any]:
    volume = scope.store.at(pair['local_volume'])
    return [pair['remote_volume_id'], volume['id'], volume['name']]


def merge(scope: Scope, peer: Row, views: Iterable[View],
          full: bool = False) -> list[int]:
    """Apply views of the peer; returns ids of its sessions without a match.

    full: the views are all sessions of the peer. A session is marked as
    touched if it is changed in a way that the peer must be sent.
    """
    unknown, mentioned = [], set()
    for item in views:
        mentioned.add(item['remote'])
        row = scope.store.get(replicas.SESSIONS, item['remote'] or 0)
        if row is None or not pairing.is_with(row, peer) or not _is_of(
                row, item):
            unknown.append(item['id'])
        elif item['version'] >= row['peer_version']:
            _merge_pairs(scope, row, item, full)
            _merge_one(scope, row, item)
    if full:
        forget(scope, [row['id'] for row
                       in replicas.sessions_with(scope, peer['id'])
                       if row['id'] not in mentioned])
    return unknown


def _is_of(row: Row, item: View) -> bool:
    """Whether a session is the one in a view of the peer.

    Until the id of the session on the peer is known, the name decides: the
    view may be of a session whose counterpart here, now gone, had the same
    id (OBJ-7).
    """
    number = row['remote_replication_session_id']
    return bool(number == item['id'] or number is None and item['name']
                == row['remote_replication_session_name'])


def forget(scope: Scope, numbers: Iterable[int]) -> None:
    """Drop or suspend sessions that the peer does not have.

    Those that are not confirmed are dropped, and running ones suspended.
    """
    for number in numbers:
        row = scope.store.get(replicas.SESSIONS, number)
        if row is None:
            continue
        if not row['confirmed']:
            pairing.drop(scope, row)
        elif _is_running(row):
            states.apply(scope, row, states.to(
                replicas.SUSPENDED, states.PEER_MISSING))


def _is_running(row: Row) -> bool:
    return (row['current_role'], row['state']) == (
        replicas.SOURCE, replicas.IN_SYNC)


def _merge_one(scope: Scope, row: Row, item: View) -> None:
    # The peer knows all of this: the version stays.
    row = _updated(scope, replicas.SESSIONS, row, _remote_values(row, item))
    generation = item['generation_number']
    if generation is not None and item['role'] == replicas.TARGET and (
            row['epoch'] == item['epoch']):
        row = transfers.acknowledge(scope, row, generation)
    row = _follow_state(scope, row, _followed(row, item))
    if replicas.is_closed(row) and item['role'] == replicas.SOURCE:
        _take_parcels(scope, row, item['parcels'])


def _updated(scope: Scope, resource: str, row: Row,
             values: dict[str, Any]) -> Row:
    """The row with these values, written only if it had others."""
    if all(row[name] == value for name, value in values.items()):
        return row
    return scope.store.update(resource, row['id'], **values)


def _remote_values(row: Row, item: View) -> dict[str, Any]:
    """The values that are copied from the peer."""
    values = {'remote_replication_session_id': item['id'], 'confirmed': True,
              'remote_replication_session_name': item['name'],
              'peer_version': item['version']}
    if row['current_role'] == replicas.TARGET:
        values.update(rpo=item['rpo'],
                      target_exposure=item['target_exposure'])
    return values


def _merge_pairs(scope: Scope, row: Row, item: View, full: bool) -> None:
    """Follow names on the peer, and the volumes that are in pairs.

    full: the volume of a pair that was never completed is removed.
    """
    _updated(scope, replicas.PEER_GROUPS,
             scope.store.at(row['replication_peer_volume_group']),
             {'name': item['group_name']})
    known = {local: (remote, name) for local, remote, name in item['pairs']}
    for pair in replicas.pairs_of(scope, row):
        found = known.get(schema.split_ref(pair['local_volume'])[1])
        if found is not None:
            _updated(scope, replicas.PAIRS, pair, {
                'remote_volume_id': found[0], 'name': found[1]})
        elif item['role'] == replicas.SOURCE:
            if pair['remote_volume_id'] is not None:
                scope.store.remove(replicas.PAIRS, pair['id'])
            elif full:
                pairing.drop_volume(scope, pair)


def _followed(row: Row, item: View) -> dict[str, Any]:
    """The change that the state of the peer requires here, or nothing."""
    if item['epoch'] > row['epoch']:
        return _swapped(row, item)
    if row['current_role'] == replicas.TARGET:
        if row['opened'] or item['state'] == row['state'] or (
                item['epoch'] < row['epoch']):
            return {}
        return states.to(item['state'], stopped=item['stopped'])
    if not _is_running(row):
        return {}
    if item['epoch'] == row['epoch']:
        return states.to(replicas.SUSPENDED, states.PEER_FAILED_OVER) \
            if item['opened'] else {}
    # The peer has not become the target yet; if it is idle, it never will.
    return states.to(replicas.SUSPENDED, states.PEER_MISSING) \
        if item['state'] == replicas.IDLE else {}


def _swapped(row: Row, item: View) -> dict[str, Any]:
    """The change after the peer has become the source (row 7)."""
    if row['state'] not in (replicas.SUSPENDED, replicas.IN_SYNC):
        return {}
    return states.to(item['state'], current_role=replicas.TARGET,
                     epoch=item['epoch'], opened=False)


def _follow_state(scope: Scope, row: Row, changes: dict[str, Any]) -> Row:
    """Change at once, or after the time that following takes (REP-8)."""
    pending, delay = row['pending'], scope.behaviors.follow_seconds
    if not changes:
        if pending is None or pending['own']:
            return row
        return replicas.change(scope, row, pending=None)
    if not delay:
        return states.apply(scope, row, changes)
    if pending is not None and pending.get('changes') == changes:
        return row
    return replicas.change(scope, row, pending={
        'own': False, 'due': scope.now + delay, 'changes': changes})


def _take_parcels(scope: Scope, row: Row,
                  parcels: Iterable[dict[str, Any]]) -> None:
    """Apply data that has arrived; the other side must be notified (REP-14).

    A snapshot without its data cannot be applied, nor can those after it.
    """
    for parcel in parcels:
        if parcel['generation'] > (row['generation_number'] or 0):
            missing = transfers.missing(scope, row, parcel)
            if missing:
                scope.context.wanted.update(missing)
                return
            row = transfers.receive(scope, row, parcel)
            scope.context.touched.add(row['id'])
