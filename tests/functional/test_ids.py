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

"""Ids that the array has reused for foreign objects (OBJ-7).

Cinder's object was deleted on the array, and a foreign object has its id. No
operation changes the foreign object or exposes it to users.
"""

from collections.abc import Callable
import json
from typing import Any
from unittest import mock

from cinder import exception
import sqlalchemy

from cinder_k2.driver.operations import host_access
from cinder_k2 import naming
from cinder_k2.rest import errors as rest_errors
from cinder_k2.rest import transport
from tests.functional import backend
from tests.functional import base
from tests.functional import replicated
from tests.functional import test_odd_replies as odd
from tools.cloud import database

GIB = 1 << 20


class IdsTest(base.FunctionalTest):
    """An array that reuses ids."""

    # Whether the array refuses repeated requests (SEQ-1).
    sequences = False

    def setUp(self) -> None:
        super().setUp()
        self.switch(reuse_ids=True, sequences=self.sequences)
        self._records: list[tuple[str, dict[str, Any]]] = []

    # Foreign objects

    def policy(self) -> dict[str, str]:
        """Return a reference to a retention policy for foreign snapshots."""
        found = self.admin.list('retention_policies')[0]['id']
        return {'ref': f'/retention_policies/{found}'}

    def stranger(self, resource: str, number: int | None, **fields: Any
                 ) -> Any:
        """Create a foreign object with this id, which must not change.

        :param number: the id that it must have; None for any id
        """
        made = self.make(resource, **fields)
        self.assertIn(number, (None, made['id']))
        # The new object may have changed counters of earlier ones.
        self._records = [
            (each, self.admin.list(each, id=found['id'])[0])
            for each, found in [*self._records, (resource, made)]]
        return made

    def stranger_for(self, volume: Any) -> Any:
        """Replace a volume and its group by foreign ones with their ids."""
        mine = self.on_array('volumes', f'cv-{volume.id}')
        group = self.on_array('volume_groups', f'cvg-{volume.id}')
        for mapping in self.admin.list('mappings'):
            self.admin.delete('mappings', mapping['id'])
        self.admin.delete('volumes', mine['id'])
        self.admin.delete('volume_groups', group['id'])
        self.stranger('volume_groups', group['id'], name='payroll', quota=0)
        return self.stranger(
            'volumes', mine['id'], name='payroll-data', size=GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})

    def stranger_for_snapshot(self, snapshot: Any, prefix: str = 'cs') -> Any:
        """Replace a snapshot by a foreign one with its id.

        :param prefix: of its name; ``cgs`` for a group snapshot
        """
        mine, = self.admin.list(
            'snapshots', short_name=f'{prefix}-{snapshot.id}')
        group = self.make('volume_groups', name='payroll', quota=0)
        self.make('volumes', name='payroll-data', size=GIB,
                  volume_group={'ref': f'/volume_groups/{group["id"]}'})
        self.admin.delete('snapshots', mine['id'])
        return self.stranger(
            'snapshots', mine['id'], short_name='nightly',
            is_auto_deleteable=False, retention_policy=self.policy(),
            source={'ref': f'/volume_groups/{group["id"]}'})

    def on_array(self, resource: str, name: str) -> Any:
        """Return the one object of that name."""
        found, = self.admin.list(resource, name=name)
        return found

    def assert_untouched(self) -> None:
        """Check that foreign objects are unchanged, and nothing is mapped."""
        for resource, before in self._records:
            found = self.admin.list(resource, id=before['id'])
            self.assertEqual([before], found, resource)
        self.assertEqual([], self.admin.list('mappings'))

    def assert_fails(self, operation: Callable[..., Any], *args: Any) -> str:
        """Check that an operation fails and changes no foreign object.

        :returns: the error as text
        """
        try:
            operation(*args)
        except backend.OperationFailed as failure:
            self.assert_untouched()
            return str(failure.cause)
        except exception.CinderException as error:
            self.assert_untouched()
            return str(error)
        self.fail('it was done')


