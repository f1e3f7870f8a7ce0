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

"""The results and failures of the actions."""

import json
import shlex
import tarfile

from ops import testing

import actions
from cinder_k2 import volume_types
import diagnostics
import machine
from tests.charm import fakes

DEVICES = """
- backend-id: dr
  san-ip: 10.9.0.5
- backend-id: west
  san-ip: 10.7.0.5
  rpo: 60
"""


class ActionCase(fakes.UnitCase):

    def replicate(self, *targets):
        self.config.update({'replication-devices': DEVICES,
                            'replication-credentials': self.dr_secret.id})
        self.machine.backends = [fakes.backend(targets=list(targets))]


class CommonTest(ActionCase):

    def test_all_actions_are_implemented(self):
        self.assertEqual(set(fakes.META['actions']), set(actions.ALL))

    def test_invalid_options_fail_them(self):
        self.config['protocol'] = 'nfs'
        for name in set(actions.ALL) - {'collect-diagnostics'}:
            self.assertActionFails('protocol is "nfs": use iscsi or fc', name)

    def test_a_secret_that_is_not_granted_fails_them(self):
        self.config['credentials'] = fakes.NO_SECRET
        self.assertActionFails('run: juju grant-secret', 'check-array')

    def test_a_check_that_hangs_fails_them(self):
        self.machine.failing['k2-admin'] = machine.Failed(
            'k2-admin did not finish within 35 seconds')
        for name in ('check-array', 'list-capacity', 'discover-paths',
                     'failover-plan'):
            self.assertActionFails('did not finish within 35', name)

    def test_units_on_nova_cannot_check_arrays(self):
        self.relation = testing.SubordinateRelation(
            'juju-info', remote_app_name='nova-compute')
        for name in ('check-array', 'list-capacity', 'discover-paths',
                     'failover-plan'):
            self.assertActionFails('only units related to cinder', name)


class CheckArrayTest(ActionCase):

    def test_all_is_well(self):
        results = self.action('check-array')
        self.assertEqual('k2a: VisionOS 6.5, 12.3 TiB free, 8 portals',
                         results['result'])
        self.assertEqual([fakes.backend()],
                         json.loads(results['report'])['backends'])
        self.assertEqual('Cinder 24.2.0 (2024.1) on Python 3.12',
                         results['cinder'])

    def test_it_fails_with_every_problem_and_shows_the_report(self):
        self.replicate(fakes.target(problems=[fakes.finding('peer', 'b')]))
        self.machine.backends[0]['problems'] = [fakes.finding('role', 'a')]
        results = self.assertActionFails(
            '^k2a: a; k2a: replication to dr: b$', 'check-array')
        self.assertIn('"kind": "peer"', results['report'])

    def test_the_arrays_are_checked_once(self):
        state = self.run_event()
        self.machine.commands.clear()
        self.again(state, self.context.on.action('check-array'))
        self.assertEqual(1, len(self.machine.ran('k2-admin')))


class CapacityTest(ActionCase):

    def test_capacity(self):
        self.machine.backends = [fakes.backend(),
                                 fakes.backend('k2b', capacity=None)]
        self.assertEqual(
            'k2a: 20.0 TiB total, 12.3 TiB free, 40.0 TiB provisioned\n'
            'k2b: unknown; see check-array',
            self.action('list-capacity')['result'])


