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

"""Steps that use all features of the in-tree driver, with either driver."""

from tests.functional import images

MIB = 1 << 20
NODEDUP = {'kaminario__thin_prov_type': 'nodedup'}


def copies(test: images.ImagesTest, source: object) -> None:
    """Copy a volume that begins with "first" in each way, and revert it."""
    snapshot = test.backend.create_snapshot(source)
    for copy in (test.backend.volume_from_snapshot(snapshot),
                 test.backend.clone(source)):
        test.assertEqual(b'first', test.disks.read(copy, 0, 5))
        test.backend.delete_volume(copy)
    test.upload(source, 'raw')
    test.disks.write(source, 0, b'later')
    test.backend.revert(source, snapshot)
    test.assertEqual(b'first', test.disks.read(source, 0, 5))
    test.backend.delete_snapshot(snapshot)


def attachments(test: images.ImagesTest, *volumes: object) -> None:
    """Attach two volumes to a host, which is removed with the last of them."""
    host = test.host()
    made = [test.backend.attach(volume, host) for volume in volumes]
    test.assertEqual({'hosts': 1, 'mappings': 2}, {
        name: number for name, number in test.left().items()
        if name in ('hosts', 'mappings')})
    test.backend.detach(made[0])
    test.backend.force_detach(volumes[1])
    test.assertNotIn('hosts', test.left())


def managed(test: images.ImagesTest) -> None:
    """Manage an existing volume, unmanage it, and manage it again."""
    group = test.admin.create('volume_groups', name='db', quota=0)
    test.admin.create(
        'volumes', name='db-data', size=MIB,
        volume_group={'ref': f'/volume_groups/{group["id"]}'})
    volume = test.backend.manage({'source-name': 'db-data'})
    test.backend.unmanage(volume)
    found = test.admin.list('volumes', name=f'cv-{volume.id}')
    test.backend.manage({'source-name': found[0]['name']})
