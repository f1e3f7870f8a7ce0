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

"""Attach and detach: what is asked of the array, under which locks."""

import contextlib
import dataclasses
from unittest import mock

import ddt
from oslotest import base

from cinder_k2.array import ArrayVolume
from cinder_k2.array import chap as array_chap
from cinder_k2.array import hosts as array_hosts
from cinder_k2.array import mappings
from cinder_k2.driver.db import attachments
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import connections
from cinder_k2.driver.operations import host_holds
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import resolver
from cinder_k2.driver.operations import zoning
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import hosts
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import transport
from tests.unit.driver import autospec
from tests.unit.driver import rows

IQN = 'iqn.2024:a'
HOST, OTHER_HOST = 71, 72
RECORDS = {IQN: 9}
OURS = rest.Host(HOST, 'cinder-node1-01234567')
BACKING = ArrayVolume(group=5, volume=6)
CONNECTOR = {'host': 'node', 'initiator': IQN}
GROUP = rest.Ref('host_groups', 3)

HELD = ['+hold sys-1 iqn.2024:a', '+deadline fresh=True']
LEFT = ['-deadline', '-hold']
IDLE = connections.Disconnected(idle={IQN})
SETTLED = connections.Disconnected()


def held(*events, what=None, timeout=None):
    """Events while the host is held, for the volume ``what``."""
    return [f'{HELD[0]} {what} {timeout}', HELD[1], *events, *LEFT]


def mapping(number, host=HOST):
    return rest.Mapping(id=number, host=rest.Ref('hosts', host),
                        volume=BACKING.mappable, lun=number)


class ConnectionsCase(base.BaseTestCase):
    """Connections alone, on a host that is held alone."""

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.array = autospec.array(self.journal, 'mappings')
        self.resolver = autospec.Double(resolver.Resolver)
        self.resolver.peers = {}
        self.resolver.held.side_effect = (
            lambda volume, timeout=None: contextlib.nullcontext())
        self.resolver.known.return_value = BACKING
        self.resolver.find.return_value = BACKING
        self.registry = autospec.Double(array_hosts.Hosts)
        self.transport = autospec.Double(transport.Transport)
        self.transport.hosts.side_effect = {
            self.array: self.registry}.__getitem__
        self.transport.initiators.return_value = [IQN]
        self.targets = autospec.Double(transport.Targets)
        self.transport.targets.return_value = self.targets
        self.targets.properties.side_effect = lambda lun: {
            'driver_volume_type': 'iscsi', 'data': {'target_lun': lun}}
        self.zoning = autospec.Double(zoning.Zoning)
        self.zoning.report.return_value = mock.sentinel.report
        self.kept = kept.Kept()
        self.configuration = mock.Mock(
            spec_set=['unique_fqdn_network', 'k2_discard'],
            unique_fqdn_network=True, k2_discard=mock.sentinel.discard)
        self.volume = rows.volume(BACKING)
        self.events = self.journal.events
        self._replace_modules()
        self.connections = self.make()
        self._record()

    def _replace_modules(self):
        self.users = autospec.Double(attachments.Attachments)
        self.users.at.return_value = 0
        self.users.using.return_value = 1
        self.users.elsewhere.return_value = []
        autospec.replace(self, attachments, 'Attachments',
                         {self.transport: self.users}.get)
        self.hold = autospec.Double(host_holds.Hold)
        self.hold.is_alone = True
        self.holds = autospec.Double(host_holds.HostHolds)
        self.holds.hold.side_effect = self.journal.context('hold', self.hold)
        autospec.replace(self, host_holds, 'HostHolds', lambda: self.holds)
        self.journal.record_locks(self)
        self.attach = autospec.patched(self, hosts, 'attach')
        self.attach.return_value = hosts.Attached(lun=4)
        self.remove = autospec.patched(self, hosts, 'remove')

    def _record(self):
        for double, name in [
                (self.attach, 'attach'), (self.remove, 'remove'),
                (self.array.mappings.unmap, 'unmap'),
                (self.array.mappings.unmap_from_group, 'unmap_from_group'),
                (self.array.mappings.delete, 'delete'),
                (self.array.mappings.is_mapped, 'is_mapped'),
                (self.registry.owners, 'owners'),
                (self.hold.share, 'share'),
                (self.users.at, 'at'), (self.users.using, 'using'),
                (self.zoning.connected, 'connected'),
                (self.zoning.now_idle, 'now_idle')]:
            self.journal.record(double, name)
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=True, busy=False)
        self.array.mappings.is_mapped.return_value = False
        self.array.mappings.group_of.return_value = None
        self.registry.owners.return_value = {HOST: RECORDS}
        self.registry.ours.return_value = OURS

    def make(self, protection=None):
        return connections.Connections(
            self.array, self.resolver, self.configuration, self.transport,
            self.zoning, protection, self.kept)

    def kept_at(self, *hosts):
        """Keep the volume mapped to hosts of these initiators."""
        found = [kept.Mapping(self.volume.id, BACKING.mappable,
                              array_hosts.Sought((host,)))
                 for host in hosts]
        for each in found:
            self.kept.add(each)
        return found

    @property
    def sought(self):
        """The host that hosts.attach was called for."""
        return self.attach.call_args.kwargs['sought']


