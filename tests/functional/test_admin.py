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

"""k2-admin as an operator uses it, on simulated arrays."""

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any
from unittest import mock

from cinder import coordination
from cinder import version
import fixtures
from oslo_config import cfg

from cinder_k2.cmd import admin
from cinder_k2.driver import config
from cinder_k2.driver import locks
from cinder_k2.probe import tokens
from cinder_k2 import rest
from cinder_k2.rest import raw
from tests import arrays
from tests.functional import backend
from tests.functional import base


class AdminTest(base.FunctionalTest):
    """Runs the command in this process, with the cinder.conf of the tests."""

    # Deferred deletions take more calls.
    keeps_budgets = False
    profile = 'sdp'

    def setUp(self) -> None:
        super().setUp()
        cinder = self.backend.cinder
        self.config = os.path.join(cinder.state, f'{cinder.host}.conf')
        self.more = os.path.join(cinder.state, 'more.conf')
        self.enable(self.backend.name)
        self.addCleanup(cfg.CONF, ['--config-file', self.config],
                        project='cinder', version=version.version_string())

    def enable(self, *names: str, **sections: Any) -> None:
        """Enable back ends.

        :param sections: options of additional sections, by name
        """
        lines = ['[DEFAULT]', f'enabled_backends = {",".join(names)}']
        for name, options in sections.items():
            lines += [f'[{name}]', *(f'{k} = {v}' for k, v in
                                     options.items())]
        with open(self.more, 'w', encoding='utf-8') as stream:
            stream.write('\n'.join(lines))

    def only(self, **options: Any) -> None:
        """Enable one back end on the array, with these options."""
        self.enable(self.new_backend('iscsi', **options).name)

    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        """Run k2-admin; return exit status, output and errors."""
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), \
                contextlib.redirect_stderr(error):
            status = admin.main([
                *arguments, '--config-file', self.config, '--config-file',
                self.more])
        for secret in arrays.SECRETS:
            self.assertNotIn(secret, output.getvalue() + error.getvalue())
        return status, output.getvalue(), error.getvalue()

    def reports(self, *arguments: str) -> Any:
        """Run k2-admin, which must succeed; return its reports."""
        status, output, error = self.run_main(*arguments, '--json')
        self.assertEqual((0, ''), (status, error))
        return json.loads(output)['arrays']

    def refused(self, text: str, *arguments: str) -> str:
        """Check that it fails with a one-line error; return the output."""
        status, output, error = self.run_main(*arguments)
        self.assertEqual(1, status)
        self.assertRegex(error, r'\Ak2-admin: error: [^\n]+\n\Z')
        self.assertIn(text, error)
        return output


