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

"""Sections 2.1 to 2.3 and 3: rules for every resource."""

import threading

import ddt

import k2_sim
from k2_sim.state import catalogue
from tests import base


class TestAuthentication(base.ArrayTest):

    def _status(self, headers, path='/api/v2'):
        return self.array.handle('GET', path, headers=headers).status

    def test_index_needs_credentials(self):
        """DIS-4, CON-2: no credentials, wrong ones, no Basic: 401."""
        good = base.authorization()['Authorization']
        for header in ('', 'Basic', 'Basic !!', 'Basic YWRtaW4=',
                       good.replace('Basic', 'Bearer'),
                       base.authorization('admin', 'no')['Authorization'],
                       base.authorization('', '')['Authorization']):
            reply = self.array.handle(
                'GET', '/api/v2', headers={'Authorization': header})
            self.assertEqual(401, reply.status, header)
            self.assertEqual({'error_msg': 'Authentication required'},
                             reply.json())
        self.assertEqual(200, self._status({'authorization': good}))

    def _flex(self):
        return k2_sim.Array(flex=k2_sim.Flex(
            'sdp-7', 'T0ken', 'mgmt-app'))

    def test_through_the_cloud_manager(self):
        """CON-3: the same resources at another base, with a token."""
        array = self._flex()
        headers = {'Authorization': 'Bearer T0ken',
                   'Content-Type': base.JSON}
        way = '/rest/sdps/sdp-7/api/v2'
        for path in (way, f'{way}/'):
            self.assertEqual(
                {'url': '/volumes'}, array.handle('GET', path, '', headers)
                .json()['resources']['volumes'])
        made = array.handle(
            'POST', f'{way}/volume_groups', '', headers,
            b'{"name": "vg", "quota": 0}')
        self.assertEqual((201, 14), (made.status, made.json()['id']))
        self.assertEqual('mgmt-app', array.handle(
            'GET', f'{way}/system/state/1', '', headers)
            .json()['current_user_role'])
        self.assertEqual(403, array.handle(
            'POST', f'{way}/retention_policies', '', headers, b'{}').status)
        self.assertEqual('vg', array.handle(
            'GET', '/api/v2/volume_groups/14', '', base.authorization())
            .json()['name'])
        event, = array.handle(
            'GET', f'{way}/events', '', headers).json()['hits']
        self.assertEqual('flex', event['user'])

    def test_each_way_has_its_credentials(self):
        """CON-2, CON-3: each refuses the other's; 401."""
        array = self._flex()
        token = {'Authorization': 'Bearer T0ken'}
        for path, headers, status in (
                ('/rest/sdps/sdp-7/api/v2', base.authorization(), 401),
                ('/rest/sdps/sdp-7/api/v2', {}, 401),
                ('/rest/sdps/sdp-7/api/v2',
                 {'Authorization': 'Bearer other'}, 401),
                ('/rest/sdps/sdp-7/api/v2',
                 {'Authorization': 'Basic T0ken'}, 401),
                ('/rest/sdps/sdp-7/api/v2x', token, 404),
                ('/rest/sdps/sdp-8/api/v2', base.authorization(), 404),
                ('/rest/sdps/sdp-8/api/v2', token, 401),
                ('/api/v2', token, 401), ('/sim/v1', token, 401)):
            self.assertEqual(status, array.handle(
                'GET', path, '', headers).status, (path, headers))
        self.assertEqual(404, self._status(
            base.authorization(), '/rest/sdps/sdp-7/api/v2'))
        self.assertNotIn('T0ken', repr(k2_sim.Flex('x', 'T0ken')))
        self.assertRaises(ValueError, k2_sim.Flex, 'x', 'y', 'king')

    def test_several_users_see_their_role(self):
        array = k2_sim.Array(users=[
            k2_sim.User('fred', 'p:w', 'root')])
        reply = array.handle('GET', '/api/v2/system/state/1',
                             headers=base.authorization('fred', 'p:w'))
        self.assertEqual('root', reply.json()['current_user_role'])
        self.assertNotIn('p:w', repr(k2_sim.User('fred', 'p:w')))

    def test_unknown_paths_do_not_show_before_login(self):
        self.assertEqual(401, self._status({}, '/api/v2/nothing'))
        self.assertEqual(401, self._status({}, '/none'))
        self.assertEqual(404, self._status(base.authorization(), '/none'))
        self.assertEqual(
            404, self._status(base.authorization(), '/api/v22'))


