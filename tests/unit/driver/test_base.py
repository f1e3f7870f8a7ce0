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

"""Dispatch of driver calls to the arrays of a back end."""

import contextlib
import dataclasses
import json
from unittest import mock
from unittest.mock import call

from cinder import exception
from cinder.volume import driver as cinder_driver
import ddt

from cinder_k2.driver import base
from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.db import writes
from cinder_k2.driver.failover import failover
from cinder_k2.driver import locks
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import group_replication
from cinder_k2.driver.operations import group_update
from cinder_k2.driver.operations import groups
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import migration
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import replication_monitor
from cinder_k2.driver.operations import revert
from cinder_k2.driver.operations import snapshot_connections
from cinder_k2.driver.operations import unmanaging
from cinder_k2.driver.operations import volumes
from cinder_k2.driver import stats
from cinder_k2.driver import unknown_options
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import transport
from cinder_k2 import volume_types
from tests.unit.driver import doubles

PARTS = {
    'volumes': volumes.Volumes, 'deletion': deletion.Deletion,
    'revert': revert.Revert, 'migration': migration.Migration,
    'attach': attach.Attach, 'detach': detach.Detach,
    'snapshot_connections': snapshot_connections.SnapshotConnections,
    'manage': manage.Manage, 'unmanaging': unmanaging.Unmanaging,
    'groups': groups.Groups, 'group_update': group_update.GroupUpdate,
    'group_replication': group_replication.GroupReplication,
    'monitor': replication_monitor.ReplicationMonitor,
    'transport': transport.Transport, 'replication': replication.Replication}


def ids(system, **more):
    return json.dumps({'system': system, 'volume': 1, **more})


class ArrayDouble(doubles.ArrayDouble):
    """An array whose deadlines are logged under its name."""

    def __init__(self, case, name):
        super().__init__(case, name, name)
        self.address = f'{name}.example.org'

    @contextlib.contextmanager
    def deadline(self, *, fresh=False):
        doubles.Call(self._case.log, f'{self._name}.begin')()
        yield

    @contextlib.contextmanager
    def cleanup_deadline(self):
        doubles.Call(self._case.log, f'{self._name}.cleanup_deadline')()
        yield


class Operations:
    """The operations of an array; calls are logged under its name."""

    def __init__(self, case, name):
        self.array = ArrayDouble(case, name)
        for part, spec in PARTS.items():
            setattr(self, part, case.double(f'{name}.{part}', spec))
        self.check = doubles.Call(case.log, f'{name}.check')
        self.peers = []
        self.meet = self.peers.append


@dataclasses.dataclass(frozen=True)
class Settings:
    """REST client settings of an array."""

    name: str
    endpoint: str = 'https://home.example.org'
    verdicts: str = ''


class Driver(base.K2Driver):
    """A driver as Cinder creates it, without a zone manager."""

    protocol = 'iSCSI'
    _default_name = 'InTree'


