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

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.db import provider_id

ids = st.integers(min_value=1, max_value=2 ** 63)
flags = st.booleans()
objects = st.one_of(
    st.builds(ArrayVolume, group=ids, volume=ids, has_clones=flags,
              shared=flags, flattening=flags),
    st.builds(ArrayVolume, group=ids, volume=ids, parent=ids, parent_group=ids,
              hidden_parent=flags, has_clones=flags, shared=flags),
    st.builds(ArrayVolume, group=ids, view=ids, volsnap=ids, origin=ids,
              parent=ids, hidden_parent=flags, has_clones=flags))
snapshots = st.builds(
    ArraySnapshot, snapshot=ids, group=ids, volume=st.none() | ids,
    view=st.none() | ids, has_clones=flags, shared=flags)


class ProviderIdTest(unittest.TestCase):

    @given(objects)
    def test_volume_encode_and_decode(self, backing):
        value = provider_id.encode('0123456789abcdef', backing, '8' * 36)
        self.assertLessEqual(len(value), 255)
        self.assertEqual(backing, provider_id.decode(
            ArrayVolume, '0123456789abcdef', value, '8' * 36))

    @given(snapshots)
    def test_snapshot_encode_and_decode(self, snapshot):
        value = provider_id.encode('a1b2', snapshot)
        self.assertEqual(snapshot,
                         provider_id.decode(ArraySnapshot, 'a1b2', value))

    @given(st.none() | st.text() | st.sampled_from(
        ['[]', '{}', 'null', '7', '{"system":"a1b2"}',
         '{"system":"a1b2","group":1,"colour":2}']))
    def test_other_values_decode_to_none(self, value):
        self.assertIsNone(provider_id.decode(ArrayVolume, 'a1b2', value))

    def test_ids_of_another_array_are_ignored(self):
        value = provider_id.encode('a1b2', ArrayVolume(group=1, volume=2))
        self.assertIsNone(provider_id.decode(ArrayVolume, 'c3d4', value))

    def test_ids_of_another_row_are_ignored(self):
        """Cinder copies provider_id to rows of migration targets."""
        backing = ArrayVolume(group=1, volume=2)
        value = provider_id.encode('a1b2', backing, 'c0ffee00-1')
        self.assertIsNone(provider_id.decode(ArrayVolume, 'a1b2', value,
                                             'c0ffee01-1'))
        self.assertEqual(backing, provider_id.decode(ArrayVolume, 'a1b2',
                                                     value,
                                                     'c0ffee00-1'))
