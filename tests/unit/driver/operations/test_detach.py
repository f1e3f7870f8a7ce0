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

"""Detaching: the calls to the array, and the locks held around them."""

from unittest import mock

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import mappings
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import host_access
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import settling
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver.operations import connecting

IQN = connecting.IQN
HOST = connecting.HOST
OTHER_HOST = connecting.OTHER_HOST
RECORDS = connecting.RECORDS
OURS = connecting.OURS
BACKING = connecting.BACKING
CONNECTOR = connecting.CONNECTOR
GROUP = connecting.GROUP
IDLE = connecting.IDLE
SETTLED = connecting.SETTLED
held = connecting.held
mapping = connecting.mapping
OTHER_CONNECTOR = {'host': 'other', 'initiator': 'iqn.b'}


@ddt.ddt
class DisconnectTest(connecting.ConnectingCase):

    def disconnect(self, connector=None):
        return self.detaching.terminate_connection(
            self.volume, connector or CONNECTOR)

    def test_the_last_volume_of_a_host(self):
        self.assertIs(mock.sentinel.report, self.disconnect())
        self.assertEqual(held(
            'owners', 'using', 'share', 'unmap', 'remove', 'now_idle',
            what=self.volume.id), self.events)
        self.zoning.report.assert_called_once_with({IQN})
        self.zoning.now_idle.assert_called_once_with([IQN])
        self.users.using.assert_called_once_with(self.volume, [IQN])
        self.assertEqual([], self.kept.every())
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=(IQN,))

    def test_a_copy_of_a_view_keeps_its_mapping(self):
        """A detach is refused while the view is being copied.

        Cinder also detaches after a refused attach, perhaps on the host that
        copies, which would lose the mapping that the copy uses.
        """
        self.resolver.held.side_effect = exceptions.ObjectInUse('v', 'copied')
        self.assertRaises(exceptions.ObjectInUse, self.disconnect)
        self.assertEqual([], self.events)
        self.resolver.held.assert_called_once_with(self.volume)

    def test_the_host_is_looked_up_beside_the_volume(self):
        self.disconnect()
        self.assertEqual(1, self.array.concurrently.call_count)
        sought, = self.registry.owners.call_args.args
        self.assertEqual((IQN,), sought.initiators)
        self.resolver.find.assert_called_once_with(self.volume)

    def test_a_host_that_has_other_volumes(self):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=True, busy=True)
        self.disconnect()
        self.assertNotIn('remove', self.events)
        self.zoning.now_idle.assert_not_called()
        self.zoning.report.assert_called_once_with(frozenset())
        self.holders.group_of.assert_not_called()

    def test_another_attachment_needs_it(self):
        self.users.using.return_value = 2
        self.assertIs(True, self.disconnect())
        self.assertEqual(held('owners', 'using', what=self.volume.id),
                         self.events)
        self.zoning.report.assert_not_called()
        mapping, = self.kept.every()
        self.assertEqual((self.volume.id, BACKING.mappable, [IQN]), (
            mapping.volume_id, mapping.mappable, mapping.initiators))

    def test_the_row_of_the_one_that_leaves_is_gone(self):
        self.users.using.return_value = 0
        self.disconnect()
        self.assertIn('unmap', self.events)

    @ddt.data((0, True), (1, False))
    @ddt.unpack
    def test_a_copy_of_cinder_has_no_row(self, users, unmapped):
        self.users.using.return_value = users
        found = self.disconnect({**CONNECTOR, host_access.INTERNAL: True})
        self.users.using.assert_called_once_with(self.volume, [IQN])
        self.assertEqual(unmapped, 'unmap' in self.events)
        self.assertEqual(unmapped, found is not True)
        self.assertEqual(unmapped, not self.kept.every())

    def test_nothing_of_a_volume_that_is_gone_is_kept(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.users.using.return_value = 2
        self.assertIs(True, self.disconnect())
        self.assertEqual([], self.kept.every())

    def test_a_volume_that_is_gone(self):
        """The detach succeeds, and a host without volumes is removed."""
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        with self.assertLogs(detach.LOG.logger, 'WARNING') as logs:
            self.disconnect()
        self.assertIn(f'{self.volume.id}: gone', logs.output[0])
        self.array.mappings.unmap.assert_called_once_with(
            None, HOST, shared=False)
        self.assertIn('remove', self.events)

    def test_a_volume_that_was_renamed(self):
        self.resolver.find.side_effect = exceptions.ObjectRenamed('now')
        self.assertRaises(exceptions.ObjectRenamed, self.disconnect)
        self.assertNotIn('unmap', self.events)

    def test_initiators_of_two_hosts(self):
        """One of them has other volumes, so the zones stay."""
        self.owned_by_two()
        self.disconnect()
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=(IQN,))
        self.zoning.now_idle.assert_not_called()

    def test_a_host_that_the_array_does_not_know(self):
        self.registry.owners.return_value = {}
        self.disconnect()
        self.assertNotIn('unmap', self.events)
        self.zoning.now_idle.assert_called_once_with([IQN])
        self.zoning.report.assert_called_once_with({IQN})

    def test_a_host_that_the_array_does_not_show(self):
        """It is looked for among those that have the volume."""
        self.registry.owners.return_value = None
        self.holders.owners.return_value = {HOST: RECORDS}
        self.users.elsewhere.return_value = [OTHER_CONNECTOR]
        self.disconnect()
        self.holders.owners.assert_called_once_with(
            BACKING, self.detaching._hosts.sought(CONNECTOR),
            [self.detaching._hosts.sought(OTHER_CONNECTOR)])
        self.users.elsewhere.assert_called_once_with(self.volume, [IQN])
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)

    def test_a_host_without_the_volume_found_by_its_name(self):
        """The empty host may be a leftover; another may have the volume."""
        self.registry.owners.return_value = {HOST: {}}
        self.holders.owners.return_value = {OTHER_HOST: {}}
        self.array.mappings.unmap.side_effect = lambda _, host, shared: (
            mappings.Unmapped(found=host == OTHER_HOST, busy=False))
        self.disconnect()
        self.assertEqual(
            [mock.call(BACKING, host, shared=False)
             for host in (HOST, OTHER_HOST)],
            self.array.mappings.unmap.mock_calls)
        self.assertEqual(2, self.remove.call_count)

    @ddt.data((RECORDS, False), ({}, True))
    @ddt.unpack
    def test_a_host_that_is_surely_the_one(self, records, found):
        """By its initiators, or because it had the volume."""
        self.registry.owners.return_value = {HOST: records}
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=found, busy=False)
        self.disconnect()
        self.holders.owners.assert_not_called()

    def test_a_host_that_may_have_the_volume(self):
        """The volume is not reported as detached."""
        self.registry.owners.return_value = None
        self.holders.owners.side_effect = exceptions.HostUnknown('untold')
        for disconnect in (self.disconnect, lambda: (
                self.detaching.disconnect_backing(BACKING, CONNECTOR))):
            self.assertRaises(exceptions.HostUnknown, disconnect)
        self.zoning.now_idle.assert_not_called()

    def test_the_profile_goes_with_the_host(self):
        protection = autospec.Double(chap.Chap)
        self.make(protection)
        self.disconnect()
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, protection,
            connected=(IQN,))

    def test_a_host_of_somebody_else_stays(self):
        self.registry.ours.return_value = None
        self.disconnect()
        self.registry.ours.assert_called_once_with(HOST)
        self.remove.assert_not_called()
        self.zoning.report.assert_called_once_with({IQN})

    def test_a_host_that_cannot_go(self):
        self.remove.side_effect = rest.Unreachable('lost')
        with self.assertLogs(detach.LOG.logger, 'WARNING') as logs:
            self.assertIs(mock.sentinel.report, self.disconnect())
        self.assertIn(f'Host {HOST} has no volumes left', logs.output[0])

    def test_what_has_no_row(self):
        self.assertEqual(IDLE, self.detaching.disconnect_backing(
            BACKING, CONNECTOR))
        self.assertEqual(held('share', 'owners', 'unmap', 'remove',
                              'now_idle', what=BACKING.mappable),
                         self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)


