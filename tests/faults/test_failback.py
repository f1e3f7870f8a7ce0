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

"""Failbacks that are interrupted or disturbed, and the recovery from them.

No write that was acknowledged to a host is ever lost.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import itertools
import json
from typing import Any
from unittest import mock

from cinder import exception

from cinder_k2.array import replication
from cinder_k2 import exceptions
from cinder_k2.rest import transport
from tests import arrays
from tests.faults import steps
from tests.faults import test_replication
from tests.functional import backend
from tests.functional import replicated
from tests.functional import test_failover


class CuttingTest(test_failover.GroupsTest):
    """Helpers."""

    @contextlib.contextmanager
    def killed_after(self, state: str, array: arrays.Served
                     ) -> Iterator[None]:
        """Kill the service once an array has carried out a command."""
        command = replication.Replication.command_many

        def kill(this: Any, sessions: Any, wanted: str) -> Any:
            found = command(this, sessions, wanted)
            if (wanted, this._client.address.rpartition(':')[2]) == (
                    state, str(array.port)):
                dead.start()
                raise steps.Killed
            return found

        dead = mock.patch.object(transport.Transport, 'exchange',
                                 autospec=True, side_effect=steps.Killed)
        with steps.no_undoing(), mock.patch.object(
                replication.Replication, 'command_many', kill):
            with contextlib.suppress(steps.Killed):
                yield
        dead.stop()
        self.assertTrue(self.backend.restart())

    @contextlib.contextmanager
    def meanwhile(self, number: int, act: Callable[[], Any]
                  ) -> Iterator[None]:
        """Run ``act`` just after the given round of replication snapshots."""
        take, taken = replication.Replication.take_snapshots, []

        def watch(this: Any, sessions: Any) -> Any:
            found = take(this, sessions)
            taken.append(sessions)
            if len(taken) == number:
                act()
            return found

        with mock.patch.object(replication.Replication, 'take_snapshots',
                               watch):
            yield
        self.assertGreaterEqual(len(taken), number)


class CutShortTest(CuttingTest):
    """A volume that was failed over has newer data on the secondary."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.replicated()
        self.write(self.volume, 'first')
        self.pass_time()
        self.fails_over()
        self.write(self.volume, 'second')

    def _assert_reserved(self) -> None:
        failure = self.assertRaises(
            (backend.OperationFailed, exception.CinderException),
            self.backend.attach, self.volume, self.host())
        self.assertIn('is being failed back. If a failback was interrupted',
                      f'{failure} {getattr(failure, "cause", "")}')
        self.sweep_attachments(self.volume)

    def sweep_attachments(self, volume: Any) -> None:
        """Remove an attachment that failed."""
        volume.refresh()
        for attachment in volume.volume_attachment:
            attachment.destroy()
        volume.update({'status': 'available', 'attach_status': 'detached'})
        volume.save()

    def test_killed_when_the_primary_has_taken_over(self) -> None:
        """No host may write to volumes about to be overwritten."""
        with self.killed_after('failed_over', self.primary):
            self.backend.fail_back()
        self._assert_reserved()
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(self.volume))
        self.backend.detach(self.backend.attach(self.volume, self.host()))

    def test_failed_over_once_more_then(self) -> None:
        """The volume is usable again, and data written then is never lost."""
        with self.killed_after('failed_over', self.primary):
            self.backend.fail_back()
        self.fails_over()
        self.backend.detach(self.backend.attach(self.volume, self.host()))
        self.write(self.volume, 'newest')
        self.backend.fail_back()
        self.assert_row(self.volume, 'error', 'available', self.secondary,
                        'what hosts wrote since')
        self.assertEqual('newest', self.read(self.volume))
        # The recovery that the row's message describes.
        self.backend.retype(self.volume)
        self.backend.retype(self.volume, **replicated.REPLICATED)
        self.assertEqual('newest', self.read(self.volume))
        self.pass_time()
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('newest', self.read(self.volume))

    def test_replication_ends_then(self) -> None:
        """No failback can follow any more, so hosts can attach the volume."""
        with self.killed_after('failed_over', self.primary):
            self.backend.fail_back()
        self._assert_reserved()
        self.backend.retype(self.volume)
        self.assertEqual('second', self.read(self.volume))
        self.backend.detach(self.backend.attach(self.volume, self.host()))

    def test_reverted_then(self) -> None:
        """A revert is refused: the failback would overwrite its result."""
        snapshot = self.backend.create_snapshot(self.volume)
        with self.killed_after('failed_over', self.primary):
            self.backend.fail_back()
        self.volume.refresh()
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.driver.revert_to_snapshot,
                          self.backend.context, self.volume, snapshot)
        self.fails_back()
        self.assertEqual('second', self.read(self.volume))
        self.backend.delete_snapshot(snapshot)

    def test_a_host_is_just_getting_it(self) -> None:
        """An attach that passed its check before the failback is refused."""
        side = self.backend.driver._arrays.of(self.volume)
        map_one = side.array.mappings.map

        def late(*args: Any, **kwargs: Any) -> Any:
            found = map_one(*args, **kwargs)
            row = self.backend.volume(self.volume.id)
            row.update({'provider_id': json.dumps(
                {**self.ids(row), 'reserved': True})})
            row.save()
            return found

        self.volume.refresh()
        with mock.patch.object(side.array.mappings, 'map', late):
            self.assertRaises(exceptions.ObjectInUse,
                              side.attach.initialize_connection,
                              self.volume, self.host())
        self.assertFalse(self.is_mapped(self.volume, self.secondary))
        self.fails_back()
        self.assertEqual('second', self.read(self.volume))

    def test_the_primary_dies_when_all_is_home(self) -> None:
        """Rows still name the secondary: another failover reopens the copy."""
        with self.killed_after('in_sync', self.primary):
            self.backend.fail_back()
        with self.lost(self.primary):
            self.fails_over()
            self.assert_row(self.volume, 'failed-over', 'available',
                            self.secondary)
            self.assertEqual('second', self.read(self.volume))
            self.backend.detach(self.backend.attach(self.volume,
                                                    self.host()))
        self.fails_back()
        self.assertEqual('second', self.read(self.volume))

    def test_a_host_comes_during_the_last_copying(self) -> None:
        """The attach is refused: its writes would not be copied."""
        with self.meanwhile(2, self._assert_reserved):
            self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(self.volume))

    def test_a_volume_is_deleted_meanwhile(self) -> None:
        """The rows of the other volumes are still correct."""
        self.fails_back()
        others = [self.replicated() for _ in range(2)]
        self.pass_time()
        self.fails_over()
        with self.meanwhile(1, lambda: self.backend.delete_volume(
                others[0])):
            self.assertRaises(exception.VolumeNotFound,
                              self.backend.fail_back)
        for volume in (self.volume, others[1]):
            self.assert_row(volume, 'enabled', 'available', self.primary)
            self.backend.detach(self.backend.attach(volume, self.host()))

    def test_a_volume_is_deleted_before_cinder_has_saved(self) -> None:
        """Cinder fails before it saves groups; the driver has saved them."""
        self.fails_back()
        groups = [self.group(kind) for kind in (
            test_failover.REPLICATED_GROUP, test_failover.EACH_REPLICATED)]
        self.pass_time()
        for move, status in ((self.backend.fail_over, 'failed-over'),
                             (self.backend.fail_back, 'enabled')):
            self.backend.enable()
            other = self.replicated()
            self.pass_time()
            finish = self.backend.manager.finish_failover

            def delete(*args: Any) -> None:
                finish(*args)
                self.backend.delete_volume(other)

            with mock.patch.object(self.backend.manager, 'finish_failover',
                                   delete):
                self.assertRaises(exception.VolumeNotFound, move)
            for group in groups:
                self.assert_group(group, status, 'available')

    def test_the_secondary_is_lost_and_the_service_restarts(self) -> None:
        """The back end fails back; the volume waits for the secondary."""
        with self.lost(self.secondary):
            self.assertTrue(self.backend.restart())
            self.fails_back()
            self.assert_row(self.volume, 'error', 'available',
                            why='GET /system/state')
            self.backend.delete_volume(self.backend.create_volume())
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(self.volume))

    def test_one_of_two_cannot_be_detached(self) -> None:
        """The other volume fails back."""
        self.backend.enable()
        other = self.replicated()
        self.backend.attach(other, self.host())
        self.secondary.control.add_fault(
            {'kind': 'status', 'status': 400, 'method': 'DELETE',
             'path': 'mappings*'})
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assert_row(other, 'error', 'in-use', self.secondary, 'mappings')
        self.secondary.control.clear_faults()
        self.fails_back()
        self.assert_row(other, 'enabled', 'in-use', self.primary)


