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


import contextlib
import dataclasses
import itertools
from unittest import mock

import ddt

from cinder_k2.array import mappings
from cinder_k2 import exceptions
from cinder_k2.flows import volumes
from cinder_k2 import polling
from cinder_k2 import rest
import k2_sim
from tests.unit import lost
from tests.unit import simulated

GIB = simulated.GIB


@contextlib.contextmanager
def without_field(field):
    """Leave a field out of each mapping that is read."""
    def read(cls, data, *args):
        return rest.records.Record.from_json.__func__(
            cls, {name: data[name] for name in data if name != field}, *args)

    with mock.patch.object(rest.Mapping, 'from_json', classmethod(read)):
        yield


class MappingsTest(simulated.SimulatedTest):
    """Has two hosts, and a volume."""

    def setUp(self):
        super().setUp()
        self.mappings = self.array.mappings
        self.host = self.client.hosts.create(name='one', type='Linux').id
        self.other = self.client.hosts.create(name='two', type='Linux').id
        self.volume = self.make('v')

    def make(self, name):
        return volumes.create(self.array, name=name, group_name=f'{name}-g',
                              size=GIB, dedup=True)

    def make_view(self):
        self.array.snapshots.check()
        return self.array.snapshots.create_view(
            'view', self.array.snapshots.create('snapshot', self.volume),
            lasting=True)

    def another_client(self):
        """Return another client of the array, which loses no replies."""
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password='admin'),
            adapter=k2_sim.RequestsAdapter(self.sim), clock=self.clock)
        self.addCleanup(client.close)
        return client

    def host_ref(self, host):
        return self.client.hosts.ref(host)


class MapTest(MappingsTest):

    def test_one_call(self):
        self.sim.control.clear_journal()
        self.assertEqual(1, self.mappings.map(self.volume, self.host))
        self.assertEqual(['POST mappings'], self.calls())

    def test_existing_mapping(self):
        """MAP-8: its LUN is found, not that of another host or volume."""
        second = self.make('second')
        self.mappings.map(self.volume, self.other)
        self.mappings.map(second, self.host)
        self.assertEqual(2, self.mappings.map(self.volume, self.host))
        for look_first, calls in ((True, ['GET mappings']),
                                  (False, ['POST mappings', 'GET mappings'])):
            self.sim.control.clear_journal()
            self.assertEqual(2, self.mappings.map(
                self.volume, self.host, look_first=look_first))
            self.assertEqual(calls, self.calls())

    def test_look_first_finds_nothing(self):
        self.sim.control.clear_journal()
        self.assertEqual(1, self.mappings.map(
            self.volume, self.host, look_first=True))
        self.assertEqual(['GET mappings', 'POST mappings'], self.calls())

    def test_refused(self):
        """The host is not a member of a host group."""
        with mock.patch.object(self.client.mappings, 'create', autospec=True,
                               side_effect=rest.Refused('full')):
            error = self.assertRaises(rest.Refused, self.mappings.map,
                                      self.volume, self.host)
        self.assertIn('full', str(error))

    def test_lun_of_a_view(self):
        """MAP-3: it is that of the volsnap, on this host."""
        view = self.make_view()
        self.mappings.map(self.volume, self.host)
        self.mappings.map(view, self.other)
        self.assertEqual(2, self.mappings.map(view, self.host))
        self.assertEqual(1, self.mappings.map(view, self.other,
                                              look_first=True))

    def test_lun_that_shows_late(self):
        hidden, find = [None, None], self.client.mappings.find
        view = self.make_view()
        with mock.patch.object(
                self.client.mappings, 'find', autospec=True,
                side_effect=lambda **conditions: (
                    hidden.pop() if hidden else find(**conditions))):
            self.assertEqual(1, self.mappings.map(view, self.host))
        self.assertEqual([], hidden)

    def test_lun_that_never_shows(self):
        view = self.make_view()
        begin = self.clock.monotonic()
        with mock.patch.object(self.client.mappings, 'find', autospec=True,
                               return_value=None):
            error = self.assertRaises(polling.WaitTimeout, self.mappings.map,
                                      view, self.host)
        self.assertIn(f'LUN of {view.mappable} in mapping', str(error))
        self.assertAlmostEqual(10, self.clock.monotonic() - begin, delta=0.9)

    def test_lun_missing_in_the_reply(self):
        """The mapping itself has it."""
        create = self.client.mappings.create
        with mock.patch.object(
                self.client.mappings, 'create', autospec=True,
                side_effect=lambda **fields: dataclasses.replace(
                    create(**fields), lun=None)):
            self.assertEqual(1, self.mappings.map(self.volume, self.host))

    def test_member_of_a_host_group(self):
        """MAP-6: through the group, once for all members."""
        group = self.client.host_groups.create(name='cluster')
        members = [self.client.hosts.create(
            name=name, type='Linux', host_group=group.ref).id
            for name in ('a', 'b')]
        self.mappings.map(self.make('second'), members[0])
        for member in members:
            self.assertEqual(2, self.mappings.map(self.volume, member))
            self.assertEqual(group.ref, self.mappings.group_of(member))
        self.assertIsNone(self.mappings.group_of(self.host))
        self.assertEqual([group.ref] * 2, [
            each.host for each in self.client.mappings.search()])

    def test_host_group_is_not_shown(self):
        """The field is missing or of another type; null means no group."""
        host = rest.Host(self.host, 'one', unread=frozenset({'host_group'}))
        with mock.patch.object(self.client.hosts, 'get', autospec=True,
                               return_value=host):
            error = self.assertRaises(exceptions.HostUnknown,
                                      self.mappings.group_of, self.host)
        self.assertIn('whether host one is in', str(error))

    def test_lost_reply_to_the_mapping_of_a_host_group(self):
        """OBJ-7: the host is looked up before the group is mapped again."""
        group = self.client.host_groups.create(name='cluster')
        member = self.client.hosts.create(name='a', type='Linux',
                                          host_group=group.ref).id
        verify = mock.Mock(side_effect=rest.OtherObject('another'))
        with lost.on_request('POST', '/mappings', act=lambda: None, after=1,
                             sent=False, error=rest.Unreachable):
            self.assertRaises(rest.OtherObject, self.mappings.map,
                              self.volume, member, verify=verify)
        self.assertEqual([], self.client.mappings.search())