class SharedHoldTest(connecting.ConnectingCase):
    """Other operations share the hold of the host."""

    def setUp(self):
        super().setUp()
        self.hold.is_alone = False

    def disconnect(self):
        return self.detaching.terminate_connection(self.volume, CONNECTOR)

    def test_the_host_is_held_alone_to_be_removed(self):
        self.disconnect()
        self.assertEqual([
            *held('owners', 'using', 'share', 'unmap',
                  what=self.volume.id),
            *held('owners', 'is_mapped', 'remove', 'now_idle')],
            self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=True)
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=(IQN,))
        self.zoning.report.assert_called_once_with({IQN})
        self.zoning.now_idle.assert_called_once_with([IQN])
        (first,), _ = self.registry.owners.call_args_list[0]
        self.registry.owners.assert_called_with(first, {HOST})

    def test_it_got_a_volume_meanwhile(self):
        self.array.mappings.is_mapped.return_value = True
        self.disconnect()
        self.array.mappings.is_mapped.assert_called_once_with(HOST)
        self.assertNotIn('remove', self.events)
        self.zoning.now_idle.assert_not_called()
        self.zoning.report.assert_called_once_with(frozenset())

    def test_a_host_that_the_array_does_not_know(self):
        self.registry.owners.return_value = {}
        self.disconnect()
        self.zoning.now_idle.assert_called_once_with([IQN])
        self.zoning.report.assert_called_once_with({IQN})

    def test_it_is_gone_meanwhile(self):
        for gone in ({}, None):
            self.registry.owners.side_effect = [{HOST: RECORDS}, gone]
            self.disconnect()
            self.assertNotIn('remove', self.events)
            self.zoning.report.assert_called_with({IQN})

    def test_another_record_was_not_this_ones_to_empty(self):
        """A host that still had volumes is not removed by this detach."""
        self.owned_by_two()
        self.disconnect()
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=(IQN,))

    def test_all_is_read_at_once(self):
        """The owners, mappings and name of the host are read concurrently."""
        inside = []
        self.array.concurrently.side_effect = lambda first, second: (
            inside.append(1), (first(), second()), inside.pop())[1]
        for read in (self.registry.owners, self.array.mappings.is_mapped,
                     self.registry.ours):
            effect, result = read.side_effect, read.return_value
            read.side_effect = lambda *args, _read=(effect, result): (
                self.assertTrue(inside), _read[0] and _read[0](*args),
                _read[1])[2]
        self.disconnect()
        self.assertEqual(3, self.array.concurrently.call_count)
        self.assertIn('remove', self.events)

    def test_it_cannot_be_read_whose_it_is(self):
        """The host stays, and the log says so; the volume is unmapped."""
        self.registry.ours.side_effect = rest.Unreachable('lost')
        with self.assertLogs(detach.LOG.logger, 'WARNING') as logs:
            self.disconnect()
        self.assertIn(f'Host {HOST} has no volumes left', logs.output[0])
        self.assertNotIn('remove', self.events)
        self.zoning.report.assert_called_once_with({IQN})

    def test_it_does_not_matter_whose_it_is(self):
        """The host has volumes again, so it stays in any case."""
        self.registry.ours.side_effect = rest.Unreachable('lost')
        self.array.mappings.is_mapped.return_value = True
        with self.assertNoLogs(detach.LOG.logger, 'WARNING'):
            self.disconnect()

    def test_array_refuses_to_search(self):
        """The host may be gone. No error is raised: the volume is unmapped."""
        self.array.mappings.is_mapped.side_effect = rest.Refused('no')
        self.disconnect()
        self.assertNotIn('remove', self.events)
        self.zoning.report.assert_called_once_with(frozenset())

    def test_another_cannot_be_looked_at(self):
        """No host is removed before it is known whether its zones may be."""
        self.registry.owners.side_effect = [
            {HOST: RECORDS}, {HOST: RECORDS, OTHER_HOST: {}}]
        self.array.mappings.is_mapped.side_effect = [
            False, rest.Unreachable('lost')]
        self.assertRaises(rest.Unreachable, self.disconnect)
        self.assertNotIn('remove', self.events)

    def test_it_goes_during_the_look(self):
        self.registry.ours.side_effect = rest.NotFound('gone')
        with self.assertNoLogs(detach.LOG.logger, 'WARNING'):
            self.disconnect()
        self.assertNotIn('remove', self.events)

    def test_a_busy_host_is_not_looked_at_again(self):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=True, busy=True)
        self.disconnect()
        self.assertNotIn('is_mapped', self.events)
        self.zoning.report.assert_called_once_with(frozenset())

    def shares_a_look(self, *others):
        """Let the detach look at the host on behalf of others, too."""
        made = autospec.Double(settling.Settling)
        made.settle.side_effect = lambda sought, done, look: look(
            [done, *others])
        autospec.replace(self, settling, 'Settling', {
            detach.Disconnected: lambda hosts: made})
        self.make()

    def test_one_look_for_several(self):
        """Hosts that any of the detaches left without volumes are removed."""
        self.registry.owners.return_value = {
            HOST: RECORDS, OTHER_HOST: {'iqn.b': 8}}
        self.array.mappings.unmap.side_effect = lambda _, host, shared: (
            mappings.Unmapped(found=True, busy=host == OTHER_HOST))
        self.shares_a_look(detach.Disconnected(
            unsettled=frozenset({OTHER_HOST})))
        self.disconnect()
        (_, asked), _ = self.registry.owners.call_args
        self.assertEqual({HOST, OTHER_HOST}, asked)
        self.assertEqual(2, self.remove.call_count)
        self.zoning.now_idle.assert_called_once_with([IQN])
        # This detach saw that the other host still has a volume.
        self.zoning.report.assert_called_once_with(frozenset())

    def test_zones_stay_if_all_saw_volumes(self):
        self.owned_by_two()
        self.shares_a_look()
        self.disconnect()
        self.zoning.now_idle.assert_not_called()
        self.zoning.report.assert_called_once_with(frozenset())

    def test_what_has_no_row(self):
        self.assertEqual(IDLE, self.detaching.disconnect_backing(
            BACKING, CONNECTOR))
        self.assertEqual([
            *held('share', 'owners', 'unmap', what=BACKING.mappable),
            *held('owners', 'is_mapped', 'remove', 'now_idle')],
            self.events)


