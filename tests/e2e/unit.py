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

"""A Juju unit on this machine, whose changes are discarded."""

import json
import os
import shutil
import subprocess
import sys

from tests.e2e import hook_tools

# The directories that a charm may change. An overlay on each of them shows it
# this machine's files and keeps its changes apart.
LAYERS = ('/etc', '/run', '/var')
MOUNT = '''
set -e
layers=$1
shift
for place; do
    mkdir -p "$layers$place/upper" "$layers$place/work"
    mount -t overlay overlay -o "lowerdir=$place,upperdir=$layers$place/upper,\
workdir=$layers$place/work" "$place"
done
groupadd --force --system cinder
mkdir -p /etc/cinder
echo ready
exec cat
'''
# Mocks, as a test must not install packages: all seem to be installed.
PROGRAMS = {'apt-get': 'exit 0', 'add-apt-repository': 'exit 0',
            'dpkg-query': 'printf installed'}
NAME = 'cinder-k2/0'
# Seconds that a hook may take.
LIMIT = 240


def missing():
    """Return why a unit cannot run here, or an empty text."""
    if os.geteuid():
        return 'a unit of Juju on this machine needs root'
    if not shutil.which('nsenter') or not shutil.which('unshare'):
        return 'a unit of Juju on this machine needs the package util-linux'
    return ''


class Unit:
    """A machine with a charm on it, and the model that the charm sees.

    :ivar model: the state that tests/e2e/hook_tools.py reads and writes
    """

    def __init__(self, directory, charm, prefix=sys.prefix):
        """Lay out a machine.

        :param directory: for its files, on a file system that can be the
            upper layer of an overlay
        :param charm: the directory of the unpacked charm
        :param prefix: of the Python that has Cinder; /usr on a real unit
        """
        self.charm = charm
        self._prefix = prefix
        self._file = directory / 'model.json'
        self._bin = directory / 'bin'
        self._lay_out_programs()
        self.model = {
            'config': {}, 'relations': {}, 'secrets': {}, 'resources': {},
            'parameters': {}, 'results': {}, 'log': [], 'status': [],
            'version': '', 'failure': ''}
        self._holder = subprocess.Popen(
            ['unshare', '--mount', 'sh', '-c', MOUNT, 'sh',
             directory / 'layers', *LAYERS, prefix],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        line = self._holder.stdout.readline()
        if line != 'ready\n':
            raise AssertionError(line + self._holder.communicate()[0])

    def _lay_out_programs(self):
        self._bin.mkdir()
        for name, text in PROGRAMS.items():
            program = self._bin / name
            program.write_text(f'#!/bin/sh\n{text}\n')
            program.chmod(0o755)
        for name in hook_tools.TOOLS:
            (self._bin / name).symlink_to(hook_tools.__file__)

    def close(self):
        """End the unit, which discards all its changes."""
        self._holder.communicate()

    def enter(self, *command, **variables):
        """Return the command line that runs a command on the unit."""
        path = f'{self._bin}:{self._prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin'
        return ['nsenter', f'--mount=/proc/{self._holder.pid}/ns/mnt', '--',
                'env', f'--chdir={self.charm}', f'PATH={path}',
                *(f'{name}={value}' for name, value in variables.items()),
                *map(str, command)]

    def run(self, *command, **variables):
        """Run a command on the unit; return its output."""
        done = subprocess.run(self.enter(*command, **variables), text=True,
                              capture_output=True, timeout=LIMIT)
        if done.returncode:
            raise AssertionError(f'{command}: {done.stdout}{done.stderr}')
        return done.stdout

    def hook(self, name, relation='', **variables):
        """Run a hook of the charm through its dispatch, as Juju does.

        :param relation: its id, such as storage-backend:0
        """
        if relation:
            remote = self.model['relations'][relation]
            variables = {
                'JUJU_RELATION': relation.partition(':')[0],
                'JUJU_RELATION_ID': relation,
                'JUJU_REMOTE_APP': remote['app'],
                'JUJU_REMOTE_UNIT': next(iter(remote['units']), ''),
                **variables}
        self._dispatch(f'hooks/{name}', variables)

    def act(self, name, **parameters):
        """Run an action as Juju does; return its results."""
        self.model.update(parameters=parameters, results={}, failure='')
        self._dispatch(f'actions/{name}', {'JUJU_ACTION_NAME': name})
        return self.model['results']

    def _dispatch(self, path, variables):
        self._file.write_text(json.dumps(self.model))
        self.run('./dispatch', HOOK_MODEL=self._file, JUJU_DISPATCH_PATH=path,
                 JUJU_CHARM_DIR=self.charm, JUJU_UNIT_NAME=NAME,
                 JUJU_MODEL_NAME='test', JUJU_VERSION='3.6.0',
                 JUJU_MODEL_UUID='a0f3b7d2-4c11-4b70-8a4f-2f1f6f6f9c55',
                 PYTHONDONTWRITEBYTECODE='1', **variables)
        self.model = json.loads(self._file.read_text())

    @property
    def status(self):
        """Return the name and the message of the unit's status."""
        return tuple(self.model['status'])
