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

import ipaddress
import unittest

import ddt
from hypothesis import given
from hypothesis import strategies as st

from cinder_k2 import rest
from cinder_k2.rest import address

PORTS = st.integers(1, 65535)
LABELS = st.from_regex(r'[a-z]([a-z0-9-]{0,20}[a-z0-9])?', fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map('.'.join)


@ddt.ddt
class ParseTest(unittest.TestCase):

    @ddt.data(
        ('10.0.0.1', '10.0.0.1', 443),
        ('10.0.0.1:8443', '10.0.0.1', 8443),
        (' K2.Example.com ', 'k2.example.com', 443),
        ('k2.example.com.', 'k2.example.com.', 443),
        ('k2:80', 'k2', 80),
        ('my_array', 'my_array', 443),
        ('fd00:0::1', 'fd00::1', 443),
        ('[fd00::1]', 'fd00::1', 443),
        ('[fd00::1]:8443', 'fd00::1', 8443),
        ('::1', '::1', 443),
        ('fd00::1:8443', 'fd00::1:8443', 443))
    @ddt.unpack
    def test_valid_forms(self, text, host, port):
        self.assertEqual(address.Address(host, port), address.parse(text))

    @ddt.data(
        '', ' ', ':', ':443', 'k2:', 'k2:x', 'k2:-1', 'k2:0', 'k2:65536',
        'k2:123456', 'https://k2', 'https://10.0.0.1/', 'k2/api', 'k2 b',
        '10.0.0', '10.0.0.256', '1.2.3.4.5', '[10.0.0.1]', '[k2]:443',
        '[fd00::1', 'fd00::1]', '[fd00::1]x', '[fd00::1]:', '[]', '[]:443',
        'fd00:::1', 'fe80::1%eth0', '-k2', 'k2-', 'k2..b', '.k2',
        'a' * 64, 'admin@k2', 'k2?x', 'k2#x', 'k\u00e4', 'k2\nb',
        '.'.join(['abcdefgh'] * 32))
    def test_invalid_forms(self, text):
        with self.assertRaises(rest.InvalidSettings) as caught:
            address.parse(text)
        self.assertIn('san_ip', str(caught.exception))

    def test_port_from_option(self):
        self.assertEqual(8443, address.parse('k2', 8443).port)
        self.assertEqual(8443, address.parse('k2:8443', 8443).port)
        with self.assertRaisesRegex(rest.InvalidSettings, 'san_api_port'):
            address.parse('k2:8443', 443)
        for port in (0, -1, 65536):
            with self.assertRaises(rest.InvalidSettings):
                address.parse('k2', port)

    @given(st.one_of(NAMES, st.ip_addresses(v=4).map(str)), PORTS)
    def test_names_and_ipv4(self, host, port):
        self.assertEqual(address.Address(host), address.parse(host))
        self.assertEqual(address.Address(host, port),
                         address.parse(f'{host}:{port}'))
        self.assertEqual(address.Address(host, port),
                         address.parse(host, port))

    @given(st.ip_addresses(v=6), PORTS, st.booleans())
    def test_ipv6(self, ip, port, exploded):
        text = ip.exploded if exploded else ip.compressed
        for form in (text, f'[{text}]', text.upper()):
            self.assertEqual(ip.compressed, address.parse(form).host)
        self.assertEqual(address.Address(ip.compressed, port),
                         address.parse(f'[{text}]:{port}'))

    @given(st.one_of(NAMES, st.ip_addresses().map(str)), PORTS)
    def test_str_round_trip(self, host, port):
        first = address.parse(host, port)
        self.assertEqual(first, address.parse(str(first)))

    @given(st.text(max_size=40))
    def test_any_text_is_parsed_or_refused(self, text):
        try:
            found = address.parse(text)
        except rest.InvalidSettings:
            return
        self.assertFalse(set('/@?#%[] \n') & set(found.host))
        self.assertTrue(found.host.isascii() and 0 < found.port < 65536)
        if ':' in found.host:
            ipaddress.IPv6Address(found.host)
