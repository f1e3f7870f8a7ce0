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

"""Replication of the volumes of one array, with doubles for all else."""

import contextlib
from unittest import mock

import ddt
from oslo_utils import units
import testtools

from cinder_k2.array import ArrayVolume
from cinder_k2.driver import config
from cinder_k2.driver.db import backend_rows
from cinder_k2.driver import locks
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import replication
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import replication as flow
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import autospec
from tests.unit.driver import replicated

BACKING = ArrayVolume(group=10, volume=1)
REPLICATED = ArrayVolume(group=10, volume=1, replicated=True)


class Case(testtools.TestCase):
    """An array with two peers; the first is the default target."""

    def setUp(self):
        super().setUp()
        self.here = replicated.array()
        self.there = replicated.array('there')
        self.moon = replicated.array('moon')
        self.resolver = autospec.Double(resolver.Resolver, peers={
            'first': replicated.peer(self.there, 'first', 300),
            'second': replicated.peer(self.moon, 'second', 600)})
        self.rows = autospec.Double(backend_rows.BackendRows)
        self.rows.is_moving.return_value = False
        self.resolver.known.return_value = None
        self.here.replication.peer.side_effect = lambda address, backend_id: {
            'first': 5, 'second': 6}[backend_id]
        self.replication = replication.Replication(
            self.here, self.resolver, self.rows)
        autospec.patched(self, placement, 'is_consistent',
                         side_effect=replicated.is_consistent)

    def flow(self, name, result=None):
        found = autospec.patched(self, flow, name)
        found.return_value = result
        return found

    def use_one_peer(self):
        """Remove all peers but the first."""
        del self.resolver.peers['second']

    def link(self, there=None, backend_id='first', rpo=300):
        there = there or self.there
        return flow.Link(self.here, there, there.address, backend_id, rpo)


@ddt.ddt
class LinkTest(Case):

    @ddt.data((None, 'first'), ('first', 'first'), ('second', 'second'))
    @ddt.unpack
    def test_target_of_a_type(self, target, expected):
        self.assertIs(self.resolver.peers[expected],
                      self.replication.peer_for(target))

    def test_unknown_target(self):
        error = self.assertRaises(volume_types.InvalidExtraSpec,
                                  self.replication.peer_for, 'mars')
        self.assertIn('kaminario:replication_target is "mars"', str(error))
        self.assertIn('first, second.', str(error))

    def test_back_end_without_targets(self):
        self.resolver.peers.clear()
        for target in None, 'first':
            error = self.assertRaises(volume_types.InvalidExtraSpec,
                                      self.replication.peer_for, target)
            self.assertIn('no replication_device', str(error))

    def test_target_only_replicates_to_the_primary(self):
        primary = replicated.peer(self.there, config.PRIMARY_ID)
        self.resolver.peers = {config.PRIMARY_ID: primary}
        self.assertIs(primary, self.replication.peer_for('mars'))

    @ddt.data((None, 600), (900, 900))
    @ddt.unpack
    def test_rpo_of_the_type_takes_precedence(self, rpo, expected):
        spec = volume_types.TypeSpec(replicated=True, rpo=rpo,
                                     target='second')
        self.assertEqual(self.link(self.moon, 'second', expected),
                         self.replication.link(spec))

    def test_check_target_of_a_new_type(self):
        """Only checked on a target, whose primary may have other targets."""
        self.replication.check_target('mars')
        primary = autospec.Double(replication.Replication)
        self.replication.primary = primary
        primary.peer_for.return_value = replicated.peer(self.here)
        self.replication.check_target('here')
        primary.peer_for.assert_called_once_with('here')
        primary.peer_for.return_value = replicated.peer(self.moon)
        error = self.assertRaises(exceptions.ReplicationError,
                                  self.replication.check_target, 'moon')
        self.assertEqual(
            'The new type wants another replication target than the one at '
            'here.example.org, which serves the volume: fail back first.',
            str(error))

    @ddt.data((False, None, False), (False, True, False), (True, None, True),
              (True, False, True), (True, True, False))
    @ddt.unpack
    def test_link_for_a_new_volume(self, asked, consistent, expected):
        """A consistency group is replicated as a whole."""
        group = (None if consistent is None
                 else replicated.group(consistent=consistent))
        row = replicated.volume(group=group, volume_type=(
            replicated.volume_type(replication='enabled', replication_rpo='60')
            if asked else None))
        self.assertEqual(self.link(rpo=60) if expected else None,
                         self.replication.link_for_new(row))

    def test_link_of_a_session(self):
        found = self.replication.link_with(replicated.session(peer=6, rpo=60))
        self.assertEqual(self.link(self.moon, 'second', 60), found)

    def test_default_rpo_for_a_session_without_one(self):
        self.assertEqual(self.link(), self.replication.link_with(
            replicated.session(peer=5, rpo=None)))

    @ddt.data(None, 9)
    def test_session_with_an_unknown_array(self, peer):
        self.assertIsNone(
            self.replication.link_with(replicated.session(peer=peer)))


