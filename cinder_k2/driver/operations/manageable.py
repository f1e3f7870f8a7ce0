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

"""References of operators, and entries of the lists of manageable objects."""

import datetime
import typing

from cinder_k2.array import inventory
from cinder_k2.driver.db import ownership
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import volume_types

Entry = dict[str, typing.Any]


def reference(existing_ref: typing.Any) -> inventory.Reference:
    """Read an operator's reference to an object.

    :raises NotManageable: it has another form
    """
    known = {'source-name', 'source-id'}
    if (not isinstance(existing_ref, dict) or len(existing_ref) != 1
            or not known.issuperset(existing_ref)):
        raise exceptions.NotManageable(
            'give either source-name or source-id, and nothing else')
    name = existing_ref.get('source-name')
    if name is not None and str(name):
        return inventory.Reference(name=str(name))
    number = str(existing_ref.get('source-id', ''))
    if number.isascii() and number.isdecimal():
        return inventory.Reference(id=int(number))
    raise exceptions.NotManageable(
        'source-name is a name on the array, source-id the number that the '
        'array has for the object')


def check(reasons: list[str]) -> None:
    """Check that there is no reason against managing an object.

    :raises NotManageable: with all reasons
    """
    if reasons:
        raise exceptions.NotManageable(_joined(reasons))


def volume_entry(found: inventory.FoundVolume, owners: ownership.Ownership
                 ) -> Entry:
    """A volume in the list of get_manageable_volumes."""
    volume, group = found.volume, found.group
    extra = {'source-id': str(volume.id), 'volume_group': group.name,
             'snapshots': str(group.snapshots_count or 0),
             volume_types.DEDUP.key:
                 volume_types.DEDUP_WORDS[group.is_dedup is not False]}
    owner = owners.of(volume.ref, volume.name)
    if owner is None and naming.is_volume(volume.name):
        extra['note'] = ('named by a Cinder, maybe another one that still '
                         'has it')
    return _entry({'source-name': volume.name}, volume.size, owner,
                  found.reasons(), extra)


def is_of_ours(found: inventory.FoundSnapshot,
               sources: ownership.Ownership) -> bool:
    """Whether a snapshot is of a volume that Cinder has.

    :param sources: owners of the views and volumes that have snapshots
    """
    source = found.snapshot.source
    if source is not None and source.resource == 'snapshots':
        return sources.of(source) is not None
    return any(sources.of(image.source, image.short_name)
               for image in found.images if image.source)


def snapshot_entry(found: inventory.FoundSnapshot, owners: ownership.Ownership,
                   sources: ownership.Ownership) -> Entry:
    """A snapshot in the list of get_manageable_snapshots.

    :param owners: owners of the snapshots
    :param sources: owners of the views and volumes that have snapshots
    """
    snapshot = found.snapshot
    reasons = found.reasons()
    if not is_of_ours(found, sources):
        reasons.append('Cinder does not manage its volume')
    extra = {'source-id': str(snapshot.id)}
    if snapshot.creation_time:
        extra['created_at'] = _when(snapshot.creation_time)
    entry = _entry({'source-name': snapshot.name or ''}, found.size,
                   owners.of(snapshot.ref, snapshot.short_name), reasons,
                   extra)
    return {**entry, 'source_reference': {'source-name': ', '.join(
        i.short_name or '' for i in found.images)}}


def _entry(source: dict[str, str], size: int | None, owner: str | None,
           reasons: list[str], extra: dict[str, str]) -> Entry:
    if owner is not None:
        reasons = ['Cinder manages it already', *reasons]
    return {'reference': source, 'size': inventory.gib(size),
            'safe_to_manage': not reasons,
            'reason_not_safe': _joined(reasons) or None,
            'cinder_id': owner, 'extra_info': extra}


def _joined(reasons: list[str]) -> str:
    return '; '.join(reasons)


def _when(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(
        seconds, datetime.timezone.utc).isoformat(timespec='seconds')
