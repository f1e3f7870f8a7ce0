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

"""Groups of replicated volumes, with one session for all and with many."""

from typing import Any

from cinder import exception
from cinder.volume import qos_specs

from tests.functional import backend
from tests.functional import base
from tests.functional import replicated

MIB = 1 << 20
# Cinder's requirements for each type of a group that is replicated.
WORD = {'replication_enabled': '<is> True'}
ONE = {'consistent_group_replication_enabled': '<is> True'}
EACH = {'group_replication_enabled': '<is> True'}
# The driver repeats the request once.
TRIES = 2
TEXT = b'what the user wrote'


class GroupsTest(replicated.ReplicatedTest):
    """Helpers."""

    def group(self, members: int = 2, specs: dict[str, str] = ONE,
              **kind: str) -> Any:
        """Create a group with so many volumes, stored in ``self.volumes``."""
        kind = kind or WORD
        group = self.backend.create_group(self.backend.volume_type(**kind),
                                          **specs)
        self.volumes = [self.backend.create_volume(1, group, **kind)
                        for _ in range(members)]
        return group

    def enabled(self, *args: Any, **kwargs: Any) -> Any:
        """Create such a group and enable its replication."""
        return self.backend.enable_replication(self.group(*args, **kwargs))

    def refresh(self) -> list[Any]:
        """Refresh the volumes and return them."""
        for volume in self.volumes:
            volume.refresh()
        return self.volumes

    def statuses(self) -> set[str]:
        """Return the replication statuses of the volumes."""
        return {volume.replication_status for volume in self.refresh()}

    def assert_one_session(self, group: Any, size: int = 1) -> None:
        """Check that the session has all volumes, by name, on both arrays."""
        self.assertEqual({
            f'ssn-{group.id}': ('source', 'in_sync'),
            f'rssn-{group.id}': ('target', 'in_sync')}, self.sessions())
        self.assertEqual({'enabled'}, self.statuses())
        for volume in self.volumes:
            self.assertTrue(self.ids(volume)['replicated'])
            self.assertEqual(
                {f'cv-{volume.id}': size, f'ccg-{group.id}': size,
                 f'ssn-{group.id}': size}, self.on_both(volume)[0])
            self.assertEqual(
                {f'rcv-{volume.id}': size, f'rccg-{group.id}': size,
                 f'rssn-{group.id}': size}, self.on_both(volume)[1])

    def assert_not_replicated(self) -> None:
        """Check that neither arrays nor rows show any replication."""
        self.assertEqual({}, self.sessions())
        self.assertEqual({}, self.count(self.secondary))
        self.assertEqual({'disabled'}, self.statuses())
        for volume in self.volumes:
            self.assertNotIn('replicated', self.ids(volume))

    def time_passes(self) -> None:
        """Let enough time pass for written data to be copied."""
        self.primary.control.advance(400)


