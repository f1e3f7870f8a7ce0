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

"""The host's side of a guest, with a shell script for a kernel."""

import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

from tools.guest import machine
from tools.guest import packages

# Of the kernel's command line it knows the directory.
KERNEL = """\
#!/bin/sh
for word; do
    case $word in GUEST_WORK=*) work=${word#*=} ;; esac
done
"""
VERDICT = 'sh "$work/command"; status=$?\necho $status >"$work/verdict"\n'


class GuestTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.out = self.place / 'out'
        self.temporary = self.place / 'tmp'
        self.temporary.mkdir()
        self.enterContext(mock.patch.object(
            tempfile, 'tempdir', str(self.temporary)))
        self.enterContext(mock.patch.dict(os.environ, {
            'PATH': f'{self.place}:{os.environ["PATH"]}'}))

    def kernel(self, text):
        """What runs in place of the kernel."""
        program = self.place / 'linux.uml'
        program.write_text(KERNEL + text)
        program.chmod(0o755)

    def run_guest(self, *command, **options):
        status = machine.run(command or ['true'], self.out, **options)
        self.assert_nothing_left()
        return status

    def assert_no_verdict(self, status, text, **options):
        error = None
        try:
            self.run_guest(**options)
        except machine.GuestError as exc:
            error = exc
        self.assertEqual((status, text), (error.status, str(error)))
        self.assert_nothing_left()

    def assert_nothing_left(self):
        self.assertEqual([], list(self.temporary.iterdir()))

    def test_status_of_the_command(self):
        self.kernel(VERDICT + 'exit $status')
        self.assertEqual(0, self.run_guest())
        self.assertEqual(7, self.run_guest('sh', '-c', 'exit 7'))

    def test_words_of_the_command(self):
        self.kernel(VERDICT)
        echo = io.BytesIO()
        self.run_guest('printf', '[%s]', 'a  b', "it's", '$PATH', echo=echo)
        self.assertEqual(b"[a  b][it's][$PATH]", echo.getvalue())
        self.assertEqual(echo.getvalue(),
                         (self.out / machine.CONSOLE).read_bytes())

    def test_directory_and_environment_of_the_command(self):
        text = machine.script(['true'], {
            'PATH': '/a b:/c', 'PYTHONPATH': 'x', 'K2_PLANE': 'tgt',
            'SECRET': 'secret', 'HOME': '/home/x'})
        done = subprocess.run(
            ['sh', '-c', text.replace(
                'exec true', 'printf "%s\n" "$PATH" "$K2_PLANE" "$HOME";'
                ' pwd')], env={}, check=True, capture_output=True, text=True)
        self.assertEqual(f'/a b:/c\ntgt\n/root\n{os.getcwd()}\n',
                         done.stdout)
        self.assertNotIn('secret', text)

    def test_hang(self):
        self.kernel('sleep 1000 & echo $! >"$work/out/child"; wait')
        self.assert_no_verdict(
            124, 'the guest did not end within 0.5 s', seconds=0.5)
        child = (self.out / 'child').read_text().strip()
        # One that nobody has waited for yet has no command line any more.
        with contextlib.suppress(FileNotFoundError):
            self.assertEqual(
                b'', pathlib.Path('/proc', child, 'cmdline').read_bytes())

    def test_panic(self):
        self.kernel('echo "Kernel panic - not syncing: no luck" >&2;'
                    ' kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: no luck")

    def test_panic_after_the_command(self):
        self.kernel(VERDICT + 'kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: signal 6")

    def test_end_without_verdict(self):
        self.kernel('echo first; echo last words')
        self.assert_no_verdict(
            70, 'the guest was switched off before the command ended; its'
            ' last line: last words')
        self.kernel('')
        with self.assertRaisesRegex(machine.GuestError, 'printed nothing'):
            self.run_guest()

    def test_what_is_missing(self):
        self.assertEqual('', packages.missing({'sh': 'dash'}, {'/bin': 'b'}))
        self.assertEqual(
            'needs packages, as with: apt-get install p1 p2',
            packages.missing({'no-such-program': 'p2', 'sh': 'dash'},
                             {'/no/such/*.so': 'p1'}))
