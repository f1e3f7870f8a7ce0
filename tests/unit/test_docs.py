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

"""Statements of the documentation that the code can contradict."""

import ast
import base64
import configparser
import contextlib
import dataclasses
import io
import pathlib
import re
import unittest

from oslo_config import cfg
import yaml

from cinder_k2.cmd import admin
from cinder_k2 import options
from cinder_k2 import volume_types
import k2_sim
from k2_sim.cmd import ctl
from k2_sim.cmd import serve
from k2_sim.faults import fault_rules
from k2_sim import profiles
from tests.unit import source_trees

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / 'doc' / 'source'
PAGES = sorted(SOURCE.rglob('*.rst'))
TOP = [ROOT / name for name in (
    'README.rst', 'CONTRIBUTING.rst', 'HACKING.rst', 'k2-sim/README.rst',
    'devstack/README.rst')]
NOTES = sorted((ROOT / 'releasenotes' / 'notes').glob('*.yaml'))

LITERAL = re.compile(r'``([^`]+)``')
# Created by a build or by the user.
NOT_IN_GIT = ('.venv', 'cover/', 'doc/build', 'releasenotes/build', 'cloud/')


def named(pattern, files):
    """All matches in the files, with the file name for messages."""
    return [(path.name, word) for path in files
            for word in re.findall(pattern, path.read_text())]


def paths_in(text):
    """Literals that can only be files of the repository."""
    top = tuple(f'{entry.name}/' for entry in ROOT.iterdir()
                if entry.is_dir())
    for literal in LITERAL.findall(text):
        word = literal.split()[0]
        if word.startswith(NOT_IN_GIT):
            continue
        if word.startswith(top) or re.fullmatch(r'LICENSE|[A-Z]+\.rst', word):
            yield word


def toctree(page):
    """Pages that the toctrees of a page name."""
    found = set()
    for block in re.findall(r'^\.\. toctree::\n((?:   .*\n|\n)*)',
                            page.read_text(), re.M):
        found.update(line.strip() for line in block.splitlines()
                     if line.strip() and not line.strip().startswith(':'))
    return {(page.parent / f'{name}.rst').resolve() for name in found}


class PagesTest(unittest.TestCase):

    def test_every_page_is_reachable(self):
        reached = set()
        waiting = {SOURCE / 'index.rst'}
        while waiting:
            page = waiting.pop()
            reached.add(page)
            waiting |= toctree(page) - reached
        self.assertEqual(PAGES, sorted(reached))

    def test_images_exist(self):
        found = [(path, image) for path in [*TOP, *PAGES] for image in
                 re.findall(r'^\.\. image:: (\S+)', path.read_text(), re.M)]
        self.assertEqual(12, len(found))
        for path, image in found:
            self.assertTrue((path.parent / image).is_file(), (path, image))

    def test_chart_and_table_of_the_benchmark_agree(self):
        page = (SOURCE / 'contributor' / 'benchmark.rst').read_text()
        chart = (SOURCE / 'images' / 'benchmark.svg').read_text()
        drawn = re.findall(r'>(\d+\.\d\d s)<', chart)
        self.assertCountEqual(re.findall(r'- (\d+\.\d\d s)', page), drawn)
        self.assertGreater(len(drawn), 10)

    def test_files_exist(self):
        found = [(path.name, word) for path in [*TOP, *PAGES]
                 for word in paths_in(path.read_text())]
        self.assertGreater(len(found), 20)
        for page, word in found:
            self.assertTrue((ROOT / word).exists(), (page, word))

    def test_make_targets_exist(self):
        targets = set(re.findall(r'^([a-z0-9-]+):', (
            ROOT / 'Makefile').read_text(), re.M))
        found = named(r'(?:``|\n {4,})make ([a-z0-9-]+)',
                      [*TOP, *PAGES, *NOTES])
        self.assertIn(('README.rst', 'cloud'), found)
        for page, target in found:
            self.assertIn(target, targets, page)

    def test_tox_environments_exist(self):
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(ROOT / 'tox.ini')
        found = named(r'``tox -e ([a-z0-9-]+)``', PAGES)
        self.assertIn(('testing.rst', 'functional'), found)
        for page, name in found:
            self.assertTrue(
                name == 'py3' or tox.has_section(f'testenv:{name}'),
                (page, name))

    def test_names_in_the_package_exist(self):
        found = named(r'``((?:cinder_k2|k2_sim)(?:\.\w+)+)``',
                      [*TOP, *PAGES, *NOTES])
        self.assertIn(('features.rst', 'cinder_k2.driver.K2FCDriver'), found)
        self.assertIn(('simulator.rst', 'k2_sim.Array'), found)
        for page, name in found:
            self.assertTrue(self._exists(name), (page, name))

    def _exists(self, name):
        """Found without an import: the driver's packages need Cinder."""
        top = ROOT / 'k2-sim' if name.startswith('k2_sim') else ROOT
        module = top / name.replace('.', '/')
        if module.is_dir() or module.with_suffix('.py').is_file():
            return True
        package = module.parent / '__init__.py'
        return package.is_file() and module.name in package.read_text()