@ddt.ddt
class ConnectTest(ConnectionsCase):

    def connect(self, volume=None, connector=None):
        return self.connections.connect_backing(
            volume, BACKING, connector or CONNECTOR)

    def test_initialize_connection(self):
        connector = dict(CONNECTOR)
        found = self.connections.initialize_connection(
            self.volume, connector)
        self.assertEqual(
            {'driver_volume_type': 'iscsi',
             'data': {'target_lun': 4, 'discard': mock.sentinel.discard}},
            found)
        self.assertEqual(held('at', 'attach', 'connected',
                              what=self.volume.id), self.events)
        self.assertEqual(CONNECTOR, connector)
        self.resolver.find.assert_called_once_with(self.volume)
        self.zoning.connected.assert_called_once_with(found)

    def test_a_volume_is_not_flattened_meanwhile(self):
        """What backs it is taken from the row when it is held."""
        self.journal.record(self.resolver.find, 'find')
        self.resolver.held.side_effect = self.journal.context('held')
        self.connections.initialize_connection(self.volume, dict(CONNECTOR))
        self.assertEqual(['+held', 'find'],
                         [self.events[0].split()[0], self.events[1]])
        self.assertEqual('-held', self.events[-1])
        self.resolver.held.assert_called_once_with(
            self.volume, locks.ATTACH_LOCK_TIMEOUT)

    def test_nothing_is_connected_that_is_flattened(self):
        self.resolver.held.side_effect = exceptions.ObjectInUse('v', 'copied')
        self.assertRaisesRegex(
            exceptions.ObjectInUse, 'copied',
            self.connections.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertEqual([], self.events)

    def test_nothing_is_connected_in_a_failback(self):
        self.resolver.known.return_value = ArrayVolume(
            group=5, volume=6, failback_in_progress=True)
        error = self.assertRaises(
            exceptions.ObjectInUse,
            self.connections.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual([], self.events)

    def test_a_volume_without_ids_is_free(self):
        self.resolver.known.return_value = None
        self.connections.check_free(self.volume)
        self.resolver.known.assert_called_once_with(self.volume)

    def test_what_is_asked_of_the_flow(self):
        self.connect(self.volume)
        self.attach.assert_called_once_with(
            self.array, self.registry, BACKING, sought=self.sought,
            look_first=False, hold=self.hold, guard=None,
            verify_volume=mock.ANY)
        self.assertEqual((IQN,), self.sought.initiators)
        self.transport.initiators.assert_called_once_with(CONNECTOR)
        self.transport.targets.assert_called_once_with(self.array, [IQN])
        self.transport.hosts.assert_called_once_with(self.array)

    def verify_volume(self, volume):
        """What the flow may call before it maps once more."""
        self.connect(volume)
        verify = self.attach.call_args.kwargs['verify_volume']
        return verify()

    def test_a_volume_is_confirmed_before_it_is_mapped_again(self):
        self.resolver.confirm.return_value = BACKING
        self.verify_volume(self.volume)
        self.resolver.confirm.assert_called_once_with(self.volume, BACKING)

    def test_it_has_another_object_by_then(self):
        self.resolver.confirm.return_value = dataclasses.replace(
            BACKING, volume=99)
        error = self.assertRaises(exceptions.ObjectRenamed,
                                  self.verify_volume, self.volume)
        self.assertEqual(
            f'Volume {self.volume.id} has another object on the array than '
            'when its attachment began; try again.', str(error))

    def test_what_has_no_row_is_not_confirmed(self):
        self.verify_volume(None)
        self.resolver.confirm.assert_not_called()

    def test_a_shared_mapping_is_looked_for_first(self):
        self.users.at.return_value = 1
        self.connect(self.volume)
        self.users.at.assert_called_once_with(self.volume, [IQN])
        self.assertTrue(self.attach.call_args.kwargs['look_first'])

    def test_what_has_no_row_has_no_users(self):
        self.connect()
        self.assertEqual(held('attach', 'connected', what=BACKING.mappable),
                         self.events)
        self.assertFalse(self.attach.call_args.kwargs['look_first'])

    @ddt.data(
        (True, {'host': 'node', 'initiator': 'iqn.xyz'}, 'node'),
        (True, {'initiator': 'iqn.xyz'}, 'iqn_xyz'),
        (False, {'host': 'node', 'initiator': 'iqn.xyz'}, 'zyx_nqi'),
        (False, {'host': 'node', 'wwnns': ['5001', '6001']}, '1005'),
        (True, {'wwnns': ['5001']}, '5001'),
        (False, {'host': 'node', 'wwnns': []}, None),
        (False, {'host': 'node'}, None))
    @ddt.unpack
    def test_names_of_a_host(self, unique, connector, in_tree):
        """The driver's own comes first, then the in-tree driver's."""
        self.configuration.unique_fqdn_network = unique
        self.connect(connector=connector)
        own, *others = self.sought.names
        self.assertEqual(naming.host(connector.get('host', ''), [IQN]), own)
        self.assertEqual([in_tree] if in_tree else [], others)

    def test_chap(self):
        protection = autospec.Double(chap.Chap)
        protection.guard.return_value = mock.sentinel.guard
        self.attach.return_value = hosts.Attached(
            lun=4, login=array_chap.Login('name', 'word'))
        self.connections = self.make(protection)
        found = self.connect()
        protection.guard.assert_called_once_with([IQN])
        self.assertIs(mock.sentinel.guard,
                      self.attach.call_args.kwargs['guard'])
        self.assertEqual(
            ('CHAP', 'name', 'word'),
            tuple(found['data'][key] for key in (
                'auth_method', 'auth_username', 'auth_password')))

    def test_a_host_to_be_made_is_held_alone(self):
        self.attach.side_effect = [hosts.MustBeAlone,
                                   hosts.Attached(lun=8)]
        found = self.connect(self.volume)
        self.assertEqual(8, found['data']['target_lun'])
        self.assertEqual(
            [*held('at', what=self.volume.id), *held('at', 'connected')],
            self.events)
        first, second = (
            (one.args, {**one.kwargs, 'verify_volume': None})
            for one in self.attach.mock_calls)
        self.assertEqual(first, second)
        self.assertEqual([mock.call(self.volume, [IQN])] * 2,
                         self.users.at.mock_calls)
        self.targets.properties.assert_called_once_with(8)

    def test_no_targets(self):
        self.transport.targets.side_effect = exceptions.ArrayNotSupported('x')
        self.assertRaises(exceptions.ArrayNotSupported, self.connect)
        self.assertEqual([], self.events)


class FailedConnectTest(ConnectionsCase):
    """A mapping that Cinder does not get is taken back."""

    def setUp(self):
        super().setUp()
        self.journal.record(self.zoning.connected, 'connected',
                            rest.Unreachable('fabric'))

    def connect(self, volume=None):
        self.assertRaisesRegex(
            rest.Unreachable, 'fabric', self.connections.connect_backing,
            volume, BACKING, CONNECTOR)

    def test_it_is_taken_back(self):
        self.connect(self.volume)
        self.assertEqual([*held(
            'at', 'attach', 'connected', '+cleanup_deadline', 'owners',
            'unmap',
            'remove', 'now_idle', '-cleanup_deadline', what=self.volume.id),
            '+cleanup_deadline', '-cleanup_deadline'], self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)
        self.registry.owners.assert_called_once_with(self.sought)

    def test_it_is_taken_back_when_mapping_failed(self):
        self.attach.side_effect = rest.Unreachable('fabric')
        self.connect()
        self.assertIn('unmap', self.events)
        self.zoning.connected.assert_not_called()

    def test_what_another_attachment_has_stays(self):
        self.users.at.return_value = 1
        self.connect(self.volume)
        self.assertEqual(held('at', 'attach', 'connected',
                              what=self.volume.id), self.events)

    def test_the_host_goes_after_it_was_released(self):
        """Others may be in, so whether it is idle is seen later."""
        self.hold.is_alone = False
        self.connect(self.volume)
        self.assertEqual([
            *held('at', 'attach', 'connected', '+cleanup_deadline', 'owners',
                  'unmap',
                  '-cleanup_deadline', what=self.volume.id),
            '+cleanup_deadline',
            *held('owners', 'is_mapped', 'remove', 'now_idle'),
            '-cleanup_deadline'], self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=True)

    def test_the_first_error_is_reported_when_it_cannot_be_taken_back(self):
        self.array.mappings.unmap.side_effect = rest.Unreachable('array')
        with self.assertLogs(connections.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn(str(BACKING.mappable), logs.output[0])
        self.assertIn('array', logs.output[0])
        self.assertEqual(1, len(logs.output))
        self.assertNotIn('remove', self.events)

    def test_the_first_error_is_reported_when_the_host_stays(self):
        self.hold.is_alone = False
        self.array.mappings.is_mapped.side_effect = rest.Unreachable('array')
        with self.assertLogs(connections.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn('A host without volumes may be left', logs.output[0])
        self.assertEqual('-cleanup_deadline', self.events[-1])

    def test_it_is_taken_back_from_a_host_group(self):
        """Other members that use the volume keep it."""
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.array.mappings.group_of.return_value = GROUP
        self.connect(self.volume)
        self.users.elsewhere.assert_called_once_with(self.volume, [IQN])
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)

    def test_another_one_may_have_mapped_it(self):
        """Its row does not tell yet; that of this one counts, too."""
        self.volume.multiattach = True
        self.users.coming.return_value = 2
        self.connect(self.volume)
        self.users.coming.assert_called_once_with(self.volume)
        self.assertNotIn('unmap', self.events)
        mapping, = self.kept.every()
        self.assertEqual(self.sought, mapping.host)

    def test_no_other_one_is_coming(self):
        self.volume.multiattach = True
        self.users.coming.return_value = 1
        self.connect(self.volume)
        self.assertIn('unmap', self.events)
        self.assertEqual([], self.kept.every())

    def test_one_that_must_be_alone_has_mapped_nothing(self):
        self.attach.side_effect = hosts.MustBeAlone
        self.assertRaises(hosts.MustBeAlone,
                          self.connections.connect_backing, self.volume,
                          BACKING, CONNECTOR)
        self.assertNotIn('unmap', self.events)


class MeanwhileTest(ConnectionsCase):
    """A failback may begin while a host gets a volume."""

    def setUp(self):
        super().setUp()
        self.resolver.peers['moon'] = mock.sentinel.peer
        self.now = rows.volume(BACKING)
        self.current = autospec.patched(self, writes, 'current')
        self.current.return_value = self.now
        self.objects = {self.now: BACKING}
        self.resolver.known.side_effect = self.objects.get

    def connect(self):
        return self.connections.connect_backing(
            self.volume, BACKING, CONNECTOR)

    def test_nothing_happened(self):
        self.connect()
        self.current.assert_called_once_with(self.volume)
        self.resolver.known.assert_called_once_with(self.now)

    def test_one_array_has_no_failback(self):
        self.resolver.peers.clear()
        self.connect()
        self.current.assert_not_called()

    def test_a_new_volume_that_cinder_fills(self):
        """Its ids are not saved yet."""
        self.now.provider_id = None
        self.connect()
        self.resolver.known.assert_not_called()

    def test_what_has_no_row_has_no_failback(self):
        self.connections.connect_backing(None, BACKING, CONNECTOR)
        self.resolver.known.assert_not_called()

    def test_it_began(self):
        self.objects[self.now] = ArrayVolume(
            group=5, volume=6, failback_in_progress=True)
        self.assertRaisesRegex(exceptions.ObjectInUse, 'failed back',
                               self.connect)
        self.assertIn('unmap', self.events)
        self.zoning.connected.assert_not_called()

    def test_it_is_over(self):
        self.objects.clear()
        self.now.provider_id = rows.volume(
            BACKING, system='moon').provider_id
        self.assertRaisesRegex(exceptions.ObjectInUse, 'just moved',
                               self.connect)
        self.assertIn('unmap', self.events)

    def test_other_changes_of_the_row_do_no_harm(self):
        self.now.provider_id = rows.volume(
            ArrayVolume(group=5, volume=6, has_clones=True)).provider_id
        self.connect()


@ddt.ddt
class DisconnectTest(ConnectionsCase):

    def disconnect(self, connector=None):
        return self.connections.terminate_connection(
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
        """A refused attach is ended, too, by the host that copies."""
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
        self.array.mappings.group_of.assert_not_called()

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
        found = self.disconnect({**CONNECTOR, connections.INTERNAL: True})
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
        """Its attachment ends all the same, and its host may go."""
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        with self.assertLogs(connections.LOG.logger, 'WARNING') as logs:
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
        self.registry.owners.return_value = {HOST: RECORDS,
                                             OTHER_HOST: {'iqn.b': 8}}
        self.array.mappings.unmap.side_effect = lambda _, host, shared: (
            mappings.Unmapped(found=True, busy=host == OTHER_HOST))
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

    def test_the_profile_goes_with_the_host(self):
        protection = autospec.Double(chap.Chap)
        self.connections = self.make(protection)
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
        with self.assertLogs(connections.LOG.logger, 'WARNING') as logs:
            self.assertIs(mock.sentinel.report, self.disconnect())
        self.assertIn(f'Host {HOST} has no volumes left', logs.output[0])

    def test_what_has_no_row(self):
        self.assertEqual(IDLE, self.connections.disconnect_backing(
            BACKING, CONNECTOR))
        self.assertEqual(held('share', 'owners', 'unmap', 'remove',
                              'now_idle', what=BACKING.mappable),
                         self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)


class SharedHoldTest(ConnectionsCase):
    """Others unmap from the host at the same time."""

    def setUp(self):
        super().setUp()
        self.hold.is_alone = False

    def disconnect(self):
        return self.connections.terminate_connection(self.volume, CONNECTOR)

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
        first, second = self.registry.owners.mock_calls
        self.assertEqual(first, second)

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
        self.registry.owners.side_effect = [{HOST: RECORDS}, {}]
        self.disconnect()
        self.assertNotIn('remove', self.events)
        self.zoning.report.assert_called_once_with({IQN})

    def test_another_record_was_not_this_ones_to_empty(self):
        """One that was busy before is not removed by this detach."""
        self.registry.owners.return_value = {HOST: RECORDS,
                                             OTHER_HOST: {'iqn.b': 8}}
        self.array.mappings.unmap.side_effect = lambda _, host, shared: (
            mappings.Unmapped(found=True, busy=host == OTHER_HOST))
        self.disconnect()
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=(IQN,))

    def test_a_busy_host_is_not_looked_at_again(self):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=True, busy=True)
        self.disconnect()
        self.assertNotIn('is_mapped', self.events)
        self.zoning.report.assert_called_once_with(frozenset())

    def test_what_has_no_row(self):
        self.assertEqual(IDLE, self.connections.disconnect_backing(
            BACKING, CONNECTOR))
        self.assertEqual([
            *held('share', 'owners', 'unmap', what=BACKING.mappable),
            *held('owners', 'is_mapped', 'remove', 'now_idle')],
            self.events)


class HostGroupTest(ConnectionsCase):
    """The volume is mapped to a host group that the host is in."""

    def setUp(self):
        super().setUp()
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.array.mappings.group_of.side_effect = {HOST: GROUP}.get
        self.journal.record(self.users.elsewhere, 'elsewhere')

    def disconnect(self):
        return self.connections.terminate_connection(self.volume, CONNECTOR)

    def test_the_last_member(self):
        self.disconnect()
        self.assertEqual(held(
            'owners', 'using', 'share', 'unmap',
            f'+host_groups {self.volume.id}', 'elsewhere', 'unmap_from_group',
            '-host_groups', what=self.volume.id), self.events)
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)
        self.users.elsewhere.assert_called_once_with(self.volume, [IQN])
        self.zoning.report.assert_called_once_with(frozenset())

    def test_a_host_without_a_group(self):
        """It did not have the volume, and goes if it is idle."""
        self.array.mappings.group_of.side_effect = {}.get
        self.disconnect()
        self.array.mappings.group_of.assert_called_once_with(HOST)
        self.array.mappings.unmap_from_group.assert_not_called()
        self.assertIn('remove', self.events)

    def test_a_busy_host_without_a_group(self):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=True)
        self.array.mappings.group_of.side_effect = {}.get
        self.disconnect()
        self.assertNotIn('remove', self.events)

    def elsewhere(self, group):
        """Another attachment, to a host of that group."""
        self.users.elsewhere.return_value = [['iqn.b']]
        self.registry.owners.side_effect = lambda sought: (
            {OTHER_HOST: {'iqn.b': 8}} if sought.initiators == ('iqn.b',)
            else {HOST: RECORDS})
        self.array.mappings.group_of.side_effect = {
            HOST: GROUP, OTHER_HOST: group}.get

    def test_another_member_uses_it(self):
        self.elsewhere(GROUP)
        self.disconnect()
        self.array.mappings.unmap_from_group.assert_not_called()
        mapping, = self.kept.every()
        self.assertEqual((self.volume.id, BACKING.mappable, [IQN]), (
            mapping.volume_id, mapping.mappable, mapping.initiators))

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
        self.assertEqual(SETTLED, self.connections.disconnect_backing(
            BACKING, CONNECTOR))
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)
        self.users.elsewhere.assert_not_called()


