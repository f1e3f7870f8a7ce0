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

"""The mock of an initiator: what it must find or refuse."""

from cinder.volume import volume_utils
from os_brick import exception as brick_exception

from tests.functional import base
from tests.functional import disks

MIB = 1048576


@base.pairwise_variants
class DisksWorkTest(disks.DisksTest):
    """The mock leads to the data of the right object."""

    def _device(self, volume):
        """Attach a volume to this host, as Cinder does for its own use."""
        properties = volume_utils.brick_get_connector_properties(True, False)
        driver = self.backend.driver
        info, _ = driver._attach_volume(self.backend.context, volume,
                                        properties)
        return info, properties

    def _detach(self, volume, info, properties):
        self.backend.driver._detach_volume(
            self.backend.context, info, volume, properties, force=True)

    def test_a_connected_file_is_the_volume(self):
        first = self.backend.create_volume(1)
        second = self.backend.create_volume(2)
        self.disks.write(second, 5 * MIB, b'second')
        opened = [(row, *self._device(row)) for row in (first, second)]
        paths = [info['device']['path'] for _, info, _ in opened]
        self.assertEqual({path: 1 for path in paths}, self.disks.connected)
        self.assertEqual(2, self.disks.most)
        with open(paths[1], 'rb') as stream:
            stream.seek(5 * MIB)
            self.assertEqual(b'second', stream.read(6))
            self.assertEqual(2 * 1024 * MIB, stream.seek(0, 2))
        for row, info, properties in opened:
            self._detach(row, info, properties)
        self.assertEqual(0, len(self._hosts()))

    def test_growth_is_seen(self):
        volume = self.backend.create_volume(1)
        info, properties = self._device(volume)
        self.backend.driver.extend_volume(volume, 3)
        self.assertEqual(3 * 1024 * MIB, info['connector'].extend_volume(
            info['conn']['data']))
        self._detach(volume, info, properties)

    def test_snapshots_and_what_is_made_from_them(self):
        volume = self.backend.create_volume(1)
        self.disks.write(volume, 0, b'before')
        snapshot = self.backend.create_snapshot(volume)
        self.disks.write(volume, 0, b'after!')
        made = self.backend.volume_from_snapshot(snapshot)
        clone = self.backend.clone(volume)
        self.disks.write(made, 6, b'own')
        again = self.backend.clone(made)
        for row, data in ((snapshot, b'before\0\0\0'), (again, b'beforeown'),
                          (clone, b'after!\0\0\0'), (made, b'beforeown'),
                          (volume, b'after!\0\0\0')):
            self.assertEqual(data, self.disks.read(row, 0, 9))

    def test_restore(self):
        volume = self.backend.create_volume(1)
        self.disks.write(volume, 0, b'before')
        snapshot = self.backend.create_snapshot(volume)
        self.disks.write(volume, 0, b'after!')
        found = self.admin.list('snapshots')[0]
        group = self.admin.list('volume_groups')[0]
        self.admin.update('volume_groups', group['id'], last_restored_from={
            'ref': f'/snapshots/{found["id"]}'})
        self.assertEqual(b'before', self.disks.read(volume, 0, 6))
        self.backend.delete_snapshot(snapshot)

    def test_real_dd(self):
        """A sparse copy keeps existing data, as on a device."""
        source = self.backend.create_volume(1)
        target = self.backend.create_volume(1)
        self.disks.write(source, 3 * MIB, b'text')
        self.disks.write(target, 900 * MIB, b'rest')
        opened = [(row, *self._device(row)) for row in (source, target)]
        paths = [info['device']['path'] for _, info, _ in opened]
        volume_utils.copy_volume(paths[0], paths[1], 1024, '1M', sparse=True)
        for row, info, properties in opened:
            self._detach(row, info, properties)
        self.assertEqual(b'text', self.disks.read(target, 3 * MIB, 4))
        self.assertEqual(b'rest', self.disks.read(target, 900 * MIB, 4))

    def test_what_is_not_mapped_is_not_found(self):
        volume = self.backend.create_volume(1)
        info, properties = self._device(volume)
        data = info['conn']['data']
        lun = data['target_lun'] + 1
        self.assertRaises(
            brick_exception.VolumeDeviceNotFound, self.disks.find,
            {**data, 'target_lun': lun,
             'target_luns': [lun] * len(data['target_luns'])})
        self.assertRaises(AssertionError, self.disks.find,
                          {**data, 'target_lun': lun})
        self._detach(volume, info, properties)
        self.assertRaises(brick_exception.VolumeDeviceNotFound,
                          self.disks.find, data)

    def test_unmapped_too_early(self):
        volume = self.backend.create_volume(1)
        info, properties = self._device(volume)
        self.assertRaises(
            brick_exception.VolumeDeviceNotFound, self.disks.find,
            info['conn']['data'], self.host())
        self.backend.driver.terminate_connection(volume, properties)
        info['connector'].disconnect_volume(info['conn']['data'],
                                            info['device'])
        self.assertEqual(1, len(self.disks.problems))
        self.disks.problems.clear()
