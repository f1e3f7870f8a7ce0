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

"""Database rows and arrays of a replicated back end, all in memory."""

import contextlib
from unittest import mock

from cinder import exception

from cinder_k2.array import Array
from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups
from cinder_k2.array import replication
from cinder_k2.array import snapshots
from cinder_k2.array import system
from cinder_k2.array import volumes
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.operations import ArrayOperations
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import reconciliation
from cinder_k2.driver.operations import replication_monitor
from cinder_k2.driver.operations import resolver
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import autospec

HERE, THERE = 'here', 'there'
GROUP = 10

ENABLED = 'enabled'
ERROR = 'error'
DISABLED = 'disabled'
FAILED_OVER = 'failed-over'
FAILOVER_ERROR = 'failover-error'


class Row:
    """A database row with the methods of Cinder's versioned objects.

    :ivar stored: the values in the database
    :ivar writes: the values of each attempted update, successful or not
    :ivar on_write: called before each update
    :ivar deleted: whether the row was deleted from the database
    """

    def __init__(self, **values):
        self.__dict__.update(values)
        self.stored = dict(values)
        self.writes = []
        self.on_write = lambda: None
        self.deleted = False
        self._context = {values['id']: self}

    @classmethod
    def get_by_id(cls, context, row_id):
        return cls(**context[row_id].stored)

    @property
    def name_id(self):
        return self._name_id or self.id

    def conditional_update(self, values, expected):
        self.writes.append(dict(values))
        self.on_write()
        if self.deleted or any(self.stored[key] != value
                               for key, value in expected.items()):
            return 0
        self.stored.update(values)
        self.__dict__.update(values)
        return 1

    def refresh(self):
        if self.deleted:
            raise exception.VolumeNotFound(volume_id=self.id)
        self.__dict__.update(self.stored)

    def meanwhile(self, **values):
        """Change the row in the database, as another service would."""
        self.stored.update(values)


def ids(system_id=HERE, name_id='v1', **backing):
    """Return the provider_id of a replicated volume."""
    return provider_id.encode(system_id, ArrayVolume(**{
        'group': GROUP, 'volume': 1, 'replicated': True, **backing}), name_id)


def volume(row_id='v1', system_id=HERE, *, backing=None, **values):
    """Return an available replicated volume; system_id None: no ids."""
    name_id = values.get('_name_id') or row_id
    group = values.get('group')
    return Row(**{
        'id': row_id, '_name_id': None, 'size': 3,
        'provider_id': system_id and ids(system_id, name_id,
                                         **(backing or {})),
        'launched_at': 'today', 'status': 'available',
        'replication_status': ENABLED, 'replication_extended_status': None,
        'migration_status': None, 'volume_attachment': [],
        'volume_type': None, 'snapshot_id': None,
        'group_id': group and group.id, 'group': None, **values})


def group(row_id='g1', *, consistent=True, **values):
    """Return a replicated group."""
    return Row(**{
        'id': row_id, 'consistent': consistent, 'status': 'available',
        'replication_status': ENABLED, 'volumes': [],
        'is_replicated': True, **values})


def volume_type(**specs):
    """Return a volume type with these extra specs, without the prefix."""
    return mock.Mock(extra_specs={
        f'{volume_types.PREFIX}:{key}': value for key, value in specs.items()})


def is_consistent(row):
    """Stand in for placement.is_consistent, which reads group types."""
    return row.consistent


def array(system_id=HERE):
    """Return an array; ``inside`` lists the deadlines in force."""
    found = autospec.Double(
        Array, address=f'{system_id}.example.org', inside=[],
        system=autospec.Double(system.System, id=system_id,
                               known_id=system_id),
        replication=autospec.Double(replication.Replication),
        volumes=autospec.Double(volumes.Volumes),
        groups=autospec.Double(groups.Groups),
        snapshots=autospec.Double(snapshots.Snapshots))

    @contextlib.contextmanager
    def within(name):
        found.inside.append(name)
        try:
            yield
        finally:
            found.inside.remove(name)
    found.deadline = lambda *, fresh=False: within(
        'fresh' if fresh else 'deadline')
    found.cleanup_deadline = lambda: within('cleanup_deadline')
    found.probe_deadline = lambda: within('probe_deadline')
    return found


def peer(of, backend_id=None, rpo=300):
    """Return the Peer that represents an array to its peer."""
    return resolver.Peer(
        backend_id or of.system.id, of, of.address, rpo,
        autospec.Function(lambda volumes: None),
        autospec.Function(lambda rows: None))


def operations(of):
    """Return the operations of an array."""
    found = autospec.Double(
        ArrayOperations, array=of,
        detach=autospec.Double(detach.Detach),
        resolver=autospec.Double(resolver.Resolver),
        reconciliation=autospec.Double(reconciliation.Reconciliation),
        monitor=autospec.Double(replication_monitor.ReplicationMonitor))
    found.resolver.asks_for_replication.return_value = False
    return found


class LostSystem:
    """The system of an array that has been unreachable from the start."""

    known_id = ''

    @property
    def id(self):
        raise rest.Unreachable('gone')


def session(name='ssn-v1', number=7, **values):
    """Return a suspended session in which the array is the source."""
    return replication.Session(**{
        'id': number, 'name': name, 'group': GROUP,
        'role': replication.SOURCE, 'state': replication.SUSPENDED,
        'peer': 5, **values})
