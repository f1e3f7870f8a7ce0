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

"""k2-admin probe on simulated arrays, in this process."""

import dataclasses
import io
import json
import pathlib
import re

import ddt
import fixtures
from oslotest import base
import requests
import requests.adapters
import yaml

from cinder_k2.probe import asking
from cinder_k2.probe import findings
from cinder_k2.probe import made
from cinder_k2.probe import rules
from cinder_k2.probe import run
from cinder_k2.probe import tokens
from cinder_k2 import rest
import k2_sim

_DOC = pathlib.Path(__file__).parents[3] / 'doc/source'
_PASSWORD = 'what-only-the-array-knows'
_REPLICATION = 'sessions are not made: they change a second array'
#: Behaviors that a probe does not show, and why.
UNSEEN = {
    'rate_burst': 'it asks too slowly to exceed a limit',
    'control_lun': 'hosts see it, and no host is attached',
    'linger_all': 'nothing shows which ones are deleted',
    'copy_seconds': _REPLICATION,
    'round_seconds': _REPLICATION,
    'snapshot_seconds': _REPLICATION,
    'start_seconds': _REPLICATION,
    'follow_seconds': _REPLICATION,
    'failed_over_from': _REPLICATION,
    'session_policies_required': _REPLICATION,
    'session_name_required': _REPLICATION,
    'repeat_commands': _REPLICATION,
    'grow_suspended': _REPLICATION,
    'grow_in_session': _REPLICATION,
    'grow_copies_at_start': _REPLICATION,
}
# Limit of the requests of a probe with --write, and its number of writes.
_REQUESTS = 550
_WRITES = 210
_YES, _NO = 'confirmed', 'contradicted'
#: By behavior: the other value, the rule, and its result without and with it.
SEEN = {
    'thin_clones': (False, 'CLN-1', _YES, 'not seen'),
    'clones_movable': (True, 'CLN-7', _YES, _NO),
    'delete_host_with_initiators': (True, 'HST-3', _YES, _NO),
    'delete_host_in_group': (True, 'HST-4', _YES, _NO),
    'snapshot_patch': (False, 'SNP-10', _YES, _NO),
    'host_group_rename': (False, 'HGR-2', _YES, _NO),
    'sequences': (False, 'SEQ-1', _YES, _NO),
    'bulk': ((), 'BLK-1', _YES, _NO),
    'statistics': (False, 'STA-3', _YES, 'not seen'),
    'single_envelope': (True, 'OBJ-2', _YES, _NO),
    'create_status': (200, 'OBJ-4', _YES, _NO),
    'name_limit': (64, 'section 12', _YES, _NO),
    'unstable_pages': (True, 'section 2.5: order', 'not seen', _YES),
    'linger_reads': (2, 'QRY-10', 'not seen', _YES),
    'linger_seconds': (5.0, 'QRY-10', 'not seen', _YES),
    'delete_seconds': (5.0, 'VOL-17', 'not seen', _YES),
    'rate_limit': (1.0, 'ERR-5', 'not seen', _YES),
    'create_reply': ('empty', 'OBJ-3', _YES, _NO),
    'unknown_filter': ('ignored', 'QRY-2', _YES, _NO),
    'plural_session_field': (
        True, 'section 14: replication_session', _YES, _NO),
    'host_auth_profile': (True, 'CHP-2', _YES, _NO),
    'full_threshold_required': (True, 'VCP-1', _YES, _NO),
    'netvlans': (True, 'section 14: net_vlans', _YES, _NO),
    'dedup_patch': (True, 'VG-4', _YES, _NO),
    'vmware_support_patch': (True, 'VOL-13', _YES, _NO),
    'one_lun_map': (True, 'MAP-2', _YES, _NO),
    'reuse_ids': (True, 'OBJ-7', _YES, _NO),
    'unknown_fields': ('ignored', 'OBJ-12', _YES, _NO),
    'refuse_unlisted': ('400', 'BLK-1', _YES, _NO),
}
#: Behaviors with a test of their own, as they do not affect a single rule.
_OTHERWISE = {'ignore_clone_fields', 'serve_any_state', 'rest_api_version',
              'state', 'degraded', 'page_size', 'full', 'scsi_product',
              'refuse_only'}