@ddt.ddt
class StartTest(Case):

    def setUp(self):
        super().setUp()
        self.begun = self.flow('protect')
        self.may_be_begun = self.flow('may_be_begun', True)
        self.row = replicated.volume(size=3)
        self.order = flow.SessionRequest(
            self.link(), 'ssn-v1', 10, 'cvg-v1',
            [flow.Member(1, 'cv-v1', 3 * units.Mi)])
        self.here.volumes.find_group.return_value = None

    def test_start(self):
        found = self.replication.start(self.row, BACKING, self.link())
        self.assertEqual(
            ArrayVolume(group=10, volume=1, replicated=True, target='there'),
            found)
        self.begun.assert_called_once_with(self.order, mock.ANY)

    def test_nothing_is_started_with_an_unreachable_peer(self):
        self.there.system = replicated.LostSystem()
        self.assertRaises(exceptions.PeerUnreachable, self.replication.start,
                          self.row, BACKING, self.link())
        self.begun.assert_not_called()

    def test_names_of_a_migrated_volume(self):
        row = replicated.volume('v1', _name_id='n1')
        self.replication.start(row, BACKING, self.link())
        order, _ = self.begun.call_args.args
        self.assertEqual(('ssn-n1', 'cvg-n1', 'cv-n1'), (
            order.session_name, order.group_name, order.members[0].name))

    @ddt.data(([], True), (['attachment'], False))
    @ddt.unpack
    def test_mappings_of_replicas_of_an_earlier_session(
            self, attachments, released):
        """They are kept if Cinder has attachments: VMs may use them."""
        self.row.volume_attachment = attachments
        self.replication.start(self.row, BACKING, self.link())
        _, release = self.begun.call_args.args
        release(self.there, [4])
        peers = self.resolver.peers
        self.assertEqual([mock.call([4])] if released else [],
                         peers['first'].release.mock_calls)
        peers['second'].release.assert_not_called()

    def test_mappings_are_kept_if_one_volume_is_attached(self):
        rows = [self.row, replicated.volume('v2', volume_attachment=['a'])]
        self.replication.begin(rows, self.order)
        self.begun.call_args.args[1](self.there, [4, 5])
        self.resolver.peers['first'].release.assert_not_called()

    def test_protect_marks_the_row_first(self):
        self.begun.side_effect = lambda *args: self.resolver.note \
            .assert_called_once_with(self.row, BACKING, replicated=True,
                                     target='there')
        self.replication.protect(self.row, BACKING, self.link())
        self.begun.assert_called_once_with(self.order, mock.ANY)
        self.resolver.note.assert_called_once()
        self.may_be_begun.assert_not_called()

    def test_protect_fails_if_the_row_cannot_be_marked(self):
        self.resolver.note.side_effect = exceptions.ConcurrentUpdate('busy')
        self.assertRaises(exceptions.ConcurrentUpdate,
                          self.replication.protect,
                          self.row, BACKING, self.link())
        self.begun.assert_not_called()

    @ddt.data((10, 'rssn-v1'), (11, 'ssn-v1'), (None, 'ssn-v1'))
    @ddt.unpack
    def test_session_name_of_a_former_replica(self, marked, expected):
        self.here.volumes.find_group.return_value = marked
        self.replication.protect(self.row, BACKING, self.link())
        self.assertEqual(expected,
                         self.begun.call_args.args[0].session_name)
        self.here.volumes.find_group.assert_called_once_with('rcvg-v1')

    def test_failure_without_leftovers(self):
        self.begun.side_effect = rest.Refused('no')
        self.may_be_begun.return_value = False
        self.resolver.note.side_effect = lambda *args, **changes: \
            self.noted_within.append(tuple(self.here.inside))
        self.noted_within = []
        self.assertRaises(rest.Refused, self.replication.protect, self.row,
                          BACKING, self.link())
        self.assertEqual([
            mock.call(self.row, BACKING, replicated=True, target='there'),
            mock.call(self.row, BACKING, replicated=False,
                      failback_in_progress=False,
                      target=None)], self.resolver.note.mock_calls)
        self.assertEqual([(), ('fresh',)], self.noted_within)
        self.may_be_begun.assert_called_once_with(self.order)

    def test_failure_with_possible_leftovers(self):
        self.begun.side_effect = rest.Unreachable('late')
        with self.assertLogs(replication.LOG.logger, 'ERROR') as logs:
            self.assertRaises(rest.Unreachable, self.replication.protect,
                              self.row, BACKING, self.link())
        self.resolver.note.assert_called_once()
        text, = logs.output
        for part in ('ssn-v1', 'here.example.org', 'there.example.org',
                     'cvg-v1', 'late'):
            self.assertIn(part, text)

    def test_all_rows_of_a_group_are_marked(self):
        pairs = [(self.row, BACKING), (replicated.volume('v2'), REPLICATED)]
        self.may_be_begun.return_value = False
        with contextlib.suppress(KeyError), \
                self.replication.noted(pairs, self.order):
            raise KeyError
        on, off = (dict(replicated=True, target='there'),
                   dict(replicated=False, failback_in_progress=False,
                        target=None))
        self.assertEqual(
            [mock.call(*pair, **changes) for changes in (on, off)
             for pair in pairs], self.resolver.note.mock_calls)

    @ddt.data((0, 3 * units.Mi), (5, 5))
    @ddt.unpack
    def test_member(self, size, expected):
        self.assertEqual(flow.Member(1, 'cv-v1', expected),
                         self.replication.member(self.row, BACKING, size))


