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
"""No service is left when tools.tempest ends, however that happens."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import fixtures
import testtools

from tests import iscsi
from tools.tempest import __main__ as command


class TestEnds(testtools.TestCase):

    def setUp(self):
        super().setUp()
        if command.missing():
            self.skipTest(command.missing())
        self.temporary = self.useFixture(fixtures.TempDir()).path
        # Another run of tools.tempest may use the default directory.
        self.logs = self.useFixture(fixtures.TempDir()).path

    def start(self):
        """Start tools.tempest; return the process once its database is up."""
        process = subprocess.Popen(
            [sys.executable, '-m', 'tools.tempest', '--logs', self.logs],
            text=True,
            env={**os.environ, 'TMPDIR': self.temporary},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if 'arrays' in line:
                return process
        self.fail('it ended by itself')

    def working(self):
        """Return the command lines, by pid, of processes in its directory."""
        found = {}
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if self.temporary in path.read_text():
                    found[int(path.parent.name)] = \
                        path.read_text().split('\0')
        return found

    def left(self):
        """Return these command lines as text."""
        return [' '.join(words) for words in self.working().values()]

    def test_sigterm(self):
        process = self.start()
        self.assertNotEqual([], self.left())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(143, process.wait(iscsi.SOON))
        self.assertEqual(([], []), (self.left(), os.listdir(self.temporary)))

    def test_one_that_hangs(self):
        """Its processes and directory are removed although it cannot do so."""
        process = self.start()
        frozen, = [pid for pid, words in self.working().items()
                   if words[1:4] == ['-m', 'tools.tempest', command.INSIDE]]
        os.kill(frozen, signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(143, process.wait(iscsi.SOON))
        self.assertEqual(([], []), (self.left(), os.listdir(self.temporary)))

    def test_kill(self):
        """Without any time for cleanup."""
        process = self.start()
        process.send_signal(signal.SIGKILL)
        process.wait(iscsi.SOON)
        iscsi.wait_until(lambda: self.left() == [], 'the end of all')
