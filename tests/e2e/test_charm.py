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

"""The packed charm on a unit, from its dispatch to volumes on an array."""

import contextlib
import functools
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import yaml

from tests.charm import cinder_conf
from tests.e2e import unit
from tools.cloud import children
from tools.cloud import client
from tools.cloud import scenario
from tools.cloud import settings
from tools.cloud import stack
from tools.cloud import state
from tools import pack_charm
from tools.releases import environments
from tools.releases import table

# Characters that are special in cinder.conf, YAML or a shell.
PASSWORD = ' "pa$$w,o$rd\'; #%'
SECRET = 'secret:d0000000000000000000'
RELATION = 'storage-backend:0'
# The interpreter of the system, as on a unit.
PYTHON = '/usr/bin/python3'
INSTALL = '''
import json, pathlib, sys
sys.path += ["venv", "src"]
import driver, machine, options
for wheel in map(pathlib.Path, sys.argv[1:]):
    failure = ""
    try:
        driver.install(machine.Machine(), options.Settings(()), wheel, "k2")
    except machine.Failed as error:
        failure = str(error).partition(":")[0]
    print(json.dumps([failure, driver.version(machine.Machine()), [
        path.name for path in pathlib.Path("/usr/local/lib").rglob("of_*.py")
    ]]))
'''
WARM_UP = ('from cinder import objects; objects.register_all(); '
           'import cinder_k2.cmd.admin, cinder_k2.driver')
# Seconds for Cinder to start on a busy machine.
SECONDS = 120


@functools.cache
def pack():
    """Build the charm and the wheel for it, once; return their paths."""
    with contextlib.redirect_stdout(io.StringIO()):
        return pack_charm.pack(), pack_charm.build_wheel()


