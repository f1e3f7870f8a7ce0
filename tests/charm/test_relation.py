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

"""The data that the charm publishes to the cinder charm, and its secrets."""

import json
import pathlib

import ddt
from ops import testing

from tests.charm import cinder_conf
from tests.charm import fakes


class PublishTest(fakes.UnitCase):

    def test_all_that_cinder_needs(self):
        state = self.run_event()
        told = self.published(state)
        self.assertEqual('k2a', told['backend_name'])
        self.assertEqual('False', told['stateless'])
        pairs = self.sections(state)['k2a']
        self.assertEqual(['# cinder-k2 secrets', '# cinder-k2 driver'],
                         [key for key, _ in pairs[:2]])
        self.assertEqual([
            ['volume_driver', 'cinder_k2.driver.K2ISCSIDriver'],
            ['volume_backend_name', 'k2a'],
            ['driver_ssl_cert_verify', 'True'],
            ['san_ip', '10.0.0.5'],
            ['use_multipath_for_image_xfer', 'True'],
            ['use_chap_auth', 'False']], pairs[2:])

    def test_fibre_channel(self):
        self.config['protocol'] = 'FC'
        self.assertEqual('cinder_k2.driver.K2FCDriver',
                         self.pairs(self.run_event())['volume_driver'])

    def test_several_back_ends(self):
        self.config['backend_name'] = 'k2a,k2b'
        state = self.run_event()
        self.assertEqual('k2a,k2b', self.published(state)['backend_name'])
        self.assertEqual({'k2a', 'k2b'}, set(self.sections(state)))

    def test_packages_that_survive_an_upgrade_of_openstack(self):
        told = json.loads(self.published(self.run_event())[
            'releases-packages-map'])
        self.assertEqual({'caracal'}, set(told))
        self.assertEqual([], told['caracal']['deb']['purge'])
        self.assertLessEqual(
            {'open-iscsi', 'multipath-tools', 'python3-cachetools'},
            set(told['caracal']['deb']['install']))

    def test_pausing_cinder_stops_no_service_of_the_charm(self):
        self.assertNotIn('services', self.published(self.run_event()))

    def test_a_cluster_and_its_lock_server(self):
        self.config.update({
            'cluster': 'all',
            'coordination-url': 'etcd3+http://u:hush@10.0.0.9'})
        state = self.run_event()
        self.assertEqual({'cluster': 'all'}, self.pairs(state, 'DEFAULT'))
        self.assertNoSecret(str(self.published(state)))
        self.assertIn('backend_url = etcd3+http://u:hush@10.0.0.9',
                      self.machine.read(fakes.SECRETS))

    def test_a_host_shared_by_all_units(self):
        self.config['stateless'] = True
        self.assertEqual('True', self.published(self.run_event())['stateless'])

    def test_certificates_go_into_a_file(self):
        self.config['tls-ca'] = fakes.PEM
        path = pathlib.Path(
            self.pairs(self.run_event())['driver_ssl_cert_path'])
        self.assertEqual(fakes.PEM, path.read_text())
        self.assertEqual(0o644, path.stat().st_mode & 0o777)

    def test_cinder_reads_the_values_that_were_set(self):
        self.config.update({
            'filter-function': 'capabilities.total_volumes < 250',
            'volume-backend-name': ' $odd name" ',
            'replication-credentials': self.dr_secret.id,
            'replication-devices': '- {backend-id: dr, san-ip: 10.9.0.5}'})
        state = self.run_event()
        found = cinder_conf.section(
            cinder_conf.render(self.sections(state))
            + self.machine.read(fakes.SECRETS), 'k2a')
        self.assertEqual(
            ['openstack', fakes.PASSWORD, fakes.DR_PASSWORD, ' $odd name" ',
             'capabilities.total_volumes < 250',
             [{'backend_id': 'dr', 'san_ip': '10.9.0.5', 'rpo': '300',
               'login': 'openstack'}]],
            [found.san_login, found.san_password,
             found.k2_replication_password, found.volume_backend_name,
             found.filter_function, found.replication_device])


class InvalidOptionsTest(fakes.UnitCase):

    def test_nothing_is_published_until_options_are_valid(self):
        for option, value in (('san_ip', ''), ('protocol', 'nfs'),
                              ('credentials', fakes.NO_SECRET)):
            with self.subTest(option):
                state = self.run_event(config={**self.config, option: value})
                self.assertEqual('blocked', state.unit_status.name)
                self.assertNotIn('backend_name', self.published(state))
                self.assertIsNone(self.machine.read(fakes.SECRETS))

    def test_an_invalid_option_keeps_the_published_back_ends(self):
        before = self.run_event()
        secrets = self.machine.read(fakes.SECRETS)
        after = self.again(before, config={**self.config, 'protocol': 'nfs'})
        self.assertStatus('blocked', 'protocol is "nfs"', after)
        self.assertEqual(self.published(before), self.published(after))
        self.assertEqual(secrets, self.machine.read(fakes.SECRETS))


