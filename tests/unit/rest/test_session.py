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

"""Requests of the client to a scripted array, with a fake clock."""

import base64
import logging
import threading
import unittest

import ddt
import requests
import urllib3.exceptions

from cinder_k2 import rest
from cinder_k2.rest import errors
from cinder_k2.rest import retry
from tests.unit.rest import scripted

GROUP = rest.Ref('volume_groups', 14)
RAW = {'id': 31, 'name': 'vol-1', 'size': 1048576,
       'volume_group': {'ref': '/volume_groups/14'}}
FIELDS = {'name': 'vol-1', 'size': 1048576, 'volume_group': GROUP}
VOLUME = rest.Volume.from_json(RAW)

FOUND = scripted.hits(RAW)
ABSENT = scripted.hits()
MADE = scripted.Reply(201, RAW)
LOST = requests.ConnectionError('Connection aborted')
SLOW = requests.ReadTimeout('read')
UNSENT = requests.ConnectionError(urllib3.exceptions.NewConnectionError(
    None, 'refused'))
USED = scripted.refusal('used', 409)
TAKEN = scripted.refusal('the name is taken')
BUSY = scripted.refusal('MC_ERR_BUSY')
GONE = scripted.refusal('no such object', 404)
DONE = scripted.Reply(204)
CRASH = scripted.refusal('crash', 500)
AWAY = scripted.Reply(502, b'<html>bad gateway')
UNAVAILABLE = scripted.Reply(503)
FAST = scripted.refusal('Too many requests', 429)
GARBAGE = scripted.Reply(201, b'<html>')
EMPTY = scripted.Reply(201)
CUT = requests.exceptions.ChunkedEncodingError('cut')


class Case(unittest.TestCase):

    # Needed by writes and look-ups; learning them is tested elsewhere.
    WORKS = ('sequence', 'reads:volumes', 'searches:host_iqns:host',
             'searches:host_iqns:iqn', 'creations:retention_policies:name',
             'creations:host_groups:name', 'creations:volumes:password',
             'searches:host_groups:name', 'creations:host_iqns:iqn',
             'creations:snapshots:short_name', 'creations:snapshots:source',
             'creations:volume_groups:name', 'creations:hosts:name',
             'updates:hosts:host_group', 'updates:volume_groups:quota',
             'updates:volume_groups:last_restored_from')

    def make(self, *script, **settings):
        self.client, self.array, self.clock = scripted.client(
            *script, works=self.WORKS, **settings)
        self.volumes = self.client.volumes
        self.addCleanup(lambda: self.assertEqual([], self.array.script))


@ddt.ddt
class HeadersTest(Case):

    def test_a_read(self):
        self.make(FOUND)
        self.volumes.find(name='vol-1')
        (sent,) = self.array.requests
        token = base64.b64encode(b'admin:Secr3t-word').decode()
        self.assertEqual('Basic ' + token, sent.headers['Authorization'])
        self.assertEqual('application/json', sent.headers['Accept'])
        self.assertEqual('application/json', sent.headers['Content-Type'])
        self.assertRegex(sent.headers['User-Agent'], r'^cinder-k2/\d')
        self.assertNotIn('X-K2-Sequence', sent.headers)

    def test_a_write(self):
        self.make(MADE)
        self.volumes.create(**FIELDS, description=None)
        self.assertRegex(self.array.sequences()[0], r'^k2-[0-9a-f]{32}=1$')
        self.assertEqual(
            {'name': 'vol-1', 'size': 1048576,
             'volume_group': {'ref': '/volume_groups/14'}},
            self.array.body(0))

    def test_each_write_has_its_own_sequence(self):
        self.make(MADE, MADE, DONE)
        self.volumes.create(**FIELDS)
        self.volumes.create(**FIELDS)
        self.volumes.delete(31)
        self.assertEqual(3, len(set(self.array.sequences())))

    def test_credentials_beyond_latin_1(self):
        self.make(FOUND, login='j\u00f6rg', password='\u0436\u20ac')
        self.volumes.find(name='vol-1')
        token = self.array.requests[0].headers['Authorization'].split()[1]
        self.assertEqual('j\u00f6rg:\u0436\u20ac',
                         base64.b64decode(token).decode())

    def test_redirects_are_not_followed(self):
        self.make(*[scripted.Reply(302, headers={
            'Location': 'https://elsewhere.example.com/'})] * 8)
        with self.assertRaises(rest.BadReply):
            self.volumes.get(1)

    @ddt.data(('k2.example.com', None, 'https://k2.example.com/api/v2/'),
              ('10.0.0.1:8443', None, 'https://10.0.0.1:8443/api/v2/'),
              ('fd00::1', 444, 'https://[fd00::1]:444/api/v2/'))
    @ddt.unpack
    def test_url(self, address, port, base):
        self.make(FOUND, address=address, port=port)
        self.volumes.find(name='vol-1')
        self.assertEqual(base, self.client.base_url + '/')
        self.assertTrue(self.array.requests[0].url.startswith(
            base + 'volumes?name=vol-1'), self.array.requests[0].url)


