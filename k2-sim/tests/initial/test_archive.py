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

"""The whole state in one document, saved and restored."""

import json

import ddt

from tests import base


class ArchiveTest(base.ArrayTest):

    def control_call(self, method, name, body=b'', status=200):
        reply = self.array.handle(method, f'/sim/v1/{name}', '', {
            **base.authorization(), 'Content-Type': base.JSON}, body)
        self.assertEqual(status, reply.status, reply.body)
        return reply

    def save(self):
        return self.control_call('GET', 'save').body

    def fill(self):
        group = self.group()
        volume = self.volume(group)
        snapshot = self.snapshot(group)
        self.map(self.host(), self.view(snapshot), 'snapshots')
        self.post('volumes', self.clone_body(group, snapshot, volume))
        self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'Example-Pw-01'})
        for name in ('late', 'early'):
            self.expect(201, 'POST', 'host_groups', {'name': name},
                        **{'X-K2-Sequence': f'{name}=5'})
        self.post('snapshot_scheduler', {
            'scheduler_name': 'hourly', 'time_criteria': '00m:01h:00d',
            'retention_policy': base.ref('retention_policies', 1)})
        self.post('snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', 1),
            'volume_group': base.ref('volume_groups', group)})
        self.control.log_in('host_fc_ports', '21:00:00:24:ff:00:00:01')
        self.delete('host_groups/6')
        self.control.write(volume['id'], 'data')
        self.control.set_performance(iops_avg=3)

    def array_with(self, **options):
        """Switch to an array of the same profile with another name."""
        self.start_array(name='other', **options)


class TestRestore(ArchiveTest):

    def test_everything_is_there_again(self):
        """All that replies show, contents, counters and sequences."""
        self.fill()
        saved = self.save()
        before, shown = self.control.dump(), self.get('__full')
        self.array_with(store=self.state_path)
        self.volume(self.group('mine'), 'mine')
        self.control_call('POST', 'restore', saved, 204)
        for _ in 'memory', 'disk':
            self.assertEqual(before, self.control.dump())
            self.assertEqual(shown, self.get('__full'))
            self.assertEqual(saved, self.save())
            self.check_renderings()
            self.array.close()
            self.array_with(store=self.state_path)
        self.refused('POST', 'host_groups', {'name': 'x'}, 409,
                     **{'X-K2-Sequence': 'early=5'})
        # OBJ-7: no id is used again.
        self.assertEqual(7, self.post('host_groups', {'name': 'x'})['id'])
        self.patch('host_auth_profiles/1',
                   {'new_password': 'Example-Pw-02'})

    def test_of_an_earlier_moment(self):
        self.fill()
        saved, before = self.save(), self.control.dump()
        self.get('volumes')
        self.delete('mappings/61')
        self.patch('volumes/31', {'name': 'renamed', 'size': 11 * base.GIB})
        self.control_call('POST', 'restore', saved, 204)
        self.assertEqual(before, self.control.dump())
        self.assertEqual(1, self.get('volumes?name=vol-1')['total'])
        self.assertEqual(0, self.get('volumes?name=renamed')['total'])

    def test_what_reads_did_not_see(self):
        """OBJ-6, QRY-10: stale reads belong to the discarded state."""
        self.control.set_behaviors(linger_seconds=60)
        self.fill()
        saved = self.save()
        snapshot = self.snapshot(self.hits('volume_groups')[-1], 'late')
        self.delete(f'snapshots/{snapshot["id"]}')
        self.assertEqual(1, self.get('snapshots?short_name=late')['total'])
        self.control_call('POST', 'restore', saved, 204)
        self.assertEqual(0, self.get('snapshots?short_name=late')['total'])


@ddt.ddt
class TestRefusals(ArchiveTest):

    def refuse(self, text, document):
        """The restore changes nothing, and the reason is one line."""
        before = self.control.dump()
        message = self.control_call(
            'POST', 'restore', document, 400).json()['error_msg']
        self.assertIn(text, message)
        self.assertNotIn('\n', message)
        self.assertEqual(before, self.control.dump())

    @ddt.data(b'', b'{', b'[]', b'{}', b'\xff', b'null',
              b'{"a": ' + b'[' * 5000)
    def test_garbage(self, document):
        self.refuse('not a saved state', document)

    @ddt.data(('profile', 'k2', 'of profile k2, not sdp'),
              ('version', 2, 'of version 2, not 1'),
              ('format', 'x', 'not a saved state'),
              ('more', 1, 'not a saved state'),
              ('objects', {'x': []}, 'unknown resource x'),
              ('objects', {}, 'damaged'),
              ('counters', {'volumes': 'x'}, 'not a saved state'),
              ('sequences', {'a': [1]}, 'not a saved state'),
              ('counters', {'volumes': 2 ** 64 - 1}, 'not a saved state'),
              ('counters', {'volumes': -1}, 'not a saved state'),
              ('sequences', {'a': [2 ** 63, 1]}, 'not a saved state'))
    @ddt.unpack
    def test_other_document(self, field, value, text):
        self.fill()
        self.refuse(text, json.dumps(
            {**json.loads(self.save()), field: value}).encode())

    @ddt.data(({'id': 31}, 'bad id: 31'), ({'id': True}, 'bad id: True'),
              ({'id': 'x'}, 'bad id: x'), ({}, 'bad id: None'),
              ({'id': 99}, 'damaged'),
              ({'id': 2 ** 63 + 5}, f'bad id: {2 ** 63 + 5}'))
    @ddt.unpack
    def test_bad_row(self, row, text):
        self.fill()
        document = json.loads(self.save())
        document['objects']['volumes'].append(row)
        self.refuse(text, json.dumps(document).encode())

    @ddt.data(('volumes', 'name', 5),
              ('volumes', 'size', True), ('volumes', 'read_only', 0),
              ('volumes', 'volume_group', '/volume_groups/99'),
              ('mappings', 'host', '/hosts/99'),
              ('mappings', 'host', '/nothing/1'),
              ('volsnaps', 'snapshot', '/snapshots/99'))
    @ddt.unpack
    def test_bad_value(self, resource, field, value):
        """What replies could not show, or rules not find, is refused."""
        self.fill()
        document = json.loads(self.save())
        row = document['objects'][resource][-1]
        row[field] = value
        self.refuse(f'{resource} {row["id"]} with a bad {field}: ',
                    json.dumps(document).encode())

    def test_row_that_nothing_would_find(self):
        """INI-1: the normalized form of initiators is restored with them."""
        self.fill()
        document = json.loads(self.save())
        del document['objects']['host_fc_ports'][-1]['identity']
        self.refuse('with a bad identity',
                    json.dumps(document).encode())
