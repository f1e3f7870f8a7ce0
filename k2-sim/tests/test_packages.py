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

"""The packages of the simulator, and their imports."""

import ast
import pathlib
import re

import testtools

ROOT = pathlib.Path(__file__).parents[2]
NAME = 'k2_sim'
# What every package may import.
SHARED = ['errors', 'clock', 'equipment', 'profiles', 'memoize',
          'version']
MAP = re.compile(r'^   \* - ``([a-z_]+)``$', re.MULTILINE)


def packages():
    """The packages in the order of the map in the documents."""
    text = (ROOT / 'doc/source/internals/simulator.rst').read_text()
    text = text.split('\nMap\n===\n')[1].split('\n===', 1)[0]
    return MAP.findall(text)


def imports(tree):
    """What a module imports of the project, for types as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (
                f'{node.module}.'.startswith(f'{NAME}.')):
            for alias in node.names:
                yield f'{node.module}.{alias.name}'.removeprefix(f'{NAME}.')
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f'{NAME}.'):
                    yield alias.name.removeprefix(f'{NAME}.')


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
                '*/__init__.py')} - {*packages(), 'browser'})

    def modules(self):
        """The modules by dotted name, with the trees of their code."""
        for path in sorted(self.place.rglob('*.py')):
            parts = path.relative_to(self.place).with_suffix('').parts
            if parts[-1] != '__init__':
                yield '.'.join(parts), ast.parse(path.read_text())

    def test_imports_go_one_way(self):
        order = [*SHARED, *packages(), 'pytest_plugin']
        order.insert(order.index('initial'), 'core')
        order[order.index('adapters'):order.index('adapters')] = [
            'array', 'connecting']
        for name, tree in self.modules():
            above = set(order[:order.index(name.partition('.')[0]) + 1])
            self.assertEqual(set(), {
                found.partition('.')[0] for found in imports(tree)} - above,
                name)

    def test_no_module_imports_itself_by_way_of_others(self):
        known = {name: {
            found if (self.place / f'{found.replace(".", "/")}.py').is_file()
            else found.rpartition('.')[0] for found in imports(tree)}
            for name, tree in self.modules()}
        done = set()

        def follow(name, way):
            self.assertNotIn(name, way, f'{" -> ".join([*way, name])}')
            if name not in done:
                for found in sorted(known.get(name, ())):
                    follow(found, [*way, name])
                done.add(name)

        for name in known:
            follow(name, [])
