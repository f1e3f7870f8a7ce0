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

"""Switching a back end of the in-tree driver to this one, with all objects.

The in-tree driver (with krest) creates volumes, snapshots, copies and
attachments; one line of cinder.conf changes; then this driver uses all of
them, and renames or loses nothing. Finally the in-tree driver takes over
again.
"""

import pathlib
from typing import Any

import sqlalchemy

from tests.functional import disks
from tests.functional import test_upgrade
from tools.cloud import database

MIB = 1 << 20
KIB_PER_GIB = 1 << 20
DEDUP = {'kaminario__thin_prov_type': 'dedup'}
NODEDUP = {'kaminario__thin_prov_type': 'nodedup'}
# From the page: queries for objects to change before switching back.
QUERIES = {'hosts': 'name__prefix=cinder-',
           'snapshots': 'is_exposable=true&short_name__prefix=cv-',
           'volume_groups': 'name__prefix=ccg-'}
SQL = ('SELECT id, _name_id FROM volumes WHERE NOT deleted '
       'AND _name_id IS NOT NULL AND _name_id != id')
RESOURCES = {'volume_groups': 'name', 'volumes': 'name',
             'snapshots': 'short_name', 'hosts': 'name', 'host_iqns': 'iqn',
             'host_fc_ports': 'pwwn'}


class DropInTest(disks.DisksTest):
    """Has objects of each type from the old driver, with data.

    :ivar volume: attached to ``self.guest`` as ``self.attachment``
    :ivar source: the volume of ``self.snapshot``, written to after it
    :ivar plain: a volume without deduplication
    :ivar clone: a clone of ``self.plain``
    :ivar copy: a volume from the snapshot
    :ivar managed: a volume that an administrator created
    :ivar before: the objects of the old driver on the array, see ``there``
    """

    # Rows of the in-tree driver have no ids: names are looked up.
    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)
        # The old driver deletes hosts with their initiators (HST-3).
        self.switch(delete_host_with_initiators=True)
        self.own(test_upgrade.OLD[self.protocol], san_api_port=None,
                 san_ip=f'{self.array.address}:{self.array.port}')
        self.addCleanup(self._remove_hosts)
        self._fill()
        self.before = self.there()
        self.use_ours()

    def _fill(self) -> None:
        create = self.backend.create_volume
        self.volume, self.source = create(1), create(1)
        self.plain = create(1, **NODEDUP)
        for row, text in ((self.volume, b'guest'), (self.source, b'image'),
                          (self.plain, b'plain')):
            self.disks.write(row, MIB, text)
        self.snapshot = self.backend.create_snapshot(self.source)
        self.disks.write(self.source, MIB, b'later')
        self.clone = self.backend.clone(self.plain)
        self.copy = self.backend.volume_from_snapshot(self.snapshot)
        self.managed = self._manage()
        self.guest = self.host()
        self.attachment = self.backend.attach(self.volume, self.guest)

    def _manage(self) -> Any:
        group = self.admin.create('volume_groups', name='db', quota=0)
        made = self.admin.create(
            'volumes', name='db-data', size=KIB_PER_GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.disks.write(made, MIB, b'admin')
        return self.backend.manage({'source-name': 'db-data'})

    def use_ours(self) -> None:
        """Switch to this driver and restart; rows are not changed."""
        self.switch(delete_host_with_initiators=False)
        self.assertTrue(self.backend.change_driver(self.protocol))

    def use_old(self) -> None:
        """Switch to the old driver and restart."""
        self.switch(delete_host_with_initiators=True)
        self.assertTrue(self.backend.change_driver(
            test_upgrade.OLD[self.protocol]))

    def _remove_hosts(self) -> None:
        """Delete the hosts of the old driver, which this driver keeps."""
        self.backend.delete_everything()
        for resource in ('host_iqns', 'host_fc_ports', 'hosts'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])

    # Looks

    def there(self) -> dict[tuple[str, int], str]:
        """Return the names of users' objects, by resource and id."""
        return {(resource, row['id']): row[field]
                for resource, field in RESOURCES.items()
                for row in self.admin.list(resource)
                if row[field] != 'CTRL'}

    def assert_kept(self, *gone: str) -> None:
        """Check that the old driver's objects have the same ids and names.

        :param gone: names of objects that were deleted on purpose
        """
        now = self.there()
        self.assertEqual(
            {key: name for key, name in self.before.items()
             if name not in gone},
            {key: name for key, name in now.items() if key in self.before})

    def assert_data(self, **expected: bytes) -> None:
        """Check the data of these attributes."""
        for name, text in expected.items():
            self.assertEqual(text, self.data(getattr(self, name)), name)

    def data(self, row: Any) -> bytes:
        """Return the 5 bytes at 1 MiB of a volume or snapshot."""
        get = (self.backend.snapshot if hasattr(row, 'volume_id')
               else self.backend.volume)
        return self.disks.read(get(row.id), MIB, 5)

    def assert_all_data(self) -> None:
        self.assert_data(volume=b'guest', source=b'later', plain=b'plain',
                         snapshot=b'image', clone=b'plain', copy=b'image',
                         managed=b'admin')

    def assert_seen(self, attachment: Any, host: Any, row: Any) -> None:
        """Check that the host finds the volume."""
        self.assertEqual(
            self.disks.path(self.backend.volume(row.id)),
            self.disks.find(attachment.connection_info, host))

    def size(self, volume: Any) -> int:
        """Return the size of a volume on the array, in GiB."""
        found = self.admin.list('volumes', name=f'cv-{volume.id}')[0]
        return int(found['size']) // KIB_PER_GIB