@base.pairwise_variants
class GroupReplicationTest(GroupsTest):
    """Consistency groups: one session for all volumes."""

    feature = 'group replication'

    def test_on_and_off(self) -> None:
        group = self.group(3)
        self.assertEqual('disabled', group.replication_status)
        self.assert_not_replicated()
        for _ in range(2):
            self.backend.enable_replication(group)
            self.assert_one_session(group)
            # Repeating it is harmless.
            self.backend.enable_replication(group)
            self.assert_one_session(group)
            self.backend.disable_replication(group)
            self.assert_not_replicated()
        self.assertEqual(3, self.count(self.primary)['volumes'])
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_deletion(self) -> None:
        group = self.enabled()
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_extend_and_attach(self) -> None:
        group = self.enabled()
        attachment = self.backend.attach(self.volumes[0], self.host())
        self.backend.extend_volume(self.volumes[1], 2)
        self.backend.extend_volume(self.volumes[0], 2)
        self.assert_one_session(group, 2)
        self.backend.detach(attachment)

    def test_snapshots(self) -> None:
        group = self.enabled()
        taken = self.backend.create_group_snapshot(group)
        self.assert_one_session(group)
        self.backend.delete_group_snapshot(taken)
        single = self.backend.create_snapshot(self.volumes[0])
        self.backend.disable_replication(group)
        self.backend.delete_snapshot(single)
        self.backend.create_group_snapshot(group)
        self.backend.enable_replication(group)
        self.assert_one_session(group)

    def test_members_stay(self) -> None:
        group = self.enabled()
        before = self.sessions()
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.create_volume, 1, group,
            **WORD)
        self.assertIn('Disable its replication', str(failure.cause))
        self._remove_from_group(failure.row, group)
        self.assert_one_session(group)
        for change in ({'remove': self.volumes[:1]},
                       {'add': [self.backend.create_volume()]}):
            self._assert_no_change(group, **change)
            self.assertEqual(before, self.sessions())
        self.backend.disable_replication(group)
        self.backend.update_group(group, remove=self.volumes[:1])
        self.backend.enable_replication(group)
        self.volumes = self.volumes[1:]
        self.assert_one_session(group)

    def _remove_from_group(self, volume: Any, group: Any) -> None:
        """Remove a volume that Cinder failed to create, and delete it."""
        self.backend.update_group(group, remove=[volume])
        self.backend.delete_volume(volume)

    def _assert_no_change(self, group: Any, **change: Any) -> None:
        failure = self.assertRaises(
            (backend.OperationFailed, exception.InvalidVolume),
            self.backend.update_group, group, **change)
        if isinstance(failure, backend.OperationFailed):
            self.assertIsInstance(failure.cause, exception.InvalidGroup)
            self.assertIn('is replicated', str(failure.cause))
            failure.row.status = 'available'
            failure.row.save()

    def test_failover_of_the_group(self) -> None:
        group = self.enabled()
        alone = self.replicated()
        for volume in self.volumes:
            self.write(volume, 'first')
        self.time_passes()
        group = self.backend.failover_group(group, replicated.TARGET)
        self.assertEqual('failed-over', group.replication_status)
        self.assertEqual({'failed-over'}, self.statuses())
        for volume in self.volumes:
            self.assertIs(self.secondary, self.holder(volume))
            self.assertEqual('first', self.read(volume))
            self.write(volume, 'second')
        self.assert_replicated(alone)
        self.assertEqual('', self.backend.manager.driver._active_id or '')
        self.backend.detach(self.backend.attach(self.volumes[0],
                                                self.host()))
        self.backend.extend_volume(self.volumes[0], 2)
        group = self.backend.failover_group(group, 'default')
        self.assertEqual('enabled', group.replication_status)
        self.assertEqual({'enabled'}, self.statuses())
        for volume in self.volumes:
            self.assertIs(self.primary, self.holder(volume))
            self.assertEqual('second', self.read(volume))

    def test_failover_of_attached_volumes(self) -> None:
        group = self.enabled()
        self.time_passes()
        attachment = self.backend.attach(self.volumes[0], self.host())
        self.assertRaises(exception.InvalidVolume,
                          self.backend.failover_group, group)
        self.assert_one_session(group)
        self.backend.failover_group(group, attached=True)
        self.assertEqual({'failed-over'}, self.statuses())
        self.backend.detach(attachment)
        self.backend.failover_group(group, 'default')
        self.assert_one_session(group)

    def test_failover_of_the_back_end(self) -> None:
        """Groups without replication are not reported as failed over."""
        group = self.enabled()
        alone, members = self.replicated(), self.volumes
        other = self.group(1)
        self.volumes = members
        self.time_passes()
        self.backend.fail_over(replicated.TARGET)
        self.assertEqual({'failed-over'}, self.statuses())
        alone.refresh()
        self.assertEqual('failed-over', alone.replication_status)
        self.assertEqual('failed-over', self._status(group))
        self.assertEqual('disabled', self._status(other))
        self.backend.fail_back()
        self.assertEqual({'enabled'}, self.statuses())
        self.assertEqual(('enabled', 'disabled'), (self._status(group),
                                                   self._status(other)))

    def _status(self, group: Any) -> str:
        return str(self.backend.group(group.id).replication_status)

    def test_targets(self) -> None:
        target, = self.backend.replication_targets(self.group(0))
        self.assertEqual(replicated.TARGET, target['backend_id'])

    def test_an_empty_group(self) -> None:
        group = self.group(0)
        self.backend.enable_replication(group)
        self.assertEqual({}, self.sessions())
        self.backend.disable_replication(group)
        self.backend.enable_replication(group)
        self.backend.delete_group(group)
        self.assertNothingLeft()


