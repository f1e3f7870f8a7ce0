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

"""A mock of the kernel's initiator, because there is no fabric.

The simulated array keeps no data, and no session to it can be made. So volumes
are sparse files here, one for each volume and each image in a snapshot or
view. Everything up to the connection properties is real, and so is their
interpretation: LUN and initiator are looked up in the array's mappings, as the
array would do with a SCSI command. Snapshots, views, thin clones and restores
of the array copy the files. A test thus sees whether the driver led Cinder to
the right object with the right data in it.

Not covered are logins, paths, CHAP, multipath, and caches of the kernel.
"""

from collections.abc import Callable
import json
import os
import re
import shutil
import stat
import subprocess  # nosec B404
import tempfile
import threading
from typing import Any
from unittest import mock

from cinder.image import image_utils
from cinder import objects
from cinder import privsep
from cinder import utils
from os_brick import exception
from os_brick.initiator import connector
from os_brick.initiator.connectors import iscsi
from os_brick import privileged

from cinder_k2 import naming
from tests.functional import base

# dd and others truncate regular files, but not devices.
_PROGRAMS = os.path.join(os.path.dirname(__file__), 'programs')
_PATH = os.environ['PATH']


class Native:
    """Replaces eventlet's thread pool, which hangs on native threads."""

    @staticmethod
    def execute(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call it directly."""
        return method(*args, **kwargs)

    @staticmethod
    def Proxy(thing: Any) -> Any:  # noqa: N802
        """Return it unchanged."""
        return thing


class Disks:
    """The data of some arrays, and one host that may connect to them.

    :param properties: connector properties of the host, see
        ``base.FunctionalTest.host``
    :param served: arrays of ``tests.functional.arrays``

    :ivar scale: scale factor of files; for tests that read all of them
    :ivar connected: files by path, and how often each is connected
    :ivar most: maximum of concurrent connections
    :ivar total: total of connections
    :ivar problems: problems that a kernel would have had
    """

    def __init__(self, properties: dict[str, Any], *served: Any) -> None:
        self.properties = properties
        self.scale = 1
        self.connected: dict[str, int] = {}
        self.most = 0
        self.total = 0
        self.problems: list[str] = []
        self._arrays = [item.array for item in served]
        self._lock = threading.Lock()

    def install(self, testcase: Any) -> None:
        """Replace os-brick until the test ends."""
        self._folder = tempfile.mkdtemp(prefix='cinder-k2-disks-')
        testcase.addCleanup(shutil.rmtree, self._folder)
        for patch in (
                mock.patch.object(connector.InitiatorConnector, 'factory',
                                  lambda *_, **__: Connector(self)),
                mock.patch.object(connector, 'get_connector_properties',
                                  self._get_properties),
                mock.patch.object(utils, 'get_root_helper', lambda: 'env'),
                mock.patch.object(image_utils, 'tpool', Native),
                mock.patch.object(privsep.sys_admin_pctxt, 'client_mode',
                                  False),
                mock.patch.object(privileged.default, 'client_mode', False),
                mock.patch.dict(os.environ, K2_PATH=_PATH,
                                PATH=f'{_PROGRAMS}:{_PATH}')):
            patch.start()
            testcase.addCleanup(patch.stop)
        for number in range(len(self._arrays)):
            self._follow(testcase, number)

    def _get_properties(self, root_helper: str, my_ip: str, multipath: bool,
                        enforce_multipath: bool, *_: Any, **__: Any
                        ) -> dict[str, Any]:
        return {**self.properties, 'multipath': multipath,
                'enforce_multipath': enforce_multipath}

    # Data

    def write(self, what: Any, offset: int, data: bytes) -> None:
        """Write to a volume; ``what`` is as for ``path``."""
        with open(self.path(what), 'r+b') as stream:
            stream.seek(offset)
            stream.write(data)

    def read(self, what: Any, offset: int, length: int) -> bytes:
        """Read from a volume or an image; ``what`` is as for ``path``."""
        with open(self.path(what), 'rb') as stream:
            stream.seek(offset)
            return stream.read(length)

    def path(self, what: Any, number: int = 0) -> str:
        """The file of a volume or of an image in a snapshot or view.

        :param what: a row of Cinder's (volume or snapshot), a reference such
            as "/volumes/3", or a row or reply of the array with its scsi_sn
        :param number: which of the arrays
        """
        array = self._arrays[number]
        with array.lock:
            return self._file(number, _object(array.store, what))

    def rekeyed(self) -> list[str]:
        """Calls of cryptsetup, see its mock, in order."""
        try:
            with open(os.path.join(self._folder, 'cryptsetup'),
                      encoding='utf-8') as stream:
                return stream.read().split()
        except FileNotFoundError:
            return []

    def _name(self, number: int, row: dict[str, Any]) -> str:
        return os.path.join(self._folder, f'{number}-{row["scsi_sn"]}')

    def _file(self, number: int, row: dict[str, Any]) -> str:
        """The file of an object, created or grown to the object's size."""
        path = self._name(number, row)
        with open(path, 'ab') as stream:
            stream.truncate(max(stream.tell(),
                                row['size'] * 1024 // self.scale))
        return path

    # Operations of the array on data

    def _follow(self, testcase: Any, number: int) -> None:
        """Copy data when the array creates or restores dependent objects."""
        store = self._arrays[number].store
        insert, update = store.insert, store.update

        def inserted(resource: str, values: dict[str, Any]) -> Any:
            row = insert(resource, values)
            if resource in ('volumes', 'volsnaps'):
                self._copy(number, _origin(store, resource, row), row)
            return row

        def updated(resource: str, key: int, **changes: Any) -> Any:
            row = update(resource, key, **changes)
            if resource == 'volumes' and changes.get('last_restored_from'):
                self._copy(number, _image(
                    store, row['last_restored_from'], f'/volumes/{key}'), row)
            return row

        patch = mock.patch.multiple(store, insert=inserted, update=updated)
        patch.start()
        testcase.addCleanup(patch.stop)

    def _copy(self, number: int, source: dict[str, Any] | None,
              row: dict[str, Any]) -> None:
        path = self._name(number, row)
        if source and os.path.exists(self._name(number, source)):
            subprocess.run(  # nosec B603 B607
                ['cp', '--sparse=always', self._name(number, source), path],
                check=True)
        elif os.path.exists(path):
            os.unlink(path)

    # Connections

    def find(self, data: dict[str, Any],
             host: dict[str, Any] | None = None) -> str:
        """The file that connection properties lead a host to.

        :param data: such as ``connection_info`` of an attachment
        :param host: its connector properties; this host's if not given
        :raises VolumeDeviceNotFound: no array shows the host such a LUN
        """
        _check_lists(data)
        rows = [(number, row) for number, array in enumerate(self._arrays)
                if _is_target(array, data)
                for row in [_seen(array, data, host or self.properties)]
                if row is not None]
        if len(rows) != 1:
            raise exception.VolumeDeviceNotFound(
                device=f'LUN {data["target_lun"]}, which {len(rows)} arrays '
                       'have for this host')
        number, row = rows[0]
        with self._arrays[number].lock:
            return self._file(number, row)

    def connect(self, data: dict[str, Any]) -> str:
        """Connect; returns the path."""
        path = self.find(data)
        with self._lock:
            self.connected[path] = self.connected.get(path, 0) + 1
            self.total += 1
            self.most = max(self.most, sum(self.connected.values()))
        return path

    def disconnect(self, data: dict[str, Any], path: str) -> None:
        """Disconnect; the array must still show the LUN, to be flushed."""
        try:
            if self.find(data) != path:
                self.problems.append(f'another object is at LUN {data}')
        except exception.VolumeDeviceNotFound:
            self.problems.append(f'unmapped before it was flushed: {data}')
        with self._lock:
            self.connected[path] -= 1
            if not self.connected[path]:
                del self.connected[path]


class Connector(iscsi.ISCSIConnector):
    """The result of os-brick's factory.

    For Fibre Channel, too: Cinder asks whether it is one of the two before
    it changes the key of an encrypted volume.
    """

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def connect_volume(self, connection_properties: dict[str, Any]
                       ) -> dict[str, Any]:
        """Connect, and return the device."""
        return {'type': 'block',
                'path': self._disks.connect(connection_properties)}

    def disconnect_volume(self, connection_properties: dict[str, Any],
                          device_info: Any, force: bool = False,
                          ignore_errors: bool = False) -> None:
        """Disconnect; os-brick finds the path itself without device."""
        path = (device_info or {}).get('path') or self._disks.find(
            connection_properties)
        self._disks.disconnect(connection_properties, path)

    def check_valid_device(self, path: str, run_as_root: bool = True) -> bool:
        """Whether the path can be read."""
        return stat.S_ISREG(os.stat(path).st_mode)

    def extend_volume(self, connection_properties: dict[str, Any]) -> int:
        """Look at the size again; in bytes."""
        return os.stat(self._disks.find(connection_properties)).st_size


class DisksTest(base.FunctionalTest):
    """A test with data: ``self.disks`` is what is connected here."""

    def setUp(self) -> None:
        super().setUp()
        self.disks = self.install_disks(self.array)

    def install_disks(self, *served: Any) -> Disks:
        """Disks of some arrays; a test that ``use``s another asks again."""
        disks = Disks(self.host('cinder-host'), *served)
        disks.install(self)
        self.addCleanup(self._check_disks, disks)
        return disks

    def _check_disks(self, disks: Disks) -> None:
        self.assertEqual({}, disks.connected)
        self.assertEqual([], disks.problems)


def _check_lists(data: dict[str, Any]) -> None:
    """Lists for multipath must agree with the single values.

    The in-tree driver returns no lists.
    """
    if 'target_luns' not in data:
        return
    lun, is_fc = data['target_lun'], 'target_wwn' in data
    paths = data['target_wwn'] if is_fc else data['target_portals']
    good = data['target_luns'] == [lun] * len(paths)
    if not is_fc:
        good &= (data['target_iqns'] == [data['target_iqn']] * len(paths)
                 and data['target_portal'] in paths)
    if not good:
        raise AssertionError(f'single path and multipath differ: {data}')


def _is_target(array: Any, data: dict[str, Any]) -> bool:
    """Whether the properties name ports of this array."""
    if 'target_wwn' in data:
        own = {row['pwwn'].replace(':', '')
               for row in array.store.rows('system/fc_ports')}
        return own >= set(data['target_wwn'])
    iqn = array.store.at('/system/state/1')['iscsi_qualified_target_name']
    return bool(iqn == data['target_iqn'])


def _seen(array: Any, data: dict[str, Any], host: dict[str, Any]
          ) -> dict[str, Any] | None:
    """The object that a host finds at the LUN."""
    with array.lock:
        for ref in _hosts(array.store, host, 'target_wwn' in data):
            group = array.store.at(ref)['host_group']
            for row in array.store.find('mappings', 'host', group or ref):
                if row['lun'] == data['target_lun']:
                    found: dict[str, Any] = array.store.at(row['volume'])
                    return found
    return None


def _hosts(store: Any, host: dict[str, Any], is_fc: bool) -> set[str]:
    """Hosts of the array with an initiator of this one."""
    if is_fc:
        rows = [row for wwpn in host['wwpns'] for row in
                store.find('host_fc_ports', 'pwwn',
                           ':'.join(re.findall('..', wwpn)))]
    else:
        rows = store.find('host_iqns', 'iqn', host['initiator'])
    return {row['host'] for row in rows if row['host']}


def _image(store: Any, snapshot: str, volume: str) -> dict[str, Any] | None:
    """A volume's image in a snapshot or view."""
    for row in store.find('volsnaps', 'snapshot', snapshot):
        if row['source'] == volume:
            found: dict[str, Any] = row
            return found
    return None


def _origin(store: Any, resource: str, row: dict[str, Any]
            ) -> dict[str, Any] | None:
    """The source of a new volume or image."""
    if resource == 'volumes':
        if not row.get('clone_snapshot'):
            return None
        return _image(store, row['clone_snapshot'], row['clone_volume'])
    source = store.at(row['snapshot'])['source']
    if source.startswith('/volume_groups/'):
        volume: dict[str, Any] = store.at(row['source'])
        return volume
    return _image(store, source, row['source'])


def _object(store: Any, what: Any) -> Any:
    """The volume or image on the array with a given name."""
    if isinstance(what, str):
        return store.at(what)
    if isinstance(what, dict):
        return next(row for table in ('volumes', 'volsnaps')
                    for row in store.rows(table)
                    if row['scsi_sn'] == what['scsi_sn'])
    ids = json.loads(what.provider_id or '{}')
    snapshot = ids.get('view') or ids.get('snapshot')
    volume = ids.get('origin') or ids.get('volume')
    if snapshot is not None:
        return next(row for row in store.find('volsnaps', 'snapshot',
                                              f'/snapshots/{snapshot}')
                    if not volume or row['source'] == f'/volumes/{volume}')
    return (store.get('volumes', volume) if volume is not None
            else _named(store, what))


def _named(store: Any, what: Any) -> Any:
    """A row without ids: of a volume, a view for one, or a snapshot."""
    if isinstance(what, objects.Snapshot):
        name = naming.snapshot(what.id)
    else:
        name = naming.volume(what.name_id)
        found = store.find('volumes', 'name', name)
        if found:
            return found[0]
    taken = store.find('snapshots', 'short_name', name)[0]
    return store.find('volsnaps', 'snapshot',
                      f'/snapshots/{taken["id"]}')[0]
