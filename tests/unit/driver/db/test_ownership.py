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
from unittest import mock
import uuid

from cinder import context
import ddt

from cinder_k2.array import ArraySnapshot
from cinder_k2.array import ArrayVolume
from cinder_k2.driver.db import ownership
from cinder_k2.driver.db import provider_id
from cinder_k2 import rest
from tests.unit.driver import doubles

SYSTEM = doubles.SYSTEM
VOLUME = ArrayVolume(group=5, volume=31)
VIEW = ArrayVolume(group=5, view=40, origin=30)
TAKEN = ArraySnapshot(snapshot=8, group=5)
ID, NAME_ID = (str(uuid.UUID(int=number)) for number in (1, 2))


class OwnershipTest(doubles.TestCase):

    def test_object_takes_precedence_over_names(self):
        found = ownership.Ownership()
        found.add(doubles.Row(id='by-ref'), rest.Ref('volumes', 31), [])
        found.add(doubles.Row(id='by-name'), None, ['a', 'b'])
        self.assertEqual('by-ref', found.of(rest.Ref('volumes', 31), 'a'))
        self.assertEqual('by-name', found.of(rest.Ref('volumes', 1), 'b'))
        self.assertEqual('by-name',
                         found.of(rest.Ref('volumes', 1), None, 'x', 'a'))
        self.assertIsNone(found.of(rest.Ref('snapshots', 31), None, 'x'))

    def test_first_name_takes_precedence(self):
        found = ownership.Ownership()
        found.add(doubles.Row(id='1'), None, ['a'])
        found.add(doubles.Row(id='2'), None, ['b'])
        self.assertEqual('2', found.of(rest.Ref('volumes', 1), 'b', 'a'))

    def test_names_of_a_row_with_an_object_are_ignored(self):
        found = ownership.Ownership()
        found.add(doubles.Row(id='1'), rest.Ref('volumes', 31), ['a'])
        self.assertIsNone(found.of(rest.Ref('volumes', 1), 'a'))


@ddt.ddt
class RowsTest(doubles.TestCase):

    def setUp(self):
        super().setUp()
        self.asked = []
        self.stored = []
        objects = mock.Mock()
        objects.VolumeList.get_all = self.read
        objects.SnapshotList.get_all = self.read
        self.replace(ownership, 'objects', objects)
        with contextlib.ExitStack() as patches:
            patches.enter_context(mock.patch.object(
                context, 'get_admin_context', return_value='admin',
                autospec=True))
            self.addCleanup(patches.pop_all().close)

    def read(self, admin, *, filters):
        """Return the stored rows that were added for these filters."""
        self.assertEqual('admin', admin)
        self.asked.append(filters)
        return [row for wanted, row in self.stored if wanted == filters]

    def volume(self, backing, **more):
        """Return a row with the ids of a volume, or without ids."""
        fields = {'id': ID, 'name_id': NAME_ID, **more}
        return doubles.Row(**{'provider_id': backing and provider_id.encode(
            SYSTEM, backing, fields['name_id']), **fields})

    @ddt.data((VOLUME, rest.Ref('volumes', 31)),
              (VIEW, rest.Ref('snapshots', 40)))
    @ddt.unpack
    def test_given_rows(self, backing, ref):
        found = ownership.volumes(SYSTEM, [self.volume(backing)])
        self.assertEqual(ID, found.of(ref))
        self.assertIsNone(found.of(rest.Ref('x', 1), f'cv-{NAME_ID}'))

    @ddt.data('cv-{}', 'rcv-{}', 'cvg-{}', 'rcvg-{}')
    def test_row_without_ids_is_found_by_name(self, pattern):
        found = ownership.volumes(SYSTEM, [self.volume(None)])
        for key in (ID, NAME_ID):
            self.assertEqual(
                ID, found.of(rest.Ref('x', 1), pattern.format(key)))

    @ddt.data({'provider_id': provider_id.encode('moon', VOLUME, NAME_ID)},
              {'provider_id': provider_id.encode(SYSTEM, VOLUME, 'other')})
    def test_ids_of_another_array_or_volume_are_ignored(self, more):
        found = ownership.volumes(SYSTEM, [self.volume(None, **more)])
        self.assertIsNone(found.of(VOLUME.volume_ref))
        self.assertEqual(ID, found.of(VOLUME.volume_ref, f'cv-{ID}'))

    def test_all_rows_of_the_array(self):
        self.stored = [({'provider_id~': '"system":"sys"'},
                        self.volume(VOLUME))]
        found = ownership.volumes(SYSTEM)
        self.assertEqual(ID, found.of(VOLUME.volume_ref))
        self.assertEqual(1, len(self.asked))

    def test_rows_by_object_id(self):
        self.stored = [({'provider_id~': '"volume":31'},
                        self.volume(VOLUME))]
        found = ownership.volumes(SYSTEM, having=('volume', 31))
        self.assertEqual(ID, found.of(VOLUME.volume_ref))
        self.assertEqual(1, len(self.asked))

    @ddt.data('id', '_name_id')
    def test_rows_by_name(self, field):
        """An id in a name is the id or the name_id of a row."""
        self.stored = [({field: [ID]}, self.volume(VOLUME))]
        found = ownership.volumes(SYSTEM, names=['other', f'cv-{ID}', None])
        self.assertEqual(ID, found.of(VOLUME.volume_ref))

    def test_given_rows_and_names_may_be_iterators(self):
        found = ownership.volumes(SYSTEM, iter([self.volume(VOLUME)]),
                                  names=iter(['x']))
        self.assertEqual(ID, found.of(VOLUME.volume_ref))

    # Snapshots

    def snapshot(self, backing, id=ID):
        return doubles.Row(id=id, provider_id=backing and provider_id.encode(
            SYSTEM, backing))

    def test_given_snapshots(self):
        found = ownership.snapshots(SYSTEM, [
            self.snapshot(TAKEN), self.snapshot(None, NAME_ID)])
        self.assertEqual(ID, found.of(TAKEN.ref, f'cs-{NAME_ID}'))
        self.assertEqual(NAME_ID, found.of(rest.Ref('snapshots', 1),
                                           f'cs-{NAME_ID}'))

    def test_all_snapshots_of_the_array(self):
        self.stored = [({'provider_id~': '"system":"sys"'},
                        self.snapshot(TAKEN))]
        self.assertEqual(ID, ownership.snapshots(SYSTEM).of(TAKEN.ref))

    def test_snapshots_by_object_id(self):
        self.stored = [({'provider_id~': '"snapshot":8'},
                        self.snapshot(TAKEN))]
        found = ownership.snapshots(SYSTEM, having=('snapshot', 8))
        self.assertEqual(ID, found.of(TAKEN.ref))

    def test_snapshots_by_name(self):
        """Cinder filters snapshots by a single id only."""
        self.stored = [({'id': ID}, self.snapshot(TAKEN))]
        found = ownership.snapshots(
            SYSTEM, names=[f'cs-{NAME_ID}', f'cs-{ID}'])
        self.assertEqual(ID, found.of(TAKEN.ref))
