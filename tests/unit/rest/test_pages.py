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
    """Whether a page after the first is requested."""
    return '__offset' in request.url and '__offset=0' not in request.url


class Pages:
    """An array that lists volumes in pages; switches change its behavior."""

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

    def test_single_page_needs_no_control_parameters(self):
        self.make(Pages(100))
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual([{}], self.pages.asked)
        self.assertEqual('unknown', self.state())

    def test_first_page_is_discarded_if_there_are_more(self):
        """It is not sorted, so pages might overlap."""
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
    def test_incomplete_list_is_never_taken_for_complete(self, refusal, state):
        for control in ('__sort', '__limit', '__offset'):
            self.check_incomplete(state, refuses=([control], refusal))

    @ddt.data('ignores_offset', 'unsorted', 'finds_nothing')
    def test_ignored_paging_is_detected(self, switch):
        self.check_incomplete('refused', **{switch: True})

    def check_incomplete(self, state, **switches):
        self.make(Pages(250, **switches))
        with self.assertRaises(rest.Incomplete) as caught:
            self.client.volumes.search()
        self.assertEqual(state, self.state())
        self.assertIn('further pages', str(caught.exception))
        found, complete = self.client.volumes.some()
        self.assertEqual((100, False), (len(found), complete))
        # Paging is not tried again.
        self.assertEqual({}, self.pages.asked[-1])
        self.assertEqual({}, self.pages.asked[-2])

    def test_get_from_an_incomplete_list(self):
        self.make(Pages(250, refuses=(['__sort'], NO)))
        self.assertEqual(2, self.client.volumes.get(2).id)
        with self.assertRaises(rest.Incomplete):
            self.client.volumes.get(201)

    def test_paging_is_disabled(self):
        self.make(Pages(250), disabled_capabilities=('paging',))
        with self.assertRaises(rest.Incomplete):
            self.client.volumes.search()
        self.assertEqual([{}], self.pages.asked)

    def test_other_threads_page_during_a_trial(self):
        """There is no fallback: all threads read page by page."""
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

    def test_working_paging_is_dropped_after_three_refusals(self):
        self.make(Pages(250, refuses=(['__sort'], NO)),
                  works=('paging', 'fields:volumes'))
        states = []
        for _ in range(3):
            self.assertFalse(self.client.volumes.some()[1])
            states.append(self.state())
        self.assertEqual(['works', 'works', 'refused'], states)

    def test_working_paging_finds_nothing_any_more(self):
        """An empty page never means that there is nothing (QRY-2)."""
        self.make(Pages(250, finds_nothing=True), works=('paging',))
        for _ in range(3):
            self.assertFalse(self.client.volumes.some()[1])
        self.assertEqual('refused', self.state())

    def test_only_consecutive_refusals_count(self):
        self.make(Pages(250), works=('paging', 'fields:volumes'))
        for _ in range(4):
            self.pages.switches['refuses'] = ['__sort'], NO
            self.assertFalse(self.client.volumes.some()[1])
            del self.pages.switches['refuses']
            self.assertTrue(self.client.volumes.some()[1])
        self.assertEqual('works', self.state())

    def test_fewer_objects_than_total(self):
        self.make(Pages(250), works=('paging',))
        self.pages.ids = Short(self.pages.ids)
        with self.assertRaisesRegex(rest.BadReply, '250 objects promised'):
            self.client.volumes.search()
        self.assertEqual('works', self.state())

    def test_object_vanishes_between_pages(self):
        pages = Pages(101)

        def vanishing(request):
            if '__offset=99' in request.url:
                del pages.ids[-1]
            return pages(request)
        self.make(vanishing, works=('paging', 'fields:volumes'))
        self.assertEqual(pages.ids, self.found())

    def changing(self, *changes):
        """An array whose list changes before later pages are read."""
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
    def test_list_changes_between_pages(self, change):
        """Objects that move across a page boundary are not missed."""
        pages = self.changing(change)
        self.assertEqual(pages.ids, self.found())
        self.assertEqual('works', self.state())

    def test_change_beyond_the_page_needs_no_second_read(self):
        pages = self.changing(lambda ids: ids.remove(150))
        self.assertEqual(pages.ids, self.found())
        self.assertEqual(['0', '99', '198'], [
            query['__offset'] for query in pages.asked if query])

    @ddt.data((), ('paging',))
    def test_list_changes_before_every_page(self, works):
        """The list is incomplete, but paging is not taken for refused."""
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

    # The field total

    @ddt.data({'total': None}, {}, {'total': 'many'}, {'total': []})
    def test_no_total(self, total):
        """A list shorter than the smallest page of any array is complete."""
        self.make(Pages(99, total=total))
        self.assertEqual(self.pages.ids, sorted(self.found()))
        self.assertEqual(1, len(self.pages.asked))
        self.assertEqual(99, self.client.volumes.count())

    @ddt.data({'total': None}, {})
    def test_count_without_total_on_a_full_page(self, total):
        self.make(Pages(150, total=total))
        with self.assertRaises(rest.BadReply):
            self.client.volumes.count()

    @ddt.data({'total': None}, {})
    def test_no_total_on_several_pages(self, total):
        """The list ends with a page without new objects."""
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

    def test_fields_are_tried_if_there_are_several_pages(self):
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
    def test_list_changes_while_fields_are_tried(self, works):
        """Different objects are not a refusal; the list is read again."""
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

    def test_fields_and_paging_are_tried_separately(self):
        """Otherwise it would be unknown which of them was refused."""
        self.make(Pages(250, refuses=(['__fields'], NO)), works=())
        self.assertEqual(self.pages.ids, self.found())
        self.assertEqual('works', self.state())


class Short(list):
    """A list whose pages after the first are empty."""

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return [] if isinstance(key, slice) and key.start else found
