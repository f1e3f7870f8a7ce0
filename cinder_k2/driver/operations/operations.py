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

"""All operations on one array, by subject."""

from collections.abc import Callable
import functools
import typing

from cinder_k2.array import Array
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver import locks
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import group_replication
from cinder_k2.driver.operations import group_update
from cinder_k2.driver.operations import groups
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import migration
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import purge
from cinder_k2.driver.operations import reconciliation
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import replication_monitor
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import revert
from cinder_k2.driver.operations import snapshot_connections
from cinder_k2.driver.operations import unmanaging
from cinder_k2.driver.operations import volumes
from cinder_k2.flows import clones
from cinder_k2 import rest


class ArrayOperations:
    """The operations on one array. Only wires the parts together.

    Methods that implement Cinder's driver interface (cinder.interface) have
    its names; ``volume`` and ``snapshot`` are Cinder's versioned objects, with
    sizes in GiB. The methods raise the errors of the layers below;
    ``cinder_k2.driver.base`` translates these, and decides which array a call
    goes to.

    :param driver: the Cinder driver that this belongs to, with its
        configuration
    :param client: the REST client of the array
    :param fabric: returns transport, zoning and CHAP for an array
    """

    def __init__(self, driver: typing.Any, client: rest.Client,
                 fabric: Callable[[Array], host_access.Fabric]) -> None:
        conf = driver.configuration
        self._client = client
        self._timeout = conf.k2_connect_timeout + conf.k2_read_timeout
        self.array = array = Array(
            client, conf.k2_retention_policy,
            conf.k2_replication_retention_policy, conf.k2_host_type)
        self.peers: dict[str, resolver.Peer] = {}
        reached_by = fabric(array)
        self.transport = reached_by.transport
        self.resolver = known = resolver.Resolver(array, self.peers)
        rows = backend_rows.BackendRows(driver)
        hosts = host_access.HostAccess(array, self.transport,
                                       conf.unique_fqdn_network)
        self.detach = detach.Detach(array, known, reached_by, hosts)
        self.attach = attach.Attach(
            array, known, conf, reached_by, hosts, self.detach)
        self.reconciliation = reconciliation.Reconciliation(
            array, client, known, self.transport, self.detach, rows,
            conf.k2_reconciliation_interval)
        self.replication = replication.Replication(array, known, rows)
        self.unmanaging = unmanaging.Unmanaging(
            array, known, self.detach, self.replication, conf)
        self.deletion = deletion.Deletion(
            array, known, self.detach, self.replication, self.unmanaging)
        copies = host_copy.HostCopy(array, self.attach, self.detach, driver)
        flattening = flatten.Flattening(
            array, known, self.detach, self.deletion, copies)
        sources = clone_sources.CloneSources(
            array, known, self.replication, conf.k2_clone_strategies)
        self.cloner = clones.Cloner(
            array, copies.copy, functools.partial(locks.group_on, array),
            functools.partial(purge.run, array))
        self.volumes = volumes.Volumes(
            array, known, placement.Placement(array), sources, self.cloner,
            self.replication, self.deletion, flattening)
        self.snapshot_connections = snapshot_connections.SnapshotConnections(
            array, known, sources, self.attach, self.detach)
        self.revert = revert.Revert(
            array, known, sources, self.snapshot_connections, copies,
            self.deletion, driver)
        self.migration = migration.Migration(
            array, known, self.replication, flattening)
        self.manage = manage.Manage(array, known, self.replication)
        self.groups = groups.Groups(
            array, known, sources, self.cloner, self.deletion)
        self.group_update = group_update.GroupUpdate(array, known, flattening)
        self.group_replication = group_replication.GroupReplication(
            array, known, self.groups, self.replication, self.deletion,
            flattening)
        self.monitor = replication_monitor.ReplicationMonitor(
            array, client, known, self.replication, rows)

    def meet(self, peer: resolver.Peer) -> None:
        """Allow volumes of this array to be replicated to another."""
        self.peers[peer.backend_id] = peer

    def check(self) -> None:
        """Check that the array is usable for this back end. Three calls.

        :raises RestError, K2Error: it is not
        """
        with self._client.deadline(self._timeout):
            self.array.system.check()
            self.array.snapshots.check()
            self.transport.check(self.array)
