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

"""Removal of kept mappings that are not needed, with a fake clock."""

import contextlib
import dataclasses
from unittest import mock
from unittest.mock import call

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import host_identity
from cinder_k2.array import hosts
from cinder_k2.driver.db import attachments
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.operations import detach
from cinder_k2.driver.operations import kept
from cinder_k2.driver.operations import reconciliation
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import transport
from tests.unit.driver import doubles

INTERVAL = 600.0
BACKING = ArrayVolume(group=5, volume=6)
OTHER = ArrayVolume(group=8, volume=7)
HOST, GROUP = rest.Ref('hosts', 71), rest.Ref('host_groups', 3)
MAPPING = kept.Mapping('v1', BACKING.mappable,
                       host_identity.Sought(('iqn.1',)))
SEARCH = {'multiattach': True}


def mapping(number, host=HOST, backing=BACKING):
    """Return a mapping as the array reports it."""
    return rest.Mapping(id=number, host=host, volume=backing.mappable, lun=1)


class ReconciliationTestCase(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.rows = [doubles.a_volume(provider_id='ids', multiattach=True,
                                      status='in-use')]
        self.users = self.double('users', attachments.Attachments)
        self.users.may_use.return_value = False
        self.replace(attachments, 'Attachments', lambda _: self.users)
        self.backend_rows = self.double('rows', backend_rows.BackendRows)
        self.backend_rows.volumes.side_effect = self.select
        self.backend_rows.is_moving.return_value = False
        self.resolver = self.double('resolver', resolver.Resolver)
        self.resolver.known.side_effect = lambda row: (
            BACKING if row.provider_id else None)
        self.registry = self.double('registry', hosts.Hosts)
        self.registry.initiators_of.return_value = {HOST.id: {'iqn.1': 9}}
        self.registry.ours.return_value = HOST
        self.transport = self.double('transport', transport.Transport)
        self.transport.hosts.return_value = self.registry
        self.detach = self.double('detach', detach.Detach)
        self.detach.disconnect_kept.side_effect = self.disconnect
        self.array.mappings.of_volumes.return_value = []
        self.array.mappings.by_host.side_effect = self.of_hosts
        self.array.probe_deadline = self.array.cleanup_deadline
        self.kept = self.detach.kept = kept.Kept()
        self.make()

    def make(self):
        self.reconciliation = reconciliation.Reconciliation(
            self.array, doubles.Row(clock=doubles.Row(
                monotonic=lambda: self.now)), self.resolver, self.transport,
            self.detach, self.backend_rows, INTERVAL)

    def select(self, filters):
        """Filter rows by id or by multiattach, as the database does."""
        return [row for row in self.rows if all(
            getattr(row, key) in (
                value if isinstance(value, list) else [value])
            for key, value in filters.items())]

    def disconnect(self, found, find, timeout):
        row = find()
        if row is None:
            return False
        self.assertIn(row, self.rows)
        self.kept.drop(found)
        return True

    @staticmethod
    def of_hosts(mappings, *, groups_too):
        assert not groups_too
        found = {}
        for one in mappings:
            if one.host.resource == 'hosts':
                found.setdefault(one.host.id, []).append(one)
        return found

    def reconcile(self, passed=INTERVAL / 3):
        """Let time pass, reconcile, and return the number of attempts."""
        self.now += passed
        before = self.detach.disconnect_kept.call_count
        self.reconciliation.run()
        return self.detach.disconnect_kept.call_count - before


@ddt.ddt
class ReconcileTest(ReconciliationTestCase):
    """Reconciliation of one mapping that was kept."""

    def setUp(self):
        super().setUp()
        self.reconciliation.run()
        self.kept.add(MAPPING)

    def test_mapping_is_removed_within_one_interval(self):
        """It is seen unneeded twice before it is removed."""
        with self.assertLogs(reconciliation.LOG.logger, 'INFO') as logs:
            self.assertEqual([0, 1, 0], [self.reconcile() for _ in range(3)])
        self.assertIn('iqn.1', logs.output[0])
        found, _, timeout = (
            self.detach.disconnect_kept.call_args.args)
        self.assertEqual((MAPPING, 1.0), (found, timeout))
        self.assertEqual([call.users.may_use(self.rows[0], ['iqn.1'])] * 3,
                         self.calls('users'))
        self.assertEqual([], self.kept.every())

    def test_an_array_that_takes_long(self):
        """Statistics are waiting, so the others are left to later checks."""
        other = dataclasses.replace(MAPPING,
                                    host=host_identity.Sought(('iqn.2',)))

        def disconnect(*args):
            self.now += seconds
            return self.disconnect(*args)
        self.detach.disconnect_kept.side_effect = disconnect
        for seconds, removed in (1.0, [0, 1, 1, 0]), (0.5, [0, 2, 0, 0]):
            self.kept.add(MAPPING)
            self.kept.add(other)
            self.assertEqual(removed, [self.reconcile() for _ in range(4)])

    def test_an_array_that_is_lost(self):
        """Statistics wait: its id is read first, with a deadline."""
        self.reconcile()
        limits = []

        @contextlib.contextmanager
        def limit():
            limits.append('5 s')
            try:
                yield
            finally:
                limits.clear()

        def lost():
            self.assertEqual(['5 s'], limits)
            raise rest.Unreachable('lost')

        self.array.probe_deadline = limit
        with self.assertLogs(reconciliation.LOG.logger, 'WARNING') as logs, \
                mock.patch.object(
                    type(self.array.system), 'id', create=True,
                    new_callable=mock.PropertyMock, side_effect=lost):
            self.assertEqual(0, self.reconcile())
        self.assertIn('lost', logs.output[0])
        self.assertEqual([MAPPING], self.kept.every())
        self.assertEqual(1, self.reconcile())

    def test_one_that_fails_each_time(self):
        """All others are tried before it is tried again."""
        tried = []

        def disconnect(mapping, *args):
            self.now += 1.0
            tried.append(mapping)
            raise rest.RestError('slow')
        self.detach.disconnect_kept.side_effect = disconnect
        others = [dataclasses.replace(
            MAPPING, host=host_identity.Sought((f'iqn.{number}',)))
            for number in (2, 3)]
        for other in others:
            self.kept.add(other)
        self.assertEqual([0, 1, 1, 1, 1], [self.reconcile()
                                           for _ in range(5)])
        self.assertEqual({MAPPING, *others}, {*tried[:3]})
        self.assertEqual(tried[0], tried[3])

    def test_kept_mappings_are_checked_every_third_of_the_interval(self):
        self.assertEqual([0, 0, 0], [self.reconcile(66) for _ in range(3)])
        self.assertEqual([], self.calls('users'))
        self.reconcile(2)
        self.assertEqual(1, len(self.calls('users')))

    def test_no_call_and_no_query_without_kept_mappings(self):
        self.kept.drop(MAPPING)
        before = len(self.calls())
        self.reconcile()
        self.assertEqual(before, len(self.calls()))

    def test_attachment_may_use_the_mapping(self):
        self.users.may_use.return_value = True
        self.assertEqual([0] * 3, [self.reconcile() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())
        self.users.may_use.return_value = False
        self.assertEqual([0, 1], [self.reconcile() for _ in range(2)])

    def test_mapping_must_be_unneeded_at_two_checks_in_a_row(self):
        self.users.may_use.side_effect = [False, True, False, True]
        self.assertEqual([0] * 4, [self.reconcile() for _ in range(4)])

    def test_mapping_is_needed_again_before_the_host_is_held(self):
        self.users.may_use.side_effect = [False, False, True, True]
        with self.assertNoLogs(reconciliation.LOG.logger, 'INFO'):
            self.assertEqual([0, 1], [self.reconcile() for _ in range(2)])
        self.assertEqual([MAPPING], self.kept.every())

    @ddt.data(
        {'status': 'attaching'}, {'status': 'reserved'},
        {'status': 'uploading'}, {'status': 'backing-up'},
        {'status': 'maintenance'}, {'status': 'detaching'},
        {'migration_status': 'migrating'},
        {'migration_status': 'completing'},
        {'migration_status': 'target:v2'})
    def test_status_in_which_cinder_may_use_the_mapping(self, values):
        self.rows[0].__dict__.update(values)
        self.assertEqual([0] * 3, [self.reconcile() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    @ddt.data(
        {'status': 'available'}, {'migration_status': 'success'},
        {'migration_status': 'error'}, {'multiattach': False})
    def test_status_in_which_cinder_does_not_use_the_mapping(self, values):
        self.rows[0].__dict__.update(values)
        self.assertEqual([0, 1], [self.reconcile() for _ in range(2)])

    @ddt.data('failback_in_progress', 'regrouping', 'flattening')
    def test_operation_of_the_driver_may_use_the_mapping(self, what):
        self.resolver.known.side_effect = None
        self.resolver.known.return_value = ArrayVolume(
            group=5, volume=6, **{what: True})
        self.assertEqual([0] * 3, [self.reconcile() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    def test_failover_in_progress(self):
        self.backend_rows.is_moving.return_value = True
        self.assertEqual([0] * 3, [self.reconcile() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    def test_volume_is_gone(self):
        """It was deleted, or belongs to another back end now."""
        self.rows.clear()
        self.assertEqual(0, self.reconcile())
        self.assertEqual([], self.kept.every())

    def test_volume_is_gone_before_the_host_is_held(self):
        self.reconcile()
        rows = [self.rows, []]
        self.backend_rows.volumes.side_effect = lambda _: rows.pop(0)
        with self.assertNoLogs(reconciliation.LOG.logger, 'INFO'):
            self.assertEqual(1, self.reconcile())
        self.assertEqual([MAPPING], self.kept.every())

    def test_volume_has_another_object(self):
        """It was migrated, and the mapped object was deleted."""
        self.resolver.known.side_effect = None
        self.resolver.known.return_value = OTHER
        self.assertEqual(0, self.reconcile())
        self.assertEqual([], self.kept.every())

    def test_volume_is_on_another_array(self):
        self.resolver.known.side_effect = None
        self.assertEqual(0, self.reconcile())
        self.assertEqual([], self.kept.every())

    def test_volume_without_ids(self):
        """It is found by its name once the host is held."""
        self.rows[0].provider_id = None
        self.assertEqual([0, 1], [self.reconcile() for _ in range(2)])

    @ddt.data(rest.Unreachable('lost'), exceptions.LockTimeout('busy'))
    def test_failed_removal_is_repeated(self, error):
        self.detach.disconnect_kept.side_effect = error
        with self.assertLogs(reconciliation.LOG.logger, 'WARNING') as logs:
            self.assertEqual([0, 1, 1], [self.reconcile() for _ in range(3)])
        self.assertIn('volume v1', logs.output[0])
        self.assertIn(str(error), logs.output[0])
        self.assertEqual([MAPPING], self.kept.every())


@ddt.ddt
class SearchTest(ReconciliationTestCase):
    """Mappings that were kept by the service before it was stopped."""

    def search(self):
        """Return the kept mappings after the first reconciliation."""
        self.reconciliation.run()
        return self.kept.every()

    def found(self, *mappings):
        self.array.mappings.of_volumes.return_value = list(mappings)

    def test_unneeded_mapping(self):
        self.found(mapping(1))
        self.assertEqual([MAPPING], self.search())
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.registry.ours.assert_called_once_with(HOST.id)
        self.assertEqual(1, self.reconcile())

    def test_no_call_without_multiattach_volumes(self):
        self.rows[0].multiattach = False
        self.assertEqual([], self.search())
        self.assertEqual([call.rows.volumes(SEARCH)],
                         self.calls('rows', 'array', 'registry'))

    def test_no_mappings(self):
        self.assertEqual([], self.search())
        self.assertEqual([], self.calls('registry'))

    def test_needed_mapping(self):
        self.users.may_use.return_value = True
        self.found(mapping(1))
        self.assertEqual([], self.search())
        self.assertEqual([], self.calls('registry.ours'))

    def test_mapping_to_a_host_group(self):
        self.found(mapping(1, GROUP))
        self.assertEqual([], self.search())

    def test_host_not_created_by_the_driver(self):
        self.registry.ours.return_value = None
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_host_without_visible_initiators(self):
        self.registry.initiators_of.return_value = {}
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_mapping_without_a_volume(self):
        self.found(rest.Mapping(id=1, host=HOST, volume=None, lun=1))
        self.assertEqual([], self.search())

    @ddt.data(
        {'migration_status': 'success'}, {'migration_status': 'migrating'},
        {'name_id': 'v2'}, {'provider_id': None}, {'status': 'attaching'})
    def test_volumes_that_are_not_searched(self, values):
        self.rows[0].__dict__.update(values)
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_search_is_repeated_after_six_intervals(self):
        searches = []
        for _ in range(19):
            self.reconcile()
            searches.append(len(self.calls('array.mappings.of_volumes')))
        self.assertEqual([1] * 18 + [2], searches)

    def test_an_array_that_is_lost_is_not_asked_again(self):
        """Statistics are waiting: kept mappings are left to the next check."""
        self.kept.add(MAPPING)
        self.reconcile()
        self.now += INTERVAL * 6
        self.array.mappings.of_volumes.side_effect = rest.Unreachable('lost')
        self.assertEqual([0, 1], [self.reconcile() for _ in range(2)])

    def test_lost_array(self):
        """The search is repeated after an interval."""
        self.array.mappings.of_volumes.side_effect = rest.Unreachable('lost')
        with self.assertLogs(reconciliation.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self.search())
        self.assertIn('lost', logs.output[0])
        self.array.mappings.of_volumes.side_effect = None
        self.found(mapping(1))
        self.reconcile()
        self.assertEqual([], self.kept.every())
        self.reconcile(2 * INTERVAL / 3)
        self.assertEqual([MAPPING], self.kept.every())
