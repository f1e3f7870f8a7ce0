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

"""The browser ends with its tests, whatever ends them."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import fixtures
import testtools

from tests.browser import browser

_WAITING = """\
import sys, time
from tests.browser import __main__
from tests.browser import browser

class WaitingTest(browser.BrowserTest):
    def test_for_ever(self):
        print('up', file=sys.stderr, flush=True)
        time.sleep(1000)

sys.argv[1:] = ['__main__.WaitingTest']
sys.exit(__main__.main())
"""


class TestEnds(testtools.TestCase):

    def setUp(self):
        super().setUp()
        if browser.missing():
            self.skipTest(browser.missing())
        self.temporary = self.useFixture(fixtures.TempDir()).path

    def waiting(self):
        """Tests that have a browser, and do not end."""
        process = subprocess.Popen(
            [sys.executable, '-c', _WAITING], text=True,
            env={**os.environ, 'TMPDIR': self.temporary},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertIn('up\n', iter(process.stderr.readline, ''))
        return process

    def browsers(self):
        """Ids of the processes with a browser profile of ours."""
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if f'--user-data-dir={self.temporary}' in path.read_text():
                    found.append(path.parent.name)
        return found

    def end(self, number):
        """End the tests with a signal; returns the exit status."""
        process = self.waiting()
        self.assertNotEqual([], self.browsers())
        process.send_signal(number)
        process.communicate(timeout=browser.PATIENCE)
        while self.browsers():
            time.sleep(0.05)
        return process.returncode

    def test_terminated(self):
        self.assertEqual(143, self.end(signal.SIGTERM))
        self.assertEqual([], os.listdir(self.temporary))

    def test_killed(self):
        self.assertEqual(-signal.SIGKILL, self.end(signal.SIGKILL))
