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

"""Compares the volumes and snapshots of Cinder with those of the array."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

from tools.cloud import console

KIB_PER_GIB = 1048576
INTERNAL_VOLUME = 'CTRL'
HEAD = ('Cinder', 'id', 'GiB', 'dedup', 'attached', '|', 'array', 'GiB',
        'dedup', 'mapped', 'verdict')
MATCH = 'match'

Objects = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume as Cinder has it; size in GiB, hosts by name."""

    id: str
    name: str
    size: int
    dedup: bool
    hosts: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A snapshot as Cinder has it; size in GiB."""

    id: str
    name: str
    size: int
    volume_id: str


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; no problems means that both sides agree."""

    cinder: tuple[str, str, str, str, str]
    array: tuple[str, str, str, str]
    problems: tuple[str, ...] = ()
    note: str = MATCH

    @property
    def cells(self) -> tuple[str, ...]:
        """The line's texts, in the order of HEAD."""
        verdict = '; '.join(self.problems) or self.note
        return (*self.cinder, '|', *self.array, verdict)


NOTHING = ('-', '', '', '')
ABSENT = ('-', '', '', '', '')


def yes_no(flag: object) -> str:
    """Format a boolean."""
    return 'yes' if flag else 'no'


def short(name: str) -> str:
    """Shorten the id in an object's name to its first eight digits."""
    head, _, tail = name.partition('-')
    return f'{head}-{tail[:8]}..' if len(tail) > 10 else name


class ArrayState:
    """The array's objects, with their references resolved."""

    def __init__(self, objects: Mapping[str, Objects],
                 connectors: Iterable[Mapping[str, Any]] = ()) -> None:
        """Store the array's objects by resource.

        :param connectors: hosts that Cinder knows; a host of the array with
            exactly the same initiators gets the same name
        """
        self.objects = objects
        self._names = {initiators(connector): str(connector['host'])
                       for connector in connectors}

    def live_snapshots(self) -> list[Mapping[str, Any]]:
        """Return the snapshots, without deleted ones still listed (QRY-10)."""
        return [snapshot for snapshot in self.objects['snapshots']
                if not snapshot.get('is_deleted')]

    def group_name(self, ref: Mapping[str, str]) -> str:
        """Return the name of the volume group that a reference names."""
        return str(self._by_ref('volume_groups', ref)['name'])

    def mapped_hosts(self, volume_id: int) -> frozenset[str]:
        """Return the names of the hosts that have a mapping of the volume."""
        return frozenset(
            self.host_name(self._by_ref('hosts', mapping['host']))
            for mapping in self.objects['mappings']
            if mapping['volume']['ref'] == f'/volumes/{volume_id}')

    def host_name(self, host: Mapping[str, Any]) -> str:
        """Name a host by its initiators, else by its own name."""
        ref = {'ref': f'/hosts/{host["id"]}'}
        found = frozenset(
            [item['iqn'].lower() for item in self.objects['host_iqns']
             if item['host'] == ref]
            + [plain_wwn(item['pwwn'])
               for item in self.objects['host_fc_ports']
               if item['host'] == ref])
        return self._names.get(found, str(host['name']))

    def _by_ref(self, resource: str, ref: Mapping[str, str]) -> Any:
        for item in self.objects[resource]:
            if ref['ref'] == f'/{resource}/{item["id"]}':
                return item
        return {'id': 0, 'name': f'(missing {ref["ref"]})'}


def plain_wwn(text: str) -> str:
    """Write a WWN without colons and in lower case."""
    return text.replace(':', '').lower()


def initiators(connector: Mapping[str, Any]) -> frozenset[str]:
    """Return the initiators of a connector, IQN and WWPNs alike."""
    iqn = [connector['initiator'].lower()] if 'initiator' in connector else []
    return frozenset(iqn + [plain_wwn(wwpn)
                            for wwpn in connector.get('wwpns', ())])


