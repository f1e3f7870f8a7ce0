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

"""Generic volume groups while requests fail and services are killed."""

import functools
from typing import Any
from unittest import mock

import ddt

from cinder_k2.driver.operations import group_update
from cinder_k2.driver.operations import groups
from cinder_k2.flows import clones
from cinder_k2.flows import engine
from cinder_k2.flows import groups as flows_groups
from tests.faults import steps
from tests.functional import backend
from tests.functional import test_groups


@ddt.ddt
class FaultsTest(test_groups.GroupsTest):
    """Faults, and services that are killed."""

    profile = 'sdp'
    keeps_budgets = False

    def each_fault(self, *places: str, times: int = 3) -> Any:
        """Yield faults that refuse each of the first calls of these kinds."""
        for place in places:
            for after in range(times):
                yield functools.partial(self.fault, 'status', *place.split(),
                                        status=403, after=after)

    def attempt(self, fault: Any, operation: Any, *args: Any, **kwargs: Any
                ) -> Any:
        """Run an operation with a fault; return its result, or None."""
        fault()
        try:
            return operation(*args, **kwargs)
        except backend.OperationFailed:
            return None
        finally:
            self.array.control.clear_faults()

    def test_updates_are_all_or_nothing(self) -> None:
        group = self.group(1)
        other = [self.backend.create_volume(1) for _ in range(2)]
        before = self.left()
        for fault in self.each_fault(
                'PATCH volumes/*', 'POST volume_groups', 'GET vol*'):
            done = self.attempt(fault, self.backend.update_group, group,
                                add=other, remove=self.volumes)
            self.reset(group)
            self.assert_rows_are_true()
            if done:
                self.assert_members(group, *other)
                self.backend.update_group(group, add=self.volumes,
                                          remove=other)
            self.assertEqual(before, self.left())
            self.assert_members(group, *self.volumes)

    def test_a_note_of_clones_is_not_lost(self) -> None:
        """Another service clones the volume just before it is moved."""
        group = self.group(0)
        other = self.backend.create_volume(1)
        regroup_ = flows_groups.regroup

        def meddling(*args: Any) -> Any:
            self.backend.clone(other)
            return regroup_(*args)

        with mock.patch.object(flows_groups, 'regroup', autospec=True,
                               side_effect=meddling):
            self.assert_refused(self.backend.update_group, group, add=[other],
                                words='clones were made from it')
        self.assertIs(True, self.ids(other)['has_clones'])
        self.assert_rows_are_true()

    def test_a_move_back_that_fails_is_known(self) -> None:
        """The row of the volume names the group that it is in."""
        group = self.group(1)
        other = self.backend.create_volume(1)
        self.fault('status', 'POST', 'volume_groups', status=403)
        self.fault('status', 'PATCH', 'volumes/*', status=403, after=2)
        self.assertRaises(backend.OperationFailed, self.backend.update_group,
                          group, add=[other], remove=self.volumes)
        self.assert_rows_are_true()
        self.assertEqual(2, len(self.volumes_in(f'ccg-{group.id}')))
        self.reset(group)
        self.backend.update_group(group, add=[other])
        self.assert_members(group, *self.volumes, other)
        self.assert_left(volumes=2, volume_groups=1)

    def killed_while_moving(self, when: str) -> tuple[Any, Any]:
        """Kill the service while a volume joins and another one leaves."""
        group = self.group(1)
        other = self.backend.create_volume(1)
        with mock.patch.object(group_update.GroupUpdate, when, autospec=True,
                               side_effect=steps.Killed()):
            self.assertRaises(steps.Killed, self.backend.update_group, group,
                              add=[other], remove=self.volumes)
        self.backend.restart()
        self.reset(group)
        return group, other

    @ddt.data('_drop_former', '_arrive')
    def test_killed_while_moving_and_repeated(self, when: str) -> None:
        group, other = self.killed_while_moving(when)
        self.backend.update_group(group, add=[other], remove=self.volumes)
        self.assert_members(group, other)
        self.assert_rows_are_true()
        self.assert_left(volumes=2, volume_groups=2)

    @ddt.data('_drop_former', '_arrive')
    def test_killed_while_moving_and_used(self, when: str) -> None:
        """The driver asks the array in which group the volume is."""
        group, other = self.killed_while_moving(when)
        self.assertIs(True, self.ids(other)['moving'])
        self.fill(other)
        snapshot = self.backend.create_snapshot(other)
        clone = self.backend.clone(other)
        self.assert_filled(clone)
        self.assertIs(True, self.ids(snapshot)['shared'])
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(clone)

    @ddt.data('_drop_former', '_arrive')
    def test_killed_while_moving_and_deleted(self, when: str) -> None:
        group, other = self.killed_while_moving(when)
        self.backend.delete_volume(other)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_copies_are_all_or_nothing(self) -> None:
        source = self.group(2)
        taken = self.backend.create_group_snapshot(source)
        before = self.left()
        for fault in self.each_fault('POST volume*', times=2):
            for origin in (source, taken):
                self.attempt(fault, self.backend.group_from, origin)
            for group in self.backend.groups():
                if group.id != source.id and group.status == 'error':
                    self.assertEqual([], self.volumes_in(f'ccg-{group.id}'))
                if group.id != source.id:
                    self.backend.delete_group(group)
            self.assertEqual(before, self.left())

    @ddt.data('group', 'snapshot')
    def test_killed_while_copying(self, kind: str) -> None:
        """Deleting the group then cleans up, and releases the source."""
        source = self.group(2)
        origin = taken = self.backend.create_group_snapshot(source)
        if kind == 'group':
            self.backend.delete_group_snapshot(taken)
            origin = source
        made = clones.Cloner.from_snapshot
        done: list[Any] = []

        def dies(*args: Any) -> Any:
            done.append(made(*args))
            raise steps.Killed

        with mock.patch.object(clones.Cloner, 'from_snapshot',
                               autospec=True, side_effect=dies), \
                mock.patch.object(engine.Step, 'revert', autospec=True), \
                mock.patch.object(groups.Groups, '_leave_to_purge',
                                  autospec=True):
            self.attempt_killed(self.backend.group_from, origin)
        self.assertEqual(1, len(done))
        group = next(g for g in self.backend.groups() if g.id != source.id)
        group.status = 'error'
        group.save()
        if kind == 'snapshot':
            self.backend.delete_group_snapshot(taken)
        self.backend.delete_group(group)
        self.assert_left(volumes=2, volume_groups=1)
        self.backend.update_group(source, remove=self.volumes)

    def attempt_killed(self, operation: Any, *args: Any) -> None:
        """Run an operation in which the service is killed."""
        try:
            operation(*args)
        except (steps.Killed, backend.OperationFailed):
            pass

    def test_deletions_are_repeated(self) -> None:
        """No object is left over, whichever call fails."""
        for fault in self.each_fault('DELETE vol*', 'PATCH vol*', times=2):
            group = self.group(2)
            clone = self.backend.clone(self.volumes[0])
            taken = self.backend.create_group_snapshot(group)
            self.attempt(fault, self.backend.delete_group_snapshot, taken)
            if not self.backend.group_snapshots():
                self.attempt(fault, self.backend.delete_group, group)
            self.backend.delete_volume(clone)
            self.backend.delete_everything()
            self.assertNothingLeft()

    def test_lost_replies(self) -> None:
        """Writes carried out without a reply are not repeated."""
        for method in ('POST', 'PATCH', 'DELETE'):
            self.fault('reset', method, '*', commit='after', times=2)
        group = self.group(2)
        self.backend.delete_group_snapshot(
            self.backend.create_group_snapshot(group))
        self.backend.update_group(group, remove=self.volumes[:1])
        self.assert_members(group, self.volumes[1])
        self.backend.delete_group(group)
        self.assert_left(volumes=1, volume_groups=1)

    def test_many_at_once(self) -> None:
        group = self.group(1)
        self.backend.restart()
        self.together(*[
            lambda: self.backend.create_volume(1, group)] * 4,
            lambda: self.backend.create_group_snapshot(group))
        self.assertEqual(5, len(self.volumes_in(f'ccg-{group.id}')))
        self.assert_rows_are_true()
