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

import dataclasses
from unittest import mock
from unittest.mock import call

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups as array_groups
from cinder_k2.driver.db import writes
from cinder_k2.driver import locks
from cinder_k2.driver.operations import flatten
from cinder_k2.driver.operations import group_update
from cinder_k2.driver.operations import placement
from cinder_k2.driver.operations import resolver
from cinder_k2 import exceptions
from cinder_k2.flows import deletion as deletion_flows
from cinder_k2.flows import groups as flows
from cinder_k2 import rest
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM
HOME = array_groups.Group(id=5, dedup=True)
OUTSIDE = ArrayVolume(group=9, volume=31)
INSIDE = ArrayVolume(group=5, volume=32, shared=True)


@ddt.ddt
class GroupUpdateTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.objects = {'v1': OUTSIDE, 'v2': INSIDE}
        self.known = self.double('resolver', resolver.Resolver)
        self.known.resolve.side_effect = (
            lambda volume: self.objects[volume.id])
        self.known.confirm.side_effect = lambda volume, stored: stored
        self.known.names_of.side_effect = (
            lambda volume, backing: [f'cv-{volume.name_id}'])
        self.known.note.side_effect = self.note
        self.flattening = self.double('flattening', flatten.Flattening)
        self.flattening.full.side_effect = (
            lambda volume, what: self.objects[volume.id])
        self.array.groups.ensure.return_value = HOME
        self.array.replication.volumes_of.return_value = {}
        self.function(placement, 'dedup_of').return_value = True
        self.unreplicated = self.function(placement, 'check_unreplicated')
        self.dedup = self.function(placement, 'check_dedup')
        self.regroup = self.function(flows, 'regroup')
        self.regroup.side_effect = lambda array, moves, hold: {
            move.volume: move.target or 20 for move in moves}
        self.function(deletion_flows, 'delete_own_group')
        self.function(deletion_flows, 'delete_own_group_by_name')
        self.write = self.function(writes, 'set_if_unmoved')
        self.group = doubles.Row(id='g')
        self.one = doubles.a_volume('v1', name_id='n1')
        self.two = doubles.a_volume('v2')
        self.update = group_update.GroupUpdate(
            self.array, self.known, self.flattening)

    @staticmethod
    def note(volume, backing, **changes):
        volume.provider_id = dataclasses.replace(backing, **changes)

    def run_update(self, add=None, remove=None):
        return self.update.update_group(None, self.group, add, remove)

    def moves(self):
        array, moves, hold = self.regroup.call_args.args
        self.assertIs(self.array, array)
        # The flow takes the same lock as other operations.
        self.assertEqual((locks.group_on, (self.array,)),
                         (hold.func, hold.args))
        return moves

    JOIN = flows.Move('Volume v1', ['cv-n1'], 31, 9, 5, 'ccg-g', True)
    LEAVE = flows.Move('Volume v2', ['cv-v2'], 32, 5, None, 'cvg-v2', True)

    def test_add_a_volume(self):
        """The row is marked before it moves; its own group is deleted last."""
        joined = dataclasses.replace(OUTSIDE, group=5, shared=True)
        self.assertEqual(
            (None, [{'id': 'v1', 'provider_id': joined}], []),
            self.run_update(add=[self.one]))
        self.assertEqual([self.JOIN], self.moves())
        self.assertEqual([
            call.dedup_of(self.group), call.array.groups.ensure(
                'ccg-g', True), call.check_unreplicated(self.group),
            call.check_dedup(self.one, 'ccg-g', HOME, True),
            call.deadline(fresh=True), call.resolver.resolve(self.one),
            call.flattening.full(
                self.one, 'which cannot join a consistency group'),
            call.resolver.confirm(self.one, OUTSIDE),
            call.resolver.names_of(self.one, OUTSIDE),
            call.resolver.note(self.one, OUTSIDE, regrouping=True),
            call.regroup(self.array, mock.ANY, mock.ANY),
            call.deadline(fresh=True),
            call.resolver.names_of(self.one, OUTSIDE),
            call.delete_own_group(self.array, 9, ['cvg-n1']),
            call.forget_group(SYSTEM, 9),
            call.resolver.note(self.one, OUTSIDE, group=5, shared=True,
                               regrouping=False)], self.calls())

    def test_remove_a_volume(self):
        """It gets its own volume group; the former one is not deleted."""
        left = dataclasses.replace(INSIDE, group=20, shared=False)
        self.assertEqual(
            (None, [], [{'id': 'v2', 'provider_id': left}]),
            self.run_update(remove=[self.two]))
        self.assertEqual([self.LEAVE], self.moves())
        done = self.calls('check_unreplicated', 'resolver.note', 'regroup',
                          'delete_own_group', 'delete_own_group_by_name')
        self.assertEqual([
            call.check_unreplicated(self.group),
            call.resolver.note(self.two, INSIDE, regrouping=True),
            call.regroup(self.array, mock.ANY, mock.ANY),
            call.resolver.note(self.two, INSIDE, group=20, shared=False,
                               regrouping=False)], done)
        self.assertEqual([], self.calls('resolver.settled', 'flattening',
                                        'array.replication'))

    @ddt.data((True, True), (None, True), (False, False))
    @ddt.unpack
    def test_dedup_of_the_groups_moved_from_and_to(self, of_home, expected):
        self.array.groups.ensure.return_value = array_groups.Group(
            id=5, dedup=of_home)
        self.run_update([self.one], [self.two])
        self.assertEqual([expected] * 2, [m.dedup for m in self.moves()])

    def test_several_volumes_are_located_with_one_call(self):
        """Volumes found where their rows say are not looked up again."""
        self.array.replication.volumes_of.return_value = {
            'cv-n1': (31, 9), 'cv-v2': (32, 6)}
        self.run_update([self.one], [self.two])
        self.array.replication.volumes_of.assert_called_once_with(
            ['cv-n1', 'cv-v2'])
        self.assertEqual([call.resolver.confirm(self.two, INSIDE)],
                         self.calls('resolver.confirm'))
        self.assertEqual([self.JOIN, self.LEAVE], self.moves())

    def test_volumes_that_were_moved_before_are_not_moved_again(self):
        """A killed service may have left the former group of a volume."""
        self.objects = {
            'v1': dataclasses.replace(OUTSIDE, group=5, regrouping=True),
            'v2': dataclasses.replace(INSIDE, group=20, shared=False)}
        result = self.run_update([self.one], [self.two])
        self.assertEqual([], self.moves())
        self.assertEqual(
            (None, [{'id': 'v1', 'provider_id': dataclasses.replace(
                OUTSIDE, group=5, shared=True)}],
             [{'id': 'v2', 'provider_id': dataclasses.replace(
                 INSIDE, group=20, shared=False)}]), result)
        self.assertEqual(
            [call.delete_own_group_by_name(self.array, 'cvg-n1')],
            self.calls('delete_own_group', 'delete_own_group_by_name',
                       'forget_group'))

    # Refused updates

    def refused(self, *changes):
        error = self.raised(exceptions.GroupNotSupported, self.run_update,
                            *changes)
        self.assertEqual([], self.calls('resolver.note', 'regroup'))
        return str(error)

    def test_replicated_group(self):
        self.unreplicated.side_effect = exceptions.GroupNotSupported
        self.refused([self.one])
        self.refused(None, [self.two])

    def test_empty_update_of_a_replicated_group(self):
        self.run_update()
        self.assertEqual([], self.calls('check_unreplicated'))

    def test_replicated_volume(self):
        self.objects['v1'] = dataclasses.replace(OUTSIDE, replicated=True)
        self.assertEqual(
            'volume v1 is replicated by itself. Retype it to a type without '
            'replication first.', self.refused([self.one]))

    def test_different_deduplication(self):
        self.dedup.side_effect = exceptions.GroupNotSupported
        self.refused([self.one])

    # Volumes after failed operations

    @ddt.data(('error', INSIDE), ('error_deleting', INSIDE), (
        'available', dataclasses.replace(INSIDE, group=6)))
    @ddt.unpack
    def test_location_of_a_failed_volume_is_read_from_the_array(
            self, status, stored):
        self.two.status = status
        self.objects['v2'] = stored
        self.known.settled.return_value = INSIDE
        self.run_update(remove=[self.two])
        self.assertEqual([call.resolver.settled(stored)],
                         self.calls('resolver.settled'))
        self.assertEqual([self.LEAVE], self.moves())

    @ddt.data(rest.NotFound('gone'), exceptions.ObjectMissing('gone'))
    def test_missing_volume_is_removed_from_the_group(self, error):
        self.known.confirm.side_effect = error
        self.assertEqual((None, [], []), self.run_update(remove=[self.two]))
        self.write.assert_called_once_with(self.two, {'provider_id': None})
        self.assertEqual([], self.calls('check_unreplicated',
                                        'resolver.note'))

    # Failures

    def test_rows_are_corrected_after_a_failure(self):
        """They are set to the groups that the volumes are in now."""
        self.regroup.side_effect = ZeroDivisionError
        there = dataclasses.replace(OUTSIDE, group=20)
        self.known.settled.side_effect = [rest.Unreachable('lost'), there]
        self.assertRaises(ZeroDivisionError, self.run_update,
                          [self.one, self.two])
        self.assertEqual([
            call.deadline(fresh=True), call.resolver.settled(OUTSIDE),
            call.deadline(fresh=True), call.resolver.settled(INSIDE),
            call.resolver.note(self.two, there, regrouping=False)],
            self.calls()[-5:])

    def test_row_that_cannot_be_corrected(self):
        """It still says "moving", so later operations ask the array."""
        self.regroup.side_effect = ZeroDivisionError
        self.known.settled.side_effect = exceptions.GroupNotSupported
        self.assertRaises(ZeroDivisionError, self.run_update, [self.one])
        self.assertEqual(
            [call.resolver.note(self.one, OUTSIDE, regrouping=True)],
            self.calls('resolver.note'))
