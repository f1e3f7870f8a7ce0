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

import operator
import threading
import unittest
from urllib import parse

import ddt

from cinder_k2 import rest
from tests.unit.rest import scripted

OK = scripted.Reply(200, {})
NO = scripted.refusal('no such parameter')
CONTROLS = {'__sort': 'id', '__sort_order': 'asc'}


def group(id):
    return {'id': id, 'name': f'g{id}'}


def is_later(request):
    """Whether another page than the first one is asked for."""
    return '__offset' in request.url and '__offset=0' not in request.url


class Pages:
    """An array with some volumes, in pages; what it does is in switches."""

    def __init__(self, number, page=100, **switches):
        self.ids = list(range(1, number + 1))
        self.page = page
        self.switches = switches
        self.asked = []

    def __call__(self, request):
        query = dict(parse.parse_qsl(parse.urlsplit(request.url).query))
        self.asked.append(query)
        path = parse.urlsplit(request.url).path
        if 'system' in path:
            return OK
        if not path.endswith('/volumes'):
            return scripted.refusal('no reads by id', 404)
        refused = self.switches.get('refuses')
        if refused and any(key in query for key in refused[0]):
            return refused[1]
        return self._page(query)

    def _page(self, query):
        ids = self.ids
        if '__sort' not in query or self.switches.get('unsorted'):
            ids = [*ids[1::2], *ids[::2]]
        offset = int(query.get('__offset', 0))
        if self.switches.get('ignores_offset'):
            offset = 0
        if self.switches.get('finds_nothing') and '__sort' in query:
            ids = []
        shown = ids[offset:offset + min(
            self.page, int(query.get('__limit', self.page)))]
        reply = scripted.hits(*map(group, shown), total=len(ids))
        if 'total' in self.switches:
            return scripted.Reply(200, {
                'hits': list(map(group, shown)), **self.switches['total']})
        return reply


