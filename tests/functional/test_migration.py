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

"""Migration between back ends: on one array, on two, of other drivers."""

import logging
from typing import Any
import unittest
from unittest import mock

from cinder_k2.array import names
from tests import arrays
from tests.functional import backend
from tests.functional import base
from tests.functional import cloud
from tests.functional import disks
from tests.functional import foreign
from tools.releases import features

MIB = 1048576
GIB = 1048576
TEXT = b'what the user wrote'
OTHER = {'iscsi': 'fc', 'fc': 'iscsi', 'k2': 'sdp', 'sdp': 'k2'}
IN_TREE = ('cinder.volume.drivers.kaminario.kaminario_iscsi.'
           'KaminarioISCSIDriver')


class MigrationTest(disks.DisksTest):
    """Back ends between which volumes move.

    :ivar first: the back end that the test begins with, and ``self.array``
    """

    def setUp(self) -> None:
        self.addCleanup(self._check_arrays)
        super().setUp()
        self.first = self.backend

    def _check_arrays(self) -> None:
        for profile in ('k2', 'sdp'):
            self.assertTrue(arrays.served(profile).is_clean(), profile)

    def second(self, protocol: str | None = None) -> backend.Backend:
        """Return another back end on the same array."""
        return self.use(protocol or self.protocol,
                        k2_max_concurrent_writes=31)

    def second_array(self) -> backend.Backend:
        """Return a back end on another array.

        That array is ``self.array`` from now on, and the array before it is
        ``self.first_array``.
        """
        self.first_array = self.array
        return self.use(self.protocol, OTHER[self.profile])

    def install_disks(self, *served: Any) -> disks.Disks:
        """Install disks of both arrays and of the other driver."""
        found = foreign.Disks(self.host('cinder-host'), *served,
                              arrays.served(OTHER[self.profile]))
        found.install(self)
        self.addCleanup(self._check_disks, found)
        return found

    def with_data(self, place: backend.Backend) -> Any:
        """Create a volume with data."""
        volume = place.create_volume(1)
        self.disks.write(volume, 5 * MIB, TEXT)
        return volume

    def read(self, volume: Any, number: int = 0) -> bytes:
        """Return the data of a volume on one of the arrays."""
        return self.read_file(self.disks.path(volume, number))

    def read_file(self, path: str) -> bytes:
        with open(path, 'rb') as stream:
            stream.seek(5 * MIB)
            return stream.read(len(TEXT))

    def names(self, array: Any) -> set[str]:
        """Return the names of all users' volumes and groups."""
        left = array.control.leftovers()
        return {row['name'] for resource in ('volumes', 'volume_groups')
                for row in left.get(resource, [])}

    def names_of(self, name_id: str) -> set[str]:
        """Return the names of one volume and its group."""
        return {f'cv-{name_id}', f'cvg-{name_id}'}

    def assertMoved(self, volume: Any, to: backend.Backend) -> None:
        """Check that the volume was migrated, and no error logged."""
        self.assertEqual(('success', to.pool),
                         (volume.migration_status, volume.host))
        self.assertEqual([], self.log.messages(logging.ERROR, 'cinder'))


@base.pairwise_variants
class SameArrayTest(MigrationTest):
    """Two back ends on one array, over iSCSI and FC."""

    feature = 'migrate between back ends'

    def test_no_data_moves(self) -> None:
        volume = self.with_data(self.first)
        second = self.second(OTHER[self.protocol])
        with self.assert_calls(0):
            moved = self.first.migrate(volume, second)
        self.assertMoved(moved, second)
        self.assertEqual(
            ('available', volume.provider_id, None),
            (moved.status, moved.provider_id, moved._name_id))
        self.assertEqual(self.names_of(volume.id), self.names(self.array))

        # From here on, everything uses the other protocol.
        self.assertEqual(TEXT, self.read(moved))
        host = self.host()
        attachment = second.attach(moved, host)
        self.assertEqual(self.disks.path(moved), self.disks.find(
            attachment.connection_info, host))
        second.detach(attachment)
        second.extend_volume(moved, 2)
        second.delete_snapshot(second.create_snapshot(moved))
        with self.assert_calls(0):
            moved = second.migrate(moved, self.first)
        self.first.delete_volume(moved)
        self.assertNothingLeft()

    def test_clones_stay_what_they_are(self) -> None:
        source = self.with_data(self.first)
        made = [self.first.clone(source, kaminario__clone_strategy=how)
                for how in (self._strategies())]
        second = self.second(OTHER[self.protocol])
        with self.assert_calls(0):
            for row in [source, *made]:
                self.first.migrate(row, second)
        for row in [source, *made]:
            self.assertEqual(TEXT, self.read(row))
        for row in [source, *made]:
            second.delete_volume(row)
        self.assertNothingLeft()

    def _strategies(self) -> list[str]:
        return ['view'] + (['thin'] if self.profile == 'sdp' else [])


