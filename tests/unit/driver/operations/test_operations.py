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

"""How the operations of one array are assembled from their parts."""

import contextlib
from unittest import mock

import ddt
import testtools

from cinder_k2.array import snapshots
from cinder_k2.array import system
from cinder_k2.driver import locks
from cinder_k2.driver import operations as package
from cinder_k2.driver.operations import operations
from cinder_k2.driver.operations import purge
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2.transport import iscsi
from tests.unit.driver import autospec
from tests.unit.driver import replicated

# The class of each part, and its arguments: names of values in test_parts.
PARTS = {
    operations.backend_rows: ('BackendRows', 'driver'),
    operations.host_access: (
        'HostAccess', 'array transport unique_fqdn_network'),
    operations.detach: (
        'Detach', 'array resolver fabric host_access'),
    operations.attach: (
        'Attach', 'array resolver conf fabric host_access detach'),
    operations.reconciliation: (
        'Reconciliation', 'array client resolver transport detach '
        'backend_rows interval'),
    operations.replication: ('Replication', 'array resolver backend_rows'),
    operations.unmanaging: (
        'Unmanaging', 'array resolver detach replication conf'),
    operations.deletion: (
        'Deletion', 'array resolver detach replication unmanaging'),
    operations.host_copy: ('HostCopy', 'array attach detach driver'),
    operations.flatten: (
        'Flattening', 'array resolver detach deletion host_copy'),
    operations.clone_sources: (
        'CloneSources', 'array resolver replication strategies'),
    operations.placement: ('Placement', 'array'),
    operations.volumes: (
        'Volumes', 'array resolver placement clone_sources cloner '
        'replication deletion flatten'),
    operations.snapshot_connections: (
        'SnapshotConnections', 'array resolver clone_sources attach detach'),
    operations.revert: (
        'Revert', 'array resolver clone_sources snapshot_connections '
        'host_copy deletion driver'),
    operations.migration: ('Migration', 'array resolver replication flatten'),
    operations.manage: ('Manage', 'array resolver replication'),
    operations.groups: (
        'Groups', 'array resolver clone_sources cloner deletion'),
    operations.group_update: ('GroupUpdate', 'array resolver flatten'),
    operations.group_replication: (
        'GroupReplication',
        'array resolver groups replication deletion flatten'),
    operations.replication_monitor: (
        'ReplicationMonitor',
        'array client resolver replication backend_rows'),
}
SHOWN = {
    'attach': operations.attach, 'detach': operations.detach,
    'reconciliation': operations.reconciliation,
    'replication': operations.replication,
    'unmanaging': operations.unmanaging, 'deletion': operations.deletion,
    'volumes': operations.volumes,
    'snapshot_connections': operations.snapshot_connections,
    'revert': operations.revert, 'migration': operations.migration,
    'manage': operations.manage, 'groups': operations.groups,
    'group_update': operations.group_update,
    'group_replication': operations.group_replication,
    'monitor': operations.replication_monitor}


