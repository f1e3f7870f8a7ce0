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

"""Copies by this host: their number is limited, and devices are removed."""

import subprocess
from unittest import mock

from cinder import exception
from cinder import utils
from cinder.volume import volume_utils
import ddt
from oslotest import base

from cinder_k2.array import ArrayVolume
from cinder_k2.array import NamedVolume
from cinder_k2.driver.operations import attach
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import host_copy
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.driver import autospec

VIEW = ArrayVolume(group=1, view=2)
VOLUME = ArrayVolume(group=3, volume=4)
SOURCE = NamedVolume(VIEW, ('view',))
TARGET = NamedVolume(VOLUME, ('old', 'new'))
CONNECTOR = {'initiator': 'iqn.here'}
FRESH = '+deadline fresh=True'
KIB_PER_GIB = 1024 * 1024


class HostCopyCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.events = self.journal.events
        self.array = autospec.array(self.journal, 'identity')
        self.there = {SOURCE: True, TARGET: True}
        self.array.identity.is_current.side_effect = (
            lambda named: self.there[named])
        self.attach = autospec.Double(attach.Attach)
        self.detach = autospec.Double(detach.Detach)
        self.attach.connect_backing.side_effect = self._connect
        self.detach.disconnect_backing.side_effect = (
            lambda backing, connector: self.events.append(
                f'disconnect {backing and backing.mappable.id}'))
        self.configuration = mock.Mock(
            spec_set=['use_multipath_for_image_xfer', 'k2_copy_timeout',
                      'enforce_multipath_for_image_xfer',
                      'volume_dd_blocksize', 'k2_max_concurrent_copies'],
            use_multipath_for_image_xfer=mock.sentinel.use,
            enforce_multipath_for_image_xfer=mock.sentinel.enforce,
            volume_dd_blocksize='1M', k2_copy_timeout=0.01,
            k2_max_concurrent_copies=1)
        self.driver = mock.Mock(spec_set=['configuration', '_connect_device'],
                                configuration=self.configuration)
        self.driver._connect_device.side_effect = self._device
        self.properties = autospec.patched(
            self, volume_utils, 'brick_get_connector_properties',
            return_value=CONNECTOR)
        self.copy_volume = autospec.patched(self, volume_utils, 'copy_volume')
        self.journal.record(self.copy_volume, 'copy')
        self.execute = autospec.patched(self, utils, 'execute')
        self.journal.record(self.execute, 'execute')
        self.copies = host_copy.HostCopy(self.array, self.attach, self.detach,
                                         self.driver)

    def _connect(self, named, connector):
        self.events.append(f'connect {named.backing.mappable.id}')
        return {'data': named.backing.mappable.id}

    def _device(self, connection):
        brick = mock.Mock(spec_set=['disconnect_volume'])
        brick.disconnect_volume.side_effect = (
            lambda data, device, force: self.events.append(
                f'remove {data} {device["path"]} force={force}'))
        self.events.append(f'device {connection["data"]}')
        return {'connector': brick, 'conn': connection,
                'device': {'path': f'/dev/{connection["data"]}'}}


ATTACHED = [FRESH, 'connect 2', '-deadline', 'device 2',
            FRESH, 'connect 4', '-deadline', 'device 4']
DETACHED = ['remove 4 /dev/4 force=True',
            FRESH, 'disconnect 4', '-deadline',
            'remove 2 /dev/2 force=True',
            FRESH, 'disconnect 2', '-deadline']
# After a failure both are looked up.
FAILED = [DETACHED[0], FRESH, '-deadline', *DETACHED[1:5],
          FRESH, '-deadline', *DETACHED[5:]]


