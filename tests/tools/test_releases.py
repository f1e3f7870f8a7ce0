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

import contextlib
import dataclasses
import importlib.metadata
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tools.releases import __main__ as command
from tools.releases import environments
from tools.releases import lowest
from tools.releases import report
from tools.releases import suites
from tools.releases import table
from tools.releases import together
from tools import run_tests

NEWEST = table.load()[-1]
OLDEST = table.load()[0]


def tally(passed=0, failed=0, reasons=()):
    made = run_tests.Tally()
    made.passed, made.failed = passed, failed
    made.skipped, made.reasons = len(reasons), set(reasons)
    return made


class TableTest(unittest.TestCase):

    def test_constraints_of_each_release(self):
        for release in table.load():
            self.assertTrue(release.constraints.is_file(), release.name)

    def test_oldest_first(self):
        names = [release.name for release in table.load()]
        self.assertEqual(sorted(names), names)

    def test_newest_is_what_bootstrap_installs(self):
        script = (table.ROOT / 'tools' / 'bootstrap').read_text()
        self.assertIn(f'\nrelease={NEWEST.name}\n', script)
        pinned = NEWEST.constraints.read_text().splitlines()
        for name in ('cinder', 'glance', 'keystone'):
            self.assertIn(f'{name}=={getattr(NEWEST, name)}', pinned)

    def test_unknown_release(self):
        with self.assertRaises(table.UnknownReleaseError) as caught:
            table.find('2023.2')
        self.assertIn('Choose one of 2024.1, ', str(caught.exception))

    def test_installed_release(self):
        for release in (OLDEST, NEWEST):
            with mock.patch.object(importlib.metadata, 'version',
                                   autospec=True,
                                   return_value=release.cinder) as version:
                self.assertEqual(release, table.installed())
            version.assert_called_once_with('cinder')

    def test_installed_cinder_of_no_release(self):
        with mock.patch.object(importlib.metadata, 'version', autospec=True,
                               return_value='23.0.0'), \
                self.assertRaises(table.UnknownReleaseError) as caught:
            table.installed()
        self.assertIn('Cinder 23.0.0 is installed', str(caught.exception))


class InterpreterTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def program(self, place, name, version):
        """Write a fake interpreter, or if version is None a failing stub."""
        path = self.folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\n' + (
            f'echo {version}\n' if version else 'exit 127\n'))
        path.chmod(0o755)
        return path

    def found(self):
        with mock.patch.dict('os.environ', {
                'PATH': str(self.folder / 'bin'),
                'PYENV_ROOT': str(self.folder / 'pyenv')}):
            return environments.interpreter(OLDEST)

    def test_first_of_the_table(self):
        self.program('bin', 'python3.10', '3.10')
        wanted = self.program('bin', 'python3.12', '3.12')
        self.assertEqual(wanted, self.found())

    def test_stub_of_pyenv_is_passed_over(self):
        self.program('bin', 'python3.12', None)
        wanted = self.program('pyenv/versions/3.12.1/bin', 'python3.12',
                              '3.12')
        self.assertEqual(wanted, self.found())

    def test_none(self):
        self.program('bin', 'python3.9', '3.9')
        with self.assertRaises(environments.BuildError) as caught:
            self.found()
        self.assertIn('2024.1 needs Python 3.12 or 3.11 or 3.10',
                      str(caught.exception))


class ConstraintsTest(unittest.TestCase):

    def names(self, lowest_ones):
        return {environments._name(line) for line in
                environments._constraints(OLDEST, lowest_ones)}

    def test_newer_tools_for_tests(self):
        """The release does not constrain testtools and setuptools."""
        names = self.names(False)
        self.assertLessEqual({'taskflow', 'urllib3', 'cinder', 'glance'},
                             names)
        self.assertTrue(names.isdisjoint({'testtools', 'setuptools'}))

    def test_packages_of_ubuntu(self):
        """The release does not constrain them, nor Cinder."""
        names = {environments._name(line) for line in
                 environments._constraints(OLDEST, False,
                                           table.ubuntu().versions)}
        self.assertTrue(names.isdisjoint({'cinder', 'urllib3', 'oslo-config'}))
        self.assertLessEqual({'eventlet', 'glance', 'oslo-messaging'}, names)

    def test_lowest_versions(self):
        """The driver's requirements are not constrained, but Cinder is."""
        names = self.names(True)
        self.assertTrue(names.isdisjoint({'urllib3', 'oslo-config'}))
        self.assertLessEqual({'eventlet', 'cinder'}, names)