class UnsuitableGroupsTest(GroupsTest):
    """Groups that cannot be replicated; errors state the reason."""

    def _mixed(self, **more: str) -> Any:
        """Create a group with volumes of two types."""
        types = [self.backend.volume_type(**WORD),
                 self.backend.volume_type(**WORD, **more)]
        group = self.backend.create_group(*types, **ONE)
        self.volumes = [self.backend.create_volume(1, group, **WORD),
                        self.backend.create_volume(1, group, **WORD, **more)]
        return group

    def test_types_that_differ(self) -> None:
        group = self._mixed(kaminario__replication_rpo='600')
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.enable_replication, group)
        self.assertIn('replication_rpo', str(failure.cause))
        self.assertEqual('error', failure.row.replication_status)
        self.assertEqual({}, self.sessions())
        self.backend.disable_replication(group)

    def test_types_that_mean_the_same(self) -> None:
        group = self._mixed(kaminario__replication_rpo='60',
                            kaminario__replication_target='dr-site')
        self.backend.enable_replication(group)
        self.assert_one_session(group)

    def test_a_plain_consistency_group(self) -> None:
        group = self.backend.create_group(
            self.backend.volume_type(**replicated.REPLICATED))
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.create_volume, 1, group,
            **replicated.REPLICATED)
        self.assertIn('consistent_group_replication_enabled',
                      str(failure.cause))
        self.assertEqual({}, self.sessions())
        failure.row.group_id = None
        failure.row.save()
        self.backend.delete_volume(failure.row)

    def test_what_replicates_by_itself_does_not_join(self) -> None:
        group = self.group(1)
        volume = self.backend.create_volume(**WORD)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.update_group, group,
            add=[volume])
        self.assertIsInstance(failure.cause, exception.InvalidGroup)
        self.assertIn('replicated by itself', str(failure.cause))
        self.assert_replicated(volume)
        failure.row.status = 'available'
        failure.row.save()
        volume.group_id = None
        volume.save()

    def test_what_the_array_refuses(self) -> None:
        """A session for only some of the volumes is undone."""
        group = self.group(2)
        self.fault('status', 'POST', 'replication/peer_volumes', status=400,
                   times=TRIES)
        self.assertRaises(backend.OperationFailed,
                          self.backend.enable_replication, group)
        self.assertEqual({}, self.sessions())
        self.assertEqual({}, self.count(self.secondary))
        for volume in self.refresh():
            self.assertNotIn('replicated', self.ids(volume))
            volume.status = 'available'
            volume.save()
        self.backend.disable_replication(group)
        row = self.backend.group(group.id)
        row.status = 'available'
        row.save()
        self.backend.enable_replication(group)
        self.assert_one_session(group)

    def test_a_member_that_strangers_use(self) -> None:
        group = self.enabled()
        name = f'cv-{self.volumes[1].id}'
        self.map_to_a_stranger(self.primary, name)
        self.assertRaises(backend.OperationFailed,
                          self.backend.delete_group, group)
        self.assert_one_session(group)
        self.assertEqual({'available'}, {v.status for v in self.refresh()})
        self.assertIn('stranger', self.log.errors_text())
        self.remove_the_stranger(self.primary)
        self.backend.delete_group(group)
        self.assertNothingLeft()


