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

"""Generic volume groups, with consistent snapshots and without."""

import json
from typing import Any

from cinder.db import api as db_api
from cinder import exception

from tests.functional import backend
from tests.functional import base
from tests.functional import disks

MIB = 1 << 20
VIEW = {'kaminario__clone_strategy': 'view'}
NODEDUP = {'kaminario__thin_prov_type': 'nodedup'}
GENERIC = {'some_spec': 'some value'}


class GroupsTest(disks.DisksTest):
    """Helpers."""

    def group(self, volumes: int, **specs: str) -> Any:
        """Create a group with so many volumes, stored in ``self.volumes``."""
        group = self.backend.create_group(**specs)
        self.volumes = [self.backend.create_volume(1, group)
                        for _ in range(volumes)]
        return group

    def on_array(self, group: Any) -> Any:
        """Return the array's volume group of a group, or None."""
        found = self.admin.list('volume_groups', name=f'ccg-{group.id}')
        return found[0] if found else None

    def volumes_in(self, name: str) -> list[str]:
        """Return the names of the array's volumes in a volume group."""
        found = self.admin.list('volume_groups', name=name)
        return sorted(v['name'] for g in found for v in self.admin.list(
            'volumes', **{'volume_group.ref': f'/volume_groups/{g["id"]}'}))

    def assert_members(self, group: Any, *volumes: Any) -> None:
        """Check that Cinder and the array have exactly these members."""
        self.assertEqual(
            sorted(v.id for v in volumes),
            sorted(v.id for v in self.backend.members(group)))
        self.assertEqual(sorted(f'cv-{v.id}' for v in volumes),
                         self.volumes_in(f'ccg-{group.id}'))

    def ids(self, row: Any) -> Any:
        """Return the array's ids in a row."""
        get = (self.backend.snapshot if hasattr(row, 'volume_id')
               else self.backend.volume)
        return json.loads(get(row.id).provider_id)

    def assert_rows_are_true(self) -> None:
        """Check that each volume's row names its current volume group."""
        for row in self.backend.volumes():
            ids = self.ids(row)
            found = self.admin.list('volumes', id=ids['volume'])[0]
            self.assertEqual(f'/volume_groups/{ids["group"]}',
                             found['volume_group']['ref'])
            name = self.admin.list('volume_groups', id=ids['group'])[0]
            self.assertEqual(name['name'].startswith('ccg-'),
                             ids.get('shared', False))
            self.assertNotIn('moving', ids)

    def assert_refused(self, operation: Any, *args: Any, words: str,
                       **kwargs: Any) -> backend.OperationFailed:
        """Check that an operation fails with this reason; return the error."""
        failure: backend.OperationFailed = self.assertRaises(
            backend.OperationFailed, operation, *args, **kwargs)
        self.assertIn(words, str(failure.cause))
        return failure

    def available(self, *rows: Any) -> None:
        """Reset the states of volumes, as an operator does."""
        for row in rows:
            row.status = 'available'
            row.save()

    def reset(self, group: Any) -> None:
        """Reset a group and its volumes after a failed update."""
        self.available(self.backend.group(group.id),
                       *self.backend.volumes())

    def fill(self, *volumes: Any) -> None:
        """Write different data to each volume."""
        for number, volume in enumerate(volumes):
            self.disks.write(volume, 5 * MIB, b'volume %d' % number)

    def assert_filled(self, *volumes: Any) -> None:
        """Check that volumes have the data of ``fill``."""
        self.assertEqual(
            [b'volume %d' % number for number in range(len(volumes))],
            [self.disks.read(v, 5 * MIB, 8) for v in volumes])


