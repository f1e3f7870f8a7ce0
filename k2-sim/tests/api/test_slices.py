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

"""Other requests are served during a long read, which is right nevertheless.

A search of more than two rows counts as long here, and each row is a slice
of its own.
"""

import threading
from unittest import mock

import ddt
import requests

import k2_sim
from k2_sim.adapters import asgi
from k2_sim.api import search
from k2_sim.api import slices
from tests import base
from tests import contexts

_NAMES = ('a1', 'a2', 'b1', 'a3', 'b2')
_WAIT_SECONDS = 30


class SlicesTest(base.ArrayTest):
    """Hosts, and a way to change something at each pause of a read."""

    def setUp(self):
        super().setUp()
        for name, value in (('SHORT', 2), ('_ROWS_PER_STEP', 1),
                            ('SECONDS', 0)):
            contexts.enter(self, mock.patch.object(slices, name, value))
        self.hosts = {name: self.post('hosts', {'name': name, 'type': 'Linux'})
                      for name in _NAMES}
        self.pauses = []

    def path(self, name):
        return f'hosts/{self.hosts[name]["id"]}'

    def read(self, path, query=''):
        """The reply to a read, as a server asks for it."""
        path = f'/api/v2/{path}'
        with self.array.exchange(
                'GET', path, query, base.authorization(),
                may_pause=self.array.is_long('GET', path, query)) as exchange:
            response = exchange.settled().response
        self.assertEqual(200, response.status, response.body)
        return response.json()

    def names(self, query):
        return [hit['name'] for hit in self.read('hosts', query)['hits']]

    def during(self, query, *changes):
        """The names that a read finds, and one change in each pause.

        It is made by another thread, which needs the lock of the array.
        """
        left = list(changes)

        def pause(seconds):
            self.pauses.append(seconds)
            if left:
                other = threading.Thread(target=left.pop(0))
                other.start()
                other.join(_WAIT_SECONDS)
                self.assertFalse(other.is_alive())

        with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                               side_effect=pause):
            names = self.names(query)
        self.assertFalse(left, 'too few pauses')
        return names


