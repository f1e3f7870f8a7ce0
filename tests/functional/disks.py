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

The simulated arrays of these tests have no data plane: they keep no data, and
no host can log in. So a sparse file here represents each volume and each image
in a snapshot or view. Everything up to the connection properties is real, and
so is their interpretation: LUN and initiator are looked up in the array's
mappings, as the array would do for a SCSI command. Snapshots, views, thin
clones and restores of the array copy the files. Tests can thus check that the
driver led Cinder to the right object with the right data.

Not covered are logins, paths, CHAP, multipath, and the kernel's caches.
"""

from collections.abc import Callable
import json
import os
import shutil
import stat
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

# Wrappers: dd and other programs truncate regular files, but not devices.
_PROGRAMS = os.path.join(os.path.dirname(__file__), 'programs')
_PATH = os.environ['PATH']


class Native:
    """Replaces eventlet's thread pool, which hangs on native threads."""

    @staticmethod
    def execute(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the method directly."""
        return method(*args, **kwargs)

    @staticmethod
    def Proxy(thing: Any) -> Any:  # noqa: N802
        """Return the object unchanged."""
        return thing


class Disks:
    """The data of some arrays, and one host that can connect to them.

    :param properties: connector properties of the host, see
        ``base.FunctionalTest.host``
    :param served: arrays of ``tests.arrays``

    :ivar connected: how many times each file is connected, by path
    :ivar most: the maximum number of concurrent connections
    :ivar total: the total number of connections
    :ivar problems: errors that a real kernel would have had
    """

    def __init__(self, properties: dict[str, Any], *served: Any) -> None:
        self.properties = properties
        self.connected: dict[str, int] = {}
        self.most = 0
        self.total = 0
        self.problems: list[str] = []
        self._files = [item.disk_files for item in served]
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
        for number, files in enumerate(self._files):
            files.start(os.path.join(self._folder, f'{number}-'))
            testcase.addCleanup(files.stop)

    def set_scale(self, scale: int) -> None:
        """Make files smaller by a factor, for tests that read all data."""
        for files in self._files:
            files.set_scale(scale)

    def _get_properties(self, root_helper: str, my_ip: str, multipath: bool,
                        enforce_multipath: bool, *_: Any, **__: Any
                        ) -> dict[str, Any]:
        return {**self.properties, 'multipath': multipath,
                'enforce_multipath': enforce_multipath}

    # Data

    def write(self, what: Any, offset: int, data: bytes) -> None:
        """Write to a volume, given as for ``path``."""
        with open(self.path(what), 'r+b') as stream:
            stream.seek(offset)
            stream.write(data)

    def read(self, what: Any, offset: int, length: int) -> bytes:
        """Read from a volume or an image, given as for ``path``."""
        with open(self.path(what), 'rb') as stream:
            stream.seek(offset)
            return stream.read(length)

    def path(self, what: Any, number: int = 0) -> str:
        """Return the file of a volume, or of an image in a snapshot or view.

        :param what: a row of Cinder (volume or snapshot), a reference such
            as "/volumes/3", or an object of the array with its scsi_sn
        :param number: the index of the array
        """
        return _path(self._files[number], what)

    def rekeyed(self) -> list[str]:
        """Return the words that the mock of cryptsetup logged, in order."""
        try:
            with open(os.path.join(self._folder, 'cryptsetup'),
                      encoding='utf-8') as stream:
                return stream.read().split()
        except FileNotFoundError:
            return []

    # Connections

    def find(self, data: dict[str, Any],
             host: dict[str, Any] | None = None) -> str:
        """Return the file to which connection properties lead a host.

        :param data: such as ``connection_info`` of an attachment
        :param host: its connector properties; by default those of this host
        :raises VolumeDeviceNotFound: not exactly one array maps such a LUN to
            the host
        """
        _check_lists(data)
        paths = [files.find(dict(data), host or self.properties)
                 for files in self._files]
        found: list[str] = [path for path in paths if path]
        if len(found) != 1:
            raise exception.VolumeDeviceNotFound(
                device=f'LUN {data["target_lun"]}, which {len(found)} arrays '
                       'have for this host')
        return found[0]

    def connect(self, data: dict[str, Any]) -> str:
        """Connect a LUN; return the path of its file."""
        path = self.find(data)
        with self._lock:
            self.connected[path] = self.connected.get(path, 0) + 1
            self.total += 1
            self.most = max(self.most, sum(self.connected.values()))
        return path

    def disconnect(self, data: dict[str, Any], path: str) -> None:
        """Disconnect a LUN, which must still be mapped to be flushed."""
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
    """Replaces os-brick's connectors, for Fibre Channel, too.

    It is a subclass because Cinder checks for an iSCSI or FC connector before
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
        """Disconnect; without a device, find the path as os-brick does."""
        path = (device_info or {}).get('path') or self._disks.find(
            connection_properties)
        self._disks.disconnect(connection_properties, path)

    def check_valid_device(self, path: str, run_as_root: bool = True) -> bool:
        """Return whether the path can be read."""
        return stat.S_ISREG(os.stat(path).st_mode)

    def extend_volume(self, connection_properties: dict[str, Any]) -> int:
        """Return the current size in bytes."""
        return os.stat(self._disks.find(connection_properties)).st_size


class DisksTest(base.FunctionalTest):
    """A test with data; ``self.disks`` has the disks of this host."""

    def setUp(self) -> None:
        super().setUp()
        self.disks = self.install_disks(self.array)

    def install_disks(self, *served: Any) -> Disks:
        """Install disks of some arrays; repeat this for other arrays."""
        disks = Disks(self.host('cinder-host'), *served)
        disks.install(self)
        self.addCleanup(self._check_disks, disks)
        return disks

    def _check_disks(self, disks: Disks) -> None:
        self.assertEqual({}, disks.connected)
        self.assertEqual([], disks.problems)


def _check_lists(data: dict[str, Any]) -> None:
    """Check that the lists for multipath agree with the single values.

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


def _path(files: Any, what: Any) -> Any:
    """Return the file of an object, given as for ``Disks.path``."""
    if isinstance(what, str):
        return files.path_of(what)
    if isinstance(what, dict):
        return files.path_of_serial(what['scsi_sn'])
    ids = json.loads(what.provider_id or '{}')
    snapshot = ids.get('view') or ids.get('snapshot')
    volume = ids.get('origin') or ids.get('volume')
    if snapshot is not None:
        return files.path_of_image(snapshot, volume)
    if volume is not None:
        return files.path_of(f'/volumes/{volume}')
    if isinstance(what, objects.Snapshot):
        return files.path_of_name(naming.snapshot(what.id), is_snapshot=True)
    return files.path_of_name(naming.volume(what.name_id), is_snapshot=False)
