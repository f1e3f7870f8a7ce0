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

"""Volumes and their groups."""

import dataclasses
from unittest import mock

import ddt

from cinder_k2.array import objects
from cinder_k2.array import volumes
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.array import recorded
from tests.unit import lost
from tests.unit import simulated

GIB = simulated.GIB
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
    """Volumes are found by name where no ids are known."""

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


class GroupTest(simulated.SimulatedTest):
    """Groups that hold one volume."""

    def setUp(self):
        super().setUp()
        self.volumes = self.array.volumes
        self.group = self.volumes.create_group('cvg-1', True)
        self.sim.control.clear_journal()

    def create(self, dedup=True):
        return self.volumes.create_group('cvg-1', dedup)

    def test_leftover_is_taken_over(self):
        self.assertEqual(self.group, self.create())

    def test_group_with_other_deduplication_is_not_taken_over(self):
        """VG-4: it cannot be changed."""
        self.assertRaises(rest.Refused, self.create, dedup=False)

    def test_group_whose_deduplication_is_not_shown(self):
        with mock.patch.object(
                self.client.volume_groups, 'find', autospec=True,
                return_value=rest.VolumeGroup(self.group, name='cvg-1')):
            self.assertEqual(self.group, self.create(dedup=False))

    def test_group_with_a_volume_is_not_taken_over(self):
        self.assertTrue(self.volumes.is_empty(self.group))
        self.volumes.create('cv-1', GIB, self.group)
        self.assertFalse(self.volumes.is_empty(self.group))
        self.assertRaises(rest.Refused, self.create)

    def test_refused_deletion_is_repeated(self):
        """VOL-17: deletions in the group may still be going on."""
        for times, seconds in ((99, 10), (3, 3)):
            self.sim.control.clear_faults()
            self.sim.control.add_fault(
                method='DELETE', path='volume_groups/*', kind='status',
                status=400, times=times)
            begin = self.clock.monotonic()
            if times == 3:
                self.assertTrue(self.volumes.delete_group(self.group, []))
            else:
                self.assertRaises(rest.Refused, self.volumes.delete_group,
                                  self.group, [])
            self.assertEqual(seconds, self.clock.monotonic() - begin)
        self.assertFalse(self.volumes.delete_group(self.group, []))

    def test_names(self):
        volume = self.volumes.create('cv-1', GIB, self.group)
        other = self.volumes.create_group('cvg-2', True)
        self.volumes.create('cv-2', GIB, other)
        self.assertEqual({volume: 'cv-1'}, self.volumes.names_in(self.group))
        self.assertEqual((volume, None), (
            self.volumes.find_volume('cv-1'),
            self.volumes.find_volume('cvg-1')))
        self.assertEqual((self.group, None), (
            self.volumes.find_group('cvg-1'),
            self.volumes.find_group('cv-1')))


class DeleteTest(simulated.SimulatedTest):
    """What keeps a volume from being deleted."""

    def setUp(self):
        super().setUp()
        self.sim.control.set_behaviors(reuse_ids=True, sequences=False)
        self.array.snapshots.check()
        self.volumes = self.array.volumes
        self.volume = self.make('cv-1')
        self.other = self.volumes.create('cv-2', GIB, self.volume.group)

    def make(self, name):
        group = self.volumes.create_group(f'g-{name}', True)
        return objects.ArrayVolume(
            group=group, volume=self.volumes.create(name, GIB, group))

    def refused(self, error):
        """The error when the volume is deleted."""
        return str(self.assertRaises(error, self.volumes.delete,
                                     self.volume.volume, self.volume.group))

    def test_snapshots_are_named(self):
        """VOL-7: those that hold this volume."""
        self.volumes.delete(self.other, self.volume.group)
        for name in ('s2', 's1'):
            self.array.snapshots.create(name, self.volume)
        other = self.volumes.create('cv-2', GIB, self.volume.group)
        error = self.refused(exceptions.ObjectInUse)
        self.assertIn(f'Volume {self.volume.volume} ', error)
        self.assertIn(': g-cv-1:s1, g-cv-1:s2.', error)
        self.volumes.check_unused(other, self.volume.group)

    def test_hosts_are_named(self):
        """VOL-6."""
        host = self.client.hosts.create(name='node1', type='Linux').id
        self.array.mappings.map(self.volume, host)
        self.assertIn('host node1', self.refused(exceptions.StillMapped))

    def test_missing_volume(self):
        for gone in (True, False):
            self.assertIs(gone, self.volumes.delete(
                self.other, self.volume.group, ['cv-2']))

    def test_lost_reply_and_reused_id(self):
        """OBJ-7: the volume of another group stays."""
        group = self.volumes.create_group('theirs', True)

        def give_away():
            self.assertEqual(self.other, self.volumes.create(
                'v', GIB, group))
        with lost.on_request('DELETE', '/volumes', act=give_away,
                             error=rest.Unreachable):
            self.volumes.delete(self.other, self.volume.group)
        self.assertEqual({self.other: 'v'}, self.volumes.names_in(group))


