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

"""Pack the Juju charm, and the driver's wheel for its resource, into dist/.

If charmcraft is installed, it is used. Otherwise root can pack on this machine
with charmcraft from the Python package index. No container is needed, because
the charm and its dependencies are pure Python.
"""

import argparse
from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import subprocess  # nosec B404
import sys
import tempfile

import yaml

from tools import signals

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / 'juju-charm'
DIST = ROOT / 'dist'
VENV = ROOT / '.venv' / 'charmcraft'
SECONDS = 900.0
# With its own pyOpenSSL, because that of the system may be too old.
PACKAGES = ('charmcraft==4.5.0', 'pyopenssl>=24')
# Only Debian's own Python has the apt bindings that charmcraft imports.
PYTHON = '/usr/bin/python3'
# The system that units run, and that charmcraft requires as its host. Nothing
# in the charm depends on the system.
OS_RELEASE = '''NAME="Ubuntu"
ID=ubuntu
ID_LIKE=debian
VERSION_ID="24.04"
VERSION_CODENAME=noble
UBUNTU_CODENAME=noble
PRETTY_NAME="Ubuntu 24.04"
'''
# Runs in a separate mount namespace, so no other process sees this file.
DISGUISE = ('mount --bind "$1" "$(readlink -f /etc/os-release)" && shift && '
            'exec "$@"')


class CannotPack(Exception):
    """The charm cannot be packed; the text says what to do."""


def run(*command: str | pathlib.Path, cwd: pathlib.Path = ROOT) -> str:
    """Run a program; return what it printed.

    :raises CannotPack: it fails, or does not end in time
    """
    try:
        done = subprocess.run(  # nosec B603
            command, cwd=cwd, text=True, timeout=SECONDS,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise CannotPack(f'{command[0]} did not end within {SECONDS:.0f} s'
                         ) from None
    if done.returncode:
        raise CannotPack(f'{" ".join(map(str, command))} failed:\n'
                         f'{done.stdout}')
    return done.stdout


def missing() -> str:
    """Return why the charm cannot be packed here; '' if it can."""
    if shutil.which('charmcraft'):
        return ''
    packages = []
    if not shutil.which('unshare'):
        packages.append('util-linux')
    if not pathlib.Path(PYTHON).exists() or subprocess.run(  # nosec B603
            [PYTHON, '-c', 'import apt_pkg, ensurepip, venv'],
            stderr=subprocess.DEVNULL, timeout=SECONDS).returncode:
        packages += ['python3-apt', 'python3-venv']
    if packages or os.geteuid():
        return ('charmcraft is missing: snap install charmcraft --classic; '
                'or, as root on Debian or Ubuntu: apt-get install '
                f'{" ".join(packages or ["python3-apt", "python3-venv"])}')
    return ''


def find() -> pathlib.Path | None:
    """Return our own charmcraft, installed if missing or outdated.

    None if the system has one.
    """
    if shutil.which('charmcraft'):
        return None
    program, stamp = VENV / 'bin' / 'charmcraft', VENV / 'packages'
    if not (stamp.exists() and stamp.read_text() == ' '.join(PACKAGES)):
        print(f'Installing {" ".join(PACKAGES)} into {VENV}.',
              flush=True)
        run(PYTHON, '-m', 'venv', '--clear', '--system-site-packages', VENV)
        run(VENV / 'bin' / 'pip', 'install', '--quiet', '--upgrade',
            *PACKAGES)
        stamp.write_text(' '.join(PACKAGES))
    return program


@contextlib.contextmanager
def copy() -> Iterator[pathlib.Path]:
    """Yield a copy of the charm to pack, because packing leaves files."""
    with tempfile.TemporaryDirectory() as place:
        charm = pathlib.Path(place, 'charm')
        shutil.copytree(SOURCE, charm,
                        ignore=shutil.ignore_patterns('__pycache__'))
        shutil.copy(ROOT / 'LICENSE', charm)
        yield charm


def let_pass(charm: pathlib.Path) -> list[str]:
    """Return the linters that charmcraft.yaml ignores."""
    about = yaml.safe_load((charm / 'charmcraft.yaml').read_text())
    return list(about['analysis']['ignore']['linters'])


def pack() -> pathlib.Path:
    """Pack the charm; return the file.

    :raises CannotPack: it cannot be packed
    """
    reason = missing()
    if reason:
        raise CannotPack(reason)
    own = find()
    with copy() as charm:
        if own is None:
            run('charmcraft', 'pack', cwd=charm)
        else:
            system = charm.parent / 'os-release'
            system.write_text(OS_RELEASE)
            run('unshare', '--mount', 'sh', '-c', DISGUISE, 'sh', system,
                own, 'pack', '--destructive-mode', cwd=charm)
        packed, = charm.glob('*.charm')
        # charmcraft ignores the exceptions in the charm's own file here.
        analysis = run(own or 'charmcraft', 'analyse', '--ignore',
                       ','.join(let_pass(charm)), packed, cwd=charm)
        DIST.mkdir(exist_ok=True)
        # Keep only this one, so that a pattern matches a single file.
        for old in DIST.glob('*.charm'):
            old.unlink()
        shutil.copy(packed, DIST)
    print(analysis, end='')
    return DIST / packed.name


def build_wheel() -> pathlib.Path:
    """Build the driver's wheel; return the file.

    :raises CannotPack: it cannot be built
    """
    for old in DIST.glob('cinder_k2-*.whl'):
        old.unlink()
    run(sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps',
        '--wheel-dir', DIST, ROOT)
    wheel, = DIST.glob('cinder_k2-*.whl')
    return wheel


def main() -> int:
    """Pack; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.parse_args()
    try:
        charm, wheel = pack(), build_wheel()
    except CannotPack as error:
        print(f'pack_charm: {error}', file=sys.stderr)
        return 1
    print(f'juju deploy ./dist/{charm.name} \\\n'
          f'    --resource driver=./dist/{wheel.name}')
    return 0


if __name__ == '__main__':
    sys.exit(signals.run(main))
