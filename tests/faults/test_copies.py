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

"""Copies that fail, are interrupted, or run with other operations."""

import os
import pathlib
import tempfile
import threading
from typing import Any
from unittest import mock

from cinder import exception
from cinder.volume import volume_utils

from cinder_k2.driver import locks
from tests.functional import backend
from tests.functional import disks
from tests.functional import test_copies

GIB = 1 << 30


class CopyFaultsTest(test_copies.DataTest):

    def test_only_so_many_at_once(self) -> None:
        self.use('iscsi', k2_max_concurrent_copies='2')
        source = self.backend.create_volume(1)
        begun = threading.Semaphore(0)
        copy = volume_utils.copy_volume

        def slow(*args: Any, **kwargs: Any) -> None:
            begun.release()
            begun.acquire(timeout=0.05)
            copy(*args, **kwargs)

        with mock.patch.object(volume_utils, 'copy_volume', slow):
            results = self.together(*[lambda: self.backend.clone(
                source, kaminario__clone_strategy='copy')] * 5)
        for volume in results:
            self.assertEqual('available', getattr(volume, 'status', volume))
        self.assertLessEqual(self.disks.most, 2 * 2)
        self.assertEqual(5 * 2, self.disks.total)

    def test_failures_leave_nothing(self) -> None:
        """Each request in turn is refused; then dd fails."""
        snapshot = self.backend.create_snapshot(self.volume)
        before = self.left()

        def make() -> Any:
            return self.together(lambda: self.backend.volume_from_snapshot(
                snapshot, kaminario__clone_strategy='copy'))[0]

        self.array.control.clear_journal()
        self.backend.delete_volume(make())
        writes = [e for e in self.array.control.journal()
                  if e.method in ('POST', 'PATCH')]
        for after, _ in enumerate(writes):
            self.fault('status', 'POST,PATCH', '*', status=403, after=after)
            result = make()
            self.array.control.clear_faults()
            self.assertIsInstance(result, backend.OperationFailed)
            self.assertEqual(before, self.left(), str(writes[after]))
            self.backend.delete_volume(result.row)
        with mock.patch.object(volume_utils, 'copy_volume', autospec=True,
                               side_effect=OSError('no space')):
            result = make()
        self.assertIsInstance(result, backend.OperationFailed)
        self.assertEqual(before, self.left())

    def test_killed_while_copying(self) -> None:
        """Deleting the volume in error removes all leftovers."""
        before = self.left()

        def killed(*_: Any, **__: Any) -> None:
            # A killed service sends nothing more.
            self.fault('status', '*', '*', status=403, times=None)
            raise OSError('killed')

        with mock.patch.object(volume_utils, 'copy_volume', killed):
            failure = self.assertRaises(
                backend.OperationFailed, self.backend.clone, self.volume,
                kaminario__clone_strategy='copy')
        self.array.control.clear_faults()
        self.assertNotEqual(before, self.left())
        self.backend.delete_volume(failure.row)
        self.assertEqual(before, self.left())


class InterruptedTest(test_copies.DataTest):
    """Copies that run with other operations, or end prematurely."""

    profile = 'sdp'

    def setUp(self) -> None:
        super().setUp()
        self.view = self.backend.clone(self.volume,
                                       kaminario__clone_strategy='view')

    def _during_a_copy(self, act: Any) -> Any:
        copy, done = volume_utils.copy_volume, []

        def slow(*args: Any, **kwargs: Any) -> None:
            copy(*args, **kwargs)
            if not done:
                done.append(act())
        return mock.patch.object(volume_utils, 'copy_volume', slow)

    def test_nobody_attaches_what_is_copied_for_a_group(self) -> None:
        group = self.backend.create_group(self.view.volume_type)
        refused: list[Any] = []

        def attach() -> None:
            refused.append(self.assertRaises(
                exception.VolumeBackendAPIException, self.backend.attach,
                self.view, self.host()))

        with mock.patch.object(locks, 'ATTACH_LOCK_TIMEOUT', 0.05), \
                self._during_a_copy(lambda: self.together(attach)):
            self.backend.update_group(group, add=[self.view])
        self.assertEqual(1, len(refused))
        self.assertIn('is being copied; try again', str(refused[0]))
        row = self.backend.volume(self.view.id)
        for attachment in row.volume_attachment:
            self.backend.detach(attachment)
        row = self.backend.volume(self.view.id)
        self.assertEqual('available', row.status)
        self.assert_data(row)
        self.assert_full(row)

    def test_killed_while_promoting_then_deleted(self) -> None:
        """The volume, group and mappings of the copy are deleted, too."""
        def killed(*_: Any, **__: Any) -> None:
            self.fault('status', '*', '*', status=403, times=None)
            raise OSError('killed')

        with mock.patch.object(volume_utils, 'copy_volume', killed):
            self.assertRaises(backend.OperationFailed,
                              self.backend.extend_volume, self.view, 2)
        self.array.control.clear_faults()
        self.assertEqual(3, self.left()['volumes'] + self.left()['views'])
        self.backend.delete_volume(self.view, force=True)
        self.assert_left(volumes=1, volume_groups=1)

    def test_the_source_is_given_up_while_it_is_copied(self) -> None:
        with self._during_a_copy(
                lambda: self.backend.extend_volume(self.volume, 2)):
            copy = self.backend.clone(self.view,
                                      kaminario__clone_strategy='copy')
        self.assert_data(copy)

    def test_a_device_that_cannot_be_read(self) -> None:
        before = self.left()
        with mock.patch.object(disks.Connector, 'check_valid_device',
                               lambda *_, **__: False):
            self.assertRaises(backend.OperationFailed, self.backend.clone,
                              self.volume, kaminario__clone_strategy='copy')
        self.assertEqual({}, self.disks.connected)
        self.assertEqual(before, self.left())

    def test_dd_ends_with_its_time(self) -> None:
        """dd is killed: nothing may be unmapped while it writes."""
        own = self.own('iscsi', k2_copy_timeout='1')
        volume = own.create_volume(1)
        folder = tempfile.TemporaryDirectory(prefix='cinder-k2-dd-')
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name, 'dd')
        program.write_text('#!/bin/sh\ncase "$*" in *count=0*) exit 0;; esac'
                           f'\necho $$ > {folder.name}/pid\n'
                           'exec sleep 60\n', encoding='ascii')
        program.chmod(0o755)
        with mock.patch.dict(
                os.environ, PATH=f'{folder.name}:{os.environ["PATH"]}'):
            failure = self.assertRaises(
                backend.OperationFailed, own.clone, volume,
                kaminario__clone_strategy='copy')
        self.assertIn('k2_copy_timeout', str(failure.cause))
        pid = pathlib.Path(folder.name, 'pid').read_text(encoding='ascii')
        self.assertFalse(os.path.exists(f'/proc/{pid.strip()}'))

    def test_a_quota_leaves_the_other_strategies(self) -> None:
        group = self.admin.list('volume_groups',
                                name=f'cvg-{self.volume.id}')[0]['id']
        self.admin.update('volume_groups', group, quota=2 * GIB // 1024)
        self.assert_data(self.backend.clone(self.volume, 3))
