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

"""Removing mappings that nothing needs any more.

Two detaches of one host may each see the other's row, so both leave the
mapping in place; and a row that does not show its host keeps all mappings of
its volume. Such a mapping is removed within one interval: it is checked three
times per interval, and removed at the second consecutive check that finds no
user in Cinder's rows. These show a user before anything is mapped and as long
as it is: an attachment by its row, a connection of Cinder itself by the status
of the volume, or of its migration.

Checks run when Cinder asks for statistics. They need no call to the array
unless there is something to remove.
"""

from collections.abc import Callable
from collections.abc import Iterable
import math
import typing

from oslo_log import log as logging

from cinder_k2.array import Array
from cinder_k2.array import host_identity
from cinder_k2.driver.db import attachments
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import transport as transports

LOG = logging.getLogger(__name__)

# A mapping that was kept just after a check is there at the next two.
_LOOKS = 3
# Intervals from one search on the array to the next, for mappings that other
# services kept before they were stopped.
_SEARCH_EVERY = 6
# Cinder's statistics wait meanwhile. Seconds to wait for a busy host; seconds
# after which no other mapping is removed until the next check.
_WAIT, _TIME = 1.0, 1.0
_AT_REST = ('available', 'in-use')
_UNMOVED = (None, 'error', 'success')


