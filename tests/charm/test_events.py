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

"""The effects of Juju's events."""

import ddt
from ops import testing

import charm
import machine
from tests.charm import fakes

OLD_SECTION = ('{"cinder": {"/etc/cinder/cinder.conf": {"sections": '
               '{"K2_iSCSI": [["san_password", "hush"]]}}}}')


@ddt.ddt
class EventsTest(fakes.UnitCase):

    @ddt.data('install', 'start', 'upgrade_charm', 'config_changed',
              'update_status')
    def test_each_event_configures_the_unit(self, name):
        state = self.run_event(getattr(self.context.on, name)())
        self.assertStatus('active', 'k2a', state)
        self.assertIn('backend_name', self.published(state))

    @ddt.data('relation_created', 'relation_joined', 'relation_changed')
    def test_each_event_of_the_relation_configures_the_unit(self, name):
        event = getattr(self.context.on, name)
        more = {} if name == 'relation_created' else {'remote_unit': 0}
        state = self.run_event(event(self.relation, **more))
        self.assertStatus('active', 'k2a', state)
        self.assertIn('backend_name', self.published(state))

    def test_a_changed_secret_configures_the_unit(self):
        state = self.run_event(self.context.on.secret_changed(self.secret))
        self.assertIn('backend_name', self.published(state))

    def test_a_failed_reload_of_multipathd_is_retried(self):
        self.machine.failing['systemctl'] = machine.Result(1, '', 'no\n')
        state = self.run_event()
        self.assertStatus('blocked', 'systemctl failed: no', state)
        self.machine.failing.clear()
        state = self.again(state, self.context.on.update_status())
        self.assertStatus('active', 'k2a', state)
        self.again(state)
        self.assertEqual(2, len(self.machine.ran('systemctl')))

    def test_a_hook_that_is_killed_before_multipathd_reloads(self):
        self.machine.failing['systemctl'] = ZeroDivisionError('killed')
        with self.assertRaises(testing.errors.UncaughtCharmError):
            self.run_event()
        self.machine.failing.clear()
        state = self.run_event()
        self.assertStatus('active', 'k2a', state)
        self.assertEqual(2, len(self.machine.ran('systemctl')))
        self.again(state)
        self.assertEqual(2, len(self.machine.ran('systemctl')))

    def test_both_relations_on_one_unit(self):
        info = testing.SubordinateRelation('juju-info',
                                           remote_app_name='cinder')
        state = self.run_event(relations=[self.relation, info])
        self.assertStatus('active', '^k2a: VisionOS', state)

    def test_the_end_of_the_relation_is_the_status(self):
        state = self.again(self.run_event(), self.context.on.relation_broken(
            self.relation), relations=[self.relation])
        self.assertStatus('waiting', 'not related to cinder', state)

    def test_the_default_root_is_that_of_the_machine(self):
        self.assertEqual('/', str(charm.CinderK2Charm.machine.root))


class UpgradeTest(fakes.UnitCase):
    """Upgrade from the options and relation of the original charm."""

    def setUp(self):
        super().setUp()
        self.config = {'san_ip': '10.0.0.5', 'san_user': 'me',
                       'san_password': 'hush', 'backend_name': 'K2_iSCSI',
                       'protocol': 'iscsi', 'is_multipath_enabled': True,
                       'stateless': True}
        self.relation = testing.SubordinateRelation(
            'storage-backend', remote_app_name='cinder', local_unit_data={
                'backend_name': 'K2_iSCSI', 'stateless': 'True',
                'subordinate_configuration': OLD_SECTION})
        self.machine.backends = [fakes.backend('K2_iSCSI')]

    def upgrade(self):
        return self.run_event(self.context.on.upgrade_charm())

    def test_volumes_keep_their_host_and_back_end(self):
        told = self.published(self.upgrade())
        self.assertEqual('K2_iSCSI', told['backend_name'])
        self.assertEqual('True', told['stateless'])

    def test_another_host_is_refused(self):
        self.config['stateless'] = False
        state = self.upgrade()
        self.assertStatus('blocked', '^stateless changes to false: ', state)
        self.assertEqual(OLD_SECTION, self.published(state)[
            'subordinate_configuration'])

    def test_another_name_is_refused(self):
        self.config['backend_name'] = 'k2'
        state = self.upgrade()
        self.assertStatus('blocked', 'back end K2_iSCSI is removed', state)
        self.assertEqual(OLD_SECTION, self.published(state)[
            'subordinate_configuration'])

    def test_another_protocol_is_refused(self):
        data = self.relation.local_unit_data
        data['subordinate_configuration'] = OLD_SECTION.replace(
            '"san_password", "hush"', '"volume_driver", "cinder.volume.'
            'drivers.kaminario.kaminario_fc.KaminarioFCDriver"')
        self.assertStatus('blocked', 'changes its protocol', self.upgrade())

    def test_the_password_leaves_the_relation(self):
        state = self.upgrade()
        self.assertNoSecret(str(self.published(state)))
        self.assertIn('san_password = hush\n',
                      self.machine.read(fakes.SECRETS))
        self.assertStatus('active', 'use a secret in credentials instead',
                          state)

    def test_the_old_driver_is_used_until_the_new_one_is_installed(self):
        self.wheel.write_bytes(b'')
        state = self.upgrade()
        self.assertStatus('blocked', 'the driver is missing', state)
        self.assertEqual(OLD_SECTION, self.published(state)[
            'subordinate_configuration'])
        fakes.write_wheel(self.wheel)
        state = self.again(state, self.context.on.upgrade_charm())
        self.assertIn('cinder_k2.driver.K2ISCSIDriver', self.published(state)[
            'subordinate_configuration'])

    def test_a_secret_then_replaces_the_password(self):
        state = self.again(self.upgrade(), config={
            **self.config, 'credentials': self.secret.id, 'san_user': '',
            'san_password': ''})
        self.assertStatus('active', 'portals$', state)
        self.assertNotIn('hush', self.machine.read(fakes.SECRETS))
