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

"""Managing volumes and snapshots; test_manageable has lists and pages."""

import dataclasses
from unittest import mock
from unittest.mock import call

from cinder import exception
from cinder.volume import volume_types
import ddt

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import inventory
from cinder_k2.driver.db import ownership
from cinder_k2.driver.db import writes
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import manage as flows
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types as extra_specs
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM
GIB = 1 << 20
GROUP = rest.VolumeGroup(id=5, name='theirs', volumes_count=1,
                         is_dedup=True)
VOLUME = rest.Volume(id=31, name='mine', size=GIB + 1,
                     volume_group=GROUP.ref, description='')
TAKEN = ArrayVolume(group=5, volume=31)
STARTED = dataclasses.replace(TAKEN, replicated=True)
NAMED = {'source-name': 'mine'}

ALREADY = exception.ManageExistingAlreadyManaged
INVALID = exception.ManageExistingInvalidReference
OTHER_TYPE = exception.ManageExistingVolumeTypeMismatch


def a_type(**specs):
    return mock.Mock(extra_specs={
        f'kaminario:{key}': value for key, value in specs.items()})


def owned(ref=None, name=None):
    """Return the owner "other" of an object or of a name."""
    found = ownership.Ownership()
    found.add(doubles.Row(id='other'), ref, [name] if name else [])
    return found


class ManageTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.known = self.double('resolver', resolver.Resolver)
        self.known.ids.side_effect = (
            lambda backing, name_id='': {'provider_id': (backing, name_id)})
        self.sessions = self.double('replication', replication.Replication)
        self.owners = self.function(ownership, 'volumes', 'owners')
        self.owners.return_value = ownership.Ownership()
        self.snapshot_owners = self.function(ownership, 'snapshots')
        self.snapshot_owners.return_value = ownership.Ownership()
        self.encrypted = self.function(volume_types, 'is_encrypted')
        self.take = self.function(flows, 'take')
        self.take.return_value = TAKEN
        self.write = self.function(writes, 'set_if_unmoved')
        self.inventory = self.array.inventory
        self.manage = manage.Manage(self.array, self.known, self.sessions)