class VolumeIdsTest(IdsTest):
    """The ids of a volume and its group."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def test_extend(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(self.backend.extend_volume, self.volume, 2)
        self.assertIn(f'has no volume or view cv-{self.volume.id}',
                      self.log.errors_text())

    def test_snapshot(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(self.backend.create_snapshot, self.volume)

    def test_clone(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(self.backend.clone, self.volume)

    def test_attach(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assertEqual([], self.admin.list('hosts'))

    def test_attach_that_waits_for_its_host(self) -> None:
        held = host_access.HostAccess.held

        def wait(access: Any, *args: Any) -> Any:
            self.stranger_for(self.volume)
            return held(access, *args)

        with mock.patch.object(host_access.HostAccess, 'held', wait):
            self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assertEqual([], self.admin.list('hosts'))

    def _remove_host(self, host: Any) -> None:
        """Delete a host that the driver kept for the foreign volume."""
        for resource in ('host_iqns', 'host_fc_ports'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])
        self.admin.delete('hosts', host['id'])

    def test_detach(self) -> None:
        """The foreign volume is mapped to the same host."""
        host = self.host()
        attachment = self.backend.attach(self.volume, host)
        found, = self.admin.list('hosts')
        theirs = self.stranger_for(self.volume)
        mapping = self.make(
            'mappings', host={'ref': f'/hosts/{found["id"]}'},
            volume={'ref': f'/volumes/{theirs["id"]}'})
        self.backend.detach(attachment)
        self.assertEqual([mapping['id']], [
            m['id'] for m in self.admin.list('mappings')])
        self.admin.delete('mappings', mapping['id'])
        self._remove_host(found)

    def test_force_detach(self) -> None:
        self.backend.attach(self.volume, self.host())
        found, = self.admin.list('hosts')
        theirs = self.stranger_for(self.volume)
        mapping = self.make(
            'mappings', host={'ref': f'/hosts/{found["id"]}'},
            volume={'ref': f'/volumes/{theirs["id"]}'})
        self.backend.force_detach(self.volume)
        self.assertEqual([mapping['id']], [
            m['id'] for m in self.admin.list('mappings')])
        self.admin.delete('mappings', mapping['id'])
        self._remove_host(found)

    def test_delete(self) -> None:
        self.stranger_for(self.volume)
        self.backend.delete_volume(self.volume)
        self.assert_untouched()

    def test_delete_where_the_reply_is_lost(self) -> None:
        """The id is reused before the second request."""
        mine = self.on_array('volumes', f'cv-{self.volume.id}')
        send = transport.Transport.exchange
        made = []

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            if not made and (request.method, request.path) == (
                    'DELETE', f'/volumes/{mine["id"]}'):
                group = self.make('volume_groups', name='payroll', quota=0)
                made.append(self.stranger(
                    'volumes', mine['id'], name='payroll-data', size=GIB,
                    volume_group={'ref': f'/volume_groups/{group["id"]}'}))
                raise rest_errors.Unreachable('the connection broke')
            return reply

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            self.backend.delete_volume(self.volume)
        self.assertTrue(made)
        self.assert_untouched()
        self.assertEqual([], self.admin.list(
            'volume_groups', name=f'cvg-{self.volume.id}'))

    def test_extend_where_the_reply_is_lost(self) -> None:
        """The second request would grow the foreign volume."""
        mine = self.on_array('volumes', f'cv-{self.volume.id}')
        send = transport.Transport.exchange

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            if not self._records and (request.method, request.path) == (
                    'PATCH', f'/volumes/{mine["id"]}'):
                self.stranger_for(self.volume)
                raise rest_errors.Unreachable('the connection broke')
            return reply

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            self.assert_fails(self.backend.extend_volume, self.volume, 2)
        self.assertIn('its id is that of payroll-data now',
                      self.log.errors_text())

    def test_move_where_the_reply_is_lost(self) -> None:
        """Moving the volume back would move the foreign one instead."""
        self.use(self.protocol, 'sdp')
        self.switch(reuse_ids=True, sequences=self.sequences)
        volume = self.backend.create_volume(1)
        group = self.backend.create_group()
        mine = self.on_array('volumes', f'cv-{volume.id}')
        send = transport.Transport.exchange

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            if not self._records and (request.method, request.path) == (
                    'PATCH', f'/volumes/{mine["id"]}'):
                self.admin.delete('volumes', mine['id'])
                home = self.make('volume_groups', name='payroll', quota=0)
                self.stranger(
                    'volumes', mine['id'], name='payroll-data', size=GIB,
                    volume_group={'ref': f'/volume_groups/{home["id"]}'})
                raise rest_errors.Unreachable('the connection broke')
            return reply

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            self.assert_fails(lambda: self.backend.update_group(
                group, add=[volume]))
        self.assertTrue(self._records)

    def test_hide_where_the_reply_is_lost(self) -> None:
        """The second request would rename the foreign volume."""
        clone = self.backend.clone(self.volume)
        mine = self.on_array('volumes', f'cv-{self.volume.id}')
        send = transport.Transport.exchange

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            if not self._records and (request.method, request.path) == (
                    'PATCH', f'/volumes/{mine["id"]}'):
                for found in self.admin.list('volumes',
                                             name=f'cv-{clone.id}'):
                    self.admin.delete('volumes', found['id'])
                for name in (f'cv-{clone.id}', f'ccs-{clone.id}'):
                    for found in self.admin.list('snapshots',
                                                 short_name=name):
                        self.admin.delete('snapshots', found['id'])
                self.admin.delete('volumes', mine['id'])
                home = self.make('volume_groups', name='payroll', quota=0)
                self.stranger(
                    'volumes', mine['id'], name='payroll-data', size=GIB,
                    volume_group={'ref': f'/volume_groups/{home["id"]}'})
                raise rest_errors.Unreachable('the connection broke')
            return reply

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            why = self.assert_fails(self.backend.delete_volume, self.volume)
        self.assertIn('its id is that of payroll-data now', why)

    def test_the_group_of_a_move_that_was_cut_short(self) -> None:
        """The group is an empty foreign one by now."""
        mine = self.on_array('volumes', f'cv-{self.volume.id}')
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        row = self.backend.volume(self.volume.id)
        noted = json.loads(row.provider_id) | {'moving': True, 'shared': True}
        row.provider_id = json.dumps(noted)
        row.save()
        self.admin.delete('volumes', mine['id'])
        self.admin.delete('volume_groups', group['id'])
        self.stranger('volume_groups', group['id'], name='payroll', quota=0)
        self.backend.delete_volume(self.volume)
        self.assert_untouched()

    def test_renamed(self) -> None:
        """The error has both names, and nothing is deleted or mapped."""
        number = self.on_array('volumes', f'cv-{self.volume.id}')['id']
        self.admin.update('volumes', number, name='renamed')
        for operation in (
                self.backend.clone,
                lambda volume: self.backend.driver.initialize_connection(
                    volume, self.host()),
                lambda volume: self.backend.driver.extend_volume(volume, 2),
                self.backend.delete_volume):
            why = self.assert_fails(operation, self.volume)
            self.assertIn('renamed', why)
            self.assertIn(f'cv-{self.volume.id}', why)
        self.admin.update('volumes', number, name=f'cv-{self.volume.id}')

    def test_renamed_before_snapshots(self) -> None:
        """The same for operations that leave a row."""
        number = self.on_array('volumes', f'cv-{self.volume.id}')['id']
        self.admin.update('volumes', number, name='renamed')
        for operation in (
                self.backend.create_snapshot,
                lambda volume: self.backend.manage_snapshot(
                    volume, {'source-name': 'any'})):
            why = self.assert_fails(operation, self.volume)
            self.assertIn('renamed', why)
            self.assertIn(f'cv-{self.volume.id}', why)
        self.admin.update('volumes', number, name=f'cv-{self.volume.id}')

    def test_manage_where_the_reply_is_lost(self) -> None:
        """Restoring the old name would rename the foreign volume."""
        group = self.make('volume_groups', name='db', quota=0)
        volume = self.admin.create(
            'volumes', name='db-data', size=GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        send = transport.Transport.exchange

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            if not self._records and (request.method, request.path) == (
                    'PATCH', f'/volumes/{volume["id"]}'):
                self.admin.delete('volumes', volume['id'])
                self.stranger('volumes', volume['id'], name='payroll',
                              size=GIB, volume_group=volume['volume_group'])
                raise rest_errors.Unreachable('the connection broke')
            return reply

        with mock.patch.object(transport.Transport, 'exchange', exchange):
            self.assert_fails(self.backend.manage,
                              {'source-name': 'db-data'})
        self.assertTrue(self._records)

    def test_manage_what_another_has_by_then(self) -> None:
        group = self.make('volume_groups', name='db', quota=0)
        volume = self.admin.create(
            'volumes', name='db-data', size=GIB,
            volume_group={'ref': f'/volume_groups/{group["id"]}'})
        look = type(self.backend.side.array.inventory).examine_volume

        def examine(inventory: Any, found: Any) -> Any:
            self.admin.delete('volumes', volume['id'])
            self.stranger('volumes', volume['id'], name='payroll', size=GIB,
                          volume_group=volume['volume_group'])
            return look(inventory, found)
        with mock.patch.object(type(self.backend.side.array.inventory),
                               'examine_volume', examine):
            self.assert_fails(self.backend.manage,
                              {'source-name': 'db-data'})


class VolumeIdsOverFCTest(VolumeIdsTest):
    """Over Fibre Channel, on an SDP."""

    protocol = 'fc'
    profile = 'sdp'
    sequences = True


class MovingIdsTest(VolumeIdsTest):
    """A service was killed while it moved the volume between groups."""

    def setUp(self) -> None:
        super().setUp()
        self.mark_moving()

    def mark_moving(self) -> None:
        """Change the row to that of a volume that is being moved."""
        known = json.loads(self.volume.provider_id)
        self.volume.update({'provider_id': json.dumps(
            {**known, 'moving': True})})
        self.volume.save()

    def test_join_a_group(self) -> None:
        """The interrupted operation is repeated."""
        group = self.backend.create_group(
            consistent_group_snapshot_enabled='<is> True')
        self.stranger_for(self.volume)
        self.assertIn('no volume or view', self.assert_fails(
            lambda: self.backend.update_group(group, add=[self.volume])))
        self.backend.delete_group(group)


class ChapIdsTest(IdsTest):
    """The ids of CHAP profiles."""

    options = {'use_chap_auth': True}

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.connector = self.host()
        self.made: list[Any] = []

    def password(self, number: int) -> str:
        """Return the password of a profile, which the API does not show."""
        row, = [row for row in self.array.rows('host_auth_profiles')
                if row['id'] == number]
        return str(row['password'])

    def lose_reply(self, method: str) -> Any:
        """Lose a reply, after a foreign profile has taken the id."""
        send = transport.Transport.exchange

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            reply = send(connection, request, *args)
            number = request.path.rpartition('/')[2]
            if (not self.made and request.method == method and
                    request.path == f'/host_auth_profiles/{number}'):
                for host in self.admin.list('hosts'):
                    self.admin.update('hosts', host['id'],
                                      map_auth_profiles_names=None)
                if method != 'DELETE':
                    self.admin.delete('host_auth_profiles', int(number))
                self.made.append(self.stranger(
                    'host_auth_profiles', int(number), name='payroll',
                    type='CHAP', username='payroll', password='0' * 12))
                raise rest_errors.Unreachable('the connection broke')
            return reply
        return mock.patch.object(transport.Transport, 'exchange', exchange)

    def assert_as_made(self) -> None:
        made, = self.made
        self.assertEqual('0' * 12, self.password(made['id']))
        self.assertEqual([made['id']], [
            found['id'] for found in self.admin.list(
                'host_auth_profiles', name='payroll')])

    def test_delete(self) -> None:
        """The profile is deleted with the host, after its last volume."""
        attachment = self.backend.attach(self.volume, self.connector)
        with self.lose_reply('DELETE'):
            self.backend.detach(attachment)
        self.assert_as_made()
        self.assert_untouched()

    def test_password(self) -> None:
        """The new password of a host that stays, whose old one was lost."""
        host = self.admin.create('hosts', name='theirs', type='Linux')
        self.admin.create('host_iqns', iqn=self.connector['initiator'],
                          host={'ref': f'/hosts/{host["id"]}'})
        self.backend.detach(self.backend.attach(self.volume, self.connector))
        with database.engine().begin() as connection:
            connection.execute(sqlalchemy.text(
                'DELETE FROM driver_initiator_data'))
        with self.lose_reply('PATCH'):
            error = self.assert_fails(self.backend.attach, self.volume,
                                      self.connector)
        self.assertIn('its id is that of payroll now', error)
        self.assert_as_made()
        self._remove_hosts()

    def _remove_hosts(self) -> None:
        for resource in ('host_iqns', 'hosts'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])

    def test_profile_of_before(self) -> None:
        """The profile's id is foreign by the next attach, and by a detach."""
        attachment = self.backend.attach(self.volume, self.connector)
        mine, = self.admin.list('host_auth_profiles')
        for host in self.admin.list('hosts'):
            self.admin.update('hosts', host['id'],
                              map_auth_profiles_names=None)
        self.admin.delete('host_auth_profiles', mine['id'])
        self.made.append(self.stranger(
            'host_auth_profiles', mine['id'], name='payroll', type='CHAP',
            username='payroll', password='0' * 12))
        other = self.backend.create_volume(1)
        for each in (self.backend.attach(other, self.connector), attachment):
            self.backend.detach(each)
            self.assert_as_made()
        self.assert_untouched()


