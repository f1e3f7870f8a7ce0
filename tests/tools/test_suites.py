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

"""The start and the results of tests in guests."""

import contextlib
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from tests.tools import kernels
from tools.guest import fcoe
from tools.guest import machine
from tools.guest import packages
from tools.guest import suites
from tools import run_e2e
from tools import run_tests

# Writes its name and command as results; with test_c it is killed.
RESULTS = """\
out="$(realpath "$work/out")"
name="$(basename "$out")"
printf '<%s>' "$name" >"$out/results.subunit"
cp "$work/command" "$out"
grep -q test_c "$out/command" && kill -ABRT $$
"""


RUNNER = """\
import pathlib, sys
from tools import signals
from tools.guest import suites
suites.ARTIFACTS = pathlib.Path(sys.argv[1])
suites.SUITES = {'one': (), 'two': ()}
sys.exit(signals.run(lambda: suites.main(())))
"""


class Stream:
    """Standard output that takes bytes."""

    def __init__(self):
        self.buffer = io.BytesIO()


class SuitesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.kernels = kernels.Kernels(self)
        self.place = self.kernels.place / 'artifacts'
        self.enterContext(mock.patch.object(
            suites, 'ARTIFACTS', self.place))
        self.enterContext(mock.patch.object(
            suites, 'SUITES', {'one': ('test_a', 'test_b'),
                               'two': ('test_c',)}))
        self.enterContext(mock.patch.object(
            suites, 'PLANES', {'one': 'lio'}))
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop('K2_PLANE', None)
        # Programs that boot guests check for all requirements first.
        reason = packages.missing()
        if reason:
            self.skipTest(reason)
        self.guest('echo 0 >"$work/verdict"')

    def guest(self, end):
        """Replace the guest with a script, and set how it ends."""
        self.kernels.kernel(RESULTS + end)

    def main(self, *names):
        """Return exit status, stream and error messages."""
        error, stream = io.StringIO(), Stream()
        with mock.patch('sys.stdout', stream), \
                contextlib.redirect_stderr(error):
            status = suites.main(names)
        self.assertEqual([], self.kernels.left())
        return status, stream.buffer.getvalue(), error.getvalue().strip()

    def test_all(self):
        """In order, including the results of a guest that panicked."""
        self.assertEqual(
            (1, b'<one><two>', 'two: dmesg: Aborted\n'
             "two: guest: the guest's kernel panicked: signal 6"),
            self.main())

    def test_some(self):
        self.assertEqual((0, b'<one>', ''), self.main('one'))
        self.assertIn('subunit.run tests.guest.test_a tests.guest.test_b',
                      (self.place / 'one' / 'command').read_text())

    def plane(self, suite):
        """Return the environment of a suite's guest."""
        self.main(suite)
        return re.findall('K2_PLANE=(.*)', (
            self.place / suite / 'command').read_text())

    def test_data_plane(self):
        """That of the suite, unless K2_PLANE names another one."""
        self.assertEqual((['lio'], []),
                         (self.plane('one'), self.plane('two')))
        os.environ['K2_PLANE'] = 'tgt'
        self.assertEqual((['tgt'], ['tgt']),
                         (self.plane('one'), self.plane('two')))

    def test_unknown_suite(self):
        """The usual status of an invalid command line."""
        error = io.StringIO()
        with contextlib.redirect_stderr(error), \
                self.assertRaises(SystemExit) as end:
            suites.main(['one', 'three'])
        self.assertEqual(2, end.exception.code)
        self.assertIn('no such suite: three; there are one, two',
                      error.getvalue())

    def test_status(self):
        """Tests that do not finish are failures."""
        self.guest('echo 3 >"$work/verdict"')
        self.assertEqual((1, b'<one>', 'one: ended with status 3'),
                         self.main('one'))

    def test_last_lines_are_shown(self):
        """The last lines of its programs and its kernel."""
        self.guest('echo here; echo there >&2; echo 3 >"$work/verdict"')
        self.assertEqual((1, b'<one>', 'one: console.log: here\n'
                          'one: dmesg: there\n'
                          'one: ended with status 3'), self.main('one'))

    def test_old_results_are_removed(self):
        (self.place / 'one').mkdir(parents=True)
        (self.place / 'one' / 'old').touch()
        self.main('one')
        self.assertFalse((self.place / 'one' / 'old').exists())

    def test_signals(self):
        """Each guest is stopped exactly once."""
        self.guest('echo $$ >"$out/up"; sleep 1000')
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            process = self.runner()
            for suite in ('one', 'two'):
                self.kernels.wait_for(self.place / suite / 'up')
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
            self.assertEqual((status, ''), (process.returncode, error))
            self.assertEqual([], self.kernels.left())
            shutil.rmtree(self.place)

    def runner(self):
        """Run the suites in a separate process."""
        process = subprocess.Popen(
            [sys.executable, '-c', RUNNER, str(self.place)], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, 'TMPDIR': tempfile.gettempdir()},
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def with_fc(self, **module):
        """Run all suites; one needs a module, which may be built first."""
        suites.SUITES.clear()
        suites.SUITES.update(one=('test_a',), fc=('test_fc',))
        with mock.patch.object(fcoe, 'module', autospec=True, **module):
            return self.main()

    def test_fibre_channel(self):
        self.assertEqual((0, b'<one><fc>', ''),
                         self.with_fc(return_value='/there/fcoe.ko'))
        command = (self.place / 'fc' / 'command').read_text()
        for line in ('K2_TRANSPORT=fc', 'K2_PLANE=lio',
                     'K2_FCOE=/there/fcoe.ko'):
            self.assertIn(f'export {line}\n', command)
        self.assertNotIn('K2_TRANSPORT', (
            self.place / 'one' / 'command').read_text())

    def test_one_deadline(self):
        """The time for the module is not available to its guest."""
        began = time.monotonic
        lost = []
        self.enterContext(mock.patch.object(
            time, 'monotonic', lambda: began() + sum(lost)))
        given = self.enterContext(mock.patch.object(
            suites, 'command', wraps=suites.command))
        self.with_fc(side_effect=lambda: lost.append(900.0))
        seconds = {call.args[0]: call.args[1]
                   for call in given.call_args_list}
        self.assertGreater(seconds['one'], suites.SECONDS - 900)
        self.assertLessEqual(seconds['fc'], suites.SECONDS - 900)
        self.assertIn(f'--seconds={seconds["fc"]:.0f}',
                      suites.command('fc', seconds['fc']))

    def test_no_fibre_channel(self):
        """One skipped test, with the reason; the others run."""
        status, stream, error = self.with_fc(
            side_effect=fcoe.BuildError('fcoe.ko needs x'))
        self.assertEqual((0, ''), (status, error))
        self.assertTrue(stream.endswith(b'<one>'))
        tally = run_tests.Tally()
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            tally.read(io.BytesIO(stream.removesuffix(b'<one>')))
        self.assertEqual(
            (0, 0, 1, {'fcoe.ko needs x'}),
            (tally.passed, tally.failed, tally.skipped, tally.reasons))

    def test_every_module_is_in_a_suite(self):
        found = {path.stem for path in pathlib.Path(
            run_tests.ROOT, 'tests', 'guest').glob('test_*.py')}
        self.assertEqual(found, set().union(*REAL.values()))


class SkippedTest(unittest.TestCase):

    def assert_skipped(self, lacking, refused):
        """One skipped test, with the reason."""
        with mock.patch.object(packages, 'missing', lambda: lacking), \
                mock.patch.object(machine, 'refused', lambda: refused):
            tally = run_e2e.run_guests()
        self.assertEqual(
            (0, 0, 1, {'the tests in a guest: needs x'}),
            (tally.passed, tally.failed, tally.skipped, tally.reasons))

    def test_no_packages(self):
        self.assert_skipped('needs x', '')

    def test_no_namespaces(self):
        self.assert_skipped('', 'needs x')


REAL = dict(suites.SUITES)
