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

"""A volume that a view backs gets its own data; what is noted when."""

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

    def full(self):
        return self.flattening.full(self.volume, WHY)

    def tried(self):
        """What was done since the volume is held, until it was let go."""
        self.assertEqual(BEFORE, self.events[:len(BEFORE)])
        self.assertEqual(AFTER, self.events[-len(AFTER):])
        return self.events[len(BEFORE):-len(AFTER)]


#: A view is seen, and the volume held.
BEFORE = [FRESH, 'resolve', '-deadline', f'+flattening {rows.VOLUME_ID}',
          FRESH, 'renew', 'resolve']
#: What is done to flatten it.
STEPS = ['confirm', 'check_unmapped', 'drop_unfinished',
         'note snapshots True', 'promote', FRESH, 'note volumes True',
         'rename', 'give_up', 'note volumes False', '-deadline', 'resolve']
AFTER = ['-deadline', '-flattening']


@ddt.ddt
class FlattenTest(FlatteningCase):

    def test_flatten(self):
        self.assertIs(NOTED, self.full())
        self.assertEqual(STEPS, self.tried())
        self.renew.assert_called_once_with(self.volume)
        self.resolver.confirm.assert_called_once_with(self.volume, STORED)
        self.array.volumes.check_unmapped.assert_called_once_with(VIEW)
        self.deletion.drop_unfinished.assert_called_once_with(DATA_ID)
        self.array.names.set_volume.assert_called_once_with(
            2, naming.volume(DATA_ID), naming.unfinished_volume(DATA_ID))
        self.deletion.give_up.assert_called_once_with(VIEW)
        self.resolver.resolve.assert_called_with(self.volume)

    def test_what_is_noted(self):
        noted = []
        self.resolver.note.side_effect = (
            lambda volume, backing, flattening: noted.append(
                (volume, backing, flattening)))
        self.full()
        self.assertEqual([(self.volume, VIEW, True), (self.volume, MADE, True),
                          (self.volume, MADE, False)], noted)

    @ddt.data((None, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False))
    @ddt.unpack
    def test_what_is_made(self, specs, dedup):
        self.volume.volume_type = specs and rows.volume_type(specs)
        self.full()
        self.promote.assert_called_once_with(
            self.array, self.copies.copy, view=NamedVolume(VIEW, ['view']),
            name=naming.unfinished_volume(DATA_ID),
            group_name=naming.volume_group(DATA_ID), size=2 * KIB_PER_GIB,
            dedup=dedup)

    def test_an_attached_one(self):
        """By the row as it is since the volume is held."""
        self.now.volume_attachment = ['one']
        error = self.assertRaises(exceptions.ObjectInUse, self.full)
        self.assertIn(WHY, str(error))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual(['confirm'], self.tried())

    def test_one_that_was_detached_meanwhile(self):
        self.volume.volume_attachment = ['one']
        self.volume.status = 'in-use'
        self.assertIs(NOTED, self.full())

    @ddt.data('available', 'extending', 'retyping')
    def test_one_that_nobody_attaches(self, status):
        self.now.status = status
        self.assertIs(NOTED, self.full())

    @ddt.data('reserved', 'attaching', 'in-use', 'detaching', 'maintenance',
              'uploading', 'backing-up', 'restoring-backup', 'downloading',
              'reverting', 'deleting', 'unmanaging', 'error')
    def test_one_that_somebody_may_attach(self, status):
        """Cinder itself attaches volumes of which no row tells."""
        self.now.status = status
        error = self.assertRaises(exceptions.ObjectInUse, self.full)
        self.assertIn(self.volume.id, str(error))
        self.assertIn('try again', str(error))
        self.assertEqual(['confirm'], self.tried())

    @ddt.data('starting', 'migrating', 'completing', 'target:v2')
    def test_one_that_is_migrated(self, status):
        self.now.migration_status = status
        self.assertRaisesRegex(exceptions.ObjectInUse, 'being worked on',
                               self.full)
        self.assertEqual(['confirm'], self.tried())

    @ddt.data('error', 'success')
    def test_one_that_was_migrated(self, status):
        self.now.migration_status = status
        self.assertIs(NOTED, self.full())

    def test_a_mapping_that_a_killed_service_left(self):
        self.array.volumes.check_unmapped.side_effect = [
            exceptions.StillMapped('cv', 'is mapped'), None]
        self.full()
        self.detach.disconnect_ours.assert_called_once_with(VIEW)
        self.assertEqual(2, self.array.volumes.check_unmapped.call_count)
        self.assertEqual(['confirm', 'disconnect_ours', 'drop_unfinished'],
                         self.tried()[:3])

    def test_a_mapping_of_somebody_else(self):
        self.array.volumes.check_unmapped.side_effect = (
            exceptions.StillMapped('cv', 'is mapped'))
        self.assertRaises(exceptions.StillMapped, self.full)
        self.array.volumes.check_unmapped.assert_called_with(VIEW)
        self.promote.assert_not_called()

    def test_copying_fails(self):
        """The row still says that there is a remainder."""
        self.journal.record(self.promote, 'promote',
                            exceptions.CopyTimeout('late'))
        self.assertRaises(exceptions.CopyTimeout, self.full)
        self.assertEqual(STEPS[:5], self.tried())

    @ddt.data(rest.Unreachable('lost'), exceptions.ObjectInUse('cv', 'x'))
    def test_clearing_up_fails(self, error):
        """The volume has its data, and its deletion clears up."""
        self.journal.record(self.deletion.give_up, 'give_up', error)
        with self.assertLogs(flatten.LOG.logger, 'WARNING') as logs:
            self.assertIs(NOTED, self.full())
        self.assertIn(self.volume.id, logs.output[0])
        self.assertEqual([*STEPS[:9], *STEPS[10:]], self.tried())

    def test_the_row_does_not_get_the_volume(self):
        """The view that the row still names must stay."""
        self.resolver.note.side_effect = [
            None, exceptions.ConcurrentUpdate('busy')]
        self.assertRaises(exceptions.ConcurrentUpdate, self.full)
        self.deletion.give_up.assert_not_called()
        self.array.names.set_volume.assert_not_called()


class FullTest(FlatteningCase):
    """Nothing is to be done."""

    def test_a_volume_that_has_its_data(self):
        self.resolver.resolve.side_effect = None
        self.resolver.resolve.return_value = NOTED
        self.assertIs(NOTED, self.full())
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.assertEqual([FRESH, '-deadline'], self.events)

    def test_one_that_was_flattened_meanwhile(self):
        self.resolver.resolve.side_effect = self.journal.recorded(
            'resolve', [STORED, NOTED])
        self.assertIs(NOTED, self.full())
        self.assertEqual([], self.tried())
