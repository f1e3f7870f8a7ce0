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

import unittest
from urllib import parse

import ddt
import requests

from cinder_k2 import rest
from cinder_k2.rest import errors
from cinder_k2.rest import query
from tests.unit.rest import scripted

HOST = rest.Ref('hosts', 7)
GROUP = rest.Ref('volume_groups', 14)
NO = scripted.refusal('unknown condition')


def ref(resource, id):
    return {'ref': f'/{resource}/{id}'}


class Array:
    """An array with these objects that answers searches and reads.

    :param refused: query keys that it answers with ``refusal``
    :param silent: unknown query keys that it answers with no hits
    :param ignored: query keys that it ignores
    :param reads: whether objects can be read by id; None: reads are refused
    :ivar more: number of objects that lists count, but do not show
    :ivar deletes: the read by id before which the object is deleted
    """

    def __init__(self, objects, refused=(), refusal=NO, silent=(),
                 ignored=(), reads=False):
        self.objects = objects
        self.refused, self.refusal = refused, refusal
        self.silent, self.ignored, self.reads = silent, ignored, reads
        self.asked = []
        self.tells_total = True
        self.more = 0
        self.deletes = ''

    def __call__(self, request):
        url = parse.urlsplit(request.url)
        resource, _, number = url.path[8:].rpartition('/')
        if not number.isdigit():
            resource, number = url.path[8:], ''
        if resource.startswith('system'):
            self.asked.append('state')
            return scripted.Reply(200, {})
        pairs = dict(parse.parse_qsl(url.query))
        self.asked.append(f'#{number}' if number else pairs)
        if self.asked[-1] == self.deletes:
            self.objects = [each for each in self.objects
                            if each['id'] != int(number)]
        return (self._read(resource, int(number)) if number
                else self._search(resource, pairs))

    def _read(self, resource, id):
        if self.reads is None:
            return NO
        for each in self.objects if self.reads else ():
            if each['id'] == id:
                return scripted.Reply(200, each)
        return scripted.refusal('not found', 404)

    def _search(self, resource, pairs):
        if any(key in self.refused for key in pairs):
            return self.refusal
        if any(key in self.silent for key in pairs):
            return scripted.hits()
        hits = [each for each in self.objects if all(
            self._meets(each, key, value) for key, value in pairs.items()
            if key not in self.ignored)]
        total = len(hits) + self.more
        return (scripted.hits(*hits, total=total) if self.tells_total
                else scripted.Reply(200, {'hits': hits}))

    @staticmethod
    def _meets(each, key, wanted):
        field = key.split('.')[0].split('__')[0]
        value = each.get(field)
        if isinstance(value, dict):
            value = value['ref']
        if key.endswith('__prefix'):
            return value.startswith(wanted)
        many = key.endswith(('__in', '__m_eq'))
        return str(value) in (wanted.split(',') if many else [wanted])


class Case(unittest.TestCase):

    def make(self, objects, works=(), settings=None, **switches):
        self.array = Array(objects, **switches)
        self.client, _, self.clock = scripted.client(
            *[self.array] * 99, works=works, **settings or {})
        return self.client

    def asked(self):
        """The requests since the last call."""
        asked, self.array.asked = self.array.asked, []
        return asked

    def state(self, name):
        return self.client.capabilities.verdict(name).state

    @staticmethod
    def ids(found):
        return [each.id for each in found]


VOLUMES = [{'id': id, 'name': f'v{id}', 'description': 'nd'[id % 2],
            'volume_group': ref('volume_groups', 14 if id < 3 else 15)}
           for id in (1, 2, 3)]
SNAPSHOTS = [{'id': id, 'short_name': f's{id}', 'is_exposable': id == 3,
              'volume_group': ref('volume_groups', 14),
              'source': ref('volume_groups', 14) if id < 3
              else ref('snapshots', 1)} for id in (1, 2, 3)]
IQNS = [{'id': id, 'iqn': f'iqn.{id}', 'host': ref('hosts', 7)}
        for id in (1, 2)]
MAPPINGS = [{'id': id, 'host': ref('hosts', 7),
             'volume': ref('volumes', id)} for id in (1, 2)]


