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

"""The requests that an array handles for its peers.

A request is handled at once and may create objects; they are unconfirmed
until the caller confirms them, and removed if it does not.
"""

from collections.abc import Callable
from typing import Any
from typing import Literal
from typing import TypedDict

import msgspec

from k2_sim.access import roles
from k2_sim import errors
from k2_sim.protocol import peering
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import groups
from k2_sim.rules import pairing
from k2_sim.rules import peers
from k2_sim.rules import replicas
from k2_sim.rules import system
from k2_sim.rules import volumes
from k2_sim.state import catalogue
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

_VOLUMES = volumes.VolumeRules(catalogue.VOLUMES)
_GROUPS = groups.GroupRules(catalogue.VOLUME_GROUPS)
_CAPACITY = system.CapacityRules(catalogue.SYSTEM_CAPACITY)


def describe(scope: Scope) -> dict[str, Any]:
    """The description of this array for a peer."""
    state = scope.store.at('/system/state/1')
    capacity = _CAPACITY.render(scope, scope.store.at('/system/capacity/1'))
    return {
        'system_id': state['system_id'], 'name': state['system_name'],
        'capacity': {name: capacity[name] for name
                     in (*replication.CAPACITIES, 'state')},
        'wan_ports': [
            [scope.store.at(row['wan_port'])['name'], row['ip_address']]
            for row in scope.store.rows('system/net_ips')
            if row['wan_port'] is not None]}


