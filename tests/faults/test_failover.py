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

"""Operations during failover and failback.

Cinder allows operations on volumes meanwhile. None of them may take the
latest data of a volume for an outdated copy.
"""

from collections.abc import Callable
import contextlib
import json
from typing import Any
from unittest import mock

from cinder import exception
import ddt

from cinder_k2.array import replication
from cinder_k2.driver.failover import volumes as volume_failover
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import replication as operations
from cinder_k2.flows.failover import failover
from cinder_k2.flows.replication import sessions as session_flows
from tests import arrays
from tests.functional import backend
from tests.functional import replicated
from tests.functional import test_failover
from tests.functional.test_failover import EACH_REPLICATED
from tests.functional.test_failover import REPLICATED_GROUP
from tests.functional import test_group_replication as groups

LOST = {'kind': 'reset', 'method': '*', 'path': '*'}
PLAIN = {'kaminario__replication': 'disabled'}
CONSISTENT = {'consistent_group_snapshot_enabled': '<is> True'}


class MeanwhileTest(test_failover.GroupsTest):
    """Helpers."""

    def written(self) -> Any:
        """Create a replicated volume with data that both arrays have."""
        volume = self.replicated()
        self.write(volume, 'first')
        self.pass_time()
        return volume

    def away(self) -> Any:
        """Create a volume, fail it over and write newer data to it."""
        volume = self.written()
        self.fails_over()
        self.write(volume, 'newest')
        return volume

    def fails_over_and_writes(self, row: Any) -> None:
        self.fails_over()
        self.write(self.backend.volume(row.id), 'newest')

    def assert_newest(self, row: Any, array: arrays.Served, status: str
                      ) -> None:
        """Check that a volume has its newest data and a correct row."""
        self.assertIs(array, self.holder(row))
        self.assertEqual((status, 'newest'),
                         (row.replication_status, self.read(row)),
                         row.replication_extended_status)

    @contextlib.contextmanager
    def once(self, owner: Any, name: str, act: Callable[[], Any], *,
             before: bool = True) -> Any:
        """Run ``act`` before, or after, the first call of a function."""
        called, do = [], getattr(owner, name)

        def watch(*args: Any, **kwargs: Any) -> Any:
            first = not called
            called.append(args)
            if first and before:
                act()
            found = do(*args, **kwargs)
            if first and not before:
                act()
            return found

        with mock.patch.object(owner, name, watch):
            yield
        self.assertTrue(called)

    @contextlib.contextmanager
    def told(self, array: arrays.Served, state: str, act: Callable[[], Any]
             ) -> Any:
        """Run ``act`` just before an array receives a command."""
        command, done = replication.Replication.command_many, []

        def watch(this: Any, sessions: Any, wanted: str) -> Any:
            place = this._client.address.rpartition(':')[2]
            if (wanted, place) == (state, str(array.port)) and not done:
                done.append(state)
                act()
            return command(this, sessions, wanted)

        with mock.patch.object(replication.Replication, 'command_many',
                               watch):
            yield
        self.assertEqual([state], done)


