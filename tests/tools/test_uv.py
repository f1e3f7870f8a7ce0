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

import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

from tools.releases import environments
from tools import uv


class UvTest(unittest.TestCase):

    def variables(self, **ours):
        """Return the environment of uv, with ours."""
        # With this name, pip reads no configuration file.
        with mock.patch.dict('os.environ', {
                'PIP_CONFIG_FILE': '/dev/null', **ours}, clear=True):
            return uv.variables()

    def told(self, *lines, **ours):
        """Return the environment of uv with a file of pip."""
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name, 'pip.conf')
            path.write_text('\n'.join(lines))
            return self.variables(PIP_CONFIG_FILE=str(path), **ours)

    def test_certificates_and_index_are_those_of_pip(self):
        found = self.variables(PIP_CERT='/ca.pem', PIP_INDEX_URL='https://p')
        self.assertEqual('/ca.pem', found['SSL_CERT_FILE'])
        self.assertEqual('https://p', found['UV_DEFAULT_INDEX'])

    def test_file_of_pip(self):
        found = self.told('[global]', 'index-url = https://g', 'cert = /g.pem',
                          'find-links = /a', '    /b', '[install]',
                          'index-url = https://i', '[download]',
                          'index-url = https://d')
        self.assertEqual('https://i', found['UV_DEFAULT_INDEX'])
        self.assertEqual('/g.pem', found['SSL_CERT_FILE'])
        self.assertEqual('/a,/b', found['UV_FIND_LINKS'])
        self.assertNotIn('UV_INDEX_STRATEGY', found)

    def test_environment_wins_over_the_file(self):
        found = self.told('[install]', 'index-url = https://i',
                          PIP_INDEX_URL='https://e')
        self.assertEqual('https://e', found['UV_DEFAULT_INDEX'])

    def test_more_indexes(self):
        """As with pip, the newest version of all counts."""
        found = self.told('[global]', 'extra-index-url = https://more',
                          '    https://most',
                          'trusted-host = more')
        self.assertEqual('https://more https://most', found['UV_INDEX'])
        self.assertEqual('unsafe-best-match', found['UV_INDEX_STRATEGY'])
        self.assertEqual('more', found['UV_INSECURE_HOST'])

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
