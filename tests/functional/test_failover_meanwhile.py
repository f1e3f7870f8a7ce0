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

"""What else goes on while a back end is failed over, or back.

Cinder lets users work on volumes meanwhile, and a volume's newest data must
never be what an operation takes for a copy.
"""

from collections.abc import Callable
import contextlib
from typing import Any
from unittest import mock

from cinder import exception

from cinder_k2.array import replication
from cinder_k2.driver import relocation
from cinder_k2.driver.side import Side
from cinder_k2.flows import replication as flows
from tests.functional import arrays
from tests.functional import backend
from tests.functional import replicated
from tests.functional import test_failover
from tests.functional.test_failover import EACH_REPLICATED
from tests.functional.test_failover import REPLICATED_GROUP
from tests.functional import test_group_replication as groups

PLAIN = {'kaminario__replication': 'disabled'}
CONSISTENT = {'consistent_group_snapshot_enabled': '<is> True'}


class MeanwhileTest(test_failover.GroupsTest):
    """Helpers."""

    def written(self) -> Any:
        """A replicated volume with data that both arrays have."""
        volume = self.replicated()
        self.write(volume, 'first')
        self.pass_time()
        return volume

    def away(self) -> Any:
        """One that is failed over, with newer data."""
        volume = self.written()
        self.fails_over()
        self.write(volume, 'newest')
        return volume

    def fails_over_and_writes(self, row: Any) -> None:
        self.fails_over()
        self.write(self.backend.volume(row.id), 'newest')

    def assert_newest(self, row: Any, array: arrays.Served, status: str
                      ) -> None:
        """It is there, with its data, and its row says so."""
        self.assertIs(array, self.holder(row))
        self.assertEqual((status, 'newest'),
                         (row.replication_status, self.read(row)),
                         row.replication_extended_status)

    @contextlib.contextmanager
    def once(self, owner: Any, name: str, act: Callable[[], Any], *,
             before: bool = True) -> Any:
        """Something happens before a function's first call, or after it."""
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
        """Something happens just before an array gets a command."""
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
        with self.once(flows, '_suspend', self.fails_over, before=False):
            self.refused(self.backend.retype, volume)
        self.write(volume, 'newest')
        self.assert_newest(volume, self.secondary, 'failed-over')
        self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')

    def test_replication_ends_while_the_data_comes_home(self) -> None:
        volume = self.away()
        with self.once(replication.Replication, 'take_snapshots',
                       lambda: self.backend.retype(volume), before=False):
            self.fails_back()
        self.assert_newest(volume, self.secondary, 'disabled')
        self.assertEqual({}, self.count(self.primary))

    def test_replication_ends_after_the_primary_took_over(self) -> None:
        """It is not clear yet where the volume is, so that is refused."""
        volume = self.away()
        with self.told(self.primary, 'in_sync', lambda: self.refused(
                self.backend.retype, volume)):
            self.fails_back()
        self.assert_newest(volume, self.primary, 'enabled')
        self.assertIn('is being failed back', self.log.errors_text())
        self.assert_replicated(volume)

    def test_a_clone_that_notes_its_source(self) -> None:
        volume = self.written()
        with self.once(Side, '_marked',
                       lambda: self.fails_over_and_writes(volume)):
            self.refused(self.backend.clone, volume, **PLAIN)
        self.assert_newest(volume, self.secondary, 'failed-over')
        self.backend.attach(volume, self.host())
        self.assertFalse(self.is_mapped(volume, self.primary))
        self.assertTrue(self.is_mapped(volume, self.secondary))

    def test_a_device_that_is_gone(self) -> None:
        """The older copy is nobody's to use."""
        group = self.group(EACH_REPLICATED, 1)
        volume, = self.backend.members(group)
        self.write(volume, 'first')
        self.pass_time()
        self.backend.failover_group(group, replicated.TARGET)
        self.write(volume, 'newest')
        read = self.backend
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch(
                'cinder_k2.driver.config.replication_targets', autospec=True,
                return_value=()))
            self.assertTrue(read.restart())
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
        """The secondary lets one volume not be copied home."""
        command = replication.Replication.command_many
        held = {one['id'] for one in self.secondary.admin.list(
            'replication/sessions') if volume.id in one['name']}

        def refuse(this: Any, sessions: Any, wanted: str) -> Any:
            if (wanted != 'in_sync' or not this._client.address.endswith(
                    str(self.secondary.port))):
                return command(this, sessions, wanted)
            others = set(sessions) - held
            return {**dict.fromkeys(held & set(sessions), 'no'),
                    **(command(this, others, wanted) if others else {})}

        with mock.patch.object(replication.Replication, 'command_many',
                               refuse):
            yield

    def _split(self, left: int) -> tuple[Any, list[Any]]:
        """A group of which one volume was left on the secondary."""
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
        """Each where it is."""
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
        """One session for all: nothing is known to be the newest."""
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

    def test_a_plain_group(self) -> None:
        """It is deleted on both, and does not change hands."""
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
        self.backend.create_volume(1, group)
        self.backend.delete_group(group)
        self.assertNothingLeft()