class GroupCutShortTest(CuttingTest):
    """A consistency group that was failed over has newer data there."""

    def setUp(self) -> None:
        super().setUp()
        self.group_row = self.group(test_failover.REPLICATED_GROUP)
        self.members = self.backend.members(self.group_row)
        self.pass_time()
        self.fails_over()
        for volume in self.members:
            self.write(volume, 'second')

    def _assert_all(self, array: arrays.Served) -> None:
        """Check that the volumes have the latest data and can be attached."""
        for volume in self.members:
            self.assertIs(array, self.holder(volume))
            self.assertEqual('second', self.read(volume))
            self.backend.detach(self.backend.attach(volume, self.host()))

    def test_hosts_may_have_had_one_of_them_since(self) -> None:
        """A second failover released one row before the service was killed."""
        with self.killed_after('failed_over', self.primary):
            self.backend.fail_back()
        freed = self.members[1]
        ids = {key: value for key, value in self.ids(freed).items()
               if key != 'reserved'}
        freed.update({'provider_id': json.dumps(ids, separators=(',', ':'))})
        freed.save()
        self.write(freed, 'newest')
        self.backend.fail_back()
        for volume in self.members:
            self.assert_row(volume, 'error', 'available', self.secondary,
                            'what hosts wrote since')
        self.assertEqual('newest', self.read(freed))
        self.backend.disable_replication(self.group_row)

    def test_one_of_them_is_changed_meanwhile(self) -> None:
        """Neither volume fails back without the other."""
        def change() -> None:
            row = self.backend.volume(self.members[1].id)
            row.update({'provider_id': json.dumps(
                {**self.ids(row), 'moving': True})})
            row.save()

        with self.meanwhile(1, change):
            self.backend.fail_back()
        self.assert_row(self.members[0], 'error', 'available',
                        self.secondary, 'It was changed meanwhile; try again')
        self._assert_all(self.secondary)
        self.fails_back()
        self._assert_all(self.primary)