class VolumeTypesTest(ActionCase):

    def commands(self):
        """Return names and properties of types, as a shell parses them."""
        found = {}
        for line in self.action('show-volume-types')['result'].splitlines():
            words = shlex.split(line)
            if words:
                self.assertEqual(['openstack', 'volume', 'type', 'create'],
                                 words[:4])
                found[words[4]] = dict(
                    word.split('=', 1) for word in words[6::2])
        return found

    def test_types_of_each_back_end(self):
        self.config['backend_name'] = 'k2a,k2b'
        found = self.commands()
        self.assertEqual(
            {f'{name}{kind}' for name in ('k2a', 'k2b')
             for kind in ('', '-nodedup', '-multiattach')}, set(found))
        self.assertEqual({'volume_backend_name': 'k2b',
                          'multiattach': '<is> True'},
                         found['k2b-multiattach'])

    def test_types_that_replicate(self):
        self.replicate()
        self.assertEqual({
            'volume_backend_name': 'k2a', 'replication_enabled': '<is> True',
            'kaminario:replication': 'enabled',
            'kaminario:replication_target': 'west',
            'kaminario:replication_rpo': '60'}, self.commands()['k2a-to-west'])

    def test_the_driver_takes_every_extra_spec(self):
        self.replicate()
        known = {spec.key for spec in volume_types.EXTRA_SPECS}
        for properties in self.commands().values():
            volume_types.parse(properties)
            for key in properties:
                self.assertTrue(':' not in key or key in known, key)

    def test_odd_names_survive_the_shell(self):
        self.config['volume-backend-name'] = "it's $HOME"
        self.assertEqual("it's $HOME",
                         self.commands()['k2a']['volume_backend_name'])


class PathsTest(ActionCase):

    def test_each_portal_is_tried(self):
        self.machine.reachable = {('10.0.0.6', 3260)}
        lines = self.action('discover-paths')['result'].splitlines()
        self.assertEqual('k2a:', lines[0])
        self.assertEqual('  portal 10.0.0.6:3260: reached', lines[1])
        self.assertIn('portal 10.0.0.7:3260: NOT reached; check', lines[2])
        self.assertEqual(9, len(lines))

    def test_fibre_channel(self):
        port = self.machine.path('/sys/class/fc_host/host3/port_name')
        port.parent.mkdir(parents=True)
        port.write_text('0x10000090fa8e1c42\n')
        self.machine.backends = [fakes.backend(protocol='FC', ports=[
            {'name': 'fc1', 'address': '5742b0f000000001', 'target': '',
             'up': False}])]
        self.assertEqual(
            'k2a:\n  target 5742b0f000000001: down on the array\n'
            '  initiator 10000090fa8e1c42',
            self.action('discover-paths')['result'])

    def test_an_unreadable_adapter_is_omitted(self):
        hosts = self.machine.path('/sys/class/fc_host')
        (hosts / 'host3/port_name').mkdir(parents=True)
        (hosts / 'host4').mkdir()
        (hosts / 'host4/port_name').write_text('0x10000090fa8e1c43\n')
        self.machine.backends = [fakes.backend(protocol='FC', ports=[])]
        self.assertEqual('k2a:\n  initiator 10000090fa8e1c43',
                         self.action('discover-paths')['result'])

    def test_no_adapter(self):
        self.machine.backends = [fakes.backend(protocol='FC', ports=[])]
        self.assertIn('this unit has no Fibre Channel adapter',
                      self.action('discover-paths')['result'])

    def test_given_portals_are_tried_on_any_unit(self):
        self.relation = testing.SubordinateRelation(
            'juju-info', remote_app_name='nova-compute')
        self.machine.reachable = {('fd00::1', 3260)}
        self.assertEqual(
            'portal [fd00::1]:3260: reached\nportal 10.0.0.6:3260: NOT '
            'reached; check network, routes and iscsi-cidrs',
            self.action('discover-paths',
                        portals='[fd00::1]:3260, 10.0.0.6:3260')['result'])

    def test_invalid_portals_are_refused(self):
        self.assertActionFails('^10.0.0.6 is not a portal; use address:port',
                               'discover-paths', portals='10.0.0.6')


