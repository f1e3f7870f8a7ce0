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

"""Section 10.4: every command in every state, on either side."""

import ddt

import k2_sim
from tests import base
from tests import pairs

COMMANDS = ('idle', 'in_sync', 'suspended', 'failed_over')
# Commands that lead to a state, from a started session: (side, command).
_TAKEN = (('b', 'failed_over'),)
STORIES = {
    'idle': None,
    'in_sync': (),
    'suspended': (('a', 'suspended'),),
    'stopped': (('a', 'suspended'), ('a', 'idle')),
    'failed over': _TAKEN,
    'failed over, source idle': (*_TAKEN, ('a', 'idle')),
    'left': (*_TAKEN, ('b', 'idle')),
    'left, source idle': (*_TAKEN, ('b', 'idle'), ('a', 'idle')),
    'reversed': (*_TAKEN, ('b', 'in_sync')),
    'reversed, suspended': (*_TAKEN, ('b', 'in_sync'), ('b', 'suspended')),
    'failed back': (*_TAKEN, ('b', 'in_sync'), ('a', 'failed_over')),
    'back again': (*_TAKEN, ('b', 'in_sync'), ('a', 'failed_over'),
                   ('a', 'in_sync')),
}
_BOTH = ('in_sync source', 'in_sync target')
_SUSPENDED = ('suspended source', 'suspended target')
_STOPPED = ('idle source', 'idle target')
_OVER = ('suspended source', 'failed_over target')
_SWAPPED = ('in_sync target', 'in_sync source')
# What is allowed, and the resulting states on a and b; the rest is refused.
ALLOWED = {
    ('idle', 'a', 'in_sync'): _BOTH,
    ('in_sync', 'a', 'suspended'): _SUSPENDED,
    ('in_sync', 'b', 'failed_over'): _OVER,
    ('suspended', 'a', 'in_sync'): _BOTH,
    ('suspended', 'a', 'idle'): _STOPPED,
    ('suspended', 'b', 'failed_over'): _OVER,
    ('stopped', 'a', 'in_sync'): _BOTH,
    ('failed over', 'a', 'idle'): ('idle source', 'failed_over target'),
    ('failed over', 'b', 'in_sync'): _SWAPPED,
    ('failed over', 'b', 'idle'): ('suspended source', 'idle target'),
    ('failed over, source idle', 'b', 'idle'): _STOPPED,
    ('left', 'a', 'idle'): _STOPPED,
    ('reversed', 'b', 'suspended'):
        ('suspended target', 'suspended source'),
    ('reversed', 'a', 'failed_over'):
        ('failed_over target', 'suspended source'),
    ('reversed, suspended', 'b', 'in_sync'): _SWAPPED,
    ('reversed, suspended', 'b', 'idle'): ('idle target', 'idle source'),
    ('reversed, suspended', 'a', 'failed_over'):
        ('failed_over target', 'suspended source'),
    ('failed back', 'a', 'in_sync'): _BOTH,
    ('failed back', 'a', 'idle'): ('idle target', 'suspended source'),
    ('failed back', 'b', 'idle'): ('failed_over target', 'idle source'),
    ('back again', 'a', 'suspended'): _SUSPENDED,
    ('back again', 'b', 'failed_over'): _OVER,
}
# Where DELETE is allowed, row 9.
DELETABLE = {
    ('idle', 'a'), ('idle', 'b'), ('stopped', 'a'), ('stopped', 'b'),
    ('failed over, source idle', 'a'), ('left', 'b'),
    ('left, source idle', 'a'), ('left, source idle', 'b')}