class OperationsTest(MeanwhileTest):
    """Operations that began before the volume was moved."""

    def refused(self, act: Callable[..., Any], *args: Any, **more: Any
                ) -> None:
        self.assertRaises(backend.OperationFailed, act, *args, **more)

    def test_a_retype_that_was_in_the_queue(self) -> None:
        volume = self.written()
        with self.once(self.backend.manager, 'retype',
                       lambda: self.fails_over_and_writes(volume)):
            self.backend.retype(volume)
        self.assert_newest(volume, self.secondary, 'disabled')
        self.assertEqual({}, self.count(self.primary))

    def test_a_failover_while_replication_ends(self) -> None:
        volume = self.written()
        with self.once(session_flows, '_suspend', self.fails_over,
                       before=False):
            self.refused(self.backend.retype, volume)
        self.write(volume, 'newest')
        self.assert_newest(volume, self.secondary, 'failed-over')
        self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')

    def test_replication_ends_before_rows_say_where_volumes_are(self
                                                                ) -> None:
        """The target is active by now, so its volumes are no copies."""
        volume, save, told = self.written(), volume_failover._saved, []
        note = operations.Replication.note_unreplicated

        def saved(*args: Any) -> Any:
            """End replication before the failover saves its first row."""
            def late(*of_volume: Any) -> None:
                told.append(save(*args))
                note(*of_volume)

            with mock.patch.object(operations.Replication,
                                   'note_unreplicated', late):
                self.refused(self.backend.retype, volume)
            return told[0] if told else save(*args)

        with mock.patch.object(volume_failover, '_saved', saved):
            self.fails_over()
        self.write(volume, 'newest')
        self.assert_newest(volume, self.secondary, 'failed-over')
        self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')

    def test_replication_ends_before_cinder_has_saved(self) -> None:
        """Cinder saves later, and does not undo that."""
        volume = self.written()
        with self.once(self.backend.manager, 'finish_failover',
                       lambda: self.backend.retype(volume), before=False):
            self.fails_over()
        self.assertNotIn('replicated', self.ids(volume))
        self.fails_back()
        self.assert_row(volume, 'disabled', 'available', self.secondary)

    def test_replication_ends_while_the_data_comes_home(self) -> None:
        volume = self.away()
        with self.once(replication.Replication, 'take_snapshots',
                       lambda: self.backend.retype(volume), before=False):
            self.fails_back()
        self.assert_newest(volume, self.secondary, 'disabled')
        self.assertEqual({}, self.count(self.primary))

    def test_replication_begins_anew_while_the_data_comes_home(self) -> None:
        """The copy on the primary is a new one by then, with other ids."""
        volume = self.away()

        def off_and_on() -> None:
            self.backend.retype(volume)
            self.backend.retype(volume, **replicated.REPLICATED)

        with self.once(replication.Replication, 'take_snapshots',
                       off_and_on, before=False):
            self.fails_back()
        self.assert_row(volume, 'error', 'available', self.secondary,
                        'Its replication was started again meanwhile')
        self.pass_time()
        self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')
        self.assert_replicated(volume)

    def test_replication_ends_after_the_primary_took_over(self) -> None:
        """The retype is refused while the volume's location is unclear."""
        volume = self.away()
        with self.told(self.primary, 'in_sync', lambda: self.refused(
                self.backend.retype, volume)):
            self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')
        self.assertIn('is being failed over, or back', self.log.errors_text())
        self.assert_replicated(volume)

    def test_an_array_that_dies_while_replication_ends(self) -> None:
        """The outcome is unknown, so the row stays unchanged."""
        volume = self.written()
        with self.once(session_flows, '_suspend', lambda: self.primary.control.
                       add_fault(LOST), before=False):
            self.refused(self.backend.retype, volume)
        self._calm()
        self.assert_row(volume, 'enabled', 'available', self.primary)
        self.backend.retype(volume)
        self.assert_alone(volume)

    def test_a_clone_that_notes_its_source(self) -> None:
        volume = self.written()
        with self.once(clone_sources.CloneSources, 'marked',
                       lambda: self.fails_over_and_writes(volume)):
            self.refused(self.backend.clone, volume, **PLAIN)
        self.assert_newest(volume, self.secondary, 'failed-over')
        self.backend.attach(volume, self.host())
        self.assertFalse(self.is_mapped(volume, self.primary))
        self.assertTrue(self.is_mapped(volume, self.secondary))

    def _clones(self, owner: Any, name: str, move: Callable[[], Any]
                ) -> Any:
        """Move a volume while a clone of it is created."""
        volume = self.written()
        if move == self.fails_back:
            self.fails_over()
            self.backend.enable()
        self.write(volume, 'newest')
        self.pass_time()
        with self.once(owner, name, lambda: self.backend.clone(
                volume, **PLAIN, kaminario__clone_strategy='view'),
                before=False):
            move()
        self.assertTrue(self.ids(volume)['has_clones'])
        return volume

    def test_a_clone_is_made_in_a_failover(self) -> None:
        volume = self._clones(failover, 'volumes_of', self.fails_over)
        self.assert_newest(volume, self.secondary, 'failed-over')

    def test_a_clone_is_made_in_a_failback(self) -> None:
        volume = self._clones(replication.Replication, 'take_snapshots',
                              self.fails_back)
        self.assert_newest(volume, self.primary, 'enabled')
        self.backend.detach(self.backend.attach(volume, self.host()))

    def test_a_clone_is_made_in_the_last_moments(self) -> None:
        volume = self._clones(volume_failover._Reserver, '__call__',
                              self.fails_back)
        self.assert_newest(volume, self.primary, 'enabled')
        self.backend.detach(self.backend.attach(volume, self.host()))

    def test_a_source_of_clones(self) -> None:
        """Its row stays marked on both arrays, though clones do not move."""
        volume = self.written()
        self.backend.clone(volume, **PLAIN, kaminario__clone_strategy='view')
        for move in (self.fails_over, self.fails_back):
            move()
            self.assertTrue(self.ids(volume)['has_clones'])

    def test_clones_all_the_time(self) -> None:
        """A volume whose row keeps changing stays; its row says why."""
        volume = self.away()
        write = volume_failover._rewrite
        with mock.patch.object(
                volume_failover, '_rewrite', lambda row, update: False
                if '"reserved"' in str(update) else write(row, update)):
            self.fails_back()
        self.assert_row(volume, 'error', 'available', self.secondary,
                        'It was changed meanwhile')
        self.fails_back()

    def test_a_volume_that_somebody_else_moves(self) -> None:
        """The failover of that volume is reported as failed."""
        volume = self.written()
        home = self.ids(volume)

        def move() -> None:
            row = self.backend.volume(volume.id)
            row.provider_id = json.dumps({**home, 'volume': 99})
            row.save()

        with self.once(failover, 'volumes_of', move):
            self.fails_over()
        self.assert_row(volume, 'error', 'available', self.primary,
                        'It was changed while it was failed over')
        self.assertEqual(99, self.ids(volume)['volume'])
        volume.provider_id = json.dumps(home)
        volume.save()

    def test_a_device_that_is_gone(self) -> None:
        """The outdated volume on the primary must not be used."""
        group = self.group(EACH_REPLICATED, 1)
        volume, = self.backend.members(group)
        self.write(volume, 'first')
        self.pass_time()
        self.backend.failover_group(group, replicated.TARGET)
        self.write(volume, 'newest')
        with mock.patch('cinder_k2.driver.config.replication_targets',
                        autospec=True, return_value=()):
            self.assertTrue(self.backend.restart())
            self.refused(self.backend.create_snapshot, volume)
            self.assertRaises(exception.VolumeBackendAPIException,
                              self.backend.attach, volume, self.host())
            self.assertFalse(self.is_mapped(volume, self.primary))
        self.assertIn('is gone from cinder.conf, put it back',
                      self.log.errors_text())
        self.assertTrue(self.backend.restart())
        for attachment in self.backend.volume(volume.id).volume_attachment:
            attachment.destroy()
        volume.refresh()
        volume.update({'status': 'available', 'attach_status': 'detached'})
        volume.save()
        self.assert_newest(volume, self.secondary, 'failed-over')


