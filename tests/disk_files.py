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

"""The data of a simulated array without a data plane: one file per object.

The files of volumes, and of their images in snapshots and views, are as large
as the objects, and are copied when the array creates or restores dependent
objects.
"""

import os
import re
import subprocess  # nosec B404
from typing import Any
from unittest import mock


class DiskFiles:
    """The files of one array, in its process.

    :param array: a ``k2_sim.Array``
    """

    def __init__(self, array: Any) -> None:
        self._array = array
        self._store = array.store
        self._stop: list[Any] = []
        self._place = ''
        self._scale = 1

    def start(self, place: str) -> None:
        """Copy data from now on.

        :param place: prefix of the paths of all files
        """
        self._place = place
        self._scale = 1
        insert, update = self._store.insert, self._store.update

        def inserted(resource: str, values: dict[str, Any]) -> Any:
            row = insert(resource, values)
            if resource in ('volumes', 'volsnaps'):
                self._copy(_origin(self._store, resource, row), row)
            return row

        def updated(resource: str, key: int, **changes: Any) -> Any:
            row = update(resource, key, **changes)
            if resource == 'volumes' and changes.get('last_restored_from'):
                self._copy(_image(
                    self._store, row['last_restored_from'],
                    f'/volumes/{key}'), row)
            return row

        patch = mock.patch.multiple(self._store, insert=inserted,
                                    update=updated)
        patch.start()
        self._stop.append(patch.stop)

    def stop(self) -> None:
        """End the last ``start``."""
        self._stop.pop()()

    def set_scale(self, scale: int) -> None:
        """Let files be smaller than the objects by a factor."""
        self._scale = scale

    def path_of(self, ref: str) -> str:
        """Return the path of an object's file, by reference."""
        with self._array.lock:
            return self._file(self._store.at(ref))

    def path_of_serial(self, serial: str) -> str:
        """Return the path of an object's file, by its serial number."""
        with self._array.lock:
            return self._file(next(
                row for table in ('volumes', 'volsnaps')
                for row in self._store.rows(table)
                if row['scsi_sn'] == serial))

    def path_of_image(self, snapshot: int, volume: int | None) -> str:
        """Return the path of the file of a volume's image in a snapshot.

        :param volume: id of the volume; the first one of the snapshot if None
        """
        with self._array.lock:
            return self._file(next(
                row for row in self._store.find(
                    'volsnaps', 'snapshot', f'/snapshots/{snapshot}')
                if not volume or row['source'] == f'/volumes/{volume}'))

    def path_of_name(self, name: str, *, is_snapshot: bool) -> str:
        """Return the path of the file of a volume, view or snapshot."""
        with self._array.lock:
            found = [] if is_snapshot else self._store.find(
                'volumes', 'name', name)
            if not found:
                taken = self._store.find('snapshots', 'short_name', name)[0]
                found = self._store.find('volsnaps', 'snapshot',
                                         f'/snapshots/{taken["id"]}')
            return self._file(found[0])

    def find(self, data: dict[str, Any], host: dict[str, Any]) -> str | None:
        """Return the path of the file behind connection properties, or None.

        :param data: such as ``connection_info`` of an attachment
        :param host: its connector properties
        """
        with self._array.lock:
            if not _is_target(self._store, data):
                return None
            row = _seen(self._store, data, host)
            return self._file(row) if row is not None else None

    def _name(self, row: dict[str, Any]) -> str:
        return f'{self._place}{row["scsi_sn"]}'

    def _file(self, row: dict[str, Any]) -> str:
        """Return the path of an object's file, grown to the object's size."""
        path = self._name(row)
        with open(path, 'ab') as stream:
            stream.truncate(max(stream.tell(),
                                row['size'] * 1024 // self._scale))
        return path

    def _copy(self, source: dict[str, Any] | None, row: dict[str, Any]
              ) -> None:
        path = self._name(row)
        if source and os.path.exists(self._name(source)):
            subprocess.run(  # nosec B603 B607
                ['cp', '--sparse=always', self._name(source), path],
                check=True)
        elif os.path.exists(path):
            os.unlink(path)


def _is_target(store: Any, data: dict[str, Any]) -> bool:
    """Return whether the properties name ports of this array."""
    if 'target_wwn' in data:
        own = {row['pwwn'].replace(':', '')
               for row in store.rows('system/fc_ports')}
        return own >= set(data['target_wwn'])
    iqn = store.at('/system/state/1')['iscsi_qualified_target_name']
    return bool(iqn == data['target_iqn'])


def _seen(store: Any, data: dict[str, Any], host: dict[str, Any]
          ) -> dict[str, Any] | None:
    """Return the object that a host finds at the LUN."""
    for ref in _hosts(store, host, 'target_wwn' in data):
        group = store.at(ref)['host_group']
        for row in store.find('mappings', 'host', group or ref):
            if row['lun'] == data['target_lun']:
                found: dict[str, Any] = store.at(row['volume'])
                return found
    return None


def _hosts(store: Any, host: dict[str, Any], is_fc: bool) -> set[str]:
    """Return the hosts of the array that have an initiator of this host."""
    if is_fc:
        rows = [row for wwpn in host['wwpns'] for row in
                store.find('host_fc_ports', 'pwwn',
                           ':'.join(re.findall('..', wwpn)))]
    else:
        rows = store.find('host_iqns', 'iqn', host['initiator'])
    return {row['host'] for row in rows if row['host']}


def _image(store: Any, snapshot: str, volume: str) -> dict[str, Any] | None:
    """Return a volume's image in a snapshot or view, or None."""
    for row in store.find('volsnaps', 'snapshot', snapshot):
        if row['source'] == volume:
            found: dict[str, Any] = row
            return found
    return None


def _origin(store: Any, resource: str, row: dict[str, Any]
            ) -> dict[str, Any] | None:
    """Return the source of a new volume or image, or None."""
    if resource == 'volumes':
        if not row.get('clone_snapshot'):
            return None
        return _image(store, row['clone_snapshot'], row['clone_volume'])
    source = store.at(row['snapshot'])['source']
    if source.startswith('/volume_groups/'):
        volume: dict[str, Any] = store.at(row['source'])
        return volume
    return _image(store, source, row['source'])
