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

"""Snapshots, views and volsnaps: sections 4.3 and 4.4."""

from collections.abc import Iterable
import itertools

import msgspec

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import events
from k2_sim.rules import groups
from k2_sim.rules import replicas
from k2_sim.rules import system
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row

_WEEK, _DAY, _HOUR = 7 * 86400, 86400, 3600


def volsnaps_in(scope: Scope, row: Row) -> list[Row]:
    """The volsnaps of a snapshot or view."""
    ref = schema.make_ref('snapshots', row['id'])
    return scope.store.find('volsnaps', 'snapshot', ref)


def _clones(scope: Scope, row: Row) -> int:
    ref = schema.make_ref('snapshots', row['id'])
    return scope.store.count('volumes', 'clone_snapshot', ref)


def _kind(row: Row) -> str:
    return 'View' if row['is_exposable'] else 'Snapshot'


class SnapshotRules(base.Rules):
    """SNP-1 to SNP-15, REP-13."""

    computed = {
        'is_deleted': lambda scope, row: False,
        'is_exist_on_peer':
            lambda scope, row: bool(row.get('is_exist_on_peer')),
        'iscsi_tgt_converted_name': base.converted_name,
        'triggered_by': lambda scope, row: row.get('triggered_by', 'api'),
        'volsnaps_provisioned_capacity': lambda scope, row: sum(
            volsnap['size'] for volsnap in volsnaps_in(scope, row)),
        'num_of_clones': _clones,
        'is_locked_by_replication': replicas.is_locked,
    }

    def offers(self, scope: Scope, method: str) -> bool:
        """Whether the array has a method; it may lack PATCH (SNP-10)."""
        if method == 'PATCH' and not scope.behaviors.snapshot_patch:
            return False
        return super().offers(scope, method)

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a snapshot of a group or a view, or a view."""
        system.check_space(scope)
        if values['replication_session'] is not None:
            return _replicated_by_user(scope, values)
        for field in ('short_name', 'source', 'retention_policy'):
            if values[field] is None:
                raise errors.refused(f'Missing required field: {field}')
        source = scope.store.at(values['source'])
        if schema.split_ref(values['source'])[0] == 'volume_groups':
            replicas.check_snapshot(scope, values['source'])
            group_ref, images = values['source'], _group_images(
                scope, values, source)
        else:
            group_ref, images = source['volume_group'], _parent_images(
                scope, values, source)
        name = self._checked_name(scope, group_ref, values['short_name'])
        row = _insert(scope, {
            **values, 'name': name, 'volume_group': group_ref}, images)
        retire(scope, row['retention_policy'], [row['volume_group']])
        return row

    def _checked_name(self, scope: Scope, group_ref: str, short_name: str,
                      own_id: int = 0) -> str:
        """The full name; short names are unique in a group (SNP-2)."""
        base.check_name(short_name, scope.behaviors.name_limit)
        name = f'{scope.store.at(group_ref)["name"]}:{short_name}'
        for row in scope.store.find(self.name, 'name', name):
            # With a colon in a name, two groups can have the same full name.
            if row['volume_group'] == group_ref and row['id'] != own_id:
                raise errors.refused(f'Snapshot {name} already exists')
        return name

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename a snapshot or change its retention (SNP-10)."""
        group = scope.store.at(row['volume_group'])
        short_name = _new_short_name(row, values, group['name'])
        row = super().update(
            scope, row, {**values, 'short_name': short_name})
        self._checked_name(
            scope, row['volume_group'], short_name, row['id'])
        return groups.rename_snapshot(scope, row, group['name'])

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a snapshot or view without dependents (SNP-9, CLN-4).

        Its volsnaps are removed with it.
        """
        reason = why_kept(scope, row)
        if reason:
            raise errors.refused(f'{_kind(row)} {row["name"]} {reason}')
        remove(scope, row)


def _insert(scope: Scope, values: Row, images: list[Row]) -> Row:
    row = scope.store.insert('snapshots', {
        **values, 'creation_time': scope.now, 'last_exposed_time': None})
    for image in images:
        _insert_volsnap(scope, row, image)
    _stamp_group(scope, row)
    return row


def make_replicated(scope: Scope, session: Row, generation: int,
                    images: list[Row] | None = None,
                    **fields: object) -> Row:
    """Create a snapshot of a session's group with an internal name.

    images: its data; the current data of the group if None.
    """
    group_ref = session['local_volume_group']
    name = scope.store.at(group_ref)['name']
    if images is None:
        images = _volume_images(scope, group_ref)
    short_name = _own_name(scope, name)
    return _insert(scope, {
        'short_name': short_name, 'name': f'{name}:{short_name}',
        'source': group_ref, 'volume_group': group_ref,
        'retention_policy': None, 'is_auto_deleteable': False,
        'is_exposable': False, 'is_application_consistent': None,
        'replication_session': replicas.session_ref(session),
        'generation_number': generation, **fields}, images)


def _own_name(scope: Scope, group_name: str) -> str:
    """The next free internal short name."""
    first = scope.store.counters.get('snapshots', 0) + 1
    return next(
        name for name in map('repl-{}'.format, itertools.count(first))
        if not scope.store.count(
            'snapshots', 'name', f'{group_name}:{name}'))


def _replicated_by_user(scope: Scope, values: Row) -> Row:
    """Create a replication snapshot (REP-13).

    The array chooses its name and its generation number.
    """
    session = scope.store.at(values['replication_session'])
    for field in ('short_name', 'retention_policy', 'is_exposable'):
        if values[field]:
            raise errors.refused(
                f'A replication snapshot does not take {field}')
    if values['source'] not in (None, session['local_volume_group']):
        raise errors.refused(
            f'Session {session["name"]} is of another volume group')
    if (session['current_role'], session['state']) != (
            replicas.SOURCE, replicas.IN_SYNC):
        raise errors.refused(
            f'Session {session["name"]} is not a source in sync')
    row = make_replicated(
        scope, session, session['last_generation'] + 1,
        is_application_consistent=bool(values['is_application_consistent']))
    replicas.enqueue(scope, session, row,
                     scope.behaviors.snapshot_seconds, user=True)
    scope.context.touched.add(session['id'])
    return row


def why_kept(scope: Scope, row: Row) -> str:
    """Why a snapshot cannot be removed, or ''."""
    if replicas.is_locked(scope, row):
        return 'is locked by replication'
    return why_used(scope, row)


def why_used(scope: Scope, row: Row) -> str:
    """How a snapshot or view is in use, or ''."""
    ref = schema.make_ref('snapshots', row['id'])
    if base.is_mapped(scope, ref):
        return 'is mapped'
    if scope.store.count('snapshots', 'source', ref):
        return 'has snapshots' if row['is_exposable'] else 'has views'
    return 'has thin clones' if _clones(scope, row) else ''


def remove(scope: Scope, row: Row) -> None:
    """Remove a snapshot with its volsnaps; list it for a while."""
    gone: list[tuple[base.Rules, Row]] = [(_SNAPSHOTS, row)]
    gone += [(_VOLSNAPS, volsnap) for volsnap in volsnaps_in(scope, row)]
    for rules, item in gone:
        reply = rules.render(scope, item)
        scope.deleted.append((rules.name, {**reply, 'is_deleted': True}))
    for rules, item in gone:
        scope.store.remove(rules.name, item['id'])


def _group_images(scope: Scope, values: Row, group: Row) -> list[Row]:
    """One image per volume of the group (SNP-6, SNP-11, SNP-12)."""
    if values['is_exposable']:
        raise errors.refused('A view needs a snapshot as its source')
    if not groups.volumes_of(scope, values['source']):
        raise errors.refused(f'Volume group {group["name"]} has no volumes')
    return _volume_images(scope, values['source'])


def _volume_images(scope: Scope, group_ref: str) -> list[Row]:
    volumes = groups.volumes_of(scope, group_ref)
    frozen = scope.context.frozen(map(replicas.content, volumes))
    return [{'source': schema.make_ref('volumes', volume['id']),
             'size': volume['size'], 'short_name': volume['name'],
             'content': frozen[replicas.content(volume)]}
            for volume in volumes]


def _parent_images(scope: Scope, values: Row, source: Row) -> list[Row]:
    """New images with the data of the source (SNP-7, SNP-11, VSN-3, VSN-4)."""
    if source['is_exposable'] and values['is_exposable']:
        raise errors.refused('The source is itself a view')
    if not source['is_exposable'] and not values['is_exposable']:
        raise errors.refused('A snapshot of a snapshot must be a view')
    images = volsnaps_in(scope, source)
    frozen = scope.context.frozen(map(replicas.content, images))
    return [{**{name: image[name]
                for name in ('source', 'size', 'short_name')},
             'content': frozen[replicas.content(image)]}
            for image in images]


def _insert_volsnap(scope: Scope, row: Row, image: Row) -> None:
    scope.store.insert('volsnaps', {
        **image, 'name': f'{row["name"]}:{image["short_name"]}',
        'snapshot': schema.make_ref('snapshots', row['id']),
        'is_exposable': row['is_exposable'],
        'creation_time': scope.now, **base.next_scsi(scope)})


def _stamp_group(scope: Scope, row: Row) -> None:
    if not row['is_exposable']:
        _, number = schema.split_ref(row['volume_group'])
        scope.store.update('volume_groups', number,
                           last_snapshot_creation_time=scope.now)


def _new_short_name(row: Row, values: Row, group_name: str) -> str:
    """The new short name in a PATCH, from either of the two fields."""
    short_name = str(values.get('short_name', row['short_name']))
    if 'name' not in values:
        return short_name
    prefix, colon, rest = values['name'].partition(f'{group_name}:')
    if prefix or not colon or rest != values.get('short_name', rest):
        raise errors.refused(f'Name must begin with {group_name}:')
    return str(rest)


def retire(scope: Scope, policy: str, group_refs: Iterable[str]) -> None:
    """Remove snapshots beyond the number of a policy (RET-2)."""
    kept = scope.store.at(policy)['num_snapshots']
    if not kept:
        return
    # An action of the array itself, whichever user triggered it.
    own = msgspec.structs.replace(scope, login='')
    for group in group_refs:
        same = [row for row in groups.snapshots_of(scope, group)
                if row['retention_policy'] == policy
                and row['is_auto_deleteable']]
        for old in same[:-kept]:
            if not why_kept(scope, old):
                remove(scope, old)
                events.record_retired(own, old)


def groups_with(scope: Scope, policy: str) -> list[str]:
    """The groups that have snapshots with a retention policy."""
    return list(dict.fromkeys(row['volume_group'] for row in scope.store.find(
        'snapshots', 'retention_policy', policy)))


def due(scope: Scope, row: Row) -> float | None:
    """When an auto-deletable snapshot expires (RET-2); None for never.

    Snapshots of replication have no policy, and no age limit.
    """
    if not row['is_auto_deleteable'] or row['retention_policy'] is None:
        return None
    policy = scope.store.at(row['retention_policy'])
    age = (policy['weeks'] * _WEEK + policy['days'] * _DAY
           + policy['hours'] * _HOUR)
    return row['creation_time'] + age if age > 0 else None


def next_deletable(scope: Scope) -> Row | None:
    """The oldest snapshot or view that the array may delete (SNP-4)."""
    return next((row for row in scope.store.find(
        'snapshots', 'is_auto_deleteable', True)
        if not why_kept(scope, row)), None)


class VolsnapRules(base.Rules):
    """VSN-1 to VSN-4: created and removed with their snapshot."""

    computed = {
        'is_deleted': lambda scope, row: False,
        'iscsi_tgt_converted_name': base.converted_name,
    }


_SNAPSHOTS = SnapshotRules(catalogue.SNAPSHOTS)
_VOLSNAPS = VolsnapRules(catalogue.VOLSNAPS)
RULES: tuple[base.Rules, ...] = (_SNAPSHOTS, _VOLSNAPS)
