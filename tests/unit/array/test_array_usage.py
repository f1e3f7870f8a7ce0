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

"""Usage of the array, from valid and invalid replies."""

import dataclasses
import time
from unittest import mock
from urllib import parse

import ddt
import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from cinder_k2.array import array_usage
from cinder_k2.array import system
from cinder_k2 import exceptions
from cinder_k2 import rest
from tests.unit.rest import scripted
from tests.unit import simulated

GIB = simulated.GIB
MORE = 5
FIELDS = ('id', 'total', 'free', 'state', 'allocated', 'provisioned',
          'physical', 'iops_avg', 'latency_inner', 'rest_api_version',
          'is_system_functionality_degraded')
VALUES = (st.none() | st.booleans() | st.integers() | st.floats()
          | st.text(max_size=5) | st.sampled_from((10 ** 400, '1e999', [])))
OBJECTS = VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES)
# Mostly in the shape of a reply.
JSON = OBJECTS | st.fixed_dictionaries({
    'hits': st.lists(OBJECTS, max_size=2), 'total': VALUES})


@ddt.ddt
class UsageTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            format='%(levelname)s %(message)s'))
        system.TOLD.clear()
        self.addCleanup(system.TOLD.clear)
        self.control = self.sim.control
        self.group = self.client.volume_groups.create(name='g', quota=0)
        self.volume = self.client.volumes.create(
            name='v', size=40 * GIB, volume_group=self.group.ref)
        self.control.set_written(self.volume.id, 8 * GIB)

    def read(self, calls=None):
        """Read the usage; check the number of calls."""
        self.control.clear_journal()
        usage = self.array.system.usage()
        if calls is not None:
            self.assertEqual(calls, len(self.calls()), self.calls())
        return usage

    def warnings(self):
        """Logged warnings about missing statistics."""
        return [line for line in self.log.output.splitlines()
                if line.startswith('WARNING The statistics lack')]

    def test_an_array_in_use(self):
        self.control.set_performance(iops_avg=100, latency_inner=0.5)
        policy = self.client.retention_policies.find(name='CDP').ref
        taken = self.client.snapshots.create(
            short_name='s', source=self.group.ref, retention_policy=policy)
        self.client.snapshots.create(
            short_name='w', source=taken.ref, retention_policy=policy,
            is_exposable=True)
        self.client.hosts.create(name='h', type='Linux')
        usage = self.read(calls=2 + MORE)
        self.assertEqual((1, 1, 1, 1), (usage.volumes, usage.snapshots,
                                        usage.views, usage.hosts))
        self.assertEqual((100.0, 0.5), (usage.performance.iops_avg,
                                        usage.performance.latency_inner))
        self.assertEqual((True, False), (usage.online, usage.degraded))
        # CAP-2: 8 of 8 GiB written take 2; provisioned: 3 * 40.
        self.assertEqual((4.0, 60.0), (usage.data_reduction,
                                       usage.total_reduction))

    def test_two_calls_until_five_minutes_have_passed(self):
        self.read(calls=2 + MORE)
        self.client.volumes.create(name='v2', size=GIB,
                                   volume_group=self.group.ref)
        self.clock.advance(299)
        usage = self.read(calls=2)
        self.assertEqual((1, 41 * GIB),
                         (usage.volumes, usage.capacity.provisioned_volumes))
        self.clock.advance(1)
        self.assertEqual(2, self.read(calls=2 + MORE).volumes)
        self.read(calls=2)

    def test_performance_is_averaged_over_five_minutes(self):
        self.read()
        asked = [e.query for e in self.control.journal()
                 if e.path.endswith('stats/system')]
        self.assertEqual(1, len(asked))
        self.assertIn('__resolution=5m', asked[0])

    @ddt.data({'kind': 'status', 'status': 403}, {'kind': 'garbage'},
              {'kind': 'status', 'status': 500}, {'kind': 'reset'},
              {'kind': 'hang', 'seconds': 7200.0})
    def test_failing_requests_do_not_block_the_rest(self, fault):
        """Counts keep their last values; performance is None meanwhile."""
        before = self.read()
        for path in ('stats/system', 'volumes', 'snapshots', 'hosts'):
            self.control.add_fault(path=path, method='GET', **fault)
        self.clock.advance(301)
        began = self.clock.monotonic()
        usage = self.read()
        self.assertLess(self.clock.monotonic() - began, 10)
        self.assertIsNone(usage.performance)
        self.assertEqual((before.volumes, before.capacity.free),
                         (usage.volumes, usage.capacity.free))
        self.read(calls=2)
        self.control.clear_faults()
        self.clock.advance(301)
        self.assertEqual(0.0, self.read().performance.iops_avg)

    def test_one_silent_figure_does_not_cost_the_others(self):
        self.read()
        self.client.hosts.create(name='h', type='Linux')
        self.control.add_fault(path='volumes', method='GET', kind='hang',
                               seconds=7200.0)
        self.clock.advance(301)
        self.assertEqual(1, self.read().hosts)

    def test_a_slow_moment_does_not_cost_figures(self):
        """The other figures are read with the next statistics."""
        self.control.set_performance(iops_avg=100)
        self.read()
        self.clock.advance(250)
        self.read()
        for path in ('system/capacity', 'system/state'):
            self.control.add_fault(path=path, method='GET', kind='hang',
                                   seconds=7200.0, times=1)
        self.clock.advance(51)
        self.assertEqual(100.0, self.read().performance.iops_avg)
        self.control.clear_faults()
        self.clock.advance(1)
        self.assertEqual(100.0, self.read(
            calls=2 + MORE).performance.iops_avg)

    @ddt.data({'kind': 'hang', 'seconds': 7200.0}, {'kind': 'busy'},
              {'kind': 'status', 'status': 504})
    def test_an_array_that_is_too_busy_to_report_its_capacity(self, fault):
        """The last capacity is reported for another 150 seconds."""
        before = self.read()
        self.control.add_fault(path='system/capacity', method='GET',
                               times=9999, **fault)
        self.clock.advance(60)
        began = self.clock.monotonic()
        usage = self.read()
        self.assertLess(self.clock.monotonic() - began, 10)
        self.assertEqual((before.capacity, False),
                         (usage.capacity, usage.current))
        self.clock.advance(100)
        began = self.clock.monotonic()
        self.assertRaises(rest.RestError, self.read)
        self.assertLess(self.clock.monotonic() - began, 10)
        self.control.clear_faults()
        self.assertTrue(self.read().current)

    def test_last_moment_of_an_old_capacity(self):
        """It counts for 150 s; after the retries of one read it is too old."""
        before = self.read().capacity
        self.control.add_fault(path='system/capacity', method='GET',
                               kind='busy', times=9999)
        self.clock.advance(150)
        usage = self.read()
        self.assertEqual((before, False), (usage.capacity, usage.current))
        self.assertRaises(rest.Busy, self.read)

    def test_state_beside_a_silent_capacity(self):
        """Enough of the ten seconds is left to read the state."""
        before = self.read()
        self.control.set_behaviors(state='OFFLINE')
        self.control.add_fault(path='system/capacity', method='GET',
                               kind='hang', seconds=7200.0)
        usage = self.read()
        self.assertEqual((True, False, False), (
            before.online, usage.online, usage.current))

    @ddt.data({'kind': 'status', 'status': 403}, {'kind': 'garbage'},
              {'kind': 'reset'})
    def test_no_old_capacity_of_an_array_that_is_not_busy(self, fault):
        self.read()
        self.control.add_fault(path='system/capacity', method='GET',
                               times=9999, **fault)
        self.assertRaises(rest.RestError, self.read)

    def test_missing_statistics_are_logged_once(self):
        self.control.set_behaviors(statistics=False)
        for _ in range(3):
            self.assertIsNone(self.read().performance)
            self.clock.advance(301)
        self.assertEqual(1, len([w for w in self.warnings()
                                 if '404' in w]), self.log.output)

    def test_missing_statistics_are_logged_again_later(self):
        for there in (True, False, True, False):
            self.control.set_behaviors(statistics=there)
            self.read()
            self.clock.advance(301)
        self.assertEqual(2, len(self.warnings()))

    @ddt.data(('system/state', 'state'), ('stats/system', 'performance'),
              ('volumes', 'volumes'), ('hosts', 'hosts'))
    @ddt.unpack
    def test_warning_says_what_is_missing(self, path, word):
        self.control.add_fault(path=path, method='GET', kind='status',
                               status=403)
        self.read()
        warning, = self.warnings()
        self.assertIn(word, warning.partition(':')[0])

    @ddt.data({'kind': 'status', 'status': 500},
              {'kind': 'hang', 'seconds': 7200.0}, {'kind': 'garbage'})
    def test_capacity_is_retried_for_a_minute(self, fault):
        self.control.add_fault(path='system/capacity', **fault)
        began = self.clock.monotonic()
        self.assertRaises(rest.RestError, self.read)
        self.assertLessEqual(self.clock.monotonic() - began, 61)

    def test_unknown_state_is_logged_once(self):
        """Section 7.1: usage is still read in full; ERR-6 may apply."""
        for state in ('OFFLINE', 'SERVING', 'OFFLINE', 'online', 'SERVING'):
            self.control.set_behaviors(state=state)
            usage = self.read()
            self.assertEqual((state == 'online', 1),
                             (usage.online, usage.volumes))
            self.clock.advance(301)
        told = [line for line in self.log.output.splitlines()
                if 'is in state' in line]
        self.assertEqual(['OFFLINE', 'SERVING'], [
            line.partition('in state ')[2].partition(',')[0]
            for line in told])
        self.assertTrue(all(line.startswith('WARNING') for line in told))

    @ddt.data({'kind': 'status', 'status': 500}, {'kind': 'reset'},
              {'kind': 'status', 'status': 502})
    def test_statistics_that_fail_at_first(self, fault):
        """ERR-6: they are requested again, not taken for unsupported."""
        self.client.capabilities._verdicts.pop('statistics')
        self.control.add_fault(path='stats/system', **fault)
        for _ in range(2):
            self.assertIsNone(self.read().performance)
            self.clock.advance(301)
        self.assertEqual('unknown', self.client.capabilities.verdict(
            'statistics').state)
        self.assertEqual(1, len(self.warnings()))
        self.control.clear_faults()
        now = time.monotonic()
        with mock.patch.object(time, 'monotonic', lambda: now + 301):
            self.assertEqual(0.0, self.read().performance.iops_avg)

    def test_statistics_are_requested_in_any_state(self):
        """It is up to the array to refuse them."""
        self.control.set_behaviors(state='OFFLINE', statistics=True)
        self.read()
        self.assertIn('GET stats/system', self.calls())

    def test_last_state_is_kept_if_it_cannot_be_read(self):
        for state, online in (('ONLINE', True), ('OFFLINE', False)):
            self.control.set_behaviors(state=state)
            self.read()
            self.control.add_fault(kind='status', status=403,
                                   path='system/state')
            self.assertEqual(online, self.read().online)
            self.control.clear_faults()

    def test_state_never_read_counts_as_online(self):
        self.control.add_fault(kind='status', status=403,
                               path='system/state')
        usage = self.read()
        self.assertEqual((None, True, False),
                         (usage.state, usage.online, usage.degraded))

    def test_degraded(self):
        self.control.set_behaviors(degraded=True)
        usage = self.read()
        self.assertEqual((True, True), (usage.online, usage.degraded))

    def test_array_id_is_cached(self):
        self.assertEqual('', self.array.system.known_id)
        self.read()
        self.control.clear_journal()
        self.assertEqual(self.array.system.known_id, self.array.system.id)
        self.assertTrue(self.array.system.id)
        self.assertEqual([], self.calls())

    def test_empty_array_has_no_ratio(self):
        self.control.set_written(self.volume.id, 0)
        usage = self.read()
        self.assertEqual((None, None), (usage.data_reduction,
                                        usage.total_reduction))

    def test_no_ratio_is_below_one(self):
        """On an almost empty array metadata may exceed the data."""
        usage = array_usage.ArrayUsage(capacity=rest.Capacity(
            id=1, total=10, free=5, allocated=1, provisioned=1, physical=4))
        self.assertEqual((1.0, 1.0), (usage.data_reduction,
                                      usage.total_reduction))

    def test_nothing_measured(self):
        usage = array_usage.ArrayUsage()
        self.assertEqual((True, False, None, 0, 0), (
            usage.online, usage.degraded, usage.data_reduction,
            usage.capacity.total, usage.volumes))


