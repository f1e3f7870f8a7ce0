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

import json

import ddt
import fixtures

from cinder_k2 import simulator
from tests.unit.simulator import base


@ddt.ddt
class TestSystemStatistics(base.ArrayTest):

    figures = {'iops_avg': 20000, 'iops_max': 21500,
               'throughput_avg': 327680000, 'throughput_max': 352256000,
               'latency_inner': 0.44, 'latency_outer': 0.03}

    def sim(self, body, status=204):
        """What the control API answers to other figures."""
        reply = self.array.handle(
            'POST', '/sim/v1/performance', '',
            {**base.authorization(), 'Content-Type': base.JSON},
            json.dumps(body).encode())
        self.assertEqual(status, reply.status, reply.body)

    def test_an_idle_array(self):
        """STA-1: a row without id, hits and total only."""
        self.assertEqual({'total': 1, 'hits': [{
            'timestamp': 1767225600, 'resolution': 5, 'iops_avg': 0,
            'iops_max': 0, 'throughput_avg': 0, 'throughput_max': 0,
            'latency_inner': 0.0, 'latency_outer': 0.0}]},
            self.get('stats/system'))

    def test_figures_can_be_set(self):
        """STA-5: the sample of the documents."""
        self.sim(self.figures)
        self.control.advance(3600)
        self.assertEqual([{'timestamp': 1767229200, 'resolution': 5,
                           **self.figures}], self.hits('stats/system'))
        self.control.set_performance(iops_avg=7)
        self.assertEqual({**self.figures, 'iops_avg': 7}, {
            name: self.hits('stats/system')[0][name]
            for name in self.figures})
        self.control.reset()
        self.assertEqual(0, self.hits('stats/system')[0]['iops_avg'])

    @ddt.data({'size': 3}, {'iops_avg': -1}, {'iops_avg': True},
              {'latency_inner': 'low'}, {'iops_max': 1e999},
              {'timestamp': 1})
    def test_nonsense_changes_nothing(self, figures):
        self.sim({'iops_avg': 5, **figures}, 400)
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
        self.sim(self.figures)
        for number in (-1, 0, 1):
            self.refused('GET', f'stats/system/{number}', status=404)

    def test_an_array_without(self):
        self.control.set_switches(statistics=False)
        self.refused('GET', 'stats/system', status=404)
        self.refused('GET', 'stats/volumes', status=404)

    def test_a_degraded_array(self):
        """Section 7.1: it may well be online."""
        self.control.set_switches(degraded=True)
        state = self.get('system/state/1')
        self.assertEqual(('ONLINE', True), (
            state['state'], state['is_system_functionality_degraded']))

    def test_survives_a_restart(self):
        store = f'{self.useFixture(fixtures.TempDir()).path}/state.db'
        first = simulator.Array(store=store)
        first.control.set_performance(iops_avg=9)
        first.close()
        second = simulator.Array(store=store)
        self.addCleanup(second.close)
        self.assertEqual(9, second.handle(
            'GET', '/api/v2/stats/system',
            headers=base.authorization()).json()['hits'][0]['iops_avg'])