@ddt.ddt
class HostGroupTest(connecting.ConnectingCase):
    """The volume is mapped to a host group that the host is in."""

    def setUp(self):
        super().setUp()
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.holders.group_of.return_value = GROUP
        self.journal.record(self.users.elsewhere, 'elsewhere')

    def disconnect(self):
        return self.detaching.terminate_connection(self.volume, CONNECTOR)

    def test_the_last_member(self):
        self.disconnect()
        self.assertEqual(held(
            'owners', 'using', 'share', 'unmap',
            f'+host_groups {self.volume.id} None', 'elsewhere',
            'unmap_from_group',
            '-host_groups', what=self.volume.id), self.events)
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)
        self.users.elsewhere.assert_called_once_with(self.volume, [IQN])
        self.zoning.report.assert_called_once_with(frozenset())

    def test_a_hold_with_a_timeout(self):
        """Statistics do not wait ten minutes for another member."""
        self.hold.timeout = 1.0
        self.disconnect()
        self.assertIn(f'+host_groups {self.volume.id} 1.0', self.events)

    def test_a_host_without_a_group(self):
        """The host did not have the volume, and is removed if it has none."""
        self.holders.group_of.return_value = None
        self.disconnect()
        self.holders.group_of.assert_called_once_with(HOST, BACKING)
        self.array.mappings.unmap_from_group.assert_not_called()
        self.assertIn('remove', self.events)

    def test_a_busy_host_without_a_group(self):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=True)
        self.holders.group_of.return_value = None
        self.disconnect()
        self.assertNotIn('remove', self.events)

    def elsewhere(self, group, hosts=frozenset({OTHER_HOST})):
        """Add another attachment, whose host is in this group."""
        self.users.elsewhere.return_value = [OTHER_CONNECTOR]
        self.transport.initiators.side_effect = (
            lambda connector: [connector['initiator']])
        self.registry.candidates.return_value = hosts
        self.array.mappings.group_of.side_effect = {OTHER_HOST: group}.get

    def test_another_member_uses_it(self):
        self.elsewhere(GROUP)
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_not_called()
        mapping, = self.kept.every()
        self.assertEqual((self.volume.id, BACKING.mappable, [IQN]), (
            mapping.volume_id, mapping.mappable, mapping.initiators))

    def test_a_host_that_the_array_does_not_show_uses_it(self):
        """That host may be a member of the group."""
        self.elsewhere(GROUP, hosts=None)
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_not_called()
        self.assertEqual(1, len(self.kept.every()))

    def test_a_host_that_is_gone_used_it(self):
        self.elsewhere(GROUP, hosts=frozenset())
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)

    def test_a_host_of_another_group_uses_it(self):
        self.elsewhere(rest.Ref('host_groups', 4))
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)
        self.assertEqual([], self.kept.every())

    def test_a_volume_that_is_gone(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_not_called()

    def test_what_has_no_row(self):
        self.assertEqual(SETTLED, self.detaching.disconnect_backing(
            BACKING, CONNECTOR))
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)
        self.users.elsewhere.assert_not_called()


