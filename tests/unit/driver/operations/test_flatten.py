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

"""Flattening: a volume backed by a view gets its own data."""

import ddt
from oslotest import base

from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import deletion
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import host_copy
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import rows

DATA_ID = '88888888-eeee-4eee-8eee-888888888888'
KIB_PER_GIB = 1024 * 1024
STORED = ArrayVolume(group=5, view=8)
VIEW = ArrayVolume(group=5, view=8, volsnap=9)
MADE = ArrayVolume(group=1, volume=2)
NOTED = ArrayVolume(group=1, volume=2, has_clones=True)
WHY = 'which the array cannot do'
FRESH = '+deadline fresh=True'


class FlatteningCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'volumes', 'names')
        self.resolver = autospec.Double(resolver.Resolver)
        self.detach = autospec.Double(detach.Detach)
        self.deletion = autospec.Double(deletion.Deletion)
        self.copies = autospec.Double(host_copy.HostCopy)
        self.promote = autospec.patched(self, clones, 'promote')
        self.journal.record_locks(self)
        self.renew = autospec.patched(self, writes, 'renew')
        self.volume = rows.volume(name_id=DATA_ID)
        self.now = rows.volume(name_id=DATA_ID)
        self._record()
        self.flattening = flatten.Flattening(
            self.array, self.resolver, self.detach, self.deletion,
            self.copies)

    def _record(self):
        for double, name in [
                (self.resolver.confirm, 'confirm'),
                (self.array.volumes.check_unmapped, 'check_unmapped'),
                (self.detach.disconnect_ours, 'disconnect_ours'),
                (self.deletion.drop_unfinished, 'drop_unfinished'),
                (self.promote, 'promote'),
                (self.array.names.set_volume, 'rename'),
                (self.deletion.give_up, 'give_up'),
                (self.renew, 'renew')]:
            self.journal.record(double, name)
        self.resolver.note.side_effect = (
            lambda volume, backing, flattening: self.events.append(
                f'note {backing.mappable.resource} {flattening}'))
        self.resolver.confirm.return_value = VIEW
        self.resolver.names_of.return_value = ['view']
        self.resolver.resolve.side_effect = self.journal.recorded(
            'resolve', [STORED, STORED, NOTED])
        self.promote.return_value = MADE
        self.renew.return_value = self.now

    def flatten(self):
        return self.flattening.full(self.volume, WHY)

    def steps(self):
        """Return the events while the volume is held."""
        self.assertEqual(BEFORE, self.events[:len(BEFORE)])
        self.assertEqual(AFTER, self.events[-len(AFTER):])
        return self.events[len(BEFORE):-len(AFTER)]


#: The ids are resolved, then again once the volume is held.
BEFORE = [FRESH, 'resolve', '-deadline', f'+flattening {rows.VOLUME_ID}',
          FRESH, 'renew', 'resolve']
#: The steps of flattening.
STEPS = ['confirm', 'check_unmapped', 'drop_unfinished',
         'note snapshots True', 'promote', FRESH, 'note volumes True',
         'rename', 'give_up', 'note volumes False', '-deadline', 'resolve']
AFTER = ['-deadline', '-flattening']


