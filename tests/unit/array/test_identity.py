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

import ddt

from cinder_k2 import array
from cinder_k2.array import objects
from cinder_k2 import exceptions
from cinder_k2.flows import volumes
from cinder_k2 import naming
from cinder_k2 import rest
from tests.unit.rest import scripted
from tests.unit import simulated

GIB = simulated.GIB
SOURCE = objects.SourceNames(volumes=('cv-0', 'cv-1'),
                             groups=('cvg-0', 'cvg-1'))
# A volume's id, as in names of Cinder's objects.
ID = '6f1c2f4e-0a44-4a05-9f6e-2f60f9d8d3a1'


class IdentityTest(simulated.SimulatedTest):
    """Has a volume with a snapshot."""

    def setUp(self):
        super().setUp()
        self.identity = self.array.identity
        self.volume = volumes.create(self.array, name='cv-1',
                                     group_name='cvg-1', size=GIB, dedup=True)
        self.array.snapshots.check()
        self.name = naming.snapshot(ID)
        self.snapshot = self.array.snapshots.create(self.name, self.volume)
        self.sim.control.clear_journal()

    def siblings(self):
        return self.array.snapshots.of_group(self.volume.group)


@ddt.ddt
class VolumeTest(IdentityTest):

    def test_name_matches(self):
        self.assertIs(self.volume,
                      self.identity.volume(self.volume, ['cv-1', 'cv-2']))
        self.assertEqual(['GET volumes'], self.calls())

    def test_second_name_matches(self):
        self.assertIs(self.volume,
                      self.identity.volume(self.volume, ['cv-0', 'cv-1']))

    def test_no_such_name(self):
        self.assertIsNone(self.identity.volume(self.volume, ['cv-2']))

    def test_name_belongs_to_another_id(self):
        """OBJ-7: stored properties of the old id may not apply."""
        stored = dataclasses.replace(self.volume, volume=999, group=998)
        self.assertEqual(
            dataclasses.replace(self.volume, shared=True, has_clones=True),
            self.identity.volume(stored, ['cv-1']))

    def test_is_current(self):
        """OBJ-7: not if the name is gone, or belongs to another id."""
        for names, volume, current in (
                (('cv-2', 'cv-1'), self.volume, True),
                (('cv-2',), self.volume, False),
                (('cv-1',), dataclasses.replace(self.volume, volume=999),
                 False)):
            with self.subTest(names=names, volume=volume):
                self.assertIs(current, self.identity.is_current(
                    objects.NamedVolume(volume, names)))

    @ddt.data((3, True, 4.0), (30, False, 10.0))
    @ddt.unpack
    def test_is_current_but_shows_late(self, seconds, current, passed):
        """OBJ-6: a new object is waited for, but only for ten seconds."""
        self.sim.control.add_fault(kind='late', method='POST',
                                   path='volumes', seconds=seconds)
        made = self.array.volumes.create('cv-2', GIB, self.volume.group)
        begin = self.clock.monotonic()
        self.assertIs(current, self.identity.is_current(objects.NamedVolume(
            dataclasses.replace(self.volume, volume=made), ('cv-2',))))
        self.assertLessEqual(self.clock.monotonic() - begin, passed)

    def test_is_current_in_one_call(self):
        """OBJ-7: a name that another id has is not looked up again."""
        for volume in (self.volume.volume, 999):
            self.sim.control.clear_journal()
            self.identity.is_current(objects.NamedVolume(dataclasses.replace(
                self.volume, volume=volume), ('cv-1',)))
            self.assertEqual(['GET volumes'], self.calls())

    def test_volume_is_in_another_group(self):
        stored = dataclasses.replace(self.volume, group=998)
        self.assertEqual(
            dataclasses.replace(self.volume, shared=True, has_clones=True),
            self.identity.volume(stored, ['cv-1']))

    def test_current_names(self):
        self.assertEqual(('cv-1', 'cvg-1'),
                         self.identity.name_now(self.volume))
        second = self.array.volumes.create('cv-2', GIB, self.volume.group)
        self.assertEqual(('cv-2', 'cvg-1'), self.identity.name_now(
            dataclasses.replace(self.volume, volume=second)))

    def test_current_names_of_missing_objects(self):
        self.assertEqual(('', 'cvg-1'), self.identity.name_now(
            dataclasses.replace(self.volume, volume=999)))
        self.assertEqual(('', ''), self.identity.name_now(
            dataclasses.replace(self.volume, group=998)))


