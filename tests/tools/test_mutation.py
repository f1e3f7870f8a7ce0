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


import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

from tools.mutation import __main__ as mutation
from tools.mutation import children
from tools.mutation import mutants
from tools.mutation import suite

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Runs the tool on a separate tree, with other settings.
SCRIPT = """
import pathlib, sys
from tools.mutation import __main__ as mutation
from tools.mutation import settings

root = pathlib.Path(sys.argv[1])
settings.ROOT, settings.KEPT = root, root / 'artifacts'
settings.PRELOADED, settings.SECONDS = (), float(sys.argv[2])
sys.exit(mutation.main(sys.argv[3:]))
"""
# Two functions; only the first one is tested.
SOURCE = """
def add(x, y):
    return x + y


def unused():
    return 1
"""
TEST = """
import unittest
from cinder_k2.flows import small


class AddTest(unittest.TestCase):

    def test_add(self):
        self.assertEqual({sum}, small.add({x}, 0))
"""
# Mutants make the test wait until it times out.
HANGING = """
import signal
import unittest
from cinder_k2.flows import small


class AddTest(unittest.TestCase):

    def test_add(self):
        if small.add(2, 2) != 4:
            signal.pause()
"""
# Starts a child that would outlive it.
PARENT = """
import signal, subprocess, sys
from tools.mutation import children

def forever():
    sys.stdout = open(sys.argv[1], 'w')
    print('up', file=sys.stdout, flush=True)
    signal.pause()

list(children.run([children.Task('it', forever, 3600)], 1))
"""


def found_in(text):
    """Return the lines of all mutants of a source, as (before, after)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'small.py')
        path.write_text(textwrap.dedent(text))
        before = path.read_text()
        changes = []
        for mutant in mutants.find_in(pathlib.Path(folder), 'small.py'):
            after = mutant.source(pathlib.Path(folder))
            number = mutant.line - 1
            changes.append((before.splitlines()[number].strip(),
                            after.splitlines()[number].strip()))
        return changes


class MutantsTest(unittest.TestCase):

    def test_operators_of_mutmut(self):
        self.assertEqual([('return a + 1', 'return a - 1'),
                          ('return a + 1', 'return a + 2')], found_in("""
            def f(a):
                return a + 1
            """))

    def test_calls_are_removed(self):
        for line in ('f()', 'yield from f()'):
            self.assertEqual([(line, 'pass')], found_in(f"""
                def g():
                    {line}
                """))

    def test_results_that_are_used(self):
        """Such a call is not removed, and nothing else here is changed."""
        for call in ('f()', 'len(a, 1)', 'isinstance(a, 1)'):
            self.assertEqual([], found_in(f"""
                def g():
                    return {call}
                """))

    def test_sorting_is_removed(self):
        self.assertIn(('return sorted(a, key=b)', 'return list(a)'),
                      found_in("""
            def f(a):
                return sorted(a, key=b)
            """))

    def test_decorated_function(self):
        """The decorator is not mutated."""
        self.assertEqual([('return 1', 'return 2')], found_in("""
            @functools.lru_cache(7)
            def f():
                return 1
            """))

    def test_parentheses_stay(self):
        self.assertIn(('return (a - b) * c', 'return (a + b) * c'), found_in(
            """
            def f(a, b, c):
                return (a - b) * c
            """))

    def test_excluded_code(self):
        for text in ("'A text.'", "'A ' 'text.'", 'LOG.debug("%s", f(1))',
                     '__all__ = ["a", 1]', 'Found = dict[str, 1]',
                     'T = TypeVar("T")', 'a: "int"',
                     'def f(a: "int") -> "str": ...',
                     'if typing.TYPE_CHECKING:\n    a = 1',
                     'if TYPE_CHECKING:\n    a = 1'):
            with self.subTest(text):
                self.assertEqual([], found_in(text))

    def test_constants_and_messages_are_mutated(self):
        self.assertEqual([('LIMIT = 5', 'LIMIT = None'),
                          ('LIMIT = 5', 'LIMIT = 6')], found_in('LIMIT = 5'))
        self.assertIn(("raise Error('no')", "raise Error('NO')"), found_in("""
            def f():
                raise Error('no')
            """))

    def test_lines_of_a_statement(self):
        """For a statement with a block: only the lines before the block."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'small.py')
            path.write_text('if (a and\n        b):\n    c(\n        1)\n')
            self.assertEqual(
                {(1, 2), (3, 4)}, {mutant.lines for mutant in mutants.find_in(
                    pathlib.Path(folder), 'small.py')})


class ShuffledTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.mutants = [
            mutants.Mutant(f'cinder_k2/{package}/a.py', 1, (1, 1), 0, number,
                           '') for package in ('flows', 'rest')
            for number in range(50 if package == 'rest' else 3)]

    def test_the_seed_decides(self):
        first = mutants.shuffled(self.mutants, 1)
        self.assertEqual(first, mutants.shuffled(self.mutants, 1))
        self.assertNotEqual(first, mutants.shuffled(self.mutants, 2))
        self.assertCountEqual(self.mutants, first)

    def test_packages_alternate(self):
        self.assertEqual(
            ['flows', 'rest'] * 3 + ['rest'] * 47,
            [one.package for one in mutants.shuffled(self.mutants, 1)])

    def test_nothing(self):
        self.assertEqual([], mutants.shuffled([], 1))


class TriedInTimeTest(unittest.TestCase):

    def status(self, killed, tried, sample):
        """Return the exit status if this many of a sample were tried."""
        run = mock.create_autospec(mutation.Run, instance=True)
        run.verdicts.return_value = [('mutant', 'verdict')] * tried
        with mock.patch.object(mutation, 'report', autospec=True,
                               return_value=killed / tried):
            return mutation.run_sample(
                REPOSITORY, run, ['mutant'] * sample, 0.8)

    def test_all(self):
        self.assertEqual(0, self.status(16, 20, 20))
        self.assertEqual(1, self.status(15, 20, 20))

    def test_a_part(self):
        """The share may be lower by chance, but only by a margin."""
        self.assertEqual(0, self.status(15, 19, 400))
        self.assertEqual(1, self.status(11, 20, 400))
        self.assertEqual(1, self.status(140, 200, 400))