class TestDiscovery(base.ArrayTest):

    def test_every_reference_has_its_resource(self):
        """DIS-1, DIS-2, DIS-3: all urls that a ref can have are listed."""
        index = self.get('')
        self.assertEqual(['resources'], list(index))
        for name, entry in index['resources'].items():
            self.assertEqual({'url': f'/{name}'}, entry)
        for name in ('stats/volumes', 'replication/stats/volumes',
                     'replication/rpo_history', 'system/servers',
                     'system/hardware_states', 'system/pairs',
                     'system/vlans', 'system/wan_ports'):
            self.assertIn(name, index['resources'])
        for resource in catalogue.RESOURCES.values():
            for field in resource.fields:
                for target in field.refs:
                    self.assertIn(target, index['resources'])
        self.assertEqual(72, len(index['resources']))

    def test_what_is_not_served_is_empty_and_read_only(self):
        """Section 11: GET is empty, writes are 405, an id is 404."""
        for name in ('static_routes', 'system/syslog_servers',
                     'events/targets'):
            self.assertEqual(
                {'hits': [], 'limit': 1000, 'offset': 0, 'total': 0},
                self.get(name))
            self.refused('POST', name, {}, status=405)
            self.refused('DELETE', f'{name}/1', status=405)
            self.refused('GET', f'{name}/1', status=404)

    def test_statistics_have_the_short_envelope(self):
        """OBJ-1, STA-1, STA-2."""
        self.assertEqual({'hits', 'total'}, set(self.get('stats/system')))
        self.assertEqual({'hits': [], 'total': 0},
                         self.get('stats/volumes/1?__resolution=5m'))
        self.refused('GET', 'stats/volumes/99', status=404)

    def test_full_dump(self):
        full = self.get('__full?__pretty')
        self.assertEqual('CTRL', full['volumes'][0]['name'])
        self.assertEqual(set(self.get('')['resources']), set(full))
        self.refused('POST', '__full', {}, status=405)


@ddt.ddt
class TestErrors(base.ArrayTest):

    @ddt.data('no_such_resource', 'volumes/1/2', 'volumes/__meta',
              'no/such/1')
    def test_unknown_resource(self, path):
        """404, BLK-6."""
        self.refused('GET', path, status=404)
        self.refused('POST', path, {}, status=404)

    @ddt.data('0', '99', '-1', 'abc', '01', '1.0', '%31x')
    def test_unknown_id(self, number):
        """404 with the object's name."""
        self.refused('GET', f'volumes/{number}', status=404)
        self.refused('PATCH', f'volumes/{number}', {}, status=404)
        self.refused('DELETE', f'volumes/{number}', status=404)

    def test_there_is_no_event_0(self):
        """EVT-3."""
        self.refused('GET', 'events/0', status=404)

    @ddt.data(('PUT', 'volumes/1'), ('PUT', 'volumes'),
              ('PATCH', 'volumes'), ('DELETE', 'volumes'),
              ('POST', 'volumes/1'), ('POST', 'volsnaps'),
              ('DELETE', 'system/state/1'), ('POST', 'system/state'),
              ('DELETE', 'system/capacity_policy/1'),
              ('POST', 'system/fc_ports'), ('GET', 'volumes/__bulk'),
              ('POST', ''))
    @ddt.unpack
    def test_wrong_method(self, method, path):
        """405, CON-1."""
        self.assertEqual('Method not allowed',
                         self.refused(method, path, {}, status=405))

    def test_trailing_slash(self):
        """CON-7."""
        self.assertEqual(self.get('volumes'), self.get('volumes/'))
        self.assertEqual(self.get('volumes/1'), self.get('volumes/1/'))
        self.assertEqual(self.get(''), self.expect(200, 'GET', '/'))
        self.post('host_groups/', {'name': 'hg'})

    def test_writes_declare_json(self):
        """CON-5: POST and PATCH need the type, DELETE does not."""
        body = {'name': 'hg'}
        for kind in ('', 'text/plain', 'application/jsonx'):
            self.refused('POST', 'host_groups', body,
                         **{'Content-Type': kind})
        made = self.expect(
            201, 'POST', 'host_groups', body,
            **{'Content-Type': 'application/json; charset=utf-8'})
        self.expect(204, 'DELETE', f'host_groups/{made["id"]}',
                    **{'Content-Type': ''})

    @ddt.data(b'', b'{', b'{"name": "x"', b'\xff', b'nul', b'[' * 100000)
    def test_body_that_is_no_json(self, body):
        before = self.control.dump()
        reply = self.array.handle(
            'POST', '/api/v2/host_groups', '',
            {**base.authorization(), 'Content-Type': base.JSON}, body)
        self.assertEqual(400, reply.status)
        self.assertEqual(before, self.control.dump())

    @ddt.data([], [{'name': 'hg'}], 'x', 5, True)
    def test_body_that_is_no_object(self, body):
        self.refused('POST', 'host_groups', body)

    def test_replies_are_exactly_json(self):
        """CON-6, OBJ-3, OBJ-4, OBJ-5."""
        reply = self.call('POST', 'host_groups', {'name': 'hg'})
        self.assertEqual((201, {'Content-Type': 'application/json'}),
                         (reply.status, reply.headers))
        number = reply.json()['id']
        reply = self.call('PATCH', f'host_groups/{number}',
                          {'description': 'd'})
        self.assertEqual((200, 'd'),
                         (reply.status, reply.json()['description']))
        reply = self.call('DELETE', f'host_groups/{number}')
        self.assertEqual((204, {}, b''),
                         (reply.status, reply.headers, reply.body))

    def test_pretty(self):
        self.assertIn(b'\n  "id"', self.call(
            'GET', 'system/state/1?__pretty').body)
        self.assertNotIn(b'\n', self.call(
            'GET', 'system/state/1?__pretty=false').body)

    def test_not_online(self):
        """ERR-6: reads work, writes and statistics answer 503."""
        self.control.set_behaviors(state='OFFLINE')
        self.assertEqual('OFFLINE', self.get('system/state/1')['state'])
        self.refused('POST', 'host_groups', {'name': 'hg'}, status=503)
        self.refused('GET', 'stats/system', status=503)
        self.get('volumes')

    def test_words_that_nobody_knows(self):
        """ERR-6: the state is any word, even without a meaning."""
        self.control.set_behaviors(state='Perfectly fine',
                                   serve_any_state=True)
        self.assertEqual('Perfectly fine',
                         self.hits('system/state')[0]['state'])
        self.group()
        self.get('stats/system')
        self.control.set_behaviors(serve_any_state=False)
        self.refused('POST', 'volume_groups', {'name': 'g', 'quota': 0},
                     status=503)

    def test_a_defect_inside_answers_500_and_changes_nothing(self):
        def broken(*args):
            raise LookupError('a defect')

        self.array.store.find = broken
        with self.assertLogs('k2_sim', 'ERROR'):
            self.assertEqual('Internal error', self.refused(
                'POST', 'host_groups', {'name': 'hg'}, status=500))


