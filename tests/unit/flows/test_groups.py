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

import contextlib
import dataclasses
from unittest import mock

import ddt

from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups as array_groups
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import groups
from cinder_k2.flows import volumes
from cinder_k2 import rest
from tests.unit.driver import doubles
from tests.unit import simulated

GIB = simulated.GIB


@ddt.ddt
class RegroupTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.home = self.array.groups.create('ccg-1', True)
        self.outside = [volumes.create(
            self.array, name=f'out-{n}', group_name=f'own-out-{n}', size=GIB,
            dedup=True) for n in range(2)]
        self.inside = volumes.create_member(self.array, name='in', size=GIB,
                                            group=self.home.id)
        self.moves = [groups.Move(
            f'Volume {n}', [f'out-{n}'], b.volume, b.group, self.home.id,
            'ccg-1', True)
            for n, b in enumerate(self.outside)] + [groups.Move(
                'Volume in', ['in'], self.inside.volume, self.home.id, None,
                'own-in', True)]
        self.before = self.places()
        self.held = []

    def regroup(self, moves):
        return groups.regroup(self.array, moves, self.hold)

    @contextlib.contextmanager
    def hold(self, group):
        self.held.append(group)
        yield

    def places(self):
        """Which volume is in which group, and which groups there are."""
        return ({v.name: v.volume_group.id
                 for v in self.client.volumes.search()
                 if v.name != 'CTRL'},
                {g.name for g in self.client.volume_groups.search()})

    def test_move_in_and_out(self):
        done = self.regroup(self.moves)
        own = self.array.volumes.find_group('own-in')
        self.assertEqual(
            {self.outside[0].volume: self.home.id,
             self.outside[1].volume: self.home.id, self.inside.volume: own},
            done)
        self.assertEqual({'out-0': self.home.id, 'out-1': self.home.id,
                          'in': own}, self.places()[0])

    @ddt.data(('PATCH', 'volumes/*', 400), ('PATCH', 'volumes/*', 403),
              ('POST', 'volume_groups', 400), ('PATCH', 'volumes/*', 500))
    @ddt.unpack
    def test_all_or_nothing(self, method, path, status):
        for after in range(4):
            fault = self.sim.control.add_fault(
                kind='status', status=status, method=method, path=path,
                after=after, times=1)
            try:
                self.regroup(self.moves)
            except (rest.RestError, exceptions.GroupNotSupported):
                self.assertEqual(self.before, self.places())
            else:
                # The fault was due after the last call, or the call was
                # repeated.
                self.assertTrue(fault.triggered == 0 or status == 500)
                self.sim.control.clear_faults()
                self.regroup([dataclasses.replace(
                    m, source=m.target, target=m.source)
                    for m in self.moves[:2]])
                self.array.volumes.move(self.inside.volume, self.home.id, ())
                self.array.groups.delete_if_empty(
                    self.array.volumes.find_group('own-in'), 'own-in')
            self.sim.control.clear_faults()

    def test_foreign_group_is_left_alone(self):
        """It has the name of the group that is to be created."""
        self.array.volumes.create_group('own-in', True)
        self.array.volumes.create(
            'theirs', GIB, self.array.volumes.find_group('own-in'))
        before = self.places()
        self.assertRaises(rest.Refused, self.regroup, self.moves)
        self.assertEqual(before, self.places())

    def test_error_gives_the_reason(self):
        self.array.snapshots.create('snap', self.outside[1])
        self.array.groups.check_movable = lambda label, volume, group: None
        error = self.assertRaises(exceptions.GroupNotSupported, self.regroup,
                                  self.moves)
        self.assertIn('Volume 1 cannot change its volume group', str(error))
        self.assertIn('has snapshots', str(error))

    def test_snapshots_are_checked_before_the_move(self):
        """The array might move the volume without its snapshots."""
        self.array.snapshots.create('snap', self.inside)
        self.sim.control.clear_journal()
        error = self.assertRaises(exceptions.GroupNotSupported, self.regroup,
                                  self.moves[2:])
        self.assertIn('Volume in has snapshots', str(error))
        self.assertIn('ccg-1:snap', str(error))
        self.assertNotIn('POST volume_groups', self.calls())

    def test_source_groups_are_locked(self):
        self.regroup(self.moves)
        self.assertEqual([m.source for m in self.moves], self.held)


