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

"""A fake machine in a directory, and a unit of the charm on it."""

import json
import pathlib
import sys
import tempfile
import unittest
import zipfile

from ops import testing
import yaml

import charm
import machine
from tests.charm import CHARM

META = yaml.safe_load((CHARM / 'charmcraft.yaml').read_text())
APP = 'cinder-k2'
IQN = 'iqn.2009-01.com.kaminario:storage.k2.1'
SECRETS = f'/etc/cinder/cinder.conf.d/{APP}.conf'
NO_SECRET = 'secret:d0000000000000000000'
PASSWORD = 'pa$word,"'
DR_PASSWORD = ' d,r$ '
# Certificates whose keys were discarded.
PEM = '''\
-----BEGIN CERTIFICATE-----
MIIBLDCB36ADAgECAhQezQES+3powwBww7PEBHIKwYXLwjAFBgMrZXAwDDEKMAgG
A1UEAwwBYTAeFw0yNjExMjMwMzA4NThaFw0zNjExMjAwMzA4NThaMAwxCjAIBgNV
BAMMAWEwKjAFBgMrZXADIQC4n4r63ck+Ag17m458B3dxUrClrGsihkuJgvGXdngH
xqNTMFEwHQYDVR0OBBYEFAA9ZTmkIA5m9hn2AfoTAynWxrHAMB8GA1UdIwQYMBaA
FAA9ZTmkIA5m9hn2AfoTAynWxrHAMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EA
95XzAW/gtRMha01ICTFJXuGsxhgDmRbbFzOYXYW0dtAY+2x6ioRC2v/lD7XJIb3S
JqQCtFM45D8kSwaqhxruDw==
-----END CERTIFICATE-----
'''
OTHER_PEM = '''\
-----BEGIN CERTIFICATE-----
MIIBLDCB36ADAgECAhR3D43vG8KqAFqxwj7BLoIEbLW3/jAFBgMrZXAwDDEKMAgG
A1UEAwwBYjAeFw0yNjExMjMwMzA4NThaFw0zNjExMjAwMzA4NThaMAwxCjAIBgNV
BAMMAWIwKjAFBgMrZXADIQA5dWWQ/QV2FrNXYxfccm5zIp9ATw7Jv90KlgNIJFW0
36NTMFEwHQYDVR0OBBYEFFgzHXNN0uVZCoNG9+Fhw+GmVcFcMB8GA1UdIwQYMBaA
FFgzHXNN0uVZCoNG9+Fhw+GmVcFcMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EA
9D6yQ1BkaxXbEZiYzWUi86xwbN7npJbZKYRihs0pL9AkeYcPjbneS1d316EzlRd5
En+ZGQxtp1nvFbBKbdk9Dw==
-----END CERTIFICATE-----
'''
ARRAY = {'id': 1, 'name': 'k2-1', 'version': '6.5', 'rest_version': '2.3.0',
         'state': 'ONLINE'}


def backend(name='k2a', **changes):
    """Return the report of k2-admin check on a back end without problems."""
    port = {'name': None, 'address': '10.0.0.6:3260',
            'target': IQN, 'up': None}
    return {'backend': name, 'protocol': 'iSCSI', 'address': '10.0.0.5',
            'problems': [], 'warnings': [], 'array': ARRAY,
            'user': {'login': 'openstack', 'role': 'mgmt-app'},
            'capacity': {'total': 20 * 1024 ** 3,
                         'free': int(12.3 * 1024 ** 3),
                         'provisioned': 40 * 1024 ** 3},
            'ports': [dict(port, address=f'10.0.0.{number}:3260')
                      for number in range(6, 14)],
            'targets': [], **changes}


def target(**changes):
    """Return the report of k2-admin check on a replication target."""
    return {'backend_id': 'dr', 'address': '10.9.0.5', 'problems': [],
            'warnings': [], 'array': ARRAY, 'user': None, 'capacity': None,
            'ports': [], **changes}


def finding(kind, text):
    """Return a problem or warning as k2-admin reports it."""
    return {'kind': kind, 'text': text}


