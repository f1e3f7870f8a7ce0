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

"""Section 5: hosts, host groups, initiators, CHAP."""

import ddt

from tests import base

IQN = 'iqn.1994-05.com.example:node1'


@ddt.ddt
class TestHosts(base.ArrayTest):

    def test_fields(self):
        self.assertEqual({
            'id': 7, 'name': 'node1', 'type': 'Linux', 'host_group': None,
            'is_part_of_group': False, 'volumes_count': 0,
            'views_count': 0, 'connectivity_type': 'iSCSI'},
            self.host(connectivity_type='iSCSI'))

    @ddt.data('a' * 33, '', 'node.1', 'node 1', 'n\u00f6de', 'node1\n')
    def test_wrong_names(self, name):
        """HST-1."""
        self.refused('POST', 'hosts', {'name': name, 'type': 'Linux'})

    def test_names(self):
        """HST-1."""
        self.host('aA0-_' + 'a' * 27)
        host = self.host('node1')
        self.refused('POST', 'hosts', {'name': 'node1', 'type': 'ESX'})
        self.refused('PATCH', f'hosts/{host["id"]}', {'name': 'a.b'})
        self.map(host, self.volume(self.group()))
        self.patch(f'hosts/{host["id"]}', {'name': 'node2'})

    def test_types(self):
        """Case matters."""
        for kind in ('Linux', 'Windows', 'ESX', 'AIX', 'Solaris'):
            self.host(f'h-{kind}', type=kind)
        for kind in ('linux', 'BeOS', ''):
            self.refused('POST', 'hosts', {'name': 'h', 'type': kind})
        self.refused('POST', 'hosts', {
            'name': 'h', 'type': 'Linux', 'connectivity_type': 'fc'})

    def test_deleting(self):
        """HST-2, HST-3: mappings, then initiators."""
        host, volume = self.host(), self.volume(self.group())
        mapping = self.map(host, volume)
        initiator = self.post('host_iqns', {
            'iqn': IQN, 'host': base.ref('hosts', host)})
        self.assertEqual('Host node1 has mappings',
                         self.refused('DELETE', 'hosts/7'))
        self.delete(f'mappings/{mapping["id"]}')
        self.assertEqual('Host node1 has initiators',
                         self.refused('DELETE', 'hosts/7'))
        self.delete(f'host_iqns/{initiator["id"]}')
        self.delete('hosts/7')

    def test_deleting_with_initiators(self):
        """HST-3, the lenient way."""
        self.control.set_behaviors(delete_host_with_initiators=True)
        host = base.ref('hosts', self.host())
        self.post('host_iqns', {'iqn': IQN, 'host': host})
        self.post('host_fc_ports', {'pwwn': '1' * 16, 'host': host})
        self.delete('hosts/7')
        self.assertEqual({}, self.control.leftovers())

    def test_counts(self):
        """HST-8: volumes and views separately."""
        host, group = self.host(), self.group()
        volume = self.volume(group)
        self.volume(group, 'vol-2')
        self.map(host, volume)
        self.map(host, self.view(self.snapshot(group)), 'snapshots')
        shown = self.get('hosts/7')
        self.assertEqual((1, 1), (
            shown['volumes_count'], shown['views_count']))


