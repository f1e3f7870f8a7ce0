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

"""When mappings go that nothing needs, on a clock that tests set."""

from unittest.mock import call

import ddt

from cinder_k2.array import ArrayVolume
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
MAPPING = kept.Mapping('v1', BACKING.mappable, hosts.Sought(('iqn.1',)))
SEARCH = {'multiattach': True}


def mapping(number, host=HOST, backing=BACKING):
    """A record of the array's."""
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
        """As the database does, by id or by the flag."""
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

    def look(self, passed=INTERVAL / 3):
        """Let time pass; how many mappings were tried to remove then."""
        self.now += passed
        before = self.detach.disconnect_kept.call_count
        self.reconciliation.run()
        return self.detach.disconnect_kept.call_count - before


@ddt.ddt
class LookTest(ReconciliationTestCase):

    def setUp(self):
        super().setUp()
        self.reconciliation.run()
        self.kept.add(MAPPING)

    def test_it_goes_within_one_interval(self):
        """Kept just after a look, it is there at two more."""
        with self.assertLogs(reconciliation.LOG.logger, 'INFO') as logs:
            self.assertEqual([0, 1, 0], [self.look() for _ in range(3)])
        self.assertIn('iqn.1', logs.output[0])
        found, _, timeout = (
            self.detach.disconnect_kept.call_args.args)
        self.assertEqual((MAPPING, 5.0), (found, timeout))
        self.assertEqual([call.users.may_use(self.rows[0], ['iqn.1'])] * 3,
                         self.calls('users'))
        self.assertEqual([], self.kept.every())

    def test_looks_are_taken_at_their_time(self):
        self.assertEqual([0, 0, 0], [self.look(66) for _ in range(3)])
        self.assertEqual([], self.calls('users'))
        self.look(2)
        self.assertEqual(1, len(self.calls('users')))

    def test_no_call_and_no_query_while_nothing_is_kept(self):
        self.kept.drop(MAPPING)
        before = len(self.calls())
        self.look()
        self.assertEqual(before, len(self.calls()))

    def test_an_attachment_may_use_it(self):
        self.users.may_use.return_value = True
        self.assertEqual([0] * 3, [self.look() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())
        self.users.may_use.return_value = False
        self.assertEqual([0, 1], [self.look() for _ in range(2)])

    def test_two_looks_in_a_row_must_find_it_unneeded(self):
        self.users.may_use.side_effect = [False, True, False, True]
        self.assertEqual([0] * 4, [self.look() for _ in range(4)])

    def test_it_got_a_user_before_the_host_was_held(self):
        self.users.may_use.side_effect = [False, False, True, True]
        with self.assertNoLogs(reconciliation.LOG.logger, 'INFO'):
            self.assertEqual([0, 1], [self.look() for _ in range(2)])
        self.assertEqual([MAPPING], self.kept.every())

    @ddt.data(
        {'status': 'attaching'}, {'status': 'reserved'},
        {'status': 'uploading'}, {'status': 'backing-up'},
        {'status': 'maintenance'}, {'status': 'detaching'},
        {'migration_status': 'migrating'},
        {'migration_status': 'completing'},
        {'migration_status': 'target:v2'})
    def test_cinder_may_use_it(self, values):
        self.rows[0].__dict__.update(values)
        self.assertEqual([0] * 3, [self.look() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    @ddt.data(
        {'status': 'available'}, {'migration_status': 'success'},
        {'migration_status': 'error'}, {'multiattach': False})
    def test_cinder_does_not(self, values):
        self.rows[0].__dict__.update(values)
        self.assertEqual([0, 1], [self.look() for _ in range(2)])

    @ddt.data('failback_in_progress', 'regrouping', 'flattening')
    def test_the_driver_is_at_work(self, what):
        self.resolver.known.side_effect = None
        self.resolver.known.return_value = ArrayVolume(
            group=5, volume=6, **{what: True})
        self.assertEqual([0] * 3, [self.look() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    def test_a_failover_is_at_work(self):
        self.backend_rows.is_moving.return_value = True
        self.assertEqual([0] * 3, [self.look() for _ in range(3)])
        self.assertEqual([MAPPING], self.kept.every())

    def test_a_row_that_is_gone(self):
        """Or another back end's: what it has here is not this one's."""
        self.rows.clear()
        self.assertEqual(0, self.look())
        self.assertEqual([], self.kept.every())

    def test_a_row_that_is_gone_before_the_host_was_held(self):
        self.look()
        rows = [self.rows, []]
        self.backend_rows.volumes.side_effect = lambda _: rows.pop(0)
        with self.assertNoLogs(reconciliation.LOG.logger, 'INFO'):
            self.assertEqual(1, self.look())
        self.assertEqual([MAPPING], self.kept.every())

    def test_a_row_with_other_data(self):
        """It was migrated, and what was mapped is deleted."""
        self.resolver.known.side_effect = None
        self.resolver.known.return_value = OTHER
        self.assertEqual(0, self.look())
        self.assertEqual([], self.kept.every())

    def test_a_row_that_another_array_has(self):
        self.resolver.known.side_effect = None
        self.assertEqual(0, self.look())
        self.assertEqual([], self.kept.every())

    def test_a_row_without_ids(self):
        """It is found by its name under the lock."""
        self.rows[0].provider_id = None
        self.assertEqual([0, 1], [self.look() for _ in range(2)])

    @ddt.data(rest.Unreachable('lost'), exceptions.LockTimeout('busy'))
    def test_it_is_tried_again(self, error):
        self.detach.disconnect_kept.side_effect = error
        with self.assertLogs(reconciliation.LOG.logger, 'WARNING') as logs:
            self.assertEqual([0, 1, 1], [self.look() for _ in range(3)])
        self.assertIn('volume v1', logs.output[0])
        self.assertIn(str(error), logs.output[0])
        self.assertEqual([MAPPING], self.kept.every())


@ddt.ddt
class SearchTest(ReconciliationTestCase):
    """What a service kept before it was stopped."""

    def search(self):
        """What the first look of a service finds."""
        self.reconciliation.run()
        return self.kept.every()

    def found(self, *mappings):
        self.array.mappings.of_volumes.return_value = list(mappings)

    def test_a_mapping_without_use(self):
        self.found(mapping(1))
        self.assertEqual([MAPPING], self.search())
        self.array.mappings.of_volumes.assert_called_once_with(
            BACKING.mappable)
        self.registry.ours.assert_called_once_with(HOST.id)
        self.assertEqual(1, self.look())

    def test_no_call_without_volumes_that_several_may_attach(self):
        self.rows[0].multiattach = False
        self.assertEqual([], self.search())
        self.assertEqual([call.rows.volumes(SEARCH)],
                         self.calls('rows', 'array', 'registry'))

    def test_nothing_is_mapped(self):
        self.assertEqual([], self.search())
        self.assertEqual([], self.calls('registry'))

    def test_it_is_used(self):
        self.users.may_use.return_value = True
        self.found(mapping(1))
        self.assertEqual([], self.search())
        self.assertEqual([], self.calls('registry.ours'))

    def test_mappings_to_host_groups_are_not_touched(self):
        self.found(mapping(1, GROUP))
        self.assertEqual([], self.search())

    def test_a_host_that_others_made(self):
        self.registry.ours.return_value = None
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_a_host_whose_initiators_are_not_shown(self):
        self.registry.initiators_of.return_value = {}
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_a_mapping_of_which_the_array_shows_no_volume(self):
        self.found(rest.Mapping(id=1, host=HOST, volume=None, lun=1))
        self.assertEqual([], self.search())

    @ddt.data(
        {'migration_status': 'success'}, {'migration_status': 'migrating'},
        {'name_id': 'v2'}, {'provider_id': None}, {'status': 'attaching'})
    def test_volumes_that_are_left_alone(self, values):
        self.rows[0].__dict__.update(values)
        self.found(mapping(1))
        self.assertEqual([], self.search())

    def test_it_is_repeated_rarely(self):
        searches = []
        for _ in range(19):
            self.look()
            searches.append(len(self.calls('array.mappings.of_volumes')))
        self.assertEqual([1] * 18 + [2], searches)

    def test_an_array_that_is_lost(self):
        """It is asked again after an interval."""
        self.array.mappings.of_volumes.side_effect = rest.Unreachable('lost')
        with self.assertLogs(reconciliation.LOG.logger, 'WARNING') as logs:
            self.assertEqual([], self.search())
        self.assertIn('lost', logs.output[0])
        self.array.mappings.of_volumes.side_effect = None
        self.found(mapping(1))
        self.look()
        self.assertEqual([], self.kept.every())
        self.look(2 * INTERVAL / 3)
        self.assertEqual([MAPPING], self.kept.every())
