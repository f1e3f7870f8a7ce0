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

"""The packages that .ci/run installs before the tests, and its stages."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tools.releases import table
from tools import run_e2e
from tools import run_tests

ROOT = run_tests.ROOT
# The first line of .ci/run after the installation.
END = 'mkdir -p artifacts\n'
# Fakes of the system's programs, which change nothing.
PROGRAMS = {
    'id': 'echo "${PLAYED_USER:-0}"',
    'apt-get': 'echo "$*" >>"$PLACE/asked"; case "$*" in *tgt*)'
               ' echo "E: no such package"; exit 100;; esac',
    'dpkg-query': 'for last; do :; done; case " $MISSING " in *" $last "*)'
                  ' echo "dpkg-query: no packages found matching $last" >&2;'
                  ' exit 1;; esac; echo "$last install ok installed 1"'}


class InstallTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        script = (ROOT / '.ci' / 'run').read_text()
        self.write('.ci/run', script[:script.index(END)])
        self.write('tools/bootstrap', '#!/bin/sh\nexit ${BROKEN:-0}\n')
        self.write('Makefile', 'venv:\n\t@tools/bootstrap\n')
        self.write('bindep.txt', (ROOT / 'bindep.txt').read_text())
        self.write('.venv/bin/bindep', f'#!/bin/sh\nexec '
                   f'{run_tests.BIN}/python -m bindep "$@"\n')
        for name, text in PROGRAMS.items():
            self.write(f'bin/{name}', f'#!/bin/sh\n{text}\n')

    def write(self, name, text):
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_it(self, *missing, status=0, **variables):
        """Run it with missing packages; return the calls of apt-get."""
        done = subprocess.run(
            [self.place / '.ci' / 'run'], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=120, env={
                'PATH': f'{self.place}/bin:/usr/bin:/bin',
                'PYTHONPATH': os.environ.get('PYTHONPATH', ''),
                'PLACE': str(self.place), 'MISSING': ' '.join(missing),
                **variables})
        self.assertEqual(status, done.returncode, done.stdout)
        asked = self.place / 'asked'
        self.said = done.stdout.splitlines()
        return asked.read_text().splitlines() if asked.exists() else []

    def test_nothing_is_missing(self):
        self.assertEqual([], self.run_it())
        self.assertEqual([], self.said)

    def test_missing_packages_are_installed(self):
        """The package lists are updated once."""
        install = 'install -y -qq --no-install-recommends '
        self.assertEqual(
            ['update -qq', f'{install}bc flex', f'{install}curl'],
            self.run_it('curl', 'flex', 'bc'))
        self.assertIn('Installing bc flex for Fibre Channel in a guest.',
                      self.said)

    def test_packages_that_cannot_be_installed(self):
        """The reason is printed, and the rest is installed."""
        self.assertEqual('curl', self.run_it('tgt', 'curl')[-1].split()[-1])
        self.assertIn('E: no such package', self.said)

    def test_only_root_installs(self):
        self.assertEqual([], self.run_it('curl', PLAYED_USER='1000'))

    def test_no_bindep(self):
        (self.place / '.venv' / 'bin' / 'bindep').unlink()
        self.assertEqual([], self.run_it('curl'))
        self.assertIn('bindep cannot tell which packages are missing for the'
                      ' tests of the DevStack plugin.', self.said)

    def test_no_environment(self):
        """Nothing can be tested without it."""
        self.assertEqual([], self.run_it('curl', status=1, BROKEN='1'))


class StagesTest(unittest.TestCase):

    def run_it(self, **variables):
        """Run the stages with a fake make; return the status and output."""
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        script = (ROOT / '.ci' / 'run').read_text()
        stages = script[script.index(END):]
        for name, text in (
                ('make', 'echo "begin $*"\nsleep 0.05\n'
                 'case "$*" in tempest*) sleep 0.2;; esac\necho "end $*"\n'
                 'case "$*" in "$BROKEN") exit 2;; esac'),
                ('git', 'case "$*" in *HEAD) echo 0005;; *) echo base;; esac'),
                ('date', 'echo "${NOW:-1000}"')):
            (place / name).write_text(f'#!/bin/sh\n{text}\n')
            (place / name).chmod(0o755)
        done = subprocess.run(
            ['sh', '-c', stages], cwd=place, text=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={'PATH': f'{place}:/usr/bin:/bin', 'started': '1000',
                 **variables})
        return done.returncode, done.stdout.splitlines()

    def test_each_prints_its_seconds(self):
        """Nothing is printed into the output of another."""
        status, lines = self.run_it()
        self.assertEqual(0, status, lines)
        names = [line.removeprefix('begin ') for line in lines
                 if line.startswith('begin ')]
        self.assertIn('test', names)
        self.assertIn('mutation CHANGED=base MINUTES=2', names)
        for name in names:
            first = lines.index(f'begin {name}')
            self.assertEqual(f'end {name}', lines[first + 1])
            self.assertRegex(lines[first + 2], f'^== make {name}: [0-9]+ s$')
        self.assertRegex(lines[-1], '^== all: [0-9]+ s$')
        self.assertEqual(3 * len(names) + 1, len(lines))

    def test_a_failure_anywhere(self):
        """All others run."""
        most = len(self.run_it()[1])
        for name in ('test', 'tempest QUICK=1', 'e2e SUITES=guest'):
            status, lines = self.run_it(BROKEN=name)
            self.assertEqual((1, most), (status, len(lines)), name)

    def releases(self, lines):
        """Return the releases whose tests were run, in order."""
        return re.findall(r'^begin matrix SLICE=1 RELEASE=(.+)$',
                          '\n'.join(lines), re.MULTILINE)

    def test_every_older_release(self):
        """The commit decides which one is first."""
        *older, _ = (release.name for release in table.load())
        self.assertEqual([*older[1:], older[0]],
                         self.releases(self.run_it()[1]))

    def test_no_release_begins_late(self):
        """Other stages are not affected, and omitted releases are reported."""
        self.assertEqual(4, len(self.releases(self.run_it(NOW='5199')[1])))
        for now, left_out, imported in (
                ('5200', 'only imported', 4), ('5799', 'only imported', 4),
                ('5800', 'not tested', 0)):
            status, lines = self.run_it(NOW=now)
            self.assertEqual(0, status)
            self.assertEqual([], self.releases(lines))
            self.assertEqual(imported, sum(line.startswith(
                'begin matrix IMPORTS=1 RELEASE=20') for line in lines))
            # Reported where it happens, and at the end.
            self.assertEqual(2, lines.count(
                f'== 2024.1: {left_out}, for lack of time'))
            self.assertIn('begin tempest QUICK=1', lines)

    def test_every_suite_of_a_whole_machine(self):
        named = [word.strip("'") for line in self.run_it()[1]
                 if line.startswith('begin e2e')
                 for word in line.partition('=')[2].split()]
        self.assertEqual(sorted(run_e2e.SUITES), sorted(named))