class WeatherTest(MeanwhileTest):
    """Arrays and links that fail in the middle of a failback."""

    def test_an_array_that_dies_with_many_volumes(self) -> None:
        """It is not asked for each of them."""
        volumes = [self.replicated() for _ in range(6)]
        self.pass_time()
        self.fails_over()

        def die() -> None:
            self.secondary.control.cut_link()
            self.secondary.control.add_fault(
                {'kind': 'reset', 'method': '*', 'path': '*'})

        begun = self.clock.slept
        with self.once(Side, 'disconnect_volumes', die):
            with self.once(Side, 'disconnect_volumes', lambda: None):
                self.backend.fail_back()
        self.assertLess(self.clock.slept - begun, 100)
        self._calm()
        self.fails_back()
        for volume in volumes:
            self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_a_link_that_is_down_for_a_while(self) -> None:
        """It is waited for (REP-19)."""
        volume = self.away()
        sleep, looks = self.clock.sleep, []

        def look(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 5:
                self.primary.control.mend_link()
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
        """The others have lost their hosts, and wait for ten minutes."""
        quick, slow = self.replicated(), self.replicated()
        self.pass_time()
        self.fails_over()
        arrived, begun = replication.Session.has_arrived, []

        def late(this: Any, generation: int) -> bool:
            if slow.id in this.name and begun:
                return False
            return arrived(this, generation)

        with self.once(Side, 'disconnect_volumes', lambda: None), \
                mock.patch.object(replication.Session, 'has_arrived', late), \
                mock.patch.object(
                    relocation._Reserver, '__call__',
                    lambda this, keys: begun.append(
                        self.clock.monotonic()) or list(keys)):
            self.fails_back()
        self.assertLess(self.clock.monotonic() - begun[0], 700)
        self.assert_row(quick, 'enabled', 'available', self.primary)
        self.assert_row(slow, 'error', 'available', self.secondary,
                        'After 600 seconds')
        self.fails_back()

    def test_made_away_and_failed_over_again(self) -> None:
        """It is as it was: replicated, and watched."""
        left = self.replicated()
        self.fails_over()
        self.backend.enable()
        volume = self.replicated()
        self.fails_over()
        self.assert_row(volume, 'enabled', 'available', self.secondary)
        self.assert_row(left, 'failed-over', 'available', self.secondary)
        self.primary.control.cut_link()
        self.primary.control.mend_link()
        for _ in range(2):
            self.backend.manager._report_driver_status(self.backend.context)
        self.assertEqual(('source', 'in_sync'),
                         self.sessions()[f'ssn-{volume.id}'])
        self.fails_back()


class GroupCommandsTest(groups.GroupsTest):
    """The same for a group that is failed over by itself."""

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