@ddt.ddt
class ReadTest(Case):

    @ddt.data(LOST, SLOW, UNSENT, FAST, CRASH, AWAY, UNAVAILABLE, BUSY,
              scripted.Reply(200, b'<html>'), scripted.Reply(200, b''), CUT)
    def test_is_repeated(self, failure):
        self.make(failure, failure, FOUND)
        self.assertEqual(VOLUME, self.volumes.find(name='vol-1'))
        self.assertEqual(2, len(self.clock.sleeps))

    @ddt.data((401, rest.AuthenticationFailed), (403, rest.Forbidden),
              (404, rest.NotFound), (405, rest.MethodNotAllowed))
    @ddt.unpack
    def test_is_not_repeated(self, status, kind):
        self.make(scripted.refusal('no', status))
        with self.assertRaises(kind):
            self.client.volume_groups.get(31)

    def test_a_certificate_problem_is_not_repeated(self):
        self.make(requests.exceptions.SSLError(
            urllib3.exceptions.SSLError('Fingerprints did not match. x')))
        with self.assertRaises(rest.CertificateError):
            self.volumes.get(31)

    def test_busy_until_the_deadline(self):
        self.make(*[FAST] * 500, deadline=20.0)
        with self.assertRaises(rest.Busy) as caught:
            self.volumes.get(31)
        self.assertEqual(429, caught.exception.status)
        self.assertTrue(15 <= self.clock.now - 1000 <= 20)
        self.array.script.clear()

    def test_timeouts_are_bounded_by_what_is_left(self):
        self.make(self._takes(4), self._takes(5), self._takes(0.5),
                  connect_timeout=3.0, read_timeout=6.0, deadline=11.0)
        self.volumes.find(name='vol-1')
        self.assertEqual((3.0, 6.0), self.array.timeouts[0])
        connect, read = self.array.timeouts[2]
        self.assertEqual(connect, read)
        self.assertTrue(0 < read <= 2.0)

    def _takes(self, seconds):
        def step(request):
            self.clock.sleep(seconds)
            return SLOW if seconds > 1 else FOUND
        return step

    def test_deadlines_nest_and_the_shorter_wins(self):
        self.make(*[LOST] * 500)
        with self.client.deadline(30), self.client.deadline(500):
            with self.assertRaises(rest.Unreachable):
                self.volumes.get(31)
            self.assertLess(self.clock.now, 1030)
            self.assertGreater(self.clock.now, 1024)
        with self.client.deadline(100), self.client.deadline(10):
            with self.assertRaises(rest.Unreachable):
                self.volumes.get(31)
            self.assertLess(self.clock.now, 1040)
        self.array.script.clear()

    def test_deadline_covers_all_calls_inside(self):
        self.make(FOUND)
        with self.client.deadline(30):
            self.clock.sleep(30)
            with self.assertRaisesRegex(rest.Unreachable, '30 s has passed'):
                self.volumes.get(31)
        self.volumes.find(name='vol-1')

    def _unconnected(self):
        """Return the seconds after which a read ends without connection."""
        before = self.clock.now
        with self.assertRaises(errors.NotConnected):
            self.volumes.find(name='vol-1')
        return self.clock.now - before

    def test_outage_ends_a_call_early(self):
        """Also under an inner deadline: shorter, longer or fresh."""
        self.make(*[UNSENT] * 500)
        for inner in ({}, {'seconds': 20}, {'seconds': 500},
                      {'seconds': 20, 'fresh': True}):
            with self.client.deadline(60, outage=3.0), \
                    self.client.deadline(**inner):
                self.assertLessEqual(self._unconnected(), 3, inner)
        self.array.script.clear()

    def test_the_smaller_outage_wins(self):
        self.make(*[UNSENT] * 500)
        for outer, inner in ((3.0, 8.0), (8.0, 3.0)):
            with self.client.deadline(60, outage=outer), \
                    self.client.deadline(60, outage=inner):
                self.assertLessEqual(self._unconnected(), 3)
        self.array.script.clear()

    def test_outage_inside_a_shorter_deadline(self):
        self.make(*[UNSENT] * 500)
        with self.client.deadline(50):
            with self.client.deadline(60, outage=3.0):
                self.assertLessEqual(self._unconnected(), 3)
            # Outside, the deadline alone counts.
            self._unconnected()
            self.assertGreater(self.clock.now, 1040)
        self.array.script.clear()

    def test_no_outage_while_the_array_accepts_connections(self):
        """Each reply, and each reset, restarts the time of the outage."""
        for reached in (AWAY, LOST):
            self.make(*[reached, UNSENT] * 500)
            with self.client.deadline(60, outage=12):
                with self.assertRaises(rest.RestError):
                    self.volumes.find(name='vol-1')
            self.assertGreater(self.clock.now, 1050)
            self.array.script.clear()

    def test_outage_after_a_reset(self):
        self.make(LOST, *[UNSENT] * 500)
        with self.client.deadline(60, outage=3.0):
            with self.assertRaises(rest.RestError):
                self.volumes.find(name='vol-1')
        self.assertLessEqual(self.clock.now, 1004)
        self.array.script.clear()

    def test_outage_is_that_of_both_concurrent_reads(self):
        self.make(*[UNSENT] * 500)
        with self.client.deadline(60, outage=3.0):
            with self.assertRaises(errors.NotConnected):
                self.client.concurrently(lambda: None,
                                         lambda: self.volumes.find(
                                             name='vol-1'))
        self.assertLessEqual(self.clock.now, 1003)
        self.array.script.clear()

    def test_fresh_deadline(self):
        """It ignores the deadlines around it."""
        self.make(FOUND)
        with self.client.deadline(30):
            self.clock.sleep(30)
            with self.client.deadline(5, fresh=True):
                self.assertEqual(VOLUME, self.volumes.find(name='vol-1'))
            with self.assertRaises(rest.Unreachable):
                self.volumes.find(name='vol-1')
        self.assertEqual([(5, 5)], self.array.timeouts)

    @ddt.data(CRASH, LOST, AWAY)
    def test_limited_retries(self, failure):
        """The second server failure ends the read."""
        self.make(FAST, failure, failure, failure, failure, FOUND)
        with self.client._session.limited_retries():
            with self.assertRaises(rest.RestError):
                self.volumes.find(name='vol-1')
        self.assertEqual(3, len(self.array.requests))
        self.assertEqual(VOLUME, self.volumes.find(name='vol-1'))

    def test_pause_before_each_request(self):
        """The pause may use up the whole deadline."""
        self.make(FOUND, FOUND, pause=7.0, deadline=7.0)
        self.volumes.find(name='vol-1')
        self.volumes.find(name='vol-1')
        self.assertEqual([7.0, 7.0], self.clock.sleeps)
        self.assertEqual([(0.001, 0.001)] * 2, self.array.timeouts)

    def test_deadline_applies_only_to_its_thread(self):
        self.make(FOUND)
        with self.client.deadline(0):
            thread = threading.Thread(
                target=self.volumes.find, kwargs={'name': 'vol-1'})
            thread.start()
            thread.join(10)
        self.assertEqual(['GET /volumes'], self.array.calls)


