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

"""Clones and volumes from snapshots that copy no data.

On the profile ``sdp`` a thin clone is moved to its own group, on ``k2`` a view
backs the volume.
"""

from collections.abc import Callable
from typing import Any

import ddt

from tests.functional import backend
from tests.functional import base

GIB = 1048576


def on_both(method: Callable[..., None]) -> Callable[..., None]:
    """Run a test on both profiles of the array."""
    both: Callable[..., None] = ddt.data('k2', 'sdp')(method)
    return both


@ddt.ddt
class ClonesTest(base.FunctionalTest):

    def _start(self, profile: str, size: int = 1) -> None:
        self.use('iscsi', profile)
        self.volume = self.backend.create_volume(size)
        self.snapshot = self.backend.create_snapshot(self.volume)

    def _usable(self, volume: Any) -> None:
        """Use a clone like any other volume."""
        attachment = self.backend.attach(volume, self.host())
        self.assertGreater(attachment.connection_info['target_lun'], 0)
        snapshot = self.backend.create_snapshot(volume)
        self.backend.detach(attachment)
        self.backend.delete_snapshot(snapshot)

    @on_both
    def test_from_snapshot(self, profile: str) -> None:
        self._start(profile)
        volume = self.backend.volume_from_snapshot(self.snapshot)
        self.assertEqual(1, volume.size)
        self.assertTrue(volume.provider_id)
        self._usable(volume)
        self.backend.delete_volume(volume)
        self.backend.delete_snapshot(self.snapshot)
        self.backend.delete_volume(self.volume)
        self.assertNothingLeft()

    @on_both
    def test_clone(self, profile: str) -> None:
        self._start(profile)
        self.backend.delete_snapshot(self.snapshot)
        clone = self.backend.clone(self.volume)
        self._usable(clone)
        self.backend.delete_volume(clone)
        # The hidden snapshot was deleted with it.
        self.assert_left(volumes=1, volume_groups=1)

    @on_both
    def test_clone_of_an_attached_volume(self, profile: str) -> None:
        self._start(profile)
        attachment = self.backend.attach(self.volume, self.host())
        clone = self.backend.clone(self.volume)
        other = self.backend.volume_from_snapshot(self.snapshot)
        self.backend.detach(attachment)
        self._usable(clone)
        self._usable(other)

    @on_both
    def test_without_a_thin_clone_nothing_is_lost(self, profile: str) -> None:
        """Source and snapshot are still usable once the clone is deleted."""
        self._start(profile)
        clone = self.backend.clone(self.volume)
        self.backend.delete_volume(clone)
        again = self.backend.volume_from_snapshot(self.snapshot)
        self._usable(again)
        self.backend.extend_volume(self.volume, 2)

    @on_both
    def test_clone_of_a_clone(self, profile: str) -> None:
        self._start(profile)
        clone = self.backend.clone(self.volume)
        second = self.backend.clone(clone)
        third = self.backend.volume_from_snapshot(
            self.backend.create_snapshot(second))
        for volume in (clone, second, third):
            self._usable(volume)

    @on_both
    def test_snapshot_of_a_clone(self, profile: str) -> None:
        self._start(profile)
        clone = self.backend.volume_from_snapshot(self.snapshot)
        snapshots = [self.backend.create_snapshot(clone) for _ in range(2)]
        self.backend.delete_snapshot(snapshots[0])
        volume = self.backend.volume_from_snapshot(snapshots[1])
        self._usable(volume)

    @on_both
    def test_after_a_restart(self, profile: str) -> None:
        """The service keeps no essential state in memory only."""
        self._start(profile)
        clone = self.backend.clone(self.volume)
        attachment = self.backend.attach(clone, self.host())
        self.assertTrue(self.backend.restart())
        self.backend.detach(attachment)
        self._usable(clone)
        self.backend.delete_volume(clone)
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)

    @on_both
    def test_two_from_one_source_at_once(self, profile: str) -> None:
        self._start(profile)
        results = self.together(
            *[lambda: self.backend.clone(self.volume)] * 3,
            *[lambda: self.backend.volume_from_snapshot(self.snapshot)] * 3)
        for volume in results:
            self.assertEqual('available', getattr(volume, 'status', volume))
        self.assertEqual(6, len({v.provider_id for v in results}))

    @on_both
    def test_clones_and_snapshots_at_once(self, profile: str) -> None:
        """A snapshot must not include a clone that is about to leave."""
        self._start(profile)
        results = self.together(
            *[lambda: self.backend.clone(self.volume),
              lambda: self.backend.create_snapshot(self.volume)] * 3)
        for row in results:
            self.assertEqual('available', getattr(row, 'status', row))

    def test_a_snapshot_does_not_catch_a_thin_clone(self) -> None:
        """The snapshot waits until the clone has left its source's group."""
        self._start('sdp')
        self.fault('hang', 'POST', 'volume_groups', seconds=0.5)
        clone, *snapshots = self.together(
            lambda: self.backend.clone(self.volume),
            *[lambda: [self.backend.create_snapshot(self.volume)
                       for _ in range(3)]] * 2)
        self.assertEqual('available', getattr(clone, 'status', clone))
        for rows in snapshots:
            self.assertEqual(3, len(rows))

    def test_thin_clones_have_groups_of_their_own(self) -> None:
        self._start('sdp')
        clone = self.backend.clone(self.volume)
        other = self.backend.volume_from_snapshot(self.snapshot)
        for volume in (clone, other):
            group = self.admin.list('volume_groups', name=f'cvg-{volume.id}')
            on_array = self.admin.list('volumes', name=f'cv-{volume.id}')
            self.assertEqual(f'/volume_groups/{group[0]["id"]}',
                             on_array[0]['volume_group']['ref'])

    def test_larger_thin_clones(self) -> None:
        self._start('sdp')
        clone = self.backend.clone(self.volume, 4)
        other = self.backend.volume_from_snapshot(self.snapshot, 3)
        for volume, size in ((clone, 4), (other, 3)):
            self.assertEqual(size, volume.size)
            on_array = self.admin.list('volumes', name=f'cv-{volume.id}')
            self.assertEqual(size * GIB, on_array[0]['size'])
            self.backend.extend_volume(volume, 6)

    def test_from_the_snapshot_of_a_volume_that_grew(self) -> None:
        """A thin clone has the size of its source in the snapshot."""
        self._start('sdp')
        self.backend.extend_volume(self.volume, 5)
        small = self.backend.volume_from_snapshot(self.snapshot)
        large = self.backend.volume_from_snapshot(self.snapshot, 5)
        for volume, size in ((small, 1), (large, 5)):
            on_array = self.admin.list('volumes', name=f'cv-{volume.id}')
            self.assertEqual(size * GIB, on_array[0]['size'])
        self.assertEqual(5 * GIB, self.admin.list(
            'volumes', name=f'cv-{self.volume.id}')[0]['size'])

    def test_view_of_a_volume_that_grew(self) -> None:
        self._start('k2')
        self.backend.extend_volume(self.volume, 5)
        self._usable(self.backend.volume_from_snapshot(self.snapshot))

    def test_larger_where_copies_are_not_allowed(self) -> None:
        self.use('iscsi', 'k2', k2_clone_strategies='thin,view')
        self.volume = self.backend.create_volume(1)
        self.snapshot = self.backend.create_snapshot(self.volume)
        before = self.left()
        for make in (lambda: self.backend.clone(self.volume, 2),
                     lambda: self.backend.volume_from_snapshot(
                         self.snapshot, 2)):
            failure = self.assertRaises(backend.OperationFailed, make)
            self.assertEqual('error', failure.status)
            self.assertIn('size', str(failure.cause))
            self.assertEqual(before, self.left())
            self.backend.delete_volume(failure.row)

    @on_both
    def test_another_deduplication_without_copies(self, profile: str
                                                  ) -> None:
        self._start(profile)
        before = self.left()
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.volume_from_snapshot,
            self.snapshot, kaminario__thin_prov_type='nodedup',
            kaminario__clone_strategy='thin,view')
        self.assertEqual('error', failure.status)
        self.assertIn('dedup', str(failure.cause))
        self.assertEqual(before, self.left())

    def test_the_volume_type_chooses_the_strategy(self) -> None:
        self._start('sdp')
        volume = self.backend.volume_from_snapshot(
            self.snapshot, kaminario__clone_strategy='view')
        self.assertEqual([], self.admin.list('volumes',
                                             name=f'cv-{volume.id}'))
        self.assertEqual(1, len(self.admin.list(
            'snapshots', short_name=f'cv-{volume.id}')))
        self._usable(volume)

    def test_no_strategy_works(self) -> None:
        self._start('k2')
        before = self.left()
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.clone, self.volume,
            kaminario__clone_strategy='thin')
        self.assertEqual('error', failure.status)
        self.assertIn('thin', str(failure.cause))
        self.assertEqual(before, self.left())

    def test_the_back_end_chooses_the_strategy(self) -> None:
        self.use('iscsi', 'sdp', k2_clone_strategies='view')
        volume = self.backend.create_volume(1)
        clone = self.backend.clone(volume)
        self.assertEqual([], self.admin.list('volumes',
                                             name=f'cv-{clone.id}'))

    def test_an_array_that_does_not_move_clones(self) -> None:
        """CLN-7: then a view is used, and no thin clone stays behind."""
        self._start('sdp')
        self.own('iscsi')
        self.volume = self.backend.create_volume(1)
        self.snapshot = self.backend.create_snapshot(self.volume)
        self.switch(clones_movable=False)
        clone = self.backend.clone(self.volume)
        other = self.backend.volume_from_snapshot(self.snapshot)
        self._usable(clone)
        self._usable(other)
        self.assertEqual(2, self.left()['volumes'])

    def test_thin_clone_of_a_view(self) -> None:
        """CLN-6: arrays refuse thin clones of a view, so a view is used."""
        self._start('sdp')
        view = self.backend.volume_from_snapshot(
            self.snapshot, kaminario__clone_strategy='view')
        clone = self.backend.clone(
            view, kaminario__clone_strategy='thin,view')
        self._usable(clone)

    @on_both
    def test_failures_leave_nothing(self, profile: str) -> None:
        """The array refuses each of the writes in turn."""
        self._start(profile)
        before = self.left()
        self.array.control.clear_journal()
        clone = self.backend.clone(self.volume)
        writes = [(e.method, e.path) for e in self.array.control.journal()
                  if e.method != 'GET']
        self.backend.delete_volume(clone)
        for method, path in writes:
            resource = path.removeprefix('/api/v2/').split('/')[0]
            self.fault('status', method, resource + '*', status=403)
            result = self.together(
                lambda: self.backend.clone(self.volume))[0]
            self.array.control.clear_faults()
            row = getattr(result, 'row', result)
            self.backend.delete_volume(row)
            self.assertEqual(before, self.left(), f'{method} {path}')