@ddt.ddt
class FlattenTest(FlatteningCase):

    def test_flatten(self):
        self.assertIs(NOTED, self.flatten())
        self.assertEqual(STEPS, self.steps())
        self.renew.assert_called_once_with(self.volume)
        self.resolver.confirm.assert_called_once_with(self.volume, STORED)
        self.array.volumes.check_unmapped.assert_called_once_with(VIEW)
        self.deletion.drop_unfinished.assert_called_once_with(DATA_ID)
        self.array.names.set_volume.assert_called_once_with(
            2, naming.volume(DATA_ID), naming.unfinished_volume(DATA_ID))
        self.deletion.give_up.assert_called_once_with(VIEW)
        self.resolver.resolve.assert_called_with(self.volume)

    def test_notes_in_the_row(self):
        noted = []
        self.resolver.note.side_effect = (
            lambda volume, backing, flattening: noted.append(
                (volume, backing, flattening)))
        self.flatten()
        self.assertEqual([(self.volume, VIEW, True), (self.volume, MADE, True),
                          (self.volume, MADE, False)], noted)

    @ddt.data((None, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False))
    @ddt.unpack
    def test_arguments_of_the_copy(self, specs, dedup):
        self.volume.volume_type = specs and rows.volume_type(specs)
        self.flatten()
        self.promote.assert_called_once_with(
            self.array, self.copies.copy, view=NamedVolume(VIEW, ['view']),
            name=naming.unfinished_volume(DATA_ID),
            group_name=naming.volume_group(DATA_ID), size=2 * KIB_PER_GIB,
            dedup=dedup)

    def test_attached_volume(self):
        """Attachments are read from the database once it is held."""
        self.now.volume_attachment = ['one']
        error = self.assertRaises(exceptions.ObjectInUse, self.flatten)
        self.assertIn(WHY, str(error))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual(['confirm'], self.steps())

    def test_volume_detached_before_it_was_held(self):
        self.volume.volume_attachment = ['one']
        self.volume.status = 'in-use'
        self.assertIs(NOTED, self.flatten())

    @ddt.data('available', 'extending', 'retyping')
    def test_status_in_which_nothing_is_attached(self, status):
        self.now.status = status
        self.assertIs(NOTED, self.flatten())

    @ddt.data('reserved', 'attaching', 'in-use', 'detaching', 'maintenance',
              'uploading', 'backing-up', 'restoring-backup', 'downloading',
              'reverting', 'deleting', 'unmanaging', 'error')
    def test_status_in_which_the_volume_may_be_attached(self, status):
        """Cinder attaches volumes itself, without attachment records."""
        self.now.status = status
        error = self.assertRaises(exceptions.ObjectInUse, self.flatten)
        self.assertIn(self.volume.id, str(error))
        self.assertIn('try again', str(error))
        self.assertEqual(['confirm'], self.steps())

    @ddt.data('starting', 'migrating', 'completing', 'target:v2')
    def test_volume_being_migrated(self, status):
        self.now.migration_status = status
        self.assertRaisesRegex(exceptions.ObjectInUse, 'being worked on',
                               self.flatten)
        self.assertEqual(['confirm'], self.steps())

    @ddt.data('error', 'success')
    def test_migrated_volume(self, status):
        self.now.migration_status = status
        self.assertIs(NOTED, self.flatten())

    def test_mapping_left_by_a_killed_service_is_removed(self):
        self.array.volumes.check_unmapped.side_effect = [
            exceptions.StillMapped('cv', 'is mapped'), None]
        self.flatten()
        self.detach.disconnect_ours.assert_called_once_with(VIEW)
        self.assertEqual(2, self.array.volumes.check_unmapped.call_count)
        self.assertEqual(['confirm', 'disconnect_ours', 'drop_unfinished'],
                         self.steps()[:3])

    def test_mapping_to_another_host(self):
        self.array.volumes.check_unmapped.side_effect = (
            exceptions.StillMapped('cv', 'is mapped'))
        self.assertRaises(exceptions.StillMapped, self.flatten)
        self.array.volumes.check_unmapped.assert_called_with(VIEW)
        self.promote.assert_not_called()

    def test_copy_fails(self):
        """The row still says that an unfinished copy may exist."""
        self.journal.record(self.promote, 'promote',
                            exceptions.CopyTimeout('late'))
        self.assertRaises(exceptions.CopyTimeout, self.flatten)
        self.assertEqual(STEPS[:5], self.steps())

    @ddt.data(rest.Unreachable('lost'), exceptions.ObjectInUse('cv', 'x'))
    def test_cleanup_fails(self, error):
        """The volume has its own data; its deletion cleans up."""
        self.journal.record(self.deletion.give_up, 'give_up', error)
        with self.assertLogs(flatten.LOG.logger, 'WARNING') as logs:
            self.assertIs(NOTED, self.flatten())
        self.assertIn(self.volume.id, logs.output[0])
        self.assertEqual([*STEPS[:9], *STEPS[10:]], self.steps())

    def test_row_is_not_updated_with_the_new_volume(self):
        """The row still refers to the view, which must be kept."""
        self.resolver.note.side_effect = [
            None, exceptions.ConcurrentUpdate('busy')]
        self.assertRaises(exceptions.ConcurrentUpdate, self.flatten)
        self.deletion.give_up.assert_not_called()
        self.array.names.set_volume.assert_not_called()


class NothingToFlattenTest(FlatteningCase):
    """The volume does not need to be flattened."""

    def test_volume_with_its_own_data(self):
        self.resolver.resolve.side_effect = None
        self.resolver.resolve.return_value = NOTED
        self.assertIs(NOTED, self.flatten())
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.assertEqual([FRESH, '-deadline'], self.events)

    def test_volume_flattened_before_it_was_held(self):
        self.resolver.resolve.side_effect = self.journal.recorded(
            'resolve', [STORED, NOTED])
        self.assertIs(NOTED, self.flatten())
        self.assertEqual([], self.steps())