#: Other behaviors that must be set for one to show, or hosts to be deleted.
_WITH = {'rate_limit': {'rate_burst': 1},
         'refuse_unlisted': {'delete_host_with_initiators': True}}


_FAKES = {'refused': (400, b'{"error_msg": "no"}'),
          'accepted': (201, b'{"id": 987654}')}


class Killed(BaseException):
    """The process ends at once."""


class Adapter(requests.adapters.BaseAdapter):
    """Counts requests, and lets those fail that ``fails`` selects.

    :param fails: called with the number of a request and the request; returns
        how it fails, or an empty text
    """

    def __init__(self, inner, fails=lambda n, request: ''):
        super().__init__()
        self.inner, self.fails, self.count = inner, fails, 0

    def send(self, request, **kwargs):
        self.count += 1
        how = self.fails(self.count, request)
        if how == 'killed':
            raise Killed()
        if how in _FAKES:
            response = requests.Response()
            response.status_code, response._content = _FAKES[how]
            return response
        response = self.inner.send(request, **kwargs)
        if how == 'empty':
            response = requests.Response()
            response.status_code = 200
            response._content = b''
        if how == 'lost':
            raise requests.ConnectionError('no reply')
        if how == 'killed later':
            raise Killed()
        return response

    def close(self):
        pass


class ProbeTest(base.BaseTestCase):

    profile = 'sdp'
    role = 'admin'

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def array(self, **behaviors):
        sim = k2_sim.Array(
            self.profile, clock=k2_sim.FakeClock(), password=_PASSWORD,
            role=self.role, behaviors=behaviors)
        self.addCleanup(sim.close)
        return sim

    def probe(self, sim, write=True, fails=None, pause=0.5):
        self.adapter = Adapter(k2_sim.RequestsAdapter(sim),
                               fails or (lambda n, request: ''))
        return run.run(run.Target(rest.Settings(
            address='k2.example.org', login='admin', password=_PASSWORD,
            pause=pause, verdicts=f'{self.directory}/verdicts'),
            f'{self.directory}/tokens', self.adapter, sim.clock), write)

    def client(self, sim):
        """Return another client of the array."""
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password=_PASSWORD),
            k2_sim.RequestsAdapter(sim), sim.clock)
        self.addCleanup(client.close)
        return client

    def rows(self, report):
        return {row['rule']: row for row in report['rules']}

    def results(self, report):
        return {rule: row['result'] for rule, row
                in self.rows(report).items()}

    def tokens(self):
        return sorted(path.name for path in pathlib.Path(
            self.directory, 'tokens').glob('*.json'))

    def writes(self, sim):
        return [f'{entry.method} {entry.path}' for entry
                in sim.control.journal() if entry.method != 'GET']


@ddt.ddt
class BehaviorsTest(ProbeTest):

    def test_all_are_here(self):
        """A new behavior must be seen by a probe, or have a reason why not."""
        self.assertEqual(
            {field.name for field in dataclasses.fields(k2_sim.Behaviors)},
            {*SEEN, *UNSEEN, *_OTHERWISE})
        page = (_DOC / 'operator/before-production.rst').read_text()
        for name in UNSEEN:
            self.assertIn(f'``{name}``', page)

    @ddt.data(*SEEN)
    def test_a_probe_tells(self, name):
        other, rule, before, then = SEEN[name]
        report = self.probe(self.array(
            **{name: other, **_WITH.get(name, {})}))
        self.assertEqual(then, self.results(report)[rule],
                         self.rows(report)[rule]['seen'])
        self.assertEqual([], report['left_on_the_array'])

    def test_the_other_way(self):
        results = self.results(self.probe(self.array()))
        for name, (_, rule, before, _) in SEEN.items():
            self.assertEqual(before, results[rule], name)

    @ddt.data(*UNSEEN)
    def test_a_probe_does_not_tell(self, name):
        kind = type(getattr(k2_sim.Behaviors(), name))
        other = {bool: True, int: 1, float: 5.0, str: 'in_sync'}[kind]
        plain, turned = self.array(), self.array(**{name: other})
        self.assertEqual(self.results(self.probe(plain)),
                         self.results(self.probe(turned)))

    def test_fields_of_clones_that_are_ignored(self):
        """CLN-5"""
        for ignored, result in ((False, _YES), (True, _NO)):
            report = self.probe(self.array(
                thin_clones=False, ignore_clone_fields=ignored))
            self.assertEqual(result, self.results(report)['CLN-5'])

    def test_states(self):
        """ERR-6"""
        for any_state, result in ((False, _YES), (True, _NO)):
            sim = self.array(state='RESTING', serve_any_state=any_state)
            report = self.probe(sim, write=False)
            self.assertEqual('RESTING', report['array']['state'])
            self.assertEqual(result, self.results(report)['ERR-6'])

    def test_what_it_says_of_the_array(self):
        array = self.probe(self.array(
            rest_api_version='2.5.0', page_size=7, degraded=True),
            write=False)['array']
        self.assertEqual(('2.5.0', 7, True), (
            array['rest_api_version'], array['page_size'],
            array['degraded']))

    def test_a_full_array(self):
        sim = self.array(full=True)
        report = self.probe(sim)
        self.assertIn('no capacity', report['notes'][0])
        self.assertEqual([], self.writes(sim))

    @ddt.data('404', '405', '500', '501', 'drop', 'no_hits', 'ignored')
    def test_arrays_that_refuse_the_rest(self, way):
        sim = self.array(refuse_unlisted=way,
                         delete_host_with_initiators=True)
        report = self.probe(sim, pause=0.5)
        self.assertEqual([], report['left_on_the_array'])
        self.assertEqual({}, sim.control.leftovers())
        self.assertNotEqual(_YES, self.results(report)['BLK-1'])


