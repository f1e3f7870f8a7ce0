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

"""Redaction of texts from the array in reports that can be published."""

import unittest

import ddt

from cinder_k2.probe import words


@ddt.ddt
class PublicTest(unittest.TestCase):

    @ddt.data(
        ('Field vmware_support is read-only',) * 2,
        ('Unknown field: is_thin_clone',) * 2,
        ('MC_ERR_BUSY_SPECIFIC',) * 2,
        ('Name k2probe-0123abcd-v1 is in use', 'Name <own> is in use'),
        ('a limit of 42, not 4200', 'a limit of 42, not <...>'),
        ("Host 'prod db' (10.1.2.3) has mappings",
         "Host '<...> <...>' (<...>) has mappings"),
        ('<html><body>gw7.acme.example</body>', '<...>'))
    @ddt.unpack
    def test_redacted_text(self, text, told):
        self.assertEqual(told, words.public(text))
