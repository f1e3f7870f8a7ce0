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

"""Replication is stopped, in any state."""

from unittest import mock

import ddt

from cinder_k2.array import deferred_deletion
from cinder_k2 import exceptions
from cinder_k2.flows import replication
from cinder_k2.flows.replication import copies
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.flows.replication import pair
from tests.unit.flows.replication.pair import leftovers


@ddt.ddt
class UnprotectTest(pair.Tidy, pair.PairTest):

    def test_calls(self):
        self.unprotect()
        self.assertEqual([
            'a GET replication/sessions', 'a GET snapshots',
            'b GET volumes', 'b GET snapshots', 'b GET mappings',
            'a PATCH replication/sessions/*',
            'b GET replication/sessions/*',
            'a PATCH replication/sessions/*',
            'b GET replication/sessions/*',
            'b DELETE replication/sessions/*',
            'a DELETE replication/sessions/*',
            'a GET snapshots', 'a DELETE snapshots/*',
            'b GET snapshots', 'b DELETE snapshots/*',
            'b DELETE volumes/*', 'b DELETE volume_groups/*',
        ], self.trouble.calls)

    @ddt.data('here', 'there')
    def test_snapshots_of_others_stay(self, place):
        """Snapshots that Cinder took, on either array."""
        array, name = getattr(self, place), pair.VOLUME
        if place == 'there':
            self.tell(array, 'failed_over')
            name = pair.COPY
        array.snapshots.create('cs-1', array.volumes.find(name))
        if place == 'here':
            self.unprotect()
            self.assertEqual(['cs-1'], leftovers(self.a)['snapshots'])
            self.assertEqual({}, leftovers(self.b))
            return
        before = leftovers(self.a), leftovers(self.b), self.sessions()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertEqual(
            f'Volume group {pair.COPY_GROUP}, the copy on the array at '
            f'b.example.org, has snapshots or views: {pair.COPY_GROUP}:cs-1. '
            'Delete them first, and what was made from them, in Cinder if it '
            'has them.', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.sessions()))
        array.snapshots.create('cs-2', array.volumes.find(name))
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertIn(f'{pair.COPY_GROUP}:cs-1, {pair.COPY_GROUP}:cs-2. ',
                      str(error))

    def test_clones_of_the_copy_stay(self):
        """Cinder has deleted the snapshot, but a volume still needs it."""
        self.tell(self.there, 'failed_over')
        copy = self.there.volumes.find(pair.COPY)
        taken = self.there.snapshots.create('cs-1', copy)
        self.there.snapshots.create_view('cv-2', taken, lasting=True)
        self.there.deferred.record(copy.group, deferred_deletion.DeferredIds(
            snapshots=frozenset({taken.snapshot})))
        before = leftovers(self.a), leftovers(self.b), self.sessions()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertIn('cv-2. Delete them first, and what was made from them',
                      str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.sessions()))

    @ddt.data('here', 'there')
    def test_view_of_a_replication_snapshot(self, place):
        """SNP-9: the snapshot could not be deleted with the session."""
        self.view(getattr(self, place),
                  pair.GROUP if place == 'here' else pair.COPY_GROUP)
        before = leftovers(self.a), leftovers(self.b), self.sessions()
        error = self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertIn('has snapshots or views: ', str(error))
        self.assertIn(':look. Delete them first', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.sessions()))

    def test_replication_snapshots_are_deleted(self):
        """REP-13: an interrupted failback leaves them behind."""
        self.here.replication.take_snapshots(
            [self.here.replication.find(*pair.NAMES)])
        self.wait()
        self.assertEqual(2, len(leftovers(self.b)['snapshots']))
        self.unprotect()
        self.assert_bare()

    def test_mapped_copy(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        before = leftovers(self.a), leftovers(self.b)
        error = self.assertRaises(exceptions.StillMapped, self.unprotect)
        self.assertEqual(f'Volume {pair.COPY}, the copy on the array at '
                         'b.example.org, is mapped to host h.', str(error))
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b)))

    def test_mapped_copy_is_released(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.unprotect(release=self.unmap)
        self.there.client.hosts.delete(
            self.there.client.hosts.find(name='h').id)
        self.assert_bare()

    def test_mapped_copy_is_not_released(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        before = leftovers(self.a), leftovers(self.b), self.sessions()
        release = mock.Mock()
        self.assertRaises(exceptions.StillMapped, self.unprotect,
                          release=release)
        release.assert_called_once_with(
            self.there, [self.there.volumes.find(pair.COPY).volume])
        self.assertEqual(before, (leftovers(self.a), leftovers(self.b),
                                  self.sessions()))

    def test_copy_with_snapshots_is_not_unmapped(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.there.snapshots.create('cs-1', self.there.volumes.find(pair.COPY))
        release = mock.Mock()
        self.assertRaises(exceptions.ObjectInUse, self.unprotect,
                          release=release)
        release.assert_not_called()

    def unmap(self, array, volumes):
        for mapping in array.client.mappings.search():
            self.assertIn(mapping.volume.id, volumes)
            array.client.mappings.delete(mapping.id)

    def test_copy_is_mapped_meanwhile(self):
        self.tell(self.there, 'failed_over')
        look = copies.Copies.look

        def map_after(*args):
            copies = look(*args)
            self.map_copy()
            return copies

        with mock.patch.object(copies.Copies, 'look', map_after):
            self.assertRaises(exceptions.StillMapped, self.unprotect)
        self.assertEqual([pair.COPY], leftovers(self.b)['volumes'])

    def map_copy(self):
        client = self.there.client
        host = client.hosts.create(name='h', type='Linux')
        client.mappings.create(
            host=host.ref, volume=client.volumes.find(name=pair.COPY).ref)

    def test_view_is_created_meanwhile(self):
        """SNP-13: someone creates it after the check."""
        look = copies.Copies.look

        def view_after(*args):
            copies = look(*args)
            self.view(self.there, pair.COPY_GROUP)
            return copies

        with mock.patch.object(copies.Copies, 'look', view_after):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.unprotect)
        self.assertIn('b.example.org keeps snapshots', str(error))
        snapshots = self.there.client.snapshots
        snapshots.delete(snapshots.find(short_name='look').id)
        self.unprotect()
        self.assert_bare()

    def view(self, array, group):
        """Create a view of a replication snapshot, as an administrator."""
        client = array.client
        taken = client.snapshots.search(volume_group=client.volume_groups.ref(
            array.volumes.find_group(group)))[0]
        client.snapshots.create(
            short_name='look', source=taken.ref, is_exposable=True,
            retention_policy=client.retention_policies.search()[0].ref)

    def test_foreign_volumes_are_left_alone(self):
        """Volumes of other names in the group of the copy."""
        self.tell(self.here, 'suspended')
        self.tell(self.here, 'idle')
        for side in (self.here, self.there):
            side.replication.delete(side.replication.find(*pair.NAMES))
        group = self.there.volumes.find_group(pair.COPY_GROUP)
        self.there.volumes.create('theirs', pair.GIB, group)
        self.unprotect()
        self.assertEqual({'volumes': ['theirs'],
                          'volume_groups': [pair.COPY_GROUP]},
                         leftovers(self.b))

    @ddt.data('here', 'there')
    def test_peer_is_lost(self, source):
        self.tell_more(source)
        self.lose_peer()
        with self.assertLogs(replication.__name__, 'WARNING') as caught:
            self.unprotect()
        for word in ('b.example.org' if source == 'here' else
                     'a.example.org', *self.left(source)):
            self.assertIn(word, caught.output[0])
        self.assertEqual({'volume_groups', 'volumes'},
                         leftovers(self.here.sim).keys())
        self.assert_just(self.here)

    def tell_more(self, source):
        if source == 'there':
            self.tell(self.there, 'failed_over')
            self.swap()

    def left(self, source):
        return [f' {name if source == "there" else naming.peer(name)}'
                for name in (pair.NAMES[0], pair.VOLUME, pair.GROUP)]

    def lose_peer(self):
        self.there.sim.control.cut_link()
        self.there.sim.control.add_fault(kind='reset', path='*')

    def test_peer_is_lost_and_the_session_is_gone(self):
        """The name of the group shows how the copies are named."""
        for state in ('suspended', 'idle'):
            self.tell(self.here, state)
        self.here.replication.delete(self.here.replication.find(*pair.NAMES))
        self.lose_peer()
        with self.assertLogs(replication.__name__, 'WARNING') as caught:
            self.unprotect()
        for word in self.left('here'):
            self.assertIn(word, caught.output[0])
        self.assert_just(self.here)

    def test_sessions_that_do_not_belong_together(self):
        """Nothing is stopped, and the error names both sessions."""
        for state in ('suspended', 'idle'):
            self.tell(self.here, state)
        self.here.replication.delete(self.here.replication.find(*pair.NAMES))
        self.here.replication.create_session(
            pair.NAMES[0], peer=self.link.number(), group=self.group, rpo=300,
            peer_group_name='elsewhere', peer_session_name='elsewhere')
        before = self.sessions(), leftovers(self.a), leftovers(self.b)
        error = self.assertRaises(exceptions.ReplicationError, self.unprotect)
        self.assertEqual(
            f'Replication session {pair.NAMES[0]} on the array at '
            f'a.example.org and {pair.NAMES[1]} on that at b.example.org do '
            'not belong together: one of them is with another array, or of '
            'an earlier replication. See which one, and delete it there.',
            str(error))
        self.assertEqual(before, (self.sessions(), leftovers(self.a),
                                  leftovers(self.b)))

    def test_groups_of_volumes_are_not_shown(self):
        """Their group is found by its name."""
        with pair.without('Volume', 'volume_group'):
            self.unprotect()
        self.assert_bare()

    def test_neither_groups_of_volumes_nor_their_names(self):
        """A copy in a group of another name is not deleted by guessing."""
        group = self.there.volumes.find_group(pair.COPY_GROUP)
        self.there.client.volume_groups.update(group, name='renamed')
        with pair.without('Volume', 'volume_group'):
            error = self.assertRaises(exceptions.ReplicationError,
                                      self.unprotect)
        self.assertEqual(
            'The array at b.example.org does not show in which volume group '
            f'{pair.COPY} are; it has none named {pair.COPY_GROUP}.',
            str(error))
        self.assertEqual([('in_sync', 'source'), ('in_sync', 'target')],
                         self.sessions())

    @ddt.data('running', 'suspended', 'failed over')
    def test_group_of_the_session_is_not_shown(self, state):
        """The session is identified by its name, which is unique."""
        if state == 'suspended':
            self.tell(self.here, 'suspended')
        if state == 'failed over':
            self.tell(self.there, 'failed_over')
        with pair.without('ReplicationSession',
                          'local_volume_group'):
            self.unprotect()
        self.assert_bare()

    @ddt.data({'kind': 'status', 'status': 502}, {'kind': 'garbage'})
    def test_peer_sends_garbage(self, fault):
        """For example a proxy in front of a lost array."""
        self.b.control.add_fault(path='*', **fault)
        with self.assertLogs(replication.__name__, 'WARNING') as caught:
            self.unprotect()
        self.assertIn('ends on one side only', caught.output[0])
        self.assert_just(self.here)
        self.clear_faults()
        self.assertEqual([None, ('idle', 'target')], self.sessions())

    def test_time_spent_on_a_lost_peer_does_not_count(self):
        def look(*args):
            self.clock.advance(1000)
            raise rest.Unreachable('no route to host')

        with mock.patch.object(copies.Copies, 'look', look):
            self.unprotect()
        self.assert_just(self.here)
        self.assertIsNone(self.sessions()[0])

    @ddt.data('here', 'there')
    def test_peer_is_known_to_be_lost(self, source):
        self.tell_more(source)
        self.lose_peer()
        self.trouble.plan()
        self.unprotect(reachable=False)
        self.assert_just(self.here)
        letter = 'a' if source == 'here' else 'b'
        self.assertEqual({letter}, {call[0] for call in self.trouble.calls})

    @ddt.data('here', 'there')
    def test_leftovers_on_a_lost_peer_are_removed_later(self, source):
        self.tell_more(source)
        self.lose_peer()
        self.unprotect()
        self.there.sim.control.clear_faults()
        self.there.sim.control.restore_link()
        self.assertNotEqual({}, leftovers(self.there.sim))
        made, copy = (pair.NAMES if source == 'here' else reversed(pair.NAMES))
        replication.protect(replication.SessionRequest(
            self.link, made, self.group, pair.GROUP, self.members))
        self.assert_replicated()
        self.unprotect()
        self.assert_bare()

    def test_leftovers_on_a_lost_peer_may_be_in_use(self):
        self.tell(self.there, 'failed_over')
        self.map_copy()
        self.unprotect(reachable=False)
        error = self.assertRaises(exceptions.StillMapped, self.protect)
        self.assertIn(f'Volume {pair.COPY}, the copy on the array at '
                      'b.example.org, is mapped to host h', str(error))
        self.assertEqual([pair.COPY], leftovers(self.b)['volumes'])
        self.assert_just(self.here)
        self.protect(release=self.unmap)
        self.there.client.hosts.delete(
            self.there.client.hosts.find(name='h').id)
        self.assert_replicated()

    def test_has_ended(self):
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.there, 'failed_over')
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.here, 'suspended')
        self.assertFalse(self.has_ended(self.here))
        self.tell(self.here, 'idle')
        self.assertTrue(self.has_ended(self.here))
        self.unprotect()
        self.assertTrue(self.has_ended(self.here))

    def has_ended(self, array):
        return replication.has_ended(array, pair.NAMES, self.group)


