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

"""What both drivers share: Cinder's volume and snapshot operations."""

import functools
import threading
import typing

from cinder.volume import driver
from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.driver import config
from cinder_k2.driver import errors
from cinder_k2.driver import groups
from cinder_k2.driver import locks
from cinder_k2.driver import lookup
from cinder_k2.driver import manage
from cinder_k2.driver import migration
from cinder_k2.driver import promotion
from cinder_k2.driver import revert
from cinder_k2.driver import stats
from cinder_k2.driver import users
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import clones
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport

_KIB_PER_GIB = units.Mi
_ATTEMPTS = 5


class K2Driver(stats.StatsMixin, manage.ManageMixin, groups.GroupsMixin,
               revert.RevertMixin, promotion.PromotionMixin,
               migration.MigrationMixin, driver.VolumeDriver):
    """Volumes and snapshots on one array.

    Methods are Cinder's driver interface (cinder.interface); ``volume`` and
    ``snapshot`` are Cinder's versioned objects, sizes in them GiB. They
    raise Cinder's exceptions only, see ``cinder_k2.driver.errors``.
    """

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'Cinder_K2_CI'
    SUPPORTS_ACTIVE_ACTIVE = True

    _protocol: str
    _transport: transport.Transport

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        config.register(self.configuration)

    @classmethod
    def get_driver_options(cls) -> list[typing.Any]:
        """Every option that the driver reads."""
        return config.driver_options(cls._get_oslo_driver_opts)

    # Setup

    @errors.reported_at_start
    def do_setup(self, context: typing.Any) -> None:
        """Read the options; nothing is sent yet.

        :raises InvalidInput: an option is missing or wrong
        """
        self._client = self._make_client(
            config.rest_settings(self.configuration))
        self._array = Array(self._client,
                            self.configuration.k2_retention_policy)
        self._transport = self._make_transport()
        self._users = users.Users(self._transport)
        self._chap = self._make_chap()
        self._turns = threading.BoundedSemaphore(
            self.configuration.k2_max_concurrent_copies)
        self._cloner = clones.Cloner(self._array, self._copy,
                                     self._group_held, self._reclaim)

    @errors.reported_at_start
    def check_for_setup_error(self) -> None:
        """See whether the array can serve this back end. Three calls."""
        conf = self.configuration
        with self._client.deadline(conf.k2_connect_timeout
                                   + conf.k2_read_timeout):
            self._array.system.check()
            self._array.snapshots.check()
            self._transport.check(self._array)

    def _make_client(self, settings: rest.Settings) -> rest.Client:
        return rest.Client(settings)

    def _make_transport(self) -> transport.Transport:
        raise NotImplementedError

    def _make_chap(self) -> chap.Chap | None:
        raise NotImplementedError

    # Volumes

    @errors.operation
    def create_volume(self, volume: typing.Any) -> lookup.ModelUpdate:
        """Make a volume in a group of its own. Two calls.

        One of a consistency group goes into that one's volume group: one
        call, and one more if this service did not use the group lately.
        """
        return self._ids(self._into_group(
            volume, functools.partial(self._make_volume, volume)),
            volume.name_id)

    def _make_volume(self, volume: typing.Any, group: int | None) -> Backing:
        name, size = naming.volume(volume.name_id), volume.size * _KIB_PER_GIB
        if group is not None:
            return volumes.create_member(self._array, name=name, size=size,
                                         group=group)
        return volumes.create(
            self._array, name=name, size=size,
            group_name=naming.volume_group(volume.name_id),
            dedup=self._type_spec(volume).dedup)

    @errors.operation
    def extend_volume(self, volume: typing.Any, new_size: int) -> None:
        """Grow a volume to ``new_size`` GiB, attached or not. One call.

        One that a view backs becomes a full volume first; it must be
        detached for that.
        """
        backing = self._backing(volume)
        if backing.volume is None:
            self._promote(volume, backing, new_size,
                          'which the array cannot grow (VSN-4)')
        else:
            self._array.volumes.grow(backing.volume, new_size * _KIB_PER_GIB)

    # Snapshots

    @errors.operation
    def create_snapshot(self, snapshot: typing.Any) -> lookup.ModelUpdate:
        """Take a snapshot. One call."""
        volume = snapshot.volume
        for _ in range(_ATTEMPTS):
            group = self._backing(volume).group
            with self._group_held(group):
                # It may have joined or left a consistency group before.
                volume.refresh()
                backing = self._backing(volume)
                if backing.group == group:
                    return self._ids(self._array.snapshots.create(
                        naming.snapshot(snapshot.id), backing))
        raise exceptions.RowChanged(
            f'Volume {volume.id} is moved between groups; try again.')

    # Exports are made when a host connects, and nothing needs to be done
    # to them when the service starts.

    def ensure_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: mappings outlive the service."""

    def create_export(self, context: typing.Any, volume: typing.Any,
                      connector: typing.Any) -> None:
        """Nothing to do: see initialize_connection."""

    def remove_export(self, context: typing.Any, volume: typing.Any) -> None:
        """Nothing to do: see terminate_connection."""

    @classmethod
    def clean_volume_file_locks(cls, volume_id: str) -> None:
        """Remove the lock files of a volume that Cinder has forgotten."""
        locks.forget_volume(volume_id)

    def clean_snapshot_file_locks(self, snapshot_id: str) -> None:
        """Remove the lock files of a snapshot that Cinder has forgotten."""
        locks.forget_snapshot(snapshot_id)