class BaseTestCase(doubles.TestCase):

    TARGETS = ('moon',)

    def setUp(self):
        super().setUp()
        self.database = {}
        self.home, self.moon, self.mars = (
            Operations(self, name) for name in ('home', 'moon', 'mars'))
        self.register = self.function(config, 'register')
        self.function(config, 'rest_settings').return_value = Settings('home')
        self.function(config, 'verdicts_directory').return_value = 'folder'
        self.function(config, 'replication_targets').return_value = [
            mock.Mock(backend_id=name, address=f'{name}.address', rpo=300,
                      settings=Settings(name)) for name in self.TARGETS]
        self.replace(rest, 'Client', lambda settings: settings)
        self.replace(base, 'ArrayOperations', self.operations)
        current = self.function(writes, 'current')
        current.side_effect = lambda row: doubles.Row(
            provider_id=self.database.get(row.id, row.provider_id))
        self.failover = self.double('failover', failover.Failover)
        self.statistics = self.double('statistics', stats.Statistics)
        for module, name, made in ((failover, 'Failover', self.failover),
                                   (stats, 'Statistics', self.statistics)):
            self.replace(module, name, mock.Mock(return_value=made))
        self.consistent = self.function(placement, 'is_consistent')
        self.consistent.return_value = True
        self.activate(None)

    def operations(self, driver, client, fabric):
        """Return the double of an array, chosen by its client's settings."""
        self.assertIsInstance(driver, Driver)
        self.assertEqual('folder', client.verdicts)
        self.assertEqual(driver._fabric, fabric)
        return getattr(self, client.name)

    @staticmethod
    def a_driver(**more):
        options = mock.Mock(config_group='k2', k2_failback_timeout=77)
        options.safe_get.return_value = None
        return Driver(configuration=options, **more)

    def activate(self, name):
        """Start the service with this array as the active one."""
        self.driver = self.a_driver(active_backend_id=name)
        self.driver.do_setup(None)
        self.log.mock_calls.clear()

    def row(self, id='v1', on='home', *, now=None, **more):
        """Return a row on an array.

        :param now: the array of the row in the database, if it differs
        """
        if now is not None:
            self.database[id] = ids(now)
        made = doubles.a_volume(id, provider_id=on and ids(on), **more)
        made.obj_reset_changes = doubles.Call(self.log, 'reset')
        return made

    def snapshot(self, on='home', **more):
        """Return a row of a snapshot, on the same array as its volume."""
        made = self.row('s1', on, **more)
        made.volume = more.get('volume', self.row(on=on))
        return made

    def done(self):
        return self.calls('home', 'moon', 'mars')


CONTEXT, HOST, TYPE, DIFF, REF, PAGE = (
    mock.sentinel.context, mock.sentinel.host, mock.sentinel.type,
    mock.sentinel.diff, mock.sentinel.ref, ('m', 1, 2, ['a'], ['b']))
CONNECTOR = mock.sentinel.connector
ROW = mock.sentinel.row

# Method, its arguments, and the part of ArrayOperations that implements it.
# ROW stands for the row that determines the array.
ON_ACTIVE = (
    ('create_volume', (ROW,), 'volumes'),
    ('get_manageable_volumes', ([], *PAGE), 'manage'),
    ('get_manageable_snapshots', ([], *PAGE), 'manage'),
    ('create_group', (CONTEXT, ROW), 'groups'),
    ('get_replication_error_status', (CONTEXT, [ROW]), 'monitor'))
ON_ACTIVE_WITH = (
    ('create_volume_from_snapshot', (doubles.a_volume('n'), ROW), 'volumes'),
    ('create_cloned_volume', (doubles.a_volume('n'), ROW), 'volumes'))
ON_CURRENT = (
    ('extend_volume', (ROW, 2), 'volumes'),
    ('revert_to_snapshot', (CONTEXT, ROW, 'snapshot'), 'revert'),
    ('create_snapshot', (ROW,), 'volumes'),
    ('retype', (CONTEXT, ROW, TYPE, DIFF, HOST), 'migration'),
    ('migrate_volume', (CONTEXT, ROW, HOST), 'migration'),
    ('initialize_connection', (ROW, CONNECTOR), 'attach'))
ON_ARRAY_OF = (
    ('update_migrated_volume', (CONTEXT, 'old', ROW, 'x'), 'migration'),
    ('terminate_connection', (ROW, CONNECTOR), 'detach'),
    ('initialize_connection_snapshot', (ROW, CONNECTOR),
     'snapshot_connections'),
    ('terminate_connection_snapshot', (ROW, CONNECTOR),
     'snapshot_connections'),
    ('manage_existing_get_size', (ROW, REF), 'manage'),
    ('manage_existing', (ROW, REF), 'manage'),
    ('unmanage', (ROW,), 'unmanaging'),
    ('manage_existing_snapshot_get_size', (ROW, REF), 'manage'),
    ('manage_existing_snapshot', (ROW, REF), 'manage'),
    ('create_group_snapshot', (CONTEXT, 'group', [ROW]), 'groups'),
    ('delete_group_snapshot', (CONTEXT, 'group', [ROW]), 'groups'))