class DesignTest(unittest.TestCase):

    # Methods that save something in Cinder's database.
    WRITES = {'save', 'conditional_update', 'destroy',
              'insert_driver_initiator_data'}

    def test_layers_import_only_what_is_allowed(self):
        page = (SOURCE / 'internals' / 'design.rst').read_text()
        table = page.split('\nLayers\n')[1].split('\nImports point')[0]
        layers = {name: set(LITERAL.findall(may)) | (
            {'Cinder'} if 'Cinder' in may else set()) for name, may in
            re.findall(r'^   \* - ``cinder_k2/(\w+)/``\n.*?^     - .*?'
                       r'^     - (.*?)(?=^   \* |\Z)', table, re.M | re.S)}
        found = {path.parent.name for path in (ROOT / 'cinder_k2').glob(
            '*/__init__.py')}
        self.assertEqual(found, set(layers))
        for name, may in layers.items():
            self.assertEqual(set(), self._imports(name, found) - may, name)

    def _imports(self, name, layers):
        """Other layers, and Cinder, that the modules of a layer import."""
        names = {f'{node.module}.{alias.name}'
                 for path in source_trees.paths(f'cinder_k2/{name}')
                 for node in source_trees.nodes(path, ast.ImportFrom)
                 for alias in node.names}
        own = {each.split('.')[1] for each in names
               if each.startswith('cinder_k2.')}
        cinder = {'Cinder' for each in names if each.startswith('cinder.')}
        return (own & layers | cinder) - {name}

    def test_only_one_package_accesses_the_database(self):
        """No other code reads Cinder's tables or changes a row."""
        door = ROOT / 'cinder_k2' / 'driver' / 'db'
        self.assertIn('conditional_update', self._calls(door / 'writes.py'))
        for path in (ROOT / 'cinder_k2' / 'driver').rglob('*.py'):
            if door in path.parents:
                continue
            self.assertEqual(set(), self._calls(path) & self.WRITES, path)
            self.assertNotRegex(
                path.read_text(),
                r'from cinder import (db|objects)|cinder\.(db|objects)', path)

    def test_design_page_lists_all_database_writes(self):
        page = (SOURCE / 'internals' / 'design.rst').read_text()
        cells = re.findall(r'^ {5,7}(?:- )?``cinder_k2/driver/.*$', page.split(
            '.. _database-writes:')[1], re.M)
        listed = re.findall(r'cinder_k2/driver/[\w/]+\.py', ' '.join(cells))
        writes = source_trees.tree(
            ROOT / 'cinder_k2' / 'driver' / 'db' / 'writes.py')
        names = {node.name for node in writes.body
                 if isinstance(node, ast.FunctionDef)} - {'current', 'renew'}
        names |= {'insert_driver_initiator_data', 'save',
                  '_create_temp_snapshot'}
        writing = {str(path.relative_to(ROOT)) for path in (
            ROOT / 'cinder_k2' / 'driver').rglob('*.py')
            if path.name != 'writes.py' and self._calls(path) & names}
        self.assertTrue(writing)
        self.assertEqual(set(), writing - set(listed))

    def _calls(self, path):
        """The names of the methods that a module calls."""
        return {node.func.attr for node in source_trees.nodes(path, ast.Call)
                if isinstance(node.func, ast.Attribute)}

    def test_files_of_the_questions_for_readers_exist(self):
        questions = yaml.safe_load(
            (ROOT / 'tests' / 'readers' / 'questions.yaml').read_text())
        self.assertEqual(20, len(questions))
        for one in questions:
            self.assertEqual({'question', 'file', 'also', 'answer'}, set(one))
            for name in [one['file'], *one['also']]:
                self.assertTrue((ROOT / name).is_file(), name)


