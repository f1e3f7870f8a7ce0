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

"""The scripts and files that the page about CI offers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import fixtures
import testtools
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILES = ROOT / 'doc' / 'source' / 'simulator' / 'ci'
# Seconds; a start takes one, if the machine is not loaded.
_LIMIT = 120


class ScriptsTest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        programs = self.folder / 'bin'
        programs.mkdir()
        for name, module in (('k2-sim', 'main'), ('k2-sim-ctl', 'ctl')):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -W ignore -m'
                f' k2_sim.cmd.{module} "$@"\n')
            program.chmod(0o755)
        self.environment = {
            **os.environ, 'PYTHONPATH': str(ROOT / 'k2-sim'),
            'PATH': f'{programs}:{os.environ["PATH"]}',
            'K2_DIRECTORY': 'k2'}

    def run_it(self, *command, **environment):
        return subprocess.run(
            ['sh', FILES / 'with-k2', *command], capture_output=True,
            text=True, cwd=self.folder, timeout=_LIMIT,
            env={**self.environment, **environment})

    def test_a_job(self):
        """Ready when the command runs; its status; all that is kept."""
        done = self.run_it(
            'sh', '-c', 'cd / && k2-sim-ctl --url "$K2_URL" --ca "$K2_CA"'
            ' chance show && cat "$K2_PASSWORD_FILE" && exit 3',
            K2_SIM_OPTIONS='--seed volumes=2', K2_SEED='5')
        self.assertEqual((3, ''), (done.returncode, done.stderr))
        password = (self.folder / 'k2/state/admin.password').read_text()
        self.assertEqual(f'{{\n  "seed": 5\n}}\n{password}', done.stdout)
        self.assertGreater(len(password), 20)
        for name in ('run.har', 'k2-sim.log', 'leftovers.json'):
            self.assertNotIn(password.strip(),
                             (self.folder / 'k2' / name).read_text())
        left = json.loads((self.folder / 'k2/leftovers.json').read_text())
        self.assertEqual(2, len(left['volumes']))

    def test_an_array_that_does_not_start(self):
        done = self.run_it('true', K2_SIM_OPTIONS='--seed cats=1')
        self.assertEqual(1, done.returncode)
        self.assertIn('does not start:', done.stderr)
        self.assertIn('argument --seed: must be one of', done.stderr)

    def test_the_example(self):
        if shutil.which('curl') is None:
            self.skipTest('needs the package curl')
        done = self.run_it('sh', FILES / 'storage-tests')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('The reply is lost.', done.stdout)
        self.assertEqual('{}\n', (
            self.folder / 'k2/leftovers.json').read_text())

    def test_files_of_other_systems(self):
        """They are YAML, and run what the page offers."""
        for name in ('github', 'gitlab', 'zuul'):
            text = (FILES / f'{name}.yaml').read_text()
            self.assertTrue(yaml.safe_load(text), name)
            self.assertIn('ci/with-k2 sh ci/storage-tests', text)
            self.assertIn('K2_DIRECTORY: ', text)
            self.assertIn('"k2-sim @ git+', text)
