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

"""The status messages of a unit, which say what to do."""

import ddt
from ops import testing

import machine
import status
from tests.charm import CHARM
from tests.charm import fakes

HOST_FILES = CHARM.parent / 'cinder_k2' / 'host_files'
DEFAULTS = '/etc/multipath/conf.d/cinder-k2-defaults.conf'


@ddt.ddt
class StatusTest(fakes.UnitCase):

    def test_all_is_well(self):
        state = self.run_event()
        self.assertStatus('active', '^k2a: VisionOS 6.5, 12.3 TiB free, '
                          '8 portals$', state)
        self.assertEqual('1.2.3', state.workload_version)

    def test_each_back_end_is_reported(self):
        self.config['backend_name'] = 'k2a,k2b'
        self.machine.backends = [fakes.backend('k2a'), fakes.backend('k2b')]
        self.assertStatus('active', '^k2a: .* portals; k2b: .* portals$',
                          self.run_event())

    @ddt.data('configuration', 'unreachable', 'role', 'version', 'full',
              'ports', 'peer')
    def test_problems_that_need_an_operator_block(self, kind):
        self.machine.backends = [fakes.backend(problems=[
            fakes.finding(kind, 'do this')])]
        self.assertStatus('blocked', '^k2a: do this$', self.run_event())

    @ddt.data(('certificate', 'tls-ca or tls-fingerprint'),
              ('credentials', 'credentials'))
    @ddt.unpack
    def test_problems_name_the_option_of_the_charm(self, kind, option):
        self.machine.backends = [fakes.backend(problems=[
            fakes.finding(kind, 'do this')])]
        self.assertStatus('blocked', rf'^k2a: do this \[charm: {option}\]$',
                          self.run_event())

    @ddt.data('state', 'error')
    def test_transient_problems_wait(self, kind):
        self.machine.backends = [fakes.backend(problems=[
            fakes.finding(kind, 'wait for this')])]
        self.assertStatus('waiting', '^k2a: wait for this$', self.run_event())

    def test_transient_problems_come_last(self):
        self.machine.backends = [
            fakes.backend('k2a', problems=[fakes.finding('state', 'later')]),
            fakes.backend('k2b', problems=[fakes.finding('role', 'now')])]
        self.assertStatus('blocked', '^k2b: now; k2a: later$',
                          self.run_event())

    def test_warnings_follow_the_status_of_working_back_ends(self):
        self.config.update({'tls-verify': False})
        self.machine.backends = [fakes.backend(
            warnings=[fakes.finding('ports', 'one port is down')])]
        self.assertStatus(
            'active', '8 portals; k2a: one port is down; k2a: the certificate '
            'is not verified; set tls-ca', self.run_event())

    def test_problems_of_replication_targets_block(self):
        self.machine.backends = [fakes.backend(targets=[fakes.target(
            problems=[fakes.finding('peer', 'make it a peer')])])]
        self.assertStatus('blocked', '^k2a: replication to dr: make it a peer',
                          self.run_event())
        self.machine.backends = [fakes.backend(targets=[fakes.target(
            problems=[fakes.finding('credentials', 'no')])])]
        self.assertStatus('blocked', r'no \[charm: replication-credentials\]',
                          self.run_event())

    def test_ports_that_are_down_are_not_counted(self):
        port = {'name': 'fc1', 'address': '5001', 'target': ''}
        self.machine.backends = [fakes.backend(
            protocol='FC', ports=[{**port, 'up': True}, {**port, 'up': False}],
            warnings=[fakes.finding('certificate', 'is not verified')])]
        self.assertStatus('active', ', 1 port$', self.run_event())

    def test_an_array_that_reports_little(self):
        self.machine.backends = [fakes.backend(
            array=None, capacity=None, ports=[], protocol=None)]
        self.assertStatus('active', '^k2a: 0 ports$', self.run_event())

    def test_an_old_password_option_works_with_a_warning(self):
        del self.config['credentials']
        self.config.update(san_user='me', san_password='hush$')
        state = self.run_event()
        self.assertStatus('active', 'use a secret in credentials instead',
                          state)
        self.assertNoSecret(str(self.published(state)))
        self.assertIn('san_login = me\nsan_password = hush\\$\n',
                      self.machine.read(fakes.SECRETS))

    def test_a_secret_overrides_an_old_password_option(self):
        self.config.update(san_user='me', san_password='hush')
        self.run_event()
        self.assertNoSecret(self.machine.read(fakes.SECRETS).replace(
            'pa\\$word', ''))

    def test_all_errors_at_once(self):
        self.config.update({'protocol': 'nfs', 'reserved-percentage': 101})
        self.assertStatus('blocked', 'protocol is "nfs": use iscsi or fc; '
                          'reserved-percentage is "101": use 0 to 100',
                          self.run_event())

    def test_many_errors_are_counted(self):
        self.config['backends'] = '\n'.join(
            f'b{number}: {{san_ip: "http://{number}"}}'
            for number in range(9))
        state = self.run_event()
        self.assertStatus('blocked', r'\(and \d more\)$', state)
        self.assertLess(len(state.unit_status.message), 300)

    def test_a_secret_that_is_not_granted(self):
        self.config['credentials'] = fakes.NO_SECRET
        self.assertStatus(
            'blocked', f'credentials: {fakes.NO_SECRET} does not exist or is '
            f'not granted; run: juju grant-secret {fakes.NO_SECRET} '
            'cinder-k2, then wait for the next update-status, up to five '
            'minutes$',
            self.run_event())

    def test_a_secret_without_its_keys(self):
        self.secret = testing.Secret({'user': 'me', 'password': 'hush'},
                                     id=self.secret.id)
        self.assertStatus('blocked', 'has no username; run: juju '
                          'update-secret', self.run_event())

    @ddt.data(('hush\nhush', 'me', 'password: line breaks'),
              ('hush', 'm:e', 'the username has a colon'))
    @ddt.unpack
    def test_a_secret_that_cannot_be_stored(self, password, user, expected):
        self.secret = self.new_secret(password, user, id=self.secret.id)
        self.assertStatus('blocked', expected, self.run_event())

    def test_two_secrets_for_one_option(self):
        others = [self.new_secret(f'hush,{number}') for number in range(2)]
        self.config['replication-devices'] = '\n'.join(
            f'- {{backend-id: t{number}, san-ip: 10.9.0.{number}, '
            f'credentials: "{secret.id}"}}'
            for number, secret in enumerate(others))
        self.assertStatus(
            'blocked', 'k2a: the passwords of two arrays', self.run_event(
                secrets=[self.secret, *others]))

    def test_without_a_relation(self):
        self.assertStatus('waiting', 'juju integrate cinder-k2:storage-',
                          self.run_event(relations=[]))

    def test_before_cinder_has_joined(self):
        self.relation = testing.SubordinateRelation(
            'storage-backend', remote_app_name='cinder')
        with self.context(self.context.on.config_changed(),
                          self.state()) as manager:
            for relation in manager.charm.model.relations['storage-backend']:
                relation.units.clear()
            state = manager.run()
        self.assertStatus('waiting', 'waiting for cinder', state)

    def test_sizes(self):
        for kib, expected in ((0, '0.0 KiB'), (1024, '1.0 MiB'),
                              (12.3 * 1024 ** 3, '12.3 TiB'),
                              (2048 * 1024 ** 4, '2048.0 PiB')):
            self.assertEqual(expected, status.size(kib))