@ddt.ddt
class VolumeTest(ManageTestCase):
    """Managing volumes."""

    def setUp(self):
        super().setUp()
        self.volume = doubles.a_volume(name_id='n1', volume_type_id='t')
        self.inventory.volume.return_value = VOLUME
        self.finds()

    def finds(self, volume=VOLUME, group=GROUP, mappings=0):
        """Set what the array shows when the volume is examined."""
        self.inventory.examine_volume.return_value = inventory.FoundVolume(
            volume, group, mappings)

    def take_over(self):
        return self.manage.manage_existing(self.volume, NAMED)

    def refused(self, error):
        """Return why managing is refused, before anything was changed."""
        found = self.raised(error, self.take_over)
        self.assertEqual([], self.calls('take', 'replication.start'))
        return str(found)

    def test_size_is_rounded_up(self):
        self.assertEqual(2, self.manage.manage_existing_get_size(
            self.volume, NAMED))
        self.inventory.volume.assert_called_once_with(
            inventory.Reference(name='mine'))

    def test_invalid_reference(self):
        for ask in (self.manage.manage_existing_get_size,
                    self.manage.manage_existing):
            error = self.raised(INVALID, ask, self.volume, {'nonsense': 1})
            self.assertIn('source-name', str(error))
            self.assertIn("{'nonsense': 1}", str(error))

    def test_manage(self):
        """Checked and renamed while its group is locked."""
        self.assertEqual(
            {'provider_id': (TAKEN, 'n1'), 'replication_status': 'disabled'},
            self.take_over())
        candidate = self.inventory.examine_volume.return_value
        self.assertEqual([
            call.array.inventory.volume(inventory.Reference(name='mine')),
            call.hold(5), call.array.inventory.examine_volume(VOLUME),
            call.owners(SYSTEM, names=('mine', 'theirs'),
                        having=('volume', 31)),
            call.is_encrypted(mock.ANY, 't'),
            call.array.inventory.check_named(VOLUME),
            call.take(self.array, candidate, name='cv-n1',
                      group_name='cvg-n1', size=2 * GIB),
            call.free(5), call.resolver.ids(TAKEN, 'n1')], self.calls())

    def test_volume_found_by_get_size_is_reused_once(self):
        """A later request with this reference may mean another volume."""
        self.manage.manage_existing_get_size(self.volume, NAMED)
        self.take_over()
        self.assertEqual(1, self.inventory.volume.call_count)
        self.take_over()
        self.assertEqual(2, self.inventory.volume.call_count)

    def test_volume_found_for_another_row_is_not_reused(self):
        self.manage.manage_existing_get_size(doubles.a_volume('v2'), NAMED)
        self.take_over()
        self.assertEqual(2, self.inventory.volume.call_count)

    @ddt.data((VOLUME.ref, None), (None, 'mine'), (None, 'theirs'))
    @ddt.unpack
    def test_already_managed(self, ref, name):
        """Also detected by the names of the volume and of its group."""
        self.owners.return_value = owned(ref, name)
        self.assertIn('other', self.refused(ALREADY))

    def test_all_reasons_are_reported(self):
        self.finds(dataclasses.replace(VOLUME, read_only=True), mappings=2)
        why = self.refused(INVALID)
        self.assertIn('read-only', why)
        self.assertIn('2 hosts', why)

    def test_volume_was_renamed(self):
        self.inventory.check_named.side_effect = (
            exceptions.NotManageable('gone'))
        self.assertIn('gone', self.refused(INVALID))

    @ddt.data((True, 'nodedup', True), (True, 'dedup', False),
              (False, 'nodedup', False), (False, 'dedup', True),
              (None, 'nodedup', False))
    @ddt.unpack
    def test_deduplication(self, has, wanted, refused):
        self.volume.volume_type = a_type(thin_prov_type=wanted)
        self.finds(group=dataclasses.replace(GROUP, is_dedup=has))
        if not refused:
            self.take_over()
            return
        why = self.refused(OTHER_TYPE)
        self.assertIn('theirs', why)
        self.assertIn(f'asks for {wanted}', why)
        self.assertIn('dedup' if has else 'nodedup', why)

    def test_encrypted_type(self):
        """os-brick would format the volume."""
        self.encrypted.return_value = True
        self.assertIn('encryption', self.refused(OTHER_TYPE))

    def test_replication(self):
        self.volume.volume_type = a_type(replication='enabled')
        link = self.sessions.link.return_value = mock.sentinel.link
        self.sessions.start.return_value = STARTED
        self.assertEqual(
            {'provider_id': (STARTED, 'n1'), 'replication_status': 'enabled'},
            self.take_over())
        self.assertEqual([
            call.free(5), call.deadline(fresh=True),
            call.replication.start(self.volume, TAKEN, link),
            call.resolver.ids(STARTED, 'n1')], self.calls()[-4:])
        self.sessions.link.assert_called_once_with(
            extra_specs.of(self.volume))

    def test_no_replication_target(self):
        """The volume is refused before anything is changed."""
        self.volume.volume_type = a_type(replication='enabled')
        self.sessions.link.side_effect = extra_specs.InvalidExtraSpec
        self.refused(extra_specs.InvalidExtraSpec)
        self.assertEqual([], self.calls('hold'))

    def test_manageable_volumes(self):
        """Owners are looked up in the given rows, and by name."""
        self.inventory.volumes.return_value = [inventory.FoundVolume(
            VOLUME, GROUP, 0)]
        self.owners.return_value = owned(VOLUME.ref)
        rows = [self.volume]
        found, = self.manage.get_manageable_volumes(
            rows, None, None, None, [], [])
        self.assertEqual('other', found['cinder_id'])
        self.owners.assert_called_once_with(SYSTEM, rows, names=['mine'])