@base.pairwise_variants
class ConsistencyGroupTest(GroupsTest):

    feature = 'consistency groups'

    def test_use_it(self) -> None:
        group = self.backend.create_group()
        with self.assert_calls(2):
            first = self.backend.create_volume(1, group)
        second = self.backend.create_volume(2, group)
        self.assert_left(volumes=2, volume_groups=1)
        self.assert_members(group, first, second)
        self.assertEqual((None, True), (self.on_array(group)['quota'],
                                        self.on_array(group)['is_dedup']))
        self.backend.detach(self.backend.attach(first, self.host()))
        self.backend.extend_volume(first, 2)
        self.backend.delete_group(group)
        self.assertNothingLeft()
        self.assertEqual([], self.backend.volumes())

    def test_add_and_remove(self) -> None:
        """Two calls per volume and four others; rows get the new ids."""
        group = self.group(1)
        more = [self.backend.create_volume(1) for _ in range(2)]
        self.backend.attach(more[1], self.host())
        with self.assert_calls(4 + 2 * 2):
            self.backend.update_group(group, add=more)
        self.assert_members(group, *self.volumes, *more)
        self.assert_left(volumes=3, volume_groups=1, hosts=1, mappings=1,
                         **{self.initiators: self.ports})
        self.assert_rows_are_true()
        with self.assert_calls(4 + 2 * 2):
            self.backend.update_group(
                group, remove=[more[1], self.volumes[0]])
        self.assert_members(group, more[0])
        self.assert_rows_are_true()
        snapshot = self.backend.create_snapshot(more[1])
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(self.volumes[0])
        self.assertEqual(2, self.left()['volume_groups'])

    @property
    def initiators(self) -> str:
        """The resource with the initiators of this transport."""
        return 'host_iqns' if self.protocol == 'iscsi' else 'host_fc_ports'

    @property
    def ports(self) -> int:
        """The number of initiators of a host."""
        return 1 if self.protocol == 'iscsi' else 2

    def test_snapshots_keep_a_volume_where_it_is(self) -> None:
        """VOL-10: nothing changes, and the reason is reported."""
        group = self.group(1)
        free, bound = [self.backend.create_volume(1) for _ in range(2)]
        snapshot = self.backend.create_snapshot(bound)
        before = self.left()
        self.assert_refused(self.backend.update_group, group,
                            add=[free, bound], words=f'cs-{snapshot.id}')
        self.assertEqual(before, self.left())
        self.assert_members(group, *self.volumes)
        self.reset(group)
        taken = self.backend.create_group_snapshot(group)
        self.assert_refused(self.backend.update_group, group, add=[free],
                            remove=self.volumes, words=f'cgs-{taken.id}')
        self.assert_members(group, *self.volumes)
        self.assert_rows_are_true()
        self.reset(group)
        self.backend.delete_group_snapshot(taken)
        self.backend.delete_snapshot(snapshot)
        self.backend.update_group(group, add=[free, bound],
                                  remove=self.volumes)
        self.assert_members(group, free, bound)


@base.pairwise_variants
class GroupSnapshotTest(GroupsTest):

    feature = 'group snapshots'
    keeps_budgets = False

    def test_take_and_delete(self) -> None:
        """Two calls each, whatever the number of volumes."""
        group = self.group(3)
        with self.assert_calls(2):
            taken = self.backend.create_group_snapshot(group)
        self.assert_left(volumes=3, volume_groups=1, snapshots=1)
        rows = self.backend.snapshots()
        found = self.admin.list('snapshots')[0]
        self.assertEqual(f'cgs-{taken.id}', found['short_name'])
        for row in rows:
            ids = self.ids(row)
            self.assertEqual((found['id'], True),
                             (ids['snapshot'], ids['shared']))
            self.assertEqual(self.ids(row.volume)['volume'], ids['volume'])
        self.assertEqual(3, len({self.ids(r)['volume'] for r in rows}))
        with self.assert_calls(2):
            self.backend.delete_group_snapshot(taken)
        self.assert_left(volumes=3, volume_groups=1)

    def test_a_volume_from_it_outlives_it(self) -> None:
        group = self.group(2)
        self.fill(*self.volumes)
        taken = self.backend.create_group_snapshot(group)
        self.disks.write(self.volumes[1], 5 * MIB, b'too late')
        row = next(s for s in self.backend.snapshots()
                   if s.volume_id == self.volumes[1].id)
        volume = self.backend.volume_from_snapshot(row)
        self.assertNotIn('view', self.ids(volume))
        self.assertEqual(b'volume 1', self.disks.read(volume, 5 * MIB, 8))
        self.backend.delete_group_snapshot(taken)
        self.backend.delete_group(group)
        self.assertEqual(b'volume 1', self.disks.read(volume, 5 * MIB, 8))
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_snapshots_of_one_member(self) -> None:
        """The snapshot contains all members, but only one is reverted."""
        self.group(2)
        first, second = self.volumes
        self.fill(first, second)
        with self.assert_calls(2):
            snapshot = self.backend.create_snapshot(first)
        self.assertIs(True, self.ids(snapshot)['shared'])
        for volume in self.volumes:
            self.disks.write(volume, 5 * MIB, b'too late')
        before = self.left()
        self.backend.revert(first, snapshot)
        self.assertEqual([b'volume 0', b'too late'],
                         [self.disks.read(v, 5 * MIB, 8)
                          for v in self.volumes])
        self.assertEqual(before, self.left())
        with self.assert_calls(2):
            self.backend.delete_snapshot(snapshot)