class EverywhereTest(connecting.ConnectingCase):
    """Without a connector, a volume is unmapped from all hosts."""

    def setUp(self):
        super().setUp()
        self.array.mappings.of_volumes.side_effect = lambda *refs: [
            f'{ref.resource}/{ref.id}' for ref in refs]
        self.mappings = [mapping(1)]
        self.mapped = {'volumes/6': {HOST: self.mappings}}
        self.array.mappings.by_host.side_effect = (
            lambda found, **_: self.mapped[found[0]])
        self.registry.initiators_of.return_value = {HOST: [IQN]}
        self.registry.initiators.return_value = RECORDS
        self.array.mappings.hosts_in_use.return_value = set()

    def test_all_hosts(self):
        self.assertIs(mock.sentinel.report,
                      self.detaching.terminate_connection(
                          self.volume, None))
        self.assertEqual([
            *held('delete'), *held('is_mapped', 'remove', 'now_idle')],
            self.events)
        self.array.mappings.delete.assert_called_once_with(self.mappings)
        self.zoning.report.assert_called_once_with({IQN})
        self.zoning.now_idle.assert_called_once_with([IQN])
        self.registry.initiators_of.assert_called_once_with(
            {HOST: self.mappings})
        self.users.using.assert_not_called()

    def test_a_removed_host_goes_with_its_records(self):
        self.detaching.terminate_connection(self.volume, None)
        self.registry.ours.assert_called_once_with(HOST)
        self.registry.initiators.assert_called_once_with(HOST)
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=())

    def test_mappings_are_read_beside_the_volume(self):
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.detaching.terminate_connection(self.volume, None)
        self.assertEqual(1, self.array.concurrently.call_count)
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.resolver.known.assert_called_once_with(self.volume)
        self.resolver.find.assert_called_once_with(self.volume)

    def test_a_row_without_ids(self):
        self.resolver.known.return_value = None
        self.detaching.terminate_connection(self.volume, None)
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.array.mappings.delete.assert_called_once_with(self.mappings)
        self.resolver.find.assert_called_once_with(self.volume)

    def test_one_that_is_moving(self):
        """Finding the volume sends requests, so no others run concurrently."""
        moving = ArrayVolume(group=5, volume=6, regrouping=True)
        self.resolver.known.return_value = moving
        self.resolver.find.return_value = moving
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.detaching.terminate_connection(self.volume, None)
        self.array.concurrently.assert_not_called()
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)

    def test_one_that_is_another_now(self):
        self.resolver.find.return_value = ArrayVolume(group=5, volume=60)
        others = [mapping(2)]
        self.mapped['volumes/60'] = {HOST: others}
        self.detaching.terminate_connection(self.volume, None)
        self.array.mappings.delete.assert_called_once_with(others)

    def test_one_that_is_gone(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.detaching.terminate_connection(self.volume, None)
        self.array.mappings.delete.assert_not_called()
        self.zoning.report.assert_called_once_with(frozenset())

    def test_a_host_with_other_volumes(self):
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.assertEqual(SETTLED, self.detaching.disconnect_all(BACKING))
        self.array.mappings.hosts_in_use.assert_called_once_with(
            {HOST: self.mappings})
        self.assertIn('delete', self.events)
        self.assertNotIn('is_mapped', self.events)

    def test_a_host_that_got_a_volume_meanwhile(self):
        self.array.mappings.is_mapped.return_value = True
        self.assertEqual(SETTLED, self.detaching.disconnect_all(BACKING))
        self.array.mappings.is_mapped.assert_called_once_with(HOST)
        self.assertNotIn('remove', self.events)
        self.zoning.now_idle.assert_not_called()

    def test_a_host_whose_initiators_are_not_shown(self):
        self.registry.initiators_of.return_value = {}
        self.assertEqual(SETTLED, self.detaching.disconnect_all(BACKING))
        self.assertEqual('+hold sys-1  None None alone=False', self.events[0])
        self.assertIn('remove', self.events)

    def test_several_hosts(self):
        """Each host is held by its own initiators while it is changed."""
        self.mapped['volumes/6'][OTHER_HOST] = [mapping(2, OTHER_HOST)]
        self.registry.initiators_of.return_value = {
            HOST: [IQN], OTHER_HOST: ['iqn.b']}
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.assertEqual(detach.Disconnected(idle={'iqn.b'}),
                         self.detaching.disconnect_all(BACKING))
        self.assertEqual(
            [f'+hold sys-1 {name} None None alone=False'
             for name in (IQN, 'iqn.b', 'iqn.b')],
            [event for event in self.events if event.startswith('+hold')])

    def test_nothing_to_disconnect(self):
        self.assertEqual(SETTLED, self.detaching.disconnect_all(None))
        self.array.mappings.of_volumes.assert_not_called()

    def test_volumes_by_id(self):
        self.detaching.disconnect_volumes([6, 7])
        self.array.mappings.of_volumes.assert_called_once_with(
            rest.Ref('volumes', 6), rest.Ref('volumes', 7))
        self.array.mappings.delete.assert_called_once_with(self.mappings)

    def test_ours_alone(self):
        self.mapped['volumes/6'][OTHER_HOST] = [mapping(2, OTHER_HOST)]
        self.registry.ours.side_effect = {HOST: OURS, OTHER_HOST: None}.get
        self.detaching.disconnect_ours(BACKING)
        self.assertNotIn('unmap', self.events)
        self.array.mappings.by_host.assert_called_once_with(
            ['volumes/6'], groups_too=False)
        self.array.mappings.delete.assert_called_once_with(self.mappings)


def _briefly(*events):
    """Return the events of holding the host with a short timeout."""
    return ['+hold sys-1 iqn.2024:a None 5.0 alone=False',
            '+probe_deadline', *events,
            '-probe_deadline', '-hold']


class KeptTest(connecting.ConnectingCase):
    """Kept mappings, once no attachment needs them."""

    def setUp(self):
        super().setUp()
        self.mapping, = self.kept_at(IQN)

    def disconnect(self, row):
        """Unmap what was kept; return whether it is gone.

        :param row: what is found in the database while the host is held
        """
        def find():
            self.events.append('find')
            return row
        return self.detaching.disconnect_kept(self.mapping, find, 5.0)

    def test_it_is_unmapped_as_by_a_detach(self):
        """The host is held exclusively, with the given time to wait for it."""
        self.assertIs(True, self.disconnect(self.volume))
        self.assertEqual(_briefly('find', 'owners', 'unmap', 'remove',
                                  'now_idle'), self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)
        self.registry.owners.assert_called_once_with(self.mapping.host)
        self.assertEqual([], self.kept.every())

    def test_something_may_need_it(self):
        self.assertIs(False, self.disconnect(None))
        self.assertEqual(_briefly('find'), self.events)
        self.resolver.find.assert_not_called()
        self.assertEqual([self.mapping], self.kept.every())

    def test_the_row_has_other_data_by_now(self):
        self.resolver.find.return_value = ArrayVolume(group=5, volume=60)
        self.assertIs(True, self.disconnect(self.volume))
        self.assertNotIn('unmap', self.events)
        self.assertEqual([], self.kept.every())

    def test_the_volume_is_gone(self):
        """The host is checked nevertheless, as it may have no volumes."""
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.assertIs(True, self.disconnect(self.volume))
        self.array.mappings.unmap.assert_called_once_with(
            None, HOST, shared=False)
        self.assertEqual([], self.kept.every())

    def test_the_array_fails(self):
        self.array.mappings.unmap.side_effect = rest.Unreachable('gone')
        self.assertRaises(rest.Unreachable, self.disconnect, self.volume)
        self.assertEqual([self.mapping], self.kept.every())

    def test_a_host_that_the_array_does_not_remove_in_time(self):
        """The volume is unmapped; the host is removed at the next check."""
        self.remove.side_effect = rest.Unreachable('hangs')
        self.assertIs(False, self.disconnect(self.volume))
        self.assertEqual([self.mapping], self.kept.every())
        self.remove.side_effect = None
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.assertIs(True, self.disconnect(self.volume))
        self.assertEqual(2, self.remove.call_count)
        self.assertEqual([], self.kept.every())

    def test_a_host_that_the_array_refuses_to_remove(self):
        """The mapping is dropped, or it would be retried forever."""
        self.remove.side_effect = rest.Refused('no')
        self.assertIs(True, self.disconnect(self.volume))
        self.assertEqual([], self.kept.every())

    def in_a_group(self, *elsewhere):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        for group_of in (self.holders.group_of,
                         self.array.mappings.group_of):
            group_of.return_value = GROUP
        self.users.elsewhere.return_value = list(elsewhere)
        self.registry.candidates.return_value = {OTHER_HOST}

    def test_a_host_group_that_no_member_needs(self):
        self.in_a_group()
        self.disconnect(self.volume)
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)

    def test_a_host_group_that_another_member_needs(self):
        """The last member to detach unmaps the volume."""
        self.in_a_group(OTHER_CONNECTOR)
        self.assertIs(True, self.disconnect(self.volume))
        self.array.mappings.unmap_from_group.assert_not_called()
        self.assertEqual([], self.kept.every())

    def test_a_volume_that_is_detached_is_released(self):
        others, = self.kept_at('iqn.b')
        foreign = kept.Mapping('v9', rest.Ref('volumes', 9),
                               host_identity.Sought((IQN,)))
        self.kept.add(foreign)
        self.detaching.release(self.volume)
        self.assertCountEqual(
            [mock.call(BACKING, HOST, shared=False)] * 2,
            self.array.mappings.unmap.mock_calls)
        self.assertEqual([foreign], self.kept.every())

    def test_nothing_to_release(self):
        self.kept.drop(self.mapping)
        self.detaching.release(self.volume)
        self.assertEqual([], self.events)

    def test_a_row_without_ids_is_released_by_nothing(self):
        self.resolver.known.return_value = None
        self.detaching.release(self.volume)
        self.assertEqual([], self.events)

    def test_a_volume_that_is_to_be_deleted(self):
        """Kept mappings to host groups and foreign hosts are removed, too."""
        self.in_a_group()
        self.array.mappings.of_volumes.return_value = []
        self.array.mappings.by_host.return_value = {}
        self.array.mappings.hosts_in_use.return_value = set()
        self.registry.initiators_of.return_value = {}
        self.detaching.disconnect_ours(BACKING)
        self.assertEqual(held('owners', 'unmap', 'unmap_from_group'),
                         self.events)
        self.users.elsewhere.assert_not_called()
        self.assertEqual([], self.kept.every())
