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

"""The replication monitor, with array, peer and database replaced."""

import dataclasses

import ddt
import testtools

from cinder_k2.array import ArrayVolume
from cinder_k2.array import replication as sessions
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import replication_monitor
from cinder_k2.driver.operations import resolver
from cinder_k2.flows import replication as flow
from cinder_k2 import rest
from tests.unit.driver import autospec
from tests.unit.driver import replicated
from tests.unit.rest import scripted

LOG = replication_monitor.LOG.logger
IN_SYNC = sessions.IN_SYNC
LONG = 900
WHY_PAUSED = ('Replication session ssn-v1 on the array at here.example.org '
              'is suspended')
KNOWN = ArrayVolume(group=10, volume=1, replicated=True)


def peer_session(name='rssn-v1', **values):
    """Return the session as the peer reports it, in role target."""
    return replicated.session(name, **{
        'number': 70, 'role': sessions.TARGET, 'state': IN_SYNC, **values})


def running(name='ssn-v1', number=7):
    return replicated.session(name, number, state=IN_SYNC)


class Case(testtools.TestCase):
    """An array with a peer, and volume v1 whose session is suspended."""

    def setUp(self):
        super().setUp()
        replication_monitor.TOLD.clear()
        self.here = replicated.array()
        self.there = replicated.array('there')
        self.found = [replicated.session()]
        self.here.replication.all.side_effect = lambda: list(self.found)
        self.peer_sessions = [peer_session()]
        self.there.replication.find_many.side_effect = lambda names: {
            one.name: one for one in self.peer_sessions if one.name in names}
        self.here.replication.find_many.side_effect = lambda names: {
            one.name: one for one in self.found if one.name in names}
        self.refused = {}
        self.here.replication.command_many.side_effect = self.command
        self.row = replicated.volume()
        self.rows = [self.row]
        self.database = autospec.Double(backend_rows.BackendRows)
        self.database.is_failing_over.return_value = False
        self.database.volumes.side_effect = self.matching
        self.peer_array = rest.PeerArray(
            id=5, name='moon', mgmt_connectivity_state='ok')
        self.client = autospec.Double(
            rest.Client, clock=scripted.FakeClock(),
            peer_arrays=autospec.Double(rest.Collection))
        self.client.peer_arrays.search.side_effect = lambda: [self.peer_array]
        self.peer = replicated.peer(self.there)
        self.resolver = autospec.Double(resolver.Resolver,
                                        peers={'there': self.peer})
        self.resolver.known.return_value = KNOWN
        self.sessions = autospec.Double(replication.Replication)
        link = autospec.Double(flow.Link)
        link.is_number.side_effect = lambda number: number == 5
        self.sessions.link_to.return_value = link
        self.monitor = self.fresh()

    def fresh(self):
        """Return the monitor of a service that has just started."""
        return replication_monitor.ReplicationMonitor(
            self.here, self.client, self.resolver, self.sessions,
            self.database)

    def matching(self, filters):
        return [row for row in self.rows if all(
            row.stored[key] in value if isinstance(value, list)
            else row.stored[key] == value for key, value in filters.items())]

    def command(self, ready, state):
        """Change the state of sessions, and return those that are refused."""
        self.found = [dataclasses.replace(one, state=state)
                      if one.id in ready and one.id not in self.refused
                      else one for one in self.found]
        return {number: why for number, why in self.refused.items()
                if number in ready}

    def commands(self):
        return [(sorted(call.args[0]), call.args[1]) for call in
                self.here.replication.command_many.mock_calls]

    def watch(self):
        return self.monitor.watch_replication()

    def wait(self, seconds):
        self.client.clock.sleep(seconds)

    def add_second(self):
        """Add volume v2, whose session is suspended as well."""
        self.rows.append(replicated.volume('v2'))
        self.found.append(replicated.session('ssn-v2', 8))
        self.peer_sessions.append(peer_session('rssn-v2', number=80))