@ddt.ddt
class TestSearch(SlicesTest):

    def test_pauses(self):
        self.assertEqual(['a1', 'a2', 'a3'], self.during('name__prefix=a'))
        # Five rows to test, and three to show.
        self.assertEqual([0] * 8, self.pauses)

    @ddt.data('name=a1', 'id__in=1,2', 'name__in=a1,b1', 'missing__gt=1',
              '__limit=2', '__sort=id&__sort_order=desc&__limit=1')
    def test_none_where_little_is_read(self, query):
        self.during(query)
        self.assertEqual([], self.pauses)
        self.assertFalse(self.array.is_long('GET', '/api/v2/hosts', query))

    @ddt.data('name__prefix=a', '__sort=name', '', '__limit=3',
              'name__in=a1,a2,b1&type__neq=x',
              'id=7&name=' + 'x' * slices.SHORT_QUERY)
    def test_long(self, query):
        self.assertTrue(self.array.is_long('GET', '/api/v2/hosts', query))
        self.assertTrue(self.array.is_long('get', '/api/v2/%68osts/', query))
        for method, path in (('POST', '/api/v2/hosts'),
                             ('GET', '/api/v2/hosts/1'),
                             ('GET', '/sim/v1/hosts'),
                             ('GET', '/api/v2/host_groups'),
                             ('GET', '/api/v2/stats/system')):
            self.assertFalse(self.array.is_long(method, path, query))

    def test_refused(self):
        """A query that will be refused is not worth a thread."""
        for query in ('__limit=x', '__sort=missing'):
            self.array.is_long('GET', '/api/v2/hosts', query)
            self.expect(400, 'GET', f'hosts?{query}')

    def test_without_pauses(self):
        """Whoever uses an array without a server may hold its lock."""
        with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                               side_effect=AssertionError), self.array.lock:
            self.assertEqual(3, self.get('hosts?name__prefix=a')['total'])

    def test_deleted_meanwhile(self):
        """After it was found, and before the search gets to it."""
        self.assertEqual(['a2'], self.during(
            'name__prefix=a', lambda: None,
            lambda: self.delete(self.path('a1')),
            lambda: self.delete(self.path('a3'))))

    def test_deleted_with_what_it_refers_to(self):
        """A computed value cannot be told any more."""
        groups = [self.group(name=f'g{number}') for number in range(3)]
        volumes = [self.volume(group, name=f'v{group["id"]}')
                   for group in groups]

        def delete(seconds):
            if self.call('GET', f'volumes/{volumes[2]["id"]}').status == 200:
                self.delete(f'volumes/{volumes[2]["id"]}')
                self.delete(f'volume_groups/{groups[2]["id"]}')

        for query in ('name__prefix=v&is_dedup__neq=x', '__sort=is_dedup'):
            with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                                   side_effect=delete):
                hits = self.read('volumes', query)['hits']
            self.assertLessEqual(
                {volume['name'] for volume in volumes[:2]},
                {hit['name'] for hit in hits})
            self.assertNotIn(volumes[2]['name'],
                             [hit['name'] for hit in hits])
            volumes[2] = self.volume(self.group(name='g2'), name='v2')
            groups[2] = self.hits('volume_groups?name=g2')[0]

    def test_nothing_is_passed_over(self):
        """Where another object is deleted, and those after it move up."""
        for query, name in (('name__neq=x', 'a1'), ('__sort=name', 'a2')):
            with self.subTest(query):
                deleted = self.path(name)
                del self.hosts[name]
                self.assertEqual({*self.hosts}, {*self.during(
                    query, lambda: None,
                    lambda path=deleted: self.delete(path))})

    def test_changed_meanwhile(self):
        """The reply shows what was when the read began."""
        for query in ('name__prefix=a', 'name__prefix=a&__fields=name'):
            names = self.during(
                query, lambda: self.patch(self.path('a1'), {'name': 'ba'}),
                lambda: self.patch(self.path('b1'), {'name': 'ab'}))
            self.assertEqual(['a1', 'a2', 'a3'], names)
            self.patch(self.path('a1'), {'name': 'a1'})
            self.patch(self.path('b1'), {'name': 'b1'})

    def test_changed_before_it_is_shown(self):
        for query in ('__limit=9', '__sort=name'):
            self.assertEqual({*_NAMES}, {*self.during(
                query, *[lambda: None] * 3,
                lambda: self.patch(self.path('b2'), {'name': 'c'}))})
            self.assertEqual('c', self.get(self.path('b2'))['name'])
            self.patch(self.path('b2'), {'name': 'b2'})

    def test_created_meanwhile(self):
        self.assertEqual(['a1', 'a2', 'a3'], self.during(
            'name__prefix=a', lambda: None, lambda: self.post(
                'hosts', {'name': 'a4', 'type': 'Linux'})))

    def test_another_one_under_its_id(self):
        """OBJ-7: it is not shown instead."""
        self.control.set_behaviors(reuse_ids=True)
        # So that no lower id is free.
        for number in range(1, self.hosts['a1']['id']):
            self.post('hosts', {'name': f'x{number}', 'type': 'Linux'})

        def replace():
            self.delete(self.path('a3'))
            made = self.post('hosts', {'name': 'other', 'type': 'Linux'})
            self.assertEqual(self.hosts['a3']['id'], made['id'])
        self.assertEqual(['a1', 'a2', 'a3'], self.during(
            'name__prefix=a', replace))

    def test_others_do_not_matter(self):
        """A change of another resource, and one that is taken back."""
        self.assertEqual(['a1', 'a2', 'a3'], self.during(
            'name__prefix=a', lambda: self.group(name='a9'),
            lambda: self.refused(
                'PATCH', self.path('a1'), {'name': 'a2'})))

    def test_deleted_before_it_is_shown(self):
        """It was counted when the read began."""
        for name in ('a2', 'b1'):
            with self.subTest(name):
                deleted = self.path(name)
                names = self.during('__limit=9', lambda: None)
                self.assertIn(name, names)
                names = self.during(
                    '__limit=9', lambda path=deleted: self.delete(path))
                self.assertNotIn(name, names)

    def test_deleted_but_listed(self):
        """QRY-10, beside the others."""
        self.control.set_behaviors(linger_all=True, linger_reads=5)
        self.expect(204, 'DELETE', self.path('a2'))
        self.assertEqual(['a1', 'a2', 'a3'], self.during('name__prefix=a'))
        self.assertTrue(self.pauses)

    def test_array_that_is_stopped(self):
        """Its reads end."""
        with mock.patch.object(
                k2_sim.array.time, 'sleep', autospec=True,
                side_effect=lambda seconds: self.array.close()), \
                self.assertRaisesRegex(AssertionError, 'has been stopped'):
            self.names('name__prefix=a')

    def test_one_at_a_time(self):
        """Long reads together leave half of the time to others."""
        running = []

        def pause(seconds):
            self.assertTrue(self.array._long_reads.locked())
            running.append(seconds)

        with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                               side_effect=pause):
            others = [threading.Thread(
                target=self.names, args=('name__prefix=a',))
                for _ in range(3)]
            for other in others:
                other.start()
            for other in others:
                other.join(_WAIT_SECONDS)
        self.assertEqual(3 * 8, len(running))

    def test_failure(self):
        with mock.patch.object(
                search.Source, 'value', autospec=True,
                side_effect=ZeroDivisionError), \
                self.assertRaisesRegex(AssertionError, 'Internal error'):
            self.names('name__prefix=a')
        self.assertEqual(['a1', 'a2', 'a3'], self.names('name__prefix=a'))