@base.pairwise_variants
class FromGroupSnapshotTest(GroupsTest):

    feature = 'group from group snapshot'
    keeps_budgets = False

    def test_data_and_independence(self) -> None:
        source = self.group(2)
        self.fill(*self.volumes)
        taken = self.backend.create_group_snapshot(source)
        for volume in self.volumes:
            self.disks.write(volume, 5 * MIB, b'too late')
        group = self.backend.group_from(taken)
        made = sorted(self.backend.members(group), key=lambda v: [
            w.id for w in self.volumes].index(
                self.backend.snapshot(v.snapshot_id).volume_id))
        self.assert_members(group, *made)
        self.assert_filled(*made)
        self.backend.delete_group_snapshot(taken)
        self.backend.delete_group(source)
        self.assert_filled(*made)
        self.backend.delete_group_snapshot(
            self.backend.create_group_snapshot(group))
        self.backend.delete_group(group)
        self.assertNothingLeft()


@base.pairwise_variants
class FromGroupTest(GroupsTest):

    feature = 'group from group'
    keeps_budgets = False

    def test_data_and_independence(self) -> None:
        source = self.group(2)
        self.fill(*self.volumes)
        group = self.backend.group_from(source)
        self.assertEqual(1 if self.profile == 'sdp' else 0,
                         self.left().get('snapshots', 0))
        made = sorted(self.backend.members(group), key=lambda v: [
            w.id for w in self.volumes].index(v.source_volid))
        self.assert_members(group, *made)
        self.assert_filled(*made)
        self.backend.delete_group(source)
        self.assert_filled(*made)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_a_clone_into_a_group(self) -> None:
        group = self.group(1)
        self.fill(self.volumes[0])
        clone = self.backend.clone(self.volumes[0], group=group)
        self.assert_members(group, self.volumes[0], clone)
        self.assert_filled(clone)
        self.backend.delete_group(group)
        self.assertNothingLeft()


@base.pairwise_variants
class GenericTest(GroupsTest):
    """Groups without consistent snapshots, which only Cinder knows."""

    feature = 'generic groups'
    keeps_budgets = False

    def test_all_of_it(self) -> None:
        group = self.group(2, **GENERIC)
        self.assertIsNone(self.on_array(group))
        self.assert_left(volumes=2, volume_groups=2)
        other = self.backend.create_volume(1)
        with self.assert_calls(0):
            self.backend.update_group(group, add=[other],
                                      remove=[self.volumes[0]])
        taken = self.backend.create_group_snapshot(group)
        self.assert_left(volumes=3, volume_groups=3, snapshots=2)
        copies = [self.backend.group_from(taken),
                  self.backend.group_from(group)]
        self.backend.delete_group_snapshot(taken)
        for made in (group, *copies):
            self.assertEqual(2, len(self.backend.members(made)))
            self.backend.delete_group(made)
        self.assert_left(volumes=1, volume_groups=1)


