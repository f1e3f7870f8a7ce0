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

"""Finding a host among those a volume is mapped to."""

import ddt
import testtools

from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import hosts as array_hosts
from cinder_k2.driver.operations import volume_holders
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.driver import autospec

IQN = 'iqn.2024:a'
NAME = naming.host('node1', [IQN])
SIMILAR = naming.host('node1', ['iqn.b'])
SOUGHT = host_identity.Sought((IQN,), (NAME, 'node1'))
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
        self.registry.candidates.return_value = set()
        self.holders = volume_holders.VolumeHolders(self.array, self.registry)
        self.array.volumes.check_unmapped.side_effect = STILL_MAPPED

    def mapped(self, *holders):
        """Map the volume to these hosts and host groups."""
        self.array.mappings.of_volumes.return_value = [
            rest.Mapping(number, holder, BACKING.mappable)
            for number, holder in enumerate(holders)]

    def named(self, host, name):
        """Let the driver own one host, with this name, and no other."""
        self.registry.named.side_effect = (
            lambda id: name if id == host.id else '')


@ddt.ddt
class OwnersTest(HoldersCase):
    """The array does not show which host has the initiators."""

    def shown(self, **initiators):
        """Let the array show these initiators for all hosts."""
        self.registry.initiators_of.side_effect = (
            lambda hosts: {host: initiators for host in hosts})

    @ddt.data([HOST], [GROUP], [None], [GROUP, HOST])
    def test_unidentified_host_or_group_may_be_the_host(self, holders):
        """Nothing shows that it is another host."""
        self.mapped(*holders)
        error = self.assertRaises(exceptions.HostUnknown,
                                  self.holders.owners, BACKING, SOUGHT)
        self.assertIn(f'which host has {IQN}, and none is named {NAME} or '
                      'node1. /volumes/6 is mapped to x. It stays mapped.',
                      str(error))
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.array.volumes.check_unmapped.assert_called_once_with(BACKING)

    def test_host_with_other_initiators_is_another_host(self):
        """Its name does not matter, and is not read."""
        self.mapped(HOST)
        self.shown(**{'iqn.b': 8})
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))
        self.registry.named.assert_not_called()

    def test_host_of_another_attachment(self):
        """Its name is similar, or was given by the in-tree driver."""
        for name in (SIMILAR, 'node3'):
            self.mapped(OTHER)
            self.named(OTHER, name)
            self.assertEqual({}, self.holders.owners(BACKING, SOUGHT, [
                host_identity.Sought(('iqn.b',), (SIMILAR, 'node3'))]))
            self.assertRaises(
                exceptions.HostUnknown, self.holders.owners, BACKING, SOUGHT,
                [host_identity.Sought(('iqn.c',), ('node4',))])

    def test_host_is_found_by_its_initiators(self):
        """INI-5: whatever it is named; the case of the IQN is ignored."""
        self.mapped(HOST, GROUP, None)
        self.shown(**{IQN.upper(): 9, 'iqn.b': 8})
        self.assertEqual({HOST.id: {IQN.upper(): 9, 'iqn.b': 8}},
                         self.holders.owners(BACKING, SOUGHT))
        self.array.volumes.check_unmapped.assert_not_called()

    @ddt.data((NAME, 'former'), ('former', 'node1'))
    def test_host_is_found_by_the_better_name(self, names):
        """The in-tree driver's name comes last: others may have it."""
        self.mapped(OTHER, HOST)
        self.registry.named.side_effect = dict(
            zip((HOST.id, OTHER.id), names)).get
        self.assertEqual({HOST.id: {}}, self.holders.owners(
            BACKING, host_identity.Sought((IQN,), (NAME, 'node1'),
                                          former=('former',))))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_name_of_another_attachments_host(self):
        """Two machines may have the same name without a domain."""
        self.mapped(OTHER)
        self.named(OTHER, 'node1')
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT, [
            host_identity.Sought(('iqn.b',), (SIMILAR, 'node1'))]))

    def grouped(self, group):
        """Map the volume to GROUP; another attachment's host is in ``group``.

        :returns: the other attachments
        """
        self.mapped(GROUP)
        self.registry.candidates.side_effect = (
            lambda sought: set() if sought == SOUGHT else {OTHER.id})
        self.array.mappings.group_of.side_effect = {OTHER.id: group}.get
        return [host_identity.Sought(('iqn.b',), (SIMILAR,))]

    def test_host_group_of_another_attachments_host(self):
        self.assertEqual({}, self.holders.owners(
            BACKING, SOUGHT, self.grouped(GROUP)))

    def test_host_in_a_group_is_found_beside_an_empty_one(self):
        """The empty host has the first name, and is in no group."""
        others = self.grouped(GROUP)
        self.registry.candidates.side_effect = (
            lambda sought: {70, HOST.id} if sought == SOUGHT else {OTHER.id})
        self.array.mappings.group_of.side_effect = {
            HOST.id: GROUP, OTHER.id: GROUP}.get
        self.assertEqual({HOST.id: {}}, self.holders.owners(
            BACKING, SOUGHT, others))

    @ddt.data(rest.Ref('host_groups', 4), None)
    def test_another_host_group(self, group):
        self.assertRaises(exceptions.HostUnknown, self.holders.owners,
                          BACKING, SOUGHT, self.grouped(group))

    def test_mapping_that_does_not_show_whose_it_is(self):
        """It cannot be a mapping of a host that is in no group."""
        others = self.grouped(None)
        self.mapped(None)
        self.assertRaises(exceptions.HostUnknown, self.holders.owners,
                          BACKING, SOUGHT, others)

    def test_host_group_that_the_array_does_not_show(self):
        others = self.grouped(GROUP)
        self.array.mappings.group_of.side_effect = (
            exceptions.HostUnknown('The group is not shown.'))
        error = self.assertRaises(exceptions.HostUnknown,
                                  self.holders.owners, BACKING, SOUGHT, others)
        self.assertIn('/volumes/6 is mapped to x.', str(error))

    def test_volume_is_not_mapped(self):
        self.mapped()
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_volume_was_unmapped(self):
        self.mapped(HOST)
        self.array.volumes.check_unmapped.side_effect = None
        self.assertEqual({}, self.holders.owners(BACKING, SOUGHT))

    def test_missing_volume(self):
        self.assertEqual({}, self.holders.owners(None, SOUGHT))
        self.array.mappings.of_volumes.assert_not_called()


