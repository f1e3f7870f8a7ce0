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

"""Replicated volumes: created, changed, deleted, failed over and back."""

from collections.abc import Callable
from typing import Any
from unittest import mock
import uuid

from cinder import compute
from cinder import exception

from cinder_k2.flows.replication import copies
from tests import arrays
from tests import contexts
from tests.functional import backend
from tests.functional import base
from tests.functional import disks
from tests.functional import foreign
from tests.functional import images
from tests.functional import replicated
from tests.functional.replicated import REPLICATED
from tests.functional import test_failover
from tests.functional import test_upgrade

MIB = 1 << 20
PLAIN: dict[str, str] = {}
VIEW = {'kaminario__clone_strategy': 'view'}
COPY = {'kaminario__clone_strategy': 'copy'}
THIN = {'kaminario__clone_strategy': 'thin'}
NODEDUP = {'kaminario__thin_prov_type': 'nodedup'}
MOON = {'kaminario__replication_target': 'moon'}
# The driver repeats the request once.
TRIES = 2
TEXT = b'what the user wrote'
RPO = {'kaminario__replication_rpo': '600'}


@base.pairwise_variants
class ReplicationTest(replicated.ReplicatedTest):
    """Single volumes."""

    feature = 'replication'

    def test_a_life(self) -> None:
        volume = self.replicated()
        self.assert_replicated(volume)
        self.write(volume, 'first')
        self.backend.extend_volume(volume, 2)
        self.assert_replicated(volume, size=2)
        self.assertEqual('first', self.read(volume))
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_there_and_back(self) -> None:
        volume = self.replicated()
        self.write(volume, 'first')
        self.primary.control.advance(400)
        self.secondary.control.advance(400)
        service = self.backend.fail_over(replicated.TARGET)
        self.assertEqual('failed-over', service.replication_status)
        self.assertEqual(replicated.TARGET, service.active_backend_id)
        volume.refresh()
        self.assertEqual('failed-over', volume.replication_status)
        self.assertIs(self.secondary, self.holder(volume))
        self.assertEqual('first', self.read(volume))
        self.write(volume, 'second')
        service = self.backend.fail_back()
        self.assertEqual('enabled', service.replication_status)
        volume.refresh()
        self.assertEqual('enabled', volume.replication_status)
        self.assertIs(self.primary, self.holder(volume))
        self.assertEqual('second', self.read(volume))

    def test_types_in_the_words_of_cinder(self) -> None:
        by_cinder = self.backend.create_volume(
            replication_enabled='<is> True')
        refused = self.backend.create_volume(
            replication_enabled='<is> True',
            kaminario__replication='disabled')
        self.assert_replicated(by_cinder)
        self.assert_alone(refused, self.backend.create_volume())

    def test_snapshots(self) -> None:
        volume = self.replicated()
        snapshots = [self.backend.create_snapshot(volume) for _ in range(2)]
        self.backend.delete_snapshot(snapshots[0])
        self.backend.extend_volume(volume, 2)
        self.assert_replicated(volume, size=2)
        self.backend.delete_snapshot(snapshots[1])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_a_replica_that_only_the_array_extends(self) -> None:
        """VOL-4: the array extends the replica when the session starts."""
        self.ignore_call_budget()
        for array in (self.primary, self.secondary):
            array.control.set_behaviors(grow_copies_at_start=True)
            self.addCleanup(array.control.set_behaviors,
                            grow_copies_at_start=False)
        # After a restart, the service has not seen arrays extend a copy.
        self.backend.restart()
        volume = self.replicated()
        self.backend.extend_volume(volume, 2)
        self.assert_replicated(volume, size=2)
        self.secondary.control.set_behaviors(full=True)
        self.addCleanup(self.secondary.control.set_behaviors, full=False)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.extend_volume, volume, 3)
        self.assertEqual((2, 'error_extending'),
                         (failure.row.size, failure.status))
        self.assert_replicated(volume, size=2)

    def test_in_use(self) -> None:
        """Two hosts use the volume; the session is not affected."""
        contexts.enter(self, mock.patch.object(
            compute, 'API', autospec=True))
        volume = self.replicated(multiattach='<is> True')
        first, second = [self.backend.attach(volume, self.host(), number * 32)
                         for number in 'ab']
        self.backend.extend_volume(volume, 3)
        self.assert_replicated(volume, size=3)
        snapshot = self.backend.create_snapshot(volume)
        self.backend.delete_snapshot(snapshot)
        self.backend.detach(first)
        self.assertEqual(1, self.count(self.primary)['mappings'])
        self.backend.detach(second)
        self.assert_replicated(volume, size=3)
        self.assertNotIn('hosts', self.left())

    def test_clones_outlive_their_source(self) -> None:
        """The copy is deleted at once; clone sources stay, hidden."""
        volume = self.replicated()
        snapshot = self.backend.create_snapshot(volume)
        clones = [
            self.backend.volume_from_snapshot(snapshot, **VIEW),
            self.backend.clone(volume, **VIEW)]
        self.assert_alone(*clones)
        self.assert_replicated(volume)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertEqual({}, self.count(self.secondary))
        self.assertEqual({}, self.sessions())
        self.assertEqual(1, self.count(self.primary)['volumes'])
        for clone in clones:
            self.backend.delete_volume(clone)
        self.assertNothingLeft()

    def test_what_strangers_need_stays_replicated(self) -> None:
        volume = self.replicated()
        name = f'cv-{volume.id}'
        group = self.ids(volume)['group']
        policy = self.admin.list('retention_policies')[0]['id']
        snapshot = self.admin.create(
            'snapshots', source={'ref': f'/volume_groups/{group}'},
            retention_policy={'ref': f'/retention_policies/{policy}'},
            short_name='theirs')
        self._assert_busy(volume)
        self.admin.delete('snapshots', snapshot['id'])
        self.map_to_a_stranger(self.primary, name)
        self._assert_busy(volume)
        self.remove_the_stranger(self.primary)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def _assert_busy(self, volume: Any) -> None:
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_volume, volume)
        self.assertEqual('available', failure.status)
        self.assert_replicated(volume)

    def test_deletion_of_what_is_gone(self) -> None:
        """A copy is deleted even if the volume or a session is missing."""
        volume, other, third = [self.replicated() for _ in range(3)]
        self._stop(f'ssn-{volume.id}', f'ssn-{other.id}', f'ssn-{third.id}')
        for name in (f'ssn-{volume.id}', f'ssn-{other.id}'):
            found, = self.admin.list('replication/sessions', name=name)
            self.admin.delete('replication/sessions', found['id'])
        found, = self.secondary.admin.list('replication/sessions',
                                           name=f'rssn-{third.id}')
        self.secondary.admin.delete('replication/sessions', found['id'])
        ids = self.ids(volume)
        for snapshot in self.admin.list('snapshots'):
            if snapshot['volume_group']['ref'] == (
                    f'/volume_groups/{ids["group"]}'):
                self.admin.delete('snapshots', snapshot['id'])
        self.admin.delete('volumes', ids['volume'])
        self.admin.delete('volume_groups', ids['group'])
        for row in (volume, other, third):
            self.backend.delete_volume(row)
        self.assertNothingLeft()

    def _stop(self, *names: str) -> None:
        """Stop sessions, as an administrator does."""
        for session in self.admin.list('replication/sessions'):
            for state in ('suspended', 'idle'):
                if session['name'] in names:
                    self.admin.update('replication/sessions', session['id'],
                                      state=state)

    def test_a_copy_that_somebody_uses(self) -> None:
        """An administrator of the other array mapped the copy."""
        self.expose_copies()
        volume = self.replicated()
        self.map_to_a_stranger(self.secondary, f'rcv-{volume.id}')
        self._assert_busy(volume)
        self.assertIn(f'rcv-{volume.id}', self.log.errors_text())
        self.remove_the_stranger(self.secondary)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_management(self) -> None:
        group = self.admin.create('volume_groups', name='theirs', quota=0,
                                  is_dedup=True)
        self.admin.create(
            'volumes', name='theirs', size=replicated.GIB + 5,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        volume = self.backend.manage({'source-name': 'theirs'}, **REPLICATED)
        self.assertEqual(2, volume.size)
        self.assert_replicated(volume, size=2)
        plain = self.backend.create_volume()
        self.backend.unmanage(plain)
        plain = self.backend.manage({'source-name': f'cv-{plain.id}'})
        self.assert_alone(plain)
        self.backend.delete_volume(plain)
        before = self.count(self.secondary)
        self.backend.unmanage(volume)
        self.assertEqual(before, self.count(self.secondary))
        self.assertIn(f'ssn-{volume.id}', self.sessions())
        entry, = self.backend.manageable()
        self.assertFalse(entry['safe_to_manage'])
        self._remove_by_hand(volume)

    def test_management_that_fails(self) -> None:
        """The volume is foreign again, with its own name."""
        group = self.admin.create('volume_groups', name='theirs', quota=0,
                                  is_dedup=True)
        made = self.admin.create(
            'volumes', name='theirs', size=replicated.GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.fault('status', 'POST', 'replication/peer_volumes', status=400,
                   times=TRIES)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.manage,
            {'source-name': 'theirs'}, **REPLICATED)
        self.assertEqual('error_managing', failure.status)
        self.backend.delete_volume(failure.row)
        self.assertEqual(({'volumes': 1, 'volume_groups': 1}, {}),
                         (self.count(self.primary),
                          self.count(self.secondary)))
        found, = self.admin.list('volumes', name='theirs')
        self.assertEqual(made['id'], found['id'])
        self.sweep(self.primary)

    def _remove_by_hand(self, volume: Any) -> None:
        """Delete a volume that is still replicated, as an administrator."""
        self._stop(f'ssn-{volume.id}')
        for array in (self.primary, self.secondary):
            self.sweep(array)


@base.pairwise_variants
class EndingTest(test_failover.GroupsTest):
    """Obstacles are found before anything is ended."""

    feature = 'replication'

    def _assert_refused(self, row: Any, why: str, *actions: Any) -> None:
        """Check that actions, by default a retype, fail and change nothing."""
        row.refresh()
        before = self.sessions(), row.replication_status
        for action in actions or (self.backend.retype,):
            self.assertRaises(backend.OperationFailed, action, row)
            self.assertIn(why, self.log.errors_text())
            row.refresh()
            self.assertEqual('available', row.status)
            self.assertEqual(before,
                             (self.sessions(), row.replication_status))

    def _take_by_hand(self, group_name: str) -> int:
        """Take a foreign snapshot on the secondary; return its id."""
        admin = self.secondary.admin
        group, = admin.list('volume_groups', name=group_name)
        policy = admin.list('retention_policies')[0]['id']
        return int(admin.create(
            'snapshots', source={'ref': f'/volume_groups/{group["id"]}'},
            retention_policy={'ref': f'/retention_policies/{policy}'},
            short_name='theirs')['id'])

    def test_a_snapshot_taken_away(self) -> None:
        volume = self.replicated()
        self.pass_time()
        self.fails_over()
        self.backend.enable()
        snapshot = self.backend.create_snapshot(volume)
        self.fails_back()
        self._assert_refused(volume, f'cs-{snapshot.id}. Delete them first')
        self.assert_replicated(volume)
        self.backend.delete_snapshot(snapshot)
        self.backend.retype(volume)
        self.assert_alone(volume)

    def test_a_snapshot_taken_at_home(self) -> None:
        volume = self.replicated()
        snapshot = self.backend.create_snapshot(volume)
        self.pass_time()
        self.fails_over()
        self._assert_refused(volume, f'cs-{snapshot.id}. Delete them first')
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_a_snapshot_of_somebody_else(self) -> None:
        volume = self.replicated()
        self.pass_time()
        self.fails_over()
        taken = self._take_by_hand(f'rcvg-{volume.id}')
        self.fails_back()
        self._assert_refused(volume, ':theirs. Delete them first',
                             self.backend.delete_volume, self.backend.retype)
        self.assert_replicated(volume)
        self.secondary.admin.delete('snapshots', taken)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_a_group_with_a_snapshot_of_somebody_else(self) -> None:
        group = self.group(test_failover.REPLICATED_GROUP)
        self.pass_time()
        self.fails_over()
        taken = self._take_by_hand(f'rccg-{group.id}')
        self.fails_back()
        before = self.sessions()
        self.assertRaises(backend.OperationFailed, self.backend.delete_group,
                          group)
        self.assertIn(':theirs. Delete them first', self.log.errors_text())
        self.assertEqual(before, self.sessions())
        self.assert_members(group, 'enabled', 'available', self.primary)
        self.secondary.admin.delete('snapshots', taken)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def _expose_history(self) -> int:
        """Create a foreign view of a replication snapshot on the secondary."""
        admin = self.secondary.admin
        taken = admin.list('snapshots')[-1]
        policy = admin.list('retention_policies')[0]['id']
        return int(admin.create(
            'snapshots', source={'ref': f'/snapshots/{taken["id"]}'},
            retention_policy={'ref': f'/retention_policies/{policy}'},
            is_exposable=True, short_name='theirs')['id'])

    def _exposed_meanwhile(self, act: Callable[[], Any]) -> int:
        """Create that view just after the driver has checked for views."""
        look, made = copies.Copies.look, []

        def look_and_miss(*args: Any) -> Any:
            found = look(*args)
            made.append(self._expose_history())
            return found

        with mock.patch.object(copies.Copies, 'look', look_and_miss):
            act()
        return made[0]

    def test_a_view_of_what_replication_took(self) -> None:
        """The view needs the snapshot, so replication is not ended."""
        volume = self.replicated()
        self.pass_time()
        view = self._expose_history()
        self._assert_refused(volume, 'has snapshots or views: ',
                             self.backend.delete_volume, self.backend.retype)
        self.secondary.admin.delete('snapshots', view)

    def test_what_is_seen_too_late(self) -> None:
        """The session has been deleted, and the row shows that."""
        volume = self.replicated()
        self.pass_time()
        view = self._exposed_meanwhile(lambda: self.assertRaises(
            backend.OperationFailed, self.backend.retype, volume))
        self.assertEqual({}, self.sessions())
        self.assert_row(volume, 'error', 'available', self.primary)
        self.assertIn(f'Volume {volume.id} is not replicated any more',
                      self.log.errors_text())
        self.backend.retype(volume, vendor__colour='red', **REPLICATED)
        self.assert_row(volume, 'error', 'available', self.primary)
        self.secondary.admin.delete('snapshots', view)
        self.backend.retype(volume)
        self.assert_alone(volume)
        self.assertEqual({}, self.count(self.secondary))

    def test_what_is_seen_too_late_of_a_group(self) -> None:
        group = self.group(test_failover.REPLICATED_GROUP)
        self.pass_time()
        view = self._exposed_meanwhile(lambda: self.assertRaises(
            backend.OperationFailed, self.backend.disable_replication,
            group))
        self.assertEqual({}, self.sessions())
        for row in self.backend.members(group):
            self.assertEqual('error', row.replication_status)
            self.assertIn(f'Volume {row.id} is not replicated any more',
                          self.log.errors_text())
        self.secondary.admin.delete('snapshots', view)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def _detached_away(self, *volumes: Any) -> None:
        """Fail over, and detach while the primary is unreachable."""
        host = self.host()
        attached = [self.backend.attach(row, host) for row in volumes]
        with self.lost(self.primary):
            self.fails_over()
            for attachment in attached:
                self.backend.detach(attachment)
        self.backend.enable()
        for row in volumes:
            row.refresh()
            self.assertTrue(self.is_mapped(row, self.primary))

    def test_what_a_detach_could_not_reach(self) -> None:
        volume, other = self.replicated(), self.replicated()
        self.pass_time()
        self._detached_away(volume, other)
        self.backend.delete_volume(volume)
        self.backend.retype(other)
        self.assert_alone(other)
        self.assertEqual({}, self.count(self.primary))

    def test_strangers_stay(self) -> None:
        volume = self.replicated()
        self.pass_time()
        self._detached_away(volume)
        self.map_to_a_stranger(self.primary, f'cv-{volume.id}')
        self._assert_refused(volume, 'is mapped to host stranger.',
                             self.backend.delete_volume, self.backend.retype)
        self.remove_the_stranger(self.primary)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_left_when_it_ended(self) -> None:
        """Leftovers are removed when the volume is replicated again."""
        volume = self.replicated()
        attachment = self.backend.attach(volume, self.host())
        self.pass_time()
        with self.lost(self.primary):
            self.fails_over()
            self.backend.enable()
            self.backend.detach(attachment)
            self.backend.retype(volume)
        self.backend.retype(volume, **REPLICATED)
        self.assert_row(volume, 'enabled', 'available', self.secondary)
        self.assertEqual({'in_sync'},
                         {state for _, state in self.sessions().values()})
        self.assertNotIn('hosts', self.left())

    def test_attached_ones_keep_their_mappings(self) -> None:
        """A guest may still use the old array until Cinder detaches it."""
        volume = self.replicated()
        attachment = self.backend.attach(volume, self.host())
        self.pass_time()
        self.fails_over()
        volume.refresh()
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume)
        self.assertIn('is mapped to host', self.log.errors_text())
        self.assertTrue(self.is_mapped(volume, self.primary))
        self.assert_row(volume, 'failed-over', 'in-use', self.secondary)
        self.backend.detach(attachment)
        self.backend.retype(volume)
        self.assert_alone(volume)
        self.assertEqual({}, self.count(self.primary))