@ddt.ddt
class UnmapTest(MappingsTest):

    def setUp(self):
        super().setUp()
        self.second = self.make('second')
        for volume in (self.volume, self.second):
            self.mappings.map(volume, self.other)
        self.mappings.map(self.volume, self.host)

    def left(self):
        return {(each.host.id, each.volume.id)
                for each in self.client.mappings.search()}

    def some(self, *replies):
        """Have the array list these in turn, and the last ones repeatedly."""
        *first, last = replies
        return mock.patch.object(
            self.client.mappings, 'some', autospec=True,
            side_effect=itertools.chain(first, itertools.repeat(last)))

    def test_the_last_volume(self):
        self.sim.control.clear_journal()
        self.assertEqual(mappings.Unmapped(found=True, busy=False),
                         self.mappings.unmap(self.volume, self.host))
        self.assertEqual(2, len(self.calls()), self.calls())
        self.assertEqual({(self.other, self.volume.volume),
                          (self.other, self.second.volume)}, self.left())

    def test_one_of_two(self):
        self.sim.control.clear_journal()
        self.assertEqual(mappings.Unmapped(found=True, busy=True),
                         self.mappings.unmap(self.volume, self.other))
        self.assertEqual(2, len(self.calls()), self.calls())
        self.assertEqual({(self.host, self.volume.volume),
                          (self.other, self.second.volume)}, self.left())

    def test_volume_not_mapped_to_the_host(self):
        self.sim.control.clear_journal()
        self.assertEqual(mappings.Unmapped(found=False, busy=True),
                         self.mappings.unmap(self.second, self.host))
        self.assertEqual(['GET mappings'], self.calls())

    def test_missing_volume(self):
        self.assertEqual(mappings.Unmapped(found=False, busy=True),
                         self.mappings.unmap(None, self.host))
        self.assertEqual(3, len(self.left()))

    def test_concurrent_unmapping(self):
        """With ``shared``, the remaining mappings are read after the unmap."""
        delete = self.client.mappings.delete

        def meanwhile(id, **identity):
            delete(id, **identity)
            for each in self.client.mappings.search(
                    host=self.host_ref(self.other)):
                delete(each.id, host=each.host, volume=each.volume)

        for shared, busy in ((False, True), (True, False)):
            with mock.patch.object(self.client.mappings, 'delete',
                                   autospec=True, side_effect=meanwhile):
                self.assertEqual(
                    mappings.Unmapped(found=True, busy=busy),
                    self.mappings.unmap(self.volume, self.other,
                                        shared=shared))
            for volume in (self.volume, self.second):
                self.mappings.map(volume, self.other, look_first=True)

    def test_shared_and_still_busy(self):
        self.assertTrue(self.mappings.unmap(self.volume, self.other,
                                            shared=True).busy)

    @ddt.data(([], False), ([rest.Mapping(id=999)], True))
    def test_mapping_not_in_the_list(self, shown):
        """It is then searched for by host and volume."""
        with self.some(shown), mock.patch.object(
                self.client.mappings, 'search', autospec=True,
                side_effect=self.client.mappings.search) as search:
            done = self.mappings.unmap(self.volume, self.host)
        search.assert_called_once_with(host=self.host_ref(self.host),
                                       volume=self.volume.mappable)
        self.assertTrue(done.found)
        self.assertEqual({(self.other, self.volume.volume),
                          (self.other, self.second.volume)}, self.left())

    def test_more_than_one_page(self):
        """Further pages mean that the host is busy."""
        found = self.client.mappings.search(host=self.host_ref(self.host))
        with self.some((found, False)):
            self.assertEqual(mappings.Unmapped(found=True, busy=True),
                             self.mappings.unmap(self.volume, self.host))

    def test_another_mapping_without_fields(self):
        """The list is read again: that mapping may be gone like the first."""
        found, = self.client.mappings.search(host=self.host_ref(self.host))
        with self.some(([found, rest.Mapping(id=999)], True), ([], True)):
            self.assertEqual(mappings.Unmapped(found=True, busy=False),
                             self.mappings.unmap(self.volume, self.host))
        self.assertEqual(2, len(self.left()))

    def test_entries_of_volsnaps_go_with_their_view(self):
        """MAP-4."""
        view = self.make_view()
        self.mappings.unmap(self.volume, self.host)
        self.mappings.map(view, self.host)
        self.assertEqual(mappings.Unmapped(found=True, busy=False),
                         self.mappings.unmap(view, self.host))
        self.assertFalse(self.mappings.is_mapped(self.host))

    def test_is_mapped(self):
        self.assertTrue(self.mappings.is_mapped(self.host))
        self.mappings.unmap(self.volume, self.host)
        self.assertFalse(self.mappings.is_mapped(self.host))

    @ddt.data('unmap', 'unmap_from_group', 'of_volumes')
    def test_lost_reply_and_reused_id(self, way):
        """Even if the array does not show the volume of a mapping."""
        self.sim.control.set_behaviors(reuse_ids=True, sequences=False)
        self.mappings.unmap(self.volume, self.host)
        holder = (self.client.host_groups.create(name='cluster').ref
                  if way == 'unmap_from_group' else self.host_ref(self.host))
        mine = self.client.mappings.create(host=holder,
                                           volume=self.volume.mappable)
        other = self.another_client()

        def give_away():
            theirs = other.mappings.create(host=holder,
                                           volume=self.second.mappable)
            self.assertEqual(mine.id, theirs.id)

        with lost.on_request('DELETE', '/mappings', act=give_away,
                             error=rest.Unreachable), without_field('volume'):
            if way == 'unmap':
                self.assertTrue(self.mappings.unmap(self.volume,
                                                    self.host).found)
            elif way == 'unmap_from_group':
                self.mappings.unmap_from_group(self.volume, holder)
            else:
                self.mappings.delete(
                    mapping for mapping in self.mappings.of_volumes(
                        self.volume.mappable) if mapping.host == holder)
        self.assertEqual([self.second.mappable], [
            each.volume for each in other.mappings.search(host=holder)])

    def test_lost_reply_and_id_of_another_hosts_mapping(self):
        """OBJ-7: another host has been given the volume since."""
        self.sim.control.set_behaviors(reuse_ids=True, sequences=False)
        self.mappings.unmap(self.volume, self.host)
        third = self.client.hosts.create(name='three', type='Linux').id
        mine = self.client.mappings.create(host=self.host_ref(self.host),
                                           volume=self.volume.mappable)
        other = self.another_client()

        def give_away():
            theirs = other.mappings.create(host=self.host_ref(third),
                                           volume=self.volume.mappable)
            self.assertEqual(mine.id, theirs.id)

        with lost.on_request('DELETE', '/mappings', act=give_away,
                             error=rest.Unreachable):
            self.mappings.unmap(self.volume, self.host)
        self.assertIn((third, self.volume.volume), self.left())
        self.assertNotIn((self.host, self.volume.volume), self.left())

    def test_unmap_from_host_group(self):
        """Other volumes and other holders keep their mappings."""
        group = self.client.host_groups.create(name='cluster')
        for volume in (self.volume, self.second):
            self.client.mappings.create(host=group.ref,
                                        volume=volume.mappable)
        self.mappings.unmap_from_group(self.volume, group.ref)
        self.assertEqual([self.second.mappable], [
            each.volume for each in self.client.mappings.search(
                host=group.ref)])
        self.assertEqual(4, self.client.mappings.count())


