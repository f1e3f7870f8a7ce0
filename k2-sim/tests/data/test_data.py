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

"""What volumes, snapshots, views and clones hold: bytes in files."""

import contextlib
import os
import threading

import ddt
import fixtures

import k2_sim
from k2_sim.protocol import peering
from k2_sim.state import schema
from tests import base

KIB = 1024
BLOCK = 4096
GIB = 2 ** 30


class DataTest(base.ArrayTest):
    """An array on disk with files, and helpers that access their bytes."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.open()

    def open(self, **options):
        """Start the array, or after close() the same one again."""
        self.contents = k2_sim.Contents(self.directory / 'content')
        self.start_array(self.state_path, contents=self.contents, **options)
        self.data = self.control.data

    def image(self, snapshot):
        """The path of the only image of a snapshot or view."""
        row, = self.array.store.find(
            'volsnaps', 'snapshot', f'/snapshots/{snapshot["id"]}')
        return f'volsnaps/{row["id"]}'

    def write(self, path, offset, data):
        self.data.write(*schema.split_ref(f'/{path}'), offset, data)

    def read(self, path, offset, length):
        return self.data.read(
            *schema.split_ref(f'/{path}'), offset, length)

    def discard(self, path, offset, length):
        self.data.discard(*schema.split_ref(f'/{path}'), offset, length)

    def own(self, path, live=False):
        return self.array.own(*schema.split_ref(f'/{path}'), live=live)

    def files(self):
        """The files in the directory, after cleanup."""
        self.control.tick()
        return set(os.listdir(self.contents.directory))

    def named(self):
        """The tokens in rows."""
        return {row['content'] for name in ('volumes', 'volsnaps')
                for row in self.array.store.rows(name) if row.get('content')}


class TestData(DataTest):

    def test_nothing_until_it_is_needed(self):
        """Creates, snapshots, views, clones touch no file (VOL-1, SNP-6)."""
        group = self.group()
        volume = self.volume(group)
        snapshot = self.snapshot(group)
        self.view(snapshot)
        self.patch(f'volume_groups/{group["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})
        self.post('volumes', self.clone_body(group, snapshot, volume))
        self.assertEqual(set(), self.files())
        self.assertEqual(bytes(9), self.read('volumes/31', 5, 9))

    def test_each_has_its_own(self):
        """SNP-5, SNP-7, CLN-1, RST-1: no object shows what another wrote."""
        group = self.group()
        volume = self.volume(group)
        self.write('volumes/31', 5000, b'one')
        snapshot = self.snapshot(group)
        view = self.view(snapshot)
        clone = self.post('volumes', self.clone_body(
            group, snapshot, volume))
        self.assertEqual(1, len(self.files()))
        places = {'volumes/31': b'two', self.image(view): b'six',
                  f'volumes/{clone["id"]}': b'ten'}
        for path, data in places.items():
            self.write(path, 5000, data)
        places[self.image(snapshot)] = b'one'
        for path, data in places.items():
            self.assertEqual(data, self.read(path, 5000, 3))
        self.assertEqual(4, len(self.files()))
        self.delete(f'volumes/{clone["id"]}')
        self.delete(f'snapshots/{view["id"]}')
        self.patch(f'volume_groups/{group["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})
        self.assertEqual(b'one', self.read('volumes/31', 5000, 3))
        self.assertEqual(1, len(self.files()))

    def test_an_id_that_comes_back(self):
        """OBJ-7: a volume with a reused ID shows no old data."""
        self.control.set_behaviors(reuse_ids=True)
        group = self.group()
        for _ in range(3):
            path = f'volumes/{self.volume(group)["id"]}'
            self.assertEqual('volumes/2', path)
            self.assertEqual(bytes(3), self.read(path, 5000, 3))
            self.write(path, 5000, b'one')
            image = self.image(self.snapshot(group))
            self.assertEqual('volsnaps/1', image)
            self.assertEqual(b'one', self.read(image, 5000, 3))
            self.delete('snapshots/1')
            self.delete(path)
        self.assertEqual(set(), self.files())

    def test_copies_are_sparse(self):
        """A copy takes the blocks that were written, not its size."""
        group = self.group()
        self.volume(group, size=100 * base.GIB)
        self.write('volumes/31', 50 * GIB, b'x' * BLOCK)
        self.snapshot(group)
        token = self.own('volumes/31')
        self.assertEqual(100 * GIB, self.contents.path(token).stat().st_size)
        self.assertLessEqual(self.contents.used(token), 4 * BLOCK)
        self.assertEqual(b'x' * BLOCK,
                         self.read('volumes/31', 50 * GIB, BLOCK))
        self.discard('volumes/31', 50 * GIB, BLOCK)
        self.assertEqual(0, self.contents.used(token))

    def test_too_large_for_the_file_system(self):
        """The refused file is removed."""
        group = self.group()
        for number, power in ((31, 50), (32, 53)):
            self.volume(group, f'v{number}', 2 ** power)
            error = self.assertRaises(
                k2_sim.StateError, self.own, f'volumes/{number}')
            self.assertIn('cannot copy contents in', str(error))
        self.assertEqual([], os.listdir(self.contents.directory))

    def test_growth(self):
        """VOL-2: an owned file is as long as its volume."""
        self.volume(self.group(), size=1)
        token = self.own('volumes/31')
        self.write('volumes/31', 0, b'x' * KIB)
        self.patch('volumes/31', {'size': 2})
        self.assertEqual(token, self.own('volumes/31'))
        self.assertEqual(2048, self.contents.path(token).stat().st_size)
        self.assertEqual(b'x' + bytes(4), self.read('volumes/31', 1023, 5))

    def test_restart(self):
        """Files without rows are removed at the start; rows keep theirs."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'kept')
        kept = self.files()
        self.array.close()
        self.contents.clone('')
        self.open()
        self.assertEqual(kept, self.files())
        self.assertEqual(b'kept', self.read('volumes/31', 0, 4))

    def test_files_are_private(self):
        self.volume(self.group())
        path = self.contents.path(self.own('volumes/31'))
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual(0o700, path.parent.stat().st_mode & 0o777)

    def test_refused_write_keeps_the_file(self):
        """A request that is undone releases no reference."""
        group = self.group()
        volume = self.volume(group)
        self.write('volumes/31', 0, b'x')
        self.refused('DELETE', 'volumes/__bulk', [
            {'id': volume['id']}, {'id': 99}], 404)
        self.assertEqual(1, len(self.files()))
        self.assertEqual(b'x', self.read('volumes/31', 0, 1))

    def test_reset_removes_files(self):
        self.volume(self.group())
        self.write('volumes/31', 0, b'x')
        self.control.reset()
        self.assertEqual([], os.listdir(self.contents.directory))

    def test_order_on_disk(self):
        """A row is stored before its export, and deleted before its file."""
        self.volume(self.group())
        store, seen = self.array.store, []
        flush = store.flush

        def note():
            flush()
            seen.append((self.named(), os.listdir(self.contents.directory)))

        store.flush = note
        token = self.own('volumes/31')
        self.delete('volumes/31')
        self.control.tick()
        self.assertEqual([({token}, [token]), (set(), [token])], seen)
        self.assertEqual([], os.listdir(self.contents.directory))

    def test_named_again_while_it_is_to_go(self):
        """A file that a restore refers to meanwhile stays."""
        self.volume(self.group())
        self.write('volumes/31', 0, b'x')
        saved = self.array.save()
        self.delete('volumes/31')
        store = self.array.store
        flush = store.flush

        def restore_first():
            store.flush = flush
            self.array.restore(saved)
            flush()

        store.flush = restore_first
        self.control.tick()
        self.assertEqual(b'x', self.read('volumes/31', 0, 1))
        self.assertEqual(self.named(), self.files())

    def test_saved_state(self):
        """Existing files of saved tokens are used, the rest is empty."""
        group = self.group()
        self.volume(group)
        self.volume(group, 'vol-2')
        for path in ('volumes/31', 'volumes/32'):
            self.write(path, 0, path.encode())
        saved = self.array.save()
        self.delete('volumes/32')
        self.files()
        self.array.restore(saved)
        self.assertEqual(b'volumes/31', self.read('volumes/31', 0, 10))
        self.assertEqual(bytes(10), self.read('volumes/32', 0, 10))
        self.assertEqual(self.named(), self.files())
        self.assertIn('The data of 1 volumes and images is not in',
                      self.log.output)

    def test_state_with_tokens_of_a_path(self):
        """No token of a saved state leads out of the directory."""
        self.volume(self.group())
        self.write('volumes/31', 0, b'x')
        saved = self.array.save()
        saved.objects['volumes'][1] = {
            **saved.objects['volumes'][1], 'content': '../state.db'}
        self.array.restore(saved)
        self.assertEqual(bytes(4), self.read('volumes/31', 0, 4))

    def test_text(self):
        """Tokens are texts in front of the data."""
        group = self.group()
        self.volume(group)
        self.control.write(31, 'a longer text')
        snapshot = self.snapshot(group)
        view = self.view(snapshot)
        self.control.write(31, 'é')
        self.control.write(31, 'view', view['id'])
        self.assertEqual({'31': 'é'}, self.control.contents())
        self.assertEqual('a longer text', self.control.read(
            31, snapshot['id']))
        self.assertEqual('view', self.control.read(31, view['id']))
        self.assertEqual('é'.encode() + b'\0', self.read('volumes/31', 0, 3))
        error = self.assertRaises(
            k2_sim.ApiError, self.control.write, 31, 'x' * 1024)
        self.assertEqual('A token has at most 1023 bytes', error.message)


