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

"""Clones by copying, many clones at once, and volumes that views back."""

from collections.abc import Iterator
import threading
from typing import Any
from unittest import mock

from cinder import exception
from cinder.volume import volume_utils

from cinder_k2.driver import locks
from tests.functional import backend
from tests.functional import base
from tests.functional import disks

MIB = 1 << 20
GIB = 1 << 30


class DataTest(disks.DisksTest):
    """A volume with data in it."""

    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.disks.write(self.volume, 5 * MIB, b'data of the source')
        self.disks.write(self.volume, GIB - 4, b'tail')

    def assert_data(self, volume: Any) -> None:
        self.assertEqual(b'data of the source',
                         self.disks.read(volume, 5 * MIB, 18))
        self.assertEqual(b'tail', self.disks.read(volume, GIB - 4, 4))

    def assert_full(self, volume: Any) -> None:
        """Check that a volume of the array provides it, and no view."""
        self.assertEqual(1, len(self.admin.list('volumes',
                                                name=f'cv-{volume.id}')))
        self.assertEqual([], self.admin.list('snapshots',
                                             short_name=f'cv-{volume.id}'))


@base.pairwise_variants
class CopyTest(DataTest):

    feature = 'clones of any size and type'

    def test_clone_of_an_attached_volume_larger(self) -> None:
        attachment = self.backend.attach(self.volume, self.host())
        before = self.left()
        clone = self.backend.clone(self.volume, 3,
                                   kaminario__clone_strategy='copy')
        self.assertEqual(3, clone.size)
        self.assert_data(clone)
        self.assert_full(clone)
        # Neither a snapshot nor a view nor a mapping was left.
        self.assertEqual({**before, 'volumes': 2, 'volume_groups': 2},
                         self.left())
        self.backend.detach(attachment)

    def test_from_a_snapshot_without_dedup(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        self.disks.write(self.volume, 5 * MIB, b'later')
        volume = self.backend.volume_from_snapshot(
            snapshot, kaminario__thin_prov_type='nodedup')
        self.assert_data(volume)
        group = self.admin.list('volume_groups', name=f'cvg-{volume.id}')
        self.assertIs(False, group[0]['is_dedup'])

    def test_of_a_view_and_of_its_snapshot(self) -> None:
        view = self.backend.clone(self.volume,
                                  kaminario__clone_strategy='view')
        copy = self.backend.clone(view, kaminario__clone_strategy='copy')
        self.assert_data(copy)
        snapshot = self.backend.create_snapshot(view)
        self.assert_data(self.backend.volume_from_snapshot(
            snapshot, 2, kaminario__clone_strategy='copy'))

    def test_larger_by_whatever_works(self) -> None:
        """The default strategies, copying last."""
        snapshot = self.backend.create_snapshot(self.volume)
        self.assert_data(self.backend.volume_from_snapshot(snapshot, 2))
        self.assert_data(self.backend.clone(self.volume, 2))


class LateTest(DataTest):
    """New objects become visible only after a while (OBJ-6)."""

    def each(self) -> Iterator[None]:
        """Let each object of a clone in turn become visible late."""
        for resource, after in (('volume_groups', 0), ('volumes', 0),
                                ('snapshots', 0), ('snapshots', 1)):
            self.fault('late', 'POST', resource, after=after, reads=3)
            yield
            self.array.control.clear_faults()

    def clone(self) -> Any:
        return self.backend.clone(self.volume,
                                  kaminario__clone_strategy='copy')

    def test_clones(self) -> None:
        for _ in self.each():
            clone = self.clone()
            self.assert_data(clone)
            self.backend.delete_volume(clone)
            self.assert_left(volumes=1, volume_groups=1)

    def test_failed_clones(self) -> None:
        """Failed clones leave nothing."""
        with mock.patch.object(volume_utils, 'copy_volume', autospec=True,
                               side_effect=OSError('full')):
            for _ in self.each():
                self.assertRaises(backend.OperationFailed, self.clone)
                self.assert_left(volumes=1, volume_groups=1)


@base.pairwise_variants
class StormTest(base.FunctionalTest):

    feature = 'many clones of one source at once'

    def test_fifty_clones_of_one_volume(self) -> None:
        volume = self.backend.create_volume(1)
        results = self.together(*[lambda: self.backend.clone(volume)] * 50)
        for clone in results:
            self.assertEqual('available', getattr(clone, 'status', clone))
        self.assertEqual(50, len({c.provider_id for c in results}))
        self.backend.delete_volume(volume)
        removed = self.together(*[
            lambda row=row: self.backend.delete_volume(row)
            for row in results])
        self.assertEqual([None] * 50, removed)
        self.assertNothingLeft()


@base.pairwise_variants
class PromotionTest(DataTest):

    feature = 'extend a volume that a view backs'

    def setUp(self) -> None:
        super().setUp()
        self.view = self.backend.clone(self.volume,
                                       kaminario__clone_strategy='view')

    def test_extend(self) -> None:
        self.view = self.backend.extend_volume(self.view, 3)
        self.assert_data(self.view)
        self.assert_full(self.view)
        on_array = self.admin.list('volumes', name=f'cv-{self.view.id}')
        self.assertEqual(3 * GIB // 1024, on_array[0]['size'])
        self.assert_left(volumes=2, volume_groups=2)
        self.backend.extend_volume(self.view, 4)
        self.backend.delete_volume(self.volume)
        self.assert_data(self.backend.clone(self.view))

    def test_its_snapshots_live_on(self) -> None:
        snapshot = self.backend.create_snapshot(self.view)
        self.disks.write(self.view, 5 * MIB, b'DATA')
        full = self.backend.extend_volume(self.view, 2)
        self.assertEqual(b'DATA', self.disks.read(full, 5 * MIB, 4))
        self.assert_data(self.backend.volume_from_snapshot(snapshot))
        for volume in self.backend.volumes()[2:]:
            self.backend.delete_volume(volume)
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=2, volume_groups=2)

    def test_attached(self) -> None:
        attachment = self.backend.attach(self.view, self.host())
        before = self.left()
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.extend_volume, self.view, 2)
        self.assertEqual('error_extending', failure.status)
        self.assertIn('Detach it first', self.log.errors_text())
        self.assertEqual(before, self.left())
        self.backend.detach(attachment)

    def test_failures_lose_nothing(self) -> None:
        for after in range(9):
            self.fault('status', 'POST,PATCH', '*', status=403,
                       after=after)
            self.together(
                lambda: self.backend.extend_volume(self.view, after + 2))
            self.array.control.clear_faults()
            row = self.backend.volume(self.view.id)
            row.update({'status': 'available'})
            row.save()
            self.assert_data(row)
        self.disks.problems.clear()
        self.assert_data(self.backend.extend_volume(self.view, 12))
        self.backend.delete_volume(self.view)
        self.assert_left(volumes=1, volume_groups=1)


