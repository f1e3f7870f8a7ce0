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

"""The benchmark of the simulator runs, and detects a missed goal."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import ddt

from tools import bench_sim
from tools import bench_snapshots


@ddt.ddt
class TestResult(unittest.TestCase):

    @ddt.data((None, 1, True, True), (5000, 5000, True, True),
              (5000, 4999, True, False), (2, 2.0, False, True),
              (2, 2.1, False, False))
    @ddt.unpack
    def test_goal(self, wanted, measured, is_least, is_met):
        result = bench_sim.Result('x', wanted, measured, '/s', is_least)
        self.assertIs(is_met, result.is_met)
        self.assertEqual(not is_met, 'MISSED' in result.line())


class TestRun(unittest.TestCase):

    def test_small(self):
        """All rows are printed; a missed goal sets the exit status."""
        output = io.StringIO()
        with mock.patch.object(bench_sim, '_LEAD_SECONDS', 0.1), \
                mock.patch.object(bench_sim, '_snapshots', autospec=True,
                                  return_value=iter(())), \
                contextlib.redirect_stdout(output):
            status = bench_sim.main(['--volumes', '150', '--seconds', '0.05'])
        text = output.getvalue()
        self.assertEqual(1 if 'MISSED' in text else 0, status)
        for name in ('trivial answer', 'start', 'search by name', '1 hit',
                     '25 hits', 'page of 100', 'durable create',
                     'beside a search', 'beside a sort, p99',
                     'beside a large page', 'most memory'):
            self.assertIn(name, text)


class TestSnapshots(unittest.TestCase):

    def rows(self, drawback='', **replaced):
        """Return the rows, and what else is printed."""
        output = io.StringIO()
        measured = bench_snapshots.Measured(0.1, 0.3, 0.04, drawback)
        with mock.patch.multiple(
                bench_snapshots, **{
                    'missing': lambda: '',
                    'measure': lambda path, mebibytes: measured, **replaced}
        ), contextlib.redirect_stdout(output):
            found = list(bench_sim._snapshots(pathlib.Path('/')))
        return found, output.getvalue()

    def test_rows(self):
        (snapshot, write), text = self.rows()
        self.assertEqual((0.1, True), (snapshot.measured, snapshot.is_met))
        self.assertEqual((0.3, False), (write.measured, write.is_met))
        self.assertEqual('otherwise 0.04 s', write.note)
        self.assertEqual('', text)

    def test_drawback(self):
        """Why a goal is missed on another file system."""
        self.assertIn('because', self.rows('because')[1])

    def test_nothing_to_measure_with(self):
        found, text = self.rows(missing=lambda: 'needs tgt')
        self.assertEqual([], found)
        self.assertIn('snapshots of data: not measured, needs tgt', text)


class TestMeasure(unittest.TestCase):
    """With a real array, and a real initiator."""

    def test_small(self):
        if bench_snapshots.missing():
            self.skipTest(bench_snapshots.missing())
        with tempfile.TemporaryDirectory() as path, mock.patch.object(
                bench_snapshots, '_BETWEEN_SECONDS', 0.05):
            found = bench_snapshots.measure(pathlib.Path(path, 'state'), 64)
        for seconds in found[:3]:
            self.assertGreater(seconds, 0)
