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

"""What the array layer measures, whatever the array answers."""

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
# With the shape of a reply more often than not.
JSON = OBJECTS | st.fixed_dictionaries({
    'hits': st.lists(OBJECTS, max_size=2), 'total': VALUES})


@ddt.ddt
class MeterTest(simulated.SimulatedTest):

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
        """What is measured, in so many calls."""
        self.control.clear_journal()
        usage = self.array.system.usage()
        if calls is not None:
            self.assertEqual(calls, len(self.calls()), self.calls())
        return usage

    def warnings(self):
        """Lines of the log that an operator gets to see."""
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
        self.clock.advance(2)
        self.assertEqual(2, self.read(calls=2 + MORE).volumes)
        self.read(calls=2)

    def test_five_minutes_of_load_are_asked_for(self):
        self.read()
        asked = [e.query for e in self.control.journal()
                 if e.path.endswith('stats/system')]
        self.assertEqual(1, len(asked))
        self.assertIn('__resolution=5m', asked[0])

    @ddt.data({'kind': 'status', 'status': 403}, {'kind': 'garbage'},
              {'kind': 'status', 'status': 500}, {'kind': 'reset'},
              {'kind': 'hang', 'seconds': 7200.0})
    def test_what_is_missing_holds_nothing_up(self, fault):
        """And is known again once it can be read."""
        before = self.read()
        for path in ('stats/system', 'volumes', 'snapshots', 'hosts'):
            self.control.add_fault(path=path, method='GET', **fault)
        self.clock.advance(301)
        began = self.clock.monotonic()
        usage = self.read()
        self.assertLessEqual(self.clock.monotonic() - began, MORE * 10 + 1)
        self.assertIsNone(usage.performance)
        self.assertEqual((before.volumes, before.capacity.free),
                         (usage.volumes, usage.capacity.free))
        self.read(calls=2)
        self.control.clear_faults()
        self.clock.advance(301)
        self.assertEqual(0.0, self.read().performance.iops_avg)

    def test_an_array_without_statistics_is_mentioned_once(self):
        self.control.set_behaviors(statistics=False)
        for _ in range(3):
            self.assertIsNone(self.read().performance)
            self.clock.advance(301)
        self.assertEqual(1, len([w for w in self.warnings()
                                 if '404' in w]), self.log.output)

    def test_warned_again_after_it_was_there(self):
        for there in (True, False, True, False):
            self.control.set_behaviors(statistics=there)
            self.read()
            self.clock.advance(301)
        self.assertEqual(2, len(self.warnings()))

    @ddt.data({'kind': 'status', 'status': 500},
              {'kind': 'hang', 'seconds': 7200.0}, {'kind': 'garbage'})
    def test_capacity_is_waited_for_a_minute(self, fault):
        self.control.add_fault(path='system/capacity', **fault)
        began = self.clock.monotonic()
        self.assertRaises(rest.RestError, self.read)
        self.assertLessEqual(self.clock.monotonic() - began, 61)

    def test_a_word_that_is_not_known_is_told_once(self):
        """Section 7.1: nothing is left out for it, and ERR-6 may hold."""
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
    def test_an_array_that_is_not_online_at_first(self, fault):
        """ERR-6: it is asked again, not taken to have no statistics."""
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

    def test_statistics_are_asked_for_in_any_state(self):
        """Whether the array refuses them is for the array to say."""
        self.control.set_behaviors(state='OFFLINE', statistics=True)
        self.read()
        self.assertIn('GET stats/system', self.calls())

    def test_a_state_that_cannot_be_read_stays_as_it_was(self):
        for state, online in (('ONLINE', True), ('OFFLINE', False)):
            self.control.set_behaviors(state=state)
            self.read()
            self.control.add_fault(kind='status', status=403,
                                   path='system/state')
            self.assertEqual(online, self.read().online)
            self.control.clear_faults()

    def test_no_state_at_all_is_taken_for_online(self):
        self.control.add_fault(kind='status', status=403,
                               path='system/state')
        usage = self.read()
        self.assertEqual((None, True, False),
                         (usage.state, usage.online, usage.degraded))

    def test_degraded(self):
        self.control.set_behaviors(degraded=True)
        usage = self.read()
        self.assertEqual((True, True), (usage.online, usage.degraded))

    def test_the_id_of_the_array_needs_no_call_afterwards(self):
        self.assertEqual('', self.array.system.known_id)
        self.read()
        self.control.clear_journal()
        self.assertEqual(self.array.system.known_id, self.array.system.id)
        self.assertTrue(self.array.system.id)
        self.assertEqual([], self.calls())

    def test_an_empty_array_has_no_ratio(self):
        self.control.set_written(self.volume.id, 0)
        usage = self.read()
        self.assertEqual((None, None), (usage.data_reduction,
                                        usage.total_reduction))

    def test_no_ratio_is_below_one(self):
        """Metadata of an array that holds next to nothing."""
        usage = array_usage.ArrayUsage(capacity=rest.Capacity(
            id=1, total=10, free=5, allocated=1, provisioned=1, physical=4))
        self.assertEqual((1.0, 1.0), (usage.data_reduction,
                                      usage.total_reduction))