class TestSort(SlicesTest):

    def test_sorted(self):
        for query, names in (
                ('', ['a1', 'a2', 'a3', 'b1', 'b2']),
                ('&__sort_order=desc', ['b2', 'b1', 'a3', 'a2', 'a1']),
                ('&__offset=1&__limit=2', ['a2', 'a3'])):
            self.assertEqual(names, self.during(f'__sort=name{query}'))
        self.assertTrue(self.pauses)

    def test_equal_ones_stay_in_order(self):
        for order in ('asc', 'desc'):
            self.assertEqual(list(_NAMES), self.during(
                f'__sort=type&__sort_order={order}'))

    def test_deleted_meanwhile(self):
        self.assertEqual(['a1', 'a3', 'b1', 'b2'], self.during(
            '__sort=name', lambda: self.delete(self.path('a2'))))


class TestPage(SlicesTest):

    def test_largest(self):
        """The reply says how many objects its pages have (section 2.5)."""
        self.control.set_behaviors(page_size=1000)
        for query in ('__limit=9999', ''):
            with mock.patch.object(search, 'LARGEST_PAGE', 4):
                reply = self.read('hosts', query)
            self.assertEqual((4, 4, 5), (
                reply['limit'], len(reply['hits']), reply['total']))

    def test_largest_that_clients_ask_for(self):
        """A known client sends 9999 (section 2.5)."""
        self.assertEqual(9999, self.get('hosts?__limit=9999')['limit'])

    def test_everything(self):
        """What is deleted meanwhile is left out, and no other."""
        before = self.get('__full')
        self.assertTrue(self.array.is_long('GET', '/api/v2/__full', ''))

        def delete(seconds):
            with self.array.lock:
                if self.call('GET', self.path('a2')).status == 200:
                    self.delete(self.path('a2'))

        with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                               side_effect=delete):
            after = self.read('__full')
        before['hosts'] = [host for host in before['hosts']
                           if host['name'] != 'a2']
        del before['events'], after['events']
        self.assertEqual(before['hosts'], after['hosts'])
        self.assertEqual(before.keys(), after.keys())


class TestServed(base.ServedTest):

    def setUp(self):
        super().setUp()
        contexts.enter(self, mock.patch.object(slices, 'SHORT', 2))
        self.session = requests.Session()
        self.addCleanup(self.session.close)
        self.session.trust_env = False
        self.session.verify = self.authority
        self.session.auth = ('admin', 'admin')
        for name in _NAMES:
            reply = self.session.post(
                f'{self.url}/api/v2/hosts', timeout=60,
                json={'name': name, 'type': 'Linux'})
            self.assertEqual(201, reply.status_code)

    def get(self, path):
        return self.session.get(f'{self.url}/api/v2/{path}', timeout=60)

    def test_other_thread(self):
        """The event loop serves others during a long read."""
        threads = []

        def pause(seconds):
            threads.append(threading.current_thread().name)

        with mock.patch.object(slices, 'SECONDS', 0), \
                mock.patch.object(slices, '_ROWS_PER_STEP', 1), \
                mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                                  side_effect=pause):
            reply = self.get('hosts?name__contains=a')
        self.assertEqual(3, reply.json()['total'])
        self.assertEqual(8, len(threads))
        self.assertTrue(all(name.startswith('long-read')
                            for name in threads), threads)

    def test_stranger(self):
        """Refused by the event loop, not behind the long reads of others."""
        with mock.patch.object(
                asgi.futures.ThreadPoolExecutor, 'submit', autospec=True,
                side_effect=AssertionError):
            reply = requests.get(
                f'{self.url}/api/v2/hosts?name__contains=a', timeout=60,
                verify=self.authority, auth=('admin', 'wrong'))
        self.assertEqual(401, reply.status_code)

    def test_query_that_the_array_changes(self):
        """It is as long as the one that was asked for: no pause."""
        self.control.set_behaviors(refuse_only=['GET * __limit'],
                                   refuse_unlisted='ignored')
        with mock.patch.object(k2_sim.array.time, 'sleep', autospec=True,
                               side_effect=AssertionError):
            reply = self.get('hosts?__limit=1')
        self.assertEqual(200, reply.status_code)

    def test_large_body(self):
        """It is sent in pieces, and arrives whole."""
        whole = self.get('hosts')
        for size in (1, 7, len(whole.content) - 1, len(whole.content),
                     len(whole.content) + 1):
            with mock.patch.object(asgi, '_PIECE', size):
                self.assertEqual(whole.content, self.get('hosts').content)
