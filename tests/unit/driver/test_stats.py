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

"""Statistics for the scheduler, with arrays and options replaced."""

import dataclasses
import time
from unittest import mock

from cinder.scheduler.evaluator import evaluator
import ddt
import testtools

from cinder_k2.array import array_usage
from cinder_k2.driver import config
from cinder_k2.driver.failover import arrays
from cinder_k2.driver import stats
from cinder_k2 import exceptions
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import replicated

LOG = stats.LOG.logger
GIB = 1 << 20
FIXED = {'storage_protocol': 'iSCSI', 'vendor_name': 'vendor'}


def usage(performance=None, state=None, counts=None, **capacity):
    return array_usage.ArrayUsage(
        capacity=rest.Capacity(**{
            'id': 0, 'total': 100 * GIB, 'free': 40 * GIB, **capacity}),
        performance=performance, state=state, **(counts or {}))


class Case(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = replicated.operations(replicated.array('home'))
        self.moon = replicated.operations(replicated.array('moon'))
        self.conf = mock.Mock(
            spec_set=['reserved_percentage', 'max_over_subscription_ratio',
                      'auto_calc_max_oversubscription_ratio'],
            reserved_percentage=7, max_over_subscription_ratio='20.0',
            auto_calc_max_oversubscription_ratio=False)
        self.usage = usage()
        for side in self.home, self.moon:
            side.array.system.usage.side_effect = lambda: self.usage
            side.monitor.watch_replication.return_value = False
        self.configure()

    def configure(self, **targets):
        self.every = arrays.ArraySet(self.home, targets, None)
        self.statistics = stats.Statistics(
            self.every, self.conf, 'k2@gold', FIXED)

    def read(self):
        return self.statistics.read({})

    def pool(self, **capacity):
        if capacity:
            self.usage = usage(**capacity)
        return self.read()['pools'][0]

    def fail(self, error=None):
        self.home.array.system.usage.side_effect = (
            error or rest.Unreachable('gone'))


@ddt.ddt
class StatisticsTest(Case):

    def test_back_end(self):
        found = self.read()
        del found['pools']
        self.assertEqual({
            'volume_backend_name': 'k2@gold', 'storage_protocol': 'iSCSI',
            'vendor_name': 'vendor', 'backend_state': 'up',
            'replication_enabled': False, 'replication_type': [],
            'replication_count': 0, 'replication_targets': []}, found)

    def test_unneeded_mappings_are_reconciled(self):
        """On all arrays: groups may be failed over separately."""
        self.configure(moon=self.moon)
        self.read()
        for side in (self.home, self.moon):
            side.reconciliation.run.assert_called_once_with()

    def test_no_reconciliation_while_the_array_is_down(self):
        self.fail()
        self.read()
        self.home.reconciliation.run.assert_not_called()

    def test_an_array_that_is_always_slow(self):
        """One array is reconciled, and replication checked, nevertheless."""
        self.configure(moon=self.moon)
        now = [0.0]

        def usage():
            now[0] += 5.0
            return self.usage
        self.home.array.system.usage.side_effect = usage
        with mock.patch.object(time, 'monotonic', lambda: now[0]):
            self.assertIn('replication_status', self.read())
        self.home.reconciliation.run.assert_called_once_with()

    @ddt.data((1.4, 2, True), (1.5, 2, False), (3.0, 1, False))
    @ddt.unpack
    def test_reconciliation_takes_long(self, seconds, arrays, watched):
        """Other arrays, and replication, wait for the next statistics."""
        self.configure(moon=self.moon)
        now = [0.0]

        def reconcile():
            now[0] += seconds
        for side in (self.home, self.moon):
            side.reconciliation.run.side_effect = reconcile
        with mock.patch.object(time, 'monotonic', lambda: now[0]):
            self.assertIs(watched, 'replication_status' in self.read())
        self.assertEqual(arrays, sum(side.reconciliation.run.call_count
                                     for side in (self.home, self.moon)))

    def test_nothing_more_is_asked_of_an_array_that_is_too_busy(self):
        self.configure(moon=self.moon)
        self.usage = dataclasses.replace(self.usage, current=False)
        found = self.read()
        self.assertEqual('up', found['backend_state'])
        self.assertNotIn('replication_status', found)
        self.home.monitor.watch_replication.assert_not_called()
        self.home.reconciliation.run.assert_not_called()

    def test_pool(self):
        functions = {'filter_function': 'f', 'goodness_function': None}
        pool, = self.statistics.read(functions)['pools']
        self.assertEqual({
            'pool_name': 'k2@gold', 'backend_state': 'up',
            'location_info': 'K2:home:iSCSI', 'reserved_percentage': 7,
            'max_over_subscription_ratio': 20.0,
            'thin_provisioning_support': True,
            'thick_provisioning_support': False, 'sparse_copy_volume': True,
            'online_extend_support': True, 'multiattach': True,
            'consistent_group_snapshot_enabled': True,
            'consistencygroup_support': True, 'QoS_support': False,
            'replication_enabled': False, 'replication_type': [],
            'replication_count': 0, 'replication_targets': [],
            'total_capacity_gb': 100.0, 'free_capacity_gb': 40.0,
            'provisioned_capacity_gb': 0.0, 'data_reduction_ratio': 1.0,
            'total_reduction_ratio': 1.0, 'array_state': 'unknown',
            'capacity_state': 'unknown', 'degraded': False,
            'performance_known': False, 'iops': 0, 'iops_max': 0,
            'bandwidth_bytes_per_sec': 0, 'bandwidth_max_bytes_per_sec': 0,
            'latency_inner_usec': 0, 'latency_outer_usec': 0,
            'total_volumes': 0, 'total_snapshots': 0, 'total_views': 0,
            'total_hosts': 0,
            'kaminario:thin_prov_type': ['dedup', 'nodedup'], **functions},
            pool)

    def test_capacity(self):
        """CAP-1, CAP-2."""
        pool = self.pool(
            total=3 * GIB, free=GIB // 3, provisioned_volumes=9 * GIB,
            allocated=100, physical=30, provisioned=500)
        self.assertEqual((3.0, 0.33, 9.0, 3.33, 16.67), tuple(
            pool[key] for key in (
                'total_capacity_gb', 'free_capacity_gb',
                'provisioned_capacity_gb', 'data_reduction_ratio',
                'total_reduction_ratio')))

    def test_object_counts(self):
        pool = self.pool(counts={
            'volumes': 1, 'snapshots': 2, 'views': 3, 'hosts': 4})
        self.assertEqual([1, 2, 3, 4], [pool[f'total_{name}'] for name in (
            'volumes', 'snapshots', 'views', 'hosts')])

    @ddt.data((True, True), (False, False), (None, False))
    @ddt.unpack
    def test_degraded_array(self, told, expected):
        pool = self.pool(state=rest.SystemState(
            id=0, state='ONLINE', is_system_functionality_degraded=told))
        self.assertEqual(('ONLINE', expected),
                         (pool['array_state'], pool['degraded']))

    def test_performance(self):
        """STA-5: the array's milliseconds become integer microseconds."""
        pool = self.pool(performance=rest.Performance(
            iops_avg=1.6, iops_max=2, throughput_avg=3, throughput_max=4,
            latency_inner=1.2344, latency_outer=6))
        self.assertEqual((True, 2, 2, 3, 4, 1234, 6000), tuple(
            pool[key] for key in (
                'performance_known', 'iops', 'iops_max',
                'bandwidth_bytes_per_sec', 'bandwidth_max_bytes_per_sec',
                'latency_inner_usec', 'latency_outer_usec')))

    def test_invalid_performance_values(self):
        pool = self.pool(performance=rest.Performance(
            iops_avg=-5, iops_max=float('inf')))
        self.assertEqual((0, 1 << 60, 0), (
            pool['iops'], pool['iops_max'], pool['latency_outer_usec']))


@ddt.ddt
class OversubscriptionRatioTest(Case):

    def ratio(self, **capacity):
        return self.pool(**capacity)['max_over_subscription_ratio']

    def test_ratio_from_cinder_conf(self):
        self.conf.max_over_subscription_ratio = '7.5'
        self.assertEqual(7.5, self.ratio(provisioned_volumes=600 * GIB))

    @ddt.data((600, 40, 10.0), (60, 40, 1.0), (30, 40, 1.0),
              (600, 100, 7.5), (0, 40, 7.5))
    @ddt.unpack
    def test_calculated_ratio(self, provisioned, free, expected):
        """Calculated if the array has data; at least 1 for the scheduler."""
        self.conf.auto_calc_max_oversubscription_ratio = True
        self.conf.max_over_subscription_ratio = '7.5'
        self.assertEqual(expected, self.ratio(
            provisioned_volumes=provisioned * GIB, free=free * GIB))

    @ddt.data((60, 10, 4.0), (99, 10, 4.0), (99.5, 10, 20.0),
              (100, 10, 20.0), (60, None, 20.0))
    @ddt.unpack
    def test_ratio_from_data_reduction(self, free, physical, expected):
        """Measurements of an almost empty array are ignored."""
        self.conf.max_over_subscription_ratio = 'auto'
        self.assertEqual(expected, self.ratio(
            free=int(free * GIB), allocated=40, physical=physical))


@ddt.ddt
class ArrayDownTest(Case):

    @ddt.data(rest.Unreachable('gone'), exceptions.ArrayNotSupported('odd'))
    def test_lost_array(self, error):
        """No filter of Cinder checks the state, so capacity is 0."""
        self.pool(counts={'volumes': 9}, provisioned_volumes=GIB,
                  state=rest.SystemState(id=0, state='ONLINE'))
        self.fail(error)
        found = self.read()
        pool, = found['pools']
        self.assertEqual(('down', 'down', 0, 0, 0, 'unknown', 9), (
            found['backend_state'], pool['backend_state'],
            pool['total_capacity_gb'], pool['free_capacity_gb'],
            pool['provisioned_capacity_gb'], pool['array_state'],
            pool['total_volumes']))

    def test_unexpected_error(self):
        self.fail(KeyError('mistake'))
        self.assertRaises(KeyError, self.read)

    def test_down_is_logged_once(self):
        self.fail()
        with self.assertLogs(LOG, 'INFO') as logs:
            self.read()
            self.read()
        text, = logs.output
        self.assertIn('The array at home.example.org is reported as down: ',
                      text)
        self.assertIn('gone', text)
        self.assertIn('ERROR', text)

    def test_recovery_is_logged_once(self):
        self.fail()
        self.read()
        self.home.array.system.usage.side_effect = lambda: self.usage
        with self.assertLogs(LOG, 'INFO') as logs:
            self.assertEqual('up', self.read()['backend_state'])
            self.read()
        text, = logs.output
        self.assertIn('The array at home.example.org is up again.', text)

    def test_nothing_logged_while_up(self):
        with self.assertNoLogs(LOG):
            self.read()


@ddt.ddt
class ReplicationTest(Case):

    def setUp(self):
        super().setUp()
        self.configure(moon=self.moon)

    def test_targets(self):
        found = self.read()
        for told in found, found['pools'][0]:
            self.assertEqual((True, ['async'], 1, ['moon']), tuple(
                told[f'replication_{key}'] for key in (
                    'enabled', 'type', 'count', 'targets')))

    @ddt.data((False, 'enabled'), (True, 'error'))
    @ddt.unpack
    def test_replication_status(self, broken, expected):
        def watch():
            self.assertEqual(['probe_deadline'], self.home.array.inside)
            return broken
        self.home.monitor.watch_replication.side_effect = watch
        self.assertEqual(expected, self.read()['replication_status'])
        self.home.monitor.watch_replication.assert_called_once_with()

    def test_failed_over_to_the_target(self):
        self.every.activate('moon')
        self.moon.monitor.watch_replication.return_value = True
        found = self.read()
        self.assertEqual('error', found['replication_status'])
        self.assertEqual('K2:moon:iSCSI',
                         found['pools'][0]['location_info'])
        self.home.array.system.usage.assert_not_called()
        self.home.monitor.watch_replication.assert_not_called()

    def test_without_targets(self):
        self.configure()
        self.assertNotIn('replication_status', self.read())
        self.home.monitor.watch_replication.assert_not_called()

    def test_array_down(self):
        self.fail()
        self.assertNotIn('replication_status', self.read())
        self.home.monitor.watch_replication.assert_not_called()

    def test_replication_status_cannot_be_read(self):
        self.home.monitor.watch_replication.side_effect = rest.Refused('no')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertNotIn('replication_status', self.read())
        self.assertIn('The state of replication is not known', logs.output[0])

    def test_primary_is_not_a_target(self):
        self.assertNotIn(config.PRIMARY_ID,
                         self.read()['replication_targets'])


@ddt.ddt
class FunctionsTest(Case):
    """The default functions, evaluated by Cinder's scheduler."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Parsing takes half a second for each function.
        parser = evaluator._def_parser()
        cls.parsed = {
            function: parser.parse_string(function, parseAll=True)[0]
            for function in (stats.FILTER_FUNCTION, stats.GOODNESS_FUNCTION)}

    def evaluate(self, function, **capacity):
        with mock.patch.object(evaluator, '_vars',
                               {'capabilities': self.pool(**capacity)}):
            return self.parsed[function].eval()

    @ddt.data((7, 8, True), (7, 7, False), (3, 6, True), (3, 5, False))
    @ddt.unpack
    def test_filter_reserved_capacity(self, reserved, free, expected):
        """At least five percent must stay free."""
        self.conf.reserved_percentage = reserved
        self.assertIs(expected, self.evaluate(
            stats.FILTER_FUNCTION, free=free * GIB))

    def test_filter_and_goodness_of_a_degraded_array(self):
        self.usage = usage(state=rest.SystemState(
            id=0, is_system_functionality_degraded=True))
        self.assertIs(False, self.evaluate(stats.FILTER_FUNCTION))
        self.assertEqual(0, self.evaluate(stats.GOODNESS_FUNCTION))

    def test_filter_array_with_capacity_state_full(self):
        self.usage = array_usage.ArrayUsage(capacity=rest.Capacity(
            id=0, total=100 * GIB, free=40 * GIB, state='full'))
        self.assertEqual('full', self.pool()['capacity_state'])
        self.assertIs(False, self.evaluate(stats.FILTER_FUNCTION))

    def test_goodness(self):
        self.assertEqual(40, self.evaluate(stats.GOODNESS_FUNCTION))

    def test_filter_and_goodness_of_an_array_that_is_down(self):
        self.fail()
        self.assertEqual(0, self.evaluate(stats.GOODNESS_FUNCTION))
        self.assertIs(False, self.evaluate(stats.FILTER_FUNCTION))


class ExtraSpecsTest(testtools.TestCase):

    def test_default_of_each_extra_spec(self):
        found = list(stats.extra_specs(['thin', 'copy']))
        self.assertEqual(list(volume_types.EXTRA_SPECS),
                         [spec for spec, _ in found])
        self.assertEqual({
            volume_types.DEDUP.key: 'dedup',
            volume_types.STRATEGY.key: 'thin,copy',
            volume_types.REPLICATION.key: 'disabled',
            volume_types.RPO.key: None, volume_types.TARGET.key: None},
            {spec.key: default for spec, default in found})