class SplitTest(MeanwhileTest):
    """Groups whose volumes are on two arrays."""

    @contextlib.contextmanager
    def stuck(self, volume: Any) -> Any:
        """Let the secondary prevent one volume from failing back."""
        command = replication.Replication.command_many
        held = {one['id'] for one in self.secondary.admin.list(
            'replication/sessions') if volume.id in one['name']}

        def refuse(this: Any, sessions: Any, wanted: str) -> Any:
            if (wanted != 'in_sync' or not this._client.address.endswith(
                    str(self.secondary.port))):
                return command(this, sessions, wanted)
            others = {id: name for id, name in sessions.items()
                      if id not in held}
            return {**dict.fromkeys(held & set(sessions), 'no'),
                    **(command(this, others, wanted) if others else {})}

        with mock.patch.object(replication.Replication, 'command_many',
                               refuse):
            yield

    def _split(self, left: int) -> tuple[Any, list[Any]]:
        """Create a group of which one volume stayed on the secondary."""
        group = self.group(EACH_REPLICATED)
        members = self.backend.members(group)
        self.pass_time()
        self.fails_over()
        for volume in members:
            self.write(volume, 'newest')
        with self.stuck(members[left]):
            self.fails_back()
        return self.backend.group(group.id), members

    def test_its_replication_ends(self) -> None:
        """Replication of each volume ends where the volume is."""
        for left in (0, 1):
            group, members = self._split(left)
            self.backend.disable_replication(group)
            for volume in members:
                self.assert_newest(
                    volume, self.secondary if volume is members[left]
                    else self.primary, 'disabled')
            self.assertEqual({}, self.sessions())
            self.backend.delete_group(group)
            self.assertNothingLeft()

    def test_rows_that_were_saved_in_part(self) -> None:
        """With one session for all it is unknown which data is the latest."""
        group = self.group(REPLICATED_GROUP)
        members = self.backend.members(group)
        self.pass_time()
        home = members[0].provider_id
        self.fails_over()
        members[0].refresh()
        away = members[0].provider_id
        members[0].update({'provider_id': home,
                           'replication_status': 'enabled'})
        members[0].save()
        before = self.sessions()
        error = self.assertRaises(
            exception.InvalidGroup, self.backend.driver.disable_replication,
            self.backend.context, group, members)
        self.assertEqual(before, self.sessions())
        self.assertIn('its volumes are on different arrays', str(error))
        members[0].update({'provider_id': away,
                           'replication_status': 'failed-over'})
        members[0].save()
        self.backend.fail_back()

    def test_a_group_that_the_arrays_do_not_know(self) -> None:
        """Only Cinder has such a group, so no array is searched for it."""
        group = self.backend.create_group(self.backend.volume_type(),
                                          vendor__colour='red')
        here = self.backend.create_volume(1, group)
        self.fails_over()
        self.backend.enable()
        there = self.backend.create_volume(1)
        here.update({'status': 'available'})
        here.save()
        self.backend.update_group(group, add=[there], remove=[here])
        self.backend.update_group(group, add=[here])
        self.assertEqual({group.id}, {self.backend.volume(one.id).group_id
                                      for one in (here, there)})
        snapshot = self.backend.create_group_snapshot(group)
        with self.lost(self.primary):
            self.assertTrue(self.backend.restart())
            self.backend.update_group(group, remove=[here])
        self.backend.update_group(group, add=[here])
        self.backend.delete_group_snapshot(snapshot)
        self.backend.delete_group(group)

    def test_a_plain_group(self) -> None:
        """It is not failed over, and is deleted on both arrays."""
        group = self.backend.create_group(self.backend.volume_type(),
                                          **CONSISTENT)
        here = self.backend.create_volume(1, group)
        self.fails_over()
        self.backend.enable()
        there = self.backend.create_volume(1)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.update_group, group,
            add=[there], remove=[here])
        self.assertIn('its volumes are on different arrays',
                      str(failure.cause))
        self.assertIs(self.primary, self.holder(here))
        self.backend.delete_volume(there, force=True)
        failure.row.update({'status': 'available'})
        failure.row.save()
        # Let a volume be created in it on the secondary nevertheless.
        with mock.patch.object(type(self.backend.driver), '_check_group',
                               autospec=True):
            self.backend.create_volume(1, group)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_one_that_another_would_join(self) -> None:
        """That is refused, and no second volume group is created."""
        group = self.backend.create_group(self.backend.volume_type(),
                                          **CONSISTENT)
        self.backend.create_volume(1, group)
        self.fails_over()
        self.backend.enable()
        there = self.backend.create_volume(1)
        before = self.count(self.secondary)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.update_group, group,
            add=[there])
        self.assertIn('its volumes are on different arrays',
                      str(failure.cause))
        self.assertEqual(before, self.count(self.secondary))

    def test_a_volume_that_is_made_for_one(self) -> None:
        """That is refused on an array without the group's volumes."""
        group = self.backend.create_group(self.backend.volume_type(),
                                          **CONSISTENT)
        self.backend.create_volume(1, group)
        self.fails_over()
        self.backend.enable()
        source = self.backend.create_volume(1)
        for make in (lambda: self.backend.create_volume(1, group),
                     lambda: self.backend.clone(source, group=group)):
            failure = self.assertRaises(backend.OperationFailed, make)
            self.assertIn(
                f'its volumes are on the array at {self.primary.address}:'
                f'{self.primary.port}, and new ones are made on that at '
                f'{self.primary.address}:{self.secondary.port}. Fail the',
                str(failure.cause))
            self.assertEqual(1, self.count(self.secondary)['volumes'])
            self.backend.update_group(group, remove=[failure.row])
            self.backend.delete_volume(failure.row)
        self.fails_back()
        self.backend.create_volume(1, group)
        self.assertEqual(1, self.count(self.primary)['volume_groups'])