class CheckTest(fakes.UnitCase):

    def test_it_reads_the_options_from_a_file_for_root_only(self):
        self.config['backend_name'] = 'k2a,k2b'
        self.run_event()
        self.assertIn('[DEFAULT]\nenabled_backends = k2a,k2b\n',
                      self.machine.checked)
        for line in ('[k2b]\n', 'san_ip = 10.0.0.5\n',
                     'san_password = pa\\$word,"\n'):
            self.assertIn(line, self.machine.checked)
        self.assertEqual(0o600, self.machine.mode)
        self.assertEqual([], [path for path in (
            self.root / 'root/run/cinder-k2').rglob('*') if path.is_file()])

    def test_it_runs_once_for_each_event(self):
        self.run_event()
        self.assertEqual(1, len(self.machine.ran('k2-admin check')))

    def test_it_does_not_run_while_options_are_invalid(self):
        self.config['protocol'] = 'nfs'
        self.run_event()
        self.assertEqual([], self.machine.ran('k2-admin check'))

    def fails(self, answer, pattern):
        self.machine.failing['k2-admin check'] = answer
        self.assertStatus('blocked', pattern, self.run_event())

    def test_a_check_that_hangs_is_reported(self):
        self.fails(machine.Failed('k2-admin did not finish within 35 seconds'),
                   'could not be checked: k2-admin did not finish within 35')
        self.assertFalse(list(self.root.glob('root/run/**/check.conf')))

    def test_an_old_driver_without_the_check_is_reported(self):
        self.fails(machine.Result(2, '', 'usage: ...'),
                   'the driver is too old')

    def test_a_failed_check_is_reported_with_its_last_line(self):
        self.fails(machine.Result(1, 'no json', 'Traceback\nOops: why\n'),
                   'k2-admin check failed: Oops: why')


