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

"""A real Cinder on the cinder.conf that the DevStack plugin writes."""

import contextlib
import io
import sys
import unittest

from tests.devstack import harness
from tests import iscsi
from tools.cloud import array
from tools.cloud import children
from tools.cloud import client
from tools.cloud import scenario
from tools.cloud import settings
from tools.cloud import stack
from tools.cloud import state

# Seconds for Cinder to start on a busy machine.
SECONDS = 120
PORTALS = ('127.104.1.1', '127.104.1.2')


@harness.every_devstack
class CinderTest(harness.Case):
    """local.conf, plugin, arrays, cinder.conf, cinder-volume, data."""

    def setUp(self):
        super().setUp()
        self.served = not iscsi.TGT.missing()
        self.stack.local(
            'CINDER_ENABLED_BACKENDS=k2:k2-iscsi,k2:k2-fc',
            'K2_BACKEND_k2_fc_protocol=FC',
            'K2_BACKEND_k2_fc_replication=True',
            f'K2_SIM_PORTALS={",".join(PORTALS)}',
            'K2_SIM_PORTALS_2=127.104.2.1',
            f'K2_DATA_PLANE={"tgt" if self.served else "none"}')
        self.stack.check_run('stack')
        self.array = array.Array(
            f'https://127.0.0.1:{self.stack.ports[0]}',
            str(self.stack.state / 'ca.crt'),
            self.stack.option('k2-iscsi', 'san_password'),
            self.stack.state / 'k2-sim-1' / 'control.password')

    def start_cinder(self):
        """Start Cinder with the plugin's cinder.conf.

        Options for the database, the message broker and keystone come from a
        file of the test.
        """
        run = settings.Settings(
            harness.ROOT, self.stack.dest / 'cloud', settings.free_port(), 0,
            keep=True)
        state.prepare(run)
        run.cinder_conf.write_text(state.render_common(
            run, settings.BACKENDS, sys.prefix))
        log = run.log_dir / 'cinder.log'
        # The plugin writes secrets to a file below HOME, where services of
        # DevStack find it without an option.
        child = children.Child(
            'cinder', [sys.executable, '-m', 'tools.cloud.cinder_service',
                       '--config-file', str(self.stack.conf),
                       '--config-file', str(run.cinder_conf)],
            log, {**stack.environment(), 'HOME': str(self.stack.home)},
            harness.ROOT)
        self.addCleanup(child.stop)
        cinder = client.connect(run.cinder_url)
        for ready in (lambda: stack.api_answers(run),
                      lambda: len(cinder.pools.list()) >= 2):
            child.wait_ready(ready, SECONDS)
        return client.Watcher(cinder, log)

    def test_the_main_job(self):
        watcher = self.start_cinder()
        with contextlib.redirect_stdout(io.StringIO()):
            scenario.make_types(watcher.cinder)
            for back_end in settings.BACKENDS:
                scenario.Job(watcher, back_end).run()
            self.check_mappings(watcher.cinder)
            scenario.remove_all(watcher)
        self.assertEqual({}, self.array.leftovers())
        self.stack.check_run('unstack')
        self.assertEqual([], self.stack.arrays())
        self.stack.check_run('clean')
        self.assertEqual([], self.stack.left())

    def check_mappings(self, cinder):
        """Check that each attachment has a mapping and can be used."""
        found = [cinder.attachments.show(item.id).connection_info
                 for item in cinder.attachments.list(detailed=True)]
        self.assertEqual(['fibre_channel', 'iscsi'], sorted(
            info['driver_volume_type'] for info in found))
        self.assertEqual(
            len(found), len(self.array.objects()['mappings']))
        for info in found:
            if info['driver_volume_type'] == 'iscsi':
                self.check_paths(info)

    def check_paths(self, info):
        self.assertCountEqual([f'{portal}:3260' for portal in PORTALS],
                              info['target_portals'])
        if not self.served:
            return
        for path in iscsi.paths(info, scenario.ISCSI_CONNECTOR['initiator']):
            path.io('write -P 7 1M 1M', 'read -P 7 1M 1M')


class TestNoArray(harness.Case, unittest.TestCase):
    """The plugin's check of an array, which is retried, as in the driver."""

    def test_an_array_that_is_not_there(self):
        path = self.stack.dest / 'password'
        path.write_text('Sesame 1')
        port = self.stack.ports[0]
        self.stack.local(
            'K2_SIMULATOR=False', 'K2_CHECK=True', 'K2_ALL_san_ip=127.0.0.1',
            'SERVICE_TIMEOUT=3',
            f'K2_ALL_san_api_port={port}',
            f'K2_ALL_san_password_file={path}')
        self.assert_refused('K2_CHECK=False')
        self.assertRegex(self.stack.output,
                         f'(?m)^  problem .*127.0.0.1:{port}')
        self.assertNotIn('Sesame', self.stack.output)