ON_COMMON = (
    ('enable_replication', (CONTEXT, 'group', [ROW]), 'group_replication'),)
WITHOUT_RESULT = ('extend_volume', 'revert_to_snapshot', 'unmanage')


@ddt.ddt
class RoutingTest(BaseTestCase):

    def ask(self, method, args, part, row, place):
        """Assert that a call is passed on to the given array only."""
        args = [row if arg is ROW else [row] if arg == [ROW] else arg
                for arg in args]
        name = {self.home: 'home', self.moon: 'moon'}[place]
        asked = getattr(getattr(place, part), method)
        asked.return_value = mock.sentinel.result
        found = getattr(self.driver, method)(*args)
        self.assertIs(None if method in WITHOUT_RESULT
                      else mock.sentinel.result, found)
        expected = getattr(getattr(getattr(call, name), part), method)
        self.assertEqual([getattr(call, name).begin(), expected(*args)],
                         self.done())

    def refuse(self, method, args, part):
        """Assert that an error of the array becomes one of Cinder's."""
        row = self.row()
        getattr(getattr(self.home, part), method).side_effect = (
            exceptions.K2Error('why'))
        error = self.raised(exception.VolumeBackendAPIException, getattr(
            self.driver, method), *[row if arg is ROW else [row]
                                    if arg == [ROW] else arg for arg in args])
        self.assertIn('why', str(error))

    @ddt.data(*ON_ACTIVE, *ON_ACTIVE_WITH, *ON_CURRENT, *ON_ARRAY_OF,
              *ON_COMMON)
    @ddt.unpack
    def test_errors_are_translated(self, method, args, part):
        self.refuse(method, args, part)

    @ddt.data(*ON_ACTIVE)
    @ddt.unpack
    def test_methods_of_the_active_array(self, method, args, part):
        """They ignore on which array the row is."""
        self.activate('moon')
        self.ask(method, args, part, self.row(), self.moon)

    @ddt.data(*ON_ACTIVE_WITH)
    @ddt.unpack
    def test_source_on_the_active_array(self, method, args, part):
        self.activate('moon')
        self.ask(method, args, part, self.row(on='moon'), self.moon)

    @ddt.data(*ON_ACTIVE_WITH)
    @ddt.unpack
    def test_source_on_another_array_is_refused(self, method, args, part):
        row = self.row(on='moon')
        self.assertRaises(exception.VolumeBackendAPIException, getattr(
            self.driver, method), args[0], row)
        self.assertEqual([], self.done())

    @ddt.data(*ON_CURRENT, *ON_COMMON)
    @ddt.unpack
    def test_methods_of_the_array_in_the_database(self, method, args, part):
        """The caller may have read the row before a failover."""
        row = self.row(on='home', now='moon')
        self.ask(method, args, part, row, self.moon)
        self.assertEqual(ids('moon'), row.provider_id)
        # Cinder must not save it again.
        self.assertEqual([call.reset(['provider_id'])], self.calls('reset'))

    @ddt.data(*ON_ARRAY_OF)
    @ddt.unpack
    def test_methods_of_the_array_in_the_given_row(self, method, args, part):
        self.ask(method, args, part, self.row(on='moon', now='home'),
                 self.moon)
        self.assertEqual([], self.calls('current'))

    @ddt.data('create_group_snapshot', 'delete_group_snapshot')
    def test_group_snapshot_without_snapshots(self, method):
        self.activate('moon')
        self.ask(method, (CONTEXT, 'group', []), 'groups', None, self.moon)

    def test_enable_replication_without_volumes(self):
        self.activate('moon')
        self.ask('enable_replication', (CONTEXT, 'group', []),
                 'group_replication', None, self.moon)

    def test_unchanged_row_is_not_reset(self):
        self.driver.extend_volume(self.row(on='moon'), 2)
        self.assertEqual([], self.calls('reset'))

    def test_validate_connector(self):
        self.activate('moon')
        self.driver.validate_connector(CONNECTOR)
        self.assertEqual([call.moon.begin(),
                          call.moon.transport.initiators(CONNECTOR)],
                         self.done())

    def test_validate_connector_without_initiators(self):
        self.home.transport.initiators.side_effect = (
            transport.NoInitiators('wwpns'))
        self.assertRaises(exception.InvalidConnectorException,
                          self.driver.validate_connector, CONNECTOR)

    @ddt.data('update_group', 'create_group_from_src', 'delete_group',
              'create_group_snapshot', 'delete_group_snapshot')
    def test_generic_groups_are_left_to_cinder(self, method):
        self.consistent.return_value = False
        self.assertRaises(NotImplementedError, getattr(self.driver, method),
                          CONTEXT, 'group', [])
        self.assertEqual([], self.done())


