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

"""Statistics, and their use in Cinder's own scheduler."""

import json
import logging
import pathlib
import re
from typing import Any

from cinder.scheduler.evaluator import evaluator
from cinder.scheduler import host_manager
import ddt

from cinder_k2.array import system
from cinder_k2.driver import stats
from tests.functional import base

TIB = 1 << 30
# Cinder's defaults, and with our filter function.
DEFAULT = ('AvailabilityZoneFilter', 'CapacityFilter', 'CapabilitiesFilter')
ALL = (*DEFAULT, 'DriverFilter')
FIVE_MINUTES = 301


class StatsTest(base.FunctionalTest):
    """Tests with a separate back end, because counts are cached."""

    def setUp(self) -> None:
        super().setUp()
        self.own(self.protocol, **self.options)
        self.addCleanup(self.array.control.set_performance, iops_avg=0,
                        iops_max=0, throughput_avg=0, throughput_max=0,
                        latency_inner=0, latency_outer=0)

    def pool(self) -> dict[str, Any]:
        """Return fresh statistics of the one pool."""
        pool, = self.backend.stats()['pools']
        return dict(pool)

    def fill(self, written: int, size: int | None = None) -> Any:
        """Create a volume with so many KiB written; return its row."""
        volume = self.make('volumes', name='data', size=size or written,
                           volume_group={'ref': self._group()})
        self.array.control.set_written(volume['id'], written)
        return volume

    def _group(self) -> str:
        groups = self.admin.list('volume_groups', name='data')
        group = groups[0] if groups else self.make(
            'volume_groups', name='data', quota=0)
        return f'/volume_groups/{group["id"]}'

    def later(self) -> None:
        """Advance the clock until cached counts have expired."""
        self.clock.slept += FIVE_MINUTES

    # The scheduler

    def scheduler(self) -> host_manager.HostManager:
        """Return Cinder's host manager after a report, passed as JSON."""
        manager = self.backend.manager
        manager._report_driver_status(self.backend.context)
        told = json.loads(json.dumps(manager.last_capabilities))
        scheduler = host_manager.HostManager()
        scheduler.update_service_capabilities(
            'volume', self.backend.host, told, None, None)
        return scheduler

    def takes(self, filters: tuple[str, ...] = ALL, size: int = 1,
              **specs: str) -> bool:
        """Return whether a new volume of that size and type fits here."""
        scheduler = self.scheduler()
        pools = scheduler.get_all_backend_states(self.backend.context)
        kind = {'extra_specs': {k.replace('__', ':'): v
                                for k, v in specs.items()}}
        found = scheduler.get_filtered_backends(pools, {
            'context': self.backend.context, 'size': size,
            'resource_type': kind, 'volume_type': kind,
            'request_spec': {'volume_properties': {'size': size}}}, filters)
        return bool(found)

    def goodness(self) -> float:
        """Return the goodness that Cinder's weigher computes."""
        scheduler = self.scheduler()
        pool, = scheduler.get_all_backend_states(self.backend.context)
        weigher, = scheduler._choose_backend_weighers(['GoodnessWeigher'])
        return float(weigher()._weigh_object(pool, {}))


