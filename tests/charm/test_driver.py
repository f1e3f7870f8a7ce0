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

"""The installation of the driver on a unit of cinder."""

import io
import os
import pathlib
import re
import signal
import socket
import time
from unittest import mock
import zipfile

from ops import testing

import driver
import machine
import packages
from tests.charm import fakes

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEY = ('-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n'
       '-----END PGP PUBLIC KEY BLOCK-----')
ARCHIVE = {'driver-source': 'deb https://example.com/k2 noble main',
           'driver-key': KEY}
LIST = '/etc/apt/sources.list.d/cinder-k2.list'
APT = {'update': 'apt-get --yes -o DPkg::Lock::Timeout=120 update',
       'install': 'apt-get --yes -o DPkg::Lock::Timeout=120 --no-install-'}


def _packed(damage):
    """Return a wheel with compressed members, the first one damaged."""
    names = [f'cinder_k2-1.dist-info/{name}' for name in ('METADATA', 'WHEEL')]
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, 'x: y\n' * 9)
    data = bytearray(file.getvalue())
    begin = 30 + len(names[0])
    data[begin:begin + len(damage)] = damage
    return bytes(data)


class WheelTest(fakes.UnitCase):

    def test_it_is_installed_for_the_systems_python_without_a_network(self):
        self.run_event()
        command, = self.machine.ran('python3 -m pip install')
        for option in ('--no-index', '--no-deps', '--break-system-packages'):
            self.assertIn(f' {option} ', command)
        self.assertRegex(command, r'/cinder_k2-1\.2\.3-py3-none-any\.whl$')
        self.assertLessEqual({*packages.OF_DRIVER, 'python3-pip'},
                             self.machine.installed)

    def test_it_is_installed_once(self):
        self.again(self.run_event())
        self.assertEqual(1, len(self.machine.ran('python3 -m pip install')))

    def test_another_wheel_is_installed(self):
        state = self.run_event()
        fakes.write_wheel(self.wheel, version='1.3.0')
        self.machine.offered = '1.3.0'
        state = self.again(state, self.context.on.upgrade_charm())
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))
        self.assertEqual('1.3.0', state.workload_version)

    def test_pip_replaces_a_previous_wheel(self):
        state = self.run_event()
        fakes.write_wheel(self.wheel, version='1.3.0')
        self.again(state, self.context.on.upgrade_charm())
        first, second = self.machine.ran('python3 -m pip')
        # pip must not try to uninstall a package from apt.
        self.assertIn(' --ignore-installed ', first)
        self.assertNotIn(' --force-reinstall ', first)
        self.assertIn(' --force-reinstall ', second)
        self.assertNotIn(' --ignore-installed ', second)

    def test_a_failed_installation_leaves_the_previous_wheel(self):
        state = self.run_event()
        fakes.write_wheel(self.wheel, version='1.3.0')
        self.machine.failing['python3 -m pip install'] = machine.Failed(
            'python3 did not finish within 120 seconds')
        state = self.again(state, self.context.on.upgrade_charm())
        self.assertStatus('blocked', '^python3 did not finish within', state)
        self.assertEqual('1.2.3', self.machine.version)
        self.machine.failing.clear()
        self.machine.offered = '1.3.0'
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('active', 'k2a', state)
        self.assertEqual('1.3.0', state.workload_version)

    def test_another_wheel_restarts_the_services(self):
        before = self.run_event()
        fakes.write_wheel(self.wheel, version='1.3.0')
        after = self.again(before, self.context.on.upgrade_charm())
        self.assertNotEqual(self.sections(before), self.sections(after))

    def test_an_upgrade_of_openstack_reinstalls_it(self):
        state = self.upgrade_openstack(self.run_event())
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))
        self.again(state, self.context.on.relation_changed(
            state.get_relation(self.relation.id), remote_unit=0))
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))

    def upgrade_openstack(self, state, **changes):
        nonce = testing.SubordinateRelation(
            'storage-backend', id=self.relation.id, remote_app_name='cinder',
            local_unit_data=self.published(state),
            remote_unit_data={'upgrade_nonce': 'abc'})
        return self.again(
            state, self.context.on.relation_changed(nonce, remote_unit=0),
            relations=[nonce], **changes)

    def test_invalid_options_do_not_prevent_reinstallation(self):
        state = self.upgrade_openstack(self.run_event(), config={
            **self.config, 'reserved-percentage': 101,
            'driver-source': 'nowhere'})
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))
        self.assertStatus('blocked', '^reserved-percentage is "101"', state)

    def test_a_missing_secret_does_not_prevent_reinstallation(self):
        state = self.upgrade_openstack(self.run_event(), config={
            **self.config, 'credentials': fakes.NO_SECRET})
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))
        self.assertStatus('blocked', 'not granted', state)

    def test_all_failures_are_reported_the_driver_first(self):
        before = self.run_event()
        self.machine.failing['python3 -m pip'] = machine.Result(
            1, '', 'ERROR: disk full\n')
        after = self.upgrade_openstack(before, config={
            **self.config, 'reserved-percentage': 101})
        self.assertStatus('blocked', '^python3 failed: ERROR: disk full; '
                          'reserved-percentage is "101": ', after)
        self.assertEqual(self.published(before), self.published(after))

    def test_failed_packages_for_paths_do_not_prevent_it(self):
        self.machine.installed.update({*packages.OF_DRIVER, 'python3-pip'})
        self.machine.failing['apt-get'] = machine.Failed('apt-get is stuck')
        state = self.run_event()
        self.assertStatus('blocked', '^apt-get is stuck$', state)
        self.assertEqual('1.2.3', state.workload_version)
        self.assertEqual('k2a', self.published(state)['backend_name'])

    def test_a_failed_installation_does_not_prevent_publishing(self):
        state = self.run_event()
        fakes.write_wheel(self.wheel, version='1.3.0')
        self.machine.failing['python3 -m pip'] = machine.Failed('no disk')
        state = self.again(state, config={**self.config,
                                          'san_ip': '10.0.0.9'})
        self.assertStatus('blocked', '^no disk$', state)
        self.assertEqual('10.0.0.9', self.pairs(state)['san_ip'])

    def test_a_removed_driver_is_reinstalled(self):
        state = self.run_event()
        self.machine.version = ''
        self.again(state, self.context.on.update_status())
        self.assertEqual(2, len(self.machine.ran('python3 -m pip install')))

    def test_an_invalid_wheel_is_reported(self):
        self.wheel.write_text('text')
        self.assertStatus('blocked', 'resource driver cannot be used: it is '
                          'not a wheel; attach the wheel of cinder-k2',
                          self.run_event())
        fakes.write_wheel(self.wheel, name='requests')
        self.assertStatus('blocked', 'it is a wheel of requests',
                          self.run_event())
        self.assertEqual([], self.machine.ran('python3 -m pip'))

    def test_a_damaged_wheel_is_reported(self):
        whole = self.wheel.read_bytes()
        for name, data in (('cut off', whole[:len(whole) // 2]),
                           ('in its text', whole.replace(b'Name', b'name')),
                           ('in its packing', _packed(b'\xff' * 5))):
            with self.subTest(name):
                self.wheel.write_bytes(data)
                self.assertStatus('blocked', 'it is not a wheel; attach',
                                  self.run_event())

    def test_a_full_disk_is_reported(self):
        with mock.patch.object(machine.shutil, 'copyfile', autospec=True,
                               side_effect=OSError(28, 'No space left')):
            state = self.run_event()
        self.assertStatus('blocked', '^cinder_k2-1.2.3-py3-none-any.whl '
                          'cannot be copied: No space left$', state)
        self.assertStatus('active', 'k2a', self.again(state))

    def test_a_failure_is_reported_and_retried(self):
        self.machine.failing['python3 -m pip'] = machine.Result(
            1, '', 'ERROR: disk full\n')
        state = self.run_event()
        self.assertStatus('blocked', 'python3 failed: ERROR: disk full',
                          state)
        self.assertNotIn('backend_name', self.published(state))
        self.machine.failing.clear()
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('active', 'k2a', state)

    def test_a_failure_is_reported_until_it_is_fixed(self):
        self.machine.failing['apt-get'] = machine.Failed(
            'apt-get did not finish within 300 seconds')
        state = self.run_event()
        self.machine.failing.clear()
        self.machine.version = '1.2.3'
        state = self.again(state,
                           self.context.on.action('show-volume-types'))
        self.assertStatus('blocked', 'apt-get did not finish', state)


class SourceTest(fakes.UnitCase):

    def setUp(self):
        super().setUp()
        self.wheel.write_bytes(b'')

    def test_nothing_to_install_from(self):
        state = self.run_event()
        self.assertStatus('blocked', 'the driver is missing: attach its wheel '
                          'with juju attach-resource, or set driver-source',
                          state)

    def test_a_driver_that_is_already_installed_is_used(self):
        self.machine.version = '1.2.3'
        state = self.run_event()
        self.assertStatus('active', 'k2a', state)
        self.assertNotIn('python3-cinder-k2',
                         self.published(state)['releases-packages-map'])

    def test_an_archive_with_its_key(self):
        self.config.update({
            'driver-source': 'deb https://example.com/k2 noble main',
            'driver-key': KEY})
        state = self.run_event()
        self.assertEqual(
            '# Written by Juju for cinder-k2\n'
            'deb [signed-by=/etc/apt/keyrings/cinder-k2.asc] '
            'https://example.com/k2 noble main\n',
            self.machine.read('/etc/apt/sources.list.d/cinder-k2.list'))
        self.assertEqual(f'{KEY}\n', self.machine.read(
            '/etc/apt/keyrings/cinder-k2.asc'))
        self.assertIn('python3-cinder-k2', self.machine.installed)
        self.assertIn('python3-cinder-k2',
                      self.published(state)['releases-packages-map'])
        self.assertEqual([], self.machine.ran('python3 -m pip'))
        self.assertStatus('active', 'k2a', state)

    def test_a_password_in_the_source_stays_secret(self):
        source = 'deb https://bob:hush/1@example.com/k2 noble main'
        self.config.update({'driver-source': source, 'driver-key': KEY})
        self.machine.failing['apt-get'] = machine.Result(
            100, '', f'E: {"x" * 160} {source} is refused\n')
        state = self.run_event()
        self.assertStatus('blocked', r'apt-get failed: E: x+ deb '
                          r'https://\*\*\*@example.com', state)
        self.machine.failing.clear()
        state = self.again(state)
        self.assertStatus('active', 'k2a', state)
        self.assertNotIn('hush', str(state.stored_states))
        self.assertNotIn('hush', str(self.published(state)))
        name = '/etc/apt/sources.list.d/cinder-k2.list'
        self.assertIn('hush', self.machine.read(name))
        self.assertEqual(0o600,
                         self.machine.path(name).stat().st_mode & 0o777)

    def test_another_key_counts_as_another_driver(self):
        self.config.update({'driver-key': KEY, 'driver-source':
                            'deb https://example.com/k2 noble main'})
        before = self.run_event()
        after = self.again(before, config={
            **self.config, 'driver-key': KEY.replace('abc', 'abd')})
        self.assertIn('\nabd\n', self.machine.read(
            '/etc/apt/keyrings/cinder-k2.asc'))
        self.assertNotEqual(self.sections(before), self.sections(after))

    def test_an_archive_is_removed_when_another_source_replaces_it(self):
        archive = {'driver-key': KEY, 'driver-source':
                   'deb https://example.com/k2 noble main'}
        wheel = self.root / 'wheel'
        fakes.write_wheel(wheel)
        for changes in (
                {'config': {**self.config, 'driver-source': 'distro'}},
                {'resources': [testing.Resource(name='driver', path=wheel)]}):
            with self.subTest(changes):
                state = self.run_event(config={**self.config, **archive})
                self.again(state, **changes)
                for name in ('sources.list.d/cinder-k2.list',
                             'keyrings/cinder-k2.asc'):
                    self.assertIsNone(self.machine.read(f'/etc/apt/{name}'))

    def test_an_unusable_archive_is_removed(self):
        self.config.update(ARCHIVE)
        self.machine.failing[APT['update']] = machine.Result(
            100, '', 'E: The repository has no Release file.\n')
        state = self.run_event()
        self.assertStatus('blocked', 'no Release file', state)
        self.assertIsNone(self.machine.read(LIST))
        self.machine.failing.clear()
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('active', 'k2a', state)
        self.assertIsNotNone(self.machine.read(LIST))

    def test_an_archive_that_is_configured_again_is_added_again(self):
        archive = {**self.config, **ARCHIVE}
        state = self.again(self.run_event(config=archive), config=self.config)
        self.assertIsNone(self.machine.read(LIST))
        self.again(state, config=archive)
        self.assertIn('https://example.com/k2', self.machine.read(LIST))

    def test_an_application_leaves_the_archive_of_another_one(self):
        self.run_other(**ARCHIVE)
        for config in ({}, {'driver-source': 'distro'}):
            with self.subTest(config):
                state = self.run_event(config={**self.config, **config})
                self.assertStatus('active', 'k2a', state)
                self.assertIn('for other\n', self.machine.read(LIST))

    def test_an_archive_removed_by_another_application_is_added_again(self):
        state = self.run_event(config={**self.config, **ARCHIVE})
        self.run_other(**ARCHIVE)
        self.run_other()
        self.assertIsNone(self.machine.read(LIST))
        self.again(state, self.context.on.update_status())
        self.assertIn('for cinder-k2\n', self.machine.read(LIST))

    def test_an_installed_wheel_does_not_hide_the_package(self):
        self.config['driver-source'] = 'distro'
        self.run_event()
        self.assertEqual([], self.machine.ran('python3 -m pip uninstall'))
        self.machine.wheel.mkdir(parents=True)
        self.config['driver-source'] = 'ppa:a/b'
        self.run_event()
        command, = self.machine.ran('python3 -m pip uninstall')
        self.assertTrue(command.endswith(' cinder-k2'))

    def test_a_failed_package_leaves_the_installed_wheel(self):
        self.machine.wheel.mkdir(parents=True)
        self.machine.version = '1.0'
        self.machine.failing['apt-get'] = machine.Result(100, '', 'E: no\n')
        self.config['driver-source'] = 'distro'
        self.assertStatus('blocked', 'apt-get failed: E: no',
                          self.run_event())
        self.assertEqual('1.0', self.machine.version)

    def test_a_ppa(self):
        self.config['driver-source'] = 'ppa:somebody/k2'
        self.run_event()
        self.assertEqual(['add-apt-repository --yes ppa:somebody/k2'],
                         self.machine.ran('add-apt-repository'))
        self.assertIn('python3-cinder-k2', self.machine.installed)

    def test_the_existing_archives_of_the_machine(self):
        self.config['driver-source'] = 'distro'
        self.run_event()
        self.assertEqual([], self.machine.ran('add-apt-repository'))
        self.assertIn('python3-cinder-k2', self.machine.installed)

    def test_other_invalid_options_do_not_affect_it(self):
        self.config.update({'driver-source': 'distro', 'protocol': 'nfs'})
        self.run_event()
        self.assertIn('python3-cinder-k2', self.machine.installed)

    def test_an_invalid_source_is_not_used(self):
        self.config['driver-source'] = 'deb https://example.com/k2 noble main'
        self.assertStatus('blocked', 'driver-source needs driver-key',
                          self.run_event())
        self.assertNotIn('python3-cinder-k2', self.machine.installed)

    def test_a_changed_source_is_used(self):
        self.config['driver-source'] = 'distro'
        state = self.run_event()
        before = len(self.machine.ran('apt-get'))
        self.again(state, config={**self.config, 'driver-source': 'ppa:a/b'})
        self.assertGreater(len(self.machine.ran('apt-get')), before)


class PackagesTest(fakes.UnitCase):

    def test_apt_never_asks_and_waits_for_its_lock_with_a_limit(self):
        self.run_event()
        apt = self.machine.ran('apt-get')
        self.assertTrue(apt)
        for line in apt:
            self.assertIn(' --yes ', line)
            self.assertIn(' DPkg::Lock::Timeout=', line)

    def test_installed_packages_are_left_alone(self):
        self.again(self.run_event())
        installs = [line for line in self.machine.ran('apt-get')
                    if ' install ' in line]
        self.assertEqual(len(installs), len(set(installs)))

    def run_apt(self, **answers):
        """Return the last arguments of apt's commands, if some fail first."""
        for word, errors in answers.items():
            self.machine.failing[APT[word]] = [
                machine.Result(100, '', text) for text in errors]
        self.machine.commands.clear()
        packages.install(self.machine, ('a',))
        return [line.split()[-1] for line in self.machine.commands
                if line.startswith(('apt-get', 'dpkg '))]

    def test_lists_are_updated_only_if_needed(self):
        self.assertEqual(['a'], self.run_apt())
        self.machine.installed.clear()
        self.assertEqual(['a', 'update', 'a'], self.run_apt(
            install=['E: Unable to locate package a\n']))
        with self.assertRaisesRegex(machine.Failed, '^apt-get failed: E: b$'):
            self.machine.installed.clear()
            self.run_apt(install=['E: a\n', 'E: b\n'])

    def test_it_waits_for_the_lock_of_lists(self):
        locked = ('E: Could not get lock /var/lib/apt/lists/lock.\n'
                  'E: Unable to lock directory /var/lib/apt/lists/\n')
        self.assertEqual(['a', *['update'] * 3, 'a'], self.run_apt(
            install=['E: a\n'], update=[locked] * 2))
        self.assertEqual(10, self.machine.slept)

    def test_it_waits_for_it_with_a_limit(self):
        locked = 'E: Could not get lock /var/lib/apt/lists/lock.\n'
        with self.assertRaisesRegex(machine.Failed, 'Could not get lock'):
            self.run_apt(install=['E: a\n'], update=[locked] * 99)
        self.assertLess(0, self.machine.slept)
        self.assertLessEqual(self.machine.slept, 120)

    def test_other_failures_of_lists_are_reported_at_once(self):
        with self.assertRaisesRegex(machine.Failed, 'apt-get failed: E: why'):
            self.run_apt(install=['E: a\n'], update=['E: why\n'])
        self.assertEqual(0, self.machine.slept)

    def test_an_interrupted_installation_is_repaired_first(self):
        self.assertEqual(['a', '-a', 'a'], self.run_apt(install=[
            "E: dpkg was interrupted, you must manually run 'dpkg "
            "--configure -a' to correct the problem.\n"]))
        self.assertIn('a', self.machine.installed)

    def test_the_drivers_requirements_are_those_of_the_project(self):
        wanted = re.findall(r'^([a-z0-9.-]+)>', (
            ROOT / 'requirements.txt').read_text(), re.M)
        self.assertCountEqual([f'python3-{name}' for name in wanted],
                              packages.OF_DRIVER)


class MachineTest(fakes.UnitCase):
    """The real Machine, with programs that every system has."""

    def setUp(self):
        super().setUp()
        self.machine = machine.Machine(self.root)

    def test_the_environment_can_set_another_root(self):
        with mock.patch.dict(os.environ, {
                machine.ROOT_VARIABLE: str(self.root)}):
            self.assertEqual(self.root / 'etc/x',
                             machine.Machine().path('/etc/x'))
        self.assertEqual('/etc/x', str(machine.Machine().path('/etc/x')))

    def test_a_program_that_hangs_is_killed_with_its_children(self):
        begin = time.monotonic()
        with self.assertRaisesRegex(machine.Failed, 'sh did not finish'):
            self.machine.run('sh', '-c', 'sleep 60 & sleep 60', seconds=0.05)
        self.assertLess(time.monotonic() - begin, 50)

    def test_a_program_that_cannot_be_killed_is_not_waited_for(self):
        begin = time.monotonic()
        with mock.patch.object(machine.os, 'killpg', autospec=True) as kill, \
                mock.patch.object(machine, 'KILLED_SECONDS', 0.05), \
                self.assertRaisesRegex(machine.Failed, 'did not finish'):
            self.machine.run('sleep', '60', seconds=0.05)
        os.kill(kill.call_args.args[0], signal.SIGKILL)
        self.assertLess(time.monotonic() - begin, 50)

    def test_a_missing_program_is_reported(self):
        with self.assertRaisesRegex(machine.Failed,
                                    'no-such is not installed'):
            self.machine.run('no-such', seconds=1)

    def test_a_program_that_cannot_be_run_is_reported(self):
        self.machine.write('/program', 'text')
        path = str(self.machine.path('/program'))
        with self.assertRaisesRegex(machine.Failed,
                                    'cannot be run: Permission denied'):
            self.machine.run(path, seconds=1)

    def test_a_file_that_cannot_be_removed_is_reported(self):
        self.machine.write('/x', 'text')
        with self.assertRaisesRegex(machine.Failed,
                                    '^/x/y cannot be removed: Not a dir'):
            self.machine.remove('/x/y')

    def test_a_failed_program_is_reported_with_its_last_line(self):
        with self.assertRaisesRegex(machine.Failed, '^sh failed: why$'):
            self.machine.must('sh', '-c', 'echo no; echo why >&2; exit 3',
                              seconds=9)

    def test_no_failure_shows_a_password_in_a_url(self):
        self.assertEqual('no https://***@h/x', str(machine.Failed(
            'no https://u:p@ss/w@h/x')))
        self.assertEqual('no https://h/x', str(machine.Failed(
            'no https://h/x')))
        self.assertEqual('http://***@h',
                         machine.Result(1, 'http://u:hush@h').reason)

    def test_programs_do_not_see_the_python_of_the_charm(self):
        with mock.patch.dict(os.environ, {'PYTHONPATH': '/charm/venv'}):
            self.assertEqual('none\n', self.machine.must(
                'sh', '-c', 'echo ${PYTHONPATH:-none}', seconds=9))

    def test_a_file_is_written_as_a_whole_or_not_at_all(self):
        self.machine.write('/etc/x', 'one', mode=0o640)
        self.assertEqual(0o640, (self.root / 'etc/x').stat().st_mode & 0o777)
        with self.assertRaises(machine.Failed):
            self.machine.write('/etc/x/y', 'two')
        self.assertEqual('one', self.machine.read('/etc/x'))
        self.assertEqual(['x'], [path.name for path in
                                 (self.root / 'etc').iterdir()])
        self.machine.remove('/etc/x')
        self.assertIsNone(self.machine.read('/etc/x'))

    def test_whether_a_port_answers(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
            self.assertTrue(self.machine.connects('127.0.0.1', port, 5))
        self.assertFalse(self.machine.connects('127.0.0.1', port, 5))

    def test_an_invalid_address_does_not_answer(self):
        for host, port in (('a' * 64, 3260), ('.', 3260),
                           ('127.0.0.1', 99999), ('a\0b', 3260)):
            with self.subTest(host, port=port):
                self.assertFalse(self.machine.connects(host, port, 5))


class VersionTest(fakes.UnitCase):

    def test_it_asks_the_python_that_runs_it(self):
        found = driver.version(machine.Machine(self.root))
        self.assertTrue(found == '' or re.match(r'\d', found), found)