class CarefulTest(GroupsTest):
    """Cases that do not depend on profile or protocol."""

    profile = 'sdp'
    keeps_budgets = False

    # What is refused

    def test_types_that_differ_in_dedup(self) -> None:
        types = [self.backend.volume_type(),
                 self.backend.volume_type(**NODEDUP)]
        failure = self.assert_refused(
            self.backend.create_group, *types,
            words='differ in kaminario:thin_prov_type')
        self.assertEqual('error', failure.status)
        self.assertNothingLeft()
        self.backend.delete_group(failure.row)

    def test_nodedup(self) -> None:
        kind = self.backend.volume_type(**NODEDUP)
        group = self.backend.create_group(kind)
        volume = self.backend.create_volume(1, group, **NODEDUP)
        self.assertIs(False, self.on_array(group)['is_dedup'])
        self.backend.update_group(group, remove=[volume])
        self.assertIs(False, self.admin.list(
            'volume_groups', name=f'cvg-{volume.id}')[0]['is_dedup'])
        self.backend.update_group(group, add=[volume])
        self.assert_members(group, volume)

    def test_a_type_that_was_changed(self) -> None:
        """The array's group keeps its original setting (VG-4)."""
        kind = self.backend.volume_type(clone='here')
        group = self.backend.create_group(kind)
        outside = self.backend.create_volume(1, clone='here')
        db_api.volume_type_extra_specs_update_or_create(
            self.backend.context, kind.id,
            {'kaminario:thin_prov_type': 'nodedup'})
        try:
            failure = self.assert_refused(
                self.backend.create_volume, 1, group, clone='here',
                words='was made with dedup')
            self.assertEqual('error', failure.status)
            self.assert_refused(self.backend.update_group, group,
                                add=[outside], words='was made with dedup')
        finally:
            db_api.volume_type_extra_specs_update_or_create(
                self.backend.context, kind.id,
                {'kaminario:thin_prov_type': 'dedup'})
        self.assertEqual([], self.volumes_in(f'ccg-{group.id}'))

    def test_full(self) -> None:
        """VG-7: neither new nor existing volumes can be added."""
        group = self.group(0)
        ref = {'ref': f'/volume_groups/{self.on_array(group)["id"]}'}
        made = [self.admin.create('volumes', name=f'other-{n}', size=1 << 20,
                                  volume_group=ref) for n in range(31)]
        self.backend.create_volume(1, group)
        self.assert_refused(self.backend.create_volume, 1, group,
                            words='32 at most (VG-7)')
        others = [self.backend.create_volume(1) for _ in range(2)]
        self.admin.delete('volumes', made.pop()['id'])
        self.assert_refused(self.backend.update_group, group, add=others,
                            words='32 at most (VG-7)')
        for volume in others:
            self.assertEqual([f'cv-{volume.id}'],
                             self.volumes_in(f'cvg-{volume.id}'))
        self.assert_rows_are_true_but_failed()
        for volume in made:
            self.admin.delete('volumes', volume['id'])

    def assert_rows_are_true_but_failed(self) -> None:
        """Check rows except those of volumes that were never created."""
        for row in self.backend.volumes():
            if row.provider_id is None:
                row.destroy()
        self.assert_rows_are_true()

    def test_a_failed_volume_leaves_and_is_deleted(self) -> None:
        """Volumes in error leave, even if the array does not have them."""
        group = self.group(2)
        self.fault('status', 'POST', 'volumes', status=403)
        failed = self.assertRaises(backend.OperationFailed,
                                   self.backend.create_volume, 1, group).row
        lost, kept = self.volumes
        self.admin.delete('volumes', self.ids(lost)['volume'])
        for row in (lost, kept):
            row.status = 'error'
            row.save()
        self.backend.update_group(group, remove=[failed, lost, kept])
        self.assert_members(group)
        for row in (failed, lost, kept):
            self.backend.delete_volume(row)
        self.assert_left(volume_groups=1)

    def test_a_view_joins_when_it_is_detached(self) -> None:
        """The view becomes a volume of its own."""
        kind = self.backend.volume_type(**VIEW)
        group = self.backend.create_group(kind)
        source = self.backend.create_volume(1, **VIEW)
        self.fill(source)
        clone = self.backend.clone(source, **VIEW)
        self.assertIn('view', self.ids(clone))
        attachment = self.backend.attach(clone, self.host())
        self.assert_refused(self.backend.update_group, group, add=[clone],
                            words='cannot join a consistency group')
        self.backend.detach(attachment)
        self.reset(group)
        self.backend.update_group(group, add=[clone])
        self.assert_members(group, clone)
        self.assert_rows_are_true()
        self.assert_filled(*self.backend.members(group))
        self.assert_left(volumes=2, volume_groups=2)

    def test_what_only_the_array_refuses(self) -> None:
        """Volumes that were moved before are moved back."""
        group = self.group(1)
        plain = self.backend.create_volume(1)
        clone = self.backend.clone(self.backend.create_volume(1))
        self.switch(clones_movable=False)
        before = self.left()
        self.assert_refused(
            self.backend.update_group, group, add=[plain, clone],
            remove=self.volumes, words='cannot change its volume group')
        self.assertEqual(before, self.left())
        self.assert_members(group, *self.volumes)
        self.assert_rows_are_true()

    # Cached state

    def test_a_service_that_knows_nothing(self) -> None:
        """A restart, which empties the caches, adds no calls."""
        group = self.group(1)
        self.backend.restart()
        with self.assert_calls(2):
            self.backend.create_volume(1, group)
        with self.assert_calls(2):
            self.backend.create_volume(1, group)
        self.backend.restart()
        with self.assert_calls(2):
            self.backend.create_group_snapshot(group)

    def test_a_group_that_is_gone(self) -> None:
        """An empty group that was deleted on the array is created again."""
        group = self.group(0)
        self.admin.delete('volume_groups', self.on_array(group)['id'])
        volume = self.backend.create_volume(1, group)
        self.assert_members(group, volume)

    def test_a_group_that_is_another(self) -> None:
        for make in (self.backend.create_volume, self.clone_into):
            group = self.group(0)
            self.admin.delete('volume_groups', self.on_array(group)['id'])
            self.admin.create('volume_groups', name=f'ccg-{group.id}',
                              quota=0, is_dedup=True)
            self.assert_members(group, make(1, group))

    def clone_into(self, size: int, group: Any) -> Any:
        """Clone a volume into a group."""
        return self.backend.clone(self.backend.create_volume(size),
                                  group=group)

    def test_rows_without_ids(self) -> None:
        """All objects are found by name, and marked as shared."""
        group = self.group(2)
        self.fill(*self.volumes)
        taken = self.backend.create_group_snapshot(group)
        rows = self.backend.snapshots()
        for row in (*self.backend.volumes(), *rows):
            row.provider_id = None
            row.save()
        row = next(r for r in rows if r.volume_id == self.volumes[1].id)
        volume = self.backend.volume_from_snapshot(row)
        self.assertEqual(b'volume 1', self.disks.read(volume, 5 * MIB, 8))
        self.backend.delete_volume(volume)
        self.backend.delete_volume(self.assert_refused(
            self.backend.volume_from_snapshot, row, **VIEW,
            words='all volumes of a consistency group at once').row)
        for number in range(2):
            self.disks.write(self.volumes[number], 5 * MIB, b'too late')
        self.backend.revert(self.volumes[1], row)
        self.assertEqual([b'too late', b'volume 1'],
                         [self.disks.read(v, 5 * MIB, 8)
                          for v in self.backend.members(group)])
        self.backend.delete_group_snapshot(taken)
        second = self.backend.create_group_snapshot(group)
        self.backend.delete_group_snapshot(second)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_rows_that_are_out_of_date(self) -> None:
        """A snapshot that would lack a volume is refused."""
        group = self.group(2)
        taken = self.backend.create_group_snapshot(group)
        rows = self.backend.snapshots()
        self.assertEqual(2, len([row.volume for row in rows]))
        self.backend.delete_group_snapshot(taken)
        self.backend.update_group(group, remove=self.volumes[:1])
        self.assertRaisesRegex(
            exception.InvalidGroup, str(self.volumes[0].id),
            self.backend.driver.create_group_snapshot, self.backend.context,
            taken, rows)
        self.assertEqual(0, self.left().get('snapshots', 0))

    # Deleting

    def test_what_is_gone_is_deleted(self) -> None:
        group = self.group(2)
        taken = self.backend.create_group_snapshot(group)
        self.admin.delete('snapshots', self.admin.list('snapshots')[0]['id'])
        self.backend.delete_group_snapshot(taken)
        for volume in self.admin.list('volumes', name__prefix='cv-'):
            self.admin.delete('volumes', volume['id'])
        self.admin.delete('volume_groups', self.on_array(group)['id'])
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_what_must_stay_is_said(self) -> None:
        """The deletion fails until a scheduler's snapshot is deleted."""
        group = self.group(2)
        hourly = self._snapshot_of_an_administrator(
            f'/volume_groups/{self.on_array(group)["id"]}')
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_group, group)
        self.assertEqual('error', failure.status)
        self.assertEqual(['available'] * 2, [
            v.status for v in self.backend.members(group)])
        self.admin.delete('snapshots', hourly['id'])
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def _snapshot_of_an_administrator(self, source: str, **more: Any) -> Any:
        policy = self.admin.list('retention_policies')[0]['id']
        return self.admin.create(
            'snapshots', short_name='hourly-7', source={'ref': source},
            retention_policy={'ref': f'/retention_policies/{policy}'}, **more)

    def test_a_group_snapshot_that_must_stay(self) -> None:
        group = self.group(2)
        taken = self.backend.create_group_snapshot(group)
        found = self.admin.list('snapshots')[0]['id']
        view = self._snapshot_of_an_administrator(f'/snapshots/{found}',
                                                  is_exposable=True)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_group_snapshot, taken)
        self.assertEqual('error', failure.status)
        self.assertIn('hourly-7', self.log.errors_text())
        self.assertEqual(['available'] * 2, [
            s.status for s in self.backend.snapshots()])
        self.admin.delete('snapshots', view['id'])
        self.backend.delete_group_snapshot(taken)

    def test_clones_elsewhere(self) -> None:
        """The volume group stays, hidden, until its last clone is deleted."""
        group = self.group(3)
        clones_ = [self.backend.clone(v) for v in self.volumes[:2]]
        self.backend.delete_group(group)
        self.assertEqual([], self.admin.list('volumes',
                                             name__prefix='cv-' + str(
                                                 self.volumes[2].id)))
        for clone in clones_:
            self.assertIsNotNone(self.on_array(group))
            self.backend.restart()
            self.backend.delete_volume(clone)
        self.assertNothingLeft()

    def test_a_half_deleted_group(self) -> None:
        """A clone is deleted before the deletion of the group is repeated."""
        group = self.group(2)
        clone = self.backend.clone(self.volumes[0])
        self.fault('status', 'PATCH', 'volumes/*', status=403, after=1)
        self.assertRaises(backend.OperationFailed,
                          self.backend.delete_group, group)
        self.assertEqual({'deleted', 'error_deleting'}, {
            v.status for v in self.backend.members(group)})
        self.backend.delete_volume(clone)
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_foreign_volumes_stay(self) -> None:
        group = self.group(1)
        ref = {'ref': f'/volume_groups/{self.on_array(group)["id"]}'}
        other = self.make('volumes', name='other', size=1 << 20,
                          volume_group=ref)
        found = self.on_array(group)['id']
        self.backend.delete_group(group)
        self.assert_left(volumes=1, volume_groups=1)
        self.admin.delete('volumes', other['id'])
        self._made.remove(('volumes', other['id']))
        self.admin.delete('volume_groups', found)

    def test_an_array_that_cascades(self) -> None:
        """VOL-7 is not relied on: nothing is deleted that clones need."""
        for make in (
                lambda: self.backend.volume_from_snapshot(
                    self.backend.snapshots()[1]),
                lambda: self.backend.group_from(taken)):
            group = self.group(2)
            taken = self.backend.create_group_snapshot(group)
            make()
            self.assert_only_hidden(self.backend.delete_group_snapshot, taken)
            self.assert_only_hidden(self.backend.delete_group, group)
            self.backend.delete_everything()
            self.assertNothingLeft()
        group = self.group(2)
        self.backend.group_from(group)
        self.assert_only_hidden(self.backend.delete_group, group)

    def assert_only_hidden(self, operation: Any, row: Any) -> None:
        """Run an operation; check that it sends no DELETE."""
        self.array.control.clear_journal()
        operation(row)
        self.assertEqual([], [c for c in self.calls()
                              if c.startswith('DELETE')])

    def test_a_copied_group_lets_its_source_go(self) -> None:
        """Once the copy is deleted, volumes may leave the source."""
        source = self.group(2)
        with self.assert_calls(3 + 2 * 2 + 5):
            copies = [self.backend.group_from(source)]
        taken = self.backend.create_group_snapshot(source)
        with self.assert_calls(2 + 2 * 2):
            copies.append(self.backend.group_from(taken))
        self.backend.delete_group_snapshot(taken)
        self.assert_refused(self.backend.update_group, source,
                            remove=self.volumes, words='ccs-')
        self.reset(source)
        for group in copies:
            self.backend.delete_group(group)
        self.assert_left(volumes=2, volume_groups=1)
        self.backend.update_group(source, remove=self.volumes)
