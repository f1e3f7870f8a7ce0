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

"""A guest that boots, and the ways in which it can end."""

import contextlib
import glob
import os
import pathlib
import signal
import subprocess
import sys
import time

import fixtures
import testtools

from tools.guest import machine

# Seconds; a boot takes a few, unless the machine is loaded.
LIMIT = 300
ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534
USER: dict = {'user': NOBODY, 'group': NOBODY, 'extra_groups': ()}


class TestGuest(testtools.TestCase):

    def setUp(self):
        super().setUp()
        reason = machine.unavailable()
        if reason:
            self.skipTest(reason)
        self.out = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.temporary = self.useFixture(fixtures.TempDir()).path
        before = self.host()
        self.addCleanup(lambda: self.wait_until(
            lambda: not self.host() - before,
            lambda: f'left: {self.host() - before}'))

    def kernels(self):
        """Return the pids of this test's guests; others may run, too."""
        mark = f'uml_dir={self.temporary}/'.encode()
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if any(word.startswith(mark)
                       for word in path.read_bytes().split(b'\0')):
                    found.append(path.parent.name)
        return found

    def host(self):
        """Return everything that a guest could leave on this machine."""
        return {*os.listdir(self.temporary), *self.kernels(),
                *glob.glob('/dev/shm/vm_file*'),
                *(line for line in pathlib.Path('/proc/mounts').read_text()
                  .splitlines() if 'guest' in line)}

    def wait_until(self, condition, problem):
        deadline = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, problem())
            time.sleep(0.05)

    def start(self, *command, seconds=LIMIT):
        # A shell starts background jobs with SIGINT ignored.
        process = subprocess.Popen(
            [sys.executable, '-m', 'tools.guest', f'--seconds={seconds}',
             '--memory=512M', f'--out={self.out}', '--', *command],
            env={**os.environ, 'TMPDIR': self.temporary}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_guest(self, *command, **options):
        """Run a command in a guest; return status, stdout and stderr."""
        process = self.start(*command, **options)
        output, error = process.communicate(timeout=LIMIT)
        return process.returncode, output, error

    def test_command(self):
        """It is root and sees the host's files, but cannot change them."""
        mark = pathlib.Path(self.temporary, 'mark')
        status, output, error = self.run_guest(
            'sh', '-c', f'id -u; pwd; echo {mark}; touch {mark} /etc/mark;'
            ' ls /etc/mark; echo kept >/out/kept; exit 3')
        self.assertEqual((3, ''), (status, error))
        self.assertEqual(['0', os.getcwd(), str(mark), '/etc/mark'],
                         output.splitlines())
        self.assertEqual('kept\n', (self.out / 'kept').read_text())
        self.assertFalse(os.path.exists('/etc/mark'))
        self.assertIn('Linux version', (self.out / 'dmesg').read_text())

    def test_of_a_user(self):
        """Users other than root boot one, too, with Debian's Python."""
        if os.geteuid():
            self.skipTest('needs root; the other tests already run as a user')
        try:
            subprocess.run(['test', '-r', __file__], cwd=ROOT, check=True,
                           **USER)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest('nobody but root can read this checkout')
        for place in (self.out, self.temporary):
            os.chown(place, NOBODY, NOBODY)
        done = subprocess.run(
            ['/usr/bin/python3', '-m', 'tools.guest', '--memory=512M',
             f'--out={self.out}', '--', 'sh', '-c',
             'id -u; mount -t tmpfs t /mnt && umount /mnt && echo mounted'],
            cwd=ROOT, env={**os.environ, 'TMPDIR': self.temporary},
            capture_output=True, text=True, timeout=LIMIT, **USER)
        self.assertEqual((0, '0\nmounted\n', ''),
                         (done.returncode, done.stdout, done.stderr))

    def test_hang(self):
        status, _, error = self.run_guest('sleep', '1000', seconds=5)
        self.assertEqual(
            (124, 'guest: the guest did not end within 5 s\n'),
            (status, error))

    def test_panic(self):
        status, _, error = self.run_guest(
            'sh', '-c', 'echo c >/proc/sysrq-trigger')
        self.assertEqual(134, status)
        self.assertIn("the guest's kernel panicked: sysrq", error)

    def test_end_without_verdict(self):
        status, _, error = self.run_guest(
            'sh', '-c', 'echo so far; echo o >/proc/sysrq-trigger; sleep 60')
        self.assertEqual(70, status)
        self.assertIn('its last line: so far', error)

    def test_interrupted(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            process = self.booted()
            process.send_signal(number)
            process.communicate(timeout=LIMIT)
            self.assertEqual(status, process.returncode)
            self.assertEqual([], self.kernels())

    def test_killed(self):
        """The next guest removes the directory that is left."""
        process = self.booted()
        process.kill()
        process.communicate(timeout=LIMIT)
        self.wait_until(lambda: self.kernels() == [],
                        lambda: 'the guest goes on')
        self.assertEqual(1, len(os.listdir(self.temporary)))
        self.assertEqual(0, self.run_guest('true')[0])
        self.assertEqual([], os.listdir(self.temporary))

    def booted(self):
        process = self.start(
            'sh', '-c',
            'for n in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo up; wait')
        self.assertEqual('up\n', process.stdout.readline())
        return process
