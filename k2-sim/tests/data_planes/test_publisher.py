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
"""What is exported when part of it fails."""

import threading
import time
from unittest import mock

import ddt
import fixtures

import k2_sim
from k2_sim.data_planes import base as data_planes
from k2_sim.data_planes import publisher
from tests import base
from tests.data_planes import test_data_planes


@ddt.ddt
class TestTrouble(test_data_planes.ServedTest):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def failing(self, name):
        """Make an operation of the file system fail."""
        return mock.patch.object(
            self.array.core.contents, name, autospec=True,
            side_effect=k2_sim.StateError('no room'))

    def fail(self, method, path, body=None):
        reply = self.call(method, path, body)
        self.assertEqual((500, {'error_msg': 'no room'}),
                         (reply.status, reply.json()))

    def other_mapping(self):
        other = self.volume(self.vg, 'vol-2', size=base.GIB)
        return {'host': base.ref('hosts', self.node),
                'volume': base.ref('volumes', other)}

    def test_volume_without_a_file(self):
        """The rest is exported, and this volume is not."""
        record = self.map(self.node, self.vol)
        with self.failing('clone'):
            self.fail('POST', 'mappings', self.other_mapping())
            self.assertEqual({1}, set(self.seen()))
            self.fail('DELETE', f'mappings/{record["id"]}')
            self.assertEqual((), self.data_plane.exports.hosts)
        self.map(self.node, self.vol)
        self.assertEqual({1, 2}, set(self.seen()))
        self.assertIn('does not serve everything: no room', self.log.output)
        self.assertNotIn('Traceback', self.log.output)

    def test_volume_that_cannot_grow(self):
        """It keeps its size."""
        self.map(self.node, self.vol)
        before = self.seen()[1].path
        with self.failing('resize'):
            self.fail('PATCH', f'volumes/{self.vol["id"]}',
                      {'size': 2 * base.GIB})
        self.assertEqual(before, self.seen()[1].path)
        self.assertEqual({before.name}, self.array.core.contents.live)

    def test_tried_again(self):
        """Even without a change: there may be space by now."""
        with mock.patch.multiple(publisher, _LOOK_SECONDS=0.001,
                                 _RETRY_SECONDS=0.001):
            with self.failing('clone'):
                self.fail('POST', 'mappings', self.other_mapping())
            served = threading.Event()
            with mock.patch.object(
                    self.data_plane, 'publish', autospec=True,
                    side_effect=lambda exports: exports.hosts
                    and served.set()):
                self.assertTrue(served.wait(10))

    def test_data_plane_that_cannot_be_read(self):
        """It is published again, and so are later changes."""
        failures = [OSError('no tgtadm')]

        def traffic(*args):
            if failures:
                raise failures.pop()
            return ()

        with mock.patch.object(publisher, '_LOOK_SECONDS', 0.001), \
                mock.patch.object(type(self.data_plane), 'traffic', traffic):
            # The publisher waits for the former time once more.
            self.map(self.node, self.vol)
            while failures:
                time.sleep(0.001)
            other = self.volume(self.vg, 'vol-2', size=base.GIB)
            self.map(self.node, other)
        self.assertEqual({1, 2}, set(self.seen()))
        self.assertIn('cannot be read: no tgtadm', self.log.output)

    def test_growth_of_what_is_read_only(self):
        """VOL-3, also with a file that a snapshot shares."""
        self.control.data.write('volumes', self.vol['id'], 0, b'x')
        self.snapshot(self.vg)
        path = f'volumes/{self.vol["id"]}'
        self.patch(path, {'read_only': True})
        self.map(self.node, self.vol)
        self.patch(path, {'size': 2 * base.GIB})
        lun = self.seen()[1]
        self.assertTrue(lun.is_read_only)
        self.assertEqual(2 ** 31, lun.path.stat().st_size)
        row, = self.array.store.rows('volsnaps')
        self.assertEqual(
            2 ** 30, self.array.core.contents.size(row['content']))

    def test_failure_for_nobody(self):
        """A failure in a background task fails no later request."""
        record = self.map(self.node, self.vol)
        self.data_plane.failure = data_planes.DataPlaneError('no more LUNs')
        with self.array.lock, self.array.store.transaction():
            self.array.store.update(
                'volumes', self.vol['id'], size=2 * base.GIB)
        self.assertEqual(1, len(self.hits('mappings')))
        self.data_plane.failure = None
        self.delete(f'mappings/{record["id"]}')

    @ddt.data('\0', '\n', 'a b')
    def test_initiator_that_no_command_takes(self, text):
        """INI-5: names consist of printable characters."""
        text = self.refused('POST', 'host_iqns', {
            'iqn': f'{test_data_planes.IQN}{text}',
            'host': base.ref('hosts', self.node)})
        self.assertIn('Not an iSCSI name', text)

    @ddt.data({'username': 'a\0b'}, {'password': 'secret\0secret'})
    def test_account_that_no_command_takes(self, fields):
        """CHP-1."""
        self.assertEqual(
            'Username and password cannot have control characters',
            self.refused('POST', 'host_auth_profiles', {
                'name': 'p', 'type': 'CHAP', 'username': 'u',
                'password': test_data_planes.SECRET, **fields}))
