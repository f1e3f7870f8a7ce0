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

"""Attach: what is asked of the array, under which locks."""

import dataclasses
from unittest import mock

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import chap as array_chap
from cinder_k2.array import mappings
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import attach
from cinder_k2 import exceptions
from cinder_k2.flows import chap
from cinder_k2.flows import hosts
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver.operations import connecting
from tests.unit.driver import rows

IQN = connecting.IQN
HOST = connecting.HOST
BACKING = connecting.BACKING
CONNECTOR = connecting.CONNECTOR
GROUP = connecting.GROUP
held = connecting.held


@ddt.ddt
class ConnectTest(connecting.ConnectingCase):

    def connect(self, volume=None, connector=None):
        return self.connected(volume, connector or CONNECTOR)

    def test_initialize_connection(self):
        connector = dict(CONNECTOR)
        found = self.attaching.initialize_connection(
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
        """What backs it is taken from the row when it is held.

        And when the host is, which may take minutes (OBJ-7).
        """
        self.journal.record(self.resolver.find, 'find')
        self.resolver.held.side_effect = self.journal.context('held')
        self.attaching.initialize_connection(self.volume, dict(CONNECTOR))
        self.assertEqual('+held', self.events[0].split()[0])
        self.assertEqual(held('find', 'at', 'attach', 'connected',
                              what=self.volume.id), self.events[1:-1])
        self.assertEqual('-held', self.events[-1])
        self.resolver.held.assert_called_once_with(
            self.volume, locks.ATTACH_LOCK_TIMEOUT)

    def test_nothing_is_connected_that_is_flattened(self):
        self.resolver.held.side_effect = exceptions.ObjectInUse('v', 'copied')
        self.assertRaisesRegex(
            exceptions.ObjectInUse, 'copied',
            self.attaching.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertEqual([], self.events)

    def test_nothing_is_connected_in_a_failback(self):
        self.resolver.known.return_value = ArrayVolume(
            group=5, volume=6, failback_in_progress=True)
        error = self.assertRaises(
            exceptions.ObjectInUse,
            self.attaching.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual([], self.events)

    def test_what_is_asked_of_the_flow(self):
        self.connect(self.volume)
        self.attach.assert_called_once_with(
            self.array, self.registry, BACKING, sought=self.sought,
            look_first=False, hold=self.hold, guard=None,
            verify_volume=mock.ANY)
        self.assertEqual((IQN,), self.sought.initiators)
        self.transport.initiators.assert_called_once_with(CONNECTOR)
        self.transport.targets.assert_called_once_with(self.array, [IQN])
        self.transport.hosts.assert_called_with(self.array)

    def verify_volume(self, volume):
        """What the flow may call before it maps once more."""
        self.connect(volume)
        verify = self.attach.call_args.kwargs['verify_volume']
        return verify()

    def test_a_volume_is_found_before_it_is_mapped_again(self):
        self.verify_volume(self.volume)
        self.assertEqual([mock.call(self.volume)] * 2,
                         self.resolver.find.mock_calls)

    def test_it_has_another_object_by_then(self):
        self.resolver.find.side_effect = [
            BACKING, dataclasses.replace(BACKING, volume=99)]
        error = self.assertRaises(exceptions.ObjectRenamed,
                                  self.verify_volume, self.volume)
        self.assertEqual(
            'What was to be attached is not /volumes/6 on the array any '
            'more, as it was when its attachment began; try again.',
            str(error))

    def test_what_has_no_row(self):
        """It is verified when the host is held, and before another try."""
        self.array.identity.is_current.side_effect = [True, False]
        self.connect(None)
        self.assertEqual(held('attach', 'connected',
                              what=str(BACKING.mappable)), self.events)
        self.resolver.find.assert_not_called()
        self.assertRaisesRegex(
            exceptions.ObjectMissing, 'no longer has view with the id 6',
            self.attach.call_args.kwargs['verify_volume'])
        self.assertEqual([mock.call(connecting.NAMED)] * 2,
                         self.array.identity.is_current.mock_calls)

    def test_what_has_no_row_is_gone(self):
        self.array.identity.is_current.return_value = False
        self.assertRaises(exceptions.ObjectMissing, self.connect, None)
        self.attach.assert_not_called()

    def test_what_is_gone_when_the_host_is_held(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.assertRaises(exceptions.ObjectMissing, self.connect, self.volume)
        self.assertEqual(held(what=self.volume.id), self.events)

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

    def test_chap(self):
        protection = autospec.Double(chap.Chap)
        protection.guard.return_value = mock.sentinel.guard
        self.attach.return_value = hosts.Attached(
            lun=4, login=array_chap.Login('name', 'word'))
        self.make(protection)
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


class FailedConnectTest(connecting.ConnectingCase):
    """A mapping that Cinder does not get is taken back."""

    def setUp(self):
        super().setUp()
        self.journal.record(self.zoning.connected, 'connected',
                            rest.Unreachable('fabric'))

    def connect(self, volume=None):
        self.assertRaisesRegex(rest.Unreachable, 'fabric', self.connected,
                               volume)

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
        with self.assertLogs(attach.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn(str(BACKING.mappable), logs.output[0])
        self.assertIn('array', logs.output[0])
        self.assertEqual(1, len(logs.output))
        self.assertNotIn('remove', self.events)

    def test_the_first_error_is_reported_when_the_host_stays(self):
        self.hold.is_alone = False
        self.array.mappings.is_mapped.side_effect = rest.Unreachable('array')
        with self.assertLogs(attach.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn('A host without volumes may be left', logs.output[0])
        self.assertEqual('-cleanup_deadline', self.events[-1])

    def test_it_is_taken_back_from_a_host_group(self):
        """Other members that use the volume keep it."""
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.holders.group_of.return_value = GROUP
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
        self.assertRaises(hosts.MustBeAlone, self.connected, self.volume)
        self.assertNotIn('unmap', self.events)


class MeanwhileTest(connecting.ConnectingCase):
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
        return self.connected(self.volume)

    def test_nothing_happened(self):
        self.connect()
        self.current.assert_called_once_with(self.volume)
        self.resolver.known.assert_called_with(self.now)

    def test_one_array_has_no_failback(self):
        self.resolver.peers.clear()
        self.connect()
        self.current.assert_not_called()

    def test_a_new_volume_that_cinder_fills(self):
        """Its ids are not saved yet."""
        self.now.provider_id = None
        self.connect()
        self.resolver.known.assert_called_once_with(self.volume)

    def test_what_has_no_row_has_no_failback(self):
        self.connected(None)
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