@ddt.ddt
class RulesTest(ProbeTest):

    def test_the_list_is_that_of_the_docs(self):
        found = yaml.safe_load(
            (_DOC / 'simulator/rules.yaml').read_text())['sections']
        ids = {rule: text for section in found
               for rule, text in section['rules'].items()}
        listed = {rule for rule in rules.RULES
                  if not rule.startswith('section')}
        self.assertEqual(set(), listed - set(ids))
        self.assertEqual(set(), {
            rule for rule, text in ids.items()
            if {'A', 'R'} & {*text['grade'].split('/')}} - listed)
        for rule in listed:
            self.assertEqual(ids[rule]['says'], rules.RULES[rule].says)

    def test_each_rule_is_tested_or_says_why_not(self):
        rows = self.rows(self.probe(self.array()))
        for rule, row in rows.items():
            self.assertEqual(rules.RULES[rule].is_unseen,
                             row['seen'].startswith('not tested'), rule)

    def test_by_reads(self):
        sim = self.array()
        report = self.probe(sim, write=False)
        self.assertEqual([], self.writes(sim))
        self.assertEqual(_YES, self.results(report)['QRY-2'])
        self.assertEqual('needs --write', self.rows(report)['VOL-2']['seen'])

    def test_verdicts_are_saved(self):
        self.probe(self.array())
        path, = pathlib.Path(self.directory, 'verdicts').glob('*.json')
        found = json.loads(path.read_text())
        for name in ('creations:volumes:is_thin_clone', 'sequence',
                     'updates:volume_groups:last_restored_from',
                     'updates:volumes:volume_group', 'paging',
                     'deletions:host_iqns', 'deletions:host_fc_ports',
                     'fields:volumes', 'fields:snapshots', 'fields:mappings',
                     'bulk:snapshots:create'):
            self.assertEqual('works', found['verdicts'][name]['state'], name)

    def test_capabilities_without_a_verdict(self):
        """Each of them is reported with a reason."""
        reads = self.probe(self.array(), write=False)
        self.assertEqual('needs --write', reads['capabilities_not_seen'][
            'deletions:host_fc_ports'])
        report = self.probe(self.array())
        missing = report['capabilities_not_seen']
        self.assertEqual(
            {'creations:replication/sessions':
             'the array has no replication peer'},
            {name: why for name, why in missing.items()
             if 'replication' in name})
        self.assertEqual([], [name for name in (
            'fields', 'deletions:host_iqns', 'deletions:host_fc_ports')
            if name in missing])

    @ddt.data(('400', 'refused'), ('500', 'refused'), ('none', 'works'))
    @ddt.unpack
    def test_fields(self, way, state):
        report = self.probe(self.array(
            refuse_unlisted=way, refuse_only=('GET * __fields',)),
            write=False)
        self.assertEqual(state, report['capabilities']['fields:volumes'])

    def test_ports_that_stay_with_their_host(self):
        report = self.probe(self.array(
            refuse_unlisted='400', refuse_only=('DELETE host_fc_ports/#',),
            delete_host_with_initiators=True))
        self.assertEqual([], report['left_on_the_array'])
        self.assertNotEqual('works', report['capabilities'].get(
            'deletions:host_fc_ports'))

    def test_what_is_on_the_array_tells_more(self):
        """Some searches and reads need a foreign object for a verdict."""
        sim = self.array()
        client = self.client(sim)
        host = client.hosts.create(name='theirs', type='Linux')
        client.host_fc_ports.create(
            pwwn='50:01:43:80:12:34:56:78', host=host.ref)
        report = self.probe(sim, write=False)
        self.assertEqual('works', report['capabilities'][
            'searches:host_fc_ports:pwwn'])
        self.assertEqual(_YES, self.results(report)['INI-4'])
        self.assertEqual([], [entry for entry in self.writes(sim)[2:]])

    @ddt.data(('400', 'refused'), ('ignored', 'refused'), ('none', 'works'))
    @ddt.unpack
    def test_pages(self, way, state):
        """The probe does not take two volumes on one page for paging."""
        sim = self.array()
        client = self.client(sim)
        group = client.volume_groups.create(
            name='theirs', quota=0, is_dedup=True)
        client.volumes.create(
            name='theirs', size=made.GIB, volume_group=group.ref)
        sim.control.set_behaviors(
            refuse_unlisted=way, refuse_only=('GET * __offset',))
        self.assertEqual(state, self.probe(
            sim, write=False)['capabilities']['paging'])

    def test_refusals_are_verdicts_too(self):
        report = self.probe(self.array(thin_clones=False, bulk=()))
        self.assertEqual(['refused'] * 2, [report['capabilities'][name]
                         for name in ('creations:volumes:is_thin_clone',
                                      'bulk:snapshots:create')])


