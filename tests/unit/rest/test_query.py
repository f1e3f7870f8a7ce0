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
from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import rest
from cinder_k2.rest import query

TEXTS = st.text(st.characters(exclude_categories=['Cs']), min_size=1,
                max_size=42)
REFS = st.builds(rest.Ref, st.just('volumes'), st.integers(1, 10 ** 9))


def sent(*conditions):
    """The decoded pairs that each request of a search sends."""
    return [parse.parse_qsl(query.encode(pairs), keep_blank_values=True,
                            strict_parsing=True)
            for pairs in splits(conditions)]


def splits(conditions):
    """The requests, with value lists for conditions of several values."""
    return query.requests(
        [(each.list_key if len(each.values) > 1 else each.key, each)
         for each in conditions])


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str(self) == str(other)

    __hash__ = str.__hash__


class ComparisonTest(unittest.TestCase):

    def test_many_values_and_records(self):
        """Each record is compared with few of the values."""
        condition = query.one_of('name', [Counted(f'v{n}')
                                          for n in range(200)])
        found = [rest.VolumeGroup(id=n, name=f'v{n}') for n in range(300)]
        Counted.compared = 0
        self.assertEqual(200, sum(map(condition.admits, found)))
        self.assertLess(Counted.compared, 1000)

    def test_iqns_in_any_case(self):
        for field, wanted, value, admitted in (
                ('iqn', 'IQN.X', 'iqn.x', True),
                ('iqn', 'iqn.y', 'iqn.x', False)):
            record = rest.HostIqn.from_json({'id': 1, field: value})
            self.assertIs(admitted, query.equal(
                field, wanted).admits(record))

    def test_field_that_is_not_a_reference(self):
        record = rest.Snapshot.from_json({
            'id': 1, 'short_name': 's', 'replication_session': {'x': 1}})
        wanted = query.equal('replication_session', rest.Ref('x', 1))
        self.assertFalse(wanted.admits(record))


@ddt.ddt
class ConditionTest(unittest.TestCase):

    @ddt.data(
        (query.equal('name', 'v-1'), 'name=v-1'),
        (query.equal('size', 1048576), 'size=1048576'),
        (query.equal('is_dedup', True), 'is_dedup=true'),
        (query.equal('volume_group', rest.Ref('volume_groups', 14)),
         'volume_group.ref=/volume_groups/14'),
        (query.equal('name', 'a+b&c=d e'), 'name=a%2Bb%26c%3Dd%20e'),
        (query.equal('pwwn', '50:01:ab'), 'pwwn=50:01:ab'),
        (query.prefix('name', 'cv-'), 'name__prefix=cv-'),
        (query.one_of('pwwn', ['50:01', '50:02']), 'pwwn__in=50:01,50:02'),
        (query.one_of('name', ['a', 'b', 'a']), 'name__in=a,b'),
        (query.one_of('volume', [rest.Ref('volumes', 1),
                                 rest.Ref('volsnaps', 2)]),
         'volume.ref__m_eq=/volumes/1,/volsnaps/2'))
    @ddt.unpack
    def test_encoding(self, condition, wire):
        self.assertEqual(
            [wire], [query.encode(p) for p in splits([condition])])

    def test_conditions_share_a_request(self):
        self.assertEqual(
            [[('name', 'a'), ('iqn__prefix', 'b')]],
            sent(query.equal('name', 'a'), query.prefix('iqn', 'b')))

    def test_no_condition_is_one_request(self):
        self.assertEqual([[]], list(splits([])))

    def test_one_of_no_values_is_no_request(self):
        self.assertEqual([], list(splits([query.one_of('name', [])])))

    @ddt.data('', None)
    def test_an_empty_value_is_refused(self, value):
        """QRY-3: the array would find everything."""
        for make in (query.equal, query.prefix):
            with self.assertRaises(ValueError):
                make('name', value)
        with self.assertRaises(ValueError):
            query.one_of('name', ['a', value])

    def test_quotes_around_a_value_are_doubled(self):
        """QRY-8: the array drops one pair."""
        self.assertEqual([[('name', '""a""')]],
                         sent(query.equal('name', '"a"')))
        self.assertEqual([[('name', 'a"')]], sent(query.equal('name', 'a"')))
        self.assertEqual([[('name', '"')]], sent(query.equal('name', '"')))

    def test_values_with_commas_or_quotes_are_sent_alone(self):
        self.assertEqual(
            [[('name__in', 'a,c')], [('name', 'b,b')], [('name', '""q""')]],
            sent(query.one_of('name', ['a', 'b,b', 'c', '"q"'])))

    def test_two_long_lists_make_a_product(self):
        names = [f'{n:040}' for n in range(200)]
        requests = sent(query.one_of('name', names),
                        query.one_of('short_name', names))
        asked = {(a, b) for (_, left), (_, right) in requests
                 for a in left.split(',') for b in right.split(',')}
        self.assertEqual(200 * 200, len(asked))
        for request in requests:
            self.assertLess(len(parse.urlencode(request, safe=',')), 6000)