@base.pairwise_variants
class ReplicatedRetypeTest(replicated.ReplicatedTest):
    """Enabling and disabling replication of existing volumes."""

    feature = 'replication'

    def test_on_and_off(self) -> None:
        volume = self.backend.create_volume()
        self.write(volume, 'mine')
        snapshot = self.backend.create_snapshot(volume)
        for _ in range(2):
            for specs, check in ((REPLICATED, self.assert_replicated),
                                 ({}, self.assert_alone)):
                volume.replication_extended_status = 'Something was wrong.'
                volume.save()
                self.backend.retype(volume, **specs)
                check(volume)
                self.assertIsNone(volume.replication_extended_status)
            self.assertEqual({}, self.count(self.secondary))
        self.assertEqual('mine', self.read(volume))
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_in_use(self) -> None:
        volume = self.backend.create_volume()
        attachment = self.backend.attach(volume, self.host())
        mappings = self.primary.admin.list('mappings')
        self.assertEqual('in-use', self.backend.retype(
            volume, **REPLICATED).status)
        self.assert_replicated(volume)
        self.assertEqual('in-use', self.backend.retype(volume).status)
        self.assert_alone(volume)
        self.assertEqual(mappings, self.primary.admin.list('mappings'))
        self.backend.detach(attachment)

    def test_types_without_our_words(self) -> None:
        volume = self.backend.create_volume()
        self.backend.retype(volume, replication_enabled='<is> True')
        self.assert_replicated(volume)
        with self.assert_calls(1):
            self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)
        with self.assert_calls(1):
            self.backend.retype(volume, vendor__colour='red', **REPLICATED)
        self.backend.retype(volume, vendor__colour='red')
        self.assert_alone(volume)

    def test_rpo(self) -> None:
        volume = self.replicated()
        self.backend.extend_volume(volume, 2)
        self.assertEqual([60], self._rpos())
        before = self.sessions()
        with self.assert_calls(2):
            self.backend.retype(volume, **REPLICATED, **RPO)
        self.assertEqual([600], self._rpos())
        self.assertEqual(before, self.sessions())
        self.assert_replicated(volume, size=2)
        with self.assert_calls(1):
            self.backend.retype(volume, **REPLICATED, **RPO, vendor__a='b')
        self.backend.retype(volume, **REPLICATED)
        self.assertEqual([60], self._rpos())
        other = self.replicated(**RPO)
        self.assertEqual([60, 600], sorted(self._rpos()))
        self.assert_replicated(other)

    def _rpos(self) -> list[int]:
        return [s['rpo'] for s in self.admin.list('replication/sessions')]

    def test_the_same_target_by_its_name(self) -> None:
        volume = self.replicated()
        with self.assert_calls(1):
            self.backend.retype(volume, **REPLICATED,
                                kaminario__replication_target='dr-site')
        self.assert_replicated(volume)

    def test_what_the_array_refuses(self) -> None:
        """The volume stays unchanged."""
        volume = self.backend.create_volume()
        self.fault('status', 'POST', 'replication/peer_volumes', times=9,
                   status=400)
        self._assert_refused(volume, **REPLICATED)
        self.primary.control.clear_faults()
        self.assert_alone(volume)
        self.assertEqual({}, self.sessions())
        self.backend.retype(volume, **REPLICATED)
        self.assert_replicated(volume)

    def test_what_has_the_name_of_the_copy(self) -> None:
        """A volume with the copy's name stays while creations get no reply."""
        volume = self.backend.create_volume()
        admin = self.secondary.admin
        group = admin.create('volume_groups', name='old', quota=0)
        old = admin.create(
            'volumes', name=f'rcv-{volume.id}', size=replicated.GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.fault('reset', 'POST', 'replication/peer_volumes',
                   commit='before', times=999)
        self._assert_refused(volume, **REPLICATED)
        self.primary.control.clear_faults()
        self.assertEqual([old['id']], [found['id'] for found in admin.list(
            'volumes', name=old['name'])])
        self.assertEqual({}, self.sessions())
        self.backend.retype(volume, **REPLICATED)
        admin.delete('volume_groups', group['id'])
        self.assert_replicated(volume)

    def _assert_refused(self, volume: Any, **specs: str) -> None:
        before = self.backend.volume(volume.id)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.retype, volume, **specs)
        self.assertEqual(before.status, failure.status)
        self.assertEqual(before.volume_type_id, failure.row.volume_type_id)

    def test_a_copy_that_somebody_uses(self) -> None:
        self.expose_copies()
        volume = self.replicated()
        self.map_to_a_stranger(self.secondary, f'rcv-{volume.id}')
        self._assert_refused(volume)
        self.assert_replicated(volume)
        self.remove_the_stranger(self.secondary)
        self.backend.retype(volume)
        self.assert_alone(volume)


