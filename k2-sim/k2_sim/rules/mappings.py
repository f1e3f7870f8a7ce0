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

"""Mappings: section 4.5.

A view has one entry for itself, without a LUN, and one for each of its
volsnaps (MAP-3). The latter have the id of the former in view_entry, a field
that no reply shows.
"""

from collections.abc import Iterable
import itertools

from k2_sim import errors
from k2_sim.rules import base
from k2_sim.rules.base import Scope
from k2_sim.rules import replicas
from k2_sim.rules import snapshots
from k2_sim.rules import volumes
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row

LUNS = range(1, 255)


def _label(scope: Scope, ref: str) -> str:
    """The name of a host, group, volume or view in error messages."""
    resource = schema.split_ref(ref)[0]
    kind = {'hosts': 'host', 'host_groups': 'host group',
            'snapshots': 'view'}.get(resource, 'volume')
    return f'{kind} {scope.store.at(ref)["name"]}'


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _used_luns(scope: Scope, host: str, volume: str) -> dict[int, str]:
    """The LUNs that a volume cannot have on a host, each with its host.

    With one LUN map for all hosts, this includes the LUNs of other volumes
    on any host.
    """
    rows = scope.store.find('mappings', 'host', host)
    if scope.behaviors.one_lun_map:
        rows += [row for row in scope.store.rows('mappings')
                 if row['volume'] != volume]
    return {row['lun']: row['host'] for row in reversed(rows)
            if row['lun'] is not None}


def _free_lun(scope: Scope, host: str, volume: str,
              wanted: int | None = None) -> int:
    """The wanted LUN if it is free, else the lowest free one (MAP-2).

    With one LUN map for all hosts, the LUN that the volume has on another
    host precedes the lowest free one.
    """
    used = _used_luns(scope, host, volume)
    candidates: list[int] = [] if wanted is None else [wanted]
    if scope.behaviors.one_lun_map:
        candidates += [row['lun'] for row in scope.store.find(
            'mappings', 'volume', volume)]
    for lun in itertools.chain(candidates, LUNS):
        if lun not in used:
            return lun
    raise errors.refused(f'No free LUN on {_label(scope, host)}')


def _check_host(scope: Scope, host: str) -> None:
    """Refuse to map to a single member of a host group (MAP-6)."""
    if scope.store.at(host).get('host_group') is not None:
        raise errors.refused(f'{_capital(_label(scope, host))} is a member'
                             ' of a host group')


def _check_volume(scope: Scope, ref: str) -> None:
    """Refuse to map anything but volumes and views (SNP-8, MAP-13)."""
    resource, number = schema.split_ref(ref)
    row = scope.store.at(ref)
    if resource == 'volsnaps':
        raise errors.refused('A volsnap is mapped with its view')
    if resource == 'volumes' and number == volumes.CTRL_ID:
        raise errors.refused('Volume CTRL cannot be mapped')
    if resource == 'snapshots' and not row['is_exposable']:
        raise errors.refused(f'Snapshot {row["name"]} is not exposable')
    if resource == 'volumes':
        replicas.check_mapping(scope, row)


def _check_new(scope: Scope, host: str, volume: str) -> None:
    """Refuse to map a volume to the same host twice (MAP-8)."""
    for row in scope.store.find('mappings', 'volume', volume):
        if row['host'] == host:
            raise errors.refused(f'{_capital(_label(scope, volume))} is'
                                 f' already mapped to {_label(scope, host)}')


class MappingRules(base.Rules):
    """MAP-1 to MAP-13."""

    def create(self, scope: Scope, values: Row) -> Row:
        """Map a volume or a view to a host or a host group."""
        _check_host(scope, values['host'])
        _check_volume(scope, values['volume'])
        _check_new(scope, values['host'], values['volume'])
        if schema.split_ref(values['volume'])[0] == 'snapshots':
            return self._map_view(scope, values)
        lun = _free_lun(scope, values['host'], values['volume'])
        return super().create(scope, {**values, 'lun': lun})

    def _map_view(self, scope: Scope, values: Row) -> Row:
        """One entry for the view, one per volsnap (MAP-3, SNP-15)."""
        entry = super().create(scope, {**values, 'lun': None})
        view = scope.store.at(values['volume'])
        for volsnap in snapshots.volsnaps_in(scope, view):
            ref = schema.make_ref('volsnaps', volsnap['id'])
            super().create(scope, {
                **values, 'lun': _free_lun(scope, values['host'], ref),
                'volume': ref, 'view_entry': entry['id']})
        scope.store.update(
            'snapshots', view['id'], last_exposed_time=scope.now)
        return entry

    def _parts(self, scope: Scope, row: Row) -> Iterable[Row]:
        return scope.store.find(self.name, 'view_entry', row['id'])

    def update(self, scope: Scope, row: Row, values: Row) -> Row:
        """Change the LUN (MAP-9) or move to another host (MAP-11)."""
        _check_alone(row)
        if values.get('host', row['host']) != row['host']:
            row = self._move(scope, row, values['host'])
        if 'lun' in values:
            row = self._set_lun(scope, row, values['lun'])
        return row

    def _move(self, scope: Scope, row: Row, host: str) -> Row:
        _check_host(scope, host)
        _check_new(scope, host, row['volume'])
        for entry in (row, *self._parts(scope, row)):
            lun = entry['lun']
            if lun is not None:
                lun = _free_lun(scope, host, entry['volume'], lun)
            scope.store.update(self.name, entry['id'], host=host, lun=lun)
        return scope.store.at(self.ref(row))

    def _set_lun(self, scope: Scope, row: Row, lun: int) -> Row:
        if row['lun'] is None:
            raise errors.refused('The entry of a view has no LUN')
        if lun not in LUNS:
            raise errors.refused('LUN out of range')
        used = _used_luns(scope, row['host'], row['volume'])
        if lun != row['lun'] and lun in used:
            raise errors.refused(
                f'LUN {lun} is in use on {_label(scope, used[lun])}')
        return scope.store.update(self.name, row['id'], lun=lun)

    def delete(self, scope: Scope, row: Row) -> None:
        """Unmap; the entries of a view's volsnaps go with it (MAP-4)."""
        _check_alone(row)
        for part in self._parts(scope, row):
            super().delete(scope, part)
        super().delete(scope, row)


def _check_alone(row: Row) -> None:
    if row.get('view_entry') is not None:
        raise errors.refused('This entry belongs to the mapping of a view')


RULES: tuple[base.Rules, ...] = (MappingRules(catalogue.MAPPINGS),)