@base.pairwise_variants
class HostAssistedTest(MigrationTest):
    """Cinder copies: between arrays, and to and from other drivers."""

    feature = 'host-assisted migration'

    def test_to_another_array_and_back(self) -> None:
        self.ignore_call_budget()
        first, second = self.first, self.second_array()
        volume = self.with_data(first)
        moved = first.migrate(volume, second)
        self.assertMoved(moved, second)
        self.assertEqual(TEXT, self.read(moved, 1))
        # The volume has the names of its id, and the source is deleted.
        self.assertIsNone(moved._name_id)
        self.assertEqual(self.names_of(volume.id), self.names(self.array))
        self.assertEqual(set(), self.names(self.first_array))
        self.assertTrue(self.first_array.is_clean())

        with self.assert_calls(2):
            second.extend_volume(moved, 2)
        second.delete_snapshot(second.create_snapshot(moved))
        second.detach(second.attach(moved, self.host()))
        back = second.migrate(moved, first)
        self.assertEqual(TEXT, self.read(back))
        self.assertEqual(self.names_of(volume.id),
                         self.names(self.first_array))
        self.assertNothingLeft()
        first.delete_volume(back)
        self.assertTrue(self.first_array.is_clean())
        self.assertEqual([], self.log.messages(logging.WARNING, 'cinder_k2'))

    def test_from_another_driver_and_back(self) -> None:
        other = self.second('tests.functional.foreign.FileDriver')
        volume = other.create_volume(1)
        with open(volume.provider_location, 'r+b') as stream:
            stream.seek(5 * MIB)
            stream.write(TEXT)
        moved = other.migrate(volume, self.first)
        self.assertEqual(TEXT, self.read(moved))
        self.assertEqual(self.names_of(volume.id), self.names(self.array))
        self.assertEqual((None, None),
                         (moved._name_id, moved.provider_location))
        self.assertEqual([], foreign.files())

        back = self.first.migrate(moved, other)
        self.assertNothingLeft()
        self.assertEqual(TEXT, self.read_file(back.provider_location))
        # The row still has this driver's provider_id, which is meaningless.
        self.assertIsNotNone(back.provider_id)
        again = other.migrate(back, self.first)
        self.assertEqual(TEXT, self.read(again))
        self.assertEqual([], foreign.files())
        self.first.delete_volume(again)
        self.assertNothingLeft()

    def test_in_use(self) -> None:
        """From the other driver to this one, and back, with nova."""
        other = self.second('tests.functional.foreign.FileDriver')
        connector = self.host()
        nova = cloud.Nova(self.disks, connector)
        nova.install(self)
        volume = self.with_data(self.first)
        self.first.attach(volume, connector, 'b' * 32)
        for source, target in ((self.first, other), (other, self.first)):
            source.migrate(volume, target)
            nova.swap()
            volume = source.volume(volume.id)
            self.assertEqual(('in-use', target.pool),
                             (volume.status, volume.host))
            found, = volume.volume_attachment
            self.assertEqual(TEXT, self.read_file(self.disks.find(
                found.connection_info, connector)))
            self.assertEqual(target is other, not self.left())
        self.assertEqual([], foreign.files())
        self.assertEqual(self.names_of(volume.id), self.names(self.array))


