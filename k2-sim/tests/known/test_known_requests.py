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

"""An array that accepts only requests known to work on all (section 16)."""

import ddt

import k2_sim
from k2_sim.known import known_requests
from tests import base
from tests import pairs

STATUSES = (400, 404, 405, 500, 501)
NOT_LISTED = 'refuse_unlisted'
SEQUENCE = {'X-K2-Sequence': 'writer=1'}
# Searches that are not listed; the volume group in them is the first one.
SEARCHES = (
    'volumes?__limit=9', 'volumes?__sort=id', 'volumes/1?__fields=id',
    'volumes?name__in=CTRL', 'volumes?name=CTRL&size=1', 'volumes?id=1',
    'volumes?name=CTRL&name=CTRL', 'mappings?volume.ref__in=/volumes/1',
    'volume_groups', 'hosts', 'hosts?type=Linux', 'snapshots',
    'host_fc_ports?pwwn=5001438000000001', 'system/state?__pretty=1',
    'snapshots?volume_group.ref=/volume_groups/14', '?__pretty=1')
# Method or path is not listed; the status of the silent refusals.
PATHS = (
    ('GET', 'volumes/1', 405), ('GET', 'mappings/1', 405),
    ('GET', 'host_iqns', 405), ('GET', '__full', 404),
    ('GET', 'stats/system', 404), ('GET', 'events', 404),
    ('DELETE', 'host_iqns/1', 404), ('DELETE', 'host_fc_ports/1', 404),
    ('PATCH', 'hosts/1', 405), ('POST', 'volumes/__bulk', 404),
    ('POST', 'retention_policies', 405), ('PATCH', 'snapshots/1', 405),
    ('GET', 'nothing', 404), ('GET', 'volumes/x', 404),
    ('DELETE', 'volumes/0', 404))


class KnownTest(base.ArrayTest):
    """An array of the profile known with one volume."""

    profile = 'known'

    def setUp(self):
        super().setUp()
        self.made = self.group(is_dedup=True)
        self.first = self.volume(self.made)

    def switch(self, refusal):
        self.control.set_behaviors(**{NOT_LISTED: refusal})

    def names(self, path):
        return [found.get('name') for found in self.hits(path)]


