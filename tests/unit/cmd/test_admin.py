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

"""Command line of k2-admin without cinder.conf; see also functional tests."""

import contextlib
import io
import sys
from unittest import mock

import ddt
from oslo_config import cfg
import testtools

from cinder_k2.cmd import admin
from cinder_k2 import version


@ddt.ddt
class ArgumentsTest(testtools.TestCase):

    def run_main(self, *arguments):
        """Return the exit status, stdout and stderr of k2-admin."""
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(error):
            try:
                status = admin.main(arguments)
            except SystemExit as exc:
                status = exc.code
        return status, output.getvalue(), error.getvalue()

    @ddt.data((), ('hide',), ('deferred', '--nothing'),
              ('purge', '--backend'), ('deferred', 'more'))
    def test_invalid_arguments(self, arguments):
        """Exit with status 2 and print the usage."""
        status, output, error = self.run_main(*arguments)
        self.assertEqual((2, ''), (status, output))
        self.assertIn('usage: k2-admin', error)

    @ddt.data('deferred', 'purge')
    def test_help(self, command):
        status, output, _ = self.run_main('--help')
        self.assertEqual(0, status)
        self.assertIn(command, output)
        status, output, _ = self.run_main(command, '--help')
        self.assertEqual(0, status)
        for option in ('--config-file', '--config-dir', '--backend',
                       '--json'):
            self.assertIn(option, output)

    def test_unreadable_file(self):
        """Where cinder-volume reads it as another user."""
        with mock.patch.object(
                cfg.ConfigOpts, '__call__', autospec=True,
                side_effect=cfg.ConfigFilesPermissionDeniedError(['x.conf'])):
            found = self.run_main('deferred')
        self.assertEqual(
            (1, '', 'k2-admin: error: x.conf cannot be read by this user; run '
             'k2-admin as the user of cinder-volume\n'), found)

    @ddt.data('hidden', 'reclaim')
    def test_deprecated_command_names(self, former):
        """They still work, with a warning that names the new command."""
        now = admin.DEPRECATED[former]
        with mock.patch.dict(sys.modules, {'cinder': None}):
            status, _, error = self.run_main(former)
        self.assertEqual(1, status)
        self.assertIn(f'k2-admin: warning: {former} is deprecated; use '
                      f'{now} instead\n', error)
        self.assertIn('Cinder is not installed here', error)

    def test_version(self):
        self.assertEqual((0, f'k2-admin {version.version()}\n', ''),
                         self.run_main('--version'))

    def test_cinder_not_installed(self):
        with mock.patch.dict(sys.modules, {'cinder': None}):
            self.assertEqual((1, '', (
                'k2-admin: error: Cinder is not installed here; run k2-admin'
                ' where cinder-volume runs, with the same Python\n')),
                self.run_main('deferred'))
