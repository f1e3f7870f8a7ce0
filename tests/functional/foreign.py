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

"""A back end of another vendor: volumes are files of this machine.

Like many drivers, it stores the location of a volume in ``provider_location``
and ignores provider_id.
"""

import os
import tempfile
from typing import Any
import uuid

from cinder import interface
from cinder.volume import driver

from tests.functional import disks


@interface.volumedriver
class FileDriver(driver.VolumeDriver):
    """Implements only what migrations need."""

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'None'

    folder = tempfile.TemporaryDirectory(prefix='cinder-k2-files-')

    def do_setup(self, context: Any) -> None:
        pass

    def check_for_setup_error(self) -> None:
        pass

    def _update_volume_stats(self) -> None:
        self._stats = {
            'volume_backend_name': self.configuration.volume_backend_name,
            'vendor_name': 'Other', 'driver_version': self.VERSION,
            'storage_protocol': 'iSCSI', 'total_capacity_gb': 100,
            'free_capacity_gb': 100, 'reserved_percentage': 0,
            'location_info': 'Other:1:iSCSI'}

    def create_volume(self, volume: Any) -> dict[str, Any]:
        path = os.path.join(self.folder.name, str(uuid.uuid4()))
        with open(path, 'wb') as stream:
            stream.truncate(volume.size << 30)
        return {'provider_location': path}

    def delete_volume(self, volume: Any) -> None:
        os.unlink(volume.provider_location)

    def initialize_connection(self, volume: Any, connector: Any,
                              **kwargs: Any) -> dict[str, Any]:
        return {'driver_volume_type': 'iscsi',
                'data': {'device_path': volume.provider_location}}

    def terminate_connection(self, volume: Any, connector: Any,
                             **kwargs: Any) -> None:
        pass

    def create_export(self, context: Any, volume: Any, connector: Any
                      ) -> None:
        pass

    def ensure_export(self, context: Any, volume: Any) -> None:
        pass

    def remove_export(self, context: Any, volume: Any) -> None:
        pass


class Disks(disks.Disks):
    """Disks of arrays, and the files of this driver."""

    def find(self, data: dict[str, Any],
             host: dict[str, Any] | None = None) -> str:
        """Return the file to which connection properties lead a host."""
        return data.get('device_path') or super().find(data, host)


def files() -> list[str]:
    """Return the file names of the existing volumes."""
    return os.listdir(FileDriver.folder.name)
