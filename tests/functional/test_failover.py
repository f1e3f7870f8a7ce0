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

"""Failover to another array, and failback."""

from typing import Any
from unittest import mock

from cinder import exception
from cinder import objects
import ddt

from tests import arrays
from tests.functional import backend
from tests.functional import base
from tests.functional import replicated

REPLICATED_GROUP = {'consistent_group_replication_enabled': '<is> True'}
EACH_REPLICATED = {'group_replication_enabled': '<is> True'}

# Cinder's requirements for the types of volumes in such groups.
CAPABLE = {'replication_enabled': '<is> True'}


class FailoverTest(replicated.ReplicatedTest):
    """Helpers."""

    # Fewer retries to a lost array.
    options = {'k2_retry_timeout': 20}

    def fails_over(self, target: str | None = replicated.TARGET) -> Any:
        """Fail the back end over; return the row of the service."""
        service = self.backend.fail_over(target)
        self.assertEqual(
            ('failed-over', replicated.TARGET, True, 'failed-over'),
            (service.replication_status, service.active_backend_id,
             service.disabled, service.disabled_reason),
            self.log.errors_text())
        return service

    def fails_back(self) -> Any:
        """Fail the back end back; return the row of the service."""
        service = self.backend.fail_back()
        self.assertEqual(
            ('enabled', '', False),
            (service.replication_status, service.active_backend_id,
             service.disabled), self.log.errors_text())
        return service

    def assert_row(self, row: Any, replication: str, status: str,
                   array: arrays.Served | None = None, why: str = '') -> None:
        """Check the status in a volume's row, and the array that it names."""
        row.refresh()
        self.assertEqual((replication, status),
                         (row.replication_status, row.status),
                         row.replication_extended_status)
        extended = row.replication_extended_status or ''
        if why:
            self.assertIn(why, extended)
        else:
            self.assertEqual('', extended)
        if array is not None:
            self.assertIs(array, self.holder(row))

    def is_mapped(self, row: Any, array: arrays.Served) -> bool:
        """Return whether a volume is mapped on an array."""
        names = (f'cv-{row.name_id}', f'rcv-{row.name_id}')
        refs = {f'/volumes/{v["id"]}' for v in array.admin.list('volumes')
                if v['name'] in names}
        return any(m['volume']['ref'] in refs
                   for m in array.admin.list('mappings'))

    def targets_of(self, attachment: Any) -> str:
        """Return the targets in the connection properties, as text."""
        data = attachment.connection_info
        return str(data.get('target_iqn') or data['target_iqns']
                   if self.protocol == 'iscsi' else data['target_wwn'])


@base.pairwise_variants
class EverywhereTest(FailoverTest):
    """A disaster from beginning to end."""

    feature = 'failover'

    def test_a_disaster(self) -> None:
        """The primary array dies; cinder-volume restarts without it."""
        volume, other = self.replicated(), self.replicated()
        attachment = self.backend.attach(volume, connector := self.host())
        self.write(volume, 'first')
        self.pass_time()
        self.write(volume, 'too late')
        with self.lost(self.primary):
            self.fails_over()
            self.assert_row(volume, 'failed-over', 'in-use', self.secondary)
            self.assertEqual('first', self.read(volume))
            before = self.clock.slept
            self.assertTrue(self.backend.restart(), self.log.errors_text())
            self.assertEqual(before, self.clock.slept)
            self.assertEqual('up', self.backend.stats()['backend_state'])
            self.backend.detach(attachment)
            again = self.backend.attach(volume, connector)
            self.assertNotEqual(self.targets_of(attachment),
                                self.targets_of(again))
            self.assertTrue(self.is_mapped(volume, self.secondary))
            self.write(volume, 'second')
            self.backend.delete_volume(other)
        self.assertTrue(self.is_mapped(volume, self.primary))
        self.backend.detach(again)
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)
        self.assertFalse(self.is_mapped(volume, self.primary))
        self.assertEqual('second', self.read(volume))
        self.backend.detach(self.backend.attach(volume, connector))
        self.backend.delete_volume(volume)
        self.clear(self.primary, other)

    def test_every_operation_on_the_secondary(self) -> None:
        volume = self.replicated()
        with self.lost(self.primary):
            self.fails_over()
            self.assertTrue(self.backend.restart())
            self.backend.enable()
            made = self.uses_everything(volume)
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)
        for row in made:
            self.assertIs(self.secondary, self.holder(row))
            self.backend.detach(self.backend.attach(row, self.host()))

    def uses_everything(self, volume: Any) -> list[Any]:
        """Use all of Cinder's operations; return the created volumes."""
        k2 = self.backend
        plain = k2.create_volume(1)
        snapshot = k2.create_snapshot(plain)
        k2.delete_snapshot(k2.create_snapshot(volume))
        made = [plain, k2.volume_from_snapshot(snapshot), k2.clone(plain),
                k2.clone(k2.clone(plain))]
        k2.extend_volume(plain, 2)
        k2.extend_volume(volume, 2)
        k2.detach(k2.attach(plain, self.host()))
        k2.force_detach(k2.volume(k2.attach(plain, self.host()).volume_id))
        k2.retype(made[2], other='type')
        admin = self.secondary.admin
        foreign = k2.create_volume(1)
        k2.unmanage(foreign)
        name = f'cv-{foreign.id}'
        self.assertIn({'source-name': name}, [
            found['reference'] for found in k2.manageable()])
        made.append(k2.manage({'source-name': name}))
        k2.unmanage_snapshot(snapshot)
        snapshot = k2.manage_snapshot(plain, {
            'source-id': self.ids_of(admin, 'snapshots', 'cs-')[0]})
        group = k2.create_group()
        k2.create_volume(1, group=group)
        k2.update_group(group, add=[k2.create_volume(1)])
        k2.delete_group_snapshot(k2.create_group_snapshot(group))
        return made

    def ids_of(self, admin: Any, resource: str, prefix: str) -> list[int]:
        """Return the ids of objects whose names have this prefix."""
        return [row['id'] for row in admin.list(resource)
                if row.get('short_name', row['name']).startswith(prefix)]

    def test_three_times(self) -> None:
        volume = self.replicated()
        for number in range(3):
            self.write(volume, f'home {number}')
            self.pass_time()
            self.fails_over(None)
            self.assertEqual(f'home {number}', self.read(volume))
            self.write(volume, f'away {number}')
            self.fails_back()
            self.assert_row(volume, 'enabled', 'available', self.primary)
            self.assertEqual(f'away {number}', self.read(volume))
            self.assertEqual({
                f'ssn-{volume.id}': ('source', 'in_sync'),
                f'rssn-{volume.id}': ('target', 'in_sync')}, self.sessions())


