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

"""Section 4.2: volume groups, and their restore."""

from tests import base

GIB = base.GIB


class TestGroups(base.ArrayTest):

    def test_fields(self):
        """The table of section 4.2; VG-2: quota 0 reads back as null."""
        self.assertEqual({
            'id': 14, 'name': 'vg-a', 'quota': None, 'is_dedup': True,
            'capacity_policy': None, 'description': None,
            'last_restored_from': None, 'last_restored_time': None,
            'last_snapshot_creation_time': None,
            'creation_time': 1767225600.0, 'is_default': False,
            'capacity_state': 'ok', 'snapshots_overhead_state': 'ok',
            'iscsi_tgt_converted_name': 'vg-a', 'volumes_count': 0,
            'snapshots_count': 0, 'views_count': 0, 'mapped_hosts_count': 0,
            'logical_capacity': 0.0, 'volumes_logical_capacity': 0,
            'snapshots_logical_capacity': 0,
            'volumes_provisioned_capacity': 0, 'replication_session': None,
            'replication_peer_volume_group': None,
            'replication_rpo_history': None}, self.group())

    def test_unique_names(self):
        """VG-1."""
        self.group()
        self.assertEqual(
            'Volume group vg-a already exists', self.refused(
                'POST', 'volume_groups', {'name': 'vg-a', 'quota': 0}))
        other = self.group('vg-b')
        path = f'volume_groups/{other["id"]}'
        self.refused('PATCH', path, {'name': 'vg-a'})
        self.refused('PATCH', path, {'name': 'v' * 43})
        self.patch(path, {'name': 'v' * 42})

    def test_quota(self):
        """VG-2, VG-3."""
        group = self.group(quota=10 * GIB)
        path = f'volume_groups/{group["id"]}'
        self.volume(group, size=10 * GIB)
        self.refused('PATCH', path, {'quota': 10 * GIB - 1})
        self.refused('PATCH', path, {'quota': -1})
        self.refused('POST', 'volume_groups', {'name': 'g', 'quota': -1})
        for nothing in (0, None):
            self.patch(path, {'quota': 10 * GIB})
            self.assertIsNone(self.patch(path, {'quota': nothing})['quota'])

    def test_dedup_is_fixed(self):
        """VG-4."""
        group = self.group()
        self.refused('PATCH', f'volume_groups/{group["id"]}',
                     {'is_dedup': True})

    def test_deleting(self):
        """VG-5: only when it is empty."""
        group = self.group()
        path = f'volume_groups/{group["id"]}'
        volume = self.volume(group)
        self.assertEqual('Volume group vg-a is not empty',
                         self.refused('DELETE', path))
        self.delete(f'volumes/{volume["id"]}')
        self.delete(path)

    def test_counts(self):
        """VG-8."""
        group = self.group()
        volume = self.volume(group)
        snapshot = self.snapshot(group)
        view = self.view(snapshot)
        self.post('volumes', self.clone_body(group, snapshot, volume))
        first, second = self.host('h1'), self.host('h2')
        hosts = self.post('host_groups', {'name': 'hg'})
        for name in ('h3', 'h4'):
            self.host(name, host_group=base.ref('host_groups', hosts))
        self.map(first, volume)
        self.map(second, view, 'snapshots')
        self.map(first, view, 'snapshots')
        self.map(hosts, volume, host_kind='host_groups')
        shown = self.get(f'volume_groups/{group["id"]}')
        self.assertEqual((2, 1, 1, 4, 20 * GIB), tuple(
            shown[name] for name in (
                'volumes_count', 'snapshots_count', 'views_count',
                'mapped_hosts_count', 'volumes_provisioned_capacity')))
        self.assertEqual(1, self.get(
            'volume_groups?volumes_count=2')['total'])

    def test_renaming_while_mapped(self):
        """VG-9: snapshots, views and volsnaps follow."""
        group = self.group()
        volume = self.volume(group)
        view = self.view(self.snapshot(group))
        self.map(self.host(), volume)
        self.map(self.hits('hosts')[0], view, 'snapshots')
        self.patch(f'volume_groups/{group["id"]}', {'name': 'cvg_1'})
        self.patch(f'volumes/{volume["id"]}', {'name': 'cv_1'})
        self.assertEqual(1, self.get(
            'snapshots?name=cvg_1:view-1')['total'])
        self.assertEqual(0, self.get(
            'snapshots?name=vg-a:view-1')['total'])
        volsnaps = self.hits('volsnaps')
        self.assertEqual(['cvg_1:snap-1:cv_1', 'cvg_1:view-1:cv_1'],
                         [hit['name'] for hit in volsnaps])
        self.assertEqual('cvg.1:snap-1:cv.1',
                         volsnaps[0]['iscsi_tgt_converted_name'])
        self.assertEqual('cv_1', volsnaps[0]['short_name'])

    def test_capacity_state(self):
        """VG-11: after the thresholds of the policy."""
        policy = self.post('vg_capacity_policies', {
            'name': 'tight', 'warning_threshold': 70, 'error_threshold': 80,
            'critical_threshold': 90, 'snapshot_overhead_threshold': 50})
        group = self.group(
            quota=1000, capacity_policy=base.ref(
                'vg_capacity_policies', policy))
        volume = self.volume(group, size=1000)
        states = []
        for kib in (699, 700, 800, 900, 1000):
            self.control.set_written(volume['id'], kib)
            states.append(self.get('volume_groups/14')['capacity_state'])
        self.assertEqual(
            ['ok', 'warning', 'error', 'critical', 'full'], states)
        self.assertEqual(1000.0, self.get('volume_groups/14')[
            'volumes_logical_capacity'])

    def _with_policy(self):
        policy = self.post('vg_capacity_policies', {
            'name': 'tight', 'warning_threshold': 1, 'error_threshold': 2,
            'critical_threshold': 3, 'snapshot_overhead_threshold': 20})
        group = self.group(capacity_policy=base.ref(
            'vg_capacity_policies', policy))
        return group, self.volume(group, size=8192 * GIB)

    def test_capacity_state_without_quota(self):
        """VG-11: the thresholds apply to what the array can hold."""
        group, volume = self._with_policy()
        states = []
        for kib in (1023 * GIB, 1024 * GIB, 2048 * GIB, 3072 * GIB):
            self.control.set_written(volume['id'], kib)
            states.append(self.get('volume_groups/14')['capacity_state'])
        self.assertEqual(['ok', 'warning', 'error', 'critical'], states)
        self.patch('volume_groups/14', {'capacity_policy': None})
        self.assertEqual(
            'ok', self.get('volume_groups/14')['capacity_state'])

    def test_overhead_state(self):
        """VG-11: the space of snapshots, as a share of the group."""
        group, volume = self._with_policy()
        snapshot = self.snapshot(group)
        self.control.set_written(volume['id'], 80)
        states = []
        for kib in (0, 19, 20):
            self.control.set_written(volume['id'], kib, snapshot['id'])
            states.append(self.get('volume_groups/14')[
                'snapshots_overhead_state'])
        self.assertEqual(['ok', 'ok', 'warning'], states)
        group = self.get('volume_groups/14')
        self.assertEqual((100.0, 80.0, 20.0), (
            group['logical_capacity'], group['volumes_logical_capacity'],
            group['snapshots_logical_capacity']))
        self.assertEqual(20.0, self.get(
            'volumes/31')['snapshots_logical_capacity'])
        self.patch('volume_groups/14', {'capacity_policy': None})
        self.assertEqual('ok', self.get('volume_groups/14')[
            'snapshots_overhead_state'])


