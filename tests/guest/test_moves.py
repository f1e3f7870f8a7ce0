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

"""Data of volumes that are managed, migrated or retyped."""

from tests.functional import cloud
from tests.guest import base
from tests.guest import brick
from tests.guest import disk

NODEDUP = {'kaminario__thin_prov_type': 'nodedup'}


# The MiB that Nova copies in these tests: all with data, and their neighbors.
# The driver does not depend on how Nova copies; Cinder copies whole volumes.
_COPIED = (*range(8), *range(1016, 1024))


class Nova(cloud.Nova):
    """Nova in this guest: it copies between disks of the guest's kernel.

    :ivar made: the new disks, connected
    """

    def __init__(self):
        super().__init__(None, brick.properties(False))
        self.made = []

    def _copy(self, source, target):
        old, new = [brick.Disk(dict(row.connection_info), False)
                    for row in (source, target)]
        paths = [one.connect().path for one in (old, new)]
        for place in _COPIED:
            disk.write(paths[1], place * disk.MIB,
                       disk.read(paths[0], place * disk.MIB))
        self.made.append(new)
        old.disconnect()

    def _path(self, attachment):
        return self.made[-1].path


class MovesTest(base.GuestTest):

    def filled(self):
        """Create a volume with data at its beginning and at its end."""
        volume = self.backend.create_volume(1)
        attached = self.attach(volume)
        self.fill(attached.path, 0, 1023)
        attached.detach()
        return volume


class TestManage(base.GuestTest):

    def test_with_data(self):
        """Bytes that were on the array before Cinder knew of it."""
        group = self.array.call('POST', 'volume_groups', name='db', quota=0)
        made = self.array.call(
            'POST', 'volumes', name='db-data', size=2 ** 20,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        data = disk.pattern('old')
        self.array.write('volumes', made['id'], 5 * disk.MIB, data)
        volume = self.backend.manage({'source-name': 'db-data'})
        attached = self.attach(volume)
        self.assert_bytes(data, attached.path, 5)
        self.fill(attached.path, 6)
        self.assert_filled(attached.path, 6)


class AttachedTest(MovesTest):
    """Nova copies attached volumes."""

    def setUp(self):
        super().setUp()
        self.nova = Nova()
        self.nova.install(self)

    def attached(self):
        """Create a volume with data, attached to an instance."""
        volume = self.filled()
        self.backend.attach(volume, brick.properties(False), 'a' * 32)
        return volume

    def swap(self, volume, place):
        """Let the guest swap volumes and write; check the new volume."""
        self.nova.swap(guest=lambda path: self.fill(path, 5))
        volume = place.volume(volume.id)
        self.assertEqual(('in-use', 'success', place.pool),
                         (volume.status, volume.migration_status,
                          volume.host))
        made, = self.nova.made
        self.assert_filled(made.path, 0, 5, 1023)
        made.disconnect()
        place.detach(volume.volume_attachment[0])
        again = self.attach(volume, place=place)
        self.assert_filled(again.path, 0, 5, 1023)
        self.assert_zeros(again.path, 6)
        return volume


class TestMigration(AttachedTest):

    def test_to_another_array(self):
        """Cinder's host connects to both arrays and copies all blocks."""
        second = self.use('b')
        volume = self.backend.migrate(self.filled(), second)
        self.assertEqual({}, self.array.leftovers())
        attached = self.attach(volume, place=second)
        self.assert_filled(attached.path, 0, 1023)
        self.assert_zeros(attached.path, 1)

    def test_to_another_array_in_use(self):
        """Data written during the move is on the new volume."""
        second = self.use('b')
        volume = self.attached()
        self.backend.migrate(volume, second)
        self.swap(volume, second)
        self.assertEqual({}, self.array.leftovers())


class TestRetype(AttachedTest):

    def is_dedup(self, volume):
        found, = self.array.hits(f'volumes?name=cv-{volume.name_id}')
        return self.array.hits(
            f'volume_groups?id={found["volume_group"]["ref"].split("/")[2]}'
        )[0]['is_dedup']

    def test_available(self):
        volume = self.filled()
        self.assertTrue(self.is_dedup(volume))
        volume = self.backend.retype(volume, 'on-demand', **NODEDUP)
        self.assertFalse(self.is_dedup(volume))
        self.assert_filled(self.attach(volume).path, 0, 1023)

    def test_in_use(self):
        """Nova copies; later writes are on the volume that remains."""
        volume = self.attached()
        self.assertTrue(self.is_dedup(volume))
        self.backend.retype(volume, 'on-demand', **NODEDUP)
        self.assertFalse(self.is_dedup(self.swap(volume, self.backend)))