class KilledGroupTest(CuttingTest, test_replication.FaultsTest):
    """Kill the service at each step of operations on a consistency group."""

    def _at_each_step(self, act: Callable[[Any], Any], away: bool,
                      check: Callable[[Any], Any]) -> None:
        """Kill an operation at each step, repeat it and check the result."""
        for number in itertools.count():
            group = self._written(away)
            died = False
            try:
                with steps.killed_at(number):
                    act(group)
            except steps.Killed:
                died = True
                self.assertTrue(self.backend.restart())
                self._set_free(group)
                act(group)
            check(group)
            self.come_home()
            if not died:
                break
        self.assertGreater(number, 1)

    def _written(self, away: bool) -> Any:
        group = self.group(test_failover.REPLICATED_GROUP)
        for volume in self.backend.members(group):
            self.write(volume, 'data')
        self.pass_time()
        if away:
            self.fails_over()
            self.backend.enable()
        return group

    def _set_free(self, group: Any) -> None:
        """Reset states, as an operator does after a killed operation."""
        self.reset_states()
        row = self.backend.group(group.id)
        row.status = 'available'
        row.save()

    def _assert_all(self, group: Any, status: str, array: arrays.Served
                    ) -> None:
        self.assert_group(group, status, 'available')
        self.assert_members(group, status, 'available', array)
        for volume in self.backend.members(group):
            self.assertEqual('data', self.read(volume))

    def test_failover(self) -> None:
        self._at_each_step(
            lambda _: self.backend.fail_over(), False,
            lambda group: self._assert_all(group, 'failed-over',
                                           self.secondary))

    def test_failback(self) -> None:
        self._at_each_step(
            lambda _: self.backend.fail_back(), True,
            lambda group: self._assert_all(group, 'enabled', self.primary))

    def test_deletion(self) -> None:
        self._at_each_step(self.backend.delete_group, False, lambda _: None)


class SplitGroupTest(test_failover.FailoverTest):
    """Consistency groups whose rows name two arrays."""

    def test_it_is_left_alone(self) -> None:
        group = self.backend.create_group(
            self.backend.volume_type(replication_enabled='<is> True'),
            consistent_group_replication_enabled='<is> True')
        first, second = [self.backend.create_volume(
            1, group, replication_enabled='<is> True') for _ in range(2)]
        self.backend.enable_replication(group)
        first.refresh()
        at_home = first.provider_id
        self.pass_time()
        self.fails_over()
        away = self.ids(first) and first.provider_id
        first.update({'provider_id': at_home,
                      'replication_status': 'enabled'})
        first.save()
        self.write(first, 'newest')
        before = self.sessions()
        self.fails_back()
        self.assertEqual(before, self.sessions())
        for volume in (first, second):
            volume.refresh()
            self.assertEqual('error', volume.replication_status)
            self.assertIn('in part', volume.replication_extended_status)
        self.assertEqual('newest', self.read(first))
        # The recovery that the row's message describes.
        self.fails_over()
        first.refresh()
        self.assertEqual(away, first.provider_id)
        self.fails_back()
        self.assert_row(first, 'enabled', 'available', self.primary)
        self.assert_row(second, 'enabled', 'available', self.primary)


class SeveralTargetsTest(test_failover.FailoverTest):
    """Volumes on different targets."""

    def test_one_after_the_other(self) -> None:
        """Volumes that the first target lacks are replicated to the second."""
        other = arrays.start(self.profile, 'sim-third')
        self.retire(other)
        self.own('iscsi', driver_ssl_cert_verify=False, replication_device=(
            self.device(backend_id='small', san_ip='localhost',
                        port=other.port)
            + f'\nreplication_device = {self.device()}'))
        volume = self.replicated(
            kaminario__replication_target=replicated.TARGET)
        self.write(volume, 'first')
        self.pass_time()
        with self.lost(self.primary):
            self.backend.fail_over('small')
            self.assert_row(volume, 'failover-error', 'error',
                            why='It is not replicated to the array')
            self.fails_over()
            self.assert_row(volume, 'failed-over', 'available',
                            self.secondary)
            self.assertEqual('first', self.read(volume))
        self.backend.fail_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)
