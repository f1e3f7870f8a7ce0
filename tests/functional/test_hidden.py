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

"""Deferred deletion: clone sources are hidden at once, purged later."""

import functools
import json
import threading
from typing import Any
from unittest import mock

from cinder_k2.driver.operations import deletion as deletions
from cinder_k2.driver.operations import purge
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import deletion
from k2_sim.rules import groups
from tests import arrays
from tests.functional import backend
from tests.functional import base


class HiddenTest(base.FunctionalTest):
    """Helpers."""

    # Deletions of objects with dependents first check what needs them.
    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def view(self, snapshot: int, name: str) -> Any:
        """Create a view of a snapshot, as an administrator."""
        policy = self.admin.list('retention_policies')[0]['id']
        return self.admin.create(
            'snapshots', short_name=name, is_exposable=True,
            source={'ref': f'/snapshots/{snapshot}'},
            retention_policy={'ref': f'/retention_policies/{policy}'})

    def descriptions(self) -> list[str]:
        return [g['description'] or ''
                for g in self.admin.list('volume_groups')]

    def assert_busy(self, operation: Any, row: Any, *words: str) -> None:
        """Check that a deletion is refused as busy, for these reasons."""
        self.log.records.clear()
        failure = self.assertRaises(backend.OperationFailed, operation, row)
        self.assertEqual('available', failure.status)
        for word in words:
            self.assertIn(word, self.log.errors_text())


