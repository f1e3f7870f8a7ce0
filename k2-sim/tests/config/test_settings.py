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
"""The settings file of an array: what it may contain, and what is refused."""

import json
import pathlib

import ddt
import fixtures
import testtools

import k2_sim
from k2_sim.config import settings
from k2_sim.config import settings_file
from k2_sim import equipment
from tests import base

EXAMPLE = pathlib.Path(__file__).parents[3].joinpath(
    'doc', 'source', 'simulator', 'example.yaml')


class FileTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'k2.yaml')

    def load(self, text):
        self.path.write_text(text, encoding='utf-8')
        return settings_file.load(self.path)

    def refused(self, text):
        """The error text: one line that begins with the file's path."""
        error = str(self.assertRaises(
            settings.SettingsError, self.load, text))
        self.assertNotIn('\n', error)
        self.assertTrue(error.startswith(str(self.path)), error)
        return error.removeprefix(f'{self.path}').removeprefix(': ')


@ddt.ddt
class TestFile(FileTest):

    def test_nothing_said(self):
        for text in ('{}', '', '# name: k2-x\n', '---\n'):
            self.assertEqual(settings.Settings(), self.load(text))

    def test_portals_suit_the_data_plane(self):
        """A data plane cannot listen on addresses that no machine has."""
        for text, first in (('{}', '192.0.2.11'),
                            ('data_plane: none', '192.0.2.11'),
                            ('data_plane: tgt', '127.0.0.11'),
                            ('data_plane: tgt\niscsi: [{node: 1,'
                             ' addresses: [192.0.2.9]}]', '192.0.2.9')):
            interface = self.load(text).equipment.iscsi[0]
            self.assertEqual((first,), interface.addresses, text)

    def test_deprecated_name_of_behaviors(self):
        self.assertEqual({'page_size': 2},
                         self.load('switches: {page_size: 2}').behaviors)

    def test_paths_start_at_the_file(self):
        found = self.load('state_dir: state\n'
                          'control: {login: c, password_file: /etc/secret}\n'
                          'replication: {ca: ca.crt}\n')
        folder = self.path.parent
        self.assertEqual(folder / 'state', found.state_dir)
        self.assertEqual(pathlib.Path('/etc/secret'),
                         found.control.password_file)
        self.assertEqual(folder / 'ca.crt', found.peers.ca)

    def test_every_key(self):
        """The example in the documentation has every key."""
        found = settings_file.load(EXAMPLE)
        self.assertEqual(('127.0.0.1', 8443), found.listen)
        self.assertEqual(('k2.example.org',), found.tls_names)
        self.assertEqual(200 * 2 ** 30, found.size)
        self.assertEqual(
            equipment.Vlan(102, ('198.51.100.75/26',)),
            found.iscsi[0].vlans[1])
        self.assertEqual(['admin', 'mgmt-app', 'read-only'],
                         [user.role for user in found.users])
        self.assertEqual({'snapshot_patch': False, 'rate_burst': 100},
                         found.behaviors)
        self.assertEqual(
            settings.Flex('sdp-7', 'mgmt-app', EXAMPLE.parent / 'flex.token'),
            found.flex)
        self.assertEqual(settings.Seed(1000, 5, 20, 400, 1), found.seed)
        self.assertEqual(['busy', 'peer_lost'],
                         [rule['kind'] for rule in found.faults])
        self.assertEqual({'k2-hamburg': '127.0.0.1:8444'},
                         found.peers.addresses)
        default = settings.Settings()
        for name in default.__dataclass_fields__:
            if name not in ('listen', 'profile', 'tls', 'control',
                            'restore', 'data_plane',
                            'data_plane_required'):
                self.assertNotEqual(
                    getattr(default, name), getattr(found, name), name)

    @ddt.data(
        ('colour: red', 'colour: unknown; allowed are state_dir, listen,'),
        ('tls: {cert: x}', 'tls.cert: unknown; allowed are enabled, names'),
        ('tls: true', 'tls: must be a mapping of enabled, names, not True'),
        ('tls: {enabled: "yes"}', 'tls.enabled: must be true or false'),
        ('profile: k3', "profile: must be one of k2, sdp, known, not 'k3'"),
        ('name: ""', 'name: must be a name of 1 to 42 characters'),
        ('name: 5', 'name: must be a name of 1 to 42 characters that can be'
         ' printed, not 5'),
        ('listen: 8443', 'listen: must be HOST:PORT with a port up to'),
        ('data_plane: scst', 'data_plane: must be one of none, tgt, lio, not'),
        ('data_plane_required: 1', 'data_plane_required: must be true or'),
        ('random_seed: -1', 'random_seed: must be a whole number from 0'),
        ('size: 100', 'size: must be a size such as 512 GiB or 100 TiB'),
        ('size: 99999999 TiB', 'size: must be a size such as'),
        ('iscsi: 192.0.2.1', 'iscsi: must be a list'),
        ('iscsi: [{}]', 'iscsi.0.node: is missing and must be given'),
        ('iscsi: [{node: 3}]', 'iscsi.0.node: must be a whole number from'
         ' 1 to 2, not 3'),
        ('iscsi: [{node: 1, mtu: 9e3}]', 'iscsi.0.mtu: must be a whole'),
        ('iscsi: [{node: true}]', 'iscsi.0.node: must be a whole number'),
        ('iscsi: [{node: 1, addresses: [192.0.2.1, x]}]',
         'iscsi.0.addresses.1: must be an IP address such as'),
        ('iscsi: [{node: 1, vlans: [{tag: 4095}]}]',
         'iscsi.0.vlans.0.tag: must be a whole number from 1 to 4094'),
        ('iscsi: [{node: 1, vlans: [{tag: 4}, {tag: 4}]}]',
         'iscsi.0.vlans: must be VLANs with different tags'),
        ('iscsi: [{node: 1, addresses: [192.0.2.1]}]\n'
         'wan: [{node: 1, addresses: [192.0.2.1/28]}]',
         'wan: address 192.0.2.1 is given twice'),
        ('fc_ports: 33', 'fc_ports: must be a whole number from 0 to 32'),
        ('fc_ports: ["50:02"]', 'fc_ports.0: must be a port name such as'),
        ('fc_ports: ["50:02:4f:00:00:01:00:0a", "50:02:4F:00:00:01:00:0A"]',
         'fc_ports: must be ports with different names'),
        ('users: []', 'users: must be a list of at least one user'),
        ('users: [{role: root}]', 'users.0.login: is missing'),
        ('users: [{login: a, role: king}]', 'users.0.role: must be one of'
         ' root, admin, mgmt-app, read-only'),
        ('users: [{login: a}, {login: a}]', 'users: must be users with'),
        ('users: [{login: ../a}]', 'users.0.login: must be a login of'),
        ('users: [{login: a, password: b}]', 'users.0.password: unknown'),
        ('control: {}', 'control.login: is missing'),
        ('flex: {}', 'flex.sdp: is missing and must be given'),
        ('flex: {sdp: a/b}', 'flex.sdp: must be'),
        ('flex: {sdp: a, role: king}', 'flex.role: must be one of root,'),
        ('latency: -1', 'latency: must be a number from 0'),
        ('latency: .nan', 'latency: must be a number from 0'),
        ('behaviors: {nothing: 1}', 'behaviors.nothing: unknown; allowed'
         ' are thin_clones,'),
        ('behaviors: {page_size: x}', 'behaviors.page_size: Behavior page_size'
         ' must be of type int'),
        ('{behaviors: {}, switches: {}}', 'switches: deprecated name of'
         ' behaviors; remove one of them'),
        ('behaviors: {rate_limit: 5}', 'behaviors.rate_limit: unknown'),
        ('faults: [busy]', 'faults.0: must be a fault rule, as a mapping'),
        ('faults: [{kind: storm}]', 'faults.0.rule: Fault rule: kind must'),
        ('seed: {cats: 5}', 'seed.cats: unknown; allowed are volumes,'),
        ('seed: {volumes: -1}', 'seed.volumes: must be a whole number'),
        ('seed: {snapshots: 1}', 'seed: must be snapshots of some volumes'),
        ('seed: {volumes_per_group: 33}', 'seed: must be'
         ' volumes_per_group from 1 to 32'),
        ('replication: {peers: {x: y}}', 'replication.peers.x: must be'),
        ('replication: {peers: [x]}', 'replication.peers: must be a'),
        ('5: 5', '5: unknown'),
        ('2026-01-01: 5', '2026-01-01: unknown'),
        ('"a\\nb": 5', 'a b: unknown'),
        ('name: 2026-01-01', 'name: must be a name of 1 to 42 characters that'
         ' can be printed, not datetime.date(2026, 1, 1)'),
        ('name: "a\\nb"', 'name: must be a name of 1 to 42 characters that'),
        ('profile: &a [*a]',
         'profile: must be one of k2, sdp, known, not [[[[[['),
        ('size: 0x' + 5000 * 'f', 'Exceeds the limit'),
        (f'profile: {"x" * 500}',
         "profile: must be one of k2, sdp, known, not 'xx"),
        ('state_dir: ~nosuchuser/k2', 'state_dir: must be a path, without'
         ' NUL and without the ~ of a user whom this machine does not know,'
         " not '~nosuchuser/k2'"),
        ('state_dir: "a\\0b"', 'state_dir: must be a path, without NUL'),
        ('state_dir: "\\uD800"', 'state_dir: must be a path, without NUL'),
        ('state_dir: 2026-01-01', 'state_dir: must be a text that is not'
         ' empty, not datetime.date(2026, 1, 1)'),
        ('users: [{login: a, password_file: ~nosuchuser/p}]',
         'users.0.password_file: must be a path'),
        ('tls: {names: [k\u00e4se.example]}', 'tls.names.0: must be an IP'
         ' address or a host name of ASCII letters, digits and - (other'
         ' letters in their xn-- form), not'),
        ('tls: {names: ["*"]}', 'tls.names.0: must be an IP address or a'),
        ('tls: {names: ["a..b"]}', 'tls.names.0: must be an IP address or'),
        ('listen: k\u00e4se.example:1', 'listen: must be an IP address or'),
        (f'listen: {64 * "a"}.example:1', 'listen: must be an IP address'),
        ('name: a\nsize: 1 TiB\nname: b',
         'line 3: key name is given twice, first in line 1'),
        ('tls: {enabled: true, "enabled": false}',
         'line 1: key enabled is given twice, first in line 1'),
        ('iscsi:\n- node: 1\n  lag: true\n  node: 2',
         'line 4: key node is given twice, first in line 2'),
        ('a: 2026-13-45', ' is not valid YAML: month must be in 1..12 in'),
        ('a: ' + 2000 * '[', ' is not valid YAML: '),
        ('- 1', ' is not a mapping of keys to values'),
        ('a: [', ' is not valid YAML: '),
        ('!!python/object:os.path {}', ' is not valid YAML: '))
    @ddt.unpack
    def test_refused(self, text, complaint):
        self.assertThat(self.refused(text),
                        testtools.matchers.StartsWith(complaint))

    def test_names_in_the_certificate(self):
        names = ['k2.example', '*.k2.example', '192.0.2.1', '2001:db8::1',
                 'xn--kse-qla.example']
        self.assertEqual(tuple(names), self.load(
            f'tls: {{names: {json.dumps(names)}}}').tls_names)

    def test_values_that_others_have_too(self):
        """A key merged with << may be repeated: that is the purpose of <<."""
        found = self.load(
            'users:\n- &first {login: a, role: root}\n'
            '- {<<: *first, login: b}\n')
        self.assertEqual(['root', 'root'],
                         [user.role for user in found.users])

    def test_home(self):
        self.useFixture(fixtures.EnvironmentVariable('HOME', '/home/x'))
        self.assertEqual(pathlib.Path('/home/x/k2'),
                         self.load('state_dir: ~/k2').state_dir)

    def test_no_text(self):
        self.path.write_bytes(b'\xff\xfe\xff')
        error = self.assertRaises(
            settings.SettingsError, settings_file.load, self.path)
        self.assertIn('is not valid YAML', str(error))

    def test_names_of_fc_ports(self):
        """They are distributed over the nodes in turn."""
        names = [f'50:02:4f:00:00:01:00:0{number}' for number in range(3)]
        self.path.write_text(f'fc_ports: {[name.upper() for name in names]}')
        found = settings_file.load(self.path).equipment
        self.assertEqual(tuple(names), found.fc_ports)
        self.assertEqual([(names[0], names[2]), (names[1],)],
                         [found.fc_ports_of(node) for node in (1, 2)])


