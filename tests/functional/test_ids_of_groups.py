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

"""Ids of consistency groups, their members and their snapshots (OBJ-7).

See test_ids for those of single volumes.
"""

from typing import Any

from tests.functional import test_ids

GIB = 1 << 20


class GroupIdsTest(test_ids.IdsTest):
    """A group of two; a foreign volume has the id of the second."""

    def setUp(self) -> None:
        super().setUp()
        self.group = self.backend.create_group()
        self.first, self.second = [
            self.backend.create_volume(1, self.group) for _ in range(2)]

    def stranger_for_member(self) -> Any:
        """Replace the second volume by a foreign one with its id."""
        mine = self.on_array('volumes', f'cv-{self.second.id}')
        self.admin.delete('volumes', mine['id'])
        group = self.make('volume_groups', name='payroll', quota=0)
        return self.stranger(
            'volumes', mine['id'], name='payroll-data', size=GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})

    def stranger_for_group(self) -> Any:
        """Replace the volume group by a foreign one with its id."""
        mine = self.on_array('volume_groups', f'ccg-{self.group.id}')
        for volume in (self.first, self.second):
            found = self.on_array('volumes', f'cv-{volume.id}')
            self.admin.delete('volumes', found['id'])
        self.admin.delete('volume_groups', mine['id'])
        self.stranger('volume_groups', mine['id'], name='payroll', quota=0)
        return self.stranger(
            'volumes', None, name='payroll-data', size=GIB,
            volume_group={'ref': f'/volume_groups/{mine["id"]}'})

    def test_snapshot(self) -> None:
        self.stranger_for_member()
        why = self.assert_fails(self.backend.create_group_snapshot,
                                self.group)
        self.assertIn(self.second.id, why)
        self.assertEqual([], self.admin.list('snapshots'))

    def test_snapshot_where_the_group_is_a_strangers(self) -> None:
        self.stranger_for_group()
        self.assert_fails(self.backend.create_group_snapshot, self.group)
        self.assertEqual([], self.admin.list('snapshots'))

    def test_copy(self) -> None:
        self.stranger_for_member()
        self.assert_fails(self.backend.group_from, self.group)
        self.assertEqual([], self.admin.list('snapshots'))

    def test_copy_of_a_snapshot(self) -> None:
        taken = self.backend.create_group_snapshot(self.group)
        self.stranger_for_snapshot(taken, 'cgs')
        self.assert_fails(self.backend.group_from, taken)

    def test_volume_from_a_snapshot(self) -> None:
        taken = self.backend.create_group_snapshot(self.group)
        self.stranger_for_snapshot(taken, 'cgs')
        self.assert_fails(self.backend.volume_from_snapshot,
                          taken.snapshots[0])

    def test_delete_snapshot(self) -> None:
        taken = self.backend.create_group_snapshot(self.group)
        self.stranger_for_snapshot(taken, 'cgs')
        self.backend.delete_group_snapshot(taken)
        self.assert_untouched()

    def test_delete(self) -> None:
        self.stranger_for_member()
        self.backend.delete_group(self.group)
        self.assert_untouched()
        self.assertEqual([], self.admin.list(
            'volume_groups', name=f'ccg-{self.group.id}'))

    def test_delete_where_the_group_is_a_strangers(self) -> None:
        theirs = self.stranger_for_group()
        self.backend.delete_group(self.group)
        self.assert_untouched()
        self.assertIn(theirs['id'], [
            found['id'] for found in self.admin.list('volumes')])

    def test_leave(self) -> None:
        """A volume that is missing on the array leaves only in Cinder."""
        self.stranger_for_member()
        self.backend.update_group(self.group, remove=[self.second])
        self.assert_untouched()

    def test_leave_where_the_group_is_a_strangers(self) -> None:
        self.stranger_for_group()
        self.backend.update_group(self.group, remove=[self.second])
        self.assert_untouched()

    def test_join(self) -> None:
        volume = self.backend.create_volume(1)
        self.stranger_for(volume)
        self.assert_fails(lambda: self.backend.update_group(
            self.group, add=[volume]))

    def test_new_member_where_the_group_is_a_strangers(self) -> None:
        """The service has used the group before."""
        theirs = self.stranger_for_group()
        made = self.backend.create_volume(1, self.group)
        self.assert_untouched()
        home = self.on_array('volume_groups', f'ccg-{self.group.id}')
        self.assertEqual(
            {'ref': f'/volume_groups/{home["id"]}'},
            self.on_array('volumes', f'cv-{made.id}')['volume_group'])
        self.assertEqual(theirs['volume_group'], self.admin.list(
            'volumes', id=theirs['id'])[0]['volume_group'])

    def test_renamed(self) -> None:
        """The error has both names."""
        number = self.on_array('volumes', f'cv-{self.second.id}')['id']
        self.admin.update('volumes', number, name='renamed')
        for operation in (
                lambda: self.backend.create_group_snapshot(self.group),
                lambda: self.backend.group_from(self.group)):
            why = self.assert_fails(operation)
            self.assertIn('renamed', why)
            self.assertIn(f'cv-{self.second.id}', why)
        self.assert_fails(lambda: self.backend.update_group(
            self.group, remove=[self.second]))
        self.assertEqual([], self.admin.list('snapshots'))
        self.admin.update('volumes', number, name=f'cv-{self.second.id}')


class GroupIdsOverFCTest(GroupIdsTest):
    """Over Fibre Channel, on an SDP."""

    protocol = 'fc'
    profile = 'sdp'
    sequences = True
