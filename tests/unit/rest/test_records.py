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

import json
import pickle
import unittest

import ddt
from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import rest
from cinder_k2.rest import records

VOLUME = {
    'id': 31, 'name': 'vol-1', 'size': 10485760,
    'volume_group': {'ref': '/volume_groups/14'}, 'description': None,
    'is_dedup': True, 'scsi_sn': 'a1b20007', 'marked_for_deletion': False,
    'read_only': False, 'a_field_of_tomorrow': [1]}


@ddt.ddt
class RefTest(unittest.TestCase):

    @given(st.sampled_from(['volumes', 'system/net_ips']),
           st.integers(1, 10 ** 12))
    def test_what_is_printed_is_read_again(self, resource, id):
        ref = rest.Ref(resource, id)
        self.assertEqual(ref, rest.Ref.parse(str(ref)))
        self.assertEqual({'ref': f'/{resource}/{id}'}, ref.to_json())

    @ddt.data('', '/', '/volumes', '/volumes/', 'volumes/3', '/volumes/x',
              '/volumes/-3', '/3', '//3')
    def test_no_reference(self, text):
        with self.assertRaises(ValueError):
            rest.Ref.parse(text)

    def test_order_of_use(self):
        self.assertEqual(1, len({rest.Ref('volumes', 1),
                                 rest.Ref('volumes', 1)}))
        ref = rest.Ref('volumes', 1)
        self.assertEqual(ref, pickle.loads(pickle.dumps(ref)))


@ddt.ddt
class RecordTest(unittest.TestCase):

    def test_a_volume(self):
        self.assertEqual(
            rest.Volume(id=31, name='vol-1', size=10485760,
                        volume_group=rest.Ref('volume_groups', 14),
                        is_dedup=True, scsi_sn='a1b20007'),
            rest.Volume.from_json(VOLUME))

    def test_its_own_reference(self):
        self.assertEqual(rest.Ref('volumes', 31),
                         rest.Volume.from_json(VOLUME).ref)
        self.assertEqual('/system/net_ips/2', str(
            rest.NetIp(id=2, ip_address='10.0.0.2').ref))

    def test_what_is_absent_or_null_has_its_default(self):
        record = rest.Volume.from_json({'id': 1, 'name': 'v', 'size': 1})
        self.assertEqual((None, None, False),
                         (record.volume_group, record.is_dedup,
                          record.marked_for_deletion))
        null = {'id': 1, 'is_deleted': None, 'source': None}
        self.assertEqual(rest.Snapshot(id=1), rest.Snapshot.from_json(null))

    @ddt.data(None, {}, '')
    def test_empty_references(self, empty):
        """OBJ-9: three ways of saying "none"."""
        record = rest.Host.from_json(
            {'id': 1, 'name': 'h', 'host_group': empty})
        self.assertIsNone(record.host_group)

    @ddt.data(('5', 5), (5.0, 5), (5, 5), ('5.0', 5))
    @ddt.unpack
    def test_numbers_come_in_any_form(self, sent, read):
        record = rest.Volume.from_json(VOLUME | {'size': sent})
        self.assertEqual((read, int), (record.size, type(record.size)))

    @ddt.data(('true', True), ('False', False), (True, True), (False, False))
    @ddt.unpack
    def test_booleans_come_in_any_case(self, sent, read):
        self.assertIs(read, rest.Volume.from_json(
            VOLUME | {'is_dedup': sent}).is_dedup)

    @ddt.data(
        ({'id': None}, 'no id'), ({'name': None}, 'no name'),
        ({'size': 'big'}, 'size'),
        ({'size': True}, 'size'), ({'size': float('inf')}, 'size'),
        ({'id': [1]}, 'id'), ({'name': 5}, 'name'),
        ({'is_dedup': 'perhaps'}, 'is_dedup'),
        ({'volume_group': {'ref': 'x'}}, 'volume_group'),
        ({'volume_group': {'ref': 5}}, 'volume_group'),
        ({'volume_group': '/volume_groups/1'}, 'volume_group'))
    @ddt.unpack
    def test_what_cannot_be_used(self, change, word):
        with self.assertRaisesRegex(ValueError, word):
            rest.Volume.from_json(VOLUME | change)

    @ddt.data(None, [], 'x', 5)
    def test_no_object(self, data):
        with self.assertRaises(ValueError):
            rest.Volume.from_json(data)

    @given(st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda inner: st.dictionaries(
            st.sampled_from(rest.Volume.field_names()) | st.just('ref'),
            inner)))
    def test_anything_is_a_record_or_a_value_error(self, data):
        try:
            record = rest.Volume.from_json(data)
        except ValueError:
            return
        self.assertIsInstance(record.id, int)

    def test_every_key_is_a_field(self):
        kinds = records.Record.__subclasses__()
        self.assertEqual(19, len(kinds))
        for kind in kinds:
            self.assertLessEqual(set(kind.KEY), set(kind.field_names()))
            # Rows of statistics have none (STA-1).
            self.assertEqual(kind is not rest.Performance,
                             'id' in kind.field_names())
            json.dumps(kind.field_names())

    def test_what_statistics_can_do_without_may_be_anything(self):
        self.assertEqual(
            rest.Capacity(id=1, total=9, free=3),
            rest.Capacity.from_json({'id': 1, 'total': 9, 'free': 3,
                                     'state': 4, 'physical': 'much'}))
        for missing in ({'total': 'much', 'free': 3}, {'total': 9}):
            with self.assertRaises(ValueError):
                rest.Capacity.from_json({'id': 1, **missing})
        with self.assertRaises(ValueError):
            rest.Volume.from_json({**VOLUME, 'size': 'much'})


class MatchesTest(unittest.TestCase):

    def test_case_counts_in_names(self):
        host = rest.Host(id=1, name='Node')
        self.assertTrue(records.matches(host, {'name': 'Node'}))
        self.assertFalse(records.matches(host, {'name': 'node'}))

    def test_initiators_have_many_forms(self):
        port = rest.HostFcPort(id=1, pwwn='50:01:43:80:24:d0:c2:9e')
        self.assertTrue(records.matches(port, {'pwwn': '5001438024D0C29E'}))
        self.assertFalse(records.matches(port, {'pwwn': '5001438024d0c29f'}))
        iqn = rest.HostIqn(id=1, iqn='iqn.1993-08.org.debian:01:AB')
        self.assertTrue(records.matches(
            iqn, {'iqn': 'iqn.1993-08.org.Debian:01:ab'}))

    def test_references_and_unknown_fields(self):
        host = rest.Host(id=1, name='n')
        group = rest.Ref('host_groups', 2)
        self.assertFalse(records.matches(host, {'host_group': group}))
        self.assertTrue(records.matches(host, {'no_such_field': 5}))
