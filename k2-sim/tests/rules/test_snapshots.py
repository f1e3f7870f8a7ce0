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

"""Sections 4.3 and 4.4: snapshots, views, volsnaps; 6.1: retention."""

import ddt

from tests import base

GIB = base.GIB


class SnapshotTest(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.vg = self.group()
        self.vol = self.volume(self.vg)
        self.second = self.volume(self.vg, 'vol_2')

    def of(self, source, name, **fields):
        return self.snapshot_body(
            base.ref('snapshots', source), name, **fields)


class TestSnapshots(SnapshotTest):

    profile = 'k2'

    def test_fields(self):
        """The table of section 4.3; SNP-1."""
        snapshot = self.snapshot(self.vg, 'snap_1')
        self.assertEqual({
            'id': 51, 'short_name': 'snap_1', 'name': 'vg-a:snap_1',
            'source': {'ref': '/volume_groups/14'},
            'retention_policy': {'ref': '/retention_policies/3'},
            'is_auto_deleteable': False, 'is_exposable': False,
            'replication_session': None, 'is_application_consistent': None,
            'volume_group': {'ref': '/volume_groups/14'},
            'generation_number': None, 'description': None,
            'creation_time': 1767225600.0, 'data_creation_time': None,
            'last_exposed_time': None, 'is_deleted': False,
            'is_exist_on_peer': False, 'is_originating_from_peer': None,
            'is_external': None, 'iscsi_tgt_converted_name': 'vg-a:snap.1',
            'triggered_by': 'api', 'volsnaps_provisioned_capacity': 20 * GIB,
            'wwn': None}, snapshot)
        self.assertEqual(1767225600.0, self.get('volume_groups/14')[
            'last_snapshot_creation_time'])

    def test_time_of_the_last_snapshot(self):
        """A group's time is that of snapshots; views do not count."""
        snapshot = self.snapshot(self.vg)
        self.clock.advance(5)
        self.view(snapshot)
        self.assertEqual(1767225600.0, self.get('volume_groups/14')[
            'last_snapshot_creation_time'])
        self.snapshot(self.vg, 'later')
        self.assertEqual(1767225605.0, self.get('volume_groups/14')[
            'last_snapshot_creation_time'])

    def test_volsnaps(self):
        """SNP-11, VSN-1, VSN-2, VSN-3, VOL-16: for all three kinds."""
        snapshot = self.snapshot(self.vg)
        view = self.view(snapshot)
        third = self.post('snapshots', self.of(view, 'vsnap-1'))
        system = self.get('system/state/1')['system_id']
        self.assertEqual({
            'id': 71, 'name': 'vg-a:snap-1:vol-1', 'short_name': 'vol-1',
            'snapshot': {'ref': '/snapshots/51'},
            'source': {'ref': '/volumes/31'}, 'is_exposable': False,
            'is_deleted': False, 'creation_time': 1767225600.0,
            'scsi_sn': f'{system}0004', 'scsi_suffix': 4,
            'iscsi_tgt_converted_name': 'vg-a:snap-1:vol-1'},
            self.get('volsnaps/71'))
        for record, exposable in (
                (snapshot, False), (view, True), (third, False)):
            found = self.hits(
                f'volsnaps?snapshot.ref=/snapshots/{record["id"]}')
            self.assertEqual(
                [('/volumes/31', exposable), ('/volumes/32', exposable)],
                [(hit['source']['ref'], hit['is_exposable'])
                 for hit in found])
        serials = [hit['scsi_sn'] for hit in
                   self.hits('volsnaps') + self.hits('volumes')]
        self.assertEqual(len(serials), len(set(serials)))

    def test_search(self):
        """SNP-1, SNP-2."""
        self.snapshot(self.vg)
        other = self.group('vg-b')
        self.volume(other, 'vol-3')
        self.snapshot(other)
        self.assertEqual(2, self.get('snapshots?short_name=snap-1')['total'])
        self.assertEqual(1, self.get(
            'snapshots?short_name=snap-1&volume_group.ref=/volume_groups/14'
        )['total'])
        self.assertEqual(1, self.get('snapshots?name=vg-b:snap-1')['total'])

    def test_short_names_are_unique_in_a_group(self):
        """SNP-2, views included; 42 characters (section 12)."""
        snapshot = self.snapshot(self.vg)
        group = base.ref('volume_groups', self.vg)
        self.refused('POST', 'snapshots', self.snapshot_body(
            group, 'snap-1'))
        self.refused('POST', 'snapshots', self.of(
            snapshot, 'snap-1', is_exposable=True))
        self.refused('POST', 'snapshots', self.snapshot_body(
            group, 's' * 43))
        self.snapshot(self.vg, 's' * 42)

    def test_names_with_colons(self):
        """SNP-2: equal full names of two groups by SNP-1 do not clash."""
        for group, short_name in (('a', 'b:c'), ('a:b', 'c')):
            made = self.group(group)
            self.volume(made, f'vol of {group}')
            snapshot = self.snapshot(made, short_name)
            self.assertEqual('a:b:c', snapshot['name'])
            self.refused('POST', 'snapshots', self.snapshot_body(
                base.ref('volume_groups', made), short_name))
        first, second = self.hits('snapshots?name=a:b:c')
        path = f'snapshots/{first["id"]}'
        self.assertEqual('d', self.patch(path, {'name': 'a:d'})['short_name'])
        self.assertEqual('a:b:c', self.patch(
            path, {'short_name': 'b:c'})['name'])

    def test_required_fields(self):
        """SNP-3."""
        body = self.snapshot_body(base.ref('volume_groups', self.vg), 's')
        for name in ('retention_policy', 'source', 'short_name'):
            self.refused('POST', 'snapshots', {
                key: value for key, value in body.items() if key != name})

    def test_default_is_auto_deleteable(self):
        """SNP-4."""
        body = self.snapshot_body(base.ref('volume_groups', self.vg), 's')
        del body['is_auto_deleteable']
        self.assertIs(True, self.post('snapshots', body)[
            'is_auto_deleteable'])

    def test_what_cannot_be_made(self):
        """SNP-6, SNP-7, SNP-12, and a snapshot of a snapshot."""
        snapshot = self.snapshot(self.vg)
        view = self.view(snapshot)
        self.assertEqual(
            'A view needs a snapshot as its source', self.refused(
                'POST', 'snapshots', self.snapshot_body(
                    base.ref('volume_groups', self.vg), 'v',
                    is_exposable=True)))
        self.assertEqual('The source is itself a view', self.refused(
            'POST', 'snapshots', self.of(view, 'v', is_exposable=True)))
        self.refused('POST', 'snapshots', self.of(snapshot, 'v'))
        empty = self.group('empty')
        self.refused('POST', 'snapshots', self.snapshot_body(
            base.ref('volume_groups', empty), 's'))

    def test_view_keeps_the_size_of_the_snapshot(self):
        """VSN-4, and the volumes that it has."""
        snapshot = self.snapshot(self.vg)
        self.patch('volumes/31', {'size': 50 * GIB})
        self.volume(self.vg, 'late')
        view = self.view(snapshot)
        self.assertEqual(20 * GIB, view['volsnaps_provisioned_capacity'])

    def test_deleting_from_the_leaves(self):
        """SNP-9."""
        snapshot = self.snapshot(self.vg)
        view = self.view(snapshot)
        third = self.post('snapshots', self.of(view, 'vsnap-1'))
        self.assertEqual('Snapshot vg-a:snap-1 has views',
                         self.refused('DELETE', 'snapshots/51'))
        self.assertEqual('View vg-a:view-1 has snapshots',
                         self.refused('DELETE', 'snapshots/52'))
        self.delete(f'snapshots/{third["id"]}')
        mapping = self.map(self.host(), view, 'snapshots')
        self.assertEqual('View vg-a:view-1 is mapped',
                         self.refused('DELETE', 'snapshots/52'))
        self.delete(f'mappings/{mapping["id"]}')
        self.delete('snapshots/52')
        self.refused('DELETE', f'volume_groups/{self.vg["id"]}')
        self.delete('snapshots/51')
        self.assertEqual([], self.hits('volsnaps'))

    def test_patch(self):
        """SNP-10, the documented way."""
        self.snapshot(self.vg)
        self.snapshot(self.vg, 'other')
        shown = self.patch('snapshots/51', {
            'short_name': 'new', 'is_auto_deleteable': True,
            'retention_policy': {'ref': '/retention_policies/1'}})
        self.assertEqual(('new', 'vg-a:new', True), (
            shown['short_name'], shown['name'],
            shown['is_auto_deleteable']))
        self.assertEqual('vg-a:new:vol-1', self.get('volsnaps/71')['name'])
        self.assertEqual('newer', self.patch(
            'snapshots/51', {'name': 'vg-a:newer'})['short_name'])
        self.patch('snapshots/51', {'name': 'vg-a:x', 'short_name': 'x'})
        for body in ({'name': 'x'}, {'name': 'vg-b:x'}, {'name': 'vg-a:'},
                     {'name': 'vg-a:x', 'short_name': 'y'},
                     {'short_name': 'other'}, {'short_name': 's' * 43},
                     {'retention_policy': None}, {'is_exposable': True}):
            self.refused('PATCH', 'snapshots/51', body)

    def test_patch_can_be_missing(self):
        """SNP-10, as on a live array."""
        self.snapshot(self.vg)
        self.control.set_behaviors(snapshot_patch=False)
        self.refused('PATCH', 'snapshots/51', {}, status=405)
        self.refused('PATCH', 'snapshots/__bulk', [], status=405)

    def test_deleted_ones_linger(self):
        """QRY-10, VSN-1: listed with is_deleted for so many reads."""
        self.control.set_behaviors(linger_reads=2)
        self.snapshot(self.vg)
        self.delete('snapshots/51')
        hit = self.hits('snapshots?short_name=snap-1')[0]
        self.assertEqual((True, 'vg-a:snap-1', 20 * GIB), (
            hit['is_deleted'], hit['name'],
            hit['volsnaps_provisioned_capacity']))
        self.refused('DELETE', 'snapshots/51', status=404)
        self.assertEqual({'is_deleted': True}, self.get(
            'snapshots/51?__fields=is_deleted'))
        self.assertEqual([], self.hits('snapshots?short_name=snap-1'))
        self.refused('GET', 'snapshots/51', status=404)
        self.assertEqual(2, self.get(
            'volsnaps?is_deleted=true&snapshot.ref=/snapshots/51')['total'])
        self.assertEqual([], self.hits('volsnaps?is_deleted=false'))
        self.snapshot(self.vg)

    def test_deleted_ones_are_sorted_and_cut_like_others(self):
        self.control.set_behaviors(linger_reads=9)
        self.snapshot(self.vg)
        view = self.view(self.snapshot(self.vg, 'snap-2'))
        self.delete('snapshots/51')
        self.delete(f'snapshots/{view["id"]}')
        order = '__sort=source&__fields=id,is_deleted'
        self.assertEqual(
            [(53, True), (51, True), (52, False)],
            [(hit['id'], hit['is_deleted'])
             for hit in self.hits(f'snapshots?{order}')])
        self.control.reset()
        self.assertEqual([], self.hits('snapshots'))


@ddt.ddt
class TestRetention(SnapshotTest):

    def _policy(self, **limits):
        policy = self.post('retention_policies', {
            'name': 'keep', 'num_snapshots': 0, 'weeks': 0, 'days': 0,
            'hours': 0, **limits})
        return base.ref('retention_policies', policy)

    def _names(self):
        return [hit['short_name'] for hit in self.hits('snapshots')]

    def test_by_number(self):
        """RET-2: the oldest are deleted, except those in use or kept."""
        fields = {'retention_policy': self._policy(num_snapshots=2),
                  'is_auto_deleteable': True}
        self.snapshot(self.vg, 'kept', **{
            **fields, 'is_auto_deleteable': False})
        for number in range(4):
            snapshot = self.snapshot(self.vg, f's{number}', **fields)
            if number == 0:
                self.view(snapshot)
        self.assertEqual(['kept', 's0', 'view-1', 's2', 's3'],
                         self._names())

    def test_by_number_within_one_bulk_call(self):
        fields = {'retention_policy': self._policy(num_snapshots=1),
                  'is_auto_deleteable': True}
        reply = self.post('snapshots/__bulk', [
            self.snapshot_body(base.ref('volume_groups', self.vg), name,
                               **fields) for name in ('first', 'second')])
        self.assertEqual(['first', 'second'], [
            hit['short_name'] for hit in reply['hits']])
        self.assertEqual(['second'], self._names())

    @ddt.data(({'hours': 2}, 7200), ({'days': 1, 'hours': 1}, 90000),
              ({'weeks': 1}, 604800))
    @ddt.unpack
    def test_by_age(self, limits, seconds):
        """RET-2: and a false flag stops it (SNP-4)."""
        fields = {'retention_policy': self._policy(**limits)}
        self.snapshot(self.vg, 'old', is_auto_deleteable=True, **fields)
        self.snapshot(self.vg, 'kept', **fields)
        self.snapshot(self.vg, 'best-effort', is_auto_deleteable=True)
        self.clock.advance(seconds - 1)
        self.assertEqual(['old', 'kept', 'best-effort'], self._names())
        self.clock.advance(1)
        self.assertEqual(['kept', 'best-effort'], self._names())

    def test_by_age_once_it_is_free(self):
        """RET-2: a used snapshot stays, and is deleted once it is free."""
        fields = {'retention_policy': self._policy(hours=2),
                  'is_auto_deleteable': True}
        used = self.snapshot(self.vg, 'used', **fields)
        view = self.view(used)
        self.clock.advance(7200)
        self.assertEqual(['used', 'view-1'], self._names())
        self.delete(f'snapshots/{view["id"]}')
        self.assertEqual([], self._names())

    def test_by_another_age(self):
        """RET-2: the policy that counts is the one at expiry."""
        policy = self._policy(hours=2)
        fields = {'retention_policy': policy, 'is_auto_deleteable': True}
        self.snapshot(self.vg, 'old', **fields)
        self.patch(policy['ref'][1:], {'hours': 4})
        self.clock.advance(7200)
        self.assertEqual(['old'], self._names())
        self.patch(policy['ref'][1:], {'hours': 1})
        self.assertEqual([], self._names())

    def test_many_that_were_deleted_before(self):
        """Nothing is stored about them until they would expire."""
        fields = {'retention_policy': self._policy(weeks=52),
                  'is_auto_deleteable': True}
        for number in range(130):
            snapshot = self.snapshot(self.vg, f's{number}', **fields)
            self.delete(f'snapshots/{snapshot["id"]}')
        self.assertLess(len(self.array._service._retention._heap), 110)

    def test_by_age_after_a_change_of_mind(self):
        """RET-2, SNP-10: the flag counts as it is at expiry."""
        fields = {'retention_policy': self._policy(hours=2)}
        late = self.snapshot(self.vg, 'late', **fields)
        kept = self.snapshot(self.vg, 'kept', is_auto_deleteable=True,
                             **fields)
        self.patch(f'snapshots/{kept["id"]}', {'is_auto_deleteable': False})
        self.clock.advance(7200)
        self.assertEqual(['late', 'kept'], self._names())
        self.patch(f'snapshots/{late["id"]}', {'is_auto_deleteable': True})
        self.assertEqual(['kept'], self._names())
