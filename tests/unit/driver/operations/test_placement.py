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

"""The volume group of a new volume, and checks of groups and types."""

from unittest import mock

from cinder.volume import group_types
import ddt
from oslotest import base

from cinder_k2.array import ArrayVolume
from cinder_k2.array import groups
from cinder_k2.driver.operations import placement
from cinder_k2 import exceptions
from cinder_k2 import naming
from cinder_k2 import rest
from cinder_k2 import volume_types
from tests.unit.driver import autospec
from tests.unit.driver import rows

MADE = ArrayVolume(group=1, volume=2)
NAME = naming.consistency_group(rows.GROUP_ID)
SNAPSHOTS = 'consistent_group_snapshot_enabled'
REPLICATION = 'consistent_group_replication_enabled'
NODEDUP = {'kaminario:thin_prov_type': 'nodedup'}
REPLICATED = {'kaminario:replication': 'enabled'}
REFUSALS = (rest.Refused('no'), rest.NotFound('gone'),
            exceptions.CloneNotSupported('no way'))


class PlacementCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.specs = {SNAPSHOTS: '<is> True'}
        autospec.patched(
            self, group_types, 'get_group_type_specs',
            side_effect=lambda group_type, key=False: self.specs.get(key))
        self.volume = rows.volume()
        self.group = rows.group([self.volume])


@ddt.ddt
class IntoGroupTest(PlacementCase):

    def setUp(self):
        super().setUp()
        self.journal = autospec.Journal()
        self.array = autospec.array(self.journal, 'groups')
        self.journal.record(self.array.groups.ensure, 'ensure')
        self.array.groups.ensure.return_value = groups.Group(7, True)
        self.make = mock.Mock(return_value=MADE)

    def place(self):
        return placement.Placement(self.array).into_group(self.volume,
                                                          self.make)

    def test_volume_without_a_group(self):
        self.volume.group_id = self.volume.group = None
        self.assertIs(MADE, self.place())
        self.make.assert_called_once_with(None)
        self.array.groups.ensure.assert_not_called()

    def test_generic_group(self):
        self.specs.clear()
        self.assertIs(MADE, self.place())
        self.make.assert_called_once_with(None)

    @ddt.data(({}, True), (NODEDUP, False))
    @ddt.unpack
    def test_consistency_group(self, specs, dedup):
        self.volume.volume_type = rows.volume_type(specs)
        self.array.groups.ensure.return_value = groups.Group(7, dedup)
        self.assertIs(MADE, self.place())
        self.make.assert_called_once_with(7)
        self.array.groups.ensure.assert_called_once_with(NAME, dedup)

    def test_group_type_with_consistent_replication(self):
        self.specs = {REPLICATION: '<is> True'}
        self.place()
        self.make.assert_called_once_with(7)

    def test_replicated_group_is_refused(self):
        self.group.replication_status = 'enabled'
        self.assertRaises(exceptions.GroupNotSupported, self.place)
        self.make.assert_not_called()

    def test_group_with_different_deduplication(self):
        self.array.groups.ensure.return_value = groups.Group(7, False)
        error = self.assertRaises(exceptions.GroupNotSupported, self.place)
        self.assertIn(NAME, str(error))
        self.make.assert_not_called()

    def test_replicated_type_in_a_consistency_group_is_refused(self):
        self.volume.volume_type = rows.volume_type(REPLICATED)
        error = self.assertRaises(exceptions.GroupNotSupported, self.place)
        self.assertEqual(
            f'the type of volume {self.volume.id} asks for replication, but '
            'a consistency group is replicated as a whole. Use a type '
            f'without it, or a group type with {REPLICATION}.', str(error))
        self.make.assert_not_called()

    def test_replicated_type_in_a_replicated_consistency_group(self):
        self.volume.volume_type = rows.volume_type(REPLICATED)
        self.specs[REPLICATION] = '<is> True'
        self.assertIs(MADE, self.place())

    @ddt.data(*REFUSALS)
    def test_cached_id_of_a_recreated_group(self, refusal):
        """The volume group is looked up again, and the volume created."""
        self.array.groups.ensure.side_effect = [groups.Group(7, True),
                                                groups.Group(8, True)]
        self.make.side_effect = [refusal, MADE]
        self.assertIs(MADE, self.place())
        self.assertEqual([mock.call(7), mock.call(8)], self.make.mock_calls)
        self.assertEqual([mock.call(NAME, True)] * 2,
                         self.array.groups.ensure.mock_calls)

    def test_second_lookup_has_its_own_deadline(self):
        self.make.side_effect = REFUSALS[0]
        self.assertRaises(rest.Refused, self.place)
        self.assertEqual(['ensure', '+deadline fresh=True', 'ensure',
                          '-deadline'], self.journal.events)

    @ddt.data(*REFUSALS)
    def test_refusal_with_the_current_group_id(self, refusal):
        self.make.side_effect = refusal
        error = self.assertRaises(type(refusal), self.place)
        self.assertIs(refusal, error)
        self.make.assert_called_once_with(7)

    def test_full_group(self):
        self.array.groups.ensure.return_value = groups.Group(
            7, True, groups.MOST_VOLUMES)
        self.make.side_effect = rest.Refused('too many')
        error = self.assertRaises(exceptions.GroupNotSupported, self.place)
        self.assertIn(NAME, str(error))
        self.assertIn('too many', str(error))

    def test_other_errors_do_not_look_up_the_group_again(self):
        self.make.side_effect = rest.Unreachable('lost')
        self.assertRaises(rest.Unreachable, self.place)
        self.array.groups.ensure.assert_called_once_with(NAME, True)