def handle(scope: Scope, sender: peering.Sender, kind: str,
           fields: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request; raises ApiError for a refusal."""
    peer = None if kind in _FOR_ALL else _known_peer(scope, sender)
    if kind not in _FIELDS:
        raise errors.refused(f'Unknown request of a peer: {kind}')
    try:
        fields = msgspec.convert(fields, _FIELDS[kind])
    except msgspec.ValidationError as exc:
        raise errors.refused(f'Invalid request of a peer: {kind}') from exc
    if peer is None:
        return _introduce(scope, sender, fields) if kind == 'introduce' \
            else describe(scope)
    if kind in _FOR_DATA and sender.has_data != (
            scope.context.contents is not None):
        raise errors.refused('One of the arrays keeps data and the other'
                             ' one tokens only: use two of a kind')
    return _HANDLERS[kind](scope, peer, fields)


def _known_peer(scope: Scope, sender: peering.Sender) -> Row:
    peer = pairing.find_peer(scope, sender)
    if peer is None:
        raise errors.refused(f'{sender.name} is no peer of this array')
    return peer


def _introduce(scope: Scope, sender: peering.Sender,
               fields: dict[str, Any]) -> dict[str, Any]:
    """Add the array that is adding this one as its peer."""
    roles.check(scope.role, 'POST', replicas.PEERS)
    own = scope.store.at('/system/state/1')['system_id']
    if (sender.system_id != own and sender.address
            and pairing.find_peer(scope, sender) is None):
        scope.store.insert(replicas.PEERS, peers.new_row({
            'name': sender.name, 'mgmt_host': sender.address,
            'username': fields['login'], 'password': fields['password'],
            'system_id': sender.system_id}))
    return describe(scope)


def _create(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """Create the target's side of a session (REP-1)."""
    _drop_unconfirmed(scope, peer, fields['name'])
    base.check_name(fields['name'], scope.behaviors.name_limit)
    base.check_unique(
        scope, replicas.SESSIONS, 'name', fields['name'], 'Session')
    group = _GROUPS.create(scope, {
        'name': fields['group'], 'quota': 0, 'is_dedup': fields['is_dedup'],
        'capacity_policy': None, 'description': None})
    policies = [_policy(scope, name) for name in fields['policies']]
    row = pairing.insert_session(scope, {
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


def _drop_unconfirmed(scope: Scope, peer: Row, name: str) -> None:
    """A repeated request replaces what an earlier one left incomplete."""
    for row in scope.store.find(replicas.SESSIONS, 'name', name):
        if not row['confirmed'] and pairing.is_with(row, peer):
            pairing.drop(scope, row)


def _policy(scope: Scope, name: str | None) -> str | None:
    for row in scope.store.find('retention_policies', 'name', name):
        return schema.make_ref('retention_policies', row['id'])
    return None


def _make_volume(scope: Scope, session: Row, name: str, size: int,
                 vmware_support: bool) -> int:
    """Create a read-only volume in a target's group (REP-16)."""
    volume = _VOLUMES.make(scope, {
        'name': name, 'size': size, 'vmware_support': vmware_support,
        'volume_group': session['local_volume_group'], 'read_only': True})
    pairing.insert_pair(scope, session, volume['id'], None, '')
    return int(volume['id'])


def _target(scope: Scope, peer: Row, number: int) -> Row:
    row = scope.store.get(replicas.SESSIONS, number)
    if row is None or not pairing.is_with(row, peer):
        raise errors.refused('The peer has no such session')
    return row


def _add_volume(scope: Scope, peer: Row, fields: dict[str, Any]
                ) -> dict[str, Any]:
    """Create the counterpart of a volume (REP-1)."""
    row = _target(scope, peer, fields['session'])
    if row['remote_replication_session_id'] not in (None, fields['asker']):
        raise errors.refused(f'Peer session {row["name"]} does not match')
    if not replicas.is_closed(row) or row['state'] != replicas.IDLE:
        raise errors.refused(f'Session {row["name"]} is not idle')
    return {'volume': _make_volume(
        scope, row, fields['name'], fields['size'],
        fields['vmware_support'])}


def _rename(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """Rename objects in a session with the caller, and nothing else."""
    rules: base.Rules = (
        _GROUPS if fields['resource'] == _GROUPS.name else _VOLUMES)
    ref = schema.make_ref(rules.name, fields['number'])
    session = replicas.session_of(scope, ref) if rules is _GROUPS \
        else pairing.session_of_volume(scope, ref)
    if (session is None or not pairing.is_with(session, peer)
            or session['remote_replication_session_id'] != fields['asker']):
        raise errors.refused('The peer has no such object')
    rules.update(scope, scope.store.at(ref), {'name': fields['name']})
    return {}


def _check_follower(scope: Scope, peer: Row, fields: dict[str, Any]) -> Row:
    """This side of the caller's session; refuses if it cannot follow.

    Epochs and sizes of volumes must match; copies may be grown first.
    """
    row = _target(scope, peer, fields['session'])
    if (row['epoch'] != fields['epoch']
            or row['remote_replication_session_id'] != fields['asker']):
        raise errors.refused(f'Peer session {row["name"]} does not match')
    sizes = dict(fields['sizes'])
    if scope.behaviors.grow_copies_at_start and replicas.is_closed(row):
        _grow(scope, row, sizes)
    here = {volume['id']: volume['size'] for volume
            in groups.volumes_of(scope, row['local_volume_group'])}
    if here != sizes:
        raise errors.refused(
            f'Volumes of peer session {row["name"]} differ in size')
    return row


def _grow(scope: Scope, row: Row, sizes: dict[int, int]) -> None:
    """Grow copies to the sizes of their sources (VOL-11)."""
    for volume in groups.volumes_of(scope, row['local_volume_group']):
        more = sizes.get(volume['id'], 0) - volume['size']
        if more > 0:
            system.check_space(scope)
            groups.check_room(scope, row['local_volume_group'], more)
            scope.store.update('volumes', volume['id'],
                               size=volume['size'] + more)


def _follow(scope: Scope, peer: Row, fields: dict[str, Any]
            ) -> dict[str, Any]:
    """Check that this target can follow its source to in_sync."""
    row = _check_follower(scope, peer, fields)
    if not replicas.is_closed(row):
        raise errors.refused(f'Peer session {row["name"]} has failed over')
    return {'last_generation': row['last_generation']}


def _reverse(scope: Scope, peer: Row, fields: dict[str, Any]
             ) -> dict[str, Any]:
    """Check that this source can become the target (row 7)."""
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
    """Remove what was created for the caller and is not confirmed."""
    session = scope.store.get(replicas.SESSIONS, fields['session'])
    if session is not None and not session['confirmed'] and pairing.is_with(
            session, peer):
        pairing.drop(scope, session)
    volume = schema.make_ref('volumes', fields['volume'])
    pair = replicas.pair_of(scope, volume)
    if (pair is not None and pair['remote_volume_id'] is None
            and pairing.is_with(
                pairing.session_of_volume(scope, volume), peer)):
        pairing.drop_volume(scope, pair)
    return {}


class _Introduce(TypedDict):
    login: str
    password: str


class _Create(TypedDict):
    name: str
    group: str
    is_dedup: bool | None
    policies: tuple[str | None, str | None]
    rpo: int
    source_name: str
    exposure: str | None
    source_group_name: str
    source_group: int
    volumes: list[tuple[int, str, int, bool]]


class _AddVolume(TypedDict):
    session: int
    asker: int
    name: str
    size: int
    vmware_support: bool


class _Rename(TypedDict):
    resource: Literal['volume_groups', 'volumes']
    asker: int
    number: int
    name: str


class _Follow(TypedDict):
    session: int
    asker: int
    epoch: int
    sizes: list[tuple[int, int]]


class _Cancel(TypedDict):
    session: int
    volume: int


# The fields of each kind of request.
_FIELDS: dict[str, Any] = {
    'introduce': _Introduce, 'hello': dict[str, Any], 'create': _Create,
    'add_volume': _AddVolume, 'rename': _Rename, 'follow': _Follow,
    'reverse': _Follow, 'cancel': _Cancel}
_HANDLERS: dict[str, Callable[
    [Scope, Row, dict[str, Any]], dict[str, Any]]] = {
    'create': _create, 'add_volume': _add_volume, 'rename': _rename,
    'follow': _follow, 'reverse': _reverse, 'cancel': _cancel}
# Requests that an array may send before it is a peer.
_FOR_ALL = ('introduce', 'hello')
# Requests that start data transfers.
_FOR_DATA = ('create', 'add_volume', 'follow', 'reverse')