@base.pairwise_variants
class ReplicatedCopiesTest(replicated.ReplicatedDisksTest):
    """Clones to and from replicated volumes, of any kind."""

    feature = 'replication'

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.replicated()
        self.disks.write(self.volume, 5 * MIB, TEXT)
        self.snapshot = self.backend.create_snapshot(self.volume)

    def _copies(self, size: int, **specs: str) -> list[Any]:
        made = [self.backend.clone(self.volume, size, **specs),
                self.backend.volume_from_snapshot(self.snapshot, size,
                                                  **specs)]
        for row in made:
            self.assertEqual(TEXT, self.disks.read(row, 5 * MIB, len(TEXT)))
        self.assert_replicated(self.volume)
        return made

    def _remove(self, *volumes: Any) -> None:
        """Delete these volumes, and their source and snapshot."""
        for row in volumes:
            self.backend.delete_volume(row)
        self.backend.delete_snapshot(self.snapshot)
        self.backend.delete_volume(self.volume)
        self.assertNothingLeft()

    def test_replicated_ones(self) -> None:
        """They are copied; a view cannot be replicated."""
        same = self._copies(1, **REPLICATED)
        self.assert_replicated(*same)
        larger = self._copies(2, **REPLICATED)
        self.assert_replicated(*larger, size=2)
        self.assertEqual(5, self.count(self.secondary)['volumes'])
        self._remove(*same, *larger)

    def test_plain_ones(self) -> None:
        same = self._copies(1, vendor__colour='red')
        larger = self._copies(2, vendor__colour='red')
        other = self._copies(1, **NODEDUP)
        self.assert_alone(*same, *larger, *other)
        self.assertEqual(2, len([v for v in self.admin.list('snapshots')
                                 if v['short_name'].startswith('cv-')]))
        self.assertEqual(1, self.count(self.secondary)['volumes'])
        self._remove(*same, *larger, *other)

    def test_thin_ones_are_refused(self) -> None:
        """No volume can be added to the group of the source (REP-5)."""
        for specs in (THIN, {**THIN, **REPLICATED}):
            failure = self.assertRaises(
                backend.OperationFailed, self.backend.clone, self.volume,
                **specs)
            self.assertIn('its source is replicated', str(failure.cause))
            self.backend.delete_volume(failure.row)
        self.assert_replicated(self.volume)
        self._remove()

    def test_of_plain_ones(self) -> None:
        """Replicated clones are copies, or thin if the array supports that."""
        plain = self.backend.create_volume()
        self.disks.write(plain, 5 * MIB, TEXT)
        thin = dict.fromkeys(['thin', 'copy'] if self.profile == 'sdp'
                             else ['copy'])
        for how in thin:
            made = self.backend.clone(plain, 2, **REPLICATED,
                                      kaminario__clone_strategy=how)
            self.assert_replicated(made, size=2)
            self.assertEqual(TEXT, self.disks.read(made, 5 * MIB, len(TEXT)))
            self.backend.delete_volume(made)
        self.assert_left_after(plain)
        self._remove(plain)

    def assert_left_after(self, plain: Any) -> None:
        """Check that only this volume and that of ``setUp`` are left."""
        self.assertEqual(2, self.count(self.primary)['volumes'])
        self.assertEqual(1, self.count(self.secondary)['volumes'])
        self.assert_alone(plain)

    def test_clones_from_before(self) -> None:
        """Source and clones are replicated after the clones were created."""
        plain = self.backend.create_volume()
        self.disks.write(plain, 5 * MIB, TEXT)
        how = THIN if self.profile == 'sdp' else VIEW
        clones = [self.backend.clone(plain, **how) for _ in range(2)]
        self.backend.retype(plain, **REPLICATED)
        self.backend.retype(clones[0], **REPLICATED)
        self.assert_replicated(plain, clones[0])
        self.backend.delete_volume(plain)
        self.assertNotIn(f'ssn-{plain.id}', self.sessions())
        self.backend.retype(clones[0])
        self.assert_alone(*clones)
        self.backend.retype(clones[1], **REPLICATED)
        self.assert_replicated(clones[1])
        for row in clones:
            self.assertEqual(TEXT, self.disks.read(row, 5 * MIB, len(TEXT)))
        self._remove(*clones)

    def test_views_become_volumes(self) -> None:
        view = self.backend.clone(self.volume, **VIEW)
        attachment = self.backend.attach(view, self.host())
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.retype, view, **REPLICATED)
        self.assertEqual('in-use', failure.status)
        self.assertIn('backed by a view', self.log.errors_text())
        self.assert_alone(view)
        self.backend.detach(attachment)
        self.backend.retype(view, **REPLICATED)
        self.assert_replicated(view, self.volume)
        self.assertEqual(TEXT, self.disks.read(view, 5 * MIB, len(TEXT)))
        self._remove(view)

    def test_revert(self) -> None:
        """By a copy: the array does not restore replicated groups."""
        self.disks.write(self.volume, 5 * MIB, b'later')
        before = self.sessions()
        self.backend.revert(self.volume, self.snapshot)
        self.assertEqual(TEXT, self.disks.read(self.volume, 5 * MIB,
                                               len(TEXT)))
        self.assertEqual(before, self.sessions())
        self.assert_replicated(self.volume)
        self._remove()

    def test_attached_snapshots(self) -> None:
        """Backups and images are made of them."""
        context, host = self.backend.context, self.host()
        self.backend.driver.initialize_connection_snapshot(self.snapshot,
                                                           host)
        self.assert_replicated(self.volume)
        self.backend.driver.terminate_connection_snapshot(self.snapshot,
                                                          host)
        self.assertEqual(context, self.backend.context)
        self._remove()

    def test_dedup_and_replication(self) -> None:
        """Cinder copies what is not replicated, and refuses the rest."""
        plain = self.backend.create_volume()
        self.disks.write(plain, 5 * MIB, TEXT)
        moved = self.backend.retype(plain, 'on-demand', **REPLICATED,
                                    **NODEDUP)
        self.assert_replicated(moved)
        self.assertEqual(TEXT, self.disks.read(moved, 5 * MIB, len(TEXT)))
        self.assertEqual(2, self.count(self.primary)['volumes'])
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.retype, moved,
            'on-demand', **REPLICATED)
        self.assertIn('must not be replicated', str(failure.cause))
        self.assert_replicated(moved)
        moved = self.backend.retype(moved, **NODEDUP)
        self.assert_alone(moved)
        self.backend.retype(moved, **NODEDUP, **REPLICATED)
        self._remove(moved)

    def test_migration(self) -> None:
        """Cinder does not migrate replicated volumes."""
        home = self.backend
        other = self.own(self.protocol, replication_device=self.device())
        self.assertRaises(exception.InvalidVolume, home.migrate,
                          self.volume, other)
        self.assert_replicated(self.volume)
        plain = home.create_volume()
        self.disks.write(plain, 5 * MIB, TEXT)
        moved = home.retype(plain, 'on-demand', other, **REPLICATED)
        self.assertEqual(other.pool, moved.host)
        self.assert_replicated(moved)
        self.assertEqual(TEXT, self.disks.read(moved, 5 * MIB, len(TEXT)))
        self.primary.control.advance(400)
        other.fail_over(replicated.TARGET)
        moved.refresh()
        self.assertEqual('failed-over', moved.replication_status)
        self.assertIs(self.secondary, self.holder(moved))
        other.extend_volume(moved, 2)
        other.fail_back()
        self.assert_replicated(moved, size=2)
        moved = other.retype(moved)
        self.assert_alone(moved)
        back = other.migrate(moved, home)
        self.assertEqual(home.pool, back.host)
        home.retype(back, **REPLICATED)
        self.assert_replicated(back, size=2)
        home.delete_volume(back)