class ComputeTest(fakes.UnitCase):

    def setUp(self):
        super().setUp()
        self.relation = testing.SubordinateRelation(
            'juju-info', remote_app_name='nova-compute')

    def test_only_what_volumes_need_is_installed(self):
        state = self.run_event(
            self.context.on.relation_created(self.relation))
        self.assertStatus('active', 'this machine can reach volumes', state)
        self.assertEqual({'open-iscsi', 'multipath-tools'},
                         self.machine.installed)
        self.assertIsNone(self.machine.read(fakes.SECRETS))
        self.assertEqual([], self.machine.ran('k2-admin'))
        self.assertEqual([], self.machine.ran('python3 -m pip'))

    def test_fibre_channel(self):
        self.config['protocol'] = 'fc'
        self.run_event()
        self.assertEqual({'sysfsutils', 'sg3-utils', 'multipath-tools'},
                         self.machine.installed)

    def test_multipath_is_set_up_once(self):
        state = self.run_event()
        self.again(state)
        self.assertEqual(
            (HOST_FILES / 'multipath.conf').read_text(),
            self.machine.read('/etc/multipath/conf.d/cinder-k2.conf'))
        self.assertRegex(self.machine.read(DEFAULTS), 'find_multipaths yes')
        self.assertEqual(1, len(self.machine.ran('systemctl')))

    def test_find_multipaths_of_the_site(self):
        """A setting in another file has precedence, even if added later."""
        state = self.run_event()
        self.machine.write('/etc/multipath.conf',
                           'defaults {\n\tfind_multipaths greedy\n}\n')
        self.again(state)
        self.assertIsNone(self.machine.read(DEFAULTS))
        self.assertEqual(2, len(self.machine.ran('systemctl')))

    def test_no_path_retry(self):
        self.config['no-path-retry'] = '24'
        self.run_event()
        devices = self.machine.read('/etc/multipath/conf.d/cinder-k2.conf')
        self.assertEqual(4, devices.count('no_path_retry "24"'))
        self.assertNotIn('no_path_retry "fail"\n', devices)

    def test_no_path_retry_that_multipath_does_not_know(self):
        self.config['no-path-retry'] = 'never'
        self.assertStatus('blocked', 'no-path-retry is "never": use fail, '
                          'queue, or a number', self.run_event())

    def test_udev_rule(self):
        self.config['is_multipath_enabled'] = False
        self.again(self.run_event())
        self.assertEqual(
            (HOST_FILES / '98-cinder-k2.rules').read_text(),
            self.machine.read('/etc/udev/rules.d/98-cinder-k2.rules'))
        self.assertEqual(1, len(self.machine.ran('udevadm')))

    def test_iscsi_sessions(self):
        """Only if they are set, because they apply to all targets."""
        file = '/etc/iscsi/iscsid.conf'
        self.machine.write(file, 'a = 1\nnode.session.nr_sessions = 1\n')
        state = self.run_event()
        self.assertIn('nr_sessions = 1\n', self.machine.read(file))
        self.again(state, config={**self.config, 'iscsi-sessions': 6})
        self.assertEqual('a = 1\nnode.session.nr_sessions = 6\n',
                         self.machine.read(file))
        self.machine.remove(file)
        self.again(state, config={**self.config, 'iscsi-sessions': 2})
        self.assertEqual('node.session.nr_sessions = 2\n',
                         self.machine.read(file))

    def test_multipath_of_one_back_end_only(self):
        self.config.update(is_multipath_enabled=False, backends=(
            'k2b: {is_multipath_enabled: true, protocol: fc}'))
        self.run_event()
        self.assertEqual({'open-iscsi', 'sysfsutils', 'sg3-utils',
                          'multipath-tools'}, self.machine.installed)

    def test_no_multipath(self):
        self.config['is_multipath_enabled'] = False
        self.run_event()
        self.assertEqual({'open-iscsi'}, self.machine.installed)
        self.assertEqual([], self.machine.ran('systemctl'))
