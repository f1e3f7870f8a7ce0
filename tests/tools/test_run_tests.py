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
import io
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from unittest import mock

import subunit

from tools import run_tests

MIME = 'text/plain;charset=utf8'


class TallyTest(unittest.TestCase):

    def tally(self, *events):
        """Return the tally of a stream of these events, and the output."""
        stream = io.BytesIO()
        writer = subunit.StreamResultToBytes(stream)
        for event in events:
            writer.status(**event)
        stream.seek(0)
        self.found = run_tests.Tally()
        shown = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with contextlib.redirect_stdout(shown):
            self.found.read(stream)
        return (self.found.passed, self.found.failed, self.found.skipped), \
            shown.buffer.getvalue().decode()

    def test_results_are_counted_by_meaning(self):
        statuses = ('success', 'xfail', 'skip', 'fail', 'uxsuccess')
        counts, _ = self.tally(*(
            event for name in statuses for event in (
                {'test_id': name, 'test_status': 'inprogress'},
                {'test_id': name, 'test_status': name})))
        self.assertEqual((2, 2, 1), counts)

    def test_a_failure_shows_its_traceback(self):
        _, text = self.tally(
            {'test_id': 'tests.a', 'file_name': 'traceback',
             'file_bytes': b'AssertionError: 1 != 2', 'mime_type': MIME},
            {'test_id': 'tests.b', 'test_status': 'success'},
            {'test_id': 'tests.a', 'test_status': 'fail'})
        self.assertIn('tests.a: fail\nAssertionError: 1 != 2', text)

    def test_failures_are_kept_until_the_next_run(self):
        self.tally({'test_id': 'tests.a', 'test_status': 'fail',
                    'file_name': 'traceback', 'file_bytes': b'1 != 2',
                    'mime_type': MIME})
        with tempfile.TemporaryDirectory() as place, mock.patch.object(
                run_tests, 'FAILURES', pathlib.Path(place, 'new')):
            report = run_tests.FAILURES / 'unit.txt'
            run_tests.keep('unit', self.found.failures)
            self.assertIn('tests.a: fail\n1 != 2\n', report.read_text())
            run_tests.keep('unit', ())
            self.assertFalse(report.exists())

    def test_a_test_that_never_ended_has_failed(self):
        counts, text = self.tally(
            {'test_id': 'tests.a', 'test_status': 'success'},
            {'test_id': 'tests.b', 'test_status': 'inprogress'})
        self.assertEqual((1, 1, 0), counts)
        self.assertIn('tests.b: began and never ended', text)

    def test_reasons_of_skipped_tests_are_kept(self):
        self.tally({'test_id': 'tests.a', 'file_name': 'reason',
                    'file_bytes': b'no browser', 'mime_type': MIME},
                   {'test_id': 'tests.a', 'test_status': 'skip'})
        self.assertEqual({'no browser'}, self.found.reasons)

    def test_a_suite_without_tests_has_failed(self):
        counts, text = self.tally(
            {'test_id': None, 'file_name': 'stdout',
             'file_bytes': b'ImportError: no such module'})
        self.assertEqual((0, 1, 0), counts)
        self.assertIn('ImportError', text)


