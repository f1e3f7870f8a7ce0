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

"""Retype: in place, or by a migration in Cinder."""

import logging
from typing import Any
from unittest import mock

from cinder.db import api as db_api
from cinder import exception
from cinder.volume import qos_specs
from cinder.volume import volume_utils
import ddt

from tests.functional import backend
from tests.functional import base
from tests.functional import cloud
from tests.functional import disks

MIB = 1048576
GIB = 1048576
TEXT = b'what the user wrote'


class RetypedTest(disks.DisksTest):
    """A volume with data, and access to its object on the array."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.disks.write(self.volume, 5 * MIB, TEXT)

    def assertData(self, volume: Any, more: bytes = b'') -> None:
        """Check that the volume has its data, and what a guest added."""
        self.assertEqual(TEXT + more, self.disks.read(
            volume, 5 * MIB, len(TEXT + more)))

    def behind(self, volume: Any) -> Any:
        """Return the array's volume of a Cinder volume, by name_id."""
        found = self.admin.list('volumes', name=f'cv-{volume.name_id}')
        self.assertEqual(1, len(found), volume.name_id)
        return found[0]

    def use_everything(self, volume: Any) -> None:
        """Check that all operations reach this volume, and no other."""
        self.ignore_call_budget()
        before = self.behind(volume)
        size = volume.size + 1
        volume = self.backend.extend_volume(volume, size)
        self.assertEqual((before['id'], size * GIB), (
            self.behind(volume)['id'], self.behind(volume)['size']))
        snapshot = self.backend.create_snapshot(volume)
        clone = self.backend.clone(volume)
        made = self.backend.volume_from_snapshot(snapshot)
        for row in (volume, snapshot, clone, made):
            self.assertData(row)
        host = self.host()
        attachment = self.backend.attach(volume, host)
        self.assertEqual(self.disks.path(volume), self.disks.find(
            attachment.connection_info, host))
        self.backend.detach(attachment)
        for row in (made, clone):
            self.backend.delete_volume(row)
        self.backend.delete_snapshot(snapshot)
        self.assertData(volume)