def capacity(**fields):
    """A reply of system/capacity."""
    return scripted.hits({'id': 1, 'total': 100, 'free': 40, **fields})


def measured(*script):
    """What is measured of an array that answers so, and then 403."""
    client, adapter, _ = scripted.client(
        *script, *[scripted.refusal('no', 403)] * 20)
    return array_usage.UsageReader(client).read(), adapter


class Odd(scripted.Adapter):
    """Answers as it is told, by the path, again and again."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def send(self, request, **kwargs):
        """Views and snapshots get the same answer."""
        path = parse.urlsplit(request.url).path.removeprefix('/api/v2/')
        self.script = [scripted.Reply(200, self.answers[path])]
        return super().send(request, **kwargs)


@ddt.ddt
class NonsenseTest(base.BaseTestCase):
    """Answers that no array should give."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())

    @ddt.data({}, {'state': None, 'allocated': None, 'physical': None},
              {'state': 7, 'allocated': 'much', 'physical': [],
               'provisioned_volumes': {}, 'logical': True})
    def test_total_and_free_are_enough(self, fields):
        usage, _ = measured(capacity(**fields))
        self.assertEqual(rest.Capacity(id=1, total=100, free=40),
                         usage.capacity)
        self.assertIsNone(usage.data_reduction)

    @ddt.data((-5, 0), (101, 100), (10 ** 400, 100))
    @ddt.unpack
    def test_free_is_part_of_the_whole(self, free, wanted):
        usage, _ = measured(capacity(free=free))
        self.assertEqual(wanted, usage.capacity.free)

    @ddt.data(0, -1, 10 ** 400)
    def test_a_whole_that_makes_no_sense(self, total):
        self.assertRaises(exceptions.ArrayNotSupported, measured,
                          capacity(total=total))

    def test_negative_counts_and_huge_figures(self):
        usage, _ = measured(
            capacity(provisioned_volumes=-3, physical=10 ** 400),
            scripted.refusal('no', 403),
            *[scripted.Reply(200, {'hits': [], 'total': -4})] * 4)
        self.assertEqual((0, 0), (usage.volumes, usage.hosts))
        self.assertEqual(0, usage.capacity.provisioned_volumes)
        usage = dataclasses.replace(usage, capacity=dataclasses.replace(
            usage.capacity, allocated=1))
        self.assertEqual(1.0, usage.data_reduction)

    def test_figures_without_end(self):
        """JSON has none, and Python reads them all the same."""
        endless = scripted.Reply(200, b'{"hits": [], "total": 1e999}')
        usage, _ = measured(
            capacity(), scripted.refusal('no', 403), *[endless] * 4,
            scripted.Reply(200, b'{"hits": [{"iops_avg": 5, "latency_inner": '
                                b'NaN, "latency_outer": 1e999}]}'))
        self.assertEqual(0, usage.volumes)
        self.assertEqual(rest.Performance(iops_avg=5.0), usage.performance)

    @given(st.lists(JSON, min_size=6, max_size=6), st.booleans())
    def test_any_answer_gives_a_measurement_or_a_known_error(
            self, answers, with_capacity):
        if with_capacity:
            answers[0] = {'hits': [{'id': 1, 'total': 100, 'free': 40,
                                    'allocated': answers[0]}], 'total': 1}
        odd = Odd(dict(zip(('system/capacity', 'system/state', 'volumes',
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
