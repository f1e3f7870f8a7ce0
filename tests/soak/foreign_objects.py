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

"""Objects on an array that do not belong to Cinder."""

from collections.abc import Iterator
import contextlib
import random
from typing import Any
import uuid

from tests import arrays

MIB = 1 << 20
# Children first.
RESOURCES = ('mappings', 'snapshots', 'host_iqns', 'host_fc_ports', 'hosts',
             'volumes', 'volume_groups')
# Fields of a host that change when Cinder maps volumes to it.
_VOLATILE = {'hosts': ('volumes_count', 'views_count')}


class ForeignObjects:
    """Objects that an administrator created on an array; they must not change.

    :param draw: random generator for names and numbers
    """

    def __init__(self, array: arrays.Served, draw: random.Random) -> None:
        self._array = array
        self._admin = array.admin
        self._draw = draw
        self._objects: dict[str, dict[int, Any]] = {
            name: {} for name in RESOURCES}
        self._numbers = 0

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Let the array behave normally for its administrator."""
        control = self._array.control
        before = control.behaviors()
        control.set_behaviors(full=False, create_reply='object')
        yield
        control.set_behaviors(
            full=before['full'], create_reply=before['create_reply'])
        self._refresh()

    def _make(self, resource: str, **fields: Any) -> Any:
        made = self._admin.create(resource, **fields)
        self._objects[resource][made['id']] = made
        return made

    def _name(self) -> tuple[str, str, str]:
        """Return names of a group, volume and snapshot; some like Cinder's."""
        self._numbers += 1
        if self._draw.random() < 0.5:
            key = str(uuid.UUID(int=self._draw.getrandbits(128), version=4))
            return f'cvg-{key}', f'cv-{key}', f'cs-{key}'
        return tuple(f'db{self._numbers}{kind}'  # type: ignore[return-value]
                     for kind in ('-g', '-v', '-s'))

    def add_volume(self, *, plain: bool = False) -> Any:
        """Create a volume in its own group.

        :param plain: without the snapshot and mapping that it may have
        """
        with self._at_work():
            return self._add_volume(plain)

    def _add_volume(self, plain: bool) -> Any:
        group_name, name, short_name = self._name()
        group = self._make('volume_groups', name=group_name, quota=0,
                           is_dedup=True)
        ref = {'ref': f'/volume_groups/{group["id"]}'}
        volume = self._make('volumes', name=name, size=MIB, volume_group=ref)
        if not plain and self._draw.random() < 0.5:
            policy = self._admin.list('retention_policies')[0]['id']
            self._make('snapshots', short_name=short_name, source=ref,
                       is_auto_deleteable=False, retention_policy={
                           'ref': f'/retention_policies/{policy}'})
        if not plain and self._draw.random() < 0.5:
            self._map(volume)
        return volume

    def _map(self, volume: Any) -> None:
        self._numbers += 1
        host = self._make('hosts', name=f'stranger-{self._numbers}',
                          type='Linux')
        ref = {'ref': f'/hosts/{host["id"]}'}
        self._make('host_iqns', host=ref, iqn='iqn.2001-01.com.example:'
                   f's{self._draw.getrandbits(40):x}')
        self._make('host_fc_ports', host=ref,
                   pwwn=f'2100{self._draw.getrandbits(48):012x}')
        self._make('mappings', host=ref,
                   volume={'ref': f'/volumes/{volume["id"]}'})

    def add_host(self, connector: dict[str, Any]) -> None:
        """Create a host with the initiators of one that Cinder uses."""
        with self._at_work():
            self._add_host(connector)

    def _add_host(self, connector: dict[str, Any]) -> None:
        self._numbers += 1
        host = self._make('hosts', name=f'by-hand-{self._numbers}',
                          type='Linux')
        ref = {'ref': f'/hosts/{host["id"]}'}
        self._make('host_iqns', host=ref, iqn=connector['initiator'])
        for wwpn in connector['wwpns']:
            self._make('host_fc_ports', host=ref, pwwn=wwpn)

    def remove_volume(self) -> None:
        """Delete a random volume and its other objects; ids get reused."""
        if not self._objects['volumes']:
            return
        key = self._draw.choice(sorted(self._objects['volumes']))
        volume = self._objects['volumes'][key]
        group = volume['volume_group']['ref']
        for resource, field, value in (
                ('mappings', 'volume', f'/volumes/{key}'),
                ('snapshots', 'source', group), ('volumes', 'id', key),
                ('volume_groups', 'id', int(group.rpartition('/')[2]))):
            for id, row in list(self._objects[resource].items()):
                found = row[field]
                if (found['ref'] if isinstance(found, dict)
                        else found) == value:
                    self._admin.delete(resource, id)
                    del self._objects[resource][id]
        self._refresh()

    def give(self, volume: Any) -> None:
        """Hand a plain volume and its group over to Cinder."""
        del self._objects['volumes'][volume['id']]
        group = int(volume['volume_group']['ref'].rpartition('/')[2])
        del self._objects['volume_groups'][group]

    # Invariants

    def changes(self) -> list[str]:
        """Return a description of each change to a foreign object."""
        found = []
        for resource, rows in self._objects.items():
            now = {row['id']: row for row in self._admin.list(resource)
                   if not row.get('is_deleted')}
            found += [f'{resource}/{id} {row}: {difference}'
                      for id, row in rows.items()
                      if (difference := _difference(
                          row, now.get(id), _VOLATILE.get(resource, ())))]
        return found

    def _refresh(self) -> None:
        """Update the expected state of all objects."""
        for resource, rows in self._objects.items():
            now = {row['id']: row for row in self._admin.list(resource)}
            rows.update({id: now[id] for id in rows})

    def left(self) -> dict[str, list[Any]]:
        """Return all other objects on the array, by resource."""
        return {resource: mine for resource, objects
                in self._array.control.leftovers().items()
                if (mine := [row for row in objects if row['id']
                             not in self._objects.get(resource, {})
                             and not (resource == 'host_auth_profiles'
                                      and row['hosts_count'])])}

    def clear(self) -> None:
        """Delete all foreign objects."""
        for resource in RESOURCES:
            for id in self._objects[resource]:
                self._admin.delete(resource, id)
            self._objects[resource].clear()


def _difference(before: Any, now: Any, volatile: tuple[str, ...]) -> str:
    if now is None:
        return 'is gone'
    return ', '.join(
        f'{name} is {now.get(name)}' for name, value in before.items()
        if name not in volatile and now.get(name) != value)
