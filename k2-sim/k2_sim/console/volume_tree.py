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

"""Volume groups as a tree: volumes, snapshots, their views and clones."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from k2_sim.rules.base import Scope
from k2_sim.rules import groups
from k2_sim.state.schema import make_ref
from k2_sim.state.schema import Row

GROUPS, VOLUMES, SNAPSHOTS = 'volume_groups', 'volumes', 'snapshots'
# Limit of objects shown per group; a search finds the rest.
KIDS_SHOWN = 200
# A resource and one of its rows.
Item = tuple[str, Row]


class VolumeTree:
    """The tree as expanded by one user.

    search: part of a name; matches are shown with their parents. opened:
    references of expanded objects.
    """

    def __init__(self, scope: Scope, search: str = '',
                 opened: Iterable[str] = ()) -> None:
        self._scope = scope
        self._opened = frozenset(opened)
        self._wanted = _wanted(scope, search.lower()) if search else None

    def groups(self) -> list[Row]:
        """The groups to be shown, by id."""
        rows = self._scope.store.rows(GROUPS)
        if self._wanted is None:
            return rows
        return [row for row in rows
                if make_ref(GROUPS, row['id']) in self._wanted]

    def nodes(self, tops: Iterable[Row]) -> list[dict[str, Any]]:
        """The visible objects of groups, each after its parent."""
        found: list[dict[str, Any]] = []
        for row in tops:
            found.extend(self._below((GROUPS, row), 1))
        return found

    def _below(self, item: Item, level: int) -> Iterator[dict[str, Any]]:
        resource, row = item
        ref = make_ref(resource, row['id'])
        children = list(_children(self._scope, item))
        shown = children if ref in self._opened else self._matching(children)
        yield {'ref': ref, 'level': level, 'name': _name(item),
               'open': bool(shown) if children else None,
               **_facts(self._scope, item, ref)}
        for kid in shown[:KIDS_SHOWN]:
            yield from self._below(kid, level + 1)
        if len(shown) > KIDS_SHOWN:
            yield {'ref': f'{ref}/more', 'level': level + 1, 'kind': 'more',
                   'name': f'{len(shown) - KIDS_SHOWN} more; search to see'
                           ' them', 'open': None}

    def _matching(self, items: list[Item]) -> list[Item]:
        if self._wanted is None:
            return []
        return [(resource, row) for resource, row in items
                if make_ref(resource, row['id']) in self._wanted]


def _name(item: Item) -> str:
    """The name; a short one for snapshots, as the tree shows the rest."""
    resource, row = item
    return str(row['short_name' if resource == SNAPSHOTS else 'name'])


def _wanted(scope: Scope, text: str) -> set[str]:
    """Objects with the text in their name, and their parents."""
    found: set[str] = set()
    for resource in (GROUPS, VOLUMES, SNAPSHOTS):
        for row in scope.store.rows(resource):
            if text in _name((resource, row)).lower():
                _add_line(scope, found, resource, row)
    return found


def _add_line(scope: Scope, found: set[str], resource: str,
              row: Row) -> None:
    """Add an object and its parents."""
    above = _above(scope, resource, row)
    ref = make_ref(resource, row['id'])
    while ref not in found:
        found.add(ref)
        if above is None:
            return
        ref = above
        resource = ref[1:].rpartition('/')[0]
        above = _above(scope, resource, scope.store.at(ref))


def _above(scope: Scope, resource: str, row: Row) -> str | None:
    """The parent of an object; None for a group, and for CTRL."""
    if resource == GROUPS:
        return None
    if resource == SNAPSHOTS:
        return str(row['source'])
    if _is_with_snapshot(scope, row):
        return str(row['clone_snapshot'])
    group: str | None = row['volume_group']
    return group


def _is_with_snapshot(scope: Scope, volume: Row) -> bool:
    """Whether it is a thin clone in the group of its snapshot (CLN-7)."""
    ref = volume.get('clone_snapshot')
    return (ref is not None and scope.store.exists(ref) and
            scope.store.at(ref)['volume_group'] == volume['volume_group'])


def _children(scope: Scope, item: Item) -> Iterator[Item]:
    """The direct children, volumes first."""
    resource, row = item
    ref = make_ref(resource, row['id'])
    if resource == GROUPS:
        for volume in groups.volumes_of(scope, ref):
            if not _is_with_snapshot(scope, volume):
                yield VOLUMES, volume
    elif resource == SNAPSHOTS:
        for volume in scope.store.find(VOLUMES, 'clone_snapshot', ref):
            if _is_with_snapshot(scope, volume):
                yield VOLUMES, volume
    if resource != VOLUMES:
        for snapshot in scope.store.find(SNAPSHOTS, 'source', ref):
            yield SNAPSHOTS, snapshot


def _facts(scope: Scope, item: Item, ref: str) -> dict[str, Any]:
    """kind, size and written in KiB, hosts it is mapped to, and counts."""
    resource, row = item
    if resource == GROUPS:
        members = groups.volumes_of(scope, ref)
        return {'kind': 'group', 'size': groups.provisioned(scope, ref),
                'written': sum(one['logical_capacity'] for one in members),
                'mapped': [], 'volumes': len(members),
                'snapshots': len(groups.snapshots_of(scope, ref))}
    facts = {'mapped': mapped_to(scope, ref), 'time': row['creation_time']}
    if resource == VOLUMES:
        is_clone = row.get('clone_volume') is not None
        return {**facts, 'kind': 'clone' if is_clone else 'volume',
                'size': row['size'], 'written': row['logical_capacity']}
    images = scope.store.find('volsnaps', 'snapshot', ref)
    return {**facts, 'kind': 'view' if row['is_exposable'] else 'snapshot',
            'size': sum(image['size'] for image in images)}


def mapped_to(scope: Scope, ref: str) -> list[str]:
    """Names of the hosts and host groups that something is mapped to."""
    return [scope.store.at(row['host'])['name'] for row
            in scope.store.find('mappings', 'volume', ref)]
