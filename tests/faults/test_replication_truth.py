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

"""Rows of volumes whose replication has stopped or started in part."""

from collections.abc import Callable
import contextlib
import dataclasses
import json
from typing import Any
from unittest import mock

from cinder.db import api as db_api
import fixtures

from cinder_k2.array.replication import Replication
from cinder_k2.array.volumes import Volumes
from cinder_k2.driver import config
from cinder_k2.flows.replication import stop
from tests.faults import steps
from tests.functional import backend
from tests.functional import replicated
from tests.functional.replicated import REPLICATED
from tests.functional import test_group_replication as groups
from tests.functional import test_replication

REFUSED = {'kind': 'status', 'status': 400, 'method': 'PATCH',
           'path': 'replication/sessions/*', 'times': 50}
BROKEN = {'kind': 'status', 'status': 500, 'method': 'DELETE',
          'path': 'replication/*', 'times': 500}


class TruthTest(replicated.ReplicatedTest):
    """Helpers."""

    # Fewer retries to a lost array.
    options = {'k2_retry_timeout': 20}

    def look(self) -> None:
        """Cinder's periodic call, once a minute."""
        self.backend.manager._report_driver_status(self.backend.context)

    def tell(self, row: Any, *states: str) -> None:
        """Command the session of a volume or group, as another user."""
        session, = self.primary.admin.list('replication/sessions',
                                           name=f'ssn-{row.id}')
        for state in states:
            self.primary.admin.update('replication/sessions', session['id'],
                                      name=session['name'], state=state)

    def forget_sessions(self) -> None:
        """Delete all sessions, which must be idle, as another user."""
        for array in (self.secondary, self.primary):
            for session in array.admin.list('replication/sessions'):
                array.admin.delete('replication/sessions', session['id'])

    def let_nothing_begin(self) -> None:
        """Let the array refuse to start and to delete sessions."""
        for fault in (REFUSED, BROKEN):
            self.primary.control.add_fault(fault)

    def assert_status(self, row: Any, status: str) -> None:
        row.refresh()
        self.assertEqual(status, row.replication_status,
                         row.replication_extended_status)


