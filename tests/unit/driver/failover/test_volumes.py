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

"""Failover and failback of volumes: the flows that run, and updated rows.

The flows and the arrays are replaced; the rows are in memory.
"""

import ddt
import testtools

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as sessions
from cinder_k2.driver.db import provider_id
from cinder_k2.driver.failover import arrays
from cinder_k2.driver.failover import volumes as volume_failover
from cinder_k2.driver.operations import clone_sources
from cinder_k2.driver.operations import placement
from cinder_k2 import exceptions
from cinder_k2.flows import failover as flow
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import replicated

LOG = volume_failover.LOG.logger
TIMEOUT = 77.0
PARENT = clone_sources.Parent(ArraySnapshot(snapshot=5, group=6), True)
OVERTAKEN = 'It was changed while it was failed over, or back.'
NEVER_MADE = 'It was never made.'


def unit(key='v1', *volumes, failback_in_progress=False):
    return flow.ReplicationUnit(key, (f'ssn-{key}', f'rssn-{key}'),
                                volumes or (f'cv-{key}',),
                                failback_in_progress)


def there(*names, group=40, **values):
    """Return an outcome: volumes are served by the destination."""
    return flow.Outcome(flow.DESTINATION, {
        name: (group + 1 + number, group)
        for number, name in enumerate(names or ('cv-v1',))}, **values)


def left(reason='no session', **values):
    """Return an outcome: volumes are still served by the origin."""
    return flow.Outcome(flow.ORIGIN, {}, reason, **values)


