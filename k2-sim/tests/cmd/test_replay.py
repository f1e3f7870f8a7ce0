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

"""Recordings replayed against other arrays."""

import json

import requests
import testtools

import k2_sim
from k2_sim.cmd import replay
from tests import base

URL = 'https://k2.example'


class ReplayTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.first, self.session = self.array()
        self.first.control.recorder.start()

    def array(self, **options):
        array = k2_sim.Array(clock=k2_sim.FakeClock(), **options)
        self.addCleanup(array.close)
        session = requests.Session()
        self.addCleanup(session.close)
        session.auth = ('admin', 'admin')
        session.mount(URL, k2_sim.RequestsAdapter(array))
        return array, session

    def call(self, method, path, body=None, session=None, **headers):
        return (session or self.session).request(
            method, f'{URL}/api/v2/{path}', json=body,
            headers=headers).json()

    def recording(self):
        reply = self.session.get(f'{URL}/sim/v1/recorder/har')
        return replay.entries(reply.json())

    def replay(self, session, **options):
        self.run = replay.Replay(session, URL, **options)
        return list(self.run.run(self.recording()))

    def story(self):
        """Objects created and used by their ids; returns the volume."""
        group = self.call('POST', 'volume_groups', {'name': 'g', 'quota': 0},
                          **{'X-K2-Sequence': 'a=1,b=1'})
        own = base.ref('volume_groups', group)
        volume = self.call('POST', 'volumes', {
            'name': 'v', 'size': 2 ** 20, 'volume_group': own})
        self.call('PATCH', f'volumes/{volume["id"]}', {'description': 'd'})
        self.call('POST', 'snapshots/__bulk', [{
            'short_name': name, 'source': own, 'is_auto_deleteable': False,
            'retention_policy': {'ref': '/retention_policies/3'}}
            for name in ('s1', 's2')])
        self.call('GET', f'volumes?volume_group.ref__in={own["ref"]},/x/1')
        image, = self.call('GET', 'volsnaps?name=g:s1:v')['hits']
        self.call('GET', f'volsnaps/{image["id"]}')
        self.call('PATCH', 'volume_groups/__bulk',
                  [{'id': group['id'], 'description': 'e'}])
        self.call('GET', 'snapshots?__sort=id')
        return volume

    def test_the_same(self):
        self.story()
        _, session = self.array()
        self.assertEqual([], self.replay(session))
        self.assertEqual((9, 9), (self.run.sent, self.run.compared))

    def test_other_ids(self):
        """Ids are replaced by the array's wherever the recording has them."""
        self.story()
        array, session = self.array()
        for number in range(3):
            group = self.call('POST', 'volume_groups', {
                'name': f'old{number}', 'quota': 0}, session)
            self.call('POST', 'volumes', {
                'name': f'old{number}', 'size': 1, 'volume_group': base.ref(
                    'volume_groups', group)}, session)
            self.call('POST', 'snapshots', {
                'short_name': 'old', 'source': base.ref(
                    'volume_groups', group), 'retention_policy':
                {'ref': '/retention_policies/3'},
                'is_auto_deleteable': False}, session)
        # Earlier objects show in the one search for all snapshots.
        self.assertEqual(
            {9}, {found.number for found in self.replay(
                session, ignore=(*replay.VOLATILE, 'node_id'))})
        self.assertEqual('d', array.store.get('volumes', 34)['description'])

    def test_other_ids_in_queries(self):
        group = self.call('POST', 'volume_groups', {'name': 'g', 'quota': 0})
        volume = self.call('POST', 'volumes', {
            'name': 'v', 'size': 2 ** 20, 'volume_group': base.ref(
                'volume_groups', group)})['id']
        for path in (f'volumes?id={volume}&__fields=name',
                     f'volumes?id__in=1,{volume}&__fields=name,id',
                     f'stats/volumes/{volume}'):
            self.call('GET', path)
        _, session = self.array()
        other = self.call('POST', 'volume_groups', {
            'name': 'old', 'quota': 0}, session)
        self.call('POST', 'volumes', {
            'name': 'old', 'size': 1, 'volume_group': base.ref(
                'volume_groups', other)}, session)
        self.assertEqual([], self.replay(
            session, ignore=(*replay.VOLATILE, 'node_id')))
        self.assertEqual(5, self.run.compared)

    def test_who_was_not_admitted(self):
        """Requests refused for credentials or rate are not replayed."""
        self.session.auth = ('admin', 'wrong')
        self.call('POST', 'host_groups', {'name': 'h401'})
        self.session.auth = ('admin', 'admin')
        self.first.control.set_behaviors(rate_limit=0.001, rate_burst=0)
        self.call('POST', 'host_groups', {'name': 'h429'})
        array, session = self.array()
        self.assertEqual([], self.replay(session))
        self.assertEqual((0, 2), (self.run.sent, self.run.skipped))
        self.assertEqual([], array.store.rows('host_groups'))

    def test_a_second_time(self):
        """Its sequence ids are specific to each run (SEQ-1)."""
        self.call('POST', 'host_groups', {'name': 'hg'},
                  **{'X-K2-Sequence': 'a=1,b=2'})
        _, session = self.array()
        self.assertEqual([], self.replay(session))
        found, = self.replay(session)
        self.assertEqual(('status', 201, 400), (
            found.field, found.recorded, found.replayed))

    def test_differences(self):
        self.story()
        array, session = self.array()
        array.control.set_behaviors(page_size=7, snapshot_patch=False)
        array.control.add_fault(kind='status', status=503, path='volsnaps/*')
        found = {(item.number, item.field): item
                 for item in self.replay(session)}
        self.assertEqual({(5, 'limit'), (6, 'limit'), (7, 'status'),
                          (9, 'limit')}, set(found))
        first = found[(5, 'limit')]
        self.assertEqual((1000, 7), (first.recorded, first.replayed))
        self.assertTrue(first.request.startswith('GET /api/v2/volumes vol'))

    def test_more_or_fewer_hits(self):
        self.call('GET', 'host_groups')
        _, session = self.array()
        self.call('POST', 'host_groups', {'name': 'hg'}, session)
        self.assertEqual({'hits', 'total'}, {
            found.field for found in self.replay(session)})

    def test_ignored(self):
        self.call('GET', 'system/state/1')
        _, session = self.array(name='other')
        fields = {found.field for found in self.replay(session)}
        self.assertEqual({'system_name', 'system_id',
                          'iscsi_qualified_target_name'}, fields)
        self.assertEqual([], self.replay(session, ignore=(
            'system_*', 'iscsi_*', '*_time')))

    def test_faults_of_the_recording(self):
        """Carried out or not; damaged replies are not compared."""
        control = self.first.control
        for commit in ('before', 'after'):
            control.add_fault(kind='status', status=502, commit=commit,
                              times=1)
        for name in ('hg1', 'hg2', 'hg3'):
            self.call('POST', 'host_groups', {'name': name})
        array, session = self.array()
        self.assertEqual([], self.replay(session))
        self.assertEqual((2, 1), (self.run.sent, self.run.compared))
        self.assertEqual(['hg2', 'hg3'], [
            row['name'] for row in array.store.rows('host_groups')])

    def test_slow_answers_are_compared(self):
        control = self.first.control
        control.add_fault(kind='slow_loris', rate=1e6)
        control.add_fault(kind='latency', latency={'ms': 1})
        self.call('GET', 'volumes')
        array, session = self.array()
        array.control.set_behaviors(page_size=7)
        self.assertEqual(['limit'], [
            found.field for found in self.replay(session)])

    def test_order(self):
        """Requests are sent in order of arrival, not of their replies."""
        self.first.control.add_fault(
            kind='hang', seconds=5, method='POST', times=1)
        body = json.dumps({'name': 'hg'}).encode()
        with self.first.exchange('POST', '/api/v2/host_groups', '', {
                **base.authorization(), 'Content-Type': base.JSON}, body):
            self.first.clock.advance(1)
            self.call('GET', 'host_groups')
        self.assertEqual(['POST', 'GET'], [
            entry['request']['method'] for entry in self.recording()])

    def test_what_is_odd_but_a_recording(self):
        _, session = self.array()
        run = replay.Replay(session, URL)
        found, = run.run(replay.entries({'log': {'entries': [{
            'request': {'method': 'GET', 'url': f'{URL}/api/v2/nothing',
                        'postData': None, 'headers': None},
            'response': {'status': 404, 'content': None}}]}}))
        self.assertEqual(('body', None), (found.field, found.recorded))

    def test_hits_that_are_no_objects(self):
        _, session = self.array()
        for text in ('{"hits": [5], "limit": 9}', '{"hits": 5}'):
            found = list(replay.Replay(session, URL).run(replay.entries({
                'log': {'entries': [{
                    'request': {'method': 'GET',
                                'url': f'{URL}/api/v2/volumes'},
                    'response': {'status': 200,
                                 'content': {'text': text}}}]}})))
            self.assertTrue(found)

    def test_what_is_no_recording(self):
        asked = {'method': 'GET', 'url': URL}
        for request, response in (
                ({'headers': [{}]}, {}), ({'headers': [5]}, {}),
                ({'postData': {'text': 5}}, {}), ({'postData': 5}, {}),
                ({'method': 5}, {}), ({}, {'status': '200'}),
                ({}, {'content': {'text': 5}}), ({}, {'content': [1]})):
            self.assertRaises(
                replay.RecordingError, replay.entries, {'log': {'entries': [{
                    'request': {**asked, **request},
                    'response': {'status': 200, **response}}]}})
        for value in (None, [], {}, {'log': {}}, {'log': {'entries': [5]}},
                      {'log': {'entries': [{'request': {}}]}}):
            self.assertRaises(replay.RecordingError, replay.entries,
                              json.loads(json.dumps(value)))