class TrialTest(Case):
    """In a trial each request is sent only once."""

    def setUp(self):
        super().setUp()
        self.failed = (rest.Unreachable, rest.ServerError, rest.Busy)

    def fails(self):
        with self.assertRaises(self.failed):
            self.volumes.find(name='vol-1')

    def test_once(self):
        self.make(CRASH, LOST, FAST, CRASH, FOUND)
        session = self.client._session
        self.assertFalse(session.in_trial)
        with session.trial():
            self.assertTrue(session.in_trial)
            for _ in range(3):
                self.fails()
        self.assertFalse(session.in_trial)
        self.assertEqual(VOLUME, self.volumes.find(name='vol-1'))

    def test_awaits_turn_retries_busy_replies(self):
        self.make(FAST, FAST, CRASH, FAST)
        with self.client._session.trial(awaits_turn=True):
            self.fails()
        with self.client._session.trial():
            self.fails()

    def test_time_limits(self):
        """For a whole trial and for each reply; the shorter limit wins."""
        self.make(*[FOUND] * 5, connect_timeout=90, read_timeout=90)
        trial = self.client._session.trial
        with trial(20, reply=8):
            self.volumes.find(name='vol-1')
            with trial(reply=3):
                self.volumes.find(name='vol-1')
            with trial(5):
                self.volumes.find(name='vol-1')
            self.volumes.find(name='vol-1')
        self.volumes.find(name='vol-1')
        self.assertEqual([8, 3, 5, 8, 90], [
            read for _, read in self.array.timeouts])

    def test_answers(self):
        self.make(scripted.Reply(200, {}), FAST, scripted.Reply(200, {}),
                  CRASH, scripted.refusal('no', 403))
        session = self.client._session
        self.assertEqual([True, True, False, False], [
            session.run(session.answers()) for _ in range(4)])
        self.assertEqual({'GET /system/state'}, set(self.array.calls))


