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

import ddt

from cinder_k2.array import NamedVolume
from cinder_k2 import exceptions
from cinder_k2.flows import clones
from cinder_k2.flows import deletion
from cinder_k2.flows import volumes
from cinder_k2 import rest
from tests.unit import simulated

GIB = simulated.GIB


class ClonesTest(simulated.SimulatedTest):
    """Common to arrays with and without thin clones."""

    def setUp(self):
        super().setUp()
        self.source = volumes.create(self.array, name='src',
                                     group_name='src-group', size=GIB,
                                     dedup=True)
        self.before = self.leftovers()
        self.copied = []
        self.held = []
        self.cloner = clones.Cloner(
            self.array, lambda *request: self.copied.append(
                request), self.hold,
            lambda group: None)
        self.request = clones.CloneRequest(
            name='new', group_name='new-group', view_name='new-view',
            size=GIB, dedup=True, source_size=GIB, source_dedup=True)
        self.array.snapshots.check()

    @contextlib.contextmanager
    def hold(self, group):
        self.held.append(group)
        yield

    def clone(self, *strategies, **changes):
        return self.cloner.from_volume(
            dataclasses.replace(self.request, **changes), self.source,
            f'ccs-{self.clone_count()}', strategies or ('thin', 'view'))

    def clone_count(self):
        return len(self.sim.control.leftovers().get('snapshots', []))

    def late(self, path, after=0):
        """Have the next object show only when it is looked for again."""
        self.sim.control.add_fault(kind='late', method='POST', path=path,
                                   after=after, times=1, seconds=3)

    def remove(self, clone):
        deletion.delete_volume(self.array, clone, [])
        deletion.delete_parent(self.array, clone, [])
        self.assertEqual(self.before, self.leftovers())


