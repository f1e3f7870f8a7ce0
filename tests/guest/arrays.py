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

"""Simulated arrays in the guest, each a process of k2-sim with a data plane.

The environment variable K2_PLANE selects the data plane.
"""

import functools
import os
import pathlib
import subprocess
import sys

from tests.guest import fabric
from tests import iscsi
from tools.guest import node

PLANE = os.environ.get('K2_PLANE', 'tgt')
_STATES = pathlib.Path('/run/arrays')
# The data of volumes is kept in the guest's memory, in a tmpfs.
_SIZE = '80%'
_PORTS = {'a': 8443, 'b': 8444}


@functools.cache
def _mount():
    _STATES.mkdir()
    node.run('mount', '-t', 'tmpfs', '-o', f'size={_SIZE}', 'arrays',
             str(_STATES))


class Array(iscsi.Simulator):
    """One of two arrays, 'a' and 'b', that are each other's peers."""

    def __init__(self, letter):
        _mount()
        super().__init__(_STATES / letter)
        self.name = f'array-{letter}'
        number = 'ab'.index(letter) + 1
        self.portals = [f'127.0.{number}.{last}' for last in (11, 12)]
        self.address, self.port = '127.0.0.1', _PORTS[letter]
        self._peer = 'ba'['ab'.index(letter)]
        self.directory.mkdir(parents=True, exist_ok=True)
        self._find_log_of_tgtd()

    def _find_log_of_tgtd(self):
        folder = self.directory / 'tgt'
        folder.mkdir(exist_ok=True)
        (folder / 'tgtd.log').symlink_to(node.OUT / f'{self.name}-tgtd.log')

    def start(self):
        """Start k2-sim and return its process, once it listens.

        :raises AssertionError: it ended; the text is its log
        """
        password = _STATES / 'password'
        password.write_text('secret-of-both-arrays\n')
        command = [
            sys.executable, '-W', 'ignore', '-m', 'k2_sim.cmd.serve',
            '--name', self.name, '--listen', f'{self.address}:{self.port}',
            '--state-dir', str(self.directory), '--profile', 'sdp',
            '--behavior', 'clones_movable=true',
            '--behavior', 'grow_suspended=true',
            '--data-plane', PLANE, '--require-data-plane',
            '--password-file', str(password), *self._replication(password),
            *(f'--portal={address}' for address in self.portals),
            *(f'--fc-port={name}' for name in fabric.names(self.name))]
        log = node.OUT / f'{self.name}.log'
        with open(log, 'ab') as stream:
            before = stream.tell()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=stream, start_new_session=True)
        node.wait_until(lambda: self.process.poll() is not None
                        or b' listens on ' in log.read_bytes()[before:],
                        self.name)
        if self.process.poll() is not None:
            raise AssertionError(log.read_text())
        self.url = f'https://{self.address}:{self.port}'
        self.iqn = self.hits('system/state')[0]['iscsi_qualified_target_name']
        return self.process

    def _replication(self, password):
        peer = self._peer
        return ['--peer', f'array-{peer}={self.address}:{_PORTS[peer]}',
                '--peer-password-file', str(password),
                '--peer-ca', str(_STATES / peer / 'ca.crt')]

    def password(self, login='admin'):
        if login == 'admin':
            return (_STATES / 'password').read_text().strip()
        return super().password(login)
