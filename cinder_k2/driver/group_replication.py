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
"""Replication of groups of volumes, and a watch over all of it.

A consistency group has one session, and all its volumes fail over at one
instant. Volumes of other groups have a session each. Which volumes a
consistency group has cannot change while it is replicated (REP-5).
"""

from collections.abc import Iterable
from collections.abc import Sequence
import typing

from oslo_log import log as logging

from cinder_k2.array import Backing
from cinder_k2.driver import errors
from cinder_k2.driver import groups
from cinder_k2.driver import lookup
from cinder_k2.driver import membership
from cinder_k2.driver import replication
from cinder_k2 import exceptions
from cinder_k2.flows import replication as flows
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)

Updates = list[lookup.ModelUpdate]
Pairs = Sequence[tuple[typing.Any, Backing]]


class GroupReplicationMixin(groups.GroupsMixin):
    """Enables and disables the replication of groups."""

    @errors.operation
    def enable_replication(self, context: typing.Any, group: typing.Any,
                           volumes: Sequence[typing.Any]
                           ) -> tuple[lookup.ModelUpdate, Updates]:
        """Replicate all volumes of a group, or none.

        :returns: the updates of the group, and of its volumes
        :raises InvalidGroup: its volumes are to go to different places, or
            are not where the array needs them
        """
        pairs = self._pairs(group, volumes)
        new = [pair for pair in pairs if not pair[1].replicated]
        link = self._link_of(volumes)
        if link is not None and new:
            if membership.is_consistent(group):
                self._start_group(group, pairs, link)
            else:
                self._start_each(new, link)
        return dict(replication.ENABLED), _all(
            volumes, replication.VOLUME_ENABLED)

    @errors.operation
    def disable_replication(self, context: typing.Any, group: typing.Any,
                            volumes: Sequence[typing.Any]
                            ) -> tuple[lookup.ModelUpdate, Updates]:
        """End the replication of a group; its copies are deleted."""
        self._end_group(group, volumes)
        return dict(replication.DISABLED), _all(
            volumes, replication.VOLUME_DISABLED)

    # On

    def _pairs(self, group: typing.Any, volumes: Sequence[typing.Any]
               ) -> Pairs:
        if membership.is_consistent(group):
            return list(zip(volumes, self._members(volumes) if volumes
                            else [], strict=True))
        return [(volume, self._full(volume, 'which the array cannot '
                                    'replicate')) for volume in volumes]

    def _link_of(self, volumes: Sequence[typing.Any]) -> flows.Link | None:
        """Where the volumes of a group are to be replicated to.

        :returns: None without volumes
        :raises GroupUnsuitable: to different places, by their types
        """
        links = {self._link(self._type_spec(volume)) for volume in volumes}
        if len(links) > 1:
            raise exceptions.GroupUnsuitable(
                'the types of its volumes differ in '
                f'{volume_types.TARGET.key} or {volume_types.RPO.key}, which '
                'are one for all volumes of a replicated group.')
        return next(iter(links), None)

    def _start_group(self, group: typing.Any, pairs: Pairs,
                     link: flows.Link) -> None:
        number, name = pairs[0][1].group, naming.consistency_group(group.id)
        order = flows.Order(
            link, self._session_name(group.id, number, name), number, name,
            [self._member(*pair) for pair in pairs])
        with self._noted(pairs, order):
            self._begin([volume for volume, _ in pairs], order)

    def _start_each(self, pairs: Pairs, link: flows.Link) -> None:
        done: list[typing.Any] = []
        try:
            for volume, backing in pairs:
                with self.deadline(fresh=True):
                    self._protect(volume, backing, link)
                done.append((volume, backing))
        except Exception:
            for volume, backing in done:
                self._take_back_protection(volume, backing)
            raise

    def _take_back_protection(self, volume: typing.Any, backing: Backing
                              ) -> None:
        try:
            with self.deadline(fresh=True):
                self._unprotect_for_good(volume, backing)
        except (rest.RestError, exceptions.K2Error) as error:
            LOG.warning('Volume %(id)s stays replicated, though its group '
                        'is not: %(error)s', {'id': volume.id,
                                              'error': error})

    # Off

    def _end_group(self, group: typing.Any, volumes: Sequence[typing.Any]
                   ) -> None:
        known = [(volume, backing) for volume in volumes
                 if (backing := self._made(volume)) and backing.replicated]
        if not membership.is_consistent(group):
            for volume, backing in known:
                with self.deadline(fresh=True):
                    self._unprotect_for_good(volume, backing)
        elif known:
            self._end_session(group, volumes, known)

    def _made(self, volume: typing.Any) -> Backing | None:
        """What backs a volume; None for one that was never made."""
        try:
            return self._backing(volume)
        except exceptions.ObjectMissing:
            return None

    def _end_session(self, group: typing.Any, volumes: Sequence[typing.Any],
                     known: Pairs) -> None:
        """End that of a consistency group, and have its rows say so."""
        self._end(group.id, known[0][1].group,
                  naming.consistency_group(group.id),
                  {volume.name_id: volume for volume in volumes})
        with self.deadline(fresh=True):
            for volume, backing in known:
                self._note(volume, backing, replicated=False, reserved=False)

    # Away

    @errors.operation
    def delete_group(self, context: typing.Any, group: typing.Any,
                     volumes: Sequence[typing.Any]
                     ) -> tuple[lookup.ModelUpdate, Updates]:
        """Delete a group and its volumes, after ending their replication.

        A group of which one volume has to stay remains replicated.

        :returns: as for one that is not replicated
        """
        membership.check_consistent(group)
        known = [(volume, backing) for volume in volumes if (
            backing := self._known_backing(volume)) and backing.replicated]
        if not known:
            return super().delete_group(context, group, volumes)
        try:
            for _, backing in known:
                self._check_deletable(backing)
            self._end_session(group, volumes, known)
        except exceptions.ObjectInUse as error:
            LOG.error('Group %(id)s stays: %(why)s',
                      {'id': group.id, 'why': error})
            return {'status': 'error'}, _all(volumes, {'status': 'available'})
        of_group, of_volumes = super().delete_group(context, group, volumes)
        return {**of_group, **replication.DISABLED}, [
            {**update, **replication.DISABLED} for update in of_volumes]


def _all(rows: Iterable[typing.Any], update: lookup.ModelUpdate) -> Updates:
    return [{'id': row.id, **update} for row in rows]
