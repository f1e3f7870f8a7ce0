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

"""Sections 6 and 7: policies, the system, its ports."""

import ddt

import k2_sim
from tests import base

GIB = base.GIB


@ddt.ddt
class TestPolicies(base.ArrayTest):

    limits = {'num_snapshots': '5', 'weeks': '0', 'days': '1', 'hours': '0'}
    levels = {'warning_threshold': 70, 'error_threshold': 80,
              'critical_threshold': 90, 'snapshot_overhead_threshold': 50}

    def test_retention_of_every_array(self):
        """RET-1."""
        names = [hit['name'] for hit in self.hits('retention_policies')]
        self.assertEqual({'Best_Effort_Retention', 'Replication_Retention',
                          'Backup', 'CDP'}, set(names))
        self.refused('DELETE', 'retention_policies/3')
        self.refused('PATCH', 'retention_policies/3', {'name': 'x'})
        self.patch('retention_policies/3', {'hours': 0})

    def test_own_retention(self):
        """RET-3, RET-4, OBJ-10."""
        made = self.post('retention_policies',
                         {'name': 'keep-5', **self.limits})
        self.assertEqual({
            'id': 5, 'name': 'keep-5', 'num_snapshots': 5, 'weeks': 0,
            'days': 1, 'hours': 0, 'snapshots_usage_count': 0}, made)
        self.assertEqual(12, self.patch(
            'retention_policies/5', {'hours': 12})['hours'])
        group = self.group()
        self.volume(group)
        self.snapshot(group, retention_policy=base.ref(
            'retention_policies', made))
        self.assertEqual(1, self.get('retention_policies/5')[
            'snapshots_usage_count'])
        self.assertEqual('Retention policy keep-5 is in use',
                         self.refused('DELETE', 'retention_policies/5'))
        self.delete('snapshots/51')
        self.delete('retention_policies/5')

    def test_wrong_retention(self):
        for change in ({'name': 'CDP'}, {'name': ''}, {'weeks': -1}):
            self.refused('POST', 'retention_policies',
                         {'name': 'x', **self.limits, **change})
            self.refused('PATCH', 'retention_policies/2', change)

    def test_capacity_policy(self):
        """VCP-1: full_threshold is 100, whatever is sent."""
        made = self.post('vg_capacity_policies', {
            'name': 'tight', **self.levels, 'full_threshold': 98})
        self.assertEqual({
            'id': 2, 'name': 'tight', **self.levels, 'full_threshold': 100,
            'num_snapshots': None, 'is_default': False}, made)
        self.assertEqual(100, self.patch('vg_capacity_policies/2', {
            'full_threshold': 95, 'warning_threshold': 75})[
                'full_threshold'])

    @ddt.data({'snapshot_overhead_threshold': 0},
              {'snapshot_overhead_threshold': 98}, {'name': ''},
              {'warning_threshold': 80}, {'error_threshold': 90},
              {'critical_threshold': 100}, {'warning_threshold': 0},
              {'name': 'default_vg_capacity_policy'})
    def test_wrong_capacity_policy(self, change):
        """VCP-1, VCP-2."""
        self.refused('POST', 'vg_capacity_policies',
                     {'name': 'x', **self.levels, **change})
        self.post('vg_capacity_policies', {'name': 'x', **self.levels})
        self.refused('PATCH', 'vg_capacity_policies/2', change)

    def test_capacity_policy_in_use(self):
        """VCP-2."""
        self.refused('DELETE', 'vg_capacity_policies/1')
        made = self.post('vg_capacity_policies',
                         {'name': 'x', **self.levels})
        policy = base.ref('vg_capacity_policies', made)
        self.group(capacity_policy=policy)
        self.refused('DELETE', 'vg_capacity_policies/2')
        self.patch('volume_groups/14', {'capacity_policy': None})
        self.delete('vg_capacity_policies/2')