@base.pairwise_variants
class ReplicatedMigrationTest(replicated.ReplicatedDisksTest):
    """A volume of another driver becomes a replicated one."""

    feature = 'replication'

    def install_disks(self, *served: arrays.Served) -> disks.Disks:
        """Install disks of both arrays and of the other driver."""
        found = foreign.Disks(self.host('cinder-host'), self.primary,
                              self.secondary)
        found.install(self)
        self.addCleanup(self._check_disks, found)
        return found

    def test_name_id(self) -> None:
        """The copy is named after the name_id, too."""
        home = self.backend
        other = self.own('tests.functional.foreign.FileDriver',
                         replication_device=None)
        volume = other.create_volume()
        moved = other.retype(volume, 'on-demand', home, **REPLICATED)
        self.assertNotEqual(moved.id, moved.name_id)
        self.assert_replicated(moved)
        home.extend_volume(moved, 2)
        self.assert_replicated(moved, size=2)
        self.primary.control.advance(400)
        home.fail_over()
        moved.refresh()
        self.assertEqual('failed-over', moved.replication_status)
        home.fail_back()
        self.assert_replicated(moved, size=2)
        home.delete_volume(moved)
        self.assertNothingLeft()


@base.pairwise_variants
class ReplicatedImagesTest(replicated.ReplicatedDisksTest,
                           images.ImagesTest):
    """Images on replicated volumes."""

    feature = 'replication'

    def test_from_image_and_back(self) -> None:
        self.disks.set_scale(64)
        image = self.image(TEXT)
        volume = self.backend.volume_from_image(image, 1, **REPLICATED)
        self.assert_replicated(volume)
        self.assertEqual(TEXT, self.disks.read(volume, 0, len(TEXT)))
        self.upload(volume, 'raw')
        self.backend.reimage(volume, image)
        self.assert_replicated(volume)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()