@ddt.ddt
class TestTable(pairs.PairTest):

    def tell(self, story):
        self.prepare()
        if STORIES[story] is None:
            return
        self.write('in_sync')
        for side, command in STORIES[story]:
            (self.write if side == 'a' else self.write_there)(command)

    @ddt.data(*((story, side, command) for story in STORIES
                for side in 'ab' for command in COMMANDS))
    @ddt.unpack
    def test_command(self, story, side, command):
        """Rows 2 to 8, and nothing else."""
        self.tell(story)
        allowed = ALLOWED.get((story, side, command))
        if allowed is None:
            self.command_refused(getattr(self, side), command)
        else:
            (self.write if side == 'a' else self.write_there)(command)
            self.assertStates(*allowed)

    @ddt.data(*((story, side) for story in STORIES for side in 'ab'))
    @ddt.unpack
    def test_delete(self, story, side):
        """Row 9: only when idle; the other side keeps its record."""
        self.tell(story)
        path, other = (self.source_path(), self.over_there) \
            if side == 'a' else (self.target_path(), self.here)
        if (story, side) not in DELETABLE:
            self.assertIn('is not idle', self.refused(
                getattr(self, side), 'DELETE', path))
            return
        before = other()
        getattr(self, side).delete(path)
        self.assertEqual(before, other())

    def test_every_row_is_here(self):
        """So that an unused case is noticed."""
        self.assertEqual(
            set(STORIES), {key[0] for key in ALLOWED} | {
                'left, source idle'})