@base.pairwise_variants
class RetypeTest(RetypedTest):
    """A volume that is not attached."""

    feature = 'retype'

    def test_what_makes_no_difference(self) -> None:
        volume = self.volume
        for specs in ({'kaminario__clone_strategy': 'view'},
                      {'kaminario__thin_prov_type': 'Dedup '},
                      {'vendor__colour': 'red'}, {},
                      {'multiattach': '<is> True'}):
            with self.assert_calls(0):
                volume = self.backend.retype(volume, **specs)
            kind = self.backend.volume_type(**specs)
            self.assertEqual(
                (kind.id, None, self.volume.provider_id), (
                    volume.volume_type_id, volume.migration_status,
                    volume.provider_id))
        self.assertTrue(volume.multiattach)
        self.assertEqual([], self.log.messages(logging.WARNING, 'cinder_k2'))

    def test_snapshots_and_attachments_stay(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.attach(self.volume, self.host())
        with self.assert_calls(0):
            volume = self.backend.retype(self.volume, vendor__colour='red')
        self.assertEqual('in-use', volume.status)
        self.assertEqual(volume.volume_type_id, self.backend.snapshot(
            snapshot.id).volume_type_id)

    def test_dedup_is_changed_by_a_copy(self) -> None:
        volume = self.backend.retype(self.volume, 'on-demand',
                                     kaminario__thin_prov_type='nodedup')
        self.assertEqual(('available', 'success'),
                         (volume.status, volume.migration_status))
        self.assertFalse(self.behind(volume)['is_dedup'])
        self.assertData(volume)
        self.assertNotEqual(volume.id, volume.name_id)
        self.assert_left(volumes=1, volume_groups=1)

        # And back, with the present ids and names.
        volume = self.backend.retype(volume, 'on-demand')
        self.assertTrue(self.behind(volume)['is_dedup'])
        self.assertData(volume)
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()


class InUseTest(RetypedTest):
    """A volume attached to an instance; nova copies the data."""

    def setUp(self) -> None:
        super().setUp()
        self.connector = self.host()
        self.nova = cloud.Nova(self.disks, self.connector)
        self.nova.install(self)
        self.backend.attach(self.volume, self.connector, 'a' * 32)

    def _retype(self, volume: Any, kind: str) -> Any:
        """Request a retype, which nova has not carried out yet."""
        volume = self.backend.retype(volume, 'on-demand',
                                     kaminario__thin_prov_type=kind)
        self.assertEqual(('retyping', 'migrating'),
                         (volume.status, volume.migration_status))
        return volume

    def _guest_writes(self, path: str) -> None:
        with open(path, 'r+b') as stream:
            stream.seek(5 * MIB + len(TEXT))
            stream.write(b'!')


@base.pairwise_variants
class RetypeInUseTest(InUseTest):
    """Whatever happens, the guest has its data."""

    feature = 'retype in use'

    def test_the_guest_keeps_its_data(self) -> None:
        self._retype(self.volume, 'nodedup')
        self.nova.swap(guest=self._guest_writes)

        volume = self.backend.volume(self.volume.id)
        self.assertEqual(('in-use', 'success'),
                         (volume.status, volume.migration_status))
        self.assertFalse(self.behind(volume)['is_dedup'])
        # The volume that remains has the guest's later writes.
        self.assertData(volume, b'!')
        self.assert_left(
            volumes=1, volume_groups=1, hosts=1, mappings=1,
            **{self._initiators(): len(self.left_initiators())})
        attachment, = volume.volume_attachment
        self.assertEqual(self.disks.path(volume), self.disks.find(
            attachment.connection_info, self.connector))

        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_nova_gives_up(self) -> None:
        self._retype(self.volume, 'nodedup')
        self.nova.fail()
        volume = self.backend.volume(self.volume.id)
        self.assertEqual(('in-use', 'error'),
                         (volume.status, volume.migration_status))
        self.assertEqual((self.volume.provider_id, None),
                         (volume.provider_id, volume._name_id))
        self.assertTrue(self.behind(volume)['is_dedup'])
        self.assertEqual(1, self.left()['volumes'])
        self.assertEqual(1, self.left()['mappings'])
        self.assertData(volume)

    def _initiators(self) -> str:
        return 'host_fc_ports' if self.protocol == 'fc' else 'host_iqns'

    def left_initiators(self) -> list[Any]:
        found: list[Any] = self.admin.list(self._initiators())
        return found


class AfterwardsTest(InUseTest):
    """A retyped volume is a volume like any other."""

    def test_everything(self) -> None:
        for kind in ('nodedup', 'dedup'):
            self._retype(self.backend.volume(self.volume.id), kind)
            self.nova.swap()
        volume = self.backend.volume(self.volume.id)
        self.assertData(volume)
        attachment, = volume.volume_attachment
        self.backend.detach(attachment)
        self.assert_left(volumes=1, volume_groups=1)
        self.use_everything(self.backend.volume(volume.id))
        self.backend.delete_volume(volume)
        self.assertNothingLeft()


@ddt.ddt
class RefusedRetypeTest(RetypedTest):
    """An impossible or failed retype leaves the volume unchanged."""

    def _assert_unchanged(self, text: str = '') -> None:
        """Check that nothing has changed, and the log has the reason."""
        volume = self.backend.volume(self.volume.id)
        self.assertEqual(
            ('available', self.volume.volume_type_id, None,
             self.volume.provider_id),
            (volume.status, volume.volume_type_id, volume._name_id,
             volume.provider_id))
        self.assert_left(volumes=1, volume_groups=1)
        self.assertData(volume)
        self.assertEqual(1, len(self.backend.volumes()))
        self.assertTrue(text in self.log.text(), text)

    def _refused(self, policy: str, **specs: str) -> str:
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.retype, self.volume,
            policy, **specs)
        self.assertIsInstance(failure.cause,
                              exception.VolumeMigrationFailed)
        return str(failure.cause)

    def test_a_copy_that_is_not_allowed(self) -> None:
        with self.assert_calls(0):
            why = self._refused('never', kaminario__thin_prov_type='nodedup')
        self.assertIn('requires migration', why)
        self._assert_unchanged('Migration policy "on-demand"')

    @ddt.data('never', 'on-demand')
    def test_a_spec_that_makes_no_sense(self, policy: str) -> None:
        with self.assert_calls(0):
            self._refused(policy, kaminario__thin_prov_type='maybe')
        self._assert_unchanged('Invalid volume type: '
                               'kaminario:thin_prov_type is "maybe"')

    @ddt.data('never', 'on-demand')
    def test_replication(self, policy: str) -> None:
        with self.assert_calls(0):
            self._refused(policy, kaminario__replication='enabled')
        self._assert_unchanged('has no replication_device')

    def test_from_a_type_that_makes_no_sense_any_more(self) -> None:
        """The meaning of the old type is unknown, so the data is copied."""
        volume = self.backend.create_volume(1, vendor__colour='white')
        db_api.volume_type_extra_specs_update_or_create(
            self.backend.context, volume.volume_type_id,
            {'kaminario:thin_prov_type': 'maybe'})
        self.disks.write(volume, 5 * MIB, TEXT)
        volume = self.backend.retype(volume, 'on-demand')
        self.assertEqual('success', volume.migration_status)
        self.assertData(volume)

    def test_snapshots_forbid_a_copy(self) -> None:
        self.backend.create_snapshot(self.volume)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.retype, self.volume,
            'on-demand', kaminario__thin_prov_type='nodedup')
        self.assertIn('snapshots', str(failure.cause))
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)

    @ddt.data(('POST', 'volume_groups'), ('POST', 'volumes'),
              ('POST', 'mappings'))
    @ddt.unpack
    def test_the_array_refuses(self, method: str, path: str) -> None:
        self.fault('status', method, path, status=403)
        self.assertRaises(
            backend.OperationFailed, self.backend.retype, self.volume,
            'on-demand', kaminario__thin_prov_type='nodedup')
        self._assert_unchanged('HTTP 403')

    def test_the_copy_fails(self) -> None:
        with mock.patch.object(volume_utils, 'copy_volume', autospec=True,
                               side_effect=OSError('no more paths')):
            self.assertRaises(
                backend.OperationFailed, self.backend.retype, self.volume,
                'on-demand', kaminario__thin_prov_type='nodedup')
        self._assert_unchanged('no more paths')

    def _left_over(self) -> Any:
        """Create the row of a migration target without a volume.

        Cinder copies the source's provider_id to it.
        """
        with mock.patch.object(cloud.Rpc, 'create_volume', autospec=True,
                               side_effect=SystemExit):
            self.assertRaises(
                SystemExit, self.backend.retype, self.volume, 'on-demand',
                kaminario__thin_prov_type='nodedup')
        row, = [row for row in self.backend.volumes()
                if row.id != self.volume.id]
        self.assertEqual(self.volume.provider_id, row.provider_id)
        self._set_state(self.volume.id, 'available')
        self._set_state(row.id, 'error')
        return row

    def _set_state(self, volume_id: str, status: str) -> None:
        """Set a status, as "openstack volume set --state" does."""
        row = self.backend.volume(volume_id)
        row.update({'status': status, 'migration_status': None})
        row.save()

    def test_killed_before_the_target_was_made(self) -> None:
        """Deleting the target's row does not delete the source."""
        self.backend.delete_volume(self._left_over())
        self._assert_unchanged()

    def test_clones_of_a_source_with_a_target_left_over(self) -> None:
        self.ignore_call_budget()
        row = self._left_over()
        clone = self.backend.clone(self.volume)
        self.backend.delete_volume(row)
        self.assertData(self.volume)
        self.assertData(clone)

    def test_an_image_volume_that_cannot_be_made(self) -> None:
        """The row of an image volume starts with its source's ids, too."""
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise exception.VolumeBackendAPIException(data='not now')
        manager = self.backend.manager
        with mock.patch.object(self.backend.driver, 'create_cloned_volume',
                               refuse):
            self.assertIsNone(manager._clone_image_volume(
                self.backend.context, self.backend.volume(self.volume.id),
                {'id': 'f' * 32}))
        self._assert_unchanged()

    def test_quality_of_service(self) -> None:
        """Only QoS specs that hypervisors enforce are accepted."""
        for consumer, in_place in (('front-end', True), ('back-end', False)):
            kind = self.backend.volume_type(vendor__consumer=consumer)
            specs = qos_specs.create(
                self.backend.context, consumer + self.id(),
                {'consumer': consumer, 'total_iops_sec': '500'})
            qos_specs.associate_qos_with_type(self.backend.context,
                                              specs.id, kind.id)
            if in_place:
                with self.assert_calls(0):
                    volume = self.backend.retype(self.volume,
                                                 vendor__consumer=consumer)
                self.assertEqual(kind.id, volume.volume_type_id)
            else:
                self._refused('never', vendor__consumer=consumer)
