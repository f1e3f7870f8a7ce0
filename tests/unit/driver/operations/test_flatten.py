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

from cinder_k2.array import Backing
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import connections
from cinder_k2.driver.operations import deletion
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
STORED = Backing(group=5, view=8)
VIEW = Backing(group=5, view=8, volsnap=9)
MADE = Backing(group=1, volume=2)
NOTED = Backing(group=1, volume=2, has_clones=True)
WHY = 'which the array cannot do'
FRESH = '+deadline fresh=True'


class FlatteningCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'volumes', 'names')
        self.resolver = autospec.Double(resolver.Resolver)
        self.connections = autospec.Double(connections.Connections)
        self.deletion = autospec.Double(deletion.Deletion)
        self.copies = autospec.Double(host_copy.HostCopy)
        self.promote = autospec.patched(self, clones, 'promote')
        self.begin = autospec.patched(self, writes, 'begin_maintenance')
        self.end = autospec.patched(self, writes, 'end_maintenance')
        self.volume = rows.volume(name_id=DATA_ID)
        self._record()
        self.flattening = flatten.Flattening(
            self.array, self.resolver, self.connections, self.deletion,
            self.copies)

    def _record(self):
        for double, name in [
                (self.resolver.confirm, 'confirm'),
                (self.resolver.resolve, 'resolve'),
                (self.array.volumes.check_unmapped, 'check_unmapped'),
                (self.connections.disconnect_ours, 'disconnect_ours'),
                (self.deletion.drop_unfinished, 'drop_unfinished'),
                (self.promote, 'promote'),
                (self.array.names.set_volume, 'rename'),
                (self.deletion.give_up, 'give_up'),
                (self.begin, 'begin'), (self.end, 'end')]:
            self.journal.record(double, name)
        self.resolver.note.side_effect = (
            lambda volume, backing, unfinished: self.events.append(
                f'note {backing.mappable.resource} {unfinished}'))
        self.resolver.confirm.return_value = VIEW
        self.resolver.resolve.return_value = NOTED
        self.promote.return_value = MADE
        self.begin.return_value = True


#: What is done to flatten a volume.
STEPS = ['confirm', 'check_unmapped', 'drop_unfinished',
         'note snapshots True', 'promote', FRESH, 'note volumes True',
         'rename', 'give_up', 'note volumes False', '-deadline', 'resolve']


