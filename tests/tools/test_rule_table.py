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
import io
import pathlib
import tempfile
import textwrap
import unittest
from unittest import mock

import yaml

from k2_sim import profiles
from tools import rule_table

RULES = '''
sections:
- section: 4.1 volumes
  rules:
    VOL-1:
      grade: A
      binds: array
      says: names are *unique*
    VOL-2:
      grade: D/R
      binds: client
      says: "no | shrink_ing"
- section: 9 Events
  rules:
    EVT-1:
      grade: R
      binds: both
      says: searched
      behaviors: [statistics]
      missing: no event
disagreements:
- {point: page, choice: '100', other: '1000', rules: [], behavior: page_size}
- {point: dedup, choice: refused, other: done, rules: [VOL-1, VOL-2],
   missing: no behavior}
- {point: exposure, choice: all, other: some, rules: [], fixed: no need}
'''
MODULE = '''
"""VOL-1 in a module."""

class TestNames:
    """VOL-2."""

    def test_one(self):
        """VOL-1: unique, EVT-1."""
        # EVT-1
        return 'EVT-1'

    def test_two(self):
        pass

    def helper(self):
        """EVT-1."""

class Base:
    """EVT-1: no tests here."""

def test_loose():
    """VOL-1."""
'''


def citation(text, module='k2-sim/tests/test_a', name='TestA.test_a'):
    return rule_table.Citation(module, name, text)


class RulesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.data = yaml.safe_load(rule_table.DATA.read_text())
        cls.rules = rule_table.load_rules(cls.data)

    def test_grades_and_bound_parties(self):
        for number, rule in self.rules.items():
            self.assertRegex(number, r'^[A-Z]{2,3}-[1-9]\d*$')
            self.assertLessEqual(set(rule.grade.split('/')), set('DRA'))
            self.assertIn(rule.binds, ('array', 'client', 'both'))
            self.assertLessEqual(len(rule.says), 80, number)
            self.assertNotRegex(rule.says, r'\.$')

    def test_numbers_have_no_gaps(self):
        families = {}
        for number in self.rules:
            family, _, count = number.partition('-')
            families.setdefault(family, []).append(int(count))
        for family, counts in families.items():
            self.assertEqual(list(range(1, len(counts) + 1)), counts, family)

    def test_behaviors_are_the_arrays(self):
        known = {field.name for field in dataclasses.fields(
            profiles.Behaviors)}
        named = {behavior for rule in self.rules.values()
                 for behavior in rule.behaviors}
        named |= {point['behavior'] for point in self.data['disagreements']
                  if 'behavior' in point}
        self.assertLessEqual(named, known)

    def test_disagreements_of_sources(self):
        for point in self.data['disagreements']:
            self.assertEqual(
                1, len(point.keys() & {'behavior', 'missing', 'fixed'}), point)
            self.assertLessEqual(set(point['rules']), set(self.rules))

    def test_every_rule_of_the_array_has_a_test(self):
        """And no test cites an unknown rule, or a range."""
        cited = rule_table.cite(
            self.rules, rule_table.load_citations(rule_table.ROOT))
        self.assertEqual([], rule_table.problems(self.rules, cited))


class CitationsTest(unittest.TestCase):

    def load(self, text):
        folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        (folder / 'tests').mkdir()
        (folder / 'tests' / 'test_a.py').write_text(textwrap.dedent(text))
        (folder / 'tests' / 'base.py').write_text(MODULE)
        return rule_table.load_citations(folder)

    def test_docstrings_of_tests_and_their_classes_count(self):
        self.assertEqual(
            [('tests/test_a', 'TestNames', 'VOL-2.'),
             ('tests/test_a', 'TestNames.test_one', 'VOL-1: unique, EVT-1.')],
            [(test.module, test.name, test.text)
             for test in self.load(MODULE)])

    def test_ids(self):
        first, second = citation('VOL-1, EVT-1 and VOL-1'), citation('VOL-12')
        self.assertEqual(
            {'VOL-1': [first], 'EVT-1': [first], 'VOL-12': [second]},
            rule_table.cite(['VOL-1', 'EVT-1'], [
                first, second, citation('ISO-1, XVOL-1')]))