class TestLive(DataTest):
    """Files that initiators write to."""

    def serve(self, *paths):
        """Export rows as a data plane does; returns their files."""
        self.pauses = []

        @contextlib.contextmanager
        def pause():
            self.pauses.append(len(self.contents.tokens()))
            yield

        self.contents.pause = pause
        return [self.contents.path(self.own(path, live=True))
                for path in paths]

    def test_snapshot_of_what_changes(self):
        """One pause for all volumes of the group (SNP-6)."""
        group = self.group()
        self.volume(group)
        self.volume(group, 'vol-2')
        self.volume(group, 'vol-3')
        for path in ('volumes/31', 'volumes/32', 'volumes/33'):
            self.write(path, 0, path.encode())
        live = self.serve('volumes/31', 'volumes/32')
        snapshot = self.snapshot(group)
        self.assertEqual([3], self.pauses)
        for path in live:
            with path.open('r+b') as file:
                file.write(b'changed')
        rows = self.array.store.find(
            'volsnaps', 'snapshot', f'/snapshots/{snapshot["id"]}')
        for row in rows:
            self.assertEqual(row['source'][1:].encode(), self.read(
                f'volsnaps/{row["id"]}', 0, 10))
        self.assertEqual(b'changed', self.read('volumes/31', 0, 7))
        self.assertEqual(live[0].name, self.own('volumes/31'))
        self.assertEqual(self.named(), self.files())

    def test_files_are_flushed_before_the_pause(self):
        """What there is to write would keep initiators waiting in it."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'x')
        self.serve('volumes/31')
        flushed = []

        def flush(tokens):
            self.assertEqual([], self.pauses)
            writer = threading.Thread(
                target=self.write, args=('volumes/31', 0, b'y'))
            writer.start()
            writer.join(10)
            self.assertFalse(writer.is_alive())
            flushed.append(set(tokens))

        self.useFixture(fixtures.MockPatchObject(
            self.contents, 'flush', side_effect=flush))
        token = self.own('volumes/31')
        snapshot = self.snapshot(group)
        self.assertEqual([{token}], flushed)
        self.assertEqual(b'y', self.read(self.image(snapshot), 0, 1))
        self.assertEqual([1], self.pauses)

    def test_copies_of_a_refused_snapshot_go(self):
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'x')
        self.snapshot(group)
        self.serve('volumes/31')
        text = self.refused('POST', 'snapshots', self.snapshot_body(
            base.ref('volume_groups', group), 'snap-1'))
        self.assertIn('already exists', text)
        self.assertEqual([2], self.pauses)
        self.assertEqual(self.named(), self.files())

    def test_bulk(self):
        """All snapshots of a bulk call are of the same moment (BLK-1)."""
        bodies = []
        for name in ('a', 'b'):
            group = self.group(name)
            volume = self.volume(group, name)
            self.write(f'volumes/{volume["id"]}', 0, name.encode())
            bodies.append(self.snapshot_body(
                base.ref('volume_groups', group), 'snap'))
        self.serve('volumes/31', 'volumes/32')
        self.control.set_behaviors(bulk=['*'])
        self.post('snapshots/__bulk', bodies)
        self.assertEqual([2], self.pauses)
        self.assertEqual(self.named(), self.files())

    def test_view_that_changes(self):
        """SNP-11: a snapshot of a view that is exported."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'x')
        view = self.view(self.snapshot(group))
        file, = self.serve(self.image(view))
        snapshot = self.post('snapshots', self.snapshot_body(
            base.ref('snapshots', view), 'of-view'))
        file.write_bytes(b'y')
        self.assertEqual(b'x', self.read(self.image(snapshot), 0, 1))

    def test_schedule(self):
        """A scheduled snapshot is taken, but no reader waits for it."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'x')
        scheduler = self.post('snapshot_scheduler', {
            'scheduler_name': 'hourly', 'time_criteria': '00m:01h:00d',
            'retention_policy': base.ref('retention_policies', 1)})
        self.post('snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', scheduler),
            'volume_group': base.ref('volume_groups', group)})
        self.serve('volumes/31')
        self.array.core.has_maintenance = True
        self.clock.advance(3601)
        self.assertEqual(0, self.get('snapshots')['total'])
        self.control.tick()
        self.assertEqual(1, self.get('snapshots')['total'])
        self.assertEqual(1, len(self.pauses))

    def test_write_while_a_snapshot_is_taken(self):
        """Both are complete: the write waits for the copy."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'a' * BLOCK)
        self.serve('volumes/31')
        writer = threading.Thread(
            target=self.write, args=('volumes/31', 0, b'b' * BLOCK))

        @contextlib.contextmanager
        def pause():
            writer.start()
            writer.join(0.05)
            self.assertTrue(writer.is_alive())
            yield

        self.contents.pause = pause
        snapshot = self.snapshot(group)
        writer.join(10)
        self.assertEqual(b'a' * BLOCK,
                         self.read(self.image(snapshot), 0, BLOCK))
        self.assertEqual(b'b' * BLOCK, self.read('volumes/31', 0, BLOCK))

    def test_snapshot_while_data_is_written(self):
        """It waits for the write, and the next write does not change it."""
        group = self.group()
        self.volume(group)
        self.write('volumes/31', 0, b'a')
        taker = threading.Thread(target=self.snapshot, args=(group,))
        with self.array.core.data_store.writing('volumes', 31) as token:
            taker.start()
            taker.join(0.05)
            self.assertTrue(taker.is_alive())
            self.contents.write(token, 0, b'b')
        taker.join(10)
        self.write('volumes/31', 0, b'c')
        snapshot, = self.hits('snapshots')
        self.assertEqual(b'b', self.read(self.image(snapshot), 0, 1))

    def test_no_longer_served(self):
        """Then snapshots share the file again."""
        group = self.group()
        self.volume(group)
        file, = self.serve('volumes/31')
        self.contents.live.discard(file.name)
        self.snapshot(group)
        self.assertEqual([], self.pauses)
        self.assertEqual({file.name}, self.files())