@ddt.ddt
class KnownFormsTest(Case):
    """Section 16: queries as the in-tree driver sends them."""

    def test_by_name(self):
        self.make(VOLUMES)
        self.assertEqual(2, self.client.volumes.find(name='v2').id)
        self.assertEqual([{'name': 'v2'}], self.asked())

    def test_other_conditions_are_checked_by_the_client(self):
        self.make(VOLUMES)
        find = self.client.volumes.find
        self.assertEqual(2, find(name='v2', volume_group=GROUP).id)
        self.assertIsNone(find(name='v3', volume_group=GROUP))
        self.assertIsNone(find(name='v2', description='x'))
        self.assertEqual([{'name': 'v2'}, {'name': 'v3'}, {'name': 'v2'}],
                         self.asked())

    def test_form_with_most_conditions(self):
        self.make(MAPPINGS)
        volume = rest.Ref('volumes', 2)
        self.assertEqual(2, self.client.mappings.find(
            host=HOST, volume=volume).id)
        self.assertEqual([{'host.ref': '/hosts/7', 'volume.ref':
                           '/volumes/2'}], self.asked())

    def test_single_value_in_a_list_form(self):
        self.make(SNAPSHOTS)
        self.assertEqual([1, 2, 3], self.ids(
            self.client.snapshots.search(volume_group=GROUP)))
        self.assertEqual([{'volume_group.ref__m_eq': '/volume_groups/14'}],
                         self.asked())

    def test_views_of_a_snapshot_by_its_group(self):
        """There is no known form for a search by source."""
        self.make(SNAPSHOTS)
        self.assertEqual([3], self.ids(self.client.snapshots.search(
            volume_group=GROUP, source=rest.Ref('snapshots', 1))))
        self.assertEqual([{'volume_group.ref__m_eq': '/volume_groups/14'}],
                         self.asked())

    def test_known_list_form(self):
        self.make(MAPPINGS)
        wanted = query.one_of('volume', [rest.Ref('volumes', id)
                                         for id in (1, 2, 9)])
        self.assertEqual([1, 2], self.ids(
            self.client.mappings.search(wanted)))
        self.assertEqual(
            [{'volume.ref__m_eq': '/volumes/1,/volumes/2,/volumes/9'}],
            self.asked())

    @ddt.data(400, 404, 405)
    def test_refused_list_form_is_replaced_by_single_values(self, status):
        self.make(MAPPINGS, refused=['volume.ref__m_eq'],
                  refusal=scripted.refusal('no list', status))
        wanted = query.one_of('volume', [rest.Ref('volumes', id)
                                         for id in (1, 2)])
        self.assertEqual([1, 2], self.ids(
            self.client.mappings.search(wanted)))
        self.assertEqual([{'volume.ref': '/volumes/1'},
                          {'volume.ref': '/volumes/2'}], self.asked()[1:])

    def test_ignored_condition(self):
        """QRY-5."""
        self.make(VOLUMES, ignored=['name'])
        self.assertEqual(3, self.client.volumes.find(name='v3').id)
        self.assertIsNone(self.client.volumes.find(name='v4'))

    def test_known_form_may_find_nothing(self):
        self.make([])
        self.assertIsNone(self.client.volumes.find(name='v3'))
        self.assertEqual([], self.client.volumes.search())


