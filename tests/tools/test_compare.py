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

import copy
import unittest

import ddt

from tools.cloud import compare

GIB = 1048576
CONNECTORS = [
    {'host': 'node-a', 'initiator': 'iqn.2004-10.com.example:A'},
    {'host': 'node-b', 'wwpns': ['21000024FF000001', '21000024ff000002']}]
VOLUMES = [
    compare.Volume('a' * 32, 'data', 2, True, frozenset(['node-a'])),
    compare.Volume('b' * 32, 'plain', 1, False, frozenset(['node-b']))]
SNAPSHOTS = [compare.Snapshot('c' * 32, 'snap', 1, 'a' * 32)]


def ref(path):
    return {'ref': path}


def objects():
    """Return the objects of an array that match VOLUMES and SNAPSHOTS."""
    return copy.deepcopy({
        'volumes': [
            {'id': 1, 'name': 'CTRL', 'size': 51200, 'is_dedup': False,
             'volume_group': None},
            {'id': 31, 'name': 'cv-' + 'a' * 32, 'size': 2 * GIB,
             'is_dedup': True, 'volume_group': ref('/volume_groups/14')},
            {'id': 32, 'name': 'cv-' + 'b' * 32, 'size': GIB,
             'is_dedup': False, 'volume_group': ref('/volume_groups/15')}],
        'volume_groups': [
            {'id': 14, 'name': 'cvg-' + 'a' * 32},
            {'id': 15, 'name': 'cvg-' + 'b' * 32}],
        'snapshots': [
            {'id': 51, 'short_name': 'cs-' + 'c' * 32, 'is_deleted': False,
             'volume_group': ref('/volume_groups/14'),
             'volsnaps_provisioned_capacity': GIB, 'num_of_clones': 0}],
        'mappings': [
            {'id': 61, 'host': ref('/hosts/7'), 'volume': ref('/volumes/31')},
            {'id': 62, 'host': ref('/hosts/8'), 'volume': ref('/volumes/32')}],
        'hosts': [{'id': 7, 'name': 'cinder-x'}, {'id': 8, 'name': 'y'}],
        'host_iqns': [{'id': 1, 'iqn': 'iqn.2004-10.com.example:a',
                       'host': ref('/hosts/7')}],
        'host_fc_ports': [
            {'id': 1, 'pwwn': '21:00:00:24:ff:00:00:01',
             'host': ref('/hosts/8')},
            {'id': 2, 'pwwn': '21:00:00:24:ff:00:00:02',
             'host': ref('/hosts/8')}]})


def rows(array):
    return compare.compare(VOLUMES, SNAPSHOTS,
                           compare.ArrayState(array, CONNECTORS))


def problems(array):
    return [problem for row in rows(array) for problem in row.problems]


@ddt.ddt
class CompareTest(unittest.TestCase):

    def test_equal_objects_match(self):
        found = rows(objects())
        self.assertEqual([], problems(objects()))
        self.assertEqual(3, len(found))
        self.assertIn('agree on all 3', compare.verdict(found))
        text = '\n'.join(compare.report(found))
        self.assertIn('cv-aaaaaaaa..', text)
        self.assertEqual(3, text.count('match'))

    @ddt.data(
        ('volumes', 1, {'size': GIB}, 'size differs'),
        ('volumes', 1, {'is_dedup': False}, 'dedup differs'),
        ('volumes', 1, {'volume_group': ref('/volume_groups/15')},
         'group differs'),
        ('snapshots', 0, {'volsnaps_provisioned_capacity': 2 * GIB},
         'size differs'),
        ('snapshots', 0, {'volume_group': ref('/volume_groups/15')},
         'group differs'),
        ('host_iqns', 0, {'iqn': 'iqn.other'}, 'hosts differs'),
        ('host_fc_ports', 1, {'pwwn': '21:00:00:24:ff:00:00:03'},
         'hosts differs'),
        ('snapshots', 0, {'is_deleted': True},
         '0 snapshots cs-' + 'c' * 32))
    @ddt.unpack
    def test_a_difference_is_detected(self, resource, index, change, expected):
        array = objects()
        array[resource][index].update(change)
        self.assertEqual([expected], problems(array))
        self.assertIn('MISMATCH: 1 of 3', compare.verdict(rows(array)))

    def test_an_unmapped_volume_is_detected(self):
        array = objects()
        del array['mappings'][0]
        self.assertEqual(['hosts differs', 'only on the array'],
                         problems(array))

    def test_a_mapping_to_a_second_host_is_detected(self):
        array = objects()
        array['mappings'].append({'id': 63, 'host': ref('/hosts/8'),
                                  'volume': ref('/volumes/31')})
        self.assertEqual(['hosts differs'], problems(array))

    def test_a_volume_that_the_array_lacks_is_detected(self):
        array = objects()
        del array['volumes'][2]
        self.assertEqual(['0 volumes cv-' + 'b' * 32], problems(array))

    @ddt.data(
        ('volumes', {'id': 99, 'name': 'cv-left'}),
        ('volume_groups', {'id': 99, 'name': 'cvg-left'}),
        ('snapshots', {'id': 99, 'short_name': 'ccs-left'}),
        ('snapshots', {'id': 99, 'short_name': 'x', 'num_of_clones': 0}),
        ('hosts', {'id': 99, 'name': 'idle'}))
    @ddt.unpack
    def test_an_object_only_on_the_array_is_detected(self, resource, extra):
        array = objects()
        array[resource].append(extra)
        self.assertEqual(['only on the array'], problems(array))

    def test_a_snapshot_that_a_clone_needs_is_not_a_mismatch(self):
        array = objects()
        array['snapshots'].append(
            {'id': 99, 'short_name': 'ccs-' + 'b' * 32, 'num_of_clones': 1})
        self.assertEqual([], problems(array))
        self.assertIn('kept for its clone', rows(array)[-1].cells)

    def test_a_deleted_snapshot_that_is_still_listed_is_ignored(self):
        array = objects()
        array['snapshots'].append(
            {'id': 99, 'short_name': 'cs-old', 'is_deleted': True})
        self.assertEqual([], problems(array))