class EquippedTest(base.ArrayTest):
    """An array built from the example in the documentation."""

    def setUp(self):
        super().setUp()
        found = settings_file.load(EXAMPLE)
        self.array = k2_sim.Array(
            found.profile, clock=self.clock, equipment=found.equipment,
            behaviors=found.behaviors, seeding=found.seed)
        self.addCleanup(self.array.close)
        self.control = self.array.control


class TestEquipped(EquippedTest):

    def test_ports(self):
        """Section 7.4: LAGs join two ports of a node, VLANs use them."""
        self.assertEqual('k2-berlin', self.array.name)
        self.assertEqual(8, self.get('system/fc_ports')['total'])
        self.assertEqual(7, self.get(
            'system/net_ports?port_type=dataport')['total'])
        one, two = self.hits('system/net_portchannels')
        self.assertEqual('/system/servers/1', one['server']['ref'])
        for channel in (one, two):
            self.assertEqual(('9000', 'iscsi'),
                             (channel['mtu'], channel['type']))
            for field in ('net_port1', 'net_port2'):
                port = self.get(channel[field]['ref'][1:])
                self.assertEqual(channel['server'], port['server'])
        vlans = self.hits('system/net_vlans')
        self.assertEqual(
            ['node01-pc01.101', 'node01-pc01.102', 'node02-pc01.101',
             'node02-pc01.102'], [vlan['name'] for vlan in vlans])
        for vlan in vlans:
            self.assertIsNone(vlan['net_port'])
            self.get(vlan['vlan']['ref'][1:])

    def test_portals(self):
        """NET-1: many portals; those of replication have a WAN port."""
        hits = self.hits('system/net_ips')
        portals = [hit for hit in hits if hit['wan_port'] is None]
        self.assertEqual(
            ['192.0.2.11', '198.51.100.11', '198.51.100.12',
             '198.51.100.75', '192.0.2.12', '198.51.100.13',
             '198.51.100.76', '2001:db8:2::12'],
            [hit['ip_address'] for hit in portals])
        self.assertEqual('255.255.255.192', portals[1]['network_mask'])
        self.assertEqual('ffff:ffff:ffff:ffff::',
                         portals[7]['network_mask'])
        for hit, field in ((portals[0], 'net_portchannel'),
                           (portals[1], 'net_vlan'),
                           (hits[8], 'net_port')):
            self.assertEqual([field], [
                name for name in ('net_port', 'net_portchannel', 'net_vlan')
                if hit[name] is not None])

    def test_seed(self):
        """VG-10: one group is not for users; references are valid."""
        for path, total in (
                ('volumes', 1001), ('volume_groups', 201), ('hosts', 20),
                ('host_iqns', 20), ('snapshots', 400), ('volsnaps', 2000),
                ('volume_groups?name__contains=INDEPENDENT_', 1)):
            joint = '&' if '?' in path else '?'
            self.assertEqual(total, self.get(
                f'{path}{joint}__limit=0')['total'], path)
        self.assertEqual({2}, {
            row['snapshots_count'] for row in self.hits('volume_groups')
            if row['volumes_count']})
        full = self.get('__full')
        found = {f'/{name}/{row["id"]}' for name, rows in full.items()
                 for row in rows if 'id' in row}
        for name in ('volumes', 'snapshots', 'volsnaps', 'host_iqns'):
            for row in full[name]:
                for value in row.values():
                    if isinstance(value, dict) \
                            and not value['ref'].startswith('/stats/'):
                        self.assertIn(value['ref'], found)

    def test_reset(self):
        """Configured ports and behaviors remain, the seed is dropped."""
        self.control.set_behaviors(snapshot_patch=True, page_size=7)
        self.control.reset()
        self.assertEqual(0, self.get('hosts')['total'])
        self.assertEqual(2, self.get('system/net_portchannels')['total'])
        self.assertEqual(10, self.get('system/net_ips')['total'])
        self.assertFalse(self.control.behaviors()['snapshot_patch'])
        self.assertNotEqual(7, self.control.behaviors()['page_size'])