class CharmTest(unittest.TestCase):
    """The charm as charmcraft packs it, unpacked as Juju does."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = pack_charm.missing() or unit.missing()
        if reason:
            raise unittest.SkipTest(reason)
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        packed, cls.wheel = pack()
        cls.charm = cls.directory / 'charm'
        with zipfile.ZipFile(packed) as archive:
            cls.names = archive.namelist()
            for info in archive.infolist():
                path = pathlib.Path(archive.extract(info, cls.charm))
                # zipfile does not restore file modes.
                path.chmod(info.external_attr >> 16)


class PackageTest(CharmTest):
    """The contents of the package."""

    def test_it_needs_nothing_but_a_python(self):
        """It imports no module of the machine and has no extension module."""
        done = subprocess.run(
            ['/usr/bin/python3', '-SIc', 'import sys\n'
             'sys.path += ["venv", "src"]\nimport charm, ops\n'
             'print(ops.__file__, ops.__version__)'],
            cwd=self.charm, capture_output=True, text=True)
        self.assertEqual('', done.stderr)
        path, version = done.stdout.split()
        self.assertTrue(path.endswith('venv/ops/__init__.py'), path)
        self.assertEqual('3', version.split('.')[0])
        self.assertEqual([], [name for name in self.names
                              if name.endswith('.so')])

    def test_what_juju_and_charmhub_want(self):
        for name in ('README.md', 'icon.svg', 'LICENSE', 'metadata.yaml',
                     'config.yaml', 'actions.yaml', 'manifest.yaml'):
            self.assertIn(name, self.names)
        about = yaml.safe_load((self.charm / 'metadata.yaml').read_text())
        self.assertIs(True, about['subordinate'])
        self.assertEqual('cinder-backend',
                         about['provides']['storage-backend']['interface'])


class WheelTest(CharmTest):
    """Installing the driver's wheel with the system's pip."""

    def setUp(self):
        super().setUp()
        if subprocess.run([PYTHON, '-m', 'pip', '--version'],
                          capture_output=True).returncode:
            self.skipTest('needs the package python3-pip')
        self.place = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        query = self.place / 'dpkg-query'
        query.write_text(f'#!/bin/sh\n{unit.PROGRAMS["dpkg-query"]}\n')
        query.chmod(0o755)

    def new_wheel(self, version, damaged=False):
        """Make a driver that has one module, named after its version."""
        module = f'cinder_k2/of_{version}.py'
        info = f'cinder_k2-{version}.dist-info'
        texts = {
            'cinder_k2/__init__.py': '', module: '# whole\n',
            f'{info}/METADATA': 'Metadata-Version: 2.1\nName: cinder-k2\n'
                                f'Version: {version}\n',
            f'{info}/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\n'
                             'Tag: py3-none-any\n'}
        texts[f'{info}/RECORD'] = ''.join(
            f'{name},,\n' for name in (*texts, f'{info}/RECORD'))
        path = self.place / f'{version}.whl'
        with zipfile.ZipFile(path, 'w') as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
        if damaged:
            path.write_bytes(path.read_bytes().replace(b'whole', b'wrong'))
        return path

    def install(self, *wheels):
        """Install wheels in turn; return what is installed after each."""
        done = subprocess.run(
            ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs tmpfs '
             '/usr/local/lib && exec "$@"', 'sh', PYTHON, '-c', INSTALL,
             *wheels], cwd=self.charm, text=True, capture_output=True,
            env={'PATH': f'{self.place}:/usr/bin:/bin',
                 'PYTHONDONTWRITEBYTECODE': '1'})
        self.assertEqual(0, done.returncode, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_each_takes_the_place_of_the_one_before_or_leaves_it(self):
        self.assertEqual(
            [['', '1', ['of_1.py']],
             ['python3 failed', '1', ['of_1.py']],
             ['', '3', ['of_3.py']]],
            self.install(self.new_wheel('1'),
                         self.new_wheel('2', damaged=True),
                         self.new_wheel('3')))


class Chain:
    """Charm, relation data, cinder.conf, cinder-volume, simulated array."""

    #: Prefix of the Python with Cinder; on a real unit that of the system.
    prefix = sys.prefix

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        self.started = []
        self.addCleanup(self.stop)
        self.start_arrays()
        # The charm keeps its state in the directory of its code.
        charm = self.place / 'charm'
        shutil.copytree(self.charm, charm)
        self.unit = unit.Unit(self.place, charm, self.prefix)
        self.addCleanup(self.unit.close)

    def stop(self):
        for child in reversed(self.started):
            child.stop()

    def start_arrays(self):
        """Start two arrays that are peers of each other."""
        *ports, second = [settings.free_port() for _ in range(3)]
        self.run_of = settings.Settings(
            pack_charm.ROOT, self.place / 'cloud', *ports, check=True,
            keep=True, second_port=second)
        state.write_private(self.run_of.password_file, PASSWORD + '\n')
        state.prepare(self.run_of)
        with contextlib.redirect_stdout(io.StringIO()):
            self.array, _ = stack.start_arrays(self.run_of, self.started)

    def configure(self, password=PASSWORD):
        """Do as an operator: juju config, add-secret, attach-resource."""
        self.unit.model['config'] = {
            'credentials': SECRET, 'tls-ca': self.run_of.ca_file.read_text(),
            'san_ip': settings.HOST, 'san-api-port': self.run_of.sim_port,
            'backends': 'k2-iscsi: {protocol: iSCSI}\n'
                        'k2-fc: {protocol: FC}\n',
            'replication-devices': json.dumps([{
                'backend-id': settings.TARGET, 'san-ip': settings.HOST,
                'port': self.run_of.second_port, 'rpo': 60}]),
            'replication-credentials': SECRET}
        self.unit.model['secrets'] = {SECRET: {
            'username': settings.LOGIN, 'password': password}}
        self.unit.model['resources'] = {'driver': str(self.wheel)}

    def integrate(self):
        """Do as Juju does when the charm is integrated with cinder."""
        self.unit.model['relations'][RELATION] = {
            'app': 'cinder', 'units': {'cinder/0': {}}, 'said': {}}
        for name in ('install', 'config-changed', 'start'):
            self.unit.hook(name)
        for name in ('created', 'joined', 'changed'):
            self.unit.hook(f'storage-backend-relation-{name}', RELATION)

    def cinder_conf(self):
        """Return the cinder.conf that the cinder charm would write."""
        said = self.unit.model['relations'][RELATION]['said']
        sections = json.loads(said['subordinate_configuration'])[
            'cinder']['/etc/cinder/cinder.conf']['sections']
        return state.render_common(
            self.run_of, said['backend_name'].split(','),
            self.prefix) + cinder_conf.render(sections)

    def test_from_a_mistake_to_volumes(self):
        """From the install of a unit until its relation to cinder ends."""
        self.configure('wrong')
        self.integrate()
        self.assert_status('blocked', 'HTTP 401')
        before = self.cinder_conf()
        self.unit.model['secrets'][SECRET]['password'] = PASSWORD
        self.unit.hook('secret-changed', JUJU_SECRET_ID=SECRET)
        self.assert_status('active', 'k2-iscsi')
        plan = self.unit.act('failover-plan')['result']
        self.assertEqual(2, plan.count(f'{settings.TARGET}: would take over'))
        # The cinder charm restarts the service when the file changes.
        self.assertNotEqual(before, self.cinder_conf())
        self.do_the_main_job()
        self.check_secrecy()
        self.unit.hook('storage-backend-relation-broken', RELATION)
        self.assertEqual('', self.unit.run(
            'find', '/etc/cinder/cinder.conf.d', '-type', 'f'))

    def assert_status(self, wanted, part):
        word, text = self.unit.status
        self.assertEqual(wanted, word, text)
        self.assertIn(part, text)

    def do_the_main_job(self):
        """Run the scenario with that cinder.conf, over both protocols."""
        self.run_of.cinder_conf.write_text(self.cinder_conf())
        watcher = self.start_cinder()
        with contextlib.redirect_stdout(io.StringIO()):
            scenario.make_types(watcher.cinder)
            for backend in settings.BACKENDS:
                scenario.Job(watcher, backend).run()
            self.assertNotEqual({}, self.array.leftovers())
            scenario.remove_all(watcher)
        self.assertEqual({}, self.array.leftovers())

    def check_secrecy(self):
        """Check that only one file contains the password."""
        listed = self.unit.run('stat', '-c', '%a %U %G',
                               '/etc/cinder/cinder.conf.d/cinder-k2.conf')
        self.assertEqual('640 root cinder\n', listed)
        archive = self.unit.act('collect-diagnostics')['path']
        packed = self.unit.run('tar', '-xzOf', archive)
        self.assertIn('k2-iscsi', packed)
        said = [self.unit.model[name] for name in (
            'relations', 'results', 'log', 'status')]
        for text in (packed, self.cinder_conf(), json.dumps(said)):
            for form in (PASSWORD, PASSWORD.strip(),
                         PASSWORD.replace('$', '$$')):
                self.assertNotIn(form, text)
                self.assertNotIn(json.dumps(form)[1:-1], text)

    def start_cinder(self):
        """Start Cinder on the unit, with the driver that the charm installed.

        Python must not find the driver of the checkout, so ``tools`` is
        copied to a directory without it.
        """
        library = self.place / 'lib'
        shutil.copytree(pack_charm.ROOT / 'tools', library / 'tools')
        path = self.unit.run('python3', '-c',
                             'import cinder_k2; print(cinder_k2.__file__)')
        self.assertIn('site-packages', path)
        log = self.run_of.log_dir / 'cinder.log'
        child = children.Child('cinder', self.unit.enter(
            'python3', '-m', 'tools.cloud.cinder_service', '--config-file',
            self.run_of.cinder_conf, PYTHONPATH=library),
            log, stack.environment(), pack_charm.ROOT)
        self.started.append(child)
        cinder = client.connect(self.run_of.cinder_url)
        for ready in (lambda: stack.api_answers(self.run_of),
                      lambda: len(cinder.pools.list()) >= 2):
            child.wait_ready(ready, SECONDS)
        return client.Watcher(cinder, log)


@functools.cache
def ubuntu_python():
    """Return the Python with Ubuntu's packages, or None and the reason."""
    try:
        return environments.of_ubuntu(), ''
    except environments.BuildError as error:
        return None, str(error)


class UbuntuTest(Chain, CharmTest):
    """With the versions of Cinder and libraries of Ubuntu 24.04."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        python, reason = ubuntu_python()
        if reason:
            raise unittest.SkipTest(reason)
        cls.prefix = str(python.parents[1])
        # Caches the bytecode of what k2-admin imports; units write none.
        subprocess.run([python, '-c', WARM_UP], check=True,
                       capture_output=True, cwd=cls.directory)

    def check_secrecy(self):
        """Check also that the charm names the release that it has found."""
        super().check_secrecy()
        cinder = table.ubuntu().versions['cinder']
        self.assertRegex(self.unit.act('check-array')['cinder'],
                         rf'^Cinder {re.escape(cinder)} \(2024\.1\) on ')


class NewestTest(Chain, CharmTest):
    """With the newest release, which doubles the time of the tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.environ.get('CHARM_NEWEST') and not ubuntu_python()[1]:
            raise unittest.SkipTest('the charm with the newest Cinder: set '
                                    'CHARM_NEWEST=1')
