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

"""Cinder's checklist for reviewers of new drivers, as far as tests can go.

The docstring of each test paraphrases an item. The items that only people can
judge, and where each item is met, are in doc/source/contributor/checklist.rst.
"""

import ast
import functools
import importlib.metadata
import inspect
import pathlib
import pkgutil
import re
import sys
import unittest

from cinder import exception
from cinder.interface import util
from cinder.volume import driver as cinder_driver
from cinder.volume.drivers.san import san
import ddt
import yaml

import cinder_k2
from cinder_k2 import driver
from cinder_k2.driver import config
from cinder_k2.driver import errors
from cinder_k2.flows import hosts
from cinder_k2 import options
from cinder_k2 import rest
from tests.unit.driver import signatures
from tests.unit import source_trees
from tools import support_matrix

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / 'cinder_k2'
DRIVERS = (driver.K2ISCSIDriver, driver.K2FCDriver)
# Rows of Cinder's matrix: what is required, and what the array lacks.
REQUIRED = 'Supported: all that Cinder requires of a driver'
MISSING = {'QoS'}
# Raised for invalid settings at startup, never by an operation.
AT_START = {rest.InvalidSettings}
# Raised by one part of the driver and handled by another.
WITHIN = {hosts.MustBeAlone}
# Not items of the checklist: tests of these tests and of our own rules.
OWN_TESTS = {'test_methods_that_reach_the_array_are_seen',
             'test_every_item_is_explained', 'test_composition',
             'test_methods_of_cinder_are_written_out'}


@functools.cache
def sources():
    """Return the files that cinder-volume loads: no probe, no commands."""
    return [path for path in source_trees.paths('cinder_k2')
            if not {'probe', 'cmd'} & set(path.parts)]


def nodes(kinds, below=''):
    """Return (file, node) of all nodes of the given kinds."""
    return [(path, node) for path in sources()
            if (PACKAGE / below) in path.parents
            for node in source_trees.nodes(path, kinds)]


def calls(prefix, below=''):
    """Return calls of functions that begin with ``prefix``: "LOG."."""
    return [(path, node) for path, node in nodes(ast.Call, below)
            if source_trees.source(node.func).startswith(prefix)]