@ddt.ddt
class StatusTest(Case):

    def status(self, *groups):
        return self.monitor.get_replication_error_status(None, groups)

    def reported(self):
        groups, volumes = self.status()
        return [update['volume_id'] for update in volumes]

    def test_volume(self):
        self.assertEqual(([], [
            {'volume_id': 'v1', 'replication_status': 'error',
             'replication_extended_status': WHY_PAUSED}]), self.status())
        self.assertEqual(
            [{key: ['v1']} for key in ('id', '_name_id', 'group_id')],
            [call.args[0] for call in self.database.volumes.mock_calls])

    def test_volume_that_was_never_created_does_not_hide_others(self):
        group = replicated.group()
        self.rows = [replicated.volume('v1', group=group, launched_at=None),
                     replicated.volume('v2', group=group)]
        self.found = [replicated.session('ssn-g1')]
        self.assertEqual(['v2'], self.reported())

    def test_reason_given_by_the_array(self):
        self.found = [replicated.session(why='link down')]
        _, (update,) = self.status()
        self.assertEqual(f'{WHY_PAUSED} (link down)',
                         update['replication_extended_status'])

    def test_group(self):
        group, other = replicated.group(), replicated.group('g2')
        self.rows = [replicated.volume('v1', group=group),
                     replicated.volume('v2', group=group)]
        self.found = [replicated.session('ssn-g1')]
        groups, volumes = self.status(group, other)
        self.assertEqual([{'group_id': 'g1', 'replication_status': 'error'}],
                         groups)
        self.assertEqual(['v1', 'v2'],
                         [update['volume_id'] for update in volumes])

    def test_migrated_volume(self):
        """Sessions are named after name_id, which may be another's id."""
        self.rows = [replicated.volume('v2', _name_id='v1'),
                     replicated.volume('v1', _name_id='v3')]
        self.assertEqual(['v2'], self.reported())

    @ddt.data({'role': sessions.TARGET}, {'state': IN_SYNC},
              {'state': sessions.IDLE}, {'name': 'ssn-other'})
    def test_session_without_an_error(self, values):
        self.found = [replicated.session(**values)]
        self.assertEqual([], self.reported())

    @ddt.data({'launched_at': None}, {'replication_status': 'failed-over'},
              {'replication_status': 'enabling'}, {'status': 'extending'},
              {'migration_status': 'migrating'},
              {'provider_id': replicated.ids('there')})
    def test_volume_that_is_not_reported(self, values):
        self.rows = [replicated.volume(**values)]
        self.assertEqual([], self.reported())

    @ddt.data({'replication_status': 'error'}, {'status': 'in-use'},
              {'status': 'error'}, {'status': 'error_extending'},
              {'migration_status': 'error'}, {'migration_status': 'success'},
              {'provider_id': None})
    def test_volume_that_is_reported(self, values):
        self.rows = [replicated.volume(**values)]
        self.assertEqual(['v1'], self.reported())

    def test_nothing_is_reported_during_a_failover(self):
        self.database.is_failing_over.return_value = True
        self.assertEqual([], self.reported())

    def test_busy_volume_suppresses_its_group(self):
        group = replicated.group()
        self.rows = [replicated.volume('v1', group=group),
                     replicated.volume('v2', group=group, status='extending')]
        self.found = [replicated.session('ssn-g1')]
        self.assertEqual([], self.reported())

    def test_operation_of_a_killed_service(self):
        self.rows = [replicated.volume(status='extending')]
        self.assertEqual([], self.reported())
        self.wait(LONG - 1)
        self.assertEqual([], self.reported())
        self.wait(1)
        self.assertEqual(['v1'], self.reported())

    def test_session_that_ran_in_between(self):
        self.add_second()
        self.rows = [replicated.volume(status='extending')]
        paused, self.found = self.found, self.found[1:]
        self.status()
        self.found = paused
        self.wait(LONG - 1)
        self.status()
        self.found = paused[1:]
        self.status()
        self.found = paused
        self.wait(LONG - 1)
        self.assertEqual([], self.reported())
        self.wait(LONG)
        self.assertEqual(['v1'], self.reported())


