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

"""Creation, cloning and extension of volumes, and their snapshots."""

import dataclasses
from unittest import mock

import ddt
from oslotest import base

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import volumes
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import volumes as flows
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import rows

DATA_ID = '88888888-eeee-4eee-8eee-888888888888'
KIB_PER_GIB = 1024 * 1024
MADE = ArrayVolume(group=1, volume=2)
STARTED = ArrayVolume(group=1, volume=2, replicated=True)
SOURCE = ArrayVolume(group=5, volume=6)
CONFIRMED = ArrayVolume(group=5, volume=6, has_clones=True)
TAKEN = ArraySnapshot(snapshot=3, group=5)
TAKEN_CONFIRMED = ArraySnapshot(snapshot=3, group=5, has_clones=True)
ORDER = clones.CloneRequest(name='n', group_name='g', view_name='v', size=1,
                            dedup=True, source_size=1, source_dedup=True)
FRESH = ['+deadline fresh=True', '-deadline']


class VolumesCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.journal.record_locks(self)
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'identity', 'snapshots')
        self.resolver = autospec.Double(resolver.Resolver)
        self.resolver.ids.side_effect = lambda made, name_id='': {
            'provider_id': made, 'of': name_id}
        self.placement = autospec.Double(placement.Placement)
        self.placement.into_group.side_effect = (
            lambda volume, make: self.into_group(volume, make))
        self.sources = autospec.Double(clone_sources.CloneSources)
        self.sources.request.return_value = ORDER
        self.sources.marked.side_effect = lambda row, find: (row, find)
        self.cloner = autospec.Double(clones.Cloner)
        self.replication = autospec.Double(replication.Replication)
        self.replication.link_for_new.return_value = None
        self.deletion = autospec.Double(deletion.Deletion)
        self.flattening = autospec.Double(flatten.Flattening)
        self.volume = rows.volume(name_id=DATA_ID)
        self.group = None
        self.volumes = volumes.Volumes(
            self.array, self.resolver, self.placement, self.sources,
            self.cloner, self.replication, self.deletion, self.flattening)

    def into_group(self, volume, make):
        self.assertIs(self.volume, volume)
        return make(self.group)


@ddt.ddt
class CreateTest(VolumesCase):

    def setUp(self):
        super().setUp()
        self.create_alone = autospec.patched(self, flows, 'create',
                                             return_value=MADE)
        self.create_member = autospec.patched(self, flows, 'create_member',
                                              return_value=MADE)

    def create(self):
        return self.volumes.create_volume(self.volume)

    @ddt.data((None, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False))
    @ddt.unpack
    def test_standalone_volume(self, specs, dedup):
        self.volume.volume_type = specs and rows.volume_type(specs)
        self.assertEqual(
            {'provider_id': MADE, 'of': DATA_ID,
             'replication_status': 'disabled'}, self.create())
        self.create_alone.assert_called_once_with(
            self.array, name=naming.volume(DATA_ID), size=2 * KIB_PER_GIB,
            group_name=naming.volume_group(DATA_ID), dedup=dedup)
        self.replication.start.assert_not_called()

    @ddt.data(0, 7)
    def test_consistency_group_member(self, group):
        self.group = group
        self.create()
        self.create_member.assert_called_once_with(
            self.array, name=naming.volume(DATA_ID), size=2 * KIB_PER_GIB,
            group=group)
        self.create_alone.assert_not_called()

    def test_replicated_volume(self):
        self.replication.link_for_new.return_value = mock.sentinel.link
        self.replication.start.return_value = STARTED
        self.assertEqual(
            {'provider_id': STARTED, 'of': DATA_ID,
             'replication_status': 'enabled'}, self.create())
        self.replication.link_for_new.assert_called_once_with(self.volume)
        self.replication.start.assert_called_once_with(
            self.volume, MADE, mock.sentinel.link)
        self.assertEqual(FRESH, self.events)
        self.deletion.delete_backing.assert_not_called()

    def test_replication_target_is_checked_before_anything_is_created(self):
        self.replication.link_for_new.side_effect = (
            exceptions.ReplicationError('no target'))
        self.assertRaises(exceptions.ReplicationError, self.create)
        self.placement.into_group.assert_not_called()


