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

"""The suites of make e2e, and the pictures of the documentation."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from tools import run_e2e
from tools import run_tests


class SuitesTest(unittest.TestCase):

    def run_it(self, *arguments, failed=()):
        """Run with fake suites; return the status and the suites run."""
        def fake(suite, runner=()):
            tally = run_tests.Tally()
            tally.passed, tally.failed = 1, int(suite in failed)
            return tally

        with mock.patch.object(run_tests, 'run_suite', autospec=True,
                               side_effect=fake) as run, \
                mock.patch.object(run_e2e.machine, 'unavailable',
                                  autospec=True, return_value=''), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            status = run_e2e.main(arguments)
        self.last = output.getvalue().splitlines()[-1]
        return status, [call.args[0] for call in run.call_args_list]

    def test_all(self):
        self.assertEqual((0, ['browser', 'e2e', 'devstack', 'guest']),
                         self.run_it())
        self.assertEqual('4 passed, 0 failed, 0 skipped', self.last)

    def test_some(self):
        self.assertEqual((0, ['guest', 'browser']),
                         self.run_it('guest', 'browser'))

    def test_failure(self):
        self.assertEqual((1, ['guest', 'e2e']), self.run_it(
            'guest', 'e2e', failed=['guest']))

    def test_unknown(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors, \
                self.assertRaises(SystemExit) as caught:
            self.run_it('gest')
        self.assertEqual(2, caught.exception.code)
        self.assertIn('no such suite: gest; there are browser, e2e, ',
                      errors.getvalue())


class PicturesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.source = pathlib.Path(place.name, 'made')
        self.target = pathlib.Path(place.name, 'shown')
        self.source.mkdir()
        for name in (*run_e2e.SHOWN, 'other'):
            (self.source / f'{name}.png').write_bytes(b'picture')

    def test_referenced_pictures_are_copied(self):
        run_e2e.copy_pictures(self.source, self.target)
        self.assertEqual(set(run_e2e.SHOWN), {
            picture.stem for picture in self.target.iterdir()})

    def test_missing_picture(self):
        (self.source / f'{run_e2e.SHOWN[0]}.png').unlink()
        with self.assertRaisesRegex(run_e2e.PictureError, 'not made'):
            run_e2e.copy_pictures(self.source, self.target)

    def test_picture_that_is_too_large(self):
        (self.source / f'{run_e2e.SHOWN[1]}.png').write_bytes(
            b' ' * (run_e2e.LARGEST + 1))
        with self.assertRaisesRegex(run_e2e.PictureError, 'larger'):
            run_e2e.copy_pictures(self.source, self.target)
