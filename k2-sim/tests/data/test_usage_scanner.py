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

"""Capacities that come from the data (CAP-1 to CAP-4)."""

import os
import threading
from unittest import mock

import msgspec

from k2_sim.data import usage_scanner
from tests import base
from tests.data import test_data

BLOCK = 4096
# What a volume group without deduplication, and one with it, has.
_INSTANCE = 64


class SurveyTest(test_data.DataTest):
    """An array whose capacities are checked after each step."""

    def capacity(self):
        """The capacity, in blocks of 4 KiB."""
        self.control.scan_usage()
        found, = self.hits('system/capacity')
        return {name: found[name] / 4 for name in (
            'logical', 'physical', 'allocated', 'allocated_volumes',
            'allocated_snapshots_and_views')}

    def total(self):
        found, = self.hits('system/capacity')
        return found

    def taken(self, path):
        """The logical capacity of an object, in blocks."""
        self.control.scan_usage()
        return self.get(path)['logical_capacity'] / 4

    def fill(self, volume, *blocks, start=0):
        """Write blocks, one behind the other."""
        self.write(f'volumes/{volume["id"]}', start * BLOCK,
                   b''.join(blocks))

    def noise(self, count=1):
        """Blocks that neither repeat nor can be compressed."""
        return [os.urandom(BLOCK) for _ in range(count)]

    def scribble(self, token, count, when):
        """Write to a file as an initiator, at that time."""
        path = self.contents.path(token)
        with path.open('r+b') as file:
            file.write(os.urandom(count * BLOCK))
        os.utime(path, ns=(when, when))

    def test_an_empty_array(self):
        self.volume(self.group())
        self.assertEqual({0}, set(self.capacity().values()))

    def test_a_volume(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3), bytes(5 * BLOCK))
        self.assertEqual(3, self.taken(f'volumes/{volume["id"]}'))
        self.assertEqual(
            {'logical': 3, 'physical': 3, 'allocated': 3,
             'allocated_volumes': 3, 'allocated_snapshots_and_views': 0},
            self.capacity())
        row = self.get(f'volumes/{volume["id"]}')
        self.assertEqual(BLOCK, row['stream_avg_compressed_size_in_bytes'])

    def test_free_is_what_is_left(self):
        volume = self.volume(self.group())
        before = self.total()
        self.fill(volume, *self.noise(3))
        self.control.scan_usage()
        after = self.total()
        self.assertEqual(before['free'] - 12, after['free'])
        self.assertEqual(after['total'] - after['reserved'],
                         after['free'] + after['allocated'])

    def test_a_replica_set(self):
        """The same data three times: with deduplication it is stored once."""
        data = self.noise(_INSTANCE)
        for is_dedup, ratio in ((True, 3), (False, 1)):
            group = self.group(f'vg-{is_dedup}', is_dedup=is_dedup)
            volumes = [self.volume(group, f'{is_dedup}-{number}')
                       for number in range(3)]
            self.fill(volumes[0], *data)
            before = self.capacity()
            self.assertEqual(1, before['allocated'] / before['physical'])
            for volume in volumes[1:]:
                self.fill(volume, *data)
            after = self.capacity()
            self.assertEqual(
                ratio, after['allocated'] / after['physical'], is_dedup)
            for volume in volumes:
                self.delete(f'volumes/{volume["id"]}')

    def test_text_is_compressed(self):
        volume = self.volume(self.group(is_dedup=False))
        self.fill(volume, *(str(number).encode() * 400 + bytes(
            BLOCK - 400 * len(str(number))) for number in range(10, 50)))
        found = self.capacity()
        self.assertEqual(40, found['logical'])
        self.assertLess(found['physical'], 4)

    def test_a_discarded_block(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        self.assertEqual(3, self.capacity()['physical'])
        self.discard(f'volumes/{volume["id"]}', BLOCK, BLOCK)
        self.assertEqual(2, self.capacity()['physical'])
        self.assertEqual(2, self.taken(f'volumes/{volume["id"]}'))

    def test_a_snapshot_takes_what_changes(self):
        group = self.group()
        volume = self.volume(group)
        self.fill(volume, *self.noise(4))
        snapshot = self.snapshot(group, 's1')
        self.assertEqual(0, self.capacity()['allocated_snapshots_and_views'])
        self.assertEqual(4, self.capacity()['physical'])
        self.fill(volume, *self.noise(1))
        found = self.capacity()
        self.assertEqual(1, found['allocated_snapshots_and_views'])
        self.assertEqual(4, found['allocated_volumes'])
        self.assertEqual(5, found['physical'])
        self.delete(f'snapshots/{snapshot["id"]}')
        self.assertEqual(4, self.capacity()['allocated'])

    def test_it_does_so_without_deduplication_too(self):
        group = self.group(is_dedup=False)
        volume = self.volume(group)
        self.fill(volume, *self.noise(4))
        self.snapshot(group, 's1')
        self.fill(volume, *self.noise(1))
        self.assertEqual(5, self.capacity()['physical'])

    def test_a_thin_clone_shares_with_its_source(self):
        group = self.group(is_dedup=False)
        volume = self.volume(group)
        self.fill(volume, *self.noise(4))
        snapshot = self.snapshot(group, 's1')
        clone = self.post('volumes', {
            'name': 'clone', 'volume_group': base.ref(
                'volume_groups', group), 'is_thin_clone': 'true',
            'source_volume': base.ref('volumes', volume),
            'source_snapshot': base.ref('snapshots', snapshot)})
        self.fill(clone, *self.noise(1), start=9)
        found = self.capacity()
        self.assertEqual(9, found['allocated_volumes'])
        self.assertEqual(5, found['physical'])

    def test_what_is_restored_to_nothing_takes_nothing(self):
        group = self.group()
        volume = self.volume(group)
        snapshot = self.snapshot(group, 's1')
        self.fill(volume, *self.noise(4))
        self.assertEqual(4, self.capacity()['allocated'])
        self.patch(f'volume_groups/{group["id"]}', {
            'last_restored_from': base.ref('snapshots', snapshot)})
        self.assertEqual({0}, set(self.capacity().values()))

    def test_what_control_says_of_a_volume_without_data(self):
        volume = self.volume(self.group())
        self.control.set_written(volume['id'], 400)
        self.assertEqual(100, self.capacity()['logical'])
        self.assertEqual(25, self.capacity()['physical'])

    def test_what_control_says_of_a_volume_with_data(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        self.assertEqual(3, self.capacity()['logical'])
        self.control.set_written(volume['id'], 400)
        self.assertEqual(3, self.capacity()['logical'])

    def test_what_a_saved_state_says(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        saved = msgspec.json.encode(self.control.save())
        self.assertEqual(3, self.capacity()['physical'])
        self.control.restore(saved)
        self.assertEqual(3, self.taken(f'volumes/{volume["id"]}'))
        self.assertEqual(3, self.capacity()['physical'])

    def test_a_volume_that_goes_to_another_group(self):
        group = self.group()
        volume = self.volume(group)
        self.fill(volume, *self.noise(4))
        self.assertEqual(4, self.capacity()['physical'])
        self.patch(f'volumes/{volume["id"]}', {
            'volume_group': base.ref('volume_groups', self.group('other'))})
        self.delete(f'volume_groups/{group["id"]}')
        self.fill(volume, *self.noise(1), start=9)
        self.assertEqual(5, self.capacity()['physical'])
        self.delete(f'volumes/{volume["id"]}')
        self.assertEqual(0, self.capacity()['physical'])

    def test_what_is_written_to_a_file_at_rest(self):
        volume = self.volume(self.group())
        for count in (3, 5):
            self.fill(volume, *self.noise(count))
            token, = self.contents.tokens()
            os.utime(self.contents.path(token), ns=(count, count))
            self.assertEqual(count, self.capacity()['physical'])

    def test_what_initiators_write(self):
        """It is not reported, so exported files are scanned."""
        volume = self.volume(self.group())
        token = self.own(f'volumes/{volume["id"]}', live=True)
        for count in (3, 5):
            self.scribble(token, count, count)
            self.assertEqual(count, self.capacity()['physical'])
        # The last write came before the export ended.
        self.scribble(token, 6, 6)
        self.contents.live.clear()
        self.assertEqual(6, self.capacity()['physical'])

    def test_nothing_to_do(self):
        """No row is scanned while nothing changes."""
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        token, = self.contents.tokens()
        self.scribble(token, 3, 3)
        self.capacity()
        with mock.patch.object(
                self.array.store, 'get', autospec=True) as get:
            self.control.scan_usage()
        get.assert_not_called()

    def test_figures_are_kept(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        before = self.capacity()
        self.array.close()
        self.open()
        found, = self.hits('system/capacity')
        self.assertEqual(before['physical'], found['physical'] / 4)
        self.assertEqual(before, self.capacity())

    def test_in_the_background(self):
        """Scans take at most a small part of the time."""
        volume = self.volume(self.group())
        with mock.patch.object(
                usage_scanner.time, 'monotonic', autospec=True) as now:
            now.side_effect = [100.0, 100.0, 102.0]
            self.control.run_maintenance()
            self.fill(volume, *self.noise(3))
            now.side_effect = [109.0]
            self.control.run_maintenance()
            self.assertEqual(0, self.get(
                f'volumes/{volume["id"]}')['logical_capacity'])
            now.side_effect = [111.0, 111.0, 111.5]
            self.control.run_maintenance()
        self.assertEqual(12, self.get(
            f'volumes/{volume["id"]}')['logical_capacity'])

    def test_what_goes_meanwhile(self):
        volume = self.volume(self.group())
        self.fill(volume, *self.noise(3))
        look = self.array.core.usage_scanner._reduction.measure

        def meanwhile(groups):
            found = look(groups)
            self.delete(f'volumes/{volume["id"]}')
            return found

        with mock.patch.object(self.array.core.usage_scanner._reduction,
                               'measure',
                               autospec=True, side_effect=meanwhile):
            self.control.scan_usage()
        self.assertEqual(0, self.capacity()['physical'])

    def test_who_asks_while_it_looks(self):
        """A scan includes earlier writes, even if another one is running."""
        volume = self.volume(self.group())
        look = self.array.core.usage_scanner._reduction.measure
        entered, go_on = threading.Event(), threading.Event()

        def slow(groups):
            found = look(groups)
            entered.set()
            go_on.wait(10)
            return found

        first = threading.Thread(target=self.control.scan_usage)
        second = threading.Thread(target=self.control.scan_usage)
        with mock.patch.object(self.array.core.usage_scanner._reduction,
                               'measure',
                               autospec=True, side_effect=slow):
            first.start()
            entered.wait(10)
            self.fill(volume, *self.noise(3))
            second.start()
            second.join(0.05)
            self.assertTrue(second.is_alive())
            go_on.set()
            first.join(10)
            second.join(10)
        self.assertEqual(12, self.get(
            f'volumes/{volume["id"]}')['logical_capacity'])

    def test_what_control_says_stays_where_no_data_is(self):
        """Also for a volume that moves (VOL-10)."""
        volume = self.volume(self.group())
        self.control.set_written(volume['id'], 400)
        self.patch(f'volumes/{volume["id"]}', {
            'volume_group': base.ref('volume_groups', self.group('vg-b'))})
        self.assertEqual(100, self.taken(f'volumes/{volume["id"]}'))

    def test_a_volume_that_went_since(self):
        """CAP-4: physical never exceeds logical, and neither is negative."""
        group = self.group()
        first, second = self.volume(group), self.volume(group, 'vol-2')
        self.fill(first, *[b'a' * BLOCK] * 1000)
        self.fill(second, *self.noise(10))
        self.control.scan_usage()
        self.delete(f'volumes/{first["id"]}')
        found = self.total()
        self.assertEqual(40, found['logical'])
        self.assertLessEqual(0, found['physical'])
        self.assertLessEqual(found['physical'], found['logical'])
        self.delete(f'volumes/{second["id"]}')
        self.assertEqual((0, 0), (self.total()['logical'],
                                  self.total()['physical']))
        self.assertEqual({0}, set(self.capacity().values()))


class TestSmallArray(test_data.DataTest):

    def open(self, **options):
        super().open(capacity=400, **options)

    def test_more_than_there_is(self):
        """CAP-3: sums add up even if initiators write too much."""
        volume = self.volume(self.group(), size=1000)
        file = self.contents.path(self.own(f'volumes/{volume["id"]}'))
        file.write_bytes(os.urandom(200 * BLOCK))
        self.control.scan_usage()
        found, = self.hits('system/capacity')
        self.assertEqual(('full', 0, 400, 800, 400), tuple(
            found[name] for name in ('state', 'free', 'allocated',
                                     'logical', 'physical')))
        self.assertEqual(found['total'] - found['reserved'],
                         found['free'] + found['allocated'])