@base.pairwise_variants
class StatisticsTest(StatsTest):

    feature = 'statistics'

    def test_an_array_in_use(self) -> None:
        volume = self.backend.create_volume(6)
        self.backend.create_snapshot(volume)
        host = self.backend.attach(volume, self.host())
        self.fill(8 * TIB, 40 * TIB)
        self.array.control.set_performance(
            iops_avg=20000, iops_max=21500, throughput_avg=327680000,
            throughput_max=352256000, latency_inner=0.44, latency_outer=0.03)
        self.later()
        system_id = self.admin.list('system/state')[0]['system_id']
        protocol = {'iscsi': 'iSCSI', 'fc': 'FC'}[self.protocol]
        self.assertEqual({
            'volume_backend_name': self.backend.name,
            'vendor_name': 'Kaminario',
            'driver_version': self.backend.driver.VERSION,
            'storage_protocol': protocol,
            'backend_state': 'up',
            'replication_enabled': False,
            'replication_type': [],
            'replication_count': 0,
            'replication_targets': [],
            'pools': [{
                'pool_name': self.backend.name,
                'backend_state': 'up',
                'location_info': f'K2:{system_id}:{protocol}',
                'total_capacity_gb': 102400.0,
                'free_capacity_gb': 94208.0,
                'provisioned_capacity_gb': 40966.0,
                'reserved_percentage': 0,
                'max_over_subscription_ratio': 20.0,
                'data_reduction_ratio': 4.0,
                # Provisioned: the large volume, a volume and its snapshot.
                'total_reduction_ratio': round((40960 + 6 + 6) / 2048, 2),
                'thin_provisioning_support': True,
                'thick_provisioning_support': False,
                'sparse_copy_volume': True,
                'online_extend_support': True,
                'multiattach': True,
                'consistent_group_snapshot_enabled': True,
                'consistencygroup_support': True,
                'QoS_support': False,
                'replication_enabled': False,
                'replication_type': [],
                'replication_count': 0,
                'replication_targets': [],
                'array_state': 'ONLINE',
                'capacity_state': 'ok',
                'degraded': False,
                'performance_known': True,
                'iops': 20000,
                'iops_max': 21500,
                'bandwidth_bytes_per_sec': 327680000,
                'bandwidth_max_bytes_per_sec': 352256000,
                'latency_inner_usec': 440,
                'latency_outer_usec': 30,
                'total_volumes': 2,
                'total_snapshots': 1,
                'total_views': 0,
                'total_hosts': 1,
                'kaminario:thin_prov_type': ['dedup', 'nodedup'],
                'filter_function': stats.FILTER_FUNCTION,
                'goodness_function': stats.GOODNESS_FUNCTION,
            }]}, self.backend.stats())
        self.backend.detach(host)
        self.assertTrue(self.takes(size=1000))

    def test_capabilities(self) -> None:
        """The output of "cinder get-capabilities"."""
        found = self.backend.manager.get_capabilities(self.backend.context,
                                                      True)
        self.assertEqual('kaminario', found['vendor_prefix'])
        self.assertEqual('Kaminario', found['vendor_name'])
        ours = {key: (entry['type'], entry.get('enum'), entry['default'])
                for key, entry in found['properties'].items()
                if key.startswith('kaminario:')}
        self.assertEqual({
            'kaminario:thin_prov_type':
                ('string', ['dedup', 'nodedup'], 'dedup'),
            'kaminario:clone_strategy':
                ('string', ['thin', 'view', 'copy'], 'thin,view,copy'),
            'kaminario:replication':
                ('string', ['enabled', 'disabled'], 'disabled'),
            'kaminario:replication_rpo': ('string', None, None),
            'kaminario:replication_target': ('string', None, None)}, ours)
        for entry in found['properties'].values():
            self.assertTrue(entry['title'] and entry['description'])

    def test_an_array_that_is_lost(self) -> None:
        before = self.pool()
        self.fault('reset', '*', '*', times=99999)
        self.assertFalse(self.takes(DEFAULT))
        self.assertEqual('down', self.backend.stats()['backend_state'])
        self.assertEqual({
            **before, 'backend_state': 'down', 'total_capacity_gb': 0,
            'free_capacity_gb': 0, 'provisioned_capacity_gb': 0,
            'array_state': 'unknown', 'capacity_state': 'unknown'},
            self.pool())
        self.array.control.clear_faults()
        self.assertEqual(before, self.pool())
        self.assertTrue(self.takes())