class ThreeArraysTest(replicated.ReplicatedTest):
    """Two targets, the second of which is "moon"."""

    def setUp(self) -> None:
        super().setUp()
        self.third = arrays.start('k2', 'sim-k2-c')
        arrays.connect(self.primary, self.third)
        # The other tests need a separate pair of arrays.
        self.retire(self.third, *arrays.give_up_pair(self.profile))
        self._use_devices(self.device(), self.device(
            backend_id='moon', san_ip=self.third.address,
            port=self.third.port))

    def _use_devices(self, *devices: str) -> None:
        self.own('iscsi', replication_device=(
            '\nreplication_device = '.join(devices)))

    def left(self) -> dict[str, int]:
        """Return the number of users' objects by type, on all arrays."""
        return {**super().left(), **self.count(self.third)}

    def _assert_at(self, array: arrays.Served, volume: Any) -> None:
        """Check that the copy is on this target, and not on the other."""
        for each in (self.secondary, self.third):
            names = [v['name'] for v in each.admin.list(
                'volumes', name__prefix='rcv-')]
            self.assertEqual([f'rcv-{volume.id}'] if each is array else [],
                             names)
        session, = array.admin.list('replication/sessions')
        self.assertEqual('in_sync', session['state'])
        volume.refresh()
        self.assertEqual('enabled', volume.replication_status)

    @staticmethod
    def _system(array: arrays.Served) -> Any:
        state, = array.admin.list('system/state')
        return state['system_id']


