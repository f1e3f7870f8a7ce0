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

"""References to existing objects, and lists of manageable objects."""

import json
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from cinder_k2.array import inventory
from cinder_k2.driver.db import ownership
from cinder_k2.driver.operations import manage
from cinder_k2.driver.operations import manageable
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types

VOLUMES = st.lists(st.builds(
    rest.Volume, id=st.integers(1, 99), name=st.text(min_size=1, max_size=4),
    size=st.integers(1, 5 << 20)), unique_by=lambda v: v.name)
ORDER = st.lists(st.tuples(st.sampled_from(['reference', 'size']),
                           st.sampled_from(['asc', 'desc'])), max_size=2)


class ReferenceTest(unittest.TestCase):

    def test_valid_references(self):
        for given_, name, key in (
                ({'source-name': 'a'}, 'a', None),
                ({'source-name': '7'}, '7', None),
                ({'source-name': ' a '}, ' a ', None),
                ({'source-id': '31'}, None, 31),
                ({'source-id': 31}, None, 31)):
            self.assertEqual(inventory.Reference(name=name, id=key),
                             manageable.reference(given_))

    def test_invalid_references(self):
        for given_ in ({}, None, 'a', [], {'source-name': ''}, {'name': 'a'},
                       {'source-name': None}, {'source-id': None},
                       {'source-id': '-1'}, {'source-id': '\u0663'},
                       {'source-id': '1.0'}, {'source-id': 'volumes/1'},
                       {'source-id': '1', 'source-name': 'a'},
                       {'source-name': 'a', 'other': 'b'}):
            self.assertRaises(exceptions.NotManageable,
                              manageable.reference, given_)

    def test_messages(self):
        for given_, words in (
                ({}, '^give either source-name or source-id, and nothing '
                     'else$'),
                ({'source-id': 'x'}, '^source-name is a name on the array, '
                                     'source-id the number that')):
            with self.assertRaisesRegex(exceptions.NotManageable, words):
                manageable.reference(given_)

    def test_reasons_are_joined(self):
        manageable.check([])
        with self.assertRaisesRegex(exceptions.NotManageable,
                                    '^it is a; it is b$'):
            manageable.check(['it is a', 'it is b'])


class VolumeEntryTest(unittest.TestCase):

    OWNED = '0b1c2d3e-0000-4000-8000-000000000001'

    def entry(self, name='lun', owners=None, mappings=0, **group):
        found = inventory.FoundVolume(
            rest.Volume.from_json({
                'id': 6, 'name': name, 'size': 3 * (1 << 20) + 1,
                'description': None,
                'volume_group': {'ref': '/volume_groups/4'}}),
            rest.VolumeGroup(id=4, name='g', **group), mappings)
        return manageable.volume_entry(found, owners or _owners())

    def test_manageable_volume(self):
        """The size is rounded up to GiB."""
        self.assertEqual({
            'reference': {'source-name': 'lun'}, 'size': 4,
            'safe_to_manage': True, 'reason_not_safe': None,
            'cinder_id': None, 'extra_info': {
                'source-id': '6', 'volume_group': 'g', 'snapshots': '0',
                volume_types.DEDUP.key: 'dedup'}}, self.entry())

    def test_attributes_of_the_volume_group(self):
        extra = self.entry(snapshots_count=3, is_dedup=False)['extra_info']
        self.assertEqual(('3', 'nodedup'), (
            extra['snapshots'], extra[volume_types.DEDUP.key]))
        self.assertEqual('dedup', self.entry(is_dedup=True)['extra_info'][
            volume_types.DEDUP.key])

    def test_mapped_volume(self):
        entry = self.entry(mappings=2)
        self.assertIs(False, entry['safe_to_manage'])
        self.assertIn('mapped to 2 hosts', entry['reason_not_safe'])

    def test_managed_volume(self):
        name = naming.volume(self.OWNED)
        for owners in (_owners(rest.Ref('volumes', 6)), _owners(name)):
            entry = self.entry(name, owners, mappings=1)
            self.assertEqual('owner', entry['cinder_id'])
            self.assertRegex(entry['reason_not_safe'],
                             '^Cinder manages it already; it is mapped')
            self.assertNotIn('note', entry['extra_info'])

    def test_volume_that_another_cinder_may_manage(self):
        extra = self.entry(naming.volume(self.OWNED))['extra_info']
        self.assertRegex(extra['note'], '^named by a Cinder, maybe another '
                                        'one that still has it$')