class FailoverPlanTest(ActionCase):

    def test_nothing_to_fail_over_to(self):
        self.assertEqual('k2a:\n  no replication-devices, so nothing can fail '
                         'over', self.action('failover-plan')['result'])

    def test_commands_are_in_order(self):
        self.replicate(fakes.target(), fakes.target(backend_id='west'))
        text = self.action('failover-plan')['result']
        commands = [line.strip() for line in text.splitlines()
                    if line.startswith('  cinder ')]
        self.assertEqual(
            ['cinder freeze-host node-1@k2a',
             'cinder failover-host node-1@k2a --backend_id dr'], commands[:2])
        self.assertEqual(
            ['cinder thaw-host node-1@k2a',
             'cinder failover-host node-1@k2a --backend_id default'],
            commands[-2:])
        self.assertIn('west: would take over', text)
        self.assertIn('written in the last 300 seconds', text)

    def test_an_array_that_is_not_ready_is_skipped(self):
        self.replicate(
            fakes.target(problems=[fakes.finding('unreachable', 'Gone.')]),
            fakes.target(backend_id='west'))
        text = self.action('failover-plan')['result']
        self.assertIn('dr: would NOT take over. Gone.', text)
        self.assertIn('--backend_id west', text)
        self.assertIn('written in the last 60 seconds', text)

    def test_arrays_that_have_lost_each_other(self):
        """A failover must still be possible."""
        self.replicate(
            fakes.target(problems=[fakes.finding('peer', 'No link.')]))
        text = self.action('failover-plan')['result']
        self.assertIn('dr: would take over, with the data replicated so far. '
                      'No link.', text)
        self.assertIn('--backend_id dr', text)

    def test_no_array_is_ready(self):
        self.replicate(
            fakes.target(problems=[fakes.finding('unreachable', 'Gone.')]))
        text = self.action('failover-plan')['result']
        self.assertIn('no array is ready to take over', text)
        self.assertNotIn('failover-host', text)

    def test_targets_were_not_checked(self):
        self.replicate()
        self.machine.backends[0]['problems'] = [
            fakes.finding('configuration', 'san_ip is wrong.')]
        text = self.action('failover-plan')['result']
        self.assertIn('  san_ip is wrong.\n  no array is ready', text)

    def test_a_host_shared_by_all_units(self):
        self.replicate(fakes.target())
        self.config['stateless'] = True
        self.assertIn('failover-host cinder@k2a',
                      self.action('failover-plan')['result'])

    def test_a_cluster_fails_over_as_one(self):
        self.replicate(fakes.target())
        alone = self.action('failover-plan')['result']
        self.config.update({'cluster': 'all',
                            'coordination-url': 'etcd3+http://10.0.0.9'})
        together = self.action('failover-plan')['result']
        self.assertIn('# For each unit of cinder', alone)
        self.assertNotIn('# For each unit of cinder', together)
        self.assertIn('# Once for the whole cluster', together)
        self.assertIn('failover-host node-1@k2a', together)


