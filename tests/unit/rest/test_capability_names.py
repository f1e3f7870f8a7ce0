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

from cinder_k2.rest import capability_names


@ddt.ddt
class DescriptionTest(unittest.TestCase):
    """Texts for logs and for ``k2-admin capabilities``."""

    @ddt.data(('bulk:volumes:create', 'bulk'), ('bulk', 'bulk'),
              ('creations:volumes:x', 'creations'),
              ('searches:host_iqns:iqn', 'searches:host_iqns'),
              ('updates:volumes:description', 'updates:volumes:description'),
              ('paging', 'paging'), ('sequence', 'sequence'),
              ('creations:host_auth_profiles:name',
               'creations:host_auth_profiles'))
    @ddt.unpack
    def test_longest_prefix_wins(self, name, part):
        self.assertEqual(capability_names.CAPABILITIES[part],
                         capability_names.describe(name))

    def test_unknown_name(self):
        self.assertEqual(('x:y', 'operations that need it fail'),
                         capability_names.describe('x:y'))

    @ddt.data(*sorted(capability_names.CAPABILITIES.items()))
    @ddt.unpack
    def test_descriptions_are_sentence_fragments(self, name, texts):
        """No capital at the start and no full stop."""
        self.assertRegex(name, r'^[a-z_-]+(:[a-z_/]+)*$')
        for text in texts:
            self.assertRegex(
                text, r'^([a-z]+|CHAP|iSCSI|k2-admin) .*[a-z0-9)]$')

    @ddt.data(('bulk:x:y', 'one by one'), ('reads:volumes', 'in a list'),
              ('updates:volumes:volume_group', 'consistency groups'),
              ('updates:volumes:other', 'need them fail'))
    @ddt.unpack
    def test_description_of_longest_matching_name(self, name, text):
        self.assertIn(text, capability_names.describe(name)[1])