@ddt.ddt
class ListsTest(Case):
    """Searches for several values at once."""

    NAME = 'value-lists:volumes:name__in'
    WANTED = query.one_of('name', ['v1', 'v3', 'v9'])
    SINGLES = [{'name': 'v1'}, {'name': 'v3'}, {'name': 'v9'}]
    LIST = {'name__in': 'v1,v3,v9'}

    def search(self):
        return self.ids(self.client.volumes.search(self.WANTED))

    def test_list_is_tried_with_a_value_that_was_found(self):
        self.make(VOLUMES)
        self.assertEqual([1, 3], self.search())
        self.assertEqual([self.SINGLES[0], {'name__in': 'v3,v1,v9'}],
                         self.asked())
        self.assertEqual('works', self.state(self.NAME))
        self.assertEqual([1, 3], self.search())
        self.assertEqual([self.LIST], self.asked())

    def test_list_is_tried_with_the_first_value_found(self):
        """Then all remaining values are sent in one list."""
        self.make(VOLUMES)
        names = ['x1', 'v2', 'x3', 'v3', *[f'y{n}' for n in range(500)]]
        self.assertEqual([2, 3], self.ids(self.client.volumes.search(
            query.one_of('name', names))))
        asked = self.asked()
        self.assertEqual([{'name': 'x1'}, {'name': 'v2'},
                          {'name__in': 'x1,v2,x3'}], asked[:3])
        self.assertTrue(asked[3]['name__in'].startswith('x3,v3,y0,'))
        self.assertEqual(4, len(asked))

    @ddt.data(0, -1)
    def test_array_reads_only_one_value_of_a_list(self, place):
        """The first or the last."""
        self.make(VOLUMES)
        array = self.array

        def odd(request):
            _, found, values = request.url.partition('name__in=')
            if found:
                request.url = request.url.replace(
                    values, values.split(',')[place])
            return array(request)
        self.client._session.transport._http.get_adapter(
            'https://x').script[:] = [odd] * 99
        self.assertEqual([1, 3], self.search())
        self.assertEqual('refused', self.state(self.NAME))

    def test_list_is_tried_with_another_object(self):
        """If none of the values is found, any object will do."""
        self.make(SNAPSHOTS)
        wanted = [f'x{n}' for n in range(100)]
        self.assertEqual([], self.client.snapshots.search(
            query.one_of('short_name', wanted)))
        self.assertEqual(
            [*[{'short_name': f'x{n}'} for n in range(3)], {},
             {'short_name__in': 'x0,s1,x1'},
             {'short_name__in': ','.join(wanted[3:])}], self.asked())
        self.assertEqual([], self.client.snapshots.search(
            query.one_of('short_name', wanted)))
        self.assertEqual(1, len(self.asked()))

    def test_list_is_not_tried_with_a_deleted_object(self):
        """QRY-10: it may vanish before the list is sent."""
        first, *others = SNAPSHOTS
        self.make([first | {'is_deleted': True}, *others])
        self.client.snapshots.search(query.one_of(
            'short_name', [f'x{n}' for n in range(20)]))
        self.assertEqual({'short_name__in': 'x0,s2,x1'}, self.asked()[4])

    @ddt.data({'silent': ['short_name__in']}, {'refused': ['short_name__in']},
              {'ignored': ['short_name__in']})
    def test_list_fails_with_another_object(self, switches):
        self.make(SNAPSHOTS, **switches)
        wanted = [f'x{n}' for n in range(20)]
        self.assertEqual([], self.client.snapshots.search(
            query.one_of('short_name', wanted)))
        self.assertEqual([{'short_name': name} for name in wanted],
                         [each for each in self.asked()
                          if 'short_name' in each and each[
                              'short_name'] in wanted])
        self.assertEqual('refused', self.state(
            'value-lists:snapshots:short_name__in'))

    def test_no_object_to_try_a_list_with(self):
        """An empty unfiltered list may also mean an unknown path."""
        self.make([])
        wanted = [f'x{n}' for n in range(20)]
        self.assertEqual([], self.client.snapshots.search(
            query.one_of('short_name', wanted)))
        self.assertEqual(20 + 1, len(self.asked()))
        for name in ('value-lists:snapshots:short_name__in',
                     'lists:snapshots'):
            self.assertEqual('unknown', self.state(name))

    def test_no_paging_while_a_list_is_tried(self):
        """Further pages are not read during the trial."""
        self.make([{'id': n, 'name': f'v{n}', 'volume_group': ref(
            'volume_groups', n % 2)} for n in range(120)])
        self.array.tells_total = False
        self.assertEqual(120, len(self.client.volumes.search(query.one_of(
            'volume_group', [rest.Ref('volume_groups', n)
                             for n in range(2)]))))
        self.assertEqual('works', self.state(
            'value-lists:volumes:volume_group.ref__m_eq'))

    def test_short_list_is_not_tried_with_another_object(self):
        self.make(SNAPSHOTS)
        self.assertEqual([], self.client.snapshots.search(
            query.one_of('short_name', ['x1', 'x2', 'x3', 'x4'])))
        self.assertEqual(4, len(self.asked()))

    @ddt.data({'refused': ['name__in']}, {'silent': ['name__in']},
              {'ignored': ['name__in']},
              {'refused': ['name__in'],
               'refusal': scripted.refusal('', 500)})
    def test_refused_or_ignored(self, switches):
        self.make(VOLUMES, **switches)
        self.assertEqual([1, 3], self.search())
        self.assertEqual('refused', self.state(self.NAME))
        self.asked()
        self.assertEqual([1, 3], self.search())
        self.assertEqual(self.SINGLES, self.asked())

    def test_no_verdict_if_nothing_is_found(self):
        self.make([])
        self.assertEqual([], self.search())
        self.assertEqual(self.SINGLES, self.asked())
        self.assertEqual('unknown', self.state(self.NAME))

    def test_no_verdict_if_objects_vanish(self):
        """Zero hits may be correct, or mean an unknown condition."""
        self.make(list(VOLUMES))
        array = self.array

        def vanishing(request):
            if 'name__in' in request.url:
                array.objects.clear()
            return array(request)
        self.client._session.transport._http.get_adapter(
            'https://x').script[:] = [vanishing] * 99
        self.assertEqual([1], self.search())
        self.assertEqual('unknown', self.state(self.NAME))

    def test_each_list_form_is_tried_separately(self):
        self.make(VOLUMES, works=[self.NAME, 'searches:volumes:id'],
                  silent=['volume_group.ref__m_eq', 'id__in'])
        groups = query.one_of('volume_group', [
            GROUP, rest.Ref('volume_groups', 15)])
        self.assertEqual([1, 2, 3], self.ids(
            self.client.volumes.search(groups)))
        self.assertEqual([1, 2], self.ids(
            self.client.volumes.search(query.one_of('id', [1, 2]))))

    def test_working_form_is_dropped_after_three_refusals(self):
        self.make(VOLUMES, works=[self.NAME], refused=['name__in'])
        states = []
        for _ in range(3):
            self.assertEqual([1, 3], self.search())
            states.append(self.state(self.NAME))
        self.assertEqual(['works', 'works', 'refused'], states)

    @ddt.data(scripted.refusal('', 500), scripted.refusal('', 501),
              scripted.Reply(502), requests.ConnectionError('reset'))
    def test_working_form_is_dropped_after_three_failures(self, refusal):
        """Each time it fails twice while a known read works."""
        self.make(VOLUMES, works=[self.NAME], refused=['name__in'],
                  refusal=refusal)
        states = []
        for _ in range(4):
            self.asked()
            self.assertEqual([1, 3], self.search())
            states.append(self.state(self.NAME))
        self.assertEqual(['works', 'works', 'refused', 'refused'], states)
        self.assertEqual(self.SINGLES, self.asked())
        self.assertLess(sum(self.clock.sleeps), 3)

    def test_only_consecutive_refusals_count(self):
        self.make(VOLUMES, works=[self.NAME])
        for _ in range(4):
            self.array.refused = ['name__in']
            self.search()
            self.array.refused = []
            self.search()
        self.assertEqual('works', self.state(self.NAME))

    def test_long_lists_are_merged(self):
        names = [f'v{n}' for n in range(2000)]
        self.make(VOLUMES, works=[self.NAME])
        self.assertEqual([1, 2, 3], self.ids(
            self.client.volumes.search(query.one_of('name', names))))
        self.assertTrue(2 <= len(self.array.asked) <= 4)