class MissingTest(TruthTest):
    """Sessions that became idle, or were deleted, without notice."""

    def test_idle(self) -> None:
        volume, other = self.replicated(), self.replicated()
        self.pass_time()
        self.look()
        self.tell(volume, 'suspended', 'idle')
        for _ in range(2):
            self.look()
        self.assert_status(volume, 'error')
        self.assertIn('or an idle one', volume.replication_extended_status)
        self.assert_status(other, 'enabled')
        self.assertEqual(1, self.log.errors_text().count(
            f'Volume {volume.id} is not replicated: '))
        self.tell(volume, 'in_sync')
        self.look()
        self.assert_status(volume, 'enabled')
        self.assertIsNone(volume.replication_extended_status)

    def test_gone_before_the_start(self) -> None:
        volume = self.replicated()
        self.tell(volume, 'suspended', 'idle')
        self.forget_sessions()
        self.assertTrue(self.backend.restart())
        self.look()
        self.assert_status(volume, 'error')
        self.backend.retype(volume)
        self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)
        self.look()
        self.assert_status(volume, 'enabled')

    def test_gone_between_two_looks(self) -> None:
        """The loss of a session that was never seen is noticed later."""
        self.look()
        volume = self.replicated()
        self.tell(volume, 'suspended', 'idle')
        self.look()
        self.clock.slept += 901
        self.look()
        self.assert_status(volume, 'error')

    def test_in_an_operation(self) -> None:
        """The operation may have stopped the session; it is checked later."""
        volume = self.replicated()
        self.look()
        volume.update({'status': 'retyping'})
        volume.save()
        self.tell(volume, 'suspended', 'idle')
        for _ in range(2):
            self.look()
            self.assert_status(volume, 'enabled')
        volume.update({'status': 'available'})
        volume.save()
        self.look()
        self.assert_status(volume, 'error')

    def test_made_meanwhile(self) -> None:
        """A session that is not listed yet is not reported as missing."""
        self.assertTrue(self.backend.restart())
        with mock.patch.object(
                self.backend.side.array.replication, 'all', autospec=True,
                return_value=[]):
            volume = self.replicated()
            self.look()
        self.assert_status(volume, 'enabled')
        self.look()
        self.assert_status(volume, 'enabled')

    def test_no_look_at_rows_without_cause(self) -> None:
        """Rows, of which there may be thousands, are not read needlessly."""
        self.replicated()
        self.look()
        with mock.patch.object(
                type(self.backend.side.monitor), '_without_session',
                autospec=True, side_effect=AssertionError):
            self.look()
            self.replicated()
            self.look()

    def test_an_extension_that_is_refused(self) -> None:
        """The copy has grown, and cannot shrink (VOL-2, VOL-11)."""
        volume = self.replicated()
        self.pass_time()
        self.look()
        group, = self.primary.admin.list('volume_groups',
                                         name=f'cvg-{volume.id}')
        self.primary.admin.update('volume_groups', group['id'],
                                  quota=replicated.GIB * 3 // 2)
        self.assertRaises(backend.OperationFailed,
                          self.backend.extend_volume, volume, 2)
        volume.update({'status': 'available'})
        volume.save()
        self.look()
        self.assert_status(volume, 'error')
        self.primary.admin.update('volume_groups', group['id'], quota=0)
        self.backend.extend_volume(volume, 2)
        self.look()
        self.assert_replicated(volume, size=2)


class EndingTest(TruthTest):
    """Ending replication while the target is slow, or lost."""

    def test_an_array_that_is_busy_then(self) -> None:
        """The delay of one array does not shorten retries on the other."""
        volume, look = self.replicated(), stop._look_there
        self.pass_time()

        def slow(*args: Any) -> Any:
            found = look(*args)
            self.clock.sleep(self.options['k2_retry_timeout'])
            return found

        self.primary.control.add_fault({
            'kind': 'busy', 'times': 1, 'method': 'PATCH',
            'path': 'replication/sessions/*'})
        with mock.patch.object(stop, '_look_there', slow), \
                self.lost(self.secondary):
            self.backend.retype(volume)
        self.clear(self.secondary, volume)
        self.assert_alone(volume)


class HalfBegunTest(groups.GroupsTest, TruthTest):
    """Replication that could neither start nor be undone."""

    def _half_begun(self) -> Any:
        """Create a volume in that state."""
        volume = self.backend.create_volume()
        self.let_nothing_begin()
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **REPLICATED)
        self._calm()
        return volume

    def test_a_volume(self) -> None:
        volume = self._half_begun()
        self.assertIn(f'Something of replication session ssn-{volume.id}',
                      self.log.errors_text())
        self.assertTrue(self.ids(volume)['replicated'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_a_volume_that_is_tried_again(self) -> None:
        volume = self._half_begun()
        self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)

    def test_a_group(self) -> None:
        group = self.group()
        self.let_nothing_begin()
        self.assertRaises(backend.OperationFailed,
                          self.backend.enable_replication, group)
        self._calm()
        for volume in self.volumes:
            self.assertTrue(self.ids(volume)['replicated'])
        row = self.backend.group(group.id)
        row.update({'status': 'available'})
        row.save()
        for volume in self.volumes:
            volume.update({'status': 'available'})
            volume.save()
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def _lost_at(self, number: int, act: Callable[[], Any]) -> bool:
        """Lose the target before some request to the primary.

        :returns: whether there was such a request
        """
        def lose() -> None:
            lost.append(number)
            self.secondary.control.cut_link()
            self.secondary.control.add_fault(
                {'kind': 'reset', 'method': '*', 'path': '*'})

        lost: list[int] = []
        port = f':{self.primary.port}/'
        with steps.Steps(lambda url: port in url).on(number, lose), \
                contextlib.suppress(backend.OperationFailed):
            act()
        self._calm()
        return bool(lost)

    def test_the_target_is_lost_while_a_volume_is_made(self) -> None:
        """Its objects are deleted with the volume."""
        number = 0
        while self._lost_at(number, self.replicated):
            for volume in self.backend.volumes():
                self.backend.delete_volume(volume, force=True)
            self.assertNothingLeft()
            number += 1
        self.assertGreater(number, 3)

    def test_the_target_is_lost_in_a_retype(self) -> None:
        for number in range(5):
            volume = self.backend.create_volume()
            self._lost_at(number, lambda volume=volume: self.backend.retype(
                volume, **REPLICATED))
            self.backend.delete_volume(volume)
            self.assertNothingLeft()

    def test_the_reason_is_the_first_refusal(self) -> None:
        """The error is not that of the search for leftovers."""
        self.backend.delete_volume(self.replicated())
        self.primary.control.cut_link()
        self.secondary.control.add_fault(
            {'kind': 'reset', 'method': '*', 'path': '*'})
        failure = self.assertRaises(backend.OperationFailed, self.replicated)
        self._calm()
        self.assertIn('is disconnected, not ok', str(failure.cause))
        self.backend.delete_volume(failure.row)

    def test_a_target_that_does_not_answer(self) -> None:
        """Rows must have the target's system id, which is not known yet."""
        self.own('iscsi', replication_device=self.device())
        self.secondary.control.add_fault(
            {'kind': 'reset', 'method': '*', 'path': '*'})
        volume = self.backend.create_volume()
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **REPLICATED)
        self.assertNotIn('replicated', self.ids(volume))
        failure = self.assertRaises(backend.OperationFailed, self.replicated)
        self.assertIn('the replication target, does not answer',
                      str(failure.cause))
        self.backend.delete_volume(failure.row)
        self._calm()
        self.assertEqual({}, self.count(self.secondary))


