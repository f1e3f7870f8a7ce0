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

"""Attaching snapshots, which is how backups read them."""

import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver import locks
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport

LOG = logging.getLogger(__name__)


class SnapshotConnections:
    """Attaches snapshots through a temporary view (SNP-8).

    The view is created for the first host and deleted after the last.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 sources: clone_sources.CloneSources,
                 attaching: attach.Attach, detaching: detach.Detach) -> None:
        self._array = array
        self._resolver = known
        self._sources = sources
        self._attach = attaching
        self._detach = detaching

    def initialize_connection_snapshot(
            self, snapshot: typing.Any, connector: transport.Connector,
            **kwargs: typing.Any) -> dict[str, typing.Any]:
        """Map a snapshot to a host; returns its connection properties."""
        with locks.snapshot(snapshot.id), self._array.deadline(fresh=True):
            view = self.temporary_view(snapshot)
            try:
                return self._attach.connect_backing(
                    NamedVolume(view, [naming.temporary_view(snapshot.id)]),
                    connector)
            except Exception:
                self.drop_quietly(view, snapshot)
                raise

    def terminate_connection_snapshot(
            self, snapshot: typing.Any,
            connector: transport.Connector | None,
            **kwargs: typing.Any) -> dict[str, typing.Any] | bool:
        """Unmap a snapshot from a host; without a connector, from all hosts.

        :returns: the transport's report
        """
        with locks.snapshot(snapshot.id), self._array.deadline(fresh=True):
            found = self._array.snapshots.find_view(
                naming.temporary_view(snapshot.id))
            if found is None:
                return False
            view = ArrayVolume(group=found[1], view=found[0])
            if connector:
                done = self._detach.disconnect_backing(view, connector)
            else:
                done = self._detach.disconnect_all(view)
            self._drop_if_unused(view, snapshot)
            return self._detach.report(done)

    def temporary_view(self, snapshot: typing.Any) -> ArrayVolume:
        """The view of a snapshot, created if it is missing."""
        name = naming.temporary_view(snapshot.id)
        taken = self._resolver.confirm_snapshot(
            snapshot, self._sources.taken(snapshot))
        return (self._array.snapshots.view_of(taken, name)
                or self._array.snapshots.create_view(
                    name, taken, lasting=False))

    def drop_quietly(self, view: ArrayVolume, snapshot: typing.Any) -> None:
        """Delete a view that is not mapped; an error is only logged."""
        try:
            with self._array.cleanup_deadline():
                self._drop_if_unused(view, snapshot)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('View %(view)s may be left on the array: %(error)s',
                        {'view': view.view, 'error': error})

    def _drop_if_unused(self, view: ArrayVolume, snapshot: typing.Any) -> None:
        try:
            self._array.snapshots.delete(
                view.mappable.id, view.group,
                [naming.temporary_view(snapshot.id)])
        except exceptions.StillMapped:
            # Another host reads it.
            pass