@ddt.ddt
class StopTest(Case):

    def setUp(self):
        super().setUp()
        self.ended = self.flow('unprotect', True)
        self.has_ended = self.flow('has_ended', False)
        self.row = replicated.volume(_name_id='n1')

    def unprotect(self):
        self.replication.unprotect(self.row, REPLICATED, 'v1')

    def test_unprotect(self):
        self.use_one_peer()
        self.unprotect()
        self.ended.assert_called_once_with(
            self.here, self.link(), ('ssn-v1', 'rssn-v1'), group=10,
            group_name='cvg-v1', volume_names=['cv-v1'], release=mock.ANY,
            confirm=mock.ANY)
        # With one peer, the session need not be read.
        self.here.replication.find.assert_not_called()

    def test_replicas_are_released(self):
        self.unprotect()
        self.ended.call_args.kwargs['release'](self.moon, [4])
        peers = self.resolver.peers
        peers['second'].release.assert_called_once_with([4])
        peers['first'].release.assert_not_called()

    def test_replicas_of_an_attached_volume_are_not_released(self):
        self.row.volume_attachment = ['attachment']
        self.unprotect()
        self.ended.call_args.kwargs['release'](self.moon, [4])
        self.resolver.peers['second'].release.assert_not_called()

    def test_parents_of_replicas_are_released_on_the_peer(self):
        self.use_one_peer()
        peer = self.resolver.peers['first']
        peer.leave.side_effect = lambda rows: self.assertEqual(
            (['fresh'], [self.row]), (self.there.inside, list(rows)))
        self.unprotect()
        peer.leave.assert_called_once()

    def test_peer_keeps_its_replica(self):
        self.use_one_peer()
        self.ended.return_value = False
        self.unprotect()
        self.resolver.peers['first'].leave.assert_not_called()

    def test_peer_of_the_session(self):
        self.here.replication.find.return_value = replicated.session(
            peer=6, rpo=60)
        self.unprotect()
        self.here.replication.find.assert_called_once_with(
            'ssn-v1', 'rssn-v1')
        self.assertEqual(self.link(self.moon, 'second', 60),
                         self.ended.call_args.args[1])
        self.resolver.peers['second'].leave.assert_called_once()
        self.resolver.peers['first'].leave.assert_not_called()

    @ddt.data(None, replicated.session(peer=None))
    def test_all_peers_if_the_session_is_gone(self, session):
        self.here.replication.find.return_value = session
        self.unprotect()
        self.assertEqual(
            [self.link(), self.link(self.moon, 'second', 600)],
            [call.args[1] for call in self.ended.mock_calls])

    def test_peer_is_not_configured_any_more(self):
        self.here.replication.find.return_value = replicated.session(peer=9)
        self.unprotect()
        self.assertIsNone(self.ended.call_args.args[1])
        for peer in self.resolver.peers.values():
            peer.leave.assert_not_called()

    def test_no_peers_any_more(self):
        self.resolver.peers.clear()
        self.unprotect()
        self.assertIsNone(self.ended.call_args.args[1])

    def test_failure_before_the_session_ended(self):
        self.use_one_peer()
        self.ended.side_effect = exceptions.ObjectInUse('rcv-v1', 'is mapped')
        self.has_ended.side_effect = lambda *args: self.assertEqual(
            ['cleanup_deadline'], self.here.inside)
        self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.has_ended.assert_called_once_with(
            self.here, ('ssn-v1', 'rssn-v1'), 10)
        self.assertEqual([], self.row.writes)

    def test_failure_after_the_session_ended(self):
        self.use_one_peer()
        self.ended.side_effect = exceptions.ObjectInUse('rcv-v1', 'is mapped')
        self.has_ended.return_value = True
        with self.assertLogs(replication.LOG.logger, 'ERROR') as logs:
            self.assertRaises(exceptions.ObjectInUse, self.unprotect)
        self.assertEqual([{'replication_status': 'error'}], self.row.writes)
        self.assertIn('Volume v1 is not replicated any more: rcv-v1 is '
                      'mapped', logs.output[0])

    def test_failure_when_the_session_cannot_be_read(self):
        self.use_one_peer()
        self.ended.side_effect = rest.Refused('no')
        self.has_ended.side_effect = rest.Unreachable('gone')
        with self.assertLogs(replication.LOG.logger, 'WARNING') as logs:
            self.assertRaises(rest.Refused, self.unprotect)
        self.assertIn('ssn-v1', logs.output[0])
        self.assertEqual([], self.row.writes)

    def test_all_volumes_of_a_group(self):
        self.use_one_peer()
        rows = {'a': replicated.volume('a'), 'b': replicated.volume('b')}
        self.replication.end('g1', 10, 'ccg-g1', rows)
        self.ended.assert_called_once_with(
            self.here, self.link(), ('ssn-g1', 'rssn-g1'), group=10,
            group_name='ccg-g1', volume_names=['cv-a', 'cv-b'],
            release=mock.ANY, confirm=mock.ANY)
        self.ended.call_args.kwargs['confirm'](False)
        self.assertEqual(2, self.resolver.check_here.call_count)

    @ddt.data((False, False, False, False), (True, False, False, False),
              (True, False, True, True), (False, True, True, True),
              (False, False, True, False), (False, True, False, False))
    @ddt.unpack
    def test_volume_that_is_being_moved(
            self, opened, reserved, moving, refused):
        self.use_one_peer()
        self.unprotect()
        confirm = self.ended.call_args.kwargs['confirm']
        self.resolver.known.return_value = ArrayVolume(
            group=10, volume=1, failback_in_progress=reserved)
        self.rows.is_moving.return_value = moving
        if refused:
            self.assertIn('v1', str(self.assertRaises(
                exceptions.ConcurrentUpdate, confirm, opened)))
        else:
            confirm(opened)

    def test_volume_without_ids_that_is_being_moved(self):
        self.use_one_peer()
        self.unprotect()
        self.rows.is_moving.return_value = True
        confirm = self.ended.call_args.kwargs['confirm']
        confirm(False)
        self.assertRaises(exceptions.ConcurrentUpdate, confirm, True)

    def test_volume_that_was_moved(self):
        """Only the row in the database says so."""
        self.use_one_peer()
        self.unprotect()
        self.row.meanwhile(provider_id='other')

        def check_here(row):
            if row.provider_id == 'other':
                raise exceptions.ArrayNotActive('moved')
        self.resolver.check_here.side_effect = check_here
        self.assertRaises(exceptions.ArrayNotActive,
                          self.ended.call_args.kwargs['confirm'], False)

    def test_unprotect_for_good(self):
        self.use_one_peer()
        self.ended.side_effect = lambda *args, **more: \
            self.resolver.note.assert_not_called()
        self.resolver.note.side_effect = lambda *args, **changes: \
            self.assertEqual(['fresh'], self.here.inside)
        self.replication.unprotect_for_good(self.row, REPLICATED)
        more = self.ended.call_args.kwargs
        self.assertEqual((10, 'cvg-n1', ['cv-n1']), (
            more['group'], more['group_name'], more['volume_names']))
        self.resolver.note.assert_called_once_with(
            self.row, REPLICATED, replicated=False, failback_in_progress=False,
            target=None)

    def test_unprotect_for_good_fails(self):
        self.use_one_peer()
        self.ended.side_effect = rest.Refused('no')
        self.assertRaises(rest.Refused, self.replication.unprotect_for_good,
                          self.row, REPLICATED)
        self.resolver.note.assert_not_called()


