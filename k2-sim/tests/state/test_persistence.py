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

"""What was answered outlives the process, however it ends."""

import contextlib
import sqlite3
import stat


import k2_sim
from tests import base


class StateTest(base.DirectoryTest):

    def setUp(self):
        super().setUp()
        self.path = self.state_path

    def open(self, profile='sdp', **options):
        array = k2_sim.Array(profile, self.path, **options)
        self.addCleanup(array.close)
        return array

    def talk(self, array):
        """A test case that talks to this array."""
        test = base.ArrayTest('call')
        test.array, test.control = array, array.control
        return test

    def fill(self, array):
        test = self.talk(array)
        group = test.group()
        volume = test.volume(group)
        snapshot = test.snapshot(group)
        test.map(test.host(), test.view(snapshot), 'snapshots')
        test.post('volumes', test.clone_body(group, snapshot, volume))
        test.post('host_auth_profiles', {
            'name': 'p', 'type': 'CHAP', 'username': 'u',
            'password': 'Example-Pw-01'})
        test.expect(201, 'POST', 'host_groups', {'name': 'hg'},
                    **{'X-K2-Sequence': 'op=1'})
        test.delete('host_groups/5')
        return test


class TestRestart(StateTest):

    def test_everything_is_there_again(self):
        """Including used numbers and sequences: OBJ-7, SEQ-1."""
        first = self.open(name='k2-x', portals=['192.0.2.99'])
        self.fill(first)
        before = first.control.dump()
        first.close()
        second = self.open(name='other')
        self.assertEqual(before, second.control.dump())
        self.assertEqual('k2-x', second.name)
        test = self.talk(second)
        test.refused('DELETE', 'snapshots/51')
        test.refused('POST', 'host_groups', {'name': 'x'}, 409,
                     **{'X-K2-Sequence': 'op=1'})
        self.assertEqual(6, test.post('host_groups', {'name': 'x'})['id'])
        test.patch('host_auth_profiles/1',
                   {'new_password': 'Example-Pw-02'})
        self.assertEqual(1, len(test.hits('snapshots?name=vg-a:view-1')))

    def test_refused_requests_leave_nothing(self):
        first = self.open()
        test = self.fill(first)
        before = first.control.dump()
        test.refused('POST', 'snapshots/__bulk', [
            test.snapshot_body({'ref': '/volume_groups/14'}, 'a'),
            test.snapshot_body({'ref': '/volume_groups/99'}, 'a')])
        first.close()
        self.assertEqual(before, self.open().control.dump())

    def test_reset_is_kept_too(self):
        first = self.open(clock=k2_sim.FakeClock())
        fresh = first.control.dump()
        self.fill(first)
        first.control.reset()
        first.close()
        self.assertEqual(fresh, self.open().control.dump())

    def test_write_that_the_disk_refuses(self):
        """The file has no part of it, and no request succeeds any more."""
        array = self.open()
        before = array.control.dump()
        test = self.talk(array)
        # Triggered when the object is written and its counter is not yet.
        array.store._disk._database.execute(
            'CREATE TEMP TRIGGER full BEFORE INSERT ON counters'
            " BEGIN SELECT RAISE(FAIL, 'disk full'); END")
        for method, path, body in (('POST', 'host_groups', {'name': 'half'}),
                                   ('GET', 'host_groups', None),
                                   ('DELETE', 'host_groups/7', None)):
            reply = test.call(method, path, body)
            self.assertEqual(500, reply.status)
            self.assertEqual(
                f'cannot write state {self.path}: disk full',
                reply.json()['error_msg'])
        array.close()
        self.assertEqual(before, self.open().control.dump())

    def test_secrets_are_private(self):
        self.open()
        for path in self.path.parent.iterdir():
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))


class TestUnusable(StateTest):

    def _refused(self, text, *args):
        error = self.assertRaises(k2_sim.StateError, self.open, *args)
        self.assertIn(text, str(error))
        self.assertIn(str(self.path), str(error))
        self.assertNotIn('\n', str(error))

    def test_other_profile(self):
        self.open().close()
        self._refused('is of profile sdp, not k2', 'k2')
        self.open()

    def test_in_use(self):
        array = self.open()
        self._refused('in use by another process')
        array.close()
        self.open()

    def test_no_database(self):
        self.path.write_bytes(b'x' * 5000)
        self._refused('not a database')

    def test_no_directory(self):
        self.path = self.path / 'x' / 'y'
        self._refused('No such file')

    def test_later_format(self):
        self.open().close()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            self.assertEqual((1,), database.execute(
                'PRAGMA user_version').fetchone())
            database.execute('PRAGMA user_version=99')
        self._refused('format 99 is not known')

    def test_damaged_rows(self):
        self.open().close()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            database.execute("UPDATE objects SET body='{'")
            database.commit()
        self._refused('cannot use state')

    def test_unknown_resource(self):
        self.open().close()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            database.execute("INSERT INTO objects VALUES ('x', 1, '{}')")
            database.commit()
        self._refused('unknown resource x')
