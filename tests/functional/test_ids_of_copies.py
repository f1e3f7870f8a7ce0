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

"""Ids of views, of clones' sources, and of mappings (OBJ-7).

See test_ids.
"""

import json
from typing import Any
from unittest import mock

from cinder_k2.driver.operations import host_copy
from cinder_k2.rest import errors as rest_errors
from cinder_k2.rest import transport
from tests.functional import disks
from tests.functional import test_ids

VIEW = {'kaminario__clone_strategy': 'view'}
GIB = 1 << 20


class WaitingCopyIdsTest(test_ids.IdsTest, disks.DisksTest):
    """A volume that is deleted while its copy waits for its turn."""

    def test_clone(self) -> None:
        """Foreign objects with its ids are neither written to nor deleted."""
        source = self.backend.create_volume(1)
        turn = host_copy.HostCopy._turn

        def wait(copies: Any) -> Any:
            row, = (volume for volume in self.backend.volumes()
                    if volume.id != source.id)
            volume = self.on_array('volumes', f'cv-{row.id}')
            group = self.on_array('volume_groups', f'cvg-{row.id}')
            self.backend.delete_volume(row, force=True)
            self.stranger('volume_groups', group['id'], name='payroll',
                          quota=0)
            self.stranger(
                'volumes', volume['id'], name='payroll-data', size=GIB,
                volume_group={'ref': f'/volume_groups/{group["id"]}'})
            return turn(copies)

        with mock.patch.object(host_copy.HostCopy, '_turn', wait):
            self.assert_fails(lambda: self.backend.clone(
                source, kaminario__clone_strategy='copy'))
        self.assertEqual(2, self.left()['volumes'])
        self.on_array('volumes', f'cv-{source.id}')


