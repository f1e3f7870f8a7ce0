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

"""What has a volume: what is asked of the array, and what is not known."""

import ddt
import testtools

from cinder_k2.array import ArrayVolume
from cinder_k2.array import hosts as array_hosts
from cinder_k2.driver.operations import volume_holders
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec

IQN = 'iqn.2024:a'
NAME = naming.host('node1', [IQN])
SIMILAR = naming.host('node1', ['iqn.b'])
SOUGHT = array_hosts.Sought((IQN,), (NAME, 'node1'))
BACKING = ArrayVolume(group=5, volume=6)
HOST, OTHER = rest.Ref('hosts', 71), rest.Ref('hosts', 72)
GROUP = rest.Ref('host_groups', 3)
STILL_MAPPED = exceptions.StillMapped('/volumes/6', 'is mapped to x.')


class HoldersCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.array = autospec.array(autospec.Journal(), 'mappings', 'volumes')
        self.registry = autospec.Double(array_hosts.Hosts)
        self.registry.initiators_of.return_value = {}
        self.holders = volume_holders.VolumeHolders(self.array, self.registry)
        self.array.volumes.check_unmapped.side_effect = STILL_MAPPED

    def mapped(self, *holders):
        """The volume is mapped to these hosts and host groups."""
        self.array.mappings.of_volumes.return_value = [
            rest.Mapping(number, holder, BACKING.mappable)
            for number, holder in enumerate(holders)]

    def named(self, host, name):
        """A host that this driver made has this name, the others have none."""
        self.registry.ours.side_effect = {
            host.id: rest.Host(host.id, name)}.get


@ddt.ddt
class OwnersTest(HoldersCase):
    """The array does not show which host has the initiators."""

    def setUp(self):
        super().setUp()
        self.named(OTHER, naming.host('node2', ['iqn.b']))

    def shown(self, **initiators):
        """The array shows that all hosts have these initiators."""
        self.registry.initiators_of.side_effect = (
            lambda hosts: {host: initiators for host in hosts})

    @ddt.data([HOST], [GROUP], [None], [OTHER, HOST])
    def test_may_have_the_volume(self, holders):
        """Nobody knows what these are."""
        self.mapped(*holders)
        error = self.assertRaises(exceptions.HostUnknown,
                                  self.holders.owners, BACKING, SOUGHT)
        self.assertIn(f'which host has {IQN}, and none is named {NAME} or '
                      'node1. /volumes/6 is mapped to x. It stays mapped.',
                      str(error))
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.array.volumes.check_unmapped.assert_called_once_with(BACKING)

    def test_similar_name(self):
        """It may have been registered with other initiators."""
        self.mapped(OTHER)
        self.named(OTHER, SIMILAR)
        self.assertRaises(exceptions.HostUnknown, self.holders.owners,
                          BACKING, SOUGHT)

    def test_similar_name_and_other_initiators(self):
        self.mapped(OTHER)
        self.named(OTHER, SIMILAR)
        self.shown(**{'iqn.b': 8})
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_host_of_others_with_other_initiators(self):
        """It may have those of this host as well, under another name."""
        self.mapped(HOST)
        self.shown(**{'iqn.b': 8})
        self.assertRaises(exceptions.HostUnknown, self.holders.owners,
                          BACKING, SOUGHT)

    def test_shown_initiators(self):
        """INI-5: found whatever it is named, and the case of its IQN."""
        self.mapped(HOST, GROUP, None)
        self.shown(**{IQN.upper(): 9, 'iqn.b': 8})
        self.assertEqual({HOST.id: {IQN.upper(): 9, 'iqn.b': 8}},
                         self.holders.owners(BACKING, SOUGHT))
        self.array.volumes.check_unmapped.assert_not_called()

    @ddt.data([], [OTHER])
    def test_without_the_volume(self, holders):
        """A host that the driver named otherwise is another one."""
        self.mapped(*holders)
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_unmapped_meanwhile(self):
        self.mapped(HOST)
        self.array.volumes.check_unmapped.side_effect = None
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))

    def test_volume_that_is_gone(self):
        self.assertEqual({}, self.holders.owners(None, SOUGHT))
        self.array.mappings.of_volumes.assert_not_called()


@ddt.ddt
class GroupTest(HoldersCase):

    @ddt.data(GROUP, None)
    def test_known(self, group):
        self.array.mappings.group_of.side_effect = {HOST.id: group}.get
        self.assertEqual(group, self.holders.group_of(HOST.id, BACKING))
        self.array.mappings.of_volumes.assert_not_called()

    def unknown(self, *holders):
        """The array does not show the group of the host."""
        self.mapped(*holders)
        self.array.mappings.group_of.side_effect = (
            exceptions.HostUnknown('The group is not shown.'))

    @ddt.data([GROUP], [None, HOST])
    def test_some_group_has_the_volume(self, holders):
        self.unknown(*holders)
        error = self.assertRaises(exceptions.HostUnknown,
                                  self.holders.group_of, HOST.id, BACKING)
        self.assertIn('not shown. /volumes/6 is mapped to x. It', str(error))
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)

    @ddt.data([], [OTHER])
    def test_no_group_has_the_volume(self, holders):
        """Then it does not matter which one the host is in."""
        self.unknown(*holders)
        self.assertIsNone(self.holders.group_of(HOST.id, BACKING))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_unmapped_meanwhile(self):
        self.unknown(GROUP)
        self.array.volumes.check_unmapped.side_effect = None
        self.assertIsNone(self.holders.group_of(HOST.id, BACKING))

    def test_volume_that_is_gone(self):
        self.unknown(GROUP)
        self.assertIsNone(self.holders.group_of(HOST.id, None))
        self.array.mappings.of_volumes.assert_not_called()