def imported():
    """Return the modules and names that the driver imports."""
    found = set()
    for _, node in nodes((ast.Import, ast.ImportFrom)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            found.update(f'{node.module}.{alias.name}'
                         for alias in node.names)
    return found


def public_methods(cls):
    """Return the public driver methods that this project implements."""
    names = signatures.methods_of(cinder_driver.VolumeDriver)
    return [name for name in names if not name.startswith('_')
            and signatures.owner(cls, name).__module__.startswith(
                'cinder_k2.')]


def reaches_the_array(method):
    """Return whether a method uses an array without translating errors.

    :param method: its def; the arrays of a driver are in ``_arrays``
    """
    for node in ast.iter_child_nodes(method):
        if isinstance(node, ast.With) and any(
                re.match(r'errors\.translated\(|self\._on_',
                         ast.unparse(item.context_expr))
                for item in node.items):
            continue
        if (isinstance(node, ast.Attribute) and node.attr == '_arrays'
                or reaches_the_array(node)):
            return True
    return False


def row_of_matrix(feature):
    """Return the cells of a feature in the documented support matrix."""
    found = re.search(rf'^   \* - {re.escape(feature)}\n((?:     - .*\n)+)',
                      support_matrix.PAGE.read_text(), re.M)
    return re.findall('- (.*)', found[1]) if found else []


@ddt.ddt
class DriverClassTest(unittest.TestCase):

    @ddt.data(*DRIVERS)
    def test_cinder_finds_the_class(self, cls):
        """The concrete class is registered with the decorator."""
        found = [d for d in util.get_volume_drivers() if d.cls is cls]
        self.assertEqual(1, len(found))
        self.assertTrue(found[0].driver_options)

    @ddt.data(*DRIVERS)
    def test_version(self, cls):
        """It has a version, and the class docstring has the history."""
        self.assertRegex(cls.VERSION, r'^\d+\.\d+\.\d+$')
        history = cls.__doc__.partition('Version history:')[2]
        self.assertEqual(
            cls.VERSION, re.findall(r'\* (\d+\.\d+\.\d+): \w', history)[-1])

    @ddt.data(*DRIVERS)
    def test_ci_name(self, cls):
        """It names its third-party CI."""
        self.assertRegex(cls.CI_WIKI_NAME, r'^\w+$')

    @ddt.data(*DRIVERS)
    def test_it_is_supported(self, cls):
        """It is not marked as unsupported."""
        self.assertIs(True, cls.SUPPORTED)

    @ddt.data(*DRIVERS)
    def test_errors_are_cinders(self, cls):
        """Methods that use the array only raise Cinder's exceptions."""
        # Errors of check_for_setup_error are reported to the operator.
        names = set(public_methods(cls)) - {'check_for_setup_error'}
        self.assertGreater(len(names), 12)
        self.assertEqual([], [
            method.name for path, method in nodes(ast.FunctionDef, 'driver')
            if method.name in names and path.name == 'base.py'
            and reaches_the_array(method)])

    def test_methods_that_reach_the_array_are_seen(self):
        """reaches_the_array detects a method that translates nothing."""
        careless, careful = ast.parse(
            'def extend_volume(self, volume, new_size):\n'
            '    self._arrays.of(volume).volumes.extend_volume(volume)\n'
            'def delete_volume(self, volume):\n'
            '    with self._on_array_of(volume) as array:\n'
            '        array.deletion.delete_volume(volume)\n').body
        self.assertTrue(reaches_the_array(careless))
        self.assertFalse(reaches_the_array(careful))


@ddt.ddt
class FeaturesTest(unittest.TestCase):

    @ddt.data(*support_matrix.CINDER[REQUIRED])
    def test_minimum_features(self, feature):
        """It has the features that every driver must have."""
        self._assert_works(feature)

    @ddt.data(*sorted(set(support_matrix.CINDER) - MISSING))
    def test_support_matrix(self, row):
        """The support matrix lists what tests have shown to work."""
        self._assert_works(row)

    def test_force_detach(self):
        """A detach without connector unmaps the volume from every host."""
        self._assert_works('force detach')

    def test_larger_copies(self):
        """A clone can be larger than its source."""
        self._assert_works('clones of any size and type')

    def test_delete_what_is_gone(self):
        """Deleting an object that the array does not have succeeds."""
        self._assert_works('delete what is gone')

    def test_name_id(self):
        """After a migration, objects are found by the name_id."""
        self._assert_works('host-assisted migration')

    def _assert_works(self, feature):
        columns = len(support_matrix.COLUMNS)
        cells = row_of_matrix(feature)[:columns]
        self.assertEqual(columns, len(cells), feature)
        for cell in cells:
            self.assertRegex(cell, r'^yes \(\d+\)$', feature)


class OptionsTest(unittest.TestCase):

    def _read(self):
        """Return the names of options that the code reads."""
        names = {node.attr for _, node in nodes(ast.Attribute)
                 if ast.unparse(node.value) in (
                     'configuration', 'self.configuration',
                     'self._configuration', 'conf')}
        for _, call in [*calls('configuration.safe_get'),
                        *calls('self.configuration.safe_get')]:
            names.update(a.value for a in call.args
                         if isinstance(a, ast.Constant))
        return names - {'safe_get', 'append_config_values', 'config_group'}

    def test_only_cinder_conf(self):
        """All settings are in cinder.conf, not in a vendor's file.

        The driver does not read the files for multipathd and udev.
        """
        readers = ('xml', 'lxml', 'configparser', 'tomllib', 'yaml', 'csv')
        self.assertEqual(
            set(), {n for n in imported() if n.split('.')[0] in readers})
        # Cached capabilities of arrays are not settings.
        self.assertEqual([], [call for path, call in calls('open')
                              if path.name != 'verdicts.py'])
        self.assertEqual([], [p for p in PACKAGE.rglob('*')
                              if p.suffix in ('.xml', '.conf', '.ini')
                              and p.parent != PACKAGE / 'host_files'])

    def test_every_option_is_known(self):
        """Every option that is read is in get_driver_options."""
        known = {option.name for cls in DRIVERS
                 for option in cls.get_driver_options()}
        read = self._read()
        self.assertIn('k2_retention_policy', read)
        self.assertIn('volume_backend_name', read)
        self.assertEqual([], sorted(read - known))

    def test_every_option_is_read(self):
        """Every option is used, except for one kept for compatibility."""
        source = ' '.join(path.read_text() for path in sources()
                          if path.name != 'options.py')
        unread = [option.name for option
                  in options.k2_opts + options.shared_opts
                  if not re.search(rf'\b{option.name}\b', source)]
        self.assertEqual(['disable_discovery'], unread)

    def test_options_are_listed(self):
        """oslo-config-generator prints all options of the driver."""
        listed = {option.name for _, group in options.list_opts()
                  for option in group}
        self.assertEqual({option.name for option
                          in options.k2_opts + options.shared_opts}, listed)
        found = importlib.metadata.entry_points(group='oslo.config.opts',
                                                name='cinder_k2')
        self.assertEqual({'cinder_k2.options:list_opts'},
                         {entry.value for entry in found})

    def test_no_option_for_what_cinder_has(self):
        """No option duplicates one of Cinder's."""
        cinders = {option.name for option
                   in san.san_opts + cinder_driver.volume_opts}
        self.assertIn('san_password', cinders)
        for option in options.k2_opts:
            plain = option.name.removeprefix('k2_')
            for name in (plain, f'san_{plain}', f'driver_{plain}',
                         f'driver_ssl_{plain}'):
                self.assertNotIn(name, cinders, option.name)

    def test_secrets(self):
        """Options that hold secrets are marked, so they are not logged."""
        words = re.compile('password|token|secret|credential')
        held = [o for o in options.k2_opts if words.search(o.name)]
        self.assertTrue(held)
        for option in held:
            self.assertTrue(
                option.secret or option.type.type_name == 'boolean value',
                option.name)

    def test_tls_options(self):
        """Cinder's options control the verification of the certificate."""
        passed = {node.arg for _, node in nodes(ast.keyword, 'driver')
                  if ast.unparse(node.value).startswith(
                      'configuration.driver_ssl_cert_')}
        self.assertEqual({'verify', 'ca_path'}, passed)
        self.assertLessEqual({'driver_ssl_cert_verify',
                              'driver_ssl_cert_path'},
                             set(config._READ_FROM_CINDER))


class CodeTest(unittest.TestCase):

    def test_licence(self):
        """Every file has the license, none the Foundation's copyright."""
        for path in sorted(ROOT.glob('[ckt]*/**/*.py')):
            if '.venv' in path.parts or not path.read_text().strip():
                continue
            head = path.read_text()[:700]
            self.assertIn('Licensed under the Apache License, Version 2.0',
                          head, path)
            self.assertNotIn('OpenStack Foundation', head, path)

    def test_unit_tests(self):
        """Each package has unit tests."""
        for module in pkgutil.walk_packages(cinder_k2.__path__,
                                            'cinder_k2.'):
            if module.ispkg:
                tests = ROOT.joinpath('tests', 'unit',
                                      *module.name.split('.')[1:])
                self.assertTrue(list(tests.rglob('test_*.py')), module.name)

    def test_composition(self):
        """Classes in driver/ do not inherit from classes of ours."""
        allowed = {'base.K2Driver', 'driver.VolumeDriver', 'typing.Protocol',
                   'typing.Generic', 'typing.NamedTuple'}
        found = nodes(ast.ClassDef, 'driver')
        self.assertGreater(len(found), 20)
        for _, cls in found:
            bases = {ast.unparse(each).partition('[')[0]
                     for each in cls.bases}
            self.assertLessEqual(bases, allowed, cls.name)

    def test_methods_of_cinder_are_written_out(self):
        """Each is a def in base.py or in the module of its driver."""
        for cls in DRIVERS:
            for name in dir(cinder_driver.VolumeDriver):
                method = inspect.unwrap(getattr(cls, name))
                if not (inspect.isfunction(method)
                        and method.__module__.startswith('cinder_k2.')):
                    continue
                self.assertEqual(name, method.__name__)
                self.assertIn(method.__module__, (
                    'cinder_k2.driver.base', cls.__module__))

    def _exceptions(self):
        """Yield each exception that can leave the module defining it."""
        for path in {path for path, _ in nodes(ast.ClassDef)}:
            name = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
            name = name.removesuffix('.__init__')
            for cls in vars(importlib.import_module(name)).values():
                if (inspect.isclass(cls) and issubclass(cls, Exception)
                        and cls.__module__ == name
                        and not cls.__name__.startswith('_')):
                    yield cls

    def test_exceptions_are_translated(self):
        """Exceptions of the driver become Cinder's."""
        found = list(self._exceptions())
        self.assertGreater(len(found), 8)
        for cls in set(found) - AT_START - WITHIN:
            class Raised(cls):
                missing = 'initiator'

                def __init__(self):
                    Exception.__init__(self, 'why')

                def __str__(self):
                    return 'why'

            with self.assertRaises(exception.CinderException, msg=cls), \
                    errors.translated():
                raise Raised

    def test_messages_for_users_are_translated(self):
        """Messages in Cinder's exceptions are marked for translation."""
        found = calls('exception.', 'driver')
        self.assertGreater(len(found), 6)
        for path, call in found:
            for value in [*call.args, *[k.value for k in call.keywords]]:
                own = [n for n in ast.walk(value)
                       if isinstance(n, (ast.JoinedStr, ast.Constant))
                       and not isinstance(getattr(n, 'value', None), int)]
                if own:
                    self.assertIn('_(', ast.unparse(value),
                                  f'{path}:{call.lineno}')

    def test_log_lines(self):
        """Log messages are literals that are formatted lazily."""
        found = calls('LOG.')
        self.assertGreater(len(found), 12)
        for path, call in found:
            self.assertIsInstance(call.args[0], ast.Constant,
                                  f'{path}:{call.lineno}')

    def test_log_lines_of_failures_name_what_failed(self):
        """Each error in the log names the object, host or array."""
        for path, call in [*calls('LOG.error'), *calls('LOG.exception')]:
            self.assertGreater(len(call.args), 1, f'{path}:{call.lineno}')

    def test_no_tracebacks_of_our_own(self):
        """The driver logs no traceback in addition to Cinder's."""
        self.assertEqual([], calls('LOG.exception'))

    def test_libraries(self):
        """Every library that is imported is in requirements.txt."""
        required = set(re.findall(
            r'^([\w.-]+)[><=]', (ROOT / 'requirements.txt').read_text(),
            re.M))
        owners = importlib.metadata.packages_distributions()
        for name in {name.split('.')[0] for name in imported()}:
            if name in sys.stdlib_module_names or name in (
                    'cinder', 'cinder_k2'):
                continue
            self.assertTrue(
                {_spelt(o) for o in owners[name]}
                & {_spelt(r) for r in required}, name)

    def test_licences_of_libraries(self):
        """Every library has a license approved by the OSI."""
        for line in (ROOT / 'requirements.txt').read_text().splitlines():
            if line and not line.startswith('#'):
                self.assertRegex(line, '# (Apache-2.0|BSD|MIT)$')

    def test_no_database(self):
        """The driver accesses the database only through Cinder's objects."""
        self.assertEqual(set(), {n for n in imported() if n.startswith(
            ('cinder.db', 'sqlalchemy', 'oslo_db'))})
        self.assertEqual([], calls('self.db.'))

    def test_no_global_state(self):
        """State belongs to a driver object: no mutable globals."""
        self.assertEqual([], nodes(ast.Global))
        for path in sources():
            for node in source_trees.tree(path).body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)):
                    target = getattr(node, 'target', None) or node.targets[0]
                    if (path.name != 'options.py' and isinstance(
                            node.value, (ast.Dict, ast.List, ast.Set))):
                        self.assertRegex(ast.unparse(target),
                                         '^_?[A-Z_]+$|__all__', path)

    def test_no_eventlet(self):
        """The driver uses native threads and does not import eventlet."""
        self.assertEqual(set(), {n for n in imported() if n.split('.')[0] in (
            'eventlet', 'greenlet', 'gevent')})

    def test_locks(self):
        """Locks apply to all services of a cluster."""
        users = {path.name for path, node in nodes(ast.ImportFrom)
                 if any(a.name == 'coordination' for a in node.names)}
        self.assertEqual({'locks.py'}, users)
        self.assertEqual(set(), {n for n in imported() if n.startswith((
            'oslo_concurrency.lockutils', 'fasteners'))})
        self.assertEqual([], [node for _, node in nodes(ast.Call, 'driver')
                              if ast.unparse(node.func) in (
                                  'threading.Lock', 'threading.RLock')])

    def test_pauses(self):
        """Only polling.py sleeps, and each wait has a deadline."""
        users = {path.name for path, _ in calls('time.sleep')}
        self.assertEqual({'polling.py'}, users)