class OneArrayTest(BaseTestCase):

    TARGETS = ()

    def test_rows_are_not_read_again(self):
        """With one array, the row cannot have moved."""
        self.driver.extend_volume(self.row(now='moon'), 2)
        self.assertEqual([], self.calls('current'))

    def test_new_group_member_is_not_compared_with_the_others(self):
        group = doubles.Row(volumes=[self.row(on='moon')])
        self.driver.create_volume(self.row(on=None, group_id='g',
                                           group=group))
        self.assertEqual([], self.calls('is_consistent'))


@ddt.ddt
class DeleteTest(BaseTestCase):

    TARGETS = ('moon', 'mars')

    def test_volume_is_deleted_where_the_database_says(self):
        volume = self.row(on='home', now='moon')
        self.driver.delete_volume(volume)
        self.assertEqual([call.moon.begin(),
                          call.moon.deletion.delete_volume(volume)],
                         self.done())

    def cleared(self, name, part, *args):
        """Return the calls that clean up on an array that may be lost."""
        array = getattr(call, name)
        return [array.cleanup_deadline(),
                getattr(array.deletion, part)(*args)]

    def test_volume_that_was_never_created_is_deleted_on_all_arrays(self):
        """The active array comes last: its success removes the row."""
        volume = self.row(on=None, launched_at=None)
        self.moon.deletion.delete_volume.side_effect = (
            rest.Unreachable('lost'))
        self.driver.delete_volume(volume)
        self.assertEqual([
            *self.cleared('moon', 'delete_volume', volume),
            *self.cleared('mars', 'delete_volume', volume),
            call.home.begin(), call.home.deletion.delete_volume(volume)],
            self.done())

    @ddt.data((None, 'then'), ('home', None))
    @ddt.unpack
    def test_created_volume_is_deleted_on_one_array(self, on, launched_at):
        self.driver.delete_volume(self.row(on=on, launched_at=launched_at))
        self.assertEqual([], self.calls('moon', 'mars'))

    def test_errors_are_translated(self):
        for method, row in (('delete_volume', self.row()),
                            ('delete_snapshot', self.snapshot())):
            getattr(self.home.deletion, method).side_effect = (
                exceptions.K2Error('why'))
            self.assertRaises(exception.VolumeBackendAPIException,
                              getattr(self.driver, method), row)

    def test_unexpected_errors_of_other_arrays_are_raised(self):
        self.moon.deletion.delete_volume.side_effect = ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.driver.delete_volume,
                          self.row(on=None, launched_at=None))

    def snapshot_gone(self, name, snapshot):
        array = getattr(call, name)
        return [array.begin(), array.deletion.delete_snapshot(snapshot)]

    def test_snapshot_is_deleted_where_its_ids_say(self):
        snapshot = self.snapshot(on='moon')
        self.driver.delete_snapshot(snapshot)
        self.assertEqual(self.snapshot_gone('moon', snapshot), self.done())

    def test_snapshot_without_ids_is_also_deleted_on_the_primary(self):
        """The in-tree driver may have taken it there."""
        snapshot = self.snapshot(on=None, volume=self.row(on='moon'))
        self.driver.delete_snapshot(snapshot)
        self.assertEqual([*self.snapshot_gone('moon', snapshot),
                          *self.snapshot_gone('home', snapshot)],
                         self.done())

    def test_snapshot_without_ids_of_a_volume_on_the_primary(self):
        snapshot = self.snapshot(on=None, volume=self.row(on='home'))
        self.driver.delete_snapshot(snapshot)
        self.assertEqual(self.snapshot_gone('home', snapshot), self.done())

    def test_snapshot_without_ids_of_a_replicated_volume(self):
        """It may be on the array that had the volume before."""
        volume = self.row(on='moon')
        volume.provider_id = ids('moon', replicated=True)
        snapshot = self.snapshot(on=None, volume=volume)
        self.driver.delete_snapshot(snapshot)
        self.assertEqual([
            *self.cleared('mars', 'delete_snapshot', snapshot),
            *self.snapshot_gone('moon', snapshot),
            *self.snapshot_gone('home', snapshot)], self.done())


