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

"""How uv is run."""

import subprocess
import unittest
from unittest import mock

from tools.releases import environments
from tools import uv


class UvTest(unittest.TestCase):

    def variables(self, **ours):
        """Return the environment of uv, with ours."""
        with mock.patch.dict('os.environ', ours, clear=True):
            return uv.variables()

    def test_certificates_and_index_are_those_of_pip(self):
        found = self.variables(PIP_CERT='/ca.pem', PIP_INDEX_URL='https://p')
        self.assertEqual('/ca.pem', found['SSL_CERT_FILE'])
        self.assertEqual('https://p', found['UV_DEFAULT_INDEX'])

    def test_certificates_of_the_system(self):
        found = self.variables()
        self.assertEqual('true', found['UV_SYSTEM_CERTS'])
        self.assertNotIn('SSL_CERT_FILE', found)
        self.assertNotIn('UV_DEFAULT_INDEX', found)

    def test_settings_of_uv_take_precedence(self):
        found = self.variables(PIP_CERT='/ca.pem', SSL_CERT_FILE='/uv.pem')
        self.assertEqual('/uv.pem', found['SSL_CERT_FILE'])

    def test_no_interpreters_from_the_network(self):
        self.assertEqual('never', self.variables()['UV_PYTHON_DOWNLOADS'])

    def test_error(self):
        done = subprocess.CompletedProcess([], 2, '', 'no network')
        with mock.patch.object(subprocess, 'run', autospec=True,
                               return_value=done), \
                self.assertRaises(environments.BuildError) as caught:
            environments._run('pip', 'install')
        self.assertEqual('uv pip failed:\nno network', str(caught.exception))