@ddt.ddt
class NovelFormsTest(Case):
    """Searches that not every array supports."""

    NAME = 'searches:host_iqns:host'

    def search(self):
        return self.ids(self.client.host_iqns.search(host=HOST))

    def test_found(self):
        self.make(IQNS)
        self.assertEqual([1, 2], self.search())
        self.assertEqual('works', self.state(self.NAME))

    @ddt.data({}, {'silent': ['host.ref']})
    def test_zero_hits_count_only_after_it_has_found_something(self, odd):
        self.make([] if not odd else IQNS, **odd)
        with self.assertRaises(errors.Unproven):
            self.search()
        self.assertEqual('unknown', self.state(self.NAME))
        self.client.capabilities.found(self.NAME)
        self.assertEqual([], self.search())

    @ddt.data(400, 404, 405, 500, 501)
    def test_refused(self, status):
        self.make(IQNS, refused=['host.ref'],
                  refusal=scripted.refusal('no', status))
        with self.assertRaisesRegex(rest.NotOffered, self.NAME):
            self.search()
        self.assertEqual('refused' if status < 500 else 'unknown',
                         self.state(self.NAME))
        self.asked()
        with self.assertRaises(rest.NotOffered):
            self.search()
        self.assertEqual([], self.asked())

    def test_ignored_condition_with_matching_objects(self):
        other = {'id': 9, 'iqn': 'iqn.9', 'host': ref('hosts', 8)}
        self.make([*IQNS, other], ignored=['host.ref'])
        self.assertEqual([1, 2], self.search())

    def test_ignored_condition_without_matching_objects(self):
        other = {'id': 9, 'iqn': 'iqn.9', 'host': ref('hosts', 8)}
        self.make([other], ignored=['host.ref'])
        with self.assertRaises(errors.Unproven):
            self.search()

    def test_prove(self):
        for switches, state in ({}, 'works'), (
                {'silent': ['host.ref']}, 'refused'), (
                {'ignored': ['host.ref']}, 'refused'):
            other = {'id': 9, 'iqn': 'iqn.9', 'host': ref('hosts', 8)}
            self.make([*IQNS, other], **switches)
            self.client.host_iqns.prove(host=HOST)
            self.assertEqual(state, self.state(self.NAME), switches)
        self.asked()
        self.client.host_iqns.prove(host=HOST)
        self.assertEqual([], self.asked())

    def test_unfiltered_list_replaces_a_refused_search(self):
        self.make(VOLUMES, refused=['description'])
        self.assertEqual([1, 3], self.ids(
            self.client.volumes.search(description='d')))
        self.assertEqual({}, self.asked()[0])
        self.assertEqual('refused',
                         self.state('searches:volumes:description'))

    @ddt.data(400, 500)
    def test_unfiltered_list_replaces_a_search_that_worked(self, status):
        self.make(VOLUMES, refused=['description'],
                  refusal=scripted.refusal('no', status),
                  works=['searches:volumes:description'])
        self.assertEqual([1, 3], self.ids(
            self.client.volumes.search(description='d')))
        self.assertEqual({}, self.asked()[-1])
        self.assertEqual('works', self.state('searches:volumes:description'))

    def test_error_message(self):
        self.make([])
        with self.assertRaisesRegex(
                errors.Unproven,
                'it finds nothing, and has never been seen to find anything '
                f'that way .capability {self.NAME}') as caught:
            self.search()
        self.assertEqual(('GET', '/host_iqns'), (
            caught.exception.method, caught.exception.path))

    def test_ignored_condition_is_logged(self):
        other = {'id': 9, 'iqn': 'iqn.9', 'host': ref('hosts', 8)}
        self.make([*IQNS, other], ignored=['host.ref'])
        with self.assertLogs('cinder_k2.rest.capabilities') as logs:
            self.client.host_iqns.prove(host=HOST)
        self.assertIn('a condition of the search was ignored',
                      logs.output[0])

    def test_prefix_and_equality_are_separate_forms(self):
        self.make(VOLUMES, silent=['name__prefix'],
                  works=['searches:volume_groups:name'])
        with self.assertRaises(errors.Unproven):
            self.client.volume_groups.search(query.prefix('name', 'v'))


