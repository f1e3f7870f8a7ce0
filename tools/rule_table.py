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

"""Write the page of the API's rules, with the tests that cite them.

    python -m tools.rule_table [--check]

The page is generated from ``rules.yaml`` and the docstrings of the tests.
``--check`` only reports whether it is up to date. The exit status is 1
if it is not, or if rules and tests are inconsistent.

A test cites a rule by its id in its own docstring, or in that of its class,
which then applies to all tests of the class. No test is run or imported.
"""

import argparse
import ast
import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import pathlib
import re
import sys
import textwrap
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / 'doc' / 'source' / 'simulator'
DATA = FOLDER / 'rules.yaml'
PAGE = FOLDER / 'rules.rst'
# Tests that show what the array does; the others show what a client does.
OF_ARRAY = 'k2-sim/tests/'
FOLDERS = (OF_ARRAY, 'tests/')

RANGE = re.compile(r'\b([A-Z]{2,3}-\d+) to [A-Z]*-?\d+')
WIDTHS = '9 7 34 36 14'
INTRODUCTION = """\
.. Written by make rule-table from rules.yaml and the tests. A change by hand
   makes make test fail.

================
Rules of the API
================

All rules that the simulated array follows, and the tests that show it. The
page is generated from ``doc/source/simulator/rules.yaml`` and the tests, and
``make test`` fails if it is out of date, or if a rule that binds the array has
no test.

Only numbered rules are listed, not units, the forms of conditions, error
statuses, fields, the states of a session and limits. Tests of these cite a
section instead. Requests of the main flows, with their replies, are in
``k2-sim/tests/api/stories.yaml``.

Grade
    *D*: the vendor documents it. *R*: a published client relies on it. *A*: an
    assumption, because no source says so; the simulated array follows the
    strict reading.

Tests
    Each cites the rule in its docstring. Those of ``k2-sim/tests`` show what
    the array does, all others what the driver does. A rule that binds only
    clients does not need one.

Behavior
    A behavior with which the array deviates from the rule, see
    :doc:`../internals/simulator`.

Missing
    What the simulated array does not implement yet.
"""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule of the API.

    :ivar grade: D, R or A, or two of them with a slash
    :ivar binds: array, client or both
    :ivar says: the gist
    :ivar behaviors: behaviors with which an array deviates from it
    :ivar missing: what the simulated array does not implement of it
    """

    grade: str
    binds: str
    says: str
    behaviors: tuple[str, ...] = ()
    missing: str = ''


@dataclasses.dataclass(frozen=True, order=True)
class Citation:
    """One test, or a class of tests, that names rules in its docstring.

    :ivar module: its file, such as k2-sim/tests/rules/test_hosts
    :ivar name: its class, and its function unless the class itself cites
    :ivar text: the docstring
    """

    module: str
    name: str
    text: str

    @property
    def of_array(self) -> bool:
        """Whether it tests the simulated array."""
        return self.module.startswith(OF_ARRAY)


Cited = Mapping[str, list[Citation]]


def load_rules(data: Mapping[str, Any]) -> dict[str, Rule]:
    """Return all rules by id, in the order of the file."""
    return {rule: Rule(**{**fields,
                          'behaviors': tuple(fields.get('behaviors', ()))})
            for section in data['sections']
            for rule, fields in section['rules'].items()}


def load_citations(root: pathlib.Path) -> list[Citation]:
    """Return the docstring of each test of a checkout, in order."""
    return sorted(
        citation for folder in FOLDERS
        for path in (root / folder).rglob('test_*.py')
        for citation in _citations(
            path.relative_to(root).with_suffix('').as_posix(),
            ast.parse(path.read_text())))


def _citations(module: str, tree: ast.Module) -> Iterator[Citation]:
    for group in tree.body:
        if not isinstance(group, ast.ClassDef):
            continue
        tests = [member for member in group.body
                 if isinstance(member, ast.FunctionDef)
                 and member.name.startswith('test_')]
        if tests and (text := ast.get_docstring(group)):
            yield Citation(module, group.name, text)
        for test in tests:
            if text := ast.get_docstring(test):
                yield Citation(module, f'{group.name}.{test.name}', text)


def cite(rules: Iterable[str], citations: Iterable[Citation]) -> Cited:
    """Return the citations of every rule id with a known prefix.

    They may include ids of rules that do not exist.
    """
    families = '|'.join(sorted({rule.split('-')[0] for rule in rules}))
    pattern = re.compile(rf'\b(?:{families})-\d+\b')
    cited: dict[str, list[Citation]] = collections.defaultdict(list)
    for citation in citations:
        for rule in dict.fromkeys(pattern.findall(citation.text)):
            cited[rule].append(citation)
    return cited


def problems(rules: Mapping[str, Rule], cited: Cited) -> list[str]:
    """Return the inconsistencies as sentences."""
    return [*_untested(rules, cited), *_unknown(rules, cited),
            *_ranges(cited)]


def _untested(rules: Mapping[str, Rule], cited: Cited) -> Iterator[str]:
    for number, rule in rules.items():
        tests = [test for test in cited.get(number, ()) if test.of_array]
        if rule.binds != 'client' and not tests and not rule.missing:
            yield (f'{number} binds the array and no test in '
                   f'{OF_ARRAY} cites it')


def _unknown(rules: Mapping[str, Rule], cited: Cited) -> Iterator[str]:
    for number in sorted(set(cited) - set(rules)):
        test = cited[number][0]
        yield f'{test.module} {test.name} cites {number}, which is no rule'


def _ranges(cited: Cited) -> Iterator[str]:
    tests = {test for found in cited.values() for test in found}
    for test in sorted(tests):
        if found := RANGE.search(test.text):
            yield (f'{test.module} {test.name} cites {found[0]}: name each '
                   'rule that it shows')


def render(data: Mapping[str, Any], cited: Cited) -> str:
    """Return the text of the page."""
    lines = [INTRODUCTION]
    rules = load_rules(data)
    for section in data['sections']:
        lines += _heading(section['section'])
        lines += _table(
            ['Rule', 'Grade', 'What it says', 'Tests', 'Behavior'], WIDTHS,
            (_row(number, rules[number], cited.get(number, []))
             for number in section['rules']))
        lines.append('')
    lines += _heading('Where the sources disagree')
    lines += _table(['Point', 'The array', 'The other way', 'Behavior',
                     'Rules'],
                    '26 20 18 24 12', map(_choice, data['disagreements']))
    return '\n'.join([*lines, ''])


def _row(number: str, rule: Rule, tests: list[Citation]) -> list[list[str]]:
    says = [f'{_escape(rule.says)}.']
    if rule.binds != 'both':
        says.append(f'Binds the {rule.binds} alone.')
    if rule.missing:
        says.append(f'*Missing:* {_escape(rule.missing)}.')
    return [[number], [rule.grade], says, _tests(tests),
            [f'``{behavior}``' for behavior in rule.behaviors]]


def _tests(tests: list[Citation]) -> list[str]:
    """Return a line for each module, with the names that cite in it."""
    modules: dict[str, list[str]] = collections.defaultdict(list)
    for test in tests:
        modules[test.module].append(f'``{test.name}``')
    return [f'{module}: {", ".join(names)}'
            for module, names in modules.items()] or ['none']


def _choice(point: Mapping[str, Any]) -> list[list[str]]:
    behavior = (f'``{point["behavior"]}``' if 'behavior' in point else
                f'*Missing:* {_escape(point["missing"])}'
                if 'missing' in point else f'None: {_escape(point["fixed"])}')
    return [[_escape(point['point'])], [_escape(point['choice'])],
            [_escape(point['other'])], [behavior], [', '.join(point['rules'])]]


def _escape(text: str) -> str:
    return re.sub(r'([*`|_\\])', r'\\\1', text)


def _heading(text: str) -> list[str]:
    return [text, '=' * len(text), '']


def _table(heading: list[str], widths: str,
           rows: Iterable[list[list[str]]]) -> list[str]:
    """Return a table whose cells are lists of paragraphs."""
    lines = ['.. list-table::', '   :header-rows: 1',
             f'   :widths: {widths}', '']
    for row in [[[title] for title in heading], *rows]:
        for number, paragraphs in enumerate(row):
            lines += _cell('     - ' if number else '   * - ', paragraphs)
    return lines


def _cell(start: str, paragraphs: list[str]) -> list[str]:
    lines: list[str] = []
    for text in paragraphs or ['']:
        if lines:
            lines.append('')
        lines += textwrap.wrap(
            text, 79, initial_indent='       ' if lines else start,
            subsequent_indent='       ', break_long_words=False,
            break_on_hyphens=False) or [start.rstrip()]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='rule_table',
        description='Write the table of rules from rules.yaml and the tests.')
    parser.add_argument('--check', action='store_true',
                        help='only report whether the page is up to date')
    check = parser.parse_args(arguments).check
    data = yaml.safe_load(DATA.read_text())
    rules = load_rules(data)
    cited = cite(rules, load_citations(ROOT))
    wrong = problems(rules, cited)
    for problem in wrong:
        print(f'rule table: {problem}.')
    text = render(data, cited)
    name = PAGE.relative_to(ROOT)
    if not check:
        PAGE.write_text(text)
        print(f'rule table: wrote {name}')
    elif not PAGE.is_file() or PAGE.read_text() != text:
        print(f'rule table: {name} does not match rules.yaml and the'
              ' tests. Run: make rule-table')
        return 1
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main())
