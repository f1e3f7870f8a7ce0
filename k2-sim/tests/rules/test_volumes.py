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

"""Section 4.1: volumes and thin clones."""

import ddt

from tests import base

GIB = base.GIB


class VolumeTest(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.vg = self.group('vg-a')
        self.vol = self.volume(self.vg)
        self.path = f'volumes/{self.vol["id"]}'


class TestVolumes(VolumeTest):

    def test_fields(self):
        """The table of section 4.1; VOL-15: how scsi_sn is built."""
        system = self.get('system/state/1')['system_id']
        self.assertEqual({
            'id': 31, 'name': 'vol-1', 'size': 10485760,
            'volume_group': {'ref': '/volume_groups/14'},
            'description': None, 'read_only': False,
            'vmware_support': False, 'is_dedup': True,
            'scsi_sn': f'{system}0002', 'scsi_suffix': 2,
            'iscsi_tgt_converted_name': 'vol-1',
            'creation_time': 1767225600.0, 'logical_capacity': 0.0,
            'snapshots_logical_capacity': 0,
            'stream_avg_compressed_size_in_bytes': 0.0,
            'avg_compressed_ratio': None,
            'avg_compressed_ratio_timestamp': 0.0, 'dedup_source': 0,
            'dedup_target': 0, 'no_dedup': 0,
            'current_stats': {'ref': '/stats/volumes/31'},
            'current_replication_stats': None,
            'replication_peer_volume': None, 'last_restored_from': None,
            'last_restored_time': None, 'is_new': False,
            'marked_for_deletion': False, 'node_id': 2}, self.vol)
        self.assertEqual(self.vol, self.get(self.path))

    def test_dedup_is_the_groups(self):
        group = self.group('vg-b', is_dedup=False)
        self.assertIs(False, self.volume(group, 'v')['is_dedup'])

    def test_converted_name(self):
        self.assertEqual('a.b.c', self.volume(self.vg, 'a_b_c')[
            'iscsi_tgt_converted_name'])

    def test_names_are_unique_on_the_array(self):
        """VOL-1, ERR-8: also in another group, also by renaming."""
        other = self.group('vg-b')
        body = {'name': 'vol-1', 'size': GIB,
                'volume_group': base.ref('volume_groups', other)}
        self.refused('POST', 'volumes', body)
        second = self.volume(other, 'vol-2')
        self.refused('PATCH', f'volumes/{second["id"]}',
                     {'name': 'vol-1'})
        self.refused('POST', 'volumes', {**body, 'name': 'CTRL'})
        self.volume(other, 'VOL-1')

    def test_name_length(self):
        """Section 12: 42 characters."""
        self.volume(self.vg, 'v' * 42)
        for name in ('w' * 43, ''):
            self.refused('POST', 'volumes', {
                'name': name, 'size': 1,
                'volume_group': base.ref('volume_groups', self.vg)})
        self.refused('PATCH', self.path, {'name': 'w' * 43})
        self.control.set_behaviors(name_limit=32)
        self.refused('PATCH', self.path, {'name': 'w' * 33})

    def test_size(self):
        """VOL-2, VOL-5, OBJ-14."""
        group = base.ref('volume_groups', self.vg)
        for size in (0, -1):
            self.refused('POST', 'volumes', {
                'name': 'v', 'size': size, 'volume_group': group})
        self.assertEqual('Missing required field: size', self.refused(
            'POST', 'volumes', {'name': 'v', 'volume_group': group}))
        self.assertEqual(20 * GIB, self.patch(
            self.path, {'size': 20 * GIB})['size'])
        self.patch(self.path, {'size': 20 * GIB})
        self.assertEqual('Volume size cannot be decreased', self.refused(
            'PATCH', self.path, {'size': 10 * GIB}))

    def test_growing_in_use(self):
        """VOL-3: mapped, with a snapshot, a mapped view and a clone."""
        snapshot = self.snapshot(self.vg)
        view = self.view(snapshot)
        host = self.host()
        self.map(host, self.vol)
        self.map(host, view, 'snapshots')
        self.post('volumes', self.clone_body(self.vg, snapshot, self.vol))
        self.patch(self.path, {'size': 20 * GIB})

    def test_fixed_fields(self):
        """VOL-12, VOL-13."""
        self.assertIs(True, self.patch(
            self.path, {'read_only': True})['read_only'])
        self.refused('PATCH', self.path, {'vmware_support': True})
        self.assertIs(True, self.volume(
            self.vg, 'w', vmware_support=True)['vmware_support'])
        self.patch(self.path, {'avg_compressed_ratio_timestamp': 0})

    def test_deleting(self):
        """VOL-6, VOL-7, VOL-8; VOL-17: gone at once."""
        host = self.host()
        mapping = self.map(host, self.vol)
        self.assertEqual('Volume vol-1 is mapped',
                         self.refused('DELETE', self.path))
        self.delete(f'mappings/{mapping["id"]}')
        snapshot = self.snapshot(self.vg)
        self.assertEqual('Volume vol-1 has snapshots',
                         self.refused('DELETE', self.path))
        self.delete(f'snapshots/{snapshot["id"]}')
        self.delete(self.path)
        self.refused('DELETE', self.path, status=404)
        self.get(f'volume_groups/{self.vg["id"]}')

    def test_marked_for_deletion(self):
        """VOL-17: listed for so long after the DELETE, and marked."""
        self.control.set_behaviors(delete_seconds=5.0)
        self.assertFalse(self.vol['marked_for_deletion'])
        self.delete(self.path)
        self.clock.advance(4.9)
        marked = {**self.vol, 'marked_for_deletion': True}
        self.assertEqual([marked], self.hits('volumes?name=vol-1'))
        self.assertEqual([marked], self.hits(
            'volumes?marked_for_deletion=true'))
        self.assertEqual(marked, self.get(self.path))
        for method, body in (('DELETE', None), ('PATCH', {'name': 'x'})):
            self.refused(method, self.path, body, status=404)
        self.clock.advance(0.1)
        self.refused('GET', self.path, status=404)
        self.assertEqual([], self.hits('volumes?name=vol-1'))

    def test_internal_volume(self):
        """VOL-14: CTRL has id 1 and is not for users."""
        self.assertEqual('CTRL', self.get('volumes/1')['name'])
        for body in ({}, {'name': 'mine'}, {'size': 99 * GIB}):
            self.refused('PATCH', 'volumes/1', body)
        self.refused('DELETE', 'volumes/1')
        self.refuse_map(self.host(), 1)

    def test_quota(self):
        """VOL-11: creating, growing and moving past it."""
        small = self.group('vg-b', quota=15 * GIB)
        group = base.ref('volume_groups', small)
        self.assertEqual(
            'Quota of volume group vg-b exceeded', self.refused(
                'POST', 'volumes', {'name': 'v', 'size': 16 * GIB,
                                    'volume_group': group}))
        self.patch(self.path, {'volume_group': group})
        self.refused('PATCH', self.path, {'size': 16 * GIB})
        self.patch(self.path, {'size': 15 * GIB})
        other = self.volume(self.vg, 'other', GIB)
        self.refused('PATCH', f'volumes/{other["id"]}',
                     {'volume_group': group})

    def test_group_of_32(self):
        """VG-7, VOL-10."""
        for number in range(31):
            self.volume(self.vg, f'v{number}')
        group = base.ref('volume_groups', self.vg)
        self.refused('POST', 'volumes', {
            'name': 'v', 'size': GIB, 'volume_group': group})
        other = self.volume(self.group('vg-b'), 'other')
        self.refused('PATCH', f'volumes/{other["id"]}',
                     {'volume_group': group})
        self.patch(self.path, {'size': 11 * GIB})


class TestMoving(VolumeTest):

    def setUp(self):
        super().setUp()
        self.target = self.group('vg-b')
        self.body = {'volume_group': base.ref('volume_groups', self.target)}

    def test_a_mapped_volume_moves(self):
        """VOL-9, VOL-10."""
        self.map(self.host(), self.vol)
        moved = self.patch(self.path, self.body)
        self.assertEqual({**self.vol, **self.body}, moved)
        self.assertEqual(1, self.get(f'volume_groups/{self.target["id"]}')[
            'mapped_hosts_count'])

    def test_move_grow_and_rename_in_one(self):
        moved = self.patch(self.path, {
            **self.body, 'size': 11 * GIB, 'name': 'new'})
        self.assertEqual((11 * GIB, 'new'), (moved['size'], moved['name']))

    def test_snapshots_hold_it(self):
        """VOL-10: until they are deleted."""
        snapshot = self.snapshot(self.vg)
        self.assertEqual(
            'Volume vol-1 has snapshots in volume group vg-a',
            self.refused('PATCH', self.path, self.body))
        self.patch(self.path, {
            'volume_group': base.ref('volume_groups', self.vg)})
        self.delete(f'snapshots/{snapshot["id"]}')
        self.patch(self.path, self.body)

    def test_dedup_must_agree(self):
        """VOL-10."""
        other = self.group('vg-c', is_dedup=False)
        self.refused('PATCH', self.path, {
            'volume_group': base.ref('volume_groups', other)})


@ddt.ddt
class TestThinClones(VolumeTest):

    def setUp(self):
        super().setUp()
        self.snap = self.snapshot(self.vg)
        self.body = self.clone_body(self.vg, self.snap, self.vol)

    def test_clone(self):
        """CLN-1: the size is the source's in the snapshot."""
        self.patch(self.path, {'size': 20 * GIB})
        clone = self.post('volumes', self.body)
        self.assertEqual(10 * GIB, clone['size'])
        self.assertEqual('Clone of volume vol-1', clone['description'])
        self.assertNotIn('is_thin_clone', clone)
        self.assertEqual(1, self.get('snapshots/51')['num_of_clones'])

    @ddt.data(True, False)
    def test_vmware_support(self, value):
        """CLN-1: it is the source's."""
        source = self.volume(self.vg, 'w', vmware_support=value)
        clone = self.post('volumes', self.clone_body(
            self.vg, self.snapshot(self.vg, 'snap-2'), source))
        self.assertIs(value, clone['vmware_support'])

    def test_it_is_an_ordinary_volume(self):
        """CLN-3: mapped, grown and deleted."""
        clone = self.post('volumes', self.body)
        path = f'volumes/{clone["id"]}'
        mapping = self.map(self.host(), clone)
        changed = self.patch(path, {'size': 20 * GIB, 'description': None})
        self.assertEqual((20 * GIB, None),
                         (changed['size'], changed['description']))
        self.delete(f'mappings/{mapping["id"]}')
        self.delete(path)

    def test_snapshot_and_source_wait_for_it(self):
        """CLN-4, VOL-7."""
        clone = self.post('volumes', self.body)
        self.assertEqual('Snapshot vg-a:snap-1 has thin clones',
                         self.refused('DELETE', 'snapshots/51'))
        self.assertEqual('Volume vol-1 has thin clones',
                         self.refused('DELETE', self.path))
        self.delete(f'volumes/{clone["id"]}')
        self.assertEqual(0, self.get('snapshots/51')['num_of_clones'])
        self.delete('snapshots/51')
        self.delete(self.path)

    @ddt.data({'size': 10485760}, {'vmware_support': False},
              {'description': 'd'}, {'read_only': True},
              {'is_thin_clone': False}, {'is_thin_clone': None},
              {'source_snapshot': None}, {'source_volume': None})
    def test_fields_that_do_not_go_with_it(self, change):
        """CLN-1."""
        self.refused('POST', 'volumes', {**self.body, **change})

    def test_no_clone_after_all(self):
        made = self.volume(self.vg, 'v', is_thin_clone='false',
                           source_volume=None)
        self.assertEqual(10 * GIB, made['size'])

    def test_other_group(self):
        """CLN-2, CLN-6."""
        other = self.group('vg-b')
        self.volume(other, 'v')
        foreign = self.snapshot(other)
        for group, snapshot in ((other, self.snap), (self.vg, foreign)):
            self.refused('POST', 'volumes', self.clone_body(
                group, snapshot, self.vol))

    def test_wrong_sources(self):
        """CLN-6: a view, a volume not in the snapshot, a deleted one."""
        view = self.view(self.snap)
        self.refused('POST', 'volumes',
                     self.clone_body(self.vg, view, self.vol))
        later = self.volume(self.vg, 'later')
        self.refused('POST', 'volumes',
                     self.clone_body(self.vg, self.snap, later))
        self.refused('POST', 'volumes',
                     self.clone_body(self.vg, self.snap, 1))
        gone = self.snapshot(self.vg, 'gone')
        self.delete(f'snapshots/{gone["id"]}')
        self.refused('POST', 'volumes',
                     self.clone_body(self.vg, gone, self.vol))

    def test_the_image_of_that_snapshot(self):
        """CLN-1, CLN-6: each snapshot has its own sizes and volumes."""
        self.patch(self.path, {'size': 20 * GIB})
        later = self.volume(self.vg, 'later')
        second = self.snapshot(self.vg, 'snap-2')
        self.refused('POST', 'volumes',
                     self.clone_body(self.vg, self.snap, later))
        for snapshot, size in ((self.snap, 10), (second, 20)):
            clone = self.post('volumes', self.clone_body(
                self.vg, snapshot, self.vol, f'c-{size}'))
            self.assertEqual(size * GIB, clone['size'])

    def test_clone_of_a_clone(self):
        """CLN-6: a snapshot of the group holds the clone too."""
        clone = self.post('volumes', self.body)
        second = self.snapshot(self.vg, 'snap-2')
        made = self.post('volumes', self.clone_body(
            self.vg, second, clone, 'clone-2'))
        self.assertEqual('Clone of volume clone-1', made['description'])

    def test_clone_counts_in_the_quota(self):
        self.patch(f'volume_groups/{self.vg["id"]}', {'quota': 15 * GIB})
        self.refused('POST', 'volumes', self.body)

    def test_moving_it(self):
        """CLN-7, when switched."""
        self.control.set_behaviors(clones_movable=True)
        clone = self.post('volumes', self.body)
        target = self.group('vg-b')
        body = {'volume_group': base.ref('volume_groups', target)}
        moved = self.patch(f'volumes/{clone["id"]}', body)
        self.assertEqual(body['volume_group'], moved['volume_group'])
        self.assertEqual(1, self.get('snapshots/51')['num_of_clones'])
        self.refused('DELETE', 'snapshots/51')
        self.refused('DELETE', self.path)
        self.refused('PATCH', self.path, body)
        self.delete(f'volumes/{clone["id"]}')
        self.delete('snapshots/51')

    def test_not_movable(self):
        """CLN-7; a clone in a snapshot cannot move in any case."""
        self.control.set_behaviors(clones_movable=True)
        clone = self.post('volumes', self.body)
        path = f'volumes/{clone["id"]}'
        body = {'volume_group': base.ref(
            'volume_groups', self.group('vg-b'))}
        second = self.snapshot(self.vg, 'snap-2')
        self.refused('PATCH', path, body)
        self.delete(f'snapshots/{second["id"]}')
        self.control.set_behaviors(clones_movable=False)
        self.assertEqual('A thin clone cannot leave its volume group',
                         self.refused('PATCH', path, body))

    def test_clone_is_not_deleted_with_clones_of_its_own(self):
        clone = self.post('volumes', self.body)
        second = self.snapshot(self.vg, 'snap-2')
        self.post('volumes', self.clone_body(
            self.vg, second, clone, 'clone-2'))
        self.refused('DELETE', f'volumes/{clone["id"]}')


class TestOlderArray(VolumeTest):

    profile = 'k2'

    def test_fields_are_unknown(self):
        """CLN-5: 400; snapshots do not count clones."""
        snapshot = self.snapshot(self.vg)
        self.assertNotIn('num_of_clones', snapshot)
        self.assertNotIn('is_locked_by_replication', snapshot)
        self.assertIn('Unknown field: ', self.refused(
            'POST', 'volumes',
            self.clone_body(self.vg, snapshot, self.vol)))

    def test_fields_are_ignored(self):
        """CLN-5, the worse way: the new volume is no clone."""
        snapshot = self.snapshot(self.vg)
        self.control.set_behaviors(ignore_clone_fields=True)
        body = self.clone_body(self.vg, snapshot, self.vol)
        self.assertEqual('Missing required field: size', self.refused(
            'POST', 'volumes', body))
        made = self.post('volumes', {**body, 'size': base.GIB})
        self.assertEqual((base.GIB, None),
                         (made['size'], made['description']))
        self.delete(f'snapshots/{snapshot["id"]}')
        self.refused('POST', 'volumes', {
            'name': 'x', 'size': 1, 'colour': 'red',
            'volume_group': base.ref('volume_groups', self.vg)})