@ddt.ddt
class ExtendTest(Case):

    def setUp(self):
        super().setUp()
        self.use_one_peer()
        self.extended = self.flow('extend')
        self.locked = []
        autospec.patched(self, locks, 'group_on',
                         side_effect=self.lock)
        self.row = replicated.volume(_name_id='n1', group=replicated.group())

    @contextlib.contextmanager
    def lock(self, array, group_id):
        self.locked.append((array, group_id))
        yield
        self.locked.append('free')

    def test_volume_without_a_session(self):
        self.resolver.names_of.return_value = ['cv-n1', 'rcv-n1']
        self.replication.grow(self.row, BACKING, 99)
        self.here.volumes.grow.assert_called_once_with(
            1, 99, ['cv-n1', 'rcv-n1'])
        self.resolver.names_of.assert_called_once_with(self.row, BACKING)
        self.extended.assert_not_called()
        self.assertEqual([], self.locked)

    def test_volume_with_its_own_session(self):
        self.replication.grow(self.row, REPLICATED, 99)
        self.extended.assert_called_once_with(
            self.here, self.link(), ('ssn-n1', 'rssn-n1'), group=10,
            member=flow.Member(1, 'cv-n1', 99))
        self.here.volumes.grow.assert_not_called()
        self.assertEqual([], self.locked)

    def test_volume_with_the_session_of_its_group(self):
        """Locked, as concurrent extends would both suspend the session."""
        self.extended.side_effect = lambda *args, **more: self.assertEqual(
            [(self.here, 10)], self.locked)
        self.replication.grow(self.row, ArrayVolume(
            group=10, volume=1, replicated=True, shared=True), 99)
        self.extended.assert_called_once_with(
            self.here, self.link(), ('ssn-g1', 'rssn-g1'), group=10,
            member=flow.Member(1, 'cv-n1', 99))
        self.assertEqual([(self.here, 10), 'free'], self.locked)