@ddt.ddt
class GroupTest(BaseTestCase):

    TARGETS = ('moon', 'mars')

    def setUp(self):
        super().setUp()
        self.group = doubles.Row(id='g', volumes=[])
        self.here = self.row('v1', 'home')
        self.there = self.row('v2', 'moon')

    # New volumes

    @ddt.data(('home', True, False), ('moon', True, True),
              ('moon', False, False))
    @ddt.unpack
    def test_new_volume_must_be_on_the_array_of_its_group(
            self, place, consistent, refused):
        self.consistent.return_value = consistent
        self.group.volumes = [self.row('old', place)]
        volume = self.row('new', None, launched_at=None, group_id='g',
                          group=self.group)
        for ask in (
                lambda: self.driver.create_volume(volume),
                lambda: self.driver.create_cloned_volume(volume, self.here),
                lambda: self.driver.create_volume_from_snapshot(
                    volume, self.here)):
            self.log.mock_calls.clear()
            if refused:
                error = self.raised(exception.InvalidGroup, ask)
                self.assertIn('moon.example.org', str(error))
                self.assertIn('home.example.org', str(error))
            else:
                ask()
            self.assertEqual(not refused, bool(self.calls('home.volumes')))

    def test_new_volume_without_a_group(self):
        self.driver.create_volume(self.row('new', None))
        self.assertEqual([], self.calls('is_consistent'))

    # update_group

    def updated(self, add=None, remove=None):
        """Return the name of the array that updates the group."""
        self.driver.update_group(CONTEXT, self.group, add, remove)
        asked = [name for name in ('home', 'moon')
                 if self.calls(f'{name}.group_update')]
        name, = asked
        self.assertEqual(
            [getattr(call, name).group_update.update_group(
                CONTEXT, self.group, add, remove)],
            self.calls(f'{name}.group_update'))
        return name

    def test_added_volume_determines_the_array(self):
        self.assertEqual('moon', self.updated(add=[self.there]))

    def test_removed_volume_determines_the_array(self):
        """Other members may have moved to another array."""
        self.group.volumes = [self.here, self.there]
        self.assertEqual('moon', self.updated(remove=[self.there]))

    def test_volumes_without_ids_do_not_determine_the_array(self):
        self.group.volumes = [self.there, self.row('v3', None)]
        self.assertEqual('moon', self.updated(
            add=[], remove=[self.row('v4', None)]))

    @ddt.data('volumes', 'remove')
    def test_added_volume_must_be_on_the_array_of_the_others(self, others):
        if others == 'volumes':
            self.group.volumes = [self.here]
        error = self.raised(
            exception.InvalidGroup, self.driver.update_group, CONTEXT,
            self.group, [self.there],
            [self.here] if others == 'remove' else None)
        self.assertIn('home.example.org', str(error))
        self.assertIn('moon.example.org', str(error))
        self.assertEqual([], self.calls('home.group_update',
                                        'moon.group_update'))

    # create_group_from_src

    @ddt.data('snapshots', 'source_vols')
    def test_group_is_cloned_on_the_array_of_its_source(self, source):
        self.activate('moon')
        self.driver.create_group_from_src(
            CONTEXT, self.group, ['new'], 'gs', source_group='sg',
            **{source: [self.there]})
        sources = {'snapshots': None, 'source_vols': None,
                   source: [self.there]}
        self.assertEqual([
            call.moon.begin(), call.moon.groups.create_group_from_src(
                CONTEXT, self.group, ['new'], 'gs', sources['snapshots'],
                'sg', sources['source_vols'])], self.done())
        self.assertRaises(
            exception.VolumeBackendAPIException,
            self.driver.create_group_from_src, CONTEXT, self.group, [],
            **{source: [self.here]})

    def test_group_without_a_source_is_created_on_the_active_array(self):
        self.activate('moon')
        self.driver.create_group_from_src(CONTEXT, self.group, [])
        self.assertEqual(call.moon.begin(), self.done()[0])

    # Groups with volumes on several arrays

    def act(self, method, rows, answers):
        """Call a driver method, for which the arrays return ``answers``."""
        for place, answer in answers.items():
            getattr(getattr(self, place).group_replication,
                    method).return_value = answer
        return getattr(self.driver, method)(CONTEXT, self.group, rows)

    @ddt.data('delete_group', 'disable_replication')
    def test_each_array_handles_its_own_volumes(self, method):
        self.database['v2'] = ids('mars')
        rows = [self.here, self.there]
        found = self.act(method, rows, {
            'home': ({'status': 'x'}, ['a']),
            'mars': ({'status': 'y'}, ['b'])})
        self.assertEqual(({'status': 'x'}, ['a', 'b']), found)
        self.assertEqual([
            call.home.begin(), getattr(call.home.group_replication, method)(
                CONTEXT, self.group, [self.here]),
            call.mars.begin(), getattr(call.mars.group_replication, method)(
                CONTEXT, self.group, [self.there])], self.done())

    @ddt.data(('status', 'delete_group'),
              ('replication_status', 'disable_replication'))
    @ddt.unpack
    def test_error_status_of_one_array_is_returned(self, key, method):
        good, bad = {'status': 'x', key: 'x'}, {'status': 'x', key: 'error'}
        found = self.act(method, [self.here, self.there],
                         {'home': (good, []), 'moon': (bad, [])})
        self.assertEqual(bad, found[0])

    @ddt.data('delete_group', 'disable_replication')
    def test_group_without_volumes(self, method):
        self.activate('moon')
        self.assertEqual(({'status': 'x'}, []), self.act(
            method, [], {'moon': ({'status': 'x'}, [])}))
        self.assertEqual([call.moon.begin(), getattr(
            call.moon.group_replication, method)(CONTEXT, self.group, [])],
            self.done())

    @ddt.data((True, True, True), (True, False, False), (False, True, False))
    @ddt.unpack
    def test_replicated_consistency_group_on_two_arrays_is_refused(
            self, consistent, replicated, refused):
        self.consistent.side_effect = [True, consistent]
        self.there.provider_id = ids('moon', replicated=replicated)
        answers = {name: ({'status': 'x'}, []) for name in ('home', 'moon')}

        def ask():
            self.act('delete_group', [self.here, self.there], answers)

        if refused:
            self.assertRaises(exception.InvalidGroup, ask)
        else:
            ask()
        self.assertEqual(not refused,
                         bool(self.calls('home.group_replication')))

    def test_replicated_consistency_group_on_one_array(self):
        self.here.provider_id = ids('home', replicated=True)
        self.act('delete_group', [self.here],
                 {'home': ({'status': 'x'}, [])})

    @ddt.data(([], 'moon', ['home', 'mars']), (['v1'], 'home',
                                               ['moon', 'mars']))
    @ddt.unpack
    def test_volume_group_is_deleted_on_the_other_arrays_too(
            self, rows, place, others):
        if not rows:
            self.activate('moon')
        getattr(self, others[0]).groups.drop_group.side_effect = (
            rest.Unreachable('lost'))
        self.act('delete_group', [self.here] if rows else [],
                 {place: ({'status': 'deleted'}, [])})
        self.assertEqual([
            each for name in others for each in (
                getattr(call, name).cleanup_deadline(),
                getattr(call, name).groups.drop_group(self.group))],
            self.done()[2:])

    def test_errors_are_translated(self):
        for method in ('delete_group', 'disable_replication'):
            getattr(self.home.group_replication, method).side_effect = (
                exceptions.K2Error('why'))
            self.assertRaises(exception.VolumeBackendAPIException, self.act,
                              method, [self.here], {})


