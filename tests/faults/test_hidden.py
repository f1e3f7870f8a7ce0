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

"""Deletions of sources and clones that are interrupted and repeated."""

import json
from typing import Any
from unittest import mock

from cinder_k2.array import deferred_deletion
from tests.functional import backend
from tests.functional import test_hidden


class KilledTest(test_hidden.HiddenTest):
    """Killed services, whose work a later operation completes."""

    profile = 'sdp'

    def test_killed_after_the_clone_was_deleted(self) -> None:
        """Cinder repeats the deletion, which then completes."""
        clone = self.backend.clone(self.volume)
        self.backend.delete_volume(self.volume)
        for path in ('snapshots/*', 'volumes/*', 'volume_groups/*'):
            for after in range(4):
                self.fault('status', '*', path, status=403, after=after)
                try:
                    self.backend.delete_volume(clone)
                except backend.OperationFailed:
                    pass
                self.array.control.clear_faults()
                self._again(clone)
                self.assertNothingLeft()
                self.volume = self.backend.create_volume(1)
                clone = self.backend.clone(self.volume)
                self.backend.delete_volume(self.volume)

    def _again(self, volume: Any) -> None:
        if any(v.id == volume.id for v in self.backend.volumes()):
            self.backend.delete_volume(volume, force=True)

    def test_killed_while_the_source_was_deleted(self) -> None:
        for path in ('snapshots*', 'volumes/*', 'volume_groups/*', 'vols*'):
            for after in range(3):
                clone = self.backend.clone(self.volume)
                self.fault('status', '*', path, status=403, after=after)
                try:
                    self.backend.delete_volume(self.volume)
                except backend.OperationFailed:
                    pass
                self.array.control.clear_faults()
                self._again(self.volume)
                self.backend.delete_volume(clone)
                self.assertNothingLeft()
                self.volume = self.backend.create_volume(1)

    def test_killed_between_a_group_and_its_home(self) -> None:
        first = self.backend.clone(self.volume)
        second = self.backend.clone(first)
        self.backend.delete_volume(self.volume)
        self.backend.delete_volume(first)
        purge, seen = deferred_deletion.DeferredDeletion.purge, []

        def killed(this: Any, group: int) -> Any:
            done = purge(this, group)
            if done.source_groups and not seen:
                seen.append(group)
                self.fault('status', '*', '*', status=403, times=None)
            return done

        with mock.patch.object(deferred_deletion.DeferredDeletion, 'purge',
                               killed):
            self.assertRaises(backend.OperationFailed,
                              self.backend.delete_volume, second)
        self.array.control.clear_faults()
        self.backend.delete_volume(second, force=True)
        self.assertNothingLeft()

    def test_a_snapshot_that_a_killed_copy_reads(self) -> None:
        """The error names the view, which has the id of the volume."""
        snapshot = self.backend.create_snapshot(self.volume)
        on_array = json.loads(snapshot.provider_id)['snapshot']
        view = self.view(on_array, 'cview-7')
        self.assert_busy(self.backend.delete_snapshot, snapshot,
                         'is being read through cview-7')
        self.admin.delete('snapshots', view['id'])
