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
"""The selection and results of Tempest tests, and Cinder's settings."""

import configparser
import contextlib
import io
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from keystoneauth1 import exceptions
from oslo_config import cfg

from tools.cloud import children
from tools.cloud import errors
from tools.releases import table
from tools import run_tests
from tools.tempest import __main__ as command
from tools.tempest import files
from tools.tempest import layout
from tools.tempest import network
from tools.tempest import programs
from tools.tempest import tempest


def tally(passed=0, reasons=(), failed=()):
    """Return the results of a run, without printing failures."""
    found = run_tests.Tally()
    found.passed, found.reasons = passed, set(reasons)
    with contextlib.redirect_stdout(io.StringIO()):
        for name in failed:
            found.fail(name)
    return found


class InstallTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.venv = pathlib.Path(directory.name, 'tempest')
        self.venv.mkdir()
        self.enterContext(mock.patch.object(tempest, 'VENV', self.venv))
        self.run_all = self.enterContext(mock.patch.object(
            programs, 'run_all', autospec=True))

    def install(self, release):
        """Install for a release; return the commands that were run."""
        self.run_all.reset_mock()
        with mock.patch.object(table, 'installed', autospec=True,
                               return_value=release):
            tempest.install()
        return [command for call in self.run_all.call_args_list
                for command in call.args[0]]

    def test_versions_of_the_release(self):
        for release in (table.load()[0], table.load()[-1]):
            _, command = self.install(release)
            self.assertEqual(
                [str(release.constraints), f'tempest=={release.tempest}',
                 f'cinder-tempest-plugin=={release.tempest_plugin}'],
                command[-3:])
            self.assertEqual([], self.install(release))

    def test_another_process_that_installs_it(self):
        """Both would delete each other's files: the second one waits."""
        program = ('import fasteners, sys\n'
                   f'with fasteners.InterProcessLock("{self.venv}.lock"):\n'
                   '    print("held", flush=True)\n'
                   '    sys.stdin.read()\n')
        with subprocess.Popen(
                [sys.executable, '-c', program], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            self.assertEqual('held\n', other.stdout.readline())
            with mock.patch.object(tempest, '_INSTALL_SECONDS', 0.1), \
                    self.assertRaisesRegex(errors.CloudError, 'another'):
                self.install(table.load()[-1])
            self.run_all.assert_not_called()
            other.stdin.close()
        self.assertEqual(2, len(self.install(table.load()[-1])))

    def test_unknown_cinder(self):
        with mock.patch.object(
                table, 'installed', autospec=True,
                side_effect=table.UnknownReleaseError('Cinder 1')):
            with self.assertRaises(errors.CloudError) as caught:
                tempest.install()
        self.assertEqual('Cinder 1', str(caught.exception))
        self.run_all.assert_not_called()


class RunTest(unittest.TestCase):

    def run_with(self, results):
        """Return the results, and what is printed."""
        self.enterContext(mock.patch.object(
            run_tests, 'run_command', autospec=True, return_value=results))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = tempest.run(pathlib.Path('/none'), 'all', 2)
        return found, out.getvalue()

    def test_excuse(self):
        found, _ = self.run_with(tally(
            3, ['Skipped because compute service is not available']))
        self.assertEqual((3, 0), (found.passed, found.failed))

    def test_no_excuse(self):
        """A feature that was not enabled."""
        found, out = self.run_with(tally(
            3, ['Cinder volume revert feature disabled']))
        self.assertEqual(1, found.failed)
        self.assertIn('without an excuse: Cinder volume revert', out)


class CommandTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.keep = self.enterContext(mock.patch.object(
            run_tests, 'keep', autospec=True))

    def main(self, *arguments):
        """Return exit status and output."""
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(out):
            try:
                status = command.main(arguments)
            except SystemExit as exc:
                status = exc.code
        return status, out.getvalue()

    def test_a_machine_that_cannot_run_it(self):
        """One skipped test, with the reason."""
        with mock.patch.object(command, 'missing', lambda: 'needs x'):
            self.assertEqual(
                (0, 'skipped: tempest: needs x\n'
                 '0 passed, 0 failed, 1 skipped\n'), self.main())

    def test_a_service_that_does_not_start(self):
        """One failure, which is also kept for the end of CI."""
        for error, text in (
                (errors.CloudError('x: ended'), 'tempest: x: ended'),
                (exceptions.ConnectTimeout('slow'), 'ConnectTimeout: slow'),
                (subprocess.TimeoutExpired(['x'], 9), 'after 9 seconds')):
            with self.subTest(text), mock.patch.object(
                    command, 'run', autospec=True, side_effect=error):
                status, out = self.main('--inside', '/none')
            self.assertEqual(1, status)
            self.assertIn(text, out)
            self.assertEqual('0 passed, 1 failed, 0 skipped',
                             out.splitlines()[-1])
            suite, (failure,) = self.keep.call_args.args
            self.assertEqual('tempest', suite)
            self.assertIn(text, failure)

    def test_tests(self):
        self.assertEqual((tempest.ALL, False), self.chosen())
        self.assertEqual(('x', True), self.chosen('--quick', 'x'))

    def chosen(self, *arguments):
        """Return the tests to run, and whether --quick is set."""
        options = command.parse(arguments)
        return options.regex, options.quick

    def test_all(self):
        for name in ('tempest.api.volume.x.Y.test_z',
                     'cinder_tempest_plugin.api.volume.x.Y.test_z'):
            self.assertRegex(name, tempest.ALL)
        self.assertNotRegex('tempest.api.compute.x.Y.test_z', tempest.ALL)

    def test_the_sample_has_some_of_each_kind(self):
        """A backup, a migration, an image, and all fast tests."""
        for name in ('test_volumes_backup.VolumesBackupsV39Test.test_x',
                     'admin.test_volume_retype.VolumeRetypeWithMigrationTest.'
                     'test_available_volume_retype_with_migration',
                     'test_volumes_actions.VolumesActionsTest.'
                     'test_volume_upload'):
            self.assertFalse(self.is_long(f'tempest.api.volume.{name}'))
        for name in ('test_volumes_backup.VolumesBackupsTest.test_x',
                     'admin.test_volumes_backup.VolumesBackupsAdminTest.x'):
            self.assertTrue(self.is_long(f'tempest.api.volume.{name}'))

    def is_long(self, name):
        """Return whether --quick skips it."""
        return any(re.search(long, name) for long in tempest.LONG)


class LookAroundTest(unittest.TestCase):

    def found(self, tally, ended=()):
        """Return the tally if an array has leftovers."""
        leftovers = self.enterContext(mock.patch.object(
            command.stack, 'leftovers', autospec=True,
            return_value={'k2-a': {'volumes': [{'name': 'left-over'}]}}))
        child = mock.create_autospec(children.Child, instance=True)
        child.check.side_effect = [errors.CloudError(text) for text in ended]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command.look_around(mock.sentinel.layout, [child] * len(ended),
                                tally)
        return tally.failed, out.getvalue(), leftovers.called

    def test_leftovers_are_a_failure(self):
        failed, out, _ = self.found(tally(3))
        self.assertEqual(1, failed)
        self.assertIn('k2-a still has', out)
        self.assertIn('left-over', out)

    def test_leftovers_after_a_failed_test_are_allowed(self):
        self.assertEqual((1, '', False), self.found(tally(3, failed=['a.b'])))

    def test_a_service_that_has_ended(self):
        """Its array cannot be read."""
        self.assertEqual((1, 'k2-b: ended\n', False),
                         self.found(tally(3), ['k2-b: ended']))


class NetworkTest(unittest.TestCase):

    def missing(self, outcome):
        """Return the reason if this program is run in place of unshare."""
        with mock.patch.object(network.os, 'geteuid', lambda: 0), \
                mock.patch.object(network, 'namespace', lambda: [outcome]):
            return network.missing()

    def test_a_suitable_machine(self):
        self.assertEqual('', self.missing('true'))

    def test_an_unsuitable_machine(self):
        """This includes a trial without output."""
        self.assertIn('/dev/net/tun', self.missing('false'))


class ProgramsTest(unittest.TestCase):

    def test_a_program_that_fails(self):
        """Its output is reported, and the next one does not run."""
        with self.assertRaisesRegex(
                errors.CloudError, r'sh -c echo no; exit 3 failed:\nno'):
            programs.run_all([['true'], ['sh', '-c', 'echo no; exit 3'],
                              ['sh', '-c', 'echo late; exit 4']], 60)


class FilesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = self.enterContext(tempfile.TemporaryDirectory(prefix='a b'))
        self.run_ = layout.Layout(pathlib.Path(place), pathlib.Path(place),
                                  'the-secret')
        self.run_.etc.mkdir()
        files.write(self.run_)

    def parsed(self, path):
        """Return sections and settings of a file."""
        parser = configparser.ConfigParser(interpolation=None, strict=True)
        parser.read_string(path.read_text())
        return parser

    def test_each_array_has_a_back_end(self):
        """The pool has its name, which tempest's replication tests require."""
        settings = self.parsed(self.run_.cinder_conf)
        names = settings['DEFAULT']['enabled_backends'].split(',')
        self.assertEqual([array.name for array in layout.ARRAYS], names)
        for name in names:
            self.assertEqual(name, settings[name]['volume_backend_name'])

    def test_one_of_them_replicates(self):
        """The others are for volumes that are not replicated."""
        conf = cfg.ConfigOpts()
        options = [cfg.MultiOpt('replication_device',
                                item_type=cfg.types.Dict())]
        primary, secondary = layout.ARRAYS
        for array in layout.ARRAYS:
            conf.register_opts(options, group=array.name)
        conf(['--config-file', str(self.run_.cinder_conf)], project='x')
        target, = conf[primary.name].replication_device
        self.assertEqual((layout.HOST, str(secondary.port)),
                         (target['san_ip'], target['port']))
        self.assertIsNone(conf[secondary.name].replication_device)

    def test_services_have_accounts(self):
        for path, section, user in (
                (self.run_.glance_conf, 'keystone_authtoken', 'glance'),
                (self.run_.cinder_conf, 'keystone_authtoken', 'cinder'),
                (self.run_.cinder_conf, 'service_user', 'cinder'),
                (self.run_.cinder_conf, 'nova', 'cinder')):
            settings = self.parsed(path)[section]
            self.assertEqual((user, 'the-secret'),
                             (settings['username'], settings['password']))

    def test_programs_in_a_path_with_blanks(self):
        settings = self.parsed(self.run_.cinder_conf)
        for section in ('cinder_sys_admin', 'privsep_osbrick'):
            self.assertEqual(
                ['--config-file', str(self.run_.cinder_conf)],
                shlex.split(settings[section]['helper_command'])[-2:])

    def test_the_secret_is_not_shown(self):
        self.assertNotIn('the-secret', repr(self.run_))