class ManyTest(MappingsTest):
    """Several volumes and hosts at once."""

    def setUp(self):
        super().setUp()
        self.second, self.third = self.make('second'), self.make('third')
        self.mappings.map(self.volume, self.host)
        self.mappings.map(self.second, self.other)
        self.sim.control.clear_journal()

    def hide_pages(self):
        """Have the array show only the first mapping of each list."""
        self.sim.control.set_behaviors(page_size=1)
        self.client.capabilities._verdicts.pop('paging', None)
        self.client.capabilities.refuse('paging', rest.Refused('no'))

    def test_only_requested_mappings_are_read(self):
        """Otherwise an array with many mappings would send them all."""
        with mock.patch.object(
                self.client.mappings, 'some', autospec=True,
                return_value=([], True)) as some:
            self.mappings.mapped([1])
            self.mappings.hosts_in_use([2])
        self.assertEqual([
            mock.call(rest.query.one_of(
                'volume', {self.client.volumes.ref(1)})),
            mock.call(rest.query.one_of('host', [self.host_ref(2)]))],
            some.mock_calls)

    def test_mappings_of_volumes(self):
        self.assertEqual([self.volume.mappable], [
            each.volume for each in self.mappings.of_volumes(
                self.volume.mappable, self.third.mappable)])

    def test_volume_of_a_mapping_is_not_shown(self):
        """It is the volume that was searched for, if that was only one."""
        for others, shown in (((), self.volume.mappable),
                              ((self.third.mappable,), None)):
            with mock.patch.object(
                    self.client.mappings, 'search', autospec=True,
                    return_value=[rest.Mapping(id=1)]):
                found, = self.mappings.of_volumes(self.volume.mappable,
                                                  *others)
            self.assertEqual(shown, found.volume)

    def test_mapped_volumes(self):
        self.assertEqual({self.volume.volume}, self.mappings.mapped(
            [self.volume.volume, self.third.volume]))

    def test_hosts_that_have_volumes(self):
        idle = self.client.hosts.create(name='idle', type='Linux').id
        self.assertEqual({self.host, self.other},
                         self.mappings.hosts_in_use([self.host, self.other,
                                                     idle]))

    def test_mappings_without_fields(self):
        with mock.patch.object(self.client.mappings, 'some', autospec=True,
                               return_value=([rest.Mapping(id=1)], True)):
            self.assertEqual({1, 2}, self.mappings.mapped([1, 2]))
            self.assertEqual({1, 2}, self.mappings.hosts_in_use([1, 2]))

    def test_incomplete_list(self):
        """Hosts without a mapping in it are searched for one by one."""
        idle = self.client.hosts.create(name='idle', type='Linux').id
        self.hide_pages()
        self.sim.control.clear_journal()
        self.assertEqual({self.host, self.other}, self.mappings.hosts_in_use(
            [self.host, self.other, idle]))
        self.assertEqual(3, len(self.calls()), self.calls())

    def test_incomplete_list_of_one_host(self):
        """More than a page means that the host has volumes."""
        self.mappings.map(self.third, self.host)
        self.hide_pages()
        self.assertEqual({self.host}, self.mappings.hosts_in_use([self.host]))
        self.assertTrue(self.mappings.is_mapped(self.host))

    def test_by_host(self):
        """Mappings of host groups are deleted, unless they are to be kept."""
        group = self.client.host_groups.create(name='cluster')
        self.client.mappings.create(host=group.ref,
                                    volume=self.third.mappable)
        for groups_too, left in (({'groups_too': False}, 3), ({}, 2)):
            found = self.mappings.by_host(self.client.mappings.search(),
                                          **groups_too)
            self.assertEqual(
                {self.host: [self.volume.mappable],
                 self.other: [self.second.mappable]},
                {host: [each.volume for each in mappings]
                 for host, mappings in found.items()})
            self.assertEqual(left, self.client.mappings.count())

    def test_delete(self):
        """Missing mappings are not an error."""
        found = self.client.mappings.search()
        self.mappings.delete(found[:1])
        self.mappings.delete(found)
        self.assertEqual(0, self.client.mappings.count())
