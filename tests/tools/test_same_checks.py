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

"""make, tox, Zuul, GitHub and pre-commit run the same checks."""

import configparser
import re
import unittest

from bindep import depends
import yaml

from tools.releases import table
from tools import run_tests

ROOT = run_tests.ROOT
# Suites that have another name in tox, the usual one in OpenStack.
ENVIRONMENTS = {'unit': 'py3'}
# Targets with the same name in make and tox, and the common command.
TARGETS = {'docs': 'doc/source doc/build/html',
           'releasenotes': 'releasenotes/source releasenotes/build/html',
           'bench': 'python -m benchmarks', 'lint': 'tools/lint'}


class ToxTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tox = configparser.ConfigParser(interpolation=None)
        cls.tox.read(ROOT / 'tox.ini')
        cls.make = (ROOT / 'Makefile').read_text()

    def section(self, name):
        """Return an environment of tox, with inherited settings."""
        found = dict(self.tox['testenv'])
        if f'testenv:{name}' in self.tox:
            found.update(self.tox[f'testenv:{name}'])
        return found

    def test_default_environments(self):
        """The same as "make test", in the same order."""
        suites = [ENVIRONMENTS.get(suite, suite)
                  for suite in run_tests.SUITES]
        self.assertEqual(['pep8', *suites, 'pages'],
                         self.tox['tox']['envlist'].split(','))

    def test_suites(self):
        for suite in (*run_tests.SUITES, 'faults'):
            found = self.section(ENVIRONMENTS.get(suite, suite))
            # make and tox exclude the same tests of a suite.
            beside = run_tests.RUNNERS.get(suite, run_tests.STESTR)[
                len(run_tests.STESTR):]
            self.assertEqual(
                ' '.join(['stestr run', *beside, '{posargs}']),
                found['commands'].strip(), suite)
            if suite == run_tests.SIMULATOR:
                self.assertEqual('{toxinidir}/k2-sim', found['changedir'])
            elif suite != 'unit':
                self.assertIn(f'OS_TEST_PATH = ./tests/{suite}',
                              found['setenv'])
        self.assertNotIn('OS_TEST_PATH', self.section('py3')['setenv'])

    def test_suites_exist(self):
        for suite in {*run_tests.SUITES} - {run_tests.SIMULATOR}:
            self.assertTrue(
                list((ROOT / 'tests' / suite).rglob('test_*.py')), suite)

    def test_releases(self):
        """One environment for each; Zuul tests the newest in the others."""
        *names, newest = (release.name for release in table.load())
        self.assertEqual(
            'python -m tools.releases {envname} {posargs}',
            self.section(f'{{{",".join([*names, newest])}}}')[
                'commands'].strip())
        job, = [part['job'] for part in yaml.safe_load(
            (ROOT / '.zuul.yaml').read_text()) if part.get('job', {}).get(
                'name') == 'cinder-k2-tox-releases']
        self.assertEqual(','.join(names), job['vars']['tox_envlist'])

    def test_pages(self):
        self.assertEqual(
            [f'python -m {module} --check' for _, module in run_tests.PAGES],
            self.section('pages')['commands'].strip().splitlines())

    def test_other_targets(self):
        for name, command in TARGETS.items():
            recipe = re.search(rf'(?m)^{name}: .*\n\t(.*)', self.make)[1]
            self.assertIn(command, recipe.replace('exec ', ''))
            self.assertIn(command, self.section(
                'pep8' if name == 'lint' else name)['commands'])

    def test_zuul(self):
        """All of "make test" is checked and gated, and the pages are built."""
        parts = yaml.safe_load((ROOT / '.zuul.yaml').read_text())
        jobs = {part['job']['name']: part['job'] for part in parts
                if 'job' in part}
        project, = [part['project'] for part in parts if 'project' in part]
        wanted = {*self.tox['tox']['envlist'].split(','), 'docs'}
        for pipeline in ('check', 'gate'):
            found = set()
            for item in project[pipeline]['jobs']:
                name, job = ((item, {}) if isinstance(item, str)
                             else [*item.items()][0])
                if '-tox-' in name:
                    variables = {**jobs.get(name, {}).get('vars', {}),
                                 **job.get('vars', {})}
                    found.update(variables.get(
                        'tox_envlist', name.rpartition('-')[2]).split(','))
            self.assertIn('py312', found)
            self.assertLessEqual(wanted - {'py3'}, found, pipeline)
            for name in found - {'py312'}:
                self.assertIn(f'testenv:{name}', self.tox)

    def test_github(self):
        """It runs the same checks, on machines with all packages."""
        path = ROOT / '.github' / 'workflows' / 'ci.yaml'
        job, = yaml.safe_load(path.read_text())['jobs'].values()
        commands = [step.get('run') for step in job['steps']]
        self.assertIn('.ci/run', commands)
        self.assertIn('container', job)
        rules = depends.Depends((ROOT / 'bindep.txt').read_text())
        for rule in rules.active_rules(['base', 'platform:dpkg']):
            self.assertIn(rule[0], commands[0].split())

    def test_pre_commit(self):
        path = ROOT / '.pre-commit-config.yaml'
        hooks = yaml.safe_load(path.read_text())['repos'][0]['hooks']
        self.assertEqual(['make lint', 'make unit'],
                         [hook['entry'] for hook in hooks])

    def test_environments_have_what_make_installs(self):
        bootstrap = (ROOT / 'tools' / 'bootstrap').read_text()
        for purpose, name in (('test', 'py3'), ('docs', 'docs')):
            files = re.search(rf"{purpose}\)\s+files='([^']+)'", bootstrap)[1]
            self.assertEqual(
                [f'-r{{toxinidir}}/{file}' for file in files.split()],
                self.section(name)['deps'].split())