class CornersTest(MigrationTest):
    """Cases that do not depend on protocol or type of array."""

    def setUp(self) -> None:
        super().setUp()
        self.ignore_call_budget()

    def test_a_copy_on_demand(self) -> None:
        """With --force-host-copy, even on one array."""
        volume = self.with_data(self.first)
        second = self.second()
        moved = self.first.migrate(volume, second, force_copy=True,
                                   lock=True)
        self.assertMoved(moved, second)
        self.assertEqual('available', moved.status)
        self.assertEqual(TEXT, self.read(moved))
        # The source still had the names when the copy was created.
        self.assertNotEqual(moved.id, moved.name_id)
        self.assertEqual(self.names_of(moved.name_id),
                         self.names(self.array))
        # On another array the names are free.
        third = self.second_array()
        self.first_array.control.clear_journal()
        moved = second.migrate(moved, third)
        self.assertIsNone(moved._name_id)
        self.assertEqual(self.names_of(moved.id), self.names(self.array))
        self.assertTrue(self.first_array.is_clean())

    @unittest.skipUnless(
        features.retypes_in_place(),
        'this Cinder copies each volume that is retyped to another back end')
    def test_retype_to_another_back_end_of_the_array(self) -> None:
        volume = self.with_data(self.first)
        second = self.second()
        with self.assert_calls(0):
            moved = self.first.retype(volume, 'on-demand', to=second)
        self.assertMoved(moved, second)
        self.assertEqual(second.volume_type().id, moved.volume_type_id)
        self.assertEqual(volume.provider_id, moved.provider_id)

    def test_retype_to_another_back_end_and_kind(self) -> None:
        volume = self.with_data(self.first)
        second = self.second()
        moved = self.first.retype(volume, 'on-demand', to=second,
                                  kaminario__thin_prov_type='nodedup')
        self.assertMoved(moved, second)
        group, = self.admin.list('volume_groups',
                                 name=f'cvg-{moved.name_id}')
        self.assertFalse(group['is_dedup'])
        self.assertEqual(TEXT, self.read(moved))

    def test_a_row_without_ids(self) -> None:
        """The row gets ids, and the volume keeps its names."""
        volume = self.with_data(self.first)
        volume.provider_id = None
        volume.save()
        second = self.second()
        with self.assert_calls(1):
            moved = self.first.migrate(volume, second)
        self.assertEqual(TEXT, self.read(moved))
        with self.assert_calls(2):
            second.extend_volume(moved, 2)

    def test_what_the_array_does_not_have(self) -> None:
        volume = self.first.create_volume(1)
        found, = self.admin.list('volumes', name=f'cv-{volume.id}')
        self.admin.delete('volumes', found['id'])
        volume.provider_id = None
        volume.save()
        failure = self.assertRaises(backend.OperationFailed,
                                    self.first.migrate, volume,
                                    self.second())
        self.assertEqual((self.first.pool, 'error'), (
            failure.row.host, failure.row.migration_status))
        self.assertIn('has no volume', str(failure.cause))

    def test_names_that_cannot_be_had(self) -> None:
        """The volume keeps its names; the migration succeeds."""
        volume = self.with_data(self.first)
        second = self.second_array()
        self.fault('status', 'PATCH', 'volumes/*', status=403)
        moved = self.first.migrate(volume, second)
        self.assertEqual('success', moved.migration_status)
        self.assertEqual(self.names_of(moved.name_id),
                         self.names(self.array))
        self.assertNotEqual(moved.id, moved.name_id)
        self.assertIn('does no harm', ''.join(
            self.log.messages(logging.WARNING, 'cinder_k2')))
        self.assertTrue(self.first_array.is_clean())
        self.assertEqual(TEXT, self.read(moved, 1))
        second.extend_volume(moved, 2)

    def test_names_that_somebody_has(self) -> None:
        volume = self.with_data(self.first)
        second = self.second_array()
        self.make('volume_groups', name=f'cvg-{volume.id}', quota=0)
        moved = self.first.migrate(volume, second)
        self.assertNotEqual(moved.id, moved.name_id)
        self.assertEqual(self.names_of(moved.name_id)
                         | {f'cvg-{volume.id}'}, self.names(self.array))
        second.delete_volume(moved)
        self.assert_left(volume_groups=1)

    def test_killed_between_names(self) -> None:
        """Both rows still find their objects, and cleanup succeeds."""
        volume = self.with_data(self.first)
        second = self.second_array()
        with mock.patch.object(names.Names, 'set_volume', autospec=True,
                               side_effect=SystemExit):
            self.assertRaises(SystemExit, self.first.migrate, volume, second)
        target, = second.volumes()
        for row in (self.first.volume(volume.id), target):
            row.update({'status': 'available', 'migration_status': None})
            row.save()
        self.assertEqual(TEXT, self.read(target, 1))
        second.extend_volume(target, 2)
        second.delete_volume(target)
        self.assertNothingLeft()
        self.assertEqual(TEXT, self.read(volume))
        self.first.extend_volume(volume, 2)

    def test_generic_copies_over_old_data(self) -> None:
        """If Cinder copies onto a volume with data, it writes zeros, too."""
        volume = self.first.create_volume(1)
        snapshot = self.first.create_snapshot(volume)
        self.disks.write(volume, 5 * MIB, TEXT)
        self.first.manager._revert_to_snapshot_generic(
            self.first.context, self.first.volume(volume.id),
            self.first.snapshot(snapshot.id))
        self.assertEqual(bytes(len(TEXT)), self.read(volume))