class HiddenTest(AdminTest):

    def test_nothing(self) -> None:
        self.backend.create_snapshot(self.backend.create_volume(1))
        self.assertEqual((0, (
            f'Array {self.array.address}:{self.array.port}, back ends: '
            f'{self.backend.name}\n  no deferred deletions\n'), ''),
            self.run_main('deferred'))

    def test_clones_of_what_is_deleted(self) -> None:
        """A volume, its clone, and a snapshot with a view."""
        volume = self.backend.create_volume(2)
        self.backend.clone(volume)
        other = self.backend.create_volume(1)
        snapshot = self.backend.create_snapshot(other)
        view = self.backend.volume_from_snapshot(
            snapshot, kaminario__clone_strategy='view')
        self.backend.delete_volume(volume)
        self.backend.delete_snapshot(snapshot)
        report, = self.reports('deferred')
        self.assertEqual(
            {'volumes': 1, 'snapshots': 1, 'groups': 2,
             'volumes_size': 2 << 20, 'backends': [self.backend.name]},
            {key: report[key] for key in (
                'volumes', 'snapshots', 'groups', 'volumes_size',
                'backends')})
        found = {item['name']: item for item in report['deferred']}
        self.assertEqual([f'cv-{view.id}'],
                         found[f'cs-{snapshot.id}']['needed_by'])
        kept = next(i for i in report['deferred'] if i['kind'] == 'volume')
        self.assertEqual(
            (f'cdel-{kept["id"]}', f'cvg-{volume.id}', 2 << 20),
            (kept['name'], kept['group'], kept['size']))
        # The hidden snapshot of the clone.
        needed_by, = kept['needed_by']
        _, text, _ = self.run_main('deferred')
        self.assertIn('deferred deletions: 1 volumes (2 GiB), 1 snapshots and '
                      'views, in 2 volume groups', text)
        self.assertRegex(text, rf'volume +{kept["id"]} +cdel-{kept["id"]} '
                         rf'+2 +cvg-{volume.id} +{needed_by}\n')

    def test_back_ends_on_one_array_are_one(self) -> None:
        other = self.own('fc')
        self.enable(self.backend.name, other.name)
        volume = self.backend.create_volume(1)
        self.backend.clone(volume)
        self.backend.delete_volume(volume)
        report, = self.reports('deferred')
        self.assertEqual([other.name], report['backends'][:1])

    def test_replication_targets_are_looked_at_too(self) -> None:
        """After a failover, targets have deferred deletions, too."""
        first, second = arrays.pair('sdp')
        device = (f'backend_id:dr,san_ip:{second.address},'
                  f'port:{second.port},login:{arrays.LOGIN}')
        own = self.own('iscsi', san_ip=first.address,
                       san_api_port=first.port, replication_device=device,
                       k2_replication_password=arrays.PASSWORD)
        self.enable(own.name)
        self.assertEqual(
            [[own.name], [f'{own.name}/dr']],
            [report['backends'] for report in self.reports('deferred')])

    def test_chosen_back_ends(self) -> None:
        self.use(self.protocol, 'k2')
        self.enable('lvm', *(b.name for b in self._used),
                    lvm={'volume_driver': 'cinder.volume.drivers.lvm.X'})
        self.assertEqual(2, len(self.reports('deferred')))
        report, = self.reports('deferred', '--backend', self.backend.name)
        self.assertEqual([self.backend.name], report['backends'])
        self.refused('lvm is no enabled back end of cinder-k2; those are: '
                     f'{self._used[0].name}, {self.backend.name}', 'deferred',
                     '--backend', 'lvm')

    def test_what_can_be_done_is_done(self) -> None:
        """An array that is unreachable does not affect the others."""
        self.enable(self.backend.name, 'gone', gone={
            'volume_driver': backend.DRIVERS['iscsi'], 'san_login': 'x',
            'san_password': 'y', 'san_ip': self.array.address,
            'san_api_port': 9, 'driver_ssl_cert_verify': True,
            'k2_connect_timeout': 0.2, 'k2_read_timeout': 0.2})
        output = self.refused('gone: K2 array 127.0.0.1:9: GET /system/state:'
                              ' Connection refused', 'deferred')
        self.assertIn('no deferred deletions', output)

    def test_a_password_that_is_wrong(self) -> None:
        mine = self.new_backend('iscsi', san_password='wrong')
        self.enable(mine.name)
        self.refused('check san_login and san_password', 'deferred')

    def test_no_back_end(self) -> None:
        self.enable('lvm', lvm={
            'volume_driver': 'cinder.volume.drivers.lvm.LVMVolumeDriver'})
        self.refused('no enabled back end in cinder.conf has a '
                     'volume_driver of cinder-k2', 'deferred')

    def test_back_end_that_is_not_enabled(self) -> None:
        self.enable('lvm', lvm={
            'volume_driver': 'cinder.volume.drivers.lvm.LVMVolumeDriver'},
            spare={'volume_driver': backend.DRIVERS['iscsi']})
        self.refused('spare to enabled_backends in [DEFAULT]', 'deferred')

    def test_options_that_cannot_be_used(self) -> None:
        driver = backend.DRIVERS['iscsi']
        for section, text in (
                ({}, 'Set san_ip, san_password in section [bad]'),
                ({'san_password': f'a${arrays.PASSWORD}'},
                 'san_password in cinder.conf cannot be read'),
                ({'k2_read_timeout': 'x'}, 'k2_read_timeout in cinder.conf'),
                ({'replication_device': f'no,{arrays.PASSWORD}'},
                 'replication_device in cinder.conf cannot be read'),
                ({'replication_device': 'san_ip:192.0.2.1',
                  'san_ip': '192.0.2.2', 'san_password': 'x',
                  'san_login': 'x', 'driver_ssl_cert_verify': True},
                 'backend_id'),
                ({'volume_driver': 'cinder_k2.driver.Nothing'},
                 'there is no volume_driver cinder_k2.driver.Nothing')):
            self.enable('bad', bad={'volume_driver': driver, **section})
            self.refused(text, 'deferred')

    def test_a_file_that_cannot_be_read(self) -> None:
        with open(self.more, 'w', encoding='utf-8') as stream:
            stream.write(f'[bad]\nsan_password {arrays.PASSWORD}\n')
        self.refused(f'{self.more} cannot be read: there is a mistake in '
                     'line 2', 'deferred')
        os.remove(self.more)
        self.refused(self.more, 'deferred')


