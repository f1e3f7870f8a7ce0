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
"""Ownership of files under concurrent operations."""

import contextlib
import os
import pathlib
import shutil
import threading
from unittest import mock

import msgspec

import k2_sim
from k2_sim.protocol import peering
from k2_sim.protocol import request_context
from tests import base
from tests import contexts
from tests.data import test_data

LIMIT = 10


class DataStoreTest(test_data.DataTest):
    """An array with one volume."""

    def setUp(self):
        super().setUp()
        self.group_of_all = self.group()
        self.volume(self.group_of_all)

    def token(self, path='volumes/31'):
        resource, _, number = path.rpartition('/')
        return self.array.store.get(resource, int(number))['content']

    def file(self, path='volumes/31'):
        return self.contents.path(self.token(path))

    def schedule(self, group):
        """A snapshot of a group each hour."""
        if not self.hits('snapshot_scheduler'):
            self.post('snapshot_scheduler', {
                'scheduler_name': 'hourly', 'time_criteria': '00m:01h:00d',
                'retention_policy': base.ref('retention_policies', 1)})
        scheduler, = self.hits('snapshot_scheduler')
        self.post('snapshot_scheduler_mapping', {
            'snapshot_scheduler': base.ref('snapshot_scheduler', scheduler),
            'volume_group': base.ref('volume_groups', group)})

    def full(self):
        """Let the creation of files fail."""
        return mock.patch.object(
            self.contents, 'clone', autospec=True,
            side_effect=k2_sim.StateError('no room'))


class TestTokens(DataStoreTest):
    """A token that others may know stands for the same data permanently."""

    def share(self):
        """Share the volume's token with a snapshot, then delete it."""
        self.write('volumes/31', 0, b'old')
        snapshot = self.snapshot(self.group_of_all)
        self.delete(f'snapshots/{snapshot["id"]}')
        return self.token()

    def test_written_after_its_snapshot_is_gone(self):
        """Another token, but nothing is copied."""
        before = self.share()
        number = self.file().stat().st_ino
        self.write('volumes/31', 0, b'new')
        self.assertNotEqual(before, self.token())
        self.assertEqual(number, self.file().stat().st_ino)
        self.assertEqual({self.token()}, self.files())
        after = self.token()
        self.write('volumes/31', 1, b'new')
        self.assertEqual(after, self.token())

    def test_where_a_file_has_one_name(self):
        before = self.share()
        with mock.patch('os.link', autospec=True,
                        side_effect=PermissionError(1, 'no')):
            self.write('volumes/31', 1, b'new')
        self.assertNotEqual(before, self.token())
        self.assertEqual(b'onew', self.read('volumes/31', 0, 4))
        self.assertEqual({self.token()}, self.files())

    def test_while_somebody_reads_it(self):
        """The second part belongs to the same data as the first."""
        before = self.share()
        with self.array.core.data_store.pinned(lambda: before):
            self.write('volumes/31', 0, b'new')
            self.assertEqual(b'old', self.contents.read(before, 0, 3))
        self.assertEqual(b'new', self.read('volumes/31', 0, 3))
        self.assertEqual({self.token()}, self.files())

    def test_taken_by_a_snapshot_meanwhile(self):
        """The image keeps its data."""
        self.share()
        link = self.contents.link

        def meanwhile(token):
            new = link(token)
            self.snapshot(self.group_of_all, 'meanwhile')
            return new

        with mock.patch.object(self.contents, 'link', autospec=True,
                               side_effect=meanwhile):
            self.write('volumes/31', 0, b'new')
        snapshot, = self.hits('snapshots')
        self.assertEqual(b'old', self.read(self.image(snapshot), 0, 3))
        self.assertEqual(b'new', self.read('volumes/31', 0, 3))
        self.assertEqual(self.named(), self.files())

    def test_after_a_restart(self):
        """After that, the token's users are not known."""
        before = self.share()
        self.array.close()
        self.open()
        self.write('volumes/31', 0, b'new')
        self.assertNotEqual(before, self.token())
        self.array.close()
        self.open()
        self.assertEqual(b'new', self.read('volumes/31', 0, 3))

    def test_row_is_on_disk_before_the_name_goes(self):
        before = self.share()
        store, seen = self.array.store, []
        flush = store.flush

        def note():
            flush()
            seen.append((self.named(), set(os.listdir(
                self.contents.directory)), self.contents.has(before)))

        with mock.patch.object(store, 'flush', autospec=True,
                               side_effect=note):
            self.own('volumes/31')
        named, there, may_be_taken = seen[0]
        self.assertFalse(may_be_taken)
        self.assertEqual(2, len(there))
        self.assertLess(named, there)
        self.assertEqual(named, self.files())


