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

"""Reused ids (OBJ-7), and what is stored by id."""

from unittest import mock

import hypothesis
from hypothesis import strategies
import msgspec

import k2_sim
from k2_sim.protocol import peering
from k2_sim.rules import base as rules
from k2_sim.rules import session_sync
from k2_sim.state import catalogue
from k2_sim.state import table
from tests.api import test_model
from tests import base
from tests import contexts
from tests import pairs

REUSE = {'reuse_ids': True}


class TestTable(base.ArrayTest):

    def test_free_numbers(self):
        rows = table.Table(catalogue.HOSTS, lambda *change: None)
        self.assertEqual(1, rows.free_number(0))
        for number in (1, 2, 4, 5, 9):
            rows.put({'id': number})
        self.assertEqual([3, 3, 3, 6, 6, 6, 7], [
            rows.free_number(above) for above in range(7)])
        self.assertEqual([9 + 1, 11], [
            rows.free_number(above) for above in (8, 10)])


class TestReuse(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.first = self.group('first')
        self.other = self.group('other')
        for group in (self.first, self.other):
            self.volume(group, f'of-{group["name"]}')
        self.control.set_behaviors(**REUSE)

    def test_the_lowest_free_id(self):
        """OBJ-7: in every resource, what its children are called too."""
        self.assertEqual([1, 2], [
            self.group(name)['id'] for name in 'ab'])
        made = [self.volume(self.first, name)['id'] for name in 'abc']
        # CTRL has the first.
        self.assertEqual([2, 3, 4], made)
        self.delete('volumes/3')
        self.assertEqual(3, self.volume(self.other, 'd')['id'])
        snapshots = [self.snapshot(self.first, name) for name in 'ab']
        self.delete(f'snapshots/{snapshots[0]["id"]}')
        self.assertEqual(snapshots[0]['id'],
                         self.snapshot(self.other, 'c')['id'])
        images = self.hits(f'volsnaps?snapshot.ref=/snapshots/'
                           f'{snapshots[0]["id"]}')
        self.assertEqual({1: '/volumes/3', 2: '/volumes/32'}, {
            image['id']: image['source']['ref'] for image in images})
        self.check_renderings()
        self.check_indexes()

    def test_ids_count_without_it(self):
        """OBJ-7: by default no ID is reused, not even a reused one."""
        volume = self.volume(self.first)
        self.delete(f'volumes/{volume["id"]}')
        self.control.set_behaviors(reuse_ids=False)
        self.assertEqual(33, self.volume(self.first)['id'])
        self.delete('volumes/33')
        self.assertEqual(34, self.volume(self.first)['id'])

    def test_a_refused_request_takes_none(self):
        self.refused('POST', 'volumes/__bulk', [
            {'name': 'a', 'size': 1,
             'volume_group': base.ref('volume_groups', self.first)},
            {'name': 'a', 'size': 1,
             'volume_group': base.ref('volume_groups', self.first)}])
        self.assertEqual(2, self.volume(self.first)['id'])

    def test_serials_do_not_come_back(self):
        """VOL-16: the serials that hosts see are never reused."""
        serials = set()
        for _ in range(3):
            volume = self.volume(self.first)
            serials.add(volume['scsi_sn'])
            self.delete(f'volumes/{volume["id"]}')
        self.assertEqual(3, len(serials))

    def test_events_stay_in_order(self):
        """EVT-1: records have their own numbers."""
        numbers = [event['id'] for event in self.hits('events')]
        self.volume(self.first)
        last = self.hits('events?__sort=id&__sort_order=desc')[0]
        self.assertEqual(max(numbers) + 1, last['id'])
        self.assertIn('created', last['message'])

    def test_what_is_still_shown_is_not_free(self):
        """QRY-10: a deleted snapshot that lingers keeps its id."""
        self.control.set_behaviors(linger_reads=1)
        one = self.snapshot(self.first)['id']
        self.delete(f'snapshots/{one}')
        self.assertNotEqual(one, self.snapshot(self.other)['id'])
        self.get(f'snapshots/{one}')
        self.assertEqual(one, self.snapshot(self.first, 'again')['id'])
        self.assertFalse(self.get(f'snapshots/{one}')['is_deleted'])

    def test_what_is_not_shown_yet_is_not_free(self):
        """OBJ-6: the next object is not hidden in place of another."""
        self.control.add_fault({'kind': 'late', 'method': 'POST',
                                'path': 'snapshots', 'reads': 2})
        one = self._for_an_hour('one')
        self.control.clear_faults()
        self.clock.advance(3601)
        self.get('volumes')
        self.assertIsNone(self.array.store.get('snapshots', one))
        two = self.snapshot(self.first, 'two')['id']
        self.assertEqual(two, self.get(f'snapshots/{two}')['id'])

    def test_restored_from_another_one(self):
        """RST-4: nothing is restored from a snapshot that came later."""
        one = self.snapshot(self.first)
        self.patch(f'volume_groups/{self.first["id"]}', {
            'last_restored_from': base.ref('snapshots', one)})
        self.delete(f'snapshots/{one["id"]}')
        self.assertEqual(one['id'], self.snapshot(self.other)['id'])
        for path in (f'volume_groups/{self.first["id"]}', 'volumes/31'):
            self.assertIsNone(self.get(path)['last_restored_from'])

    def test_statistics(self):
        """STA-3: a volume does not inherit another's statistics."""
        one = self.volume(self.first)['id']
        self.array.core.io.note(one, 8, 0, 65536, 0.004)
        before = self.hits('stats/system')
        self.delete(f'volumes/{one}')
        self.assertEqual(one, self.volume(self.first, 'again')['id'])
        self.assertEqual([], self.hits('stats/volumes'))
        self.assertEqual(before, self.hits('stats/system'))
        self.array.core.io.note(one, 1, 0, 4096, 0.004)
        point, = self.hits('stats/volumes')
        self.assertEqual('again', point['volume_name'])

    def test_retention(self):
        """RET-2: each snapshot has its own time."""
        one = self._for_an_hour('one')
        self.delete(f'snapshots/{one}')
        self.clock.advance(3000)
        self.assertEqual(one, self._for_an_hour('two'))
        for names in (['two'], []):
            self.clock.advance(3000)
            self.assertEqual(names, [
                found['short_name'] for found in self.hits('snapshots')])

    def _for_an_hour(self, name):
        """The ID of a new snapshot that the array removes in an hour."""
        policy = self.post('retention_policies', {
            'name': name, 'num_snapshots': 0, 'weeks': 0, 'days': 0,
            'hours': 1})
        return self.snapshot(
            self.first, name, is_auto_deleteable=True,
            retention_policy=base.ref('retention_policies', policy))['id']

    def test_saved_states(self):
        """A state with reused IDs can be saved and restored."""
        self.volume(self.first)
        self.delete('volumes/2')
        self.volume(self.first, 'b')
        before = self.control.dump()
        self.array.restore(self.control.save())
        self.assertEqual(before, self.control.dump())
        self.control.reset()
        self.assertEqual(14, self.group('g')['id'])


class TestModel(test_model.ModelTest):

    behaviors = {**test_model.ModelTest.behaviors, **REUSE}

    def setUp(self):
        super().setUp()
        contexts.enter(self, mock.patch.dict(test_model.FIRST, {
            **dict.fromkeys(test_model.FIRST, 1), 'volumes': 2}))

    @hypothesis.settings(suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large])
    @hypothesis.given(steps=strategies.lists(
        test_model.writes(test_model.STORAGE), min_size=5, max_size=60))
    def test_any_story(self, steps):
        """OBJ-7: refused or carried out with reused IDs."""
        self.tell(steps)
        self.check_storage()