class TwoTargetsTest(ThreeArraysTest):
    """A type chooses among several arrays."""

    def test_a_type_chooses(self) -> None:
        volume = self.replicated()
        self._assert_at(self.secondary, volume)
        with self.assert_calls(1):
            self.backend.retype(volume, vendor__colour='red', **REPLICATED)
        self.backend.delete_volume(volume)
        volume = self.replicated(**MOON)
        self._assert_at(self.third, volume)
        self.backend.extend_volume(volume, 2)
        self._assert_at(self.third, volume)
        self.backend.delete_volume(volume)
        self.assertTrue(self.third.is_clean())

    def test_another_target(self) -> None:
        volume = self.replicated()
        self.backend.retype(volume, **REPLICATED, **MOON)
        self._assert_at(self.third, volume)
        self.backend.retype(volume, **REPLICATED, **RPO)
        self._assert_at(self.secondary, volume)

    def test_another_target_that_refuses(self) -> None:
        """The volume is replicated as before."""
        volume = self.replicated()
        self.fault('status', 'POST', 'replication/peer_volumes', status=400,
                   times=TRIES)
        self._assert_not_moved(volume)
        self.assert_replicated(volume)

    def test_neither_takes_it(self) -> None:
        """If the former target refuses, too, the row shows the error."""
        volume = self.replicated()
        self.fault('status', 'POST', 'replication/peer_volumes', status=400,
                   times=9)
        self._assert_not_moved(volume)
        self.primary.control.clear_faults()
        volume.refresh()
        self.assertEqual('error', volume.replication_status)
        self.assertEqual({}, self.sessions())
        self.backend.retype(volume)
        self.assert_alone(volume)
        self.backend.retype(volume, **REPLICATED, **MOON)
        self._assert_at(self.third, volume)

    def _assert_not_moved(self, volume: Any) -> None:
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.retype, volume,
            **REPLICATED, **MOON)
        self.assertEqual('available', failure.status)
        self.assertEqual({}, self.count(self.third))

    def test_failover_goes_where_most_are(self) -> None:
        volumes = [self.replicated(**specs) for specs in ({}, MOON, MOON)]
        self.primary.control.advance(400)
        service = self.backend.fail_over()
        self.assertEqual('moon', service.active_backend_id)
        for volume in volumes:
            volume.refresh()
        self.assertEqual(
            ['failover-error', 'failed-over', 'failed-over'],
            [volume.replication_status for volume in volumes])
        self.backend.fail_back()
        for volume in volumes:
            volume.refresh()
        self.assertEqual(['enabled'] * 3, [
            volume.replication_status for volume in volumes])

    def test_what_another_target_serves(self) -> None:
        """A volume on that target is not moved, even if it has an error."""
        volumes = [self.replicated(), self.replicated(**MOON)]
        self.primary.control.advance(400)
        self.backend.fail_over('moon')
        made = self.backend.create_volume(**REPLICATED)
        moved = volumes[1]
        moved.refresh()
        self.assertIn(str(self._system(self.third)), moved.provider_id)
        for status in ('error', 'failed-over'):
            moved.replication_status = status
            moved.save()
            self.backend.fail_over(replicated.TARGET)
            for row, expected in ((moved, status), (made, 'enabled'),
                                  (volumes[0], 'failed-over')):
                row.refresh()
                self.assertEqual((expected, 'available'), (
                    row.replication_status, row.status))
        self.backend.fail_back()
        for row in (*volumes, made):
            row.refresh()
            self.assertEqual('enabled', row.replication_status)

    def test_another_target_while_it_is_away(self) -> None:
        """A volume that was failed over is replicated to the primary only."""
        volume = self.replicated()
        self.primary.control.advance(400)
        self.backend.fail_over(replicated.TARGET)
        self.assertRaises(backend.OperationFailed, self.backend.retype,
                          volume, **REPLICATED, **MOON)
        self.assertIn('which serves the volume: fail back first',
                      self.log.text())
        self.backend.retype(volume, vendor__colour='red', **REPLICATED)
        self.backend.fail_back()
        self.backend.retype(volume, **REPLICATED, **MOON)
        self._assert_at(self.third, volume)

    def test_a_device_that_is_no_peer(self) -> None:
        """The device does not affect volumes that use another target."""
        self._use_devices(self.device(
            backend_id='nobody', san_ip='127.0.0.7'), self.device())
        here = {'kaminario__replication_target': 'dr-site'}
        volume = self.replicated(**here)
        self.backend.extend_volume(volume, 2)
        self.assert_replicated(volume, size=2)
        self.backend.delete_volume(volume)
        volume = self.replicated(**here)
        self.backend.retype(volume)
        self.assert_alone(volume)

    def test_a_device_that_is_gone(self) -> None:
        """Objects on an array that is no longer configured stay there."""
        volume = self.replicated(**MOON)
        self.keep_devices(1)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.extend_volume, volume, 2)
        self.assertEqual((1, 'error_extending'),
                         (failure.row.size, failure.status))
        self.backend.delete_volume(volume)
        self.assertEqual(({}, {}), (self.count(self.primary),
                                    self.count(self.secondary)))
        self.sweep(self.third)