@ddt.ddt
class FlattenTest(FlatteningCase):

    def flatten(self):
        return self.flattening.flatten(self.volume, STORED, 5, WHY)

    def test_flatten(self):
        self.assertIs(NOTED, self.flatten())
        self.assertEqual(STEPS, self.events)
        self.resolver.confirm.assert_called_once_with(self.volume, STORED)
        self.array.volumes.check_unmapped.assert_called_once_with(VIEW)
        self.deletion.drop_unfinished.assert_called_once_with(DATA_ID)
        self.array.names.set_volume.assert_called_once_with(
            2, naming.volume(DATA_ID), naming.unfinished_volume(DATA_ID))
        self.deletion.give_up.assert_called_once_with(VIEW)
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.begin.assert_not_called()

    def test_what_is_noted(self):
        noted = []
        self.resolver.note.side_effect = (
            lambda volume, backing, unfinished: noted.append(
                (volume, backing, unfinished)))
        self.flatten()
        self.assertEqual([(self.volume, VIEW, True), (self.volume, MADE, True),
                          (self.volume, MADE, False)], noted)

    @ddt.data((None, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False))
    @ddt.unpack
    def test_what_is_made(self, specs, dedup):
        self.volume.volume_type = specs and rows.volume_type(specs)
        self.flatten()
        self.promote.assert_called_once_with(
            self.array, self.copies.copy, view=VIEW,
            name=naming.unfinished_volume(DATA_ID),
            group_name=naming.volume_group(DATA_ID), size=5 * KIB_PER_GIB,
            old_size=2 * KIB_PER_GIB, dedup=dedup)

    def test_an_attached_one(self):
        self.volume.volume_attachment = ['one']
        error = self.assertRaises(exceptions.ObjectInUse, self.flatten)
        self.assertIn(WHY, str(error))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual(['confirm'], self.events)

    def test_a_mapping_that_a_killed_service_left(self):
        self.array.volumes.check_unmapped.side_effect = [
            exceptions.StillMapped('cv', 'is mapped'), None]
        self.flatten()
        self.connections.disconnect_ours.assert_called_once_with(VIEW)
        self.assertEqual(2, self.array.volumes.check_unmapped.call_count)
        self.assertEqual(['confirm', 'disconnect_ours', 'drop_unfinished'],
                         self.events[:3])

    def test_a_mapping_of_somebody_else(self):
        self.array.volumes.check_unmapped.side_effect = (
            exceptions.StillMapped('cv', 'is mapped'))
        self.assertRaises(exceptions.StillMapped, self.flatten)
        self.array.volumes.check_unmapped.assert_called_with(VIEW)
        self.promote.assert_not_called()

    def test_copying_fails(self):
        """The row still says that there is a remainder."""
        self.journal.record(self.promote, 'promote',
                            exceptions.CopyTimeout('late'))
        self.assertRaises(exceptions.CopyTimeout, self.flatten)
        self.assertEqual(STEPS[:5], self.events)

    @ddt.data(rest.Unreachable('lost'), exceptions.ObjectInUse('cv', 'x'))
    def test_clearing_up_fails(self, error):
        """The volume has its data, and its deletion clears up."""
        self.journal.record(self.deletion.give_up, 'give_up', error)
        with self.assertLogs(flatten.LOG.logger, 'WARNING') as logs:
            self.assertIs(NOTED, self.flatten())
        self.assertIn(self.volume.id, logs.output[0])
        self.assertEqual([*STEPS[:9], *STEPS[10:]], self.events)

    def test_the_row_does_not_get_the_volume(self):
        """The view that the row still names must stay."""
        self.resolver.note.side_effect = [
            None, exceptions.RowChanged('busy')]
        self.assertRaises(exceptions.RowChanged, self.flatten)
        self.deletion.give_up.assert_not_called()
        self.array.names.set_volume.assert_not_called()


@ddt.ddt
class FullTest(FlatteningCase):

    def full(self):
        return self.flattening.full(self.volume, WHY)

    def test_a_volume_that_has_its_data(self):
        self.assertIs(NOTED, self.full())
        self.resolver.resolve.assert_called_once_with(self.volume)
        self.assertEqual([FRESH, 'resolve', '-deadline'], self.events)

    def test_an_available_one(self):
        self.resolver.resolve.side_effect = [STORED, NOTED]
        self.assertIs(NOTED, self.full())
        self.assertEqual([FRESH, 'begin', *STEPS[:-1], 'end', '-deadline'],
                         self.events)
        self.begin.assert_called_once_with(self.volume)
        self.end.assert_called_once_with(self.volume)
        self.resolver.confirm.assert_called_once_with(self.volume, STORED)
        self.assertEqual(
            2 * KIB_PER_GIB, self.promote.call_args.kwargs['size'])

    def test_the_reason_is_told(self):
        self.volume.volume_attachment = ['one']
        self.resolver.resolve.return_value = STORED
        self.assertRaisesRegex(exceptions.ObjectInUse, WHY, self.full)

    def test_it_is_available_again_after_an_error(self):
        self.resolver.resolve.return_value = STORED
        self.journal.record(self.promote, 'promote',
                            exceptions.CopyTimeout('late'))
        self.assertRaises(exceptions.CopyTimeout, self.full)
        self.assertEqual(['promote', 'end', '-deadline'], self.events[-3:])

    def test_one_that_another_operation_has_begun_with(self):
        self.resolver.resolve.return_value = STORED
        self.begin.return_value = False
        error = self.assertRaises(exceptions.ObjectInUse, self.full)
        self.assertIn(self.volume.id, str(error))
        self.promote.assert_not_called()
        self.end.assert_not_called()

    @ddt.data('retyping', 'maintenance', 'extending')
    def test_one_that_cinder_keeps(self, status):
        self.volume.status = status
        self.resolver.resolve.side_effect = [STORED, NOTED]
        self.assertIs(NOTED, self.full())
        self.begin.assert_not_called()
        self.end.assert_not_called()
