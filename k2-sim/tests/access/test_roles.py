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
"""Roles: permissions, and the 403 of section 3."""

import json

import ddt

import k2_sim
from k2_sim.access import roles
from k2_sim.state import catalogue
from tests import base

ROLES = ('root', 'admin', 'mgmt-app', 'read-only')
WRITES = ('POST', 'PATCH', 'DELETE')


class RoleTest(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array(clock=self.clock, users=[
            k2_sim.User(role, 'secret', role) for role in ROLES
            if role != 'admin'])
        self.addCleanup(self.array.close)
        self.control = self.array.control

    def as_role(self, role, method, path, body=None):
        """Status and error text of a request of the user of a role."""
        login = ('admin', 'admin') if role == 'admin' else (role, 'secret')
        reply = self.array.handle(
            method, f'/api/v2/{path}', headers={
                **base.authorization(*login), 'Content-Type': base.JSON},
            body=b'' if body is None else json.dumps(body).encode())
        text = '' if reply.status < 400 else reply.json()['error_msg']
        return reply.status, text


@ddt.ddt
class TestRoles(RoleTest):

    @ddt.data(*ROLES)
    def test_everybody_reads_everything(self, role):
        """Section 3: no 403 to GET; system/state shows the user's own role."""
        for path in ('', '__full', 'volumes/1', *catalogue.RESOURCES):
            self.assertEqual((200, ''), self.as_role(role, 'GET', path))
        reply = self.array.handle(
            'GET', '/api/v2/system/state/1', headers=base.authorization(
                *(('admin', 'admin') if role == 'admin'
                  else (role, 'secret'))))
        self.assertEqual(role, reply.json()['current_user_role'])

    @ddt.data('root', 'admin')
    def test_nothing_is_forbidden(self, role):
        for name in catalogue.RESOURCES:
            for method in WRITES:
                for path in (name, f'{name}/99', f'{name}/__bulk'):
                    status, _ = self.as_role(role, method, path, {})
                    self.assertNotEqual(403, status, path)

    def test_who_only_reads(self):
        """Section 3: 403 in the envelope of errors, nothing changed."""
        group = self.group()
        before = self.control.dump()
        for name in catalogue.RESOURCES:
            for method in WRITES:
                for path in (name, f'{name}/1', f'{name}/__bulk'):
                    self.assertEqual(
                        (403, f'The role read-only does not allow {method}'
                         ' here'),
                        self.as_role('read-only', method, path, {}))
        self.assertEqual(
            403, self.as_role('read-only', 'DELETE',
                              f'volume_groups/{group["id"]}')[0])
        self.assertEqual(before, self.control.dump())

    @ddt.data(('POST', 'replication/peer_k2arrays'),
              ('PATCH', 'replication/peer_k2arrays/1'),
              ('DELETE', 'replication/peer_k2arrays/1'),
              ('PATCH', 'system/state/1'), ('POST', 'system/net_ips'),
              ('POST', 'retention_policies'), ('PATCH', 'snapshots/1'),
              ('PATCH', 'mappings/1'), ('POST', 'host_groups'),
              ('POST', 'host_groups/__bulk'), ('POST', ''))
    @ddt.unpack
    def test_what_a_driver_does_not_need(self, method, path):
        self.assertEqual(403, self.as_role(
            'mgmt-app', method, path, {})[0])

    def test_a_drivers_day(self):
        """One volume from creation to deletion, in the role mgmt-app."""
        def done(method, path, body=None):
            self.assertEqual('', self.as_role(
                'mgmt-app', method, path, body)[1])

        done('POST', 'volume_groups', {'name': 'vg', 'quota': 0})
        done('POST', 'volumes', {'name': 'vol', 'size': base.GIB,
                                 'volume_group': base.ref(
                                     'volume_groups', 14)})
        done('PATCH', 'volumes/31', {'size': 2 * base.GIB})
        done('POST', 'hosts/__bulk', [{'name': 'h', 'type': 'Linux'}])
        done('POST', 'mappings', {'host': base.ref('hosts', 7),
                                  'volume': base.ref('volumes', 31)})
        for path in ('mappings/61', 'hosts/7', 'volumes/31',
                     'volume_groups/14'):
            done('DELETE', path)

    def test_an_unknown_resource_stays_unknown(self):
        """Section 3: 404 to users with all permissions."""
        self.assertEqual(404, self.as_role('admin', 'POST', 'nothing')[0])
        self.assertEqual(405, self.as_role('read-only', 'PUT', 'volumes')[0])

    def test_unknown_role(self):
        error = self.assertRaises(ValueError, k2_sim.User, 'x', 'y', 'z')
        self.assertEqual(f'role must be one of {", ".join(roles.NAMES)},'
                         " not 'z'", str(error))

    def test_peers_are_no_readers(self):
        """Messages between arrays need a role that may replicate."""
        for role, status in (('read-only', 403), ('mgmt-app', 400)):
            reply = self.array.handle(
                'POST', '/sim/v1/peer', headers={
                    **base.authorization(role, 'secret'),
                    'Content-Type': base.JSON}, body=b'{}')
            self.assertEqual(status, reply.status, reply.body)


@ddt.ddt
class TestPeerRoles(RoleTest):
    """Requests between arrays give no more permissions than the role."""

    def ask(self, role, kind, **fields):
        """The reply and the refusal, one of them empty."""
        sender = {'system_id': 'beef', 'name': 'other',
                  'address': '192.0.2.9'}
        reply = self.array.handle(
            'POST', '/sim/v1/peer', headers={
                **base.authorization(role, 'secret'),
                'Content-Type': base.JSON},
            body=json.dumps({'type': 'ask', 'sender': sender,
                             'questions': [[kind, fields]]}).encode())
        self.assertEqual(200, reply.status, reply.body)
        return reply.json()['answers'][0]

    def test_only_who_makes_peers_is_introduced(self):
        """REP-21: the record is a peer like any other."""
        login = {'login': 'repl', 'password': 'secret'}
        self.assertEqual(
            [{}, 'The role mgmt-app does not allow POST here'],
            self.ask('mgmt-app', 'introduce', **login))
        self.assertEqual([], self.hits('replication/peer_k2arrays'))
        self.assertEqual('', self.ask('root', 'introduce', **login)[1])
        self.assertEqual(['other'], [
            peer['name'] for peer in self.hits('replication/peer_k2arrays')])

    @ddt.data('volume_groups', 'volumes')
    def test_peers_rename_only_what_they_share(self, resource):
        self.ask('root', 'introduce', login='repl', password='secret')
        group = self.group()
        number = {'volume_groups': group,
                  'volumes': self.volume(group)}[resource]['id']
        before = self.control.dump()
        self.assertEqual(
            [{}, 'The peer has no such object'],
            self.ask('mgmt-app', 'rename', resource=resource,
                     asker=1, number=number, name='stolen'))
        self.assertEqual(before, self.control.dump())

    @ddt.data('introduce', 'create', 'add_volume', 'rename', 'follow',
              'reverse', 'cancel')
    def test_requests_without_fields(self, kind):
        self.ask('root', 'introduce', login='repl', password='secret')
        self.assertEqual([{}, f'Invalid request of a peer: {kind}'],
                         self.ask('root', kind))


class TestControlUser(base.ArrayTest):
    """The control API has its own account, if one is configured."""

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array(
            users=[k2_sim.User('more', 'secret')],
            control_user=k2_sim.User('control', 'other'))
        self.addCleanup(self.array.close)

    def status(self, path, login, password):
        return self.array.handle(
            'GET', path,
            headers=base.authorization(login, password)).status

    def test_each_has_its_own(self):
        for path, login, password, status in (
                ('/sim/v1', 'control', 'other', 200),
                ('/sim/v1/behaviors', 'control', 'other', 200),
                ('/sim/v1', 'control', 'admin', 401),
                ('/sim/v1', 'admin', 'admin', 401),
                ('/sim/v1', 'more', 'secret', 401),
                ('/api/v2', 'more', 'secret', 200),
                ('/api/v2', 'admin', 'admin', 200),
                ('/api/v2', 'control', 'other', 401)):
            self.assertEqual(status, self.status(path, login, password))
        self.assertEqual(405, self.status('/sim/v1/peer', 'admin', 'admin'))
