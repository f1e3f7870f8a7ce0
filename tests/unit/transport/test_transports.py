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

"""Transports, with a double of an array that has only ports."""

import unittest
from unittest import mock

import ddt

from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import transport
from cinder_k2.transport import fc
from cinder_k2.transport import iscsi

IQN = 'iqn.2009-01.com.kaminario:storage.k2.1'
ANY = ['0.0.0.0/0', '::/0']


def array(addresses=(), wwpns=()):
    """An array with these ports."""
    fake = mock.Mock(address='k2.example.org')
    fake.system.target_iqn.return_value = IQN
    fake.system.iscsi_addresses.return_value = list(addresses)
    fake.system.fc_wwpns.return_value = list(wwpns)
    fake.system.healthy_fc_wwpns.return_value = list(wwpns)
    return fake


@ddt.ddt
class ISCSITest(unittest.TestCase):

    def test_properties_for_multipath_and_single_path(self):
        properties = iscsi.ISCSITransport(ANY).targets(
            array(['192.0.2.1', '192.0.2.2', '2001:db8::1']),
            [IQN]).properties(3)
        data = properties['data']
        self.assertEqual('iscsi', properties['driver_volume_type'])
        self.assertEqual(['192.0.2.1:3260', '192.0.2.2:3260',
                          '[2001:db8::1]:3260'], data['target_portals'])
        self.assertEqual([IQN] * 3, data['target_iqns'])
        self.assertEqual([3] * 3, data['target_luns'])
        self.assertEqual('192.0.2.1:3260', data['target_portal'])
        self.assertEqual((IQN, 3, False),
                         (data['target_iqn'], data['target_lun'],
                          data['target_discovered']))

    def test_single_path_hosts_spread_over_the_portals(self):
        addresses = ['192.0.2.1', '192.0.2.2']
        targets = iscsi.ISCSITransport(ANY).targets(array(addresses), [IQN])
        first = {lun: targets.properties(lun)['data'] for lun in (1, 2)}
        self.assertNotEqual(first[1]['target_portal'],
                            first[2]['target_portal'])
        for data in first.values():
            self.assertEqual(data['target_portal'],
                             data['target_portals'][0])
            self.assertEqual(2, len(set(data['target_portals'])))

    @ddt.data((['192.0.2.0/25'], ['192.0.2.1:3260']),
              (['192.0.2.128/25', '198.51.100.0/24'],
               ['192.0.2.200:3260', '198.51.100.1:3260']),
              (['2001:db8::/32'], ['[2001:db8::1]:3260']),
              ([' 192.0.2.1/24 '], ['192.0.2.1:3260', '192.0.2.200:3260']))
    @ddt.unpack
    def test_portals_outside_the_allowed_networks_are_left_out(
            self, cidrs, wanted):
        data = iscsi.ISCSITransport(cidrs).targets(
            array(['192.0.2.1', '192.0.2.200', '198.51.100.1',
                   '2001:db8::1']), [IQN]).properties(0)['data']
        self.assertEqual(wanted, data['target_portals'])

    def test_setup_fails_without_a_portal(self):
        with self.assertRaisesRegex(exceptions.ArrayNotSupported,
                                    'k2_iscsi_cidrs'):
            iscsi.ISCSITransport(['203.0.113.0/24']).check(
                array(['192.0.2.1']))

    def test_invalid_network(self):
        with self.assertRaisesRegex(ValueError, '192.0.2/24'):
            iscsi.ISCSITransport(['192.0.2/24'])

    @ddt.data({}, {'initiator': None}, {'initiator': ''},
              {'wwpns': ['1' * 16]})
    def test_a_connector_needs_an_iqn(self, connector):
        with self.assertRaises(transport.NoInitiators) as caught:
            iscsi.ISCSITransport(ANY).initiators(connector)
        self.assertEqual('initiator', caught.exception.missing)

    def test_host_names_if_names_are_unique(self):
        transport_ = iscsi.ISCSITransport(ANY)
        node, other = ({'host': name, 'initiator': IQN}
                       for name in ('node', 'node.example.com'))
        names = transport_.host_names(node, unique=True)
        self.assertEqual([naming.host('node', [IQN]), naming.host_of_iqn(IQN)],
                         names)
        self.assertNotEqual(
            names[0], transport_.host_names(other, unique=True)[0])

    def test_host_names_if_names_are_not_unique(self):
        """By IQN only; the former name is searched for as well."""
        transport_ = iscsi.ISCSITransport(ANY)
        names = [transport_.host_names({'host': host, 'initiator': IQN},
                                       unique=False)
                 for host in ('node', 'node.example.com')]
        self.assertEqual(names[0][0], names[1][0])
        self.assertEqual([naming.host_of_iqn(IQN), naming.host('node', [IQN])],
                         names[0])


