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

"""Section 2.5: the query language."""

import urllib.parse

import ddt
import hypothesis
from hypothesis import strategies

import k2_sim
from k2_sim import errors
from k2_sim.protocol import query
from tests import base


@ddt.ddt
class TestSearch(base.ArrayTest):

    def setUp(self):
        super().setUp()
        self.vg_a, self.vg_b = self.group('vg-a'), self.group('vg-b')
        for name, group, size in (('vol-1', self.vg_a, 10),
                                  ('vol-2', self.vg_a, 20),
                                  ('Vol_3', self.vg_b, 30)):
            self.volume(group, name, size * base.GIB)

    def _names(self, text):
        return [hit['name'] for hit in self.hits(f'volumes?{text}')]

    @ddt.data(
        ('name=vol-1', ['vol-1']),
        ('name=VOL-1', []),
        ('name=vol', []),
        ('size=10485760', ['vol-1']),
        ('size=10485760.0', ['vol-1']),
        ('size="10485760"', ['vol-1']),
        ('name="vol-1"', ['vol-1']),
        ('size=x', []),
        ('name__in=vol-1,Vol_3,none', ['vol-1', 'Vol_3']),
        ('name__m_eq=vol-1,vol-1', ['vol-1']),
        ('name__in="vol-1","vol-2"', ['vol-1', 'vol-2']),
        ('name__in="vol-1,vol-2"', ['vol-1', 'vol-2']),
        ('id__in=31,31.0,x', ['vol-1']),
        ('id=31', ['vol-1']),
        ('name__contains=ol', ['vol-1', 'vol-2', 'Vol_3']),
        ('name__contains=TRL', ['CTRL']),
        ('name__contains_some=_,-2', ['vol-2', 'Vol_3']),
        ('name__prefix=vol', ['vol-1', 'vol-2']),
        ('name__regexp=^.ol.[13]$', ['vol-1', 'Vol_3']),
        ('name__regexp=1', ['vol-1']),
        ('size__gt=20971520', ['Vol_3']),
        ('size__gte=20971520', ['vol-2', 'Vol_3']),
        ('size__lt=10485760', ['CTRL']),
        ('size__lte=10485760', ['CTRL', 'vol-1']),
        ('size__lt=x', []),
        ('name__gt=0', []),
        ('size__prefix=1', []),
        ('name__neq=vol-1', ['CTRL', 'vol-2', 'Vol_3']),
        ('size__neq=10485760', ['CTRL', 'vol-2', 'Vol_3']),
        ('volume_group.ref=/volume_groups/14', ['vol-1', 'vol-2']),
        ('volume_group.ref=%2Fvolume_groups%2F15', ['Vol_3']),
        ('volume_group.ref__m_eq=/volume_groups/14,/volume_groups/15',
         ['vol-1', 'vol-2', 'Vol_3']),
        ('volume_group.ref__in=/volume_groups/15', ['Vol_3']),
        ('volume_group.ref__neq=/volume_groups/14', ['Vol_3']),
        ('volume_group=/volume_groups/14', []),
        ('name.ref=vol-1', []),
        ('read_only=False', ['CTRL', 'vol-1', 'vol-2', 'Vol_3']),
        ('read_only=FALSE&name=vol-1', ['vol-1']),
        ('read_only=0', []),
        ('name__prefix=vol&size__gt=10485760', ['vol-2']),
        ('name=vol-1&name=vol-2', []),
        ('size__gt=1&size__gt=20971520', ['Vol_3']))
    @ddt.unpack
    def test_condition(self, text, names):
        """The forms of the table, QRY-5, QRY-6, QRY-7, QRY-8."""
        self.assertEqual(names, self._names(text))

    @ddt.data('nmae=vol-1', 'name__foo=vol-1', 'password=x',
              'is_thin_clone=true', 'name=vol-1&nmae=vol-1', '=x')
    def test_unknown_field_gives_no_hits(self, text):
        """QRY-2; write-only fields do not exist for queries."""
        self.assertEqual(
            {'hits': [], 'limit': 1000, 'offset': 0, 'total': 0},
            self.get(f'volumes?{text}'))

    @ddt.data('name=', 'name=""', 'nmae=', 'name__in=', 'name__in=,',
              'volume_group.ref=', 'name', 'size__gt=')
    def test_empty_value_is_no_condition(self, text):
        """QRY-3, before QRY-2."""
        self.assertEqual(4, self.get(f'volumes?{text}')['total'])

    def test_wan_addresses_come_along(self):
        """QRY-3 and NET-1, as the old driver encountered it."""
        self.assertEqual(6, len(self.hits('system/net_ips?wan_port=""')))

    @ddt.data('description=null', 'description=None', 'description__neq=x',
              'description__contains=n', 'description__regexp=')
    def test_null_is_not_found(self, text):
        """QRY-4: whatever the condition."""
        wanted = 4 if text.endswith('=') else 0
        self.assertEqual(wanted, self.get(f'volumes?{text}')['total'])

    def test_values_are_decoded(self):
        """QRY-7: percent signs, and + for a space."""
        self.volume(self.vg_a, 'a b/c:d&e=f+g')
        for value in ('a+b/c:d%26e=f%2Bg', 'a%20b%2Fc%3Ad%26e%3Df%2bg'):
            self.assertEqual(['a b/c:d&e=f+g'],
                             self._names(f'name={value}'))

    def test_many_values(self):
        """QRY-1."""
        names = ','.join(f'cv-{number:036d}' for number in range(1600))
        self.assertEqual(['vol-2'], self._names(f'name__in={names},vol-2'))

    def test_number_in_a_string_field(self):
        self.group('007')
        self.assertEqual(1, self.get('volume_groups?name=007')['total'])
        self.assertEqual(0, self.get('volume_groups?name=7')['total'])

    @ddt.data('name=vol-1', 'name__in=vol-1,x', 'id=31',
              'volume_group.ref=/volume_groups/14&name=vol-1',
              'size__gt=1&name=vol-1')
    def test_exact_searches_use_an_index(self, text):
        """With thousands of volumes, no search by name reads them all."""
        self.array.store.rows = None
        self.assertEqual(['vol-1'], self._names(text))

    def test_large_numbers_are_exact(self):
        self.group('big', quota=2 ** 53 + 1)
        for number, total in ((2 ** 53, 0), (2 ** 53 + 1, 1)):
            self.assertEqual(total, self.get(
                f'volume_groups?quota={number}')['total'])

    def test_bad_regular_expression(self):
        self.refused('GET', 'volumes?name__regexp=(')
        self.refused('GET', 'volumes?name__regexp=' + '(' * 5000)
        for text, why in (
                ('a' * 1001, 'it has more than 1000 characters'),
                ('((a{100}){100}){100}',
                 'it repeats something more than 100000 times'),
                ('(a{1000000000000}){2,}',
                 'it repeats something more than 100000 times')):
            self.assertEqual(
                f'Bad regular expression: {why}',
                self.refused('GET', f'volumes?name__regexp={text}'))
        self.assertEqual(0, self.get(
            'volumes?name__regexp=(a{100}){1000}')['total'])

    def test_names_that_look_like_references(self):
        for name in ('/x/2', '/x/\u00b2', '/x/1'):
            self.volume(self.vg_a, name)
        self.assertEqual(['/x/1', '/x/2', '/x/\u00b2'], [
            hit['name'] for hit in self.hits(
                'volumes?__sort=name&name__prefix=/x')])

    def test_regular_expression_without_end(self):
        """A request does not wait for catastrophic backtracking."""
        self.volume(self.vg_a, 'a' * 40 + '!')
        self.assertEqual(0, self.get(
            'volumes?name__regexp=(a%2B)%2Bb')['total'])
        self.assertEqual(
            'The regular expression takes too long: use a simpler one',
            self.refused('GET', 'volumes?name__regexp=(a|aa)%2B$'))

    def test_fields_of_the_other_profile(self):
        """num_of_clones exists where thin clones do (CLN-5)."""
        self.snapshot(self.vg_a)
        self.assertEqual(
            1, self.get('snapshots?num_of_clones=0')['total'])
        self.control.set_behaviors(thin_clones=False)
        self.assertEqual(
            0, self.get('snapshots?num_of_clones=0')['total'])
        self.assertNotIn('num_of_clones', self.hits('snapshots')[0])