class ReclaimTest(AdminTest):

    def leave_something(self) -> tuple[Any, str]:
        """Let the array refuse a purge.

        :returns: the id of the source's group, and its name when deleted
        """
        volume = self.backend.create_volume(1)
        clone = self.backend.clone(volume)
        self.backend.delete_volume(volume)
        self.fault('status', 'DELETE', 'snapshots/*', status=400, times=99)
        self.backend.delete_volume(clone)
        self.array.control.clear_faults()
        group, = self.admin.list('volume_groups', name=f'cvg-{volume.id}')
        return group['id'], f'cdel-{json.loads(volume.provider_id)["volume"]}'

    def test_what_a_refusal_left_behind(self) -> None:
        _, name = self.leave_something()
        report, = self.reports('deferred')
        self.assertEqual(2, len(report['deferred']))
        self.assertEqual([], next(
            item['needed_by'] for item in report['deferred']
            if item['kind'] == 'snapshot'))
        status, text, error = self.run_main('purge')
        self.assertEqual((0, ''), (status, error))
        self.assertIn('2 purged', text)
        self.assertIn(name, text)
        self.assertTrue(text.endswith('no deferred deletions\n'), text)
        self.assertNothingLeft()
        report, = self.reports('purge')
        self.assertEqual(([], []), (report['purged'], report['deferred']))

    def test_former_names(self) -> None:
        """The former commands print the former keys, for scripts."""
        self.leave_something()
        for former, keys in (('hidden', {'hidden'}),
                             ('reclaim', {'hidden', 'reclaimed'})):
            status, output, error = self.run_main(former, '--json')
            report, = json.loads(output)['arrays']
            self.assertEqual((0, keys), (status, keys & report.keys()))
            self.assertNotIn('deferred', report)
            self.assertIn('is deprecated', error)

    def test_what_is_needed_stays(self) -> None:
        volume = self.backend.create_volume(1)
        clone = self.backend.clone(volume)
        self.backend.delete_volume(volume)
        report, = self.reports('purge')
        self.assertEqual(([], 1), (report['purged'],
                                   len(report['deferred'])))
        self.backend.detach(self.backend.attach(clone, self.host()))

    def test_a_group_that_is_busy(self) -> None:
        """The group is locked by an operation: others are purged."""
        group, _ = self.leave_something()
        self.leave_something()
        name = locks._group_name(self.backend.side.array.system.id, group)
        with mock.patch.object(locks, 'LOCK_TIMEOUT', 0.2), \
                coordination.COORDINATOR.get_lock(name):
            output = self.refused(f'volume group {group}: Waited', 'purge')
        self.assertIn('2 purged', output)
        self.assertEqual(2, len(self.reports('purge')[0]['purged']))


