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

"""Manage and unmanage: foreign objects, and objects that Cinder releases."""

from typing import Any
from unittest import mock
import uuid

from cinder import exception

from cinder_k2.array import inventory
from tests import arrays
from tests.functional import backend
from tests.functional import base
from tests.functional import test_odd_replies as odd

GIB = 1 << 20
MIGRATED = '7e000000-0000-4000-8000-000000000001'


class ManageTest(base.FunctionalTest):
    """An administrator has created ``db-data`` in ``db-group``."""

    def setUp(self) -> None:
        super().setUp()
        self.group = self.make('volume_groups', name='db-group', quota=0)
        self.disk = self._volume('db-data', self.group)

    def _volume(self, name: str, group: Any, size: int = GIB, **more: Any
                ) -> Any:
        return self.make('volumes', name=name, size=size, volume_group={
            'ref': f'/volume_groups/{group["id"]}'}, **more)

    def _snapshot(self, short_name: str, source: str, **more: Any) -> Any:
        policy = self.admin.list('retention_policies',
                                 name='Best_Effort_Retention')[0]
        made = self.make('snapshots', short_name=short_name, **{
            'source': {'ref': source}, 'is_auto_deleteable': False,
            'retention_policy': {
                'ref': f'/retention_policies/{policy["id"]}'}, **more})
        # This must be done before Cinder deletes the volume.
        self.addCleanup(self._drop_snapshot, made['id'])
        return made

    def _drop_snapshot(self, key: int) -> None:
        self.ignore_call_budget()
        for row in self.backend.snapshots():
            self.backend.delete_snapshot(row)
        if self.admin.list('snapshots', id=key):
            self.admin.delete('snapshots', key)

    def _group_snapshot(self, short_name: str, **more: Any) -> Any:
        return self._snapshot(short_name,
                              f'/volume_groups/{self.group["id"]}', **more)

    def _replicate(self, group: Any) -> None:
        """Create an idle session of the array with itself (REP-21)."""
        arrays.connect(self.array)
        peer, = self.admin.list('replication/peer_k2arrays')
        self.make('replication/sessions', name='local', rpo=60,
                  replication_peer_k2array={
                      'ref': f'/replication/peer_k2arrays/{peer["id"]}'},
                  local_volume_group={'ref': f'/volume_groups/{group["id"]}'},
                  replication_peer_volume_group_name='far',
                  remote_replication_session_name='remote',
                  auto_configure_peer_volumes=False)
        for resource, name in (('volume_groups', 'far'),
                               ('replication/sessions', 'remote')):
            made, = self.admin.list(resource, name=name)
            self._made.append((resource, made['id']))

    def _poke(self, resource: str, key: int, **fields: Any) -> None:
        """Set fields that clients cannot set, such as replication."""
        before = self.array.set_fields(resource, key, **fields)
        self.addCleanup(self.array.set_fields, resource, key, **before)

    def _on_array(self, resource: str, made: Any) -> Any:
        return self.admin.list(resource, id=made['id'])[0]

    def _ours(self, volume: Any) -> Any:
        return self.admin.list('volumes', name=f'cv-{volume.id}')[0]

    def _names(self) -> list[str]:
        return [self._on_array('volumes', self.disk)['name'],
                self._on_array('volume_groups', self.group)['name']]

    def _refused(self, reference: Any, **specs: str) -> Any:
        """Check that a reference is refused; return the exception."""
        before = self._names()
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.manage, reference, **specs)
        self.assertEqual('error_managing', failure.status)
        self.assertEqual(before, self._names())
        self.backend.delete_volume(failure.row)
        self.assertEqual(before, self._names())
        return failure.cause