@base.pairwise_variants
class DeletionTest(HiddenTest):

    feature = 'delete the source of clones'

    def test_source_of_a_clone(self) -> None:
        clone = self.backend.clone(self.volume)
        self.backend.delete_volume(self.volume)
        self.assertEqual([], self.admin.list('volumes',
                                             name=f'cv-{self.volume.id}'))
        attachment = self.backend.attach(clone, self.host())
        self.backend.detach(attachment)
        self.backend.delete_volume(clone)
        self.assertNothingLeft()

    def test_source_whose_clone_went_without_a_trace(self) -> None:
        """A service was killed before it purged the snapshot."""
        snapshot = self.backend.create_snapshot(self.volume)
        clone = self.backend.volume_from_snapshot(snapshot)
        self.backend.delete_snapshot(snapshot)
        for resource in ('volumes', 'snapshots', 'volume_groups'):
            for found in self.admin.list(resource):
                if clone.id in found['name']:
                    self.admin.delete(resource, found['id'])
        self.backend.delete_volume(self.volume)
        self.assertNothingLeft()

    def test_snapshot_with_volumes(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        volumes = [self.backend.volume_from_snapshot(snapshot)
                   for _ in range(2)]
        self.backend.delete_snapshot(snapshot)
        self.assertEqual(1, len(self.admin.list(
            'snapshots', short_name=f'cs-{snapshot.id}')))
        self.backend.delete_volume(volumes[0])
        self.assertEqual(1, len(self.admin.list(
            'snapshots', short_name=f'cs-{snapshot.id}')))
        self.backend.delete_volume(volumes[1])
        self.assert_left(volumes=1, volume_groups=1)
        self.assertEqual([''], self.descriptions())

    def test_everything_at_once(self) -> None:
        """Clones of clones, and snapshots; all are deleted oldest first."""
        snapshot = self.backend.create_snapshot(self.volume)
        first = self.backend.volume_from_snapshot(snapshot)
        second = self.backend.clone(first)
        third = self.backend.volume_from_snapshot(
            self.backend.create_snapshot(second))
        self.backend.delete_snapshot(snapshot)
        for volume in (self.volume, first):
            self.backend.delete_volume(volume)
        self.backend.delete_snapshot(self.backend.snapshots()[0])
        self.backend.delete_volume(second)
        self.assertEqual(1, len(self.backend.volumes()))
        self.backend.restart()
        self.backend.delete_volume(third)
        self.assertNothingLeft()

    def test_in_every_order_and_by_another_service(self) -> None:
        clones = [self.backend.clone(self.volume) for _ in range(3)]
        self.backend.delete_volume(clones[1])
        self.backend.delete_volume(self.volume)
        self.backend.restart()
        self.backend.delete_volume(clones[2])
        self.assertNotEqual({}, self.left())
        self.backend.delete_volume(clones[0])
        self.assertNothingLeft()

    def test_all_at_once(self) -> None:
        clones = [self.backend.clone(self.volume) for _ in range(4)]
        results = self.together(*[
            lambda row=row: self.backend.delete_volume(row)
            for row in (self.volume, *clones)])
        self.assertEqual([None] * 5, results)
        self.assertNothingLeft()

    def test_a_schedulers_snapshot_is_respected(self) -> None:
        group = self.admin.list('volume_groups',
                                name=f'cvg-{self.volume.id}')[0]['id']
        policy = self.admin.list('retention_policies')[0]['id']
        clone = self.backend.clone(self.volume)
        hourly = self.admin.create(
            'snapshots', short_name='hourly-7',
            source={'ref': f'/volume_groups/{group}'},
            retention_policy={'ref': f'/retention_policies/{policy}'})
        before = self.left()
        self.assert_busy(self.backend.delete_volume, self.volume, 'hourly-7')
        self.assertEqual(before, self.left())
        self.assertEqual(1, len(self.admin.list(
            'volumes', name=f'cv-{self.volume.id}')))
        self.backend.delete_volume(clone)
        self.admin.delete('snapshots', hourly['id'])


class CarefulTest(HiddenTest):
    """Cases that do not depend on profile or protocol."""

    profile = 'sdp'

    def test_a_thin_clone_that_joined_its_source(self) -> None:
        """Both are hidden in one group; the clone is purged first (CLN-4)."""
        self.backend.delete_volume(self.volume)
        group = self.backend.create_group()
        source = self.backend.create_volume(1, group)
        snapshot = self.backend.create_snapshot(source)
        clone = self.backend.volume_from_snapshot(snapshot)
        self.backend.update_group(group, add=[clone])
        last = self.backend.clone(source)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_group(group)
        self.assert_left(volumes=3, volume_groups=2, snapshots=2)
        self.backend.delete_volume(last)
        self.assertNothingLeft()

    def test_an_administrators_view_is_respected(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        volume = self.backend.volume_from_snapshot(
            snapshot, kaminario__clone_strategy='view')
        array_id = json.loads(snapshot.provider_id)['snapshot']
        view = self.view(array_id, 'for-tests')
        self.assert_busy(self.backend.delete_snapshot, snapshot, 'for-tests')
        self.backend.delete_volume(volume)
        self.assert_busy(self.backend.delete_snapshot, snapshot, 'for-tests')
        self.admin.delete('snapshots', view['id'])

    def test_an_unmanaged_snapshot_is_not_reclaimed(self) -> None:
        """Objects not deleted by Cinder stay, even without a row."""
        clone = self.backend.clone(self.volume)
        snapshot = self.backend.create_snapshot(self.volume)
        on_array = json.loads(snapshot.provider_id)['snapshot']
        snapshot.destroy()
        self.assert_busy(self.backend.delete_volume, self.volume,
                         f'cs-{snapshot.id}')
        self.backend.delete_volume(clone)
        self.assertEqual(1, len(self.admin.list('snapshots', id=on_array)))
        self.admin.delete('snapshots', on_array)

    def test_the_notes_of_others_stay(self) -> None:
        group = self.admin.list('volume_groups',
                                name=f'cvg-{self.volume.id}')[0]['id']
        self.admin.update('volume_groups', group, description='gold tier')
        snapshot = self.backend.create_snapshot(self.volume)
        volume = self.backend.volume_from_snapshot(snapshot)
        self.backend.delete_snapshot(snapshot)
        self.assertIn('gold tier [cinder deleted: s', str(
            self.descriptions()))
        self.backend.delete_volume(volume)
        self.assertEqual(['gold tier'], self.descriptions())

    def test_an_array_that_cascades(self) -> None:
        """VOL-7 is not relied on: the driver checks before it deletes."""
        for make in (lambda: self.backend.clone(self.volume),
                     lambda: self.backend.volume_from_snapshot(
                         self.backend.create_snapshot(self.volume))):
            make()
            for snapshot in self.backend.snapshots():
                self.array.control.clear_journal()
                self.backend.delete_snapshot(snapshot)
                self.assert_no_deletes()
            self.array.control.clear_journal()
            self.backend.delete_volume(self.volume)
            self.assert_no_deletes()
            self.volume = self.backend.create_volume(1)

    def assert_no_deletes(self) -> None:
        self.assertEqual([], [c for c in self.calls()
                              if c.startswith('DELETE')])

    def test_a_full_description_is_said(self) -> None:
        """If the array refuses the note, the volume is not hidden."""
        clone = self.backend.clone(self.volume)
        self.fault('status', 'PATCH', 'volume_groups/*', status=400)
        self.assert_busy(self.backend.delete_volume, self.volume, 'note')
        self.backend.delete_volume(self.volume)
        self.backend.delete_volume(clone)
        self.assertNothingLeft()

    @arrays.in_this_process
    def test_a_note_that_is_cut_off(self) -> None:
        """If the array truncates the note, the volume is not hidden."""
        clone = self.backend.clone(self.volume)
        update = groups.GroupRules.update

        def cut(rules: Any, scope: Any, row: Any, values: Any) -> Any:
            if values.get('description'):
                values = {**values, 'description': values['description'][:9]}
            return update(rules, scope, row, values)

        with mock.patch.object(groups.GroupRules, 'update', cut):
            self.assert_busy(self.backend.delete_volume, self.volume, 'note')
        self.assertEqual(1, len(self.admin.list(
            'volumes', name=f'cv-{self.volume.id}')))
        self.backend.delete_volume(clone)

    def test_the_last_clone_goes_while_its_source_is_hidden(self) -> None:
        first = self.backend.clone(self.volume)
        second = self.backend.clone(first)
        self.backend.delete_volume(self.volume)
        hide = deletion.hide_parent
        deleted = threading.Event()
        began: list[threading.Thread] = []

        def delete_second() -> None:
            self.backend.delete_volume(second)
            deleted.set()

        def late(array: Any, backing: Any) -> None:
            hide(array, backing)
            if not began:
                began.append(threading.Thread(target=delete_second))
                began[0].start()
                deleted.wait(0.3)

        with mock.patch.object(deletion, 'hide_parent', late):
            self.backend.delete_volume(first)
        self.assertTrue(deleted.wait(30))
        self.assertNothingLeft()

    def test_a_clone_of_a_clone_goes_while_the_clone_is_hidden(self) -> None:
        """It is deleted just before the snapshot that it needs is hidden."""
        first = self.backend.clone(self.volume)
        second = self.backend.clone(first)
        self.backend.delete_volume(self.volume)
        retire, deleted = deletions.Deletion._retire, []

        def retire_slowly(own: Any, backing: Any, names: Any) -> Any:
            found = retire(own, backing, names)
            if not deleted:
                deleted.append(second.id)
                self.backend.delete_volume(second)
            return found

        with mock.patch.object(deletions.Deletion, '_retire', retire_slowly):
            self.backend.delete_volume(first)
        self.assertEqual([second.id], deleted)
        self.assertNothingLeft()

    def test_a_view_whose_last_clone_left_a_snapshot(self) -> None:
        """A foreign view, deleted since, had kept the snapshot."""
        self.use('iscsi', 'k2')
        source = self.backend.create_volume(1)
        view = self.backend.clone(source)
        clone = self.backend.clone(view)
        taken, = self.admin.list('snapshots', short_name=f'ccs-{clone.id}')
        foreign = self.view(taken['id'], 'foreign')
        self.backend.delete_volume(clone)
        self.admin.delete('snapshots', foreign['id'])
        self.backend.delete_volume(source)
        self.backend.delete_volume(view)
        self.assertNothingLeft()

    def test_a_volume_mapped_to_a_host(self) -> None:
        """To one that the driver does not know, while a clone needs it."""
        clone = self.backend.clone(self.volume)
        made, = self.admin.list('volumes', name=f'cv-{self.volume.id}')
        host = self.make('hosts', name='foreign', type='Linux')
        mapping = self.make(
            'mappings', host={'ref': f'/hosts/{host["id"]}'},
            volume={'ref': f'/volumes/{made["id"]}'})
        self.assert_busy(self.backend.delete_volume, self.volume, 'foreign')
        self.admin.delete('mappings', mapping['id'])
        self.admin.delete('hosts', host['id'])
        self.backend.delete_volume(self.volume)
        self.backend.delete_volume(clone)
        self.assertNothingLeft()

    def test_a_volume_mapped_to_a_host_group_without_hosts(self) -> None:
        """VG-8: its group counts no mapped host. It stays until unmapped."""
        clone = self.backend.clone(self.volume)
        made, = self.admin.list('volumes', name=f'cv-{self.volume.id}')
        group = self.make('host_groups', name='empty')
        mapping = self.make(
            'mappings', host={'ref': f'/host_groups/{group["id"]}'},
            volume={'ref': f'/volumes/{made["id"]}'})
        self.backend.delete_volume(self.volume)
        self.backend.delete_volume(clone)
        kept, = self.admin.list('volumes', id=made['id'])
        self.assertEqual(f'cdel-{made["id"]}', kept['name'])
        self.admin.delete('mappings', mapping['id'])
        self.admin.delete('host_groups', group['id'])
        purge.run(self.backend.side.array,
                  int(made['volume_group']['ref'].rpartition('/')[2]))
        self.assertNothingLeft()

    def test_a_source_that_nobody_locks(self) -> None:
        """Cinder's image cache may delete a volume while it is cloned."""
        make, done = clones.Cloner.from_snapshot, []

        def slow(*args: Any) -> Any:
            if not done:
                done.append(self.backend.driver.delete_volume(
                    self.backend.volume(self.volume.id)))
                self.backend.volume(self.volume.id).destroy()
            return make(*args)

        with mock.patch.object(clones.Cloner, 'from_snapshot', slow):
            clone = self.backend.clone(self.volume)
        self.backend.delete_volume(clone)
        self.assertNothingLeft()

    def test_a_volume_that_was_never_whole_does_not_become_available(
            self) -> None:
        """A copy was killed on a host that is in a host group."""
        host = self.host()
        group = self.make('host_groups', name='cluster')
        made = self.make('hosts', name='converged', type='Linux',
                         host_group={'ref': f'/host_groups/{group["id"]}'})
        self.make('host_iqns', iqn=host['initiator'],
                  host={'ref': f'/hosts/{made["id"]}'})

        def killed(driver: Any, source: Any, target: Any, size: int) -> None:
            driver._arrays.active.attach.connect_backing(
                None, target, host)
            self.fault('status', '*', '*', status=403, times=None)
            raise exceptions.CopyTimeout('killed')

        own = self.own('iscsi')
        with mock.patch.object(own.side.cloner, '_strategies', {
                'copy': functools.partial(
                    clones.copied,
                    functools.partial(killed, own.driver))}):
            volume = own.create_volume(1)
            failure = self.assertRaises(
                backend.OperationFailed, own.clone, volume,
                kaminario__clone_strategy='copy')
        self.array.control.clear_faults()
        own.delete_volume(failure.row)
        own.delete_volume(volume)