@ddt.ddt
class ResumeTest(Case):

    def test_all_sessions_run(self):
        """One call to the array; the rows of the volumes are not read."""
        self.found = [running()]
        self.watch()
        self.database.volumes.reset_mock()
        self.here.replication.all.reset_mock()
        with self.assertNoLogs(LOG):
            self.assertIs(False, self.watch())
        self.here.replication.all.assert_called_once_with()
        self.client.peer_arrays.search.assert_not_called()
        self.database.is_failing_over.assert_not_called()
        self.assertEqual([{'replication_status': 'error'}], [
            call.args[0] for call in self.database.volumes.mock_calls])

    def test_session_is_resumed(self):
        with self.assertLogs(LOG, 'INFO') as logs:
            self.assertIs(False, self.watch())
        self.assertEqual([([7], IN_SYNC)], self.commands())
        self.there.replication.find_many.assert_called_once_with(['rssn-v1'])
        self.sessions.link_to.assert_called_once_with(self.peer)
        self.assertEqual([f'{WHY_PAUSED}. It is resumed.'],
                         [one.getMessage() for one in logs.records])

    def test_peer_is_read_with_a_short_deadline(self):
        self.there.replication.find_many.side_effect = lambda names: \
            self.assertEqual(['probe_deadline'], self.there.inside) or {}
        self.assertIs(True, self.watch())

    @ddt.data({'status': 'error'}, {'provider_id': replicated.ids('there')})
    def test_volume_whose_session_must_not_run(self, values):
        self.rows = [replicated.volume(**values)]
        self.watch()
        self.assertEqual([], self.commands())
        self.client.peer_arrays.search.assert_not_called()

    def test_volume_being_failed_back_is_not_resumed(self):
        self.resolver.known.return_value = dataclasses.replace(
            KNOWN, failback_in_progress=True)
        self.assertIs(True, self.watch())
        self.assertEqual([], self.commands())

    def test_volume_without_ids_is_resumed(self):
        self.resolver.known.return_value = None
        self.assertIs(False, self.watch())

    def test_volume_that_must_not_run_blocks_its_group(self):
        group = replicated.group()
        self.rows = [replicated.volume('v1', group=group),
                     replicated.volume('v2', group=group, status='error')]
        self.found = [replicated.session('ssn-g1')]
        self.peer_sessions = [peer_session('rssn-g1')]
        self.assertIs(True, self.watch())
        self.assertEqual([], self.commands())

    def test_session_of_a_volume_on_another_array_is_ignored(self):
        self.rows = [replicated.volume(system_id='there')]
        with self.assertNoLogs(LOG):
            self.assertIs(False, self.watch())

    @ddt.data({'role': sessions.SOURCE}, {'state': sessions.FAILED_OVER},
              {'state': sessions.IDLE}, {'peer_session': 9},
              {'name': 'rssn-other'})
    def test_peer_that_may_have_been_failed_over_to(self, values):
        self.peer_sessions = [peer_session(**values)]
        self.assertIs(True, self.watch())
        self.assertEqual([], self.commands())

    @ddt.data({'state': sessions.SUSPENDED}, {'peer_session': 7})
    def test_peer_that_is_ready(self, values):
        self.peer_sessions = [peer_session(**values)]
        self.assertIs(False, self.watch())

    def test_only_sessions_with_the_peer_are_resumed(self):
        self.add_second()
        self.found[1] = replicated.session('ssn-v2', 8, peer=6)
        self.assertIs(True, self.watch())
        self.assertEqual([([7], IN_SYNC)], self.commands())

    @ddt.data({'peer': 6}, {'peer': None})
    def test_session_with_an_unknown_peer(self, values):
        self.found = [replicated.session(**values)]
        self.assertIs(True, self.watch())
        self.assertEqual([], self.commands())
        self.there.replication.find_many.assert_not_called()

    def test_unreachable_peer(self):
        look = self.there.replication.find_many.side_effect
        self.there.replication.find_many.side_effect = rest.Unreachable('gone')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertIs(True, self.watch())
            self.assertIs(True, self.watch())
        warning, = [one.getMessage() for one in logs.records
                    if one.levelname == 'WARNING']
        self.assertIn('Suspended sessions are not resumed: ', warning)
        self.assertIn('gone', warning)
        self.assertEqual([], self.commands())
        self.there.replication.find_many.side_effect = look
        self.watch()
        self.found = [replicated.session()]
        self.there.replication.find_many.side_effect = rest.Unreachable('off')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.watch()
        self.assertIn('off', logs.output[0])

    def test_unreachable_array(self):
        self.here.replication.all.side_effect = rest.Unreachable('gone')
        self.assertRaises(rest.Unreachable, self.watch)

    def test_refusal_is_logged_once(self):
        self.refused = {7: 'no link'}
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertIs(True, self.watch())
            self.assertIs(True, self.watch())
        self.assertEqual(
            [f'{WHY_PAUSED}, and cannot be resumed: no link',
             f'{WHY_PAUSED}: nothing is copied.'],
            [one.getMessage() for one in logs.records])
        self.assertEqual(2, len(self.commands()))

    def test_refusal_is_logged_again_for_a_new_suspension(self):
        self.refused = {7: 'no link'}
        self.watch()
        self.refused = {}
        self.watch()
        self.found, self.refused = [replicated.session()], {7: 'no room'}
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.watch()
        self.assertIn('no room', logs.output[0])

    def test_refusal_is_logged_again_after_the_session_ran(self):
        self.refused = {7: 'no link'}
        self.watch()
        self.add_second()
        self.found = self.found[1:]
        self.watch()
        self.found.append(replicated.session())
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.watch()
        self.assertIn('no link', logs.output[0])

    def test_one_of_two_is_refused(self):
        self.add_second()
        self.refused = {7: 'no'}
        with self.assertLogs(LOG, 'INFO') as logs:
            self.assertIs(True, self.watch())
        self.assertEqual([([7, 8], IN_SYNC)], self.commands())
        self.assertEqual(running('ssn-v2', 8), self.found[1])
        self.assertIn('ssn-v2 on the array at here.example.org is '
                      'suspended. It is resumed.', logs.output[1])