class FailedReplicationTest(VolumesCase):
    """A volume that cannot be replicated is deleted again."""

    def setUp(self):
        super().setUp()
        self.into_group = lambda volume, make: MADE
        self.replication.link_for_new.return_value = mock.sentinel.link
        self.journal.record(self.replication.start, 'start',
                            exceptions.ReplicationError('no session'))
        self.journal.record(self.deletion.delete_backing, 'delete')
        self.resolver.names_of.return_value = mock.sentinel.names
        self.journal.record(self.array.identity.volume, 'find')
        self.array.identity.volume.return_value = MADE

    def create(self):
        self.assertRaisesRegex(
            exceptions.ReplicationError, 'no session',
            self.volumes.create_volume, self.volume)

    def test_volume_is_deleted(self):
        self.create()
        self.assertEqual(
            ['+deadline fresh=True', 'start', '-deadline',
             '+deadline fresh=True', 'find', 'delete', '-deadline'],
            self.events)
        self.array.identity.volume.assert_called_once_with(
            MADE, mock.sentinel.names)
        self.deletion.delete_backing.assert_called_once_with(
            MADE, mock.sentinel.names)
        self.resolver.names_of.assert_called_once_with(self.volume, MADE)
        self.resolver.ids.assert_not_called()

    def test_volume_is_gone(self):
        """A start may take minutes; the id may now be another's (OBJ-7)."""
        self.array.identity.volume.return_value = None
        self.create()
        self.deletion.delete_backing.assert_not_called()

    def is_kept(self, error):
        self.deletion.delete_backing.side_effect = error
        with self.assertLogs(volumes.LOG.logger, 'WARNING') as logs:
            self.create()
        self.assertIn(str(error), logs.output[0])

    def test_volume_cannot_be_deleted(self):
        self.is_kept(rest.Unreachable('lost'))

    def test_volume_is_in_use(self):
        self.is_kept(exceptions.ObjectInUse('cv-1', 'is needed'))


class CloneTest(VolumesCase):

    def setUp(self):
        super().setUp()
        self.group = 7
        self.request = dataclasses.replace(ORDER, group=7)
        self.sources.strategies.return_value = ('view',)

    def test_clone_of_a_snapshot(self):
        source = rows.volume(id=rows.VOLUME_ID, size=9)
        snapshot = rows.snapshot(source, volume_size=4)
        self.resolver.confirm_snapshot.return_value = TAKEN_CONFIRMED
        self.cloner.from_snapshot.return_value = MADE
        self.assertEqual(
            {'provider_id': MADE, 'of': DATA_ID,
             'replication_status': 'disabled'},
            self.volumes.create_volume_from_snapshot(self.volume, snapshot))
        self.resolver.confirm_snapshot.assert_called_once_with(
            snapshot, (snapshot, self.sources.taken))
        self.sources.request.assert_called_once_with(
            self.volume, source, 4, (source, self.resolver.resolve))
        self.cloner.from_snapshot.assert_called_once_with(
            self.request, TAKEN_CONFIRMED, ('view',))
        self.sources.strategies.assert_called_once_with(self.volume)

    def test_clone_of_a_missing_snapshot(self):
        self.resolver.confirm_snapshot.side_effect = (
            exceptions.ObjectMissing('gone'))
        self.assertRaises(
            exceptions.ObjectMissing,
            self.volumes.create_volume_from_snapshot, self.volume,
            rows.snapshot())
        self.placement.into_group.assert_not_called()

    def test_clone_of_a_volume(self):
        source = rows.volume(size=4)
        self.resolver.confirm.return_value = CONFIRMED
        self.cloner.from_volume.return_value = MADE
        self.assertEqual(
            {'provider_id': MADE, 'of': DATA_ID,
             'replication_status': 'disabled'},
            self.volumes.create_cloned_volume(self.volume, source))
        self.resolver.confirm.assert_called_once_with(
            source, (source, self.resolver.resolve))
        self.sources.request.assert_called_once_with(
            self.volume, source, 4, CONFIRMED)
        self.cloner.from_volume.assert_called_once_with(
            self.request, CONFIRMED, naming.clone_source(DATA_ID), ('view',))
        self.sources.strategies.assert_called_once_with(self.volume)

    def test_replicated_clone(self):
        self.replication.link_for_new.return_value = mock.sentinel.link
        self.replication.start.return_value = STARTED
        update = self.volumes.create_cloned_volume(self.volume,
                                                   rows.volume())
        self.assertEqual((STARTED, 'enabled'),
                         (update['provider_id'],
                          update['replication_status']))