@ddt.ddt
class TestInterface(DataTest):
    """Data over HTTP."""

    def setUp(self):
        super().setUp()
        self.group_of_all = self.group()
        self.volume(self.group_of_all, size=8)

    def ask(self, method, path, body=b'', status=200, **headers):
        headers = {name.replace('_', '-'): value
                   for name, value in headers.items()}
        reply = self.array.handle(method, f'/sim/v1/data/{path}', '', {
            **base.authorization(), **headers}, body)
        self.assertEqual(status, reply.status, reply.body)
        return reply

    def refuse(self, *args, status=400, **headers):
        reply = self.ask(*args, status=status, **headers)
        return reply.json()['error_msg']

    def test_write_read_discard(self):
        self.ask('PUT', 'volumes/31', b'abc', 204)
        self.ask('PUT', 'volumes/31', b'x' * 5000, 204,
                 Content_Range='bytes 3000-7999/*')
        whole = self.ask('GET', 'volumes/31')
        self.assertEqual(b'abc' + bytes(2997) + b'x' * 5000 + bytes(192),
                         whole.body)
        self.assertEqual('application/octet-stream',
                         whole.headers['Content-Type'])
        self.ask('DELETE', 'volumes/31', b'', 204,
                 Range='bytes=4000-4999')
        part = self.ask('GET', 'volumes/31', b'', 206,
                        Range='bytes=3999-5000')
        self.assertEqual(b'x' + bytes(1000) + b'x', part.body)
        self.assertEqual('bytes 3999-5000/8192',
                         part.headers['Content-Range'])
        rest = self.ask('GET', 'volumes/31', b'', 206, Range='bytes=8190-')
        self.assertEqual('bytes 8190-8191/8192',
                         rest.headers['Content-Range'])
        beyond = self.ask('GET', 'volumes/31', b'', 206,
                          Range='bytes=0-99999')
        self.assertEqual(8192, len(beyond.body))
        self.ask('DELETE', 'volumes/31', b'', 204)
        self.assertEqual(bytes(8192), self.ask('GET', 'volumes/31').body)

    def test_images(self):
        """SNP-5: views can be written, plain snapshots not."""
        self.ask('PUT', 'volumes/31', b'abc', 204)
        snapshot = self.snapshot(self.group_of_all)
        view = self.image(self.view(snapshot))
        self.ask('PUT', view, b'def', 204)
        plain = self.image(snapshot)
        self.assertEqual(b'abc', self.ask('GET', plain).body[:3])
        self.assertEqual(b'def', self.ask('GET', view).body[:3])
        for method in ('PUT', 'DELETE'):
            self.assertEqual('vg-a:snap-1:vol-1 is read-only',
                             self.refuse(method, plain, b'x'))

    @ddt.data('bytes=8192-', 'bytes=5-4', 'bytes=9000-9001')
    def test_range_outside(self, header):
        for method in ('GET', 'DELETE'):
            self.refuse(method, 'volumes/31', status=416, Range=header)

    @ddt.data('bytes=-5', 'bytes=1-2,4-5', 'lines=1-2', 'bytes=a-b')
    def test_range_of_another_form(self, header):
        self.assertEqual(
            'Range must be bytes=FIRST-LAST or bytes=FIRST-',
            self.refuse('GET', 'volumes/31', Range=header))

    @ddt.data('bytes 0-4/*', 'bytes */8', '0-2', 'bytes 5-2/*')
    def test_content_range_of_another_form(self, header):
        self.assertEqual(
            'Content-Range must be bytes FIRST-LAST/*, and here cover'
            ' 3 bytes',
            self.refuse('PUT', 'volumes/31', b'abc', Content_Range=header))

    def test_write_beyond_the_end(self):
        self.assertEqual(
            '/volumes/31 has 8192 bytes', self.refuse(
                'PUT', 'volumes/31', b'abc', status=416,
                Content_Range='bytes 8190-8192/*'))
        self.assertEqual(bytes(8192), self.ask('GET', 'volumes/31').body)

    def test_too_much_at_once(self):
        self.volume(self.group_of_all, 'large', 16 * KIB + 1)
        self.assertEqual(
            'One request reads at most 16777216 bytes: give a Range',
            self.refuse('GET', 'volumes/32'))
        self.assertEqual(16 * 2 ** 20, len(self.ask(
            'GET', 'volumes/32', b'', 206, Range='bytes=0-16777215').body))

    def test_read_only_volume(self):
        """REP-16: like the volumes of a target."""
        self.patch('volumes/31', {'read_only': True})
        for method in ('PUT', 'DELETE'):
            self.assertEqual('vol-1 is read-only',
                             self.refuse(method, 'volumes/31', b'x'))

    def test_statistics(self):
        """STA-2: what is read and written is counted."""
        volume = self.volume(self.group('vg-counted'), 'counted')
        path = f'volumes/{volume["id"]}'
        for _ in range(5):
            self.write(path, 0, bytes(8192))
            self.read(path, 0, 4096)
        self.clock.advance(1)
        point, = self.hits(f'stats/{path}')
        self.assertEqual((2, 12288), (
            point['iops_avg'], point['throughput_avg']))

    def test_full_array(self):
        """CAP-3: writes are refused, discards are not."""
        self.control.set_behaviors(full=True)
        self.assertEqual('No space is left on the array',
                         self.refuse('PUT', 'volumes/31', b'x'))
        self.ask('DELETE', 'volumes/31', b'', 204)

    @ddt.data('volumes/1', 'volumes/99', 'volsnaps/1')
    def test_nothing_there(self, path):
        for method in ('GET', 'PUT', 'DELETE'):
            self.refuse(method, path, b'', status=404)

    def test_other_methods_and_paths(self):
        self.refuse('POST', 'volumes/31', status=405)
        self.refuse('GET', 'hosts/1', status=404)
        self.refuse('GET', 'volumes', status=404)

    def test_broken_directory(self):
        """The reason is reported, and nothing else fails."""
        self.ask('PUT', 'volumes/31', b'abc', 204)
        path = self.contents.path(self.own('volumes/31'))
        path.unlink()
        text = self.refuse('GET', 'volumes/31', status=500)
        self.assertIn('cannot read contents in', text)
        self.get('volumes/31')

    def test_array_without_contents(self):
        self.array = k2_sim.Array(clock=self.clock)
        self.addCleanup(self.array.close)
        self.volume(self.group())
        for method in ('GET', 'PUT', 'DELETE'):
            self.assertIn('made without contents', self.refuse(
                method, 'volumes/31', b'', Range='bytes=0-5'))
        self.assertRaises(TypeError, self.own, 'volumes/31')

    def test_nothing_arrives_without_contents(self):
        array = k2_sim.Array(clock=self.clock)
        self.addCleanup(array.close)
        reply = array.handle(
            'POST', peering.DATA_PATH, headers=base.authorization(),
            body=b'')
        self.assertEqual(
            (400, 'This array keeps no data'),
            (reply.status, reply.json()['error_msg']))

    def test_due_without_contents(self):
        """Maintenance runs by the clock here, too."""
        array = k2_sim.Array(clock=self.clock)
        self.addCleanup(array.close)
        self.array, self.control = array, array.control
        group = self.group()
        self.volume(group)
        policy = self.post('retention_policies', {
            'name': 'short', 'num_snapshots': 0, 'weeks': 0, 'days': 0,
            'hours': 1})
        self.snapshot(
            group, is_auto_deleteable=True,
            retention_policy=base.ref('retention_policies', policy))
        self.control.advance(7200)
        self.assertEqual([], self.array.store.rows('snapshots'))
