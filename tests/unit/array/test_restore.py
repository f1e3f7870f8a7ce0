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

"""Restores that the array refuses, ignores or carries out late."""

import time
from unittest import mock

import ddt

from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2 import rest
import k2_sim
from tests.unit import lost
from tests.unit import simulated

_RESTORE = 'updates:volume_groups:last_restored_from'


@ddt.ddt
class RestoreTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        group = self.array.volumes.create_group('cvg-1', True)
        self.array.volumes.create('cv-1', simulated.GIB, group)
        taken = self.client.snapshots.create(
            short_name='cs-1', source=rest.Ref('volume_groups', group),
            retention_policy=rest.Ref('retention_policies', 1))
        self.snapshot = objects.ArraySnapshot(
            snapshot=taken.id, group=group)
        self.group = self.client.volume_groups.get(group)
        self.sim.control.clear_journal()

    def fault(self, kind, **more):
        self.sim.control.add_fault({
            'kind': kind, 'method': 'PATCH', 'path': 'volume_groups/*',
            'times': 99, **more})

    def restore(self):
        self.array.volumes.restore(self.snapshot, self.group)

    def patches(self):
        return [call for call in self.calls() if call.startswith('PATCH')]

    def forget(self):
        self.client.capabilities._verdicts.pop(_RESTORE)

    def test_slow_restore_is_sent_once_and_awaited(self):
        def late(seconds, sleep=self.clock.sleep):
            sleep(seconds)
            if self.clock.monotonic() > 200:
                self.clock.sleep = sleep
                self.sim.control.clear_faults()
                self.client.volume_groups.update(
                    self.group.id, last_restored_from=self.snapshot.ref)
        self.fault('hang', seconds=100, commit='before')
        begin = self.clock.monotonic()
        self.clock.sleep = late
        self.restore()
        self.assertTrue(self.client.volume_groups.get(
            self.group.id).last_restored_from)
        self.assertGreater(self.clock.monotonic() - begin, 100)

    @ddt.data(True, False)
    def test_restore_that_does_not_end_is_an_error(self, known):
        """A copy at the same time could mix the data of both."""
        if not known:
            self.forget()
        self.fault('hang', seconds=100, commit='before')
        error = self.assertRaises(exceptions.RestoreUnsettled, self.restore)
        self.assertIn('cvg-1', str(error))
        self.assertEqual(1, len(self.patches()))
        self.assertGreater(self.clock.monotonic(), 300)
        self.assertLess(len(self.calls()), 70)

    def test_slow_restore_is_not_used_for_other_trials(self):
        """A trial of the sequence header might send it twice."""
        self.client.capabilities._verdicts.pop('sequence')
        self.fault('hang', seconds=100, commit='before')
        self.assertRaises(exceptions.RestoreUnsettled, self.restore)
        self.assertEqual(1, len(self.patches()))

    def test_gateway_timeout(self):
        self.fault('status', status=504, commit='before')
        begin = self.clock.monotonic()
        self.assertRaises(exceptions.RestoreUnsettled, self.restore)
        self.assertEqual(300, self.clock.monotonic() - begin)
        self.assertEqual(1, len(self.patches()))
        self.assertIn(len(self.calls()), range(55, 70))

    def test_unreadable_reply(self):
        """Of status 200: the group shows that it was restored."""
        self.fault('garbage', commit='after')
        self.restore()
        self.assertEqual(self.snapshot.ref, self.client.volume_groups.get(
            self.group.id).last_restored_from)

    def test_longer_than_the_deadline_around_it(self):
        self.fault('status', status=504, commit='before')
        begin = self.clock.monotonic()
        with self.client.deadline(20):
            self.assertRaises(exceptions.RestoreUnsettled, self.restore)
        self.assertGreaterEqual(self.clock.monotonic() - begin, 300)

    def test_lost_reply(self):
        self.fault('reset', commit='after')
        self.restore()
        self.assertEqual(1, len(self.patches()))

    def test_lost_request_is_sent_again(self):
        self.fault('reset', commit='before', times=1)
        self.restore()
        self.assertEqual(2, len(self.patches()))

    @ddt.data(True, False)
    def test_lost_request_and_refused_repeat(self, known):
        """The refusal may be due to a restore in progress."""
        if not known:
            self.forget()
        self.fault('reset', commit='before', times=1)
        self.fault('status', status=400, commit='before')
        begin = self.clock.monotonic()
        self.assertRaises(exceptions.RestoreUnsettled if known
                          else rest.Refused, self.restore)
        self.assertGreaterEqual(self.clock.monotonic() - begin,
                                300 if known else 60)

    def test_lost_request_and_reused_id(self):
        """The group that has the id now is not restored; nothing is copied."""
        def renamed():
            self.client.volume_groups.update(self.group.id, name='theirs')
        with lost.on_request('PATCH', '/volume_groups', act=renamed,
                             sent=False, error=rest.Unreachable):
            error = self.assertRaises(exceptions.RestoreUnsettled,
                                      self.restore)
        self.assertIn('cvg-1', str(error))
        self.assertIn('theirs', str(error))
        self.assertIsNone(self.client.volume_groups.get(
            self.group.id).last_restored_from)

    def ignore_restores(self):
        """Have the array reply 200 to restores, and do nothing."""
        self.sim.control.set_behaviors(refuse_unlisted='ignored', refuse_only=[
            'PATCH volume_groups/# last_restored_from'])

    def refused(self):
        """Return the seconds after which a restore is refused."""
        begin = self.clock.monotonic()
        self.assertRaises(rest.Refused, self.restore)
        return self.clock.monotonic() - begin

    def state(self):
        return self.client.capabilities.verdict(_RESTORE).state

    def test_ignored_restore(self):
        """The group is watched once; then no more restores are sent."""
        self.forget()
        self.ignore_restores()
        self.assertEqual(10, self.refused())
        self.assertIn(len(self.calls()), range(10, 15))
        self.assertEqual('refused', self.state())
        self.assertEqual(0, self.refused())
        self.assertEqual(1, len(self.patches()))

    def test_ignored_restore_is_tried_again_later(self):
        self.forget()
        self.ignore_restores()
        self.refused()
        later = time.time() + rest.capabilities.ASK_AGAIN + 1
        with mock.patch.object(time, 'time', lambda: later):
            self.assertGreaterEqual(self.refused(), 10)
            self.assertEqual(0, self.refused())
        self.assertEqual(2, len(self.patches()))

    def test_ignored_restore_on_array_that_restored_before(self):
        """It counts as refused after three in a row."""
        self.restore()
        self.group = self.client.volume_groups.get(self.group.id)
        self.ignore_restores()
        for state in ('works', 'works', 'refused'):
            self.assertGreaterEqual(self.refused(), 10)
            self.assertEqual(state, self.state())
        self.assertEqual(0, self.refused())

    def test_reply_that_does_not_show_the_restore(self):
        self.forget()
        update = self.client.volume_groups.session.write

        def early(*args, **more):
            yield from update(*args, **more)
            return self.group
        with mock.patch.object(self.client.volume_groups.session, 'write',
                               early):
            self.restore()
        self.assertEqual('works', self.state())

    def test_group_is_watched_after_failures_before_a_copy(self):
        self.forget()
        self.fault('status', status=500, commit='before')
        begin = self.clock.monotonic()
        self.assertRaises(rest.Refused, self.restore)
        self.assertEqual(2, len(self.patches()))
        self.assertGreaterEqual(self.clock.monotonic() - begin, 60)
        self.assertEqual('unknown', self.state())

    @ddt.data({'kind': 'status', 'status': 500}, {'kind': 'reset'})
    def test_late_restore_is_awaited(self, fault):
        """On an array not known to support restores."""
        def late(seconds, sleep=self.clock.sleep):
            sleep(seconds)
            if self.clock.monotonic() - begin > 40:
                self.clock.sleep = sleep
                self.sim.control.clear_faults()
                array.volume_groups.update(
                    self.group.id, last_restored_from=self.snapshot.ref)
        array = rest.Client(
            rest.Settings(address='k2.example.org', login='admin',
                          password='admin'),
            adapter=k2_sim.RequestsAdapter(self.sim), clock=self.clock)
        self.addCleanup(array.close)
        self.forget()
        self.fault(**fault, commit='before')
        begin = self.clock.monotonic()
        self.clock.sleep = late
        self.restore()
        self.assertEqual('works', self.state())

    @ddt.data({'kind': 'status', 'status': 500}, {'kind': 'reset'})
    def test_failures_on_array_that_restored_before(self, fault):
        """A restore may be in progress, and mix with a copy."""
        self.fault(**fault, commit='before', times=9999)
        for state in ('works', 'works', 'refused'):
            begin = self.clock.monotonic()
            error = self.assertRaises(exceptions.RestoreUnsettled,
                                      self.restore)
            self.assertIn('cvg-1', str(error))
            self.assertGreaterEqual(self.clock.monotonic() - begin, 300)
            self.assertEqual(state, self.state())
        self.assertEqual(0, self.refused())

    def test_late_restore_on_array_that_restored_before(self):
        def late(seconds, sleep=self.clock.sleep):
            sleep(seconds)
            if self.clock.monotonic() - begin > 200:
                self.clock.sleep = sleep
                self.sim.control.clear_faults()
                self.client.volume_groups.update(
                    self.group.id, last_restored_from=self.snapshot.ref)
        self.fault('status', status=500, commit='before')
        begin = self.clock.monotonic()
        self.clock.sleep = late
        self.restore()
        self.assertEqual('works', self.state())

    @ddt.data({'kind': 'status', 'status': 500}, {'kind': 'reset'})
    def test_failures_restoring_the_same_snapshot_again(self, fault):
        """The group may still show the previous restore."""
        self.restore()
        self.group = self.client.volume_groups.get(self.group.id)
        self.fault(**fault, commit='before', times=9999)
        for state in ('works', 'works', 'refused'):
            begin = self.clock.monotonic()
            self.assertRaises(exceptions.RestoreUnsettled, self.restore)
            self.assertGreaterEqual(self.clock.monotonic() - begin, 300)
            self.assertEqual(state, self.state())

    def test_only_consecutive_failures_count(self):
        """After each failure, the repeated restore works late."""
        restore = self.client.volume_groups.update
        taken = self.client.snapshots.create(
            short_name='cs-2', source=self.group.ref,
            retention_policy=rest.Ref('retention_policies', 1))
        other = objects.ArraySnapshot(snapshot=taken.id,
                                      group=self.group.id)
        for self.snapshot in (self.snapshot, other, self.snapshot):
            self.fault('status', status=500, commit='before')
            self.assertRaises(exceptions.RestoreUnsettled, self.restore)

            def late(seconds, sleep=self.clock.sleep,
                     begin=self.clock.monotonic()):
                sleep(seconds)
                if self.clock.monotonic() - begin > 200:
                    self.clock.sleep = sleep
                    self.sim.control.clear_faults()
                    restore(self.group.id,
                            last_restored_from=self.snapshot.ref)
            self.clock.sleep = late
            self.restore()
            self.group = self.client.volume_groups.get(self.group.id)
        self.assertEqual('works', self.state())