@ddt.ddt
class CreateTest(Case):

    def _create(self):
        return self.volumes.create(**FIELDS)

    def _same_sequence(self):
        self.assertEqual(1, len(set(self.array.sequences())))

    @ddt.data(BUSY, FAST, UNAVAILABLE, UNSENT,
              requests.ConnectTimeout('connect'))
    def test_request_not_carried_out_is_repeated_at_once(self, failure):
        self.make(failure, failure, MADE)
        self.assertEqual(VOLUME, self._create())
        self.assertEqual(['POST /volumes'] * 3, self.array.calls)
        self._same_sequence()

    @ddt.data(LOST, SLOW, CRASH, AWAY, CUT, GARBAGE, EMPTY,
              scripted.Reply(201, {}), scripted.Reply(201, {'id': None}),
              scripted.Reply(201, {'hits': []}))
    def test_unknown_outcome_is_looked_up_first(self, failure):
        self.make(failure, FOUND)
        self.assertEqual(VOLUME, self._create())
        self.assertEqual(['POST /volumes', 'GET /volumes'],
                         self.array.calls)
        self.assertEqual({'name': 'vol-1'}, self.array.query(1))

    @ddt.data(LOST, SLOW, CRASH, AWAY, CUT)
    def test_object_not_found_repeats_with_the_same_sequence(self, failure):
        self.make(failure, ABSENT, MADE)
        self.assertEqual(VOLUME, self._create())
        self.assertEqual(
            ['POST /volumes', 'GET /volumes', 'POST /volumes'],
            self.array.calls)
        self._same_sequence()

    def test_reply_in_an_envelope(self):
        self.make(scripted.Reply(200, {'hits': [RAW], 'total': 1}))
        self.assertEqual(VOLUME, self._create())

    def test_empty_reply_is_looked_up_several_times(self):
        self.make(EMPTY, ABSENT, ABSENT, FOUND)
        self.assertEqual(VOLUME, self._create())
        self.assertEqual([0.2, 0.4], self.clock.sleeps)

    @ddt.data(LOST, UNAVAILABLE, FAST)
    def test_409_on_a_repeat_means_done(self, failure):
        looks = [] if failure is not LOST else [ABSENT]
        self.make(failure, *looks, USED, ABSENT, FOUND)
        self.assertEqual(VOLUME, self._create())
        self._same_sequence()

    def test_409_on_a_repeat_but_no_object(self):
        self.make(LOST, ABSENT, USED, *[ABSENT] * 5)
        with self.assertRaisesRegex(
                rest.BadReply, 'as done, but does not show') as caught:
            self._create()
        self.assertEqual(('POST', '/volumes'), (
            caught.exception.method, caught.exception.path))

    def test_409_at_once_is_a_refusal(self):
        self.make(USED)
        with self.assertRaises(rest.Refused) as caught:
            self._create()
        self.assertIs(rest.Refused, type(caught.exception))

    def test_409_after_no_connection_is_a_refusal(self):
        self.make(UNSENT, USED)
        with self.assertRaises(rest.Refused):
            self._create()

    def test_refused_repeat_means_done_if_found(self):
        """An array that ignores the sequence refuses the duplicate (ERR-8)."""
        self.make(LOST, ABSENT, TAKEN, ABSENT, FOUND)
        self.assertEqual(VOLUME, self._create())

    def test_refused_repeat_is_raised_if_not_found(self):
        self.make(LOST, ABSENT, TAKEN, *[ABSENT] * 5)
        with self.assertRaisesRegex(rest.Refused, 'taken') as caught:
            self._create()
        self.assertTrue(rest.errors.may_be_done(caught.exception))

    @ddt.data([], [BUSY], [UNSENT], [UNAVAILABLE, FAST])
    def test_plain_refusal_is_not_looked_up(self, before):
        self.make(*before, TAKEN)
        with self.assertRaisesRegex(rest.Refused, 'taken') as caught:
            self._create()
        self.assertFalse(rest.errors.may_be_done(caught.exception))

    def test_object_in_another_group_is_not_ours(self):
        other = RAW | {'volume_group': {'ref': '/volume_groups/15'}}
        self.make(LOST, scripted.hits(other), TAKEN,
                  *[scripted.hits(other)] * 5)
        with self.assertRaises(rest.Refused):
            self._create()

    def test_failed_look_up_does_not_end_retries(self):
        # Eight times: as often as one read is repeated.
        self.make(LOST, *[CRASH] * 8, ABSENT, MADE)
        self.assertEqual(VOLUME, self._create())

    def test_unauthorized_look_up_ends_retries(self):
        self.make(LOST, scripted.refusal('no', 401))
        with self.assertRaises(rest.AuthenticationFailed):
            self._create()

    def test_persistent_500_ends_retries(self):
        self.make(*[CRASH, ABSENT] * retry.PERSISTENT_TRIES)
        with self.assertRaises(rest.ServerError):
            self._create()
        self._same_sequence()

    def test_no_connection_ends_at_the_deadline(self):
        self.make(*[LOST] * 1000, deadline=60.0)
        with self.assertRaises(rest.Unreachable):
            self._create()
        self.assertLessEqual(self.clock.now, 1060)
        self.array.script.clear()

    def test_404(self):
        self.make(GONE)
        with self.assertRaises(rest.NotFound):
            self._create()


