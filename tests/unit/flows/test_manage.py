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
from cinder_k2.array import inventory
from cinder_k2.flows import manage
from cinder_k2 import rest
from tests.unit.driver import doubles

GROUP = rest.VolumeGroup(id=3, name='theirs')
VOLUME = rest.Volume(id=7, name='their volume', size=1)
FOUND = inventory.FoundVolume(VOLUME, GROUP, 0)
TAKE_GROUP = mock.call.array.original_names.adopt_group(GROUP, 'cvg')
TAKE_VOLUME = mock.call.array.original_names.adopt_volume(VOLUME, 'cv', 5)
GROUP_BACK = [mock.call.cleanup_deadline(),
              mock.call.array.volumes.find_group('cvg'),
              mock.call.array.original_names.undo_group(GROUP, 'cvg')]
VOLUME_BACK = [mock.call.cleanup_deadline(),
               mock.call.array.volumes.find_volume('cv'),
               mock.call.array.original_names.undo_volume(VOLUME, 'cv')]


class TakeTest(doubles.TestCase):
    """Volume and group both get Cinder's names, or keep their own."""

    def setUp(self):
        super().setUp()
        self.array.volumes.find_group.return_value = 3
        self.array.volumes.find_volume.return_value = 7

    def take(self):
        return manage.take(self.array, FOUND, name='cv', group_name='cvg',
                           size=5)

    def test_volume_and_group(self):
        self.assertEqual(ArrayVolume(group=3, volume=7, has_clones=True),
                         self.take())
        self.assertEqual([TAKE_GROUP, TAKE_VOLUME], self.calls())

    def test_group_is_refused(self):
        self.array.original_names.adopt_group.side_effect = rest.Refused(
            'taken')
        self.raised(rest.Refused, self.take)
        self.assertEqual([TAKE_GROUP], self.calls())

    def test_outcome_for_the_group_is_unknown(self):
        self.array.original_names.adopt_group.side_effect = rest.Unreachable(
            'gone')
        self.raised(rest.Unreachable, self.take)
        self.assertEqual([TAKE_GROUP, *GROUP_BACK], self.calls())

    def test_volume_is_refused(self):
        """It may have the new name already, but not the size."""
        self.array.original_names.adopt_volume.side_effect = rest.Refused(
            'quota')
        self.raised(rest.Refused, self.take)
        self.assertEqual(
            [TAKE_GROUP, TAKE_VOLUME, *VOLUME_BACK, *GROUP_BACK],
            self.calls())

    def test_name_belongs_to_another_object(self):
        """Ids may be reused (OBJ-7)."""
        self.array.volumes.find_group.return_value = 4
        self.array.volumes.find_volume.return_value = 8
        self.array.original_names.adopt_volume.side_effect = rest.Refused(
            'quota')
        self.raised(rest.Refused, self.take)
        self.assertEqual([TAKE_GROUP, TAKE_VOLUME, *VOLUME_BACK[:2],
                          *GROUP_BACK[:2]], self.calls())

    def test_failed_undo_is_logged(self):
        self.array.original_names.adopt_volume.side_effect = rest.Refused(
            'quota')
        self.array.original_names.undo_volume.side_effect = OSError('name')
        self.array.original_names.undo_group.side_effect = OSError('group')
        with self.assertLogs('cinder_k2.flows.undo', 'WARNING') as told:
            self.raised(rest.Refused, self.take)
        self.assertEqual(
            ['Could not undo step "take over volume": name',
             'Could not undo step "take over volume group": group'],
            [record.getMessage() for record in told.records])

    def test_failed_undo_of_unknown_outcome_is_logged(self):
        self.array.original_names.adopt_group.side_effect = rest.Unreachable(
            'gone')
        self.array.original_names.undo_group.side_effect = OSError('no')
        with self.assertLogs('cinder_k2.flows.undo', 'WARNING') as told:
            self.raised(rest.Unreachable, self.take)
        self.assertEqual('Could not undo step "take over volume group": no',
                         told.records[0].getMessage())