class TwoFabrics:
    """A lookup service with one initiator and one target per fabric."""

    def get_device_mapping_from_network(self, initiators, targets):
        return {f'fabric{n}': {
            'initiator_port_wwn_list': [initiators[n]],
            'target_port_wwn_list': [targets[n]]} for n in (0, 1)}


@ddt.ddt
class FCTest(unittest.TestCase):

    TARGETS = ['50:02:4F:A1:B2:00:01:00', '50:02:4f:a1:b2:00:01:01',
               '50:02:4f:a1:b2:00:01:02']
    HOST = ['21:00:00:24:ff:00:00:01', '21:00:00:24:ff:00:00:02']

    @ddt.data((True, ['2000aa'], ['node', '2000aa']),
              (False, ['20:00:AA', '2000bb'], ['2000aa', 'node']),
              (False, [], ['node']))
    @ddt.unpack
    def test_host_names(self, unique, nodes, names):
        """The first WWNN comes before the host name if that is not unique."""
        self.assertEqual(
            [naming.host(name, self.HOST) for name in names],
            fc.FCTransport(None).host_names(
                {'host': 'node', 'wwpns': self.HOST, 'wwnns': nodes}, unique))

    def test_map_without_lookup_service(self):
        data = fc.FCTransport(None).targets(
            array(wwpns=self.TARGETS), self.HOST).properties(9)['data']
        plain = ['50024fa1b2000100', '50024fa1b2000101', '50024fa1b2000102']
        self.assertEqual(plain, data['target_wwn'])
        self.assertEqual([9] * 3, data['target_luns'])
        self.assertEqual({'21000024ff000001': plain,
                          '21000024ff000002': plain},
                         data['initiator_target_map'])

    def test_map_with_lookup_service(self):
        data = fc.FCTransport(TwoFabrics()).targets(
            array(wwpns=self.TARGETS), self.HOST).properties(9)['data']
        self.assertEqual(['50024fa1b2000100', '50024fa1b2000101'],
                         data['target_wwn'])
        self.assertEqual([9, 9], data['target_luns'])
        self.assertEqual({'21000024ff000001': ['50024fa1b2000100'],
                          '21000024ff000002': ['50024fa1b2000101']},
                         data['initiator_target_map'])

    @ddt.data(['21000024FF000002', '21000024ff000001'],
              ['21:00:00:24:ff:00:00:01', '21000024ff000002',
               '21000024ff000001'])
    def test_wwpns_are_in_the_format_of_the_array(self, wwpns):
        self.assertEqual(self.HOST, fc.FCTransport(None).initiators(
            {'wwpns': wwpns}))

    def test_one_wwpn_may_come_as_a_string(self):
        self.assertEqual(self.HOST[:1], fc.FCTransport(None).initiators(
            {'wwpns': '21000024ff000001'}))

    @ddt.data({}, {'wwpns': []}, {'wwpns': None}, {'initiator': IQN})
    def test_a_connector_needs_wwpns(self, connector):
        with self.assertRaises(transport.NoInitiators) as caught:
            fc.FCTransport(None).initiators(connector)
        self.assertEqual('wwpns', caught.exception.missing)

    def test_setup_fails_without_a_port(self):
        with self.assertRaisesRegex(exceptions.ArrayNotSupported,
                                    'Fibre Channel'):
            fc.FCTransport(None).check(array())
