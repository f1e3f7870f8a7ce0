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

"""Section 10: peers, setup, transfers, history and statistics."""

import ddt
import msgspec

import k2_sim
from k2_sim.initial import archive
from k2_sim.rules import transfers
from tests import base
from tests import pairs

MIB = 2 ** 20


class TestPeers(pairs.PairTest):

    def test_record(self):
        """10.1: the fields that replies show, and no password."""
        peer = self.a.hits(f'{pairs.PEERS}?mgmt_host={pairs.HOSTS[1]}')[0]
        capacity = self.b.get('system/capacity/1')
        self.assertEqual({
            'id': 1, 'name': 'k2-b', 'mgmt_host': pairs.HOSTS[1],
            'username': 'admin', 'bandwidth_limit': None,
            'system_id': self.b.get('system/state/1')['system_id'],
            'mgmt_connectivity_state': 'ok', 'capacity_state': 'ok',
            **{f'capacity_{name}': capacity[name] for name in (
                'allocated', 'allocated_snapshots_and_views',
                'allocated_volumes', 'free', 'physical', 'provisioned',
                'provisioned_snapshots', 'provisioned_views',
                'provisioned_volumes', 'reserved', 'total')}}, peer)
        self.assertNotIn('password', str(self.a.control.dump()))
        self.assertEqual({}, self.a.control.leftovers())

    def body(self, host=pairs.HOSTS[1], **fields):
        return {'name': 'b', 'mgmt_host': host, 'username': 'admin',
                'password': 'admin', 'local_username': 'admin',
                'local_password': 'admin', **fields}

    def test_post(self):
        """Both arrays record each other."""
        for side in (self.a, self.b):
            side.delete(f'{pairs.PEERS}/1')
        self.refused(self.a, 'POST', pairs.PEERS, {})
        self.refused(self.a, 'POST', pairs.PEERS,
                     self.body(password='wrong'))
        self.refused(self.a, 'POST', pairs.PEERS,
                     self.body('127.0.0.1:1'))
        made = self.a.post(pairs.PEERS, self.body())
        self.assertEqual(('ok', self.b.get('system/state/1')['system_id']),
                         (made['mgmt_connectivity_state'],
                          made['system_id']))
        there = self.b.hits(pairs.PEERS)[0]
        self.assertEqual(('k2-a', pairs.HOSTS[0], 'ok'), (
            there['name'], there['mgmt_host'],
            there['mgmt_connectivity_state']))
        self.assertEqual([made['id']], [row['id'] for row in (
            self.a.control.leftovers()[pairs.PEERS])])
        self.refused(self.a, 'POST', pairs.PEERS, self.body(name='again'))
        self.refused(self.a, 'POST', pairs.PEERS,
                     self.body('x.example.org'))
        self.prepare_with(made)
        self.refused(self.a, 'DELETE', f'{pairs.PEERS}/{made["id"]}')

    def prepare_with(self, peer):
        self.prepare(replication_peer_k2array=base.ref(pairs.PEERS, peer))
        self.write('in_sync')
        self.assertStates('in_sync source', 'in_sync target')

    def test_patch(self):
        path = f'{pairs.PEERS}/1'
        self.a.patch(path, {'name': 'other', 'bandwidth_limit': 5,
                            'logical_bandwidth_limit': 6})
        self.assertEqual(('other', 5), tuple(
            self.a.get(path)[name] for name in ('name', 'bandwidth_limit')))
        self.refused(self.a, 'PATCH', path, {'password': 'wrong'})
        self.refused(self.a, 'PATCH', path, {'mgmt_host': pairs.HOSTS[0]})
        self.refused(self.a, 'PATCH', path, {'local_username': 'x'})
        self.a.patch(path, {'mgmt_host': pairs.HOSTS[1], 'id': 1})

    def test_wan_ports(self):
        """The array discovers the addresses."""
        body = {'replication_peer_k2array': base.ref(pairs.PEERS, 1)}
        for number in (1, 2):
            port = self.a.post('replication/peer_wan_ports', body)
            self.assertEqual(
                (f'wan0{number}', f'198.51.100.1{number}'),
                (port['remote_wan_port_name'],
                 port['remote_wan_port_ip_address']))
        self.refused(self.a, 'POST', 'replication/peer_wan_ports', body)
        self.assertEqual(405, self.a.call(
            'PATCH', 'replication/peer_wan_ports/1', {}).status)
        self.a.delete('replication/peer_wan_ports/1')
        self.a.delete(f'{pairs.PEERS}/1')
        self.assertEqual([], self.a.hits('replication/peer_wan_ports'))