@ddt.ddt
class TestRefusals(KnownTest):

    def test_the_profile_refuses_with_400(self):
        self.assertEqual('400', self.control.behaviors()[NOT_LISTED])
        self.refused('GET', 'hosts')

    @ddt.data(*STATUSES)
    def test_statuses(self, status):
        """Each is the reply to everything not listed, and nothing changes."""
        # The control API and files have it as a number, too.
        self.switch(status)
        for path in SEARCHES:
            self.refused('GET', path, status=status)
        for method, path, _ in PATHS:
            self.refused(method, path, {}, status=status)
        for method, path, body in self._writes():
            self.refused(method, path, body, status=status)
        self.refused('POST', 'hosts', {'name': 'h', 'type': 'Linux'},
                     status=status, **SEQUENCE)
        self.refused('GET', 'system/state', status=status, **SEQUENCE)

    def _writes(self):
        group = base.ref('volume_groups', self.made)
        volume = {'name': 'v', 'size': 1, 'volume_group': group}
        snapshot = self.snapshot_body(group, 's')
        view = {**snapshot, 'is_exposable': True}
        unprotected = dict(snapshot)
        del unprotected['is_auto_deleteable']
        changed = f'volumes/{self.first["id"]}'
        return (
            ('POST', 'volumes', {**volume, 'description': 'd'}),
            ('POST', 'volumes', {**volume, 'read_only': None}),
            ('POST', 'volumes?x=1', volume), ('POST', 'volumes', [volume]),
            ('POST', 'volume_groups', {'name': 'g', 'quota': 0}),
            ('POST', 'volume_groups', {'name': 'g', 'quota': 0,
                                       'is_dedup': 'true'}),
            ('POST', 'volume_groups', {'name': 'g', 'quota': 0,
                                       'is_dedup': 1}),
            ('POST', 'hosts', {'name': 'h', 'type': 'Windows'}),
            ('POST', 'snapshots', view), ('POST', 'snapshots', unprotected),
            ('POST', 'snapshots', {**snapshot, 'is_exposable': False}),
            ('PATCH', changed, {'name': 'n', 'size': 20 * base.GIB}),
            ('PATCH', changed, {'volume_group': group}),
            ('PATCH', changed, {}), ('DELETE', changed, {'name': 'n'}),
            ('DELETE', f'{changed}?x=1', None))

    def test_a_body_that_is_no_json(self):
        """It is not a listed request either; in silent mode, 400 (CON-5)."""
        for refusal, status in (('501', 501), ('ignored', 400)):
            self.switch(refusal)
            reply = self.array.handle(
                'POST', '/api/v2/volumes', '',
                {**base.authorization(), 'Content-Type': base.JSON}, b'{')
            self.assertEqual(status, reply.status)

    def test_drop(self):
        """The connection breaks on each request that is not listed."""
        self.switch('drop')
        before = self.control.dump()
        for _ in range(2):
            for method, path, body in (
                    ('GET', 'hosts', b''), ('GET', 'nothing', b''),
                    ('POST', 'volume_groups', b'{"name": "g", "quota": 0}')):
                with self.array.exchange(
                        method, f'/api/v2/{path}', '',
                        {**base.authorization(), 'Content-Type': base.JSON},
                        body) as exchange:
                    self.assertEqual('reset', exchange.cut)
        self.assertEqual(before, self.control.dump())
        self.assertEqual(
            [0] * 6, [entry.status for entry in self.control.journal()[-6:]])
        self.assertEqual(['CTRL', 'vol-1'], self.names('volumes'))

    def test_who_may_not_ask_hears_that_first(self):
        self.switch('501')
        self.assertEqual(401, self.array.handle(
            'GET', '/api/v2/nothing').status)

    def test_the_refusal_takes_as_long_as_a_reply(self):
        self.control.set_latency(7)
        with self.array.exchange(
                'GET', '/api/v2/hosts', '',
                base.authorization()) as exchange:
            self.assertEqual(7, exchange.delay)

    def test_root_is_served(self):
        array = k2_sim.Array(
            'known', users=[k2_sim.User('r', 'pw', 'root')])
        self.addCleanup(array.close)
        for login, status in (('r', 200), ('admin', 400)):
            password = 'pw' if login == 'r' else 'admin'
            self.assertEqual(status, array.handle(
                'GET', '/api/v2/hosts', '__limit=1',
                base.authorization(login, password)).status)

    def test_any_value_is_refused_but_these(self):
        for value in ('401', 401, 'maybe', True, None):
            self.assertRaises(
                k2_sim.ApiError, self.control.set_behaviors,
                **{NOT_LISTED: value})


