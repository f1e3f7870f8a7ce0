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

"""Volumes and thin clones: section 4.1."""

from typing import Any

from k2_sim import equipment
from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import groups
from k2_sim.rules import replicas
from k2_sim.rules import system
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row

CTRL_ID = 1
_CLONE_FIELDS = ('is_thin_clone', 'source_snapshot', 'source_volume')
_STORED = ('name', 'size', 'volume_group', 'description', 'read_only',
           'vmware_support')


def _is_dedup(scope: Scope, row: Row) -> bool:
    """The is_dedup of the group; the internal volume is in no group."""
    if row['volume_group'] is None:
        return False
    return bool(scope.store.at(row['volume_group'])['is_dedup'])


def _peer_volume(scope: Scope, row: Row) -> str | None:
    pair = replicas.pair_of(scope, schema.make_ref('volumes', row['id']))
    return (None if pair is None
            else schema.make_ref(replicas.PAIRS, pair['id']))


def _replication_stats(scope: Scope, row: Row) -> str | None:
    if replicas.session_of(scope, row['volume_group']) is None:
        return None
    return f'/replication/stats/volumes/{row["id"]}'


def volsnaps_of(scope: Scope, ref: str) -> list[Row]:
    """The images of a volume in live snapshots and views."""
    return scope.store.find('volsnaps', 'source', ref)


def new_row(scope: Scope, values: Row) -> Row:
    """The row of a new volume, from its values."""
    return {
        'read_only': False, 'vmware_support': False, 'description': None,
        **values, **base.next_scsi(scope),
        'creation_time': scope.now, 'logical_capacity': 0.0,
        'avg_compressed_ratio_timestamp': 0.0, 'last_restored_from': None,
        'last_restored_time': None}