@ddt.ddt
class TargetsTest(FailoverTest):
    """Where a failover may go."""

    def test_a_name_that_nobody_has(self) -> None:
        volume = self.replicated()
        service = self.backend.fail_over('mars')
        self.assertEqual(('enabled', '', False), (
            service.replication_status, service.active_backend_id or '',
            service.disabled))
        text = self.log.errors_text()
        self.assertIn('mars is no backend_id of a replication_device', text)
        self.assertIn(f'use one of: {replicated.TARGET}', text)
        self.assertNotIn('Traceback', text)
        self.assert_row(volume, 'enabled', 'available', self.primary)
        self.fails_over()

    def test_a_back_end_without_targets(self) -> None:
        self.own('iscsi', replication_device=None)
        for target in (None, replicated.TARGET, 'default'):
            error = self.assertRaises(
                exception.InvalidReplicationTarget,
                self.backend.driver.failover_host, None, [], target, [])
            self.assertIn('no replication_device', str(error))

    def test_home_already(self) -> None:
        """"default" is accepted, and changes nothing."""
        volume = self.replicated()
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_the_primary_under_another_name(self) -> None:
        """The primary cannot be its own target."""
        self.own('iscsi', replication_device=self.device(
            san_ip='localhost', port=self.primary.port))
        volume = self.backend.create_volume()
        service = self.backend.fail_over()
        self.assertEqual(('enabled', '', False), (
            service.replication_status, service.active_backend_id or '',
            service.disabled))
        self.assertIn(f'the array at localhost:{self.primary.port} is that '
                      f'at 127.0.0.1:{self.primary.port}; correct '
                      'replication_device', self.log.errors_text())
        self.assertIs(self.primary, self.holder(volume))

    def test_a_type_that_names_the_array_that_serves(self) -> None:
        """Volumes created there are replicated to the primary."""
        self.fails_over()
        self.backend.enable()
        volume = self.replicated(
            kaminario__replication_target=replicated.TARGET)
        self.assert_replicated(volume)
        self.assertIs(self.secondary, self.holder(volume))
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_the_target_is_lost(self) -> None:
        """Nothing changes, and the failover can be repeated later."""
        volume = self.replicated()
        with self.lost(self.secondary):
            for target in (replicated.TARGET, None):
                service = self.backend.fail_over(target)
                self.assertEqual(('enabled', '', False), (
                    service.replication_status,
                    service.active_backend_id or '', service.disabled))
                self.assert_row(volume, 'enabled', 'available', self.primary)
            self.assertIn(f'127.0.0.1:{self.secondary.port}',
                          self.log.errors_text())
            self.backend.delete_snapshot(
                self.backend.create_snapshot(volume))
        self.fails_over()

    def test_of_two_targets_the_one_with_most_volumes(self) -> None:
        self.own('iscsi', replication_device=self.device(
            backend_id='spare', san_ip='127.0.0.2', port=1)
            + f'\nreplication_device = {self.device()}')
        self.assertEqual(['spare', replicated.TARGET],
                         self.backend.driver._arrays.targets)
        volume = self.replicated(
            kaminario__replication_target=replicated.TARGET)
        self.fails_over(None)
        self.assert_row(volume, 'failed-over', 'available', self.secondary)
        self.assertIn('Replication target spare does not answer',
                      self.log.errors_text())
        service = self.backend.fail_over('spare')
        self.assertEqual(('failed-over', replicated.TARGET), (
            service.replication_status, service.active_backend_id))
        service = self.backend.fail_over(None)
        self.assertEqual(replicated.TARGET, service.active_backend_id)
        self.assertIn(f'was failed over to {replicated.TARGET}',
                      self.log.errors_text())
        self.fails_back()

    def test_a_target_that_is_configured_no_more(self) -> None:
        volume = self.replicated()
        self.fails_over()
        service = self.backend.service()
        service.active_backend_id = 'old-site'
        service.save()
        self.assertFalse(self.backend.restart())
        service.active_backend_id = replicated.TARGET
        service.save()
        self.assertTrue(self.backend.restart())
        self.assertIn('The back end was failed over to old-site, but section '
                      f'[{self.backend.name}] of cinder.conf has no '
                      'replication_device with that backend_id',
                      self.log.errors_text())
        self.assertIs(self.secondary, self.holder(volume))

    def test_the_primary_is_dead_at_the_start(self) -> None:
        """The service starts nevertheless, and can fail over."""
        volume = self.replicated()
        with self.lost(self.primary):
            self.assertTrue(self.backend.restart())
            self.assertIn('fail over to one of', self.log.errors_text())
            self.assertEqual('down', self.backend.stats()['backend_state'])
            self.fails_over()
            self.assertEqual('up', self.backend.stats()['backend_state'])
            self.assert_row(volume, 'failed-over', 'available',
                            self.secondary)
        self.fails_back()

    def test_a_row_that_was_read_before_the_failover(self) -> None:
        """A host gets the volume from the array that now has it."""
        volume = self.replicated()
        read_before = self.backend.volume(volume.id)
        self.fails_over()
        driver, host = self.backend.driver, self.host()
        driver.initialize_connection(read_before, host)
        self.assertFalse(self.is_mapped(volume, self.primary))
        self.assertTrue(self.is_mapped(volume, self.secondary))
        driver.terminate_connection(read_before, host)
        self.assertFalse(self.is_mapped(volume, self.secondary))
        self.fails_back()