class ChildrenTest(unittest.TestCase):

    def test_statuses(self):
        tasks = [children.Task(status, lambda status=status: status, 600)
                 for status in (0, 1, 7)]
        self.assertEqual([(0, 0), (1, 1), (7, 7)],
                         sorted(children.run(tasks, 2)))

    def test_exception(self):
        self.assertEqual([('it', 1)], list(children.run(
            [children.Task('it', lambda: 1 // 0, 600)], 1)))

    def test_process_group_after_a_timeout(self):
        """The task and its child processes hold a pipe open until killed."""
        pipe, other = os.pipe()

        def start():
            with subprocess.Popen(['sleep', '3600'], pass_fds=[other]):
                signal.pause()

        self.assertEqual([('it', None)], list(children.run(
            [children.Task('it', start, 0.5)], 1)))
        self.assert_closed(pipe, other)

    def test_generator_that_is_closed(self):
        pipe, other = os.pipe()
        tasks = [children.Task('first', lambda: 0, 600),
                 children.Task('second', signal.pause, 3600)]
        results = children.run(tasks, 2)
        self.assertEqual(('first', 0), next(results))
        results.close()
        self.assert_closed(pipe, other)

    def assert_closed(self, pipe, other):
        os.close(other)
        with open(pipe, 'rb') as stream:
            self.assertTrue(select.select([stream], [], [], 60)[0])
            self.assertEqual(b'', stream.read())

    def test_parent_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, 'fifo')
            os.mkfifo(fifo)
            parent = subprocess.Popen([sys.executable, '-c', PARENT, fifo],
                                      cwd=REPOSITORY)
            self.addCleanup(parent.wait)
            self.addCleanup(parent.kill)
            with open(fifo) as stream:
                self.assertEqual('up\n', stream.readline())
                parent.kill()
                self.assertTrue(select.select([stream], [], [], 60)[0])
                self.assertEqual('', stream.read())


class MainTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        self.write('cinder_k2/flows/small.py', SOURCE)
        self.write('tests/unit/test_small.py', TEST.format(sum=2, x=2))

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in file.parents:
            if folder == self.root:
                break
            (folder / '__init__.py').touch()
        file.write_text(text)

    def run_tool(self, *arguments, seconds=600):
        done = subprocess.run(
            [sys.executable, '-c', SCRIPT, self.root, str(seconds),
             *arguments], cwd=self.root, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1',
                 'PYTHONPATH': f'{self.root}:{REPOSITORY}'})
        return done.returncode, done.stdout.splitlines()

    def git(self, *arguments):
        subprocess.run(
            ['git', '-c', 'user.name=a', '-c', 'user.email=a@example.org',
             *arguments], cwd=self.root, check=True,
            stdout=subprocess.DEVNULL)

    def test_verdicts(self):
        """Mutants that no test runs count as survived."""
        status, lines = self.run_tool()
        self.assertEqual(0, status, lines)
        self.assertEqual([
            '2 mutants, seed 20',
            'Running tests/unit, to see which lines each test runs.',
            'survived: cinder_k2/flows/small.py:3',
            '  -    return x + y', '  +    return x - y',
            'not covered: cinder_k2/flows/small.py:7',
            '  -    return 1', '  +    return 2',
            'flows: 0% (0 killed, 1 survived, 1 not covered, 0 timed out)',
            'all: 0% (0 killed, 1 survived, 1 not covered, 0 timed out)'],
            lines)

    def test_a_better_test(self):
        self.write('tests/unit/test_small.py', TEST.format(sum=2, x=2)
                   + '        self.assertEqual(5, small.add(2, 3))\n')
        self.assertEqual(
            'all: 50% (1 killed, 0 survived, 1 not covered, 0 timed out)',
            self.run_tool()[1][-1])

    def test_time_out(self):
        """It is not included in the share of killed mutants."""
        self.write('tests/unit/test_small.py', HANGING)
        status, lines = self.run_tool('--package', 'flows', seconds=0.5)
        self.assertEqual(
            'all: 0% (0 killed, 0 survived, 1 not covered, 1 timed out)',
            lines[-1])

    def test_constant_is_covered_by_the_tests_of_the_file(self):
        self.write('cinder_k2/flows/small.py', SOURCE + 'LIMIT = 5\n')
        lines = self.run_tool()[1]
        self.assertEqual(
            'all: 0% (0 killed, 3 survived, 1 not covered, 0 timed out)',
            lines[-1])

    def test_constant_that_one_test_seems_to_run(self):
        """Coverage may count its line to a test as well."""
        traced = suite.Suite(self.root, [{
            'tests': [['tests.T.one', 'tests', 0.1],
                      ['tests.T.two', 'tests', 0.1]],
            'lines': {'small.py': {'1': [0, 2], '5': [0, 1]}}}])
        constant = mock.Mock(path='small.py', lines=(1, 1))
        self.assertEqual(['tests.T.one', 'tests.T.two'], [
            test.id for test in traced.covering(constant)])

    def test_known_results_are_not_repeated(self):
        """They are repeated only after a change."""
        first = self.run_tool()[1]
        file, = (self.root / 'artifacts').glob('results-*')
        known = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual(['not covered', 'survived'],
                         sorted(verdict for _, _, verdict in known))
        file.write_text(''.join(
            json.dumps([folder, key, 'killed']) + '\n'
            for folder, key, _ in known))
        self.assertEqual(
            'all: 100% (2 killed, 0 survived, 0 not covered, 0 timed out)',
            self.run_tool()[1][-1])
        self.write('tests/unit/test_other.py', '')
        self.assertEqual(first, self.run_tool()[1])

    def test_no_time(self):
        status, lines = self.run_tool('--minutes', '0')
        self.assertEqual(1, status)
        self.assertEqual('2 of 2 were not tried for lack of time.', lines[-1])

    def test_sample(self):
        self.assertRegex(
            self.run_tool('--sample', '1')[1][-1],
            r'all: 0% \(0 killed, (1 survived, 0|0 survived, 1) not covered')

    def test_tests_that_fail_without_mutants(self):
        self.write('tests/unit/test_small.py', TEST.format(sum=3, x=2))
        status, lines = self.run_tool()
        self.assertEqual(1, status)
        self.assertIn('AssertionError: 3 != 2', lines)

    def test_changed_lines(self):
        """Only they are mutated; it fails if too few mutants are killed."""
        self.git('init', '-q')
        self.git('add', '.')
        self.git('commit', '-qm', 'first')
        status, lines = self.run_tool('--changed', 'HEAD')
        self.assertEqual((0, '0 mutants, seed 20'), (status, lines[0]))
        self.write('cinder_k2/flows/small.py',
                   SOURCE.replace('return 1', 'return 3'))
        status, lines = self.run_tool('--changed', 'HEAD')
        self.assertEqual(1, status)
        self.assertEqual([
            'all: 0% (0 killed, 0 survived, 1 not covered, 0 timed out)',
            'Less than 80% of the mutants were killed.'], lines[-2:])

    def test_full(self):
        """Functional tests run on the survivors of the unit tests."""
        self.write('tests/functional/test_small.py',
                   TEST.format(sum=5, x=5)
                   + '        self.assertEqual(5, small.add(2, 3))\n')
        status, lines = self.run_tool('--full')
        self.assertEqual(0, status)
        self.assertEqual([
            'all: 50% (1 killed, 0 survived, 1 not covered, 0 timed out)',
            '2 of 400 survivors of the unit tests were given to functional '
            'tests.'], lines[-2:])
