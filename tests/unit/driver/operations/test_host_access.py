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
"""How the host of a connector is identified and held."""

from unittest import mock

import ddt
import testtools

from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import host_holds
from cinder_k2 import transport
from tests.unit.driver import autospec
from tests.unit.driver import rows

IQN = 'iqn.2024:a'
WWPN = '50000000000000aa'


@ddt.ddt
class HostAccessTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.array = autospec.array(self.journal)
        self.transport = autospec.Double(transport.Transport)
        self.transport.initiators.return_value = [IQN]
        self.transport.host_names.return_value = ['own', 'former']
        self.holds = autospec.Double(host_holds.HostHolds)
        self.holds.hold.side_effect = self.journal.context(
            'hold', mock.sentinel.hold)
        autospec.replace(self, host_holds, 'HostHolds', lambda: self.holds)

    def make(self, unique_fqdn_network=True):
        return host_access.HostAccess(self.array, self.transport,
                                      unique_fqdn_network)

    def test_host_registry(self):
        self.assertIs(self.transport.hosts.return_value, self.make().registry)
        self.transport.hosts.assert_called_once_with(self.array)

    @ddt.data(
        (True, {'host': 'node', 'initiator': 'iqn.xyz'}, 'node'),
        (True, {'initiator': 'iqn.xyz'}, 'iqn_xyz'),
        (False, {'host': 'node', 'initiator': 'iqn.xyz'}, 'zyx_nqi'),
        (False, {'host': 'node', 'wwnns': ['5001', '6001']}, '1005'),
        (True, {'wwnns': ['5001']}, '5001'),
        (False, {'host': 'node', 'wwnns': []}, None),
        (False, {'host': 'node'}, None))
    @ddt.unpack
    def test_host_names(self, unique, connector, in_tree):
        """The driver's own names come before the in-tree driver's."""
        sought = self.make(unique).sought(connector)
        self.assertEqual((IQN,), sought.initiators)
        self.transport.initiators.assert_called_once_with(connector)
        self.transport.host_names.assert_called_once_with(connector, unique)
        self.assertEqual(('own', *([in_tree] if in_tree else [])),
                         sought.names)
        self.assertEqual(('former',), sought.former)

    def test_connector_without_initiators_and_names(self):
        self.transport.initiators.return_value = []
        self.assertEqual(host_identity.Sought((), ('own',), ('former',)),
                         self.make(unique_fqdn_network=False).sought({}))

    def test_deadline_starts_when_the_host_is_held(self):
        """A caller that waits only a few seconds gets a short deadline."""
        with self.make().held((IQN,), 'a volume', 5) as hold:
            self.assertIs(mock.sentinel.hold, hold)
        self.assertEqual(
            ['+hold', '+probe_deadline', '-probe_deadline', '-hold'],
            [event.split()[0] for event in self.journal.events])
        self.holds.hold.assert_called_once_with(
            self.array.system.id, [IQN], 'a volume', 5, alone=False)

    def test_deadline_without_a_timeout(self):
        with self.make().held((IQN,)):
            pass
        self.assertEqual(['+deadline fresh=True', '-deadline'],
                         self.journal.events[1:-1])


@ddt.ddt
class SubjectTest(testtools.TestCase):

    @ddt.data((True, True, (rows.volume().id, True)),
              (False, True, ('/volumes/6', False)), (False, False, None))
    @ddt.unpack
    def test_subject_identifies_the_attached_volume(
            self, has_row, has_backing, expected):
        """Attaches of the same volume do not share a hold."""
        backing = ArrayVolume(group=5, volume=6) if has_backing else None
        self.assertEqual(expected, host_access.subject(
            rows.volume(backing) if has_row else None, backing))