class SnapshotIdsTest(IdsTest):
    """The id of a snapshot."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.snapshot = self.backend.create_snapshot(self.volume)

    def test_delete(self) -> None:
        self.stranger_for_snapshot(self.snapshot)
        self.backend.delete_snapshot(self.snapshot)
        self.assert_untouched()

    def test_volume_from_it(self) -> None:
        self.stranger_for_snapshot(self.snapshot)
        self.assert_fails(self.backend.volume_from_snapshot, self.snapshot)

    def test_revert(self) -> None:
        self.stranger_for_snapshot(self.snapshot)
        self.assert_fails(self.backend.revert, self.volume, self.snapshot)

    def test_managed(self) -> None:
        """A managed snapshot keeps its name; its row has a digest of it."""
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        fields = {'is_auto_deleteable': False,
                  'retention_policy': self.policy(),
                  'source': {'ref': f'/volume_groups/{group["id"]}'}}
        made = self.admin.create('snapshots', short_name='ours', **fields)
        managed = self.backend.manage_snapshot(
            self.volume, {'source-name': 'ours'})
        self.admin.delete('snapshots', made['id'])
        self.stranger('snapshots', made['id'], short_name='theirs', **fields)
        self.assert_fails(self.backend.volume_from_snapshot, managed)
        self.backend.delete_snapshot(managed)
        self.assert_untouched()
        self.admin.delete('snapshots', made['id'])

    def _managed(self) -> tuple[Any, Any, dict[str, Any]]:
        """Manage a snapshot; return row, object and the object's fields."""
        self.backend.delete_snapshot(self.snapshot)
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        fields = {'is_auto_deleteable': False, 'short_name': 'nightly',
                  'retention_policy': self.policy(),
                  'source': {'ref': f'/volume_groups/{group["id"]}'}}
        made = self.admin.create('snapshots', **fields)
        return self.backend.manage_snapshot(
            self.volume, {'source-name': 'nightly'}), made, fields

    def test_managed_in_a_group_that_is_anothers_by_now(self) -> None:
        """The foreign snapshot has the same id and the same short name."""
        row, made, fields = self._managed()
        self.admin.delete('snapshots', made['id'])
        self.stranger_for(self.volume)
        self.stranger('snapshots', made['id'], **fields)
        for operation in (
                self.backend.volume_from_snapshot,
                lambda row: self.backend.revert(self.volume, row),
                lambda row: self.backend.driver
                .initialize_connection_snapshot(row, self.host())):
            self.assert_fails(operation, row)
        self.backend.delete_snapshot(row)
        self.assert_untouched()
        self.assertEqual([made['id']], [
            each['id'] for each in self.admin.list('snapshots')])
        self.admin.delete('snapshots', made['id'])

    def test_managed_in_a_group_that_was_renamed(self) -> None:
        """VG-9: the snapshot, whose name follows, is still recognized."""
        row, made, _ = self._managed()
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        self.admin.update('volume_groups', group['id'], name='renamed')
        self.backend.delete_volume(self.backend.volume_from_snapshot(row))
        self.backend.delete_snapshot(row)
        self.assertEqual([], self.admin.list('snapshots', id=made['id']))
        self.admin.update('volume_groups', group['id'], name=group['name'])

    def _managed_before(self) -> tuple[Any, Any, dict[str, Any]]:
        """Manage a snapshot as before rows had digests of names.

        :returns: its row, the array's object, and the object's fields
        """
        group = self.on_array('volume_groups', f'cvg-{self.volume.id}')
        fields = {'is_auto_deleteable': False,
                  'retention_policy': self.policy(),
                  'source': {'ref': f'/volume_groups/{group["id"]}'}}
        made = self.admin.create('snapshots', short_name='ours', **fields)
        row = self.backend.manage_snapshot(
            self.volume, {'source-name': 'ours'})
        noted = json.loads(row.provider_id)
        del noted['named']
        row.update({'provider_id': json.dumps(noted)})
        row.save()
        return row, made, fields

    def test_managed_before_digests(self) -> None:
        """A snapshot older than its row is right; its digest is stored."""
        row, made, _ = self._managed_before()
        self.backend.delete_volume(self.backend.volume_from_snapshot(row))
        self.assertEqual(naming.digest('ours'), json.loads(
            self.backend.snapshot(row.id).provider_id)['named'])
        self.backend.delete_snapshot(row)
        self.assertEqual([], self.admin.list('snapshots', id=made['id']))

    def test_managed_before_digests_and_deleted(self) -> None:
        row, made, _ = self._managed_before()
        self.backend.delete_snapshot(row)
        self.assertEqual([], self.admin.list('snapshots', id=made['id']))

    def test_managed_before_digests_and_anothers_by_now(self) -> None:
        """Objects younger than the row are neither shown nor deleted."""
        row, made, fields = self._managed_before()
        self.admin.delete('snapshots', made['id'])
        self.clock.sleep(60)
        self.stranger('snapshots', made['id'], short_name='theirs', **fields)
        for operation in (self.backend.volume_from_snapshot,
                          lambda row: self.backend.revert(self.volume, row),
                          self.backend.delete_snapshot):
            self.assert_fails(operation, row)
            text = self.log.errors_text()
            self.assertIn('is called theirs', text)
            self.assertIn('manage it again', text)
        self._unmanage(row)
        self.admin.delete('snapshots', made['id'])

    def test_managed_before_digests_by_an_array_that_tells_no_time(
            self) -> None:
        row, made, _ = self._managed_before()
        with odd.with_replies('snapshots', lambda data: odd.changed(
                data, 'creation_time', odd.MISSING)):
            self.assert_fails(self.backend.delete_snapshot, row)
        self.assertTrue(self.admin.list('snapshots', id=made['id']))
        self._unmanage(row)
        self.backend.delete_snapshot(self.backend.manage_snapshot(
            self.volume, {'source-name': 'ours'}))

    def _unmanage(self, snapshot: Any) -> None:
        """Unmanage a snapshot that could not be deleted, as the error says."""
        snapshot.refresh()
        snapshot.update({'status': 'available'})
        snapshot.save()
        self.backend.unmanage_snapshot(snapshot)

    def test_what_was_hidden(self) -> None:
        """A live snapshot has the id of a deleted one that a note names."""
        clone = self.backend.volume_from_snapshot(self.snapshot)
        mine, = self.admin.list(
            'snapshots', short_name=f'cs-{self.snapshot.id}')
        self.backend.delete_snapshot(self.snapshot)
        view, = self.admin.list('snapshots', short_name=f'cv-{clone.id}')
        for number in (view['id'], mine['id']):
            self.admin.delete('snapshots', number)
        other = self.backend.create_snapshot(self.volume)
        found, = self.admin.list('snapshots', short_name=f'cs-{other.id}')
        self.assertEqual(mine['id'], found['id'])
        self.backend.delete_volume(clone)
        self.assertEqual([found], self.admin.list(
            'snapshots', short_name=f'cs-{other.id}'))


