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

"""Full arrays and groups, and the sums that show it: sections 7.2 and 4.3."""

import hypothesis
from hypothesis import strategies

import k2_sim
from tests import base

TOTAL = 1000


class SmallArrayTest(base.ArrayTest):
    """An array of 1000 KiB with a volume of that size."""

    def setUp(self):
        super().setUp()
        self.make_array()

    def make_array(self):
        self.clock = k2_sim.FakeClock()
        self.array = k2_sim.Array(capacity=TOTAL, clock=self.clock)
        self.addCleanup(self.array.close)
        self.control = self.array.control
        self.vg = self.group()
        self.vol = self.volume(self.vg, size=TOTAL)


class TestNoSpace(SmallArrayTest):

    def _names(self):
        return [hit['short_name'] for hit in self.hits('snapshots')]

    def _snapshot(self, name, kib, **fields):
        made = self.snapshot(
            self.vg, name, **{'is_auto_deleteable': True, **fields})
        self.control.set_written(self.vol['id'], kib, made['id'])
        return made

    def test_snapshots_make_room(self):
        """SNP-4: the oldest are deleted until there is space; CAP-3."""
        for name, kib in (('a', 100), ('b', 100), ('c', 100)):
            self._snapshot(name, kib)
        self.control.set_written(self.vol['id'], 699)
        self.assertEqual(['a', 'b', 'c'], self._names())
        self.control.set_written(self.vol['id'], 700)
        self.assertEqual(['b', 'c'], self._names())
        capacity = self.get('system/capacity/1')
        self.assertEqual((100, 900, 'ok'), (
            capacity['free'], capacity['allocated'], capacity['state']))
        self.assertEqual(
            ['snapshots/51 (vg-a:a) was removed, no space was left'],
            [event['message'] for event in self.hits('events?level=WARNING')])

    def test_only_those_that_may_go(self):
        """SNP-4, SNP-9: none that is kept or in use."""
        kept = self._snapshot('kept', 100, is_auto_deleteable=False)
        used = self._snapshot('used', 100)
        view = self.post('snapshots', self.snapshot_body(
            base.ref('snapshots', used), 'view', is_exposable=True,
            is_auto_deleteable=True))
        mapping = self.map(self.host(), view, 'snapshots')
        self.control.set_written(self.vol['id'], 800)
        self.assertEqual('full', self.get('system/capacity/1')['state'])
        self.assertEqual(['kept', 'used', 'view'], self._names())
        self.refused('POST', 'snapshots', self.snapshot_body(
            base.ref('volume_groups', self.vg), 'more'))
        self.delete(f'mappings/{mapping["id"]}')
        self.assertEqual(['kept'], self._names())
        self.get(f'snapshots/{kept["id"]}')
        self.snapshot(self.vg, 'more')

    def test_what_others_take(self):
        """SNP-4: if no snapshot frees enough, all are deleted."""
        for name in ('a', 'b'):
            self._snapshot(name, 0)
        self._snapshot('kept', 0, is_auto_deleteable=False)
        self.control.set_behaviors(full=True)
        self.assertEqual(['kept'], self._names())

    def test_no_more_than_there_is(self):
        """CAP-3: nothing is written beyond the last KiB."""
        self._snapshot('a', 1)
        self.assertRaises(k2_sim.ApiError, self.control.set_written,
                          self.vol['id'], TOTAL)
        self.assertEqual(1, self.get('system/capacity/1')['allocated'])
        self.control.set_written(self.vol['id'], TOTAL - 1)
        self.assertEqual([], self._names())


AMOUNTS = strategies.integers(0, 300)
NUMBERS = strategies.integers(0, 3)
STEPS = strategies.lists(strategies.one_of(
    strategies.tuples(strategies.just('volume'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('snapshot'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('view'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('write'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('write image'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('grow'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('undone'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('delete'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('restore'), AMOUNTS, NUMBERS),
    strategies.tuples(strategies.just('reset'), AMOUNTS, NUMBERS)),
    max_size=30)


class TestSums(SmallArrayTest):

    @hypothesis.settings(deadline=None, max_examples=60)
    @hypothesis.given(steps=STEPS)
    def test_any_story(self, steps):
        """CAP-1, CAP-3: cached sums equal those recalculated."""
        self.make_array()
        saved = self.control.save()
        for number, (kind, amount, place) in enumerate(steps):
            getattr(self, f'_do_{kind.replace(" ", "_")}')(
                f'n{number}', amount, place, saved)
            self._check()

    def _check(self):
        reply = self.get('system/capacity/1')
        rows = self.array.store.rows
        volumes = [row for row in rows('volumes') if row['id'] != 1]
        images = {exposed: [row for row in rows('volsnaps')
                            if row['is_exposable'] is exposed]
                  for exposed in (False, True)}
        written = sum(row['logical_capacity'] for row in volumes)
        kept = sum(row.get('logical_capacity', 0)
                   for row in (*images[False], *images[True]))
        self.assertEqual({
            'provisioned_volumes': sum(row['size'] for row in volumes),
            'provisioned_snapshots':
                sum(row['size'] for row in images[False]),
            'provisioned_views': sum(row['size'] for row in images[True]),
            'allocated_volumes': written,
            'allocated_snapshots_and_views': kept,
            'allocated': written + kept,
            'free': TOTAL - written - kept,
        }, {name: reply[name] for name in (
            'provisioned_volumes', 'provisioned_snapshots',
            'provisioned_views', 'allocated_volumes',
            'allocated_snapshots_and_views', 'allocated', 'free')})

    def _volume_body(self, name, size):
        return {'name': name, 'size': size + 1,
                'volume_group': base.ref('volume_groups', 14)}

    def _do_volume(self, name, amount, place, saved):
        self.call('POST', 'volumes', self._volume_body(name, amount))

    def _do_snapshot(self, name, amount, place, saved):
        self.call('POST', 'snapshots', self.snapshot_body(
            base.ref('volume_groups', 14), name,
            is_auto_deleteable=bool(place)))

    def _do_view(self, name, amount, place, saved):
        self.call('POST', 'snapshots', self.snapshot_body(
            base.ref('snapshots', 51 + place), name, is_exposable=True))

    def _do_write(self, name, amount, place, saved):
        self._try(31 + place, amount)

    def _do_write_image(self, name, amount, place, saved):
        self._try(31, amount, 51 + place)

    def _try(self, *arguments):
        try:
            self.control.set_written(*arguments)
        except k2_sim.ApiError:
            pass

    def _do_grow(self, name, amount, place, saved):
        self.call('PATCH', f'volumes/{31 + place}', {'size': amount})

    def _do_undone(self, name, amount, place, saved):
        self.refused('POST', 'volumes/__bulk', [
            self._volume_body(name, amount), {'name': 'incomplete'}])

    def _do_delete(self, name, amount, place, saved):
        kind = ('volumes/31', 'volumes/32', 'snapshots/51', 'snapshots/52')
        self.call('DELETE', kind[place])

    def _do_restore(self, name, amount, place, saved):
        self.array.restore(saved)

    def _do_reset(self, name, amount, place, saved):
        if place == 0:
            self.control.reset()