@ddt.ddt
class SetupTest(BaseTestCase):

    TARGETS = ('moon', 'mars')

    def test_options_are_registered(self):
        self.assertEqual(1, self.register.call_count)

    def test_get_driver_options(self):
        options = self.function(config, 'driver_options')
        options.return_value = ['option']
        self.assertEqual(['option'], Driver.get_driver_options())
        options.assert_called_once_with(Driver._get_oslo_driver_opts)

    def test_peers(self):
        """Each target has the primary as peer, the primary all targets."""
        self.assertEqual([
            ('moon', self.moon.array, 'moon.address', 300),
            ('mars', self.mars.array, 'mars.address', 300)],
            [(p.backend_id, p.array, p.address, p.rpo)
             for p in self.home.peers])
        for target in (self.moon, self.mars):
            peer, = target.peers
            self.assertEqual(
                ('default', self.home.array, 'https://home.example.org',
                 300), (peer.backend_id, peer.array, peer.address, peer.rpo))
            self.assertIs(self.home.replication, target.replication.primary)

    def test_peer_releases_and_leaves_copies(self):
        peer = self.home.peers[0]
        peer.release([1])
        peer.leave(['row'])
        self.assertEqual([call.moon.deletion.release_copies([1]),
                          call.moon.deletion.leave_copies(['row'])],
                         self.done())

    def test_active_array_of_the_service(self):
        self.activate('moon')
        found = failover.Failover.call_args.args[0]
        self.assertIs(self.moon, found.active)
        self.assertEqual(['moon', 'mars'], found.targets)

    def test_unknown_active_array_is_refused(self):
        driver = self.a_driver(active_backend_id='venus')
        error = self.raised(exception.InvalidInput, driver.do_setup, None)
        self.assertIn('venus', str(error))
        self.assertIn('[k2]', str(error))

    def test_arguments_of_failover_and_statistics(self):
        arrays, rows, timeout = failover.Failover.call_args.args
        self.assertIsInstance(rows, backend_rows.BackendRows)
        self.assertEqual(77, timeout)
        stats.Statistics.assert_called_once_with(
            arrays, self.driver.configuration, 'InTree', {
                'vendor_name': 'Kaminario', 'driver_version': Driver.VERSION,
                'storage_protocol': 'iSCSI'})

    def test_volume_backend_name_from_the_options(self):
        driver = self.a_driver()
        driver.configuration.safe_get.return_value = 'gold'
        driver.do_setup(None)
        driver.configuration.safe_get.assert_called_with(
            'volume_backend_name')
        self.assertEqual('gold', stats.Statistics.call_args.args[2])

    def test_unknown_options_are_logged_even_if_others_are_missing(self):
        self.replace(unknown_options, 'texts', mock.Mock(
            return_value=['san_pasword']))
        self.function(config, 'rest_settings').side_effect = (
            exception.InvalidInput(reason='Set san_password'))
        with self.assertLogs(base.LOG.logger, 'WARNING') as logged:
            self.raised(exception.InvalidInput, self.a_driver().do_setup,
                        None)
        self.assertIn('san_pasword', logged.output[0])
        unknown_options.texts.assert_called_once_with('k2')

    # check_for_setup_error

    def test_active_array_is_checked(self):
        self.activate('moon')
        self.driver.check_for_setup_error()
        self.assertEqual([call.moon.check()], self.done())

    @ddt.data(rest.Unreachable('lost'), exceptions.ArrayNotSupported('old'))
    def test_service_with_targets_starts_with_a_lost_array(self, error):
        self.home.check.side_effect = error
        self.driver.check_for_setup_error()

    def test_other_errors_stop_the_service(self):
        self.home.check.side_effect = exceptions.K2Error('why')
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.driver.check_for_setup_error)