class NoDeviceTest(replicated.ReplicatedTest):
    """replication_device was removed from cinder.conf."""

    def test_what_was_replicated(self) -> None:
        volume = self.replicated()
        self.keep_devices(0)
        self.assertRaises(backend.OperationFailed,
                          self.backend.extend_volume, volume, 2)
        found, = self.admin.list('volumes', name=f'cv-{volume.id}')
        self.assertEqual(replicated.GIB, found['size'])
        self.backend.delete_volume(volume)
        self.assertIn(f'rcv-{volume.id}', self.log.errors_text())
        self.assertEqual({}, self.count(self.primary))
        self.sweep(self.secondary)


class WrongTypesTest(replicated.ReplicatedTest):
    """Types that require what this back end does not have."""

    def _assert_refused(self, words: str, **specs: str) -> None:
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.create_volume, **specs)
        self.assertIn(words, str(failure.cause))
        self.backend.delete_volume(failure.row)
        self.assertNothingLeft()

    def test_no_such_target(self) -> None:
        self._assert_refused('use one of: dr-site.', **REPLICATED,
                             kaminario__replication_target='moon')

    def test_no_device(self) -> None:
        self.own('iscsi', replication_device=None)
        self._assert_refused('no replication_device', **REPLICATED)
        self._assert_refused('no replication_device',
                             replication_enabled='<is> True')

    def test_rpo(self) -> None:
        self._assert_refused('60 or a multiple of 300', **REPLICATED,
                             kaminario__replication_rpo='90')

    def test_the_arrays_are_no_peers(self) -> None:
        self.own('iscsi', replication_device=self.device(
            san_ip='127.0.0.7'))
        self._assert_refused('has no replication peer', **REPLICATED)

    def test_a_session_that_the_array_refuses(self) -> None:
        """Nothing is left for Cinder's deletion of the row to find."""
        # A try may be several calls, with and without retention policies
        # (REP-2).
        self.fault('status', 'POST', 'replication/sessions', status=400,
                   times=99)
        failure = self.assertRaises(backend.OperationFailed, self.replicated)
        self.primary.control.clear_faults()
        self.assertNothingLeft()
        self.backend.delete_volume(failure.row)

    def test_rpo_of_the_device(self) -> None:
        self.own('iscsi', replication_device=self.device(rpo=900))
        volume = self.replicated()
        self.assertEqual([900], [s['rpo'] for s in self.admin.list(
            'replication/sessions')])
        self.backend.retype(volume, **REPLICATED, **RPO)
        self.assertEqual([600], [s['rpo'] for s in self.admin.list(
            'replication/sessions')])