@ddt.ddt
class CheckTest(PlacementCase):

    @ddt.data((None, True), (None, False), (True, True), (False, False))
    @ddt.unpack
    def test_matching_dedup(self, has, wanted):
        placement.check_dedup(self.volume, NAME, groups.Group(7, has), wanted)

    @ddt.data((True, 'nodedup', 'dedup'), (False, 'dedup', 'nodedup'))
    @ddt.unpack
    def test_different_dedup(self, has, wanted, made):
        error = self.assertRaises(
            exceptions.GroupNotSupported, placement.check_dedup, self.volume,
            NAME, groups.Group(7, has), not has)
        self.assertEqual(
            f'the type of volume {self.volume.id} has '
            f'{volume_types.DEDUP.key} {wanted}, but volume group {NAME} on '
            f'the array was made with {made}, which holds for all volumes '
            'in it. Use another type or group.', str(error))

    @ddt.data(SNAPSHOTS, REPLICATION)
    def test_consistency_group_type(self, key):
        self.specs = {key: '<is> True'}
        self.assertIs(True, placement.is_consistent(self.group))
        placement.check_consistent(self.group)

    def test_generic_group_type(self):
        self.specs = {}
        self.assertIs(False, placement.is_consistent(self.group))
        self.assertRaises(NotImplementedError, placement.check_consistent,
                          self.group)

    @ddt.data(None, 'disabled', 'not-capable')
    def test_unreplicated_group(self, status):
        self.group.replication_status = status
        placement.check_unreplicated(self.group)

    @ddt.data('enabled', 'error', 'failed-over', 'disabling')
    def test_replicated_group(self, status):
        self.group.replication_status = status
        error = self.assertRaises(
            exceptions.GroupNotSupported, placement.check_unreplicated,
            self.group)
        self.assertEqual(
            f'group {rows.GROUP_ID} is replicated, so its volumes cannot '
            'change. Disable its replication, change it, and enable it '
            'again.', str(error))

    @ddt.data(([], True), ([{}], True), ([{}, {'a': 'b'}], True),
              ([NODEDUP], False), ([NODEDUP, NODEDUP], False), ([None], True))
    @ddt.unpack
    def test_dedup_of_the_types_of_a_group(self, kinds, expected):
        self.group.volume_types = self.kinds(kinds)
        self.assertIs(expected, placement.dedup_of(self.group))

    def test_types_with_different_dedup(self):
        self.group.volume_types = self.kinds([{}, NODEDUP])
        error = self.assertRaises(
            exceptions.GroupNotSupported, placement.dedup_of, self.group)
        self.assertEqual(
            f'its volume types differ in {volume_types.DEDUP.key}, which is '
            'one for all volumes of a consistency group. Make a group for '
            'those with dedup and another for those with nodedup.',
            str(error))

    def kinds(self, extra_specs):
        kinds = [rows.volume_type(each) for each in extra_specs]
        for kind, each in zip(kinds, extra_specs, strict=True):
            kind.extra_specs = each
        return kinds
