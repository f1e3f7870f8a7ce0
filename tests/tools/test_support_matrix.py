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
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

from tools import support_matrix

ISCSI, FC = ('iscsi', 'k2'), ('fc', 'k2')
MODULE = '''
import unittest

class Cloning(unittest.TestCase):
    feature = 'clones'
    protocol = 'iscsi'
    profile = '{profile}'

    def test_a(self):
        pass

    def test_b(self):
        pass

class Other(unittest.TestCase):
    def test_c(self):
        pass
'''


def case(test, feature='clones', columns=ISCSI):
    return support_matrix.Case(test, feature, columns)


def cells(rows, feature):
    return [str(cell) for cell in rows[feature].values()]


class FeaturesTest(unittest.TestCase):

    def test_all_passed(self):
        rows = support_matrix.features(
            [case('a'), case('b'), case('c', columns=FC)],
            {'a': 'success', 'b': 'success', 'c': 'success'})
        self.assertEqual(['yes (2)', 'yes (1)', 'yes (3)', 'no'],
                         cells(rows, 'clones'))

    def test_one_failed_test_is_enough(self):
        for status in ('fail', 'skip', 'xfail', 'uxsuccess', 'inprogress'):
            rows = support_matrix.features(
                [case('a'), case('b')], {'a': 'success', 'b': status})
            self.assertEqual(['no'] * 4, cells(rows, 'clones'), status)

    def test_one_test_that_was_not_run_is_enough(self):
        rows = support_matrix.features([case('a'), case('b')],
                                       {'a': 'success'})
        self.assertEqual(['no'] * 4, cells(rows, 'clones'))

    def test_rows_of_cinder_need_all_of_their_features(self):
        rows = support_matrix.features(
            [case('a'), case('b', 'snapshots'),
             case('c', 'snapshots', FC)],
            dict.fromkeys('abc', 'success'))

        def row(*wanted):
            return [str(cell) for cell in support_matrix.cinder_row(
                wanted, rows).values()]

        self.assertEqual(['yes (2)', 'no', 'yes (3)', 'no'],
                         row('clones', 'snapshots'))
        self.assertEqual(['yes (1)', 'yes (1)', 'yes (2)', 'no'],
                         row('snapshots'))
        self.assertEqual(['no'] * 4, row('clones', 'replication'))
        self.assertEqual(['no'] * 4, row())


class ResultsTest(unittest.TestCase):

    def test_incomplete_run(self):
        with self.assertRaisesRegex(support_matrix.CannotTell,
                                    'left out 1 of the 2 .* as b'):
            support_matrix.check_complete([case('a'), case('b')],
                                          {'a': 'success', 'z': 'fail'})

    def test_no_run(self):
        for cases in ([], [case('a')]):
            with self.assertRaises(support_matrix.CannotTell):
                support_matrix.check_complete(cases, {})


class CasesTest(unittest.TestCase):

    def load(self, text):
        folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        (folder / 'test_of_matrix.py').write_text(textwrap.dedent(text))
        self.enterContext(mock.patch.object(support_matrix, 'ROOT', folder))
        # Discovery imports the module, and puts its folder on the path.
        self.enterContext(mock.patch.dict(sys.modules))
        self.enterContext(mock.patch.object(sys, 'path', [*sys.path]))
        return support_matrix.load_cases(folder)

    def test_tests_of_classes_with_a_feature(self):
        found = self.load(MODULE.format(profile='sdp'))
        self.assertEqual(
            [case(f'test_of_matrix.Cloning.test_{x}',
                  columns=('iscsi', 'sdp')) for x in 'ab'], found)

    def test_a_protocol_or_profile_without_a_column(self):
        with self.assertRaisesRegex(support_matrix.CannotTell, 'nvme'):
            self.load(MODULE.format(profile='nvme'))

    def test_a_module_that_cannot_be_imported(self):
        with self.assertRaisesRegex(support_matrix.CannotTell,
                                    'no_such_module'):
            self.load('import no_such_module')


class MainTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.page = root / 'page.rst'
        self.results = {'a': 'success'}
        self.enterContext(mock.patch.multiple(
            support_matrix, ROOT=root, PAGE=self.page,
            load_cases=lambda: [case('a', 'multiattach')],
            last_results=lambda: self.results))

    def main(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = support_matrix.main(list(arguments))
        return status, output.getvalue()

    def test_a_written_page_passes_the_check(self):
        self.assertEqual(0, self.main()[0])
        self.assertEqual((0, ''), self.main('--check'))
        page = self.page.read_text()
        self.assertIn('   * - multiattach\n     - yes (1)\n', page)
        self.assertIn('   * - Multi-attach\n     - yes (1)\n', page)
        self.assertIn('     - The array has no QoS.\n', page)
        self.assertLess(max(map(len, page.splitlines())), 80)

    def test_a_manual_change_fails_the_check(self):
        self.main()
        self.page.write_text(self.page.read_text().replace(
            '- no\n', '- yes (1)\n', 1))
        status, text = self.main('--check')
        self.assertEqual(1, status)
        self.assertIn('make support-matrix', text)
        self.assertEqual(1, len(text.splitlines()))

    def test_a_failed_test_fails_the_check(self):
        self.main()
        self.results = {'a': 'fail'}
        self.assertEqual(1, self.main('--check')[0])

    def test_no_page(self):
        self.assertEqual(1, self.main('--check')[0])

    def test_an_incomplete_run_writes_nothing(self):
        self.results = {}
        status, text = self.main()
        self.assertEqual(1, status)
        self.assertIn('Run: make test', text)
        self.assertFalse(self.page.exists())
