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

from unittest import mock
from unittest.mock import call

import ddt

from cinder_k2.driver.db import writes
from tests.unit.driver import doubles

VALUES = {'provider_id': 'new'}


@ddt.ddt
class WritesTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.row = doubles.a_volume(provider_id='read', status='in-use')
        self.write = doubles.Call(self.log, 'update')
        self.row.conditional_update = self.write
        self.row.refresh = lambda: self.log.refresh()
        self.row.destroy = lambda: self.log.destroy()

    def test_a_row_as_it_is_now(self):
        class Model(doubles.Row):
            get_by_id = mock.Mock()

        row = Model(id='v1', _context='context')
        self.assertIs(Model.get_by_id.return_value, writes.current(row))
        Model.get_by_id.assert_called_once_with('context', 'v1')

    @ddt.data(('new', 'new'), ('read', 'read'), (None, 'read'))
    @ddt.unpack
    def test_ids_are_read_again(self, found, expected):
        """Those of a new volume may not be saved yet."""
        now = doubles.a_volume(provider_id=found, status='available')
        self.function(writes, 'current').return_value = now
        self.row.obj_reset_changes = lambda names: self.log.reset(names)
        self.assertIs(now, writes.renew(self.row))
        self.assertEqual((expected, 'in-use'),
                         (self.row.provider_id, self.row.status))
        # Cinder is not to save it.
        self.assertEqual([call.reset(['provider_id'])] * (found == 'new'),
                         self.calls('reset'))

    @ddt.data((1, True), (0, False))
    @ddt.unpack
    def test_ids_replace_what_was_read(self, count, expected):
        """And nothing that somebody else wrote since."""
        self.write.return_value = count
        self.assertIs(expected, writes.set_if_unmoved(self.row, VALUES))
        self.write.assert_called_once_with(VALUES, {'provider_id': 'read'})

    @ddt.data((1, True), (0, False))
    @ddt.unpack
    def test_a_volume_at_rest(self, count, expected):
        self.write.return_value = count
        self.assertIs(expected, writes.set_if_at_rest(
            self.row, VALUES, {'replication_status': 'enabled'}))
        self.write.assert_called_once_with(VALUES, {
            'replication_status': 'enabled', 'status': 'in-use',
            'provider_id': 'read'})

    def test_what_the_arrays_say_of_replication(self):
        writes.set_replication(self.row, VALUES)
        self.write.assert_called_once_with(VALUES, {})

    def test_the_replication_of_a_group(self):
        writes.replace_replication(self.row, VALUES, {'a': 'before'})
        self.write.assert_called_once_with(VALUES, {'a': 'before'})

    @ddt.data((['enabled', 'enabled'], True), (['enabled', 'error'], False))
    @ddt.unpack
    def test_a_group_whose_volumes_are_replicated(self, of_volumes, written):
        """By rows that were read again."""
        def refresh():
            self.log.refresh()
            self.row.volumes = [doubles.Row(replication_status=status)
                                for status in of_volumes]

        self.row.volumes, self.row.refresh = [], refresh
        writes.repair_group(self.row, VALUES, {'a': 'before'})
        self.assertEqual(
            [call.refresh(), *[call.update(VALUES, {'a': 'before'})]
             * written], self.calls())

    def test_a_snapshot_goes(self):
        writes.remove_snapshot(self.row)
        self.assertEqual([call.destroy()], self.calls())