class EndTest(unittest.TestCase):

    def suite(self, script):
        process = subprocess.Popen(
            ['sh', '-c', script], stdout=subprocess.PIPE,
            start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(b'up\n', process.stdout.readline())
        return process

    def test_a_suite_cleans_up(self):
        process = self.suite(
            'trap "echo clean; exit 7" TERM; echo up; sleep 1000 & wait')
        run_tests.end(process)
        self.assertEqual((b'clean\n', None), process.communicate(timeout=60))
        self.assertEqual(7, process.returncode)

    def test_a_suite_that_ignores_sigterm(self):
        """It is killed, with its child processes."""
        process = self.suite(
            'trap "" TERM; sleep 1000 & echo up; wait; wait')
        with mock.patch.object(run_tests, 'END_SECONDS', 0.1):
            run_tests.end(process)
        process.communicate(timeout=60)
        self.assertEqual(-signal.SIGKILL, process.returncode)


class CommandTest(unittest.TestCase):

    def run_command(self, script, **limits):
        """Run a suite that is a shell script; return the results."""
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            return run_tests.run_command(
                'unit', ['sh', '-c', script], pathlib.Path(), {**os.environ},
                **limits)

    def test_a_suite_that_cannot_run(self):
        self.assertEqual(['no test was run'],
                         self.run_command('exit 3').failures)

    def test_a_suite_that_does_not_end(self):
        """It gets SIGTERM, and is killed if it ignores that."""
        for script in ('sleep 1000', 'trap "" TERM; sleep 1000; sleep 1000'):
            with mock.patch.object(run_tests, 'END_SECONDS', 0.1):
                found = self.run_command(script, seconds=0.1)
            self.assertEqual(['no test was run', 'stopped after 0.1 s'],
                             found.failures)

    def test_the_tests_of_the_last_run(self):
        stream = io.BytesIO()
        writer = subunit.StreamResultToBytes(stream)
        for test, status in (('a', 'exists'), ('a', 'inprogress'),
                             ('b', 'exists'), ('a', 'success'),
                             ('c', 'inprogress')):
            writer.status(test_id=test, test_status=status)
        with mock.patch.object(
                subprocess, 'run', autospec=True,
                return_value=mock.Mock(stdout=stream.getvalue())):
            self.assertEqual(
                {'a': 'success', 'c': 'inprogress'},
                {test['id']: test['status']
                 for test in run_tests.last_tests()})


class SuiteTest(unittest.TestCase):

    def test_a_failed_test_fails_the_run(self):
        """It is stored, and not run a second time."""
        tally = run_tests.Tally()
        with contextlib.redirect_stdout(io.StringIO()):
            tally.fail('tests.a: fail')
        run = mock.Mock(return_value=tally)
        with mock.patch.multiple(
                run_tests, run_command=run, keep=mock.Mock()):
            self.assertEqual(1, run_tests.run_suite('unit').failed)
            run_tests.keep.assert_called_once_with('unit', ['tests.a: fail'])
        run.assert_called_once()

    def test_suites_of_k2_sim(self):
        """They run in its folder; browsers run on their own."""
        for suite, place, argument in (
                ('unit', run_tests.ROOT, 'stestr'),
                ('k2-sim', run_tests.ROOT / 'k2-sim', '--exclude-regex'),
                ('browser', run_tests.ROOT / 'k2-sim', 'tests.browser')):
            with mock.patch.multiple(
                    run_tests, run_command=mock.DEFAULT, keep=mock.Mock()):
                run_tests.run_suite(suite)
                _, command, found, _ = run_tests.run_command.call_args.args
            self.assertEqual(place, found)
            self.assertIn(argument, command)


class MainTest(unittest.TestCase):

    def main(self, *pages):
        """Run everything; only the pages report errors."""
        tally = run_tests.Tally()
        tally.passed = 2
        with mock.patch.multiple(
                run_tests, run_lint=lambda: 0, SUITES=('one', 'two'),
                PAGES=(('one', 'tools.one'), ('two', 'tools.two')),
                run_suite=lambda suite: tally,
                check_page=mock.Mock(side_effect=pages)), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            status = run_tests.main([])
        return status, out.getvalue().splitlines()[-1]

    def test_a_page_that_is_out_of_date_is_a_failure(self):
        self.assertEqual((1, '4 passed, 1 failed, 0 skipped'),
                         self.main(1, 0))
        self.assertEqual((1, '4 passed, 1 failed, 0 skipped'),
                         self.main(0, 1))
        self.assertEqual((0, '4 passed, 0 failed, 0 skipped'),
                         self.main(0, 0))

    def test_reasons_of_skipped_tests_are_printed(self):
        """Once each, before the last line."""
        tally = run_tests.Tally()
        tally.skipped, tally.reasons = 2, {'needs y', 'needs x'}
        with mock.patch.object(run_tests, 'run_all', lambda: [tally]), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            run_tests.main([])
        self.assertEqual(
            ['skipped: needs x', 'skipped: needs y',
             '0 passed, 0 failed, 2 skipped'], out.getvalue().splitlines())

    def test_faults_alone(self):
        tally = run_tests.Tally()
        tally.passed = 3
        run = mock.Mock(return_value=tally)
        with mock.patch.multiple(run_tests, run_suite=run, run_lint=None), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(0, run_tests.main(['--faults']))
        run.assert_called_once_with('faults')
        self.assertEqual('3 passed, 0 failed, 0 skipped\n', out.getvalue())