class LinkTest(Case):
    """The array reports that it cannot reach its peer (REP-19)."""

    def setUp(self):
        super().setUp()
        self.peer_array = rest.PeerArray(
            id=5, name='moon', mgmt_connectivity_state='lost' * 20)
        self.add_second()

    def test_others_are_resumed_after_the_first_one(self):
        self.rows.append(replicated.volume('v3'))
        self.found.append(replicated.session('ssn-v3', 9))
        self.peer_sessions.append(peer_session('rssn-v3', number=90))
        self.assertIs(False, self.watch())
        self.assertEqual([([8], IN_SYNC), ([7, 9], IN_SYNC)], self.commands())

    def test_no_session_that_can_be_resumed(self):
        self.peer_sessions = []
        self.assertIs(True, self.watch())
        self.assertEqual([], self.commands())

    def test_others_are_not_resumed_after_a_refusal(self):
        """The next time, another one is tried first."""
        self.refused = {7: 'no link', 8: 'no link'}
        for _ in range(3):
            self.assertIs(True, self.watch())
        self.assertEqual([([8], IN_SYNC), ([7], IN_SYNC), ([8], IN_SYNC)],
                         self.commands())
        self.assertEqual(3, self.here.replication.all.call_count)

    def test_sessions_are_read_again_after_the_first_one(self):
        self.refused = {7: 'no link'}
        self.watch()
        self.assertEqual(2, self.here.replication.all.call_count)

    def test_single_session(self):
        self.found, self.rows = self.found[:1], self.rows[:1]
        self.assertIs(False, self.watch())
        self.assertEqual([([7], IN_SYNC)], self.commands())

    def test_link_state_is_logged_once(self):
        self.refused = {7: 'no link', 8: 'no link'}
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.watch()
            self.watch()
        words = [one.getMessage() for one in logs.records
                 if 'not ok' in one.getMessage()]
        self.assertEqual(1, len(words))
        self.assertIn(f'here.example.org says that the link to its '
                      f'replication peer moon is {"lost" * 15},', words[0])
        self.peer_array = rest.PeerArray(
            id=5, name='moon', mgmt_connectivity_state='slow')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.watch()
        self.assertIn('is slow, not ok', logs.output[0])