@ddt.ddt
class CountTest(Case):

    NAME = 'searches:snapshots:is_exposable'

    def test_known_form(self):
        self.make(VOLUMES)
        self.assertEqual(3, self.client.volumes.count())
        self.assertEqual(2, self.client.volumes.count(volume_group=GROUP))
        self.assertEqual([{}, {'volume_group.ref': '/volume_groups/14'}],
                         self.asked())

    def test_several_values(self):
        self.make(VOLUMES)
        self.assertEqual(2, self.client.volumes.count(
            query.one_of('name', ['v1', 'v2'])))

    def test_conditions_checked_by_the_client(self):
        self.make(VOLUMES)
        self.assertEqual(1, self.client.volumes.count(
            name='v1', description='d'))

    def test_zero_hits_of_an_unproven_form_are_not_a_count(self):
        self.make(SNAPSHOTS, silent=['is_exposable'])
        with self.assertRaises(errors.Unproven):
            self.client.snapshots.count(is_exposable=True)
        self.assertEqual('unknown', self.state(self.NAME))

    def test_ignored_condition_does_not_count_all_objects(self):
        snapshots = [each | {'is_exposable': each['id'] == 3}
                     for each in SNAPSHOTS]
        self.make(snapshots, ignored=['is_exposable'])
        self.assertEqual(1, self.client.snapshots.count(is_exposable=True))