class VolumeRules(base.Rules):
    """VOL-1 to VOL-17 and CLN-1 to CLN-7."""

    computed = {
        'last_restored_from': lambda scope, row: replicas.live(
            scope, row['last_restored_from']),
        'is_dedup': _is_dedup,
        'iscsi_tgt_converted_name': base.converted_name,
        'snapshots_logical_capacity': lambda scope, row: groups.in_images(
            scope, schema.make_ref('volumes', row['id'])),
        'stream_avg_compressed_size_in_bytes':
            lambda scope, row: row.get('compressed', 0.0),
        'dedup_source': lambda scope, row: 0,
        'dedup_target': lambda scope, row: 0,
        'no_dedup': lambda scope, row: 0,
        'current_stats':
            lambda scope, row: f'/stats/volumes/{row["id"]}',
        'current_replication_stats': _replication_stats,
        'replication_peer_volume': _peer_volume,
        'is_new': lambda scope, row: False,
        'marked_for_deletion': lambda scope, row: False,
        'node_id': lambda scope, row: 1 + row['id'] % equipment.NODES,
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create a volume, or a thin clone when its fields are given."""
        cloned = {name: values.pop(name, None) for name in _CLONE_FIELDS}
        if any(cloned.values()):
            values = _clone_values(scope, values, cloned)
        elif values['size'] is None:
            raise errors.refused('Missing required field: size')
        replicas.check_new_member(scope, values['volume_group'])
        return self.make(scope, values)

    def make(self, scope: Scope, values: Row) -> Row:
        """Create a volume, after checks of names, size and space."""
        base.check_name(values['name'], scope.behaviors.name_limit)
        base.check_unique(
            scope, self.name, 'name', values['name'], 'Volume')
        _check_size(values['size'])
        system.check_space(scope)
        groups.check_room(
            scope, values['volume_group'], values['size'], volumes=1)
        given = {name: value for name, value in values.items()
                 if value is not None}
        return scope.store.insert(self.name, new_row(scope, given))

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename, grow, move, describe or write-protect a volume."""
        _check_user_volume(row)
        if 'name' in values:
            base.check_name(values['name'], scope.behaviors.name_limit)
            base.check_unique(scope, self.name, 'name', values['name'],
                              'Volume', row['id'])
        self._check_growth(scope, row, values)
        if values.get('read_only') is False:
            replicas.check_writable(scope, row)
        row = super().update(scope, row, values)
        if 'name' in values:
            for volsnap in volsnaps_of(scope, self.ref(row)):
                rename_volsnap(scope, volsnap)
        return row

    def _check_growth(self, scope: Scope, row: Row, values: Row) -> None:
        """Check the new size in the new group (VOL-2, VOL-10, VOL-11)."""
        new = {**row, **values}
        size, group = new['size'], new['volume_group']
        if size < row['size']:
            raise errors.refused('Volume size cannot be decreased')
        if size > row['size']:
            system.check_space(scope)
            replicas.check_growth(scope, row['volume_group'])
        if group != row['volume_group']:
            self._check_move(scope, row, group)
            groups.check_room(scope, group, size, volumes=1)
        else:
            groups.check_room(scope, group, size - row['size'])

    def _check_move(self, scope: Scope, row: Row, group: str) -> None:
        """Check a move: VOL-10, and CLN-7 unless clones are movable."""
        ref, old = self.ref(row), scope.store.at(row['volume_group'])
        if row.get('clone_volume') and not scope.behaviors.clones_movable:
            raise errors.refused(
                'A thin clone cannot leave its volume group')
        # A volume with thin clones is in the snapshot they came from.
        if volsnaps_of(scope, ref):
            raise errors.refused(f'Volume {row["name"]} has snapshots in'
                                 f' volume group {old["name"]}')
        if scope.store.at(group)['is_dedup'] != old['is_dedup']:
            raise errors.refused('The volume groups differ in is_dedup')
        replicas.check_unbound(scope, row['volume_group'], group)

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove a volume that nothing depends on (VOL-6, VOL-7)."""
        _check_user_volume(row)
        ref = self.ref(row)
        if base.is_mapped(scope, ref):
            raise errors.refused(f'Volume {row["name"]} is mapped')
        if scope.store.count(self.name, 'clone_volume', ref):
            raise errors.refused(f'Volume {row["name"]} has thin clones')
        if volsnaps_of(scope, ref):
            raise errors.refused(f'Volume {row["name"]} has snapshots')
        replicas.check_removal(scope, row)
        if scope.behaviors.delete_seconds:
            scope.deleted.append((self.name, {
                **self.render(scope, row), 'marked_for_deletion': True}))
        scope.store.remove(self.name, row['id'])


def _check_user_volume(row: Row) -> None:
    if row['id'] == CTRL_ID:
        raise errors.refused('Volume CTRL is internal')


def _check_size(size: int) -> None:
    if size <= 0:
        raise errors.refused('Volume size must be positive')


def _clone_values(scope: Scope, values: Row, cloned: Row) -> Row:
    """The values of a thin clone, from its source (CLN-1, CLN-2, CLN-6)."""
    for name in _CLONE_FIELDS:
        if not cloned[name]:
            raise errors.refused(f'A thin clone needs the field {name}')
    for name in ('size', 'vmware_support', 'description', 'read_only'):
        if values[name] is not None:
            raise errors.refused(f'A thin clone does not take {name}')
    source = scope.store.at(cloned['source_volume'])
    image = _source_image(scope, values, cloned)
    return {**values, 'size': image['size'],
            'vmware_support': source['vmware_support'],
            'description': f'Clone of volume {source["name"]}',
            'content': replicas.content(image),
            'clone_snapshot': cloned['source_snapshot'],
            'clone_volume': cloned['source_volume']}


def _source_image(scope: Scope, values: Row, cloned: Row) -> dict[str, Any]:
    snapshot = scope.store.at(cloned['source_snapshot'])
    if snapshot['is_exposable']:
        raise errors.refused('A thin clone cannot be made from a view')
    if snapshot['volume_group'] != values['volume_group']:
        raise errors.refused(
            'A thin clone must be in the volume group of its snapshot')
    for image in volsnaps_of(scope, cloned['source_volume']):
        if image['snapshot'] == cloned['source_snapshot']:
            return image
    raise errors.refused(
        f'Snapshot {snapshot["name"]} does not hold this volume')


def rename_volsnap(scope: Scope, volsnap: Row) -> None:
    """Bring a volsnap's names in line with its volume and snapshot."""
    snapshot = scope.store.at(volsnap['snapshot'])
    volume = scope.store.at(volsnap['source'])
    scope.store.update('volsnaps', volsnap['id'], short_name=volume['name'],
                       name=f'{snapshot["name"]}:{volume["name"]}')


RULES: tuple[base.Rules, ...] = (VolumeRules(catalogue.VOLUMES),)