#: Rule; method, path and body pattern of a request of its check; and a reply
#: that contradicts the rule.
OTHERWISE = (
    ('VOL-9', 'PATCH', '/volumes/', '"volume_group"', 'refused'),
    ('MAP-9', 'PATCH', '/mappings/', '200', 'refused'),
    ('OBJ-9', 'PATCH', '/hosts/', r'"host_group": \{\}', 'refused'),
    ('OBJ-10', 'PATCH', '/volumes/', r'"size": "2', 'refused'),
    ('MAP-5', 'POST', '/mappings', '/host_groups/', 'refused'),
    ('SNP-2', 'POST', '/snapshots', '-a1"', 'refused'),
    ('VOL-11', 'POST', '/volumes', '-u2"', 'accepted'),
    ('CLN-6', 'POST', '/volumes', '-c3"', 'accepted'),
    ('INI-3', 'POST', '/host_iqns', '-i1"', 'accepted'),
    ('INI-5', 'POST', '/host_iqns', '-I1"', 'accepted'),
    ('CHP-4', 'POST', '/host_auth_profiles', '-p1"', 'accepted'),
    ('CHP-4', 'DELETE', '/host_auth_profiles/', '', 'accepted'),
    ('CHP-5', 'POST', '/host_auth_profiles', '-p3"', 'accepted'),
    ('RET-3', 'DELETE', '/retention_policies/', '', 'accepted'),
    ('VCP-1', 'POST', '/vg_capacity_policies', '-y3"', 'accepted'),
    ('VCP-2', 'POST', '/vg_capacity_policies', '-y2"', 'accepted'),
    ('VCP-2', 'DELETE', '/vg_capacity_policies/', '', 'accepted'),
    ('HGR-1', 'DELETE', '/host_groups/', '', 'accepted'),
    ('INI-6', 'DELETE', '/host_iqns/', '', 'refused'))
# How many such requests come before that one, for other checks.
_BEFORE = {('SNP-2', 'POST'): 1, ('INI-3', 'POST'): 1, ('CHP-4', 'POST'): 1,
           ('CHP-4', 'DELETE'): 1, ('INI-6', 'DELETE'): 1}