@ddt.ddt
class LeftBehindTest(FailoverTest):
    """Volumes that cannot be moved are never reported as moved."""

    def test_plain_volumes(self) -> None:
        """Plain volumes stay on the primary; Cinder sets them to error."""
        plain, volume = self.backend.create_volume(1), self.replicated()
        self.fails_over()
        self.assert_row(plain, 'not-capable', 'error', self.primary)
        self.assert_row(volume, 'failed-over', 'available', self.secondary)
        self.fails_back()
        self.assert_row(plain, 'not-capable', 'error', self.primary)

    @ddt.data(True, False)
    def test_rows_without_a_status(self, known: bool) -> None:
        """Old rows, which Cinder does not tell from replicated volumes."""
        plain, volume = self.backend.create_volume(1), self.replicated()
        plain.update({'replication_status': None, **(
            {} if known else {'provider_id': None})})
        plain.save()
        self.fails_over()
        plain.refresh()
        self.assertEqual(('failover-error', 'error'),
                         (plain.replication_status, plain.status))
        self.fails_back()
        plain.refresh()
        self.assertEqual(('disabled', 'available', None), (
            plain.replication_status, plain.status,
            plain.replication_extended_status))
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_the_database_fails(self) -> None:
        """Rows are saved early only in case Cinder cannot do so later."""
        volumes = [self.replicated() for _ in range(2)]
        with mock.patch.object(
                objects.Volume, 'conditional_update', autospec=True,
                side_effect=exception.CinderException('disk full')) as save:
            self.fails_over()
        self.assertEqual(2, save.call_count)
        for volume in volumes:
            self.assert_row(volume, 'failed-over', 'available',
                            self.secondary)
            self.assertIn(f'The row of volume {volume.id} was not changed: '
                          'disk full', self.log.errors_text())
        self.fails_back()

    def test_an_idle_session(self) -> None:
        """The failover fails with a reason; a later one succeeds."""
        volume, other = self.replicated(), self.replicated()
        self.command(self.primary, volume, 'suspended')
        self.command(self.primary, volume, 'idle')
        self.fails_over()
        self.assert_row(volume, 'failover-error', 'error', self.primary,
                        'is idle as target')
        self.assert_row(other, 'failed-over', 'available', self.secondary)
        self.assertIn(f'Volume {volume.id}: ', self.log.errors_text())
        self.command(self.primary, volume, 'in_sync')
        self.fails_over()
        self.assert_row(volume, 'failed-over', 'available', self.secondary)
        self.assert_row(other, 'failed-over', 'available', self.secondary)
        self.fails_back()
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def command(self, array: arrays.Served, row: Any, state: str) -> None:
        """An administrator's command to a session."""
        for one in array.admin.list('replication/sessions'):
            if one['name'].endswith(row.id):
                array.admin.update('replication/sessions', one['id'],
                                   name=one['name'], state=state)

    def test_a_session_that_is_missing_there(self) -> None:
        volume, other = self.replicated(), self.replicated()
        snapshot = self.backend.create_snapshot(volume)
        self.command(self.primary, volume, 'suspended')
        self.command(self.primary, volume, 'idle')
        found, = self.secondary.admin.list('replication/sessions',
                                           name=f'rssn-{volume.id}')
        self.secondary.admin.delete('replication/sessions', found['id'])
        self.fails_over()
        self.assert_row(volume, 'failover-error', 'error', self.primary,
                        'has no replication session')
        snapshot.refresh()
        self.assertEqual('error', snapshot.status)
        self.assert_row(other, 'failed-over', 'available', self.secondary)
        self.fails_back()
        # The volume is on the primary with its data, but not replicated.
        self.assert_row(volume, 'error', 'available', self.primary,
                        'is idle as source')
        self.assert_row(other, 'enabled', 'available', self.primary)

    def test_a_session_that_an_administrator_suspended(self) -> None:
        volume = self.replicated()
        self.write(volume, 'first')
        self.pass_time()
        self.command(self.primary, volume, 'suspended')
        self.write(volume, 'second')
        self.pass_time()
        self.fails_over()
        self.assert_row(volume, 'failed-over', 'available', self.secondary)
        self.assertEqual('first', self.read(volume))
        self.fails_back()

    def test_a_volume_that_is_missing_there(self) -> None:
        volume = self.replicated()
        found, = self.secondary.admin.list('volumes', name=f'rcv-{volume.id}')
        self.secondary.admin.update('volumes', found['id'], name='else')
        self.fails_over()
        self.assert_row(volume, 'failover-error', 'error', self.primary,
                        f'has no replicated volume cv-{volume.id}')
        self.secondary.admin.update('volumes', found['id'],
                                    name=f'rcv-{volume.id}')

    def test_operations_on_what_was_left(self) -> None:
        """Operations on it go to the array that it is on."""
        plain = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(plain)
        volume = self.replicated()
        of_volume = self.backend.create_snapshot(volume)
        self.fails_over()
        for row in (plain, snapshot):
            row.update({'status': 'available'})
            row.save()
        attachment = self.backend.attach(plain, self.host())
        self.assertTrue(self.is_mapped(plain, self.primary))
        self.backend.detach(attachment)
        for make, row in ((self.backend.clone, plain),
                          (self.backend.volume_from_snapshot, snapshot),
                          (self.backend.volume_from_snapshot, of_volume)):
            failure = self.assertRaises(backend.OperationFailed, make, row)
            self.assertIn('fail the back end over to that array, or back',
                          str(failure.cause))
            self.backend.delete_volume(failure.row)
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.revert, volume, of_volume)
        self.assertIn(f'not on that at 127.0.0.1:{self.secondary.port}',
                      str(failure.cause))
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_snapshot(of_volume)
        self.backend.delete_volume(plain)

    def test_a_failover_that_breaks_off(self) -> None:
        """The commands are carried out, but their result is lost."""
        volume = self.replicated()
        self.secondary.control.add_fault(
            {'kind': 'reset', 'method': 'PATCH', 'path': '*',
             'commit': 'after', 'times': 1})
        self.secondary.control.add_fault(
            {'kind': 'reset', 'method': 'GET', 'path': 'replication/*',
             'after': 1, 'times': 500})
        service = self.backend.fail_over()
        self._calm()
        self.assertNotEqual('failed-over', service.replication_status)
        self.fails_over()
        self.assert_row(volume, 'failed-over', 'available', self.secondary)