@base.pairwise_variants
class ManageVolumeTest(ManageTest):
    feature = 'manage volumes'

    def test_the_life_of_a_managed_volume(self) -> None:
        with self.assert_calls(6):
            volume = self.backend.manage({'source-name': 'db-data'})
        self.assertEqual([f'cv-{volume.id}', f'cvg-{volume.id}'],
                         self._names())
        self.assertEqual(1, volume.size)
        self.assertTrue(volume.provider_id)
        attachment = self.backend.attach(volume, self.host())
        self.backend.detach(attachment)
        self.backend.extend_volume(volume, 2)
        snapshot = self.backend.create_snapshot(volume)
        clone = self.backend.clone(volume)
        self.backend.delete_volume(clone)
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(volume)
        self.assertNothingLeft()

    def test_every_reason_at_once(self) -> None:
        host = self.make('hosts', name='h1', type='Linux')
        self._volume('second', self.group)
        self.make('mappings', host={'ref': f'/hosts/{host["id"]}'},
                  volume={'ref': f'/volumes/{self.disk["id"]}'})
        self.admin.update('volumes', self.disk['id'], read_only=True)
        self._replicate(self.group)

        cause = self._refused({'source-name': 'db-data'})

        self.assertIsInstance(cause,
                              exception.ManageExistingInvalidReference)
        for reason in ('it is mapped to 1 hosts or host groups: unmap it',
                       'its volume group db-group holds 2 volumes',
                       'it is replicated', 'it is read-only'):
            self.assertIn(reason, str(cause))
            self.assertIn(reason, self.log.errors_text())

    def test_unmanage_gives_names_back(self) -> None:
        self.use(self.protocol, k2_unmanage_restores_names=True)
        self.admin.update('volumes', self.disk['id'],
                          description='ask Ann')
        volume = self.backend.manage({'source-name': 'db-data'})
        described = self._on_array('volumes', self.disk)['description']
        self.assertIn('ask Ann', described)
        self.assertIn('db-data', described)
        with self.assert_calls(4):
            self.backend.unmanage(volume)
        self.assertEqual(['db-data', 'db-group'], self._names())
        self.assertEqual('ask Ann', self._on_array(
            'volumes', self.disk)['description'])
        self.assertIsNone(self._on_array(
            'volume_groups', self.group)['description'])


