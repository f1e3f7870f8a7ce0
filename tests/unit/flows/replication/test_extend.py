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

"""Replicated volumes are extended on both arrays."""

import contextlib
from unittest import mock

import ddt
import fixtures

from cinder_k2 import exceptions
from cinder_k2 import rest
from k2_sim.rules import peer_requests
from tests.unit.flows.replication import pair


@ddt.ddt
class ExtendTest(pair.Tidy, pair.PairTest):

    CALLS = ['a GET replication/sessions', 'b GET volumes',
             'a PATCH replication/sessions/*',
             'b GET replication/sessions/*', 'b PATCH volumes/*',
             'a PATCH volumes/*', 'a PATCH replication/sessions/*']

    def test_calls(self):
        self.extend()
        self.assertEqual(self.CALLS, self.trouble.calls)
        self.assert_replicated(2)

    def test_copy_cannot_grow(self):
        """Then nothing is changed."""
        self.there.client.volume_groups.update(
            self.there.volumes.find_group(pair.COPY_GROUP), quota=pair.GIB)
        self.assertRaises(rest.Refused, self.extend)
        self.assert_replicated(1)

    def test_a_copy_that_the_array_grows(self):
        """VOL-4: the copy only grows together with its source."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        self.extend()
        self.assert_replicated(2)

    def test_a_copy_that_the_array_could_not_grow(self):
        """Then nothing is changed, since a grown volume cannot shrink."""
        self.b.control.set_behaviors(grow_copies_at_start=True, full=True)
        self.assertRaises(rest.Refused, self.extend)
        self.assert_replicated(1)

    def test_a_refusal_of_an_array_that_grows_copies(self):
        """The refusal is final: this array does not grow copies by itself."""
        self.extend()
        self.b.control.add_fault(kind='status', status=400, method='PATCH',
                                 path='volumes/*', times=99)
        self.assertRaises(rest.Refused, self.extend, 3)
        self.assert_replicated(2)

    def unequal(self):
        """Let sessions start with volumes of different sizes."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        self.useFixture(fixtures.MonkeyPatch(
            'k2_sim.rules.peer_requests._check_follower',
            lambda scope, peer, fields: peer_requests._target(
                scope, peer, fields['session'])))

    def test_the_size_of_a_copy_cannot_be_read(self):
        """A copy that may be too small is no success."""
        self.unequal()
        with mock.patch.object(self.there.replication, 'sizes_of',
                               autospec=True,
                               side_effect=rest.Forbidden('no')):
            self.assertRaises(rest.Forbidden, self.extend)
        self.assertEqual([2, 1], self.sizes())

    def test_a_copy_that_has_not_grown_before(self):
        self.unequal()
        self.assertRaises(exceptions.ReplicationError, self.extend)
        self.b.control.set_behaviors(full=True)
        self.assertRaises(rest.Refused, self.extend)
        self.assertEqual([2, 1], self.sizes())

    def start_refused(self, times):
        """Have starts refused once the volume has grown without its copy."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        grow, faults = self.here.volumes.grow, [{
            'kind': 'status', 'status': 400, 'method': 'PATCH',
            'path': 'replication/sessions/*', 'times': times}]

        def grow_once(*args):
            grow(*args)
            if faults:
                self.a.control.add_fault(**faults.pop())
        self.useFixture(fixtures.MockPatchObject(
            self.here.volumes, 'grow', grow_once))

    def test_a_start_that_is_refused_for_a_while(self):
        self.start_refused(times=5)
        self.extend()
        self.assert_replicated(2)

    def test_a_start_that_is_refused(self):
        """The error has both sizes, and another extension succeeds."""
        self.start_refused(times=9999)
        began = self.clock.monotonic()
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertLess(55, self.clock.monotonic() - began)
        self.assertLess(self.clock.monotonic() - began, 120)
        self.assertIn(f'it has {2 * pair.GIB} KiB, its copy {pair.GIB} KiB',
                      str(error))
        self.assertIn('a.example.org is idle', str(error))
        self.clear_faults()
        self.extend()
        self.assert_replicated(2)

    def test_a_start_that_is_refused_and_an_unknown_size(self):
        self.start_refused(times=9999)
        with mock.patch.object(self.there.replication, 'sizes_of',
                               autospec=True,
                               side_effect=rest.Forbidden('no')):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.extend)
        self.assertIn(f'it has {2 * pair.GIB} KiB, its copy ? KiB, and',
                      str(error))

    def test_a_copy_that_does_not_grow(self):
        """The session runs, but a failover would cut the volume off."""
        self.b.control.set_behaviors(grow_copies_at_start=True)
        with mock.patch.object(self.there.replication, 'sizes_of',
                               lambda names: {7: pair.GIB}):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.extend)
        self.assertEqual(
            f'Volume {pair.COPY} on the array at b.example.org has not grown '
            f'to {2 * pair.GIB} KiB with its source: a failover would '
            'truncate it. Extend it again.', str(error))

    def test_volume_cannot_grow(self):
        self.here.client.volume_groups.update(self.group, quota=pair.GIB)
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn(f'Volume {pair.VOLUME} is not replicated until it is '
                      f'extended to {2 * pair.GIB} KiB', str(error))
        self.assertIn('a.example.org is idle', str(error))
        self.assertEqual([1, 2], self.sizes())
        self.here.client.volume_groups.update(self.group, quota=0)
        self.extend()
        self.assert_replicated(2)

    def test_peer_is_lost(self):
        self.b.control.add_fault(kind='reset', path='*')
        self.assertRaises(rest.Unreachable, self.extend)
        self.clear_faults()
        self.assert_replicated(1)

    @ddt.data(*range(1, 7))
    def test_array_is_lost(self, calls):
        """The next extension does what the lost array may not have done."""
        self.a.control.add_fault(kind='reset', path='*', after=calls)
        with contextlib.suppress(*pair.ERRORS):
            self.extend()
        self.clear_faults()
        self.extend()
        self.assert_replicated(2)

    def test_peer_is_known_to_be_lost(self):
        """The copy could not follow, so nothing is changed."""
        self.link = None
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn(f'Replication session {pair.NAMES[0]} is in_sync as '
                      'source on the array at a.example.org and missing on '
                      'its peer.', str(error))
        self.assert_replicated(1)

    def test_peer_is_known_to_be_lost_after_a_failover(self):
        self.tell(self.there, 'failed_over')
        self.swap()
        self.link, link = None, self.link
        self.extend()
        self.link = link
        self.assertEqual([2, 1], self.sizes())

    def test_session_of_the_peer_is_missing(self):
        for state in ('suspended', 'idle'):
            self.tell(self.here, state)
        self.there.replication.delete(
            self.there.replication.find(*pair.NAMES))
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn('and missing on its peer', str(error))
        self.assertEqual([1, 1], self.sizes())

    def test_copy_is_missing(self):
        with mock.patch.object(self.there.replication, 'find_copy',
                               lambda name: None):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.extend)
        self.assertIn(pair.COPY, str(error))
        self.assert_replicated(1)

    def test_suspended(self):
        """By an interrupted extension, for example."""
        self.tell(self.here, 'suspended')
        self.extend()
        self.assert_replicated(2)

    def test_without_a_session(self):
        self.unprotect()
        self.extend()
        self.assertEqual(
            2 * pair.GIB, self.here.volumes.size(
                self.members[0].volume, self.group))

    @ddt.data(True, False)
    def test_after_a_failover(self, reachable):
        self.tell(self.there, 'failed_over')
        self.swap()
        if not reachable:
            self.a.control.add_fault(kind='reset', path='*')
        self.extend()
        self.clear_faults()
        self.assertEqual([2, 2 if reachable else 1], self.sizes())
        self.assertEqual([('failed_over', 'target'),
                          ('suspended', 'source')], self.sessions())

    @ddt.data({'kind': 'reset', 'commit': 'after'},
              {'kind': 'reset', 'commit': 'before'},
              {'kind': 'status', 'status': 502, 'commit': 'after'})
    def test_no_reply_about_the_copy_after_a_failover(self, fault):
        """The request is repeated: by its name it is still the same volume."""
        self.tell(self.there, 'failed_over')
        self.swap()
        self.a.control.add_fault(method='PATCH', path='volumes/*', times=1,
                                 **fault)
        self.extend()
        self.assertEqual([2, 2], self.sizes())

    def test_copy_is_missing_after_a_failover(self):
        """Only the volume matters then."""
        self.tell(self.there, 'failed_over')
        self.swap()
        self.there.client.volumes.update(
            self.there.volumes.find_volume(pair.VOLUME), name='cv-other')
        self.trouble.plan()
        self.extend()
        self.assertNotIn('a PATCH volumes/*', self.trouble.calls)
        self.assertEqual(
            2 * pair.GIB, self.here.volumes.size(
                self.members[0].volume, self.group))

    @ddt.data('in_sync', 'suspended')
    def test_group_of_the_session_is_not_shown(self, state):
        if state == 'suspended':
            self.tell(self.here, state)
        with pair.without('ReplicationSession',
                          'local_volume_group'):
            self.extend()
        self.assert_replicated(2)

    @ddt.data('failed over', 'the other way')
    def test_refused_after_the_peer_took_over(self, how):
        """After an interrupted failover its data must not be overwritten."""
        self.tell(self.there, 'failed_over')
        if how == 'the other way':
            self.tell(self.there, 'in_sync')
        before = self.sessions()
        error = self.assertRaises(exceptions.ReplicationError, self.extend)
        self.assertIn(f'Replication session {pair.NAMES[0]} is '
                      f'{before[0][0]} as {before[0][1]} on the array at '
                      f'a.example.org and {before[1][0]} as', str(error))
        self.assertEqual((before, [1, 1]), (self.sessions(), self.sizes()))