@ddt.ddt
class ChecksTest(ProbeTest):
    """Results for what the simulated array never does."""

    def test_as_the_rules_say(self):
        results = self.results(self.probe(self.array()))
        for rule in ('BLK-4', 'HST-6', 'HST-8', 'RST-4', 'CHP-6', 'VG-2',
                     'SNP-1', 'VOL-15', 'EVT-1', *(
                         case[0] for case in OTHERWISE)):
            self.assertEqual(_YES, results[rule], rule)

    @ddt.data(*OTHERWISE)
    @ddt.unpack
    def test_otherwise(self, rule, method, path, body, how):
        number = _BEFORE.get((rule, method), 0)
        matching = []

        def fails(n, request):
            if request.method == method and path in request.url and (
                    re.search(body, _text(request))):
                matching.append(n)
                return how if len(matching) == number + 1 else ''
            return ''
        row = self.rows(self.probe(self.array(), fails=fails))[rule]
        self.assertEqual(_NO, row['result'], row['seen'])

    @ddt.data(('HST-8', 'volumes_count', 7), ('VG-2', 'quota', 0),
              ('SNP-1', 'name', 'x'), ('VOL-15', 'scsi_suffix', 1),
              ('EVT-1', 'level', 'WARNING'))
    @ddt.unpack
    def test_fields(self, rule, field, value):
        """A field of one type of object contradicts the rule."""
        def change(name, found):
            if name != 'hits' or not isinstance(found, list):
                return found
            return [{**hit, field: value} if field in hit and (
                rule != 'SNP-1' or 'short_name' in hit) else hit
                for hit in found]
        report = OddRepliesTest.odd(self, self.array(), change)
        self.assertEqual(_NO, self.results(report)[rule])

    def test_a_bulk_call_that_is_half_done(self):
        """BLK-4"""
        sim = self.array()

        def fails(n, request):
            text = _text(request)
            if '__bulk' in request.url and '-b4"' in text:
                good, _ = json.loads(text)
                self.client(sim).raw.ask('POST', 'snapshots', body=good)
            return ''
        report = self.probe(sim, fails=fails)
        self.assertEqual(_NO, self.results(report)['BLK-4'])
        self.assertEqual([], report['left_on_the_array'])

    def test_a_restore_that_takes_later_snapshots(self):
        """RST-4"""
        sim = self.array()

        def fails(n, request):
            if 'last_restored_from' in _text(request):
                client = self.client(sim)
                for hit in client.raw.ask('GET', 'snapshots').hits:
                    if hit['short_name'].endswith('-s7'):
                        client.raw.ask('DELETE', 'snapshots', hit['id'])
            return ''
        self.assertEqual(_NO, self.results(
            self.probe(sim, fails=fails))['RST-4'])


def _text(request):
    """Return the body of a request."""
    body = request.body or b''
    return body if isinstance(body, str) else body.decode()