class Case(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home, self.moon, self.mars = (
            replicated.operations(replicated.array(name))
            for name in ('home', 'moon', 'mars'))
        self.every = arrays.ArraySet(
            self.home, {'moon': self.moon, 'mars': self.mars}, None)
        self.outcomes = {'v1': there()}
        self.patch(placement, 'is_consistent', replicated.is_consistent)
        self.parents = self.patch(clone_sources, 'find',
                                  lambda array, volumes: {})
        for side in self.home, self.moon:
            side.array.replication.find_many.side_effect = lambda names: {}

    def patch(self, where, name, effect):
        return autospec.patched(self, where, name,
                                side_effect=effect)

    def volume(self, row_id='v1', system_id='home', **values):
        return replicated.volume(row_id, system_id, **values)

    def backing(self, row):
        """Return the array and the ids of a volume in the database."""
        value = row.stored['provider_id']
        system = provider_id.system_of(value)
        return system, provider_id.decode(ArrayVolume, system, value,
                                          row.name_id)


@ddt.ddt
class ReplicationUnitsTest(Case):

    def test_single_volume(self):
        self.assertEqual([unit()], volume_failover.units([self.volume()]))

    def test_migrated_volume(self):
        self.assertEqual([unit('n1')], volume_failover.units(
            [self.volume(_name_id='n1')]))

    def test_consistency_group(self):
        group = replicated.group()
        self.assertEqual([unit('g1', 'cv-v1', 'cv-v2'), unit('v3')],
                         volume_failover.units([
                             self.volume('v1', group=group),
                             self.volume('v2', group=group),
                             self.volume('v3')]))

    def test_generic_group(self):
        group = replicated.group(consistent=False)
        self.assertEqual([unit()],
                         volume_failover.units([self.volume(group=group)]))

    def test_volume_that_was_never_created(self):
        self.assertEqual([], volume_failover.units(
            [self.volume(launched_at=None)]))

    @ddt.data((True, True, True), (True, False, False), (False, True, False))
    @ddt.unpack
    def test_failback_in_progress(self, first, second, expected):
        """Only if all members of a group are marked."""
        group = replicated.group()
        found, = volume_failover.units([
            self.volume('v1', group=group, backing={
                        'failback_in_progress': first}),
            self.volume('v2', group=group,
                        backing={'failback_in_progress': second})])
        self.assertIs(expected, found.failback_in_progress)

    def test_volume_without_ids_has_no_failback_in_progress(self):
        found, = volume_failover.units([self.volume(system_id=None)])
        self.assertFalse(found.failback_in_progress)

    @ddt.data(('home', 'moon', True), ('home', None, True),
              ('home', 'mars', False), ('moon', 'mars', True),
              ('mars', 'moon', True), (None, None, True))
    @ddt.unpack
    def test_volumes_replicated_to_an_array(self, system, target, expected):
        row = self.volume(system_id=system, backing={'target': target})
        self.assertEqual([row] if expected else [],
                         volume_failover.copied_to('moon', [row]))

    def test_group_is_replicated_to_one_array_only(self):
        group = replicated.group()
        rows = [self.volume('v1', group=group),
                self.volume('v2', group=group, backing={'target': 'mars'})]
        self.assertEqual([], volume_failover.copied_to('moon', rows))


@ddt.ddt
class FailoverTest(Case):

    def setUp(self):
        super().setUp()
        self.flow = self.patch(flow, 'fail_over',
                               lambda there, units, clock=None: self.outcomes)

    def over(self, *rows):
        return volume_failover.fail_over(rows, self.moon, self.every)

    def test_single_volume(self):
        row = self.volume(replication_extended_status='old')
        self.assertEqual({'v1': {
            'replication_status': 'failed-over',
            'replication_extended_status': None}}, self.over(row))
        self.assertIsNone(row.stored['replication_extended_status'])
        self.assertEqual(('moon', ArrayVolume(group=40, volume=41,
                                              replicated=True, target='home')),
                         self.backing(row))
        self.assertEqual('failed-over', row.stored['replication_status'])
        self.flow.assert_called_once_with(self.moon.array, [unit()])
        self.parents.assert_called_once_with(self.moon.array, [row])

    def test_lost_primary(self):
        self.home.array.system = replicated.LostSystem()
        self.over(self.volume())
        self.home.check.assert_not_called()
        self.home.array.replication.find_many.assert_not_called()

    @ddt.data((True, 'enabled', 'enabled'),
              (True, 'failed-over', 'failed-over'),
              (True, 'failover-error', 'failed-over'),
              (False, 'enabled', 'failed-over'))
    @ddt.unpack
    def test_status_after_failover(self, copied, status, expected):
        """A volume that was created on the target keeps its status."""
        self.outcomes = {'v1': there(copied=copied)}
        row = self.volume(system_id='moon', replication_status=status)
        self.assertEqual(expected,
                         self.over(row)['v1']['replication_status'])

    def test_has_clones_is_kept(self):
        row = self.volume(backing={'has_clones': True})
        self.over(row)
        self.assertEqual(ArrayVolume(
            group=40, volume=41, replicated=True, target='home',
            has_clones=True), self.backing(row)[1])

    def test_volume_that_is_already_on_the_target(self):
        row = self.volume(system_id='moon', backing={
            'volume': 41, 'group': 40, 'failback_in_progress': True,
            'has_clones': True, 'target': 'home', 'replicated': False})
        self.over(row)
        self.assertEqual(('moon', ArrayVolume(
            group=40, volume=41, replicated=True, has_clones=True,
            target='home')), self.backing(row))

    @ddt.data(('home', 41), ('moon', 42))
    @ddt.unpack
    def test_former_ids_are_replaced(self, system, number):
        """Ids are valid on one array, and for one volume, only."""
        row = self.volume(system_id=system, backing={
            'volume': number, 'group': 99, 'origin': 98})
        self.over(row)
        self.assertEqual(ArrayVolume(group=40, volume=41, replicated=True,
                                     target=system), self.backing(row)[1])

    def test_volume_without_ids(self):
        row = self.volume(system_id=None)
        self.over(row)
        self.assertEqual(('moon', ArrayVolume(group=40, volume=41,
                                              replicated=True)),
                         self.backing(row))

    def test_clone_source_on_the_target(self):
        """The row gets the parent on the target."""
        self.parents.side_effect = lambda array, volumes: {'v1': PARENT}
        row = self.volume()
        self.over(row)
        self.assertEqual(ArrayVolume(
            group=40, volume=41, replicated=True, target='home', parent=5,
            parent_group=6, hidden_parent=True), self.backing(row)[1])

    def test_consistency_group(self):
        group = replicated.group()
        rows = [self.volume(name, group=group) for name in ('v2', 'v1')]
        self.outcomes = {'g1': there('cv-v1', 'cv-v2')}
        updates = self.over(*rows)
        self.assertEqual({'v1', 'v2'}, set(updates))
        for row, number in zip(rows, (42, 41)):
            self.assertEqual(ArrayVolume(
                group=40, volume=number, replicated=True, shared=True,
                target='home'), self.backing(row)[1])

    def test_rows_of_a_group_are_written_one_after_another(self):
        group, order = replicated.group(), []
        rows = [self.volume('v1', group=group), self.volume('a'),
                self.volume('v2', group=group), self.volume('z')]
        self.outcomes = {'g1': there('cv-v1', 'cv-v2'), 'a': there('cv-a'),
                         'z': there('cv-z')}
        for row in rows:
            row.on_write = lambda row=row: order.append(row.id)
        self.over(*rows)
        self.assertEqual(['a', 'v1', 'v2', 'z'], order)

    @ddt.data(left('no session'), flow.Outcome(flow.DESTINATION, {},
                                               'no session'),
              flow.Outcome(flow.ORIGIN, {'cv-v1': (41, 40)}, 'no session'))
    def test_volume_that_cannot_be_failed_over(self, outcome):
        self.outcomes = {'v1': outcome}
        row = self.volume()
        before = row.provider_id
        self.assertEqual({'v1': {
            'replication_status': 'failover-error', 'status': 'error',
            'replication_extended_status': 'no session'}}, self.over(row))
        self.assertEqual(('failover-error', 'available', before), tuple(
            row.stored[key] for key in
            ('replication_status', 'status', 'provider_id')))

    def test_default_reason(self):
        self.outcomes = {'v1': left('')}
        self.assertEqual(
            NEVER_MADE,
            self.over(self.volume())['v1']['replication_extended_status'])

    def test_long_reason_is_truncated(self):
        self.outcomes = {'v1': left('x' * 300)}
        update = self.over(self.volume())['v1']
        self.assertEqual(255, len(update['replication_extended_status']))

    def test_volume_that_was_never_created(self):
        self.outcomes = {}
        update = self.over(self.volume(launched_at=None))['v1']
        self.assertEqual(('failover-error', NEVER_MADE), (
            update['replication_status'],
            update['replication_extended_status']))
        self.flow.assert_called_once_with(self.moon.array, [])

    @ddt.data(('failover-error', [], 'available'),
              ('failover-error', ['attachment'], 'in-use'),
              ('error', [], None))
    @ddt.unpack
    def test_status_error_of_an_earlier_failover_is_cleared(
            self, status, attachments, expected):
        found = self.over(self.volume(
            status='error', replication_status=status,
            volume_attachment=attachments))['v1']
        self.assertEqual(expected, found.get('status'))

    def test_other_error_status_is_kept(self):
        found = self.over(self.volume(
            status='error_deleting', replication_status='failover-error'))
        self.assertNotIn('status', found['v1'])

    def test_volume_on_the_target_without_a_session(self):
        """Its status is not set to error: hosts may still use it."""
        self.outcomes = {'v1': left()}
        row = self.volume(system_id='moon', status='error',
                          replication_status='failover-error')
        self.assertEqual({'v1': {
            'replication_status': 'error', 'status': 'available',
            'replication_extended_status': 'no session'}}, self.over(row))

    # Other targets

    def test_volume_on_another_target_is_not_moved(self):
        row = self.volume(system_id='mars', replication_status='odd')
        self.assertEqual({'v1': {'replication_status': 'odd'}},
                         self.over(row))
        self.assertEqual([], row.writes)
        self.flow.assert_called_once_with(self.moon.array, [])

    def test_id_of_another_target_is_read_once(self):
        asked = []

        class Unmet:
            known_id = ''

            @property
            def id(_):
                asked.append(tuple(self.mars.array.inside))
                return 'mars'
        self.mars.array.system = Unmet()
        self.assertEqual({'v1': {'replication_status': 'enabled'}},
                         self.over(self.volume(system_id='mars')))
        self.assertEqual([('probe_deadline',)], asked)

    def test_known_id_of_another_target_is_not_read(self):
        class Known(replicated.LostSystem):
            known_id = 'mars'
        self.mars.array.system = Known()
        with self.assertNoLogs(LOG):
            self.over(self.volume())

    @ddt.data(('mars', 'failed-over', True), ('mars', 'enabled', False),
              ('moon', 'failed-over', False), (None, 'failed-over', False))
    @ddt.unpack
    def test_another_target_is_lost(self, system, status, stays):
        """Only the row can tell whether the lost target serves a volume."""
        self.mars.array.system = replicated.LostSystem()
        row = self.volume(system_id=system, replication_status=status)
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.over(row)
        self.assertIn('mars.example.org', logs.output[0])
        self.assertEqual(stays, not row.writes)

    def test_volume_replicated_to_another_target(self):
        self.outcomes = {}
        row = self.volume(backing={'target': 'mars'})
        update = self.over(row)['v1']
        self.assertEqual('failover-error', update['replication_status'])
        self.assertIn('not replicated to the array at moon.example.org',
                      update['replication_extended_status'])
        self.flow.assert_called_once_with(self.moon.array, [])

    # Names after migrations by the in-tree driver

    @ddt.data((['ssn-v1'], True), (['rssn-v1'], True), (['ssn-n1'], False),
              (['ssn-v1', 'rssn-n1'], False), ([], False))
    @ddt.unpack
    def test_name_id_is_reset_if_the_session_has_the_volume_id(
            self, found, repaired):
        self.moon.array.replication.find_many.side_effect = lambda names: \
            dict.fromkeys(found)
        row = self.volume(system_id=None, _name_id='n1')
        self.outcomes = {'v1': left(), 'n1': left()}
        self.over(row)
        self.moon.array.replication.find_many.assert_called_once_with(
            ['ssn-v1', 'rssn-v1', 'ssn-n1', 'rssn-n1'])
        self.assertEqual(repaired, {'_name_id': None} in row.writes)
        key = 'v1' if repaired else 'n1'
        self.flow.assert_called_once_with(self.moon.array, [unit(key)])

    @ddt.data(('home', 'n1'), (None, None))
    @ddt.unpack
    def test_sessions_of_other_volumes_are_not_looked_up(
            self, system, name_id):
        self.outcomes = {'v1': left(), 'n1': left()}
        self.over(self.volume(system_id=system, _name_id=name_id))
        self.moon.array.replication.find_many.assert_not_called()

    # Errors

    def test_unreachable_target(self):
        self.flow.side_effect = rest.Unreachable('gone')
        row = self.volume()
        self.assertRaises(rest.Unreachable, self.over, row)
        self.assertEqual([], row.writes)

    def test_target_lost_during_the_failover(self):
        self.flow.side_effect = exceptions.FailoverOutcomeUnknown(
            'nobody knows', frozenset({'v1'}))
        rows = [self.volume('v1'), self.volume('v2')]
        self.assertRaises(exceptions.FailoverOutcomeUnknown, self.over, *rows)
        self.assertEqual([{
            'replication_status': 'error',
            'replication_extended_status': 'nobody knows'}], rows[0].writes)
        self.assertEqual([], rows[1].writes)


@ddt.ddt
class ConcurrentUpdateTest(Case):
    """Rows that change while their volumes are failed over."""

    def setUp(self):
        super().setUp()
        self.patch(flow, 'fail_over',
                   lambda there, units, clock=None: self.outcomes)
        self.row = self.volume()

    def over(self):
        return volume_failover.fail_over([self.row], self.moon,
                                         self.every)['v1']

    def change(self, **values):
        """Change the row in the database before the first write."""
        def meanwhile():
            self.row.on_write = lambda: None
            self.row.meanwhile(**values)
        self.row.on_write = meanwhile

    def test_volume_got_a_clone(self):
        self.change(provider_id=replicated.ids('home', has_clones=True))
        self.assertNotIn('provider_id', self.over())
        self.assertEqual(('moon', ArrayVolume(
            group=40, volume=41, replicated=True, target='home',
            has_clones=True)), self.backing(self.row))
        self.assertEqual(2, len(self.row.writes))

    def test_volume_gets_clones_repeatedly(self):
        """After five writes, Cinder has to save the ids."""
        flags = [False, True] * 9
        self.row.on_write = lambda: self.row.meanwhile(
            provider_id=replicated.ids('home', has_clones=flags.pop()))
        self.assertIn('provider_id', self.over())
        self.assertEqual(5, len(self.row.writes))

    @ddt.data(replicated.ids('mars'), replicated.ids('home', volume=2), None)
    def test_volume_was_moved(self, value):
        self.change(provider_id=value)
        with self.assertLogs(LOG, 'WARNING') as logs:
            found = self.over()
        self.assertEqual('error', found['replication_status'])
        self.assertIn(OVERTAKEN, found['replication_extended_status'])
        self.assertIn('Volume v1', logs.output[0])
        self.assertEqual(value, self.row.stored['provider_id'])

    def test_replication_was_disabled(self):
        self.change(provider_id=replicated.ids('home', replicated=False))
        self.assertEqual({'replication_status': 'disabled',
                          'replication_extended_status': None}, self.over())

    def test_volume_was_deleted(self):
        def delete():
            self.row.deleted = True
        self.row.on_write = delete
        self.assertIn(OVERTAKEN, self.over()['replication_extended_status'])

    def test_volume_without_ids_got_ids(self):
        self.row = self.volume(system_id=None)
        self.change(provider_id=replicated.ids('home', has_clones=True))
        self.assertEqual('failed-over', self.over()['replication_status'])
        system, backing = self.backing(self.row)
        self.assertEqual(('moon', True), (system, backing.has_clones))

    def test_volume_without_ids_got_a_value_of_another_driver(self):
        self.row = self.volume(system_id=None)
        self.change(provider_id='odd')
        self.assertEqual('failed-over', self.over()['replication_status'])
        self.assertEqual('moon', self.backing(self.row)[0])

    def test_volume_without_ids_is_not_replicated(self):
        self.row = self.volume(system_id=None)
        self.change(provider_id=replicated.ids('home', replicated=False))
        self.assertEqual('disabled', self.over()['replication_status'])

    def test_database_error(self):
        """The ids are returned, so that Cinder saves them."""
        self.row.on_write = lambda: 1 / 0
        with self.assertLogs(LOG, 'ERROR') as logs:
            found = self.over()
        self.assertEqual('moon',
                         provider_id.system_of(found['provider_id']))
        self.assertEqual(1, len(self.row.writes))
        self.assertIn('volume v1 was not changed', logs.output[0])


class FailedOverCase(Case):
    """Volumes that were failed over to the first target."""

    def setUp(self):
        super().setUp()
        self.inside = lambda unmap, reserve: None
        self.flow = self.patch(flow, 'fail_back', self.back)
        self.patch(flow, 'protect_again', lambda *args, **more: {})

    def back(self, here, there, units, *, timeout, unmap, reserve,
             clock=None):
        self.inside(unmap, reserve)
        return self.outcomes

    def fail_back(self, *rows):
        return volume_failover.fail_back(rows, self.home, self.every, TIMEOUT)

    def moved(self, row_id='v1', **values):
        """Return a volume that was failed over to the first target."""
        return self.volume(row_id, 'moon', **{
            'replication_status': 'failed-over', **values})


@ddt.ddt
class FailbackTest(FailedOverCase):

    def test_single_volume(self):
        row = self.moved()
        self.assertEqual({'v1': {
            'replication_status': 'enabled',
            'replication_extended_status': None}}, self.fail_back(row))
        self.assertEqual(('home', ArrayVolume(
            group=40, volume=41, replicated=True, target='moon')),
            self.backing(row))
        call, = self.flow.mock_calls
        self.assertEqual((self.moon.array, self.home.array, [unit()]),
                         call.args)
        self.assertEqual(TIMEOUT, call.kwargs['timeout'])
        self.parents.assert_called_once_with(self.home.array, [row])

    def test_clone_source_on_the_primary(self):
        self.parents.side_effect = lambda array, volumes: {'v1': PARENT}
        row = self.moved()
        self.fail_back(row)
        self.assertEqual(5, self.backing(row)[1].parent)

    def test_unusable_primary(self):
        self.home.check.side_effect = exceptions.ArrayNotSupported('old')
        self.assertRaises(exceptions.ArrayNotSupported,
                          self.fail_back, self.moved())
        self.flow.assert_not_called()

    def test_volumes_on_two_targets(self):
        self.outcomes = {'v1': there('cv-v1'), 'v2': there('cv-v2')}
        self.mars.array.replication.find_many.side_effect = lambda names: {}
        updates = self.fail_back(self.moved(), self.volume('v2', 'mars'))
        self.assertEqual({'v1', 'v2'}, set(updates))
        self.assertEqual([(self.moon.array, [unit()]),
                          (self.mars.array, [unit('v2')])], [
            (call.args[0], call.args[2]) for call in self.flow.mock_calls])

    def test_failed_back_but_not_replicated(self):
        self.outcomes = {'v1': there(reason='the link is down')}
        row = self.moved(status='error', replication_status='failover-error')
        self.assertEqual({'v1': {
            'replication_status': 'error',
            'replication_extended_status': 'the link is down'}},
            self.fail_back(row))
        self.assertEqual('home', self.backing(row)[0])

    def test_status_error_of_an_earlier_failover_is_cleared(self):
        row = self.moved(status='error', replication_status='failover-error')
        self.assertEqual('available', self.fail_back(row)['v1']['status'])

    @ddt.data((False, False), (True, True))
    @ddt.unpack
    def test_volume_that_stays_on_the_target(self, outcome_unknown, reserved):
        """The mark is kept if it may be served by the primary."""
        self.outcomes = {'v1': left(
            'no link', outcome_unknown=outcome_unknown)}
        row = self.moved(backing={'failback_in_progress': True})
        self.assertEqual({'v1': {
            'replication_status': 'error',
            'replication_extended_status': 'no link'}}, self.fail_back(row))
        self.assertEqual(('moon', reserved), (
            self.backing(row)[0], self.backing(row)[1].failback_in_progress))

    def test_volume_that_stays_and_was_not_marked(self):
        self.outcomes = {'v1': left('')}
        row = self.moved(status='error', replication_status='failover-error')
        self.assertEqual({'v1': {
            'replication_status': 'error', 'status': 'available',
            'replication_extended_status': NEVER_MADE}}, self.fail_back(row))
        self.assertNotIn('provider_id', row.writes[0])

    def test_volume_that_was_never_created(self):
        self.outcomes = {}
        update = self.fail_back(self.moved(launched_at=None))['v1']
        self.assertEqual(NEVER_MADE, update['replication_extended_status'])

    def test_name_id_is_reset_if_the_session_has_the_volume_id(self):
        self.every.activate('moon')
        row = self.moved(_name_id='n1', provider_id=None)
        self.moon.array.replication.find_many.side_effect = lambda names: \
            dict.fromkeys(['ssn-v1'])
        self.moon.resolver.asks_for_replication.return_value = True
        self.home.resolver.asks_for_replication.return_value = True
        self.fail_back(row)
        self.assertEqual([unit()], self.flow.call_args.args[2])

    # Callbacks of the flow

    @ddt.data('moon', 'home')
    def test_unmap_callback(self, name):
        side = getattr(self, name)
        self.inside = lambda unmap, reserve: unmap(
            side.array, {'cv-v1': (41, 40), 'cv-v2': (43, 42)})
        self.fail_back(self.moved())
        for one in self.moon, self.home:
            calls = [call.args for call in
                     one.detach.disconnect_volumes.mock_calls]
            self.assertEqual([([41, 43],)] if one is side else [], calls)

    def reserved(self, *rows, keys=('v1',)):
        """Call the reserve callback; return its result and the ids in rows."""
        found = []
        self.inside = lambda unmap, reserve: found.extend(
            [reserve(list(keys)), [self.backing(row) for row in rows]])
        self.fail_back(*rows)
        return found

    def test_reserve_callback(self):
        self.outcomes = {'v1': left(outcome_unknown=True)}
        keys, ((system, backing),) = self.reserved(self.moved())
        self.assertEqual(['v1'], keys)
        self.assertEqual(('moon', ArrayVolume(
            group=10, volume=1, replicated=True, failback_in_progress=True)),
            (system, backing))

    def test_only_the_requested_volumes_are_reserved(self):
        self.outcomes = {name: left(outcome_unknown=True)
                         for name in ('v1', 'v2')}
        keys, ((_, first), (_, second)) = self.reserved(
            self.moved(), self.moved('v2'), keys=('v2',))
        self.assertEqual((['v2'], False, True),
                         (keys, first.failback_in_progress,
                          second.failback_in_progress))

    def test_volume_got_a_clone_while_it_was_reserved(self):
        row = self.moved()

        def meanwhile():
            row.on_write = lambda: None
            row.meanwhile(provider_id=replicated.ids('moon', has_clones=True))
        row.on_write = meanwhile
        keys, ((_, backing),) = self.reserved(row)
        self.assertEqual((['v1'], True, True),
                         (keys, backing.failback_in_progress,
                          backing.has_clones))

    def test_volume_moved_while_it_was_reserved(self):
        row = self.moved()
        row.on_write = lambda: row.meanwhile(
            provider_id=replicated.ids('home'))
        keys, _ = self.reserved(row)
        self.assertEqual([], keys)

    def test_row_changes_repeatedly_while_it_is_reserved(self):
        row, flags = self.moved(), [False, True] * 9
        row.on_write = lambda: row.meanwhile(
            provider_id=replicated.ids('moon', has_clones=flags.pop()))
        keys, _ = self.reserved(row)
        self.assertEqual([], keys)
        self.assertEqual(10, len(row.writes))

    def test_volume_is_not_reserved_on_database_error(self):
        row = self.moved()
        row.on_write = lambda: 1 / 0
        keys, _ = self.reserved(row)
        self.assertEqual([], keys)

    def test_group_is_reserved_only_as_a_whole(self):
        group = replicated.group()
        rows = [self.moved('v1', group=group), self.moved('v2', group=group)]
        rows[0].on_write = lambda: 1 / 0
        self.outcomes = {'g1': left(outcome_unknown=True)}
        keys, objects = self.reserved(*rows, keys=('g1',))
        self.assertEqual(
            ([], True), (keys, objects[1][1].failback_in_progress))

    @ddt.data((ArrayVolume(group=20, volume=21), False, ['v1']),
              (ArrayVolume(group=20, volume=21), True, ['g1']),
              (None, False, []))
    @ddt.unpack
    def test_reserve_a_volume_without_ids(self, found, in_group, expected):
        self.every.activate('moon')
        for side in self.home, self.moon:
            side.resolver.asks_for_replication.return_value = True
        self.moon.array.volumes.find.return_value = found
        row = self.moved(provider_id=None,
                         group=replicated.group() if in_group else None)
        key = 'g1' if in_group else 'v1'
        self.outcomes = {key: left(outcome_unknown=True)}
        keys, ((_, backing),) = self.reserved(row, keys=(key,))
        self.moon.array.volumes.find.assert_called_with('cv-v1', 'rcv-v1')
        self.assertEqual(expected, keys)
        self.assertEqual(found and ArrayVolume(
            group=20, volume=21, replicated=True, shared=in_group,
            failback_in_progress=True), backing)

    def test_reserve_a_volume_whose_group_the_array_does_not_show(self):
        """It is not reserved, but raises no error."""
        self.every.activate('moon')
        for side in self.home, self.moon:
            side.resolver.asks_for_replication.return_value = True
        self.moon.array.volumes.find.side_effect = (
            exceptions.GroupNotSupported('not told'))
        keys, _ = self.reserved(self.moved(provider_id=None))
        self.assertEqual([], keys)


@ddt.ddt
class FailbackSourceTest(FailedOverCase):
    """Where the volumes that are failed back are now."""

    @ddt.data((False, False, True), (True, True, False))
    @ddt.unpack
    def test_volume_that_is_not_replicated(self, known, asks, plain):
        self.home.resolver.asks_for_replication.return_value = not asks
        row = self.moved(backing={'replicated': known})
        found = self.fail_back(row)['v1']
        self.assertEqual('disabled' if plain else 'enabled',
                         found['replication_status'])
        self.assertEqual(plain, not self.flow.called)

    @ddt.data((False, 'disabled'), (True, 'enabled'))
    @ddt.unpack
    def test_volume_without_ids(self, asks, expected):
        self.every.activate('moon')
        self.home.resolver.asks_for_replication.return_value = asks
        found = self.fail_back(self.moved(provider_id=None))['v1']
        self.assertEqual(expected, found['replication_status'])

    def test_volumes_without_ids_on_different_arrays(self):
        """One was failed over, the other is still on the primary."""
        self.every.activate('moon')
        for side in self.home, self.moon:
            side.resolver.asks_for_replication.return_value = True
        self.outcomes = {'v1': there(), 'v2': there('cv-v2')}
        found = self.fail_back(
            self.moved('v1', provider_id=None),
            self.moved('v2', provider_id=None, replication_status='enabled'))
        self.assertEqual([[unit('v1')]], [
            call.args[2] for call in self.flow.mock_calls])
        self.assertEqual('It has no replication session.',
                         found['v2']['replication_extended_status'])

    def test_unreplicated_volume_with_status_error(self):
        row = self.moved(backing={'replicated': False}, status='error',
                         replication_status='failover-error')
        self.assertEqual({'v1': {
            'status': 'available', 'replication_status': 'disabled',
            'replication_extended_status': None}}, self.fail_back(row))

    @ddt.data((True, 'error'), (False, 'disabled'))
    @ddt.unpack
    def test_group_that_is_partly_replicated(self, is_replicated, expected):
        group = replicated.group(consistent=False,
                                 is_replicated=is_replicated)
        rows = [self.moved('v1', group=group),
                self.moved('v2', group=group, backing={'replicated': False}),
                self.moved('v3', backing={'replicated': False})]
        found = self.fail_back(*rows)
        self.assertEqual(expected, found['v2']['replication_status'])
        if is_replicated:
            self.assertIn('others of its group are',
                          found['v2']['replication_extended_status'])
        self.assertEqual('disabled', found['v3']['replication_status'])

    def test_group_of_unreplicated_volumes(self):
        group = replicated.group(consistent=False)
        found = self.fail_back(self.moved(group=group,
                                          backing={'replicated': False}))
        self.assertEqual('disabled', found['v1']['replication_status'])

    def test_unknown_array_while_a_target_is_lost(self):
        """Volumes on other arrays are failed back."""
        self.mars.array.system = replicated.LostSystem()
        found = self.fail_back(self.moved(), self.volume('v2', 'venus'))
        self.assertEqual(
            ['enabled', 'error'],
            [found[key]['replication_status'] for key in ('v1', 'v2')])
        self.assertIn('gone', found['v2']['replication_extended_status'])

    def test_group_on_two_arrays(self):
        """The service was killed while it saved the new ids."""
        group = replicated.group()
        rows = [self.moved('v1', group=group),
                self.volume('v2', 'home', group=group), self.moved('v3')]
        self.outcomes = {'v3': there('cv-v3')}
        found = self.fail_back(*rows)
        for key in 'v1', 'v2':
            self.assertEqual('error', found[key]['replication_status'])
            self.assertIn('in part',
                          found[key]['replication_extended_status'])
        self.assertEqual('enabled', found['v3']['replication_status'])
        self.assertEqual([unit('v3')], self.flow.call_args.args[2])
        self.assertEqual([], rows[0].writes + rows[1].writes)

    def test_id_of_each_array_is_read_once(self):
        asked = []

        class Counting:
            known_id = ''

            @property
            def id(self):
                asked.append(1)
                return 'moon'
        self.moon.array.system = Counting()
        self.outcomes = {'v1': there(), 'v2': there('cv-v2')}
        self.fail_back(self.moved(), self.moved('v2'))
        self.assertEqual(1, len(asked))


@ddt.ddt
class OnPrimaryTest(Case):
    """Volumes that are on the primary, failed back or never moved."""

    def setUp(self):
        super().setUp()
        self.back = self.patch(flow, 'fail_back', None)
        self.again = self.patch(flow, 'protect_again', lambda *args, **more:
                                dict(self.reasons))
        self.reasons = {}
        self.session = replicated.session(state=sessions.IN_SYNC)
        self.home.array.replication.find_many.side_effect = lambda names: {
            one.name: one for one in [self.session]
            if one and one.name in names}

    def fail_back(self, *rows):
        return volume_failover.fail_back(rows, self.home, self.every, TIMEOUT)

    def test_replicated_volume(self):
        row = self.volume(replication_status='error',
                          replication_extended_status='old')
        self.assertEqual({'v1': {
            'replication_status': 'enabled',
            'replication_extended_status': None}}, self.fail_back(row))
        self.assertEqual('enabled', row.stored['replication_status'])
        self.assertNotIn('provider_id', row.writes[0])
        self.again.assert_not_called()
        self.moon.check.assert_not_called()
        self.back.assert_not_called()

    def test_status_error_of_an_earlier_failover_is_cleared(self):
        row = self.volume(status='error',
                          replication_status='failover-error')
        self.assertEqual('available', self.fail_back(row)['v1']['status'])

    @ddt.data({'state': sessions.SUSPENDED},
              {'state': sessions.IN_SYNC, 'role': sessions.TARGET})
    def test_session_that_does_not_run(self, values):
        self.session = replicated.session(why='no link', **values)
        update = self.fail_back(self.volume())['v1']
        self.assertEqual('error', update['replication_status'])
        self.assertEqual(
            f'Replication session ssn-v1 is {self.session.state} as '
            f'{self.session.role}. no link',
            update['replication_extended_status'])
        self.assertEqual([
            (self.home.array, side.array, [unit()])
            for side in (self.moon, self.mars)],
            [call.args for call in self.again.mock_calls])

    def test_session_with_the_name_of_the_peer(self):
        self.session = replicated.session('rssn-v1', state=sessions.IN_SYNC)
        self.assertEqual('enabled', self.fail_back(self.volume())['v1'][
            'replication_status'])

    def test_volume_without_a_session(self):
        self.session = None
        self.assertEqual('It has no replication session.', self.fail_back(
            self.volume())['v1']['replication_extended_status'])

    def test_replication_is_restarted(self):
        self.session, self.reasons = replicated.session(), {'v1': ''}
        self.assertEqual('enabled', self.fail_back(self.volume())['v1'][
            'replication_status'])
        # Then there is nothing left to do for the second target.
        self.again.assert_called_once()
        self.mars.check.assert_not_called()

    def test_replication_cannot_be_restarted(self):
        self.session, self.reasons = replicated.session(), {'v1': 'full'}
        self.assertEqual('full', self.fail_back(self.volume())['v1'][
            'replication_extended_status'])

    def test_only_volumes_that_are_not_replicated_are_restarted(self):
        self.fail_back(self.volume(), self.volume('v2'))
        self.assertEqual([unit('v2')], self.again.mock_calls[0].args[2])

    @ddt.data(rest.Unreachable('gone'), exceptions.ArrayNotSupported('old'))
    def test_target_that_cannot_be_used(self, error):
        self.session = replicated.session()
        self.moon.check.side_effect = error
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.fail_back(self.volume())
        self.assertIn(str(error), logs.output[0])
        call, = self.again.mock_calls
        self.assertIs(self.mars.array, call.args[1])

    def test_copies_are_unmapped_before_they_are_overwritten(self):
        self.session = None
        self.fail_back(self.volume())
        unmap = self.again.mock_calls[0].kwargs['unmap']
        unmap(self.moon.array, {'cv-v1': (41, 40)})
        self.moon.detach.disconnect_volumes.assert_called_once_with([41])
        unmap(self.home.array, {'cv-v1': (31, 30)})
        self.home.detach.disconnect_volumes.assert_called_once_with([31])

    def test_volume_that_was_never_created(self):
        self.session = None
        self.assertEqual(NEVER_MADE, self.fail_back(self.volume(
            launched_at=None))['v1']['replication_extended_status'])
        self.home.array.replication.find_many.assert_not_called()

    def test_name_id_is_reset_if_the_session_has_the_volume_id(self):
        self.home.resolver.asks_for_replication.return_value = True
        row = self.volume(system_id=None, _name_id='n1')
        self.fail_back(row)
        self.assertIn({'_name_id': None}, row.writes)