class OptionsTest(unittest.TestCase):

    def test_options_are_printed_from_the_code(self):
        page = (SOURCE / 'operator' / 'configuration.rst').read_text()
        self.assertRegex(
            page, r'\.\. show-options::\n\n   cinder_k2\n')
        printed = [option for _, group in options.list_opts()
                   for option in group]
        defined = [option for value in vars(options).values()
                   if isinstance(value, list) for option in value
                   if isinstance(option, cfg.Opt)]
        self.assertTrue(defined)
        self.assertCountEqual(defined, printed)

    def test_named_options_exist(self):
        known = {option.name for _, group in options.list_opts()
                 for option in group}
        # The simulated array, and its fixtures for pytest.
        known.update({'k2_sim', 'k2_array', 'k2_pair', 'k2_sim_options'})
        # Keys that the driver puts into connectors.
        for path in (ROOT / 'cinder_k2' / 'driver').rglob('*.py'):
            known.update(re.findall(r"^_?[A-Z]+ = '(k2_[a-z]+)'$",
                                    path.read_text(), re.M))
        found = named(r'\bk2_[a-z_]+\b', [*TOP, *PAGES, *NOTES])
        self.assertTrue(found)
        for page, name in found:
            self.assertIn(name, known, page)

    def test_named_extra_specs_exist(self):
        found = named(r'\bkaminario:[a-z_]+', [*TOP, *PAGES, *NOTES])
        known = {spec.key for spec in volume_types.EXTRA_SPECS}
        self.assertTrue(found)
        for page, name in found:
            self.assertIn(name, known, page)

    def test_clone_strategies_are_explained(self):
        page = (SOURCE / 'operator' / 'clones.rst').read_text()
        for name in volume_types.STRATEGIES:
            self.assertIn(f'``{name}``', page)


class ErrorsTest(unittest.TestCase):
    """Messages that the errors page explains are those of the code."""

    # Messages of Cinder itself, and literals that are not messages.
    OTHERS = ("Connector doesn't have required information",
              'Invalid volume type', 'initiator', 'wwpns')

    def _texts(self):
        """Every text in the driver, with a blank for each placeholder."""
        for path in source_trees.paths('cinder_k2'):
            for node in source_trees.nodes(path, (ast.JoinedStr,
                                                  ast.Constant)):
                if isinstance(node, ast.JoinedStr):
                    yield ' '.join(part.value for part in node.values
                                   if isinstance(part, ast.Constant))
                elif isinstance(node.value, str):
                    yield node.value

    def test_listed_messages_exist(self):
        page = (SOURCE / 'operator' / 'errors.rst').read_text()
        cells = re.findall(r'^   \* - (.*?)\n     - ', page, re.M | re.S)
        texts = list(self._texts())
        literals = LITERAL.findall(' '.join(cells))
        self.assertGreater(len(literals), 30)
        for literal in literals:
            for piece in ' '.join(literal.split()).split('...'):
                piece = piece.strip(' \'"[],:')
                self.assertTrue(
                    literal in self.OTHERS
                    or any(piece in text for text in texts), piece)


class SimulatorTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.page = ' '.join(path.read_text() for path in (
            SOURCE / 'internals' / 'simulator.rst',
            *sorted((SOURCE / 'simulator').glob('*.rst'))))

    def _assert_all_named(self, names):
        literals = ' '.join(LITERAL.findall(self.page))
        names = set(names)
        self.assertGreater(len(names), 1)
        self.assertEqual(
            set(), names - set(re.findall(r'[\w/-]+', literals)))

    def test_behaviors(self):
        self._assert_all_named(
            field.name for field in dataclasses.fields(profiles.Behaviors))

    def test_profiles(self):
        self._assert_all_named(profiles.NAMES)

    def test_faults(self):
        self._assert_all_named(fault_rules.KINDS)

    def test_control_api(self):
        token = base64.b64encode(b'admin:admin').decode()
        reply = k2_sim.Array().handle(
            'GET', '/sim/v1', headers={'Authorization': f'Basic {token}'})
        self._assert_all_named(reply.json()['resources'])

    def test_options_of_the_command(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), \
                self.assertRaises(SystemExit):
            serve.main(['--help'])
        self._assert_all_named(
            set(re.findall(r'--[a-z-]+', output.getvalue())) - {'--help'})


class SimulatorCommandTest(unittest.TestCase):

    def test_commands_and_options(self):
        page = (SOURCE / 'simulator' / 'k2-sim-ctl.rst').read_text()
        for noun, (_, verbs) in ctl.COMMANDS.items():
            for name, verb in verbs.items():
                self.assertRegex(page, rf'``{noun} {name}\b')
                for argument, _ in verb.arguments:
                    if argument.startswith('--'):
                        self.assertIn(argument, page)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), \
                self.assertRaises(SystemExit):
            ctl.main(['--help'])
        for option in set(re.findall(r'--[a-z-]+', output.getvalue())):
            self.assertTrue(option == '--help' or re.search(
                rf'``{option}[ `]', page), option)


class AdminTest(unittest.TestCase):

    def test_commands_and_options(self):
        page = (SOURCE / 'operator' / 'k2-admin.rst').read_text()
        output = io.StringIO()
        with contextlib.redirect_stdout(output), \
                self.assertRaises(SystemExit):
            admin.main(['deferred', '--help'])
        for option in set(re.findall(r'--[a-z-]+', output.getvalue())):
            self.assertIn(f'``{option}', page)
        for command in admin.COMMANDS:
            self.assertIn(f'\n{command}\n{"=" * len(command)}\n', page)
