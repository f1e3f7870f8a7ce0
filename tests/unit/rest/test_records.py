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
import typing
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


# All fields that any record requires.
NEEDED = {'id': 7, 'total': 5, 'free': 3}
FIELDS = st.sampled_from([(kind, name)
                          for kind in records.Record.__subclasses__()
                          for name in kind.field_names()])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers()
    | st.sampled_from(['12', 'True', '/volumes/1', '1e999', '1_0', 10 ** 400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=3) | st.just('ref'), inner, max_size=3))


def reads(kind, name, sent, read):
    """Whether a field that is sent as one value is read as the other."""
    try:
        found = getattr(kind.from_json({**NEEDED, name: sent}), name)
    except ValueError:
        return False
    return (found, type(found)) in ((read, type(read)), (read, float))


@ddt.ddt
class RefTest(unittest.TestCase):

    @given(st.sampled_from(['volumes', 'system/net_ips']),
           st.integers(1, 10 ** 12))
    def test_str_round_trip(self, resource, id):
        ref = rest.Ref(resource, id)
        self.assertEqual(ref, rest.Ref.parse(str(ref)))
        self.assertEqual({'ref': f'/{resource}/{id}'}, ref.to_json())

    @ddt.data('', '/', '/volumes', '/volumes/', 'volumes/3', '/volumes/x',
              '/volumes/-3', '/3', '//3')
    def test_invalid_references(self, text):
        with self.assertRaises(ValueError):
            rest.Ref.parse(text)

    def test_hash_and_pickle(self):
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

    def test_ref(self):
        self.assertEqual(rest.Ref('volumes', 31),
                         rest.Volume.from_json(VOLUME).ref)
        self.assertEqual('/system/net_ips/2', str(
            rest.NetIp(id=2, ip_address='10.0.0.2').ref))

    def test_absent_and_null_fields_have_defaults(self):
        record = rest.Volume.from_json({'id': 1, 'name': 'v', 'size': 1})
        self.assertEqual((None, None, False),
                         (record.volume_group, record.is_dedup,
                          record.marked_for_deletion))
        null = {'id': 1, 'is_deleted': None, 'source': None}
        self.assertEqual(rest.Snapshot(id=1), rest.Snapshot.from_json(null))

    @ddt.data(rest.Volume, rest.VolumeGroup)
    def test_a_missing_description_is_not_an_empty_one(self, kind):
        for data, unread in (({'description': None}, False),
                             ({'description': ''}, False),
                             ({'description': 'd'}, False), ({}, True)):
            self.assertEqual(unread, 'description' in kind.from_json(
                {'id': 1, 'name': 'n', **data}).unread, str(data))

    @ddt.data(None, {}, '')
    def test_empty_references(self, empty):
        """OBJ-9: three ways of saying "none"."""
        record = rest.Host.from_json(
            {'id': 1, 'name': 'h', 'host_group': empty})
        self.assertIsNone(record.host_group)

    @ddt.data(('5', 5), (5.0, 5), (5, 5), ('5.0', 5), ('5.9', 5), (' 5e0 ', 5),
              ('9007199254740993', 9007199254740993),
              ('+9007199254740993', 9007199254740993),
              ('-9007199254740993', -9007199254740993))
    @ddt.unpack
    def test_numbers_come_in_any_form(self, sent, read):
        record = rest.Volume.from_json(VOLUME | {'size': sent})
        self.assertEqual((read, int), (record.size, type(record.size)))

    @ddt.data(('true', True), ('False', False), (True, True), (False, False),
              (0, False), (1, True), (0.0, False), (1.0, True), ('0', False),
              ('1', True), ('1.0', True), (' TRUE ', True))
    @ddt.unpack
    def test_booleans_come_in_any_case(self, sent, read):
        self.assertIs(read, rest.Volume.from_json(
            VOLUME | {'is_dedup': sent}).is_dedup)

    @ddt.data(None, [1], True, False, 12.5, '12.5', 'x', '', {}, '1_2',
              '\u0661', float('inf'), float('nan'), '1e999')
    def test_invalid_ids(self, id):
        with self.assertRaisesRegex(ValueError, 'id'):
            rest.Volume.from_json(VOLUME | {'id': id})

    @ddt.data(12, 12.0, '12', '12.0', ' 12 ')
    def test_valid_ids(self, id):
        record = rest.Volume.from_json(VOLUME | {'id': id})
        self.assertEqual((12, int), (record.id, type(record.id)))

    @ddt.data(
        ('name', 5, ''), ('size', 'big', None), ('size', True, None),
        ('size', float('inf'), None), ('size', '\u0661', None),
        ('is_dedup', 'perhaps', None), ('is_dedup', 2, None),
        ('marked_for_deletion', {}, False), ('marked_for_deletion', 3, False),
        ('description', ['a'], None),
        ('volume_group', {'ref': 'x'}, None), ('volume_group', 14, None),
        ('volume_group', {'ref': 5}, None), ('volume_group', [], None))
    @ddt.unpack
    def test_unreadable_fields_have_defaults(self, name, value, default):
        overlooked = []
        record = rest.Volume.from_json(
            VOLUME | {name: value}, lambda *field: overlooked.append(field))
        self.assertEqual((default, {name}),
                         (getattr(record, name), record.unread))
        self.assertEqual([(name, value)], overlooked)
        self.assertEqual(31, record.id)

    @ddt.data('/volume_groups/14', {'ref': '/volume_groups/14', 'name': 'g'})
    def test_a_reference_in_any_form(self, sent):
        record = rest.Volume.from_json(VOLUME | {'volume_group': sent})
        self.assertEqual(rest.Ref('volume_groups', 14), record.volume_group)

    @ddt.data(1, 'x', [{'ref': 'x'}], {'id': 5}, True)
    def test_wan_port_is_set(self, sent):
        """NET-1: a WAN address is not for iSCSI, however it is marked."""
        ip = rest.NetIp.from_json({'id': 1, 'wan_port': sent})
        self.assertIsNotNone(ip.wan_port)

    @ddt.data(None, {}, '', False, 0, [])
    def test_wan_port_is_not_set(self, sent):
        self.assertIsNone(
            rest.NetIp.from_json({'id': 1, 'wan_port': sent}).wan_port)

    @ddt.data(rest.HostIqn, rest.HostFcPort)
    def test_initiator_with_an_unreadable_host_is_rejected(self, kind):
        """INI-1: one without a host would be assigned to another host."""
        self.assertIsNone(kind.from_json({'id': 1, 'host': None}).host)
        with self.assertRaisesRegex(ValueError, 'host'):
            kind.from_json({'id': 1, 'host': 'h'})

    def test_profile_with_unknown_hosts_may_be_in_use(self):
        """CHP-4."""
        for count, in_use in ((0, False), ('2', True), ('many', True)):
            self.assertEqual(in_use, rest.HostAuthProfile.from_json(
                {'id': 1, 'name': 'p', 'hosts_count': count}).in_use)
            self.assertEqual(in_use, rest.HostAuthProfile.from_json(
                {'id': 1, 'hosts_count': 0, 'host_groups_count': count}
            ).in_use)
        for untold in {}, {'hosts_count': None}, {'hosts_count': {}}:
            self.assertIs(True, rest.HostAuthProfile.from_json(
                {'id': 1, 'host_groups_count': 0, **untold}).in_use)

    @ddt.data(None, [], 'x', 5)
    def test_not_an_object(self, data):
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
            # Rows of statistics have no id (STA-1).
            self.assertEqual(kind is not rest.Performance,
                             'id' in kind.field_names())
            json.dumps(kind.field_names())

    @given(FIELDS, JSON)
    def test_any_field_may_be_anything(self, field, value):
        """Only bad values of required fields are rejected."""
        kind, name = field
        overlooked = []
        try:
            record = kind.from_json({**NEEDED, name: value},
                                    lambda *field: overlooked.append(field))
        except ValueError:
            self.assertIn(name, kind.NEEDED)
            return
        absent = kind.from_json({**NEEDED, name: None}
                                if name not in kind.NEEDED else NEEDED)
        for other in set(kind.field_names()) - {name}:
            self.assertEqual(getattr(absent, other), getattr(record, other))
        if overlooked:
            self.assertEqual([name], [name for name, _ in overlooked])
            self.assertEqual(getattr(absent, name), getattr(record, name))
            self.assertIn(name, record.unread)
        self.assertFalse(records.is_going(record)
                         and (value is None or overlooked))
        pickle.dumps(record)

    @given(FIELDS, st.integers(-9, 10 ** 12))
    def test_equal_numbers_read_equally(self, field, number):
        """Fields that do not hold numbers are skipped."""
        kind, name = field
        if not reads(kind, name, '12', 12):
            return
        read = [getattr(kind.from_json({**NEEDED, name: form}), name)
                for form in (number, float(number), f'{number}',
                             f'{number}.0', f' {number}')]
        self.assertEqual([number] * 5, read)
        self.assertEqual(1, len(set(map(type, read))))

    @given(FIELDS, st.booleans())
    def test_booleans_are_not_read_as_numbers(self, field, value):
        kind, name = field
        number = int(value)
        if reads(kind, name, 'true', True):
            for form in (value, number, float(number), str(value),
                         str(value).lower(), str(number), f'{number}.0'):
                self.assertTrue(reads(kind, name, form, value), form)
        elif reads(kind, name, '1', 1):
            self.assertFalse(reads(kind, name, value, number))

    def test_capacity_needs_only_total_and_free(self):
        self.assertEqual(
            rest.Capacity(id=1, total=9, free=3),
            rest.Capacity.from_json({'id': 1, 'total': 9, 'free': 3,
                                     'state': 4, 'physical': 'much'}))
        for missing in ({'total': 'much', 'free': 3}, {'total': 9},
                        {'total': 9, 'free': 'much'}, {'free': 3}):
            with self.assertRaises(ValueError):
                rest.Capacity.from_json({'id': 1, **missing})

    def test_defaults(self):
        """OBJ-10: absent fields are None, or '' and False for some."""
        for kind in records.Record.__subclasses__():
            record = kind.from_json(NEEDED)
            hints = typing.get_type_hints(kind)
            for name in set(kind.field_names()) - kind.NEEDED:
                default = {str: '', bool: False}.get(hints[name])
                found = getattr(record, name)
                self.assertEqual((default, type(default)),
                                 (found, type(found)), f'{kind} {name}')
        self.assertEqual(0, rest.Performance.from_json({}).id)

    def test_resources(self):
        self.assertEqual({
            rest.Volume: 'volumes', rest.VolumeGroup: 'volume_groups',
            rest.Snapshot: 'snapshots', rest.Volsnap: 'volsnaps',
            rest.Mapping: 'mappings', rest.Host: 'hosts',
            rest.HostGroup: 'host_groups', rest.HostIqn: 'host_iqns',
            rest.HostFcPort: 'host_fc_ports',
            rest.HostAuthProfile: 'host_auth_profiles',
            rest.RetentionPolicy: 'retention_policies',
            rest.PeerArray: 'replication/peer_k2arrays',
            rest.PeerVolume: 'replication/peer_volumes',
            rest.ReplicationSession: 'replication/sessions',
            rest.NetIp: 'system/net_ips', rest.FcPort: 'system/fc_ports',
            rest.SystemState: 'system/state',
            rest.Capacity: 'system/capacity',
            rest.Performance: 'stats/system'},
            {kind: kind.RESOURCE
             for kind in records.Record.__subclasses__()})

    def test_only_profiles_hold_secrets(self):
        self.assertEqual([rest.HostAuthProfile], [
            kind for kind in records.Record.__subclasses__() if kind.SECRET])

    @ddt.data(('ok', True), ('OK', True), (' Ok ', True), (None, True),
              ('', True), ('degraded', False), ('not ok', False))
    @ddt.unpack
    def test_health_states(self, word, healthy):
        """REP-19: no other word is documented."""
        self.assertIs(healthy, rest.FcPort(id=1, status=word).is_healthy)
        self.assertIs(healthy, rest.PeerArray(
            id=1, mgmt_connectivity_state=word).is_connected)

    @ddt.data(({'is_deleted': True}, rest.Snapshot, True),
              ({'is_deleted': False}, rest.Volsnap, False),
              ({'marked_for_deletion': True}, rest.Volume, True),
              ({}, rest.Volume, False), ({}, rest.Host, False))
    @ddt.unpack
    def test_objects_being_deleted(self, fields, kind, going):
        """QRY-10, VOL-17."""
        self.assertIs(going, records.is_going(
            kind.from_json({'id': 1, **fields})))

    def test_error_messages(self):
        with self.assertRaisesRegex(ValueError, '^its id is .{60}$'):
            rest.Volume.from_json({'id': 'x' * 100})
        with self.assertRaisesRegex(ValueError, '^no id in it$'):
            rest.Volume.from_json({'name': 'v'})
        with self.assertRaisesRegex(ValueError, '^an object was expected$'):
            rest.Volume.from_json([])