@ddt.ddt
class ThinTest(ClonesTest):

    def test_thin_clone_gets_a_group_of_its_own(self):
        clone = self.clone()
        made = self.client.volumes.get(clone.volume)
        self.assertEqual(('new', GIB), (made.name, made.size))
        self.assertEqual(clone.group, made.volume_group.id)
        self.assertNotEqual(self.source.group, clone.group)
        self.assertEqual('new-group',
                         self.client.volume_groups.get(clone.group).name)
        self.remove(clone)

    def test_larger_thin_clone(self):
        clone = self.clone(size=3 * GIB)
        self.assertEqual(3 * GIB, self.client.volumes.get(clone.volume).size)
        self.remove(clone)

    # Each call in turn is refused: nothing may be left behind.
    @ddt.data(('POST', 'volumes'), ('PATCH', 'volumes/*'),
              ('POST', 'volume_groups'))
    @ddt.unpack
    def test_failures_leave_nothing(self, method, path):
        for after in range(2):
            fault = self.sim.control.add_fault(
                kind='status', status=403, method=method, path=path,
                after=after, times=1)
            try:
                clone = self.clone('thin', size=2 * GIB)
            except (rest.RestError, exceptions.K2Error):
                self.assertEqual(self.before, self.leftovers())
            else:
                self.assertEqual(0, fault.triggered)
                self.remove(clone)
            self.sim.control.clear_faults()

    def test_clone_of_unknown_outcome_that_shows_late(self):
        """OBJ-6: it is deleted nevertheless."""
        create = self.array.snapshots.create_thin_clone

        def lose(*args):
            create(*args)
            raise rest.Unreachable('the link is cut')
        self.array.snapshots.create_thin_clone = lose
        self.late('volumes')
        self.assertRaises(rest.Unreachable, self.clone, 'thin')
        self.assertEqual(self.before, self.leftovers())

    def test_view_replaces_a_clone_that_cannot_be_moved(self):
        self.sim.control.set_behaviors(clones_movable=False)
        clone = self.clone()
        self.assertIsNotNone(clone.view)
        self.remove(clone)
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin')
        self.assertIn('thin: the array does not let a thin clone leave its '
                      'source\'s volume group: ', str(error))
        self.assertEqual(self.before, self.leftovers())

    def test_larger_clone_than_the_quota_of_its_source(self):
        """It grows in the group of its source; thin clones are still tried."""
        self.client.volume_groups.update(self.source.group, quota=2 * GIB)
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin', size=3 * GIB)
        self.assertIn('thin: the array does not let a thin clone grow: ',
                      str(error))
        self.assertEqual(self.before, self.leftovers())
        self.client.volume_groups.update(self.source.group, quota=0)
        self.assertIsNone(self.clone().view)

    def test_source_without_clones(self):
        """Its group is purged only if the hidden snapshot is deleted again."""
        left = []
        self.cloner = clones.Cloner(self.array, self.copied.append, self.hold,
                                    left.append)
        self.clone()
        self.assertEqual([], left)
        self.assertRaises(exceptions.CloneNotSupported, self.clone, 'thin',
                          dedup=False)
        self.assertEqual([self.source.group], left)

    def test_snapshot_that_cannot_be_deleted(self):
        """The reason of the failed clone is raised nevertheless."""
        self.sim.control.add_fault(kind='status', status=403, method='DELETE',
                                   path='snapshots/*')
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin', dedup=False)
        self.assertIn('deduplication', str(error))
        self.assertEqual(['ccs-0'], self.leftovers()['snapshots'])

    def test_clone_that_a_snapshot_keeps_is_an_error(self):
        """VOL-10: someone takes a snapshot before the clone is moved."""
        snapshot = self.array.snapshots.create('snap', self.source)
        move = self.array.volumes.move

        def meddle(volume, group, names):
            self.array.snapshots.create('meddling', self.source)
            move(volume, group, names)

        self.array.volumes.move = meddle
        error = self.assertRaises(
            exceptions.ObjectInUse, self.cloner.from_snapshot, self.request,
            snapshot, ('thin', 'view'))
        self.assertEqual(['new', 'src'], self.leftovers()['volumes'])
        made = self.array.volumes.find_volume('new')
        self.assertIn(f'Thin clone {made} was caught in a snapshot',
                      str(error))
        self.assertIn('delete that snapshot, then the volume.', str(error))
        # Cinder deletes the volume in error: refused, then done.
        caught = dataclasses.replace(self.array.volumes.find('new'),
                                     shared=True)
        self.assertRaises(exceptions.ObjectInUse, deletion.retire_volume,
                          self.array, caught, [])
        meddling = self.array.snapshots.find('meddling')
        self.array.snapshots.delete(meddling.snapshot, meddling.group)
        self.assertIsNone(deletion.retire_volume(self.array, caught, []))
        self.array.snapshots.delete(snapshot.snapshot, snapshot.group)
        self.assertEqual(self.before, self.leftovers())

    def test_other_deduplication_needs_a_copy(self):
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  dedup=False)
        for strategy in ('thin: a thin clone', 'view: a view'):
            self.assertIn(f'{strategy} keeps its source\'s deduplication',
                          str(error))
        self.assertEqual(self.before, self.leftovers())

    def test_source_is_replicated(self):
        """REP-5: its group gets no thin clone, not even for a moment."""
        clone = self.clone(source_replicated=True)
        self.assertIsNotNone(clone.view)
        self.assertEqual(1, self.calls().count('POST volumes'))
        self.remove(clone)
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin', source_replicated=True)
        self.assertIn('thin: its source is replicated', str(error))
        self.assertEqual(self.before, self.leftovers())

    def test_group_of_the_source_is_held(self):
        """VOL-10: for the snapshot, then until the clone has left it."""
        self.clone()
        self.assertEqual([self.source.group] * 2, self.held)

    def test_all_reasons_are_told(self):
        self.refuse_thin_clones()
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin', 'view', size=2 * GIB)
        self.assertIn('thin: the array makes no thin clone: ', str(error))
        self.assertIn('HTTP 400', str(error))
        self.assertIn('; view: a view has exactly the size', str(error))
        self.assertEqual(1, str(error).count('thin: '))
        self.assertIn('new cannot be made in a way that k2_clone_strategies, '
                      'or the volume type, allows. thin: ', str(error))
        self.assertEqual(self.before, self.leftovers())

    def refuse_thin_clones(self):
        self.sim.control.add_fault(kind='status', status=400, method='POST',
                                   path='volumes', times=1)

    def test_refused_strategy_is_tried_last(self):
        """But before copying, and it is the first again once it works."""
        self.refuse_thin_clones()
        views = [self.clone(), self.clone(name='b')]
        self.assertEqual([True, True], [v.view is not None for v in views])
        clone = self.clone('thin', 'view', 'copy', name='c', size=2 * GIB,
                           group_name='c-group')
        self.assertEqual(([], None), (self.copied, clone.view))
        self.assertEqual(clone.source_group, self.source.group)
        again = self.clone(name='d', group_name='d-group')
        self.assertIsNone(again.view)
        for made in (again, clone, *views):
            deletion.delete_volume(self.array, made, [])
            deletion.delete_parent(self.array, made, [])
        self.assertEqual(self.before, self.leftovers())

    def test_refusal_of_one_clone(self):
        """A strategy that has worked before is still the first."""
        clones_made = [self.clone()]
        self.refuse_thin_clones()
        clones_made += [self.clone(name='b', group_name='b-group'),
                        self.clone(name='c', group_name='c-group')]
        self.assertEqual([False, True, False], [
            each.view is not None for each in clones_made])