class StaleRowTest(DataTest):
    """A clone was requested before its source got other ids."""

    def test_source_promoted_meanwhile(self) -> None:
        view = self.backend.clone(self.volume,
                                  kaminario__clone_strategy='view')
        stale = self.backend.volume(view.id)
        full = self.backend.extend_volume(view, 2)
        target = self.backend.volume(self.volume.id)
        made = self.backend.side.volumes._sources.marked(
            stale, self.backend.side.resolver.resolve)
        self.assertIsNotNone(made.volume)
        self.assertEqual(full.id, self.backend.volume(view.id).id)
        self.assertIn('has_clones', self.backend.volume(view.id).provider_id)
        self.assert_data(self.backend.volume(view.id))
        self.assertEqual(target.provider_id,
                         self.backend.volume(self.volume.id).provider_id)


class MeanwhileTest(DataTest):
    """Operations while a view is copied for a group.

    Cinder does not change the status of the volume meanwhile, so the driver
    has to refuse other operations.
    """

    def setUp(self) -> None:
        super().setUp()
        self.own('iscsi')
        self.volume = self.backend.create_volume(1)
        self.disks.write(self.volume, 5 * MIB, b'data of the source')
        self.disks.write(self.volume, GIB - 4, b'tail')
        self.view = self.backend.clone(self.volume,
                                       kaminario__clone_strategy='view')
        self.group = self.backend.create_group(self.view.volume_type)
        # Another service of the back end has been started before.
        self.other = self.backend.driver
        self.assertTrue(self.backend.restart())

    def copy(self, act: Any, patience: float = 0.05) -> Any:
        """Add the view to a group; run ``act`` after its data was copied.

        :param patience: the lock timeout of ``act`` in seconds
        :returns: the row of the volume
        """
        copy_volume, done = volume_utils.copy_volume, []

        def slow(*args: Any, **kwargs: Any) -> None:
            copy_volume(*args, **kwargs)
            with mock.patch.multiple(locks, ATTACH_LOCK_TIMEOUT=patience,
                                     LOCK_TIMEOUT=patience):
                # In another thread: this one has locked the volume.
                done.extend(self.together(act))

        with mock.patch.object(volume_utils, 'copy_volume', slow):
            self.backend.update_group(self.group, add=[self.view])
        self.assertEqual([None], done)
        row = self.backend.volume(self.view.id)
        self.assertIn('"volume":', row.provider_id)
        self.assert_data(row)
        return row

    def refused(self, act: Any, *args: Any, **more: Any) -> None:
        """Check that an operation is refused, to be tried again."""
        error = self.assertRaises(
            (backend.OperationFailed, exception.CinderException), act, *args,
            **more)
        self.assertIn('is being copied; try again', str(error))

    def test_an_attach(self) -> None:
        """An attach is refused by this service and by another one."""
        host = self.host()

        def act() -> None:
            for driver in (self.backend.driver, self.other):
                self.refused(driver.initialize_connection,
                             self.backend.volume(self.view.id), host)
            self.refused(self.backend.attach, self.view, host)
            for each in self.backend.volume(self.view.id).volume_attachment:
                self.backend.detach(each)

        row = self.copy(act)
        self.assertEqual('available', row.status)
        self.backend.detach(self.backend.attach(row, host))

    def test_the_host_that_copies_keeps_the_view(self) -> None:
        """Cinder terminates even a connection that was refused."""
        self.copy(lambda: self.refused(
            self.backend.driver.terminate_connection,
            self.backend.volume(self.view.id), self.disks.properties))

    def test_a_snapshot(self) -> None:
        made: list[Any] = []
        row = self.copy(lambda: made.append(
            self.backend.create_snapshot(self.view)))
        self.disks.write(row, 5 * MIB, b'DATA')
        self.assert_data(self.backend.volume_from_snapshot(made[0]))

    def test_deletion(self) -> None:
        """The deletion is refused, and the status is available again."""
        def act() -> None:
            self.assertRaises(backend.OperationFailed,
                              self.backend.delete_volume, self.view)
            self.assertIn('is being copied; try again',
                          self.log.errors_text())
            self.assertEqual('available',
                             self.backend.volume(self.view.id).status)

        self.copy(act)

    def test_unmanaging_and_migration(self) -> None:
        place = self.backend.stats()['pools'][0]

        def act() -> None:
            for driver in (self.backend.driver, self.other):
                row = self.backend.volume(self.view.id)
                self.refused(driver.unmanage, row)
                self.refused(driver.migrate_volume, None, row, {
                    'capabilities': place})

        self.copy(act)

    def test_a_revert(self) -> None:
        snapshot = self.backend.create_snapshot(self.view)
        row = self.backend.volume(self.view.id)
        self.copy(lambda: self.refused(
            self.backend.driver.revert_to_snapshot, None, row, snapshot))

    def test_an_extend_waits(self) -> None:
        """An extend waits for the copy, and then extends the new volume."""
        stale = self.backend.volume(self.view.id)
        thread = threading.Thread(
            target=self.other.extend_volume, args=(stale, 2))
        self.addCleanup(thread.join, 60)
        self.copy(thread.start, locks.LOCK_TIMEOUT)
        thread.join(300)
        found = self.admin.list('volumes', name=f'cv-{self.view.id}')
        self.assertEqual([2 * GIB // 1024], [each['size'] for each in found])
        self.assert_data(self.backend.volume(self.view.id))

    def test_attached_since_the_row_was_read(self) -> None:
        stale = self.backend.volume(self.view.id)
        attachment = self.backend.attach(self.view, self.host())
        before = self.left()
        error = self.assertRaises(exception.VolumeBackendAPIException,
                                  self.other.extend_volume, stale, 2)
        self.assertIn('Detach it first', str(error))
        self.assertEqual(before, self.left())
        self.backend.detach(attachment)

    def test_attached_with_a_row_from_before(self) -> None:
        """The host gets the new volume, not the view, which still exists."""
        self.backend.create_snapshot(self.view)
        stale = self.backend.volume(self.view.id)
        row = self.copy(lambda: None)
        self.disks.write(row, 5 * MIB, b'DATA')
        host = self.host()
        found = self.other.initialize_connection(stale, host)
        with open(self.disks.find(found['data'], host), 'rb') as device:
            device.seek(5 * MIB)
            self.assertEqual(b'DATA', device.read(4))
        self.other.terminate_connection(stale, host)

    def test_killed_while_it_is_copied(self) -> None:
        """The volume is unchanged, and the next copy cleans up."""
        def killed(*_: Any, **__: Any) -> None:
            self.fault('status', '*', '*', status=403, times=None)
            raise OSError('killed')

        with mock.patch.object(volume_utils, 'copy_volume', killed):
            self.assertRaises(backend.OperationFailed,
                              self.backend.update_group, self.group,
                              add=[self.view])
        self.array.control.clear_faults()
        row = self.backend.volume(self.view.id)
        self.assertIn('unfinished', row.provider_id)
        row.update({'status': 'available'})
        row.save()
        self.assert_data(row)
        self.backend.detach(self.backend.attach(row, self.host()))
        self.disks.problems.clear()
        full = self.backend.extend_volume(row, 2)
        self.assert_full(full)
        self.assert_data(full)
