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

"""Runs the phases of DevStack below a directory, without its services.

``DevStack`` uses the minimal functions of functions.sh, or those of a checkout
of DevStack. Calls that would change the machine are only logged.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess  # nosec B404
import sys
import tempfile
import unittest

from oslo_config import cfg

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(sys.executable).parent
# The environment variable with the path of a checkout to test with.
CHECKOUT = 'DEVSTACK_DIR'
# Allows for a busy machine.
SECONDS = 180
ARRAYS = ('k2-sim-1', 'k2-sim-2')


def every_devstack(case):
    """Run a test class on the minimal functions and on a checkout, if any.

    Creates two subclasses, with the suffixes OnStubs and OnCheckout.
    """
    module = sys.modules[case.__module__]
    for name, checkout in (('Stubs', False), ('Checkout', True)):
        made = type(f'{case.__name__}On{name}', (case, unittest.TestCase),
                    {'checkout': checkout, '__module__': case.__module__})
        setattr(module, made.__name__, made)
    return case


def require_curl(case):
    """Skip a test that starts arrays if curl is not installed."""
    if shutil.which('curl') is None:
        case.skipTest('needs the package curl')


@contextlib.contextmanager
def listening(host, port):
    """Listen on a port for the duration of the block."""
    with socket.create_server((host, port)):
        yield


def free_port():
    """Return a free port that no outgoing connection can take."""
    while True:
        # Below the range of ephemeral ports.
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), listening('127.0.0.1', port):
            return port


class DevStack:
    """A machine with DevStack.

    :ivar dest: its $DEST
    :ivar output: output of the last run, with the trace of the shell
    """

    def __init__(self, checkout=''):
        """Create its directories, without a local.conf."""
        self.dest = pathlib.Path(tempfile.mkdtemp(prefix='devstack-'))
        self.home = self.dest / 'home'
        self.home.mkdir()
        self.conf = self.dest / 'etc' / 'cinder' / 'cinder.conf'
        self.secrets = (self.home / '.cinder' / 'cinder.conf.d'
                        / 'cinder-k2.conf')
        self.state = self.dest / 'data' / 'k2'
        self.tempest_conf = self.dest / 'etc' / 'tempest.conf'
        self.ports = [free_port() for _ in ARRAYS]
        self.output = ''
        self._checkout = checkout
        (self.dest / 'cinder-k2').symlink_to(ROOT)

    def local(self, *lines):
        """Write the variables of local.conf.

        By default, arrays have free ports and no data plane.
        """
        (self.dest / 'localrc').write_text('\n'.join([
            'enable_plugin cinder-k2 https://example.org/cinder-k2',
            f'K2_SIM_PORT={self.ports[0]}', f'K2_SIM_PORT_2={self.ports[1]}',
            'K2_DATA_PLANE=none', 'SERVICE_TIMEOUT=60', *lines, '']))

    def check_run(self, *actions, **environ):
        """Run stack.sh, unstack.sh or clean.sh; raise if one fails."""
        for action in actions:
            if self.run(action, **environ):
                raise AssertionError(
                    f'{action} failed:\n{self.output[-9000:]}')

    def run(self, action, **environ):
        """Run one script and return its exit status."""
        environ = {
            'PATH': os.environ['PATH'], 'LANG': 'C.UTF-8',
            'PYTHONWARNINGS': 'ignore',
            'DEST': str(self.dest), 'HOME': str(self.home), 'BIN': str(BIN),
            CHECKOUT: self._checkout, **environ}
        done = subprocess.run(  # nosec B603
            ['/bin/bash', str(HERE / 'run.sh'), action], env=environ,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=SECONDS, cwd=self.dest)
        self.output = done.stdout.decode()
        return done.returncode

    @property
    def errors(self):
        """The first lines of the messages of ``die``."""
        return [line for line in self.output.splitlines()
                if line.startswith('[ERROR] ')]

    @property
    def message(self):
        """The whole message of ``die``."""
        said = self.output.partition('[ERROR] ')[2].splitlines()
        return '\n'.join(line for line in said if line[:1] != '+')

    def log(self, name):
        """Return the text of a log, such as machine or openstack."""
        path = self.dest / 'logs' / f'{name}.log'
        return path.read_text() if path.exists() else ''

    def command(self, array):
        """Return the user and command of the service of an array."""
        return (self.dest / 'logs' / f'{array}.command').read_text().strip()

    def running(self):
        """Return the names of the running arrays."""
        return [array for array in ARRAYS
                if (self.dest / f'{array}.pid').exists()]

    def arrays(self):
        """Return the PIDs of all arrays started below ``dest``."""
        found = []
        for entry in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                text = entry.read_bytes().decode(errors='replace')
                place = os.readlink(entry.parent / 'cwd')
                if 'k2-sim' in text and str(self.dest) in text or \
                        place.startswith(f'{self.state}/'):
                    found.append(int(entry.parent.name))
        return found

    def option(self, back_end, name, kind=cfg.StrOpt):
        """Return an option of a back end as Cinder reads it."""
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(self.conf),
              '--config-dir', str(self.secrets.parent)],
             default_config_files=[], default_config_dirs=[])
        conf.register_opt(kind(name), group=back_end)
        return conf[back_end][name]

    def default(self, name):
        """Return an option of the section DEFAULT of cinder.conf."""
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(self.conf)],
             default_config_files=[], default_config_dirs=[])
        conf.register_opt(cfg.StrOpt(name))
        return conf[name]

    def tempest(self):
        """Return the options in tempest.conf, by section and option."""
        sections = {}
        cfg.ConfigParser(str(self.tempest_conf), sections).parse()
        return {(section, key): value[-1] for section, found in
                sections.items() for key, value in found.items()}

    def left(self):
        """Return the files of the plugin that still exist."""
        return [str(path) for path in (self.state, self.secrets.parents[1])
                if path.exists()]

    def close(self):
        """Kill the arrays and remove the directory."""
        for pid in self.arrays():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.dest)


class Case:
    """Base of the tests of the plugin; see ``every_devstack``."""

    checkout = False

    def setUp(self):
        super().setUp()
        require_curl(self)
        directory = os.environ.get(CHECKOUT, '')
        if self.checkout and not directory:
            self.skipTest(f'{CHECKOUT} is not set to a checkout of DevStack')
        self.stack = DevStack(directory if self.checkout else '')
        self.addCleanup(self.stack.close)

    def assert_refused(self, *parts, action='stack'):
        """Check for one message with these parts, and no leftovers."""
        self.assertEqual(1, self.stack.run(action), self.stack.output[-3000:])
        self.assertEqual(1, len(self.stack.errors), self.stack.errors)
        for part in parts:
            self.assertIn(part, self.stack.message)
        self.assertEqual([], self.stack.arrays())
        self.assertFalse(self.stack.secrets.exists())
        self.assertEqual([], sorted(self.stack.state.glob('k2-sim-*')))