@ddt.ddt
class AdmitsTest(unittest.TestCase):
    """QRY-5: the client checks every condition itself."""

    GROUP = rest.Ref('volume_groups', 14)
    VOLUME = rest.Volume(id=31, name='v-1', size=5, volume_group=GROUP)

    @ddt.data(
        (query.equal('name', 'v-1'), True), (query.equal('name', 'v'), False),
        (query.prefix('name', 'v-'), True), (query.prefix('name', '-'), False),
        (query.one_of('name', ['x', 'v-1']), True),
        (query.one_of('name', ['x', 'y']), False),
        (query.one_of('volume_group', [
            rest.Ref('volume_groups', 13), GROUP]), True),
        (query.equal('volume_group', rest.Ref('volume_groups', 13)), False),
        (query.equal('description', 'x'), False),
        (query.equal('scsi_sn', 'x'), None),
        (query.equal('no_such_field', 'x'), None))
    @ddt.unpack
    def test_admits(self, condition, expected):
        self.assertIs(expected, condition.admits(self.VOLUME))

    def test_missing_description(self):
        """Null means empty; a missing one may have any value."""
        volume = rest.Volume(id=31, unread=frozenset({'description'}))
        self.assertIsNone(query.equal('description', 'x').admits(volume))

    def test_each(self):
        self.assertEqual(
            [query.equal('name', 'a'), query.equal('name', 'b')],
            list(query.one_of('name', ['a', 'b']).each()))

    def test_single_value_under_the_list_key(self):
        """Some known forms take one value as a list (section 16)."""
        one = query.equal('volume_group', self.GROUP)
        self.assertEqual(
            [[(one.list_key, '/volume_groups/14')]],
            list(query.requests([(one.list_key, one)])))
        self.assertEqual('volume_group.ref__m_eq', one.list_key)


class EncodingTest(unittest.TestCase):

    @given(TEXTS)
    def test_any_text_survives_encoding(self, text):
        (((key, value),),) = sent(query.equal('name', text))
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        self.assertEqual(('name', text), (key, value))

    @given(TEXTS)
    def test_encoded_query_is_plain_ascii(self, text):
        (wire,) = map(query.encode, splits([query.equal('n', text)]))
        self.assertRegex(wire, r'\An=[A-Za-z0-9._~/:%-]+\Z')

    @given(st.lists(TEXTS, unique=True, max_size=300))
    def test_lists_ask_for_each_value_once_in_short_urls(self, values):
        asked = []
        for pairs in splits([query.one_of('name', values)]):
            self.assertLess(len(query.encode(pairs)), 6000)
            ((key, value),) = pairs
            parts = value.split(',') if key == 'name__in' else [value]
            asked += map(parse.unquote, parts)
        expected = [f'"{v}"' if len(v) > 1 and v[0] == v[-1] == '"' else v
                    for v in values]
        self.assertEqual(sorted(expected), sorted(asked))

    @given(st.lists(REFS, unique=True, min_size=1, max_size=1500))
    def test_lists_of_references(self, refs):
        asked = []
        for pairs in splits([query.one_of('volume', refs)]):
            self.assertLess(len(query.encode(pairs)), 6000)
            ((key, value),) = pairs
            self.assertEqual('volume.ref__m_eq' if len(refs) > 1
                             else 'volume.ref', key)
            asked += map(rest.Ref.parse, value.split(','))
        self.assertEqual(refs, asked)