class TestNetwork(EquippedTest):

    def refused_channel(self, node):
        return self.refused('POST', 'system/net_portchannels',
                            {'knode': node})

    def test_port_channels(self):
        """Section 7.4: they consist of free ports of a node."""
        body = {'knode': 'node01', 'mtu': '9000', 'mode': 'active-backup'}
        self.assertEqual('Node node01 has no two free ports',
                         self.refused('POST', 'system/net_portchannels',
                                      body))
        self.assertEqual('No such node: node09',
                         self.refused_channel('node09'))
        wan = self.hits('system/net_ips?ip_address=203.0.113.11')[0]
        self.delete(f'system/net_ips/{wan["id"]}')
        made = self.post('system/net_portchannels', body)
        self.assertEqual(('node01-pc02', 'bond1', '9000'), (
            made['name'], made['eth_name'], made['mtu']))
        self.assertNotIn('mode', made)
        path = f'system/net_portchannels/{made["id"]}'
        self.assertEqual('1500', self.patch(path, {'mtu': '1500'})['mtu'])
        address = self.post('system/net_ips', {
            'ip_address': '192.0.2.99', 'network_mask': '24',
            'service': 'iscsi', 'interface': {'ref': f'/{path}'}})
        self.assertEqual({'ref': f'/{path}'}, address['net_portchannel'])
        self.assertEqual('Port channel node01-pc02 has addresses or VLANs',
                         self.refused('DELETE', path))
        self.delete(f'system/net_ips/{address["id"]}')
        self.delete(path)

    def test_a_port_in_a_channel_is_taken(self):
        port = self.hits('system/net_portchannels')[0]['net_port1']
        for path, body in (
                ('system/net_ips', {
                    'ip_address': '192.0.2.99', 'network_mask': '24',
                    'service': 'iscsi', 'interface': port}),
                ('system/net_vlans', {'interface': port, 'tag': '5'})):
            self.assertEqual(
                'The port belongs to port channel node01-pc01',
                self.refused('POST', path, body))

    def test_leftovers(self):
        """Everything that users added, and no initial objects."""
        self.array.control.reset()
        self.assertEqual({}, self.control.leftovers())
        port = base.ref('system/net_ports', 5)
        vlan = self.post('system/net_vlans', {
            'interface': base.ref('system/net_portchannels', 1), 'tag': '7'})
        address = self.post('system/net_ips', {
            'ip_address': '192.0.2.99', 'network_mask': '24',
            'service': 'iscsi', 'interface': port})
        self.assertEqual(
            {'system/net_ips': [address], 'system/net_vlans': [vlan]},
            self.control.leftovers())

    def test_wan_ports(self):
        """NET-1: one for each replication address, as long as it exists."""
        def names():
            return [hit['name'] for hit in self.hits('system/wan_ports')]

        self.assertEqual(['wan01', 'wan02'], names())
        first, second = self.hits('system/net_ips?ip_address__prefix=203')
        self.delete(f'system/net_ips/{first["id"]}')
        self.assertEqual(['wan02'], names())
        made = self.post('system/net_ips', {
            'ip_address': '203.0.113.11', 'network_mask': '24',
            'service': 'Replication', 'interface': first['net_port']})
        self.assertEqual(['wan02', 'wan01'], names())
        self.assertEqual('wan01', self.get(
            made['wan_port']['ref'][1:])['name'])

    def test_numbers_of_port_channels(self):
        """A name that is still in use is not assigned again."""
        for hit in self.hits('system/net_ips'):
            self.delete(f'system/net_ips/{hit["id"]}')
        body = {'knode': 'node01'}
        one, = [self.post('system/net_portchannels', body)]
        for hit in self.hits('system/net_vlans'):
            self.delete(f'system/net_vlans/{hit["id"]}')
        self.delete('system/net_portchannels/1')
        self.assertEqual('node01-pc02', one['name'])
        self.assertEqual('node01-pc01', self.post(
            'system/net_portchannels', body)['name'])

    def test_vlans(self):
        """Section 7.4: tags are unique per interface; no PATCH."""
        body = {'tag': '7', 'interface': base.ref(
            'system/net_portchannels', 1)}
        made = self.post('system/net_vlans', body)
        self.assertEqual(('node01-pc01.7', 'bond0.7'),
                         (made['name'], made['eth_name']))
        self.assertNotIn('tag', made)
        for tag in ('0', '4095', 'x', '', '07', '7'):
            self.refused('POST', 'system/net_vlans', {**body, 'tag': tag})
        self.refused('PATCH', 'system/net_vlans/1', {}, status=405)
        self.assertEqual('VLAN node01-pc01.101 has addresses',
                         self.refused('DELETE', 'system/net_vlans/1'))
        self.delete(f'system/net_vlans/{made["id"]}')
        self.refused('GET', made['vlan']['ref'][1:], status=404)