@ddt.ddt
class NaturalKeyTest(Case):
    """How an object is looked up after a lost reply, by resource."""

    HOST = rest.Ref('hosts', 7)

    def _lost(self, collection, raw, **fields):
        self.make(LOST, scripted.hits(raw))
        made = getattr(self.client, collection).create(**fields)
        self.assertEqual(raw['id'], made.id)
        return {name: value for name, value in self.array.query(1).items()
                if not name.startswith('__')}

    @ddt.data('volume_groups', 'hosts', 'host_groups', 'retention_policies')
    def test_by_name(self, collection):
        self.assertEqual({'name': 'n'}, self._lost(
            collection, {'id': 3, 'name': 'n'}, name='n', quota=0))

    def test_snapshots(self):
        raw = {'id': 3, 'short_name': 's',
               'source': {'ref': '/volume_groups/14'}}
        self.assertEqual(
            {'short_name': 's'}, self._lost(
                'snapshots', raw, short_name='s', source=GROUP,
                retention_policy=rest.Ref('retention_policies', 3)))

    def test_mappings(self):
        raw = {'id': 3, 'host': {'ref': '/hosts/7'},
               'volume': {'ref': '/snapshots/5'}, 'lun': None}
        self.assertEqual(
            {'host.ref': '/hosts/7', 'volume.ref': '/snapshots/5'},
            self._lost('mappings', raw, host=self.HOST,
                       volume=rest.Ref('snapshots', 5)))

    def test_iqns_in_any_case(self):
        raw = {'id': 3, 'iqn': 'iqn.1993-08.Org:AB',
               'host': {'ref': '/hosts/7'}}
        self.assertEqual({'host.ref': '/hosts/7'}, self._lost(
            'host_iqns', raw, iqn='iqn.1993-08.org:ab', host=self.HOST))

    def test_wwpns_in_any_form(self):
        raw = {'id': 3, 'pwwn': '50:01:43:80:24:d0:c2:9e',
               'host': {'ref': '/hosts/7'}}
        self.assertEqual({'host.ref': '/hosts/7'}, self._lost(
            'host_fc_ports', raw, pwwn='5001438024D0C29E', host=self.HOST))

    def test_an_iqn_without_host(self):
        self.assertEqual({'iqn': 'iqn.x'}, self._lost(
            'host_iqns', {'id': 3, 'iqn': 'iqn.x'}, iqn='iqn.x'))

    def test_iqn_without_a_host_is_not_ours(self):
        """INI-1: the array created the record; POST is to adopt it."""
        loose = {'id': 3, 'iqn': 'iqn.x', 'host': None}
        ours = loose | {'host': {'ref': '/hosts/7'}}
        self.make(LOST, scripted.hits(loose), scripted.Reply(201, ours))
        self.assertEqual(self.HOST, self.client.host_iqns.create(
            iqn='iqn.x', host=self.HOST).host)

    def test_deleted_snapshot_is_not_ours(self):
        raw = {'id': 3, 'short_name': 's', 'is_deleted': True,
               'source': {'ref': '/volume_groups/14'}}
        new = raw | {'id': 4, 'is_deleted': False}
        self.make(LOST, scripted.hits(raw), scripted.Reply(201, new))
        self.assertEqual(4, self.client.snapshots.create(
            short_name='s', source=GROUP).id)

    def test_a_replication_snapshot_has_no_key(self):
        raw = {'id': 4, 'source': {'ref': '/volume_groups/14'}}
        self.make(LOST, scripted.Reply(201, raw))
        self.client.snapshots.create(source=GROUP)
        self.make(LOST, USED)
        with self.assertRaises(rest.BadReply):
            self.client.snapshots.create(source=GROUP)


@ddt.ddt
class UpdateTest(Case):

    BIG = RAW | {'size': 2097152}

    def _grow(self):
        return self.volumes.update(31, size=2097152)

    def _check(self, *calls):
        self.assertEqual(2097152, self._grow().size)
        self.assertEqual([f'{c} /volumes/31' for c in calls],
                         self.array.calls)

    def test_reply_shows_the_change(self):
        self.make(scripted.Reply(200, self.BIG))
        self._check('PATCH')
        self.assertEqual({'size': 2097152}, self.array.body(0))

    def test_none_clears(self):
        """OBJ-9."""
        self.make(scripted.Reply(200, {'id': 7, 'name': 'h'}))
        self.client.hosts.update(7, host_group=None)
        self.assertEqual({'host_group': None}, self.array.body(0))

    def test_empty_reply_is_looked_up(self):
        self.make(scripted.Reply(200), scripted.Reply(200, self.BIG))
        self._check('PATCH', 'GET')

    def test_empty_reply_without_a_change(self):
        self.make(EMPTY, scripted.Reply(200, RAW), *[
            scripted.Reply(200, RAW)] * 5, scripted.Reply(200, self.BIG))
        self._check('PATCH', *['GET'] * 6, 'PATCH')

    @ddt.data(BUSY, FAST, UNAVAILABLE, UNSENT)
    def test_busy(self, failure):
        self.make(failure, scripted.Reply(200, self.BIG))
        self._check('PATCH', 'PATCH')

    @ddt.data(LOST, SLOW, CRASH, AWAY, CUT)
    def test_lost_reply_carried_out(self, failure):
        self.make(failure, scripted.Reply(200, self.BIG))
        self._check('PATCH', 'GET')

    @ddt.data(LOST, SLOW, CRASH, AWAY)
    def test_lost_reply_not_carried_out(self, failure):
        self.make(failure, scripted.Reply(200, RAW),
                  scripted.Reply(200, self.BIG))
        self._check('PATCH', 'GET', 'PATCH')
        self.assertEqual(1, len(set(self.array.sequences())))

    def test_409_on_a_repeat(self):
        self.make(LOST, scripted.Reply(200, RAW), USED,
                  scripted.Reply(200, self.BIG))
        self._check('PATCH', 'GET', 'PATCH', 'GET')

    def test_409_on_a_repeat_without_a_change(self):
        """Another client may have used the sequence number."""
        self.make(LOST, scripted.Reply(200, RAW), USED,
                  *[scripted.Reply(200, RAW)] * 5)
        with self.assertRaisesRegex(rest.BadReply, 'does not show'):
            self._check()

    def test_no_quota_reads_back_as_null(self):
        """VG-2."""
        self.make(LOST, scripted.Reply(200, {
            'id': 14, 'name': 'g', 'quota': None}))
        self.client.volume_groups.update(14, quota=0)

    def test_change_that_reads_do_not_show_is_repeated(self):
        group = {'id': 14, 'name': 'g'}
        self.make(LOST, scripted.Reply(200, group),
                  scripted.Reply(200, group))
        self.client.volume_groups.update(
            14, last_restored_from=rest.Ref('snapshots', 51))
        self.assertEqual('PATCH /volume_groups/14', self.array.calls[2])

    def test_refused(self):
        self.make(scripted.refusal('it would shrink'))
        with self.assertRaisesRegex(rest.Refused, 'shrink'):
            self._grow()

    @ddt.data([], [LOST])
    def test_404(self, before):
        self.make(*before, GONE)
        with self.assertRaises(rest.NotFound):
            self._grow()

    def test_404_on_a_repeat_does_not_mean_done(self):
        same = scripted.Reply(200, RAW)
        self.make(LOST, same, GONE, same)
        with self.assertRaises(rest.NotFound):
            self._grow()