class OddVolumesTest(ManageTest):
    """What depends on neither profile nor protocol."""

    feature = 'manage volumes'

    def test_by_id(self) -> None:
        with self.assert_calls(6):
            volume = self.backend.manage({'source-id': str(self.disk['id'])})
        self.assertEqual(f'cv-{volume.id}', self._names()[0])

    def test_replicated_and_its_group_does_not_tell(self) -> None:
        """Section 14: the session shows that the volume is replicated."""
        def untold(data: Any) -> Any:
            return odd.changed(data, 'replication_session', odd.MISSING)
        self._replicate(self.group)
        with odd.with_replies('volume_groups', untold):
            cause = self._refused({'source-name': 'db-data'})
        self.assertIn('it is replicated', str(cause))

    def test_a_part_of_a_gib_is_filled_up(self) -> None:
        self.admin.update('volumes', self.disk['id'], size=GIB + 1)
        volume = self.backend.manage({'source-name': 'db-data'})
        self.assertEqual(2, volume.size)
        self.assertEqual(2 * GIB, self._on_array('volumes',
                                                 self.disk)['size'])

    def test_of_another_deduplication(self) -> None:
        cause = self._refused({'source-name': 'db-data'},
                              kaminario__thin_prov_type='nodedup')
        self.assertIsInstance(cause,
                              exception.ManageExistingVolumeTypeMismatch)
        self.assertIn('the type asks for nodedup', str(cause))
        group = self.make('volume_groups', name='flat', quota=0,
                          is_dedup=False)
        self._volume('flat-data', group)
        self.backend.manage({'source-name': 'flat-data'},
                            kaminario__thin_prov_type='nodedup')

    def test_mapped_to_a_host_group_without_hosts(self) -> None:
        group = self.make('host_groups', name='hg')
        self.make('mappings', host={'ref': f'/host_groups/{group["id"]}'},
                  volume={'ref': f'/volumes/{self.disk["id"]}'})
        self.assertIn('it is mapped', str(self._refused(
            {'source-name': 'db-data'})))

    def test_what_cinder_has(self) -> None:
        ours = self.backend.create_volume(1)
        for reference in ({'source-name': f'cv-{ours.id}'},
                          {'source-id': self._ours(ours)['id']}):
            cause = self._refused(reference)
            self.assertIsInstance(cause,
                                  exception.ManageExistingAlreadyManaged)
            self.assertIn(ours.id, str(cause))

    def test_unmanage_and_manage_again(self) -> None:
        volume = self.backend.manage({'source-name': 'db-data'})
        with self.assert_calls(0):
            self.backend.unmanage(volume)
        self.assertEqual([f'cv-{volume.id}', f'cvg-{volume.id}'],
                         self._names())
        again = self.backend.manage({'source-name': f'cv-{volume.id}'})
        self.assertEqual([f'cv-{again.id}', f'cvg-{again.id}'],
                         self._names())
        self.backend.delete_volume(again)
        self.assertNothingLeft()

    def test_wrong_references(self) -> None:
        for reference in (
                {}, {'source-name': ''}, {'source-id': 'x'},
                {'source-id': '-1'}, {'source-id': None}, {'name': 'x'},
                {'source-name': 'db-data', 'source-id': '1'}, 'db-data',
                {'source-name': 'no-such'}, {'source-id': 987654}):
            self.assertIsInstance(
                self._refused(reference),
                exception.ManageExistingInvalidReference, str(reference))

    def test_internal_volumes(self) -> None:
        self._volume('cdel-7', self.make('volume_groups', name='x', quota=0))
        for reference in ({'source-name': 'CTRL'}, {'source-id': 1},
                          {'source-name': 'cdel-7'}):
            self.assertIn('is internal', str(self._refused(reference)))
        self.assertEqual(['db-data'], [
            e.reference['source-name'] for e in self.backend.manageable()])

    def test_groups_that_are_not_for_one_volume(self) -> None:
        for name in (f'ccg-{uuid.uuid4()}', 'INDEPENDENT_1'):
            self.admin.update('volume_groups', self.group['id'], name=name)
            self.assertIn('is not for a single volume', str(self._refused(
                {'source-name': 'db-data'})))

    def test_a_name_that_no_note_can_hold(self) -> None:
        self.admin.update('volumes', self.disk['id'], name='db[1]')
        self.assertIn('square brackets', str(self._refused(
            {'source-name': 'db[1]'})))

    def test_a_view(self) -> None:
        self.ignore_call_budget()
        snapshot = self._group_snapshot('s1')
        self._snapshot('the-view', f'/snapshots/{snapshot["id"]}',
                       is_exposable=True)
        self.assertIn('is a view of a snapshot', str(self._refused(
            {'source-name': 'the-view'})))

    def test_renamed_on_the_array_since_cinder_made_it(self) -> None:
        ours = self.backend.create_volume(1)
        number = self._ours(ours)['id']
        self.admin.update('volumes', number, name='renamed')
        self.assertIsInstance(self._refused({'source-name': 'renamed'}),
                              exception.ManageExistingAlreadyManaged)
        self.admin.update('volumes', number, name=f'cv-{ours.id}')

    def test_volumes_of_another_back_end(self) -> None:
        """Including those of the in-tree driver, which stores no ids."""
        self.ignore_call_budget()
        first = self.backend.create_volume(1)
        second = self.backend.create_volume(1)
        second.update({'provider_id': None})
        second.save()
        # One that was migrated has the name of another id.
        third = self.backend.create_volume(1)
        on_array = self._ours(third)
        self.admin.update('volumes', on_array['id'], name=f'cv-{MIGRATED}')
        self.admin.call('PATCH', on_array['volume_group']['ref'].strip('/'),
                        {'name': f'cvg-{MIGRATED}'})
        third.update({'provider_id': None, '_name_id': MIGRATED})
        third.save()
        self.own('iscsi')
        for row in (first, second, third):
            cause = self._refused({'source-name': f'cv-{row.name_id}'})
            self.assertIsInstance(cause,
                                  exception.ManageExistingAlreadyManaged)
        self.assertEqual(
            {first.id, second.id, third.id, None},
            {e.cinder_id for e in self.backend.manageable()})

    def test_two_requests_for_one_volume(self) -> None:
        results = self.together(*[
            lambda: self.backend.manage({'source-name': 'db-data'})] * 3)
        failures = [r for r in results
                    if isinstance(r, backend.OperationFailed)]
        self.assertEqual(2, len(failures), str(results))
        (managed,) = [r for r in results if r not in failures]
        for failure in failures:
            self.assertIsInstance(failure.cause, (
                exception.ManageExistingAlreadyManaged,
                exception.ManageExistingInvalidReference))
            self.backend.delete_volume(failure.row)
        self.assertEqual([f'cv-{managed.id}', f'cvg-{managed.id}'],
                         self._names())

    def test_a_request_that_was_quicker(self) -> None:
        """Its row may not have ids yet; the names on the array show it."""
        driver = self.backend.driver
        manage = driver.manage_existing
        others: list[Any] = []

        def after_another(volume: Any, reference: Any) -> Any:
            if not others:
                others.append(None)
                others[0] = self.backend.manage(reference)
                others[0].update({'provider_id': None})
                others[0].save()
            return manage(volume, reference)

        self.ignore_call_budget()
        with mock.patch.object(driver, 'manage_existing', after_another):
            failure = self.assertRaises(
                backend.OperationFailed, self.backend.manage,
                {'source-name': 'db-data'})
        self.assertIsInstance(failure.cause,
                              exception.ManageExistingAlreadyManaged)
        self.assertEqual(f'cv-{others[0].id}', self._names()[0])

    def test_encrypted_types(self) -> None:
        """os-brick would format the volume at the first attach."""
        self.assertIsInstance(
            self._refused({'source-name': 'db-data'}, encryption='luks'),
            exception.ManageExistingVolumeTypeMismatch)

    def test_a_rename_that_fails_leaves_the_names(self) -> None:
        for path in ('volume_groups/*', 'volumes/*'):
            self.fault('status', 'PATCH', path, status=403)
            self.assertIn('403', str(self._refused(
                {'source-name': 'db-data'})))

    def test_names_that_could_not_be_given_back_at_once(self) -> None:
        """They are restored when the row is deleted, and the data stays."""
        self.fault('status', 'PATCH', 'volumes/*', status=502,
                   commit='after')
        self.fault('status', '*', '*', status=502, after=5, times=None)
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.manage,
            {'source-name': 'db-data'})
        self.array.control.clear_faults()
        self.assertEqual([f'cv-{failure.row.id}', f'cvg-{failure.row.id}'],
                         self._names())
        self.backend.delete_volume(failure.row)
        self.assertEqual(['db-data', 'db-group'], self._names())

    def test_a_row_that_cinder_could_not_keep(self) -> None:
        """The names are restored when the row is deleted."""
        volume = self.backend.manage({'source-name': 'db-data'})
        volume.update({'status': 'error_managing', 'provider_id': None})
        volume.save()
        self.backend.delete_volume(volume)
        self.assertEqual(['db-data', 'db-group'], self._names())

    def test_a_name_that_was_given_to_another(self) -> None:
        self.use(self.protocol, k2_unmanage_restores_names=True)
        volume = self.backend.manage({'source-name': 'db-data'})
        self._volume('db-data', self.make('volume_groups', name='x',
                                          quota=0))
        self.backend.unmanage(volume)
        self.assertEqual([f'cv-{volume.id}', 'db-group'], self._names())
        self.assertIn('cannot have its original name db-data back',
                      self.log.errors_text())

    def test_names_from_before_two_managements(self) -> None:
        volume = self.backend.manage({'source-name': 'db-data'})
        self.backend.unmanage(volume)
        self.use(self.protocol, k2_unmanage_restores_names=True)
        again = self.backend.manage({'source-name': f'cv-{volume.id}'})
        self.backend.unmanage(again)
        self.assertEqual(['db-data', 'db-group'], self._names())

    def test_unmanage_what_cinder_made(self) -> None:
        self.use(self.protocol, k2_unmanage_restores_names=True)
        volume = self.backend.create_volume(1)
        on_array = self._ours(volume)
        self.backend.unmanage(volume)
        self.assertEqual(f'cv-{volume.id}', self._on_array(
            'volumes', on_array)['name'])
        self.backend.delete_volume(
            self.backend.manage({'source-id': on_array['id']}))

    def test_unmanage_what_the_array_has_lost(self) -> None:
        self.use(self.protocol, k2_unmanage_restores_names=True)
        lost = self.backend.create_volume(1)
        gone = self._ours(lost)
        self.admin.delete('volumes', gone['id'])
        self.admin.delete('volume_groups', int(
            gone['volume_group']['ref'].split('/')[-1]))
        self.backend.unmanage(lost)