@ddt.ddt
class TransitionTest(Case):

    def test_suspension_is_logged_once(self):
        self.peer_sessions = []
        with self.assertLogs(LOG, 'INFO') as logs:
            self.assertIs(True, self.watch())
            self.assertIs(True, self.watch())
        self.assertEqual([f'{WHY_PAUSED}: nothing is copied.'],
                         [one.getMessage() for one in logs.records])
        self.assertEqual('ERROR', logs.records[0].levelname)

    def test_end_of_suspension_is_logged_once(self):
        self.peer_sessions = []
        self.watch()
        self.found = [running()]
        with self.assertLogs(LOG, 'INFO') as logs:
            self.assertIs(False, self.watch())
            self.assertIs(False, self.watch())
        self.assertEqual(
            ['Replication session ssn-v1 on the array at here.example.org '
             'is not suspended any more.'],
            [one.getMessage() for one in logs.records])

    def test_replication_status_is_reset(self):
        self.found = [running()]
        self.row = replicated.volume(
            replication_status='error',
            replication_extended_status='suspended')
        self.rows = [self.row]
        self.watch()
        self.assertEqual([{'replication_status': 'enabled',
                           'replication_extended_status': None}],
                         self.row.writes)
        self.assertEqual('enabled', self.row.stored['replication_status'])

    @ddt.data({'status': 'error'}, {'provider_id': replicated.ids('there')})
    def test_volume_whose_replication_status_is_not_reset(self, values):
        self.found = [running()]
        self.row = replicated.volume(replication_status='error', **values)
        self.rows = [self.row]
        self.watch()
        self.assertEqual([], self.row.writes)

    @ddt.data({'role': sessions.TARGET}, {'state': sessions.IDLE},
              {'name': 'ssn-v2'})
    def test_session_that_does_not_reset_the_replication_status(self, values):
        self.found = [replicated.session(**{'state': IN_SYNC, **values})]
        self.row = replicated.volume(replication_status='error')
        self.rows = [self.row]
        self.watch()
        self.assertEqual([], self.row.writes)

    def test_replication_status_is_not_reset_during_a_failover(self):
        self.found = [running()]
        self.database.is_failing_over.return_value = True
        self.row = replicated.volume(replication_status='error')
        self.rows = [self.row]
        self.watch()
        self.assertEqual([], self.row.writes)

    def test_replication_status_is_not_reset_if_the_row_changed(self):
        self.found = [running()]
        self.row = replicated.volume(replication_status='error')
        self.rows = [self.row]
        self.row.on_write = lambda: self.row.meanwhile(status='deleting')
        self.watch()
        self.assertEqual('error', self.row.stored['replication_status'])

    def test_group_is_reset_with_its_last_volume(self):
        group = replicated.group(replication_status='error')
        self.rows = group.volumes = group.stored['volumes'] = [
            replicated.volume('v1', group=group, replication_status='error'),
            replicated.volume('v2', group=group, replication_status='error',
                              status='error')]
        self.found = [running('ssn-g1')]
        self.watch()
        self.assertEqual([], group.writes)
        self.rows[1].__dict__.update(status='available')
        self.rows[1].meanwhile(status='available')
        self.watch()
        self.assertEqual([{'replication_status': 'enabled'}], group.writes)
        self.assertEqual('enabled', group.stored['replication_status'])