class States:
    """States in which a replication may be, each reached from that of Tidy."""

    def running(self):
        self.write('mine')

    def suspended(self):
        self.tell(self.here, 'suspended')

    def stopped(self):
        self.suspended()
        self.tell(self.here, 'idle')

    def far_gone(self):
        self.stopped()
        self.drop(self.there)

    def near_gone(self):
        self.stopped()
        self.drop(self.here)

    def both_gone(self):
        self.far_gone()
        self.drop(self.here)

    def group_left(self):
        self.both_gone()
        group = self.there.volumes.find_group(pair.COPY_GROUP)
        self.there.replication.delete_snapshots(group)
        self.there.volumes.delete(
            self.there.volumes.find_volume(pair.COPY), group)

    def failed_over_there(self):
        """A failover was interrupted before Cinder updated its rows."""
        self.tell(self.there, 'failed_over')

    def stopped_there(self):
        self.failed_over_there()
        self.tell(self.there, 'idle')

    def taken_over(self):
        """After a failover."""
        self.tell(self.there, 'failed_over')
        self.swap()

    def taken_over_and_stopped(self):
        self.taken_over()
        self.tell(self.here, 'idle')

    def taken_over_all_stopped(self):
        self.taken_over_and_stopped()
        self.tell(self.there, 'idle')

    def taken_over_near_gone(self):
        self.taken_over_and_stopped()
        self.drop(self.here)

    def taken_over_far_gone(self):
        self.taken_over()
        self.tell(self.there, 'idle')
        self.drop(self.there)

    def taken_over_both_gone(self):
        self.taken_over_all_stopped()
        self.drop(self.here)
        self.drop(self.there)

    def reversed(self):
        """Replication runs in reverse, as at the start of a failback."""
        self.taken_over()
        self.tell(self.here, 'in_sync')

    def reversed_suspended(self):
        self.reversed()
        self.tell(self.here, 'suspended')

    def going_back(self):
        """A failback was interrupted before Cinder updated its rows.

        ``here`` is a target already.
        """
        self.reversed()
        self.tell(self.there, 'failed_over')

    def gone_back(self):
        self.going_back()
        self.tell(self.there, 'in_sync')

    def gone_back_suspended(self):
        self.gone_back()
        self.tell(self.there, 'suspended')


ALL_STATES = [name for name in vars(States) if name[0] != '_']


@ddt.ddt
class StatesTest(States, pair.Tidy, pair.PairTest):

    def drop(self, array):
        """Delete a session, as an administrator might."""
        array.replication.delete(array.replication.find(*pair.NAMES))

    @ddt.data(*ALL_STATES)
    def test_unprotect(self, state):
        getattr(self, state)()
        self.unprotect()
        self.assert_bare()

    @ddt.data(*ALL_STATES)
    def test_unprotect_with_late_followers(self, state):
        """REP-8."""
        getattr(self, state)()
        for sim in (self.a, self.b):
            sim.control.set_behaviors(follow_seconds=5)
        self.unprotect()
        self.assert_bare()