@ddt.ddt
class DeleteTest(Case):

    def _check(self, expected, calls):
        self.assertIs(expected, self.volumes.delete(31))
        self.assertEqual(['DELETE /volumes/31'] * calls, self.array.calls)
        self.assertEqual(1, len(set(self.array.sequences())))

    @ddt.data(DONE, EMPTY, scripted.Reply(200, {'id': 31}))
    def test_any_2xx(self, reply):
        self.make(reply)
        self._check(True, 1)

    def test_gone_already(self):
        self.make(GONE)
        self._check(False, 1)

    @ddt.data(LOST, SLOW, CRASH, AWAY, CUT, GARBAGE)
    def test_lost_reply(self, failure):
        for reply, expected in ((DONE, True), (GONE, False)):
            self.make(failure, reply)
            self._check(expected, 2)

    def test_lost_reply_and_name_is_gone(self):
        """OBJ-7: looked up by name, since the id may have been reused."""
        other = RAW | {'id': 32}
        for found in (ABSENT, scripted.hits(other)):
            self.make(LOST, found)
            self.assertIs(True, self.volumes.delete(31, name='vol-1'))
            self.assertEqual(['DELETE /volumes/31', 'GET /volumes'],
                             self.array.calls)

    def test_lost_reply_and_still_there(self):
        self.make(LOST, FOUND, DONE)
        self.assertIs(True, self.volumes.delete(31, name='vol-1'))
        self.assertEqual(1, len(set(self.array.sequences())))

    def test_409_on_a_repeat_means_done_if_gone(self):
        self.make(LOST, USED, GONE)
        self.assertIs(True, self.volumes.delete(31))
        self.assertEqual(['DELETE /volumes/31'] * 2 + ['GET /volumes/31'],
                         self.array.calls)

    def test_409_on_a_repeat_proves_nothing_while_it_is_there(self):
        self.make(LOST, USED, *[scripted.Reply(200, RAW)] * 5)
        with self.assertRaises(rest.BadReply):
            self.volumes.delete(31)

    @ddt.data(BUSY, FAST, UNAVAILABLE)
    def test_busy(self, failure):
        self.make(failure, DONE)
        self._check(True, 2)

    def test_gone_after_no_connection(self):
        self.make(UNSENT, GONE)
        self._check(False, 2)

    @ddt.data([], [LOST])
    def test_refused(self, before):
        self.make(*before, *[scripted.refusal('it is mapped')])
        with self.assertRaisesRegex(rest.Refused, 'mapped'):
            self.volumes.delete(31)


