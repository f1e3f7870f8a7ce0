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

"""Reverting volumes to their snapshots."""

from typing import Any
from unittest import mock

from cinder.volume import volume_utils

from tests.functional import backend
from tests.functional import base
from tests.functional import disks

MIB = 1 << 20
GIB = 1 << 30


class RevertTest(disks.DisksTest):
    """Helpers."""

    keeps_budgets = False

    def snapshot_of(self, volume: Any) -> Any:
        """Take a snapshot of a volume, and write to the volume after it."""
        self.disks.write(volume, 5 * MIB, b'before')
        snapshot = self.backend.create_snapshot(volume)
        self.disks.write(volume, 5 * MIB, b'afterwards')
        self.disks.write(volume, 9 * MIB, b'new data, zero before')
        return snapshot

    def assert_reverted(self, volume: Any) -> None:
        self.assertEqual(b'before\0\0\0\0',
                         self.disks.read(volume, 5 * MIB, 10))
        self.assertEqual(bytes(21), self.disks.read(volume, 9 * MIB, 21))


@base.pairwise_variants
class EverywhereTest(RevertTest):

    feature = 'revert to snapshot'

    def test_by_the_array(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.snapshot_of(volume)
        before = self.left()
        with self.assert_calls(3):
            self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)
        self.assertEqual(before, self.left())
        self.assertEqual(0, self.disks.total)

    def test_after_an_extend(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.snapshot_of(volume)
        volume = self.backend.extend_volume(volume, 2)
        self.disks.write(volume, GIB + MIB, b'beyond the snapshot')
        before = self.left()
        self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)
        self.assertEqual(bytes(19), self.disks.read(volume, GIB + MIB, 19))
        self.assertEqual(2 * GIB // 1024, self.admin.list(
            'volumes', name=f'cv-{volume.id}')[0]['size'])
        self.assertEqual(before, self.left())
        self.assertEqual([snapshot.id],
                         [s.id for s in self.backend.snapshots()])

    def test_of_a_view(self) -> None:
        source = self.backend.create_volume(1)
        volume = self.backend.clone(source, kaminario__clone_strategy='view')
        snapshot = self.snapshot_of(volume)
        before = self.left()
        self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)
        self.assertEqual(before, self.left())

    def test_with_clones(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.snapshot_of(volume)
        clone = self.backend.clone(volume)
        self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)
        self.assertEqual(b'afterwards',
                         self.disks.read(clone, 5 * MIB, 10))


class FaultsTest(RevertTest):

    def _extended(self) -> tuple[Any, Any]:
        volume = self.backend.create_volume(1)
        snapshot = self.snapshot_of(volume)
        return self.backend.extend_volume(volume, 2), snapshot

    def test_nothing_is_lost_when_the_copy_fails(self) -> None:
        """The log names a snapshot with the data from before the revert."""
        volume, snapshot = self._extended()
        with mock.patch.object(volume_utils, 'copy_volume', autospec=True,
                               side_effect=OSError('link lost')):
            self.assertRaises(backend.OperationFailed, self.backend.revert,
                              volume, snapshot)
        kept = [s for s in self.backend.snapshots() if s.id != snapshot.id]
        self.assertIn(kept[0].id, self.log.errors_text())
        saved = self.backend.volume_from_snapshot(kept[0])
        self.assertEqual(b'afterwards', self.disks.read(saved, 5 * MIB, 10))
        row = self.backend.volume(volume.id)
        row.update({'status': 'available'})
        row.save()
        # Cinder can revert only to the latest snapshot.
        self.backend.delete_volume(saved)
        self.backend.delete_snapshot(kept[0])
        self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)

    def test_lost_reply(self) -> None:
        volume = self.backend.create_volume(1)
        snapshot = self.snapshot_of(volume)
        self.fault('reset', 'PATCH', 'volume_groups/*', commit='after')
        self.backend.revert(volume, snapshot)
        self.assert_reverted(volume)
        self.assertEqual(0, self.disks.total)
