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

"""References that operators give, and pages of lists."""

import json
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2.array import inventory
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import manageable
from cinder_k2 import exceptions
from cinder_k2 import rest

VOLUMES = st.lists(st.builds(
    rest.Volume, id=st.integers(1, 99), name=st.text(min_size=1, max_size=4),
    size=st.integers(1, 5 << 20)), unique_by=lambda v: v.name)
ORDER = st.lists(st.tuples(st.sampled_from(['reference', 'size']),
                           st.sampled_from(['asc', 'desc'])), max_size=2)


class ReferenceTest(unittest.TestCase):

    def test_good_ones(self):
        for given_, name, key in (
                ({'source-name': 'a'}, 'a', None),
                ({'source-name': '7'}, '7', None),
                ({'source-name': ' a '}, ' a ', None),
                ({'source-id': '31'}, None, 31),
                ({'source-id': 31}, None, 31)):
            self.assertEqual(inventory.Reference(name=name, id=key),
                             manageable.reference(given_))

    def test_wrong_ones(self):
        for given_ in ({}, None, 'a', [], {'source-name': ''}, {'name': 'a'},
                       {'source-name': None}, {'source-id': None},
                       {'source-id': '-1'}, {'source-id': '\u0663'},
                       {'source-id': '1.0'}, {'source-id': 'volumes/1'},
                       {'source-id': '1', 'source-name': 'a'},
                       {'source-name': 'a', 'other': 'b'}):
            self.assertRaises(exceptions.NotManageable,
                              manageable.reference, given_)


class PageTest(unittest.TestCase):

    def pages(self, volumes, order, limit, **more):
        array = mock.MagicMock()
        driver = manage.Manage(array, mock.Mock(), mock.Mock())
        array.inventory.volumes.return_value = [
            inventory.FoundVolume(v, rest.VolumeGroup(id=1, name='g'), 0)
            for v in volumes]
        with mock.patch.object(manage.ownership, 'volumes',
                               autospec=True) as owners:
            owners.return_value.of.return_value = None
            return driver.get_manageable_volumes(
                [], limit=limit, **{'marker': None, 'offset': None, **more},
                sort_keys=[key for key, _ in order],
                sort_dirs=[direction for _, direction in order])

    @given(VOLUMES, ORDER, st.integers(1, 4))
    def test_pages_make_up_the_whole(self, volumes, order, limit):
        whole = self.pages(volumes, order, None)
        self.assertEqual(len(volumes), len(whole))
        read, marker = [], None
        while page := self.pages(volumes, order, limit, marker=marker):
            self.assertLessEqual(len(page), limit)
            read += page
            marker = json.dumps(page[-1]['reference'])
        self.assertEqual(whole, read)

    @given(VOLUMES, ORDER)
    def test_order(self, volumes, order):
        found = self.pages(volumes, order, None)
        for key, direction in order[:1]:
            values = [e[key] if key == 'size' else e[key]['source-name']
                      for e in found]
            self.assertEqual(sorted(values, reverse=direction == 'desc'),
                             values)

    @given(VOLUMES, st.integers(0, 5), st.integers(0, 5))
    def test_offset_and_limit(self, volumes, offset, limit):
        order = [('reference', 'asc')]
        whole = self.pages(volumes, order, None)
        self.assertEqual(whole[offset:offset + limit], self.pages(
            volumes, order, limit, offset=offset))