@base.pairwise_variants
class ListTest(ManageTest):
    feature = 'list manageable volumes'

    def _entries(self, **page: Any) -> dict[str, Any]:
        return {entry.reference['source-name']: entry
                for entry in self.backend.manageable(**page)}

    def test_every_volume_with_every_reason(self) -> None:
        ours = self.backend.create_volume(1)
        self.admin.update('volumes', self.disk['id'], size=GIB + 1)
        shared = self.make('volume_groups', name='shared', quota=0,
                           is_dedup=False)
        self._volume('one', shared)
        two = self._volume('two', shared)
        self.admin.update('volumes', two['id'], read_only=True)
        host = self.make('hosts', name='h1', type='Linux')
        self.make('mappings', host={'ref': f'/hosts/{host["id"]}'},
                  volume={'ref': f'/volumes/{two["id"]}'})
        self._replicate(shared)
        with self.assert_calls(3):
            entries = self._entries()

        self.assertEqual({f'cv-{ours.id}', 'db-data', 'one', 'two'},
                         set(entries))
        mine = entries[f'cv-{ours.id}']
        self.assertEqual((False, ours.id), (mine.safe_to_manage,
                                            mine.cinder_id))
        free = entries['db-data']
        self.assertEqual((True, None, None, 2),
                         (free.safe_to_manage, free.reason_not_safe,
                          free.cinder_id, free.size))
        self.assertEqual({
            'source-id': str(self.disk['id']), 'volume_group': 'db-group',
            'snapshots': '0', 'kaminario:thin_prov_type': 'dedup'},
            free.extra_info)
        self.assertEqual('nodedup', entries['one'].extra_info[
            'kaminario:thin_prov_type'])
        self.assertFalse(entries['two'].safe_to_manage)
        reasons = entries['two'].reason_not_safe.split('; ')
        self.assertEqual(4, len(reasons), str(reasons))
        for word, reason in zip(('mapped', 'holds 2', 'replicated',
                                 'read-only'), reasons, strict=True):
            self.assertIn(word, reason)


