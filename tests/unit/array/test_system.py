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

"""State, version, identity and ports of the array."""

import ddt
import fixtures
from oslotest import base

from cinder_k2.array import system
from cinder_k2 import exceptions
from tests.unit.rest import scripted

GOOD = {'id': 1, 'state': 'ONLINE', 'rest_api_version': '2.2.0',
        'system_id': 'a1b2', 'iscsi_qualified_target_name': 'iqn.k2'}


@ddt.ddt
class SystemTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        system.TOLD.clear()
        self.addCleanup(system.TOLD.clear)

    def array(self, *states):
        """An array that replies with these system states in turn."""
        self.client, self.adapter, self.clock = scripted.client(
            *[scripted.hits({**GOOD, **state}) for state in states])
        return system.System(self.client)

    @ddt.data(None, '', 'new', '2.x', 2.2, 3, True, [], {'v': 1}, '2.2.0-17')
    def test_unreadable_version_is_logged_once(self, version):
        array = self.array(*[{'rest_api_version': version}] * 2)
        array.check()
        array.check()
        self.assertEqual(1, self.log.output.count('reports its REST API'))

    @ddt.data('2.1.9', '1.0', '2', '2.1.99.7', '0')
    def test_old_version_is_refused(self, version):
        array = self.array({'rest_api_version': version})
        self.assertRaisesRegex(exceptions.ArrayNotSupported, '2.2.0',
                               array.check)

    @ddt.data('2.2', '2.2.0', '2.2.0.1', '2.10', '3', '10.0.0')
    def test_supported_version(self, version):
        self.array({'rest_api_version': version}).check()
        self.assertEqual('', self.log.output)

    @ddt.data('online', ' ONLINE ', '', None)
    def test_states_that_are_not_logged(self, state):
        self.array({'state': state}).check()
        self.assertEqual('', self.log.output)

    @ddt.data('Ready', 'OFFLINE', 'x' * 999)
    def test_unknown_state_is_logged_once(self, state):
        array = self.array(*[{'state': state}] * 2)
        array.check()
        array.check()
        self.assertEqual(1, self.log.output.count('not ONLINE'))
        self.assertLess(len(self.log.output), 300)

    @ddt.data(7, [], {'word': 'ONLINE'}, True)
    def test_state_of_another_type(self, state):
        self.array({'state': state}).check()
        self.assertNotIn('not ONLINE', self.log.output)

    @ddt.data(None, 12, [])
    def test_missing_id_is_replaced_by_target_iqn(self, odd):
        array = self.array({'system_id': odd})
        array.check()
        self.assertEqual('iqn.k2', array.known_id)

    def test_array_without_identity(self):
        array = self.array({'system_id': 5,
                            'iscsi_qualified_target_name': None})
        self.assertRaisesRegex(exceptions.ArrayNotSupported, 'neither',
                               array.check)

    def test_reply_without_id_keeps_the_known_id(self):
        """Cinder's rows contain the id, so it must not change."""
        array = self.array({}, {'system_id': 5}, {
            'system_id': None, 'iscsi_qualified_target_name': 'iqn.other'})
        for identity in ('a1b2', 'a1b2', 'iqn.other'):
            array.check()
            self.assertEqual((identity, identity),
                             (array.known_id, array.id))

    def test_target_iqn(self):
        """One call; NET-2."""
        array = self.array({})
        for _ in range(2):
            self.assertEqual(('iqn.k2', 'a1b2'),
                             (array.target_iqn(), array.id))
        self.assertEqual(['GET /system/state'], self.adapter.calls)

    @ddt.data(None, '', 5)
    def test_no_target_iqn(self, iqn):
        array = self.array({'iscsi_qualified_target_name': iqn})
        self.assertRaisesRegex(exceptions.ArrayNotSupported, 'iSCSI target',
                               array.target_iqn)

    def test_ports_without_an_address_are_left_out(self):
        array = self.array()
        self.adapter.script = [
            scripted.hits({'id': 1, 'ip_address': 5},
                          {'id': 2, 'ip_address': '10.0.0.2'},
                          {'id': 3, 'ip_address': '10.0.0.3',
                           'wan_port': 'wan'}),
            scripted.hits({'id': 1}, {'id': 2, 'pwwn': '50:01'})]
        self.assertEqual(['10.0.0.2'], array.iscsi_addresses())
        self.assertEqual(['50:01'], array.fc_wwpns())

    @ddt.data(
        (['ok', 'ok'], [0, 1], []),
        (['ok', 'OK '], [0, 1], []),
        (['ok', None], [0, 1], []),
        (['ok', 5], [0, 1], []),
        (['ok', 'down'], [0], ['down']),
        (['Online', 'x' * 999], [0, 1], ['Online', 'x' * 60]))
    @ddt.unpack
    def test_port_is_left_out_only_if_others_are_ok(
            self, words, used, told):
        """Section 7.4 names no status but "ok"."""
        ports = [f'50:0{number}' for number in range(len(words))]
        array = self.array()
        self.adapter.script = [scripted.hits(*[
            {'id': number, 'pwwn': ports[number], 'status': word}
            for number, word in enumerate(words)])]
        for _ in range(2):
            self.assertEqual([ports[number] for number in used],
                             array.healthy_fc_wwpns())
        for word in told:
            self.assertEqual(1, self.log.output.count(
                f'has status {word}, not ok'))
        self.assertEqual(len(told), self.log.output.count('has status'))
