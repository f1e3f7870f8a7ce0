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

"""Database rows without a database.

A row has the attributes and methods of Cinder's object and no others, so a
misspelled one raises AttributeError. Values that a test does not set are those
of an idle row; each can be overridden by name.
"""

import datetime
import functools
from unittest import mock

from cinder import objects

from cinder_k2.driver.db import provider_id

SYSTEM = 'sys-1'
VOLUME_ID = '11111111-aaaa-4aaa-8aaa-111111111111'
SNAPSHOT_ID = '22222222-bbbb-4bbb-8bbb-222222222222'
GROUP_ID = '33333333-cccc-4ccc-8ccc-333333333333'
GROUP_SNAPSHOT_ID = '44444444-dddd-4ddd-8ddd-444444444444'
CREATED = datetime.datetime(2024, 5, 6, 7, 8, 9)


def volume(backing=None, *, system=SYSTEM, **values):
    """Return a volume.

    :param backing: the object in its provider_id; None for no provider_id
    :param system: the array in its provider_id
    """
    values = {
        'id': VOLUME_ID, 'status': 'available', 'size': 2,
        'host': 'host@k2#pool', 'attach_status': 'detached',
        'volume_type': None, 'volume_type_id': None, 'group': None,
        'group_id': None, 'snapshot_id': None, 'source_volid': None,
        'migration_status': None, 'replication_status': None,
        'replication_driver_data': None, 'multiattach': False,
        'volume_attachment': [], 'admin_metadata': {}, 'metadata': {},
        'created_at': CREATED, 'launched_at': CREATED, **values}
    values.setdefault('name_id', values['id'])
    values.setdefault('provider_id', backing and provider_id.encode(
        system, backing, values['name_id']))
    return _row(objects.Volume, values)


def snapshot(source=None, backing=None, *, system=SYSTEM, **values):
    """Return a snapshot.

    :param source: the row of its volume; a new one by default
    :param backing: the object in its provider_id; None for no provider_id
    :param system: the array in its provider_id
    """
    source = source or volume()
    return _row(objects.Snapshot, {
        'id': SNAPSHOT_ID, 'status': 'available', 'volume': source,
        'volume_id': source.id, 'volume_size': source.size,
        'group_snapshot_id': None, 'group_snapshot': None, 'metadata': {},
        'created_at': CREATED, 'provider_id': backing and provider_id.encode(
            system, backing), **values})


def group(volumes=(), **values):
    """Return a group with the given volumes as members."""
    made = _row(objects.Group, {
        'id': GROUP_ID, 'status': 'available', 'replication_status': None,
        'group_type_id': 'group-type',
        'volume_types': [], 'volumes': list(volumes),
        'host': 'host@k2#pool', 'created_at': CREATED, **values})
    for member in volumes:
        member.group, member.group_id = made, made.id
    return made


def group_snapshot(source=None, snapshots=(), **values):
    """Return a group snapshot.

    :param source: the row of its group; a new one by default
    """
    source = source or group()
    return _row(objects.GroupSnapshot, {
        'id': GROUP_SNAPSHOT_ID, 'status': 'available', 'group': source,
        'group_id': source.id, 'group_type_id': source.group_type_id,
        'snapshots': list(snapshots), 'created_at': CREATED, **values})


def volume_type(extra_specs=None, **values):
    """Return a volume type."""
    return _row(objects.VolumeType, {
        'id': 'type', 'name': 'a type', 'extra_specs': extra_specs or {},
        **values})


class _Row(mock.NonCallableMock):

    def __getitem__(self, name):
        """Support item access, as Cinder's objects do."""
        return getattr(self, name)


def _row(kind, values):
    names = _names(kind)
    unknown = values.keys() - set(names)
    if unknown:
        raise AttributeError(f'{kind.__name__} has no {sorted(unknown)}')
    row = _Row(spec=names, **values)
    row._context = mock.sentinel.context
    return row


@functools.cache
def _names(kind):
    return dir(kind)