class WithSnapshotTest(ManageTest):
    """The volume is managed, and has a snapshot ``nightly``."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.backend.manage({'source-name': 'db-data'})
        self.taken = self._group_snapshot('nightly')

    def _refused_snapshot(self, reference: Any) -> Any:
        failure = self.assertRaises(
            backend.OperationFailed, self.backend.manage_snapshot,
            self.volume, reference)
        self.assertEqual('error', failure.status)
        self.backend.delete_snapshot(failure.row)
        return failure.cause


@base.pairwise_variants
class ManageSnapshotTest(WithSnapshotTest):
    feature = 'manage snapshots'

    def test_the_life_of_a_managed_snapshot(self) -> None:
        self.backend.extend_volume(self.volume, 3)
        with self.assert_calls(4):
            snapshot = self.backend.manage_snapshot(
                self.volume, {'source-name': 'nightly'})
        self.ignore_call_budget()
        self.assertEqual(1, snapshot.volume_size)
        self.assertEqual('nightly', self._on_array(
            'snapshots', self.taken)['short_name'])
        clone = self.backend.volume_from_snapshot(snapshot)
        self.backend.delete_volume(clone)
        self.backend.delete_snapshot(snapshot)
        self.assert_left(volumes=1, volume_groups=1)

    def test_list(self) -> None:
        ours = self.backend.create_snapshot(self.volume)
        foreign = self.make('volume_groups', name='other', quota=0)
        self._volume('theirs', foreign)
        self._snapshot('s', f'/volume_groups/{foreign["id"]}',
                       is_auto_deleteable=True)
        with self.assert_calls(3):
            entries = self.backend.manageable_snapshots()
        own = f'cvg-{self.volume.id}'
        found = {e.reference['source-name']: e for e in entries}
        self.assertEqual({f'{own}:cs-{ours.id}', f'{own}:nightly',
                          'other:s'}, set(found))
        nightly = found[f'{own}:nightly']
        self.assertEqual((True, None, 1, {
            'source-name': f'cv-{self.volume.id}'}), (
                nightly.safe_to_manage, nightly.cinder_id, nightly.size,
                nightly.source_reference))
        self.assertEqual(str(self.taken['id']),
                         nightly.extra_info['source-id'])
        mine = found[f'{own}:cs-{ours.id}']
        self.assertEqual((False, ours.id),
                         (mine.safe_to_manage, mine.cinder_id))
        reasons = found['other:s'].reason_not_safe.split('; ')
        self.assertEqual(2, len(reasons), str(reasons))
        self.assertIn('does not manage its volume', reasons[1])


class PagesTest(ManageTest):
    feature = 'list manageable volumes'

    def test_pages(self) -> None:
        for number in range(4):
            group = self.make('volume_groups', name=f'g{number}', quota=0)
            self._volume(f'v{number}', group, size=(9 - number) * GIB)
        every = ['db-data', 'v0', 'v1', 'v2', 'v3']
        self.assertEqual(every, self._page())
        self.assertEqual(every[:2], self._page(limit=2))
        self.assertEqual(every[3:], self._page(
            marker='{"source-name": "v0"}', offset=1))
        self.assertEqual(['v0', 'v1'], self._page(
            sort_keys=['size'], sort_dirs=['desc'], limit=2))
        self.assertRaises(exception.InvalidInput, self._page,
                          marker='{"source-name": "none"}')

    def test_without_a_limit(self) -> None:
        """Callers other than the API may omit all parameters."""
        self.assertEqual(['db-data'], self._page(
            limit=None, sort_keys=None, sort_dirs=None))

    def test_as_many_calls_for_many_volumes(self) -> None:
        group = self.make('volume_groups', name='many', quota=0)
        for number in range(30):
            self._volume(f'many-{number}', group)
        with self.assert_calls(3):
            self.assertEqual(31, len(self._page()))

    def _page(self, **page: Any) -> list[str]:
        return [entry.reference['source-name']
                for entry in self.backend.manageable(**page)]


class OddSnapshotsTest(WithSnapshotTest):
    """What depends on neither profile nor protocol."""

    feature = 'manage snapshots'

    def test_by_full_name_and_by_id(self) -> None:
        full = f'cvg-{self.volume.id}:nightly'
        for reference in ({'source-name': full},
                          {'source-id': self.taken['id']}):
            with self.assert_calls(4):
                snapshot = self.backend.manage_snapshot(self.volume,
                                                        reference)
            with self.assert_calls(0):
                self.backend.unmanage_snapshot(snapshot)
        self.assertEqual('nightly', self._on_array(
            'snapshots', self.taken)['short_name'])

    def test_the_volume_of_an_unmanaged_snapshot(self) -> None:
        self.backend.unmanage_snapshot(self.backend.manage_snapshot(
            self.volume, {'source-name': 'nightly'}))
        failure = self.assertRaises(backend.OperationFailed,
                                    self.backend.delete_volume, self.volume)
        self.assertEqual('available', failure.status)
        self.assertIn('nightly', self.log.errors_text())

    def test_what_cinder_has(self) -> None:
        ours = self.backend.create_snapshot(self.volume)
        cause = self._refused_snapshot({'source-name': f'cs-{ours.id}'})
        self.assertIsInstance(cause, exception.ManageExistingAlreadyManaged)
        self.assertIn(ours.id, str(cause))
        managed = self.backend.manage_snapshot(self.volume,
                                               {'source-name': 'nightly'})
        cause = self._refused_snapshot({'source-name': 'nightly'})
        self.assertIn(managed.id, str(cause))

    def test_every_reason_at_once(self) -> None:
        other = self.make('volume_groups', name='other', quota=0)
        for name in ('a', 'b'):
            self._volume(name, other)
        taken = self._snapshot('s', f'/volume_groups/{other["id"]}',
                               is_auto_deleteable=True)
        self._poke('snapshots', taken['id'], generation_number=3)
        cause = self._refused_snapshot({'source-name': 'other:s'})
        self.assertIsInstance(cause,
                              exception.ManageExistingInvalidReference)
        for reason in ('it is no snapshot of volume', 'it holds 2 volumes',
                       'it belongs to a replication session',
                       'the array may delete it by itself'):
            self.assertIn(reason, str(cause))
            self.assertIn(reason, self.log.errors_text())

    def test_other_volumes_snapshots(self) -> None:
        other = self.make('volume_groups', name='other', quota=0)
        self._volume('theirs', other)
        taken = self._snapshot('nightly', f'/volume_groups/{other["id"]}')
        for reference in ({'source-name': 'other:nightly'},
                          {'source-id': taken['id']}):
            self.assertIn(f'it is no snapshot of volume {self.volume.id}',
                          str(self._refused_snapshot(reference)))
        self.assertIn('no such snapshot', str(self._refused_snapshot(
            {'source-name': 'none'})))

    def test_a_view(self) -> None:
        view = self._snapshot('work', f'/snapshots/{self.taken["id"]}',
                              is_exposable=True)
        for reference in ({'source-name': 'work'},
                          {'source-id': view['id']}):
            self.assertIn('it is a view', str(self._refused_snapshot(
                reference)))
        # Cinder has the volume, but not the view.
        self._snapshot('of-work', f'/snapshots/{view["id"]}')
        found = {e.reference['source-name']: e.reason_not_safe
                 for e in self.backend.manageable_snapshots()}
        self.assertEqual({f'cvg-{self.volume.id}:nightly': None,
                          f'cvg-{self.volume.id}:of-work':
                          'Cinder does not manage its volume'}, found)

    def test_what_is_hidden_for_clones(self) -> None:
        self.ignore_call_budget()
        self.backend.clone(self.volume)
        snapshot = self.backend.create_snapshot(self.volume)
        self.backend.volume_from_snapshot(snapshot)
        self.backend.delete_snapshot(snapshot)
        hidden = [s for s in self.admin.list('snapshots')
                  if s['short_name'].startswith(('cs-', 'ccs-'))
                  and not s['is_exposable']]
        self.assertEqual(2, len(hidden))
        for kept in hidden:
            self.assertIn('it is internal', str(self._refused_snapshot(
                {'source-id': kept['id']})))
        self.assertEqual(
            [f'cvg-{self.volume.id}:nightly'],
            [e.reference['source-name']
             for e in self.backend.manageable_snapshots()])

    def test_a_snapshot_of_a_view_that_backs_a_volume(self) -> None:
        self.ignore_call_budget()
        clone = self.backend.clone(self.volume,
                                   kaminario__clone_strategy='view')
        view = self.admin.list('snapshots', short_name=f'cv-{clone.id}')[0]
        self._snapshot('of-view', f'/snapshots/{view["id"]}')
        self.assertIn('it is no snapshot of', str(self._refused_snapshot(
            {'source-name': 'of-view'})))
        found = {e.reference['source-name']: e
                 for e in self.backend.manageable_snapshots()}
        self.assertTrue(
            found[f'cvg-{self.volume.id}:of-view'].safe_to_manage)

        snapshot = self.backend.manage_snapshot(
            clone, {'source-name': 'of-view'})

        self.backend.delete_volume(
            self.backend.volume_from_snapshot(snapshot))
        self.backend.delete_snapshot(snapshot)
        self.backend.delete_volume(clone)

    def test_a_snapshot_of_the_driver_inside_cinder(self) -> None:
        """The in-tree driver stores no ids."""
        ours = self.backend.create_snapshot(self.volume)
        ours.update({'provider_id': None})
        ours.save()
        self.assertIn(ours.id, str(self._refused_snapshot(
            {'source-name': f'cs-{ours.id}'})))
        self.assertIn(ours.id, [
            e.cinder_id for e in self.backend.manageable_snapshots()])

    def test_two_requests_for_one_snapshot(self) -> None:
        results = self.together(*[lambda: self.backend.manage_snapshot(
            self.volume, {'source-name': 'nightly'})] * 3)
        failures = [r for r in results
                    if isinstance(r, backend.OperationFailed)]
        self.assertEqual(2, len(failures), str(results))
        for failure in failures:
            self.assertIsInstance(failure.cause,
                                  exception.ManageExistingAlreadyManaged)
            self.backend.delete_snapshot(failure.row)
        self.assertEqual(1, len(self.admin.list('snapshots')))

    def test_an_array_that_tells_no_size(self) -> None:
        self.backend.extend_volume(self.volume, 2)
        with mock.patch.object(inventory.FoundSnapshot, 'size', None):
            snapshot = self.backend.manage_snapshot(
                self.volume, {'source-name': 'nightly'})
        self.assertEqual(2, snapshot.volume_size)