class DiagnosticsTest(ActionCase):

    def collect(self):
        """Return the files in the archive, by name."""
        path = self.machine.path(self.action('collect-diagnostics')['path'])
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        with tarfile.open(path) as archive:
            return {entry.name: archive.extractfile(entry).read().decode()
                    for entry in archive}

    def test_release_of_cinder(self):
        self.assertEqual('Cinder 24.2.0 (2024.1) on Python 3.12\n',
                         self.collect()['cinder-k2/cinder.txt'])
        self.machine.cinder = ['30.0.0']
        self.assertRegex(self.collect()['cinder-k2/cinder.txt'],
                         '^Cinder 30.0.0 on Python 3.12\nthe driver was not')
        self.machine.cinder = []
        self.assertEqual('no Cinder on Python 3.12\n',
                         self.collect()['cinder-k2/cinder.txt'])

    def test_python_that_cannot_be_run(self):
        self.machine.failing['python3 -c'] = machine.Failed('no python3')
        self.assertEqual('no python3\n',
                         self.collect()['cinder-k2/cinder.txt'])

    def test_contents_of_the_archive(self):
        self.machine.write('/etc/cinder/cinder.conf', '[DEFAULT]\n')
        found = self.collect()
        for name in ('check.txt', 'iscsi-sessions.txt', 'multipath.txt',
                     'packages.txt', 'system.txt', 'etc/cinder/cinder.conf',
                     'etc/cinder/cinder.conf.d/cinder-k2.conf',
                     'etc/multipath/conf.d/cinder-k2.conf'):
            self.assertTrue(found[f'cinder-k2/{name}'], name)
        self.assertEqual('output of multipath -ll\n',
                         found['cinder-k2/multipath.txt'])

    def test_the_archive_contains_no_secret(self):
        self.replicate(fakes.target(
            warnings=[fakes.finding('error', f'said {fakes.PASSWORD}')]))
        self.config['coordination-url'] = 'etcd3+http://u:hush@10.0.0.9'
        self.machine.write('/etc/cinder/cinder.conf', (
            '[DEFAULT]\ntransport_url = rabbit://cinder:hush@10.0.0.1,\n'
            '  rabbit://cinder:hush@10.0.0.2\n'
            '[database]\nconnection = mysql://cinder:hush@10.0.0.3/cinder\n'
            '[keystone_authtoken]\npassword=hush\nusername = cinder\n'
            '[k2b]\nreplication_device = backend_id:x,password:hush,rpo:60\n'))
        for name, text in self.collect().items():
            with self.subTest(name):
                self.assertNoSecret(text)
                self.assertNotIn('pa\\$word', text)
        kept = self.collect()['cinder-k2/etc/cinder/cinder.conf']
        self.assertIn('username = cinder', kept)
        self.assertIn('replication_device = ***', kept)

    def test_problems_do_not_stop_it(self):
        self.config['protocol'] = 'nfs'
        self.machine.failing['multipath'] = machine.Failed(
            'multipath is not installed on this unit')
        found = self.collect()
        self.assertIn('protocol is "nfs"', found['cinder-k2/check.txt'])
        self.assertEqual('multipath is not installed on this unit\n',
                         found['cinder-k2/multipath.txt'])

    def test_a_file_that_cannot_be_read_does_not_stop_it(self):
        self.machine.path('/etc/multipath.conf').mkdir(parents=True)
        self.assertEqual('/etc/multipath.conf cannot be read: Is a '
                         'directory\n',
                         self.collect()['cinder-k2/etc/multipath.conf'])

    def test_a_failed_check_still_masks_passwords(self):
        self.machine.failing['k2-admin'] = machine.Failed('hangs')
        self.machine.failing['multipath'] = machine.Result(0, fakes.PASSWORD)
        self.assertEqual('***', self.collect()['cinder-k2/multipath.txt'])

    def test_it_replaces_the_previous_archive(self):
        first = self.action('collect-diagnostics')
        self.assertEqual(first, self.action('collect-diagnostics'))

    def test_options_are_masked_by_name(self):
        for line in ('backend_url = redis://h:6379?sentinel_password=hush',
                     'backend_url=etcd3+http://u:hu/hush@h',
                     'auth_passphrase = a = "hush',
                     'userpass: hush',
                     'san_login = hush',
                     'Auth.Token=\'x hush',
                     '#san_password = hush',
                     ' ; nova_secret = hush',
                     'replication_device = backend_id:a,\n\tlogin:hush',
                     'PASSWD =\n  a\n  hush'):
            with self.subTest(line):
                told = diagnostics.mask(f'[a]\n{line}\nx = 1\n', [])
                self.assertNotIn('hush', told)
                self.assertIn(line.split('=')[0].split(':')[0], told)
                self.assertTrue(told.endswith(' ***\nx = 1\n'), told)

    def test_urls_are_masked_anywhere(self):
        for given, wanted in (
                ('at etcd3+http://u:p/ss@h:1/x now',
                 'at etcd3+http://***@h:1/x now'),
                ('redis://h?sentinel_password=x&y#z&a=b now',
                 'redis://h?sentinel_password=*** now'),
                ('redis://u:p?a=b@h?c=d', 'redis://***@h?c=***'),
                ('http://h/a?b', 'http://h/a?b'),
                ('said password:p ss,rpo:60', 'said password:***,rpo:60')):
            with self.subTest(given):
                self.assertEqual(wanted, diagnostics.mask(given, []))

    def test_short_and_empty_secrets(self):
        self.assertEqual('***bc', diagnostics.mask('abc', ['', 'a']))