@ddt.ddt
class SchedulerTest(StatsTest):
    """The default filter and goodness functions, through Cinder's code."""

    def test_an_array_that_fills_up(self) -> None:
        self.assertEqual(100, self.goodness())
        data = self.fill(50 * TIB, 100 * TIB)
        for written, good in ((50, 50), (94, 6)):
            self.array.control.set_written(data['id'], written * TIB)
            self.assertTrue(self.takes())
            self.assertEqual(good, self.goodness())
        self.array.control.set_written(data['id'], 95 * TIB)
        # Cinder's own filters consider only provisioned capacity.
        self.assertTrue(self.takes(DEFAULT))
        self.assertFalse(self.takes())

    def test_reserved_percentage_counts_for_what_is_really_free(self
                                                                ) -> None:
        self.own('iscsi', reserved_percentage=30)
        data = self.fill(69 * TIB)
        self.assertTrue(self.takes())
        self.array.control.set_written(data['id'], 0)
        self.assertTrue(self.takes())
        self._unmake()
        self._made.clear()
        self.fill(70 * TIB)
        self.assertTrue(self.takes(DEFAULT))
        self.assertFalse(self.takes())

    def test_a_degraded_array(self) -> None:
        self.switch(degraded=True)
        self.assertTrue(self.takes(DEFAULT))
        self.assertFalse(self.takes())
        self.assertEqual(0, self.goodness())
        self.assertEqual('up', self.backend.stats()['backend_state'])

    def test_an_array_that_says_it_is_full(self) -> None:
        """An array that reports full is not used, even with free space."""
        roomy = self.pool()
        self.switch(full=True)
        self.assertEqual('full', self.pool()['capacity_state'])
        self.assertFalse(self.takes())
        self.assertEqual(0, self.goodness())
        self.assertFalse(evaluator.evaluate(
            self.backend.driver.get_filter_function(),
            capabilities={**roomy, 'capacity_state': 'full'}))

    @ddt.data('OFFLINE', 'STARTING')
    def test_a_state_that_is_not_known(self, state: str) -> None:
        """Section 7.1: no state is a reason to report the array as down."""
        system.TOLD.clear()
        before = self.pool()
        self.switch(state=state)
        for _ in range(3):
            self.assertEqual('up', self.backend.stats()['backend_state'])
        # The simulated array is also degraded, which our filter considers.
        self.assertEqual({**before, 'array_state': state, 'degraded': True},
                         self.pool())
        self.assertTrue(self.takes(DEFAULT))
        self.assertEqual(1, self.log.text().count(f'in state {state}, not'))

    def test_the_list_of_services_says_that_it_is_down(self) -> None:
        """The API takes backend_state from the pool."""
        for state in ('up', 'down'):
            pool, = self.scheduler().get_pools(self.backend.context)
            self.assertEqual(state, pool['capabilities']['backend_state'])
            self.fault('reset', '*', '*', times=99999)

    def test_types(self) -> None:
        """Which extra specs Cinder compares with reported capabilities."""
        for specs in ({'multiattach': '<is> True'},
                      {'consistent_group_snapshot_enabled': '<is> True'},
                      {'thin_provisioning_support': '<is> True'},
                      {'volume_backend_name': self.backend.name},
                      {'capabilities__replication_enabled': '<is> False'},
                      {'storage_protocol': 'iSCSI'},
                      # The driver's own extra specs are not compared.
                      {'kaminario__thin_prov_type': '<in> nodedup'},
                      {'kaminario__replication': '<is> True'}):
            self.assertTrue(self.takes(**specs), str(specs))
        for specs in ({'replication_enabled': '<is> True'},
                      {'replication_type': '<in> async'},
                      {'QoS_support': '<is> True'},
                      {'thick_provisioning_support': '<is> True'},
                      {'volume_backend_name': 'another'}):
            self.assertFalse(self.takes(**specs), str(specs))

    def test_functions_of_the_operator(self) -> None:
        """Functions can use counts and figures, and replace the default."""
        self.own('iscsi', filter_function='"(capabilities.total_volumes < 1) '
                 'and (capabilities.latency_inner_usec < 900)"',
                 goodness_function='"capabilities.iops / 1000"')
        self.array.control.set_performance(iops_avg=42000, latency_inner=0.8)
        self.later()
        self.assertTrue(self.takes())
        self.assertEqual(42, self.goodness())
        self.array.control.set_performance(latency_inner=0.9)
        self.later()
        self.assertFalse(self.takes())
        self.array.control.set_performance(latency_inner=0.1)
        self.backend.create_volume(1)
        self.later()
        self.assertFalse(self.takes())

    def test_figures_that_are_missing_do_not_upset_such_a_function(self
                                                                   ) -> None:
        self.own('iscsi', filter_function='capabilities.latency_inner_usec '
                 '+ capabilities.iops_max < 900')
        self.switch(statistics=False)
        self.later()
        self.assertTrue(self.takes())
        self.assertFalse(self.pool()['performance_known'])
        self.assertEqual('up', self.backend.stats()['backend_state'])


@ddt.ddt
class OverSubscriptionTest(StatsTest):

    def ratio(self, **options: Any) -> Any:
        """Return the reported ratio of a back end with these options."""
        self.own('iscsi', **options)
        return self.pool()['max_over_subscription_ratio']

    def test_auto_is_the_data_reduction_of_the_array(self) -> None:
        """CAP-2: data takes a quarter of its size."""
        self.fill(10 * TIB, 350 * TIB)
        self.assertEqual(4.0, self.ratio(max_over_subscription_ratio='auto'))
        # 100 TiB, with a data reduction of 4.
        self.assertTrue(self.takes(DEFAULT, 50 * 1024))
        self.assertFalse(self.takes(DEFAULT, 50 * 1024 + 1))

    def test_auto_of_an_array_with_hardly_any_data(self) -> None:
        for written in (0, TIB - 1):
            self.fill(written, TIB)
            self.assertEqual(20.0, self.ratio(
                max_over_subscription_ratio='auto'))
            self.assertTrue(self.takes(DEFAULT, 1900 * 1024))
            self._unmake()
            self._made.clear()

    def test_the_option_of_the_driver_inside_cinder(self) -> None:
        """The ratio is provisioned to used capacity, but at least 1."""
        self.fill(10 * TIB, 70 * TIB)
        calc = {'auto_calc_max_oversubscription_ratio': True}
        self.assertEqual(7.0, self.ratio(**calc))
        self.assertEqual(7.0, self.ratio(
            max_over_subscription_ratio='auto', **calc))
        self.fault('reset', '*', '*', times=99999)
        self.assertEqual(20.0, self.pool()['max_over_subscription_ratio'])

    def test_a_number(self) -> None:
        self.fill(10 * TIB, 70 * TIB)
        self.assertEqual(3.5, self.ratio(max_over_subscription_ratio='3.5'))
        self.assertEqual(20.0, self.ratio())

    def test_a_number_below_one(self) -> None:
        """Cinder's scheduler would never select it."""
        backend = self.new_backend('iscsi', max_over_subscription_ratio='0.5')
        self.assertFalse(backend.start())
        self.assertIn('max_over_subscription_ratio', self.log.errors_text())