@ddt.ddt
class ViewTest(ClonesTest):

    profile = 'k2'

    def test_thin_clones_are_tried_once(self):
        first, second = self.clone(), self.clone('thin', 'view', name='b')
        self.assertEqual(1, self.calls().count('POST volumes') - 1)
        for clone in (first, second):
            self.assertIsNotNone(clone.view)
            deletion.delete_volume(self.array, clone, [])
            deletion.delete_parent(self.array, clone, [])
        self.assertEqual(self.before, self.leftovers())

    def test_array_that_ignores_the_request_for_a_thin_clone(self):
        """CLN-5: it has created an empty volume, which is deleted."""
        self.sim.control.set_behaviors(ignore_clone_fields=True)
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'thin')
        self.assertIn('thin: the array', str(error))
        self.assertEqual(self.before, self.leftovers())
        self.remove(self.clone())

    @ddt.data(({'replicated': True}, 'a view cannot be replicated'),
              ({'group': 1}, 'a view cannot be a member of a consistency'),
              ({'dedup': False}, 'a view keeps its source\'s deduplication'))
    @ddt.unpack
    def test_requests_that_no_view_meets(self, changes, reason):
        self.sim.control.clear_journal()
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'view', **changes)
        self.assertIn(f'view: {reason}', str(error))
        self.assertEqual(1, self.calls().count('POST snapshots'))
        self.assertEqual(self.before, self.leftovers())

    def test_member_of_a_consistency_group(self):
        """MAP-3: a view of its snapshot would show the other volumes."""
        volumes.create_member(self.array, name='second', size=GIB,
                              group=self.source.group)
        before = self.leftovers()
        snapshot = self.array.snapshots.create(
            'cs-1', dataclasses.replace(self.source, shared=True))
        error = self.assertRaises(
            exceptions.CloneNotSupported, self.cloner.from_snapshot,
            self.request, snapshot, ['view'])
        self.assertIn('view: a view shows all volumes of a consistency group',
                      str(error))
        self.array.snapshots.delete(snapshot.snapshot, snapshot.group)
        self.assertEqual(before, self.leftovers())

    def test_view_lasts(self):
        """SNP-4: the array may not delete it by itself."""
        made = self.client.snapshots.get(self.clone('view').view)
        self.assertIs(False, made.is_auto_deleteable)
        self.assertTrue(made.is_exposable)

    def test_view_of_a_view(self):
        """SNP-7: by way of a snapshot of the view."""
        view = self.clone()
        second = self.cloner.from_volume(
            dataclasses.replace(self.request, name='second'), view,
            'ccs-2', ('thin', 'view'))
        self.assertNotEqual(view.view, second.view)
        error = self.assertRaises(
            exceptions.CloneNotSupported, self.cloner.from_volume,
            self.request, view, 'ccs-3', ['thin'])
        self.assertIn('thin: a view backs the source', str(error))
        self.assertRaises(exceptions.ObjectInUse, deletion.delete_volume,
                          self.array, view, [])
        deletion.delete_volume(self.array, second, [])
        deletion.delete_parent(self.array, second, [])
        self.remove(view)

    def test_larger_volume_needs_a_copy(self):
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  size=2 * GIB)
        self.assertIn('exactly the size', str(error))
        self.assertEqual(self.before, self.leftovers())

    def test_refused_view(self):
        self.sim.control.add_fault(kind='status', status=400, method='POST',
                                   path='snapshots', after=1)
        error = self.assertRaises(exceptions.CloneNotSupported, self.clone,
                                  'view')
        self.assertIn('view: the array makes no view: ', str(error))
        self.assertIn('HTTP 400', str(error))
        self.assertEqual(self.before, self.leftovers())

    def test_failed_view_leaves_nothing(self):
        self.sim.control.add_fault(kind='status', status=403, method='POST',
                                   path='snapshots', after=1)
        self.assertRaises(rest.Forbidden, self.clone, 'view')
        self.sim.control.clear_faults()
        self.assertEqual(self.before, self.leftovers())

    def test_missing_volsnap_leaves_nothing(self):
        self.sim.control.add_fault(kind='status', status=403, method='GET',
                                   path='volsnaps')
        self.assertRaises(rest.Forbidden, self.clone, 'view')
        self.sim.control.clear_faults()
        self.assertEqual(self.before, self.leftovers())


