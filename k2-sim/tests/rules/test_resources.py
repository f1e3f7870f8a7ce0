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
"""Section 11 and similar: fields, objects and refusals."""

import ddt

import k2_sim
from k2_sim.state import hardware_resources
from tests import base

SINGLE = ('system/capacity_policy', 'system/encryption', 'system/expansion',
          'system/ndu', 'proxy_secure_ssh')
WRITABLE = ('host_nqns', 'snapshot_scheduler', 'snapshot_scheduler_mapping')


class TestFurther(base.ArrayTest):

    def test_writes(self):
        """Section 11: 405 to writes, whatever some pages list."""
        for resource in hardware_resources.RESOURCES:
            if resource.name not in WRITABLE:
                for method in ('PATCH', 'DELETE'):
                    self.refused(method, f'{resource.name}/1', {}, 405)
                for path in ('', '/__bulk'):
                    self.refused('POST', resource.name + path, {}, 405)

    def test_one_object(self):
        """Section 11, 7.3: one object, id 1, with all its fields."""
        for name in SINGLE:
            resource, = (found for found in hardware_resources.RESOURCES
                         if found.name == name)
            self.assertTrue(resource.singleton)
            shown = {field.name for field in resource.fields
                     if not field.write_only}
            self.assertEqual([1], [row['id'] for row in self.hits(name)])
            self.assertEqual(shown, set(self.get(f'{name}/1')))

    def test_values(self):
        """Section 11: every value has the type of its field."""
        types = {'int': (int,), 'number': (int, float), 'string': (str,),
                 'bool': (bool,), 'ref': (dict,)}
        for resource in hardware_resources.RESOURCES:
            for row in self.hits(resource.name):
                for field in resource.fields:
                    if not field.write_only:
                        value = row[field.name]
                        if value is None:
                            self.assertTrue(field.null, field)
                            continue
                        self.assertIsInstance(value, types[field.kind])
                        if field.kind == 'ref':
                            self.get(value['ref'][1:])

    def test_defaults(self):
        """Section 11, 7.3."""
        policy = self.get('system/capacity_policy/1')
        self.assertEqual((80, 90, 96, 100, 3), tuple(
            policy[name] for name in (
                'warning_threshold', 'error_threshold',
                'critical_threshold', 'full_threshold', 'num_snapshots')))
        self.assertEqual(-1, self.get('system/encryption/1')['active_index'])
        self.assertEqual('Disabled', self.get('proxy_secure_ssh/1')['status'])

    def test_hardware(self):
        """Section 11: a small fixed set."""
        self.assertEqual(24, self.get('system/ssd_devs')['total'])
        self.assertEqual(
            {'node01-bmc01', 'node02-bmc01'},
            {row['name'] for row in self.hits('system/bmcs')})
        self.assertEqual(1, self.get(
            'system/psus?name=shelf01-psu02')['total'])

    def test_nqns(self):
        """Section 5.3: GET, POST, DELETE; INI-1, INI-2, INI-3, HST-3."""
        nqn = 'nqn.2014-08.org.nvmexpress:uuid:a'
        host = self.host()
        made = self.post('host_nqns', {'nqn': nqn})
        self.assertIsNone(made['host'])
        body = {'nqn': nqn, 'host': base.ref('hosts', host)}
        self.assertEqual(made['id'], self.post('host_nqns', body)['id'])
        self.refused('POST', 'host_nqns', body)
        self.refused('POST', 'host_nqns', {'nqn': 'iqn.2014-08.x:y'})
        self.refused('PATCH', f'host_nqns/{made["id"]}', {}, status=405)
        self.refused('DELETE', f'hosts/{host["id"]}')
        self.delete(f'host_nqns/{made["id"]}')
        self.delete(f'hosts/{host["id"]}')

    def test_fc_logins(self):
        """Section 7.4, INI-1: one row per login seen."""
        self.assertEqual(0, self.get('system/fc_connection_mapper')['total'])
        port = self.control.log_in('host_fc_ports', '5001438001a2b3c4')
        rows = self.hits('system/fc_connection_mapper')
        self.assertEqual(
            [f'/system/fc_ports/{number}' for number in range(1, 5)],
            [row['server_fc_port']['ref'] for row in rows])
        self.assertEqual({f'/host_fc_ports/{port["id"]}'},
                         {row['host_fc_port']['ref'] for row in rows})
        self.delete(f'host_fc_ports/{port["id"]}')
        self.assertEqual(0, self.get('system/fc_connection_mapper')['total'])

    def test_state_from_before(self):
        """A state saved by an older version gets the new resources."""
        self.start_array(self.state_path)
        old = self.array
        with old.store.transaction():
            for resource in hardware_resources.RESOURCES:
                if resource.name not in ('system/servers',
                                         'system/hardware_states'):
                    for row in old.store.rows(resource.name):
                        old.store.remove(resource.name, row['id'])
        old.close()
        self.start_array(self.state_path)
        self.assertEqual(-1, self.get('system/encryption/1')['active_index'])