class FakeMachine(machine.Machine):
    """A machine with files below a directory, and fake programs.

    :ivar installed: names of Debian packages
    :ivar version: the version of the installed driver, or ''
    :ivar cinder: the versions of Cinder that its Python finds
    :ivar python: the version of that Python
    :ivar offered: the version that an installation provides
    :ivar backends: the report of k2-admin check
    :ivar commands: the commands that were run, each as one line
    :ivar failing: results or exceptions by prefix of the command; a list has
        those of successive calls, after which the command succeeds
    :ivar wheel: the dist-info directory of an installed wheel
    :ivar reachable: pairs of address and port that accept connections
    :ivar slept: total seconds of sleep
    """

    def __init__(self, root):
        """Start with an empty machine."""
        super().__init__(root)
        self.installed = set()
        self.version = ''
        self.cinder = ['24.2.0']
        self.python = '3.12'
        self.offered = '1.2.3'
        self.backends = [backend()]
        self.commands = []
        self.failing = {}
        self.reachable = set()
        self.groups = {}
        self.missing_groups = set()
        self.wheel = self.path(
            f'/usr/local/lib/python{sys.version_info[0]}.'
            f'{sys.version_info[1]}/dist-packages/cinder_k2-1.0.dist-info')
        self.checked = None
        self.slept = 0.0

    def own(self, path, group):
        if group in self.missing_groups:
            raise LookupError(f'no such group: {group!r}')
        self.groups[path.name.split('.')[1]] = group

    def host(self):
        return 'node-1'

    def sleep(self, seconds):
        self.slept += seconds

    def connects(self, host, port, seconds):
        return (host, port) in self.reachable

    def run(self, *command, seconds, **variables):
        assert 0 < seconds <= 900, 'a program needs a timeout'
        line = ' '.join(command)
        self.commands.append(line)
        for beginning, answer in self.failing.items():
            if line.startswith(beginning) and answer != []:
                now = answer.pop(0) if isinstance(answer, list) else answer
                if isinstance(now, Exception):
                    raise now
                return now
        return self._succeed(command, line)

    def _succeed(self, command, line):
        if line.startswith('dpkg-query --show --showformat'):
            return machine.Result(
                0, 'installed' if command[-1] in self.installed else '')
        if command[0] == 'apt-get':
            self._install(command)
        if line.startswith('python3 -m pip install'):
            self.version = self.offered
            self.wheel.mkdir(parents=True, exist_ok=True)
        if line.startswith('python3 -m pip uninstall'):
            self.version = (self.offered if 'python3-cinder-k2'
                            in self.installed else '')
            self.wheel.rmdir()
        if line.startswith('python3 -c') and "name='cinder'" in line:
            return machine.Result(0, '\n'.join([
                self.python, ' '.join(self.cinder)]) + '\n')
        if line.startswith('python3 -c'):
            return machine.Result(0, f'{self.version}\n')
        if line.startswith('k2-admin check'):
            self.checked = pathlib.Path(command[-1]).read_text()
            self.mode = pathlib.Path(command[-1]).stat().st_mode & 0o777
            bad = any(one['problems'] for one in self.backends)
            return machine.Result(int(bad), json.dumps(
                {'backends': self.backends}))
        return machine.Result(0, f'output of {line}\n')

    def _install(self, command):
        if 'install' in command:
            names = command[command.index('install') + 1:]
            self.installed.update(names)
            if 'python3-cinder-k2' in names:
                self.version = self.offered

    def ran(self, beginning):
        """Return the commands that begin with a text."""
        return [line for line in self.commands if line.startswith(beginning)]


def write_wheel(path, name='cinder-k2', version='1.2.3'):
    """Write a file with the parts of a wheel that the charm reads."""
    folder = f'{name.replace("-", "_")}-{version}.dist-info'
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('cinder_k2/METADATA', 'Name: decoy\n')
        archive.writestr(f'{folder}/METADATA',
                         f'Name: {name}\nVersion: {version}\n')
        archive.writestr(f'{folder}/WHEEL', 'Tag: py3-none-any\n')


class UnitCase(unittest.TestCase):
    """A unit on cinder that has everything it needs by default."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.machine = FakeMachine(self.root / 'root')
        self.wheel = self.root / 'resource'
        write_wheel(self.wheel)
        self.secret = self.new_secret(PASSWORD)
        self.dr_secret = self.new_secret(DR_PASSWORD)
        self.config = {'san_ip': '10.0.0.5', 'backend_name': 'k2a',
                       'credentials': self.secret.id}
        self.relation = testing.SubordinateRelation(
            'storage-backend', remote_app_name='cinder')
        self.context = self.new_context(APP)

    def new_context(self, application):
        """Return the context for events of a unit of an application."""
        kind = type('Charm', (charm.CinderK2Charm,),
                    {'machine': self.machine})
        return testing.Context(
            kind, app_name=application,
            meta={key: value for key, value in META.items()
                  if key not in ('config', 'actions', 'parts', 'platforms')},
            config=META['config'], actions=META['actions'])

    def new_secret(self, password, username='openstack', **more):
        return testing.Secret({'username': username, 'password': password},
                              **more)

    def state(self, **changes):
        """Return the state of the model, with changes."""
        return testing.State(**{
            'config': self.config, 'relations': [self.relation],
            'secrets': [self.secret, self.dr_secret],
            'resources': [testing.Resource(name='driver', path=self.wheel)],
            **changes})

    def run_event(self, event=None, **changes):
        """Run an event; return the state after it."""
        event = event or self.context.on.config_changed()
        return self.context.run(event, self.state(**changes))

    def run_other(self, **config):
        """Run config-changed of another application on the same cinder."""
        other = self.new_context('other')
        return other.run(other.on.config_changed(), self.state(config={
            **self.config, 'backend_name': 'other', **config}))

    def again(self, state, event=None, **changes):
        """Run another event on the state after a previous one."""
        event = event or self.context.on.config_changed()
        kept = {name: getattr(state, name) for name in (
            'config', 'relations', 'secrets', 'resources', 'stored_states')}
        return self.context.run(event, testing.State(**{**kept, **changes}))

    def action(self, name, **params):
        """Run an action on a configured unit; return its results."""
        self.again(self.run_event(), self.context.on.action(
            name, params=params))
        return dict(self.context.action_results)

    def assertActionFails(self, pattern, name, **params):
        with self.assertRaisesRegex(testing.ActionFailed, pattern):
            self.action(name, **params)
        return self.context.action_results

    def published(self, state):
        """Return the relation data for the cinder charm."""
        return state.get_relation(self.relation.id).local_unit_data

    def sections(self, state):
        """Return the published sections of cinder.conf."""
        data = json.loads(self.published(state)['subordinate_configuration'])
        return data['cinder']['/etc/cinder/cinder.conf']['sections']

    def pairs(self, state, name='k2a'):
        """Return one published section as a dict."""
        return dict(map(tuple, self.sections(state)[name]))

    def assertStatus(self, kind, pattern, state):
        status = state.unit_status
        self.assertEqual(kind, status.name, status)
        self.assertRegex(status.message, pattern)
        self.assertNoSecret(status.message)

    def assertNoSecret(self, text):
        for secret in (PASSWORD, DR_PASSWORD, DR_PASSWORD.strip(), 'hush'):
            self.assertNotIn(secret, text)
