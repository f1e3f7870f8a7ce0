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

"""One array: builds its parts, nothing more."""

from collections.abc import Callable
import contextlib
from typing import TypeVar

from cinder_k2.array import chap
from cinder_k2.array import deferred_deletion
from cinder_k2.array import groups
from cinder_k2.array import host_identity
from cinder_k2.array import hosts
from cinder_k2.array import identity
from cinder_k2.array import inventory
from cinder_k2.array import mappings
from cinder_k2.array import names
from cinder_k2.array import original_names
from cinder_k2.array import replication
from cinder_k2.array import snapshots
from cinder_k2.array import system
from cinder_k2.array import volumes
from cinder_k2 import rest

S = TypeVar('S')
T = TypeVar('T')

# Seconds for one step of cleanup. Short: if the array is lost, cleanup is
# impossible too, and a caller is waiting.
_CLEANUP_SECONDS = 30.0
# Seconds for a probe that nothing depends on.
_PROBE_SECONDS = 5.0


class Array:
    """An array behind one management address.

    :param client: the REST client of that address
    :param retention_policy: name of the policy for snapshots (RET-1)
    :param replication_policy: name of the policy for replication snapshots
        (REP-2)
    :param host_type: type of the hosts that the driver creates (section 5.1)
    """

    def __init__(self, client: rest.Client, retention_policy: str,
                 replication_policy: str = replication.POLICY,
                 host_type: str = hosts.TYPE) -> None:
        self._client = client
        self.address = client.address
        self.system = system.System(client)
        self.volumes = volumes.Volumes(client)
        self.snapshots = snapshots.Snapshots(client, retention_policy)
        self.groups = groups.Groups(client, self.volumes)
        self.deferred = deferred_deletion.DeferredDeletion(
            client, self.volumes, self.snapshots)
        self.iscsi_hosts = hosts.Hosts(client, host_identity.IQN, host_type)
        self.fc_hosts = hosts.Hosts(client, host_identity.PWWN, host_type)
        self.mappings = mappings.Mappings(client)
        self.identity = identity.Identity(client)
        self.names = names.Names(client)
        self.inventory = inventory.Inventory(client)
        self.original_names = original_names.OriginalNames(client)
        self.chap = chap.Profiles(client)
        self.replication = replication.Replication(client,
                                                   replication_policy)

    def deadline(self, *, fresh: bool = False
                 ) -> contextlib.AbstractContextManager[object]:
        """The client's deadline, for all calls within the context.

        :param fresh: ignore the remaining time of an enclosing deadline
        """
        return self._client.deadline(fresh=fresh)

    def concurrently(self, first: Callable[[], T], second: Callable[[], S]
                     ) -> tuple[T, S]:
        """Carry out two reads concurrently; see the client."""
        return self._client.concurrently(first, second)

    def shown(self, find: Callable[[], T | None]) -> T | None:
        """Search for an object that may show late; see ``volumes.shown``."""
        return volumes.shown(self._client, find)

    def probe_deadline(self) -> contextlib.AbstractContextManager[object]:
        """Allow five seconds, to probe an array that may be lost."""
        return self._client.deadline(_PROBE_SECONDS, fresh=True)

    def cleanup_deadline(self) -> contextlib.AbstractContextManager[object]:
        """Allow 30 seconds for cleanup, even if the operation's time is up."""
        return self._client.deadline(_CLEANUP_SECONDS, fresh=True)