class TestHostGroups(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.cluster = self.post('host_groups', {'name': 'cluster1'})
        self.body = {'host_group': base.ref('host_groups', self.cluster)}

    def test_fields(self):
        self.assertEqual({
            'id': 5, 'name': 'cluster1', 'description': None,
            'allow_different_host_types': False, 'hosts_count': 0,
            'volumes_count': 0, 'views_count': 0}, self.cluster)

    def test_names(self):
        """Section 12; HGR-2."""
        for name in ('g' * 33, '', 'cluster1'):
            self.refused('POST', 'host_groups', {'name': name})
        self.post('host_groups', {'name': 'cluster2'})
        for name in ('g' * 33, '', 'cluster2'):
            self.refused('PATCH', 'host_groups/5', {'name': name})
        self.patch('host_groups/5', {'name': 'g' * 32})
        self.control.set_behaviors(host_group_rename=False)
        self.refused('PATCH', 'host_groups/5', {'name': 'x'})
        self.patch('host_groups/5', {'name': 'g' * 32,
                                     'description': 'd'})

    def test_joining_and_leaving(self):
        """HST-5, HST-6."""
        host, volume = self.host(), self.volume(self.group())
        mapping = self.map(host, volume)
        self.assertEqual('Host node1 has mappings', self.refused(
            'PATCH', 'hosts/7', self.body))
        self.delete(f'mappings/{mapping["id"]}')
        self.assertIs(True, self.patch('hosts/7', self.body)[
            'is_part_of_group'])
        self.assertEqual(1, self.get('host_groups/5')['hosts_count'])
        self.map(self.cluster, volume, host_kind='host_groups')
        left = self.patch('hosts/7', {'host_group': None})
        self.assertEqual((False, 0), (
            left['is_part_of_group'], left['volumes_count']))
        self.map(host, volume)

    def test_one_type(self):
        """HST-7."""
        self.host('h1', **self.body)
        other = {'name': 'h2', 'type': 'ESX', **self.body}
        self.refused('POST', 'hosts', other)
        self.host('h2', **self.body)
        self.refused('PATCH', 'hosts/8', {'type': 'ESX'})
        self.patch('host_groups/5', {'allow_different_host_types': True})
        self.patch('hosts/8', {'type': 'ESX'})
        self.refused('PATCH', 'host_groups/5',
                     {'allow_different_host_types': False})
        lone = self.host('h3', type='AIX')
        self.patch('host_groups/5', {'description': 'd'})
        self.patch(f'hosts/{lone["id"]}', self.body)

    def test_the_only_member_changes_type(self):
        self.host('h1', **self.body)
        self.patch('hosts/7', {'type': 'ESX'})

    def test_deleting(self):
        """HGR-1, HST-4."""
        self.host(**self.body)
        self.assertEqual('Host group cluster1 is not empty',
                         self.refused('DELETE', 'host_groups/5'))
        self.assertEqual('Host node1 is a member of a host group',
                         self.refused('DELETE', 'hosts/7'))
        self.control.set_behaviors(delete_host_in_group=True)
        self.delete('hosts/7')
        mapping = self.map(self.cluster, self.volume(self.group()),
                           host_kind='host_groups')
        self.refused('DELETE', 'host_groups/5')
        self.delete(f'mappings/{mapping["id"]}')
        self.delete('host_groups/5')


@ddt.ddt
class TestInitiators(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.node = base.ref('hosts', self.host('node1'))
        self.other = base.ref('hosts', self.host('node2'))

    def test_iqn(self):
        self.assertEqual(
            {'id': 21, 'iqn': IQN, 'host': self.node},
            self.post('host_iqns', {'iqn': IQN, 'host': self.node}))
        self.assertEqual(1, self.get(f'host_iqns?iqn={IQN}')['total'])
        self.assertEqual(1, self.get(
            'host_iqns?host.ref=/hosts/7')['total'])

    @ddt.data('', 'node1', 'iqn', 'iqn.', 'iqnx.1994-05.com.example:x',
              'iqn.1994-05.com.example:a b', 'wwn.x')
    def test_wrong_iqns(self, iqn):
        """INI-5."""
        self.refused('POST', 'host_iqns', {'iqn': iqn})

    def test_good_iqns(self):
        """INI-5."""
        for iqn in ('IQN.1994-05.com.example:X', 'eui.02004567A425678D',
                    'naa.52004567BA64678D'):
            self.assertEqual(iqn, self.post('host_iqns', {'iqn': iqn})[
                'iqn'])

    def test_case_of_iqns(self):
        """INI-3, INI-5: compared without regard to case."""
        self.post('host_iqns', {'iqn': IQN, 'host': self.node})
        self.assertEqual(
            f'{IQN} belongs to host node1', self.refused(
                'POST', 'host_iqns',
                {'iqn': IQN.upper(), 'host': self.other}))

    @ddt.data('21000024ff000002', '21000024FF000002',
              '21:00:00:24:ff:00:00:02', '21:00:00:24:FF:00:00:02')
    def test_pwwn(self, pwwn):
        """INI-4."""
        shown = '21:00:00:24:ff:00:00:02'
        self.assertEqual(
            {'id': 41, 'pwwn': shown, 'host': self.node},
            self.post('host_fc_ports', {'pwwn': pwwn, 'host': self.node}))
        self.assertEqual(1, self.get(
            f'host_fc_ports?pwwn={shown}')['total'])

    @ddt.data('', '21000024ff00000', '21000024ff0000022', '2g' * 8,
              '2100:0024:ff00:0002', '21-00-00-24-ff-00-00-02',
              '21:00:00:24:ff:00:00:02:', '0x21000024ff0002')
    def test_wrong_pwwns(self, pwwn):
        self.refused('POST', 'host_fc_ports', {'pwwn': pwwn})

    def test_record_without_host(self):
        """INI-1, INI-2: PATCH of its host, or POST, which adopts it."""
        seen = self.control.log_in('host_fc_ports', '1' * 16)
        self.assertIsNone(seen['host'])
        self.assertEqual(self.node, self.patch(
            f'host_fc_ports/{seen["id"]}', {'host': self.node})['host'])
        seen = self.control.log_in('host_iqns', IQN)
        self.refused('POST', 'host_iqns', {'iqn': IQN})
        self.assertEqual(
            {'id': seen['id'], 'iqn': IQN, 'host': self.node},
            self.post('host_iqns', {'iqn': IQN.upper(),
                                    'host': self.node}))

    def test_belongs_to_a_host(self):
        """INI-3: for POST and PATCH; freed first, it can change."""
        made = self.post('host_iqns', {'iqn': IQN, 'host': self.node})
        path = f'host_iqns/{made["id"]}'
        for host in (self.node, self.other, None):
            self.refused('POST', 'host_iqns', {'iqn': IQN, 'host': host})
        self.refused('PATCH', path, {'host': self.other})
        self.patch(path, {'host': self.node})
        self.patch(path, {'host': None})
        self.patch(path, {'host': self.other})

    def test_changing_the_identifier(self):
        made = self.post('host_iqns', {'iqn': IQN, 'host': self.node})
        self.post('host_iqns', {'iqn': f'{IQN}-2', 'host': self.node})
        path = f'host_iqns/{made["id"]}'
        self.refused('PATCH', path, {'iqn': f'{IQN}-2'.upper()})
        self.refused('PATCH', path, {'iqn': 'x'})
        self.patch(path, {'iqn': IQN.upper()})

    def test_last_initiator_of_a_mapped_host(self):
        """INI-6."""
        made = self.post('host_iqns', {'iqn': IQN, 'host': self.node})
        self.map(7, self.volume(self.group()))
        self.delete(f'host_iqns/{made["id"]}')


class TestChap(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.body = {'name': 'chap-1', 'type': 'CHAP', 'username': 'user-1',
                     'password': 'Example-Pw-01'}
        self.profile_1 = self.post('host_auth_profiles', self.body)
        self.path = f'host_auth_profiles/{self.profile_1["id"]}'

    def test_password_never_comes_back(self):
        """CHP-1; CHP-7: groups of hosts are counted, too."""
        self.assertEqual({
            'id': 1, 'name': 'chap-1', 'type': 'CHAP', 'username': 'user-1',
            'hosts_count': 0, 'host_groups_count': 0}, self.profile_1)
        self.assertNotIn('Example-Pw', str(self.get('__full')))
        self.assertNotIn('Example-Pw', str(self.control.dump()))
        self.assertEqual([], self.hits(
            'host_auth_profiles?password=Example-Pw-01'))

    def test_attaching(self):
        """CHP-2, CHP-4, CHP-6."""
        host = self.host()
        shown = self.patch('hosts/7', {'map_auth_profiles_names': 'chap-1'})
        self.assertEqual(host, shown)
        self.assertEqual(1, self.get(self.path)['hosts_count'])
        self.assertEqual('Profile chap-1 is in use',
                         self.refused('DELETE', self.path))
        self.refused('PATCH', 'hosts/7', {'map_auth_profiles_names': 'no'})
        self.patch('hosts/7', {'map_auth_profiles_names': None})
        self.delete(self.path)

    def test_host_that_goes_frees_its_profile(self):
        self.host()
        self.patch('hosts/7', {'map_auth_profiles_names': 'chap-1'})
        self.delete('hosts/7')
        self.delete(self.path)

    def test_changing(self):
        """CHP-3."""
        changed = self.patch(self.path, {
            'new_username': 'user-2', 'new_password': 'Example-Pw-02'})
        self.assertEqual('user-2', changed['username'])
        for body in ({'username': 'x'}, {'password': 'Example-Pw-03'},
                     {'name': 'x'}, {'new_username': ''},
                     {'new_password': 'short'}):
            self.refused('PATCH', self.path, body)

    def test_unique_and_well_formed(self):
        """CHP-4, CHP-5."""
        other = {**self.body, 'name': 'chap-2', 'username': 'user-2'}
        for change in ({'name': 'chap-1'}, {'username': 'user-1'},
                       {'password': 'x' * 11}, {'password': 'x' * 17},
                       {'type': 'Kerberos'}, {'username': ''},
                       {'name': ''}, {'name': 'n' * 43}):
            self.refused('POST', 'host_auth_profiles', {**other, **change})
        self.post('host_auth_profiles', {**other, 'password': 'x' * 12})