class TestCommands(pairs.PairTest):

    def test_create(self):
        """Row 1."""
        self.prepare()
        self.assertStates('idle source', 'idle target')
        self.assertEqual((True, False), (
            self.here()['primary'], self.over_there()['primary']))

    def test_stopped(self):
        """REP-20: after a stop, not before the start."""
        self.start()
        self.assertFalse(self.here()['stopped'])
        self.write('suspended')
        self.write('idle')
        self.assertEqual((True, True), (
            self.here()['stopped'], self.over_there()['stopped']))
        self.write('in_sync')
        self.assertEqual((False, False), (
            self.here()['stopped'], self.over_there()['stopped']))

    def test_next_snapshot(self):
        """REP-20: the first of those that wait for the running one."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=10.0)
        self.assertIsNone(self.here()['next_snapshot'])
        first, second, third = (
            self.take(self.a, self.session) for _ in range(3))
        for current, waiting in ((first, second), (second, third)):
            here = self.here()
            self.assertEqual(
                (base.ref('snapshots', current),
                 base.ref('snapshots', waiting)),
                (here['current_snapshot'], here['next_snapshot']))
            self.clock.advance(10)
        self.assertIsNone(self.here()['next_snapshot'])
        self.write('suspended')
        here = self.here()
        self.assertEqual((None, base.ref('snapshots', third)), (
            here['current_snapshot'], here['next_snapshot']))
        self.write('in_sync')
        self.clock.advance(20)
        self.assertIsNone(self.here()['next_snapshot'])

    def test_reasons(self):
        self.start()
        self.write('suspended')
        self.assertEqual('user', self.here()['suspend_reason_code'])
        self.assertEqual('none', self.over_there()['suspend_reason_code'])
        self.write('in_sync')
        self.write_there('failed_over')
        self.assertEqual('peer_failed_over',
                         self.here()['suspend_reason_code'])
        self.assertTrue(self.here()['suspend_reason'])
        self.write_there('in_sync')
        self.assertEqual(('', 'none'), (
            self.here()['suspend_reason'],
            self.here()['suspend_reason_code']))

    def test_fields_that_go_with_a_command(self):
        """snapshot_wwn and offline_initial_sync are options, not commands."""
        self.prepare()
        for name, value in (('snapshot_wwn', 'x'),
                            ('offline_initial_sync', True),
                            ('restored_snapshot', None)):
            self.refused(self.a, 'PATCH', self.source_path(), {name: value})
        self.a.patch(self.source_path(), {
            'state': 'in_sync', 'snapshot_wwn': 'x',
            'offline_initial_sync': 'true', 'name': 'ssn-1'})
        self.assertStates(*_BOTH)
        self.command_refused(self.a, 'started')

    def test_repeated_command_can_be_accepted(self):
        """OBJ-14, when switched."""
        self.start()
        for side, command in ((self.a, 'in_sync'), (self.b, 'in_sync')):
            self.command_refused(side, command)
        self.a.control.set_behaviors(repeat_commands=True)
        before = self.here()
        self.assertEqual(before, self.write('in_sync'))
        self.assertEqual(before, self.here())

    def test_failed_over_only_from_what_the_switch_says(self):
        """Row 6: cinder and the DR scripts differ."""
        self.start()
        self.b.control.set_behaviors(failed_over_from='suspended')
        self.command_refused(self.b, 'failed_over')
        self.write('suspended')
        self.b.control.set_behaviors(failed_over_from='in_sync')
        self.command_refused(self.b, 'failed_over')
        self.write('in_sync')
        self.write_there('failed_over')
        self.assertRaises(
            k2_sim.ApiError, self.b.control.set_behaviors,
            failed_over_from='idle')

    def test_reverse_needs_unmapped_volumes(self):
        """REP-11."""
        self.start()
        mapping = self.a.map(self.a.host(), self.volume)
        self.write_there('failed_over')
        self.assertIn('mapped', self.command_refused(self.b, 'in_sync'))
        self.a.delete(f'mappings/{mapping["id"]}')
        self.write_there('in_sync')
        self.assertStates(*_SWAPPED)

    def test_start_that_takes_its_time(self):
        """REP-6: up to a minute, or it fails."""
        self.prepare()
        self.a.control.set_behaviors(start_seconds=60.0, copy_seconds=5.0)
        self.write('in_sync')
        self.clock.advance(59)
        self.assertStates(*_STOPPED)
        self.clock.advance(1)
        self.assertStates(*_BOTH)
        self.assertEqual(0, self.here()['current_snapshot_progress'])
        self.clock.advance(5)
        self.assertEqual(100, self.here()['current_snapshot_progress'])
        self.write('suspended')
        self.write('idle')
        self.a.control.set_behaviors(start_seconds=61)
        self.assertEqual('MC_ERR_START_TIMEOUT',
                         self.command_refused(self.a, 'in_sync'))

    def test_other_side_follows_later(self):
        """REP-8."""
        self.prepare()
        self.b.control.set_behaviors(follow_seconds=3.0)
        self.a.control.set_behaviors(follow_seconds=5.0)
        self.write('in_sync')
        self.assertStates('in_sync source', 'idle target')
        self.clock.advance(3)
        self.assertStates(*_BOTH)
        self.write_there('failed_over')
        self.assertStates('in_sync source', 'failed_over target')
        self.clock.advance(5)
        self.assertStates(*_OVER)
        self.write_there('in_sync')
        self.assertStates('suspended source', 'in_sync source')
        self.assertFalse(self.a.get(
            f'volumes/{self.volume["id"]}')['read_only'])
        self.clock.advance(5)
        self.assertStates(*_SWAPPED)
        self.assertEqual(self.over_there()['generation_number'],
                         self.here()['generation_number'])

    def test_command_during_following(self):
        """The last one wins on the other side, too."""
        self.start()
        self.b.control.set_behaviors(follow_seconds=3.0)
        self.write('suspended')
        self.clock.advance(2)
        self.write('idle')
        self.clock.advance(2)
        self.assertStates('idle source', 'in_sync target')
        self.clock.advance(1)
        self.assertStates(*_STOPPED)

    def test_command_taken_back_before_it_is_followed(self):
        self.start()
        self.b.control.set_behaviors(follow_seconds=3.0)
        self.write('suspended')
        self.clock.advance(1)
        self.write('in_sync')
        self.clock.advance(2)
        self.assertStates(*_BOTH)

    def test_target_takes_over_before_it_follows(self):
        self.start()
        self.b.control.set_behaviors(follow_seconds=3.0)
        self.write('suspended')
        self.write_there('failed_over')
        self.clock.advance(10)
        self.assertStates(*_OVER)

    def test_bulk(self):
        """BLK-1, BLK-4: many commands in one call, or none of them."""
        sessions = []
        for name in '123':
            self.prepare(name)
            sessions.append(self.session)
        wanted = [{'id': row['id'], 'state': 'in_sync'} for row in sessions]
        reply = self.a.patch(f'{pairs.SESSIONS}/__bulk', wanted)
        self.assertEqual(['in_sync'] * 3,
                         [hit['state'] for hit in reply['hits']])
        self.assertEqual(3, self.b.get(
            f'{pairs.SESSIONS}?state=in_sync')['total'])
        self.refused(self.a, 'PATCH', f'{pairs.SESSIONS}/__bulk', [
            {'id': sessions[0]['id'], 'state': 'suspended'},
            {'id': sessions[1]['id'], 'state': 'idle'}])
        # Whole objects, of which one has changed, as krest sends them.
        whole = [self.a.get(f'{pairs.SESSIONS}/{row["id"]}')
                 for row in sessions]
        whole[1]['state'] = 'suspended'
        self.a.patch(f'{pairs.SESSIONS}/__bulk', whole)
        self.assertEqual(
            ['in_sync', 'suspended', 'in_sync'],
            [hit['state'] for hit in self.b.hits(pairs.SESSIONS)])

    def test_bulk_travels_together(self):
        """However many sessions: one request, and one update of all."""
        numbers = []
        for number in range(30):
            self.prepare(str(number))
            numbers.append(self.session['id'])
        transport, sent = self.a.array.links.transport, []
        real = transport.send
        transport.send = lambda *args: sent.append(args) or real(*args)
        for state in ('in_sync', 'suspended', 'idle'):
            self.a.patch(f'{pairs.SESSIONS}/__bulk', [
                {'id': number, 'state': state} for number in numbers])
        self.assertEqual(4, len(sent))

    def test_bulk_in_order(self):
        """A later item may need the effect of an earlier one."""
        self.prepare()
        self.a.patch(f'{pairs.SESSIONS}/__bulk', [
            {'id': self.session['id'], 'state': state}
            for state in ('in_sync', 'suspended', 'idle')])
        self.assertStates(*_STOPPED)

    def test_bulk_that_a_peer_refuses(self):
        """What it created for the other items is removed again."""
        groups = [self.a.group(f'vg-{name}') for name in '123']
        self.b.group('taken')
        self.refused(self.a, 'POST', f'{pairs.SESSIONS}/__bulk', [
            pairs.session_body(groups[0], 's1'),
            pairs.session_body(groups[1], 's2'),
            pairs.session_body(
                groups[2], 's3',
                replication_peer_volume_group_name='taken')])

    def test_names_on_both_sides(self):
        """Session, group and volume can be renamed; the peer is updated."""
        self.start()
        self.a.patch(self.source_path(), {'name': 'ssn-x'})
        self.assertEqual('ssn-x', self.over_there()[
            'remote_replication_session_name'])
        self.refused(self.a, 'PATCH', self.source_path(), {'name': 'x' * 43})
        self.a.patch(f'{pairs.PAIRS}/{self.pair["id"]}', {'name': 'v2'})
        self.assertEqual('v2', self.b.get(f'volumes/{self.remote}')['name'])
        group = self.here()['replication_peer_volume_group']['ref'][1:]
        self.a.patch(group, {'name': 'vg2'})
        self.assertEqual(1, self.b.get('volume_groups?name=vg2')['total'])
        self.b.group('taken')
        self.refused(self.a, 'PATCH', group, {'name': 'taken'})
        self.refused(self.a, 'DELETE', group)

    def test_name_in_patch_can_be_mandatory(self):
        self.prepare()
        self.a.control.set_behaviors(session_name_required=True)
        self.command_refused(self.a, 'in_sync')
        self.a.patch(self.source_path(),
                     {'name': 'ssn-1', 'state': 'in_sync'})

    def test_rpo_and_exposure_are_the_source_s(self):
        self.start()
        self.a.patch(self.source_path(), {
            'rpo': 60, 'target_exposure': 'Read Only'})
        there = self.over_there()
        self.assertEqual((60, 'Read Only'),
                         (there['rpo'], there['target_exposure']))
        for field in ({'rpo': 300}, {'target_exposure': 'unmapped'}):
            self.refused(self.b, 'PATCH', self.target_path(), field)
        self.refused(self.a, 'PATCH', self.source_path(), {'rpo': 61})


class TestVolumesOfATarget(pairs.PairTest):

    def test_closed_until_failover(self):
        """REP-16, SNP-13."""
        self.start()
        path = f'volumes/{self.remote}'
        self.assertTrue(self.b.get(path)['read_only'])
        host = self.b.host()
        group = int(self.over_there()[
            'local_volume_group']['ref'].rpartition('/')[2])
        self.b.refuse_map(host, self.remote)
        self.refused(self.b, 'PATCH', path, {'read_only': False})
        self.refused(self.b, 'POST', 'snapshots', self.b.snapshot_body(
            base.ref('volume_groups', group), 's'))
        self.b.patch(path, {'read_only': True})
        self.write_there('failed_over')
        self.assertFalse(self.b.get(path)['read_only'])
        mapping = self.b.map(host, self.remote)
        self.b.snapshot(group)
        self.b.control.write(self.remote, 'two')
        # The mapped volumes that prevent a reverse are the other side's.
        self.write_there('in_sync')
        self.b.delete(f'mappings/{mapping["id"]}')
        self.assertTrue(self.a.get(
            f'volumes/{self.volume["id"]}')['read_only'])
        self.a.refuse_map(self.a.host(), self.volume)

    def test_exposed_target(self):
        """REP-16, REP-17: mapped read-only if the session says so."""
        self.b.patch('system/state/1', {
            'replication_default_target_exposure': 'Read Only'})
        self.start(target_exposure='Mapped - Not Exposed')
        self.b.map(self.b.host(), self.remote)
        self.refuse_write()
        self.assertEqual('Mapped - Not Exposed',
                         self.over_there()['target_exposure'])

    def refuse_write(self):
        error = self.assertRaises(
            k2_sim.ApiError, self.b.control.write, self.remote, 'x')
        self.assertIn('read-only', str(error))

    def test_default_exposure(self):
        """REP-17: as the source's system is set."""
        self.a.patch('system/state/1', {
            'replication_default_target_exposure': 'Read Only'})
        self.prepare()
        self.assertEqual(('Read Only', 'Read Only'), (
            self.here()['target_exposure'],
            self.over_there()['target_exposure']))

    def test_stays_read_only_after_tear_down(self):
        self.start()
        self.write('suspended')
        self.write('idle')
        self.b.delete(self.target_path())
        self.assertTrue(self.b.get(f'volumes/{self.remote}')['read_only'])
        self.b.patch(f'volumes/{self.remote}', {'read_only': False})
        self.b.map(self.b.host(), self.remote)

    def test_views_of_what_arrived(self):
        """SNP-13: a target's snapshots can be read through views."""
        self.start()
        latest = self.over_there()['latest_replicated_snapshot']['ref']
        view = self.b.view(int(latest.rpartition('/')[2]))
        self.b.map(self.b.host(), view, 'snapshots')
        self.assertEqual('one', self.b.control.read(
            self.remote, view['id']))
        # What is in use is not replaced by the next round.
        self.clock.advance(300)
        self.assertNotEqual(
            latest, self.over_there()['latest_replicated_snapshot']['ref'])
        self.assertEqual(200, self.b.call('GET', latest[1:]).status)