@ddt.ddt
class FailbackTest(FailoverTest):
    """Volumes fail back, all together or one by one."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.replicated()
        self.write(self.volume, 'first')
        self.pass_time()

    def test_hosts(self) -> None:
        """Only the driver's hosts are deleted with their last mapping."""
        foreign = [array.admin.create('hosts', name='foreign', type='Linux')
                   for array in (self.primary, self.secondary)]
        here = self.backend.attach(self.volume, connector := self.host())
        self.fails_over()
        self.backend.detach(here)
        self.assertEqual([], self.secondary.admin.list('mappings'))
        self.assertEqual(2, len(self.primary.admin.list('hosts')))
        attachment = self.backend.attach(self.volume, connector)
        ids = self.ids(self.volume)
        self.secondary.admin.create(
            'mappings', volume={'ref': f'/volumes/{ids["volume"]}'},
            host={'ref': f'/hosts/{foreign[1]["id"]}'})
        self.fails_back()
        for array, host in zip((self.primary, self.secondary), foreign,
                               strict=True):
            self.assertEqual([], array.admin.list('mappings'))
            self.assertEqual([host['id']], [
                found['id'] for found in array.admin.list('hosts')])
            array.admin.delete('hosts', host['id'])
        self.backend.detach(attachment)

    def test_mappings_that_stay_listed(self) -> None:
        """QRY-10: the failback waits until they are no longer listed."""
        for array in (self.primary, self.secondary):
            array.control.set_behaviors(linger_seconds=30.0, linger_all=True)
            self.addCleanup(array.control.set_behaviors, linger_seconds=0.0,
                            linger_all=False)
        other, connector = self.replicated(), self.host()
        self.pass_time()
        for _ in range(2):
            self.fails_over()
            attachment = self.backend.attach(self.volume, connector)
            before = self.clock.slept
            self.fails_back()
            self.assertLess(self.clock.slept - before, 120)
            for row in (self.volume, other):
                self.assertIs(self.primary, self.holder(row))
                self.assert_replicated(row)
            self.backend.detach(attachment)
        # While a mapping stays listed, its host and volume are not deleted.
        self.clock.sleep(60)
        for array in (self.primary, self.secondary):
            for resource in ('host_iqns', 'host_fc_ports', 'hosts'):
                for found in array.admin.list(resource):
                    array.admin.delete(resource, found['id'])

    def test_grown_away(self) -> None:
        """The volume on the primary is extended before it gets the data."""
        with self.lost(self.primary):
            self.fails_over()
            self.backend.extend_volume(self.volume, 3)
            self.write(self.volume, 'grown')
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('grown', self.read(self.volume))
        found, = self.primary.admin.list('volumes',
                                         name=f'cv-{self.volume.id}')
        self.assertEqual(3 << 20, found['size'])
        self.backend.extend_volume(self.volume, 4)

    def test_an_array_that_grows_no_copy(self) -> None:
        """VOL-4 as written: the copy has to be created again."""
        self.switch(grow_suspended=False)
        with self.lost(self.primary):
            self.fails_over()
            self.backend.extend_volume(self.volume, 3)
            self.write(self.volume, 'grown')
        self.backend.fail_back()
        self.assert_row(self.volume, 'error', 'available', self.secondary,
                        'Turn its replication off and on again')
        self.backend.retype(self.volume)
        self.backend.retype(self.volume, **replicated.REPLICATED)
        self.pass_time()
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('grown', self.read(self.volume))

    def test_a_volume_of_another_name(self) -> None:
        """A renamed volume cannot be unmapped, so it does not fail back."""
        self.fails_over()
        attachment = self.backend.attach(self.volume, self.host())
        number = self.ids(self.volume)['volume']
        self.secondary.admin.update('volumes', number, name='else')
        self.write(self.volume, 'second')
        self.fails_back()
        self.assert_row(self.volume, 'error', 'in-use', self.secondary,
                        f'has no replicated volume cv-{self.volume.id}')
        self.assertEqual('second', self.read(self.volume))
        # The id may belong to another volume, so it is not used.
        error = self.assertRaises(
            exception.VolumeBackendAPIException, self.backend.detach,
            attachment)
        self.assertIn('is called else now', str(error))
        self.secondary.admin.update('volumes', number,
                                    name=f'rcv-{self.volume.id}')
        self.backend.detach(attachment)
        self.assertEqual([], self.secondary.admin.list('mappings'))
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)

    def test_too_slow(self) -> None:
        """Volumes that are not ready in time stay, and fail back later."""
        self.use('iscsi', k2_failback_timeout=100)
        slow, quick = self.replicated(), self.replicated()
        self.pass_time()
        self.fails_over()
        self.write(slow, 'second')
        self.secondary.control.set_behaviors(snapshot_seconds=5000)
        self.addCleanup(self.secondary.control.set_behaviors,
                        snapshot_seconds=0)
        service = self.backend.fail_back()
        self.assertEqual(('enabled', ''), (service.replication_status,
                                           service.active_backend_id))
        for row in (slow, quick):
            self.assert_row(row, 'error', 'available', self.secondary,
                            'seconds it is not ready')
        self.assertEqual('second', self.read(slow))
        self.backend.detach(self.backend.attach(slow, self.host()))
        self.secondary.control.set_behaviors(snapshot_seconds=0)
        self.pass_time(6000)
        self.fails_back()
        for row in (slow, quick):
            self.assert_row(row, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(slow))

    def test_progress(self) -> None:
        self.fails_over()
        self.secondary.control.set_behaviors(snapshot_seconds=300)
        self.addCleanup(self.secondary.control.set_behaviors,
                        snapshot_seconds=0)
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertIn('0 of 1 volumes or groups have arrived',
                      self.log.text())

    def test_made_away(self) -> None:
        """Replicated ones need the primary, and fail back; plain ones stay."""
        with self.lost(self.primary):
            self.fails_over()
            plain = self.backend.create_volume(1)
            failure = self.assertRaises(backend.OperationFailed,
                                        self.replicated)
            self.backend.delete_volume(failure.row)
        made = self.replicated()
        self.assertEqual({'source', 'target'}, {
            role for name, (role, state) in self.sessions().items()
            if made.id in name and state == 'in_sync'})
        self.write(made, 'made away')
        self.fails_back()
        for row, array in ((self.volume, self.primary), (made, self.primary),
                           (plain, self.secondary)):
            self.assertIs(array, self.holder(row))
        self.assertEqual('made away', self.read(made))
        self.backend.extend_volume(made, 2)
        self.backend.extend_volume(plain, 2)
        self.fails_over()
        self.assert_row(made, 'failed-over', 'available', self.secondary)
        self.assertEqual('made away', self.read(made))
        self.backend.delete_volume(made)

    def test_snapshots_of_both_arrays(self) -> None:
        """Snapshots stay on their array, and can be deleted there."""
        home = [self.backend.create_snapshot(self.volume) for _ in range(3)]
        self.fails_over()
        away = [self.backend.create_snapshot(self.volume) for _ in range(3)]
        self.backend.delete_snapshot(home[0])
        self.backend.delete_snapshot(away[0])
        self.fails_back()
        self.assertEqual('first', self.read(self.volume))
        self.backend.delete_snapshot(home[1])
        self.backend.delete_snapshot(away[1])
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.volume_from_snapshot,
            away[2])
        self.assertIn('fail the back end over to that array',
                      str(failure.cause))
        self.backend.delete_volume(failure.row)
        self.backend.delete_volume(self.volume, cascade=True)
        self.assertNothingLeft()

    def test_a_snapshot_on_an_array_that_is_lost(self) -> None:
        """The deletion fails with a clear error, and the snapshot stays."""
        snapshot = self.backend.create_snapshot(self.volume)
        with self.lost(self.primary):
            self.fails_over()
            failure = self.assertRaises(
                backend.OperationFailed, self.backend.delete_snapshot,
                snapshot)
            self.assertEqual('error_deleting', failure.status)
            self.assertIn(f'127.0.0.1:{self.primary.port}',
                          str(failure.cause))
        self.fails_back()
        self.backend.delete_snapshot(snapshot)

    def test_ended_away(self) -> None:
        """If a retype ends the replication, the volume stays there."""
        other = self.replicated()
        with self.lost(self.primary):
            self.fails_over()
            self.backend.retype(self.volume)
            self.assert_row(self.volume, 'disabled', 'available',
                            self.secondary)
        self.backend.retype(other)
        self.clear(self.primary, self.volume)
        self.assert_left(volumes=2, volume_groups=2)
        self.fails_back()
        for row in (self.volume, other):
            self.assert_row(row, 'disabled', 'available', self.secondary)
            self.backend.extend_volume(row, 2)

    def test_begun_again_away(self) -> None:
        """Volumes replicated again on the secondary fail back, too."""
        self.fails_over()
        self.backend.retype(self.volume)
        self.backend.retype(self.volume, **replicated.REPLICATED)
        self.assert_row(self.volume, 'enabled', 'available', self.secondary)
        self.write(self.volume, 'second')
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(self.volume))

    def test_the_primary_is_lost_still(self) -> None:
        """Nothing changes; it can be retried."""
        self.fails_over()
        with self.lost(self.primary):
            service = self.backend.fail_back()
            self.assertEqual(('failed-over', replicated.TARGET), (
                service.replication_status, service.active_backend_id))
            self.assert_row(self.volume, 'failed-over', 'available',
                            self.secondary)
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)

    def test_the_link_is_cut(self) -> None:
        self.fails_over()
        self.primary.control.cut_link()
        self.backend.fail_back()
        self.assert_row(self.volume, 'error', 'available', self.secondary,
                        'replication')
        self.write(self.volume, 'second')
        self.primary.control.restore_link()
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(self.volume))

    def test_the_secondary_dies_before_the_failback(self) -> None:
        """Volumes that cannot fail back stay, and their rows say so."""
        self.fails_over()
        with self.lost(self.secondary):
            self.backend.fail_back()
            self.assert_row(self.volume, 'error', 'available', None, '127')
        self.assertIs(self.secondary, self.holder(self.volume))
        self.fails_back()
        self.assert_row(self.volume, 'enabled', 'available', self.primary)


