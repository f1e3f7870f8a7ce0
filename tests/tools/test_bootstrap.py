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

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ('sh', 'cat', 'cksum', 'dirname', 'basename', 'sed', 'grep', 'tail',
          'sleep', 'mkdir', 'cp')
INPUTS = ('setup.cfg', 'setup.py', 'pyproject.toml', 'requirements.txt',
          'constraints/2026.2.txt', 'k2-sim/pyproject.toml',
          'test-requirements.txt', 'tools/requirements.txt',
          'tools/cloud/requirements.txt', 'tools/tempest/requirements.txt',
          'doc/requirements.txt')


class BootstrapTest(unittest.TestCase):
    """Machines with missing requirements; the tests install nothing."""

    #: What "pip config list" prints.
    settings = ''

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.checkout = pathlib.Path(directory.name) / 'checkout'
        self.bin = pathlib.Path(directory.name) / 'bin'
        (self.checkout / 'tools').mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / 'tools' / 'bootstrap', self.checkout / 'tools')
        for name in INPUTS:
            (self.checkout / name).parent.mkdir(exist_ok=True)
            (self.checkout / name).write_text('')
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name))

    def program(self, name, script):
        path = self.bin / name
        path.write_text(f'#!/bin/sh\n{script}\n')
        path.chmod(0o755)

    def complaint(self, **environ):
        done = subprocess.run(
            ['/bin/sh', str(self.checkout / 'tools' / 'bootstrap')],
            env={'PATH': str(self.bin), **environ}, capture_output=True,
            text=True, timeout=60)
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        return done.stderr

    def good_python(self):
        self.program('python3', f'exec {sys.executable} "$@"')
        self.program('make', '')

    def test_no_python(self):
        self.assertIn('apt-get install python3 ', self.complaint())

    def test_an_old_python(self):
        self.program('python3', f"""
            [ "$1" = --version ] && echo Python 3.10.12 && exit
            exec {sys.executable} -c 'import sys
sys.version_info = (3, 10, 12)
exec(sys.argv[1])' "$2" """)
        text = self.complaint()
        self.assertIn('Python 3.10.12 is too old', text)
        self.assertIn('3.11 or later', text)

    def test_python_without_venv(self):
        self.program('python3', 'case "$2" in *ensurepip*) exit 1;; esac\n'
                     f'exec {sys.executable} "$@"')
        self.program('make', '')
        self.assertIn('apt-get install python3-venv', self.complaint())

    def test_no_make(self):
        self.good_python()
        (self.bin / 'make').unlink()
        self.assertIn('apt-get install make', self.complaint())

    def test_no_git(self):
        self.good_python()
        self.assertIn('apt-get install git', self.complaint())

    def test_a_tarball(self):
        self.good_python()
        self.program('git', 'exit 128')
        self.assertIn('PBR_VERSION=', self.complaint())

    def test_a_checkout_that_git_does_not_trust(self):
        self.good_python()
        self.program('git', 'exit 128')
        (self.checkout / '.git').mkdir()
        self.assertIn('safe.directory', self.complaint())

    def played_venv(self, pip, uv=None):
        """Create a venv with a fake pip, and one of uv if pip can get it."""
        self.good_python()
        (self.bin / 'settings').write_text(self.settings)
        (self.bin / 'played-uv').unlink(missing_ok=True)
        scripts = {'python': f'''[ "$1" = -c ] && exit 0
            case "$*" in
            *config*) cat {self.bin}/settings; exit 0;;
            *' uv') {'exit 0' if uv else 'exit 1'};;
            esac
            {pip}''', 'uv': uv}
        for name, script in scripts.items():
            if script:
                self.program(f'played-{name}', script)
        self.program('python3', f'''
            [ "$2" != venv ] && exec {sys.executable} "$@"
            mkdir -p .venv/bin
            for name in python uv; do
                [ -e {self.bin}/played-$name ] || continue
                cp {self.bin}/played-$name .venv/bin/$name
            done''')

    def bootstrap(self, purpose, **environ):
        """Run it where everything can be installed; return the output."""
        done = subprocess.run(
            ['/bin/sh', str(self.checkout / 'tools' / 'bootstrap'), purpose],
            capture_output=True, text=True, timeout=60, env={
                'PATH': str(self.bin), 'PBR_VERSION': '0.0.1', **environ})
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def calls(self):
        return (self.checkout / 'calls').read_text().splitlines()

    def test_the_driver_comes_before_k2_sim(self):
        """Upgrading a driver that had its commands would remove them."""
        for uv in (None, 'echo "uv $@" >>calls'):
            with self.subTest(uv=uv):
                self.played_venv('echo "pip $@" >>calls', uv)
                self.bootstrap('test')
                self.assertEqual(
                    [('uv' if uv else 'pip', '-e .'),
                     ('uv' if uv else 'pip', '-e ./k2-sim[test]'),
                     ('pip', 'krest==1.3.8')],
                    [(call.split()[0], call[call.find(start):])
                     for call, start in zip(
                         self.calls(), ('-e', '-e', 'krest=='))])
                shutil.rmtree(self.checkout / '.venv')
                (self.checkout / 'calls').unlink()

    def test_what_uv_cannot_install(self):
        """Pip installs all of it, and uv is not asked again."""
        self.played_venv('echo "pip $@" >>calls',
                         'echo "uv $@" >>calls; exit 2')
        self.assertIn('trying pip', self.bootstrap('docs'))
        self.assertEqual(['uv', 'pip', 'pip'],
                         [call.split()[0] for call in self.calls()])

    def test_uv_is_told_the_settings_of_pip(self):
        self.settings = (":env:.find-links='/wheels'\nglobal.cert='/ca.pem'\n"
                         "install.index-url='https://p'\n")
        self.played_venv('', 'echo "$UV_DEFAULT_INDEX $SSL_CERT_FILE'
                         ' $UV_FIND_LINKS" >>calls')
        self.bootstrap('docs')
        self.assertEqual(['https://p /ca.pem /wheels'] * 2, self.calls())

    def test_its_own_settings_take_precedence(self):
        self.settings = "install.index-url='https://p'\n"
        self.played_venv('', 'echo "$UV_DEFAULT_INDEX" >>calls')
        self.bootstrap('docs', UV_DEFAULT_INDEX='https://u')
        self.assertEqual(['https://u'] * 2, self.calls())

    def test_settings_that_only_pip_knows(self):
        for name in ('no-index', 'extra-index-url', 'trusted-host', 'proxy'):
            with self.subTest(name=name):
                self.settings = f"global.{name}='1'\n"
                self.played_venv('echo "pip $@" >>calls', 'exit 2')
                self.assertNotIn('uv', self.bootstrap('docs'))
                self.assertEqual(2, len(self.calls()))
                shutil.rmtree(self.checkout / '.venv')
                (self.checkout / 'calls').unlink()

    def test_a_tag_is_another_version(self):
        """Detected from the installed version, and reinstalled."""
        self.played_venv('echo "$@" >>calls')
        for line, calls in (('exit 128', 2), ('exit 128', 2),
                            ('echo 1.0.0', 4), ('echo 1.0.0', 4)):
            self.program('git', line)
            self.bootstrap('docs')
            self.assertEqual(calls, len(self.calls()), line)

    def test_no_package_index(self):
        for uv in (None, 'exit 2'):
            with self.subTest(uv=uv):
                self.played_venv(
                    'echo "NewConnectionError: refused"; exit 1', uv)
                text = self.complaint(PBR_VERSION='0.0.1')
                self.assertIn('index cannot be reached', text)
                self.assertFalse(list(self.checkout.glob('.venv/*.stamp')))
                shutil.rmtree(self.checkout / '.venv')