class TestPeers(pairs.PairTest):
    """Two arrays, either of which may reuse an id."""

    def setUp(self):
        super().setUp()
        for side in (self.a, self.b):
            side.control.set_behaviors(**REUSE)

    def _session(self, name):
        group = self.a.group(f'vg-{name}')
        volume = self.a.volume(group, f'vol-{name}')
        session = self.a.post(pairs.SESSIONS, pairs.session_body(
            group, f'ssn-{name}'))
        self.a.post(pairs.PAIRS, {
            'name': f'rvol-{name}',
            'local_volume': base.ref('volumes', volume),
            'replication_session': base.ref(pairs.SESSIONS, session)})
        return session, volume

    def _forget_target(self, session):
        """Delete all of a session on the target, and nothing here."""
        number = session['remote_replication_session_id']
        group = self.b.get(f'{pairs.SESSIONS}/{number}')[
            'local_volume_group']['ref']
        self.b.delete(f'{pairs.SESSIONS}/{number}')
        for volume in self.b.hits(f'volumes?volume_group.ref={group}'):
            self.b.delete(f'volumes/{volume["id"]}')
        self.b.delete(group.strip('/'))
        return number

    def test_a_session_whose_counterpart_is_another_ones(self):
        """OBJ-7, REP-5: the id on the peer stands for a new session."""
        old, volume = self._session('old')
        number = self._forget_target(old)
        new, _ = self._session('new')
        self.assertEqual(number, new['remote_replication_session_id'])
        old_path = f'{pairs.SESSIONS}/{old["id"]}'
        self.a.refused('PATCH', old_path, {'state': 'in_sync'})
        pair, = [found for found in self.a.hits(pairs.PAIRS) if found[
            'local_volume'] == base.ref('volumes', volume)]
        self.a.refused('PATCH', f'{pairs.PAIRS}/{pair["id"]}',
                       {'name': 'mine'})
        self.a.delete(f'{pairs.PAIRS}/{pair["id"]}')
        self.a.refused('POST', pairs.PAIRS, {
            'name': 'x', 'local_volume': base.ref('volumes', volume),
            'replication_session': base.ref(pairs.SESSIONS, old)})
        self._check(new)

    def test_update_of_a_session_that_was_there_before(self):
        """REP-8: it is not the session just created with its ID."""
        old, _ = self._session('old')
        number = self._forget_target(old)
        answer, = self._say(peering.Requests(self._sender(), [('create', {
            'name': 'rssn-new', 'group': 'rvg-new', 'is_dedup': None,
            'policies': (None, None), 'rpo': 300, 'source_name': 'ssn-new',
            'exposure': None, 'source_group_name': 'vg-new',
            'source_group': 1, 'volumes': []})])).replies
        self.assertEqual((number, ''), (answer[0]['session'], answer[1]))
        view = session_sync.view(rules.Scope(
            self.a.array.store, self.a.array.behaviors, self.clock),
            self.a.array.store.get(pairs.SESSIONS, old['id']))
        reply = self._say(peering.SessionUpdate(
            self._sender(), [view], False, 0))
        self.assertEqual([old['id']], reply.unknown)
        self.assertIsNone(self.b.array.store.get(pairs.SESSIONS, number)[
            'remote_replication_session_id'])

    def _sender(self):
        state, = self.a.hits('system/state')
        return peering.Sender(
            state['system_id'], state['system_name'], pairs.HOSTS[0])

    def _say(self, message):
        """The reply of b to a message of a."""
        return self.b.array.links.receive(
            msgspec.to_builtins(message), 'admin')

    def _check(self, session):
        there = self.b.get(f'{pairs.SESSIONS}/'
                           f'{session["remote_replication_session_id"]}')
        self.assertEqual(('rssn-new', 'ssn-new', session['id']), (
            there['name'], there['remote_replication_session_name'],
            there['remote_replication_session_id']))
        self.a.patch(f'{pairs.SESSIONS}/{session["id"]}',
                     {'state': 'in_sync'})
        self.assertEqual('in_sync', self.b.get(
            f'{pairs.SESSIONS}/{there["id"]}')['state'])
        self.assertEqual(['rvol-new'], [
            found['name'] for found in self.b.hits('volumes')[1:]])

    def test_another_peer(self):
        """REP-19: data about a peer is not applied to the next."""
        self.a.delete(f'{pairs.PEERS}/1')
        other = pairs.talk(k2_sim.Array(clock=self.clock, name='k2-c'))
        self.addCleanup(other.array.close)
        network = self.a.array.links.transport.network
        network[pairs.HOSTS[1]] = other.array
        links = other.array.links
        links.transport.network, links.address = network, pairs.HOSTS[1]
        with mock.patch.object(
                links, 'receive', wraps=links.receive) as receive:
            peer = self.a.post(pairs.PEERS, {
                'name': 'c', 'mgmt_host': pairs.HOSTS[1],
                'username': 'admin', 'password': 'admin',
                'local_username': 'admin', 'local_password': 'admin'})
            self.a.call('GET', 'volumes')
        self.assertEqual(1, peer['id'])
        messages = [call.args[0] for call in receive.call_args_list]
        self.assertTrue(any(message.get('full') for message in messages))