class OldDriverTest(replicated.ReplicatedDisksTest):
    """Volumes that the in-tree driver created, or failed over."""

    def setUp(self) -> None:
        super().setUp()
        for array in (self.primary, self.secondary):
            # The in-tree driver deletes hosts with their initiators (HST-3).
            array.control.set_behaviors(delete_host_with_initiators=True)
            self.addCleanup(array.control.set_behaviors,
                            delete_host_with_initiators=False)
        self.own(test_upgrade.OLD['iscsi'], san_api_port=None,
                 san_ip=self.primary.host, replication_device=(
                     f'backend_id:{self.secondary.host},'
                     f'login:{arrays.LOGIN},password:{arrays.PASSWORD},'
                     'rpo:60'))
        self.volume, self.other = [self.backend.create_volume(
            1, **REPLICATED) for _ in range(2)]

    def _use_ours(self) -> None:
        self.assertTrue(self.backend.change_driver('iscsi'),
                        self.log.errors_text())

    def test_its_volumes(self) -> None:
        plain = self.backend.create_volume()
        snapshot = self.backend.create_snapshot(self.volume)
        self._use_ours()
        self.assertIsNone(self.volume.provider_id)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(self.other)
        self.backend.extend_volume(self.volume, 2)
        self.assertEqual({f'ssn-{self.volume.id}': ('source', 'in_sync'),
                          f'rssn-{self.volume.id}': ('target', 'in_sync')},
                         self.sessions())
        self.backend.retype(plain, **REPLICATED)
        self.assert_replicated(plain)
        self.backend.retype(plain)
        self.assert_alone(plain)
        self.backend.clone(self.volume, **VIEW)
        self.assertTrue(self.ids(self.volume)['replicated'])
        self.backend.extend_volume(self.volume, 3)
        self.assertEqual([3, 3], [v['size'] // replicated.GIB
                                  for array in (self.primary, self.secondary)
                                  for v in array.admin.list('volumes')
                                  if v['name'].endswith(self.volume.id)])

    def test_strangers(self) -> None:
        self._use_ours()
        self.map_to_a_stranger(self.primary, f'cv-{self.volume.id}')
        self.assertRaises(backend.OperationFailed,
                          self.backend.delete_volume, self.volume)
        self.assertEqual(4, len(self.sessions()))
        self.remove_the_stranger(self.primary)

    def test_retype(self) -> None:
        self._use_ours()
        self.backend.retype(self.volume, **REPLICATED, **RPO)
        self.assertEqual([60, 600], sorted(s['rpo'] for s in self.admin.list(
            'replication/sessions')))
        self.backend.retype(self.volume)
        self.assert_alone(self.volume)

    def test_migration(self) -> None:
        """Cinder does not see from its rows that volumes are replicated."""
        self._use_ours()
        self.disks.write(self.volume, 5 * MIB, TEXT)
        home = self.backend
        other = self.own('iscsi', replication_device=self.device())
        moved = home.migrate(self.volume, other)
        self.assertEqual(other.pool, moved.host)
        self.assertEqual(TEXT, self.disks.read(moved, 5 * MIB, len(TEXT)))
        self.assert_replicated(moved)
        self.assertNotIn(f'ssn-{self.volume.id}', self.sessions())

    def test_failover_and_back(self) -> None:
        self._use_ours()
        self.primary.control.advance(400)
        service = self._fails_over_and_back()
        self.assertEqual(self.secondary.host, service.active_backend_id)
        self.assert_replicated(self.other)

    def test_what_stays_on_the_primary(self) -> None:
        """Rows without ids lead to objects that stayed on the primary."""
        plain = self.backend.create_volume()
        snapshots = [self.backend.create_snapshot(one)
                     for one in (self.volume, plain)]
        attachment = self.backend.attach(plain, self.host())
        self._use_ours()
        self.primary.control.advance(400)
        self.backend.fail_over()
        self.assertEqual(1, len(self.primary.admin.list('mappings')))
        self.backend.detach(attachment)
        self.assertEqual([], self.primary.admin.list('mappings'))
        # Only the driver that created the host would delete it.
        host, = self.primary.admin.list('hosts')
        self.primary.admin.delete('hosts', host['id'])
        for snapshot in snapshots:
            self.backend.delete_snapshot(snapshot)
            self.assertEqual([], self.primary.admin.list(
                'snapshots', short_name=f'cs-{snapshot.id}'))
        self.backend.delete_volume(plain)
        self.assertEqual([], self.primary.admin.list(
            'volumes', name=f'cv-{plain.id}'))

    def test_what_stays_on_a_primary_that_is_lost(self) -> None:
        """Objects on the lost array are not assumed to be gone."""
        plain = self.backend.create_volume()
        snapshot = self.backend.create_snapshot(self.volume)
        self._use_ours()
        self.primary.control.advance(400)
        with self.lost(self.primary):
            self.backend.fail_over()
            self.assertRaises(backend.OperationFailed,
                              self.backend.delete_volume, plain)
            self.assertRaises(backend.OperationFailed,
                              self.backend.delete_snapshot, snapshot)
        self.backend.delete_volume(plain, force=True)
        self.backend.delete_snapshot(snapshot)
        self.backend.fail_back()
        self.assertEqual(2, self.count(self.primary)['volumes'])
        self.assertNotIn(f'cs-{snapshot.id}', [
            one['short_name'] for one in self.primary.admin.list(
                'snapshots')])

    def _fails_over_and_back(self) -> Any:
        """Fail over, extend and fail back.

        :returns: the row of the service after the failover
        """
        service = self.backend.fail_over()
        self.volume.refresh()
        self.assertEqual('failed-over', self.volume.replication_status)
        self.assertIs(self.secondary, self.holder(self.volume))
        self.backend.extend_volume(self.volume, 2)
        self.backend.fail_back()
        self.assert_replicated(self.volume, size=2)
        return service

    def _migrated(self) -> None:
        """Let the volume be a migrated one: its name_id is not its id."""
        self.volume.update({'_name_id': str(uuid.uuid4())})
        self.volume.save()

    def test_failover_of_a_migrated_volume(self) -> None:
        self._migrated()
        self._use_ours()
        self.primary.control.advance(400)
        self._fails_over_and_back()

    def test_a_migrated_volume_that_it_has_failed_over(self) -> None:
        self.primary.control.advance(400)
        self.backend.fail_over()
        self._migrated()
        self._use_ours()
        self.backend.fail_back()
        self.assert_replicated(self.volume)

    def test_it_has_failed_over(self) -> None:
        """This driver finds volumes under the names of copies."""
        self.primary.control.advance(400)
        service = self.backend.fail_over()
        self.assertEqual('failed-over', service.replication_status)
        self._use_ours()
        self.assertIs(self.backend.side, self.backend.driver._arrays.named(
            self.secondary.host))
        self.backend.detach(self.backend.attach(self.volume, self.host()))
        self.backend.extend_volume(self.volume, 2)
        self.backend.delete_snapshot(self.backend.create_snapshot(
            self.volume))
        self.backend.delete_volume(self.other)
        self.backend.fail_back()
        self.assert_replicated(self.volume, size=2)
