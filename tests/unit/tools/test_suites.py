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

"""How the tests in guests are started and what comes back of them."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from tools.guest import machine
from tools.guest import packages
from tools.guest import suites
from tools import run_e2e
from tools import run_tests


class Stream:
    """Standard output that takes bytes."""

    def __init__(self):
        self.buffer = io.BytesIO()


class SuitesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.enterContext(mock.patch.object(
            suites, 'ARTIFACTS', self.place))
        self.enterContext(mock.patch.object(
            suites, 'SUITES', {'one': ('test_a', 'test_b'),
                               'two': ('test_c',)}))
        self.commands = []
        self.status = 0

    def guest(self, command, out, **options):
        """What runs in place of a guest."""
        out.mkdir()
        self.commands.append(command[-1])
        (out / suites.RESULTS).write_text(f'<{out.name}>')
        if 'test_c' in command[-1]:
            raise machine.GuestError('no luck', machine.PANICKED)
        return self.status

    def main(self, *names):
        """Exit status, stream, and complaints."""
        error, stream = io.StringIO(), Stream()
        with mock.patch.object(machine, 'run', self.guest), \
                mock.patch('sys.stdout', stream), \
                contextlib.redirect_stderr(error):
            status = suites.main(names)
        return status, stream.buffer.getvalue(), error.getvalue().strip()

    def test_all(self):
        """In their order, also what a guest that panicked has left."""
        self.assertEqual((1, b'<one><two>', 'two: no luck'), self.main())

    def test_some(self):
        self.assertEqual((0, b'<one>', ''), self.main('one'))
        command, = self.commands
        self.assertIn('subunit.run tests.guest.test_a tests.guest.test_b',
                      command)

    def test_status(self):
        """Tests that do not come to their end are no success."""
        self.status = 3
        self.assertEqual((1, b'<one>', 'one: ended with status 3'),
                         self.main('one'))

    def test_what_was_left_before_is_removed(self):
        (self.place / 'one').mkdir()
        (self.place / 'one' / 'old').touch()
        self.main('one')
        self.assertEqual([suites.RESULTS], [
            path.name for path in (self.place / 'one').iterdir()])

    def test_every_module_is_in_a_suite(self):
        found = {path.stem for path in pathlib.Path(
            run_tests.ROOT, 'tests', 'guest').glob('test_*.py')}
        self.assertEqual(found, set().union(*REAL.values()))


class SkippedTest(unittest.TestCase):

    def test_no_packages(self):
        """One skipped test, with the packages as the reason."""
        with mock.patch.object(packages, 'missing', lambda: 'needs x'):
            tally = run_e2e.run_guests()
        self.assertEqual(
            (0, 0, 1, {'the tests in a guest: needs x'}),
            (tally.passed, tally.failed, tally.skipped, tally.reasons))


REAL = dict(suites.SUITES)
