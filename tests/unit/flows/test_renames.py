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

from cinder_k2.array import ArrayVolume
from cinder_k2.flows import renames
from cinder_k2 import rest
from tests.unit.driver import doubles

BACKING = ArrayVolume(group=3, volume=7)
NAMES = {'name': 'new', 'group_name': 'new group',
         'old_name': 'old', 'old_group_name': 'old group'}
SET_GROUP = mock.call.array.names.set_group(3, 'new group', 'old group')
SET_VOLUME = mock.call.array.names.set_volume(7, 'new', 'old')
GROUP_BACK = [mock.call.cleanup_deadline(),
              mock.call.array.volumes.find_group('new group'),
              mock.call.array.names.set_group(3, 'old group', 'new group')]
VOLUME_BACK = [mock.call.cleanup_deadline(),
               mock.call.array.volumes.find_volume('new'),
               mock.call.array.names.set_volume(7, 'old', 'new')]


class RenameTest(doubles.TestCase):
    """Volume and group both get new names, or keep the old ones."""

    def setUp(self):
        super().setUp()
        self.array.volumes.find_group.return_value = 3
        self.array.volumes.find_volume.return_value = 7

    def rename(self):
        renames.rename(self.array, BACKING, **NAMES)

    def test_volume_and_group(self):
        self.rename()
        self.assertEqual([SET_GROUP, SET_VOLUME], self.calls())

    def test_group_is_refused(self):
        self.array.names.set_group.side_effect = rest.Refused('taken')
        self.raised(rest.Refused, self.rename)
        self.assertEqual([SET_GROUP], self.calls())

    def test_outcome_for_the_group_is_unknown(self):
        self.array.names.set_group.side_effect = [
            rest.Unreachable('gone'), None]
        self.raised(rest.Unreachable, self.rename)
        self.assertEqual([SET_GROUP, *GROUP_BACK], self.calls())

    def test_volume_is_refused(self):
        self.array.names.set_volume.side_effect = rest.Refused('taken')
        self.raised(rest.Refused, self.rename)
        self.assertEqual([SET_GROUP, SET_VOLUME, *GROUP_BACK], self.calls())

    def test_outcome_for_the_volume_is_unknown(self):
        self.array.names.set_volume.side_effect = [
            rest.Unreachable('gone'), None]
        self.raised(rest.Unreachable, self.rename)
        self.assertEqual([SET_GROUP, SET_VOLUME, *VOLUME_BACK, *GROUP_BACK],
                         self.calls())

    def test_name_belongs_to_another_object(self):
        """Ids may be reused (OBJ-7)."""
        self.array.volumes.find_group.return_value = 4
        self.array.volumes.find_volume.return_value = 8
        self.array.names.set_volume.side_effect = rest.Unreachable('gone')
        self.raised(rest.Unreachable, self.rename)
        self.assertEqual([SET_GROUP, SET_VOLUME, *VOLUME_BACK[:2],
                          *GROUP_BACK[:2]], self.calls())

    def test_failed_undo_is_logged(self):
        self.array.names.set_volume.side_effect = [
            rest.Unreachable('gone'), OSError('why')]
        self.array.names.set_group.side_effect = [None, OSError('no')]
        with self.assertLogs('cinder_k2.flows.undo', 'WARNING') as told:
            self.raised(rest.Unreachable, self.rename)
        self.assertEqual(
            ['Could not undo step "rename volume": why',
             'Could not undo step "rename volume group": no'],
            [record.getMessage() for record in told.records])

    def test_failed_undo_of_unknown_outcome_is_logged(self):
        self.array.names.set_group.side_effect = [
            rest.Unreachable('gone'), OSError('no')]
        with self.assertLogs('cinder_k2.flows.undo', 'WARNING') as told:
            self.raised(rest.Unreachable, self.rename)
        self.assertEqual('Could not undo step "rename volume group": no',
                         told.records[0].getMessage())
