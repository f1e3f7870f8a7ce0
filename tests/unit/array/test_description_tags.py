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

import hypothesis
from hypothesis import strategies as st
import testtools

from cinder_k2.array import description_tags

_TEXT = st.text(st.characters(exclude_characters='[]'), max_size=40)


class DescriptionTagsTest(testtools.TestCase):

    def test_no_description(self) -> None:
        self.assertEqual('', description_tags.read(None, 'name'))
        self.assertEqual('', description_tags.write(None, 'name', ''))

    def test_other_text_stays(self) -> None:
        noted = description_tags.write('of the admin', 'name', 'web-1')
        self.assertEqual('of the admin [cinder name: web-1]', noted)
        self.assertEqual(
            'of the admin', description_tags.write(noted, 'name', ''))

    @hypothesis.given(_TEXT, _TEXT, _TEXT)
    def test_tags_are_independent(
            self, own: str, first: str, second: str) -> None:
        text = description_tags.write(
            description_tags.write(own, 'a', first), 'b', 'x' + second)
        text = description_tags.write(text, 'a', 'y' + first)
        self.assertEqual('y' + first, description_tags.read(text, 'a'))
        self.assertEqual('x' + second, description_tags.read(text, 'b'))
        text = description_tags.write(
            description_tags.write(text, 'a', ''), 'b', '')
        self.assertEqual(own.strip(), text)