class FaultsTest(MeanwhileTest):
    """Arrays and links that fail in the middle of a failback."""

    def _fail_back_both(self, one: Any, other: Any, method: str, path: str
                        ) -> None:
        """Fail back while the primary is busy with an object of the first."""
        self.primary.control.add_fault({
            'kind': 'busy', 'method': method, 'path': path, 'times': 100000})
        self.backend.fail_back()
        self._calm()
        self.assert_row(other, 'enabled', 'available', self.primary)
        one.refresh()
        self.assertEqual('error', one.replication_status)
        self.assertIs(self.secondary, self.holder(one))
        self.backend.fail_back()
        self.assertIs(self.primary, self.holder(one))

    def test_a_delete_that_waited_for_the_other_array(self) -> None:
        """The cleanup has its own deadline."""
        volume, unprotect = self.replicated(), operations.Replication.unprotect

        def wait(this: Any, *args: Any) -> None:
            unprotect(this, *args)
            self.clock.sleep(3600)

        with mock.patch.object(operations.Replication, 'unprotect', wait):
            self.backend.delete_volume(volume)

    def test_a_mapping_that_cannot_go_now(self) -> None:
        one, other = self.replicated(), self.replicated()
        attachment = self.backend.attach(one, self.host())
        self.pass_time()
        self.fails_over()
        number, = [m['id'] for m in self.primary.admin.list('mappings')]
        self._fail_back_both(one, other, 'DELETE', f'mappings/{number}')
        self.backend.detach(attachment)

    def test_a_copy_that_cannot_grow_now(self) -> None:
        one, other = self.replicated(), self.replicated()
        self.pass_time()
        self.fails_over()
        with self.lost(self.primary):
            self.backend.extend_volume(one, 2)
        number, = [v['id'] for v in self.primary.admin.list(
            'volumes', name=f'cv-{one.id}')]
        self._fail_back_both(one, other, 'PATCH', f'volumes/{number}')
        self.assert_replicated(one, size=2)

    def test_an_array_that_dies_with_many_volumes(self) -> None:
        """The dead array is not called for each of the volumes."""
        volumes = [self.replicated() for _ in range(6)]
        self.pass_time()
        self.fails_over()

        def die() -> None:
            self.secondary.control.cut_link()
            self.secondary.control.add_fault(
                {'kind': 'reset', 'method': '*', 'path': '*'})

        begun = self.clock.slept
        with self.once(detach.Detach, 'disconnect_volumes', die):
            self.backend.fail_back()
        self.assertLess(self.clock.slept - begun, 100)
        self._calm()
        self.fails_back()
        for volume in volumes:
            self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_a_link_that_is_down_for_a_while(self) -> None:
        """The failback waits until the link is back (REP-19)."""
        volume = self.away()
        sleep, looks = self.clock.sleep, []

        def look(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 5:
                self.primary.control.restore_link()
            sleep(seconds)

        def cut() -> None:
            self.clock.sleep = look
            self.primary.control.cut_link()

        with self.once(replication.Replication, 'take_snapshots', cut,
                       before=False):
            self.fails_back()
        self.assertGreaterEqual(len(looks), 5)
        self.assert_newest(volume, self.primary, 'enabled')

    def test_one_that_takes_too_long(self) -> None:
        """The other volumes, unmapped, wait for at most ten minutes."""
        quick, slow = self.replicated(), self.replicated()
        self.pass_time()
        self.fails_over()
        arrived, begun = replication.Session.has_arrived, []

        def late(this: Any, generation: int) -> bool:
            if slow.id in this.name and begun:
                return False
            return arrived(this, generation)

        with mock.patch.object(replication.Session, 'has_arrived', late), \
                mock.patch.object(
                    volume_failover._Reserver, '__call__',
                    lambda this, keys: begun.append(
                        self.clock.monotonic()) or list(keys)):
            self.fails_back()
        self.assertLess(self.clock.monotonic() - begun[0], 700)
        self.assert_row(quick, 'enabled', 'available', self.primary)
        self.assert_row(slow, 'error', 'available', self.secondary,
                        'After 600 seconds')
        self.fails_back()

    def _fail_back_in_doubt(self) -> None:
        """Fail back; lose the primary just before its takeover command."""
        with self.told(self.primary, 'failed_over',
                       lambda: self.primary.control.add_fault(LOST)):
            self.backend.fail_back()

    def test_the_primary_may_have_taken_over(self) -> None:
        """No host can attach the volume until the outcome is known."""
        volume = self.away()
        self._fail_back_in_doubt()
        self.assert_row(volume, 'error', 'available', self.secondary,
                        'The other array may have taken over')
        self.assertRaises(exception.VolumeBackendAPIException,
                          self.backend.driver.initialize_connection, volume,
                          self.host())
        self.assertFalse(self.is_mapped(volume, self.secondary))
        self._calm()
        self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')

    def test_replication_of_a_group_ends_then(self) -> None:
        """No failback can follow any more, so hosts can attach the volumes."""
        group = self.group(REPLICATED_GROUP)
        members = self.backend.members(group)
        self.pass_time()
        self.fails_over()
        self.backend.enable()
        self._fail_back_in_doubt()
        self._calm()
        self.backend.disable_replication(group)
        for volume in members:
            self.backend.detach(self.backend.attach(volume, self.host()))
            self.assertIs(self.secondary, self.holder(volume))

    def test_made_away_and_failed_over_again(self) -> None:
        """A second failover leaves the volume replicated and monitored."""
        left = self.replicated()
        self.fails_over()
        self.backend.enable()
        volume = self.replicated()
        self.fails_over()
        self.assert_row(volume, 'enabled', 'available', self.secondary)
        self.assert_row(left, 'failed-over', 'available', self.secondary)
        self.primary.control.cut_link()
        self.primary.control.restore_link()
        for _ in range(2):
            self.backend.manager._report_driver_status(self.backend.context)
        self.assertEqual(('source', 'in_sync'),
                         self.sessions()[f'ssn-{volume.id}'])
        self.fails_back()


class GroupCommandsTest(groups.GroupsTest):
    """Groups that are failed over by themselves."""

    def test_a_group_while_the_back_end_comes_home(self) -> None:
        """Its failover is refused, and its volumes cannot be attached."""
        group = self.enabled(1, groups.EACH)
        volume, = self.volumes
        self.time_passes()
        self.backend.fail_over()
        self.write(volume, 'first')
        command, begun = replication.Replication.command_many, []

        def watch(this: Any, sessions: Any, wanted: str) -> Any:
            if wanted == 'failed_over' and not begun:
                begun.append(wanted)
                with contextlib.suppress(backend.OperationFailed):
                    self.backend.failover_group(group, replicated.TARGET)
                    self.backend.detach(self.backend.attach(volume,
                                                            self.host()))
                    self.write(volume, 'newest')
            return command(this, sessions, wanted)

        with mock.patch.object(replication.Replication, 'command_many',
                               watch):
            self.backend.fail_back()
        self.time_passes()
        self.assertIs(self.primary, self.holder(volume))
        self.assertEqual('first', self.read(volume))
        self.assertIn('of the back end is in progress',
                      self.log.errors_text())
        self.assert_replicated(volume)

    def test_a_clone_in_the_queue(self) -> None:
        group = self.enabled(1, groups.EACH)
        volume, = self.volumes
        self.write(volume, 'first')
        self.time_passes()
        clone = self.backend.driver.create_cloned_volume

        def late(*args: Any) -> Any:
            self.backend.failover_group(group, replicated.TARGET)
            return clone(*args)

        with mock.patch.object(self.backend.driver, 'create_cloned_volume',
                               late):
            self.assertRaises(backend.OperationFailed, self.backend.clone,
                              volume, **PLAIN)
        self.assertIs(self.secondary, self.holder(volume))
        self.assertEqual('failed-over', volume.replication_status)


@ddt.ddt
class StartTest(test_failover.FailoverTest):
    """The service starts while the primary has a problem."""

    @ddt.data({'kind': 'garbage'}, {'kind': 'busy'}, {'kind': 'empty'},
              {'kind': 'status', 'status': 401},
              {'kind': 'status', 'status': 403},
              {'kind': 'status', 'status': 400})
    def test_the_primary_is_half_dead_at_the_start(
            self, fault: dict[str, Any]) -> None:
        volume = self.replicated()
        self.primary.control.add_fault({**fault, 'method': '*', 'path': '*'})
        self.assertTrue(self.backend.restart(), self.log.errors_text())
        self.assertEqual('down', self.backend.stats()['backend_state'])
        self.fails_over()
        self.backend.detach(self.backend.attach(volume, self.host()))
        self.primary.control.clear_faults()
        self.fails_back()