class MatchesTest(unittest.TestCase):

    def test_no_quota(self):
        """VG-2: zero means no quota."""
        for quota in (0, None):
            self.assertTrue(records.matches(
                rest.VolumeGroup(id=1, quota=quota), {'quota': None}))
        self.assertFalse(records.matches(
            rest.VolumeGroup(id=1, quota=5), {'quota': None}))

    def test_names_are_case_sensitive(self):
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

    def test_missing_fields_prove_nothing(self):
        """A missing field never means a missing object."""
        group = rest.Ref('volume_groups', 2)
        for data, undecided in (
                ({'name': 'v', 'volume_group': group.to_json()}, False),
                ({'name': 'v'}, True),
                ({'name': 'v', 'volume_group': 5}, True),
                # A volume is always in a group.
                ({'name': 'v', 'volume_group': None}, True),
                ({'volume_group': group.to_json()}, True),
                ({'name': 4, 'volume_group': group.to_json()}, True),
                ({'name': 'w', 'volume_group': 5}, False)):
            record = rest.Volume.from_json({'id': 1, **data})
            wanted = {'name': 'v', 'volume_group': group, 'no_such': 1}
            self.assertEqual(undecided, records.is_undecided(record, wanted),
                             str(data))

    def test_null_means_no_value(self):
        """Except in fields that always have one."""
        for kind, name, told in (
                (rest.Host, 'host_group', True),
                (rest.Snapshot, 'source', True),
                (rest.Volume, 'description', True),
                (rest.Volume, 'size', False),
                (rest.Snapshot, 'volume_group', False),
                (rest.Volume, 'volume_group', False)):
            record = kind.from_json({'id': 1, 'name': 'n', name: None})
            self.assertEqual(told, record.tells(name), kind)

    def test_conditions_that_only_the_array_checks(self):
        told = rest.Host(id=1, name='h')
        self.assertFalse(records.is_undecided(told, {}, ['name', 'other']))
        self.assertTrue(records.is_undecided(rest.Host(id=1), {}, ['name']))
        self.assertFalse(records.is_undecided(
            rest.Host(id=1, type='Linux'), {'type': 'ESX'}, ['name']))
