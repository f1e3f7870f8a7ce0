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

import traceback
from unittest import mock

from oslotest import base

from cinder_k2.array import chap as profiles
from cinder_k2.driver import chap
from cinder_k2.driver.db import chap_secrets
from cinder_k2 import exceptions


class SecretsTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.database = mock.Mock()
        self.secrets = chap_secrets.Secrets(
            self.database, mock.Mock(**{'system.id': 'K2-1'}))

    def test_find_by_array_and_lowercase_initiator(self):
        get = self.database.driver_initiator_data_get
        get.return_value = [{'key': 'other', 'value': 'no'},
                            {'key': 'chap_password', 'value': 'yes'}]
        self.assertEqual('yes', self.secrets.find('IQN.x:Host'))
        get.assert_called_once_with(mock.ANY, 'iqn.x:host', 'k2-K2-1')

    def test_no_password_stored(self):
        self.database.driver_initiator_data_get.return_value = []
        self.assertIsNone(self.secrets.find('iqn.x:host'))

    def test_database_that_does_not_store_the_password(self):
        self.database.driver_initiator_data_get.return_value = []
        self.assertRaises(exceptions.SecretsUnavailable, self.secrets.keep,
                          'iqn.x:host', 'secret')

    def test_errors_do_not_contain_the_password(self):
        insert = self.database.driver_initiator_data_insert_by_key
        insert.side_effect = RuntimeError('INSERT ... Secret-1')
        error = self.assertRaises(exceptions.SecretsUnavailable,
                                  self.secrets.keep, 'iqn.x:host',
                                  'Secret-1')
        text = ''.join(traceback.format_exception(error))
        self.assertNotIn('INSERT', text)
        self.assertIn('RuntimeError', str(error))

    def test_generated_passwords(self):
        """CHP-5."""
        made = {self.secrets.generate() for _ in range(50)}
        self.assertEqual((50, {16}), (len(made), {len(m) for m in made}))


class PropertiesTest(base.BaseTestCase):

    def test_with_and_without_login(self):
        login = profiles.Login('cinder-node1-01234567', 'Secret-1')
        self.assertEqual({}, chap.properties(None))
        self.assertEqual({'auth_method': 'CHAP',
                          'auth_username': 'cinder-node1-01234567',
                          'auth_password': 'Secret-1'},
                         chap.properties(login))