@ddt.ddt
class TestListed(KnownTest):
    """Listed requests work, however the rest is refused."""

    @ddt.data('400', 'drop', 'no_hits', 'ignored')
    def test_reads(self, refusal):
        self.switch(refusal)
        seen = set()
        for (method, path), combinations in known_requests.requests().items():
            if method != 'GET' or path.endswith('#'):
                continue
            for combination in combinations:
                query = '&'.join(
                    f'{name}={self._value(name)}' for name in combination)
                reply = self.get(f'{path}?{query}')
                seen.add(path)
                if path == 'volumes' and query:
                    self.assertEqual(
                        ['vol-1'], [found['name'] for found in reply['hits']])
        self.assertEqual(15, len(seen))
        self.get(f'volume_groups/{self.made["id"]}')
        many = ','.join(f'/volumes/{number}' for number in range(1, 999))
        self.hits(f'mappings?volume.ref__m_eq={many}')

    def _value(self, name):
        return {'name': 'vol-1', 'volume_group.ref':
                f'/volume_groups/{self.made["id"]}'}.get(name, '/volumes/7')

    @ddt.data('404', 'no_hits', 'ignored')
    def test_writes(self, refusal):
        self.switch(refusal)
        group = self.group('g', is_dedup=False)
        volume = self.volume(group, 'v')
        host = self.host()
        self.post('host_iqns', {'iqn': 'iqn.2000-01.org.example:a',
                                'host': base.ref('hosts', host)})
        self.post('host_fc_ports', {'pwwn': '5001438000000001',
                                    'host': base.ref('hosts', host)})
        snapshot = self.snapshot(group)
        mapping = self.map(host, volume)
        self.patch(f'volumes/{volume["id"]}', {'size': 20 * base.GIB})
        self.patch(f'volumes/{volume["id"]}', {'name': 'v2'})
        self.patch(f'volume_groups/{group["id"]}', {'name': 'g2'})
        for path in (f'mappings/{mapping["id"]}', f'hosts/{host["id"]}',
                     f'snapshots/{snapshot["id"]}',
                     f'volumes/{volume["id"]}',
                     f'volume_groups/{group["id"]}'):
            self.delete(path)

    def test_a_view_may_be_deleted_by_the_array(self):
        """SNP-4: the only listed POST of a view leaves its default."""
        body = self.snapshot_body(
            base.ref('snapshots', self.snapshot(self.made)), 'view',
            is_exposable=True)
        del body['is_auto_deleteable']
        self.assertIs(True, self.post('snapshots', body)[
            'is_auto_deleteable'])


@ddt.ddt
class TestSilence(KnownTest):
    """Refusals of which the client is not notified."""

    @ddt.data('no_hits', 'ignored')
    def test_what_is_passed_over(self, refusal):
        """Header, control parameters and fields are ignored."""
        self.switch(refusal)
        page = self.get('volumes?__limit=1&__sort=name&__offset=1')
        self.assertEqual((100, 0, 2), tuple(
            page[name] for name in ('limit', 'offset', 'total')))
        self.assertEqual(['vol-1'], self.names(
            'volumes?name=vol-1&__fields=id'))
        for name in ('h', 'h2'):
            host = self.expect(201, 'POST', 'hosts', {
                'name': name, 'type': 'Linux', 'description': 'd'},
                **SEQUENCE)
        self.assertEqual({}, self.array.store.sequences)
        mapping = self.post('mappings', {
            'host': base.ref('hosts', host), 'lun': 77,
            'volume': base.ref('volumes', self.first)})
        self.assertNotEqual(77, mapping['lun'])

    @ddt.data('no_hits', 'ignored')
    def test_fields_of_snapshots(self, refusal):
        """SNP-4: a view that stays deletable is not reported."""
        self.switch(refusal)
        snapshot = self.snapshot(self.made, is_exposable=False)
        self.assertEqual((False, False), (
            snapshot['is_exposable'], snapshot['is_auto_deleteable']))
        view = self.view(snapshot)
        self.assertEqual((True, True), (
            view['is_exposable'], view['is_auto_deleteable']))

    @ddt.data('no_hits', 'ignored')
    def test_a_patch_of_which_nothing_is_left(self, refusal):
        """It succeeds and changes nothing; a missing object is reported."""
        snapshot = self.snapshot(self.made)
        self.switch(refusal)
        for path, body in (
                (f'volumes/{self.first["id"]}', {'description': 'd'}),
                (f'volume_groups/{self.made["id"]}', {
                    'last_restored_from': base.ref('snapshots', snapshot)})):
            before = self._objects()
            self.patch(path, body)
            self.assertEqual(before, self._objects())
            self.expect(404, 'PATCH', path + '9', body)

    def _objects(self):
        """All objects, except those that the array writes on its own."""
        return {**self.control.dump()['objects'], 'events': []}

    @ddt.data('no_hits', 'ignored')
    def test_what_is_refused_all_the_same(self, refusal):
        self.switch(refusal)
        for method, path, status in PATHS:
            self.refused(method, path, {}, status=status)
        for path in ('volume_groups', 'hosts', 'snapshots?__sort=id'):
            self.refused('GET', path)
        group = base.ref('volume_groups', self.made)
        for path, body in (
                ('hosts', {'name': 'h', 'type': 'Windows'}),
                ('volume_groups', {'name': 'g', 'quota': 0}),
                ('volumes', {'name': 'c', 'volume_group': group,
                             'is_thin_clone': 'true'})):
            self.refused('POST', path, body)

    def test_no_hits(self):
        """QRY-2: whatever is not listed selects nothing."""
        self.switch('no_hits')
        self.control.set_behaviors(unknown_filter='ignored')
        for path in ('volumes?name__in=vol-1', 'volumes?name=vol-1&size=1',
                     'volumes?id=1', 'hosts?type=Linux', 'volumes?nothing=1',
                     'snapshots?volume_group.ref=/volume_groups/14'):
            page = self.get(path)
            self.assertEqual(([], 0), (page['hits'], page['total']), path)
        self.get(f'volume_groups/{self.made["id"]}?nothing=1')

    def test_ignored(self):
        """The largest listed subset selects, or else nothing does."""
        host = self.host()
        self.map(host, self.first)
        self.switch('ignored')
        for path in ('volumes?name__in=nothing', 'volumes?id=7',
                     'volumes?name__contains=x&__limit=1'):
            self.assertEqual(['CTRL', 'vol-1'], self.names(path), path)
        self.assertEqual(['vol-1'], self.names('volumes?name=vol-1&size=7'))
        self.assertEqual(['node1'], self.names('hosts?type=Windows'))
        where = f'host.ref=/hosts/{host["id"]}'
        for query, number in (
                (f'{where}&volume.ref=/volumes/7&lun=9', 0),
                (f'{where}&volume.ref__in=/volumes/7', 1),
                ('snapshot.ref=/snapshots/7', 1)):
            self.assertEqual(number, self.get(f'mappings?{query}')['total'])