class ForwardTest(DropInTest):
    """Attachments and copies, which depend on protocol and array."""

    def test_attachments(self) -> None:
        other = self.backend.attach(self.plain, self.guest)
        self.assert_seen(other, self.guest, self.plain)
        elsewhere = self.host()
        third = self.backend.attach(self.clone, elsewhere)
        self.assert_seen(third, elsewhere, self.clone)
        self.assertEqual(2, self.left()['hosts'])
        # As nova does when it restarts the guest.
        again = self.backend.manager.initialize_connection(
            self.backend.context, self.backend.volume(self.volume.id),
            self.guest)
        self.assertEqual(self.attachment.connection_info['target_lun'],
                         again['data']['target_lun'])

        self.backend.extend_volume(self.volume, 2)
        self.backend.delete_snapshot(
            self.backend.create_snapshot(self.volume))
        clone = self.backend.clone(self.volume)
        self.assertEqual(b'guest', self.data(clone))
        self.backend.delete_volume(clone)
        self.assertEqual(2, self.size(self.volume))
        self.assert_kept()

        self.backend.detach(third)
        self.backend.detach(self.attachment)
        self.assertEqual(1, self.left()['mappings'])
        self.backend.force_detach(self.plain)
        self.assertNotIn('mappings', self.left())
        self.assert_all_data()
        # The host, which the old driver named, stays.
        self.assert_kept()
        for row in (self.volume, self.copy, self.managed):
            self.backend.extend_volume(row, 3)
            self.assertEqual(3, self.size(row))
        self.assert_kept()

    def test_copies(self) -> None:
        strategies = {'k2': ['view', 'copy'], 'sdp': ['thin', 'view', 'copy']}
        made = [(b'image', self.backend.volume_from_snapshot(
            self.snapshot, kaminario__clone_strategy=strategy))
            for strategy in strategies[self.profile]]
        for text, source, size, specs in (
                (b'later', self.source, 1, {}),
                (b'guest', self.volume, 1, {}),
                (b'plain', self.clone, 1, NODEDUP),
                (b'plain', self.plain, 2, DEDUP)):
            made.append((text, self.backend.clone(source, size, **specs)))
        self.assert_kept()
        self.assert_all_data()
        self.backend.revert(self.source, self.snapshot)
        self.assert_data(source=b'image', snapshot=b'image')
        self._read_snapshot()
        self.assert_kept()

        # The sources are deleted, and their clones stay.
        self.backend.delete_snapshot(self.snapshot)
        for row in (self.source, self.clone):
            self.backend.delete_volume(row)
        for text, row in made:
            self.assertEqual(text, self.data(row))
            self.backend.delete_volume(row)
        gone = {f'cs-{self.snapshot.id}', f'cv-{self.source.id}',
                f'cvg-{self.source.id}', f'cv-{self.clone.id}',
                f'cvg-{self.clone.id}'}
        self.assert_kept(*gone)
        self.assertEqual(len(self.before) - len(gone), len(self.there()))
        self.assert_data(volume=b'guest', plain=b'plain', copy=b'image',
                         managed=b'admin')

    def _read_snapshot(self) -> None:
        """Attach the snapshot and read it, as cinder-backup does."""
        driver, host = self.backend.driver, self.host()
        connection = driver.initialize_connection_snapshot(
            self.snapshot, host)
        with open(self.disks.find(connection['data'], host), 'rb') as device:
            device.seek(MIB)
            self.assertEqual(b'image', device.read(5))
        driver.terminate_connection_snapshot(self.snapshot, host)