class ManagedTest(TruthTest):
    """A foreign volume whose management failed."""

    def test_replication_that_had_begun(self) -> None:
        admin = self.primary.admin
        group = self.make('volume_groups', name='theirs', is_dedup=True,
                          quota=0)
        volume = self.make(
            'volumes', name='theirs', size=replicated.GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.let_nothing_begin()
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.manage,
            {'source-name': 'theirs'}, **REPLICATED)
        self._calm()
        self.assertEqual('error_managing', failure.row.status)
        self.assertNotEqual({}, self.sessions())
        self.backend.delete_volume(failure.row)
        self.assertEqual({}, self.sessions())
        self.assertEqual({}, self.count(self.secondary))
        found, = admin.list('volumes', id=volume['id'])
        self.assertEqual('theirs', found['name'])


class OtherTargetsTest(test_replication.ThreeArraysTest):
    """Arrays use the same ids for their sessions."""

    def test_a_life(self) -> None:
        one, two = self.replicated(), self.replicated(
            **test_replication.MOON)
        self.keep_devices(1)
        self.assertRaises(backend.OperationFailed,
                          self.backend.extend_volume, two, 2)
        two.refresh()
        two.update({'status': 'available'})
        two.save()
        self.backend.delete_volume(two)
        self.assert_replicated(one)
        self.assertIn(f'rcv-{two.id}', self.log.errors_text())
        self.sweep(self.third)

    def test_to_the_only_one_that_is_left(self) -> None:
        volume = self.replicated(**test_replication.MOON)
        self.keep_devices(1)
        self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)
        self.sweep(self.third)