class CheckTest(AdminTest):
    """k2-admin check, on usable and unusable arrays."""

    def check(self, *arguments: str) -> Any:
        """Run the check; return whether it succeeded, and the reports."""
        status, output, error = self.run_main(
            'check', '--json', '--timeout', '20', *arguments)
        self.assertEqual('', error)
        return status == 0, json.loads(output)['backends']

    def problem(self, kind: str, text: str, *arguments: str) -> Any:
        """Check that one report has only this problem; return the report."""
        fine, (report,) = self.check(*arguments)
        self.assertFalse(fine)
        problem, = report['problems']
        self.assertEqual(kind, problem['kind'])
        self.assertIn(text, problem['text'])
        return report

    def test_all_is_well(self) -> None:
        self.backend.create_volume(1)
        self.array.control.clear_journal()
        fine, (report,) = self.check()
        self.assertTrue(fine)
        calls = self.array.control.journal()
        self.assertEqual({'GET'}, {entry.method for entry in calls})
        self.assertLessEqual(len(calls), 12)
        self.assertEqual({
            'backend': self.backend.name, 'protocol': 'iSCSI',
            'address': f'{self.array.address}:{self.array.port}',
            'problems': [], 'warnings': [], 'targets': [],
            'user': {'login': arrays.LOGIN, 'role': arrays.ROLE}},
            {key: report[key] for key in report
             if key not in ('array', 'capacity', 'ports')})
        self.assertEqual(('ONLINE', 'sim-sdp'), (report['array']['state'],
                                                 report['array']['name']))
        self.assertEqual(1 << 20, report['capacity']['provisioned'])
        state = self.admin.call('GET', 'system/state')['hits'][0]
        portals = [ip['ip_address'] for ip in self.admin.list(
            'system/net_ips') if not ip['wan_port']]
        self.assertEqual(
            [{'name': None, 'address': f'{address}:3260', 'up': None,
              'target': state['iscsi_qualified_target_name']}
             for address in portals], report['ports'])

    def test_as_text(self) -> None:
        status, text, error = self.run_main('check')
        self.assertEqual((0, ''), (status, error))
        self.assertRegex(text, rf'(?s)\ABack end {self.backend.name}, iSCSI\n'
                         r'  array +127.0.0.1:\d+, sim-sdp, version [^\n]+, '
                         r'REST API 2[^\n]+, ONLINE, role mgmt-app\n'
                         r'  capacity +[0-9.]+ of [0-9.]+ TiB free\n'
                         r'  ports +[^\n]+:3260\n\Z')

    def test_problems_as_text(self) -> None:
        self.only(san_password='wrong')
        status, text, error = self.run_main('check')
        self.assertEqual((1, ''), (status, error))
        self.assertIn('  problem   K2 array', text)
        self.assertIn('check san_login and san_password', text)

    def test_fibre_channel(self) -> None:
        self.use('fc', 'sdp')
        self.enable(self.backend.name)
        port, *others = self.admin.list('system/fc_ports')
        ref = f'/system/fc_ports/{port["id"]}'
        self.array.control.set_port(ref, False)
        self.addCleanup(self.array.control.set_port, ref, True)
        fine, (report,) = self.check()
        self.assertTrue(fine)
        self.assertEqual('FC', report['protocol'])
        self.assertEqual(
            [(port['pwwn'], False), *((o['pwwn'], True) for o in others)],
            [(found['address'], found['up']) for found in report['ports']])
        warning, = report['warnings']
        self.assertEqual('ports', warning['kind'])
        self.assertIn(f'not ok: {port["pwwn"]} (down).', warning['text'])

    def test_what_keeps_the_driver_out(self) -> None:
        for kind, text, options in (
                ('credentials', 'check san_login and san_password',
                 {'san_password': 'wrong'}),
                ('certificate', 'certificate',
                 {'driver_ssl_cert_path': None}),
                ('unreachable', 'Connection refused', {'san_api_port': 9})):
            self.only(**options)
            report = self.problem(kind, text)
            self.assertEqual((None, None, None, []), (
                report['array'], report['user'], report['capacity'],
                report['ports']))

    def test_no_connection_is_reported_soon(self) -> None:
        """Refused connections and unknown names fail within 4 seconds."""
        for options in ({'san_api_port': 9}, {'san_ip': 'k2.invalid'}):
            self.only(**options)
            before = self.clock.slept
            self.problem('unreachable', '')
            self.assertLess(self.clock.slept - before, 4)

    def test_who_may_only_read(self) -> None:
        self.only(san_login=arrays.VIEWER.login,
                  san_password=arrays.VIEWER.password)
        self.problem('role', 'gives viewer the role read-only, which may '
                     'change nothing; the driver needs mgmt-app or admin')

    def test_certificates_that_nobody_verifies(self) -> None:
        self.only(driver_ssl_cert_verify=False)
        fine, (report,) = self.check()
        self.assertTrue(fine)
        warning, = report['warnings']
        self.assertEqual('certificate', warning['kind'])

    def test_what_is_wrong_with_the_options(self) -> None:
        """All wrong options are reported, even if the array is fine."""
        self.only(k2_retention_policy='None such',
                  k2_iscsi_cidrs='198.51.100.0/24')
        fine, (report,) = self.check()
        self.assertFalse(fine)
        self.assertEqual(['configuration', 'ports'],
                         [one['kind'] for one in report['problems']])
        self.assertIn('correct k2_retention_policy',
                      report['problems'][0]['text'])
        self.assertIn('correct k2_iscsi_cidrs', report['problems'][1]['text'])
        self.assertEqual('ONLINE', report['array']['state'])

    def test_options_that_nothing_reads(self) -> None:
        """Unknown options cause warnings only; a required one may be unset."""
        self.only(k2_clone_strategy='thin')
        fine, (report,) = self.check()
        self.assertEqual([], report['problems'])
        warning, = report['warnings']
        self.assertEqual('configuration', warning['kind'])
        self.assertIn('Did you mean k2_clone_strategies?', warning['text'])
        self.only(san_password='', san_pasword='quite-secret')
        report = self.problem('configuration', 'Set san_password')
        warning, = report['warnings']
        self.assertIn('Did you mean san_password?', warning['text'])
        self.assertNotIn('quite-secret', str(report))

    def test_options_that_make_no_sense(self) -> None:
        """Other back ends are still checked, in the order of the file."""
        self.enable('bad', self.backend.name,
                    bad={'volume_driver': backend.DRIVERS['iscsi']})
        fine, (bad, good) = self.check()
        self.assertFalse(fine)
        self.assertEqual(('bad', 'configuration'),
                         (bad['backend'], bad['problems'][0]['kind']))
        self.assertEqual([], good['problems'])

    def test_the_state_of_the_array(self) -> None:
        self.switch(state='STARTING')
        fine, (report,) = self.check()
        self.assertTrue(fine)
        self.assertEqual([], report['problems'])
        self.assertIn('is in state STARTING, not ONLINE', str(
            [w['text'] for w in report['warnings'] if w['kind'] == 'state']))
        self.switch(state='ONLINE', full=True)
        self.problem('full', 'has no free capacity')
        self.switch(full=False, degraded=True)
        fine, (report,) = self.check()
        self.assertTrue(fine)
        self.assertEqual(['state'], [one['kind'] for one in
                                     report['warnings']])

    def replicated(self, **options: Any) -> Any:
        """Enable a back end with a target named dr; return both arrays."""
        first, second = arrays.pair('sdp')
        device = {'backend_id': 'dr', 'san_ip': second.address,
                  'port': second.port, 'login': arrays.LOGIN, **options}
        self.only(san_ip=first.address, san_api_port=first.port,
                  replication_device=','.join(
                      f'{key}:{value}' for key, value in device.items()),
                  k2_replication_password=arrays.PASSWORD)
        return first, second

    def target(self) -> Any:
        """Return the report on the target; the rest must be fine."""
        fine, (report,) = self.check()
        self.assertEqual([], report['problems'])
        target, = report['targets']
        self.assertEqual(fine, not target['problems'])
        return target

    def test_a_replication_target(self) -> None:
        self.replicated()
        target = self.target()
        self.assertEqual(('dr', [], 'ONLINE'), (
            target['backend_id'], target['problems'],
            target['array']['state']))
        self.assertIn('  Replication target dr\n    array ',
                      self.run_main('check')[1])

    def test_other_files_do_not_count_beside_one_that_is_named(self) -> None:
        """Else replication_device of the default files would be added."""
        self.replicated()
        usual = self.useFixture(fixtures.TempDir()).path
        shutil.copy(self.config, os.path.join(usual, 'usual.conf'))
        with mock.patch.object(cfg, 'find_config_dirs', autospec=True,
                               return_value=[usual]):
            self.assertEqual([], self.target()['problems'])

    def test_a_target_that_is_lost(self) -> None:
        first, second = self.replicated()
        second.control.add_fault(kind='reset', path='*')
        self.addCleanup(second.control.clear_faults)
        problems = self.target()['problems']
        self.assertEqual(['unreachable'], [
            problem['kind'] for problem in problems], problems)

    def test_arrays_that_do_not_reach_each_other(self) -> None:
        first, _ = self.replicated()
        first.control.cut_link()
        self.addCleanup(first.control.restore_link)
        first.control.tick()
        warning, = self.target()['warnings']
        self.assertEqual('peer', warning['kind'])
        self.assertIn('is disconnected, not ok', warning['text'])

    def test_an_array_that_is_no_peer(self) -> None:
        # The peer knows the array by its IP address, not by a name.
        self.replicated(san_ip='localhost')
        problem, = self.target()['problems']
        self.assertEqual('peer', problem['kind'])
        self.assertIn('connect the two arrays', problem['text'])

    def test_seconds_that_make_no_sense(self) -> None:
        for seconds in ('0', 'x', 'nan', '1e9'):
            with contextlib.redirect_stderr(io.StringIO()) as error:
                self.assertRaises(SystemExit, admin.main,
                                  ['check', '--timeout', seconds])
            self.assertIn('--timeout: invalid', error.getvalue())