class ErrorStatusTest(GroupsTest):
    """The array suspends sessions; the driver reports that to Cinder."""

    feature = 'group replication'

    def _look(self) -> None:
        self.backend.manager._report_driver_status(self.backend.context)

    def test_the_peers_lose_each_other(self) -> None:
        broken, whole = self.enabled(), self.group(0)
        members = self.volumes
        alone = self.enabled(1, EACH)
        self.volumes += members
        self._look()
        self.assertEqual({'enabled'}, self.statuses())
        self.primary.control.cut_link()
        self._look()
        self.assertEqual({'error'}, self.statuses())
        self.assertEqual(
            ['error', 'error', 'disabled'],
            [self.backend.group(g.id).replication_status
             for g in (broken, alone, whole)])
        self.primary.control.restore_link()
        for _ in range(2):
            self._look()
        self.assertEqual({'enabled'}, self.statuses())
        self.assertEqual(
            ['enabled', 'enabled', 'disabled'],
            [self.backend.group(g.id).replication_status
             for g in (broken, alone, whole)])
        self.assertEqual({'in_sync'}, {
            state for _, state in self.sessions().values()})

    def test_a_member_that_was_never_made(self) -> None:
        """A member that was never created does not disturb the monitor."""
        group = self.enabled()
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.create_volume, 1, group,
            **WORD)
        self.primary.control.cut_link()
        self._look()
        self.assertEqual({'error'}, self.statuses())
        self.primary.control.restore_link()
        self._look()
        self.assertEqual({'enabled'}, self.statuses())
        self.backend.update_group(group, remove=[failure.row])
        self.backend.delete_volume(failure.row)

    def test_a_group_that_was_failed_over_alone(self) -> None:
        """The monitor does not report the sessions of such a group."""
        for kind in (ONE, EACH):
            group = self.enabled(2, kind)
            self.time_passes()
            self.backend.failover_group(group, replicated.TARGET)
            for _ in range(2):
                self._look()
            self.assertEqual('enabled',
                             self.backend.stats()['replication_status'])
            self.assertEqual({'failed-over'}, self.statuses())
            self.backend.failover_group(group, 'default')
            self.assertEqual({'enabled'}, self.statuses())
            self.backend.delete_group(group)


class EachReplicatedTest(GroupsTest):
    """Other groups: a session for each volume."""

    feature = 'group replication'

    def test_on_and_off(self) -> None:
        group = self.enabled(2, EACH)
        self.assert_replicated(*self.volumes)
        self.backend.disable_replication(group)
        self.assert_not_replicated()
        self.backend.enable_replication(group)
        self.assert_replicated(*self.volumes)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_members_come_and_go(self) -> None:
        group = self.enabled(1, EACH)
        made = self.backend.create_volume(1, group, **WORD)
        alone = self.backend.create_volume(1, **WORD)
        self.backend.update_group(group, add=[alone], remove=self.volumes)
        self.assert_replicated(*self.volumes, made, alone)

    def test_failover(self) -> None:
        group = self.enabled(2, EACH)
        self.time_passes()
        self.assertEqual('failed-over', self.backend.failover_group(
            group, replicated.TARGET).replication_status)
        self.assertEqual({'failed-over'}, self.statuses())
        self.backend.failover_group(group, 'default')
        self.assert_replicated(*self.volumes)

    def test_one_that_cannot(self) -> None:
        """The other volumes are replicated; only one has an error."""
        group = self.group(3, EACH)
        self.backend.enable_replication(group)
        self.backend.disable_replication(group)
        self.fault('status', 'POST', 'replication/peer_volumes', status=400,
                   after=2, times=TRIES)
        self.assertRaises(backend.OperationFailed,
                          self.backend.enable_replication, group)
        self._assert_one_in_error(group)
        self.assertEqual(4, len(self.sessions()))
        self.backend.disable_replication(group)
        self.assert_not_replicated()
        self.assertEqual({}, self.count(self.secondary))

    def _assert_one_in_error(self, group: Any) -> None:
        self.refresh()
        self.assertEqual({'available'}, {v.status for v in self.volumes})
        self.assertEqual(1, len([v for v in self.volumes if (
            v.replication_status == 'error'
            and v.replication_extended_status)]))
        self.assertEqual('error',
                         self.backend.group(group.id).replication_status)

    def test_one_that_has_to_stay_replicated(self) -> None:
        self.expose_copies()
        group = self.enabled(3, EACH)
        self.map_to_a_stranger(self.secondary,
                               f'rcv-{self.volumes[1].id}')
        self.assertRaises(backend.OperationFailed,
                          self.backend.disable_replication, group)
        self.assertEqual({'error'}, self.statuses())
        self.assertEqual({'available'}, {v.status for v in self.volumes})
        self.assertEqual(2, len(self.sessions()))
        self.remove_the_stranger(self.secondary)
        self.backend.disable_replication(group)
        self.assert_not_replicated()

    def test_an_array_that_is_lost(self) -> None:
        """The lost array is not called for each of the volumes."""
        group = self.enabled(5, EACH)
        begun = self.clock.slept
        with self.lost(self.primary):
            self.assertRaises(backend.OperationFailed,
                              self.backend.disable_replication, group)
        self.assertLess(self.clock.slept - begun, 300)
        self.refresh()
        self.assertEqual({'error'}, self.statuses())