@ddt.ddt
class TestPaging(base.ArrayTest):

    def setUp(self):
        super().setUp()
        group = self.group()
        self.ids = [1]
        for number in range(3):
            self.ids.append(self.volume(group, f'v{2 - number}')['id'])

    def _page(self, text):
        reply = self.get(f'volumes?{text}')
        return [hit['id'] for hit in reply['hits']], reply

    def test_pages(self):
        """OBJ-1: total counts all matches."""
        ids, reply = self._page('__sort=id&__limit=2&__offset=0')
        self.assertEqual(self.ids[:2], ids)
        ids, reply = self._page('__sort=id&__limit=2&__offset=2')
        self.assertEqual(self.ids[2:], ids)
        self.assertEqual((2, 2, 4), (
            reply['limit'], reply['offset'], reply['total']))
        self.assertEqual([], self._page('__offset=9')[0])

    def test_limit_zero_counts(self):
        ids, reply = self._page('__limit=0')
        self.assertEqual(([], 0, 4), (ids, reply['limit'], reply['total']))

    def test_any_limit(self):
        ids, reply = self._page('__limit=9999')
        self.assertEqual((4, 9999), (len(ids), reply['limit']))

    def test_default_limit(self):
        self.assertEqual(1000, self._page('__limit=')[1]['limit'])
        self.control.set_behaviors(page_size=3)
        ids, reply = self._page('')
        self.assertEqual((3, 3, 4), (len(ids), reply['limit'],
                                     reply['total']))

    @ddt.data('__limit=-1', '__limit=x', '__offset=1.5', '__sort=colour',
              '__sort=id&__sort_order=up', '__limt=5',
              '__sort=is_thin_clone')
    def test_control_without_sense(self, text):
        self.refused('GET', f'volumes?{text}')

    def test_sort(self):
        self.assertEqual(self.ids[::-1],
                         self._page('__sort=id&__sort_order=desc')[0])
        self.assertEqual(
            [self.ids[0], self.ids[3], self.ids[2], self.ids[1]],
            self._page('__sort=name&__sort_order=asc')[0])

    def test_sort_by_reference_and_null(self):
        """References by number, null last."""
        for number in range(90):
            self.group(f'g{number}')
        last = self.volume(self.group('z'), 'in-105')
        self.assertEqual(105, last['id'] and self.get(
            'volume_groups?name=z')['hits'][0]['id'])
        ids = self._page('__sort=volume_group')[0]
        self.assertEqual([last['id'], 1], ids[-2:])

    def test_sort_by_names_with_slashes(self):
        for name in ('/x', '/b/1', 'a', '/b/x'):
            self.group(name)
        self.assertEqual(
            ['/b/1', '/b/x', '/x', 'a', 'vg-a'],
            [hit['name'] for hit in self.hits('volume_groups?__sort=name')])

    def test_fields(self):
        """Only these, in searches and for single objects."""
        self.assertEqual(
            [{'id': 1, 'name': 'CTRL'}],
            self.hits('volumes?id=1&__fields=name,id,nothing'))
        self.assertEqual({'name': 'CTRL'},
                         self.get('volumes/1?__fields=name'))
        self.assertEqual(self.get('volumes/1'),
                         self.get('volumes/1?__fields='))

    def test_pages_without_order_can_be_made_unstable(self):
        self.control.set_behaviors(unstable_pages=True)
        pages = {tuple(self._page('')[0]) for _ in range(4)}
        self.assertEqual(4, len(pages))
        self.assertEqual(self.ids, self._page('__sort=id')[0])
        self.control.set_behaviors(unstable_pages=False)
        self.assertEqual(self.ids, self._page('')[0])