class TestRestore(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.vg = self.group()
        self.vol = self.volume(self.vg)
        self.snap = self.snapshot(self.vg)
        self.path = f'volume_groups/{self.vg["id"]}'
        self.body = {'last_restored_from': base.ref('snapshots', self.snap)}

    def test_source_that_is_gone(self):
        """RST-2: the group does not show an empty source."""
        self.patch(self.path, self.body)
        self.delete(f'snapshots/{self.snap["id"]}')
        for path in (self.path, f'volumes/{self.vol["id"]}'):
            row = self.get(path)
            self.assertIsNone(row['last_restored_from'])
            resource = path.partition('/')[0]
            self.patch(f'{resource}/__bulk', [{**row, 'description': 'x'}])

    def test_restore(self):
        """RST-1, RST-4: shown on the group and on each volume."""
        later = self.snapshot(self.vg, 'later')
        self.clock.advance(60)
        restored = self.patch(self.path, {'name': 'vg-a', **self.body})
        stamp = {**self.body, 'last_restored_time': 1767225660.0}
        volume = self.get(f'volumes/{self.vol["id"]}')
        for name, value in stamp.items():
            self.assertEqual(value, restored[name])
            self.assertEqual(value, volume[name])
        self.get(f'snapshots/{later["id"]}')
        self.clock.advance(1)
        self.assertEqual(1767225661.0, self.patch(self.path, self.body)[
            'last_restored_time'])

    def test_not_while_mapped(self):
        """RST-3."""
        mapping = self.map(self.host(), self.vol)
        self.assertEqual('Volume vol-1 is mapped', self.refused(
            'PATCH', self.path, self.body))
        self.delete(f'mappings/{mapping["id"]}')
        self.patch(self.path, self.body)

    def test_not_of_one_volume(self):
        """RST-5: neither from a snapshot nor from its image of it."""
        for source in ('snapshots/51', 'volsnaps/71'):
            self.get(source)
            self.refused('PATCH', f'volumes/{self.vol["id"]}', {
                'last_restored_from': {'ref': f'/{source}'}})

    def test_not_after_the_volumes_changed(self):
        """RST-2: sizes and the set of volumes."""
        other = self.volume(self.vg, 'other')
        self.refused('PATCH', self.path, self.body)
        self.delete(f'volumes/{other["id"]}')
        self.patch(self.path, self.body)
        self.patch(f'volumes/{self.vol["id"]}', {'size': 11 * GIB})
        self.refused('PATCH', self.path, self.body)

    def test_wrong_snapshots(self):
        """RST-2: a view, a snapshot of it, one of another group, none."""
        view = self.view(self.snap)
        of_view = self.post('snapshots', self.snapshot_body(
            base.ref('snapshots', view), 'of-view'))
        other = self.group('vg-b')
        self.volume(other, 'vol-2')
        foreign = self.snapshot(other)
        for source in (view, of_view, foreign, 999):
            self.refused('PATCH', self.path, {
                'last_restored_from': base.ref('snapshots', source)})
        self.refused('PATCH', self.path, {'last_restored_from': None})
