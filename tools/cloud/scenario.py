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

"""The main workflow, through the real API, once per back end."""

import dataclasses
from typing import Any

from tools.cloud import client
from tools.cloud import console
from tools.cloud import settings

ISCSI_CONNECTOR = {
    'initiator': 'iqn.2004-10.com.ubuntu:01:c0ffee',
    'host': 'compute-iscsi', 'ip': '192.0.2.11', 'multipath': True,
    'platform': 'x86_64', 'os_type': 'linux', 'do_local_attach': False}
FC_CONNECTOR = {
    'wwpns': ['21000024ff7f0001', '21000024ff7f0002'],
    'wwnns': ['20000024ff7f0001', '20000024ff7f0002'],
    'host': 'compute-fc', 'ip': '192.0.2.12', 'multipath': True,
    'platform': 'x86_64', 'os_type': 'linux', 'do_local_attach': False}
CONNECTORS = {'k2-iscsi': ISCSI_CONNECTOR, 'k2-fc': FC_CONNECTOR}
NODEDUP = {'kaminario:thin_prov_type': 'nodedup'}


def make_types(cinder: Any) -> None:
    """Create a type with and one without deduplication per back end."""
    present = {kind.name for kind in cinder.volume_types.list()}
    for backend in settings.BACKENDS:
        for name, specs in ((backend, {}), (f'{backend}-nodedup', NODEDUP)):
            with console.step(f'type {name}') as line:
                if name in present:
                    line.note = 'kept from an earlier run'
                    continue
                kind = cinder.volume_types.create(name)
                kind.set_keys({'volume_backend_name': backend, **specs})


def describe(info: dict[str, Any]) -> str:
    """Return only the connection properties that differ between paths."""
    kind = info.get('driver_volume_type')
    if kind == 'iscsi':
        portals = info.get('target_portals') or [info['target_portal']]
        iqns = set(info.get('target_iqns') or [info['target_iqn']])
        luns = set(info.get('target_luns') or [info['target_lun']])
        return (f'iscsi: portals {" ".join(portals)}; '
                f'{" ".join(sorted(iqns))}; lun {joined(luns)}')
    wwns = info['target_wwn']
    wwns = [wwns] if isinstance(wwns, str) else wwns
    luns = set(info.get('target_luns') or [info['target_lun']])
    return f'{kind}: ports {" ".join(wwns)}; lun {joined(luns)}'


def joined(luns: set[int]) -> str:
    """Format the LUNs of all paths; normally there is only one."""
    return ' '.join(str(lun) for lun in sorted(luns))


def detach(watcher: client.Watcher, volume: Any, attachment_id: str) -> None:
    """Detach a volume and wait until it is available."""
    with console.step(f'{volume.name}: detach'):
        watcher.cinder.attachments.delete(attachment_id)
        watcher.until(volume, 'available')


def delete(watcher: client.Watcher, resource: Any) -> None:
    """Delete a volume or snapshot and wait until it is gone."""
    with console.step(f'{resource.name}: delete'):
        resource.manager.delete(resource.id)
        watcher.until_gone(resource)


@dataclasses.dataclass
class Job:
    """The main workflow on one back end; stores the objects it created."""

    watcher: client.Watcher
    backend: str
    suffix: str = ''

    @property
    def cinder(self) -> Any:
        """The volume API."""
        return self.watcher.cinder

    def name(self, short: str) -> str:
        """Name a volume or snapshot after its back end and run."""
        return f'{self.backend}-{short}{self.suffix}'

    def create(self, short: str, title: str, **fields: Any) -> Any:
        """Create a volume and wait until it is available."""
        with console.step(f'{self.name(short)}: {title}'):
            volume = self.cinder.volumes.create(
                name=self.name(short), **fields)
            return self.watcher.until(volume, 'available')

    def snapshot(self, volume: Any, short: str) -> Any:
        """Take a snapshot and wait until it is available."""
        with console.step(f'{self.name(short)}: snapshot of {volume.name}'):
            snapshot = self.cinder.volume_snapshots.create(
                volume.id, name=self.name(short))
            return self.watcher.until(snapshot, 'available')

    def extend(self, volume: Any, size: int) -> None:
        """Extend a volume, attached or not, to size GiB."""
        volume = self.cinder.volumes.get(volume.id)
        attached = ' while attached' if volume.status == 'in-use' else ''
        with console.step(f'{volume.name}: extend to {size} GiB{attached}'):
            self.cinder.volumes.extend(volume, size)
            after = self.watcher.until(volume, volume.status)
            if after.size != size:
                raise self.watcher.failed(
                    volume, f'has {after.size} GiB, not {size}')

    def attach(self, volume: Any) -> Any:
        """Attach a volume to this back end's host, as nova does."""
        connector = CONNECTORS[self.backend]
        with console.step(f'{volume.name}: attach to '
                          f'{connector["host"]}') as line:
            attachment = self.cinder.attachments.create(
                volume.id, connector, mode='rw')
            self.cinder.attachments.complete(attachment['id'])
            self.watcher.until(volume, 'in-use')
            line.note = describe(attachment['connection_info'])
        return attachment['id']

    def run(self) -> None:
        """Run all steps once; some objects are kept for the table."""
        data = self.create('data', 'create, 1 GiB, dedup', size=1,
                           volume_type=self.backend)
        plain = self.create('plain', 'create, 1 GiB, nodedup', size=1,
                            volume_type=f'{self.backend}-nodedup')
        snapshot = self.snapshot(data, 'snap')
        restored = self.create('restored', f'from {snapshot.name}, 2 GiB',
                               size=2, snapshot_id=snapshot.id)
        copy = self.create('copy', f'clone of {plain.name}', size=1,
                           source_volid=plain.id)
        self.extend(copy, 2)
        first = self.attach(data)
        self.attach(restored)
        self.extend(data, 3)
        live = self.create('live-copy', f'clone of {data.name}, attached',
                           size=3, source_volid=data.id)
        second = self.snapshot(data, 'live-snap')
        detach(self.watcher, data, first)
        for resource in (second, live, copy):
            delete(self.watcher, resource)


def remove_all(watcher: client.Watcher) -> None:
    """Detach and delete every volume and snapshot, the newest first.

    Clones are deleted before their sources.
    """
    cinder = watcher.cinder
    for attachment in cinder.attachments.list(detailed=True):
        volume = cinder.volumes.get(attachment.volume_id)
        detach(watcher, volume, attachment.id)
    everything = [*cinder.volumes.list(), *cinder.volume_snapshots.list()]
    for item in sorted(everything, key=lambda item: str(item.created_at),
                       reverse=True):
        delete(watcher, item)