@ddt.ddt
class TestSettingUp(pairs.PairTest):

    def test_session(self):
        """10.2, REP-1: both records, and the group on the peer."""
        self.prepare(retention_policy={'ref': '/retention_policies/4'},
                     external_retention_policy={
                         'ref': '/retention_policies/4'})
        here, there = self.here(), self.over_there()
        same = {
            'rpo': 300, 'state': 'idle', 'target_exposure': 'unmapped',
            'retention_policy': {'ref': '/retention_policies/4'},
            'external_retention_policy': {'ref': '/retention_policies/4'},
            'restored_snapshot': None, 'stopped': False,
            'suspend_reason': '', 'suspend_reason_code': 'none',
            'current_snapshot': None, 'current_snapshot_id': None,
            'current_snapshot_progress': 0, 'generation_number': None,
            'estimated_remaining_time': None, 'next_snapshot': None,
            'latest_replicated_snapshot': None, 'common_snapshots_count': 0,
            'replication_peer_k2array': base.ref(pairs.PEERS, 1)}
        group = self.b.get('volume_groups?name=rvg-1')['hits'][0]
        self.assertEqual({
            **same, 'id': 9, 'name': 'ssn-1', 'current_role': 'source',
            'primary': True, 'remote_replication_session_id': there['id'],
            'remote_replication_session_name': 'rssn-1',
            'local_volume_group': base.ref('volume_groups', self.group),
            'replication_peer_volume_group': {
                'ref': '/replication/peer_volume_groups/2'},
            'replication_rpo_history': {
                'ref': '/replication/rpo_history/9'}}, here)
        self.assertEqual({
            **same, 'id': 1009, 'name': 'rssn-1', 'current_role': 'target',
            'primary': False, 'remote_replication_session_id': 9,
            'remote_replication_session_name': 'ssn-1',
            'local_volume_group': base.ref('volume_groups', group),
            'replication_peer_volume_group': {
                'ref': '/replication/peer_volume_groups/1002'},
            'replication_rpo_history': {
                'ref': '/replication/rpo_history/1009'}}, there)
        self.assertEqual({
            'id': 2, 'name': 'rvg-1', 'local_volume_group':
                base.ref('volume_groups', self.group),
            'fullname': self.b.get('system/state/1')['system_id']
                + '_rvg-1', 'remote_volume_group_id': group['id'],
            'replication_peer_k2array': base.ref(pairs.PEERS, 1),
            'replication_session': base.ref(pairs.SESSIONS, 9),
            'replication_session_id': 9, 'capacity_state': 'ok',
            'logical_capacity': 0, 'snapshots_logical_capacity': 0,
            'volumes_logical_capacity': 0},
            self.a.get('replication/peer_volume_groups/2'))

    def test_volume(self):
        """REP-1, REP-16: a volume on the peer, and the pairing."""
        self.prepare()
        self.assertEqual({
            'id': 12, 'name': 'rvol-1', 'remote_volume_id': self.remote,
            'local_volume': base.ref('volumes', self.volume),
            'replication_peer_volume_group': {
                'ref': '/replication/peer_volume_groups/2'}}, self.pair)
        copy = self.b.get(f'volumes/{self.remote}')
        self.assertEqual(('rvol-1', base.GIB, True), (
            copy['name'], copy['size'], copy['read_only']))
        for side, volume, pair in ((self.a, self.volume['id'], 12),
                                   (self.b, self.remote, 1012)):
            row = side.get(f'volumes/{volume}')
            self.assertEqual(
                base.ref(pairs.PAIRS, pair), row['replication_peer_volume'])
            self.assertEqual(
                {'ref': f'/replication/stats/volumes/{volume}'},
                row['current_replication_stats'])
        group = self.a.get(f'volume_groups/{self.group["id"]}')
        self.assertEqual((base.ref(pairs.SESSIONS, 9), {
            'ref': '/replication/peer_volume_groups/2'}, {
            'ref': '/replication/rpo_history/9'}), (
            group['replication_session'],
            group['replication_peer_volume_group'],
            group['replication_rpo_history']))
        there = self.b.get(f'{pairs.PAIRS}/1012')
        self.assertEqual((self.volume['id'], 'vol-1'), (
            there['remote_volume_id'], there['name']))

    def test_search(self):
        """By group, as the driver does."""
        self.prepare()
        for path in ('local_volume_group.ref=/volume_groups/14',
                     'name=ssn-1', 'name__prefix=ssn', 'state=idle',
                     'current_role=source'):
            self.assertEqual(1, self.a.get(
                f'{pairs.SESSIONS}?{path}')['total'], path)
        self.assertEqual(1, self.a.get(
            f'{pairs.PAIRS}?local_volume.ref=/volumes/31')['total'])

    def test_default_names(self):
        """REP-3, REP-1: the array creates the volumes itself."""
        group = self.a.group()
        volume = self.a.volume(group, vmware_support=True)
        body = pairs.session_body(group)
        for name in ('replication_peer_volume_group_name',
                     'remote_replication_session_name',
                     'auto_configure_peer_volumes'):
            del body[name]
        session = self.a.post(pairs.SESSIONS, body)
        system = self.a.get('system/state/1')['system_id']
        self.assertEqual('remote_ssn-1',
                         session['remote_replication_session_name'])
        self.assertEqual([f'dr_{system}_vg-a'], [
            hit['name'] for hit in self.b.hits('volume_groups')])
        made = self.b.hits('volumes?name__prefix=dr')[0]
        self.assertEqual(
            (f'dr_{system}_vol-1', base.GIB * 10, True, True),
            (made['name'], made['size'], made['vmware_support'],
             made['read_only']))
        pair = self.a.hits(pairs.PAIRS)[0]
        self.assertEqual(
            (made['id'], base.ref('volumes', volume)),
            (pair['remote_volume_id'], pair['local_volume']))
        self.a.patch(f'{pairs.SESSIONS}/{session["id"]}',
                     {'state': 'in_sync'})

    @ddt.data(0, -300, 61, 120, 301, 450, 500)
    def test_rpo(self, rpo):
        """REP-4: with the known text."""
        group = self.a.group()
        self.assertEqual(
            'rpo must be either 1 min or multiple of 5 min',
            self.refused(self.a, 'POST', pairs.SESSIONS,
                         pairs.session_body(group, rpo=rpo)))

    @ddt.data({'name': 'x' * 43}, {'name': ''}, {'name': None},
              {'rpo': None}, {'local_volume_group': None},
              {'replication_peer_k2array': base.ref(pairs.PEERS, 2)},
              {'target_exposure': 'open'}, {'state': 'in_sync'},
              {'remote_replication_session_name': 'x' * 43},
              {'replication_peer_volume_group_name': 'x' * 43})
    def test_bad_values(self, fields):
        """REP-7, OBJ-12, OBJ-13."""
        group = self.a.group()
        self.refused(self.a, 'POST', pairs.SESSIONS,
                     {**pairs.session_body(group), **fields})

    @ddt.data(60, 300, 86400)
    def test_good_rpo(self, rpo):
        self.prepare(rpo=str(rpo))
        self.assertEqual(rpo, self.over_there()['rpo'])

    def test_taken(self):
        """REP-5, and names on either side."""
        self.prepare()
        self.assertIn('is in session', self.refused(
            self.a, 'POST', pairs.SESSIONS, pairs.session_body(
                self.group, 'other',
                replication_peer_volume_group_name='other')))
        group = self.a.group('vg-x')
        for fields in ({'name': 'ssn-1'},
                       {'remote_replication_session_name': 'rssn-1'},
                       {'replication_peer_volume_group_name': 'rvg-1'}):
            self.refused(self.a, 'POST', pairs.SESSIONS,
                         {**pairs.session_body(group, 'x'), **fields})
        self.b.volume(self.b.group('vg-y'), 'taken')
        self.a.post(pairs.SESSIONS, pairs.session_body(group, 'x'))
        volume = self.a.volume(group, 'taken')
        self.refused(self.a, 'POST', pairs.PAIRS, {
            **self.pair_body(volume, 10), 'name': 'taken'})

    def test_policies_can_be_mandatory(self):
        """REP-2."""
        self.a.control.set_behaviors(session_policies_required=True)
        body = pairs.session_body(self.a.group())
        self.refused(self.a, 'POST', pairs.SESSIONS, body)
        policy = {'ref': '/retention_policies/4'}
        self.a.post(pairs.SESSIONS, {
            **body, 'retention_policy': policy,
            'external_retention_policy': policy})

    def test_policy_in_use(self):
        """RET-3."""
        policy = self.a.post('retention_policies', {
            'name': 'p', 'num_snapshots': 1, 'weeks': 0, 'days': 0,
            'hours': 0})
        ref = base.ref('retention_policies', policy)
        self.prepare(retention_policy=ref)
        self.refused(self.a, 'DELETE', f'retention_policies/{policy["id"]}')
        self.assertIsNone(self.over_there()['retention_policy'])

    def test_start_needs_peer_volumes(self):
        """REP-5."""
        self.prepare()
        second = self.a.volume(self.group, 'vol-2')
        self.assertEqual('Volume vol-2 has no peer volume',
                         self.command_refused(self.a, 'in_sync'))
        self.add_volume(second)
        self.refused(self.a, 'POST', pairs.PAIRS, self.pair_body(second))
        self.write('in_sync')
        third = self.a.volume(self.a.group('vg-x'), 'vol-3')
        self.refused(self.a, 'POST', pairs.PAIRS, self.pair_body(third))
        empty = self.a.post(pairs.SESSIONS, pairs.session_body(
            self.a.group('vg-y'), 'ssn-2'))
        self.refused(self.a, 'PATCH', f'{pairs.SESSIONS}/{empty["id"]}',
                     {'state': 'in_sync'})

    def test_members_change_only_while_idle(self):
        """REP-5, VOL-10; RST-3 for its restore."""
        self.prepare()
        other = self.a.group('vg-x')
        path = f'volumes/{self.volume["id"]}'
        free = self.a.volume(other, 'free')
        for move in ((path, other), (f'volumes/{free["id"]}', self.group)):
            self.refused(self.a, 'PATCH', move[0], {
                'volume_group': base.ref('volume_groups', move[1])})
        self.refused(self.a, 'DELETE', path)
        extra = self.a.volume(self.group, 'extra')
        self.a.delete(f'volumes/{extra["id"]}')
        self.write('in_sync')
        body = {'name': 'new', 'size': 1,
                'volume_group': base.ref('volume_groups', self.group)}
        self.refused(self.a, 'POST', 'volumes', body)
        self.refused(self.a, 'DELETE', path)
        snapshot = self.a.snapshot(self.group)
        self.refused(self.a, 'POST', 'volumes', self.a.clone_body(
            self.group, snapshot, self.volume))
        self.refused(self.a, 'PATCH',
                     f'volume_groups/{self.group["id"]}', {
                         'last_restored_from':
                             base.ref('snapshots', snapshot)})
        for pair in ('POST', pairs.PAIRS, self.pair_body(self.volume)), (
                'DELETE', f'{pairs.PAIRS}/{self.pair["id"]}', None):
            self.refused(self.a, *pair)

    def test_groups_of_sessions_stay(self):
        """VG-6, REP-18."""
        session = self.a.post(pairs.SESSIONS, pairs.session_body(
            self.a.group()))
        self.assertIn('in session', self.refused(
            self.a, 'DELETE', 'volume_groups/14'))
        self.assertIn('in session', self.refused(
            self.b, 'DELETE', 'volume_groups/1014'))
        self.refused(self.b, 'POST', 'volumes', {
            'name': 'x', 'size': 1, 'volume_group':
                base.ref('volume_groups', 1014)})
        self.a.delete(f'{pairs.SESSIONS}/{session["id"]}')
        self.a.delete('volume_groups/14')
        self.b.delete(f'{pairs.SESSIONS}/1009')
        self.b.delete('volume_groups/1014')

    def test_end_of_a_pair(self):
        """The volume on the peer stays, and can then be deleted."""
        self.prepare()
        self.refused(self.b, 'DELETE', f'volumes/{self.remote}')
        self.refused(self.b, 'DELETE', f'{pairs.PAIRS}/1012')
        self.a.delete(f'{pairs.PAIRS}/{self.pair["id"]}')
        self.assertEqual([], self.b.hits(pairs.PAIRS))
        self.b.delete(f'volumes/{self.remote}')
        self.add_volume(self.volume)
        self.write('in_sync')

    def test_new_member_while_the_peer_follows(self):
        self.start()
        self.b.control.set_behaviors(follow_seconds=5)
        self.write('suspended')
        self.write('idle')
        body = self.pair_body(self.a.volume(self.group, 'vol-2'))
        self.refused(self.a, 'POST', pairs.PAIRS, body)
        self.clock.advance(5)
        self.a.post(pairs.PAIRS, body)

    def test_mapped_source(self):
        """REP-18: it can be replicated all the time."""
        self.prepare()
        self.a.map(self.a.host(), self.volume)
        self.write('in_sync')
        self.write('suspended')
        self.write('idle')
        self.a.delete(self.source_path())

    def test_statistics_name_the_peer(self):
        """Section 8: peer_k2_name of a volume in a session."""
        self.start()
        self.a.array.core.io.note(self.volume['id'], 1, 0, 4096, 0.001)
        self.assertEqual([{'peer_k2_name': 'k2-b'}], self.a.hits(
            'stats/volumes?__fields=peer_k2_name'))

    def test_growth(self):
        """VOL-4, and equal sizes for the start."""
        self.start()
        grow = {'size': 2 * base.GIB}
        here = f'volumes/{self.volume["id"]}'
        there = f'volumes/{self.remote}'
        self.refused(self.a, 'PATCH', here, grow)
        self.refused(self.b, 'PATCH', there, grow)
        self.write('suspended')
        self.refused(self.a, 'PATCH', here, grow)
        self.b.control.set_behaviors(grow_suspended=True)
        self.a.control.set_behaviors(grow_suspended=True)
        self.a.patch(here, grow)
        self.assertIn('size', self.command_refused(self.a, 'in_sync'))
        self.b.patch(there, grow)
        self.write('in_sync')
        self.a.control.set_behaviors(grow_in_session=True)
        self.a.patch(here, {'size': 3 * base.GIB})
        self.write_there('failed_over')
        self.assertIn('size', self.command_refused(self.b, 'in_sync'))
        self.b.patch(there, {'size': 3 * base.GIB})
        self.write_there('in_sync')

    def test_copies_that_grow_at_the_start(self):
        """VOL-4: only with their sources, as far as there is room."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        self.start()
        self.write('suspended')
        self.write('idle')
        here = f'volumes/{self.volume["id"]}'
        there = f'volumes/{self.remote}'
        self.refused(self.b, 'PATCH', there, {'size': 2 * base.GIB})
        self.a.patch(here, {'size': 2 * base.GIB})
        self.b.control.set_behaviors(full=True)
        self.command_refused(self.a, 'in_sync')
        self.assertEqual(base.GIB, self.b.get(there)['size'])
        self.b.control.set_behaviors(full=False)
        self.write('in_sync')
        self.assertEqual(2 * base.GIB, self.b.get(there)['size'])
        self.write_there('failed_over')
        self.b.patch(there, {'size': 3 * base.GIB})

    def test_tear_down(self):
        """REP-15: nothing is left when everything was deleted."""
        self.start()
        taken = self.take(self.a, self.session)
        self.clock.advance(300)
        self.write('suspended')
        self.write('idle')
        self.b.delete(self.target_path())
        self.a.delete(self.source_path())
        for side in (self.a, self.b):
            self.assertEqual([], side.hits(pairs.PAIRS))
            self.assertEqual(
                [], side.hits('replication/peer_volume_groups'))
            self.assertEqual([], side.hits('replication/rpo_history'))
            group = side.hits('volume_groups')[0]
            for volume in side.hits('volumes?name__contains=vol-1'):
                self.refused(side, 'DELETE', f'volumes/{volume["id"]}')
            self.assertIsNone(group['replication_session'])
            found = side.hits('snapshots')
            self.assertEqual([(None, 2), (None, 3)], [(
                row['replication_session'], row['generation_number'])
                for row in found])
            for row in found:
                side.delete(f'snapshots/{row["id"]}')
            side.delete('volumes/{id}'.format(**side.hits(
                'volumes?name__contains=vol-1')[0]))
            side.delete(f'volume_groups/{group["id"]}')
            self.assertEqual({}, side.control.leftovers())
        self.assertEqual(2, taken['generation_number'])

    def test_leftovers(self):
        self.prepare()
        for side in (self.a, self.b):
            self.assertEqual({
                'volumes', 'volume_groups', pairs.SESSIONS, pairs.PAIRS,
                'replication/peer_volume_groups'},
                set(side.control.leftovers()))


class TestTravel(pairs.PairTest):

    def taken(self, number):
        return self.a.get(f'snapshots/{number}')

    def arrived(self, snapshot):
        """REP-14, seen in both ways."""
        session = self.here()
        known = (session['generation_number'] >= snapshot[
            'generation_number'] and session['current_snapshot_id'] is None
            and session['current_snapshot_progress'] == 100)
        self.assertEqual(
            known, self.taken(snapshot['id'])['is_exist_on_peer'])
        return known

    def test_first_copy(self):
        """REP-6: in_sync at once, progress rises."""
        self.prepare()
        self.a.control.write(self.volume['id'], 'one')
        self.a.control.set_behaviors(copy_seconds=100.0)
        self.assertEqual('in_sync', self.write('in_sync')['state'])
        for passed, progress in ((0, 0), (25, 25), (74, 99)):
            self.clock.advance(passed)
            here = self.here()
            self.assertEqual(
                ('in_sync', progress, None, 99 - progress + 1), (
                    here['state'], here['current_snapshot_progress'],
                    here['generation_number'],
                    here['estimated_remaining_time']))
            self.assertEqual(
                here['current_snapshot'],
                base.ref('snapshots', here['current_snapshot_id']))
        self.assertEqual(('one', ''), self.contents())
        self.assertIn('complete', self.command_refused(
            self.b, 'failed_over'))
        self.clock.advance(1)
        here = self.here()
        self.assertEqual((100, None, None, 1, None), (
            here['current_snapshot_progress'], here['current_snapshot_id'],
            here['current_snapshot'], here['generation_number'],
            here['estimated_remaining_time']))
        self.assertEqual(('one', 'one'), self.contents())
        self.assertEqual(1, self.over_there()['generation_number'])

    def test_what_was_written_later_goes_with_the_next_round(self):
        self.start()
        self.a.control.set_behaviors(round_seconds=10.0)
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        self.a.control.write(self.volume['id'], 'three')
        self.clock.advance(9.9)
        self.assertEqual(('three', 'one'), self.contents())
        self.clock.advance(0.1)
        self.assertEqual(('three', 'two'), self.contents())
        self.clock.advance(289.9)
        self.assertEqual(('three', 'two'), self.contents())
        self.clock.advance(10.2)
        self.assertEqual(('three', 'three'), self.contents())
        self.assertEqual(3, self.here()['generation_number'])

    def test_nobody_looks_for_a_long_time(self):
        """Rounds are counted, even if nobody reads the target either."""
        self.start()
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(365 * 86400)
        self.assertEqual('two', self.b.control.read(self.remote))
        self.assertEqual(1 + 365 * 288, self.over_there()[
            'generation_number'])
        self.assertEqual(1 + 365 * 288, self.here()['generation_number'])
        self.assertEqual(transfers.HISTORY_KEPT, self.a.get(
            'replication/rpo_history')['total'])
        self.assertEqual(1, self.a.get('snapshots')['total'])
        self.assertEqual(1, self.b.get('snapshots')['total'])

    def test_rounds_longer_than_the_rpo(self):
        """One at a time; the next begins at the next interval."""
        self.start(rpo=60)
        self.a.control.set_behaviors(round_seconds=100.0)
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(60)
        self.assertEqual(0, self.here()['current_snapshot_progress'])
        self.clock.advance(99)
        self.assertEqual(99, self.here()['current_snapshot_progress'])
        self.clock.advance(2)
        self.assertEqual(2, self.here()['generation_number'])
        self.assertIsNone(self.here()['current_snapshot_id'])
        self.clock.advance(19)
        self.assertEqual(0, self.here()['current_snapshot_progress'])
        self.clock.advance(3600)
        self.assertEqual(32, self.here()['generation_number'])

    def test_rpo_is_changed(self):
        self.start()
        self.a.control.write(self.volume['id'], 'two')
        self.a.patch(self.source_path(), {'rpo': 60})
        self.clock.advance(60)
        self.assertEqual(('two', 'two'), self.contents())

    def test_replication_snapshot(self):
        """REP-13, REP-14, SNP-14."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=10.0)
        self.a.control.write(self.volume['id'], 'two')
        snapshot = self.take(self.a, self.session)
        self.a.control.write(self.volume['id'], 'three')
        self.assertEqual({
            'id': 52, 'short_name': 'repl-52', 'name': 'vg-1:repl-52',
            'source': base.ref('volume_groups', self.group),
            'retention_policy': None, 'is_auto_deleteable': False,
            'is_exposable': False, 'is_application_consistent': False,
            'replication_session': base.ref(pairs.SESSIONS, self.session),
            'generation_number': 2, 'is_exist_on_peer': False,
            'triggered_by': 'api', 'is_locked_by_replication': True},
            {name: value for name, value in snapshot.items() if name in (
                'id', 'short_name', 'name', 'source', 'retention_policy',
                'is_auto_deleteable', 'is_exposable', 'is_exist_on_peer',
                'is_application_consistent', 'replication_session',
                'generation_number', 'triggered_by',
                'is_locked_by_replication')})
        self.assertFalse(self.arrived(snapshot))
        self.assertEqual(snapshot['id'], self.here()['current_snapshot_id'])
        self.refused(self.a, 'DELETE', f'snapshots/{snapshot["id"]}')
        self.clock.advance(10)
        self.assertTrue(self.arrived(snapshot))
        self.assertEqual(('three', 'two'), self.contents())
        copy = self.b.hits('snapshots?triggered_by=Replication_API')[0]
        self.assertEqual(
            (True, True, 2, {'ref': '/volume_groups/1014'}, False),
            (copy['is_exist_on_peer'], copy['is_originating_from_peer'],
             copy['generation_number'], copy['volume_group'],
             copy['is_auto_deleteable']))
        self.assertEqual('two', self.b.control.read(
            self.remote, copy['id']))
        self.assertEqual(2, self.over_there()['generation_number'])
        self.assertEqual(1, self.here()['common_snapshots_count'])

    def test_no_policy_no_age(self):
        """RET-2, SNP-10: without a policy, a snapshot is never too old."""
        self.start()
        number = self.a.hits('snapshots')[0]['id']
        self.a.patch(f'snapshots/{number}', {'is_auto_deleteable': True})
        self.a.patch(base.RETENTION[1:], {'hours': 1})
        self.assertTrue(
            self.a.get(f'snapshots/{number}')['is_auto_deleteable'])
        text = msgspec.json.encode(self.a.control.save())
        self.assertEqual('sdp', archive.read(text, 'sdp').profile)

    def test_both_forms_of_the_body(self):
        """4.3: commvault and PS SDK send the group, cinder a flag."""
        self.start()
        ref = base.ref(pairs.SESSIONS, self.session)
        group = base.ref('volume_groups', self.group)
        self.a.post('snapshots', {'replication_session': ref,
                                  'source': group})
        other = base.ref('volume_groups', self.a.group('vg-x'))
        for fields in ({'short_name': 'x'}, {'source': other},
                       {'retention_policy': {'ref': base.RETENTION}},
                       {'is_exposable': True}):
            self.refused(self.a, 'POST', 'snapshots', {
                'replication_session': ref, **fields})
        self.refused(self.b, 'POST', 'snapshots', {
            'replication_session': base.ref(pairs.SESSIONS, self.there)})
        self.write('suspended')
        self.refused(self.a, 'POST', 'snapshots', {
            'replication_session': ref})

    def test_in_bulk(self):
        """BLK-3: a snapshot of each of several sessions."""
        sessions = []
        for name in '12':
            self.start(name=name)
            sessions.append(self.session)
        reply = self.a.post('snapshots/__bulk', [
            {'replication_session': base.ref(pairs.SESSIONS, row)}
            for row in sessions])
        self.assertEqual([2, 2], [hit['generation_number']
                                  for hit in reply['hits']])
        self.assertEqual(2, self.b.get(
            'snapshots?triggered_by=Replication_API')['total'])

    def test_locks(self):
        """What the session needs next cannot be deleted."""
        self.start()
        first = self.take(self.a, self.session)
        path = f'snapshots/{first["id"]}'
        self.assertIn('locked', self.refused(self.a, 'DELETE', path))
        self.clock.advance(300)
        latest = self.here()['latest_replicated_snapshot']['ref'][1:]
        self.assertNotEqual(path, latest)
        self.refused(self.a, 'DELETE', latest)
        self.a.delete(path)
        copy = self.b.hits('snapshots?triggered_by=Replication_API')[0]
        self.b.delete(f'snapshots/{copy["id"]}')
        self.write('suspended')
        self.refused(self.a, 'DELETE', latest)
        self.write('idle')
        self.a.delete(latest)
        self.assertIsNone(self.here()['latest_replicated_snapshot'])
        self.b.delete(
            self.over_there()['latest_replicated_snapshot']['ref'][1:])
        # And the session can start again.
        self.a.control.set_behaviors(copy_seconds=5)
        self.write('in_sync')
        self.command_refused(self.b, 'failed_over')
        self.clock.advance(5)
        self.write_there('failed_over')

    def test_several_on_their_way(self):
        """One after the other, in order."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=10.0)
        snapshots = []
        for token in ('two', 'three'):
            self.a.control.write(self.volume['id'], token)
            snapshots.append(self.take(self.a, self.session))
        self.clock.advance(10)
        self.assertEqual(('three', 'two'), self.contents())
        self.assertEqual(snapshots[1]['id'],
                         self.here()['current_snapshot_id'])
        self.clock.advance(10)
        self.assertEqual(('three', 'three'), self.contents())
        self.assertTrue(self.arrived(snapshots[1]))

    def test_suspended_on_the_way(self):
        """A round is aborted; a user's snapshot is sent after the resume."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=10, round_seconds=20)
        self.a.control.write(self.volume['id'], 'two')
        snapshot = self.take(self.a, self.session)
        self.clock.advance(5)
        self.write('suspended')
        self.assertIsNone(self.here()['current_snapshot_id'])
        self.clock.advance(1000)
        self.assertEqual('one', self.contents()[1])
        self.refused(self.a, 'DELETE', f'snapshots/{snapshot["id"]}')
        self.a.control.write(self.volume['id'], 'three')
        self.write('in_sync')
        self.clock.advance(10)
        self.assertEqual('two', self.contents()[1])
        self.assertTrue(self.taken(snapshot['id'])['is_exist_on_peer'])
        self.clock.advance(20)
        self.assertEqual('three', self.contents()[1])
        self.clock.advance(280)
        self.write('suspended')
        self.write('in_sync')
        self.assertEqual(
            1, self.a.get('snapshots?triggered_by=Replication&'
                          'is_exist_on_peer=true')['total'])
        self.write('suspended')
        self.write('idle')
        self.assertEqual(
            1, self.a.get('snapshots?triggered_by=Replication')['total'])

    def test_failover_drops_what_has_not_arrived(self):
        """REP-9, section 15 number 12."""
        self.start()
        self.a.control.write(self.volume['id'], 'two')
        self.write_there('failed_over')
        self.assertEqual(('two', 'one'), self.contents())
        self.b.control.write(self.remote, 'three')
        self.write_there('in_sync')
        self.assertEqual(('three', 'three'), self.contents())
        self.assertRaises(k2_sim.ApiError, self.a.control.write,
                          self.volume['id'], 'x')

    def test_restored_snapshot(self):
        """REP-10: the one that was asked for, or the latest."""
        self.start()
        self.take(self.a, self.session)
        first = self.b.hits('snapshots?triggered_by=Replication_API')[0]
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        group = self.b.group('vg-own')
        self.b.volume(group, 'own')
        self.command_refused(self.b, 'failed_over', restored_snapshot=(
            base.ref('snapshots', self.b.snapshot(group))))
        self.command_refused(self.a, 'suspended', restored_snapshot=(
            self.here()['latest_replicated_snapshot']))
        done = self.write_there('failed_over', restored_snapshot=(
            base.ref('snapshots', first)))
        self.assertEqual(base.ref('snapshots', first),
                         done['restored_snapshot'])
        self.assertEqual('one', self.contents()[1])

    def test_failback(self):
        """REP-11, REP-12: no written data is lost."""
        self.start()
        self.write_there('failed_over')
        self.b.control.write(self.remote, 'two')
        self.b.control.set_behaviors(round_seconds=30, snapshot_seconds=5)
        self.write_there('in_sync')
        self.assertStates('in_sync target', 'in_sync source')
        self.clock.advance(30)
        self.assertEqual(('two', 'two'), self.contents())
        self.b.control.write(self.remote, 'three')
        snapshot = self.take(self.b, self.there)
        self.clock.advance(5)
        there = self.over_there()
        self.assertEqual(
            (snapshot['generation_number'], None, 100),
            (there['generation_number'], there['current_snapshot_id'],
             there['current_snapshot_progress']))
        self.write('failed_over')
        self.assertStates('failed_over target', 'suspended source')
        self.write('in_sync')
        self.assertStates('in_sync source', 'in_sync target')
        self.assertEqual(('three', 'three'), self.contents())
        self.assertTrue(self.here()['primary'])

    def test_failback_without_waiting(self):
        """Data that has not arrived is lost: the copy is the previous one."""
        self.start()
        self.write_there('failed_over')
        self.b.control.write(self.remote, 'two')
        self.b.control.set_behaviors(round_seconds=30)
        self.write_there('in_sync')
        self.write('failed_over')
        self.assertEqual('one', self.contents()[0])

    def test_generations_never_repeat(self):
        """Even if the peer has assigned numbers that never arrived."""
        self.start()
        self.a.control.set_behaviors(snapshot_seconds=100)
        lost = [self.take(self.a, self.session)['generation_number']
                for _ in range(3)]
        self.write_there('failed_over')
        self.write_there('in_sync')
        self.assertGreater(
            self.here()['generation_number'], max(lost))
        self.assertEqual(self.here()['generation_number'],
                         self.over_there()['generation_number'])
        # Snapshots that never arrived are for the user to delete.
        for row in self.a.hits('snapshots?triggered_by=api'):
            self.assertFalse(row['is_exist_on_peer'])
            self.a.delete(f'snapshots/{row["id"]}')

    def test_restore_views_and_clones_carry_content(self):
        """Each has what its source had at its creation."""
        group = self.a.group()
        volume = self.a.volume(group)
        write, read = self.a.control.write, self.a.control.read
        write(volume['id'], 'one')
        snapshot = self.a.snapshot(group)
        write(volume['id'], 'two')
        clone = self.a.post('volumes', self.a.clone_body(
            group, snapshot, volume))
        self.assertEqual(('two', 'one'), (
            read(volume['id']), read(clone['id'])))
        view = self.a.view(snapshot)
        self.assertEqual('one', read(volume['id'], view['id']))
        self.assertRaises(k2_sim.ApiError, read, clone['id'], view['id'])
        self.a.delete(f'volumes/{clone["id"]}')
        self.a.patch(f'volume_groups/{group["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})
        self.assertEqual('one', read(volume['id']))
        self.assertRaises(k2_sim.ApiError, write, 1, 'x')
        self.assertRaises(k2_sim.ApiError, read, 999)
        self.assertRaises(k2_sim.ApiError, write, volume['id'], 5)

    def test_short_name_that_a_user_took(self):
        self.prepare()
        self.a.snapshot(self.group, 'repl-52')
        self.write('in_sync')
        self.assertEqual(['repl-52', 'repl-53'], [
            row['short_name'] for row in self.a.hits('snapshots')])


class TestHistory(pairs.PairTest):

    def test_rounds(self):
        """10.5: without ids, in an envelope of hits and total."""
        self.start(rpo=60)
        self.a.control.set_written(self.volume['id'], 1024)
        self.a.control.set_behaviors(round_seconds=7)
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(67)
        reply = self.a.get('replication/rpo_history')
        self.assertEqual({'hits', 'total'}, set(reply))
        begin = 1767225600
        first, second = (
            {'session': base.ref(pairs.SESSIONS, 9), 'role': 'source',
             'generation_number': 1, 'round_start': begin,
             'round_end': begin, 'target_rpo': 60,
             'bytes_transmitted_logical': 0,
             'bytes_transmitted_physical': 0},
            {'session': base.ref(pairs.SESSIONS, 9), 'role': 'source',
             'generation_number': 2, 'round_start': begin + 60,
             'round_end': begin + 67, 'target_rpo': 60,
             'bytes_transmitted_logical': MIB,
             'bytes_transmitted_physical': MIB // 4})
        self.assertEqual([first, second], reply['hits'])
        there = self.b.get('replication/rpo_history/1009')
        self.assertEqual([{
            **row, 'role': 'target',
            'session': base.ref(pairs.SESSIONS, 1009)}
            for row in (first, second)], there['hits'])
        self.assertEqual(2, self.a.get(
            'replication/rpo_history?session.ref=/replication/sessions/9')
            ['total'])
        self.a.refused('GET', 'replication/rpo_history/77', status=404)
        self.clock.advance(3600)
        kept = self.a.get('replication/rpo_history/9')['hits']
        self.assertEqual(transfers.HISTORY_KEPT, len(kept))
        self.assertEqual(
            [60] * (len(kept) - 1),
            [after['round_start'] - before['round_start']
             for before, after in zip(kept, kept[1:])])

    def _check_conditions(self, side, number, name):
        """QRY-2: they are for statistics, too."""
        for path in ('replication/stats', 'replication/stats/volumes'):
            for query, total in (
                    (f'volume_name={name}', 1), ('volume_name=x', 0),
                    (f'volume.ref=/volumes/{number}', 1),
                    ('volume.ref=/volumes/1', 0), ('colour=red', 0),
                    ('timestamp__gt=1767225900', 0)):
                self.assertEqual(
                    total, side.get(f'{path}?{query}')['total'], query)

    def test_statistics(self):
        """10.5: bytes per second of what arrived in the interval."""
        self.start()
        self.a.control.set_written(self.volume['id'], 5120)
        self.a.control.write(self.volume['id'], 'two')
        self.clock.advance(300)
        sent = 5 * MIB // 5
        for side, direction, number in ((self.a, 'out', self.volume['id']),
                                        (self.b, 'in', self.remote)):
            other = {'out': 'in', 'in': 'out'}[direction]
            figures = {
                f'logical_{direction}': sent, f'logical_{other}': 0,
                f'physical_{direction}': sent // 4, f'physical_{other}': 0,
                'resolution': 5, 'timestamp': 1767225900}
            self.assertEqual(
                {'hits': [figures], 'total': 1},
                side.get('replication/stats/system'))
            row = side.get(f'volumes/{number}')
            figures.update(volume=base.ref('volumes', number),
                           volume_name=row['name'])
            path = row['current_replication_stats']['ref'][1:]
            for path in (path, 'replication/stats/volumes'):
                self.assertEqual({'hits': [figures], 'total': 1},
                                 side.get(path))
            figures['peer_k2_name'] = side.hits(pairs.PEERS)[0]['name']
            self.assertEqual([figures], side.hits('replication/stats'))
            self._check_conditions(side, number, row['name'])
        self.clock.advance(10)
        hits = self.a.hits('replication/stats/system?__datapoints=3')
        self.assertEqual([sent, 0, 0], [hit['logical_out'] for hit in hits])
        for path in ('stats', 'stats/system', 'rpo_history'):
            self.a.refused('POST', f'replication/{path}', {}, status=405)