class ClonesTest(FailoverTest):
    """Thin clones, and the objects that an array must keep for them."""

    profile = 'sdp'

    def setUp(self) -> None:
        super().setUp()
        self.source = self.backend.create_volume()

    def clone(self) -> Any:
        return self.backend.clone(
            self.source, **replicated.REPLICATED,
            kaminario__clone_strategy='thin')

    def assert_reclaimed(self, *rows: Any) -> None:
        """Delete volumes in this order; check that nothing is left."""
        for row in rows:
            self.backend.delete_volume(row)
        self.assertNothingLeft()

    def test_at_home_again(self) -> None:
        for _ in range(2):
            clone = self.clone()
            self.fails_over()
            self.fails_back()
            self.assert_row(clone, 'enabled', 'available', self.primary)
            self.assert_reclaimed(self.source, clone)
            self.source = self.backend.create_volume()

    def test_deleted_away(self) -> None:
        clone = self.clone()
        self.fails_over()
        self.assert_reclaimed(self.source, clone)

    def test_not_replicated_any_more(self) -> None:
        clone = self.clone()
        self.fails_over()
        self.backend.delete_volume(self.source)
        self.backend.retype(clone)
        self.assertEqual({}, self.count(self.primary))

    def test_of_a_snapshot(self) -> None:
        snapshot = self.backend.create_snapshot(self.source)
        made = self.backend.volume_from_snapshot(
            snapshot, **replicated.REPLICATED,
            kaminario__clone_strategy='thin')
        self.fails_over()
        self.fails_back()
        self.backend.delete_snapshot(snapshot)
        self.assert_reclaimed(self.source, made)

    def test_made_away(self) -> None:
        """Clones that were created on the secondary, before a failback."""
        self.fails_over()
        self.backend.enable()
        self.source = self.backend.create_volume()
        clone, again = self.clone(), self.clone()
        self.fails_back()
        self.backend.delete_volume(self.source)
        self.backend.delete_volume(clone)
        # The source of setUp, and the other clone.
        self.assertEqual(2, self.count(self.primary)['volumes'])
        self.fails_over()
        self.backend.delete_volume(again)
        self.assertEqual({}, self.count(self.secondary))