@ddt.ddt
class SweepTest(Case):

    def setUp(self):
        super().setUp()
        self.swept = self.flow('sweep')
        self.within = []
        self.swept.side_effect = lambda array, *args: self.within.append(
            tuple(array.inside))

    def arrays(self):
        return [call.args[0] for call in self.swept.mock_calls]

    def test_replicas_of_a_volume(self):
        self.replication.sweep(replicated.volume(), 'n1')
        self.assertEqual([
            mock.call(array, True, 'ssn-n1', 'cvg-n1', ['cv-n1'])
            for array in (self.there, self.moon)], self.swept.mock_calls)
        self.assertEqual([('cleanup_deadline',)] * 2, self.within)

    def test_volume_that_was_never_created(self):
        self.replication.sweep(replicated.volume(launched_at=None), 'n1')
        self.assertEqual([self.there, self.moon, self.here], self.arrays())

    @ddt.data(rest.Unreachable('gone'), exceptions.ObjectInUse('cv', 'busy'))
    def test_array_that_fails(self, error):
        """The other arrays are swept nevertheless."""
        self.swept.side_effect = [error, None]
        with self.assertLogs(replication.LOG.logger, 'WARNING') as logs:
            self.replication.sweep(replicated.volume(), 'n1')
        self.assertEqual([self.there, self.moon], self.arrays())
        text, = logs.output
        self.assertIn('n1', text)
        self.assertIn('there.example.org', text)
        self.assertIn(str(error), text)


@ddt.ddt
class StatusTest(Case):

    @ddt.data((REPLICATED, False, True), (BACKING, True, False),
              (None, True, True), (None, False, False))
    @ddt.unpack
    def test_is_replicated(self, known, may_be, expected):
        self.resolver.known.return_value = known
        self.resolver.may_be_replicated.return_value = may_be
        self.assertIs(expected, self.replication.is_replicated(
            replicated.volume()))

    @ddt.data((255, 'x' * 255), (256, 'x' * 252 + '...'))
    @ddt.unpack
    def test_long_reason_is_truncated(self, length, expected):
        self.assertEqual({'replication_status': 'error',
                          'replication_extended_status': expected},
                         replication.in_error('x' * length))

    def test_updates(self):
        for update, status in ((replication.VOLUME_ENABLED, 'enabled'),
                               (replication.VOLUME_DISABLED, 'disabled')):
            self.assertEqual({'replication_status': status,
                              'replication_extended_status': None}, update)
