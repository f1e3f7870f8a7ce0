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

"""One array with all that Cinder can ask of it."""

import functools
import threading
import typing

from oslo_utils import units

from cinder_k2.array import Array
from cinder_k2.array import Backing
from cinder_k2.driver import errors
from cinder_k2.driver import group_replication
from cinder_k2.driver import host_holds
from cinder_k2.driver import lookup
from cinder_k2.driver import manage
from cinder_k2.driver import migration
from cinder_k2.driver import revert
from cinder_k2.driver import users
from cinder_k2.driver import watch
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import clones
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport

_KIB_PER_GIB = units.Mi
_ATTEMPTS = 5


class Side(manage.ManageMixin, group_replication.GroupReplicationMixin,
           revert.RevertMixin, migration.MigrationMixin,
           watch.WatchMixin):
    """Volumes, snapshots and groups on one array.

    Public methods are those of Cinder's driver interface
    (cinder.interface); ``volume`` and ``snapshot`` are Cinder's versioned
    objects, sizes in them GiB. They raise Cinder's exceptions only, see
    ``cinder_k2.driver.errors``. Which array a call goes to was decided
    before (``cinder_k2.driver.base``).

    :param driver: Cinder's driver that this is a part of, with its
        configuration
    :param client: the REST client of the array
    """

    _transport: transport.Transport

    def __init__(self, driver: typing.Any, client: rest.Client) -> None:
        super().__init__()
        self.peers: dict[str, lookup.Peer] = {}
        self.configuration = driver.configuration
        self._driver = driver
        self._client = client
        self._array = Array(
            client, self.configuration.k2_retention_policy,
            self.configuration.k2_replication_retention_policy,
            self.configuration.k2_host_type)
        self._transport = self._make_transport()
        self._users = users.Users(self._transport)
        self._holds = host_holds.HostHolds()
        self._chap = self._make_chap()
        self._turns = threading.BoundedSemaphore(
            self.configuration.k2_max_concurrent_copies)
        self._cloner = clones.Cloner(self._array, self._copy,
                                     self._group_held, self._reclaim)

    @property
    def array(self) -> Array:
        """The array."""
        return self._array

    def meet(self, peer: lookup.Peer) -> None:
        """Let volumes of this array be replicated to another."""
        self.peers[peer.backend_id] = peer

    def check(self) -> None:
        """See whether the array can serve this back end. Three calls.

        :raises RestError, K2Error: it cannot
        """
        conf = self.configuration
        with self._client.deadline(conf.k2_connect_timeout
                                   + conf.k2_read_timeout):
            self._array.system.check()
            self._array.snapshots.check()
            self._transport.check(self._array)

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
        return self._create(volume, functools.partial(self._make_volume,
                                                      volume))

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
        """Grow a volume to ``new_size`` GiB, attached or not. Two calls.

        A replicated one grows on both arrays, while its session is
        suspended.

        One that a view backs becomes a full volume first; it must be
        detached for that.
        """
        backing = self._confirmed(volume, self._backing(volume))
        if backing.volume is None:
            self._promote(volume, backing, new_size,
                          'which the array cannot grow (VSN-4)')
        else:
            self._grow(volume, backing, new_size * _KIB_PER_GIB)

    # Snapshots

    @errors.operation
    def create_snapshot(self, snapshot: typing.Any) -> lookup.ModelUpdate:
        """Take a snapshot. Two calls."""
        volume = snapshot.volume
        for _ in range(_ATTEMPTS):
            group = self._backing(volume).group
            with self._group_held(group):
                # It may have joined or left a consistency group before.
                volume.refresh()
                backing = self._confirmed(volume, self._backing(volume))
                if backing.group == group:
                    return self._ids(self._array.snapshots.create(
                        naming.snapshot(snapshot.id), backing))
        raise exceptions.RowChanged(
            f'Volume {volume.id} is moved between groups; try again.')
