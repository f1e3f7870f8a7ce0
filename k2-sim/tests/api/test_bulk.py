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

"""Section 2.6: bulk calls and sequence numbers."""

import ddt

from k2_sim.state import store
from tests import base


class TestBulk(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.groups = [self.group('vg-a'), self.group('vg-b')]
        self.volumes = [self.volume(group, f'vol-{group["name"]}')
                        for group in self.groups]

    def _bodies(self, *groups):
        return [self.snapshot_body({'ref': f'/volume_groups/{number}'},
                                   'gs-1') for number in groups]

    def test_snapshots_of_two_groups(self):
        """BLK-1, BLK-2, BLK-3: in request order, deleted in one call."""
        reply = self.post('snapshots/__bulk', self._bodies(15, 14))
        self.assertEqual(['vg-b:gs-1', 'vg-a:gs-1'],
                         [hit['name'] for hit in reply['hits']])
        self.assertEqual({'hits', 'total'}, set(reply))
        self.assertEqual(2, reply['total'])
        self.delete('snapshots/__bulk',
                    [{'id': hit['id']} for hit in reply['hits']])
        self.assertEqual(0, self.get('snapshots')['total'])
        self.assertEqual(0, self.get('volsnaps')['total'])

    def test_all_or_nothing(self):
        """BLK-4: the first bad item gives its error, nothing is done."""
        self.assertEqual(
            'No such object: /volume_groups/999', self.refused(
                'POST', 'snapshots/__bulk', self._bodies(14, 999)))
        self.refused('POST', 'snapshots/__bulk', self._bodies(14, 14))
        snapshot = self.snapshot(self.groups[0])
        self.refused('DELETE', 'snapshots/__bulk',
                     [{'id': snapshot['id']}, {'id': 99}], status=404)
        self.refused('DELETE', 'snapshots/__bulk',
                     [{'id': snapshot['id']}] * 2, status=404)
        self.refused('PATCH', 'volumes/__bulk', [
            {'id': self.volumes[0]['id'], 'description': 'd'},
            {'id': self.volumes[1]['id'], 'size': 1}])

    def test_whole_objects(self):
        """BLK-1, OBJ-12: krest posts whole objects; read-only is ignored."""
        changed = [{**volume, 'description': 'd'}
                   for volume in self.volumes]
        reply = self.patch('volumes/__bulk', changed)
        self.assertEqual(changed, reply['hits'])
        whole = {**self.volumes[0], 'name': 'copy'}
        copy = self.post('volumes/__bulk', [whole])['hits'][0]
        self.assertEqual('copy', copy['name'])
        self.assertNotEqual(whole['id'], copy['id'])
        self.refused('POST', 'volumes/__bulk', [{**whole, 'colour': 1}])
        self.delete('volumes/__bulk', [copy])

    def test_whole_group_is_not_restored_again(self):
        group, volume = self.groups[0], self.volumes[0]
        snapshot = self.snapshot(group)
        path = f'volume_groups/{group["id"]}'
        restored = self.patch(path, {
            'last_restored_from': base.ref('snapshots', snapshot)})
        host = self.host()
        self.map(host, volume)
        reply = self.patch('volume_groups/__bulk',
                           [{**restored, 'description': 'd'}])
        self.assertEqual(restored['last_restored_time'],
                         reply['hits'][0]['last_restored_time'])

    def test_restore_again(self):
        """RST-1: a command is carried out, whatever is already shown."""
        group, volume = self.groups[0], self.volumes[0]['id']
        body = [{'id': group['id'], 'last_restored_from': base.ref(
            'snapshots', self.snapshot(group))}]
        for token in ('new', 'newer'):
            self.control.write(volume, token)
            self.patch('volume_groups/__bulk', body)
            self.assertEqual('', self.control.read(volume))

    def test_detach(self):
        """OBJ-9: what no reply shows does not count as present."""
        profile = self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'Example-Pw-01'})
        path = f'host_auth_profiles/{profile["id"]}'
        host = self.host()
        for name, count in (('p', 1), (None, 0)):
            for whole in ({}, host):
                self.patch('hosts/__bulk', [{
                    **whole, 'id': host['id'],
                    'map_auth_profiles_names': name}])
                self.assertEqual(count, self.get(path)['hosts_count'])

    def test_null_in_a_whole_group(self):
        """OBJ-12: a null that is already there is not cleared, others are."""
        snapshot = self.snapshot(self.groups[0])
        whole = {**self.groups[0], 'description': 'd'}
        self.assertIsNone(whole['last_restored_from'])
        self.patch('volume_groups/__bulk', [whole])
        self.patch(f'volume_groups/{whole["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})
        self.refused('PATCH', 'volume_groups/__bulk', [whole])

    def test_bodies_that_are_wrong(self):
        for body in ({}, None, 'x', [5], [{}], [{'id': None}],
                     [{'id': True}], [{'id': 'x'}]):
            status = 404 if body == [{'id': 'x'}] else 400
            self.refused('PATCH', 'volumes/__bulk', body, status)
            self.refused('DELETE', 'volumes/__bulk', body, status)
        self.assertEqual({'hits': [], 'total': 0},
                         self.post('volumes/__bulk', []))

    def test_bulk_can_be_missing(self):
        """Which resources support it is unknown (section 15)."""
        self.control.set_behaviors(bulk=['snapshots'])
        self.refused('POST', 'volumes/__bulk', [], status=404)
        self.post('snapshots/__bulk', [])
        self.refused('POST', 'volsnaps/__bulk', [], status=405)


@ddt.ddt
class TestSequences(base.ArrayTest):

    def _post(self, status, name, header):
        return self.expect(status, 'POST', 'host_groups', {'name': name},
                           **{'X-K2-Sequence': header})

    def _refused(self, status, name, header):
        return self.refused('POST', 'host_groups', {'name': name}, status,
                            **{'X-K2-Sequence': header})

    def test_repeated_request_is_harmless(self):
        """SEQ-1: 409 says that the first one was carried out."""
        self._post(201, 'hg-1', 'op-7f3a=1')
        self.assertEqual('Sequence op-7f3a: 1 was already used',
                         self._refused(409, 'hg-1', 'op-7f3a=1'))
        self.assertEqual(1, self.get('host_groups?name=hg-1')['total'])

    def test_one_number_that_does_not_rise_is_enough(self):
        """SEQ-1: and no number is used up."""
        self._post(201, 'hg-1', 'op-1=1,op-2=1')
        self._refused(409, 'hg-2', 'op-2=2,op-1=1')
        self._post(201, 'hg-2', 'op-1=2, op-2=2')

    def test_first_number_is_free(self):
        """SEQ-2: later ones strictly greater."""
        self._post(201, 'hg-1', 'op=41')
        self._refused(409, 'hg-2', 'op=40')
        self._post(201, 'hg-2', 'op=99')
        self._refused(409, 'hg-3', 'other=1,other=1')

    def test_refused_request_uses_up_nothing(self):
        """SEQ-2."""
        self._refused(400, '', 'op=1')
        self._post(201, 'hg-1', 'op=1')

    def test_delete_and_patch(self):
        """A repeated DELETE meets the number before the missing object."""
        made = self._post(201, 'hg-1', 'op=1')
        path = f'host_groups/{made["id"]}'
        header = {'X-K2-Sequence': 'd=1'}
        self.expect(204, 'DELETE', path, **header)
        self.refused('DELETE', path, status=409, **header)
        self.refused('DELETE', path, status=404)

    @ddt.data('op', 'op=', '=1', 'op=x', 'op=-1', 'op=1,', 'op=1;b=2')
    def test_header_without_sense(self, header):
        self._refused(400, 'hg-1', header)

    def test_reads_and_empty_headers_use_nothing(self):
        self.expect(200, 'GET', 'volumes', **{'X-K2-Sequence': 'op=1'})
        self._post(201, 'hg-1', 'op=1')
        self._post(201, 'hg-2', ' ')

    def test_older_array_ignores_the_header(self):
        self.control.set_behaviors(sequences=False)
        self._post(201, 'hg-1', 'op=1')
        self._refused(400, 'hg-1', 'op=1')

    def test_ids_are_not_remembered_for_ever(self):
        with self.array.store.transaction():
            for number in range(store.SEQUENCES_KEPT + 5):
                self.array.store.use_sequence(f's{number}', 1)
        self.assertEqual(store.SEQUENCES_KEPT,
                         len(self.control.dump()['sequences']))
        self._refused(409, 'hg-1', 's5=1')
        self._post(201, 'hg-1', 's0=1')
