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

import dataclasses
import pathlib
import tempfile
import unittest

import ddt

from cinder_k2 import rest
import k2_sim
from k2_sim.adapters import tls
from tests.unit.rest import scripted

DIGITS = '0123456789abcdef' * 4


def made(**fields):
    return rest.Settings(**{'address': '10.0.0.1', 'login': 'admin',
                            'password': 'Secr3t-word'} | fields)


@ddt.ddt
class SettingsTest(unittest.TestCase):

    @ddt.data(
        ({'address': 'https://k2'}, 'san_ip'),
        ({'address': 'k2:1', 'port': 2}, 'san_api_port'),
        ({'port': 0}, 'port'),
        ({'login': ''}, 'san_login'),
        ({'login': 'a:b'}, 'colon'),
        ({'password': ''}, 'san_password'),
        ({'fingerprint': 'abc'}, 'k2_tls_fingerprint'),
        ({'fingerprint': DIGITS + 'a'}, 'k2_tls_fingerprint'),
        ({'fingerprint': 'g' + DIGITS[1:]}, 'k2_tls_fingerprint'),
        ({'verify': True, 'ca_path': '/no/such'}, 'driver_ssl_cert_path'),
        ({'verify': True, 'ca_path': __file__}, 'no certificates'),
        ({'deadline': 0}, 'deadline'), ({'connect_timeout': -1}, 'connect'),
        ({'read_timeout': 0}, 'read'), ({'max_writes': 0}, 'max_writes'),
        ({'pool_size': 0}, 'pool_size'))
    @ddt.unpack
    def test_refused(self, fields, word):
        with self.assertRaisesRegex(rest.InvalidSettings, word) as caught:
            made(**fields)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertNotIn('Secr3t-word', str(caught.exception))

    @ddt.data(DIGITS, DIGITS.upper(), f' {DIGITS} ',
              ':'.join(DIGITS[n:n + 2] for n in range(0, 64, 2)),
              ' '.join(DIGITS[n:n + 4] for n in range(0, 64, 4)))
    def test_fingerprints(self, text):
        self.assertEqual(DIGITS, made(fingerprint=text).pin)

    @ddt.data(None, '', ' ')
    def test_no_fingerprint(self, text):
        self.assertIsNone(made(fingerprint=text).pin)

    def test_unused_path_is_not_checked(self):
        made(verify=False, ca_path='/no/such')

    def test_files_and_directories(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'ca.crt')
            tls.make_authority(directory)
            made(verify=True, ca_path=directory)
            made(verify=True, ca_path=str(path))

    def test_frozen_and_without_password(self):
        settings = made()
        with self.assertRaises(dataclasses.FrozenInstanceError):
            settings.login = 'x'
        self.assertNotIn('Secr3t', repr(settings))
        self.assertRegex(settings.user_agent, '^cinder-k2/[0-9]')


class CloudManagerTest(unittest.TestCase):
    """CON-3: the same API under another path, with a token."""

    def settings(self, **changes):
        return rest.Settings(**{'address': 'flex.example.org',
                                'sdp_id': 'sdp-7', 'token': 'T0ken',
                                **changes})

    def test_path_and_token(self):
        adapter = scripted.Adapter(scripted.hits(
            {'id': 1, 'name': 'v'}))
        client = rest.Client(self.settings(), adapter=adapter)
        self.assertEqual('v', client.volumes.find(name='v').name)
        request = adapter.requests[0]
        self.assertTrue(request.url.startswith(
            'https://flex.example.org/rest/sdps/sdp-7/api/v2/volumes?'))
        self.assertEqual('Bearer T0ken', request.headers['Authorization'])

    def test_simulated_array(self):
        """The simulator and the driver agree on paths and tokens."""
        array = k2_sim.Array(flex=k2_sim.Flex('sdp-7', 'T0ken'))
        self.addCleanup(array.close)
        for changes, error in (({}, None), (
                {'token': 'other'}, rest.AuthenticationFailed), (
                {'sdp_id': 'sdp-8'}, rest.AuthenticationFailed)):
            client = rest.Client(self.settings(**changes),
                                 adapter=k2_sim.RequestsAdapter(array))
            self.addCleanup(client.close)
            if error is None:
                self.assertEqual(1, client.volumes.find(name='CTRL').id)
            else:
                with self.assertRaises(error):
                    client.volumes.find(name='CTRL')

    def test_token_is_not_in_repr(self):
        self.assertNotIn('T0ken', repr(self.settings()))

    def test_sdp_id_and_token_are_needed_together(self):
        for changes in ({'token': None}, {'sdp_id': None},
                        {'sdp_id': '../x'}, {'sdp_id': ''}):
            with self.assertRaisesRegex(rest.InvalidSettings, 'k2_sdp_id'):
                self.settings(**changes)