@ddt.ddt
class SnapshotTest(ManageTestCase):
    """Managing snapshots."""

    IMAGE = rest.Volsnap(id=50, source=VOLUME.ref, short_name='cv-v1')
    RECORD = rest.Snapshot(
        id=8, name='theirs:mine', short_name='mine', volume_group=GROUP.ref,
        source=GROUP.ref, is_auto_deleteable=False,
        volsnaps_provisioned_capacity=3 * GIB - 1)
    BACKING = ArraySnapshot(
        snapshot=8, group=5, volume=31, has_clones=True,
        named=naming.digest('mine'))

    def setUp(self):
        super().setUp()
        self.volume = doubles.a_volume(size=4)
        self.snapshot = doubles.a_snapshot(volume=self.volume)
        self.known.resolve.return_value = TAKEN
        self.known.confirm.side_effect = lambda volume, stored: stored
        self.finds()

    def finds(self, **more):
        """Let the array have a snapshot."""
        self.found = inventory.FoundSnapshot(
            dataclasses.replace(self.RECORD, **more), (self.IMAGE,))
        self.inventory.snapshot.return_value = self.found

    def size(self):
        return self.manage.manage_existing_snapshot_get_size(
            self.snapshot, NAMED)

    def take_over(self):
        return self.manage.manage_existing_snapshot(self.snapshot, NAMED)

    def refused(self, error=INVALID):
        """Return why both methods refuse the snapshot."""
        found = [str(self.raised(error, ask))
                 for ask in (self.size, self.take_over)]
        self.assertEqual(found[0], found[1])
        self.assertEqual([], self.calls('set_if_unmoved'))
        return found[0]

    @ddt.data((3 * GIB - 1, 3), (None, 4))
    @ddt.unpack
    def test_size(self, told, expected):
        """The size of the volume, if the array does not report one."""
        self.finds(volsnaps_provisioned_capacity=told)
        self.assertEqual(expected, self.size())
        self.inventory.snapshot.assert_called_once_with(
            inventory.Reference(name='mine'), 5)
        self.known.confirm.assert_called_once_with(self.volume, TAKEN)

    def test_manage(self):
        """The row is written while the group is locked."""
        self.size()
        before = len(self.calls())
        update = {'provider_id': (self.BACKING, '')}
        self.assertEqual(update, self.take_over())
        self.assertEqual([
            call.resolver.resolve(self.volume), call.hold(5),
            call.snapshots(SYSTEM, names=['mine'], having=('snapshot', 8)),
            call.resolver.ids(self.BACKING),
            call.set_if_unmoved(self.snapshot, update), call.free(5)],
            self.calls()[before:])

    def test_snapshot_found_by_get_size_is_reused_once(self):
        self.size()
        self.take_over()
        self.take_over()
        self.assertEqual(2, self.inventory.snapshot.call_count)

    def test_manage_without_get_size(self):
        self.take_over()
        self.inventory.snapshot.assert_called_once_with(
            inventory.Reference(name='mine'), 5)

    def test_snapshot_of_a_view(self):
        self.known.resolve.return_value = ArrayVolume(
            group=5, view=40, origin=30)
        self.finds(source=rest.Ref('snapshots', 40))
        self.assertEqual(
            dataclasses.replace(self.BACKING, volume=30, view=40),
            self.take_over()['provider_id'][0])

    @ddt.data((RECORD.ref, None), (None, 'mine'))
    @ddt.unpack
    def test_already_managed(self, ref, name):
        self.snapshot_owners.return_value = owned(ref, name)
        self.assertIn('other', self.refused(ALREADY))

    def test_managed_by_another_service_after_get_size(self):
        self.size()
        self.snapshot_owners.return_value = owned(self.RECORD.ref)
        self.assertRaises(ALREADY, self.take_over)
        self.assertEqual([], self.calls('set_if_unmoved'))

    def test_snapshot_of_another_volume(self):
        self.finds(source=rest.Ref('volume_groups', 6))
        self.assertIn('no snapshot of volume v1', self.refused())

    def test_snapshot_that_cannot_be_managed(self):
        self.finds(is_auto_deleteable=True)
        self.assertIn('is_auto_deleteable', self.refused())

    def test_volume_with_other_ids_than_in_its_row(self):
        """Snapshots were searched in the group of another volume (OBJ-7)."""
        self.known.confirm.side_effect = (
            lambda volume, stored: dataclasses.replace(stored, group=9))
        self.assertRegex(
            self.refused(), ': volume v1 has other ids on the array than its '
            'row says: unmanage it, and manage it again$')
        # Both methods only resolved the volume.
        self.assertEqual([call.resolver.resolve(self.volume)] * 2,
                         self.calls('resolver.resolve'))

    def test_manageable_snapshots(self):
        self.inventory.snapshots.return_value = [self.found]
        self.owners.return_value = owned(VOLUME.ref)
        self.snapshot_owners.return_value = owned(self.RECORD.ref)
        rows = [self.snapshot]
        found, = self.manage.get_manageable_snapshots(
            rows, None, None, None, [], [])
        self.assertEqual('other', found['cinder_id'])
        self.owners.assert_called_once_with(SYSTEM, names=['cv-v1'])
        self.snapshot_owners.assert_called_once_with(
            SYSTEM, rows, names=['mine'])

    def test_page_of_manageable_snapshots(self):
        self.inventory.snapshots.return_value = [
            dataclasses.replace(self.found, snapshot=dataclasses.replace(
                self.RECORD, id=number, name=name)) for number, name in (
                    (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'))]
        found = self.manage.get_manageable_snapshots(
            [], {'source-name': 'd'}, 1, 1, ['reference'], ['desc'])
        self.assertEqual(['b'], [each['reference']['source-name']
                                 for each in found])

    def test_names_of_snapshots_of_unmanaged_volumes_are_not_looked_up(self):
        self.inventory.snapshots.return_value = [self.found]
        found, = self.manage.get_manageable_snapshots(
            [], None, None, None, [], [])
        self.assertFalse(found['safe_to_manage'])
        self.snapshot_owners.assert_called_once_with(SYSTEM, [], names=[])