class EverywhereTest(ConnectionsCase):
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
                      self.connections.terminate_connection(
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
        self.connections.terminate_connection(self.volume, None)
        self.registry.ours.assert_called_once_with(HOST)
        self.registry.initiators.assert_called_once_with(HOST)
        self.remove.assert_called_once_with(
            self.array, self.registry, OURS, RECORDS, None,
            connected=())

    def test_mappings_are_read_beside_the_volume(self):
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.connections.terminate_connection(self.volume, None)
        self.assertEqual(1, self.array.concurrently.call_count)
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.resolver.known.assert_called_once_with(self.volume)
        self.resolver.find.assert_called_once_with(self.volume)

    def test_a_row_without_ids(self):
        self.resolver.known.return_value = None
        self.connections.terminate_connection(self.volume, None)
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.array.mappings.delete.assert_called_once_with(self.mappings)
        self.resolver.find.assert_called_once_with(self.volume)

    def test_one_that_is_moving(self):
        """Finding it asks the array, so nothing is asked beside that."""
        moving = ArrayVolume(group=5, volume=6, regrouping=True)
        self.resolver.known.return_value = moving
        self.resolver.find.return_value = moving
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.connections.terminate_connection(self.volume, None)
        self.array.concurrently.assert_not_called()
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)

    def test_one_that_is_another_now(self):
        self.resolver.find.return_value = ArrayVolume(group=5, volume=60)
        others = [mapping(2)]
        self.mapped['volumes/60'] = {HOST: others}
        self.connections.terminate_connection(self.volume, None)
        self.array.mappings.delete.assert_called_once_with(others)

    def test_one_that_is_gone(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.connections.terminate_connection(self.volume, None)
        self.array.mappings.delete.assert_not_called()
        self.zoning.report.assert_called_once_with(frozenset())

    def test_a_host_with_other_volumes(self):
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.assertEqual(SETTLED, self.connections.disconnect_all(BACKING))
        self.array.mappings.hosts_in_use.assert_called_once_with(
            {HOST: self.mappings})
        self.assertIn('delete', self.events)
        self.assertNotIn('is_mapped', self.events)

    def test_a_host_that_got_a_volume_meanwhile(self):
        self.array.mappings.is_mapped.return_value = True
        self.assertEqual(SETTLED, self.connections.disconnect_all(BACKING))
        self.array.mappings.is_mapped.assert_called_once_with(HOST)
        self.assertNotIn('remove', self.events)
        self.zoning.now_idle.assert_not_called()

    def test_a_host_whose_initiators_are_not_shown(self):
        self.registry.initiators_of.return_value = {}
        self.assertEqual(SETTLED, self.connections.disconnect_all(BACKING))
        self.assertEqual('+hold sys-1  None None', self.events[0])
        self.assertIn('remove', self.events)

    def test_several_hosts(self):
        """Each is held by its own initiators while it is changed."""
        self.mapped['volumes/6'][OTHER_HOST] = [mapping(2, OTHER_HOST)]
        self.registry.initiators_of.return_value = {
            HOST: [IQN], OTHER_HOST: ['iqn.b']}
        self.array.mappings.hosts_in_use.return_value = {HOST}
        self.assertEqual(connections.Disconnected(idle={'iqn.b'}),
                         self.connections.disconnect_all(BACKING))
        self.assertEqual(
            [f'+hold sys-1 {name} None None'
             for name in (IQN, 'iqn.b', 'iqn.b')],
            [event for event in self.events if event.startswith('+hold')])

    def test_nothing_to_disconnect(self):
        self.assertEqual(SETTLED, self.connections.disconnect_all(None))
        self.array.mappings.of_volumes.assert_not_called()

    def test_volumes_by_id(self):
        self.connections.disconnect_volumes([6, 7])
        self.array.mappings.of_volumes.assert_called_once_with(
            rest.Ref('volumes', 6), rest.Ref('volumes', 7))
        self.array.mappings.delete.assert_called_once_with(self.mappings)

    def test_ours_alone(self):
        self.mapped['volumes/6'][OTHER_HOST] = [mapping(2, OTHER_HOST)]
        self.registry.ours.side_effect = {HOST: OURS, OTHER_HOST: None}.get
        self.connections.disconnect_ours(BACKING)
        self.assertNotIn('unmap', self.events)
        self.array.mappings.by_host.assert_called_once_with(
            ['volumes/6'], groups_too=False)
        self.array.mappings.delete.assert_called_once_with(self.mappings)


class KeptTest(ConnectionsCase):
    """What detaches left to other attachments, when nothing needs it."""

    def setUp(self):
        super().setUp()
        self.mapping, = self.kept_at(IQN)

    def disconnect(self, row):
        """Whether it is gone, if the row is found when the host is held."""
        def find():
            self.events.append('find')
            return row
        return self.connections.disconnect_kept(self.mapping, find, 5.0)

    def test_it_is_unmapped_as_by_a_detach(self):
        """Alone, and the host is waited for as long as was said."""
        self.assertIs(True, self.disconnect(self.volume))
        self.assertEqual(held('find', 'owners', 'unmap', 'remove',
                              'now_idle', timeout=5.0), self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)
        self.registry.owners.assert_called_once_with(self.mapping.host)
        self.assertEqual([], self.kept.every())

    def test_something_may_need_it(self):
        self.assertIs(False, self.disconnect(None))
        self.assertEqual(held('find', timeout=5.0), self.events)
        self.resolver.find.assert_not_called()
        self.assertEqual([self.mapping], self.kept.every())

    def test_the_row_has_other_data_by_now(self):
        self.resolver.find.return_value = ArrayVolume(group=5, volume=60)
        self.assertIs(True, self.disconnect(self.volume))
        self.assertNotIn('unmap', self.events)
        self.assertEqual([], self.kept.every())

    def test_the_volume_is_gone(self):
        """The host may go, too."""
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.assertIs(True, self.disconnect(self.volume))
        self.array.mappings.unmap.assert_called_once_with(
            None, HOST, shared=False)
        self.assertEqual([], self.kept.every())

    def test_the_array_fails(self):
        self.array.mappings.unmap.side_effect = rest.Unreachable('gone')
        self.assertRaises(rest.Unreachable, self.disconnect, self.volume)
        self.assertEqual([self.mapping], self.kept.every())

    def in_a_group(self, *elsewhere):
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.array.mappings.group_of.return_value = GROUP
        self.users.elsewhere.return_value = list(elsewhere)

    def test_a_host_group_that_no_member_needs(self):
        self.in_a_group()
        self.disconnect(self.volume)
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)

    def test_a_host_group_that_another_member_needs(self):
        """That one unmaps it when it leaves."""
        self.in_a_group(['iqn.b'])
        self.assertIs(True, self.disconnect(self.volume))
        self.array.mappings.unmap_from_group.assert_not_called()
        self.assertEqual([], self.kept.every())

    def test_a_volume_that_is_detached_is_released(self):
        others, = self.kept_at('iqn.b')
        foreign = kept.Mapping('v9', rest.Ref('volumes', 9),
                               array_hosts.Sought((IQN,)))
        self.kept.add(foreign)
        self.connections.release(self.volume)
        self.assertCountEqual(
            [mock.call(BACKING, HOST, shared=False)] * 2,
            self.array.mappings.unmap.mock_calls)
        self.assertEqual([foreign], self.kept.every())

    def test_nothing_to_release(self):
        self.kept.drop(self.mapping)
        self.connections.release(self.volume)
        self.assertEqual([], self.events)

    def test_a_row_without_ids_is_released_by_nothing(self):
        self.resolver.known.return_value = None
        self.connections.release(self.volume)
        self.assertEqual([], self.events)

    def test_a_volume_that_is_to_be_deleted(self):
        """Also from a host group, and from hosts that others made."""
        self.in_a_group()
        self.array.mappings.of_volumes.return_value = []
        self.array.mappings.by_host.return_value = {}
        self.array.mappings.hosts_in_use.return_value = set()
        self.registry.initiators_of.return_value = {}
        self.connections.disconnect_ours(BACKING)
        self.assertEqual(held('owners', 'unmap', 'unmap_from_group'),
                         self.events)
        self.users.elsewhere.assert_not_called()
        self.assertEqual([], self.kept.every())
