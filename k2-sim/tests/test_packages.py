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

"""The packages of the simulator, and who imports from whom."""

import ast
import pathlib
import re

import testtools

ROOT = pathlib.Path(__file__).parents[2]
NAME = 'k2_sim'
# What every package may use.
SHARED = ['errors', 'clock', 'equipment', 'profiles', 'remembered',
          'version']
MAP = re.compile(r'^   \* - ``([a-z]+)``$', re.MULTILINE)


def packages():
    """The packages in the order of the map in the documents."""
    text = (ROOT / 'doc/source/internals/simulator.rst').read_text()
    text = text.split('\nMap\n===\n')[1].split('\n===', 1)[0]
    return MAP.findall(text)


def imports(tree):
    """The parts that a module imports from, but not for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(
                node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (
                f'{node.module}.'.startswith(f'{NAME}.')):
            for alias in node.names:
                found = f'{node.module}.{alias.name}'.removeprefix(f'{NAME}.')
                yield found.partition('.')[0]
        yield from imports(node)


class TestPackages(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.place = ROOT / 'k2-sim' / NAME

    def test_the_map_has_every_package(self):
        self.assertEqual(
            {path.parent.name for path in self.place.glob('*/__init__.py')},
            set(packages()))

    def test_the_tests_lie_in_the_same_packages(self):
        self.assertEqual(set(), {
            path.parent.name for path in pathlib.Path(__file__).parent.glob(
                '*/__init__.py')} - set(packages()))

    def test_imports_go_one_way(self):
        order = [*SHARED, *packages(), 'pytest_plugin']
        order.insert(order.index('adapters'), 'array')
        for path in self.place.rglob('*.py'):
            part = path.relative_to(self.place).with_suffix('').parts[0]
            if part == '__init__':
                continue
            above = set(order[:order.index(part) + 1])
            self.assertEqual(set(), set(imports(ast.parse(
                path.read_text()))) - above, path)