class NoTargetsSetupTest(BaseTestCase):

    TARGETS = ()

    def test_lost_array_stops_the_service(self):
        self.home.check.side_effect = rest.Unreachable('lost')
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.driver.check_for_setup_error)


@ddt.ddt
class OtherMethodsTest(BaseTestCase):
    """Methods that use no array, or delegate the choice of the array."""

    @ddt.data('failover_host', 'failover')
    def test_failover(self, method):
        asked = getattr(self.failover, method)
        asked.return_value = mock.sentinel.result
        self.assertIs(mock.sentinel.result, getattr(self.driver, method)(
            CONTEXT, ['v'], 'moon', ['g']))
        asked.assert_called_once_with(CONTEXT, ['v'], 'moon', ['g'])

    def test_failover_replication(self):
        self.failover.failover_replication.return_value = 'result'
        self.assertEqual('result', self.driver.failover_replication(
            CONTEXT, 'group', ['v'], 'moon'))
        self.failover.failover_replication.assert_called_once_with(
            CONTEXT, 'group', ['v'], 'moon')

    def test_failover_completed(self):
        self.driver.failover_completed(CONTEXT, 'moon')
        self.failover.failover_completed.assert_called_once_with(
            CONTEXT, 'moon')

    def test_update_volume_stats(self):
        self.statistics.read.return_value = {'a': 1}
        self.driver.configuration.filter_function = 'mine'
        self.driver.configuration.goodness_function = None
        self.driver._update_volume_stats()
        self.assertEqual({'a': 1}, self.driver._stats)
        self.statistics.read.assert_called_once_with({
            'filter_function': 'mine',
            'goodness_function': stats.GOODNESS_FUNCTION})
        self.assertEqual(stats.FILTER_FUNCTION,
                         self.driver.get_default_filter_function())

    def test_init_vendor_properties(self):
        self.driver.configuration.k2_clone_strategies = ['thin', 'copy']
        found, prefix = self.driver._init_vendor_properties()
        self.assertEqual('kaminario', prefix)
        self.assertEqual({spec.key for spec in volume_types.EXTRA_SPECS},
                         set(found))
        self.assertEqual({
            'title': 'Deduplication', 'type': 'string', 'default': 'dedup',
            'description': volume_types.DEDUP.description,
            'enum': ['dedup', 'nodedup']}, found[volume_types.DEDUP.key])
        self.assertNotIn('enum', found[volume_types.RPO.key])
        self.assertEqual('thin,copy',
                         found[volume_types.STRATEGY.key]['default'])

    def test_detach_of_a_volume_that_cinder_attached_is_marked(self):
        detach = mock.patch.object(cinder_driver.VolumeDriver,
                                   '_detach_volume', autospec=True)
        with detach as asked:
            self.driver._detach_volume(CONTEXT, 'info', 'volume', {'a': 1},
                                       True, ignore_errors=True)
        asked.assert_called_once_with(
            self.driver, CONTEXT, 'info', 'volume',
            {'a': 1, host_access.INTERNAL: True}, True, ignore_errors=True)

    def test_temporary_snapshot_settings(self):
        self.assertIs(False, self.driver.snapshot_revert_use_temp_snapshot())
        self.assertIs(True, self.driver.backup_use_temp_snapshot())

    @ddt.data(('ensure_export', 2), ('create_export', 3),
              ('remove_export', 2), ('create_export_snapshot', 3),
              ('remove_export_snapshot', 2), ('unmanage_snapshot', 1))
    @ddt.unpack
    def test_methods_that_do_nothing(self, method, count):
        self.assertIsNone(getattr(self.driver, method)(*[None] * count))
        self.assertEqual([], self.calls())

    def test_lock_files_are_removed(self):
        self.function(locks, 'forget_volume')
        self.function(locks, 'forget_snapshot')
        Driver.clean_volume_file_locks('v1')
        self.driver.clean_snapshot_file_locks('s1')
        self.assertEqual([call.forget_volume('v1'),
                          call.forget_snapshot('s1')], self.calls())