class LowestTest(unittest.TestCase):

    def test_bounds(self):
        self.assertEqual(
            {'pbr': '6.0.0', 'oslo.log': '5.0.0'}, lowest.bounds(
                '# what for\npbr>=6.0.0 # Apache-2.0\noslo.log>=5.0.0\n'))

    def test_bounds_of_a_project(self):
        self.assertEqual({'msgspec': '0.18.6', 'PyYAML': '6.0'}, lowest.bounds(
            'requires-python = ">=3.10"\ndependencies = [\n'
            '    "msgspec>=0.18.6",\n    "PyYAML>=6.0",\n'
            '    "krest==1.3.7",\n]\n'))

    def test_a_bound_that_is_too_low(self):
        found = {'pbr': '6.0.0', 'tooz': '3.1.0'}
        self.assertEqual([], lowest.differences(
            'requirements.txt', {'pbr': '6.0.0', 'tooz': '3.1.0'}, found))
        line, = lowest.differences('requirements.txt',
                                   {'pbr': '6.0.0', 'tooz': '3.0.0'}, found)
        self.assertIn('tooz: requirements.txt allows 3.0.0', line)

    def test_environment_of_k2_sim(self):
        """Its own lowest versions, without those of a release."""
        interpreter = pathlib.Path('/usr/bin/python3.10')
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(environments, 'FOLDER',
                                  pathlib.Path(folder)), \
                mock.patch.object(environments, 'interpreter', autospec=True,
                                  return_value=interpreter), \
                mock.patch.object(environments, '_run', autospec=True) as run:
            python = environments.build_simulator(OLDEST)
        place = pathlib.Path(folder) / 'lowest-k2-sim'
        self.assertEqual(place / 'bin' / 'python', python)
        self.assertEqual([
            mock.call('venv', '--quiet', '--python', str(interpreter),
                      str(place)),
            mock.call('pip', 'install', '--quiet', '--python', str(python),
                      '--resolution', 'lowest-direct', '--editable',
                      f'{table.ROOT}/k2-sim[test]')], run.mock_calls)

    def test_tests_of_k2_sim(self):
        """They use the programs of their environment, but no browser."""
        found = tally(5)
        with mock.patch.object(run_tests, 'run_command', autospec=True,
                               return_value=found) as run, \
                mock.patch.object(run_tests, 'keep', autospec=True):
            self.assertIs(found, suites.run_simulator(
                pathlib.Path('/place/bin/python')))
        _, words, place, variables = run.call_args.args
        self.assertEqual(['/place/bin/python', '-m', 'stestr'], words[:3])
        self.assertIn(r'^tests\.browser\.', words)
        self.assertEqual(table.ROOT / 'k2-sim', place)
        self.assertTrue(variables['PATH'].startswith('/place/bin:'))

    def test_an_interpreter_of_the_oldest_version(self):
        with mock.patch.object(environments, '_is_version', autospec=True,
                               return_value=True):
            self.assertEqual('python3.10', environments.interpreter(
                OLDEST, lowest=True).name)


class TogetherTest(unittest.TestCase):

    def test_rolling_upgrades(self):
        """Cinder 25 is missing, so none begins with Cinder 24."""
        self.assertEqual(
            [('2025.1', '2025.2'), ('2025.2', '2026.1'),
             ('2026.1', '2026.2')],
            [(older.name, newer.name)
             for older, newer in together.pairs(table.load())])

    def test_the_older_cinder_is_that_of_one_service(self):
        with mock.patch.object(run_tests, 'run_command', autospec=True,
                               return_value=tally(6)) as run, \
                mock.patch.object(run_tests, 'keep', autospec=True), \
                mock.patch.object(environments, 'build', autospec=True,
                                  side_effect=lambda release: pathlib.Path(
                                      '/v', release.name)), \
                contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(0, together.main())
            run.return_value = tally(5, 1)
            self.assertEqual(1, together.main())
        name, command_line, _, variables = run.call_args_list[0].args
        self.assertEqual('2025.2-with-2025.1', name)
        self.assertEqual('/v/2025.2', command_line[0])
        self.assertEqual(suites.CLUSTER, command_line[-1])
        self.assertEqual(('/v/2025.1', './tests/faults'),
                         (variables['OTHER_PYTHON'],
                          variables['OS_TEST_PATH']))


