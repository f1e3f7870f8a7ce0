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

"""Switching from the in-tree driver to this one, and back.

The old driver is Cinder's own, with krest, on the same array; one line of
cinder.conf changes between the two.
"""

from typing import Any

import ddt

from tests.functional import base

GIB = 1048576
OLD = {'iscsi': 'cinder.volume.drivers.kaminario.kaminario_iscsi.'
                'KaminarioISCSIDriver',
       'fc': 'cinder.volume.drivers.kaminario.kaminario_fc.'
             'KaminarioFCDriver'}


@ddt.ddt
class UpgradeTest(base.FunctionalTest):
    # Rows of the in-tree driver have no ids: names are looked up.
    keeps_budgets = False

    def _old(self, protocol: str = 'iscsi', profile: str = 'k2') -> None:
        """Return a back end that runs the in-tree driver."""
        self.use(protocol, profile)
        # The old driver deletes hosts with their initiators (HST-3).
        self.switch(delete_host_with_initiators=True)
        self.own(OLD[protocol], san_api_port=None,
                 san_ip=f'{self.array.address}:{self.array.port}')
        self._protocol = protocol

    def _upgrade(self) -> None:
        """Switch to this driver and restart; rows are not changed."""
        self.switch(delete_host_with_initiators=False)
        self.assertTrue(self.backend.change_driver(self._protocol))

    def _size(self, volume: Any) -> int:
        found = self.admin.list('volumes', name=f'cv-{volume.id}')[0]
        return int(found['size']) // GIB

    @ddt.data('k2', 'sdp')
    def test_volumes_and_snapshots(self, profile: str) -> None:
        self._old(profile=profile)
        volume = self.backend.create_volume(1)
        plain = self.backend.create_volume(
            1, kaminario__thin_prov_type='nodedup')
        snapshot = self.backend.create_snapshot(volume)
        gone = self.backend.create_snapshot(volume)
        self._upgrade()

        self.assertIsNone(volume.provider_id)
        self.backend.delete_snapshot(gone)
        self.backend.extend_volume(plain, 3)
        self.assertEqual(3, self._size(plain))
        self.backend.create_snapshot(volume)
        made = [self.backend.volume_from_snapshot(snapshot),
                self.backend.clone(volume), self.backend.clone(plain)]
        for row in made:
            self.backend.detach(self.backend.attach(row, self.host()))
        for row in [*reversed(made), plain]:
            self.backend.delete_volume(row)
        for row in self.backend.snapshots():
            self.backend.delete_snapshot(row)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    @ddt.data('iscsi', 'fc')
    def test_attached_volumes(self, protocol: str) -> None:
        """Hosts that the old driver named are used and kept."""
        self._old(protocol)
        volume, other = [self.backend.create_volume(1) for _ in range(2)]
        host = self.host()
        before = self.backend.attach(volume, host)
        self._upgrade()

        self.backend.extend_volume(volume, 2)
        clone = self.backend.clone(volume)
        after = self.backend.attach(other, host)
        self.assertEqual(1, self.left()['hosts'])
        again = self.backend.manager.initialize_connection(
            self.backend.context, self.backend.volume(volume.id), host)
        self.assertEqual(before.connection_info['target_lun'],
                         again['data']['target_lun'])
        self.assertNotEqual(before.connection_info['target_lun'],
                            after.connection_info['target_lun'])
        self.backend.detach(before)
        self.backend.detach(after)
        self.assertNotIn('mappings', self.left())
        self.backend.delete_volume(clone)
        self._remove_hosts()

    def test_forced_detach(self) -> None:
        self._old()
        volume, other = [self.backend.create_volume(1) for _ in range(2)]
        host = self.host()
        self.backend.attach(volume, host)
        kept = self.backend.attach(other, host)
        self._upgrade()
        self.backend.force_detach(volume)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.detach(kept)
        self._remove_hosts()

    def test_deletion_of_what_is_gone(self) -> None:
        self._old()
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        self._upgrade()
        found = self.admin.list('snapshots',
                                short_name=f'cs-{snapshot.id}')[0]
        self.admin.delete('snapshots', found['id'])
        self.backend.delete_snapshot(snapshot)
        found = self.admin.list('volumes', name=f'cv-{volume.id}')[0]
        self.admin.delete('volumes', found['id'])
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_back(self) -> None:
        """The old driver can use and delete objects of this driver."""
        self._old()
        self.assertTrue(self.backend.change_driver('iscsi'))
        volume = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(volume)
        plain = self.backend.create_volume(
            1, kaminario__thin_prov_type='nodedup')
        self.assertTrue(self.backend.change_driver(OLD['iscsi']))

        self.backend.extend_volume(volume, 2)
        self.assertEqual(2, self._size(volume))
        self.backend.detach(self.backend.attach(plain, self.host()))
        self.backend.create_snapshot(plain)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)

    def test_a_row_of_another_array(self) -> None:
        """Ids in rows are ignored on other arrays; names are used there."""
        volume, other = [self.backend.create_volume(1) for _ in range(2)]
        snapshot, kept = [self.backend.create_snapshot(row)
                          for row in (volume, other)]
        # On this array, the ids belong to other objects.
        for row, elsewhere in ((volume, other), (snapshot, kept)):
            row.provider_id = elsewhere.provider_id.replace(
                '"system":"', '"system":"f')
            row.save()
        self.backend.extend_volume(volume, 4)
        self.assertEqual((4, 1), (self._size(volume), self._size(other)))
        clone = self.backend.volume_from_snapshot(snapshot)
        self.backend.delete_volume(clone)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assert_left(volumes=1, volume_groups=1, snapshots=1)
        self.assertEqual(1, self._size(other))

    @ddt.data('', '{', '[]', '7', 'null', '{"system":1}', 'x' * 255)
    def test_a_provider_id_of_somebody_else(self, value: str) -> None:
        volume = self.backend.create_volume(1)
        volume.provider_id = value
        volume.save()
        self.backend.extend_volume(volume, 2)
        self.backend.detach(self.backend.attach(volume, self.host()))
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def _remove_hosts(self) -> None:
        for resource in ('host_iqns', 'host_fc_ports', 'hosts'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])