class ViewIdsTest(test_ids.IdsTest):
    """The id of a view that backs a volume."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.backend.create_volume(1)
        self.snapshot = self.backend.create_snapshot(self.source)
        self.volume = self.backend.volume_from_snapshot(self.snapshot, **VIEW)

    def stranger_for_view(self) -> Any:
        """Replace the view by a foreign one with its id."""
        mine, = self.admin.list('snapshots', short_name=f'cv-{self.volume.id}')
        group = self.make('volume_groups', name='payroll', quota=0)
        self.make('volumes', name='payroll-data', size=GIB,
                  volume_group={'ref': f'/volume_groups/{group["id"]}'})
        taken = self.make(
            'snapshots', short_name='nightly', is_auto_deleteable=False,
            retention_policy=self.policy(),
            source={'ref': f'/volume_groups/{group["id"]}'})
        self.admin.delete('snapshots', mine['id'])
        return self.stranger(
            'snapshots', mine['id'], short_name='report', is_exposable=True,
            is_auto_deleteable=False, retention_policy=self.policy(),
            source={'ref': f'/snapshots/{taken["id"]}'})

    def test_attach(self) -> None:
        self.stranger_for_view()
        self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assertEqual([], self.admin.list('hosts'))

    def test_detach(self) -> None:
        """The foreign view is mapped to the same host."""
        host = self.host()
        attachment = self.backend.attach(self.volume, host)
        found, = self.admin.list('hosts')
        for mapping in self.admin.list('mappings'):
            if mapping['volume']['ref'].startswith('/snapshots/'):
                self.admin.delete('mappings', mapping['id'])
        theirs = self.stranger_for_view()
        self.make('mappings', host={'ref': f'/hosts/{found["id"]}'},
                  volume={'ref': f'/snapshots/{theirs["id"]}'})
        before = self.admin.list('mappings')
        self.backend.detach(attachment)
        self.assertEqual(before, self.admin.list('mappings'))
        for mapping in before:
            if mapping['volume']['ref'].startswith('/snapshots/'):
                self.admin.delete('mappings', mapping['id'])
        for resource in ('host_iqns', 'host_fc_ports', 'hosts'):
            for one in self.admin.list(resource):
                self.admin.delete(resource, one['id'])

    def test_snapshot(self) -> None:
        self.stranger_for_view()
        self.assert_fails(self.backend.create_snapshot, self.volume)

    def test_clone(self) -> None:
        self.stranger_for_view()
        self.assert_fails(self.backend.clone, self.volume)

    def test_extend(self) -> None:
        self.stranger_for_view()
        self.assert_fails(self.backend.extend_volume, self.volume, 2)

    def test_delete(self) -> None:
        self.stranger_for_view()
        self.backend.delete_volume(self.volume)
        self.assert_untouched()

    def test_join_a_group(self) -> None:
        group = self.backend.create_group()
        self.stranger_for_view()
        self.assert_fails(lambda: self.backend.update_group(
            group, add=[self.volume]))


class ViewIdsOverFCTest(ViewIdsTest):
    """Over Fibre Channel, on an SDP."""

    protocol = 'fc'
    profile = 'sdp'
    sequences = True


class NightlyIdsTest(test_ids.IdsTest, disks.DisksTest):
    """A managed snapshot that is taken again; the new one has its id."""

    keeps_budgets = False

    def setUp(self) -> None:
        super().setUp()
        self.disks.set_scale(64)
        self.source = self.backend.create_volume(1)
        group = self.on_array('volume_groups', f'cvg-{self.source.id}')
        self.group = f'/volume_groups/{group["id"]}'

    def views(self) -> list[Any]:
        """Create two volumes from one snapshot, backed by views."""
        snapshot = self.backend.create_snapshot(self.source)
        return [self.backend.volume_from_snapshot(snapshot, **VIEW)
                for _ in range(2)]

    def view(self, volume: Any) -> str:
        """Return a reference to the view of a volume."""
        found, = self.admin.list('snapshots', short_name=f'cv-{volume.id}')
        return f'/snapshots/{found["id"]}'

    def nightly(self, source: str, number: int | None = None) -> Any:
        return self.stranger(
            'snapshots', number, short_name='nightly',
            is_auto_deleteable=False, retention_policy=self.policy(),
            source={'ref': source})

    def retake(self, volume: Any, source: str, then: str) -> Any:
        """Manage a snapshot, and replace it by a new one with its id.

        :param source: the source of the managed snapshot
        :param then: the source of the new one
        :returns: the row of the managed snapshot
        """
        mine = self.nightly(source)
        row = self.backend.manage_snapshot(volume, {'source-name': 'nightly'})
        self.admin.delete('snapshots', mine['id'])
        self._records.clear()
        self.nightly(then, mine['id'])
        return row

    def assert_kept(self, row: Any) -> None:
        """Check that the new snapshot is neither read nor deleted."""
        for strategy in 'copy', 'view':
            self.assert_fails(lambda: self.backend.volume_from_snapshot(
                row, kaminario__clone_strategy=strategy))
        self.backend.delete_snapshot(row)
        self.assert_untouched()
        (_, theirs), = self._records
        self.admin.delete('snapshots', theirs['id'])

    def test_of_a_view_of_the_volume(self) -> None:
        """The view belongs to another tenant."""
        self.assert_kept(self.retake(self.source, self.group,
                                     self.view(self.views()[0])))

    def test_of_another_view(self) -> None:
        mine, theirs = self.views()
        self.assert_kept(self.retake(mine, self.view(mine),
                                     self.view(theirs)))


class ParentIdsTest(test_ids.IdsTest):
    """The id of the hidden snapshot that a clone was made from."""

    profile = 'sdp'

    def setUp(self) -> None:
        super().setUp()
        self.source = self.backend.create_volume(1)
        self.volume = self.backend.clone(self.source)

    def other_for_parent(self) -> Any:
        """Replace the hidden snapshot by another one with its id."""
        # As on an array that deletes snapshots before their clones.
        mine, = self.admin.list('snapshots',
                                short_name=f'ccs-{self.volume.id}')
        volume = self.on_array('volumes', f'cv-{self.volume.id}')
        home = volume['volume_group']
        self.admin.delete('volumes', volume['id'])
        self.admin.delete('snapshots', mine['id'])
        other = self.backend.create_snapshot(self.source)
        found, = self.admin.list('snapshots', short_name=f'cs-{other.id}')
        self.assertEqual(mine['id'], found['id'])
        made = self.admin.create('volumes', name=f'cv-{self.volume.id}',
                                 size=GIB, volume_group=home)
        self.assertEqual(volume['id'], made['id'])
        return other

    def assert_there(self, snapshot: Any) -> None:
        self.assertEqual(1, len(self.admin.list(
            'snapshots', short_name=f'cs-{snapshot.id}')))

    def test_delete(self) -> None:
        other = self.other_for_parent()
        self.backend.delete_volume(self.volume)
        self.assert_there(other)

    def test_delete_where_it_was_being_moved(self) -> None:
        """A service was killed while the clone joined a group."""
        other = self.other_for_parent()
        row = self.backend.volume(self.volume.id)
        row.provider_id = json.dumps(
            json.loads(row.provider_id) | {'moving': True})
        row.save()
        self.backend.delete_volume(row)
        self.assert_there(other)

    def test_delete_where_it_has_clones(self) -> None:
        """The clone is hidden, and so is its source."""
        other = self.other_for_parent()
        clone = self.backend.clone(self.volume)
        self.backend.delete_volume(self.volume)
        self.assert_there(other)
        self.backend.delete_volume(clone)
        self.assert_there(other)

    def test_delete_all(self) -> None:
        """All objects are deleted, and nothing stays hidden."""
        other = self.other_for_parent()
        self.backend.delete_volume(self.volume)
        self.assert_there(other)
        self.backend.delete_snapshot(other)
        self.backend.delete_volume(self.source)
        self.assertNothingLeft()


class LostReplyTest(test_ids.IdsTest):
    """A deletion was carried out, its reply was lost, and the id is reused."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def lose(self, resource: str, then: Any) -> Any:
        """Lose the reply to the first deletion of such an object.

        :param then: called with the id before the reply is lost
        """
        send = transport.Transport.exchange
        done = []

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            path, _, number = request.path.rpartition('/')
            if (not done and request.method == 'DELETE'
                    and path == f'/{resource}'):
                done.append(number)
                then(int(number))
                raise rest_errors.Unreachable('the connection broke')
            return reply
        return mock.patch.object(transport.Transport, 'exchange', exchange)

    def take(self, number: int) -> None:
        """Take another snapshot of the volume."""
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        self.stranger('snapshots', number, short_name='nightly',
                      is_auto_deleteable=False,
                      retention_policy=self.policy(),
                      source={'ref': f'/volume_groups/{group["id"]}'})

    def assert_taken(self) -> None:
        """Check that the new snapshot still exists, and delete it."""
        self.assert_untouched()
        (_, found), = self._records
        self.admin.delete('snapshots', found['id'])

    def test_temporary_view(self) -> None:
        """A new snapshot has the id of a deleted temporary view."""
        snapshot = self.backend.create_snapshot(self.volume)
        driver, host = self.backend.driver, self.host()
        driver.initialize_connection_snapshot(snapshot, host)
        with self.lose('snapshots', self.take):
            driver.terminate_connection_snapshot(snapshot, host)
        self.assert_taken()

    def test_mapping(self) -> None:
        """A new mapping to the same host has the id of a deleted one."""
        host = self.host()
        other = self.backend.create_volume(1)
        kept = self.backend.create_volume(1)
        attachment = self.backend.attach(self.volume, host)
        self.backend.attach(kept, host)

        def attach(number: int) -> None:
            found, = self.admin.list('hosts')
            volume = self.on_array('volumes', f'cv-{other.id}')
            made = self.admin.create(
                'mappings', host={'ref': f'/hosts/{found["id"]}'},
                volume={'ref': f'/volumes/{volume["id"]}'})
            self.assertEqual(number, made['id'])
        with self.lose('mappings', attach):
            self.backend.detach(attachment)
        found = {m['volume']['ref'] for m in self.admin.list('mappings')}
        self.assertEqual(
            {f'/volumes/{self.on_array("volumes", f"cv-{v.id}")["id"]}'
             for v in (other, kept)}, found)
        for mapping in self.admin.list('mappings'):
            if mapping['volume']['ref'].endswith(
                    f'/{self.on_array("volumes", f"cv-{other.id}")["id"]}'):
                self.admin.delete('mappings', mapping['id'])

    def test_host(self) -> None:
        """Another host gets the id of a deleted one."""
        attachment = self.backend.attach(self.volume, self.host())

        def make(number: int) -> None:
            self.stranger('hosts', number, name='mainframe', type='Linux')
        with self.lose('hosts', make):
            self.backend.detach(attachment)
        self.assert_untouched()

    def test_snapshot(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        with self.lose('snapshots', self.take):
            self.backend.delete_snapshot(snapshot)
        self.assert_taken()

    def test_group(self) -> None:
        """Another volume's group gets the id of a deleted one."""
        def make(number: int) -> None:
            self.stranger('volume_groups', number, name='payroll', quota=0)
        with self.lose('volume_groups', make):
            self.backend.delete_volume(self.volume)
        self.assert_untouched()


class ManageIdsTest(test_ids.IdsTest):
    """Managing, unmanaging, and moving volumes between back ends."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def test_manage_a_snapshot(self) -> None:
        """The foreign group has a snapshot with that name."""
        theirs = self.stranger_for(self.volume)
        self.stranger('snapshots', None, short_name='nightly',
                      is_auto_deleteable=False,
                      retention_policy=self.policy(),
                      source=theirs['volume_group'])
        self.assert_fails(self.backend.manage_snapshot, self.volume,
                          {'source-name': 'nightly'})

    def test_unmanage(self) -> None:
        self.stranger_for(self.volume)
        self.backend.unmanage(self.volume)
        self.assert_untouched()

    def test_manage_a_snapshot_that_is_anothers_by_then(self) -> None:
        """No volume is created from the foreign snapshot with its id."""
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        fields = {'is_auto_deleteable': False,
                  'retention_policy': self.policy(),
                  'source': {'ref': f'/volume_groups/{group["id"]}'}}
        made = self.admin.create('snapshots', short_name='ours', **fields)
        get_size = type(
            self.backend.side.manage).manage_existing_snapshot_get_size

        def then(side: Any, *args: Any, **more: Any) -> Any:
            found = get_size(side, *args, **more)
            self.admin.delete('snapshots', made['id'])
            self.stranger('snapshots', made['id'], short_name='theirs',
                          **fields)
            return found
        with mock.patch.object(type(self.backend.side.manage),
                               'manage_existing_snapshot_get_size', then):
            managed = self.backend.manage_snapshot(
                self.volume, {'source-name': 'ours'})
        self.assert_fails(self.backend.volume_from_snapshot, managed)
        self.backend.delete_snapshot(managed)
        self.assert_untouched()
        self.admin.delete('snapshots', made['id'])

    def test_migrate_with_a_copy(self) -> None:
        other = self.use('fc' if self.protocol == 'iscsi' else 'iscsi')
        self.backend = self.use(self.protocol)
        self.stranger_for(self.volume)
        self.assert_fails(lambda: self.backend.migrate(
            self.volume, other, force_copy=True))
        self.assertEqual([], self.admin.list('hosts'))

    def test_migrate_without_a_copy(self) -> None:
        """Nothing is sent; the other back end notices it at an attach."""
        other = self.use('fc' if self.protocol == 'iscsi' else 'iscsi')
        self.backend = self.use(self.protocol)
        self.stranger_for(self.volume)
        self.backend.migrate(self.volume, other)
        self.assert_untouched()
        self.assert_fails(other.attach, self.volume, self.host())

    def test_retype_with_a_copy(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(lambda: self.backend.retype(
            self.volume, 'on-demand', kaminario__thin_prov_type='nodedup'))
        self.assertEqual([], self.admin.list('hosts'))

    def test_upload(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assert_fails(self.backend.upload, self.volume, 'raw')

    def test_backup(self) -> None:
        snapshot = self.backend.create_snapshot(self.volume)
        self.stranger_for_snapshot(snapshot)
        self.assert_fails(self.backend.driver.initialize_connection_snapshot,
                          snapshot, self.host())
        self.assertEqual([], self.admin.list('hosts'))