class PageTest(unittest.TestCase):

    def test_a_row_for_each_release(self):
        one = report.result_of(OLDEST, '3.12.1', 'eventlet', {
            'unit': tally(3, reasons=['no disk']), 'functional': tally(4, 1)},
            workflow=True)
        page = report.render([dataclasses.replace(one, date='2026-01-02')])
        self.assertIn('   * - 2024.1\n     - 24.5.0\n     - 3.12.1\n'
                      '     - eventlet\n     - works\n     - 7\n     - 1\n'
                      '     - 1\n     - 2026-01-02\n', page)
        self.assertIn('* 2024.1: no disk\n', page)

    def test_page_of_the_committed_results(self):
        results = report.load(table.load())
        self.assertEqual(report.render(results), report.PAGE.read_text())
        self.assertEqual(
            [(release.name, 0, True) for release in table.load()],
            [(result.release, result.failed, result.workflow)
             for result in results])

    def test_results_are_kept(self):
        with tempfile.TemporaryDirectory() as place, \
                mock.patch.object(report, 'RESULTS',
                                  pathlib.Path(place, 'new')):
            one = report.result_of(OLDEST, '3.12.1', 'eventlet',
                                   {'unit': tally(3)}, workflow=False)
            one.save()
            self.assertEqual([one], report.load(table.load()))


class HangingTest(unittest.TestCase):
    """A release whose tests hang is a failure; the others are tested."""

    def setUp(self):
        super().setUp()
        patcher = mock.patch.object(
            suites.subprocess, 'run', autospec=True,
            side_effect=subprocess.TimeoutExpired(['python'], 1.0))
        patcher.start()
        self.addCleanup(patcher.stop)

    def test_imports(self):
        with contextlib.redirect_stdout(io.StringIO()):
            found = suites.check_imports(pathlib.Path('python'))
        self.assertEqual(1, found.failed)

    def test_workflow(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertIs(False, suites.check_workflow(
                OLDEST, pathlib.Path('python')))
        self.assertIn('timed out', output.getvalue())


class CommandTest(unittest.TestCase):

    def test_workflow_that_fails(self):
        """The page says so, and the command fails."""
        with mock.patch.multiple(
                command.suites, autospec=True, check_imports=mock.DEFAULT,
                run=mock.DEFAULT, check_workflow=mock.DEFAULT) as suite, \
                mock.patch.object(environments, 'of', autospec=True,
                                  return_value=pathlib.Path(sys.executable)), \
                mock.patch.object(report, 'write', autospec=True), \
                mock.patch.object(report.Result, 'save', autospec=True
                                  ) as save:
            suite['check_imports'].return_value = tally()
            suite['run'].return_value = {'unit': tally(1)}
            for works in (True, False):
                suite['check_workflow'].return_value = works
                status, _ = self.run_command('2024.1')
                self.assertEqual(int(not works), status)
                self.assertIs(works, save.call_args.args[0].workflow)

    def run_command(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(output):
            status = command.main(arguments)
        return status, output.getvalue()

    def test_unknown_release(self):
        status, output = self.run_command('2023.2')
        self.assertEqual(2, status)
        self.assertIn('2023.2 is not a supported release', output)

    def test_no_interpreter(self):
        with mock.patch.object(
                environments, 'of', autospec=True,
                side_effect=environments.BuildError('no Python')):
            status, output = self.run_command('--slice', '2024.1')
        self.assertEqual(1, status)
        self.assertIn('no Python', output)

    def test_imports_alone(self):
        for failed in (0, 1):
            with mock.patch.multiple(
                    command.suites, autospec=True, run=mock.DEFAULT,
                    check_imports=mock.DEFAULT, check_workflow=mock.DEFAULT
            ) as suite, mock.patch.object(environments, 'of', autospec=True):
                suite['check_imports'].return_value = tally(0, failed)
                status, _ = self.run_command('--imports', '2024.1')
            self.assertEqual(failed, status)
            suite['run'].assert_not_called()
            suite['check_workflow'].assert_not_called()

    def test_a_slice_or_imports(self):
        self.assertRaises(SystemExit, self.run_command, '--slice', '--imports')

    def test_a_failure_in_a_suite(self):
        for failed in (0, 1):
            with mock.patch.object(environments, 'of', autospec=True), \
                    mock.patch.object(
                        command.suites, 'check_imports', autospec=True,
                        return_value=tally()), \
                    mock.patch.object(
                        command.suites, 'run', autospec=True, return_value={
                            'unit': tally(1, failed)}) as run:
                status, _ = self.run_command('--slice', '2024.1', '2025.1')
            self.assertEqual(failed, status)
            self.assertEqual(['2024.1', '2025.1'],
                             [call.args[0].name for call in
                              run.call_args_list])
