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

How Cinder moves a volume to another back end, or gives it a type that the
array cannot give it where it is: it makes a new row with a new volume, copies
the data (nova does, for an attached volume), and asks the driver of the new
volume for update_migrated_volume. Then it swaps provider_id, host and more
between the rows, so that the old row has the new volume, and deletes the new
row, which has the old one. The id of a row no longer tells the name of its
volume then; ``name_id`` does.
"""

from collections.abc import Mapping
import typing

from oslo_log import log as logging

from cinder_k2.array import Backing
from cinder_k2.driver import errors
from cinder_k2.driver import lookup
from cinder_k2.driver import stats
from cinder_k2.flows import renames
from cinder_k2 import naming
from cinder_k2 import volume_types

LOG = logging.getLogger(__name__)


class MigrationMixin(lookup.LookupMixin):
    """Retype and migration: what needs no copy of the data is done here.

    For everything else the methods say no, and Cinder copies.
    """

    @errors.operation
    def retype(self, context: typing.Any, volume: typing.Any,
               new_type: typing.Any, diff: Mapping[str, typing.Any],
               host: Mapping[str, typing.Any]) -> bool:
        """Whether a volume has the new type as it is. No call.

        A change between dedup and nodedup is a new volume's (VG-4). QoS that
        hypervisors keep is read when a volume is attached; the array has
        none.

        :param diff: what differs, as cinder.volume.volume_types says
        :param host: this back end
        :raises InvalidVolumeType: an extra spec of the new type has an
            unknown value, or asks for what the driver cannot do
        """
        wanted = volume_types.parse(new_type.extra_specs or {})
        if wanted.dedup == self._dedup(volume) and not _wants_qos(diff):
            return True
        LOG.info('Volume %(id)s cannot get type %(type)s where it is: the '
                 'array neither changes dedup of a volume nor has QoS. '
                 'Migration policy "on-demand" lets Cinder copy it.',
                 {'id': volume.id, 'type': new_type.name})
        return False

    def _dedup(self, volume: typing.Any) -> bool | None:
        """How a volume was made; None if its type does not tell."""
        try:
            return self._type_spec(volume).dedup
        except volume_types.InvalidExtraSpec:
            return None

    @errors.operation
    def migrate_volume(self, context: typing.Any, volume: typing.Any,
                       host: Mapping[str, typing.Any]
                       ) -> tuple[bool, lookup.ModelUpdate | None]:
        """Hand a detached volume to a back end on this array. No call.

        :param host: the other back end, with its ``capabilities``
        :returns: whether it has the volume now, and the update of the row
        """
        if (volume.volume_attachment or volume.group_id
                or not self._is_here(host)):
            return False, None
        return True, self._ids(self._backing(volume), volume.name_id)

    def _is_here(self, host: Mapping[str, typing.Any]) -> bool:
        """Whether a back end is on this array."""
        location = (host.get('capabilities') or {}).get('location_info')
        return stats.system_of(location) == self._array.system.id

    @errors.operation
    def update_migrated_volume(self, ctxt: typing.Any, volume: typing.Any,
                               new_volume: typing.Any,
                               original_volume_status: str
                               ) -> lookup.ModelUpdate:
        """Say what ``volume``'s row needs to have ``new_volume``'s volume.

        The new volume gets the names that go with the id of that row, unless
        the old volume may have them; five calls then, none else. It keeps
        its own names if that fails.
        """
        # Both keys always: Cinder gives the old values of these to the row
        # that the driver of the old volume deletes. The location is not ours
        # but a copy of that driver's.
        taken = self._take_names(volume, new_volume)
        return {'_name_id': None if taken else new_volume.name_id,
                'provider_location': None}

    def _take_names(self, volume: typing.Any,
                    new_volume: typing.Any) -> bool:
        """Rename what backs ``new_volume``; whether it was done."""
        known = self._known_backing(new_volume)
        if known is None or self._known_backing(volume) is not None:
            return False
        try:
            if not self._are_free(volume.id, known):
                return False
            self._rename(known, new_volume.name_id, volume.id)
        except Exception as error:
            LOG.warning('Volume %(id)s has the name %(name)s on the array, '
                        'not that of its id, which does no harm: %(error)s',
                        {'id': volume.id, 'error': error,
                         'name': naming.volume(new_volume.name_id)})
            return False
        # The ids are those of the other row from now on. Cinder saves this
        # together with the names.
        new_volume.update(self._ids(known, volume.id))
        return True

    def _are_free(self, volume_id: str, backing: Backing) -> bool:
        """Whether nothing but this has the names of that id."""
        volumes = self._array.volumes
        named = volumes.find(naming.volume(volume_id))
        group = volumes.find_group(naming.volume_group(volume_id))
        return ((named is None or named.volume == backing.volume)
                and group in (None, backing.group))

    def _rename(self, backing: Backing, before: str, after: str) -> None:
        renames.rename(
            self._array, backing,
            name=naming.volume(after), old_name=naming.volume(before),
            group_name=naming.volume_group(after),
            old_group_name=naming.volume_group(before))


def _wants_qos(diff: Mapping[str, typing.Any]) -> bool:
    """Whether QoS differs that a back end, too, would have to keep."""
    specs = diff.get('qos_specs') or {}
    return (any(old != new for old, new in specs.values())
            and not {'back-end', 'both'}.isdisjoint(specs.get(
                'consumer', ())))
