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

import configparser
import pathlib
import stat
import tempfile
import unittest

from tools.cloud import errors
from tools.cloud import settings
from tools.cloud import state


class StateTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.state = pathlib.Path(directory.name) / 'cloud'

    def run_with(self, **changes):
        return settings.Settings(
            root=pathlib.Path('/checkout'), state=self.state,
            cinder_port=18776, sim_port=18443, **changes)

    def prepare(self, **changes):
        run = self.run_with(**changes)
        with state.locked(self.state):
            state.prepare(run)
        return run

    def test_both_back_ends_reach_the_array_over_verified_tls(self):
        run = self.prepare()
        conf = configparser.ConfigParser(interpolation=None)
        conf.read(run.cinder_conf)
        names = conf['DEFAULT']['enabled_backends'].split(',')
        self.assertEqual(list(settings.BACKENDS), names)
        for name in names:
            section = conf[name]
            self.assertEqual(name, section['volume_backend_name'])
            self.assertEqual('18443', section['san_api_port'])
            self.assertEqual('True', section['driver_ssl_cert_verify'])
            self.assertEqual(str(run.ca_file),
                             section['driver_ssl_cert_path'])
            self.assertEqual(state.password(run), section['san_password'])
        self.assertEqual('18776', conf['DEFAULT']['osapi_volume_listen_port'])

    def test_back_ends_can_replicate_to_a_second_array(self):
        run = self.prepare(second_port=18444)
        conf = configparser.ConfigParser(interpolation=None)
        conf.read(run.cinder_conf)
        for name in settings.BACKENDS:
            device = dict(pair.split(':', 1) for pair in conf[name][
                'replication_device'].split(','))
            self.assertEqual(settings.TARGET, device['backend_id'])
            self.assertEqual('18444', device['port'])
            self.assertNotIn('password', device)
            self.assertEqual(state.password(run),
                             conf[name]['k2_replication_password'])

    def test_files_with_the_password_are_private(self):
        run = self.prepare()
        for path in (run.password_file, run.cinder_conf):
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), path)

    def test_each_run_starts_from_nothing(self):
        first = self.prepare()
        password = state.password(first)
        (first.primary.state / 'deep').mkdir()
        (first.state / 'link').symlink_to('/nowhere')
        second = self.prepare()
        self.assertEqual([], list(second.primary.state.iterdir()))
        self.assertFalse((first.state / 'link').is_symlink())
        self.assertNotEqual(password, state.password(second))

    def test_keep_reuses_the_state(self):
        first = self.prepare()
        password = state.password(first)
        (first.primary.state / 'state.db').touch()
        second = self.prepare(keep=True)
        self.assertTrue((second.primary.state / 'state.db').exists())
        self.assertEqual(password, state.password(second))

    def test_foreign_files_are_left_alone(self):
        self.state.mkdir()
        (self.state / 'thesis.tex').touch()
        with self.assertRaisesRegex(errors.CloudError, 'STATE_DIR='):
            self.prepare()
        self.assertTrue((self.state / 'thesis.tex').exists())

    def test_a_directory_that_cannot_be_created(self):
        self.state.touch()
        with self.assertRaisesRegex(errors.CloudError, 'STATE_DIR='):
            self.prepare()

    def test_two_runs_do_not_share_a_directory(self):
        with state.locked(self.state):
            with self.assertRaisesRegex(errors.CloudError, 'another'):
                self.prepare()
        self.prepare()
