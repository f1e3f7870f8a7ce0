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

"""Changing the type of a volume, and moving it between back ends.

How Cinder moves a volume to another back end, or retypes it when the array
cannot do that in place: it creates a new row with a new volume, copies the
data (nova does, for an attached volume), and asks the driver of the new volume
for update_migrated_volume. Then it swaps provider_id, host and more between
the rows, so that the old row has the new volume, and deletes the new row,
which has the old one. Then the volume is named by ``name_id``, not by the id
of the row.
"""

from collections.abc import Mapping
import typing

from oslo_log import log as logging
from oslo_utils import excutils

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as array_replication
from cinder_k2.driver import location
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import renames
from cinder_k2.flows import replication as flows
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)


class Migration:
    """Retypes and migrates volumes where the data need not be copied.

    For everything else the methods return False, and Cinder copies.
    """

    def __init__(self, array: Array, known: resolver.Resolver,
                 sessions: replication.Replication,
                 flattening: flatten.Flattening) -> None:
        self._array = array
        self._resolver = known
        self._replication = sessions
        self._flattening = flattening

    def retype(self, context: typing.Any, volume: typing.Any,
               new_type: typing.Any, diff: Mapping[str, typing.Any],
               host: Mapping[str, typing.Any]
               ) -> bool | tuple[bool, resolver.ModelUpdate]:
        """Retype a volume in place. No call, or those for replication.

        A change between dedup and nodedup needs a new volume (VG-4). QoS of
        hypervisors is read when a volume is attached; the array has none.

        :param diff: the differences, as in cinder.volume.volume_types
        :param host: this back end
        :raises InvalidExtraSpec: an extra spec of the new type has an unknown
            value, or asks for something unsupported
        """
        wanted = volume_types.parse(new_type.extra_specs or {})
        if wanted.dedup == self._dedup(volume) and not _wants_qos(diff):
            return self._change_replication(volume, wanted)
        LOG.info('Volume %(id)s cannot get type %(type)s where it is: the '
                 'array neither changes dedup of a volume nor has QoS. '
                 'Migration policy "on-demand" lets Cinder copy it.',
                 {'id': volume.id, 'type': new_type.name})
        return False

    def _change_replication(self, volume: typing.Any,
                            wanted: volume_types.TypeSpec
                            ) -> tuple[bool, resolver.ModelUpdate]:
        """Enable or disable replication, or change its target or rpo.

        Volumes of groups do not get here: Cinder does not retype them. The
        update includes a status, because otherwise Cinder would derive one
        from an extra spec that may not be the relevant one.
        """
        has = self._replication.is_replicated(volume)
        if not wanted.replicated:
            if has:
                self._replication.unprotect_for_good(
                    volume, self._resolver.find(volume))
            return True, dict(replication.VOLUME_DISABLED)
        link = self._replication.link(wanted)
        if not (has and self._resolver.asks_for_replication(volume)):
            # It is not replicated, or an earlier retype to a replicated type
            # was interrupted.
            self._replication.protect(
                volume, self._resolver.confirm(volume, self._flattening.full(
                    volume, 'which the array cannot replicate')), link)
            return True, dict(replication.VOLUME_ENABLED)
        self._replication.check_target(wanted.target)
        session = self._array.replication.find(
            *naming.session_names(volume.name_id))
        if (session is None or session.peer is None
                or link.is_number(session.peer)):
            self._change_rpo(session, link.rpo)
            # It may be failed over, or in error without a session.
            return True, {'replication_status': volume.replication_status}
        self._redirect(volume, link, self._replication.link_with(session))
        return True, dict(replication.VOLUME_ENABLED)

    def _change_rpo(self, session: array_replication.Session | None,
                    rpo: int) -> None:
        """Give a session, if there is one, another rpo. One call or none.

        :param rpo: seconds
        :raises ReplicationError: the volume is on the other array
        """
        if session is None or session.rpo in (None, rpo):
            return
        if session.role != array_replication.SOURCE:
            raise exceptions.ReplicationError(
                f'Replication session {session.name} has an rpo of '
                f'{session.rpo} seconds, not {rpo}. It can be changed where '
                'it was made only: fail back first.')
        self._array.replication.set_rpo(session, rpo)

    def _redirect(self, volume: typing.Any, link: flows.Link,
                  before: flows.Link | None) -> None:
        """Replicate a volume to another array than before.

        If that fails, it is replicated to the former one again.

        :param before: the link to the former one, None if that is not in
            cinder.conf any more
        """
        self._replication.unprotect_for_good(
            volume, self._resolver.find(volume))
        try:
            with self._array.deadline(fresh=True):
                self._replication.protect(
                    volume, self._resolver.find(volume), link)
        except Exception:
            with excutils.save_and_reraise_exception():
                self._return_to(volume, before)

    def _return_to(self, volume: typing.Any, link: flows.Link | None
                   ) -> None:
        try:
            if link is None:
                raise exceptions.ReplicationError(
                    'Its former target is no replication_device any more.')
            with self._array.deadline(fresh=True):
                self._replication.protect(
                    volume, self._resolver.find(volume), link)
        except (rest.RestError, exceptions.K2Error) as error:
            self._replication.tell_unprotected([volume], error)

    def _dedup(self, volume: typing.Any) -> bool | None:
        """The deduplication of a volume; None if its type does not show it."""
        kind = volume.volume_type
        try:
            return volume_types.dedup_of((kind and kind.extra_specs) or {})
        except volume_types.InvalidExtraSpec:
            return None

    def migrate_volume(self, context: typing.Any, volume: typing.Any,
                       host: Mapping[str, typing.Any]
                       ) -> tuple[bool, resolver.ModelUpdate | None]:
        """Transfer a detached volume to a back end on this array. No call.

        Cinder saves the update after this has returned. An earlier flattening
        is waited for; a later one sees in the row that the volume is migrated,
        and is refused.

        :param host: the other back end, with its ``capabilities``
        :returns: whether it has the volume now, and the update of the row
        :raises ObjectInUse: it is being flattened
        """
        if (volume.volume_attachment or volume.group_id
                or not self._is_host_here(host)):
            return False, None
        with self._resolver.held(volume):
            backing = self._resolver.resolve(volume)
        if backing.replicated:
            # The other back end may not have the peer configured.
            return False, None
        return True, self._resolver.ids(backing, volume.name_id)

    def _is_host_here(self, host: Mapping[str, typing.Any]) -> bool:
        """Whether a back end is on this array."""
        told = (host.get('capabilities') or {}).get('location_info')
        return location.system_of(told) == self._array.system.id

    def update_migrated_volume(self, ctxt: typing.Any, volume: typing.Any,
                               new_volume: typing.Any,
                               original_volume_status: str
                               ) -> resolver.ModelUpdate:
        """Return the update that makes ``volume``'s row use ``new_volume``.

        The new volume gets the names that go with the id of that row, which
        takes five calls, unless the old volume may have them. It keeps its own
        names if that fails.
        """
        # Both keys always: Cinder gives the old values of these to the row
        # that the driver of the old volume deletes. The location is a copy of
        # that driver's, not ours.
        taken = self._take_names(volume, new_volume)
        return {'_name_id': None if taken else new_volume.name_id,
                'provider_location': None}

    def _take_names(self, volume: typing.Any,
                    new_volume: typing.Any) -> bool:
        """Rename the array volume of ``new_volume``; whether it was done."""
        known = self._resolver.known(new_volume)
        if (known is None or known.replicated
                or self._resolver.known(volume) is not None):
            return False
        try:
            # The in-tree driver may have given it the name already.
            known = self._resolver.confirm(new_volume, known, naming.volume(
                volume.id))
            if not self._are_free(volume.id, known):
                return False
            self._rename(known, new_volume.name_id, volume.id)
        except Exception as error:
            LOG.warning('Volume %(id)s has the name %(name)s on the array, '
                        'not that of its id, which does no harm: %(error)s',
                        {'id': volume.id, 'error': error,
                         'name': naming.volume(new_volume.name_id)})
            return False
        # From now on the ids belong to the other row. Cinder saves this
        # together with the names.
        new_volume.update(self._resolver.ids(known, volume.id))
        return True

    def _are_free(self, volume_id: str, backing: ArrayVolume) -> bool:
        """Whether only this volume may have the names with that id."""
        volumes = self._array.volumes
        named = volumes.find(naming.volume(volume_id))
        group = volumes.find_group(naming.volume_group(volume_id))
        return ((named is None or named.volume == backing.volume)
                and group in (None, backing.group))

    def _rename(self, backing: ArrayVolume, before: str, after: str) -> None:
        renames.rename(
            self._array, backing,
            name=naming.volume(after), old_name=naming.volume(before),
            group_name=naming.volume_group(after),
            old_group_name=naming.volume_group(before))


def _wants_qos(diff: Mapping[str, typing.Any]) -> bool:
    """Whether QoS specs differ that the back end would have to enforce."""
    specs = diff.get('qos_specs') or {}
    return (any(old != new for old, new in specs.values())
            and not {'back-end', 'both'}.isdisjoint(specs.get(
                'consumer', ())))