class StaleCopyTest(test_replication.ThreeArraysTest):
    """Leftovers on a former target, which was lost during the cleanup."""

    options = {'k2_retry_timeout': 20}

    def setUp(self) -> None:
        super().setUp()
        self._systems[self._system(self.third)] = self.third
        self.addCleanup(self.sweep_stale)

    def sweep_stale(self) -> None:
        """Delete what is on the former target, as an administrator."""
        admin = self.secondary.admin
        for session in admin.list('replication/sessions'):
            for state in ('failed_over', 'idle'):
                if session['state'] != state:
                    admin.update('replication/sessions', session['id'],
                                 name=session['name'], state=state)
        self.sweep(self.secondary)

    def pass_time(self, seconds: float = 400) -> None:
        super().pass_time(seconds)
        self.third.control.advance(seconds)

    def _moved(self) -> Any:
        """Create a volume whose replication was moved to the third array."""
        volume = self.replicated()
        self.write(volume, 'old')
        self.pass_time()
        with self.lost(self.secondary):
            self.backend.retype(volume, **REPLICATED, **test_replication.MOON)
        self.write(volume, 'new')
        self.pass_time()
        self.assertIn(f'rssn-{volume.id}', self.sessions())
        return volume

    def _assert(self, volume: Any, status: str, array: Any, content: str
                ) -> None:
        volume.refresh()
        self.assertEqual(status, volume.replication_status)
        self.assertIs(array, self.holder(volume))
        self.assertEqual(content, self.read(volume))

    def test_a_failover_to_the_former_target(self) -> None:
        volume, other = self._moved(), self.replicated()
        self.write(other, 'new')
        self.pass_time()
        with self.lost(self.primary):
            self.backend.fail_over(replicated.TARGET)
            self._assert(other, 'failed-over', self.secondary, 'new')
        self._assert(volume, 'failover-error', self.primary, 'new')
        self.assertIn('It is not replicated to the array at',
                      volume.replication_extended_status)
        self.assertEqual(('target', 'in_sync'),
                         self.sessions()[f'rssn-{volume.id}'])
        self.backend.fail_back()
        for row in (volume, other):
            self._assert(row, 'enabled', self.primary, 'new')
        self.backend.delete_volume(other)

    def test_a_failover_to_wherever_most_are(self) -> None:
        volume = self._moved()
        service = self.backend.fail_over()
        self.assertEqual('moon', service.active_backend_id)
        self._assert(volume, 'failed-over', self.third, 'new')

    def test_after_a_failover_and_back(self) -> None:
        """The row still has the target of the volume."""
        volume = self._moved()
        self.backend.fail_over('moon')
        self.assertEqual(self._system(self.primary),
                         self.ids(volume)['target'])
        self.backend.fail_back()
        self.assertEqual(self._system(self.third), self.ids(volume)['target'])
        self.backend.fail_over(replicated.TARGET)
        self._assert(volume, 'failover-error', self.primary, 'new')
        self.backend.fail_back()
        self.backend.retype(volume)
        self.assertNotIn('target', self.ids(volume))

    def test_a_group(self) -> None:
        """No volume fails over, even if one row does not name the target."""
        specs = {**REPLICATED, 'replication_enabled': '<is> True'}
        group = self.backend.create_group(
            self.backend.volume_type(**specs, **test_replication.MOON),
            consistent_group_replication_enabled='<is> True')
        volumes = [self.backend.create_volume(
            1, group, **specs, **test_replication.MOON) for _ in range(2)]
        self.backend.enable_replication(group)
        self.pass_time()
        first = self.backend.volume(volumes[0].id)
        first.update({'provider_id': json.dumps({
            key: value for key, value in self.ids(first).items()
            if key != 'target'})})
        first.save()
        self.backend.fail_over(replicated.TARGET)
        for volume in volumes:
            volume.refresh()
            self.assertIn('It is not replicated to the array at',
                          volume.replication_extended_status)
        self.backend.fail_back()
        for volume in volumes:
            volume.refresh()
            self.assertEqual('enabled', volume.replication_status)
        self.backend.disable_replication(group)

    def _opened(self) -> Any:
        """Create a volume whose stale copy an earlier version made active."""
        volume = self._moved()
        session, = self.secondary.admin.list('replication/sessions')
        self.secondary.admin.update(
            'replication/sessions', session['id'], name=session['name'],
            state='failed_over')
        copy, = self.secondary.admin.list('volumes', name=f'rcv-{volume.id}')
        home = volume.provider_id
        volume.update({
            'replication_status': 'failed-over', 'provider_id': json.dumps({
                'system': self._system(self.secondary), 'replicated': True,
                'volume': copy['id'], 'group': int(
                    copy['volume_group']['ref'].rpartition('/')[2])})})
        volume.save()
        self.addCleanup(self._put_back, volume, home)
        return volume

    def _put_back(self, volume: Any, home: str) -> None:
        volume.update({'provider_id': home})
        volume.save()
        self.assertEqual('new', self.read(volume))

    def test_two_sides_that_do_not_belong_together(self) -> None:
        """Neither volume is overwritten or deleted."""
        volume = self._opened()
        self.backend.fail_back()
        self._assert(volume, 'error', self.secondary, 'old')
        self.assertIn('Its two sessions do not belong together',
                      volume.replication_extended_status)
        before = self.sessions()
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume)
        self.assertIn('do not belong together: one of them', self.log.text())
        self.assertEqual(before, self.sessions())