@ddt.ddt
class HostGroupTest(HoldersCase):

    @ddt.data(GROUP, None)
    def test_group_that_the_array_shows(self, group):
        self.array.mappings.group_of.side_effect = {HOST.id: group}.get
        self.assertEqual(group, self.holders.group_of(HOST.id, BACKING))
        self.array.mappings.of_volumes.assert_not_called()

    def unknown(self, *holders):
        """Map the volume; the array does not show the group of the host."""
        self.mapped(*holders)
        self.array.mappings.group_of.side_effect = (
            exceptions.HostUnknown('The group is not shown.'))

    @ddt.data([GROUP], [None, HOST])
    def test_volume_is_mapped_to_a_group(self, holders):
        self.unknown(*holders)
        error = self.assertRaises(exceptions.HostUnknown,
                                  self.holders.group_of, HOST.id, BACKING)
        self.assertIn('not shown. /volumes/6 is mapped to x. It', str(error))
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)

    @ddt.data([], [OTHER])
    def test_volume_is_not_mapped_to_a_group(self, holders):
        """Then the group of the host does not matter."""
        self.unknown(*holders)
        self.assertIsNone(self.holders.group_of(HOST.id, BACKING))
        self.array.volumes.check_unmapped.assert_not_called()

    def test_volume_was_unmapped(self):
        self.unknown(GROUP)
        self.array.volumes.check_unmapped.side_effect = None
        self.assertIsNone(self.holders.group_of(HOST.id, BACKING))

    def test_missing_volume(self):
        self.unknown(GROUP)
        self.assertIsNone(self.holders.group_of(HOST.id, None))
        self.array.mappings.of_volumes.assert_not_called()
