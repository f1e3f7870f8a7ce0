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

    def test_current_row(self):
        class Model(doubles.Row):
            get_by_id = mock.Mock()

        row = Model(id='v1', _context='context')
        self.assertIs(Model.get_by_id.return_value, writes.current(row))
        Model.get_by_id.assert_called_once_with('context', 'v1')

    @ddt.data(('new', 'new'), ('read', 'read'), (None, 'read'))
    @ddt.unpack
    def test_renew_ids(self, found, expected):
        """The ids of a new volume may not be in the database yet."""
        now = doubles.a_volume(provider_id=found, status='available')
        self.function(writes, 'current').return_value = now
        self.row.obj_reset_changes = lambda names: self.log.reset(names)
        self.assertIs(now, writes.renew(self.row))
        self.assertEqual((expected, 'in-use'),
                         (self.row.provider_id, self.row.status))
        # Cinder must not save it again.
        self.assertEqual([call.reset(['provider_id'])] * (found == 'new'),
                         self.calls('reset'))

    @ddt.data((1, True), (0, False))
    @ddt.unpack
    def test_ids_are_replaced_only_if_unchanged(self, count, expected):
        """The row in the database must still have the ids that were read."""
        self.write.return_value = count
        self.assertIs(expected, writes.set_if_unmoved(self.row, VALUES))
        self.write.assert_called_once_with(VALUES, {'provider_id': 'read'})

    @ddt.data((1, True), (0, False))
    @ddt.unpack
    def test_set_only_if_status_and_ids_are_unchanged(self, count, expected):
        self.write.return_value = count
        self.assertIs(expected, writes.set_if_at_rest(
            self.row, VALUES, {'replication_status': 'enabled'}))
        self.write.assert_called_once_with(VALUES, {
            'replication_status': 'enabled', 'status': 'in-use',
            'provider_id': 'read'})

    def test_set_replication(self):
        writes.set_replication(self.row, VALUES)
        self.write.assert_called_once_with(VALUES, {})

    def test_replace_replication(self):
        writes.replace_replication(self.row, VALUES, {'a': 'before'})
        self.write.assert_called_once_with(VALUES, {'a': 'before'})

    @ddt.data((['enabled', 'enabled'], True), (['enabled', 'error'], False))
    @ddt.unpack
    def test_repair_group_if_all_volumes_are_replicated(
            self, of_volumes, written):
        """The rows of its volumes are read again first."""
        def refresh():
            self.log.refresh()
            self.row.volumes = [doubles.Row(replication_status=status)
                                for status in of_volumes]

        self.row.volumes, self.row.refresh = [], refresh
        writes.repair_group(self.row, VALUES, {'a': 'before'})
        self.assertEqual(
            [call.refresh(), *[call.update(VALUES, {'a': 'before'})]
             * written], self.calls())

    def test_remove_snapshot(self):
        writes.remove_snapshot(self.row)
        self.assertEqual([call.destroy()], self.calls())
