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

"""What rows say of replication that has stopped, or has only half begun."""

from collections.abc import Callable
import contextlib
import dataclasses
from typing import Any
from unittest import mock

from cinder.db import api as db_api

from cinder_k2.driver import config
from tests.functional import backend
from tests.functional import replicated
from tests.functional.replicated import REPLICATED
from tests.functional import test_group_replication as groups
from tests.functional import test_replication
from tests.functional import test_replication_weather as weather

REFUSED = {'kind': 'status', 'status': 400, 'method': 'PATCH',
           'path': 'replication/sessions/*', 'times': 50}
BROKEN = {'kind': 'status', 'status': 500, 'method': 'DELETE',
          'path': 'replication/*', 'times': 500}


class TruthTest(replicated.ReplicatedTest):
    """Helpers."""

    # Fewer tries to reach what is lost.
    options = {'k2_retry_timeout': 20}

    def look(self) -> None:
        """What Cinder does once a minute."""
        self.backend.manager._report_driver_status(self.backend.context)

    def tell(self, row: Any, *states: str) -> None:
        """Somebody commands the session of a volume or group here."""
        session, = self.primary.admin.list('replication/sessions',
                                           name=f'ssn-{row.id}')
        for state in states:
            self.primary.admin.update('replication/sessions', session['id'],
                                      name=session['name'], state=state)

    def forget_sessions(self) -> None:
        """Somebody deletes all that are idle."""
        for array in (self.secondary, self.primary):
            for session in array.admin.list('replication/sessions'):
                array.admin.delete('replication/sessions', session['id'])

    def assert_status(self, row: Any, status: str) -> None:
        row.refresh()
        self.assertEqual(status, row.replication_status,
                         row.replication_extended_status)


class MissingTest(TruthTest):
    """Sessions that are idle or gone, and nobody says so."""

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
        """It was never seen, which is noticed later."""
        self.look()
        volume = self.replicated()
        self.tell(volume, 'suspended', 'idle')
        self.look()
        self.clock.slept += 901
        self.look()
        self.assert_status(volume, 'error')

    def test_in_an_operation(self) -> None:
        """That may have stopped it; it is looked at again afterwards."""
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
        """The list of sessions is older than the rows."""
        self.assertTrue(self.backend.restart())
        with mock.patch.object(
                self.backend.side._array.replication, 'all', autospec=True,
                return_value=[]):
            volume = self.replicated()
            self.look()
        self.assert_status(volume, 'enabled')
        self.look()
        self.assert_status(volume, 'enabled')

    def test_no_look_at_rows_without_cause(self) -> None:
        """There may be thousands."""
        self.replicated()
        self.look()
        with mock.patch.object(
                type(self.backend.side), '_without_session', autospec=True,
                side_effect=AssertionError):
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


class KilledRetypeTest(TruthTest, weather.WeatherTest):
    """The service dies in a retype, and nobody tries it again."""

    def _assert_true_when_killed(self, begin: dict[str, str],
                                 **specs: str) -> None:
        for number in range(20):
            volume = self.backend.create_volume(**begin)
            self.pass_time()
            with contextlib.suppress(weather.Killed), weather.killed_at(
                    number):
                self.backend.retype(volume, **specs)
                self.assertGreater(number, 2)
                return
            self.assertTrue(self.backend.restart())
            self.reset_states()
            self.look()
            volume.refresh()
            running = ('source', 'in_sync') in self.sessions().values()
            if volume.replication_status == 'enabled':
                self.assertTrue(running, f'step {number}')
            self.backend.delete_volume(volume)
            self.assertNothingLeft()
        self.fail('It never came through.')

    def test_off(self) -> None:
        self._assert_true_when_killed(REPLICATED)

    def test_on(self) -> None:
        self._assert_true_when_killed({}, **REPLICATED)


class HalfBegunTest(groups.GroupsTest, TruthTest):
    """Replication that could not begin, nor be taken back."""

    def test_a_volume(self) -> None:
        volume = self.backend.create_volume()
        for fault in (REFUSED, BROKEN):
            self.primary.control.add_fault(fault)
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **REPLICATED)
        self._calm()
        self.assertIn(f'Something of replication session ssn-{volume.id}',
                      self.log.errors_text())
        self.assertTrue(self.ids(volume)['replicated'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_a_volume_that_is_tried_again(self) -> None:
        volume = self.backend.create_volume()
        for fault in (REFUSED, BROKEN):
            self.primary.control.add_fault(fault)
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **REPLICATED)
        self._calm()
        self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)

    def test_a_group(self) -> None:
        group = self.group()
        for fault in (REFUSED, BROKEN):
            self.primary.control.add_fault(fault)
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
        with weather.Steps(lambda url: port in url).on(number, lose), \
                contextlib.suppress(backend.OperationFailed):
            act()
        self._calm()
        return bool(lost)

    def test_the_target_is_lost_while_a_volume_is_made(self) -> None:
        """What it has by then goes with the volume."""
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
        """Not that of the look for leftovers."""
        self.primary.control.cut_link()
        self.secondary.control.add_fault(
            {'kind': 'reset', 'method': '*', 'path': '*'})
        failure = self.assertRaises(backend.OperationFailed, self.replicated)
        self._calm()
        self.assertIn('does not reach its replication peer',
                      str(failure.cause))
        self.backend.delete_volume(failure.row)


class ManagedTest(TruthTest):
    """Somebody's volume, of which only the management failed."""

    def test_replication_that_had_begun(self) -> None:
        admin = self.primary.admin
        group = self.make('volume_groups', name='theirs', is_dedup=True,
                          quota=0)
        volume = self.make(
            'volumes', name='theirs', size=replicated.GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        for fault in (REFUSED, BROKEN):
            self.primary.control.add_fault(fault)
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


class OtherTargetsTest(test_replication.TwoTargetsTest):
    """Arrays number their sessions alike."""

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


class TypesTest(TruthTest):
    """Types, and cinder.conf, that change behind the volumes' backs."""

    def test_a_type_that_is_wrong_now(self) -> None:
        """It says nothing about deduplication, so nothing is copied."""
        for specs, check in ((REPLICATED, self.assert_replicated),
                             ({}, self.assert_alone)):
            volume = self.replicated(**test_replication.RPO)
            kind = volume.volume_type_id
            self._set_rpo(kind, '90')
            self.backend.retype(volume, **specs)
            check(volume)
            self._set_rpo(kind, '600')

    def test_a_volume_that_could_not_be_made(self) -> None:
        """It can be deleted all the same."""
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
        """An administrator changes a type."""
        db_api.volume_type_extra_specs_update_or_create(
            self.backend.context, kind,
            {'kaminario:replication_rpo': seconds})

    def _rpo(self) -> Any:
        session, = self.primary.admin.list('replication/sessions')
        return session['rpo']

    def test_the_interval_is_that_of_the_session(self) -> None:
        """Whatever cinder.conf has said since."""
        volume = self.replicated()
        read = config.replication_targets
        self.enterContext(mock.patch.object(
            config, 'replication_targets', lambda configuration: [
                dataclasses.replace(one, rpo=900)
                for one in read(configuration)]))
        self.assertTrue(self.backend.restart())
        self.assertEqual(60, self._rpo())
        self.backend.retype(volume, **REPLICATED,
                            kaminario__replication_rpo='900')
        self.assertEqual(900, self._rpo())

    def test_another_interval_away(self) -> None:
        """The array takes it on the source only."""
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


class GroupExtendTest(groups.GroupsTest):
    """All volumes of a consistency group have one session."""

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
