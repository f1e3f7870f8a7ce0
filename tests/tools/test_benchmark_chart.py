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

"""The chart and the tables on the page of the benchmark."""

from xml.etree import ElementTree

from oslotest import base

from benchmarks import chart


def row(operation, ours, intree):
    """Return a row of the figures."""
    return {'operation': operation, 'wall_ratio': intree / ours,
            'ours': {'calls': 2.0, 'wall': ours, 'in_flight': 20},
            'intree': {'calls': 2.5, 'wall': intree, 'in_flight': 1},
            'serial': {'wall': 2.5}}


class ChartTest(base.BaseTestCase):

    figures = {'parallel': 20, 'latency': 50.0,
               'rows': [row('create volume', 0.1, 1.0),
                        row('extend volume', 0.01, 10.0)],
               'known': [row('create volume', 0.2, 2.0)]}

    def test_bars(self):
        """The scale is logarithmic, without negative lengths."""
        tree = ElementTree.fromstring(chart.picture(self.figures))
        bars = [float(each.get('width')) for each in tree
                if each.tag.endswith('rect') and each.get('height') == '17']
        self.assertEqual(6, len(bars))
        self.assertAlmostEqual(bars[1] - bars[0], bars[3] - bars[1], delta=.2)
        self.assertAlmostEqual(bars[1] - bars[0], bars[5] - bars[4], delta=.2)
        self.assertEqual(0, bars[2])

    def test_figures(self):
        text = chart.picture(self.figures)
        for seconds in ('0.10 s', '1.00 s', '0.01 s', '10.00 s', '0.20 s'):
            self.assertIn(f'>{seconds}<', text)

    def test_table(self):
        self.assertEqual(
            ['   * - Create volume', '     - 2', '     - 0.20 s', '     - 20',
             '     - 2.5 s', '     - 2.5', '     - 2.00 s', '     - 10'],
            list(chart.table(self.figures['known'])))