@ddt.ddt
class CopyTest(ClonesTest):
    """Data that this host copies into a new volume."""

    def setUp(self):
        super().setUp()
        self.seen = []
        self.cloner = clones.Cloner(self.array, self.copy, self.hold,
                                    lambda group: None)

    def copy(self, source, target, size):
        """Record the view and the volume during the copy."""
        view = self.client.snapshots.get(source.backing.view)
        volume = self.client.volumes.get(target.backing.volume)
        self.assertEqual(([view.short_name], [volume.name]),
                         (source.names, target.names))
        self.seen.append((view.short_name, view.source, volume.name,
                          volume.size, volume.volume_group.id,
                          target.backing.group, size))

    def take(self):
        return self.array.snapshots.create('cs-1', self.source)

    def from_snapshot(self, copy, **changes):
        return clones.copied(copy, self.array, dataclasses.replace(
            self.request, **changes), self.snapshot)

    def test_copy_into_a_group_of_its_own(self):
        """The view is deleted once the data is copied."""
        self.snapshot = self.take()
        made = self.from_snapshot(self.copy, size=2 * GIB)
        self.assertEqual(
            [('new-view', self.snapshot.ref, 'new', 2 * GIB, made.group,
              made.group, GIB)], self.seen)
        self.assertFalse(made.shared)
        self.assertEqual(['new-group', 'src-group'],
                         self.leftovers()['volume_groups'])
        self.assertEqual(['cs-1'], self.leftovers()['snapshots'])

    def test_clone_by_copy(self):
        """Only its data is copied: it needs no snapshot afterwards."""
        clone = self.clone('copy', size=2 * GIB, dedup=False)
        self.assertFalse(clone.hidden_parent)
        self.assertNotIn('snapshots', self.leftovers())
        self.assertEqual(1, len(self.seen))
        self.assertFalse(self.array.volumes.group(clone.group).is_dedup)

    def test_view_that_cannot_be_deleted(self):
        """The copy is complete nevertheless."""
        self.snapshot = self.take()
        self.sim.control.add_fault(kind='status', status=403, method='DELETE',
                                   path='snapshots/*')
        made = self.from_snapshot(self.copy)
        self.assertEqual(made.volume, self.array.volumes.find_volume('new'))
        self.assertEqual(['new-view'], self.leftovers()['views'])

    def test_copy_into_a_shared_group(self):
        self.snapshot = self.take()
        group = self.array.volumes.create_group('shared', True)
        made = self.from_snapshot(self.copy, group=group)
        self.assertEqual((group, True), (made.group, made.shared))
        self.assertEqual(['shared', 'src-group'],
                         self.leftovers()['volume_groups'])

    def test_failed_copy(self):
        """Nothing of it is left."""
        self.snapshot = self.take()
        before = self.leftovers()

        def fail(*request):
            raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.from_snapshot, fail)
        self.assertEqual(before, self.leftovers())

    @ddt.data(('snapshots', 0), ('snapshots', 1), ('volume_groups', 0),
              ('volumes', 0))
    @ddt.unpack
    def test_failed_copy_of_objects_that_show_late(self, path, after):
        """OBJ-6: what is not found at once is not left behind."""
        def fail(*request):
            raise ZeroDivisionError
        self.cloner = clones.Cloner(self.array, fail, self.hold,
                                    lambda group: None)
        self.late(path, after)
        self.assertRaises(ZeroDivisionError, self.clone, 'copy')
        self.assertEqual(self.before, self.leftovers())

    def test_volume_deleted_during_the_copy(self):
        """Objects that reuse its ids, or its view's, stay (OBJ-7)."""
        self.sim.control.set_behaviors(reuse_ids=True)
        self.snapshot = self.take()

        def fail(source, target, size):
            group = target.backing.group
            self.client.snapshots.delete(source.backing.view)
            self.client.volumes.delete(target.backing.volume)
            self.client.volume_groups.delete(group)
            self.assertEqual(group, self.array.volumes.create_group(
                'other-group', True))
            self.assertEqual(target.backing.volume,
                             self.array.volumes.create('other', GIB, group))
            other = self.array.snapshots.create_view(
                'other-view', self.snapshot, lasting=False)
            self.assertEqual(source.backing.view, other.view)
            raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.from_snapshot, fail)
        left = self.leftovers()
        self.assertIn('other', left['volumes'])
        self.assertIn('other-group', left['volume_groups'])
        self.assertIn('other-view', left['views'])

    @ddt.data('snapshots', 'volume_groups', 'volumes')
    def test_refused_request(self, path):
        """Nothing is left, and nothing was copied."""
        self.snapshot = self.take()
        before = self.leftovers()
        self.sim.control.add_fault(kind='status', status=403,
                                   commit='before', method='POST', path=path)
        self.assertRaises((rest.RestError, exceptions.K2Error),
                          self.from_snapshot, self.copy)
        self.assertEqual((before, []), (self.leftovers(), self.seen))

    def test_flattened_view(self):
        view = self.array.snapshots.create_view('old', self.take(),
                                                lasting=True)
        before = self.leftovers()
        copied = []
        made = clones.promote(
            self.array, lambda *request: copied.append(request),
            view=NamedVolume(view, ['old']),
            name='new', group_name='new-group', size=2 * GIB, dedup=False)
        self.assertEqual([(NamedVolume(view, ['old']),
                           NamedVolume(made, ['new']), 2 * GIB)], copied)
        self.assertEqual((2 * GIB, made.group), (
            self.array.volumes.size(made.volume, made.group),
            self.array.volumes.find_group('new-group')))
        self.assertFalse(self.array.volumes.group(made.group).is_dedup)
        deletion.delete_volume(self.array, made, [])
        self.assertEqual(before, self.leftovers())