@ddt.ddt
class CopyTest(HostCopyCase):

    def test_copy(self):
        self.copies.copy(SOURCE, TARGET, 2 * KIB_PER_GIB)
        self.assertEqual([*ATTACHED, 'copy', *DETACHED], self.events)
        self.copy_volume.assert_called_once_with(
            '/dev/2', '/dev/4', 2048, '1M', execute=mock.ANY,
            sparse=True)
        self.execute.assert_not_called()

    def test_arguments_of_attach_and_detach(self):
        self.copies.copy(SOURCE, TARGET, 1)
        self.properties.assert_called_once_with(
            mock.sentinel.use, mock.sentinel.enforce)
        self.assertEqual(
            [mock.call(SOURCE, CONNECTOR), mock.call(TARGET, CONNECTOR)],
            self.attach.connect_backing.mock_calls)
        self.assertEqual(
            [mock.call(VOLUME, CONNECTOR), mock.call(VIEW, CONNECTOR)],
            self.detach.disconnect_backing.mock_calls)

    @ddt.data((1024, 1), (1025, 2), (2047, 2), (1, 1))
    @ddt.unpack
    def test_size_is_rounded_up_to_mib(self, size, mib):
        self.copies.copy(SOURCE, TARGET, size)
        self.assertEqual(mib, self.copy_volume.call_args.args[2])

    @ddt.data(4, 3)
    def test_overwrite(self, target_size):
        """Zeros are written too, because the target contains data."""
        self.copies.overwrite(SOURCE, TARGET, 4, target_size)
        self.copy_volume.assert_called_once_with(
            '/dev/2', '/dev/4', 1, '1M', execute=mock.ANY,
            sparse=False)
        self.execute.assert_not_called()

    def test_rest_of_a_larger_target_is_overwritten_with_zeros(self):
        self.copies.overwrite(SOURCE, TARGET, 4, 5)
        self.assertEqual([*ATTACHED, 'copy', 'execute', *DETACHED],
                         self.events)
        self.assertEqual(
            ('dd', 'if=/dev/zero', 'of=/dev/4', 'bs=1M', 'conv=fdatasync',
             'oflag=seek_bytes', 'iflag=count_bytes', 'seek=4096',
             'count=1024'), self.execute.call_args.args)
        self.assertIs(True, self.execute.call_args.kwargs['run_as_root'])

    def test_devices_are_removed_when_the_copy_fails(self):
        self.journal.record(self.copy_volume, 'copy', OSError('full'))
        self.assertRaises(OSError, self.copies.copy, SOURCE, TARGET, 1)
        self.assertEqual([*ATTACHED, 'copy', *FAILED], self.events)

    def test_source_is_removed_when_the_target_cannot_be_attached(self):
        self.driver._connect_device.side_effect = [
            self._device({'data': 2}), OSError('no device')]
        del self.events[:]
        self.assertRaises(OSError, self.copies.copy, SOURCE, TARGET, 1)
        self.assertEqual(
            [FRESH, 'connect 2', '-deadline', FRESH, 'connect 4',
             '-deadline', *FAILED[1:]], self.events)
        self.copy_volume.assert_not_called()

    def test_volume_that_was_not_mapped_is_not_unmapped(self):
        self.attach.connect_backing.side_effect = (
            rest.Unreachable('lost'))
        self.assertRaises(rest.Unreachable, self.copies.copy, SOURCE, TARGET,
                          1)
        self.detach.disconnect_backing.assert_not_called()

    def test_device_that_cannot_be_read_is_removed(self):
        """os-brick raises, but has connected it."""
        self.driver._connect_device.side_effect = lambda connection: (
            self._unavailable(connection))
        self.assertRaises(exception.DeviceUnavailable, self.copies.copy,
                          SOURCE, TARGET, 1)
        self.assertEqual([*ATTACHED[:4], *FAILED[6:]], self.events)

    def test_target_deleted_during_the_copy(self):
        """A deletion in Cinder unmaps it: its id may be reused (OBJ-7)."""
        def copy(*args, **how):
            self.there[TARGET] = False
            raise OSError('gone')
        self.copy_volume.side_effect = copy
        self.assertRaises(OSError, self.copies.copy, SOURCE, TARGET, 1)
        self.assertEqual([
            'disconnect None' if event == 'disconnect 4' else event
            for event in [*ATTACHED, *FAILED]], self.events)

    def test_look_after_a_failed_copy_fails(self):
        """Both are unmapped, and the error of the copy is raised."""
        self.copy_volume.side_effect = OSError('full')
        self.array.identity.is_current.side_effect = rest.Refused('HTTP 400')
        self.assertRaises(OSError, self.copies.copy, SOURCE, TARGET, 1)
        self.assertEqual([*ATTACHED, *FAILED], self.events)

    def _unavailable(self, connection):
        raise exception.DeviceUnavailable(
            path='/dev/2', attach_info=self._device(connection), reason='x')