@base.pairwise_variants
class GroupCopiesTest(replicated.ReplicatedDisksTest, GroupsTest):
    """Copies of replicated groups and their members, with data."""

    feature = 'group replication'

    def test_copies_of_a_group(self) -> None:
        group = self.enabled()
        for volume in self.volumes:
            self.disks.write(volume, 5 * MIB, TEXT)
        taken = self.backend.create_group_snapshot(group)
        before = self.sessions()
        sources = [group, taken]
        made = [self.backend.group_from(source) for source in sources]
        for copy in made:
            for volume in self.backend.members(copy):
                self.assertEqual(TEXT, self.disks.read(volume, 5 * MIB,
                                                       len(TEXT)))
                self.assertEqual('disabled', volume.replication_status)
        self.assertEqual(before, self.sessions())
        self.assert_one_session(group)
        self.backend.enable_replication(made[0])
        self.assertEqual(4, len(self.sessions()))
        self.backend.delete_group_snapshot(taken)
        self.backend.delete_group(group)
        for copy in made:
            self.backend.delete_group(copy)
        self.assertNothingLeft()

    def test_the_row_says_what_is(self) -> None:
        """Cinder assumes that members are replicated if their type has QoS."""
        kind = self.backend.volume_type(**WORD)
        qos = qos_specs.create(self.backend.context, self.id(), {
            'consumer': 'front-end', 'read_iops_sec': '100'})
        qos_specs.associate_qos_with_type(self.backend.context, qos.id,
                                          kind.id)
        self.addCleanup(qos_specs.disassociate_all, self.backend.context,
                        qos.id)
        group = self.group(1)
        self.assertEqual({'disabled'}, self.statuses())
        made = self.backend.group_from(group)
        self.volumes += self.backend.members(made)
        self.assertEqual(2, len(self.volumes))
        self.assertEqual({'disabled'}, self.statuses())

    def test_copies_of_a_member(self) -> None:
        self.enabled()
        source = self.volumes[0]
        self.disks.write(source, 5 * MIB, TEXT)
        clone = self.backend.clone(source, 2, **WORD)
        snapshot = self.backend.create_snapshot(source)
        made = self.backend.volume_from_snapshot(
            snapshot, 1, kaminario__clone_strategy='copy')
        for row in (clone, made):
            self.assertEqual(TEXT, self.disks.read(row, 5 * MIB, len(TEXT)))
        self.assert_replicated(clone, size=2)
        self.assert_alone(made)

    def test_views_become_volumes(self) -> None:
        specs = {**WORD, 'kaminario__replication': 'disabled',
                 'kaminario__clone_strategy': 'view'}
        source = self.backend.create_volume()
        group = self.backend.create_group(
            self.backend.volume_type(**specs), **EACH)
        view = self.backend.clone(source, 1, group, **specs)
        self.backend.enable_replication(group)
        self.assert_replicated(view)