@ddt.ddt
class ByIdTest(Case):

    def get(self, id):
        return self.client.volumes.get(id).id

    def test_list_first_then_read_by_id(self):
        self.make(VOLUMES, reads=True)
        self.assertEqual(2, self.get(2))
        self.assertEqual([{}, '#2'], self.asked())
        self.assertEqual(2, self.get(2))
        self.assertEqual(['#2'], self.asked())

    def test_without_reads_by_id(self):
        self.make(VOLUMES)
        self.assertEqual(2, self.get(2))
        self.assertEqual('refused', self.state('reads:volumes'))
        self.asked()
        self.assertEqual(2, self.get(2))
        self.assertEqual([{}], self.asked())

    @ddt.data(True, False)
    def test_deleted_between_list_and_read(self, reads):
        """The 404 says nothing about reads by id in general."""
        self.make(VOLUMES, reads=reads)
        self.array.deletes = '#2'
        self.assertEqual(2, self.get(2))
        self.assertEqual([{}, '#2', {}], self.asked())
        self.assertEqual('unknown', self.state('reads:volumes'))
        self.get(3)
        self.assertEqual('works' if reads else 'refused',
                         self.state('reads:volumes'))

    @ddt.data(True, False)
    def test_missing_object_and_incomplete_list(self, reads):
        """The object may never have existed, so the 404 proves nothing."""
        self.make(VOLUMES, reads=reads)
        self.array.more = 1000
        with self.assertRaises(rest.Incomplete):
            self.get(9)
        self.assertEqual('unknown', self.state('reads:volumes'))
        self.asked()
        self.get(3)
        self.assertEqual('works' if reads else 'refused',
                         self.state('reads:volumes'))

    def test_reads_by_id_are_no_longer_offered(self):
        """The list replaces them."""
        self.make(VOLUMES, reads=None)
        self.client.capabilities.found('reads:volumes')
        states = []
        for _ in range(3):
            self.assertEqual(2, self.get(2))
            states.append(self.state('reads:volumes'))
        self.assertEqual(['works', 'works', 'refused'], states)

    def test_object_missing_from_a_complete_list(self):
        self.make(VOLUMES)
        with self.assertRaises(rest.NotFound):
            self.get(9)
        self.assertEqual([{}], self.asked())
        self.assertEqual('unknown', self.state('reads:volumes'))

    def test_object_missing_where_reads_by_id_work(self):
        self.make([{'id': 14, 'name': 'g'}], reads=True)
        self.assertEqual(14, self.client.volume_groups.get(14).id)
        with self.assertRaises(rest.NotFound):
            self.client.volume_groups.get(15)
        self.assertEqual(['#14', '#15'], self.asked())

    def test_404_on_an_unproven_path_never_means_gone(self):
        """Not every array lists all snapshots."""
        self.make(SNAPSHOTS)
        with self.assertRaises(rest.NotOffered):
            self.client.snapshots.get(2)
        self.assertEqual('unknown', self.state('reads:snapshots'))

    def test_error_message(self):
        self.make(SNAPSHOTS)
        with self.assertRaises(rest.NotOffered) as caught:
            self.client.snapshots.get(2)
        cause = caught.exception.__cause__ or caught.exception
        self.assertEqual(
            (404, '/snapshots', 'it knows no such object, or does not read '
             'objects by id (capability reads:snapshots)'),
            (cause.status, cause.path, cause.message))

    def test_unreadable_object(self):
        """Bare, or in an envelope (OBJ-2)."""
        bad = {'id': 'x'}
        for body in (bad, {'hits': [bad]}):
            client, _, _ = scripted.client(
                *[scripted.Reply(200, body)] * 8, works=['reads:snapshots'])
            with self.assertRaisesRegex(
                    rest.BadReply,
                    "unusable reply: its id is 'x'") as caught:
                client.snapshots.get(2)
            self.assertEqual(('/snapshots/2', 200), (
                caught.exception.path, caught.exception.status))

    def test_with_a_hint(self):
        self.make(SNAPSHOTS)
        get = self.client.snapshots.get
        self.assertEqual(2, get(2, volume_group=GROUP).id)
        with self.assertRaises(rest.NotFound):
            get(9, volume_group=GROUP)
        self.assertEqual(
            [{'volume_group.ref__m_eq': '/volume_groups/14'}] * 2,
            self.asked())

    def test_several_ids(self):
        self.make(VOLUMES)
        self.assertEqual([1, 3], self.ids(self.client.volumes.search(
            query.one_of('id', [1, 3, 9]))))
        self.assertEqual([{}, {'id__in': '1,3,9'}], self.asked())

    @ddt.data({}, {'refused': ['id__in']})
    def test_several_ids_read_one_by_one(self, switches):
        self.make([{'id': id, 'name': f'g{id}'} for id in (1, 2)],
                  reads=True, **switches)
        self.assertEqual([1, 2], self.ids(self.client.volume_groups.search(
            query.one_of('id', [1, 2, 9]))))
        self.assertEqual(['#1', {'id__in': '2,1,9'}, *(
            ['#2', '#9'] if switches else [])], self.asked())
