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
import json
import sqlite3
import stat
import time
from unittest import mock

import k2_sim
from k2_sim.state import disk
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
            self.assertEqual((2,), database.execute(
                'PRAGMA user_version').fetchone())
            database.execute('PRAGMA user_version=99')
        self._refused('format 99 is not known')

    def change(self, *statements):
        """Change the file behind the array's back."""
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()

    def plant(self, resource, **values):
        """Give the last row other values and their checksum; return its id."""
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            number, body = database.execute(
                'SELECT id, body FROM objects WHERE resource=? ORDER BY -id',
                (resource,)).fetchone()
            self.put(database, resource, number, json.dumps({
                **json.loads(body), **values}).encode())
        return number

    def put(self, database, resource, number, body):
        """Write a row with its checksum."""
        database.execute(
            'INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)',
            disk._with_sum((resource, number, body)))
        database.commit()

    def test_changed_rows(self):
        for table, change in (
                ('objects', "body=replace(body, 'sim-k2-a', 'sim-k2-b')"),
                ('objects', "body='{'"), ('objects', 'sum=NULL'),
                ('counters', 'value=value+1'),
                ('sequences', 'number=number-1')):
            self.remove()
            array = self.open()
            self.fill(array)
            array.close()
            self.change(f'UPDATE {table} SET {change}')
            self._refused(f'is damaged: {table} ')
            self._refused('does not match its checksum; restore it from a')

    def remove(self):
        """Remove the state."""
        for path in self.path.parent.glob('state.db*'):
            path.unlink()

    def test_zeros_in_the_middle(self):
        """Wherever they are, they are refused or change nothing."""
        array = self.open()
        self.fill(array)
        before = array.control.dump()
        array.close()
        whole = self.path.read_bytes()
        refused = 0
        for place in range(0, len(whole) - 200, 997):
            self.path.write_bytes(
                whole[:place] + bytes(200) + whole[place + 200:])
            try:
                array = self.open()
            except k2_sim.StateError as exc:
                self.assertNotIn('\n', str(exc))
                refused += 1
            else:
                self.assertEqual(before, array.control.dump())
                array.close()
        self.assertGreater(refused, len(whole) / 997 / 3)

    def test_a_file_of_format_1(self):
        """It gets checksums, and is refused from then on if changed."""
        array = self.open()
        self.fill(array)
        before = array.control.dump()
        array.close()
        self.change(*(f'ALTER TABLE {table} DROP COLUMN sum' for table in (
            'objects', 'counters', 'sequences')), 'PRAGMA user_version=1')
        array = self.open()
        self.assertEqual(before, array.control.dump())
        array.close()
        self.change('UPDATE counters SET value=value+1')
        self._refused('does not match its checksum')

    def test_unreadable_rows(self):
        self.open().close()
        for body, text in ((b'{', 'truncated'), (b'{"id": 7}', 'another id'),
                           (b'[]', 'Expected'), (b'{"id": 1}', 'KeyError')):
            with contextlib.closing(sqlite3.connect(self.path)) as database:
                self.put(database, 'volumes', 1, body)
            self._refused('is damaged: volumes 1')
            self._refused(text)

    def test_value_of_another_type(self):
        array = self.open()
        self.fill(array)
        array.close()
        whole = self.path.read_bytes()
        for resource, values in (
                ('volumes', {'size': 'large'}), ('volumes', {'read_only': 1}),
                ('hosts', {'name': 5})):
            self.path.write_bytes(whole)
            number = self.plant(resource, **values)
            self._refused('is damaged: ')
            self._refused(f'{resource} {number} ')

    def test_null(self):
        array = self.open()
        self.fill(array)
        array.close()
        whole = self.path.read_bytes()
        for resource, field in (
                ('volumes', 'name'), ('volumes', 'volume_group'),
                ('snapshots', 'volume_group'), ('hosts', 'name'),
                ('mappings', 'host')):
            self.path.write_bytes(whole)
            number = self.plant(resource, **{field: None})
            self._refused(f'{resource} {number} with a bad {field}: null')

    def test_reference_to_nothing(self):
        array = self.open()
        self.fill(array)
        array.close()
        for ref in ('/volume_groups/99', '/volume_groups/', 'a\nb',
                    '/system/servers/1'):
            number = self.plant('volumes', volume_group=ref)
            self._refused(
                f'is damaged: it has volumes {number} with a bad volume_group:'
                f' {ref!r}; restore it from a copy, or remove the whole'
                ' directory to begin with a new array')

    def test_missing_rows(self):
        for statement, text in (
                ("DELETE FROM objects WHERE resource='system/state'",
                 'no system/state'),
                ('DELETE FROM objects', 'no system/state'),
                ('DELETE FROM counters', 'beyond the last number')):
            self.remove()
            self.open().close()
            self.change(statement)
            self._refused('is damaged: it has ')
            self._refused(text)

    def test_missing_table(self):
        self.open().close()
        self.change('ALTER TABLE counters DROP COLUMN sum')
        self._refused('is damaged: no such column: sum; restore')

    def test_times_that_no_clock_reaches(self):
        array = self.open()
        self.fill(array)
        array.close()
        for stamp in 1e308, -1.0:
            self.plant('volumes', creation_time=stamp)
            self._refused('with a bad creation_time')

    def test_new_state_does_not_need_its_log(self):
        """Whoever copies only the file has an array."""
        array = self.open(name='k2-x')
        whole = self.path.read_bytes()
        array.close()
        self.remove()
        self.path.write_bytes(whole)
        self.assertEqual('k2-x', self.open().name)

    def test_unknown_resource(self):
        self.open().close()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            self.put(database, 'x', 1, b'{"id": 1}')
        self._refused('unknown resource x')


class ClockTest(StateTest):

    def test_time_that_was_advanced(self):
        """It does not go back, even if nothing was stamped since."""
        array = self.open()
        array.control.advance(10 ** 6)
        before = array.clock.time()
        array.close()
        self.assertGreaterEqual(self.open().clock.time(), before)

    def test_time_that_was_stamped(self):
        array = self.open()
        test = self.talk(array)
        array.clock.advance(10 ** 6)
        made = test.get(f'volume_groups/{test.group()["id"]}')
        array.close()
        array = self.open()
        self.assertGreaterEqual(array.clock.time(), made['creation_time'])

    def test_time_of_a_restored_state(self):
        first = self.open()
        first.clock.advance(10 ** 6)
        self.talk(first).group()
        saved, before = first.save(), first.clock.time()
        first.close()
        self.path = self.directory / 'other.db'
        second = self.open()
        second.restore(saved)
        self.assertGreaterEqual(second.clock.time() + 10, before)

    def test_the_clock_of_the_machine_is_set_back(self):
        """Time passes from then on as before."""
        clock = k2_sim.Clock()
        with mock.patch.object(time, 'time', autospec=True) as machine:
            machine.return_value = start = time.monotonic() + 10 ** 9
            clock.advance(5)
            self.assertEqual(start + 5, clock.time())
            machine.return_value -= 60
            self.assertEqual(start + 5, clock.time())
            machine.return_value += 2
            self.assertEqual(start + 7, clock.time())
            clock.advance(10)
            self.assertEqual(start + 17, clock.time())