@ddt.ddt
class CostTest(StatsTest):
    """Two calls a minute, five more every five minutes; no exceptions."""

    def test_two_calls(self) -> None:
        for _ in range(2):
            with self.assert_calls(2):
                self.backend.stats()
            self.later()
            with self.assert_calls(2 + 5):
                self.backend.stats()
            for _ in range(5):
                self.backend.create_volume(1)

    def test_counts_are_at_most_five_minutes_old(self) -> None:
        self.backend.create_volume(1)
        pool = self.pool()
        self.assertEqual((0, 1), (pool['total_volumes'],
                                  pool['provisioned_capacity_gb']))
        self.later()
        self.assertEqual(1, self.pool()['total_volumes'])

    @ddt.data({'kind': 'status', 'status': 500},
              {'kind': 'status', 'status': 403}, {'kind': 'garbage'},
              {'kind': 'empty'}, {'kind': 'truncated'}, {'kind': 'reset'},
              {'kind': 'busy'})
    def test_whatever_goes_wrong(self, fault: dict[str, Any]) -> None:
        """The back end is down only if its capacity is unknown."""
        for path, state in (('system/capacity', 'down'),
                            ('system/state', 'up'), ('stats/system', 'up'),
                            ('volumes', 'up'), ('hosts', 'up'),
                            ('*', 'down')):
            self.fault(method='GET', path=path, times=99999,
                       **{k: v for k, v in fault.items()})
            self.later()
            before = self.clock.slept
            self.assertEqual(state, self.backend.stats()['backend_state'],
                             path)
            self.assertLess(self.clock.slept - before, 80)
            self.array.control.clear_faults()
            self.assertEqual('up', self.backend.stats()['backend_state'])

    def test_an_array_that_refuses_connections(self) -> None:
        """Cinder is not kept waiting for long."""
        port = self.array.listen()
        backend = self.own(self.protocol, san_api_port=port)
        self.assertEqual('up', backend.stats()['backend_state'])
        self.array.stop_listening(port)
        before = self.clock.slept
        self.assertEqual('down', backend.stats()['backend_state'])
        self.assertLess(self.clock.slept - before, 10)

    def test_the_log_has_a_line_for_each_change(self) -> None:
        for _ in range(3):
            self.fault('status', 'GET', '*', status=403, times=99999)
            for _ in range(3):
                self.backend.stats()
            self.array.control.clear_faults()
            self.backend.stats()
        lines = self.log.messages(logging.ERROR, 'cinder_k2')
        self.assertEqual(3, len(lines), str(lines))
        self.assertIn('is reported as down: ', lines[0])
        self.assertEqual(3, self.log.text().count(' is up again.'))

    def test_every_key_is_explained(self) -> None:
        page = self._page()
        explained = set(re.findall(r'``([\w:]+)``', page))
        self.assertEqual(set(), set(self.pool()) - explained)
        for function in (stats.FILTER_FUNCTION, stats.GOODNESS_FUNCTION):
            self.assertIn(function, ' '.join(page.split()))

    def test_examples_of_the_documents(self) -> None:
        """An idle array passes the filter and has the best goodness."""
        found = re.findall(r'^   (\w+)_function = "(.+)"$', self._page(), re.M)
        self.assertEqual(['filter', 'filter', 'goodness'],
                         [kind for kind, _ in found])
        for kind, function in found:
            result = evaluator.evaluate(function, capabilities=self.pool())
            self.assertEqual(True if kind == 'filter' else 100, result)

    def _page(self) -> str:
        return pathlib.Path(__file__).parents[2].joinpath(
            'doc', 'source', 'operator', 'scheduling.rst').read_text()

    def test_an_array_that_is_lost_from_the_beginning(self) -> None:
        """The back end is down from the first report on."""
        fresh = self.new_backend('iscsi')
        fresh.driver.do_setup(fresh.context)
        self.fault('reset', '*', '*', times=99999)
        pool, = fresh.stats()['pools']
        self.assertEqual(('down', 0, 'K2::iSCSI'), (
            pool['backend_state'], pool['total_capacity_gb'],
            pool['location_info']))
        self.assertEqual(set(self.pool()), set(pool))