class Case(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.array = replicated.array()
        self.array.system = autospec.Double(system.System, known_id='here')
        self.array.snapshots = autospec.Double(snapshots.Snapshots)
        self.make_array = self.part(operations, 'Array', self.array)
        self.client = autospec.Double(rest.Client)
        self.driver = mock.Mock(spec_set=['configuration'])
        self.driver.configuration = self.conf = mock.Mock(
            spec_set=['k2_connect_timeout', 'k2_read_timeout',
                      'k2_retention_policy', 'k2_host_type',
                      'k2_replication_retention_policy',
                      'k2_clone_strategies', 'k2_reconciliation_interval',
                      'unique_fqdn_network'],
            k2_connect_timeout=5, k2_read_timeout=30,
            k2_retention_policy='keep', k2_host_type='Linux',
            k2_replication_retention_policy='copies',
            k2_clone_strategies=['thin'], k2_reconciliation_interval=600.0,
            unique_fqdn_network=True)
        self.transport = autospec.Double(iscsi.ISCSITransport)
        self.fabric = mock.Mock(return_value=package.Fabric(
            self.transport, mock.sentinel.zoning, mock.sentinel.protection))
        self.made = {}
        for module, (name, _) in PARTS.items():
            part = module.__name__.rpartition('.')[2]
            self.made[part] = self.part(module, name, mock.Mock(name=part))
        self.cloner = self.part(operations.clones, 'Cloner',
                                mock.sentinel.cloner)
        self.resolver = self.part(operations.resolver, 'Resolver',
                                  mock.sentinel.resolver)

    def part(self, where, name, made):
        """Replace a class by a factory with the same signature."""
        patcher = mock.patch.object(where, name, autospec.Function(
            getattr(where, name)))
        found = patcher.start()
        self.addCleanup(patcher.stop)
        found.return_value = made
        return found

    def make(self):
        return operations.ArrayOperations(self.driver, self.client,
                                          self.fabric)


class WiringTest(Case):

    def setUp(self):
        super().setUp()
        self.operations = self.make()

    def test_array(self):
        self.make_array.assert_called_once_with(
            self.client, 'keep', 'copies', 'Linux')
        self.assertIs(self.array, self.operations.array)
        self.fabric.assert_called_once_with(self.array)
        self.assertIs(self.transport, self.operations.transport)
        self.assertIs(operations.ArrayOperations, package.ArrayOperations)

    def test_parts(self):
        values = {
            'driver': self.driver, 'conf': self.conf, 'client': self.client,
            'array': self.array, 'transport': self.transport,
            'fabric': self.fabric.return_value, 'strategies': ['thin'],
            'interval': 600.0,
            'unique_fqdn_network': True,
            'resolver': mock.sentinel.resolver,
            'cloner': mock.sentinel.cloner, **{
                part: made.return_value for part, made in self.made.items()}}
        for module, (_, wanted) in PARTS.items():
            part = module.__name__.rpartition('.')[2]
            self.made[part].assert_called_once_with(
                *[values[name] for name in wanted.split()])

    def test_public_attributes(self):
        for name, module in SHOWN.items():
            part = module.__name__.rpartition('.')[2]
            self.assertIs(self.made[part].return_value,
                          getattr(self.operations, name), name)
        self.assertIs(mock.sentinel.resolver, self.operations.resolver)
        self.assertIs(mock.sentinel.cloner, self.operations.cloner)

    def test_arguments_of_the_cloner(self):
        array, copy, lock, run = self.cloner.call_args.args
        self.assertIs(self.array, array)
        self.assertIs(self.made['host_copy'].return_value.copy, copy)
        self.assertEqual((locks.group_on, (self.array,), {}),
                         (lock.func, lock.args, lock.keywords))
        self.assertEqual((purge.run, (self.array,), {}),
                         (run.func, run.args, run.keywords))

    def test_peers(self):
        """The resolver sees peers that are added later."""
        array, peers = self.resolver.call_args.args
        self.assertIs(self.array, array)
        self.assertEqual({}, peers)
        first, second = (replicated.peer(replicated.array(name))
                         for name in ('moon', 'mars'))
        self.operations.meet(first)
        self.operations.meet(second)
        self.assertEqual({'moon': first, 'mars': second}, peers)
        self.assertIs(peers, self.operations.peers)


@ddt.ddt
class CheckTest(Case):

    def setUp(self):
        super().setUp()
        self.order = []
        self.seconds = []

        @contextlib.contextmanager
        def deadline(seconds=None, *, fresh=False):
            self.seconds.append((seconds, fresh))
            self.order.append('begin')
            yield
            self.order.append('end')
        self.client.deadline.side_effect = deadline
        self.checks = [self.array.system.check, self.array.snapshots.check,
                       self.transport.check]
        for name, check in zip(('system', 'snapshots', 'transport'),
                               self.checks):
            check.side_effect = lambda *args, name=name: self.order.append(
                name)
        self.operations = self.make()

    def test_all_checks_pass(self):
        self.operations.check()
        self.assertEqual(['begin', 'system', 'snapshots', 'transport', 'end'],
                         self.order)
        self.transport.check.assert_called_once_with(self.array)

    def test_deadline_of_the_checks(self):
        """Together they take no longer than a single request."""
        self.operations.check()
        self.assertEqual([(35, False)], self.seconds)

    @ddt.data((0, rest.Unreachable('gone')),
              (1, exceptions.ArrayNotSupported('no policy')),
              (2, exceptions.ArrayNotSupported('no ports')))
    @ddt.unpack
    def test_failed_check_is_raised(self, number, error):
        self.checks[number].side_effect = error
        self.assertIs(error, self.assertRaises(
            type(error), self.operations.check))

    def test_nothing_is_checked_on_creation(self):
        """The service must start even if an array is lost."""
        for check in self.checks:
            check.assert_not_called()