@ddt.ddt
class SequenceTest(Case):
    """Trials of X-K2-Sequence on an array not known to support it."""

    WORKS = ('reads:volumes',)
    OK = scripted.Reply(200, {})

    def _numbers(self):
        return [bool(number) for number in self.array.sequences()]

    def _verdict(self):
        return self.client.capabilities.verdict('sequence').state

    def test_works(self):
        self.make(MADE, DONE)
        self.volumes.create(**FIELDS)
        self.volumes.delete(31)
        self.assertEqual('works', self._verdict())
        self.assertEqual([True, True], self._numbers())

    @ddt.data(400, 403, 404, 405, 409)
    def test_refused(self, status):
        self.make(scripted.refusal('no', status), MADE, DONE)
        self.volumes.create(**FIELDS)
        self.volumes.delete(31)
        self.assertEqual('refused', self._verdict())
        self.assertEqual([True, False, False], self._numbers())

    @ddt.data(CRASH, LOST, AWAY)
    def test_two_failures_while_known_read_works(self, failure):
        self.make(failure, ABSENT, self.OK, failure, ABSENT, MADE)
        self.volumes.create(**FIELDS)
        self.assertEqual('refused', self._verdict())
        self.assertEqual(
            ['POST /volumes', 'GET /volumes', 'GET /system/state',
             'POST /volumes', 'GET /volumes', 'POST /volumes'],
            self.array.calls)

    def test_single_failure(self):
        self.make(CRASH, ABSENT, self.OK, MADE)
        self.volumes.create(**FIELDS)
        self.assertEqual('works', self._verdict())

    def test_unreachable_array(self):
        # The object is looked up again, since the first look-up failed.
        self.make(LOST, LOST, LOST, ABSENT, MADE)
        self.volumes.create(**FIELDS)
        self.assertEqual('unknown', self._verdict())
        self.assertEqual([True, False], self._numbers())

    def test_no_second_try_on_slow_array(self):
        self.make(SLOW, ABSENT, MADE, DONE)
        self.volumes.create(**FIELDS)
        self.volumes.delete(31)
        self.assertEqual('unknown', self._verdict())
        self.assertEqual([True, False, False], self._numbers())

    def test_create_is_tried_for_three_seconds(self):
        self.make(SLOW, LOST, ABSENT, MADE)
        self.assertEqual(VOLUME, self.volumes.create(**FIELDS))
        self.assertEqual(['POST /volumes', 'GET /volumes', 'GET /volumes',
                          'POST /volumes'], self.array.calls)
        # The look-up in the trial is short, that of the fallback is not.
        self.assertEqual([3, 3, 60, 60], [
            round(read) for _, read in self.array.timeouts])

    def test_failed_look_ups_prove_nothing(self):
        self.make(CRASH, LOST, self.OK, LOST, ABSENT, MADE)
        self.assertEqual(VOLUME, self.volumes.create(**FIELDS))
        self.assertEqual([True, False], self._numbers())
        self.assertEqual('unknown', self._verdict())

    def test_late_creation_is_found(self):
        """The fallback finds the name taken (ERR-8)."""
        for script in ([SLOW, ABSENT, TAKEN, ABSENT, FOUND],
                       [SLOW, UNAVAILABLE, FOUND]):
            self.make(*script)
            self.assertEqual(VOLUME, self.volumes.create(**FIELDS))
            # The array may never reply to requests with the header.
            self.assertEqual('unknown', self._verdict())

    def test_sequence_is_tried_only_with_new_names(self):
        """Other writes might be carried out after the fallback."""
        self.make(DONE, scripted.Reply(200, RAW | {'size': 5}),
                  scripted.Reply(201, {'id': 3}))
        self.volumes.delete(31)
        self.volumes.update(31, size=5)
        self.client.mappings.create(
            host=rest.Ref('hosts', 1), volume=rest.Ref('volumes', 31))
        self.assertEqual([False] * 3, self._numbers())
        self.assertEqual('unknown', self._verdict())

    def test_sequence_is_not_tried_with_slow_writes(self):
        self.make(MADE)
        self.volumes.create(slow=True, **FIELDS)
        self.assertEqual([False], self._numbers())

    def test_deadline_ends_while_a_write_hangs(self):
        """The outcome is unknown, and no time is left for a look-up."""
        def hang(_):
            self.clock.sleep(200)
            return SLOW
        self.make(hang)
        with self.assertRaises(rest.errors.NoReply):
            self.volumes.delete(31, name='vol-1')

    @ddt.data(BUSY, FAST, UNAVAILABLE, UNSENT)
    def test_busy_proves_nothing(self, failure):
        self.make(failure, MADE)
        self.volumes.create(**FIELDS)
        self.assertEqual('unknown', self._verdict())

    def test_refused_write_proves_nothing(self):
        self.make(TAKEN, TAKEN)
        with self.assertRaisesRegex(rest.Refused, 'taken'):
            self.volumes.create(**FIELDS)
        self.assertEqual('unknown', self._verdict())

    def test_late_creation_during_the_trial(self):
        """409 on the second try: the first one was carried out (SEQ-1)."""
        self.make(CRASH, ABSENT, self.OK, USED, FOUND)
        self.assertEqual(VOLUME, self.volumes.create(**FIELDS))
        self.assertEqual([True, True], self._numbers())
        self.assertEqual('works', self._verdict())

    def test_late_creation_and_refused_fallback(self):
        """A look-up finds the object (ERR-8)."""
        self.make(CRASH, ABSENT, self.OK, CRASH, ABSENT, TAKEN, FOUND)
        self.assertEqual(VOLUME, self.volumes.create(**FIELDS))

    def test_404_is_about_the_object_once_it_works(self):
        self.make(MADE, GONE)
        self.volumes.create(**FIELDS)
        self.assertIs(False, self.volumes.delete(31))
        self.assertEqual('works', self._verdict())