class InTreeTest(MigrationTest):
    """The in-tree driver at the other end."""

    def setUp(self) -> None:
        super().setUp()
        self.ignore_call_budget()

    def _in_tree(self) -> backend.Backend:
        """Return a back end on ``self.array`` with the in-tree driver."""
        # The in-tree driver deletes hosts with their initiators (HST-3).
        self.switch(delete_host_with_initiators=True)
        self.addCleanup(self._remove_hosts)
        self.own(IN_TREE, san_api_port=None,
                 san_ip=f'{self.array.address}:{self.array.port}')
        return self.backend

    def _upgrade(self, place: backend.Backend) -> None:
        self.switch(delete_host_with_initiators=False)
        self.assertTrue(place.change_driver('iscsi'))

    def _use_by_name(self, volume: Any, place: backend.Backend, number: int
                     ) -> None:
        """Check that a row leads to the volume named by its name_id."""
        place.extend_volume(volume, 2)
        found, = self.admin.list('volumes', name=f'cv-{volume.name_id}')
        self.assertEqual(2 * GIB, found['size'])
        self.assertEqual(TEXT, self.read_file(
            self.disks.path(found, number)))
        place.delete_volume(volume)
        self.assertEqual(set(), self.names(self.array))

    def _remove_hosts(self) -> None:
        for resource in ('host_iqns', 'hosts'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])

    def test_to_it_on_another_array(self) -> None:
        volume = self.with_data(self.first)
        self.second_array()
        old = self._in_tree()
        moved = self.first.migrate(volume, old)
        self.assertTrue(self.first_array.is_clean())
        # The in-tree driver does not know the volume's name; this one does.
        self._upgrade(old)
        self._use_by_name(moved, old, 1)

    def test_to_it_on_the_same_array(self) -> None:
        """The ids in the row are those of the deleted source."""
        volume = self.with_data(self.first)
        old = self._in_tree()
        moved = self.first.migrate(volume, old)
        self.assertEqual(volume.provider_id, moved.provider_id)
        self.assertEqual(self.names_of(moved.name_id),
                         self.names(self.array))
        self._upgrade(old)
        self._use_by_name(moved, old, 0)

    def test_from_it_on_the_same_array(self) -> None:
        """The in-tree driver deletes the source, whose names are reused."""
        old = self._in_tree()
        volume = self.with_data(old)
        # It cannot attach to a host that this driver created.
        failure = self.assertRaises(backend.OperationFailed, old.migrate,
                                    volume, self.first)
        self.assertEqual('error', failure.row.migration_status)
        self.assertEqual(TEXT, self.read(volume))
        used = old.create_volume(1)
        attachment = old.attach(used, self.disks.properties)
        self.log.records.clear()

        moved = old.migrate(volume, self.first)
        self.assertMoved(moved, self.first)
        self.assertIsNone(moved._name_id)
        self.assertEqual(self.names_of(volume.id) | self.names_of(used.id),
                         self.names(self.array))
        self.assertEqual(TEXT, self.read(moved))
        self.first.delete_volume(moved)
        old.detach(attachment)

    def test_its_volumes_after_the_change_of_drivers(self) -> None:
        """Rows have no ids: only the source is deleted, by name."""
        old = self._in_tree()
        volume = self.with_data(old)
        kept = old.create_volume(1)
        self._upgrade(old)
        moved = old.migrate(volume, self.first, force_copy=True)
        self.assertEqual(TEXT, self.read(moved))
        self.assertEqual(
            self.names_of(moved.name_id) | self.names_of(kept.id),
            self.names(self.array))
        first_array = self.array
        second = self.second_array()
        self.assertIs(first_array, self.first_array)
        moved = old.migrate(kept, second)
        self.assertEqual(self.names_of(kept.id), self.names(self.array))

    def test_a_source_that_was_deleted_before(self) -> None:
        """The source's row must not lead to the migrated volume."""
        old = self._in_tree()
        volume = self.with_data(old)
        self._upgrade(old)
        with mock.patch.object(cloud.Rpc, 'delete_volume', autospec=True):
            moved = old.migrate(volume, self.first, force_copy=True)
        found, = self.admin.list('volumes', name=f'cv-{volume.id}')
        self.admin.delete('volumes', found['id'])
        source, = [row for row in old.volumes() if row.id != moved.id]
        self.assertEqual((moved.name_id, 'deleting'),
                         (source.id, source.migration_status))
        source.status = 'error'
        source.save()
        old.delete_volume(source)
        self.assertEqual(self.names_of(moved.name_id),
                         self.names(self.array))
        self.assertEqual(TEXT, self.read(moved))
