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

"""Volumes: create, delete, extend, migration."""

import logging
from typing import Any

from tests.functional import backend
from tests.functional import base

GIB = 1048576


class VolumesTest(base.FunctionalTest):
    """One volume on the array, in a volume group of its own."""

    def _volume(self, key: str) -> Any:
        """Return the array's volume of a Cinder volume."""
        found = self.admin.list('volumes', name=f'cv-{key}')
        self.assertEqual(1, len(found), f'cv-{key}')
        return found[0]

    def _group(self, key: str) -> Any:
        found = self.admin.list('volume_groups', name=f'cvg-{key}')
        self.assertEqual(1, len(found), f'cvg-{key}')
        return found[0]

    def test_create(self) -> None:
        volume = self.backend.create_volume(3)

        group = self._group(volume.id)
        self.assertEqual((True, None), (group['is_dedup'], group['quota']))
        on_array = self._volume(volume.id)
        self.assertEqual(3 * GIB, on_array['size'])
        self.assertEqual(f'/volume_groups/{group["id"]}',
                         on_array['volume_group']['ref'])
        self.assertTrue(volume.provider_id)
        self.assert_left(volumes=1, volume_groups=1)

    def test_create_without_dedup(self) -> None:
        volume = self.backend.create_volume(
            kaminario__thin_prov_type='nodedup')
        self.assertFalse(self._group(volume.id)['is_dedup'])
        self.assertFalse(self._volume(volume.id)['is_dedup'])

    def test_create_with_a_type_that_makes_no_sense(self) -> None:
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.create_volume,
            kaminario__thin_prov_type='maybe')
        self.assertEqual('error', failure.status)
        self.assertIn('nodedup', str(failure.cause))
        self.assertNothingLeft()

    def test_create_refused_by_the_array_leaves_nothing(self) -> None:
        self.fault('status', 'POST', 'volumes', status=403)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.create_volume)
        self.assertEqual('error', failure.status)
        self.assertNothingLeft()

    def test_delete(self) -> None:
        volume = self.backend.create_volume()
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_delete_what_never_was_there(self) -> None:
        self.fault('status', 'POST', 'volume_groups', status=403)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.create_volume)
        self.backend.delete_volume(failure.row)
        self.assertNothingLeft()

    def test_delete_what_an_administrator_removed(self) -> None:
        volume = self.backend.create_volume()
        self.admin.delete('volumes', self._volume(volume.id)['id'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

        volume = self.backend.create_volume()
        self.admin.delete('volumes', self._volume(volume.id)['id'])
        self.admin.delete('volume_groups', self._group(volume.id)['id'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_delete_while_an_administrator_uses_it(self) -> None:
        volume = self.backend.create_volume()
        host = self.make('hosts', name='backup-host', type='Linux')
        mapping = self.make(
            'mappings', host={'ref': f'/hosts/{host["id"]}'},
            volume={'ref': f'/volumes/{self._volume(volume.id)["id"]}'})

        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_volume, volume)

        # Cinder resets the status if the driver reports a busy volume.
        self.assertEqual('available', failure.status)
        self.assert_left(volumes=1, volume_groups=1, hosts=1, mappings=1)
        self.assertIn(
            'mapped', self.log.errors_text(), self.log.errors_text())
        self.admin.delete('mappings', mapping['id'])
        self.backend.delete_volume(volume)
        self.assert_left(hosts=1)

    def test_delete_while_the_array_has_a_snapshot_of_it(self) -> None:
        volume = self.backend.create_volume()
        policy = self.admin.list('retention_policies')[0]['id']
        snapshot = self.make(
            'snapshots', short_name='nightly', is_auto_deleteable=True,
            source={'ref': f'/volume_groups/{self._group(volume.id)["id"]}'},
            retention_policy={'ref': f'/retention_policies/{policy}'})

        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_volume, volume)

        self.assertEqual('available', failure.status)
        self.assertIn('nightly', self.log.errors_text())
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)
        self.admin.delete('snapshots', snapshot['id'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_extend(self) -> None:
        volume = self.backend.create_volume(1)
        volume = self.backend.extend_volume(volume, 5)
        self.assertEqual((5, 'available'), (volume.size, volume.status))
        self.assertEqual(5 * GIB, self._volume(volume.id)['size'])

    def test_extend_attached_with_snapshot(self) -> None:
        volume = self.backend.create_volume(1)
        self.backend.create_snapshot(volume)
        self.backend.attach(volume, self.host())
        volume = self.backend.extend_volume(volume, 2)
        self.assertEqual((2, 'in-use'), (volume.size, volume.status))
        self.assertEqual(2 * GIB, self._volume(volume.id)['size'])

    def test_extend_refused_by_the_array(self) -> None:
        volume = self.backend.create_volume(1)
        self.admin.update('volume_groups', self._group(volume.id)['id'],
                          quota=2 * GIB)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.extend_volume, volume, 3)
        self.assertEqual('error_extending', failure.status)
        self.assertEqual(1, failure.row.size)
        self.assertEqual(GIB, self._volume(volume.id)['size'])

    def test_extend_what_is_gone(self) -> None:
        volume = self.backend.create_volume(1)
        self.admin.delete('volumes', self._volume(volume.id)['id'])
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.extend_volume, volume, 2)
        self.assertEqual('error_extending', failure.status)

    def test_after_a_migration_the_name_id_counts(self) -> None:
        """The row keeps its id, and gets the other row's volume."""
        kept = self.backend.create_volume(1)
        source_id = kept.id
        moved = self.backend.create_volume(1)
        manager = self.backend.manager
        manager.update_migrated_volume(self.backend.context, kept, moved,
                                       'available')
        kept.refresh()
        kept.finish_volume_migration(moved)

        # Cinder deletes the other row, which now has the old volume.
        manager.delete_volume(self.backend.context, moved)
        self.assertEqual([], self.admin.list('volumes',
                                             name=f'cv-{source_id}'))

        self.backend.extend_volume(kept, 7)
        self.assertEqual(7 * GIB, self._volume(moved.id)['size'])
        # Without ids, the name is used, as for rows of the in-tree driver.
        self.ignore_call_budget()
        kept.provider_id = None
        kept.save()
        self.backend.extend_volume(kept, 8)
        self.assertEqual(8 * GIB, self._volume(moved.id)['size'])
        self.backend.delete_snapshot(self.backend.create_snapshot(kept))
        self.backend.detach(self.backend.attach(kept, self.host()))
        self.backend.delete_volume(kept)
        self.assertNothingLeft()

    def test_restart_finds_everything(self) -> None:
        volume = self.backend.create_volume(1)
        attached = self.backend.create_volume(1)
        attachment = self.backend.attach(attached, self.host())
        self.assertTrue(self.backend.restart())
        self.assertEqual('in-use', self.backend.volume(attached.id).status)
        self.backend.detach(attachment)
        self.backend.delete_volume(attached)
        self.backend.extend_volume(volume, 2)

    def test_no_operation_logs_an_error(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        attachment = self.backend.attach(volume, self.host())
        self.backend.extend_volume(volume, 2)
        self.backend.detach(attachment)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertEqual([], self.log.messages(logging.WARNING, 'cinder'))