class LimiterTest(Case):

    def test_deadline_ends_the_wait_for_a_turn(self):
        self.make(max_writes=1, deadline=0.01)
        with self.client._session.write_limiter.enter(0):
            with self.assertRaisesRegex(
                    rest.Busy, r'no turn within 0(\.01)? s, the array takes 1 '
                    'such requests') as caught:
                self.volumes.delete(31)
        self.assertEqual(('10.0.0.1', 'DELETE', '/volumes/31'), (
            caught.exception.address, caught.exception.method,
            caught.exception.path))

    def test_replies_that_raise_or_lower_the_limit(self):
        for failure in (BUSY, FAST, UNAVAILABLE):
            self.make(failure, DONE)
            self.volumes.delete(31)
            self.assertEqual(2, self.client._session.write_limiter.limit)
        for reply in (LOST, CRASH, UNSENT):
            self.make(reply, DONE)
            self.volumes.delete(31)
            self.assertEqual(4, self.client._session.write_limiter.limit)
        self.make(*[DONE] * 4)
        for _ in range(4):
            self.volumes.delete(31)
        self.assertEqual(8, self.client._session.write_limiter.limit)

    def test_reads_have_their_own_limiter(self):
        self.make(FOUND, max_writes=1)
        with self.client._session.write_limiter.enter(0):
            self.volumes.find(name='vol-1')
        self.make(pool_size=1, deadline=0.01)
        with self.client._session.read_limiter.enter(0):
            with self.assertRaisesRegex(rest.Busy, 'takes 1 such requests'):
                self.volumes.find(name='vol-1')

    def test_reads_change_only_their_own_limit(self):
        self.make(*[FOUND] * 4, FAST, FOUND)
        for _ in range(4):
            self.volumes.find(name='vol-1')
        self.assertEqual(8, self.client._session.read_limiter.limit)
        self.volumes.find(name='vol-1')
        self.assertEqual(4, self.client._session.read_limiter.limit)
        self.assertEqual(4, self.client._session.write_limiter.limit)

    def test_full_pool_is_not_a_busy_array(self):
        """ERR-5: writes use all connections; the array is not busy."""
        def write(request):
            self.volumes.delete(32)
            return DONE

        def read(request):
            with self.client._session.deadline(0.01), \
                    self.assertRaisesRegex(
                        rest.Busy, 'no free connection') as caught:
                self.volumes.find(name='vol-1')
            self.assertEqual('/volumes', caught.exception.path)
            return DONE
        self.make(write, read, pool_size=2)
        before = self.client._session.read_limiter.limit
        self.volumes.delete(31)
        self.assertEqual(before, self.client._session.read_limiter.limit)

    def test_writes_in_flight(self):
        """Twelve threads write; the limiter starts with four at once."""
        met = threading.Barrier(5)
        lock = threading.Lock()
        flying, most = 0, 0

        def reply(request):
            nonlocal flying, most
            with lock:
                flying += 1
                most = max(most, flying)
            if len(self.array.requests) <= 4:
                met.wait(10)
            with lock:
                flying -= 1
            return DONE

        self.make(*[reply] * 12)
        threads = [threading.Thread(target=self.volumes.delete, args=[n])
                   for n in range(12)]
        for thread in threads:
            thread.start()
        met.wait(10)
        for thread in threads:
            thread.join(10)
        self.assertTrue(4 <= most <= 6, most)


class SecretsTest(Case):

    def test_no_secret_in_logs_errors_and_reprs(self):
        self.make(CRASH, FOUND, MADE, GONE, LOST, DONE)
        with self.assertLogs(level=logging.DEBUG) as logs:
            self.volumes.find(name='vol-1')
            self.volumes.create(**FIELDS, password='chap-secret')
            with self.assertRaises(rest.NotFound) as caught:
                self.volumes.get(31)
            self.volumes.delete(31)
        error = caught.exception
        settings = self.client._session._settings
        text = '\n'.join([
            *logs.output, str(error), repr(error), str(vars(error)),
            repr(self.client), repr(settings), str(settings),
            repr(self.volumes), repr(self.client._session.transport)])
        token = base64.b64encode(b'admin:Secr3t-word').decode()
        for secret in ('Secr3t-word', token, 'Authorization', 'Basic ',
                       'chap-secret'):
            self.assertNotIn(secret, text)

    def test_each_request_is_logged_once(self):
        self.make(CRASH, FOUND, LOST, DONE)
        with self.assertLogs('cinder_k2.rest', logging.DEBUG) as logs:
            self.volumes.find(name='vol-1')
            self.volumes.delete(31)
        self.assertEqual(4, len(logs.output))
        self.assertRegex(
            logs.output[0],
            r'GET https://10.0.0.1/api/v2/volumes\?name=vol-1: 500, '
            r'\d+ ms, attempt 1$')
        self.assertRegex(logs.output[1], r'200, \d+ ms, attempt 2$')
        self.assertRegex(
            logs.output[2],
            r'DELETE .*/volumes/31: no reply, \d+ ms, attempt 1$')