class ExtendTest(VolumesCase):

    def test_extend(self):
        """A view is flattened first, and the new volume confirmed by name."""
        self.flattening.full.return_value = SOURCE
        self.resolver.confirm.side_effect = None
        self.resolver.confirm.return_value = CONFIRMED
        self.journal.record(self.flattening.full, 'full')
        self.journal.record(self.replication.grow, 'grow')
        self.assertIsNone(self.volumes.extend_volume(self.volume, 5))
        self.assertEqual(['full', '+deadline fresh=True', 'grow',
                          '-deadline'], self.events)
        volume, what = self.flattening.full.call_args.args
        self.assertIs(self.volume, volume)
        self.assertEqual('which the array cannot grow (VSN-4)', what)
        self.resolver.confirm.assert_called_once_with(self.volume, SOURCE)
        self.replication.grow.assert_called_once_with(
            self.volume, CONFIRMED, 5 * KIB_PER_GIB)

    def test_view_that_cannot_be_flattened(self):
        self.flattening.full.side_effect = exceptions.ObjectInUse('v', 'x')
        self.assertRaises(exceptions.ObjectInUse,
                          self.volumes.extend_volume, self.volume, 5)
        self.replication.grow.assert_not_called()


class SnapshotTest(VolumesCase):

    def setUp(self):
        super().setUp()
        self.snapshot = rows.snapshot(self.volume)
        self.resolver.resolve.return_value = SOURCE
        self.resolver.find.return_value = CONFIRMED
        self.journal.record(self.volume.refresh, 'refresh')
        self.journal.record(self.resolver.find, 'find')
        self.journal.record(self.array.snapshots.create, 'create')
        self.array.snapshots.create.return_value = TAKEN

    def create(self):
        return self.volumes.create_snapshot(self.snapshot)

    def held(self, *events, group=5):
        return [f'+group sys-1 {group}', '+deadline fresh=True', *events,
                '-deadline', '-group']

    def test_create_snapshot(self):
        self.assertEqual({'provider_id': TAKEN, 'of': ''}, self.create())
        self.assertEqual(self.held('refresh', 'find', 'create'), self.events)
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.resolver.find.assert_called_once_with(self.volume)
        self.array.snapshots.create.assert_called_once_with(
            naming.snapshot(rows.SNAPSHOT_ID), CONFIRMED)

    def test_volume_was_moved_to_another_group(self):
        """The lock of the new group is taken instead."""
        moved = ArrayVolume(group=50, volume=6)
        self.resolver.find.return_value = moved
        self.resolver.resolve.side_effect = [SOURCE, moved]
        self.create()
        self.assertEqual([
            *self.held('refresh', 'find'),
            *self.held('refresh', 'find', 'create', group=50)], self.events)

    def test_volume_is_moved_repeatedly(self):
        self.resolver.find.return_value = ArrayVolume(group=50, volume=6)
        error = self.assertRaises(exceptions.ConcurrentUpdate, self.create)
        self.assertEqual(f'Volume {self.volume.id} is moved between groups; '
                         'try again.', str(error))
        self.assertEqual(5, self.resolver.resolve.call_count)
        self.array.snapshots.create.assert_not_called()
