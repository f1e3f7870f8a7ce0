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

"""Snapshots: create, delete, and what the array does on its own."""

from typing import Any

from tests.functional import backend
from tests.functional import base


class SnapshotsTest(base.FunctionalTest):

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def _snapshot(self, snapshot: Any) -> Any:
        found = self.admin.list('snapshots', short_name=f'cs-{snapshot.id}')
        self.assertEqual(1, len(found), str(found))
        return found[0]

    def test_create(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)

        on_array = self._snapshot(snapshot)
        group = self.admin.list('volume_groups',
                                name=f'cvg-{self.volume.id}')[0]
        self.assertEqual({'ref': f'/volume_groups/{group["id"]}'},
                         on_array['source'])
        # SNP-4: the array must not delete it automatically.
        self.assertFalse(on_array['is_auto_deleteable'])
        self.assertFalse(on_array['is_exposable'])
        policy = on_array['retention_policy']['ref'].split('/')[-1]
        self.assertEqual('Best_Effort_Retention', self.admin.list(
            'retention_policies', id=policy)[0]['name'])
        self.assertTrue(snapshot.provider_id)

    def test_delete_in_any_order(self) -> None:
        first, second, third = [self.backend.create_snapshot(self.volume)
                                for _ in range(3)]
        self.backend.delete_snapshot(second)
        self.assert_left(volumes=1, volume_groups=1, snapshots=2)
        self.backend.delete_snapshot(first)
        self.backend.delete_snapshot(third)
        self.assert_left(volumes=1, volume_groups=1)

    def test_of_an_attached_volume(self) -> None:
        attachment = self.backend.attach(self.volume, self.host())
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.detach(attachment)
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)

    def test_delete_what_the_array_removed(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        self.admin.delete('snapshots', self._snapshot(snapshot)['id'])
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)

    def test_delete_while_an_administrator_has_a_view_of_it(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        on_array = self._snapshot(snapshot)
        view = self.make(
            'snapshots', short_name='mine', is_exposable=True,
            source={'ref': f'/snapshots/{on_array["id"]}'},
            retention_policy=on_array['retention_policy'])

        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_snapshot, snapshot)

        self.assertEqual('available', failure.status)
        self.assertIn('mine', self.log.errors_text())
        self.admin.delete('snapshots', view['id'])
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)

    def test_refused_by_the_array(self) -> None:
        self.fault('status', 'POST', 'snapshots', status=403)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.create_snapshot,
                                    self.volume)
        self.assertEqual('error', failure.status)
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.delete_snapshot(failure.row)

    def test_another_retention_policy(self) -> None:
        policy = self.make('retention_policies', name='keep-long', weeks=9,
                           num_snapshots=0, days=0, hours=0)
        backend_ = self.use('iscsi', k2_retention_policy='keep-long')
        volume = backend_.create_volume(1)
        snapshot = backend_.create_snapshot(volume)
        self.assertEqual(f'/retention_policies/{policy["id"]}',
                         self._snapshot(snapshot)['retention_policy']['ref'])

    def test_a_retention_policy_that_was_made_again(self) -> None:
        """The id of the policy has changed since the driver looked it up."""
        numbers = {'weeks': 1, 'days': 0, 'hours': 0, 'num_snapshots': 0}
        policy = self.admin.create('retention_policies', name='mine',
                                   **numbers)
        mine = self.own('iscsi', k2_retention_policy='mine')
        volume = mine.create_volume(1)
        mine.delete_snapshot(mine.create_snapshot(volume))
        self.admin.delete('retention_policies', policy['id'])
        self.make('retention_policies', name='mine', **numbers)
        mine.create_snapshot(volume)

    def test_cascade(self) -> None:
        """Cinder deletes the snapshots, then the volume."""
        for _ in range(2):
            self.backend.create_snapshot(self.volume)
        self.backend.delete_volume(self.volume, cascade=True)
        self.assertNothingLeft()