class TestThreads(base.ArrayTest):

    def test_one_of_many_wins(self):
        """ERR-8 with concurrent requests: one object of each name."""
        barrier = threading.Barrier(8, timeout=10)
        statuses = []

        def create():
            barrier.wait()
            for number in range(30):
                statuses.append(self.call(
                    'POST', 'host_groups', {'name': f'{number}'}).status)

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((30, 210), (
            statuses.count(201), statuses.count(400)))
        hits = self.hits('host_groups')
        self.assertEqual(30, len({hit['name'] for hit in hits}))
        self.assertEqual(list(range(5, 35)), [hit['id'] for hit in hits])


@ddt.ddt
class TestValues(base.ArrayTest):

    def test_strings_for_numbers_and_booleans(self):
        """OBJ-10: accepted as strings, returned as JSON types."""
        group = self.group(quota='104857600', is_dedup='False')
        self.assertEqual((104857600, False),
                         (group['quota'], group['is_dedup']))
        volume = self.volume(group, size='1048576', read_only='TRUE')
        self.assertEqual((1048576, True),
                         (volume['size'], volume['read_only']))

    @ddt.data('', 'x', '1.5', '1e3', ' 5', '1_0', 1.5, True, None, [], {},
              2 ** 63, '9' * 30)
    def test_wrong_integers(self, value):
        """OBJ-13."""
        self.refused('POST', 'volume_groups',
                     {'name': 'g', 'quota': value})

    @ddt.data(5.0, '5', 5)
    def test_whole_numbers(self, value):
        self.assertEqual(5, self.group(quota=value)['quota'])

    @ddt.data('x', '', True, [], {}, None, '1e400', 1e300, '1_0', 'nan')
    def test_wrong_numbers(self, value):
        self.volume(self.group())
        self.refused('PATCH', 'volumes/31',
                     {'avg_compressed_ratio_timestamp': value})

    @ddt.data((0, 0), ('1.5', 1.5), ('15e-1', 1.5), ('-3', -3), (2.5, 2.5))
    @ddt.unpack
    def test_numbers(self, value, shown):
        self.volume(self.group())
        self.assertEqual(shown, self.patch('volumes/31', {
            'avg_compressed_ratio_timestamp': value})[
                'avg_compressed_ratio_timestamp'])

    @ddt.data('yes', '', 1, 0, [], {})
    def test_wrong_booleans(self, value):
        self.refused('POST', 'volume_groups',
                     {'name': 'g', 'quota': 0, 'is_dedup': value})

    @ddt.data(5, True, [], {}, '')
    def test_wrong_names(self, value):
        self.refused('POST', 'volume_groups', {'name': value, 'quota': 0})

    @ddt.data('/volume_groups/14', 14, [], {'ref': 14}, {'ref': '/x'},
              {'ref': '/volume_groups/999'}, {'ref': '/hosts/14'},
              {'ref': '/volume_groups/14/'}, {'ref': 'volume_groups/14'},
              {'ref': '/volume_groups/014'}, {'ref': None}, {'ref': ''},
              {'ref': '/volume_groups/14', 'id': 14}, {'id': 14}, None, {},
              '')
    def test_wrong_references(self, value):
        """OBJ-8, OBJ-13: dangling, foreign, misspelt, empty."""
        self.assertEqual(14, self.group()['id'])
        self.refused('POST', 'volumes', {
            'name': 'v', 'size': 1, 'volume_group': value})

    @ddt.data(None, {}, '')
    def test_three_ways_to_clear_a_reference(self, nothing):
        """OBJ-9."""
        hosts = self.post('host_groups', {'name': 'hg'})
        host = self.host(host_group=base.ref('host_groups', hosts))
        host = self.patch(f'hosts/{host["id"]}', {'host_group': nothing})
        self.assertIsNone(host['host_group'])

    def test_unknown_and_read_only_fields(self):
        """OBJ-12: refused in POST and PATCH."""
        group = self.group()
        for field in ('colour', 'volumes_count', 'id', 'creation_time'):
            self.refused('POST', 'volume_groups',
                         {'name': 'g', 'quota': 0, field: 1})
        for field in ('colour', 'volumes_count', 'is_dedup'):
            self.refused('PATCH', f'volume_groups/{group["id"]}',
                         {'description': 'd', field: 1})

    def test_missing_fields(self):
        """OBJ-13, ERR-8."""
        self.assertEqual('Missing required field: name',
                         self.refused('POST', 'volume_groups', {}))
        self.refused('POST', 'volume_groups', {'name': 'g'})
        self.refused('POST', 'volumes', {'name': 'vol-9'})

    def test_null(self):
        """OBJ-12: ignored in POST; in PATCH it clears what may be null."""
        host = self.host(host_group=None)
        group = self.group(description='d')
        path = f'volume_groups/{group["id"]}'
        self.assertIsNone(self.patch(path, {'description': None})[
            'description'])
        self.refused('PATCH', path, {'name': None})
        self.refused('PATCH', f'hosts/{host["id"]}', {'type': None})

    def test_own_id_in_patch(self):
        """OBJ-11."""
        group = self.group()
        path = f'volume_groups/{group["id"]}'
        for number in (group['id'], str(group['id'])):
            self.patch(path, {'id': number, 'description': 'd'})
        for number in (group['id'] + 1, None, 'x'):
            self.refused('PATCH', path, {'id': number})

    def test_same_values_again(self):
        """OBJ-14."""
        group = self.group()
        volume = self.volume(group)
        body = {name: volume[name] for name in (
            'name', 'size', 'volume_group', 'description', 'read_only')}
        path = f'volumes/{volume["id"]}'
        self.assertEqual(volume, self.patch(path, body))
        self.assertEqual(volume, self.patch(path, {}))

    def test_delete_ignores_a_body(self):
        """OBJ-15."""
        made = self.post('host_groups', {'name': 'hg'})
        self.delete(f'host_groups/{made["id"]}', ['what', {'ever': 1}])

    def test_ids_are_not_used_again(self):
        """OBJ-7."""
        first = self.group()
        self.delete(f'volume_groups/{first["id"]}')
        self.assertEqual(first['id'] + 1, self.group()['id'])

    def test_single_object_is_bare_unless_switched(self):
        """OBJ-2, section 14."""
        bare = self.get('volumes/1')
        self.assertEqual('CTRL', bare['name'])
        self.control.set_behaviors(single_envelope=True)
        self.assertEqual([bare], self.get('volumes/1')['hits'])

    def test_created_status_can_be_200(self):
        """OBJ-4 is an assumption, so it can be switched."""
        self.control.set_behaviors(create_status=200)
        self.expect(200, 'POST', 'host_groups', {'name': 'hg'})
