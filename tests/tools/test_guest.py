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

"""The host side of a guest, with a shell script as kernel."""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

from bindep import depends

from tests.tools import kernels
from tools.guest import fcoe
from tools.guest import machine
from tools.guest import packages
from tools.guest import processor
from tools.guest import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERDICT = 'sh "$work/command"; status=$?\necho $status >"$work/verdict"\n'

# Programs of packages that are required anyway, or always installed.
BESIDE = {'fsck.ext4', 'insmod', 'mount', 'umount'}


class GuestCase(unittest.TestCase):
    """A guest with a fake kernel."""

    def setUp(self):
        super().setUp()
        self.kernels = kernels.Kernels(self)
        self.kernel = self.kernels.kernel
        self.out = self.kernels.place / 'out'

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
        self.assertEqual([], self.kernels.left())


class GuestTest(GuestCase):

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

    def test_cable(self):
        """The kernel gets the other end of the link, if there is one."""
        self.kernel('echo "$@" >"$work/out/words"\n' + VERDICT)
        for options, found in (
                ({'tap': 'tap7'}, [
                    'vec0:transport=tap,ifname=tap7,depth=128,gro=1']),
                ({}, [])):
            self.run_guest(**options)
            words = (self.out / 'words').read_text().split()
            self.assertEqual(found, [
                word for word in words if word.startswith('vec0')])

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
        # A process that was not waited for yet has no command line any more.
        with contextlib.suppress(FileNotFoundError):
            self.assertEqual(
                b'', pathlib.Path('/proc', child, 'cmdline').read_bytes())

    def test_panic(self):
        self.kernel('echo "Kernel panic - not syncing: no luck" >&2;'
                    ' kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: no luck")

    def test_no_room_for_its_memory(self):
        """The kernel's message comes before its consoles exist."""
        self.kernel('echo "<3>Bus error - the host /dev/shm or /tmp mount'
                    ' likely just ran out of space"; kill -ABRT $$')
        self.assert_no_verdict(
            134, "the guest's kernel panicked: /dev/shm of this machine is"
            ' full; make it larger, as with: mount -o remount,size=24G'
            ' /dev/shm')

    def test_panic_after_the_command(self):
        self.kernel(VERDICT + 'kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: signal 6")

    def test_abort_when_it_is_switched_off(self):
        """The command has ended by then, so its status counts."""
        down = 'echo "reboot: Power down" >&2; '
        self.kernel(VERDICT + down + 'kill -ABRT $$')
        self.assertEqual(0, self.run_guest())
        self.assertEqual(7, self.run_guest('sh', '-c', 'exit 7'))
        self.kernel(VERDICT + 'echo "Kernel panic - not syncing: no luck" >&2;'
                    + down + 'kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: no luck")
        self.kernel(down + 'kill -ABRT $$')
        self.assert_no_verdict(134, "the guest's kernel panicked: signal 6")

    def test_end_without_verdict(self):
        self.kernel('echo first; echo last words')
        self.assert_no_verdict(
            70, 'the guest was switched off before the command ended; its'
            ' last line: last words')
        self.kernel('echo no namespace >&2')
        self.assert_no_verdict(
            70, 'the guest was switched off before the command ended; its'
            ' last line: no namespace')
        self.kernel('')
        with self.assertRaisesRegex(machine.GuestError, 'printed nothing'):
            self.run_guest()

    def test_empty_verdict(self):
        self.kernel('>"$work/verdict"; echo last words')
        self.assert_no_verdict(
            70, 'the guest was switched off before the command ended; its'
            ' last line: last words')

    def test_no_output_directory(self):
        self.kernel(VERDICT)
        self.assertEqual(0, machine.run(['true']))
        self.assert_nothing_left()


class RefusedTest(unittest.TestCase):
    """A machine on which namespaces cannot be created."""

    def unshare(self, text):
        place = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(place, 'unshare')
        program.write_text(f'#!/bin/sh\n{text}\n')
        program.chmod(0o755)
        self.enterContext(mock.patch.dict(
            os.environ, {'PATH': f'{place}:{os.environ["PATH"]}'}))

    def test_refused(self):
        self.unshare('echo "unshare: not permitted" >&2; exit 1')
        self.assertEqual('needs namespaces, which this machine refuses:'
                         ' unshare: not permitted', machine.refused())

    def test_allowed(self):
        self.unshare('exit 0')
        self.assertEqual('', machine.refused())


class PackagesTest(unittest.TestCase):

    def test_missing_requirements(self):
        self.assertEqual('', packages.missing({'sh': 'dash'}, {'/bin': 'b'}))
        self.assertEqual(
            'needs packages, as with: apt-get install p1 p2',
            packages.missing({'no-such-program': 'p2', 'sh': 'dash'},
                             {'/no/such/*.so': 'p1'}))

    def test_required_packages(self):
        """The page and bindep.txt name exactly the required packages."""
        compiler = {*processor.PROGRAMS.values(), *processor.FILES.values()}
        for lists, profile, first, apart in (
                ((packages.PROGRAMS, packages.FILES), 'guest',
                 'user-mode-linux', compiler),
                ((fcoe.PROGRAMS, fcoe.FILES), 'guest-fc', 'flex',
                 {'apt', 'dpkg', 'tar', 'user-mode-linux'})):
            wanted = sorted({package for found in lists
                             for package in found.values()} - apart)
            with self.subTest(profile):
                self.assertEqual(wanted, self.installed(first))
                self.assertEqual(wanted, self.profile(profile))
        self.assertEqual(sorted({*processor.PROGRAMS.values(),
                                 *processor.FILES.values()}),
                         self.profile('guest-amx'))

    def installed(self, first):
        """Return the packages of a command on the page, found by the first."""
        page = ROOT / 'doc/source/contributor/guest.rst'
        text = re.sub(r'\\\n *', '', page.read_text())
        return sorted(re.search(f'{first} [a-z0-9. -]+$', text, re.M)[0]
                      .split())

    def profile(self, name):
        """Return the Debian packages of a profile in bindep.txt."""
        rules = depends.Depends((ROOT / 'bindep.txt').read_text())
        return sorted(rule[0] for rule in rules.active_rules(
            [name, 'platform:dpkg']))

    def test_every_program_is_required(self):
        """No test in a guest needs a program that is not listed."""
        for path in (machine.HERE.parents[1] / 'tests' / 'guest').glob('*.py'):
            for name in re.findall(r"node\.run\(\s*'([^']+)'",
                                   path.read_text()):
                self.assertIn(name, packages.PROGRAMS.keys() | BESIDE, path)


class ProcessorTest(GuestCase):
    """A processor that the kernel of the guest does not support."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(
            processor, 'is_newer', lambda: True))

    def compiler(self, text):
        program = self.kernels.place / 'cc'
        program.write_text(f'#!/bin/sh\n{text}\n')
        program.chmod(0o755)

    def test_newer_processor_is_detected(self):
        info = self.kernels.place / 'cpuinfo'
        for flags, is_newer in (('fpu amx_tile avx2', True),
                                ('fpu avx2', False)):
            info.write_text(f'processor : 0\nflags : {flags}\n')
            self.assertEqual(is_newer, REAL_IS_NEWER(info))

    def test_kernel_with_preloaded_library(self):
        """The compiled library is loaded with the kernel."""
        self.compiler('while [ "$1" != -o ]; do shift; done; echo >"$2"')
        self.kernel('echo "$LD_PRELOAD" >"$work/out/loaded";'
                    ' ls "$LD_PRELOAD" >>"$work/out/loaded";'
                    ' echo 0 >"$work/verdict"')
        self.assertEqual(0, self.run_guest())
        one, two = (self.out / 'loaded').read_text().split()
        self.assertEqual(one, two)

    def test_compiler_that_fails(self):
        self.compiler('echo no header >&2; exit 1')
        self.assert_no_verdict(
            1, f'cannot compile {machine.HERE / "xstate.c"}: no header')

    @unittest.skipUnless(shutil.which('cc'), 'needs the package gcc')
    def test_real_compiler(self):
        found = processor.environment(self.kernels.place)
        self.assertTrue(os.path.exists(found['LD_PRELOAD']))


class ScratchTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.kernels = kernels.Kernels(self)

    def abandoned(self):
        """Return the directory of an owner that was killed."""
        with scratch.directory() as path:
            left = path.with_name(f'{path.name}-left')
            shutil.copytree(path, left)
        return left

    def test_directory_of_a_killed_owner(self):
        left = self.abandoned()
        (left / 'out').symlink_to(self.kernels.place)
        with scratch.directory() as path:
            self.assertEqual([path.name], self.kernels.left())
        self.assertEqual([], self.kernels.left())
        self.assertTrue(self.kernels.place.exists())

    def test_directory_with_an_owner(self):
        with scratch.directory() as first, scratch.directory() as second:
            self.assertEqual(sorted([first.name, second.name]),
                             self.kernels.left())

    def test_directory_that_is_being_created(self):
        """It has no marker before it is locked."""
        made = pathlib.Path(tempfile.mkdtemp(prefix=scratch.PREFIX))
        other = pathlib.Path(tempfile.mkdtemp())
        with scratch.directory():
            self.assertTrue(made.exists())
            self.assertTrue(other.exists())

    def test_directory_of_another_user(self):
        left = self.abandoned()
        with mock.patch.object(os, 'geteuid', lambda: os.getuid() + 1), \
                scratch.directory():
            self.assertTrue(left.exists())


REAL_IS_NEWER = processor.is_newer