@ddt.ddt
class RoomTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.group = self.array.volumes.create_group('cvg-1', True)
        self.array.volumes.create('cv-1', GIB, self.group)

    @ddt.data(({}, True), ({'free': 0}, False), ({'state': 'FULL'}, False),
              ({'state': None}, True))
    @ddt.unpack
    def test_capacity(self, fields, room):
        shown = dataclasses.replace(self.client.capacity(), **fields)
        with mock.patch.object(self.client, 'capacity', autospec=True,
                               return_value=shown):
            self.assertIs(room, self.array.volumes.has_room('cv-1'))

    def test_quota(self):
        """VOL-11."""
        self.client.volume_groups.update(self.group, quota=2 * GIB)
        self.assertFalse(self.array.volumes.has_room('cv-1'))
        self.assertTrue(self.array.volumes.has_room('cv-2'))


class KnownRequestsTest(simulated.SimulatedTest):
    """Arrays that read no volume by its id, and only one page of a list."""

    profile = 'known'

    def test_size(self):
        """The volume is searched for in its group."""
        self.sim.control.set_behaviors(page_size=1)
        for name in ('a', 'b'):
            self.array.volumes.create(
                name, GIB, self.array.volumes.create_group(name, True))
        group = self.array.volumes.create_group('cvg-1', True)
        volume = self.array.volumes.create('cv-1', 3 * GIB, group)
        self.assertEqual(3 * GIB, self.array.volumes.size(volume, group))
        self.assertRaises(rest.NotFound, self.array.volumes.size, 999, group)


class ViewTest(simulated.SimulatedTest):
    """Views that back volumes, found by their names."""

    def setUp(self):
        super().setUp()
        self.array.snapshots.check()
        self.volumes = self.array.volumes
        group = self.volumes.create_group('cvg-1', True)
        self.first, self.second = [
            self.volumes.create(name, GIB, group) for name in ('cv-1', 'cv-2')]
        self.snapshot = dataclasses.replace(
            self.array.snapshots.create('ccs-1', objects.ArrayVolume(
                group=group, volume=self.first)), volume=self.second)
        self.view = self.array.snapshots.create_view('cv-3', self.snapshot,
                                                     lasting=True)

    def test_of_several_volumes(self):
        """VSN-3: the image of one of them counts."""
        image, = self.client.volsnaps.search(
            snapshot=rest.Ref('snapshots', self.view.view),
            source=self.client.volumes.ref(self.second))
        self.assertEqual((image.id, self.second), (
            self.view.volsnap, self.view.origin))
        self.assertRaises(exceptions.ObjectMissing, self.volumes.find_view,
                          'cv-3')

    def test_of_the_only_volume(self):
        """Its image counts, whatever the image shows as its source."""
        group = self.volumes.create_group('cvg-4', True)
        source = objects.ArrayVolume(
            group=group, volume=self.volumes.create('cv-4', GIB, group))
        view = self.array.snapshots.create_view(
            'cv-5', dataclasses.replace(
                self.array.snapshots.create('ccs-4', source), volume=999),
            lasting=True)
        for find in self.volumes.find_view, self.volumes.find:
            self.assertEqual(view, find('cv-5'))
        self.assertIsNone(self.volumes.find_view('cv-6'))

    def test_images_show_late(self):
        """OBJ-6."""
        found = self.client.snapshots.find(short_name='cv-3')
        search, late = self.client.volsnaps.search, [[], []]
        with mock.patch.object(
                self.client.volsnaps, 'search', autospec=True,
                side_effect=lambda **equal: (
                    late.pop() if late else search(**equal))):
            self.assertEqual(self.view, volumes.view_backing(
                self.client, found, volume=self.second))
        self.assertEqual([], late)