class SnapshotEntryTest(unittest.TestCase):

    VOLUME, VIEW = rest.Ref('volumes', 6), rest.Ref('snapshots', 8)

    def found(self, source=None, images=1, **fields):
        return inventory.FoundSnapshot(
            rest.Snapshot(id=9, name='g:s', short_name='s', source=source
                          or rest.Ref('volume_groups', 4),
                          is_auto_deleteable=False, **fields),
            tuple(rest.Volsnap(id=n, short_name=f'v{n}', source=self.VOLUME)
                  for n in range(images)))

    def entry(self, found, owners=None, sources=None):
        return manageable.snapshot_entry(
            found, owners or _owners(), sources or _owners(self.VOLUME))

    def test_manageable_snapshot(self):
        found = self.found(creation_time=86405.4,
                           volsnaps_provisioned_capacity=2 << 20)
        expected = {
            'reference': {'source-name': 'g:s'}, 'size': 2,
            'safe_to_manage': True, 'reason_not_safe': None,
            'cinder_id': None, 'source_reference': {'source-name': 'v0'},
            'extra_info': {'source-id': '9',
                           'created_at': '1970-01-02T00:00:05+00:00'}}
        self.assertEqual(expected, self.entry(found))

    def test_snapshot_with_missing_attributes(self):
        entry = self.entry(inventory.FoundSnapshot(
            rest.Snapshot(id=9, is_auto_deleteable=False),
            (rest.Volsnap(id=0, source=self.VOLUME), rest.Volsnap(id=1))))
        self.assertEqual(({'source-name': ''}, 0, {'source-id': '9'}), (
            entry['reference'], entry['size'], entry['extra_info']))
        self.assertEqual({'source-name': ', '}, entry['source_reference'])
        self.assertEqual('it holds 2 volumes, not one',
                         entry['reason_not_safe'])

    def test_managed_snapshot(self):
        for owners in (_owners(rest.Ref('snapshots', 9)), _owners('s')):
            entry = self.entry(self.found(), owners)
            self.assertEqual(('owner', 'Cinder manages it already'), (
                entry['cinder_id'], entry['reason_not_safe']))

    def test_snapshot_of_an_unmanaged_volume(self):
        entry = self.entry(self.found(), sources=_owners('other'))
        self.assertEqual('Cinder does not manage its volume',
                         entry['reason_not_safe'])

    def test_snapshot_of_a_managed_volume(self):
        """Its source is a managed view, or it contains a managed volume."""
        for found, sources, ours in (
                (self.found(self.VIEW), [self.VIEW], True),
                (self.found(self.VIEW), [self.VOLUME, 'v0'], False),
                (self.found(), [self.VOLUME], True),
                (self.found(), ['v0'], True),
                (self.found(images=2), ['v1'], True),
                (self.found(), ['v1', self.VIEW], False),
                (self.found(images=0), [self.VOLUME], False)):
            self.assertIs(ours, manageable.is_of_ours(
                found, _owners(*sources)))

    def test_image_without_a_source(self):
        found = inventory.FoundSnapshot(
            rest.Snapshot(id=9), (rest.Volsnap(id=0, short_name='v0'),))
        self.assertFalse(manageable.is_of_ours(found, _owners('v0')))


def _owners(*those):
    """Return the owner of objects, given by reference or name."""
    owners = ownership.Ownership()
    for one in those:
        ref = one if isinstance(one, rest.Ref) else None
        owners.add(mock.Mock(id='owner'), ref, [] if ref else [one])
    return owners


class PageTest(unittest.TestCase):

    def pages(self, volumes, order, limit, **more):
        array = mock.MagicMock()
        driver = manage.Manage(array, mock.Mock(), mock.Mock())
        array.inventory.volumes.return_value = [
            inventory.FoundVolume(v, rest.VolumeGroup(id=1, name='g'), 0)
            for v in volumes]
        with mock.patch.object(manage.ownership, 'volumes',
                               autospec=True) as owners:
            owners.return_value.of.return_value = None
            return driver.get_manageable_volumes(
                [], limit=limit, **{'marker': None, 'offset': None, **more},
                sort_keys=[key for key, _ in order],
                sort_dirs=[direction for _, direction in order])

    @given(VOLUMES, ORDER, st.integers(1, 4))
    def test_pages_add_up_to_the_whole_list(self, volumes, order, limit):
        whole = self.pages(volumes, order, None)
        self.assertEqual(len(volumes), len(whole))
        read, marker = [], None
        while page := self.pages(volumes, order, limit, marker=marker):
            self.assertLessEqual(len(page), limit)
            read += page
            marker = json.dumps(page[-1]['reference'])
        self.assertEqual(whole, read)

    @given(VOLUMES, ORDER)
    def test_sort_order(self, volumes, order):
        found = self.pages(volumes, order, None)
        for key, direction in order[:1]:
            values = [e[key] if key == 'size' else e[key]['source-name']
                      for e in found]
            self.assertEqual(sorted(values, reverse=direction == 'desc'),
                             values)

    @given(VOLUMES, st.integers(0, 5), st.integers(0, 5))
    def test_offset_and_limit(self, volumes, offset, limit):
        order = [('reference', 'asc')]
        whole = self.pages(volumes, order, None)
        self.assertEqual(whole[offset:offset + limit], self.pages(
            volumes, order, limit, offset=offset))