class ForwardOverFCTest(ForwardTest):
    protocol = 'fc'
    profile = 'sdp'


class ForwardFurtherTest(DropInTest):
    """Cases that depend on neither protocol nor array."""

    def test_types_and_places(self) -> None:
        with self.assert_calls(0):
            self.backend.retype(self.volume, vendor__colour='red')
        self.backend.retype(self.plain, 'on-demand')
        self.assert_data(plain=b'plain')
        self.assertTrue(self.admin.list('volumes', name=(
            f'cv-{self.backend.volume(self.plain.id).name_id}'))[0][
                'is_dedup'])
        self.assert_kept(f'cv-{self.plain.id}', f'cvg-{self.plain.id}')

        first = self.backend
        second = self.use({'iscsi': 'fc', 'fc': 'iscsi'}[self.protocol])
        moved = first.migrate(self.clone, second)
        self.assertEqual(second.pool, moved.host)
        second.detach(second.attach(moved, self.host()))
        second.extend_volume(moved, 2)
        self.assertEqual(2, self.size(moved))
        second.migrate(moved, first)
        self.backend = first
        self.assert_kept(f'cv-{self.plain.id}', f'cvg-{self.plain.id}')
        self.assert_all_data()

    def test_managing(self) -> None:
        self.backend.unmanage_snapshot(self.snapshot)
        self.assert_kept()
        self.snapshot = self.backend.manage_snapshot(
            self.source, {'source-name': self.before[self._taken()]})
        self.assert_data(snapshot=b'image')
        self.assert_kept()
        for row in (self.copy, self.managed):
            self.backend.unmanage(row)
        self.assert_kept()
        # Only managing renames, to names with the new ids.
        self.copy, self.managed = [
            self.backend.manage({'source-name': f'cv-{row.id}'})
            for row in (self.copy, self.managed)]
        self.assert_all_data()

        listed = self.backend.manageable()
        self.assertTrue(all(entry['cinder_id'] for entry in listed))
        pool, = self.backend.stats()['pools']
        self.assertEqual((6, 'up'), (pool['total_volumes'],
                                     pool['backend_state']))

    def _taken(self) -> tuple[str, int]:
        return next(key for key in self.before if key[0] == 'snapshots')

    def test_groups(self) -> None:
        group = self.backend.create_group()
        for row in (self.volume, self.copy):
            self.backend.update_group(group, add=[row])
        own = {f'cvg-{row.id}' for row in (self.volume, self.copy)}
        self.assert_kept(*own)
        taken = self.backend.create_group_snapshot(group)
        self.disks.write(self.backend.volume(self.copy.id), MIB, b'group')
        self.assert_data(copy=b'group')
        self.assertEqual([b'guest', b'image'], sorted(
            self.data(row) for row in self.backend.snapshots()
            if row.group_snapshot_id))
        self.backend.delete_group_snapshot(taken)
        self.backend.update_group(group, remove=[self.volume, self.copy])
        self.backend.delete_group(group)
        self.assert_kept(*own)
        self.assertEqual(set(self.before.values()),
                         set(self.there().values()))
        self.backend.detach(self.attachment)
        self.backend.delete_volume(self.copy)