class ViewTest(IdentityTest):

    def setUp(self):
        super().setUp()
        self.view = self.array.snapshots.create_view(
            'cv-2', self.snapshot, lasting=True)

    def test_name_matches(self):
        self.assertIs(self.view, self.identity.volume(self.view, ['cv-2']))

    def test_is_current_but_shows_late(self):
        """OBJ-6: as for a volume."""
        self.sim.control.add_fault(kind='late', method='POST',
                                   path='snapshots', reads=3)
        view = self.array.snapshots.create_view('cv-3', self.snapshot,
                                                lasting=False)
        self.assertTrue(self.identity.is_current(
            objects.NamedVolume(view, ('cv-3',))))

    def test_no_such_name(self):
        """A volume of that name is not the view."""
        self.assertIsNone(self.identity.volume(self.view, ['cv-1']))

    def test_name_belongs_to_another_id(self):
        stored = dataclasses.replace(self.view, view=999)
        self.assertEqual(dataclasses.replace(self.view, has_clones=True),
                         self.identity.volume(stored, ['cv-2']))

    def test_what_is_stored_of_it_with_another_id(self):
        """Only ids are replaced, and the snapshot if it has another one."""
        noted = dataclasses.replace(
            self.view, hidden_parent=True, has_clones=True, shared=True,
            flattening=True, failback_in_progress=True)
        for stored, expected in (
                (dataclasses.replace(noted, view=999, volsnap=998), noted),
                (dataclasses.replace(noted, view=999, parent=997),
                 dataclasses.replace(noted, hidden_parent=False))):
            self.assertEqual(expected,
                             self.identity.volume(stored, ['cv-2']))

    def test_view_with_another_id_that_shows_little(self):
        """Neither its group nor its source, and images of two volumes."""
        client, sim, _ = scripted.client(
            scripted.hits({'id': 52, 'short_name': 'cv-2'}),
            scripted.hits(*({'id': 70 + number, 'source': {
                'ref': f'/volumes/{number}'}} for number in (30, 31))))
        stored = objects.ArrayVolume(
            group=8, view=9, volsnap=1, origin=31, parent=51,
            hidden_parent=True)
        found = array.Array(client, 'any').identity.volume(stored, ['cv-2'])
        self.assertEqual([], sim.script)
        self.assertEqual(dataclasses.replace(
            stored, view=52, volsnap=101, has_clones=True), found)

    def test_current_names(self):
        self.assertEqual(('cv-2', 'cvg-1'), self.identity.name_now(self.view))

    def test_among_siblings(self):
        siblings = self.siblings()
        self.sim.control.clear_journal()
        self.assertTrue(self.identity.is_view_among(
            self.view, ['cv-2'], siblings))
        self.assertFalse(self.identity.is_view_among(
            self.view, ['cv-1'], siblings))
        self.assertFalse(self.identity.is_view_among(
            dataclasses.replace(self.view, view=999), ['cv-2'], siblings))
        self.assertEqual([], self.calls())