class TypesTest(TruthTest):
    """Types and options that are changed after volumes were created."""

    def test_a_type_that_is_wrong_now(self) -> None:
        """A type that has become invalid does not make a retype copy data."""
        for specs, check in ((REPLICATED, self.assert_replicated),
                             ({}, self.assert_alone)):
            volume = self.replicated(**test_replication.RPO)
            kind = volume.volume_type_id
            self._set_rpo(kind, '90')
            self.backend.retype(volume, **specs)
            check(volume)
            self._set_rpo(kind, '600')

    def test_a_volume_that_could_not_be_made(self) -> None:
        """It can still be deleted."""
        for right in (True, False):
            failure = self.assertRaises(
                backend.OperationFailed, self.replicated,
                kaminario__replication_rpo='90')
            if right:
                kind = failure.row.volume_type_id
                self._set_rpo(kind, '600')
            self.backend.delete_volume(failure.row)
            self._set_rpo(kind, '90')

    def _set_rpo(self, kind: str, seconds: str) -> None:
        """Set the RPO of a type, as an administrator."""
        db_api.volume_type_extra_specs_update_or_create(
            self.backend.context, kind,
            {'kaminario:replication_rpo': seconds})

    def _rpo(self) -> Any:
        session, = self.primary.admin.list('replication/sessions')
        return session['rpo']

    def test_the_interval_is_that_of_the_session(self) -> None:
        """The session keeps its RPO if that in cinder.conf is changed."""
        volume = self.replicated()
        read = config.replication_targets
        self.useFixture(fixtures.MockPatchObject(
            config, 'replication_targets', lambda configuration: [
                dataclasses.replace(one, rpo=900)
                for one in read(configuration)]))
        self.assertTrue(self.backend.restart())
        self.assertEqual(60, self._rpo())
        self.backend.retype(volume, **REPLICATED,
                            kaminario__replication_rpo='900')
        self.assertEqual(900, self._rpo())

    def test_another_interval_away(self) -> None:
        """Arrays change the RPO of a session only on its original source."""
        volume = self.replicated()
        self.pass_time()
        self.backend.fail_over()
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **test_replication.RPO, **REPLICATED)
        self.assertIn('an rpo of 60 seconds, not 600. It can be changed '
                      'where it was made only: fail back first',
                      self.log.text())
        self.backend.fail_back()
        self.backend.retype(volume, **test_replication.RPO, **REPLICATED)
        self.assertEqual(600, self._rpo())


class GroupExtendTest(groups.GroupsTest, TruthTest):
    """Extends in consistency groups, which have one session."""

    def test_while_one_grows_the_other_is_not_in_error(self) -> None:
        """Nor on an array that requires an idle session to extend (VOL-4)."""
        for array in (self.primary, self.secondary):
            array.control.set_behaviors(grow_suspended=False)
            self.addCleanup(array.control.set_behaviors, grow_suspended=True)
        group = self.enabled()
        self.pass_time()
        self.look()
        seen = []

        def looking(grow: Any) -> Any:
            def look(*args: Any) -> None:
                if ('source', 'idle') in self.sessions().values():
                    self.look()
                    self.refresh()
                    seen.append(self.statuses())
                grow(*args)
            return look

        with mock.patch.object(Volumes, 'grow', looking(Volumes.grow)), \
                mock.patch.object(Replication, 'grow_copy',
                                  looking(Replication.grow_copy)):
            self.backend.extend_volume(self.volumes[0], 2)
        self.assertEqual([{'enabled'}] * 2, seen)
        self.assertEqual('enabled',
                         self.backend.group(group.id).replication_status)
        self.assertNotIn('is not replicated', self.log.errors_text())
        self.tell(group, 'suspended', 'idle')
        self.look()
        self.refresh()
        self.assertEqual({'error'}, self.statuses())

    def test_two_at_once(self) -> None:
        group = self.enabled()
        first, second = self.volumes
        self.together(lambda: self.backend.extend_volume(first, 3),
                      lambda: self.backend.extend_volume(second, 2))
        self.refresh()
        self.assertEqual([(3, 'available'), (2, 'available')], [
            (v.size, v.status) for v in self.volumes],
            self.log.errors_text())
        self.assertEqual({'enabled'}, self.statuses())
        self.assertEqual({('source', 'in_sync'), ('target', 'in_sync')},
                         set(self.sessions().values()))
        self.assertEqual(group.id, self.backend.group(group.id).id)