@ddt.ddt
class TestRefuseOnly(KnownTest):
    """An array that lacks some features, and accepts all other requests."""

    def lack(self, *features, how='501'):
        self.control.set_behaviors(
            **{NOT_LISTED: how, 'refuse_only': list(features)})

    def test_only_these_are_refused(self):
        self.lack('GET * __sort', 'POST volumes description',
                  'GET volumes/#', 'GET volumes *__in', 'GET snapshots',
                  '* * x-k2-sequence')
        for path in ('volumes?__sort=id', 'volumes?name=CTRL&__sort=id',
                     'volumes/1', 'volumes?name__in=CTRL&__limit=1',
                     'snapshots', 'snapshots?__limit=1'):
            self.refused('GET', path, status=501)
        self.refused('GET', 'system/state', status=501, **SEQUENCE)
        for path in ('volumes?__limit=1', 'volumes?name=CTRL&size=1',
                     'hosts', 'hosts?name__in=x', 'snapshots?is_exposable=1',
                     f'volume_groups/{self.made["id"]}?__fields=id'):
            self.get(path)
        self.assertEqual(['CTRL', 'vol-1'], self.names('volumes'))

    def test_what_is_listed_is_no_feature(self):
        """Not even in a request that is unlisted for another reason."""
        self.lack('GET * *.ref__m_eq', 'POST mappings volume')
        self.get('mappings?volume.ref__m_eq=/volumes/7&__limit=1')
        self.refused('GET', 'volumes?volume_group.ref__m_eq=/volume_groups/7',
                     status=501)
        self.map(self.host(), self.first)

    def test_all_names_count(self):
        """One name of several does not make it such a request."""
        self.lack('POST snapshots is_exposable is_auto_deleteable')
        group = base.ref('volume_groups', self.made)
        body = self.snapshot_body(group, 's')
        self.post('snapshots', body)
        self.refused('POST', 'snapshots', {
            **body, 'short_name': 't', 'is_exposable': True}, status=501)

    @ddt.data(('no_hits', []), ('ignored', ['CTRL', 'vol-1']))
    @ddt.unpack
    def test_conditions_in_silence(self, how, names):
        """QRY-2: the others, and other parameters, still count."""
        self.lack('GET volumes name__in', how=how)
        self.assertEqual(names, self.names('volumes?name__in=none'))
        self.assertEqual(names[:1], self.names(
            'volumes?name__in=none&__limit=1&__sort=id'))
        self.assertEqual(['vol-1'], self.names('volumes?name__prefix=vol'))

    @ddt.data('no_hits', 'ignored')
    def test_other_names_in_silence(self, how):
        self.lack('GET * __limit', '* * x-k2-sequence',
                  'PATCH volumes/# description', how=how)
        self.assertEqual(['vol-1', 'CTRL'], self.names(
            'volumes?__limit=1&__sort=name&__sort_order=desc'))
        for _ in range(2):
            self.expect(200, 'GET', 'hosts', **SEQUENCE)
        key = f'volumes/{self.first["id"]}'
        before = self.get(key)['description']
        changed = self.patch(key, {'description': 'd', 'name': 'n'})
        self.assertEqual((before, 'n'), (
            changed['description'], changed['name']))

    @ddt.data('no_hits', 'ignored')
    def test_paths_in_silence(self, how):
        """A whole request cannot be ignored silently."""
        self.lack('GET volumes/#', 'GET snapshots', 'GET stats/*', how=how)
        self.refused('GET', 'volumes/1', status=405)
        self.refused('GET', 'stats/system', status=404)
        self.refused('GET', 'snapshots', status=400)

    def test_what_is_no_feature(self):
        for wrong in ('', 'GET'):
            self.assertRaises(k2_sim.ApiError, self.lack, wrong)
        self.control.set_behaviors(refuse_only=['GET volumes'])
        self.control.set_behaviors(**{NOT_LISTED: 'none'})
        self.get('volumes/1')