@ddt.ddt
class MakeTest(simulated.SimulatedTest):

    def setUp(self):
        super().setUp()
        self.source = self.array.groups.create('ccg-1', True)
        self.members = [volumes.create_member(
            self.array, name=f'in-{n}', size=GIB, group=self.source.id)
            for n in range(3)]
        self.taken = self.array.snapshots.create('snap', self.members[0])

    def make(self):
        return groups.make(self.array, group_name='ccg-2', dedup=True,
                           members={f'new-{member.volume}': self.maker(member)
                                    for member in self.members})

    def maker(self, member):
        order = clones.CloneRequest(
            name=f'new-{member.volume}', group_name='none', view_name='none',
            size=GIB, dedup=True, source_size=GIB, source_dedup=True)
        return lambda group: clones.thin(
            self.array, dataclasses.replace(order, group=group),
            dataclasses.replace(self.taken, volume=member.volume))

    def test_in_order(self):
        made = self.make()
        home = self.array.groups.find('ccg-2')
        self.assertEqual(3, home.volumes)
        for member, backing in zip(self.members, made, strict=True):
            self.assertEqual((home.id, True), (backing.group, backing.shared))
            self.assertEqual(
                f'new-{member.volume}',
                self.client.volumes.get(backing.volume).name)

    @ddt.data('POST volumes', 'PATCH volumes/*', 'POST volume_groups')
    def test_all_or_nothing(self, place):
        method, path = place.split()
        before = self.leftovers()
        for after in range(3):
            fault = self.sim.control.add_fault(
                kind='status', status=403, method=method, path=path,
                after=after, times=1)
            try:
                self.make()
            except rest.RestError:
                self.assertEqual(before, self.leftovers())
            else:
                self.assertEqual(0, fault.triggered)
                break
            self.sim.control.clear_faults()
        self.assertEqual(0 if path != 'volume_groups' else 1,
                         len(self.client.volume_groups.search(name='ccg-2')))


class RecordedMoveTest(doubles.TestCase):
    """The calls that move volume 7 out of group 3."""

    OUT = groups.Move('Volume 1', ['cv-1'], 7, 3, None, 'cvg-1', False)
    IN = groups.Move('Volume 1', ['cv-1'], 7, 3, 4, 'ccg-1', False)
    LOOK = mock.call.array.groups.check_movable('Volume 1', 7, 3)

    def setUp(self):
        super().setUp()
        self.array.volumes.create_group.return_value = 9
        self.array.volumes.find_volume.return_value = 7
        self.array.volumes.find_group.return_value = 9

    @contextlib.contextmanager
    def hold(self, group):
        self.log.hold(group)
        yield
        self.log.free(group)

    def regroup(self, move):
        return groups.regroup(self.array, [move], self.hold)

    def test_to_a_group_of_its_own(self):
        self.assertEqual({7: 9}, self.regroup(self.OUT))
        self.assertEqual(
            [mock.call.hold(3), self.LOOK,
             mock.call.array.volumes.create_group('cvg-1', False),
             mock.call.array.volumes.move(7, 9, ['cv-1']),
             mock.call.free(3)], self.calls())

    def test_move_out_is_refused(self):
        """The volume is moved back, in case it moved; the group is deleted."""
        self.array.volumes.move.side_effect = [rest.Refused('no'), None]
        self.raised(exceptions.GroupNotSupported, self.regroup, self.OUT)
        self.assertEqual(
            [mock.call.array.volumes.move(7, 9, ['cv-1']),
             mock.call.cleanup_deadline(),
             mock.call.array.volumes.find_volume('cv-1'),
             mock.call.array.volumes.move(7, 3, ['cv-1']),
             mock.call.array.volumes.find_group('cvg-1'),
             mock.call.array.groups.delete_if_empty(9, 'cvg-1')],
            self.calls()[3:])

    def test_into_a_full_group(self):
        self.array.volumes.move.side_effect = [rest.Refused('no'), None]
        self.array.groups.find.return_value = array_groups.Group(
            4, False, array_groups.MOST_VOLUMES)
        error = self.raised(exceptions.GroupNotSupported,
                            self.regroup, self.IN)
        self.assertIn('volume group ccg-1 holds 32 volumes', str(error))
        self.assertTrue(str(error).endswith('no'), error)
        self.assertEqual([mock.call.array.groups.find('ccg-1')],
                         self.calls('array.groups.find'))

    def test_into_a_group_that_is_not_full(self):
        """The group is not deleted."""
        self.array.volumes.move.side_effect = [rest.Refused('no'), None]
        self.array.groups.find.return_value = array_groups.Group(4, False, 1)
        error = self.raised(exceptions.GroupNotSupported,
                            self.regroup, self.IN)
        self.assertIn('Volume 1 cannot change its volume group', str(error))
        self.assertEqual([], self.calls('array.volumes.find_group',
                                        'array.groups.delete_if_empty'))

    def test_each_member_gets_a_fresh_deadline(self):
        """If one fails, those before it are deleted."""
        self.array.volumes.create_group.return_value = 9
        self.array.volumes.find_group.return_value = 9
        made = ArrayVolume(group=9, volume=7, shared=True)
        first, second = mock.Mock(return_value=made), mock.Mock(
            side_effect=rest.Refused('no'))
        self.raised(rest.Refused, lambda: groups.make(
            self.array, group_name='ccg-1', dedup=True,
            members={'cv-1': first, 'cv-2': second}))
        first.assert_called_once_with(9)
        self.assertEqual(
            [mock.call.array.volumes.create_group('ccg-1', True),
             mock.call.deadline(fresh=True), mock.call.deadline(fresh=True),
             mock.call.cleanup_deadline(),
             mock.call.array.volumes.delete(7, 9, ['cv-1']),
             mock.call.cleanup_deadline(),
             mock.call.array.volumes.find_group('ccg-1'),
             mock.call.array.volumes.delete_group(9, ['ccg-1'])],
            self.calls())