def volume_row(volume: Volume, array: ArrayState) -> Row:
    """Compare one volume; it is cv-<id> in its own group cvg-<id>."""
    cinder = (volume.name, volume.id[:8], str(volume.size),
              yes_no(volume.dedup), ' '.join(sorted(volume.hosts)))
    name = f'cv-{volume.id}'
    found = [item for item in array.objects['volumes']
             if item['name'] == name]
    if len(found) != 1:
        return Row(cinder, NOTHING, (f'{len(found)} volumes {name}',))
    item = found[0]
    hosts = array.mapped_hosts(item['id'])
    checks = {
        'size': item['size'] == volume.size * KIB_PER_GIB,
        'dedup': item['is_dedup'] == volume.dedup,
        'hosts': hosts == volume.hosts,
        'group': array.group_name(item['volume_group'])
        == f'cvg-{volume.id}'}
    return Row(
        cinder,
        (short(name), f'{item["size"] / KIB_PER_GIB:g}',
         yes_no(item['is_dedup']), ' '.join(sorted(hosts))),
        tuple(f'{what} differs' for what, same in checks.items() if not same))


def snapshot_row(snapshot: Snapshot, array: ArrayState) -> Row:
    """Compare one snapshot; it is cs-<id> in its volume's group."""
    cinder = (snapshot.name, snapshot.id[:8], str(snapshot.size), '', '')
    name = f'cs-{snapshot.id}'
    found = [item for item in array.live_snapshots()
             if item['short_name'] == name]
    if len(found) != 1:
        return Row(cinder, NOTHING, (f'{len(found)} snapshots {name}',))
    item = found[0]
    size = item['volsnaps_provisioned_capacity']
    checks = {
        'size': size == snapshot.size * KIB_PER_GIB,
        'group': array.group_name(item['volume_group'])
        == f'cvg-{snapshot.volume_id}'}
    return Row(
        cinder, (short(name), f'{size / KIB_PER_GIB:g}', '', ''),
        tuple(f'{what} differs' for what, same in checks.items() if not same))


def unknown(array: ArrayState, volumes: Sequence[Volume]) -> list[str]:
    """Name the volumes, groups and idle hosts that Cinder does not know."""
    ids = {volume.id for volume in volumes}
    used = {mapping['host']['ref'] for mapping in array.objects['mappings']}
    return [
        *(item['name'] for item in array.objects['volumes']
          if item['name'] != INTERNAL_VOLUME
          and item['name'].removeprefix('cv-') not in ids),
        *(item['name'] for item in array.objects['volume_groups']
          if not item.get('is_default')
          and item['name'].removeprefix('cvg-') not in ids),
        *(item['name'] for item in array.objects['hosts']
          if f'/hosts/{item["id"]}' not in used)]


def extra_rows(volumes: Sequence[Volume], snapshots: Sequence[Snapshot],
               array: ArrayState) -> list[Row]:
    """Return rows for objects of the array that Cinder does not know.

    A snapshot from which a volume was cloned has to remain as long as that
    volume (CLN-4), so only snapshots without clones are leftovers.
    """
    known = {f'cs-{snapshot.id}' for snapshot in snapshots}
    hidden = [item for item in array.live_snapshots()
              if item['short_name'] not in known]
    kept = [item['short_name'] for item in hidden
            if item.get('num_of_clones')]
    left = [item['short_name'] for item in hidden
            if not item.get('num_of_clones')]
    return [
        *(Row(ABSENT, (short(name), '', '', ''), note='kept for its clone')
          for name in kept),
        *(Row(ABSENT, (name, '', '', ''), ('only on the array',))
          for name in [*unknown(array, volumes), *left])]


def compare(volumes: Sequence[Volume], snapshots: Sequence[Snapshot],
            array: ArrayState) -> list[Row]:
    """Return all rows, first those of Cinder in its order."""
    return [*(volume_row(volume, array) for volume in volumes),
            *(snapshot_row(snapshot, array) for snapshot in snapshots),
            *extra_rows(volumes, snapshots, array)]


def report(rows: Sequence[Row]) -> list[str]:
    """Format the table for a terminal."""
    return console.table(HEAD, [row.cells for row in rows])


def verdict(rows: Sequence[Row]) -> str:
    """Summarize the table in one line."""
    wrong = sum(1 for row in rows if row.problems)
    if wrong:
        return (f'MISMATCH: {wrong} of {len(rows)} lines differ between '
                'Cinder and the array')
    return f'MATCH: Cinder and the array agree on all {len(rows)} objects'
