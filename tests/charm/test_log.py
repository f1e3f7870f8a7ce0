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


"""The messages in juju debug-log: what was done, and why."""

import ddt
from ops import testing

import machine
from tests.charm import fakes


@ddt.ddt
class LogTest(fakes.UnitCase):

    def said(self, *levels):
        """Return the messages of these levels, and clear the log."""
        log = self.context.juju_log
        texts = [line.message for line in log
                 if line.level in (levels or ('INFO', 'WARNING', 'ERROR'))]
        log.clear()
        self.assertNoSecret(' '.join(texts))
        return texts

    def assertSaid(self, pattern, *levels):
        self.assertRegex('\n'.join(self.said(*levels)), pattern)

    def test_first_configuration(self):
        self.run_event()
        said = self.said()
        for part in ('installing missing packages: open-iscsi multipath-tools',
                     'writing /etc/multipath/conf.d/cinder-k2.conf and',
                     'the driver must be installed: it is missing',
                     'installing cinder_k2-1.2.3-py3-none-any.whl',
                     f'of {fakes.SECRETS}: logins, certificates or',
                     'publishing changes to cinder: backend_name; '):
            self.assertTrue(any(part in text for text in said), part)

    def test_no_message_without_changes(self):
        state = self.run_event()
        self.said()
        self.again(state, self.context.on.update_status())
        self.assertEqual([], self.said())

    def test_names_of_published_changes(self):
        self.config['backend_name'] = 'k2a,k2b'
        state = self.run_event()
        self.said()
        self.again(state, config={
            **self.config, 'reserved-percentage': 7, 'stateless': True,
            'allow-removal': True, 'backend_name': 'k2a'})
        self.assertSaid('publishing changes to cinder: backend_name; '
                        r'stateless; \[k2a\] cinder-k2 secrets, '
                        r'reserved_percentage; \[k2b\] .*san_ip')

    def test_a_rotated_secret(self):
        state = self.run_event()
        self.said()
        secret = testing.Secret(
            {'username': 'openstack', 'password': fakes.PASSWORD},
            latest_content={'username': 'openstack', 'password': 'hush'},
            id=self.secret.id)
        self.again(state, self.context.on.secret_changed(secret),
                   secrets=[secret])
        self.assertSaid('^writing revision .*\npublishing changes to cinder: '
                        r'\[k2a\] cinder-k2 secrets$')

    def test_reason_for_installing_a_driver(self):
        state = self.run_event()
        self.said()
        fakes.write_wheel(self.wheel, version='1.3.0')
        self.again(state, self.context.on.upgrade_charm())
        self.assertSaid('^the driver must be installed: the wheel, .* '
                        'has changed\ninstalling cinder_k2-1.3.0-py3')

    def test_source_of_a_package_without_its_password(self):
        self.wheel.write_bytes(b'')
        self.config.update({
            'driver-source': 'deb https://me:hush/1@example.com/k2 noble main',
            'driver-key': '-----BEGIN PGP PUBLIC KEY BLOCK-----\n'
                          '-----END PGP PUBLIC KEY BLOCK-----'})
        state = self.run_event()
        self.assertSaid('installing python3-cinder-k2 from deb '
                        r'https://\*\*\*@example.com/k2 noble main')
        self.again(state, config={**self.config, 'driver-source': ''})
        self.assertSaid('removing the archive of the driver')

    def test_uninstalling_a_wheel(self):
        self.wheel.write_bytes(b'')
        self.config['driver-source'] = 'distro'
        self.machine.wheel.mkdir(parents=True)
        self.run_event()
        self.assertSaid('uninstalling the wheel of the driver')

    def test_reason_for_doing_nothing(self):
        self.config['protocol'] = 'nfs'
        self.run_event()
        self.assertEqual(
            [f'did not {what}: protocol is "nfs": use iscsi or fc'
             for what in ('set up paths', 'publish to cinder')],
            self.said('WARNING'))

    @ddt.data('python3 -m pip', 'apt-get')
    def test_output_of_a_failed_program(self, program):
        self.machine.failing[program] = machine.Result(
            3, 'one\n', 'at https://me:hush@example.com/\nlast\n')
        self.run_event()
        name = program.split()[0]
        self.assertSaid(
            rf'{name} ended with status 3: one\nat https://\*\*\*@example.com/'
            rf'\nlast\n(.*\n)*could not .*: {name} failed: last', 'ERROR')

    def test_waiting_for_apt_and_repairs(self):
        self.machine.failing['apt-get --yes -o DPkg::Lock::Timeout=120 up'] = [
            machine.Result(100, '', 'E: Could not get lock /var/lib\n')]
        self.machine.failing['apt-get --yes -o DPkg::Lock::Timeout=120 --'] = [
            machine.Result(100, '', 'E: dpkg was interrupted, you must\n'),
            machine.Result(100, '', 'E: no such package\n')]
        self.run_event()
        self.assertSaid('^installing missing packages: .*\n'
                        'repairing an interrupted dpkg\n'
                        'waiting for the lock of the package lists\n')

    def test_problems_of_arrays(self):
        self.machine.backends = [fakes.backend(problems=[
            fakes.finding('unreachable', 'no way to it')])]
        self.run_event()
        self.assertEqual(['k2a: no way to it'], self.said('WARNING'))

    def test_end_of_the_relation(self):
        state = self.run_event()
        self.said()
        self.again(state, self.context.on.relation_broken(
            state.get_relation(self.relation.id)))
        self.assertSaid(f'^removing {fakes.SECRETS} and /etc/cinder/cinder-k2'
                        ': the relation to cinder has ended$')