class ConcurrencyTest(HostCopyCase):
    """The number of concurrent copies is limited by an option."""

    def test_wait_for_another_copy(self):
        self.copy_volume.side_effect = lambda *args, **kwargs: (
            self.assertRaisesRegex(
                exceptions.CopyTimeout, 'Waited 0.01 seconds',
                self.copies.copy, SOURCE, TARGET, 1))
        self.copies.copy(SOURCE, TARGET, 1)
        self.assertEqual(1, self.copy_volume.call_count)
        self.assertEqual([*ATTACHED, *DETACHED], self.events)

    def test_concurrent_copies_up_to_the_limit(self):
        self.configuration.k2_max_concurrent_copies = 2
        self.copies = host_copy.HostCopy(self.array, self.attach, self.detach,
                                         self.driver)
        self.copy_volume.side_effect = self.one_more()
        self.copies.copy(SOURCE, TARGET, 1)
        self.assertEqual(2, self.copy_volume.call_count)

    def test_next_copy_starts_before_devices_are_removed(self):
        self.detach.disconnect_backing.side_effect = self.one_more()
        self.copies.copy(SOURCE, TARGET, 1)
        self.assertEqual(2, self.copy_volume.call_count)

    def one_more(self):
        """Return a function that copies on its first call."""
        left = [lambda: self.copies.copy(SOURCE, TARGET, 1)]
        return lambda *args, **how: left and left.pop()()

    def test_next_copy_starts_after_a_failure(self):
        self.copy_volume.side_effect = [OSError('full'), None]
        self.assertRaises(OSError, self.copies.copy, SOURCE, TARGET, 1)
        self.copies.copy(SOURCE, TARGET, 1)


class CommandTest(HostCopyCase):
    """A device is only removed once its writer has ended."""

    def setUp(self):
        super().setUp()
        self.process = mock.create_autospec(subprocess.Popen, instance=True)
        self.process.pid = 77
        self.journal.record(self.process.kill, 'kill')
        self.journal.record(self.process.wait, 'wait')
        self.said = []
        self.copy_volume.side_effect = lambda source, *args, **how: (
            self.said.append(how['execute']('dd', source, nice=1)))

    def run_out_of_time(self, *command, on_execute, **how):
        on_execute(self.process)
        raise subprocess.TimeoutExpired(command, 1)

    def test_command_ends_in_time(self):
        self.execute.side_effect = [('out', 'err')]
        self.copies.copy(SOURCE, TARGET, 1)
        self.assertEqual(('dd', '/dev/2'), self.execute.call_args.args)
        self.assertEqual((0.01, 1), tuple(
            self.execute.call_args.kwargs[key] for key in (
                'timeout', 'nice')))
        self.assertEqual([('out', 'err')], self.said)
        self.process.kill.assert_not_called()

    def test_command_times_out(self):
        self.execute.side_effect = self.run_out_of_time
        error = self.assertRaises(exceptions.CopyTimeout, self.copies.copy,
                                  SOURCE, TARGET, 1)
        self.assertIn('more than 0.01 seconds', str(error))
        self.assertEqual([*ATTACHED, 'kill', 'wait', *FAILED], self.events)
        self.process.wait.assert_called_once_with(0.01)

    def test_command_running_as_root(self):
        """Cinder's user can only wait for it, not kill it."""
        self.execute.side_effect = self.run_out_of_time
        self.process.kill.side_effect = PermissionError
        self.assertRaises(exceptions.CopyTimeout, self.copies.copy, SOURCE,
                          TARGET, 1)
        self.assertEqual([*ATTACHED, 'wait', *FAILED], self.events)

    def test_command_does_not_end(self):
        self.execute.side_effect = self.run_out_of_time
        self.process.wait.side_effect = subprocess.TimeoutExpired('dd', 1)
        with self.assertLogs(host_copy.LOG.logger, 'ERROR') as logs:
            self.assertRaises(exceptions.CopyTimeout, self.copies.copy,
                              SOURCE, TARGET, 1)
        self.assertIn('Process 77 is still copying', logs.output[0])
        self.assertEqual(FAILED, self.events[-len(FAILED):])