@ddt.ddt
class RemovalTest(fakes.UnitCase):

    def setUp(self):
        super().setUp()
        self.config['backend_name'] = 'k2a,k2b'
        self.before = self.run_event()

    def change(self, **changes):
        changes = {name.replace('_', '-') if name != 'backend_name' else name:
                   value for name, value in changes.items()}
        return self.again(self.before, config={**self.config, **changes})

    @ddt.data(({'backend_name': 'k2a'}, 'back end k2b is removed'),
              ({'backend_name': 'k2a,new'}, 'back end k2b is removed'),
              ({'backend_name': 'K2A,k2b'}, 'back end k2a is removed'),
              ({'protocol': 'fc'}, 'back end k2a changes its protocol; back '
               'end k2b changes its protocol'),
              ({'volume_backend_name': 'gold'}, 'back end k2a changes '
               'volume-backend-name from k2a to gold; back end k2b changes '
               'volume-backend-name from k2b to gold'))
    @ddt.unpack
    def test_loss_of_volumes_must_be_confirmed(self, changes, text):
        secrets = self.machine.read(fakes.SECRETS)
        after = self.change(**changes)
        self.assertStatus('blocked', f'^{text}: Cinder would lose access to '
                          'volumes; revert this, or confirm: juju config '
                          'cinder-k2 allow-removal=true$', after)
        self.assertEqual(self.published(self.before), self.published(after))
        self.assertEqual(secrets, self.machine.read(fakes.SECRETS))
        confirmed = self.change(**changes, allow_removal=True)
        self.assertStatus('active', 'allow-removal is true; set', confirmed)
        self.assertNotEqual(self.sections(self.before),
                            self.sections(confirmed))

    @ddt.data(({}, {'stateless': True}, 'stateless changes to true'),
              ({'stateless': True}, {}, 'stateless changes to false'),
              ({'cluster': 'one'}, {'cluster': 'all'},
               'cluster one is renamed to all'),
              ({'cluster': 'one'}, {}, 'cluster one is removed'),
              ({'cluster': 'one'}, {'stateless': True},
               'stateless changes to true; cluster one is removed'))
    @ddt.unpack
    def test_renaming_the_service_must_be_confirmed(self, before, after, text):
        self.config['coordination-url'] = 'etcd3+http://10.0.0.9'
        before = self.again(self.before, config={
            **self.config, **before, 'allow-removal': True})
        refused = self.again(before, config={**self.config, **after})
        self.assertStatus('blocked', f'^{text}: Cinder would lose access to '
                          'volumes; revert this', refused)
        self.assertEqual(self.published(before), self.published(refused))
        confirmed = self.again(refused, config={
            **self.config, **after, 'allow-removal': True})
        self.assertStatus('active', 'allow-removal is true', confirmed)
        self.assertNotEqual(self.published(before), self.published(confirmed))

    def test_joining_a_cluster_needs_no_confirmation(self):
        after = self.change(coordination_url='etcd3+http://10.0.0.9',
                            cluster='all')
        self.assertEqual({'cluster': 'all'}, self.pairs(after, 'DEFAULT'))

    def test_added_or_reordered_back_ends_need_no_confirmation(self):
        after = self.change(backend_name='k2b,k2a,k2c',
                            reserved_percentage=5)
        self.assertEqual('k2b,k2a,k2c', self.published(after)['backend_name'])

    def test_removal_is_refused_until_it_is_reverted(self):
        state = self.change(backend_name='k2a')
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('blocked', 'k2b is removed', state)
        state = self.again(state, config=self.config)
        self.assertStatus('active', 'k2a', state)

    @ddt.data('no json', '[]', '{"cinder": []}',
              '{"cinder": {"/etc/cinder/cinder.conf": '
              '{"sections": {"k2a": [["one"], 2]}}}}')
    def test_invalid_published_data_is_ignored(self, data):
        self.relation = testing.SubordinateRelation(
            'storage-backend', remote_app_name='cinder', local_unit_data={
                'backend_name': 'k2a', 'subordinate_configuration': data})
        state = self.run_event()
        self.assertStatus('active', 'k2a', state)
        self.assertIn('san_ip', self.pairs(state))
        state = self.run_event(config={**self.config, 'backend_name': 'new'})
        self.assertStatus('blocked', 'back end k2a is removed', state)

    def test_a_new_relation_needs_no_confirmation(self):
        new = testing.SubordinateRelation(
            'storage-backend', remote_app_name='cinder')
        state = self.again(self.before, relations=[new],
                           config={**self.config, 'backend_name': 'other'})
        self.assertEqual('other', state.get_relation(
            new.id).local_unit_data['backend_name'])


