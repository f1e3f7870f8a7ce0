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

"""Statistics of the system: section 8."""


import ddt

from tests import base


@ddt.ddt
class TestSystemStatistics(base.ArrayTest):

    figures = {'iops_avg': 20000, 'iops_max': 21500,
               'throughput_avg': 327680000, 'throughput_max': 352256000,
               'latency_inner': 0.44, 'latency_outer': 0.03}

    def set(self, body, status=204):
        """Set other figures."""
        self.sim(status, 'POST', 'performance', body)

    def test_an_idle_array(self):
        """STA-1: a row without id, hits and total only."""
        self.assertEqual({'total': 1, 'hits': [{
            'timestamp': 1767225600, 'resolution': 5, 'iops_avg': 0,
            'iops_max': 0, 'throughput_avg': 0, 'throughput_max': 0,
            'latency_inner': 0.0, 'latency_outer': 0.0}]},
            self.get('stats/system'))

    def test_figures_can_be_set(self):
        """STA-5: the sample of the documents."""
        self.set(self.figures)
        self.control.advance(3600)
        self.assertEqual([{'timestamp': 1767229200, 'resolution': 5,
                           **self.figures}], self.hits('stats/system'))
        self.control.set_performance(iops_avg=7)
        self.assertEqual({**self.figures, 'iops_avg': 7}, {
            name: self.hits('stats/system')[0][name]
            for name in self.figures})
        self.control.reset()
        self.assertEqual(0, self.hits('stats/system')[0]['iops_avg'])

    def test_figures_can_be_taken_back(self):
        self.array.core.io.note(1, 5, 0, 5 * 4096, 0.01)
        self.set({'iops_avg': 7})
        self.assertEqual(7, self.hits('stats/system')[0]['iops_avg'])
        for _ in range(2):
            self.sim(204, 'DELETE', 'performance')
            self.assertEqual(1, self.hits('stats/system')[0]['iops_avg'])

    @ddt.data({'size': 3}, {'iops_avg': -1}, {'iops_avg': True},
              {'latency_inner': 'low'}, {'iops_max': 1e999},
              {'timestamp': 1})
    def test_nonsense_changes_nothing(self, figures):
        self.set({'iops_avg': 5, **figures}, 400)
        self.assertEqual(0, self.hits('stats/system')[0]['iops_avg'])

    def test_points(self):
        """Section 8: resolution and datapoints; STA-3: __fields."""
        self.assertEqual(
            [{'timestamp': 1767225600 - 600}, {'timestamp': 1767225600 - 300},
             {'timestamp': 1767225600}],
            self.hits('stats/system?__resolution=5m&__datapoints=3'
                      '&__fields=timestamp'))
        self.assertEqual(3600, self.hits(
            'stats/system?__resolution=1h')[0]['resolution'])
        for query in ('__resolution=2m', '__datapoints=0',
                      '__datapoints=1000', '__datapoints=x'):
            self.refused('GET', f'stats/system?{query}')

    def test_read_only(self):
        self.refused('POST', 'stats/system', {}, status=405)
        self.set(self.figures)
        for number in (-1, 0, 1):
            self.refused('GET', f'stats/system/{number}', status=404)

    def test_an_array_without(self):
        self.control.set_behaviors(statistics=False)
        self.refused('GET', 'stats/system', status=404)
        self.refused('GET', 'stats/volumes', status=404)

    def test_a_degraded_array(self):
        """Section 7.1: it may still be online."""
        self.control.set_behaviors(degraded=True)
        state = self.get('system/state/1')
        self.assertEqual(('ONLINE', True), (
            state['state'], state['is_system_functionality_degraded']))

    def test_survives_a_restart(self):
        self.start_array(self.state_path)
        self.control.set_performance(iops_avg=9)
        self.array.close()
        self.start_array(self.state_path)
        self.assertEqual(9, self.hits('stats/system')[0]['iops_avg'])


