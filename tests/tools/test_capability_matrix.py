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

"""The page about arrays that lack a capability."""

import contextlib
import io
import json
import pathlib
import tempfile
from typing import Any
from unittest import mock

import testtools
from testtools import content

from tests import contexts
from tools import capability_matrix
from tools import run_tests

ROW = {'script': 'volumes', 'protocol': 'fc', 'capability': 'sort',
       'refusal': 'bad_request', 'outcomes': {'create': 'as fast'}}


class CapabilityMatrixTest(testtools.TestCase):
    """The tests themselves are replaced."""

    def setUp(self) -> None:
        super().setUp()
        directory = contexts.enter(self, tempfile.TemporaryDirectory())
        self.page = pathlib.Path(directory) / 'page.rst'
        self.page.write_text('before')
        contexts.enter(self, mock.patch.multiple(
            capability_matrix, PAGE=self.page, ROOT=self.page.parent))
        self.tally = run_tests.Tally()
        self.tests = [self.finished('success')]

    def finished(self, status: str) -> dict[str, Any]:
        return {'id': 'a', 'status': status, 'details': {
            'matrix': content.text_content(json.dumps(ROW))}}

    def run_it(self) -> tuple[int, str]:
        """Return the exit status, and what was printed."""
        with contextlib.redirect_stdout(io.StringIO()) as printed, \
                mock.patch.multiple(
                    run_tests, run_suite=lambda *_, **__: self.tally,
                    last_tests=lambda: self.tests):
            status = capability_matrix.main([])
        return status, printed.getvalue()

    def test_page(self) -> None:
        status, printed = self.run_it()
        self.assertEqual((0, True), (status, '``sort``' in
                                     self.page.read_text()), printed)

    def test_run_that_was_stopped(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.tally.fail('stopped after 7200 s')
        status, printed = self.run_it()
        self.assertEqual((1, 'before'), (status, self.page.read_text()))
        self.assertIn('stays as it was: 0 tests failed, 1 rows', printed)

    def test_failure(self) -> None:
        self.tests.append(self.finished('fail'))
        status, printed = self.run_it()
        self.assertEqual((1, 'before'), (status, self.page.read_text()))
        self.assertIn('1 tests failed', printed)

    def test_no_results(self) -> None:
        self.tests.clear()
        self.assertEqual(1, self.run_it()[0])
