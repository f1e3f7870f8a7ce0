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

"""Volume groups and their restore: section 4.2."""

from collections.abc import Callable
from collections.abc import Iterable
import operator

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.rules import system
from k2_sim.state import catalogue
from k2_sim.state import hardware_resources
from k2_sim.state import schema
from k2_sim.state.schema import Row

VOLUMES_PER_GROUP = 32
_LEVELS = (('full', 'full_threshold'), ('critical', 'critical_threshold'),
           ('error', 'error_threshold'), ('warning', 'warning_threshold'))


def _ref(row: Row) -> str:
    return schema.make_ref('volume_groups', row['id'])


def volumes_of(scope: Scope, group: str) -> list[Row]:
    """The volumes and thin clones of a group."""
    return scope.store.find('volumes', 'volume_group', group)


def snapshots_of(scope: Scope, group: str) -> list[Row]:
    """The snapshots and views of a group."""
    return scope.store.find('snapshots', 'volume_group', group)


def provisioned(scope: Scope, group: str) -> int:
    """Sum of the sizes of a group's volumes, in KiB."""
    return sum(row['size'] for row in volumes_of(scope, group))


def check_room(scope: Scope, group: str, more: int,
               volumes: int = 0) -> None:
    """Refuse to add more to a group than it may have (VG-7, VOL-10, VOL-11).

    more: the KiB to add, checked against the quota. volumes: how many.
    """
    row = scope.store.at(group)
    if len(volumes_of(scope, group)) + volumes > VOLUMES_PER_GROUP:
        raise errors.refused(f'Volume group {row["name"]} is full')
    quota = row['quota']
    if quota is not None and provisioned(scope, group) + more > quota:
        raise errors.refused(
            f'Quota of volume group {row["name"]} exceeded')


def in_images(scope: Scope, volume: str) -> float:
    """The data in a volume's images that the volume no longer has, in KiB."""
    return float(sum(image.get('logical_capacity', 0) for image
                     in scope.store.find('volsnaps', 'source', volume)))


def _in_volumes(scope: Scope, row: Row) -> float:
    return float(sum(volume['logical_capacity']
                     for volume in volumes_of(scope, _ref(row))))


def _in_snapshots(scope: Scope, row: Row) -> float:
    return sum(in_images(scope, schema.make_ref('volumes', volume['id']))
               for volume in volumes_of(scope, _ref(row)))


def _written(scope: Scope, row: Row) -> float:
    return _in_volumes(scope, row) + _in_snapshots(scope, row)


def _capacity_state(scope: Scope, row: Row) -> str:
    """The state according to the thresholds of the policy (VG-11).

    Without a quota, the limit is the capacity of the array.
    """
    if row['capacity_policy'] is None:
        return 'ok'
    policy = scope.store.at(row['capacity_policy'])
    limit = row['quota'] or system.usable(scope)
    used = 100 * _written(scope, row) / limit
    return next((level for level, name in _LEVELS
                 if used >= policy[name]), 'ok')


def _overhead_state(scope: Scope, row: Row) -> str:
    """Whether snapshots have too large a share of the group (VG-11)."""
    written = _written(scope, row)
    if row['capacity_policy'] is None or not written:
        return 'ok'
    policy = scope.store.at(row['capacity_policy'])
    share = 100 * _in_snapshots(scope, row) / written
    return 'warning' if share >= policy['snapshot_overhead_threshold'] \
        else 'ok'


def _views(scope: Scope, row: Row) -> list[Row]:
    return [snapshot for snapshot in snapshots_of(scope, _ref(row))
            if snapshot['is_exposable']]


def _plain_snapshots(scope: Scope, row: Row) -> list[Row]:
    return [snapshot for snapshot in snapshots_of(scope, _ref(row))
            if not snapshot['is_exposable']]


def _mapped_hosts(scope: Scope, row: Row) -> int:
    """The number of hosts to which the group's objects are mapped (VG-8).

    Each host counts once, and a host group as its members.
    """
    mapped = [schema.make_ref('volumes', volume['id'])
              for volume in volumes_of(scope, _ref(row))]
    mapped += [schema.make_ref('snapshots', view['id'])
               for view in _views(scope, row)]
    hosts: set[str] = set()
    for ref in mapped:
        for mapping in scope.store.find('mappings', 'volume', ref):
            hosts.update(_members(scope, mapping['host']))
    return len(hosts)


def _members(scope: Scope, host: str) -> Iterable[str]:
    if schema.split_ref(host)[0] == base.HOSTS:
        return [host]
    return [schema.make_ref(base.HOSTS, row['id']) for row
            in scope.store.find(base.HOSTS, 'host_group', host)]


def _of_session(scope: Scope, row: Row,
                value: Callable[[Row], str]) -> str | None:
    session = replicas.session_of(scope, _ref(row))
    return None if session is None else value(session)