class BackTest(DropInTest):
    """The old driver takes over again, after the steps of the page."""

    def test_back_and_forth(self) -> None:
        self._use_everything()
        self._prepare()
        self.use_old()
        for row in self.backend.volumes():
            self._use_old_on(row)
        self._detach_all()
        self.use_ours()
        for row in self.backend.volumes():
            self.assertEqual(self.expected[row.id], self.data(row))
        for row in (self.made[0], self.copy, self.clone):
            self.backend.detach(self.backend.attach(row, self.host()))
        self.use_old()
        self._delete_all()
        self.assertEqual(set(), {kind for kind, _ in self.there()} - {
            'hosts', 'host_iqns', 'host_fc_ports'})

    def _use_everything(self) -> None:
        """Create objects that the old driver would create differently."""
        self.new_host = self.host('compute.7')
        self.made = [self.backend.clone(self.source),
                     self.backend.volume_from_snapshot(self.snapshot)]
        for host in (self.guest, self.new_host):
            self.backend.attach(self.made[0] if host is self.guest
                                else self.plain, host)
        self.backend.delete_volume(self.backend.clone(self.volume))
        self.backend.retype(self.clone, 'on-demand')
        group = self.backend.create_group()
        self.backend.update_group(group, add=[self.copy])
        self.backend.create_group_snapshot(group)
        self.expected = {row.id: self.data(row)
                         for row in self.backend.volumes()}

    def _prepare(self) -> None:
        self._rename_hosts()
        self._fill_views()
        self._rename_volumes()
        self._leave_groups()
        for kind in ('hosts', 'snapshots', 'volume_groups'):
            self.assertEqual([], self.find(kind))

    def find(self, resource: str) -> list[Any]:
        """Search as the page describes."""
        query = QUERIES[resource]
        self.assertIn(f'/api/v2/{resource}?{query}', page())
        return list(self.admin.list(resource, **dict(
            condition.split('=') for condition in query.split('&'))))

    def _rename_hosts(self) -> None:
        found, = self.find('hosts')
        self.admin.update('hosts', found['id'], name='compute_7')

    def _fill_views(self) -> None:
        views = [found['short_name'].removeprefix('cv-')
                 for found in self.find('snapshots')]
        self.assertEqual(self.profile == 'k2', bool(views))
        for volume_id in views:
            row = self.backend.volume(volume_id)
            attached = list(row.volume_attachment)
            for attachment in attached:
                self.backend.detach(attachment)
            self.backend.extend_volume(row, row.size + 1)
            for attachment in attached:
                self.backend.attach(row, self.guest)

    def _other_names(self) -> list[Any]:
        self.assertIn(' '.join(SQL.split()), ' '.join(page().split()))
        with database.engine().begin() as connection:
            return list(connection.execute(sqlalchemy.text(SQL)))

    def _rename_volumes(self) -> None:
        for volume_id, name_id in self._other_names():
            for resource, prefix in (('volumes', 'cv-'),
                                     ('volume_groups', 'cvg-')):
                found, = self.admin.list(resource, name=prefix + name_id)
                self.admin.update(resource, found['id'],
                                  name=prefix + volume_id)
            row = self.backend.volume(volume_id)
            self.assertEqual(self.expected[volume_id], self.data(row))

    def _leave_groups(self) -> None:
        for found in self.find('volume_groups'):
            group = self.backend.group(found['name'].removeprefix('ccg-'))
            for taken in group.group_snapshots:
                self.backend.delete_group_snapshot(taken)
            self.backend.update_group(
                group, remove=self.backend.members(group))
            self.backend.delete_group(group)

    def _use_old_on(self, volume: Any) -> None:
        """Use the features of the old driver on a volume."""
        self.backend.delete_snapshot(self.backend.create_snapshot(volume))
        size = self.size(volume) + 1
        self.backend.extend_volume(volume, size)
        self.assertEqual(size, self.size(volume))
        if volume.id in (self.made[1].id, self.copy.id, self.clone.id):
            self.backend.detach(self.backend.attach(volume, self.host()))

    def _detach_all(self) -> None:
        for volume in self.backend.volumes():
            for attachment in volume.volume_attachment:
                self.backend.detach(attachment)
        self.assertNotIn('mappings', self.left())

    def _delete_all(self) -> None:
        """Delete clones first, and hidden snapshots as an administrator."""
        for row in self.made:
            self.backend.delete_volume(row)
        hidden = self.admin.list('snapshots', short_name__prefix='ccs-')
        self.assertEqual(self.profile == 'sdp', bool(hidden))
        for found in hidden:
            self.admin.delete('snapshots', found['id'])
        self.backend.delete_snapshot(self.snapshot)
        for row in self.backend.volumes():
            self.backend.delete_volume(row)


class BackOverFCTest(BackTest):
    protocol = 'fc'
    profile = 'sdp'


def page() -> str:
    """Return the text of the operator's page."""
    path = pathlib.Path(__file__).parents[2] / (
        'doc/source/operator/replacing.rst')
    return path.read_text(encoding='utf-8')