class TestSmallRules(base.ArrayTest):

    def test_views_are_writable(self):
        """SNP-5: a snapshot is read-only, a view is writable."""
        group = self.group()
        volume = self.volume(group)['id']
        self.control.write(volume, 'old')
        snapshot = self.snapshot(group)
        view = self.view(snapshot)
        self.control.write(volume, 'mine', view['id'])
        for source, token in ((None, 'old'), (snapshot['id'], 'old'),
                              (view['id'], 'mine')):
            self.assertEqual(token, self.control.read(volume, source))
        self.assertRaises(k2_sim.ApiError, self.control.write, volume,
                          'x', snapshot['id'])
        self.assertEqual('mine', self.control.read(
            volume, self.post('snapshots', self.snapshot_body(
                base.ref('snapshots', view), 'of-view'))['id']))

    def test_serials(self):
        """VOL-15: system id and scsi_suffix in four hex digits."""
        volume = self.volume(self.group())
        system = self.get('system/state/1')['system_id']
        self.assertEqual(f'{system}{volume["scsi_suffix"]:04x}',
                         volume['scsi_sn'])

    def test_no_restore_of_one_volume(self):
        """RST-5."""
        group = self.group()
        volume = self.volume(group)
        snapshot = self.snapshot(group)
        self.refused('PATCH', f'volumes/{volume["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})

    def test_profiles_of_host_groups(self):
        """CHP-7: counted; there is no way to attach one."""
        made = self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'twelve-chars'})
        self.assertEqual(0, made['host_groups_count'])
        group = self.post('host_groups', {'name': 'hg'})
        self.refused('PATCH', f'host_groups/{group["id"]}',
                     {'map_auth_profiles_names': 'p'})

    def test_one_target(self):
        """NET-2: one IQN, whatever the number of portals."""
        state, = self.hits('system/state')
        self.assertRegex(state['iscsi_qualified_target_name'],
                         r'^iqn\.\d{4}-\d{2}\.com\.kaminario:\S+$')


