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

"""Both drivers, loaded as in cinder-volume, and the rows they work on.

They are called without a manager, so only the driver and its requests are
measured. Rows are Cinder's own, in the database of the functional tests.
"""

from collections.abc import Iterator
import contextlib
import os
from typing import Any
from unittest import mock

# Before Cinder: the package chooses native threads.
from tests.functional import cinder_env  # noqa: I100

from cinder import objects
from cinder.volume import configuration
from cinder.volume import manager
from cinder.volume import volume_types
from cinder.volume import volume_utils
from oslo_utils import importutils

OURS = 'cinder_k2.driver.K2ISCSIDriver'
INTREE = ('cinder.volume.drivers.kaminario.kaminario_iscsi.'
          'KaminarioISCSIDriver')


def load(path: str, section: str, **options: Any) -> Any:
    """A driver after setup, with the options of its section."""
    cinder = cinder_env.cinder()
    cinder.set_section(section, options)
    settings = configuration.Configuration(manager.volume_backend_opts,
                                           config_group=section)
    driver = importutils.import_object(
        path, configuration=settings, host=f'bench@{section}',
        cluster_name=None, is_vol_db_empty=True, active_backend_id=None)
    driver.do_setup(context())
    driver.check_for_setup_error()
    driver.set_initialized()
    return driver


def context() -> Any:
    """The context of an administrator's request."""
    return cinder_env.cinder().context()


@contextlib.contextmanager
def without_copies(driver: Any) -> Iterator[None]:
    """A context in which a driver copies no data through the host.

    Attaching and copying are skipped, so only its requests to the array are
    measured.
    """
    path = {'device': {'path': os.devnull}, 'connector': mock.Mock(),
            'conn': {'data': {}}}
    with mock.patch.multiple(
            driver, create=True, _connect_device=lambda connection: path,
            _kaminario_disconnect_volume=lambda *attached: None), \
        mock.patch.multiple(
            volume_utils, copy_volume=lambda *args, **kwargs: None,
            brick_get_connector_properties=lambda *args: connector('cinder')):
        yield


def volume(size: int = 1, **fields: Any) -> Any:
    """A volume row."""
    row = objects.Volume(context(), **{
        'size': size, 'status': 'available', 'project_id': 'bench',
        'replication_status': 'disabled',
        'volume_type_id': volume_types.get_default_volume_type()['id'],
        **fields})
    row.create()
    return row


def volumes(host: str) -> Any:
    """The volume rows of a back end, as its manager reads them."""
    return objects.VolumeList.get_all(context(), filters={'host': host})


def service(host: str) -> Any:
    """The row of a cinder-volume."""
    row = objects.Service(context(), host=host, binary='cinder-volume',
                          topic='cinder-volume')
    row.create()
    return row


def snapshot(source: Any) -> Any:
    """A snapshot row of a volume."""
    row = objects.Snapshot(
        context(), volume_id=source.id,
        volume_size=source.size, status='available', project_id='bench')
    row.create()
    return row


def connector(host: str) -> dict[str, Any]:
    """Return the connector of a compute host of that name."""
    return {'host': host, 'ip': '10.0.0.1', 'multipath': True,
            'initiator': f'iqn.1994-05.com.example:{host}'}


def keep(row: Any, update: dict[str, Any] | None) -> Any:
    """Save a driver's model update, as Cinder's manager does."""
    row.update(update or {})
    row.save()
    return row