@ddt.ddt
class SafetyTest(ProbeTest):

    def foreign(self, sim):
        """Create foreign objects with names similar to ours; return all."""
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password=_PASSWORD),
            k2_sim.RequestsAdapter(sim), sim.clock)
        group = client.volume_groups.create(
            name='k2probe-theirs', quota=0, is_dedup=True)
        volume = client.volumes.create(
            name='k2probe-0', size=made.GIB, volume_group=group.ref)
        host = client.hosts.create(name='k2probe', type='Linux')
        client.mappings.create(host=host.ref, volume=volume.ref)
        client.close()
        return sim.control.leftovers()

    def test_objects_of_others_stay_as_they_are(self):
        sim = self.array()
        before = self.foreign(sim)
        report = self.probe(sim)
        self.assertEqual(before, sim.control.leftovers())
        text = json.dumps(report)
        for name in ('k2probe-theirs', 'k2probe-0"', _PASSWORD,
                     'k2.example.org'):
            self.assertNotIn(name, text)

    def test_nothing_forbidden_is_sent(self):
        sim = self.array()
        self.probe(sim)
        for entry in sim.control.journal():
            self.assertNotRegex(entry.query, 'contains|regexp')
            self.assertFalse(
                entry.method != 'GET' and re.search(
                    r'/(system|replication|events|stats)\b|/volumes/1$',
                    entry.path), entry.path)

    def test_it_asks_slowly(self):
        sim = self.array()
        self.probe(sim)
        self.assertLess(self.adapter.count, _REQUESTS)
        self.assertEqual(_WRITES, len(self.writes(sim)))
        times = [entry.started for entry in sim.control.journal()]
        self.assertEqual([], [1 for a, b in zip(times, times[1:])
                              if b - a < 0.49])

    def test_the_token_is_saved_before_the_first_write(self):
        sim = self.array()

        def fails(n, request):
            if request.method != 'GET':
                self.assertEqual(1, len(self.tokens()))
            return ''
        self.probe(sim, fails=fails)
        self.assertEqual([], self.tokens())

    # Failing every eleventh request, from each offset, reaches all requests:
    # failing each of them in its own test takes minutes.
    @ddt.data(*((how, start) for how in ('lost', 'refused')
                for start in range(1, 12)))
    @ddt.unpack
    def test_a_request_that_fails(self, how, start):
        """One of eleven fails; the next probe removes the leftovers."""
        sim = self.array()
        before = self.foreign(sim)

        def fails(n, request):
            return how if n % 11 == start % 11 and n > 2 else ''
        try:
            self.probe(sim, fails=fails)
        except rest.RestError:
            pass
        if self.tokens():
            self.probe(sim, write=False)
        self.assertEqual(before, sim.control.leftovers())
        self.assertEqual([], self.tokens())

    @ddt.data(*(range(n, _WRITES + 1, 15) for n in range(15)))
    def test_a_probe_that_is_killed(self, numbers):
        """It is killed after each write: reads leave nothing to clean up."""
        sim = self.array()
        before = self.foreign(sim)
        for number in numbers:
            writes = []

            def fails(n, request, number=number, writes=writes):
                if len(writes) == number and n > 1:
                    return 'killed'
                if request.method != 'GET':
                    writes.append(n)
                return 'killed later' if len(writes) == number > 0 else ''
            self.assertRaises(Killed, self.probe, sim, fails=fails)
            self.probe(sim, write=False)
            self.assertEqual(before, sim.control.leftovers(), number)
            self.assertEqual([], self.tokens())

    def test_the_writer_refuses_what_is_not_its_own(self):
        sim = self.array()
        self.foreign(sim)
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password=_PASSWORD),
            k2_sim.RequestsAdapter(sim), sim.clock)
        writer = asking.Writer(client, tokens.new('a'))
        for call in (lambda: writer.remove('volumes', 1),
                     lambda: writer.change('volumes', 2, {'size': 1}),
                     lambda: writer.make('volumes', {'name': 'k2probe-1'}),
                     lambda: writer.make('mappings', {
                         'host': made.ref('hosts', 1),
                         'volume': made.ref('volumes', 1)}),
                     lambda: writer.remove_many('volumes', [2]),
                     lambda: writer.get('volumes', '', (
                         'name__contains', 'k2'))):
            self.assertRaises(asking.Forbidden, call)

    @ddt.data(*((resource, how) for how in ('refused', 'lost', 'empty')
                for resource in ('volumes', 'hosts', 'snapshots')))
    @ddt.unpack
    def test_what_cannot_be_looked_for_is_not_taken_as_gone(
            self, resource, how):
        """An array that fails to list objects for a while, during cleanup."""
        sim = self.array()
        before = self.foreign(sim)
        deleting = []

        def fails(n, request):
            deleting.extend(['x'] * (request.method == 'DELETE'
                                     and '/volumes/' in request.url))
            return how if len(deleting) > 5 and (
                request.method, request.url.partition('?')[0].rpartition(
                    '/')[2]) == ('GET', resource) else ''
        self.assertRaises(rest.RestError, self.probe, sim, fails=fails)
        self.assertEqual(1, len(self.tokens()))
        self.probe(sim, write=False)
        self.assertEqual(before, sim.control.leftovers())
        self.assertEqual([], self.tokens())

    def test_a_token_of_an_earlier_version(self):
        """Such a token has no FC ports; all that it names is removed."""
        sim = self.array()
        token = tokens.new(self.client(sim).system_state().system_id)
        self.client(sim).volume_groups.create(
            name=token.name('g1'), quota=0, is_dedup=True)
        names = {resource: names for resource, names in token.names.items()
                 if resource != 'host_fc_ports'}
        tokens.Tokens(f'{self.directory}/tokens').save(
            dataclasses.replace(token, names=names))
        self.probe(sim, write=False)
        self.assertEqual({}, sim.control.leftovers())
        self.assertEqual([], self.tokens())

    def test_what_goes_along_is_looked_at_again(self):
        """An id of the probe becomes foreign when its object is deleted."""
        sim = self.array(reuse_ids=True)
        others = self.client(sim)
        writer = asking.Writer(self.client(sim), tokens.new('a'))
        objects = made.Made(writer, others.raw.ask(
            'GET', 'retention_policies').hits[0]['id'])
        first, mine = objects.group('g1'), objects.group('g2')
        others.volume_groups.delete(mine)
        theirs = others.volume_groups.create(
            name='theirs', quota=0, is_dedup=True)
        self.assertEqual(mine, theirs.id)
        self.assertTrue(writer.remove('volume_groups', first).ok)
        for call in (
                lambda: writer.change('volume_groups', mine, {
                    'name': objects.name('g2')}),
                lambda: writer.remove('volume_groups', mine),
                lambda: writer.make('volumes', {
                    'name': objects.name('v1'), 'size': made.GIB,
                    'volume_group': made.ref('volume_groups', mine)})):
            self.assertRaises(findings.Skip, call)
        self.assertEqual('theirs', others.volume_groups.get(mine).name)

    def test_a_name_is_seen_right_before_a_removal(self):
        """A deletion may remove other objects, and their ids be reused."""
        sim = self.array()
        seen = []

        def fails(n, request):
            if request.method == 'DELETE':
                path = request.url.partition('/api/v2/')[2].split('/')[0]
                self.assertIn(f'/{path}', seen[-1])
            seen.append(request.url)
            return ''

        def killed(n, request):
            return 'killed' if n > 150 else ''
        self.assertRaises(Killed, self.probe, sim, fails=killed)
        self.probe(sim, write=False, fails=fails)
        self.assertEqual({}, sim.control.leftovers())

    @ddt.data('host_groups', 'host_auth_profiles', 'vg_capacity_policies')
    def test_what_is_not_shown_for_a_while(self, resource):
        """Resources that an array may lack, created by a killed probe."""
        sim = self.array()
        made_ = []

        def killed(n, request):
            if made_:
                return 'killed'
            made_.extend(['x'] * (request.method == 'POST' and
                                  request.url.endswith(resource)))
            return ''
        self.assertRaises(Killed, self.probe, sim, fails=killed)
        report = self.probe(sim, write=False, fails=lambda n, request: (
            'refused' if f'/{resource}' in request.url else ''))
        self.assertNotEqual([], report['left_on_the_array'])
        self.assertEqual(1, len(self.tokens()))
        self.assertEqual([], self.probe(
            sim, write=False)['left_on_the_array'])
        self.assertEqual({}, sim.control.leftovers())
        self.assertEqual([], self.tokens())

    @ddt.data('no_hits', 'ignored')
    def test_a_search_that_never_finds(self, way):
        """The array ignores the condition and lists only one page."""
        sim = self.array()
        client = self.client(sim)
        for n in range(3):
            client.raw.ask('POST', 'host_groups', body={'name': f'other{n}'})
        before = sim.control.leftovers()
        made_ = []

        def killed(n, request):
            if made_:
                return 'killed'
            made_.extend(['x'] * (request.method == 'POST' and
                                  request.url.endswith('host_groups')))
            return ''
        self.assertRaises(Killed, self.probe, sim, fails=killed)
        sim.control.set_behaviors(
            page_size=2, refuse_unlisted=way,
            refuse_only=('GET host_groups name',))
        report = self.probe(sim, write=False)
        self.assertNotEqual([], report['left_on_the_array'])
        self.assertEqual(1, len(self.tokens()))
        sim.control.set_behaviors(refuse_unlisted='none')
        self.assertEqual([], self.probe(
            sim, write=False)['left_on_the_array'])
        self.assertEqual(before, sim.control.leftovers())
        self.assertEqual([], self.tokens())

    def test_an_array_that_keeps_what_was_made(self):
        """The report names the object, and the next probe tries again."""
        sim = self.array()
        before = self.foreign(sim)
        report = self.probe(sim, fails=lambda n, request: (
            'refused' if request.method == 'DELETE'
            and '/host_groups/' in request.url else ''))
        self.assertRegex(report['left_on_the_array'][0], 'k2probe-.*-n')
        self.assertEqual(1, len(self.tokens()))
        self.assertEqual([], self.probe(
            sim, write=False)['left_on_the_array'])
        self.assertEqual(before, sim.control.leftovers())

    def test_a_damaged_token(self):
        sim = self.array()
        before = self.foreign(sim)
        files = tokens.Tokens(f'{self.directory}/tokens')
        token = tokens.new('x')
        files.save(dataclasses.replace(token, names={
            **token.names, 'volumes': ('k2probe-0',)}))
        self.assertRaises(tokens.Damaged, self.probe, sim)
        self.assertEqual(before, sim.control.leftovers())

    def test_tokens_of_another_array(self):
        files = tokens.Tokens(f'{self.directory}/tokens')
        files.save(tokens.new('another'))
        self.probe(self.array())
        self.assertEqual(1, len(self.tokens()))


