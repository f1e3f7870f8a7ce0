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


"""Cached replies are never shown after the object has changed."""

import k2_sim
from tests import base


class TestRenderings(base.ArrayTest):
    """Each object is read first, so that its reply is cached."""

    def setUp(self):
        super().setUp()
        self.made = self.group()
        self.ref = f'volume_groups/{self.made["id"]}'

    def seen(self, path, name):
        """The field of an object, read alone and in a search."""
        resource, _, number = path.rpartition('/')
        value = self.get(path)[name]
        self.assertEqual([value], [
            hit[name] for hit in self.hits(f'{resource}?id={number}')])
        return value

    def test_own_fields(self):
        self.assertEqual('vg-a', self.seen(self.ref, 'name'))
        self.patch(self.ref, {'name': 'vg-b'})
        self.assertEqual('vg-b', self.seen(self.ref, 'name'))
        self.assertEqual(0, self.get('volume_groups?name=vg-a')['total'])

    def test_what_refers_to_it(self):
        self.assertEqual(0, self.seen(self.ref, 'volumes_count'))
        volume = self.volume(self.made)
        self.assertEqual(1, self.seen(self.ref, 'volumes_count'))
        self.delete(f'volumes/{volume["id"]}')
        self.assertEqual(0, self.seen(self.ref, 'volumes_count'))

    def test_what_it_refers_to(self):
        self.control.set_behaviors(dedup_patch=True)
        volume = self.volume(self.made)
        path = f'volumes/{volume["id"]}'
        is_dedup = self.seen(path, 'is_dedup')
        self.patch(self.ref, {'is_dedup': not is_dedup})
        self.assertEqual(not is_dedup, self.seen(path, 'is_dedup'))

    def test_time(self):
        before = self.seen('system/state/1', 'system_time')
        self.clock.advance(60)
        self.assertEqual(
            before + 60, self.seen('system/state/1', 'system_time'))

    def test_behaviors(self):
        self.assertIn('replication_session', self.get(self.ref))
        self.control.set_behaviors(plural_session_field=True)
        reply = self.get(self.ref)
        self.assertIn('replication_sessions', reply)
        self.assertNotIn('replication_session', reply)
        self.assertEqual([reply], self.hits('volume_groups'))


class TestUsers(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.array = k2_sim.Array(
            self.profile, clock=self.clock, users=[
                k2_sim.User('reader', 'secret', 'read-only')])
        self.addCleanup(self.array.close)

    def state(self, status, login, password):
        return self.expect(status, 'GET', 'system/state/1',
                           **base.authorization(login, password))

    def test_roles(self):
        """Each request sees its own caller, not the previous one."""
        for _ in range(2):
            for login, password, role in (
                    ('admin', 'admin', 'admin'),
                    ('reader', 'secret', 'read-only')):
                reply = self.state(200, login, password)
                self.assertEqual(role, reply['current_user_role'])

    def test_wrong_after_right(self):
        self.state(200, 'reader', 'secret')
        for login, password in (('reader', 'Secret'), ('reader', 'admin'),
                                ('Reader', 'secret'), ('reader', '')):
            self.state(401, login, password)
        self.state(200, 'reader', 'secret')
