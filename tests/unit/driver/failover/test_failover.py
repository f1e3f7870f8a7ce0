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

"""Failover of the back end and of groups; moving volumes is replaced."""

import ddt
import testtools

from cinder import exception

from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.failover import arrays
from cinder_k2.driver.failover import failover
from cinder_k2.driver.failover import volumes as volume_failover
from cinder_k2 import exceptions
from cinder_k2.flows import failover as flow
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import replicated

LOG = failover.LOG.logger
TIMEOUT = 77.0
MOVED = {'replication_status': 'failed-over', 'provider_id': 'new'}
BACK = {'replication_status': 'enabled', 'replication_extended_status': None}
STAYED = {'replication_status': 'failover-error', 'status': 'error',
          'replication_extended_status': 'It was never made.'}
IN_ERROR = {'replication_status': 'error',
            'replication_extended_status': 'half'}


class Case(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = replicated.operations(replicated.array('home'))
        self.moon = replicated.operations(replicated.array('moon'))
        self.mars = replicated.operations(replicated.array('mars'))
        self.rows = autospec.Double(backend_rows.BackendRows)
        self.rows.is_failing_over.return_value = False
        self.every = self.configured(moon=self.moon, mars=self.mars)
        self.over = self.patch('fail_over', lambda volumes, there, every: {
            volume.id: dict(MOVED) for volume in volumes})
        self.back = self.patch(
            'fail_back', lambda volumes, home, every, timeout: {
                volume.id: dict(BACK) for volume in volumes})
        self.volumes = [replicated.volume('v1'), replicated.volume('v2')]

    def configured(self, active=None, **targets):
        self.every = arrays.ArraySet(self.home, targets, active)
        self.failover = failover.Failover(self.every, self.rows, TIMEOUT)
        return self.every

    def patch(self, name, effect):
        return autospec.patched(self, volume_failover, name,
                                side_effect=effect)

    def refused(self, call, *args):
        return str(self.assertRaises(exception.InvalidReplicationTarget,
                                     call, *args))

    def assert_reason(self, reason, text):
        self.assertEqual(
            str(exception.InvalidReplicationTarget(reason=reason)), text)

    def host(self, secondary_id=None, groups=None):
        return self.failover.failover_host(None, self.volumes, secondary_id,
                                           groups)


@ddt.ddt
class FailoverHostTest(Case):

    def test_failover(self):
        active, volumes, groups = self.host('moon')
        self.assertEqual('moon', active)
        self.assertEqual([{'volume_id': 'v1', 'updates': MOVED},
                          {'volume_id': 'v2', 'updates': MOVED}], volumes)
        self.assertEqual([], groups)
        self.over.assert_called_once_with(self.volumes, self.moon, self.every)
        self.back.assert_not_called()
        self.assertEqual('moon', self.every.active_id)

    def test_failback(self):
        self.every.activate('moon')
        active, volumes, _ = self.host(config.PRIMARY_ID)
        self.assertEqual(config.PRIMARY_ID, active)
        self.assertEqual([BACK, BACK], [one['updates'] for one in volumes])
        self.back.assert_called_once_with(self.volumes, self.home, self.every,
                                          TIMEOUT)
        self.over.assert_not_called()
        self.assertEqual(config.PRIMARY_ID, self.every.active_id)

    def test_failover_of_a_cluster_activates_on_completion(self):
        active, _, _ = self.failover.failover(None, self.volumes, 'moon')
        self.assertEqual('moon', active)
        self.assertEqual(config.PRIMARY_ID, self.every.active_id)
        self.failover.failover_completed(None, 'moon')
        self.assertEqual('moon', self.every.active_id)
        self.failover.failover_completed(None)
        self.assertEqual(config.PRIMARY_ID, self.every.active_id)

    def test_failover_completed_with_an_unknown_target(self):
        self.assert_reason(
            'venus is no backend_id of a replication_device; use one of: '
            'moon, mars, or "default" to fail back',
            self.refused(self.failover.failover_completed, None, 'venus'))

    @ddt.data(rest.Unreachable('gone'), exceptions.ArrayNotSupported('old'))
    def test_target_that_cannot_take_over(self, error):
        self.over.side_effect = error
        self.assert_reason(
            'the array at moon.example.org cannot take over; try again when '
            f'it can: {error}', self.refused(self.host, 'moon'))
        self.assertEqual(config.PRIMARY_ID, self.every.active_id)

    def test_unexpected_error_is_raised(self):
        self.over.side_effect = KeyError
        self.assertRaises(KeyError, self.host, 'moon')

    def test_target_is_the_primary_at_another_address(self):
        self.moon.array.system.id = 'home'
        self.assert_reason(
            'the array at moon.example.org is that at home.example.org; '
            'correct replication_device', self.refused(self.host, 'moon'))
        self.over.assert_not_called()

    def test_lost_primary(self):
        """Its id is not read."""
        self.home.array.system = replicated.LostSystem()
        self.assertEqual('moon', self.host('moon')[0])

    def test_lost_target(self):
        self.moon.array.system = replicated.LostSystem()
        self.assertIn('cannot take over', self.refused(self.host, 'moon'))
        self.over.assert_not_called()

    def test_result_of_each_volume_is_logged(self):
        self.over.side_effect = lambda volumes, there, every: {
            'v1': dict(MOVED), 'v2': dict(STAYED)}
        with self.assertLogs(LOG, 'INFO') as logs:
            self.host('moon')
        self.assertEqual(
            ['2 volumes are to be served by the array at moon.example.org.',
             'Volume v2: It was never made.'],
            [one.getMessage() for one in logs.records])
        self.assertEqual('ERROR', logs.records[1].levelname)


@ddt.ddt
class TargetTest(Case):

    def setUp(self):
        super().setUp()
        self.patch('copied_to', lambda system, volumes: [
            volume for volume in volumes if volume.on == system])
        self.patch('units', lambda volumes: [
            flow.ReplicationUnit(
                one.id, (f'ssn-{one.id}', f'rssn-{one.id}'), ())
            for one in volumes])
        for volume, on in zip(self.volumes, ('moon', 'mars')):
            volume.on = on
        self.volumes.append(replicated.volume('v3'))
        self.volumes[2].on = 'mars'
        for side in self.moon, self.mars:
            side.array.replication.find_many.side_effect = lambda names: {
                name: name for name in names if name.startswith('r')}

    def test_target_with_most_sessions_is_chosen(self):
        self.assertEqual('mars', self.host()[0])
        self.moon.array.replication.find_many.assert_called_once_with(
            ['ssn-v1', 'rssn-v1'])

    def test_only_target_is_chosen_without_a_call(self):
        self.configured(moon=self.moon)
        self.assertEqual('moon', self.host()[0])
        self.moon.array.replication.find_many.assert_not_called()

    @ddt.data(rest.Unreachable('gone'), exceptions.ArrayNotSupported('old'))
    def test_target_that_does_not_answer(self, error):
        """A target without any session is preferred to it."""
        self.mars.array.replication.find_many.side_effect = error
        self.moon.array.replication.find_many.side_effect = lambda names: {}
        self.configured(mars=self.mars, moon=self.moon)
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertEqual('moon', self.host()[0])
        self.assertIn('Replication target mars does not answer',
                      logs.output[0])

    def test_first_target_is_chosen_on_a_tie(self):
        self.volumes.pop()
        self.assertEqual('moon', self.host()[0])

    def test_back_end_without_targets(self):
        self.configured()
        for wanted in None, 'moon', config.PRIMARY_ID:
            self.assert_reason(
                'the back end has no replication_device in cinder.conf',
                self.refused(self.host, wanted))

    def test_unknown_target(self):
        self.assert_reason(
            'venus is no backend_id of a replication_device; use one of: '
            'moon, mars, or "default" to fail back',
            self.refused(self.host, 'venus'))
        self.over.assert_not_called()

    def test_second_failover_requires_a_target(self):
        self.every.activate('moon')
        self.assert_reason(
            'the back end was failed over to moon; name a target for volumes '
            'that were left, or "default" to fail back',
            self.refused(self.host))
        self.assertEqual('mars', self.host('mars')[0])

    def test_failover_to_the_active_array(self):
        """It moves the volumes that an earlier failover left behind."""
        self.every.activate('moon')
        self.assertEqual('moon', self.host('moon')[0])
        self.over.assert_called_once()


@ddt.ddt
class FailoverHostGroupsTest(Case):
    """The group updates that failover_host returns."""

    def update(self, *updates, **values):
        group = replicated.group(**values)
        self.volumes = [replicated.volume(f'v{number}', group=group)
                        for number in range(len(updates))]
        self.over.side_effect = lambda volumes, there, every: {
            'other': dict(STAYED), **{
                volume.id: dict(update)
                for volume, update in zip(self.volumes, updates)}}
        self.volumes.append(replicated.volume('other'))
        _, _, (found,) = self.host('moon', [group])
        self.assertEqual('g1', found['group_id'])
        self.group = group
        return found['updates']

    @ddt.data(((MOVED, MOVED), 'failed-over'), ((BACK, BACK), 'enabled'),
              ((MOVED, STAYED), 'failover-error'), ((BACK, IN_ERROR), 'error'),
              ((IN_ERROR, STAYED), 'failover-error'))
    @ddt.unpack
    def test_worst_status_of_its_volumes(self, updates, expected):
        self.assertEqual({'replication_status': expected},
                         self.update(*updates))
        self.assertEqual([{'replication_status': expected}],
                         self.group.writes)

    @ddt.data((None, 'disabled'), ('disabled', 'disabled'),
              ('not-capable', 'disabled'), ('enabled', 'failed-over'))
    @ddt.unpack
    def test_group_without_volumes(self, status, expected):
        """Cinder replaces "failed-over" by the status after a failback."""
        self.assertEqual({'replication_status': expected},
                         self.update(replication_status=status))
        self.assertEqual([], self.group.writes)

    def test_group_with_volumes_is_replicated(self):
        self.assertEqual({'replication_status': 'failed-over'},
                         self.update(MOVED, replication_status=None))

    @ddt.data(('error', 'failover-error', True),
              ('error', 'enabled', False),
              ('available', 'failover-error', False))
    @ddt.unpack
    def test_status_error_of_an_earlier_failover_is_cleared(
            self, status, replication, repaired):
        found = self.update(MOVED, status=status,
                            replication_status=replication)
        self.assertEqual({'replication_status': 'failed-over', **(
            {'status': 'available'} if repaired else {})}, found)

    def test_group_stays_in_error(self):
        self.assertNotIn('status', self.update(
            STAYED, status='error', replication_status='failover-error'))

    def test_database_error(self):
        group = replicated.group()
        group.on_write = lambda: 1 / 0
        self.volumes = [replicated.volume(group=group)]
        with self.assertLogs(LOG, 'ERROR') as logs:
            _, _, groups = self.host('moon', [group])
        self.assertIn('group g1 was not changed', logs.output[0])
        self.assertEqual([{'group_id': 'g1', 'updates': {
            'replication_status': 'failed-over'}}], groups)

    def test_several_groups(self):
        _, _, groups = self.host('moon', [
            replicated.group('g1'), replicated.group('g2')])
        self.assertEqual(['g1', 'g2'], [one['group_id'] for one in groups])


@ddt.ddt
class FailoverReplicationTest(Case):
    """failover_replication moves one group only."""

    def setUp(self):
        super().setUp()
        self.group = replicated.group()

    def move(self, target='moon'):
        return self.failover.failover_replication(None, self.group,
                                                  self.volumes, target)

    def test_failover(self):
        group, volumes = self.move()
        self.assertEqual({'replication_status': 'failed-over'}, group)
        self.assertEqual([{'id': 'v1', **MOVED}, {'id': 'v2', **MOVED}],
                         volumes)
        self.over.assert_called_once_with(self.volumes, self.moon, self.every)
        # Cinder saves the update, and the active array does not change.
        self.assertEqual([], self.group.writes)
        self.assertEqual(config.PRIMARY_ID, self.every.active_id)

    def test_failback(self):
        group, volumes = self.move(config.PRIMARY_ID)
        self.assertEqual({'replication_status': 'enabled'}, group)
        self.back.assert_called_once_with(self.volumes, self.home, self.every,
                                          TIMEOUT)

    def test_default_target(self):
        self.configured(moon=self.moon)
        self.move(None)
        self.over.assert_called_once_with(self.volumes, self.moon, self.every)

    def test_volume_that_could_not_be_moved(self):
        """Cinder treats each status but "error" as success."""
        self.over.side_effect = lambda volumes, there, every: {
            'v1': dict(MOVED), 'v2': dict(STAYED)}
        group, volumes = self.move()
        self.assertEqual({'replication_status': 'error'}, group)
        self.assertEqual([
            {'id': 'v1', **MOVED},
            {'id': 'v2', 'replication_status': 'error',
             'replication_extended_status': 'It was never made.'}], volumes)

    def test_refused_during_a_failover_of_the_back_end(self):
        self.rows.is_failing_over.return_value = True
        group, volumes = self.move()
        self.assertEqual({'replication_status': 'error'}, group)
        self.assertIn('is in progress',
                      volumes[0]['replication_extended_status'])
        self.over.assert_not_called()

    def test_target_that_cannot_take_over(self):
        """If it raised, Cinder would set all volumes to error."""
        self.over.side_effect = rest.Unreachable('gone')
        with self.assertLogs(LOG, 'ERROR') as logs:
            group, volumes = self.move()
        self.assertEqual({'replication_status': 'error'}, group)
        self.assertEqual(['v1', 'v2'], [one['id'] for one in volumes])
        for update in volumes:
            self.assertEqual('error', update['replication_status'])
            self.assertIn('cannot take over',
                          update['replication_extended_status'])
        self.assertIn('Group g1: ', logs.output[0])