@ddt.ddt
class OddRepliesTest(ProbeTest):
    """Fields of unexpected types."""

    def odd(self, sim, change):
        """Probe an array whose replies have each field changed."""
        adapter = Adapter(k2_sim.RequestsAdapter(sim))
        send = adapter.send

        def changed(request, **kwargs):
            response = send(request, **kwargs)
            text = b''.join(response.iter_content(1 << 16))
            response._content = response._content_consumed = False
            response.raw = io.BytesIO(json.dumps(_each(
                json.loads(text), change)).encode() if text else b'')
            return response
        adapter.send = changed
        return run.run(run.Target(rest.Settings(
            address='k2.example.org', login='admin', password=_PASSWORD,
            pause=0.5), f'{self.directory}/tokens', adapter, sim.clock), True)

    @ddt.data(str, float)
    def test_numbers(self, kind):
        sim = self.array()
        report = self.odd(sim, lambda name, value: kind(value) if type(
            value) is int and name not in ('total', 'limit') else value)
        self.assertEqual({}, sim.control.leftovers())
        self.assertEqual([], report['left_on_the_array'])
        results = self.results(report)
        for rule in ('VOL-2', 'VOL-6', 'SNP-9', 'MAP-2', 'HST-2', 'VOL-14'):
            self.assertEqual(_YES, results[rule], rule)

    @ddt.data(None, 'x', 7, [], {'a': []})
    def test_other_fields(self, odd):
        """Whatever the values of fields, the probe ends and leaves nothing."""
        sim = self.array()
        report = self.odd(sim, lambda name, value: value if name in (
            'id', 'name', 'short_name', 'iqn', 'ref', 'host', 'volume',
            'hits', 'total', 'system_id', 'resources', 'free') else odd)
        self.assertEqual({}, sim.control.leftovers())
        self.assertEqual([], report['left_on_the_array'])