@ddt.ddt
class MissingTest(Case):
    """A volume with replication enabled in Cinder has no session."""

    def setUp(self):
        super().setUp()
        self.found = []

    def reported(self):
        """Return whether the log says that v1 is not replicated."""
        with self.assertLogs(LOG, 'DEBUG') as logs:
            LOG.debug('a look')
            self.assertIs(False, self.watch())
        return any('Volume v1 is not replicated' in text
                   for text in logs.output)

    def test_missing_session(self):
        self.assertTrue(self.reported())
        update, = self.row.writes
        self.assertEqual('error', update['replication_status'])
        self.assertIn('here.example.org has no replication session',
                      update['replication_extended_status'])
        self.here.replication.find_many.assert_called_once_with(
            ['ssn-v1', 'rssn-v1'])
        self.assertFalse(self.reported())

    def test_idle_session(self):
        self.found = [replicated.session(state=sessions.IDLE)]
        self.assertTrue(self.reported())

    @ddt.data({'state': IN_SYNC}, {'state': sessions.FAILED_OVER},
              {'state': IN_SYNC, 'role': sessions.TARGET},
              {'state': IN_SYNC, 'name': 'rssn-v1'})
    def test_existing_session(self, values):
        self.found = [replicated.session(**values)]
        self.assertFalse(self.reported())
        self.here.replication.find_many.assert_not_called()

    def test_session_that_was_just_created(self):
        self.here.replication.find_many.side_effect = None
        self.here.replication.find_many.return_value = {'ssn-v1': running()}
        self.assertFalse(self.reported())
        self.assertEqual([], self.row.writes)

    def test_session_that_is_still_idle(self):
        self.here.replication.find_many.side_effect = None
        self.here.replication.find_many.return_value = {
            'ssn-v1': replicated.session(state=sessions.IDLE)}
        self.assertTrue(self.reported())

    @ddt.data(None, dataclasses.replace(KNOWN, failback_in_progress=True))
    def test_volume_on_another_array_or_being_failed_back(self, known):
        self.resolver.known.return_value = known
        self.assertFalse(self.reported())

    def test_volume_whose_ids_are_not_marked_as_replicated(self):
        """The service was killed before Cinder saved the status."""
        self.resolver.known.return_value = dataclasses.replace(
            KNOWN, replicated=False)
        self.assertTrue(self.reported())

    def test_busy_volume_is_checked_again(self):
        self.row = replicated.volume(status='extending')
        self.rows = [self.row]
        self.assertFalse(self.reported())
        self.here.replication.find_many.assert_not_called()
        self.wait(LONG)
        self.assertFalse(self.reported())
        self.row.__dict__.update(status='available')
        self.row.meanwhile(status='available')
        self.assertTrue(self.reported())

    def test_nothing_is_reported_during_a_failover(self):
        self.database.is_failing_over.return_value = True
        self.assertFalse(self.reported())
        self.database.is_failing_over.return_value = False
        self.assertTrue(self.reported())

    def test_row_that_changed(self):
        group = replicated.group()
        self.row = replicated.volume(group=group)
        self.rows = [self.row]
        self.row.on_write = lambda: self.row.meanwhile(
            replication_status='disabling')
        self.assertFalse(self.reported())
        self.assertEqual('disabling', self.row.stored['replication_status'])
        self.assertEqual([], group.writes)

    @ddt.data((True, ['ssn-g1', 'rssn-g1']), (False, ['ssn-v1', 'rssn-v1']))
    @ddt.unpack
    def test_group_member(self, shared, names):
        group = replicated.group()
        self.rows = [replicated.volume(group=group)]
        self.resolver.known.return_value = dataclasses.replace(
            KNOWN, shared=shared)
        self.assertTrue(self.reported())
        self.here.replication.find_many.assert_called_once_with(names)
        self.assertEqual([{'replication_status': 'error'}], group.writes)
        self.assertEqual('error', group.stored['replication_status'])

    def test_group_that_is_not_enabled_is_not_changed(self):
        group = replicated.group(replication_status='disabled')
        self.rows = [replicated.volume(group=group)]
        self.assertTrue(self.reported())
        self.assertEqual('disabled', group.stored['replication_status'])

    def test_extending_a_member_does_not_affect_its_group(self):
        """The array may require an idle session to extend a volume."""
        group = replicated.group()
        self.rows = [replicated.volume('v1', group=group),
                     replicated.volume('v2', group=group, status='extending')]
        self.resolver.known.return_value = dataclasses.replace(
            KNOWN, shared=True)
        self.assertFalse(self.reported())

    def queries(self):
        """Return how often a check queries volumes that are replicated."""
        self.database.volumes.reset_mock()
        self.watch()
        return [call.args[0] for call in self.database.volumes.mock_calls
                ].count({'replication_status': 'enabled'})

    def test_rows_are_read_every_15_minutes(self):
        self.found = [running()]
        self.assertEqual(1, self.queries())
        self.wait(LONG - 1)
        self.assertEqual(0, self.queries())
        self.wait(1)
        self.assertEqual(1, self.queries())
        self.wait(LONG - 1)
        self.assertEqual(0, self.queries())

    def test_rows_are_read_when_a_session_is_missing(self):
        self.add_second()
        self.found = [running(), running('ssn-v2', 8)]
        self.assertEqual(1, self.queries())
        self.assertEqual(0, self.queries())
        self.found = [running()]
        self.assertEqual(1, self.queries())
        self.rows = self.rows[:1]
        self.assertEqual(1, self.queries())
        self.assertEqual(0, self.queries())

    def test_rows_are_not_read_for_a_new_session(self):
        self.found = [running()]
        self.queries()
        self.found = [running(), running('ssn-v2', 8)]
        self.assertEqual(0, self.queries())