def capacity(**fields):
    """A reply of system/capacity."""
    return scripted.hits({'id': 1, 'total': 100, 'free': 40, **fields})


def read_usage(*script):
    """Return the usage of an array with these replies, and the adapter.

    All further requests get 403.
    """
    client, adapter, _ = scripted.client(
        *script, *[scripted.refusal('no', 403)] * 20)
    return array_usage.UsageReader(client).read(), adapter


class PerPath(scripted.Adapter):
    """Answers each path with its reply, any number of times."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def send(self, request, **kwargs):
        """Send the reply for the path; views and snapshots share one."""
        path = parse.urlsplit(request.url).path.removeprefix('/api/v2/')
        self.script = [scripted.Reply(200, self.answers[path])]
        return super().send(request, **kwargs)


@ddt.ddt
class InvalidReplyTest(base.BaseTestCase):
    """Replies that no array should send."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())

    @ddt.data({}, {'state': None, 'allocated': None, 'physical': None},
              {'state': 7, 'allocated': 'much', 'physical': [],
               'provisioned_volumes': {}, 'logical': True})
    def test_total_and_free_are_enough(self, fields):
        usage, _ = read_usage(capacity(**fields))
        self.assertEqual(rest.Capacity(id=1, total=100, free=40),
                         usage.capacity)
        self.assertIsNone(usage.data_reduction)

    @ddt.data((-5, 0), (101, 100), (10 ** 400, 100))
    @ddt.unpack
    def test_free_is_limited_to_total(self, free, wanted):
        usage, _ = read_usage(capacity(free=free))
        self.assertEqual(wanted, usage.capacity.free)

    def test_largest_total(self):
        """A zebibyte; the free space is never more."""
        usage, _ = read_usage(capacity(total=1 << 60, free=1 << 61))
        self.assertEqual((1 << 60, 1 << 60), (usage.capacity.total,
                                              usage.capacity.free))

    @ddt.data(0, -1, (1 << 60) + 1, 10 ** 400)
    def test_invalid_total(self, total):
        self.assertRaises(exceptions.ArrayNotSupported, read_usage,
                          capacity(total=total))

    def test_negative_counts_and_huge_figures(self):
        usage, _ = read_usage(
            capacity(provisioned_volumes=-3, physical=10 ** 400),
            scripted.refusal('no', 403),
            *[scripted.Reply(200, {'hits': [], 'total': -4})] * 4)
        self.assertEqual((0, 0), (usage.volumes, usage.hosts))
        self.assertEqual(0, usage.capacity.provisioned_volumes)
        usage = dataclasses.replace(usage, capacity=dataclasses.replace(
            usage.capacity, allocated=1))
        self.assertEqual(1.0, usage.data_reduction)

    def test_infinite_numbers(self):
        """They are not JSON, but Python reads them."""
        endless = scripted.Reply(200, b'{"hits": [], "total": 1e999}')
        usage, _ = read_usage(
            capacity(), scripted.refusal('no', 403), *[endless] * 4,
            scripted.Reply(200, b'{"hits": [{"iops_avg": 5, "latency_inner": '
                                b'NaN, "latency_outer": 1e999}]}'))
        self.assertEqual(0, usage.volumes)
        self.assertEqual(rest.Performance(iops_avg=5.0), usage.performance)

    @given(st.lists(JSON, min_size=6, max_size=6), st.booleans())
    def test_any_answer_gives_usage_or_a_known_error(
            self, answers, with_capacity):
        if with_capacity:
            answers[0] = {'hits': [{'id': 1, 'total': 100, 'free': 40,
                                    'allocated': answers[0]}], 'total': 1}
        odd = PerPath(dict(zip(('system/capacity', 'system/state', 'volumes',
                                'snapshots', 'hosts', 'stats/system'),
                               answers, strict=True)))
        client = rest.Client(
            rest.Settings(address='k2.example.org', login='a', password='b',
                          deadline=1.0), odd, scripted.FakeClock())
        try:
            usage = array_usage.UsageReader(client).read()
        except (rest.RestError, exceptions.ArrayNotSupported):
            self.assertFalse(with_capacity)
            return
        self.assertGreater(usage.capacity.total, 0)
        self.assertGreaterEqual(min(usage.volumes, usage.hosts), 0)