class ProcessTest(AdminTest):

    def run_process(self, *arguments: str) -> tuple[int, str, str]:
        """Run k2-admin in a process; return status, output and errors."""
        done = subprocess.run(
            [sys.executable, '-m', 'cinder_k2.cmd.admin', *arguments,
             '--config-file', self.config, '--config-file', self.more],
            capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def test_alone(self) -> None:
        """It shows no warnings of Cinder, and uses Cinder's locks."""
        volume = self.backend.create_volume(1)
        self.backend.clone(volume)
        self.backend.delete_volume(volume)
        status, output, error = self.run_process('purge')
        self.assertEqual((0, ''), (status, error))
        self.assertIn('deferred deletions: 1 volumes', output)

    def test_locks_that_cannot_be_had(self) -> None:
        volume = self.backend.create_volume(1)
        self.backend.clone(volume)
        self.backend.delete_volume(volume)
        self.enable(self.backend.name, coordination={
            'backend_url': 'file:///proc/none'})
        status, output, error = self.run_process('purge')
        self.assertEqual((1, ''), (status, output))
        self.assertRegex(error, r'\Ak2-admin: error: [^\n]+\n\Z')

    def start_probe(self) -> 'subprocess.Popen[str]':
        return subprocess.Popen(
            [sys.executable, '-m', 'cinder_k2.cmd.admin', 'probe', '--write',
             '--yes', '--pause', '0.001', '--output',
             self.directory(), '--config-file', self.config,
             '--config-file', self.more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def strangers(self) -> Any:
        """Create foreign objects whose names have the prefix of the probe."""
        admin = self.array.admin
        group = admin.create('volume_groups', name='k2probe-other', quota=0,
                             is_dedup=True)
        volume = admin.create('volumes', name='k2probe-other', size=1 << 20,
                              volume_group={
                                  'ref': f'/volume_groups/{group["id"]}'})
        host = admin.create('hosts', name='k2probe-other', type='Linux')
        admin.create('mappings', host={'ref': f'/hosts/{host["id"]}'},
                     volume={'ref': f'/volumes/{volume["id"]}'})
        return self.array.control.leftovers()

    @arrays.in_this_process
    def test_a_probe_that_is_killed(self) -> None:
        """It gets SIGKILL just after the array carried out a request."""
        before = self.strangers()
        for path in ('/mappings', '/host_iqns'):
            self.kill_probe_after(path)
            self.removed_by_the_next(before)
        self.array.admin.delete('mappings', before['mappings'][0]['id'])
        for kind in ('volumes', 'volume_groups', 'hosts'):
            self.array.admin.delete(kind, before[kind][0]['id'])

    def kill_probe_after(self, path: str) -> None:
        """Start a probe, and kill it once it has created such an object."""
        real, process = self.array.array.exchange, []

        @contextlib.contextmanager
        def exchange(method: str, where: str, *rest_: Any,
                     **options: Any) -> Any:
            with real(method, where, *rest_, **options) as carried_out:
                if method == 'POST' and where.endswith(path):
                    process[0].kill()
                    process[0].wait()
                yield carried_out
        with mock.patch.object(self.array.array, 'exchange', exchange):
            process.append(self.start_probe())
            process[0].communicate(timeout=120)
        self.assertEqual(-signal.SIGKILL, process[0].returncode)

    def removed_by_the_next(self, before: Any) -> None:
        """Check that the next probe removes exactly the leftovers."""
        directory = os.path.join(config.verdicts_directory(), 'probe')
        token, = (name for name in os.listdir(directory)
                  if name.endswith('.json'))
        prefix = token.removesuffix('.json')
        made = [each for kind, objects in
                self.array.control.leftovers().items() for each in objects
                if each not in before.get(kind, [])]
        self.assertIn(f'{prefix}-g1', [each.get('name') for each in made])
        status, output, error = self.run_process('probe', '--pause', '0.001',
                                                 '--output', self.directory())
        self.assertEqual(0, status, error)
        self.assertNotIn('STILL', output)
        self.assertEqual(before, self.array.control.leftovers())
        self.assertEqual(['lock'], os.listdir(directory))

    def directory(self) -> str:
        return self.useFixture(fixtures.TempDir()).path


class CapabilitiesTest(AdminTest):

    def learnt(self, **verdicts_: rest.verdicts.Verdict) -> None:
        """Store verdicts on the array, as services do."""
        address = f'{self.array.address}:{self.array.port}'
        rest.verdicts.File(config.verdicts_directory(), address).save(
            'a 2.2.0 6.5', {name.replace('_', '-'): verdict
                            for name, verdict in verdicts_.items()})

    def capabilities(self) -> tuple[Any, dict[str, Any]]:
        report, = self.reports('capabilities')
        return report, {row['name']: row for row in report['capabilities']}

    def test_without_a_file(self) -> None:
        """All capabilities are unknown; no array is called."""
        shutil.rmtree(config.verdicts_directory(), ignore_errors=True)
        self.array.control.clear_journal()
        report, rows = self.capabilities()
        self.assertIsNone(report['file'])
        self.assertEqual({'unknown'}, {
            row['verdict'] for row in rows.values()})
        self.assertEqual([], self.array.control.journal())
        self.assertIn('no verdicts on this array',
                      self.run_main('capabilities')[1])

    def test_verdicts(self) -> None:
        self.learnt(paging=rest.verdicts.Verdict('works', '', 1.7e9),
                    value_lists=rest.verdicts.Verdict(
                        'refused', 'HTTP 400: no', time.time()))
        report, rows = self.capabilities()
        self.assertEqual([self.backend.name], report['backends'])
        self.assertEqual('a 2.2.0 6.5', report['version'])
        self.assertEqual(('works', '2023-11-14T22:13:20+00:00'), (
            rows['paging']['verdict'], rows['paging']['since']))
        lists = rows['value-lists']
        self.assertEqual(('refused', 'HTTP 400: no', 'objects are looked up '
                          'one by one'), (
            lists['verdict'], lists['words'], lists['without']))
        status, output, error = self.run_main('capabilities')
        self.assertEqual((0, ''), (status, error))
        self.assertIn('the array: HTTP 400: no', output)
        self.assertIn('one by one', output)

    def test_arrays_behind_one_cloud_manager(self) -> None:
        """CON-3: they share its address, and have an ID each."""
        driver = {'volume_driver': backend.DRIVERS['iscsi'],
                  'san_ip': '192.0.2.1', 'k2_app_token': arrays.PASSWORD}
        self.enable('one', 'two', one={**driver, 'k2_sdp_id': 'first'},
                    two={**driver, 'k2_sdp_id': 'second'})
        rest.verdicts.File(
            config.verdicts_directory(), '192.0.2.1/second').save(
                'a 2.2.0 6.5',
                {'paging': rest.verdicts.Verdict('works', '', 1.7e9)})
        reports = self.reports('capabilities')
        self.assertEqual(
            [('192.0.2.1/first', ['one'], None),
             ('192.0.2.1/second', ['two'], 'a 2.2.0 6.5')],
            [(report['address'], report['backends'], report['version'])
             for report in reports])

    def test_a_refusal_of_yesterday(self) -> None:
        """The verdict has expired, but the array's text is still shown."""
        self.learnt(sequence=rest.verdicts.Verdict(
            'refused', 'HTTP 400: Unknown header', 1.7e9))
        row = self.capabilities()[1]['sequence']
        self.assertEqual(
            ('unknown', '2023-11-14T22:13:20+00:00', True,
             'HTTP 400: Unknown header'),
            (row['verdict'], row['since'], row['asked_again'],
             row['words']))
        _, output, _ = self.run_main('capabilities')
        self.assertRegex(
            output, 'sequence +unknown: refused on 2023-11-14T22:13:20'
            r'\+00:00, the array is asked again when it is needed\n'
            '    the array: HTTP 400: Unknown header\n')


class ProbeTest(AdminTest):

    def probe(self, *arguments: str, answer: str = 'no\n'
              ) -> tuple[int, str, str]:
        self.results = self.useFixture(fixtures.TempDir()).path
        with mock.patch('sys.stdin', io.StringIO(answer)):
            return self.run_main('probe', '--pause', '0.001', '--output',
                                 self.results, *arguments)

    def test_it_asks_before_it_writes(self) -> None:
        self.array.control.clear_journal()
        status, output, error = self.probe('--write')
        self.assertEqual((1, ''), (status, output))
        self.assertIn('k2probe-<token>', error)
        self.assertIn('Go on?', error)
        self.assertEqual([], self.array.control.journal())

    def test_with_writes(self) -> None:
        before = self.array.control.leftovers()
        status, output, error = self.probe('--write', '--json',
                                           answer='yes\n')
        self.assertEqual(0, status, error)
        report, = json.loads(output)['arrays']
        self.assertEqual([], report['left_on_the_array'])
        self.assertEqual(before, self.array.control.leftovers())
        self.assertEqual(2, len(os.listdir(self.results)))

    def test_by_reads_as_text(self) -> None:
        status, output, error = self.probe()
        self.assertEqual(0, status, error)
        self.assertIn('Nothing is made', error)
        self.assertIn('contradicted: ', output)

    def test_who_may_only_read(self) -> None:
        self.only(san_login=arrays.VIEWER.login,
                  san_password=arrays.VIEWER.password)
        status, _, error = self.probe('--write', '--yes')
        self.assertEqual(1, status)
        self.assertIn('the user has the role read-only', error)

    def failed(self, text: str, *arguments: str, **more: str) -> None:
        """Check that it fails soon, with a one-line error and no files."""
        started = time.monotonic()
        status, output, error = self.probe(*arguments, **more)
        self.assertLess(time.monotonic() - started, 10)
        self.assertEqual((1, ''), (status, output))
        errors = [line for line in error.splitlines()
                  if line.startswith('k2-admin: error: ')]
        self.assertEqual(errors, error.splitlines()[-1:])
        self.assertIn(text, errors[0])
        self.assertEqual([], os.listdir(self.results))

    def test_a_wrong_password(self) -> None:
        self.only(san_password='not-the-password')
        for arguments in ((), ('--write', '--yes')):
            self.failed('check san_login and san_password', *arguments)

    def test_an_array_that_is_not_there(self) -> None:
        with socket.socket() as closed:
            closed.bind(('127.0.0.1', 0))
            self.only(san_api_port=closed.getsockname()[1])
            self.failed('Connection refused')

    def test_nobody_to_ask(self) -> None:
        self.array.control.clear_journal()
        self.failed('use --yes', '--write', answer='')
        self.assertEqual([], self.array.control.journal())

    def test_a_place_that_is_none(self) -> None:
        """A directory that cannot be used is reported before any request."""
        self.array.control.clear_journal()
        with mock.patch('sys.stdin', io.StringIO('')):
            status, _, error = self.run_main(
                'probe', '--write', '--yes', '--output', '/nowhere')
        self.assertEqual(1, status)
        self.assertIn('k2-admin: error: ', error)
        self.assertIn('cannot write to /nowhere', error)
        self.assertEqual([], self.array.control.journal())

    def test_one_at_a_time(self) -> None:
        """A second probe would remove the objects of the first."""
        directory = os.path.join(config.verdicts_directory(), 'probe')
        with tokens.Tokens(directory).alone():
            self.failed('another k2-admin probe', '--write', '--yes')

    def test_ctrl_c(self) -> None:
        """After Ctrl-C, created objects are removed at once."""
        before = self.array.control.leftovers()
        with mock.patch.object(raw.Raw, 'ask', autospec=True,
                               side_effect=_interrupted('host_iqns')):
            self.failed('interrupted', '--write', '--yes')
        self.assertEqual(before, self.array.control.leftovers())

    def test_nothing_private_is_told(self) -> None:
        """Neither the files nor the output identify the array."""
        admin = self.array.admin
        group = admin.create('volume_groups', name='payroll-2026', quota=0,
                             is_dedup=True)
        self.addCleanup(admin.delete, 'volume_groups', group['id'])
        status, output, error = self.probe('--write', '--yes')
        self.assertEqual(0, status, error)
        state = admin.list('system/state')[0]
        told = output.replace(self.results, '') + ''.join(
            os.listdir(self.results))
        for name in os.listdir(self.results):
            with open(os.path.join(self.results, name)) as file:
                told += file.read()
        for private in ('payroll', self.array.address, str(self.array.port),
                        state['system_id'], state['system_name'],
                        arrays.LOGIN, arrays.PASSWORD):
            self.assertNotIn(str(private), told)


def _interrupted(resource: str) -> Any:
    """Return ``Raw.ask`` with a Ctrl-C at the first POST of a resource."""
    real, pressed = raw.Raw.ask, []

    def ask(self: Any, method: str, where: str, *rest_: Any) -> Any:
        if (method, where) == ('POST', resource) and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return real(self, method, where, *rest_)
    return ask