@ddt.ddt
class PagesTest(unittest.TestCase):

    def make(self, pages, works=('fields:volumes',), **settings):
        self.pages = pages
        self.client, self.array, _ = scripted.client(
            *[pages] * 99, works=works, **settings)
        return self.client

    def found(self):
        return [each.id for each in self.client.volumes.search()]

    def state(self, name='paging'):
        return self.client.capabilities.verdict(name).state

    def test_one_page_goes_without_control_parameters(self):
        self.make(Pages(100))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual([{}], self.pages.asked)
        self.assertEqual('unknown', self.state())

    def test_the_first_page_is_thrown_away_when_there_are_more(self):
        """Without a sort key pages may overlap."""
        self.make(Pages(250))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual({}, self.pages.asked[0])
        self.assertEqual(
            [CONTROLS | {'__limit': limit, '__offset': offset}
             for limit, offset in (
                 ('1000', '0'), ('1001', '99'), ('1001', '198'))],
            [{key: value for key, value in query.items()
              if key != '__fields'} for query in self.pages.asked[1:]
             if query])
        self.assertEqual('works', self.state())

    @ddt.data((NO, 'refused'), (scripted.refusal('', 404), 'refused'),
              (scripted.refusal('', 405), 'refused'),
              (scripted.refusal('', 500), 'unknown'),
              (scripted.refusal('', 501), 'unknown'))
    @ddt.unpack
    def test_a_part_is_never_taken_for_all(self, refusal, state):
        for control in ('__sort', '__limit', '__offset'):
            self.check_a_part(state, refuses=([control], refusal))

    @ddt.data('ignores_offset', 'unsorted', 'finds_nothing')
    def test_neither_is_what_was_not_paged(self, switch):
        self.check_a_part('refused', **{switch: True})

    def check_a_part(self, state, **switches):
        self.make(Pages(250, **switches))
        with self.assertRaises(rest.Incomplete) as caught:
            self.client.volumes.search()
        self.assertEqual(state, self.state())
        self.assertIn('further pages', str(caught.exception))
        found, complete = self.client.volumes.some()
        self.assertEqual((100, False), (len(found), complete))
        # Nothing is asked for again.
        self.assertEqual({}, self.pages.asked[-1])
        self.assertEqual({}, self.pages.asked[-2])

    def test_what_is_in_the_part_counts(self):
        self.make(Pages(250, refuses=(['__sort'], NO)))
        self.assertEqual(2, self.client.volumes.get(2).id)
        with self.assertRaises(rest.Incomplete):
            self.client.volumes.get(201)

    def test_it_is_turned_off(self):
        self.make(Pages(250), disabled_capabilities=('paging',))
        with self.assertRaises(rest.Incomplete):
            self.client.volumes.search()
        self.assertEqual([{}], self.pages.asked)

    def test_nobody_fails_while_another_learns(self):
        """There is no older road: all read page by page."""
        pages, others = Pages(250), []

        def work():
            others.append(self.found())

        def first(request):
            if '__sort' in request.url and not threads:
                threads.append(threading.Thread(target=work))
                threads[0].start()
                threads[0].join(10)
            return pages(request)
        threads = []
        self.make(first)
        self.assertEqual(pages.ids, self.found())
        self.assertEqual([pages.ids], others)

    def test_what_once_worked_is_not_given_up_for_one_refusal(self):
        self.make(Pages(250, refuses=(['__sort'], NO)),
                  works=('paging', 'fields:volumes'))
        states = []
        for _ in range(3):
            self.assertFalse(self.client.volumes.some()[1])
            states.append(self.state())
        self.assertEqual(['works', 'works', 'refused'], states)

    def test_nothing_is_found_by_pages_any_more(self):
        """Silence never means that there is nothing (QRY-2)."""
        self.make(Pages(250, finds_nothing=True), works=('paging',))
        for _ in range(3):
            self.assertFalse(self.client.volumes.some()[1])
        self.assertEqual('refused', self.state())

    def test_refusals_long_ago_do_not_count(self):
        self.make(Pages(250), works=('paging', 'fields:volumes'))
        for _ in range(4):
            self.pages.switches['refuses'] = ['__sort'], NO
            self.assertFalse(self.client.volumes.some()[1])
            del self.pages.switches['refuses']
            self.assertTrue(self.client.volumes.some()[1])
        self.assertEqual('works', self.state())

    def test_fewer_than_promised(self):
        self.make(Pages(250), works=('paging',))
        self.pages.ids = Short(self.pages.ids)
        with self.assertRaisesRegex(rest.BadReply, '250 objects promised'):
            self.client.volumes.search()
        self.assertEqual('works', self.state())

    def test_objects_vanish_between_pages(self):
        pages = Pages(101)

        def vanishing(request):
            if '__offset=99' in request.url:
                del pages.ids[-1]
            return pages(request)
        self.make(vanishing, works=('paging', 'fields:volumes'))
        self.assertEqual(pages.ids, self.found())

    def changing(self, *changes):
        """An array that changes before it is asked for second pages."""
        pages, left = Pages(250), list(changes)

        def change(request):
            if is_later(request) and left:
                left.pop(0)(pages.ids)
            return pages(request)
        self.make(change, works=('paging', 'fields:volumes'))
        return pages

    @ddt.data(lambda ids: ids.remove(7), lambda ids: ids.remove(100),
              lambda ids: ids.insert(0, 0),
              lambda ids: operator.delitem(ids, slice(90, None)))
    def test_the_list_changes_between_pages(self, change):
        """What moves across the end of a page is not passed over."""
        pages = self.changing(change)
        self.assertEqual(pages.ids, self.found())
        self.assertEqual('works', self.state())

    def test_what_changes_behind_the_page_is_not_read_again(self):
        pages = self.changing(lambda ids: ids.remove(150))
        self.assertEqual(pages.ids, self.found())
        self.assertEqual(['0', '99', '198'], [
            query['__offset'] for query in pages.asked if query])

    @ddt.data((), ('paging',))
    def test_the_list_changes_all_the_time(self, works):
        """A part is not taken for all; the array is not to blame."""
        pages = Pages(250)

        def change(request):
            if is_later(request):
                del pages.ids[0]
            return pages(request)
        self.make(change, works=(*works, 'fields:volumes'))
        for _ in range(4):
            found, complete = self.client.volumes.some()
            self.assertEqual((100, False), (len(found), complete))
        self.assertEqual('works' if works else 'unknown', self.state())

    # What total says

    @ddt.data({'total': None}, {}, {'total': 'many'}, {'total': []})
    def test_no_total(self, total):
        """Lists below the smallest page that arrays have are whole."""
        self.make(Pages(99, total=total))
        self.assertEqual(self.pages.ids, sorted(self.found()))
        self.assertEqual(1, len(self.pages.asked))
        self.assertEqual(99, self.client.volumes.count())

    @ddt.data({'total': None}, {})
    def test_no_total_on_a_full_page(self, total):
        self.make(Pages(150, total=total))
        with self.assertRaises(rest.BadReply):
            self.client.volumes.count()

    @ddt.data({'total': None}, {})
    def test_no_total_on_several_pages(self, total):
        """The list ends with a page of nothing new."""
        for number in (100, 150, 200):
            self.make(Pages(number, total=total))
            self.assertEqual(self.pages.ids, self.found())
            self.assertEqual(str(number - 1),
                             self.pages.asked[-1]['__offset'])

    @ddt.data('99', 99.0, '99.0')
    def test_total_of_another_type(self, total):
        self.make(Pages(99, total={'total': total}))
        self.assertEqual(99, len(self.found()))
        self.assertEqual(99, self.client.volumes.count())
        self.assertEqual([{}, {}], self.pages.asked)

    # __fields

    def test_fields_are_learnt_where_there_are_several_pages(self):
        self.make(Pages(250), works=('paging',))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual('works', self.state('fields:volumes'))
        self.assertEqual(
            [False, False, True, True, True],
            ['__fields' in query for query in self.pages.asked])
        self.assertTrue(self.pages.asked[-1]['__fields'].startswith(
            'id,name,size,volume_group,'))

    @ddt.data(NO, scripted.refusal('', 500), scripted.refusal('', 404))
    def test_fields_are_refused(self, refusal):
        self.make(Pages(250, refuses=(['__fields'], refusal)),
                  works=('paging',))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual('refused', self.state('fields:volumes'))
        self.pages.asked.clear()
        self.assertEqual(self.pages.ids, self.found())
        self.assertFalse(any('__fields' in query
                             for query in self.pages.asked))

    @ddt.data(NO, scripted.refusal('', 500), scripted.Reply(502))
    def test_fields_that_worked_are_refused(self, refusal):
        self.make(Pages(250, refuses=(['__fields'], refusal)),
                  works=('paging', 'fields:volumes'))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual('refused', self.state('fields:volumes'))

    @ddt.data(True, False)
    def test_others_change_the_list_while_fields_are_learnt(self, works):
        """Other objects are no refusal; the list is read again."""
        pages = Pages(250, **{} if works else {
            'refuses': (['__fields'], scripted.hits())})

        def change(request):
            if '__fields' in request.url and pages.ids[0] == 1:
                del pages.ids[0]
            return pages(request)
        self.make(change, works=('paging',))
        self.assertEqual(pages.ids, self.found())
        self.assertEqual('works' if works else 'refused',
                         self.state('fields:volumes'))

    def test_fields_and_paging_are_not_learnt_in_one_go(self):
        """A refusal would be of nobody knows which."""
        self.make(Pages(250, refuses=(['__fields'], NO)), works=())
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual('works', self.state())


class Short(list):
    """Says that it has more than it shows beyond the first page."""

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return [] if isinstance(key, slice) and key.start else found
