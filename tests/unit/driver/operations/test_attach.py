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

"""Attaching: the calls to the array, and the locks held around them."""

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
class AttachTest(connecting.ConnectingCase):

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

    def test_volume_is_held_during_the_attach(self):
        """It cannot be flattened; its ids are read while it is held.

        They are read again once the host is held, which may take minutes
        (OBJ-7).
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

    def test_host_that_another_service_has_shared(self):
        """Operations that wait may enter at once: the host will not change."""
        self.hold.is_alone = False
        self.journal.record(self.resolver.find, 'find')
        self.attaching.initialize_connection(self.volume, dict(CONNECTOR))
        self.assertEqual(held('share', 'find', 'at', 'attach', 'connected',
                              what=self.volume.id), self.events)

    def test_volume_being_flattened_is_not_attached(self):
        self.resolver.held.side_effect = exceptions.ObjectInUse('v', 'copied')
        self.assertRaisesRegex(
            exceptions.ObjectInUse, 'copied',
            self.attaching.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertEqual([], self.events)

    def test_volume_being_failed_back_is_not_attached(self):
        self.resolver.known.return_value = ArrayVolume(
            group=5, volume=6, failback_in_progress=True)
        error = self.assertRaises(
            exceptions.ObjectInUse,
            self.attaching.initialize_connection, self.volume,
            dict(CONNECTOR))
        self.assertIn(self.volume.id, str(error))
        self.assertEqual([], self.events)

    def test_arguments_of_the_attach_flow(self):
        self.connect(self.volume)
        self.attach.assert_called_once_with(
            self.array, self.registry, BACKING, sought=self.sought,
            look_first=False, hold=self.hold, guard=None, share_early=True,
            verify_volume=mock.ANY)
        self.assertEqual((IQN,), self.sought.initiators)
        self.transport.initiators.assert_called_once_with(CONNECTOR)
        self.transport.targets.assert_called_once_with(self.array, [IQN])
        self.transport.hosts.assert_called_with(self.array)

    @ddt.data((False, 1, False), (True, 0, False), (False, 0, True))
    @ddt.unpack
    def test_mappings_that_may_be_kept(self, multiattach, at, early):
        """The host is shared late, so that a failed attach can remove it."""
        self.volume.multiattach = multiattach
        self.users.at.return_value = at
        self.connect(self.volume)
        self.assertIs(early, self.attach.call_args.kwargs['share_early'])

    def verify_volume(self, volume):
        """Call what the flow may call before it repeats a mapping."""
        self.connect(volume)
        verify = self.attach.call_args.kwargs['verify_volume']
        return verify()

    def test_volume_is_resolved_before_the_mapping_is_repeated(self):
        self.verify_volume(self.volume)
        self.assertEqual([mock.call(self.volume)] * 2,
                         self.resolver.find.mock_calls)

    def test_volume_has_another_object_before_the_mapping_is_repeated(self):
        self.resolver.find.side_effect = [
            BACKING, dataclasses.replace(BACKING, volume=99)]
        error = self.assertRaises(exceptions.ObjectRenamed,
                                  self.verify_volume, self.volume)
        self.assertEqual(
            'The volume to be attached is no longer /volumes/6 on the array, '
            'as it was when the attach began; try again.',
            str(error))

    def test_object_without_a_row(self):
        """It is verified once the host is held, and before a repetition."""
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

    def test_object_without_a_row_is_gone(self):
        self.array.identity.is_current.return_value = False
        self.assertRaises(exceptions.ObjectMissing, self.connect, None)
        self.attach.assert_not_called()

    def test_volume_is_gone_when_the_host_is_held(self):
        self.resolver.find.side_effect = exceptions.ObjectMissing('gone')
        self.assertRaises(exceptions.ObjectMissing, self.connect, self.volume)
        self.assertEqual(held(what=self.volume.id), self.events)

    def test_existing_mapping_is_looked_up_if_the_host_has_attachments(self):
        self.users.at.return_value = 1
        self.connect(self.volume)
        self.users.at.assert_called_once_with(self.volume, [IQN])
        self.assertTrue(self.attach.call_args.kwargs['look_first'])

    def test_attachments_are_not_read_without_a_row(self):
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

    def test_host_is_held_exclusively_to_be_created(self):
        """First without another service, then without other threads, too."""
        self.attach.side_effect = [hosts.MustBeAlone, hosts.MustBeAlone,
                                   hosts.Attached(lun=8)]
        found = self.connect(self.volume)
        self.assertEqual(8, found['data']['target_lun'])
        self.assertEqual(
            [*held('at', what=self.volume.id),
             *held('at', what=self.volume.id, alone=True),
             *held('at', 'connected')], self.events)
        first, _, second = (
            (one.args, {**one.kwargs, 'verify_volume': None})
            for one in self.attach.mock_calls)
        self.assertEqual(first, second)
        self.assertEqual([mock.call(self.volume, [IQN])] * 3,
                         self.users.at.mock_calls)
        self.targets.properties.assert_called_once_with(8)

    def test_array_without_target_ports(self):
        self.transport.targets.side_effect = exceptions.ArrayNotSupported('x')
        self.assertRaises(exceptions.ArrayNotSupported, self.connect)
        self.assertEqual([], self.events)


class FailedAttachTest(connecting.ConnectingCase):
    """A mapping is undone if Cinder does not get the connection."""

    def setUp(self):
        super().setUp()
        self.journal.record(self.zoning.connected, 'connected',
                            rest.Unreachable('fabric'))

    def connect(self, volume=None):
        self.assertRaisesRegex(rest.Unreachable, 'fabric', self.connected,
                               volume)

    def test_volume_is_unmapped(self):
        self.connect(self.volume)
        self.assertEqual([*held(
            'at', 'attach', 'connected', '+cleanup_deadline', 'owners',
            'unmap',
            'remove', 'now_idle', '-cleanup_deadline', what=self.volume.id),
            '+cleanup_deadline', '-cleanup_deadline'], self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=False)
        self.registry.owners.assert_called_once_with(self.sought)

    def test_volume_is_unmapped_when_mapping_failed(self):
        self.attach.side_effect = rest.Unreachable('fabric')
        self.connect()
        self.assertIn('unmap', self.events)
        self.zoning.connected.assert_not_called()

    def test_mapping_of_another_attachment_is_not_undone(self):
        self.users.at.return_value = 1
        self.connect(self.volume)
        self.assertEqual(held('at', 'attach', 'connected',
                              what=self.volume.id), self.events)

    def test_idle_host_is_removed_after_a_shared_hold(self):
        """Others may use the host until then, so it is checked later."""
        self.hold.is_alone = False
        self.connect(self.volume)
        self.assertEqual([
            *held('share', 'at', 'attach', 'connected', '+cleanup_deadline',
                  'owners', 'unmap', '-cleanup_deadline',
                  what=self.volume.id),
            '+cleanup_deadline',
            *held('owners', 'is_mapped', 'remove', 'now_idle'),
            '-cleanup_deadline'], self.events)
        self.array.mappings.unmap.assert_called_once_with(
            BACKING, HOST, shared=True)

    def test_original_error_is_raised_when_unmapping_fails(self):
        self.array.mappings.unmap.side_effect = rest.Unreachable('array')
        with self.assertLogs(attach.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn(str(BACKING.mappable), logs.output[0])
        self.assertIn('array', logs.output[0])
        self.assertEqual(1, len(logs.output))
        self.assertNotIn('remove', self.events)

    def test_original_error_is_raised_when_the_host_is_not_removed(self):
        self.hold.is_alone = False
        self.array.mappings.is_mapped.side_effect = rest.Unreachable('array')
        with self.assertLogs(attach.LOG.logger, 'WARNING') as logs:
            self.connect(self.volume)
        self.assertIn('A host without volumes may be left', logs.output[0])
        self.assertEqual('-cleanup_deadline', self.events[-1])

    def test_volume_is_unmapped_from_a_host_group(self):
        """No other member of the group uses the volume."""
        self.array.mappings.unmap.return_value = mappings.Unmapped(
            found=False, busy=False)
        self.holders.group_of.return_value = GROUP
        self.connect(self.volume)
        self.users.elsewhere.assert_called_once_with(self.volume, [IQN])
        self.array.mappings.unmap_from_group.assert_called_once_with(
            BACKING, GROUP)

    def test_mapping_may_belong_to_another_reserved_attachment(self):
        """The count includes the attachment that failed."""
        self.volume.multiattach = True
        self.users.coming.return_value = 2
        self.connect(self.volume)
        self.users.coming.assert_called_once_with(self.volume)
        self.assertNotIn('unmap', self.events)
        mapping, = self.kept.every()
        self.assertEqual(self.sought, mapping.host)

    def test_no_other_reserved_attachment(self):
        self.volume.multiattach = True
        self.users.coming.return_value = 1
        self.connect(self.volume)
        self.assertIn('unmap', self.events)
        self.assertEqual([], self.kept.every())

    def test_nothing_to_undo_if_the_host_must_be_held_exclusively(self):
        self.attach.side_effect = hosts.MustBeAlone
        self.assertRaises(hosts.MustBeAlone, self.connected, self.volume)
        self.assertNotIn('unmap', self.events)


class ConcurrentFailbackTest(connecting.ConnectingCase):
    """A failback may start while a volume is being attached."""

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

    def test_row_did_not_change(self):
        self.connect()
        self.current.assert_called_once_with(self.volume)
        self.resolver.known.assert_called_with(self.now)

    def test_back_end_with_one_array(self):
        self.resolver.peers.clear()
        self.connect()
        self.current.assert_not_called()

    def test_new_volume_whose_ids_are_not_saved_yet(self):
        """Cinder attaches it itself, to write an image to it."""
        self.now.provider_id = None
        self.connect()
        self.resolver.known.assert_called_once_with(self.volume)

    def test_object_without_a_row(self):
        self.connected(None)
        self.resolver.known.assert_not_called()

    def test_failback_started(self):
        self.objects[self.now] = ArrayVolume(
            group=5, volume=6, failback_in_progress=True)
        self.assertRaisesRegex(exceptions.ObjectInUse, 'failed back',
                               self.connect)
        self.assertIn('unmap', self.events)
        self.zoning.connected.assert_not_called()

    def test_failback_completed(self):
        self.objects.clear()
        self.now.provider_id = rows.volume(
            BACKING, system='moon').provider_id
        self.assertRaisesRegex(exceptions.ObjectInUse, 'just moved',
                               self.connect)
        self.assertIn('unmap', self.events)

    def test_other_changes_of_the_row_are_ignored(self):
        self.now.provider_id = rows.volume(
            ArrayVolume(group=5, volume=6, has_clones=True)).provider_id
        self.connect()
