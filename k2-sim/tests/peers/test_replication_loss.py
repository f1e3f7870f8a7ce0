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

"""A peer that is lost and comes back, restarts, and self-replication."""

import concurrent.futures

import ddt
import fixtures

import k2_sim
from k2_sim.peers import transport
from tests import base
from tests import pairs

_LOST = 'peer_unreachable'
_STRANGER = {'system_id': 'ffff', 'address': '', 'name': 'x'}


@ddt.ddt
class TestLoss(pairs.PairTest):

    def cut(self, side):
        getattr(self, side).control.cut_link()

    def mend(self, side):
        getattr(self, side).control.restore_link()

    def link_states(self):
        return tuple(
            side.get(f'{pairs.PEERS}/1')['mgmt_connectivity_state']
            for side in (self.a, self.b))

    @ddt.data('a', 'b')
    def test_source_is_suspended(self, side):
        """REP-19: whichever side is cut off, until it is resumed."""
        self.start()
        self.assertEqual(('ok', 'ok'), self.link_states())
        self.cut(side)
        here = self.here()
        self.assertEqual(('suspended', _LOST), (
            here['state'], here['suspend_reason_code']))
        self.assertTrue(here['suspend_reason'])
        self.assertNotIn('ok', self.link_states())
        self.assertEqual('in_sync', self.over_there()['state'])
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(600)
        self.assertEqual(('two', 'one'), self.contents())
        self.mend(side)
        self.assertEqual(('ok', 'ok'), self.link_states())
        self.clock.advance(600)
        # It stays suspended until it is resumed by a command.
        self.assertStates('suspended source', 'suspended target')
        self.assertEqual('one', self.contents()[1])
        self.write('in_sync')
        self.assertEqual(('two', 'two'), self.contents())

    def test_peer_is_closed(self):
        self.start()
        self.b.array.close()
        self.assertEqual('suspended', self.here()['state'])

    def test_what_was_due_before_the_cut_has_arrived(self):
        self.start()
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        self.b.control.cut_link()
        self.assertEqual(('two', 'two'), self.contents())
        self.assertEqual(2, self.here()['generation_number'])

    def test_on_its_way_at_the_cut(self):
        """It does not arrive; a user's snapshot is sent after the resume."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=10)
        self.a.control.write(self.volume['id'], 'two')
        snapshot = self.take(self.a, self.session)
        self.clock.advance(5)
        self.cut('b')
        self.clock.advance(10)
        self.assertEqual('one', self.contents()[1])
        self.mend('b')
        self.assertFalse(self.a.get(f'snapshots/{snapshot["id"]}')[
            'is_exist_on_peer'])
        self.write('in_sync')
        self.clock.advance(10)
        self.assertTrue(self.a.get(f'snapshots/{snapshot["id"]}')[
            'is_exist_on_peer'])

    def test_nothing_new_without_the_peer(self):
        """REP-19: no session, no volume, no start, no reverse."""
        self.prepare()
        second = self.a.volume(self.group, 'vol-2')
        self.cut('b')
        text = self.refused(self.a, 'POST', pairs.SESSIONS,
                            pairs.session_body(self.a.group('vg-x'), 'x'))
        self.assertIn('cannot be reached', text)
        self.refused(self.a, 'POST', pairs.PAIRS, self.pair_body(second))
        self.refused(self.a, 'PATCH', f'{pairs.PAIRS}/{self.pair["id"]}',
                     {'name': 'x'})
        self.refused(self.a, 'POST', 'replication/peer_wan_ports', {
            'replication_peer_k2array': base.ref(pairs.PEERS, 1)})
        self.a.delete(f'volumes/{second["id"]}')
        self.command_refused(self.a, 'in_sync')
        self.mend('b')
        self.write('in_sync')
        self.write_there('failed_over')
        self.cut('a')
        self.command_refused(self.b, 'in_sync')

    def test_failover_without_the_source(self):
        """REP-9: the source reads suspended when it returns."""
        self.start()
        self.cut('a')
        self.write_there('failed_over')
        self.b.control.write(self.remote, 'two')
        self.mend('a')
        self.assertStates('suspended source', 'failed_over target')
        self.assertEqual('two', self.b.control.read(self.remote))
        self.command_refused(self.a, 'in_sync')
        self.write_there('in_sync')
        self.assertStates('in_sync target', 'in_sync source')
        self.assertEqual(('two', 'two'), self.contents())

    def test_stop_without_the_target(self):
        """The target follows when the link is back."""
        self.start()
        self.cut('b')
        self.command_refused(self.a, 'suspended')
        self.write('idle')
        self.assertStates('idle source', 'in_sync target')
        self.mend('b')
        self.assertStates('idle source', 'idle target')
        self.assertTrue(self.over_there()['stopped'])

    def test_end_without_the_target(self):
        """What is left on the target can be taken over, left and deleted."""
        self.start()
        self.cut('b')
        self.write('idle')
        self.a.delete(self.source_path())
        self.mend('b')
        self.assertEqual('in_sync', self.over_there()['state'])
        self.write_there('failed_over')
        self.command_refused(self.b, 'in_sync')
        self.write_there('idle')
        self.b.delete(self.target_path())

    def test_leave_without_the_source(self):
        """Row 8 needs no peer."""
        self.start()
        self.cut('a')
        self.write_there('failed_over')
        self.write_there('idle')
        self.b.delete(self.target_path())
        self.mend('a')
        self.assertEqual('suspended', self.here()['state'])
        self.command_refused(self.a, 'in_sync')
        self.write('idle')
        self.command_refused(self.a, 'in_sync')
        self.a.delete(self.source_path())

    def test_reverse_and_loss(self):
        """The new source is suspended; a failback still works."""
        self.start()
        self.write_there('failed_over')
        self.write_there('in_sync')
        self.cut('a')
        self.assertStates('in_sync target', 'suspended source')
        self.write('failed_over')
        self.assertStates('failed_over target', 'suspended source')
        self.mend('a')
        self.write('in_sync')
        self.assertStates('in_sync source', 'in_sync target')

    def test_peer_was_reset(self):
        """A source whose target is gone cannot continue."""
        self.start()
        self.b.control.reset()
        self.clock.advance(300)
        self.assertEqual(
            ('suspended', 'peer_session_missing'),
            tuple(self.here()[name] for name in (
                'state', 'suspend_reason_code')))
        self.assertEqual(('ok', 'ok'), self.link_states())
        self.command_refused_here('in_sync')
        self.write('idle')
        self.a.delete(self.source_path())

    def command_refused_here(self, state):
        self.a.refused('PATCH', self.source_path(), {'state': state})

    def test_reset_mends_the_link(self):
        self.cut('a')
        self.a.control.reset()
        self.assertEqual(('ok', 'ok'), self.link_states())
        self.assertEqual({}, self.a.control.leftovers())

    def test_message_that_comes_late(self):
        """Messages older than the last one change nothing."""
        self.prepare()
        second = self.a.volume(self.group, 'vol-2')
        transports, sent = self.a.array.links.transport, []
        real = transports.send
        self.useFixture(fixtures.MockPatchObject(
            transports, 'send',
            lambda *args: sent.append(args) or real(*args)))
        self.a.patch(self.source_path(), {'rpo': 600})
        late = sent[-1]
        self.add_volume(second)
        real(*late)
        self.assertEqual(2, self.b.get(pairs.PAIRS)['total'])
        self.write('in_sync')
        before = self.b.control.dump()
        real(*sent[-1])
        self.assertEqual(before, self.b.control.dump())
        self.write('suspended')
        late = sent[-1]
        self.write('in_sync')
        real(*late)
        self.assertStates('in_sync source', 'in_sync target')

    def test_session_that_fell_behind(self):
        """A source that went idle before it could become the target."""
        self.start()
        self.a.control.set_behaviors(follow_seconds=5)
        self.write_there('failed_over')
        self.clock.advance(5)
        self.write_there('in_sync')
        self.write('idle')
        self.clock.advance(300)
        self.assertStates('idle source', 'suspended source')
        self.write_there('idle')
        self.b.delete(self.target_path())
        self.a.delete(self.source_path())

    def test_over_http(self):
        """The control API offers the same."""
        self.start()
        for body, cut in (({'cut': True}, True), ({'cut': False}, False)):
            reply = self.a.sim(200, 'POST', 'link', body)
            self.assertEqual({'cut': cut}, reply)
        self.assertEqual('suspended', self.here()['state'])
        for body in ({}, {'cut': 1}, {'cut': True, 'x': 1}):
            self.a.sim(400, 'POST', 'link', body)
        self.a.sim(204, 'POST', 'contents', {
            'volume': self.volume['id'], 'token': 'x'})
        self.assertEqual({str(self.volume['id']): 'x'},
                         self.a.sim(200, 'GET', 'contents'))
        for body in ({}, {'volume': 1, 'token': 'x'},
                     {'volume': '31', 'token': 'x'}):
            self.a.sim(400, 'POST', 'contents', body)

    @ddt.data({}, {'type': 'ask'}, {'type': 'x', 'sender': {}},
              {'type': 'ask', 'sender': _STRANGER,
               'questions': [['follow', {}]]},
              {'type': 'news', 'sender': _STRANGER, 'views': [],
               'full': True, 'next_in': 0})
    def test_messages_of_strangers(self, message):
        """They change nothing."""
        before = self.a.control.dump()
        reply = self.a.sim(200 if 'questions' in message else 400,
                           'POST', 'peer', message)
        if 'questions' in message:
            self.assertEqual([[{}, 'x is no peer of this array']],
                             reply['answers'])
        self.assertEqual(before, self.a.control.dump())


class TestRestart(pairs.PairTest):
    """The process of one array ends; its state is on disk."""

    def make(self, name, store=None):
        return super().make(name, self.directory / f'{name}.db')

    def kill(self, name):
        getattr(self, name).array.close()

    def restart(self, name):
        setattr(self, name, self.make(name))
        self.join()

    def test_target_restarts(self):
        self.start()
        self.kill('b')
        self.clock.advance(300)
        self.assertEqual('suspended', self.here()['state'])
        self.restart('b')
        self.assertStates('suspended source', 'suspended target')
        self.write('in_sync')

    def test_source_restarts(self):
        """Its rounds continue where they were."""
        self.start()
        self.a.control.write(self.volume['id'], 'two')
        self.kill('a')
        self.assertEqual('in_sync', self.over_there()['state'])
        self.restart('a')
        self.assertStates('in_sync source', 'in_sync target')
        self.clock.advance(300)
        self.assertEqual(('two', 'two'), self.contents())

    def test_source_is_dead_at_failover(self):
        self.start()
        self.kill('a')
        self.write_there('failed_over')
        self.b.control.write(self.remote, 'two')
        self.restart('a')
        self.assertStates('suspended source', 'failed_over target')
        self.assertEqual('peer_failed_over',
                         self.here()['suspend_reason_code'])

    def test_everything_is_on_disk(self):
        self.start()
        self.take(self.a, self.session)
        before = [side.control.dump() for side in (self.a, self.b)]
        for name in 'ab':
            self.kill(name)
        self.a, self.b = (self.make(name) for name in 'ab')
        self.assertEqual(
            before, [side.control.dump() for side in (self.a, self.b)])
        self.join()
        self.assertStates('in_sync source', 'in_sync target')

    def half(self, side, times=1):
        """Kill the array with a message in flight, after so many replies."""
        array = side.array
        real, sent = array.links.transport.send, []

        def send(address, message, kind):
            if len(sent) >= times:
                array.core.closed = True
                raise transport.LinkDownError('killed')
            sent.append(message)
            return real(address, message, kind)

        array.links.transport.send = send

    def test_killed_before_the_peer_hears(self):
        """The local state counts; the peer follows after the restart."""
        self.start()
        for command, there in (('suspended', 'suspended'),
                               ('idle', 'idle')):
            self.half(self.a, 0)
            self.a.call('PATCH', self.source_path(), {'state': command})
            self.assertNotEqual(command, self.over_there()['state'])
            self.kill('a')
            self.restart('a')
            self.assertEqual((command, there), (
                self.here()['state'], self.over_there()['state']))

    def test_killed_target_after_failover(self):
        self.start()
        self.half(self.b, 0)
        self.b.call('PATCH', self.target_path(), {'state': 'failed_over'})
        self.kill('b')
        self.restart('b')
        self.assertStates('suspended source', 'failed_over target')

    def test_killed_at_reverse(self):
        """The roles are swapped on both sides after the restart."""
        self.start()
        self.write_there('failed_over')
        self.b.control.write(self.remote, 'two')
        self.half(self.b, 1)
        self.b.call('PATCH', self.target_path(), {'state': 'in_sync'})
        self.assertEqual('source', self.here()['current_role'])
        self.kill('b')
        self.restart('b')
        here, there = self.states()
        self.assertEqual(('target', 'source'), (here[1], there[1]))
        if there[0] == 'suspended':
            self.write_there('in_sync')
        self.assertEqual(('two', 'two'), self.contents())

    def test_killed_between_making_there_and_here(self):
        """What the peer created in vain is gone after the restart."""
        group = self.a.group()
        fresh = self.b.control.leftovers()
        for path, body in (
                (pairs.SESSIONS, pairs.session_body(group)),
                (pairs.PAIRS, None)):
            if body is None:
                self.prepare()
                self.a.delete(f'{pairs.PAIRS}/{self.pair["id"]}')
                self.b.delete(f'volumes/{self.remote}')
                fresh = self.b.control.leftovers()
                body = self.pair_body(self.volume)
            self.kill_in_the_middle(path, body)
            self.assertNotEqual(fresh, self.b.control.leftovers())
            self.kill('a')
            self.restart('a')
            self.assertEqual(fresh, self.b.control.leftovers())
            self.a.post(path, body)
            if path == pairs.SESSIONS:
                for side, number in ((self.a, 9), (self.b, 1010)):
                    side.delete(f'{pairs.SESSIONS}/{number}')
                self.b.delete('volume_groups/1015')

    def kill_in_the_middle(self, path, body):
        """The peer replies, and the reply is never used."""
        array = self.a.array
        real = array.links.call

        def ask(*args):
            real(*args)
            array.core.closed = True
            raise transport.LinkDownError('killed')

        array.links.call = ask
        with self.assertLogs('k2_sim', 'ERROR'):
            self.assertEqual(500, self.a.call('POST', path, body).status)

    def test_half_made_is_replaced(self):
        """A repeated request replaces its own leftovers."""
        body = pairs.session_body(self.a.group())
        self.kill_in_the_middle(pairs.SESSIONS, body)
        array = self.a.array
        array.core.closed = False
        del array.links.call
        self.a.post(pairs.SESSIONS, body)
        self.assertEqual(1, self.b.get(pairs.SESSIONS)['total'])
        self.assertEqual(1, self.b.get('volume_groups')['total'])


class TestSelfPeer(pairs.PairTest):
    """REP-21: one array is both sides; the names differ."""

    def setUp(self):
        super().setUp()
        self.b = self.a

    def join(self):
        k2_sim.connect(self.a.array, hosts=pairs.HOSTS[:1])

    def test_life(self):
        self.start()
        self.assertEqual(1, self.a.get(pairs.PEERS)['total'])
        self.assertStates('in_sync source', 'in_sync target')
        self.assertEqual(('one', 'one'), self.contents())
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        self.assertEqual(('two', 'two'), self.contents())
        self.take(self.a, self.session)
        self.write_there('failed_over')
        self.assertStates('suspended source', 'failed_over target')
        self.a.control.write(self.remote, 'three')
        self.write_there('in_sync')
        self.assertStates('in_sync target', 'in_sync source')
        self.assertEqual(('three', 'three'), self.contents())
        self.write('failed_over')
        self.write('in_sync')
        self.assertStates('in_sync source', 'in_sync target')
        self.write('suspended')
        self.write('idle')
        self.assertStates('idle source', 'idle target')
        self.a.delete(self.target_path())
        self.a.delete(self.source_path())

    def test_names_must_differ(self):
        group = self.a.group('vg-a')
        for fields in ({'remote_replication_session_name': 'ssn-1'},
                       {'replication_peer_volume_group_name': 'vg-a'}):
            reply = self.a.call('POST', pairs.SESSIONS,
                                pairs.session_body(group, **fields))
            self.assertEqual(400, reply.status)
        self.assertEqual({'volume_groups'}, set(self.a.control.leftovers()))

    def test_lost_to_itself(self):
        self.start()
        self.a.control.cut_link()
        self.assertEqual('suspended', self.here()['state'])
        self.write_there('failed_over')
        self.a.control.restore_link()
        self.assertStates('suspended source', 'failed_over target')

    def test_posted(self):
        self.a.delete(f'{pairs.PEERS}/1')
        self.a.post(pairs.PEERS, {
            'name': 'self', 'mgmt_host': pairs.HOSTS[0],
            'username': 'admin', 'password': 'admin',
            'local_username': 'x', 'local_password': 'y'})
        self.assertEqual(1, self.a.get(pairs.PEERS)['total'])


class TestThreads(pairs.PairTest):

    def test_both_at_once(self):
        """Requests on both sides do not deadlock."""
        sessions = []
        for number in range(8):
            self.prepare(str(number))
            sessions.append((self.source_path(), self.target_path()))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ends = [pool.submit(self.live, *paths) for paths in sessions]
            for end in ends:
                end.result(timeout=60)

    def live(self, here, there):
        for side, path, state in (
                (self.a, here, 'in_sync'), (self.b, there, 'failed_over'),
                (self.b, there, 'in_sync'), (self.a, here, 'failed_over'),
                (self.a, here, 'in_sync'), (self.a, here, 'suspended'),
                (self.a, here, 'idle')):
            for _ in range(50):
                if side.call('PATCH', path, {'state': state}).status == 200:
                    break
            self.assertEqual(state, side.get(path)['state'])
