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

"""What two arrays say to each other: questions, and the news of sessions.

A question is answered at once and may make something here; what the asker
does not keep in the end is unconfirmed and goes again. News are views of
sessions: each side tells how its own record stands, the other follows as
far as it is bound to (section 10.4, right-hand columns).
"""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from cinder_k2.simulator import catalogue
from cinder_k2.simulator import errors
from cinder_k2.simulator.rules import base
from cinder_k2.simulator.rules.base import Scope
from cinder_k2.simulator.rules import groups
from cinder_k2.simulator.rules import peers
from cinder_k2.simulator.rules import replicas
from cinder_k2.simulator.rules import states
from cinder_k2.simulator.rules import system
from cinder_k2.simulator.rules import transfers
from cinder_k2.simulator.rules import volumes
from cinder_k2.simulator import schema
from cinder_k2.simulator.schema import Row
from cinder_k2.simulator import wire

View = dict[str, Any]
_VOLUMES = volumes.VolumeRules(catalogue.VOLUMES)
_GROUPS = groups.GroupRules(catalogue.VOLUME_GROUPS)
_CAPACITY = system.CapacityRules(catalogue.SYSTEM_CAPACITY)


def insert_session(scope: Scope, values: Row, peer_group: str,
                   peer_group_id: int | None) -> Row:
    """A new idle session with the record of its peer's group."""
    row = scope.store.insert(replicas.SESSIONS, {
        'state': replicas.IDLE, 'stopped': False, 'suspend_reason': '',
        'suspend_reason_code': 'none', 'generation_number': None,
        'latest_replicated_snapshot': None, 'restored_snapshot': None,
        'next_snapshot': None, 'epoch': 0, 'opened': False, 'version': 0,
        'peer_version': 0, 'last_generation': 0, 'queue': [],
        'next_round': None, 'pending': None, **values})
    group = scope.store.insert(replicas.PEER_GROUPS, {
        'name': peer_group, 'remote_volume_group_id': peer_group_id,
        'local_volume_group': row['local_volume_group'],
        'replication_peer_k2array': row['replication_peer_k2array'],
        'replication_session': replicas.session_ref(row)})
    return replicas.change(scope, row, replication_peer_volume_group=(
        schema.make_ref(replicas.PEER_GROUPS, group['id'])))


def insert_pair(scope: Scope, session: Row, volume: int,
                remote: int | None, name: str) -> Row:
    """The record of a volume's counterpart."""
    return scope.store.insert(replicas.PAIRS, {
        'name': name, 'local_volume': schema.make_ref('volumes', volume),
        'remote_volume_id': remote,
        'replication_session': replicas.session_ref(session),
        'replication_peer_volume_group':
            session['replication_peer_volume_group']})


def about(scope: Scope) -> dict[str, Any]:
    """What an array tells about itself."""
    state = scope.store.at('/system/state/1')
    capacity = _CAPACITY.render(scope, scope.store.at('/system/capacity/1'))
    return {
        'system_id': state['system_id'], 'name': state['system_name'],
        'capacity': {name: capacity[name] for name
                     in (*catalogue.CAPACITIES, 'state')},
        'wan_ports': [
            [scope.store.at(row['wan_port'])['name'], row['ip_address']]
            for row in scope.store.rows('system/net_ips')
            if row['wan_port'] is not None]}


def find_peer(scope: Scope, sender: wire.Sender) -> Row | None:
    """The record of the array that sent a message.

    One that was never reached from here is known by its address only.
    """
    for row in scope.store.find(
            replicas.PEERS, 'system_id', sender.system_id):
        return row
    for row in scope.store.find(
            replicas.PEERS, 'mgmt_host', sender.address):
        if not row['system_id']:
            return scope.store.update(
                replicas.PEERS, row['id'], system_id=sender.system_id)
    return None


