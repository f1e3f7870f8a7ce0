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


from unittest import mock

from oslotest import base

from cinder_k2.array import chap as array_chap
from cinder_k2.driver import chap
from cinder_k2.driver.db import chap_secrets


class ChapTest(base.BaseTestCase):

    def test_connection_properties(self):
        """Without discovery credentials: connections list all portals."""
        self.assertEqual(
            {'auth_method': 'CHAP', 'auth_username': 'iqn.a',
             'auth_password': 'Secr3t-word-12'},
            chap.properties(array_chap.Login('iqn.a', 'Secr3t-word-12')))
        self.assertEqual({}, chap.properties(None))

    def test_chap_of_an_iscsi_back_end(self):
        array = mock.Mock()
        for required in (True, False):
            found = chap.for_iscsi(mock.Mock(use_chap_auth=required),
                                   mock.sentinel.database, array)
            self.assertEqual(
                (array, array.iscsi_hosts, required),
                (found.array, found.registry, found.required))
            self.assertIsInstance(found.secrets, chap_secrets.Secrets)

    def test_warning_if_chap_is_enabled_without_iscsi(self):
        with self.assertLogs('cinder_k2.driver.chap', 'WARNING') as logs:
            chap.warn_without_iscsi(mock.Mock(
                use_chap_auth=True, config_group='k2-fc'))
        self.assertIn('use_chap_auth in section [k2-fc] has no effect',
                      logs.output[0])

    def test_no_warning_if_chap_is_disabled(self):
        with self.assertNoLogs('cinder_k2.driver.chap'):
            chap.warn_without_iscsi(mock.Mock(use_chap_auth=False))
