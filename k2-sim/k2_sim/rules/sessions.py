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

"""Replication sessions and their commands: sections 10.2 to 10.4."""

from collections.abc import Callable
from typing import Any

from k2_sim import errors
from k2_sim import profiles
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import groups
from k2_sim.rules import pairing
from k2_sim.rules import peers
from k2_sim.rules import replicas
from k2_sim.rules import states
from k2_sim.rules import transfers
from k2_sim.state import replication
from k2_sim.state import schema
from k2_sim.state.schema import Row

_POLICIES = ('retention_policy', 'external_retention_policy')
# Options of commands, which require the field state.
_WITH_STATE = ('snapshot_wwn', 'offline_initial_sync', 'restored_snapshot')
# Fields that can be changed only on the source.
_OF_SOURCE = ('rpo', 'target_exposure')
_GIVEN = ('name', 'replication_peer_k2array', 'local_volume_group', 'rpo',
          *_POLICIES)


def _head(scope: Scope, row: Row) -> replicas.Item | None:
    """The current transfer."""
    if row['state'] != replicas.IN_SYNC or not row['queue']:
        return None
    return dict(row['queue'][0])


def _current_id(scope: Scope, row: Row) -> int | None:
    item = _head(scope, row)
    return None if item is None else item['snapshot']


def _current(scope: Scope, row: Row) -> str | None:
    number = _current_id(scope, row)
    return None if number is None else schema.make_ref('snapshots', number)


def _next(scope: Scope, row: Row) -> str | None:
    """The next transfer: the first that is waiting (REP-20)."""
    waiting = row['queue'] if _head(scope, row) is None \
        else row['queue'][1:]
    return schema.make_ref('snapshots', waiting[0]['snapshot']) \
        if waiting else None


def _progress(scope: Scope, row: Row) -> int:
    item = _head(scope, row)
    if item is not None:
        return replicas.progress(scope, item)
    return 0 if row['generation_number'] is None else 100


def _remaining(scope: Scope, row: Row) -> int | None:
    item = _head(scope, row)
    return None if item is None else max(0, round(item['ends'] - scope.now))


def _common(scope: Scope, row: Row) -> int:
    return sum(bool(snapshot.get('is_exist_on_peer')) for snapshot
               in groups.snapshots_of(scope, row['local_volume_group']))