def answer(scope: Scope, sender: wire.Sender, kind: str,
           fields: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question; raises ApiError for a refusal."""
    if kind == 'introduce':
        return _introduce(scope, sender, fields)
    if kind == 'hello':
        return about(scope)
    peer = find_peer(scope, sender)
    if peer is None:
        raise errors.refused(f'{sender.name} is no peer of this array')
    if kind not in _ANSWERS:
        raise errors.refused(f'Unknown question: {kind}')
    return _ANSWERS[kind](scope, peer, fields)


def _introduce(scope: Scope, sender: wire.Sender,
               fields: dict[str, Any]) -> dict[str, Any]:
    """Get to know the array that adds this one as its peer."""
    own = scope.store.at('/system/state/1')['system_id']
    if (sender.system_id != own and sender.address
            and find_peer(scope, sender) is None):
        scope.store.insert(replicas.PEERS, peers.new_row({
            'name': sender.name, 'mgmt_host': sender.address,
            'username': fields['login'], 'password': fields['password'],
            'system_id': sender.system_id}))
    return about(scope)


def _create(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """Make the target's side of a session (REP-1)."""
    _drop_unconfirmed(scope, peer, fields['name'])
    base.check_name(fields['name'], scope.switches.name_limit)
    base.check_unique(
        scope, replicas.SESSIONS, 'name', fields['name'], 'Session')
    group = _GROUPS.create(scope, {
        'name': fields['group'], 'quota': 0, 'is_dedup': fields['is_dedup'],
        'capacity_policy': None, 'description': None})
    policies = [_policy(scope, name) for name in fields['policies']]
    row = insert_session(scope, {
        'name': fields['name'], 'rpo': fields['rpo'],
        'replication_peer_k2array': peers.ref_of(peer),
        'local_volume_group': schema.make_ref(_GROUPS.name, group['id']),
        'retention_policy': policies[0],
        'external_retention_policy': policies[1],
        'remote_replication_session_name': fields['source_name'],
        'remote_replication_session_id': None,
        'target_exposure': fields['exposure'], 'primary': False,
        'current_role': replicas.TARGET, 'confirmed': False,
    }, fields['source_group_name'], fields['source_group'])
    made = [[local, _make_volume(scope, row, name, size, vmware), name]
            for local, name, size, vmware in fields['volumes']]
    return {'session': row['id'], 'group': group['id'], 'volumes': made}


def _policy(scope: Scope, name: str | None) -> str | None:
    for row in scope.store.find('retention_policies', 'name', name):
        return schema.make_ref('retention_policies', row['id'])
    return None


def _make_volume(scope: Scope, session: Row, name: str, size: int,
                 vmware_support: bool) -> int:
    """A read-only volume in a target's group (REP-16)."""
    volume = _VOLUMES.make(scope, {
        'name': name, 'size': size, 'vmware_support': vmware_support,
        'volume_group': session['local_volume_group'], 'read_only': True})
    insert_pair(scope, session, volume['id'], None, '')
    return int(volume['id'])


def _target(scope: Scope, peer: Row, number: int) -> Row:
    row = scope.store.get(replicas.SESSIONS, number)
    if row is None or row['replication_peer_k2array'] != peers.ref_of(peer):
        raise errors.refused('The peer has no such session')
    return row


def _add_volume(scope: Scope, peer: Row, fields: dict[str, Any]
                ) -> dict[str, Any]:
    """Make the counterpart of a volume (REP-1)."""
    row = _target(scope, peer, fields['session'])
    if not replicas.is_closed(row) or row['state'] != replicas.IDLE:
        raise errors.refused(f'Session {row["name"]} is not idle')
    return {'volume': _make_volume(
        scope, row, fields['name'], fields['size'],
        fields['vmware_support'])}


def _rename(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    rules: base.Rules = (
        _GROUPS if fields['resource'] == _GROUPS.name else _VOLUMES)
    row = scope.store.get(rules.name, fields['number'])
    if row is None:
        raise errors.refused('The peer has no such object')
    rules.update(scope, row, {'name': fields['name']})
    return {}


def _check_follower(scope: Scope, peer: Row, fields: dict[str, Any]) -> Row:
    """The session asked about, if it can follow as far as sizes go."""
    row = _target(scope, peer, fields['session'])
    if (row['epoch'] != fields['epoch']
            or row['remote_replication_session_id'] != fields['asker']):
        raise errors.refused(f'Peer session {row["name"]} does not match')
    here = {volume['id']: volume['size'] for volume
            in groups.volumes_of(scope, row['local_volume_group'])}
    if here != {number: size for number, size in fields['sizes']}:
        raise errors.refused(
            f'Volumes of peer session {row["name"]} differ in size')
    return row


def _follow(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """Whether this target can follow its source to in_sync."""
    row = _check_follower(scope, peer, fields)
    if not replicas.is_closed(row):
        raise errors.refused(f'Peer session {row["name"]} has failed over')
    return {'last_generation': row['last_generation']}


def _reverse(scope: Scope, peer: Row, fields: dict[str, Any]
             ) -> dict[str, Any]:
    """Whether this source can become the target (row 7)."""
    row = _check_follower(scope, peer, fields)
    if (row['current_role'], row['state']) != (
            replicas.SOURCE, replicas.SUSPENDED):
        raise errors.refused(f'Peer session {row["name"]} is not suspended')
    if replicas.is_mapped_group(scope, row['local_volume_group']):
        raise errors.refused(
            f'Volumes of peer session {row["name"]} are mapped')
    return {'last_generation': row['last_generation']}


def _cancel(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """The asker did not keep what was made for it."""
    session = scope.store.get(replicas.SESSIONS, fields['session'])
    if session is not None and not session['confirmed']:
        _drop(scope, session)
    pair = replicas.pair_of(
        scope, schema.make_ref('volumes', fields['volume']))
    if pair is not None and pair['remote_volume_id'] is None:
        _drop_volume(scope, pair)
    return {}


_ANSWERS: dict[str, Callable[
    [Scope, Row, dict[str, Any]], dict[str, Any]]] = {
    'create': _create, 'add_volume': _add_volume, 'rename': _rename,
    'follow': _follow, 'reverse': _reverse, 'cancel': _cancel}


def _drop_unconfirmed(scope: Scope, peer: Row, name: str) -> None:
    """A repeated request replaces what an earlier one left half made."""
    for row in scope.store.find(replicas.SESSIONS, 'name', name):
        if (not row['confirmed']
                and row['replication_peer_k2array'] == peers.ref_of(peer)):
            _drop(scope, row)


def _drop(scope: Scope, row: Row) -> None:
    for pair in replicas.pairs_of(scope, row):
        _drop_volume(scope, pair)
    states.remove(scope, row)
    resource, number = schema.split_ref(row['local_volume_group'])
    scope.store.remove(resource, number)


def _drop_volume(scope: Scope, pair: Row) -> None:
    scope.store.remove(replicas.PAIRS, pair['id'])
    resource, number = schema.split_ref(pair['local_volume'])
    scope.store.remove(resource, number)


def view(scope: Scope, row: Row) -> View:
    """How a session stands here, for the other side."""
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
    """Follow the other side; gives ids of its sessions without a match.

    full: the views are all that the other side has. A session that is
    changed in a way the other side must hear of is marked as touched.
    """
    unknown, mentioned = [], set()
    for item in views:
        mentioned.add(item['remote'])
        row = scope.store.get(replicas.SESSIONS, item['remote'] or 0)
        if row is None or row['remote_replication_session_id'] not in (
                None, item['id']):
            unknown.append(item['id'])
        elif item['version'] >= row['peer_version']:
            _merge_pairs(scope, row, item, full)
            _merge_one(scope, row, item)
    if full:
        forget(scope, [row['id'] for row
                       in replicas.sessions_with(scope, peer['id'])
                       if row['id'] not in mentioned])
    return unknown


def forget(scope: Scope, numbers: Iterable[int]) -> None:
    """The other side has no session for these."""
    for number in numbers:
        row = scope.store.get(replicas.SESSIONS, number)
        if row is None:
            continue
        if not row['confirmed']:
            _drop(scope, row)
        elif _is_running(row):
            states.apply(scope, row, states.to(
                replicas.SUSPENDED, states.PEER_MISSING))


def _is_running(row: Row) -> bool:
    return (row['current_role'], row['state']) == (
        replicas.SOURCE, replicas.IN_SYNC)


def _merge_one(scope: Scope, row: Row, item: View) -> None:
    # None of this is news for the other side: the version stays.
    row = _updated(scope, replicas.SESSIONS, row, _news(row, item))
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


def _news(row: Row, item: View) -> dict[str, Any]:
    """What is simply taken over from the other side."""
    news = {'remote_replication_session_id': item['id'], 'confirmed': True,
            'remote_replication_session_name': item['name'],
            'peer_version': item['version']}
    if row['current_role'] == replicas.TARGET:
        news.update(rpo=item['rpo'],
                    target_exposure=item['target_exposure'])
    return news


def _merge_pairs(scope: Scope, row: Row, item: View, full: bool) -> None:
    """Follow names on the other side, and which volumes are in pairs.

    full: a volume made for a pair that never came to be is not kept.
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
                _drop_volume(scope, pair)


def _followed(row: Row, item: View) -> dict[str, Any]:
    """The change that the other side's state asks for here, or nothing."""
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
    # It has not become the target yet; if it stopped it never will.
    return states.to(replicas.SUSPENDED, states.PEER_MISSING) \
        if item['state'] == replicas.IDLE else {}


def _swapped(row: Row, item: View) -> dict[str, Any]:
    """The other side has become the source (row 7)."""
    if row['state'] not in (replicas.SUSPENDED, replicas.IN_SYNC):
        return {}
    return states.to(item['state'], current_role=replicas.TARGET,
                     epoch=item['epoch'], opened=False)


def _follow_state(scope: Scope, row: Row, changes: dict[str, Any]) -> Row:
    """Change at once, or after the time that following takes (REP-8)."""
    pending, delay = row['pending'], scope.switches.follow_seconds
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
    """Take what has arrived; the other side must hear of it (REP-14)."""
    for parcel in parcels:
        if parcel['generation'] > (row['generation_number'] or 0):
            row = transfers.receive(scope, row, parcel)
            scope.talk.touched.add(row['id'])