class SnapshotTest(IdentityTest):

    def found(self, **changes):
        """Look the snapshot up in both ways, which must agree."""
        stored = dataclasses.replace(self.snapshot, **changes)
        names = ['other', self.name]
        found = self.identity.snapshot(stored, names)
        self.assertEqual(found, self.identity.snapshot_among(
            stored, names, self.siblings()))
        return found

    def test_name_matches(self):
        self.assertIs(self.snapshot, self.identity.snapshot(
            self.snapshot, [self.name]))
        self.assertEqual(['GET snapshots'], self.calls())
        self.assertEqual(self.snapshot, self.found())

    def test_name_belongs_to_another_id(self):
        for changes in ({'snapshot': 999}, {'group': 998}):
            self.assertEqual(
                dataclasses.replace(self.snapshot, has_clones=True),
                self.identity.snapshot(dataclasses.replace(
                    self.snapshot, **changes), [self.name]))

    def test_no_such_name(self):
        self.assertIsNone(self.identity.snapshot(self.snapshot, ['other']))
        self.assertIsNone(self.identity.snapshot_among(
            self.snapshot, ['other'], self.siblings()))


@ddt.ddt
class AdoptedTest(IdentityTest):
    """A managed snapshot, which keeps its original name."""

    def setUp(self):
        super().setUp()
        self.snapshot = dataclasses.replace(
            self.array.snapshots.create('theirs', self.volume),
            source=SOURCE)
        self.time = self.client.snapshots.get(
            self.snapshot.snapshot).creation_time

    def found(self, **changes):
        stored = dataclasses.replace(self.snapshot, **changes)
        found = self.identity.snapshot_among(stored, [self.name],
                                             self.siblings())
        if found is None:
            self.assertIsNone(self.identity.snapshot(stored, []))
        return found

    def test_recorded_name(self):
        """It counts, not the name that Cinder would give."""
        named = naming.digest('theirs')
        self.assertEqual(
            dataclasses.replace(self.snapshot, named=named),
            self.found(named=named))
        self.assertIsNone(self.found(named=naming.digest('other')))
        self.assertIsNone(self.found(named=named, snapshot=999))

    def test_searched_for_in_its_group(self):
        stored = dataclasses.replace(self.snapshot,
                                     named=naming.digest('theirs'))
        self.assertEqual(stored, self.identity.snapshot(stored, []))
        self.assertIsNone(self.identity.snapshot(
            dataclasses.replace(stored, group=998), []))

    def found_now(self, **changes):
        """Whether a managed snapshot is found, and the calls."""
        stored = dataclasses.replace(
            self.snapshot, **{'named': naming.digest('theirs'), **changes})
        self.sim.control.clear_journal()
        found = self.identity.snapshot(stored, [])
        self.assertIn(found, (stored, None))
        return found is not None, self.calls()

    def test_group_has_a_name_of_cinder(self):
        """SNP-1: the snapshot's name begins with it, so one call is enough."""
        self.assertEqual((True, ['GET snapshots']), self.found_now())

    def test_group_id_was_reused(self):
        """OBJ-7: the id of the snapshot was reused as well."""
        self.array.names.set_group(self.volume.group, 'payroll', 'cvg-1')
        self.array.names.set_volume(self.volume.volume, 'pay', 'cv-1')
        self.assertEqual(
            (False, ['GET snapshots', 'GET volumes', 'GET volumes']),
            self.found_now())

    def test_group_id_was_reused_and_volume_moved(self):
        self.array.names.set_group(self.volume.group, 'payroll', 'cvg-1')
        self.array.names.set_volume(self.volume.volume, 'pay', 'cv-1')
        volumes.create(self.array, name='cv-1', group_name='cvg-1',
                       size=GIB, dedup=True)
        self.assertIs(False, self.found_now()[0])

    def test_group_was_renamed(self):
        """VG-9: the volume in it identifies the group."""
        self.array.names.set_group(self.volume.group, 'theirs', 'cvg-1')
        source = objects.SourceNames(volumes=('cv-1',), groups=('cvg-1',))
        self.assertEqual((True, ['GET snapshots', 'GET volumes']),
                         self.found_now(source=source))

    @ddt.data((None, True), (998, False))
    @ddt.unpack
    def test_names_and_groups_are_not_shown(self, other, expected):
        """The array shows no names of snapshots, and no groups of volumes."""
        volume = self.client.volumes.find(name='cv-1')
        untold = dataclasses.replace(volume, volume_group=None,
                                     id=other or volume.id)
        with mock.patch.object(self.client.volumes, 'find', autospec=True,
                               return_value=untold):
            found = self.identity.snapshot_among(
                dataclasses.replace(self.snapshot,
                                    named=naming.digest('theirs')),
                [], [dataclasses.replace(each, name=None)
                     for each in self.siblings()])
        self.assertIs(expected, found is not None)

    def test_snapshot_of_a_view(self):
        """The view is in another volume's group, with its own name."""
        view = self.array.snapshots.create_view('cv-2', self.snapshot,
                                                lasting=True)
        self.snapshot = self.array.snapshots.create('theirs too', view)
        named = naming.digest('theirs too')
        for names, expected in ((('cv-2',), True), (('cv-3',), False)):
            self.assertEqual(
                (expected, ['GET snapshots']), self.found_now(
                    named=named, source=objects.SourceNames(
                        volumes=names, groups=('cvg-1',))))

    @ddt.data((rest.Ref('volume_groups', 998), False),
              (rest.Ref('snapshots', 14), False), (None, True))
    @ddt.unpack
    def test_snapshot_of_another_source(self, source, expected):
        """OBJ-7: it is in the same group, with the same name and id."""
        siblings = [dataclasses.replace(each, source=source)
                    for each in self.siblings()]
        self.assertIs(expected, self.identity.snapshot_among(
            dataclasses.replace(self.snapshot, named=naming.digest('theirs')),
            [], siblings) is not None)

    @ddt.data('cv-2', 'cv-3')
    def test_snapshot_of_another_view(self, of):
        """OBJ-7: both views are in the group of their volume."""
        views = {name: self.array.snapshots.create_view(
            name, self.snapshot, lasting=True) for name in ('cv-2', 'cv-3')}
        self.snapshot = dataclasses.replace(
            self.array.snapshots.create('theirs too', views[of]),
            view=views['cv-2'].view)
        self.assertEqual((of == 'cv-2', ['GET snapshots']), self.found_now(
            named=naming.digest('theirs too'),
            source=objects.SourceNames(volumes=('cv-2',))))

    def test_no_recorded_name(self):
        """The snapshot is older than Cinder's row: it is the managed one."""
        stored = dataclasses.replace(self.snapshot, has_clones=True,
                                     since=self.time)
        self.assertEqual(
            dataclasses.replace(stored, named=naming.digest('theirs')),
            self.identity.snapshot(stored, [self.name + 'x']))

    def test_snapshot_without_has_clones_was_not_managed(self):
        self.assertIsNone(self.identity.snapshot(
            dataclasses.replace(self.snapshot, since=self.time), ['x']))

    def test_snapshot_is_newer_than_the_row(self):
        """The id may have been reused for another snapshot (OBJ-7)."""
        for since in (self.time - 1, None):
            error = self.assertRaises(
                exceptions.ObjectRenamed, self.identity.snapshot,
                dataclasses.replace(self.snapshot, has_clones=True,
                                    since=since), ['x'])
            for text in (f'Snapshot {self.snapshot.snapshot} ', 'theirs',
                         'k2.example.org', 'manage it again.'):
                self.assertIn(text, str(error))

    def test_creation_time_is_not_shown(self):
        siblings = [dataclasses.replace(each, creation_time=None)
                    for each in self.siblings()]
        self.assertRaises(
            exceptions.ObjectRenamed, self.identity.snapshot_among,
            dataclasses.replace(self.snapshot, has_clones=True,
                                since=self.time), ['x'], siblings)

    def test_id_belongs_to_another_snapshot_of_cinder(self):
        own = self.array.snapshots.create(naming.snapshot(ID[::-1]),
                                          self.volume)
        self.assertIsNone(self.identity.snapshot(objects.ArraySnapshot(
            snapshot=own.snapshot, group=own.group, has_clones=True,
            since=2 * self.time), ['x']))