NAMES = strategies.text('ab"_,+&= %é/', min_size=1, max_size=6)
TEXTS = strategies.one_of(NAMES, strategies.text(max_size=12))
OPERATORS = ('', '__in', '__m_eq', '__contains', '__contains_some',
             '__prefix', '__gt', '__lt', '__gte', '__lte', '__neq')


class TestProperties(base.ArrayTest):
    """The same results as a plain scan of the table."""

    @hypothesis.settings(deadline=None, max_examples=60)
    @hypothesis.given(names=strategies.lists(NAMES, max_size=5, unique=True),
                      operator=strategies.sampled_from(OPERATORS),
                      value=NAMES)
    def test_search_by_name(self, names, operator, value):
        array = k2_sim.Array()
        test = base.ArrayTest('call')
        test.array, test.control = array, array.control
        for name in names:
            test.post('host_groups', {'name': name})
        text = urllib.parse.urlencode({f'name{operator}': value})
        found = [hit['name'] for hit in test.hits(f'host_groups?{text}')]
        self.assertEqual(
            [name for name in names if self._meets(name, operator, value)],
            found)

    def _meets(self, name, operator, value):
        if operator in ('__in', '__m_eq', '__contains_some'):
            if value.count('"') == 2:
                value = self._bare(value)
            wanted = [self._bare(item) for item in value.split(',')]
        else:
            wanted = [self._bare(value)]
        wanted = [item for item in wanted if item]
        if not wanted:
            return True
        return any({'': name == item, '__in': name == item,
                    '__m_eq': name == item, '__neq': name != item,
                    '__contains': item in name,
                    '__contains_some': item in name,
                    '__prefix': name.startswith(item)}.get(operator, False)
                   for item in wanted)

    def _bare(self, value):
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        return value[1:-1] if quoted else value

    @hypothesis.settings(deadline=None, max_examples=200)
    @hypothesis.given(text=strategies.text(max_size=60))
    def test_any_text_is_read_or_refused(self, text):
        try:
            parsed = query.parse(text)
        except errors.ApiError as exc:
            self.assertEqual(400, exc.status)
        else:
            self.assertTrue(all(item.values for item in parsed.conditions))

    @hypothesis.settings(deadline=None, max_examples=100)
    @hypothesis.given(field=strategies.sampled_from(
        ('id', 'name', 'size', 'read_only', 'volume_group.ref', 'x')),
        operator=strategies.sampled_from((*OPERATORS, '__regexp')),
        value=TEXTS)
    def test_every_search_answers(self, field, operator, value):
        text = urllib.parse.urlencode({field + operator: value})
        reply = self.call('GET', f'volumes?{text}')
        if operator != '__regexp':
            self.assertEqual(200, reply.status)
        self.assertIn(reply.status, (200, 400))

    @hypothesis.settings(deadline=None, max_examples=50)
    @hypothesis.given(limit=strategies.integers(1, 9),
                      descending=strategies.booleans(),
                      by=strategies.sampled_from(('id', 'name', 'type')))
    def test_pages_make_up_the_whole(self, limit, descending, by):
        if not self.hits('hosts'):
            for number in range(7):
                self.host(f'h{number * 5 % 7}')
        order = f'__sort={by}&__sort_order={"desc" if descending else "asc"}'
        whole = self.hits(f'hosts?{order}')
        pages = []
        while len(pages) < 7:
            hits = self.hits(
                f'hosts?{order}&__limit={limit}&__offset={len(pages)}')
            self.assertTrue(0 < len(hits) <= limit)
            pages += hits
        self.assertEqual(whole, pages)