class NeighbourTest(fakes.UnitCase):
    """Another application related to the same cinder."""

    def test_a_back_end_of_another_application_is_refused(self):
        self.run_other(backend_name='K2a,other')
        state = self.run_event()
        self.assertStatus(
            'blocked', '^back end k2a: the application other on the same '
            'cinder already has a back end of this name; rename the one '
            'without volumes, or remove /etc/cinder/cinder.conf.d/other.conf '
            'on the unit if that application was removed$', state)
        self.assertNotIn('backend_name', self.published(state))
        self.assertIsNone(self.machine.read(fakes.SECRETS))
        state = self.again(state, config={**self.config,
                                          'backend_name': 'k2b'})
        self.assertStatus('active', 'k2a', state)
        self.assertEqual('k2b', self.published(state)['backend_name'])

    def test_both_work_with_different_names(self):
        lock_server = {'coordination-url': 'etcd3+http://10.0.0.9'}
        self.config.update(lock_server)
        self.run_other(**lock_server)
        self.assertStatus('active', 'k2a', self.run_event())

    def test_an_operators_own_settings_are_not_another_back_end(self):
        self.machine.write('/etc/cinder/cinder.conf.d/local.conf',
                           '[k2a]\nmax_over_subscription_ratio = 3\n')
        self.assertStatus('active', 'k2a', self.run_event())


class SecretFileTest(fakes.UnitCase):

    def revision(self, state):
        return self.pairs(state)['# cinder-k2 secrets']

    def rotated(self, password):
        return testing.Secret(
            {'username': 'openstack', 'password': fakes.PASSWORD},
            latest_content={'username': 'openstack', 'password': password},
            id=self.secret.id)

    def test_no_secret_enters_the_relation_or_a_log(self):
        state = self.run_event()
        self.assertNoSecret(str(self.published(state)))
        self.assertNoSecret(str(self.context.juju_log))
        self.assertNoSecret(str(state.stored_states))
        self.assertNoSecret(' '.join(self.machine.commands))

    def test_only_cinder_can_read_it(self):
        self.run_event()
        mode = self.machine.path(fakes.SECRETS).stat().st_mode & 0o777
        self.assertEqual(0o640, mode)
        self.assertEqual('cinder', self.machine.groups[fakes.APP])

    def test_rotation_changes_the_file_and_restarts_the_services(self):
        before = self.run_event()
        secret = self.rotated('new')
        after = self.again(before, self.context.on.secret_changed(secret),
                           secrets=[secret])
        self.assertIn('san_password = new', self.machine.read(fakes.SECRETS))
        self.assertNotEqual(self.revision(before), self.revision(after))

    def test_nothing_restarts_while_nothing_changes(self):
        before = self.run_event()
        after = self.again(before, self.context.on.update_status())
        self.assertEqual(self.published(before), self.published(after))

    def test_other_certificates_restart_the_services(self):
        before = self.run_event(config={**self.config, 'tls-ca': fakes.PEM})
        after = self.again(before, config={
            **self.config, 'tls-ca': fakes.OTHER_PEM})
        self.assertNotEqual(self.revision(before), self.revision(after))

    def test_recovery_from_a_hook_that_failed_after_writing(self):
        before = self.run_event()
        secret = self.rotated('new')
        self.again(before, secrets=[secret])
        # Juju discards the relation data of a failed hook.
        after = self.again(before, secrets=[secret])
        self.assertNotEqual(self.revision(before), self.revision(after))

    def test_the_end_of_the_relation_removes_it(self):
        self.config['tls-ca'] = fakes.PEM
        state = self.run_event()
        self.again(state, self.context.on.relation_broken(
            state.get_relation(self.relation.id)))
        self.assertIsNone(self.machine.read(fakes.SECRETS))
        self.assertFalse(
            self.machine.path(f'/etc/cinder/{fakes.APP}').exists())

    def test_certificates_are_removed_with_their_back_end(self):
        config = {**self.config, 'tls-ca': fakes.PEM}
        state = self.run_event(config={**config, 'backend_name': 'k2a,k2b'})
        directory = self.machine.path(f'/etc/cinder/{fakes.APP}')
        (directory / 'other').write_text('')
        self.assertEqual({'k2a-ca.pem', 'k2b-ca.pem', 'other'},
                         {path.name for path in directory.iterdir()})
        self.again(state, config={**config, 'allow-removal': True})
        self.assertEqual({'k2a-ca.pem', 'other'},
                         {path.name for path in directory.iterdir()})

    def test_the_end_of_the_unit_removes_it(self):
        self.again(self.run_event(), self.context.on.remove())
        self.assertIsNone(self.machine.read(fakes.SECRETS))

    def test_the_end_of_a_unit_on_nova_leaves_that_of_cinder(self):
        self.config['tls-ca'] = fakes.PEM
        self.run_event()
        compute = testing.SubordinateRelation(
            'juju-info', remote_app_name='nova-compute')
        beside = self.run_event(relations=[compute])
        state = self.again(beside, self.context.on.relation_broken(
            beside.get_relation(compute.id)))
        self.again(state, self.context.on.remove(), relations=[])
        self.assertIn('san_password', self.machine.read(fakes.SECRETS))
        self.assertTrue(
            self.machine.path(f'/etc/cinder/{fakes.APP}').exists())

    def test_a_machine_without_cinder_is_reported(self):
        self.machine.missing_groups.add('cinder')
        self.assertStatus('blocked', 'cannot be written: no such group',
                          self.run_event())
        self.assertEqual([], list(self.machine.path(
            '/etc/cinder/cinder.conf.d').iterdir()))