class TestCounted(base.ArrayTest):
    """Figures of counted requests."""

    def setUp(self):
        super().setUp()
        group = self.group()
        self.first = self.volume(group, 'vol-1')['id']
        self.second = self.volume(group, 'vol-2')['id']
        self.idle = self.volume(group, 'vol-3')['id']
        self.io = self.array.core.io

    def test_one_volume(self):
        """OBJ-2, STA-2, STA-5: in an envelope, bytes and milliseconds."""
        self.io.note(self.first, 30, 10, 400 * 1024, 0.02)
        self.clock.advance(1)
        self.io.note(self.first, 0, 10, 100 * 1024, 0.03)
        self.io.note(self.second, 1, 0, 512, 1)
        self.assertEqual({'total': 1, 'hits': [{
            'timestamp': 1767225601, 'resolution': 5,
            'iops_avg': 10, 'iops_max': 40,
            'throughput_avg': 102400, 'throughput_max': 409600,
            'latency_inner': 1.0, 'latency_outer': 1.0,
            'volume': base.ref('volumes', self.first),
            'volume_name': 'vol-1', 'peer_k2_name': None}]},
            self.get(f'stats/volumes/{self.first}'))
        for number in (99, 'x'):
            self.refused('GET', f'stats/volumes/{number}', status=404)

    def test_conditions(self):
        """QRY-2, QRY-3: as for any collection."""
        self.io.note(self.first, 10, 0, 512, 1)
        self.io.note(self.second, 5, 0, 512, 1)
        for query, names in (
                ('volume_name=vol-1', ['vol-1']),
                ('volume_name__contains=vol', ['vol-1', 'vol-2']),
                (f'volume.ref=/volumes/{self.second}', ['vol-2']),
                ('iops_max__gt=7', ['vol-1']), ('colour=red', []),
                ('volume_name=', ['vol-1', 'vol-2']),
                ('peer_k2_name=x', []),
                ('__sort=volume_name&__sort_order=desc', ['vol-2', 'vol-1']),
                ('__sort=iops_max', ['vol-2', 'vol-1']),
                ('__sort=id', ['vol-1', 'vol-2'])):
            self.assertEqual(names, [row['volume_name'] for row in self.hits(
                f'stats/volumes?{query}')], query)
        self.assertEqual('Cannot sort by colour', self.refused(
            'GET', 'stats/volumes?__sort=colour'))
        self.assertEqual([], self.hits(
            f'stats/volumes/{self.first}?volume_name=vol-2'))
        self.assertEqual(['r'], [row['rw'] for row in self.hits(
            'stats/system?__rw_breakdown=true&rw=r')])

    def test_idle_volumes(self):
        """STA-1, STA-3: omitted, separately in each interval."""
        self.io.note(self.second, 1, 0, 512, 0.001)
        self.clock.advance(5)
        self.io.note(self.first, 1, 0, 512, 0.001)
        self.assertEqual([{'volume_name': 'vol-1'}], self.hits(
            'stats/volumes?__fields=volume_name'))
        self.assertEqual({'hits': [], 'total': 0},
                         self.get(f'stats/volumes/{self.idle}'))
        self.assertEqual(
            [('vol-1', 1767225605), ('vol-2', 1767225600)],
            [(row['volume_name'], row['timestamp']) for row
             in self.hits('stats/volumes?__datapoints=2')])
        self.assertEqual(2, self.get(
            'stats/volumes?__resolution=5m')['total'])

    def test_the_window_slides(self):
        """STA-5: what is older than the interval does not count."""
        self.io.note(self.first, 10, 0, 40960, 0.01)
        for seconds, requests in ((4, 2), (1, 0)):
            self.clock.advance(seconds)
            self.assertEqual(
                requests, self.hits('stats/system')[0]['iops_avg'])
        self.assertEqual(10, self.hits(
            'stats/system?__resolution=5m')[0]['iops_max'])
        self.clock.advance(3594)
        path = 'stats/system?__resolution=1h&__fields=iops_max'
        self.assertEqual([{'iops_max': 10}], self.hits(path))
        self.clock.advance(1)
        self.assertEqual([{'iops_max': 0}], self.hits(path))

    def test_an_hour_is_kept(self):
        """Section 8: points further back exist, and are idle."""
        self.io.note(self.first, 100, 0, 409600, 0.01)
        self.clock.advance(3600)
        self.io.note(self.first, 50, 0, 409600, 0.01)
        self.assertEqual([0, 50], [
            row['iops_max'] for row in self.hits(
                'stats/system?__resolution=1h&__datapoints=2')])

    def test_the_system_is_the_sum(self):
        """STA-5: latencies are weighted by requests."""
        for _ in range(2):
            self.io.note(self.first, 15, 0, 15 * 4096, 0.015)
        self.io.note(self.second, 0, 10, 10 * 4096, 0.05)
        row, = self.hits('stats/system')
        self.assertEqual((8, 40, 32768, 163840, 2.0, 2.0), tuple(
            row[name] for name in (
                'iops_avg', 'iops_max', 'throughput_avg', 'throughput_max',
                'latency_inner', 'latency_outer')))

    def test_breakdown(self):
        """STA-4: each request counts in one class."""
        self.io.note(self.first, 100, 0, 100 * 4096, 0.1)
        self.io.note(self.first, 50, 50, 100 * 65536, 0.2)
        self.io.note(self.first, 0, 25, 25 * 2 ** 20, 0.1)
        path = f'stats/volumes/{self.first}'
        self.assertEqual(
            [('r', 30), ('w', 15)],
            [(row['rw'], row['iops_avg']) for row
             in self.hits(f'{path}?__rw_breakdown=True')])
        self.assertEqual(
            [('lt8k', 20), ('8k_64k', 0), ('64k_256k', 20), ('gt256k', 5)],
            [(row['bs'], row['iops_avg']) for row
             in self.hits(f'{path}?__bs_breakdown=True')])
        rows = self.hits(f'{path}?__bs_breakdown=True&__rw_breakdown=True')
        self.assertEqual(8, len(rows))
        self.assertEqual(45, sum(row['iops_avg'] for row in rows))
        for row in rows:
            self.assertNotIn('iops_max', row)

    def test_what_is_no_volume(self):
        """STA-2: a deleted volume has no row, and no noted I/O counts."""
        self.io.note(self.first, 0, 0, 4096, 1)
        self.io.note(self.second, 5, 0, 4096, 1)
        self.delete(f'volumes/{self.second}')
        self.assertEqual([], self.hits('stats/volumes'))
        self.assertEqual(1, self.hits('stats/system')[0]['iops_avg'])
        self.control.reset()
        self.assertEqual(0, self.hits('stats/system')[0]['iops_avg'])