@ddt.ddt
class TestStatistics(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.control.set_performance(
            iops_avg=800, iops_max=900, throughput_avg=8000,
            throughput_max=9000, latency_inner=0.5)

    @ddt.data(('__rw_breakdown=True', [('r', None), ('w', None)]),
              ('__bs_breakdown=true', [
                  (None, 'lt8k'), (None, '8k_64k'), (None, '64k_256k'),
                  (None, 'gt256k')]),
              ('__rw_breakdown=True&__bs_breakdown=True', [
                  (rw, bs) for rw in ('r', 'w')
                  for bs in ('lt8k', '8k_64k', '64k_256k', 'gt256k')]))
    @ddt.unpack
    def test_breakdown(self, query, classes):
        """STA-4: a row per class or pair, without the maxima."""
        rows = self.hits(f'stats/system?{query}')
        self.assertEqual(
            classes, [(row.get('rw'), row.get('bs')) for row in rows])
        self.assertEqual(800, sum(row['iops_avg'] for row in rows))
        for row in rows:
            self.assertNotIn('iops_max', row)
            self.assertNotIn('throughput_max', row)
            self.assertEqual(0.5, row['latency_inner'])

    def test_no_breakdown(self):
        """STA-1, STA-4: no classes, and no id."""
        for query in ('', '?__rw_breakdown=False'):
            row, = self.hits(f'stats/system{query}')
            self.assertEqual(900, row['iops_max'])
            self.assertEqual(set(), {'rw', 'bs', 'id'} & set(row))
        self.refused('GET', 'stats/system?__rw_breakdown=maybe')

    def test_from_time(self):
        """Section 8: points from a time on, not beyond now."""
        now = int(self.clock.time())
        for query, ends in (
                (f'__from_time={now - 60}&__datapoints=2',
                 [now - 55, now - 50]),
                (f'__from_time={now - 10}&__datapoints=9', [now - 5, now]),
                (f'__from_time={now + 60}', []),
                ('__datapoints=2', [now - 5, now])):
            self.assertEqual(ends, [row['timestamp'] for row in self.hits(
                f'stats/system?{query}')])


@ddt.ddt
class TestBehaviors(base.ArrayTest):
    """Section 14: the alternative of each point."""

    def test_empty_reply(self):
        """OBJ-3, OBJ-6: POST is carried out and returns nothing."""
        self.control.set_behaviors(create_reply='empty')
        for path, body in (('host_groups', {'name': 'a'}),
                           ('host_groups/__bulk', [{'name': 'b'}])):
            reply = self.call('POST', path, body)
            self.assertEqual((201, b''), (reply.status, reply.body))
        self.assertEqual(2, self.get('host_groups')['total'])

    def test_plural_session_field(self):
        group = self.group()
        self.assertIsNone(group['replication_session'])
        self.control.set_behaviors(plural_session_field=True)
        group = self.get(f'volume_groups/{group["id"]}')
        self.assertIsNone(group['replication_sessions'])
        self.assertNotIn('replication_session', group)

    def test_unknown_filter(self):
        """QRY-2: none, or all."""
        for path in ('volumes?colour=red', 'volumes?colour__in=red&id=1'):
            self.control.set_behaviors(unknown_filter='none')
            self.assertEqual(0, self.get(path)['total'])
            self.control.set_behaviors(unknown_filter='ignored')
            self.assertEqual(1, self.get(path)['total'])
        self.assertEqual(0, self.get('volumes?colour=red&id=2')['total'])

    def test_fields_of_published_clients(self):
        """OBJ-12: undocumented fields that clients send are ignored."""
        for behavior in ('refused', 'ignored'):
            self.control.set_behaviors(unknown_fields=behavior)
            # As the Go SDK does, which Terraform uses.
            group = self.post('volume_groups', {
                'name': behavior, 'quota': 0, 'is_dedup': True,
                'description': '',
                'capacityPolicy': 'default_vg_capacity_policy'})
            self.assertNotIn('capacityPolicy', group)
            path = f'volume_groups/{group["id"]}'
            self.assertEqual('d', self.patch(path, {
                'description': 'd', 'capacityPolicy': 'p'})['description'])
            policy = self.post('vg_capacity_policies', {
                'name': behavior, 'warning_threshold': 10,
                'error_threshold': 20, 'critical_threshold': 30,
                'snapshot_overhead_threshold': 50,
                'warningthreshold': 11})
            path = f'vg_capacity_policies/{policy["id"]}'
            self.assertEqual(
                {**policy, 'name': f'{behavior}-2'}, self.patch(path, {
                    'name': f'{behavior}-2', 'warningthreshold': 12,
                    'errorthreshold': 22, 'criticalthreshold': 32,
                    'fullthreshold': 99, 'snapshotoverheadthreshold': 7}))

    def test_unknown_fields(self):
        """OBJ-12: refused, or ignored like read-only fields."""
        group = self.group()
        volume = self.volume(group)
        path = f'volumes/{volume["id"]}'
        body = {'name': 'v', 'size': base.GIB, 'colour': 'red',
                'scsi_sn': 'x', 'id': 7, 'warningthreshold': 1,
                'volume_group': base.ref('volume_groups', group)}
        change = {'description': 'd', 'is_dedup': False, 'colour': 'red'}
        self.refused('POST', 'volumes', body)
        self.refused('PATCH', path, change)
        self.control.set_behaviors(unknown_fields='ignored')
        made = self.post('volumes', body)
        self.assertNotIn('colour', made)
        self.assertNotEqual(('x', 7), (made['scsi_sn'], made['id']))
        self.assertEqual({**volume, 'description': 'd'},
                         self.patch(path, change))
        # Known fields are parsed as strictly as before.
        for wrong in ({**body, 'name': 'w', 'size': 'x'},
                      {'name': 'w', 'colour': 'red'}):
            self.refused('POST', 'volumes', wrong)
        self.refused('PATCH', path, {'id': 99})

    def test_full_threshold(self):
        """VCP-1."""
        body = {'name': 'p', 'warning_threshold': 1, 'error_threshold': 2,
                'critical_threshold': 3, 'snapshot_overhead_threshold': 4}
        self.control.set_behaviors(full_threshold_required=True)
        self.assertEqual(
            'Missing required field: full_threshold',
            self.refused('POST', 'vg_capacity_policies', body))
        made = self.post('vg_capacity_policies',
                         {**body, 'full_threshold': 50})
        self.assertEqual(100, made['full_threshold'])

    def test_netvlans(self):
        path = 'system/netvlans'
        self.refused('GET', path, status=404)
        self.control.set_behaviors(netvlans=True)
        made = self.post(path, {
            'tag': '7', 'interface': base.ref('system/net_ports', 1)})
        self.assertEqual(made, self.get(f'{path}/{made["id"]}'))
        self.assertEqual(1, self.get('system/net_vlans')['total'])

    def test_older_name_of_the_chap_profile(self):
        """CHP-2."""
        self.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'twelve-chars'})
        path = f'hosts/{self.host()["id"]}'
        self.refused('PATCH', path, {'host_auth_profile': 'p'})
        self.control.set_behaviors(host_auth_profile=True)
        for name, count in (('p', 1), (None, 0)):
            self.patch(path, {'host_auth_profile': name})
            self.assertEqual(count, self.get(
                'host_auth_profiles/1')['hosts_count'])

    @ddt.data(('dedup_patch', 'is_dedup', False),
              ('vmware_support_patch', 'vmware_support', True))
    @ddt.unpack
    def test_fields_fixed_at_creation(self, switch, field, value):
        """VG-4, VOL-13: refused, unless the array takes them."""
        group = self.group()
        path = f'volume_groups/{group["id"]}'
        if field == 'vmware_support':
            path = f'volumes/{self.volume(group)["id"]}'
        self.assertEqual(f'Field {field} is read-only', self.refused(
            'PATCH', path, {field: value}))
        self.control.set_behaviors(**{switch: True})
        self.assertEqual(value, self.patch(path, {field: value})[field])

    def test_page_size(self):
        """Section 14: 100, and 1000 on newer arrays."""
        for profile, size in (('k2', 100), ('sdp', 1000)):
            array = k2_sim.Array(profile)
            self.addCleanup(array.close)
            self.assertEqual(size, array.handle(
                'GET', '/api/v2/volumes',
                headers=base.authorization()).json()['limit'])
