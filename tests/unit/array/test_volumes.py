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

"""Whether a volume was moved, and whether it is mapped."""

from unittest import mock

import ddt

from cinder_k2.array import objects
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.array import recorded

TARGET, OTHER = rest.Ref('volume_groups', 9), rest.Ref('volume_groups', 5)
LOOK = mock.call.volumes.search(volume_group=TARGET)


@ddt.ddt
class MoveTest(recorded.RecordedTest):

    def setUp(self):
        super().setUp()
        self.volumes = volumes.Volumes(self.client)

    def shows(self, changed):
        """Move volume 7; return whether this reply shows the move."""
        self.volumes.move(7, 9, ['cv-1'])
        call, = self.client.volumes.update.call_args_list
        shows = call.kwargs['shows']
        self.assertEqual(mock.call(7, names=['cv-1'], volume_group=TARGET,
                                   shows=shows), call)
        return shows(changed)

    @ddt.data((TARGET, True), (OTHER, False))
    @ddt.unpack
    def test_reply_shows_the_group(self, group, expected):
        self.assertIs(expected, self.shows(
            rest.Volume(7, 'cv-1', volume_group=group)))
        self.assertNotIn(LOOK, self.calls())

    @ddt.data(([7, 8], True), ([8], False), ([], False))
    @ddt.unpack
    def test_reply_does_not_show_the_group(self, listed, expected):
        """VOL-10: the volume is searched for in its new group."""
        self.client.volumes.search.return_value = [
            rest.Volume(id, f'cv-{id}', volume_group=TARGET) for id in listed]
        self.assertIs(expected, self.shows(rest.Volume(
            7, 'cv-1', unread=frozenset({'volume_group'}))))
        self.assertEqual(LOOK, self.calls()[-1])


class MappedTest(recorded.RecordedTest):
    """Mapped volumes are not deleted."""

    def setUp(self):
        super().setUp()
        self.volumes = volumes.Volumes(self.client)
        self.volume = objects.ArrayVolume(volume=7, group=9)

    def hosts(self, *hosts):
        """The array shows mappings to these hosts."""
        self.client.mappings.search.return_value = [
            rest.Mapping(number, host=host, volume=self.volume.mappable)
            for number, host in enumerate(hosts)]

    def assertMapped(self, expected):
        with self.assertRaisesRegex(exceptions.StillMapped, expected):
            self.volumes.check_unmapped(self.volume)

    def test_hosts_and_groups_are_named(self):
        self.client.hosts.get.return_value = rest.Host(1, 'node1')
        self.client.host_groups.get.return_value = rest.HostGroup(2, 'nodes')
        self.hosts(rest.Ref('hosts', 1), rest.Ref('host_groups', 2))
        self.assertMapped('mapped to host group nodes, host node1.')
        self.client.mappings.search.assert_called_once_with(
            volume=self.volume.mappable)

    def test_host_is_not_shown(self):
        """The field is missing, null or of another type."""
        self.hosts(None)
        self.assertMapped('to a host that the array does not name.')

    def test_host_is_gone(self):
        """QRY-10: the mapping was removed, and stays listed."""
        self.client.hosts.get.side_effect = rest.NotFound('gone')
        self.hosts(rest.Ref('hosts', 1))
        self.volumes.check_unmapped(self.volume)
        self.client.host_groups.get.return_value = rest.HostGroup(2, 'nodes')
        self.hosts(rest.Ref('hosts', 1), rest.Ref('host_groups', 2))
        self.assertMapped('mapped to host group nodes.')

    def test_not_mapped(self):
        self.hosts()
        self.volumes.check_unmapped(self.volume)


class FindTest(recorded.RecordedTest):
    """By name, where no ids are known."""

    def setUp(self):
        super().setUp()
        self.volumes = volumes.Volumes(self.client)
        self.client.volumes.find.return_value = rest.Volume(
            7, 'cv-1', unread=frozenset({'volume_group'}))
        self.client.volume_groups.find.return_value = None

    def test_group_is_shown(self):
        self.client.volumes.find.return_value = rest.Volume(
            7, 'cv-1', volume_group=TARGET)
        self.assertEqual(objects.ArrayVolume(volume=7, group=9),
                         self.volumes.find('cv-1'))

    def test_group_is_not_shown(self):
        """Its own group is found by name."""
        self.client.volume_groups.find.return_value = rest.VolumeGroup(
            9, 'cvg-1')
        self.assertEqual(objects.ArrayVolume(volume=7, group=9),
                         self.volumes.find('cv-1'))
        self.assertEqual([mock.call.volume_groups.find(name='cvg-1')],
                         self.calls('volume_groups'))

    def test_volume_of_unknown_group_is_not_taken_for_gone(self):
        """A member of a consistency group has no group of its own."""
        error = self.raised(exceptions.GroupNotSupported,
                            self.volumes.find, 'cv-1', 'rcv-1')
        self.assertEqual(
            'The array at k2.example.org does not show the volume group of '
            'volume cv-1, which has none of its own.', str(error))
        self.assertEqual([], self.calls('snapshots'))

    def test_no_such_volume(self):
        self.client.volumes.find.return_value = None
        self.client.snapshots.find.return_value = None
        self.assertIsNone(self.volumes.find('cv-1'))