class Reconciliation:
    """Compares mappings that were kept on an array with Cinder's rows.

    :param interval: seconds within which an unused mapping is removed
    """

    def __init__(self, array: Array, client: rest.Client,
                 known: resolver.Resolver, transport: transports.Transport,
                 detaching: detach.Detach,
                 rows: backend_rows.BackendRows, interval: float) -> None:
        self._array = array
        self._client = client
        self._resolver = known
        self._transport = transport
        self._detach = detaching
        self._kept = detaching.kept
        self._backend_rows = rows
        self._interval = interval
        self._users = attachments.Attachments(transport)
        self._next_look = self._next_search = -math.inf
        # The mappings without a user at the last check, and when their removal
        # was last tried.
        self._unneeded: dict[kept.Mapping, float] = {}

    def run(self) -> None:
        """Check, if a third of the interval has passed since the last check.

        No call while no mapping is kept, except for ``_search`` at the first
        check and every six intervals.
        """
        now = self._client.clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._interval / _LOOKS
        if now >= self._next_search:
            has_searched = self._try(self._search)
            self._next_search = now + self._interval * (
                _SEARCH_EVERY if has_searched else 1)
            if not has_searched:
                # Removing mappings would take as long.
                return
        # What is compared with rows needs the id of the array. It is read from
        # the array after a while, which may be lost by now.
        if not self._kept.every() or self._try(lambda: self._array.system.id):
            self._look()

    def _look(self) -> None:
        mappings = self._kept.every()
        before, self._unneeded = self._unneeded, dict.fromkeys(
            self._without_use(mappings) if mappings else (), -math.inf)
        known = self._unneeded.keys() & before.keys()
        self._unneeded |= {mapping: before[mapping] for mapping in known}
        end = self._client.clock.monotonic() + _TIME
        # What was tried last comes last, so that mappings whose removal fails
        # do not use up the time of all others.
        for mapping in sorted(known, key=before.__getitem__):
            self._unneeded[mapping] = self._client.clock.monotonic()
            self._remove(mapping)
            if self._client.clock.monotonic() >= end:
                break

    def _without_use(self, mappings: Iterable[kept.Mapping]
                     ) -> list[kept.Mapping]:
        """The unused mappings. Those whose row has another object are dropped.

        So are those of volumes that are no longer on this array.
        """
        rows = self._rows({one.volume_id for one in mappings})
        unneeded = []
        for mapping in mappings:
            row = rows.get(mapping.volume_id)
            if row is None or not self._has(row, mapping):
                self._kept.drop(mapping)
            elif self._is_unneeded(row, mapping):
                unneeded.append(mapping)
        return unneeded

    def _rows(self, ids: Iterable[str]) -> dict[str, typing.Any]:
        return {row.id: row for row
                in self._backend_rows.volumes({'id': list(ids)})}

    def _has(self, volume: typing.Any, mapping: kept.Mapping) -> bool:
        """Whether a row may still own the mapped object.

        If the row has no ids, the object is looked up by its name before it is
        unmapped.
        """
        known = self._resolver.known(volume)
        return (volume.provider_id is None if known is None
                else known.mappable == mapping.mappable)

    def _is_unneeded(self, volume: typing.Any, mapping: kept.Mapping) -> bool:
        return (_is_at_rest(volume) and not self._is_handled(volume)
                and not self._users.may_use(volume, mapping.initiators)
                and not self._backend_rows.is_moving(volume))

    def _is_handled(self, volume: typing.Any) -> bool:
        """Whether the driver is replacing or moving a volume's data."""
        known = self._resolver.known(volume)
        return known is not None and (
            known.failback_in_progress or known.regrouping or known.flattening)

    def _remove(self, mapping: kept.Mapping) -> None:
        """Remove a mapping, if that is still right when the host is held."""
        def unneeded() -> typing.Any:
            row = self._rows([mapping.volume_id]).get(mapping.volume_id)
            if row is None or not self._is_unneeded(row, mapping):
                return None
            return row
        try:
            if self._detach.disconnect_kept(mapping, unneeded, _WAIT):
                LOG.info('Volume %(id)s is no longer kept mapped to host '
                         '%(host)s for another attachment: that is gone.', {
                             'host': ', '.join(mapping.initiators),
                             'id': mapping.volume_id})
        except Exception as error:
            # Also errors of the fabric. It is retried at the next check.
            LOG.warning('A mapping of volume %(id)s that nothing needs stays '
                        'on the array at %(address)s for now: %(error)s', {
                            'id': mapping.volume_id, 'error': error,
                            'address': self._array.address})

    # Mappings that a service kept before it was stopped

    def _try(self, read: Callable[[], object]) -> bool:
        """Read from the array, which may be lost; whether that succeeded."""
        try:
            with self._array.probe_deadline():
                read()
            return True
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Whether mappings are left on the array at '
                        '%(address)s that nothing needs is not known: '
                        '%(error)s', {'address': self._array.address,
                                      'error': error})
            return False

    def _search(self) -> None:
        """Search the array for unused mappings that a detach may have kept.

        Only for those of multiattach volumes to hosts that this driver
        created. No call without such volumes; else two, and one for each host
        that is found.
        """
        volumes = {known.mappable: row for row in self._backend_rows.volumes(
            {'multiattach': True}) if _was_never_migrated(row)
            and (known := self._resolver.known(row)) is not None}
        if not volumes:
            return
        registry = self._transport.hosts(self._array)
        mapped = self._array.mappings.by_host(
            self._array.mappings.of_volumes(*volumes), groups_too=False)
        initiators = registry.initiators_of(mapped) if mapped else {}
        for host, names in initiators.items():
            found = [mapping for mapping in (
                kept.Mapping(volumes[one.volume].id, one.volume,
                             host_identity.Sought(tuple(sorted(names))))
                for one in mapped.get(host, ()) if one.volume in volumes)
                if self._is_unneeded(volumes[mapping.mappable], mapping)]
            if found and registry.ours(host) is not None:
                for mapping in found:
                    self._kept.add(mapping)


def _is_at_rest(volume: typing.Any) -> bool:
    """Whether Cinder itself does not use a volume."""
    return (volume.status in _AT_REST
            and volume.migration_status in _UNMOVED)


def _was_never_migrated(volume: typing.Any) -> bool:
    """Whether a volume has its original data.

    At the end of a migration its attachments briefly belong to another row.
    """
    return (volume.migration_status is None
            and volume.name_id == volume.id)