class SessionRules(base.Rules):
    """REP-1 to REP-20: one side's record of a session."""

    computed = {
        'current_snapshot': _current,
        'current_snapshot_id': _current_id,
        'current_snapshot_progress': _progress,
        'next_snapshot': _next,
        'estimated_remaining_time': _remaining,
        'common_snapshots_count': _common,
        'latest_replicated_snapshot': lambda scope, row: replicas.live(
            scope, row['latest_replicated_snapshot']),
        'restored_snapshot': lambda scope, row: replicas.live(
            scope, row['restored_snapshot']),
        'replication_rpo_history':
            lambda scope, row: replicas.history_ref(row),
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a session, here and on the peer (row 1, REP-1)."""
        self._check_new(scope, values)
        group = scope.store.at(values['local_volume_group'])
        peer = scope.store.at(values['replication_peer_k2array'])
        wanted = _wanted_there(scope, values, group)
        made = peers.call(scope, peer, 'create', **wanted)
        row = pairing.insert_session(scope, {
            **{name: values[name] for name in _GIVEN},
            'remote_replication_session_name': wanted['name'],
            'remote_replication_session_id': made['session'],
            'target_exposure': wanted['exposure'], 'primary': True,
            'current_role': replicas.SOURCE, 'confirmed': True,
        }, wanted['group'], made['group'])
        for local, remote, name in made['volumes']:
            pairing.insert_pair(scope, row, local, remote, name)
        scope.context.touched.add(row['id'])
        return row

    def _check_new(self, scope: Scope, values: Row) -> None:
        self._check_name(scope, values['name'])
        _check_rpo(values['rpo'])
        if scope.behaviors.session_policies_required:
            for name in _POLICIES:
                if values[name] is None:
                    raise errors.refused(f'Missing required field: {name}')
        replicas.check_unbound(scope, values['local_volume_group'])

    def _check_name(self, scope: Scope, name: str, own_id: int = 0) -> None:
        """Names of sessions have the same limits as others (REP-7)."""
        base.check_name(name, scope.behaviors.name_limit)
        base.check_unique(scope, self.name, 'name', name, 'Session', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Change fields, then carry out the command if there is one."""
        self._check_change(scope, row, values)
        state = values.pop('state', None)
        restored = values.pop('restored_snapshot', None)
        kept = {name: value for name, value in values.items()
                if name not in _WITH_STATE}
        if kept.get('rpo', row['rpo']) != row['rpo'] and row['next_round']:
            kept['next_round'] = scope.now + kept['rpo']
        if kept:
            row = replicas.change(scope, row, **kept)
            scope.context.touched.add(row['id'])
        if state is None or (state == row['state']
                             and scope.behaviors.repeat_commands):
            return row
        return _command(scope, row, state, restored)

    def _check_change(self, scope: Scope, row: Row, values: Row) -> None:
        if scope.behaviors.session_name_required and 'name' not in values:
            raise errors.refused('Missing required field: name')
        if 'name' in values:
            self._check_name(scope, values['name'], row['id'])
        if 'rpo' in values:
            _check_rpo(values['rpo'])
        for name in _OF_SOURCE:
            if name in values and row['current_role'] != replicas.SOURCE:
                raise errors.refused(
                    f'{name} can be changed only on the source')
        if 'state' not in values and any(
                name in values for name in _WITH_STATE):
            raise errors.refused('Field state is missing')

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove an idle session on this side (row 9, REP-15)."""
        if row['state'] != replicas.IDLE:
            raise errors.refused(f'Session {row["name"]} is not idle')
        states.remove(scope, row)


def _check_rpo(rpo: int) -> None:
    """Refuse an invalid rpo (REP-4); clients rely on the text (ERR-7)."""
    if rpo != 60 and (rpo <= 0 or rpo % 300):
        raise errors.refused('rpo must be either 1 min or multiple of 5 min')


def _wanted_there(scope: Scope, values: Row, group: Row) -> dict[str, Any]:
    """The objects for the peer to create (REP-1, REP-3)."""
    prefix = f'dr_{scope.store.at("/system/state/1")["system_id"]}'
    volumes = []
    if values['auto_configure_peer_volumes']:
        volumes = [
            [volume['id'], f'{prefix}_{volume["name"]}', volume['size'],
             volume['vmware_support']]
            for volume in groups.volumes_of(
                scope, values['local_volume_group'])]
    return {
        'name': values['remote_replication_session_name']
        or f'remote_{values["name"]}',
        'group': values['replication_peer_volume_group_name']
        or f'{prefix}_{group["name"]}',
        'rpo': values['rpo'], 'is_dedup': group['is_dedup'],
        'exposure': values['target_exposure'] or scope.store.at(
            '/system/state/1')['replication_default_target_exposure'],
        'policies': [
            values[name] and scope.store.at(values[name])['name']
            for name in _POLICIES],
        'source_name': values['name'], 'source_group': group['id'],
        'source_group_name': group['name'], 'volumes': volumes}


def _command(scope: Scope, row: Row, state: str,
             restored: str | None) -> Row:
    """Rows 2 to 8 of section 10.4; anything else is refused."""
    command = _COMMANDS.get((row['current_role'], state))
    if command is None or restored is not None and (
            state != replicas.FAILED_OVER):
        raise errors.refused(
            f'Session {row["name"]} is a {row["current_role"]}')
    scope.context.touched.add(row['id'])
    return command(scope, row, restored)


def _need(row: Row, *allowed: str) -> None:
    if row['state'] not in allowed:
        raise errors.refused(f'Session {row["name"]} is not '
                             + ' or '.join(allowed))


def _call(scope: Scope, row: Row, kind: str) -> dict[str, Any]:
    """Ask the peer whether it can follow; returns its last generation."""
    peer = scope.store.at(row['replication_peer_k2array'])
    return peers.call(
        scope, peer, kind, session=row['remote_replication_session_id'],
        asker=row['id'], epoch=row['epoch'], sizes=_sizes(scope, row))


def _sizes(scope: Scope, row: Row) -> list[tuple[int, int]]:
    """The peer's ids of the volumes, with their sizes here (REP-5)."""
    sizes = []
    volumes = groups.volumes_of(scope, row['local_volume_group'])
    if not volumes:
        raise errors.refused(f'Session {row["name"]} has no volumes')
    for volume in volumes:
        pair = replicas.pair_of(
            scope, schema.make_ref('volumes', volume['id']))
        if pair is None:
            raise errors.refused(
                f'Volume {volume["name"]} has no peer volume')
        sizes.append((pair['remote_volume_id'], volume['size']))
    return sizes


def _start(scope: Scope, row: Row, restored: str | None) -> Row:
    """Rows 2 and 3: copy to the peer (REP-6)."""
    _need(row, replicas.IDLE, replicas.SUSPENDED)
    behaviors, new = scope.behaviors, row['state'] == replicas.IDLE
    there = _call(scope, row, 'follow')
    if new and behaviors.start_seconds > profiles.START_LIMIT:
        raise errors.refused('MC_ERR_START_TIMEOUT')
    seconds = behaviors.copy_seconds if new else behaviors.round_seconds
    row = replicas.change(scope, row, last_generation=max(
        row['last_generation'], there['last_generation']))
    if new and behaviors.start_seconds:
        return replicas.change(scope, row, pending={
            'own': True, 'due': scope.now + behaviors.start_seconds,
            'seconds': seconds})
    return states.start(scope, row, seconds)


def _suspend(scope: Scope, row: Row, restored: str | None) -> Row:
    """Row 4: suspend copying."""
    _need(row, replicas.IN_SYNC)
    return states.apply(
        scope, row, states.to(replicas.SUSPENDED, states.BY_USER))


def _stop(scope: Scope, row: Row, restored: str | None) -> Row:
    """Row 5: stop a suspended session."""
    _need(row, replicas.SUSPENDED)
    return states.apply(scope, row, states.to(replicas.IDLE))


def _fail_over(scope: Scope, row: Row, restored: str | None) -> Row:
    """Row 6: open the volumes to hosts, with a snapshot's data (REP-10)."""
    allowed = {'any': (replicas.IN_SYNC, replicas.SUSPENDED)}
    wanted = scope.behaviors.failed_over_from
    _need(row, *allowed.get(wanted, (wanted,)))
    restored = restored or replicas.live(
        scope, row['latest_replicated_snapshot'])
    if restored is None:
        raise errors.refused(f'Session {row["name"]} has no complete copy')
    snapshot = scope.store.at(restored)
    if (snapshot['source'] != row['local_volume_group']
            or not snapshot.get('is_exist_on_peer')):
        raise errors.refused(
            f'Snapshot {snapshot["name"]} was not replicated')
    transfers.fill(scope, restored)
    states.set_read_only(scope, row, False)
    return states.apply(scope, row, states.to(
        replicas.FAILED_OVER, opened=True, restored_snapshot=restored))


def _reverse(scope: Scope, row: Row, restored: str | None) -> Row:
    """Row 7: the roles swap, data flows back (REP-11)."""
    _need(row, replicas.FAILED_OVER)
    there = _call(scope, row, 'reverse')
    row = replicas.change(
        scope, row, current_role=replicas.SOURCE, opened=False,
        epoch=row['epoch'] + 1, last_generation=max(
            row['last_generation'], there['last_generation']))
    return states.start(scope, row, scope.behaviors.round_seconds)


def _leave(scope: Scope, row: Row, restored: str | None) -> Row:
    """Row 8: end the session on this side; the volumes stay open."""
    _need(row, replicas.FAILED_OVER)
    return states.apply(scope, row, states.to(replicas.IDLE))


_Command = Callable[[Scope, Row, str | None], Row]
_COMMANDS: dict[tuple[str, str], _Command] = {
    (replicas.SOURCE, replicas.IN_SYNC): _start,
    (replicas.SOURCE, replicas.SUSPENDED): _suspend,
    (replicas.SOURCE, replicas.IDLE): _stop,
    (replicas.TARGET, replicas.FAILED_OVER): _fail_over,
    (replicas.TARGET, replicas.IN_SYNC): _reverse,
    (replicas.TARGET, replicas.IDLE): _leave,
}


class PeerVolumeRules(base.Rules):
    """REP-1, REP-5: counterparts of volumes on the peer."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a volume on the peer, in an idle session's group."""
        session = _changeable(scope, values['replication_session'])
        ref = values['local_volume']
        volume = scope.store.at(ref)
        if volume['volume_group'] != session['local_volume_group']:
            raise errors.refused(f'Volume {volume["name"]} is not in the'
                                 f' group of session {session["name"]}')
        if replicas.pair_of(scope, ref) is not None:
            raise errors.refused(
                f'Volume {volume["name"]} has a peer volume already')
        base.check_name(values['name'], scope.behaviors.name_limit)
        made = peers.call(
            scope, scope.store.at(session['replication_peer_k2array']),
            'add_volume', session=session['remote_replication_session_id'],
            asker=session['id'], name=values['name'], size=volume['size'],
            vmware_support=volume['vmware_support'])
        scope.context.touched.add(session['id'])
        # The peer gets the new record with the next version of the session.
        replicas.change(scope, session)
        return pairing.insert_pair(
            scope, session, volume['id'], made['volume'], values['name'])

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename the volume on the peer."""
        if 'name' in values:
            session = scope.store.at(row['replication_session'])
            peers.call(
                scope, scope.store.at(session['replication_peer_k2array']),
                'rename', resource='volumes', asker=session['id'],
                number=row['remote_volume_id'], name=values['name'])
        return super().update(scope, row, values)

    def delete(self, scope: Scope, row: Row) -> None:
        """End the pair; the volume on the peer stays there."""
        session = _changeable(scope, row['replication_session'])
        replicas.change(scope, session)
        scope.context.touched.add(session['id'])
        super().delete(scope, row)


def _changeable(scope: Scope, ref: str) -> Row:
    session = scope.store.at(ref)
    if session['current_role'] != replicas.SOURCE:
        raise errors.refused(f'Session {session["name"]} is a target')
    _need(session, replicas.IDLE)
    return session


class PeerGroupRules(base.Rules):
    """The counterpart of a session's group, removed with the session."""

    computed = {
        'replication_session_id': lambda scope, row: schema.split_ref(
            row['replication_session'])[1],
        'fullname': lambda scope, row: '{}_{}'.format(
            scope.store.at(row['replication_peer_k2array'])['system_id'],
            row['name']),
        'capacity_state': lambda scope, row: 'ok',
        'logical_capacity': lambda scope, row: 0,
        'snapshots_logical_capacity': lambda scope, row: 0,
        'volumes_logical_capacity': lambda scope, row: 0,
    }

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename the group on the peer."""
        if 'name' in values:
            peers.call(
                scope, scope.store.at(row['replication_peer_k2array']),
                'rename', resource='volume_groups',
                asker=schema.split_ref(row['replication_session'])[1],
                number=row['remote_volume_group_id'], name=values['name'])
        return super().update(scope, row, values)

    def delete(self, scope: Scope, row: Row) -> None:
        """Refuse: the group exists as long as its session."""
        raise errors.refused(f'Group {row["name"]} is in a session')


RULES: tuple[base.Rules, ...] = (
    SessionRules(replication.SESSIONS),
    PeerVolumeRules(replication.PEER_VOLUMES),
    PeerGroupRules(replication.PEER_VOLUME_GROUPS))