class GroupsTest(FailoverTest):
    """Replicated groups fail over by themselves, or with the back end."""

    def group(self, kind: dict[str, str], count: int = 2) -> Any:
        """A replicated group with volumes."""
        group = self.empty_group(kind)
        for _ in range(count):
            self.backend.create_volume(1, group=group, **CAPABLE)
        return self.backend.enable_replication(group)

    def empty_group(self, kind: dict[str, str]) -> Any:
        return self.backend.create_group(
            self.backend.volume_type(**CAPABLE), **kind)

    def assert_members(self, group: Any, replication: str, status: str,
                       array: arrays.Served) -> None:
        for row in self.backend.members(group):
            self.assert_row(row, replication, status, array)

    def assert_group(self, group: Any, replication: str, status: str
                     ) -> None:
        row = self.backend.group(group.id)
        self.assertEqual((replication, status),
                         (row.replication_status, row.status))


@base.pairwise_variants
class GroupsEverywhereTest(GroupsTest):

    feature = 'failover'

    def test_there_and_back(self) -> None:
        for kind in (REPLICATED_GROUP, EACH_REPLICATED):
            group = self.group(kind)
            first = self.backend.members(group)[0]
            self.write(first, 'first')
            self.pass_time()
            self.backend.failover_group(group, replicated.TARGET)
            self.assert_members(group, 'failed-over', 'available',
                                self.secondary)
            self.write(first, 'second')
            self.backend.failover_group(group, 'default')
            self.assert_members(group, 'enabled', 'available', self.primary)
            self.assertEqual('second', self.read(first))
            self.backend.delete_group(group)


