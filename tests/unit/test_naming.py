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

from cinder_k2 import naming

UUID = '00000000-0000-4000-8000-000000000001'


class NamesTest(unittest.TestCase):

    def test_names_are_those_of_the_in_tree_driver(self):
        self.assertEqual(f'cv-{UUID}', naming.volume(UUID))
        self.assertEqual(f'cvg-{UUID}', naming.volume_group(UUID))
        self.assertEqual(f'cs-{UUID}', naming.snapshot(UUID))

    def test_names_of_groups(self):
        self.assertEqual(f'ccg-{UUID}', naming.consistency_group(UUID))
        self.assertEqual(f'cgs-{UUID}', naming.group_snapshot(UUID))

    def test_names_of_replication(self):
        """Rulebook 10.3."""
        self.assertEqual(f'ssn-{UUID}', naming.session(UUID))
        self.assertEqual((f'ssn-{UUID}', f'rssn-{UUID}'),
                         naming.session_names(UUID))
        self.assertEqual(f'rcv-{UUID}', naming.peer(naming.volume(UUID)))
        self.assertEqual(f'rcvg-{UUID}',
                         naming.peer(naming.volume_group(UUID)))
        self.assertEqual(f'rccg-{UUID}',
                         naming.peer(naming.consistency_group(UUID)))

    def test_names_fit_the_array(self):
        """Rulebook section 12: 42 characters at most; REP-7: 41."""
        for name in (naming.volume, naming.volume_group, naming.snapshot,
                     naming.clone_source, naming.consistency_group,
                     naming.group_snapshot, naming.session):
            self.assertLessEqual(len(name(UUID)), 42)
        for name in (naming.volume, naming.volume_group,
                     naming.consistency_group, naming.session):
            self.assertLessEqual(len(naming.peer(name(UUID))), 41)

    def test_ids_are_read_from_names(self):
        for name in (naming.volume, naming.volume_group, naming.snapshot):
            self.assertEqual(UUID, naming.cinder_id(name(UUID)))
        for name in (naming.volume, naming.volume_group):
            self.assertEqual(UUID, naming.cinder_id(naming.peer(name(UUID))))
        for name in (None, '', UUID, f'cv-{UUID}0', 'cv-data', f'ccs-{UUID}',
                     f'rcs-{UUID}', f'rrcv-{UUID}', f'rssn-{UUID}',
                     f'xcv-{UUID}', f'cgs-{UUID}'):
            self.assertIsNone(naming.cinder_id(name))

    def test_internal_names(self):
        for name in ('CTRL', naming.kept_volume(7), naming.clone_source(UUID),
                     naming.temporary_view(UUID)):
            self.assertTrue(naming.is_internal(name), name)
        for name in (None, '', 'ctrl', 'CTRL2', 'data', naming.volume(UUID),
                     naming.snapshot(UUID)):
            self.assertFalse(naming.is_internal(name), name)

    def test_volumes_of_cinder(self):
        for name in (naming.volume(UUID), naming.peer(naming.volume(UUID))):
            self.assertTrue(naming.is_volume(name), name)
        for name in (None, 'data', naming.volume_group(UUID),
                     naming.snapshot(UUID), naming.session(UUID)):
            self.assertFalse(naming.is_volume(name), name)

    def test_snapshots_of_cinder(self):
        for name in (naming.snapshot, naming.group_snapshot, naming.volume,
                     naming.clone_source, naming.temporary_view):
            self.assertTrue(naming.is_snapshot(name(UUID)), name)
        for name in (None, '', 'repl-59', 'rpo_7', f'rcs-{UUID}'):
            self.assertFalse(naming.is_snapshot(name), name)

    def test_groups_not_dedicated_to_one_volume(self):
        """VG-10, and consistency groups."""
        for name in (naming.consistency_group(UUID), 'INDEPENDENT_4',
                     naming.peer(naming.consistency_group(UUID)),
                     'x_INDEPENDENT_'):
            self.assertTrue(naming.is_foreign_group(name), name)
        for name in ('data', naming.volume_group(UUID),
                     naming.peer(naming.volume_group(UUID))):
            self.assertFalse(naming.is_foreign_group(name), name)


class HostNamesTest(unittest.TestCase):

    @given(st.text(max_size=80), st.lists(st.text(max_size=40), max_size=4))
    def test_every_host_name_is_valid_and_known_as_ours(self, host, names):
        """HST-1: 32 characters at most, letters, digits, - and _."""
        name = naming.host(host, names)
        self.assertRegex(name, r'\A[0-9A-Za-z_-]{1,32}\Z')
        self.assertTrue(naming.is_our_host(name))

    def test_similar_prefixes_give_different_names(self):
        begin = 'compute-0001.rack-12.az1.region-one.'
        self.assertNotEqual(naming.host(begin + 'a', ['iqn.1']),
                            naming.host(begin + 'b', ['iqn.1']))

    def test_same_name_with_other_initiators_is_another_host(self):
        self.assertNotEqual(naming.host('localhost', ['iqn.1']),
                            naming.host('localhost', ['iqn.2']))

    def test_order_of_initiators_does_not_matter(self):
        self.assertEqual(naming.host('node', ['a', 'b']),
                         naming.host('node', ['b', 'a']))

    def test_case_of_initiators_does_not_matter(self):
        """INI-4, INI-5."""
        self.assertEqual(naming.host('node', ['IQN.X:b', 'iqn.x:A']),
                         naming.host('node', ['iqn.x:a', 'iqn.x:B']))

    def test_hosts_named_by_their_iqns(self):
        """INI-5: IQNs are case-insensitive."""
        name = naming.host_of_iqn('iqn.x:Node')
        self.assertTrue(naming.is_our_host(name))
        self.assertEqual(name, naming.host_of_iqn('IQN.X:node'))
        self.assertNotEqual(name, naming.host_of_iqn('iqn.y:node'))

    def test_one_host_with_other_initiators(self):
        """Such names differ only in the digest."""
        name = naming.host('node', ['a', 'b'])
        for other, may_be in (
                (naming.host('node', ['a']), True),
                (naming.host('node2', ['a']), False),
                (naming.host('no', ['a']), False), ('cinder-node', False),
                ('cinder-node-0123456x', False)):
            self.assertEqual(may_be, naming.may_be_same_host(name, other))
            self.assertEqual(may_be, naming.may_be_same_host(other, name))

    def test_hosts_of_others_are_not_ours(self):
        for name in ('compute-1', 'cinder', 'cinder-node1',
                     'cinder-node1-0123456', 'xcinder-node1-01234567',
                     'cinder-node1-01234567\n', 'cinder-node1-0123456G'):
            self.assertFalse(naming.is_our_host(name), name)


class ChapNamesTest(unittest.TestCase):

    @given(st.text(max_size=80))
    def test_every_profile_name_is_valid_and_known_as_ours(self, iqn):
        name = naming.chap_profile(iqn)
        self.assertRegex(name, r'\A[0-9A-Za-z_-]{1,32}\Z')
        self.assertTrue(naming.is_our_chap_profile(name))

    def test_iqns_are_case_insensitive(self):
        """INI-5."""
        self.assertEqual(naming.chap_profile('iqn.x:Host'),
                         naming.chap_profile('IQN.X:host'))

    def test_similar_suffixes_give_different_names(self):
        self.assertNotEqual(naming.chap_profile('iqn.a:host'),
                            naming.chap_profile('iqn.b:host'))

    def test_profiles_of_others_are_not_ours(self):
        for name in ('theirs', 'cinder', 'cinder-node1'):
            self.assertFalse(naming.is_our_chap_profile(name), name)
