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

"""Fields of unexpected types, as callers of the client see them."""

import concurrent.futures

import ddt
import fixtures
from oslotest import base

from cinder_k2 import once
from cinder_k2 import rest
from cinder_k2.rest import overlooked
from tests.unit.rest import scripted

GROUP = {'ref': '/volume_groups/3'}


@ddt.ddt
class OverlookedTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            format='%(levelname)s %(message)s'))
        overlooked.TOLD.clear()
        self.addCleanup(overlooked.TOLD.clear)

    def client(self, *script, **settings):
        """A client that gets these replies."""
        return scripted.client(*script, **settings)[0]

    def volume(self, **fields):
        """A reply with one volume."""
        return scripted.hits({'id': 1, 'name': 'v', 'volume_group': GROUP,
                              **fields})

    def lines(self):
        """Lines of the log."""
        return self.log.output.splitlines()

    def test_one_warning_per_field_and_array(self):
        client = self.client(*[self.volume(size='big', is_dedup=[])] * 3)
        for _ in range(3):
            self.assertIsNone(client.volumes.search()[0].size)
        self.assertEqual(2, len(self.lines()))
        self.assertIn("WARNING The array at 10.0.0.1 sends field size of "
                      "volumes as 'big'", self.lines()[0])
        other = self.client(self.volume(size='big'), address='10.0.0.2')
        other.volumes.search()
        self.assertIn('10.0.0.2', self.lines()[2])

    def test_null_field_is_not_logged(self):
        client = self.client(self.volume(size=None))
        client.volumes.search()
        self.assertEqual([], self.lines())

    def test_long_value_is_truncated(self):
        self.client(self.volume(size='x' * 9999)).volumes.search()
        self.assertLess(len(self.lines()[0]), 250)

    def test_possible_secrets_are_not_logged(self):
        client = self.client(scripted.hits(
            {'id': 1, 'name': {'password': 'hunter2'}, 'hosts_count': 'pw'}))
        client.host_auth_profiles.search()
        self.assertEqual(2, len(self.lines()))
        self.assertNotIn('hunter2', self.log.output)
        self.assertNotIn('pw', self.log.output)

    @ddt.data({'name': 5}, {'name': None}, {'name': ''})
    def test_unreadable_name_does_not_mean_missing_volume(self, odd):
        client = self.client(self.volume(**odd))
        self.assertRaises(rest.BadReply, client.volumes.find, name='v')

    def test_unreadable_name_of_another_record(self):
        """An array may ignore a condition and send all its objects."""
        client = self.client(scripted.hits(
            {'id': 1, 'name': 5}, {'id': 2, 'name': 'v'}))
        self.assertEqual(2, client.volumes.find(name='v').id)

    @ddt.data({'volume': 5}, {})
    def test_mapping_of_unknown_volume_fails_the_search(self, odd):
        host = {'ref': '/hosts/1'}
        client = self.client(scripted.hits(
            {'id': 1, 'host': host, 'volume': {'ref': '/volumes/2'}},
            {'id': 2, 'host': host, **odd}))
        self.assertRaises(
            rest.BadReply, client.mappings.search, rest.query.one_of(
                'volume', [rest.Ref('volumes', 2), rest.Ref('volumes', 3)]))

    def test_object_without_id_fails_the_search(self):
        client = self.client(scripted.hits({'id': 1, 'name': 'v'},
                                           {'id': 'x', 'name': 'w'}))
        self.assertRaises(rest.BadReply, client.volumes.search)

    def test_unreadable_fields_of_a_new_object(self):
        client = self.client(scripted.Reply(
            201, {'id': 9, 'name': 'g', 'is_dedup': 0, 'quota': 'none'}))
        group = client.volume_groups.create(name='g')
        self.assertEqual((9, False, None),
                         (group.id, group.is_dedup, group.quota))


class OnceTest(base.BaseTestCase):

    def test_one_of_many_threads_is_the_first(self):
        seen = once.Once()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            firsts = list(pool.map(seen.is_first, ['a', 'b'] * 200))
        self.assertEqual(2, sum(firsts))

    def test_number_of_entries_is_bounded(self):
        seen = once.Once(entries=2)
        self.assertEqual([True, True, False, True, False, True], [
            seen.is_first(key) for key in ('a', 'b', 'a', 'c', 'a', 'b')])