@ddt.ddt
class MoreGroupsTest(GroupsTest):

    @ddt.data(REPLICATED_GROUP, EACH_REPLICATED)
    def test_with_the_host(self, kind: dict[str, str]) -> None:
        """One group was failed over before; one is not replicated."""
        group, other = self.group(kind), self.group(kind)
        off = self.empty_group(kind)
        self.backend.failover_group(group, replicated.TARGET)
        self.fails_over()
        for one in (group, other):
            self.assert_group(one, 'failed-over', 'available')
            self.assert_members(one, 'failed-over', 'available',
                                self.secondary)
        self.assertNotIn(self.backend.group(off.id).replication_status,
                         ('failed-over', 'enabled'))
        self.backend.failover_group(group, 'default')
        self.assert_members(group, 'enabled', 'available', self.primary)
        self.fails_back()
        for one in (group, other):
            self.assert_group(one, 'enabled', 'available')
            self.assert_members(one, 'enabled', 'available', self.primary)

    def test_a_group_that_cannot(self) -> None:
        """Cinder sees the error; the volumes stay and remain usable."""
        group = self.group(REPLICATED_GROUP)
        with self.lost(self.secondary):
            failure = self.assertRaises(
                backend.OperationFailed, self.backend.failover_group, group,
                replicated.TARGET)
            self.assertEqual('error', failure.row.replication_status)
        for row in self.backend.members(group):
            self.assert_row(row, 'error', 'available', self.primary,
                            'cannot take over')
        self.fails_over()
        self.assert_members(group, 'failed-over', 'available',
                            self.secondary)
        self.fails_back()
        self.assert_group(group, 'enabled', 'error')

    @ddt.data(REPLICATED_GROUP, EACH_REPLICATED)
    def test_a_group_whose_sessions_are_idle(self, kind: dict[str, str]
                                             ) -> None:
        group = self.group(kind, 1)
        for state in ('suspended', 'idle'):
            self.command(group, state)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.failover_group, group,
            replicated.TARGET)
        self.assertEqual('error', failure.row.replication_status)
        row, = self.backend.members(group)
        self.assert_row(row, 'error', 'available', self.primary,
                        'is idle as target')

    def command(self, group: Any, state: str) -> None:
        for one in self.primary.admin.list('replication/sessions'):
            self.primary.admin.update('replication/sessions', one['id'],
                                      name=one['name'], state=state)

    @ddt.data(REPLICATED_GROUP, EACH_REPLICATED)
    def test_deleted_away(self, kind: dict[str, str]) -> None:
        group = self.group(kind)
        self.fails_over()
        self.backend.delete_group(group)
        self.assertNothingLeft()

    def test_without_volumes(self) -> None:
        """An empty group is deleted on its array, whichever is active."""
        group = self.empty_group(REPLICATED_GROUP)
        self.fails_over()
        self.backend.enable()
        other = self.empty_group(REPLICATED_GROUP)
        self.backend.delete_group(group)
        self.fails_back()
        self.backend.delete_group(other)
        self.assertNothingLeft()

    def test_without_volumes_on_an_array_that_is_lost(self) -> None:
        group = self.empty_group(REPLICATED_GROUP)
        with self.lost(self.primary):
            self.fails_over()
            self.backend.delete_group(group)
        self.assertIn(f'Whether something of group {group.id} is left on the '
                      f'array at 127.0.0.1:{self.primary.port}',
                      self.log.errors_text())
        self.sweep(self.primary)

    def test_mended_with_the_host(self) -> None:
        """A later failover of the back end repairs a group that failed."""
        group = self.group(REPLICATED_GROUP)
        for state in ('suspended', 'idle'):
            self.command(group, state)
        self.fails_over()
        self.assert_group(group, 'failover-error', 'error')
        self.command(group, 'in_sync')
        self.fails_over()
        self.assert_group(group, 'failed-over', 'available')
        self.fails_back()
        self.assert_group(group, 'enabled', 'available')
        self.assert_members(group, 'enabled', 'available', self.primary)