class HostIdsTest(IdsTest):
    """The ids of a host, of its initiators and of mappings."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)
        self.resource, self.field = {
            'iscsi': ('host_iqns', 'iqn'),
            'fc': ('host_fc_ports', 'pwwn')}[self.protocol]

    def initiator(self, host: Any) -> Any:
        """Return an initiator of a host."""
        return {'iscsi': host['initiator'],
                'fc': host['wwpns'][0]}[self.protocol]

    def take_ids(self, initiator: Any) -> None:
        """Replace the host by a foreign one with its id and an initiator."""
        mine, = self.admin.list('hosts')
        for resource in ('mappings', self.resource, 'hosts'):
            for found in self.admin.list(resource):
                self.admin.delete(resource, found['id'])
        self.stranger('hosts', mine['id'], name='mainframe', type='Linux')
        self.stranger(self.resource, None, **{
            self.field: initiator,
            'host': {'ref': f'/hosts/{mine["id"]}'}})

    def lose_reply(self, method: str, path: str, *, sent: bool,
                   refused: bool = False) -> Any:
        """Lose a reply, after a foreign host has taken the ids.

        :param sent: the array carries out the request first
        :param refused: the request is refused instead
        """
        send = transport.Transport.exchange
        theirs = self.host()

        def exchange(connection: Any, request: Any, *args: Any) -> bytes:
            if (self._records or request.method != method
                    or not request.path.startswith(path)):
                return send(connection, request, *args)
            if sent:
                send(connection, request, *args)
            self.take_ids(self.initiator(theirs))
            if refused:
                raise rest_errors.Forbidden('no')
            raise rest_errors.Unreachable('the connection broke')
        return mock.patch.object(transport.Transport, 'exchange', exchange)

    def test_a_host_that_is_left_empty(self) -> None:
        """The host that the driver created is a foreign one by now."""
        host = self.host()
        self.backend.detach(self.backend.attach(self.volume, host))
        attachment = self.backend.attach(self.volume, host)
        self.take_ids(self.initiator(host))
        self.backend.detach(attachment)
        self.assert_untouched()

    def test_attach_where_the_reply_is_lost(self) -> None:
        """The second request would map the volume to a foreign host."""
        with self.lose_reply('POST', '/mappings', sent=True):
            why = self.assert_fails(self.backend.attach, self.volume,
                                    self.host())
        self.assertTrue(self._records)
        self.assertIn('does not have id', why)

    def test_attach_where_the_reply_about_initiators_is_lost(self) -> None:
        """The second request would assign them to a foreign host."""
        with self.lose_reply('POST', f'/{self.resource}', sent=False):
            self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assertTrue(self._records)

    def test_attach_that_is_refused(self) -> None:
        """The undo would affect a foreign host."""
        with self.lose_reply('POST', '/mappings', sent=False, refused=True):
            self.assert_fails(self.backend.attach, self.volume, self.host())
        self.assertTrue(self._records)

    def test_detach_where_the_reply_is_lost(self) -> None:
        """After its initiators, the host is not deleted by its id."""
        attachment = self.backend.attach(self.volume, self.host())
        with self.lose_reply('DELETE', f'/{self.resource}', sent=True):
            self.backend.detach(attachment)
        self.assertTrue(self._records)
        self.assert_untouched()


class HostIdsOverFCTest(HostIdsTest):
    """Over Fibre Channel, on an SDP."""

    protocol = 'fc'
    profile = 'sdp'
    sequences = True


class ReplicationIdsTest(IdsTest, replicated.ReplicatedTest):
    """The ids of a volume that is to be replicated."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.create_volume(1)

    def test_retype(self) -> None:
        self.stranger_for(self.volume)
        self.assert_fails(lambda: self.backend.retype(
            self.volume, **replicated.REPLICATED))
        self.assertEqual([], self.admin.list('replication/sessions'))
