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

"""Values that the charm writes, read back by Cinder's oslo.config."""

import pathlib
import re
import unittest

import cinder
import hypothesis
from hypothesis import strategies as st

import oslo
from tests.charm import cinder_conf

EDGES = ('', '$', '$$', '\\$', '\\\\$', '${san_ip}', '$san_ip', '"', "''",
         '" "', ' x ', '#x', 'a,b', 'a:b', '[x]', 'é', '\x85', 'a\nb')
# Any text, often with characters that are special to oslo.config.
TEXTS = st.one_of(st.text(), st.text('$\\{}\'" ,:=#;[]ab\t\n'),
                  st.sampled_from(EDGES))


class ValueTest(unittest.TestCase):

    def read(self, written, key):
        return getattr(cinder_conf.section(
            f'[k2a]\n{key} = {written}\n', 'k2a'), key)

    @hypothesis.given(TEXTS)
    def test_a_text_comes_out_as_it_was_or_is_refused(self, text):
        try:
            written = oslo.value(text)
        except oslo.InvalidText:
            self.assertFalse(text.isprintable(), text)
        else:
            self.assertEqual(text, self.read(written, 'san_password'))

    @hypothesis.given(st.dictionaries(
        st.sampled_from(['backend_id', 'san_ip', 'login', 'password']), TEXTS,
        min_size=1))
    def test_a_device_comes_out_as_it_was_or_is_refused(self, fields):
        try:
            written = oslo.device(fields)
        except oslo.InvalidText:
            return
        self.assertEqual([fields], self.read(written, 'replication_device'))

    def test_common_texts_are_not_refused(self):
        for text in ('pa$word', '$$', '\\$x', ' blank ', '"quoted"', "'q'",
                     'a=b#c;d', 'a,b:c', '[k2]', 'pässword', '"'):
            self.assertEqual(text, self.read(oslo.value(text),
                                             'san_password'))
        device = {'backend_id': 'dr', 'san_ip': '[fd00::1]:8443',
                  'password': 'a:$b"\\'}
        self.assertEqual([device], self.read(oslo.device(device),
                                             'replication_device'))

    def test_a_refused_text_is_not_quoted(self):
        for refused in (lambda: oslo.value('hush\nhush'),
                        lambda: oslo.device({'password': 'hush,hush'})):
            with self.assertRaises(oslo.InvalidText) as caught:
                refused()
            self.assertNotIn('hush', str(caught.exception))


class SectionTest(unittest.TestCase):

    @hypothesis.given(st.one_of(TEXTS, st.from_regex(
        r'[A-Za-z0-9._-]{1,20}', fullmatch=True)))
    def test_a_name_is_found_again_or_refused(self, name):
        try:
            oslo.section(name)
        except oslo.InvalidText:
            return
        found = cinder_conf.section(f'[{name}]\nsan_ip = there\n', name)
        self.assertEqual('there', found.san_ip)
        joined = cinder_conf.section(
            f'[x]\nk2_iscsi_cidrs = {name},{name}\n', 'x')
        self.assertEqual([name, name], joined.k2_iscsi_cidrs)

    def test_names_of_cinders_own_sections_are_refused(self):
        # Parsed, not imported: it imports every driver and its dependencies.
        text = pathlib.Path(cinder.__file__).with_name('opts.py').read_text()
        theirs = {*re.findall(r"^ +\('([\w-]+)',$", text, re.M), 'database',
                  'oslo_messaging_rabbit', 'keystone_authtoken'}
        self.assertIn('fc-zone-manager', theirs)
        for name in theirs:
            for written in (name, name.upper()):
                with self.assertRaises(oslo.InvalidText):
                    oslo.section(written)