class ProblemsTest(unittest.TestCase):

    def problems(self, *citations):
        rules = rule_table.load_rules(yaml.safe_load(RULES))
        return rule_table.problems(rules, rule_table.cite(rules, citations))

    def test_no_problems(self):
        """A rule for clients, and a missing one, need no test."""
        self.assertEqual([], self.problems(citation('VOL-1')))

    def test_no_test(self):
        wanted = ['VOL-1 binds the array and no test in '
                  'k2-sim/tests/ cites it']
        self.assertEqual(wanted, self.problems())
        self.assertEqual(wanted, self.problems(
            citation('VOL-1', 'unit/rest/test_a')))

    def test_no_rule(self):
        self.assertEqual(
            ['k2-sim/tests/test_a TestA.test_a cites VOL-3, which is no '
             'rule'], self.problems(citation('VOL-1, VOL-3')))

    def test_range(self):
        for text in ('VOL-1 to VOL-2', 'VOL-1 to 2'):
            self.assertEqual(
                [f'k2-sim/tests/test_a TestA.test_a cites {text}: name '
                 'each rule that it shows'], self.problems(citation(text)))


class RenderTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.data = yaml.safe_load(RULES)
        self.lines = rule_table.render(self.data, rule_table.cite(
            ['VOL-1'], [citation('VOL-1'), citation('VOL-1', name='TestB'),
                        citation('VOL-1', 'unit/rest/test_c')])).splitlines()

    def row(self, first):
        """Return the lines of the row that begins with a cell."""
        begin = self.lines.index(f'   * - {first}')
        row = [self.lines[begin]]
        for line in self.lines[begin + 1:]:
            if not line.startswith('     '):
                if line:
                    break
            row.append(line)
        return row

    def test_tests_by_module(self):
        self.assertEqual([
            '   * - VOL-1', '     - A', r'     - names are \*unique\*.', '',
            '       Binds the array alone.',
            '     - k2-sim/tests/test_a: ``TestA.test_a``, ``TestB``', '',
            '       unit/rest/test_c: ``TestA.test_a``', '     -'],
            self.row('VOL-1')[:9])

    def test_no_test(self):
        self.assertEqual([
            '   * - VOL-2', '     - D/R', r'     - no \| shrink\_ing.', '',
            '       Binds the client alone.', '     - none', '     -'],
            self.row('VOL-2')[:7])

    def test_missing(self):
        self.assertEqual([
            '   * - EVT-1', '     - R', '     - searched.', '',
            '       *Missing:* no event.', '     - none',
            '     - ``statistics``'], self.row('EVT-1')[:7])

    def test_disagreements(self):
        self.assertEqual(['   * - page', '     - 100', '     - 1000',
                          '     - ``page_size``', '     -'],
                         self.row('page'))
        self.assertEqual(
            ['     - *Missing:* no behavior', '     - VOL-1, VOL-2'],
            self.row('dedup')[3:])
        self.assertEqual('     - None: no need', self.row('exposure')[3])


class MainTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.test = root / 'k2-sim' / 'tests' / 'test_a.py'
        self.test.parent.mkdir(parents=True)
        self.test.write_text(MODULE)
        self.data, self.page = root / 'rules.yaml', root / 'rules.rst'
        self.data.write_text(RULES)
        self.enterContext(mock.patch.multiple(
            rule_table, ROOT=root, DATA=self.data, PAGE=self.page))

    def main(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = rule_table.main(arguments)
        return status, out.getvalue()

    def test_written_and_up_to_date(self):
        self.assertEqual((0, 'rule table: wrote rules.rst\n'), self.main())
        self.assertIn('Rules of the API', self.page.read_text())
        self.assertEqual((0, ''), self.main('--check'))

    def test_out_of_date(self):
        """Missing page, changed tests, changed rules, manual change."""
        self.assert_stale()
        self.main()
        self.test.write_text(MODULE.replace('test_one', 'test_1'))
        self.assert_stale()
        self.main()
        self.data.write_text(RULES.replace('unique', 'single'))
        self.assert_stale()
        self.main()
        self.page.write_text(self.page.read_text() + 'x')
        self.assert_stale()

    def assert_stale(self):
        status, text = self.main('--check')
        self.assertEqual(1, status)
        self.assertIn('Run: make rule-table', text)

    def test_rule_without_a_test(self):
        """The output and the exit status report it."""
        self.test.write_text('')
        status, text = self.main()
        self.assertEqual(1, status)
        self.assertIn('rule table: VOL-1 binds the array and no test', text)
        self.assertIn('rule table: wrote', text)
        self.assertEqual(1, self.main('--check')[0])