class TestSystem(base.ArrayTest):

    def test_state(self):
        """Section 7.1, OBJ-1, OBJ-2; NET-2: one target for all portals."""
        state = self.get('system/state/1')
        system_id = state['system_id']
        self.assertEqual({
            'id': 1, 'state': 'ONLINE', 'next_state': 'None',
            'is_system_functionality_degraded': False,
            'rest_api_version': '2.2.0', 'system_version': 'sim-1',
            'system_id': system_id, 'system_name': 'sim-k2-a',
            'system_connectivity_type': 'iSCSI',
            'iscsi_qualified_target_name':
                'iqn.2009-01.com.kaminario:storage.k2.'
                f'{int(system_id, 16)}',
            'system_time': 1767225600.0, 'last_online_time': 1767225600.0,
            'system_tz': 'UTC', 'system_tz_short': 'UTC',
            'current_user_role': 'admin',
            'replication_default_target_exposure': 'unmapped',
            'replication_protocol_version': 2,
            'replication_min_protocol_version': 1,
            'sra_protocol_version': '1.2'}, state)
        self.assertEqual(
            {'hits': [state], 'limit': 1000, 'offset': 0, 'total': 1},
            self.get('system/state'))
        self.assertEqual(1, self.get('system/state?name=')['total'])
        self.refused('GET', 'system/state/2', status=404)

    def test_changing_the_system(self):
        changed = self.patch('system/state/1', {
            'system_name': 'k2-b', 'send_callhome': True})
        self.assertEqual('k2-b', changed['system_name'])
        self.assertNotIn('send_callhome', changed)
        self.assertEqual('k2-b', self.array.name)
        self.refused('PATCH', 'system/state/1', {'state': 'OFFLINE'})
        for name in ('', 'n' * 43):
            self.refused('PATCH', 'system/state/1', {'system_name': name})
        self.patch('system/state/1', {
            'replication_default_target_exposure': 'Read Only'})

    def test_default_exposures(self):
        """REP-17: one of three."""
        field = 'replication_default_target_exposure'
        for value in ('Read Only', 'Mapped - Not Exposed', 'unmapped'):
            self.assertEqual(value, self.patch(
                'system/state/1', {field: value})[field])
        for value in ('mapped', 'read only', '', None):
            self.refused('PATCH', 'system/state/1', {field: value})
        self.assertEqual('unmapped', self.get('system/state/1')[field])

    def test_arrays_differ(self):
        other = k2_sim.Array(name='sim-k2-b')
        state = other.handle('GET', '/api/v2/system/state/1',
                             headers=base.authorization()).json()
        self.assertNotEqual(self.get('system/state/1')['system_id'],
                            state['system_id'])

    def test_older_version(self):
        self.control.set_behaviors(rest_api_version='2.1.0')
        self.assertEqual('2.1.0', self.get(
            'system/state/1')['rest_api_version'])

    def test_capacity(self):
        """CAP-1, CAP-2, CAP-3, CAP-4, in KiB; CTRL does not count."""
        empty = self.get('system/capacity/1')
        self.assertEqual((107374182400, 107374182400, 0, 0), (
            empty['total'], empty['free'], empty['allocated'],
            empty['provisioned']))
        group = self.group()
        volume = self.volume(group, size=30 * GIB)
        snapshot = self.snapshot(group)
        self.view(snapshot)
        self.view(snapshot, 'view-2')
        self.control.set_written(volume['id'], 8 * GIB)
        self.assertEqual({
            'id': 1, 'state': 'ok', 'total': 107374182400,
            'free': 107374182400 - 8 * GIB, 'reserved': 0,
            'allocated': 8 * GIB, 'allocated_volumes': 8 * GIB,
            'allocated_snapshots_and_views': 0, 'provisioned': 120 * GIB,
            'provisioned_volumes': 30 * GIB,
            'provisioned_snapshots': 30 * GIB,
            'provisioned_views': 60 * GIB, 'logical': 8 * GIB,
            'physical': 2 * GIB, 'curr_dt_chunk': 0,
            'is_reclamation_in_progress': False},
            self.get('system/capacity')['hits'][0])
        self.assertEqual(1, self.get(
            f'system/capacity?provisioned={120 * GIB}')['total'])
        self.control.set_written(volume['id'], 3 * GIB, snapshot['id'])
        self.assertEqual(
            (107374182400 - 11 * GIB, 11 * GIB, 3 * GIB), tuple(
                self.get('system/capacity/1')[name] for name in (
                    'free', 'allocated', 'allocated_snapshots_and_views')))

    def test_portals(self):
        """NET-1, NET-3: data addresses have no wan_port."""
        hits = self.hits('system/net_ips')
        self.assertEqual(['192.0.2.11', '192.0.2.12', '192.0.2.13',
                          '192.0.2.14'],
                         [hit['ip_address'] for hit in hits
                          if hit['wan_port'] is None])
        self.assertEqual({
            'id': 5, 'ip_address': '198.51.100.11',
            'network_mask': '255.255.255.0',
            'net_port': {'ref': '/system/net_ports/5'},
            'net_portchannel': None, 'net_vlan': None,
            'wan_port': {'ref': '/system/wan_ports/1'},
            'nvme_port': None}, hits[4])
        for hit in hits:
            port = self.get(hit['net_port']['ref'][1:])
            self.assertEqual('dataport', port['port_type'])
            for field in ('server', 'link_state', 'speed_state'):
                self.get(port[field]['ref'][1:])

    def test_changing_addresses(self):
        body = {'ip_address': '2001:db8::5', 'network_mask': '64',
                'service': 'iscsi',
                'interface': {'ref': '/system/net_ports/1'}}
        made = self.post('system/net_ips', body)
        self.assertEqual((None, {'ref': '/system/net_ports/1'}),
                         (made['wan_port'], made['net_port']))
        wan = self.post('system/net_ips', {
            **body, 'ip_address': '203.0.113.9', 'service': 'Replication',
            'network_mask': '255.255.255.0'})
        self.get(wan['wan_port']['ref'][1:])
        for change in ({'ip_address': '2001:DB8::5'}, {'service': 'nfs'},
                       {'ip_address': 'x'}, {'network_mask': 'x'},
                       {'interface': {'ref': '/system/net_ports/99'}}):
            self.refused('POST', 'system/net_ips', {
                **body, 'ip_address': '2001:db8::6', **change})
        self.delete(f'system/net_ips/{made["id"]}')
        self.refused('PATCH', 'system/net_ips/1', {}, status=405)

    def test_ports(self):
        self.assertEqual('9000', self.patch(
            'system/net_ports/1', {'mtu': '9000'})['mtu'])
        self.refused('PATCH', 'system/net_ports/1', {'mtu': 9000})
        ports = self.hits('system/fc_ports')
        self.assertEqual(4, len({port['pwwn'] for port in ports}))
        for port in ports:
            self.assertRegex(port['pwwn'],
                             '^[0-9a-f]{2}(:[0-9a-f]{2}){7}$')
            self.get(port['server']['ref'][1:])

    def test_roles_of_ports(self):
        """NET-3: data ports alone carry addresses, channels and VLANs."""
        roles = {}
        for port in self.hits('system/net_ports'):
            roles.setdefault(port['port_type'], []).append(port)
        self.assertEqual({'dataport': 6, 'mgmtport': 2, 'ib': 2}, {
            role: len(ports) for role, ports in roles.items()})
        for port in (*roles['mgmtport'], *roles['ib']):
            interface = base.ref('system/net_ports', port)
            self.refused('POST', 'system/net_ips', {
                'ip_address': '203.0.113.7', 'network_mask': '255.0.0.0',
                'service': 'iscsi', 'interface': interface})
            self.refused('POST', 'system/net_vlans', {
                'tag': '7', 'interface': interface})
        self.assertEqual(
            [port['id'] for port in roles['mgmtport']],
            [int(row['port']['ref'].rpartition('/')[2]) for row
             in self.hits('system/net_interfaces')])
        for row in self.hits('system/net_ips')[:2]:
            self.delete(f'system/net_ips/{row["id"]}')
        self.assertIn('no two free ports', self.refused(
            'POST', 'system/net_portchannels', {'knode': 'node01'}))

    def test_own_portals(self):
        array = k2_sim.Array(portals=['2001:db8::1'], wan_addresses=[])
        hits = array.handle('GET', '/api/v2/system/net_ips',
                            headers=base.authorization()).json()['hits']
        self.assertEqual(['2001:db8::1'],
                         [hit['ip_address'] for hit in hits])
