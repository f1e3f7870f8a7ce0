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

"""Capability names in the documentation; see also the functional tests."""

import pathlib

import testtools

from cinder_k2.rest import capability_names

_PAGE = (pathlib.Path(__file__).parents[3]
         / 'doc/source/operator/k2-admin.rst')


class DocumentedTest(testtools.TestCase):

    def test_documentation_lists_each_capability(self):
        page = _PAGE.read_text()
        for name, texts in capability_names.CAPABILITIES.items():
            row = page.partition(f'* - ``{name}``\n')[2]
            row = row.partition('* -')[0].partition('\n\n')[0]
            self.assertEqual(
                ' - '.join(('', *texts)).strip(' '),
                ' '.join(row.replace('`', '').split()).strip(), name)