class DocumentsTest(unittest.TestCase):

    def test_release_note(self):
        """A release note announces the driver."""
        notes = [yaml.safe_load(path.read_text()) for path
                 in (ROOT / 'releasenotes' / 'notes').glob('*.yaml')]
        text = ' '.join(line for note in notes
                        for line in note.get('features', []))
        self.assertIn('driver', text)
        for cls in DRIVERS:
            self.assertIn(cls.__name__, text)

    def test_configuration(self):
        """The documentation says how to configure each driver."""
        named = {name for path in (
            ROOT / 'doc' / 'source' / 'operator').glob('*.rst')
            for name in re.findall(r'cinder_k2\.driver\.\w+',
                                   path.read_text())}
        self.assertLessEqual(
            {f'cinder_k2.driver.{cls.__name__}' for cls in DRIVERS}, named)

    def test_every_item_is_explained(self):
        """The contributor's page names each item's test, and no others."""
        page = (ROOT / 'doc' / 'source' / 'contributor' /
                'checklist.rst').read_text()
        named = set(re.findall('``(test_\\w+)``', page))
        tests = {name for case in (DriverClassTest, FeaturesTest, OptionsTest,
                                   CodeTest, DocumentsTest)
                 for name, member in inspect.getmembers(case)
                 if name.startswith('test_') and inspect.isfunction(member)}
        # ddt makes several tests of one method.
        tests = {re.sub(r'_\d+_.*', '', name) for name in tests}
        self.assertEqual(tests - OWN_TESTS, named)


def _spelt(name):
    return re.sub('[-_.]+', '-', name).lower()