class TestReplication(pairs.PairTest):
    """The in-tree driver's requests for sessions, and only those."""

    def make(self, name, store=None):
        array = k2_sim.Array('known', clock=self.clock, name=f'k2-{name}')
        self.addCleanup(array.close)
        return pairs.talk(array)

    def test_sessions(self):
        """REP-2, REP-12: booleans come as strings, states alone."""
        self.group = self.a.group(is_dedup=True)
        body = pairs.session_body(self.group)
        for value in (False, 'false', 'True'):
            self.a.refused('POST', pairs.SESSIONS, {
                **body, 'auto_configure_peer_volumes': value})
        session = self.a.post(pairs.SESSIONS, body)
        volume = self.a.volume(self.group)
        self.a.post(pairs.PAIRS, {
            'name': 'rv', 'local_volume': base.ref('volumes', volume),
            'replication_session': base.ref(pairs.SESSIONS, session)})
        path = f'{pairs.SESSIONS}/{session["id"]}'
        for more in ({'name': 'ssn-1'}, {'rpo': 300}):
            self.a.refused('PATCH', path, {'state': 'in_sync', **more})
        self.a.refused('PATCH', path, {'state': 'started'})
        self.a.patch(path, {'state': 'in_sync'})
        taken = {'replication_session': base.ref(pairs.SESSIONS, session),
                 'is_application_consistent': False}
        self.a.refused('POST', 'snapshots', taken)
        self.a.post('snapshots', {**taken,
                                  'is_application_consistent': 'False'})
        self.a.patch(path, {'state': 'suspended'})
        self.a.patch(path, {'state': 'idle'})
        self.a.delete(path)

    def test_commands_in_silence(self):
        """The state is written, and fields sent with it are not."""
        self.group = self.a.group(is_dedup=True)
        session = self.a.post(pairs.SESSIONS, pairs.session_body(self.group))
        self.a.control.set_behaviors(**{NOT_LISTED: 'ignored'})
        path = f'{pairs.SESSIONS}/{session["id"]}'
        self.a.patch(path, {'rpo': 600})
        self.assertEqual(300, self.a.get(path)['rpo'])
