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

import ddt

from cinder_k2 import volume_types

KNOWN = ('kaminario:thin_prov_type', 'kaminario:clone_strategy',
         'kaminario:replication', 'kaminario:replication_rpo',
         'kaminario:replication_target')


@ddt.ddt
class VolumeTypesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        volume_types._warn_of_unknown.cache_clear()

    @ddt.data(({}, True),
              ({'kaminario:thin_prov_type': 'dedup'}, True),
              ({'kaminario:thin_prov_type': 'nodedup'}, False),
              ({'kaminario:thin_prov_type': ' NoDedup '}, False),
              ({'kaminario:thin_prov_type': '<in> nodedup'}, False),
              ({'kaminario:thin_prov_type': 's== dedup'}, True),
              ({'kaminario:thin_prov_type': None}, True),
              ({'volume_backend_name': 'k2', 'hw:other': 'x'}, True))
    @ddt.unpack
    def test_deduplication(self, specs, dedup):
        self.assertEqual(dedup, volume_types.parse(specs).dedup)

    @ddt.data(({}, ()),
              ({'kaminario:clone_strategy': 'view'}, ('view',)),
              ({'kaminario:clone_strategy': 'copy'}, ('copy',)),
              ({'kaminario:clone_strategy': '<in> thin'}, ('thin',)),
              ({'kaminario:clone_strategy': 'View, thin,'},
               ('view', 'thin')))
    @ddt.unpack
    def test_clone_strategy(self, specs, wanted):
        self.assertEqual(wanted, volume_types.parse(specs).clone_strategies)

    @ddt.data(('thin_prov_type', 'thick', 'use "dedup" or "nodedup"'),
              ('thin_prov_type', '', 'use "dedup" or "nodedup"'),
              ('thin_prov_type', 'dedup/nodedup', 'use "dedup"'),
              ('thin_prov_type', 'dedup,nodedup', 'use "dedup"'),
              ('thin_prov_type', '<is> True', 'use "dedup"'),
              ('thin_prov_type', '<or> dedup <or> nodedup', 'use "dedup"'),
              ('clone_strategy', 'magic', 'thin, view, copy'),
              ('clone_strategy', 'thin, magic', 'thin, view, copy'),
              ('clone_strategy', ' ', 'thin, view, copy'),
              ('clone_strategy', ',', 'thin, view, copy'),
              ('replication', 'sometimes', 'use "enabled" or "disabled"'),
              ('replication_rpo', '', '60 or a multiple of 300'),
              ('replication_rpo', '0', '60 or a multiple of 300'),
              ('replication_rpo', '-300', '60 or a multiple of 300'),
              ('replication_rpo', '120', '60 or a multiple of 300'),
              ('replication_rpo', '301', '60 or a multiple of 300'),
              ('replication_rpo', '5m', '60 or a multiple of 300'),
              ('replication_rpo', '\u0663\u0660\u0660', '60 or a multiple'),
              ('replication_rpo', '3' + '0' * 5000, '60 or a multiple'),
              ('replication_target', ' ', 'the backend_id of a'))
    @ddt.unpack
    def test_invalid_value(self, key, value, allowed):
        key = f'kaminario:{key}'
        with self.assertRaises(volume_types.InvalidExtraSpec) as caught:
            volume_types.parse({key: value})
        self.assertTrue(str(caught.exception).startswith(
            f'{key} is "{value}"; use '), caught.exception)
        self.assertIn(allowed, str(caught.exception))

    @ddt.data('enabled', 'Enabled', '<is> True', 'true', 'yes')
    def test_replication_switched_on(self, value):
        self.assertEqual(
            volume_types.TypeSpec(replicated=True),
            volume_types.parse({'kaminario:replication': value}))

    @ddt.data('disabled', 'False', '<is> False', 'no', '', 'none', None)
    def test_replication_switched_off(self, value):
        self.assertEqual(
            volume_types.TypeSpec(),
            volume_types.parse({'kaminario:replication': value}))

    @ddt.data(({'replication_enabled': '<is> True'}, True),
              ({'replication_enabled': '<is> False'}, False),
              ({'replication_enabled': '<is> True',
                'kaminario:replication': 'disabled'}, False),
              ({'kaminario:replication': 'enabled'}, True))
    @ddt.unpack
    def test_replication_enabled_of_cinder(self, specs, replicated):
        """Cinder's extra spec counts if kaminario:replication is not set."""
        self.assertEqual(replicated, volume_types.parse(specs).replicated)

    @ddt.data(('60', 60), ('300', 300), (' 3600 ', 3600), ('s== 900', 900),
              (None, None))
    @ddt.unpack
    def test_replication_interval(self, value, wanted):
        self.assertEqual(wanted, volume_types.parse(
            {'kaminario:replication_rpo': value}).rpo)

    @ddt.data(('K2-b', 'K2-b'), ('<in> K2-b', 'K2-b'), (None, None),
              ('two words', 'two words'), ('10.0.0.2', '10.0.0.2'))
    @ddt.unpack
    def test_replication_target(self, value, wanted):
        self.assertEqual(wanted, volume_types.parse(
            {'kaminario:replication_target': value}).target)

    def test_unknown_keys_are_logged_once(self):
        """The in-tree driver ignores them, so types must keep working."""
        specs = {'kaminario:thin_prov_tipe': 'nodedup', 'Kaminario:x': 'y'}
        with self.assertLogs('cinder_k2.volume_types', 'WARNING') as caught:
            for _ in range(3):
                self.assertEqual(volume_types.TypeSpec(),
                                 volume_types.parse(specs))
        line, = caught.output
        for word in ('kaminario:thin_prov_tipe', *KNOWN):
            self.assertIn(word, line)

    def test_known_and_foreign_keys_are_not_logged(self):
        with self.assertNoLogs('cinder_k2.volume_types', 'WARNING'):
            volume_types.parse({
                **dict(zip(KNOWN, ('dedup', 'thin', 'disabled', '60', 'x'),
                           strict=True)),
                'capabilities:kaminario:x': 'y', 'multiattach': '<is> True'})

    def test_extra_specs(self):
        self.assertEqual(KNOWN, tuple(
            spec.key for spec in volume_types.EXTRA_SPECS))
        for spec in volume_types.EXTRA_SPECS:
            for value in spec.values:
                self.assertEqual((value,), spec.read(value))
            self.assertIn(spec.default, (None, *spec.values))