class ClusterTest(FailoverTest):
    """All members of a cluster use the active array."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.backend
        self.second = self.new_backend(
            self.protocol, replication_device=self.device())
        for member in (self.first, self.second):
            member.cluster = f'cluster@{self.first.name}'
            self.assertTrue(member.restart(), self.log.errors_text())
            member.report()

    def active(self) -> list[str]:
        return [member.driver._arrays.active_id
                for member in (self.first, self.second)]

    def test_there_and_back(self) -> None:
        volume = self.replicated()
        self.write(volume, 'first')
        self.pass_time()
        self.first.fail_over(replicated.TARGET)
        self.assertEqual([replicated.TARGET] * 2, self.active())
        for member in (self.first, self.second):
            service = member.service()
            self.assertEqual(
                ('failed-over', replicated.TARGET, True),
                (service.replication_status, service.active_backend_id,
                 service.disabled))
            self.assertTrue(member.restart())
        self.assertEqual([replicated.TARGET] * 2, self.active())
        self.assert_row(volume, 'failed-over', 'available', self.secondary)
        self.second.detach(self.second.attach(volume, self.host()))
        self.write(volume, 'second')
        self.second.fail_over('default')
        self.assertEqual(['default'] * 2, self.active())
        self.assert_row(volume, 'enabled', 'available', self.primary)
        self.assertEqual('second', self.read(volume))

    def test_a_member_that_has_not_heard_of_it(self) -> None:
        """The member relies on the rows, not on its own state."""
        volume, other = self.replicated(), self.replicated()
        self.first.fail_over(replicated.TARGET)
        self.second.driver._arrays.activate(None)
        attachment = self.second.attach(volume, self.host())
        self.assertTrue(self.is_mapped(volume, self.secondary))
        self.second.detach(attachment)
        self.second.extend_volume(volume, 2)
        self.second.delete_volume(other)
        plain = self.second.create_volume(1)
        self.assertIs(self.primary, self.holder(plain))
        self.first.detach(self.first.attach(plain, self.host()))
        self.first.fail_over('default')
        self.assert_row(volume, 'enabled', 'available', self.primary)

    def test_a_member_without_the_target(self) -> None:
        """The row of that member has the error, and it is disabled."""
        del self.second.driver._arrays._by_id[replicated.TARGET]
        self.first.fail_over(replicated.TARGET)
        service = self.second.service()
        self.assertEqual(('error', True), (service.replication_status,
                                           service.disabled))
        self.assertIn('Driver reported error during replication failover',
                      service.disabled_reason)
        self.second.restart()
        self.first.fail_over('default')