def _each(value, change):
    """Return a JSON value with each field changed."""
    if isinstance(value, list):
        return [_each(each, change) for each in value]
    if isinstance(value, dict):
        return {name: change(name, _each(each, change))
                for name, each in value.items()}
    return value


class ErrorsTest(ProbeTest):

    def test_a_wrong_password(self):
        sim = self.array()
        self.assertRaises(rest.AuthenticationFailed, run.run, run.Target(
            rest.Settings(address='k2.example.org', login='admin',
                          password='another'), self.directory,
            k2_sim.RequestsAdapter(sim), sim.clock), True)

    def test_an_array_that_is_down(self):
        self.assertRaises(rest.RestError, self.probe, self.array(),
                          fails=lambda n, request: 'lost')

    def test_a_role_that_only_reads(self):
        self.role = 'read-only'
        sim = self.array()
        error = self.assertRaises(run.Unfit, self.probe, sim)
        self.assertIn('read-only', str(error))
        self.assertIn('--write', str(error))
        self.assertEqual([], self.writes(sim))
        self.assertEqual(_YES, self.results(
            self.probe(sim, write=False))['OBJ-2'])

    def test_the_role_of_management(self):
        """Rules that the role may not test are not seen; nothing is left."""
        self.role = 'mgmt-app'
        sim = self.array()
        results = self.results(self.probe(sim))
        self.assertEqual({}, sim.control.leftovers())
        self.assertEqual(('not seen', _YES), (
            results['RET-4'], results['VOL-2']))


class PageTest(ProbeTest):

    def test_files(self):
        report = self.probe(self.array(create_status=200))
        paths = run.save(report, self.directory, 'k2')
        data, text = (pathlib.Path(path).read_text() for path in paths)
        self.assertEqual(report, json.loads(data))
        self.assertIn('OBJ-4', text.partition('Contradicted')[2].partition(
            'Confirmed')[0])