class TestOneMoment(DataStoreTest):
    """SNP-6: all volumes of a snapshot are of the same moment."""

    def setUp(self):
        super().setUp()
        self.volume(self.group_of_all, 'vol-2')
        for path in ('volumes/31', 'volumes/32'):
            self.write(path, 0, b'before')

    def after_copies(self, action):
        """Run something after the copies were made, before they are used."""
        freeze = self.array.core.data_store.freeze

        def frozen(*args):
            freeze(*args)
            action()

        contexts.enter(self, mock.patch.object(
            self.array.core.data_store, 'freeze', autospec=True,
            side_effect=frozen))

    def test_flushed_once(self):
        """Writes wait when the copies are made again."""
        flush = contexts.enter(self, mock.patch.object(
            self.contents, 'flush', autospec=True))
        context = request_context.RequestContext(self.contents)
        with contextlib.ExitStack() as until:
            for path in ('volumes/31', 'volumes/32'):
                context.unfrozen = {self.token(path)}
                self.array.core.data_store.freeze(context, until)
        self.assertEqual(2, len(context.copies))
        flush.assert_called_once()

    def held(self):
        """What the only snapshot holds."""
        snapshot, = self.hits('snapshots')
        return [self.read(f'volsnaps/{row["id"]}', 0, 6)
                for row in self.array.store.find(
                    'volsnaps', 'snapshot', f'/snapshots/{snapshot["id"]}')]

    def test_written_over_http_after_the_copies(self):
        self.own('volumes/31', live=True)
        writer = threading.Thread(
            target=self.write, args=('volumes/32', 0, b'after!'))

        def write():
            writer.start()
            writer.join(0.1)

        self.after_copies(write)
        self.snapshot(self.group_of_all)
        writer.join(LIMIT)
        self.assertEqual(b'after!', self.read('volumes/32', 0, 6))
        self.assertEqual([b'before', b'before'], self.held())

    def test_mapped_after_the_copies(self):
        """All are copied again, and the older copies are removed."""
        self.own('volumes/31', live=True)
        self.after_copies(lambda: self.own('volumes/32', live=True))
        self.snapshot(self.group_of_all)
        self.assertEqual([b'before', b'before'], self.held())
        self.assertEqual(self.named(), self.files())

    def test_deleted_while_it_is_copied(self):
        """The others are in the snapshot."""
        for path in ('volumes/31', 'volumes/32'):
            self.own(path, live=True)
        clone = self.contents.clone

        def delete(*args):
            if self.array.store.get('volumes', 32):
                self.delete('volumes/32')
                self.control.tick()
            return clone(*args)

        with mock.patch.object(self.contents, 'clone', autospec=True,
                               side_effect=delete):
            self.snapshot(self.group_of_all)
        self.assertEqual([b'before'], self.held())
        self.assertEqual(self.named(), self.files())

    def test_unmapped_after_the_copies(self):
        for path in ('volumes/31', 'volumes/32'):
            self.own(path, live=True)

        def end():
            with self.file('volumes/32').open('r+b') as file:
                file.write(b'after!')
            self.contents.live.discard(self.token('volumes/32'))

        self.after_copies(end)
        self.snapshot(self.group_of_all)
        self.assertEqual([b'before', b'before'], self.held())
        self.assertEqual(self.named(), self.files())


