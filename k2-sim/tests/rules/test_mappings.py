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

"""Section 4.5: mappings."""

import ddt

from tests import base


class MappingTest(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.vg = self.group()
        self.vol = self.volume(self.vg)
        self.second = self.volume(self.vg, 'vol-2')
        self.node = self.host('node1')
        self.other = self.host('node2')

    def luns(self, host):
        return [hit['lun'] for hit in
                self.hits(f'mappings?host.ref=/hosts/{host["id"]}')]


@ddt.ddt
class TestMappings(MappingTest):

    def test_fields(self):
        """MAP-1, MAP-2, MAP-7, MAP-12."""
        self.assertEqual({
            'id': 61, 'host': {'ref': '/hosts/7'},
            'volume': {'ref': '/volumes/31'}, 'lun': 1,
            'unique_target': False}, self.map(self.node, self.vol))
        self.assertEqual(2, self.map(self.node, self.second)['lun'])
        self.assertEqual(1, self.map(self.other, self.vol)['lun'])

    def test_lowest_free_lun(self):
        """MAP-2."""
        first = self.map(self.node, self.vol)
        self.map(self.node, self.second)
        self.delete(f'mappings/{first["id"]}')
        self.assertEqual(1, self.map(self.node, self.vol)['lun'])

    def test_deleted_ones_that_stay_listed(self):
        """QRY-10, with linger_all: nothing shows that they are deleted."""
        self.control.set_behaviors(linger_seconds=30.0, linger_all=True)
        first = self.map(self.node, self.vol)
        self.delete(f'mappings/{first["id"]}')
        self.assertEqual([1], self.luns(self.node))
        self.refused('DELETE', f'mappings/{first["id"]}', status=404)
        # Its LUN and its volume are free.
        self.assertEqual(1, self.map(self.node, self.second)['lun'])
        self.control.set_behaviors(delete_seconds=20.0)
        self.delete(f'volumes/{self.vol["id"]}')
        self.assertTrue(self.get(
            f'volumes/{self.vol["id"]}')['marked_for_deletion'])
        self.clock.advance(30)
        self.assertEqual([1], self.luns(self.node))

    def test_no_free_lun(self):
        """MAP-2: 1 to 254."""
        number = 0
        for group_number in range(8):
            group = self.group(f'g{group_number}')
            for _ in range(32):
                number += 1
                volume = self.volume(group, f'v{number}')
                if number <= 254:
                    self.assertEqual(
                        number, self.map(self.node, volume)['lun'])
        self.assertEqual('No free LUN on host node1',
                         self.refuse_map(self.node, volume))

    def test_twice(self):
        """MAP-8."""
        self.map(self.node, self.vol)
        self.assertEqual('Volume vol-1 is already mapped to host node1',
                         self.refuse_map(self.node, self.vol))

    def test_choosing_the_lun(self):
        """MAP-9, MAP-10."""
        body = {'host': base.ref('hosts', self.node),
                'volume': base.ref('volumes', self.vol)}
        self.refused('POST', 'mappings', {**body, 'lun': 5})
        self.map(self.node, self.vol)
        self.map(self.node, self.second)
        self.assertEqual(25, self.patch(
            'mappings/62', {'lun': '25'})['lun'])
        self.assertEqual('LUN 1 is in use on host node1', self.refused(
            'PATCH', 'mappings/62', {'lun': 1}))
        for lun in (0, 255, -1):
            self.assertEqual('LUN out of range', self.refused(
                'PATCH', 'mappings/62', {'lun': lun}))
        self.refused('PATCH', 'mappings/62', {'lun': None})
        self.patch('mappings/62', {'lun': 25})
        self.patch('mappings/62', {'lun': 254})

    def test_moving(self):
        """MAP-11: the LUN is kept if free."""
        self.map(self.node, self.vol)
        self.map(self.node, self.second)
        body = {'host': base.ref('hosts', self.other)}
        self.assertEqual(2, self.patch('mappings/62', body)['lun'])
        self.patch('mappings/62', {'lun': 1})
        self.assertEqual(2, self.patch('mappings/61', body)['lun'])
        self.assertEqual([], self.luns(self.node))
        self.map(self.node, self.vol)
        self.refused('PATCH', 'mappings/63', body)
        self.patch('mappings/61', {**body, 'lun': 9})

    def test_volume_cannot_be_changed(self):
        self.map(self.node, self.vol)
        self.refused('PATCH', 'mappings/61',
                     {'volume': base.ref('volumes', self.second)})

    @ddt.data(('snapshots', 51), ('volsnaps', 71), ('volumes', 1),
              ('snapshots', 999), ('volume_groups', 14))
    @ddt.unpack
    def test_what_cannot_be_mapped(self, kind, number):
        """SNP-8, MAP-13: snapshots, volsnaps, CTRL, nothing."""
        self.snapshot(self.vg)
        self.refuse_map(self.node, number, kind)


class TestViews(MappingTest):

    def setUp(self):
        super().setUp()
        self.view_1 = self.view(self.snapshot(self.vg))
        self.map(self.node, self.vol)
        self.entry = self.map(self.node, self.view_1, 'snapshots')

    def test_entries(self):
        """MAP-3: one for the view, one per volsnap with the LUN."""
        self.assertIsNone(self.entry['lun'])
        volsnaps = self.hits('volsnaps?snapshot.ref=/snapshots/52')
        found = [self.hits(f'mappings?volume.ref=/volsnaps/{hit["id"]}'
                           '&host.ref=/hosts/7')
                 for hit in volsnaps]
        self.assertEqual([[2], [3]], [[hit['lun'] for hit in hits]
                                      for hits in found])
        self.assertEqual(4, self.get('mappings')['total'])

    def test_last_exposed_time(self):
        """SNP-15."""
        self.assertEqual(1767225600.0, self.get('snapshots/52')[
            'last_exposed_time'])

    def test_entries_of_volsnaps_are_not_alone(self):
        """MAP-4."""
        for number in (63, 64):
            self.refused('DELETE', f'mappings/{number}')
            self.refused('PATCH', f'mappings/{number}', {'lun': 9})
        self.refused('PATCH', 'mappings/62', {'lun': 9})
        self.delete('mappings/62')
        self.assertEqual([1], self.luns(self.node))

    def test_twice(self):
        """MAP-8."""
        self.refuse_map(self.node, self.view_1, 'snapshots')
        self.map(self.other, self.view_1, 'snapshots')

    def test_moving(self):
        """MAP-11: all entries move along."""
        self.map(self.other, self.second)
        self.patch('mappings/62', {'host': base.ref('hosts', self.other)})
        self.assertEqual([1], self.luns(self.node))
        self.assertEqual({None, 1, 2, 3}, set(self.luns(self.other)))

    def test_not_enough_luns(self):
        """A view whose second volsnap gets no LUN is not mapped at all."""
        self.delete('mappings/62')
        for number in range(8):
            group = self.group(f'g{number}')
            for index in range(32):
                if 32 * number + index < 252:
                    self.map(self.node, self.volume(
                        group, f'v{number}-{index}'))
        self.refuse_map(self.node, self.view_1, 'snapshots')


class TestGroups(MappingTest):

    def setUp(self):
        super().setUp()
        self.hosts = self.post('host_groups', {'name': 'cluster1'})
        self.in_group = {'host_group': base.ref('host_groups', self.hosts)}

    def test_one_entry_for_all_members(self):
        """MAP-5, MAP-6, HST-8."""
        self.patch('hosts/7', self.in_group)
        self.patch('hosts/8', self.in_group)
        entry = self.map(self.hosts, self.vol, host_kind='host_groups')
        self.assertEqual(1, entry['lun'])
        self.assertEqual(1, self.get('mappings')['total'])
        self.assertEqual(
            'Host node1 is a member of a host group',
            self.refuse_map(self.node, self.second))
        for path in ('hosts/7', 'hosts/8', 'host_groups/5'):
            self.assertEqual(1, self.get(path)['volumes_count'])
        self.refuse_map(self.hosts, self.vol, host_kind='host_groups')

    def test_moving_to_a_member(self):
        """MAP-6, MAP-11."""
        self.map(self.node, self.vol)
        self.patch('hosts/8', self.in_group)
        self.refused('PATCH', 'mappings/61',
                     {'host': base.ref('hosts', self.other)})
        self.patch('mappings/61',
                   {'host': base.ref('host_groups', self.hosts)})


class TestOneLunMap(MappingTest):
    """A data plane that has the same LUNs for all hosts."""

    def setUp(self):
        super().setUp()
        self.control.set_behaviors(one_lun_map=True)

    def test_no_lun_is_of_two_volumes(self):
        """MAP-2: but a volume has one LUN on all hosts."""
        self.assertEqual(1, self.map(self.node, self.vol)['lun'])
        self.assertEqual(2, self.map(self.other, self.second)['lun'])
        self.assertEqual(1, self.map(self.other, self.vol)['lun'])
        self.assertEqual(2, self.map(self.node, self.second)['lun'])

    def test_volume_has_a_chosen_lun_everywhere(self):
        self.map(self.node, self.vol)
        self.patch('mappings/61', {'lun': 77})
        self.assertEqual(77, self.map(self.other, self.vol)['lun'])

    def test_views(self):
        """MAP-3."""
        view = self.view(self.snapshot(self.vg))
        self.map(self.node, self.vol)
        self.map(self.node, view, 'snapshots')
        self.map(self.other, view, 'snapshots')
        self.assertEqual([1, None, 2, 3], self.luns(self.node))
        self.assertEqual([None, 2, 3], self.luns(self.other))

    def test_lun_of_another_host_cannot_be_chosen(self):
        """MAP-9: refused for another volume; a second one is allowed."""
        self.map(self.node, self.vol)
        self.map(self.other, self.second)
        self.assertEqual('LUN 1 is in use on host node1', self.refused(
            'PATCH', 'mappings/62', {'lun': 1}))
        self.map(self.other, self.vol)
        self.assertEqual(9, self.patch('mappings/63', {'lun': 9})['lun'])
        self.assertEqual([1], self.luns(self.node))
        self.assertEqual(3, self.map(
            self.node, self.volume(self.vg, 'vol-3'))['lun'])

    def test_moving(self):
        """MAP-11: the LUN is free at the destination."""
        self.map(self.node, self.vol)
        self.map(self.node, self.second)
        body = {'host': base.ref('hosts', self.other)}
        self.assertEqual(2, self.patch('mappings/62', body)['lun'])
        self.assertEqual([1], self.luns(self.node))

    def test_no_free_lun(self):
        """MAP-2: 254 for all hosts together."""
        for number in range(1, 255):
            self.map(self.node, self.volume(
                self.group(f'g{number}'), f'v{number}'))
        self.assertEqual('No free LUN on host node2',
                         self.refuse_map(self.other, self.vol))