class GroupRules(base.Rules):
    """VG-1 to VG-11 and RST-1 to RST-4."""

    computed = {
        'last_restored_from': lambda scope, row: replicas.live(
            scope, row['last_restored_from']),
        'is_default': lambda scope, row: False,
        'capacity_state': _capacity_state,
        'snapshots_overhead_state': _overhead_state,
        'iscsi_tgt_converted_name': base.converted_name,
        'volumes_count': lambda scope, row: scope.store.count(
            'volumes', 'volume_group', _ref(row)),
        'snapshots_count':
            lambda scope, row: len(_plain_snapshots(scope, row)),
        'views_count': lambda scope, row: len(_views(scope, row)),
        'mapped_hosts_count': _mapped_hosts,
        'logical_capacity': _written,
        'volumes_logical_capacity': _in_volumes,
        'snapshots_logical_capacity': _in_snapshots,
        'volumes_provisioned_capacity':
            lambda scope, row: provisioned(scope, _ref(row)),
        'replication_session': lambda scope, row: _of_session(
            scope, row, replicas.session_ref),
        'replication_sessions': lambda scope, row: _of_session(
            scope, row, replicas.session_ref),
        'replication_peer_volume_group': lambda scope, row: _of_session(
            scope, row, operator.itemgetter(
                'replication_peer_volume_group')),
        'replication_rpo_history': lambda scope, row: _of_session(
            scope, row, replicas.history_ref),
    }

    def create(self, scope: Scope, values: Row) -> Row:
        """Create an empty group."""
        self._check_name(scope, values['name'])
        values['quota'] = _quota(values['quota'])
        return super().create(scope, {
            **values, 'creation_time': scope.now,
            'last_restored_from': None, 'last_restored_time': None,
            'last_snapshot_creation_time': None})

    def _check_name(self, scope: Scope, name: str, own_id: int = 0) -> None:
        base.check_name(name, scope.behaviors.name_limit)
        base.check_unique(
            scope, self.name, 'name', name, 'Volume group', own_id)

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Rename, limit, describe or restore a group."""
        source = values.pop('last_restored_from', None)
        if 'name' in values:
            self._check_name(scope, values['name'], row['id'])
        if 'quota' in values:
            values['quota'] = self._new_quota(scope, row, values['quota'])
        row = super().update(scope, row, values)
        if 'name' in values:
            _rename_snapshots(scope, row)
        return row if source is None else _restore(scope, row, source)

    def _new_quota(self, scope: Scope, row: Row,
                   quota: int | None) -> int | None:
        """The quota to store; refuses one below what is provisioned (VG-3)."""
        quota = _quota(quota)
        if quota is not None and quota < provisioned(scope, self.ref(row)):
            raise errors.refused(
                f'Quota of volume group {row["name"]} is below its size')
        return quota

    def delete(self, scope: Scope, row: Row) -> None:
        """Remove an empty group (VG-5, VG-6)."""
        ref = self.ref(row)
        if volumes_of(scope, ref) or snapshots_of(scope, ref):
            raise errors.refused(
                f'Volume group {row["name"]} is not empty')
        replicas.check_unbound(scope, ref)
        for schedule in scope.store.find(
                hardware_resources.SCHEDULES.name, 'volume_group', ref):
            scope.store.remove(hardware_resources.SCHEDULES.name,
                               schedule['id'])
        super().delete(scope, row)


def _quota(value: int | None) -> int | None:
    """0 means no quota and reads back as null (VG-2)."""
    if value is not None and value < 0:
        raise errors.refused('A quota cannot be negative')
    return value or None


def _rename_snapshots(scope: Scope, row: Row) -> None:
    """Names of existing snapshots follow the group's (VG-9)."""
    for snapshot in snapshots_of(scope, _ref(row)):
        rename_snapshot(scope, snapshot, row['name'])


def rename_snapshot(scope: Scope, snapshot: Row, group_name: str) -> Row:
    """Bring the names of a snapshot and its volsnaps in line (SNP-1)."""
    name = f'{group_name}:{snapshot["short_name"]}'
    snapshot = scope.store.update('snapshots', snapshot['id'], name=name)
    ref = schema.make_ref('snapshots', snapshot['id'])
    for volsnap in scope.store.find('volsnaps', 'snapshot', ref):
        scope.store.update('volsnaps', volsnap['id'],
                           name=f'{name}:{volsnap["short_name"]}')
    return snapshot


def _restore(scope: Scope, row: Row, source: str) -> Row:
    """Restore every volume of the group to a snapshot (RST-1 to RST-4)."""
    _check_restorable(scope, row, source)
    system.check_space(scope)
    stamp = {'last_restored_from': source, 'last_restored_time': scope.now}
    for image in scope.store.find('volsnaps', 'snapshot', source):
        _, number = schema.split_ref(image['source'])
        scope.store.update('volumes', number, **stamp,
                           content=replicas.content(image))
    return scope.store.update('volume_groups', row['id'], **stamp)


def _check_restorable(scope: Scope, row: Row, source: str) -> None:
    snapshot = scope.store.at(source)
    if snapshot['source'] != _ref(row):
        raise errors.refused(f'{snapshot["name"]} is not a snapshot of volume'
                             f' group {row["name"]} itself')
    volumes = volumes_of(scope, _ref(row))
    held = {volsnap['source']: volsnap['size'] for volsnap
            in scope.store.find('volsnaps', 'snapshot', source)}
    if held != {schema.make_ref('volumes', volume['id']): volume['size']
                for volume in volumes}:
        raise errors.refused(f'Volumes of volume group {row["name"]} have'
                             f' changed since {snapshot["name"]}')
    replicas.check_restore(scope, _ref(row))
    for volume in volumes:
        if base.is_mapped(scope, schema.make_ref('volumes', volume['id'])):
            raise errors.refused(f'Volume {volume["name"]} is mapped')


RULES: tuple[base.Rules, ...] = (GroupRules(catalogue.VOLUME_GROUPS),)