class TestRemoval(DataStoreTest):

    def test_volume_that_goes_while_it_is_written(self):
        """As if the write had come first."""
        self.write('volumes/31', 0, b'x')
        with self.array.core.data_store.writing('volumes', 31) as token:
            self.delete('volumes/31')
            self.control.tick()
            self.contents.write(token, 0, b'y')
        self.assertEqual(set(), self.files())

    def test_volume_that_has_gone_before(self):
        self.write('volumes/31', 0, b'x')
        store = self.array.store
        flush = store.flush

        def gone():
            store.flush = flush
            flush()
            self.delete('volumes/31')
            self.control.tick()

        store.flush = gone
        error = self.assertRaises(
            k2_sim.ApiError, self.write, 'volumes/31', 0, b'y')
        self.assertEqual(404, error.status)

    def test_file_that_comes_while_one_of_its_token_goes(self):
        """New data is not mistaken for the data being removed."""
        token = 'a' * 32
        self.give(token, b'old')
        remove = self.contents.remove
        seen = []

        def meanwhile(name):
            if name == token:
                seen.append(self.give(token, b'new').fits)
            remove(name)

        self.clock.advance(601)
        with mock.patch.object(self.contents, 'remove', autospec=True,
                               side_effect=meanwhile):
            self.control.tick()
        self.assertEqual([False], seen)
        self.assertFalse(self.contents.has(token))
        self.assertTrue(self.give(token, b'new').whole)
        self.assertEqual(b'new', self.contents.read(token, 0, 3))

    def give(self, token, data):
        """Give it a peer's data; returns the reply to the last piece."""
        for piece in (peering.Piece(token, '', 4096, [], first=True),
                      peering.Piece(token, '', 0, [(0, data)], last=True)):
            taken = self.control.receive_data(msgspec.msgpack.encode(piece))
        return taken


class TestStart(DataStoreTest):

    def setUp(self):
        super().setUp()
        self.write('volumes/31', 0, b'x')
        self.array.close()

    def put_away(self):
        """As with a file system that is not mounted; returns its new path."""
        away = pathlib.Path(self.directory / 'away')
        self.contents.directory.rename(away)
        return away

    def test_not_mounted(self):
        """No data is dropped, and the text says what to do."""
        away = self.put_away()
        self.contents.directory.mkdir()
        error = self.assertRaises(k2_sim.StateError, self.open)
        self.assertEqual(
            f'{self.contents.directory} has none of the 1 files that the'
            ' state names: mount what belongs there, or remove it to go'
            ' on with volumes that read as zeros', str(error))
        self.contents.directory.rmdir()
        away.rename(self.contents.directory)
        self.open()
        self.assertEqual(b'x', self.read('volumes/31', 0, 1))

    def test_another_directory(self):
        """Nor is another array's data removed."""
        self.put_away()
        token = k2_sim.Contents(self.contents.directory).clone('')
        self.assertRaises(k2_sim.StateError, self.open)
        self.assertEqual([token], os.listdir(self.contents.directory))

    def test_taken_away(self):
        shutil.rmtree(self.contents.directory)
        self.open()
        self.assertEqual(bytes(1), self.read('volumes/31', 0, 1))
        self.assertIn('The data of 1 volumes and images is not in',
                      self.log.output)

    def test_one_is_missing(self):
        self.open()
        self.volume(self.group_of_all, 'vol-2')
        self.write('volumes/32', 0, b'y')
        path = self.file()
        self.array.close()
        path.unlink()
        self.open()
        self.assertEqual((bytes(1), b'y'), tuple(
            self.read(path, 0, 1) for path in ('volumes/31', 'volumes/32')))


class TestWhatIsDue(DataStoreTest):

    def test_full_disk(self):
        """Files are still removed, and requests answered."""
        self.volume(self.group_of_all, 'vol-2')
        self.write('volumes/31', 0, b'x')
        self.write('volumes/32', 0, b'x')
        self.own('volumes/31', live=True)
        self.schedule(self.group_of_all)
        self.clock.advance(3601)
        with self.full():
            self.delete('volumes/32')
            error = self.assertRaises(
                k2_sim.StateError, self.control.tick)
            self.assertEqual('no room', str(error))
            self.assertEqual([self.token()],
                             os.listdir(self.contents.directory))
        self.assertIn('maintenance failed: no room', self.log.output)
        self.control.tick()
        self.assertEqual(1, len(self.hits('snapshots')))

    def test_many_groups_at_once(self):
        """Scheduled snapshots share one pause."""
        pauses = []

        @contextlib.contextmanager
        def pause():
            pauses.append(1)
            yield

        for number in range(8):
            group = self.group(f'g{number}')
            volume = self.volume(group, f'v{number}')
            path = f'volumes/{volume["id"]}'
            self.write(path, 0, path.encode())
            self.own(path, live=True)
            self.schedule(group)
        self.contents.pause = pause
        self.clock.advance(3601)
        self.control.tick()
        self.assertEqual(8, len(self.hits('snapshots')))
        self.assertEqual([1], pauses)
        self.assertEqual(self.named(), self.files())
